//! Two processes with one name behind a load balancer that goes by connection ids (QUIC-LB): whose a client
//! is stays so when its address changes, a balancer that errs ends nothing, and a process that dies takes
//! only its own clients with it.
//!
//! The processes are this program, told to be a server ([`process`]); all is over the loopback.

#![cfg(feature = "self-signed")]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod balancer;
mod process;

use std::collections::BTreeSet;
use std::future::Future;
use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use quickset::{
    ClientConfig, Closed, Connection, Endpoint, Identity, RoutableIds, RoutableLayout, SocketConfig,
    TransportConfig, Trust,
};

use balancer::{Balancer, by_address};
use process::{ServerProcess, ServerWish};

pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), future).await.expect("it does not take that long")
}

/// Waits for a condition that another process makes true.
async fn until(mut holds: impl FnMut() -> bool) {
    soon(async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

fn loopback() -> SocketAddr {
    ([127, 0, 0, 1], 0).into()
}

/// What servers and balancers have in common.
const LAYOUT_KEY: [u8; 16] = *b"behind a curtain";

pub(crate) fn layout() -> RoutableLayout {
    RoutableLayout::new(2, 1, 8).unwrap().with_key(&LAYOUT_KEY)
}

/// A client with a socket of its own, and the process that has its connection.
struct BalancedClient {
    endpoint: Endpoint,
    connection: Connection,
    of: usize,
}

impl BalancedClient {
    async fn come(address: SocketAddr, config: &ClientConfig) -> Self {
        let endpoint = Endpoint::bind(loopback(), &SocketConfig::default(), None).unwrap();
        let connection = soon(endpoint.connect(address, "localhost", config)).await.unwrap();
        let of = soon(ask(&connection, b"who is it?")).await;
        Self { endpoint, connection, of }
    }

    /// Moves to an address from which a client that is new would get to another process.
    fn move_elsewhere(&self) {
        loop {
            self.endpoint.rebind(loopback(), &SocketConfig::default()).unwrap();
            if by_address(self.endpoint.local_addr()) != self.of {
                return;
            }
        }
    }
}

/// Which process sends back what it is asked.
async fn ask(connection: &Connection, question: &[u8]) -> usize {
    let (mut send, mut recv) = connection.open_bi().await.unwrap();
    send.write_all(question).await.unwrap();
    send.finish().unwrap();
    let mut answer = recv.read_to_end(1 << 20).await.unwrap();
    let number = answer.pop().unwrap();
    assert_eq!(answer, question);
    usize::from(number)
}

/// Two processes, and how their clients know them.
struct Pair {
    processes: [ServerProcess; 2],
    identity: Identity,
}

impl Pair {
    fn start(wish: impl Fn(u8) -> ServerWish) -> Self {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        Self { processes: [0, 1].map(|number| ServerProcess::start(&wish(number), &identity)), identity }
    }

    fn addresses(&self) -> [SocketAddr; 2] {
        [0, 1].map(|n: usize| self.processes[n].address)
    }

    fn connections(&mut self) -> [u64; 2] {
        self.processes.each_mut().map(|process| process.stats().connections)
    }

    fn config(&self, transport: TransportConfig) -> ClientConfig {
        let trust = Trust::pinned(self.identity.fingerprint());
        ClientConfig::new(trust, &["echo/1"]).unwrap().with_transport(transport)
    }

    /// Clients until each process has a few.
    async fn fill(&self, address: SocketAddr, config: &ClientConfig) -> Vec<BalancedClient> {
        let mut all: Vec<BalancedClient> = Vec::new();
        while (0..2).any(|n| all.iter().filter(|client| client.of == n).count() < 3) {
            assert!(all.len() < 100, "all at one process");
            all.push(BalancedClient::come(address, config).await);
        }
        all
    }
}

/// Clients move to addresses that would lead them to the other process, and go on where they were, several
/// sockets of each process or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_move_stay_with_their_process() {
    for sockets in [1, 2] {
        let mut pair = Pair::start(|number| ServerWish { sockets, ..ServerWish::number(number) });
        let balancer = Balancer::before(pair.addresses()).await;
        let config = pair.config(TransportConfig::default());
        let clients = pair.fill(balancer.address, &config).await;
        let shares = pair.connections();
        for round in 0..3 {
            for client in &clients {
                client.move_elsewhere();
                let of = soon(ask(&client.connection, &vec![7; 50_000])).await;
                assert_eq!(of, client.of, "round {round}");
            }
        }
        assert_eq!(pair.connections(), shares, "nobody began anew");
        for process in &mut pair.processes {
            let stats = process.stats();
            assert_eq!(stats.resets, 0, "{stats:?}");
            // Where the system goes by ids, those of the layout name the socket as well.
            assert!(stats.handed_over == 0 || sockets > 1 && !cfg!(target_os = "linux"), "{stats:?}");
            assert_eq!(stats.handed_over_lost, 0);
        }
        // With a key, an id looks like any other to those who have not that.
        let other = RoutableLayout::new(2, 1, 8).unwrap().with_key(&[0; 16]);
        let ids = balancer.ids();
        assert!(ids.len() > clients.len());
        let guessed = ids.iter().filter(|id| other.server_id(id) == layout().server_id(id)).count();
        assert!(guessed * 4 < ids.len(), "{guessed} of {}", ids.len());
    }
}

/// What a balancer sends to the wrong process is dropped there, without an answer or with one that nobody
/// believes, and the connection goes on when the balancer does right again. With ids that name a process both
/// may have the same key of stateless resets (RFC 9000 §21.11).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_balancer_that_errs_ends_no_connection() {
    let same = Some([7; 32]);
    for (is_routable, reset_key) in [(true, None), (true, same), (false, None)] {
        let wish = |number| ServerWish { is_routable, reset_key, ..ServerWish::number(number) };
        let mut pair = Pair::start(wish);
        let [good, bad] = if is_routable {
            [Balancer::before(pair.addresses()).await, Balancer::before(pair.addresses()).await]
        } else {
            [Balancer::blind(pair.addresses()).await, Balancer::blind(pair.addresses()).await]
        };
        let config = pair.config(TransportConfig::default().with_keep_alive(Duration::from_millis(200)));
        let witness = BalancedClient::come(good.address, &config).await;
        let victim = BalancedClient::come(bad.address, &config).await;
        let wrong = 1 - victim.of;
        let before = pair.processes[wrong].stats();

        bad.errs(true);
        let asking = tokio::spawn({
            let connection = victim.connection.clone();
            async move { ask(&connection, &vec![7; 20_000]).await }
        });
        until(|| {
            let stats = pair.processes[wrong].stats();
            stats.dropped + stats.resets >= before.dropped + before.resets + 5
        })
        .await;
        // The same again, from somebody who has seen it.
        let stray = bad.last_short().expect("there are packets of the connection");
        let thief = UdpSocket::bind(loopback()).unwrap();
        until(|| {
            for _ in 0..50 {
                // What the system has no room for is lost, as it is meant to be.
                let _ = thief.send_to(&stray, pair.processes[wrong].address);
            }
            pair.processes[wrong].stats().dropped >= before.dropped + 1000
        })
        .await;
        let after = pair.processes[wrong].stats();
        assert_eq!(after.connections, before.connections, "nothing begins with such packets");
        if is_routable {
            assert_eq!(after.resets, before.resets, "they are another's, as they say");
        } else {
            assert!(after.resets > before.resets, "with a key that is not the other's");
        }
        assert!(!asking.is_finished(), "nobody else can answer");
        assert_eq!(victim.connection.close_reason(), None);

        bad.errs(false);
        assert_eq!(soon(asking).await.unwrap(), victim.of);
        assert_eq!(soon(ask(&witness.connection, b"still there?")).await, witness.of);
    }
}

