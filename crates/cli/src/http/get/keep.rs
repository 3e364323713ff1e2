//! Files that are fetched: under another name until they are whole, so that they can be gone on with.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use quickset::h3::Response;
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _, BufWriter};

use super::H3Url;
use super::name::{FileNames, behind};
use crate::say::named;

/// A file on its way.
#[derive(Debug)]
pub(super) struct KeepFile {
    name: PathBuf,
    part: PathBuf,
    /// The entity tag of what is in the part.
    tag: PathBuf,
    /// Bytes that there are already, and the tag that they belong to.
    rest: Option<(u64, String)>,
    /// Content comes by the packet, and each write goes to another thread.
    file: Option<BufWriter<File>>,
    /// What the server says of the part that it sends, and how long the file is so far.
    named: Option<ContentRange>,
    len: u64,
}

/// Where a part lies (RFC 9110 §14.4): it is some of the file, and the file of a length that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ContentRange {
    first: u64,
    /// Behind the last byte.
    end: u64,
    whole: u64,
}

/// The names in the folder, which is there, of what comes from each URL: each has some of its own.
pub(super) fn names(folder: &Path, urls: &[H3Url]) -> anyhow::Result<Vec<FileNames>> {
    let metadata =
        fs::metadata(folder).with_context(|| format!("nothing can be kept in {}", named(folder)))?;
    anyhow::ensure!(metadata.is_dir(), "{} is no folder; name another with --output", named(folder));
    let mut taken = BTreeSet::new();
    let mut all = Vec::new();
    for url in urls {
        let names = FileNames::of(url, folder);
        for name in [names.whole.clone(), behind(&names.stem, PART), behind(&names.stem, TAG)] {
            let shown = named(name.as_ref());
            anyhow::ensure!(taken.insert(name), "two URLs need {shown}; fetch them into two folders");
        }
        let file = folder.join(&names.whole);
        anyhow::ensure!(!file.is_dir(), "{} is a folder; fetch {} into another one", named(&file), url.text);
        all.push(names);
    }
    Ok(all)
}

impl KeepFile {
    pub(super) fn new(folder: &Path, names: &FileNames, resume: bool) -> Self {
        let beside = |suffix: &str| folder.join(behind(&names.stem, suffix));
        let (part, tag) = (beside(PART), beside(TAG));
        let len = fs::metadata(&part).map_or(0, |metadata| metadata.len());
        let etag = fs::read_to_string(&tag).ok().filter(|etag| is_strong(etag));
        // The last byte again: behind all of them a server has nothing to send, and could not say that this
        // was all.
        let rest = etag.filter(|_| resume && len > 0).map(|etag| (len - 1, etag));
        Self { name: folder.join(&names.whole), part, tag, rest, file: None, named: None, len: 0 }
    }

    /// From where on it is to be fetched, and of what.
    pub(super) fn rest(&self) -> Option<(u64, &str)> {
        self.rest.as_ref().map(|(from, etag)| (*from, etag.as_str()))
    }

    /// Whether the rest was asked for, and this answer is no rest of what there is. That is forgotten then,
    /// and all of it is to be asked for.
    pub(super) fn is_at_odds(&mut self, response: &Response) -> bool {
        let Some((from, etag)) = &self.rest else { return false };
        let is_odd = match response.status {
            // RFC 9110 §15.3.7: it has the tag that the whole would have. A server may know ranges and not
            // If-Range. And how long the whole is has to be said, or nobody could tell whether all is there.
            206 => {
                response.field("etag").is_none_or(|theirs| theirs != etag.as_bytes())
                    || part_of(response).is_none_or(|part| part.first != *from)
            }
            status => status == 416,
        };
        if is_odd {
            self.rest = None;
        }
        is_odd
    }

    /// The head of a successful response.
    pub(super) async fn begin(&mut self, response: &Response) -> anyhow::Result<()> {
        let goes_on = match (response.status, &self.rest) {
            (206, Some((from, _))) => Some(*from),
            (206, None) => anyhow::bail!("the server sends a part, and all was asked for"),
            _ => None,
        };
        if goes_on.is_none() {
            // Before the content, so that a part never lies beside the tag of another.
            let _ = fs::remove_file(&self.tag);
        }
        self.len = goes_on.unwrap_or_default();
        self.named = goes_on.and_then(|_| part_of(response));
        let file = opened(&self.part, self.len).await.with_context(|| unwritten(&self.part))?;
        self.file = Some(BufWriter::with_capacity(BUFFER, file));
        // Only a strong one tells that two parts fit (RFC 9110 §8.8.1).
        let etag = response.field("etag").and_then(|etag| std::str::from_utf8(etag).ok());
        if let Some(etag) = etag.filter(|etag| is_strong(etag) && goes_on.is_none()) {
            fs::write(&self.tag, etag).with_context(|| unwritten(&self.tag))?;
        }
        Ok(())
    }

