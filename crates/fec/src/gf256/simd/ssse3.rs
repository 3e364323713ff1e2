//! Machines with SSSE3, which is all of x86-64 since 2013: as AVX2, in registers of half the size.

use core::arch::x86_64::{
    __m128i, _mm_and_si128, _mm_loadu_si128, _mm_set1_epi8, _mm_setzero_si128, _mm_shuffle_epi8,
    _mm_srli_epi64, _mm_storeu_si128, _mm_xor_si128,
};

use super::super::cauchy::{Columns, GroupRows, POINTS};
use super::super::tables::NIBBLES;
use super::fours::fours;
use super::transform::transform;
use super::{Lanes, Processor, ProductBlock, rows};

/// SSSE3: 16 registers of 16 bytes.
pub(in super::super) struct Ssse3;

impl Processor for Ssse3 {
    const ROWS: usize = 4;

    fn detected() -> bool {
        is_x86_feature_detected!("ssse3")
    }

    #[target_feature(enable = "ssse3")]
    unsafe fn combine(block: &ProductBlock<'_, '_>, dsts: &mut [&mut [u8]]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe {
            match dsts.len() {
                1 => rows::<V128, 1, 2, false>(block, dsts),
                2 => rows::<V128, 2, 2, false>(block, dsts),
                3 => rows::<V128, 3, 1, false>(block, dsts),
                _ => rows::<V128, 4, 1, false>(block, dsts),
            }
        }
    }

    #[target_feature(enable = "ssse3")]
    unsafe fn sum(block: &ProductBlock<'_, '_>, dst: &mut [u8]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe { rows::<V128, 1, 4, true>(block, &mut [dst]) }
    }

    #[target_feature(enable = "ssse3")]
    unsafe fn cauchy(columns: Columns<'_>, rows: &mut [GroupRows<'_>]) {
        // SAFETY: the machine has been detected.
        unsafe {
            match rows {
                [only] if only.fours.is_some() => fours::<V128>(columns, only),
                [only] if !only.then.is_empty() => transform::<V128, 1, POINTS>(columns, rows),
                [_] => transform::<V128, 1, 0>(columns, rows),
                _ => transform::<V128, 2, 0>(columns, rows),
            }
        }
    }
}

#[derive(Clone, Copy)]
struct V128(__m128i);

// SAFETY of all blocks: the caller has the machine and the bytes, as the trait demands.
impl Lanes for V128 {
    /// Products of low and of high halves of a byte.
    type Factor = [__m128i; 2];
    type Stored = &'static [[u8; 16]; 2];

    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm_setzero_si128()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see above.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm_xor_si128(self.0, other.0)) }
    }

    #[inline(always)]
    fn stored(c: u8) -> Self::Stored {
        &NIBBLES[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn factor([low, high]: Self::Stored) -> Self::Factor {
        // SAFETY: see above; the tables have sixteen bytes.
        unsafe { [_mm_loadu_si128(low.as_ptr().cast()), _mm_loadu_si128(high.as_ptr().cast())] }
    }

    #[inline(always)]
    unsafe fn mul(self, [low, high]: Self::Factor) -> Self {
        // SAFETY: see above.
        unsafe {
            let mask = _mm_set1_epi8(15);
            let from_low = _mm_shuffle_epi8(low, _mm_and_si128(self.0, mask));
            let halves = _mm_and_si128(_mm_srli_epi64::<4>(self.0), mask);
            Self(_mm_xor_si128(from_low, _mm_shuffle_epi8(high, halves)))
        }
    }
}
