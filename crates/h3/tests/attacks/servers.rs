//! The other way round: an honest client of HTTP/3 whose server is hostile (RFC 9114 §10.5).
//!
//! The server is one of QUIC that says whatever bytes it is told to, without end if there is credit; the
//! client's heap is counted, and it learns what was wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use quickset_base::{AddressPair, Batch, Duration, Input, Machine, Poll, Rng, Time};
use quickset_h3::{self as h3, Abort, BodyRead, Config, ErrorCode, OnQuic, Request};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    ClientConfig, Closed, ConnectionKey, Dir, Endpoint, EndpointConfig, Event, Node, RetryPolicy,
    ServerConfig, StreamEvent, StreamId,
};
use quickset_sim::{LinkSpec, NodeId, RunEnded, World, address};

use crate::memory;
use crate::requests::{frame, head};

/// What the server says.
#[derive(Clone, Default)]
struct Script {
    /// On its control stream, behind an empty SETTINGS frame.
    control: Vec<u8>,
    /// To each request, first and then as often as there is credit.
    answer: Vec<u8>,
    more: Vec<u8>,
    /// Each answer ends with this code.
    reset: Option<u64>,
    /// Streams that it opens.
    streams: u64,
}

struct Server {
    node: Node,
    script: Script,
    pending: BTreeMap<(ConnectionKey, StreamId), Bytes>,
    said: u64,
}

struct Client {
    node: Node,
    key: ConnectionKey,
    h3: Option<h3::Connection>,
    /// Whether it reads what is content.
    reads: bool,
    held: isize,
    heads: u64,
    content: u64,
    aborted: Option<Abort>,
    closed: Option<Closed>,
}

enum Actor {
    Server(Box<Server>),
    Client(Box<Client>),
}

struct Stage {
    world: World<Actor>,
    client: NodeId,
    server: NodeId,
}

impl Stage {
    fn new(script: &Script, reads: bool) -> Self {
        let endpoint = |seed: u64, server| {
            let crypto = Arc::new(NullSecrets(seed));
            let config = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 10 };
            Node::new(Endpoint::new(config, server, Rng::new(seed)))
        };
        let config = ServerConfig {
            crypto: Arc::new(NullServer::new(&[h3::ALPN])),
            transport: Arc::default(),
            max_connections: 10,
            retry: RetryPolicy::Never,
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(3600),
        };
        let script = script.clone();
        let server = Server { node: endpoint(2, Some(config)), script, pending: BTreeMap::new(), said: 0 };
        let mut node = endpoint(3, None);
        let crypto = Arc::new(NullClient::new(&[h3::ALPN]));
        let config = ClientConfig { crypto, transport: Arc::default() };
        let key =
            node.connect(Time::ZERO, &config, AddressPair::to(address(1)), "server").expect("it begins");
        let client =
            Client { node, key, h3: None, reads, held: 0, heads: 0, content: 0, aborted: None, closed: None };
        let mut world = World::new(1);
        let server = world.add("server", address(1), Actor::Server(Box::new(server)));
        let client = world.add("client", address(2), Actor::Client(Box::new(client)));
        let link = || -> LinkSpec { "rate=100mbit delay=5ms".parse().expect("a link") };
        world.join(address(2), address(1), link(), link());
        Self { world, client, server }
    }

    /// Lets time pass, and returns the most that the client held.
    fn pass(&mut self, time: Duration) -> isize {
        let (end, mut most) = (self.world.now() + time, 0);
        while self.world.now() < end {
            let next = self.world.now() + Duration::from_millis(50);
            let ended = self.world.run(next).expect("the world goes on");
            most = most.max(self.client().held);
            if ended == RunEnded::Idle {
                // Both have forgotten each other.
                break;
            }
        }
        most
    }

    fn client(&mut self) -> &mut Client {
        match self.world.node_mut(self.client) {
            Actor::Client(client) => client,
            Actor::Server(_) => unreachable!("the client is the client"),
        }
    }

    fn said(&mut self) -> u64 {
        match self.world.node_mut(self.server) {
            Actor::Server(server) => server.said,
            Actor::Client(_) => unreachable!("the server is the server"),
        }
    }
}

impl Server {
    fn on_event(&mut self, key: ConnectionKey, event: &Event) {
        match event {
            Event::Connected => {
                let first = [&[0][..], &frame(4, &[]), &self.script.control].concat();
                self.open(key, first);
                for _ in 0..self.script.streams {
                    self.open(key, vec![0x40, 0x77, 1, 2, 3]);
                }
            }
            Event::Stream(StreamEvent::Opened(Dir::Bi)) => {
                while let Some(id) = self.node.connection(key).and_then(|c| c.streams().accept(Dir::Bi)) {
                    self.pending.insert((key, id), self.script.answer.clone().into());
                    self.answer(key, id);
                }
            }
            Event::Stream(StreamEvent::Writable(id)) => self.answer(key, *id),
            Event::Closed(_) => self.pending.clear(),
            _ => {}
        }
    }

