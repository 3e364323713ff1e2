//! The bytes that travel, and a check of them that costs next to nothing.
//!
//! A stream is read as 64-bit little-endian words that are summed modulo 2^64 - 1. In that arithmetic a shift
//! by whole bytes is a rotation, so a chunk that begins anywhere in the stream is summed from its own
//! beginning and its sum turned into place.

use std::sync::LazyLock;

use bytes::Bytes;

/// Bytes after which the pattern begins anew.
const PERIOD: usize = 1 << 20;

/// One period of pseudorandom bytes.
static BLOCK: LazyLock<Bytes> = LazyLock::new(|| {
    // A full-period generator modulo 2^64 (Knuth's multiplier); the high bits are the good ones.
    let mut state = 1_u64;
    let mut block = Vec::with_capacity(PERIOD);
    while block.len() < PERIOD {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        block.extend_from_slice(&(state >> 32).to_le_bytes()[..4]);
    }
    block.into()
});

/// The pattern of a whole stream of `bytes`, in pieces.
pub(crate) fn pieces(bytes: u64) -> impl Iterator<Item = Bytes> {
    let mut left = bytes;
    std::iter::from_fn(move || {
        let n = usize::try_from(left).map_or(PERIOD, |left| left.min(PERIOD));
        left -= n as u64;
        (n > 0).then(|| BLOCK.slice(..n))
    })
}

/// The sum of one period.
static BLOCK_SUM: LazyLock<u64> = LazyLock::new(|| {
    let mut sum = PatternSum::default();
    sum.add(&BLOCK);
    sum.value()
});

/// The sum of a stream of `bytes` of the pattern. Whole periods are not turned, since they are whole words.
pub(crate) fn expected(bytes: u64) -> u64 {
    let (periods, rest) = (bytes / PERIOD as u64, bytes as usize % PERIOD);
    let mut sum = PatternSum::default();
    sum.add(&BLOCK[..rest]);
    let whole = u128::from(*BLOCK_SUM) * u128::from(periods) % u128::from(u64::MAX);
    sum.sum = add(sum.sum, whole as u64);
    sum.value()
}

/// Sums up a stream, chunk by chunk in order.
#[derive(Default)]
pub(crate) struct PatternSum {
    sum: u64,
    bytes: u64,
}

impl PatternSum {
    pub(crate) fn add(&mut self, chunk: &[u8]) {
        // The halves are summed apart: neither overflows, and the compiler makes vector code of it.
        let (mut low, mut high) = (0_u64, 0_u64);
        let mut words = chunk.chunks_exact(8);
        for word in &mut words {
            let word = u64::from_le_bytes(word.try_into().expect("chunks of 8"));
            low += word & 0xffff_ffff;
            high += word >> 32;
        }
        let mut last = [0; 8];
        last[..words.remainder().len()].copy_from_slice(words.remainder());
        let own = add(add(low, high.rotate_left(32)), u64::from_le_bytes(last));
        let shift = u32::try_from(self.bytes % 8 * 8).expect("below 64");
        self.sum = add(self.sum, own.rotate_left(shift));
        self.bytes += chunk.len() as u64;
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The sum so far, in one of its two spellings of zero.
    pub(crate) fn value(&self) -> u64 {
        if self.sum == u64::MAX { 0 } else { self.sum }
    }
}

/// Addition modulo 2^64 - 1.
fn add(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    sum + u64::from(carry)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Byte by byte, in wide integers.
    fn naive(bytes: &[u8]) -> u64 {
        let modulus = u128::from(u64::MAX);
        let sum = bytes.iter().enumerate().fold(0_u128, |sum, (i, b)| {
            let worth = u128::from(*b) << (i % 8 * 8);
            (sum + worth) % modulus
        });
        u64::try_from(sum).unwrap()
    }

    #[test]
    fn the_sum_does_not_depend_on_where_chunks_end() {
        let stream: Vec<u8> = pieces(100_003).flatten().collect();
        assert_eq!(stream.len(), 100_003);
        for step in [1, 7, 8, 1333, 1460, 65_536, 100_003] {
            let mut sum = PatternSum::default();
            stream.chunks(step).for_each(|chunk| sum.add(chunk));
            assert_eq!((sum.value(), sum.bytes()), (naive(&stream), 100_003), "chunks of {step}");
        }
        assert_eq!(expected(100_003), naive(&stream));
        let long: Vec<u8> = pieces(2_500_001).flatten().collect();
        assert_eq!(expected(2_500_001), naive(&long), "more than two periods");
    }

    #[test]
    fn a_changed_byte_is_seen() {
        let mut stream: Vec<u8> = pieces(10_000).flatten().collect();
        for at in [0, 5, 4999, 9999] {
            stream[at] ^= 0x10;
            let mut sum = PatternSum::default();
            stream.chunks(1001).for_each(|chunk| sum.add(chunk));
            assert_ne!(sum.value(), expected(10_000), "byte {at}");
            stream[at] ^= 0x10;
        }
    }
}
