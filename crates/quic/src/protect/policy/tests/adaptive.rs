use quickset_base::Rng;

use super::super::{Goal, Protection, RepairCode};
use super::*;
use crate::cc::{PacketState, SettledPacket};
use crate::protect::{BlameVerdict, Monitor};

const BLOCK: LaneConfig =
    LaneConfig { index: 0, code: RepairCode::ReedSolomon { stride: 1 }, share: LaneConfig::WHOLE };
const WINDOW: LaneConfig = LaneConfig { index: 1, code: RepairCode::Rlc, share: LaneConfig::WHOLE };

fn window_repair(n: u32) -> Pattern {
    Pattern::Repair { lane: 1, n }
}

#[test]
fn large_updates_get_what_their_losses_ask_for() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:screen"));
    scene.lose(1.0 / 256.0, 1.0);
    for _ in 0..3 {
        assert_eq!(scene.send(&mut *policy, 100), Some(WINDOW));
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
        scene.boundary(Boundary::Fence);
        // P(more than 2 of 102) = 0.8 %, and P(more than 3 of 103) = 0.08 %: the third is worth it, no fourth
        // is.
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(3));
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
        scene.now += ms(300);
        scene.arrive();
    }
}

#[test]
fn bursts_get_what_they_take_as_far_as_that_is_worth_it() {
    let repairs = |to_good| {
        let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:screen"));
        scene.lose(0.005, to_good);
        scene.send(&mut *policy, 100);
        scene.boundary(Boundary::Fence);
        match scene.ask(&mut *policy, PlayedCode::Window) {
            Pattern::Repair { lane: 1, n } => n,
            pattern => panic!("{pattern:?}"),
        }
    };
    let of: Vec<u32> = [1.0, 0.5, 0.25, 0.125].map(repairs).to_vec();
    // Runs of length m begin in 100 packets as often as 0.5/m: those that are n longer than the repair do so
    // (1 - 1/m)^n times as often.
    assert!(of[..3].is_sorted() && of[0] == 3 && (6..=12).contains(&of[3]), "{of:?}");
}

#[test]
fn where_hardly_anything_is_lost_a_repair_covers_several_updates() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:screen"));
    scene.lose(0.0001, 1.0);
    let mut sent = Vec::new();
    for _ in 0..20 {
        scene.send(&mut *policy, 100);
        scene.boundary(Boundary::Fence);
        let pattern = scene.ask(&mut *policy, PlayedCode::Window);
        sent.push(u32::from(matches!(pattern, Pattern::Repair { .. })));
        scene.now += ms(10);
    }
    // The first comes at once, since nothing says that others follow. Then a loss is waited for with n per
    // cent behind n updates, for a tenth of a round trip each: 0.1 + 0.2 + 0.3 per cent are twice the price
    // of 0.31.
    let of: u32 = sent[2..].iter().sum();
    assert!((6..=10).contains(&of), "{sent:?}");
    // Far apart each has its own.
    for _ in 0..5 {
        scene.now += ms(300);
        scene.arrive();
        scene.send(&mut *policy, 100);
        scene.boundary(Boundary::Fence);
        let pattern = scene.ask(&mut *policy, PlayedCode::Window);
        assert_eq!(pattern, window_repair(1));
    }
}

