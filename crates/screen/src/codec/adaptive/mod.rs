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

use core::cell::Cell;

use self::chances::ModelChances;
#[cfg(feature = "encode")]
pub(super) use self::coder::CodeRoom;
use self::coder::{DecisionCoder, DecisionReader};

/// What is learnt of a rectangle.
pub(super) struct PixelModel {
    /// What followed the same surroundings last, by these.
    memories: [Box<[PixelMemory; PLACES]>; SURROUNDINGS],
    /// Tells what was learnt of this rectangle from what is left of others: the highest byte of each memory.
    turn: u32,
    /// The index above the next pixel of each column, and in the upper byte the one above that: a column of
    /// zeros, those of the rectangle, and two of zeros.
    columns: Vec<u16>,
    colours: ColourIndex,
    chances: ModelChances,
    /// The index of what lies around, and the colour that was spelt last.
    paper: u8,
    last: u32,
}

/// What came last, and whether to trust that: how often it was right lately in the lowest byte, the index in
/// the next one, then what tells these surroundings from others in the same place, and of which rectangle it
/// is.
#[derive(Clone, Copy)]
struct PixelMemory(u32);

/// Pixels of a row: what an encoder knows, or where a decoder paints.
trait PixelRow {
    /// How many of the next `most` from column `x` on have this index, as far as that is known.
    fn run(&self, x: usize, most: usize, index: u8) -> usize;

    /// The index of a pixel, if it is known; otherwise any.
    fn index(&self, x: usize) -> u8;

    /// So many pixels from column `x` on have this colour.
    fn paint(&mut self, x: usize, length: usize, colour: u32);
}

/// The colours so far.
struct ColourIndex {
    /// By their indices, and how many there are.
    colours: [u32; 256],
    count: usize,
    /// Where they stand in the slots.
    places: [usize; 256],
    /// Open addressing: a colour and its index.
    slots: Box<[(u32, u8); SLOTS]>,
}

/// Where surroundings are remembered, and what the upper half of a memory of them is.
#[derive(Clone, Copy)]
struct MemoryPlace {
    place: usize,
    mark: u32,
}

/// A pixel's neighbours, a byte each: left above, above, right above, and one, two and three to the left, the
/// first least significant.
#[derive(Clone, Copy)]
struct Neighbours(u64);

