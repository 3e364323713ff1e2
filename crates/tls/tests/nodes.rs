//! Whole nodes that connect through TLS, in virtual time and over a wire without delay.

#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

#[path = "nodes/early.rs"]
mod early;
// Of the groups of ring none has a share so large.
#[cfg(feature = "aws-lc-rs")]
#[path = "nodes/large.rs"]
mod large;

use std::sync::Arc;

use quickset_base::{AddressPair, Batch, Datagram, Duration, Ecn, Input, Machine, Poll, Rng, Time};
use quickset_quic::{
    ClientConfig, Closed, Endpoint, EndpointConfig, Event, Gate, Node, RetryPolicy, ServerConfig,
    TransportConfig,
};
use quickset_tls::provider::default_provider;
use quickset_tls::{Client, EndpointSecrets, Server};
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;

/// A server, what it is trusted by, and a client.
struct World {
    nodes: [Node; 2],
    trusted: CertificateDer<'static>,
    now: Time,
    events: [Vec<Event>; 2],
}

const ADDRESSES: [&str; 2] = ["192.0.2.1:4000", "192.0.2.2:4433"];

fn endpoint(server: Option<ServerConfig>, seed: u8) -> Endpoint {
    let crypto = Arc::new(EndpointSecrets::new(&[seed; 32]));
    let config = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 10 };
    Endpoint::new(config, server, Rng::new(u64::from(seed)))
}

impl World {
    fn new(retry: RetryPolicy) -> Self {
        Self::with(retry, |_, _| {})
    }

    /// With changes to the server's configuration.
    fn with(
        retry: RetryPolicy,
        change: impl FnOnce(&mut rustls::ServerConfig, &mut TransportConfig),
    ) -> Self {
        Self::behind(None, retry, change)
    }

    /// The same behind a gate.
    fn behind(
        gate: Option<Gate>,
        retry: RetryPolicy,
        change: impl FnOnce(&mut rustls::ServerConfig, &mut TransportConfig),
    ) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let trusted = made.cert.der().clone();
        let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![trusted.clone()],
                PrivatePkcs8KeyDer::from(made.key_pair.serialize_der()).into(),
            )
            .unwrap();
        tls.alpn_protocols = vec![b"test".to_vec()];
        let mut transport = TransportConfig::fixed_mtu(1200);
        change(&mut tls, &mut transport);
        let server = ServerConfig {
            crypto: Arc::new(Server::new(Arc::new(tls)).unwrap()),
            transport: Arc::new(transport),
            max_connections: 10,
            retry,
            retry_token_lifetime: Duration::from_secs(10),
            gate,
            token_lifetime: Duration::from_secs(100),
        };
        let nodes = [Node::new(endpoint(None, 1)), Node::new(endpoint(Some(server), 2))];
        Self { nodes, trusted, now: Time::from_millis(1), events: Default::default() }
    }

    fn connect(&mut self, alpn: &str) {
        let mut roots = RootCertStore::empty();
        roots.add(self.trusted.clone()).unwrap();
        let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_protocol_versions(&[&TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let config = ClientConfig {
            crypto: Arc::new(Client::new(Arc::new(tls)).unwrap()),
            transport: Arc::new(TransportConfig::fixed_mtu(1200)),
        };
        let to = AddressPair::to(ADDRESSES[1].parse().unwrap());
        self.nodes[0].connect(self.now, &config, to, "localhost").unwrap();
    }

    /// Lets both nodes speak for a second.
    fn run(&mut self) {
        let end = self.now + Duration::from_secs(1);
        while self.now < end {
            for at in 0..2 {
                let mut sent = self.turn(at);
                if !sent.is_empty() {
                    self.nodes[1 - at].handle(self.now, Input::Received(&mut sent));
                }
            }
            self.now += Duration::from_millis(1);
        }
    }

    /// Polls one node until it sleeps, and returns what it sent.
    fn turn(&mut self, at: usize) -> Vec<Datagram> {
        let path = AddressPair::to(ADDRESSES[at].parse().unwrap());
        let (mut sent, mut out) = (Vec::new(), Batch::new());
        loop {
            match self.nodes[at].poll(self.now, &mut out) {
                Poll::Send => {
                    let arrives = |bytes: &[u8]| Datagram { path, ecn: Ecn::NotEct, bytes: bytes.into() };
                    sent.extend(out.segments().map(arrives));
                    out.clear();
                }
                Poll::Event => {
                    let events = std::iter::from_fn(|| self.nodes[at].poll_event());
                    self.events[at].extend(events.map(|(_, event)| event));
                }
                Poll::Sleep(..) => return sent,
            }
        }
    }

    fn connected(&self, at: usize) -> bool {
        self.events[at].contains(&Event::Connected)
    }
}

#[test]
fn nodes_connect() {
    for retry in [RetryPolicy::Never, RetryPolicy::Always] {
        let mut world = World::new(retry);
        world.connect("test");
        world.run();
        assert!(world.connected(0) && world.connected(1), "{retry:?}: {:?}", world.events);
        let counters = world.nodes[1].endpoint().counters();
        assert_eq!(counters.accepted, 1);
        assert_eq!(counters.retries, u64::from(retry == RetryPolicy::Always));
        let token = |event: &Event| matches!(event, Event::NewToken(_));
        assert_eq!(world.events[0].iter().filter(|e| token(e)).count(), 2);
    }
}

#[test]
fn a_stranger_is_told_why() {
    let mut world = World::new(RetryPolicy::Never);
    world.connect("another");
    world.run();
    let why = world.events[0].iter().find_map(|event| match event {
        Event::Closed(Closed::ByPeer(error)) => Some(error.code.0),
        _ => None,
    });
    assert_eq!(why, Some(0x178), "RFC 9001 §8.1: {:?}", world.events);
    // Whoever reads it looks no number up, on either side.
    for events in &world.events {
        let words = events.iter().find_map(|event| match event {
            Event::Closed(why) => Some(why.to_string()),
            _ => None,
        });
        assert!(
            words.as_ref().is_some_and(|words| words.contains("no_application_protocol (120)")),
            "{words:?}"
        );
    }
}
