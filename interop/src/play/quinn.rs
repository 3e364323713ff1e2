//! quinn, hq-interop.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{Connection, Endpoint};
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

pub(super) fn server(job: &PlayJob) -> Result<Endpoint> {
    let tls = job.identity()?.server(job.wishes())?;
    let crypto = QuicServerConfig::with_initial(tls, tls::initial_suite()?)?;
    let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
    let endpoint = Endpoint::server(config, job.address)?;
    listening(endpoint.local_addr()?);
    Ok(endpoint)
}

/// The next connection whose client has proven its address, where the case wants that.
pub(super) async fn accept(job: &PlayJob, endpoint: &Endpoint) -> Option<quinn::Connecting> {
    loop {
        let incoming = endpoint.accept().await?;
        if job.retries() && !incoming.remote_address_validated() {
            let _ = incoming.retry();
            continue;
        }
        match incoming.accept() {
            Ok(connecting) => return Some(connecting),
            Err(error) => eprintln!("a connection: {error}"),
        }
    }
}

pub(super) fn client(job: &PlayJob) -> Result<Endpoint> {
    let tls = job.identity()?.client(job.wishes())?;
    let crypto = QuicClientConfig::with_initial(tls, tls::initial_suite()?)?;
    let mut endpoint = Endpoint::client(any_port(job.address))?;
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    Ok(endpoint)
}

async fn serve(job: Arc<PlayJob>) -> Result<()> {
    let endpoint = server(&job)?;
    let accepting = async {
        while let Some(connecting) = accept(&job, &endpoint).await {
            tokio::spawn(answer_all(job.clone(), connecting));
        }
    };
    tokio::select! {
        () = accepting => {}
        () = dismissed() => {}
    }
    Ok(())
}

async fn answer_all(job: Arc<PlayJob>, connecting: quinn::Connecting) {
    // Of a server these are streams of the client, which may send before its handshake is complete.
    let connection = match connecting.into_0rtt() {
        Ok((connection, _)) => connection,
        Err(connecting) => match connecting.await {
            Ok(connection) => connection,
            Err(error) => return eprintln!("a handshake: {error}"),
        },
    };
    while let Ok((send, receive)) = connection.accept_bi().await {
        let job = job.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(&job, send, receive).await {
                eprintln!("a request: {error:#}");
            }
        });
    }
    eprintln!("over: {}", connection.closed().await);
}

async fn answer(job: &PlayJob, mut send: quinn::SendStream, mut receive: quinn::RecvStream) -> Result<()> {
    let file = job.requested(&receive.read_to_end(MAX_REQUEST).await?)?;
    send.write_chunk(file).await?;
    send.finish()?;
    send.stopped().await?;
    Ok(())
}

async fn fetch(job: Arc<PlayJob>) -> Result<()> {
    let endpoint = client(&job)?;
    for (n, paths) in job.connections().into_iter().enumerate() {
        let connecting = endpoint.connect(job.address, tls::NAME)?;
        let connection = if job.is("zerortt") && n > 0 {
            connecting.into_0rtt().ok().context("there is no ticket for early data")?.0
        } else {
            connecting.await.context("connecting")?
        };
        let meddling = tokio::spawn(meddle(job.clone(), endpoint.clone(), connection.clone()));
        let mut files = JoinSet::new();
        for path in paths {
            files.spawn(fetch_one(job.clone(), connection.clone(), path));
        }
        while let Some(file) = files.join_next().await {
            file??;
        }
        meddling.abort();
        connection.close(0_u32.into(), b"");
    }
    // quinn waits seconds for an answer to a farewell; only that it leaves is wanted.
    let _ = tokio::time::timeout(Duration::from_millis(50), endpoint.wait_idle()).await;
    Ok(())
}

/// What a client does besides.
async fn meddle(job: Arc<PlayJob>, endpoint: Endpoint, connection: Connection) -> Result<()> {
    tokio::time::sleep(Duration::from_millis(300)).await;
    match job.case.as_str() {
        "keyupdate" => connection.force_key_update(),
        "connectionmigration" => endpoint.rebind(std::net::UdpSocket::bind(any_port(job.address))?)?,
        _ => {}
    }
    Ok(())
}

async fn fetch_one(job: Arc<PlayJob>, connection: Connection, path: String) -> Result<()> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_chunk(request(&path)).await?;
    send.finish()?;
    let content = receive.read_to_end(MAX_FILE).await.with_context(|| format!("fetching {path}"))?;
    job.store(&path, &content)
}
