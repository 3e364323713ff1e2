//! Who is believed, and who is not, in whole handshakes over the loopback.

#![cfg(feature = "self-signed")]

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use quickset::{
    ClientAuth, ClientConfig, Closed, ConnectError, Connection, Endpoint, Fingerprint, HandshakeFault,
    Identity, Peer, ServerConfig, SocketConfig, TransportError, TransportErrorCode, Trust, provider,
};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

const ALPN: &[&str] = &["test/1"];

#[tokio::test]
async fn a_pinned_key_is_believed_whatever_the_name() {
    let identity = Identity::self_signed(["some.host"]).unwrap();
    let pin = identity.fingerprint();
    let server = serve(&ServerConfig::new(identity, ALPN).unwrap());
    let (client, _) = connect(&server, "another.host", Trust::pinned(pin)).await.unwrap();
    assert_eq!(Peer::of(&client).fingerprint(), Some(pin));
    assert_eq!(Peer::of(&client).certificates().unwrap().len(), 1);
    assert_eq!(client.alpn().as_deref(), Some(&b"test/1"[..]));
    // The key of before, and the one of today.
    let other = Identity::self_signed(["x"]).unwrap().fingerprint();
    connect(&server, "some.host", Trust::pinned_any([other, pin])).await.unwrap();
}

/// RFC 6066 §3: host names, and no addresses.
#[tokio::test]
async fn a_server_knows_the_name_that_it_was_asked_for() {
    let server = serve(&ServerConfig::new(Identity::self_signed(["x"]).unwrap(), ALPN).unwrap());
    let config = ClientConfig::new(Trust::insecure(), ALPN).unwrap();
    let client = Endpoint::client().unwrap();
    // The second time a session is resumed.
    for (name, known) in
        [("Some.Host", Some("some.host")), ("Some.Host", Some("some.host")), ("127.0.0.1", None)]
    {
        let connecting = client.connect(server.local_addr(), name, &config);
        let (near, far) = soon(async { tokio::join!(connecting, server.accept()) }).await;
        let (near, far) = (near.unwrap(), far.unwrap());
        assert_eq!(far.server_name().as_deref(), known, "{name}");
        assert_eq!(near.server_name(), None, "it is the client's to ask");
        // Tickets come before what is sent.
        soon(far.open_uni()).await.unwrap().finish().unwrap();
        soon(near.accept_uni()).await.unwrap();
    }
}

#[tokio::test]
async fn another_key_is_not() {
    let server = serve(&ServerConfig::new(Identity::self_signed(["localhost"]).unwrap(), ALPN).unwrap());
    let other = Identity::self_signed(["localhost"]).unwrap().fingerprint();
    refused(connect(&server, "localhost", Trust::pinned(other)).await.err());
    refused(connect(&server, "localhost", Trust::pinned_any([])).await.err());
    connect(&server, "localhost", Trust::insecure()).await.unwrap();
}

#[tokio::test]
async fn another_key_is_named_beside_the_pinned_one() {
    let [own, other, third] = ["a", "b", "c"].map(|name| Identity::self_signed([name]).unwrap());
    let config = ServerConfig::new(own.clone(), ALPN).unwrap();
    let server = serve(&config);
    let pins = [other.fingerprint(), third.fingerprint()];
    let error = connect(&server, "a", Trust::pinned_any(pins)).await.unwrap_err();
    let words = error.to_string();
    for word in [own.fingerprint(), pins[0], pins[1]].map(|key| key.to_string()) {
        assert!(words.contains(&word), "{words}");
    }
    assert!(
        words.contains("not the pinned one") && words.contains("; ask whoever runs the server"),
        "{words}"
    );
    let ConnectError::Failed(Closed::Failed(error)) = error else { panic!("{error:?}") };
    let fault =
        HandshakeFault::NotPinned { presented: own.fingerprint().0, pinned: pins.map(|pin| pin.0).into() };
    assert_eq!(error.fault.as_deref(), Some(&fault));
    // RFC 8446 §6.2: access_denied; and who proved nothing is not told whom we want.
    assert_eq!(error.code.0, 0x100 + 49);
    assert!(!error.reason.contains("sha256"), "{}", error.reason);

    let error = connect(&server, "a", Trust::pinned_any([])).await.unwrap_err().to_string();
    assert!(error.contains("no key is pinned") && error.contains(&own.fingerprint().to_string()), "{error}");
}

