use quickset_base::{Duration, Time};
use quickset_wire::frame::Frame;

use super::AckPolicy;
use crate::packet;
use crate::packet::FrameToken;
use crate::stats::AckStats;

/// What the peer is asked for: when to acknowledge what we send.
///
/// Nothing here is done per packet: ACK frames are counted, and looked at once a round trip.
#[derive(Debug)]
pub(crate) struct Asks {
    policy: AckPolicy,
    // What the peer's parameters allow to ask for; `None`: nothing.
    peer: Option<PeerAsks>,
    // An IMMEDIATE_ACK is to be sent.
    immediate: bool,
    // An ACK_FREQUENCY is.
    due: bool,
    // Every so many packets the peer acknowledges, as far as we have asked, or are about to.
    every: u64,
    wish: Wish,
    asked: Option<Wish>,
    // The number of the next request.
    next: u64,
    delays: Delays,
    // ACK frames in the batch that is being received; frames and batches since the last look; when that was.
    heard: u32,
    tally: (u64, u64),
    since: Time,
    stats: AckStats,
}

/// The delays of acknowledgements that the peer may be holding to (draft-ietf-quic-ack-frequency §7).
#[derive(Debug)]
struct Delays {
    known: Duration,
    // Of the request in flight.
    flying: Option<(u64, Duration)>,
    // The greatest of requests that were lost, as far as we know.
    doubtful: Duration,
}

#[derive(Clone, Copy, Debug)]
struct PeerAsks {
    min_ack_delay: Duration,
    max_ack_delay: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish {
    every: u64,
    delay: Duration,
    reordering: u64,
}

/// What requests depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskFacts {
    pub(crate) now: Time,
    pub(crate) srtt: Duration,
    /// The congestion window, in packets.
    pub(crate) window: u64,
    /// A packet with so many behind it is lost (RFC 9002 §6.1.1).
    pub(crate) packet_threshold: u64,
    /// Symbols are on the way whose loss repair may make good.
    pub(crate) protected: bool,
}

impl AskFacts {
    /// Packets for an acknowledgement at most.
    fn most(&self) -> u64 {
        let few = self.window / 4;
        if !self.protected {
            return few;
        }
        let soon = u128::from(self.window) * SOON.as_micros() / self.srtt.as_micros().max(1);
        few.min((self.window / NEWS).max(u64::try_from(soon).unwrap_or(u64::MAX)))
    }
}

impl Asks {
    pub(crate) fn new(policy: AckPolicy) -> Self {
        let every = policy.every.max(1);
        let wish = Wish { every, delay: Duration::ZERO, reordering: 0 };
        Self {
            policy: AckPolicy { every, ..policy },
            peer: None,
            immediate: false,
            due: false,
            every: USUAL,
            wish,
            asked: None,
            next: 0,
            delays: Delays { known: Duration::ZERO, flying: None, doubtful: Duration::ZERO },
            heard: 0,
            tally: (0, 0),
            since: Time::ZERO,
            stats: AckStats::default(),
        }
    }

    /// The peer's parameters are known. Requests wait for the first [`end_batch`](Self::end_batch).
    pub(crate) fn set_peer(&mut self, least: Option<Duration>, most: Duration) {
        self.peer = least.map(|min_ack_delay| PeerAsks { min_ack_delay, max_ack_delay: most });
        self.delays.known = most;
    }

    /// An ACK frame came.
    #[inline]
    pub(crate) fn heard(&mut self) {
        self.heard += 1;
    }

    /// A received batch is through. True when it is time to [`look`](Self::look).
    #[inline]
    pub(crate) fn end_batch(&mut self, now: Time, srtt: Duration) -> bool {
        if self.heard == 0 {
            return false;
        }
        self.stats.frames += u64::from(self.heard);
        self.stats.batches += 1;
        self.tally = (self.tally.0 + u64::from(std::mem::take(&mut self.heard)), self.tally.1 + 1);
        let round = now.since(self.since) >= srtt && self.tally.1 >= LEAST_BATCHES;
        self.peer.is_some() && (round || (self.is_new() && !self.due))
    }

