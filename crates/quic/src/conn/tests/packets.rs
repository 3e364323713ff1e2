//! Packets by hand, mostly those of a handshake: what is read, what is dropped, and what of it is told.

use quickset_base::Reason;
use quickset_wire::header::{self, Header, LongHeader, Parsed};
use quickset_wire::{Side, Space, Version};

use super::*;
use crate::Migration;
use crate::conn::ConnectionStart;
use crate::keys::{ClientCrypto, Crypto, Keys, ServerCrypto};
use crate::packet::FrameToken;
use crate::validation::MAX_TOKEN;

/// A client whose hello nobody has read yet.
struct Begun {
    now: Time,
    client: Connection,
    far: Endpoint,
    hello: Vec<Datagram>,
    /// Where the hello went, and where it came from.
    dcid: ConnectionId,
    scid: ConnectionId,
}

fn begun() -> Begun {
    begun_with(TransportConfig::fixed_mtu(1200))
}

fn begun_with(transport: TransportConfig) -> Begun {
    let transport = Arc::new(transport);
    let endpoint = |n: u64, server| {
        let config =
            EndpointConfig { crypto: Arc::new(NullSecrets(n)), connection_id_len: 8, resets_per_second: 10 };
        Endpoint::new(config, server, Rng::new(n))
    };
    let server = ServerConfig {
        crypto: Arc::new(NullServer::new(&[b"test"])),
        transport: transport.clone(),
        max_connections: 10,
        retry: RetryPolicy::Never,
        retry_token_lifetime: Duration::from_secs(10),
        gate: None,
        token_lifetime: Duration::from_secs(10),
    };
    let crypto = Arc::new(NullClient::new(&[b"test"])) as Arc<dyn ClientCrypto>;
    let config = ClientConfig { crypto, transport };
    let now = Time::from_millis(1);
    let (_, start) = endpoint(1, None).connect(now, &config, address(2), "server", Vec::new()).unwrap();
    let mut client = Connection::new(start).unwrap();
    let hello = drain(&mut client, now, address(1));
    let Ok(Parsed { header: Header::Initial { dcid, scid, .. }, .. }) = Parsed::parse(&hello[0].bytes, 0)
    else {
        panic!("no Initial packet");
    };
    Begun { now, client, far: endpoint(2, Some(server)), hello, dcid, scid }
}

impl Begun {
    /// The server, which has read the hello.
    fn server(&mut self) -> Connection {
        self.server_of(|_| ())
    }

    /// The same, begun in another way than its endpoint would.
    fn server_of(&mut self, change: impl FnOnce(&mut ConnectionStart)) -> Connection {
        let mut hello = self.hello.clone();
        let DatagramRoute::Incoming(incoming) = self.far.route(self.now, hello.remove(0)) else {
            panic!("no incoming")
        };
        let Ok((_, mut start, first)) = self.far.accept(self.now, incoming) else { panic!("not accepted") };
        change(&mut start);
        let mut server = Connection::new(start).unwrap();
        hello.insert(0, first);
        server.handle(self.now, Input::Received(&mut hello));
        server
    }

    /// An Initial packet of a server's with one frame.
    fn initial(&self, header: &Forged<'_>, number: u64, frame: &Frame<'_>) -> Vec<u8> {
        let Keys { local, .. } =
            NullClient::new(&[]).initial_keys(Version::V1, &self.dcid, Side::Server).unwrap();
        let Forged { dcid, scid, token } = *header;
        let long = LongHeader { ty: PacketType::Initial, version: Version::V1, dcid, scid, token };
        let mut packet = vec![0; 200];
        let mut w = wire::Writer::new(&mut packet);
        let length_at = header::long_header(&mut w, &long, number, 2);
        let payload_at = w.len();
        frame.encode(&mut w);
        w.zeros(20);
        header::patch_length(&mut w, length_at, 16);
        let len = w.len() + 16;
        packet.truncate(len);
        let (head, body) = packet.split_at_mut(payload_at);
        local.packet.seal(number, head, body);
        let sample = packet[payload_at + 2..][..16].to_vec();
        let (first, rest) = packet.split_first_mut().unwrap();
        local.header.protect(&sample, first, &mut rest[payload_at - 3..payload_at - 1]);
        packet
    }

