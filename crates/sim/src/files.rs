//! Recordings that a link's description names: read whole, with a limit, line by line.

use std::fs::File;
use std::io::Read;

use crate::units::UnitError;

/// Reads a recording: the text of the file `name`, or of `PATH` where the name is `PATH#SUM`, if that is the
/// sum of what it holds. [`pinned`] makes such names.
///
/// # Errors
/// When it cannot be read, is longer than 64 MiB, or has another sum.
pub fn recording(name: &str) -> Result<String, UnitError> {
    let (path, expected) = split(name);
    let fails = |why: String| UnitError::of_file(path, None, &why);
    let file = File::open(path).map_err(|error| fails(format!("it cannot be opened ({error})")))?;
    let mut text = String::new();
    let read = file.take(LIMIT + 1).read_to_string(&mut text);
    read.map_err(|error| fails(format!("it cannot be read as text ({error})")))?;
    if text.len() as u64 > LIMIT {
        return Err(fails("it is longer than 64 MiB".to_owned()));
    }
    match (expected, sum(&text)) {
        (Some(expected), found) if expected != found => Err(fails(format!(
            "its sum is {found}, and {expected} is expected; it is another recording, or was changed"
        ))),
        _ => Ok(text),
    }
}

/// The name of a recording with a sum of what it holds behind it, `PATH#0123456789abcdef`: it stands for this
/// content and no other. A name that has a sum stays as it is, if the sum is right.
///
/// # Errors
/// As [`recording`].
pub fn pinned(name: &str) -> Result<String, UnitError> {
    let text = recording(name)?;
    Ok(format!("{}#{}", split(name).0, sum(&text)))
}

/// The path, and the sum behind it.
fn split(name: &str) -> (&str, Option<&str>) {
    let is_sum =
        |text: &str| text.len() == 16 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'));
    match name.rsplit_once('#') {
        Some((path, sum)) if is_sum(sum) => (path, Some(sum)),
        _ => (name, None),
    }
}

/// FNV-1a: the same in every build, and it tells recordings apart that nobody makes to be mistaken.
fn sum(text: &str) -> String {
    let sum = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{sum:016x}")
}

/// The lines that say something: number from 1, and text without comment and space around it.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let plain = |line: &'_ str| -> usize { line.find('#').unwrap_or(line.len()) };
    (1..).zip(text.lines().map(move |line| line[..plain(line)].trim())).filter(|(_, line)| !line.is_empty())
}

/// Longer files are refused. What is made of one takes at most eight times as much memory.
pub(crate) const LIMIT: u64 = 64 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_a_sum_stands_for_one_content() {
        let path = std::env::temp_dir().join(format!("quickset-recording-{}.txt", std::process::id()));
        let name = path.to_str().unwrap();
        std::fs::write(&path, "a").unwrap();
        // FNV-1a of one letter, from the tables of its authors.
        let pin = format!("{name}#af63dc4c8601ec8c");
        assert_eq!(pinned(name), Ok(pin.clone()));
        assert_eq!((pinned(&pin), recording(&pin)), (Ok(pin.clone()), Ok("a".to_owned())));
        std::fs::write(&path, "b").unwrap();
        let says = recording(&pin).unwrap_err().to_string();
        assert!(says.contains(name) && says.contains("af63dc4c8601ec8c is expected"), "{says}");
        assert_eq!((recording(name), pinned(&pin).is_err()), (Ok("b".to_owned()), true));
        std::fs::remove_file(&path).unwrap();
        // Neither is a sum.
        assert_eq!(split("a#1"), ("a#1", None));
        assert_eq!(split("a#AF63DC4C8601EC8C"), ("a#AF63DC4C8601EC8C", None));
    }
}
