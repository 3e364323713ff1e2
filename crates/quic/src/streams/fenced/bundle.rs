use bytes::Bytes;
use quickset_base::Time;

use super::partial::{CompleteRun, RunContent};

/// Small runs in the order in which they are to be delivered, in few bytes more than their own.
///
/// A run costs about 200 bytes of bookkeeping, which is nothing for a packet full of data, and the whole
/// memory of a receiver when a peer sends records of one byte. So small runs are written down one behind the
/// other: what they are, how fence and times differ from those of the run before, and their bytes.
#[derive(Debug, Default)]
pub(super) struct RunBundle {
    bytes: Vec<u8>,
    /// Where the first run that is left begins in `bytes`.
    at: usize,
    /// What the first run that is left is written as a difference to.
    front: BundleMark,
    /// The same for the next run that is added: the last one.
    back: BundleMark,
}

#[derive(Clone, Copy, Debug, Default)]
struct BundleMark {
    fence: u64,
    completed: u64,
    released: u64,
}

/// What stands before the bytes of a run.
struct RunHead {
    mark: BundleMark,
    kind: u64,
    len: usize,
    extra: u64,
}

impl RunBundle {
    /// True when the run is small enough to be bundled.
    pub(super) fn suits(run: &CompleteRun) -> bool {
        run.held_bytes() < SMALL
    }

    /// A bundle of one run.
    pub(super) fn of(run: &CompleteRun) -> Self {
        let mut new = Self::default();
        new.push(run);
        new
    }

    pub(super) fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// True when no more should be added, so that no run costs much to be put between others.
    pub(super) fn is_full(&self) -> bool {
        self.size() >= FULL
    }

    /// Bytes that the runs are written in.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The fence of the first run.
    pub(super) fn first_fence(&self) -> Option<u64> {
        self.cursor().head(self.front).map(|head| head.mark.fence)
    }

    /// The fence of the last run.
    pub(super) fn last_fence(&self) -> u64 {
        self.back.fence
    }

    /// Adds a run behind the others.
    pub(super) fn push(&mut self, run: &CompleteRun) {
        let next = BundleMark {
            fence: run.fence,
            completed: run.completed.as_nanos(),
            released: run.released.as_nanos(),
        };
        let (kind, data, extra) = match &run.content {
            RunContent::Records { data, each: false } => (0, data, None),
            RunContent::Records { data, each: true } => (EACH, data, Some(run.offset - run.fence)),
            RunContent::Whole { payload, size } => (WHOLE, payload, Some(size - payload.len() as u64)),
        };
        // What a fence held is released all at once; what it did not hold, when it was complete.
        let together = if next.released == self.back.released { TOGETHER } else { 0 };
        let blocked = if together == 0 { next.released - next.completed } else { 0 };
        let parts = [
            (FENCE, zigzag(next.fence.wrapping_sub(self.back.fence))),
            (COMPLETED, zigzag(next.completed.wrapping_sub(self.back.completed))),
            (BLOCKED, blocked),
        ];
        let said = parts.iter().filter(|part| part.1 != 0).fold(kind | together, |head, part| head | part.0);
        self.number((data.len() as u64) << FLAGS | said);
        for (_, number) in parts.into_iter().filter(|part| part.1 != 0) {
            self.number(number);
        }
        if let Some(extra) = extra {
            self.number(extra);
        }
        self.back = next;
        self.bytes.extend_from_slice(data);
        if self.is_full() {
            self.bytes.shrink_to_fit();
        }
    }

    /// Takes the first run.
    pub(super) fn pop(&mut self) -> Option<CompleteRun> {
        let mut cursor = self.cursor();
        let RunHead { mark, kind, len, extra } = cursor.head(self.front)?;
        let at = cursor.at;
        let data = Bytes::copy_from_slice(&self.bytes[at..at + len]);
        self.at = at + len;
        self.front = mark;
        let (offset, content) = match kind {
            0 => (mark.fence, RunContent::Records { data, each: false }),
            EACH => (mark.fence + extra, RunContent::Records { data, each: true }),
            _ => (mark.fence, RunContent::Whole { payload: data, size: len as u64 + extra }),
        };
        let (completed, released) = (Time::from_nanos(mark.completed), Time::from_nanos(mark.released));
        Some(CompleteRun { offset, fence: mark.fence, completed, released, content })
    }

