//! Tickets and early data at several shards: what one gave is good at all, and once.

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use quickset_base::{AddressPair, Batch};
use quickset_quic::{ClientConfig, EarlyData, ServerConfig, TransportConfig};
use quickset_tls::{TicketMemory, provider::default_provider};
use rustls::RootCertStore;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::version::TLS13;

use super::over_loopback::{SHARDS, Unsteered, config, loopback, over_port, server_config, several, soon};
use crate::connection::Connection;
use crate::endpoint::Endpoint;
use crate::port::{PortCalls, SystemCalls};
use crate::runtime::Runtime;
use crate::socket::{DatagramSocket, ReceiveBuffers, ReceivedCount, SocketConfig, UnsentBatch};
use crate::tokio_runtime::TokioRuntime;

/// Both sides with TLS and early data; handshakes that go nowhere end soon.
fn both() -> (ServerConfig, ClientConfig) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.key_pair.serialize_der());
    let provider = Arc::new(default_provider());
    let mut far = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key.into())
        .unwrap();
    far.alpn_protocols = vec![b"test".to_vec()];
    far.max_early_data_size = u32::MAX;
    let mut roots = RootCertStore::empty();
    roots.add(made.cert.der().clone()).unwrap();
    let mut near = rustls::ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    near.alpn_protocols = vec![b"test".to_vec()];
    near.enable_early_data = true;
    let early = TransportConfig::default().with_early_data(EarlyData::default());
    let hasty = early.clone().with_handshake_timeout(Duration::from_secs(3));
    let near = quickset_tls::Client::new(Arc::new(near)).unwrap();
    let server = ServerConfig {
        crypto: Arc::new(quickset_tls::Server::new(Arc::new(far)).unwrap()),
        transport: Arc::new(hasty),
        ..server_config(1000)
    };
    let client = ClientConfig {
        crypto: Arc::new(near.with_tickets(Arc::new(TicketMemory::default()), b"")),
        transport: Arc::new(early),
    };
    (server, client)
}

/// A server of several shards that sends back what comes on each stream, and whether it came early.
struct EarlyServer {
    endpoint: Endpoint,
    /// Streams that came early.
    early: Arc<AtomicUsize>,
}

impl EarlyServer {
    fn start(is_steered: bool, server: ServerConfig) -> Self {
        let calls: &dyn PortCalls = if is_steered { &SystemCalls } else { &Unsteered };
        let endpoint = over_port(Arc::new(TokioRuntime::current()), calls, &several(), server).unwrap();
        let early = Arc::new(AtomicUsize::new(0));
        let (accepting, counted) = (endpoint.clone(), early.clone());
        tokio::spawn(async move {
            while let Some(connection) = accepting.accept().await {
                tokio::spawn(answer(connection, counted.clone()));
            }
        });
        Self { endpoint, early }
    }

    fn live(&self) -> Box<[usize]> {
        self.endpoint.hub().lobby().live.clone()
    }

    /// Which shards have more connections than `before`.
    fn came_to(&self, before: &[usize]) -> Vec<usize> {
        let live = self.live();
        (0..SHARDS).filter(|shard| live[*shard] > before[*shard]).collect()
    }
}

async fn answer(connection: Connection, early: Arc<AtomicUsize>) {
    while let Ok((mut send, mut recv)) = connection.accept_bi().await {
        if recv.is_early() {
            early.fetch_add(1, Ordering::SeqCst);
        }
        let Ok(mut all) = recv.read_to_end(1 << 20).await else { return };
        all.push(u8::from(recv.is_early()));
        if send.write_all(&all).await.is_err() || send.finish().is_err() {
            return;
        }
    }
}

async fn ask(connection: &Connection, question: &[u8]) -> bool {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(question).await.unwrap();
    send.finish().unwrap();
    let mut answer = recv.read_to_end(1 << 20).await.unwrap();
    let is_early = answer.pop() == Some(1);
    assert_eq!(answer, question);
    is_early
}

fn client() -> Endpoint {
    Endpoint::bind(loopback(), &SocketConfig::default(), config(2), None).unwrap()
}

