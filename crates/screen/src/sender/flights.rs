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
    /// Copies and patches that the client may be unable to carry out, oldest first.
    copies: VecDeque<Copied>,
    superseded: Vec<u64>,
    /// The newest item that did not arrive, or could not be carried out.
    last_loss: Option<u64>,
    /// The client takes patches.
    patches: bool,
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

/// A copy or a patch, which is pixels of a part of some cells, and the items whose pixels it needs of which
/// the client may not have some, as ranges in their order.
#[derive(Debug)]
struct Copied {
    sent: SentMessage,
    is_copy: bool,
    /// Whole cells that need nothing: those that a patch covers.
    covers: Rect,
    needs: Vec<RangeInclusive<u64>>,
}

/// An item that the client does not have, but for the cells that it `covers`.
#[derive(Clone, Copy, Debug)]
struct LostItem {
    sent: SentMessage,
    covers: Rect,
}

/// What an item does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ItemEffect {
    pub(super) writes: Rect,
    /// What a copy takes.
    pub(super) reads: Option<Rect>,
    /// It is pixels, and cuts cells.
    pub(super) patches: bool,
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
    /// With `patches` to a client that takes these.
    pub(super) fn new(patches: bool) -> Self {
        Self {
            versions: CellValues::new(),
            doubt: CellValues::new(),
            under_way: BTreeMap::new(),
            filling: Vec::new(),
            copies: VecDeque::new(),
            superseded: Vec::new(),
            last_loss: None,
            patches,
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
    pub(super) fn sent(&mut self, item: u64, effect: ItemEffect) {
        let to = effect.writes;
        // A cell that a copy cuts is the copy's as a whole. Kept so, since a smaller screen may leave just
        // the part that the copy has not written.
        let writes = whole_cells(to, Rect::sized(u16::MAX, u16::MAX));
        let sent = SentMessage { item, rect: writes };
        if effect.patches || effect.reads.is_some() {
            let from = effect.reads.unwrap_or(Rect::EMPTY);
            self.need(from, to);
            let needs = self.unsettled(from, to);
            if self.copies.len() == MAX_COPIES {
                self.copies.pop_front();
            }
            let is_copy = effect.reads.is_some();
            let covers = if is_copy { Rect::EMPTY } else { self.covered(to) };
            self.copies.push_back(Copied { sent, is_copy, covers, needs });
        }
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
        let is_copy = |s: &SentMessage| self.copied(s.item).is_some_and(|copied| copied.is_copy);
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
        let lost = |sent| LostItem { sent, covers: Rect::EMPTY };
        Landing::Missing(self.lose_all(flight.sent.into_iter().map(lost).collect()))
    }

    /// The client could not carry out a copy: the cells to send, unless too many copies have been sent since.
    pub(super) fn unable(&mut self, item: u64) -> Option<Vec<Rect>> {
        let copied = self.copied(item)?;
        // DT-86: the client has drawn the cells that it covers.
        let lost = LostItem { sent: copied.sent, covers: copied.covers };
        Some(self.lose_all(vec![lost]))
    }

    fn copied(&self, item: u64) -> Option<&Copied> {
        let at = self.copies.binary_search_by_key(&item, |copy| copy.sent.item).ok()?;
        self.copies.get(at)
    }

    /// The client does not have these items, nor will it carry out the copies that build on them (DT-51): the
    /// cells to send. Else each of those copies would be refused a round trip later, when others build on it
    /// in turn: after one loss a window that is scrolled without a pause would stand still.
    fn lose_all(&mut self, mut lost: Vec<LostItem>) -> Vec<Rect> {
        self.last_loss = lost.iter().map(|lost| lost.sent.item).max().max(self.last_loss);
        let first = lost.iter().map(|lost| lost.sent.item).min().unwrap_or(u64::MAX);
        for copy in self.copies.iter().filter(|copy| copy.sent.item > first) {
            let builds_on = |lost: &LostItem| copy.needs.iter().any(|items| items.contains(&lost.sent.item));
            if lost.iter().any(builds_on) {
                lost.push(LostItem { sent: copy.sent, covers: copy.covers });
            }
        }
        lost.into_iter().flat_map(|lost| self.lose(lost)).collect()
    }

    /// The client does not have these: cells of which this item is the newest that was sent.
    fn lose(&mut self, lost: LostItem) -> Vec<Rect> {
        let mut cells = Vec::new();
        for (place, cell) in self.versions.meeting(lost.sent.rect) {
            if self.versions.get(place) == lost.sent.item && !lost.covers.contains(cell) {
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

    /// What of the screen within `bounds` is sent for `rect`: that as it is, if it spares much and the client
    /// has the rest of the cells that it cuts, or else whole cells (DT-30, DT-85). `next` is the number of
    /// the item.
    pub(super) fn patch_or_cells(&self, rect: Rect, bounds: Rect, next: u64) -> Rect {
        let cells = whole_cells(rect, bounds);
        let spares = cells.area() * 4 > rect.area() * 5;
        if self.patches && spares && self.may_patch(rect, next) { rect } else { cells }
    }

    /// Pixels of `rect` may go without the rest of the cells that it cuts: the client has what was sent for
    /// these last, as far as is known, or will have it before. `next` is the item's number.
    fn may_patch(&self, rect: Rect, next: u64) -> bool {
        // Each is remembered until its fate is known, or the whole screen would be sent for one.
        let oldest = self.copies.front().filter(|_| self.copies.len() == MAX_COPIES);
        if oldest.is_some_and(|copy| self.first().is_some_and(|first| copy.sent.item >= first)) {
            return false;
        }
        let fragile = self.are_fragile(next);
        let is_there = |place: usize| {
            let version = self.versions.get(place);
            !self.doubt.get(place) && version > 0 && (!fragile || self.is_settled(version))
        };
        self.versions.cut(rect).all(is_there)
    }

    /// The item has arrived, or is in the message being filled, and so arrives with what is put beside it.
    fn is_settled(&self, item: u64) -> bool {
        let flight = self.under_way.range(..=item).next_back();
        flight.is_none_or(|(_, flight)| !flight.holds(item))
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

    /// The cells that `rect` covers now: of a smaller screen it may cover more.
    fn covered(&self, rect: Rect) -> Rect {
        let mut cells = self.versions.meeting(rect).map(|(_, cell)| cell).filter(|cell| rect.contains(*cell));
        let Some(first) = cells.next() else { return Rect::EMPTY };
        let last = cells.last().unwrap_or(first);
        Rect::between(first.left(), first.top(), last.right(), last.bottom())
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

    /// A copy reads these, or leaves a part of them: messages with them must not be given up for newer ones.
    fn need(&mut self, from: Rect, to: Rect) {
        let mut last = 0;
        for place in self.versions.needed(from, to) {
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