    fn hand_over(&mut self, bytes: &[u8]) {
        let datagram = Datagram { path: address(2), ecn: quickset_base::Ecn::NotEct, bytes: bytes.into() };
        self.client.handle(self.now, Input::Received(&mut vec![datagram]));
    }

    /// The ids and the token of what the client sends next.
    fn next_initial(&mut self) -> (ConnectionId, Vec<u8>) {
        let mut sent = drain(&mut self.client, self.now, address(1));
        while sent.is_empty() {
            let Poll::Sleep(Some(at), _) = self.client.poll(self.now, &mut Batch::new()) else {
                panic!("nothing is due");
            };
            self.now = at;
            self.client.handle(at, Input::Timer);
            sent = drain(&mut self.client, at, address(1));
        }
        match Parsed::parse(&sent[0].bytes, 8).unwrap().header {
            Header::Initial { dcid, token, .. } => (dcid, token.to_vec()),
            other => panic!("{other:?}"),
        }
    }
}

#[derive(Clone, Copy)]
struct Forged<'a> {
    dcid: ConnectionId,
    scid: ConnectionId,
    token: &'a [u8],
}

fn cid(n: u8) -> ConnectionId {
    ConnectionId::new(&[n; 8]).unwrap()
}

/// What shows whether a packet was read.
const CLOSE: Frame<'_> =
    Frame::ConnectionClose { code: Code::CONNECTION_REFUSED, frame_type: 0, reason: b"" };

/// RFC 9000 §12.2: the endpoint routes by the first packet alone.
#[test]
fn what_is_coalesced_for_another_id_is_not_read() {
    for (other, is_read) in [(true, false), (false, true)] {
        let mut begun = begun();
        let usual = Forged { dcid: begun.scid, scid: cid(7), token: &[] };
        let second = Forged { dcid: if other { cid(9) } else { begun.scid }, ..usual };
        let both = [begun.initial(&usual, 0, &Frame::Ping), begun.initial(&second, 1, &CLOSE)].concat();
        begun.hand_over(&both);
        assert_eq!(begun.client.stats().received_packets, 1 + u64::from(is_read));
        assert_eq!(begun.client.closed().is_some(), is_read);
    }
}

/// RFC 9000 §17.2.2.
#[test]
fn an_initial_packet_of_a_server_has_no_token() {
    for (token, is_read) in [(&b"token"[..], false), (&[], true)] {
        let mut begun = begun();
        let packet = begun.initial(&Forged { dcid: begun.scid, scid: cid(7), token }, 0, &CLOSE);
        begun.hand_over(&packet);
        assert_eq!(begun.client.closed().is_some(), is_read);
    }
}

/// RFC 9000 §7.2: the first answer settles the server's id, and no other packet changes it.
#[test]
fn a_client_takes_over_the_id_of_the_first_answer_alone() {
    let mut begun = begun();
    let usual = Forged { dcid: begun.scid, scid: cid(7), token: &[] };
    let first = begun.initial(&usual, 0, &Frame::Ping);
    begun.hand_over(&first);
    assert_eq!(begun.next_initial().0, cid(7));
    let another = begun.initial(&Forged { scid: cid(8), ..usual }, 1, &CLOSE);
    begun.hand_over(&another);
    assert_eq!(begun.client.closed(), None);
    assert_eq!(begun.next_initial().0, cid(7));
    let same = begun.initial(&usual, 2, &CLOSE);
    begun.hand_over(&same);
    assert!(begun.client.closed().is_some());
}

fn retry(begun: &Begun, scid: ConnectionId, token: &[u8]) -> Vec<u8> {
    let mut bytes = [0; 2000];
    let mut w = wire::Writer::new(&mut bytes);
    header::retry(&mut w, Version::V1, &begun.scid, &scid, token);
    let crypto = NullServer::new(&[]);
    let tag = crypto.retry_tag(Version::V1, &begun.dcid, w.written()).unwrap();
    w.bytes(&tag);
    w.written().to_vec()
}

