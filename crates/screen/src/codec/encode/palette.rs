//! Colours and indices of a rectangle.

use quickset_base::number::Unsigned as _;

use super::super::index_bits;
use crate::message::PutFields;

/// The colours of a rectangle, in the order of their first use, and the index of each pixel.
pub(super) struct RectanglePalette {
    /// Open addressing: a colour and its index in one slot.
    slots: Box<[(u32, u8); SLOTS]>,
    colours: Vec<u32>,
    indices: Vec<u8>,
}

/// What the last pixel was.
struct PixelRun {
    pixel: u32,
    index: u8,
}

impl RectanglePalette {
    pub(super) fn new() -> Self {
        Self { slots: Box::new([(FREE, 0); SLOTS]), colours: Vec::new(), indices: Vec::new() }
    }

    /// Counts the colours of some rows, until there are more than `most`, at most 256: how many rows have no
    /// more, after a look at as few pixels as that takes.
    pub(super) fn count<'a>(&mut self, rows: impl Iterator<Item = &'a [u32]>, most: usize) -> u16 {
        self.slots.fill((FREE, 0));
        self.colours.clear();
        self.indices.clear();
        let mut run = PixelRun { pixel: FREE, index: 0 };
        let mut counted = 0;
        for row in rows {
            let start = self.indices.len();
            self.indices.resize(start + row.len(), 0);
            if self.count_row(row, start, &mut run, most).is_none() {
                self.indices.truncate(start);
                return counted;
            }
            counted += 1;
        }
        counted
    }

    /// The indices of a row, from `start` on; `None` when there are more than `most` colours.
    fn count_row(&mut self, row: &[u32], start: usize, run: &mut PixelRun, most: usize) -> Option<()> {
        // Most pixels of a desktop are as their neighbour on the left.
        for (pixels, places) in row.chunks(AT_ONCE).zip(self.indices[start..].chunks_mut(AT_ONCE)) {
            // The compiler makes vectors of that.
            if pixels.iter().fold(0, |differ, pixel| differ | (pixel ^ run.pixel)) == 0 {
                places.fill(run.index);
                continue;
            }
            for (pixel, place) in pixels.iter().zip(places) {
                if *pixel != run.pixel {
                    run.index = find(&mut self.slots, &mut self.colours, *pixel, most)?;
                    run.pixel = *pixel;
                }
                *place = run.index;
            }
        }
        Some(())
    }

    pub(super) fn colours(&self) -> &[u32] {
        &self.colours
    }

    /// The index of each pixel.
    pub(super) fn indices(&self) -> &[u8] {
        &self.indices
    }

    /// How long [`pack`](Self::pack) will be.
    pub(super) fn packed_len(&self) -> usize {
        3 * self.colours.len() + (self.indices.len() * index_bits(self.colours.len())).div_ceil(8)
    }

    /// Colours, and indices in as few bits as will do.
    pub(super) fn pack(&self, out: &mut Vec<u8>) {
        self.put_colours(out);
        let bits = index_bits(self.colours.len());
        let byte = |indices: &[u8]| {
            indices.iter().zip(0..).fold(0, |byte, (index, i)| byte | index << (8 - bits * (i + 1)))
        };
        out.extend(self.indices.chunks(8 / bits).map(byte));
    }

    /// Colours, and a byte for each index: for Zstandard, which finds repeated runs in bytes.
    pub(super) fn spread(&self, out: &mut Vec<u8>) {
        self.put_colours(out);
        out.extend_from_slice(&self.indices);
    }

    fn put_colours(&self, out: &mut Vec<u8>) {
        self.colours.iter().for_each(|&colour| out.put_colour(colour));
    }
}

fn find(slots: &mut [(u32, u8); SLOTS], colours: &mut Vec<u32>, pixel: u32, most: usize) -> Option<u8> {
    let mut at = (pixel.wrapping_mul(0x9e37_79b1) >> 22) as usize;
    // A quarter of the slots is used at most: the search ends.
    while slots[at].0 != pixel {
        if slots[at].0 == FREE {
            if colours.len() == most {
                return None;
            }
            slots[at] = (pixel, colours.len().saturated());
            colours.push(pixel);
            break;
        }
        at = (at + 1) % SLOTS;
    }
    Some(slots[at].1)
}

const SLOTS: usize = 1 << 10;
/// Pixels that are compared with the last one together.
const AT_ONCE: usize = 8;
/// No pixel: its highest byte is never used.
const FREE: u32 = u32::MAX;
