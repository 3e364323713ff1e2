//! Machines with AVX2: a product is looked up by halves of each byte, in two tables of sixteen that fit a
//! register.

use core::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_loadu_si256,
    _mm256_set1_epi8, _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256,
    _mm256_xor_si256,
};

use super::super::cauchy::{Columns, GroupRows, POINTS};
use super::super::tables::NIBBLES;
use super::fours::fours;
use super::transform::transform;
use super::{Lanes, Processor, ProductBlock, rows};

/// AVX2: 16 registers of 32 bytes.
pub(in super::super) struct Avx2;

impl Processor for Avx2 {
    const ROWS: usize = 4;

    fn detected() -> bool {
        is_x86_feature_detected!("avx2")
    }

    #[target_feature(enable = "avx2")]
    unsafe fn combine(block: &ProductBlock<'_, '_>, dsts: &mut [&mut [u8]]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe {
            match dsts.len() {
                1 => rows::<Avx2Vector, 1, 2, false>(block, dsts),
                2 => rows::<Avx2Vector, 2, 2, false>(block, dsts),
                3 => rows::<Avx2Vector, 3, 1, false>(block, dsts),
                _ => rows::<Avx2Vector, 4, 1, false>(block, dsts),
            }
        }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn sum(block: &ProductBlock<'_, '_>, dst: &mut [u8]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe { rows::<Avx2Vector, 1, 4, true>(block, &mut [dst]) }
    }

    #[target_feature(enable = "avx2")]
    unsafe fn cauchy(columns: Columns<'_>, rows: &mut [GroupRows<'_>]) {
        // SAFETY: the machine has been detected.
        unsafe {
            match rows {
                [only] if only.fours.is_some() => fours::<Avx2Vector>(columns, only),
                [only] if !only.then.is_empty() => transform::<Avx2Vector, 1, POINTS>(columns, rows),
                [_] => transform::<Avx2Vector, 1, 0>(columns, rows),
                _ => transform::<Avx2Vector, 2, 0>(columns, rows),
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Avx2Vector(__m256i);

// SAFETY of all blocks: the caller has the machine and the bytes, as the trait demands.
impl Lanes for Avx2Vector {
    /// Products of low and of high halves of a byte, each table twice.
    type Factor = [__m256i; 2];
    type Stored = &'static [[u8; 16]; 2];

    const BYTES: usize = 32;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_setzero_si256()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see above.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_xor_si256(self.0, other.0)) }
    }

    #[inline(always)]
    fn stored(c: u8) -> Self::Stored {
        &NIBBLES[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn factor([low, high]: Self::Stored) -> Self::Factor {
        // SAFETY: see above; the tables have sixteen bytes.
        unsafe {
            [
                _mm256_broadcastsi128_si256(_mm_loadu_si128(low.as_ptr().cast())),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(high.as_ptr().cast())),
            ]
        }
    }

    #[inline(always)]
    unsafe fn mul(self, [low, high]: Self::Factor) -> Self {
        // SAFETY: see above.
        unsafe {
            let mask = _mm256_set1_epi8(15);
            let from_low = _mm256_shuffle_epi8(low, _mm256_and_si256(self.0, mask));
            let halves = _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), mask);
            Self(_mm256_xor_si256(from_low, _mm256_shuffle_epi8(high, halves)))
        }
    }
}
