//! Pixels in the encoding that a viewer takes: Tight, ZRLE, Hextile or Raw.
//!
//! In: a rectangle of the shadow framebuffer. Out: rectangles of an update that together cover it, each once.
//! What the viewer lists first of these four is what it prefers (RFC 6143 §7.5.2) and is used. To a viewer on
//! the same machine only areas of one colour go so, and all others as Raw, which every viewer takes
//! (RFC 6143 §7.7.1): at 1280x720 Raw takes 2 instructions a pixel here, and to be copied by the system and
//! the viewer; as bits of a palette text takes 22 here and some ten there, in tiles of ZRLE 35. A viewer
//! elsewhere, or one that asks for a level of compression, gets packed bytes, unless it is known to take
//! plain ones as fast.
//!
//! Invariants: nothing is lossy; a zlib stream begins and ends with the connection, whatever a viewer lists
//! meanwhile, and everything that went into one was sent, in order. Sources: RFC 6143 §7.7, the community's
//! specification.

mod hextile;
mod palette;
mod tight;
mod zlib;
mod zrle;

use bytes::BytesMut;

use self::palette::SmallPalette;
use self::zlib::Zlib;
use crate::{Outside, Part, PixelCoding, Rect, pixel};

/// What lasts as long as the connection.
#[derive(Default)]
pub(super) struct RfbPainter {
    /// By what is in them: pixels, two colours, more.
    tight: [Zlib; 3],
    zrle: Zlib,
    /// The colours of a cell, and of the piece that it may belong to.
    cell: SmallPalette,
    piece: SmallPalette,
    /// Of the rectangle at hand, before it is packed, and after.
    plain: BytesMut,
    packed: Vec<u8>,
}

/// How pixels leave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Manner<'a> {
    pub(super) coding: PixelCoding,
    /// Of zlib, 0 to 9.
    pub(super) level: u8,
    pub(super) encoder: &'a pixel::PixelEncoder,
}

/// A rectangle of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UpdatePiece {
    pub(super) rect: Rect,
    pub(super) content: RectangleContent,
}

/// What is in a rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RectangleContent {
    /// One colour.
    Solid(u32),
    /// So few colours that their numbers are shorter than they are.
    Few,
    /// What is best left as it is, or left to zlib.
    Many,
}

impl RfbPainter {
    /// Cuts `rect` into pieces, each of which has one kind of content.
    pub(super) fn cut(
        &mut self,
        rect: Rect,
        screen: Part<'_>,
        manner: Manner<'_>,
    ) -> Result<Vec<UpdatePiece>, Outside> {
        if manner.coding == PixelCoding::Raw || rect.is_empty() {
            return Ok(vec![UpdatePiece { rect, content: RectangleContent::Many }]);
        }
        // A rectangle costs a viewer 15 µs, which is what drawing some 4,000 pixels costs: what is cut out
        // for being simple has to have more.
        let columns = if manner.level == 0 { 4 * CELL } else { CELL };
        let mut pieces: Vec<UpdatePiece> = Vec::new();
        // Where the pieces of the band above begin.
        let mut above = 0;
        for top in (rect.top()..rect.bottom()).step_by(CELL.into()) {
            let begin = pieces.len();
            for left in (rect.left()..rect.right()).step_by(columns.into()) {
                let cell = rect.clip(left, top, columns, CELL);
                let content = self.look(cell, screen, manner)?;
                match pieces[begin..].last_mut() {
                    Some(last) if self.joins(*last, content, cell.width(), manner) => {
                        last.rect = last.rect.bounding(cell);
                    }
                    _ => {
                        self.piece.copy(&self.cell);
                        pieces.push(UpdatePiece { rect: cell, content });
                    }
                }
            }
            let (before, band) = pieces.split_at_mut(begin);
            stack(&mut before[above..], band, manner);
            above = begin;
        }
        pieces.retain(|piece| !piece.rect.is_empty());
        Ok(pieces)
    }

    /// Appends the pixels of a piece, behind its header.
    pub(super) fn paint(
        &mut self,
        piece: UpdatePiece,
        screen: Part<'_>,
        manner: Manner<'_>,
        out: &mut BytesMut,
    ) -> Result<(), Outside> {
        match manner.of(piece.content) {
            PixelCoding::Raw => {
                out.reserve(piece.rect.area() * manner.encoder.format().bytes_per_pixel());
                screen.rows(piece.rect)?.for_each(|row| manner.encoder.encode(row, out));
                Ok(())
            }
            PixelCoding::Hextile => hextile::put(piece, screen, manner.encoder, out),
            PixelCoding::Zrle => self.zrle(piece, screen, manner, out),
            PixelCoding::Tight => self.tight(piece, screen, manner, out),
        }
    }