impl PixelModel {
    pub(super) fn new() -> Self {
        Self {
            memories: core::array::from_fn(|_| Box::new([PixelMemory(0); PLACES])),
            turn: 0,
            columns: Vec::new(),
            colours: ColourIndex::new(),
            chances: ModelChances::new(),
            paper: 0,
            last: 0,
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
        let _ = self.walk(&mut writer, width, indices.chunks_exact(width), colours);
        let rows;
        (*code, rows) = writer.finish();
        rows
    }

    /// The pixels of a rectangle of so many columns, as many as `out` has. `None` unless `code` is what an
    /// encoder makes of some pixels.
    pub(super) fn decode(&mut self, width: usize, code: &[u8], out: &mut [u32]) -> Option<()> {
        let mut reader = DecisionReader::new(code);
        self.walk(&mut reader, width, out.chunks_exact_mut(width), &[])?;
        // DT-79.
        reader.is_exact().then_some(())
    }

    /// All decisions of a rectangle, row by row; an encoder knows the colours. `None` when a reader has read
    /// what no writer writes.
    fn walk<C: DecisionCoder, R: PixelRow>(
        &mut self,
        coder: &mut C,
        width: usize,
        rows: impl Iterator<Item = R>,
        known: &[u32],
    ) -> Option<()> {
        self.clear(width);
        self.last = self.chances.colour(coder, 0, 0, known.first().copied().unwrap_or(0));
        self.paper = self.colours.index(self.last)?;
        let mut columns = core::mem::take(&mut self.columns);
        let cells = Cell::from_mut(&mut columns[..]).as_slice_of_cells();
        let done = rows.enumerate().try_for_each(|(y, mut row)| {
            self.walk_row(coder, width, &mut row, cells, known)?;
            coder.goes_on(y + 1).then_some(())
        });
        self.columns = columns;
        done
    }

    fn walk_row<C: DecisionCoder, R: PixelRow>(
        &mut self,
        coder: &mut C,
        width: usize,
        row: &mut R,
        columns: &[Cell<u16>],
        known: &[u32],
    ) -> Option<()> {
        // Each as long as the row, which spares a look at its length for each pixel.
        let (north, far_east) = (&columns[1..][..width], &columns[3..][..width]);
        let mut around = Neighbours(0).skip(0, &columns[1..]);
        let mut x = 0;
        while x < width {
            let mut not = NONE;
            if around.is_flat() {
                let paper = around.west();
                let most = 1 + run_above(&columns[x + 3..][..width - 1 - x], paper);
                let length = row.run(x, most, paper);
                let twice = north[x].get() >> 8 == u16::from(paper);
                let length = self.chances.length(coder, most, twice, length)?;
                row.paint(x, length, self.colours.colours[usize::from(paper)]);
                // What is above is the same.
                north[x..][..length].iter().for_each(|column| column.set(u16::from(paper) * 0x101));
                self.paper = paper;
                x += length;
                if x >= width {
                    break;
                }
                around = around.skip(length, &columns[x + 1..]);
                if length == most {
                    continue;
                }
                not = paper.into();
            }
            let above = north[x].get();
            let index = self.pixel(coder, around, above, not, row.index(x), known)?;
            row.paint(x, 1, self.colours.colours[usize::from(index)]);
            north[x].set(above << 8 | u16::from(index));
            around = around.next(index, far_east[x].get());
            x += 1;
        }
        Some(())
    }

    /// A pixel that is not `not`: its index, which an encoder knows.
    #[inline]
    fn pixel<C: DecisionCoder>(
        &mut self,
        coder: &mut C,
        around: Neighbours,
        above: u16,
        not: u16,
        index: u8,
        known: &[u32],
    ) -> Option<u8> {
        let six = around.six(above, self.turn);
        let memory = self.memories[0][six.place];
        if !memory.answers(six, [not, NONE]) {
            return self.surprise(coder, around, six, [not, NONE], index, known);
        }
        if coder.decide(self.chances.right(0, memory, around), memory.index() == index) {
            self.memories[0][six.place] = memory.confirmed();
            return Some(memory.index());
        }
        self.surprise(coder, around, six, [not, memory.index().into()], index, known)
    }

    /// A pixel that is none of `wrong`, and of which the first memory knows nothing else.
    fn surprise<C: DecisionCoder>(
        &mut self,
        coder: &mut C,
        around: Neighbours,
        six: MemoryPlace,
        wrong: [u16; 2],
        index: u8,
        known: &[u32],
    ) -> Option<u8> {
        // Those that were asked learn, and the others need not: they would hardly say more.
        let (two, three) = (around.two(self.turn), around.three(self.turn));
        let index = 'found: {
            let memory = self.memories[1][two.place];
            let mut third = NONE;
            if memory.answers(two, wrong) {
                if coder.decide(self.chances.right(1, memory, around), memory.index() == index) {
                    break 'found memory.index();
                }
                third = memory.index().into();
            }
            let memory = self.memories[2][three.place];
            let is_right = memory.answers(three, wrong)
                && u16::from(memory.index()) != third
                && coder.decide(self.chances.right(2, memory, around), memory.index() == index);
            let found = if is_right { memory.index() } else { self.spell(coder, around, index, known)? };
            self.memories[2][three.place].learn(three, found);
            found
        };
        self.memories[1][two.place].learn(two, index);
        self.memories[0][six.place].learn(six, index);
        Some(index)
    }

