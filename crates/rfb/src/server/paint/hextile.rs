//! Hextile, RFC 6143 §7.7.4.

use bytes::{BufMut, BytesMut};
use quickset_base::number::Unsigned as _;

use super::{RectangleContent, UpdatePiece};
use crate::{Outside, Part, Rect, pixel};

/// Appends a piece.
pub(super) fn put(
    piece: UpdatePiece,
    screen: Part<'_>,
    encoder: &pixel::PixelEncoder,
    out: &mut BytesMut,
) -> Result<(), Outside> {
    let UpdatePiece { rect, content } = piece;
    let mut background = None;
    for top in (rect.top()..rect.bottom()).step_by(TILE.into()) {
        for left in (rect.left()..rect.right()).step_by(TILE.into()) {
            if let (RectangleContent::Solid(_), Some(_)) = (content, background) {
                out.put_u8(0);
                continue;
            }
            let tile = HextileTile::read(rect.clip(left, top, TILE, TILE), screen)?;
            tile.put(&mut background, encoder, out);
        }
    }
    Ok(())
}

/// Up to 16 by 16 pixels.
struct HextileTile {
    pixels: [u32; AREA],
    width: usize,
    height: usize,
}

impl HextileTile {
    fn read(rect: Rect, screen: Part<'_>) -> Result<Self, Outside> {
        let (width, height) = (rect.width().into(), rect.height().into());
        let mut tile = Self { pixels: [0; AREA], width, height };
        for (to, row) in tile.pixels.chunks_exact_mut(width).zip(screen.rows(rect)?) {
            to.copy_from_slice(row);
        }
        Ok(tile)
    }

    /// Appends it. `background` is that of the tile before, if there is one that counts.
    fn put(&self, background: &mut Option<u32>, encoder: &pixel::PixelEncoder, out: &mut BytesMut) {
        let pixels = &self.pixels[..self.width * self.height];
        let ground = self.ground();
        let other = pixels.iter().copied().find(|&p| p != ground);
        let coloured = pixels.iter().any(|&p| p != ground && Some(p) != other);
        let start = out.len();
        let mut kind = 0;
        out.put_u8(0);
        if background.replace(ground) != Some(ground) {
            kind |= BACKGROUND;
            encoder.encode(&[ground], out);
        }
        if let Some(other) = other {
            kind |= SUBRECTANGLES;
            if coloured {
                kind |= COLOURED;
            } else {
                kind |= FOREGROUND;
                encoder.encode(&[other], out);
            }
            let count = out.len();
            out.put_u8(0);
            let parts = self.put_parts(ground, coloured.then_some(encoder), out);
            let most = start + pixels.len() * encoder.format().bytes_per_pixel();
            let Some(parts) = parts.filter(|_| out.len() <= most) else {
                out.truncate(start);
                out.put_u8(RAW);
                encoder.encode(pixels, out);
                // RFC 6143 §7.7.4: nothing is taken over from a raw tile.
                *background = None;
                return;
            };
            out[count] = parts;
        }
        out[start] = kind;
    }

    /// The colour of most pixels, if one has more than half of them; else some colour (Boyer and Moore).
    fn ground(&self) -> u32 {
        let (mut ground, mut lead) = (self.pixels[0], 0);
        for &pixel in &self.pixels[..self.width * self.height] {
            if lead == 0 {
                ground = pixel;
            }
            if pixel == ground { lead += 1 } else { lead -= 1 }
        }
        ground
    }

    /// Appends what is not `ground` as rectangles of one colour, which is told with each when there is an
    /// encoder for it, and says how many there are; `None` when they are too many.
    fn put_parts(
        &self,
        ground: u32,
        colours: Option<&pixel::PixelEncoder>,
        out: &mut BytesMut,
    ) -> Option<u8> {
        let mut rest = self.pixels;
        let mut parts = 0u8;
        for at in 0..self.width * self.height {
            let colour = rest[at];
            if colour == ground {
                continue;
            }
            let (x, y) = (at % self.width, at / self.width);
            let width = rest[at..][..self.width - x].iter().take_while(|&&p| p == colour).count();
            let mut bottom = y;
            while bottom < self.height {
                let row = &mut rest[bottom * self.width + x..][..width];
                if row.iter().any(|&p| p != colour) {
                    break;
                }
                row.fill(ground);
                bottom += 1;
            }
            if let Some(encoder) = colours {
                encoder.encode(&[colour], out);
            }
            out.put_u8(nibbles(x, y));
            out.put_u8(nibbles(width - 1, bottom - y - 1));
            parts = parts.checked_add(1)?;
        }
        Some(parts)
    }
}

/// Two numbers below 16, as a rectangle has them: its place, or what its sides have beyond 1.
fn nibbles(x: usize, y: usize) -> u8 {
    (x << 4 | y).saturated()
}

/// A side of a tile.
const TILE: u16 = 16;
const AREA: usize = TILE as usize * TILE as usize;
/// In 64 columns and rows, beyond which pixels are left as they are.
pub(super) const MOST_COLOURS: usize = 64;

/// What a tile has, as bits.
const RAW: u8 = 1;
const BACKGROUND: u8 = 2;
const FOREGROUND: u8 = 4;
const SUBRECTANGLES: u8 = 8;
const COLOURED: u8 = 16;
