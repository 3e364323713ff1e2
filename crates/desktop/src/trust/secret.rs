use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use aws_lc_rs::{hmac, pbkdf2, rand};
use quickset::Fingerprint;

/// What both ends know besides keys: a password, or a token. Only what is derived from it is kept.
///
/// It is stretched with the server's fingerprint as salt: what a client proves to one server is of no use to
/// another, and whoever breaks into one finds no password of others.
#[derive(Clone)]
pub struct Secret(hmac::Key);

/// A token for one use, of 125 random bits, written in groups of five letters and digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

/// The proof that one end of a TLS connection knows a [`Secret`]: a MAC over key material that only the two ends of
/// just this connection have (RFC 8446 §7.5). Somebody in between has other key material on each side.
#[derive(Clone, Copy)]
pub struct Proof([u8; Proof::SIZE]);

/// Who proves: each role's proof differs, so that none can be handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The viewer's gateway.
    Client,
    /// The VNC server's gateway.
    Server,
}

/// What was given is not a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a token has five groups of five letters and digits; the server prints it when it starts")]
pub struct ParseTokenError;

impl Secret {
    /// A password that people chose: worth some work to whoever guesses.
    pub fn password(password: &str, server: Fingerprint) -> Self {
        Self::stretch(password.as_bytes(), server, WORK)
    }

    /// A token, which cannot be guessed anyway.
    pub fn token(token: &Token, server: Fingerprint) -> Self {
        Self::stretch(token.0.as_bytes(), server, 1)
    }

    /// What nobody knows: proofs of it are all wrong. Checking one takes as long as with any other.
    pub(super) fn unknown() -> Self {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).expect("the system has entropy: keys were made with it");
        Self(hmac::Key::new(hmac::HMAC_SHA256, &bytes))
    }

    /// The proof of `role` on the connection with this key material.
    pub fn prove(&self, role: Role, exported: &Exported) -> Proof {
        let tag = hmac::sign(&self.0, &message(role, exported));
        let mut proof = [0; Proof::SIZE];
        proof.copy_from_slice(tag.as_ref());
        Proof(proof)
    }

    /// The proof is right. Takes the same time wherever it is wrong.
    pub fn verify(&self, role: Role, exported: &Exported, proof: &Proof) -> bool {
        hmac::verify(&self.0, &message(role, exported), &proof.0).is_ok()
    }

    fn stretch(secret: &[u8], server: Fingerprint, work: u32) -> Self {
        let work = NonZeroU32::new(work).expect("both are above zero");
        let salt = [b"quickset-desktop/1 ".as_slice(), &server.0].concat();
        let mut key = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, work, &salt, secret, &mut key);
        Self(hmac::Key::new(hmac::HMAC_SHA256, &key))
    }
}

impl Token {
    /// A new one.
    pub fn random() -> Self {
        let mut bytes = [0; GROUPS * GROUP];
        rand::fill(&mut bytes).expect("the system has entropy: keys were made with it");
        let mut text = String::new();
        for (i, byte) in bytes.iter().enumerate() {
            if i > 0 && i % GROUP == 0 {
                text.push('-');
            }
            text.push(char::from(ALPHABET[usize::from(byte % 32)]));
        }
        Self(text)
    }

    /// For the user's eyes, and no log.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for Token {
    type Err = ParseTokenError;

    /// Whatever its case, with spaces or dashes or without.
    fn from_str(text: &str) -> Result<Self, ParseTokenError> {
        let mut token = String::new();
        for (i, c) in text.chars().filter(|c| !matches!(c, '-' | ' ')).enumerate() {
            // What is easily misread is taken as what was meant.
            let c = match c.to_ascii_lowercase() {
                'o' => '0',
                'i' | 'l' => '1',
                c => c,
            };
            if i >= GROUPS * GROUP || !ALPHABET.contains(&u8::try_from(c).map_err(|_| ParseTokenError)?) {
                return Err(ParseTokenError);
            }
            if i > 0 && i % GROUP == 0 {
                token.push('-');
            }
            token.push(c);
        }
        if token.len() == GROUPS * GROUP + GROUPS - 1 { Ok(Self(token)) } else { Err(ParseTokenError) }
    }
}

impl Proof {
    /// Bytes of a proof.
    pub const SIZE: usize = 32;

    /// As it came from the peer.
    pub const fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        Self(bytes)
    }

    /// As it is sent.
    pub const fn to_bytes(self) -> [u8; Self::SIZE] {
        self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl fmt::Debug for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof(..)")
    }
}

fn message(role: Role, exported: &Exported) -> [u8; 33] {
    let mut message = [0; 33];
    message[0] = match role {
        Role::Client => b'c',
        Role::Server => b's',
    };
    message[1..].copy_from_slice(exported);
    message
}

/// Key material of a connection, exported with [`LABEL`].
pub type Exported = [u8; 32];

/// What the key material is exported for.
pub const LABEL: &[u8] = b"EXPORTER-quickset-desktop-proof";

/// Rounds of PBKDF2 (RFC 8018 §5.2), some 100 ms: the client alone pays them for each server, and who guesses for
/// each guess. OWASP recommends 600,000.
const WORK: u32 = 600_000;
/// Crockford's: no i, l, o, u.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const GROUPS: usize = 5;
const GROUP: usize = 5;
