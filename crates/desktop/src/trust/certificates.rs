use std::path::Path;
use std::time::{Duration, SystemTime};

use quickset::Identity;

use super::FileError;
use super::files::{ClosedTo, read, replace};

/// The certificates by which pages know a server, all of its one key. Browsers take one that nobody signed by
/// its hash, if it is valid for less than two weeks. So there are always two, whose hashes are in every link:
/// when the first ends, the server shows the second, and old links go on.
#[derive(Clone, Debug)]
pub struct PageCertificates {
    now: DatedCertificate,
    next: DatedCertificate,
}

#[derive(Clone, Debug)]
struct DatedCertificate {
    begin: SystemTime,
    identity: Identity,
}

impl PageCertificates {
    /// Those of the file `path`, as far as they are of this key and good; others are made.
    pub(super) fn at(
        path: &Path,
        server: &Identity,
        names: &[String],
        now: SystemTime,
    ) -> Result<Self, FileError> {
        let known = read(path, ClosedTo::Secret)?.map(|text| dated(&text, server)).unwrap_or_default();
        let fits =
            |certificate: &&DatedCertificate| certificate.begin <= now && now < certificate.begin + SHOWN_FOR;
        let mut changed = false;
        let mut make = |begin| {
            changed = true;
            Ok::<_, FileError>(DatedCertificate {
                begin,
                identity: server.renewed_for_browsers(names, begin)?,
            })
        };
        let first = match known.iter().filter(fits).min_by_key(|certificate| certificate.begin) {
            Some(certificate) => certificate.clone(),
            // The clocks of others may be an hour behind.
            None => make(now - Duration::from_secs(3600))?,
        };
        // It is valid from a day before it is shown.
        let begin = first.begin + SHOWN_FOR - DAY;
        let next = match known.into_iter().find(|certificate| certificate.begin == begin) {
            Some(certificate) => certificate,
            None => make(begin)?,
        };
        let this = Self { now: first, next };
        if changed {
            replace(path, this.text().as_bytes())?;
        }
        Ok(this)
    }

    /// Whom the server shows now.
    pub fn identity(&self) -> &Identity {
        &self.now.identity
    }

    /// The hashes that pages are to take: of the certificate of now, and of the next one.
    pub fn hashes(&self) -> [[u8; 32]; 2] {
        [&self.now, &self.next].map(|certificate| certificate.identity.certificate_hash())
    }

    /// When the next one is to be shown.
    pub fn until(&self) -> SystemTime {
        self.now.begin + SHOWN_FOR
    }

    fn text(&self) -> String {
        let part = |certificate: &DatedCertificate| {
            let begin = certificate.begin.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            format!("{BEGIN}{}\n{}", begin.as_secs(), certificate.identity.certificate_pem())
        };
        format!("{}{}", part(&self.now), part(&self.next))
    }
}

/// The certificates in a text that are of this key. What else is there was written by somebody else.
fn dated(text: &str, server: &Identity) -> Vec<DatedCertificate> {
    let read = |part: &str| {
        let (begin, pem) = part.split_once('\n')?;
        let begin = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(begin.trim().parse().ok()?))?;
        // Of another key it does not fit.
        let identity = Identity::from_pem(pem, server.private_key_pem()).ok()?;
        Some(DatedCertificate { begin, identity })
    };
    text.split(BEGIN).skip(1).filter_map(read).collect()
}

/// Before each certificate: from when on it is valid, in seconds.
const BEGIN: &str = "valid from ";
const DAY: Duration = Duration::from_secs(24 * 3600);
/// A certificate is valid for thirteen days.
const SHOWN_FOR: Duration = Duration::from_secs(12 * 24 * 3600);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trust::GatewayFolder;

    #[test]
    fn a_link_outlives_restarts_and_a_change_of_certificates() {
        let path = std::env::temp_dir().join(format!("quickset-certificates-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        let folder = GatewayFolder::at(&path);
        let (server, names) = (folder.server_identity().unwrap(), ["desk.example".to_owned()]);
        // Files keep whole seconds.
        let begin = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let at = |days: u32, server| folder.page_certificates(server, &names, begin + DAY * days).unwrap();
        let first = at(0, &server);
        let [now, next] = first.hashes();
        assert_eq!(first.identity().fingerprint(), server.fingerprint());
        assert_eq!(first.identity().certificate_hash(), now);
        assert_ne!(now, next);
        // Until the twelfth day it is the same, however often the server starts.
        assert_eq!((at(1, &server).hashes(), at(11, &server).hashes()), ([now, next], [now, next]));
        assert!(first.until() < begin + DAY * 12 && first.until() > begin + DAY * 11);
        // Then the one that the link has named before.
        let changed = at(12, &server);
        assert_eq!((changed.identity().certificate_hash(), changed.hashes()[0]), (next, next));
        assert_eq!(at(20, &server).hashes(), changed.hashes());
        // After a long time, with a clock that was set back, for another key, and with a file that somebody
        // has spoilt, there are new ones.
        assert!(!at(200, &server).hashes().contains(&changed.hashes()[1]));
        assert!(!at(0, &server).hashes().contains(&now));
        let other = Identity::self_signed(["other"]).unwrap();
        assert_eq!(at(0, &other).identity().fingerprint(), other.fingerprint());
        replace(&path.join("page_certificates.pem"), b"valid from tomorrow\nvalid from 9\nnothing").unwrap();
        let anew = at(0, &server);
        assert_eq!(at(1, &server).hashes(), anew.hashes());
        std::fs::remove_dir_all(&path).unwrap();
    }
}
