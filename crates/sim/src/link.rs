use std::collections::VecDeque;

use quickset_base::number::Unsigned as _;
use quickset_base::{Ecn, Rng, Seed, Time};

use crate::codel::{CodelControl, CodelQueue, QueuedPacket};
use crate::course::LinkCourse;
use crate::jitter::Jitter;
use crate::lane::{RandomLane, below, hit};
use crate::loss::LossProcess;
use crate::queue::{Above, LinkQueue, QueueBacklog, ThresholdMark};
use crate::red::{RedState, RedVerdict};
use crate::reorder::Reorder;
use crate::server::Transmitter;
use crate::spec::LinkSpec;

/// One direction of a link: given what is sent when, it tells what arrives when.
///
/// A packet meets, in this order: the MTU, the queue, the transmitter, loss (a packet that is lost on
/// its way has used up its share of the rate), the delay with its jitter, corruption, duplication.
///
/// How to use it:
///
/// 1. [`send`](Self::send) each packet when it is sent. Mostly its fate is known at once.
/// 2. A queue that decides at its head (CoDel) lets it wait: [`SendResult::Waits`]. Its fate is told by
///    [`poll`](Self::poll), which is to be called at [`due`](Self::due), until it has no more to tell.
///    Those that wait get their fates in the order in which they were sent.
/// 3. The time never goes back from one call to the next. A late poll does no harm but that fates are
///    told late.
///
/// It reads no clock and holds no bytes, so virtual time and a real-time relay use the same link.
/// Loss, jitter, corruption and duplication draw from streams of their own, each by packet ordinal:
/// switching one on does not change what the others do.
#[derive(Clone, Debug)]
pub struct Link {
    spec: LinkSpec,
    course: LinkCourse,
    server: Transmitter,
    backlog: QueueBacklog,
    // Packets whose fate is open, what decides about them, and the fates not yet told.
    line: CodelQueue,
    control: CodelControl,
    early: RedState,
    told: VecDeque<(u64, Fate)>,
    // After a change, what waits cannot have left before the time of the next call.
    changed: bool,
    floor: Time,
    loss: LossProcess,
    jitter: RandomLane<3>,
    corruption: RandomLane<4>,
    duplication: RandomLane<4>,
    reordering: RandomLane<1>,
    // When the last packet arrives, for links that keep the order.
    last: Time,
    counts: LinkCounts,
}