/// Anybody who sees the hello can answer it so.
#[test]
fn a_token_that_leaves_no_room_for_the_hello_is_not_followed() {
    for len in [1, 100, 700, MAX_TOKEN, MAX_TOKEN + 1, 1100, 1140, 1157, 1200, 1400] {
        let mut begun = begun();
        let (original, token) = (begun.dcid, vec![7; len]);
        let packet = retry(&begun, cid(7), &token);
        begun.hand_over(&packet);
        let expected = if len > MAX_TOKEN { (original, Vec::new()) } else { (cid(7), token.clone()) };
        assert_eq!(begun.next_initial(), expected, "{len} bytes");
        // Nor are they kept for another time.
        begun.client.on_new_token(&token).unwrap();
        let kept = std::iter::from_fn(|| begun.client.poll_event()).any(|e| matches!(e, Event::NewToken(_)));
        assert_eq!(kept, len <= MAX_TOKEN, "{len} bytes");
    }
}

/// RFC 9000 §17.2.5.2: a Retry counts once, before anything else of the server's, with a token, and from a
/// new id.
#[test]
fn one_retry_is_followed() {
    let mut begun = begun();
    let original = begun.dcid;
    let mut forged = retry(&begun, cid(7), b"forged");
    *forged.last_mut().unwrap() ^= 1;
    for bad in [retry(&begun, cid(7), b""), retry(&begun, original, b"same id"), forged] {
        begun.hand_over(&bad);
        assert_eq!(begun.next_initial(), (original, Vec::new()));
    }
    let (one, two) = (retry(&begun, cid(7), b"one"), retry(&begun, cid(8), b"two"));
    begun.hand_over(&one);
    begun.hand_over(&two);
    assert_eq!(begun.next_initial(), (cid(7), b"one".to_vec()));

    let mut answered = self::begun();
    let ping = answered.initial(&Forged { dcid: answered.scid, scid: cid(7), token: &[] }, 0, &Frame::Ping);
    let late = retry(&answered, cid(8), b"late");
    answered.hand_over(&ping);
    answered.hand_over(&late);
    assert_eq!(answered.next_initial(), (cid(7), Vec::new()));
}

/// RFC 9000 §13.2.7; RFC 9002 §B.4: all of a padded datagram is in flight.
#[test]
fn padding_is_in_flight() {
    let begun = begun();
    let sent: usize = begun.hello.iter().map(|datagram| datagram.bytes.len()).sum();
    assert!(sent >= 1200, "the hello alone is shorter");
    assert_eq!(begun.client.link.path.recovery.in_flight(), sent as u64);
}

/// RFC 9000 §17.2.2.1; RFC 9001 §4.1.2, §4.9.1, §4.9.2: which keys are there at which step.
#[test]
fn keys_of_the_handshake_go_in_time() {
    let mut begun = begun();
    let mut server = begun.server();
    let has = |c: &Connection| [Space::Initial, Space::Handshake].map(|space| c.link.keys.has(space));
    assert_eq!((has(&begun.client), has(&server)), ([true, false], [true, true]));
    let now = begun.now;
    let mut flight = drain(&mut server, now, address(2));
    begun.client.handle(now, Input::Received(&mut flight));
    assert!(begun.client.is_established(), "complete, and not yet confirmed");
    assert_eq!(has(&begun.client), [true, true], "no Handshake packet was sent");
    let mut answer = drain(&mut begun.client, now, address(1));
    assert_eq!(has(&begun.client), [false, true]);
    server.handle(now, Input::Received(&mut answer));
    assert_eq!(has(&server), [false, false], "complete is confirmed for a server");
    let mut done = drain(&mut server, now, address(2));
    begun.client.handle(now, Input::Received(&mut done));
    assert_eq!(has(&begun.client), [false, false], "HANDSHAKE_DONE");
}

/// RFC 9001 §4.1.2: complete is not confirmed, and a server that is gone by then says nothing.
/// RFC 9000 §10.1: it is given up all the same, where nobody has an idle timeout.
#[test]
fn a_handshake_that_nobody_confirms_comes_to_an_end() {
    let limit = Duration::from_secs(7);
    let config =
        TransportConfig { idle_timeout: None, handshake_timeout: limit, ..TransportConfig::fixed_mtu(1200) };
    let mut begun = begun_with(config);
    let mut server = begun.server();
    let mut flight = drain(&mut server, begun.now, address(2));
    begun.now += Duration::from_millis(100);
    begun.client.handle(begun.now, Input::Received(&mut flight));
    assert!(begun.client.is_established());
    let answer = drain(&mut begun.client, begun.now, address(1));
    assert!(!answer.is_empty());
    let said = begun.now;
    let mut probes = 0;
    while !begun.client.is_drained() {
        let Poll::Sleep(Some(at), _) = begun.client.poll(begun.now, &mut Batch::new()) else {
            panic!("nothing is due, and the client is not over");
        };
        begun.now = at;
        begun.client.handle(at, Input::Timer);
        probes += drain(&mut begun.client, at, address(1)).len();
    }
    assert_eq!((begun.now.since(said), begun.client.closed()), (limit, Some(&Closed::TimedOut)));
    assert!(probes > 1, "it asked");
}

