//! How much the first-level data cache holds: strips of many sources are chosen so that they stay there.

use core::arch::x86_64::{__cpuid_count, CpuidResult};
use std::sync::OnceLock;

/// Bytes of the first-level data cache of one core; what most machines have at least where they do not say.
pub(super) fn first_level() -> usize {
    // The instruction is one that a virtual machine's host answers, which takes microseconds.
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        let found = [INTEL, AMD].into_iter().filter(|leaf| has(*leaf)).find_map(|leaf| {
            (0..MOST_CACHES)
                .map(|cache| cpuid(leaf, cache))
                .find(is_first_level_data)
                .map(|found| size(&found))
        });
        found.unwrap_or(USUAL)
    })
}

/// Whether the processor answers this question. On AMD's the leaf of Intel's says nothing, and is no cache.
fn has(leaf: u32) -> bool {
    cpuid(leaf & BASE, 0).eax >= leaf
}

#[expect(clippy::allow_attributes, reason = "older compilers do call it unsafe")]
#[allow(unused_unsafe, reason = "newer compilers do not call it unsafe")]
fn cpuid(leaf: u32, cache: u32) -> CpuidResult {
    // SAFETY: every processor of 64 bits has the instruction.
    unsafe { __cpuid_count(leaf, cache) }
}

/// Bits 4 to 0: the kind, 1 is data; 7 to 5: the level.
fn is_first_level_data(found: &CpuidResult) -> bool {
    found.eax & 0xff == 1 << 5 | 1
}

/// The product of ways, partitions, bytes of a line and sets.
fn size(found: &CpuidResult) -> usize {
    let CpuidResult { ebx, ecx, .. } = *found;
    let [ways, partitions, line] =
        [ebx >> 22, ebx >> 12 & 0x3ff, ebx & 0xfff].map(|less_one| less_one as usize + 1);
    ways * partitions * line * (ecx as usize + 1)
}

/// Deterministic cache parameters (Intel, Software Developer's Manual, volume 2, CPUID; AMD, Architecture
/// Programmer's Manual, volume 3, appendix E): the same registers under two numbers.
const INTEL: u32 = 4;
const AMD: u32 = 0x8000_001d;

/// Of a leaf, what asks for the largest of its kind.
const BASE: u32 = 0x8000_0000;

/// Caches that are looked at.
const MOST_CACHES: u32 = 8;

const USUAL: usize = 32 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers of a Xeon of 2023, of an EPYC of 2022, and of a second-level cache.
    #[test]
    fn sizes_are_read_as_the_manuals_say() {
        let of = |eax, ebx, ecx| CpuidResult { eax, ebx, ecx, edx: 0 };
        let xeon = of(0xfc00_4121, 0x02c0_003f, 63);
        assert!(is_first_level_data(&xeon));
        assert_eq!(size(&xeon), 48 << 10);
        let epyc = of(0x0000_4121, 0x01c0_003f, 63);
        assert!(is_first_level_data(&epyc));
        assert_eq!(size(&epyc), 32 << 10);
        let second = of(0x0000_4143, 0x01c0_003f, 2047);
        assert!(!is_first_level_data(&second));
        assert_eq!(size(&second), 1 << 20);
        assert!(!is_first_level_data(&of(0x0000_4122, 0x01c0_003f, 63)), "instructions");
        assert!(!is_first_level_data(&of(0, 0, 0)), "none");
    }

    #[test]
    fn this_machine_has_a_cache() {
        let bytes = first_level();
        assert!((8 << 10..=1 << 20).contains(&bytes), "{bytes}");
    }
}
