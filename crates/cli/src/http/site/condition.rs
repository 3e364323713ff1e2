//! Conditional requests (RFC 9110 §13), and whether a part is to be sent.

use std::time::SystemTime;

use super::range::{self, AskedRange};

/// The fields of a request that decide, as text; those that are no text are not there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RequestConditions<'a> {
    pub(super) is_head: bool,
    pub(super) if_match: Option<&'a str>,
    pub(super) if_none_match: Option<&'a str>,
    pub(super) if_modified_since: Option<&'a str>,
    pub(super) if_unmodified_since: Option<&'a str>,
    pub(super) if_range: Option<&'a str>,
    pub(super) range: Option<&'a str>,
}

/// What there is: its entity tag, in quotes; its dates, if they tell anything; its length in bytes.
#[derive(Clone, Debug)]
pub(super) struct Selected {
    pub(super) etag: String,
    pub(super) dates: Option<Dates>,
    pub(super) len: u64,
}

/// To the second, each of them over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dates {
    /// When it was written, as far as the file says.
    pub(super) modified: SystemTime,
    /// When it was that, or came to its place: what was served before may have been another one of the same
    /// date.
    pub(super) changed: SystemTime,
}

/// What to answer a GET or HEAD.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConditionVerdict {
    /// 200.
    Whole,
    /// 206, with these bytes.
    Part { from: u64, len: u64 },
    /// 304.
    NotModified,
    /// 412.
    Failed,
    /// 416.
    Unsatisfiable,
}

/// In the order of RFC 9110 §13.2.2.
pub(super) fn decide(asked: &RequestConditions<'_>, found: &Selected) -> ConditionVerdict {
    let is_behind = |time: fn(Dates) -> SystemTime, date: &str| {
        Some(time(found.dates?) > httpdate::parse_http_date(date.trim()).ok()?)
    };
    let holds = match (asked.if_match, asked.if_unmodified_since) {
        (Some(tags), _) => lists(tags, &found.etag, true),
        // §13.1.4: what is no date, or has none, is not asked.
        (None, Some(date)) => is_behind(|dates| dates.modified, date) != Some(true),
        (None, None) => true,
    };
    if !holds {
        return ConditionVerdict::Failed;
    }
    let is_known = match (asked.if_none_match, asked.if_modified_since) {
        (Some(tags), _) => lists(tags, &found.etag, false),
        (None, Some(date)) => is_behind(|dates| dates.changed, date) == Some(false),
        (None, None) => false,
    };
    if is_known {
        return ConditionVerdict::NotModified;
    }
    match asked.range {
        // §14.2: of meaning with GET only.
        Some(range) if !asked.is_head && asked.if_range.is_none_or(|value| is_same(value, found)) => {
            match range::range(range, found.len) {
                AskedRange::Ignored => ConditionVerdict::Whole,
                AskedRange::Part { from, len } => ConditionVerdict::Part { from, len },
                AskedRange::Unsatisfiable => ConditionVerdict::Unsatisfiable,
            }
        }
        _ => ConditionVerdict::Whole,
    }
}

/// Whether what is there, or that there is nothing, may be changed by a request on these conditions
/// (RFC 9110 §13.2.2).
#[cfg(unix)]
pub(super) fn may_change(asked: &RequestConditions<'_>, found: Option<&Selected>) -> bool {
    let holds = match (asked.if_match, asked.if_unmodified_since) {
        (Some(tags), _) => found.is_some_and(|found| lists(tags, &found.etag, true)),
        // §13.1.4: what is no date is not asked. What was written within this second has none yet that could
        // be told, and is newer.
        (None, Some(date)) => match (found, httpdate::parse_http_date(date.trim())) {
            (Some(found), Ok(date)) => found.dates.is_some_and(|dates| dates.modified <= date),
            _ => true,
        },
        (None, None) => true,
    };
    // §13.1.2: for other methods than GET and HEAD a tag that is there forbids it.
    holds && asked.if_none_match.is_none_or(|tags| found.is_none_or(|found| !lists(tags, &found.etag, false)))
}

