//! What a viewer makes of updates: decoders written from RFC 6143 §7.7 and the community's specification, for
//! tests. Anything that these do not allow is a panic.

use std::collections::BTreeMap;

use miniz_oxide::inflate::stream::{InflateState, inflate};
use miniz_oxide::{DataFormat, MZFlush};
use quickset_rfb::PixelFormat;

/// A viewer's screen, in pixels of its own format, with those bits only that are of a colour.
pub(crate) struct Picture {
    pub(crate) width: usize,
    pub(crate) height: usize,
    pub(crate) pixels: Vec<u32>,
    format: PixelFormat,
    tight: [Box<InflateState>; 4],
    zrle: Box<InflateState>,
    /// How many rectangles came in each encoding, by number.
    pub(crate) rects: BTreeMap<i32, usize>,
}

impl Picture {
    pub(crate) fn new(width: usize, height: usize) -> Self {
        let stream = || InflateState::new_boxed(DataFormat::Zlib);
        Self {
            width,
            height,
            pixels: vec![0; width * height],
            format: PixelFormat::XRGB,
            tight: [stream(), stream(), stream(), stream()],
            zrle: stream(),
            rects: BTreeMap::new(),
        }
    }

    pub(crate) fn set_format(&mut self, format: PixelFormat) {
        self.format = format;
    }

