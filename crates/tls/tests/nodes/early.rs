//! Early data through TLS: tickets that are good once and for a while, and what a recording is worth.

use std::sync::atomic::{AtomicU64, Ordering};

use quickset_base::Ecn;
use quickset_quic::{Dir, EarlyData, EarlyFate, Version};
use quickset_tls::provider::kx_group;
use quickset_tls::{SessionTicket, TicketKey, TicketMemory, TicketStore};
use rustls::pki_types::UnixTime;
use rustls::server::ServerSessionMemoryCache;
use rustls::time_provider::TimeProvider;

use super::*;

/// A clock that stands where it is put.
#[derive(Debug, Default)]
struct Clock(AtomicU64);

impl TimeProvider for Clock {
    fn current_time(&self) -> Option<UnixTime> {
        let since = std::time::Duration::from_secs(1_700_000_000 + self.0.load(Ordering::Relaxed));
        Some(UnixTime::since_unix_epoch(since))
    }
}

/// A world whose two clocks can be moved, and a client that was connected before.
struct Early {
    world: World,
    client: ClientConfig,
    tickets: Arc<TicketMemory>,
    clocks: [Arc<Clock>; 2],
}

impl Early {
    fn new(retry: RetryPolicy, groups: &[&'static dyn rustls::crypto::SupportedKxGroup]) -> Self {
        let clocks: [Arc<Clock>; 2] = Default::default();
        let (clock, groups) = (clocks[1].clone(), groups.to_vec());
        let world = World::with(retry, |tls, transport| {
            tls.max_early_data_size = u32::MAX;
            tls.session_storage = ServerSessionMemoryCache::new(100);
            tls.time_provider = clock;
            transport.early_data = Some(EarlyData::default());
        });
        let mut provider = default_provider();
        if !groups.is_empty() {
            provider.kx_groups = groups;
        }
        let mut roots = RootCertStore::empty();
        roots.add(world.trusted.clone()).unwrap();
        let details = Arc::new(provider);
        let mut tls = rustls::ClientConfig::builder_with_details(details, clocks[0].clone())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"test".to_vec()];
        tls.enable_early_data = true;
        let tickets = Arc::new(TicketMemory::default());
        let client = ClientConfig {
            crypto: Arc::new(Client::new(Arc::new(tls)).unwrap().with_tickets(tickets.clone(), b"roots")),
            transport: Arc::new(TransportConfig::fixed_mtu(1200).with_early_data(EarlyData::default())),
        };
        let mut early = Self { world, client, tickets, clocks };
        let key = early.connect();
        early.world.run();
        assert!(early.world.connected(0));
        let now = early.world.now;
        early.world.nodes[0].connection(key).unwrap().close(now, 0, b"");
        early.forget();
        early
    }

    fn connect(&mut self) -> quickset_quic::ConnectionKey {
        let to = AddressPair::to(ADDRESSES[1].parse().unwrap());
        self.world.nodes[0].connect(self.world.now, &self.client, to, "localhost").unwrap()
    }

    /// All connections end, and what was told is forgotten.
    fn forget(&mut self) {
        while self.world.nodes.iter().any(|node| node.keys().count() > 0) {
            self.world.run();
        }
        self.world.events = Default::default();
    }

    /// Begins a connection with early data, and returns its first flight.
    fn flight(&mut self) -> (quickset_quic::ConnectionKey, Vec<Datagram>) {
        let key = self.connect();
        let connection = self.world.nodes[0].connection(key).unwrap();
        if let Some(id) = connection.streams().open(Dir::Uni) {
            connection.send_stream(id).write(&mut vec![7; 3000].into()).unwrap();
            connection.send_stream(id).finish().unwrap();
        }
        (key, self.world.turn(0))
    }

    /// The server gets these datagrams. True when it takes early data.
    fn deliver(&mut self, flight: &[Datagram]) -> bool {
        self.world.events[1].clear();
        let copy = |d: &Datagram| Datagram { path: d.path, ecn: Ecn::NotEct, bytes: d.bytes[..].into() };
        let mut flight: Vec<Datagram> = flight.iter().map(copy).collect();
        let now = self.world.now;
        self.world.nodes[1].handle(now, Input::Received(&mut flight));
        let mut answer = self.world.turn(1);
        self.world.nodes[0].handle(now, Input::Received(&mut answer));
        told(&self.world, 1) == [true]
    }
}

fn told(world: &World, at: usize) -> Vec<bool> {
    let early = |event: &Event| match event {
        Event::EarlyData { accepted } => Some(*accepted),
        _ => None,
    };
    world.events[at].iter().filter_map(early).collect()
}

