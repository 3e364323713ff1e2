use std::collections::VecDeque;

use quickset_base::Time;

/// The fate of packets in the order of their numbers, and two windows over it.
#[derive(Debug)]
pub(super) struct Events {
    runs: VecDeque<Run>,
    // How many left at the front: what the windows' places count from.
    gone: u64,
    // All that entered, as the windows count it; the windows know what left them.
    entered: Sums,
    long: Window,
    short: Window,
    total: u64,
    total_lost: u64,
    // Packets since the last that was lost.
    since_loss: u64,
    bursts: Bursts,
    tick: u32,
    tick_ends: Time,
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
    #[inline]
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

/// What a window holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Packets.
    pub(super) events: u64,
    /// Those lost.
    pub(super) lost: u64,
    /// Of these, with a full queue.
    pub(super) queued: u64,
    /// Runs of lost ones without any between them that arrived.
    pub(super) runs: u64,
    // Whether its first packet was lost, and its last: 0 or 1.
    first_lost: u64,
    last_lost: u64,
}

/// Where a window begins.
#[derive(Clone, Copy, Debug)]
struct Window {
    // The first run and how many packets of it have left.
    at: u64,
    skip: u32,
    // What entered before it.
    left: Sums,
    // It holds what is younger than so many ticks, and no more packets than these.
    ticks: u32,
    most: u64,
}

/// How losses followed one another, of late: a few dozen runs, however long ago, since a window of packets holds few of
/// them.
#[derive(Clone, Copy, Debug, Default)]
struct Bursts {
    runs: u64,
    lost: u64,
}

/// Sums over packets.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    events: u64,
    lost: u64,
    queued: u64,
    runs: u64,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            runs: VecDeque::new(),
            gone: 0,
            entered: Sums::default(),
            long: Window::new(LONG, MAX_EVENTS),
            short: Window::new(SHORT, u64::MAX),
            total: 0,
            total_lost: 0,
            since_loss: 0,
            bursts: Bursts::default(),
            tick: 0,
            tick_ends: Time::ZERO,
        }
    }
}

impl Events {
    /// What is pushed from now on happens then.
    #[inline]
    pub(super) fn set_time(&mut self, now: Time) {
        if now >= self.tick_ends {
            let tick = now.as_nanos() / TICK_NS;
            self.tick = u32::try_from(tick).unwrap_or(u32::MAX);
            self.tick_ends = Time::from_nanos((tick + 1).saturating_mul(TICK_NS));
        }
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
        let last = self.runs.back_mut();
        let after_loss = last.as_ref().is_some_and(|run| run.kind.is_lost());
        self.entered.enter(kind, n, after_loss);
        if kind.is_lost() {
            self.bursts.enter(n, after_loss);
        }
        match last {
            Some(run) if (run.kind, run.tick) == (kind, self.tick) && run.count < u32::MAX / 2 => {
                run.count += count;
            }
            _ => self.begin(Run { kind, count, tick: self.tick }),
        }
    }

    /// What is too old, or too much, leaves the windows.
    pub(super) fn expire(&mut self) {
        for window in [&mut self.long, &mut self.short] {
            window.expire(&self.runs, self.gone, (self.entered.events, self.tick));
        }
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
        let goes_on = at > 0 && self.runs[at - 1].kind.is_lost();
        self.bursts.forgive(self.runs[at].count == 1 && !goes_on);
        if self.runs[at].count == 1 {
            self.runs[at].kind = Kind::Arrived;
            return true;
        }
        self.runs[at].count -= 1;
        // All behind it arrived, but at other times.
        let (rest, tick) = (self.runs[at].count, self.runs[at].tick);
        self.runs.insert(at + 1, Run { kind: Kind::Arrived, count: 1, tick });
        let place = self.gone + at as u64;
        for window in [&mut self.long, &mut self.short] {
            if window.at > place {
                window.at += 1;
            } else if window.at == place && window.skip == rest {
                // It was all that the window held of its run.
                (window.at, window.skip) = (place + 1, 0);
            }
        }
        true
    }

    /// Counts anew what is there.
    pub(super) fn recount(&mut self) {
        self.entered = sums(&self.runs, self.runs.len(), 0);
        for window in [&mut self.long, &mut self.short] {
            window.left = sums(&self.runs, (window.at - self.gone) as usize, window.skip);
        }
        let last = self.runs.iter().rposition(|run| run.kind.is_lost());
        self.since_loss = match last {
            Some(at) => self.runs.range(at + 1..).map(|run| u64::from(run.count)).sum(),
            None => self.total,
        };
    }

    pub(super) fn long(&self) -> Counts {
        self.count(&self.long)
    }

    pub(super) fn short(&self) -> Counts {
        self.count(&self.short)
    }

    /// Packets since the beginning.
    #[inline]
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Those lost.
    pub(super) fn total_lost(&self) -> u64 {
        self.total_lost
    }

    /// Gilbert's r: how often an arrival follows a loss, where two losses more were followed as `guess` says.
    pub(super) fn gilbert_r(&self, guess: f64) -> f64 {
        let Bursts { runs, lost } = self.bursts;
        (runs as f64 + PRIOR_LOSSES * guess) / (lost as f64 + PRIOR_LOSSES)
    }

    /// Packets since the last that was lost.
    pub(super) fn since_loss(&self) -> u64 {
        self.since_loss
    }

