//! Scenes of HTTP/3: a client and a server over QUIC in virtual time, and what both see.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use quickset_base::{AddressPair, Batch, Duration, Input, Machine, Poll, Rng, Time};
use quickset_h3::{
    ALPN, BodyRead, Config, Connection, ErrorCode, Event, OnQuic, Priority, Request, Response, VerbRefusal,
};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    self as quic, Chunk, ClientConfig, ConnectionKey, Dir, Endpoint, EndpointConfig, Node, ServerConfig,
    Side, StreamId,
};
use quickset_sim::{NodeId, Trace, World, address};

use crate::common::{Setup, pattern};
use crate::journal::{self, Journal, Played, Sum};
use crate::mix::{Change, FEW, SOME, Scene, Script};

const fn scene(name: &'static str, protections: &'static [&'static str], script: fn(&mut Web)) -> Scene {
    let link = "rate=8mbit delay=20ms queue=60kB loss=1%";
    Scene { name, link, protections, setup: |_| {}, script: Script::Http(script) }
}

pub(crate) const SCENES: &[Scene] = &[
    scene("http-requests", SOME, |web| {
        for n in 0..25u32 {
            web.get(500 + 1500 * (n % 7), "");
        }
        web.post(40_000);
        web.post(900);
        web.done(27);
    }),
    scene("http-priorities", SOME, |web| {
        web.get(60_000, r#"u=4, i, exp_p=("page";i;exp_w=2)"#);
        web.get(60_000, r#"u=4, i, exp_w=4, exp_p=("page";i;exp_w=2)"#);
        let late = web.get(60_000, "u=5");
        web.get(20_000, "u=1");
        web.get(20_000, "u=1, exp_b=2");
        web.pass(60);
        web.get(4000, "u=0");
        let sooner = Priority::parse(b"u=2, i").expect("a dictionary");
        web.client().verb(|h3, t| h3.prioritise(t, late, &sooner)).expect("it is under way");
        web.done(6);
    }),
    Scene {
        setup: |s| *s = s.clone().transport(|t| t.max_bidi_streams = 4),
        ..scene("http-few-streams", FEW, |web| {
            for _ in 0..20 {
                while web.try_get(2500, "u=3, i").is_none() {
                    web.pass(5);
                }
            }
            web.done(20);
        })
    },
    scene("http-cancelled", FEW, |web| {
        let mut ids = vec![web.post(80_000)];
        ids.extend((0..5).map(|_| web.get(60_000, "i")));
        web.pass(60);
        for id in &ids[..4] {
            web.client().verb(|h3, t| h3.cancel(t, *id, ErrorCode::H3_REQUEST_CANCELLED));
        }
        web.pass(50);
        web.server().verb(|h3, t| h3.go_away(t, false));
        web.done(2);
    }),
    scene("http-datagrams", FEW, |web| {
        let id = web.post(0);
        for n in 0..20u8 {
            let payload = vec![n; 200 + 30 * usize::from(n)];
            // Those that find no room are lost.
            let _ = web.client().verb(|h3, t| h3.send_datagram(t, id, &payload));
            web.pass(10);
        }
        web.done(1);
    }),
    scene("webtransport", SOME, |web| {
        let session = web.session();
        for n in 0..6usize {
            for dir in [Dir::Bi, Dir::Uni] {
                let mut data = web.content(3000 + 2000 * n);
                web.client().verb(|h3, t| {
                    let id = h3.open_session_stream(t, session, dir).expect("it may be opened");
                    h3.session_write(t, id, &mut data).expect("there is room");
                    h3.session_finish(t, id).expect("it is open");
                });
            }
            let _ = web.client().verb(|h3, t| h3.send_datagram(t, session, &[n.to_le_bytes()[0]; 300]));
            web.pass(30);
        }
        web.pass(1000);
        web.client().verb(|h3, t| h3.close_session(t, session, 7, "done")).expect("it is open");
        web.pass(500);
    }),
];

/// The machines of a scene.
pub(crate) struct Web {
    world: World<Peer>,
    client: NodeId,
    server: NodeId,
    change: Change,
    keep: bool,
}

impl Web {
    /// Both sides speak HTTP/3, and know the other's settings.
    pub(crate) fn new(setup: &Setup, coalesce: Duration, change: Change, keep: bool) -> Self {
        let server = ServerConfig {
            crypto: Arc::new(NullServer::new(&[ALPN]).with_certificate(setup.certificate)),
            ..setup.server_config()
        };
        let config = ClientConfig { crypto: Arc::new(NullClient::new(&[ALPN])), ..setup.client_config() };
        let mut near = Peer::new(2 * setup.seed + 1, Side::Client, None);
        near.node
            .connect(Time::ZERO, &config, AddressPair::to(address(2)), "server")
            .expect("a connection begins");
        let mut world = World::new(setup.seed);
        let client = world.add("client", address(1), near);
        let server =
            world.add("server", address(2), Peer::new(2 * setup.seed + 2, Side::Server, Some(server)));
        world.join(address(1), address(2), setup.link.clone(), setup.link.clone());
        world.trace(if keep { Trace::with_payloads() } else { Trace::full() });
        for node in [client, server] {
            world.coalesce(node, coalesce);
        }
        let mut web = Self { world, client, server, change, keep };
        web.run(|client, server| client.has_settings() && server.has_settings());
        web
    }

    fn client(&mut self) -> &mut Peer {
        self.world.node_mut(self.client)
    }

    fn server(&mut self) -> &mut Peer {
        self.world.node_mut(self.server)
    }

    fn run(&mut self, goal: impl Fn(&Peer, &Peer) -> bool) {
        let (client, server, limit) = (self.client, self.server, self.world.now() + Duration::from_secs(60));
        self.world
            .run_until(limit, |world| goal(world.node(client), world.node(server)))
            .expect("all machines sleep now and then");
    }

    fn pass(&mut self, ms: u64) {
        let limit = self.world.now() + Duration::from_millis(ms);
        self.world.run(limit).expect("all machines sleep now and then");
    }

    /// Until so many answers are there to their end.
    fn done(&mut self, answers: usize) {
        self.run(|client, _| client.ended >= answers || client.is_closed);
    }

    fn content(&self, len: usize) -> Bytes {
        let mut bytes = pattern(len);
        if let (Change::Byte, Some(byte)) = (self.change, bytes.get_mut(len / 2)) {
            *byte ^= 1;
        }
        bytes.into()
    }

    /// Asks for so many bytes.
    fn get(&mut self, len: u32, priority: &str) -> StreamId {
        self.try_get(len, priority).expect("a request may be made")
    }

    /// The same where the server may take no more requests now.
    fn try_get(&mut self, len: u32, priority: &str) -> Option<StreamId> {
        let mut request = Request::new("GET", "example.com", format!("/{len}"));
        if !priority.is_empty() {
            request = request.with("priority", priority.to_owned());
        }
        self.client().verb(|h3, t| h3.request(t, &request, true)).ok()
    }

    /// Sends so many bytes, which come back.
    fn post(&mut self, len: usize) -> StreamId {
        let request = Request::new("POST", "example.com", "/echo").with("cookie", "a=b");
        let data = self.content(len);
        let peer = self.client();
        let id = peer.verb(|h3, t| h3.request(t, &request, false)).expect("a request may be made");
        peer.out.insert(id, data);
        peer.send(id);
        id
    }

    /// A session of WebTransport that the server has accepted.
    fn session(&mut self) -> StreamId {
        let request = Request::extended("webtransport", "example.com", "/session");
        let id = self.client().verb(|h3, t| h3.request(t, &request, false)).expect("a request may be made");
        self.run(|client, _| client.answered > 0);
        id
    }

    /// Lets what is under way arrive, and ends.
    pub(crate) fn finish(mut self) -> Played {
        self.pass(200);
        let mut journal = Journal::new(self.keep);
        let now = self.world.now();
        for node in [self.client, self.server] {
            let name = self.world.name(node).to_owned();
            let peer = self.world.node_mut(node);
            for (time, line) in std::mem::take(&mut peer.seen) {
                journal.note(time, format_args!("{name}: {line}"));
            }
            if let Some(connection) = peer.h3.as_ref().and_then(|(key, _)| peer.node.connection(*key)) {
                journal.note(now, format_args!("{name}: {}", journal::stats(&connection.stats())));
            }
        }
        let trace = self.world.take_trace().expect("it was begun");
        Played::new(&trace, journal)
    }
}

/// A node that speaks HTTP/3. A server answers with as many bytes as the path says, or with what it is sent.
struct Peer {
    node: Node,
    h3: Option<(ConnectionKey, Connection)>,
    side: Side,
    now: Time,
    seen: Vec<(Time, String)>,
    /// Content on its way out, and content to be sent back.
    out: BTreeMap<StreamId, Bytes>,
    back: BTreeMap<StreamId, Vec<u8>>,
    /// Streams of sessions, and whether they can be written to.
    inside: BTreeMap<StreamId, Dir>,
    answered: usize,
    ended: usize,
    is_closed: bool,
}

impl Peer {
    fn new(seed: u64, side: Side, server: Option<ServerConfig>) -> Self {
        let crypto = Arc::new(NullSecrets(seed));
        let config = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 10 };
        Self {
            node: Node::new(Endpoint::new(config, server, Rng::new(seed))),
            h3: None,
            side,
            now: Time::ZERO,
            seen: Vec::new(),
            out: BTreeMap::new(),
            back: BTreeMap::new(),
            inside: BTreeMap::new(),
            answered: 0,
            ended: 0,
            is_closed: false,
        }
    }

    fn has_settings(&self) -> bool {
        self.h3.as_ref().is_some_and(|(_, h3)| h3.peer_settings().is_some())
    }

    fn verb<T>(&mut self, verb: impl FnOnce(&mut Connection, &mut OnQuic<'_>) -> T) -> T {
        let (key, h3) = self.h3.as_mut().expect("it is connected");
        let connection = self.node.connection(*key).expect("it is there");
        verb(h3, &mut OnQuic { connection, now: self.now })
    }

    fn see(&mut self, line: String) {
        self.seen.push((self.now, line));
    }

    fn on_event(&mut self, key: ConnectionKey, event: &quic::Event) {
        self.see(journal::event(event));
        match event {
            quic::Event::Connected => {
                let connection = self.node.connection(key).expect("it has just connected");
                let mut t = OnQuic { connection, now: self.now };
                let config = Config { datagrams: true, webtransport: 2, ..Config::default() };
                self.h3 = Some((key, Connection::new(self.side, config, &mut t)));
            }
            quic::Event::Stream(event) => self.verb(|h3, t| h3.handle(t, *event)),
            quic::Event::Datagram(_) => {
                while let Some(data) = self.node.connection(key).and_then(|conn| conn.datagrams().recv()) {
                    self.verb(|h3, t| h3.handle_datagram(t, data));
                }
            }
            quic::Event::Closed(_) => self.is_closed = true,
            _ => {}
        }
        while let Some(event) = self.h3.as_mut().and_then(|(_, h3)| h3.poll_event()) {
            self.on_h3(event);
        }
    }

    fn on_h3(&mut self, event: Event) {
        match event {
            Event::Request { id, request, .. } => self.answer(id, &request),
            Event::Response { id, response } => {
                self.see(format!("request {id}: answer {}", response.status));
                self.answered += 1;
                self.read(id);
            }
            Event::Readable(id) => self.read(id),
            Event::Writable(id) => self.send(id),
            Event::Stopped { id, code } => self.see(format!("request {id}: stopped with {code:#x}")),
            Event::Aborted { id, .. } => self.see(format!("request {id}: aborted")),
            Event::Priority { id, .. } => self.see(format!("request {id}: another priority")),
            Event::GoAway => self.see("no more requests".to_owned()),
            Event::Datagram { id, payload } => {
                self.see(format!(
                    "request {id}: datagram of {} bytes {:x}",
                    payload.len(),
                    Sum::of(&payload)
                ));
                if self.side.is_server() {
                    // Those that find no room are lost.
                    let _ = self.verb(|h3, t| h3.send_datagram(t, id, &payload));
                }
            }
            Event::SessionStream { session, id, dir } => {
                self.see(format!("session {session}: peer opened {id}, {}", journal::kind(dir)));
                self.inside.insert(id, dir);
                self.read(id);
            }
            Event::SessionClosed { session, code, .. } => {
                self.see(format!("session {session}: closed with {code}"));
            }
            Event::Closed(error) => self.see(format!("HTTP/3 failed with {:#x}", error.code.0)),
            Event::Settings(_)
            | Event::Interim { .. }
            | Event::Available(_)
            | Event::Silent(_)
            | Event::SessionDraining(_) => {}
        }
    }

    fn answer(&mut self, id: StreamId, request: &Request) {
        let path = String::from_utf8_lossy(request.path.as_deref().unwrap_or(b"/")).into_owned();
        self.see(format!("request {id}: {path}"));
        let response = Response::new(200).with("server", "traces");
        if self.verb(|h3, t| h3.respond(t, id, &response, false)).is_err() {
            // It was given up.
            return;
        }
        match path[1..].parse() {
            Ok(len) => {
                self.out.insert(id, pattern(len).into());
                self.send(id);
                // To its end, or the client has one stream less.
                self.read(id);
            }
            Err(_) if path == "/echo" => {
                self.back.insert(id, Vec::new());
                self.read(id);
            }
            // A session.
            Err(_) => {}
        }
    }

    fn send(&mut self, id: StreamId) {
        let Some(mut data) = self.out.remove(&id) else { return };
        while !data.is_empty() {
            match self.verb(|h3, t| h3.send(t, id, &mut data)) {
                Ok(_) => {}
                Err(VerbRefusal::Blocked) => {
                    self.out.insert(id, data);
                    return;
                }
                // It was given up.
                Err(_) => return,
            }
        }
        let _ = self.verb(|h3, t| h3.finish(t, id));
    }

    fn read(&mut self, id: StreamId) {
        if self.inside.contains_key(&id) || self.h3.as_ref().is_some_and(|(_, h3)| h3.is_session(id)) {
            return self.read_inside(id);
        }
        let mut bytes = Vec::new();
        let is_over = loop {
            match self.verb(|h3, t| h3.read(t, id, 16 << 10)) {
                Ok(BodyRead::Data(data)) => bytes.extend_from_slice(&data),
                Ok(BodyRead::Finished) => break true,
                _ => break false,
            }
        };
        self.see(format!(
            "request {id}: {} bytes {:x}{}",
            bytes.len(),
            Sum::of(&bytes),
            if is_over { ", the end" } else { "" }
        ));
        if let Some(back) = self.back.get_mut(&id) {
            back.extend_from_slice(&bytes);
        }
        if is_over {
            self.ended += 1;
            if let Some(back) = self.back.remove(&id) {
                self.out.insert(id, back.into());
                self.send(id);
            }
        }
    }

    /// Of a stream of a session. A server sends back what comes on bidirectional ones.
    fn read_inside(&mut self, id: StreamId) {
        let echoes = self.side.is_server() && self.inside.get(&id) == Some(&Dir::Bi);
        loop {
            match self.verb(|h3, t| h3.session_read(t, id, 16 << 10)) {
                Ok(Chunk::Data(mut data)) => {
                    self.see(format!("stream {id}: {} bytes {:x}", data.len(), Sum::of(&data)));
                    if echoes {
                        let _ = self.verb(|h3, t| h3.session_write(t, id, &mut data));
                    }
                }
                Ok(Chunk::Finished) => {
                    self.see(format!("stream {id}: the end"));
                    if echoes {
                        let _ = self.verb(|h3, t| h3.session_finish(t, id));
                    }
                    return;
                }
                Ok(Chunk::Blocked) | Err(_) => return,
            }
        }
    }
}

impl Machine for Peer {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        self.now = now;
        self.node.handle(now, input);
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        self.now = now;
        loop {
            let poll = self.node.poll(now, out);
            if poll != Poll::Event {
                return poll;
            }
            while let Some((key, event)) = self.node.poll_event() {
                self.on_event(key, &event);
            }
        }
    }
}
