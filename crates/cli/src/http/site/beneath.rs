//! Files below a folder, and no others, whatever becomes of names and links between two looks at them.

use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
use std::path::{Path, PathBuf};

/// A place below a folder, both without links.
#[derive(Clone, Debug)]
pub(super) struct Beneath {
    root: PathBuf,
    /// From there on.
    rest: PathBuf,
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: OsString,
    /// `None` for a link, and where the system does not say it along.
    pub(super) kind: Option<Kind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
    Other,
}

impl Beneath {
    /// Where `place` leads, behind all links, if something is there and it is below `root`, which has none.
    pub(super) fn find(root: &Path, place: &Path) -> Option<Self> {
        let found = match place.canonicalize() {
            Err(error) if is_too_long(&error) => return Self::straight(root, place),
            found => found.ok()?,
        };
        let rest = found.strip_prefix(root).ok()?.to_owned();
        Some(Self { root: root.to_owned(), rest })
    }

    /// The same for a place that is further away than a path of the system may be long: no links lead there.
    fn straight(root: &Path, place: &Path) -> Option<Self> {
        let rest = place.strip_prefix(root).ok()?.to_owned();
        let place = Self { root: root.to_owned(), rest };
        place.metadata().is_ok().then_some(place)
    }

    pub(super) fn path(&self) -> PathBuf {
        self.root.join(&self.rest)
    }

    /// Whether it is that place below the root, or further below.
    #[cfg(unix)]
    pub(super) fn is_in(&self, place: &Path) -> bool {
        self.rest.starts_with(place)
    }

    /// Opens a folder, to have files made in it.
    ///
    /// # Errors
    /// Those of the system.
    #[cfg(unix)]
    pub(super) fn folder(&self) -> io::Result<std::os::fd::OwnedFd> {
        use rustix::fs::OFlags;
        #[cfg(target_os = "linux")]
        return self.opened(OFlags::RDONLY | OFlags::DIRECTORY);
        #[cfg(not(target_os = "linux"))]
        {
            use rustix::fs::{CWD, Mode, openat};
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(openat(CWD, self.path(), flags, Mode::empty())?)
        }
    }

    pub(super) fn kind(&self) -> Option<Kind> {
        self.metadata().ok().map(|metadata| Kind::from(metadata.file_type()))
    }
}

#[cfg(target_os = "linux")]
impl Beneath {
    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        match self.path().metadata() {
            Err(error) if is_too_long(&error) => {
                File::from(self.opened(rustix::fs::OFlags::PATH)?).metadata()
            }
            metadata => metadata,
        }
    }

    /// Opens it to be read. A link that has come to stand on the way is not followed, and what is no file is not waited for.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(&self) -> io::Result<File> {
        use rustix::fs::OFlags;
        Ok(self.opened(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?.into())
    }

    /// What is in a folder, which is opened as [`open`](Self::open) does.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn entries(&self) -> io::Result<impl Iterator<Item = Entry>> {
        use rustix::fs::{Dir, FileType, OFlags};
        use std::os::unix::ffi::OsStringExt as _;
        let entry = |entry: rustix::fs::DirEntry| {
            let kind = match entry.file_type() {
                FileType::RegularFile => Some(Kind::File),
                FileType::Directory => Some(Kind::Folder),
                FileType::Symlink | FileType::Unknown => None,
                _ => Some(Kind::Other),
            };
            Entry { name: OsString::from_vec(entry.file_name().to_bytes().to_vec()), kind }
        };
        let folder = Dir::new(self.opened(OFlags::RDONLY | OFlags::DIRECTORY)?)?;
        let names = folder.filter_map(move |name| name.ok().map(entry));
        Ok(names.filter(|entry| entry.name != "." && entry.name != ".."))
    }

    /// In pieces, where the way is longer than the system takes at once.
    fn opened(&self, flags: rustix::fs::OFlags) -> io::Result<std::os::fd::OwnedFd> {
        use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
        use rustix::io::Errno;
        use std::ffi::OsStr;
        use std::os::unix::ffi::OsStrExt as _;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = openat(CWD, &self.root, on_the_way, Mode::empty())?;
        let mut rest = self.rest.as_os_str().as_bytes();
        loop {
            let cut =
                if rest.len() <= LONGEST { None } else { rest[..LONGEST].iter().rposition(|b| *b == b'/') };
            let (next, flags) = match cut {
                Some(cut) => (&rest[..cut], on_the_way),
                None if rest.is_empty() => (&b"."[..], flags | OFlags::CLOEXEC),
                None => (rest, flags | OFlags::CLOEXEC),
            };
            let next = OsStr::from_bytes(next);
            at = match openat2(&at, next, flags, Mode::empty(), beneath) {
                // Linux has it since 5.6, and old filters of system calls do not know it: so well it goes without, too.
                Err(Errno::NOSYS | Errno::PERM) => openat(&at, next, flags, Mode::empty())?,
                opened => opened?,
            };
            match cut {
                Some(cut) => rest = &rest[cut + 1..],
                None => return Ok(at),
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl Beneath {
    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        self.path().metadata()
    }

    /// Opens it to be read.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(&self) -> io::Result<File> {
        File::open(self.path())
    }

    /// What is in a folder.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn entries(&self) -> io::Result<impl Iterator<Item = Entry>> {
        let entry = |entry: std::fs::DirEntry| {
            let kind = entry.file_type().ok().filter(|kind| !kind.is_symlink()).map(Kind::from);
            Entry { name: entry.file_name(), kind }
        };
        Ok(self.path().read_dir()?.filter_map(move |name| name.ok().map(entry)))
    }
}

