//! A hint to the processor.

#![expect(
    unsafe_code,
    reason = "the intrinsic is a function that may be called on any pointer, but not a safe one"
)]

/// Says that `bytes` will be written soon. Storing 1500 bytes into memory that is in no cache holds up everything that is
/// stored behind them, for a tenth of a microsecond.
#[inline]
pub(crate) fn for_writing(bytes: &mut [u8]) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    for line in bytes.chunks_mut(64) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch neither faults nor has an effect, wherever it points, and this is memory of ours; SSE is part
        // of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.as_mut_ptr().cast()) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = bytes;
}
