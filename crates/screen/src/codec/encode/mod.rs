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
use super::adaptive::{CodeRoom, PixelModel};
use super::jpeg::JpegForm;
use super::{ItemKind, MAX_COLOURS, MAX_PIXELS, MIN_JPEG_SIDE, MOST_ADAPTIVE};
use crate::message::PutFields;

/// Encodes rectangles, and chooses how.
pub(crate) struct RectangleEncoder {
    form: JpegForm,
    /// The client takes JPEG with colours at full resolution (DT-82).
    full_colour: bool,
    /// The client takes adaptive codes (DT-77).
    adaptive: bool,
    /// Some kilobytes, which are not to be in the way of whoever holds this.
    model: Box<PixelModel>,
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

/// How long an item may be, and where it may end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceRoom {
    /// Bytes that it should have at most, and that it must not have more of.
    pub(crate) wanted: usize,
    pub(crate) most: usize,
    /// It may end at multiples of so many rows.
    pub(crate) step: u16,
}

/// Buffers tell nobody anything.
impl fmt::Debug for RectangleEncoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoder(quality {})", self.form.quality())
    }
}

impl RectangleEncoder {
    /// With this quality of JPEG, 1 to 100, and with adaptive codes if the client takes them.
    pub(crate) fn new(quality: u8, adaptive: bool) -> Self {
        Self {
            form: JpegForm::halved(quality),
            full_colour: false,
            adaptive,
            model: Box::new(PixelModel::new()),
            palette: RectanglePalette::new(),
            squeezer: Squeezer::new(),
            scanner: Scanner::default(),
            content: Vec::new(),
        }
    }

    /// JPEG may have colours at full resolution, if the client takes that.
    pub(crate) fn with_full_colour(mut self, full_colour: bool) -> Self {
        self.full_colour = full_colour;
        self
    }

    /// What follows has this quality of JPEG, 1 to 100.
    pub(crate) fn set_quality(&mut self, quality: u8) {
        self.form = JpegForm::halved(quality);
    }

    /// Appends the item that paints `rect`, or as much of its upper part as there is room for, and says
    /// which. `None` when it does not fit, and nothing is known that would. `rect` has at most
    /// [`MAX_PIXELS`] and at least one, or is of one colour.
    pub(crate) fn encode(
        &mut self,
        screen: &Framebuffer,
        rect: Rect,
        loss: PixelLoss,
        room: PieceRoom,
        out: &mut Vec<u8>,
    ) -> Result<Option<(ItemKind, Rect)>, Outside> {
        debug_assert!((1..=MAX_PIXELS).contains(&rect.area()), "{rect}");
        let start = out.len();
        // DT-79, DT-22.
        let most = if self.adaptive { MOST_ADAPTIVE } else { MAX_COLOURS };
        let rows = self.palette.count(screen.rows(rect)?, most);
        // Text in many shades is cut where it would have too many.
        let few =
            if rows == rect.height() { Some(rect) } else { room.upper(rect, rows).filter(|_| self.adaptive) };
        // A palette of nearly as many colours as pixels is longer than the pixels.
        let is_worth = |palette: &RectanglePalette| {
            palette.colours().len() == 1 || palette.packed_len() < 3 * rect.area()
        };
        let Some(few) = few.filter(|_| is_worth(&self.palette)) else {
            return self.many_colours(screen, rect, loss, room, out);
        };
        let Some((kind, done)) = self.few_colours(few, room, out) else {
            // What takes a third of a byte for each pixel, and more, may be a part of a film.
            let is_dense = few.area() <= DENSE * room.most && loss == PixelLoss::Allowed;
            return if is_dense { self.many_colours(screen, rect, loss, room, out) } else { Ok(None) };
        };
        let bytes = out.len() - start;
        let many = self.palette.colours().len() > MANY;
        // Without loss other codes are shorter where this one takes a byte for each pixel, and more.
        let is_dense = many && bytes * if loss == PixelLoss::Allowed { DENSE } else { 1 } > done.area();
        // The upper rows of a photograph have few colours, too.
        if is_dense && few != rect && is_large(rect) {
            out.truncate(start);
            return self.many_colours(screen, rect, loss, room, out);
        }
        if is_dense && loss == PixelLoss::Allowed {
            let whole = if is_large(done) { done } else { rect };
            if !is_large(whole) {
                return Ok(Some((kind, done)));
            }
            let (form, scan) = self.scanner.scan(screen, whole, self.form, self.full_colour)?;
            // Lossless is worth twice the bytes.
            if scan.len() + 3 < bytes * whole.area() / done.area() / 2 {
                out.truncate(start);
                jpeg(whole, form, scan, out);
                let fits = out.len() - start <= room.most;
                return Ok(Some((ItemKind::Jpeg, whole)).filter(|_| fits));
            }
        }
        Ok(Some((kind, done)))
    }

