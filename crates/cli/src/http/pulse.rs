use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Whether something still moves on a connection.
///
/// A client that holds a connection and does nothing with it, or takes its answers by the byte (slowloris),
/// costs us a connection for as long as we let it. So without an answer under way a connection is quiet for a
/// while at most, and with some, one of them moves by a part now and then. It goes by the connection, since
/// an answer may well wait for those that the client wants more. And a server that lives and sends nothing
/// would be waited for without end.
pub(super) struct Pulse {
    beat: Mutex<Beat>,
    /// Is told when it rests, and when not any more.
    rests: Box<dyn Fn(bool) + Send + Sync>,
}

#[derive(Debug)]
struct Beat {
    last: Instant,
    /// Answers under way.
    active: usize,
}

/// How long nothing may move.
#[derive(Clone, Copy, Debug)]
pub(super) struct PulseLimits {
    /// Without an answer under way: between requests, and for the head of the next.
    pub(super) idle: Duration,
    /// With one under way.
    pub(super) stall: Duration,
}

/// What has not moved for too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Still {
    /// The client asks for nothing.
    Idle,
    /// The client takes nothing of what it asked for.
    Stalled,
}

impl Pulse {
    pub(super) fn new() -> Self {
        Self::telling(|_| {})
    }

    /// The same, and `rests` is told when there is no answer under way any more, and when there is one again.
    pub(super) fn telling(rests: impl Fn(bool) + Send + Sync + 'static) -> Self {
        Self { beat: Mutex::new(Beat { last: Instant::now(), active: 0 }), rests: Box::new(rests) }
    }

    /// An answer begins.
    pub(super) fn begin(&self) {
        self.beat(|beat| beat.active += 1);
    }

    /// A part of one was taken.
    pub(super) fn moved(&self) {
        self.beat(|_| {});
    }

    /// An answer ended.
    pub(super) fn end(&self) {
        self.beat(|beat| beat.active -= 1);
    }

    /// Waits until nothing has moved for too long. Dropping the future loses nothing.
    pub(super) async fn still(&self, limits: PulseLimits) -> Still {
        loop {
            let (until, still) = {
                let beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
                match beat.active {
                    0 => (beat.last + limits.idle, Still::Idle),
                    _ => (beat.last + limits.stall, Still::Stalled),
                }
            };
            if until <= Instant::now() {
                return still;
            }
            // What begins meanwhile may have the shorter limit.
            let look_again = Instant::now() + limits.idle.min(limits.stall);
            tokio::time::sleep_until(until.min(look_again).into()).await;
        }
    }

    fn beat(&self, change: impl FnOnce(&mut Beat)) {
        let mut beat = self.beat.lock().unwrap_or_else(PoisonError::into_inner);
        let rested = beat.active == 0;
        change(&mut beat);
        beat.last = Instant::now();
        if rested != (beat.active == 0) {
            // Before another can change it again.
            (self.rests)(!rested);
        }
    }
}

impl fmt::Debug for Pulse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pulse").field("beat", &self.beat).finish_non_exhaustive()
    }
}
