//! What files are called that come from URLs.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::path::Path;

use aws_lc_rs::digest::{SHA256, digest};

use super::super::site::decoded;
use super::H3Url;
use super::keep::TAG;

/// The names that a file has in its folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileNames {
    /// When it is whole.
    pub(super) whole: OsString,
    /// What the others begin with, that it has before: the same unless the system wants them shorter.
    pub(super) stem: OsString,
}

impl FileNames {
    /// Those in this folder for what comes from there: the end of its path, decoded. What the system would
    /// not take is left as it stands in the URL, and is cut if it is too long.
    pub(super) fn of(url: &H3Url, folder: &Path) -> Self {
        let written = OsString::from(written(url));
        let plain = decoded_name(&written).unwrap_or_else(|| written.clone());
        if is_common(&plain) {
            return Self { stem: plain.clone(), whole: plain };
        }
        for name in [plain, written.clone()] {
            if takes(folder, &behind(&name, TAG)) {
                return Self { stem: name.clone(), whole: name };
            }
            if takes(folder, &name) {
                return Self { stem: cut(&name), whole: name };
            }
        }
        Self { whole: cut(&written), stem: cut(&written) }
    }
}

/// A name with something behind it.
pub(super) fn behind(name: &OsString, suffix: &str) -> OsString {
    let mut name = name.clone();
    name.push(suffix);
    name
}

/// As it stands in the URL, in ASCII.
fn written(url: &H3Url) -> String {
    let path = url.path.split('?').next().unwrap_or_default();
    let name = match path.rsplit('/').next().unwrap_or_default() {
        "" | "." | ".." => "index.html",
        name => name,
    };
    if is_name(name.as_bytes()) { name.to_owned() } else { name.replace(STRANGE, "_") + "_" }
}

/// Percent-decoded, if that is a name: no separator may come of it, nor a folder above.
fn decoded_name(written: &OsString) -> Option<OsString> {
    let name = decoded(written.as_encoded_bytes()).filter(|name| is_name(name))?;
    #[cfg(unix)]
    return Some(std::os::unix::ffi::OsStringExt::from_vec(name));
    #[cfg(not(unix))]
    String::from_utf8(name).ok().map(OsString::from)
}

/// Whether a file can have this name, as far as that can be told without the file system.
#[cfg(unix)]
fn is_name(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.iter().any(|b| matches!(b, b'/' | 0))
}

/// Elsewhere there are names of devices, whatever is behind their point, and what is at the end of others is
/// left out.
#[cfg(not(unix))]
fn is_name(name: &[u8]) -> bool {
    let Ok(name) = std::str::from_utf8(name) else { return false };
    let first = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let is_numbered = |device: &str| {
        first
            .strip_prefix(device)
            .is_some_and(|n| n.chars().count() == 1 && n.chars().all(|c| "0123456789¹²³".contains(c)))
    };
    let is_device = ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"].contains(&&*first)
        || is_numbered("COM")
        || is_numbered("LPT");
    !name.is_empty()
        && !is_device
        && !name.contains(STRANGE)
        && !name.contains(char::is_control)
        && !name.ends_with(['.', ' '])
}

/// What no name has on some systems.
const STRANGE: [char; 9] = ['<', '>', ':', '"', '/', '\\', '|', '?', '*'];

/// A name that all systems take, with whatever is put behind it.
fn is_common(name: &OsString) -> bool {
    let is_common = |b: &u8| b.is_ascii_alphanumeric() || b"-._~ ".contains(b);
    name.len() <= SHORT && name.as_encoded_bytes().iter().all(is_common)
}

/// Whether the file system takes such a name, of which only itself knows. All else that may be wrong is told
/// when it is written.
fn takes(folder: &Path, name: &OsString) -> bool {
    use rustix::io::Errno;
    let place = folder.join(name);
    match OpenOptions::new().write(true).create_new(true).open(&place) {
        Ok(_) => std::fs::remove_file(&place).is_ok(),
        Err(error) => {
            let refused = [Errno::NAMETOOLONG, Errno::ILSEQ, Errno::INVAL];
            let error = error.raw_os_error().map(Errno::from_raw_os_error);
            !error.is_some_and(|error| refused.contains(&error))
        }
    }
}

