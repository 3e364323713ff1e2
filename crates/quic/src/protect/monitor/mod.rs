//! The loss monitor of a path: what its packets say of how much it loses, and whose fault that is.
//!
//! *In:* what became of all 1-RTT packets in flight; numbers left out and packets that are not in flight are
//! no events. *Out:* a [`Belief`], and [`PathLoss`], its means; the same for all policies.
//!
//! Invariants: events enter in the order of packet numbers; work is constant for each batch that only
//! acknowledges, and in proportion to the losses otherwise; memory is bounded.

mod blame;
mod queues;
#[cfg(test)]
#[expect(clippy::float_cmp, reason = "ratios of small whole numbers, computed alike")]
mod tests;

use std::collections::VecDeque;

use quickset_base::{Duration, Time};

use super::belief::Belief;
use super::policy::PathLoss;
use crate::cc::SettledPacket;
use blame::LossCause;
pub(crate) use blame::{Blame, BlameVerdict, RoundTrips};
use queues::Queues;

/// One belongs to one path.
#[derive(Debug)]
pub(crate) struct Monitor {
    beliefs: Beliefs,
    /// What is lost with the queue at its longest is our own doing.
    top_is_ours: bool,
    /// Arrivals behind arrivals that it was not told yet.
    untold: u64,
    /// How the last packet was lost, if it was.
    in_run: Option<PacketFate>,
    /// The last runs of losses, as long as they may turn out to be none.
    runs: VecDeque<LossRun>,
    /// Settled packets above one that is not, by number.
    pending: Vec<PacketSpan>,
    queues: Queues,
    /// Packets since the path is used, and those that others have seen of it.
    events: u64,
    now: Time,
    /// Until when the belief was told of, if it was; and when it will be looked at again.
    told: Option<Time>,
    next: Time,
    loss: PathLoss,
}

/// What is believed of the path if losses with the queue at its longest are its own, and if they are not. Of
/// a full queue's losses neither is told: they say nothing of the path.
#[derive(Clone, Debug)]
struct Beliefs {
    all: Belief,
    /// Apart, and `None` as long as there was no such loss: then it is the same.
    below_top: Option<Box<Belief>>,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketFate {
    /// It arrived.
    Arrived,
    /// It did not.
    Lost,
    /// It did not, with the queue at its longest.
    LostAtTop,
    /// It did not, since a queue was full.
    Overflowed,
}

/// Packets in a row that fared alike.
#[derive(Clone, Copy, Debug)]
struct PacketSpan {
    first: u64,
    count: u32,
    kind: PacketFate,
}

/// Packets that were lost in a row, and what would be believed without them.
#[derive(Clone, Debug)]
struct LossRun {
    kind: PacketFate,
    before: Beliefs,
    at: Time,
    lost: u64,
    /// Packets that arrived behind it.
    arrived: u64,
}

impl Monitor {
    /// Of a path of which nothing is known.
    pub(crate) fn new() -> Self {
        Self::with(Belief::new(), 0)
    }

    /// Begins with what another connection found on this way, unless something was found here.
    pub(crate) fn start_from(&mut self, known: &Belief, events: u64) {
        if self.events == 0 {
            *self = Self::with(*known, events);
        }
    }

    /// Packets in flight were acknowledged or declared lost; both in the order of their numbers, all of the
    /// application's space. All numbers below `below` are settled. Whose doing losses are [`Blame`] says.
    pub(crate) fn on_settled(
        &mut self,
        now: Time,
        acked: &[SettledPacket],
        lost: &[SettledPacket],
        below: u64,
        verdict: BlameVerdict,
    ) {
        self.now = now;
        let turned = std::mem::replace(&mut self.top_is_ours, verdict.top_is_ours) != verdict.top_is_ours;
        self.queues.set_time(now);
        let in_order = acked.last().is_none_or(|packet| packet.number < below);
        if lost.is_empty() && self.pending.is_empty() && in_order {
            self.push(PacketFate::Arrived, acked.len() as u64);
        } else {
            self.append(acked, PacketFate::Arrived);
            let kind = match verdict.fault {
                LossCause::Path => PacketFate::Lost,
                LossCause::Top => PacketFate::LostAtTop,
                LossCause::Ours => PacketFate::Overflowed,
            };
            self.append(lost, kind);
            self.pass(below);
        }
        // A burst is answered when it is known, not when it is time.
        if now >= self.next || self.untold >= MANY || self.events < FEW || !lost.is_empty() || turned {
            self.look();
        }
    }

