//! Sessions of WebTransport between two of ours, in whatever order both open, write, give up, drain and
//! close: each side hears what the other said, once; nothing of a session after its end; and of one that is
//! over nothing is left.
//!
//! The first bytes of the input are how streams behave; then come operations of three bytes, the highest bit
//! of the second being the server's.
#![no_main]

#[path = "../../crates/h3/tests/connection/net.rs"]
#[expect(dead_code, reason = "the tests that it is made for need more of it")]
mod net;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use net::{Pair, Peer, net};
use quickset_h3::{Abort, Config, ErrorCode, Event, Request, Response, VerbRefusal, session_code};
use quickset_quic::{Chunk, Dir, Side, StreamId};

fuzz_target!(|input: &[u8]| {
    let Some((&[kind, window, chunk], rest)) = input.split_first_chunk() else { return };
    let config = Config { webtransport: 1, datagrams: true, ..Config::default() };
    let net = net(u64::from(kind));
    net.borrow_mut().window = 40 + usize::from(window) * 8;
    net.borrow_mut().chunk = u64::from(chunk);
    net.borrow_mut().shuffled = kind & 1 != 0;
    Play { pair: Pair::on(net, &config), sessions: BTreeMap::new(), streams: BTreeMap::new() }.run(rest);
});

/// A session, as both sides see it.
#[derive(Default)]
struct Session {
    client: View,
    server: View,
}

#[derive(Default)]
struct View {
    /// This side has heard of it.
    known: bool,
    /// It is established.
    open: bool,
    /// It is over: nothing more is heard of it.
    over: bool,
    /// With what this side closed it.
    closed: Option<(u32, String)>,
    /// This side gave it up as any request.
    given_up: bool,
    drained: bool,
    heard_drained: bool,
    /// Datagrams that this side has sent, and the other has not heard.
    datagrams: Vec<Vec<u8>>,
}

impl Session {
    fn of(&mut self, side: Side) -> &mut View {
        if side == Side::Client { &mut self.client } else { &mut self.server }
    }
}

/// A stream of a session, by its writer.
struct Half {
    session: StreamId,
    sent: u64,
    ended: bool,
    reset: Option<u32>,
    /// What the other side has heard.
    heard: u64,
    /// The other side reads no more of it.
    done: bool,
    /// The other side knows of it.
    told: bool,
}

impl Half {
    fn new(session: StreamId, told: bool) -> Self {
        Self { session, sent: 0, ended: false, reset: None, heard: 0, done: false, told }
    }
}

/// Two of ours.
struct Play {
    pair: Pair,
    sessions: BTreeMap<StreamId, Session>,
    streams: BTreeMap<(StreamId, Side), Half>,
}

