//! `--migrate`: a connection that goes on from elsewhere while content comes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use quickset::{Connection, Endpoint, Move, MoveError, SocketConfig};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use crate::say::note;

/// Where to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum To {
    /// Another port of the same addresses.
    Port,
    /// Another address of this machine, with the same port.
    Address(IpAddr),
}

impl std::str::FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "port" => Ok(Self::Port),
            text => text
                .parse()
                .map(Self::Address)
                .map_err(|_| "write an address of this machine, or nothing".to_owned()),
        }
    }
}

/// Moves the connection once content comes, and tells how that ended.
pub(super) async fn stroll(endpoint: Endpoint, connection: Connection, to: To, comes: Arc<Notify>) {
    comes.notified().await;
    let mut moves = connection.moves();
    match to {
        To::Port => {
            let any = match endpoint.local_addr().ip() {
                IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
                IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
            };
            if let Err(error) = endpoint.rebind(SocketAddr::new(any, 0), &SocketConfig::default()) {
                return note!("quickset: warning: no other port can be had: {error}");
            }
        }
        To::Address(address) => loop {
            match connection.migrate(Some(address)) {
                Ok(()) => break,
                // RFC 9000 §9: not before the server has confirmed the handshake; nor before it has given an
                // id for it (§9.5).
                Err(MoveError::NotConfirmed | MoveError::NoId) if connection.close_reason().is_none() => {
                    tokio::time::sleep(Duration::from_millis(10)).await;
                }
                Err(error) => return note!("quickset: warning: the connection does not move: {error}"),
            }
        },
    }
    match moves.next().await {
        Ok(Move::Done(path)) => {
            let local = path.local.or_else(|| connection.local_ip());
            let port = endpoint.local_addr().port();
            match local {
                Some(ip) => note!("the connection goes on from {}", SocketAddr::new(ip.to_canonical(), port)),
                None => note!("the connection goes on from port {port}"),
            }
        }
        Ok(_) => note!("quickset: warning: the connection did not move: nothing comes back that way"),
        // Its end is told elsewhere.
        Err(_) => {}
    }
}

/// Nothing is left to be fetched: what has not moved by now does not.
pub(super) async fn end(mut stroll: JoinHandle<()>) {
    if tokio::time::timeout(PATIENCE, &mut stroll).await.is_err() {
        stroll.abort();
        note!("quickset: warning: all was there before the connection had moved");
    }
}

/// For the answer to the last challenge.
const PATIENCE: Duration = Duration::from_millis(500);