    /// At most once a round trip: are there too many acknowledgements, or too few?
    pub(crate) fn look(&mut self, course: &AskFacts) {
        let (frames, batches) = std::mem::take(&mut self.tally);
        self.since = course.now;
        // Of requests one is in flight at a time.
        if self.delays.flying.is_some() {
            return;
        }
        if self.is_new() {
            self.every = self.policy.every;
        }
        if self.policy.adaptive && batches >= LEAST_BATCHES {
            self.every = adapted(self.every, frames, batches);
        }
        self.wish_for(course);
    }

    /// Another path is in use, with another window and other round trips: what was asked for does not hold
    /// there (draft-ietf-quic-ack-frequency §8.4).
    pub(crate) fn moved(&mut self, course: &AskFacts) {
        if let Some((_, delay)) = self.delays.flying.take() {
            self.delays.doubtful = self.delays.doubtful.max(delay);
        }
        (self.tally, self.since) = ((0, 0), course.now);
        if self.policy.adaptive {
            self.every = self.policy.every;
        }
        if self.asked.is_some() {
            self.wish_for(course);
            self.due = true;
        }
    }

    /// The peer will be asked to acknowledge at once, if it takes such requests, by the next packet that
    /// [`write_immediate`](Self::write_immediate) is called for.
    pub(crate) fn ask_immediate(&mut self) {
        self.immediate = self.peer.is_some();
    }

    /// The same, unless the peer acknowledges every second packet anyway (draft-ietf-ccwg-bbr §4.1.3.3,
    /// ProbeRTT).
    pub(crate) fn ask_prompt(&mut self) {
        self.immediate |= self.asked.is_some_and(|asked| asked.every > USUAL);
    }

    /// Writes IMMEDIATE_ACK beside frames that elicit an acknowledgement; it never makes a packet of its own.
    /// It is not sent again when it is lost (draft-ietf-quic-ack-frequency §5).
    #[inline]
    pub(crate) fn write_immediate(&mut self, w: &mut packet::PacketWriter<'_>) {
        if self.immediate && w.is_eliciting() && w.put(&Frame::ImmediateAck, FrameToken::Nothing) {
            self.immediate = false;
        }
    }

