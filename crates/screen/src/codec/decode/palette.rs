//! Colours and indices off the wire.

use super::super::index_bits;
use crate::message::FieldReader;

/// How many bytes a packed palette has of `colours` and `area` pixels.
pub(super) fn packed_len(colours: usize, area: usize) -> usize {
    3 * colours + (area * index_bits(colours)).div_ceil(8)
}

/// Reads colours and packed indices, as many bytes as [`packed_len`] says, and appends `area` pixels. `None`
/// when an index is beyond the colours.
pub(super) fn unpack(packed: &[u8], count: usize, area: usize, out: &mut Vec<u32>) -> Option<()> {
    if index_bits(count) == 8 {
        return gather(packed, count, out);
    }
    let (colours, indices) = packed.split_at_checked(3 * count)?;
    let colours = read(colours);
    let start = out.len();
    out.resize(start + area, 0);
    let pixels = &mut out[start..];
    let highest = match index_bits(count) {
        1 => spread::<1>(indices, &colours, pixels),
        2 => spread::<2>(indices, &colours, pixels),
        _ => spread::<4>(indices, &colours, pixels),
    };
    // DT-22.
    (usize::from(highest) < count).then_some(())
}

/// Reads colours, and a byte for each index, and appends the pixels. `None` when an index is beyond the
/// colours.
pub(super) fn gather(spread: &[u8], count: usize, out: &mut Vec<u32>) -> Option<()> {
    let (colours, indices) = spread.split_at_checked(3 * count)?;
    // DT-22: all of them first, which takes a few instructions for sixteen.
    let highest = indices.iter().fold(0, |highest, &index| index.max(highest));
    if usize::from(highest) >= count {
        return None;
    }
    let colours = read(colours);
    out.extend(indices.iter().map(|&index| colours[usize::from(index)]));
    Some(())
}

/// Sets pixels by indices of so many bits, and returns the highest of these.
fn spread<const BITS: usize>(indices: &[u8], colours: &PaletteColours, pixels: &mut [u32]) -> u8 {
    let (each, mask) = (8 / BITS, u8::MAX >> (8 - BITS));
    let mut highest = 0;
    let mut put = |pixel: &mut u32, index: u8| {
        highest = index.max(highest);
        *pixel = colours[usize::from(index)];
    };
    let mut whole = pixels.chunks_exact_mut(each);
    let mut indices = indices.iter();
    for (pixels, byte) in whole.by_ref().zip(indices.by_ref()) {
        for (pixel, i) in pixels.iter_mut().zip(1..) {
            put(pixel, byte >> (8 - BITS * i) & mask);
        }
    }
    // The bits behind the last pixel are no indices.
    let rest = whole.into_remainder();
    for (pixel, i) in rest.iter_mut().zip(1..) {
        put(pixel, indices.as_slice().first().map_or(0, |byte| byte >> (8 - BITS * i) & mask));
    }
    highest
}

/// One for each byte, so that none has to be checked on the way; those beyond the palette are black.
type PaletteColours = [u32; 256];

fn read(bytes: &[u8]) -> PaletteColours {
    let mut colours = [0; 256];
    let mut fields = FieldReader::new(bytes, "a palette");
    for place in &mut colours {
        let Ok(colour) = fields.colour() else { break };
        *place = colour;
    }
    colours
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `spec/desktop.md` §6, bit by bit.
    fn model(bits: usize, bytes: &[u8], colours: &[u32], area: usize) -> Option<Vec<u32>> {
        let bit = |at: usize| usize::from(bytes[at / 8] >> (7 - at % 8) & 1);
        (0..area)
            .map(|i| {
                colours.get((i * bits..(i + 1) * bits).fold(0, |index, at| index << 1 | bit(at))).copied()
            })
            .collect()
    }

    proptest! {
        /// As many colours as there are, and one index that may be beyond them.
        #[test]
        fn pixels_are_what_the_specification_says(
            count in prop::sample::select(vec![2usize, 3, 4, 5, 7, 15, 16, 17, 40, 95, 96]),
            area in 1usize..70,
            seed in prop::collection::vec(any::<u8>(), 70),
            other in any::<prop::sample::Index>(),
            index: u8,
        ) {
            // DT-22.
            let bits = match count {
                2 => 1,
                3..=4 => 2,
                5..=16 => 4,
                _ => 8,
            };
            let mut indices: Vec<u8> = seed[..area].iter().map(|n| n % count as u8).collect();
            indices[other.index(area)] = index & (u8::MAX >> (8 - bits));
            let colours: Vec<u32> = (0..count as u32).map(|n| n * 0x02_0301 + 5).collect();
            let head: Vec<u8> = colours.iter().flat_map(|colour| colour.to_be_bytes()[1..].to_vec()).collect();
            // The bits behind the last index are ones: they are to be passed over.
            let mut packed = vec![0xff; (area * bits).div_ceil(8)];
            for (at, index) in indices.iter().enumerate() {
                for bit in (0..bits).filter(|bit| index >> (bits - 1 - bit) & 1 == 0) {
                    packed[(at * bits + bit) / 8] &= !(0x80 >> ((at * bits + bit) % 8));
                }
            }
            let expected = model(bits, &packed, &colours, area);
            let mut found = vec![9];
            let read = unpack(&[&head[..], &packed].concat(), count, area, &mut found);
            prop_assert_eq!(read.map(|()| found[1..].to_vec()), expected);
            prop_assert_eq!(packed_len(count, area), head.len() + packed.len());
            let expected = model(8, &indices, &colours, area);
            let mut found = vec![9];
            let read = gather(&[&head[..], &indices].concat(), count, &mut found);
            prop_assert_eq!(read.map(|()| found[1..].to_vec()), expected);
        }
    }
}
