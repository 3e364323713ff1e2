//! BBR, version 3 (draft-ietf-ccwg-bbr): sends at the rate that the path delivers, with as much in flight
//! as that needs, and finds both by probing in turn. Names follow the draft; section numbers are its own.
//!
//! Where this departs from the draft (figures: 100 Mbit/s, 100 ms, `examples/shared.rs` and `simulated.rs`):
//! 1. While it cruises, a round with no more loss than the draft takes for harmless when probing does not
//!    lower the short-term bounds. Lowered by every lost packet, 1 % of random loss takes 1 % off the rate in
//!    each round trip, a third of it in a cycle of three seconds.
//! 2. Loss is excessive above 2 % and two standard deviations, and above three packets. At 2 % alone a flow
//!    with 100 packets in flight ends most probes by chance at 1 % of loss, a large one none: it stays small.
//! 3. A probe ends when a queue stands, 1.2 times the path's volume is in flight, and the bandwidth grew by
//!    less than 2 %, unless it is its own long-term bound that holds it: else a small flow beside a large one
//!    would stay small. The draft goes on for three rounds or until it overflows a buffer of one volume,
//!    every three seconds, from which CUBIC does not recover. The price: beside CUBIC in a deeper buffer BBR
//!    has less than half.
//! 4. A round whose last sample the application, or the peer's receive window, held down counts towards a
//!    full pipe if the window was full in it. Else Startup, and its queue, lasted as long as lost packets
//!    made the receive window stop us: three seconds of a 42 MB transfer at 0.5 % of loss. And one that they
//!    held down though it was not full begins the count anew: single rounds of a stream of small messages
//!    that a resend filled would in the end add up to a full pipe, and the messages would be paced at the
//!    rate at which they come. For the same reason no loss ends Startup in a round that was held down: what
//!    it lost, it did not lose by its rate.
//! 5. A sample of the least round trip that an application-limited flow finds anew is as good as ProbeRTT,
//!    which empties queues: such a flow has none, and would hold its messages back for a round trip every ten
//!    seconds.
//! 6. Of marks (ECN, RFC 9002 §7.1), of which the draft says nothing: one is what excessive loss is. A round
//!    with one lowers the short-term bounds and ends Startup; a probe that meets one ends, and was too high.
//! 7. A flight that is over within a round trip is measured behind its head (`rate`), and one that begins
//!    during Startup with little in flight leaves at least at the rate of §5.6.2, of the window as it is by
//!    then: what was delivered so far had ends, which the samples of the rate count as the path's.
//! 8. After persistent congestion (RFC 9002 §7.6.2), the draft's retransmission timeout, the window is four
//!    packets, and grows back by what is acknowledged; it is not restored in one stroke when the losses are
//!    repaired.
//! 9. A loss episode, for what is undone when it proves spurious, is all that left before its first loss was
//!    noticed. The draft saves the state anew in each round with losses, and would restore what the first one
//!    had lowered.
//! 10. Restarts from idle are those with nothing in flight, whether or not the application is known to have
//!     been the reason, and those after half a round trip in which it had nothing to send (`rate`).
//! 11. A probe that was too much cuts the long-term bound by the headroom, as far as the bandwidth's volume
//!     needs it. The draft keeps what was in flight up to the loss, and the next probe is too much again: in
//!     two minutes two flows dropped 6600 packets at a buffer of one volume, with this 4500, and CUBIC beside
//!     one had 17 % of what both have, with this 28 % (measured before the exception in 3;
//!     `docs/congestion.md` has what is shared by now). A cut by 0.7 drops less still, but one that comes
//!     later takes minutes to get its half.
//! 12. ProbeRTT comes every ten seconds, and what it found is good for twenty: half as often as §2.8 has it.
//!     It puts off the next probe for bandwidth, by which flows come to share: with one every five seconds
//!     two take longer to get halves, and use less of the link.

mod control;
mod losses;
mod model;
#[cfg(test)]
mod tests;

use quickset_base::number::{Float as _, Unsigned as _};
use quickset_base::{Duration, Rng, Time};

