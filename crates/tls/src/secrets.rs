use std::fmt;
use std::time::Duration;

use quickset_quic::{ConnectionId, EndpointCrypto, ResetToken};

use crate::provider::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use crate::provider::{hkdf, hmac};

/// What an endpoint keeps secret for longer than a connection lasts, all of it from one master secret.
///
/// With the same secret after a restart an endpoint resets the connections that its predecessor had; its
/// tokens it honours [with a clock](Self::with_token_key) that both have. Who knows the secret can end the
/// connections of this endpoint and forge its tokens.
pub struct EndpointSecrets {
    reset: hmac::Key,
    tokens: hkdf::Prk,
    began: Duration,
}

impl EndpointSecrets {
    /// From 32 bytes of entropy.
    pub fn new(master: &[u8; 32]) -> Self {
        let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(master);
        let reset = hmac::Key::new(hmac::HMAC_SHA256, &expand(&extracted, &[b"stateless reset"]));
        let tokens = hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, &expand(&extracted, &[b"token"]));
        Self { reset, tokens, began: Duration::ZERO }
    }

    /// The same with resets by a key of their own: who has the key after a restart resets the connections of
    /// before.
    #[must_use]
    pub fn with_reset_key(mut self, key: &[u8; 32]) -> Self {
        self.reset = Self::new(key).reset;
        self
    }

    /// The same with address validation tokens by a key of their own: who has the key after a restart honours
    /// those of before. `began` is when the endpoint does, by a clock that both have: since 1970, say.
    #[must_use]
    pub fn with_token_key(mut self, key: &[u8; 32], began: Duration) -> Self {
        self.tokens = Self::new(key).tokens;
        self.began = began;
        self
    }

    /// A key for each token: random nonces of 96 bits under one key would limit it to 2^32 tokens
    /// (NIST SP 800-38D §8.3), which a server under attack makes within hours.
    fn token_key(&self, nonce: &[u8; NONCE]) -> Option<LessSafeKey> {
        UnboundKey::new(&AES_256_GCM, &expand(&self.tokens, &[nonce])).ok().map(LessSafeKey::new)
    }
}

impl EndpointCrypto for EndpointSecrets {
    fn reset_token(&self, id: &ConnectionId) -> ResetToken {
        let tag = hmac::sign(&self.reset, id);
        ResetToken(*tag.as_ref().first_chunk().expect("HMAC-SHA256 has 32 bytes"))
    }

    fn seal_token(&self, nonce: [u8; NONCE], plain: &[u8]) -> Vec<u8> {
        let key = self.token_key(&nonce).expect("a key of 32 bytes is one of AES-256");
        let mut token = Vec::with_capacity(NONCE + plain.len() + TAG);
        token.extend_from_slice(&nonce);
        token.extend_from_slice(plain);
        let zero = Nonce::assume_unique_for_key([0; NONCE]);
        let tag = key
            .seal_in_place_separate_tag(zero, Aad::empty(), &mut token[NONCE..])
            .expect("a token is far shorter than AES-GCM allows");
        token.extend_from_slice(tag.as_ref());
        token
    }

    fn open_token(&self, token: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = token.split_first_chunk()?;
        let key = self.token_key(nonce)?;
        let mut sealed = sealed.to_vec();
        let zero = Nonce::assume_unique_for_key([0; NONCE]);
        let plain = key.open_in_place(zero, Aad::empty(), &mut sealed).ok()?.len();
        sealed.truncate(plain);
        Some(sealed)
    }

    fn began(&self) -> Duration {
        self.began
    }
}

impl fmt::Debug for EndpointSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EndpointSecrets(..)")
    }
}

fn expand(secret: &hkdf::Prk, label: &[&[u8]]) -> [u8; 32] {
    let mut out = [0; 32];
    secret
        .expand(label, hkdf::HKDF_SHA256)
        .and_then(|okm| okm.fill(&mut out))
        .expect("32 bytes are as many as were asked for");
    out
}

const SALT: &[u8] = b"quickset endpoint v1";
const NONCE: usize = 12;
const TAG: usize = 16;
