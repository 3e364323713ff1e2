//! What is measured, told to any client; and the server, which answers whatever it is asked for.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use clap::ValueEnum;
use quickset_stacks::{
    AnswerHead, PeerConnection, StackAnswer, StackClient, StackDownload, StackServer, bytes_of, path_of,
};
use serde::{Deserialize, Serialize};
use tokio::task::{JoinSet, spawn_local};

use crate::os::{ProcessUsage, taken};
use crate::pattern::{PatternSum, expected, pieces};
use crate::wire::say;

/// What one run measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum BenchCase {
    /// Bytes from the server, one connection.
    Bulk,
    /// Bytes from the server, ten connections.
    Bulk10,
    /// Full handshakes, eight at a time.
    Handshakes,
    /// Answers of one byte, one request at a time.
    Latency1,
    /// Answers of 8 kB.
    Latency8k,
    /// Answers of 32 kB.
    Latency32k,
    /// Memory of ten thousand connections on which nothing moves.
    Idle,
    /// HTTP: answers of 1 kB, a hundred requests at a time on one connection.
    Http1x100,
    /// HTTP: the same, one at a time on each of a hundred connections.
    Http100x1,
}

impl BenchCase {
    /// Whether it is for those that speak HTTP; the others are for those that do not.
    pub(crate) fn is_http(self) -> bool {
        matches!(self, Self::Http1x100 | Self::Http100x1)
    }
}

/// What the client of one run found.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
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
    /// Bytes of memory that the client took within these seconds.
    pub(crate) grown: u64,
}

/// Before the clock starts: congestion windows open, code and tables are in the caches.
pub(crate) const WARM: Duration = Duration::from_millis(400);

/// A run that stands still is given up.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// Idle connections.
const HELD: usize = 10_000;

/// Handshakes at a time for these.
const AT_A_TIME: usize = 50;

/// How long nothing happens before memory is read: handshakes are confirmed by then, and what they took is
/// freed. Far less than any stack's idle timeout.
const QUIET: Duration = Duration::from_secs(3);

pub(crate) async fn measure<C: StackClient>(client: C, case: BenchCase, seconds: f64) -> Result<()> {
    let time = Duration::try_from_secs_f64(seconds)?;
    let all = async {
        match case {
            BenchCase::Bulk => bulk(&client, 1, time).await,
            BenchCase::Bulk10 => bulk(&client, 10, time).await,
            BenchCase::Handshakes => handshakes(client, time).await,
            BenchCase::Latency1 => requests(&client, 1, time).await,
            BenchCase::Latency8k => requests(&client, 8 << 10, time).await,
            BenchCase::Latency32k => requests(&client, 32 << 10, time).await,
            BenchCase::Idle => idle(client).await,
            BenchCase::Http1x100 => many(&client, 1, 100, time).await,
            BenchCase::Http100x1 => many(&client, 100, 1, time).await,
        }
    };
    tokio::time::timeout(patience(case, time), all).await.context("nothing moves any more")?
}

/// How long a run of so much time may take.
pub(crate) fn patience(case: BenchCase, time: Duration) -> Duration {
    if case == BenchCase::Idle { 6 * PATIENCE } else { WARM + time + PATIENCE }
}

/// Answers all clients until the process ends.
pub(crate) async fn serve(mut server: impl StackServer) {
    while let Some(mut connection) = server.accept().await {
        spawn_local(async move {
            while let Ok(answer) = connection.requested().await {
                // A client that has enough leaves in the middle.
                spawn_local(async move { drop(send(answer).await) });
            }
        });
    }
}

async fn send(mut answer: impl StackAnswer) -> Result<()> {
    let bytes = bytes_of(&answer.question().await?).context("a path of no length")?;
    let (head, mut pieces) = (AnswerHead { status: 200, length: bytes, kind: None }, pieces(bytes));
    let first = pieces.next().unwrap_or_default();
    if first.len() as u64 == bytes {
        return answer.whole(&head, first).await;
    }
    answer.begin(&head).await?;
    answer.send(first).await?;
    for piece in pieces {
        answer.send(piece).await?;
    }
    answer.end().await
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
        }
    }
}

async fn bulk<C: StackClient>(client: &C, connections: usize, time: Duration) -> Result<()> {
    let (bytes, stop) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(false)));
    let mut downloads = JoinSet::new();
    for _ in 0..connections {
        let mut connection = client.connect(false).await?;
        let mut download = connection.request(path_of(u64::MAX).as_bytes()).await?;
        let (bytes, stop) = (bytes.clone(), stop.clone());
        downloads.spawn_local(async move {
            let mut sum = PatternSum::default();
            while !stop.get() {
                let before = sum.bytes();
                if !download.receive(&mut |part| sum.add(part)).await? {
                    bail!("the stream ended");
                }
                bytes.set(bytes.get() + sum.bytes() - before);
            }
            drop(download);
            connection.close();
            Ok(sum)
        });
    }
    tokio::time::sleep(WARM).await;
    let (span, before) = (TimedSpan::begin()?, bytes.get());
    tokio::time::sleep(time).await;
    let found = span.end(bytes.get() - before, Vec::new());
    stop.set(true);
    say(&found)?;
    while let Some(sum) = downloads.join_next().await {
        let sum: PatternSum = sum??;
        if sum.value() != expected(sum.bytes()) {
            bail!("{} bytes arrived, but not those that were sent", sum.bytes());
        }
    }
    Ok(())
}

