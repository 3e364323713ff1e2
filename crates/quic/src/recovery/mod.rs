//! Loss detection (RFC 9002): what was sent, what became of it, how long a round trip takes.
//!
//! *In:* each sent packet with the tokens of its frames; the acknowledgements of a received batch,
//! [merged](crate::ack::Merged); timers. *Out:* [`SettledPackets`]: tokens acknowledged or lost, for `conn`
//! to hand back to the rooms, and the packets that congestion control hears of. No stream is ever named here.
//!
//! Invariants: each token leaves exactly once, acknowledged or lost, until its space is discarded; the bytes
//! in flight are those of outstanding packets; work per acknowledgement is in proportion to what it newly
//! settles, never to the window.

mod late;
mod marks;
mod outage;
mod rtt;
mod sent;
mod streak;
mod taken_back;
#[cfg(test)]
mod tests;
mod timers;
#[cfg(feature = "qlog")]
mod told;

use quickset_base::{Duration, Time};
use quickset_wire::{Side, Space, TransportErrorCode};

pub(crate) use marks::Marked;
pub(crate) use rtt::{Rtt, UNKNOWN_RTT, assumed_rtt};
pub(crate) use sent::SentPacket;
#[cfg(feature = "qlog")]
pub(crate) use told::thresholds;

use crate::ack::Merged;
use crate::cc;
use crate::error::TransportError;
use crate::packet::{BySpace, FrameToken};
use late::{Late, Lost};
use marks::EcnMarks;
use outage::Outage;
use sent::{PacketRing, RingPlace};
use streak::Streak;

/// The loss detection of a connection, over its three packet number spaces.
#[derive(Debug)]
pub(crate) struct Recovery {
    spaces: BySpace<Numbers>,
    rtt: Rtt,
    outage: Outage,
    first_sample: Option<Time>,
    in_flight: u64,
    pto_count: u32,
    // The peer's max_ack_delay (RFC 9000 §18.2).
    max_ack_delay: Duration,
    confirmed: bool,
    // The peer is known to have validated our address.
    peer_is_sure: bool,
    side: Side,
    /// A client probes with Handshake packets then, which prove its address.
    pub(crate) has_handshake_keys: bool,
    // When a timer was last set going: what a client's probe timeout with nothing in flight counts from.
    touched: Time,
    spurious: u64,
    packet_threshold: u64,
    // The time threshold in eighths of a round trip.
    time_threshold: u32,
    // The longest wait for a probe of the handshake.
    handshake_wait: Duration,
}

/// One packet number space: losses are found in each for itself (RFC 9002 §3).
#[derive(Debug, Default)]
struct Numbers {
    sent: PacketRing,
    late: Late,
    streak: Streak,
    marks: EcnMarks,
    largest_acked: Option<u64>,
    // When the last packet left that elicits.
    last_eliciting: Time,
    // When the oldest packet is lost if it is not acknowledged by then.
    loss_time: Option<Time>,
    discarded: bool,
}

/// What became of packets: a buffer that `conn` drains and uses again.
#[derive(Debug, Default)]
pub(crate) struct SettledPackets {
    /// What arrived.
    pub(crate) acked: Vec<FrameToken>,
    /// What did not, or is to be sent again as a probe.
    pub(crate) lost: Vec<FrameToken>,
    /// Acknowledged packets that were in flight, oldest first.
    pub(crate) acked_packets: Vec<cc::SettledPacket>,
    /// Lost packets that were in flight, oldest first.
    pub(crate) lost_packets: Vec<cc::SettledPacket>,
    /// Bytes in flight before.
    pub(crate) prior_in_flight: u64,
    /// A sample of the round-trip time.
    pub(crate) rtt: Option<Duration>,
    /// The losses establish persistent congestion (RFC 9002 §7.6).
    pub(crate) persistent: bool,
    /// Packets acknowledged that had been declared lost in flight: when each was.
    pub(crate) spurious: Vec<Time>,
    /// ECN marks on the path in use.
    pub(crate) marked: Marked,
    /// When the newest of the marked packets left that are acknowledged.
    pub(crate) marked_at: Option<Time>,
    /// Something that left on the path in use was acknowledged.
    pub(crate) alive: bool,
}

