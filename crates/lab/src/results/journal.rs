use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use quickset_base::number::Unsigned as _;
use serde::{Deserialize, Serialize};

use super::{Row, sort, write_tables};
use crate::plan::Shard;

/// The rows of an experiment on disk, a line each, appended as runs end. As long as it is open nobody else
/// can write it; who only reads is not kept from it.
#[derive(Debug)]
pub struct Journal {
    hold: Hold,
    /// Where the last whole line ends.
    end: u64,
    rows: Vec<Row>,
    known: BTreeSet<String>,
}

/// A journal that nobody else can write.
#[derive(Debug)]
pub(super) struct Hold {
    file: File,
    path: PathBuf,
}

/// The first line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct JournalHeader {
    /// The version of the format.
    #[serde(rename = "quickset-lab")]
    version: u32,
    pub(super) experiment: String,
    pub(super) commit: String,
}

/// Why a journal cannot be used: one sentence with the next step.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file system says no.
    #[error("{path} cannot be {doing}: {error}")]
    Io {
        /// The file.
        path: String,
        /// What was tried.
        doing: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// Somebody else has it open.
    #[error("another run writes to {0}; choose another directory with -o, or wait until it is done")]
    Busy(String),
    /// It is something else.
    #[error("{0} is not a journal of results; choose another directory with -o")]
    Foreign(String),
    /// It is of another version.
    #[error(
        "{path} has results of format {found}, and this is format {VERSION}; choose another directory with -o, or move the file away"
    )]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: u32,
    },
    /// It belongs to another experiment.
    #[error("{path} has results of the experiment {found}; choose another directory with -o")]
    Experiment {
        /// The file.
        path: String,
        /// Its experiment.
        found: String,
    },
    /// It was made by another build.
    #[error(
        "{path} has results of commit {found}, and this is {ours}; choose another directory with -o, or --fresh to begin anew"
    )]
    Commit {
        /// The file.
        path: String,
        /// Its commit.
        found: String,
        /// This build's.
        ours: String,
    },
    /// A line is damaged.
    #[error("line {line} of {path} cannot be read: {why}; delete the line and run again")]
    Line {
        /// The file.
        path: String,
        /// Counted from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
}

impl Journal {
    /// Opens the journal of `experiment` at `path`, or begins one; with `fresh` always begins one, in place
    /// of a journal of this experiment, whatever is wrong with it, and of nothing else. The end of a line
    /// that was being written when a run was killed is dropped.
    ///
    /// # Errors
    /// See [`JournalError`].
    pub fn open(path: &Path, experiment: &str, commit: &str, fresh: bool) -> Result<Self, JournalError> {
        // Before anything is cut off: it may be the line that another run is writing.
        let mut hold = Hold::take(path)?;
        if fresh {
            hold.clear(experiment)?;
        }
        let (header, rows, mut end) = read(&mut hold.file, path)?;
        match header {
            None => {
                hold.cut(0)?;
                end = hold.append(0, &JournalHeader::new(experiment, commit))?;
            }
            Some(header) if header.experiment != experiment => {
                return Err(JournalError::Experiment { path: shown(path), found: header.experiment });
            }
            Some(header) if header.commit != commit => {
                let ours = commit.to_owned();
                return Err(JournalError::Commit { path: shown(path), found: header.commit, ours });
            }
            Some(_) => hold.cut(end)?,
        }
        let known = rows.iter().map(Row::identity).collect();
        Ok(Self { hold, end, rows, known })
    }

    /// True when a run with this identity is there.
    pub fn has(&self, identity: &str) -> bool {
        self.known.contains(identity)
    }

    /// Adds a row; it is with the system when this returns.
    ///
    /// # Errors
    /// When the disk is full, say; nothing of the row is there then.
    pub fn add(&mut self, row: Row) -> Result<(), JournalError> {
        let identity = row.identity();
        if !self.known.contains(&identity) {
            self.end = self.hold.append(self.end, &row)?;
            self.known.insert(identity);
            self.rows.push(row);
        }
        Ok(())
    }

    /// Writes the tables of all rows into `dir`; see [`write_tables`].
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_tables(&mut self, dir: &Path) -> Result<(), JournalError> {
        sort(&mut self.rows);
        write_tables(&self.rows, dir)
    }

    /// The rows: those read first, or in the order of tables once those were written.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

impl Hold {
    /// Opens a journal, or begins one.
    pub(super) fn take(path: &Path) -> Result<Self, JournalError> {
        make_directory(path.parent().unwrap_or(Path::new(".")))?;
        loop {
            let opened = OpenOptions::new().read(true).append(true).create(true).open(path);
            let file = opened.map_err(io_error(path, "opened"))?;
            lock(&file, path)?;
            // Until then somebody may have written another one in its place, and nobody would find what is
            // added to this.
            if is_at(&file, path) {
                return Ok(Self { file, path: path.to_owned() });
            }
        }
    }

