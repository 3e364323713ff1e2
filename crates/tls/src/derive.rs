//! Keys of packets from the secrets of TLS by our own means (RFC 9001 §5.1, RFC 9369 §3.3.1): for a client
//! that goes on in another version than its TLS library was told at the beginning.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use quickset_quic::{HeaderKey, Keys, NextKeys, PacketKey, PacketKeys, Sealing, Version};
use rustls::{CipherSuite, KeyLog};

use crate::provider::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey, quic};
use crate::provider::hkdf;

/// Secrets of a connection as TLS tells them to whoever wants to read along, kept until it is known that they
/// are not needed; what else reads along still does.
pub(crate) struct Overheard {
    secrets: Mutex<[Vec<u8>; 4]>,
    log: Arc<dyn KeyLog>,
}

/// Which of them: those of both directions for Handshake and for 1-RTT packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SecretLevel {
    Handshake,
    OneRtt,
}

impl Overheard {
    pub(crate) fn new(log: Arc<dyn KeyLog>) -> Self {
        Self { secrets: Mutex::default(), log }
    }

    /// The client's and the server's secret, once: nothing is kept of them.
    pub(crate) fn take(&self, level: SecretLevel) -> [Vec<u8>; 2] {
        let mut secrets = self.secrets.lock().unwrap_or_else(PoisonError::into_inner);
        let at = 2 * usize::from(level == SecretLevel::OneRtt);
        [std::mem::take(&mut secrets[at]), std::mem::take(&mut secrets[at + 1])]
    }
}

impl KeyLog for Overheard {
    fn log(&self, label: &str, random: &[u8], secret: &[u8]) {
        if let Some(at) = LABELS.iter().position(|known| *known == label) {
            self.secrets.lock().unwrap_or_else(PoisonError::into_inner)[at] = secret.to_vec();
        }
        if self.log.will_log(label) {
            self.log.log(label, random, secret);
        }
    }

    fn will_log(&self, label: &str) -> bool {
        LABELS.contains(&label) || self.log.will_log(label)
    }
}

impl fmt::Debug for Overheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Overheard(..)")
    }
}

/// How a cipher suite makes keys in a version of QUIC.
#[derive(Clone, Copy)]
pub(crate) struct Recipe {
    aead: &'static aead::Algorithm,
    header: &'static quic::Algorithm,
    hash: hkdf::Algorithm,
    labels: &'static HkdfLabels,
    /// RFC 9001 §6.6: packets sealed, and failed to open.
    limits: (u64, u64),
}

impl Recipe {
    /// `None` for those that QUIC does not use.
    pub(crate) fn new(suite: CipherSuite, version: Version) -> Option<Self> {
        let (aead, header, hash, limits) = match suite {
            CipherSuite::TLS13_AES_128_GCM_SHA256 => {
                (&aead::AES_128_GCM, &quic::AES_128, hkdf::HKDF_SHA256, AES_GCM_LIMITS)
            }
            CipherSuite::TLS13_AES_256_GCM_SHA384 => {
                (&aead::AES_256_GCM, &quic::AES_256, hkdf::HKDF_SHA384, AES_GCM_LIMITS)
            }
            CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => {
                (&aead::CHACHA20_POLY1305, &quic::CHACHA20, hkdf::HKDF_SHA256, CHACHA_LIMITS)
            }
            _ => return None,
        };
        let labels = match version {
            Version::V1 => &V1,
            Version::V2 => &V2,
            _ => return None,
        };
        Some(Self { aead, header, hash, labels, limits })
    }

    /// Of a client, from the secrets of both directions.
    pub(crate) fn keys(&self, [local, remote]: &[Vec<u8>; 2]) -> Option<Keys> {
        Some(Keys { local: self.sealing(local)?, remote: self.sealing(remote)? })
    }

    /// All generations behind the one of these secrets.
    pub(crate) fn next(self, secrets: [Vec<u8>; 2]) -> Box<dyn NextKeys> {
        Box::new(Generations { recipe: self, secrets })
    }

    fn sealing(&self, secret: &[u8]) -> Option<Sealing> {
        let key = self.expand(secret, self.labels.header, self.header.key_len())?;
        let key = quic::HeaderProtectionKey::new(self.header, &key).ok()?;
        Some(Sealing { header: Box::new(HeaderCipher(key)), packet: Box::new(self.packet(secret)?) })
    }

    fn packet(&self, secret: &[u8]) -> Option<PacketCipher> {
        let key = self.expand(secret, self.labels.key, self.aead.key_len())?;
        let iv = self.expand(secret, self.labels.iv, aead::NONCE_LEN)?;
        let key = LessSafeKey::new(UnboundKey::new(self.aead, &key).ok()?);
        Some(PacketCipher { key, iv: iv.try_into().ok()?, limits: self.limits })
    }

