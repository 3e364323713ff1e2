use super::super::RepairCode;
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
        let (mut scene, mut policy) = (Scene::new(), policy(name));
        scene.demand.messages = true;
        assert!(scene.send(&mut *policy, k).is_some());
        assert_eq!(scene.ask(&mut *policy, Kind::Block), Pattern::No);
        scene.boundary(Boundary::Fence);
        assert_eq!(scene.ask(&mut *policy, Kind::Block), repair(n), "{name} over {k}");
        assert_eq!(scene.ask(&mut *policy, Kind::Block), Pattern::No);
    }
}

#[test]
fn a_block_may_go_without() {
    for (name, k) in [("rs:100/100", 50), ("ldpc:110/100", 1)] {
        let (mut scene, mut policy) = (Scene::new(), policy(name));
        scene.send(&mut *policy, k);
        scene.boundary(Boundary::Fence);
        assert_eq!(scene.ask(&mut *policy, Kind::Block), Pattern::Close(0), "{name} over {k}");
        assert_eq!(scene.ask(&mut *policy, Kind::Block), Pattern::No);
    }
}

#[test]
fn boundaries_of_an_empty_block_are_none() {
    for name in ["rs:105/100", "xor2d:4x4", "adaptive:screen"] {
        let (mut scene, mut policy) = (Scene::new(), policy(name));
        scene.boundary(Boundary::Fence);
        assert_eq!(scene.ask(&mut *policy, Kind::Block), Pattern::No);
        scene.boundary(Boundary::Flush);
        // No question between the boundary and the first symbol.
        scene.send(&mut *policy, 3);
        assert_eq!(scene.ask(&mut *policy, Kind::Block), Pattern::No, "{name}");
        scene.boundary(Boundary::Fence);
        assert!(matches!(scene.ask(&mut *policy, Kind::Block), Pattern::Repair { .. }), "{name}");
    }
}

#[test]
fn a_block_ends_with_the_peers_window() {
    let (mut scene, mut policy) = (Scene::new(), policy("rs:105/100"));
    scene.lanes[0].window = 64;
    scene.send(&mut *policy, 63);
    assert_eq!(scene.ask(&mut *policy, Kind::Block), Pattern::No);
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, Kind::Block), repair(4));
}

#[test]
fn a_resend_joins_a_block_but_begins_none() {
    for name in ["rs:105/100", "xor2d:4x4"] {
        let (mut scene, mut policy) = (Scene::new(), policy(name));
        let resend = Carried { resend: true };
        assert_eq!(policy.protect(&scene.view(), resend), None);
        scene.send(&mut *policy, 1);
        assert_eq!(policy.protect(&scene.view(), resend).map(|lane| lane.index), Some(0), "{name}");
    }
}

#[test]
fn rows_go_as_they_end_and_columns_with_the_fence() {
    let (mut scene, mut policy) = (Scene::new(), policy("xor2d:3x4"));
    assert_eq!(
        scene.send(&mut *policy, 3),
        Some(LaneConfig {
            index: 0,
            code: RepairCode::Xor2d { rows: 3, columns: 4 },
            share: LaneConfig::WHOLE
        })
    );
    assert_eq!(scene.ask(&mut *policy, Kind::Window), Pattern::No);
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, Kind::Window), repair(1));
    assert_eq!(scene.ask(&mut *policy, Kind::Window), Pattern::No);
    // A second row and a half; the fence cuts the third: that row and the second, and four columns.
    scene.send(&mut *policy, 6);
    scene.boundary(Boundary::Fence);
    assert_eq!(scene.ask(&mut *policy, Kind::Block), repair(6));
    // A full grid needs no fence: two rows as they end, then the last with the columns.
    for row in 0..3 {
        scene.send(&mut *policy, 4);
        let kind = if row == 2 { Kind::Block } else { Kind::Window };
        assert_eq!(scene.ask(&mut *policy, kind), repair(if row == 2 { 5 } else { 1 }), "row {row}");
    }
    assert_eq!(scene.ask(&mut *policy, Kind::Block), Pattern::No);
    // One symbol is repaired by one.
    scene.send(&mut *policy, 1);
    scene.boundary(Boundary::Fin);
    assert_eq!(scene.ask(&mut *policy, Kind::Block), repair(1));
}

#[test]
fn without_fences_blocks_have_the_size_of_the_ratio() {
    for (name, k, n) in
        [("rs:105/100", 100, 5), ("rs:22/20", 20, 2), ("ldpc:220/200", 200, 20), ("xor:4", 100, 4)]
    {
        let (mut scene, mut policy) = (Scene::new(), policy(name));
        for _ in 0..3 {
            scene.send(&mut *policy, k - 1);
            assert_eq!(scene.ask(&mut *policy, Kind::Block), Pattern::No, "{name}");
            scene.send(&mut *policy, 1);
            assert_eq!(scene.ask(&mut *policy, Kind::Block), Pattern::Repair { lane: 0, n }, "{name}");
        }
    }
}

/// Who promises to be silent is not asked: so it must be true, and no longer than it is.
#[test]
fn what_is_promised_to_be_quiet_is() {
    for (name, quiet) in [("rs:105/100", 100), ("rs:103/7", 7), ("fixed:20", 20), ("fixed:1", 1)] {
        let (mut scene, mut policy) = (Scene::new(), policy(name));
        let kind = if name.starts_with("rs") { Kind::Block } else { Kind::Window };
        for _ in 0..4 {
            scene.send(&mut *policy, 1);
            // As with all answers after the first symbol of a stretch.
            let mut left = quiet - 1;
            while left > 0 {
                assert_eq!(scene.ask(&mut *policy, kind), Pattern::No, "{name}, {left} to go");
                assert_eq!(policy.quiet_for(&scene.view()), left, "{name}");
                scene.send(&mut *policy, 1);
                left -= 1;
            }
            assert_ne!(scene.ask(&mut *policy, kind), Pattern::No, "{name}");
        }
    }
}

/// Of who leaves most packets alone, too: neither a symbol nor repair until then, however long the packets
/// are.
#[test]
fn who_protects_only_the_end_is_quiet_until_then() {
    let flight = |scene: &Scene| scene.cwnd + scene.cwnd / 4;
    for name in ["bulk", "adaptive", "adaptive:bulk"] {
        let (mut scene, mut policy) = (Scene { in_flight: 100_000, ..Scene::new() }, policy(name));
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
    let quiet = |name: &str, change: &dyn Fn(&mut Scene)| {
        let mut scene = Scene::new();
        change(&mut scene);
        policy(name).quiet_for(&scene.view())
    };
    let lossless = |scene: &mut Scene| scene.lose(1e-6, 1.0);
    for name in ["adaptive", "adaptive:screen", "adaptive:messages"] {
        assert_eq!(quiet(name, &lossless), u64::MAX, "{name}");
        let begun = |scene: &mut Scene| {
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

#[test]
fn a_row_ends_when_a_grid_said_it_would() {
    let (mut scene, mut policy) = (Scene::new(), policy("xor2d:4x5"));
    for _ in 0..3 {
        scene.send(&mut *policy, 1);
        for left in (1..5).rev() {
            assert_eq!(scene.ask(&mut *policy, Kind::Window), Pattern::No, "{left} to go");
            assert_eq!(policy.quiet_for(&scene.view()), left);
            scene.send(&mut *policy, 1);
        }
        assert_eq!(scene.ask(&mut *policy, Kind::Window), repair(1));
    }
}
