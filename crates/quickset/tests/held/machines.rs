//! Both sides as machines, in virtual time over a wire without delay: what each allocates is its own.

use std::sync::Arc;

use bytes::Bytes;
use quickset_base::{AddressPair, Batch, Datagram, Duration, Ecn, Input, Machine, Poll, Rng, Time};
use quickset_quic::{
    Chunk, ClientConfig, Dir, Endpoint, EndpointConfig, Event, Node, RetryPolicy, ServerConfig, StreamEvent,
    TransportConfig,
};
use quickset_tls::provider::default_provider;
use quickset_tls::{Client, EndpointSecrets, Server};
use rcgen::CertifiedKey;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use rustls::version::TLS13;

use super::held;

/// A node of clients, one of servers, and what each has allocated and not freed.
pub(crate) struct Machines {
    sides: [Held; 2],
    config: ClientConfig,
    now: Time,
}

struct Held {
    node: Node,
    path: AddressPair,
    /// Of every turn, so that none frees it elsewhere.
    out: Batch,
    connected: usize,
    bytes: isize,
}

const ADDRESSES: [&str; 2] = ["192.0.2.1:4000", "192.0.2.2:4433"];

impl Machines {
    pub(crate) fn new(transport: TransportConfig) -> Self {
        let CertifiedKey { cert, key_pair } =
            rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let transport = Arc::new(transport);
        let server = ServerConfig {
            crypto: Arc::new(Server::new(server_tls(cert.der(), &key_pair)).unwrap()),
            transport: transport.clone(),
            max_connections: 10_000,
            retry: RetryPolicy::Never,
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(100),
        };
        let config =
            ClientConfig { crypto: Arc::new(Client::new(client_tls(cert.der())).unwrap()), transport };
        let side = |at: usize, server| {
            let crypto = Arc::new(EndpointSecrets::new(&[at as u8; 32]));
            let of = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 10 };
            Held {
                node: Node::new(Endpoint::new(of, server, Rng::new(at as u64))),
                path: AddressPair::to(ADDRESSES[at].parse().unwrap()),
                out: Batch::new(),
                connected: 0,
                bytes: 0,
            }
        };
        Self { sides: [side(0, None), side(1, Some(server))], config, now: Time::from_millis(1) }
    }

    /// So many connections more, each through its handshake; then time passes in which nothing is sent but
    /// what the protocol owes.
    pub(crate) fn connect(&mut self, count: usize) {
        let whole = self.sides[0].connected + count;
        let to = self.sides[1].path;
        for _ in 0..count {
            let (now, config) = (self.now, &self.config);
            self.sides[0].act(|node, _| node.connect(now, config, to, "localhost").unwrap());
            self.pass(Duration::from_millis(2));
        }
        assert_eq!(self.sides.each_ref().map(|side| side.connected), [whole; 2]);
        self.pass(Duration::from_secs(5));
    }

    /// Each client sends so many bytes on each of so many streams at a time, which its server reads; then
    /// time passes.
    pub(crate) fn exchange(&mut self, streams: usize, bytes: usize) {
        let clients: Vec<_> = self.sides[0].node.keys().collect();
        for key in clients {
            self.sides[0].act(|node, _| {
                let connection = node.connection(key).unwrap();
                for _ in 0..streams {
                    let mut data = Bytes::from(vec![7; bytes]);
                    let id = connection.streams().open(Dir::Uni).unwrap();
                    let mut stream = connection.send_stream(id);
                    stream.write(&mut data).unwrap();
                    assert!(data.is_empty(), "the buffers take it at once");
                    stream.finish().unwrap();
                }
            });
            self.pass(Duration::from_millis(50));
        }
        self.pass(Duration::from_secs(5));
    }

    /// Bytes that the clients hold, and those that the servers do.
    pub(crate) fn bytes(&self) -> [isize; 2] {
        self.sides.each_ref().map(|side| side.bytes)
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let mut is_quiet = true;
            for at in 0..2 {
                let sent = self.sides[at].turn(self.now);
                is_quiet &= sent.is_empty();
                self.sides[1 - at].receive(self.now, &sent);
            }
            self.now += if is_quiet { Duration::from_millis(20) } else { Duration::from_millis(1) };
        }
    }
}

impl Held {
    fn act<T>(&mut self, act: impl FnOnce(&mut Node, &mut Batch) -> T) -> T {
        let before = held() as isize;
        let done = act(&mut self.node, &mut self.out);
        self.bytes += held() as isize - before;
        done
    }

    /// Datagrams are allocated by whom they come to.
    fn receive(&mut self, now: Time, sent: &[(AddressPair, Vec<u8>)]) {
        if sent.is_empty() {
            return;
        }
        let datagram = |(path, bytes): &(AddressPair, Vec<u8>)| Datagram {
            path: *path,
            ecn: Ecn::NotEct,
            bytes: bytes[..].into(),
        };
        self.act(|node, _| {
            let mut datagrams: Vec<_> = sent.iter().map(datagram).collect();
            node.handle(now, Input::Received(&mut datagrams));
        });
    }

    fn turn(&mut self, now: Time) -> Vec<(AddressPair, Vec<u8>)> {
        let mut sent = Vec::new();
        loop {
            match self.act(|node, out| node.poll(now, out)) {
                Poll::Send => {
                    sent.extend(self.out.segments().map(|bytes| (self.path, bytes.to_vec())));
                    self.out.clear();
                }
                Poll::Event => {
                    self.connected += self.act(|node, _| heed(node));
                }
                Poll::Sleep(..) => return sent,
            }
        }
    }
}

/// Reads what came. Returns how many connections were told that they are connected.
fn heed(node: &mut Node) -> usize {
    let mut connected = 0;
    while let Some((key, event)) = node.poll_event() {
        match event {
            Event::Connected => connected += 1,
            Event::Closed(why) => panic!("nothing ends them: {why}"),
            Event::Stream(event) => {
                let connection = node.connection(key).unwrap();
                let id = match event {
                    StreamEvent::Opened(dir) => connection.streams().accept(dir),
                    StreamEvent::Readable(id) => Some(id),
                    _ => None,
                };
                let Some(id) = id else { continue };
                while let Ok(Chunk::Data(_)) = connection.recv_stream(id).read(usize::MAX) {}
                // There may be others that were opened with it.
                while let Some(id) = connection.streams().accept(Dir::Uni) {
                    while let Ok(Chunk::Data(_)) = connection.recv_stream(id).read(usize::MAX) {}
                }
            }
            _ => {}
        }
    }
    connected
}

fn server_tls(certificate: &CertificateDer<'static>, key: &rcgen::KeyPair) -> Arc<rustls::ServerConfig> {
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())
        .unwrap();
    tls.alpn_protocols = vec![b"test".to_vec()];
    Arc::new(tls)
}

fn client_tls(certificate: &CertificateDer<'static>) -> Arc<rustls::ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"test".to_vec()];
    Arc::new(tls)
}
