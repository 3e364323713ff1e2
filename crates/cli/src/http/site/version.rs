//! What the system knows of a file that is another when its bytes are, and the validators that come of it
//! (RFC 9110 §8.8).
//!
//! The time at which a file was written is no more than what whoever wrote it says: packagers set it to the
//! same moment for all files, and copies bring that of the original along. So the tag is also of when the
//! system itself has last changed the file or put it at its place, and of which file it is. And a clock tells
//! two changes apart only if there is a tick between them.

use std::fmt::Write as _;
use std::fs::Metadata;
use std::time::{Duration, SystemTime};

use aws_lc_rs::digest::{SHA256, digest};

use super::condition::{Dates, Selected};

/// Which file it is, and in which state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileVersion {
    /// The file system and the file.
    number: (u64, u64),
    len: u64,
    /// When it was written, as it says itself; in nanoseconds since 1970, below zero before.
    modified: i128,
    /// When the system changed it last: its bytes, its times, or its name.
    changed: i128,
    /// Names that it has.
    links: u64,
}

impl FileVersion {
    #[cfg(unix)]
    pub(super) fn of(metadata: &Metadata) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        let since = |seconds: i64, nanoseconds: i64| i128::from(seconds) * SECOND + i128::from(nanoseconds);
        Self {
            number: (metadata.dev(), metadata.ino()),
            len: metadata.len(),
            modified: since(metadata.mtime(), metadata.mtime_nsec()),
            changed: since(metadata.ctime(), metadata.ctime_nsec()),
            links: metadata.nlink(),
        }
    }

    /// Without numbers of files, and times of changes, those that are alike in all else are told apart by
    /// when they were made.
    #[cfg(not(unix))]
    pub(super) fn of(metadata: &Metadata) -> Self {
        let modified = metadata.modified().map_or(0, nanoseconds);
        let made = metadata.created().map_or(modified, nanoseconds);
        Self { number: (0, 0), len: metadata.len(), modified, changed: made.max(modified), links: 1 }
    }

    /// In bytes.
    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// Whether nobody has written to a file of this version, which is open, until it was of that one. That it
    /// was changed is no sign of it where it has more names, or fewer: another file was put in its place, or
    /// it was linked to.
    pub(super) fn has_bytes_of(&self, later: &Self) -> bool {
        let of = |version: &Self| (version.number, version.len, version.modified);
        of(self) == of(later) && (self.changed == later.changed || self.links != later.links)
    }

    /// The validators at this time, of the file as it is encoded.
    pub(super) fn select(&self, coding: Option<&str>, now: SystemTime) -> Selected {
        let now = nanoseconds(now);
        let coding = coding.map_or(String::new(), |name| format!("-{name}"));
        // §8.8.2.1: a time to come is none at which it was written. The clock was wrong then, or is.
        let modified = if self.modified > now { self.changed } else { self.modified };
        let last = modified.max(self.changed);
        let is_a_time = modified > NO_TIME && modified != ZIP_EPOCH && modified < END_OF_DATES;
        // §8.8.2.2: it may change once more within this second, and then the date would be that of two
        // versions.
        let is_over = last.div_euclid(SECOND) < now.div_euclid(SECOND);
        Selected {
            etag: format!("\"{}{coding}\"", self.tag(now)),
            dates: (is_a_time && is_over).then(|| Dates { modified: date(modified), changed: date(last) }),
            len: self.len,
        }
    }

    /// Whether all that [`select`](Self::select) says of it is what it says from now on: no other version can
    /// look the same, and its dates are over.
    pub(super) fn is_settled(&self, now: SystemTime) -> bool {
        let (now, last) = (nanoseconds(now), self.modified.max(self.changed));
        self.changed + self.tick() <= now && last.div_euclid(SECOND) < now.div_euclid(SECOND)
    }

    /// Whether its tag is one that the same version has from now on.
    #[cfg(unix)]
    pub(super) fn rests(&self, now: SystemTime) -> bool {
        self.changed + self.tick() <= nanoseconds(now)
    }

    /// How long it takes until another change has another time.
    fn tick(&self) -> i128 {
        if self.changed % SECOND == 0 { LONG_TICK } else { TICK }
    }

    /// Nobody can tell from it what the numbers of the file are.
    fn tag(&self, now: i128) -> String {
        let Self { number, len, modified, changed, .. } = *self;
        let mut text = format!("{number:?} {len} {modified} {changed}");
        if changed + self.tick() > now {
            // It may change again before the clock ticks: this is the tag of one answer, which no other has.
            let _ = write!(text, " {now}");
        }
        let digest = digest(&SHA256, text.as_bytes());
        let half = digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes");
        format!("{:032x}", u128::from_be_bytes(*half))
    }
}

/// Since 1970; below zero before.
fn nanoseconds(time: SystemTime) -> i128 {
    // A time of the system is 64 bits of seconds.
    let signed = |time: Duration| i128::try_from(time.as_nanos()).unwrap_or(i128::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => signed(since),
        Err(before) => -signed(before.duration()),
    }
}

/// To the second, which is what dates of HTTP tell. Behind 1970.
fn date(time: i128) -> SystemTime {
    let seconds = u64::try_from(time.div_euclid(SECOND)).unwrap_or_default();
    SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
}

const SECOND: i128 = 1_000_000_000;

/// What is written for want of a time: nothing, or the second of packages that are built to be the same each
/// time. A date that long ago would have caches keep the file for years.
const NO_TIME: i128 = 2 * SECOND - 1;