/// RFC 9001 §4.5.
#[test]
fn a_second_connection_begins_with_data() {
    for retry in [RetryPolicy::Never, RetryPolicy::Always] {
        let mut early = Early::new(retry, &[]);
        let (key, flight) = early.flight();
        assert!(flight.len() >= 3, "3000 bytes beside the hello");
        assert_eq!(early.world.nodes[0].connection(key).unwrap().early_data(), EarlyFate::Undecided);
        early.deliver(&flight);
        early.world.run();
        assert!(early.world.connected(0) && early.world.connected(1), "{retry:?}: {:?}", early.world.events);
        assert_eq!((told(&early.world, 0), told(&early.world, 1)), (vec![true], vec![true]), "{retry:?}");
        let server = early.world.nodes[1].keys().next().unwrap();
        let connection = early.world.nodes[1].connection(server).unwrap();
        let id = connection.streams().accept(Dir::Uni).unwrap();
        assert!(connection.stream(id).came_early());
        // RFC 9001 §4.6: with each connection there are new tickets.
        early.forget();
        let (_, flight) = early.flight();
        early.deliver(&flight);
        early.world.run();
        assert_eq!(told(&early.world, 0), [true], "{retry:?}");
    }
}

/// Early data beside a hello of two datagrams, of which either comes first; what came before the hello was
/// whole waits.
#[cfg(feature = "aws-lc-rs")]
#[test]
fn a_large_hello_has_early_data_behind_it() {
    for order in [[0, 1, 2, 3], [1, 0, 2, 3], [2, 3, 1, 0], [3, 0, 2, 1], [1, 2, 3, 0]] {
        let mut early = Early::new(RetryPolicy::Never, &large::GROUPS);
        let (key, flight) = early.flight();
        assert_eq!(early.world.nodes[0].connection(key).unwrap().early_data(), EarlyFate::Undecided);
        assert!(flight[..2].iter().all(|datagram| datagram.bytes.len() >= 1200), "the hello");
        assert!(flight.len() >= 4, "3000 bytes beside it");
        assert!(early.deliver(&large::copies(&flight, &order)), "{order:?}");
        early.world.run();
        assert!(early.world.connected(0) && early.world.connected(1), "{order:?}: {:?}", early.world.events);
        assert_eq!(told(&early.world, 0), [true], "{order:?}");
        let server = early.world.nodes[1].keys().next().unwrap();
        let connection = early.world.nodes[1].connection(server).unwrap();
        let id = connection.streams().accept(Dir::Uni).unwrap();
        assert!(connection.stream(id).came_early(), "{order:?}");
    }
}

/// Half of the hello is lost, and comes again beside its early data.
#[cfg(feature = "aws-lc-rs")]
#[test]
fn early_data_outlives_half_of_its_hello() {
    for lost in 0..2 {
        let mut early = Early::new(RetryPolicy::Never, &large::GROUPS);
        let (_, mut flight) = early.flight();
        flight.remove(lost);
        early.deliver(&flight);
        early.world.run();
        assert!(early.world.connected(0) && early.world.connected(1), "{lost}: {:?}", early.world.events);
        assert_eq!((told(&early.world, 0), told(&early.world, 1)), (vec![true], vec![true]), "{lost}");
    }
}

/// RFC 9001 §9.2.
#[test]
fn a_recorded_flight_is_good_once() {
    let mut early = Early::new(RetryPolicy::Never, &[]);
    let (_, flight) = early.flight();
    assert!(early.deliver(&flight));
    early.world.run();
    early.forget();
    for _ in 0..3 {
        assert!(!early.deliver(&flight), "the ticket was used");
        early.forget();
    }
    // Two at a time, from two places: one is taken.
    let (_, flight) = early.flight();
    let elsewhere = AddressPair::to("192.0.2.77:1".parse().unwrap());
    let stolen: Vec<Datagram> =
        flight.iter().map(|d| Datagram { path: elsewhere, ecn: d.ecn, bytes: d.bytes[..].into() }).collect();
    assert!(early.deliver(&stolen));
    assert!(!early.deliver(&flight));
}

#[test]
fn a_restarted_server_takes_nothing_and_connects() {
    let mut early = Early::new(RetryPolicy::Never, &[]);
    // Another key as well: what was recorded for the one is of no use to the other.
    let other = Early::new(RetryPolicy::Never, &[]);
    let (_, flight) = early.flight();
    let mut restarted = Early { client: early.client.clone(), ..other };
    assert!(!restarted.deliver(&flight));
}

/// RFC 8446 §8.3: what is late by more than a minute was kept back by somebody.
#[test]
fn a_flight_that_was_kept_back_is_stale() {
    for (late, fresh) in [(0, true), (30, true), (75, false), (3600, false)] {
        let mut early = Early::new(RetryPolicy::Never, &[]);
        early.clocks.iter().for_each(|clock| clock.0.store(1000, Ordering::Relaxed));
        let (key, flight) = early.flight();
        early.clocks[1].0.fetch_add(late, Ordering::Relaxed);
        assert_eq!(early.deliver(&flight), fresh, "{late} s");
        early.world.run();
        assert_eq!(told(&early.world, 0), [fresh], "{late} s");
        let fate = early.world.nodes[0].connection(key).unwrap().early_data();
        assert_eq!(fate, if fresh { EarlyFate::Accepted } else { EarlyFate::Rejected });
        // In either case the data is there.
        let server = early.world.nodes[1].keys().next().unwrap();
        let connection = early.world.nodes[1].connection(server).unwrap();
        let id = connection.streams().accept(Dir::Uni).unwrap();
        assert_eq!(connection.stream(id).came_early(), fresh);
    }
}

