//! What is measured, told to any client.

mod asked;
mod handshakes;
mod idle;
mod sent;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use quickset_stacks::{StackClient, StackCounts};
use serde::{Deserialize, Serialize};

use crate::PeersStack;
use crate::os::{ProcessUsage, taken};
use crate::tally::ArrivedSoFar;
use crate::wire::say;

/// What one run measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BenchCase {
    /// Bytes from the server, one connection.
    Bulk,
    /// The same, both sides on one core.
    BulkOneCore,
    /// Bytes from the server, ten connections.
    Bulk10,
    /// Bytes from the server, a hundred connections; and the memory of each.
    Bulk100,
    /// Bytes from the server, a thousand connections; and the memory of each.
    Bulk1000,
    /// Bytes from the server, on a hundred streams of one connection.
    Streams100,
    /// Bytes from the server, on ten thousand streams of one connection.
    Streams10000,
    /// Bytes from the client, one connection.
    Upload,
    /// Bytes from the server, ten connections: what the sender declares lost, and what the system drops.
    Lossless10,
    /// Full handshakes, eight at a time.
    Handshakes,
    /// Handshakes with the ticket of an earlier connection, eight at a time.
    Resumed,
    /// Answers of one byte, one request at a time.
    Latency1,
    /// Answers of 8 kB.
    Latency8k,
    /// Answers of 32 kB.
    Latency32k,
    /// Answers of 1 kB, ten requests at a time on one connection.
    Requests10,
    /// The same, a hundred at a time.
    Requests100,
    /// The same, a thousand at a time.
    Requests1k,
    /// The same, ten thousand at a time.
    Requests10k,
    /// Messages of 100 bytes, from the client.
    Messages100,
    /// Messages of 1 kB.
    Messages1k,
    /// Messages of 10 kB.
    Messages10k,
    /// Unreliable datagrams of 100 bytes, from the client.
    Datagrams100,
    /// Unreliable datagrams of 1200 bytes.
    Datagrams1200,
    /// Memory of ten thousand connections on which nothing moves.
    Idle,
    /// HTTP: answers of 1 kB, a hundred requests at a time on one connection.
    Http1x100,
    /// HTTP: the same, one at a time on each of a hundred connections.
    Http100x1,
}

/// Who does what in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BenchWork {
    /// The server sends bytes for as long as it lasts: on so many connections, so many streams on each.
    Bulk {
        connections: usize,
        streams: usize,
    },
    /// The client does.
    Upload,
    Handshakes,
    /// The client asks for so many bytes, one request at a time.
    Latency(u64),
    /// The client asks for 1 kB, so many at a time on each of so many connections.
    Requests {
        connections: usize,
        at_a_time: usize,
    },
    /// The client sends messages of so many bytes.
    Messages(usize),
    /// The client sends datagrams of so many bytes.
    Datagrams(usize),
    Idle,
}

impl BenchCase {
    pub(crate) fn work(self) -> BenchWork {
        let bulk = |connections, streams| BenchWork::Bulk { connections, streams };
        let requests = |connections, at_a_time| BenchWork::Requests { connections, at_a_time };
        match self {
            Self::Bulk | Self::BulkOneCore => bulk(1, 1),
            Self::Bulk10 | Self::Lossless10 => bulk(10, 1),
            Self::Bulk100 => bulk(100, 1),
            Self::Bulk1000 => bulk(1000, 1),
            Self::Streams100 => bulk(1, 100),
            Self::Streams10000 => bulk(1, 10_000),
            Self::Upload => BenchWork::Upload,
            Self::Handshakes | Self::Resumed => BenchWork::Handshakes,
            Self::Latency1 => BenchWork::Latency(1),
            Self::Latency8k => BenchWork::Latency(8 << 10),
            Self::Latency32k => BenchWork::Latency(32 << 10),
            Self::Requests10 => requests(1, 10),
            Self::Requests100 | Self::Http1x100 => requests(1, 100),
            Self::Requests1k => requests(1, 1000),
            Self::Requests10k => requests(1, 10_000),
            Self::Messages100 => BenchWork::Messages(100),
            Self::Messages1k => BenchWork::Messages(1000),
            Self::Messages10k => BenchWork::Messages(10_000),
            Self::Datagrams100 => BenchWork::Datagrams(100),
            Self::Datagrams1200 => BenchWork::Datagrams(1200),
            Self::Idle => BenchWork::Idle,
            Self::Http100x1 => requests(100, 1),
        }
    }

    /// Whether it is for those that speak HTTP; the others are for those that do not.
    pub(crate) fn is_http(self) -> bool {
        matches!(self, Self::Http1x100 | Self::Http100x1)
    }

