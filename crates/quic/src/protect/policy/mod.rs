//! Reliability policies: what of a channel's data is protected, and when it is repaired (FlEC, ToN 2022).
//!
//! *In:* [`CodingView`], what is known of the path, of the channel's lanes and of its application. *Out:*
//! decisions that are data: a lane to join, a [`Pattern`]. Mechanism is elsewhere; a policy sends nothing and
//! keeps no symbol.
//!
//! Here are our own policy, [`Protection::Adaptive`], and blocks at fences. Those of papers are in the crate
//! `quickset-policies`, built from what any policy may use: [`Boundaries`], [`LaneProgress`], [`Tail`] and
//! [`Placement`] remember, [`CodingView::ends_soon`], [`PathLoss::burst`] and [`LaneView::room`] count.
//!
//! Sources: Michel et al., FlEC (algorithms 1 to 4).

mod adaptive;
mod block;
mod boundary;
mod custom;
mod placement;
mod protection;
#[cfg(any(test, feature = "null"))]
mod scene;
mod sizing;
mod tail;
#[cfg(test)]
mod tests;

use std::fmt;

use quickset_base::number::{Float as _, Unsigned as _};
use quickset_base::{Duration, Time};

pub use super::belief::Belief;
pub use adaptive::Goal;
pub(super) use block::parts;
pub use boundary::{Boundaries, LaneProgress};
pub use custom::CustomPolicy;
pub use placement::{Placement, ShortSymbols};
pub use protection::{Protection, ProtectionError};
pub use quickset_wire::{Scheme, Schemes};
#[cfg(any(test, feature = "null"))]
pub use scene::{CodingScene, OpenDates, PlayedCode};
pub use tail::{BurstDue, Tail};

/// Decides for one channel what is protected and when repair symbols go out.
pub trait ReliabilityPolicy: fmt::Debug + Send {
    /// Whether the packet that is about to be filled with this channel's data is a source symbol, and of
    /// which lane. `None` costs nothing, on the wire or here.
    fn protect(&mut self, view: &CodingView<'_>, carried: Carried) -> Option<LaneConfig>;

    /// FlEC's FECPattern(): asked at each free slot of the congestion window before new data of the channel.
    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern;

    /// FlEC's ds(): with r = 1 - l, a span whose missing over added degrees of freedom leave `r - md/ad`
    /// below this is resent, or repaired once more (algorithm 1). `-l` resends only what repair in flight
    /// does not cover.
    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64;

    /// How many packets with data may leave, source symbols or not, after a [`Pattern::No`] or
    /// [`Pattern::WakeAt`] before `protect` or `fec_pattern` could have another answer, if nothing changes
    /// but what these packets do to the lane and to the congestion window: not the time, nor what the
    /// application wants, but for its remaining bytes, nor what is known of the path. So many are not asked
    /// about. 0, the default: each is.
    fn quiet_for(&self, view: &CodingView<'_>) -> u64 {
        let _ = view;
        0
    }
}

/// What the packet that asks to be protected carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Whether it begins with data that was sent before and lost.
    pub resend: bool,
}

/// A session of a channel, one of at most three, and its code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneConfig {
    /// The number of the lane, 0 to 2. A lane keeps the code that it was first used with.
    pub index: u8,
    /// The code of its repair symbols.
    pub code: RepairCode,
    /// How many eighths of a packet this symbol may fill, from [`LEAST_SHARE`](Self::LEAST_SHARE) to
    /// [`WHOLE`](Self::WHOLE). Repair symbols that cover only such symbols are as short. Short symbols are
    /// cheaper where each repair symbol covers few of them.
    pub share: u8,
}

impl LaneConfig {
    /// A symbol may fill its packet.
    pub const WHOLE: u8 = 8;
    /// No symbol is told to be shorter than that.
    pub const LEAST_SHARE: u8 = 3;

    /// The lane of a policy that has one, a sliding window.
    pub const RLC: Self = Self { index: 0, code: RepairCode::Rlc, share: Self::WHOLE };
}

