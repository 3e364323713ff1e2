use quickset_base::{Duration, Time};

use super::{
    Belief, Boundary, Carried, CodingView, Demand, LaneConfig, LaneView, MAX_LANES, OpenDeadlines, PathLoss,
    Pattern, ReliabilityPolicy,
};

/// What a policy sees, set up by hand, to try one on: a path of 100 ms and 1 % independent loss, a window of
/// 100 packets, lanes of a decoder that keeps 1000 symbols.
#[derive(Clone, Debug)]
pub struct CodingScene {
    /// The time now.
    pub now: Time,
    /// What is lost: on average, and as it is believed. [`lose`](Self::lose) sets both.
    pub loss: PathLoss,
    /// See [`loss`](Self::loss).
    pub belief: Belief,
    /// The lanes, as the scene has filled them.
    pub lanes: [LaneView; MAX_LANES],
    /// What the application wants: a transfer without an end in sight, first.
    pub demand: Demand,
    /// The deadlines.
    pub deadlines: OpenDates,
    /// The smoothed round trip; the least, which is never more; the mean deviation.
    pub rtt: Duration,
    /// See [`rtt`](Self::rtt).
    pub min_rtt: Duration,
    /// See [`rtt`](Self::rtt).
    pub rtt_var: Duration,
    /// The congestion window and what is in flight, in bytes.
    pub cwnd: u64,
    /// See [`cwnd`](Self::cwnd).
    pub in_flight: u64,
    /// As in [`CodingView`].
    pub confirmed: bool,
    /// As in [`CodingView`].
    pub others_wait: bool,
    /// As in [`CodingView`].
    pub crowded_out: f64,
    /// As in [`CodingView`].
    pub surely_crowded_out: f64,
    /// As in [`CodingView`].
    pub hit: f64,
}

/// Bytes of a symbol that fills its packet.
const SYMBOL: u64 = 1200;

/// Deadlines, in any order.
#[derive(Clone, Debug, Default)]
pub struct OpenDates(pub Vec<Time>);

impl OpenDeadlines for OpenDates {
    fn next_after(&self, t: Time) -> Option<Time> {
        self.0.iter().copied().filter(|date| *date >= t).min()
    }

    fn last(&self) -> Option<Time> {
        self.0.iter().copied().max()
    }
}

impl Default for CodingScene {
    fn default() -> Self {
        Self::new()
    }
}

impl CodingScene {
    /// The one that is described above.
    pub fn new() -> Self {
        Self {
            now: Time::from_millis(1000),
            loss: PathLoss::independent(0.01),
            belief: Belief::known(0.01, 1.0),
            lanes: [LaneView { window: 1000, ..LaneView::default() }; MAX_LANES],
            demand: Demand { unsent: 1 << 40, open: true, ..Demand::default() },
            deadlines: OpenDates::default(),
            rtt: Duration::from_millis(100),
            min_rtt: Duration::from_millis(100),
            rtt_var: Duration::from_millis(1),
            cwnd: 120_000,
            in_flight: 60_000,
            confirmed: true,
            others_wait: false,
            crowded_out: 0.0,
            surely_crowded_out: 0.0,
            hit: 0.0,
        }
    }

    /// The path loses so much, in runs that end so soon.
    pub fn lose(&mut self, rate: f64, to_good: f64) {
        let to_bad = rate * to_good / (1.0 - rate);
        self.loss = PathLoss { to_bad, to_good, ..PathLoss::independent(rate) };
        self.belief = Belief::known(to_bad, to_good);
    }

    /// So much is left to be sent, and nothing more will come.
    pub fn ends_in(&mut self, unsent: u64) {
        (self.demand.unsent, self.demand.open) = (unsent, false);
    }

    /// What the policy sees now.
    pub fn view(&self) -> CodingView<'_> {
        CodingView {
            now: self.now,
            loss: self.loss,
            belief: &self.belief,
            lanes: self.lanes,
            demand: self.demand,
            deadlines: &self.deadlines,
            rtt: self.rtt,
            min_rtt: self.min_rtt.min(self.rtt),
            rtt_var: self.rtt_var,
            pto: 2 * self.rtt,
            ack_delay: Duration::from_millis(25),
            cwnd: self.cwnd,
            in_flight: self.in_flight,
            others_wait: self.others_wait,
            crowded_out: self.crowded_out,
            surely_crowded_out: self.surely_crowded_out,
            hit: self.hit,
            feedback: true,
            confirmed: self.confirmed,
        }
    }

    /// Sends `n` source symbols, if the policy wants them in a lane; says in which.
    pub fn send(&mut self, policy: &mut dyn ReliabilityPolicy, n: u64) -> Option<LaneConfig> {
        let mut joined = None;
        for _ in 0..n {
            joined = policy.protect(&self.view(), Carried { resend: false });
            let Some(lane) = joined else { continue };
            let (now, share) = (self.now, lane.share);
            let lane = &mut self.lanes[usize::from(lane.index)];
            lane.open += 1;
            lane.unprotected += 1;
            lane.outstanding += 1;
            lane.sources += 1;
            lane.source_bytes += SYMBOL * u64::from(share) / u64::from(LaneConfig::WHOLE);
            lane.first_unprotected = lane.first_unprotected.or(Some(now));
            lane.last_source = Some(now);
        }
        joined
    }

    /// Asks for a pattern, and does as the mechanism does: repair of a block closes it, repair of a window
    /// covers it.
    pub fn ask(&mut self, policy: &mut dyn ReliabilityPolicy, kind: PlayedCode) -> Pattern {
        let pattern = policy.fec_pattern(&self.view());
        let (Pattern::Repair { lane: index, .. } | Pattern::Close(index)) = pattern else { return pattern };
        let lane = &mut self.lanes[usize::from(index)];
        lane.unprotected = 0;
        lane.first_unprotected = None;
        if let Pattern::Repair { n, .. } = pattern {
            lane.repairs_sent += u64::from(n);
            lane.repairs_in_flight += u64::from(n);
        }
        if kind == PlayedCode::Block || matches!(pattern, Pattern::Close(_)) {
            lane.open = 0;
        }
        pattern
    }

    /// A boundary lies behind what was sent.
    pub fn boundary(&mut self, kind: Boundary) {
        self.demand.boundaries += 1;
        self.demand.boundary = Some((kind, self.now));
    }

    /// All that is in flight arrives.
    pub fn arrive(&mut self) {
        for lane in &mut self.lanes {
            *lane = LaneView {
                window: lane.window,
                repairs_sent: lane.repairs_sent,
                sources: lane.sources,
                source_bytes: lane.source_bytes,
                last_source: lane.last_source,
                ..LaneView::default()
            };
        }
    }
}

/// How repair leaves its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayedCode {
    /// A window code.
    Window,
    /// A block code.
    Block,
}

impl PathLoss {
    /// Losses at this rate that do not depend on one another, of thousands of packets.
    pub fn independent(rate: f64) -> Self {
        Self { rate, to_bad: rate, to_good: 1.0, events: 5000, congested: 0.0 }
    }
}
