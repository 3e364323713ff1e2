#[cfg(feature = "encode")]
mod expand;
mod jpeg;
mod palette;
mod planes;
#[cfg(any(test, not(feature = "encode")))]
mod portable;

use core::fmt;

use quickset_rfb::Rect;

#[cfg(feature = "encode")]
pub(super) use self::expand::Expander;
use self::jpeg::JpegPainter;
#[cfg(not(feature = "encode"))]
use self::portable::PortableExpander as Expander;
use super::adaptive::PixelModel;
use super::jpeg::JpegForm;
use super::{ItemKind, MAX_COLOURS, MAX_PIXELS, MIN_JPEG_SIDE};
use crate::message::{FieldReader, MessageFault};

/// Pixels of a rectangle, as they are on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CodedPixels<'a> {
    Solid(u32),
    Palette { count: usize, packed: &'a [u8] },
    PaletteZstd { count: usize, frame: &'a [u8] },
    Rgb(&'a [u8]),
    RgbZstd(&'a [u8]),
    Jpeg { form: JpegForm, scan: &'a [u8] },
    Adaptive(&'a [u8]),
}

impl<'a> CodedPixels<'a> {
    /// Reads what follows the rectangle. `kind` is neither of size nor copy.
    pub(crate) fn read(kind: ItemKind, rect: Rect, f: &mut FieldReader<'a>) -> Result<Self, MessageFault> {
        // DT-16: one colour costs nothing to decode.
        if kind != ItemKind::Solid && rect.area() > MAX_PIXELS {
            return Err(MessageFault::Value { what: "the pixels of a rectangle", value: rect.area() as u64 });
        }
        Ok(match kind {
            ItemKind::Palette => {
                let count = count(f)?;
                Self::Palette { count, packed: f.take(palette::packed_len(count, rect.area()))? }
            }
            ItemKind::PaletteZstd => Self::PaletteZstd { count: count(f)?, frame: block(f)? },
            ItemKind::Rgb => Self::Rgb(f.take(3 * rect.area())?),
            ItemKind::RgbZstd => Self::RgbZstd(block(f)?),
            ItemKind::Jpeg => {
                // DT-22, DT-24.
                let byte = f.u8()?;
                let form = JpegForm::read(byte);
                let form =
                    form.ok_or(MessageFault::Value { what: "the quality of a JPEG", value: byte.into() })?;
                let side = rect.width().min(rect.height());
                if side < MIN_JPEG_SIDE {
                    return Err(MessageFault::Value { what: "a side of a JPEG", value: side.into() });
                }
                Self::Jpeg { form, scan: block(f)? }
            }
            ItemKind::Adaptive => Self::Adaptive(block(f)?),
            ItemKind::Solid | ItemKind::Size | ItemKind::Copy => Self::Solid(f.colour()?),
        })
    }
}

/// A length and as many bytes.
fn block<'a>(f: &mut FieldReader<'a>) -> Result<&'a [u8], MessageFault> {
    let length = f.length("the length of coded pixels", usize::MAX)?;
    f.take(length)
}

/// DT-22: the number of colours.
fn count(f: &mut FieldReader<'_>) -> Result<usize, MessageFault> {
    match usize::from(f.u8()?) + 1 {
        count @ 2..=MAX_COLOURS => Ok(count),
        count => Err(MessageFault::Value { what: "the number of colours", value: count as u64 }),
    }
}

/// Decodes rectangles.
pub(crate) struct RectangleDecoder {
    expander: Expander,
    painter: JpegPainter,
    /// Some kilobytes, which are not to be in the way of whoever holds this.
    model: Box<PixelModel>,
    pixels: Vec<u32>,
}

/// Buffers tell nobody anything.
impl fmt::Debug for RectangleDecoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Decoder")
    }
}

impl RectangleDecoder {
    pub(crate) fn new() -> Self {
        Self {
            expander: Expander::new(),
            painter: JpegPainter::default(),
            model: Box::new(PixelModel::new()),
            pixels: Vec::new(),
        }
    }

    /// As many pixels as `rect` has. The error says what is wrong.
    pub(crate) fn decode(&mut self, rect: Rect, coded: CodedPixels<'_>) -> Result<&[u32], &'static str> {
        let (area, out) = (rect.area(), &mut self.pixels);
        // What is there is painted over by an adaptive code, and is in the way of others.
        if !matches!(coded, CodedPixels::Adaptive(_)) {
            out.clear();
        }
        match coded {
            CodedPixels::Solid(colour) => out.resize(area, colour),

            CodedPixels::Palette { count, packed } => {
                palette::unpack(packed, count, area, out).ok_or("an index is beyond the palette")?;
            }
            CodedPixels::PaletteZstd { count, frame } => {
                let spread = self.expander.expand(frame, 3 * count + area);
                let spread = spread.ok_or("squeezed indices are not as many as pixels")?;
                palette::gather(spread, count, out).ok_or("an index is beyond the palette")?;
            }
            CodedPixels::Rgb(bytes) => {
                out.extend(bytes.chunks_exact(3).map(|p| u32::from_be_bytes([0, p[0], p[1], p[2]])));
            }
            CodedPixels::RgbZstd(frame) => {
                let planes = self.expander.expand(frame, 3 * area);
                planes::join(planes.ok_or("squeezed planes are not as large")?, rect.width().into(), out);
            }
            CodedPixels::Jpeg { form, scan } => {
                self.painter.paint(scan, rect, form, out).ok_or("not the scan of a JPEG")?;
            }
            CodedPixels::Adaptive(code) => {
                out.resize(area, 0);
                let painted = self.model.decode(rect.width().into(), code, out);
                painted.ok_or("an adaptive code is not of as many pixels")?;
            }
        }
        Ok(&self.pixels)
    }
}
