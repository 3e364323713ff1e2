//! ZRLE, RFC 6143 §7.7.6 with the tiles of §7.7.5.

use bytes::{BufMut, BytesMut};
use quickset_base::number::Unsigned as _;

use super::{CELL, Manner, RectangleContent, RfbPainter, UpdatePiece};
use crate::{Outside, Part, Rect, pixel};

impl RfbPainter {
    pub(super) fn zrle(
        &mut self,
        piece: UpdatePiece,
        screen: Part<'_>,
        manner: Manner<'_>,
        out: &mut BytesMut,
    ) -> Result<(), Outside> {
        let UpdatePiece { rect, content } = piece;
        self.plain.clear();
        for top in (rect.top()..rect.bottom()).step_by(CELL.into()) {
            for left in (rect.left()..rect.right()).step_by(CELL.into()) {
                if let RectangleContent::Solid(colour) = content {
                    self.plain.put_u8(1);
                    manner.encoder.cpixels(&[colour], &mut self.plain);
                } else {
                    self.zrle_tile(rect.clip(left, top, CELL, CELL), screen, manner.encoder)?;
                }
            }
        }
        self.packed.clear();
        self.zrle.write(manner.level, &self.plain, &mut self.packed);
        out.put_u32(self.packed.len().saturated());
        out.put_slice(&self.packed);
        Ok(())
    }

    fn zrle_tile(
        &mut self,
        tile: Rect,
        screen: Part<'_>,
        encoder: &pixel::PixelEncoder,
    ) -> Result<(), Outside> {
        let Self { piece: palette, plain, .. } = self;
        palette.clear();
        if !screen.rows(tile)?.all(|row| palette.add(row, MOST_COLOURS)) {
            plain.put_u8(RAW);
            screen.rows(tile)?.for_each(|row| encoder.cpixels(row, plain));
            return Ok(());
        }
        let colours = palette.colours();
        // One colour has its number, too: 1.
        let kind = if colours.len() <= MOST_PACKED { 0 } else { RUNS } + colours.len().saturated::<u8>();
        plain.put_u8(kind);
        encoder.cpixels(colours, plain);
        let bits = match colours.len() {
            1 => return Ok(()),
            2 => 1,
            3..=4 => 2,
            5..=MOST_PACKED => 4,
            _ => 0,
        };
        if bits > 0 {
            for row in screen.rows(tile)? {
                let (mut byte, mut left) = (0, 8);
                palette.indices(row, |index| {
                    left -= bits;
                    byte |= index << left;
                    if left == 0 {
                        plain.put_u8(byte);
                        (byte, left) = (0, 8);
                    }
                });
                if left < 8 {
                    plain.put_u8(byte);
                }
            }
            return Ok(());
        }
        // A run may go on in the next row.
        let (mut last, mut length) = (0, 0);
        for row in screen.rows(tile)? {
            palette.indices(row, |index| {
                if length > 0 && last != index {
                    put_run(last, length, plain);
                    length = 0;
                }
                (last, length) = (index, length + 1);
            });
        }
        put_run(last, length, plain);
        Ok(())
    }
}

/// So many pixels with a number: the length less one is the sum of bytes, of which the last one is not 255.
fn put_run(index: u8, mut length: usize, out: &mut BytesMut) {
    if length == 1 {
        out.put_u8(index);
        return;
    }
    out.put_u8(index | RUN);
    length -= 1;
    while length >= 255 {
        out.put_u8(255);
        length -= 255;
    }
    out.put_u8(length.saturated());
}

/// Colours of a tile whose pixels are runs.
const MOST_COLOURS: usize = 127;
/// Colours of a tile with bits for each pixel.
const MOST_PACKED: usize = 16;

/// The kinds of a tile: of packed pixels, it is how many colours there are.
const RAW: u8 = 0;
/// And of runs, with their number added.
const RUNS: u8 = 128;
/// A number with a length.
const RUN: u8 = 128;
