//! What may overtake what in the orders with fences, `spec/desktop.md` §7: a pure rule over rectangles.

use quickset_rfb::{Rect, Region};

/// Pixels that one or several messages write and read.
#[derive(Clone, Debug)]
pub(super) struct Touched {
    writes: Region,
    reads: Region,
}

impl Touched {
    pub(super) fn nothing() -> Self {
        // Widened beyond this many rectangles: a fence too many delays, but is never wrong.
        Self { writes: Region::with_limit(256), reads: Region::with_limit(256) }
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.writes.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.writes.clear();
        self.reads.clear();
    }

    /// Another message, or item.
    pub(super) fn add(&mut self, writes: Rect, reads: Option<Rect>) {
        self.writes.add(writes);
        if let Some(reads) = reads {
            self.reads.add(reads);
        }
    }

    pub(super) fn add_all(&mut self, other: &Self) {
        self.writes.union(&other.writes);
        self.reads.union(&other.reads);
    }

    /// DT-28: what writes and reads this may not overtake any of these, or they it.
    pub(super) fn conflicts(&self, writes: Rect, reads: Option<Rect>) -> bool {
        let read_here = reads.is_some_and(|reads| self.writes.meets(reads));
        read_here || self.writes.meets(writes) || self.reads.meets(writes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rect(x: u16, y: u16, w: u16, h: u16) -> Rect {
        Rect::new(x, y, w, h).unwrap()
    }

    #[test]
    fn what_depends_on_each_other_conflicts() {
        // DT-28: the three meetings, and none.
        let mut scroll = Touched::nothing();
        scroll.add(rect(0, 0, 100, 80), Some(rect(0, 20, 100, 80)));
        assert!(scroll.conflicts(rect(0, 90, 10, 5), None), "it overwrites the source");
        assert!(scroll.conflicts(rect(0, 5, 10, 5), None), "it overwrites the destination");
        assert!(
            scroll.conflicts(rect(300, 0, 10, 10), Some(rect(50, 0, 10, 10))),
            "it reads the destination"
        );
        assert!(!scroll.conflicts(rect(0, 100, 100, 20), None));
        assert!(!scroll.conflicts(rect(300, 0, 10, 10), Some(rect(50, 85, 10, 10))), "both read");
        let mut both = Touched::nothing();
        assert!(both.is_nothing() && !both.conflicts(rect(0, 0, 9, 9), Some(rect(0, 0, 9, 9))));
        both.add(rect(200, 0, 5, 5), None);
        both.add_all(&scroll);
        assert!(both.conflicts(rect(203, 3, 5, 5), None) && both.conflicts(rect(0, 90, 10, 5), None));
        both.clear();
        assert!(both.is_nothing() && !both.conflicts(rect(0, 90, 10, 5), None));
    }
}
