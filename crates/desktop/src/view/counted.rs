use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use quickset::Stats;
use quickset_screen::sound::SoundStats;

use crate::link::PeerLink;
use crate::receiver::ReceiverStats;

/// What a viewer's gateway counts. Clones are handles of the same one.
#[derive(Clone, Debug, Default)]
pub struct ViewStats(Arc<Mutex<UplinkCounted>>);

/// What is counted, and whom to ask for the rest when somebody wants to know: nobody is woken up to count.
#[derive(Debug, Default)]
pub(super) struct UplinkCounted {
    pub(super) totals: ViewTotals,
    link: Option<PeerLink>,
}

/// The counts.
#[derive(Clone, Debug, Default)]
pub struct ViewTotals {
    /// There is a session.
    pub connected: bool,
    /// It is, or was, by TCP: UDP does not get through.
    pub by_tcp: bool,
    /// Sessions so far.
    pub sessions: u64,
    /// Of the present connection, or the last.
    pub connection: Option<Stats>,
    /// Of all connections.
    pub screen: ReceiverStats,
    /// Batches that became updates for viewers.
    pub batches: u64,
    /// Messages that a fence held back.
    pub held: u64,
    /// Of the present session, or the last.
    pub sound: SoundStats,
    /// How long behind the fastest frames of late sound is heard now, about; zero before there is any.
    pub sound_delay: Duration,
}

impl ViewStats {
    /// As of now.
    pub fn totals(&self) -> ViewTotals {
        let mut counted = self.lock();
        if let Some(link) = &counted.link {
            counted.totals.connection = Some(link.stats());
        }
        counted.totals.clone()
    }

    pub(super) fn begin(&self, link: &PeerLink) -> Live {
        let mut counted = self.lock();
        counted.totals.connected = true;
        counted.totals.sessions += 1;
        counted.totals.by_tcp = matches!(link, PeerLink::Tcp(_));
        counted.link = Some(link.clone());
        drop(counted);
        Live(self.clone())
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, UplinkCounted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session, for as long as this is there: a connection must not outlive it because somebody counts.
pub(super) struct Live(ViewStats);

impl Drop for Live {
    fn drop(&mut self) {
        let mut counted = self.0.lock();
        counted.totals.connected = false;
        if let Some(link) = counted.link.take() {
            counted.totals.connection = Some(link.stats());
        }
    }
}
