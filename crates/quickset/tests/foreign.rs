//! TLS that the application configured itself.

#![cfg(feature = "self-signed")]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use quickset::pki_types::pem::PemObject;
use quickset::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer};
use quickset::provider::{Ticketer, cipher_suite, default_provider, sign};
use quickset::quic::{CryptoSession, Version};
use quickset::rustls::client::Resumption;
use quickset::rustls::crypto::CryptoProvider;
use quickset::rustls::server::{
    ResolvesServerCertUsingSni, ServerSessionMemoryCache, StoresServerSessions, WebPkiClientVerifier,
};
use quickset::rustls::sign::CertifiedKey;
use quickset::rustls::version::{TLS12, TLS13};
use quickset::rustls::{self, RootCertStore, SupportedCipherSuite, Tls13CipherSuite};
use quickset::{
    ClientAuth, ClientConfig, Closed, ConfigError, ConnectError, Connection, EarlyData, Endpoint, Identity,
    KeyGroup, Peer, ServerConfig, Trust,
};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, KeyPair, KeyUsagePurpose};

#[tokio::test]
async fn names_have_certificates_of_their_own() {
    let names = ["a.example", "b.example"];
    let identities = names.map(|name| Identity::self_signed([name]).unwrap());
    let mut resolver = ResolvesServerCertUsingSni::new();
    for (name, identity) in names.iter().zip(&identities) {
        resolver.add(name, certified(identity)).unwrap();
    }
    let mut tls = server_builder().with_no_client_auth().with_cert_resolver(Arc::new(resolver));
    tls.alpn_protocols = vec![b"test/1".to_vec()];
    let config = ServerConfig::from_rustls(Arc::new(tls)).unwrap();
    assert!(config.identity().is_none(), "it depends");
    let server = serve(&config);
    for (name, identity) in names.iter().zip(&identities) {
        // RFC 9001 §4.4: by the name and an authority, which is itself here.
        let trust = Trust::roots(identity.certificate_pem()).unwrap();
        let (near, far) = meet(&server, name, &ClientConfig::new(trust, &["test/1"]).unwrap()).await;
        assert_eq!(Peer::of(&near).fingerprint(), Some(identity.fingerprint()));
        assert_eq!(far.server_name().as_deref(), Some(*name));
        assert_eq!(near.server_name(), None);
    }
    // One certificate for all from now on.
    let next = Identity::self_signed(["c.example"]).unwrap();
    config.set_identity(next.clone());
    assert_eq!(config.identity().unwrap().fingerprint(), next.fingerprint());
    let (near, _) = meet(&server, "a.example", &pinned(&next)).await;
    assert_eq!(Peer::of(&near).fingerprint(), Some(next.fingerprint()));
}

#[tokio::test]
async fn clients_have_certificates_of_an_authority_that_it_has_not_revoked() {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    ca.distinguished_name.push(DnType::CommonName, "an authority");
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca = ca.self_signed(&ca_key).unwrap();
    let [good, bad] = [1u64, 2].map(|serial| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["client".into()]).unwrap();
        params.serial_number = Some(serial.into());
        let certificate = params.signed_by(&key, &ca, &ca_key).unwrap();
        Identity::from_pem(&certificate.pem(), &key.serialize_pem()).unwrap()
    });
    let revoked = rcgen::RevokedCertParams {
        serial_number: 2u64.into(),
        revocation_time: rcgen::date_time_ymd(2024, 1, 1),
        reason_code: None,
        invalidity_date: None,
    };
    let crl = rcgen::CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2024, 1, 1),
        next_update: rcgen::date_time_ymd(2124, 1, 1),
        crl_number: 1u64.into(),
        issuing_distribution_point: None,
        revoked_certs: vec![revoked],
        key_identifier_method: rcgen::KeyIdMethod::Sha256,
    };
    let crl = CertificateRevocationListDer::from(crl.signed_by(&ca, &ca_key).unwrap().der().to_vec());
    let mut roots = RootCertStore::empty();
    roots.add(ca.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider())
        .with_crls([crl])
        .build()
        .unwrap();

    let own = Identity::self_signed(["localhost"]).unwrap();
    let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(certified(&own)));
    let mut tls = server_builder().with_client_cert_verifier(verifier).with_cert_resolver(resolver);
    tls.alpn_protocols = vec![b"test/1".to_vec()];
    let config = ServerConfig::from_rustls(tls).unwrap();
    let server = serve(&config);

    let (_, far) = meet(&server, "localhost", &pinned(&own).with_identity(good.clone())).await;
    assert_eq!(Peer::of(&far).fingerprint(), Some(good.fingerprint()));
    // RFC 8446 §6.2: certificate_revoked is 44, certificate_required 116, and unknown_ca 48.
    let stranger = Identity::self_signed(["client"]).unwrap();
    for (client, alert) in [
        (pinned(&own).with_identity(bad), 44),
        (pinned(&own), 116),
        (pinned(&own).with_identity(stranger), 48),
    ] {
        assert_eq!(turned_away(&server, &client).await, 0x100 + alert);
    }
    let weaker = config.with_client_auth(ClientAuth::None);
    assert_eq!(weaker.err(), Some(ConfigError::OwnVerifier), "a verifier that is there stays");
}

