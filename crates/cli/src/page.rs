//! What servers of pages for browsers have in common: the names by which they are asked, and how a WebSocket
//! begins (RFC 6455).

use std::io;
use std::net::IpAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    CONNECTION, HOST, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// By what browsers on this machine call it.
pub(crate) fn local_names() -> Vec<String> {
    ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into()
}

/// A host as in a URL.
pub(crate) fn authority_of(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V6(address)) => format!("[{address}]"),
        _ => host.to_owned(),
    }
}

/// Whether a request asks for one of our `names`. One by another name comes from a page that had its own name
/// led to our address. The port may be that of somebody who passes it on to us.
pub(crate) fn asks_for<B>(request: &Request<B>, names: &[String]) -> bool {
    let host = request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_port = |port: &str| port.strip_prefix(':').is_some_and(|port| port.parse::<u16>().is_ok());
    names.iter().any(|name| match host.split_at_checked(name.len()) {
        Some((host, port)) => host.eq_ignore_ascii_case(name) && (port.is_empty() || is_port(port)),
        None => false,
    })
}

/// Whether a request is one for a WebSocket.
pub(crate) fn wants_socket<B>(request: &Request<B>) -> bool {
    let field = |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    // RFC 6455 §4.2.1: what a server needs.
    request.method() == Method::GET
        && field(UPGRADE).is_some_and(|value| value.eq_ignore_ascii_case("websocket"))
        && field(SEC_WEBSOCKET_VERSION) == Some("13")
        && request.headers().contains_key(SEC_WEBSOCKET_KEY)
}

/// The answer to a request for a WebSocket, and where its bytes are once that is sent.
///
/// # Errors
/// When the request has no key that can be answered.
pub(crate) fn switch<B>(request: &mut Request<B>) -> io::Result<(OnUpgrade, Response<Full<Bytes>>)> {
    let key = request.headers().get(SEC_WEBSOCKET_KEY);
    let accept = key.map(|key| accept(key.as_bytes())).ok_or(io::ErrorKind::InvalidInput)?;
    let mut response = Response::new(Full::default());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let fields = response.headers_mut();
    fields.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    fields.insert(UPGRADE, HeaderValue::from_static("websocket"));
    fields.insert(SEC_WEBSOCKET_ACCEPT, HeaderValue::try_from(accept).map_err(io::Error::other)?);
    Ok((hyper::upgrade::on(request), response))
}

/// The value of `Sec-WebSocket-Accept` for that of `Sec-WebSocket-Key`.
fn accept(key: &[u8]) -> String {
    derive_accept_key(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_to_a_key_is_that_of_the_rfc() {
        // RFC 6455 §1.3.
        assert_eq!(accept(b"dGhlIHNhbXBsZSBub25jZQ=="), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
