//! What of a screen has changed, for somebody who has not been told yet.

use crate::{Rect, Region};

/// A rectangle that becomes what another one of its size is at that time: RFC 6143 §7.7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyRect {
    /// Where it is copied to.
    pub to: Rect,
    /// The left edge of what is copied.
    pub x: u16,
    /// The upper edge of what is copied.
    pub y: u16,
}

impl CopyRect {
    /// What is copied; empty when it would reach beyond 65535.
    pub fn from(&self) -> Rect {
        self.to.moved_to(self.x, self.y).unwrap_or(Rect::EMPTY)
    }

    /// How far pixels go, to the right and down.
    pub fn distance(&self) -> (i32, i32) {
        let along = |to: u16, from: u16| i32::from(to) - i32::from(from);
        (along(self.to.left(), self.x), along(self.to.top(), self.y))
    }

    /// This copy and then `next` as one, if one does the same: each is a part of it, and `next` reads nothing
    /// that this one has written.
    fn with(&self, next: &Self) -> Option<Self> {
        let to = self.to.bounding(next.to);
        let adjoin = to.area() == self.to.area() + next.to.area() && !self.to.meets(next.to);
        if !adjoin || self.distance() != next.distance() || next.from().meets(self.to) {
            return None;
        }
        let from = self.from().bounding(next.from());
        Some(Self { to, x: from.left(), y: from.top() })
    }
}

/// What somebody's screen lacks: copies, to be made in their order, and then pixels, to be drawn as they are
/// at that time. It holds no pixels itself, and at most 64 copies: what is more is to be drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    copies: Vec<CopyRect>,
    dirty: Region,
}

impl Damage {
    /// Nothing.
    pub const fn new() -> Self {
        Self { copies: Vec::new(), dirty: Region::new() }
    }

    /// The copies, which come before the pixels.
    pub fn copies(&self) -> &[CopyRect] {
        &self.copies
    }

    /// What is to be drawn after the copies.
    pub fn dirty(&self) -> &Region {
        &self.dirty
    }

    /// Everything that may be different, for somebody who makes no copies.
    pub fn area(&self) -> Region {
        let mut area = self.dirty.clone();
        self.copies.iter().for_each(|copy| area.add(copy.to));
        area
    }

    /// There is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.copies.is_empty() && self.dirty.is_empty()
    }

    /// Pixels of `rect` have changed.
    pub fn add(&mut self, rect: Rect) {
        self.dirty.add(rect);
    }

    /// Pixels of `region` have changed.
    pub fn union(&mut self, region: &Region) {
        self.dirty.union(region);
    }

    /// The screen has made a copy.
    pub fn copy(&mut self, copy: CopyRect) {
        if self.dirty.rects().len() > MOST_RECTS {
            self.drop_copies();
            self.dirty.add(copy.to);
            return;
        }
        self.dirty.follow(copy);
        if self.dirty.contains(copy.to) {
            return;
        }
        if let Some(last) = self.copies.last_mut() {
            if let Some(both) = last.with(&copy) {
                *last = both;
                return;
            }
        }
        self.copies.push(copy);
        if self.copies.len() > MOST_COPIES {
            self.drop_copies();
        }
    }

    /// What `later` says has happened after all that is here.
    pub fn then(&mut self, later: &Self) {
        later.copies.iter().for_each(|&copy| self.copy(copy));
        self.dirty.union(&later.dirty);
    }

    /// What copies would have done is to be drawn.
    pub fn drop_copies(&mut self) {
        for copy in self.copies.drain(..) {
            self.dirty.add(copy.to);
        }
    }

    /// Pixels of `area` were not the screen's before the copies, and are to be drawn, wherever they are
    /// copied to.
    pub fn spoil(&mut self, area: &Region) {
        if self.copies.is_empty() {
            return;
        }
        let mut spoilt = area.clone();
        self.copies.iter().for_each(|&copy| spoilt.follow(copy));
        self.dirty.union(&spoilt);
        // What is copied there is without what was there.
        self.dirty.union(area);
    }

    /// Takes out what there is to do inside `rect`, without copies that are drawn over anyway.
    #[must_use]
    pub fn take(&mut self, rect: Rect) -> Self {
        while self.copies.last().is_some_and(|last| self.dirty.contains(last.to)) {
            self.copies.pop();
        }
        if self.copies.iter().any(|copy| !(rect.contains(copy.to) && rect.contains(copy.from()))) {
            self.drop_copies();
        }
        let mut dirty = self.dirty.take();
        if !rect.contains(dirty.bounding()) {
            self.dirty = dirty.clone();
            self.dirty.remove(rect);
            dirty.clip(rect);
        }
        Self { copies: std::mem::take(&mut self.copies), dirty }
    }

    /// Keeps only what is inside `bounds`, as after the screen has shrunk.
    pub fn clip(&mut self, bounds: Rect) {
        if self.copies.iter().any(|copy| !(bounds.contains(copy.to) && bounds.contains(copy.from()))) {
            self.drop_copies();
        }
        self.dirty.clip(bounds);
    }
}

