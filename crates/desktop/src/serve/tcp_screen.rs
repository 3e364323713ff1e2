//! The screen of a gateway that has come by TCP: messages in order, and nothing is lost (DT-56).

use tokio::sync::Notify;
use tokio::time::sleep;

use super::session::{LONG, TICK};
use super::stage::ClientSeat;
use crate::channel::DesktopChannel;
use crate::error::LinkError;
use crate::sender::ScreenItem;
use crate::tcp::TcpLink;

/// Shows the screen until something ends: encodes what has changed whenever the system takes more.
pub(super) async fn show_by_tcp(link: &TcpLink, seat: &ClientSeat, restart: &Notify) -> LinkError {
    let lane = link.sender(DesktopChannel::Screen);
    let mut rests = false;
    // Whether there may be something to send.
    let mut more = true;
    loop {
        let (due, now) = (seat.sender().next_deadline(), seat.now());
        let wait = due.map_or(LONG, |due| due.since(now).max(TICK));
        tokio::select! {
            room = lane.reserve(), if more => {
                let Ok(room) = room else { return link.closed().await };
                match next(seat) {
                    Some(payload) => {
                        room.send(payload);
                        // Marks follow what is sent.
                        seat.told.notify_one();
                    }
                    None => more = false,
                }
            }
            () = seat.drawn.notified() => more = true,
            // DT-4: in order there is nothing to be told apart.
            () = restart.notified() => {
                seat.sender().restart();
                more = true;
            }
            () = sleep(wait) => more = true,
        }
        // DT-36.
        let was = std::mem::replace(&mut rests, seat.sender().is_at_rest());
        if rests && !was {
            seat.told.notify_one();
        }
    }
}

/// The next message. What is handed to TCP arrives, or all that follows does not either.
fn next(seat: &ClientSeat) -> Option<bytes::Bytes> {
    let now = seat.now();
    let mut sender = seat.sender();
    loop {
        match sender.poll(now, TCP_BUDGET)? {
            ScreenItem::Message { id, payload, .. } => {
                sender.outcome(id, true);
                return Some(payload);
            }
            ScreenItem::Fence | ScreenItem::Flush => {}
        }
    }
}

/// The longest screen message, in bytes: what one record of TLS holds.
pub(super) const TCP_BUDGET: usize = 16_000;