    /// Takes in whole FramebufferUpdates.
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        let mut from = Bytes(bytes);
        while !from.0.is_empty() {
            let header = from.take(4);
            assert_eq!(header[..2], [0, 0], "a FramebufferUpdate");
            for _ in 0..u16::from_be_bytes([header[2], header[3]]) {
                let [x, y, width, height] = std::array::from_fn(|_| from.u16());
                assert!(x + width <= self.width && y + height <= self.height && width * height > 0);
                let encoding = i32::from_be_bytes(from.take(4).try_into().unwrap());
                *self.rects.entry(encoding).or_default() += 1;
                let pixels = match encoding {
                    0 => self.raw(&mut from, width * height),
                    5 => self.hextile(&mut from, width, height),
                    7 => self.tight(&mut from, width, height),
                    16 => self.zrle(&mut from, width, height),
                    other => panic!("encoding {other}"),
                };
                self.put(x, y, width, &pixels);
            }
        }
    }

    fn put(&mut self, x: usize, y: usize, width: usize, pixels: &[u32]) {
        for (row, pixels) in pixels.chunks(width).enumerate() {
            self.pixels[(y + row) * self.width + x..][..width].copy_from_slice(pixels);
        }
    }

    fn raw(&self, from: &mut Bytes<'_>, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.pixel(from)).collect()
    }

    fn pixel(&self, from: &mut Bytes<'_>) -> u32 {
        self.value(from.take(usize::from(self.format.bits_per_pixel / 8)))
    }

    fn value(&self, bytes: &[u8]) -> u32 {
        let join = |v: u32, b: &u8| v << 8 | u32::from(*b);
        let value = if self.format.big_endian {
            bytes.iter().fold(0, join)
        } else {
            bytes.iter().rev().fold(0, join)
        };
        value & self.mask()
    }

    fn mask(&self) -> u32 {
        [self.format.red, self.format.green, self.format.blue]
            .iter()
            .map(|c| u32::from(c.max) << c.shift)
            .sum()
    }

    /// RFC 6143 §7.7.5.
    fn cpixel(&self, from: &mut Bytes<'_>) -> u32 {
        let (low, high) = (self.mask() < 1 << 24, self.mask() % 256 == 0);
        if self.format.bits_per_pixel != 32 || self.format.depth > 24 || !(low || high) {
            return self.pixel(from);
        }
        let three = from.take(3);
        // Where both would do, what is first in memory is what viewers expect.
        let least = if self.format.big_endian { !high } else { low };
        let four = match (least, self.format.big_endian) {
            (true, false) | (false, true) => [three[0], three[1], three[2], 0],
            (false, false) | (true, true) => [0, three[0], three[1], three[2]],
        };
        self.value(&four)
    }

    /// The community's specification of Tight.
    fn tpixel(&self, from: &mut Bytes<'_>) -> u32 {
        let f = &self.format;
        if f.bits_per_pixel == 32 && f.depth == 24 && [f.red.max, f.green.max, f.blue.max] == [255; 3] {
            let rgb = from.take(3);
            let of = |n: usize, shift: u8| u32::from(rgb[n]) << shift;
            return of(0, f.red.shift) | of(1, f.green.shift) | of(2, f.blue.shift);
        }
        self.pixel(from)
    }

    fn tight(&mut self, from: &mut Bytes<'_>, width: usize, height: usize) -> Vec<u32> {
        assert!(width <= 2048, "Tight has rectangles of 2048 columns at most");
        let control = from.u8();
        assert_eq!(control & 0xf, 0, "no stream is begun anew");
        if control >> 4 == 8 {
            return vec![self.tpixel(from); width * height];
        }
        assert!(control >> 4 < 8, "JPEG is lossy");
        let stream = usize::from(control >> 4 & 3);
        let filter = if control & 0x40 == 0 { 0 } else { from.u8() };
        match filter {
            0 => {
                let data = self.tight_data(from, stream, width * height * self.tpixel_size());
                let mut data = Bytes(&data);
                (0..width * height).map(|_| self.tpixel(&mut data)).collect()
            }
            1 => {
                let count = usize::from(from.u8()) + 1;
                assert!(count >= 2);
                let palette: Vec<u32> = (0..count).map(|_| self.tpixel(from)).collect();
                let row = if count == 2 { width.div_ceil(8) } else { width };
                let data = self.tight_data(from, stream, row * height);
                let index = |row: &[u8], x: usize| {
                    usize::from(if count == 2 { row[x / 8] >> (7 - x % 8) & 1 } else { row[x] })
                };
                data.chunks(row)
                    .flat_map(|row| (0..width).map(move |x| index(row, x)))
                    .map(|i| palette[i])
                    .collect()
            }
            other => panic!("filter {other}"),
        }
    }

    fn tpixel_size(&self) -> usize {
        let mut bytes = Bytes(&[0; 4]);
        self.tpixel(&mut bytes);
        4 - bytes.0.len()
    }

    fn tight_data(&mut self, from: &mut Bytes<'_>, stream: usize, size: usize) -> Vec<u8> {
        if size < 12 {
            return from.take(size).to_vec();
        }
        let mut length = 0;
        for shift in [0, 7, 14] {
            let byte = from.u8();
            if shift == 14 {
                length |= usize::from(byte) << shift;
                break;
            }
            length |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        unpack(&mut self.tight[stream], from.take(length), size)
    }

    fn zrle(&mut self, from: &mut Bytes<'_>, width: usize, height: usize) -> Vec<u32> {
        let length = from.u32() as usize;
        let data = unpack_all(&mut self.zrle, from.take(length));
        let mut data = Bytes(&data);
        let mut pixels = vec![0; width * height];
        for (y, h) in steps(height, 64) {
            for (x, w) in steps(width, 64) {
                let tile = self.zrle_tile(&mut data, w, h);
                for (row, tile) in tile.chunks(w).enumerate() {
                    pixels[(y + row) * width + x..][..w].copy_from_slice(tile);
                }
            }
        }
        assert_eq!(data.0, b"", "all tiles are there");
        pixels
    }

    fn zrle_tile(&self, from: &mut Bytes<'_>, width: usize, height: usize) -> Vec<u32> {
        let kind = from.u8();
        let mut palette = |count: u8| -> Vec<u32> { (0..count).map(|_| self.cpixel(from)).collect() };
        match kind {
            0 => (0..width * height).map(|_| self.cpixel(from)).collect(),
            1 => vec![palette(1)[0]; width * height],
            2..=16 => {
                let palette = palette(kind);
                let bits = [1, 2, 4][[2, 4, 16].iter().position(|&most| kind <= most).unwrap()];
                let mut pixels = Vec::new();
                for _ in 0..height {
                    let row = from.take((width * bits).div_ceil(8));
                    pixels.extend((0..width).map(|x| {
                        let byte = row[x * bits / 8] >> (8 - bits - x * bits % 8);
                        palette[usize::from(byte) & ((1 << bits) - 1)]
                    }));
                }
                pixels
            }
            128 | 130..=255 => {
                let palette = palette(kind - 128);
                let mut pixels = Vec::new();
                while pixels.len() < width * height {
                    let (colour, long) = if kind == 128 {
                        (self.cpixel(from), true)
                    } else {
                        let index = from.u8();
                        (palette[usize::from(index & 127)], index > 127)
                    };
                    let mut length = 1;
                    let mut more = long;
                    while more {
                        let byte = from.u8();
                        length += usize::from(byte);
                        more = byte == 255;
                    }
                    pixels.extend(std::iter::repeat_n(colour, length));
                }
                assert_eq!(pixels.len(), width * height, "no run is longer than its tile");
                pixels
            }
            other => panic!("tile {other}"),
        }
    }

    /// RFC 6143 §7.7.4.
    fn hextile(&self, from: &mut Bytes<'_>, width: usize, height: usize) -> Vec<u32> {
        let mut pixels = vec![0; width * height];
        let (mut background, mut foreground) = (None, None);
        for (y, h) in steps(height, 16) {
            for (x, w) in steps(width, 16) {
                let kind = from.u8();
                if kind & 1 != 0 {
                    for row in 0..h {
                        let row = &mut pixels[(y + row) * width + x..][..w];
                        row.fill_with(|| self.pixel(from));
                    }
                    (background, foreground) = (None, None);
                    continue;
                }
                if kind & 2 != 0 {
                    background = Some(self.pixel(from));
                }
                if kind & 4 != 0 {
                    assert_eq!(kind & 16, 0, "colours are either one or many");
                    foreground = Some(self.pixel(from));
                }
                let ground = background.expect("the first tile has one");
                for row in 0..h {
                    pixels[(y + row) * width + x..][..w].fill(ground);
                }
                for _ in 0..if kind & 8 != 0 { from.u8() } else { 0 } {
                    let colour =
                        if kind & 16 != 0 { self.pixel(from) } else { foreground.expect("one was told") };
                    let (at, size) = (from.u8(), from.u8());
                    let [dx, dy] = [usize::from(at >> 4), usize::from(at & 15)];
                    let [sw, sh] = [usize::from(size >> 4) + 1, usize::from(size & 15) + 1];
                    assert!(dx + sw <= w && dy + sh <= h, "inside of its tile");
                    for row in 0..sh {
                        pixels[(y + dy + row) * width + x + dx..][..sw].fill(colour);
                    }
                }
                if kind & 16 != 0 {
                    foreground = None;
                }
            }
        }
        pixels
    }
}

