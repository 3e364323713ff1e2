//! Where the client's pointer is: what lies near it goes first, and never all of the time.

use quickset_rfb::Rect;

/// The pointer, and whose turn it is.
#[derive(Debug, Default)]
pub(super) struct Near {
    pointer: Option<(u16, u16)>,
    /// Messages led by what is near, less three for each that was led by the rest, while both waited.
    ahead: u8,
}

/// What a message is to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Focus {
    /// Near the pointer: whole cells, empty when nobody knows where it is.
    pub(super) area: Rect,
    /// The pixels in there come before the others, or after them.
    pub(super) first: bool,
}

impl Near {
    pub(super) fn point(&mut self, x: u16, y: u16) {
        self.pointer = Some((x, y));
    }

    pub(super) fn pointer(&self) -> Option<(u16, u16)> {
        self.pointer
    }

    /// Whether what is near goes first in a message, as both wait. `led` says whether what is in it already
    /// is near.
    pub(super) fn goes_first(&mut self, led: Option<bool>) -> bool {
        let first = self.ahead < SHARE;
        if led.unwrap_or(first) {
            self.ahead += 1;
        } else {
            self.ahead = self.ahead.saturating_sub(SHARE);
        }
        if led.is_some() { self.ahead < SHARE } else { first }
    }

    /// Not both wait.
    pub(super) fn is_alone(&mut self) {
        self.ahead = 0;
    }
}

impl Focus {
    /// Nobody knows where the pointer is.
    pub(super) const NOWHERE: Self = Self { area: Rect::EMPTY, first: false };

    /// What of a rectangle lies near.
    pub(super) fn inside(&self, rect: Rect) -> Option<Rect> {
        Some(rect.intersection(self.area)).filter(|r| !r.is_empty())
    }

    /// What of it does not: above, left, right and below.
    pub(super) fn outside(&self, rect: Rect) -> impl Iterator<Item = Rect> + use<> {
        let hole = rect.intersection(self.area);
        let parts = if hole.is_empty() {
            [rect, Rect::EMPTY, Rect::EMPTY, Rect::EMPTY]
        } else {
            [
                Rect::between(rect.left(), rect.top(), rect.right(), hole.top()),
                Rect::between(rect.left(), hole.top(), hole.left(), hole.bottom()),
                Rect::between(hole.right(), hole.top(), rect.right(), hole.bottom()),
                Rect::between(rect.left(), hole.bottom(), rect.right(), rect.bottom()),
            ]
        };
        parts.into_iter().filter(|part| !part.is_empty())
    }
}

/// DT-49: after so many messages with what is near, one with something else.
const SHARE: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_has_one_message_in_four() {
        // DT-49: whatever is in a message before it is asked, in every stretch.
        let mut state = 0x2545_f491_u32;
        let mut near = Near::default();
        let mut led = Vec::new();
        for _ in 0..10_000 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // A piece that did not fit is near only where the message before had something near in it.
            let was_near = led.last().copied().unwrap_or(true);
            let spare = (state >> 28 == 0).then_some(was_near);
            let first = near.goes_first(spare);
            led.push(spare.unwrap_or(first));
        }
        for stretch in led.windows(16) {
            assert!(stretch.iter().filter(|near| !**near).count() >= 3, "{stretch:?}");
        }
        let share = led.iter().filter(|near| !**near).count();
        assert!((2500..3500).contains(&share), "three of four are near: {share}");
    }

    #[test]
    fn a_rectangle_is_what_lies_near_and_the_rest() {
        let bounds = Rect::sized(100, 80);
        for area in [Rect::EMPTY, Rect::between(16, 16, 48, 32), Rect::between(80, 64, 100, 80), bounds] {
            let focus = Focus { area, first: true };
            for rect in [bounds, Rect::between(20, 20, 30, 30), Rect::between(0, 20, 100, 21)] {
                let parts: Vec<Rect> = focus.inside(rect).into_iter().chain(focus.outside(rect)).collect();
                let sum: usize = parts.iter().map(|part| part.area()).sum();
                assert_eq!(sum, rect.area(), "{rect:?} near {area:?}: {parts:?}");
                for (i, part) in parts.iter().enumerate() {
                    assert!(rect.contains(*part) && parts[..i].iter().all(|other| !other.meets(*part)));
                }
                assert!(focus.outside(rect).all(|part| !part.meets(area)));
            }
        }
    }
}
