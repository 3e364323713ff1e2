//! Certificates, and TLS for the stacks that take rustls.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::client::{
    ClientSessionMemoryCache, ClientSessionStore, Resumption, Tls12ClientSessionValue,
    Tls13ClientSessionValue,
};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{Ticketer, cipher_suite, default_provider};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _};
use rustls::version::TLS13;
use rustls::{NamedGroup, RootCertStore, quic};

use crate::{StackCipher, StackSetup, StackTickets};

/// The name that servers prove to be.
pub const NAME: &str = "localhost";

/// A server's certificate and key, in a folder, for programs of all kinds: `cert.pem`, `key.pem`, and `pin`, the
/// SHA-256 of the public key, by which browsers know it.
#[derive(Debug)]
pub struct StackIdentity {
    pub folder: PathBuf,
    pub certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl StackIdentity {
    /// Makes one for `localhost` and for `others`.
    pub fn create(folder: &Path, others: &[String]) -> Result<Self> {
        let made = rcgen::generate_simple_self_signed([&[NAME.to_owned()], others].concat())?;
        fs::create_dir_all(folder)?;
        fs::write(folder.join("cert.pem"), made.cert.pem())?;
        let pin = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &made.key_pair.public_key_der());
        fs::write(folder.join("pin"), STANDARD.encode(pin))?;
        let mut options = fs::File::options();
        let mut key = options.write(true).create_new(true).mode(0o600).open(folder.join("key.pem"))?;
        key.write_all(made.key_pair.serialize_pem().as_bytes())?;
        Self::read(folder)
    }

    /// One that was left there.
    pub fn read(folder: &Path) -> Result<Self> {
        let certificate = CertificateDer::from_pem_file(folder.join("cert.pem"));
        let key = PrivateKeyDer::from_pem_file(folder.join("key.pem"));
        let (Ok(certificate), Ok(key)) = (certificate, key) else {
            bail!("there is no certificate with a key in {}", folder.display());
        };
        Ok(Self { folder: folder.to_owned(), certificate, key })
    }

    pub(crate) fn server(&self, setup: &StackSetup) -> Result<Arc<rustls::ServerConfig>> {
        let mut config = rustls::ServerConfig::builder_with_provider(provider(setup))
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())?;
        config.alpn_protocols = vec![setup.protocol.to_vec()];
        if setup.tickets == StackTickets::None {
            config.send_tls13_tickets = 0;
        }
        if setup.tickets == StackTickets::Kept {
            // Tickets that hold the session. What the server keeps instead, unless told, is 256 sessions at
            // most.
            config.ticketer = Ticketer::new()?;
        }
        if setup.tickets == StackTickets::Early {
            // RFC 9001 §4.6.1: QUIC's limit is its own, and TLS says just that there may be any.
            config.max_early_data_size = u32::MAX;
        }
        Ok(Arc::new(config))
    }

    /// A client that trusts this identity only.
    pub fn client(&self, setup: &StackSetup) -> Result<Arc<rustls::ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut config = rustls::ClientConfig::builder_with_provider(provider(setup))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![setup.protocol.to_vec()];
        config.enable_early_data = setup.tickets == StackTickets::Early;
        config.resumption = match setup.tickets {
            StackTickets::None | StackTickets::Unused => Resumption::disabled(),
            StackTickets::Kept | StackTickets::Early => Resumption::store(Arc::new(CountedSessions {
                sessions: ClientSessionMemoryCache::new(256),
                used: setup.used_tickets.clone(),
            })),
        };
        Ok(Arc::new(config))
    }
}

/// What a client keeps by rustls's own choice, and how often it was used.
#[derive(Debug)]
struct CountedSessions {
    sessions: ClientSessionMemoryCache,
    used: Arc<AtomicU64>,
}

impl ClientSessionStore for CountedSessions {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.sessions.set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.sessions.kx_hint(server)
    }

    fn set_tls12_session(&self, server: ServerName<'static>, session: Tls12ClientSessionValue) {
        self.sessions.set_tls12_session(server, session);
    }

    fn tls12_session(&self, server: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.sessions.tls12_session(server)
    }

    fn remove_tls12_session(&self, server: &ServerName<'static>) {
        self.sessions.remove_tls12_session(server);
    }

    fn insert_tls13_ticket(&self, server: ServerName<'static>, ticket: Tls13ClientSessionValue) {
        self.sessions.insert_tls13_ticket(server, ticket);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        let taken = self.sessions.take_tls13_ticket(server);
        self.used.fetch_add(taken.is_some().into(), Ordering::Relaxed);
        taken
    }
}

/// RFC 9001 §5.2: Initial packets are protected with AES-128-GCM, whatever is negotiated.
pub fn initial_suite() -> Result<quic::Suite> {
    let suite = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().context("a suite of TLS 1.3")?;
    suite.quic_suite().context("a suite for QUIC")
}

fn provider(setup: &StackSetup) -> Arc<CryptoProvider> {
    let mut provider = default_provider();
    provider.kx_groups = setup.groups.iter().map(|group| group.of_rustls()).collect();
    match setup.cipher {
        StackCipher::Any => {}
        StackCipher::Aes128 => provider.cipher_suites = vec![cipher_suite::TLS13_AES_128_GCM_SHA256],
        StackCipher::ChaCha20 => provider.cipher_suites = vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256],
    }
    Arc::new(provider)
}