impl Link {
    /// A link as described. `direction` tells apart the links that share a seed: by convention 0 is
    /// up (client to server) and 1 is down.
    pub fn new(spec: LinkSpec, seed: u64, direction: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..16].copy_from_slice(&direction.to_le_bytes());
        bytes[16..].copy_from_slice(b"quickset sim: li");
        let mut rng = Rng::new(Seed(bytes));
        // The order of the forks is part of what a seed means: add new ones at the end.
        let loss = rng.fork();
        let (jitter, corruption) = (RandomLane::new(rng.fork()), RandomLane::new(rng.fork()));
        let (duplication, early) = (RandomLane::new(rng.fork()), RedState::new(rng.fork()));
        let reordering = RandomLane::new(rng.fork());
        Self {
            course: spec.course(),
            spec,
            server: Transmitter::default(),
            backlog: QueueBacklog::default(),
            line: CodelQueue::default(),
            control: CodelControl::default(),
            early,
            told: VecDeque::new(),
            changed: false,
            floor: Time::ZERO,
            loss: LossProcess::new(loss, rng.fork()),
            jitter,
            corruption,
            duplication,
            reordering,
            last: Time::ZERO,
            counts: LinkCounts::default(),
        }
    }

    /// Sends the next packet: `size` bytes of UDP payload (of whatever the link carries), marked `ecn`.
    pub fn send(&mut self, now: Time, size: usize, ecn: Ecn) -> SendResult {
        let n = self.counts.sent;
        let size = size as u64 + u64::from(self.spec.overhead);
        self.counts.sent += 1;
        self.counts.sent_bytes += size;
        let chance = self.loss.chance(&self.spec.loss, n, n + self.passed_by(now));

        if size > self.course.at(now).mtu {
            self.counts.oversized += 1;
            return SendResult::Known(Fate::Dropped(DropReason::Oversized));
        }
        let Some(ecn) = self.spec.ecn.pass(ecn) else {
            self.counts.lost += 1;
            return SendResult::Known(Fate::Dropped(DropReason::Loss));
        };
        self.decide(now);
        self.backlog.advance(now);
        let mut packet = QueuedPacket { ordinal: n, since: now, size, ecn, marked: false, chance };
        if let Err(why) = self.admit(now, &mut packet) {
            return SendResult::Known(Fate::Dropped(why));
        }
        if self.line.len() == 0 && !self.spec.queue.decides_at_head() {
            let fate = self.transmit(now, packet);
            self.count_backlog();
            return SendResult::Known(fate);
        }
        self.line.push(packet);
        self.count_backlog();
        self.decide(now);
        match self.told.back() {
            Some(&(ordinal, fate)) if ordinal == n => {
                self.told.pop_back();
                SendResult::Known(fate)
            }
            _ => SendResult::Waits(n),
        }
    }

    /// When [`poll`](Self::poll) has something to tell, if nothing else is sent: never later than this,
    /// and `None` while nothing waits.
    pub fn due(&self) -> Option<Time> {
        if self.told.is_empty() { self.decision() } else { Some(Time::ZERO) }
    }

    /// The next fate that has become known by `now`, with the ordinal that [`SendResult::Waits`] told.
    pub fn poll(&mut self, now: Time) -> Option<(u64, Fate)> {
        if self.told.is_empty() {
            self.decide(now);
        }
        self.told.pop_front()
    }

    /// How many packets wait for their fate.
    pub fn waiting(&self) -> u64 {
        (self.line.len() + self.told.len()) as u64
    }

    /// The description.
    pub fn spec(&self) -> &LinkSpec {
        &self.spec
    }

    /// Changes the link under way, from the next call on. Packets whose fate is known keep it, and the
    /// random streams go on as if the new description had been there from the start (a Gilbert-Elliott
    /// chain may be in another state).
    pub fn change(&mut self, spec: LinkSpec) {
        self.course = spec.course();
        self.spec = spec;
        self.server.change();
        self.backlog.change();
        self.changed = true;
    }

    /// What happened so far.
    pub fn counts(&self) -> LinkCounts {
        self.counts
    }

    /// Bytes that wait or are being sent at `now`, which is not before the last packet was sent.
    pub fn backlog(&mut self, now: Time) -> u64 {
        self.decide(now);
        self.backlog.advance(now);
        self.backlog.bytes() + self.line.bytes()
    }

    /// Packets of others that the loss process has met by `now`.
    fn passed_by(&self, now: Time) -> u64 {
        match self.spec.others_pps {
            0 => 0,
            pps => (u128::from(now.as_nanos()) * u128::from(pps) / 1_000_000_000).saturated::<u64>(),
        }
    }

    /// Decides whether a packet comes into the queue; it may get a mark.
    #[inline]
    fn admit(&mut self, now: Time, packet: &mut QueuedPacket) -> Result<(), DropReason> {
        let queue = &self.spec.queue;
        let queued = self.backlog.bytes() + self.line.bytes();
        let bps = match queue {
            LinkQueue::Time(_) | LinkQueue::Red(_) => self.course.bps(now),
            _ => None,
        };
        let (bytes, packets) = queue.limits(bps);
        // Whatever becomes of it, it is one of the arrivals that the mean is of.
        let verdict = match queue {
            LinkQueue::Red(red) => {
                let idle = now.since(self.server.idle());
                self.early.judge(red, packet.ordinal, queued, idle, bps)
            }
            _ => RedVerdict::Pass,
        };
        let is_first = queued == 0 && matches!(queue, LinkQueue::Time(_));
        let fits = queued.saturating_add(packet.size) <= bytes
            && self.backlog.packets() + (self.line.len() as u64) < packets;
        if !fits && !is_first {
            self.counts.overflowed += 1;
            return Err(DropReason::Overflow);
        }
        match queue {
            LinkQueue::Mark(ThresholdMark { above: Above::Bytes(most), .. }) if queued > *most => {
                packet.mark();
            }
            _ => {}
        }
        if verdict == RedVerdict::Drop || (verdict == RedVerdict::Notify && !packet.mark()) {
            self.counts.aqm += 1;
            return Err(DropReason::Aqm);
        }
        Ok(())
    }

    /// When the first packet that waits is taken from the queue.
    fn decision(&self) -> Option<Time> {
        let arrival = self.line.first()?.since.max(self.floor);
        Some(self.server.ready(&self.course, arrival)).filter(|at| *at < Time::MAX)
    }

    /// Lets the queue decide about everything that is taken from it by `now`.
    #[inline]
    fn decide(&mut self, now: Time) {
        if self.line.len() > 0 {
            self.decide_by(now);
        }
    }

    fn decide_by(&mut self, now: Time) {
        if self.changed {
            (self.changed, self.floor) = (false, now);
        }
        while let Some(at) = self.decision().filter(|at| *at <= now) {
            let told = &mut self.told;
            let mut drops = 0;
            let packet = match &self.spec.queue {
                LinkQueue::CoDel(codel) => self.control.take(codel, &mut self.line, at, |packet| {
                    drops += 1;
                    told.push_back((packet.ordinal, Fate::Dropped(DropReason::Aqm)));
                }),
                _ => self.line.pop(),
            };
            self.counts.aqm += drops;
            if let Some(packet) = packet {
                self.backlog.advance(at);
                let fate = self.transmit(at, packet);
                self.told.push_back((packet.ordinal, fate));
            }
        }
    }

    /// Sends a packet that is taken from the queue at `at`.
    #[inline]
    fn transmit(&mut self, at: Time, mut packet: QueuedPacket) -> Fate {
        let arrival = packet.since.max(self.floor);
        if let LinkQueue::Mark(ThresholdMark { above: Above::Wait(most), .. }) = self.spec.queue {
            if self.server.ready(&self.course, arrival).since(packet.since) > most {
                packet.mark();
            }
        }
        let leaves = self.server.serve(&self.course, arrival, packet.size);
        self.backlog.enter(at, leaves, packet.size);
        self.counts.marked += u64::from(packet.marked);
        if self.loss.loses(&self.spec.loss, packet.chance, leaves) || self.course.loses(leaves) {
            self.counts.lost += 1;
            return Fate::Dropped(DropReason::Loss);
        }
        self.deliver(packet.ordinal, leaves + self.course.at(leaves).delay, packet.ecn)
    }

    fn count_backlog(&mut self) {
        self.counts.peak_backlog = self.counts.peak_backlog.max(self.backlog.bytes() + self.line.bytes());
    }

    fn deliver(&mut self, n: u64, at: Time, ecn: Ecn) -> Fate {
        let LinkSpec { jitter, reorder, corrupt, duplicate, .. } = self.spec;
        let jittered = |draws| if jitter == Jitter::None { at } else { at + jitter.extra(draws) };
        let mut first = at;
        if jitter != Jitter::None {
            first = jittered(self.jitter.at(n));
        }
        match reorder {
            Reorder::Yes => {}
            Reorder::Share(share, late) if hit(self.reordering.at(n)[0], share) => {
                first = first.max(self.last) + late;
            }
            Reorder::No | Reorder::Share(..) => {
                first = first.max(self.last);
                // What never arrives holds up nobody.
                if first < Time::MAX {
                    self.last = first;
                }
            }
        }
        let mut damage = [None; 2];
        if corrupt > 0.0 {
            let [a, flip_a, b, flip_b] = self.corruption.at(n);
            damage =
                [(a, flip_a), (b, flip_b)].map(|(draw, flip)| hit(draw, corrupt).then_some(FlippedBit(flip)));
        }
        let original = LinkDelivery { at: first, ecn, damage: damage[0] };
        self.counts.passed += 1;
        self.counts.corrupted += u64::from(original.damage.is_some());
        if duplicate > 0.0 {
            let [chance, draws @ ..] = self.duplication.at(n);
            if hit(chance, duplicate) {
                let at = if reorder == Reorder::Yes { jittered(draws) } else { first };
                let copy = LinkDelivery { at, ecn, damage: damage[1] };
                self.counts.duplicated += 1;
                self.counts.corrupted += u64::from(copy.damage.is_some());
                return Fate::Duplicated(original, copy);
            }
        }
        Fate::Delivered(original)
    }
}

