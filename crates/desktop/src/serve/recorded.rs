use std::convert::Infallible;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::stage::{ClientSeat, ServerScreen};
use crate::message::{FromServer, ScreenOrder};
use crate::receiver::{ReceiverConfig, ScreenReceiver};
use crate::record::{RecorderTap, ScreenRecorder};
use crate::sender::{ScreenItem, SenderConfig};

/// Records what a desktop shows, whoever looks: a client of its own, to which nothing is lost. It has a
/// screen of its own too, since the sender's is ahead of what it has sent.
pub(super) async fn record(what: Option<(ScreenRecorder, ServerScreen)>) -> Infallible {
    let Some((recorder, stage)) = what else { return std::future::pending().await };
    let order = ScreenOrder::Ordered;
    let seat = stage.sit(SenderConfig { order, budget: BUDGET, ..SenderConfig::default() });
    let mut receiver = ScreenReceiver::new(ReceiverConfig { order, ..ReceiverConfig::default() });
    let mut tap = RecorderTap::new(&recorder, order);
    loop {
        for news in seat.news() {
            match news {
                FromServer::Name(name) => tap.name(&name),
                FromServer::Cursor(cursor) => tap.cursor(&cursor),
                _ => {}
            }
        }
        let (mut more, mut due) = (true, None);
        while more {
            (more, due) = pass(&seat, &mut receiver, &mut tap);
            // Everybody else has a turn.
            tokio::task::yield_now().await;
        }
        let changes = receiver.changes();
        tap.show(receiver.screen(), &changes);
        let wait = async {
            match due {
                Some(due) => sleep_until(Instant::now() + due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = seat.told.notified() => {}
            () = seat.drawn.notified() => {}
            () = wait => {}
        }
    }
}

/// Passes some messages on. Returns whether there are more, and after what time there will be.
fn pass(seat: &ClientSeat, receiver: &mut ScreenReceiver, tap: &mut RecorderTap) -> (bool, Option<Duration>) {
    let now = seat.now();
    let mut messages = Vec::new();
    let mut sender = seat.sender();
    while messages.len() < AT_ONCE {
        let Some(item) = sender.poll(now, usize::MAX) else { break };
        if let ScreenItem::Message { id, payload, .. } = item {
            sender.outcome(id, true);
            messages.push(payload);
        }
    }
    // Nobody needs to be told how far it has come.
    while sender.control(now).is_some() {}
    let due = sender.next_deadline().map(|due| due.since(now));
    drop(sender);
    for message in &messages {
        match receiver.receive(message) {
            Ok(()) => tap.message(message),
            Err(error) => tracing::error!(%error, "a message of our own cannot be recorded"),
        }
    }
    (messages.len() == AT_ONCE, due)
}

/// Bytes of a message: no packet has to carry it.
const BUDGET: usize = 8192;
/// Messages that are encoded before others have their turn with the screen.
const AT_ONCE: usize = 16;
