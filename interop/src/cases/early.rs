//! Early data: the second connection to a server begins with it; another server of the same name takes none
//! of it, and gets the same behind the handshake.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use quickset_net as ours;
use quickset_quic as sans;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};

use crate::stack::InteropStack;
use crate::tls::{self, InteropIdentity, TlsWishes};
use crate::world::{InteropPair, PROTOCOL};

pub(super) async fn run(pair: InteropPair) -> Result<()> {
    let wishes = TlsWishes { protocol: PROTOCOL, chacha: false, p384: false, early: false };
    let identity = InteropIdentity::new(0)?;
    let servers = [server(pair.server, &identity, wishes)?, server(pair.server, &identity, wishes)?];
    let mut tls = Arc::unwrap_or_clone(identity.client(wishes)?);
    tls.enable_early_data = true;
    let client = EarlyClient::new(pair.client, Arc::new(tls))?;
    let question = vec![7; 3000];
    for taken in [true, false] {
        client.ask(servers[0], b"hello", None).await.context("the first connection")?;
        let to = servers[usize::from(!taken)];
        let (answer, early) =
            client.ask(to, &question, Some(taken)).await.context("the second connection")?;
        ensure!(answer == question, "{} bytes came back of {}", answer.len(), question.len());
        ensure!(early == taken, "the server says that it came early: {early}");
    }
    Ok(())
}

/// Sends back what comes, and whether it came early.
fn server(stack: InteropStack, identity: &InteropIdentity, wishes: TlsWishes) -> Result<SocketAddr> {
    let mut tls = Arc::unwrap_or_clone(identity.server(wishes)?);
    tls.max_early_data_size = u32::MAX;
    let tls = Arc::new(tls);
    match stack {
        InteropStack::Quinn => {
            let crypto = QuicServerConfig::with_initial(tls, tls::initial_suite()?)?;
            let config = quinn::ServerConfig::with_crypto(Arc::new(crypto));
            let endpoint = quinn::Endpoint::server(config, ANY_PORT)?;
            let address = endpoint.local_addr()?;
            tokio::spawn(async move {
                while let Some(incoming) = endpoint.accept().await {
                    tokio::spawn(async move {
                        let Ok((connection, _)) = incoming.accept()?.into_0rtt() else { return Ok(()) };
                        while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                            let mut all = recv.read_to_end(1 << 20).await?;
                            all.push(u8::from(recv.is_0rtt()));
                            send.write_all(&all).await?;
                            send.finish()?;
                        }
                        Ok::<_, anyhow::Error>(())
                    });
                }
            });
            Ok(address)
        }
        InteropStack::Quickset => {
            let config = sans::ServerConfig {
                crypto: Arc::new(quickset_tls::Server::new(tls)?),
                transport: transport(),
                max_connections: 100,
                retry: sans::RetryPolicy::Never,
                retry_token_lifetime: std::time::Duration::from_secs(15),
                gate: None,
                token_lifetime: std::time::Duration::from_secs(15),
            };
            let endpoint = ours::Endpoint::server(ANY_PORT, secrets(), config)?;
            let address = endpoint.local_addr();
            tokio::spawn(async move {
                while let Some(connection) = endpoint.accept().await {
                    tokio::spawn(async move {
                        while let Ok((mut send, mut recv)) = connection.accept_bi().await {
                            let mut all = recv.read_to_end(1 << 20).await?;
                            all.push(u8::from(recv.is_early()));
                            send.write_all(&all).await?;
                            send.finish()?;
                        }
                        Ok::<_, anyhow::Error>(())
                    });
                }
            });
            Ok(address)
        }
    }
}

/// One that keeps its tickets from one connection to the next.
enum EarlyClient {
    Quinn(quinn::Endpoint, quinn::ClientConfig),
    Quickset(ours::Endpoint, sans::ClientConfig),
}

impl EarlyClient {
    fn new(stack: InteropStack, tls: Arc<rustls::ClientConfig>) -> Result<Self> {
        Ok(match stack {
            InteropStack::Quinn => {
                let crypto = QuicClientConfig::with_initial(tls, tls::initial_suite()?)?;
                Self::Quinn(quinn::Endpoint::client(ANY_PORT)?, quinn::ClientConfig::new(Arc::new(crypto)))
            }
            InteropStack::Quickset => {
                let crypto = Arc::new(quickset_tls::Client::new(tls)?);
                let endpoint =
                    ours::Endpoint::bind(ANY_PORT, &ours::SocketConfig::default(), secrets(), None)?;
                Self::Quickset(endpoint, sans::ClientConfig { crypto, transport: transport() })
            }
        })
    }

    /// A connection with one question: early, with what is then to be said of it, or behind the handshake.
    /// Returns what came back, and whether the server found it early.
    async fn ask(&self, to: SocketAddr, question: &[u8], early: Option<bool>) -> Result<(Vec<u8>, bool)> {
        let mut answer = match self {
            Self::Quinn(endpoint, config) => {
                let connecting = endpoint.connect_with(config.clone(), to, tls::NAME)?;
                let (connection, accepted) = match early {
                    None => (connecting.await?, None),
                    Some(_) => connecting
                        .into_0rtt()
                        .map(|(connection, accepted)| (connection, Some(accepted)))
                        .map_err(|_| anyhow::anyhow!("there is no ticket"))?,
                };
                let mut answer = question_quinn(&connection, question).await;
                if let Some(accepted) = accepted {
                    let accepted = accepted.await;
                    ensure!(Some(accepted) == early, "early data was taken: {accepted}");
                    if !accepted {
                        // Quinn leaves it to the application to ask again.
                        answer = question_quinn(&connection, question).await;
                    }
                }
                connection.close(0u32.into(), b"");
                answer?
            }
            Self::Quickset(endpoint, config) => {
                let connecting = endpoint.connect(to, tls::NAME, config);
                let connection = match early {
                    None => connecting.await?,
                    Some(_) => connecting.into_early().map_err(|_| anyhow::anyhow!("there is no ticket"))?,
                };
                let (mut send, mut recv) = connection.open_bi().await?;
                send.write_all(question).await?;
                send.finish()?;
                let answer = recv.read_to_end(1 << 20).await?;
                let accepted = connection.accepted_early().await;
                // With a ticket the server may say that it would take some, though none was written.
                ensure!(early.is_none_or(|early| accepted == early), "early data was taken: {accepted}");
                connection.close(0, b"");
                answer
            }
        };
        let early = answer.pop().context("an empty answer")? == 1;
        Ok((answer, early))
    }
}

async fn question_quinn(connection: &quinn::Connection, question: &[u8]) -> Result<Vec<u8>> {
    let (mut send, mut recv) = connection.open_bi().await?;
    send.write_all(question).await?;
    send.finish()?;
    Ok(recv.read_to_end(1 << 20).await?)
}

fn transport() -> Arc<sans::TransportConfig> {
    let early_data = Some(sans::EarlyData::default());
    Arc::new(sans::TransportConfig::fixed_mtu(1200).with_early_data(early_data))
}

fn secrets() -> sans::EndpointConfig {
    sans::EndpointConfig {
        crypto: Arc::new(quickset_tls::EndpointSecrets::new(&[5; 32])),
        connection_id_len: 8,
        resets_per_second: 100,
    }
}

const ANY_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
