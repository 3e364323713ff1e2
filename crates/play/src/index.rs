use std::ops::RangeInclusive;
use std::time::Duration;

use thiserror::Error;

use crate::time::Timescale;

/// Where the segments of a file are: its segment index, a box `sidx` (ISO/IEC 14496-12 §8.16.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    scale: Timescale,
    /// The first byte of each segment and the tick at which it begins; behind them where the last one ends.
    starts: Vec<(u64, u64)>,
}

/// Why some bytes are no index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum IndexError {
    /// It ends before what it announces, or there is no `sidx` in it.
    #[error("the segment index is cut off, or is none")]
    Short,
    /// It points to other indices.
    #[error("the segment index points to other indices, which is not read")]
    Nested,
    /// It has no segment.
    #[error("the segment index is empty")]
    Empty,
    /// Those of one player are longer than 4 MiB.
    #[error("the segment indices are longer than a player keeps")]
    TooLong,
    /// Sizes, times or its timescale make no sense.
    #[error("the segment index has numbers that make no sense")]
    Numbers,
}

impl Index {
    /// Reads what is at `at` in a file: boxes, of which one is the index.
    pub(crate) fn read(bytes: &[u8], at: u64) -> Result<Self, IndexError> {
        let mut rest = bytes;
        loop {
            let mut header = BoxReader(rest);
            let (size, kind) = (header.number(4)?, header.take(4)?);
            let size = match size {
                0 => rest.len() as u64,
                1 => header.number(8)?,
                size => size,
            };
            let size = usize::try_from(size).ok().filter(|s| *s <= rest.len()).ok_or(IndexError::Short)?;
            let head = rest.len() - header.0.len();
            if size < head {
                return Err(IndexError::Numbers);
            }
            let behind =
                at.checked_add((bytes.len() - rest.len() + size) as u64).ok_or(IndexError::Numbers)?;
            if kind == b"sidx" {
                return Self::content(&rest[head..size], behind);
            }
            rest = &rest[size..];
        }
    }

    /// `behind` is where the box ends in the file: offsets count from there.
    fn content(bytes: &[u8], behind: u64) -> Result<Self, IndexError> {
        let mut reader = BoxReader(bytes);
        let wide = if reader.number(1)? == 0 { 4 } else { 8 };
        // Flags and the stream's number.
        reader.take(7)?;
        let scale = Timescale::new(reader.number(4)?).ok_or(IndexError::Numbers)?;
        // When the first segment is presented: all times here are from its beginning on.
        reader.number(wide)?;
        let offset = reader.number(wide)?;
        reader.take(2)?;
        let count = reader.number(2)?;
        if count == 0 {
            return Err(IndexError::Empty);
        }
        let (mut byte, mut tick) = (behind.checked_add(offset).ok_or(IndexError::Numbers)?, 0_u64);
        let mut starts = vec![(byte, tick)];
        for _ in 0..count {
            let size = reader.number(4)?;
            if size >> 31 == 1 {
                return Err(IndexError::Nested);
            }
            let duration = reader.number(4)?;
            reader.take(4)?;
            if size == 0 || duration == 0 {
                return Err(IndexError::Numbers);
            }
            byte = byte.checked_add(size).ok_or(IndexError::Numbers)?;
            tick += duration;
            starts.push((byte, tick));
        }
        Ok(Self { scale, starts })
    }

    /// How many segments there are.
    pub(crate) fn len(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    /// The bytes of a segment.
    pub(crate) fn range(&self, n: u64) -> Option<RangeInclusive<u64>> {
        let [(first, _), (behind, _)] = self.bounds(n)?;
        Some(first..=behind - 1)
    }

    /// When a segment begins and when it ends.
    pub(crate) fn times(&self, n: u64) -> Option<(Duration, Duration)> {
        let [(_, start), (_, end)] = self.bounds(n)?;
        Some((self.scale.time(start), self.scale.time(end)))
    }

    fn bounds(&self, n: u64) -> Option<[(u64, u64); 2]> {
        let n = usize::try_from(n).ok()?;
        self.starts.get(n..n.checked_add(2)?)?.try_into().ok()
    }
}

struct BoxReader<'a>(&'a [u8]);

