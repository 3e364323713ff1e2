//! HTTP/3 on connections of quickset-quic, in virtual time over a link that loses packets.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use quickset_base::number::index;
use quickset_base::{AddressPair, Batch, Duration, Input, Machine, Poll, Rng, Time};
use quickset_h3::{
    BodyRead, Config, Connection, ErrorCode, Event, OnQuic, Request, Response, Transport as _, VerbRefusal,
};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    self as quic, ClientConfig, Closed, ConnectionKey, Endpoint, EndpointConfig, Node, RetryPolicy,
    ServerConfig, Side, StreamId, TransportConfig,
};
use quickset_sim::{NodeId, RunEnded, World, address};

/// A node whose connection speaks HTTP/3. The client sends each request with content, the server sends it
/// back.
struct Peer {
    node: Node,
    h3: Option<(ConnectionKey, Connection)>,
    side: Side,
    now: Time,
    /// Requests that are yet to be made.
    todo: Vec<Vec<u8>>,
    /// Content on its way out.
    out: BTreeMap<StreamId, Bytes>,
    /// Content that came, and whether all of it.
    got: BTreeMap<StreamId, (Vec<u8>, bool)>,
    asked: BTreeMap<StreamId, Vec<u8>>,
    /// Datagrams that came; a server sends them back.
    datagrams: Vec<Bytes>,
    closed: Option<Closed>,
    /// What the other end did wrong.
    broken: Option<quickset_h3::Error>,
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
            todo: Vec::new(),
            out: BTreeMap::new(),
            got: BTreeMap::new(),
            asked: BTreeMap::new(),
            datagrams: Vec::new(),
            closed: None,
            broken: None,
        }
    }

    /// A verb of HTTP/3 on the connection; `None` when there is none.
    fn verb<T>(&mut self, verb: impl FnOnce(&mut Connection, &mut OnQuic<'_>) -> T) -> Option<T> {
        let (key, h3) = self.h3.as_mut()?;
        let mut t = OnQuic { connection: self.node.connection(*key)?, now: self.now };
        Some(verb(h3, &mut t))
    }

    fn on_event(&mut self, key: ConnectionKey, event: quic::Event) {
        match event {
            quic::Event::Connected => {
                let connection = self.node.connection(key).expect("it has just connected");
                let mut t = OnQuic { connection, now: self.now };
                let config = Config { datagrams: true, ..Config::default() };
                self.h3 = Some((key, Connection::new(self.side, config, &mut t)));
            }
            quic::Event::Stream(event) => drop(self.verb(|h3, t| h3.handle(t, event))),
            quic::Event::Datagram(_) => {
                while let Some(data) = self.node.connection(key).and_then(|conn| conn.datagrams().recv()) {
                    self.verb(|h3, t| h3.handle_datagram(t, data));
                }
            }
            quic::Event::Closed(why) => self.closed = Some(why),
            _ => {}
        }
        self.ask();
        while let Some(event) = self.h3.as_mut().and_then(|(_, h3)| h3.poll_event()) {
            self.on_h3(event);
        }
    }

    fn on_h3(&mut self, event: Event) {
        match event {
            Event::Request { id, request, .. } => {
                let response = Response::new(200).with("x-path", request.path.expect("it has one"));
                self.verb(|h3, t| h3.respond(t, id, &response, false));
                self.read(id);
            }
            Event::Response { id, response } => {
                assert_eq!(response.field("x-path").map(|p| &p[..]), Some(&b"/echo"[..]));
                self.read(id);
            }
            Event::Readable(id) => self.read(id),
            Event::Writable(id) => self.send(id),
            Event::Closed(error) => self.broken = Some(error),
            Event::Available(_) => self.ask(),
            Event::Datagram { id, payload } => {
                if self.side.is_server() {
                    self.verb(|h3, t| h3.send_datagram(t, id, &payload).expect("it fits"));
                }
                self.datagrams.push(payload);
            }
            _ => {}
        }
    }

    fn ask(&mut self) {
        while let Some(content) = self.todo.last().cloned() {
            let request = Request::new("POST", "example.com", "/echo").with("priority", "u=2");
            match self.verb(|h3, t| h3.request(t, &request, false)) {
                Some(Ok(id)) => {
                    self.todo.pop();
                    self.asked.insert(id, content.clone());
                    self.out.insert(id, content.into());
                    self.send(id);
                }
                None | Some(Err(VerbRefusal::Blocked)) => return,
                Some(Err(other)) => panic!("{other}"),
            }
        }
    }

    fn send(&mut self, id: StreamId) {
        let Some(mut data) = self.out.remove(&id) else { return };
        while !data.is_empty() {
            match self.verb(|h3, t| h3.send(t, id, &mut data)) {
                Some(Ok(_)) => {}
                Some(Err(VerbRefusal::Blocked)) => {
                    self.out.insert(id, data);
                    return;
                }
                other => panic!("{other:?}"),
            }
        }
        self.verb(|h3, t| h3.finish(t, id)).expect("it is there").expect("not finished before");
    }

    fn read(&mut self, id: StreamId) {
        loop {
            match self.verb(|h3, t| h3.read(t, id, 4096)) {
                Some(Ok(BodyRead::Data(data))) => self.got.entry(id).or_default().0.extend_from_slice(&data),
                Some(Ok(BodyRead::Finished)) => break,
                Some(Ok(BodyRead::Blocked)) => return,
                other => panic!("{other:?}"),
            }
        }
        let (content, over) = self.got.entry(id).or_default();
        *over = true;
        if self.side.is_server() {
            self.out.insert(id, content.clone().into());
            self.send(id);
        }
    }

    fn is_done(&self) -> bool {
        self.todo.is_empty() && self.asked.keys().all(|id| self.got.get(id).is_some_and(|(_, over)| *over))
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
                self.on_event(key, event);
            }
        }
    }
}

