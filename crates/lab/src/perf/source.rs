use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quickset_base::Duration;
use quickset_base::number::Unsigned as _;

use super::pattern::BytePattern;

/// Where a server has the bytes from that it sends: always the same pattern, in memory unless told.
#[derive(Clone, Debug)]
pub struct PatternSource {
    pattern: BytePattern,
    file: Option<PathBuf>,
    rate: Option<f64>,
}

/// The bytes of one answer, from the first on.
#[derive(Debug)]
pub(super) struct PatternReader {
    source: PatternSource,
    file: Option<File>,
    offset: u64,
    end: u64,
    begun: Instant,
}

impl Default for PatternSource {
    fn default() -> Self {
        Self { pattern: BytePattern::new(), file: None, rate: None }
    }
}

impl PatternSource {
    /// They are read from this file, which [`write_pattern`] wrote, for each answer anew and from its start
    /// again at its end.
    #[must_use]
    pub fn with_file(self, path: impl Into<PathBuf>) -> Self {
        Self { file: Some(path.into()), ..self }
    }

    /// Each answer offers so many bytes a second, and no more however fast they leave.
    #[must_use]
    pub fn with_rate(self, bytes_per_second: f64) -> Self {
        Self { rate: Some(bytes_per_second), ..self }
    }

    /// An answer of so many bytes.
    pub(super) fn read(&self, bytes: u64) -> io::Result<PatternReader> {
        let file = self.file.as_ref().map(File::open).transpose()?;
        Ok(PatternReader { source: self.clone(), file, offset: 0, end: bytes, begun: Instant::now() })
    }
}

impl PatternReader {
    /// How many are left.
    pub(super) fn left(&self) -> u64 {
        self.end - self.offset
    }

    /// When the next may leave; `None` is now.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = self.begun + Duration::from_secs_f64(self.offset.approx() / self.source.rate?);
        (due > Instant::now()).then_some(due)
    }

    /// The next bytes, at least one where any are left. What a file has is in the memory of the system: to
    /// have another thread wait for it would cost more than it takes.
    pub(super) fn next(&mut self) -> io::Result<Bytes> {
        let most = match self.source.rate {
            // Not in leaps.
            Some(_) => self.left().min(PIECE as u64),
            None => self.left(),
        };
        let bytes = match &mut self.file {
            None => self.source.pattern.at(self.offset, most),
            Some(file) => {
                let mut piece = BytesMut::zeroed(most.min(PIECE as u64).saturated::<usize>());
                let mut read = file.read(&mut piece)?;
                if read == 0 {
                    file.rewind()?;
                    read = file.read(&mut piece)?;
                }
                if read == 0 && most > 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                piece.truncate(read);
                piece.freeze()
            }
        };
        self.offset += bytes.len() as u64;
        Ok(bytes)
    }
}

/// Writes a file for [`PatternSource::with_file`]: the pattern a few times over, 16 MB.
///
/// # Errors
/// Those of the file system.
pub fn write_pattern(path: &Path) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    let pattern = BytePattern::new();
    let whole = pattern.at(0, u64::MAX);
    (0..COPIES).try_for_each(|_| file.write_all(&whole))
}

/// What is read at a time.
const PIECE: usize = 64 << 10;
const COPIES: u32 = 64;

#[cfg(test)]
mod tests {
    use super::super::pattern::PatternCheck;
    use super::*;

    /// Whether it is read from memory or from a file, beyond the file's end, too.
    #[test]
    fn all_sources_have_the_same_bytes() {
        let path = std::env::temp_dir().join(format!("quickset-source-{}", std::process::id()));
        write_pattern(&path).unwrap();
        let long = std::fs::metadata(&path).unwrap().len() + 100_000;
        for source in [PatternSource::default(), PatternSource::default().with_file(&path)] {
            let mut reader = source.read(long).unwrap();
            let mut check = PatternCheck::new(BytePattern::new());
            while reader.left() > 0 {
                assert!(check.take(&reader.next().unwrap()), "{source:?}");
            }
            assert_eq!(check.received(), long);
        }
        std::fs::remove_file(&path).unwrap();
        assert!(PatternSource::default().with_file(&path).read(1).is_err());
    }

    #[test]
    fn what_is_offered_at_a_rate_is_due_by_it() {
        let mut reader = PatternSource::default().with_rate(1e6).read(1 << 20).unwrap();
        assert_eq!(reader.due(), None);
        let first = reader.next().unwrap().len() as f64;
        let due = reader.due().expect("it is not due yet");
        assert!((due - reader.begun).as_secs_f64() - first / 1e6 < 1e-6);
    }
}