impl SettledPackets {
    /// Gives back what more than `most` packets took.
    pub(crate) fn rest(&mut self, most: usize) {
        self.acked.shrink_to(most);
        self.lost.shrink_to(most);
        self.acked_packets.shrink_to(most);
        self.lost_packets.shrink_to(most);
        self.spurious.shrink_to(most);
    }

    /// True when congestion control has something to hear.
    pub(crate) fn has_feedback(&self) -> bool {
        !self.acked_packets.is_empty() || !self.lost_packets.is_empty() || !self.spurious.is_empty()
    }

    /// Forgets everything and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.acked.clear();
        self.lost.clear();
        self.acked_packets.clear();
        self.lost_packets.clear();
        self.prior_in_flight = 0;
        self.rtt = None;
        self.persistent = false;
        self.spurious.clear();
        self.marked = Marked::default();
        self.marked_at = None;
        self.alive = false;
    }
}

/// What a timer brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimerOutcome {
    /// It was early.
    Nothing,
    /// Packets of this space were declared lost.
    Lost(Space),
    /// A probe timeout: one or two packets that elicit should be sent in this space, whatever the window
    /// says (RFC 9002 §6.2.4).
    Probe(Space),
}

impl Recovery {
    /// Nothing sent. `initial_rtt` is assumed until there is a sample.
    pub(crate) fn new(side: Side, initial_rtt: Duration) -> Self {
        Self {
            spaces: BySpace::new(|_| Numbers::default()),
            rtt: Rtt::new(initial_rtt),
            outage: Outage::default(),
            first_sample: None,
            in_flight: 0,
            pto_count: 0,
            max_ack_delay: DEFAULT_MAX_ACK_DELAY,
            confirmed: false,
            peer_is_sure: side.is_server(),
            side,
            has_handshake_keys: false,
            touched: Time::ZERO,
            spurious: 0,
            packet_threshold: PACKET_THRESHOLD,
            time_threshold: TIME_THRESHOLD,
            handshake_wait: Duration::MAX,
        }
    }

    /// How long the handshake may take.
    pub(crate) fn set_handshake_timeout(&mut self, timeout: Duration) {
        self.handshake_wait = timeout / timers::HANDSHAKE_PROBES;
    }

    /// The peer's max_ack_delay is known, or another one (draft-ietf-quic-ack-frequency §7).
    pub(crate) fn set_peer(&mut self, max_ack_delay: Duration) {
        self.max_ack_delay = max_ack_delay;
    }

    /// The handshake is confirmed (RFC 9001 §4.1.2).
    pub(crate) fn confirmed(&mut self) {
        self.confirmed = true;
        self.peer_is_sure = true;
    }

    /// The least number of `space` that was not used.
    #[inline]
    pub(crate) fn next_number(&self, space: Space) -> u64 {
        self.spaces.get(space).map_or(0, |numbers| numbers.sent.next())
    }

    /// The largest number of `space` that the peer acknowledged.
    #[inline]
    pub(crate) fn largest_acked(&self, space: Space) -> Option<u64> {
        self.spaces.get(space)?.largest_acked
    }

    /// The first number of `space` whose packet is not settled.
    pub(crate) fn first_outstanding(&self, space: Space) -> u64 {
        self.spaces.get(space).map_or(0, |numbers| numbers.sent.base())
    }

    /// The peer's max_ack_delay.
    pub(crate) fn max_ack_delay(&self) -> Duration {
        self.max_ack_delay
    }

    /// Takes out the tokens of a symbol, named by session and SID, in packet `number` of the application's
    /// space, which is in flight: the peer has what they stand for. The packet stays, and is acknowledged or
    /// lost in time.
    pub(crate) fn take_symbol(&mut self, number: u64, symbol: (u32, u64), tokens: &mut Vec<FrameToken>) {
        self.spaces.data.sent.take_symbol(number, symbol, tokens);
    }

    /// Bytes in flight, of all spaces.
    #[inline]
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The smoothed round-trip time, if there was a sample.
    pub(crate) fn sampled(&self) -> Option<Duration> {
        self.first_sample.map(|_| self.rtt.smoothed())
    }

