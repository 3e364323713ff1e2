//! Recordings that a link's description names: read whole, with a limit, line by line.

use std::fs::File;
use std::io::Read;

use crate::units::UnitError;

/// Reads a file of text.
pub(crate) fn read(path: &str) -> Result<String, UnitError> {
    let fails = |why: String| UnitError::of_file(path, None, &why);
    let file = File::open(path).map_err(|error| fails(format!("it cannot be opened ({error})")))?;
    let mut text = String::new();
    let read = file.take(LIMIT + 1).read_to_string(&mut text);
    read.map_err(|error| fails(format!("it cannot be read as text ({error})")))?;
    if text.len() as u64 > LIMIT {
        return Err(fails("it is longer than 64 MiB".to_owned()));
    }
    Ok(text)
}

/// The lines that say something: number from 1, and text without comment and space around it.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let plain = |line: &'_ str| -> usize { line.find('#').unwrap_or(line.len()) };
    (1..).zip(text.lines().map(move |line| line[..plain(line)].trim())).filter(|(_, line)| !line.is_empty())
}

/// Longer files are refused. What is made of one takes at most eight times as much memory.
pub(crate) const LIMIT: u64 = 64 << 20;
