use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::journal::{EXTENSION, Hold, JournalHeader, io_error, make_directory, read_whole, shown};
use super::{JournalError, Row, journal_name, order, write_csv};

/// The rows of an experiment, in the order of tables, from whichever journals they came.
#[derive(Clone, Debug, PartialEq)]
pub struct JoinedRows {
    /// The experiment.
    pub experiment: String,
    /// The commit of all rows.
    pub commit: String,
    /// The rows.
    pub rows: Vec<Row>,
}

/// Why journals do not fit together: one sentence with the next step.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// One of them cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A run is there twice, and not the same.
    #[error(
        "{first} and {second} have the same run with different results ({identity}); delete the one that is wrong and \
         join again"
    )]
    Conflict {
        /// Where one is: the line and the file.
        first: String,
        /// Where the other is.
        second: String,
        /// The run.
        identity: String,
    },
    /// They were made by different builds.
    #[error(
        "{first} has results of commit {commit}, and {second} of {other}; rows of different builds are not mixed: run all \
         shards with the same one"
    )]
    Commits {
        /// The one file.
        first: String,
        /// Its commit.
        commit: String,
        /// The other.
        second: String,
        /// Its commit.
        other: String,
    },
    /// There is nothing to join.
    #[error("{0} has no results; `quickset lab run` makes some")]
    Empty(String),
}

/// All rows in directories of results, a sheet an experiment. Journals of shards count as parts of the whole;
/// a run that is there several times counts once. The time it took may differ.
///
/// # Errors
/// When a journal cannot be read, when rows contradict each other or come from different builds, and when a
/// directory has no journals at all.
pub fn read_results(dirs: &[impl AsRef<Path>]) -> Result<Vec<JoinedRows>, JoinError> {
    let mut parts: BTreeMap<String, JoinedPart> = BTreeMap::new();
    for dir in dirs.iter().map(AsRef::as_ref) {
        let paths = journals(dir)?;
        if paths.is_empty() {
            return Err(JoinError::Empty(shown(dir)));
        }
        for path in paths {
            // A shard that is just beginning has no header yet.
            let Some((header, rows)) = read_whole(&path)? else { continue };
            let part =
                parts.entry(header.experiment.clone()).or_insert_with(|| JoinedPart::new(&path, &header));
            // The header is the first line.
            part.add(&path, &header, 2, rows)?;
        }
    }
    Ok(parts.into_iter().map(|(experiment, part)| part.sheet(experiment)).collect())
}

/// Joins the journals in `dirs`, and those that `out` has already, and writes all of them into `out`: for
/// each experiment one journal and its tables.
///
/// # Errors
/// As [`read_results`], and when `out` cannot be written.
pub fn merge(dirs: &[impl AsRef<Path>], out: &Path) -> Result<Vec<JoinedRows>, JoinError> {
    let mut all: Vec<&Path> = dirs.iter().map(AsRef::as_ref).collect();
    let holds = hold(out, |_| true)?;
    if out.is_dir() && !journals(out)?.is_empty() {
        all.push(out);
    }
    let sheets = read_results(&all)?;
    write(&sheets, out, holds)?;
    Ok(sheets)
}

/// As [`merge`], of rows that came some other way.
///
/// # Errors
/// As [`merge`].
pub fn keep_rows(rows: Vec<Row>, out: &Path) -> Result<Vec<JoinedRows>, JoinError> {
    let mut parts: BTreeMap<String, JoinedPart> = BTreeMap::new();
    let given = Path::new("the rows given");
    for (n, row) in rows.into_iter().enumerate() {
        let header = JournalHeader::new(&row.experiment, &row.commit);
        let part = parts.entry(row.experiment.clone()).or_insert_with(|| JoinedPart::new(given, &header));
        part.add(given, &header, n + 1, vec![row])?;
    }
    let holds = hold(out, |experiment| parts.contains_key(experiment))?;
    let known = if out.is_dir() { journals(out)? } else { Vec::new() };
    for path in known {
        let Some((header, rows)) = read_whole(&path)? else { continue };
        if let Some(part) = parts.get_mut(&header.experiment) {
            part.add(&path, &header, 2, rows)?;
        }
    }
    let sheets: Vec<JoinedRows> =
        parts.into_iter().map(|(experiment, part)| part.sheet(experiment)).collect();
    write(&sheets, out, holds)?;
    Ok(sheets)
}

