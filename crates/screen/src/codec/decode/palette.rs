//! Colours and indices off the wire.

use super::super::{MAX_COLOURS, index_bits};
use crate::message::FieldReader;

/// How many bytes a packed palette has of `colours` and `area` pixels.
pub(super) fn packed_len(colours: usize, area: usize) -> usize {
    3 * colours + (area * index_bits(colours)).div_ceil(8)
}

/// Reads colours and packed indices, as many bytes as [`packed_len`] says.
pub(super) fn unpack(packed: &[u8], count: usize, area: usize, out: &mut Vec<u32>) -> Option<()> {
    let bits = index_bits(count);
    let (colours, indices) = packed.split_at_checked(3 * count)?;
    let colours = Colours::read(colours);
    let mask = (1u16 << bits) - 1;
    // DT-22: an index beyond the colours finds none.
    let pixels = indices.iter().flat_map(|&byte| {
        (0..8 / bits).map(move |i| (u16::from(byte) >> (8 - bits * (i + 1)) & mask) as usize)
    });
    pixels.take(area).try_for_each(|index| colours.get(index, out))
}

/// Reads colours, and a byte for each index.
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
