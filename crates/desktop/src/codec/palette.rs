//! Colours and indices.

use quickset_base::number::Unsigned as _;

use super::MAX_COLOURS;
use crate::message::{FieldReader, PutFields};

/// The colours of a rectangle, in the order of their first use, and the index of each pixel.
pub(super) struct RectanglePalette {
    /// Open addressing: a colour and its index in one slot.
    slots: Box<[(u32, u8); SLOTS]>,
    colours: Vec<u32>,
    indices: Vec<u8>,
}

impl RectanglePalette {
    pub(super) fn new() -> Self {
        Self { slots: Box::new([(FREE, 0); SLOTS]), colours: Vec::new(), indices: Vec::new() }
    }

    /// Counts the colours of some rows. False as soon as there are too many, after a look at as few pixels as
    /// that takes.
    pub(super) fn count<'a>(&mut self, rows: impl Iterator<Item = &'a [u32]>) -> bool {
        self.slots.fill((FREE, 0));
        self.colours.clear();
        self.indices.clear();
        // Most pixels of a desktop are as their neighbour on the left.
        let (mut last, mut index) = (FREE, 0);
        for row in rows {
            let start = self.indices.len();
            self.indices.resize(start + row.len(), 0);
            for (pixel, place) in row.iter().zip(&mut self.indices[start..]) {
                if *pixel != last {
                    let Some(found) = find(&mut self.slots, &mut self.colours, *pixel) else { return false };
                    (last, index) = (*pixel, found);
                }
                *place = index;
            }
        }
        true
    }

    pub(super) fn colours(&self) -> &[u32] {
        &self.colours
    }

    /// How long [`pack`](Self::pack) will be.
    pub(super) fn packed_len(&self) -> usize {
        3 * self.colours.len() + (self.indices.len() * bits(self.colours.len())).div_ceil(8)
    }

    /// Colours, and indices in as few bits as will do.
    pub(super) fn pack(&self, out: &mut Vec<u8>) {
        self.put_colours(out);
        let bits = bits(self.colours.len());
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

fn find(slots: &mut [(u32, u8); SLOTS], colours: &mut Vec<u32>, pixel: u32) -> Option<u8> {
    let mut at = (pixel.wrapping_mul(0x9e37_79b1) >> 24) as usize;
    // A third of the slots is used at most: the search ends.
    while slots[at].0 != pixel {
        if slots[at].0 == FREE {
            if colours.len() == MAX_COLOURS {
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

/// Bits of an index; `spec/desktop.md` §6.
fn bits(colours: usize) -> usize {
    match colours {
        0..=2 => 1,
        3..=4 => 2,
        5..=16 => 4,
        _ => 8,
    }
}

/// How many bytes [`RectanglePalette::pack`] has made of `colours` and `area` pixels.
pub(super) fn packed_len(colours: usize, area: usize) -> usize {
    3 * colours + (area * bits(colours)).div_ceil(8)
}

/// Reads what [`RectanglePalette::pack`] has written; as many bytes as [`packed_len`] says.
pub(super) fn unpack(packed: &[u8], count: usize, area: usize, out: &mut Vec<u32>) -> Option<()> {
    let bits = bits(count);
    let (colours, indices) = packed.split_at_checked(3 * count)?;
    let colours = Colours::read(colours);
    let mask = (1u16 << bits) - 1;
    // DT-22: an index beyond the colours finds none.
    let pixels = indices.iter().flat_map(|&byte| {
        (0..8 / bits).map(move |i| (u16::from(byte) >> (8 - bits * (i + 1)) & mask) as usize)
    });
    pixels.take(area).try_for_each(|index| colours.get(index, out))
}

/// Reads what [`RectanglePalette::spread`] has written.
pub(super) fn gather(spread: &[u8], count: usize, out: &mut Vec<u32>) -> Option<()> {
    let (colours, indices) = spread.split_at_checked(3 * count)?;
    let colours = Colours::read(colours);
    indices.iter().try_for_each(|&index| colours.get(index.into(), out))
}

struct Colours([u32; MAX_COLOURS], usize);

impl Colours {
    fn read(bytes: &[u8]) -> Self {
        let mut colours = [0; MAX_COLOURS];
        let mut fields = FieldReader::new(bytes, "a palette");
        let mut count = 0;
        while let (Some(place), Ok(colour)) = (colours.get_mut(count), fields.colour()) {
            *place = colour;
            count += 1;
        }
        Self(colours, count)
    }

    fn get(&self, index: usize, out: &mut Vec<u32>) -> Option<()> {
        if index >= self.1 {
            return None;
        }
        out.push(self.0[index]);
        Some(())
    }
}

const SLOTS: usize = 256;
/// No pixel: its highest byte is never used.
const FREE: u32 = u32::MAX;