fn pair(seed: u64, link: &str, transport: TransportConfig) -> (World<Peer>, NodeId, NodeId) {
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
    let mut client = Peer::new(2 * seed + 1, Side::Client, None);
    let config = ClientConfig { crypto: Arc::new(NullClient::new(&[quickset_h3::ALPN])), transport };
    client
        .node
        .connect(Time::ZERO, &config, AddressPair::to(address(2)), "server")
        .expect("a connection begins");
    let mut world = World::new(seed);
    let client = world.add("client", address(1), client);
    let server = world.add("server", address(2), Peer::new(2 * seed + 2, Side::Server, Some(server)));
    let link: quickset_sim::LinkSpec = link.parse().expect("a link");
    world.join(address(1), address(2), link.clone(), link);
    (world, client, server)
}

/// Requests beyond the limit of streams, content beyond the buffers, and loss: all is echoed.
#[test]
fn requests_are_answered_over_a_link_that_loses_packets() {
    let transport = TransportConfig::fixed_mtu(1200)
        .with_max_bidi_streams(10)
        .with_stream_window(8 << 10)
        .with_send_buffer(4 << 10)
        .with_fenced_streams(None)
        .with_fec(None);
    for seed in 0..3 {
        let (mut world, client, server) = pair(seed, "rate=20mbit delay=20ms loss=3%", transport.clone());
        let mut rng = Rng::new(seed);
        let contents: Vec<Vec<u8>> = (0..40)
            .map(|_| {
                let mut content = vec![0; index(rng.below(30_000))];
                rng.fill(&mut content);
                content
            })
            .collect();
        world.node_mut(client).todo = contents;
        let limit = world.now() + Duration::from_secs(600);
        let ended = world.run_until(limit, |w| w.node(client).is_done() && !w.node(client).asked.is_empty());
        assert_eq!(ended, Ok(RunEnded::Goal), "seed {seed}: {:?}", world.node(client).closed);
        let peer = world.node(client);
        assert_eq!(peer.asked.len(), 40);
        for (id, content) in &peer.asked {
            assert_eq!(&peer.got[id].0, content, "seed {seed}, {id:?}");
        }
        for peer in [client, server] {
            assert_eq!(world.node(peer).broken, None);
            let (_, h3) = world.node(peer).h3.as_ref().expect("it speaks HTTP/3");
            assert!(h3.is_idle(), "seed {seed}: nothing is kept");
        }
    }
}

