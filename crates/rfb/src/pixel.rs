//! Pixel formats (RFC 6143 §7.4) and their conversion to and from [`XRGB`](PixelFormat::XRGB).
//!
//! Inside, a pixel is a `u32` 0x00RRGGBB. A channel is converted by the nearest value, halves up:
//! `(v · to + from / 2) / from`, so black stays black, white stays white, and 8 bits survive the way through
//! any channel of 8 bits or more.

use bytes::{BufMut, BytesMut};
use quickset_base::number::Unsigned as _;

use crate::Error;

/// How a pixel is laid out in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PixelFormat {
    /// 8, 16 or 32.
    pub bits_per_pixel: u8,
    /// How many of the bits carry colour. Of no consequence to Raw pixels.
    pub depth: u8,
    /// The most significant byte comes first.
    pub big_endian: bool,
    /// Pixels hold intensities; otherwise they are indices into a colour map.
    pub true_colour: bool,
    /// Red.
    pub red: ColourChannel,
    /// Green.
    pub green: ColourChannel,
    /// Blue.
    pub blue: ColourChannel,
}

/// Where one primary colour is in a pixel: `pixel >> shift & max`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ColourChannel {
    /// The greatest intensity, 2^n - 1.
    pub max: u16,
    /// Bits to the right of the channel.
    pub shift: u8,
}

impl PixelFormat {
    /// Bytes of a format on the wire.
    pub const SIZE: usize = 16;

    /// What is used inside: 32 bits, little endian, 0x00RRGGBB.
    pub const XRGB: Self = Self::rgb888(false);

    /// 8 bits with red at 5, green at 2, blue at 0: what indices mean to a viewer with a colour map.
    pub(crate) const RGB332: Self = Self {
        bits_per_pixel: 8,
        depth: 8,
        big_endian: false,
        true_colour: true,
        red: ColourChannel { max: 7, shift: 5 },
        green: ColourChannel { max: 7, shift: 2 },
        blue: ColourChannel { max: 3, shift: 0 },
    };

    /// 32 bits with red at 16, green at 8, blue at 0.
    const fn rgb888(big_endian: bool) -> Self {
        Self {
            bits_per_pixel: 32,
            depth: 24,
            big_endian,
            true_colour: true,
            red: ColourChannel { max: 255, shift: 16 },
            green: ColourChannel { max: 255, shift: 8 },
            blue: ColourChannel { max: 255, shift: 0 },
        }
    }

    /// Reads a format without judging it: a server may be native to colour maps, as long as we set another.
    pub fn decode(b: &[u8; Self::SIZE]) -> Self {
        let channel = |max: usize, shift: usize| ColourChannel {
            max: u16::from_be_bytes([b[max], b[max + 1]]),
            shift: b[shift],
        };
        Self {
            bits_per_pixel: b[0],
            depth: b[1],
            big_endian: b[2] != 0,
            true_colour: b[3] != 0,
            red: channel(4, 10),
            green: channel(6, 11),
            blue: channel(8, 12),
        }
    }

    /// The 16 bytes of RFC 6143 §7.4, the last three of them padding.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let [r, g, b] = [self.red, self.green, self.blue].map(|c| c.max.to_be_bytes());
        let flags = [u8::from(self.big_endian), u8::from(self.true_colour)];
        let shifts = [self.red.shift, self.green.shift, self.blue.shift];
        [
            self.bits_per_pixel,
            self.depth,
            flags[0],
            flags[1],
            r[0],
            r[1],
            g[0],
            g[1],
            b[0],
            b[1],
            shifts[0],
            shifts[1],
            shifts[2],
            0,
            0,
            0,
        ]
    }

    /// Bytes of a pixel: 1, 2 or 4.
    pub const fn bytes_per_pixel(&self) -> usize {
        self.bits_per_pixel as usize / 8
    }

    /// Red, green and blue of a pixel, each of 65535.
    pub(crate) fn colour(&self, pixel: u32) -> [u16; 3] {
        [self.red, self.green, self.blue]
            .map(|c| scale(pixel >> c.shift & u32::from(c.max), c.max.into(), u16::MAX.into()).saturated())
    }

    /// Says what is wrong with a format that pixels cannot be converted to.
    pub fn check(&self) -> Result<(), Error> {
        if !self.true_colour {
            return Err(Error::ColourMap);
        }
        if ![8, 16, 32].contains(&self.bits_per_pixel) {
            return Err(Error::BitsPerPixel(self.bits_per_pixel));
        }
        let mut taken = 0u64;
        for channel in [self.red, self.green, self.blue] {
            // RFC 6143 §7.4: a maximum is 2^n - 1.
            let max = u64::from(channel.max);
            let fits = channel.shift < 32 && max << channel.shift < 1 << self.bits_per_pixel;
            if max == 0 || max & (max + 1) != 0 || !fits || taken & max << channel.shift != 0 {
                return Err(Error::Channel { max: channel.max, shift: channel.shift });
            }
            taken |= max << channel.shift;
        }
        Ok(())
    }
}

