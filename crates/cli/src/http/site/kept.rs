//! Small files that were asked for a moment ago: they are answered from memory, with one look at the file for
//! each answer.
//!
//! A file is kept with its version, and only once that can no longer be mistaken for the next. Whoever asks
//! has the name looked up anew, links and all: what is there now has to be of this version, so that a file
//! that was written, replaced, removed, or made unreadable, and a root that was turned to another folder, are
//! seen at once. What that look does not tell is whether the way still stays below the root, and whether
//! something better lies beside the file: this is found out again every second by the way that files go which
//! are not kept.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use quickset::Budget;
use quickset::h3::Request;
use quickset_base::number::Unsigned;

use super::condition::RequestConditions;
use super::representation::Representation;
use super::reserve::{self, Reserve, ReserveSpare};
use super::version::FileVersion;
use super::{AnswerContent, FileAnswer};

/// What is kept, for as much of the memory as it may take.
#[derive(Debug)]
pub(super) struct FileShelf(Mutex<KeptTable>);

#[derive(Debug)]
struct KeptTable {
    entries: BTreeMap<KeptKey, Arc<KeptFile>>,
    reserve: Reserve,
    /// When what is too old was taken out last.
    swept: Option<Instant>,
}

/// What an answer goes by but for conditions: the path, and the codings that are taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KeptKey {
    path: Bytes,
    codings: Option<Bytes>,
}

/// A file with all that is said of it.
#[derive(Debug)]
pub(super) struct KeptFile {
    /// By the name by which it is found, of the coding that was chosen.
    pub(super) place: PathBuf,
    pub(super) version: FileVersion,
    pub(super) representation: Representation,
    pub(super) content: Bytes,
    pub(super) since: Instant,
    /// Somebody looks for it anew.
    pub(super) is_renewed: AtomicBool,
}

impl KeptKey {
    /// None for what is too long to be kept, or said in several lines.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let path = request.path.as_ref()?;
        let end = path.iter().position(|b| *b == b'?').unwrap_or(path.len());
        let mut lines = request.fields.iter().filter(|field| field.name == "accept-encoding");
        let (codings, None) = (lines.next().map(|line| line.value.clone()), lines.next()) else {
            return None;
        };
        let key = Self { path: path.slice(..end), codings };
        (key.len() <= MAX_KEY).then_some(key)
    }

    fn len(&self) -> usize {
        self.path.len() + self.codings.as_ref().map_or(0, Bytes::len)
    }

    /// Without what else came with the request.
    fn alone(&self) -> Self {
        let alone = |bytes: &Bytes| Bytes::copy_from_slice(bytes);
        Self { path: alone(&self.path), codings: self.codings.as_ref().map(alone) }
    }
}

impl KeptFile {
    /// The answer to what was asked of it.
    pub(super) fn answer(&self, asked: &RequestConditions<'_>) -> FileAnswer {
        self.representation.answer(asked, |from, len| {
            // It is as long as its content.
            let [from, len] = [from, len].map(Unsigned::saturated::<usize>);
            AnswerContent::Text(self.content.slice(from..from + len))
        })
    }
}

impl FileShelf {
    pub(super) fn new(budget: Budget) -> Self {
        let table = KeptTable { entries: BTreeMap::new(), reserve: Reserve::new(budget, MOST), swept: None };
        Self(Mutex::new(table))
    }

    /// What is kept for a request, if the file is still that one, by the clock of dates and by that of times
    /// between.
    pub(super) fn get(&self, key: &KeptKey, now: SystemTime, at: Instant) -> Option<Arc<KeptFile>> {
        let kept = {
            let mut table = self.table();
            table.give_back();
            table.entries.get(key)?.clone()
        };
        // One of those who ask looks anew, and the others go on with this one meanwhile.
        let age = at.saturating_duration_since(kept.since);
        if age >= 2 * FRESH || (age >= FRESH && !kept.is_renewed.swap(true, Ordering::Relaxed)) {
            return None;
        }
        // The clock was set back: then other dates and tags are said.
        let is_same = kept.version.is_settled(now)
            && kept.place.metadata().is_ok_and(|metadata| FileVersion::of(&metadata) == kept.version);
        is_same.then_some(kept)
    }

    /// Keeps it, if there is room.
    pub(super) fn put(&self, key: &KeptKey, kept: Arc<KeptFile>) {
        let cost = cost(key, &kept);
        let mut table = self.table();
        table.give_back();
        table.remove(key);
        if !table.reserve.take(cost) {
            table.sweep(kept.since);
            if !table.reserve.take(cost) {
                return;
            }
        }
        table.entries.insert(key.alone(), kept);
    }

    /// Gives up all that is kept whenever connections need the memory, and what nobody wants any more, for as
    /// long as this is polled.
    pub(super) async fn tend(&self) {
        reserve::tend(&self.0).await;
    }

    fn table(&self) -> MutexGuard<'_, KeptTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl KeptTable {
    fn remove(&mut self, key: &KeptKey) {
        if let Some(kept) = self.entries.remove(key) {
            self.reserve.give(cost(key, &kept));
        }
    }
}

impl ReserveSpare for KeptTable {
    fn reserve(&mut self) -> &mut Reserve {
        &mut self.reserve
    }

    fn clear(&mut self) {
        self.entries.clear();
    }

    /// What would be looked for anew in any case, once in a while: who asks for more than there is room for
    /// makes nobody search all of it each time.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.saturating_duration_since(swept) < FRESH) {
            return;
        }
        self.swept = Some(now);
        let reserve = &mut self.reserve;
        self.entries.retain(|key, kept| {
            let is_fresh = now.saturating_duration_since(kept.since) < FRESH;
            if !is_fresh {
                reserve.give(cost(key, kept));
            }
            is_fresh
        });
    }
}

fn cost(key: &KeptKey, kept: &KeptFile) -> u64 {
    (ENTRY + 2 * key.len() + kept.content.len()) as u64
}

/// Bytes of a file that is kept at most: a page, a script, an image, but no film.
pub(super) const LARGEST: u64 = 64 << 10;

/// How long a way that was found is taken to lead there.
pub(super) const FRESH: Duration = Duration::from_secs(1);

/// Bytes of all that is kept at most: a thousand pages with what belongs to them.
const MOST: u64 = 64 << 20;

/// Bytes of a path and of codings that are kept at most.
const MAX_KEY: usize = 1024;

/// Bytes that one takes beside its content and its name.
const ENTRY: usize = 1024;
