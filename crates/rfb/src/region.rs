//! Sets of pixels as disjoint rectangles, for dirty areas.
//!
//! The form is the X server's: bands of rows from top to bottom, in each band spans of columns from left to
//! right that do not touch, and no two adjoining bands with the same spans. So the form of a set is unique
//! (`==` compares sets), and union, subtraction and intersection are one sweep, linear in both operands.

use core::fmt;

use crate::Rect;

/// A set of pixels, held as disjoint rectangles, in bounded memory.
///
/// A region holds at most its limit of rectangles. When an operation would need more, the result is widened
/// to a grid of 16, 32, … pixels until it fits, but never beyond its own bounding box: a dirty region may say
/// too much, never too little. Until then every operation is exact.
#[derive(Clone)]
pub struct Region {
    rects: Vec<Rect>,
    limit: usize,
}

impl Region {
    /// Rectangles of a region made by [`Region::new`]: fast scrolling of text dirties 76 at once.
    pub const DEFAULT_LIMIT: usize = 1024;

    /// The empty set, with [`Region::DEFAULT_LIMIT`].
    pub const fn new() -> Self {
        Self::with_limit(Self::DEFAULT_LIMIT)
    }

    /// The empty set, never more than `limit` rectangles (0 counts as 1).
    pub const fn with_limit(limit: usize) -> Self {
        Self { rects: Vec::new(), limit: if limit == 0 { 1 } else { limit } }
    }

    /// The rectangles: disjoint, none empty, in the order of reading.
    pub fn rects(&self) -> &[Rect] {
        &self.rects
    }

    /// Holds no pixel.
    pub fn is_empty(&self) -> bool {
        self.rects.is_empty()
    }

    /// Pixels.
    pub fn area(&self) -> usize {
        self.rects.iter().map(|r| r.area()).sum()
    }

    /// The smallest rectangle that holds the set; [`Rect::EMPTY`] for the empty set.
    pub fn bounding(&self) -> Rect {
        self.rects.iter().fold(Rect::EMPTY, |all, &r| all.bounding(r))
    }

    /// Forgets every pixel.
    pub fn clear(&mut self) {
        self.rects.clear();
    }

    /// Takes all pixels out: what is returned is what was held.
    #[must_use]
    pub fn take(&mut self) -> Self {
        Self { rects: core::mem::take(&mut self.rects), limit: self.limit }
    }

    /// Adds the pixels of `rect`.
    pub fn add(&mut self, rect: Rect) {
        if rect.is_empty() || self.near(rect).iter().any(|r| r.contains(rect)) {
            return;
        }
        // Dirty areas often come from top to bottom: then nothing of what is held changes. A rectangle that
        // starts where the last band ends may continue it, so it takes the sweep.
        if self.rects.last().is_none_or(|last| last.bottom() < rect.top()) {
            self.rects.push(rect);
        } else {
            self.sweep_near(rect, |a, b| a || b);
        }
        self.coarsen();
    }

    /// Adds the pixels of `other`.
    pub fn union(&mut self, other: &Self) {
        match other.rects[..] {
            [] => {}
            [one] => self.add(one),
            _ => {
                self.rects = sweep(&self.rects, &other.rects, |a, b| a || b);
                self.coarsen();
            }
        }
    }

    /// Removes the pixels of `rect`. Exact unless the hole would need more rectangles than the limit.
    pub fn remove(&mut self, rect: Rect) {
        if self.meets(rect) {
            self.sweep_near(rect, |a, b| a && !b);
            self.coarsen();
        }
    }

    /// Removes the pixels of `other`.
    pub fn subtract(&mut self, other: &Self) {
        if !other.is_empty() {
            self.rects = sweep(&self.rects, &other.rects, |a, b| a && !b);
            self.coarsen();
        }
    }

    /// Keeps only the pixels that `other` holds too.
    pub fn intersect(&mut self, other: &Self) {
        self.rects = sweep(&self.rects, &other.rects, |a, b| a && b);
        self.coarsen();
    }

