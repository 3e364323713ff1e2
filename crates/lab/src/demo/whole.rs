use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use quickset_base::Duration;

use crate::screen::{COLUMNS, DesktopUpdate, ROWS, TileHeader};

/// Tells when each update is whole on a receiver's picture.
///
/// An update is *whole* at the first moment at which each of its cells shows this update or a newer one:
/// nothing older than the update is left on the screen where it changed something. Where messages are drawn
/// in the order of updates, that is when the last message of the update is drawn. Where they are not, pixels
/// of an old update may come behind newer ones of the same cell, or never, since their message was outdated
/// and was not sent again. Such a cell counts as shown from the newer pixels on, which are what one sees. So
/// what comes behind them counts neither late nor twice, an update whose messages never come is not left
/// out, and each update becomes whole once.
///
/// How to use it:
///
/// 1. [`write`](Self::write) each update just before its first message is handed to the sender, in the order
///    of their numbers.
/// 2. [`draw`](Self::draw) each message when it has been drawn, in the order of drawing.
///
/// It keeps the cells of updates that are not whole yet, and nothing of those that are.
#[derive(Clone, Debug)]
pub(crate) struct WholeUpdates {
    /// The updates that each cell has to show yet, oldest first.
    owed: Vec<VecDeque<u32>>,
    open: BTreeMap<u32, OpenUpdate>,
}

/// An update that is not whole yet.
#[derive(Clone, Copy, Debug)]
struct OpenUpdate {
    written: Instant,
    /// Cells that show something older.
    cells: usize,
    overtaken: bool,
}

/// An update that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WholeUpdate {
    /// Its number.
    pub(crate) number: u32,
    /// From the writing of its first message on.
    pub(crate) took: Duration,
    /// Newer pixels came first in some of its cells.
    pub(crate) overtaken: bool,
}

/// What a message did to the picture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DrawnMessage {
    /// It is seen: not all of its cells showed something newer.
    pub(crate) is_seen: bool,
    /// The updates that are whole by it, oldest first.
    pub(crate) whole: Vec<WholeUpdate>,
}

impl WholeUpdates {
    pub(crate) fn new() -> Self {
        Self { owed: vec![VecDeque::new(); COLUMNS * ROWS], open: BTreeMap::new() }
    }

    /// The first message of an update is about to be written.
    pub(crate) fn write(&mut self, update: &DesktopUpdate, now: Instant) {
        let mut cells = 0;
        for cell in update.messages.iter().flat_map(|(header, _)| header.cells()) {
            self.owed[cell].push_back(update.number);
            cells += 1;
        }
        // One in which nothing changed is never seen.
        if cells > 0 {
            self.open.insert(update.number, OpenUpdate { written: now, cells, overtaken: false });
        }
    }

    /// A message was drawn where the picture showed nothing newer.
    pub(crate) fn draw(&mut self, header: &TileHeader, now: Instant) -> DrawnMessage {
        let mut drawn = DrawnMessage::default();
        for cell in header.cells() {
            let owed = &mut self.owed[cell];
            while let Some(number) = owed.front().copied().filter(|number| *number <= header.update) {
                owed.pop_front();
                let is_its_own = number == header.update;
                drawn.is_seen |= is_its_own;
                let Some(update) = self.open.get_mut(&number) else { continue };
                update.cells -= 1;
                update.overtaken |= !is_its_own;
                if update.cells == 0 {
                    let took = now.saturating_duration_since(update.written);
                    drawn.whole.push(WholeUpdate { number, took, overtaken: update.overtaken });
                    self.open.remove(&number);
                }
            }
        }
        drawn.whole.sort_unstable_by_key(|update| update.number);
        drawn
    }

    /// Updates that were written and are not whole yet.
    pub(crate) fn open(&self) -> usize {
        self.open.len()
    }

    /// When the oldest update that is not whole was written.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.open.first_key_value().map(|(_, update)| update.written)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::screen::CELL;

    /// A message for `count` cells of the first row.
    fn message(update: u32, first: u16, count: u16) -> TileHeader {
        let cell = CELL as u16;
        TileHeader { epoch: 0, update, x: first * cell, y: 0, w: count * cell, h: cell }
    }

    fn update(number: u32, parts: &[(u16, u16)]) -> DesktopUpdate {
        let parts = parts.iter().map(|&(first, count)| (message(number, first, count), Bytes::new()));
        DesktopUpdate { number, messages: parts.collect() }
    }

    /// Plays a list of arrivals (at, message): which updates are whole, after how many milliseconds, and
    /// whether they were overtaken.
    fn play(written: &[(u64, DesktopUpdate)], drawn: &[(u64, TileHeader)]) -> Vec<(u32, u64, bool)> {
        let start = Instant::now();
        let at = |ms: u64| start + Duration::from_millis(ms);
        let mut updates = WholeUpdates::new();
        let (mut written, mut whole) = (written.iter().peekable(), Vec::new());
        for (ms, header) in drawn {
            while let Some((ms, update)) = written.next_if(|(when, _)| when <= ms) {
                updates.write(update, at(*ms));
            }
            let drawn = updates.draw(header, at(*ms));
            whole.extend(drawn.whole.iter().map(|w| (w.number, w.took.as_millis() as u64, w.overtaken)));
        }
        whole
    }