/// The same handshake, of which the server tells: nothing bounds its silence from there on.
#[test]
fn a_handshake_that_is_confirmed_has_no_bound() {
    let config = TransportConfig { idle_timeout: None, ask_after: None, ..TransportConfig::fixed_mtu(1200) };
    let mut pair = joined_with(config);
    pair.pass(Duration::from_secs(3600));
    assert!(pair.client.is_established() && pair.client.closed().is_none());
    assert_eq!(pair.client.poll(pair.now, &mut Batch::new()), Poll::Sleep(None, Reason::Idle));
}

/// RFC 9000 §13.2.5; RFC 9001 §4.1.4, §5.7: 1-RTT packets wait for the end of the handshake, and the peer
/// learns how long.
#[test]
fn the_wait_for_keys_is_told() {
    let mut begun = begun();
    let mut server = begun.server();
    let mut flight = drain(&mut server, begun.now, address(2));
    begun.client.handle(begun.now, Input::Received(&mut flight));
    let mut finished = drain(&mut begun.client, begun.now, address(1));
    let id = begun.client.streams().open(Dir::Uni).unwrap();
    begun.client.send_stream(id).write(&mut Bytes::from_static(b"overtakes")).unwrap();
    let mut data = drain(&mut begun.client, begun.now, address(1));
    assert_eq!(data.len(), 1);
    server.handle(begun.now, Input::Received(&mut data));
    assert_eq!(server.streams().accept(Dir::Uni), None, "the client is not known yet");
    begun.now += Duration::from_millis(80);
    server.handle(begun.now, Input::Received(&mut finished));
    assert_eq!(server.streams().accept(Dir::Uni), Some(id));

    let (mut bytes, mut tokens) = ([0; 100], Vec::<FrameToken>::new());
    let mut w = crate::packet::PacketWriter::new(wire::Writer::new(&mut bytes), &mut tokens);
    assert!(server.link.acks.data.write(&mut w, begun.now));
    let Some(Ok(Frame::Ack(ack))) = wire::frame::Frames::new(&bytes).next() else { panic!("no ACK") };
    assert_eq!(ack.delay, 80_000 / 8, "in units of 8 µs");
}

/// RFC 9001 §4.1.3.
#[test]
fn bytes_beyond_the_end_of_a_level_are_a_violation() {
    for kind in [PacketType::Initial, PacketType::Handshake] {
        let mut begun = begun();
        let mut server = begun.server();
        let mut flight = drain(&mut server, begun.now, address(2));
        let frame = Frame::Crypto { offset: 5000, data: b"beyond" };
        let mut bytes = vec![0; 20];
        let mut w = wire::Writer::new(&mut bytes);
        frame.encode(&mut w);
        let len = w.len();
        bytes.truncate(len);
        begun.client.frames(kind, &Bytes::from(bytes)).unwrap();
        begun.client.handle(begun.now, Input::Received(&mut flight));
        let code = match begun.client.closed() {
            Some(Closed::Failed(error)) => Some(error.code),
            _ => None,
        };
        assert_eq!(code, Some(Code::PROTOCOL_VIOLATION), "{kind:?}");
    }
}