#[tokio::test]
async fn servers_are_judged_by_the_application() {
    let own = Identity::self_signed(["localhost"]).unwrap();
    let other = Identity::self_signed(["localhost"]).unwrap();
    let server = serve(&ServerConfig::new(own.clone(), &["test/1"]).unwrap());
    let config = |identity: &Identity| {
        let mut roots = RootCertStore::empty();
        roots.add(certificate(identity)).unwrap();
        let mut tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"other/1".to_vec(), b"test/1".to_vec()];
        tls.enable_sni = false;
        ClientConfig::from_rustls(tls).unwrap()
    };
    let (near, far) = meet(&server, "localhost", &config(&own)).await;
    assert_eq!(near.alpn().as_deref(), Some(&b"test/1"[..]), "of those in the configuration");
    assert_eq!(far.server_name(), None);
    let client = Endpoint::client().unwrap();
    let refused = soon(client.connect(server.local_addr(), "localhost", &config(&other))).await;
    assert!(matches!(refused, Err(ConnectError::Failed(Closed::Failed(_)))), "{refused:?}");
}

/// Keeps sessions, counts them, and hands each out as often as it is asked to: no register for early data.
#[derive(Debug)]
struct Counted(Arc<dyn StoresServerSessions>, AtomicUsize);

impl Counted {
    fn new() -> Self {
        Self(ServerSessionMemoryCache::new(100), AtomicUsize::new(0))
    }
}

