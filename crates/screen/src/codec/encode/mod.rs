mod palette;
mod planes;
mod scan;
mod squeeze;

use core::fmt;

use quickset_base::number::Unsigned as _;
use quickset_rfb::{Framebuffer, Outside, Rect};

use self::palette::RectanglePalette;
pub(super) use self::scan::Scanner;
pub(super) use self::squeeze::Squeezer;
use super::{ItemKind, MAX_PIXELS, MIN_JPEG_SIDE};
use crate::message::PutFields;

/// Encodes rectangles, and chooses how.
pub(crate) struct RectangleEncoder {
    quality: u8,
    palette: RectanglePalette,
    squeezer: Squeezer,
    scanner: Scanner,
    content: Vec<u8>,
}

/// Whether pixels may change a little on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PixelLoss {
    Allowed,
    None,
}

/// Buffers tell nobody anything.
impl fmt::Debug for RectangleEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoder(quality {})", self.quality)
    }
}

impl RectangleEncoder {
    /// With this quality of JPEG, 1 to 100.
    pub(crate) fn new(quality: u8) -> Self {
        Self {
            quality: quality.clamp(1, 100),
            palette: RectanglePalette::new(),
            squeezer: Squeezer::new(),
            scanner: Scanner::default(),
            content: Vec::new(),
        }
    }

    /// What follows has this quality of JPEG, 1 to 100.
    pub(crate) fn set_quality(&mut self, quality: u8) {
        self.quality = quality.clamp(1, 100);
    }

    /// Appends the item that paints `rect`, which has at most [`MAX_PIXELS`] and at least one, or is of one
    /// colour.
    pub(crate) fn encode(
        &mut self,
        screen: &Framebuffer,
        rect: Rect,
        loss: PixelLoss,
        out: &mut Vec<u8>,
    ) -> Result<ItemKind, Outside> {
        debug_assert!((1..=MAX_PIXELS).contains(&rect.area()), "{rect}");
        let (few, start) = (self.palette.count(screen.rows(rect)?), out.len());
        let mut kind = None;
        // A palette of nearly as many colours as pixels is longer than the pixels.
        if few && (self.palette.colours().len() == 1 || self.palette.packed_len() < 3 * rect.area()) {
            let found = self.few_colours(rect, out);
            let dense = (out.len() - start) * DENSE > rect.area() && self.palette.colours().len() > MANY;
            if !dense {
                return Ok(found);
            }
            kind = Some(found);
        }
        let large = rect.width().min(rect.height()) >= MIN_JPEG_SIDE && (!few || kind.is_some());
        if loss == PixelLoss::Allowed && large {
            let scan = self.scanner.scan(screen, rect, self.quality)?;
            // Lossless is worth twice the bytes. At the highest quality noise is shorter as it is.
            let most = if kind.is_some() { (out.len() - start) / 2 } else { 3 * rect.area() };
            if scan.len() + 3 < most {
                out.truncate(start);
                begin(out, ItemKind::Jpeg, rect);
                out.put_u8(self.quality);
                out.put_varint(scan.len() as u64);
                out.put(scan);
                return Ok(ItemKind::Jpeg);
            }
        }
        match kind {
            Some(kind) => Ok(kind),
            None => self.lossless(screen, rect, out),
        }
    }

    /// Many colours: predicted planes, or pixels as they are.
    fn lossless(&mut self, screen: &Framebuffer, rect: Rect, out: &mut Vec<u8>) -> Result<ItemKind, Outside> {
        self.content.clear();
        planes::split(screen, rect, &mut self.content)?;
        let frame = self.squeezer.squeeze(&self.content);
        if frame.len() + 2 < 3 * rect.area() {
            begin(out, ItemKind::RgbZstd, rect);
            out.put_varint(frame.len() as u64);
            out.put(frame);
            return Ok(ItemKind::RgbZstd);
        }
        begin(out, ItemKind::Rgb, rect);
        screen.rows(rect)?.flatten().for_each(|&pixel| out.put_colour(pixel));
        Ok(ItemKind::Rgb)
    }

    fn few_colours(&mut self, rect: Rect, out: &mut Vec<u8>) -> ItemKind {
        let palette = &self.palette;
        if let [colour] = *palette.colours() {
            solid(rect, colour, out);
            return ItemKind::Solid;
        }
        let colours: u8 = palette.colours().len().saturated();
        let packed = palette.packed_len();
        // A frame of Zstandard has about 12 bytes besides its content.
        if packed > SMALL {
            self.content.clear();
            palette.spread(&mut self.content);
            let frame = self.squeezer.squeeze(&self.content);
            if frame.len() + 2 < packed {
                begin(out, ItemKind::PaletteZstd, rect);
                out.put_u8(colours - 1);
                out.put_varint(frame.len() as u64);
                out.put(frame);
                return ItemKind::PaletteZstd;
            }
        }
        begin(out, ItemKind::Palette, rect);
        out.put_u8(colours - 1);
        palette.pack(out);
        ItemKind::Palette
    }
}

/// Appends the item that paints `rect` in one colour.
pub(in crate::codec) fn solid(rect: Rect, colour: u32, out: &mut Vec<u8>) {
    begin(out, ItemKind::Solid, rect);
    out.put_colour(colour);
}

/// A small part of a film has few colours too: more than a byte for so many pixels is too much for text, and
/// so are more colours than this.
const DENSE: usize = 3;
const MANY: usize = 24;
/// Packed palettes up to this length are not worth squeezing.
const SMALL: usize = 40;

/// Writes what the body of an item of pixels begins with.
fn begin(out: &mut Vec<u8>, kind: ItemKind, rect: Rect) {
    out.put_u8(kind as u8);
    out.put_rect(rect);
}