impl From<std::fs::FileType> for Kind {
    fn from(kind: std::fs::FileType) -> Self {
        match (kind.is_file(), kind.is_dir()) {
            (true, _) => Self::File,
            (_, true) => Self::Folder,
            _ => Self::Other,
        }
    }
}

/// The path is too long for the system, or a name on it.
pub(super) fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) == Some(rustix::io::Errno::NAMETOOLONG)
}

/// Bytes of a path that Linux takes at once: `PATH_MAX`, without the zero behind it.
#[cfg(target_os = "linux")]
const LONGEST: usize = 4095;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// Between the look and the opening a part of the way is replaced.
    #[test]
    fn what_was_found_is_not_left_by_a_link_that_comes_later() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        let root = base.join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::create_dir(base.join("secret")).unwrap();
        for file in ["root/a/b/file", "secret/file"] {
            fs::write(base.join(file), file).unwrap();
        }
        symlink(root.join("a/b"), root.join("link")).unwrap();
        let found = |place: &str| Beneath::find(&root, &root.join(place));
        let ways = [found("a/b/file").unwrap(), found("link/file").unwrap()];
        for way in &ways {
            assert_eq!(io::read_to_string(way.open().unwrap()).unwrap(), "root/a/b/file");
        }
        assert!(found("../secret/file").is_none() && found("nothing").is_none());
        fs::rename(root.join("a/b"), root.join("a/c")).unwrap();
        symlink(base.join("secret"), root.join("a/b")).unwrap();
        assert!(ways.iter().all(|way| way.open().is_err()), "the link leads out");
        assert!(found("a/b/file").is_none());
        fs::remove_file(root.join("a/b")).unwrap();
        symlink(root.join("a/c"), root.join("a/b")).unwrap();
        assert!(ways.iter().all(|way| way.open().is_err()), "nor is one followed that stays within it");
        assert!(found("a/b/file").unwrap().open().is_ok(), "who looks again finds the way");
    }

    /// Folders in folders, deeper than a path may be long.
    #[test]
    fn what_is_further_away_than_a_path_may_be_long_is_found() {
        use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = openat(CWD, &root, flags, Mode::empty()).unwrap();
        let mut place = root.clone();
        for n in 0..60 {
            // Of many lengths, so that pieces end in many ways, and at last three pieces long.
            let name = format!("{n:0width$}", width = 255 - 3 * n);
            mkdirat(&at, &name, Mode::RWXU).unwrap();
            at = openat(&at, &name, flags, Mode::empty()).unwrap();
            place.push(&name);
            let found = Beneath::find(&root, &place).unwrap();
            assert_eq!((found.path(), found.kind()), (place.clone(), Some(Kind::Folder)), "{n}");
        }
        assert!(place.as_os_str().len() > 2 * LONGEST);
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, mode).unwrap();
        io::Write::write_all(&mut File::from(file), b"deep").unwrap();
        symlink("file", folder.path().join("link")).unwrap();
        rustix::fs::symlinkat("file", &at, "link").unwrap();
        let found = Beneath::find(&root, &place.join("file")).unwrap();
        assert_eq!(io::read_to_string(found.open().unwrap()).unwrap(), "deep");
        assert!(Beneath::find(&root, &place.join("link")).is_none_or(|link| link.open().is_err()));
        let mut names: Vec<_> = Beneath::find(&root, &place).unwrap().entries().unwrap().collect();
        names.sort_by(|a, b| a.name.cmp(&b.name));
        let file = Entry { name: "file".into(), kind: Some(Kind::File) };
        assert_eq!(names, [file, Entry { name: "link".into(), kind: None }]);
        // The system would not take it away by its path either: from the end on.
        drop(at);
        assert!(std::process::Command::new("rm").arg("-rf").arg(&root).status().unwrap().success());
    }
}