/// The journals in a directory that are to be written anew, those of whole experiments: what others added to
/// them from now on would be lost.
fn hold(dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<BTreeMap<PathBuf, Hold>, JournalError> {
    let known = if dir.is_dir() { journals(dir)? } else { Vec::new() };
    // Shards have more to their names, and go on.
    let is_whole = |path: &PathBuf| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        !stem.contains('.') && wanted(&stem)
    };
    known.into_iter().filter(is_whole).map(|path| Ok((path.clone(), Hold::take(&path)?))).collect()
}

/// Writes journals and tables into a directory, in place of those that are there.
fn write(sheets: &[JoinedRows], dir: &Path, mut holds: BTreeMap<PathBuf, Hold>) -> Result<(), JournalError> {
    for sheet in sheets {
        let path = dir.join(journal_name(&sheet.experiment, None));
        let hold = match holds.remove(&path) {
            Some(hold) => hold,
            None => Some(Hold::take(&path)?)
                // Somebody has begun it meanwhile.
                .filter(Hold::is_empty)
                .ok_or_else(|| JournalError::Busy(shown(&path)))?,
        };
        // Until the tables are there as well: another's, of more rows, would be lost under these.
        let _hold = hold.write(&JournalHeader::new(&sheet.experiment, &sheet.commit), &sheet.rows)?;
        write_tables(&sheet.rows, dir)?;
    }
    Ok(())
}

/// Writes the tables of rows of one experiment into a directory: `NAME.csv`, and with the feature `parquet`
/// also `NAME.parquet`.
///
/// # Errors
/// When it cannot be written.
pub fn write_tables(rows: &[Row], dir: &Path) -> Result<(), JournalError> {
    let Some(first) = rows.first() else { return Ok(()) };
    make_directory(dir)?;
    let path = dir.join(format!("{}.csv", first.experiment));
    replace(&path, |new| {
        let mut csv = Vec::new();
        write_csv(rows, &mut csv)?;
        std::fs::write(new, csv)
    })?;
    #[cfg(feature = "parquet")]
    replace(&path.with_extension("parquet"), |new| super::parquet::write_parquet(rows, new))?;
    Ok(())
}

/// Writes a file as a whole: what was there before stays until all of it is written, and for whoever reads
/// it.
fn replace(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), JournalError> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    let written = write(&new)
        .and_then(|()| std::fs::File::open(&new)?.sync_all())
        .and_then(|()| std::fs::rename(&new, path));
    written.map_err(|error| {
        let _ = std::fs::remove_file(&new);
        io_error(path, "written")(error)
    })
}

