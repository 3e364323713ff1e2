//! The screen of a gateway that has come by TCP: messages in order, and nothing is lost (DT-56).

use std::time::Duration;

use quickset_base::Time;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::session::{LONG, TICK};
use super::stage::ClientSeat;
use crate::channel::DesktopChannel;
use crate::error::LinkError;
use crate::sender::{LinkEstimate, ScreenItem};
use crate::tcp::TcpLink;

/// Shows the screen until something ends: encodes what has changed whenever the system takes more.
pub(super) async fn show_by_tcp(link: &TcpLink, seat: &ClientSeat, restart: &Notify) -> LinkError {
    let lane = link.sender(DesktopChannel::Screen);
    let mut rests = false;
    let mut rate = TcpRate::default();
    // Whether there may be something to send.
    let mut more = true;
    loop {
        let (due, now) = (seat.sender().next_deadline(), seat.now());
        let wait = due.map_or(LONG, |due| due.since(now).max(TICK));
        tokio::select! {
            room = lane.reserve(), if more => {
                let Ok(room) = room else { return link.closed().await };
                if let Some(payload) = next(seat) {
                    rate.sent(seat.now(), payload.len());
                    room.send(payload);
                    // Marks follow what is sent.
                    seat.told.notify_one();
                } else {
                    more = false;
                    rate.pauses();
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
        let estimate = LinkEstimate { rate: rate.now(seat.now()), min_rtt: Duration::ZERO };
        seat.sender().set_link(estimate);
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

/// What TCP takes: the system does not say what it knows of the path.
#[derive(Debug, Default)]
struct TcpRate {
    /// Since when there has been more to send all the time, and what was sent since.
    busy: Option<(Time, usize)>,
    /// Bytes a second, and when that was found.
    known: Option<(u64, Time)>,
}

impl TcpRate {
    /// So many bytes were taken.
    fn sent(&mut self, now: Time, bytes: usize) {
        // What the first took is not known: it was taken before.
        let Some((since, sent)) = &mut self.busy else {
            self.busy = Some((now, 0));
            return;
        };
        *sent += bytes;
        let time = now.since(*since);
        if time >= LEAST_TIME {
            let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
            self.known = Some(((*sent as u64).saturating_mul(1_000_000) / micros, now));
            self.busy = Some((now, 0));
        }
    }

    /// There is nothing to send.
    fn pauses(&mut self) {
        self.busy = None;
    }

    /// Bytes a second; `None` when that is not known, or no more.
    fn now(&self, now: Time) -> Option<u64> {
        self.known.filter(|(_, at)| now.since(*at) < REMEMBERED).map(|(rate, _)| rate)
    }
}

/// How long a rate is measured.
const LEAST_TIME: Duration = Duration::from_millis(100);
/// How long it is believed: what is sent since then may have been less than there was room for.
const REMEMBERED: Duration = Duration::from_secs(5);
/// The longest screen message, in bytes: what one record of TLS holds.
pub(super) const TCP_BUDGET: usize = 16_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_is_taken_while_there_is_more() {
        let mut rate = TcpRate::default();
        let at = Time::from_millis;
        // 16 kB each 20 ms are 800 kB a second, whatever was there before.
        for n in 0..20 {
            rate.sent(at(20 * n), 16_000);
        }
        assert_eq!(rate.now(at(400)), Some(800_000));
        // Bytes now and then say nothing, and what was known is forgotten.
        for n in 0..10 {
            rate.pauses();
            rate.sent(at(400 + 500 * n), 16_000);
        }
        assert_eq!((rate.now(at(4900)), rate.now(at(6000))), (Some(800_000), None));
    }
}
