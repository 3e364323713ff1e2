use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;

use crate::say::note;

/// What a server keeps for the next one in its place: 32 bytes in a file.
#[derive(Debug)]
pub(super) struct Key {
    pub(super) bytes: [u8; LEN],
    /// Nobody else has it as long as this is open.
    _file: File,
}

impl Key {
    /// That of the file, which is made if there is none. One server at a time has it: two would end each other's connections
    /// (RFC 9000 §21.11).
    pub(super) fn read_or_make(path: &Path) -> anyhow::Result<Self> {
        let told = || format!("{} cannot be used; name another file with --endpoint-key", path.display());
        let mut options = OpenOptions::new();
        options.read(true);
        let mut file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => made(path).with_context(told)?,
            opened => opened.with_context(told)?,
        };
        // Pipes and devices can be waited for without end.
        anyhow::ensure!(
            file.metadata().is_ok_and(|metadata| metadata.is_file()),
            "{} is no file",
            path.display()
        );
        #[cfg(unix)]
        {
            use rustix::fs::{FlockOperation, flock};
            use std::os::unix::fs::PermissionsExt as _;
            flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|_| {
                anyhow::anyhow!("another server has {}; two with one key would end each other's connections, give each its own", path.display())
            })?;
            if file.metadata().is_ok_and(|metadata| metadata.permissions().mode() & 0o077 != 0) {
                note!(
                    "quickset: warning: others can read {}, and end connections with it: chmod 600",
                    path.display()
                );
            }
        }
        let mut bytes = [0; LEN];
        let read = file.read_exact(&mut bytes).and_then(|()| file.read(&mut [0]));
        anyhow::ensure!(
            read.is_ok_and(|more| more == 0),
            "{} is not {LEN} bytes, as a key is; name a file that there is not, and it will be made",
            path.display()
        );
        Ok(Self { bytes, _file: file })
    }
}

/// A new one, which nobody else may read at any moment.
fn made(path: &Path) -> anyhow::Result<File> {
    let mut bytes = [0; LEN];
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.secure_random.fill(&mut bytes).map_err(|_| anyhow::anyhow!("the system has no entropy"))?;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(&bytes).and_then(|()| file.sync_all())?;
    Ok(File::open(path)?)
}

const LEN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_of_one_server() {
        let folder = std::env::temp_dir().join(format!("quickset-key-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("key");
        let first = Key::read_or_make(&path).unwrap();
        assert_ne!(first.bytes, [0; LEN]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let said = Key::read_or_make(&path).unwrap_err().to_string();
            assert!(said.contains("another server"), "{said}");
        }
        let bytes = first.bytes;
        drop(first);
        assert_eq!(Key::read_or_make(&path).unwrap().bytes, bytes);
        for len in [0, LEN - 1, LEN + 1, 4000] {
            std::fs::write(&path, vec![1; len]).unwrap();
            let said = Key::read_or_make(&path).unwrap_err().to_string();
            assert!(said.contains("32 bytes"), "{len}: {said}");
        }
        assert!(Key::read_or_make(&folder).is_err());
        let said = Key::read_or_make(&folder.join("none/key")).unwrap_err().to_string();
        assert!(said.contains("--endpoint-key"), "{said}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
