//! One TLS set-up for all stacks: the same certificates, cipher suites and protocol name.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use rustls::RootCertStore;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, cipher_suite::TLS13_AES_128_GCM_SHA256, kx_group};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;
use serde::Serialize;

/// The name that servers prove to be.
pub(crate) const NAME: &str = "localhost";

pub(crate) const PROTOCOL: &[u8] = b"quickset-peers/1";

/// The one group that all exchange keys by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
pub(crate) enum PeerGroup {
    #[value(name = "x25519", alias = "X25519")]
    #[serde(rename = "x25519")]
    X25519,
    #[value(name = "X25519MLKEM768", alias = "x25519mlkem768")]
    #[serde(rename = "X25519MLKEM768")]
    X25519MlKem768,
}

impl PeerGroup {
    /// As all TLS libraries have it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::X25519 => "X25519",
            Self::X25519MlKem768 => "X25519MLKEM768",
        }
    }
}

/// Who a server is, made anew for each run.
pub(crate) struct PeersIdentity {
    pub(crate) group: PeerGroup,
    pub(crate) certificate: CertificateDer<'static>,
    pub(crate) key: PrivatePkcs8KeyDer<'static>,
}

impl PeersIdentity {
    pub(crate) fn new(group: PeerGroup) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
        Ok(Self { group, certificate: made.cert.der().clone(), key: made.key_pair.serialize_der().into() })
    }

    /// For stacks that take rustls.
    pub(crate) fn server(self) -> Result<rustls::ServerConfig> {
        let mut config = rustls::ServerConfig::builder_with_provider(provider(self.group))
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate], PrivateKeyDer::from(self.key))?;
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Ok(config)
    }
}

/// The server of a client.
pub(crate) struct Trusted {
    pub(crate) group: PeerGroup,
    pub(crate) certificate: CertificateDer<'static>,
}

/// A client's configuration that trusts one certificate. It keeps no tickets: every handshake is a full one.
pub(crate) fn client(trusted: Trusted) -> Result<rustls::ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.certificate).context("the server's certificate")?;
    let mut config = rustls::ClientConfig::builder_with_provider(provider(trusted.group))
        .with_protocol_versions(&[&TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// One cipher suite, that which all stacks choose where the processor has AES, and one group.
fn provider(group: PeerGroup) -> Arc<CryptoProvider> {
    Arc::new(CryptoProvider {
        kx_groups: vec![match group {
            PeerGroup::X25519 => kx_group::X25519,
            PeerGroup::X25519MlKem768 => kx_group::X25519MLKEM768,
        }],
        cipher_suites: vec![TLS13_AES_128_GCM_SHA256],
        ..aws_lc_rs::default_provider()
    })
}
