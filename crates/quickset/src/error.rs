use quickset_tls::provider::NAME;

use crate::KeyGroup;

/// Why a configuration cannot be used.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// RFC 9001 §8.1: QUIC needs an application protocol.
    #[error("name at least one application protocol, such as \"chat/1\"")]
    NoProtocol,
    /// Early data is in one application protocol.
    #[error("early data is in one application protocol: name no others beside it")]
    EarlyProtocols,
    /// RFC 7301 §3.1.
    #[error("the name of an application protocol has 1 to 255 bytes")]
    BadProtocol,
    /// RFC 9001 §4.2: QUIC has TLS 1.3 and nothing older.
    #[error("QUIC needs TLS 1.3; build the TLS configuration with rustls::version::TLS13")]
    NoTls13,
    /// The cryptography of a TLS configuration seals no packets.
    #[error("none of the TLS 1.3 cipher suites can be used for QUIC; take another CryptoProvider")]
    NoQuicSuite,
    /// RFC 9001 §4.6.1.
    #[error("max_early_data_size is {0}, and for QUIC only 0 and u32::MAX have a meaning; set one of them")]
    EarlySize(u32),
    /// TLS itself finds a fault with the configuration.
    #[error("the TLS configuration cannot be used: {0}")]
    Unfit(rustls::Error),
    /// What clients have to prove is part of a TLS configuration that the application made.
    #[error("the application configured TLS itself; say there, by a verifier, what clients have to prove")]
    OwnVerifier,
    /// Nobody comes to a secret by nothing.
    #[error("name at least one group for the exchange of keys, such as KeyGroup::X25519")]
    NoGroup,
    /// The provider of cryptography that this build has exchanges no keys by this group.
    #[error(
        "{NAME} has no {0}; build quickset with its feature `aws-lc-rs`, which has, or name other groups"
    )]
    AbsentGroup(KeyGroup),
    /// How keys are exchanged is part of a TLS configuration that the application made.
    #[error(
        "the application configured TLS itself; say there, in kx_groups of its CryptoProvider, how keys are exchanged"
    )]
    OwnProvider,
}
