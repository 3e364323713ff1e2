//! Variable-length integers (RFC 9000 §16): 1, 2, 4 or 8 bytes, the length in the top two bits.

/// The largest number that a varint holds, 2^62 - 1.
pub const MAX: u64 = (1 << 62) - 1;

/// The bytes that `value` takes in its shortest form: 1, 2, 4 or 8 (8 also for numbers above [`MAX`]).
#[inline]
pub const fn size(value: u64) -> usize {
    // Without a branch: in headers of packets numbers of all sizes follow one another.
    1 << ((value >= 0x40) as usize + (value >= 0x4000) as usize + (value >= 0x4000_0000) as usize)
}
