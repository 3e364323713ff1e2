//! Servers behind a load balancer that goes by what connection ids say, and by nothing else.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use quickset_base::Rng;
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    ClientConfig, Closed, ConnectionId, ConnectionIds, EndpointConfig, RetryPolicy, ServerConfig,
    TransportConfig,
};
use tokio::net::UdpSocket;

use super::over_loopback::{
    Unsteered, client_config, clients_come_and_move, config, is_echoed, loopback, over_port, serve,
    server_config, several, soon,
};
use crate::endpoint::Endpoint;
use crate::port::{PortCalls, SystemCalls};
use crate::socket::SocketConfig;
use crate::tokio_runtime::TokioRuntime;

/// Ids that name a server: the first byte says that they do, and the next, by a secret, which.
#[derive(Debug)]
struct ServerIds(u8);

impl ConnectionIds for ServerIds {
    fn id_len(&self) -> usize {
        9
    }

    fn draw(&self, rng: &mut Rng) -> ConnectionId {
        let mut id = [0; 9];
        rng.fill(&mut id);
        id[0] = MARK;
        id[2] = id[1] ^ self.0 ^ 0x5a;
        ConnectionId::new(&id).unwrap()
    }
}

const MARK: u8 = 0x42;
const SERVERS: u8 = 2;

/// The server that a datagram's id names; `None` for a client's own.
fn server_of(datagram: &[u8]) -> Option<u8> {
    let id = if *datagram.first()? & 0x80 == 0 { datagram.get(1..)? } else { datagram.get(6..)? };
    let server = *id.get(1)? ^ *id.get(2)? ^ 0x5a;
    (id[0] == MARK && server < SERVERS).then_some(server)
}

/// What passes datagrams on between clients and servers.
struct IdBalancer {
    address: SocketAddr,
    /// What names a server goes to another.
    errs: Arc<AtomicBool>,
}

impl IdBalancer {
    async fn before(servers: [SocketAddr; SERVERS as usize]) -> Self {
        let front = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
        let (address, errs) = (front.local_addr().unwrap(), Arc::new(AtomicBool::new(false)));
        let is_wrong = errs.clone();
        tokio::spawn(async move {
            let mut ways: HashMap<(SocketAddr, usize), Arc<UdpSocket>> = HashMap::new();
            let mut buffer = vec![0; 65_536];
            while let Ok((len, client)) = front.recv_from(&mut buffer).await {
                // Those that name none go by addresses.
                let by_address = usize::from(client.port()) / 2 % servers.len();
                let named = server_of(&buffer[..len]).map(usize::from);
                let wrong = usize::from(named.is_some() && is_wrong.load(Ordering::SeqCst));
                let to = (named.unwrap_or(by_address) + wrong) % servers.len();
                let back = match ways.entry((client, to)) {
                    Entry::Occupied(way) => way.into_mut(),
                    Entry::Vacant(way) => {
                        let back = Arc::new(UdpSocket::bind(loopback()).await.unwrap());
                        tokio::spawn(answer(front.clone(), back.clone(), client));
                        way.insert(back)
                    }
                };
                let _ = back.send_to(&buffer[..len], servers[to]).await;
            }
        });
        Self { address, errs }
    }
}

/// Passes what servers say on to the client.
async fn answer(front: Arc<UdpSocket>, back: Arc<UdpSocket>, client: SocketAddr) {
    let mut buffer = vec![0; 65_536];
    while let Ok((len, _)) = back.recv_from(&mut buffer).await {
        let _ = front.send_to(&buffer[..len], client).await;
    }
}

/// Servers of these secrets, the first with several sockets.
fn servers(secrets: [u64; SERVERS as usize]) -> [Endpoint; SERVERS as usize] {
    [0, 1].map(|n: u8| {
        let server = ServerConfig {
            crypto: Arc::new(NullServer::new(&[b"test"])),
            transport: Arc::default(),
            max_connections: 1000,
            retry: if n == 0 { RetryPolicy::Always } else { RetryPolicy::Never },
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(100),
        };
        let secrets = NullSecrets(secrets[usize::from(n)]);
        let endpoint =
            EndpointConfig { crypto: Arc::new(secrets), connection_id_len: 8, resets_per_second: 100 };
        let socket = SocketConfig {
            sockets: if n == 0 { 3 } else { 1 },
            connection_ids: Some(Arc::new(ServerIds(n))),
            ..SocketConfig::default()
        };
        let server = Endpoint::bind(loopback(), &socket, endpoint, Some(server)).unwrap();
        serve(&server);
        server
    })
}

