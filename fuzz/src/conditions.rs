//! What RFC 9110 lets a server answer a GET or HEAD of a representation, read from its grammar.

use std::time::SystemTime;

use quickset_h3::Request;

/// What is there.
pub struct Representation {
    /// Strong.
    pub etag: Vec<u8>,
    /// When it was written, as is said, and when it came there, before which another one may have been there
    /// that says the same; in seconds since 1970.
    pub dates: Option<(u64, u64)>,
    pub len: u64,
}

/// The statuses that may be, in the steps of §13.2.2. Of a field that is none of its grammar either outcome
/// may be.
pub fn expected(asked: &Request, found: &Representation) -> Vec<u16> {
    let mut may_be = Vec::new();
    let [if_match, if_none_match] = ["if-match", "if-none-match"].map(|name| said(asked, name));
    let since = |name| date(&said(asked, name)?).zip(found.dates);
    let passes = match if_match {
        Some(value) => matches(&value, found, true),
        None => since("if-unmodified-since").map(|(date, (modified, _))| modified <= date).or(Some(true)),
    };
    if passes != Some(true) {
        may_be.push(412);
    }
    if passes == Some(false) {
        return may_be;
    }
    let is_known = match if_none_match {
        Some(value) => matches(&value, found, false),
        None => since("if-modified-since").map(|(date, (_, changed))| changed <= date).or(Some(false)),
    };
    if is_known != Some(false) {
        may_be.push(304);
    }
    if is_known != Some(true) {
        may_be.extend(of_content(asked, found));
    }
    may_be
}

/// What remains where all conditions hold.
fn of_content(asked: &Request, found: &Representation) -> Vec<u16> {
    let (false, Some(range)) = (asked.method == "HEAD", said(asked, "range")) else { return vec![200] };
    if said(asked, "if-range").is_some_and(|value| !is_same(&value, found)) {
        return vec![200];
    }
    let Some(wanted) = range_set(&range) else { return vec![200, 206, 416] };
    match wanted[..] {
        // §14.2: where there is nothing, a server may pass over it.
        _ if found.len == 0 => vec![200],
        // §14.1.1: one that ends before it begins makes all of it invalid.
        _ if wanted.iter().any(|(first, last)| first.is_some() && first > last) => vec![200],
        // §14.2: several may be more than a server likes to do.
        [_, _, ..] => vec![200],
        [(None, last)] => vec![if last > Some(0) { 206 } else { 416 }],
        [(Some(first), _)] => vec![if first < found.len { 206 } else { 416 }],
        [] => vec![200, 416],
    }
}

/// The value of a field (§5.3).
fn said(asked: &Request, name: &str) -> Option<Vec<u8>> {
    let lines = asked.fields.iter().filter(|field| field.name == name);
    let lines: Vec<&[u8]> = lines.map(|field| &field.value[..]).collect();
    (!lines.is_empty()).then(|| lines.join(&b", "[..]))
}

/// Whether a list of entity tags has this one (§13.1.1, §13.1.2); `None` when it is no such list.
fn matches(value: &[u8], found: &Representation, strong: bool) -> Option<bool> {
    if value == b"*" {
        return Some(true);
    }
    let (mut rest, mut has) = (value, false);
    loop {
        rest = trimmed(rest);
        match rest {
            [] => return Some(has),
            [b',', behind @ ..] => {
                rest = behind;
                continue;
            }
            _ => {}
        }
        let (weak, opaque) = rest.strip_prefix(b"W/").map_or((false, rest), |opaque| (true, opaque));
        let inner = opaque.strip_prefix(b"\"")?;
        let end = inner.iter().position(|byte| *byte == b'"')?;
        // §8.8.3.
        if !inner[..end].iter().all(|byte| *byte == 0x21 || (0x23..0x7f).contains(byte) || *byte > 0x7f) {
            return None;
        }
        has |= opaque[..end + 2] == found.etag && !(strong && weak);
        rest = trimmed(&inner[end + 1..]);
        if !(rest.is_empty() || rest.starts_with(b",")) {
            return None;
        }
    }
}

/// §13.1.5, §8.8.2.2: of a date only where nothing else can have had it.
fn is_same(value: &[u8], found: &Representation) -> bool {
    value == found.etag || date(value).is_some_and(|date| found.dates == Some((date, date)))
}

/// Seconds since 1970 (§5.6.7).
fn date(value: &[u8]) -> Option<u64> {
    let date = httpdate::parse_http_date(std::str::from_utf8(value).ok()?).ok()?;
    Some(date.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs())
}

/// The first and the last of bytes, or how many at the end; `None` when it is no set of these (§14.1.1).
fn range_set(value: &[u8]) -> Option<Vec<(Option<u64>, Option<u64>)>> {
    let (unit, set) = value.split_at_checked(6)?;
    if !unit.eq_ignore_ascii_case(b"bytes=") {
        return None;
    }
    let specs = set.split(|byte| *byte == b',').map(trimmed).filter(|spec| !spec.is_empty());
    let read = |spec: &[u8]| {
        let at = spec.iter().position(|byte| *byte == b'-')?;
        match (&spec[..at], &spec[at + 1..]) {
            (b"", last) => Some((None, Some(number(last)?))),
            (first, b"") => Some((Some(number(first)?), Some(u64::MAX))),
            (first, last) => Some((Some(number(first)?), Some(number(last)?))),
        }
    };
    specs.map(read).collect()
}

/// Digits, of which all above a certain number are as good as that.
fn number(digits: &[u8]) -> Option<u64> {
    let add = |sum: u64, digit: &u8| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(sum.saturating_mul(10).saturating_add(digit))
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

/// Without the spaces around (§5.6.3).
fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}
