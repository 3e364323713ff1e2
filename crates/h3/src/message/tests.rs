use super::*;

fn section(lines: &[(&'static str, &'static str)]) -> Vec<Field> {
    lines.iter().map(|&(name, value)| Field::new(name, value)).collect()
}

const GET: [(&str, &str); 4] =
    [(":method", "GET"), (":scheme", "https"), (":authority", "example.com"), (":path", "/")];

fn get_with(more: &[(&'static str, &'static str)]) -> Result<Request, MalformedMessage> {
    Request::from_section(section(&[&GET, more].concat()))
}

fn request(lines: &[(&'static str, &'static str)]) -> Result<Request, MalformedMessage> {
    Request::from_section(section(lines))
}

fn response(lines: &[(&'static str, &'static str)]) -> Result<Response, MalformedMessage> {
    Response::from_section(section(lines))
}

/// The request with one pseudo-header field changed, or removed.
fn get_but(name: &'static str, value: Option<&'static str>) -> Result<Request, MalformedMessage> {
    let lines =
        GET.into_iter().filter_map(|(n, v)| if n == name { value.map(|v| (n, v)) } else { Some((n, v)) });
    request(&lines.collect::<Vec<_>>())
}

#[test]
fn heads_round_trip() {
    let heads = [
        Request::new("GET", "example.com", "/?q"),
        Request::new("POST", "example.com", "/").with("content-length", "5").with("te", "trailers"),
        Request::connect("example.com:443"),
        Request::extended("webtransport", "example.com", "/wt"),
        Request { authority: None, ..Request::new("GET", "", "/") }.with("host", "example.com"),
        Request { scheme: Some("ftp".into()), ..Request::new("GET", "", "x") },
    ];
    for head in heads {
        assert_eq!(Request::from_section(head.section()), Ok(head));
    }
    let head = Response::new(404).with("server", "quickset");
    assert_eq!(head.section()[0], Field::new(":status", "404"));
    assert_eq!(Response::from_section(head.section()), Ok(head));
}