    /// Takes off the runs whose fences lie above `fence`.
    pub(super) fn split_above(&mut self, fence: u64) -> Self {
        let mut cursor = self.cursor();
        let (mut at, mut mark) = (self.at, self.front);
        while let Some(head) = cursor.head(mark).filter(|head| head.mark.fence <= fence) {
            cursor.at += head.len;
            (at, mark) = (cursor.at, head.mark);
        }
        let high = Self { bytes: self.bytes[at..].to_vec(), at: 0, front: mark, back: self.back };
        self.bytes.truncate(at);
        self.back = mark;
        high
    }

    /// Adds all runs of another one behind these.
    pub(super) fn append(&mut self, mut other: Self) {
        let Some(first) = other.pop() else { return };
        self.push(&first);
        // The others are written as differences to those before them, which they still follow.
        self.bytes.extend_from_slice(&other.bytes[other.at..]);
        self.back = other.back;
        self.bytes.shrink_to_fit();
    }

    fn cursor(&self) -> BundleCursor<'_> {
        BundleCursor { bytes: &self.bytes, at: self.at }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Bytes of data.
    pub(super) fn held_bytes(&self) -> usize {
        let mut copy = Self { bytes: self.bytes.clone(), ..*self };
        std::iter::from_fn(|| copy.pop()).map(|run| run.held_bytes()).sum()
    }

    /// Seven bits a byte, the lowest first, as 64 bits must fit.
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.bytes.push((n & 0x7f) as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push((n & 0x7f) as u8);
    }
}

/// Reads what was written.
struct BundleCursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl BundleCursor<'_> {
    /// All that stands before the bytes of a run, which follows the one with this mark. `None` at the end.
    fn head(&mut self, before: BundleMark) -> Option<RunHead> {
        if self.at == self.bytes.len() {
            return None;
        }
        let said = self.number();
        let mut part = |flag| if said & flag == 0 { 0 } else { self.number() };
        let [fence, completed, blocked] = [FENCE, COMPLETED, BLOCKED].map(&mut part);
        let fence = before.fence.wrapping_add(unzigzag(fence));
        let completed = before.completed.wrapping_add(unzigzag(completed));
        let released = if said & TOGETHER == 0 { completed + blocked } else { before.released };
        let kind = said & (EACH | WHOLE);
        let extra = if kind == 0 { 0 } else { self.number() };
        Some(RunHead {
            mark: BundleMark { fence, completed, released },
            kind,
            len: (said >> FLAGS) as usize,
            extra,
        })
    }

    fn number(&mut self) -> u64 {
        let (mut n, mut shift) = (0, 0);
        loop {
            let byte = self.bytes[self.at];
            self.at += 1;
            n |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return n;
            }
        }
    }
}

/// Small differences, of either sign, become small numbers.
const fn zigzag(difference: u64) -> u64 {
    (difference << 1) ^ (difference >> 63).wrapping_neg()
}

const fn unzigzag(n: u64) -> u64 {
    (n >> 1) ^ (n & 1).wrapping_neg()
}

// What the head of a run says beside its length: which numbers follow, in this order, those left out being 0;
// whether it was released with the one before; and what it is, other than records without a fence between
// them.
const FENCE: u64 = 1;
const COMPLETED: u64 = 2;
const BLOCKED: u64 = 4;
const TOGETHER: u64 = 8;
const EACH: u64 = 16;
const WHOLE: u64 = 32;
const FLAGS: u32 = 6;

/// Runs of fewer bytes are bundled.
const SMALL: usize = 256;

/// Bytes of a bundle from which on nothing is added.
pub(super) const FULL: usize = 512;
