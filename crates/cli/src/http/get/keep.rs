//! Files that are fetched: under another name until they are whole, so that they can be gone on with.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use quickset::h3::Response;
use tokio::fs::{File, OpenOptions};
use tokio::io::AsyncWriteExt as _;

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
}

/// The folder is there, and each URL has a name of its own.
pub(super) fn check(folder: &Path, urls: &[Url]) -> anyhow::Result<()> {
    anyhow::ensure!(folder.is_dir(), "{} is no folder; make it, or name another", folder.display());
    let mut names = BTreeSet::new();
    for url in urls {
        anyhow::ensure!(names.insert(url.file_name()), "two URLs would both become {}", url.file_name());
    }
    Ok(())
}

impl Keep {
    pub(super) fn new(folder: &Path, url: &Url, resume: bool) -> Self {
        let name = url.file_name();
        let beside = |suffix: &str| folder.join(format!("{name}{suffix}"));
        let (part, tag) = (beside(".part"), beside(".part.etag"));
        let len = fs::metadata(&part).map_or(0, |metadata| metadata.len());
        let etag = fs::read_to_string(&tag).ok();
        let rest = etag.filter(|_| resume && len > 0).map(|etag| (len, etag));
        Self { name: folder.join(name), part, tag, rest, file: None }
    }

    /// From where on it is to be fetched, and of what.
    pub(super) fn rest(&self) -> Option<(u64, &str)> {
        self.rest.as_ref().map(|(from, etag)| (*from, etag.as_str()))
    }

    /// The head of a successful response.
    pub(super) async fn begin(&mut self, response: &Response) -> anyhow::Result<()> {
        let goes_on = match (response.status, &self.rest) {
            (206, Some((from, _))) => {
                anyhow::ensure!(
                    starts_at(response, *from),
                    "the server sends another part than was asked for"
                );
                true
            }
            (206, None) => anyhow::bail!("the server sends a part, and all was asked for"),
            _ => false,
        };
        if !goes_on {
            // Before the content, so that a part never lies beside the tag of another.
            let _ = fs::remove_file(&self.tag);
        }
        let mut options = OpenOptions::new();
        options.create(true).write(true).append(goes_on).truncate(!goes_on);
        let file = options.open(&self.part).await;
        self.file = Some(file.with_context(|| format!("{} cannot be written", self.part.display()))?);
        // Only a strong one tells that two parts fit (RFC 9110 §8.8.1).
        let etag = response.field("etag").and_then(|etag| std::str::from_utf8(etag).ok());
        if let Some(etag) = etag.filter(|etag| etag.starts_with('"') && !goes_on) {
            fs::write(&self.tag, etag)?;
        }
        Ok(())
    }

    pub(super) async fn write(&mut self, data: &[u8]) -> anyhow::Result<()> {
        if let Some(file) = &mut self.file {
            file.write_all(data)
                .await
                .with_context(|| format!("{} cannot be written", self.part.display()))?;
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

    /// All is there. Returns its name.
    pub(super) async fn finish(mut self) -> anyhow::Result<PathBuf> {
        if let Some(mut file) = self.file.take() {
            file.flush().await?;
        }
        fs::rename(&self.part, &self.name)
            .with_context(|| format!("{} cannot be written", self.name.display()))?;
        let _ = fs::remove_file(&self.tag);
        Ok(self.name)
    }
}

fn starts_at(response: &Response, from: u64) -> bool {
    let range = response.field("content-range").and_then(|value| std::str::from_utf8(value).ok());
    range.is_some_and(|range| range.starts_with(&format!("bytes {from}-")))
}