/// Writes pixels in another format; tables are built once.
#[derive(Clone, Debug)]
pub(crate) struct PixelEncoder {
    format: PixelFormat,
    /// Per channel, for each of the 256 intensities, its bits in place. `None`: the pixels are XRGB already.
    tables: Option<Box<[[u32; 256]; 3]>>,
    /// What of a pixel is sent where the encoding leaves out the byte without colour.
    cpixel: ShortPixel,
    tpixel: ShortPixel,
    /// With 32 bits, those that are of no colour are set: some viewers take them for how opaque a pixel is
    /// (noVNC 1.3).
    padding: u32,
}

impl PixelEncoder {
    /// `format` has passed [`PixelFormat::check`].
    pub(crate) fn new(format: PixelFormat) -> Self {
        let rgb = [format.red, format.green, format.blue];
        let plain = PixelFormat::XRGB;
        let same = format.bits_per_pixel == 32 && rgb == [plain.red, plain.green, plain.blue];
        let tables = (!same).then(|| {
            let table = |c: ColourChannel| {
                core::array::from_fn(|v| scale(v.saturated(), 255, c.max.into()) << c.shift)
            };
            Box::new(rgb.map(table))
        });
        let colours = rgb.iter().fold(0, |all, c| all | u32::from(c.max) << c.shift);
        let padding = if format.bits_per_pixel == 32 { !colours } else { 0 };
        Self {
            format,
            tables,
            cpixel: ShortPixel::cpixel(&format, colours),
            tpixel: ShortPixel::tpixel(&format),
            padding,
        }
    }

    pub(crate) fn format(&self) -> &PixelFormat {
        &self.format
    }

    /// Appends CPIXELs, of which ZRLE is made (RFC 6143 §7.7.5).
    pub(crate) fn cpixels(&self, pixels: &[u32], out: &mut BytesMut) {
        self.encode_short(self.cpixel, pixels, out);
    }

    /// Appends TPIXELs, of which Tight is made (the community's specification).
    pub(crate) fn tpixels(&self, pixels: &[u32], out: &mut BytesMut) {
        self.encode_short(self.tpixel, pixels, out);
    }

    fn encode_short(&self, short: ShortPixel, pixels: &[u32], out: &mut BytesMut) {
        let start = out.len();
        match short {
            ShortPixel::Whole => self.encode(pixels, out),
            ShortPixel::Rgb => put(out, pixels, |p| {
                let [_, rgb @ ..] = p.to_be_bytes();
                rgb
            }),
            ShortPixel::First | ShortPixel::Last => {
                self.encode(pixels, out);
                let from = usize::from(short == ShortPixel::Last);
                for n in 0..pixels.len() {
                    out.copy_within(start + 4 * n + from..start + 4 * n + from + 3, start + 3 * n);
                }
                out.truncate(start + 3 * pixels.len());
            }
        }
    }

    /// Appends pixels.
    pub(crate) fn encode(&self, pixels: &[u32], out: &mut BytesMut) {
        let padding = self.padding;
        let Some(t) = &self.tables else {
            return if self.format.big_endian {
                put(out, pixels, |p| (p | padding).to_be_bytes());
            } else {
                put(out, pixels, |p| (p | padding).to_le_bytes());
            };
        };
        let bits = |p: u32| {
            t[0][(p >> 16 & 255) as usize]
                | t[1][(p >> 8 & 255) as usize]
                | t[2][(p & 255) as usize]
                | padding
        };
        match (self.format.bits_per_pixel, self.format.big_endian) {
            (8, _) => put(out, pixels, |p| [(bits(p) & 0xff) as u8]),
            (16, false) => put(out, pixels, |p| ((bits(p) & 0xffff) as u16).to_le_bytes()),
            (16, true) => put(out, pixels, |p| ((bits(p) & 0xffff) as u16).to_be_bytes()),
            (_, false) => put(out, pixels, |p| bits(p).to_le_bytes()),
            (_, true) => put(out, pixels, |p| bits(p).to_be_bytes()),
        }
    }
}

