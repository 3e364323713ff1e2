//! Early data, in virtual time: what it saves, what becomes of it, and what a recording of it is worth.

use std::sync::Arc;

use bytes::Bytes;
use quickset_base::{AddressPair, Batch, Datagram, Duration, Input, Machine, Poll, Time};
use quickset_policies::read;
use quickset_quic::null::{NullClient, NullServer};
use quickset_quic::{
    ClientConfig, Closed, ConnectionKey, DatagramOptions, DatagramOutcome, Dir, EarlyData, EarlyFate,
    EarlyGate, Event, Protection, Refused, RetryPolicy, SendError, ServerConfig, StreamEvent, StreamId,
    TransportErrorCode,
};
use quickset_sim::address;

use crate::common::{ALPN, Pair, Peer, Setup, pattern};

const LINK: &str = "rate=100mbit delay=20ms";

/// A client that has a ticket of the server's, and the two of them.
struct Early {
    pair: Pair,
    setup: Setup,
    client: ClientConfig,
    server: ServerConfig,
}

fn setup(seed: u64, link: &str) -> Setup {
    Setup::new(seed, link).transport(|t| t.early_data = Some(EarlyData::default()))
}

impl Early {
    /// The first connection, through and closed.
    fn new(setup: &Setup) -> Self {
        let server = ServerConfig {
            crypto: Arc::new(NullServer::new(ALPN).with_certificate(setup.certificate).with_early_data()),
            ..setup.server_config()
        };
        let client = ClientConfig {
            crypto: Arc::new(NullClient::new(ALPN).with_tickets()),
            transport: Arc::new(setup.client.clone()),
        };
        let near = Setup { link: "delay=1ms".parse().expect("a link"), down: None, ..setup.clone() };
        let mut pair = near.pair_of(&client, server.clone());
        pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
        pair.pass(Duration::from_millis(50));
        let (key, now) = (pair.key, pair.world.now());
        pair.client_mut().connection(key).close(now, 0, b"");
        pair.until("over", |p| p.client().node.keys().count() + p.server().node.keys().count() == 0);
        for (from, to, link) in [(1, 2, &setup.link), (2, 1, setup.down.as_ref().unwrap_or(&setup.link))] {
            let link = pair.world.add_link(link.clone());
            pair.world.route(address(from), address(to), link);
        }
        pair.client_mut().closed.clear();
        pair.client_mut().events.clear();
        pair.server_mut().events.clear();
        Self { pair, setup: setup.clone(), client, server }
    }

    /// Begins the second connection. Nothing was sent yet.
    fn connect(&mut self) -> ConnectionKey {
        let (now, config) = (self.pair.world.now(), self.client.clone());
        self.pair
            .client_mut()
            .node
            .connect(now, &config, AddressPair::to(address(2)), "server")
            .expect("a connection begins")
    }

    /// The server loses all that it knew, its tickets included.
    fn restart(&mut self, change: impl Fn(&mut ServerConfig)) {
        let mut config =
            ServerConfig { crypto: Arc::new(NullServer::new(ALPN).with_early_data()), ..self.server.clone() };
        change(&mut config);
        *self.pair.server_mut() = Peer::new(7 * self.setup.seed + 2, Some(config));
    }

    fn told(&self) -> Vec<bool> {
        told(self.pair.client())
    }

    fn server_key(&mut self) -> ConnectionKey {
        self.pair.server().node.keys().next().expect("the server has a connection")
    }
}

/// What was said of early data.
fn told(peer: &Peer) -> Vec<bool> {
    let early = |event: &Event| match event {
        Event::EarlyData { accepted } => Some(*accepted),
        _ => None,
    };
    peer.events.iter().filter_map(early).collect()
}

/// RFC 9000 §8.1: a server that has sent what the client's datagrams allow owes an acknowledgement of early
/// data, and is allowed less than a whole datagram.
#[test]
fn a_server_that_may_send_no_more_comes_to_rest() {
    for len in (0..2400).step_by(100) {
        let setup = Setup { certificate: 12_000, ..setup(1, "rate=100mbit delay=100ms") };
        let mut early = Early::new(&setup);
        let key = early.connect();
        early.pair.client_mut().send(key, Dir::Uni, pattern(len));
        // Until just before the client hears of the server.
        early.pair.pass(Duration::from_millis(199));
        let server_key = early.server_key();
        let server = early.pair.server_mut().connection(server_key);
        assert!(server.is_early() && !server.is_established());
        let id = early.pair.client_mut().send(key, Dir::Uni, pattern(10));
        early.pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
    }
}