/// A process that is killed says nothing, and its clients find out by their idle timeout; or from the one
/// that takes its place, if that has its number and its key. Nobody else notices.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_killed_takes_only_its_own_clients_with_it() {
    for comes_back in [false, true] {
        let wish = |number| ServerWish { sockets: 2, reset_key: Some([7; 32]), ..ServerWish::number(number) };
        let mut pair = Pair::start(wish);
        let balancer = Balancer::before(pair.addresses()).await;
        // Sooner than by the timeout, if they are told.
        let idle = Duration::from_secs(if comes_back { 600 } else { 5 });
        let transport = TransportConfig::default().with_idle_timeout(idle);
        let config = pair.config(transport.with_keep_alive(Duration::from_millis(200)));
        let clients = pair.fill(balancer.address, &config).await;
        pair.processes[0].kill();
        if comes_back {
            let again = ServerWish { address: pair.processes[0].address, ..wish(0) };
            pair.processes[0] = ServerProcess::start(&again, &pair.identity);
        }
        let end = if comes_back { Closed::Reset } else { Closed::TimedOut };
        for client in &clients {
            if client.of == 0 {
                assert_eq!(soon(client.connection.closed()).await, end);
            } else {
                client.move_elsewhere();
                assert_eq!(soon(ask(&client.connection, &vec![7; 20_000])).await, 1);
            }
        }
        if comes_back {
            let new = pair.fill(balancer.address, &config).await;
            assert!(new.iter().any(|client| client.of == 0));
        }
    }
}

