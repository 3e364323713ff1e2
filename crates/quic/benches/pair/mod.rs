//! Two connections beside each other, over the null session: what the cost of a packet is measured with.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use quickset_base::{AddressPair, Batch, Datagram, Duration, Input, Machine, Poll, Rng, Time};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    Algorithm, Chunk, ClientConfig, Connection, DatagramRoute, Dir, Endpoint, EndpointConfig, RetryPolicy,
    ServerConfig, StreamId, TransportConfig,
};

fn address(n: u8) -> AddressPair {
    AddressPair::to(SocketAddr::from(([10, 0, 0, n], 4433)))
}

/// A client with a stream to a server, and a wire on which nothing is lost and that takes no time.
pub(crate) struct Pair {
    now: Time,
    client: Connection,
    server: Connection,
    out: Batch,
    inbox: Vec<Datagram>,
    /// Batches under way to the server, and how many there are to be.
    flight: VecDeque<Vec<Datagram>>,
    pub(crate) depth: usize,
    stream: Option<StreamId>,
}

impl Pair {
    /// Connected, with a stream that nothing was written to.
    pub(crate) fn new(config: TransportConfig) -> Self {
        let transport = Arc::new(
            config
                .with_mtu(1472)
                .with_congestion(Algorithm::Fixed(1_000_000_000_000))
                .with_stream_window(1 << 30)
                .with_max_stream_window(1 << 40)
                .with_max_connection_window(1 << 40),
        );
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
        let DatagramRoute::Incoming(incoming) = far.route(now, hello) else { panic!("no incoming") };
        let Ok((_, start, first)) = far.accept(now, incoming) else { panic!("not accepted") };
        let mut server = Connection::new(start).expect("begins");
        server.handle(now, Input::Received(&mut vec![first]));
        let mut pair = Self {
            now,
            client,
            server,
            out,
            inbox: Vec::new(),
            flight: VecDeque::new(),
            depth: 0,
            stream: None,
        };
        for _ in 0..10 {
            pair.turn();
        }
        assert!(pair.client.is_established() && pair.server.is_established());
        pair.stream = pair.client.streams().open(Dir::Uni);
        pair
    }

    /// The client writes as much as a batch takes.
    pub(crate) fn write(&mut self) {
        let id = self.stream.expect("a stream");
        // What there is no room for it writes the next time.
        let _ = self.client.send_stream(id).write(&mut Bytes::from_static(&DATA));
    }

    /// Both sides send what they have, one batch each.
    pub(crate) fn turn(&mut self) -> usize {
        let sent = self.send();
        self.receive();
        self.answer();
        self.settle();
        sent
    }

    /// The client's batch; how many packets.
    pub(crate) fn send(&mut self) -> usize {
        self.now += Duration::from_micros(100);
        let sent = send(&mut self.client, self.now, address(1), &mut self.out, &mut self.inbox);
        if self.depth > 0 {
            let spare = if self.flight.len() < self.depth { None } else { self.flight.pop_front() };
            self.flight.push_back(std::mem::replace(&mut self.inbox, spare.unwrap_or_default()));
        }
        sent
    }

    /// The server has a batch, and reads what is in it.
    pub(crate) fn receive(&mut self) {
        self.server.handle(self.now, Input::Received(&mut self.inbox));
        while let Some(id) = self.server.streams().accept(Dir::Uni) {
            self.stream = Some(id);
        }
        if let Some(id) = self.stream {
            while let Ok(Chunk::Data(_)) = self.server.recv_stream(id).read(usize::MAX) {}
        }
    }

    /// The server's batch.
    pub(crate) fn answer(&mut self) {
        send(&mut self.server, self.now, address(2), &mut self.out, &mut self.inbox);
    }

    /// The client has the server's batch.
    pub(crate) fn settle(&mut self) {
        self.client.handle(self.now, Input::Received(&mut self.inbox));
    }
}

fn send(
    from: &mut Connection,
    now: Time,
    path: AddressPair,
    out: &mut Batch,
    inbox: &mut Vec<Datagram>,
) -> usize {
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

/// As much as a batch takes.
static DATA: [u8; 44 * 1500] = [7; 44 * 1500];
