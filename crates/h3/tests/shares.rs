//! How responses share a connection, by what their priorities say: in virtual time, on a link that is their
//! only limit.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use quickset_base::{AddressPair, Batch, Duration, Input, Machine, Poll, Rng, Time};
use quickset_h3::{
    BodyRead, Config, Connection, ErrorCode, Event, OnQuic, Priority, Request, Response, VerbRefusal,
};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    self as quic, Algorithm, ClientConfig, ConnectionKey, Endpoint, EndpointConfig, Node, RetryPolicy,
    ServerConfig, Side, StreamId, TransportConfig,
};
use quickset_sim::{LinkSpec, NodeId, RunEnded, World, address};

/// A node that speaks HTTP/3. A server answers each request with the bytes that its path says, a client notes
/// when bytes come.
struct Peer {
    node: Node,
    h3: Option<(ConnectionKey, Connection)>,
    side: Side,
    now: Time,
    left: BTreeMap<StreamId, usize>,
    got: Vec<(Time, StreamId, usize)>,
    ended: Vec<StreamId>,
}

impl Peer {
    fn new(seed: u64, side: Side, server: Option<ServerConfig>) -> Self {
        let config = EndpointConfig {
            crypto: Arc::new(NullSecrets(seed)),
            connection_id_len: 8,
            resets_per_second: 10,
        };
        Self {
            node: Node::new(Endpoint::new(config, server, Rng::new(seed))),
            h3: None,
            side,
            now: Time::ZERO,
            left: BTreeMap::new(),
            got: Vec::new(),
            ended: Vec::new(),
        }
    }

