//! s2n-quic, hq-interop.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use s2n_quic::client::Connect;
use s2n_quic::connection::Handle;
use s2n_quic::provider::{endpoint_limits, tls::rustls as provider};
use s2n_quic::stream::BidirectionalStream;
use s2n_quic::{Client, Connection, Server};
use tokio::task::JoinSet;

use super::quickset::any_port;
use super::{MAX_FILE, MAX_REQUEST, PlayJob, PlayRole, dismissed, listening, request};
use crate::tls;

pub(super) async fn play(job: PlayJob) -> Result<()> {
    let job = Arc::new(job);
    match job.role {
        PlayRole::Server => serve(job).await?,
        PlayRole::Client => fetch(job).await?,
    }
    Ok(())
}

async fn serve(job: Arc<PlayJob>) -> Result<()> {
    let tls = provider::Server::from(job.identity()?.server(job.wishes())?);
    // With none allowed under way, each handshake has to prove its address.
    let limits = endpoint_limits::Default::builder();
    let limits = if job.retries() { limits.with_inflight_handshake_limit(0)? } else { limits };
    let mut server = Server::builder()
        .with_tls(tls)?
        .with_io(job.address)?
        .with_endpoint_limits(limits.build()?)?
        .start()
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    listening(server.local_addr()?);
    let accept = async {
        while let Some(connection) = server.accept().await {
            tokio::spawn(answer_all(job.clone(), connection));
        }
    };
    tokio::select! {
        () = accept => {}
        () = dismissed() => {}
    }
    Ok(())
}

async fn answer_all(job: Arc<PlayJob>, mut connection: Connection) {
    while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
        let job = job.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(&job, stream).await {
                eprintln!("a request: {error:#}");
            }
        });
    }
}

async fn answer(job: &PlayJob, mut stream: BidirectionalStream) -> Result<()> {
    let file = job.requested(&read(&mut stream, MAX_REQUEST).await?)?;
    stream.send(file).await?;
    Ok(stream.close().await?)
}

async fn read(stream: &mut BidirectionalStream, limit: usize) -> Result<Bytes> {
    let mut all = Vec::new();
    while let Some(chunk) = stream.receive().await? {
        anyhow::ensure!(all.len() + chunk.len() <= limit, "more than {limit} bytes");
        all.extend_from_slice(&chunk);
    }
    Ok(all.into())
}

async fn fetch(job: Arc<PlayJob>) -> Result<()> {
    let tls = provider::Client::from(job.identity()?.client(job.wishes())?);
    let client = Client::builder()
        .with_tls(tls)?
        .with_io(any_port(job.address))?
        .start()
        .map_err(|error| anyhow::anyhow!("{error}"))?;
    for paths in job.connections() {
        let connect = Connect::new(job.address).with_server_name(tls::NAME);
        let mut connection = client.connect(connect).await.context("connecting")?;
        connection.keep_alive(true)?;
        let mut files = JoinSet::new();
        for path in paths {
            files.spawn(fetch_one(job.clone(), connection.handle(), path));
        }
        while let Some(file) = files.join_next().await {
            file??;
        }
        connection.close(0_u32.into());
    }
    let mut client = client;
    let _ = tokio::time::timeout(Duration::from_millis(50), client.wait_idle()).await;
    Ok(())
}

async fn fetch_one(job: Arc<PlayJob>, mut connection: Handle, path: String) -> Result<()> {
    let mut stream = connection.open_bidirectional_stream().await?;
    stream.send(request(&path)).await?;
    stream.finish()?;
    let content = read(&mut stream, MAX_FILE).await.with_context(|| format!("fetching {path}"))?;
    job.store(&path, &content)
}
