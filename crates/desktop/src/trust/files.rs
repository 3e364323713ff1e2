use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::SystemTime;

use quickset::Identity;
use quickset_rfb::PlainLogin;

use super::{Authorized, Invitations, KnownServers, PageCertificates, ServerNotice};

/// The folder of the gateway's own files, readable by its user alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayFolder(PathBuf);

/// Why a file cannot be used. Says what to do.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refuses.
    #[error("cannot {verb} {path}: {error}")]
    Io {
        /// What was tried.
        verb: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Others can read or change it.
    #[error("{path} is open to other users (mode {mode:03o}); close it with `chmod {want:03o} {path}`")]
    Open {
        /// Which file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
        /// Those that it may have.
        want: u32,
    },
    /// It holds something else.
    #[error("{path}{}: {what}", line.map(|n| format!(" line {n}")).unwrap_or_default())]
    Content {
        /// Which file.
        path: PathBuf,
        /// Where, from 1.
        line: Option<usize>,
        /// What is wrong, and what to do.
        what: String,
    },
    /// There is no home to keep files in.
    #[error("neither XDG_DATA_HOME nor HOME names a folder; set one of them")]
    NoHome,
    /// No key could be made.
    #[error("cannot make a key: {0}")]
    Make(#[from] quickset::IdentityError),
}

impl GatewayFolder {
    /// `$XDG_DATA_HOME/quickset`, or `~/.local/share/quickset`.
    ///
    /// # Errors
    /// When the environment names neither.
    pub fn standard() -> Result<Self, FileError> {
        // XDG Base Directory Specification: a relative path is to be ignored.
        let absolute =
            |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")));
        Ok(Self(data.ok_or(FileError::NoHome)?.join("quickset")))
    }

    /// The folder `path`. It need not exist.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Who this machine proves to be as a server; made on first use.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn server_identity(&self) -> Result<Identity, FileError> {
        self.make()?;
        identity(&self.0.join("server.pem"))
    }

    /// Who this machine proves to be as a client; made on first use.
    ///
    /// # Errors
    /// See [`FileError`].
    pub fn client_identity(&self) -> Result<Identity, FileError> {
        self.make()?;
        identity(&self.0.join("client.pem"))
    }

    /// The servers that were seen before.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn known_servers(&self) -> Result<KnownServers, FileError> {
        self.make()?;
        Ok(KnownServers::at(self.0.join("known_servers")))
    }

    /// The VNC servers that were seen before by their certificates.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn known_vnc_servers(&self) -> Result<KnownServers, FileError> {
        self.make()?;
        Ok(KnownServers::at(self.0.join("known_vnc_servers")))
    }

    /// The clients that may come in.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn authorized(&self) -> Result<Authorized, FileError> {
        self.make()?;
        Ok(Authorized::at(self.0.join("authorized_clients")))
    }

    /// The devices that are invited.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn invitations(&self) -> Result<Invitations, FileError> {
        self.make()?;
        Ok(Invitations::at(self.0.join("invitations")))
    }

    /// What a server says of itself while it runs.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn notice(&self) -> Result<ServerNotice, FileError> {
        self.make()?;
        Ok(ServerNotice::at(self.0.join("serving")))
    }

    /// The certificates by which pages know the server with this key: that of now, and the next one. They are
    /// kept, so that a link stays good when the server starts anew.
    ///
    /// # Errors
    /// See [`FileError`]; [`FileError::Make`] when browsers do not take this kind of key.
    pub fn page_certificates(
        &self,
        server: &Identity,
        names: &[String],
        now: SystemTime,
    ) -> Result<PageCertificates, FileError> {
        self.make()?;
        PageCertificates::at(&self.0.join("page_certificates.pem"), server, names, now)
    }

    /// Makes the folder, closed to others from its first moment.
    fn make(&self) -> Result<(), FileError> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&self.0).map_err(|error| io_error("make the folder", &self.0, error))?;
        // Keys in a folder that others can write to could be replaced.
        let meta = fs::metadata(&self.0).map_err(|error| io_error("look at", &self.0, error))?;
        ClosedTo::Unchanged.check(&self.0, &meta)
    }
}

