use std::fs::File;
use std::io::ErrorKind;
use std::path::PathBuf;

use super::FileError;
use super::files::{ClosedTo, io_error, open_lock, read, replace};

/// What a server says of itself while it runs, for other commands of its user: a file, and a lock that tells
/// whether anybody stands by it.
#[derive(Clone, Debug)]
pub struct ServerNotice {
    path: PathBuf,
}

/// The file, for as long as a server runs.
#[derive(Debug)]
pub struct NoticeBoard {
    path: PathBuf,
    /// The lock is on it until it is closed, however the process ends.
    _lock: fd_lock::RwLock<File>,
}

impl ServerNotice {
    /// In the file `path`, which need not exist.
    pub(super) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The notice becomes ours. `None` while another server has it.
    ///
    /// # Errors
    /// When its file cannot be made or locked.
    pub fn hold(&self) -> Result<Option<NoticeBoard>, FileError> {
        let mut lock = self.lock()?;
        match lock.try_write() {
            // Given back when the file is closed.
            Ok(guard) => std::mem::forget(guard),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(io_error("lock", &self.path, error)),
        }
        Ok(Some(NoticeBoard { path: self.path.clone(), _lock: lock }))
    }

    /// What the server says that runs now. `None` when none does.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn read(&self) -> Result<Option<String>, FileError> {
        match self.lock()?.try_read() {
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::WouldBlock => read(&self.path, ClosedTo::Unchanged),
            Err(error) => Err(io_error("lock", &self.path, error)),
        }
    }

    fn lock(&self) -> Result<fd_lock::RwLock<File>, FileError> {
        open_lock(&self.path.with_extension("lock")).map(fd_lock::RwLock::new)
    }
}

impl NoticeBoard {
    /// Says this from now on.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, text: &str) -> Result<(), FileError> {
        replace(&self.path, text.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_that_of_whoever_runs() {
        let path = std::env::temp_dir().join(format!("quickset-notice-{}", std::process::id()));
        let notice = ServerNotice::at(path.clone());
        assert_eq!(notice.read().unwrap(), None);
        let board = notice.hold().unwrap().unwrap();
        board.write("listen here").unwrap();
        assert_eq!(notice.read().unwrap().as_deref(), Some("listen here"));
        assert!(notice.hold().unwrap().is_none(), "there is one already");
        drop(board);
        assert_eq!(notice.read().unwrap(), None, "it has left its notice behind");
        assert!(notice.hold().unwrap().is_some());
        std::fs::remove_file(&path).unwrap();
        std::fs::remove_file(path.with_extension("lock")).unwrap();
    }
}
