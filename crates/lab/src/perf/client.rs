use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use quickset::{
    ClientConfig, ConnectError, Connection, Endpoint, ReadError, ReadToEndError, RecvStream, SendStream,
    WriteError,
};
use quickset_base::Duration;
use quickset_base::number::Unsigned as _;

use super::cost::processor_time;
use super::pattern::{BytePattern, PatternCheck};
use super::{Direction, PerfReport, PerfRequest, Repaired, Speed};

/// What to measure.
#[derive(Clone, Debug)]
pub struct PerfJob {
    /// The server.
    pub address: SocketAddr,
    /// Its name.
    pub name: String,
    /// Connections at a time, at least one.
    pub connections: usize,
    /// Which way.
    pub direction: Direction,
    /// Bytes on all connections together; `None` is without end.
    pub bytes: Option<u64>,
    /// For how long; `None` is until all bytes are through. One of the two is needed.
    pub time: Option<Duration>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum PerfError {
    /// No connection.
    #[error("no connection to the server: {0}")]
    Connect(#[from] ConnectError),
    /// The connection broke while sending.
    #[error("the transfer broke off: {0}")]
    Write(#[from] WriteError),
    /// The connection broke while receiving.
    #[error("the transfer broke off: {0}")]
    Read(#[from] ReadError),
    /// A connection ended.
    #[error("the connection ended: {0}")]
    Closed(#[from] quickset::Closed),
    /// What the system says of a connection of TCP, or TLS of what came over it.
    #[error("the transfer over TCP broke off: {0}")]
    Tcp(#[from] std::io::Error),
    /// The server's answer is no answer.
    #[error("the server's answer cannot be understood; both ends must run the same version of quickset")]
    Answer,
    /// What arrived is not what was sent.
    #[error("byte {0} or one right behind it arrived damaged, which is a fault of quickset")]
    Damaged(u64),
}

/// Transfers bytes as `job` says, and measures. `bytes` counts those that arrived (or, when sending, left) so
/// far, for a display.
///
/// # Errors
/// See [`PerfError`].
pub async fn measure(
    endpoint: &Endpoint,
    config: &ClientConfig,
    job: &PerfJob,
    bytes: &Arc<AtomicU64>,
) -> Result<Speed, PerfError> {
    let n = job.connections.max(1);
    let mut connections = Vec::new();
    for _ in 0..n {
        connections.push(endpoint.connect(job.address, &job.name, config).await?);
    }
    let start = PerfStart::now();
    let mut transfers = tokio::task::JoinSet::new();
    for (i, connection) in connections.iter().enumerate() {
        let share = job.bytes.map(|all| share(all, n, i));
        let transfer =
            PerfTransfer { share, until: job.time.map(|time| start.at + time), bytes: bytes.clone() };
        let (connection, direction) = (connection.clone(), job.direction);
        transfers.spawn(async move {
            match direction {
                Direction::Download => transfer.download(&connection).await,
                Direction::Upload => transfer.upload(&connection).await,
            }
        });
    }
    let mut transferred = 0;
    while let Some(done) = transfers.join_next().await {
        transferred += done.map_err(|_| PerfError::Answer)??;
    }
    let mut speed = start.speed(transferred, n, job.direction);
    for (i, connection) in connections.iter().enumerate() {
        let report = report(connection).await?;
        if i == 0 {
            // The processor time is that of the whole server, and the first connection saw most of it.
            speed.cpu_s_per_gb_server = per_gigabyte(report.cpu_s, transferred);
        }
        let (packets, lost, fec) = match job.direction {
            Direction::Download => (report.packets, report.lost, report.fec),
            Direction::Upload => {
                let stats = connection.stats();
                (stats.sent_packets, stats.lost_packets, stats.fec.into())
            }
        };
        speed.packets += packets;
        speed.lost += lost;
        speed.fec.add(fec);
        connection.close(0, b"done");
    }
    Ok(speed)
}

/// The part of connection `i` of `n`: what does not divide evenly goes with the first ones.
pub(super) fn share(all: u64, n: usize, i: usize) -> u64 {
    all / n as u64 + u64::from((i as u64) < all % n as u64)
}

/// What is measured from.
pub(super) struct PerfStart {
    at: Instant,
    cpu: Option<Duration>,
}

impl PerfStart {
    pub(super) fn now() -> Self {
        Self { at: Instant::now(), cpu: processor_time() }
    }

    /// So many bytes have gone over so many connections since, of which no more is known.
    pub(super) fn speed(&self, bytes: u64, connections: usize, direction: Direction) -> Speed {
        let seconds = self.at.elapsed().as_secs_f64();
        let spent = processor_time().zip(self.cpu).map(|(now, then)| now.saturating_sub(then).as_secs_f64());
        Speed {
            bits_per_second: bytes.approx() * 8.0 / seconds,
            cpu_s_per_gb_client: per_gigabyte(spent, bytes),
            cpu_s_per_gb_server: None,
            packets: 0,
            lost: 0,
            fec: Repaired::default(),
            bytes,
            seconds,
            connections,
            direction,
        }
    }
}

/// A connection's part.
struct PerfTransfer {
    /// Bytes to transfer; `None` is without end.
    share: Option<u64>,
    until: Option<Instant>,
    bytes: Arc<AtomicU64>,
}

impl PerfTransfer {
    async fn download(&self, connection: &Connection) -> Result<u64, PerfError> {
        if self.share == Some(0) {
            return Ok(0);
        }
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_all(&PerfRequest::Download(self.share.unwrap_or(0)).encode()).await?;
        send.finish()?;
        let mut check = PatternCheck::new(BytePattern::new());
        let end = tokio::time::sleep_until(self.until.unwrap_or_else(far_away).into());
        tokio::pin!(end);
        let mut chunks = [const { bytes::Bytes::new() }; 32];
        loop {
            let n = tokio::select! {
                n = receive.read_chunks(&mut chunks) => n?,
                () = &mut end => break,
            };
            let before = check.received();
            if !chunks[..n].iter().all(|chunk| check.take(chunk)) {
                return Err(PerfError::Damaged(before));
            }
            self.bytes.fetch_add(check.received() - before, Ordering::Relaxed);
            if n == 0 {
                let whole = self.share.is_none_or(|share| share == check.received());
                return if whole { Ok(check.received()) } else { Err(PerfError::Answer) };
            }
        }
        receive.stop(0);
        Ok(check.received())
    }

    async fn upload(&self, connection: &Connection) -> Result<u64, PerfError> {
        let (mut send, mut receive) = connection.open_bi().await?;
        send.write_all(&PerfRequest::Upload(self.share.unwrap_or(0)).encode()).await?;
        let sent = self.send(&mut send).await?;
        send.finish()?;
        let intact = answer(&mut receive).await?;
        let intact = u64::from_be_bytes(intact.try_into().map_err(|_| PerfError::Damaged(0))?);
        if intact == sent { Ok(sent) } else { Err(PerfError::Damaged(intact)) }
    }

    async fn send(&self, send: &mut SendStream) -> Result<u64, WriteError> {
        let pattern = BytePattern::new();
        let (mut offset, end) = (0, self.share.unwrap_or(u64::MAX));
        while offset < end && self.until.is_none_or(|until| Instant::now() < until) {
            let chunk = pattern.at(offset, end - offset);
            offset += chunk.len() as u64;
            self.bytes.fetch_add(chunk.len() as u64, Ordering::Relaxed);
            send.write_chunk(chunk).await?;
        }
        Ok(offset)
    }
}

async fn report(connection: &Connection) -> Result<PerfReport, PerfError> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_all(&PerfRequest::Report.encode()).await?;
    send.finish()?;
    serde_json::from_slice(&answer(&mut receive).await?).map_err(|_| PerfError::Answer)
}

/// A short answer.
async fn answer(receive: &mut RecvStream) -> Result<Vec<u8>, PerfError> {
    receive.read_to_end(4096).await.map_err(|error| match error {
        ReadToEndError::TooLong(_) => PerfError::Answer,
        ReadToEndError::Read(error) => PerfError::Read(error),
    })
}

fn per_gigabyte(seconds: Option<f64>, bytes: u64) -> Option<f64> {
    seconds.filter(|_| bytes > 0).map(|seconds| seconds / (bytes.approx() / 1e9))
}

/// A time that no transfer takes.
fn far_away() -> Instant {
    Instant::now() + Duration::from_secs(365 * 24 * 3600)
}