    pub(super) async fn write(&mut self, data: &[u8]) -> anyhow::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let room = self.named.map_or(u64::MAX, |part| part.end.saturating_sub(self.len));
        let fits = usize::try_from(room).map_or(data.len(), |room| room.min(data.len()));
        file.write_all(&data[..fits]).await.with_context(|| unwritten(&self.part))?;
        self.len += fits as u64;
        anyhow::ensure!(fits == data.len(), "the server sends more than the part that it names");
        Ok(())
    }

    /// It broke off. Returns what came, if a later run can go on with it.
    pub(super) async fn leave(mut self) -> Option<PathBuf> {
        let mut file = self.file.take()?;
        file.flush().await.ok()?;
        let is_some = file.get_ref().metadata().await.ok()?.len() > 0;
        (is_some && self.tag.is_file()).then_some(self.part)
    }

    /// Nothing more comes. Returns its name, if all is there.
    pub(super) async fn finish(&mut self) -> anyhow::Result<PathBuf> {
        if let Some(file) = &mut self.file {
            file.flush().await.with_context(|| unwritten(&self.part))?;
        }
        // RFC 9110 §14.2: a server may send less than it was asked for.
        if let Some(ContentRange { whole, .. }) = self.named.filter(|part| part.whole != self.len) {
            anyhow::bail!("the server ended at {} of {whole} bytes", self.len);
        }
        fs::rename(&self.part, &self.name).with_context(|| unwritten(&self.name))?;
        let _ = fs::remove_file(&self.tag);
        Ok(self.name.clone())
    }
}

/// To be written behind so many bytes.
async fn opened(part: &Path, len: u64) -> io::Result<File> {
    let mut file = OpenOptions::new().create(true).write(true).truncate(false).open(part).await?;
    file.set_len(len).await?;
    file.seek(SeekFrom::Start(len)).await?;
    Ok(file)
}

fn unwritten(file: &Path) -> String {
    format!("{} cannot be written", named(file))
}

/// What two parts of one file have in common (RFC 9110 §8.8.3).
fn is_strong(etag: &str) -> bool {
    let opaque = etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"'));
    opaque.is_some_and(|opaque| opaque.bytes().all(|b| b > 0x20 && b != b'"' && b != 0x7f))
}

/// The part that a response is, if it says so as RFC 9110 §14.4 has it.
fn part_of(response: &Response) -> Option<ContentRange> {
    let mut lines = response.fields.iter().filter(|field| field.name == "content-range");
    let (Some(line), None) = (lines.next(), lines.next()) else { return None };
    let (unit, range) = std::str::from_utf8(&line.value).ok()?.split_once(' ')?;
    let (range, whole) = range.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let [first, last, whole] = [first, last, whole].map(digits);
    let part = ContentRange { first: first?, end: last?.checked_add(1)?, whole: whole? };
    let is_part = unit.eq_ignore_ascii_case("bytes") && part.first < part.end && part.end <= part.whole;
    is_part.then_some(part)
}

/// A number of digits alone.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Bytes that are written at a time.
const BUFFER: usize = 256 << 10;

/// Behind the name of a file that is not whole, and of the entity tag of what is there.
const PART: &str = ".part";
pub(super) const TAG: &str = ".part.etag";

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9110 §14.4.
    #[test]
    fn parts_are_some_of_a_file_of_known_length() {
        let of = |value: &str| part_of(&Response::new(206).with("content-range", value.to_owned()));
        assert_eq!(of("bytes 42-1233/1234"), Some(ContentRange { first: 42, end: 1234, whole: 1234 }));
        assert_eq!(of("Bytes 0-0/2"), Some(ContentRange { first: 0, end: 1, whole: 2 }));
        let wrong = [
            "bytes 42-1233/*",
            "bytes */1234",
            "bytes 42-1234/1234",
            "bytes 43-42/1234",
            "bytes +1-2/3",
            "bytes 1-+2/3",
            "bytes -2/3",
            "bytes 1-/3",
            "bytes=1-2/3",
            "lines 1-2/3",
            "bytes 1-2",
            "bytes 1-18446744073709551615/18446744073709551615",
            "bytes 1-2/99999999999999999999",
            "",
        ];
        for value in wrong {
            assert_eq!(of(value), None, "{value}");
        }
        let twice =
            Response::new(206).with("content-range", "bytes 1-2/3").with("content-range", "bytes 1-2/3");
        assert_eq!(part_of(&twice), None);
    }

    /// A part of which more comes than it says ends where it says.
    #[tokio::test]
    async fn a_part_ends_where_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let names = FileNames { whole: "file".into(), stem: "file".into() };
        for (range, sent, kept, is_whole) in [
            ("bytes 3-5/6", "345", "012345", true),
            ("bytes 3-5/6", "3456", "012345", false),
            ("bytes 3-5/9", "345", "012345", false),
            ("bytes 3-5/9", "345678", "012345", false),
            ("bytes 3-5/6", "34", "01234", false),
        ] {
            fs::write(folder.path().join("file.part"), "0123").unwrap();
            fs::write(folder.path().join("file.part.etag"), "\"a\"").unwrap();
            let mut keep = KeepFile::new(folder.path(), &names, true);
            assert_eq!(keep.rest(), Some((3, "\"a\"")));
            let response = Response::new(206).with("etag", "\"a\"").with("content-range", range);
            assert!(!keep.is_at_odds(&response));
            keep.begin(&response).await.unwrap();
            let whole = keep.write(sent.as_bytes()).await.is_ok() && keep.finish().await.is_ok();
            assert_eq!(whole, is_whole, "{range}, {sent}");
            let left =
                if whole { folder.path().join("file") } else { keep.leave().await.expect("some is there") };
            assert_eq!(fs::read_to_string(left).unwrap(), kept, "{range}, {sent}");
        }
    }
}
