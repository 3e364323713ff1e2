use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(feature = "self-signed")]
use std::time::{Duration, SystemTime};

use quickset_tls::provider;
use rustls::InconsistentKeys;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::Fingerprint;

/// A chain of certificates with the private key of the first: who a server or a client proves to be.
#[derive(Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    certificate_pem: String,
    key_pem: String,
}

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// A name is no host name, or the system has no entropy. It needs the feature `self-signed`.
    #[cfg(feature = "self-signed")]
    #[cfg_attr(docsrs, doc(cfg(feature = "self-signed")))]
    #[error("no certificate could be made: {0}")]
    Make(#[from] rcgen::Error),
    /// The text is not PEM, or holds something else.
    #[error("this is not PEM with {0}; certificates come first, and then the key")]
    Pem(&'static str),
    /// The key is that of another certificate.
    #[error("the private key does not belong to the certificate")]
    Mismatch,
    /// The certificate and the key cannot be used.
    #[error("the certificate and the key are not fit for use: {0}")]
    Unfit(#[from] rustls::Error),
}

impl IdentityError {
    fn of(error: rustls::Error) -> Self {
        match error {
            rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => Self::Mismatch,
            error => Self::Unfit(error),
        }
    }
}

impl Identity {
    /// Makes a new key (ECDSA, P-256) and a certificate that it signs itself, for these host names and IP
    /// addresses. Peers know it by its [`fingerprint`](Self::fingerprint). It needs the feature
    /// `self-signed`.
    ///
    /// # Errors
    /// See [`IdentityError`].
    #[cfg(feature = "self-signed")]
    #[cfg_attr(docsrs, doc(cfg(feature = "self-signed")))]
    pub fn self_signed<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<Self, IdentityError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let made = rcgen::generate_simple_self_signed(names)?;
        Self::from_pem(&made.cert.pem(), &made.key_pair.serialize_pem())
    }

    /// Does what [`self_signed`](Self::self_signed) does, with a certificate that a page may trust by its
    /// hash ([`certificate_hash`](Self::certificate_hash)). For WebTransport browsers take such a certificate
    /// only if it is valid for less than two weeks. This one is valid from an hour ago on, for thirteen days.
    /// It needs the feature `self-signed`.
    ///
    /// # Errors
    /// See [`IdentityError`].
    #[cfg(feature = "self-signed")]
    #[cfg_attr(docsrs, doc(cfg(feature = "self-signed")))]
    pub fn for_browsers<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Result<Self, IdentityError> {
        let key = rcgen::KeyPair::generate()?;
        Self::certified_for_browsers(names, SystemTime::now() - Duration::from_secs(3600), &key)
    }

    /// Returns an identity with the same key and another certificate, which browsers take as they take that
    /// of [`for_browsers`](Self::for_browsers): it is valid from `begin` on, for thirteen days. The
    /// fingerprint stays, and the [`certificate_hash`](Self::certificate_hash) does not. It needs the feature
    /// `self-signed`.
    ///
    /// # Errors
    /// See [`IdentityError`]; [`IdentityError::Make`] when the key is none of ECDSA with P-256, which is all
    /// that browsers take.
    #[cfg(feature = "self-signed")]
    #[cfg_attr(docsrs, doc(cfg(feature = "self-signed")))]
    pub fn renewed_for_browsers<S: Into<String>>(
        &self,
        names: impl IntoIterator<Item = S>,
        begin: SystemTime,
    ) -> Result<Self, IdentityError> {
        let key = rcgen::KeyPair::from_pem(&self.key_pem)?;
        if !key.is_compatible(&rcgen::PKCS_ECDSA_P256_SHA256) {
            return Err(rcgen::Error::UnsupportedSignatureAlgorithm.into());
        }
        Self::certified_for_browsers(names, begin, &key)
    }

    #[cfg(feature = "self-signed")]
    fn certified_for_browsers<S: Into<String>>(
        names: impl IntoIterator<Item = S>,
        begin: SystemTime,
        key: &rcgen::KeyPair,
    ) -> Result<Self, IdentityError> {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        let mut params = rcgen::CertificateParams::new(names)?;
        params.not_before = begin.into();
        params.not_after = (begin + Duration::from_secs(13 * 24 * 3600)).into();
        Self::from_pem(&params.self_signed(key)?.pem(), &key.serialize_pem())
    }

    /// Reads PEM text: the chain of certificates, its own first, and the private key.
    ///
    /// # Errors
    /// See [`IdentityError`].
    pub fn from_pem(certificates: &str, key: &str) -> Result<Self, IdentityError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificates.as_bytes())
            .collect::<Result<_, _>>()
            .map_err(|_| IdentityError::Pem("certificates"))?;
        if chain.is_empty() {
            return Err(IdentityError::Pem("certificates"));
        }
        let key_der =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|_| IdentityError::Pem("a private key"))?;
        let certified = CertifiedKey::from_der(chain, key_der, &provider::default_provider())
            .map_err(IdentityError::of)?;
        // Some kinds of key cannot tell; those that can, must agree.
        match certified.keys_match() {
            Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
            Err(error) => return Err(IdentityError::of(error)),
        }
        Ok(Self { certified: Arc::new(certified), certificate_pem: certificates.into(), key_pem: key.into() })
    }

    /// Returns the fingerprint of the key, which peers may pin.
    ///
    /// # Panics
    /// Never: the certificate was read before.
    pub fn fingerprint(&self) -> Fingerprint {
        let own = self.certified.cert.first().expect("a chain has a first certificate");
        Fingerprint::of(own).expect("the certificate was read before")
    }

    /// Returns the SHA-256 hash of the certificate, which a page gives as `serverCertificateHashes` of a
    /// `WebTransport`. Unlike the fingerprint it differs between two certificates of the same key.
    ///
    /// # Panics
    /// Never: there is a certificate.
    pub fn certificate_hash(&self) -> [u8; 32] {
        let own = self.certified.cert.first().expect("a chain has a first certificate");
        provider::sha256(own)
    }

    /// Returns the chain of certificates as PEM.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// Returns the private key as PEM. Keep it in a file that nobody else can read.
    pub fn private_key_pem(&self) -> &str {
        &self.key_pem
    }

    /// Proves it in every handshake.
    pub(crate) fn resolver(&self) -> Arc<SingleCertAndKey> {
        Arc::new(SingleCertAndKey::from(self.certified.clone()))
    }
}