#[test]
fn blocks_go_where_a_window_is_too_long() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:screen"));
    scene.lose(0.005, 1.0);
    // More in flight than 4096 symbols.
    (scene.in_flight, scene.lanes[1].window) = (5_000_000, 0);
    // Of the first update nothing is known: it goes through the window.
    assert_eq!(scene.send(&mut *policy, 100), Some(WINDOW));
    scene.boundary(Boundary::Fence);
    assert!(matches!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::Repair { lane: 1, .. }));
    // The next is expected to be like it.
    assert_eq!(scene.send(&mut *policy, 100), Some(BLOCK));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No);
    scene.boundary(Boundary::Fence);
    // P(more than 3 of 103) = 0.18 %.
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), repair(3));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No);
    // A block that turns out to be small rounds up.
    scene.send(&mut *policy, 2);
    scene.boundary(Boundary::Fence);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), repair(1));
    assert_eq!(scene.send(&mut *policy, 1), Some(WINDOW));
    // A peer that keeps fewer is asked for no more.
    let (mut scene, mut policy) = (CodingScene::new(), super::policy("adaptive:screen"));
    scene.in_flight = 1_200_001;
    scene.send(&mut *policy, 100);
    scene.boundary(Boundary::Fence);
    scene.ask(&mut *policy, PlayedCode::Window);
    assert_eq!(scene.send(&mut *policy, 1), Some(BLOCK));
    (scene.in_flight, scene.lanes[0].open) = (1_200_000, 0);
    assert_eq!(scene.send(&mut *policy, 1), Some(WINDOW));
}

#[test]
fn a_single_symbol_is_covered_at_once() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive"));
    scene.boundary(Boundary::Fence);
    for _ in 0..3 {
        scene.send(&mut *policy, 1);
        scene.boundary(Boundary::Fence);
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(1));
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
        scene.now += ms(200);
        scene.arrive();
    }
}

#[test]
fn many_small_blocks_share_a_window() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:screen"));
    // A hundred fences of one symbol within a round trip at 1 %. Each waits for the next at a price of 0.01 ·
    // 1/100 for each that waits with it: behind n of them that is n²/2 · 10^-4, and with n = 8 the price of a
    // symbol, 0.31 %.
    for _ in 0..100 {
        assert_eq!(scene.send(&mut *policy, 1), Some(WINDOW));
        scene.boundary(Boundary::Fence);
        scene.ask(&mut *policy, PlayedCode::Window);
        scene.now += ms(1);
    }
    let sent = scene.lanes[1].repairs_sent;
    assert!((11..=16).contains(&sent), "{sent}");
    // The last symbols are not left alone: when no more come as soon as they did, they are covered as well.
    scene.send(&mut *policy, 1);
    scene.boundary(Boundary::Fence);
    let Pattern::WakeAt(quiet) = scene.ask(&mut *policy, PlayedCode::Window) else { panic!("no wait") };
    assert!(quiet <= scene.now + ms(3));
    scene.now = quiet;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(1));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
}

/// How many fences share a repair symbol, against the cheapest of all numbers in which they could.
#[test]
fn fences_share_as_many_as_is_cheapest() {
    for (k, between, rate) in
        [(1, 1, 0.01), (2, 40, 0.000_5), (8, 10, 0.001), (100, 11, 0.000_2), (20, 5, 0.000_1)]
    {
        let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:screen"));
        scene.lose(rate, 1.0);
        let fences = 3000u32;
        let (mut waited, mut open) = (0.0, 0u64);
        for _ in 0..fences {
            scene.send(&mut *policy, k);
            scene.boundary(Boundary::Fence);
            scene.ask(&mut *policy, PlayedCode::Window);
            open = scene.lanes[1].unprotected;
            waited += rate * open as f64 * between as f64 / 100.0;
            scene.now += ms(between);
        }
        let price = 0.0031 * scene.lanes[1].repairs_sent as f64 + waited;
        // m fences for each repair symbol: of m - 1 that wait the first does so for m - 1 times.
        let cheapest = (1..=200)
            .map(|m| {
                let m = f64::from(m);
                let wait = rate * k as f64 * m * (m - 1.0) / 2.0 * between as f64 / 100.0;
                (0.0031 + wait) * f64::from(fences) / m
            })
            .fold(f64::INFINITY, f64::min);
        assert!(price <= 1.25 * cheapest, "{k} each {between} ms at {rate}: {price} for {cheapest}, {open}");
    }
}

