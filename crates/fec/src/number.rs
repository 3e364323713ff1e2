//! Numbers go into types that do not hold all of them by names that say why they fit.

/// A place in memory, or a length there; what no memory has room for is the last place there is.
#[inline]
pub(crate) const fn index(n: u64) -> usize {
    if n > usize::MAX as u64 {
        return usize::MAX;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it was just compared")]
    let index = n as usize;
    index
}

/// The element of the field with the number `n`, below 256, as those who call have made sure.
#[inline]
pub(crate) const fn element(n: usize) -> u8 {
    debug_assert!(n < 256, "no element has such a number");
    (n as u64 & 0xff) as u8
}

/// `n`, below 2^32, as those who call have made sure.
#[inline]
pub(crate) const fn short(n: u64) -> u32 {
    debug_assert!(n < 1 << 32, "it does not fit 32 bits");
    (n & 0xffff_ffff) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_is_itself() {
        assert_eq!((element(0), element(255)), (0, 255));
        assert_eq!((short(0), short(u32::MAX.into())), (0, u32::MAX));
        assert_eq!((index(7), index(u64::MAX)), (7, usize::MAX));
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "no element")]
    fn an_element_too_many_is_a_fault_of_ours() {
        element(256);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "32 bits")]
    fn a_number_too_long_is_a_fault_of_ours() {
        short(1 << 32);
    }
}
