use quickset_base::number::Unsigned as _;

use super::{CELL, COLUMNS, HEIGHT, WIDTH};

/// A message holds at most this many bytes: one message, one packet, so that a loss blanks one rectangle.
pub const MAX_MESSAGE: usize = 1150;

/// What a message says of its rectangle. All but the update are multiples of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileHeader {
    /// Counts the sizes that the screen has had; always 0 here.
    pub epoch: u8,
    /// The update, counted from 0.
    pub update: u32,
    /// The left edge in pixels.
    pub x: u16,
    /// The upper edge in pixels.
    pub y: u16,
    /// The width in pixels.
    pub w: u16,
    /// The height in pixels.
    pub h: u16,
}

/// A rectangle with its pixels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScreenTile {
    /// Where, and of which update.
    pub header: TileHeader,
    /// Palette indices row by row.
    pub pixels: Vec<u8>,
}

/// Why a message cannot be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TileError {
    /// It ends too early.
    #[error("the message is cut short")]
    Short,
    /// The rectangle is empty, not made of cells, or not on the screen.
    #[error("the rectangle does not lie on the screen's cells")]
    Rectangle,
    /// The coding is unknown, or its palette is.
    #[error("the coding of the pixels is not known")]
    Codec,
    /// There are more pixels, or bytes, than the rectangle has room for.
    #[error("the message has more pixels than its rectangle")]
    Long,
}

/// How the pixels are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Codec {
    /// One colour for all.
    Solid = 0,
    /// A palette of at most 16 colours, then runs: 4 bits of length less one, 4 bits of colour.
    Runs = 1,
    /// A palette of at most 16 colours, then 1, 2 or 4 bits a pixel.
    Packed = 2,
    /// A byte for each pixel.
    Plain = 3,
}

impl ScreenTile {
    /// The shortest coding as a message.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(MAX_MESSAGE);
        let mut place = [NONE; 256];
        let mut colours = Vec::new();
        for pixel in &self.pixels {
            if place[usize::from(*pixel)] == NONE {
                place[usize::from(*pixel)] = colours.len().saturated::<u16>();
                colours.push(*pixel);
            }
        }
        match colours.len() {
            1 => {
                self.header.write(Codec::Solid, &mut out);
                out.push(colours[0]);
            }
            2..=16 => {
                let runs = self.runs(&place);
                let packed = self.pixels.len().div_ceil(8 / bits(colours.len()));
                let codec = if runs.len() <= packed { Codec::Runs } else { Codec::Packed };
                self.header.write(codec, &mut out);
                out.push(colours.len().saturated::<u8>());
                out.extend_from_slice(&colours);
                if codec == Codec::Runs {
                    out.extend_from_slice(&runs);
                } else {
                    self.pack(&place, bits(colours.len()), &mut out);
                }
            }
            _ => {
                self.header.write(Codec::Plain, &mut out);
                out.extend_from_slice(&self.pixels);
            }
        }
        out
    }

    /// Reads a message.
    ///
    /// # Errors
    /// See [`TileError`]. The memory used is that of a screen at most.
    pub fn decode(message: &[u8]) -> Result<Self, TileError> {
        let (header, codec, rest) = TileHeader::read(message)?;
        let area = usize::from(header.w) * usize::from(header.h);
        let pixels = match codec {
            Codec::Solid => vec![*exactly(rest, 1)?.first().ok_or(TileError::Short)?; area],
            Codec::Plain => exactly(rest, area)?.to_vec(),
            Codec::Runs | Codec::Packed => {
                let (n, rest) = rest.split_first().ok_or(TileError::Short)?;
                if !(1..=16).contains(n) {
                    return Err(TileError::Codec);
                }
                let (colours, data) = rest.split_at_checked(usize::from(*n)).ok_or(TileError::Short)?;
                if codec == Codec::Runs { unroll(data, colours, area)? } else { unpack(data, colours, area)? }
            }
        };
        Ok(Self { header, pixels })
    }

    fn runs(&self, place: &[u16; 256]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = &self.pixels[..];
        while let Some(first) = rest.first() {
            let len = rest.iter().take(16).take_while(|pixel| *pixel == first).count();
            out.push(((len - 1) << 4).saturated::<u8>() | place[usize::from(*first)].saturated::<u8>());
            rest = &rest[len..];
        }
        out
    }

    fn pack(&self, place: &[u16; 256], bits: usize, out: &mut Vec<u8>) {
        for group in self.pixels.chunks(8 / bits) {
            let byte = group
                .iter()
                .enumerate()
                .fold(0, |byte, (i, pixel)| byte | place[usize::from(*pixel)] << (i * bits));
            out.push(byte.saturated::<u8>());
        }
    }
}