/// RFC 9001 §4.1.3: what comes behind the end of a level that was read to its end is not read as if of the
/// next. What came before may come again.
#[test]
fn bytes_of_a_former_level_are_a_violation() {
    let ends = [PacketType::Initial, PacketType::Handshake].map(|kind| [(kind, true), (kind, false)]);
    for (kind, at_client) in ends.concat() {
        for (len, offset, is_news) in [(3000, 0, true), (10, 2990, true), (5, 0, false)] {
            let mut begun = begun();
            let mut server = begun.server();
            let mut flight = drain(&mut server, begun.now, address(2));
            begun.client.handle(begun.now, Input::Received(&mut flight));
            assert!(begun.client.is_established());
            if kind == PacketType::Handshake {
                // The server's keys of that level go with the last of its bytes, and there may be more in the
                // same packet.
                server
                    .handle(begun.now, Input::Received(&mut drain(&mut begun.client, begun.now, address(1))));
                assert!(server.is_established());
            }
            let victim = if at_client { &mut begun.client } else { &mut server };
            let data = vec![0; len];
            let mut bytes = vec![0; len + 20];
            let mut w = wire::Writer::new(&mut bytes);
            Frame::Crypto { offset, data: &data }.encode(&mut w);
            let end = w.len();
            bytes.truncate(end);
            let code = victim.frames(kind, &Bytes::from(bytes)).err().map(|error| error.code);
            assert_eq!(
                code,
                is_news.then_some(Code::PROTOCOL_VIOLATION),
                "{kind:?}, {len} bytes at {offset}"
            );
        }
    }
}

/// RFC 9000 §10.2.3: as long as it is not sure what the peer can read, all that it may be able to; §14.1: in
/// a full datagram.
#[test]
fn a_farewell_within_the_handshake_comes_at_each_level() {
    let mut begun = begun();
    let now = begun.now;
    let mut server = begun.server();
    let mut flight = drain(&mut server, now, address(2));
    server.close(now, 42, b"busy");
    let bye = drain(&mut server, now, address(2));
    assert_eq!(bye.len(), 1);
    assert_eq!(bye[0].bytes.len(), 1200);
    // A client that has sent its first Handshake packet cannot read Initial packets any more.
    begun.client.handle(now, Input::Received(&mut flight));
    drain(&mut begun.client, now, address(1));
    begun.client.handle(now, Input::Received(&mut bye.clone()));
    // In packets of the handshake the application's code and words are not for everybody's eyes (§10.2.3).
    assert!(matches!(begun.client.closed(), Some(Closed::ByPeer(e)) if e.code == Code::APPLICATION_ERROR));
    // One that has read nothing yet reads the first.
    let mut other = self::begun();
    other.client.handle(now, Input::Received(&mut bye.clone()));
    assert!(matches!(other.client.closed(), Some(Closed::ByPeer(_))), "{:?}", other.client.closed());
}

/// RFC 9000 §17.4: nobody learns of our round trips.
#[test]
fn the_spin_bit_is_never_set() {
    let mut pair = joined();
    let mut seen = 0;
    for _ in 0..10 {
        pair.client.ping();
        pair.server.ping();
        let mut up = drain(&mut pair.client, pair.now, address(1));
        let mut down = drain(&mut pair.server, pair.now, address(2));
        for datagram in up.iter().chain(&down) {
            assert!(datagram.bytes[0] & 0x80 == 0 && !header::spin(datagram.bytes[0]));
            seen += 1;
        }
        pair.now += Duration::from_millis(20);
        pair.server.handle(pair.now, Input::Received(&mut up));
        pair.client.handle(pair.now, Input::Received(&mut down));
    }
    assert!(seen >= 20);
}

/// RFC 9000 §10.2.2.
#[test]
fn who_was_closed_says_nothing_more() {
    let mut pair = joined();
    pair.client.ping();
    let mut late = drain(&mut pair.client, pair.now, address(1));
    let id = pair.server.streams().open(Dir::Uni).unwrap();
    pair.server.send_stream(id).write(&mut Bytes::from(vec![7; 5000])).unwrap();
    pair.client.close(pair.now, 1, b"");
    let mut bye = drain(&mut pair.client, pair.now, address(1));
    pair.server.handle(pair.now, Input::Received(&mut bye));
    assert!(drain(&mut pair.server, pair.now, address(2)).is_empty());
    pair.server.handle(pair.now, Input::Received(&mut late));
    while !pair.server.is_drained() {
        assert!(drain(&mut pair.server, pair.now, address(2)).is_empty());
        pair.now += Duration::from_millis(10);
        pair.server.handle(pair.now, Input::Timer);
    }
}