#[test]
fn the_goal_is_found() {
    for (protection, boundary, deadline, lane) in [
        ("adaptive", None, None, None),
        ("adaptive", Some(Boundary::Flush), None, None),
        ("adaptive", Some(Boundary::Fence), None, Some(WINDOW)),
        ("adaptive", None, Some(Time::from_millis(1200)), Some(WINDOW)),
        // Those that lie behind are none.
        ("adaptive", None, Some(Time::from_millis(999)), None),
        ("adaptive:bulk", Some(Boundary::Fence), None, None),
    ] {
        let (mut scene, mut policy) = (CodingScene::new(), policy(protection));
        scene.demand.boundary = boundary.map(|kind| (kind, scene.now));
        scene.deadlines.0.extend(deadline);
        assert_eq!(scene.send(&mut *policy, 1), lane, "{protection} {boundary:?} {deadline:?}");
    }
}

#[test]
fn a_block_keeps_its_goal() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive"));
    scene.in_flight = 5_000_000;
    scene.boundary(Boundary::Fence);
    scene.send(&mut *policy, 20);
    scene.boundary(Boundary::Fence);
    scene.ask(&mut *policy, PlayedCode::Window);
    assert_eq!(scene.send(&mut *policy, 20), Some(BLOCK));
    // A message with a deadline comes up before the fence.
    scene.deadlines.0 = vec![Time::from_millis(1200)];
    assert_eq!(scene.send(&mut *policy, 1), Some(BLOCK));
    scene.boundary(Boundary::Fence);
    assert!(matches!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::Repair { lane: 0, .. }));
    assert_eq!(scene.send(&mut *policy, 1), Some(WINDOW));
}

#[test]
fn a_transfer_is_covered_at_its_end_and_where_it_is_held_back() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:bulk"));
    assert_eq!(scene.send(&mut *policy, 1), None);
    scene.demand.blocked = true;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // From now on symbols, for some round trips.
    scene.demand.blocked = false;
    assert_eq!(scene.send(&mut *policy, 50), Some(WINDOW));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.demand.blocked = true;
    // 50 symbols at 1 %: 2·ceil(0.5) in flight, where the tail asks for three or four.
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(2));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.demand.blocked = false;
    scene.in_flight = 100_000;
    scene.now += ms(401);
    scene.arrive();
    assert_eq!(scene.send(&mut *policy, 1), None);
    scene.ends_in(100_000);
    assert_eq!(scene.send(&mut *policy, 100), Some(WINDOW));
    scene.ends_in(0);
    scene.now += ms(13);
    // As long as others go on, a resend costs nobody a round trip.
    scene.others_wait = true;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.others_wait = false;
    // At 1 % P(more than 4 of 104) = 0.38 % and P(more than 5 of 105) = 0.07 %.
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(5));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
}

#[test]
fn a_pause_tells_of_a_closed_window() {
    for (pause, in_flight, lane) in [(25, 60_000, Some(WINDOW)), (24, 60_000, None), (25, 60_001, None)] {
        let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:bulk"));
        assert_eq!(scene.send(&mut *policy, 1), None);
        (scene.now, scene.in_flight) = (scene.now + ms(pause), in_flight);
        assert_eq!(scene.send(&mut *policy, 1), lane, "{pause} {in_flight}");
    }
}

/// Requests and answers on one stream: nothing ends, and nothing more is there.
#[test]
fn a_pause_of_what_goes_on_is_waited_for() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive"));
    scene.demand.unsent = 24_000;
    assert_eq!(scene.send(&mut *policy, 20), Some(WINDOW));
    (scene.demand.unsent, scene.demand.limited) = (0, true);
    let quiet = scene.now + Duration::from_micros(12_500);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::WakeAt(quiet));
    scene.now = quiet;
    // At 1 % P(more than 1 of 21) = 1.9 %, of 2 0.14 %.
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(2));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // An end is one of a transfer, of which there are few.
    scene.now += ms(1000);
    scene.demand.limited = false;
    scene.ends_in(24_000);
    assert_eq!(scene.send(&mut *policy, 20), Some(WINDOW));
    (scene.demand.boundaries, scene.demand.boundary) = (1, Some((Boundary::Fin, scene.now)));
    scene.ends_in(0);
    scene.now += ms(13);
    // P(more than 3 of 23) = 0.008 %.
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(3));
}