    /// Packets that were declared lost have arrived. Which, is not said: those that were lost last, since
    /// what was overtaken arrives soon.
    pub(crate) fn on_spurious(&mut self, count: u64) {
        for _ in 0..count {
            let span = self.pending.iter().rposition(|span| span.kind != PacketFate::Arrived);
            match span {
                Some(at) => self.forgive_pending(at),
                None if !self.runs.is_empty() => self.forgive(),
                None => break,
            }
        }
        self.tell();
        self.loss = self.measure();
    }

    /// What the path does to packets, on average.
    #[inline]
    pub(crate) fn loss(&self) -> PathLoss {
        self.loss
    }

    /// The same, as far as one can know.
    #[inline]
    pub(crate) fn belief(&self) -> &Belief {
        let below_top = self.beliefs.below_top.as_deref().filter(|_| self.top_is_ours);
        below_top.unwrap_or(&self.beliefs.all)
    }

    fn with(belief: Belief, events: u64) -> Self {
        let mut monitor = Self {
            beliefs: Beliefs { all: belief, below_top: None },
            top_is_ours: false,
            untold: 0,
            in_run: None,
            runs: VecDeque::new(),
            pending: Vec::new(),
            queues: Queues::default(),
            events,
            now: Time::ZERO,
            told: None,
            next: Time::ZERO,
            loss: PathLoss { rate: 0.0, to_bad: 0.0, to_good: 1.0, events, congested: 0.0 },
        };
        monitor.loss = monitor.measure();
        monitor
    }

    fn append(&mut self, packets: &[SettledPacket], kind: PacketFate) {
        for packet in packets {
            match self.pending.last_mut() {
                Some(span) if span.kind == kind && span.first + u64::from(span.count) == packet.number => {
                    span.count += 1;
                }
                _ => self.pending.push(PacketSpan { first: packet.number, count: 1, kind }),
            }
        }
    }

    /// The numbers below `below` are settled: their packets become events, in order.
    fn pass(&mut self, below: u64) {
        // The list is two or three sorted runs, which the stable sort merges.
        self.pending.sort_by_key(|span| span.first);
        let settled = self.pending.partition_point(|span| span.first < below);
        // Packets above a gap are settled within a few round trips; a list that grows on and on is not worth
        // its order.
        let settled = if self.pending.len() > MAX_PENDING { self.pending.len() } else { settled };
        let mut pending = std::mem::take(&mut self.pending);
        for span in pending.drain(..settled) {
            self.push(span.kind, span.count.into());
        }
        self.pending = pending;
    }

    /// `count` packets are events, in the order of their numbers.
    fn push(&mut self, kind: PacketFate, count: u64) {
        if count == 0 {
            return;
        }
        self.events += count;
        let is_ours = kind == PacketFate::Overflowed || (kind == PacketFate::LostAtTop && self.top_is_ours);
        self.queues.push(count, if kind == PacketFate::Arrived { 0 } else { count }, is_ours);
        if kind == PacketFate::Arrived {
            // What follows a loss says how long runs are, which counting them does.
            self.untold += count - u64::from(self.in_run.take().is_some());
            if let Some(run) = self.runs.back_mut() {
                run.arrived += count;
            }
            return;
        }
        let begins = self.in_run.replace(kind) != Some(kind);
        if begins {
            self.tell();
            if self.runs.len() == MOST_RUNS {
                self.runs.pop_front();
            }
            self.runs.push_back(LossRun {
                kind,
                before: self.beliefs.clone(),
                at: self.now,
                lost: 0,
                arrived: 0,
            });
        }
        for belief in self.beliefs.told(kind) {
            if begins {
                belief.lost();
            }
            belief.lost_again(count - u64::from(begins));
        }
        if let Some(run) = self.runs.back_mut() {
            run.lost += count;
        }
    }

