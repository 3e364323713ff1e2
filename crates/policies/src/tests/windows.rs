use proptest::prelude::*;
use quickset_base::number::{Float as _, Unsigned as _};
use quickset_quic::policy::LaneConfig;

use super::*;

const WINDOW: Option<LaneConfig> = Some(LaneConfig::RLC);

#[test]
fn selective_repeat_codes_nothing() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("sr"));
    assert_eq!(scene.send(&mut *policy, 100), None);
    scene.boundary(Boundary::Fin);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    assert_eq!(policy.delay_sensitivity(&scene.view()), -0.01);
}

#[test]
fn fixed_answers_each_tenth_symbol() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("fixed:10"));
    assert_eq!(scene.send(&mut *policy, 9), WINDOW);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // 25 more in one go: two are due, and the five count for the next.
    scene.send(&mut *policy, 25);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(2));
    scene.send(&mut *policy, 5);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    // All arrived before the question.
    scene.send(&mut *policy, 10);
    scene.arrive();
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
}

#[test]
fn ac_rlnc_repairs_once_in_a_round_trip() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("ac-rlnc:2"));
    scene.send(&mut *policy, 300);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::WakeAt(Time::from_millis(1100)));
    scene.now = Time::from_millis(1100);
    // 1 % of 300.
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(3));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::WakeAt(Time::from_millis(1200)));
    scene.now = Time::from_millis(1350);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    assert_eq!(policy.delay_sensitivity(&scene.view()), 0.02);
}

#[test]
fn bulk_protects_the_last_flight_alone() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("bulk"));
    assert_eq!(scene.send(&mut *policy, 100), None);
    scene.ends_in(150_001);
    assert_eq!(scene.send(&mut *policy, 1), None);
    // 1.25 of the window of 120,000.
    scene.ends_in(150_000);
    assert_eq!(scene.send(&mut *policy, 125), WINDOW);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.ends_in(0);
    // An eighth of 100 ms after the last symbol.
    let quiet = scene.now + Duration::from_micros(12_500);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::WakeAt(quiet));
    scene.now = quiet;
    scene.loss = runs(0.02, 0.25);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(4));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // A resend in a symbol of its own is the last flight again.
    scene.now += ms(120);
    scene.send(&mut *policy, 2);
    scene.now += ms(13);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(4));
    // What has arrived needs none.
    scene.send(&mut *policy, 2);
    scene.arrive();
    scene.now += ms(13);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
}

#[test]
fn a_request_beside_the_handshake_waits_for_its_end() {
    let ask = |confirmed: bool, n: u64| {
        let (mut scene, mut policy) = (CodingScene { confirmed, ..CodingScene::new() }, policy("bulk"));
        scene.ends_in(0);
        scene.send(&mut *policy, n);
        scene.now += ms(13);
        let before = scene.ask(&mut *policy, PlayedCode::Window);
        scene.confirmed = true;
        (before, scene.ask(&mut *policy, PlayedCode::Window))
    };
    let repair = repair(1);
    assert_eq!(ask(false, 1), (Pattern::No, repair));
    // More than one packet is more than one datagram.
    assert_eq!(ask(false, 2), (repair, Pattern::No));
    assert_eq!(ask(true, 1), (repair, Pattern::No));
}

#[test]
fn a_full_receive_window_is_filled_with_repair() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("buffer"));
    scene.loss = PathLoss::independent(0.02);
    blocked_once(&mut scene, &mut *policy);
    // 1/p = 50 symbols.
    assert_eq!(scene.send(&mut *policy, 49), WINDOW);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.send(&mut *policy, 8);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // 58 symbols, 2·ceil(1.16) = 4 in flight, of which one is: three more while blocked.
    scene.demand.blocked = true;
    for _ in 0..3 {
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    }
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // Two arrive, their places are taken; not any more when data may go.
    scene.lanes[0].repairs_in_flight = 2;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    scene.demand.blocked = false;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // Blocked again with everything covered: no burst begins.
    scene.demand.blocked = true;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    assert_eq!(policy.delay_sensitivity(&scene.view()), 0.02);
}

