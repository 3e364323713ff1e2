//! `--cache-control`: what caches are told of files, by rules on their paths.

use std::ffi::OsStr;
use std::path::Path;
use std::str::FromStr;

use bytes::Bytes;

use super::glob::Glob;

/// What caches are told of the files that fit it.
#[derive(Clone, Debug)]
pub(in super::super) struct CacheRule {
    pattern: Glob,
    value: Bytes,
}

/// What the first rule says that fits a file, by its way below the root.
pub(super) fn value(rules: &[CacheRule], way: &Path) -> Option<Bytes> {
    // Most servers have no rules.
    if rules.is_empty() {
        return None;
    }
    // Names need not be text, and all else of the pattern is to fit them nonetheless.
    let path = way.iter().map(OsStr::to_string_lossy).fold(String::new(), |path, name| path + "/" + &name);
    rules.iter().find(|rule| rule.pattern.fits(&path)).map(|rule| rule.value.clone())
}

impl FromStr for CacheRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (pattern, value) =
            text.split_once('=').ok_or("write a pattern and what is said, like **.css=max-age=3600")?;
        let pattern = Glob::from(pattern);
        if !pattern.takes_paths() {
            return Err(
                "no path fits, since all begin with a slash; write it like /img/**=no-cache or **.css=no-cache"
                    .to_owned(),
            );
        }
        if !are_directives(value) {
            return Err(
                "what is said is a list of directives like max-age=3600, immutable (RFC 9111, section 5.2)"
                    .to_owned(),
            );
        }
        Ok(Self { pattern, value: Bytes::copy_from_slice(value.as_bytes()) })
    }
}

/// RFC 9111 §5.2: directives are tokens, some with an argument that is a token or quoted, with commas between
/// them.
fn are_directives(value: &str) -> bool {
    let mut rest = value;
    loop {
        let Some(behind) = after_token(rest) else { return false };
        let behind = match behind.strip_prefix('=') {
            None => Some(behind),
            Some(argument) => argument.strip_prefix('"').map_or_else(|| after_token(argument), after_quoted),
        };
        let Some(behind) = behind.map(|behind| behind.trim_start_matches(SPACE)) else { return false };
        match behind.strip_prefix(',') {
            Some(next) => rest = next.trim_start_matches(SPACE),
            None => return behind.is_empty() && !value.ends_with(SPACE),
        }
    }
}

/// What is behind a token (RFC 9110 §5.6.2), which has a character at least.
fn after_token(text: &str) -> Option<&str> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    let rest = text.trim_start_matches(is_token);
    (rest.len() < text.len()).then_some(rest)
}

/// What is behind the closing quotes (RFC 9110 §5.6.4).
fn after_quoted(text: &str) -> Option<&str> {
    let is_text = |c: char| c == '\t' || c == ' ' || c.is_ascii_graphic();
    let mut chars = text.chars();
    loop {
        match chars.next()? {
            '"' => return Some(chars.as_str()),
            '\\' => {
                chars.next().filter(|c| is_text(*c))?;
            }
            c if is_text(c) => {}
            _ => return None,
        }
    }
}

const SPACE: [char; 2] = [' ', '\t'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_counts() {
        let rules = [
            "/live/*.mpd=no-store",
            "**.mpd=max-age=2",
            "**.m4s=max-age=31536000, immutable",
            "/a?b=no-cache",
        ]
        .map(|rule| rule.parse::<CacheRule>().unwrap());
        let said = |way: &str| {
            value(&rules, Path::new(way)).map(|value| String::from_utf8_lossy(&value).into_owned())
        };
        for (way, value) in [
            ("live/a.mpd", Some("no-store")),
            ("live/x/a.mpd", Some("max-age=2")),
            ("a.mpd", Some("max-age=2")),
            ("x/y.m4s", Some("max-age=31536000, immutable")),
            ("x/y.m4s.txt", None),
            ("a=b", Some("no-cache")),
            ("", None),
        ] {
            assert_eq!(said(way).as_deref(), value, "{way}");
        }
        assert_eq!(value(&[], Path::new("a.mpd")), None);
    }

    /// RFC 9111 §5.2, RFC 9110 §5.6.
    #[test]
    fn rules_are_patterns_of_paths_and_directives() {
        for value in [
            "no-cache",
            "max-age=0",
            "max-age=60,immutable",
            "public , max-age=1",
            "private=\"a, b\", x",
            "x=\"\\\"\"",
        ] {
            assert!(format!("**={value}").parse::<CacheRule>().is_ok(), "{value}");
        }
        for value in [
            "",
            " ",
            " no-cache",
            "no-cache ",
            "no-cache,",
            ",no-cache",
            "max-age=",
            "max-age= 1",
            "max-age 1",
            "no cache",
            "a\r\nb: c",
            "a\nb",
            "a\0",
            "é",
            "x=\"a",
            "x=\"é\"",
            "x=\"a\nb\"",
            "x=\"\\\r\"",
        ] {
            assert!(format!("**={value}").parse::<CacheRule>().is_err(), "{value:?}");
        }
        for (rule, why) in
            [("**.css", "write a pattern"), ("*.mpd=no-cache", "slash"), ("=no-cache", "slash")]
        {
            let error = rule.parse::<CacheRule>().unwrap_err();
            assert!(error.contains(why), "{rule}: {error}");
        }
    }
}