    /// A pixel of which no memory knew the colour.
    fn spell<C: DecisionCoder>(
        &mut self,
        coder: &mut C,
        around: Neighbours,
        index: u8,
        known: &[u32],
    ) -> Option<u8> {
        let colour = known.get(usize::from(index)).copied().unwrap_or(0);
        let colour_of = |index: u8| self.colours.colours[usize::from(index)];
        let near = around.near().into_iter().find(|&near| near != self.paper).map_or(self.last, colour_of);
        self.last = self.chances.colour(coder, colour_of(self.paper), near, colour);
        self.colours.index(self.last)
    }

    fn clear(&mut self, width: usize) {
        self.turn = self.turn % 255 + 1;
        if self.turn == 1 {
            self.memories.iter_mut().for_each(|memories| memories.fill(PixelMemory(0)));
        }
        self.columns.clear();
        self.columns.resize(width + 3, 0);
        self.colours.clear();
        self.chances = ModelChances::new();
    }
}

/// What is known when something is written.
impl PixelRow for &[u8] {
    #[inline]
    fn run(&self, x: usize, most: usize, index: u8) -> usize {
        let indices = &self[x..][..most];
        // Sixteen at a time, which a processor compares at once.
        let same = indices.chunks_exact(16).take_while(|indices| **indices == [index; 16]).count() * 16;
        same + indices[same..].iter().take_while(|&&other| other == index).count()
    }

    #[inline]
    fn index(&self, x: usize) -> u8 {
        self[x]
    }

    #[inline]
    fn paint(&mut self, _: usize, _: usize, _: u32) {}
}

/// What is made of what is read.
impl PixelRow for &mut [u32] {
    #[inline]
    fn run(&self, _: usize, _: usize, _: u8) -> usize {
        0
    }

    #[inline]
    fn index(&self, _: usize) -> u8 {
        0
    }

    #[inline]
    fn paint(&mut self, x: usize, length: usize, colour: u32) {
        self[x..][..length].fill(colour);
    }
}

impl PixelMemory {
    fn new(at: MemoryPlace, index: u8) -> Self {
        Self(at.mark << 16 | u32::from(index) << 8 | 1)
    }

    fn sure(self) -> u32 {
        self.0 & 0xff
    }

    fn index(self) -> u8 {
        (self.0 >> 8 & 0xff) as u8
    }

    /// It is of this place, and says something that is not wrong.
    #[inline]
    fn answers(self, at: MemoryPlace, wrong: [u16; 2]) -> bool {
        self.0 >> 16 == at.mark && !wrong.contains(&self.index().into())
    }

    /// What is left of it when it was right.
    #[inline]
    fn confirmed(self) -> Self {
        Self(self.0 + u32::from(self.sure() < SUREST))
    }

    fn learn(&mut self, at: MemoryPlace, index: u8) {
        let (is_here, sure) = (self.0 >> 16 == at.mark, self.sure());
        *self = if is_here && self.index() == index {
            self.confirmed()
        } else if is_here && sure > 1 {
            Self(self.0 - sure + sure / 2)
        } else {
            Self::new(at, index)
        };
    }
}

impl ColourIndex {
    fn new() -> Self {
        Self { colours: [0; 256], count: 0, places: [0; 256], slots: Box::new([(FREE, 0); SLOTS]) }
    }

    fn clear(&mut self) {
        for &place in &self.places[..self.count] {
            self.slots[place] = (FREE, 0);
        }
        self.count = 0;
    }

    /// The index of a colour, which is a new one if it was not there. `None` when there are too many.
    fn index(&mut self, colour: u32) -> Option<u8> {
        let mut at = (colour.wrapping_mul(0x9e37_79b1) >> 22) as usize;
        // A quarter of the slots is used at most: the search ends.
        while self.slots[at].0 != colour {
            if self.slots[at].0 == FREE {
                // DT-79.
                let index = u8::try_from(self.count).ok()?;
                self.colours[self.count] = colour;
                self.places[self.count] = at;
                self.count += 1;
                self.slots[at] = (colour, index);
                return Some(index);
            }
            at = (at + 1) % SLOTS;
        }
        Some(self.slots[at].1)
    }
}