#[test]
fn early_data_saves_a_round_trip() {
    let mut early = Early::new(&setup(1, LINK));
    let begun = early.pair.world.now();
    let key = early.connect();
    assert_eq!(early.pair.client_mut().connection(key).early_data(), EarlyFate::Undecided);
    assert!(early.pair.client_mut().connection(key).is_early());
    let data = pattern(3000);
    let id = early.pair.client_mut().send(key, Dir::Bi, data.clone());
    early.pair.server_mut().echo = true;
    early.pair.until("asked", |p| !p.server().finished.is_empty());
    let took = early.pair.world.now() - begun;
    assert!(took < Duration::from_millis(25), "half a round trip of 40 ms: {took:?}");
    let server_key = early.server_key();
    let server = early.pair.server_mut().connection(server_key);
    assert!(server.stream(id).came_early() && server.is_early() && !server.is_established());
    early.pair.until("answered", |p| p.client().finished.contains(&(key, id)));
    let took = early.pair.world.now() - begun;
    assert!(took < Duration::from_millis(50), "one round trip: {took:?}");
    assert!(early.pair.client().received[&(key, id)] == data);
    assert_eq!((early.told(), told(early.pair.server())), (vec![true], vec![true]));
    let order = |e: &Event| matches!(e, Event::EarlyData { .. } | Event::Connected);
    let order: Vec<_> = early.pair.client().events.iter().filter(|e| order(e)).cloned().collect();
    assert_eq!(order, [Event::EarlyData { accepted: true }, Event::Connected]);
    // What comes later is not early.
    early.pair.pass(Duration::from_millis(100));
    let late = early.pair.client_mut().send(key, Dir::Bi, pattern(10));
    early.pair.until("asked", |p| p.server().finished.len() == 2);
    let server = early.pair.server_mut().connection(server_key);
    assert!(!server.stream(late).came_early() && !server.is_early());
    assert_eq!(server.early_data(), EarlyFate::Accepted);
    assert_eq!(early.pair.client_mut().connection(key).early_data(), EarlyFate::Accepted);
}

#[test]
fn early_data_survives_loss_reordering_and_duplication() {
    let mut accepted = 0;
    for seed in quickset_sim::seeds(0..60) {
        let link = "rate=20mbit delay=20ms jitter=uniform:15ms reorder=yes loss=15% duplicate=10%";
        let mut setup = setup(seed, link).transport(|t| {
            t.handshake_timeout = Duration::from_secs(60);
            t.idle_timeout = None;
        });
        if seed % 3 == 0 {
            setup.retry = RetryPolicy::Always;
        }
        let mut early = Early::new(&setup);
        early.pair.server_mut().echo = true;
        if seed % 4 == 3 {
            early.restart(|_| {});
            early.pair.server_mut().echo = true;
        }
        let key = early.connect();
        let sent: Vec<_> = (0..4)
            .map(|n| {
                let data = pattern(2000 + 3000 * n);
                (early.pair.client_mut().send(key, Dir::Bi, data.clone()), data)
            })
            .collect();
        early.pair.until("answered", |p| p.client().finished.iter().filter(|f| f.0 == key).count() == 4);
        for (id, data) in &sent {
            assert!(early.pair.client().received[&(key, *id)] == *data, "seed {seed}");
        }
        let told = early.told();
        assert_eq!(told.len(), 1, "seed {seed}: told once");
        assert!(seed % 4 != 3 || !told[0], "seed {seed}: a server without tickets takes nothing");
        accepted += u32::from(told[0]);
    }
    assert_eq!(accepted, 45, "every ticket that the server knew was good");
}

