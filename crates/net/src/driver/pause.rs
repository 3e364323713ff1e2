//! Readers of datagrams, who are let read what came before more is received.

use std::sync::Arc;
use std::time::Duration;

use quickset_base::Time;

use crate::shared::Shared;

/// Who is let read what came, and until when at most: what it has no room for would be dropped, and what the
/// system has no room for is lost, and so the sender hears of it.
pub(super) struct ReaderPause {
    shared: Arc<Shared>,
    /// From when the reader was woken; none before.
    until: Option<Time>,
}

impl ReaderPause {
    /// Until its reader has read, which will be woken at the end of this turn.
    pub(super) fn of(shared: Arc<Shared>) -> Self {
        Self { shared, until: None }
    }

    /// Whether it goes on.
    pub(super) fn holds(&self, now: Time) -> bool {
        self.shared.awaits_reader(self.until.is_none_or(|until| now < until))
    }

    /// Its reader has been woken: when it ends at the latest.
    pub(super) fn ends(&mut self, now: Time) -> Time {
        *self.until.get_or_insert(now + READS_WITHIN)
    }
}

/// How long datagrams wait for their reader before more are received.
const READS_WITHIN: Duration = Duration::from_millis(1);