/// §13.1.5: the very same bytes, by a strong tag or by the exact date.
fn is_same(if_range: &str, found: &Selected) -> bool {
    if if_range.contains('"') {
        return if_range.trim() == found.etag && !found.etag.starts_with("W/");
    }
    // §8.8.2.2: a date is as strong as a tag where nothing else can have been there since.
    let date = httpdate::parse_http_date(if_range.trim()).ok();
    found.dates.is_some_and(|dates| date == Some(dates.modified) && dates.changed == dates.modified)
}

/// Whether a list of entity tags has this one, or everything (§8.8.3.2: the strong comparison takes no weak
/// ones).
fn lists(tags: &str, etag: &str, strong: bool) -> bool {
    if tags.trim() == "*" {
        return true;
    }
    let (is_weak, opaque) = split(etag);
    if strong && is_weak {
        return false;
    }
    let mut rest = tags.trim_start_matches([' ', '\t', ',']);
    while !rest.is_empty() {
        let weak = rest.starts_with("W/");
        let from = if weak { &rest[2..] } else { rest };
        // Commas may be within quotes, so that a list is not just cut at them.
        let end = from.strip_prefix('"').and_then(|inner| inner.find('"'));
        let Some(end) = end else { return false };
        if from[..end + 2] == *opaque && !(strong && weak) {
            return true;
        }
        rest = from[end + 2..].trim_start_matches([' ', '\t', ',']);
    }
    false
}

