//! The two primitives of QPACK: prefixed integers and strings (RFC 9204 §4.1, RFC 7541 §5).

use quickset_base::number::Unsigned as _;

use super::huffman;

/// Why a value was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The bytes end before the value does.
    More,
    /// No bytes that follow make it good.
    Bad,
}

/// The largest integer that must be understood, and the largest that is (RFC 9204 §4.1.1).
pub(super) const MAX_INT: u64 = (1 << 62) - 1;

/// Reads from a slice, front to back.
#[derive(Clone, Debug)]
pub(super) struct FieldCursor<'a> {
    rest: &'a [u8],
}

impl<'a> FieldCursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next byte, without taking it.
    pub(super) fn peek(&self) -> Result<u8, Stop> {
        self.rest.first().copied().ok_or(Stop::More)
    }

    /// An integer in the low `prefix` bits of the next byte and, as needed, what follows.
    pub(super) fn int(&mut self, prefix: u32) -> Result<u64, Stop> {
        let (&first, mut rest) = self.rest.split_first().ok_or(Stop::More)?;
        let max = (1_u64 << prefix) - 1;
        let mut value = u64::from(first) & max;
        if value == max {
            let mut shift = 0;
            loop {
                let (&b, tail) = rest.split_first().ok_or(Stop::More)?;
                rest = tail;
                // Nine bytes of seven bits are more than 62 bits; zeros beyond only waste time
                // (RFC 9204 §7.4).
                if shift > 56 {
                    return Err(Stop::Bad);
                }
                value += u64::from(b & 0x7f) << shift;
                if b & 0x80 == 0 {
                    break;
                }
                shift += 7;
            }
            if value > MAX_INT {
                return Err(Stop::Bad);
            }
        }
        self.rest = rest;
        Ok(value)
    }

    /// A string (RFC 9204 §4.1.2) whose length has a prefix of `prefix` bits behind the bit for Huffman. It
    /// is no longer than `max` when it is decoded, and bad as soon as its length shows that it must be.
    pub(super) fn string(&mut self, prefix: u32, max: usize) -> Result<WireString<'a>, Stop> {
        let coded = self.peek()? >> prefix & 1 == 1;
        let n = self.int(prefix)?;
        // No symbol has more than 30 bits, so fewer bytes than this are too long even when coded.
        let most = if coded { (max as u64).saturating_mul(30) / 8 + 1 } else { max as u64 };
        if n > most {
            return Err(Stop::Bad);
        }
        let (bytes, rest) = self.rest.split_at_checked(n.saturated()).ok_or(Stop::More)?;
        self.rest = rest;
        Ok(WireString { bytes, coded, max })
    }
}

/// A string as it stands on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct WireString<'a> {
    bytes: &'a [u8],
    coded: bool,
    max: usize,
}

impl WireString<'_> {
    /// Decodes it behind what is in `out`, and says how long it is.
    pub(super) fn append(&self, out: &mut Vec<u8>) -> Result<usize, Stop> {
        let before = out.len();
        if self.coded {
            huffman::decode(self.bytes, self.max, out).map_err(|_| Stop::Bad)?;
        } else {
            // As many as there are, where they stay by themselves.
            if out.is_empty() {
                out.reserve_exact(self.bytes.len());
            }
            out.extend_from_slice(self.bytes);
        }
        Ok(out.len() - before)
    }
}

/// Writes `value` into `prefix` bits below `flags` and, as needed, further bytes.
pub(super) fn put_int(out: &mut Vec<u8>, flags: u8, prefix: u32, value: u64) {
    debug_assert!(value <= MAX_INT, "{value} is no integer of QPACK");
    let max = (1_u64 << prefix) - 1;
    if value < max {
        out.push(flags | (value & 0xff) as u8);
        return;
    }
    out.push(flags | (max & 0xff) as u8);
    let mut rest = value - max;
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push((rest & 0x7f) as u8);
}

/// Writes a string, coded if that is shorter; its length has `prefix` bits, the bit for Huffman above,
/// `flags` above that.
pub(super) fn put_string(out: &mut Vec<u8>, flags: u8, prefix: u32, text: &[u8]) {
    let coded = huffman::size(text);
    if coded < text.len() {
        put_int(out, flags | 1 << prefix, prefix, coded as u64);
        huffman::encode(text, out);
    } else {
        put_int(out, flags, prefix, text.len() as u64);
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn int(bytes: &[u8], prefix: u32) -> Result<u64, Stop> {
        FieldCursor::new(bytes).int(prefix)
    }

    /// RFC 7541 §C.1.
    #[test]
    fn the_examples_of_the_rfc() {
        for (value, prefix, bytes) in [(10, 5, &[10][..]), (1337, 5, &[31, 154, 10]), (42, 8, &[42])] {
            let mut out = Vec::new();
            put_int(&mut out, 0, prefix, value);
            assert_eq!(out, bytes);
            assert_eq!(int(bytes, prefix), Ok(value));
        }
    }

    /// RFC 9204 §4.1.1: up to 62 bits; §7.4: a limit to the value and to the length.
    #[test]
    fn integers_have_62_bits_at_most() {
        let mut out = Vec::new();
        put_int(&mut out, 0, 3, MAX_INT);
        assert_eq!(int(&out, 3), Ok(MAX_INT));
        assert_eq!(
            int(&[0x07, 0xf9, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f], 3),
            Err(Stop::Bad),
            "2^62"
        );
        assert_eq!(
            int(&[0x07, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00], 3),
            Err(Stop::Bad)
        );
        assert_eq!(int(&[0xff, 0x80, 0x80], 8), Err(Stop::More));
    }

    #[test]
    fn a_string_that_must_be_too_long_is_bad_before_it_is_there() {
        assert_eq!(FieldCursor::new(&[0x0b]).string(7, 10).err(), Some(Stop::Bad));
        assert_eq!(FieldCursor::new(&[0x0a]).string(7, 10).err(), Some(Stop::More));
        assert_eq!(FieldCursor::new(&[0xa7]).string(7, 10).err(), Some(Stop::Bad));
        assert_eq!(FieldCursor::new(&[0xa6]).string(7, 10).err(), Some(Stop::More));
    }

    proptest! {
        #[test]
        fn integers_round_trip(value in prop_oneof![0..400_u64, 0..=MAX_INT], prefix in 1..=8_u32) {
            let mut out = Vec::new();
            put_int(&mut out, 0, prefix, value);
            for cut in 0..out.len() {
                prop_assert_eq!(int(&out[..cut], prefix), Err(Stop::More));
            }
            prop_assert_eq!(int(&out, prefix), Ok(value));
        }

        /// RFC 9204 §4.1.2.
        #[test]
        fn strings_round_trip(text: Vec<u8>, prefix in 2..=7_u32) {
            let mut out = Vec::new();
            put_string(&mut out, 0, prefix, &text);
            let mut cursor = FieldCursor::new(&out);
            let mut read = Vec::new();
            prop_assert_eq!(cursor.string(prefix, text.len()).and_then(|t| t.append(&mut read)), Ok(text.len()));
            prop_assert!(cursor.is_empty());
            prop_assert_eq!(read, text);
        }
    }
}