#[test]
fn what_has_no_end_in_sight_is_not_wrapped() {
    // More than a flight, and a little again and again.
    let (mut scene, mut policy) =
        (CodingScene { in_flight: 100_000, ..CodingScene::new() }, policy("adaptive"));
    scene.demand.unsent = 150_001;
    assert_eq!(scene.send(&mut *policy, 1), None);
    scene.demand.unsent = 1200;
    assert_eq!(scene.send(&mut *policy, 1), Some(WINDOW));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.now += ms(401);
    assert_eq!(scene.send(&mut *policy, 1), None);
    // Until it pauses.
    scene.demand.limited = true;
    scene.ask(&mut *policy, PlayedCode::Window);
    scene.demand.limited = false;
    assert_eq!(scene.send(&mut *policy, 1), Some(WINDOW));
    // Who says that the end counts means that.
    policy = super::policy("adaptive:bulk");
    scene.demand.unsent = 1200;
    assert_eq!(scene.send(&mut *policy, 1), None);
}

#[test]
fn without_fences_each_pause_is_one() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:screen"));
    scene.send(&mut *policy, 3);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.demand.limited = true;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(1));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // A long stretch of data is cut: at 1 % P(more than 11 of 523) = 0.9 %, of 12 0.4 %, of 13 0.2 %.
    scene.arrive();
    scene.demand.limited = false;
    scene.lanes[1].repairs_in_flight = 0;
    scene.send(&mut *policy, 511);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(12));
}

/// A fence at the beginning, as in front of the first picture of a screen, and none ever after.
#[test]
fn what_no_fence_follows_is_repaired_when_nothing_else_does() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:screen"));
    scene.send(&mut *policy, 1);
    scene.boundary(Boundary::Fence);
    scene.demand.limited = true;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(1));
    for _ in 0..3 {
        scene.now += ms(300);
        scene.arrive();
        scene.send(&mut *policy, 20);
        let quiet = scene.now + Duration::from_micros(12_500);
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::WakeAt(quiet));
        scene.now = quiet;
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(2));
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    }
}

#[test]
fn another_lane_counts_from_zero() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:screen"));
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.lanes[1].sources = 0;
    scene.boundary(Boundary::Fence);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(1));
    // The block was one of one symbol, so that the next goes the same way.
    assert_eq!(scene.send(&mut *policy, 1), Some(WINDOW));
}

#[test]
fn messages_are_placed_and_sized() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:messages"));
    scene.send(&mut *policy, 100);
    scene.demand.limited = true;
    scene.deadlines.0 = vec![Time::from_millis(1250)];
    scene.demand.next_message = Some(Time::from_millis(1066));
    // 1250 less the way of 50 and the least margin of 5.
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::WakeAt(Time::from_millis(1195)));
    scene.now = Time::from_millis(1195);
    // P(more than 4 of 104) = 0.38 % and P(more than 5 of 105) = 0.07 %.
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(5));
}

#[test]
fn repair_leaves_room_to_messages_that_have_none() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:messages"));
    scene.demand.limited = true;
    scene.deadlines.0 = vec![Time::from_millis(1250)];
    let lost = scene.loss.rate;
    // As a share of the losses. Where there was no room, there must be much before repair goes out again.
    // What a full queue takes of messages is a matter of room, too.
    let steps =
        [(0.99, 0.0, true), (1.01, 0.0, false), (0.13, 0.0, false), (0.12, 0.0, true), (0.6, 0.5, false)];
    for (crowded_out, congested, repairs) in steps {
        scene.send(&mut *policy, 100);
        (scene.crowded_out, scene.surely_crowded_out) = (lost * crowded_out, lost * crowded_out);
        scene.lose(lost * (1.0 - congested), 1.0);
        (scene.hit, scene.loss.congested) = (lost, congested);
        let pattern = scene.ask(&mut *policy, PlayedCode::Window);
        assert_eq!(
            matches!(pattern, Pattern::Repair { .. }),
            repairs,
            "{crowded_out} {congested}: {pattern:?}"
        );
    }
}

