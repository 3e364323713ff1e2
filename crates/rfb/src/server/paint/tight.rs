//! Tight without loss, as the community's specification has it: one colour, a palette, or pixels.

use bytes::{BufMut, BytesMut};
use quickset_base::number::Unsigned as _;

use super::palette::SmallPalette;
use super::zlib::Zlib;
use super::{Manner, RectangleContent, RfbPainter, UpdatePiece};
use crate::{Outside, Part};

impl RfbPainter {
    pub(super) fn tight(
        &mut self,
        piece: UpdatePiece,
        screen: Part<'_>,
        manner: Manner<'_>,
        out: &mut BytesMut,
    ) -> Result<(), Outside> {
        let encoder = manner.encoder;
        self.plain.clear();
        let stream = match piece.content {
            RectangleContent::Solid(colour) => {
                out.put_u8(FILL);
                encoder.tpixels(&[colour], out);
                return Ok(());
            }
            RectangleContent::Few => {
                self.colours(piece, screen)?;
                let colours = self.piece.colours();
                let stream = if colours.len() == 2 { TWO_COLOURS } else { PALETTE };
                let last = (colours.len() - 1).saturated();
                out.put_slice(&[control(stream) | FILTER, PALETTE_FILTER, last]);
                encoder.tpixels(colours, out);
                for row in screen.rows(piece.rect)? {
                    put_indices(&self.piece, row, &mut self.plain);
                }
                stream
            }
            RectangleContent::Many => {
                out.put_u8(control(PIXELS));
                screen.rows(piece.rect)?.for_each(|row| encoder.tpixels(row, &mut self.plain));
                PIXELS
            }
        };
        let Self { tight, plain, packed, .. } = self;
        put_data(&mut tight[stream], manner.level, plain, packed, out);
        Ok(())
    }

    /// Gathers the colours of `piece`: two, at least, since a palette of one nobody expects.
    fn colours(&mut self, piece: UpdatePiece, screen: Part<'_>) -> Result<(), Outside> {
        self.piece.clear();
        let few = screen.rows(piece.rect)?.all(|row| self.piece.add(row, SmallPalette::MOST));
        debug_assert!(few && self.piece.colours().len() >= 2, "{piece:?} was looked at");
        Ok(())
    }
}

/// The stream of a piece in its first byte.
fn control(stream: usize) -> u8 {
    stream.saturated::<u8>() << 4
}

/// Of two colours a bit a pixel, most significant first, each row padded to bytes; of more, a byte.
fn put_indices(palette: &SmallPalette, row: &[u32], out: &mut BytesMut) {
    if palette.colours().len() > 2 {
        palette.indices(row, |index| out.put_u8(index));
        return;
    }
    let second = palette.colours()[1];
    for eight in row.chunks(8) {
        let bits = eight.iter().fold(0, |bits, &colour| bits << 1 | u8::from(colour == second));
        out.put_u8(bits << (8 - eight.len()));
    }
}

/// What is shorter than twelve bytes goes as it is, everything else with its length through the stream.
fn put_data(stream: &mut Zlib, level: u8, plain: &[u8], packed: &mut Vec<u8>, out: &mut BytesMut) {
    if plain.len() < MIN_PACKED {
        out.put_slice(plain);
        return;
    }
    packed.clear();
    stream.write(level, plain, packed);
    put_length(packed.len(), out);
    out.put_slice(packed);
}

/// Seven bits a byte, least significant first, and eight in the third; the high bit says that another one
/// follows.
fn put_length(length: usize, out: &mut BytesMut) {
    debug_assert!(length < 1 << 22, "pieces are not that large");
    let more = |rest: usize| if rest > 0 { 0x80 } else { 0 };
    out.put_u8((length & 0x7f).saturated::<u8>() | more(length >> 7));
    if length >> 7 > 0 {
        out.put_u8((length >> 7 & 0x7f).saturated::<u8>() | more(length >> 14));
    }
    if length >> 14 > 0 {
        out.put_u8((length >> 14).saturated());
    }
}

/// Which stream has what.
const PIXELS: usize = 0;
const TWO_COLOURS: usize = 1;
const PALETTE: usize = 2;

/// The kinds of a rectangle.
const FILL: u8 = 0x80;
/// A byte that names the filter follows.
const FILTER: u8 = 0x40;
const PALETTE_FILTER: u8 = 1;

/// Bytes from which zlib is used.
const MIN_PACKED: usize = 12;
