//! The folder below which files are found.

use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// A folder, as it was found by a name: it stays the same when the name comes to lead elsewhere.
#[derive(Debug)]
pub(super) struct Root {
    name: PathBuf,
    /// Where that led, behind all links.
    path: PathBuf,
    /// By it files are found without a look at the names above it.
    #[cfg(target_os = "linux")]
    pub(super) folder: OwnedFd,
    #[cfg(target_os = "linux")]
    number: (u64, u64),
}

impl Root {
    /// The folder of this name.
    ///
    /// # Errors
    /// Those of the system, and when it is none.
    pub(super) fn open(name: &Path) -> io::Result<Self> {
        let path = name.canonicalize()?;
        if !path.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::{CWD, Mode, OFlags, fstat, openat};
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let folder = openat(CWD, &path, flags, Mode::empty())?;
            let stat = fstat(&folder)?;
            Ok(Self { name: name.to_owned(), path, folder, number: (stat.st_dev, stat.st_ino) })
        }
        #[cfg(not(target_os = "linux"))]
        Ok(Self { name: name.to_owned(), path })
    }

    /// Whether its name leads to it still; where that is not known, it does not.
    pub(super) fn is_current(&self) -> bool {
        self.is_at(&self.name)
    }

    /// Where it is now, behind all links.
    pub(super) fn path(&self) -> Option<PathBuf> {
        #[cfg(target_os = "linux")]
        {
            // The name may lead elsewhere by now, and the folder may have been moved to where it leads.
            let paths = [&self.name, &self.path].into_iter();
            paths.filter_map(|path| path.canonicalize().ok()).find(|path| self.is_at(path))
        }
        #[cfg(not(target_os = "linux"))]
        Some(self.path.clone())
    }

    #[cfg(target_os = "linux")]
    fn is_at(&self, path: &Path) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        path.metadata().is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.number)
    }

    #[cfg(not(target_os = "linux"))]
    fn is_at(&self, _: &Path) -> bool {
        false
    }

    /// Whether a file is there, wherever links lead.
    ///
    /// # Errors
    /// When the way is longer than the system takes.
    pub(super) fn has_file(&self, way: &Path) -> io::Result<bool> {
        #[cfg(target_os = "linux")]
        let is_file = {
            use rustix::fs::{AtFlags, FileType, statat};
            let stat = statat(&self.folder, way, AtFlags::empty());
            stat.map(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
                .map_err(io::Error::from)
        };
        #[cfg(not(target_os = "linux"))]
        let is_file = self.path.join(way).metadata().map(|metadata| metadata.is_file());
        match is_file {
            Err(error) if !is_too_long(&error) => Ok(false),
            is_file => is_file,
        }
    }
}

/// The path is too long for the system, or a name on it.
pub(super) fn is_too_long(error: &io::Error) -> bool {
    error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) == Some(rustix::io::Errno::NAMETOOLONG)
}