impl StoresServerSessions for Counted {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.put(key, value)
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.0.get(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[tokio::test]
async fn sessions_are_kept_where_the_application_says() {
    let own = Identity::self_signed(["localhost"]).unwrap();
    let store = Arc::new(Counted::new());
    let mut tls = server_tls(&own);
    tls.session_storage = store.clone();
    let config = ServerConfig::from_rustls(tls).unwrap();
    // Two servers, and what the one gave the other takes.
    let client = light(&own);
    let [first, second] = [config.quic(), config.quic()].map(|quic| quic.crypto);
    let flight = |crypto: &Arc<dyn quickset::quic::ServerCrypto>, client: &ClientConfig| {
        let mut near = client.quic().crypto.clone().start(Version::V1, "localhost", PARAMS.into()).unwrap();
        shake(&mut *near, &mut *crypto.clone().start(Version::V1, PARAMS.into()))
    };
    let whole = flight(&first, &client);
    assert!(store.1.load(Ordering::Relaxed) > 0);
    assert!(flight(&second, &client) < whole / 2, "no certificate is sent again");
    // Ours, when early data is taken.
    let before = store.1.load(Ordering::Relaxed);
    flight(&config.with_early_data(EarlyData::default()).quic().crypto, &pinned(&own));
    assert_eq!(store.1.load(Ordering::Relaxed), before);
}

/// RFC 8446 §8.1: with the register of ours, whatever the application would keep sessions in.
#[test]
fn early_data_is_taken_once_and_only_where_it_was_asked_for_here() {
    let own = Identity::self_signed(["localhost"]).unwrap();
    let mut tls = server_tls(&own);
    tls.max_early_data_size = u32::MAX;
    tls.session_storage = Arc::new(Counted::new());
    let plain = ServerConfig::from_rustls(tls.clone()).unwrap();
    let taking = plain.clone().with_early_data(EarlyData::default());
    tls.ticketer = Ticketer::new().unwrap();
    let carried = ServerConfig::from_rustls(tls).unwrap().with_early_data(EarlyData::default());

    let mut roots = RootCertStore::empty();
    roots.add(certificate(&own)).unwrap();
    let mut tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"test/1".to_vec()];
    tls.enable_early_data = true;
    tls.resumption = Resumption::disabled();
    let silent = ClientConfig::from_rustls(tls).unwrap();
    let eager = silent.clone().with_early_data(EarlyData::default()).unwrap();

    for (client, server, is_early) in [
        (&eager, &taking, true),
        (&eager, &carried, true),
        (&silent, &taking, false),
        (&eager, &plain, false),
    ] {
        let (crypto, server) = (client.quic().crypto.clone(), server.quic().crypto);
        let begin = || crypto.clone().start(Version::V1, "localhost", PARAMS.into()).unwrap();
        shake(&mut *begin(), &mut *server.clone().start(Version::V1, PARAMS.into()));
        let mut near = begin();
        assert_eq!(near.early_keys().is_some(), is_early);
        let mut hello = Vec::new();
        near.write(&mut hello);
        let taken = [(); 3].map(|()| {
            let mut far = server.clone().start(Version::V1, PARAMS.into());
            far.read(&hello).unwrap();
            far.early_keys().is_some()
        });
        assert_eq!(taken, [is_early, false, false], "the same hello again is a replay");
    }
}

/// RFC 9001 §4.2, §4.6.1, §8.1.
#[test]
fn what_quic_cannot_use_is_refused_with_the_reason() {
    let own = Identity::self_signed(["localhost"]).unwrap();
    let server = |change: &dyn Fn(&mut rustls::ServerConfig)| {
        let mut tls = server_tls(&own);
        change(&mut tls);
        ServerConfig::from_rustls(tls).err()
    };
    assert_eq!(server(&|_| {}), None);
    assert_eq!(server(&|tls| tls.alpn_protocols.clear()), Some(ConfigError::NoProtocol));
    assert_eq!(server(&|tls| tls.alpn_protocols.push(Vec::new())), Some(ConfigError::BadProtocol));
    assert_eq!(server(&|tls| tls.max_early_data_size = 16384), Some(ConfigError::EarlySize(16384)));
    assert_eq!(server(&|tls| tls.max_early_data_size = u32::MAX), None);

    let SupportedCipherSuite::Tls13(suite) = cipher_suite::TLS13_AES_128_GCM_SHA256 else {
        panic!("it is one")
    };
    let common = rustls::crypto::CipherSuiteCommon { ..suite.common };
    let without: &'static Tls13CipherSuite = Box::leak(Box::new(Tls13CipherSuite {
        common,
        hkdf_provider: suite.hkdf_provider,
        aead_alg: suite.aead_alg,
        quic: None,
    }));
    let poor =
        CryptoProvider { cipher_suites: vec![SupportedCipherSuite::Tls13(without)], ..default_provider() };
    for (provider, versions, why) in
        [(poor, &[&TLS13], ConfigError::NoQuicSuite), (default_provider(), &[&TLS12], ConfigError::NoTls13)]
    {
        let provider = Arc::new(provider);
        let mut tls = rustls::ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(versions)
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate(&own)], key(&own))
            .unwrap();
        tls.alpn_protocols = vec![b"test/1".to_vec()];
        let mut client = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        assert_eq!(ClientConfig::from_rustls(client.clone()).err(), Some(ConfigError::NoProtocol));
        client.alpn_protocols = vec![b"test/1".to_vec()];
        let refused = [ServerConfig::from_rustls(tls).err(), ClientConfig::from_rustls(client).err()];
        for refused in refused.map(Option::unwrap) {
            assert_eq!(refused, why);
            assert!(refused.to_string().contains("TLS 1.3"), "{refused}");
        }
    }
}

