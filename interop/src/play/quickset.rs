//! Ours, hq-interop on the tokio driver.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use quickset_net::{Connection, Endpoint, RecvStream, SendStream, SocketConfig};
use quickset_quic::{ClientConfig, EndpointConfig, RetryPolicy, ServerConfig, TransportConfig};
use tokio::task::JoinSet;

use super::{Job, MAX_FILE, MAX_REQUEST, Role, dismissed, listening, note, request};
use crate::tls;

pub(super) async fn play(job: Job) -> Result<()> {
    let job = Arc::new(job);
    match job.role {
        Role::Server => serve(job).await?,
        Role::Client => fetch(job).await?,
    }
    Ok(())
}

/// What both ways of ours are set up with.
pub(super) fn server_config(job: &Job) -> Result<ServerConfig> {
    let tls = job.identity()?.server(job.wishes())?;
    Ok(ServerConfig {
        crypto: Arc::new(quickset_tls::Server::new(tls)?),
        transport: transport(),
        max_connections: 100,
        retry: if job.is("retry") { RetryPolicy::Always } else { RetryPolicy::Never },
        retry_token_lifetime: Duration::from_secs(15),
        token_lifetime: Duration::from_secs(600),
    })
}

pub(super) fn client_config(job: &Job) -> Result<ClientConfig> {
    let tls = job.identity()?.client(job.wishes())?;
    Ok(ClientConfig { crypto: Arc::new(quickset_tls::Client::new(tls)?), transport: transport() })
}

pub(super) fn endpoint_config() -> EndpointConfig {
    EndpointConfig {
        crypto: Arc::new(quickset_tls::EndpointSecrets::new(b"what a server keeps to itself...")),
        connection_id_len: 8,
        resets_per_second: 100,
    }
}

fn transport() -> Arc<TransportConfig> {
    Arc::new(TransportConfig { idle_timeout: Some(Duration::from_secs(30)), ..TransportConfig::default() })
}

async fn serve(job: Arc<Job>) -> Result<()> {
    let config = server_config(&job)?;
    let endpoint = Endpoint::bind(job.address, &SocketConfig::default(), endpoint_config(), Some(config))?;
    listening(endpoint.local_addr());
    let accept = async {
        while let Some(connection) = endpoint.accept().await {
            tokio::spawn(answer_all(job.clone(), connection));
        }
    };
    tokio::select! {
        () = accept => {}
        () = dismissed() => {}
    }
    endpoint.close(0, b"");
    // Those whose clients are gone take three probe timeouts.
    let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
    Ok(())
}

async fn answer_all(job: Arc<Job>, connection: Connection) {
    while let Ok((send, receive)) = connection.accept_bi().await {
        let job = job.clone();
        tokio::spawn(async move {
            if let Err(error) = answer(&job, send, receive).await {
                eprintln!("a request: {error:#}");
            }
        });
    }
    eprintln!("over: {}", connection.closed().await);
    tell(&connection);
}

async fn answer(job: &Job, mut send: SendStream, mut receive: RecvStream) -> Result<()> {
    let file = job.requested(&receive.read_to_end(MAX_REQUEST).await?)?;
    if !file.is_empty() {
        send.write_chunk(file).await?;
    }
    send.finish()?;
    Ok(send.finished().await?)
}

async fn fetch(job: Arc<Job>) -> Result<()> {
    let endpoint = Endpoint::bind(any_port(job.address), &SocketConfig::default(), endpoint_config(), None)?;
    let config = client_config(&job)?;
    for paths in job.connections() {
        let connection = endpoint.connect(job.address, tls::NAME, &config).await.context("connecting")?;
        let updates = tokio::spawn(update_keys(job.clone(), connection.clone()));
        let mut files = JoinSet::new();
        for path in paths {
            files.spawn(fetch_one(job.clone(), connection.clone(), path));
        }
        while let Some(file) = files.join_next().await {
            file??;
        }
        updates.abort();
        tell(&connection);
        connection.close(0, b"");
    }
    let _ = tokio::time::timeout(Duration::from_secs(2), endpoint.wait_idle()).await;
    Ok(())
}

async fn fetch_one(job: Arc<Job>, connection: Connection, path: String) -> Result<()> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_chunk(request(&path)).await?;
    send.finish()?;
    let content = receive.read_to_end(MAX_FILE).await.with_context(|| format!("fetching {path}"))?;
    job.store(&path, &content)
}

/// Once, as soon as it may be.
async fn update_keys(job: Arc<Job>, connection: Connection) {
    while job.is("keyupdate") && !connection.update_keys() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn tell(connection: &Connection) {
    note("key_updates", connection.stats().key_updates);
}

/// A port of the kind of address that leads to `to`.
pub(super) fn any_port(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(_) => (std::net::Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::LOCALHOST, 0).into(),
    }
}