/// RFC 9001 §8.1, RFC 7301 §3.2.
#[tokio::test]
async fn protocols_that_a_server_does_not_speak_are_named() {
    let server = serve(&ServerConfig::new(Identity::self_signed(["localhost"]).unwrap(), ALPN).unwrap());
    let client = Endpoint::client().unwrap();
    let config = ClientConfig::new(Trust::insecure(), &["chat/2", "chat/1"]).unwrap();
    let error = soon(client.connect(server.local_addr(), "localhost", &config)).await.unwrap_err();
    let words = error.to_string();
    assert!(words.contains("\"chat/2\", \"chat/1\"; offer one"), "{words}");
    let ConnectError::Failed(Closed::ByPeer(error)) = error else { panic!("{error:?}") };
    let offered = vec![b"chat/2".to_vec(), b"chat/1".to_vec()];
    assert_eq!(error.fault.as_deref(), Some(&HandshakeFault::NoProtocol { offered }));
    assert_eq!(error.code, TransportErrorCode::crypto(120));
}

#[tokio::test]
async fn an_identity_is_exchanged_while_the_server_runs() {
    let [first, second] = ["a", "b"].map(|name| Identity::self_signed([name]).unwrap());
    let pins = [first.fingerprint(), second.fingerprint()];
    let config = ServerConfig::new(first, ALPN).unwrap();
    let server = serve(&config);
    let (old, _) = connect(&server, "a", Trust::pinned(pins[0])).await.unwrap();
    config.set_identity(second);
    assert_eq!(config.identity().map(|identity| identity.fingerprint()), Some(pins[1]));
    refused(connect(&server, "a", Trust::pinned(pins[0])).await.err());
    let (new, _) = connect(&server, "b", Trust::pinned(pins[1])).await.unwrap();
    assert_eq!((Peer::of(&old).fingerprint(), Peer::of(&new).fingerprint()), (Some(pins[0]), Some(pins[1])));
    assert!(old.close_reason().is_none(), "who is there stays");
}

#[tokio::test]
async fn a_protocol_may_have_an_identity_of_its_own() {
    let [usual, other, renewed] = ["a", "b", "c"].map(|name| Identity::self_signed([name]).unwrap());
    let config = ServerConfig::new(usual.clone(), &["one", "two", "three"]).unwrap();
    config.set_identity_for(&["two", "three"], &other);
    let server = serve(&config);
    let client = Endpoint::client().unwrap();
    let shown = async |protocols: &[&str]| {
        let config = ClientConfig::new(Trust::insecure(), protocols).unwrap();
        let connection = soon(client.connect(server.local_addr(), "a", &config)).await.unwrap();
        Peer::of(&connection).fingerprint()
    };
    assert_eq!(shown(&["one"]).await, Some(usual.fingerprint()));
    assert_eq!(shown(&["two"]).await, Some(other.fingerprint()));
    // The first that has one counts, not the one that is agreed on.
    assert_eq!(shown(&["one", "three"]).await, Some(other.fingerprint()));
    config.set_identity_for(&["two"], &renewed);
    assert_eq!(shown(&["two"]).await, Some(renewed.fingerprint()));
    assert_eq!(shown(&["three"]).await, Some(other.fingerprint()));
    config.set_identity(renewed);
    assert_eq!(shown(&["three"]).await, Some(other.fingerprint()));
}