/// One way takes 50 ms, and what repair in flight does is known after 112.5: a message that is due in between
/// gets one repair more when a loss is known, as a resend would go.
#[test]
fn messages_are_not_left_to_repair_that_may_fail() {
    let (mut scene, policy) = (CodingScene::new(), policy("messages:25ms"));
    let known = ms(100) + Duration::from_micros(12_500) + scene.view().ack_delay;
    assert_eq!(policy.delay_sensitivity(&scene.view()), -0.01, "nothing is due");
    for (due, sensitivity) in
        [(ms(49), -0.01), (ms(50), 0.01), (known + ms(49), 0.01), (known + ms(50), -0.01)]
    {
        scene.deadlines.0 = vec![scene.now + due];
        assert_eq!(policy.delay_sensitivity(&scene.view()), sensitivity, "{due:?}");
    }
}

/// Flow control held back what there was, and does not any more.
fn blocked_once(scene: &mut CodingScene, policy: &mut dyn ReliabilityPolicy) {
    scene.demand.blocked = true;
    scene.ask(policy, PlayedCode::Window);
    scene.demand.blocked = false;
}

/// Only the end of a transfer that nothing holds back is repaired: at once, up to twice the losses to be
/// expected in it.
#[test]
fn a_wide_receive_window_is_no_reason_for_repair() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("buffer"));
    scene.loss = PathLoss::independent(0.02);
    assert_eq!(scene.send(&mut *policy, 500), None);
    // Held back once: wrapped for as many symbols as two losses have between them.
    blocked_once(&mut scene, &mut *policy);
    assert_eq!(scene.send(&mut *policy, 100), WINDOW);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(2));
    assert_eq!(scene.send(&mut *policy, 1), WINDOW);
    assert_eq!(scene.send(&mut *policy, 1), None);
    scene.arrive();
    scene.lanes[0].repairs_in_flight = 0;
    // 1.25 of the window of 120,000.
    scene.ends_in(150_000);
    assert_eq!(scene.send(&mut *policy, 60), WINDOW);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.ends_in(0);
    // The lane keeps 161 symbols open, or fewer: 2·ceil(W·l) in all.
    let limit = 2 * (scene.lanes[0].open.approx() * 0.02).ceil().whole::<u64>();
    while scene.ask(&mut *policy, PlayedCode::Window) != Pattern::No {
        assert!(scene.lanes[0].repairs_in_flight <= limit);
    }
    assert_eq!(scene.lanes[0].repairs_in_flight, limit);
}

#[test]
fn messages_wait_for_the_next_one() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("messages:25ms"));
    scene.send(&mut *policy, 2);
    scene.demand.limited = true;
    // A deadline in 250 ms, one way 50: repair has until 175 ms from now, and the next message comes in 66.
    scene.deadlines.0 = vec![Time::from_millis(1250)];
    scene.demand.next_message = Some(Time::from_millis(1066));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::WakeAt(Time::from_millis(1175)));
    // The next after that comes too late for it: 1175 is not before 1180.
    scene.demand.next_message = Some(Time::from_millis(1180));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // New data before the same deadline: that message was protected, and there is no other deadline.
    scene.send(&mut *policy, 1);
    scene.demand.next_message = Some(Time::from_millis(1010));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    // The next deadline.
    scene.send(&mut *policy, 1);
    scene.deadlines.0.push(Time::from_millis(1400));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::WakeAt(Time::from_millis(1325)));
}

#[test]
fn messages_that_are_not_announced_are_covered_at_once() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("messages"));
    scene.deadlines.0 = vec![Time::from_millis(1250)];
    scene.demand.limited = true;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.send(&mut *policy, 2);
    // A tenth of the window is kept free: 120,000 / 1.1 = 109,090.9.
    scene.in_flight = 109_091;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.in_flight = 109_090;
    scene.demand.limited = false;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.demand.limited = true;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    // ε = max(5 ms, 4·rttvar): with an announcement, 1400 - 50 - 32 ms.
    scene.send(&mut *policy, 1);
    scene.rtt_var = ms(8);
    scene.deadlines.0.push(Time::from_millis(1400));
    scene.demand.next_message = Some(Time::from_millis(1040));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::WakeAt(Time::from_millis(1318)));
    scene.rtt_var = ms(1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::WakeAt(Time::from_millis(1345)));
}

/// Sends a burst's `n` symbols and asks for its repair: the shares of a packet that the first and the last of
/// them had.
fn burst_of(scene: &mut CodingScene, policy: &mut dyn ReliabilityPolicy, n: u64) -> (u8, u8) {
    let share = |lane: Option<LaneConfig>| lane.expect("messages are protected").share;
    let first = share(scene.send(policy, 1));
    let last = if n > 1 { share(scene.send(policy, n - 1)) } else { first };
    let pattern = scene.ask(policy, PlayedCode::Window);
    assert!(matches!(pattern, Pattern::Repair { .. }), "{pattern:?}");
    (first, last)
}

