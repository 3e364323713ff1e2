//! Files below a folder, and no others, whatever becomes of names and links between two looks at them.

#[cfg(target_os = "linux")]
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs::{File, Metadata};
use std::io;
#[cfg(target_os = "linux")]
use std::os::{
    fd::{AsFd as _, BorrowedFd, OwnedFd},
    unix::ffi::OsStrExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(target_os = "linux")]
use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

use super::root::Root;

/// A place below a folder.
#[derive(Clone, Debug)]
pub(super) struct Beneath {
    root: Arc<Root>,
    /// From there on, without links.
    rest: PathBuf,
    /// Of what was found there.
    metadata: Metadata,
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FolderEntry {
    pub(super) name: OsString,
    /// `None` for a link, and where the system does not say it along.
    pub(super) kind: Option<EntryKind>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    File,
    Folder,
    Other,
}

impl Beneath {
    /// Where a way from the root leads, behind all links, if something is there and it is below the root.
    pub(super) fn find(root: &Arc<Root>, way: &Path) -> Option<Self> {
        match Self::straight(root, way) {
            Err(error) if is_absent(&error) => None,
            // There are links, or the system has no such look.
            Err(_) => Self::by_links(root, way),
            found => found.ok(),
        }
    }

    fn by_links(root: &Arc<Root>, way: &Path) -> Option<Self> {
        let path = root.path()?;
        let found = path.join(way).canonicalize().ok()?;
        let rest = found.strip_prefix(&path).ok()?.to_owned();
        Some(Self { root: root.clone(), rest, metadata: found.metadata().ok()? })
    }

    /// What is in this folder, behind a link if it is one, and below the root.
    pub(super) fn child(&self, name: &OsString) -> Option<Self> {
        Self::find(&self.root, &self.rest.join(name))
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
        #[cfg(target_os = "linux")]
        return self.opened(OFlags::RDONLY | OFlags::DIRECTORY);
        #[cfg(not(target_os = "linux"))]
        {
            use rustix::fs::{CWD, Mode, OFlags, openat};
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Ok(openat(CWD, self.path(), flags, Mode::empty())?)
        }
    }

    /// As it was when it was found.
    pub(super) fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub(super) fn kind(&self) -> EntryKind {
        EntryKind::from(self.metadata.file_type())
    }
}

#[cfg(target_os = "linux")]
impl Beneath {
    /// What is there, if no link leads there: in one look, however many names there are on the way.
    fn straight(root: &Arc<Root>, way: &Path) -> io::Result<Self> {
        let found = opened(&root.folder, way, rustix::fs::OFlags::PATH, no_links)?;
        let metadata = File::from(found).metadata()?;
        Ok(Self { root: root.clone(), rest: way.to_owned(), metadata })
    }

    /// Opens it to be read. A link that has come to stand on the way is not followed, and what is no file is
    /// not waited for.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn open(&self) -> io::Result<File> {
        Ok(self.opened(OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?.into())
    }

    /// What is in a folder, which is opened as [`open`](Self::open) does.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn entries(&self) -> io::Result<impl Iterator<Item = FolderEntry>> {
        use rustix::fs::{Dir, FileType};
        use std::os::unix::ffi::OsStringExt as _;
        let entry = |entry: rustix::fs::DirEntry| {
            let kind = match entry.file_type() {
                FileType::RegularFile => Some(EntryKind::File),
                FileType::Directory => Some(EntryKind::Folder),
                FileType::Symlink | FileType::Unknown => None,
                _ => Some(EntryKind::Other),
            };
            FolderEntry { name: OsString::from_vec(entry.file_name().to_bytes().to_vec()), kind }
        };
        let folder = Dir::new(self.opened(OFlags::RDONLY | OFlags::DIRECTORY)?)?;
        let names = folder.filter_map(move |name| name.ok().map(entry));
        Ok(names.filter(|entry| entry.name != "." && entry.name != ".."))
    }

