//! Pixels of few colours by what surrounds them, for an arithmetic coder: text takes half of what Zstandard
//! makes of it, since letters repeat in two dimensions.
//!
//! *In:* the colours of a rectangle and the index of each pixel; or a code off the wire. *Out:* the code; or
//! pixels. Both ends go through the same decisions ([`PixelModel::walk`]), and learn from each how likely the
//! next is. Where all around a pixel is of one colour, one decision says that this goes on as far as the row
//! above does; any other pixel is compared with what followed the same surroundings last, and is spelt out
//! when that is wrong. Nothing is kept from one rectangle to the next. Invariants: a decoder makes at most
//! some decisions for each pixel, whatever comes; its memory depends on the size of the rectangle alone.
//!
//! Source: `spec/desktop.md` §6, ADAPTIVE.

mod chances;
mod coder;
#[cfg(test)]
#[cfg(feature = "encode")]
mod tests;

use self::chances::ModelChances;
#[cfg(feature = "encode")]
pub(super) use self::coder::CodeRoom;
use self::coder::{DecisionCoder, DecisionReader};

/// What is learnt of a rectangle.
pub(super) struct PixelModel {
    /// What followed the same surroundings last, by these.
    memories: [Box<[PixelMemory; PLACES]>; SURROUNDINGS],
    /// The indices so far: two rows of zeros, then each row between [`MARGIN`] zeros and two more.
    grid: Vec<u8>,
    colours: ColourIndex,
    chances: ModelChances,
}

/// What came last, and whether to trust that.
#[derive(Clone, Copy, Default)]
struct PixelMemory {
    /// Tells these surroundings from others in the same place.
    check: u8,
    index: u8,
    /// How often it was right lately; 0: there is nothing.
    sure: u8,
}

/// What an encoder writes.
#[derive(Clone, Copy)]
struct KnownPixels<'a> {
    indices: &'a [u8],
    colours: &'a [u32],
}

/// The colours so far.
struct ColourIndex {
    colours: Vec<u32>,
    /// Open addressing: a colour and its index.
    slots: Box<[(u32, u8); SLOTS]>,
}

/// Where surroundings of a kind are remembered, and what tells them from others there.
#[derive(Clone, Copy)]
struct MemoryPlace {
    kind: usize,
    place: usize,
    check: u8,
}

/// A pixel's neighbours.
#[derive(Clone, Copy)]
struct Neighbours {
    /// The three to the left, the nearest least significant.
    west: u32,
    /// Left above, above and right above, the first least significant.
    north: u32,
    /// Two rows above.
    far_north: u8,
}

impl PixelModel {
    pub(super) fn new() -> Self {
        Self {
            memories: core::array::from_fn(|_| Box::new([PixelMemory::default(); PLACES])),
            grid: Vec::new(),
            colours: ColourIndex { colours: Vec::new(), slots: Box::new([(FREE, 0); SLOTS]) },
            chances: ModelChances::new(),
        }
    }

    /// The code of the upper rows of a rectangle of `width` columns, in place of what is in `code`, and how
    /// many rows these are: as many as there is room for. `indices` has the index of each pixel in `colours`,
    /// which stand in the order of their first use and are 256 at most.
    #[cfg(feature = "encode")]
    pub(super) fn encode(
        &mut self,
        width: usize,
        room: CodeRoom,
        indices: &[u8],
        colours: &[u32],
        code: &mut Vec<u8>,
    ) -> usize {
        let mut writer = coder::DecisionWriter::new(core::mem::take(code), room);
        // It ends early when there is no more room.
        let _ = self.walk(&mut writer, width, indices.len() / width, Some(KnownPixels { indices, colours }));
        let rows;
        (*code, rows) = writer.finish();
        rows
    }

    /// Appends the pixels of a rectangle of so many columns and rows. `None` unless `code` is what an encoder
    /// makes of some pixels.
    pub(super) fn decode(
        &mut self,
        width: usize,
        height: usize,
        code: &[u8],
        out: &mut Vec<u32>,
    ) -> Option<()> {
        let mut reader = DecisionReader::new(code);
        self.walk(&mut reader, width, height, None)?;
        // DT-79.
        if !reader.is_exact() {
            return None;
        }
        let colours = &self.colours.colours;
        for row in self.grid.chunks_exact(stride(width)).skip(ABOVE) {
            out.extend(row[MARGIN..][..width].iter().map(|&index| colours[usize::from(index)]));
        }
        Some(())
    }

