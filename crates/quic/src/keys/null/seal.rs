use quickset_wire::{ConnectionId, Side, Version};

use crate::keys::{HeaderKey, Keys, NextKeys, PacketKey, PacketKeys, Sealing};

/// Later generations are numbered, and the number is part of the key.
pub(super) struct NullNext {
    local: u64,
    remote: u64,
    generation: u64,
}

impl NullNext {
    pub(super) fn new(local: u64, remote: u64) -> Self {
        Self { local, remote, generation: 0 }
    }
}

impl NextKeys for NullNext {
    fn next(&mut self) -> PacketKeys {
        self.generation += 1;
        PacketKeys {
            local: Box::new(NullPacket(mix(self.local, self.generation))),
            remote: Box::new(NullPacket(mix(self.remote, self.generation))),
        }
    }
}

/// Checks packets with a key.
struct NullPacket(u64);

impl PacketKey for NullPacket {
    fn seal(&self, pn: u64, header: &[u8], payload: &mut [u8]) {
        let Some((plain, tag)) = payload.split_last_chunk_mut::<TAG>() else { return };
        *tag = digest(mix(self.0, pn), header, plain);
    }

    fn open(&self, pn: u64, header: &[u8], payload: &mut [u8]) -> Option<usize> {
        let (plain, tag) = payload.split_last_chunk::<TAG>()?;
        (digest(mix(self.0, pn), header, plain) == *tag).then_some(plain.len())
    }

    fn tag_len(&self) -> usize {
        TAG
    }

    // Those of AES-128-GCM (RFC 9001 §6.6), so that simulations update keys when production does.
    fn confidentiality_limit(&self) -> u64 {
        1 << 23
    }

    fn integrity_limit(&self) -> u64 {
        1 << 52
    }
}

/// Masks with the sample, so that a mistake in its place is noticed.
struct NullHeader([u8; 8]);

impl NullHeader {
    #[inline]
    fn mask(&self, sample: &[u8]) -> [u8; 5] {
        std::array::from_fn(|i| self.0[i] ^ sample.get(i).copied().unwrap_or(0))
    }
}

impl HeaderKey for NullHeader {
    #[inline]
    fn protect(&self, sample: &[u8], first: &mut u8, pn: &mut [u8]) {
        let mask = self.mask(sample);
        let len = usize::from(*first & 3) + 1;
        *first ^= mask[0] & masked_bits(*first);
        for (byte, mask) in pn.iter_mut().zip(&mask[1..=len]) {
            *byte ^= mask;
        }
    }

    #[inline]
    fn unprotect(&self, sample: &[u8], first: &mut u8, pn: &mut [u8]) {
        let mask = self.mask(sample);
        *first ^= mask[0] & masked_bits(*first);
        let len = usize::from(*first & 3) + 1;
        for (byte, mask) in pn.iter_mut().zip(&mask[1..=len]) {
            *byte ^= mask;
        }
    }

    fn sample_len(&self) -> usize {
        16
    }
}

/// RFC 9001 §5.4.1: four bits of a long header are masked, five of a short one.
#[inline]
fn masked_bits(first: u8) -> u8 {
    if first & 0x80 == 0 { 0x1f } else { 0x0f }
}

pub(super) fn initial_keys(version: Version, dcid: &ConnectionId, side: Side) -> Option<Keys> {
    let [local, remote] = directions(word(&digest(u64::from(version.0), dcid, &[])), side);
    version.is_known().then(|| keys(local, remote))
}

pub(super) fn retry_tag(version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> Option<[u8; TAG]> {
    version.is_known().then(|| digest(u64::from(version.0) ^ RETRY, original_dcid, packet))
}

/// The secrets of (ours, the peer's) direction.
pub(super) fn directions(secret: u64, side: Side) -> [u64; 2] {
    let of = |side: Side| mix(secret, side as u64);
    [of(side), of(!side)]
}

pub(super) fn keys(local: u64, remote: u64) -> Keys {
    Keys { local: sealing(local), remote: sealing(remote) }
}

pub(super) fn sealing(secret: u64) -> Sealing {
    let mask = mix(secret, HEADER).to_le_bytes();
    // Generation 0 of the packet key.
    Sealing { header: Box::new(NullHeader(mask)), packet: Box::new(NullPacket(mix(secret, 0))) }
}

/// A checksum of two byte strings and their lengths under `key`: four lanes of folded multiplications, so
/// that those of a packet overlap.
#[inline(never)]
pub(super) fn digest(key: u64, head: &[u8], body: &[u8]) -> [u8; TAG] {
    let mut lanes = LANES.map(|lane| lane ^ key);
    absorb(&mut lanes, head);
    absorb(&mut lanes, body);
    let (a, b) = (mix(lanes[0], lanes[1]), mix(lanes[2], lanes[3]));
    let mut out = [0; TAG];
    out[..8].copy_from_slice(&mix(a, b).to_le_bytes());
    out[8..].copy_from_slice(&mix(b, a).to_le_bytes());
    out
}

// Of half of what a packet costs with these keys the compiler would else decide anew with each change
// anywhere in the crate, and counts of instructions would tell of that.
#[expect(clippy::inline_always, reason = "counts of packets depend on it")]
#[inline(always)]
fn absorb(lanes: &mut [u64; 4], bytes: &[u8]) {
    lanes[0] = mix(lanes[0], bytes.len() as u64);
    let mut blocks = bytes.chunks_exact(BLOCK);
    for block in &mut blocks {
        absorb_block(lanes, block);
    }
    let rest = blocks.remainder();
    if !rest.is_empty() {
        // Zeros behind it: the length is part of the checksum.
        let mut last = [0; BLOCK];
        last[..rest.len()].copy_from_slice(rest);
        absorb_block(lanes, &last);
    }
}

#[inline]
fn absorb_block(lanes: &mut [u64; 4], block: &[u8]) {
    for ((lane, secret), words) in lanes.iter_mut().zip(LANES).zip(block.chunks_exact(16)) {
        *lane = fold(word(&words[..8]) ^ secret, word(&words[8..]) ^ *lane);
    }
}

/// Both halves of a product, in one word.
#[inline]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    (product & 0xffff_ffff_ffff_ffff) as u64 ^ (product >> 64) as u64
}

/// The first eight bytes.
#[inline]
pub(super) fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

/// Scrambles two words into one; a bijection of either while the other is fixed (the finisher of
/// SplitMix64: Steele, Lea, Flood, OOPSLA 2014).
#[inline]
pub(super) const fn mix(a: u64, b: u64) -> u64 {
    let mut z = a.rotate_left(32) ^ b.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(super) const TAG: usize = 16;

// Tell one use of a secret from another.
const HEADER: u64 = 0x6865_6164;
const RETRY: u64 = 0x7265_7472;

/// Four lanes of two words.
const BLOCK: usize = 64;

// No two alike and none 0: digits of the golden ratio, e and pi.
const LANES: [u64; 4] =
    [0x9e37_79b9_7f4a_7c15, 0xadf8_5458_a2bb_4a9b, 0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7345];
