use quickset_base::number::Unsigned as _;
use quickset_base::{Duration, Time};

use super::boundary::{Boundaries, LaneProgress};
use super::placement::{Placement, ShortSymbols};
use super::sizing::{Sizing, Stake};
use super::tail::{BurstDue, Tail};
use super::{Boundary, Carried, CodingView, LaneConfig, LaneView, Pattern, ReliabilityPolicy, RepairCode};

/// What a channel is for: all that the adaptive policy is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The end counts: when the last byte is there.
    Bulk,
    /// Each fence counts: when everything before it is there.
    Screen,
    /// Each message counts, until its deadline.
    Messages,
}

/// Ours, and the default: as much repair as it is worth, where a resend would come too late.
///
/// What is worth it says [`Sizing`] from all that is believed of the path. When it goes: bulk, behind the
/// last flight, once nothing else as urgent has to be sent, and what flow control leaves room for. Behind
/// what is not finished, but pauses, as requests and their answers on one stream do, as behind a fence.
/// Screen: behind each fence, over a window of all that has not arrived, unless the next fence comes so soon
/// that the two may share it ([`Wait`]); or a Reed-Solomon block, when more is in flight than one should sum
/// for each repair symbol. Messages: placed by FlEC's algorithm 4. Never within an update, whose end is what
/// is waited for, nor in what packets of data have left, since symbols are as long as those. A path that has
/// shown for long that it loses nothing sees nothing of it, not even the wrapping.
///
/// None goes out where a resend arrives before anybody waits, or where the losses are our own: while more
/// than half of them come with a full queue, repair would only displace data. Deadlines excepted, which no
/// resend meets there: messages get none while more of them are late for want of room than are lost.
#[derive(Clone, Debug)]
pub(super) struct Adaptive {
    goal: Option<Goal>,
    sizing: Sizing,
    placement: Placement,
    tail: Tail,
    held: BlockedBurst,
    blockade: FlowBlockade,
    spurt: Spurt,
    fences: FenceSpans,
    // There is no room for repair of messages.
    crowded: bool,
}

/// When flow control held data back.
#[derive(Clone, Copy, Debug, Default)]
struct FlowBlockade {
    last: Option<Time>,
    asked: Option<Time>,
}

impl FlowBlockade {
    /// Called with each question. Without a lane none comes during a blockade, but a pause tells of it:
    /// nothing was sent for a quarter of a round trip, though half of the congestion window was free. An
    /// application may pause as well; that costs the wrapping of a few round trips, since repair goes only
    /// while flow control does hold data back.
    fn observe(&mut self, view: &CodingView<'_>, sends: bool) {
        let paused = self.asked.is_some_and(|at| 4 * view.now.since(at) >= view.rtt);
        if view.demand.blocked || (sends && paused && view.in_flight <= view.cwnd / 2) {
            self.last = Some(view.now);
        }
        self.asked = Some(view.now);
    }

    /// Not long ago, and perhaps again before what is sent now arrives.
    fn is_near(&self, view: &CodingView<'_>) -> bool {
        self.last.is_some_and(|at| view.now.since(at) <= BLOCKED_FOR * view.rtt)
    }
}

/// A burst that goes on while flow control holds data back.
#[derive(Clone, Copy, Debug, Default)]
struct BlockedBurst {
    burst: bool,
}

impl BlockedBurst {
    /// It begins with the first unprotected symbol, and ends with the blockade or when everything has
    /// arrived.
    fn goes_on(&mut self, view: &CodingView<'_>, lane: &LaneView) -> bool {
        self.burst = view.demand.blocked && lane.outstanding > 0 && (self.burst || lane.unprotected > 0);
        self.burst
    }
}

/// What an application sends between two pauses.
#[derive(Clone, Copy, Debug, Default)]
struct Spurt {
    // When it began; not before the next packet after a pause.
    began: Option<Time>,
}

impl Spurt {
    fn observe(&mut self, view: &CodingView<'_>, sends: bool) {
        if sends {
            self.began.get_or_insert(view.now);
        } else if view.demand.limited {
            self.began = None;
        }
    }

    fn is_young(&self, view: &CodingView<'_>) -> bool {
        self.began.is_none_or(|began| view.now.since(began) <= BLOCKED_FOR * view.rtt)
    }
}

