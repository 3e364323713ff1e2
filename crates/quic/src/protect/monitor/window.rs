use std::collections::VecDeque;

use quickset_base::Time;

/// The fate of packets in the order of their numbers, and two windows over it.
#[derive(Debug)]
pub(super) struct Events {
    runs: VecDeque<Run>,
    // How many left at the front: what the windows' places count from.
    gone: u64,
    long: Window,
    short: Window,
    total: u64,
    total_lost: u64,
    // Packets since the last that was lost.
    since_loss: u64,
    tick: u32,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It arrived.
    Arrived,
    /// It did not.
    Lost,
    /// It did not, while a queue was full.
    Queued,
}

impl Kind {
    pub(super) fn is_lost(self) -> bool {
        self != Self::Arrived
    }
}

/// Packets in a row that fared alike, within a tick.
#[derive(Clone, Copy, Debug)]
struct Run {
    kind: Kind,
    count: u32,
    tick: u32,
}

/// The last packets, counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    /// Packets.
    pub(super) events: u64,
    /// Those lost.
    pub(super) lost: u64,
    /// Of these, with a full queue.
    pub(super) queued: u64,
    /// Runs of lost ones without any between them that arrived.
    pub(super) runs: u64,
    // Whether its first packet was lost, and its last.
    first_lost: bool,
    last_lost: bool,
    // The first run and how many packets of it have left.
    at: u64,
    skip: u32,
    // It holds what is younger than so many ticks.
    ticks: u32,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            runs: VecDeque::new(),
            gone: 0,
            long: Window::new(LONG),
            short: Window::new(SHORT),
            total: 0,
            total_lost: 0,
            since_loss: 0,
            tick: 0,
        }
    }
}

impl Events {
    /// What is pushed from now on happens then.
    pub(super) fn set_time(&mut self, now: Time) {
        self.tick = u32::try_from(now.as_nanos() / TICK_NS).unwrap_or(u32::MAX);
    }

    /// `count` packets more.
    #[inline]
    pub(super) fn push(&mut self, kind: Kind, count: u64) {
        let Some(count @ 1..) = u32::try_from(count).ok() else { return };
        let n = u64::from(count);
        self.total += n;
        if kind.is_lost() {
            self.total_lost += n;
            self.since_loss = 0;
        } else {
            self.since_loss += n;
        }
        self.long.enter(kind, n);
        self.short.enter(kind, n);
        match self.runs.back_mut() {
            Some(run) if (run.kind, run.tick) == (kind, self.tick) && run.count < u32::MAX / 2 => {
                run.count += count;
            }
            _ => self.runs.push_back(Run { kind, count, tick: self.tick }),
        }
        if self.long.events > MAX_EVENTS {
            self.long.leave(&self.runs, self.gone, self.long.events - MAX_EVENTS);
        }
        while self.runs.len() > MAX_RUNS {
            self.drop_first();
        }
    }

    /// What is too old leaves the windows.
    pub(super) fn expire(&mut self) {
        self.long.expire(&self.runs, self.gone, self.tick);
        self.short.expire(&self.runs, self.gone, self.tick);
        while self.gone < self.long.at.min(self.short.at) {
            self.runs.pop_front();
            self.gone += 1;
        }
    }

    /// The packet that was lost last had arrived after all; false when none is known. [`recount`](Self::recount)
    /// follows.
    pub(super) fn forgive(&mut self) -> bool {
        let Some(at) = self.runs.iter().rposition(|run| run.kind.is_lost()) else { return false };
        self.total_lost = self.total_lost.saturating_sub(1);
        if self.runs[at].count == 1 {
            self.runs[at].kind = Kind::Arrived;
            return true;
        }
        self.runs[at].count -= 1;
        // All behind it arrived.
        if let Some(next) = self.runs.get_mut(at + 1) {
            next.count = next.count.saturating_add(1);
        } else {
            let tick = self.runs[at].tick;
            self.runs.push_back(Run { kind: Kind::Arrived, count: 1, tick });
        }
        true
    }

    /// Counts anew what is in the windows.
    pub(super) fn recount(&mut self) {
        let runs = &self.runs;
        for window in [&mut self.long, &mut self.short] {
            window.recount(runs, self.gone);
        }
        let last = runs.iter().rposition(|run| run.kind.is_lost());
        self.since_loss = match last {
            Some(at) => runs.range(at + 1..).map(|run| u64::from(run.count)).sum(),
            None => self.total,
        };
    }

    pub(super) fn long(&self) -> &Window {
        &self.long
    }

    pub(super) fn short(&self) -> &Window {
        &self.short
    }

