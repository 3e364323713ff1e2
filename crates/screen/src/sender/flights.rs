//! What was sent and may not arrive, and what the client is believed to have of each cell (order latest).

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use quickset_rfb::Rect;

use crate::order::{CellValues, whole_cells};

/// Messages under way, and versions of cells.
#[derive(Debug)]
pub(super) struct ScreenFlights {
    /// The number of the item that was sent last for each cell.
    versions: CellValues<u64>,
    /// Cells of which the client does not have that version.
    doubt: CellValues<bool>,
    /// By their first items.
    under_way: BTreeMap<u64, ScreenFlight>,
    /// Of the message being filled.
    filling: Vec<SentMessage>,
    /// Copies that the client may be unable to carry out, oldest first.
    copies: VecDeque<Copied>,
    superseded: Vec<u64>,
    /// The newest item that did not arrive, or could not be carried out.
    last_loss: Option<u64>,
}

#[derive(Debug)]
struct ScreenFlight {
    sent: Vec<SentMessage>,
    size: bool,
    /// Cells whose newest version it carries.
    newest: usize,
    /// Copies depend on it.
    needed: bool,
}

#[derive(Clone, Copy, Debug)]
struct SentMessage {
    item: u64,
    rect: Rect,
}

/// A copy, and the items whose pixels it needs of which the client may not have some, as ranges in their
/// order.
#[derive(Debug)]
struct Copied {
    sent: SentMessage,
    needs: Vec<RangeInclusive<u64>>,
}

/// What is to be done after a message's fate is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Landing {
    Fine,
    /// These cells are to be sent again.
    Missing(Vec<Rect>),
    /// The client does not know of an epoch.
    MissingSize,
}

impl ScreenFlights {
    pub(super) fn new() -> Self {
        Self {
            versions: CellValues::new(),
            doubt: CellValues::new(),
            under_way: BTreeMap::new(),
            filling: Vec::new(),
            copies: VecDeque::new(),
            superseded: Vec::new(),
            last_loss: None,
        }
    }

    pub(super) fn resize(&mut self, width: u16, height: u16) {
        self.versions.resize(width, height);
        self.doubt.resize(width, height);
    }

    /// So many messages whose fate is unknown are a fault of whoever should tell.
    pub(super) fn has_room(&self) -> bool {
        self.under_way.len() < MAX_UNDER_WAY
    }

    pub(super) fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The first item of the oldest message whose fate is not known.
    pub(super) fn first(&self) -> Option<u64> {
        self.under_way.keys().next().copied()
    }

    /// An item goes into the message being filled.
    pub(super) fn sent(&mut self, item: u64, to: Rect, reads: Option<Rect>) {
        // A cell that a copy cuts is the copy's as a whole. Kept so, since a smaller screen may leave just
        // the part that the copy has not written.
        let writes = whole_cells(to, Rect::sized(u16::MAX, u16::MAX));
        if let Some(from) = reads {
            self.need(from);
            let needs = self.unsettled(from, to);
            if self.copies.len() == MAX_COPIES {
                self.copies.pop_front();
            }
            self.copies.push_back(Copied { sent: SentMessage { item, rect: writes }, needs });
        }
        let sent = SentMessage { item, rect: writes };
        for (place, _) in self.versions.meeting(writes) {
            let before = self.versions.get(place);
            self.versions.set(place, item);
            self.doubt.set(place, false);
            let flight = self.under_way.range_mut(..=before).next_back();
            let Some((&id, flight)) = flight.filter(|(_, flight)| flight.holds(before)) else { continue };
            flight.newest -= 1;
            if flight.newest == 0 && !flight.needed {
                self.superseded.push(id);
            }
        }
        self.filling.push(sent);
    }

    /// The message is complete: items `id..end`.
    pub(super) fn closed(&mut self, id: u64, end: u64, latest: bool) {
        let sent = core::mem::take(&mut self.filling);
        let newest = |s: &SentMessage| {
            self.versions.meeting(s.rect).filter(|&(place, _)| self.versions.get(place) == s.item).count()
        };
        let newest = sent.iter().map(newest).sum();
        debug_assert!(!latest || sent.len() as u64 == end - id);
        let is_copy =
            |s: &SentMessage| self.copies.binary_search_by_key(&s.item, |copy| copy.sent.item).is_ok();
        let needed = sent.iter().any(is_copy);
        self.under_way.insert(id, ScreenFlight { sent, size: false, newest, needed });
    }

    /// A message with a size is complete.
    pub(super) fn size(&mut self, id: u64) {
        self.under_way.insert(id, ScreenFlight { sent: Vec::new(), size: true, newest: 0, needed: true });
    }

    /// The fate of a message is known.
    pub(super) fn landed(&mut self, id: u64, arrived: bool) -> Landing {
        let Some(flight) = self.under_way.remove(&id) else { return Landing::Fine };
        if arrived {
            return Landing::Fine;
        }
        if flight.size {
            return Landing::MissingSize;
        }
        // DT-32.
        Landing::Missing(self.lose_all(flight.sent))
    }

