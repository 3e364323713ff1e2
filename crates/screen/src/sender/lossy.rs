//! Where the client's pixels are nearly right.

use quickset_base::{Duration, Time};
use quickset_rfb::{Rect, Region};

use super::motion::ScreenMotion;
use crate::codec::ItemKind;
use crate::order::CellValues;

/// Cells that were sent with loss, and when.
#[derive(Debug)]
pub(super) struct Lossy {
    cells: CellValues<Option<Time>>,
    /// How long a cell rests.
    rest: Duration,
    bounds: Rect,
    /// No cell has rested before.
    due: Option<Time>,
    /// Rested: to be sent without loss.
    rested: Region,
}

impl Lossy {
    pub(super) fn new(rest: Duration) -> Self {
        Self { cells: CellValues::new(), rest, bounds: Rect::EMPTY, due: None, rested: Region::new() }
    }

    pub(super) fn resize(&mut self, width: u16, height: u16) {
        self.cells.resize(width, height);
        self.bounds = Rect::sized(width, height);
        self.rested.clip(self.bounds);
    }

    /// An item with these pixels goes out.
    pub(super) fn encoded(&mut self, now: Time, piece: Rect, kind: ItemKind) {
        let lossy = kind == ItemKind::Jpeg;
        for (place, cell) in self.cells.meeting(piece) {
            if lossy {
                self.cells.set(place, Some(now));
            } else if piece.contains(cell) {
                self.cells.set(place, None);
            }
        }
        if lossy {
            self.due.get_or_insert(now + self.rest);
        }
        self.rested.remove(piece);
    }

    /// A copy goes out, or will: what it takes from lossy cells is lossy.
    pub(super) fn copied(&mut self, now: Time, to: Rect, x: u16, y: u16) {
        let moved = |cell: Rect| {
            let part = cell.intersection(to);
            let (left, top) = (part.left() - to.left() + x, part.top() - to.top() + y);
            part.moved_to(left, top).unwrap_or(Rect::EMPTY)
        };
        let lossy = |rect: Rect| self.cells.meeting(rect).any(|(place, _)| self.cells.get(place).is_some());
        // All are looked at before any is changed: the source may overlap.
        let changes: Vec<_> = (self.cells.meeting(to))
            .filter_map(|(place, cell)| match lossy(moved(cell)) {
                true => Some((place, Some(now))),
                false if to.contains(cell) => Some((place, None)),
                false => None,
            })
            .collect();
        for (place, value) in changes {
            self.cells.set(place, value);
            if value.is_some() {
                self.due.get_or_insert(now + self.rest);
            }
        }
        self.rested.remove(to);
    }

    /// This cell was sent with loss.
    pub(super) fn is_lossy(&self, place: usize) -> bool {
        self.cells.get(place).is_some()
    }

    /// A rectangle that has rested, and does not move.
    pub(super) fn next_rect(&mut self, now: Time, motion: &ScreenMotion) -> Option<Rect> {
        if self.due.is_some_and(|due| due <= now) {
            self.due = None;
            for (place, cell) in self.cells.meeting(self.bounds) {
                let Some(since) = self.cells.get(place) else { continue };
                let rested = since + self.rest;
                let due = motion.moves_until(place).map_or(rested, |until| until.max(rested));
                if due <= now {
                    self.rested.add(cell);
                } else if self.due.is_none_or(|at| due < at) {
                    self.due = Some(due);
                }
            }
        }
        self.rested.rects().first().copied()
    }

    /// Something has rested, and waits to be sent without loss.
    pub(super) fn has_rested(&self) -> bool {
        !self.rested.is_empty()
    }

    /// Nothing is lossy.
    pub(super) fn is_nothing(&self) -> bool {
        self.due.is_none() && self.rested.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.due
    }
}
