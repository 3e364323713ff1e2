//! Heads and fields as those of the crate `http`, and back: for applications that are written for that. The
//! feature `http`.
//!
//! In: values that may be of a connection of any kind. Out: what HTTP/3 can say of it, or
//! [`MalformedMessage`]. Values are copied.
//!
//! * A request without a scheme is one of `https`, and `host` names its authority where its URI does not
//!   (RFC 9114 §4.3.1).
//! * The protocol of an extended CONNECT is [`Protocol`] among the extensions of the request.
//! * A secret ([`Field::sensitive`]) stays one ([`HeaderValue::is_sensitive`]).
//! * Cookies that came in parts are one field, as others than HTTP/3 and HTTP/2 need it (RFC 9114 §4.2.1).

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::uri::{self, Authority, Uri};
use http::{Method, StatusCode, Version};

use crate::message::trailers;
use crate::{Field, MalformedMessage, Request, Response};

/// What an extended CONNECT speaks (RFC 9220), among the extensions of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Protocol(pub Bytes);

/// The fields of `headers`, those of a name together.
///
/// # Errors
/// When some are of another kind of connection (`connection`, `transfer-encoding`, …).
pub fn fields(headers: &HeaderMap) -> Result<Vec<Field>, MalformedMessage> {
    let fields = all(headers);
    trailers(&fields)?;
    Ok(fields)
}

/// `fields` by name; cookies in parts are put together.
///
/// # Errors
/// When a name or a value is none.
pub fn headers(fields: &[Field]) -> Result<HeaderMap, MalformedMessage> {
    let mut headers = HeaderMap::new();
    for field in fields {
        let name = HeaderName::from_lowercase(&field.name)
            .map_err(|_| MalformedMessage("a field name that is none"))?;
        let mut value = value(&field.value)?;
        value.set_sensitive(field.sensitive);
        if name == header::COOKIE {
            if let Some(before) = headers.get_mut(header::COOKIE) {
                let mut both = self::value(&[before.as_bytes(), b"; ", value.as_bytes()].concat())?;
                both.set_sensitive(before.is_sensitive() || value.is_sensitive());
                *before = both;
                continue;
            }
        }
        // The map has a limit of its own, of 32,768 names.
        headers.try_append(name, value).map_err(|_| MalformedMessage("too many fields"))?;
    }
    Ok(headers)
}

/// The content stays where it is.
///
/// # Errors
/// When HTTP/3 has no such request.
impl<T> TryFrom<&http::Request<T>> for Request {
    type Error = MalformedMessage;

    fn try_from(from: &http::Request<T>) -> Result<Self, MalformedMessage> {
        let (uri, bytes) = (from.uri(), |text: &str| Bytes::copy_from_slice(text.as_bytes()));
        let protocol = from.extensions().get::<Protocol>().map(|protocol| protocol.0.clone());
        let mut request = Self {
            method: bytes(from.method().as_str()),
            scheme: uri.scheme_str().map(bytes),
            authority: uri.authority().map(|authority| bytes(authority.as_str())),
            path: uri.path_and_query().map(|path| bytes(path.as_str())),
            protocol,
            fields: all(from.headers()),
        };
        if from.method() != Method::CONNECT || request.protocol.is_some() {
            request.scheme.get_or_insert(Bytes::from_static(b"https"));
            request.path.get_or_insert(Bytes::from_static(b"/"));
        }
        if request.authority.is_none() {
            request.authority = request.field("host").cloned();
        }
        request.check()?;
        // It is said once.
        let Self { authority, fields, .. } = &mut request;
        fields.retain(|field| field.name != "host" || Some(&field.value) != authority.as_ref());
        Ok(request)
    }
}

/// # Errors
/// When the crate has no such request: a path that is no URI, for example.
impl TryFrom<&Request> for http::Request<()> {
    type Error = MalformedMessage;