#[test]
fn messages_get_more_repair_where_there_is_room() {
    let repairs = |in_flight, crowded_out| {
        let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:messages"));
        scene.lose(0.03125, 1.0);
        (scene.in_flight, scene.crowded_out) = (in_flight, crowded_out);
        scene.send(&mut *policy, 5);
        scene.demand.limited = true;
        scene.deadlines.0 = vec![Time::from_millis(1250)];
        scene.ask(&mut *policy, PlayedCode::Window)
    };
    let half = CodingScene::new().cwnd / 2;
    assert_eq!(repairs(half, 0.0), window_repair(2));
    assert_eq!(repairs(half + 1, 0.0), window_repair(1));
    // An eighth of the messages that are lost is 0.4 %.
    assert_eq!(repairs(half, 0.005), window_repair(1));
}

#[test]
fn that_there_is_no_room_has_to_be_sure() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:messages"));
    scene.send(&mut *policy, 100);
    scene.demand.limited = true;
    scene.deadlines.0 = vec![Time::from_millis(1250)];
    (scene.crowded_out, scene.surely_crowded_out) = (2.0 * scene.loss.rate, 0.9 * scene.loss.rate);
    assert!(matches!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::Repair { .. }));
}

/// A message of several packets is hit more often than one of them.
#[test]
fn room_is_set_against_the_messages_that_are_hit() {
    let repairs = |hit| {
        let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:messages"));
        scene.send(&mut *policy, 100);
        scene.demand.limited = true;
        scene.deadlines.0 = vec![Time::from_millis(1250)];
        (scene.surely_crowded_out, scene.hit) = (2.0 * scene.loss.rate, hit * scene.loss.rate);
        scene.ask(&mut *policy, PlayedCode::Window) != Pattern::No
    };
    assert_eq!([0.0, 1.9, 2.1].map(repairs), [false, false, true]);
}

#[test]
fn nothing_is_repaired_that_a_resend_repairs_in_time() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:screen"));
    scene.demand.next_message = Some(Time::from_millis(1126));
    // Slack is the less of 1126 - 1000 and 1176 - 1000 - 50, and 125 ms are 1.25 RTT.
    for (deadline, ample) in [(Some(1176), true), (Some(1175), false), (None, false)] {
        let mut policy = super::policy("adaptive:screen");
        scene.arrive();
        scene.deadlines.0 = deadline.into_iter().map(Time::from_millis).collect();
        scene.send(&mut *policy, 4);
        scene.boundary(Boundary::Fence);
        let pattern = scene.ask(&mut *policy, PlayedCode::Window);
        assert_eq!(pattern, if ample { Pattern::No } else { window_repair(1) }, "{deadline:?}");
    }
    scene.demand.next_message = None;
    scene.deadlines.0 = vec![Time::from_millis(2000)];
    scene.arrive();
    scene.send(&mut *policy, 4);
    scene.boundary(Boundary::Fence);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), window_repair(1));
}

#[test]
fn a_full_queue_gets_no_repair_but_for_deadlines() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:screen"));
    scene.in_flight = 5_000_000;
    scene.send(&mut *policy, 20);
    scene.boundary(Boundary::Fence);
    scene.ask(&mut *policy, PlayedCode::Window);
    assert_eq!(scene.send(&mut *policy, 20), Some(BLOCK));
    scene.boundary(Boundary::Fence);
    scene.loss.congested = 0.51;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::Close(0));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No);
    assert_eq!(scene.send(&mut *policy, 20), None);
    scene.deadlines.0 = vec![Time::from_millis(1100)];
    assert_eq!(scene.send(&mut *policy, 20), Some(BLOCK));
    scene.loss.congested = 0.5;
    scene.deadlines.0.clear();
    scene.boundary(Boundary::Fence);
    assert!(matches!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::Repair { .. }));
}