    /// HKDF-Expand-Label without a context (RFC 8446 §7.1).
    fn expand(&self, secret: &[u8], label: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut out = vec![0; len];
        expand_label(self.hash, secret, [label, &[]], &mut out).then_some(out)
    }
}

/// HKDF-Expand-Label with a label and a context (RFC 8446 §7.1). False: nothing is expanded so far, or from
/// such a secret.
pub(crate) fn expand_label(
    hash: hkdf::Algorithm,
    secret: &[u8],
    [label, context]: [&[u8]; 2],
    out: &mut [u8],
) -> bool {
    struct KeyLength(usize);
    impl hkdf::KeyType for KeyLength {
        fn len(&self) -> usize {
            self.0
        }
    }
    let lengths = (
        u16::try_from(out.len()).map(u16::to_be_bytes),
        u8::try_from(PREFIX.len() + label.len()),
        u8::try_from(context.len()),
    );
    let (false, (Ok(length), Ok(label_len), Ok(context_len))) = (secret.is_empty(), lengths) else {
        return false;
    };
    let info = [&length[..], &[label_len], PREFIX, label, &[context_len], context];
    let prk = hkdf::Prk::new_less_safe(hash, secret);
    prk.expand(&info, KeyLength(out.len())).and_then(|okm| okm.fill(out)).is_ok()
}

struct Generations {
    recipe: Recipe,
    secrets: [Vec<u8>; 2],
}

impl NextKeys for Generations {
    fn next(&mut self) -> PacketKeys {
        // RFC 9001 §6.1.
        let [local, remote] = self.secrets.each_mut().map(|secret| {
            let next = self.recipe.expand(secret, self.recipe.labels.update, secret.len());
            *secret = next.expect("a hash expands to as many bytes as it has");
            let packet = self.recipe.packet(secret);
            Box::new(packet.expect("the keys of the generation before were made so"))
        });
        PacketKeys { local, remote }
    }
}

struct PacketCipher {
    key: LessSafeKey,
    iv: [u8; aead::NONCE_LEN],
    limits: (u64, u64),
}

impl PacketCipher {
    /// RFC 9001 §5.3.
    #[inline]
    fn nonce(&self, pn: u64) -> Nonce {
        let mut nonce = self.iv;
        for (byte, pn) in nonce[aead::NONCE_LEN - 8..].iter_mut().zip(pn.to_be_bytes()) {
            *byte ^= pn;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

impl PacketKey for PacketCipher {
    #[inline]
    fn seal(&self, pn: u64, header: &[u8], payload: &mut [u8]) {
        let plain = payload.len().checked_sub(self.tag_len()).expect("the payload has room for the tag");
        let (plain, room) = payload.split_at_mut(plain);
        let tag = self.key.seal_in_place_separate_tag(self.nonce(pn), Aad::from(header), plain);
        room.copy_from_slice(tag.expect("a packet is far shorter than any AEAD allows").as_ref());
    }

    #[inline]
    fn open(&self, pn: u64, header: &[u8], payload: &mut [u8]) -> Option<usize> {
        self.key.open_in_place(self.nonce(pn), Aad::from(header), payload).ok().map(|plain| plain.len())
    }

    fn tag_len(&self) -> usize {
        self.key.algorithm().tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.limits.0
    }

    fn integrity_limit(&self) -> u64 {
        self.limits.1
    }
}

struct HeaderCipher(quic::HeaderProtectionKey);

impl HeaderCipher {
    #[inline]
    fn mask(&self, sample: &[u8]) -> [u8; 5] {
        self.0.new_mask(sample).expect("the sample has the size of QUIC")
    }
}

impl HeaderKey for HeaderCipher {
    #[inline]
    fn protect(&self, sample: &[u8], first: &mut u8, pn: &mut [u8]) {
        let mask = self.mask(sample);
        let len = usize::from(*first & 3) + 1;
        *first ^= mask[0] & masked_bits(*first);
        apply(&mask[1..=len], pn);
    }

    #[inline]
    fn unprotect(&self, sample: &[u8], first: &mut u8, pn: &mut [u8]) {
        let mask = self.mask(sample);
        *first ^= mask[0] & masked_bits(*first);
        let len = usize::from(*first & 3) + 1;
        apply(&mask[1..=len], pn);
    }

    fn sample_len(&self) -> usize {
        self.0.algorithm().sample_len()
    }
}

/// RFC 9001 §5.4.1: four bits of a long header are masked, five of a short one.
#[inline]
fn masked_bits(first: u8) -> u8 {
    if first & 0x80 == 0 { 0x1f } else { 0x0f }
}

#[inline]
fn apply(mask: &[u8], pn: &mut [u8]) {
    pn.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
}

/// What HKDF-Expand-Label is told.
struct HkdfLabels {
    key: &'static [u8],
    iv: &'static [u8],
    header: &'static [u8],
    update: &'static [u8],
}

/// RFC 9001 §5.1, §6.1.
const V1: HkdfLabels =
    HkdfLabels { key: b"quic key", iv: b"quic iv", header: b"quic hp", update: b"quic ku" };
/// RFC 9369 §3.3.2.
const V2: HkdfLabels =
    HkdfLabels { key: b"quicv2 key", iv: b"quicv2 iv", header: b"quicv2 hp", update: b"quicv2 ku" };

const PREFIX: &[u8] = b"tls13 ";

/// What TLS calls them (the format of NSS key logs), in the order of [`Overheard::secrets`].
const LABELS: [&str; 4] = [
    "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
    "SERVER_HANDSHAKE_TRAFFIC_SECRET",
    "CLIENT_TRAFFIC_SECRET_0",
    "SERVER_TRAFFIC_SECRET_0",
];

const AES_GCM_LIMITS: (u64, u64) = (1 << 23, 1 << 52);
const CHACHA_LIMITS: (u64, u64) = (u64::MAX, 1 << 36);

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        (0..text.len() / 2).map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap()).collect()
    }

