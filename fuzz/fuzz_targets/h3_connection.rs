//! Operations on connections of HTTP/3 over streams that are cut, held up and told of in any order.
//!
//! Between two of ours, whatever their applications do: neither finds fault with the other, what is heard was
//! said, and once all is given up nothing is left. Against a peer that says anything: an error is told once,
//! and after it nothing happens.
//!
//! The first byte of the input chooses which, the next are how the streams behave; then come operations of
//! three bytes, and in the second case what the peer writes with them.
#![no_main]

#[path = "../../crates/h3/tests/connection/net.rs"]
#[expect(dead_code, reason = "the tests that it is made for need more of it")]
mod net;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use net::{Pair, Peer, Raw, net};
use quickset_h3::{
    BodyRead, Config, Connection, ErrorCode, Event, Field, Priority, Request, Response, Transport,
    VerbRefusal,
};
use quickset_policies::PublishedPolicy;
use quickset_quic::{Dir, Side, StreamId};

fuzz_target!(|input: &[u8]| {
    let Some((&[kind, window, chunk, table], rest)) = input.split_first_chunk() else { return };
    let config = Config {
        table: u64::from(table) * 8,
        max_blocked: u64::from(kind >> 4 & 7),
        webtransport: u64::from(kind >> 1 & 1),
        datagrams: kind & 4 != 0,
        grease: (kind & 8 != 0).then_some(7),
        max_field_section: MAX_SECTION,
        max_early_priorities: 4,
        ..Config::default()
    };
    if kind & 1 == 0 {
        let net = net(u64::from(table));
        net.borrow_mut().window = 40 + usize::from(window) * 8;
        net.borrow_mut().chunk = u64::from(chunk);
        net.borrow_mut().shuffled = kind & 0x80 != 0;
        Play { pair: Pair::on(net, &config), said: BTreeMap::new(), session: None }.run(rest);
    } else {
        let side = if kind & 0x80 == 0 { Side::Server } else { Side::Client };
        let raw = Raw::silent(side, config);
        raw.net.borrow_mut().chunk = u64::from(chunk);
        raw.net.borrow_mut().limit_known = window & 1 != 0;
        hostile(raw, rest);
    }
});

const MAX_SECTION: u64 = 600;

/// A message of one side.
#[derive(Default)]
struct Message {
    fields: Vec<Field>,
    trailers: Option<Vec<Field>>,
    sent: u64,
    ended: bool,
    /// It is a session's: closing that ends it.
    session: bool,
    /// What the other side heard.
    told: bool,
    heard: u64,
    over: bool,
}

/// Two of ours.
struct Play {
    pair: Pair,
    /// By stream and speaker.
    said: BTreeMap<(StreamId, Side), Message>,
    session: Option<StreamId>,
}

impl Play {
    fn run(mut self, mut rest: &[u8]) {
        while let Some((&[op, which, arg], after)) = rest.split_first_chunk() {
            rest = after;
            self.act(op, which, arg);
            assert_eq!(self.pair.net.borrow().closed, None, "neither is at fault");
        }
        self.pair.net.borrow_mut().shuffled = false;
        self.turns();
        let ids: BTreeSet<StreamId> = self.said.keys().map(|(id, _)| *id).collect();
        for id in ids {
            for peer in [&mut self.pair.client, &mut self.pair.server] {
                peer.h3.cancel(&mut peer.t, id, ErrorCode::H3_REQUEST_CANCELLED);
            }
        }
        self.turns();
        assert_eq!(self.pair.net.borrow().closed, None);
        assert!(self.pair.client.h3.is_idle() && self.pair.server.h3.is_idle(), "something is left");
    }

    fn turns(&mut self) {
        let (client, server) = self.pair.run();
        self.tell(Side::Client, client);
        self.tell(Side::Server, server);
    }

    fn act(&mut self, op: u8, which: u8, arg: u8) {
        let side = if which & 0x80 == 0 { Side::Client } else { Side::Server };
        let n = usize::from(which & 0x7f);
        let id = self.said.keys().rev().nth(n).map_or(StreamId(n as u64), |(id, _)| *id);
        let peer = match side {
            Side::Client => &mut self.pair.client,
            Side::Server => &mut self.pair.server,
        };
        let (h3, t) = (&mut peer.h3, &mut peer.t);
        match op % 16 {
            0 | 1 => {
                let events = peer.turn();
                self.tell(side, events);
            }
            2 => self.request(arg),
            3 => self.respond(id, arg),
            4 => {
                let Some(said) = self.said.get_mut(&(id, side)) else { return };
                let bytes: Vec<u8> = (said.sent..said.sent + u64::from(arg) * 9).map(|i| i as u8).collect();
                let sent = h3.send(t, id, &mut bytes.into());
                assert!(sent.is_err() || !said.ended, "behind the end");
                said.sent += sent.unwrap_or(0) as u64;
            }
            5 => {
                let Some(said) = self.said.get_mut(&(id, side)) else { return };
                let done = if arg & 1 == 0 {
                    h3.finish(t, id)
                } else {
                    let fields = fields(arg);
                    h3.send_trailers(t, id, &fields).map(|()| said.trailers = Some(fields))
                };
                assert!(done.is_err() || !said.ended, "ended twice");
                said.ended |= done.is_ok();
            }
            6 | 7 => self.read(side, id, 1 + usize::from(arg) * 4),
            8 => other(h3, t, id, arg),
            9 => {
                let priority = Priority::new(arg & 7, arg & 8 != 0);
                let _ = h3.prioritise(t, id, &priority);
            }
            10 => drop(h3.send_datagram(t, id, &vec![arg; usize::from(arg) * 5])),
            11 if arg > 240 => h3.go_away(t, arg & 1 == 0),
            12 => {
                let dir = if arg & 1 == 0 { Dir::Uni } else { Dir::Bi };
                self.pair.net.borrow_mut().limit(side, dir, 100 + u64::from(arg));
            }
            _ => session(h3, t, self.session.unwrap_or(id), id, arg),
        }
    }

