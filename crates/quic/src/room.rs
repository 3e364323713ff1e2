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
pub(crate) struct View {
    pub(crate) now: Time,
    /// The largest UDP payload on the path, in bytes.
    pub(crate) mtu: usize,
    /// Smoothed round-trip time.
    pub(crate) srtt: Duration,
}

impl View {
    /// What we take for the one-way delay: half the smoothed round-trip time.
    pub(crate) fn one_way(&self) -> Duration {
        self.srtt / 2
    }
}