    fn try_from(from: &Request) -> Result<Self, MalformedMessage> {
        from.check()?;
        let no_uri = MalformedMessage("no URI can be made of :scheme, :authority and :path");
        let mut parts = uri::Parts::default();
        // With a scheme, a URI has an authority.
        let host = || from.field("host").filter(|_| from.scheme.is_some());
        let authority = from.authority.as_ref().or_else(host);
        if let Some(authority) = authority {
            parts.authority = Some(Authority::try_from(&authority[..]).map_err(|_| no_uri)?);
        }
        if let Some(scheme) = from.scheme.as_ref().filter(|_| authority.is_some()) {
            parts.scheme = Some(uri::Scheme::try_from(&scheme[..]).map_err(|_| no_uri)?);
        }
        if let Some(path) = &from.path {
            parts.path_and_query = Some(uri::PathAndQuery::try_from(&path[..]).map_err(|_| no_uri)?);
        }
        let mut request = Self::new(());
        *request.uri_mut() = Uri::from_parts(parts).map_err(|_| no_uri)?;
        *request.method_mut() =
            Method::from_bytes(&from.method).map_err(|_| MalformedMessage("a :method that is none"))?;
        *request.version_mut() = Version::HTTP_3;
        *request.headers_mut() = headers(&from.fields)?;
        if let Some(protocol) = &from.protocol {
            request.extensions_mut().insert(Protocol(protocol.clone()));
        }
        Ok(request)
    }
}

/// The content stays where it is.
///
/// # Errors
/// When HTTP/3 has no such response: one of 101, for example.
impl<T> TryFrom<&http::Response<T>> for Response {
    type Error = MalformedMessage;

    fn try_from(from: &http::Response<T>) -> Result<Self, MalformedMessage> {
        let response = Self { status: from.status().as_u16(), fields: all(from.headers()) };
        response.check()?;
        Ok(response)
    }
}

/// # Errors
/// When it is malformed.
impl TryFrom<&Response> for http::Response<()> {
    type Error = MalformedMessage;

    fn try_from(from: &Response) -> Result<Self, MalformedMessage> {
        from.check()?;
        let mut response = Self::new(());
        *response.status_mut() =
            StatusCode::from_u16(from.status).map_err(|_| MalformedMessage("a :status that is none"))?;
        *response.version_mut() = Version::HTTP_3;
        *response.headers_mut() = headers(&from.fields)?;
        Ok(response)
    }
}

fn all(headers: &HeaderMap) -> Vec<Field> {
    let field = |(name, value): (&HeaderName, &HeaderValue)| Field {
        sensitive: value.is_sensitive(),
        ..Field::new(
            Bytes::copy_from_slice(name.as_str().as_bytes()),
            Bytes::copy_from_slice(value.as_bytes()),
        )
    };
    headers.iter().map(field).collect()
}