    fn request(&mut self, arg: u8) {
        let client = &mut self.pair.client;
        let mut request = match arg & 7 {
            0 | 1 => Request::extended("webtransport", "example.com", "/"),
            2 => Request::connect("example.com:1"),
            _ => Request::new("POST", "example.com", "/"),
        };
        request.fields = fields(arg >> 3);
        let Ok(id) = client.h3.request(&mut client.t, &request, false) else { return };
        if request.protocol.is_some() {
            self.session = Some(id);
        }
        let session = request.protocol.is_some();
        let said = Message { fields: request.fields, session, ..Message::default() };
        assert!(self.said.insert((id, Side::Client), said).is_none(), "a stream for each");
        self.said.insert((id, Side::Server), Message { session, ..Message::default() });
    }

    fn respond(&mut self, id: StreamId, arg: u8) {
        let server = &mut self.pair.server;
        let status = [200, 200, 200, 404, 103][usize::from(arg) % 5];
        let mut response = Response::new(status);
        response.fields = fields(arg >> 3);
        let end = arg & 1 == 0;
        if server.h3.respond(&mut server.t, id, &response, end).is_ok() && status != 103 {
            let said = self.said.get_mut(&(id, Side::Server)).expect("a stream that there is");
            said.fields = response.fields;
            said.ended = end;
        }
    }

    fn read(&mut self, side: Side, id: StreamId, max: usize) {
        let peer = match side {
            Side::Client => &mut self.pair.client,
            Side::Server => &mut self.pair.server,
        };
        let Ok(body) = peer.h3.read(&mut peer.t, id, max) else { return };
        let said = self.said.get_mut(&(id, !side)).expect("a stream that there is");
        assert!(!said.over || body == BodyRead::Finished, "behind the end: {body:?}");
        match body {
            BodyRead::Data(data) => {
                assert!(!data.is_empty() && data.len() <= max);
                assert!(said.heard + data.len() as u64 <= said.sent, "more than was said");
                assert!((said.heard..).zip(&data).all(|(i, byte)| i as u8 == *byte));
                said.heard += data.len() as u64;
            }
            BodyRead::Trailers(fields) => {
                assert_eq!((Some(&fields), said.heard), (said.trailers.as_ref(), said.sent));
            }
            BodyRead::Blocked => {}
            BodyRead::Finished => {
                let whole = said.ended && said.heard == said.sent;
                assert!(whole || said.session, "{} of {}", said.heard, said.sent);
                said.over = true;
            }
        }
    }

    fn tell(&mut self, side: Side, events: Vec<Event>) {
        for event in events {
            let (id, fields) = match event {
                Event::Request { id, request, .. } => (id, request.fields),
                Event::Response { id, response } => (id, response.fields),
                Event::Closed(error) => panic!("{side:?}: {error:?}"),
                Event::Aborted { why: why @ quickset_h3::Abort::Malformed(_), .. } => panic!("{why:?}"),
                _ => continue,
            };
            let said = self.said.get_mut(&(id, !side)).expect("somebody said it");
            assert!(!said.told, "told twice");
            assert_eq!(said.fields, fields);
            said.told = true;
        }
    }
}

