//! One TLS set-up for all stacks: the same certificates, cipher suites and protocol name.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use rustls::RootCertStore;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;

/// The name that servers prove to be.
pub(crate) const NAME: &str = "localhost";

const PROTOCOL: &[u8] = b"quickset-peers/1";

/// A server's configuration with a fresh certificate, and that certificate.
pub(crate) fn server() -> Result<(rustls::ServerConfig, CertificateDer<'static>)> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    let certificate = made.cert.der().clone();
    let key = PrivatePkcs8KeyDer::from(made.key_pair.serialize_der()).into();
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)?;
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok((config, certificate))
}

/// A client's configuration that trusts one certificate.
pub(crate) fn client(trusted: CertificateDer<'static>) -> Result<rustls::ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).context("the server's certificate")?;
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    Ok(config)
}
