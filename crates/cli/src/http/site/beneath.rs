//! Files below a folder, and no others, whatever becomes of names and links between two looks at them.

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

impl Beneath {
    /// Where `place` leads, behind all links, if something is there and it is below `root`, which has none.
    pub(super) fn find(root: &Path, place: &Path) -> Option<Self> {
        let place = place.canonicalize().ok()?;
        let rest = place.strip_prefix(root).ok()?.to_owned();
        Some(Self { root: root.to_owned(), rest })
    }

    pub(super) fn path(&self) -> PathBuf {
        self.root.join(&self.rest)
    }

    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        self.path().metadata()
    }

    /// Opens it to be read. A link that has come to stand on the way is not followed, and what is no file is not waited for.
    ///
    /// # Errors
    /// Those of the system.
    #[cfg(target_os = "linux")]
    pub(super) fn open(&self) -> io::Result<File> {
        use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
        use rustix::io::Errno;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let root =
            openat(CWD, &self.root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        match openat2(&root, &self.rest, flags, Mode::empty(), beneath) {
            // Linux has it since 5.6, and old filters of system calls do not know it: so well it goes without, too.
            Err(Errno::NOSYS | Errno::PERM) => Ok(openat(CWD, self.path(), flags, Mode::empty())?.into()),
            opened => Ok(opened?.into()),
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn open(&self) -> io::Result<File> {
        File::open(self.path())
    }
}

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
}
