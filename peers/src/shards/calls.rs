//! The clients of shards: those that move, those that ask steadily, and those that forge.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, Subcommand};
use quickset::SocketConfig;
use quickset_net::{Connection, Endpoint};
use quickset_stacks::quickset::{client_config, endpoint_config};
use quickset_stacks::{NAME, StackIdentity, path_of};
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::{GIVEN_UP, WARMING};
use crate::cases::PATIENCE;
use crate::pattern::{PatternSum, expected};
use crate::wire::{answer_each, say};

#[derive(Args, Debug)]
pub(crate) struct ShardCall {
    #[command(subcommand)]
    what: ShardCallers,
}

#[derive(Debug, Subcommand)]
enum ShardCallers {
    /// Come, go to another port, and ask.
    Moves {
        #[command(flatten)]
        to: ShardTarget,
        #[arg(long)]
        clients: u32,
    },
    /// Ask so often a second, on a hundred connections.
    Paced {
        #[command(flatten)]
        to: ShardTarget,
        #[arg(long)]
        rate: f64,
        #[arg(long)]
        seconds: f64,
    },
    /// Send so many datagrams a second with ids that nobody has, until stdin ends; and answer each of its
    /// lines with how many.
    Forge {
        #[command(flatten)]
        to: ShardTarget,
        #[arg(long)]
        rate: u32,
    },
}

#[derive(Args, Debug)]
struct ShardTarget {
    /// The folder of the server's certificate.
    #[arg(long)]
    identity: PathBuf,
    /// Where the server is.
    #[arg(long)]
    server: SocketAddr,
}

/// What became of clients that moved.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct MovesFound {
    pub(super) answered: u32,
    pub(super) lost: u32,
}

/// What became of requests that came steadily.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct PacedFound {
    pub(super) seconds: f64,
    pub(super) answered: u64,
    pub(super) lost: u64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// What a forger says when it is asked.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct ForgedWord {
    pub(super) seconds: f64,
    pub(super) forged: u64,
}

impl ShardCall {
    pub(crate) async fn run(self) -> Result<()> {
        match self.what {
            ShardCallers::Moves { to, clients } => moves(&to, clients).await,
            ShardCallers::Paced { to, rate, seconds } => paced(&to, rate, seconds).await,
            ShardCallers::Forge { to, rate } => forge(to.server, rate),
        }
    }
}

impl ShardTarget {
    async fn connect(
        &self,
        endpoint: &Endpoint,
        config: &quickset::quic::ClientConfig,
    ) -> Result<Connection> {
        Ok(endpoint.connect(self.server, NAME, config).await?)
    }

    fn config(&self) -> Result<quickset::quic::ClientConfig> {
        client_config(&StackIdentity::read(&self.identity)?, &crate::shard_setup())
    }
}

fn endpoint() -> Result<Endpoint> {
    Ok(Endpoint::bind(LOCAL, &SocketConfig::default(), endpoint_config(), None)?)
}

/// Each has a socket of its own, and another behind its move.
async fn moves(to: &ShardTarget, clients: u32) -> Result<()> {
    let config = Rc::new(to.config()?);
    let mut all = Vec::new();
    while all.len() < clients as usize {
        let mut callers = JoinSet::new();
        for _ in all.len()..(all.len() + AT_A_TIME).min(clients as usize) {
            let (endpoint, config, server) = (endpoint()?, config.clone(), to.server);
            callers.spawn_local(async move {
                let connection = endpoint.connect(server, NAME, &config).await?;
                anyhow::Ok((endpoint, connection))
            });
        }
        while let Some(caller) = callers.join_next().await {
            all.push(caller??);
        }
    }
    // Handshakes are confirmed, without which nobody may move.
    tokio::time::sleep(WARMING).await;
    say(&"begun")?;
    let at_a_time = Rc::new(Semaphore::new(AT_A_TIME));
    let mut movers = JoinSet::new();
    for (endpoint, connection) in all {
        let at_a_time = at_a_time.clone();
        movers.spawn_local(async move {
            let _turn = at_a_time.acquire().await?;
            endpoint.rebind(LOCAL, &SocketConfig::default())?;
            let answer = tokio::time::timeout(PATIENCE, ask(&connection)).await;
            anyhow::Ok((matches!(answer, Ok(Ok(()))), endpoint, connection))
        });
    }
    let (mut found, mut held) = (MovesFound { answered: 0, lost: 0 }, Vec::new());
    while let Some(mover) = movers.join_next().await {
        let (is_answered, endpoint, connection) = mover??;
        *(if is_answered { &mut found.answered } else { &mut found.lost }) += 1;
        // None of them closes anything until all are through.
        held.push((endpoint, connection));
    }
    say(&found)?;
    Ok(())
}