impl Play {
    fn run(mut self, mut rest: &[u8]) {
        for _ in 0..OPERATIONS {
            let Some((&[op, which, arg], after)) = rest.split_first_chunk() else { break };
            rest = after;
            self.act(op, which, arg);
            assert_eq!(self.pair.net.borrow().closed, None, "neither is at fault");
        }
        self.pair.net.borrow_mut().shuffled = false;
        self.turns();
        let ids: Vec<StreamId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.close(Side::Server, id, 7);
            self.turns();
            // Those that were refused, too, of which nobody reads the rest.
            self.give_up(Side::Client, id);
            self.give_up(Side::Server, id);
        }
        self.turns();
        assert_eq!(self.pair.net.borrow().closed, None);
        assert!(self.pair.client.h3.is_idle() && self.pair.server.h3.is_idle(), "something is left");
        self.is_all_given_up();
    }

    /// draft-ietf-webtrans-http3 §6: of a session that is over, all streams are.
    fn is_all_given_up(&mut self) {
        let streams: Vec<(StreamId, Side)> = self.streams.keys().copied().collect();
        for (id, writer) in streams {
            let net = self.pair.net.borrow();
            let half = &self.streams[&(id, writer)];
            let is_over =
                half.ended || net.reset_code(id, writer).is_some() || net.stop_code(id, writer).is_some();
            assert!(is_over, "{id:?} of {writer:?} goes on behind its session");
        }
        for id in self.sessions.keys().copied().collect::<BTreeSet<_>>() {
            for side in [Side::Client, Side::Server] {
                let Peer { t, h3 } = self.peer(side);
                assert_eq!(h3.open_session_stream(t, id, Dir::Bi), Err(VerbRefusal::UnknownStream));
                assert_eq!(h3.close_session(t, id, 0, ""), Err(VerbRefusal::UnknownStream));
                assert!(h3.send_datagram(t, id, b"late").is_err());
            }
        }
    }

    fn peer(&mut self, side: Side) -> &mut Peer {
        if side == Side::Client { &mut self.pair.client } else { &mut self.pair.server }
    }

    fn turns(&mut self) {
        let (client, server) = self.pair.run();
        self.tell(Side::Client, client);
        self.tell(Side::Server, server);
    }

    fn act(&mut self, op: u8, which: u8, arg: u8) {
        let side = if which & 0x80 == 0 { Side::Client } else { Side::Server };
        let n = usize::from(which & 0x7f);
        let session = self.sessions.keys().rev().nth(n % 3).copied().unwrap_or(StreamId(0));
        let stream = self.streams.keys().rev().nth(n).map_or(StreamId(n as u64), |(id, _)| *id);
        match op % 16 {
            0 | 1 => {
                let events = self.peer(side).turn();
                self.tell(side, events);
            }
            2 => self.begin(),
            3 => self.answer(session, arg),
            4 | 5 => self.open(side, session, if arg & 1 == 0 { Dir::Uni } else { Dir::Bi }),
            6 => self.write(side, stream, arg),
            7 | 8 => self.read(side, stream, 1 + usize::from(arg)),
            9 => {
                let Peer { t, h3 } = self.peer(side);
                let done = h3.session_finish(t, stream).is_ok();
                self.said(side, stream, |half| half.ended |= done);
            }
            10 => {
                let Peer { t, h3 } = self.peer(side);
                h3.session_reset(t, stream, arg.into());
                if self.knows(side, stream) {
                    self.said(side, stream, |half| {
                        half.reset.get_or_insert(arg.into());
                    });
                }
            }
            11 => {
                let Peer { t, h3 } = self.peer(side);
                h3.session_stop(t, stream, arg.into());
                let knows = self.knows(side, stream);
                self.said(!side, stream, |half| half.done |= knows);
            }
            12 => self.datagram(side, session, arg),
            13 if arg & 1 == 0 => self.close(side, session, arg),
            13 => {
                let Peer { t, h3 } = self.peer(side);
                let drained = h3.drain_session(t, session).is_ok();
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.of(side).drained |= drained;
                }
            }
            14 if arg > 200 => self.give_up(side, session),
            14 => {
                let dir = if arg & 1 == 0 { Dir::Uni } else { Dir::Bi };
                self.pair.net.borrow_mut().limit(side, dir, 100 + u64::from(arg));
            }
            _ => self.turns(),
        }
    }

    /// It opened the stream, or was told of it.
    fn knows(&self, side: Side, id: StreamId) -> bool {
        id.initiator() == side || self.streams.get(&(id, !side)).is_some_and(|half| half.told)
    }

    fn said(&mut self, writer: Side, id: StreamId, change: impl FnOnce(&mut Half)) {
        if let Some(half) = self.streams.get_mut(&(id, writer)) {
            change(half);
        }
    }

    fn begin(&mut self) {
        let Peer { t, h3 } = &mut self.pair.client;
        let request = Request::extended("webtransport", "example.com", "/");
        if let Ok(id) = h3.request(t, &request, false) {
            let client = View { known: true, ..View::default() };
            let session = Session { client, ..Session::default() };
            assert!(self.sessions.insert(id, session).is_none(), "a stream for each");
        }
    }

    fn answer(&mut self, id: StreamId, arg: u8) {
        let status = [200, 200, 200, 204, 404][usize::from(arg) % 5];
        let Peer { t, h3 } = &mut self.pair.server;
        // What came before is told of with the response.
        if h3.respond(t, id, &Response::new(status), status == 404).is_ok() {
            let Some(session) = self.sessions.get_mut(&id) else { return };
            session.server.open = status != 404;
        }
        let events = self.pair.server.turn();
        self.tell(Side::Server, events);
    }

    fn open(&mut self, side: Side, session: StreamId, dir: Dir) {
        let Peer { t, h3 } = self.peer(side);
        let Ok(id) = h3.open_session_stream(t, session, dir) else { return };
        let view = self.sessions.get_mut(&session).expect("it was begun").of(side);
        assert!(view.open && !view.over, "a stream of no session");
        self.streams.insert((id, side), Half::new(session, false));
        if dir == Dir::Bi {
            self.streams.insert((id, !side), Half::new(session, true));
        }
    }

    fn write(&mut self, side: Side, id: StreamId, arg: u8) {
        let Some(half) = self.streams.get(&(id, side)) else { return };
        let (from, ended, over) =
            (half.sent, half.ended || half.reset.is_some(), self.is_over(side, half.session));
        let mut bytes: Bytes = (from..from + u64::from(arg) * 3).map(|i| i as u8 ^ id.0 as u8).collect();
        let Peer { t, h3 } = self.peer(side);
        let sent = h3.session_write(t, id, &mut bytes);
        assert!(sent.is_err() || !(ended || over), "behind the end");
        self.said(side, id, |half| half.sent += sent.unwrap_or(0) as u64);
    }

    fn read(&mut self, side: Side, id: StreamId, max: usize) {
        let Peer { t, h3 } = self.peer(side);
        let read = h3.session_read(t, id, max);
        let Some(half) = self.streams.get(&(id, !side)) else { return assert!(read.is_err()) };
        let is_over = self.is_over(side, half.session);
        // What this side said first may be lost with the rest, and then the other takes the stream for a
        // request.
        let is_lost = self.streams.get(&(id, side)).is_some_and(|own| own.reset.is_some() && !own.told);
        let half = self.streams.get_mut(&(id, !side)).expect("it was there");
        assert!(read.is_err() || !(half.done || is_over), "behind the end: {read:?}");
        match read {
            Ok(Chunk::Data(data)) => {
                assert!(!data.is_empty() && data.len() <= max);
                assert!(half.heard + data.len() as u64 <= half.sent, "more than was said");
                assert!((half.heard..).zip(&data).all(|(i, byte)| i as u8 ^ id.0 as u8 == *byte));
                half.heard += data.len() as u64;
            }
            Ok(Chunk::Finished) => {
                assert!(half.ended && half.heard == half.sent, "{} of {}", half.heard, half.sent);
                half.done = true;
            }
            Err(VerbRefusal::Aborted(Abort::Reset(code))) => {
                half.done = true;
                // The session is over, or has too many streams before it began.
                let ours =
                    [ErrorCode::WT_SESSION_GONE.0, ErrorCode::WT_BUFFERED_STREAM_REJECTED.0].contains(&code);
                let said = half.reset.is_some() && session_code(code) == half.reset;
                let lost = is_lost && code == ErrorCode::H3_REQUEST_CANCELLED.0;
                assert!(ours || said || lost, "{} for {:?}", ErrorCode(code), half.reset);
            }
            Ok(Chunk::Blocked) | Err(_) => {}
        }
    }

    fn is_over(&self, side: Side, session: StreamId) -> bool {
        let session = &self.sessions[&session];
        if side == Side::Client { session.client.over } else { session.server.over }
    }

    fn datagram(&mut self, side: Side, id: StreamId, arg: u8) {
        let payload = vec![arg; usize::from(arg)];
        let Peer { t, h3 } = self.peer(side);
        if h3.send_datagram(t, id, &payload).is_ok() {
            let view = self.sessions.get_mut(&id).expect("it was begun").of(side);
            assert!(!view.over, "behind the end");
            view.datagrams.push(payload);
        }
    }

    fn close(&mut self, side: Side, id: StreamId, arg: u8) {
        // It is cut where no letter is.
        let reason = "é".repeat(usize::from(arg) * 4);
        let Peer { t, h3 } = self.peer(side);
        let closed = h3.close_session(t, id, u32::from(arg) << 24 | 1, &reason);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let view = session.of(side);
        assert_eq!(closed.is_ok(), view.open && !view.over);
        if closed.is_ok() {
            view.over = true;
            let heard = reason.chars().take(512).collect();
            view.closed = Some((u32::from(arg) << 24 | 1, heard));
        }
    }

    /// As one gives up any request.
    fn give_up(&mut self, side: Side, id: StreamId) {
        let Peer { t, h3 } = self.peer(side);
        h3.cancel(t, id, ErrorCode::H3_REQUEST_CANCELLED);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        if !session.of(side).known {
            return;
        }
        session.of(side).given_up = true;
        // It hears of the end itself, which may be that of something else to its application.
        let events = self.peer(side).turn();
        self.tell(side, events);
        if let Some(session) = self.sessions.get_mut(&id) {
            assert!(session.of(side).over || !session.of(side).open, "it goes on");
            session.of(side).over = true;
        }
    }

    /// What a side hears, in order.
    fn tell(&mut self, side: Side, events: Vec<Event>) {
        for event in events {
            match event {
                Event::Request { id, .. } => {
                    self.sessions.get_mut(&id).expect("it was begun").of(side).known = true;
                }
                Event::Response { id, response } => {
                    let view = self.sessions.get_mut(&id).expect("it was begun").of(side);
                    assert!(!view.open && !view.over, "it was answered before");
                    view.open = response.is_success();
                }
                Event::SessionStream { session, id, dir } => {
                    self.hears(side, session);
                    self.said(!side, id, |half| {
                        assert!(half.session == session && !half.told && id.dir() == dir);
                        half.told = true;
                    });
                    assert!(self.streams.contains_key(&(id, !side)), "nobody opened it");
                }
                Event::SessionDraining(session) => {
                    self.hears(side, session);
                    let session = self.sessions.get_mut(&session).expect("it was begun");
                    assert!(session.of(!side).drained && !session.of(side).heard_drained);
                    session.of(side).heard_drained = true;
                }
                Event::SessionClosed { session, code, reason } => {
                    self.hears(side, session);
                    let session = self.sessions.get_mut(&session).expect("it was begun");
                    let (said, told) = session.of(!side).closed.clone().unwrap_or_default();
                    // What was said may be lost with the stream.
                    let given_up = session.of(side).given_up || session.of(!side).given_up;
                    let is_said = (code, &reason[..]) == (said, told.as_bytes());
                    assert!(
                        is_said || (given_up && code == 0 && reason.is_empty()),
                        "{code} {reason:?} for {said} {told}"
                    );
                    assert!(session.of(!side).over || given_up, "nobody ended it");
                    session.of(side).over = true;
                }
                Event::Datagram { id, payload } => {
                    let session = self.sessions.get_mut(&id).expect("it was begun");
                    assert!(!session.of(side).over, "a datagram behind the end");
                    let sent = &mut session.of(!side).datagrams;
                    let at = sent.iter().position(|sent| *sent == payload).expect("somebody sent it");
                    sent.remove(at);
                }
                Event::Readable(id) | Event::Writable(id) | Event::Stopped { id, .. } => {
                    let half = [side, !side].into_iter().find_map(|writer| self.streams.get(&(id, writer)));
                    if let Some(session) = half.map(|half| half.session) {
                        self.hears(side, session);
                    }
                }
                Event::Aborted { id, why } => {
                    assert!(!matches!(why, Abort::Malformed(_)), "{why:?}");
                    let view = self.sessions.get_mut(&id).expect("it was begun").of(side);
                    assert!(!view.over, "{why:?} behind the end");
                    view.over = true;
                }
                Event::Closed(error) => panic!("{side:?}: {error:?}"),
                _ => {}
            }
        }
    }

    /// It may hear of this session.
    fn hears(&mut self, side: Side, session: StreamId) {
        let view = self.sessions.get_mut(&session).expect("it was begun").of(side);
        assert!(view.open && !view.over, "{side:?} hears of {session:?}, which is none");
    }
}

/// Of one input.
const OPERATIONS: usize = 300;
