use bytes::Bytes;
use quickset_base::Time;

/// Names a datagram that was taken for sending. Tickets of a connection ascend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DatagramTicket(pub(super) u64);

/// How a datagram is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramOptions {
    /// At this time and after it the datagram is not sent any more; `None`: it may wait for ever.
    pub deadline: Option<Time>,
    /// What happens when the send queue has no room for it.
    pub when_full: WhenFull,
    /// Its [`DatagramOutcome`] is wanted, and will be collected.
    pub report: bool,
}

/// What to do when the send queue is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The datagram is handed back; [`DatagramEvent::Writable`] tells when there is room.
    #[default]
    Refuse,
    /// The oldest that wait are dropped: new is better than old.
    DropOldest,
}

/// News of datagrams. Each is told once and again only after the application has acted on it: taken datagrams
/// or outcomes until there were none, tried to send one until it was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatagramEvent {
    /// Datagrams came: `next_datagram`.
    Received,
    /// A datagram that was refused since there was no room may be taken now.
    Writable,
    /// The fate of a datagram is known: `next_datagram_outcome`.
    Outcome,
}

/// What became of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatagramOutcome {
    /// The peer received it. Whether its application did it does not say (RFC 9221 §5.2).
    Acknowledged,
    /// The peer received it, by recovery from repair symbols.
    Recovered,
    /// It was sent, and its packet is taken for lost. Now and then such a packet arrives all the same.
    Lost,
    /// Not sent: its deadline came first.
    Expired,
    /// Not sent: it made room for later ones ([`WhenFull::DropOldest`]).
    Displaced,
    /// Not sent: the packets of the path became smaller than it.
    TooLong,
}

impl DatagramOutcome {
    /// The peer has it.
    pub const fn is_received(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Recovered)
    }

    /// It left this host.
    pub const fn was_sent(self) -> bool {
        matches!(self, Self::Acknowledged | Self::Recovered | Self::Lost)
    }
}

/// A datagram that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Unsent {
    /// The reason.
    pub why: DatagramError,
    /// The datagram.
    pub data: Bytes,
}

/// Why a datagram was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramError {
    /// The peer takes no datagrams, or did not say yet that it does.
    #[error("the peer takes no datagrams")]
    Unsupported,
    /// It is longer than the peer takes, or than fits a packet.
    #[error("the datagram is longer than {max} bytes, the most that fits")]
    TooLong {
        /// The longest datagram, in bytes.
        max: usize,
    },
    /// The send queue is full, or too many outcomes were not collected; [`DatagramEvent::Writable`] tells
    /// when to go on.
    #[error("the send queue of datagrams is full")]
    Full,
}
