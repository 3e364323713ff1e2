//! What a client and a server of aioquic say to each other, read by ours; see `tests/data/exchange.py`.

use std::collections::BTreeMap;

use quickset_h3::{BodyRead, Config, Event, Field, Request, Response, Transport as _};
use quickset_quic::{Side, StreamId};

use crate::net::Raw;

/// Field sections in order, each as lines of hex, and the content.
#[derive(Debug, Default, PartialEq)]
struct Heard {
    sections: Vec<Vec<String>>,
    content: Vec<u8>,
    over: bool,
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = if hex == "-" { "" } else { hex };
    (0..digits.len() / 2).map(|i| u8::from_str_radix(&digits[2 * i..2 * i + 2], 16).expect("hex")).collect()
}

fn line(name: &[u8], value: &[u8]) -> String {
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().concat();
    format!("{}={}", hex(name), hex(value))
}

fn lines(pseudo: &[(&str, &[u8])], fields: &[Field]) -> Vec<String> {
    let pseudo = pseudo.iter().map(|(name, value)| line(name.as_bytes(), value));
    pseudo.chain(fields.iter().map(|f| line(&f.name, &f.value))).collect()
}

fn request(request: &Request) -> Vec<String> {
    let part = |part: &Option<bytes::Bytes>| part.clone().expect("it is there");
    let (scheme, authority, path) = (part(&request.scheme), part(&request.authority), part(&request.path));
    let pseudo = [
        (":method", &request.method[..]),
        (":scheme", &scheme[..]),
        (":authority", &authority[..]),
        (":path", &path[..]),
    ];
    lines(&pseudo, &request.fields)
}

fn response(response: &Response) -> Vec<String> {
    lines(&[(":status", response.status.to_string().as_bytes())], &response.fields)
}

/// All that ours, on `side`, hears of what the other says.
fn hear(side: Side, other: &str) -> BTreeMap<u64, Heard> {
    let mut raw = Raw::silent(side, Config::default());
    if side.is_client() {
        for _ in 0..24 {
            let request = Request::new("GET", "quickset.example", "/");
            raw.ours.h3.request(&mut raw.ours.t, &request, true).expect("allowed");
        }
    }
    let mut heard: BTreeMap<u64, Heard> = BTreeMap::new();
    for words in include_str!("../data/exchange.txt").lines().map(|l| l.split(' ').collect::<Vec<_>>()) {
        let [speaker, stream, data, fin] = words[..] else { continue };
        if speaker != other {
            continue;
        }
        let id = StreamId(stream.parse().expect("a number"));
        if id.initiator() != side {
            open(&mut raw, id);
        }
        let mut events = raw.write(id, &bytes(data));
        if fin == "1" {
            events.extend(raw.finish(id));
        }
        for event in events {
            let (id, section) = match event {
                Event::Request { id, request: head, .. } => (id, Some(request(&head))),
                Event::Interim { id, response: head } | Event::Response { id, response: head } => {
                    (id, Some(response(&head)))
                }
                Event::Readable(id) => (id, None),
                Event::Settings(settings) => {
                    assert_eq!(
                        (settings.qpack_max_table_capacity, settings.qpack_blocked_streams),
                        (4096, 16)
                    );
                    continue;
                }
                other => panic!("{other:?}"),
            };
            let heard = heard.entry(id.0).or_default();
            heard.sections.extend(section);
            read(&mut raw, id, heard);
        }
    }
    raw.lives();
    heard
}

fn open(raw: &mut Raw, id: StreamId) {
    while raw.opened(id.dir()) <= id.index() {
        raw.t.open(id.dir()).expect("allowed");
    }
}

fn read(raw: &mut Raw, id: StreamId, heard: &mut Heard) {
    loop {
        match raw.ours.h3.read(&mut raw.ours.t, id, 50) {
            Ok(BodyRead::Data(data)) => heard.content.extend_from_slice(&data),
            Ok(BodyRead::Trailers(fields)) => heard.sections.push(lines(&[], &fields)),
            Ok(BodyRead::Finished) => {
                heard.over = true;
                return;
            }
            Ok(BodyRead::Blocked) => return,
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// What the other end of aioquic understood.
fn expected(speaker: &str) -> BTreeMap<u64, Heard> {
    let mut expected: BTreeMap<u64, Heard> = BTreeMap::new();
    for words in include_str!("../data/exchange.txt").lines().map(|l| l.split(' ').collect::<Vec<_>>()) {
        match words[..] {
            ["fields", side, stream, _, ref fields @ ..] if side == speaker => {
                let heard = expected.entry(stream.parse().expect("a number")).or_default();
                heard.sections.push(fields.iter().map(|f| (*f).to_owned()).collect());
            }
            ["content", side, stream, content] if side == speaker => {
                let heard = expected.entry(stream.parse().expect("a number")).or_default();
                heard.content = bytes(content);
                heard.over = true;
            }
            _ => {}
        }
    }
    expected
}

#[test]
fn our_server_understands_its_client() {
    assert_eq!(expected("client").len(), 24);
    assert_eq!(hear(Side::Server, "client"), expected("client"));
}

#[test]
fn our_client_understands_its_server() {
    assert_eq!(expected("server").len(), 24);
    assert_eq!(hear(Side::Client, "server"), expected("server"));
}
