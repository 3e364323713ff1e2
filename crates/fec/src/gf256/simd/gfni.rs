//! Machines with GFNI: a product with a constant is linear over bits, so one instruction multiplies each byte
//! with an 8x8 matrix of bits. (`gf2p8mulb` is of no use: its field has another polynomial.)

#![expect(clippy::incompatible_msrv, reason = "compiled only where build.rs has found Rust 1.89")]

use core::arch::x86_64::{
    __m256i, __m512i, _MM_HINT_T0, _mm_prefetch, _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256,
    _mm256_set1_epi64x, _mm256_setzero_si256, _mm256_storeu_si256, _mm256_xor_si256, _mm512_add_epi64,
    _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512, _mm512_mask_cvtepi64_storeu_epi8,
    _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8, _mm512_mullo_epi64, _mm512_set_epi64,
    _mm512_set1_epi64, _mm512_setzero_si512, _mm512_slli_epi64, _mm512_srli_epi64, _mm512_storeu_si512,
    _mm512_sub_epi64, _mm512_ternarylogic_epi64, _mm512_xor_si512,
};

use super::super::cauchy::{Columns, GroupRows, POINTS};
use super::super::tables::MATRICES;
use super::fours::fours;
use super::row::row;
use super::transform::transform;
use super::{Lanes, Processor, ProductBlock, rows};

/// GFNI with AVX-512: 32 registers of 64 bytes, loads and stores under a mask, XOR of three.
pub(in super::super) struct Gfni512;

impl Processor for Gfni512 {
    const ROWS: usize = 6;

    fn detected() -> bool {
        is_x86_feature_detected!("gfni")
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("bmi2")
    }

    #[target_feature(enable = "gfni,avx512f,avx512bw,bmi2")]
    unsafe fn combine(block: &ProductBlock<'_, '_>, dsts: &mut [&mut [u8]]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe {
            match dsts.len() {
                1 => row::<V512, false>(block, &mut *dsts[0]),
                2 => rows::<V512, 2, 4, false>(block, dsts),
                3 => rows::<V512, 3, 4, false>(block, dsts),
                4 => rows::<V512, 4, 4, false>(block, dsts),
                5 => rows::<V512, 5, 3, false>(block, dsts),
                _ => rows::<V512, 6, 3, false>(block, dsts),
            }
        }
    }

    #[target_feature(enable = "gfni,avx512f,avx512bw,bmi2")]
    unsafe fn sum(block: &ProductBlock<'_, '_>, dst: &mut [u8]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe { row::<V512, true>(block, dst) }
    }

    #[target_feature(enable = "gfni,avx512f,avx512bw,bmi2")]
    unsafe fn cauchy(columns: Columns<'_>, rows: &mut [GroupRows<'_>]) {
        // SAFETY: the machine has been detected.
        unsafe {
            match rows {
                [only] if only.fours.is_some() => fours::<V512>(columns, only),
                [only] if !only.then.is_empty() => transform::<V512, 1, POINTS>(columns, rows),
                [_] => transform::<V512, 1, 0>(columns, rows),
                _ => transform::<V512, 2, 0>(columns, rows),
            }
        }
    }
}

