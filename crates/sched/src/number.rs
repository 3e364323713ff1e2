//! Numbers go into types that do not hold all of them by names that say why they fit.

/// The number of an entry, as its neighbours know it.
#[inline]
pub(crate) fn entry(place: usize) -> u32 {
    // 2^32 entries would take more than a hundred gigabytes.
    debug_assert!(u32::try_from(place).is_ok(), "{place} entries");
    (place as u64 & 0xffff_ffff) as u32
}

/// The nearest float: `n` itself up to 2^53.
#[inline]
#[expect(
    clippy::cast_precision_loss,
    reason = "sums of weights pass 2^53 with 90 million siblings of the greatest"
)]
pub(crate) fn approx(n: u64) -> f64 {
    n as f64
}

/// What stands before the point, of what is not negative; the most there is of what is above.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "just that, with an end to either side"
)]
pub(crate) const fn whole(x: f64) -> u64 {
    x as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_are_where_they_are_said_to_be() {
        assert_eq!((entry(0), entry(u32::MAX as usize)), (0, u32::MAX));
        assert_eq!([-1.0, 0.9, 1.0, 1e300, f64::NAN].map(whole), [0, 0, 1, u64::MAX, 0]);
        assert_eq!(approx((1 << 53) - 1).to_bits(), 9_007_199_254_740_991f64.to_bits());
        assert_eq!(approx((1 << 53) + 1).to_bits(), 9_007_199_254_740_992f64.to_bits());
    }
}
