use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use quickset_tls::provider::{default_provider, exchange};
use rustls::NamedGroup;
use rustls::crypto::CryptoProvider;

use crate::ConfigError;

/// How the two sides of a handshake come to a secret (RFC 8446 §4.2.7: named groups).
///
/// A text names one as the registry of TLS does, in capitals or not: `X25519MLKEM768`. All have names in all
/// builds; those with ML-KEM are there to be used with the feature `aws-lc-rs` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyGroup {
    /// X25519 and ML-KEM-768 together (draft-ietf-tls-ecdhe-mlkem): a recording of today stays secret from a
    /// quantum computer of tomorrow. A client's share of it takes 1216 bytes, so that a hello fills two
    /// datagrams.
    X25519MlKem768,
    /// P-256 and ML-KEM-768 together.
    SecP256r1MlKem768,
    /// Curve25519.
    X25519,
    /// NIST's curve P-256.
    SecP256r1,
    /// NIST's curve P-384.
    SecP384r1,
}

impl KeyGroup {
    const ALL: [Self; 5] =
        [Self::X25519MlKem768, Self::SecP256r1MlKem768, Self::X25519, Self::SecP256r1, Self::SecP384r1];

    /// The registry's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X25519MlKem768 => "X25519MLKEM768",
            Self::SecP256r1MlKem768 => "SecP256r1MLKEM768",
            Self::X25519 => "x25519",
            Self::SecP256r1 => "secp256r1",
            Self::SecP384r1 => "secp384r1",
        }
    }

    /// The same in the words of rustls.
    pub fn rustls(self) -> NamedGroup {
        match self {
            Self::X25519MlKem768 => NamedGroup::X25519MLKEM768,
            Self::SecP256r1MlKem768 => NamedGroup::secp256r1MLKEM768,
            Self::X25519 => NamedGroup::X25519,
            Self::SecP256r1 => NamedGroup::secp256r1,
            Self::SecP384r1 => NamedGroup::secp384r1,
        }
    }

    /// The provider of cryptography that this build has can exchange keys by it.
    fn is_there(self) -> bool {
        exchange(self.rustls()).is_some()
    }
}

impl fmt::Display for KeyGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for KeyGroup {
    type Err = GroupError;

    fn from_str(text: &str) -> Result<Self, GroupError> {
        let known = Self::ALL.into_iter().find(|group| group.name().eq_ignore_ascii_case(text));
        known.ok_or_else(|| GroupError(text.to_owned()))
    }
}

/// A text names no group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no group; write X25519MLKEM768, SecP256r1MLKEM768, x25519, secp256r1 or secp384r1")]
pub struct GroupError(String);

/// Groups in order of preference, at least one, that the provider of cryptography has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups(Vec<KeyGroup>);

impl Groups {
    pub(crate) fn new(groups: &[KeyGroup]) -> Result<Self, ConfigError> {
        if groups.is_empty() {
            return Err(ConfigError::NoGroup);
        }
        if let Some(group) = groups.iter().find(|group| !group.is_there()) {
            return Err(ConfigError::AbsentGroup(*group));
        }
        // RFC 8446 §4.2.8: a client has no two shares of one group.
        let first = |(at, group): (usize, &KeyGroup)| (!groups[..at].contains(group)).then_some(*group);
        Ok(Self(groups.iter().enumerate().filter_map(first).collect()))
    }

    /// The cryptography of our own configurations.
    pub(crate) fn provider(&self) -> Arc<CryptoProvider> {
        let kx_groups = self.0.iter().filter_map(|group| exchange(group.rustls())).collect();
        Arc::new(CryptoProvider { kx_groups, ..default_provider() })
    }
}

impl Default for Groups {
    /// TLS makes its client's share for the first, and as that holds a share of X25519, gives this for
    /// itself, too: neither a server that insists on the one nor one that knows the other alone costs a round
    /// trip (RFC 8446 §4.1.4).
    fn default() -> Self {
        let usual = [KeyGroup::X25519MlKem768, KeyGroup::X25519, KeyGroup::SecP256r1, KeyGroup::SecP384r1];
        Self(usual.into_iter().filter(|group| group.is_there()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers of IANA's registry "TLS Supported Groups".
    #[test]
    fn groups_are_those_of_the_registry() {
        let registered = [
            ("X25519MLKEM768", 4588),
            ("SecP256r1MLKEM768", 4587),
            ("x25519", 29),
            ("secp256r1", 23),
            ("secp384r1", 24),
        ];
        assert_eq!(registered.len(), KeyGroup::ALL.len());
        for (name, number) in registered {
            let group: KeyGroup = name.parse().unwrap();
            assert_eq!((group.to_string().as_str(), u16::from(group.rustls())), (name, number));
            assert_eq!(name.to_lowercase().parse(), Ok(group));
            assert_eq!(name.to_uppercase().parse(), Ok(group));
        }
        let error = "kyber".parse::<KeyGroup>().unwrap_err().to_string();
        assert!(KeyGroup::ALL.iter().all(|group| error.contains(group.name())), "{error}");
    }

    #[test]
    fn each_group_once_and_at_least_one() {
        let groups = Groups::new(&[KeyGroup::X25519, KeyGroup::SecP384r1, KeyGroup::X25519]).unwrap();
        assert_eq!(groups.0, [KeyGroup::X25519, KeyGroup::SecP384r1]);
        assert_eq!(Groups::new(&[]), Err(ConfigError::NoGroup));
    }
}