    /// Probe timeouts in a row.
    pub(crate) fn pto_count(&self) -> u32 {
        self.pto_count
    }

    /// The round-trip time.
    #[inline]
    pub(crate) fn rtt(&self) -> &Rtt {
        &self.rtt
    }

    /// The probe timeout of `space` without back-off (RFC 9002 §6.2.1).
    pub(crate) fn pto(&self, space: Space) -> Duration {
        // The peer delays no acknowledgement of a handshake packet.
        self.rtt.pto() + if space == Space::Data { self.max_ack_delay } else { Duration::ZERO }
    }

    /// A packet left with the frames of `tokens`, which are taken over (RFC 9002 §A.5, §B.4). Its number is
    /// at least [`next_number`](Self::next_number); numbers left out on purpose (RFC 9000 §21.4) must not be
    /// acknowledged.
    #[inline]
    pub(crate) fn on_sent(&mut self, space: Space, packet: SentPacket, tokens: &mut Vec<FrameToken>) {
        let numbers = self.spaces.get_mut(space).filter(|numbers| !numbers.discarded);
        debug_assert!(numbers.is_some(), "a packet of a space that is gone");
        let Some(numbers) = numbers else { return };
        numbers.sent.push(&packet, tokens);
        if packet.marked {
            numbers.marks.on_sent();
        }
        if packet.in_flight {
            self.in_flight += u64::from(packet.bytes);
        }
        if packet.eliciting {
            numbers.last_eliciting = packet.now;
            self.touched = packet.now;
        }
    }

    /// A 1-RTT packet left on a path that is not in use, or outside of congestion control. It is acknowledged
    /// or lost like any, and counts for nothing: it has timers of its own.
    pub(crate) fn on_sent_elsewhere(
        &mut self,
        number: u64,
        now: Time,
        bytes: u16,
        tokens: &mut Vec<FrameToken>,
    ) {
        let state = cc::PacketState::default();
        let packet =
            SentPacket { number, now, bytes, eliciting: false, in_flight: false, marked: false, state };
        self.on_sent(Space::Data, packet, tokens);
        self.spaces.data.sent.sent_elsewhere();
    }

    /// Path `path` is in use from here on. Packets of others are not in flight any more, give no sample of
    /// the round-trip time and are no sign of congestion (RFC 9000 §9.4). With `rtt` what was known of round
    /// trips is exchanged, and returned.
    pub(crate) fn change_path(&mut self, path: u8, rtt: Option<Rtt>, now: Time) -> Rtt {
        self.in_flight = self.spaces.iter_mut().map(|numbers| numbers.sent.change_path(path)).sum();
        let before = self.rtt;
        if let Some(rtt) = rtt {
            self.rtt = rtt;
            self.outage = Outage::default();
            self.first_sample = None;
            self.packet_threshold = PACKET_THRESHOLD;
            self.time_threshold = TIME_THRESHOLD;
        }
        self.spaces.data.streak.reset();
        self.pto_count = 0;
        self.touched = now;
        before
    }

    /// What a challenge and its answer took stands for the round-trip time until there is a sample
    /// (RFC 9002 §6.2.2).
    pub(crate) fn assume_rtt(&mut self, trip: Duration) {
        self.rtt.assume(trip);
    }