    /// The client could not carry out a copy: the cells to send, unless too many copies have been sent since.
    pub(super) fn unable(&mut self, item: u64) -> Option<Vec<Rect>> {
        let at = self.copies.binary_search_by_key(&item, |copy| copy.sent.item).ok()?;
        Some(self.lose_all(vec![self.copies[at].sent]))
    }

    /// The client does not have these items, nor will it carry out the copies that build on them (DT-51): the
    /// cells to send. Else each of those copies would be refused a round trip later, when others build on it
    /// in turn: after one loss a window that is scrolled without a pause would stand still.
    fn lose_all(&mut self, mut lost: Vec<SentMessage>) -> Vec<Rect> {
        self.last_loss = lost.iter().map(|sent| sent.item).max().max(self.last_loss);
        let first = lost.iter().map(|sent| sent.item).min().unwrap_or(u64::MAX);
        for copy in self.copies.iter().filter(|copy| copy.sent.item > first) {
            let builds_on = |sent: &SentMessage| copy.needs.iter().any(|items| items.contains(&sent.item));
            if lost.iter().any(builds_on) {
                lost.push(copy.sent);
            }
        }
        lost.into_iter().flat_map(|sent| self.lose(sent)).collect()
    }

    /// The client does not have these: cells of which this item is the newest that was sent.
    fn lose(&mut self, sent: SentMessage) -> Vec<Rect> {
        let mut cells = Vec::new();
        for (place, cell) in self.versions.meeting(sent.rect) {
            if self.versions.get(place) == sent.item {
                self.doubt.set(place, true);
                cells.push(cell);
            }
        }
        cells
    }

    /// A message that newer ones cover.
    pub(super) fn superseded(&mut self) -> Option<u64> {
        let id = self.superseded.pop()?;
        Some(id).filter(|id| self.under_way.contains_key(id)).or_else(|| self.superseded())
    }

    /// What the client has to have for a copy; DT-33.
    pub(super) fn sum(&self, from: Rect, to: Rect) -> u64 {
        self.versions.sum(from, to)
    }

    /// The client does not have what a copy takes, or what it leaves of cells that it cuts.
    pub(super) fn is_doubtful(&self, from: Rect, to: Rect) -> bool {
        let cut = self.doubt.meeting(to).filter(|&(_, cell)| !to.contains(cell));
        self.doubt.meeting(from).chain(cut).any(|(place, _)| self.doubt.get(place))
    }

    /// Items have been lost not long ago, before `next`: a copy of a large area, which is refused as a whole
    /// for one cell that is missing, and sent as pixels, is better sent as several.
    pub(super) fn are_fragile(&self, next: u64) -> bool {
        self.last_loss.is_some_and(|item| next < item + FRAGILE)
    }

    /// Whatever was believed of the client's pixels may be wrong.
    pub(super) fn doubt_all(&mut self) {
        self.doubt.fill(true);
    }

    /// Nothing is under way any more; its fate will not be told.
    pub(super) fn forget(&mut self) {
        self.under_way.clear();
        self.filling.clear();
        self.superseded.clear();
    }

    /// The items that a copy needs (DT-33) and that may not have arrived, or were copies.
    fn unsettled(&self, from: Rect, to: Rect) -> Vec<RangeInclusive<u64>> {
        let first = self.copies.front().map(|copy| copy.sent.item);
        let first = first.into_iter().chain(self.under_way.keys().next().copied()).min();
        // Of the message being filled nothing is under way yet; it arrives together or not at all.
        let Some(first) = first else { return Vec::new() };
        let mut items: Vec<u64> =
            self.versions.needed(from, to).map(|place| self.versions.get(place)).collect();
        items.retain(|&item| item >= first);
        items.sort_unstable();
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        for item in items {
            let full = ranges.len() == MAX_RANGES;
            match ranges.last_mut() {
                // Too much is no harm: pixels are sent for a copy that could have been carried out.
                Some(last) if full || item <= last.end() + 1 => *last = *last.start()..=item,
                _ => ranges.push(item..=item),
            }
        }
        ranges
    }

    /// A copy reads these: messages with them must not be given up for newer ones.
    fn need(&mut self, from: Rect) {
        let mut last = 0;
        for (place, _) in self.versions.meeting(from) {
            let version = self.versions.get(place);
            if core::mem::replace(&mut last, version) == version {
                continue;
            }
            if let Some((_, flight)) = self.under_way.range_mut(..=version).next_back() {
                flight.needed |= flight.holds(version);
            }
        }
    }
}

impl ScreenFlight {
    fn holds(&self, item: u64) -> bool {
        self.sent.last().is_some_and(|sent| item <= sent.item)
    }
}

/// Messages whose fate is unknown: at 100 Mbit/s what is sent in a second.
const MAX_UNDER_WAY: usize = 1 << 14;
/// Copies that are remembered. A client answers within a round trip.
const MAX_COPIES: usize = 1 << 10;
/// Items for which losses are expected after one: some seconds of scrolling. Cut, a copy of the screen takes
/// 300 bytes and not 25.
const FRAGILE: u64 = 1 << 12;
/// What is remembered of the items that a copy needs: a screen that was sent as a whole is one range.
const MAX_RANGES: usize = 32;