/// Where each step begins, and how long it is.
fn steps(all: usize, step: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..all).step_by(step).map(move |at| (at, step.min(all - at)))
}

fn unpack(stream: &mut InflateState, packed: &[u8], size: usize) -> Vec<u8> {
    let plain = unpack_all(stream, packed);
    assert_eq!(plain.len(), size);
    plain
}

fn unpack_all(stream: &mut InflateState, mut packed: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    let mut part = vec![0; 1 << 16];
    loop {
        let result = inflate(stream, packed, &mut part, MZFlush::Sync);
        packed = &packed[result.bytes_consumed..];
        plain.extend_from_slice(&part[..result.bytes_written]);
        match result.status {
            Ok(_) if result.bytes_written == part.len() || !packed.is_empty() => {}
            Ok(_) | Err(miniz_oxide::MZError::Buf) => break,
            Err(error) => panic!("not a zlib stream: {error:?}"),
        }
    }
    assert_eq!(packed, b"", "the stream has not ended");
    plain
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, n: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        head
    }

    fn u8(&mut self) -> u8 {
        self.take(1)[0]
    }

    fn u16(&mut self) -> usize {
        usize::from(u16::from_be_bytes(self.take(2).try_into().unwrap()))
    }

    fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take(4).try_into().unwrap())
    }
}