/// `rlc::coefficient` of eight symbols at a time: AVX-512 multiplies numbers of 64 bits.
///
/// # Safety
///
/// `Gfni512::detected()` has returned true.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,bmi2")]
pub(in super::super) unsafe fn hashes(seed: u64, first: u64, out: &mut [u8]) {
    let splat = |number: u64| _mm512_set1_epi64(number.cast_signed());
    let mut next = splat(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(first));
    next = _mm512_add_epi64(next, _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
    for out in out.chunks_mut(8) {
        let mask = 0xff >> (8 - out.len());
        // SAFETY: the mask leaves out what is behind the end.
        unsafe {
            let mut z = next;
            next = _mm512_add_epi64(next, splat(8));
            z = _mm512_xor_si512(z, _mm512_srli_epi64::<30>(z));
            z = _mm512_mullo_epi64(z, splat(0xbf58_476d_1ce4_e5b9));
            z = _mm512_xor_si512(z, _mm512_srli_epi64::<27>(z));
            z = _mm512_mullo_epi64(z, splat(0x94d0_49bb_1331_11eb));
            z = _mm512_xor_si512(z, _mm512_srli_epi64::<31>(z));
            // Times 255 is times 256, less once.
            let upper = _mm512_srli_epi64::<32>(z);
            let scaled = _mm512_srli_epi64::<32>(_mm512_sub_epi64(_mm512_slli_epi64::<8>(upper), upper));
            let found = _mm512_add_epi64(scaled, splat(1));
            _mm512_mask_cvtepi64_storeu_epi8(out.as_mut_ptr().cast(), mask, found);
        }
    }
}

/// GFNI with AVX2: 16 registers of 32 bytes.
pub(in super::super) struct Gfni256;

impl Processor for Gfni256 {
    const ROWS: usize = 5;

    fn detected() -> bool {
        is_x86_feature_detected!("gfni") && is_x86_feature_detected!("avx2")
    }

    #[target_feature(enable = "gfni,avx2")]
    unsafe fn combine(block: &ProductBlock<'_, '_>, dsts: &mut [&mut [u8]]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe {
            match dsts.len() {
                1 => rows::<GfniVector, 1, 4, false>(block, dsts),
                2 => rows::<GfniVector, 2, 4, false>(block, dsts),
                3 => rows::<GfniVector, 3, 3, false>(block, dsts),
                4 => rows::<GfniVector, 4, 2, false>(block, dsts),
                _ => rows::<GfniVector, 5, 2, false>(block, dsts),
            }
        }
    }

    #[target_feature(enable = "gfni,avx2")]
    unsafe fn sum(block: &ProductBlock<'_, '_>, dst: &mut [u8]) {
        // SAFETY: the machine has been detected, and the driver has checked the lengths.
        unsafe { rows::<GfniVector, 1, 4, true>(block, &mut [dst]) }
    }

    #[target_feature(enable = "gfni,avx2")]
    unsafe fn cauchy(columns: Columns<'_>, rows: &mut [GroupRows<'_>]) {
        // SAFETY: the machine has been detected.
        unsafe {
            match rows {
                [only] if only.fours.is_some() => fours::<GfniVector>(columns, only),
                [only] if !only.then.is_empty() => transform::<GfniVector, 1, POINTS>(columns, rows),
                [_] => transform::<GfniVector, 1, 0>(columns, rows),
                _ => transform::<GfniVector, 2, 0>(columns, rows),
            }
        }
    }
}

#[derive(Clone, Copy)]
struct V512(__m512i);

// SAFETY of all blocks: the caller has the machine and the bytes, as the trait demands.
impl Lanes for V512 {
    type Factor = Self;
    type Stored = u64;

    const BYTES: usize = 64;
    const FITS_PAIRS: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_loadu_si512(from.cast())) }
    }

    #[inline(always)]
    unsafe fn prefetch(from: *const u8) {
        // SAFETY: it reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: see above.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, len: usize) -> Self {
        // SAFETY: see above; bytes that the mask leaves out are not touched.
        unsafe { Self(_mm512_maskz_loadu_epi8((1 << len) - 1, from.cast())) }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, len: usize) {
        // SAFETY: see above; bytes that the mask leaves out are not touched.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), (1 << len) - 1, self.0) }
    }

    #[inline(always)]
    unsafe fn xor(self, other: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_xor_si512(self.0, other.0)) }
    }

    #[inline(always)]
    unsafe fn xor3(self, b: Self, c: Self) -> Self {
        // SAFETY: see above. 0x96 is the truth table of three bits' parity.
        unsafe { Self(_mm512_ternarylogic_epi64::<0x96>(self.0, b.0, c.0)) }
    }

    #[inline(always)]
    fn stored(c: u8) -> u64 {
        MATRICES[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn factor(stored: u64) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_set1_epi64(stored.cast_signed())) }
    }

    #[inline(always)]
    unsafe fn mul(self, factor: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm512_gf2p8affine_epi64_epi8::<0>(self.0, factor.0)) }
    }
}

#[derive(Clone, Copy)]
struct GfniVector(__m256i);

// SAFETY of all blocks: the caller has the machine and the bytes, as the trait demands.
impl Lanes for GfniVector {
    type Factor = Self;
    type Stored = u64;

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
    fn stored(c: u8) -> u64 {
        MATRICES[usize::from(c)]
    }

    #[inline(always)]
    unsafe fn factor(stored: u64) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_set1_epi64x(stored.cast_signed())) }
    }

    #[inline(always)]
    unsafe fn mul(self, factor: Self) -> Self {
        // SAFETY: see above.
        unsafe { Self(_mm256_gf2p8affine_epi64_epi8::<0>(self.0, factor.0)) }
    }
}
