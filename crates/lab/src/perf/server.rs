use quickset::{Connection, Endpoint, ReadError, RecvStream, SendStream, WriteError};
use quickset_base::Duration;

use super::cost::processor_time;
use super::pattern::{Check, Pattern};
use super::{Report, Request};

/// Serves every client of an endpoint, until the endpoint is closed.
pub async fn serve(endpoint: Endpoint) {
    let pattern = Pattern::new();
    while let Some(connection) = endpoint.accept().await {
        tokio::spawn(attend(connection, pattern.clone()));
    }
}

/// Serves a connection until it ends.
async fn attend(connection: Connection, pattern: Pattern) {
    let began = processor_time();
    while let Ok((send, receive)) = connection.accept_bi().await {
        let (connection, pattern) = (connection.clone(), pattern.clone());
        tokio::spawn(async move {
            // A client that gives up in the middle is no concern of a server.
            let _ = answer(&connection, pattern, began, (send, receive)).await;
        });
    }
}

async fn answer(
    connection: &Connection,
    pattern: Pattern,
    began: Option<Duration>,
    (mut send, mut receive): (SendStream, RecvStream),
) -> Result<(), Failure> {
    match request(&mut receive).await? {
        Request::Download(bytes) => give(&mut send, &pattern, bytes).await?,
        Request::Upload(_) => {
            let mut check = Check::new(pattern);
            let intact = take(&mut receive, &mut check).await?;
            if !intact {
                return Err(Failure);
            }
            send.write_all(&check.received().to_be_bytes()).await?;
        }
        Request::Report => {
            let stats = connection.stats();
            let cpu = processor_time().zip(began).map(|(now, then)| now.saturating_sub(then).as_secs_f64());
            let report = Report {
                cpu_s: cpu,
                packets: stats.sent_packets,
                lost: stats.lost_packets,
                fec: stats.fec.into(),
            };
            send.write_all(&serde_json::to_vec(&report).map_err(|_| Failure)?).await?;
        }
    }
    send.finish()?;
    Ok(send.finished().await?)
}

async fn request(receive: &mut RecvStream) -> Result<Request, Failure> {
    let mut head = [0; Request::SIZE];
    let mut filled = 0;
    while filled < head.len() {
        filled += receive.read(&mut head[filled..]).await?.ok_or(Failure)?;
    }
    Request::decode(&head).ok_or(Failure)
}

/// Sends the pattern: `bytes` of it, or until the peer stops it when that is 0.
pub(super) async fn give(send: &mut SendStream, pattern: &Pattern, bytes: u64) -> Result<(), WriteError> {
    let (mut offset, end) = (0, if bytes == 0 { u64::MAX } else { bytes });
    while offset < end {
        let chunk = pattern.at(offset, end - offset);
        offset += chunk.len() as u64;
        send.write_chunk(chunk).await?;
    }
    Ok(())
}

/// Reads to the end; false when something is not as it was sent.
async fn take(receive: &mut RecvStream, check: &mut Check) -> Result<bool, ReadError> {
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
struct Failure;

impl From<WriteError> for Failure {
    fn from(_: WriteError) -> Self {
        Self
    }
}

impl From<ReadError> for Failure {
    fn from(_: ReadError) -> Self {
        Self
    }
}