    /// All decisions of a rectangle, row by row. `None` when a reader has read what no writer writes.
    fn walk<C: DecisionCoder>(
        &mut self,
        coder: &mut C,
        width: usize,
        height: usize,
        known: Option<KnownPixels<'_>>,
    ) -> Option<()> {
        self.clear(width, height);
        let mut last = self.chances.colour(coder, 0, 0, known.map_or(0, |known| known.colours[0]));
        let mut paper = self.colours.index(last)?;
        let mut grid = core::mem::take(&mut self.grid);
        let stride = stride(width);
        for y in 0..height {
            let (before, row) = grid.split_at_mut((y + ABOVE) * stride);
            let (before, above) = before.split_at(before.len() - stride);
            let rows = [&before[before.len() - stride..], above];
            let indices = known.map(|known| &known.indices[y * width..][..width]);
            let mut x = 0;
            let mut around = Neighbours::of(rows, row, x);
            while x < width {
                let mut not = NONE;
                if around.is_flat() {
                    paper = around.west();
                    let most = 1 + run(&above[MARGIN + x + 2..=MARGIN + width], paper);
                    let length = indices.map_or(0, |indices| run(&indices[x..][..most], paper));
                    let twice = around.far_north == paper;
                    let length = self.chances.length(coder, most, twice, length)?;
                    row[MARGIN + x..][..length].fill(paper);
                    x += length;
                    around = Neighbours::of(rows, row, x);
                    if length == most {
                        continue;
                    }
                    not = paper.into();
                }
                let index = indices.map_or(0, |indices| indices[x]);
                let index = self.pixel(coder, around, not, index, |model, coder| {
                    let colour = known.map_or(0, |known| known.colours[usize::from(index)]);
                    let near = around.near().into_iter().find(|&near| near != paper);
                    let colours = &model.colours.colours;
                    let near = near.map_or(last, |near| colours[usize::from(near)]);
                    let paper = colours[usize::from(paper)];
                    last = model.chances.colour(coder, paper, near, colour);
                    model.colours.index(last)
                })?;
                row[MARGIN + x] = index;
                x += 1;
                around = around.next(index, rows, x);
            }
            if !coder.goes_on(y + 1) {
                return None;
            }
        }
        self.grid = grid;
        Some(())
    }

    /// A pixel that is not `not`: its index, which an encoder knows.
    fn pixel<C: DecisionCoder>(
        &mut self,
        coder: &mut C,
        around: Neighbours,
        not: u16,
        known: u8,
        spell: impl FnOnce(&mut Self, &mut C) -> Option<u8>,
    ) -> Option<u8> {
        // Those that were asked learn, and the others need not: they would hardly say more.
        let mut wrong = [not, NONE, NONE];
        let six = around.place(0);
        if let Some(index) = self.ask(coder, six, around, known, &mut wrong) {
            self.learn(six, index);
            return Some(index);
        }
        let two = around.place(1);
        let mut found = self.ask(coder, two, around, known, &mut wrong);
        if found.is_none() {
            let three = around.place(2);
            found = self.ask(coder, three, around, known, &mut wrong);
            if found.is_none() {
                found = Some(spell(self, coder)?);
            }
            self.learn(three, found?);
        }
        self.learn(two, found?);
        self.learn(six, found?);
        found
    }

    /// The index that a memory has at this place, if there is one that is not wrong, and it is right.
    #[inline]
    fn ask<C: DecisionCoder>(
        &mut self,
        coder: &mut C,
        at: MemoryPlace,
        around: Neighbours,
        known: u8,
        wrong: &mut [u16; SURROUNDINGS],
    ) -> Option<u8> {
        let memory = self.memories[at.kind][at.place];
        let guess = u16::from(memory.index);
        if memory.sure == 0 || memory.check != at.check || wrong.contains(&guess) {
            return None;
        }
        if let Some(next) = wrong.get_mut(at.kind + 1) {
            *next = guess;
        }
        let (is_west, is_north) = (memory.index == around.west(), memory.index == around.north());
        let chance = self.chances.right(at.kind, memory.sure.min(3), is_west, is_north);
        coder.decide(chance, known == memory.index).then_some(memory.index)
    }

    fn learn(&mut self, at: MemoryPlace, index: u8) {
        self.memories[at.kind][at.place].learn(at.check, index);
    }