    /// True when nothing is in it.
    pub(super) fn is_empty(&self) -> bool {
        self.file.metadata().is_ok_and(|file| file.len() == 0)
    }

    /// Forgets all rows, unless they are somebody else's.
    fn clear(&mut self, experiment: &str) -> Result<(), JournalError> {
        let first = first_line(&mut BufReader::new(&mut self.file), &self.path)?;
        self.file.rewind().map_err(io_error(&self.path, "read"))?;
        match first {
            Some(Ok(header)) if header.experiment != experiment => {
                Err(JournalError::Experiment { path: shown(&self.path), found: header.experiment })
            }
            Some(Err(foreign @ JournalError::Foreign(_))) => Err(foreign),
            // One of another format is a journal, too.
            _ => self.cut(0),
        }
    }

    fn cut(&self, end: u64) -> Result<(), JournalError> {
        self.file.set_len(end).map_err(io_error(&self.path, "written"))
    }

    /// Adds a line behind the last one, which ends at `end`; returns where it ends itself.
    fn append(&mut self, end: u64, value: &impl Serialize) -> Result<u64, JournalError> {
        let written = line(value).and_then(|line| self.file.write_all(&line).map(|()| line.len() as u64));
        match written {
            Ok(length) => Ok(end + length),
            Err(error) => {
                // A part of it is no line, and the next one would stand behind that.
                self.cut(end)?;
                Err(io_error(&self.path, "written")(error))
            }
        }
    }

