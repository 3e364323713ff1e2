//! quinn and the crate h3.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::{Buf as _, Bytes};
use h3::server::RequestStream;
use http::{Request, Response, StatusCode};
use tokio::task::JoinSet;

use super::quinn::{accept, client, server};
use super::{PlayJob, PlayRole, dismissed};
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
    let endpoint = server(&job)?;
    let accepting = async {
        while let Some(connecting) = accept(&job, &endpoint).await {
            let job = job.clone();
            tokio::spawn(async move {
                if let Err(error) = answer_all(job, connecting).await {
                    eprintln!("over: {error:#}");
                }
            });
        }
    };
    tokio::select! {
        () = accepting => {}
        () = dismissed() => {}
    }
    Ok(())
}

async fn answer_all(job: Arc<PlayJob>, connecting: quinn::Connecting) -> Result<()> {
    let connection = h3_quinn::Connection::new(connecting.await?);
    let mut connection = h3::server::Connection::<_, Bytes>::new(connection).await?;
    while let Some(resolver) = connection.accept().await? {
        let job = job.clone();
        tokio::spawn(async move {
            let answered = async {
                let (request, stream) = resolver.resolve_request().await?;
                answer(&job, &request, stream).await
            };
            if let Err(error) = answered.await {
                eprintln!("a request: {error:#}");
            }
        });
    }
    Ok(())
}

async fn answer(
    job: &PlayJob,
    request: &Request<()>,
    mut stream: RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>,
) -> Result<()> {
    // A stream that is dropped unread is stopped, which some clients hold against the response.
    while stream.recv_data().await?.is_some() {}
    let file = job.file(request.uri().path());
    let status = if file.is_some() { StatusCode::OK } else { StatusCode::NOT_FOUND };
    stream.send_response(Response::builder().status(status).body(())?).await?;
    stream.send_data(file.unwrap_or_default()).await?;
    stream.finish().await?;
    Ok(())
}

async fn fetch(job: Arc<PlayJob>) -> Result<()> {
    let endpoint = client(&job)?;
    for paths in job.connections() {
        let connection = endpoint.connect(job.address, tls::NAME)?.await.context("connecting")?;
        let (mut driver, requests) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
        let driver = tokio::spawn(async move { driver.wait_idle().await });
        let mut files = JoinSet::new();
        for path in paths {
            files.spawn(fetch_one(job.clone(), requests.clone(), path));
        }
        while let Some(file) = files.join_next().await {
            file??;
        }
        // With the last handle the connection closes.
        drop(requests);
        let _ = tokio::time::timeout(Duration::from_secs(1), driver).await;
    }
    let _ = tokio::time::timeout(Duration::from_millis(50), endpoint.wait_idle()).await;
    Ok(())
}

type H3Requests = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

async fn fetch_one(job: Arc<PlayJob>, mut requests: H3Requests, path: String) -> Result<()> {
    let request = Request::get(format!("https://{}{path}", tls::NAME)).body(())?;
    let mut stream = requests.send_request(request).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    ensure!(response.status() == StatusCode::OK, "{path}: status {}", response.status());
    let mut content = Vec::new();
    while let Some(mut data) = stream.recv_data().await? {
        content.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    job.store(&path, &content)
}
