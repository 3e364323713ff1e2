//! The cost of a packet: a batch of 44 full packets sealed, opened, acknowledged and settled, over the null session;
//! the same with 20 batches in flight, and with forward erasure correction offered, and used.

#![expect(missing_docs, reason = "criterion writes the main function")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quickset_base::{Batch, Datagram, Duration, Input, Machine, Path, Poll, Rng, Time};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    Algorithm, Chunk, ClientConfig, Connection, Dir, Endpoint, EndpointConfig, Fec, RetryPolicy, Route,
    ServerConfig, StreamId, TransportConfig,
};

fn address(n: u8) -> Path {
    Path::to(SocketAddr::from(([10, 0, 0, n], 4433)))
}

struct Pair {
    now: Time,
    client: Connection,
    server: Connection,
    out: Batch,
    inbox: Vec<Datagram>,
    /// Batches under way to the server, and how many there are to be.
    flight: VecDeque<Vec<Datagram>>,
    depth: usize,
    stream: Option<StreamId>,
    data: Bytes,
}

impl Pair {
    fn new(config: TransportConfig) -> Self {
        let transport = Arc::new(TransportConfig {
            mtu: 1472,
            congestion: Algorithm::Fixed(1_000_000_000_000),
            stream_window: 1 << 30,
            max_stream_window: 1 << 40,
            max_connection_window: 1 << 40,
            ..config
        });
        let endpoint = |n, server| {
            let crypto = Arc::new(NullSecrets(n));
            let config = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 10 };
            Endpoint::new(config, server, Rng::new(n))
        };
        let mut near = endpoint(1, None);
        let server = ServerConfig {
            crypto: Arc::new(NullServer::new(&[])),
            transport: transport.clone(),
            max_connections: 10,
            retry: RetryPolicy::Never,
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(10),
        };
        let mut far = endpoint(2, Some(server));
        let config = ClientConfig { crypto: Arc::new(NullClient::new(&[])), transport };
        let now = Time::from_millis(1);
        let (_, start) = near.connect(now, &config, address(2), "server", Vec::new()).expect("connects");
        let mut client = Connection::new(start).expect("begins");
        let mut out = Batch::new();
        while client.poll(now, &mut out) != Poll::Send {}
        let hello = Datagram { path: address(1), ecn: out.ecn, bytes: out.bytes().into() };
        let Route::Incoming(incoming) = far.route(now, hello) else { panic!("no incoming") };
        let Ok((_, start, first)) = far.accept(now, incoming) else { panic!("not accepted") };
        let mut server = Connection::new(start).expect("begins");
        server.handle(now, Input::Received(&mut vec![first]));
        let data = Bytes::from(vec![7; 1 << 20]);
        let mut pair = Self {
            now,
            client,
            server,
            out,
            inbox: Vec::new(),
            flight: VecDeque::new(),
            depth: 0,
            stream: None,
            data,
        };
        for _ in 0..10 {
            pair.turn();
        }
        assert!(pair.client.is_established() && pair.server.is_established());
        pair.stream = pair.client.open(Dir::Uni);
        pair
    }

    /// Both sides send what they have, one batch each.
    fn turn(&mut self) -> usize {
        self.now += Duration::from_micros(100);
        let sent = send(&mut self.client, self.now, address(1), &mut self.out, &mut self.inbox);
        if self.depth > 0 {
            let spare = if self.flight.len() < self.depth { None } else { self.flight.pop_front() };
            self.flight.push_back(std::mem::replace(&mut self.inbox, spare.unwrap_or_default()));
        }
        self.server.handle(self.now, Input::Received(&mut self.inbox));
        while let Some(id) = self.server.accept(Dir::Uni) {
            self.stream = Some(id);
        }
        if let Some(id) = self.stream {
            while let Ok(Chunk::Data(_)) = self.server.read(id, usize::MAX) {}
        }
        send(&mut self.server, self.now, address(2), &mut self.out, &mut self.inbox);
        self.client.handle(self.now, Input::Received(&mut self.inbox));
        sent
    }
}

fn send(from: &mut Connection, now: Time, path: Path, out: &mut Batch, inbox: &mut Vec<Datagram>) -> usize {
    loop {
        match from.poll(now, out) {
            Poll::Send => {
                let mut received: bytes::BytesMut = out.bytes().into();
                let (ecn, segment, count) = (out.ecn, out.segment(), out.count());
                while !received.is_empty() {
                    let bytes = received.split_to(segment.min(received.len()));
                    inbox.push(Datagram { path, ecn, bytes });
                }
                out.clear();
                return count;
            }
            Poll::Event => {
                while from.poll_event().is_some() {}
                while from.poll_signal().is_some() {}
            }
            Poll::Sleep(..) => return 0,
        }
    }
}

fn packets(c: &mut Criterion) {
    measure(c, "44 packets there, one acknowledgement back", TransportConfig::default(), 0);
    #[cfg(feature = "qlog")]
    measure(c, "the same, with traces of both ends", traced(), 0);
    let with = |protection: &str| {
        let protection = protection.parse().expect("a protection");
        TransportConfig { fec: Some(Fec { protection, ..Fec::default() }), ..TransportConfig::default() }
    };
    let offered = TransportConfig { fec: Some(Fec::default()), ..TransportConfig::default() };
    measure(c, "20 such batches in flight", TransportConfig::default(), FLIGHT);
    measure(c, "20 in flight, repair offered", offered, FLIGHT);
    for protection in ["rs:100/100", "rs:105/100", "adaptive:bulk"] {
        measure(c, &format!("20 in flight, {protection}"), with(protection), FLIGHT);
    }
}

fn measure(c: &mut Criterion, name: &str, config: TransportConfig, depth: usize) {
    let mut group = c.benchmark_group("datapath");
    let mut pair = Pair::new(config);
    pair.depth = depth;
    group.throughput(Throughput::Elements(44));
    group.bench_function(name, |b| {
        b.iter(|| {
            let id = pair.stream.expect("a stream");
            let _ = pair.client.write(id, &mut pair.data.slice(..44 * 1500));
            let sent = pair.turn();
            assert!(sent > 0, "nothing to send");
        });
    });
    group.finish();
}

/// Batches in flight: about as many packets as a fast path has.
const FLIGHT: usize = 20;

/// Traces that go nowhere: what is left is the cost of writing them.
#[cfg(feature = "qlog")]
fn traced() -> TransportConfig {
    use quickset_quic::qlog::{Output, Sinks, Subject};

    #[derive(Debug)]
    struct Nowhere;

    impl Sinks for Nowhere {
        fn open(&self, _: &Subject) -> Option<Output> {
            Some(Output { writer: Box::new(std::io::sink()), reference_time_ms: 0.0 })
        }
    }

    TransportConfig { qlog: Some(Arc::new(Nowhere)), ..TransportConfig::default() }
}

criterion_group!(benches, packets);
criterion_main!(benches);