    fn open(&mut self, key: ConnectionKey, bytes: Vec<u8>) {
        let Some(connection) = self.node.connection(key) else { return };
        let Some(id) = connection.streams().open(Dir::Uni) else { return };
        let _ = connection.send_stream(id).write(&mut Bytes::from(bytes));
    }

    fn answer(&mut self, key: ConnectionKey, id: StreamId) {
        let Some(mut data) = self.pending.remove(&(key, id)) else { return };
        let Some(connection) = self.node.connection(key) else { return };
        loop {
            let before = data.len();
            if connection.send_stream(id).write(&mut data).is_err() {
                return;
            }
            self.said += (before - data.len()) as u64;
            if !data.is_empty() {
                break;
            }
            if let Some(code) = self.script.reset {
                let _ = connection.send_stream(id).reset(code);
                return;
            }
            if self.script.more.is_empty() || self.said > ENOUGH {
                return;
            }
            data = self.script.more.clone().into();
        }
        self.pending.insert((key, id), data);
    }
}

impl Client {
    fn on_event(&mut self, now: Time, event: Event) {
        let Some(connection) = self.node.connection(self.key) else { return };
        let mut t = OnQuic { connection, now };
        match event {
            Event::Connected => {
                let mut h3 = h3::Connection::new(quickset_wire::Side::Client, Config::default(), &mut t);
                h3.request(&mut t, &Request::new("GET", "example.com", "/"), true).expect("it is allowed");
                self.h3 = Some(h3);
            }
            Event::Closed(why) => self.closed = Some(why),
            Event::Stream(event) => {
                let Some(h3) = &mut self.h3 else { return };
                h3.handle(&mut t, event);
                while let Some(event) = h3.poll_event() {
                    match event {
                        h3::Event::Response { id, .. } | h3::Event::Readable(id) => {
                            self.heads += 1;
                            if self.reads {
                                let (content, aborted) = read(h3, &mut t, id);
                                self.content += content;
                                self.aborted = self.aborted.or(aborted);
                            }
                        }
                        h3::Event::Aborted { why, .. } => self.aborted = Some(why),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn measured<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> T {
        let held = memory::held();
        let result = act(self);
        self.held += memory::held() - held;
        result
    }
}

impl Machine for Actor {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        match self {
            Self::Server(server) => server.node.handle(now, input),
            Self::Client(client) => client.measured(|client| client.node.handle(now, input)),
        }
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        match self {
            Self::Server(server) => loop {
                let poll = server.node.poll(now, out);
                if poll != Poll::Event {
                    return poll;
                }
                while let Some((key, event)) = server.node.poll_event() {
                    server.on_event(key, &event);
                }
            },
            Self::Client(client) => client.measured(|client| {
                loop {
                    let poll = client.node.poll(now, out);
                    if poll != Poll::Event {
                        return poll;
                    }
                    while let Some((_, event)) = client.node.poll_event() {
                        client.on_event(now, event);
                    }
                }
            }),
        }
    }
}

/// Reads what there is: how many bytes of content, and why there is no more.
fn read(h3: &mut h3::Connection, t: &mut OnQuic<'_>, id: StreamId) -> (u64, Option<Abort>) {
    let mut content = 0;
    loop {
        match h3.read(t, id, 16 << 10) {
            Ok(BodyRead::Data(data)) => content += data.len() as u64,
            Ok(BodyRead::Trailers(_)) => {}
            Err(h3::VerbRefusal::Aborted(why)) => return (content, Some(why)),
            Ok(_) | Err(_) => return (content, None),
        }
    }
}

/// HEADERS of a status by its place in the static table, and other lines.
fn response(status: u8, lines: &[u8]) -> Vec<u8> {
    frame(1, &[&[0, 0, 0xc0 | status][..], lines].concat())
}

/// What a test expects of the client.
enum End {
    /// The request ends, and nothing else.
    Request(fn(Abort) -> bool),
    /// The connection, by the client.
    Connection(ErrorCode),
    /// Nothing: it goes on.
    Nothing,
}

#[test]
fn whatever_a_server_says_the_client_holds_little_and_says_why_it_stops() {
    let too_large = |why| why == Abort::TooLarge;
    let malformed = |why| matches!(why, Abort::Malformed(_));
    let answer = |answer: Vec<u8>| Script { answer, ..Script::default() };
    let endless = |answer: Vec<u8>, more: Vec<u8>| Script { answer, more, ..Script::default() };
    // content-length: 5, of which the name is in the static table.
    let five = response(OK, &[0x54, 1, b'5']);
    let cases = [
        ("interim responses", endless(Vec::new(), response(EARLY_HINTS, &[])), End::Request(too_large)),
        ("a head of a terabyte", endless(head(1, 1 << 40), vec![0; 1000]), End::Request(too_large)),
        (
            "fields that cannot be",
            endless([head(1, 60_000), vec![0, 0]].concat(), vec![0xff; 1000]),
            End::Connection(ErrorCode::QPACK_DECOMPRESSION_FAILED),
        ),
        // Of 41 bytes each, as RFC 9114 §4.2.2 counts them.
        (
            "fields of one byte",
            endless([head(1, 60_000), vec![0, 0]].concat(), vec![0xc0 | 0x1d; 1000]),
            End::Request(too_large),
        ),
        (
            "more than it announced",
            answer([five.clone(), frame(0, &[7; 6])].concat()),
            End::Request(malformed),
        ),
        ("no head", answer(frame(0, &[7; 6])), End::Connection(ErrorCode::H3_FRAME_UNEXPECTED)),
        ("content without end", endless(response(OK, &[]), frame(0, &[7; 1000])), End::Nothing),
        (
            "nothing, without end",
            endless(response(OK, &[]), frame(0, &[]).repeat(500)),
            End::Connection(ErrorCode::H3_EXCESSIVE_LOAD),
        ),
        (
            "unknown frames",
            endless(Vec::new(), frame(0x21, &[]).repeat(500)),
            End::Connection(ErrorCode::H3_EXCESSIVE_LOAD),
        ),
        (
            "trailers twice",
            answer([response(OK, &[]), section(), section()].concat()),
            End::Connection(ErrorCode::H3_FRAME_UNEXPECTED),
        ),
        ("a promise", answer(frame(5, &[0, 0, 0])), End::Connection(ErrorCode::H3_ID_ERROR)),
        (
            "a reset",
            Script { answer: five, reset: Some(0x107), ..Script::default() },
            End::Request(|why| why == Abort::Reset(0x107)),
        ),
        (
            "a refusal",
            Script { answer: Vec::new(), reset: Some(ErrorCode::H3_REQUEST_REJECTED.0), ..Script::default() },
            End::Request(|why| why == Abort::Rejected),
        ),
    ];
    assert_ends(cases);
}

#[test]
fn what_a_server_may_not_say_of_the_connection_ends_it() {
    let control = |control: Vec<u8>| Script { control, ..Script::default() };
    let goaway = |id: u8| frame(7, &[id]);
    let cases = [
        ("GOAWAY", control(goaway(0)), End::Request(|why| why == Abort::Rejected)),
        ("GOAWAY upwards", control([goaway(4), goaway(8)].concat()), End::Connection(ErrorCode::H3_ID_ERROR)),
        (
            "GOAWAY again and again",
            control(goaway(40).repeat(2000)),
            End::Connection(ErrorCode::H3_EXCESSIVE_LOAD),
        ),
        ("SETTINGS twice", control(frame(4, &[])), End::Connection(ErrorCode::H3_FRAME_UNEXPECTED)),
        ("MAX_PUSH_ID", control(frame(0xd, &[0])), End::Connection(ErrorCode::H3_FRAME_UNEXPECTED)),
        ("a cancelled push", control(frame(3, &[0])), End::Connection(ErrorCode::H3_ID_ERROR)),
        ("a priority", control(frame(0xf_0700, &[0])), End::Connection(ErrorCode::H3_FRAME_UNEXPECTED)),
        ("unknown streams", Script { streams: 500, ..Script::default() }, End::Nothing),
    ];
    assert_ends(cases);
}

/// The client ends as each case says, and holds little.
fn assert_ends(cases: impl IntoIterator<Item = (&'static str, Script, End)>) {
    for (what, script, end) in cases {
        let mut stage = Stage::new(&script, true);
        let most = stage.pass(Duration::from_secs(6));
        let said = stage.said();
        let client = stage.client();
        match end {
            End::Request(expected) => {
                assert!(
                    client.aborted.is_some_and(expected),
                    "{what}: {:?} {:?}",
                    client.aborted,
                    client.closed
                );
                assert!(client.closed.is_none(), "{what}: {:?}", client.closed);
            }
            End::Connection(code) => {
                let told = client.h3.as_ref().and_then(h3::Connection::closed);
                assert_eq!(told.map(|error| error.code), Some(code), "{what}: {told:?} {:?}", client.aborted);
            }
            End::Nothing => {
                assert!(client.closed.is_none() && client.aborted.is_none(), "{what}: {:?}", client.closed);
            }
        }
        assert!(most < 400_000, "{what}: {most} bytes held of {said}");
    }
}

/// An application that reads nothing is sent no more than its windows.
#[test]
fn content_that_is_not_read_is_held_within_the_window() {
    let script = Script { answer: response(OK, &[]), more: frame(0, &[7; 1000]), ..Script::default() };
    let mut stage = Stage::new(&script, false);
    let most = stage.pass(Duration::from_secs(10));
    assert!(stage.client().closed.is_none() && stage.client().heads >= 1);
    assert!(stage.said() > 4 << 20, "it would say more");
    assert!(most < 2 << 20, "{most} bytes held");
}

/// Trailers of no field.
fn section() -> Vec<u8> {
    frame(1, &[0, 0])
}

/// Places of statuses in the static table (RFC 9204, appendix A).
const EARLY_HINTS: u8 = 24;
const OK: u8 = 25;

/// Bytes that a server says at most: for a client that takes all, as 20 seconds of the link.
const ENOUGH: u64 = 20 << 20;