/// A channel that sends blocks of 100 symbols, each with a fence, over a path whose losses a monitor sees a
/// round trip later.
struct Channel {
    scene: CodingScene,
    policy: Box<dyn ReliabilityPolicy>,
    monitor: Monitor,
    rng: Rng,
    number: u64,
    bad: bool,
    // Symbols that the receiver lacks, and repair that it has for them.
    missing: (u64, u64),
    // Fates on their way back: number, lost.
    fates: Vec<(u64, bool)>,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    sources: u64,
    wrapped: u64,
    repairs: u64,
    failed: u64,
    blocks: u64,
    // Fences in a row that failed: now, and at most.
    behind: u64,
    longest: u64,
}

impl Channel {
    fn new(seed: u64) -> Self {
        Self {
            scene: CodingScene::new(),
            policy: Protection::Adaptive(Some(Goal::Screen)).policy().unwrap(),
            monitor: Monitor::new(),
            rng: Rng::new(seed),
            number: 0,
            bad: false,
            missing: (0, 0),
            fates: Vec::new(),
        }
    }

    fn packet(&mut self, to_bad: f64, to_good: f64) -> bool {
        self.bad = if self.bad { !self.rng.chance(to_good) } else { self.rng.chance(to_bad) };
        self.fates.push((self.number, self.bad));
        self.number += 1;
        self.bad
    }

    /// A block of 100 every 20 ms; five are a round trip.
    fn run(&mut self, blocks: u64, channel: (f64, f64)) -> Sum {
        self.run_of(blocks, 100, ms(20), 500, channel)
    }

    /// Blocks of `k` that follow one another so soon, of which what is no older than so many packets is not
    /// known yet.
    fn run_of(&mut self, blocks: u64, k: u64, between: Duration, unknown: usize, channel: (f64, f64)) -> Sum {
        let mut sum = Sum::default();
        for _ in 0..blocks {
            (self.scene.loss, self.scene.belief) = (self.monitor.loss(), *self.monitor.belief());
            let mut wrapped = 0;
            for _ in 0..k {
                wrapped += u64::from(self.scene.send(&mut *self.policy, 1).is_some());
                self.missing.0 += u64::from(self.packet(channel.0, channel.1));
            }
            self.scene.boundary(Boundary::Fence);
            let pattern = self.scene.ask(&mut *self.policy, PlayedCode::Window);
            let repairs = if let Pattern::Repair { n, .. } = pattern { u64::from(n) } else { 0 };
            for _ in 0..repairs {
                self.missing.1 += u64::from(!self.packet(channel.0, channel.1));
            }
            let failed = self.missing.0 > self.missing.1;
            if failed {
                sum.behind += 1;
            } else {
                (self.missing, sum.behind) = ((0, 0), 0);
            }
            sum.longest = sum.longest.max(sum.behind);
            sum.sources += k;
            sum.wrapped += wrapped;
            sum.repairs += repairs;
            sum.blocks += 1;
            sum.failed += u64::from(failed);
            self.scene.now += between;
            self.scene.arrive();
            self.settle(unknown);
        }
        sum
    }

    fn settle(&mut self, unknown: usize) {
        let settled = self.fates.len().saturating_sub(unknown);
        let (mut acked, mut lost) = (Vec::new(), Vec::new());
        for (number, bad) in self.fates.drain(..settled) {
            let packet =
                SettledPacket { number, sent: Time::ZERO, bytes: 1200, state: PacketState::default() };
            if bad { lost.push(packet) } else { acked.push(packet) }
        }
        let below = self.number - self.fates.len() as u64;
        self.monitor.on_settled(self.scene.now, &acked, &lost, below, BlameVerdict::default());
    }
}

