//! Files, folders and groups of processes that a run needs, and that go with it: at its end, and when the
//! process is ended before.

use std::collections::BTreeMap;
#[cfg(target_os = "linux")]
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Something in the file system that goes when this is dropped.
#[derive(Debug)]
pub(crate) struct ScratchFile {
    number: u64,
    path: PathBuf,
}

/// What it is, and so how it goes.
#[derive(Clone, Copy, Debug)]
enum ScratchKind {
    File,
    #[cfg(target_os = "linux")]
    Folder,
    #[cfg(target_os = "linux")]
    Group,
}

/// What is there now, of all runs.
static THERE: Mutex<BTreeMap<u64, (PathBuf, ScratchKind)>> = Mutex::new(BTreeMap::new());

impl ScratchFile {
    /// The path of a file, which is made by whoever has it.
    pub(crate) fn file() -> Self {
        Self::named(&std::env::temp_dir(), ScratchKind::File)
    }

    /// An empty folder that nobody else may look into.
    #[cfg(target_os = "linux")]
    pub(crate) fn folder() -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;
        let folder = Self::named(&std::env::temp_dir(), ScratchKind::Folder);
        std::fs::DirBuilder::new().mode(0o700).create(&folder.path)?;
        Ok(folder)
    }

    /// A control group below this one; what still runs in it at its end is killed.
    #[cfg(target_os = "linux")]
    pub(crate) fn group(parent: &Path) -> io::Result<Self> {
        let group = Self::named(parent, ScratchKind::Group);
        std::fs::create_dir(&group.path)?;
        Ok(group)
    }

    fn named(parent: &Path, kind: ScratchKind) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = parent.join(format!("quickset-lab-{}-{number}", std::process::id()));
        THERE.lock().unwrap_or_else(PoisonError::into_inner).insert(number, (path.clone(), kind));
        Self { number, path }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        let there = THERE.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.number);
        if let Some((path, kind)) = there {
            remove(&path, kind);
        }
    }
}

/// Removes what runs under way have made, for a process that ends right behind this and waits for none of
/// them.
pub fn clear() {
    let mut there = THERE.lock().unwrap_or_else(PoisonError::into_inner);
    // What runs in a group may still write to a folder, which is older.
    for (path, kind) in std::mem::take(&mut *there).into_values().rev() {
        remove(&path, kind);
    }
    // A run that has lost what it works with would complain of that first; it waits here instead.
    std::mem::forget(there);
}

fn remove(path: &Path, kind: ScratchKind) {
    // It may never have come to be, and who removes temporary files may have been here first.
    let _ = match kind {
        ScratchKind::File => std::fs::remove_file(path),
        #[cfg(target_os = "linux")]
        ScratchKind::Folder => std::fs::remove_dir_all(path),
        #[cfg(target_os = "linux")]
        ScratchKind::Group => remove_group(path),
    };
}

/// A group goes when nothing runs in it (cgroups(7)), which takes a moment after a kill.
#[cfg(target_os = "linux")]
fn remove_group(path: &Path) -> io::Result<()> {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    let mut removed = Ok(());
    for _ in 0..LOOKS {
        let processes = std::fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
        for process in processes.lines().filter_map(|line| line.parse().ok()) {
            // It may end by itself meanwhile. 0 is what is of another namespace.
            if process > 0 {
                let _ = kill(Pid::from_raw(process), Signal::SIGKILL);
            }
        }
        removed = std::fs::remove_dir(path);
        if removed.is_ok() {
            break;
        }
        std::thread::sleep(LOOK);
    }
    removed
}

/// Two seconds in all.
#[cfg(target_os = "linux")]
const LOOKS: u32 = 200;
#[cfg(target_os = "linux")]
const LOOK: std::time::Duration = std::time::Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_gone() {
        let [one, other] = [(); 2].map(|()| ScratchFile::file());
        assert_ne!(one.path(), other.path());
        std::fs::write(one.path(), "1").unwrap();
        let path = one.path().to_owned();
        // What never came to be is no fault.
        drop((one, other));
        assert!(!path.exists());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_folder_goes_with_all_that_is_in_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = ScratchFile::folder().unwrap();
        let path = folder.path().to_owned();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::create_dir(path.join("a")).unwrap();
        std::fs::write(path.join("a/b"), "1").unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
