//! Parts of large files that were read a moment ago, for others who read the same file: at about the same
//! pace they share what one of them has read.
//!
//! A part belongs to a version of its file, and only to one that can no longer be mistaken for the next. Who
//! is given less than half of one shares nothing, so that nobody holds much by taking little.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quickset::Budget;
use quickset_base::number::Unsigned as _;

use super::reserve::{self, Reserve, ReserveSpare};
use super::version::FileVersion;

/// The parts that are kept.
#[derive(Debug)]
pub(super) struct Parts(Mutex<PartsTable>);

#[derive(Debug)]
struct PartsTable {
    parts: BTreeMap<(FileVersion, u64), FilePart>,
    reserve: Reserve,
}

#[derive(Debug)]
struct FilePart {
    bytes: Bytes,
    /// When somebody wanted it last.
    used: Instant,
}

/// Where the bytes lie that somebody wants: in which part of the file, and where in that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    version: FileVersion,
    number: u64,
    /// Bytes of the part.
    pub(super) len: usize,
    from: usize,
    to: usize,
}

impl Slice {
    /// Of up to `len` bytes from `offset` on; `None` where these are not worth to be shared.
    pub(super) fn of(version: FileVersion, offset: u64, len: usize) -> Option<Self> {
        let number = offset / LEN;
        let behind = version.len().checked_sub(number * LEN)?.min(LEN) as usize;
        let from = (offset % LEN) as usize;
        let to = behind.min(from.saturating_add(len));
        let is_much = to.saturating_sub(from) >= LEN.saturated::<usize>() / 2;
        is_much.then_some(Self { version, number, len: behind, from, to })
    }

    /// Where the part begins in the file.
    pub(super) fn offset(&self) -> u64 {
        self.number * LEN
    }

    fn key(&self) -> (FileVersion, u64) {
        (self.version, self.number)
    }

    fn cut(&self, part: &Bytes) -> Bytes {
        part.slice(self.from..self.to)
    }
}

impl Parts {
    pub(super) fn new(budget: Budget) -> Self {
        let table = PartsTable { parts: BTreeMap::new(), reserve: Reserve::new(budget, MOST) };
        Self(Mutex::new(table))
    }

    /// The bytes, if somebody has read them.
    pub(super) fn get(&self, slice: &Slice) -> Option<Bytes> {
        let mut table = self.table();
        let part = table.parts.get_mut(&slice.key())?;
        part.used = Instant::now();
        Some(slice.cut(&part.bytes))
    }

    /// Memory to read a part into, as long as the part, whatever is in it: that of the part that nobody has
    /// wanted for the longest time, where there is no room for one more. `None` where there is no room at
    /// all.
    pub(super) fn room(&self, slice: &Slice) -> Option<BytesMut> {
        let oldest = {
            let mut table = self.table();
            table.give_back();
            if table.reserve.take(LEN) {
                table.reserve.give(LEN);
                Bytes::new()
            } else {
                table.oldest()?
            }
        };
        // Who still sends of it holds it alone from now on.
        let mut room = oldest.try_into_mut().unwrap_or_default();
        room.resize(slice.len, 0);
        Some(room)
    }

    /// Keeps a part that was read, if there is room, and gives what was wanted of it.
    pub(super) fn put(&self, slice: &Slice, part: BytesMut) -> Bytes {
        let part = part.freeze();
        let bytes = slice.cut(&part);
        let mut table = self.table();
        let used = Instant::now();
        // Somebody else may have read it meanwhile.
        if table.parts.contains_key(&slice.key()) || table.reserve.take(LEN) {
            table.parts.insert(slice.key(), FilePart { bytes: part, used });
        }
        bytes
    }

    /// Gives up all that is kept whenever connections need the memory, and what nobody wants any more, for as
    /// long as this is polled.
    pub(super) async fn tend(&self) {
        reserve::tend(&self.0).await;
    }

    fn table(&self) -> MutexGuard<'_, PartsTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartsTable {
    /// Takes out the part that was not wanted for the longest time.
    fn oldest(&mut self) -> Option<Bytes> {
        let oldest = *self.parts.iter().min_by_key(|(_, part)| part.used)?.0;
        self.reserve.give(LEN);
        Some(self.parts.remove(&oldest)?.bytes)
    }
}

impl ReserveSpare for PartsTable {
    fn reserve(&mut self) -> &mut Reserve {
        &mut self.reserve
    }

    fn clear(&mut self) {
        self.parts.clear();
    }

    fn sweep(&mut self, now: Instant) {
        let reserve = &mut self.reserve;
        self.parts.retain(|_, part| {
            let is_wanted = now.saturating_duration_since(part.used) < WANTED;
            if !is_wanted {
                reserve.give(LEN);
            }
            is_wanted
        });
    }
}