/// RFC 9114 §4.2.1.
#[test]
fn cookies_are_joined() {
    assert_eq!(Request::new("GET", "a", "/").cookie(), None);
    assert_eq!(get_with(&[("cookie", "a=1")]).unwrap().cookie(), Some("a=1".into()));
    let parts = get_with(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2"), ("cookie", "c=3")]);
    assert_eq!(parts.unwrap().cookie(), Some("a=1; b=2; c=3".into()));
}

/// RFC 9114 §4.3.
#[test]
fn pseudo_header_fields_stand_in_front() {
    let mut lines = GET.to_vec();
    lines.insert(2, ("accept", "*/*"));
    assert!(request(&lines).is_err());
    assert!(response(&[("server", "q"), (":status", "200")]).is_err());
}

/// RFC 9114 §4.3.
#[test]
fn pseudo_header_fields_come_once() {
    for line in GET {
        let lines: Vec<_> = core::iter::once(line).chain(GET).collect();
        assert!(request(&lines).is_err(), "{line:?}");
    }
    assert!(response(&[(":status", "200"), (":status", "200")]).is_err());
}

/// RFC 9114 §4.3.
#[test]
fn pseudo_header_fields_are_those_of_the_message() {
    assert!(request(&[&[(":status", "200")], &GET[..]].concat()).is_err());
    assert!(request(&[&[(":unknown", "1")], &GET[..]].concat()).is_err());
    assert!(response(&[(":status", "200"), (":path", "/")]).is_err());
    assert!(trailers(&section(&[(":status", "200")])).is_err());
    assert!(trailers(&section(&[("x-checksum", "1")])).is_ok());
}

/// RFC 9114 §4.3.1.
#[test]
fn a_request_has_method_scheme_and_path() {
    for name in [":method", ":scheme", ":path"] {
        assert!(get_but(name, None).is_err(), "{name}");
    }
    assert!(response(&[("server", "q")]).is_err(), "and a response a status");
}

#[test]
fn methods_and_schemes_are_in_form() {
    assert!(get_but(":method", Some("")).is_err());
    assert!(get_but(":method", Some("GE T")).is_err());
    assert!(get_but(":scheme", Some("")).is_err());
    assert!(get_but(":scheme", Some("ht/tp")).is_err());
    assert!(get_but(":method", Some("M-SEARCH")).is_ok());
}

/// RFC 9114 §4.3.1.
#[test]
fn a_path_begins_with_a_slash() {
    assert!(get_but(":path", Some("")).is_err());
    assert!(get_but(":path", Some("index.html")).is_err());
    assert!(get_but(":path", Some("*")).is_err());
    let mut options = Request::new("OPTIONS", "example.com", "*");
    assert_eq!(options.check(), Ok(()));
    options.path = Some("x".into());
    assert!(options.check().is_err());
}

/// RFC 9114 §4.3.1.
#[test]
fn a_request_names_its_authority_once() {
    assert!(get_but(":authority", None).is_err());
    assert!(get_but(":authority", Some("")).is_err());
    assert!(get_but(":authority", Some("user@example.com")).is_err());
    assert!(get_with(&[("host", "example.com")]).is_ok());
    assert!(get_with(&[("host", "example.org")]).is_err());
    assert!(get_with(&[("host", "example.com"), ("host", "example.com")]).is_err());
}

/// RFC 9114 §4.4.
#[test]
fn connect_has_an_authority_and_no_more() {
    assert!(request(&[(":method", "CONNECT"), (":authority", "a:1")]).is_ok());
    assert!(request(&[(":method", "CONNECT")]).is_err());
    assert!(request(&[(":method", "CONNECT"), (":authority", "")]).is_err());
    assert!(request(&[(":method", "CONNECT"), (":authority", "a:1"), (":scheme", "https")]).is_err());
    assert!(request(&[(":method", "CONNECT"), (":authority", "a:1"), (":path", "/")]).is_err());
}

#[test]
fn protocol_is_for_connect() {
    assert!(request(&[&GET[..], &[(":protocol", "websocket")]].concat()).is_err());
    let extended = [(":method", "CONNECT"), (":protocol", "websocket"), (":authority", "a")];
    assert!(request(&extended).is_err(), "an extended CONNECT has scheme and path");
}

/// RFC 9114 §4.2, §10.3.
#[test]
fn field_names_are_lowercase_tokens() {
    for name in ["Accept", "x y", "", "x:y", "caf\u{e9}", "x\0"] {
        assert!(get_with(&[(name, "1")]).is_err(), "{name:?}");
    }
    assert!(get_with(&[("x-!#$%&'*+-.^_`|~1", "1")]).is_ok());
}

/// RFC 9114 §10.3.
#[test]
fn field_values_have_no_control_characters_and_no_space_around() {
    for value in ["a\0b", "a\rb", "a\nb", "a\x7fb", " a", "a ", "\ta", "a\x1b"] {
        assert!(get_with(&[("x", value)]).is_err(), "{value:?}");
    }
    for value in ["", "a b", "a\tb", "caf\u{e9}"] {
        assert!(get_with(&[("x", value)]).is_ok(), "{value:?}");
    }
    assert!(get_but(":path", Some("/a\nb")).is_err());
}

/// RFC 9114 §4.2, §4.5.
#[test]
fn fields_of_http1_connections_are_malformed() {
    for name in ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"] {
        assert!(get_with(&[(name, "x")]).is_err(), "{name}");
        assert!(response(&[(":status", "200"), (name, "x")]).is_err(), "{name}");
    }
    assert!(get_with(&[("te", "gzip")]).is_err());
    assert!(get_with(&[("te", "trailers")]).is_ok());
}

/// RFC 9114 §4.3.2, §4.5.
#[test]
fn a_status_is_three_digits_and_not_101() {
    for status in ["", "20", "2000", "099", "abc", "+20", "101"] {
        assert!(response(&[(":status", status)]).is_err(), "{status}");
    }
    assert_eq!(response(&[(":status", "103")]).map(|r| r.is_interim()), Ok(true));
    assert_eq!(response(&[(":status", "599")]).map(|r| r.status), Ok(599));
}

#[test]
fn a_content_length_is_one_number() {
    for value in ["", "-1", "+1", "1, 1", "0x1", "99999999999999999999"] {
        assert!(get_with(&[("content-length", value)]).is_err(), "{value}");
    }
    assert!(get_with(&[("content-length", "1"), ("content-length", "2")]).is_err());
    assert!(get_with(&[("content-length", "1"), ("content-length", "1")]).is_ok());
}

/// RFC 9114 §4.1.2.
#[test]
fn content_is_as_long_as_it_says() {
    let mut length = ContentLength::of(&section(&[("content-length", "5")]));
    assert_eq!(length.add(3), Ok(()));
    assert!(length.end().is_err());
    assert_eq!(length.add(2), Ok(()));
    assert_eq!(length.end(), Ok(()));
    assert!(length.add(1).is_err());
    assert_eq!(ContentLength::none().end(), Ok(()));
    assert!(ContentLength::none().add(1).is_err());
    let mut any = ContentLength::of(&[]);
    assert_eq!(any.add(u64::MAX), Ok(()));
    assert_eq!(any.add(u64::MAX), Ok(()));
    assert_eq!(any.end(), Ok(()));
}
