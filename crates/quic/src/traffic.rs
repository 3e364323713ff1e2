//! What the application sends and receives: streams, messages and datagrams, which share the turns.

use quickset_base::Time;
use quickset_wire::Side;

use crate::config::TransportConfig;
use crate::datagram::Datagrams;
use crate::streams::Streams;

/// Owned by the connection.
#[derive(Debug)]
pub(crate) struct Traffic {
    pub(crate) streams: Streams,
    pub(crate) datagrams: Datagrams,
    /// What goes along with other data waits for it until then.
    pub(crate) piggyback_by: Option<Time>,
    /// Bytes per second that leave, about, when messages with deadlines were last sent.
    pub(crate) rate: u64,
}

impl Traffic {
    pub(crate) fn new(side: Side, config: &TransportConfig) -> Self {
        Self {
            streams: Streams::new(side, &config.into()),
            datagrams: Datagrams::new(&config.datagrams),
            piggyback_by: None,
            rate: 0,
        }
    }
}
