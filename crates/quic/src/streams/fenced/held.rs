use std::collections::{BTreeMap, VecDeque};

use quickset_base::Time;

use super::bundle::{FULL, RunBundle};
use super::partial::CompleteRun;

/// Complete records behind a fence, by fence and order of completion (FS-31, FS-32).
///
/// The key of an entry is that of its first run. The runs of a bundle may have several fences, but no run
/// that is elsewhere belongs between two of them.
#[derive(Debug, Default)]
pub(super) struct HeldRecords {
    entries: BTreeMap<(u64, u64), HeldEntry>,
    completions: u64,
}

/// Records that can be read, in order.
#[derive(Debug, Default)]
pub(super) struct ReadyRecords {
    entries: VecDeque<HeldEntry>,
    /// The run that is being read.
    current: Option<CompleteRun>,
    /// Bytes of all of them that connection credit has not counted.
    uncounted: u64,
    /// No record that ends behind this is added.
    end: Option<u64>,
}

#[derive(Debug)]
enum HeldEntry {
    Run(CompleteRun),
    Bundle(RunBundle),
}

impl HeldRecords {
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Keeps a run until its fence is reached.
    ///
    /// With fences inside, its first and its last record may share their segments with records of other
    /// frames, and stand on their own. Those between them are segments of one record each; they are
    /// contiguous, so what frees the first of them frees them all.
    pub(super) fn hold(&mut self, run: CompleteRun) {
        let mut rest = run;
        for fence in rest.fences_inside().into_iter().flatten() {
            let behind = rest.split_off(fence);
            self.insert(rest);
            rest = behind;
        }
        self.insert(rest);
    }

