use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;

use aws_lc_rs::{hmac, pbkdf2, rand};
use quickset::Fingerprint;
use spake2::{Ed25519Group, Identity, Password, Spake2};

/// What both ends know besides keys: a password, or a token. Only what is derived from it is kept.
///
/// It is stretched with the server's fingerprint as salt, so that whoever breaks into one server finds no
/// password of others.
#[derive(Clone)]
pub struct Secret([u8; 32]);

/// What one end adds to a SPAKE2 exchange. It tells nothing of the secret.
pub type Spake2Share = [u8; 33];

/// A client's side of an exchange that waits for the server's.
pub struct ClientAsking(Spake2<Ed25519Group>);

/// What a server answers a client's share with.
#[derive(Clone, Copy, Debug)]
pub struct ServerShare {
    /// Its own.
    pub share: Spake2Share,
    /// That it knows the secret.
    pub proof: SecretProof,
}

/// What proves that the client knows the secret, too.
pub struct Expected(hmac::Key);

/// A token for one use, of 125 random bits, written in groups of five letters and digits.
#[derive(Clone, PartialEq, Eq)]
pub struct OneTimeToken(String);

/// The proof that one end of a TLS connection has the key that both have if they know the same [`Secret`]: a
/// MAC over key material that only the two ends of just this connection have (RFC 8446 §7.5). Somebody in
/// between has other key material on each side.
#[derive(Clone, Copy)]
pub struct SecretProof([u8; SecretProof::SIZE]);

/// Who proves: each role's proof differs, so that none can be handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProofRole {
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
    /// A password that people chose: worth some work to whoever finds what is kept of it.
    pub fn password(password: &str, server: Fingerprint) -> Self {
        Self::stretch(password.as_bytes(), server, WORK)
    }

    /// A token, which cannot be guessed anyway.
    pub fn token(token: &OneTimeToken, server: Fingerprint) -> Self {
        Self::stretch(token.0.as_bytes(), server, 1)
    }

    /// What nobody knows: to answer with it takes as long as with any other.
    pub(super) fn unknown() -> Self {
        let mut bytes = [0; 32];
        rand::fill(&mut bytes).expect("the system has entropy: keys were made with it");
        Self(bytes)
    }

    /// What a file keeps of it, for those alone who may come in by it.
    pub(super) fn to_bytes(&self) -> [u8; 32] {
        self.0
    }

    /// As [`to_bytes`](Self::to_bytes) gave it.
    pub(super) fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Begins an exchange as a client. Whoever answers learns whether one guess is right, and nothing to try
    /// others on.
    pub fn ask(&self) -> (ClientAsking, Spake2Share) {
        let (state, share) = Spake2::start_a(&Password::new(self.0), &client(), &server());
        (ClientAsking(state), share.try_into().expect("a side and a point"))
    }

    /// Answers a client's share as a server, on the connection with this key material. `None` when it is not
    /// one.
    pub fn answer(&self, share: &Spake2Share, exported: &Exported) -> Option<(ServerShare, Expected)> {
        let (state, ours) = Spake2::<Ed25519Group>::start_b(&Password::new(self.0), &client(), &server());
        let key = confirming(state, share)?;
        let proof = SecretProof::new(&key, ProofRole::Server, exported);
        Some((ServerShare { share: ours.try_into().expect("a side and a point"), proof }, Expected(key)))
    }

    fn stretch(secret: &[u8], server: Fingerprint, work: u32) -> Self {
        let work = NonZeroU32::new(work).expect("both are above zero");
        let salt = [b"quickset-desktop/1 ".as_slice(), &server.0].concat();
        let mut key = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, work, &salt, secret, &mut key);
        Self(key)
    }
}

impl ClientAsking {
    /// The client's proof, if the server has shown its own. Who has not is shown none: it would be an answer
    /// to one more guess.
    pub fn hear(self, answer: &ServerShare, exported: &Exported) -> Option<SecretProof> {
        let key = confirming(self.0, &answer.share)?;
        answer
            .proof
            .is_of(&key, ProofRole::Server, exported)
            .then(|| SecretProof::new(&key, ProofRole::Client, exported))
    }
}

impl Expected {
    /// Whether the client's proof is right. Takes the same time wherever it is wrong.
    pub fn is(&self, proof: &SecretProof, exported: &Exported) -> bool {
        proof.is_of(&self.0, ProofRole::Client, exported)
    }
}

/// The key that both ends have when their secrets are the same.
fn confirming(state: Spake2<Ed25519Group>, share: &Spake2Share) -> Option<hmac::Key> {
    let key = state.finish(share).ok()?;
    Some(hmac::Key::new(hmac::HMAC_SHA256, &key))
}

fn client() -> Identity {
    Identity::new(b"quickset-desktop client")
}

fn server() -> Identity {
    Identity::new(b"quickset-desktop server")
}

impl OneTimeToken {
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

    /// Its first group, by which a server finds what it has been told of the token. The other hundred bits
    /// are what it is worth.
    pub fn id(&self) -> &str {
        &self.0[..GROUP]
    }

    /// For the user's eyes, and no log.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl FromStr for OneTimeToken {
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

impl SecretProof {
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

    fn new(key: &hmac::Key, role: ProofRole, exported: &Exported) -> Self {
        let tag = hmac::sign(key, &message(role, exported));
        Self(tag.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }

    fn is_of(&self, key: &hmac::Key, role: ProofRole, exported: &Exported) -> bool {
        hmac::verify(key, &message(role, exported), &self.0).is_ok()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl fmt::Debug for ClientAsking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asking(..)")
    }
}

impl fmt::Debug for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Expected(..)")
    }
}

impl fmt::Debug for OneTimeToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl fmt::Debug for SecretProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Proof(..)")
    }
}

fn message(role: ProofRole, exported: &Exported) -> [u8; 33] {
    let mut message = [0; 33];
    message[0] = match role {
        ProofRole::Client => b'c',
        ProofRole::Server => b's',
    };
    message[1..].copy_from_slice(exported);
    message
}

/// Key material of a connection, exported with [`LABEL`].
pub type Exported = [u8; 32];

/// What the key material is exported for.
pub const LABEL: &[u8] = b"EXPORTER-quickset-desktop-proof";

/// Rounds of PBKDF2 (RFC 8018 §5.2), some 100 ms: the client alone pays them for each server, and who has
/// broken into a server for each guess. OWASP recommends 600,000.
const WORK: u32 = 600_000;
/// Crockford's: no i, l, o, u.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const GROUPS: usize = 5;
const GROUP: usize = 5;