/// What is sent of a pixel of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShortPixel {
    /// All of it.
    Whole,
    /// Its first three bytes.
    First,
    /// Its last three bytes.
    Last,
    /// Red, green and blue, whatever their places are.
    Rgb,
}

impl ShortPixel {
    /// RFC 6143 §7.7.5: of 32 bits with a depth of 24 or less three bytes, when the colours lie in those.
    /// `colours` are the bits that they take.
    fn cpixel(format: &PixelFormat, colours: u32) -> Self {
        let (low, high) = (colours.leading_zeros() >= 8, colours.trailing_zeros() >= 8);
        match format.big_endian {
            _ if format.bits_per_pixel != 32 || format.depth > 24 => Self::Whole,
            false if low => Self::First,
            true if high => Self::First,
            _ if low || high => Self::Last,
            _ => Self::Whole,
        }
    }

    /// The community's specification, Tight: of 32 bits with a depth of 24 and eight bits a colour three
    /// bytes.
    fn tpixel(format: &PixelFormat) -> Self {
        let eight = [format.red, format.green, format.blue].iter().all(|c| c.max == 255);
        let three = format.bits_per_pixel == 32 && format.depth == 24 && eight;
        if three { Self::Rgb } else { Self::Whole }
    }
}

/// Appends pixels by way of arrays of a fixed size, of which the compiler makes vectors: a pixel of 32 bits
/// takes 1 instruction, and 4 when it is put where it belongs.
fn put<const N: usize>(out: &mut BytesMut, pixels: &[u32], bytes: impl Fn(u32) -> [u8; N]) {
    let mut block = [[0; N]; 64];
    for pixels in pixels.chunks(block.len()) {
        block.iter_mut().zip(pixels).for_each(|(to, &pixel)| *to = bytes(pixel));
        out.put_slice(block[..pixels.len()].as_flattened());
    }
}

/// Appends the pixels that `bytes` holds in `format`, which has passed [`PixelFormat::check`]; a part of a
/// pixel at the end is left out.
pub(crate) fn decode(format: &PixelFormat, bytes: &[u8], out: &mut Vec<u32>) {
    if *format == PixelFormat::XRGB {
        out.extend(bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], 0])));
        return;
    }
    let channel = |p: u32, c: ColourChannel| scale(p >> c.shift & u32::from(c.max), c.max.into(), 255);
    out.extend(bytes.chunks_exact(format.bytes_per_pixel()).map(|b| {
        let p = if format.big_endian {
            b.iter().fold(0, |p, &b| p << 8 | u32::from(b))
        } else {
            b.iter().rev().fold(0, |p, &b| p << 8 | u32::from(b))
        };
        channel(p, format.red) << 16 | channel(p, format.green) << 8 | channel(p, format.blue)
    }));
}