/// What lies between fences.
#[derive(Clone, Copy, Debug, Default)]
struct FenceSpans {
    boundaries: Boundaries,
    windowed: Boundaries,
    // Symbols of the last block.
    usual: u64,
    // Source symbols of the window's lane, in all and up to the last fence.
    progress: LaneProgress,
    fenced: u64,
    wait: Wait,
}

impl FenceSpans {
    /// What it costs if repair behind a fence does not suffice. Where the next fence is near, the repair
    /// behind that mends it long before a resend: of a few symbols a part of a round trip is lost then; of a
    /// large update all that is waited for is late, by less, and the next one with it.
    fn miss(&self, rtt: Duration) -> f64 {
        match self.wait.between {
            Some(between) if 2 * between < rtt => {
                if self.usual < FEW {
                    0.5
                } else {
                    2.0
                }
            }
            _ => 1.0,
        }
    }
}

/// How long repair of a window waits for the next fence, to cover more: as long as what that makes late, if
/// something was lost, is worth less than the symbol that it saves.
///
/// With u symbols unprotected, the next fence t later, and round trips R, waiting costs P(one of u is lost) ·
/// t / R. What has been spent so since the last repair and what the next wait would cost are together to be
/// less than the price: of all that send after equally many fences that is the cheapest (as in the economic
/// order quantity: Harris, 1913).
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    // A fence passed, and it is not decided what becomes of its symbols.
    open: bool,
    // When the last fence passed, and how long the time between two is.
    last: Option<Time>,
    between: Option<Duration>,
    // What waiting has cost since the last repair.
    spent: f64,
    // Until when it was decided to wait, unless another fence passes.
    end: Option<Time>,
}

impl Wait {
    /// `n` fences passed at this time, and before them a loss among what was unprotected was as likely as
    /// `risk`.
    fn passed(&mut self, now: Time, n: u64, risk: f64, rtt: Duration) {
        (self.open, self.end) = (true, None);
        if let Some(last) = self.last.replace(now) {
            let since = now.since(last);
            let each = since / u32::try_from(n.max(1)).unwrap_or(u32::MAX);
            let before = self.between.unwrap_or(each);
            self.between = Some((7 * before + each) / 8);
            self.spent += risk * share(since, rtt);
        }
    }

    /// Until when repair waits for what may come, if it does.
    fn until(&mut self, now: Time, risk: f64, price: f64, rtt: Duration) -> Option<Time> {
        let (between, last) = (self.between?, self.last?);
        // Nobody waits for longer than the probing of a pause takes.
        let end = last + (2 * between).min(rtt / 8);
        let is_worth_it = self.spent + risk * share(between, rtt) < price;
        self.end = (is_worth_it && now < end).then_some(end);
        self.end
    }

    /// Repair went, or none is worth it.
    fn decided(&mut self, sent: bool) {
        (self.open, self.end) = (false, None);
        if sent {
            self.spent = 0.0;
        }
    }
}

/// Of a round trip, and no more than that: then a resend is there.
fn share(time: Duration, rtt: Duration) -> f64 {
    time.min(rtt).as_secs_f64() / rtt.as_secs_f64().max(1e-9)
}

impl Adaptive {
    /// Without a goal that is found which the channel's deadlines and fences suggest.
    pub(super) fn new(goal: Option<Goal>) -> Self {
        Self {
            goal,
            sizing: Sizing::default(),
            placement: Placement::new(None, ShortSymbols::ROOMY),
            tail: Tail::default(),
            held: BlockedBurst::default(),
            blockade: FlowBlockade::default(),
            spurt: Spurt::default(),
            fences: FenceSpans::default(),
            crowded: false,
        }
    }

    fn goal(&self, view: &CodingView<'_>) -> Goal {
        match (self.goal, view.demand.boundary) {
            (Some(goal), _) => goal,
            // A block that was begun waits for its fence, whatever else comes up.
            (None, _) if view.lanes[usize::from(BLOCK.index)].open > 0 => Goal::Screen,
            (None, _) if has_deadline(view) => Goal::Messages,
            (None, Some((Boundary::Fence, _))) => Goal::Screen,
            (None, _) => Goal::Bulk,
        }
    }

