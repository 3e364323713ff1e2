//! Pixels of a rectangle to bytes and back, each rectangle for itself.
//!
//! *In:* a rectangle of a [`Framebuffer`]; or a [`CodedPixels`] off the wire. *Out:* the body of an item, in
//! the form that is likely the shortest; or pixels. Up to 96 colours go as a palette and indices, squeezed by
//! Zstandard where that helps; more go as JPEG, or without loss as predicted planes. Invariants: a decoder
//! holds nothing between two rectangles, and never more of one than its pixels need; no header of a JPEG
//! comes off the wire. Buffers are reused: nothing is allocated for each pixel or row.
//!
//! Source: `spec/desktop.md` §6.

mod adaptive;
mod decode;
#[cfg(feature = "encode")]
mod encode;
mod jpeg;
mod tables;
#[cfg(test)]
#[cfg(feature = "encode")]
mod tests;

use quickset_rfb::Rect;

pub(crate) use decode::{CodedPixels, RectangleDecoder};
#[cfg(feature = "encode")]
pub(crate) use encode::{PieceRoom, PixelLoss, RectangleEncoder};

/// The kinds of items; `spec/desktop.md` §5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ItemKind {
    /// A new size of the screen.
    Size,
    /// One colour.
    Solid,
    /// Colours and packed indices.
    Palette,
    /// Colours and indices, squeezed.
    PaletteZstd,
    /// Pixels as they are.
    Rgb,
    /// Predicted planes, squeezed.
    RgbZstd,
    /// With loss.
    Jpeg,
    /// From elsewhere on the screen.
    Copy,
    /// Few colours by what surrounds them.
    Adaptive,
}

impl ItemKind {
    /// All, in the order of their numbers on the wire.
    pub const ALL: [Self; 9] = [
        Self::Size,
        Self::Solid,
        Self::Palette,
        Self::PaletteZstd,
        Self::Rgb,
        Self::RgbZstd,
        Self::Jpeg,
        Self::Copy,
        Self::Adaptive,
    ];

    /// For tables and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Size => "size",
            Self::Solid => "solid",
            Self::Palette => "palette",
            Self::PaletteZstd => "palette-zstd",
            Self::Rgb => "rgb",
            Self::RgbZstd => "rgb-zstd",
            Self::Jpeg => "jpeg",
            Self::Copy => "copy",
            Self::Adaptive => "adaptive",
        }
    }
}

/// DT-16: pixels of an item of coded pixels; 256 KiB, which a processor's cache holds.
pub(crate) const MAX_PIXELS: usize = 1 << 16;
/// DT-24: the least columns and rows of a JPEG.
const MIN_JPEG_SIDE: u16 = 8;
/// DT-22: the most colours of a palette.
const MAX_COLOURS: usize = 96;
/// DT-79: those of an adaptive code.
#[cfg(feature = "encode")]
const MOST_ADAPTIVE: usize = 256;
/// RFC 8878 §3.1.1: the magic number, which does not travel.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// DT-16: pixels that one message may make the client decode.
pub(crate) const MAX_DECODED: usize = 1 << 18;

/// DT-16: pixels that the items of one message may write.
pub(crate) fn max_written(bounds: Rect) -> usize {
    MAX_DECODED + 4 * bounds.area()
}

/// Bits of an index; `spec/desktop.md` §6.
fn index_bits(colours: usize) -> usize {
    match colours {
        0..=2 => 1,
        3..=4 => 2,
        5..=16 => 4,
        _ => 8,
    }
}

/// The middle one of a, b and a + b - c: an edge is followed, a slope goes on.
fn predict(a: u8, b: u8, c: u8) -> u8 {
    let (low, high) = (a.min(b), a.max(b));
    if c >= high {
        low
    } else if c <= low {
        high
    } else {
        // Between low and high, since c is.
        low + (high - c)
    }
}