/// The codes of `spec/fec.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepairCode {
    /// Interleaved XOR: repair i covers each `depth`-th symbol from the i-th on.
    Xor {
        /// Repair symbols of a block, and the distance of the symbols of each. At least 1.
        depth: u16,
    },
    /// Rows and columns of XOR.
    Xor2d {
        /// Rows of a full block.
        rows: u16,
        /// Columns: the symbols of a row.
        columns: u16,
    },
    /// Reed-Solomon.
    ReedSolomon {
        /// Parts into which a block is interleaved at least. Blocks of more than 128 symbols are cut all the
        /// same.
        stride: u16,
    },
    /// LDPC-Staircase, for large blocks.
    Ldpc,
    /// A sliding window of random linear combinations.
    Rlc,
}

impl RepairCode {
    /// Its scheme on the wire.
    pub fn scheme(self) -> Scheme {
        match self {
            Self::Xor { .. } => Scheme::Xor,
            Self::Xor2d { .. } => Scheme::Grid,
            Self::ReedSolomon { .. } => Scheme::ReedSolomon,
            Self::Ldpc => Scheme::Ldpc,
            Self::Rlc => Scheme::Rlc,
        }
    }
}

/// What is sent at this slot before new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// Nothing.
    No,
    /// `n` repair symbols of a lane, in this slot and the next ones. Closes the open block of a block code;
    /// that of 2D XOR only if `n` is more than the rows that ended and were not answered yet, which go first,
    /// and the columns last.
    Repair {
        /// The lane.
        lane: u8,
        /// How many.
        n: u32,
    },
    /// The open block of a lane ends without (more) protection.
    Close(u8),
    /// Nothing now; ask again at this time at the latest.
    WakeAt(Time),
}

/// All that a policy may know. Times are those of the connection's clock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct CodingView<'a> {
    /// The time now.
    pub now: Time,
    /// The loss of packets on the path, on average.
    pub loss: PathLoss,
    /// The loss of packets on the path, as a distribution of what it may be.
    pub belief: &'a Belief,
    /// The lanes of the channel by index; those not opened are empty.
    pub lanes: [LaneView; 3],
    /// What the application wants of the channel.
    pub demand: Demand,
    /// Deadlines of the channel's messages.
    pub deadlines: &'a dyn OpenDeadlines,
    /// Smoothed round-trip time; its least value; its mean deviation.
    pub rtt: Duration,
    /// See [`rtt`](Self::rtt).
    pub min_rtt: Duration,
    /// See [`rtt`](Self::rtt).
    pub rtt_var: Duration,
    /// The probe timeout.
    pub pto: Duration,
    /// The peer's max_ack_delay.
    pub ack_delay: Duration,
    /// Congestion window and bytes in flight.
    pub cwnd: u64,
    /// See [`cwnd`](Self::cwnd).
    pub in_flight: u64,
    /// Other channels have something to send that is as urgent, or more so.
    pub others_wait: bool,
    /// Share of the connection's last messages with deadlines that came too late, or were dropped, though
    /// nothing of them was lost: there is more to send than the path takes in time.
    pub crowded_out: f64,
    /// What this share is at least, whatever chance did: of few messages it says little.
    pub surely_crowded_out: f64,
    /// Share of the same messages of which something was lost, recovered or not.
    pub hit: f64,
    /// A packet of this connection with application data was acknowledged.
    pub feedback: bool,
    /// The peer has all that it needs of the handshake to open what is sent: a client knows once the
    /// handshake is confirmed, a server always.
    pub confirmed: bool,
}

impl CodingView<'_> {
    /// What a packet takes to the peer, as far as one can know: half of the smoothed round trip.
    pub fn one_way(&self) -> Duration {
        self.rtt / 2
    }
}

/// Deadlines of messages that are not known to have arrived.
pub trait OpenDeadlines: fmt::Debug {
    /// The earliest at or after `t`.
    fn next_after(&self, t: Time) -> Option<Time>;
    /// The latest of all.
    fn last(&self) -> Option<Time>;
}