/// 5 kB: six symbols of 900 bytes are more.
#[test]
fn symbols_of_the_papers_rule_are_short_where_repair_is_over_few() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("messages"));
    scene.demand.limited = true;
    let mut burst = |n: u64| burst_of(&mut scene, &mut *policy, n);
    assert_eq!(burst(5), (8, 8));
    assert_eq!(burst(4), (8, 8));
    assert_eq!(burst(5), (6, 6));
    assert_eq!(burst(6), (6, 6));
    assert_eq!(burst(1), (8, 8));
}

#[test]
fn the_papers_margin_comes_with_whole_packets() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("messages:25ms"));
    scene.demand.limited = true;
    for _ in 0..5 {
        assert_eq!(scene.send(&mut *policy, 1), WINDOW);
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    }
}

#[test]
fn tum_bulk_pays_out_singly_and_new_data_cancels() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("tum:3"));
    scene.demand.limited = true;
    scene.send(&mut *policy, 5);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.boundary(Boundary::Flush);
    for _ in 0..3 {
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    }
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.send(&mut *policy, 5);
    scene.boundary(Boundary::Fin);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    scene.demand.limited = false;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.demand.limited = true;
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // A boundary with nothing behind it that is not covered.
    scene.boundary(Boundary::Fin);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
}

#[test]
fn tum_incremental_counts_from_the_first_symbol() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("tum:3:80ms"));
    scene.send(&mut *policy, 1);
    scene.now += ms(30);
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::WakeAt(Time::from_millis(1080)));
    scene.now = Time::from_millis(1080);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(3));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // All arrived in time.
    scene.send(&mut *policy, 1);
    scene.arrive();
    scene.now += ms(200);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // 80 ms are 13/8 of 49.2 ms.
    scene.rtt = Duration::from_micros(49_231);
    assert!(scene.send(&mut *policy, 1).is_some());
    scene.rtt = Duration::from_micros(49_230);
    assert_eq!(scene.send(&mut *policy, 1), None);
    scene.now += ms(200);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
}

#[test]
fn another_lane_counts_from_zero() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("fixed:3"));
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.lanes[0].sources = 0;
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
}

/// Who promises to be silent is not asked: so it must be true, and no longer than it is.
#[test]
fn what_is_promised_to_be_quiet_is() {
    for quiet in [1, 20] {
        let (mut scene, mut policy) = (CodingScene::new(), policy(&format!("fixed:{quiet}")));
        for _ in 0..4 {
            scene.send(&mut *policy, 1);
            for left in (1..quiet).rev() {
                assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No, "{left} to go");
                assert_eq!(policy.quiet_for(&scene.view()), left);
                scene.send(&mut *policy, 1);
            }
            assert_ne!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No, "{quiet}");
        }
    }
}

/// Of who leaves most packets alone, too: neither a symbol nor repair until then, however long the packets
/// are.
#[test]
fn who_protects_only_the_end_is_quiet_until_then() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("bulk"));
    scene.send(&mut *policy, 1);
    assert_eq!(policy.quiet_for(&scene.view()), u64::MAX, "nobody knows when it ends");
    let flight = scene.cwnd + scene.cwnd / 4;
    let left = flight + 3 * 65_507 + 1;
    for (sent, quiet) in [(0, 3), (1, 2), (2, 1), (3, 0)] {
        scene.ends_in(left - sent * 65_507);
        assert_eq!(policy.protect(&scene.view(), Carried { resend: false }), None);
        assert_eq!(policy.fec_pattern(&scene.view()), Pattern::No);
        assert_eq!(policy.quiet_for(&scene.view()), quiet);
    }
    scene.ends_in(flight);
    assert!(policy.protect(&scene.view(), Carried { resend: false }).is_some());
}

/// Something happens, as many milliseconds after the last.
#[derive(Clone, Copy, Debug)]
enum SceneEvent {
    Send(u64),
    RepairsArrive(u64),
    AllArrive,
    Block(bool),
    Pass,
}

fn event() -> impl Strategy<Value = (u64, SceneEvent)> {
    let event = prop_oneof![
        (1..60u64).prop_map(SceneEvent::Send),
        (1..9u64).prop_map(SceneEvent::RepairsArrive),
        Just(SceneEvent::AllArrive),
        any::<bool>().prop_map(SceneEvent::Block),
        Just(SceneEvent::Pass),
    ];
    (0..70u64, event)
}

