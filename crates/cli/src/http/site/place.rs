//! From the path of a request to a place below the root, or nowhere.

use std::ffi::{OsStr, OsString};

use quickset_base::number::Unsigned as _;

/// The names on the way from the root, of files and folders; the last one is empty for a folder. `None` for a
/// path that leads nowhere: it would leave the root, names what is hidden, or what no file of this system can
/// be called.
///
/// Each name is decoded by itself (RFC 3986 §2.4): a slash or dots that were encoded are no way out.
pub(super) fn place(target: &[u8]) -> Option<Vec<OsString>> {
    let path = target.split(|b| *b == b'?').next().unwrap_or_default();
    let path = path.strip_prefix(b"/")?;
    let count = path.split(|b| *b == b'/').count();
    let names = path.split(|b| *b == b'/').enumerate();
    names.map(|(i, part)| name(decoded(part)?).filter(|name| is_plain(name, i + 1 == count))).collect()
}

/// Whether a name can be asked for.
pub(super) fn is_plain(name: &OsStr, is_last: bool) -> bool {
    if name.is_empty() {
        return is_last;
    }
    // Hidden files are not for the public; this one is what RFC 8615 made for it. Dots alone begin with a
    // dot, too.
    let is_hidden = name.as_encoded_bytes().starts_with(b".") && name != ".well-known";
    !is_hidden && is_one(name)
}

/// Whether it is one name and no way: on Unix any bytes but these two are.
#[cfg(unix)]
fn is_one(name: &OsStr) -> bool {
    !name.as_encoded_bytes().iter().any(|b| matches!(b, b'/' | 0))
}

/// Elsewhere names are text, and there are other separators, drives and streams.
#[cfg(not(unix))]
fn is_one(name: &OsStr) -> bool {
    name.to_str().is_some_and(|name| !name.contains(['/', '\\', ':', '\0']))
}

#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "elsewhere not all bytes are a name")]
fn name(bytes: Vec<u8>) -> Option<OsString> {
    Some(std::os::unix::ffi::OsStringExt::from_vec(bytes))
}

#[cfg(not(unix))]
fn name(bytes: Vec<u8>) -> Option<OsString> {
    String::from_utf8(bytes).ok().map(OsString::from)
}

/// Percent-decoding (RFC 3986 §2.1), to whatever bytes.
pub(in super::super) fn decoded(name: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digit = |i: usize| tail.get(i).and_then(|b| (*b as char).to_digit(16));
            out.push((digit(0)? * 16 + digit(1)?).saturated::<u8>());
            rest = &tail[2..];
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(path: &str) -> Option<String> {
        let names = place(path.as_bytes())?;
        Some(names.iter().map(|name| name.to_string_lossy()).collect::<Vec<_>>().join("|"))
    }

    #[test]
    fn paths_lead_to_names() {
        let table = [
            ("/", ""),
            ("/a", "a"),
            ("/a/", "a|"),
            ("/a/b.html?x=/../y", "a|b.html"),
            ("/with%20space", "with space"),
            ("/%C3%A9t%c3%a9", "été"),
            ("/%2561", "%61"),
            ("/a..b", "a..b"),
            ("/.well-known/security.txt", ".well-known|security.txt"),
        ];
        for (path, names) in table {
            assert_eq!(placed(path).as_deref(), Some(names), "{path}");
        }
    }

    #[test]
    fn no_path_leaves_the_root() {
        let table = [
            "",
            "a",
            "..",
            "//",
            "//etc/passwd",
            "/..",
            "/../etc/passwd",
            "/a/../../etc/passwd",
            "/./a",
            "/a/./b",
            "/a//b",
            "/%2e%2e/etc/passwd",
            "/%2E./x",
            "/..%2fetc",
            "/a%2f..%2f..%2fetc",
            "/..%5cetc",
            "/..\\etc",
            "/a%00.html",
            "/%",
            "/%4",
            "/%zz",
            "/.git/config",
            "/a/.htpasswd",
            "*",
        ];
        for path in table {
            assert_eq!(placed(path), None, "{path}");
        }
    }

    /// POSIX.1-2024 §3.254: a name is of any bytes but the slash and zero.
    #[cfg(unix)]
    #[test]
    fn names_are_of_any_bytes() {
        use std::os::unix::ffi::OsStrExt as _;
        for byte in (1..=255_u8).filter(|byte| *byte != b'/') {
            let names = place(format!("/x%{byte:02X}y/%{byte:02x}").as_bytes());
            let expected = [&[b'x', byte, b'y'][..], &[byte]].map(|name| OsStr::from_bytes(name).to_owned());
            assert_eq!(names, (byte != b'.').then(|| expected.to_vec()), "{byte}");
        }
        assert_eq!(placed("/c:/back%5cslash").as_deref(), Some("c:|back\\slash"));
    }

    #[cfg(not(unix))]
    #[test]
    fn names_are_of_what_is_no_way() {
        for path in ["/a%5c..%5cb", "/c:/x", "/file:stream", "/%ff"] {
            assert_eq!(placed(path), None, "{path}");
        }
    }
}
