//! The static table (RFC 9204 appendix A).

/// The field line at `index`; `None` beyond the table.
pub(super) fn get(index: u64) -> Option<(&'static str, &'static str)> {
    TABLE.get(usize::try_from(index).ok()?).copied()
}

/// Where a field line, or at least its name, is in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StaticMatch {
    /// The whole line.
    Line(u64),
    /// The name, with another value.
    Name(u64),
    Nothing,
}

/// The best that the table has for a field line, at its lowest index.
pub(super) fn find(name: &[u8], value: &[u8]) -> StaticMatch {
    let Some(&[from, to]) = OF_LEN.get(name.len()) else { return StaticMatch::Nothing };
    let (from, to, key) = (from as usize, to as usize, front(name));
    let at = from + FRONTS[from..to].partition_point(|&other| other < key);
    let mut first = None;
    for (&i, _) in BY_NAME[at..to].iter().zip(&FRONTS[at..to]).take_while(|(_, other)| **other == key) {
        let (same, text) = TABLE[i as usize];
        if name.len() > FRONT && same.as_bytes() != name {
            continue;
        }
        if text.as_bytes() == value {
            return StaticMatch::Line(i.into());
        }
        first.get_or_insert(i);
    }
    first.map_or(StaticMatch::Nothing, |first| StaticMatch::Name(first.into()))
}

/// The first bytes of a name, which are compared as one number. Among names of a length their order is that
/// of the names, but for those that begin alike.
const fn front(name: &[u8]) -> u64 {
    let (mut key, mut i) = (0, 0);
    while i < name.len() && i < FRONT {
        key = key << 8 | name[i] as u64;
        i += 1;
    }
    key
}

/// Bytes of a name that are in one number.
const FRONT: usize = 8;

/// Those of the names in [`BY_NAME`].
static FRONTS: [u64; TABLE.len()] = {
    let mut fronts = [0; TABLE.len()];
    let mut at = 0;
    while at < fronts.len() {
        fronts[at] = front(TABLE[BY_NAME[at] as usize].0.as_bytes());
        at += 1;
    }
    fronts
};

/// Indices in the order of names, the shortest first, and of indices where names are equal.
const BY_NAME: [u8; TABLE.len()] = by_name();

/// Where those of each length are in it.
const OF_LEN: [[u8; 2]; LONGEST + 1] = of_len();

/// Bytes of the longest name.
const LONGEST: usize = TABLE[BY_NAME[TABLE.len() - 1] as usize].0.len();

#[expect(clippy::cast_possible_truncation, reason = "the table has 99 lines")]
const fn of_len() -> [[u8; 2]; LONGEST + 1] {
    let mut places = [[0; 2]; LONGEST + 1];
    let mut at = 0;
    while at < TABLE.len() {
        let len = TABLE[BY_NAME[at] as usize].0.len();
        if places[len][1] == 0 {
            places[len][0] = at as u8;
        }
        places[len][1] = at as u8 + 1;
        at += 1;
    }
    places
}

#[expect(clippy::cast_possible_truncation, reason = "the table has 99 lines")]
const fn by_name() -> [u8; TABLE.len()] {
    let mut sorted = [0; TABLE.len()];
    let mut n = 0;
    while n < TABLE.len() {
        let mut at = n;
        while at > 0 && less(TABLE[n].0.as_bytes(), TABLE[sorted[at - 1] as usize].0.as_bytes()) {
            sorted[at] = sorted[at - 1];
            at -= 1;
        }
        sorted[at] = n as u8;
        n += 1;
    }
    sorted
}

const fn less(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return a.len() < b.len();
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return a[i] < b[i];
        }
        i += 1;
    }
    false
}