/// A server forgets nobody for the clients that came since.
#[test]
fn a_busy_server_resumes_who_was_here_long_ago() {
    let own = Identity::self_signed(["localhost"]).unwrap();
    let config = ServerConfig::new(own.clone(), &["test/1"]).unwrap();
    let server = config.quic().crypto;
    let visit = |server: &Arc<dyn quickset::quic::ServerCrypto>, client: &ClientConfig| {
        let mut near = client.quic().crypto.clone().start(Version::V1, "localhost", PARAMS.into()).unwrap();
        shake(&mut *near, &mut *server.clone().start(Version::V1, PARAMS.into()))
    };
    let first = light(&own);
    let whole = visit(&server, &first);
    for _ in 0..400 {
        visit(&server, &light(&own));
    }
    assert!(visit(&server, &first) < whole / 2, "no certificate is sent again");
    // The keys of tickets are those of one endpoint: another one may ask more of clients.
    let insisting = config.with_client_auth(ClientAuth::Mandatory).unwrap().quic().crypto;
    let before = visit(&insisting, &light(&own));
    assert!(visit(&insisting, &first) > before / 2, "a ticket of an endpoint that asked for nothing");
}

/// A client whose share, and so the server's, is small beside a certificate.
fn light(identity: &Identity) -> ClientConfig {
    pinned(identity).with_groups(&[KeyGroup::X25519]).unwrap()
}

/// Carries handshake bytes until nobody has more to say, and returns how many were the server's before the
/// client was done.
fn shake(near: &mut dyn CryptoSession, far: &mut dyn CryptoSession) -> usize {
    let mut sent = 0;
    for _ in 0..5 {
        carry(near, far);
        let counts = near.is_handshaking();
        sent += carry(far, near) * usize::from(counts);
    }
    sent
}

/// What the one has to say, a level at a time, and how many bytes that is.
fn carry(from: &mut dyn CryptoSession, to: &mut dyn CryptoSession) -> usize {
    let mut sent = 0;
    loop {
        let mut bytes = Vec::new();
        let more = from.write(&mut bytes).is_some();
        sent += bytes.len();
        if to.read(&bytes).is_err() || !more {
            return sent;
        }
    }
}

/// Empty connection ids, which is the least that a server says (RFC 9000 §18.2).
const PARAMS: [u8; 4] = [0, 0, 0xf, 0];

fn server_tls(identity: &Identity) -> rustls::ServerConfig {
    let mut tls = server_builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate(identity)], key(identity))
        .unwrap();
    tls.alpn_protocols = vec![b"test/1".to_vec()];
    tls
}

fn server_builder() -> rustls::ConfigBuilder<rustls::ServerConfig, rustls::WantsVerifier> {
    rustls::ServerConfig::builder_with_provider(provider()).with_protocol_versions(&[&TLS13]).unwrap()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(default_provider())
}

fn certificate(identity: &Identity) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(identity.certificate_pem().as_bytes()).unwrap()
}

fn key(identity: &Identity) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(identity.private_key_pem().as_bytes()).unwrap()
}

fn certified(identity: &Identity) -> CertifiedKey {
    CertifiedKey::new(vec![certificate(identity)], sign::any_supported_type(&key(identity)).unwrap())
}

fn pinned(identity: &Identity) -> ClientConfig {
    ClientConfig::new(Trust::pinned(identity.fingerprint()), &["test/1"]).unwrap()
}

fn serve(config: &ServerConfig) -> Endpoint {
    Endpoint::server(([127, 0, 0, 1], 0).into(), config).unwrap()
}

/// Both ends of a connection.
async fn meet(server: &Endpoint, name: &str, config: &ClientConfig) -> (Connection, Connection) {
    let client = Endpoint::client().unwrap();
    let connecting = client.connect(server.local_addr(), name, config);
    let (near, far) = soon(async { tokio::join!(connecting, server.accept()) }).await;
    (near.unwrap(), far.unwrap())
}

/// The code with which the server ended the handshake.
async fn turned_away(server: &Endpoint, config: &ClientConfig) -> u64 {
    let client = Endpoint::client().unwrap();
    // A client is done with the handshake before the server has judged it.
    let ended = match soon(client.connect(server.local_addr(), "localhost", config)).await {
        Ok(connection) => soon(connection.closed()).await,
        Err(ConnectError::Failed(closed)) => closed,
        Err(other) => panic!("{other}"),
    };
    let Closed::ByPeer(error) = ended else { panic!("{ended}") };
    error.code.0
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it does not take that long")
}
