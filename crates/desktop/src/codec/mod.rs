//! Pixels of a rectangle to bytes and back, each rectangle for itself.
//!
//! *In:* a rectangle of a [`Framebuffer`]; or a [`CodedPixels`] off the wire. *Out:* the body of an item, in
//! the form that is likely the shortest; or pixels. Up to 96 colours go as a palette and indices, squeezed by
//! Zstandard where that helps; more go as JPEG, or without loss as predicted planes. Invariants: a decoder
//! holds nothing between two rectangles, and never more of one than its pixels need; no header of a JPEG
//! comes off the wire. Buffers are reused: nothing is allocated for each pixel or row.
//!
//! Source: `spec/desktop.md` §6.

mod decode;
mod encode;
mod jpeg;
mod palette;
mod planes;
mod squeeze;
mod tables;
#[cfg(test)]
mod tests;

use quickset_rfb::Rect;

pub(crate) use decode::{CodedPixels, RectangleDecoder};
pub(crate) use encode::{PixelLoss, RectangleEncoder};

use crate::message::PutFields;

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
}

impl ItemKind {
    /// All, in the order of their numbers on the wire.
    pub const ALL: [Self; 8] = [
        Self::Size,
        Self::Solid,
        Self::Palette,
        Self::PaletteZstd,
        Self::Rgb,
        Self::RgbZstd,
        Self::Jpeg,
        Self::Copy,
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
        }
    }
}

/// Writes what the body of an item of pixels begins with.
fn begin(out: &mut Vec<u8>, kind: ItemKind, rect: Rect) {
    out.put_u8(kind as u8);
    out.put_rect(rect);
}

/// DT-16: pixels of an item of coded pixels; 256 KiB, which a processor's cache holds.
pub(crate) const MAX_PIXELS: usize = 1 << 16;
/// DT-24: the least columns and rows of a JPEG.
const MIN_JPEG_SIDE: u16 = 8;
/// DT-22: the most colours of a palette.
const MAX_COLOURS: usize = 96;