/// `v` of `from` as the nearest of `to`, halves up.
fn scale(v: u32, from: u32, to: u32) -> u32 {
    (v * to + from / 2) / from
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rgb(bits_per_pixel: u8, big_endian: bool, channels: [(u16, u8); 3]) -> PixelFormat {
        let [red, green, blue] = channels.map(|(max, shift)| ColourChannel { max, shift });
        PixelFormat { bits_per_pixel, depth: 24, big_endian, true_colour: true, red, green, blue }
    }

    fn encoded(format: PixelFormat, pixels: &[u32]) -> Vec<u8> {
        format.check().unwrap();
        let mut out = BytesMut::new();
        PixelEncoder::new(format).encode(pixels, &mut out);
        out.to_vec()
    }

    #[test]
    fn formats_by_hand() {
        let pixel = [0xff12_80fe];
        let rgb565 = [(31, 11), (63, 5), (31, 0)];
        // 0x12 * 31 / 255 = 2.19, 0x80 * 63 / 255 = 31.6, 0xfe * 31 / 255 = 30.9.
        let word = 2u16 << 11 | 32 << 5 | 31;
        assert_eq!(encoded(rgb(16, false, rgb565), &pixel), word.to_le_bytes());
        assert_eq!(encoded(rgb(16, true, rgb565), &pixel), word.to_be_bytes());
        // bgr233: 0x12 * 7 / 255 = 0.49, 0x80 * 7 / 255 = 3.51, 0xfe * 3 / 255 = 2.99.
        assert_eq!(encoded(rgb(8, false, [(7, 0), (7, 3), (3, 6)]), &pixel), [4 << 3 | 3 << 6]);
        assert_eq!(encoded(PixelFormat::XRGB, &pixel), [0xfe, 0x80, 0x12, 0xff], "opaque");
        assert_eq!(encoded(PixelFormat::rgb888(true), &pixel), [0xff, 0x12, 0x80, 0xfe]);
        assert_eq!(
            encoded(rgb(32, false, [(255, 24), (255, 16), (255, 8)]), &pixel),
            [0xff, 0xfe, 0x80, 0x12]
        );
        // 10 bits: 0x12 * 1023 / 255 = 72.2, 0x80: 513.5 is rounded up, 0xfe: 1018.99.
        let ten = (3u32 << 30) + (72 << 20) + (514 << 10) + 1019;
        assert_eq!(encoded(rgb(32, true, [(1023, 20), (1023, 10), (1023, 0)]), &pixel), ten.to_be_bytes());
    }

    #[test]
    fn eight_bits_survive_wider_channels() {
        let all: Vec<u32> = (0..256).map(|v| v << 16 | (255 - v) << 8 | v).collect();
        let formats = [
            rgb(32, true, [(255, 0), (1023, 8), (1023, 18)]),
            rgb(32, false, [(255, 24), (255, 0), (0x7fff, 8)]),
        ];
        for format in formats {
            let mut back = Vec::new();
            decode(&format, &encoded(format, &all), &mut back);
            assert_eq!(back, all, "{format:?}");
        }
    }

    #[test]
    fn narrow_channels_keep_their_own_values() {
        for (bits, channels) in [(16, [(31, 10), (31, 5), (31, 0)]), (8, [(7, 0), (7, 3), (3, 6)])] {
            for big_endian in [false, true] {
                let format = rgb(bits, big_endian, channels);
                let used: u32 = channels.iter().map(|&(m, s)| u32::from(m) << s).sum();
                for v in 0..=used {
                    let bytes = if big_endian { v.to_be_bytes() } else { v.to_le_bytes() };
                    let n = format.bytes_per_pixel();
                    let bytes = if big_endian { &bytes[4 - n..] } else { &bytes[..n] };
                    let mut pixel = Vec::new();
                    decode(&format, bytes, &mut pixel);
                    assert_eq!(encoded(format, &pixel), bytes);
                }
            }
        }
    }

    #[test]
    fn the_wire_form_is_the_table_of_the_rfc() {
        // RFC 6143 §7.4: bits, depth, endian, true colour, three maxima, three shifts, padding.
        let bytes = [16, 15, 1, 1, 0, 31, 0, 63, 0, 15, 11, 5, 0, 0, 0, 0];
        let format = PixelFormat::decode(&bytes);
        let expected = PixelFormat { depth: 15, ..rgb(16, true, [(31, 11), (63, 5), (15, 0)]) };
        assert_eq!(format, expected);
        assert_eq!(format.encode(), bytes);
    }

    #[test]
    fn absurd_formats_are_named() {
        let mut f = PixelFormat::XRGB;
        f.true_colour = false;
        assert_eq!(f.check(), Err(Error::ColourMap));
        assert_eq!(rgb(24, false, [(255, 16), (255, 8), (255, 0)]).check(), Err(Error::BitsPerPixel(24)));
        for bad in [(0, 0), (254, 0), (255, 25), (255, 255), (511, 24)] {
            let e = rgb(32, false, [bad, (1, 23), (1, 22)]).check().unwrap_err();
            assert_eq!(e, Error::Channel { max: bad.0, shift: bad.1 });
        }
        // Overlapping channels would mix colours.
        assert!(rgb(16, false, [(31, 11), (63, 5), (63, 0)]).check().is_err());
        assert!(rgb(8, false, [(7, 0), (7, 3), (7, 6)]).check().is_err());
    }
}