/// Asks for 1 kB, and checks it.
async fn ask(connection: &Connection) -> Result<()> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.finish_with(path_of(SMALL).as_bytes()).await?;
    let answer = receive.read_to_end(2 * SMALL as usize).await?;
    let mut sum = PatternSum::default();
    sum.add(&answer);
    ensure!(sum.bytes() == SMALL && sum.value() == expected(SMALL), "another answer");
    Ok(())
}

async fn paced(to: &ShardTarget, rate: f64, seconds: f64) -> Result<()> {
    let (config, endpoint, mut connections) = (to.config()?, endpoint()?, Vec::new());
    for _ in 0..CONNECTIONS {
        connections.push(to.connect(&endpoint, &config).await?);
    }
    let (begun, time) = (Instant::now(), WARMING + Duration::try_from_secs_f64(seconds)?);
    let (mut asked, mut requests, mut is_warm) = (0_u64, JoinSet::new(), false);
    let (mut times, mut lost) = (Vec::new(), 0);
    // By the clock, and not by when the last was answered: one that is late holds up nobody behind it.
    while begun.elapsed() < time {
        if !is_warm && begun.elapsed() >= WARMING {
            is_warm = true;
            say(&"begun")?;
        }
        while (asked as f64) < begun.elapsed().as_secs_f64() * rate {
            let connection = connections[asked as usize % CONNECTIONS].clone();
            asked += 1;
            let is_counted = is_warm;
            requests.spawn_local(async move {
                let since = Instant::now();
                let answer = tokio::time::timeout(GIVEN_UP, ask(&connection)).await;
                let seconds = matches!(answer, Ok(Ok(()))).then(|| since.elapsed().as_secs_f64());
                PacedRequest { is_counted, seconds }
            });
        }
        while let Some(request) = requests.try_join_next() {
            tally(&request?, &mut times, &mut lost);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    while let Some(request) = requests.join_next().await {
        tally(&request?, &mut times, &mut lost);
    }
    times.sort_by(f64::total_cmp);
    let quantile = |of: f64| times.get((times.len().saturating_sub(1) as f64 * of).round() as usize);
    let [p50_us, p99_us] = [0.5, 0.99].map(|of| quantile(of).map_or(f64::MAX, |seconds| seconds * 1e6));
    say(&PacedFound { seconds, answered: times.len() as u64, lost, p50_us, p99_us })
}

/// A request that came steadily.
struct PacedRequest {
    /// Behind the beginning of the time that counts.
    is_counted: bool,
    /// How long its answer took, if there was one.
    seconds: Option<f64>,
}

fn tally(request: &PacedRequest, times: &mut Vec<f64>, lost: &mut u64) {
    match request.seconds.filter(|_| request.is_counted) {
        Some(time) => times.push(time),
        None => *lost += u64::from(request.is_counted),
    }
}

/// Half of them have short headers, and half long ones, as in a handshake: RFC 8999 §5.1 and §5.2. What the
/// ids say about the shard is chance, so that half of them are for each of two.
fn forge(server: SocketAddr, rate: u32) -> Result<()> {
    static SENT: AtomicU64 = AtomicU64::new(0);
    answer_each(|seconds, _| ForgedWord { seconds, forged: SENT.load(Ordering::Relaxed) });
    let socket = std::net::UdpSocket::bind(LOCAL)?;
    socket.connect(server).context("no way to the server")?;
    let (begun, mut sent, mut state) = (Instant::now(), 0_u64, 1_u64);
    loop {
        while (sent as f64) < begun.elapsed().as_secs_f64() * f64::from(rate) {
            let mut datagram = [0; 100];
            for word in datagram.chunks_mut(4) {
                // As the pattern that travels (crate::pattern).
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                word.copy_from_slice(&state.to_be_bytes()[..word.len()]);
            }
            if sent % 2 == 0 {
                datagram[0] = datagram[0] & 0x3f | 0x40;
            } else {
                // A handshake packet of version 1 to an id of eight bytes.
                datagram[0] = 0xe0 | datagram[0] & 0x0f;
                datagram[1..6].copy_from_slice(&[0, 0, 0, 1, 8]);
            }
            // A full buffer of the server's is what a flood is for.
            let _ = socket.send(&datagram);
            sent += 1;
            SENT.store(sent, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

const LOCAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Clients that come or move at the same time.
const AT_A_TIME: usize = 50;

/// Connections of those that ask steadily.
const CONNECTIONS: usize = 100;

/// Bytes of an answer.
const SMALL: u64 = 1000;