/// The identity in the PEM file `path` (certificate and key), which is made when it is missing. Of several
/// who make it at the same time, all get the same.
///
/// # Errors
/// See [`FileError`]; a file that is there is never replaced.
pub(super) fn identity(path: &Path) -> Result<Identity, FileError> {
    if let Some(found) = read_identity(path)? {
        return Ok(found);
    }
    let made = Identity::self_signed(["quickset.invalid"])?;
    let text = format!("{}{}", made.certificate_pem(), made.private_key_pem());
    if create(path, text.as_bytes())? {
        return Ok(made);
    }
    read_identity(path)?.ok_or_else(|| io_error("read", path, io::ErrorKind::NotFound.into()))
}

/// The identity that the file `path` holds; `None` when there is no such file.
///
/// # Errors
/// See [`FileError`].
pub(super) fn read_identity(path: &Path) -> Result<Option<Identity>, FileError> {
    let Some(text) = read(path, ClosedTo::Secret)? else { return Ok(None) };
    let identity = Identity::from_pem(&text, &text).map_err(|error| FileError::Content {
        path: path.into(),
        line: None,
        what: format!("{error}; restore it, or move it away for a new key (peers will then warn of it)"),
    })?;
    Ok(Some(identity))
}

/// The identity in the PEM file `path`: a certificate and its private key. Only its owner may read it.
///
/// # Errors
/// See [`FileError`].
pub fn load_identity(path: &Path) -> Result<Identity, FileError> {
    read_identity(path)?.ok_or_else(|| io_error("read", path, io::ErrorKind::NotFound.into()))
}

/// The first line of a file that only its owner can read: a password.
///
/// # Errors
/// See [`FileError`].
pub fn read_secret(path: &Path) -> Result<String, FileError> {
    let text = read(path, ClosedTo::Secret)?;
    let text = text.ok_or_else(|| io_error("read", path, io::ErrorKind::NotFound.into()))?;
    match text.lines().next() {
        Some(line) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err(FileError::Content {
            path: path.into(),
            line: Some(1),
            what: "write the password there".into(),
        }),
    }
}

/// The first two lines of a file that only its owner can read: a user's name at a VNC server, and the
/// password.
///
/// # Errors
/// See [`FileError`].
pub fn read_login(path: &Path) -> Result<PlainLogin, FileError> {
    let text = read(path, ClosedTo::Secret)?;
    let text = text.ok_or_else(|| io_error("read", path, io::ErrorKind::NotFound.into()))?;
    let mut lines = text.lines();
    match (lines.next(), lines.next()) {
        (Some(user), Some(password)) if !user.is_empty() => Ok(PlainLogin::new(user, password)),
        _ => Err(FileError::Content {
            path: path.into(),
            line: None,
            what: "write the user's name there, and the password in the second line".into(),
        }),
    }
}

/// Whether an open file of a secret is closed to others, by the rule and in the words of all of ours: others
/// read or change nothing, and the group changes nothing. It may read what is root's: so an administrator
/// gives a key to servers that have given up being root.
///
/// # Errors
/// [`FileError::Open`] with the command that closes it; [`FileError::Io`].
pub fn check_secret(path: &Path, file: &File) -> Result<(), FileError> {
    // Of the file that is open, not of whatever has that name by now.
    let meta = file.metadata().map_err(|error| io_error("look at", path, error))?;
    ClosedTo::Secret.check(path, &meta)
}

/// The text of a file, which must be closed so; `None` when it is missing.
pub(super) fn read(path: &Path, closed: ClosedTo) -> Result<Option<String>, FileError> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(|error| io_error("open", path, error))?,
    };
    // Of the file that is open, not of whatever has that name by now.
    let meta = file.metadata().map_err(|error| io_error("look at", path, error))?;
    closed.check(path, &meta)?;
    let too_long = || FileError::Content { path: path.into(), line: None, what: "it is too long".into() };
    if meta.len() > LONGEST {
        return Err(too_long());
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(|error| io_error("read", path, error))?;
    if bytes.len() as u64 > LONGEST {
        return Err(too_long());
    }
    let text = String::from_utf8(bytes).map_err(|_| FileError::Content {
        path: path.into(),
        line: None,
        what: "it is not text".into(),
    })?;
    Ok(Some(text))
}

