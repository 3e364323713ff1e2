//! Variable-length integers (RFC 9000 §16): 1, 2, 4 or 8 bytes, the length in the top two bits.

/// The largest number that a varint holds, 2^62 - 1.
pub const MAX: u64 = (1 << 62) - 1;

/// The bytes that `value` takes in its shortest form: 1, 2, 4 or 8 (8 also for numbers above [`MAX`]).
#[inline]
pub const fn size(value: u64) -> usize {
    1 << form(value)
}

/// The shortest form of `value`, at most [`MAX`], in the first of these bytes, and how many they are.
#[inline]
pub(crate) const fn encoded(value: u64) -> ([u8; 8], usize) {
    // RFC 9000 §16: the two first bits are the logarithm of the size.
    let form = form(value);
    let bits = value << (64 - (8 << form)) | (form as u64) << 62;
    (bits.to_be_bytes(), 1 << form)
}

/// The logarithm of the size. Without a branch: in headers of packets numbers of all sizes follow one
/// another.
#[inline]
const fn form(value: u64) -> u32 {
    (value >= 0x40) as u32 + (value >= 0x4000) as u32 + (value >= 0x4000_0000) as u32
}