    /// Keeps only the pixels inside `rect`, as after a framebuffer has shrunk.
    pub fn clip(&mut self, rect: Rect) {
        if rect.is_empty() {
            // It may have rows all the same, which a sweep would take for bands.
            self.clear();
        } else if !self.rects.iter().all(|&r| rect.contains(r)) {
            self.rects = sweep(&self.rects, &[rect], |a, b| a && b);
            self.coarsen();
        }
    }

    /// The set moved by (`dx`, `dy`); what leaves 0..=65535 is cut off.
    #[must_use]
    pub fn moved_by(&self, dx: i32, dy: i32) -> Self {
        let shift = |v: u16, d: i32| {
            let to = i32::from(v).saturating_add(d);
            u16::try_from(to.max(0)).unwrap_or(u16::MAX)
        };
        let moved = self.rects.iter().map(|r| {
            Rect::between(
                shift(r.left(), dx),
                shift(r.top(), dy),
                shift(r.right(), dx),
                shift(r.bottom(), dy),
            )
        });
        // Order and gaps are kept; but a span cut off or cut short at the side may have been all that told
        // two bands apart, so they are compared again.
        let moved: Vec<Rect> = moved.filter(|r| !r.is_empty()).collect();
        let rects = sweep(&moved, &[], |a, _| a);
        Self { rects, limit: self.limit }
    }

    /// Holds a pixel of `rect`.
    pub fn meets(&self, rect: Rect) -> bool {
        self.near(rect).iter().any(|r| r.meets(rect))
    }

    /// Holds every pixel of `rect`.
    pub fn contains(&self, rect: Rect) -> bool {
        let held: usize = self.near(rect).iter().map(|r| r.intersection(rect).area()).sum();
        held == rect.area()
    }

    /// The rectangles of the bands that reach into the rows of `rect`; the bands are sorted both ways.
    fn near(&self, rect: Rect) -> &[Rect] {
        let from = self.rects.partition_point(|r| r.bottom() <= rect.top());
        let to = self.rects.partition_point(|r| r.top() < rect.bottom());
        self.rects.get(from..to).unwrap_or_default()
    }

    /// A sweep with `rect` that leaves what `rect` does not reach as it is. The bands that adjoin it take
    /// part, since they may become one with what comes out; those beyond them differ from their neighbours as
    /// before.
    fn sweep_near(&mut self, rect: Rect, keep: impl Fn(bool, bool) -> bool) {
        let from = self.rects.partition_point(|r| r.bottom() < rect.top());
        let to = self.rects.partition_point(|r| r.top() <= rect.bottom());
        let changed = sweep(&self.rects[from..to], &[rect], keep);
        self.rects.splice(from..to, changed);
    }

    /// Widens to ever coarser grids until the limit holds.
    fn coarsen(&mut self) {
        if self.rects.len() <= self.limit {
            return;
        }
        // With a quarter of room, the next few rectangles do not widen again.
        let target = self.limit - self.limit / 4;
        let mut grid = 16u16;
        while self.rects.len() > target {
            let bounds = self.bounding();
            if grid >= 1 << 13 {
                self.rects = vec![bounds];
                return;
            }
            let widened = self.rects.iter().map(|&r| snap(r, grid).intersection(bounds)).collect();
            self.rects = joined(widened);
            grid *= 2;
        }
    }
}

impl Default for Region {
    fn default() -> Self {
        Self::new()
    }
}

/// Equal when they hold the same pixels, whatever their limits.
impl PartialEq for Region {
    fn eq(&self, other: &Self) -> bool {
        self.rects == other.rects
    }
}

impl Eq for Region {}

impl From<Rect> for Region {
    fn from(rect: Rect) -> Self {
        let mut region = Self::new();
        region.add(rect);
        region
    }
}

impl FromIterator<Rect> for Region {
    fn from_iter<I: IntoIterator<Item = Rect>>(rects: I) -> Self {
        let rects = rects.into_iter().filter(|r| !r.is_empty()).collect();
        let mut region = Self { rects: joined(rects), limit: Self::DEFAULT_LIMIT };
        region.coarsen();
        region
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(&self.rects).finish()
    }
}