impl TileHeader {
    /// Bytes of a header, the coding included.
    pub(crate) const SIZE: usize = 14;

    /// The cells of its rectangle, counted row by row.
    pub(crate) fn cells(&self) -> impl Iterator<Item = usize> + use<> {
        let [x, y, w, h] = [self.x, self.y, self.w, self.h].map(|n| usize::from(n) / CELL);
        (y..y + h).flat_map(move |row| (x..x + w).map(move |column| row * COLUMNS + column))
    }

    fn write(&self, codec: Codec, out: &mut Vec<u8>) {
        out.push(self.epoch);
        out.extend_from_slice(&self.update.to_be_bytes());
        for field in [self.x, self.y, self.w, self.h] {
            out.extend_from_slice(&field.to_be_bytes());
        }
        out.push(codec as u8);
    }

    fn read(message: &[u8]) -> Result<(Self, Codec, &[u8]), TileError> {
        let (head, rest) = message.split_first_chunk::<{ Self::SIZE }>().ok_or(TileError::Short)?;
        let pair = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let update = u32::from_be_bytes([head[1], head[2], head[3], head[4]]);
        let new = Self { epoch: head[0], update, x: pair(5), y: pair(7), w: pair(9), h: pair(11) };
        let codec = match head[13] {
            0 => Codec::Solid,
            1 => Codec::Runs,
            2 => Codec::Packed,
            3 => Codec::Plain,
            _ => return Err(TileError::Codec),
        };
        if new.is_on_screen() { Ok((new, codec, rest)) } else { Err(TileError::Rectangle) }
    }

    fn is_on_screen(&self) -> bool {
        let [x, y, w, h] = [self.x, self.y, self.w, self.h].map(usize::from);
        let whole = [x, y, w, h].iter().all(|n| n % CELL == 0);
        whole && w > 0 && h > 0 && x + w <= WIDTH && y + h <= HEIGHT
    }
}

/// Bits for a pixel of `colours` colours, 2 to 16.
pub(crate) fn bits(colours: usize) -> usize {
    match colours {
        0..=2 => 1,
        3..=4 => 2,
        _ => 4,
    }
}

fn unroll(data: &[u8], colours: &[u8], area: usize) -> Result<Vec<u8>, TileError> {
    let mut pixels = Vec::with_capacity(area);
    for byte in data {
        let colour = colours.get(usize::from(byte & 15)).ok_or(TileError::Codec)?;
        let len = usize::from(byte >> 4) + 1;
        if pixels.len() + len > area {
            return Err(TileError::Long);
        }
        pixels.resize(pixels.len() + len, *colour);
    }
    if pixels.len() == area { Ok(pixels) } else { Err(TileError::Short) }
}

fn unpack(data: &[u8], colours: &[u8], area: usize) -> Result<Vec<u8>, TileError> {
    let bits = bits(colours.len());
    let data = exactly(data, area.div_ceil(8 / bits))?;
    let mask = (1 << bits) - 1;
    let indices = data.iter().flat_map(|byte| (0..8 / bits).map(move |i| (byte >> (i * bits)) & mask));
    indices.take(area).map(|index| colours.get(usize::from(index)).copied().ok_or(TileError::Codec)).collect()
}

fn exactly(bytes: &[u8], len: usize) -> Result<&[u8], TileError> {
    match bytes.len() {
        n if n < len => Err(TileError::Short),
        n if n > len => Err(TileError::Long),
        _ => Ok(bytes),
    }
}

/// No place in a palette yet.
const NONE: u16 = u16::MAX;