    /// Packets since the beginning.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Those lost.
    pub(super) fn total_lost(&self) -> u64 {
        self.total_lost
    }

    /// Packets since the last that was lost.
    pub(super) fn since_loss(&self) -> u64 {
        self.since_loss
    }

    fn drop_first(&mut self) {
        for window in [&mut self.long, &mut self.short] {
            if window.at == self.gone {
                let count = self.runs.front().map_or(0, |run| u64::from(run.count - window.skip));
                window.leave(&self.runs, self.gone, count);
            }
        }
        self.runs.pop_front();
        self.gone += 1;
    }
}

impl Window {
    fn new(ticks: u32) -> Self {
        Self {
            events: 0,
            lost: 0,
            queued: 0,
            runs: 0,
            first_lost: false,
            last_lost: false,
            at: 0,
            skip: 0,
            ticks,
        }
    }

    /// Share of packets lost.
    pub(super) fn rate(&self) -> f64 {
        ratio(self.lost, self.events).unwrap_or(0.0)
    }

    /// Gilbert's p: how often a loss follows an arrival.
    pub(super) fn gilbert_p(&self) -> f64 {
        let arrived = self.events - self.lost;
        let followed = arrived - u64::from(arrived > 0 && !self.last_lost);
        ratio(self.runs - u64::from(self.first_lost), followed).unwrap_or(0.0)
    }

    /// Gilbert's r: how often an arrival follows a loss. `None` without a loss that anything follows.
    pub(super) fn gilbert_r(&self) -> Option<f64> {
        let open = u64::from(self.last_lost);
        ratio(self.runs - open, self.lost - open)
    }

    fn enter(&mut self, kind: Kind, count: u64) {
        let lost = kind.is_lost();
        self.first_lost = if self.events == 0 { lost } else { self.first_lost };
        if lost {
            self.lost += count;
            self.runs += u64::from(!self.last_lost);
            self.queued += if kind == Kind::Queued { count } else { 0 };
        }
        self.events += count;
        self.last_lost = lost;
    }

    /// The first `count` packets leave; the last of all stays.
    fn leave(&mut self, runs: &VecDeque<Run>, gone: u64, mut count: u64) {
        while count > 0 && self.events > 1 {
            let Some(run) = runs.get((self.at - gone) as usize) else { return };
            let rest = u64::from(run.count - self.skip);
            let n = rest.min(count);
            count -= n;
            self.events -= n;
            if run.kind.is_lost() {
                self.lost -= n;
                self.queued -= if run.kind == Kind::Queued { n } else { 0 };
            }
            if n < rest {
                self.skip += n as u32;
                return;
            }
            (self.at, self.skip) = (self.at + 1, 0);
            let next = runs.get((self.at - gone) as usize).is_some_and(|run| run.kind.is_lost());
            self.runs -= u64::from(run.kind.is_lost() && !next);
            self.first_lost = next;
        }
    }

    /// All that is too old leaves, but for the last 200 packets.
    fn expire(&mut self, runs: &VecDeque<Run>, gone: u64, tick: u32) {
        while self.events > LEAST_EVENTS {
            let Some(run) = runs.get((self.at - gone) as usize) else { return };
            if tick - run.tick.min(tick) < self.ticks {
                return;
            }
            let rest = u64::from(run.count - self.skip);
            self.leave(runs, gone, rest.min(self.events - LEAST_EVENTS));
        }
    }

    fn recount(&mut self, runs: &VecDeque<Run>, gone: u64) {
        let from = (self.at - gone) as usize;
        let first = runs.get(from).map_or(0, |run| run.count);
        // The packet that was forgiven may have been the only one left of its run: the next begins.
        let (at, skip) =
            if self.skip >= first && first > 0 { (self.at + 1, 0) } else { (self.at, self.skip) };
        *self = Self { at, skip, ..Self::new(self.ticks) };
        for (n, run) in runs.range((at - gone) as usize..).enumerate() {
            let count = if n == 0 { run.count - skip } else { run.count };
            self.enter(run.kind, count.into());
        }
    }
}

fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// Time is kept in steps as long as the interval at which windows are looked at.
const TICK_NS: u64 = 200_000_000;
/// Ten seconds.
const LONG: u32 = 50;
/// One second.
const SHORT: u32 = 5;
/// The long window holds no more, except when the short one does.
const MAX_EVENTS: u64 = 5000;
/// Neither window holds fewer, if so many were seen.
const LEAST_EVENTS: u64 = 200;
/// 192 KiB: more losses within the windows than that are not told apart.
const MAX_RUNS: usize = 16_384;
