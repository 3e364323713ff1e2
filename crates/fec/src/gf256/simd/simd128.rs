//! WebAssembly, compiled for its vectors: a product is looked up by halves of each byte, in two tables of
//! sixteen that fit a vector.

use core::arch::wasm32::{
    u8x16_shr, u8x16_splat, u8x16_swizzle, v128, v128_and, v128_load, v128_store, v128_xor,
};

use super::super::cauchy::{Columns, GroupRows, POINTS};
use super::super::tables::NIBBLES;
use super::fours::fours;
use super::transform::transform;
use super::{Lanes, Processor, ProductBlock, rows};

/// Vectors of 16 bytes, in registers as the browser finds them.
pub(in super::super) struct Simd128;

impl Processor for Simd128 {
    const ROWS: usize = 4;

    /// A module with such instructions does not even load elsewhere.
    fn detected() -> bool {
        true
    }

    #[target_feature(enable = "simd128")]
    unsafe fn combine(block: &ProductBlock<'_, '_>, dsts: &mut [&mut [u8]]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe {
            match dsts.len() {
                1 => rows::<WasmVector, 1, 2, false>(block, dsts),
                2 => rows::<WasmVector, 2, 2, false>(block, dsts),
                3 => rows::<WasmVector, 3, 1, false>(block, dsts),
                _ => rows::<WasmVector, 4, 1, false>(block, dsts),
            }
        }
    }

    #[target_feature(enable = "simd128")]
    unsafe fn sum(block: &ProductBlock<'_, '_>, dst: &mut [u8]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe { rows::<WasmVector, 1, 4, true>(block, &mut [dst]) }
    }

    #[target_feature(enable = "simd128")]
    unsafe fn cauchy(columns: Columns<'_>, rows: &mut [GroupRows<'_>]) {
        // SAFETY: the machine has been detected.
        unsafe {
            match rows {
                [only] if only.fours.is_some() => fours::<WasmVector>(columns, only),
                [only] if !only.then.is_empty() => transform::<WasmVector, 1, POINTS>(columns, rows),
                [_] => transform::<WasmVector, 1, 0>(columns, rows),
                _ => transform::<WasmVector, 2, 0>(columns, rows),
            }
        }
    }
}

#[derive(Clone, Copy)]
struct WasmVector(v128);

// SAFETY of all blocks: the caller has the machine and the bytes, as the trait demands.
impl Lanes for WasmVector {
    /// Products of low and of high halves of a byte.
    type Factor = [v128; 2];
    type Stored = &'static [[u8; 16]; 2];

    const BYTES: usize = 16;

    #[inline(always)]
    unsafe fn zero() -> Self {
        Self(u8x16_splat(0))
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { Self(v128_load(from.cast())) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see above.
        unsafe { v128_store(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        Self(v128_xor(self.0, other.0))
    }

    #[inline(always)]
    fn stored(c: u8) -> Self::Stored {
        &NIBBLES[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn factor([low, high]: Self::Stored) -> Self::Factor {
        // SAFETY: see above; the tables have sixteen bytes.
        unsafe { [v128_load(low.as_ptr().cast()), v128_load(high.as_ptr().cast())] }
    }

    #[inline(always)]
    unsafe fn mul(self, [low, high]: Self::Factor) -> Self {
        let from_low = u8x16_swizzle(low, v128_and(self.0, u8x16_splat(15)));
        Self(v128_xor(from_low, u8x16_swizzle(high, u8x16_shr(self.0, 4))))
    }
}
