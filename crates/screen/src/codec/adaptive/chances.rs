//! How the numbers of a code become decisions.

use super::coder::{Chance, DecisionCoder};
use super::{Neighbours, PixelMemory, SURROUNDINGS};

/// How likely decisions are.
pub(super) struct ModelChances {
    /// That one colour goes on to the end: by the number of bits of the length, and whether it is the colour
    /// of the pixel two rows above too.
    whole: [[Chance; 2]; 17],
    /// Of how far it goes on otherwise, for lengths up to 15 and above: the number of bits, and the two that
    /// follow the first of them.
    bits: [[Chance; 16]; 2],
    second: [[Chance; 16]; 2],
    third: [[Chance; 16]; 2],
    /// That a memory is right: how sure it is, and whether it says what is to the left, and what is above.
    right: [[Chance; 16]; SURROUNDINGS],
    /// That a colour is the last that had its green; and that red and blue are what a line makes expected.
    again: Chance,
    expected: Chance,
    /// The last colour with each green; [`NO_COLOUR`] where there was none.
    latest: [u32; 256],
    /// Green, and red and blue beyond what was expected.
    parts: [[Chance; 256]; 3],
}

impl ModelChances {
    pub(super) const fn new() -> Self {
        Self {
            whole: [[Chance::EVEN; 2]; 17],
            bits: [[Chance::EVEN; 16]; 2],
            second: [[Chance::EVEN; 16]; 2],
            third: [[Chance::EVEN; 16]; 2],
            right: [[Chance::EVEN; 16]; SURROUNDINGS],
            again: Chance::EVEN,
            expected: Chance::EVEN,
            latest: [NO_COLOUR; 256],
            parts: [[Chance::EVEN; 256]; 3],
        }
    }

    /// That a memory of the n-th kind of surroundings is right.
    #[inline]
    pub(super) fn right(&mut self, n: usize, memory: PixelMemory, around: Neighbours) -> &mut Chance {
        let (is_w, is_n) = (memory.index() == around.west(), memory.index() == around.north());
        let of = memory.sure().min(3) | u32::from(is_w) << 2 | u32::from(is_n) << 3;
        &mut self.right[n][of as usize & 15]
    }

    /// How far a colour goes on, at most `most` pixels. `None` when what was read is more.
    pub(super) fn length<C: DecisionCoder>(
        &mut self,
        coder: &mut C,
        most: usize,
        twice: bool,
        length: usize,
    ) -> Option<usize> {
        let whole = &mut self.whole[most.checked_ilog2()? as usize][usize::from(twice)];
        if coder.decide(whole, length == most) {
            return Some(most);
        }
        // A number from 1: how many bits follow its first, and these.
        let (class, number) = (usize::from(most > 15), length + 1);
        let bits = coder.tree(&mut self.bits[class], number.checked_ilog2()? as usize);
        let mut read = 1;
        for n in 0..bits {
            let yes = number >> (bits - 1 - n) & 1 == 1;
            let mut even = Chance::EVEN;
            let chance = match n {
                0 => &mut self.second[class][bits],
                1 => &mut self.third[class][bits],
                _ => &mut even,
            };
            read = read << 1 | usize::from(coder.decide(chance, yes));
        }
        // DT-79.
        Some(read - 1).filter(|&length| length < most)
    }

    /// A colour, on a line between the colour of the paper and one near it if it is one of a soft edge.
    pub(super) fn colour<C: DecisionCoder>(
        &mut self,
        coder: &mut C,
        paper: u32,
        near: u32,
        colour: u32,
    ) -> u32 {
        let [_, red, green, blue] = colour.to_be_bytes();
        let [_, paper_red, paper_green, paper_blue] = paper.to_be_bytes().map(i32::from);
        let [_, near_red, near_green, near_blue] = near.to_be_bytes().map(i32::from);
        let [greens, reds, blues] = &mut self.parts;
        let green = byte(coder, greens, green);
        let latest = self.latest[usize::from(green)];
        if latest != NO_COLOUR && coder.decide(&mut self.again, colour == latest) {
            return latest;
        }
        let along = i32::from(green) - paper_green;
        let line = near_green - paper_green;
        let expect = |paper: i32, near: i32| {
            let expected = paper + if line == 0 { along } else { along * (near - paper) / line };
            u8::try_from(expected.clamp(0, 255)).unwrap_or(u8::MAX)
        };
        let (mut more_red, mut more_blue) = (expect(paper_red, near_red), expect(paper_blue, near_blue));
        if !coder.decide(&mut self.expected, (red, blue) == (more_red, more_blue)) {
            let mut beyond = |chances, known: u8, expected: &mut u8| {
                let beyond = byte(coder, chances, known.wrapping_sub(*expected));
                *expected = expected.wrapping_add(beyond);
            };
            beyond(reds, red, &mut more_red);
            beyond(blues, blue, &mut more_blue);
        }
        let colour = u32::from_be_bytes([0, more_red, green, more_blue]);
        self.latest[usize::from(green)] = colour;
        colour
    }
}

/// No pixel: its highest byte is never used.
const NO_COLOUR: u32 = u32::MAX;

/// A number of eight bits.
fn byte<C: DecisionCoder>(coder: &mut C, chances: &mut [Chance; 256], number: u8) -> u8 {
    // It has no more.
    u8::try_from(coder.tree(chances, number.into())).unwrap_or(u8::MAX)
}
