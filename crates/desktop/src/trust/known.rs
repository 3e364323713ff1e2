use std::path::{Path, PathBuf};

use quickset::Fingerprint;

use super::FileError;
use super::files::{ClosedTo, append, read};

/// The servers that were seen before: a file with lines `HOST:PORT sha256:…`, and comments after `#`.
#[derive(Clone, Debug)]
pub struct KnownServers {
    path: PathBuf,
}

/// What is known of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The key that it had.
    pub fingerprint: Fingerprint,
    /// The line that says so, from 1.
    pub line: usize,
}

/// What to think of a server by its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerVerdict {
    /// It has the key that it had.
    Same,
    /// It was never seen: the key has just been written down.
    New,
    /// It had another key. Nothing may be sent to it.
    Changed(Changed),
}

/// A server whose key is not the known one. Printed, it is the warning for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "THE KEY OF {server} HAS CHANGED.\n\
     Somebody may be between you and the server, reading and changing everything; or it was given a new key.\n\
       known  {known}\n\
       now    {now}\n\
     Nothing was sent. Ask whoever runs the server, in another way, for the fingerprint that it prints when it\n\
     starts. Only if that is the one it has now, remove line {line} of {path} and connect again."
)]
pub struct Changed {
    server: String,
    known: Fingerprint,
    now: Fingerprint,
    line: usize,
    path: String,
}

impl KnownServers {
    /// Those in the file `path`, which need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// What is known of `server`, written `HOST:PORT`.
    ///
    /// # Errors
    /// Also when a line cannot be read: it might be the one about this server.
    pub fn look_up(&self, server: &str) -> Result<Option<Known>, FileError> {
        let server = normal(server);
        let text = read(&self.path, ClosedTo::Unchanged)?.unwrap_or_default();
        let mut found: Option<Known> = None;
        for (i, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let error = |what: &str| FileError::Content {
                path: self.path.clone(),
                line: Some(i + 1),
                what: what.to_owned(),
            };
            let mut words = line.split_whitespace();
            let (Some(name), Some(key), None) = (words.next(), words.next(), words.next()) else {
                return Err(error("this is not `HOST:PORT sha256:…`; repair or remove it"));
            };
            let fingerprint =
                key.parse().map_err(|_| error("this is no fingerprint; repair or remove it"))?;
            if normal(name) != server {
                continue;
            }
            match &found {
                Some(known) if known.fingerprint != fingerprint => {
                    let what =
                        format!("it contradicts line {} about {server}; remove the wrong one", known.line);
                    return Err(error(&what));
                }
                Some(_) => {}
                None => found = Some(Known { fingerprint, line: i + 1 }),
            }
        }
        Ok(found)
    }

    /// Judges `server` by the key that it has just proved to hold, and writes a new one down.
    ///
    /// # Errors
    /// See [`look_up`](Self::look_up); or the key cannot be written down.
    pub fn judge(&self, server: &str, now: Fingerprint) -> Result<ServerVerdict, FileError> {
        let Some(known) = self.look_up(server)? else {
            append(&self.path, &format!("{} {now}", normal(server)))?;
            // Another process may have written down another key in the same moment.
            return match self.look_up(server)? {
                Some(known) if known.fingerprint == now => Ok(ServerVerdict::New),
                Some(known) => Ok(ServerVerdict::Changed(self.changed(server, &known, now))),
                None => Err(FileError::Content {
                    path: self.path.clone(),
                    line: None,
                    what: "the key that was written there is gone; connect again".into(),
                }),
            };
        };
        if known.fingerprint == now {
            return Ok(ServerVerdict::Same);
        }
        Ok(ServerVerdict::Changed(self.changed(server, &known, now)))
    }

    /// Where they are written down.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The warning about a server that was `known` by another key.
    pub fn changed(&self, server: &str, known: &Known, now: Fingerprint) -> Changed {
        let (server, path) = (normal(server), self.path.display().to_string());
        Changed { server, known: known.fingerprint, now, line: known.line, path }
    }
}

/// Names of hosts differ in case only for people.
fn normal(server: &str) -> String {
    server.trim().trim_end_matches('.').to_ascii_lowercase()
}