    /// What is sent without an end in sight may be the last for a while, and waited for: it is not much, and
    /// began not long ago. Who has always something to send goes on, and is not wrapped.
    fn may_pause(&self, view: &CodingView<'_>) -> bool {
        self.goal.is_none() && self.spurt.is_young(view) && view.is_last_flight()
    }

    /// The end of a transfer, or a closed window.
    fn bulk(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[usize::from(WINDOW.index)];
        let held = self.held.goes_on(view, lane);
        let sources = self.fences.progress.update(lane.sources);
        let pauses = view.demand.unsent == 0 && view.demand.boundaries == self.fences.windowed.seen();
        if pauses && self.may_pause(view) && view.confirmed && !(held || view.others_wait) {
            return self.window(view, lane.last_source.map_or(view.now, |last| last + view.rtt / 8));
        }
        // While others that are as urgent have something to send, what was lost goes again among that: nobody
        // waits for the end of one of many things before that of all, and repair would make all of them
        // later.
        let due = if view.others_wait { BurstDue::No } else { self.tail.due(view, lane) };
        let stake = Stake { miss: 1.0, price: TRANSFER * price(lane), per: 4, cut: false };
        let n = match due {
            BurstDue::Now => self.sizing.repairs(view.belief, lane.unprotected, stake),
            BurstDue::At(time) => return Pattern::WakeAt(time),
            BurstDue::No if held => {
                self.sizing.repairs(view.belief, lane.unprotected.max(1), stake).min(lane.room(&view.loss))
            }
            BurstDue::No => 0,
        };
        if due == BurstDue::Now {
            self.fences.windowed.observe(view.demand.boundaries, 0);
            self.fences.fenced = sources;
        }
        window_repair(n)
    }

    /// A fence passed: repair right behind it.
    fn screen(&mut self, view: &CodingView<'_>) -> Pattern {
        let open = view.lanes[usize::from(BLOCK.index)];
        let full = open.open > 0 && open.open >= open.window;
        if self.fences.boundaries.passed(view.demand.boundaries, open.open) || full {
            self.fences.usual = open.open;
            let stake = Stake { cut: true, ..screen_stake(&open, open.open) };
            let n = if is_ample(view) { 0 } else { self.sizing.repairs(view.belief, open.open, stake) };
            return match n {
                0 => Pattern::Close(BLOCK.index),
                n => Pattern::Repair { lane: BLOCK.index, n },
            };
        }
        // Where there are no fences each message is waited for, and each pause is a fence. Behind the last of
        // fences that came it is one when nothing follows, as it may be where an application has said nothing
        // of it.
        let last =
            view.lanes[usize::from(WINDOW.index)].last_source.filter(|_| view.demand.boundary.is_some());
        self.window(view, last.map_or(view.now, |last| last + view.rtt / 8))
    }

    /// One window over all that has not arrived. What repair behind a fence does not bring back, that behind
    /// the next one does, long before a resend could: a window bears bursts that a block of its own would
    /// not. Where nothing follows until `quiet`, that is as good as a fence.
    fn window(&mut self, view: &CodingView<'_>, quiet: Time) -> Pattern {
        let lane = &view.lanes[usize::from(WINDOW.index)];
        let sources = self.fences.progress.update(lane.sources);
        let block = sources - self.fences.fenced;
        let ends = view.demand.limited && block > 0 && lane.unprotected > 0;
        let paused = ends && view.now >= quiet;
        let passed = view.demand.boundaries.saturating_sub(self.fences.windowed.seen());
        if self.fences.windowed.passed(view.demand.boundaries, block) || paused {
            self.fences.usual = block;
            self.fences.fenced = sources;
            let before = lane.unprotected.saturating_sub(block);
            let risk = if before == 0 { 0.0 } else { self.sizing.risk(view.belief, before) };
            self.fences.wait.passed(view.now, passed, risk, view.rtt);
        }
        // A block that never ends is cut.
        let is_long = lane.unprotected >= CUT;
        if !(self.fences.wait.open || is_long) || lane.unprotected == 0 || is_ample(view) {
            self.fences.wait.decided(false);
            return if ends && !paused { Pattern::WakeAt(quiet) } else { Pattern::No };
        }
        if let Some(end) = self.fences.wait.end.filter(|end| view.now < *end && !is_long) {
            return Pattern::WakeAt(end);
        }
        let stake = Stake { miss: self.fences.miss(view.rtt), ..screen_stake(lane, lane.unprotected) };
        let n = self.sizing.repairs(view.belief, lane.unprotected, stake);
        if n > 0 && !is_long {
            let risk = self.sizing.risk(view.belief, lane.unprotected);
            if let Some(end) = self.fences.wait.until(view.now, risk, stake.price, view.rtt) {
                return Pattern::WakeAt(end);
            }
        }
        self.fences.wait.decided(n > 0);
        window_repair(n)
    }

