//! Coefficients of random linear codes: a hash of the seed of a repair symbol and the number of a source
//! symbol, so that neither side stores or sends them.

/// The coefficient of symbol `sid` in the repair symbol with `seed`: never 0, the 255 others about equally
/// often.
///
/// ```
/// assert_eq!(quickset_fec::rlc::coefficient(7, 1000), 20);
/// ```
#[inline]
pub const fn coefficient(seed: u64, sid: u64) -> u8 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(sid);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    // The upper half scaled to 0..255: no division, and a bias below 2⁻²⁴.
    1 + (((z >> 32) * 255) >> 32 & 0xff) as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (seed, SID) and the coefficient that the specification of the wire gives.
    #[test]
    fn vectors_of_the_specification() {
        let vectors = [
            (0, 0, 1),
            (0, 1, 87),
            (1, 0, 226),
            (1, 1, 145),
            (7, 1000, 20),
            (123_456, 42, 194),
            (1 << 32, 1 << 40, 179),
            ((1 << 62) - 1, (1 << 62) - 1, 58),
        ];
        for (seed, sid, expected) in vectors {
            assert_eq!(coefficient(seed, sid), expected, "({seed}, {sid})");
        }
    }

    #[test]
    fn every_element_but_zero_is_about_equally_frequent() {
        let mut counts = [0_u32; 256];
        for seed in 0..255 {
            for sid in 0..1000 {
                counts[usize::from(coefficient(seed, sid))] += 1;
            }
        }
        assert_eq!(counts[0], 0);
        // 1000 expected of each; the standard deviation is 32.
        assert!(counts[1..].iter().all(|&n| (840..1160).contains(&n)), "{counts:?}");
    }
}