    /// RFC 9001 §A.5 and RFC 9369 §A.5: one secret, the keys of both versions, and the same packet.
    #[test]
    fn the_short_headers_of_both_versions() {
        let secret = hex("9ac312a7f877468ebe69422748ad00a15443f18203a07d6060f688f30f21632b");
        for (version, key, iv, hp, ku, packet) in [
            (
                Version::V1,
                "c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8",
                "e0459b3474bdd0e44a41c144",
                "25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4",
                "1223504755036d556342ee9361d253421a826c9ecdf3c7148684b36b714881f9",
                "4cfe4189655e5cd55c41f69080575d7999c25a5bfb",
            ),
            (
                Version::V2,
                "3bfcddd72bcf02541d7fa0dd1f5f9eeea817e09a6963a0e6c7df0f9a1bab90f2",
                "a6b5bc6ab7dafce30ffff5dd",
                "d659760d2ba434a226fd37b35c69e2da8211d10c4f12538787d65645d5d1b8e2",
                "c69374c49e3d2a9466fa689e49d476db5d0dfbc87d32ceeaa6343fd0ae4c7d88",
                "5558b1c60ae7b6b932bc27d786f4bc2bb20f2162ba",
            ),
        ] {
            let recipe = Recipe::new(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256, version).unwrap();
            let labels = recipe.labels;
            for (label, expected) in
                [(labels.key, key), (labels.iv, iv), (labels.header, hp), (labels.update, ku)]
            {
                let expected = hex(expected);
                assert_eq!(recipe.expand(&secret, label, expected.len()), Some(expected), "{version}");
            }
            let keys = recipe.keys(&[secret.clone(), secret.clone()]).unwrap();
            // The packet of the appendices: number 654360564 in three bytes, a PING.
            let mut sealed = hex("4200bff401");
            sealed.resize(5 + 16, 0);
            let (head, body) = sealed.split_at_mut(4);
            keys.local.packet.seal(654_360_564, head, body);
            let sample: Vec<u8> = sealed[5..21].to_vec();
            let (first, rest) = sealed.split_at_mut(1);
            keys.local.header.protect(&sample, &mut first[0], &mut rest[..3]);
            assert_eq!(sealed, hex(packet), "{version}");
            let (first, rest) = sealed.split_at_mut(1);
            keys.remote.header.unprotect(&sample, &mut first[0], &mut rest[..4]);
            let (head, body) = sealed.split_at_mut(4);
            assert_eq!(keys.remote.packet.open(654_360_564, head, body), Some(1));
            assert_eq!(body[0], 1);
        }
    }

    #[test]
    fn only_suites_of_tls_1_3_and_versions_that_are_known() {
        assert!(Recipe::new(CipherSuite::TLS13_AES_128_CCM_SHA256, Version::V1).is_none());
        assert!(Recipe::new(CipherSuite::TLS13_AES_128_GCM_SHA256, Version(0x1a2a_3a4a)).is_none());
        let recipe = Recipe::new(CipherSuite::TLS13_AES_128_GCM_SHA256, Version::V2).unwrap();
        assert!(recipe.keys(&[Vec::new(), Vec::new()]).is_none(), "without secrets there are no keys");
    }
}
