//! The Huffman code of HPACK (RFC 7541 appendix B), which QPACK uses unchanged.
//!
//! The code is canonical: within a length, codes count up with the symbol. So the lengths are the code, and
//! all tables are computed from them when the crate is compiled.

use quickset_base::number::Unsigned as _;

/// Bytes that `text` takes when it is coded.
pub(super) fn size(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|&b| LENGTHS[b as usize] as usize).sum();
    bits.div_ceil(8)
}

/// Codes `text` behind what is in `out`.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let (mut bits, mut n) = (0_u64, 0);
    for &b in text {
        let length = u32::from(LENGTHS[b as usize]);
        bits = bits << length | u64::from(CODES[b as usize]);
        n += length;
        while n >= 8 {
            n -= 8;
            out.push((bits >> n & 0xff) as u8);
        }
    }
    if n > 0 {
        // RFC 7541 §5.2: padded with the first bits of EOS, which are ones.
        out.push((bits << (8 - n) & 0xff) as u8 | 0xff >> n);
    }
}

/// Decodes `coded` behind what is in `out`, at most `max` bytes of it.
///
/// # Errors
/// When there is EOS inside, padding of more than seven bits or of other bits than ones (RFC 7541 §5.2), or
/// more than `max` bytes come out.
pub(super) fn decode(coded: &[u8], max: usize, out: &mut Vec<u8>) -> Result<(), BadCode> {
    // The window holds the next `n` bits on its left, and ones behind them.
    let (mut window, mut n) = (u64::MAX, 0_u32);
    let mut rest = coded.iter();
    let mut left = max;
    loop {
        while n <= 56 {
            let Some(&b) = rest.next() else { break };
            // Takes the place of eight ones.
            window ^= u64::from(!b) << (56 - n);
            n += 8;
        }
        let (symbol, length) = next((window >> 32) as u32);
        if length > n {
            // What is left is no whole symbol: ones, fewer than eight.
            return if n < 8 && window == u64::MAX { Ok(()) } else { Err(BadCode) };
        }
        if symbol == EOS || left == 0 {
            return Err(BadCode);
        }
        out.push((symbol & 0xff) as u8);
        left -= 1;
        window = window << length | ((1 << length) - 1);
        n -= length;
    }
}

/// Not the Huffman code of anything, or of too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadCode;

/// The first symbol of `bits`, and its length.
#[inline]
fn next(bits: u32) -> (u16, u32) {
    let (symbol, length) = SHORT[(bits >> 24) as usize];
    if length != 0 {
        return (u16::from(symbol), u32::from(length));
    }
    // Longer than eight bits: rare outside of binary values.
    let mut length = 9_usize;
    while length < 30 && u64::from(bits) >= BEHIND[length] {
        length += 1;
    }
    let offset = (bits >> (32 - length)) - FIRST[length];
    (SORTED[START[length] as usize + offset as usize], length.saturated())
}

const EOS: u16 = 256;

/// Bits of each symbol's code; the last is EOS.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28,
    28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6,
    6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7,
    8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7,
    15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24,
    23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23,
    23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26,
    26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20,
    21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27,
    27, 27, 26, 30,
];

const TABLES: Tables = Tables::new();
/// The code of each symbol, in the low bits.
const CODES: &[u32; 257] = &TABLES.codes;
/// Symbols in the order of their codes.
const SORTED: &[u16; 257] = &TABLES.sorted;
/// Where the codes of each length start in [`SORTED`].
const START: &[u16; 31] = &TABLES.start;
/// The first code of each length.
const FIRST: &[u32; 31] = &TABLES.first;
/// What is behind the last code of each length, at the left of 32 bits.
const BEHIND: &[u64; 31] = &TABLES.behind;
/// Symbol and length for every eight bits that start with a whole code; length 0 for others.
const SHORT: &[(u8, u8); 256] = &TABLES.short;

struct Tables {
    codes: [u32; 257],
    sorted: [u16; 257],
    start: [u16; 31],
    first: [u32; 31],
    behind: [u64; 31],
    short: [(u8, u8); 256],
}

impl Tables {
    #[expect(clippy::cast_possible_truncation, reason = "257 symbols, of which EOS has more than eight bits")]
    const fn new() -> Self {
        let mut t = Self {
            codes: [0; 257],
            sorted: [0; 257],
            start: [0; 31],
            first: [0; 31],
            behind: [0; 31],
            short: [(0, 0); 256],
        };
        let (mut code, mut n, mut length) = (0_u32, 0, 1);
        while length <= 30 {
            code <<= 1;
            t.start[length] = n as u16;
            t.first[length] = code;
            let mut symbol = 0;
            while symbol < 257 {
                if LENGTHS[symbol] as usize == length {
                    t.codes[symbol] = code;
                    t.sorted[n] = symbol as u16;
                    n += 1;
                    t.show(symbol as u8, length, code as usize);
                    code += 1;
                }
                symbol += 1;
            }
            t.behind[length] = (code as u64) << (32 - length);
            length += 1;
        }
        t
    }

