//! Congestion control: how much may be in flight, and how fast it may leave.
//!
//! *In:* what was sent, and one [`Feedback`] for each batch of acknowledgements or losses.
//! *Out:* [`CongestionControl`]: window, pacing rate, burst. The controllers know neither frames nor streams;
//! a packet whose frames forward erasure correction recovered is lost here all the same (RFC 9265).
//!
//! [`classic`] is the frame of the controllers that a loss tells of congestion (RFC 9002 §7, RFC 9406):
//! `newreno` and `cubic` (RFC 9438) say how its window grows. [`bbr`] goes by the rate of delivery. Sources
//! and departures stand there.
//!
//! Invariants: the window never falls below the controller's minimum; a controller draws nothing
//! from the clock, only from the times it is given.

mod algorithm;
mod bbr;
mod cap;
mod classic;
mod cubic;
mod custom;
mod fixed;
mod hystart;
mod newreno;
mod pacer;
mod rate;
#[cfg(test)]
mod tests;

use std::fmt;

use quickset_base::{Duration, Time};

pub use algorithm::{Algorithm, AlgorithmError};
pub use cap::RateCap;
pub use custom::CustomController;
pub(crate) use pacer::{Pacer, pacing_rate};

/// A congestion controller. One belongs to one path.
pub trait Congestion: Send + fmt::Debug {
    /// A packet in flight was sent; `state` is stored with it and comes back in [`Feedback`].
    fn on_sent(&mut self, sent: &TransmittedPacket) -> PacketState;

    /// Acknowledgements or losses, all those of one received batch or of one timer together.
    fn on_feedback(&mut self, feedback: &Feedback<'_>);

    /// The path takes packets of so many bytes from here on.
    fn set_mtu(&mut self, mtu: u64);

    /// What now holds.
    fn control(&self) -> CongestionControl;
}

/// A packet that just left.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct TransmittedPacket {
    /// When.
    pub now: Time,
    /// Its size, all of the UDP payload that is its own.
    pub bytes: u64,
    /// Bytes in flight, this packet included.
    pub in_flight: u64,
    /// True when the sender has nothing more to send behind it.
    pub app_limited: bool,
}

/// What a controller wants to know of a packet when it is acknowledged or lost: the connection's
/// delivery state when it left (draft-ietf-ccwg-bbr §4.1, delivery rate samples).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketState {
    /// Bytes delivered in all when it was sent.
    pub delivered: u64,
    /// When `delivered` was last raised.
    pub delivered_time: Time,
    /// When the first packet of its flight was sent.
    pub first_sent: Time,
    /// Bytes in flight when it was sent, itself included.
    pub in_flight: u64,
    /// Bytes lost in all when it was sent.
    pub lost: u64,
    /// Whether the sender was limited by the application then.
    pub app_limited: bool,
}

/// A packet that was acknowledged or declared lost.
#[derive(Clone, Copy, Debug)]
pub struct SettledPacket {
    /// Its number in the application space's order, or in its own space during the handshake.
    pub number: u64,
    /// When it left.
    pub sent: Time,
    /// Its size in bytes.
    pub bytes: u64,
    /// What [`Congestion::on_sent`] returned for it.
    pub state: PacketState,
}

/// What a batch of acknowledgements, or a loss timer, told.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Feedback<'a> {
    /// When.
    pub now: Time,
    /// Newly acknowledged packets that were in flight, oldest first.
    pub acked: &'a [SettledPacket],
    /// Packets newly declared lost, oldest first.
    pub lost: &'a [SettledPacket],
    /// Bytes in flight before this feedback.
    pub prior_in_flight: u64,
    /// Bytes in flight now.
    pub in_flight: u64,
    /// The latest RTT sample, if this feedback brought one.
    pub rtt: Option<Duration>,
    /// The smoothed RTT.
    pub srtt: Duration,
    /// The least RTT seen on the path.
    pub min_rtt: Duration,
    /// When the newest packet left that newly reported congestion-experienced marks can be of (RFC 9002 §7.1,
    /// §B.7). It need not be among those in flight: the queue that marks an acknowledgement marks what leaves
    /// beside it, too.
    pub marked: Option<Time>,
    /// Whether the losses span the persistent congestion period (RFC 9002 §7.6).
    pub persistent: bool,
    /// Packets in flight that were declared lost earlier and are acknowledged now, those losses were none:
    /// when each was declared, which is the time of the feedback that had it among its losses.
    pub spurious: &'a [Time],
}

/// What a controller allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CongestionControl {
    /// Bytes that may be in flight.
    pub window: u64,
    /// Bytes per second; `None` leaves the rate to the pacer's rule (RFC 9002 §7.7: a little more than
    /// a window per RTT).
    pub rate: Option<u64>,
    /// True while the window doubles each round trip, which the pacer's rule must leave room for.
    pub slow_start: bool,
    /// Round trips are being measured: what leaves is to be acknowledged without delay.
    pub prompt: bool,
    /// What it thinks of the path; nobody acts on it.
    pub view: PathView,
}

/// What a controller thinks of the path: for logs and graphs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathView {
    /// The state that it is in, a word of its specification.
    pub state: &'static str,
    /// The most bytes in flight that the path is thought to take: the slow start threshold, BBR's long-term
    /// bound (`inflight_hi`, since renamed `inflight_longterm`). `None` when nothing is known.
    pub bound: Option<u64>,
    /// The bandwidth that the path is thought to have, in bytes per second; `None` without an estimate.
    pub bandwidth: Option<u64>,
}

/// What may be in flight at the start, in bytes (RFC 9002 §7.2).
pub(crate) fn initial_window(mtu: u64) -> u64 {
    (10 * mtu).min((2 * mtu).max(14_720))
}