/// RFC 9001 §4.4, RFC 9114 §3.1.
#[tokio::test]
async fn an_authority_speaks_for_the_names_it_signed() {
    let ca_key = KeyPair::generate().unwrap();
    let mut ca = CertificateParams::new(Vec::new()).unwrap();
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = ca.self_signed(&ca_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate =
        CertificateParams::new(vec!["good.host".into()]).unwrap().signed_by(&key, &ca, &ca_key).unwrap();
    let identity = Identity::from_pem(&certificate.pem(), &key.serialize_pem()).unwrap();
    let server = serve(&ServerConfig::new(identity, ALPN).unwrap());

    let roots = Trust::roots(&ca.pem()).unwrap();
    connect(&server, "good.host", roots.clone()).await.unwrap();
    let asked = HandshakeFault::OtherName { asked: "bad.host".into(), names: vec!["good.host".into()] };
    assert!(
        asked.to_string().contains("not for \"bad.host\", but for \"good.host\"; connect with"),
        "{asked}"
    );
    assert_eq!(fault(connect(&server, "bad.host", roots).await.err()), asked);
    let stranger = Identity::self_signed(["good.host"]).unwrap();
    let stranger = Trust::roots(stranger.certificate_pem()).unwrap();
    let told = fault(connect(&server, "good.host", stranger).await.err());
    assert_eq!(told, HandshakeFault::UnknownAuthority);
    assert!(told.to_string().contains("or pin the fingerprint"), "{told}");
    assert!(Trust::roots("no certificates").is_err());
}

/// What a client knows of why it refused the server.
fn fault(told: Option<ConnectError>) -> HandshakeFault {
    let Some(ConnectError::Failed(Closed::Failed(error))) = told else { panic!("{told:?}") };
    *error.fault.expect("more is known than the code says")
}

#[tokio::test]
async fn a_certificate_of_another_time_is_told_apart() {
    let key = KeyPair::generate().unwrap();
    for (from, to) in [(1990, 1991), (2990, 2991)] {
        let mut own = CertificateParams::new(vec!["good.host".into()]).unwrap();
        own.is_ca = IsCa::ExplicitNoCa;
        (own.not_before, own.not_after) = (rcgen::date_time_ymd(from, 1, 1), rcgen::date_time_ymd(to, 1, 1));
        let own = own.self_signed(&key).unwrap();
        let identity = Identity::from_pem(&own.pem(), &key.serialize_pem()).unwrap();
        let server = serve(&ServerConfig::new(identity, ALPN).unwrap());
        let told = connect(&server, "good.host", Trust::roots(&own.pem()).unwrap()).await.err();
        assert_eq!(fault(told), HandshakeFault::OutOfDate, "{from}");
    }
}

/// A certificate that signs itself, as `openssl req -x509` makes them unless told: the error says what to do.
#[tokio::test]
async fn an_authority_that_shows_its_own_certificate_is_told_apart() {
    let key = KeyPair::generate().unwrap();
    for (is_ca, is_taken) in [(IsCa::Ca(BasicConstraints::Unconstrained), false), (IsCa::ExplicitNoCa, true)]
    {
        let mut own = CertificateParams::new(vec!["good.host".into()]).unwrap();
        own.is_ca = is_ca;
        let own = own.self_signed(&key).unwrap();
        let identity = Identity::from_pem(&own.pem(), &key.serialize_pem()).unwrap();
        let pinned = Trust::pinned(identity.fingerprint());
        let server = serve(&ServerConfig::new(identity, ALPN).unwrap());
        let told = connect(&server, "good.host", Trust::roots(&own.pem()).unwrap()).await.err();
        if is_taken {
            assert_eq!(told, None);
        } else {
            let told = fault(told);
            assert_eq!(told, HandshakeFault::ShowsAuthority);
            let words = told.to_string();
            assert!(words.contains("CA:FALSE") && words.contains("or pin its key"), "{words}");
        }
        connect(&server, "good.host", pinned).await.unwrap();
    }
}

/// The heart of it: to show a certificate is not to hold its key.
#[tokio::test]
async fn a_certificate_without_its_key_proves_nothing() {
    let (victim, thief) =
        (Identity::self_signed(["localhost"]).unwrap(), Identity::self_signed(["x"]).unwrap());
    let stolen = vec![CertificateDer::from_pem_slice(victim.certificate_pem().as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(thief.private_key_pem().as_bytes()).unwrap();
    let key = provider::sign::any_supported_type(&key).unwrap();
    let provider = Arc::new(provider::default_provider());
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(Show(Arc::new(CertifiedKey::new(stolen, key)))));
    tls.alpn_protocols = vec![b"test/1".to_vec()];
    let endpoint = quickset_quic::EndpointConfig {
        crypto: Arc::new(quickset_tls::EndpointSecrets::new(&[1; 32])),
        connection_id_len: 8,
        resets_per_second: 1,
    };
    let server = quickset_quic::ServerConfig {
        crypto: Arc::new(quickset_tls::Server::new(Arc::new(tls)).unwrap()),
        transport: Arc::default(),
        max_connections: 10,
        retry: quickset::RetryPolicy::Never,
        retry_token_lifetime: Duration::from_secs(1),
        gate: None,
        token_lifetime: Duration::from_secs(1),
    };
    let server =
        quickset_net::Endpoint::bind(loopback(), &SocketConfig::default(), endpoint, Some(server)).unwrap();
    let client = Endpoint::client().unwrap();
    for trust in [
        Trust::pinned(victim.fingerprint()),
        Trust::roots(victim.certificate_pem()).unwrap(),
        Trust::insecure(),
    ] {
        let config = ClientConfig::new(trust, ALPN).unwrap();
        refused(soon(client.connect(server.local_addr(), "localhost", &config)).await.err());
    }
}

#[tokio::test]
async fn clients_are_known_by_their_keys() {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let config = ServerConfig::new(identity, ALPN).unwrap();
    let me = Identity::self_signed(["me"]).unwrap();

    let plain = serve(&config);
    let known = ClientConfig::new(trust.clone(), ALPN).unwrap().with_identity(me.clone());
    assert_eq!(met(&plain, &known).await, None, "nobody asked");

    let asking = serve(&config.clone().with_client_auth(ClientAuth::Optional).unwrap());
    let unknown = ClientConfig::new(trust, ALPN).unwrap();
    assert_eq!(met(&asking, &unknown).await, None);
    assert_eq!(met(&asking, &known).await, Some(me.fingerprint()));
    assert_eq!(met(&asking, &known).await, Some(me.fingerprint()), "a session resumed is of the same client");

    let insisting = serve(&config.with_client_auth(ClientAuth::Mandatory).unwrap());
    assert_eq!(met(&insisting, &known).await, Some(me.fingerprint()));
    let client = Endpoint::client().unwrap();
    // A client that has nothing to show is done with the handshake before the server is.
    let ended = match soon(client.connect(insisting.local_addr(), "localhost", &unknown)).await {
        Ok(connection) => soon(connection.closed()).await,
        Err(ConnectError::Failed(closed)) => closed,
        Err(other) => panic!("{other}"),
    };
    // RFC 8446 §4.4.2.4: alert certificate_required, 116; RFC 9001 §4.8 adds 0x100.
    assert!(
        matches!(&ended, Closed::ByPeer(TransportError { code, .. }) if code.0 == 0x100 + 116),
        "{ended:?}"
    );
}

/// What a server sees of a client.
async fn met(server: &Endpoint, config: &ClientConfig) -> Option<Fingerprint> {
    let client = Endpoint::client().expect("a free port");
    let connected = client.connect(server.local_addr(), "localhost", config);
    let (client, server) = soon(async { tokio::join!(connected, server.accept()) }).await;
    // Long enough to take the ticket for a later session.
    let (client, server) = (client.expect("a handshake"), server.expect("an open endpoint"));
    let mut stream = soon(server.open_uni()).await.expect("an open connection");
    stream.finish().expect("an open stream");
    soon(client.accept_uni()).await.expect("an open connection");
    Peer::of(&server).fingerprint()
}

async fn connect(
    server: &Endpoint,
    name: &str,
    trust: Trust,
) -> Result<(Connection, Endpoint), ConnectError> {
    let client = Endpoint::client().expect("a free port");
    let config = ClientConfig::new(trust, ALPN).expect("a protocol");
    Ok((soon(client.connect(server.local_addr(), name, &config)).await?, client))
}

/// The client itself ended the handshake, by an alert of TLS (RFC 9001 §4.8).
fn refused(error: Option<ConnectError>) {
    let Some(ConnectError::Failed(Closed::Failed(error))) = error else { panic!("{error:?}") };
    assert_eq!(error.code.0 & !0xff, 0x100, "{error}");
}

#[derive(Debug)]
struct Show(Arc<CertifiedKey>);

impl ResolvesServerCert for Show {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.clone())
    }
}

fn serve(config: &ServerConfig) -> Endpoint {
    Endpoint::server(loopback(), config).expect("a free port")
}

fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it does not take that long")
}