    /// The peer acknowledged packets of `space` (RFC 9002 §A.7).
    ///
    /// # Errors
    /// PROTOCOL_VIOLATION for packets that were never sent (RFC 9000 §13.1).
    pub(crate) fn on_ack(
        &mut self,
        space: Space,
        ack: &Merged,
        now: Time,
        out: &mut SettledPackets,
    ) -> Result<(), TransportError> {
        let Some(largest) = ack.largest() else { return Ok(()) };
        let Some(numbers) = self.spaces.get_mut(space).filter(|numbers| !numbers.discarded) else {
            return Ok(());
        };
        if largest >= numbers.sent.next() || numbers.sent.skipped().any(|n| ack.ranges().contains(n)) {
            return Err(never_sent());
        }
        // RFC 9001 §4.1.2, RFC 9002 §6.2.2.1: who acknowledges a Handshake packet has validated us.
        self.peer_is_sure |= space == Space::Handshake;
        let is_newer = numbers.largest_acked < Some(largest);
        numbers.largest_acked = numbers.largest_acked.max(Some(largest));

        out.prior_in_flight = self.in_flight;
        self.find_late(space, ack, now, out);
        let newly = self.settle_acked(space, ack, out);
        if newly.is_err() {
            self.trim(space);
        }
        let Some(newest) = newly? else { return Ok(()) };
        if let Some(numbers) = self.spaces.get_mut(space).filter(|_| is_newer) {
            numbers.marks.on_ack(ack.ecn(), &mut out.marked);
        }
        // RFC 9002 §5.1: the largest is new, and its receiver had a reason not to wait.
        self.outage.on_acked(now, self.pto_count);
        if newest.number == largest && newest.is_own && newest.any_eliciting {
            let trip = now.since(newest.sent);
            if self.first_sample.is_none() || !self.outage.hides(newest.sent, trip, self.pto(space)) {
                self.sample(space, trip, ack.delay(), now);
                out.rtt = Some(trip);
            }
        }
        self.detect_lost(space, now, out);
        self.trim(space);
        // RFC 9002 §6.2.1: a client backs off until it knows that the server is not waiting for it.
        if self.peer_is_sure {
            self.pto_count = 0;
        }
        self.touched = now;
        Ok(())
    }

    /// The time has come (RFC 9002 §A.9), or perhaps not.
    pub(crate) fn on_time(&mut self, now: Time, may_probe: bool, out: &mut SettledPackets) -> TimerOutcome {
        if let Some((time, space)) = self.loss_time() {
            if time > now {
                return TimerOutcome::Nothing;
            }
            out.prior_in_flight = self.in_flight;
            self.detect_lost(space, now, out);
            self.trim(space);
            return TimerOutcome::Lost(space);
        }
        match self.pto_time() {
            Some((time, space)) if may_probe && time <= now => {
                self.pto_count += 1;
                self.touched = now;
                TimerOutcome::Probe(space)
            }
            _ => TimerOutcome::Nothing,
        }
    }

    /// Takes the tokens of the oldest packet of `space` that still holds any, for a probe to carry anew: to
    /// their rooms they are lost. The packet stays, for what its acknowledgement tells of the path.
    /// False when there is none, and new data or a PING must do (RFC 9002 §6.2.4).
    pub(crate) fn probe_tokens(&mut self, space: Space, lost: &mut Vec<FrameToken>) -> bool {
        self.spaces.get_mut(space).is_some_and(|numbers| numbers.sent.take_oldest(lost))
    }

    /// The keys of `space` are gone: its packets leave flight, and nobody asks for their frames any more
    /// (RFC 9002 §6.4, §A.11, §B.9).
    pub(crate) fn discard(&mut self, space: Space, now: Time) {
        self.in_flight -= self.forget(space, None);
        self.spaces.get_mut(space).into_iter().for_each(|numbers| numbers.discarded = true);
        self.pto_count = 0;
        self.touched = now;
    }

    /// The connection is over: nobody asks any more what became of its packets.
    pub(crate) fn end(&mut self) {
        self.in_flight -= Space::ALL.map(|space| self.forget(space, None)).iter().sum::<u64>();
    }

    /// Every packet of `space` is lost for a reason that is not congestion: 0-RTT that was rejected
    /// (RFC 9001 §4.6.2), or came before a Retry (RFC 9000 §17.2.5.3).
    pub(crate) fn void(&mut self, space: Space, lost: &mut Vec<FrameToken>) {
        self.in_flight -= self.forget(space, Some(lost));
    }

    /// Retry, or another version: the Initial packets are void, and their frames begin anew by themselves;
    /// numbers go on (RFC 9000 §17.2.5.3, RFC 9002 §6.3). What that answer took is a better guess than none.
    pub(crate) fn restart(&mut self, now: Time) {
        let first = self.spaces.get(Space::Initial).map(|Numbers { sent, .. }| sent.place(sent.base()));
        if let Some(RingPlace::Outstanding(first)) = first {
            self.assume_rtt(now.since(first).clamp(rtt::LEAST_GUESS, UNKNOWN_RTT));
        }
        self.in_flight -= self.forget(Space::Initial, None);
        self.pto_count = 0;
    }

