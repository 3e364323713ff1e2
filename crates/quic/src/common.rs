//! What all parts of a connection may know, and where they tell what is to be told beyond it.

use std::collections::VecDeque;
use std::sync::Arc;

use quickset_base::Time;
use quickset_wire::params::TransportParams;
use quickset_wire::{Side, Version};

use crate::config::TransportConfig;
use crate::event::{Event, Signal};
use crate::packet::Phase;
use crate::qlog::Qlog;
use crate::stats::Stats;

/// Held by the connection, and lent to each part for a call.
#[derive(Debug)]
pub(crate) struct Common {
    pub(crate) side: Side,
    pub(crate) version: Version,
    pub(crate) config: Arc<TransportConfig>,
    pub(crate) phase: Phase,
    pub(crate) now: Time,
    /// What the peer announced, once that is authentic.
    pub(crate) peer: Option<TransportParams>,
    pub(crate) stats: Stats,
    /// What waits for the application.
    pub(crate) events: VecDeque<Event>,
    /// What waits for the endpoint.
    pub(crate) signals: VecDeque<Signal>,
    pub(crate) qlog: Qlog,
}

impl Common {
    pub(crate) fn new(side: Side, version: Version, config: Arc<TransportConfig>, now: Time) -> Self {
        Self {
            side,
            version,
            config,
            phase: Phase::Handshake,
            now,
            peer: None,
            stats: Stats::default(),
            events: VecDeque::new(),
            signals: VecDeque::new(),
            qlog: Qlog::none(),
        }
    }
}
