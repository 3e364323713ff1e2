//! Connections that are made and closed.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use anyhow::Result;
use quickset_stacks::{PeerConnection, StackClient};
use tokio::task::JoinSet;

use super::{BenchCase, CaseClient, CaseFound, TimedSpan, WARM};
use crate::wire::say;

pub(super) async fn measure<C: StackClient>(client: CaseClient<C>) -> Result<()> {
    let (client, stop) = (Rc::new(client), Rc::new(Cell::new(false)));
    let times = Rc::new(RefCell::new(Vec::new()));
    let mut callers = JoinSet::new();
    for _ in 0..AT_A_TIME {
        let (client, stop, times) = (client.clone(), stop.clone(), times.clone());
        callers.spawn_local(async move {
            let mut last = None;
            while !stop.get() {
                let begun = Instant::now();
                let connection = client.stack.connect(false).await?;
                times.borrow_mut().push(begun.elapsed().as_secs_f64());
                if client.case != BenchCase::Resumed {
                    connection.close();
                } else if let Some(mut last) = last.replace(connection) {
                    // Tickets come behind a handshake: each connection stays until the next is there.
                    last.settle().await;
                    last.close();
                }
            }
            last.into_iter().for_each(PeerConnection::close);
            anyhow::Ok(())
        });
    }
    tokio::time::sleep(WARM).await;
    let (span, before) = (TimedSpan::begin()?, client.tickets.load(Ordering::Relaxed));
    times.borrow_mut().clear();
    tokio::time::sleep(client.time).await;
    let resumed = client.tickets.load(Ordering::Relaxed) - before;
    let found = CaseFound { resumed, ..span.end(0, times.take()) };
    stop.set(true);
    say(&found)?;
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    Ok(())
}

/// Handshakes under way.
const AT_A_TIME: usize = 8;
