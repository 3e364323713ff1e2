//! From the path of a request to a place below the root, or nowhere.

/// The names on the way from the root, of files and folders; the last one is empty for a folder. `None` for a path that
/// leads nowhere: it would leave the root, names what is hidden, or means different things to different systems.
///
/// Each name is decoded by itself (RFC 3986 §2.4): a slash or dots that were encoded are no way out.
pub(super) fn place(target: &[u8]) -> Option<Vec<String>> {
    let path = target.split(|b| *b == b'?').next().unwrap_or_default();
    let path = path.strip_prefix(b"/")?;
    let count = path.split(|b| *b == b'/').count();
    let names = path.split(|b| *b == b'/').enumerate();
    names.map(|(i, name)| decoded(name).filter(|name| is_plain(name, i + 1 == count))).collect()
}

/// Whether a name can be asked for.
pub(super) fn is_plain(name: &str, is_last: bool) -> bool {
    if name.is_empty() {
        return is_last;
    }
    // Hidden files are not for the public; this one is what RFC 8615 made for it. Dots alone begin with a dot, too.
    let is_hidden = name.starts_with('.') && name != ".well-known";
    !is_hidden && !name.contains(['/', '\\', ':', '\0'])
}

/// Percent-decoding (RFC 3986 §2.1).
pub(in super::super) fn decoded(name: &[u8]) -> Option<String> {
    let mut out = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [first, tail @ ..] = rest {
        if *first == b'%' {
            let digit = |i: usize| tail.get(i).and_then(|b| (*b as char).to_digit(16));
            out.push((digit(0)? * 16 + digit(1)?) as u8);
            rest = &tail[2..];
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(path: &str) -> Option<String> {
        place(path.as_bytes()).map(|names| names.join("|"))
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
            "/a%5c..%5cb",
            "/..\\etc",
            "/c:/x",
            "/a%00.html",
            "/%",
            "/%4",
            "/%zz",
            "/%ff",
            "/.git/config",
            "/a/.htpasswd",
            "*",
        ];
        for path in table {
            assert_eq!(placed(path), None, "{path}");
        }
    }
}