    /// Packets that are not forgotten.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.runs.iter().map(|run| run.count as usize).sum()
    }

    fn count(&self, window: &Window) -> Counts {
        let (all, left) = (&self.entered, &window.left);
        let is_lost = |run: Option<&Run>| u64::from(run.is_some_and(|run| run.kind.is_lost()));
        Counts {
            events: all.events - left.events,
            lost: all.lost - left.lost,
            queued: all.queued - left.queued,
            runs: all.runs - left.runs,
            first_lost: is_lost(self.runs.get((window.at - self.gone) as usize)),
            last_lost: is_lost(self.runs.back()),
        }
    }

    fn begin(&mut self, run: Run) {
        self.runs.push_back(run);
        if self.runs.len() <= MAX_RUNS {
            return;
        }
        for window in [&mut self.long, &mut self.short] {
            if window.at == self.gone {
                let rest = self.runs.front().map_or(0, |run| u64::from(run.count - window.skip));
                window.leave(&self.runs, self.gone, rest);
            }
        }
        self.runs.pop_front();
        self.gone += 1;
    }
}

impl Counts {
    /// Share of packets lost.
    pub(super) fn rate(&self) -> f64 {
        ratio(self.lost, self.events).unwrap_or(0.0)
    }

    /// Gilbert's p: how often a loss follows an arrival.
    pub(super) fn gilbert_p(&self) -> f64 {
        let arrived = self.events - self.lost;
        let followed = arrived.saturating_sub(1 - self.last_lost);
        ratio(self.runs.saturating_sub(self.first_lost), followed).unwrap_or(0.0)
    }
}

impl Bursts {
    fn enter(&mut self, lost: u64, after_loss: bool) {
        if !after_loss {
            if self.runs == MAX_BURSTS {
                *self = Self { runs: self.runs / 2, lost: self.lost / 2 };
            }
            self.runs += 1;
        }
        self.lost += lost;
    }

    /// A loss was none; `alone` when it was a run.
    fn forgive(&mut self, alone: bool) {
        self.lost = self.lost.saturating_sub(1);
        self.runs = self.runs.saturating_sub(u64::from(alone)).min(self.lost);
    }
}

impl Sums {
    #[inline]
    fn enter(&mut self, kind: Kind, count: u64, after_loss: bool) {
        self.events += count;
        if kind.is_lost() {
            self.lost += count;
            self.runs += u64::from(!after_loss);
            self.queued += if kind == Kind::Queued { count } else { 0 };
        }
    }
}

impl Window {
    fn new(ticks: u32, most: u64) -> Self {
        Self { at: 0, skip: 0, left: Sums::default(), ticks, most }
    }

    /// The first `count` packets leave.
    fn leave(&mut self, runs: &VecDeque<Run>, gone: u64, mut count: u64) {
        while count > 0 {
            let Some(run) = runs.get((self.at - gone) as usize) else { return };
            let rest = u64::from(run.count - self.skip);
            let n = rest.min(count);
            count -= n;
            // A run of losses has left with its last packet.
            self.left.enter(run.kind, n, true);
            if n < rest {
                self.skip += n as u32;
                return;
            }
            (self.at, self.skip) = (self.at + 1, 0);
            let next = runs.get((self.at - gone) as usize).is_some_and(|run| run.kind.is_lost());
            self.left.runs += u64::from(run.kind.is_lost() && !next);
        }
    }

    /// All leaves that is too much, or too old, but for the last 200 packets.
    fn expire(&mut self, runs: &VecDeque<Run>, gone: u64, (entered, tick): (u64, u32)) {
        let over = (entered - self.left.events).saturating_sub(self.most);
        self.leave(runs, gone, over);
        while entered - self.left.events > LEAST_EVENTS {
            let Some(run) = runs.get((self.at - gone) as usize) else { return };
            if tick - run.tick.min(tick) < self.ticks {
                return;
            }
            let rest = u64::from(run.count - self.skip);
            self.leave(runs, gone, rest.min(entered - self.left.events - LEAST_EVENTS));
        }
    }
}

/// What the runs before `at` hold, and the first `skip` packets of that one. Runs of losses count where they end.
fn sums(runs: &VecDeque<Run>, at: usize, skip: u32) -> Sums {
    let mut sums = Sums::default();
    let mut after_loss = false;
    let first = runs.get(at).filter(|_| skip > 0).map(|run| (run.kind, skip));
    for (kind, count) in runs.range(..at).map(|run| (run.kind, run.count)).chain(first) {
        sums.enter(kind, count.into(), after_loss);
        after_loss = kind.is_lost();
    }
    let goes_on = runs.get(at).is_some_and(|run| run.kind.is_lost());
    sums.runs -= u64::from(after_loss && goes_on);
    sums
}

fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// Weight of the guess at how losses follow one another: under independent loss it is right, and a single burst of
/// eight outweighs it.
const PRIOR_LOSSES: f64 = 2.0;
/// Runs of losses that are remembered at most.
const MAX_BURSTS: u64 = 64;
/// Time is kept in steps as long as the interval at which windows are looked at.
const TICK_NS: u64 = 200_000_000;
/// Ten seconds.
const LONG: u32 = 50;
/// One second.
const SHORT: u32 = 5;
/// The long window holds no more, except when the short one does.
const MAX_EVENTS: u64 = 20_000;
/// Neither window holds fewer, if so many were seen.
const LEAST_EVENTS: u64 = 200;
/// 192 KiB: more losses within the windows than that are not told apart.
const MAX_RUNS: usize = 16_384;