/// The beginning of a long name, and something of all of it, so that two that begin alike stay two.
fn cut(name: &OsString) -> OsString {
    let bytes = name.as_encoded_bytes();
    let digest = digest(&SHA256, bytes);
    let first = digest.as_ref().first_chunk().expect("SHA-256 has 32 bytes");
    let text = String::from_utf8_lossy(bytes);
    let end = (0..=SHORT.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    let kind = Path::new(name).extension().and_then(|kind| kind.to_str());
    let kind = kind.filter(|kind| kind.len() <= 16 && kind.bytes().all(|b| b.is_ascii_alphanumeric()));
    let kind = kind.map_or(String::new(), |kind| format!(".{kind}"));
    format!("{}~{:016x}{kind}", &text[..end], u64::from_be_bytes(*first)).into()
}

/// Bytes that every file system takes, with those of [`TAG`] and of a digest behind them.
const SHORT: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    fn named(folder: &Path, path: &str) -> FileNames {
        FileNames::of(&format!("https://a.example{path}").parse().unwrap(), folder)
    }

    #[test]
    fn files_are_called_as_their_paths_end() {
        let folder = tempfile::tempdir().unwrap();
        let table = [
            ("", "index.html"),
            ("/x/y.txt?q=1#f", "y.txt"),
            ("?q=/z", "index.html"),
            ("/a/", "index.html"),
            ("/..", "index.html"),
            ("/a%20b%26c", "a b&c"),
            ("/%C3%A9t%c3%a9", "été"),
            ("/%2541", "%41"),
            ("/100%", "100%"),
            ("/%zz", "%zz"),
            // What is no name stays as it came.
            ("/%2e%2e", "%2e%2e"),
            ("/%2E", "%2E"),
            ("/..%2f..%2fetc%2fpasswd", "..%2f..%2fetc%2fpasswd"),
            ("/a%00.txt", "a%00.txt"),
        ];
        for (path, name) in table {
            let name = OsString::from(name);
            assert_eq!(named(folder.path(), path), FileNames { whole: name.clone(), stem: name }, "{path}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left of trying");
    }

    #[cfg(unix)]
    #[test]
    fn names_need_not_be_text() {
        use std::os::unix::ffi::OsStringExt as _;
        let folder = tempfile::tempdir().unwrap();
        for byte in (1..=255_u8).filter(|byte| !b"/.".contains(byte)) {
            let name = OsString::from_vec(vec![byte]);
            // macOS takes text only.
            if std::fs::write(folder.path().join(&name), "").is_ok() {
                assert_eq!(named(folder.path(), &format!("/%{byte:02x}")).whole, name);
            }
        }
    }

    /// Names of files have 255 bytes at most on Linux, and what a part is called is longer than the whole.
    #[cfg(target_os = "linux")]
    #[test]
    fn names_are_as_long_as_the_system_takes() {
        let folder = tempfile::tempdir().unwrap();
        for (len, whole, stem) in
            [(245, true, true), (246, true, false), (255, true, false), (256, false, false)]
        {
            let name = OsString::from("n".repeat(len - 4) + ".txt");
            let names = named(folder.path(), &format!("/{}", name.to_str().unwrap()));
            assert_eq!((names.whole == name, names.stem == name), (whole, stem), "{len}");
            for name in [&names.whole, &behind(&names.stem, TAG)] {
                assert!(std::fs::write(folder.path().join(name), "").is_ok(), "{name:?}");
            }
            assert_eq!(Path::new(&names.whole).extension(), Some("txt".as_ref()));
        }
        let [one, two] = ["a", "b"].map(|end| named(folder.path(), &format!("/{}{end}", "n".repeat(300))));
        assert!(one.whole != two.whole && one.stem != two.stem);
        // Cut between characters, whatever they are.
        let long = named(folder.path(), &format!("/{}", "%e2%82%ac".repeat(90)));
        assert!(std::fs::write(folder.path().join(&long.whole), "").is_ok());
    }
}
