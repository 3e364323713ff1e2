//! Connections on which nothing moves.

use std::rc::Rc;
use std::time::Duration;

use anyhow::Result;
use quickset_stacks::{PeerConnection, StackClient};
use tokio::task::JoinSet;

use super::{CaseClient, CaseFound, TimedSpan, WARM};
use crate::wire::say;

/// The server's memory is read before the first connection and behind the last, while all of them stand.
pub(super) async fn measure<C: StackClient>(client: CaseClient<C>) -> Result<()> {
    let (client, mut held) = (Rc::new(client), Vec::with_capacity(HELD));
    let span = TimedSpan::begin()?;
    // Before its first connection, that is.
    tokio::time::sleep(WARM).await;
    while held.len() < HELD {
        let mut callers = JoinSet::new();
        for _ in 0..AT_A_TIME {
            let client = client.clone();
            callers.spawn_local(async move { client.stack.connect(false).await });
        }
        while let Some(connection) = callers.join_next().await {
            held.push(connection??);
        }
    }
    tokio::time::sleep(QUIET).await;
    let found = CaseFound { count: held.len() as u64, ..span.end(0, Vec::new()) };
    say(&found)?;
    super::until_looked_at().await?;
    held.into_iter().for_each(PeerConnection::close);
    Ok(())
}

/// Idle connections.
const HELD: usize = 10_000;

/// Handshakes at a time for these.
const AT_A_TIME: usize = 50;

/// How long nothing happens before memory is read: handshakes are confirmed by then, and what they took is
/// freed. Far less than any stack's idle timeout.
const QUIET: Duration = Duration::from_secs(3);
