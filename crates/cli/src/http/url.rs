use std::net::Ipv6Addr;
use std::str::FromStr;

/// The URL of something to fetch by HTTP/3.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct H3Url {
    /// The whole of it, as it was given.
    pub(crate) text: String,
    /// Host and port as they were given, but for a zone: `:authority`.
    pub(crate) authority: String,
    /// The host, an IPv6 address without its brackets, perhaps with the zone that it is of.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query: `:path`.
    pub(crate) path: String,
}

impl H3Url {
    /// What the server is called: the host without a zone, which is where we are.
    pub(crate) fn name(&self) -> &str {
        self.host.split('%').next().unwrap_or_default()
    }
}

impl FromStr for H3Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "write https://HOST[:PORT]/PATH".to_owned();
        if text.bytes().any(|b| !b.is_ascii_graphic() || b == b'\\') {
            return Err("write other characters than ASCII, and spaces, as %20".to_owned());
        }
        let rest = match text.split_at_checked(8) {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https://") => rest,
            _ => return Err(form()),
        };
        // The fragment is for the reader (RFC 9110 §4.2.5).
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) if rest[at..].starts_with('?') => (&rest[..at], format!("/{}", &rest[at..])),
            Some(at) => (&rest[..at], rest[at..].to_owned()),
            None => (rest, "/".to_owned()),
        };
        // RFC 9110 §4.2.4: a name in front of the host is most often there to deceive.
        if authority.contains('@') {
            return Err("a URL with a user name is not fetched".to_owned());
        }
        let bracketed = authority.strip_prefix('[').and_then(|rest| rest.split_once(']'));
        let (authority, host, port) = if let Some((inner, behind)) = bracketed {
            let (address, host) = zoned(inner)?;
            let port = if behind.is_empty() { "" } else { behind.strip_prefix(':').ok_or_else(form)? };
            (format!("[{address}]{behind}"), host, port)
        } else {
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            (authority.to_owned(), host.to_owned(), port)
        };
        let is_name = !host.is_empty() && !host.contains(['[', ']']);
        if !(is_name
            && (host.contains(':') || !host.contains('%'))
            && port.bytes().all(|b| b.is_ascii_digit()))
        {
            return Err(form());
        }
        let port = if port.is_empty() { 443 } else { port.parse().map_err(|_| form())? };
        Ok(Self { text: text.to_owned(), authority, host, port, path })
    }
}

/// An address of IPv6, and the same with the zone that it is of, if there is one: `fe80::1%eth0`, or
/// `fe80::1%25eth0` as URLs had it (RFC 6874, since RFC 9844 no more).
fn zoned(text: &str) -> Result<(&str, String), String> {
    let (address, zone) = match text.split_once('%') {
        None => (text, None),
        Some((address, zone)) => {
            (address, Some(zone.strip_prefix("25").filter(|zone| !zone.is_empty()).unwrap_or(zone)))
        }
    };
    if address.parse::<Ipv6Addr>().is_err() {
        return Err(format!("{address} is no address of IPv6; write https://[ADDRESS]:PORT/PATH"));
    }
    match zone {
        None => Ok((address, address.to_owned())),
        Some(zone) if zone.is_empty() || zone.contains('%') => {
            Err("name the zone of the address, as in [fe80::1%eth0]".to_owned())
        }
        Some(zone) => Ok((address, format!("{address}%{zone}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let table = [
            ("https://a.example", "a.example", 443, "/"),
            ("HTTPS://a.example:8443/x/y.txt?q=1#f", "a.example", 8443, "/x/y.txt?q=1"),
            ("https://a.example?q=/z", "a.example", 443, "/?q=/z"),
            ("https://[2001:db8::7]:4433/a/", "2001:db8::7", 4433, "/a/"),
            ("https://[::1]/..", "::1", 443, "/.."),
            ("https://127.0.0.1:1/%2e%2e", "127.0.0.1", 1, "/%2e%2e"),
        ];
        for (text, host, port, path) in table {
            let url: Result<H3Url, String> = text.parse();
            let url = url.expect(text);
            assert_eq!((&*url.host, url.port, &*url.path), (host, port, path), "{text}");
        }
    }

    #[test]
    fn addresses_of_a_zone_are_looked_up_with_it_and_called_without() {
        let table = [
            ("https://[fe80::1%eth0]:4433/a", "fe80::1%eth0", "[fe80::1]:4433"),
            ("https://[fe80::1%25eth0]/a", "fe80::1%eth0", "[fe80::1]"),
            ("https://[fe80::1%4]/a", "fe80::1%4", "[fe80::1]"),
            ("https://[fe80::1%25]/a", "fe80::1%25", "[fe80::1]"),
            ("https://[2001:db8::7]:1/a", "2001:db8::7", "[2001:db8::7]:1"),
        ];
        for (text, host, authority) in table {
            let url: H3Url = text.parse().expect(text);
            assert_eq!((&*url.host, &*url.authority), (host, authority), "{text}");
            assert_eq!(url.name(), host.split('%').next().unwrap(), "{text}");
        }
    }

    #[test]
    fn what_is_no_url_of_https_is_refused() {
        let table = [
            "a.example",
            "http://a.example/",
            "https://",
            "https:///x",
            "https://:1/",
            "https://a:99999/",
            "https://u@a/",
            "https://a/ b",
            "https://a/é",
            "https://a/\\..",
            "https://[::1]x/",
            "https://[::1/",
            "https://[]/",
            "https://[a.example]/",
            "https://[fe80::1%]/",
            "https://[fe80::1%a%b]/",
            "https://a:+443/",
            "https://a%62/",
        ];
        for text in table {
            assert!(text.parse::<H3Url>().is_err(), "{text}");
        }
    }
}
