use std::collections::BTreeMap;
use std::iter::Peekable;
use std::ops::Range;

/// What the frames of a stream said of its fences: where some are, and where none is.
///
/// A frame without EACH from a to b with the fence F says: F is one, none lies strictly between F and
/// b. With EACH each record boundary inside is one. Facts that contradict each other are the peer's
/// fault, in whatever order they came (FS-62 7).
#[derive(Debug, Default)]
pub(super) struct StreamFences(BTreeMap<u64, Zone>);

/// The key of a zone is a fence, `last` is one as well; those between them, if any, are record boundaries
/// that are not kept, each of an EACH frame, or some of records that are done with; behind `last` there is
/// none before `reach`.
#[derive(Clone, Copy, Debug)]
struct Zone {
    last: u64,
    reach: u64,
}

/// Two facts that cannot both be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict;

impl StreamFences {
    /// `fence` is one, and there is none strictly between it and `reach`.
    pub(super) fn claim(&mut self, fence: u64, reach: u64) -> Result<(), Conflict> {
        let mut known = false;
        if let Some((_, zone)) = self.0.range(..=fence).next_back() {
            if fence < zone.last {
                // Inside an EACH frame that was received: what can be told is that `last` is a fence.
                return if reach <= zone.last { Ok(()) } else { Err(Conflict) };
            }
            known = fence == zone.last;
            if !known && fence < zone.reach {
                return Err(Conflict);
            }
        }
        if let Some((&next, _)) = self.0.range(fence + 1..).next() {
            if reach > next {
                return Err(Conflict);
            }
        }
        if known {
            let (_, zone) = self.0.range_mut(..=fence).next_back().expect("it was just found");
            zone.reach = zone.reach.max(reach);
        } else {
            self.0.insert(fence, Zone { last: fence, reach });
        }
        Ok(())
    }

    /// What an EACH frame says beyond its first record: all of `boundaries`, the first and last of which
    /// are `first` and `last`, are fences; there is none between two of them or between `last` and `reach`.
    pub(super) fn claim_each(
        &mut self,
        first: u64,
        last: u64,
        reach: u64,
        boundaries: &(impl Iterator<Item = u64> + Clone),
    ) -> Result<(), Conflict> {
        let mut key = first;
        let mut run = (last, reach);
        let mut each = EachFences { first, last, reach, boundaries: boundaries.clone().peekable() };
        if let Some((&k, &zone)) = self.0.range(..first).next_back() {
            if zone.last >= first {
                // Two EACH frames that overlap: one run of fences.
                each.agree(k, zone)?;
                key = k;
                run = later(run, (zone.last, zone.reach));
            } else if zone.reach > first {
                return Err(Conflict);
            }
        }
        for (&k, &zone) in self.0.range(first..reach) {
            each.agree(k, zone)?;
        }
        while let Some((&k, &zone)) = self.0.range(key..reach).next() {
            run = later(run, (zone.last, zone.reach));
            self.0.remove(&k);
        }
        self.0.insert(key, Zone { last: run.0, reach: run.1 });
        Ok(())
    }

    /// Forgets what lies below `low`, except the last fence at or before it.
    #[inline]
    pub(super) fn trim(&mut self, low: u64) {
        while self.0.len() > 1 {
            let second = self.0.keys().nth(1);
            if second.is_none_or(|&k| k > low) {
                return;
            }
            self.0.pop_first();
        }
    }

    /// The records of `range` are all done with: where fences lie between them matters no more (FS-63), so a
    /// peer that fences each record does not make us keep an entry for each.
    pub(super) fn join(&mut self, range: Range<u64>) {
        let mut keys = self.0.range(range.clone()).map(|(&key, _)| key);
        let Some(first) = keys.next() else { return };
        while let Some((&key, &zone)) = self.0.range(first + 1..range.end.max(first + 1)).next() {
            self.0.remove(&key);
            self.0.insert(first, zone);
        }
    }