/// What the decoders of field sections say goes along: else it would have packets of its own, and an
/// acknowledgement each.
#[test]
fn a_small_exchange_takes_one_packet_each_way() {
    let transport = TransportConfig::fixed_mtu(1200).with_fec(None);
    let (mut world, client, server) = pair(11, "rate=20mbit delay=1ms", transport);
    let limit = world.now() + Duration::from_secs(60);
    let exchange = |world: &mut World<Peer>| {
        let peer = world.node_mut(client);
        peer.todo.push(b"small".to_vec());
        let asked = peer.asked.len() + 1;
        peer.ask();
        let is_answered =
            |w: &mut World<Peer>| w.node(client).asked.len() == asked && w.node(client).is_done();
        assert_eq!(world.run_until(limit, is_answered), Ok(RunEnded::Goal));
    };
    let sent = |world: &mut World<Peer>| {
        [client, server].map(|peer| {
            let peer = world.node_mut(peer);
            peer.verb(|_, t| t.connection.stats().sent_packets).expect("it speaks HTTP/3")
        })
    };
    // What is said once, and lines that go into the tables.
    (0..5).for_each(|_| exchange(&mut world));
    let before = sent(&mut world);
    (0..20).for_each(|_| exchange(&mut world));
    let after = sent(&mut world);
    assert_eq!([after[0] - before[0], after[1] - before[1]], [20, 20]);
}

/// RFC 9297 §2.1: datagrams of a request travel in those of QUIC.
#[test]
fn datagrams_of_a_request_go_there_and_back() {
    let (mut world, client, server) = pair(3, "rate=20mbit delay=20ms", TransportConfig::fixed_mtu(1200));
    let limit = world.now() + Duration::from_secs(60);
    let ended = world.run_until(limit, |w| w.node(client).h3.is_some() && w.node(server).h3.is_some());
    assert_eq!(ended, Ok(RunEnded::Goal));
    let request = Request::new("POST", "example.com", "/echo");
    let id = world.node_mut(client).verb(|h3, t| h3.request(t, &request, false)).expect("connected").unwrap();
    // The settings of the server come meanwhile.
    world.run(world.now() + Duration::from_millis(200)).expect("it runs");
    for n in 0..10 {
        world.node_mut(client).verb(|h3, t| h3.send_datagram(t, id, &[n; 100])).expect("connected").unwrap();
    }
    let ended = world.run_until(limit, |w| w.node(client).datagrams.len() == 10);
    assert_eq!(ended, Ok(RunEnded::Goal), "{:?}", world.node(server).datagrams);
    for peer in [client, server] {
        let payloads: Vec<_> = (0..10).map(|n| Bytes::from(vec![n; 100])).collect();
        assert_eq!(world.node(peer).datagrams, payloads);
        assert_eq!(world.node(peer).broken, None);
    }
}

/// RFC 9114 §8: the code reaches the peer.
/// RFC 9114 §5.3, §8.1.
#[test]
fn an_error_closes_the_connection_with_its_code() {
    let (mut world, client, server) = pair(7, "rate=20mbit delay=20ms", TransportConfig::fixed_mtu(1200));
    let limit = world.now() + Duration::from_secs(60);
    let ended = world.run_until(limit, |w| w.node(client).h3.is_some() && w.node(server).h3.is_some());
    assert_eq!(ended, Ok(RunEnded::Goal));
    let peer = world.node_mut(client);
    peer.verb(|_, t| {
        let id = t.open(quic::Dir::Bi).expect("allowed");
        t.write(id, &mut Bytes::from_static(&[0x02, 0x00])).expect("there is room");
    });
    let ended = world.run_until(limit, |w| w.node(client).closed.is_some());
    assert_eq!(ended, Ok(RunEnded::Goal));
    assert_eq!(world.node(server).broken.map(|e| e.code), Some(ErrorCode::H3_FRAME_UNEXPECTED));
    match &world.node(client).closed {
        Some(Closed::ByApplication { code, .. }) => assert_eq!(*code, ErrorCode::H3_FRAME_UNEXPECTED.0),
        other => panic!("{other:?}"),
    }
}

