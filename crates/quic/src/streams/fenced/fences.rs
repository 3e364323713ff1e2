use std::collections::BTreeMap;
use std::ops::Range;

/// What the frames of a stream said of its fences: where some are, and where none is.
///
/// A frame without EACH from a to b with the fence F says: F is one, none lies strictly between F and
/// b. With EACH each record boundary inside is one. Facts that contradict each other are the peer's
/// fault, in whatever order they came (FS-62 7).
#[derive(Debug, Default)]
pub(super) struct Fences(BTreeMap<u64, Zone>);

/// The key of a zone is a fence, `last` is one as well; those between them, if any, are record
/// boundaries that are not kept, each of an EACH frame, or some of records that are done with; behind `last` there is none before `reach`.
#[derive(Clone, Copy, Debug)]
struct Zone {
    last: u64,
    reach: u64,
}

/// Two facts that cannot both be true.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Conflict;

impl Fences {
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
        (first, last, reach): (u64, u64, u64),
        boundaries: &(impl Iterator<Item = u64> + Clone),
    ) -> Result<(), Conflict> {
        let mut key = first;
        let mut run = (last, reach);
        if let Some((&k, &zone)) = self.0.range(..first).next_back() {
            if zone.last >= first {
                // Two EACH frames that overlap: one run of fences.
                agree((k, zone), (first, last, reach), boundaries)?;
                key = k;
                run = later(run, (zone.last, zone.reach));
            } else if zone.reach > first {
                return Err(Conflict);
            }
        }
        for (&k, &zone) in self.0.range(first..reach) {
            agree((k, zone), (first, last, reach), boundaries)?;
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

    /// The records of `range` are all done with: where fences lie between them matters no more (FS-63), so a peer
    /// that fences each record does not make us keep an entry for each.
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

/// Whether a zone that is known and the exact fences of an EACH frame can both be true.
fn agree(
    (key, zone): (u64, Zone),
    (first, last, reach): (u64, u64, u64),
    boundaries: &(impl Iterator<Item = u64> + Clone),
) -> Result<(), Conflict> {
    let is_boundary = |at: u64| boundaries.clone().any(|b| b == at);
    let begins = key < first || is_boundary(key);
    let ends = if zone.last > last { zone.last >= reach } else { is_boundary(zone.last) };
    let free = !boundaries.clone().any(|b| b > zone.last && b < zone.reach);
    if begins && ends && free { Ok(()) } else { Err(Conflict) }
}

/// Of two runs of fences, where the later one ends and how far it reaches.
fn later(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    match a.0.cmp(&b.0) {
        std::cmp::Ordering::Less => b,
        std::cmp::Ordering::Greater => a,
        std::cmp::Ordering::Equal => (a.0, a.1.max(b.1)),
    }
}
