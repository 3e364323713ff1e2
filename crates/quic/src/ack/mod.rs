//! Acknowledgements: what was received in a packet number space, and when the peer is told.
//!
//! *In:* each packet that was decrypted, once ([`Acks::is_duplicate`] comes first); the news that an ACK
//! frame of ours arrived. *Out:* ACK frames. Nothing is decided per packet: `conn` asks [`Acks::want`] after
//! a whole received batch, so a batch of sixty packets is answered by one ACK. [`Merged`] is the other
//! direction: the ACK frames of a batch, put together for `recovery`; and [`Asks`] asks the peer for fewer of
//! them.
//!
//! Invariants: at most [`MAX_RANGES`] ranges are kept and reported; every number below the horizon counts as
//! received; an ACK is never sent for packets that do not elicit one.
//! Sources: RFC 9000 §13.2, §13.4, §19.3; draft-ietf-quic-ack-frequency; `spec/fec.md` §10.

mod asks;
mod frequency;
mod merged;
mod policy;
mod ranges;
#[cfg(test)]
mod tests;

use quickset_base::{Duration, Ecn, Reason, Time};
use quickset_wire::Space;
use quickset_wire::frame::{self, EcnCounts, Frame};

pub(crate) use asks::{AskFacts, Asks};
pub(crate) use merged::Merged;
pub use policy::{AckPolicy, AckPolicyError};
pub(crate) use ranges::RangeSet;

use frequency::{Frequency, FrequencyRequest};

use crate::error::TransportError;
use crate::packet;
use crate::packet::{FrameToken, Want};

/// What one packet number space has received and not yet settled: RFC 9000 §13.2.6 keeps acknowledgements to
/// the space, and so to the keys, of their packets.
#[derive(Debug)]
pub(crate) struct Acks {
    space: Space,
    ranges: RangeSet,
    // Numbers below it are forgotten: received long ago, or given up.
    horizon: u64,
    // The largest number, and when it came.
    largest: Option<(u64, Time)>,
    largest_eliciting: Option<u64>,
    // Packets that elicit an acknowledgement and have none yet.
    pending: u32,
    // The least of their numbers.
    unreported: u64,
    immediate: bool,
    // An ACK frame is wanted for what stands beside it, with or without news.
    urged: bool,
    deadline: Option<Time>,
    frequency: Frequency,
    // When the last ACK frame was written, and its largest number.
    written: Option<(Time, u64)>,
    ecn: Option<EcnCounts>,
    // The last packet was marked congestion experienced.
    marked: bool,
    // ACK frames written since the peer last confirmed one.
    unconfirmed: u32,
}

impl Acks {
    /// Nothing received. `max_delay` is the max_ack_delay that we announced.
    pub(crate) fn new(space: Space, max_delay: Duration) -> Self {
        Self {
            space,
            ranges: RangeSet::default(),
            horizon: 0,
            largest: None,
            largest_eliciting: None,
            pending: 0,
            unreported: u64::MAX,
            immediate: false,
            urged: false,
            deadline: None,
            frequency: Frequency::new(max_delay),
            written: None,
            ecn: None,
            marked: false,
            unconfirmed: 0,
        }
    }

    /// Gives back the memory of what is gone.
    pub(crate) fn rest(&mut self) {
        self.ranges.rest();
    }

    /// The min_ack_delay that we announced.
    pub(crate) fn offer(&mut self, least: Option<Duration>) {
        // As it went over the wire.
        let micros = |d: Duration| Duration::from_micros(u64::try_from(d.as_micros()).unwrap_or(u64::MAX));
        self.frequency.offer(least.map(micros));
    }

    /// IMMEDIATE_ACK or ACK_FREQUENCY, before [`on_packet`](Self::on_packet) for the packet that brought it.
    pub(crate) fn on_frame(&mut self, frame: &Frame<'_>, now: Time) -> Result<(), TransportError> {
        self.frequency.agreed()?;
        if let Frame::AckFrequency { sequence, threshold, max_delay_us, reordering } = *frame {
            let request = FrequencyRequest { sequence, threshold, max_delay_us, reordering };
            if self.frequency.ask(request)? {
                self.deadline = self.deadline.map(|at| at.min(now + self.frequency.max_delay));
            }
        } else {
            // draft-ietf-quic-ack-frequency §5. However many come in a batch, one ACK answers them.
            self.immediate = true;
        }
        Ok(())
    }

