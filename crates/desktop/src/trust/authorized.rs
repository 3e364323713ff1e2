use std::path::{Path, PathBuf};
use std::time::SystemTime;

use quickset::Fingerprint;

use super::files::{ClosedTo, append, can_lock, locked, read, replace};
use super::rights::comment;
use super::{DesktopLabel, DeviceRights, FileError};

/// The clients that may come in: a file with lines `sha256:… RIGHTS comment`, and comments after `#`. Rights
/// are `view-only`, `desktop=NAME` and `until=TIME`, as far as they are less than all.
///
/// It is read anew for each client, so that edits count at once. A line that cannot be read lets nobody in.
#[derive(Clone, Debug)]
pub struct Authorized {
    path: PathBuf,
}

/// A line of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizedClient {
    /// Who it is.
    pub key: Fingerprint,
    /// What it may do.
    pub rights: DeviceRights,
    /// What people wrote about it.
    pub comment: String,
}

impl Authorized {
    /// Those in the file `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// What the client with this key may do that wants to see this desktop, or whichever there is. Of several
    /// lines it is the one that lets it do the most. (A key is no secret: TLS has proved that the client
    /// holds it.) `None`: it is not listed, or its time is over.
    ///
    /// # Errors
    /// When the file cannot be read, or others can write to it.
    pub fn rights(
        &self,
        now: SystemTime,
        key: Fingerprint,
        desktop: Option<&DesktopLabel>,
    ) -> Result<Option<DeviceRights>, FileError> {
        let mine = self.list(now)?.into_iter().filter(|client| client.key == key).map(|client| client.rights);
        let fits = |rights: &DeviceRights| {
            desktop.is_none() || rights.desktop.is_none() || rights.desktop.as_ref() == desktop
        };
        // Whoever may see another desktop alone is told so by the rights it has.
        Ok(mine.min_by_key(|rights| {
            (!fits(rights), rights.view_only, rights.until.is_some(), rights.desktop.is_some())
        }))
    }

    /// Nobody is listed whose time is not over.
    ///
    /// # Errors
    /// See [`rights`](Self::rights).
    pub fn is_empty(&self, now: SystemTime) -> Result<bool, FileError> {
        Ok(self.list(now)?.is_empty())
    }

    /// Lists a key, with a comment of which control characters are left out. Nothing that it may do already
    /// is taken away.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn add(&self, key: Fingerprint, rights: &DeviceRights, about: &str) -> Result<(), FileError> {
        let held = self.lines()?.into_iter().filter_map(|(_, client)| client);
        if held.into_iter().any(|client| client.key == key && client.rights == *rights) {
            return Ok(());
        }
        let line = format!("{key} {rights}{}", comment(about));
        let write = || append(&self.path, line.trim_end());
        // Where no lock can be made nobody takes a line out meanwhile either.
        if can_lock(&self.path) { locked(&self.path, write) } else { write() }
    }

    /// Takes all that a client may do. False when its key is not listed.
    ///
    /// # Errors
    /// When the file cannot be read or written.
    pub fn remove(&self, key: Fingerprint) -> Result<bool, FileError> {
        locked(&self.path, || {
            let lines = self.lines()?;
            let stays =
                |client: &Option<AuthorizedClient>| client.as_ref().is_none_or(|client| client.key != key);
            if lines.iter().all(|(_, client)| stays(client)) {
                return Ok(false);
            }
            let left = lines.iter().filter(|(_, client)| stays(client)).map(|(line, _)| format!("{line}\n"));
            replace(&self.path, left.collect::<String>().as_bytes())?;
            Ok(true)
        })
    }

    /// Those whose time is not over.
    ///
    /// # Errors
    /// See [`rights`](Self::rights).
    pub fn list(&self, now: SystemTime) -> Result<Vec<AuthorizedClient>, FileError> {
        let all = self.lines()?.into_iter().filter_map(|(_, client)| client);
        Ok(all.filter(|client| !client.rights.are_over(now)).collect())
    }

    /// Where they are listed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Each line, and the client of whom it is.
    fn lines(&self) -> Result<Vec<(String, Option<AuthorizedClient>)>, FileError> {
        let text = read(&self.path, ClosedTo::Unchanged)?.unwrap_or_default();
        let client = |(i, line): (usize, &str)| {
            let plain = line.split('#').next().unwrap_or_default().trim();
            let client = (!plain.is_empty()).then(|| AuthorizedClient::read(plain)).transpose();
            let client = client.unwrap_or_else(|error| {
                tracing::warn!(path = %self.path.display(), line = i + 1, "this lets nobody in: {error}");
                None
            });
            (line.to_owned(), client)
        };
        Ok(text.lines().enumerate().map(client).collect())
    }
}

impl AuthorizedClient {
    fn read(line: &str) -> Result<Self, String> {
        let (key, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let key = key.parse().map_err(|error: quickset::ParseFingerprintError| error.to_string())?;
        let (rights, comment) = DeviceRights::read(rest)?;
        Ok(Self { key, rights, comment: comment.to_owned() })
    }
}
