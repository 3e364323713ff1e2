use std::fmt;
use std::str::FromStr;

use quickset_tls::provider;
use rustls::server::ParsedCertificate;
use rustls_pki_types::CertificateDer;

/// The SHA-256 hash of a certificate's public key (its SubjectPublicKeyInfo in DER), written as
/// `sha256:` and 64 hexadecimal digits.
///
/// It names who holds the key: a certificate that is issued anew for the same key has the same one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

/// What was given is not a fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is `sha256:` and 64 hexadecimal digits; a server prints its own when it starts")]
pub struct ParseFingerprintError;

impl Fingerprint {
    /// The fingerprint of a certificate's key; `None` when the certificate cannot be read.
    pub fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let key = ParsedCertificate::try_from(certificate).ok()?.subject_public_key_info();
        Some(Self(provider::sha256(&key)))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Fingerprint {
    type Err = ParseFingerprintError;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        let digits = s.trim().strip_prefix(PREFIX).ok_or(ParseFingerprintError)?.as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 2 * hash.len() {
            return Err(ParseFingerprintError);
        }
        for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
            *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
        }
        Ok(Self(hash))
    }
}

fn nibble(digit: u8) -> Result<u8, ParseFingerprintError> {
    let value = char::from(digit).to_digit(16).ok_or(ParseFingerprintError)?;
    u8::try_from(value).map_err(|_| ParseFingerprintError)
}

const PREFIX: &str = "sha256:";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_back() {
        let text = "sha256:000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff";
        let fingerprint: Fingerprint = text.parse().unwrap();
        assert_eq!(fingerprint.0[30..], [0x1e, 0xff]);
        assert_eq!(fingerprint.to_string(), text);
        assert_eq!(text.to_uppercase().replace("SHA", "sha").parse(), Ok(fingerprint));
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in ["", "sha256:", "sha256:00", "md5:00", &format!("sha256:{}", "é".repeat(32))] {
            assert_eq!(text.parse::<Fingerprint>(), Err(ParseFingerprintError), "{text}");
        }
    }
}