    /// Whether the peer may ask for other acknowledgements.
    pub(crate) fn takes_requests(&self) -> bool {
        self.frequency.agreed().is_ok()
    }

    /// Something was recovered: the peer is told as soon as [`want`](Self::want) is asked, but not before the
    /// shortest delay since the last time is over (FEC-40).
    pub(crate) fn soon(&mut self, now: Time) {
        let Some((largest, _)) = self.largest else { return };
        if self.ranges.is_empty() {
            // Everything was reported and confirmed. A frame has to say something.
            self.ranges.insert(largest);
            self.horizon = self.horizon.min(largest);
        }
        self.urged = true;
        let at = self.written.map_or(now, |(then, _)| now.max(then + self.frequency.min_delay()));
        self.deadline = Some(self.deadline.map_or(at, |deadline| deadline.min(at)));
    }

    /// True if a packet with this number was received, or is too old to tell (RFC 9000 §12.3).
    #[inline]
    pub(crate) fn is_duplicate(&self, number: u64) -> bool {
        number < self.horizon || self.ranges.contains(number)
    }

    /// The largest number received, which packet number decoding needs.
    #[inline]
    pub(crate) fn largest(&self) -> Option<u64> {
        self.largest.map(|(number, _)| number)
    }

    /// Whether no packet is missing above `number`, up to the largest.
    pub(crate) fn is_whole_above(&self, number: Option<u64>) -> bool {
        let first = number.map_or(0, |number| number + 1).max(self.horizon);
        self.ranges.newest().is_none_or(|newest| *newest.start() <= first)
    }

    /// A packet was received and is no duplicate.
    pub(crate) fn on_packet(&mut self, number: u64, now: Time, eliciting: bool, ecn: Ecn) {
        self.count(ecn);
        self.ranges.insert(number);
        if self.ranges.len() > MAX_RANGES {
            if let Some(oldest) = self.ranges.pop_oldest() {
                self.horizon = self.horizon.max(oldest.end() + 1);
            }
        }
        if self.largest.is_none_or(|(largest, _)| number > largest) {
            self.largest = Some((number, now));
        }
        let was_marked = std::mem::replace(&mut self.marked, ecn == Ecn::Ce);
        if !eliciting {
            return;
        }
        // RFC 9000 §13.2.1: at once when a packet came late or one is missing before it, so that the peer
        // finds losses soon; when marked, so that it slows down (draft-ietf-quic-ack-frequency §6.3: when it
        // asked for fewer, the first mark of several); and while it is in the handshake, where every round
        // trip is waited for.
        let slow_down = self.marked && (!was_marked || self.frequency.threshold <= 1);
        self.immediate |= self.space != Space::Data || slow_down || self.is_out_of_order(number);
        self.largest_eliciting = self.largest_eliciting.max(Some(number));
        self.pending += 1;
        self.unreported = self.unreported.min(number);
        if self.deadline.is_none() {
            self.deadline = Some(now + self.frequency.max_delay);
        }
    }

    /// Whether an ACK should go out even if nothing else does. To be asked after a whole received batch.
    #[inline]
    pub(crate) fn want(&self, now: Time) -> Want {
        // RFC 9000 §13.2.2: two packets that elicit are enough, or as many as the peer says.
        let due = (self.immediate && self.pending > 0)
            || u64::from(self.pending) > self.frequency.threshold
            || self.deadline.is_some_and(|at| at <= now);
        if due { Want::Data } else { Want::None }
    }

    /// Whether [`write`](Self::write) would write something.
    #[inline]
    pub(crate) fn has_news(&self) -> bool {
        self.largest.is_some() && (self.pending > 0 || self.urged)
    }

    /// Writes an ACK frame if there is news, wanted or not: beside other frames it costs little
    /// (RFC 9000 §13.2.1). False when there is none, or no room.
    pub(crate) fn write(&mut self, w: &mut packet::PacketWriter<'_>, now: Time) -> bool {
        (self.pending > 0 || self.urged) && self.write_again(w, now)
    }