/// RFC 9000 §17.2.5.3: a Retry is no rejection.
#[test]
fn early_data_goes_again_behind_a_retry() {
    let mut setup = setup(2, LINK);
    setup.retry = RetryPolicy::Always;
    let mut early = Early::new(&setup);
    // The endpoint's own tokens are not given here, so that the address has to be proven again.
    let begun = early.pair.world.now();
    let key = early.connect();
    let id = early.pair.client_mut().send(key, Dir::Uni, pattern(5000));
    early.pair.until("received", |p| !p.server().finished.is_empty());
    assert!(early.pair.world.now() - begun < Duration::from_millis(65), "a round trip and a half");
    assert_eq!(early.pair.server().node.endpoint().counters().retries, 2);
    let server_key = early.server_key();
    assert!(early.pair.server_mut().connection(server_key).stream(id).came_early());
    early.pair.until("connected", |p| p.client().connected.contains(&key));
    assert_eq!(early.told(), [true]);
}

#[test]
fn what_is_rejected_goes_again_under_the_limits_that_hold() {
    for window in [1200u64, 3000, 100_000] {
        let mut early = Early::new(&setup(3, LINK).transport(|t| t.fenced_streams = None));
        early.restart(|config| {
            let transport = Arc::make_mut(&mut config.transport);
            transport.stream_window = window;
            transport.max_stream_window = window;
            transport.max_connection_window = window;
        });
        let key = early.connect();
        let (a, b) = (pattern(9000), pattern(1000));
        let first = early.pair.client_mut().send(key, Dir::Uni, a.clone());
        let second = early.pair.client_mut().send(key, Dir::Uni, b.clone());
        let third =
            early.pair.client_mut().connection(key).streams().open_messages(Dir::Uni).expect("a stream");
        let now = early.pair.world.now();
        let connection = early.pair.client_mut().connection(key);
        for n in 0..5u8 {
            connection.messages(third).send(now, vec![n; 700].into(), None).expect("room");
        }
        connection.send_stream(third).finish().expect("it is open");
        early.pair.until("received", |p| p.server().finished.len() == 3);
        let server_key = early.server_key();
        let got = &early.pair.server().received;
        assert!(got[&(server_key, first)] == a && got[&(server_key, second)] == b, "{window}");
        let records: Vec<u8> = (0..5u8).flat_map(|n| [vec![0x42, 0xbc], vec![n; 700]].concat()).collect();
        assert!(got[&(server_key, third)] == records, "{window}: each record with its length of two bytes");
        assert_eq!(early.told(), [false]);
        assert!(told(early.pair.server()).is_empty());
        assert!(!early.pair.server_mut().connection(server_key).stream(first).came_early());
        assert_eq!(early.pair.client_mut().connection(key).early_data(), EarlyFate::Rejected);
    }
}

#[test]
fn rejection_with_fewer_streams_than_were_opened_ends_the_connection() {
    let mut early = Early::new(&setup(4, LINK));
    early.restart(|config| Arc::make_mut(&mut config.transport).max_uni_streams = 2);
    let key = early.connect();
    for _ in 0..3 {
        early.pair.client_mut().send(key, Dir::Uni, pattern(10));
    }
    early.pair.until("closed", |p| !p.client().closed.is_empty());
    let why = early.pair.client().closed.iter().find(|(k, _)| *k == key).map(|(_, why)| why.clone());
    assert!(
        matches!(&why, Some(Closed::Failed(e)) if e.code == TransportErrorCode::INTERNAL_ERROR),
        "{why:?}"
    );
}

#[test]
fn who_wants_to_know_is_told_and_nothing_goes_again() {
    let mut early = Early::new(&setup(5, LINK));
    let transport = Arc::make_mut(&mut early.client.transport);
    transport.early_data = Some(EarlyData::default().with_refused(Refused::Reset(77)));
    early.restart(|_| {});
    let key = early.connect();
    let id = early.pair.client_mut().send(key, Dir::Bi, pattern(4000));
    early.pair.until("connected", |p| p.client().connected.contains(&key) && !p.server().events.is_empty());
    early.pair.pass(Duration::from_millis(200));
    let stopped = Event::Stream(StreamEvent::Stopped { id, code: 77 });
    assert!(early.pair.client().events.contains(&stopped), "{:?}", early.pair.client().events);
    assert_eq!(early.told(), [false]);
    let read = early.pair.client_mut().connection(key).recv_stream(id).read(10);
    assert_eq!(read, Err(quickset_quic::ReadError::Reset(77)), "and not as if the answer had ended");
    let server_key = early.server_key();
    assert!(!early.pair.server().received.contains_key(&(server_key, id)), "not a byte");
    // And it begins anew.
    let data = pattern(4000);
    let again = early.pair.client_mut().send(key, Dir::Uni, data.clone());
    early.pair.until("received", |p| p.server().finished.contains(&(server_key, again)));
    assert!(early.pair.server().received[&(server_key, again)] == data);
}