    /// Whether ACK_FREQUENCY is to be sent, in the next packet with data.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.due
    }

    /// Whether IMMEDIATE_ACK is to be sent, in the next packet that elicits.
    #[inline]
    pub(crate) fn wants_immediate(&self) -> bool {
        self.immediate
    }

    /// Writes it, as it is wished for by now. True when [`max_ack_delay`](Self::max_ack_delay) may have
    /// changed.
    pub(crate) fn write(&mut self, w: &mut packet::PacketWriter<'_>, course: &AskFacts) -> bool {
        self.wish_for(course);
        let Wish { every, delay, reordering } = self.wish;
        let sequence = self.next;
        let max_delay_us = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        // draft-ietf-quic-ack-frequency §4: the threshold is how many may come without an answer.
        let frame = Frame::AckFrequency { sequence, threshold: every - 1, max_delay_us, reordering };
        if !w.put(&frame, FrameToken::AckFrequency { sequence }) {
            return false;
        }
        self.next += 1;
        self.due = false;
        self.asked = Some(self.wish);
        self.delays.flying = Some((sequence, delay));
        self.stats.requests += 1;
        true
    }

    /// That request arrived. True when [`max_ack_delay`](Self::max_ack_delay) may have changed.
    pub(crate) fn acked(&mut self, sequence: u64) -> bool {
        match self.delays.flying {
            Some((last, delay)) if last == sequence => {
                self.delays = Delays { known: delay, flying: None, doubtful: Duration::ZERO };
                true
            }
            _ => false,
        }
    }

    /// It was lost: it goes again, as what is wished for by then. It may have arrived all the same.
    pub(crate) fn lost(&mut self, sequence: u64) {
        if let Some((last, delay)) = self.delays.flying {
            if last == sequence {
                self.delays.flying = None;
                self.delays.doubtful = self.delays.doubtful.max(delay);
                self.due = true;
            }
        }
    }

    /// How long the peer may wait before it acknowledges. draft-ietf-quic-ack-frequency §7: until a request
    /// is known to have arrived, the greater of what held before and what is in flight.
    pub(crate) fn max_ack_delay(&self) -> Duration {
        let flying = self.delays.flying.map_or(Duration::ZERO, |(_, delay)| delay);
        self.delays.known.max(flying).max(self.delays.doubtful)
    }

    /// What was counted.
    pub(crate) fn stats(&self) -> AckStats {
        AckStats { every: self.asked.map_or(USUAL, |asked| asked.every), ..self.stats }
    }

    /// The policy wants something that was never asked for.
    fn is_new(&self) -> bool {
        self.asked.is_none() && self.policy.every != USUAL
    }

    /// Asks anew if what is asked for has become another thing.
    fn wish_for(&mut self, course: &AskFacts) {
        let Some(peer) = self.peer else { return };
        let delay = if self.policy.adaptive {
            // A quarter of a round trip: four acknowledgements in each at least, whatever else.
            peer.min_ack_delay.max(LONGEST.min(course.srtt / 4)).min(LIMIT)
        } else {
            peer.max_ack_delay
        };
        if self.policy.adaptive {
            self.every = self.every.min(course.most()).max(self.least());
        }
        // §6.2.1: not more than what our loss detection waits for.
        let wish = Wish {
            every: self.every,
            delay: Duration::from_micros(u64::try_from(delay.as_micros()).unwrap_or(u64::MAX)),
            reordering: course.packet_threshold,
        };
        self.wish = wish;
        self.due |= match self.asked {
            None => wish.every != USUAL,
            Some(asked) => {
                let delays = asked.delay > 2 * wish.delay || 2 * asked.delay < wish.delay;
                // Where it acknowledges as often as it would unasked, a late timer costs nothing worth a
                // frame.
                wish.every != asked.every
                    || asked.reordering > wish.reordering
                    || (delays && wish.every > USUAL)
            }
        };
    }

    /// The adaptive rule never asks for more than this.
    fn least(&self) -> u64 {
        self.policy.every.min(USUAL)
    }
}

/// The next number of packets for an acknowledgement, from how many of those came in how many batches.
fn adapted(every: u64, frames: u64, batches: u64) -> u64 {
    if frames >= 2 * batches {
        // The processor is the bottleneck: batches grow while it is busy with the last one.
        every.saturating_mul(frames) / batches
    } else if 2 * frames < 3 * batches {
        // Between 1.5 and 2 it stays, or it would swing.
        every / 2
    } else {
        every
    }
}

/// Acknowledgements in each window at least while repair waits for them, unless those in [`SOON`] are fewer:
/// they decide on it, and come a 64th of a round trip later at most.
const NEWS: u64 = 64;

/// What comes within that long is no news any later: the granularity of loss detection (RFC 9002 §6.1.2).
const SOON: Duration = Duration::from_millis(1);

/// RFC 9000 §13.2.2: every second packet is acknowledged.
const USUAL: u64 = 2;

/// Of fewer batches the mean says nothing: two datagrams may lie in the same one by chance.
const LEAST_BATCHES: u64 = 4;

/// RFC 9000 §18.2: max_ack_delay where nobody says anything.
const LONGEST: Duration = Duration::from_millis(25);

/// RFC 9000 §18.2: below 2^14 milliseconds.
const LIMIT: Duration = Duration::from_millis((1 << 14) - 1);