/// RFC 8446 §8.1: the register of tickets is one of all shards. On one thread: else a server may have
/// answered before there is anything to be early.
#[tokio::test]
async fn a_ticket_of_one_shard_is_taken_by_another() {
    for is_steered in [cfg!(target_os = "linux"), false] {
        let (server, near) = both();
        let server = EarlyServer::start(is_steered, server);
        let (mut from, mut ways) = (None, BTreeSet::new());
        let mut early = 0;
        // Whichever shard comes next is chance: until one has taken what each of two others gave.
        while ways.iter().filter(|(from, to)| from != to).count() < 4 {
            let (endpoint, before) = (client(), server.live());
            let connecting = endpoint.connect(server.endpoint.local_addr(), "localhost", &near);
            let connection = match (from, connecting.into_early()) {
                (None, Err(connecting)) => soon(connecting).await.unwrap(),
                (Some(_), Ok(connection)) => connection,
                (from, _) => panic!("begun early: {}", from.is_none()),
            };
            let is_early = soon(ask(&connection, &[7; 2000])).await;
            let is_accepted = soon(connection.accepted_early()).await;
            assert_eq!([is_early, is_accepted], [from.is_some(); 2], "the ticket is of {from:?}");
            soon(connection.connected()).await.unwrap();
            assert!(!soon(ask(&connection, b"tickets come before this answer")).await);
            let to = server.came_to(&before);
            assert_eq!(to.len(), 1, "{to:?}");
            early += usize::from(from.is_some());
            ways.extend(from.replace(to[0]).map(|from| (from, to[0])));
            connection.close(0, b"");
            soon(server.endpoint.wait_idle()).await;
            assert!(early < 200, "{ways:?}");
        }
        assert_eq!(server.early.load(Ordering::SeqCst), early);
    }
}

/// A socket that keeps what it is to send, while it does not send it.
#[derive(Debug)]
struct Recorder {
    inner: Arc<dyn DatagramSocket>,
    keeps: AtomicBool,
    kept: Mutex<Vec<Vec<u8>>>,
}

impl DatagramSocket for Recorder {
    fn local_addr(&self) -> SocketAddr {
        self.inner.local_addr()
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        buffers: &mut ReceiveBuffers,
        hurry: bool,
    ) -> Poll<std::io::Result<ReceivedCount>> {
        self.inner.poll_recv(cx, buffers, hurry)
    }

    fn poll_send(&self, cx: &mut Context<'_>, batch: &Batch) -> Poll<Result<(), UnsentBatch>> {
        if !self.keeps.load(Ordering::SeqCst) {
            return self.inner.poll_send(cx, batch);
        }
        self.kept.lock().unwrap().extend(batch.segments().map(<[u8]>::to_vec));
        Poll::Ready(Ok(()))
    }

    fn send_response(&self, path: &AddressPair, bytes: &[u8]) -> std::io::Result<()> {
        self.inner.send_response(path, bytes)
    }
}

/// RFC 9001 §9.2: a first flight that was recorded on its way comes from many addresses, all at once and
/// later. Where the system goes by addresses it gets to many shards; one of all takes its early data.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recorded_flight_is_read_by_one_shard_and_once() {
    for is_steered in [cfg!(target_os = "linux"), false] {
        let (far, near) = both();
        let server = EarlyServer::start(is_steered, far);
        let address = server.endpoint.local_addr();
        let runtime = Arc::new(TokioRuntime::current());
        let socket = SocketConfig::default();
        let inner = runtime.wrap(socket.bind(loopback()).unwrap(), &socket).unwrap();
        let recorder = Arc::new(Recorder { inner, keeps: AtomicBool::new(false), kept: Mutex::default() });
        let endpoint = Endpoint::over(runtime, recorder.clone(), config(2), None).unwrap();
        let first = soon(endpoint.connect(address, "localhost", &near)).await.unwrap();
        assert!(!soon(ask(&first, b"for a ticket")).await);
        first.close(0, b"");
        soon(endpoint.wait_idle()).await;
        soon(server.endpoint.wait_idle()).await;

        recorder.keeps.store(true, Ordering::SeqCst);
        let victim = endpoint.connect(address, "localhost", &near).into_early().expect("it has a ticket");
        let (mut send, _recv) = victim.open_bi().await.unwrap();
        send.write_all(&[7; 3000]).await.unwrap();
        send.finish().unwrap();
        let flight = soon(async {
            loop {
                let kept = recorder.kept.lock().unwrap().clone();
                // The hello fills two datagrams at most, and so does what 3000 bytes leave of three.
                if kept.len() >= 4 {
                    return kept;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        let before = server.live();
        let mut thieves: Vec<UdpSocket> = (0..24).map(|_| UdpSocket::bind(loopback()).unwrap()).collect();
        let mut shards = BTreeSet::new();
        for round in 0..20 {
            for thief in &thieves {
                for datagram in &flight {
                    thief.send_to(datagram, address).unwrap();
                }
            }
            let mut came = BTreeSet::new();
            soon(async {
                // What was refused early data waits for the rest of a handshake, which never comes.
                while came.is_empty() || server.endpoint.connections() > 0 {
                    came.extend(server.came_to(&before));
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            })
            .await;
            assert_eq!(server.early.load(Ordering::SeqCst), 1, "round {round}");
            shards.extend(came);
            // The shard that the id names may have been the first, and have had all of it handed over.
            if round > 0 && (is_steered || shards.len() > 1) {
                break;
            }
            thieves.rotate_left(5);
        }
        assert_eq!(shards.len() > 1, !is_steered, "{shards:?}");
        victim.close(0, b"");
    }
}