    /// Moves what has its fence at or below `low` to `ready`.
    pub(super) fn release(&mut self, low: u64, now: Time, ready: &mut ReadyRecords) {
        while let Some(first) = self.entries.first_entry() {
            if first.key().0 > low {
                return;
            }
            match first.remove() {
                HeldEntry::Run(run) => ready.push(CompleteRun { released: now, ..run }),
                HeldEntry::Bundle(mut bundle) => {
                    let above = bundle.split_above(low);
                    while let Some(run) = bundle.pop() {
                        ready.push(CompleteRun { released: now, ..run });
                    }
                    self.keep(above);
                }
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.entries.clear();
    }

    /// The lowest fence that something waits for.
    pub(super) fn first_fence(&self) -> Option<u64> {
        self.entries.first_key_value().map(|(key, _)| key.0)
    }

    /// Puts a run without fences inside behind all that have its fence or a lower one.
    fn insert(&mut self, run: CompleteRun) {
        self.completions += 1;
        let mut key = (run.fence, self.completions);
        let mut above = None;
        let mut placed = false;
        if let Some((&before, HeldEntry::Bundle(bundle))) = self.entries.range_mut(..key).next_back() {
            if bundle.last_fence() > run.fence {
                above = Some(bundle.split_above(run.fence));
            }
            if RunBundle::suits(&run) && !bundle.is_full() {
                bundle.push(&run);
                key = before;
                placed = true;
            }
        }
        if let Some(above) = above {
            self.keep(above);
        }
        if !placed {
            let small = RunBundle::suits(&run);
            let entry =
                if small { HeldEntry::Bundle(RunBundle::of(&run)) } else { HeldEntry::Run(run.copied()) };
            self.entries.insert(key, entry);
        }
        self.join(key);
    }

    /// Puts back the rest of a bundle from some fence on: all with that fence are in here or behind it, so
    /// nothing was completed before its first run.
    fn keep(&mut self, rest: RunBundle) {
        let Some(fence) = rest.first_fence() else { return };
        self.entries.insert((fence, 0), HeldEntry::Bundle(rest));
    }

    /// Makes one of neighbours that are small, around an entry that was put in and what was split by that:
    /// any two bundles side by side hold a good deal then.
    fn join(&mut self, key: (u64, u64)) {
        let before = self.entries.range(..key).next_back().map(|(&before, _)| before);
        let mut at = Some(before.unwrap_or(key));
        for _ in 0..4 {
            let Some(key) = at else { return };
            let mut pair = self.entries.range_mut(key..);
            let (Some((_, entry)), Some((&next, other))) = (pair.next(), pair.next()) else { return };
            at = Some(next);
            if let (HeldEntry::Bundle(bundle), HeldEntry::Bundle(other)) = (entry, other) {
                if bundle.size() + other.size() <= FULL {
                    bundle.append(std::mem::take(other));
                    self.entries.remove(&next);
                    at = Some(key);
                }
            }
        }
    }

    pub(super) fn held_bytes(&self) -> usize {
        self.entries.values().map(HeldEntry::held_bytes).sum()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory, about.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let heap: usize = self.entries.values().map(HeldEntry::heap).sum();
        // The nodes of a B-tree are at least half full.
        heap + self.entries.len() * 2 * size_of::<((u64, u64), HeldEntry)>()
    }
}

impl ReadyRecords {
    pub(super) fn is_empty(&self) -> bool {
        self.current.is_none() && self.entries.is_empty()
    }

    /// Adds a run behind the others.
    pub(super) fn push(&mut self, mut run: CompleteRun) {
        if self.end.is_some_and(|end| !run.keep_until(end)) {
            return;
        }
        self.uncounted += run.uncounted();
        if !RunBundle::suits(&run) {
            self.entries.push_back(HeldEntry::Run(run.unpinned()));
            return;
        }
        match self.entries.back_mut() {
            Some(HeldEntry::Bundle(bundle)) if !bundle.is_full() => bundle.push(&run),
            _ => self.entries.push_back(HeldEntry::Bundle(RunBundle::of(&run))),
        }
    }

    /// From now on, only records that end at or below `end` are added.
    pub(super) fn end_at(&mut self, end: u64) {
        self.end = Some(end);
    }

    /// The run to read from, until [`done`](Self::done).
    pub(super) fn first(&mut self) -> Option<&mut CompleteRun> {
        if self.current.is_none() {
            self.current = match self.entries.front_mut()? {
                HeldEntry::Bundle(bundle) => {
                    let run = bundle.pop();
                    if bundle.is_empty() {
                        self.entries.pop_front();
                    }
                    run
                }
                HeldEntry::Run(_) => match self.entries.pop_front() {
                    Some(HeldEntry::Run(run)) => Some(run),
                    _ => None,
                },
            };
        }
        self.current.as_mut()
    }

    /// `counted` bytes of the first run were read that connection credit counts now; with `last`, all of it
    /// was.
    pub(super) fn done(&mut self, counted: u64, last: bool) {
        self.uncounted -= counted;
        if last {
            self.current = None;
            if self.entries.is_empty() && self.entries.capacity() > SPARE {
                self.entries = VecDeque::new();
            }
        }
    }

    /// Bytes on the stream that connection credit has not counted.
    pub(super) fn uncounted(&self) -> u64 {
        self.uncounted
    }

    pub(super) fn held_bytes(&self) -> usize {
        let current = self.current.as_ref().map_or(0, CompleteRun::held_bytes);
        current + self.entries.iter().map(HeldEntry::held_bytes).sum::<usize>()
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        usize::from(self.current.is_some()) + self.entries.len()
    }

    /// Bytes of memory, about.
    #[cfg(test)]
    pub(super) fn memory(&self) -> usize {
        let heap: usize = self.entries.iter().map(HeldEntry::heap).sum();
        heap + self.entries.capacity() * size_of::<HeldEntry>()
    }
}

/// Room for so many entries is kept when there are none.
const SPARE: usize = 32;

impl HeldEntry {
    fn held_bytes(&self) -> usize {
        match self {
            Self::Run(run) => run.held_bytes(),
            Self::Bundle(bundle) => bundle.held_bytes(),
        }
    }

    /// With 16 bytes for what an allocation costs.
    #[cfg(test)]
    fn heap(&self) -> usize {
        16 + match self {
            Self::Run(run) => run.held_bytes(),
            Self::Bundle(bundle) => bundle.capacity(),
        }
    }
}
