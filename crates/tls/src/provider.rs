//! The provider of cryptography that this build has: aws-lc-rs or ring, by the features of these names. With
//! both it is aws-lc-rs.
//!
//! What differs between the two is named here and nowhere else, so that whoever configures rustls by
//! [`default_provider`], [`cipher_suite`] and so on compiles with either.

use rustls::NamedGroup;
use rustls::crypto::SupportedKxGroup;
#[cfg(feature = "aws-lc-rs")]
use {aws_lc_rs as primitives, rustls::crypto::aws_lc_rs as chosen};
#[cfg(all(feature = "ring", not(feature = "aws-lc-rs")))]
use {ring as primitives, rustls::crypto::ring as chosen};

pub(crate) use primitives::{aead, digest, hkdf, hmac};

/// They are rustls' own, of this provider.
pub use chosen::{ALL_KX_GROUPS, Ticketer, cipher_suite, default_provider, kx_group, sign};

/// The provider's name, which is that of its feature.
pub const NAME: &str = if cfg!(feature = "aws-lc-rs") { "aws-lc-rs" } else { "ring" };

/// The provider's way to exchange keys by `group`; `None` if it has none. ring has no group with ML-KEM.
pub fn exchange(group: NamedGroup) -> Option<&'static dyn SupportedKxGroup> {
    ALL_KX_GROUPS.iter().copied().find(|known| known.name() == group)
}

/// Hashes `bytes` by SHA-256 (FIPS 180-4).
///
/// # Panics
/// Never: such a hash has 32 bytes.
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    let hash = digest::digest(&digest::SHA256, bytes);
    hash.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// NIST's example for FIPS 180-4.
    #[test]
    fn a_hash_is_that_of_the_standard() {
        let words: [u32; 8] = [
            0xba78_16bf,
            0x8f01_cfea,
            0x4141_40de,
            0x5dae_2223,
            0xb003_61a3,
            0x9617_7a9c,
            0xb410_ff61,
            0xf200_15ad,
        ];
        assert_eq!(sha256(b"abc").to_vec(), words.map(u32::to_be_bytes).concat());
    }

    #[test]
    fn groups_are_found_by_name_where_the_provider_has_them() {
        for group in [NamedGroup::X25519, NamedGroup::secp256r1, NamedGroup::secp384r1] {
            assert_eq!(exchange(group).map(SupportedKxGroup::name), Some(group));
        }
        for group in [NamedGroup::X25519MLKEM768, NamedGroup::secp256r1MLKEM768] {
            assert_eq!(exchange(group).is_some(), NAME == "aws-lc-rs", "{group:?}");
        }
        assert!(exchange(NamedGroup::FFDHE2048).is_none());
    }
}
