//! Files that are fetched: under another name until they are whole, so that they can be gone on with.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use quickset::h3::Response;
use tokio::fs::{File, OpenOptions};
use tokio::io::{AsyncSeekExt as _, AsyncWriteExt as _};

use super::Url;

/// A file on its way.
#[derive(Debug)]
pub(super) struct Keep {
    name: PathBuf,
    part: PathBuf,
    /// The entity tag of what is in the part.
    tag: PathBuf,
    /// Bytes that there are already, and the tag that they belong to.
    rest: Option<(u64, String)>,
    file: Option<File>,
    /// How long it will be, as far as the server says so of a part, and how long it is.
    whole: Option<u64>,
    len: u64,
}

/// The folder is there, and each URL has names of its own there.
pub(super) fn check(folder: &Path, urls: &[Url]) -> anyhow::Result<()> {
    anyhow::ensure!(folder.is_dir(), "{} is no folder; make it, or name another", folder.display());
    let mut names = BTreeSet::new();
    for url in urls {
        let name = url.file_name();
        for taken in [name.to_owned(), format!("{name}{PART}"), format!("{name}{TAG}")] {
            anyhow::ensure!(!names.contains(&taken), "two URLs need {taken}; fetch them into two folders");
            names.insert(taken);
        }
        let file = folder.join(name);
        anyhow::ensure!(
            !file.is_dir(),
            "{} is a folder; fetch {} into another one",
            file.display(),
            url.text
        );
    }
    Ok(())
}

impl Keep {
    pub(super) fn new(folder: &Path, url: &Url, resume: bool) -> Self {
        let name = url.file_name();
        let beside = |suffix: &str| folder.join(format!("{name}{suffix}"));
        let (part, tag) = (beside(PART), beside(TAG));
        let len = fs::metadata(&part).map_or(0, |metadata| metadata.len());
        let etag = fs::read_to_string(&tag).ok().filter(|etag| is_strong(etag));
        // The last byte again: behind all of them a server has nothing to send, and could not say that this was all.
        let rest = etag.filter(|_| resume && len > 0).map(|etag| (len - 1, etag));
        Self { name: folder.join(name), part, tag, rest, file: None, whole: None, len: 0 }
    }

    /// From where on it is to be fetched, and of what.
    pub(super) fn rest(&self) -> Option<(u64, &str)> {
        self.rest.as_ref().map(|(from, etag)| (*from, etag.as_str()))
    }

    /// Whether the rest was asked for, and this answer is no rest of what there is. That is forgotten then, and all of it is to
    /// be asked for.
    pub(super) fn is_at_odds(&mut self, response: &Response) -> bool {
        let Some((from, etag)) = &self.rest else { return false };
        let is_odd = match response.status {
            // RFC 9110 §15.3.7: it has the tag that the whole would have. A server may know ranges and not If-Range.
            206 => {
                response.field("etag").is_none_or(|theirs| theirs != etag.as_bytes())
                    || range_of(response).is_none_or(|(first, _)| first != *from)
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
        self.whole = goes_on.and(range_of(response)).and_then(|(_, whole)| whole);
        self.file = Some(opened(&self.part, self.len).await.with_context(|| unwritten(&self.part))?);
        // Only a strong one tells that two parts fit (RFC 9110 §8.8.1).
        let etag = response.field("etag").and_then(|etag| std::str::from_utf8(etag).ok());
        if let Some(etag) = etag.filter(|etag| is_strong(etag) && goes_on.is_none()) {
            fs::write(&self.tag, etag).with_context(|| unwritten(&self.tag))?;
        }
        Ok(())
    }

    pub(super) async fn write(&mut self, data: &[u8]) -> anyhow::Result<()> {
        if let Some(file) = &mut self.file {
            file.write_all(data).await.with_context(|| unwritten(&self.part))?;
            self.len += data.len() as u64;
        }
        Ok(())
    }

    /// It broke off. Returns what came, if a later run can go on with it.
    pub(super) async fn leave(mut self) -> Option<PathBuf> {
        let mut file = self.file.take()?;
        file.flush().await.ok()?;
        let is_some = file.metadata().await.ok()?.len() > 0;
        (is_some && self.tag.is_file()).then_some(self.part)
    }

    /// Nothing more comes. Returns its name, if all is there.
    pub(super) async fn finish(&mut self) -> anyhow::Result<PathBuf> {
        if let Some(file) = &mut self.file {
            file.flush().await.with_context(|| unwritten(&self.part))?;
        }
        // RFC 9110 §14.2: a server may send less than it was asked for.
        if let Some(whole) = self.whole.filter(|whole| *whole != self.len) {
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
    format!("{} cannot be written", file.display())
}

/// What two parts of one file have in common (RFC 9110 §8.8.3).
fn is_strong(etag: &str) -> bool {
    let opaque = etag.strip_prefix('"').and_then(|etag| etag.strip_suffix('"'));
    opaque.is_some_and(|opaque| opaque.bytes().all(|b| b > 0x20 && b != b'"' && b != 0x7f))
}

/// The first byte of a part, and how many there are in all if that is said (RFC 9110 §14.4).
fn range_of(response: &Response) -> Option<(u64, Option<u64>)> {
    let value = std::str::from_utf8(response.field("content-range")?).ok()?;
    let (range, whole) = value.strip_prefix("bytes ")?.split_once('/')?;
    let (first, _) = range.split_once('-')?;
    let whole = if whole == "*" { None } else { Some(whole.parse().ok()?) };
    Some((first.parse().ok()?, whole))
}

/// Behind the name of a file that is not whole, and of the entity tag of what is there.
const PART: &str = ".part";
const TAG: &str = ".part.etag";