impl<'a> BoxReader<'a> {
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], IndexError> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(IndexError::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self, bytes: usize) -> Result<u64, IndexError> {
        Ok(self.take(bytes)?.iter().fold(0, |n, byte| n << 8 | u64::from(*byte)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By the standard's table, field by field.
    fn sidx(version: u8, offset: u32, entries: &[(u32, u32)]) -> Vec<u8> {
        let mut content = vec![version, 0, 0, 0, 0, 0, 0, 1];
        content.extend(90_000_u32.to_be_bytes());
        for number in [1234, offset] {
            if version == 1 {
                content.extend([0; 4]);
            }
            content.extend(u32::to_be_bytes(number));
        }
        content.extend([0, 0]);
        content.extend((entries.len() as u16).to_be_bytes());
        for (size, duration) in entries {
            content.extend(size.to_be_bytes());
            content.extend(duration.to_be_bytes());
            content.extend([0x90, 0, 0, 0]);
        }
        let mut bytes = (content.len() as u32 + 8).to_be_bytes().to_vec();
        bytes.extend(b"sidx");
        bytes.extend(content);
        bytes
    }

    #[test]
    fn segments_follow_the_index() {
        for version in [0, 1] {
            let mut bytes = vec![0, 0, 0, 12, b's', b't', b'y', b'p', 0, 0, 0, 0];
            bytes.extend(sidx(version, 7, &[(1000, 180_000), (500, 90_000)]));
            let index = Index::read(&bytes, 800).expect("it is one");
            let first = 800 + bytes.len() as u64 + 7;
            let seconds = Duration::from_secs;
            assert_eq!(index.len(), 2);
            assert_eq!(
                (index.range(0), index.times(0)),
                (Some(first..=first + 999), Some((seconds(0), seconds(2))))
            );
            assert_eq!(index.range(1), Some(first + 1000..=first + 1499));
            assert_eq!(index.times(1), Some((seconds(2), seconds(3))));
            assert_eq!((index.range(2), index.times(u64::MAX)), (None, None));
        }
    }

    #[test]
    fn what_is_no_index_is_said() {
        let good = sidx(0, 0, &[(1000, 180_000)]);
        for cut in 0..good.len() {
            assert_eq!(Index::read(&good[..cut], 0), Err(IndexError::Short), "{cut}");
        }
        assert_eq!(Index::read(&good, u64::MAX), Err(IndexError::Numbers));
        assert_eq!(Index::read(&sidx(0, 0, &[]), 0), Err(IndexError::Empty));
        assert_eq!(Index::read(&sidx(0, 0, &[(0, 1)]), 0), Err(IndexError::Numbers));
        assert_eq!(Index::read(&sidx(0, 0, &[(1, 0)]), 0), Err(IndexError::Numbers));
        assert_eq!(Index::read(&sidx(0, 0, &[(1 << 31 | 1, 1)]), 0), Err(IndexError::Nested));
        assert_eq!(Index::read(&[0, 0, 0, 4, b'f', b'r', b'e', b'e'], 0), Err(IndexError::Numbers));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(at: u64, mut bytes in proptest::collection::vec(any::<u8>(), 0..200), head: bool) {
            if head {
                bytes.splice(0..0, sidx(1, 3, &[(1000, 180_000)])[..20].iter().copied());
            }
            if let Ok(index) = Index::read(&bytes, at) {
                for n in 0..index.len() {
                    prop_assert!(index.range(n).is_some_and(|range| range.start() <= range.end()));
                    prop_assert!(index.times(n).is_some_and(|(start, end)| start <= end));
                }
            }
        }
    }
}