/// RFC 9001 §4.6.2: a HelloRetryRequest rejects early data, which comes again behind the handshake.
/// RFC 9001 §4.7.
#[test]
fn a_hello_retry_request_rejects() {
    // The client guesses P-384 first; the server takes X25519 alone.
    let mut early = Early::new(RetryPolicy::Never, &[kx_group::SECP384R1, kx_group::X25519]);
    let strict = World::with(RetryPolicy::Never, |tls, transport| {
        let mut provider = default_provider();
        provider.kx_groups = vec![kx_group::X25519];
        *tls = rustls::ServerConfig::builder_with_details(Arc::new(provider), early.clocks[1].clone())
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(tls.cert_resolver.clone());
        tls.alpn_protocols = vec![b"test".to_vec()];
        tls.max_early_data_size = u32::MAX;
        transport.early_data = Some(EarlyData::default());
    });
    early.world.nodes[1] = strict.nodes.into_iter().nth(1).unwrap();
    let (key, flight) = early.flight();
    early.deliver(&flight);
    // At once, and not only at the end of a handshake that may never come.
    early.world.turn(0);
    assert_eq!(early.world.nodes[0].connection(key).unwrap().early_data(), EarlyFate::Rejected);
    assert_eq!(told(&early.world, 0), [false]);
}

#[derive(Debug)]
struct Spy(TicketMemory, std::sync::Mutex<Vec<TicketKey>>);

impl TicketStore for Spy {
    fn put(&self, key: &TicketKey, ticket: SessionTicket) {
        assert_eq!(format!("{ticket:?}"), "SessionTicket(..)", "tickets are secrets");
        self.1.lock().unwrap().push(key.clone());
        self.0.put(key, ticket);
    }

    fn take(&self, key: &TicketKey) -> Option<SessionTicket> {
        self.0.take(key)
    }
}

#[test]
fn tickets_are_kept_by_server_protocol_and_trust() {
    let early = Early::new(RetryPolicy::Never, &[]);
    let key = |server: &str, alpn: &str, verifier: &str| TicketKey {
        server: server.into(),
        version: Version::V1,
        alpn: vec![alpn.into()],
        verifier: verifier.into(),
    };
    let right = key("localhost", "test", "roots");
    for wrong in [
        key("elsewhere", "test", "roots"),
        key("localhost", "other", "roots"),
        key("localhost", "test", "anybody"),
        // RFC 9369 §5.
        TicketKey { version: Version::V2, ..right.clone() },
    ] {
        assert!(early.tickets.take(&wrong).is_none());
    }
    let spy = Spy(TicketMemory::default(), std::sync::Mutex::default());
    let mut count = 0;
    while let Some(ticket) = early.tickets.take(&right) {
        spy.put(&right, ticket);
        count += 1;
    }
    assert!((1..=4).contains(&count), "{count}");
    // Four of each key, whatever a server gives; the newest come first.
    assert_eq!(spy.1.lock().unwrap().len(), count);
    assert_eq!(format!("{:?}", spy.0), "TicketMemory(..)");
    assert!((0..count).all(|_| spy.take(&right).is_some()) && spy.take(&right).is_none(), "each once");
}

/// RFC 9369 §5: a session is of the version that it was begun in.
#[test]
fn early_data_is_in_the_version_of_its_ticket() {
    let mut early = Early::new(RetryPolicy::Never, &[]);
    let mut transport = TransportConfig::clone(&early.client.transport);
    transport.versions = vec![Version::V2];
    early.client.transport = Arc::new(transport);
    // There are tickets of version 1.
    let (key, flight) = early.flight();
    assert_eq!(early.world.nodes[0].connection(key).unwrap().early_data(), EarlyFate::None);
    assert!(!early.deliver(&flight));
    early.world.run();
    assert!(early.world.connected(0) && early.world.connected(1), "{:?}", early.world.events);
    let now = early.world.now;
    let connection = early.world.nodes[0].connection(key).unwrap();
    assert_eq!(connection.version(), Version::V2);
    connection.close(now, 0, b"");
    early.forget();
    // Now there are some of version 2.
    let (key, flight) = early.flight();
    assert_eq!(early.world.nodes[0].connection(key).unwrap().early_data(), EarlyFate::Undecided);
    assert!(early.deliver(&flight));
    early.world.run();
    let connection = early.world.nodes[0].connection(key).unwrap();
    assert_eq!((connection.version(), connection.early_data()), (Version::V2, EarlyFate::Accepted));
}