#[test]
fn nobody_gets_early_data_who_did_not_ask_for_it() {
    type Asked = (&'static str, Option<EarlyData>, Option<EarlyData>, &'static [bool]);
    let asked: [Asked; 4] = [
        ("neither", None, None, &[]),
        ("the client", Some(EarlyData::default()), None, &[false]),
        ("the server", None, Some(EarlyData::default()), &[]),
        (
            "a server with a gate",
            Some(EarlyData::default()),
            Some(EarlyData::default().with_gate(EarlyGate::new(|client| client.remote != address(1)))),
            &[false],
        ),
    ];
    for (who, client, server, expected) in asked {
        let mut early = Early::new(&setup(6, LINK));
        Arc::make_mut(&mut early.client.transport).early_data = client;
        // The same tickets.
        Arc::make_mut(&mut early.server.transport).early_data = server;
        let config = early.server.clone();
        *early.pair.server_mut() = Peer::new(99, Some(config));
        let key = early.connect();
        let id = early.pair.client_mut().connection(key).streams().open(Dir::Uni);
        assert_eq!(id.is_some(), !expected.is_empty(), "{who}");
        if let Some(id) = id {
            early.pair.client_mut().send_on(key, id, pattern(3000).into());
        }
        early.pair.until("connected", |p| p.client().connected.contains(&key));
        early.pair.pass(Duration::from_millis(100));
        assert_eq!(early.told(), expected, "{who}");
        if who == "the server" {
            assert_eq!(told(early.pair.server()), [true], "the ticket was good, and nothing came");
        } else {
            assert!(told(early.pair.server()).is_empty(), "{who}");
        }
        let server_key = early.server_key();
        if let Some(id) = id {
            assert!(early.pair.server().received[&(server_key, id)] == pattern(3000), "{who}");
            assert!(!early.pair.server_mut().connection(server_key).stream(id).came_early(), "{who}");
        }
    }
}

/// What a server reads before the handshake is through is bounded by its own configuration.
#[test]
fn a_server_reads_no_more_early_bytes_than_it_wants() {
    for max_bytes in [0, 2500, 6000] {
        let mut early = Early::new(&setup(7, LINK));
        let limit = Some(EarlyData::default().with_max_bytes(max_bytes));
        Arc::make_mut(&mut early.server.transport).early_data = limit;
        let config = early.server.clone();
        *early.pair.server_mut() = Peer::new(99, Some(config));
        let key = early.connect();
        let data = pattern(9000);
        let id = early.pair.client_mut().send(key, Dir::Uni, data.clone());
        early.pair.pass(Duration::from_millis(30));
        let server_key = early.server_key();
        let got = early.pair.server().received.get(&(server_key, id)).map_or(0, Vec::len) as u64;
        assert!(got <= max_bytes && got + 1200 >= max_bytes.min(9000), "{got} of {max_bytes}");
        early.pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
        assert!(early.pair.server().received[&(server_key, id)] == data);
    }
}

