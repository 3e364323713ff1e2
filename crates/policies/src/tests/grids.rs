use quickset_quic::policy::{LaneConfig, RepairCode};

use super::*;

#[test]
fn rows_go_as_they_end_and_columns_with_the_fence() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("xor2d:3x4"));
    assert_eq!(
        scene.send(&mut *policy, 3),
        Some(LaneConfig {
            index: 0,
            code: RepairCode::Xor2d { rows: 3, columns: 4 },
            share: LaneConfig::WHOLE
        })
    );
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    scene.send(&mut *policy, 1);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No);
    // A second row and a half; the fence cuts the third: that row and the second, and four columns.
    scene.send(&mut *policy, 6);
    scene.boundary(Boundary::Fence);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), repair(6));
    // A full grid needs no fence: two rows as they end, then the last with the columns.
    for row in 0..3 {
        scene.send(&mut *policy, 4);
        let kind = if row == 2 { PlayedCode::Block } else { PlayedCode::Window };
        assert_eq!(scene.ask(&mut *policy, kind), repair(if row == 2 { 5 } else { 1 }), "row {row}");
    }
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No);
    // One symbol is repaired by one.
    scene.send(&mut *policy, 1);
    scene.boundary(Boundary::Fin);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), repair(1));
}

#[test]
fn a_row_ends_when_a_grid_said_it_would() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("xor2d:4x5"));
    for _ in 0..3 {
        scene.send(&mut *policy, 1);
        for left in (1..5).rev() {
            assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), Pattern::No, "{left} to go");
            assert_eq!(policy.quiet_for(&scene.view()), left);
            scene.send(&mut *policy, 1);
        }
        assert_eq!(scene.ask(&mut *policy, PlayedCode::Window), repair(1));
    }
}

#[test]
fn boundaries_of_an_empty_grid_are_none() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("xor2d:4x4"));
    scene.boundary(Boundary::Fence);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No);
    scene.boundary(Boundary::Flush);
    // No question between the boundary and the first symbol.
    scene.send(&mut *policy, 3);
    assert_eq!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::No);
    scene.boundary(Boundary::Fence);
    assert!(matches!(scene.ask(&mut *policy, PlayedCode::Block), Pattern::Repair { .. }));
}

#[test]
fn a_resend_joins_a_grid_but_begins_none() {
    let (mut scene, mut policy) = (CodingScene::new(), policy("xor2d:4x4"));
    let resend = Carried { resend: true };
    assert_eq!(policy.protect(&scene.view(), resend), None);
    scene.send(&mut *policy, 1);
    assert_eq!(policy.protect(&scene.view(), resend).map(|lane| lane.index), Some(0));
}