    /// The last packet of a run of losses was none.
    fn forgive_pending(&mut self, at: usize) {
        let span = &mut self.pending[at];
        span.count -= 1;
        let last =
            PacketSpan { first: span.first + u64::from(span.count), count: 1, kind: PacketFate::Arrived };
        if span.count == 0 {
            *span = last;
        } else {
            self.pending.insert(at + 1, last);
        }
    }

    /// The same of a run that was told already.
    fn forgive(&mut self) {
        let Some(run) = self.runs.back_mut() else { return };
        self.queues.forgive();
        (run.lost, run.arrived) = (run.lost - 1, run.arrived + 1);
        if run.lost > 0 {
            // What arrived behind the run has arrived behind an arrival now.
            self.untold += u64::from(self.in_run.take().is_none());
            self.beliefs.told(run.kind).for_each(Belief::shorten);
            return;
        }
        let Some(LossRun { before, at, arrived, .. }) = self.runs.pop_back() else { return };
        (self.beliefs, self.told, self.in_run) = (before, Some(at), None);
        let behind_loss = self.runs.back_mut().is_some_and(|run| {
            run.arrived += arrived;
            run.arrived == arrived
        });
        self.untold = arrived - u64::from(behind_loss);
    }

    /// The belief is told of what arrived, and of the time that went by.
    fn tell(&mut self) {
        let arrived = std::mem::take(&mut self.untold);
        let before = self.told.replace(self.now).unwrap_or(self.now);
        for belief in self.beliefs.told(PacketFate::Arrived) {
            belief.arrived(arrived);
            belief.age(self.now.since(before), arrived);
        }
    }

    fn look(&mut self) {
        self.next = self.now + INTERVAL;
        self.tell();
        while self.runs.front().is_some_and(|run| self.now.since(run.at) > REMEMBERED) {
            self.runs.pop_front();
        }
        if self.runs.is_empty() {
            self.runs = VecDeque::new();
        }
        self.loss = self.measure();
    }

    fn measure(&self) -> PathLoss {
        let Self { queues, events, .. } = self;
        let belief = self.belief();
        PathLoss {
            rate: belief.rate(),
            to_bad: belief.to_bad(),
            to_good: belief.to_good(),
            events: *events,
            congested: queues.share(),
        }
    }
}

impl Beliefs {
    /// Those that are told of packets that fared so.
    fn told(&mut self, kind: PacketFate) -> impl Iterator<Item = &mut Belief> {
        let (all, below_top) = match kind {
            PacketFate::Arrived | PacketFate::Lost => (true, true),
            PacketFate::LostAtTop => (true, false),
            PacketFate::Overflowed => (false, false),
        };
        if all && !below_top {
            // From here on they differ.
            self.below_top.get_or_insert_with(|| Box::new(self.all));
        }
        let below_top = self.below_top.as_deref_mut().filter(|_| below_top);
        all.then_some(&mut self.all).into_iter().chain(below_top)
    }
}

/// Until so many packets each batch is looked at: a sender in slow start has thousands under way soon.
const FEW: u64 = 500;
/// And behind as many.
const MANY: u64 = 1000;
/// How often the belief is looked at, at least.
const INTERVAL: Duration = Duration::from_millis(200);
/// What was taken for lost arrives within so long, if it does.
const REMEMBERED: Duration = Duration::from_secs(2);
/// Runs of losses that may turn out to be none.
const MOST_RUNS: usize = 8;
/// Runs above a gap that are kept.
const MAX_PENDING: usize = 4096;