    #[test]
    fn an_update_is_whole_with_its_last_message() {
        let written = [(0, update(0, &[(0, 2), (2, 1)])), (100, update(1, &[(0, 1), (5, 3)]))];
        let drawn = [
            // Its second message comes first, and the first one after a retransmission.
            (52, message(0, 2, 1)),
            (163, message(0, 0, 2)),
            (164, message(1, 0, 1)),
            (165, message(1, 5, 3)),
        ];
        assert_eq!(play(&written, &drawn), [(0, 163, false), (1, 65, false)]);
    }

    #[test]
    fn what_newer_pixels_cover_counts_from_them_on_and_once() {
        let written = [
            (0, update(0, &[(0, 2), (2, 2)])),
            (33, update(1, &[(0, 2)])),
            (66, update(2, &[(2, 1), (7, 1)])),
        ];
        let drawn = [
            // Of update 0 the first message is lost, and update 1 covers all of it.
            (51, message(0, 2, 2)),
            (85, message(1, 0, 2)),
            // It comes late all the same, sent again: nobody sees it.
            (160, message(0, 0, 2)),
            (170, message(2, 2, 1)),
            (171, message(2, 7, 1)),
        ];
        assert_eq!(play(&written, &drawn), [(0, 85, true), (1, 52, false), (2, 105, false)]);
    }

    #[test]
    fn one_message_may_make_several_updates_whole_and_is_seen_or_is_not() {
        let start = Instant::now();
        let mut updates = WholeUpdates::new();
        for number in 0..3 {
            updates.write(&update(number, &[(0, 1)]), start + Duration::from_millis(number.into()));
        }
        updates.write(&update(3, &[]), start);
        assert_eq!((updates.oldest(), updates.open()), (Some(start), 3));
        let drawn = updates.draw(&message(1, 0, 1), start + Duration::from_millis(10));
        assert!(drawn.is_seen);
        let numbers: Vec<_> = drawn.whole.iter().map(|w| (w.number, w.took.as_millis())).collect();
        assert_eq!(numbers, [(0, 10), (1, 9)]);
        // Behind what is newer.
        assert_eq!(updates.draw(&message(0, 0, 1), start), DrawnMessage::default());
        assert_eq!(updates.oldest(), Some(start + Duration::from_millis(2)));
        assert_eq!(updates.draw(&message(2, 0, 1), start).whole.len(), 1);
        assert_eq!((updates.oldest(), updates.owed.iter().all(VecDeque::is_empty)), (None, true));
    }

    /// The definition, word by word: for each update the first moment at which none of its cells shows
    /// something older.
    fn naive(written: &[DesktopUpdate], drawn: &[TileHeader]) -> Vec<(u32, u64)> {
        let mut shown = vec![None; COLUMNS];
        let mut whole = BTreeMap::new();
        for (ms, header) in drawn.iter().enumerate() {
            for cell in header.cells() {
                shown[cell] = shown[cell].max(Some(header.update));
            }
            for update in written {
                let mut cells = update.messages.iter().flat_map(|(header, _)| header.cells());
                if cells.all(|cell| shown[cell] >= Some(update.number)) {
                    whole.entry(update.number).or_insert(ms as u64);
                }
            }
        }
        whole.into_iter().collect()
    }

    proptest! {
        /// Messages in any order, some of them never.
        #[test]
        fn moments_are_those_of_the_definition(
            parts in prop::collection::vec(prop::collection::vec((0..9u16, 1..4u16), 1..4), 1..7),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let updates: Vec<_> = (0..).zip(&parts).map(|(number, parts)| {
                // Messages of one update are disjoint.
                let parts: Vec<_> = (0..).zip(parts).map(|(i, &(first, count))| (first + 12 * i, count)).collect();
                update(number, &parts)
            }).collect();
            let mut all: Vec<TileHeader> = updates.iter().flat_map(|u| u.messages.iter().map(|m| m.0)).collect();
            let mut drawn = Vec::new();
            for index in order.iter().take(all.len()) {
                drawn.push(all.swap_remove(index.index(all.len())));
            }
            let written: Vec<_> = updates.iter().map(|update| (0, update.clone())).collect();
            let timed: Vec<_> = (0..).zip(drawn.iter().copied()).collect();
            let mut got: Vec<_> = play(&written, &timed).iter().map(|w| (w.0, w.1)).collect();
            got.sort_unstable();
            prop_assert_eq!(got, naive(&updates, &drawn));
        }
    }
}
