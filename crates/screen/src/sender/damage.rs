//! What the client does not have yet.

use std::collections::VecDeque;

use quickset_base::{Duration, Time};
use quickset_rfb::{CopyRect, Rect, Region};

use super::near::Focus;
use crate::order::CELL;

/// Areas and copies that are to be sent.
#[derive(Debug)]
pub(super) struct ScreenDamage {
    /// Where the client's screen differs from the shadow as it will be after the copies.
    dirty: Region,
    /// What of it belongs to the update that is being sent.
    turn: Region,
    /// That update's area has been taken from `dirty`.
    taken: bool,
    /// Something of it was sent, and its end was not told.
    in_turn: bool,
    copies: VecDeque<CopyRect>,
    /// Since when the RFB server's update is going on.
    open: Option<Time>,
}

impl ScreenDamage {
    pub(super) fn new() -> Self {
        Self {
            dirty: Region::new(),
            turn: Region::new(),
            taken: false,
            in_turn: false,
            copies: VecDeque::new(),
            open: None,
        }
    }

    /// The server has drawn.
    pub(super) fn pixels(&mut self, now: Time, rect: Rect) {
        self.open.get_or_insert(now);
        self.dirty.add(rect);
    }

    /// The server has copied. True when the copy is worth sending.
    pub(super) fn copy(&mut self, now: Time, copy: CopyRect) -> bool {
        self.open.get_or_insert(now);
        let from = copy.from();
        // What the client does not have is not copied there: it is missing at the destination as well.
        let mut missing = self.dirty.clone();
        missing.clip(from);
        let worth = copy.to.area() >= LEAST_COPY && missing.area() * 2 < from.area();
        if self.copies.len() >= MAX_COPIES {
            self.drop_copies();
        } else if worth {
            self.dirty.follow(copy);
            self.turn.remove(copy.to);
            self.copies.push_back(copy);
            return true;
        }
        self.dirty.add(copy.to);
        false
    }

    /// What the server has drawn is whole.
    pub(super) fn update_end(&mut self) {
        self.open = None;
    }

    /// These pixels are to be sent, whether they have changed or not.
    pub(super) fn refresh(&mut self, rect: Rect) {
        self.dirty.add(rect);
    }

    /// Cells whose pixels have not arrived.
    pub(super) fn missing(&mut self, cells: &[Rect]) {
        for &cell in cells {
            self.dirty.add(cell);
        }
        // A copy that waits may read them.
        if self.copies.iter().any(|copy| cells.iter().any(|cell| cell.meets(copy.from()))) {
            self.drop_copies();
        }
    }

    pub(super) fn clip(&mut self, bounds: Rect) {
        self.dirty.clip(bounds);
        self.turn.clip(bounds);
    }

    /// A copy to send before any pixels. It waits for the pixels of its update, unless others are being sent.
    pub(super) fn next_copy(&self, now: Time) -> Option<CopyRect> {
        let wait = self.turn.is_empty() && self.is_open(now);
        self.copies.front().filter(|_| !wait).copied()
    }

    pub(super) fn copy_sent(&mut self) {
        self.in_turn = true;
        self.copies.pop_front();
    }

    /// Leaves copies of a few lines in place of the next one.
    pub(super) fn cut_copy(&mut self) {
        if let Some(copy) = self.copies.pop_front() {
            bands(&copy).into_iter().rev().for_each(|band| self.copies.push_front(band));
        }
    }

    /// The next copy becomes pixels, and what others that wait copy of them.
    pub(super) fn skip_copy(&mut self) {
        let Some(skipped) = self.copies.pop_front() else { return };
        let mut missing = Region::from(skipped.to);
        self.copies.iter().for_each(|&copy| missing.follow(copy));
        self.dirty.union(&missing);
    }

    /// Copies that wait become pixels. All of them, since later ones build on earlier ones.
    pub(super) fn drop_copies(&mut self) {
        for copy in self.copies.drain(..) {
            self.dirty.add(copy.to);
        }
    }

    /// Begins an update when the last has been sent and the server is not in the middle of one, or has been
    /// for too long; without what lies in `held`. Whether one has begun.
    pub(super) fn begin(&mut self, now: Time, held: Option<&Region>) -> bool {
        if !self.copies.is_empty() || self.taken || self.dirty.is_empty() || self.is_open(now) {
            return false;
        }
        self.turn = self.dirty.clone();
        if let Some(held) = held {
            self.turn.subtract(held);
        }
        let begins = !self.turn.is_empty();
        if begins {
            (self.taken, self.in_turn) = (true, true);
        }
        begins
    }

    /// Pixels of the update that is being sent: those outside `moving`, and those inside.
    pub(super) fn turn_areas(&self, moving: &Region) -> (usize, usize) {
        let all = self.turn.area();
        if moving.is_empty() {
            return (all, 0);
        }
        let mut inside = self.turn.clone();
        inside.intersect(moving);
        (all - inside.area(), inside.area())
    }

    /// The update that is being sent has something in `moving`.
    pub(super) fn turn_meets(&self, moving: &Region) -> bool {
        !moving.is_empty() && self.turn.rects().iter().any(|rect| moving.meets(*rect))
    }

    /// Something outside `moving` is to be sent as well: of the update, or drawn since it began.
    pub(super) fn waits_beside(&self, now: Time, moving: &Region) -> bool {
        self.beside(now).rects().iter().any(|rect| !moving.contains(*rect))
    }

