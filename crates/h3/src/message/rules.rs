use bytes::Bytes;

use super::{ContentLength, MalformedMessage, Request, Response};
use crate::Field;

/// Takes the pseudo-header fields off a section, which stand in front (RFC 9114 §4.3).
pub(super) fn split(
    mut section: Vec<Field>,
    mut pseudo: impl FnMut(&[u8], Bytes) -> Result<(), MalformedMessage>,
) -> Result<Vec<Field>, MalformedMessage> {
    let n = section.iter().take_while(|f| f.name.starts_with(b":")).count();
    let fields = section.split_off(n);
    for field in section {
        value(&field.value)?;
        pseudo(&field.name, field.value)?;
    }
    Ok(fields)
}

/// RFC 9114 §4.3.1, §4.4; RFC 9220 §3.
pub(super) fn request(request: &Request) -> Result<(), MalformedMessage> {
    let Request { method, scheme, authority, path, protocol, fields } = request;
    // RFC 9110 §9.1: a method is a token.
    if method.is_empty() || !method.iter().all(|&b| is_token(b)) {
        return Err(MalformedMessage("a :method that is none"));
    }
    for part in [scheme, authority, path, protocol].into_iter().flatten() {
        value(part)?;
    }
    regular(fields)?;
    ContentLength::declared(fields)?;
    if protocol.is_some() && method != "CONNECT" {
        return Err(MalformedMessage(":protocol without CONNECT"));
    }
    if method == "CONNECT" && protocol.is_none() {
        return match (scheme, path, authority) {
            (None, None, Some(authority)) if !authority.is_empty() => Ok(()),
            (None, None, _) => Err(MalformedMessage("CONNECT without :authority")),
            _ => Err(MalformedMessage("CONNECT with :scheme or :path")),
        };
    }
    let (Some(scheme), Some(path)) = (scheme, path) else {
        return Err(MalformedMessage("no :scheme or :path"));
    };
    // RFC 3986 §3.1.
    let is_scheme = |&b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    if !scheme.first().is_some_and(u8::is_ascii_alphabetic) || !scheme.iter().all(is_scheme) {
        return Err(MalformedMessage("a :scheme that is none"));
    }
    let host = one_host(fields)?;
    // Schemes are compared without regard to case (RFC 3986 §3.1).
    if !(scheme.eq_ignore_ascii_case(b"http") || scheme.eq_ignore_ascii_case(b"https")) {
        return Ok(());
    }
    if !(path.starts_with(b"/") || (path == "*" && method == "OPTIONS")) {
        return Err(MalformedMessage("a :path that does not begin with a slash"));
    }
    // A scheme with a mandatory authority needs one, and not two that differ.
    let named = match (authority, host) {
        (Some(authority), Some(host)) if authority != host => {
            return Err(MalformedMessage("an :authority that is not the host"));
        }
        (Some(name), _) | (None, Some(name)) => name,
        (None, None) => return Err(MalformedMessage("neither :authority nor host")),
    };
    if named.is_empty() || named.contains(&b'@') {
        return Err(MalformedMessage("an :authority that is empty or names a user"));
    }
    Ok(())
}

/// RFC 9114 §4.3.2.
pub(super) fn response(response: &Response) -> Result<(), MalformedMessage> {
    match response.status {
        // RFC 9114 §4.5: no change of protocols.
        101 => return Err(MalformedMessage("a status 101")),
        100..=999 => {}
        _ => return Err(MalformedMessage("a :status that is none")),
    }
    regular(&response.fields)?;
    ContentLength::declared(&response.fields).map(|_| ())
}

/// RFC 9114 §4.1: trailers have no pseudo-header fields.
pub(crate) fn trailers(fields: &[Field]) -> Result<(), MalformedMessage> {
    regular(fields)
}

/// RFC 9114 §4.2, §10.3: names, values, and fields that belong to a connection of another kind.
fn regular(fields: &[Field]) -> Result<(), MalformedMessage> {
    for field in fields {
        if field.name.is_empty() || !field.name.iter().all(|&b| IN_NAMES[usize::from(b)]) {
            return Err(wrong_name(&field.name));
        }
        value(&field.value)?;
        match &field.name[..] {
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                return Err(MalformedMessage("a field that belongs to HTTP/1.1"));
            }
            b"te" if !field.value.eq_ignore_ascii_case(b"trailers") => {
                return Err(MalformedMessage("a te other than trailers"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Why a name is none.
#[cold]
fn wrong_name(name: &[u8]) -> MalformedMessage {
    if name.starts_with(b":") {
        MalformedMessage("a pseudo-header field where none may be")
    } else if name.iter().any(u8::is_ascii_uppercase) {
        MalformedMessage("an uppercase field name")
    } else {
        MalformedMessage("a field name that is none")
    }
}

/// Which bytes names of fields are made of: those of tokens but uppercase letters, looked up since a few
/// bytes of QPACK may stand for a thousand names.
static IN_NAMES: [bool; 256] = {
    let mut table = [false; 256];
    let mut b = 0u8;
    loop {
        table[b as usize] = is_token(b) && !b.is_ascii_uppercase();
        if b == u8::MAX {
            break table;
        }
        b += 1;
    }
};

/// RFC 9110 §5.5: no control characters but tabs, and no space around.
fn value(value: &[u8]) -> Result<(), MalformedMessage> {
    // All are counted, which takes less time than to stop at the first.
    let is_control = |b: &&u8| (**b < 0x20 && **b != b'\t') || **b == 0x7f;
    if value.iter().filter(is_control).count() > 0 {
        return Err(MalformedMessage("a control character in a value"));
    }
    let is_space = |b: Option<&u8>| matches!(b, Some(b' ' | b'\t'));
    if is_space(value.first()) || is_space(value.last()) {
        return Err(MalformedMessage("a value with space around it"));
    }
    Ok(())
}

/// RFC 9110 §7.2: one host.
fn one_host(fields: &[Field]) -> Result<Option<&Bytes>, MalformedMessage> {
    let mut hosts = fields.iter().filter(|f| f.name == "host").map(|f| &f.value);
    let host = hosts.next();
    if hosts.next().is_some() { Err(MalformedMessage("more than one host")) } else { Ok(host) }
}

/// RFC 9110 §5.6.2.
const fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric()
        || matches!(
            b,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}