    /// Bytes of memory, about: nodes are at least half full.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        self.0.len() * 2 * size_of::<(u64, Zone)>()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The exact fences of an EACH frame.
struct EachFences<I: Iterator<Item = u64>> {
    first: u64,
    last: u64,
    reach: u64,
    /// Those that no zone has passed.
    boundaries: Peekable<I>,
}

impl<I: Iterator<Item = u64>> EachFences<I> {
    /// Whether a zone that is known can be true beside them. Zones come in order: a frame may have tens of
    /// thousands of records and lie over a thousand zones, so that who looked through it for each would be
    /// kept busy by a few frames.
    fn agree(&mut self, key: u64, zone: Zone) -> Result<(), Conflict> {
        let begins = key < self.first || self.next_from(key) == Some(key);
        let ends = if zone.last > self.last {
            zone.last >= self.reach
        } else {
            self.next_from(zone.last) == Some(zone.last)
        };
        let free = self.next_from(zone.last + 1).is_none_or(|next| next >= zone.reach);
        if begins && ends && free { Ok(()) } else { Err(Conflict) }
    }

    /// The first of them at `from` or behind.
    fn next_from(&mut self, from: u64) -> Option<u64> {
        while self.boundaries.next_if(|at| *at < from).is_some() {}
        self.boundaries.peek().copied()
    }
}

/// Of two runs of fences, where the later one ends and how far it reaches.
fn later(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    match a.0.cmp(&b.0) {
        std::cmp::Ordering::Less => b,
        std::cmp::Ordering::Greater => a,
        std::cmp::Ordering::Equal => (a.0, a.1.max(b.1)),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use quickset_base::{Rng, Seed};

    use super::*;

    /// The same by looking at all boundaries for each zone.
    fn agrees(known: &BTreeMap<u64, Zone>, first: u64, last: u64, reach: u64, boundaries: &[u64]) -> bool {
        let fits = |key: u64, zone: &Zone| {
            let begins = key < first || boundaries.contains(&key);
            let ends = if zone.last > last { zone.last >= reach } else { boundaries.contains(&zone.last) };
            begins && ends && !boundaries.iter().any(|b| *b > zone.last && *b < zone.reach)
        };
        let before = known.range(..first).next_back();
        before
            .is_none_or(|(key, zone)| if zone.last < first { zone.reach <= first } else { fits(*key, zone) })
            && known.range(first..reach).all(|(key, zone)| fits(*key, zone))
    }

    #[test]
    fn facts_agree_as_if_each_was_held_against_all() {
        let mut rng = Rng::new(Seed([5; 32]));
        let (mut good, mut bad) = (0, 0);
        for _ in 0..3000 {
            let mut fences = StreamFences::default();
            // The fences that there are, so that what is said of them is mostly true.
            let all: Vec<u64> = (0..60).filter(|_| rng.chance(0.4)).collect();
            for _ in 0..12 {
                let mut claimed = all.clone();
                if rng.chance(0.1) {
                    claimed.retain(|_| rng.chance(0.9));
                }
                let at = rng.below(claimed.len().max(1) as u64) as usize;
                let Some(&first) = claimed.get(at) else { continue };
                let boundaries = &claimed[at..claimed.len().min(at + 1 + rng.below(12) as usize)];
                let last = *boundaries.last().expect("one at least");
                let next = claimed.iter().find(|fence| **fence > last).copied().unwrap_or(60);
                let reach = last + 1 + rng.below(next - last);
                if rng.chance(0.5) {
                    let _ = fences
                        .claim(first, first + rng.below(claimed.get(at + 1).map_or(1, |n| n - first + 1)));
                    continue;
                }
                let expected = agrees(&fences.0, first, last, reach, boundaries);
                let got = fences.claim_each(first, last, reach, &boundaries.iter().copied());
                assert_eq!(got.is_ok(), expected, "{first} to {last}, {reach}: {boundaries:?} in {fences:?}");
                if expected { good += 1 } else { bad += 1 }
            }
        }
        assert!(good > 1000 && bad > 100, "{good} {bad}");
    }

    /// A frame of ten thousand records over a thousand zones looks at each record a few times, and not a
    /// thousand.
    #[test]
    fn a_frame_over_many_zones_is_gone_through_once() {
        let mut fences = StreamFences::default();
        (0..1000).for_each(|n| fences.claim(20 * n, 20 * n + 2).expect("they are apart"));
        let looks = Cell::new(0);
        let boundaries = (0..10_000).map(|n| 2 * n).inspect(|_| looks.set(looks.get() + 1));
        fences.claim_each(0, 19_998, 20_000, &boundaries).expect("each zone begins at a record");
        assert_eq!(fences.len(), 1);
        assert!(looks.get() <= 20_000, "{} records were looked at", looks.get());
    }
}