/// What a link says to a packet that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum SendResult {
    /// Its fate.
    Known(Fate),
    /// It waits, and [`Link::poll`] will tell what becomes of it: of the packet with this ordinal, which
    /// is [`LinkCounts::sent`] before it was sent.
    Waits(u64),
}

impl SendResult {
    /// The fate, if it is known.
    pub fn known(self) -> Option<Fate> {
        match self {
            Self::Known(fate) => Some(fate),
            Self::Waits(_) => None,
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It arrives.
    Delivered(LinkDelivery),
    /// It arrives twice: the original and, right behind it or with a jitter of its own where the link
    /// may reorder, a copy.
    Duplicated(LinkDelivery, LinkDelivery),
    /// It does not arrive.
    Dropped(DropReason),
}

impl Fate {
    /// The arrivals: none, one or two, the original first.
    pub fn deliveries(self) -> impl Iterator<Item = LinkDelivery> {
        let (first, second) = match self {
            Self::Delivered(original) => (Some(original), None),
            Self::Duplicated(original, copy) => (Some(original), Some(copy)),
            Self::Dropped(_) => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkDelivery {
    /// When.
    pub at: Time,
    /// The mark that it arrives with.
    pub ecn: Ecn,
    /// What happened to its bytes on the way.
    pub damage: Option<FlippedBit>,
}

/// Damage to a packet: one flipped bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlippedBit(pub(crate) u64);

impl FlippedBit {
    /// Flips a bit, each with the same probability; nothing happens to an empty packet.
    pub fn apply(self, bytes: &mut [u8]) {
        let bit = below(self.0, bytes.len() as u64 * 8);
        if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
            *byte ^= 1 << (bit % 8);
        }
    }
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// It is larger than the link's MTU.
    Oversized,
    /// The queue had no room.
    Overflow,
    /// The loss model took it, or an outage, or a box that takes no ECN marks.
    Loss,
    /// The queue dropped it to keep its waiting time short (active queue management).
    Aqm,
}

/// What happened on a link: `sent = oversized + overflowed + aqm + lost + passed` and what still
/// [waits](Link::waiting), and `passed + duplicated` packets arrive sooner or later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounts {
    /// Packets sent.
    pub sent: u64,
    /// Their bytes, headers of [`LinkSpec::overhead`] included.
    pub sent_bytes: u64,
    /// Packets dropped for their size.
    pub oversized: u64,
    /// Packets dropped because the queue had no room.
    pub overflowed: u64,
    /// Packets dropped by the queue's management.
    pub aqm: u64,
    /// Packets that the queue marked as having met congestion.
    pub marked: u64,
    /// Packets dropped by the loss model, in an outage, or for their ECN mark.
    pub lost: u64,
    /// Packets that arrive at least once.
    pub passed: u64,
    /// Packets that arrive twice.
    pub duplicated: u64,
    /// Arrivals with a flipped bit.
    pub corrupted: u64,
    /// The most bytes that ever waited or were being sent.
    pub peak_backlog: u64,
}