/// The union of rectangles in any order, by halves: n log n where adding one by one is n².
fn joined(rects: Vec<Rect>) -> Vec<Rect> {
    if rects.len() < 2 {
        return rects;
    }
    let mut sets: Vec<Vec<Rect>> = rects.into_iter().map(|r| vec![r]).collect();
    while sets.len() > 1 {
        let pairs = sets.chunks(2);
        sets = pairs.map(|p| sweep(&p[0], p.get(1).map_or(&[], |b| b), |a, b| a || b)).collect();
    }
    sets.pop().unwrap_or_default()
}

/// `rect` widened to multiples of `grid`.
fn snap(rect: Rect, grid: u16) -> Rect {
    let down = |v: u16| v / grid * grid;
    let up = |v: u16| v.div_ceil(grid).saturating_mul(grid);
    Rect::between(down(rect.left()), down(rect.top()), up(rect.right()), up(rect.bottom()))
}

/// The pixels for which `keep(in a, in b)`, which must be false for (false, false).
fn sweep(a: &[Rect], b: &[Rect], keep: impl Fn(bool, bool) -> bool) -> Vec<Rect> {
    let mut out = Bands { rects: Vec::with_capacity(a.len() + b.len()), last: 0 };
    let (mut a, mut b) = (Walk::new(a), Walk::new(b));
    let mut top = 0;
    // Between two neighbouring edges of rows, each operand shows one band or none.
    while let Some(bottom) = [a.next_edge(top), b.next_edge(top)].into_iter().flatten().min() {
        let from = out.rects.len();
        combine(a.spans(top), b.spans(top), &keep, |left, right| {
            out.rects.push(Rect::between(left, top, right, bottom));
        });
        out.close(from);
        top = bottom;
    }
    out.rects
}

/// One band: merges two lists of spans, left to right.
fn combine(a: &[Rect], b: &[Rect], keep: impl Fn(bool, bool) -> bool, mut emit: impl FnMut(u16, u16)) {
    let (mut i, mut j) = (0, 0);
    let mut start = None;
    // 2n and 2n + 1 are the left and right edge of span n, so an odd count means inside.
    let edge =
        |spans: &[Rect], n: usize| spans.get(n / 2).map(|r| if n % 2 == 0 { r.left() } else { r.right() });
    while let Some(x) = [edge(a, i), edge(b, j)].into_iter().flatten().min() {
        // Spans of one list never touch: at most one edge each.
        i += usize::from(edge(a, i) == Some(x));
        j += usize::from(edge(b, j) == Some(x));
        match (start, keep(i % 2 == 1, j % 2 == 1)) {
            (None, true) => start = Some(x),
            (Some(left), false) => {
                emit(left, x);
                start = None;
            }
            _ => {}
        }
    }
}

/// The bands of an operand, from top to bottom.
struct Walk<'a> {
    rects: &'a [Rect],
    /// How many of `rects` are in the first band.
    band: usize,
}

impl<'a> Walk<'a> {
    fn new(rects: &'a [Rect]) -> Self {
        let mut walk = Self { rects, band: 0 };
        walk.measure();
        walk
    }

    fn measure(&mut self) {
        let top = self.rects.first().map(|r| r.top());
        self.band = self.rects.iter().take_while(|r| Some(r.top()) == top).count();
    }

    /// The next row after `top` where a band begins or ends; bands above are left behind.
    fn next_edge(&mut self, top: u16) -> Option<u16> {
        while self.rects.first()?.bottom() <= top {
            self.rects = &self.rects[self.band..];
            self.measure();
        }
        let first = self.rects.first()?;
        Some(if first.top() > top { first.top() } else { first.bottom() })
    }

    /// The spans of the row `top`, which `next_edge` has just been asked about.
    fn spans(&self, top: u16) -> &'a [Rect] {
        match self.rects.first() {
            Some(r) if r.top() <= top => &self.rects[..self.band],
            _ => &[],
        }
    }
}

/// The result, band by band.
struct Bands {
    rects: Vec<Rect>,
    /// Where the last band starts.
    last: usize,
}

