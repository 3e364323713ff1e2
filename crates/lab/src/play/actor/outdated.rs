use quickset_base::number::Unsigned;

/// Knows what of each message can still be seen, and which are covered whole by newer ones.
///
/// A viewer that draws no pixel older than the one that it shows needs just those of which something is seen:
/// of every pixel the newest message is never among the covered.
#[derive(Debug)]
pub(super) struct OutdatedMessages<T> {
    /// Messages in order of age, oldest first, with the parts that can be seen: these never overlap.
    alive: Vec<(T, Vec<CoveredArea>)>,
}

/// x, y, width, height.
pub(super) type CoveredArea = [u16; 4];

impl<T> Default for OutdatedMessages<T> {
    fn default() -> Self {
        Self { alive: Vec::new() }
    }
}

impl<T: Copy + PartialEq> OutdatedMessages<T> {
    /// A new message draws `area`; returns those that nobody needs any more.
    pub(super) fn draw(&mut self, area: CoveredArea, ticket: T) -> Vec<T> {
        let mut covered = Vec::new();
        self.alive.retain_mut(|(older, parts)| {
            if parts.iter().any(|part| overlap(*part, area)) {
                *parts = parts.iter().flat_map(|part| rest(*part, area)).collect();
            }
            if parts.is_empty() {
                covered.push(*older);
            }
            !parts.is_empty()
        });
        self.alive.push((ticket, vec![area]));
        covered
    }

    /// The message has arrived, or was given up.
    pub(super) fn forget(&mut self, ticket: T) {
        self.alive.retain(|(other, _)| *other != ticket);
    }
}

fn overlap([x, y, w, h]: CoveredArea, [ox, oy, ow, oh]: CoveredArea) -> bool {
    let apart = |from: u16, length: u16, other: u16, its: u16| {
        u32::from(from) + u32::from(length) <= u32::from(other)
            || u32::from(other) + u32::from(its) <= u32::from(from)
    };
    !apart(x, w, ox, ow) && !apart(y, h, oy, oh)
}

/// What is seen of `old` behind `new`: above, below, left and right of it.
fn rest(old: CoveredArea, new: CoveredArea) -> impl Iterator<Item = CoveredArea> {
    let [left, top, ..] = old.map(u32::from);
    let (right, bottom) = ends(old);
    let ([x, y, ..], (x_end, y_end)) = (new.map(u32::from), ends(new));
    let parts = if overlap(old, new) {
        let (from, to) = (y.max(top), y_end.min(bottom));
        [
            (left, top, right, from),
            (left, to, right, bottom),
            (left, from, x.max(left), to),
            (x_end.min(right), from, right, to),
        ]
    } else {
        [(left, top, right, bottom), (0, 0, 0, 0), (0, 0, 0, 0), (0, 0, 0, 0)]
    };
    let seen = parts.into_iter().filter(|(left, top, right, bottom)| left < right && top < bottom);
    // They are within `old`, so they fit.
    seen.map(|(left, top, right, bottom)| [left, top, right - left, bottom - top].map(Unsigned::saturated))
}

/// Where an area ends to the right and below.
fn ends([x, y, w, h]: CoveredArea) -> (u32, u32) {
    (u32::from(x) + u32::from(w), u32::from(y) + u32::from(h))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn covered_are_those_without_a_pixel(areas in prop::collection::vec((0u16..12, 0u16..12, 1u16..8, 1u16..8), 1..40)) {
            let mut outdated = OutdatedMessages::default();
            let mut screen = [[None; 20]; 20];
            let mut given_up = std::collections::BTreeSet::new();
            for (n, (x, y, w, h)) in areas.into_iter().enumerate() {
                given_up.extend(outdated.draw([x, y, w, h], n));
                for row in &mut screen[usize::from(y)..usize::from(y + h)] {
                    row[usize::from(x)..usize::from(x + w)].fill(Some(n));
                }
                for older in 0..=n {
                    let seen = screen.iter().flatten().any(|cell| *cell == Some(older));
                    prop_assert_eq!(!seen, given_up.contains(&older), "message {} after {}", older, n);
                }
            }
        }
    }

    #[test]
    fn the_corner_of_the_largest_screen_is_no_trap() {
        let mut outdated = OutdatedMessages::default();
        let max = u16::MAX;
        assert!(outdated.draw([max, max, max, max], 1).is_empty());
        assert!(outdated.draw([0, 0, max, max], 2).is_empty());
        assert_eq!(outdated.draw([0, 0, max, max], 3), [2]);
        outdated.forget(1);
        assert!(outdated.draw([max, max, max, max], 4).is_empty());
    }
}
