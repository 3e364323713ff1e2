//! The client asks, and the server sends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use anyhow::{Result, bail};
use quickset_stacks::{PeerConnection, StackClient, StackDownload, path_of};
use tokio::task::JoinSet;

use super::{CaseClient, CaseFound, TimedSpan, WARM};
use crate::os::taken;
use crate::pattern::{PatternSum, expected};
use crate::wire::say;

pub(super) async fn bulk<C: StackClient>(
    client: &CaseClient<C>,
    connections: usize,
    streams: usize,
) -> Result<()> {
    let (bytes, mut sums) = (Rc::new(Cell::new(0)), Vec::with_capacity(connections * streams));
    let mut downloads: JoinSet<Result<()>> = JoinSet::new();
    let mut held = Vec::with_capacity(connections);
    // All are there before the first byte moves, which else would hold up the handshakes of those behind it.
    for _ in 0..connections {
        held.push(client.stack.connect(false).await?);
    }
    for connection in &mut held {
        for _ in 0..streams {
            let download = connection.request(path_of(u64::MAX).as_bytes()).await?;
            let sum = Rc::new(RefCell::new(PatternSum::default()));
            downloads.spawn_local(fetch(download, sum.clone(), bytes.clone()));
            sums.push(sum);
        }
    }
    tokio::time::sleep(WARM).await;
    let (span, before) = (TimedSpan::begin()?, bytes.get());
    tokio::time::sleep(client.time).await;
    let found = CaseFound {
        connections: connections as u64,
        held: taken().resident.saturating_sub(client.before.resident),
        ..span.end(bytes.get() - before, Vec::new())
    };
    if let Some(ended) = downloads.try_join_next() {
        ended??;
    }
    downloads.shutdown().await;
    say(&found)?;
    for sum in sums {
        let sum = sum.borrow();
        if sum.value() != expected(sum.bytes()) {
            bail!("{} bytes arrived, but not those that were sent", sum.bytes());
        }
    }
    held.into_iter().for_each(PeerConnection::close);
    Ok(())
}

/// Reads a stream that goes on for ever.
async fn fetch(
    mut download: impl StackDownload,
    sum: Rc<RefCell<PatternSum>>,
    bytes: Rc<Cell<u64>>,
) -> Result<()> {
    loop {
        let before = sum.borrow().bytes();
        if !download.receive(&mut |part| sum.borrow_mut().add(part)).await? {
            bail!("the stream ended");
        }
        bytes.set(bytes.get() + sum.borrow().bytes() - before);
    }
}

pub(super) async fn one_by_one<C: StackClient>(client: &CaseClient<C>, bytes: u64) -> Result<()> {
    let mut connection = client.stack.connect(false).await?;
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
        if let Some(span) = span.as_ref().filter(|span| span.wall.elapsed() >= client.time) {
            let found = span.end(bytes * times.len() as u64, times);
            say(&found)?;
            connection.close();
            return Ok(());
        }
    }
}

/// Answers of 1 kB, so many at a time on each of so many connections.
pub(super) async fn many<C: StackClient>(
    client: &CaseClient<C>,
    connections: usize,
    at_a_time: usize,
) -> Result<()> {
    let tally = Rc::new(AnswersSoFar::default());
    let mut callers = JoinSet::new();
    for _ in 0..connections {
        let connection = client.stack.connect(false).await?;
        let tally = tally.clone();
        callers.spawn_local(ask_again(connection, at_a_time, tally));
    }
    tokio::time::sleep(WARM).await;
    let span = TimedSpan::begin()?;
    tally.times.borrow_mut().clear();
    tokio::time::sleep(client.time).await;
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
