//! Files that are nobody else's: keys, passwords, fields with credentials.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use quickset_desktop::trust::check_secret;

use crate::say::named;

/// The text of a file that must be closed to others.
///
/// # Errors
/// Those of the system; when others can read or change it; when it is no text, or very long.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let file = File::open(path).with_context(|| format!("{} cannot be read", named(path)))?;
    check_secret(path, &file)?;
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

/// Bytes: a chain of certificates has some thousands.
const LONGEST: u64 = 1 << 20;

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// What is refused to the desktop is refused to HTTP, in the same words, and the other way round.
    #[test]
    fn secrets_that_others_can_read_are_refused_everywhere_alike() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "secret").unwrap();
        for mode in 0..0o1000 {
            fs::set_permissions(&path, Permissions::from_mode(mode | 0o400)).unwrap();
            let desktop = quickset_desktop::trust::read_secret(&path).map_err(|error| error.to_string());
            assert_eq!(read(&path).map_err(|error| error.to_string()), desktop, "{mode:o}");
            let is_closed = |open: u32| mode & open == 0;
            let is_root = rustix::process::geteuid().is_root();
            assert_eq!(desktop.is_ok(), is_closed(if is_root { 0o026 } else { 0o066 }), "{mode:o}");
            if let Err(said) = desktop {
                assert!(said.contains("`chmod 600 ") && said.contains("/key`"), "{said}");
            }
        }
        assert_eq!(text(&path, &File::open(&path).unwrap()).unwrap(), "secret");
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