/// FS-4, FEC-2, FS-5, FEC-6: what the server offered in the first connection counts for nothing in the
/// second, until it offers it again; and a stream of messages that began without fences goes on so (FS-21).
#[test]
fn offers_of_extensions_are_not_remembered() {
    let setup = setup(8, LINK).transport(|t| {
        t.fenced_streams = Some(5000);
        t.fec = Some(quickset_quic::Fec::default().with_protection(read("fixed:2").expect("a protection")));
    });
    let mut early = Early::new(&setup);
    let key = early.connect();
    let now = early.pair.world.now();
    let connection = early.pair.client_mut().connection(key);
    assert!(!connection.has_fenced_streams() && !connection.has_fec());
    let id = connection.streams().open_messages(Dir::Uni).expect("a stream");
    // FS-8: no peer takes less.
    let longest = connection.messages(id).send(now, vec![1; 1201].into(), None);
    assert_eq!(longest, Err(SendError::TooLong { max: 1200 }));
    for n in 0..6u8 {
        connection.messages(id).send(now, vec![n; 1000].into(), None).expect("room");
    }
    early.pair.pass(Duration::from_millis(30));
    let server_key = early.server_key();
    let stats = early.pair.client_mut().connection(key).stats();
    assert_eq!((stats.fec.sources_sent, stats.fec.repairs_sent), (0, 0), "not one symbol");
    let server = early.pair.server_mut().connection(server_key);
    assert!(server.stream(id).came_early(), "STREAM frames are what 0-RTT packets can carry");
    early.pair.until("connected", |p| p.client().connected.contains(&key));
    let now = early.pair.world.now();
    let connection = early.pair.client_mut().connection(key);
    assert!(connection.has_fenced_streams() && connection.has_fec());
    // What it takes is known now: 5000 bytes.
    connection.messages(id).send(now, vec![9; 5000].into(), None).expect("room");
    connection.send_stream(id).finish().expect("it is open");
    early.pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
    let got = &early.pair.server().received[&(server_key, id)];
    assert_eq!(got.len(), 6 * 1002 + 5002, "read as bytes: records in STREAM frames, to the end");
    // A stream that begins now has fences, and is protected.
    let connection = early.pair.client_mut().connection(key);
    let fenced = connection.streams().open_messages(Dir::Uni).expect("a stream");
    connection.send_stream(fenced).set_protection(&Protection::None).expect("it is open");
    let now = early.pair.world.now();
    let connection = early.pair.client_mut().connection(key);
    connection.messages(fenced).send(now, vec![9; 3000].into(), None).expect("room");
    early.pair.pass(Duration::from_millis(100));
    assert!(early.pair.client_mut().connection(key).stats().fec.sources_sent > 0);
}

/// A message stream of early data is read as one, in order.
/// FEC-2, FEC-6: the server would end the connection over a FEC_WINDOW in a 0-RTT packet.
#[test]
fn a_window_for_decoding_is_not_told_early() {
    let mut early = Early::new(&setup(4, LINK));
    let key = early.connect();
    early.pair.client_mut().connection(key).set_fec_window(100);
    let id = early.pair.client_mut().send(key, Dir::Uni, pattern(3000));
    early.pair.until("arrived", |p| p.client().delivered.contains(&(key, id)));
    early.pair.pass(Duration::from_secs(1));
    assert!(early.pair.client().closed.is_empty(), "{:?}", early.pair.client().closed);
}

#[test]
fn messages_may_be_early() {
    let mut early = Early::new(&setup(9, LINK));
    early.pair.server_mut().lazy = true;
    let key = early.connect();
    let now = early.pair.world.now();
    let connection = early.pair.client_mut().connection(key);
    let id = connection.streams().open_messages(Dir::Uni).expect("a stream");
    for n in 0..20u8 {
        connection.messages(id).send(now, vec![n; 500].into(), None).expect("room");
    }
    early.pair.pass(Duration::from_millis(30));
    let (server_key, now) = (early.server_key(), early.pair.world.now());
    let server = early.pair.server_mut().connection(server_key);
    server.messages(id).begin().expect("nothing was read");
    assert!(!server.is_established());
    let read = |server: &mut quickset_quic::Connection, now| -> Vec<Bytes> {
        let next = || server.messages(id).recv(now).ok().flatten();
        std::iter::from_fn(next).map(|message| message.payload).collect()
    };
    let mut got = read(server, now);
    assert!(!got.is_empty(), "some before the handshake is through");
    early.pair.pass(Duration::from_millis(200));
    let now = early.pair.world.now();
    got.extend(read(early.pair.server_mut().connection(server_key), now));
    let expected: Vec<Bytes> = (0..20u8).map(|n| vec![n; 500].into()).collect();
    assert_eq!(got, expected);
}

