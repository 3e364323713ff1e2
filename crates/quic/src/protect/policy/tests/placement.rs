use super::*;

#[test]
fn a_burst_is_what_is_expected_or_a_run() {
    // (l, r, U) and max(1, round(max(l·U, 1/r))).
    for (rate, to_good, unprotected, n) in [
        (0.01, 1.0, 10, 1),
        (0.01, 1.0, 149, 1),
        (0.01, 1.0, 151, 2),
        (0.02, 0.25, 50, 4),
        (0.02, 0.33, 10, 3),
        (0.02, 0.25, 400, 8),
        (0.0, 1.0, 1000, 1),
        (0.0, 0.0, 0, 1),
    ] {
        let loss = PathLoss { to_good, ..PathLoss::independent(rate) };
        assert_eq!(loss.burst(unprotected), n, "{rate} {to_good} {unprotected}");
    }
}

#[test]
fn a_request_beside_the_handshake_waits_for_its_end() {
    let ask = |confirmed: bool, n: u64| {
        let (mut scene, mut policy) =
            (CodingScene { confirmed, ..CodingScene::new() }, policy("adaptive:bulk"));
        scene.ends_in(0);
        scene.send(&mut *policy, n);
        scene.now += ms(13);
        let before = scene.ask(&mut *policy, PlayedCode::Window);
        scene.confirmed = true;
        (before, scene.ask(&mut *policy, PlayedCode::Window))
    };
    let repair = Pattern::Repair { lane: 1, n: 1 };
    assert_eq!(ask(false, 1), (Pattern::No, repair));
    // More than one packet is more than one datagram.
    assert_eq!(ask(false, 2), (repair, Pattern::No));
    assert_eq!(ask(true, 1), (repair, Pattern::No));
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

#[test]
fn symbols_are_short_where_repair_is_over_few() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:messages"));
    scene.demand.limited = true;
    let mut burst = |n: u64| burst_of(&mut scene, &mut *policy, n);
    // Nothing is known; then twelve packets are too much, and eleven are less than 14 kB.
    assert_eq!(burst(12), (8, 8));
    assert_eq!(burst(11), (8, 8));
    // Eighteen short ones have 13.5 kB, nineteen 14,250.
    assert_eq!(burst(18), (5, 5));
    assert_eq!(burst(19), (5, 5));
    assert_eq!(burst(2), (8, 8));
    // When none comes for twice as much, resends come in time.
    assert_eq!(burst(38), (5, 5));
    assert_eq!(burst(1), (8, 8));
    assert_eq!(burst(39), (5, 8));
}

/// 5 kB: seven symbols of 750 bytes, or six of 900, are more.
#[test]
fn symbols_are_longer_where_there_is_little_room() {
    for (crowded_out, queued) in [(0.01, 0), (0.0, 11)] {
        let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:messages"));
        scene.demand.limited = true;
        scene.crowded_out = crowded_out;
        scene.rtt = scene.min_rtt + ms(queued);
        let mut burst = |n: u64| burst_of(&mut scene, &mut *policy, n);
        assert_eq!(burst(5), (8, 8), "{crowded_out} {queued}");
        assert_eq!(burst(4), (8, 8));
        assert_eq!(burst(5), (6, 6));
        assert_eq!(burst(6), (6, 6));
        assert_eq!(burst(1), (8, 8));
    }
    let (mut scene, mut policy) = (CodingScene::new(), policy("adaptive:messages"));
    scene.demand.limited = true;
    burst_of(&mut scene, &mut *policy, 6);
    assert_eq!(burst_of(&mut scene, &mut *policy, 1), (5, 5), "there is room");
    scene.rtt = scene.min_rtt + ms(9);
    assert_eq!(burst_of(&mut scene, &mut *policy, 1), (5, 5), "no queue takes that little");
}