fn client() -> Endpoint {
    Endpoint::bind(loopback(), &SocketConfig::default(), config(9), None).unwrap()
}

/// Clients that move go on with the server that they are on; so they do after a Retry, whose id has to come
/// back to the server that has its key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_move_stay_with_their_server() {
    let servers = servers([1, 2]);
    let balancer = IdBalancer::before([servers[0].local_addr(), servers[1].local_addr()]).await;
    let mut all = Vec::new();
    let mut shares = [0, 0];
    while all.len() < 12 || shares.contains(&0) {
        let client = client();
        let connection = soon(client.connect(balancer.address, "localhost", &client_config())).await.unwrap();
        soon(is_echoed(&connection, b"x")).await;
        all.push((client, connection));
        shares = [servers[0].connections(), servers[1].connections()];
        assert!(all.len() < 100, "{shares:?}");
    }
    for (client, connection) in &all {
        for _ in 0..3 {
            client.rebind(loopback(), &SocketConfig::default()).unwrap();
            soon(is_echoed(connection, &vec![7; 50_000])).await;
        }
    }
    assert_eq!([servers[0].connections(), servers[1].connections()], shares);
}

/// Ids that name a server name a shard as well, and shards hand over by them where the system goes by
/// addresses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shards_hand_over_by_ids_that_name_a_server() {
    for is_steered in [cfg!(target_os = "linux"), false] {
        let calls: &dyn PortCalls = if is_steered { &SystemCalls } else { &Unsteered };
        let socket = SocketConfig { connection_ids: Some(Arc::new(ServerIds(1))), ..several() };
        let server =
            over_port(Arc::new(TokioRuntime::current()), calls, &socket, server_config(1000)).unwrap();
        clients_come_and_move(&server).await;
        let stats = server.stats();
        assert_eq!((stats.handed_over > 0, stats.handed_over_lost), (!is_steered, 0), "{stats:?}");
    }
}

/// A balancer that errs: whoever's server has the keys of the right one is told at once that it is not known
/// there, and whoever's has not waits until it may give up; nobody else notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_hear_of_a_balancer_that_errs() {
    for (secrets, end) in [([1, 1], Closed::Reset), ([1, 2], Closed::TimedOut)] {
        let servers = servers(secrets);
        let addresses = [servers[0].local_addr(), servers[1].local_addr()];
        let (good, bad) = (IdBalancer::before(addresses).await, IdBalancer::before(addresses).await);
        let (witness, victim) = (client(), client());
        let going_on = soon(witness.connect(good.address, "localhost", &client_config())).await.unwrap();
        let transport = TransportConfig::default().with_idle_timeout(Duration::from_secs(1));
        let hasty =
            ClientConfig { crypto: Arc::new(NullClient::new(&[b"test"])), transport: Arc::new(transport) };
        let lost = soon(victim.connect(bad.address, "localhost", &hasty)).await.unwrap();
        soon(is_echoed(&lost, b"x")).await;
        bad.errs.store(true, Ordering::SeqCst);
        lost.ping();
        assert_eq!(soon(lost.closed()).await, end);
        soon(is_echoed(&going_on, &vec![7; 20_000])).await;
    }
}

/// Ids whose first bytes are the same for all sockets cannot say which.
#[tokio::test]
async fn ids_that_name_not_every_socket_are_refused() {
    #[derive(Debug)]
    struct Plain;
    impl ConnectionIds for Plain {
        fn id_len(&self) -> usize {
            8
        }

        fn draw(&self, rng: &mut Rng) -> ConnectionId {
            let mut id = [0; 8];
            rng.fill(&mut id);
            id[..2].copy_from_slice(&[7, 42]);
            ConnectionId::new(&id).unwrap()
        }
    }
    let bind = |sockets| {
        let socket =
            SocketConfig { sockets, connection_ids: Some(Arc::new(Plain)), ..SocketConfig::default() };
        Endpoint::bind(loopback(), &socket, config(1), None)
    };
    assert!(bind(1).is_ok());
    assert_eq!(bind(2).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
}