/// Who a server proves to be at the moment: handshakes go by what is there when they begin.
#[derive(Debug)]
pub(crate) struct Present(RwLock<ShownIdentities>);

#[derive(Debug)]
struct ShownIdentities {
    usual: ShownIdentity,
    /// For clients that offer these application protocols.
    by_protocol: BTreeMap<Vec<u8>, Identity>,
}

#[derive(Debug)]
enum ShownIdentity {
    Identity(Identity),
    /// The application chooses for each client.
    Chosen(Arc<dyn ResolvesServerCert>),
}

impl Present {
    pub(crate) fn new(identity: Identity) -> Self {
        Self::of(ShownIdentity::Identity(identity))
    }

    pub(crate) fn chosen(by: Arc<dyn ResolvesServerCert>) -> Self {
        Self::of(ShownIdentity::Chosen(by))
    }

    fn of(usual: ShownIdentity) -> Self {
        Self(RwLock::new(ShownIdentities { usual, by_protocol: BTreeMap::new() }))
    }

    fn read(&self) -> RwLockReadGuard<'_, ShownIdentities> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, ShownIdentities> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self) -> Option<Identity> {
        match &self.read().usual {
            ShownIdentity::Identity(identity) => Some(identity.clone()),
            ShownIdentity::Chosen(_) => None,
        }
    }

    pub(crate) fn set(&self, identity: Identity) {
        self.write().usual = ShownIdentity::Identity(identity);
    }

    pub(crate) fn set_for(&self, protocols: &[&str], identity: &Identity) {
        let protocols = protocols.iter().map(|name| name.as_bytes().to_vec());
        self.write().by_protocol.extend(protocols.map(|name| (name, identity.clone())));
    }
}

impl ResolvesServerCert for Present {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let by = {
            let shown = self.read();
            let identity =
                hello.alpn().and_then(|mut names| names.find_map(|name| shown.by_protocol.get(name)));
            match (identity, &shown.usual) {
                (Some(identity), _) | (None, ShownIdentity::Identity(identity)) => {
                    return Some(identity.certified.clone());
                }
                (None, ShownIdentity::Chosen(by)) => by.clone(),
            }
        };
        // Without the lock: it may well set another identity.
        by.resolve(hello)
    }

    fn only_raw_public_keys(&self) -> bool {
        matches!(&self.read().usual, ShownIdentity::Chosen(by) if by.only_raw_public_keys())
    }
}

/// The key stays out of logs.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({})", self.fingerprint())
    }
}

#[cfg(all(test, feature = "self-signed"))]
mod tests {
    use super::*;

    #[test]
    fn pem_and_back_is_the_same_identity() {
        let made = Identity::self_signed(["localhost", "127.0.0.1"]).unwrap();
        let read = Identity::from_pem(made.certificate_pem(), made.private_key_pem()).unwrap();
        assert_eq!(made.fingerprint(), read.fingerprint());
        assert_eq!(format!("{made:?}"), format!("Identity({})", made.fingerprint()));
        assert_ne!(made.fingerprint(), Identity::self_signed(["localhost"]).unwrap().fingerprint());
    }

    #[test]
    fn another_certificate_of_the_same_key_has_another_hash() {
        let made = Identity::self_signed(["localhost"]).unwrap();
        let begin = SystemTime::now();
        let [first, second] = [0, 1]
            .map(|day| begin + Duration::from_secs(day * 24 * 3600))
            .map(|begin| made.renewed_for_browsers(["localhost"], begin).unwrap());
        assert_eq!([first.fingerprint(), second.fingerprint()], [made.fingerprint(); 2]);
        assert_ne!(first.certificate_hash(), second.certificate_hash());
        // Browsers take no other kind of key.
        let other = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P384_SHA384).unwrap();
        let params = rcgen::CertificateParams::new(vec!["localhost".into()]).unwrap();
        let other = Identity::from_pem(&params.self_signed(&other).unwrap().pem(), &other.serialize_pem());
        assert!(other.unwrap().renewed_for_browsers(["localhost"], begin).is_err());
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let (a, b) = (Identity::self_signed(["a"]).unwrap(), Identity::self_signed(["b"]).unwrap());
        let mixed = Identity::from_pem(a.certificate_pem(), b.private_key_pem());
        assert!(matches!(mixed, Err(IdentityError::Mismatch)), "{mixed:?}");
        let swapped = Identity::from_pem(a.private_key_pem(), a.certificate_pem());
        assert!(matches!(swapped, Err(IdentityError::Pem("certificates"))), "{swapped:?}");
        assert!(matches!(
            Identity::from_pem(a.certificate_pem(), ""),
            Err(IdentityError::Pem("a private key"))
        ));
    }
}