    /// What is in `cell`, and with few colours which.
    fn look(
        &mut self,
        cell: Rect,
        screen: Part<'_>,
        manner: Manner<'_>,
    ) -> Result<RectangleContent, Outside> {
        let first = screen.pixel(cell.left(), cell.top()).ok_or(Outside(cell))?;
        // Sixteen at a time: the compiler makes vectors of that.
        let is_solid = |row: &[u32]| row.chunks(16).all(|p| p.iter().fold(0, |d, p| d | (p ^ first)) == 0);
        if screen.rows(cell)?.all(is_solid) {
            return Ok(RectangleContent::Solid(first));
        }
        if manner.level == 0 {
            return Ok(RectangleContent::Many);
        }
        if manner.coding == PixelCoding::Zrle {
            // Its tiles have all that is needed.
            return Ok(RectangleContent::Few);
        }
        self.cell.clear();
        let most = manner.most_colours(cell);
        let few = screen.rows(cell)?.all(|row| self.cell.add(row, most));
        Ok(if few { RectangleContent::Few } else { RectangleContent::Many })
    }

    /// Whether the cell that was looked at goes with the piece to the left of it.
    fn joins(
        &mut self,
        piece: UpdatePiece,
        content: RectangleContent,
        columns: u16,
        manner: Manner<'_>,
    ) -> bool {
        if piece.content != content {
            return false;
        }
        let width = piece.rect.width() + columns;
        match (manner.coding, content) {
            // The community's specification: a rectangle of Tight has 2048 columns at most.
            (PixelCoding::Tight, RectangleContent::Few) => {
                width <= MAX_TIGHT / 2 && self.piece.join(&self.cell)
            }
            (PixelCoding::Tight, _) => width <= MAX_TIGHT,
            _ => true,
        }
    }
}

impl std::fmt::Debug for RfbPainter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Painter")
            .field("tight", &self.tight)
            .field("zrle", &self.zrle)
            .finish_non_exhaustive()
    }
}

impl Manner<'_> {
    /// The encoding of a rectangle with such content.
    pub(super) fn of(self, content: RectangleContent) -> PixelCoding {
        match (self.coding, content) {
            (PixelCoding::Hextile, RectangleContent::Many) => PixelCoding::Raw,
            (PixelCoding::Zrle | PixelCoding::Tight, RectangleContent::Many) if self.level == 0 => {
                PixelCoding::Raw
            }
            (coding, _) => coding,
        }
    }

    /// Up to how many colours in `cell` are few.
    fn most_colours(self, cell: Rect) -> usize {
        let most = match self.coding {
            // A byte a pixel is no longer than its number, unless that is a bit.
            _ if self.encoder.format().bytes_per_pixel() == 1 => 2,
            PixelCoding::Hextile => hextile::MOST_COLOURS,
            PixelCoding::Tight | PixelCoding::Zrle | PixelCoding::Raw => SmallPalette::MOST,
        };
        // And no more than what is saved.
        most.min(cell.area() / 4).max(2)
    }
}

/// Lets the pieces of a band take over those of the band above that continue them, which are left empty. Both
/// go from left to right.
fn stack(above: &mut [UpdatePiece], band: &mut [UpdatePiece], manner: Manner<'_>) {
    let mut above = above.iter_mut().peekable();
    for piece in band {
        let column = piece.rect.left();
        while above.next_if(|upper| upper.rect.is_empty() || upper.rect.left() < column).is_some() {}
        let Some(upper) = above.peek_mut() else { return };
        // Of more lines there could be too many colours.
        let stays = manner.coding == PixelCoding::Tight && piece.content == RectangleContent::Few;
        let (columns, upper_columns) =
            ((column, piece.rect.right()), (upper.rect.left(), upper.rect.right()));
        let area = piece.rect.area() + upper.rect.area();
        if piece.content == upper.content && columns == upper_columns && !stays && area <= MAX_PIXELS {
            piece.rect = piece.rect.bounding(std::mem::take(&mut upper.rect));
        }
    }
}

/// A side of what is looked at as one: a tile of ZRLE (RFC 6143 §7.7.6), four of Hextile's in a row.
const CELL: u16 = 64;
/// Columns of a rectangle of Tight.
const MAX_TIGHT: u16 = 2048;
/// Pixels of a piece: as bytes they fit the length that Tight has for them, 22 bits.
const MAX_PIXELS: usize = 1 << 18;
