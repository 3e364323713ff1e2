use std::path::{Path, PathBuf};

use quickset::Fingerprint;

use super::FileError;
use super::files::{ClosedTo, append, read};

/// The clients that may come in: a file with lines `sha256:… comment`, and comments after `#`.
///
/// It is read anew for each client, so that edits count at once. A line that cannot be read lets nobody in.
#[derive(Clone, Debug)]
pub struct Authorized {
    path: PathBuf,
}

impl Authorized {
    /// Those in the file `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The fingerprint is listed. (It is no secret: TLS has proved that the client holds the key.)
    ///
    /// # Errors
    /// When the file cannot be read, or others can write to it.
    pub fn contains(&self, key: Fingerprint) -> Result<bool, FileError> {
        Ok(self.keys()?.contains(&key))
    }

    /// Nobody is listed.
    ///
    /// # Errors
    /// See [`contains`](Self::contains).
    pub fn is_empty(&self) -> Result<bool, FileError> {
        Ok(self.keys()?.is_empty())
    }

    /// Lists a key, with a comment of which control characters are left out.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&self, key: Fingerprint, comment: &str) -> Result<(), FileError> {
        if self.contains(key)? {
            return Ok(());
        }
        let comment: String = comment.chars().filter(|c| !c.is_control() && *c != '#').take(100).collect();
        append(&self.path, format!("{key} {comment}").trim_end())
    }

    /// Where they are listed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn keys(&self) -> Result<Vec<Fingerprint>, FileError> {
        let text = read(&self.path, ClosedTo::Unchanged)?.unwrap_or_default();
        let mut keys = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default();
            let Some(word) = line.split_whitespace().next() else { continue };
            match word.parse() {
                Ok(key) => keys.push(key),
                Err(error) => {
                    tracing::warn!(path = %self.path.display(), line = i + 1, "this lets nobody in: {error}");
                }
            }
        }
        Ok(keys)
    }
}