    fn opened(&self, flags: OFlags) -> io::Result<OwnedFd> {
        let open = |at: BorrowedFd<'_>, way: &OsStr, flags| match no_links(at, way, flags) {
            // Linux has it since 5.6, and old filters of system calls do not know it: so well it goes
            // without, too.
            Err(Errno::NOSYS | Errno::PERM) => openat(at, way, flags, Mode::empty()),
            opened => opened,
        };
        opened(&self.root.folder, &self.rest, flags, open)
    }
}

/// Opens what is below a folder, in pieces where the way is longer than the system takes at once.
#[cfg(target_os = "linux")]
fn opened(
    root: &OwnedFd,
    way: &Path,
    flags: OFlags,
    open: impl Fn(BorrowedFd<'_>, &OsStr, OFlags) -> Result<OwnedFd, Errno>,
) -> io::Result<OwnedFd> {
    let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = None;
    let mut rest = way.as_os_str().as_bytes();
    loop {
        let cut = if rest.len() <= LONGEST { None } else { rest[..LONGEST].iter().rposition(|b| *b == b'/') };
        let (next, flags) = match cut {
            Some(cut) => (&rest[..cut], on_the_way),
            None if rest.is_empty() => (&b"."[..], flags | OFlags::CLOEXEC),
            None => (rest, flags | OFlags::CLOEXEC),
        };
        let opened = open(at.as_ref().unwrap_or(root).as_fd(), OsStr::from_bytes(next), flags)?;
        match cut {
            Some(cut) => (at, rest) = (Some(opened), &rest[cut + 1..]),
            None => return Ok(opened),
        }
    }
}

/// Opens what no link leads to, nor out of the folder.
#[cfg(target_os = "linux")]
fn no_links(at: BorrowedFd<'_>, way: &OsStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(at, way, flags, Mode::empty(), beneath)
}

#[cfg(not(target_os = "linux"))]
impl Beneath {
    /// Not known here.
    fn straight(_: &Arc<Root>, _: &Path) -> io::Result<Self> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn path(&self) -> PathBuf {
        self.root.path().unwrap_or_default().join(&self.rest)
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
    pub(super) fn entries(&self) -> io::Result<impl Iterator<Item = FolderEntry>> {
        let entry = |entry: std::fs::DirEntry| {
            let kind = entry.file_type().ok().filter(|kind| !kind.is_symlink()).map(EntryKind::from);
            FolderEntry { name: entry.file_name(), kind }
        };
        Ok(self.path().read_dir()?.filter_map(move |name| name.ok().map(entry)))
    }
}

impl From<std::fs::FileType> for EntryKind {
    fn from(kind: std::fs::FileType) -> Self {
        match (kind.is_file(), kind.is_dir()) {
            (true, _) => Self::File,
            (_, true) => Self::Folder,
            _ => Self::Other,
        }
    }
}

/// Nothing is there, by whatever way one would look.
fn is_absent(error: &io::Error) -> bool {
    let error = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(error, Some(Errno::NOENT | Errno::NOTDIR))
}

/// Bytes of a path that Linux takes at once: `PATH_MAX`, without the zero behind it.
#[cfg(target_os = "linux")]
const LONGEST: usize = 4095;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, symlink};

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
        let opened = Arc::new(Root::open(&root).unwrap());
        let found = |way: &str| Beneath::find(&opened, Path::new(way));
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

    /// The look that follows no links finds what is found behind them, and leaves the rest to the way that
    /// follows them.
    #[test]
    fn both_ways_find_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for place in ["root/a/b", "root/.well-known", "rooted", "moved"] {
            fs::create_dir_all(base.join(place)).unwrap();
        }
        for file in ["root/a/b/file", "root/file", "rooted/file"] {
            fs::write(base.join(file), file).unwrap();
        }
        for (to, link) in [
            ("a/b", "in"),
            ("../root/a", "out-and-in"),
            ("..", "out"),
            ("../rooted/file", "leads-out"),
            ("link", "link"),
            ("nothing", "dangling"),
        ] {
            symlink(to, base.join("root").join(link)).unwrap();
        }
        symlink(base.join("root/a"), base.join("root/absolute")).unwrap();
        symlink(base.join("root"), base.join("name")).unwrap();
        let root = Arc::new(Root::open(&base.join("name")).unwrap());
        let ways = |first: &str| {
            ["", "/", "/file", "/b", "/b/file", "/nothing", "/file/x"].map(|rest| format!("{first}{rest}"))
        };
        let firsts =
            ["a", "file", "in", "out-and-in", "out", "leads-out", "link", "dangling", "absolute", "nothing"];
        let all = |root: &Arc<Root>| {
            let found =
                |found: Option<Beneath>| found.map(|found| (found.kind(), found.metadata.ino(), found.rest));
            let mut there = 0;
            for way in firsts.iter().flat_map(|first| ways(first)) {
                let by_links = found(Beneath::by_links(root, Path::new(&way)));
                there += usize::from(by_links.is_some());
                assert_eq!(found(Beneath::find(root, Path::new(&way))), by_links, "{way}");
            }
            there
        };
        let there = all(&root);
        assert!(
            there > 15 && Beneath::find(&root, Path::new("")).unwrap().kind() == EntryKind::Folder,
            "{there}"
        );
        // The folder is moved to where its name leads: it is the same, and so is what links within it lead
        // to.
        fs::rename(base.join("root"), base.join("moved/root")).unwrap();
        fs::remove_file(base.join("name")).unwrap();
        symlink("moved/root", base.join("name")).unwrap();
        assert!(root.is_current());
        assert!(all(&root) > 10);
        // It is another one now: whoever began with the one before goes on with that.
        fs::remove_file(base.join("name")).unwrap();
        symlink("rooted", base.join("name")).unwrap();
        assert!(!root.is_current());
        let read = |root: &Arc<Root>| {
            io::read_to_string(Beneath::find(root, Path::new("file")).unwrap().open().unwrap())
        };
        assert_eq!(read(&root).unwrap(), "root/file");
        assert_eq!(read(&Arc::new(Root::open(&base.join("name")).unwrap())).unwrap(), "rooted/file");
    }

    /// Folders in folders, deeper than a path may be long.
    #[test]
    fn what_is_further_away_than_a_path_may_be_long_is_found() {
        use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut at = openat(CWD, &root, flags, Mode::empty()).unwrap();
        let opened = Arc::new(Root::open(&root).unwrap());
        let mut place = PathBuf::new();
        for n in 0..60 {
            // Of many lengths, so that pieces end in many ways, and at last three pieces long.
            let name = format!("{n:0width$}", width = 255 - 3 * n);
            mkdirat(&at, &name, Mode::RWXU).unwrap();
            at = openat(&at, &name, flags, Mode::empty()).unwrap();
            place.push(&name);
            let found = Beneath::find(&opened, &place).unwrap();
            assert_eq!((&found.rest, found.kind()), (&place, EntryKind::Folder), "{n}");
        }
        assert!(place.as_os_str().len() > 2 * LONGEST);
        let mode = Mode::RUSR | Mode::WUSR;
        let file = openat(&at, "file", OFlags::CREATE | OFlags::WRONLY, mode).unwrap();
        io::Write::write_all(&mut File::from(file), b"deep").unwrap();
        symlink("file", folder.path().join("link")).unwrap();
        rustix::fs::symlinkat("file", &at, "link").unwrap();
        let found = Beneath::find(&opened, &place.join("file")).unwrap();
        assert_eq!(io::read_to_string(found.open().unwrap()).unwrap(), "deep");
        assert!(Beneath::find(&opened, &place.join("link")).is_none_or(|link| link.open().is_err()));
        let mut names: Vec<_> = Beneath::find(&opened, &place).unwrap().entries().unwrap().collect();
        names.sort_by(|a, b| a.name.cmp(&b.name));
        let file = FolderEntry { name: "file".into(), kind: Some(EntryKind::File) };
        assert_eq!(names, [file, FolderEntry { name: "link".into(), kind: None }]);
        // The system would not take it away by its path either: from the end on.
        drop(at);
        assert!(std::process::Command::new("rm").arg("-rf").arg(&root).status().unwrap().success());
    }
}