    /// Gives back what more than `most` packets of each space took. There are none in flight.
    pub(crate) fn rest(&mut self, most: usize) {
        for numbers in self.spaces.iter_mut() {
            numbers.sent.rest(most);
            numbers.late.rest();
        }
    }

    /// Debug invariants.
    pub(crate) fn check(&self) {
        for numbers in self.spaces.iter() {
            numbers.sent.check();
        }
        let counted: u64 = self.spaces.iter().map(|n| n.sent.count_in_flight()).sum();
        debug_assert_eq!(counted, self.in_flight, "bytes in flight");
    }

    /// The keys of Initial and Handshake packets are gone, and what became of such packets was asked last.
    pub(crate) fn end_handshake(&mut self) {
        self.spaces.end_handshake();
    }

    fn trim(&mut self, space: Space) {
        if let Some(numbers) = self.spaces.get_mut(space) {
            numbers.sent.trim();
        }
    }

    fn forget(&mut self, space: Space, lost: Option<&mut Vec<FrameToken>>) -> u64 {
        let Some(numbers) = self.spaces.get_mut(space) else { return 0 };
        numbers.late.clear();
        numbers.streak.reset();
        numbers.loss_time = None;
        numbers.sent.clear(lost)
    }

    /// Settles what `ack` newly acknowledges, oldest first.
    fn settle_acked(
        &mut self,
        space: Space,
        ack: &Merged,
        out: &mut SettledPackets,
    ) -> Result<Option<Newest>, TransportError> {
        let Some(numbers) = self.spaces.get_mut(space) else { return Ok(None) };
        let base = numbers.sent.base();
        let mut newest: Option<Newest> = None;
        let mut any_eliciting = false;
        // Old ranges, below the ring, need no look.
        let known = ack.ranges().iter().take_while(|range| *range.end() >= base).count();
        for range in ack.ranges().iter().rev().skip(ack.ranges().len() - known) {
            let mut at = (*range.start()).max(base);
            while at <= *range.end() {
                let sent = match numbers.sent.place(at) {
                    RingPlace::SettledUntil(next) => {
                        at = next;
                        continue;
                    }
                    // RFC 9000 §21.4: only who acknowledges blindly names a number that was left out.
                    RingPlace::Skipped => return Err(never_sent()),
                    RingPlace::Outstanding(sent) => sent,
                };
                let gone = numbers.sent.settle(at, &mut out.acked);
                any_eliciting |= gone.eliciting;
                out.alive |= gone.is_own;
                if gone.marked {
                    out.marked.acked += 1;
                    out.marked_at = Some(sent);
                }
                numbers.streak.on_acked(at);
                newest = Some(Newest { number: at, sent, any_eliciting, is_own: gone.is_own });
                if gone.in_flight {
                    self.in_flight -= gone.packet.bytes;
                    out.acked_packets.push(gone.packet);
                }
                at += 1;
            }
        }
        if let Some(newest) = &newest {
            for other in Space::ALL.into_iter().filter(|other| *other != space) {
                if let Some(numbers) = self.spaces.get_mut(other) {
                    numbers.streak.on_acked_elsewhere(newest.sent);
                }
            }
        }
        Ok(newest)
    }

    /// Packets that were declared lost and are acknowledged: the thresholds were too small for this path, and
    /// grow within bounds (RFC 9002 §6.1.1, §6.1.2).
    fn find_late(&mut self, space: Space, ack: &Merged, now: Time, out: &mut SettledPackets) {
        let forgotten_after = 3 * self.rtt.pto();
        let Some(Numbers { late, streak, .. }) = self.spaces.get_mut(space) else { return };
        late.expire(now, forgotten_after);
        if late.first().is_none() {
            return;
        }
        let (mut packets, mut time) = (self.packet_threshold, self.time_threshold);
        let mut any = false;
        late.take(ack.ranges(), |lost| {
            any = true;
            if lost.in_flight {
                out.spurious.push(lost.declared);
            }
            if lost.by_time {
                time = time.max(self.time_threshold + 1);
            } else {
                packets = packets.max(lost.behind + 1);
            }
        });
        if any {
            streak.reset();
        }
        self.spurious += out.spurious.len() as u64;
        self.packet_threshold = packets.min(MAX_PACKET_THRESHOLD);
        self.time_threshold = time.min(MAX_TIME_THRESHOLD);
    }