    /// Fills in all bytes that start with a code.
    const fn show(&mut self, symbol: u8, length: usize, code: usize) {
        if length > 8 {
            return;
        }
        let mut at = code << (8 - length);
        while at < (code + 1) << (8 - length) {
            self.short[at] = (symbol, (length as u64 & 0xff) as u8);
            at += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn coded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), size(text));
        out
    }

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, BadCode> {
        let mut out = Vec::new();
        decode(coded, 1 << 20, &mut out).map(|()| out)
    }

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|b| *b != b' ').collect();
        digits.chunks(2).map(|d| u8::from_str_radix(std::str::from_utf8(d).unwrap(), 16).unwrap()).collect()
    }

    /// RFC 7541 §C.4 and §C.6.
    #[test]
    fn the_examples_of_the_rfc() {
        for (text, code) in [
            ("www.example.com", "f1e3 c2e5 f23a 6ba0 ab90 f4ff"),
            ("no-cache", "a8eb 1064 9cbf"),
            ("custom-key", "25a8 49e9 5ba9 7d7f"),
            ("custom-value", "25a8 49e9 5bb8 e8b4 bf"),
            ("302", "6402"),
            ("private", "aec3 771a 4b"),
            ("Mon, 21 Oct 2013 20:13:21 GMT", "d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff"),
            ("https://www.example.com", "9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3"),
            ("307", "640e ff"),
            ("gzip", "9bd9 ab"),
            (
                "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1",
                "94e7 821d d7f2 e6c7 b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed \
                 4ee5 b106 3d50 07",
            ),
        ] {
            assert_eq!(coded(text.as_bytes()), hex(code), "{text}");
            assert_eq!(decoded(&hex(code)).as_deref(), Ok(text.as_bytes()));
        }
    }

    /// Some codes of RFC 7541 appendix B, among them the longest of each kind.
    #[test]
    fn the_codes_of_the_rfc() {
        for (symbol, code) in [
            (0, 0x1ff8),
            (1, 0x7f_ffd8),
            (10, 0x3fff_fffc),
            (b'0'.into(), 0),
            (b' '.into(), 0x14),
            (b'a'.into(), 3),
        ] {
            assert_eq!(CODES[symbol], code, "{symbol}");
        }
        for (symbol, code) in
            [(b'\\'.into(), 0x7_fff0), (127, 0xfff_fffc), (249, 0xfff_fffe), (255, 0x3ff_ffee)]
        {
            assert_eq!(CODES[symbol], code, "{symbol}");
        }
        assert_eq!(CODES[EOS as usize], 0x3fff_ffff);
    }

    /// RFC 7541 §5.2: the padding is ones, less than a byte, and EOS is an error.
    #[test]
    fn bad_padding_is_an_error() {
        assert_eq!(decoded(&[]), Ok(vec![]));
        assert_eq!(decoded(&[0x1f]), Ok(b"a".to_vec()), "'a' is 00011, then three ones");
        assert_eq!(decoded(&[0x1e]), Err(BadCode), "padded with a zero");
        assert_eq!(decoded(&[0x1f, 0xff]), Err(BadCode), "a byte of padding too many");
        assert_eq!(decoded(&[0xff]), Err(BadCode), "nothing but padding");
        assert_eq!(decoded(&[0xff; 4]), Err(BadCode), "EOS");
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xfc]), Err(BadCode), "EOS cannot be spelt");
        let mut out = Vec::new();
        assert_eq!(decode(&coded(b"four"), 3, &mut out), Err(BadCode), "longer than allowed");
    }

    proptest! {
        #[test]
        fn what_is_coded_is_decoded(text: Vec<u8>) {
            prop_assert_eq!(decoded(&coded(&text)), Ok(text));
        }

        /// The code is complete, so what decodes is what would be coded: there is one form of everything.
        #[test]
        fn what_decodes_has_one_form(bytes: Vec<u8>) {
            if let Ok(text) = decoded(&bytes) {
                prop_assert_eq!(coded(&text), bytes);
            }
        }

        #[test]
        fn runs_of_long_codes_are_decoded(text in prop::collection::vec(prop::sample::select(vec![10, 13, 22, 1, 0, 249, b'a']), 0..200)) {
            prop_assert_eq!(decoded(&coded(&text)), Ok(text));
        }
    }
}