impl Bands {
    /// The band `from..` is complete: joined to the one above when that has the same spans and adjoins.
    fn close(&mut self, from: usize) {
        let (before, band) = self.rects.split_at_mut(from);
        let above = &mut before[self.last..];
        let Some(bottom) = band.first().map(|r| r.bottom()) else { return };
        let same = above.len() == band.len()
            && above
                .iter()
                .zip(band.iter())
                .all(|(a, b)| a.bottom() == b.top() && a.left() == b.left() && a.right() == b.right());
        if same {
            for r in above {
                *r = Rect::between(r.left(), r.top(), r.right(), bottom);
            }
            self.rects.truncate(from);
        } else {
            self.last = from;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rect(x: u16, y: u16, w: u16, h: u16) -> Rect {
        Rect::new(x, y, w, h).unwrap()
    }

    #[test]
    fn halves_become_a_whole() {
        let mut r = Region::from(rect(0, 0, 10, 10));
        r.add(rect(10, 0, 10, 10));
        assert_eq!(r.rects(), [rect(0, 0, 20, 10)]);
        r.add(rect(0, 10, 20, 10));
        assert_eq!(r.rects(), [rect(0, 0, 20, 20)]);
        r.add(rect(3, 3, 4, 4));
        assert_eq!(r.rects(), [rect(0, 0, 20, 20)]);
    }

    #[test]
    fn a_hole_needs_four_rectangles() {
        let mut r = Region::from(rect(0, 0, 30, 30));
        r.remove(rect(10, 10, 10, 10));
        assert_eq!(
            r.rects(),
            [rect(0, 0, 30, 10), rect(0, 10, 10, 10), rect(20, 10, 10, 10), rect(0, 20, 30, 10)]
        );
        assert_eq!((r.area(), r.bounding()), (800, rect(0, 0, 30, 30)));
        assert!(!r.contains(rect(9, 9, 2, 2)) && r.meets(rect(9, 9, 2, 2)) && !r.meets(rect(10, 10, 10, 10)));
    }

    #[test]
    fn equal_sets_are_equal_whatever_their_history() {
        let a: Region = [rect(0, 0, 10, 30), rect(10, 10, 10, 10)].into_iter().collect();
        let b: Region = [rect(10, 10, 10, 10), rect(0, 20, 10, 10), rect(0, 0, 10, 21)].into_iter().collect();
        assert_eq!(a, b);
    }

    /// A screen without columns has rows, and none of them a pixel.
    #[test]
    fn rectangles_without_pixels_are_not_held() {
        let held = Region::from(rect(4, 4, 20, 20));
        for empty in [rect(0, 0, 0, 16), rect(8, 8, 0, 8), rect(8, 8, 8, 0), rect(8, 0, 0, 60), Rect::EMPTY] {
            let mut r = held.clone();
            r.clip(empty);
            assert_eq!(r, Region::new(), "{empty}");
            let mut r = held.clone();
            r.add(empty);
            r.remove(empty);
            r.union(&Region::from(empty));
            assert_eq!(r, held, "{empty}");
        }
    }

    #[test]
    fn the_far_corner_is_reachable() {
        let mut r = Region::with_limit(1);
        r.add(Rect::between(0, 0, 1, 1));
        r.add(Rect::between(65534, 65534, 65535, 65535));
        assert_eq!(r.rects(), [Rect::sized(65535, 65535)]);
    }

    #[test]
    fn a_chequerboard_is_widened_to_the_limit() {
        let mut r = Region::with_limit(100);
        for y in 0..64 {
            for x in 0..64 {
                r.add(rect(x * 8 + y % 2 * 4, y * 4, 4, 4));
            }
        }
        assert!(r.rects().len() <= 100);
        assert_eq!(r.bounding(), rect(0, 0, 64 * 8, 64 * 4));
        for y in 0..64 {
            for x in 0..64 {
                assert!(r.contains(rect(x * 8 + y % 2 * 4, y * 4, 4, 4)));
            }
        }
    }
}