    fn clear(&mut self, width: usize, height: usize) {
        self.memories.iter_mut().for_each(|memories| memories.fill(PixelMemory::default()));
        self.grid.clear();
        self.grid.resize((height + ABOVE) * stride(width), 0);
        self.colours.colours.clear();
        self.colours.slots.fill((FREE, 0));
        self.chances = ModelChances::new();
    }
}

impl PixelMemory {
    fn learn(&mut self, check: u8, index: u8) {
        if self.check == check && self.index == index && self.sure > 0 {
            self.sure = (self.sure + 1).min(SUREST);
        } else if self.check == check && self.sure > 1 {
            self.sure /= 2;
        } else {
            *self = Self { check, index, sure: 1 };
        }
    }
}

impl ColourIndex {
    /// The index of a colour, which is a new one if it was not there. `None` when there are too many.
    fn index(&mut self, colour: u32) -> Option<u8> {
        let mut at = (colour.wrapping_mul(0x9e37_79b1) >> 22) as usize;
        // A quarter of the slots is used at most: the search ends.
        while self.slots[at].0 != colour {
            if self.slots[at].0 == FREE {
                // DT-79.
                let index = u8::try_from(self.colours.len()).ok()?;
                self.colours.push(colour);
                self.slots[at] = (colour, index);
                return Some(index);
            }
            at = (at + 1) % SLOTS;
        }
        Some(self.slots[at].1)
    }
}

impl Neighbours {
    /// Neighbours the pixel in column `x` of `row`, below two other rows.
    fn of([above_that, above]: [&[u8]; 2], row: &[u8], x: usize) -> Self {
        let (west, north) = (&row[x..][..MARGIN], &above[MARGIN - 1 + x..][..3]);
        Self {
            west: u32::from_be_bytes([0, west[0], west[1], west[2]]),
            north: u32::from_le_bytes([north[0], north[1], north[2], 0]),
            far_north: above_that[MARGIN + x],
        }
    }

    /// Neighbours the one behind it, in column `x`.
    fn next(self, index: u8, [above_that, above]: [&[u8]; 2], x: usize) -> Self {
        Self {
            west: self.west << 8 & 0xff_ffff | u32::from(index),
            north: self.north >> 8 | u32::from(above[MARGIN + 1 + x]) << 16,
            far_north: above_that[MARGIN + x],
        }
    }

    /// The pixel to the left.
    fn west(self) -> u8 {
        (self.west & 0xff) as u8
    }

    /// The pixel above.
    fn north(self) -> u8 {
        (self.north >> 8 & 0xff) as u8
    }

    /// The pixel to the left, that above, and those to the right and left of that.
    fn near(self) -> [u8; 4] {
        [self.west(), self.north(), (self.north >> 16 & 0xff) as u8, (self.north & 0xff) as u8]
    }

    fn is_flat(self) -> bool {
        self.north == (self.west & 0xff) * 0x01_0101
    }

    /// Where these are remembered, as surroundings of this kind.
    fn place(self, kind: usize) -> MemoryPlace {
        let key = match kind {
            0 => {
                let [west, north] = [self.west & 0xffff, self.north].map(u64::from);
                north | west << 24 | u64::from(self.far_north) << 40
            }
            1 => u64::from(self.west & 0xff | self.north & 0xff00),
            _ => u64::from(self.west),
        };
        let mixed = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        MemoryPlace { kind, place: (mixed >> 52) as usize, check: (mixed >> 40 & 0xff) as u8 }
    }
}

/// How many of `indices` are `index` before another is.
fn run(indices: &[u8], index: u8) -> usize {
    // Sixteen at a time, which a processor compares at once.
    let same = indices.chunks_exact(16).take_while(|indices| **indices == [index; 16]).count() * 16;
    same + indices[same..].iter().take_while(|&&other| other == index).count()
}

/// From one row of the grid to the next.
fn stride(width: usize) -> usize {
    MARGIN + width + 2
}

/// By so many kinds of surroundings pixels are remembered.
const SURROUNDINGS: usize = 3;
/// As many as 12 bits say.
const PLACES: usize = 1 << 12;
/// What a memory that was right has at most.
const SUREST: u8 = 7;
/// Columns of index 0 to the left of a row.
const MARGIN: usize = 3;
/// Rows of it above the first.
const ABOVE: usize = 2;
/// No index.
const NONE: u16 = u16::MAX;
const SLOTS: usize = 1 << 10;
/// No colour: its highest byte is never used.
const FREE: u32 = u32::MAX;
