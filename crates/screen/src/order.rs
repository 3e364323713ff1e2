//! Cells of a screen and their versions: the rules of the order latest, `spec/desktop.md` §7.
//!
//! Both ends keep [`CellValues`] of the same grid, so that a sum over some of them says whether they agree.

use core::fmt;

use quickset_rfb::Rect;

/// A value for each cell of a screen.
#[derive(Clone)]
pub(crate) struct CellValues<T> {
    width: u16,
    height: u16,
    values: Vec<T>,
}

impl<T: Copy + Default> CellValues<T> {
    /// For a screen of no pixels.
    pub(crate) fn new() -> Self {
        Self { width: 0, height: 0, values: Vec::new() }
    }

    /// For a screen of this size; cells that are in both sizes keep their value (DT-31).
    pub(crate) fn resize(&mut self, width: u16, height: u16) {
        let [columns, old_columns] = [width, self.width].map(|width| usize::from(width.div_ceil(CELL)));
        let mut values = vec![T::default(); columns * usize::from(height.div_ceil(CELL))];
        if columns > 0 && old_columns > 0 {
            let kept = columns.min(old_columns);
            for (to, from) in values.chunks_exact_mut(columns).zip(self.values.chunks_exact(old_columns)) {
                to[..kept].copy_from_slice(&from[..kept]);
            }
        }
        *self = Self { width, height, values };
    }

    pub(crate) fn fill(&mut self, value: T) {
        self.values.fill(value);
    }

    /// The cells that `rect` meets, in reading order, as their places and what of the screen they cover.
    pub(crate) fn meeting(&self, rect: Rect) -> impl Iterator<Item = (usize, Rect)> + use<T> {
        let rect = Rect::sized(self.width, self.height).intersection(rect);
        let (width, height, columns) = (self.width, self.height, usize::from(self.width.div_ceil(CELL)));
        let (xs, ys) = if rect.is_empty() {
            (0..0, 0..0)
        } else {
            (
                rect.left() / CELL..(rect.right() - 1) / CELL + 1,
                rect.top() / CELL..(rect.bottom() - 1) / CELL + 1,
            )
        };
        ys.flat_map(move |y| xs.clone().map(move |x| (x, y))).map(move |(x, y)| {
            let (left, top) = (x * CELL, y * CELL);
            let cell = Rect::between(left, top, (left + CELL).min(width), (top + CELL).min(height));
            (usize::from(y) * columns + usize::from(x), cell)
        })
    }

    pub(crate) fn get(&self, place: usize) -> T {
        self.values[place]
    }

    pub(crate) fn set(&mut self, place: usize, value: T) {
        self.values[place] = value;
    }
}

/// Thousands of numbers tell nobody anything.
impl<T> fmt::Debug for CellValues<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cells({}x{})", self.width, self.height)
    }
}

impl CellValues<u64> {
    /// DT-33: the sum of all versions that a copy depends on.
    pub(crate) fn sum(&self, from: Rect, to: Rect) -> u64 {
        self.needed(from, to).fold(0, |sum, place| mix(sum ^ self.get(place)))
    }

    /// DT-33: the places of the cells that a copy depends on, in its order.
    pub(crate) fn needed(&self, from: Rect, to: Rect) -> impl Iterator<Item = usize> + use<> {
        let sources = self.meeting(from).map(|(place, _)| place);
        sources.chain(self.cut(to))
    }

    /// The places of the cells that `rect` meets and does not cover, in reading order.
    pub(crate) fn cut(&self, rect: Rect) -> impl Iterator<Item = usize> + use<> {
        self.meeting(rect).filter(move |&(_, cell)| !rect.contains(cell)).map(|(place, _)| place)
    }
}

/// `spec/desktop.md` §7.
fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// `rect` widened to whole cells, within `bounds` (DT-30).
pub(crate) fn whole_cells(rect: Rect, bounds: Rect) -> Rect {
    // The right edge of a screen is at most 16384, so nothing overflows.
    let up = |n: u16| n.div_ceil(CELL).saturating_mul(CELL);
    let (left, top) = (rect.left() / CELL * CELL, rect.top() / CELL * CELL);
    bounds.intersection(Rect::between(left, top, up(rect.right()), up(rect.bottom())))
}

/// DT-30: `rect` covers every cell that it meets.
pub(crate) fn is_whole_cells(rect: Rect, bounds: Rect) -> bool {
    whole_cells(rect, bounds) == rect
}

/// The side of a cell.
pub(crate) const CELL: u16 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn rect(x: u16, y: u16, w: u16, h: u16) -> Rect {
        Rect::new(x, y, w, h).unwrap()
    }

    #[test]
    fn cells_keep_their_values_where_they_stay() {
        // DT-31.
        let mut cells = CellValues::<u64>::new();
        cells.resize(40, 33);
        let places: Vec<_> = cells.meeting(rect(0, 0, 500, 500)).collect();
        assert_eq!(places.len(), 9);
        assert_eq!(places[8], (8, Rect::between(32, 32, 40, 33)));
        for (place, _) in places {
            cells.set(place, place as u64 + 1);
        }
        cells.resize(80, 20);
        let values = |cells: &CellValues<u64>| -> Vec<u64> {
            cells.meeting(rect(0, 0, 500, 500)).map(|(place, _)| cells.get(place)).collect()
        };
        assert_eq!(values(&cells), [1, 2, 3, 0, 0, 4, 5, 6, 0, 0]);
        cells.resize(16, 48);
        assert_eq!(values(&cells), [1, 4, 0]);
        cells.resize(0, 0);
        assert_eq!(cells.meeting(rect(0, 0, 9, 9)).count(), 0);
    }

    #[test]
    fn the_sum_covers_sources_and_cut_cells() {
        // DT-33: from and to a 20-pixel square on a screen of 3 x 2 cells.
        let mut cells = CellValues::<u64>::new();
        cells.resize(48, 32);
        let (from, to) = (rect(0, 0, 16, 16), rect(16, 0, 20, 16));
        let sum = cells.sum(from, to);
        let changes = |place: usize| {
            let mut other = cells.clone();
            other.set(place, 9);
            other.sum(from, to) != sum
        };
        // The source; not the covered cell beside it; the third, which is cut; none below.
        assert_eq!([0, 1, 2, 3, 4, 5].map(changes), [true, false, true, false, false, false]);
        // The same versions in other places are another sum.
        let mut swapped = cells.clone();
        swapped.set(0, 1);
        cells.set(2, 1);
        assert_ne!(swapped.sum(from, to), cells.sum(from, to));
    }

    #[test]
    fn mixing_is_splitmix64() {
        // The published first outputs of SplitMix64 with seed 0 are mix(0), mix(0x9e37...15).
        assert_eq!(mix(0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(mix(0x9e37_79b9_7f4a_7c15), 0x6e78_9e6a_a1b9_65f4);
    }

    #[test]
    fn rectangles_are_widened_to_cells() {
        // DT-30.
        let bounds = Rect::sized(100, 50);
        assert_eq!(whole_cells(rect(17, 3, 2, 30), bounds), rect(16, 0, 16, 48));
        assert_eq!(whole_cells(rect(97, 49, 1, 1), bounds), Rect::between(96, 48, 100, 50));
        assert!(is_whole_cells(Rect::between(80, 0, 100, 50), bounds));
        assert!(!is_whole_cells(Rect::between(80, 0, 99, 50), bounds));
    }
}