/// Losses of a path, as measured, but for those of a full queue. With few samples a cautious guess.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PathLoss {
    /// Share of packets lost: l.
    pub rate: f64,
    /// Gilbert model: chance that a packet is lost after one that arrived (p), and that one arrives after one
    /// that was lost (r). `to_good` is 1 until a run of several losses was seen.
    pub to_bad: f64,
    /// See [`to_bad`](Self::to_bad).
    pub to_good: f64,
    /// Packets whose fate is known, since the path is used.
    pub events: u64,
    /// Share of the losses of the last second, of all kinds, that came of a full queue or with CE marks:
    /// repair does not help against those.
    pub congested: f64,
}

impl PathLoss {
    /// Repair symbols for `unprotected` symbols, after FlEC: as many as losses are to be expected among them,
    /// or as a burst of losses is long. Rounded, since the paper's ceiling doubles every burst under
    /// independent loss.
    pub fn burst(&self, unprotected: u64) -> u32 {
        let expected = self.rate * unprotected.approx();
        let run = if self.to_good > 0.0 { self.to_good.recip() } else { 1.0 };
        expected.max(run).round().whole::<u32>().max(1)
    }
}

/// A lane as its policy sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LaneView {
    /// Symbols that the peer's decoder keeps (its window) and that we may have outstanding.
    pub window: u64,
    /// Symbols of the open block of a block code; of a window code those from First on.
    pub open: u64,
    /// U: symbols in `open` that no repair sent covers, less those acknowledged, recovered or resent.
    pub unprotected: u64,
    /// Missing degrees of freedom: symbols lost that neither recovery nor repair makes up for.
    pub md: u64,
    /// Repair symbols in flight that cover one of the lost.
    pub ad: u64,
    /// Repair symbols in flight.
    pub repairs_in_flight: u64,
    /// Repair symbols sent, and acknowledged, in all.
    pub repairs_sent: u64,
    /// See [`repairs_sent`](Self::repairs_sent).
    pub repairs_acked: u64,
    /// Source symbols sent in all, repeats not counted.
    pub sources: u64,
    /// The bytes of these.
    pub source_bytes: u64,
    /// When the first of the unprotected symbols was sent.
    pub first_unprotected: Option<Time>,
    /// When the last source symbol was sent.
    pub last_source: Option<Time>,
    /// Source symbols sent that are not known to have arrived.
    pub outstanding: u64,
}

impl LaneView {
    /// How many repair symbols may join those in flight: twice the losses to be expected among the symbols
    /// that are coded over, 2·ceil(W·l) in all.
    pub fn room(&self, loss: &PathLoss) -> u32 {
        let coded = self.open.min(self.window).approx();
        let limit = 2 * (coded * loss.rate).ceil().whole::<u64>();
        u32::try_from(limit.saturating_sub(self.repairs_in_flight)).unwrap_or(u32::MAX)
    }
}

/// What the application of a channel wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Demand {
    /// Flow control holds new data back.
    pub blocked: bool,
    /// There is nothing to send that flow control lets out.
    pub limited: bool,
    /// Bytes not sent yet.
    pub unsent: u64,
    /// A stream that has some of them is not finished: more may come.
    pub open: bool,
    /// How many boundaries (fences, flushes, ends) lie behind what was sent, all data before them included,
    /// and when and of which kind the last was.
    pub boundaries: u64,
    /// See [`boundaries`](Self::boundaries).
    pub boundary: Option<(Boundary, Time)>,
    /// The channel is a stream of messages: the application says where fences are.
    pub messages: bool,
    /// When the application will send its next message, if it said so.
    pub next_message: Option<Time>,
}

impl Demand {
    /// Bytes not sent yet, if no more will come.
    pub fn remaining(&self) -> Option<u64> {
        (!self.open).then_some(self.unsent)
    }
}

/// Kinds of boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boundary {
    /// A fence: the receiver waits for all before it.
    Fence,
    /// The application flushed the stream.
    Flush,
    /// The end of the stream.
    Fin,
}

/// Lanes of a channel at most.
pub const MAX_LANES: usize = 3;