    fn verb<T>(&mut self, verb: impl FnOnce(&mut Connection, &mut OnQuic<'_>) -> T) -> T {
        let (key, h3) = self.h3.as_mut().expect("it is connected");
        let connection = self.node.connection(*key).expect("it is there");
        verb(h3, &mut OnQuic { connection, now: self.now })
    }

    fn on_event(&mut self, key: ConnectionKey, event: &quic::Event) {
        match event {
            quic::Event::Connected => {
                let connection = self.node.connection(key).expect("it has just connected");
                let mut t = OnQuic { connection, now: self.now };
                self.h3 = Some((key, Connection::new(self.side, Config::default(), &mut t)));
            }
            quic::Event::Stream(event) => self.verb(|h3, t| h3.handle(t, *event)),
            _ => {}
        }
        while let Some(event) = self.h3.as_mut().and_then(|(_, h3)| h3.poll_event()) {
            match event {
                Event::Request { id, request, .. } => {
                    let path = request.path.expect("it has one");
                    let len = std::str::from_utf8(&path[1..]).expect("ASCII").parse().expect("a number");
                    self.left.insert(id, len);
                    self.verb(|h3, t| h3.respond(t, id, &Response::new(200), false)).expect("it may answer");
                    self.send(id);
                }
                Event::Writable(id) => self.send(id),
                Event::Response { id, .. } | Event::Readable(id) => self.read(id),
                Event::Closed(error) => panic!("{error}"),
                _ => {}
            }
        }
    }

    fn send(&mut self, id: StreamId) {
        while let Some(left @ 1..) = self.left.get(&id).copied() {
            let mut data = Bytes::from(vec![7; left.min(16 << 10)]);
            match self.verb(|h3, t| h3.send(t, id, &mut data)) {
                Ok(sent) => *self.left.get_mut(&id).expect("as before") -= sent,
                Err(VerbRefusal::Blocked) => return,
                // It was given up.
                Err(_) => break,
            }
        }
        if self.left.remove(&id) == Some(0) {
            self.verb(|h3, t| h3.finish(t, id)).expect("it was not finished");
        }
    }

    fn read(&mut self, id: StreamId) {
        loop {
            match self.verb(|h3, t| h3.read(t, id, usize::MAX)) {
                Ok(BodyRead::Data(data)) => self.got.push((self.now, id, data.len())),
                Ok(BodyRead::Finished) => return self.ended.push(id),
                _ => return,
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

/// A client and a server, connected.
struct Pair {
    world: World<Peer>,
    client: NodeId,
    server: NodeId,
}

impl Pair {
    /// 5 Mbit/s, 40 ms, and a sender that keeps its queue short. What a stream may have under way is no limit
    /// to it.
    fn new(change: impl Fn(&mut TransportConfig)) -> Self {
        let mut transport = TransportConfig::fixed_mtu(1200)
            .with_congestion(Algorithm::Bbr)
            .with_send_buffer(1 << 20)
            .with_fec(None);
        change(&mut transport);
        let transport = Arc::new(transport);
        let server = ServerConfig {
            crypto: Arc::new(NullServer::new(&[quickset_h3::ALPN])),
            transport: transport.clone(),
            max_connections: 1,
            retry: RetryPolicy::Never,
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(10),
        };
        let mut client = Peer::new(1, Side::Client, None);
        let config = ClientConfig { crypto: Arc::new(NullClient::new(&[quickset_h3::ALPN])), transport };
        client
            .node
            .connect(Time::ZERO, &config, AddressPair::to(address(2)), "server")
            .expect("a connection begins");
        let mut world = World::new(1);
        let client = world.add("client", address(1), client);
        let server = world.add("server", address(2), Peer::new(2, Side::Server, Some(server)));
        let link: LinkSpec = "rate=5mbit delay=20ms queue=10MB".parse().expect("a link");
        world.join(address(1), address(2), link.clone(), link);
        let limit = world.now() + Duration::from_secs(10);
        let connected =
            world.run_until(limit, |w| w.node(client).h3.is_some() && w.node(server).h3.is_some());
        assert_eq!(connected, Ok(RunEnded::Goal));
        Self { world, client, server }
    }

    fn ask_for(&mut self, bytes: usize, priority: &str) -> StreamId {
        let request = Request::new("GET", "example.com", format!("/{bytes}"));
        let request =
            if priority.is_empty() { request } else { request.with("priority", priority.to_owned()) };
        self.world.node_mut(self.client).verb(|h3, t| h3.request(t, &request, true)).expect("there is room")
    }

    /// Asks for more than there is time for.
    fn ask(&mut self, priority: &str) -> StreamId {
        self.ask_for(100_000_000, priority)
    }

    fn update(&mut self, id: StreamId, priority: &str) {
        let priority = Priority::parse(priority.as_bytes()).expect("a dictionary");
        self.world.node_mut(self.client).verb(|h3, t| h3.prioritise(t, id, &priority)).expect("it is there");
    }

    fn pass(&mut self, ms: u64) {
        self.world.run(self.world.now() + Duration::from_millis(ms)).expect("it runs");
    }

    /// The shares of some streams of what came in the next time.
    fn shares<const N: usize>(&mut self, ms: u64, ids: [&[StreamId]; N]) -> [f64; N] {
        let client = self.client;
        self.world.node_mut(client).got.clear();
        self.pass(ms);
        let got = &self.world.node(client).got;
        let of =
            |ids: &[StreamId]| got.iter().filter(|g| ids.contains(&g.1)).map(|g| g.2).sum::<usize>() as f64;
        let all = got.iter().map(|g| g.2).sum::<usize>() as f64;
        assert!(all > 0.8 * 5e3 / 8.0 * ms as f64, "the link is full: {all} bytes in {ms} ms");
        ids.map(|ids| of(ids) / all)
    }

    fn rtt(&mut self) -> Duration {
        self.world.node_mut(self.server).verb(|_, t| t.connection.stats().rtt)
    }
}

#[track_caller]
fn near<const N: usize>(shares: [f64; N], expected: [f64; N], within: f64) {
    for (share, expected) in shares.iter().zip(expected) {
        assert!((share - expected).abs() <= within, "{shares:.3?}, not {expected:.3?}");
    }
}

/// Table I of TUM 2025: what is of the page has its share however many requests there are of either kind.
// HP-3, HP-4
#[test]
fn html_and_web_have_their_shares_in_each_moment() {
    let mut pair = Pair::new(|_| {});
    let html = [pair.ask(r#"i, exp_p=("html";i)"#)];
    let web: Vec<StreamId> =
        (0..3).map(|n| pair.ask(&format!(r#"i, exp_w={}, exp_p=("web";i;exp_w=4)"#, n + 1))).collect();
    pair.pass(2000);
    for _ in 0..25 {
        near(pair.shares(200, [&html, &web]), [0.2, 0.8], 0.03);
    }
    near(pair.shares(2000, [&web[..1], &web[1..2], &web[2..]]), [0.8 / 6.0, 1.6 / 6.0, 2.4 / 6.0], 0.01);
}

// HP-2
#[test]
fn an_update_changes_the_shares_within_a_round_trip_and_a_round() {
    let mut pair = Pair::new(|_| {});
    let (one, other) = (pair.ask("i, exp_w=4"), pair.ask("i"));
    pair.pass(2000);
    near(pair.shares(400, [&[one], &[other]]), [0.8, 0.2], 0.03);
    let rtt = pair.rtt();
    // A round of both is at most a frame for the least of them, and four to the other.
    let round = Duration::from_secs_f64(5.0 * 1200.0 * 8.0 / 5e6);
    let slack = Duration::from_millis(5);
    assert!(rtt < Duration::from_millis(80), "the queue is short: {rtt:?}");
    for (value, expected) in [
        ("i, exp_w=0.25", [0.2, 0.8]),
        (r#"i, exp_p=("new";i;exp_w=3)"#, [0.75, 0.25]),
        ("u=4, i", [0.0, 1.0]),
        ("u=2, i", [1.0, 0.0]),
        ("i", [0.5, 0.5]),
    ] {
        pair.update(one, value);
        let before = pair.rtt();
        pair.pass((before + round + slack).as_millis() as u64 + 1);
        // The queue may have grown meanwhile, where the sender looks for more bandwidth.
        let grown = pair.rtt().saturating_sub(before);
        pair.pass(grown.as_millis() as u64);
        near(pair.shares(200, [&[one], &[other]]), expected, 0.03);
    }
}

// HP-2, HP-4, HP-5, HP-7
#[test]
fn what_is_malformed_or_unknown_changes_nothing() {
    let mut pair = Pair::new(|_| {});
    let (one, other) =
        (pair.ask(r#"i, exp_w=3, exp_p=("a";i;exp_w=1)"#), pair.ask(r#"i, exp_p=("b";i;exp_w=4)"#));
    pair.pass(2000);
    let deep = format!("u=3, i, exp_w=1000000, exp_p=({})", vec!["\"d\""; 60].join(" "));
    for value in [
        r#"i, exp_w=3, exp_p=("a";i;exp_w=1)"#,
        r#"i, exp_w=0, exp_z=3, exp_p=("a";i;exp_w=-1;foo=bar)"#,
        r#"i, exp_w=-4, exp_b=x, exp_p=("a";u=8;i;exp_w=0), exp_d=(1 2)"#,
        r#"i, exp_w="9", x, exp_p=("a";u="1";i;exp_w=nan;exp_b=3)"#,
    ] {
        pair.update(one, value);
        // Not even for a while.
        for _ in 0..3 {
            near(pair.shares(200, [&[one], &[other]]), [0.2, 0.8], 0.03);
        }
    }
    // One that is too deep hangs below the connection, where it is one of two, a hundred times as heavy at
    // most.
    pair.update(one, &deep);
    pair.pass(300);
    near(pair.shares(1000, [&[one], &[other]]), [100.0 / 104.0, 4.0 / 104.0], 0.03);
}

// HP-6
#[test]
fn the_same_name_under_two_parents_is_two_classes() {
    let mut pair = Pair::new(|_| {});
    let ids = [r#"("x";i "a";i)"#, r#"("x";i "b";i;exp_w=3)"#, r#"("y";i "b";i;exp_w=3)"#]
        .map(|parents| pair.ask(&format!("i, exp_p={parents}")));
    pair.pass(2000);
    near(pair.shares(1000, ids.each_ref().map(std::slice::from_ref)), [0.25, 0.375, 0.375], 0.02);
    // Whoever speaks last is right: of the one, not of the other.
    pair.update(ids[1], r#"i, exp_p=("x";i;exp_w=0.5 "b";i;exp_w=1)"#);
    pair.pass(300);
    near(pair.shares(1000, ids.each_ref().map(std::slice::from_ref)), [0.5, 0.5 / 3.0, 1.0 / 3.0], 0.02);
}

#[test]
fn what_ends_leaves_its_share_to_its_siblings() {
    let mut pair = Pair::new(|_| {});
    let stays = pair.ask(r#"i, exp_p=("one";i)"#);
    let short = pair.ask_for(150_000, r#"i, exp_p=("one";i)"#);
    let given_up = pair.ask(r#"i, exp_p=("two";i)"#);
    let third = pair.ask("i, exp_w=1");
    pair.pass(700);
    near(pair.shares(200, [&[stays, short], &[given_up], &[third]]), [1.0 / 3.0; 3], 0.05);
    pair.pass(3000);
    assert_eq!(pair.world.node(pair.client).ended, [short]);
    near(pair.shares(600, [&[stays], &[given_up], &[third]]), [1.0 / 3.0; 3], 0.03);
    let client = pair.client;
    pair.world.node_mut(client).verb(|h3, t| h3.cancel(t, given_up, ErrorCode::H3_REQUEST_CANCELLED));
    pair.pass(200);
    near(pair.shares(600, [&[stays], &[given_up], &[third]]), [0.5, 0.0, 0.5], 0.03);
    // Mid-round, again and again.
    for n in 0..40 {
        let passing = pair.ask(&format!(r#"i, exp_w=7, exp_p=("passing";i "p{n}";i)"#));
        pair.pass(57);
        pair.world.node_mut(client).verb(|h3, t| h3.cancel(t, passing, ErrorCode::H3_REQUEST_CANCELLED));
    }
    pair.pass(200);
    near(pair.shares(600, [&[stays], &[third]]), [0.5, 0.5], 0.03);
}

// HP-9
#[test]
fn without_room_for_classes_requests_are_below_the_connection() {
    let mut pair = Pair::new(|transport| transport.max_classes = 2);
    let ids = [r#"("a";i;exp_w=2)"#, r#"("b";i)"#, r#"("c";i;exp_w=9)"#]
        .map(|parents| pair.ask(&format!("i, exp_p={parents}")));
    pair.pass(2000);
    near(pair.shares(1000, ids.each_ref().map(std::slice::from_ref)), [0.5, 0.25, 0.25], 0.03);
    // What moves makes the room that it needs.
    pair.update(ids[0], r#"i, exp_p=("d";i;exp_w=6)"#);
    pair.pass(300);
    near(pair.shares(1000, ids.each_ref().map(std::slice::from_ref)), [0.75, 0.125, 0.125], 0.03);
}
