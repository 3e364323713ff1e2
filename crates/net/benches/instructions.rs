//! What `cargo xtask instructions` counts of two endpoints and their applications: all that a small thing
//! costs both of them, from the call that sends it to the one that has it, without cryptography and the
//! system.
//!
//! Arguments: a [`CASES`] name. Prints how often the thing that is counted was done. All is in one thread and
//! in virtual time, so that each run is the same.

#[path = "../tests/seam/process.rs"]
#[expect(dead_code, reason = "of wires that lose or are full tests are made")]
mod process;
#[path = "../tests/seam/simulated.rs"]
mod simulated;

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use bytes::Bytes;
use quickset_net::{Connection, Endpoint, RecvStream, Runtime as _, SendStream};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{ClientConfig, EndpointConfig, RetryPolicy, ServerConfig, TransportConfig};

use process::{Wire, Wires};
use simulated::SimulatedRuntime;

/// Does something often between two ends. Returns how often.
type Play = fn(&BenchEnds) -> usize;

const CASES: &[(&str, Play)] = &[
    ("datagram", single_datagrams),
    ("datagrams", many_datagrams),
    ("message", messages),
    ("request", requests),
    ("request-beside-streams", requests_beside_streams),
    ("request-beside-connections", requests_beside_connections),
];

fn main() {
    // Cargo's own arguments begin with dashes.
    let name = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    for (case, play) in CASES {
        if name.as_ref().is_none_or(|name| name == case) {
            println!("{case} {}", play(&BenchEnds::new()));
        }
    }
}

/// Two ends of a connection, and what they live in.
struct BenchEnds {
    runtime: SimulatedRuntime,
    client: Connection,
    server: Connection,
    client_config: ClientConfig,
    // Without them their drivers end.
    endpoints: [Endpoint; 2],
    _wires: Wires,
}

impl BenchEnds {
    fn new() -> Self {
        let runtime = SimulatedRuntime::default();
        let wires = Wires::far(&runtime, DELAY, 0);
        let transport = Arc::new(
            TransportConfig::fixed_mtu(1200)
                .with_max_bidi_streams(1000)
                .with_max_uni_streams(2 * IDLE as u64),
        );
        let client =
            ClientConfig { crypto: Arc::new(NullClient::new(&[b"bench"])), transport: transport.clone() };
        let server = ServerConfig {
            crypto: Arc::new(NullServer::new(&[b"bench"])),
            transport,
            max_connections: 2 * IDLE,
            retry: RetryPolicy::Never,
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(100),
        };
        let over = |wire: &Arc<Wire>, secret, server| {
            let config = EndpointConfig {
                crypto: Arc::new(NullSecrets(secret)),
                connection_id_len: 8,
                resets_per_second: 100,
            };
            Endpoint::over(Arc::new(runtime.clone()), wire.clone(), config, server).expect("entropy")
        };
        let endpoints = [over(&wires.client, 1, None), over(&wires.server, 2, Some(server))];
        let (here, there) = connected(&runtime, &endpoints, &client);
        Self { runtime, client: here, server: there, client_config: client, endpoints, _wires: wires }
    }

    /// Plays both sides to their ends: a little, for what grows once, and then what is counted.
    fn play<A, B>(
        &self,
        client: impl Fn(Connection, usize) -> A,
        server: impl Fn(Connection, usize) -> B,
    ) -> usize
    where
        A: Future<Output = ()> + Send + 'static,
        B: Future<Output = usize> + Send + 'static,
    {
        let play = |times| (client(self.client.clone(), times), server(self.server.clone(), times));
        let (sends, takes) = play(WARM);
        self.runtime.block_on(both(sends, takes));
        let (sends, takes) = play(TIMES);
        let mut all = pin!(both(sends, takes));
        counted_play(&self.runtime, all.as_mut()).1
    }
}

/// The two ends of another connection.
fn connected(
    runtime: &SimulatedRuntime,
    [client, server]: &[Endpoint; 2],
    config: &ClientConfig,
) -> (Connection, Connection) {
    let connecting = client.connect(server.local_addr(), "localhost", config);
    let (client, server) = runtime.block_on(both(connecting, server.accept()));
    (client.expect("a handshake"), server.expect("an open endpoint"))
}

#[inline(never)]
fn counted_play<T>(runtime: &SimulatedRuntime, all: Pin<&mut impl Future<Output = T>>) -> T {
    runtime.block_on(all)
}

/// Datagrams of 100 bytes, each with a call of its own.
fn single_datagrams(ends: &BenchEnds) -> usize {
    let sends = |client: Connection, times| async move {
        for _ in 0..times {
            client.send_datagram(Bytes::from_static(SMALL)).await.expect("it is open");
        }
    };
    let takes = |server: Connection, times| async move {
        for _ in 0..times {
            assert_eq!(server.read_datagram().await.expect("it is open").len(), SMALL.len());
        }
        times
    };
    ends.play(sends, takes)
}

