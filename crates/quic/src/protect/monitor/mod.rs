//! The loss monitor of a path: how much is lost, how losses follow one another, and whose fault they are.
//!
//! *In:* what became of all 1-RTT packets in flight; numbers left out and packets that are not in flight are no events.
//! *Out:* [`Loss`], the same for all policies.
//!
//! Two windows over one list: a long one (10 s, FlEC §4.2, and 20,000 packets at most: 5000 hold too few bursts; 200 packets at least) and a short
//! one (1 s, and 200 packets at least), since a mean over ten seconds says 0.76 % two seconds after a step to 2 %.
//! Of the two ratios the larger counts, but what has not been seen for long does not: after n packets without loss
//! the long window's ratio is at most three runs of losses in n, which a path that still loses as before passes in one
//! gap of twenty.
//!
//! Invariants: events enter in the order of packet numbers; work is constant for each batch that only
//! acknowledges, and in proportion to the losses otherwise; the list is bounded.

mod blame;
#[cfg(test)]
#[expect(clippy::float_cmp, reason = "ratios of small whole numbers, computed alike")]
mod tests;
mod window;

use quickset_base::{Duration, Time};

use super::policy::Loss;
use crate::cc::Packet;
pub(crate) use blame::{Blame, RoundTrips};
use window::{Events, Kind};

/// One belongs to one path.
#[derive(Debug)]
pub(crate) struct Monitor {
    events: Events,
    /// Settled packets above one that is not, by number.
    pending: Vec<Span>,
    // What stands for packets not seen yet.
    prior: Prior,
    // When the windows are looked at again.
    next: Time,
    loss: Loss,
}

/// Packets in a row that fared alike.
#[derive(Clone, Copy, Debug)]
struct Span {
    first: u64,
    count: u32,
    kind: Kind,
}

/// 200 packets that no one saw, with so many losses among them as the guess says.
#[derive(Clone, Copy, Debug)]
struct Prior {
    rate: f64,
    to_good: f64,
    // Whether somebody did see them: another connection.
    known: bool,
}

impl Monitor {
    /// Of a path of which nothing is known: one loss in 200 packets.
    pub(crate) fn new() -> Self {
        Self::with(Prior { rate: 1.0 / PRIOR_EVENTS, to_good: 1.0, known: false })
    }

    /// Begins with what another connection measured on this way, unless something was measured here.
    pub(crate) fn start_from(&mut self, known: &Loss) {
        if self.events.total() == 0 {
            *self = Self::with(Prior { rate: known.rate, to_good: known.to_good, known: true });
        }
    }

    /// Packets in flight were acknowledged or declared lost; both in the order of their numbers, all of the
    /// application's space. All numbers below `below` are settled. `queued`: losses now are our own doing,
    /// as [`Blame`] says.
    pub(crate) fn on_settled(
        &mut self,
        now: Time,
        (acked, lost): (&[Packet], &[Packet]),
        below: u64,
        queued: bool,
    ) {
        self.events.set_time(now);
        let few = self.is_guessing();
        let in_order = acked.last().is_none_or(|packet| packet.number < below);
        if lost.is_empty() && self.pending.is_empty() && in_order {
            self.events.push(Kind::Arrived, acked.len() as u64);
        } else {
            self.append(acked, Kind::Arrived);
            self.append(lost, if queued { Kind::Queued } else { Kind::Lost });
            self.pass(below);
        }
        // A burst is answered when it is known, not when it is time.
        if now >= self.next || few || !lost.is_empty() {
            self.evaluate(now);
        }
    }

    /// Packets that were declared lost have arrived. Which, is not said: those that were lost last, since what was
    /// overtaken arrives soon.
    pub(crate) fn on_spurious(&mut self, count: u64) {
        for _ in 0..count {
            let span = self.pending.iter().rposition(|span| span.kind.is_lost());
            match span {
                Some(at) => self.forgive_pending(at),
                None if self.events.forgive() => {}
                None => break,
            }
        }
        self.events.recount();
        self.events.expire();
        self.loss = self.measure();
    }