use super::rate::{Sample, Sampler, per_second};
use super::{Congestion, CongestionControl, Feedback, PacketState, TransmittedPacket, initial_window};
use control::STARTUP_GAIN;
use model::{Aggregation, FullPipe, MaxBandwidth, MinRtt, Rounds, ShortTerm};

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Bbr {
    mtu: u64,
    rng: Rng,
    state: BbrState,
    sampler: Sampler,
    rounds: Rounds,
    max_bandwidth: MaxBandwidth,
    min_rtt: MinRtt,
    full: FullPipe,
    short: ShortTerm,
    // Bytes in flight that the path took without excess loss; `u64::MAX` when nothing is known.
    long_term: u64,
    aggregation: Aggregation,
    probe: BandwidthProbe,
    probe_rtt: ProbeRtt,
    undo: Option<BbrUndo>,
    idle_restart: bool,
    // The last round in which the window was full.
    window_limited: Option<u64>,
    prior_window: u64,
    window: u64,
    rate: Option<u64>,
    last_lost: u64,
}

/// §5.3.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BbrState {
    Startup,
    /// Since this round.
    Drain(u64),
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// What probing for bandwidth remembers from one phase to the next (§5.3.3).
#[derive(Debug)]
struct BandwidthProbe {
    phase: AckPhase,
    // Losses now are an answer to the last probe, and were not reacted to.
    is_sample: bool,
    // When the cycle began, and how long it lasts before the next probe.
    began: Time,
    wait: Duration,
    // The bandwidth, and the round, when the way up began.
    from: u64,
    from_round: u64,
    up_rounds: u32,
    up_acked: u64,
    acked_per_step: u64,
    too_high: bool,
    precautionary: bool,
}

/// What the acknowledgements that come in tell of (§5.3.3.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    None,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

#[derive(Debug, Default)]
struct ProbeRtt {
    until: Option<Time>,
    round_done: bool,
}

/// What to return to when losses prove to be none (§5.5.11).
#[derive(Debug)]
struct BbrUndo {
    began: Time,
    state: Option<BbrState>,
    bandwidth: u64,
    in_flight: u64,
    long_term: u64,
    lost: u64,
}

impl Bbr {
    pub(crate) fn new(mtu: u64, now: Time) -> Self {
        Self {
            mtu,
            // Only so that flows do not probe in step; nobody gains by guessing it.
            rng: Rng::new(now.as_nanos()),
            state: BbrState::Startup,
            sampler: Sampler::new(now),
            rounds: Rounds::default(),
            max_bandwidth: MaxBandwidth::default(),
            min_rtt: MinRtt::new(now),
            full: FullPipe::default(),
            short: ShortTerm::new(),
            long_term: u64::MAX,
            aggregation: Aggregation::new(now),
            probe: BandwidthProbe {
                phase: AckPhase::None,
                is_sample: false,
                began: now,
                wait: Duration::ZERO,
                from: 0,
                from_round: 0,
                up_rounds: 0,
                up_acked: 0,
                acked_per_step: u64::MAX,
                too_high: false,
                precautionary: false,
            },
            probe_rtt: ProbeRtt::default(),
            undo: None,
            idle_restart: false,
            window_limited: None,
            prior_window: 0,
            window: initial_window(mtu),
            rate: None,
            last_lost: 0,
        }
    }

    // §5.2.3.
    fn update_model(&mut self, f: &Feedback<'_>, sample: &Sample) {
        let delivered = self.sampler.delivered();
        self.short.update(sample, delivered);
        self.rounds.update(sample, delivered);
        self.max_bandwidth.update(sample);
        self.check_startup_loss(sample);
        self.adapt_short_term();
        let filter = if self.full.reached { AGGREGATION_ROUNDS } else { 1 };
        let bandwidth = self.bandwidth();
        self.aggregation.update(f.now, sample.acked, bandwidth, self.window, self.rounds.count, filter);
        self.check_full(sample);
        self.check_startup_done();
        self.check_drain_done(f);
        self.update_cycle(f, sample);
        self.update_min_rtt(f, sample);
        self.check_probe_rtt(f, sample);
        self.short.advance(sample);
    }

