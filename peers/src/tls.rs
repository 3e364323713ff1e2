//! One TLS set-up for all stacks: the same certificates, cipher suites and protocol name.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustls::RootCertStore;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite::TLS13_AES_128_GCM_SHA256};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;

/// The name that servers prove to be.
pub(crate) const NAME: &str = "localhost";

pub(crate) const PROTOCOL: &[u8] = b"quickset-peers/1";

/// Who a server is, made anew for each run.
pub(crate) struct Identity {
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivatePkcs8KeyDer<'static>,
}

impl Identity {
    pub(crate) fn new() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        Ok(Self { certificate: made.cert.der().clone(), key: made.key_pair.serialize_der().into() })
    }

    /// For stacks that take rustls.
    pub(crate) fn server(self) -> Result<rustls::ServerConfig> {
        let mut config = rustls::ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate], PrivateKeyDer::from(self.key))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }
}

/// A client's configuration that trusts one certificate. It keeps no tickets: every handshake is a full one.
pub(crate) fn client(trusted: CertificateDer<'static>) -> Result<rustls::ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).context("the server's certificate")?;
    let mut config = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// One cipher suite, that which all stacks choose where the processor has AES.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        cipher_suites: vec![TLS13_AES_128_GCM_SHA256],
        ..aws_lc_rs::default_provider()
    })
}
