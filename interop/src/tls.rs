//! Certificates, and TLS for both stacks.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;
use rustls::{RootCertStore, quic};

/// The name that servers prove to be.
pub(crate) const NAME: &str = "localhost";

/// What both sides want of TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wishes {
    pub(crate) protocol: &'static [u8],
    /// ChaCha20 and nothing else.
    pub(crate) chacha: bool,
}

/// A server's certificate and key.
pub(crate) struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    /// One for `localhost` and for `others` more names, each of which makes it some 30 bytes longer.
    pub(crate) fn new(others: usize) -> Result<Self> {
        let more = (0..others).map(|i| format!("a-rather-long-name-{i}.example"));
        let made = rcgen::generate_simple_self_signed(
            std::iter::once(NAME.to_owned()).chain(more).collect::<Vec<_>>(),
        )?;
        Ok(Self { certificate: made.cert.der().clone(), key: made.key_pair.serialize_der() })
    }

    /// Bytes of the certificate.
    pub(crate) fn len(&self) -> usize {
        self.certificate.len()
    }

    pub(crate) fn server(&self, wishes: Wishes) -> Result<Arc<rustls::ServerConfig>> {
        let key = PrivatePkcs8KeyDer::from(self.key.clone()).into();
        let mut config = rustls::ServerConfig::builder_with_provider(provider(wishes))
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)?;
        config.alpn_protocols = vec![wishes.protocol.to_vec()];
        Ok(Arc::new(config))
    }

    /// A client that trusts this identity only.
    pub(crate) fn client(&self, wishes: Wishes) -> Result<Arc<rustls::ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut config = rustls::ClientConfig::builder_with_provider(provider(wishes))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![wishes.protocol.to_vec()];
        Ok(Arc::new(config))
    }
}

/// RFC 9001 §5.2: Initial packets are protected with AES-128-GCM, whatever is negotiated.
pub(crate) fn initial_suite() -> Result<quic::Suite> {
    let suite = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().context("a suite of TLS 1.3")?;
    suite.quic_suite().context("a suite for QUIC")
}

fn provider(wishes: Wishes) -> Arc<CryptoProvider> {
    let mut provider = default_provider();
    if wishes.chacha {
        provider.cipher_suites = vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    }
    Arc::new(provider)
}