    // §5.3.1.2.
    fn check_full(&mut self, sample: &Sample) {
        // What took no time has no rate.
        if !self.rounds.start || sample.rate == 0 {
            return;
        }
        if !sample.app_limited {
            self.full.check(sample.rate);
        } else if self.is_window_limited() {
            // See the module's departures. Such a sample may be below what was reached, so growth is that of
            // the maximum.
            self.full.check(self.max_bandwidth.get());
        } else {
            self.full.interrupt();
        }
    }

    fn adapt_short_term(&mut self) {
        if !self.short.round_start {
            return;
        }
        let (delivered, lost) = (self.sampler.delivered(), self.sampler.lost());
        let (gone, all) = self.short.losses(delivered, lost);
        let harmless = !self.short.marked && !self.is_excessive(gone, all);
        if self.short.loss && !harmless && !self.is_probing_bandwidth() {
            self.short.adapt(self.max_bandwidth.get(), self.window, BETA);
        }
        self.short.end_round(delivered, lost);
    }

    // §5.3.1.3: so many gaps and so much loss in a round are a full buffer.
    fn check_startup_loss(&mut self, sample: &Sample) {
        if self.state != BbrState::Startup || self.full.reached || !self.short.round_start {
            return;
        }
        let is_lossy = self.short.gaps >= STARTUP_GAPS && self.is_too_high(sample);
        if self.short.marked || (is_lossy && !sample.app_limited) {
            self.full.reached = true;
            if let Some(undo) = &mut self.undo {
                undo.state = Some(BbrState::Startup);
            }
            self.long_term = self.in_flight_for_bdp().max(self.short.latest_delivered);
        }
    }

    fn check_startup_done(&mut self) {
        if self.state == BbrState::Startup && self.full.reached {
            self.state = BbrState::Drain(self.rounds.count);
        }
    }

    // §5.3.2.
    fn check_drain_done(&mut self, f: &Feedback<'_>) {
        if let BbrState::Drain(since) = self.state {
            if f.in_flight <= self.in_flight_for(1.0) || self.rounds.count > since + 3 {
                self.start_down(f.now);
            }
        }
    }

    // §5.3.3.6.
    fn update_cycle(&mut self, f: &Feedback<'_>, sample: &Sample) {
        if !self.full.reached || self.adapt_long_term(sample) {
            return;
        }
        match self.state {
            BbrState::Down => {
                if !self.start_refill_in_time(f.now) && self.is_time_to_cruise(f) {
                    self.state = BbrState::Cruise;
                }
            }
            BbrState::Cruise => {
                self.start_refill_in_time(f.now);
            }
            BbrState::Refill => {
                if self.rounds.start {
                    self.probe.is_sample = true;
                    self.start_up(sample);
                }
            }
            BbrState::Up => {
                if self.is_time_to_go_down(f, sample) {
                    self.probe.too_high = false;
                    self.start_down(f.now);
                }
            }
            BbrState::Startup | BbrState::Drain(_) | BbrState::ProbeRtt => {}
        }
    }

    /// True when it changed the state.
    fn adapt_long_term(&mut self, sample: &Sample) -> bool {
        if self.probe.phase == AckPhase::Starting && self.rounds.start {
            self.probe.phase = AckPhase::Feedback;
        }
        if self.probe.phase == AckPhase::Stopping && self.rounds.start {
            self.probe.is_sample = false;
            self.probe.phase = AckPhase::None;
            if self.is_in_probe_bw() {
                if !sample.app_limited {
                    self.max_bandwidth.advance();
                }
                if self.probe.precautionary && !self.probe.too_high {
                    self.start_refill();
                    return true;
                }
            }
        }
        if !self.is_too_high(sample) && self.long_term != u64::MAX {
            self.long_term = self.long_term.max(sample.in_flight);
            if self.state == BbrState::Up {
                self.raise_long_term(sample);
            }
        }
        false
    }

    fn raise_long_term(&mut self, sample: &Sample) {
        if !self.is_window_limited() || self.window < self.long_term {
            return;
        }
        self.probe.up_acked += sample.acked;
        let steps = self.probe.up_acked / self.probe.acked_per_step;
        self.probe.up_acked -= steps * self.probe.acked_per_step;
        self.long_term += steps * self.mtu;
        if self.rounds.start {
            self.raise_slope();
        }
    }