    /// Writes a journal as a whole: what was there before stays until all of it is written. Nobody else can
    /// write the new one either as long as what is returned is there.
    pub(super) fn write(self, header: &JournalHeader, rows: &[Row]) -> Result<Self, JournalError> {
        let new = self.path.with_extension(format!("{EXTENSION}.new"));
        let write = || {
            let file = File::create(&new).map_err(io_error(&self.path, "written"))?;
            lock(&file, &self.path)?;
            let fill = || {
                let mut out = io::BufWriter::new(&file);
                out.write_all(&line(header)?)?;
                rows.iter().try_for_each(|row| out.write_all(&line(row)?))?;
                out.flush()?;
                file.sync_all()?;
                std::fs::rename(&new, &self.path)
            };
            fill().map_err(io_error(&self.path, "written"))?;
            Ok(file)
        };
        match write() {
            Ok(file) => Ok(Self { file, path: self.path.clone() }),
            Err(error) => {
                let _ = std::fs::remove_file(&new);
                Err(error)
            }
        }
    }
}

/// What was begun and not written is no journal.
impl Drop for Hold {
    fn drop(&mut self) {
        if self.is_empty() && is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The name of the journal of an experiment, or of a shard's share of it: `NAME.rows`, `NAME.2of8.rows`.
pub fn journal_name(experiment: &str, shard: Option<Shard>) -> String {
    let shard = shard.map(|shard| format!(".{shard}")).unwrap_or_default();
    format!("{experiment}{shard}.{EXTENSION}")
}

/// The rows of a journal, to look at.
///
/// # Errors
/// See [`JournalError`]; an end without a newline is left out.
pub fn read_journal(path: &Path) -> Result<Vec<Row>, JournalError> {
    match read_whole(path)? {
        Some((_, rows)) => Ok(rows),
        None => Err(JournalError::Foreign(shown(path))),
    }
}

/// The header and the rows of a journal; nothing of one that was only just begun.
pub(super) fn read_whole(path: &Path) -> Result<Option<(JournalHeader, Vec<Row>)>, JournalError> {
    let mut file = File::open(path).map_err(io_error(path, "opened"))?;
    let (header, rows, _) = read(&mut file, path)?;
    Ok(header.map(|header| (header, rows)))
}

/// Makes sure of a directory.
pub(super) fn make_directory(dir: &Path) -> Result<(), JournalError> {
    std::fs::create_dir_all(dir).map_err(io_error(dir, "made"))
}

impl JournalHeader {
    pub(super) fn new(experiment: &str, commit: &str) -> Self {
        Self { version: VERSION, experiment: experiment.to_owned(), commit: commit.to_owned() }
    }
}

/// Keeps others from writing a file until it is closed, however the process ends.
#[cfg(unix)]
fn lock(file: &File, path: &Path) -> Result<(), JournalError> {
    use rustix::fs::{FlockOperation, flock};
    use rustix::io::Errno;
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        // Some file systems of clusters have no locks. Shards, which have a file each, need none.
        Ok(()) | Err(Errno::NOSYS | Errno::OPNOTSUPP | Errno::NOLCK) => Ok(()),
        Err(Errno::WOULDBLOCK) => Err(JournalError::Busy(shown(path))),
        Err(error) => Err(io_error(path, "locked")(error.into())),
    }
}

/// Whether the file is the one of this path.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let (Ok(ours), Ok(there)) = (file.metadata(), std::fs::metadata(path)) else { return false };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

#[cfg(not(unix))]
fn is_at(_: &File, path: &Path) -> bool {
    path.exists()
}

/// Elsewhere it is the user's to run one at a time: the standard library has locks of files from Rust 1.89
/// on.
#[cfg(not(unix))]
#[expect(clippy::unnecessary_wraps, reason = "on Unix there is something to fail")]
fn lock(_: &File, _: &Path) -> Result<(), JournalError> {
    Ok(())
}

/// The header, the rows, and where the last whole line ends.
fn read(file: &mut File, path: &Path) -> Result<(Option<JournalHeader>, Vec<Row>, u64), JournalError> {
    let mut reader = BufReader::new(file);
    let Some(header) = first_line(&mut reader, path)? else { return Ok((None, Vec::new(), 0)) };
    let header = header?;
    let mut end = reader.stream_position().map_err(io_error(path, "read"))?;
    let mut rows = Vec::new();
    let mut line = Vec::new();
    for number in 2.. {
        line.clear();
        let length =
            (&mut reader).take(LONGEST_ROW).read_until(b'\n', &mut line).map_err(io_error(path, "read"))?;
        let damaged = |why: String| JournalError::Line { path: shown(path), line: number, why };
        if line.last() != Some(&b'\n') {
            if length as u64 == LONGEST_ROW {
                return Err(damaged("it is longer than any row".to_owned()));
            }
            break;
        }
        rows.push(serde_json::from_slice(&line).map_err(|error| damaged(error.to_string()))?);
        end += length as u64;
    }
    Ok((Some(header), rows, end))
}

/// The header, or what is wrong with it; nothing where there is none yet: of one that was cut off nothing is
/// lost. Of what is no journal not more is read than it takes to see that.
fn first_line(
    reader: &mut impl io::BufRead,
    path: &Path,
) -> Result<Option<Result<JournalHeader, JournalError>>, JournalError> {
    let mut line = Vec::new();
    reader.take(LONGEST_HEADER).read_until(b'\n', &mut line).map_err(io_error(path, "read"))?;
    let is_whole = line.last() == Some(&b'\n');
    let is_begun = line.is_empty() || line.starts_with(BEGINNING) || BEGINNING.starts_with(&line);
    Ok(match (is_whole, is_begun && (line.len() as u64) < LONGEST_HEADER) {
        (true, _) => Some(read_header(&line, path)),
        (false, true) => None,
        (false, false) => Some(Err(JournalError::Foreign(shown(path)))),
    })
}

fn read_header(line: &[u8], path: &Path) -> Result<JournalHeader, JournalError> {
    let json: serde_json::Value =
        serde_json::from_slice(line).map_err(|_| JournalError::Foreign(shown(path)))?;
    let version = json.get("quickset-lab").and_then(serde_json::Value::as_u64);
    let Some(version) = version else { return Err(JournalError::Foreign(shown(path))) };
    if version != u64::from(VERSION) {
        return Err(JournalError::Version { path: shown(path), found: version.saturated::<u32>() });
    }
    serde_json::from_value(json).map_err(|_| JournalError::Foreign(shown(path)))
}

/// A value as a line. It is written at once: a killed run leaves whole lines, and the beginning of one at
/// most.
fn line(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

pub(super) fn io_error<'a>(path: &'a Path, doing: &'static str) -> impl Fn(io::Error) -> JournalError + 'a {
    move |error| JournalError::Io { path: shown(path), doing, error }
}

pub(super) fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// How a header begins.
const BEGINNING: &[u8] = b"{\"quickset-lab\"";
/// No header is longer: it has the names of an experiment and of a commit.
const LONGEST_HEADER: u64 = 4096;
/// No row is longer. The largest, with a series of its own for each of some hundred resources, are a
/// thousandth of it.
const LONGEST_ROW: u64 = 1 << 30;
/// Raised when rows of before would be misread.
pub const VERSION: u32 = 2;
/// Of the names of journals.
pub(super) const EXTENSION: &str = "rows";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::results::{Detail, RunMetrics};

    fn row(seed: u64) -> Row {
        Row {
            experiment: "screen-streaming".into(),
            seed,
            commit: "abc".into(),
            world: "sim".into(),
            params: catalogue::find("screen-streaming").unwrap().base(),
            metrics: RunMetrics::default(),
            detail: Detail::default(),
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_journal_has_one_writer_and_any_number_of_readers() {
        let dir = std::env::temp_dir().join(format!("quickset-journal-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let path = dir.join("screen-streaming.rows");
        let open = |fresh| Journal::open(&path, "screen-streaming", "abc", fresh);
        let seeds = || read_journal(&path).unwrap().iter().map(|row| row.seed).collect::<Vec<_>>();
        let mut first = open(false).unwrap();
        first.add(row(1)).unwrap();
        // Who begins anew does not either forget what another run has.
        for fresh in [false, true] {
            let error = open(fresh).unwrap_err().to_string();
            assert!(
                error.contains("screen-streaming.rows") && error.contains("another run writes"),
                "{error}"
            );
            assert!(error.contains("-o"), "{error}");
        }
        let header = JournalHeader::new("screen-streaming", "abc");
        let error = Hold::take(&path).unwrap_err().to_string();
        assert!(error.contains("another run writes"), "{error}");
        assert_eq!(seeds(), [1]);
        first.add(row(2)).unwrap();
        assert_eq!(seeds(), [1, 2]);
        drop(first);
        open(false).unwrap().add(row(3)).unwrap();
        assert_eq!(seeds(), [1, 2, 3]);
        Hold::take(&path).unwrap().write(&header, &[row(7)]).unwrap();
        assert_eq!(seeds(), [7]);
        assert_eq!(open(true).unwrap().rows(), []);
        // What is only taken and left leaves nothing.
        drop(Hold::take(&dir.join("other.rows")).unwrap());
        assert!(!dir.join("other.rows").exists() && path.exists());
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// Who begins anew means results, and not whatever else has the name of a journal.
    #[test]
    fn beginning_anew_empties_nothing_but_journals() {
        let dir = std::env::temp_dir().join(format!("quickset-journal-fresh-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("screen-streaming.rows");
        let fresh =
            || Journal::open(&path, "screen-streaming", "def", true).map(|journal| journal.rows().len());
        let header = |experiment: &str, version: u32| {
            format!("{{\"quickset-lab\":{version},\"experiment\":\"{experiment}\",\"commit\":\"abc\"}}\n")
        };
        // A novel, a table, a picture, a line without an end; and rows of something else.
        let long = "x".repeat(100_000);
        let other = header("bulk", VERSION);
        for (foreign, why) in [
            ("It was a dark and stormy night.\n", "not a journal"),
            ("a,b\n1,2\n", "not a journal"),
            ("{\"rows\":[]}\n", "not a journal"),
            ("\u{89}PNG", "not a journal"),
            ("\n", "not a journal"),
            (&long[..], "not a journal"),
            (&other[..], "results of the experiment bulk"),
        ] {
            std::fs::write(&path, foreign).unwrap();
            let error = fresh().unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("-o"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign);
        }
        // Whatever is wrong with a journal of ours.
        for ours in [
            String::new(),
            header("screen-streaming", VERSION),
            header("screen-streaming", 999),
            header("screen-streaming", VERSION) + "{damaged}\n",
            "{\"quick".to_owned(),
            "{\"quickset-lab\":1,\"expe".to_owned(),
        ] {
            std::fs::write(&path, &ours).unwrap();
            assert_eq!(fresh().unwrap(), 0);
            assert_eq!(
                std::fs::read_to_string(&path).unwrap(),
                header("screen-streaming", VERSION).replace("abc", "def")
            );
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }

    /// Of a file that is no journal not more is held in memory than it takes to see that.
    #[cfg(unix)]
    #[test]
    fn a_file_without_lines_is_soon_known() {
        let error = read(&mut File::open("/dev/zero").unwrap(), Path::new("zero.rows")).unwrap_err();
        assert!(matches!(error, JournalError::Foreign(_)), "{error}");
    }

    #[test]
    fn the_beginning_of_a_line_is_cut_off() {
        let dir = std::env::temp_dir().join(format!("quickset-journal-cut-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        let path = dir.join("screen-streaming.rows");
        let open = || Journal::open(&path, "screen-streaming", "abc", false).unwrap();
        open().add(row(1)).unwrap();
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, [&whole[..], b"{\"experiment\":\"scr"].concat()).unwrap();
        open().add(row(2)).unwrap();
        let seeds: Vec<u64> = read_journal(&path).unwrap().iter().map(|row| row.seed).collect();
        assert_eq!(seeds, [1, 2]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
