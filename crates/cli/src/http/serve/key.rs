use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use anyhow::Context as _;
use quickset_desktop::trust::check_secret;

use crate::say::named;

/// What a server keeps for the next one in its place: 32 bytes in a file.
#[derive(Debug)]
pub(super) struct ServerKey {
    pub(super) bytes: [u8; LEN],
    /// Nobody else has it as long as this is open.
    _file: File,
}

impl ServerKey {
    /// That of the file, which is made if there is none. One server at a time has it: two would end each
    /// other's connections (RFC 9000 §21.11).
    pub(super) fn read_or_make(path: &Path) -> anyhow::Result<Self> {
        let told = || format!("{} cannot be used; name another file with --endpoint-key", named(path));
        let mut options = OpenOptions::new();
        options.read(true);
        let mut file = match options.open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => made(path).with_context(told)?,
            opened => opened.with_context(told)?,
        };
        // Pipes and devices can be waited for without end.
        let metadata = file.metadata().with_context(told)?;
        anyhow::ensure!(metadata.is_file(), "{} is no file; name one with --endpoint-key", named(path));
        check_secret(path, &file)?;
        #[cfg(unix)]
        {
            use rustix::fs::{FlockOperation, flock};
            use rustix::io::Errno;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => anyhow::bail!(
                    "another server has {}; two with one key would end each other's connections, give each its own",
                    named(path)
                ),
                locked => locked.with_context(|| format!("{} cannot be locked", named(path)))?,
            }
        }
        let mut read = Vec::new();
        (&mut file).take(LEN as u64 + 1).read_to_end(&mut read).with_context(told)?;
        let bytes = read.try_into().map_err(|_| {
            anyhow::anyhow!(
                "{} is not {LEN} bytes, as a key is; name a file that there is not, and it will be made",
                named(path)
            )
        })?;
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
        let first = ServerKey::read_or_make(&path).unwrap();
        assert_ne!(first.bytes, [0; LEN]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            let said = ServerKey::read_or_make(&path).unwrap_err().to_string();
            assert!(said.contains("another server"), "{said}");
        }
        let bytes = first.bytes;
        drop(first);
        assert_eq!(ServerKey::read_or_make(&path).unwrap().bytes, bytes);
        for len in [0, LEN - 1, LEN + 1, 4000] {
            std::fs::write(&path, vec![1; len]).unwrap();
            let said = ServerKey::read_or_make(&path).unwrap_err().to_string();
            assert!(said.contains("32 bytes"), "{len}: {said}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            std::fs::write(&path, [1; LEN]).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
            let said = ServerKey::read_or_make(&path).unwrap_err().to_string();
            assert!(said.contains("chmod 600"), "{said}");
        }
        assert!(ServerKey::read_or_make(&folder).is_err());
        let said = ServerKey::read_or_make(&folder.join("none/key")).unwrap_err().to_string();
        assert!(said.contains("--endpoint-key"), "{said}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
