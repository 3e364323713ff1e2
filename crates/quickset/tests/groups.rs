//! How keys are exchanged: by what is offered and taken unless told, and by what an application chooses.

#![cfg(feature = "self-signed")]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use quickset::pki_types::pem::PemObject;
use quickset::pki_types::{CertificateDer, PrivateKeyDer};
use quickset::provider::{default_provider, kx_group};
use quickset::rustls::crypto::{CryptoProvider, SupportedKxGroup};
use quickset::rustls::server::{ClientHello, ResolvesServerCert};
use quickset::rustls::sign::CertifiedKey;
use quickset::rustls::{self, NamedGroup, version::TLS13};
use quickset::{ClientConfig, ConfigError, ConnectError, Endpoint, Identity, KeyGroup, ServerConfig, Trust};

/// A certificate, and what clients offered that were shown it.
#[derive(Debug)]
struct Listening(Arc<CertifiedKey>, Mutex<Vec<Vec<NamedGroup>>>);

impl ResolvesServerCert for Listening {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.1.lock().unwrap().push(hello.named_groups().unwrap().to_vec());
        Some(self.0.clone())
    }
}

fn provider(groups: &[&'static dyn SupportedKxGroup]) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider { kx_groups: groups.to_vec(), ..default_provider() })
}

/// A server with TLS of its own that takes these groups and hears what is offered.
fn listening(groups: &[&'static dyn SupportedKxGroup]) -> (Endpoint, Arc<Listening>) {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let chain = vec![CertificateDer::from_pem_slice(identity.certificate_pem().as_bytes()).unwrap()];
    let key = PrivateKeyDer::from_pem_slice(identity.private_key_pem().as_bytes()).unwrap();
    let certified = CertifiedKey::from_der(chain, key, &default_provider()).unwrap();
    let heard = Arc::new(Listening(Arc::new(certified), Mutex::default()));
    let mut tls = rustls::ServerConfig::builder_with_provider(provider(groups))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(heard.clone());
    tls.alpn_protocols = vec![b"test/1".to_vec()];
    let config = ServerConfig::from_rustls(tls).unwrap();
    (Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap(), heard)
}

fn client() -> ClientConfig {
    ClientConfig::new(Trust::insecure(), &["test/1"]).unwrap()
}

async fn connect(server: &Endpoint, config: &ClientConfig) -> Result<(), ConnectError> {
    let client = Endpoint::client().unwrap();
    let connecting = client.connect(server.local_addr(), "localhost", config);
    tokio::time::timeout(Duration::from_secs(15), connecting).await.expect("soon").map(drop)
}

#[cfg(feature = "aws-lc-rs")]
#[tokio::test]
async fn clients_offer_a_post_quantum_group_first_and_what_they_are_told() {
    let (server, heard) = listening(&[kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP384R1]);
    connect(&server, &client()).await.unwrap();
    connect(&server, &client().with_groups(&[KeyGroup::X25519]).unwrap()).await.unwrap();
    let two = [KeyGroup::SecP384r1, KeyGroup::X25519MlKem768];
    connect(&server, &client().with_groups(&two).unwrap()).await.unwrap();
    let usual =
        vec![NamedGroup::X25519MLKEM768, NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp384r1];
    let told = vec![NamedGroup::secp384r1, NamedGroup::X25519MLKEM768];
    assert_eq!(*heard.1.lock().unwrap(), [usual, vec![NamedGroup::X25519], told]);
}

#[cfg(feature = "aws-lc-rs")]
#[tokio::test]
async fn servers_take_what_they_are_told() {
    let server = |groups: &[KeyGroup]| {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let config = ServerConfig::new(identity, &["test/1"]).unwrap();
        let config = if groups.is_empty() { config } else { config.with_groups(groups).unwrap() };
        Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap()
    };
    let only = |group| client().with_groups(&[group]).unwrap();
    let all = server(&[]);
    for group in [KeyGroup::X25519MlKem768, KeyGroup::X25519, KeyGroup::SecP256r1, KeyGroup::SecP384r1] {
        connect(&all, &only(group)).await.unwrap();
    }
    let strict = server(&[KeyGroup::X25519MlKem768]);
    connect(&strict, &client()).await.unwrap();
    let error = connect(&strict, &only(KeyGroup::X25519)).await.unwrap_err();
    // RFC 8446 §4.1.1: handshake_failure.
    assert!(error.to_string().contains("CRYPTO_ERROR handshake_failure (40)"), "{error}");
}

/// Without ML-KEM: what there is by default is usable, and what is not there is refused with the way to it.
#[cfg(not(feature = "aws-lc-rs"))]
#[tokio::test]
async fn groups_that_ring_lacks_are_refused_by_name() {
    let (server, heard) = listening(&[kx_group::X25519, kx_group::SECP384R1]);
    connect(&server, &client()).await.unwrap();
    connect(&server, &client().with_groups(&[KeyGroup::SecP384r1]).unwrap()).await.unwrap();
    let usual = vec![NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp384r1];
    assert_eq!(*heard.1.lock().unwrap(), [usual, vec![NamedGroup::secp384r1]]);
    for group in [KeyGroup::X25519MlKem768, KeyGroup::SecP256r1MlKem768] {
        let error = client().with_groups(&[KeyGroup::X25519, group]).err();
        assert_eq!(error, Some(ConfigError::AbsentGroup(group)));
        let text = ConfigError::AbsentGroup(group).to_string();
        assert!(text.starts_with(&format!("ring has no {group};")) && text.contains("aws-lc-rs"), "{text}");
    }
}

#[test]
fn what_cannot_be_chosen_is_refused() {
    let server = || ServerConfig::new(Identity::self_signed(["a"]).unwrap(), &["a"]).unwrap();
    assert_eq!(client().with_groups(&[]).err(), Some(ConfigError::NoGroup));
    assert_eq!(server().with_groups(&[]).err(), Some(ConfigError::NoGroup));
    let mut tls = rustls::ClientConfig::builder_with_provider(provider(&[kx_group::X25519]))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"a".to_vec()];
    let foreign = ClientConfig::from_rustls(tls).unwrap();
    assert_eq!(foreign.with_groups(&[KeyGroup::X25519]).err(), Some(ConfigError::OwnProvider));
}