/// A message that fits a packet goes in one, and one that fits no 0-RTT packet is not kept for the other
/// kind. RFC 9221 §3: what the server took in an earlier connection it takes early, up to the size that fits
/// a packet.
#[test]
fn datagrams_may_be_early() {
    let mut early = Early::new(&setup(12, LINK));
    let (begun, key) = (early.pair.world.now(), early.connect());
    let client = early.pair.client_mut().connection(key);
    let most = client.max_datagram_len().expect("the server takes datagrams");
    let report = DatagramOptions { report: true, ..DatagramOptions::default() };
    let sizes = [1, 500, most];
    for len in sizes {
        client.datagrams().send(begun, pattern(len).into(), &report).expect("it is taken");
    }
    assert!(client.datagrams().send(begun, pattern(most + 1).into(), &report).is_err());
    early.pair.until("there", |p| p.server().node.keys().next().is_some());
    early.pair.pass(Duration::from_millis(1));
    let server_key = early.server_key();
    let server = early.pair.server_mut().connection(server_key);
    assert!(server.is_early() && !server.is_established());
    let came: Vec<usize> = std::iter::from_fn(|| server.datagrams().recv()).map(|data| data.len()).collect();
    assert_eq!(came, sizes);
    early.pair.pass(Duration::from_millis(100));
    let client = early.pair.client_mut().connection(key);
    assert_eq!(client.early_data(), EarlyFate::Accepted);
    let outcomes: Vec<_> =
        std::iter::from_fn(|| client.datagrams().next_outcome()).map(|(_, what)| what).collect();
    assert_eq!(outcomes, [DatagramOutcome::Acknowledged; 3]);
    assert!(client.max_datagram_len() > Some(most), "a short header is shorter");
}

#[test]
fn early_messages_of_every_size_leave_at_once() {
    for size in 1060..1160 {
        let mut early = Early::new(&setup(9, LINK));
        let key = early.connect();
        let now = early.pair.world.now();
        let connection = early.pair.client_mut().connection(key);
        let id = connection.streams().open_messages(Dir::Uni).expect("a stream");
        for _ in 0..4 {
            connection.messages(id).send(now, vec![1; size].into(), None).expect("room");
        }
        connection.send_stream(id).finish().expect("it is open");
        early.pair.until("received", |p| !p.server().finished.is_empty());
        let took = early.pair.world.now() - now;
        assert!(took < Duration::from_millis(25), "{size}: half a round trip: {took:?}");
    }
}

// Attacks.

/// All that a peer sends now.
fn drain(peer: &mut Peer, now: Time, from: u16) -> Vec<Datagram> {
    let (mut sent, mut out) = (Vec::new(), Batch::new());
    loop {
        match peer.poll(now, &mut out) {
            Poll::Send => {
                let path = AddressPair::to(address(from));
                sent.extend(out.segments().map(|s| Datagram { path, ecn: out.ecn, bytes: s.into() }));
                out.clear();
            }
            Poll::Event => {}
            Poll::Sleep(..) => return sent,
        }
    }
}

fn copy(datagrams: &[Datagram]) -> Vec<Datagram> {
    datagrams.iter().map(|d| Datagram { path: d.path, ecn: d.ecn, bytes: d.bytes[..].into() }).collect()
}

/// The first flight of a second connection, as somebody on the path records it, and who it was for.
fn recorded(early: &mut Early) -> (Time, Vec<Datagram>, StreamId) {
    let key = early.connect();
    let id = early.pair.client_mut().connection(key).streams().open(Dir::Uni).expect("a stream");
    let data = &mut Bytes::from(pattern(2000));
    early.pair.client_mut().connection(key).send_stream(id).write(data).expect("room");
    early.pair.client_mut().connection(key).send_stream(id).finish().expect("it is open");
    let now = early.pair.world.now();
    (now, drain(early.pair.client_mut(), now, 1), id)
}

/// How often the data of a stream was read to its end, early.
fn read_early(server: &Peer) -> usize {
    if told(server).is_empty() { 0 } else { server.finished.len() }
}