impl From<Rect> for Damage {
    fn from(rect: Rect) -> Self {
        Self { copies: Vec::new(), dirty: Region::from(rect) }
    }
}

impl Region {
    /// Pixels are copied: those of the set are in the target afterwards as they were in the source.
    pub fn follow(&mut self, copy: CopyRect) {
        if !(self.meets(copy.from()) || self.meets(copy.to)) {
            return;
        }
        let mut here = self.clone();
        here.clip(copy.from());
        let (dx, dy) = copy.distance();
        self.remove(copy.to);
        self.union(&here.moved_by(dx, dy));
    }
}

/// A terminal that scrolls line by line has this many a second or two: whoever is told less often is as well
/// sent pixels.
const MOST_COPIES: usize = 64;
/// What is to be drawn moves with each copy, which takes time for each of its rectangles: a few bytes of a
/// message are a copy, and whoever sends them may mean no good.
const MOST_RECTS: usize = 128;

#[cfg(test)]
mod tests {
    use quickset_base::Rng;

    use super::*;
    use crate::Framebuffer;

    fn rect(x: u16, y: u16, w: u16, h: u16) -> Rect {
        Rect::new(x, y, w, h).expect("it fits")
    }

    fn copy(to: Rect, x: u16, y: u16) -> CopyRect {
        CopyRect { to, x, y }
    }

    /// What somebody does who is told of it.
    fn carry_out(damage: &Damage, screen: &Framebuffer, theirs: &mut Framebuffer) {
        for copy in damage.copies() {
            theirs.copy(copy.to, copy.x, copy.y).expect("both are inside");
        }
        for &rect in damage.dirty().rects() {
            theirs.take(rect, screen).expect("it is inside");
        }
    }

    fn somewhere(rng: &mut Rng, side: u16) -> Rect {
        let mut span = || {
            let (a, b) = (rng.below(u64::from(side)), rng.below(u64::from(side)));
            (u16::try_from(a.min(b)).expect("small"), u16::try_from(a.max(b) + 1).expect("small"))
        };
        let ((left, right), (top, bottom)) = (span(), span());
        Rect::between(left, top, right, bottom)
    }

    /// A copy that stays on a screen of `side` columns and rows.
    fn some_copy(rng: &mut Rng, side: u16) -> CopyRect {
        let to = somewhere(rng, side);
        let mut place = |length: u16| u16::try_from(rng.below(u64::from(side - length) + 1)).expect("small");
        let (x, y) = (place(to.width()), place(to.height()));
        copy(to, x, y)
    }