impl Neighbours {
    /// Neighbours the pixel so many further, where all up to there was of one colour; `columns` begin with
    /// that of the pixel.
    fn skip(self, length: usize, columns: &[Cell<u16>]) -> Self {
        let paper = u64::from(self.west());
        // With what is left of them at both ends, and the same in between.
        let west = match length {
            0 => self.0 & 0xffff_ff00_0000,
            1 => (self.0 & 0xff_0000_0000) << 8 | (paper * 0x01_0100_0000),
            _ => paper * 0x0101_0100_0000,
        };
        let [north, east] = [0, 1].map(|n| u64::from(columns[n].get() & 0xff));
        Self(west | east << 16 | north << 8 | paper)
    }

    /// Neighbours the next pixel, with what stands above the one behind that.
    #[inline]
    fn next(self, index: u8, east: u16) -> Self {
        let west = (self.0 & 0xff_ff00_0000) << 8 | u64::from(index) << 24;
        Self(west | u64::from(east & 0xff) << 16 | self.0 >> 8 & 0xffff)
    }

    /// The pixel to the left.
    fn west(self) -> u8 {
        (self.0 >> 24 & 0xff) as u8
    }

    /// The pixel above.
    fn north(self) -> u8 {
        (self.0 >> 8 & 0xff) as u8
    }

    /// The pixel to the left, that above, and those to the right and left of that.
    fn near(self) -> [u8; 4] {
        [self.west(), self.north(), (self.0 >> 16 & 0xff) as u8, (self.0 & 0xff) as u8]
    }

    /// Those to the left and above are of one colour.
    #[inline]
    fn is_flat(self) -> bool {
        let four = (self.0 & 0xffff_ffff) as u32;
        four == four.rotate_left(8)
    }

    /// Where five of these and one more, in the upper byte of `above`, are remembered.
    #[inline]
    fn six(self, above: u16, turn: u32) -> MemoryPlace {
        MemoryPlace::of(self.0 & 0xff_ffff_ffff | u64::from(above >> 8) << 40, turn)
    }

    /// Where those to the left and above are.
    fn two(self, turn: u32) -> MemoryPlace {
        MemoryPlace::of(self.0 >> 24 & 0xff | self.0 & 0xff00, turn)
    }

    /// Where the three to the left are.
    fn three(self, turn: u32) -> MemoryPlace {
        MemoryPlace::of(self.0 >> 24, turn)
    }
}

impl MemoryPlace {
    #[inline]
    fn of(key: u64, turn: u32) -> Self {
        let mixed = (key + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self { place: (mixed >> 52) as usize, mark: (mixed >> 40 & 0xff) as u32 | turn << 8 }
    }
}

/// How many of the next columns have this index above.
#[inline]
fn run_above(columns: &[Cell<u16>], index: u8) -> usize {
    let index = u16::from(index);
    let is_same = |columns: &[Cell<u16>]| {
        columns.iter().fold(0, |all, column| all | ((column.get() ^ index) & 0xff)) == 0
    };
    // Sixteen at a time, which a processor compares at once.
    let same = columns.chunks_exact(16).take_while(|columns| is_same(columns)).count() * 16;
    same + columns[same..].iter().take_while(|column| column.get() & 0xff == index).count()
}

/// By so many kinds of surroundings pixels are remembered.
const SURROUNDINGS: usize = 3;
/// As many as 12 bits say.
const PLACES: usize = 1 << 12;
/// What a memory that was right has at most.
const SUREST: u32 = 7;
/// No index.
const NONE: u16 = u16::MAX;
const SLOTS: usize = 1 << 10;
/// No colour: its highest byte is never used.
const FREE: u32 = u32::MAX;