    /// Why a stack has no figure here.
    pub(crate) fn unfit(self, stack: PeersStack) -> Option<&'static str> {
        let is_tcp = stack == PeersStack::TcpTls;
        let is_s2n = matches!(stack, PeersStack::S2nQuic | PeersStack::S2nQuicTuned);
        match self.work() {
            BenchWork::Bulk { streams: 2.., .. } if is_tcp => Some("a connection is one stream"),
            BenchWork::Bulk { .. } if is_tcp && self == Self::Lossless10 => {
                Some("its packets are the system's")
            }
            BenchWork::Requests { at_a_time: 2.., .. } if is_tcp => {
                Some("a connection is one stream, for one request at a time")
            }
            BenchWork::Messages(_) if is_tcp => Some("it has no messages, and one stream"),
            BenchWork::Datagrams(_) if is_tcp => Some("it has no datagrams"),
            BenchWork::Handshakes if is_s2n && self == Self::Resumed => {
                Some("its servers send no tickets, unless built so by an unstable feature")
            }
            _ => None,
        }
    }

    /// Streams that a side may have open at a time, where more are wanted than stacks allow by themselves.
    pub(crate) fn streams(self) -> Option<u32> {
        let at_a_time = match self.work() {
            BenchWork::Bulk { streams, .. } => streams,
            BenchWork::Requests { at_a_time, .. } => at_a_time,
            // Of stacks that have no messages, each is a stream.
            BenchWork::Messages(_) => 1000,
            _ => 1,
        };
        // One that is through is made good for later than it is missed.
        (at_a_time >= 100 && !self.is_http()).then(|| u32::try_from(2 * at_a_time).unwrap_or(u32::MAX))
    }

    /// Whether it is the server that counts what comes.
    pub(crate) fn is_sent(self) -> bool {
        matches!(self.work(), BenchWork::Upload | BenchWork::Messages(_) | BenchWork::Datagrams(_))
    }
}

/// What the client of one run found.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct CaseFound {
    pub(crate) seconds: f64,
    /// CPU time of the client within these seconds.
    pub(crate) cpu_s: f64,
    pub(crate) bytes: u64,
    /// Handshakes or requests.
    pub(crate) count: u64,
    /// Of a handshake or a request.
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    /// Bytes of memory that the client took within these seconds, and since before its first connection.
    pub(crate) grown: u64,
    pub(crate) held: u64,
    /// Connections that move bytes all the time.
    pub(crate) connections: u64,
    /// Of the handshakes: those with a ticket.
    pub(crate) resumed: u64,
}

/// What the client sent in all, where it is the server that counts, and what its stack knows of that.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(crate) struct SentInAll {
    #[serde(flatten)]
    pub(crate) sent: ArrivedSoFar,
    pub(crate) counts: Option<StackCounts>,
}

/// Before the clock starts: congestion windows open, code and tables are in the caches.
pub(crate) const WARM: Duration = Duration::from_millis(400);

/// A run that stands still is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// A client, and what it knows of itself.
pub(crate) struct CaseClient<C> {
    pub(crate) stack: C,
    pub(crate) case: BenchCase,
    /// How long to measure.
    pub(crate) time: Duration,
    /// Tickets that were used so far.
    pub(crate) tickets: Arc<AtomicU64>,
    /// Before the first connection.
    pub(crate) before: ProcessUsage,
}

pub(crate) async fn measure<C: StackClient>(client: CaseClient<C>) -> Result<()> {
    let (case, time) = (client.case, client.time);
    let all = async {
        match case.work() {
            BenchWork::Bulk { connections, streams } => asked::bulk(&client, connections, streams).await,
            BenchWork::Upload => sent::upload(&client).await,
            BenchWork::Handshakes => handshakes::measure(client).await,
            BenchWork::Latency(bytes) => asked::one_by_one(&client, bytes).await,
            BenchWork::Requests { connections, at_a_time } => {
                asked::many(&client, connections, at_a_time).await
            }
            BenchWork::Messages(len) => sent::messages(&client, len).await,
            BenchWork::Datagrams(len) => sent::datagrams(&client, len).await,
            BenchWork::Idle => idle::measure(client).await,
        }
    };
    tokio::time::timeout(patience(case, time), all).await.context("nothing moves any more")?
}

/// How long a run of so much time may take.
pub(crate) fn patience(case: BenchCase, time: Duration) -> Duration {
    match case.work() {
        BenchWork::Idle => 6 * PATIENCE,
        // Connections and streams are made first, of all of which each has its turn.
        BenchWork::Bulk { connections: 100.., .. } | BenchWork::Bulk { streams: 1000.., .. } => {
            WARM + time + 3 * PATIENCE
        }
        _ => WARM + time + PATIENCE,
    }
}

/// The time that counts, which begins with a line for the process that watches.
pub(crate) struct TimedSpan {
    wall: Instant,
    taken: ProcessUsage,
}

impl TimedSpan {
    pub(crate) fn begin() -> Result<Self> {
        say(&"begun")?;
        Ok(Self { wall: Instant::now(), taken: taken() })
    }

    pub(crate) fn end(&self, bytes: u64, mut times: Vec<f64>) -> CaseFound {
        times.sort_by(f64::total_cmp);
        let quantile = |of: f64| {
            let last = times.len().saturating_sub(1);
            times.get((last as f64 * of).round() as usize).copied().unwrap_or(0.0) * 1e6
        };
        let after = taken();
        CaseFound {
            seconds: self.wall.elapsed().as_secs_f64(),
            cpu_s: after.cpu_s - self.taken.cpu_s,
            grown: after.resident.saturating_sub(self.taken.resident),
            bytes,
            count: times.len() as u64,
            p50_us: quantile(0.5),
            p99_us: quantile(0.99),
            ..CaseFound::default()
        }
    }
}

/// Waits until the process that watches has looked, and closes our stdin.
async fn until_looked_at() -> Result<()> {
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    Ok(())
}
