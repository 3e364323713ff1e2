//! The kernel for machines without vectors that we know, and the model that the others are tested against.

use super::tables::NIBBLES;

/// dst += c · src; `src` is at most as long as `dst`.
pub(super) fn mul_add(dst: &mut [u8], c: u8, src: &[u8]) {
    if c == 1 {
        // The compiler turns this into vectors.
        return dst.iter_mut().zip(src).for_each(|(d, s)| *d ^= s);
    }
    let [low, high] = &NIBBLES[usize::from(c)];
    for (d, s) in dst.iter_mut().zip(src) {
        *d ^= low[usize::from(s & 15)] ^ high[usize::from(s >> 4)];
    }
}

/// dst *= c.
pub(super) fn scale(dst: &mut [u8], c: u8) {
    let [low, high] = &NIBBLES[usize::from(c)];
    for d in dst {
        *d = low[usize::from(*d & 15)] ^ high[usize::from(*d >> 4)];
    }
}

/// Each dst += Σ c · src, by rows of `coefficients`.
pub(super) fn combine(dsts: &mut [&mut [u8]], coefficients: &[u8], srcs: &[&[u8]]) {
    let longest = srcs.iter().map(|s| s.len()).max().unwrap_or_default();
    // A strip of all sources stays in the cache while the destinations take from it.
    for start in (0..longest).step_by(STRIP) {
        for (dst, row) in dsts.iter_mut().zip(coefficients.chunks_exact(srcs.len())) {
            for (&c, src) in row.iter().zip(srcs) {
                let end = src.len().min(start + STRIP);
                if c != 0 && start < end {
                    mul_add(&mut dst[start..end], c, &src[start..end]);
                }
            }
        }
    }
}

/// Bytes: 100 sources of it are 25 KiB, below the 32 KiB of first-level cache that nearly every machine has.
const STRIP: usize = 256;