    fn sample(&mut self, space: Space, latest: Duration, delay: Duration, now: Time) {
        // RFC 9002 §5.3: the delay of Initial packets is none; until the handshake is confirmed the peer may
        // have waited for keys, longer than it promised.
        let delay = match space {
            Space::Initial => Duration::ZERO,
            Space::Handshake | Space::Data if self.confirmed => delay.min(self.max_ack_delay),
            Space::Handshake | Space::Data => delay,
        };
        self.rtt.sample(latest, delay);
        self.first_sample.get_or_insert(now);
    }

    /// Declares lost what is old enough by either threshold (RFC 9002 §6.1, §A.10).
    fn detect_lost(&mut self, space: Space, now: Time, out: &mut SettledPackets) {
        let delay = self.rtt.loss_delay(self.time_threshold);
        let period = self.persistent_period();
        let Some(numbers) = self.spaces.get_mut(space) else { return };
        numbers.loss_time = None;
        let Some(largest) = numbers.largest_acked else { return };
        let mut at = numbers.sent.base();
        while at < largest && at < numbers.sent.next() {
            let sent = match numbers.sent.place(at) {
                RingPlace::SettledUntil(next) => {
                    numbers.streak.on_acked(at);
                    at = next;
                    continue;
                }
                RingPlace::Skipped => {
                    at += 1;
                    continue;
                }
                RingPlace::Outstanding(sent) => sent,
            };
            let behind = largest - at;
            let too_far = behind >= self.packet_threshold;
            if !too_far && sent + delay > now {
                // Whatever was sent later is not lost either.
                numbers.loss_time = Some(sent + delay);
                break;
            }
            let gone = numbers.sent.settle(at, &mut out.lost);
            let in_flight = gone.in_flight;
            out.marked.lost += u64::from(gone.marked);
            numbers.late.push(Lost { number: at, declared: now, behind, by_time: !too_far, in_flight });
            if gone.in_flight {
                self.in_flight -= gone.packet.bytes;
                out.lost_packets.push(gone.packet);
            }
            // RFC 9002 §7.6.2: only what was sent after the first sample, since before the period is a guess.
            if gone.eliciting && gone.is_own && self.first_sample.is_some_and(|first| sent > first) {
                out.persistent |= numbers.streak.on_lost(at, sent) >= period;
            }
            at += 1;
        }
        // The walk ends before it, and it may not be seen again.
        numbers.streak.on_acked(largest);
        if out.persistent {
            numbers.streak.reset();
            self.rtt.forget_min();
            self.packet_threshold = PACKET_THRESHOLD;
            self.time_threshold = TIME_THRESHOLD;
        }
    }
}

/// The newest packet that an acknowledgement settled.
#[derive(Clone, Copy, Debug)]
struct Newest {
    number: u64,
    sent: Time,
    // Of it and all that were settled with it.
    any_eliciting: bool,
    // It left on the path in use.
    is_own: bool,
}

fn never_sent() -> TransportError {
    TransportError::new(TransportErrorCode::PROTOCOL_VIOLATION, "an acknowledgement of a packet never sent")
}

/// RFC 9000 §18.2.
const DEFAULT_MAX_ACK_DELAY: Duration = Duration::from_millis(25);
/// RFC 9002 §6.1.1: packets that may overtake another before that one is lost.
const PACKET_THRESHOLD: u64 = 3;
/// As far as reordering that we have seen may raise it.
const MAX_PACKET_THRESHOLD: u64 = 128;
/// RFC 9002 §6.1.2: 9/8 of a round trip.
const TIME_THRESHOLD: u32 = 9;
/// As far as reordering that we have seen may raise it: two round trips.
const MAX_TIME_THRESHOLD: u32 = 16;
