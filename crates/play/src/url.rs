use std::fmt::{self, Write as _};

use thiserror::Error;

/// An absolute `http` or `https` address, without a fragment (RFC 3986 §4.3).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Url {
    secure: bool,
    authority: String,
    /// Begins with a slash.
    path: String,
    query: Option<String>,
}

/// Why some text is no [`Url`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UrlError {
    /// It has another scheme, or, where it has to stand alone, none.
    #[error("{0:?} does not begin with http:// or https://")]
    Scheme(String),
    /// It has a scheme and no host, or a name or password in front of it (RFC 9110 §4.2.4), or one that is
    /// not ASCII.
    #[error("{0:?} names no host as HTTP has it")]
    Host(String),
    /// Longer than [`Url::MAX`].
    #[error("an address of {0} bytes; at most {max} are taken", max = Url::MAX)]
    TooLong(usize),
    /// A control character.
    #[error("{0:?} has a control character")]
    Character(String),
}

impl Url {
    /// In bytes: what servers take (RFC 9110 §4.1 asks for 8000).
    pub const MAX: usize = 8192;

    /// Reads an absolute address.
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        let reference = Reference::read(text)?;
        let secure = match reference.scheme {
            Some(s) if s.eq_ignore_ascii_case("https") => true,
            Some(s) if s.eq_ignore_ascii_case("http") => false,
            _ => return Err(UrlError::Scheme(shown(text))),
        };
        let authority = host(reference.authority.unwrap_or_default(), text)?;
        let path = without_dots(&encoded(reference.path));
        Self { secure, authority, path, query: reference.query.map(encoded) }.bounded()
    }

    /// What `text` means in a document at this address (RFC 3986 §5.2.2).
    pub fn join(&self, text: &str) -> Result<Self, UrlError> {
        let reference = Reference::read(text)?;
        if reference.scheme.is_some() {
            return Self::parse(text);
        }
        let path = encoded(reference.path);
        let mut target = Self { query: reference.query.map(encoded), ..self.clone() };
        if let Some(authority) = reference.authority {
            target.authority = host(authority, text)?;
            target.path = without_dots(&path);
        } else if path.is_empty() {
            target.query = target.query.or_else(|| self.query.clone());
        } else if path.starts_with('/') {
            target.path = without_dots(&path);
        } else {
            // RFC 3986 §5.2.3: all of the base's path up to its last slash.
            let folder = self.path.rfind('/').map_or("/", |slash| &self.path[..=slash]);
            target.path = without_dots(&format!("{folder}{path}"));
        }
        target.bounded()
    }

    fn bounded(self) -> Result<Self, UrlError> {
        let length = self.path.len() + self.query.as_ref().map_or(0, String::len);
        if length > Self::MAX { Err(UrlError::TooLong(length)) } else { Ok(self) }
    }

    /// Whether it is `https`.
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// Host and port as they were written, in small letters.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Path and query, as a request names them.
    pub fn target(&self) -> String {
        match &self.query {
            Some(query) => format!("{}?{query}", self.path),
            None => self.path.clone(),
        }
    }

    /// Whether both are of one server: scheme and authority are the same (RFC 6454 §5).
    pub fn same_origin(&self, other: &Self) -> bool {
        self.secure == other.secure && self.authority == other.authority
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority, self.target())
    }
}

/// The parts of a reference (RFC 3986 §4.1), without its fragment.
struct Reference<'a> {
    scheme: Option<&'a str>,
    authority: Option<&'a str>,
    path: &'a str,
    query: Option<&'a str>,
}

impl<'a> Reference<'a> {
    fn read(text: &'a str) -> Result<Self, UrlError> {
        if text.len() > Url::MAX {
            return Err(UrlError::TooLong(text.len()));
        }
        if text.chars().any(char::is_control) {
            return Err(UrlError::Character(shown(text)));
        }
        let text = text.split_once('#').map_or(text, |(before, _)| before);
        // A scheme is a letter and more before the first colon, with nothing in between that ends it.
        let scheme = text.split_once(':').filter(|(scheme, _)| {
            scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        });
        let (scheme, rest) = scheme.map_or((None, text), |(scheme, rest)| (Some(scheme), rest));
        let (hierarchy, query) = rest.split_once('?').map_or((rest, None), |(h, q)| (h, Some(q)));
        let (authority, path) = match hierarchy.strip_prefix("//") {
            Some(after) => {
                let end = after.find('/').unwrap_or(after.len());
                (Some(&after[..end]), &after[end..])
            }
            None => (None, hierarchy),
        };
        Ok(Self { scheme, authority, path, query })
    }
}

/// RFC 3986 §5.2.4: without `.` and `..`, from the root on.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut segments = path.strip_prefix('/').unwrap_or(path).split('/').peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            "." | ".." => {
                if segment == ".." {
                    kept.pop();
                }
                // A folder stays one.
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

fn host(authority: &str, text: &str) -> Result<String, UrlError> {
    let plain = authority.bytes().all(|b| b.is_ascii_graphic() && !b"@\\\"<>^`{|}".contains(&b));
    if authority.is_empty() || !plain {
        return Err(UrlError::Host(shown(text)));
    }
    Ok(authority.to_ascii_lowercase())
}