/// The journals in a directory, in the order of their names.
fn journals(dir: &Path) -> Result<Vec<PathBuf>, JournalError> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(io_error(dir, "read"))? {
        let path = entry.map_err(io_error(dir, "read"))?.path();
        if path.extension().is_some_and(|extension| extension == EXTENSION) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// What is known of an experiment so far.
struct JoinedPart {
    /// The first journal of it, and its commit.
    first: PathBuf,
    commit: String,
    /// Each row, with its journal and line.
    rows: BTreeMap<String, (Row, PathBuf, usize)>,
}

impl JoinedPart {
    fn new(path: &Path, header: &JournalHeader) -> Self {
        Self { first: path.to_owned(), commit: header.commit.clone(), rows: BTreeMap::new() }
    }

    fn add(
        &mut self,
        path: &Path,
        header: &JournalHeader,
        first_line: usize,
        rows: Vec<Row>,
    ) -> Result<(), JoinError> {
        if header.commit != self.commit {
            return Err(JoinError::Commits {
                first: shown(&self.first),
                commit: self.commit.clone(),
                second: shown(path),
                other: header.commit.clone(),
            });
        }
        for (n, row) in rows.into_iter().enumerate() {
            let line = first_line + n;
            let identity = row.identity();
            match self.rows.get(&identity) {
                None => {
                    self.rows.insert(identity, (row, path.to_owned(), line));
                }
                Some((known, ..)) if same(known, &row) => {}
                Some((_, other, at)) => {
                    return Err(JoinError::Conflict {
                        first: format!("line {at} of {}", shown(other)),
                        second: format!("line {line} of {}", shown(path)),
                        identity,
                    });
                }
            }
        }
        Ok(())
    }

    fn sheet(self, experiment: String) -> JoinedRows {
        let mut rows: Vec<Row> = self.rows.into_values().map(|(row, ..)| row).collect();
        order::sort(&mut rows);
        JoinedRows { experiment, commit: self.commit, rows }
    }
}

/// Whether two rows of a run say the same. How long it took in reality is no result.
pub(crate) fn same(a: &Row, b: &Row) -> bool {
    let mut b = b.clone();
    b.detail.wall_s = a.detail.wall_s;
    *a == b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue;
    use crate::experiment::Value;
    use crate::results::{Detail, Journal, RunMetrics};

    /// An empty directory that goes away again.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("quickset-join-{name}-{}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        /// Writes a journal.
        fn journal(&self, name: &str, commit: &str, rows: &[Row]) -> PathBuf {
            let path = self.0.join(name);
            let mut journal = Journal::open(&path, "screen-streaming", commit, true).unwrap();
            for row in rows {
                journal.add(row.clone()).unwrap();
            }
            path
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn row(seed: u64) -> Row {
        let metrics = RunMetrics { completion_s: Some(0.1 + seed as f64), ..RunMetrics::default() };
        Row {
            experiment: "screen-streaming".into(),
            seed,
            commit: "abc".into(),
            world: "sim".into(),
            params: catalogue::find("screen-streaming").unwrap().base(),
            metrics,
            detail: Detail { wall_s: 0.3, ..Detail::default() },
        }
    }

    fn seeds(sheets: &[JoinedRows]) -> Vec<u64> {
        sheets.iter().flat_map(|sheet| sheet.rows.iter().map(|row| row.seed)).collect()
    }

    #[test]
    fn parts_are_joined_and_what_is_there_twice_counts_once() {
        let (one, two, out) = (Folder::new("one"), Folder::new("two"), Folder::new("out"));
        one.journal("screen-streaming.1of2.rows", "abc", &[row(5), row(1)]);
        one.journal("screen-streaming.2of2.rows", "abc", &[row(10), row(2)]);
        let slower = Row { detail: Detail { wall_s: 9.0, ..Detail::default() }, ..row(2) };
        two.journal("screen-streaming.rows", "abc", &[slower, row(3)]);
        let sheets = merge(&[&one.0, &two.0], &out.0).unwrap();
        assert_eq!(seeds(&sheets), [1, 2, 3, 5, 10]);
        // What was written is what was read, and more is added to it.
        assert_eq!(read_results(&[&out.0]).unwrap(), sheets);
        assert_eq!(seeds(&keep_rows(vec![row(4), row(2)], &out.0).unwrap()), [1, 2, 3, 4, 5, 10]);
        let csv = std::fs::read_to_string(out.0.join("screen-streaming.csv")).unwrap();
        assert_eq!(csv.lines().count(), 7, "{csv}");
    }

    /// Who reads a table meanwhile reads one, and where none can be written the one before stays.
    #[cfg(unix)]
    #[test]
    fn tables_are_written_as_a_whole() {
        use std::io::Read as _;
        let folder = Folder::new("tables");
        let endings: &[&str] = if cfg!(feature = "parquet") { &["csv", "parquet"] } else { &["csv"] };
        let path = |ending: &str| folder.0.join(format!("screen-streaming.{ending}"));
        write_tables(&[row(1), row(2)], &folder.0).unwrap();
        let before: Vec<Vec<u8>> =
            endings.iter().map(|ending| std::fs::read(path(ending)).unwrap()).collect();
        let open: Vec<std::fs::File> =
            endings.iter().map(|ending| std::fs::File::open(path(ending)).unwrap()).collect();
        write_tables(&[row(1)], &folder.0).unwrap();
        for (mut reader, before) in open.into_iter().zip(before) {
            let mut read = Vec::new();
            reader.read_to_end(&mut read).unwrap();
            assert_eq!(read, before);
        }
        assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), endings.len(), "nothing else is left");
        let one = std::fs::read(path("csv")).unwrap();
        std::fs::create_dir(path("csv.new")).unwrap();
        let error = write_tables(&[row(1), row(2)], &folder.0).unwrap_err().to_string();
        assert!(error.contains("screen-streaming.csv cannot be written"), "{error}");
        assert_eq!(std::fs::read(path("csv")).unwrap(), one);
    }

    #[test]
    fn rows_that_contradict_each_other_are_both_named() {
        let folder = Folder::new("conflict");
        let wrong =
            Row { metrics: RunMetrics { completion_s: Some(7.0), ..RunMetrics::default() }, ..row(2) };
        folder.journal("a.rows", "abc", &[row(1), row(2)]);
        folder.journal("b.rows", "abc", std::slice::from_ref(&wrong));
        let error = read_results(&[&folder.0]).unwrap_err().to_string();
        for part in ["line 3 of", "a.rows", "line 2 of", "b.rows", "seed=2"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let out = Folder::new("conflict-out");
        let error = keep_rows(vec![row(2), wrong], &out.0).unwrap_err().to_string();
        assert!(error.contains("line 1 of the rows given and line 2 of the rows given"), "{error}");
    }

    /// Whoever keeps rows in the same place at the same time has them kept, or is told that they are not.
    #[cfg(unix)]
    #[test]
    fn rows_that_several_keep_at_once_are_all_kept() {
        let out = Folder::new("at-once");
        let keep = |seed: u64| {
            while let Err(error) = keep_rows(vec![row(seed)], &out.0) {
                assert!(error.to_string().contains("another run writes"), "{error}");
                std::thread::yield_now();
            }
        };
        std::thread::scope(|scope| {
            for n in 0..4 {
                scope.spawn(move || (n * 25..(n + 1) * 25).for_each(keep));
            }
        });
        assert_eq!(seeds(&read_results(&[&out.0]).unwrap()), (0..100).collect::<Vec<u64>>());
        // And the table is the last one's, which has them all.
        let csv = std::fs::read_to_string(out.0.join("screen-streaming.csv")).unwrap();
        assert_eq!(csv.lines().count(), 101);
    }

    #[test]
    fn builds_are_not_mixed() {
        let folder = Folder::new("commits");
        folder.journal("a.rows", "abc", &[row(1)]);
        folder.journal("b.rows", "def", &[Row { commit: "def".into(), ..row(2) }]);
        let error = read_results(&[&folder.0]).unwrap_err().to_string();
        assert!(error.contains("commit abc") && error.contains("of def"), "{error}");
    }

    #[test]
    fn a_shard_that_just_begins_is_no_error_and_a_directory_without_results_is() {
        let folder = Folder::new("empty");
        let none = read_results(&[&folder.0]).unwrap_err().to_string();
        assert!(none.contains("has no results"), "{none}");
        folder.journal("a.rows", "abc", &[row(1)]);
        std::fs::write(folder.0.join("b.rows"), "").unwrap();
        std::fs::write(folder.0.join("c.rows"), "{\"quickset-lab\":1,\"expe").unwrap();
        assert_eq!(seeds(&read_results(&[&folder.0]).unwrap()), [1]);
        assert!(read_results(&[folder.0.join("nowhere")]).unwrap_err().to_string().contains("nowhere"));
    }

    #[test]
    fn tables_are_in_the_order_of_keys_and_of_numbers() {
        let key = |name: &str| crate::experiment::ExperimentKey::find(name).unwrap();
        let with = |name: &str, value: Value, seed: u64| {
            let mut row = row(seed);
            row.params.put(key(name), value);
            row
        };
        let mut rows = vec![
            with("loss", Value::Text("ge:0.5%,25%".into()), 1),
            with("loss", Value::Number(0.1), 2),
            with("loss", Value::Number(0.02), 3),
            with("mode", Value::Text("latest".into()), 4),
            with("mode", Value::Text("total".into()), 5),
        ];
        order::sort(&mut rows);
        // total, partial, latest: as the key lists them.
        assert_eq!(rows.iter().map(|row| row.seed).collect::<Vec<_>>(), [5, 3, 2, 1, 4]);
    }
}