fn value(bytes: &[u8]) -> Result<HeaderValue, MalformedMessage> {
    HeaderValue::from_bytes(bytes).map_err(|_| MalformedMessage("a field value that is none"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there(request: http::request::Builder) -> Result<Request, MalformedMessage> {
        Request::try_from(&request.body(()).expect("it is one"))
    }

    #[test]
    fn requests_go_there_and_back() {
        let request = Request::new("GET", "example.com:8443", "/a?b=c")
            .with("accept", "*/*")
            .with("x", "1")
            .with("x", "2");
        let theirs = http::Request::try_from(&request).expect("it is one");
        assert_eq!(theirs.uri(), "https://example.com:8443/a?b=c");
        assert_eq!((theirs.method(), theirs.version()), (&Method::GET, Version::HTTP_3));
        assert_eq!(Request::try_from(&theirs), Ok(request));

        // RFC 9114 §4.4.
        let tunnel = Request::connect("example.com:443");
        let theirs = http::Request::try_from(&tunnel).expect("it is one");
        assert_eq!(theirs.uri(), "example.com:443");
        assert_eq!(Request::try_from(&theirs), Ok(tunnel));
        // RFC 9220 §3.
        let extended = Request::extended("connect-udp", "example.com", "/masque");
        let theirs = http::Request::try_from(&extended).expect("it is one");
        assert_eq!(theirs.extensions().get(), Some(&Protocol("connect-udp".into())));
        assert_eq!(Request::try_from(&theirs), Ok(extended));

        let named = Request { authority: None, ..Request::new("GET", "", "/").with("host", "example.com") };
        let theirs = http::Request::try_from(&named).expect("it is one");
        assert_eq!(
            (theirs.uri(), &theirs.headers()["host"]),
            (&Uri::from_static("https://example.com/"), &HeaderValue::from_static("example.com"))
        );
        assert_eq!(Request::try_from(&theirs), Ok(Request::new("GET", "example.com", "/")));

        let options = Request::new("OPTIONS", "example.com", "*");
        assert_eq!(Request::try_from(&http::Request::try_from(&options).expect("it is one")), Ok(options));
    }

    /// RFC 9114 §4.3.1: of a request of HTTP/1.1.
    #[test]
    fn what_http_1_leaves_out_is_filled_in() {
        let request = there(http::Request::get("/path").header("host", "example.com").header("a", "b"));
        assert_eq!(request, Ok(Request::new("GET", "example.com", "/path").with("a", "b")));
        let request = there(http::Request::get("http://example.com").header("host", "example.com"));
        let plain = Request { scheme: Some("http".into()), ..Request::new("GET", "example.com", "/") };
        assert_eq!(request, Ok(plain));
    }

    #[test]
    fn what_http_3_cannot_say_is_refused() {
        let get = || http::Request::get("https://example.com/");
        let refused = [
            there(http::Request::get("/without/a/host")),
            there(get().header("host", "other.example")),
            there(get().header("connection", "close")),
            there(get().header("transfer-encoding", "chunked")),
            there(get().header("te", "gzip")),
            there(http::Request::connect("https://example.com/")),
            there(get().extension(Protocol("websocket".into()))),
            there(http::Request::get("https://user@example.com/")),
        ];
        for (n, request) in refused.into_iter().enumerate() {
            assert!(request.is_err(), "{n}: {request:?}");
        }
        let switching = http::Response::builder().status(101).body(()).expect("it is one");
        assert_eq!(Response::try_from(&switching), Err(MalformedMessage("a status 101")));
        let map = HeaderMap::from_iter([(header::UPGRADE, HeaderValue::from_static("h2c"))]);
        assert!(fields(&map).is_err());
    }

    #[test]
    fn what_the_crate_cannot_hold_is_refused() {
        let get = |authority: &'static str, path: &'static str| Request::new("GET", authority, path);
        for request in
            [get("exam ple", "/"), get("example.com", "/a b"), get("example.com", "/").with("A", "b")]
        {
            assert!(http::Request::try_from(&request).is_err(), "{request:?}");
        }
        assert!(http::Response::try_from(&Response::new(101)).is_err());
        assert!(http::Response::try_from(&Response::new(200).with("a", "b\n")).is_err());
    }

    #[test]
    fn responses_trailers_and_secrets_go_there_and_back() {
        let secret = Field { sensitive: true, ..Field::new("x-key", "k") };
        let mut response = Response::new(299).with("a", "1").with("b", "2");
        response.fields.push(secret.clone());
        let theirs = http::Response::try_from(&response).expect("it is one");
        assert_eq!((theirs.status().as_u16(), theirs.version()), (299, Version::HTTP_3));
        assert!(theirs.headers()["x-key"].is_sensitive() && !theirs.headers()["a"].is_sensitive());
        let back = Response::try_from(&theirs).expect("it is one");
        assert_eq!(back, response);
        assert_eq!(fields(&headers(&response.fields).expect("they are")), Ok(response.fields));
    }

    /// RFC 9114 §4.2.1.
    #[test]
    fn cookies_in_parts_are_put_together() {
        let request =
            Request::new("GET", "a", "/").with("cookie", "a=1").with("x", "y").with("cookie", "b=2");
        let theirs = http::Request::try_from(&request).expect("it is one");
        assert_eq!(theirs.headers().get_all("cookie").iter().collect::<Vec<_>>(), ["a=1; b=2"]);
    }
}