/// The same, [`AT_ONCE`] with a call.
fn many_datagrams(ends: &BenchEnds) -> usize {
    let sends = |client: Connection, times: usize| async move {
        for _ in 0..times / AT_ONCE {
            let mut datagrams: VecDeque<Bytes> = (0..AT_ONCE).map(|_| Bytes::from_static(SMALL)).collect();
            client.send_datagrams(&mut datagrams).await.expect("it is open");
        }
    };
    let takes = |server: Connection, times| async move {
        let (mut taken, mut got) = (0, Vec::new());
        while taken < times {
            taken += server.read_datagrams(&mut got, 1000).await.expect("it is open");
            assert!(got.drain(..).all(|one| one.len() == SMALL.len()));
        }
        taken
    };
    ends.play(sends, takes)
}

/// Messages of 100 bytes.
fn messages(ends: &BenchEnds) -> usize {
    let sends = |client: Connection, times| async move {
        let mut sender = client.open_messages().await.expect("it is open");
        for _ in 0..times {
            sender.send(Bytes::from_static(SMALL)).await.expect("it is open");
        }
        sender.finish().expect("it is open");
        sender.finished().await.expect("all arrives");
    };
    let takes = |server: Connection, _| async move {
        let mut receiver = server.accept_messages().await.expect("it is open");
        let mut got = 0;
        while let Some(message) = receiver.next().await {
            assert_eq!(message.expect("all of it comes").payload.len(), SMALL.len());
            got += 1;
        }
        got
    };
    ends.play(sends, takes)
}

/// Requests of 100 bytes that are answered with 1 kB, [`AT_A_TIME`] at a time, each on a stream and in a task
/// of its own.
fn requests(ends: &BenchEnds) -> usize {
    let runtime = ends.runtime.clone();
    let asks = move |client: Connection, times: usize| {
        let runtime = runtime.clone();
        async move {
            let left = Arc::new(TasksLeft::new(AT_A_TIME));
            for _ in 0..AT_A_TIME {
                let (client, left) = (client.clone(), left.clone());
                runtime.spawn(Box::pin(async move {
                    for _ in 0..times / AT_A_TIME {
                        ask(&client).await;
                    }
                    left.one_less();
                }));
            }
            left.none().await;
        }
    };
    let runtime = ends.runtime.clone();
    let answers = move |server: Connection, times: usize| {
        let runtime = runtime.clone();
        async move {
            for _ in 0..times {
                let (send, recv) = server.accept_bi().await.expect("it is open");
                runtime.spawn(Box::pin(answer(send, recv)));
            }
            times
        }
    };
    ends.play(asks, answers)
}

/// The same while [`IDLE`] other streams are open, of which nobody sends anything.
fn requests_beside_streams(ends: &BenchEnds) -> usize {
    let idle = ends.runtime.block_on(async {
        let mut idle = Vec::new();
        for _ in 0..IDLE {
            let mut send = ends.client.open_uni().await.expect("it is open");
            send.write_all(&SMALL[..1]).await.expect("it is read");
            let mut recv = ends.server.accept_uni().await.expect("it is open");
            recv.read_chunk(1).await.expect("it comes");
            idle.push((send, recv));
        }
        idle
    });
    let times = requests(ends);
    assert_eq!(idle.len(), IDLE);
    times
}

/// The same while the endpoints have [`IDLE`] other connections, on which nothing happens.
fn requests_beside_connections(ends: &BenchEnds) -> usize {
    let idle: Vec<_> =
        (0..IDLE).map(|_| connected(&ends.runtime, &ends.endpoints, &ends.client_config)).collect();
    let times = requests(ends);
    assert!(idle.iter().all(|(client, server)| client.close_reason().or(server.close_reason()).is_none()));
    times
}

async fn ask(client: &Connection) {
    let (mut send, mut recv) = client.open_bi().await.expect("it is open");
    send.write_all(SMALL).await.expect("it is read");
    send.finish().expect("it is open");
    assert_eq!(recv.read_to_end(10_000).await.expect("all of it comes").len(), ANSWER.len());
}

async fn answer(mut send: SendStream, mut recv: RecvStream) {
    assert_eq!(recv.read_to_end(1000).await.expect("all of it comes").len(), SMALL.len());
    send.write_all(ANSWER).await.expect("it is read");
    send.finish().expect("it is open");
}

/// Tasks that have not ended, and who waits for them.
struct TasksLeft(Mutex<(usize, Option<Waker>)>);

impl TasksLeft {
    fn new(tasks: usize) -> Self {
        Self(Mutex::new((tasks, None)))
    }

    fn one_less(&self) {
        let mut state = self.0.lock().expect("nobody panics with it locked");
        state.0 -= 1;
        if state.0 == 0 {
            state.1.take().into_iter().for_each(Waker::wake);
        }
    }

    async fn none(&self) {
        poll_fn(|cx| {
            let mut state = self.0.lock().expect("nobody panics with it locked");
            state.1 = Some(cx.waker().clone());
            if state.0 == 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// Waits for both.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    tokio::join!(a, b)
}

/// What is sent, and what answers it.
const SMALL: &[u8] = &[7; 100];
const ANSWER: &[u8] = &[7; 1000];

/// Datagrams of one call.
const AT_ONCE: usize = 100;

/// Requests under way at a time.
const AT_A_TIME: usize = 100;

/// Streams, or connections, on which nothing happens.
const IDLE: usize = 10_000;

/// How often it is done before anything is counted, and then.
const WARM: usize = 5000;
const TIMES: usize = 20_000;

/// From one end to the other: what a loopback takes.
const DELAY: Duration = Duration::from_micros(50);
