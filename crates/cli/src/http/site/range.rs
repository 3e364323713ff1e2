//! Ranges of bytes (RFC 9110 §14).

/// What a Range field asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedRange {
    /// Nothing that we serve in parts: another unit, several ranges, or no form of the grammar. The field is
    /// ignored (RFC 9110 §14.2 lets us), as it is where there are no bytes at all: players ask for the first
    /// of them.
    Ignored,
    /// Bytes from the first, so many (at least one).
    Part {
        /// The first.
        from: u64,
        /// How many.
        len: u64,
    },
    /// None of these bytes is there.
    Unsatisfiable,
}

/// Reads a Range field for a representation of `len` bytes.
pub(super) fn range(value: &str, len: u64) -> AskedRange {
    let Some((unit, set)) = value.split_once('=') else { return AskedRange::Ignored };
    // RFC 9110 §14.1: units are case-insensitive.
    if len == 0 || !unit.trim().eq_ignore_ascii_case("bytes") {
        return AskedRange::Ignored;
    }
    // RFC 9110 §5.6.1: empty elements of a list do not count.
    let mut specs = set.split(',').map(str::trim).filter(|spec| !spec.is_empty());
    let (Some(spec), None) = (specs.next(), specs.next()) else { return AskedRange::Ignored };
    let Some((first, last)) = spec.split_once('-') else { return AskedRange::Ignored };
    match (first, last) {
        ("", suffix) => match number(suffix) {
            None => AskedRange::Ignored,
            // RFC 9110 §14.1.2: a suffix of nothing.
            Some(0) => AskedRange::Unsatisfiable,
            Some(n) => AskedRange::Part { from: len.saturating_sub(n), len: n.min(len) },
        },
        (first, last) => {
            let last = if last.is_empty() { Some(u64::MAX) } else { number(last) };
            match (number(first), last) {
                (Some(first), Some(last)) if first > last => AskedRange::Ignored,
                (Some(first), Some(_)) if first >= len => AskedRange::Unsatisfiable,
                (Some(first), Some(last)) => {
                    AskedRange::Part { from: first, len: last.min(len - 1) - first + 1 }
                }
                _ => AskedRange::Ignored,
            }
        }
    }
}

/// Digits; a number beyond all files is as good as the largest.
fn number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9110 §14.1.2 has the examples of 10,000 bytes.
    #[test]
    fn ranges_are_those_of_the_rfc() {
        let part = |from, len| AskedRange::Part { from, len };
        let table = [
            ("bytes=0-499", 10_000, part(0, 500)),
            ("bytes=500-999", 10_000, part(500, 500)),
            ("bytes=-500", 10_000, part(9500, 500)),
            ("bytes=9500-", 10_000, part(9500, 500)),
            ("bytes=0-0", 10_000, part(0, 1)),
            ("bytes=0-0,-1", 10_000, AskedRange::Ignored),
            ("bytes=500-600,601-999", 10_000, AskedRange::Ignored),
            ("BYTES=1-2", 10_000, part(1, 2)),
            ("bytes= 1-2 , ", 10_000, part(1, 2)),
            ("bytes=0-99999999999999999999999", 10, part(0, 10)),
            ("bytes=-99999999999999999999999", 10, part(0, 10)),
            ("bytes=9-9", 10, part(9, 1)),
            ("bytes=10-", 10, AskedRange::Unsatisfiable),
            ("bytes=99999999999999999999999-", 10, AskedRange::Unsatisfiable),
            ("bytes=-0", 10, AskedRange::Unsatisfiable),
            ("bytes=0-", 0, AskedRange::Ignored),
            ("bytes=0-0", 0, AskedRange::Ignored),
            ("bytes=5-", 0, AskedRange::Ignored),
            ("bytes=-1", 0, AskedRange::Ignored),
            ("bytes=-0", 0, AskedRange::Ignored),
            ("bytes=5-4", 10, AskedRange::Ignored),
            ("bytes=", 10, AskedRange::Ignored),
            ("bytes=-", 10, AskedRange::Ignored),
            ("bytes=+1-2", 10, AskedRange::Ignored),
            ("bytes=a-b", 10, AskedRange::Ignored),
            ("bytes=1-2-3", 10, AskedRange::Ignored),
            ("lines=1-2", 10, AskedRange::Ignored),
            ("1-2", 10, AskedRange::Ignored),
        ];
        for (value, len, asked) in table {
            assert_eq!(range(value, len), asked, "{value} of {len}");
        }
    }
}