/// Ids under a key name every socket of however many; ids in clear have a few bits of the first byte left to
/// do so, and where these do not reach all an endpoint does not begin.
#[cfg(unix)]
#[tokio::test]
async fn an_endpoint_begins_only_if_its_ids_can_name_all_sockets() {
    let clear = || RoutableLayout::new(2, 1, 8).unwrap();
    let bind = |layout: RoutableLayout, sockets| {
        let ids = RoutableIds::new(layout, &[42]).unwrap();
        let socket = SocketConfig { sockets, connection_ids: Some(Arc::new(ids)), ..SocketConfig::default() };
        Endpoint::bind(loopback(), &socket, None)
    };
    // 32 values stand before a byte that is always the same: 256 n + 42 has all remainders by odd numbers up
    // to 31, and one or some by even ones.
    for (layout, sockets, begins) in [
        (clear(), 1, true),
        (clear(), 2, false),
        (clear(), 3, true),
        (clear(), 4, false),
        (clear(), 31, true),
        (clear().with_length(), 1, true),
        (clear().with_length(), 3, false),
        (layout(), 2, true),
        (layout(), 7, true),
        (layout().with_length(), 64, true),
    ] {
        let bound = bind(layout.clone(), sockets);
        assert_eq!(bound.is_ok(), begins, "{layout:?} with {sockets}");
        match bound {
            Ok(endpoint) => assert_eq!(endpoint.sockets(), sockets),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::InvalidInput);
                assert!(error.to_string().contains("hide the server's id"), "{error}");
            }
        }
    }
}

/// The ids that a process gives, of all its sockets, are its own and none twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_id_that_a_balancer_sees_names_its_process() {
    let pair = Pair::start(|number| ServerWish { sockets: 2, ..ServerWish::number(number) });
    for (number, process) in pair.processes.iter().enumerate() {
        // No balancer chooses: all it does is look.
        let mirror = Balancer::before([process.address; 2]).await;
        let config = pair.config(TransportConfig::default());
        for _ in 0..6 {
            let client = BalancedClient::come(mirror.address, &config).await;
            client.move_elsewhere();
            soon(ask(&client.connection, &[7; 1000])).await;
        }
        let named: BTreeSet<Option<Vec<u8>>> = mirror.ids().iter().map(|id| layout().server_id(id)).collect();
        assert_eq!(named, BTreeSet::from([Some(vec![u8::try_from(number).unwrap()])]));
    }
}