    #[test]
    fn a_screen_is_the_same_again_whatever_happened_to_it() {
        const SIDE: u16 = 24;
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let blank = || Framebuffer::new(SIDE, SIDE, 1 << 20).expect("it is small");
            let (mut screen, mut theirs, mut damage) = (blank(), blank(), Damage::new());
            let mut colour = 0;
            for _ in 0..200 {
                // What happens in one go is told in one go.
                let mut news = Damage::new();
                for _ in 0..=rng.below(3) {
                    if rng.chance(0.5) {
                        let rect = somewhere(&mut rng, SIDE);
                        colour += 1;
                        screen.fill(rect, colour).expect("it is inside");
                        news.add(rect);
                    } else {
                        let copy = some_copy(&mut rng, SIDE);
                        screen.copy(copy.to, copy.x, copy.y).expect("both are inside");
                        news.copy(copy);
                    }
                }
                damage.then(&news);
                let mut area = damage.area();
                area.subtract(damage.dirty());
                assert!(area.is_empty() || !damage.copies().is_empty());
                if rng.chance(0.2) {
                    let part = if rng.chance(0.5) { screen.bounds() } else { somewhere(&mut rng, SIDE) };
                    let now = damage.take(part);
                    carry_out(&now, &screen, &mut theirs);
                    assert!(now.area().rects().iter().all(|&rect| part.contains(rect)));
                }
                if rng.chance(0.02) {
                    damage.drop_copies();
                }
            }
            carry_out(&damage.take(screen.bounds()), &screen, &mut theirs);
            assert!(damage.is_empty());
            assert_eq!(theirs, screen, "seed {seed}");
        }
    }

    #[test]
    fn what_was_painted_on_somebodys_screen_alone_is_drawn_wherever_it_has_gone() {
        const SIDE: u16 = 24;
        for seed in 0..300 {
            let mut rng = Rng::new(seed);
            let mut screen = Framebuffer::new(SIDE, SIDE, 1 << 20).expect("it is small");
            let mut theirs = screen.clone();
            let painted = somewhere(&mut rng, SIDE);
            theirs.fill(painted, 7).expect("it is inside");
            let mut damage = Damage::new();
            for _ in 0..=rng.below(4) {
                let copy = some_copy(&mut rng, SIDE);
                screen.copy(copy.to, copy.x, copy.y).expect("both are inside");
                damage.copy(copy);
            }
            // Without copies it stays painted, as it should.
            let stays = damage.copies().is_empty();
            damage.spoil(&Region::from(painted));
            carry_out(&damage.take(screen.bounds()), &screen, &mut theirs);
            assert_eq!(theirs == screen, !stays, "seed {seed}");
        }
    }

    #[test]
    fn bands_of_one_copy_are_one_again() {
        let up = |bands: &[(u16, u16)]| {
            let mut damage = Damage::new();
            for &(top, rows) in bands {
                damage.copy(copy(rect(0, top, 64, rows), 0, top + 16));
            }
            damage.copies().to_vec()
        };
        assert_eq!(up(&[(0, 32), (32, 32), (64, 8)]), [copy(rect(0, 0, 64, 72), 0, 16)]);
        // From below, the first one writes what the second one reads.
        assert_eq!(up(&[(32, 32), (0, 32)]).len(), 2);
        // Not side by side.
        assert_eq!(up(&[(0, 32), (40, 32)]).len(), 2);
    }

    #[test]
    fn what_is_scattered_is_not_moved_about() {
        let mut damage = Damage::new();
        for n in 0..200 {
            damage.add(rect(n % 20 * 4, n / 20 * 4, 2, 2));
        }
        let before = damage.clone();
        damage.copy(copy(rect(100, 0, 40, 40), 0, 0));
        assert!(damage.copies().is_empty());
        let mut all = before.area();
        all.add(rect(100, 0, 40, 40));
        assert_eq!(damage.area(), all);
    }

    #[test]
    fn copies_that_nobody_asks_for_are_not_kept() {
        let mut damage = Damage::new();
        for n in 0..10_000_u16 {
            damage.copy(copy(rect(n % 7, 0, 20, 20), n % 5 + 8, 3));
            assert!(damage.copies().len() <= MOST_COPIES, "{n}");
        }
        // The last ones are drawn over.
        damage.add(rect(0, 0, 40, 40));
        assert!(damage.take(rect(0, 0, 40, 40)).copies().is_empty());
    }
}