    /// What the path does to packets.
    #[inline]
    pub(crate) fn loss(&self) -> Loss {
        self.loss
    }

    fn with(prior: Prior) -> Self {
        let mut monitor = Self {
            events: Events::default(),
            pending: Vec::new(),
            prior,
            next: Time::ZERO,
            loss: Loss { rate: 0.0, to_bad: 0.0, to_good: prior.to_good, events: 0, congested: 0.0 },
        };
        monitor.loss = monitor.measure();
        monitor
    }

    fn append(&mut self, packets: &[Packet], kind: Kind) {
        for packet in packets {
            match self.pending.last_mut() {
                Some(span) if span.kind == kind && span.first + u64::from(span.count) == packet.number => {
                    span.count += 1;
                }
                _ => self.pending.push(Span { first: packet.number, count: 1, kind }),
            }
        }
    }

    /// The numbers below `below` are settled: their packets become events, in order.
    fn pass(&mut self, below: u64) {
        // The list is two or three sorted runs, which the stable sort merges.
        self.pending.sort_by_key(|span| span.first);
        let settled = self.pending.partition_point(|span| span.first < below);
        // Packets above a gap are settled within a few round trips; a list that grows on and on is not worth its order.
        let settled = if self.pending.len() > MAX_PENDING { self.pending.len() } else { settled };
        for span in self.pending.drain(..settled) {
            self.events.push(span.kind, span.count.into());
        }
    }

    /// The last packet of a run of losses was none.
    fn forgive_pending(&mut self, at: usize) {
        let span = &mut self.pending[at];
        span.count -= 1;
        let last = Span { first: span.first + u64::from(span.count), count: 1, kind: Kind::Arrived };
        if span.count == 0 {
            *span = last;
        } else {
            self.pending.insert(at + 1, last);
        }
    }

    fn evaluate(&mut self, now: Time) {
        self.next = now + INTERVAL;
        self.events.expire();
        self.loss = self.measure();
    }

    /// Too little was seen for plain ratios. That nothing was lost says least of all: of 500 packets at half a percent
    /// loss it is so one time in twelve, of 1000 one in 150, and a sender in slow start has thousands under way by then.
    fn is_guessing(&self) -> bool {
        let total = self.events.total();
        total < ENOUGH || (total < ENOUGH_CLEAN && self.events.total_lost() == 0)
    }

    fn measure(&self) -> Loss {
        let (long, short) = (self.events.long(), self.events.short());
        let total = self.events.total();
        // How they follow one another is remembered for longer: it takes runs, not packets.
        let to_good = self.events.gilbert_r(self.prior.to_good);
        let (rate, to_bad) = if self.is_guessing() {
            let lost = self.events.total_lost() as f64 + PRIOR_EVENTS * self.prior.rate;
            let rate = lost / (total as f64 + PRIOR_EVENTS);
            (rate, if rate < 1.0 { (rate * to_good / (1.0 - rate)).min(1.0) } else { 1.0 })
        } else {
            let run = long.lost as f64 / (long.runs.max(1)) as f64;
            let fading = RUNS_IN_GAP * run / self.events.since_loss() as f64;
            (short.rate().max(long.rate().min(fading)), long.gilbert_p())
        };
        Loss {
            rate,
            to_bad,
            to_good,
            events: total + if self.prior.known { PRIOR_EVENTS as u64 } else { 0 },
            congested: if short.lost == 0 { 0.0 } else { short.queued as f64 / short.lost as f64 },
        }
    }
}

/// Events before plain ratios stand for themselves.
const ENOUGH: u64 = 500;
/// The same where none was lost: bursts that take one packet in 200 leave out as many once in twelve times.
const ENOUGH_CLEAN: u64 = 4000;
/// Weight of the guess before.
const PRIOR_EVENTS: f64 = 200.0;
/// With gaps of geometric length one in twenty (e^-3) holds the place of three.
const RUNS_IN_GAP: f64 = 3.0;
/// How often the windows are looked at, which is for each packet at the beginning.
const INTERVAL: Duration = Duration::from_millis(200);
/// Runs above a gap that are kept.
const MAX_PENDING: usize = 4096;
