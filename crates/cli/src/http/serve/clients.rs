//! `--client-ca FILE`: clients that prove who they are, by certificates of an authority, and what they are
//! called.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use quickset::h3;
use quickset::pki_types::CertificateDer;
use quickset::pki_types::pem::PemObject as _;
use quickset::{Identity, ServerConfig};
use rustls::crypto::aws_lc_rs::{Ticketer, default_provider};
use rustls::server::{NoServerSessionStorage, ResolvesServerCertUsingSni, WebPkiClientVerifier};
use rustls::{RootCertStore, version::TLS13};

use crate::say::{named, plain};

/// A server that proves to be `identity`, for clients with a certificate of one of the authorities in the
/// file.
pub(super) fn proven(identity: Identity, authorities: &Path) -> anyhow::Result<ServerConfig> {
    let file = named(authorities);
    let pem = std::fs::read(authorities).with_context(|| format!("{file} cannot be read"))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|_| anyhow::anyhow!("{file} is not PEM with certificates"))?;
        roots
            .add(certificate)
            .with_context(|| format!("{file} has a certificate that is of no authority"))?;
    }
    anyhow::ensure!(!roots.is_empty(), "{file} has no certificates; name a file of PEM with --client-ca");
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build()?;
    let mut tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(verifier)
        // It is set below.
        .with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    tls.alpn_protocols = vec![h3::ALPN.as_bytes().to_vec()];
    // Tickets carry their session, and with it who the client is, under keys of this server.
    tls.ticketer = Ticketer::new()?;
    tls.session_storage = Arc::new(NoServerSessionStorage {});
    let config = ServerConfig::from_rustls(tls)?;
    config.set_identity(identity);
    Ok(config)
}

/// What the holder of a certificate is called, for a log: by the first alternative name of the subject that
/// has letters, or by its common name (RFC 5280 §4.2.1.6, §4.1.2.6), or else by its key.
pub(super) fn called(certificate: &CertificateDer<'_>) -> Arc<str> {
    let name = name(certificate).filter(|name| !name.is_empty());
    let key = || quickset::Fingerprint::of(certificate).map_or("?".to_owned(), |key| key.to_string());
    // Whoever signed it looked at it, or did not.
    plain(&name.unwrap_or_else(key)).replace('"', "\\\"").into()
}

/// The chain of certificates was verified: what is not in form here is not there.
fn name(certificate: &[u8]) -> Option<String> {
    let (body, _) = part(part(certificate, SEQUENCE)?.0, SEQUENCE)?;
    // The version may be left out; then serial number, algorithm, issuer, dates, subject, key.
    let mut rest = part(body, 0xa0).map_or(body, |(_, rest)| rest);
    for tag in [0x02, SEQUENCE, SEQUENCE, SEQUENCE] {
        rest = part(rest, tag)?.1;
    }
    let (subject, rest) = part(rest, SEQUENCE)?;
    let (_, mut rest) = part(rest, SEQUENCE)?;
    let extensions = loop {
        match any(rest) {
            Some((0xa3, inner, _)) => break part(inner, SEQUENCE).map(|(list, _)| list),
            Some((_, _, behind)) => rest = behind,
            None => break None,
        }
    };
    extensions.and_then(alternative).or_else(|| common(subject))
}

/// The first of the names of the subject in its extensions that is an address of mail, a host or a URI.
fn alternative(extensions: &[u8]) -> Option<String> {
    parts(extensions).find_map(|(_, extension)| {
        let (id, rest) = part(extension, OID)?;
        if id != [0x55, 0x1d, 17] {
            return None;
        }
        // It may say that it is critical.
        let rest = part(rest, 0x01).map_or(rest, |(_, rest)| rest);
        let names = part(part(rest, 0x04)?.0, SEQUENCE)?.0;
        parts(names).find(|(tag, _)| [0x81, 0x82, 0x86].contains(tag)).map(|(_, name)| text(name))
    })
}

fn common(subject: &[u8]) -> Option<String> {
    let sets = parts(subject).flat_map(|(_, set)| parts(set));
    let named = sets.filter_map(|(_, pair)| part(pair, OID).filter(|(id, _)| *id == [0x55, 0x04, 3]));
    let (_, value) = named.last()?;
    Some(text(any(value)?.1))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The content of a value with this tag, and what is behind it (X.690 §8.1).
fn part(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    any(bytes).filter(|(found, ..)| *found == tag).map(|(_, inner, rest)| (inner, rest))
}

fn any(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (tag, rest) = bytes.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (len, rest) = match first {
        len @ 0..=0x7f => (usize::from(*len), rest),
        0x81..=0x83 => {
            let (len, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (len.iter().fold(0, |len, byte| len << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (inner, rest) = rest.split_at_checked(len)?;
    Some((*tag, inner, rest))
}

/// The values of a list, and their tags.
fn parts(mut list: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        let (tag, inner, rest) = any(list)?;
        list = rest;
        Some((tag, inner))
    })
}

const SEQUENCE: u8 = 0x30;
const OID: u8 = 0x06;

#[cfg(test)]
mod tests {
    use quickset::rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn made(common: Option<&str>, names: Vec<SanType>) -> CertificateDer<'static> {
        let mut params = CertificateParams::default();
        params.distinguished_name = quickset::rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Hedges");
        if let Some(common) = common {
            params.distinguished_name.push(DnType::CommonName, common);
        }
        params.subject_alt_names = names;
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn holders_of_certificates_have_names() {
        let dns = |name: &str| SanType::DnsName(name.try_into().unwrap());
        let mail = SanType::Rfc822Name("a@b.example".try_into().unwrap());
        let address = SanType::IpAddress([192, 0, 2, 1].into());
        let long = "x".repeat(300);
        for (common, names, name) in [
            (Some("Alice"), vec![], "Alice"),
            (Some("Älice \"A\" \n\u{1b}"), vec![], "Älice \\\"A\\\" \\n\\u{1b}"),
            (Some("Alice"), vec![mail, dns("c.example")], "a@b.example"),
            (Some(&*long), vec![address.clone()], &*long),
            (None, vec![address.clone(), dns("c.example")], "c.example"),
        ] {
            assert_eq!(&*called(&made(common, names)), name);
        }
        let nameless = made(None, vec![address]);
        assert!(called(&nameless).starts_with("sha256:"));
        // Whatever is cut off or turned around is no name, and no more than that.
        for n in 0..nameless.len() {
            called(&nameless[..n].to_vec().into());
            let mut bytes = made(Some("A"), vec![]).to_vec();
            let len = bytes.len();
            bytes[n % len] ^= 0x55;
            called(&bytes.into());
        }
    }
}
