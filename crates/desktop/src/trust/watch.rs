use std::fs;
use std::path::PathBuf;
use std::time::SystemTime;

/// Whether files have changed since they were looked at.
#[derive(Debug)]
pub struct FileWatch {
    files: Vec<(PathBuf, Option<FileStamp>)>,
}

/// What differs when a file was written, or another was put in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    modified: Option<SystemTime>,
    length: u64,
    id: u64,
}

impl FileWatch {
    /// Looks at these files, which need not exist.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let mut this = Self { files: paths.into_iter().map(|path| (path, None)).collect() };
        this.look();
        this
    }

    /// Whether one has changed since the last look, appeared or gone.
    pub fn look(&mut self) -> bool {
        self.files.iter_mut().fold(false, |changed, (path, seen)| {
            let now = stamp(path);
            std::mem::replace(seen, now) != now || changed
        })
    }
}

fn stamp(path: &PathBuf) -> Option<FileStamp> {
    let meta = fs::metadata(path).ok()?;
    #[cfg(unix)]
    let id = std::os::unix::fs::MetadataExt::ino(&meta);
    #[cfg(not(unix))]
    let id = 0;
    Some(FileStamp { modified: meta.modified().ok(), length: meta.len(), id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_seen_once() {
        let path = std::env::temp_dir().join(format!("quickset-watch-{}", std::process::id()));
        let mut watch = FileWatch::new([path.clone(), path.with_extension("none")]);
        assert!(!watch.look());
        fs::write(&path, "a").unwrap();
        assert!(watch.look() && !watch.look());
        let draft = path.with_extension("draft");
        fs::write(&draft, "b").unwrap();
        fs::rename(&draft, &path).unwrap();
        assert!(watch.look() && !watch.look());
        fs::remove_file(&path).unwrap();
        assert!(watch.look() && !watch.look());
    }
}