    fn messages(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[usize::from(WINDOW.index)];
        self.crowded = is_crowded(view, self.crowded);
        if self.crowded {
            return Pattern::No;
        }
        match self.placement.due(view, lane) {
            BurstDue::No => Pattern::No,
            BurstDue::At(time) => Pattern::WakeAt(time),
            BurstDue::Now => {
                let is_roomy = view.in_flight <= view.cwnd / 2 && !is_crowded(view, true);
                let per = if is_roomy && lane.unprotected <= FEW_MESSAGES { 2 } else { 4 };
                let stake = Stake { miss: 1.0, price: PRICE * price(lane), per, cut: false };
                window_repair(self.sizing.repairs(view.belief, lane.unprotected, stake))
            }
        }
    }

    /// The lane for a symbol between fences.
    fn fenced_lane(&mut self, view: &CodingView<'_>, carried: Carried) -> Option<LaneConfig> {
        let (block, window) = (&view.lanes[0], &view.lanes[1]);
        let begun = self.fences.progress.update(window.sources) - self.fences.fenced;
        self.fences.boundaries.observe(view.demand.boundaries, block.open);
        self.fences.windowed.observe(view.demand.boundaries, begun);
        // What was begun in one lane ends there.
        let windowed = block.open == 0 && (begun > 0 || self.fences.usual < FEW || is_affordable(view));
        if windowed {
            return Some(WINDOW);
        }
        // A resend belongs to a fence that was passed: alone it would open a block that none closes.
        (!carried.resend || block.open > 0).then_some(BLOCK)
    }
}

impl ReliabilityPolicy for Adaptive {
    fn protect(&mut self, view: &CodingView<'_>, carried: Carried) -> Option<LaneConfig> {
        self.blockade.observe(view, true);
        self.spurt.observe(view, true);
        if is_clean(view) || is_futile(view) {
            return None;
        }
        match self.goal(view) {
            Goal::Bulk => {
                let is_waited_for = view.ends_soon() || self.may_pause(view);
                (is_waited_for || self.blockade.is_near(view)).then_some(WINDOW)
            }
            Goal::Screen => self.fenced_lane(view, carried),
            Goal::Messages => Some(self.placement.lane(WINDOW, view)),
        }
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        self.blockade.observe(view, false);
        self.spurt.observe(view, false);
        if is_clean(view) || is_futile(view) {
            // An open block goes without: it is not to grow until something is lost again, or the queue
            // short.
            let open = view.lanes[usize::from(BLOCK.index)].open;
            return if open > 0 { Pattern::Close(BLOCK.index) } else { Pattern::No };
        }
        match self.goal(view) {
            Goal::Bulk => self.bulk(view),
            Goal::Screen => self.screen(view),
            Goal::Messages => self.messages(view),
        }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }

    fn quiet_for(&self, view: &CodingView<'_>) -> u64 {
        if view.lanes[usize::from(BLOCK.index)].open > 0 {
            return 0;
        }
        if is_clean(view) || is_futile(view) {
            return u64::MAX;
        }
        match self.goal(view) {
            // While flow control holds data back, repair goes.
            Goal::Bulk if !view.demand.blocked && self.goal.is_none() && self.spurt.is_young(view) => {
                view.before_last_flight()
            }
            Goal::Bulk if !view.demand.blocked => view.before_end(),
            Goal::Bulk | Goal::Screen | Goal::Messages => 0,
        }
    }
}

fn window_repair(n: u32) -> Pattern {
    if n == 0 { Pattern::No } else { Pattern::Repair { lane: WINDOW.index, n } }
}