/// Bytes of a part: as much as is read at a time for a client of TCP, and four parts are in the cache of a
/// processor.
pub(super) const LEN: u64 = 64 << 10;

/// Bytes of all parts at most: readers may be that far apart, all together.
const MOST: u64 = 16 << 20;

/// How long a part is kept that nobody wants: readers may be that far behind each other.
const WANTED: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};

    use super::*;

    /// Connections need it: all of it is given back, and what is read next is kept again.
    #[tokio::test]
    async fn what_is_recalled_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("file")).unwrap();
        file.set_len(4 * LEN).unwrap();
        let version = FileVersion::of(&file.metadata().unwrap());
        let slices = [0, 1, 2].map(|n| Slice::of(version, n * LEN, LEN as usize).unwrap());
        let budget = Budget::new(PART_OF_BUDGET * 3 * LEN);
        let parts = Parts::new(budget.clone());
        let fill = || {
            for slice in &slices {
                parts.put(slice, parts.room(slice).unwrap());
            }
        };
        fill();
        assert_eq!(budget.usage().held, 3 * LEN);
        let mut clients: Vec<_> = (0..250).map(|n| budget.account(Some([192, 0, 2, n].into()))).collect();
        while clients.iter_mut().all(|client| client.take(4 << 10)) && budget.usage().recalls == 0 {}
        let mut tend = pin!(parts.tend());
        let _ = tend.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let held = clients.iter().map(quickset::Account::held).sum::<u64>();
        assert_eq!((budget.usage().held, budget.usage().recalls), (held, 1));
        assert!(slices.iter().all(|slice| parts.get(slice).is_none()));
        drop(clients);
        fill();
        assert!(slices.iter().all(|slice| parts.get(slice).is_some()));
    }

    /// A server that nobody asks any more is as small as before.
    #[tokio::test(start_paused = true)]
    async fn what_nobody_wants_any_more_is_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("file")).unwrap();
        file.set_len(2 * LEN).unwrap();
        let version = FileVersion::of(&file.metadata().unwrap());
        let slices = [0, 1].map(|n| Slice::of(version, n * LEN, LEN as usize).unwrap());
        let budget = Budget::new(1 << 30);
        let parts = Parts::new(budget.clone());
        for slice in &slices {
            parts.put(slice, parts.room(slice).unwrap());
        }
        let filled = Instant::now();
        parts.table().sweep(filled + WANTED / 2);
        assert_eq!(budget.usage().held, 2 * LEN, "they may come yet");
        parts.table().parts.get_mut(&slices[1].key()).unwrap().used = filled + WANTED;
        parts.table().sweep(filled + WANTED);
        assert!(parts.get(&slices[0]).is_none());
        assert!(parts.get(&slices[1]).is_some());
        assert_eq!(budget.usage().held, LEN);
        // It is swept without anybody who asks.
        parts.table().parts.get_mut(&slices[1].key()).unwrap().used = filled.checked_sub(WANTED).unwrap();
        tokio::select! {
            () = parts.tend() => {}
            () = tokio::time::sleep(reserve::SWEEP * 2) => {}
        }
        assert_eq!(budget.usage().held, 0);
    }

    /// A sixteenth of it is for parts.
    const PART_OF_BUDGET: u64 = 16;

    #[test]
    fn half_a_part_is_shared_and_less_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(folder.path().join("file")).unwrap();
        file.set_len(2 * LEN + LEN / 2 + 7).unwrap();
        let version = FileVersion::of(&file.metadata().unwrap());
        let half = LEN as usize / 2;
        let of = |offset: u64, len: usize| {
            Slice::of(version, offset, len).map(|slice| (slice.number, slice.len, slice.from..slice.to))
        };
        let whole = 2 * half;
        assert_eq!(of(0, whole), Some((0, whole, 0..whole)));
        assert_eq!(of(0, usize::MAX), Some((0, whole, 0..whole)));
        assert_eq!((of(0, half), of(0, half - 1)), (Some((0, whole, 0..half)), None));
        assert_eq!(of(LEN + 7, whole), Some((1, whole, 7..whole)));
        assert_eq!((of(LEN - 1, 1 << 20), of(2 * LEN - LEN / 2 + 1, 1 << 20)), (None, None), "the rest");
        assert_eq!(of(2 * LEN, whole), Some((2, half + 7, 0..half + 7)));
        assert_eq!((of(2 * LEN + 8, whole), of(3 * LEN, whole), of(u64::MAX, whole)), (None, None, None));
    }
}
