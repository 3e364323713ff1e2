//! Numbers go into types that cannot hold all of them by names that say what happens at the edges.
//!
//! Where nothing is lost, `From` says so; where a number that does not fit is wrong, `try_from`. This is
//! for the rest: `as` would do, and would not say which of its surprises is meant. What is on the way of each
//! packet costs nothing in a release build: [`index`], [`within_u16`], [`within_u32`], [`wrapped_u32`].

/// An integer without a sign says what becomes of it in a type that cannot hold it.
pub trait Unsigned: Copy {
    /// The most that the type holds.
    const MOST: Self;

    /// The float that is nearest: the number itself up to 2^53, and within one part in 2^53 above.
    fn approx(self) -> f64;

    /// The number itself where `T` holds it, and else the most that `T` does.
    #[inline]
    fn saturated<T: Unsigned + TryFrom<Self>>(self) -> T {
        T::try_from(self).unwrap_or(T::MOST)
    }
}

macro_rules! unsigned {
    ($($t:ty: $approx:path,)*) => {$(
        impl Unsigned for $t {
            const MOST: Self = Self::MAX;

            #[inline]
            fn approx(self) -> f64 {
                $approx(self)
            }
        }
    )*};
}

unsigned!(u8: f64::from, u16: f64::from, u32: f64::from, u64: near, u128: wide_near, usize: size_near,);

#[inline]
#[expect(clippy::cast_precision_loss, reason = "the name says that it is near")]
const fn near(n: u64) -> f64 {
    n as f64
}

#[inline]
#[expect(clippy::cast_precision_loss, reason = "the name says that it is near")]
const fn wide_near(n: u128) -> f64 {
    n as f64
}

#[inline]
const fn size_near(n: usize) -> f64 {
    near(n as u64)
}

/// A float says which integer is made of it.
pub trait Float: Copy {
    /// What stands before the point: 0 of what is negative or not a number, and the most that `T` holds of
    /// what is above. Whoever wants the nearest integer asks for `round()` before.
    fn whole<T: Unsigned + TryFrom<u64>>(self) -> T;

    /// What stands before the point, with its sign: 0 of what is not a number, and the least or the most that
    /// there is of what is beyond.
    fn integer(self) -> i64;
}

impl Float for f64 {
    #[inline]
    fn whole<T: Unsigned + TryFrom<u64>>(self) -> T {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "what these do at the edges is what the name promises"
        )]
        let whole = self as u64;
        whole.saturated()
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "as above")]
    fn integer(self) -> i64 {
        self as i64
    }
}

/// A place in memory, or a length there; what no memory has room for is the last place there is.
#[inline]
pub const fn index(n: u64) -> usize {
    if n > usize::MAX as u64 {
        return usize::MAX;
    }
    #[expect(clippy::cast_possible_truncation, reason = "it was just compared")]
    let index = n as usize;
    index
}

/// `n`, below 2^16, as those who call have made sure: what one datagram holds, in bytes or in frames.
#[inline]
pub const fn within_u16(n: u64) -> u16 {
    debug_assert!(n < 1 << 16, "it does not fit 16 bits");
    (n & 0xffff) as u16
}

/// `n`, below 2^32, as those who call have made sure.
#[inline]
pub const fn within_u32(n: u64) -> u32 {
    debug_assert!(n < 1 << 32, "it does not fit 32 bits");
    wrapped_u32(n)
}

/// `n` modulo 2^32, for counters that are meant to wrap.
#[inline]
pub const fn wrapped_u32(n: u64) -> u32 {
    (n & 0xffff_ffff) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_becomes_the_most_that_does() {
        assert_eq!(255u64.saturated::<u8>(), 255);
        assert_eq!(256u64.saturated::<u8>(), 255);
        assert_eq!((1u64 << 32).saturated::<u32>(), u32::MAX);
        assert_eq!(u128::MAX.saturated::<u64>(), u64::MAX);
        assert_eq!(u64::MAX.saturated::<usize>(), usize::MAX);
        assert_eq!(7usize.saturated::<u16>(), 7);
        assert_eq!(7u8.saturated::<u64>(), 7);
    }

    #[test]
    fn floats_are_exact_up_to_their_53_bits_and_the_nearest_above() {
        let exact = 1u64 << 53;
        let pairs = [
            (exact.approx(), 9_007_199_254_740_992.0),
            ((exact - 1).approx(), 9_007_199_254_740_991.0),
            // Halfway between two floats: the even one.
            ((exact + 1).approx(), 9_007_199_254_740_992.0),
            ((exact + 3).approx(), 9_007_199_254_740_996.0),
            (u64::MAX.approx(), 18_446_744_073_709_551_616.0),
            (3usize.approx(), 3.0),
            (200u8.approx(), 200.0),
            (u32::MAX.approx(), 4_294_967_295.0),
            ((1u128 << 100).approx(), 2f64.powi(100)),
        ];
        for (found, wanted) in pairs {
            assert_eq!(found.to_bits(), f64::to_bits(wanted), "{found} for {wanted}");
        }
    }

    #[test]
    fn the_whole_part_of_a_float_ends_where_its_type_does() {
        assert_eq!([0.0, 0.99, 1.0, 254.9, 255.0].map(Float::whole::<u8>), [0, 0, 1, 254, 255]);
        assert_eq!([256.0, 1e300, f64::INFINITY].map(Float::whole::<u8>), [u8::MAX; 3]);
        assert_eq!([-0.5, -1.0, -1e300, f64::NEG_INFINITY, f64::NAN].map(Float::whole::<u32>), [0; 5]);
        assert_eq!([1e300, 18_446_744_073_709_551_616.0].map(Float::whole::<u64>), [u64::MAX; 2]);
        assert_eq!(9_007_199_254_740_993.5.whole::<u64>(), 9_007_199_254_740_994);
    }

    #[test]
    fn integers_have_a_sign_and_end_where_their_type_does() {
        assert_eq!([-1.5, -0.5, 0.5, 1.5].map(Float::integer), [-1, 0, 0, 1]);
        assert_eq!([-1e300, 1e300, f64::NAN].map(Float::integer), [i64::MIN, i64::MAX, 0]);
    }
    #[test]
    fn what_fits_is_itself_and_counters_wrap() {
        assert_eq!((index(0), index(7), index(u64::MAX)), (0, 7, usize::MAX));
        assert_eq!((within_u16(0), within_u16(65_535)), (0, u16::MAX));
        assert_eq!((within_u32(0), within_u32((1 << 32) - 1)), (0, u32::MAX));
        assert_eq!([0, (1 << 32) - 1, 1 << 32, (5 << 32) + 9].map(wrapped_u32), [0, u32::MAX, 0, 9]);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "16 bits")]
    fn what_does_not_fit_16_bits_is_noticed() {
        let _ = within_u16(1 << 16);
    }

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic(expected = "32 bits")]
    fn what_does_not_fit_32_bits_is_noticed() {
        let _ = within_u32(1 << 32);
    }
}
