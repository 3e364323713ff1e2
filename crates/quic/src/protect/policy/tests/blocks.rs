use super::*;

#[test]
fn a_fence_closes_a_block_with_its_share() {
    // Blocks of k symbols and the repair of n0/k0: ceil(k·(n0 - k0)/k0), at least 1 unless n0 = k0.
    for (name, k, n) in [
        ("rs:105/100", 100, 5),
        ("rs:105/100", 101, 6),
        ("rs:105/100", 1, 1),
        ("rs:103/100", 34, 2),
        ("rs:110/100", 9, 1),
        // 300 symbols in three parts, 15 between them; in four where they are asked for.
        ("rs:105/100", 300, 15),
        ("rs:101/100", 300, 3),
        ("rs:101/100:stride=4", 300, 4),
        ("rs:105/100:stride=8", 3, 3),
        // No part of 128 takes more than 127.
        ("rs:300/100", 128, 127),
        ("ldpc:110/100", 200, 20),
        ("ldpc:110/100", 2, 3),
        ("xor:10", 100, 10),
        ("xor:10", 4, 4),
    ] {
        let (mut scene, mut policy) = (CodingScene::new(), policy(name));
        scene.demand.messages = true;
        assert!(scene.send(&mut *policy, k).is_some());
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No);
        scene.boundary(Boundary::Fence);
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), repair(n), "{name} over {k}");
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No);
    }
}

#[test]
fn a_block_may_go_without() {
    for (name, k) in [("rs:100/100", 50), ("ldpc:110/100", 1)] {
        let (mut scene, mut policy) = (CodingScene::new(), policy(name));
        scene.send(&mut *policy, k);
        scene.boundary(Boundary::Fence);
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::Close(0), "{name} over {k}");
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No);
    }
}

#[test]
fn boundaries_of_an_empty_block_are_none() {
    for name in ["rs:105/100", "xor:4", "adaptive:screen"] {
        let (mut scene, mut policy) = (CodingScene::new(), policy(name));
        scene.boundary(Boundary::Fence);
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No);
        scene.boundary(Boundary::Flush);
        // No question between the boundary and the first symbol.
        scene.send(&mut *policy, 3);
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No, "{name}");
        scene.boundary(Boundary::Fence);
        assert!(matches!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::Repair { .. }), "{name}");
    }
}

#[test]
fn a_block_ends_with_the_peers_window() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("rs:105/100"));
    scene.lanes[0].window = 64;
    scene.send(&mut *policy, 63);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No);
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), repair(4));
}

#[test]
fn a_resend_joins_a_block_but_begins_none() {
    for name in ["rs:105/100", "xor:4"] {
        let (mut scene, mut policy) = (CodingScene::new(), policy(name));
        let resend = Carried { resend: true };
        assert_eq!(policy.protect(&scene.view(), resend), None);
        scene.send(&mut *policy, 1);
        assert_eq!(policy.protect(&scene.view(), resend).map(|lane| lane.index), Some(0), "{name}");
    }
}

#[test]
fn without_fences_blocks_have_the_size_of_the_ratio() {
    for (name, k, n) in
        [("rs:105/100", 100, 5), ("rs:22/20", 20, 2), ("ldpc:220/200", 200, 20), ("xor:4", 100, 4)]
    {
        let (mut scene, mut policy) = (CodingScene::new(), policy(name));
        for _ in 0..3 {
            scene.send(&mut *policy, k - 1);
            assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No, "{name}");
            scene.send(&mut *policy, 1);
            assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::Repair { lane: 0, n }, "{name}");
        }
    }
}

/// Who promises to be silent is not asked: so it must be true, and no longer than it is.
#[test]
fn what_is_promised_to_be_quiet_is() {
    for (name, quiet) in [("rs:105/100", 100), ("rs:103/7", 7)] {
        let (mut scene, mut policy) = (CodingScene::new(), policy(name));
        for _ in 0..4 {
            scene.send(&mut *policy, 1);
            // As with all answers after the first symbol of a stretch.
            let mut left = quiet - 1;
            while left > 0 {
                assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No, "{name}, {left} to go");
                assert_eq!(policy.quiet_for(&scene.view()), left, "{name}");
                scene.send(&mut *policy, 1);
                left -= 1;
            }
            assert_ne!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No, "{name}");
        }
    }
}

/// Of who leaves most packets alone, too: neither a symbol nor repair until then, however long the packets
/// are.
#[test]
fn who_protects_only_the_end_is_quiet_until_then() {
    let flight = |scene: &CodingScene| scene.cwnd + scene.cwnd / 4;
    for name in ["adaptive", "adaptive:bulk"] {
        let (mut scene, mut policy) =
            (CodingScene { in_flight: 100_000, ..CodingScene::new() }, policy(name));
        // Nothing is finished, and there was no pause for long.
        scene.send(&mut *policy, 1);
        scene.now += ms(401);
        assert_eq!(policy.quiet_for(&scene.view()), u64::MAX, "{name}: nobody knows when it ends");
        let left = flight(&scene) + 3 * 65_507 + 1;
        for (sent, quiet) in [(0, 3), (1, 2), (2, 1), (3, 0)] {
            scene.ends_in(left - sent * 65_507);
            assert_eq!(policy.protect(&scene.view(), Carried { resend: false }), None, "{name}");
            assert_eq!(policy.fec_pattern(&scene.view()), Pattern::No, "{name}");
            assert_eq!(policy.quiet_for(&scene.view()), quiet, "{name}");
        }
        scene.ends_in(flight(&scene));
        assert!(policy.protect(&scene.view(), Carried { resend: false }).is_some(), "{name}");
    }
}

/// Adaptive repair needs losses, and then everything may matter: held back data, fences, deadlines.
#[test]
fn adaptive_repair_is_quiet_only_while_it_repairs_nothing() {
    let quiet = |name: &str, change: &dyn Fn(&mut CodingScene)| {
        let mut scene = CodingScene::new();
        change(&mut scene);
        policy(name).quiet_for(&scene.view())
    };
    let lossless = |scene: &mut CodingScene| scene.lose(1e-6, 1.0);
    for name in ["adaptive", "adaptive:screen", "adaptive:messages"] {
        assert_eq!(quiet(name, &lossless), u64::MAX, "{name}");
        let begun = |scene: &mut CodingScene| {
            lossless(scene);
            scene.lanes[0].open = 1;
        };
        assert_eq!(quiet(name, &begun), 0, "{name}: the block is to be closed");
    }
    assert_eq!(quiet("adaptive:bulk", &|scene| scene.demand.blocked = true), 0);
    for name in ["adaptive:screen", "adaptive:messages"] {
        assert_eq!(quiet(name, &|_| {}), 0, "{name}");
    }
}