/// All that leaves is counted, the farewell and what repeats it too, whenever it is said.
#[test]
fn a_farewell_is_counted() {
    let count = |sent: &mut [u64; 2], datagrams: &[Datagram]| {
        sent[0] += datagrams.len() as u64;
        sent[1] += datagrams.iter().map(|d| d.bytes.len() as u64).sum::<u64>();
    };
    let counted = |c: &Connection| [c.stats().sent_datagrams, c.stats().sent_bytes];
    // In the handshake: a padded Initial packet.
    let mut begun = begun();
    let mut sent = [0; 2];
    count(&mut sent, &begun.hello);
    begun.client.close(begun.now, 1, b"");
    let bye = drain(&mut begun.client, begun.now, address(1));
    assert!(bye.len() == 1 && bye[0].bytes.len() >= 1200);
    count(&mut sent, &bye);
    assert_eq!(counted(&begun.client), sent);
    // Behind it, and once more for what comes late.
    let mut pair = joined();
    pair.server.ping();
    let mut late = drain(&mut pair.server, pair.now, address(2));
    let mut sent = counted(&pair.client);
    pair.client.close(pair.now, 1, b"bye");
    for _ in 0..2 {
        let bye = drain(&mut pair.client, pair.now, address(1));
        assert_eq!(bye.len(), 1);
        count(&mut sent, &bye);
        assert_eq!(counted(&pair.client), sent);
        pair.client.handle(pair.now, Input::Received(&mut late));
    }
}

/// RFC 9002 §7, §7.5: no more is in flight than the window allows, but for probes, which count.
#[test]
fn probes_alone_go_beyond_the_window() {
    let mut pair = joined();
    let id = pair.client.streams().open(Dir::Uni).unwrap();
    pair.client.send_stream(id).write(&mut Bytes::from(vec![7; 500_000])).unwrap();
    let flying = |pair: &Joined| {
        (pair.client.link.path.recovery.in_flight(), pair.client.link.path.congestion.control().window)
    };
    let (mut full, mut steps) = (0, 0);
    while pair.client.stats().ptos == 0 {
        let (in_flight, window) = flying(&pair);
        assert!(in_flight <= window);
        (full, steps) = (in_flight, steps + 1);
        assert!(steps < 1000, "a probe timeout, at last");
        // The pacer holds back, too.
        pair.now += Duration::from_millis(1);
        pair.client.handle(pair.now, Input::Timer);
        drain(&mut pair.client, pair.now, address(1));
    }
    let (in_flight, window) = flying(&pair);
    let packet = pair.client.link.path.mtu as u64;
    assert!(full + packet > window, "{full} of {window}");
    assert!((window + 1..=window + 2 * packet).contains(&in_flight), "{in_flight} of {window}");
}

/// RFC 9000 §18.2: a server whose ids are empty has none to give with a preferred address.
#[test]
fn a_preferred_address_wants_connection_ids() {
    let preferred_v4 = Some("10.0.0.9:4433".parse().unwrap());
    for (nameless, error) in [(false, None), (true, Some(Code::TRANSPORT_PARAMETER_ERROR))] {
        let migration = Migration { preferred_v4, ..Migration::default() };
        let mut begun = begun_with(TransportConfig { migration, ..TransportConfig::fixed_mtu(1200) });
        let mut server = begun.server_of(|start| {
            assert!(start.params.preferred_address.is_some());
            if nameless {
                start.local_cid = ConnectionId::EMPTY;
                start.params.initial_source_connection_id = Some(ConnectionId::EMPTY);
                let (mut bytes, crypto) = (vec![0; 1000], Arc::new(NullServer::new(&[b"test"])));
                let mut w = wire::Writer::new(&mut bytes);
                start.params.encode(Side::Server, 0, &mut w);
                let params = w.written().to_vec();
                start.session = ServerCrypto::start(crypto, start.version, params);
            }
        });
        for datagram in drain(&mut server, begun.now, address(2)) {
            begun.hand_over(&datagram.bytes);
        }
        let code = begun.client.closed().map(|why| match why {
            Closed::Failed(error) => error.code,
            other => panic!("{other:?}"),
        });
        assert_eq!(code, error, "empty ids: {nameless}");
        assert_eq!(begun.client.is_established(), error.is_none());
    }
}
