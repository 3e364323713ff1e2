//! A folder to be served, and what of it anybody may have.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// The folder. It lies below `target/`, is the same each time, and is only read.
pub struct Tree {
    /// A link to it, as new versions of sites are put up.
    pub root: PathBuf,
    /// Those for everybody, by their names below the root.
    files: BTreeMap<Vec<Vec<u8>>, Public>,
}

/// A file for everybody.
pub struct Public {
    pub content: Vec<u8>,
    /// When it was written, and when it came there, in seconds since 1970; `None` for a time that says
    /// nothing, or that HTTP has no date for (RFC 9110 §5.6.7).
    pub dates: Option<(u64, u64)>,
    /// What lies beside it, by the name of its coding.
    pub coded: BTreeMap<&'static str, Vec<u8>>,
}

impl Tree {
    /// Makes the folder, or as much as is missing of it.
    ///
    /// # Errors
    /// Those of the system.
    pub fn new() -> io::Result<Self> {
        let above = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/site");
        let place = above.join("version");
        for folder in [&b"sub/deep"[..], b"bare", b".well-known", b".git", b"\xfe"] {
            fs::create_dir_all(place.join(OsStr::from_bytes(folder)))?;
        }
        let mut files = BTreeMap::new();
        let at = |name: &[u8]| place.join(OsStr::from_bytes(name));
        let split = |name: &[u8]| name.split(|b| *b == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
        for (name, len, time) in PUBLIC {
            let content = filled(name, len);
            keep(&at(name), &content, time)?;
            let mut coded = BTreeMap::new();
            for (coding, suffix) in CODINGS {
                let beside = [name, suffix].concat();
                if CODED.contains(&&*beside) {
                    coded.insert(coding, filled(&beside, 40));
                    keep(&at(&beside), &filled(&beside, 40), time)?;
                }
            }
            files.insert(split(name), Public { content, dates: dates(&at(name), time)?, coded });
        }
        // They can be asked for by themselves, too.
        for beside in CODED {
            let plain = PUBLIC.iter().find(|(name, ..)| beside.starts_with(name));
            let time = plain.map_or(0, |(_, _, time)| *time);
            let dates = dates(&at(beside), time)?;
            let public = Public { content: filled(beside, 40), dates, coded: BTreeMap::new() };
            files.insert(split(beside), public);
        }
        for name in SECRET {
            keep(&place.join(name), &filled(name.as_bytes(), 30), 0)?;
        }
        for (name, to) in LINKS {
            if place.join(name).symlink_metadata().is_err() {
                std::os::unix::fs::symlink(to, place.join(name))?;
            }
        }
        let pipe = place.join("bare/pipe");
        if pipe.symlink_metadata().is_err() {
            std::process::Command::new("mkfifo").arg(&pipe).status()?;
        }
        rest(files.keys().map(|names| at(&names.join(&b'/'))))?;
        Ok(Self { root: above.join("version/../current"), files })
    }

    /// What everybody may have under these names; those of a folder end with an empty one, and it has an
    /// index then.
    pub fn file(&self, names: &[Vec<u8>]) -> Option<&Public> {
        let mut names = straight(names).to_vec();
        if names.last().is_some_and(Vec::is_empty) {
            names.pop();
            names.push(b"index.html".to_vec());
        }
        if names == [b"link.txt"] {
            names = vec![b"ten.txt".to_vec()];
        }
        self.files.get(&names)
    }

    /// Whether it is a folder that everybody may look into.
    pub fn is_folder(&self, names: &[Vec<u8>]) -> bool {
        let Some((last, names)) = straight(names).split_last() else { return false };
        let folders = [&b""[..], b"sub", b"sub/deep", b"bare", b".well-known", b"\xfe"];
        last.is_empty() && folders.contains(&&*names.join(&b'/'))
    }
}

/// The names on the way, without those of a link that leads to where it lies.
fn straight(names: &[Vec<u8>]) -> &[Vec<u8>] {
    let n = names.iter().take_while(|name| **name == b"round").count();
    // A link by itself is a folder that is asked for by the name of a file.
    &names[n.min(names.len() - 1)..]
}

/// The names in a path (RFC 3986 §3.3), each decoded by itself.
pub fn names(target: &[u8]) -> Option<Vec<Vec<u8>>> {
    let end = target.iter().position(|byte| *byte == b'?').unwrap_or(target.len());
    let path = target[..end].strip_prefix(b"/")?;
    path.split(|byte| *byte == b'/').map(plain).collect()
}

fn plain(name: &[u8]) -> Option<Vec<u8>> {
    let mut parts = name.split(|byte| *byte == b'%');
    let mut out = parts.next()?.to_vec();
    for part in parts {
        let digits = part.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
        out.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        out.extend_from_slice(&part[2..]);
    }
    Some(out)
}

/// What is said of a file that was to be written at this time.
fn dates(place: &Path, time: i64) -> io::Result<Option<(u64, u64)>> {
    let changed = u64::try_from(place.metadata()?.ctime()).map_err(io::Error::other)?;
    let modified = u64::try_from(time).ok().filter(|time| *time > 1);
    Ok(modified.map(|modified| (if modified > changed { changed } else { modified }, changed)))
}

/// Waits until no file can change any more without that its times tell: until then a site gives each answer a
/// tag of its own. The coarsest file systems have times of two seconds, and the clock of all others is behind
/// that of the system by a tick.
fn rest(files: impl Iterator<Item = PathBuf>) -> io::Result<()> {
    let changes = files.map(|place| Ok(place.metadata()?.ctime())).collect::<io::Result<Vec<_>>>()?;
    let last = u64::try_from(changes.into_iter().max().unwrap_or(0)).map_err(io::Error::other)?;
    let rested = Duration::from_secs(last + 3);
    #[expect(clippy::disallowed_methods, reason = "a folder is of real time")]
    while SystemTime::UNIX_EPOCH.elapsed().is_ok_and(|now| now < rested) {
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}

/// No two files have a piece of some length in common.
fn filled(name: &[u8], len: usize) -> Vec<u8> {
    (0..).flat_map(|n| format!("{n} of {}; ", name.escape_ascii()).into_bytes()).take(len).collect()
}

/// Writes a file that is not as it should be.
fn keep(place: &Path, content: &[u8], time: i64) -> io::Result<()> {
    let since = Duration::from_secs(time.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let modified = if time < 0 { epoch - since } else { epoch + since };
    let is_kept =
        fs::read(place).is_ok_and(|kept| kept == content) && place.metadata()?.modified()? == modified;
    if is_kept {
        return Ok(());
    }
    fs::write(place, content)?;
    File::options().write(true).open(place)?.set_modified(modified)
}

/// Files for everybody, their lengths, and when they were written, in seconds since 1970.
const PUBLIC: [(&[u8], usize, i64); 16] = [
    (b"index.html", 300, 784_111_777),
    (b"ten.txt", 10, 784_111_777),
    (b"empty", 0, 1_000_000_000),
    (b"one", 1, 1_000_000_000),
    (b"large.bin", 70_000, 1_700_000_000),
    (b"old", 50, -1000),
    (b"to come", 50, 4_000_000_000),
    (b"caf\xc3\xa9&\"<.html", 60, 1_000_000_000),
    (b"%41..%2e", 20, 1_000_000_000),
    (b"c:name", 20, 1_000_000_000),
    (b"back\\..\\slash", 20, 1_000_000_000),
    (b"\xff\xc3\n\r?#\x1b", 20, 1_000_000_000),
    (b"\xfe/\xfe.txt", 20, 1_000_000_000),
    (b"sub/index.html", 200, 1_000_000_000),
    (b"bare/a..b", 20, 1_000_000_000),
    (b".well-known/security.txt", 20, 1_000_000_000),
];

/// What lies encoded beside them, of 40 bytes.
const CODED: [&[u8]; 5] =
    [b"index.html.br", b"index.html.zst", b"index.html.gz", b"ten.txt.gz", b"\xfe/\xfe.txt.br"];

const CODINGS: [(&str, &[u8]); 3] = [("br", b".br"), ("zstd", b".zst"), ("gzip", b".gz")];

/// Files for nobody: beside the root, or hidden.
const SECRET: [&str; 4] = ["../secret.txt", ".hidden", ".git/config", "sub/.htpasswd"];

/// Links and where they lead. The first is the root itself.
const LINKS: [(&str, &str); 8] = [
    ("../current", "version"),
    ("bare/out.txt", "../../secret.txt"),
    ("link.txt", "ten.txt"),
    ("round", "."),
    ("out.txt", "../secret.txt"),
    ("out", ".."),
    ("nowhere", "nothing"),
    ("itself", "itself"),
];
