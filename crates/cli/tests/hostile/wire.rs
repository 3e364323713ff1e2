//! HTTP/3 as bytes (RFC 9114 §7, RFC 9204 §4.5.6).

/// A frame.
pub(crate) fn frame(kind: u64, payload: &[u8]) -> Vec<u8> {
    [&varint(kind)[..], &varint(payload.len() as u64), payload].concat()
}

/// A HEADERS frame of a response.
pub(crate) fn head(status: u16, fields: &[(&str, &str)]) -> Vec<u8> {
    let status = status.to_string();
    self::fields(&[&[(":status", status.as_str())][..], fields].concat())
}

/// A HEADERS frame of these alone.
pub(crate) fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut section = vec![0, 0];
    for (name, value) in fields {
        section.extend(prefixed(0x20, 3, name.len()));
        section.extend_from_slice(name.as_bytes());
        section.extend(prefixed(0, 7, value.len()));
        section.extend_from_slice(value.as_bytes());
    }
    frame(HEADERS, &section)
}

/// A DATA frame.
pub(crate) fn data(content: &[u8]) -> Vec<u8> {
    frame(DATA, content)
}

/// RFC 9000 §16.
pub(crate) fn varint(n: u64) -> Vec<u8> {
    match n {
        0..0x40 => vec![n as u8],
        0x40..0x4000 => (n as u16 | 0x4000).to_be_bytes().to_vec(),
        0x4000..0x4000_0000 => (n as u32 | 0x8000_0000).to_be_bytes().to_vec(),
        _ => (n | 0xc000_0000_0000_0000).to_be_bytes().to_vec(),
    }
}

/// An integer behind some bits of a byte (RFC 7541 §5.1).
pub(crate) fn prefixed(first: u8, bits: u32, n: usize) -> Vec<u8> {
    let most = (1 << bits) - 1;
    if n < most {
        return vec![first | n as u8];
    }
    let (mut out, mut rest) = (vec![first | most as u8], n - most);
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
    out
}

pub(crate) const DATA: u64 = 0;
pub(crate) const HEADERS: u64 = 1;
pub(crate) const SETTINGS: u64 = 4;
pub(crate) const GOAWAY: u64 = 7;