/// The same in archives that have no earlier one: 1980.
const ZIP_EPOCH: i128 = 315_532_800 * SECOND;

/// The year 10,000, of which HTTP has no dates any more (§5.6.7).
const END_OF_DATES: i128 = 253_402_300_800 * SECOND;

/// Between two times that a file system can tell apart: Linux has them from its timer, of 10 ms at most.
pub(super) const TICK: i128 = 20_000_000;

/// The same where they have no parts of a second: FAT has two of them.
const LONG_TICK: i128 = 2 * SECOND;

#[cfg(test)]
mod tests {
    use super::*;

    const AT: i128 = 1_700_000_000 * SECOND + 123_456_789;

    fn version() -> FileVersion {
        FileVersion { number: (7, 42), len: 4, modified: AT, changed: AT, links: 1 }
    }

    fn time(nanoseconds: i128) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(nanoseconds).unwrap())
    }

    #[test]
    fn another_version_has_another_tag() {
        let tag = |version: FileVersion| version.select(None, time(AT + 100 * SECOND)).etag;
        let same = tag(version());
        assert_eq!(tag(version()), same);
        assert_eq!(same.len(), 34, "{same}");
        for other in [
            FileVersion { number: (8, 42), ..version() },
            FileVersion { number: (7, 43), ..version() },
            FileVersion { len: 5, ..version() },
            FileVersion { modified: SECOND, ..version() },
            FileVersion { changed: AT + 1, ..version() },
        ] {
            assert_ne!(tag(other), same, "{other:?}");
        }
        assert_ne!(version().select(Some("gzip"), time(AT + 100 * SECOND)).etag, same);
    }

    #[test]
    fn what_is_written_to_has_other_bytes() {
        let before = version();
        for (later, same) in [
            (before, true),
            (FileVersion { changed: AT + 1, links: 0, ..before }, true),
            (FileVersion { changed: AT + 1, links: 2, ..before }, true),
            // Its time may have been set back.
            (FileVersion { changed: AT + 1, ..before }, false),
            (FileVersion { modified: AT + 1, changed: AT + 1, ..before }, false),
            (FileVersion { modified: AT + 1, changed: AT + 1, links: 0, ..before }, false),
            (FileVersion { len: 5, changed: AT + 1, links: 0, ..before }, false),
            (FileVersion { number: (7, 43), ..before }, false),
        ] {
            assert_eq!(before.has_bytes_of(&later), same, "{later:?}");
        }
    }

    /// Before the clock ticks another version may come that looks the same.
    #[test]
    fn a_tag_within_a_tick_is_of_one_answer() {
        let tag = |changed: i128, later: i128| {
            let version = FileVersion { changed, ..version() };
            version.select(None, time(changed + later)).etag
        };
        let rested = tag(AT, 100 * SECOND);
        let young = [0, 1, TICK - 1].map(|later| tag(AT, later));
        assert!(young[0] != young[1] && !young.contains(&rested), "{young:?}");
        assert_eq!(tag(AT, TICK), rested);
        // The clock goes back: nothing is certain before that time has come again.
        assert_ne!(tag(AT, -SECOND), rested);
        // A file system of whole seconds.
        let whole = AT - AT % SECOND;
        assert_ne!(tag(whole, SECOND), tag(whole, 100 * SECOND));
        assert_eq!(tag(whole, LONG_TICK), tag(whole, 100 * SECOND));
    }

    #[test]
    fn dates_are_of_the_past_and_of_one_version() {
        let modified = |modified: i128, now: i128| {
            let version = FileVersion { modified, ..version() };
            version.select(None, time(now)).dates.map(|dates| dates.modified)
        };
        let (now, second) = (AT + 100 * SECOND, AT.div_euclid(SECOND) * SECOND);
        assert_eq!(modified(AT, now), Some(time(second)));
        // Within the second it may change again.
        assert_eq!(modified(AT, second + SECOND - 1), None);
        assert_eq!(modified(AT, second + SECOND), Some(time(second)));
        // It says so itself, and it cannot be.
        assert_eq!(modified(now + SECOND, now), Some(time(second)), "when it was put there");
        for no_time in [i128::MIN / 2, -1, 0, SECOND, 2 * SECOND - 1, ZIP_EPOCH] {
            assert_eq!(modified(no_time, now), None, "{no_time}");
        }
        assert_eq!(modified(2 * SECOND, now), Some(time(2 * SECOND)));
    }

    /// Of a version that is settled the same is said at all later times.
    #[test]
    fn what_is_said_of_a_settled_version_stays() {
        let offsets = [-SECOND, -1, 0, 1, TICK - 1, TICK, SECOND, LONG_TICK, 3 * SECOND];
        for (modified, changed) in offsets.iter().flat_map(|a| offsets.map(|b| (AT + a, AT + b))) {
            let version = FileVersion { modified, changed, ..version() };
            let said = |now: i128| {
                let Selected { etag, dates, len } = version.select(None, time(now));
                (etag, dates, len)
            };
            let last = said(AT + 100 * SECOND);
            for now in offsets.map(|now| AT + now).into_iter().filter(|now| version.is_settled(time(*now))) {
                assert_eq!(said(now), last, "{modified} {changed} at {now}");
            }
            assert!(version.is_settled(time(AT + 10 * SECOND)));
            assert!(!version.is_settled(time(changed)) && !version.is_settled(time(modified)));
        }
    }
}