fn has_deadline(view: &CodingView<'_>) -> bool {
    view.deadlines.next_after(view.now).is_some()
}

/// A window over all that is in flight is short enough to be summed for each repair symbol, and for the peer
/// to keep.
fn is_affordable(view: &CodingView<'_>) -> bool {
    let window = match view.lanes[usize::from(WINDOW.index)].window {
        0 => SUMMED,
        kept => SUMMED.min(kept),
    };
    view.in_flight <= window * SYMBOL
}

/// So little is lost that repair would not even be worth it over as much as is ever left without.
fn is_clean(view: &CodingView<'_>) -> bool {
    view.loss.rate * CUT.approx() <= PRICE
}

/// Most losses come of a full queue, and nobody's deadline depends on them.
fn is_futile(view: &CodingView<'_>) -> bool {
    view.loss.congested > 0.5 && !has_deadline(view)
}

/// More messages come too late for want of room than of losses that are not our own: repair would make more
/// of them late than it brings back. That has to be sure, since all others go without. It did so `before`, if
/// it goes on soon, since what made them late may be repair itself.
fn is_crowded(view: &CodingView<'_>, before: bool) -> bool {
    // Of a message some packets may be lost, and the first ones tell little.
    let lost = (view.hit * (1.0 - view.loss.congested)).max(view.loss.rate);
    if before { view.crowded_out > lost * RELIEF } else { view.surely_crowded_out > lost }
}

/// A resend arrives before anybody waits for it: neither the next deadline nor the next message is near. What
/// is not announced may be so at any time.
fn is_ample(view: &CodingView<'_>) -> bool {
    let arrival = view.now + view.one_way();
    let slack = |deadline: Time, message: Time| deadline.since(arrival).min(message.since(view.now));
    match (view.deadlines.next_after(arrival), view.demand.next_message) {
        (Some(deadline), Some(message)) => 4 * slack(deadline, message) > 5 * view.rtt,
        _ => false,
    }
}

/// What the share of messages without room must fall to, of the share that losses hit, before others are
/// repaired again.
const RELIEF: f64 = 0.125;

/// Whole blocks between fences.
const BLOCK: LaneConfig =
    LaneConfig { index: 0, code: RepairCode::ReedSolomon { stride: 1 }, share: LaneConfig::WHOLE };
/// Everything else.
const WINDOW: LaneConfig = LaneConfig { index: 1, code: RepairCode::Rlc, share: LaneConfig::WHOLE };

/// Between fences with fewer symbols a block costs more than a window.
const FEW: u64 = 8;

/// More symbols without a fence are not left without repair: one in eight may be lost, and a decoder still
/// bears it.
const CUT: u64 = 512;

/// What a repair symbol costs, of what it costs that one thing is late by a round trip: an update of a
/// screen, a message. So a symbol for each is worth it where three in a thousand would be late without, and a
/// second one where so many still are.
const PRICE: f64 = 3.1e-3;
/// The same of whole transfers, which are few.
const TRANSFER: f64 = 1e-3;

/// A repair symbol is as long as what it is for, and has a packet to itself: what a short one costs of one
/// that fills its packet.
fn price(lane: &LaneView) -> f64 {
    let bytes = lane.source_bytes.checked_div(lane.sources).unwrap_or(SYMBOL).min(SYMBOL);
    (PACKET + bytes).approx() / (PACKET + SYMBOL).approx()
}

/// Bytes of a packet that carry nothing: headers and tag, down to what separates frames on a link.
const PACKET: u64 = 100;

/// An update of `k` symbols: a quarter of it for repair at most, whatever is lost, and half of few. Where
/// that does not suffice, more would do harm, since who loses so much mostly overflows a queue.
fn screen_stake(lane: &LaneView, k: u64) -> Stake {
    Stake { miss: 1.0, price: PRICE * price(lane), per: if k <= FEW { 2 } else { 4 }, cut: false }
}

/// Messages of so many symbols may have half as many for repair.
const FEW_MESSAGES: u64 = 32;

/// Symbols that a repair symbol may sum, 5 MB.
const SUMMED: u64 = 4096;
/// A usual one, in bytes.
const SYMBOL: u64 = 1200;

/// Round trips for which a channel counts as held back after flow control held it back.
const BLOCKED_FOR: u32 = 4;
