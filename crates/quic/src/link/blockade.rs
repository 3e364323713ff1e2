//! What the system takes nothing for.

use std::net::IpAddr;

use quickset_base::{Duration, Time};

use crate::refusal::{Obstacle, SystemRefusal};

/// What the system takes nothing for, and until when it is not asked again.
///
/// What it refuses costs the network nothing, so that it is tried again at a pace of its own: soon at first,
/// then after an eighth of the time that it has lasted. What can be sent as it is, smaller or from another
/// address, is sent at once.
#[derive(Debug, Default)]
pub(crate) struct Blockade {
    /// The first packets of the batch that was made last, by space.
    pub(crate) first: [u64; 3],
    /// A batch was handed out of which nothing was heard.
    tried: bool,
    /// What was said last, as long as nothing has left since.
    refusal: Option<Box<SystemRefusal>>,
    since: Time,
    /// Nothing is tried before.
    until: Option<Time>,
    /// Where a server was reached by its client, and cannot send from.
    pub(crate) home: Option<IpAddr>,
}

impl Blockade {
    /// Whether nothing is to be tried now.
    #[inline]
    pub(crate) fn holds(&mut self, now: Time) -> bool {
        self.until = self.until.filter(|until| *until > now);
        self.until.is_some()
    }

    /// Whether nothing was to be tried when that was asked last.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        self.until.is_some()
    }

    /// When to try again.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.until
    }

    /// Something has changed, and may help.
    pub(crate) fn lift(&mut self) {
        self.until = None;
    }

    /// A batch may be made, beginning with these packets. The one before has left, when nobody said
    /// otherwise.
    #[inline]
    pub(crate) fn begin(&mut self, first: [u64; 3]) {
        self.first = first;
        if std::mem::take(&mut self.tried) && self.refusal.is_some() {
            tracing::debug!("the system takes datagrams again");
            self.refusal = None;
        }
    }

    /// A batch was made.
    #[inline]
    pub(crate) fn handed_out(&mut self) {
        self.tried = true;
    }

    /// What became of the batch that was made last says nothing of those that follow.
    pub(crate) fn take_no_word(&mut self) {
        self.tried = false;
    }

    /// The kind of what stands in the way.
    pub(crate) fn obstacle(&self) -> Option<Obstacle> {
        self.refusal.as_ref().map(|refusal| refusal.obstacle)
    }

    /// What stands in the way, if something does.
    pub(crate) fn verdict(&self) -> Option<SystemRefusal> {
        self.refusal.as_deref().cloned()
    }

    pub(crate) fn on_refused(&mut self, now: Time, refusal: SystemRefusal) {
        self.tried = false;
        if self.refusal.is_none() {
            tracing::debug!(said = %refusal.words, "the system refuses to send");
            self.since = now;
        }
        self.refusal = Some(Box::new(refusal));
    }

    /// Nothing is tried for a while. Returns how long that has been so.
    pub(crate) fn hold(&mut self, now: Time, least: Duration, most: Duration) -> Duration {
        let lasts = now.since(self.since);
        self.until = Some(now + (lasts / 8).clamp(least, most));
        lasts
    }
}
