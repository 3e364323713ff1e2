//! Files that are nobody else's: keys, passwords, fields with credentials.

use std::fs::{File, Metadata};
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;

use crate::say::named;

/// The text of a file that must be closed to others.
///
/// # Errors
/// Those of the system; when others can read or change it; when it is no text, or very long.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let file = File::open(path).with_context(|| format!("{} cannot be read", named(path)))?;
    check(path, &file)?;
    text(path, &file)
}

/// The text of an open file, whoever may read it.
///
/// # Errors
/// Those of the system; when it is no text, or very long.
pub(crate) fn text(path: &Path, file: &File) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = file.take(LONGEST + 1).read_to_end(&mut bytes);
    read.with_context(|| format!("{} cannot be read", named(path)))?;
    anyhow::ensure!(bytes.len() as u64 <= LONGEST, "{} is longer than such files are", named(path));
    String::from_utf8(bytes).map_err(|_| anyhow::anyhow!("{} is no text", named(path)))
}

/// Whether an open file is closed to others: of what has its name by now nothing is said.
///
/// # Errors
/// When others can read or change it, with the command that closes it; those of the system.
pub(crate) fn check(path: &Path, file: &File) -> anyhow::Result<()> {
    let metadata = file.metadata().with_context(|| format!("{} cannot be looked at", named(path)))?;
    match open_to(&metadata) {
        None => Ok(()),
        Some(whom) => anyhow::bail!("{0} is secret, and {whom}; close it with `chmod 600 {0}`", named(path)),
    }
}

/// Others read or change nothing, and the group changes nothing. It may read what is root's: so an administrator gives a key to
/// servers that have given up being root.
#[cfg(unix)]
fn open_to(metadata: &Metadata) -> Option<&'static str> {
    use std::os::unix::fs::MetadataExt as _;
    let group = if metadata.uid() == 0 { 0o020 } else { 0o060 };
    match metadata.mode() {
        mode if mode & 0o006 != 0 => Some("everybody on this machine can get at it"),
        mode if mode & group != 0 => Some("its group can get at it"),
        _ => None,
    }
}

/// Elsewhere the folder of a user is closed by the system.
#[cfg(not(unix))]
fn open_to(_: &Metadata) -> Option<&'static str> {
    None
}

/// Bytes: a chain of certificates has some thousands.
const LONGEST: u64 = 1 << 20;

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn secrets_that_others_can_read_are_refused_with_the_next_step() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "secret").unwrap();
        let is_root = rustix::process::geteuid().is_root();
        for (mode, is_taken) in [
            (0o600, true),
            (0o400, true),
            (0o700, true),
            (0o640, is_root),
            (0o620, false),
            (0o660, false),
            (0o604, false),
            (0o602, false),
            (0o644, false),
            (0o666, false),
        ] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = read(&path);
            assert_eq!(read.is_ok(), is_taken, "{mode:o}: {read:?}");
            if let Err(error) = read {
                let said = error.to_string();
                assert!(said.contains("`chmod 600 ") && said.contains("/key`"), "{said}");
            }
            assert_eq!(text(&path, &File::open(&path).unwrap()).unwrap(), "secret");
        }
    }

    #[test]
    fn what_the_system_says_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let said = format!("{:#}", read(&folder.path().join("none")).unwrap_err());
        assert!(said.contains("none cannot be read: No such file or directory (os error 2)"), "{said}");
        let path = folder.path().join("key");
        for (content, told) in [(vec![b'x'; LONGEST as usize + 1], "longer"), (vec![0xff], "no text")] {
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains(told));
        }
    }
}