#[test]
fn a_clean_path_sees_nothing_of_it() {
    let mut channel = Channel::new(1);
    let begin = channel.run(20, (0.0, 1.0));
    assert!(begin.repairs <= 100, "{begin:?}");
    // It is not believed at once. Packets of a round trip come back later.
    channel.run(5, (0.0, 1.0));
    let next = channel.run(25, (0.0, 1.0));
    assert!(next.repairs * 100 <= next.sources, "{next:?}");
    // Under half a percent behind 10,000 packets, and a tenth of it behind 50,000; then nothing is even
    // wrapped.
    channel.run(50, (0.0, 1.0));
    let sum = channel.run(400, (0.0, 1.0));
    assert!(sum.repairs * 1000 <= sum.sources, "{sum:?}");
    channel.run(200, (0.0, 1.0));
    let sum = channel.run(500, (0.0, 1.0));
    assert_eq!((sum.repairs, sum.wrapped), (0, 0), "{:?}", channel.scene.loss);
}

#[test]
fn half_a_percent_costs_what_fixed_redundancy_costs() {
    for seed in 0..3 {
        let mut channel = Channel::new(seed);
        channel.run(50, (0.005, 0.995));
        let sum = channel.run(2000, (0.005, 0.995));
        assert!(sum.repairs * 1000 <= sum.sources * 55, "seed {seed}: {sum:?}");
        // With three repair symbols for a hundred 0.18 % fail: 3.6 of 2000, and more than ten once in 2000
        // times.
        assert!(sum.failed <= 10, "seed {seed}: {sum:?}");
        assert!(sum.repairs * 1000 >= sum.sources * 25, "seed {seed}: {sum:?}");
    }
}

#[test]
fn bursts_are_outlasted() {
    // 2 % in bursts of four.
    let gilbert = (0.005, 0.25);
    let mut channel = Channel::new(4);
    channel.run(100, gilbert);
    let sum = channel.run(1000, gilbert);
    // What is missed is mended behind one of the next fences, which is half as dear.
    assert!(sum.failed * 30 <= sum.blocks, "{sum:?}");
    // A resend would be there after five fences and a half.
    assert!(sum.longest <= 3, "{sum:?}");
    assert!(sum.repairs * 5 <= sum.sources, "{sum:?}");
}

#[test]
fn it_begins_and_ends_with_the_losses() {
    for seed in 0..5 {
        let mut channel = Channel::new(seed);
        channel.run(200, (0.0, 1.0));
        // 2 s are a hundred blocks.
        channel.run(100, (0.02, 0.98));
        let bad = channel.run(200, (0.02, 0.98));
        assert!(bad.failed * 100 <= bad.blocks, "seed {seed}: {bad:?}");
        assert!(bad.repairs * 100 >= bad.sources * 5, "seed {seed}: {bad:?}");
        channel.run(100, (0.0, 1.0));
        let good = channel.run(100, (0.0, 1.0));
        assert!(good.repairs * 100 <= good.sources * 4, "seed {seed}: {good:?}");
        // 100,000 packets later nothing reminds of it.
        channel.run(800, (0.0, 1.0));
        let clean = channel.run(100, (0.0, 1.0));
        assert_eq!((clean.repairs, clean.wrapped), (0, 0), "seed {seed}");
    }
}

/// An update of 20 messages is asked for 300 ms after the one before is complete: what became of that is
/// known then.
#[test]
fn a_path_that_turns_bad_makes_few_updates_late() {
    let late = |seed| {
        let mut channel = Channel::new(seed);
        let clean = channel.run_of(1000, 20, ms(400), 0, (0.0, 1.0));
        assert!(clean.repairs * 100 <= clean.sources, "seed {seed}: {clean:?}");
        channel.run_of(300, 20, ms(400), 0, (0.01, 0.99)).failed
    };
    let mut all: Vec<u64> = (0..20).map(late).collect();
    all.sort_unstable();
    // The first cannot be helped. Without repair 18 in a hundred would be late, and with one symbol each 1.8.
    assert!(all[10] <= 3, "{all:?}");
}