    /// Appends an ACK frame whether it says something new or not: the last one may be lost, and nobody tells.
    /// Returns whether there was something to acknowledge.
    pub(crate) fn write_again(&mut self, w: &mut packet::PacketWriter<'_>, now: Time) -> bool {
        let Some((largest, received)) = self.largest.filter(|_| !self.ranges.is_empty()) else {
            return false;
        };
        let delay = now.since(received).as_micros() >> ACK_DELAY_EXPONENT;
        // Bounded so that it fits a varint after a clock that jumped.
        let delay = u64::try_from(delay).unwrap_or(u64::MAX).min(u64::from(u32::MAX));
        if frame::ack(w.bytes(), &self.ranges, delay, self.ecn) == 0 {
            return false;
        }
        w.record(FrameToken::Ack { space: self.space, largest }, false);
        self.pending = 0;
        self.unreported = u64::MAX;
        self.immediate = false;
        self.urged = false;
        self.deadline = None;
        self.written = Some((now, largest));
        self.unconfirmed += 1;
        // RFC 9000 §13.2.4: a receiver that sends nothing but ACKs never learns that they arrive, and its
        // ranges pile up. A PING now and then is answered; the answer elicits nothing, so there is no
        // ping-pong. And for the packets themselves, which are kept until something behind them is
        // acknowledged.
        let due = self.unconfirmed >= PING_AFTER_FRAMES && self.ranges.len() >= PING_AFTER_RANGES;
        if due || self.unconfirmed >= PING_AT_LAST {
            self.unconfirmed = 0;
            if !w.is_eliciting() {
                w.put(&Frame::Ping, FrameToken::Nothing);
            }
        }
        true
    }

    /// An ACK frame of ours that reported everything up to `largest` was received by the peer: what it
    /// reported need not be told again (RFC 9000 §13.2.4).
    pub(crate) fn acked(&mut self, largest: u64) {
        self.unconfirmed = 0;
        // A packet that came late and after that frame was written still waits for its first report.
        let told = (largest + 1).saturating_sub(self.frequency.memory());
        self.horizon = self.horizon.max(told.min(self.unreported));
        self.ranges.remove_below(self.horizon);
    }

    /// When an ACK is due at the latest.
    #[inline]
    pub(crate) fn deadline(&self) -> Option<(Time, Reason)> {
        self.deadline.map(|at| (at, Reason::AckDelay))
    }

    /// Debug invariants.
    pub(crate) fn check(&self) {
        debug_assert!(self.ranges.len() <= MAX_RANGES);
        let due = self.pending > 0 || self.urged;
        debug_assert_eq!(due, self.deadline.is_some());
        debug_assert!(self.ranges.iter().all(|range| *range.start() >= self.horizon));
        debug_assert!(!due || !self.ranges.is_empty(), "nothing to acknowledge with");
    }

    /// Whether a number that was just added is, or shows, a packet out of order of which the peer wants to
    /// know.
    fn is_out_of_order(&self, number: u64) -> bool {
        if !self.frequency.is_eager() {
            let largest = self.largest_eliciting.map_or(number, |before| before.max(number));
            let reported = self.written.map(|(_, reported)| reported);
            return self.frequency.is_reordered(number, largest, reported, &self.ranges, self.horizon);
        }
        let Some(before) = self.largest_eliciting else { return false };
        if number < before {
            return true;
        }
        // No number is missing in between when the newest range reaches down to the last one, or to what the
        // peer knows that we have seen.
        self.ranges.newest().is_none_or(|newest| *newest.start() > self.horizon.max(before + 1))
    }

    /// Packets received that met congestion.
    pub(crate) fn marked(&self) -> u64 {
        self.ecn.map_or(0, |counts| counts.ce)
    }

    #[cfg(test)]
    pub(crate) fn ecn(&self) -> Option<EcnCounts> {
        self.ecn
    }

    /// RFC 9000 §13.4.1: marks are counted for packets that are no copies, by space.
    fn count(&mut self, ecn: Ecn) {
        if ecn == Ecn::NotEct {
            return;
        }
        let counts = self.ecn.get_or_insert_default();
        match ecn {
            Ecn::Ect0 => counts.ect0 += 1,
            Ecn::Ect1 => counts.ect1 += 1,
            Ecn::Ce => counts.ce += 1,
            Ecn::NotEct => {}
        }
    }
}

/// Ranges kept and reported at most (RFC 9000 §13.2.3). Older ones are forgotten: their packets were told
/// many times.
pub(crate) const MAX_RANGES: usize = 64;

/// What we announce by leaving ack_delay_exponent at its default (RFC 9000 §18.2): units of 8 µs.
pub(crate) const ACK_DELAY_EXPONENT: u32 = 3;

/// ACK frames without news of their arrival, and ranges in them, that are worth a PING.
const PING_AFTER_FRAMES: u32 = 16;
const PING_AFTER_RANGES: usize = 16;
/// ACK frames without news of their arrival that are worth a PING in any case.
const PING_AT_LAST: u32 = 256;