const TABLE: [(&str, &str); 99] = [
    (":authority", ""),
    (":path", "/"),
    ("age", "0"),
    ("content-disposition", ""),
    ("content-length", "0"),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("referer", ""),
    ("set-cookie", ""),
    (":method", "CONNECT"),
    (":method", "DELETE"),
    (":method", "GET"),
    (":method", "HEAD"),
    (":method", "OPTIONS"),
    (":method", "POST"),
    (":method", "PUT"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "103"),
    (":status", "200"),
    (":status", "304"),
    (":status", "404"),
    (":status", "503"),
    ("accept", "*/*"),
    ("accept", "application/dns-message"),
    ("accept-encoding", "gzip, deflate, br"),
    ("accept-ranges", "bytes"),
    ("access-control-allow-headers", "cache-control"),
    ("access-control-allow-headers", "content-type"),
    ("access-control-allow-origin", "*"),
    ("cache-control", "max-age=0"),
    ("cache-control", "max-age=2592000"),
    ("cache-control", "max-age=604800"),
    ("cache-control", "no-cache"),
    ("cache-control", "no-store"),
    ("cache-control", "public, max-age=31536000"),
    ("content-encoding", "br"),
    ("content-encoding", "gzip"),
    ("content-type", "application/dns-message"),
    ("content-type", "application/javascript"),
    ("content-type", "application/json"),
    ("content-type", "application/x-www-form-urlencoded"),
    ("content-type", "image/gif"),
    ("content-type", "image/jpeg"),
    ("content-type", "image/png"),
    ("content-type", "text/css"),
    ("content-type", "text/html; charset=utf-8"),
    ("content-type", "text/plain"),
    ("content-type", "text/plain;charset=utf-8"),
    ("range", "bytes=0-"),
    ("strict-transport-security", "max-age=31536000"),
    ("strict-transport-security", "max-age=31536000; includesubdomains"),
    ("strict-transport-security", "max-age=31536000; includesubdomains; preload"),
    ("vary", "accept-encoding"),
    ("vary", "origin"),
    ("x-content-type-options", "nosniff"),
    ("x-xss-protection", "1; mode=block"),
    (":status", "100"),
    (":status", "204"),
    (":status", "206"),
    (":status", "302"),
    (":status", "400"),
    (":status", "403"),
    (":status", "421"),
    (":status", "425"),
    (":status", "500"),
    ("accept-language", ""),
    ("access-control-allow-credentials", "FALSE"),
    ("access-control-allow-credentials", "TRUE"),
    ("access-control-allow-headers", "*"),
    ("access-control-allow-methods", "get"),
    ("access-control-allow-methods", "get, post, options"),
    ("access-control-allow-methods", "options"),
    ("access-control-expose-headers", "content-length"),
    ("access-control-request-headers", "content-type"),
    ("access-control-request-method", "get"),
    ("access-control-request-method", "post"),
    ("alt-svc", "clear"),
    ("authorization", ""),
    ("content-security-policy", "script-src 'none'; object-src 'none'; base-uri 'none'"),
    ("early-data", "1"),
    ("expect-ct", ""),
    ("forwarded", ""),
    ("if-range", ""),
    ("origin", ""),
    ("purpose", "prefetch"),
    ("server", ""),
    ("timing-allow-origin", "*"),
    ("upgrade-insecure-requests", "1"),
    ("user-agent", ""),
    ("x-forwarded-for", ""),
    ("x-frame-options", "deny"),
    ("x-frame-options", "sameorigin"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found_where_it_is() {
        for (i, (name, value)) in TABLE.iter().enumerate() {
            assert_eq!(
                find(name.as_bytes(), value.as_bytes()),
                StaticMatch::Line(i as u64),
                "{name}: {value}"
            );
        }
    }

    #[test]
    fn a_name_is_found_at_its_lowest_index() {
        assert_eq!(find(b":status", b"418"), StaticMatch::Name(24));
        assert_eq!(find(b"access-control-allow-headers", b"x"), StaticMatch::Name(33));
        assert_eq!(find(b"x-frame-options", b""), StaticMatch::Name(97));
        assert_eq!(find(b":authority", b"example.com"), StaticMatch::Name(0));
        assert_eq!(find(b"te", b"trailers"), StaticMatch::Nothing);
        assert_eq!(find(b"", b""), StaticMatch::Nothing);
        assert_eq!(find(b"zz", b""), StaticMatch::Nothing);
    }

    #[test]
    fn the_table_ends_at_98() {
        assert_eq!(get(98), Some(("x-frame-options", "sameorigin")));
        assert_eq!(get(99), None);
        assert_eq!(get(u64::MAX), None);
    }
}