fn split(etag: &str) -> (bool, &str) {
    etag.strip_prefix("W/").map_or((false, etag), |opaque| (true, opaque))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const BEHIND: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn found(etag: &str) -> Selected {
        let modified = httpdate::parse_http_date(AT).unwrap();
        Selected { etag: etag.to_owned(), dates: Some(Dates { modified, changed: modified }), len: 100 }
    }

    /// RFC 9110 §8.8.3.2: the table of comparisons.
    #[test]
    fn tags_are_compared_as_in_the_rfc() {
        let table = [
            ("W/\"1\"", "W/\"1\"", false, true),
            ("W/\"1\"", "W/\"2\"", false, false),
            ("W/\"1\"", "\"1\"", false, true),
            ("\"1\"", "\"1\"", true, true),
        ];
        for (one, other, strong, weak) in table {
            for (a, b) in [(one, other), (other, one)] {
                assert_eq!(lists(a, b, true), strong, "{a} {b} strong");
                assert_eq!(lists(a, b, false), weak, "{a} {b} weak");
            }
        }
        assert!(lists("\"x\", W/\"y,z\" ,\"1\"", "\"1\"", true));
        assert!(lists("\"y,z\"", "\"y,z\"", true) && !lists("\"y,z\"", "\"z\"", true));
        assert!(lists(" * ", "\"1\"", true));
        for bad in ["", "1", "\"1", "W/", "w/\"1\"", "x\"1\""] {
            assert!(!lists(bad, "\"1\"", false), "{bad}");
        }
    }

    #[test]
    fn conditions_are_judged_in_their_order() {
        use ConditionVerdict::{Failed, NotModified, Part, Unsatisfiable, Whole};
        let none = RequestConditions::default();
        let part = Part { from: 10, len: 10 };
        let ranged = RequestConditions { range: Some("bytes=10-19"), ..none };
        let table = [
            (none, Whole),
            (RequestConditions { if_match: Some("\"a\""), ..none }, Whole),
            (RequestConditions { if_match: Some("*"), ..none }, Whole),
            (RequestConditions { if_match: Some("\"b\""), ..none }, Failed),
            (RequestConditions { if_match: Some("W/\"a\""), ..none }, Failed),
            (RequestConditions { if_none_match: Some("\"a\""), ..none }, NotModified),
            (RequestConditions { if_none_match: Some("W/\"a\""), ..none }, NotModified),
            (RequestConditions { if_none_match: Some("*"), ..none }, NotModified),
            (RequestConditions { if_none_match: Some("\"b\""), ..none }, Whole),
            (RequestConditions { if_modified_since: Some(AT), ..none }, NotModified),
            (RequestConditions { if_modified_since: Some(BEHIND), ..none }, NotModified),
            (RequestConditions { if_modified_since: Some(BEFORE), ..none }, Whole),
            (RequestConditions { if_modified_since: Some("yesterday"), ..none }, Whole),
            (RequestConditions { if_unmodified_since: Some(AT), ..none }, Whole),
            (RequestConditions { if_unmodified_since: Some(BEFORE), ..none }, Failed),
            (RequestConditions { if_unmodified_since: Some("yesterday"), ..none }, Whole),
            // Tags before dates, both times.
            (RequestConditions { if_match: Some("\"a\""), if_unmodified_since: Some(BEFORE), ..none }, Whole),
            (RequestConditions { if_none_match: Some("\"b\""), if_modified_since: Some(AT), ..none }, Whole),
            // Both groups are asked, in this order.
            (RequestConditions { if_match: Some("\"b\""), if_none_match: Some("\"a\""), ..none }, Failed),
            (
                RequestConditions { if_match: Some("\"a\""), if_none_match: Some("\"a\""), ..none },
                NotModified,
            ),
            (ranged, part),
            (RequestConditions { is_head: true, ..ranged }, Whole),
            (RequestConditions { range: Some("bytes=100-"), ..none }, Unsatisfiable),
            (RequestConditions { if_none_match: Some("\"a\""), ..ranged }, NotModified),
            (RequestConditions { if_range: Some("\"a\""), ..ranged }, part),
            (RequestConditions { if_range: Some("W/\"a\""), ..ranged }, Whole),
            (RequestConditions { if_range: Some("\"b\""), ..ranged }, Whole),
            (RequestConditions { if_range: Some(AT), ..ranged }, part),
            (RequestConditions { if_range: Some(BEHIND), ..ranged }, Whole),
            (RequestConditions { if_range: Some("\"b\""), range: Some("bytes=100-"), ..none }, Whole),
        ];
        for (asked, verdict) in table {
            assert_eq!(decide(&asked, &found("\"a\"")), verdict, "{asked:?}");
        }
        let weak = RequestConditions { if_range: Some("W/\"a\""), ..ranged };
        assert_eq!(decide(&weak, &found("W/\"a\"")), Whole, "a weak tag never makes parts fit");
        let dateless = Selected { dates: None, ..found("\"a\"") };
        for date in [Some(AT), Some(BEFORE)] {
            assert_eq!(decide(&RequestConditions { if_modified_since: date, ..none }, &dateless), Whole);
            assert_eq!(decide(&RequestConditions { if_unmodified_since: date, ..none }, &dateless), Whole);
            assert_eq!(decide(&RequestConditions { if_range: date, ..ranged }, &dateless), Whole);
        }
        // It came to its place an hour behind its date, and what was there before may have had the same.
        let modified = httpdate::parse_http_date(AT).unwrap();
        let dates = Dates { modified, changed: modified + Duration::from_secs(3600) };
        let copied = Selected { dates: Some(dates), ..found("\"a\"") };
        assert_eq!(decide(&RequestConditions { if_modified_since: Some(AT), ..none }, &copied), Whole);
        assert_eq!(decide(&RequestConditions { if_unmodified_since: Some(AT), ..none }, &copied), Whole);
        assert_eq!(decide(&RequestConditions { if_range: Some(AT), ..ranged }, &copied), Whole);
        let later = "Sun, 06 Nov 1994 09:49:37 GMT";
        assert_eq!(
            decide(&RequestConditions { if_modified_since: Some(later), ..none }, &copied),
            NotModified
        );
    }
}