/// What no address has is written as the bytes of it (RFC 3986 §2.1), as browsers do.
fn encoded(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        if byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// As much of it as a message has room for.
fn shown(text: &str) -> String {
    without_credentials(text).chars().take(80).collect()
}

/// An address as it may stand in a message, which goes into logs: without the name and password that may be
/// in front of its host (RFC 3986 §3.2.1, §7.5), absolute or not, and whether or not it is one that is taken.
pub fn without_credentials(text: &str) -> String {
    let after = text.find("//").map_or(0, |slashes| slashes + 2);
    let (before, rest) = text.split_at(after);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..end].rfind('@') {
        Some(at) => format!("{before}…{}", &rest[at..]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(base: &str, reference: &str) -> String {
        let url = Url::parse(base).expect("an address").join(reference);
        url.map_or_else(|error| error.to_string(), |url| url.to_string())
    }

    /// RFC 3986 §5.4.1 and §5.4.2, all that have neither a scheme nor a fragment.
    #[test]
    fn the_examples_of_the_rfc() {
        let base = "http://a/b/c/d;p?q";
        for (reference, expected) in [
            ("g", "/b/c/g"),
            ("./g", "/b/c/g"),
            ("g/", "/b/c/g/"),
            ("/g", "/g"),
            ("?y", "/b/c/d;p?y"),
            ("g?y", "/b/c/g?y"),
            (";x", "/b/c/;x"),
            ("g;x", "/b/c/g;x"),
            ("", "/b/c/d;p?q"),
            (".", "/b/c/"),
            ("./", "/b/c/"),
            ("..", "/b/"),
            ("../", "/b/"),
            ("../g", "/b/g"),
            ("../..", "/"),
            ("../../", "/"),
            ("../../g", "/g"),
            ("../../../g", "/g"),
            ("../../../../g", "/g"),
            ("/./g", "/g"),
            ("/../g", "/g"),
            ("g.", "/b/c/g."),
            (".g", "/b/c/.g"),
            ("g..", "/b/c/g.."),
            ("..g", "/b/c/..g"),
            ("./../g", "/b/g"),
            ("./g/.", "/b/c/g/"),
            ("g/./h", "/b/c/g/h"),
            ("g/../h", "/b/c/h"),
            ("g;x=1/./y", "/b/c/g;x=1/y"),
            ("g;x=1/../y", "/b/c/y"),
            ("g?y/./x", "/b/c/g?y/./x"),
            ("g?y/../x", "/b/c/g?y/../x"),
        ] {
            assert_eq!(join(base, reference), format!("http://a{expected}"), "{reference}");
        }
        assert_eq!(join(base, "//g"), "http://g/");
        assert_eq!(join(base, "g#s/../x"), "http://a/b/c/g");
    }

    #[test]
    fn other_hosts_and_schemes_are_seen() {
        let base = Url::parse("HTTPS://Example.org:8443/a/b.mpd").expect("an address");
        assert_eq!(
            (base.is_secure(), base.authority(), base.target().as_str()),
            (true, "example.org:8443", "/a/b.mpd")
        );
        let origin = |text: &str| base.join(text).map(|url| url.same_origin(&base));
        assert_eq!(origin("../c"), Ok(true));
        assert_eq!(origin("https://EXAMPLE.org:8443/x"), Ok(true));
        assert_eq!(origin("http://example.org:8443/x"), Ok(false));
        assert_eq!(origin("//example.com/x"), Ok(false));
        for wrong in ["file:///etc/passwd", "data:video/mp4;base64,AA", "javascript:0", "ftp://a/"] {
            assert!(matches!(base.join(wrong), Err(UrlError::Scheme(_))), "{wrong}");
        }
        assert!(matches!(base.join("https:///x"), Err(UrlError::Host(_))));
        assert!(matches!(base.join("///x"), Err(UrlError::Host(_))));
        assert!(matches!(base.join("a\nb"), Err(UrlError::Character(_))));
        for wrong in
            ["https://user:secret@example.org/", "//user@example.org", "https://ex ample/", "//bücher/"]
        {
            assert!(matches!(base.join(wrong), Err(UrlError::Host(_))), "{wrong}");
        }
        for secret in [
            "https://user:secret@example.org/x@y",
            "//a@secret@example.org/x@y",
            "ftp://secret@example.org/x@y",
        ] {
            let told = base.join(secret).expect_err("it has a secret").to_string();
            assert!(!told.contains("secret") && told.contains("//…@example.org/x@y"), "{told}");
        }
        assert_eq!(
            base.join("ü b/{c}?d e").map(|url| url.target()).as_deref(),
            Ok("/a/%C3%BC%20b/%7Bc%7D?d%20e")
        );
        assert!(matches!(base.join(&"x/".repeat(5000)), Err(UrlError::TooLong(_))));
        assert!(matches!(Url::parse("a/b"), Err(UrlError::Scheme(_))));
    }
}
