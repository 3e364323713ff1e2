//! Ours, hq-interop on the tokio driver.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use quickset_net::{Connection, Endpoint, QlogDir, RecvStream, SendStream, SocketConfig, qlog::Sinks};
use quickset_quic::{
    ClientConfig, EarlyData, EndpointConfig, RetryPolicy, ServerConfig, TransportConfig, Version,
};
use tokio::task::JoinSet;

use super::{MAX_FILE, MAX_REQUEST, PlayJob, PlayRole, dismissed, listening, note, request};
use crate::tls;

pub(super) async fn play(job: PlayJob) -> Result<()> {
    let job = Arc::new(job);
    match job.role {
        PlayRole::Server => serve(job).await?,
        PlayRole::Client => fetch(job).await?,
    }
    Ok(())
}

/// What both ways of ours are set up with.
pub(super) fn server_config(job: &PlayJob) -> Result<ServerConfig> {
    let tls = job.identity()?.server(job.wishes())?;
    Ok(ServerConfig {
        crypto: Arc::new(quickset_tls::Server::new(tls)?),
        transport: transport(job)?,
        max_connections: 100,
        retry: if job.retries() { RetryPolicy::Always } else { RetryPolicy::Never },
        retry_token_lifetime: Duration::from_secs(15),
        gate: None,
        token_lifetime: Duration::from_secs(600),
    })
}

pub(super) fn client_config(job: &PlayJob) -> Result<ClientConfig> {
    let tls = job.identity()?.client(job.wishes())?;
    let tickets = Arc::new(quickset_tls::TicketMemory::default());
    let crypto = quickset_tls::Client::new(tls)?.with_tickets(tickets, b"");
    Ok(ClientConfig { crypto: Arc::new(crypto), transport: transport(job)? })
}

pub(super) fn endpoint_config() -> EndpointConfig {
    EndpointConfig {
        crypto: Arc::new(quickset_tls::EndpointSecrets::new(b"what a server keeps to itself...")),
        connection_id_len: 8,
        resets_per_second: 100,
    }
}

fn transport(job: &PlayJob) -> Result<Arc<TransportConfig>> {
    let likes_2 = job.is("v2");
    let traces = job.seen.as_ref().map(QlogDir::new).transpose()?;
    Ok(Arc::new(
        TransportConfig::fixed_mtu(1200)
            .with_versions(if likes_2 {
                vec![Version::V2, Version::V1]
            } else {
                TransportConfig::default().versions
            })
            .with_first_version(likes_2.then_some(Version::V1))
            .with_idle_timeout(Duration::from_secs(30))
            // As long as others wait: by their first probe timeout of a second, one in a hundred takes more
            // than ten seconds while a third is lost.
            .with_handshake_timeout(Duration::from_secs(30))
            .with_early_data(job.is("zerortt").then(EarlyData::default))
            .with_qlog(traces.map(|traces| Arc::new(traces) as Arc<dyn Sinks>)),
    ))
}

async fn serve(job: Arc<PlayJob>) -> Result<()> {
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

async fn answer_all(job: Arc<PlayJob>, connection: Connection) {
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

async fn answer(job: &PlayJob, mut send: SendStream, mut receive: RecvStream) -> Result<()> {
    let file = job.requested(&receive.read_to_end(MAX_REQUEST).await?)?;
    if !file.is_empty() {
        send.write_chunk(file).await?;
    }
    send.finish()?;
    Ok(send.finished().await?)
}

async fn fetch(job: Arc<PlayJob>) -> Result<()> {
    // Whoever moves to another address has to have more than one.
    let from = if job.is("connectionmigration") { all_addresses(job.address) } else { any_port(job.address) };
    let endpoint = Endpoint::bind(from, &SocketConfig::default(), endpoint_config(), None)?;
    let config = client_config(&job)?;
    for (n, paths) in job.connections().into_iter().enumerate() {
        let connecting = endpoint.connect(job.address, tls::NAME, &config);
        let connection = if job.is("zerortt") && n > 0 {
            connecting.into_early().ok().context("there is no ticket for early data")?
        } else {
            connecting.await.context("connecting")?
        };
        let meddling = tokio::spawn(meddle(job.clone(), connection.clone()));
        let mut files = JoinSet::new();
        for path in paths {
            files.spawn(fetch_one(job.clone(), connection.clone(), path));
        }
        while let Some(file) = files.join_next().await {
            file??;
        }
        meddling.abort();
        tell(&connection);
        connection.close(0, b"");
    }
    let _ = tokio::time::timeout(Duration::from_secs(2), endpoint.wait_idle()).await;
    Ok(())
}

async fn fetch_one(job: Arc<PlayJob>, connection: Connection, path: String) -> Result<()> {
    let (mut send, mut receive) = connection.open_bi().await?;
    send.write_chunk(request(&path)).await?;
    send.finish()?;
    let content = receive.read_to_end(MAX_FILE).await.with_context(|| format!("fetching {path}"))?;
    job.store(&path, &content)
}

/// What a client does besides, once, as soon as it may be.
async fn meddle(job: Arc<PlayJob>, connection: Connection) {
    let done = || match job.case.as_str() {
        "keyupdate" => connection.update_keys(),
        "connectionmigration" => connection.migrate(Some(Ipv4Addr::new(127, 0, 0, 2).into())).is_ok(),
        _ => true,
    };
    while !done() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn tell(connection: &Connection) {
    note("key_updates", connection.stats().key_updates);
}

/// A port at every address of the kind that leads to `to`.
fn all_addresses(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// A port of the kind of address that leads to `to`.
pub(super) fn any_port(to: SocketAddr) -> SocketAddr {
    match to {
        SocketAddr::V4(_) => (Ipv4Addr::LOCALHOST, 0).into(),
        SocketAddr::V6(_) => (std::net::Ipv6Addr::LOCALHOST, 0).into(),
    }
}