/// The trace of the connection tells of HTTP/3 in order, on one clock, and of no secrets.
#[cfg(feature = "qlog")]
#[test]
fn a_trace_tells_of_requests_and_keeps_secrets() {
    use quickset_h3::{Field, Priority};
    use serde_json::{Value, json};

    let memory = quic::qlog::Memory::new();
    let transport = TransportConfig::fixed_mtu(1200).with_qlog(Some(Arc::new(memory.clone())));
    let (mut world, client, server) = pair(5, "rate=20mbit delay=20ms", transport);
    let limit = world.now() + Duration::from_secs(60);
    let ended = world.run_until(limit, |w| w.node(client).h3.is_some() && w.node(server).h3.is_some());
    assert_eq!(ended, Ok(RunEnded::Goal));
    let mut request =
        Request::new("POST", "example.com", "/echo").with("authorization", "Basic b3BlbnNlc2FtZQ");
    request.fields.push(Field::new("cookie", format!("id={}", "hidden-".repeat(10))));
    request.fields.push(Field { sensitive: true, ..Field::new("x-token", "hidden too") });
    request.fields.push(Field::new("x-plain", "plain"));
    let peer = world.node_mut(client);
    let id = peer.verb(|h3, t| h3.request(t, &request, false)).expect("connected").unwrap();
    peer.asked.insert(id, Vec::new());
    let urgent = Priority { urgency: 1, ..Priority::default() };
    peer.verb(|h3, t| h3.prioritise(t, id, &urgent)).expect("connected").unwrap();
    world.run(world.now() + Duration::from_millis(100)).expect("it runs");
    let peer = world.node_mut(client);
    peer.out.insert(id, Bytes::from_static(b"twelve bytes"));
    peer.send(id);
    let ended = world.run_until(limit, |w| w.node(client).is_done());
    assert_eq!(ended, Ok(RunEnded::Goal));
    world.node_mut(server).verb(|h3, t| h3.go_away(t, false));
    world.run(world.now() + Duration::from_millis(200)).expect("it runs");

    for (side, sends, hears) in [
        (Side::Client, "http:frame_created", "http:frame_parsed"),
        (Side::Server, "http:frame_parsed", "http:frame_created"),
    ] {
        let trace = memory.traces().into_iter().find(|trace| trace.subject.side == side).expect("a trace");
        assert!(!trace.text.contains("hidden") && !trace.text.contains("b3BlbnNlc2FtZQ"));
        let texts = trace.text.split('\u{1e}').skip(1);
        let events: Vec<Value> = texts.map(|text| serde_json::from_str(text).expect("JSON")).collect();
        let times: Vec<f64> = events.iter().filter_map(|event| event["time"].as_f64()).collect();
        assert!(times.windows(2).all(|two| two[0] <= two[1]), "one clock, with that of the packets");
        let place = |name: &str, what: &dyn Fn(&Value) -> bool| {
            let found = events.iter().position(|event| event["name"] == name && what(&event["data"]));
            found.unwrap_or_else(|| panic!("{side}: no such {name}"))
        };
        let frame = |kind: &'static str| move |data: &Value| data["frame"]["frame_type"] == kind;
        let local = place("http:parameters_set", &|data| data["owner"] == "local");
        let remote = place("http:parameters_set", &|data| data["owner"] == "remote");
        assert_eq!(events[local]["data"]["h3_datagram"], 1);
        for kind in ["control", "qpack_encode", "qpack_decode"] {
            for owner in ["local", "remote"] {
                place("http:stream_type_set", &|data| data["owner"] == owner && data["stream_type"] == kind);
            }
        }
        let settings = place("http:frame_parsed", &frame("settings"));
        assert!(settings < remote, "what a frame says comes behind it");
        let of_request = |kind| move |data: &Value| frame(kind)(data) && data["stream_id"] == 0;
        let begun = place("http:stream_type_set", &|data| data["stream_type"] == "request");
        let head = place(sends, &of_request("headers"));
        let content = place(sends, &of_request("data"));
        let answer = place(hears, &of_request("headers"));
        let goodbye = place(hears, &frame("goaway"));
        for order in [[begun, head, content, goodbye], [begun, head, answer, goodbye]] {
            assert!(order.is_sorted(), "{side}: {order:?}");
        }
        let headers = events[head]["data"]["frame"]["headers"].as_array().expect("a list");
        assert!(headers.contains(&json!({ "name": ":path", "value": "/echo" })));
        assert!(headers.contains(&json!({ "name": "x-plain", "value": "plain" })));
        for name in ["authorization", "cookie", "x-token"] {
            assert!(headers.contains(&json!({ "name": name })), "{name} is there, its value is not");
        }
        assert_eq!(events[content]["data"]["frame"]["raw"]["payload_length"], 12);
        let update = place(sends, &frame("priority_update"));
        assert_eq!(events[update]["data"]["frame"]["priority_field_value"], "u=1");
        place("http:priority_updated", &|data| data["stream_id"] == 0 && data["new"] == "u=1");
        // And between them packets, as ever.
        assert!(events[begun..goodbye].iter().any(|event| event["name"] == "transport:packet_sent"));
    }
}