/// Adds a line to a file that only its owner can read, and that is made when it is missing. One write at the
/// end of the file: of several who do so at the same time, none loses its line.
pub(super) fn append(path: &Path, line: &str) -> Result<(), FileError> {
    debug_assert!(!line.contains('\n'), "it is one line");
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).map_err(|error| io_error("open", path, error))?;
    let write = |file: &mut File| {
        // A line that an editor or a crash left without its end must not swallow ours.
        let mut last = [b'\n'];
        if file.seek(SeekFrom::End(0))? > 0 {
            file.seek(SeekFrom::End(-1))?;
            file.read_exact(&mut last)?;
        }
        let begin = if last == [b'\n'] { "" } else { "\n" };
        file.write_all(format!("{begin}{line}\n").as_bytes())?;
        file.sync_all()
    };
    write(&mut file).map_err(|error| io_error("write to", path, error))
}

/// Makes a file that only its owner can read; false when one is there already. Nobody ever sees a part of it.
fn create(path: &Path, content: &[u8]) -> Result<bool, FileError> {
    let draft = draft_of(path);
    let written = (|| {
        write_new(&draft, content)?;
        // A rename would replace a file that another process has just made; a link does not.
        match fs::hard_link(&draft, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            other => other.map(|()| true),
        }
    })();
    // It may not be there when it could not be made.
    let _ = fs::remove_file(&draft);
    written.map_err(|error| io_error("make", path, error))
}

/// Puts a file that only its owner can read in place of the one that is there, if one is. Nobody ever sees a
/// part of it.
pub(super) fn replace(path: &Path, content: &[u8]) -> Result<(), FileError> {
    let draft = draft_of(path);
    let written = write_new(&draft, content).and_then(|()| fs::rename(&draft, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&draft);
        io_error("write", path, error)
    })
}

/// Does `work` on a file while nobody else does who asks for it in this way, in this process or another.
pub(super) fn locked<T>(path: &Path, work: impl FnOnce() -> Result<T, FileError>) -> Result<T, FileError> {
    let lock = path.with_extension("lock");
    let mut lock = fd_lock::RwLock::new(open_lock(&lock)?);
    let held = lock.write().map_err(|error| io_error("lock", path, error))?;
    let done = work();
    drop(held);
    done
}

/// Whether there can be a lock on a file: whoever may not write to its folder has none.
pub(super) fn can_lock(path: &Path) -> bool {
    open_lock(&path.with_extension("lock")).is_ok()
}

/// The file `path`, made when it is missing, for the lock on it.
pub(super) fn open_lock(path: &Path) -> Result<File, FileError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| io_error("open", path, error))
}

/// A name beside a file that nobody else uses.
fn draft_of(path: &Path) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    path.with_extension(format!("{}.{n}.new", std::process::id()))
}

/// Writes a file that only its owner can read, and that is not there yet.
fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// To whom a file is closed, or a folder.
#[derive(Clone, Copy, Debug)]
pub(super) enum ClosedTo {
    /// Nobody else reads or changes it; see [`check_secret`].
    Secret,
    /// Nobody else changes it.
    Unchanged,
}

impl ClosedTo {
    #[cfg(unix)]
    fn check(self, path: &Path, meta: &fs::Metadata) -> Result<(), FileError> {
        use std::os::unix::fs::MetadataExt as _;
        let open = match self {
            Self::Secret if meta.uid() == 0 => 0o026,
            Self::Secret => 0o066,
            Self::Unchanged => 0o022,
        };
        let (mode, want) = (meta.mode() & 0o777, if meta.is_dir() { 0o700 } else { 0o600 });
        if mode & open == 0 { Ok(()) } else { Err(FileError::Open { path: path.into(), mode, want }) }
    }

    /// Elsewhere the user's folder is closed by the system.
    #[cfg(not(unix))]
    fn check(self, _: &Path, _: &fs::Metadata) -> Result<(), FileError> {
        Ok(())
    }
}

pub(super) fn io_error(verb: &'static str, path: &Path, error: io::Error) -> FileError {
    FileError::Io { verb, path: path.into(), error }
}

/// Ten thousand keys.
const LONGEST: u64 = 1 << 20;