    fn raise_slope(&mut self) {
        let growth = 1 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.acked_per_step = (self.window / growth).max(self.mtu);
    }

    fn start_down(&mut self, now: Time) {
        self.short.forget_latest();
        self.probe.acked_per_step = u64::MAX;
        // §5.3.3.5.4: at random, so that flows do not probe at the same time.
        self.rounds.since_probe = self.rng.below(2);
        self.probe.wait = Duration::from_nanos(2_000_000_000 + self.rng.below(1_000_000_000));
        self.probe.began = now;
        self.probe.phase = AckPhase::Stopping;
        self.rounds.begin(self.sampler.delivered());
        self.state = BbrState::Down;
    }

    fn start_refill_in_time(&mut self, now: Time) -> bool {
        // §5.3.3.5.2: with a small window as often as Reno would, to share with it.
        let rounds = (self.in_flight_for_bdp().min(self.window) / self.mtu).min(RENO_ROUNDS);
        let due = now > self.probe.began + self.probe.wait || self.rounds.since_probe >= rounds;
        if due {
            self.start_refill();
        }
        due
    }

    fn start_refill(&mut self) {
        self.short.unbound();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0;
        self.probe.precautionary = false;
        self.probe.phase = AckPhase::Refilling;
        self.rounds.begin(self.sampler.delivered());
        self.state = BbrState::Refill;
    }

    fn start_up(&mut self, sample: &Sample) {
        self.probe.phase = AckPhase::Starting;
        self.rounds.begin(self.sampler.delivered());
        self.full.restart(sample.rate);
        self.probe.from = self.max_bandwidth.get();
        self.probe.from_round = self.rounds.count;
        self.state = BbrState::Up;
        self.raise_slope();
    }

    fn is_time_to_cruise(&self, f: &Feedback<'_>) -> bool {
        f.in_flight <= self.with_headroom() && f.in_flight <= self.in_flight_for(1.0)
    }

    fn is_time_to_go_down(&mut self, f: &Feedback<'_>, sample: &Sample) -> bool {
        if self.probe.too_high && f.in_flight >= self.long_term {
            self.probe.precautionary = true;
            return true;
        }
        if self.is_window_limited() && self.window >= self.long_term {
            // The bound and not the path holds the rate: nothing is learnt about a full pipe, nor about what
            // the probe gains.
            self.full.restart(sample.rate);
            return false;
        }
        self.full.now || self.is_futile(f)
    }

    // §5.3.4.3.
    fn update_min_rtt(&mut self, f: &Feedback<'_>, sample: &Sample) {
        if sample.app_limited {
            self.min_rtt.confirm(f.now, sample.rtt);
        }
        self.min_rtt.update(f.now, sample.rtt);
    }

    fn check_probe_rtt(&mut self, f: &Feedback<'_>, sample: &Sample) {
        if self.state != BbrState::ProbeRtt && self.min_rtt.expired && !self.idle_restart {
            self.save_window();
            self.state = BbrState::ProbeRtt;
            self.probe_rtt.until = None;
            self.probe.phase = AckPhase::Stopping;
            self.rounds.begin(self.sampler.delivered());
        }
        if self.state == BbrState::ProbeRtt {
            // Samples of so little in flight tell nothing of the rate.
            self.sampler.limit(f.in_flight);
            match self.probe_rtt.until {
                None if f.in_flight <= self.probe_rtt_window() => {
                    self.probe_rtt.until = Some(f.now + PROBE_RTT_TIME);
                    self.probe_rtt.round_done = false;
                    self.rounds.begin(self.sampler.delivered());
                }
                None => {}
                Some(_) => {
                    self.probe_rtt.round_done |= self.rounds.start;
                    if self.probe_rtt.round_done {
                        self.check_probe_rtt_done(f.now);
                    }
                }
            }
        }
        if sample.acked > 0 {
            self.idle_restart = false;
        }
    }

    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.probe_rtt.until.is_none_or(|until| now <= until) {
            return;
        }
        self.min_rtt.probed(now);
        self.restore_window();
        self.short.unbound();
        if self.full.reached {
            self.start_down(now);
            self.state = BbrState::Cruise;
        } else {
            self.state = BbrState::Startup;
        }
    }

    // §5.4.1.
    fn restart_from_idle(&mut self, now: Time) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.is_in_probe_bw() {
            self.set_rate(1.0);
        } else if self.state == BbrState::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }

    /// A flight begins in Startup: see the module's departures.
    fn hasten(&mut self) {
        if let (BbrState::Startup, Some(rtt)) = (self.state, self.min_rtt.value) {
            let nominal = (STARTUP_GAIN * per_second(self.window, rtt).approx()).whole();
            self.rate = self.rate.map(|rate| rate.max(nominal));
        }
    }

    fn is_in_probe_bw(&self) -> bool {
        matches!(self.state, BbrState::Down | BbrState::Cruise | BbrState::Refill | BbrState::Up)
    }

    fn is_probing_bandwidth(&self) -> bool {
        matches!(self.state, BbrState::Startup | BbrState::Refill | BbrState::Up)
    }

    fn is_window_limited(&self) -> bool {
        self.window_limited.is_some_and(|round| round + 1 >= self.rounds.count)
    }
}