#[test]
fn a_replayed_flight_is_not_taken_twice() {
    let mut early = Early::new(&setup(10, LINK));
    let (mut now, flight, _) = recorded(&mut early);
    assert!(flight.len() > 1);
    // Once.
    early.pair.server_mut().handle(now, Input::Received(&mut copy(&flight)));
    drain(early.pair.server_mut(), now, 2);
    assert_eq!((told(early.pair.server()), early.pair.server().finished.len()), (vec![true], 1));
    // Again at once: late duplicates of the same connection.
    early.pair.server_mut().handle(now, Input::Received(&mut copy(&flight)));
    drain(early.pair.server_mut(), now, 2);
    assert_eq!((told(early.pair.server()), early.pair.server().finished.len()), (vec![true], 1));
    // Again when the first connection is forgotten.
    for _ in 0..20 {
        now += Duration::from_secs(10);
        drain(early.pair.server_mut(), now, 2);
    }
    assert_eq!(early.pair.server().node.keys().count(), 0);
    for _ in 0..3 {
        early.pair.server_mut().handle(now, Input::Received(&mut copy(&flight)));
        drain(early.pair.server_mut(), now, 2);
        assert_eq!((told(early.pair.server()), early.pair.server().finished.len()), (vec![true], 1));
    }
    assert_eq!(
        early.pair.server().node.endpoint().counters().accepted,
        3,
        "each is a connection, without early data"
    );
}

#[test]
fn the_same_ticket_in_two_flights_is_taken_once() {
    let mut early = Early::new(&setup(11, LINK));
    let (now, flight, _) = recorded(&mut early);
    // From elsewhere, and before the true one.
    let mut stolen = copy(&flight);
    for datagram in &mut stolen {
        datagram.path = AddressPair::to(address(3));
    }
    early.pair.server_mut().handle(now, Input::Received(&mut stolen));
    drain(early.pair.server_mut(), now, 2);
    let after_one = read_early(early.pair.server());
    early.pair.server_mut().handle(now, Input::Received(&mut copy(&flight)));
    drain(early.pair.server_mut(), now, 2);
    assert_eq!((after_one, read_early(early.pair.server())), (1, 1));
}

/// RFC 8446 §8: what a server has forgotten it does not take.
#[test]
fn a_replay_to_a_restarted_server_is_no_early_data() {
    let mut early = Early::new(&setup(12, LINK));
    let (now, flight, _) = recorded(&mut early);
    early.restart(|_| {});
    early.pair.server_mut().handle(now, Input::Received(&mut copy(&flight)));
    let answer = drain(early.pair.server_mut(), now, 2);
    assert!(!answer.is_empty(), "the handshake goes on");
    assert_eq!((read_early(early.pair.server()), early.pair.server().received.len()), (0, 0));
}

/// Early data that overtakes its hello waits for it, within bounds.
#[test]
fn early_data_may_overtake_the_hello() {
    let mut early = Early::new(&setup(13, LINK));
    let (now, mut flight, id) = recorded(&mut early);
    let hello = flight.remove(0);
    early.pair.server_mut().handle(now, Input::Received(&mut flight));
    assert!(drain(early.pair.server_mut(), now, 2).is_empty());
    let now = now + Duration::from_millis(30);
    early.pair.server_mut().handle(now, Input::Received(&mut vec![hello]));
    drain(early.pair.server_mut(), now, 2);
    let server_key = early.server_key();
    assert!(early.pair.server().received[&(server_key, id)] == pattern(2000));
}

/// Noise in 0-RTT packets costs a bounded amount of memory and no connection.
#[test]
fn noise_in_early_packets_begins_nothing() {
    let mut early = Early::new(&setup(14, LINK));
    let (now, flight, _) = recorded(&mut early);
    let mut zero_rtt: Vec<Datagram> = copy(&flight[1..]);
    assert!(zero_rtt.iter().all(|d| d.bytes[0] & 0xf0 == 0xd0), "RFC 9000 §17.2.3: long headers of type 1");
    for n in 0..5000u32 {
        let mut noise = copy(&zero_rtt[..1]);
        noise[0].bytes[6..10].copy_from_slice(&n.to_be_bytes());
        early.pair.server_mut().handle(now, Input::Received(&mut noise));
    }
    assert!(drain(early.pair.server_mut(), now, 2).is_empty());
    assert_eq!(early.pair.server().node.endpoint().connections(), 0);
    // With altered packets beside good ones, the good ones are read.
    for datagram in &mut zero_rtt {
        let last = datagram.bytes.len() - 1;
        datagram.bytes[last] ^= 1;
    }
    let mut all = copy(&flight[..1]);
    all.append(&mut zero_rtt);
    all.extend(copy(&flight[1..]));
    early.pair.server_mut().handle(now, Input::Received(&mut all));
    drain(early.pair.server_mut(), now, 2);
    assert_eq!((told(early.pair.server()), early.pair.server().finished.len()), (vec![true], 1));
}
