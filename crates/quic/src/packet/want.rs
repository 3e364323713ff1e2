//! The words that all rooms share with `conn`.

use quickset_base::{Duration, Time};

/// What a room would like to send, by weight. Greater wants are served with less hesitation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Want {
    /// Nothing.
    #[default]
    None,
    /// Something new.
    Data,
    /// Something that was lost.
    Lost,
}

/// How far the connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Keys are being agreed.
    Handshake,
    /// 1-RTT keys are there and the peer is authenticated.
    Established,
    /// The handshake is confirmed (RFC 9001 §4.1.2).
    Confirmed,
}

/// A snapshot of what a room may know of the others.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoomView {
    pub(crate) now: Time,
    /// Bytes of frames that fit where the next ones go if nothing else is there: into a packet, or into a
    /// source symbol, which may hold less. Nobody waits for more than this.
    pub(crate) room: usize,
    /// Smoothed round-trip time.
    pub(crate) srtt: Duration,
    /// What a packet takes to the peer at least, as far as is known: half the least round-trip time; nothing
    /// while nothing is under way, since no sample would ever correct an estimate that keeps everything back.
    pub(crate) one_way: Duration,
    /// Bytes per second that leave, about, as of when somebody needed to know.
    pub(crate) rate: u64,
}
