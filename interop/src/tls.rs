//! Certificates, and TLS for both stacks.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use aws_lc_rs::digest::{SHA256, digest};
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite, default_provider, kx_group};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;
use rustls::{RootCertStore, quic};

/// The name that servers prove to be.
pub(crate) const NAME: &str = "localhost";

/// What both sides want of TLS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TlsWishes {
    pub(crate) protocol: &'static [u8],
    /// ChaCha20 and nothing else.
    pub(crate) chacha: bool,
    /// P-384 and no other group.
    pub(crate) p384: bool,
    /// Early data (0-RTT), where the stack has it.
    pub(crate) early: bool,
}

/// A server's certificate and key.
pub(crate) struct InteropIdentity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
    /// SHA-256 of the public key, by which browsers know it.
    pin: Vec<u8>,
}

impl InteropIdentity {
    /// One for `localhost` and for `others` more names, each of which makes it some 30 bytes longer.
    pub(crate) fn new(others: usize) -> Result<Self> {
        let more = (0..others).map(|i| format!("a-rather-long-name-{i}.example"));
        let names = [NAME, "127.0.0.1", "::1"].map(str::to_owned).into_iter().chain(more);
        let made = rcgen::generate_simple_self_signed(names.collect::<Vec<_>>())?;
        let pin = digest(&SHA256, &made.key_pair.public_key_der()).as_ref().to_vec();
        Ok(Self { certificate: made.cert.der().clone(), key: made.key_pair.serialize_der(), pin })
    }

    /// Leaves it in a folder, for programs of all kinds.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("cert.der"), &self.certificate)?;
        std::fs::write(folder.join("key.der"), &self.key)?;
        std::fs::write(folder.join("cert.pem"), pem("CERTIFICATE", &self.certificate))?;
        std::fs::write(folder.join("pin"), base64(&self.pin))?;
        std::fs::write(folder.join("key.pem"), pem("PRIVATE KEY", &self.key))?;
        Ok(())
    }

    /// One that was left there.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let read = |name| {
            std::fs::read(folder.join(name)).with_context(|| format!("no {name} in {}", folder.display()))
        };
        Ok(Self { certificate: read("cert.der")?.into(), key: read("key.der")?, pin: Vec::new() })
    }

    /// Bytes of the certificate.
    pub(crate) fn len(&self) -> usize {
        self.certificate.len()
    }

    pub(crate) fn server(&self, wishes: TlsWishes) -> Result<Arc<rustls::ServerConfig>> {
        let key = PrivatePkcs8KeyDer::from(self.key.clone()).into();
        let mut config = rustls::ServerConfig::builder_with_provider(provider(wishes))
            .with_protocol_versions(&[&TLS13])?
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)?;
        config.alpn_protocols = vec![wishes.protocol.to_vec()];
        if wishes.early {
            // RFC 9001 §4.6.1: QUIC's limit is its own, and TLS says just that there may be any.
            config.max_early_data_size = u32::MAX;
        }
        Ok(Arc::new(config))
    }

    /// A client that trusts this identity only.
    pub(crate) fn client(&self, wishes: TlsWishes) -> Result<Arc<rustls::ClientConfig>> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        let mut config = rustls::ClientConfig::builder_with_provider(provider(wishes))
            .with_protocol_versions(&[&TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![wishes.protocol.to_vec()];
        config.enable_early_data = wishes.early;
        Ok(Arc::new(config))
    }
}

/// RFC 7468.
fn pem(label: &str, der: &[u8]) -> String {
    let text = base64(der);
    let lines: Vec<&str> =
        text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What [`base64`] made a text of.
pub(crate) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut bits, mut have) = (Vec::with_capacity(text.len() * 3 / 4), 0_u32, 0);
    for digit in text.trim_end_matches('=').bytes() {
        bits = bits << 6 | u32::try_from(DIGITS.iter().position(|d| *d == digit)?).ok()?;
        have += 6;
        if have >= 8 {
            have -= 8;
            bytes.push((bits >> have) as u8);
            bits &= (1 << have) - 1;
        }
    }
    Some(bytes)
}

/// RFC 4648 §4.
fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits =
            three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for i in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= three.len() { char::from(digit) } else { '=' });
        }
    }
    text
}

/// RFC 9001 §5.2: Initial packets are protected with AES-128-GCM, whatever is negotiated.
pub(crate) fn initial_suite() -> Result<quic::Suite> {
    let suite = cipher_suite::TLS13_AES_128_GCM_SHA256.tls13().context("a suite of TLS 1.3")?;
    suite.quic_suite().context("a suite for QUIC")
}

fn provider(wishes: TlsWishes) -> Arc<CryptoProvider> {
    let mut provider = default_provider();
    // As quickset has them for applications: a hello of two datagrams, and a share of X25519 for those who
    // know no other.
    provider.kx_groups =
        vec![kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1];
    if wishes.p384 {
        provider.kx_groups = vec![kx_group::SECP384R1];
    }
    if wishes.chacha {
        provider.cipher_suites = vec![cipher_suite::TLS13_CHACHA20_POLY1305_SHA256];
    }
    Arc::new(provider)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 §10.
    #[test]
    fn base64_as_in_its_specification() {
        let texts = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in texts {
            assert_eq!(base64(bytes.as_bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(bytes.as_bytes()));
        }
    }
}
