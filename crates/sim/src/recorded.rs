use core::fmt;
use std::sync::Arc;

use crate::files;
use crate::ordinals::Ordinals;
use crate::units::UnitError;

/// Recorded losses, read from a file of one of two kinds; `#` begins a comment in both.
///
/// *Bits*: characters 0 (arrives) and 1 (is lost), one for each packet, in lines as one likes. Behind the
/// last one it begins again.
///
/// *Ordinals*: in each line the ordinal, from 0, of a packet that is lost, or a range (`10-20`). If the last
/// line is `COUNT repeat`, it begins again with each `COUNT` packets. A file that holds no other characters
/// than 0 and 1 is one of bits.
///
/// A file has at most 64 MiB; a bit takes a bit, an ordinal or range 16 bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct LossTrace(Arc<NamedDelays>);

#[derive(PartialEq, Eq)]
struct NamedDelays {
    path: String,
    shape: RecordedShape,
}

#[derive(PartialEq, Eq)]
enum RecordedShape {
    Bits { words: Vec<u64>, len: u64 },
    Ordinals { lost: Ordinals, period: Option<u64> },
}

impl LossTrace {
    /// Reads a file; see [`recording`](crate::recording).
    ///
    /// # Errors
    /// When it cannot be read, or a line is not what it should be.
    pub fn read(path: &str) -> Result<Self, UnitError> {
        Self::parse(path, &files::recording(path)?)
    }

    /// Reads `text` as if it were the content of the file `path`, which only stands for its name.
    ///
    /// # Errors
    /// When a line is not what it should be.
    pub fn parse(path: &str, text: &str) -> Result<Self, UnitError> {
        let is_bit = |c: char| matches!(c, '0' | '1') || c.is_whitespace();
        let shape = if files::lines(text).all(|(_, line)| line.chars().all(is_bit)) {
            bits(text)
        } else {
            ordinals(path, text)?
        };
        if matches!(shape, RecordedShape::Bits { len: 0, .. }) {
            return Err(UnitError::of_file(path, None, "it has no line that says something"));
        }
        Ok(Self(Arc::new(NamedDelays { path: path.to_owned(), shape })))
    }

    /// Its name: where it was read, and perhaps the sum that it was to have.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Whether packet `n` is lost.
    pub fn loses(&self, n: u64) -> bool {
        match &self.0.shape {
            RecordedShape::Bits { words, len } => {
                let n = n % len;
                words[(n / 64) as usize] >> (n % 64) & 1 == 1
            }
            RecordedShape::Ordinals { lost, period } => lost.contains(period.map_or(n, |period| n % period)),
        }
    }
}

impl fmt::Debug for LossTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LossTrace({:?})", self.0.path)
    }
}

fn bits(text: &str) -> RecordedShape {
    let (mut words, mut len) = (Vec::new(), 0u64);
    for bit in files::lines(text).flat_map(|(_, line)| line.chars()).filter(|c| !c.is_whitespace()) {
        if len % 64 == 0 {
            words.push(0u64);
        }
        if let Some(word) = words.last_mut() {
            *word |= u64::from(bit == '1') << (len % 64);
        }
        len += 1;
    }
    RecordedShape::Bits { words, len }
}

fn ordinals(path: &str, text: &str) -> Result<RecordedShape, UnitError> {
    let (mut ranges, mut period) = (Vec::new(), None);
    for (number, line) in files::lines(text) {
        let fails = |why| UnitError::of_file(path, Some((number, line)), why);
        if period.is_some() {
            return Err(fails("nothing is expected behind the line with `repeat`"));
        }
        if let Some(count) = line.strip_suffix("repeat") {
            let count = count.trim_end().parse().map_err(|_| fails(ORDINAL))?;
            if count == 0 || ranges.iter().any(|&(_, last)| last >= count) {
                return Err(fails("a number of packets above all ordinals is expected"));
            }
            period = Some(count);
            continue;
        }
        let range = Ordinals::range(line).ok_or_else(|| fails(ORDINAL))?;
        ranges.push(range);
    }
    Ok(RecordedShape::Ordinals { lost: Ordinals::from_ranges(ranges), period })
}

const ORDINAL: &str = "an ordinal like 7 or a range like 10-20 is expected, or `COUNT repeat` at the end";

#[cfg(test)]
mod tests {
    use super::*;

    fn lost(text: &str, n: u64) -> Vec<u64> {
        let trace = LossTrace::parse("x.loss", text).unwrap();
        (0..n).filter(|n| trace.loses(*n)).collect()
    }

    #[test]
    fn both_kinds_say_what_they_say() {
        assert_eq!(lost("0010 # four\n1\n", 12), [2, 4, 7, 9]);
        assert_eq!(lost(&"1".repeat(65), 200).len(), 200);
        assert_eq!(lost("3\n 5-6\n", 100), [3, 5, 6]);
        assert_eq!(lost("3\n5-6 # range\n8 repeat", 16), [3, 5, 6, 11, 13, 14]);
        assert_eq!(lost("1\n10 repeat", 20), [1, 11]);
    }

    #[test]
    fn slips_are_explained_with_their_line() {
        let says = |text: &str| LossTrace::parse("x.loss", text).unwrap_err().to_string();
        assert!(says("# nothing").contains("no line"));
        assert_eq!(says("3\n\nx"), format!("`x.loss`, line 3, `x`: {ORDINAL}"));
        assert!(says("9\n9 repeat").contains("line 2"));
        assert!(says("9\n10 repeat\n11").contains("behind the line"));
        assert!(says("9-3").contains("line 1"));
        assert!(LossTrace::read("/nowhere").unwrap_err().to_string().contains("cannot be opened"));
    }
}
