//! 64-bit ARM, all of which has these vectors: a product is looked up by halves of each byte, in two tables
//! of sixteen that fit a register.

#![allow(unused_unsafe, reason = "newer compilers do not call intrinsics unsafe that every such machine has")]

use core::arch::aarch64::{
    uint8x16_t, vandq_u8, vdupq_n_u8, veorq_u8, vld1q_u8, vqtbl1q_u8, vshrq_n_u8, vst1q_u8,
};
use std::arch::is_aarch64_feature_detected;

use super::super::cauchy::{Columns, GroupRows, POINTS};
use super::super::tables::NIBBLES;
use super::fours::fours;
use super::transform::transform;
use super::{Lanes, Processor, ProductBlock, rows};

/// NEON: 32 registers of 16 bytes.
pub(in super::super) struct Neon;

impl Processor for Neon {
    const ROWS: usize = 6;

    fn detected() -> bool {
        is_aarch64_feature_detected!("neon")
    }

    #[target_feature(enable = "neon")]
    unsafe fn combine(block: &ProductBlock<'_, '_>, dsts: &mut [&mut [u8]]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe {
            match dsts.len() {
                1 => rows::<NeonVector, 1, 4, false>(block, dsts),
                2 => rows::<NeonVector, 2, 4, false>(block, dsts),
                3 => rows::<NeonVector, 3, 4, false>(block, dsts),
                4 => rows::<NeonVector, 4, 3, false>(block, dsts),
                5 => rows::<NeonVector, 5, 2, false>(block, dsts),
                _ => rows::<NeonVector, 6, 2, false>(block, dsts),
            }
        }
    }

    #[target_feature(enable = "neon")]
    unsafe fn sum(block: &ProductBlock<'_, '_>, dst: &mut [u8]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe { rows::<NeonVector, 1, 4, true>(block, &mut [dst]) }
    }

    #[target_feature(enable = "neon")]
    unsafe fn cauchy(columns: Columns<'_>, rows: &mut [GroupRows<'_>]) {
        // SAFETY: the machine has been detected.
        unsafe {
            match rows {
                [only] if only.fours.is_some() => fours::<NeonVector>(columns, only),
                [only] if !only.then.is_empty() => transform::<NeonVector, 1, POINTS>(columns, rows),
                [_] => transform::<NeonVector, 1, 0>(columns, rows),
                _ => transform::<NeonVector, 2, 0>(columns, rows),
            }
        }
    }
}

#[derive(Clone, Copy)]
struct NeonVector(uint8x16_t);

// SAFETY of all blocks: the caller has the machine and the bytes, as the trait demands.
impl Lanes for NeonVector {
    /// Products of low and of high halves of a byte.
    type Factor = [uint8x16_t; 2];
    type Stored = &'static [[u8; 16]; 2];

    const BYTES: usize = 16;
    const FITS_PAIRS: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        unsafe { Self(vdupq_n_u8(0)) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { Self(vld1q_u8(from)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see above.
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(veorq_u8(self.0, other.0)) }
    }

    #[inline(always)]
    fn stored(c: u8) -> Self::Stored {
        &NIBBLES[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn factor([low, high]: Self::Stored) -> Self::Factor {
        // SAFETY: see above; the tables have sixteen bytes.
        unsafe { [vld1q_u8(low.as_ptr()), vld1q_u8(high.as_ptr())] }
    }

    #[inline(always)]
    unsafe fn mul(self, [low, high]: Self::Factor) -> Self {
        // SAFETY: see above.
        unsafe {
            let from_low = vqtbl1q_u8(low, vandq_u8(self.0, vdupq_n_u8(15)));
            Self(veorq_u8(from_low, vqtbl1q_u8(high, vshrq_n_u8::<4>(self.0))))
        }
    }
}