fn happen(scene: &mut CodingScene, policy: &mut dyn ReliabilityPolicy, after: u64, event: SceneEvent) {
    scene.now += ms(after);
    match event {
        SceneEvent::Send(n) => {
            scene.send(policy, n.min(1000 - scene.lanes[0].open));
        }
        SceneEvent::RepairsArrive(n) => {
            let lane = &mut scene.lanes[0];
            lane.repairs_in_flight = lane.repairs_in_flight.saturating_sub(n);
        }
        SceneEvent::AllArrive => scene.arrive(),
        SceneEvent::Block(on) => scene.demand.blocked = on,
        SceneEvent::Pass => {}
    }
}

proptest! {
    #[test]
    fn ac_rlnc_never_repairs_twice_in_a_round_trip(events in prop::collection::vec(event(), 1..200)) {
        let (mut scene, mut policy) = (CodingScene::new(), policy("ac-rlnc"));
        let mut last: Option<Time> = None;
        for (after, event) in events {
            happen(&mut scene, &mut *policy, after, event);
            for _ in 0..3 {
                match scene.ask(&mut *policy, PlayedCode::Window) {
                    Pattern::Repair { n, .. } => {
                        prop_assert!(n >= 1);
                        prop_assert!(last.is_none_or(|last| scene.now.since(last) >= scene.rtt));
                        last = Some(scene.now);
                    }
                    Pattern::WakeAt(at) => prop_assert!(at > scene.now),
                    pattern => prop_assert_eq!(pattern, Pattern::No),
                }
            }
        }
    }

    #[test]
    fn a_closed_window_holds_no_more_repair_than_twice_the_losses(
        events in prop::collection::vec(event(), 1..200),
        share in 0..24u32,
        to_good in 1..=4u32,
    ) {
        let (mut scene, mut policy) = (CodingScene::new(), policy("buffer"));
        scene.loss = runs(f64::from(share) / 128.0, 1.0 / f64::from(to_good));
        for (after, event) in events {
            happen(&mut scene, &mut *policy, after, event);
            for _ in 0..50 {
                let before = scene.lanes[0].repairs_in_flight;
                if scene.ask(&mut *policy, PlayedCode::Window) == Pattern::No {
                    break;
                }
                let lane = &scene.lanes[0];
                // 2·ceil(W·l), in whole numbers.
                let limit = 2 * (lane.open * u64::from(share)).div_ceil(128);
                prop_assert!(lane.repairs_in_flight <= limit.max(before), "{:?}", lane);
                prop_assert!(lane.repairs_in_flight > before);
            }
        }
    }

    #[test]
    fn messages_are_repaired_as_late_as_can_be(
        events in prop::collection::vec((event(), 60..400u64, prop::option::of(0..200u64)), 1..100),
    ) {
        let (mut scene, mut policy) = (CodingScene::new(), policy("messages:10ms"));
        scene.demand.limited = true;
        // The latest deadline among those protected.
        let mut protected = Time::ZERO;
        for ((after, event), deadline, next) in events {
            happen(&mut scene, &mut *policy, after, event);
            scene.demand.next_message = next.map(|next| scene.now + ms(next));
            if matches!(event, SceneEvent::Send(_)) {
                scene.deadlines.0.push(scene.now + ms(deadline));
            }
            // 50 ms of way, 10 of margin: as the algorithm says it, from the other end.
            let next = scene.deadlines.0.iter().filter(|d| **d >= scene.now + ms(50) && **d > protected).min();
            let next = next.copied();
            let (message, now) = (scene.demand.next_message, scene.now);
            match scene.ask(&mut *policy, PlayedCode::Window) {
                Pattern::Repair { .. } => {
                    let waits = next.zip(message).is_some_and(|(d, m)| m.max(now) + ms(60) < d);
                    prop_assert!(!waits, "{:?} {:?} {:?}", now, next, message);
                    // It covers the newest message, too.
                    protected = scene.deadlines.0.iter().copied().max().unwrap_or(protected).max(protected);
                }
                Pattern::WakeAt(at) => prop_assert_eq!(Some(at + ms(60)), next),
                Pattern::No => prop_assert_eq!(scene.lanes[0].unprotected, 0),
                Pattern::Close(_) => prop_assert!(false),
            }
        }
    }
}