    /// With loss, if that is allowed, or without.
    fn many_colours(
        &mut self,
        screen: &Framebuffer,
        rect: Rect,
        loss: PixelLoss,
        room: PieceRoom,
        out: &mut Vec<u8>,
    ) -> Result<Option<(ItemKind, Rect)>, Outside> {
        let start = out.len();
        let mut kind = None;
        if loss == PixelLoss::Allowed && is_large(rect) {
            let (form, scan) = self.scanner.scan(screen, rect, self.form, self.full_colour)?;
            // At the highest quality noise is shorter as it is.
            if scan.len() + 3 < 3 * rect.area() {
                jpeg(rect, form, scan, out);
                kind = Some(ItemKind::Jpeg);
            }
        }
        let kind = match kind {
            Some(kind) => kind,
            None => self.lossless(screen, rect, out)?,
        };
        Ok(Some((kind, rect)).filter(|_| out.len() - start <= room.most))
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

    fn few_colours(&mut self, rect: Rect, room: PieceRoom, out: &mut Vec<u8>) -> Option<(ItemKind, Rect)> {
        let palette = &self.palette;
        if let [colour] = *palette.colours() {
            solid(rect, colour, out);
            return Some((ItemKind::Solid, rect));
        }
        let packed = palette.packed_len();
        let last: u8 = (palette.colours().len() - 1).saturated();
        if self.adaptive {
            let width = usize::from(rect.width());
            let indices = &palette.indices()[..rect.area()];
            let rows =
                self.model.encode(width, room.of_code(rect), indices, palette.colours(), &mut self.content);
            let done = rect.clip(rect.left(), rect.top(), rect.width(), rows.saturated());
            if done.is_empty() {
                return None;
            }
            if done != rect || self.content.len() < packed || palette.colours().len() > MAX_COLOURS {
                begin(out, ItemKind::Adaptive, done);
                out.put_varint(self.content.len() as u64);
                out.put(&self.content);
                return Some((ItemKind::Adaptive, done));
            }
        } else if packed > SMALL {
            // A frame of Zstandard has about 12 bytes besides its content.
            self.content.clear();
            palette.spread(&mut self.content);
            let frame = self.squeezer.squeeze(&self.content);
            if frame.len() + 2 < packed {
                begin(out, ItemKind::PaletteZstd, rect);
                out.put_u8(last);
                out.put_varint(frame.len() as u64);
                out.put(frame);
                return Some((ItemKind::PaletteZstd, rect));
            }
        }
        begin(out, ItemKind::Palette, rect);
        out.put_u8(last);
        palette.pack(out);
        Some((ItemKind::Palette, rect))
    }
}

impl PieceRoom {
    /// What of `rect` can go alone, if no more than its upper rows can.
    fn upper(self, rect: Rect, rows: u16) -> Option<Rect> {
        let bottom = (rect.top() + rows) / self.step * self.step;
        Some(Rect::between(rect.left(), rect.top(), rect.right(), bottom)).filter(|upper| !upper.is_empty())
    }

    /// What of it an adaptive code may take.
    fn of_code(self, rect: Rect) -> CodeRoom {
        CodeRoom {
            wanted: self.wanted.saturating_sub(MAX_HEAD),
            most: self.most.saturating_sub(MAX_HEAD),
            first: (self.step - rect.top() % self.step).into(),
            step: self.step.into(),
            rows: rect.height().into(),
        }
    }
}

fn is_large(rect: Rect) -> bool {
    rect.width().min(rect.height()) >= MIN_JPEG_SIDE
}

fn jpeg(rect: Rect, form: JpegForm, scan: &[u8], out: &mut Vec<u8>) {
    begin(out, ItemKind::Jpeg, rect);
    out.put_u8(form.byte());
    out.put_varint(scan.len() as u64);
    out.put(scan);
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
/// Kind, rectangle and length of an item, on screens of at most 16384 pixels a side.
const MAX_HEAD: usize = 1 + 3 * 2 + 4 + 2;

/// Writes what the body of an item of pixels begins with.
fn begin(out: &mut Vec<u8>, kind: ItemKind, rect: Rect) {
    out.put_u8(kind as u8);
    out.put_rect(rect);
}
