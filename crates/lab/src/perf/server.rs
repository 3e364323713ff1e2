use quickset::{Connection, Endpoint, ReadError, RecvStream, SendStream, WriteError};
use quickset_base::Duration;

use super::cost::processor_time;
use super::pattern::{BytePattern, PatternCheck};
use super::source::PatternSource;
use super::{PerfReport, PerfRequest};

/// Serves every client of an endpoint, until the endpoint is closed.
pub async fn serve(endpoint: Endpoint) {
    serve_from(endpoint, PatternSource::default()).await;
}

/// The same, with what is downloaded from this source.
pub async fn serve_from(endpoint: Endpoint, source: PatternSource) {
    while let Some(connection) = endpoint.accept().await {
        tokio::spawn(attend(connection, source.clone()));
    }
}

/// Serves a connection until it ends.
async fn attend(connection: Connection, source: PatternSource) {
    let began = processor_time();
    while let Ok((send, receive)) = connection.accept_bi().await {
        let (connection, source) = (connection.clone(), source.clone());
        tokio::spawn(async move {
            // A client that gives up in the middle is no concern of a server.
            let _ = answer(&connection, &source, began, send, receive).await;
        });
    }
}

async fn answer(
    connection: &Connection,
    source: &PatternSource,
    began: Option<Duration>,
    mut send: SendStream,
    mut receive: RecvStream,
) -> Result<(), PerfFailure> {
    match request(&mut receive).await? {
        PerfRequest::Download(bytes) => give(&mut send, source, bytes).await?,
        PerfRequest::Upload(_) => {
            let mut check = PatternCheck::new(BytePattern::new());
            let intact = take(&mut receive, &mut check).await?;
            if !intact {
                return Err(PerfFailure);
            }
            send.write_all(&check.received().to_be_bytes()).await?;
        }
        PerfRequest::Report => {
            let stats = connection.stats();
            let cpu = processor_time().zip(began).map(|(now, then)| now.saturating_sub(then).as_secs_f64());
            let report = PerfReport {
                cpu_s: cpu,
                packets: stats.sent_packets,
                lost: stats.lost_packets,
                fec: stats.fec.into(),
            };
            send.write_all(&serde_json::to_vec(&report).map_err(|_| PerfFailure)?).await?;
        }
    }
    send.finish()?;
    Ok(send.finished().await?)
}

async fn request(receive: &mut RecvStream) -> Result<PerfRequest, PerfFailure> {
    let mut head = [0; PerfRequest::SIZE];
    let mut filled = 0;
    while filled < head.len() {
        filled += receive.read(&mut head[filled..]).await?.ok_or(PerfFailure)?;
    }
    PerfRequest::decode(&head).ok_or(PerfFailure)
}

/// Sends what a source has: `bytes` of it, or until the peer stops it when that is 0.
async fn give(send: &mut SendStream, source: &PatternSource, bytes: u64) -> Result<(), PerfFailure> {
    let mut reader = source.read(if bytes == 0 { u64::MAX } else { bytes }).map_err(|_| PerfFailure)?;
    while reader.left() > 0 {
        if let Some(due) = reader.due() {
            tokio::time::sleep_until(due.into()).await;
        }
        send.write_chunk(reader.next().map_err(|_| PerfFailure)?).await?;
    }
    Ok(())
}

/// Reads to the end; false when something is not as it was sent.
async fn take(receive: &mut RecvStream, check: &mut PatternCheck) -> Result<bool, ReadError> {
    let mut chunks = [const { bytes::Bytes::new() }; 32];
    loop {
        match receive.read_chunks(&mut chunks).await? {
            0 => return Ok(true),
            n if !chunks[..n].iter().all(|chunk| check.take(chunk)) => return Ok(false),
            _ => {}
        }
    }
}

/// The client gave up, or did not keep to the protocol. Dropping the stream tells it so.
struct PerfFailure;

impl From<WriteError> for PerfFailure {
    fn from(_: WriteError) -> Self {
        Self
    }
}

impl From<ReadError> for PerfFailure {
    fn from(_: ReadError) -> Self {
        Self
    }
}