    /// Where to look for what does not move: it need not wait for the end of an update that does.
    fn beside(&self, now: Time) -> &Region {
        if self.is_open(now) { &self.turn } else { &self.dirty }
    }

    /// Whether something of the running update lies in `area`, or has been drawn there since, and something
    /// of it lies elsewhere.
    pub(super) fn is_divided(&self, now: Time, area: Rect) -> bool {
        self.copies.is_empty() && self.has_rest(area) && self.close_by(now, area).meets(area)
    }

    /// A rectangle to encode, outside the area that `conflicts` if there is one, and near the pointer or not
    /// as `focus` says.
    pub(super) fn next_rect(
        &self,
        now: Time,
        focus: Focus,
        conflicts: impl Fn(Rect) -> bool,
    ) -> Option<Rect> {
        if !self.copies.is_empty() || self.turn.is_empty() {
            return None;
        }
        let update = self.turn.rects().iter();
        if focus.area.is_empty() {
            return pick(update.copied(), conflicts);
        }
        let rest = || pick(update.flat_map(|&rect| focus.outside(rect)), &conflicts);
        let close = self.close_by(now, focus.area).rects().iter();
        let near = || pick(close.filter_map(|&rect| focus.inside(rect)), &conflicts);
        if focus.first { near().or_else(rest) } else { rest().or_else(near) }
    }

    /// The same when what moves and what does not wait both, and `still_first` says which comes first.
    pub(super) fn next_beside(
        &self,
        now: Time,
        focus: Focus,
        moving: &Region,
        still_first: bool,
        conflicts: impl Fn(Rect) -> bool,
    ) -> Option<Rect> {
        if !self.copies.is_empty() || self.turn.is_empty() {
            return None;
        }
        let (mut still, mut moves) = (self.beside(now).clone(), self.turn.clone());
        still.subtract(moving);
        moves.intersect(moving);
        let near =
            |part: &Region| pick(part.rects().iter().filter_map(|&rect| focus.inside(rect)), &conflicts);
        let far = |part: &Region| pick(part.rects().iter().flat_map(|&rect| focus.outside(rect)), &conflicts);
        let (first, last) = if still_first { (&still, &moves) } else { (&moves, &still) };
        if focus.first {
            near(first).or_else(|| far(first)).or_else(|| near(last)).or_else(|| far(last))
        } else {
            // DT-49.
            far(first).or_else(|| far(last)).or_else(|| near(first)).or_else(|| near(last))
        }
    }

    /// Where to look for what is near: what was drawn since the update began need not wait for its end. But
    /// only as long as others have their share beside it, or the update would never end.
    fn close_by(&self, now: Time, area: Rect) -> &Region {
        if self.is_open(now) || !self.has_rest(area) { &self.turn } else { &self.dirty }
    }

    /// Something of the update is not near.
    fn has_rest(&self, area: Rect) -> bool {
        self.turn.rects().iter().any(|rect| !area.contains(*rect))
    }

    /// This piece will be sent as it is now.
    pub(super) fn encoded(&mut self, piece: Rect) {
        self.turn.remove(piece);
        self.dirty.remove(piece);
    }

    /// All of an update was encoded; told once.
    pub(super) fn turn_ended(&mut self) -> bool {
        let ended = self.in_turn && self.turn.is_empty() && self.copies.is_empty();
        if ended {
            (self.taken, self.in_turn) = (false, false);
        }
        ended
    }

    /// The server is in the middle of an update, and not for too long.
    fn is_open(&self, now: Time) -> bool {
        self.open.is_some_and(|since| now < since + PATIENCE)
    }

    pub(super) fn is_nothing(&self) -> bool {
        self.dirty.is_empty() && self.copies.is_empty()
    }

    /// When pixels are sent although the server's update goes on.
    pub(super) fn deadline(&self) -> Option<Time> {
        let since = self.open.filter(|_| !self.is_nothing())?;
        Some(since + PATIENCE)
    }
}

/// It is worth being cut.
pub(super) fn is_tall(copy: &CopyRect) -> bool {
    copy.to.height() > BAND
}

/// The same as copies of a few lines of cells, in an order in which none overwrites what a later one reads.
fn bands(copy: &CopyRect) -> Vec<CopyRect> {
    let CopyRect { to, x, y } = *copy;
    let first = to.top() / BAND;
    let last = (to.bottom() - 1) / BAND;
    let bands = (first..=last).filter_map(|n| {
        let (top, bottom) = (n * BAND, (n + 1) * BAND);
        let band = Rect::between(to.left(), top, to.right(), bottom).intersection(to);
        Some(CopyRect { to: band, x, y: y.checked_add(band.top() - to.top())? })
    });
    if y < to.top() { bands.rev().collect() } else { bands.collect() }
}

/// The first that does not conflict, or else the first.
fn pick(mut rects: impl Iterator<Item = Rect>, conflicts: impl Fn(Rect) -> bool) -> Option<Rect> {
    let first = rects.next()?;
    if conflicts(first) { rects.find(|&rect| !conflicts(rect)).or(Some(first)) } else { Some(first) }
}

/// Smaller areas are as well sent as pixels.
const LEAST_COPY: usize = 512;
/// Lines of a copy that is cut: two rows of cells.
const BAND: u16 = 2 * CELL;
/// Copies that may wait: together about four messages.
const MAX_COPIES: usize = 256;
/// An update that the server takes longer to draw is shown in parts.
const PATIENCE: Duration = Duration::from_millis(20);