impl Congestion for Bbr {
    fn on_sent(&mut self, sent: &TransmittedPacket) -> PacketState {
        // An empty pipe is idleness, no window is so small; and so is a pause.
        let begins = self.sampler.begins(sent, self.min_rtt.value);
        if begins {
            self.restart_from_idle(sent.now);
        }
        if begins || (self.sampler.rests() && 4 * sent.in_flight.saturating_sub(sent.bytes) <= self.window) {
            self.hasten();
        }
        let state = self.sampler.on_sent(sent, begins);
        if sent.in_flight + self.mtu > self.window {
            self.window_limited = Some(self.rounds.count);
        }
        // Even with a full window: what comes after a burst that just filled it must not pass for the rate
        // of the path. Wrongly taken for limited, a sample counts still if it is the greatest.
        if sent.app_limited {
            self.sampler.limit(sent.in_flight);
        }
        state
    }

    fn on_feedback(&mut self, f: &Feedback<'_>) {
        if !f.spurious.is_empty() {
            self.on_spurious(f.spurious);
        }
        let acked = self.sampler.on_acked(f);
        for packet in f.lost {
            self.on_lost(packet, f.now);
        }
        if f.marked.is_some() {
            self.on_marked(f.acked.last(), f.now);
        }
        if f.persistent {
            // §5.6.4.4: as after a retransmission timeout; the window grows back by what is acknowledged.
            self.save_window();
            self.window = self.least();
        }
        if let Some(sample) = self.sampler.sample(f, acked) {
            if self.rate.is_none() {
                // §5.6.2: a window per round trip is all that is known.
                let nominal = per_second(self.window, f.srtt.max(Duration::from_millis(1)));
                self.rate = Some((STARTUP_GAIN * nominal.approx()).whole());
            }
            self.update_model(f, &sample);
            self.set_rate(self.pacing_gain());
            self.set_window(acked);
        } else {
            self.bound_window();
        }
    }

    fn set_mtu(&mut self, mtu: u64) {
        // RFC 9002 §7.2: what nothing was learnt from is counted anew.
        if self.state == BbrState::Startup && self.window == initial_window(self.mtu) {
            self.window = initial_window(mtu);
        }
        self.mtu = mtu;
        self.window = self.window.max(self.least());
    }

    fn control(&self) -> CongestionControl {
        CongestionControl {
            window: self.window,
            rate: self.rate,
            slow_start: self.state == BbrState::Startup,
            prompt: self.state == BbrState::ProbeRtt,
            view: self.view(),
        }
    }
}

// §2.4 to §2.8 and §5.6.1.
const PROBE_RTT_TIME: Duration = Duration::from_millis(200);
const LOSS_THRESHOLD: f64 = 0.02;
const BETA: f64 = 0.7;
const STARTUP_GAPS: u32 = 6;
const AGGREGATION_ROUNDS: u64 = 10;
const RENO_ROUNDS: u64 = 63;