async fn handshakes<C: StackClient>(client: C, time: Duration) -> Result<()> {
    let (client, stop) = (Rc::new(client), Rc::new(Cell::new(false)));
    let times = Rc::new(RefCell::new(Vec::new()));
    let mut callers = JoinSet::new();
    for _ in 0..8 {
        let (client, stop, times) = (client.clone(), stop.clone(), times.clone());
        callers.spawn_local(async move {
            while !stop.get() {
                let begun = Instant::now();
                let connection = client.connect(false).await?;
                times.borrow_mut().push(begun.elapsed().as_secs_f64());
                connection.close();
            }
            anyhow::Ok(())
        });
    }
    tokio::time::sleep(WARM).await;
    let span = TimedSpan::begin()?;
    times.borrow_mut().clear();
    tokio::time::sleep(time).await;
    let found = span.end(0, times.take());
    stop.set(true);
    say(&found)?;
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(())
}

async fn requests<C: StackClient>(client: &C, bytes: u64, time: Duration) -> Result<()> {
    let mut connection = client.connect(false).await?;
    let (warm, mut times) = (Instant::now(), Vec::new());
    let mut span = None;
    let (path, right) = (path_of(bytes), expected(bytes));
    loop {
        let begun = Instant::now();
        if span.is_none() && begun - warm > WARM {
            span = Some(TimedSpan::begin()?);
            times.clear();
        }
        let mut download = connection.request(path.as_bytes()).await?;
        let mut sum = PatternSum::default();
        while download.receive(&mut |part| sum.add(part)).await? {}
        times.push(begun.elapsed().as_secs_f64());
        if sum.bytes() != bytes || sum.value() != right {
            bail!("{} bytes arrived instead of {bytes}, or others", sum.bytes());
        }
        if let Some(span) = span.as_ref().filter(|span| span.wall.elapsed() >= time) {
            let found = span.end(bytes * times.len() as u64, times);
            say(&found)?;
            connection.close();
            return Ok(());
        }
    }
}

/// Answers of 1 kB, so many at a time on each of so many connections.
async fn many<C: StackClient>(
    client: &C,
    connections: usize,
    at_a_time: usize,
    time: Duration,
) -> Result<()> {
    let tally = Rc::new(AnswersSoFar::default());
    let mut callers = JoinSet::new();
    for _ in 0..connections {
        let connection = client.connect(false).await?;
        let tally = tally.clone();
        callers.spawn_local(ask_again(connection, at_a_time, tally));
    }
    tokio::time::sleep(WARM).await;
    let span = TimedSpan::begin()?;
    tally.times.borrow_mut().clear();
    tokio::time::sleep(time).await;
    let times = tally.times.take();
    let found = span.end(SMALL * times.len() as u64, times);
    tally.is_over.set(true);
    say(&found)?;
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(())
}

/// What has come so far.
#[derive(Default)]
struct AnswersSoFar {
    times: RefCell<Vec<f64>>,
    is_over: Cell<bool>,
}

/// Asks so often at a time until it is over, and waits for what it has asked for.
async fn ask_again<C: PeerConnection + 'static>(
    mut connection: C,
    at_a_time: usize,
    tally: Rc<AnswersSoFar>,
) -> Result<()> {
    let (path, right, mut asked) = (path_of(SMALL), expected(SMALL), JoinSet::new());
    loop {
        while asked.len() < at_a_time && !tally.is_over.get() {
            let begun = Instant::now();
            let mut download = connection.request(path.as_bytes()).await?;
            asked.spawn_local(async move {
                let mut sum = PatternSum::default();
                while download.receive(&mut |part| sum.add(part)).await? {}
                if sum.bytes() != SMALL || sum.value() != right {
                    bail!("{} bytes arrived instead of {SMALL}, or others", sum.bytes());
                }
                Ok(begun.elapsed().as_secs_f64())
            });
        }
        let Some(took) = asked.join_next().await else { break };
        tally.times.borrow_mut().push(took??);
    }
    connection.close();
    Ok(())
}

/// Bytes of an answer of which many are asked for.
const SMALL: u64 = 1000;

/// The server's memory is read before the first connection and behind the last, while all of them stand.
async fn idle<C: StackClient>(client: C) -> Result<()> {
    let (client, mut held) = (Rc::new(client), Vec::with_capacity(HELD));
    let span = TimedSpan::begin()?;
    // Before its first connection, that is.
    tokio::time::sleep(WARM).await;
    while held.len() < HELD {
        let mut callers = JoinSet::new();
        for _ in 0..AT_A_TIME {
            let client = client.clone();
            callers.spawn_local(async move { client.connect(false).await });
        }
        while let Some(connection) = callers.join_next().await {
            held.push(connection??);
        }
    }
    tokio::time::sleep(QUIET).await;
    let found = CaseFound { count: held.len() as u64, ..span.end(0, Vec::new()) };
    say(&found)?;
    // Until the other has looked, and closes our stdin.
    tokio::task::spawn_blocking(|| std::io::copy(&mut std::io::stdin(), &mut std::io::sink())).await??;
    held.into_iter().for_each(PeerConnection::close);
    Ok(())
}