/// One of ours against a peer that says anything.
fn hostile(mut raw: Raw, mut rest: &[u8]) {
    let mut ids = vec![StreamId::new(Side::Client, Dir::Bi, 0)];
    // Few get by the first frame otherwise.
    if rest.first().is_some_and(|first| first & 1 == 0) {
        // Extended CONNECT, datagrams, a session of WebTransport.
        raw.uni(&[0x00, 4, 13, 8, 1, 0x33, 1, 0xc0, 0, 0, 0, 0xc6, 0x71, 0x70, 0x6a, 1]);
    }
    let mut closed = false;
    while let Some((&[op, which, arg], after)) = rest.split_first_chunk() {
        rest = after;
        let (said, after) = rest.split_at(if op & 1 == 0 { usize::from(arg).min(rest.len()) } else { 0 });
        rest = after;
        let id = ids[usize::from(which) % ids.len()];
        speak(&mut raw, &mut ids, op, id, said);
        let Peer { t, h3 } = &mut raw.ours;
        match op >> 4 {
            0 => ids.extend(h3.request(t, &Request::new("GET", "a", "/"), arg & 1 == 0)),
            1 => ids.extend(h3.request(t, &Request::extended("webtransport", "a", "/"), false)),
            2 => drop(h3.respond(t, id, &Response::new(200), arg & 1 == 0)),
            3 | 4 => match h3.read(t, id, usize::from(arg)) {
                Ok(BodyRead::Data(data)) => assert!(!closed && data.len() <= usize::from(arg).max(1)),
                Ok(BodyRead::Trailers(fields)) => small(&fields),
                Ok(_) => assert!(!closed),
                Err(_) => {}
            },
            5 => {
                let sent = h3.send(t, id, &mut Bytes::from_static(b"data"));
                assert!(!closed || sent == Err(VerbRefusal::Closed));
            }
            6 => other(h3, t, id, arg),
            7..10 => session(h3, t, ids[0], id, arg),
            10 if arg > 250 => h3.go_away(t, arg & 1 == 0),
            _ => {}
        }
        let events = raw.ours.turn();
        assert!(!closed || events.is_empty(), "after an error: {events:?}");
        for (i, event) in events.iter().enumerate() {
            match event {
                Event::Request { request, .. } => small(&request.fields),
                Event::Response { response, .. } | Event::Interim { response, .. } => small(&response.fields),
                Event::SessionStream { id, .. } => ids.push(*id),
                Event::Closed(error) => {
                    assert_eq!(i + 1, events.len(), "the last of all");
                    assert_eq!(raw.ours.h3.closed(), Some(error));
                    assert_eq!(raw.closed(), error.code);
                    closed = true;
                }
                _ => {}
            }
        }
        assert_eq!(raw.net.borrow().closed.is_some(), closed, "whoever closes says why");
        assert!(!closed || raw.ours.h3.is_idle());
    }
}

/// The peer does something.
fn speak(raw: &mut Raw, ids: &mut Vec<StreamId>, op: u8, id: StreamId, said: &[u8]) {
    let opened = match op >> 1 & 7 {
        0 => raw.t.open(Dir::Uni),
        1 => raw.t.open(Dir::Bi),
        2 | 3 => {
            let _ = raw.t.write(id, &mut Bytes::copy_from_slice(said));
            None
        }
        4 => {
            let _ = raw.t.finish(id);
            None
        }
        5 => {
            raw.t.reset(id, 0x10c);
            None
        }
        6 => {
            raw.t.stop(id, 0x10c);
            None
        }
        _ => {
            raw.t.send_datagram(Bytes::copy_from_slice(said));
            None
        }
    };
    if let Some(id) = opened {
        ids.push(id);
        let _ = raw.t.write(id, &mut Bytes::copy_from_slice(said));
    }
}

fn small(fields: &[Field]) {
    assert!(fields.iter().map(Field::size).sum::<u64>() <= MAX_SECTION);
}

/// What else may be done to a request.
fn other(h3: &mut Connection, t: &mut dyn Transport, id: StreamId, arg: u8) {
    match arg % 6 {
        0 => h3.cancel(t, id, ErrorCode::H3_REQUEST_CANCELLED),
        1 | 2 => h3.stop(t, id, ErrorCode::H3_NO_ERROR),
        3 | 4 => drop(h3.flush(t, id)),
        _ => h3.repair_urgent(t, arg & 7, &PublishedPolicy::TumBulk(2).into()),
    }
}

/// What may be done to a session, or a stream of it.
fn session(h3: &mut Connection, t: &mut dyn Transport, session: StreamId, id: StreamId, arg: u8) {
    match arg % 9 {
        0 => drop(h3.open_session_stream(t, session, Dir::Uni)),
        1 => drop(h3.open_session_stream(t, session, Dir::Bi)),
        2 => drop(h3.session_read(t, id, 1 + usize::from(arg))),
        3 => drop(h3.session_write(t, id, &mut Bytes::from_static(b"of a session"))),
        4 => drop(h3.session_finish(t, id)),
        5 => h3.session_reset(t, id, arg.into()),
        6 => h3.session_stop(t, id, arg.into()),
        7 => drop(h3.close_session(t, session, 1, "over")),
        _ => drop(h3.drain_session(t, session)),
    }
}

/// Few lines, of which some come again.
fn fields(n: u8) -> Vec<Field> {
    let names = ["accept", "user-agent", "x-one", "x-two"];
    let line = |i: u8| Field::new(names[usize::from(n ^ i) % 4], "v".repeat(usize::from(n) / 4 + 1));
    (0..n % 4).map(line).collect()
}
