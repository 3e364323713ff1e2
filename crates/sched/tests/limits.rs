//! What is wrong, extreme or comes at a bad moment.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

use quickset_sched::{ClassId, Error, MAX_DEPTH, Priority, Tree, Weight};

fn leaves(tree: &mut Tree<u32>, weights: &[f64]) -> Vec<ClassId> {
    let root = tree.root();
    let make = |(n, &weight): (usize, &f64)| {
        let id = tree.insert_leaf(root, Priority::weighted(weight), n as u32).expect("room");
        tree.set_backlogged(id, true);
        id
    };
    weights.iter().enumerate().map(make).collect()
}

/// Bytes by leaf, of a number of frames.
fn send(tree: &mut Tree<u32>, frames: u32, bytes: u32, sent: &mut [u64]) {
    for _ in 0..frames {
        let Some(leaf) = tree.next() else { return };
        tree.charge(leaf, bytes);
        sent[*tree.key(leaf).expect("a leaf") as usize] += u64::from(bytes);
    }
}

#[test]
fn weights() {
    let cases = [
        (1.0, 1.0),
        (0.4, 0.4),
        (0.01, 0.01),
        (0.009, 0.01),
        (0.0, 0.01),
        (-0.0, 0.01),
        (-7.0, 0.01),
        (f64::MIN_POSITIVE, 0.01),
        (f64::NEG_INFINITY, 0.01),
        (100.0, 100.0),
        (100.1, 100.0),
        (f64::MAX, 100.0),
        (f64::INFINITY, 100.0),
        (f64::NAN, 1.0),
        (-f64::NAN, 1.0),
    ];
    for (given, expected) in cases {
        assert!((Weight::new(given).get() - expected).abs() < 1e-9, "{given}");
    }
}

#[test]
fn extreme_weights_share_all_the_same() {
    let mut tree = Tree::new(1000, 10);
    leaves(&mut tree, &[f64::INFINITY, f64::NAN, 0.0]);
    let mut sent = [0; 3];
    send(&mut tree, 2_000_000, 1000, &mut sent);
    for (sent, weight) in sent.into_iter().zip([100.0, 1.0, 0.01]) {
        let expected = 2e9 * weight / 101.01;
        // A round is about 2000 frames, of which 1980 are for the first.
        assert!((sent as f64 - expected).abs() < 2e6, "{weight}: {sent}, not {expected}");
    }
}

#[test]
fn nobody_starves_within_an_urgency() {
    let mut tree = Tree::new(1000, 2000);
    let mut weights = vec![1.0; 999];
    weights.push(100.0);
    leaves(&mut tree, &weights);
    let mut sent = vec![0; 1000];
    // Two rounds.
    send(&mut tree, 2 * 1100, 1000, &mut sent);
    assert!(sent.iter().all(|&bytes| bytes > 0));
}

#[test]
fn interruptions_change_no_shares() {
    let mut tree = Tree::new(1000, 100);
    leaves(&mut tree, &[1.0, 2.0, 4.0, 8.0]);
    let root = tree.root();
    let urgent = tree.insert_leaf(root, Priority::weighted(1.0).urgency(0), 4).unwrap();
    let mut sent = [0; 5];
    for _ in 0..15_000 {
        send(&mut tree, 1, 1000, &mut sent);
        tree.set_backlogged(urgent, true);
        assert_eq!(tree.next(), Some(urgent), "at once after the frame");
        send(&mut tree, 1, 1000, &mut sent);
        tree.set_backlogged(urgent, false);
    }
    assert_eq!(sent[4], 15_000_000);
    for (n, weight) in [1, 2, 4, 8].into_iter().enumerate() {
        assert!(sent[n].abs_diff(weight * 1_000_000) < 20_000, "{sent:?}");
    }
}

#[test]
fn interruptions_within_a_branch_take_nothing_from_others() {
    let mut tree = Tree::new(1000, 100);
    let root = tree.root();
    let mut make = |parent, weight, urgency, key| {
        let id = tree.insert_leaf(parent, Priority::weighted(weight).urgency(urgency), key).unwrap();
        tree.set_backlogged(id, key != 0);
        id
    };
    make(root, 1.0, 3, 1);
    let branch = tree.insert_branch(root, Priority::weighted(1.0)).unwrap();
    let mut make = |parent, weight, urgency, key| {
        let id = tree.insert_leaf(parent, Priority::weighted(weight).urgency(urgency), key).unwrap();
        tree.set_backlogged(id, key != 0);
        id
    };
    let urgent = make(branch, 1.0, 0, 0);
    make(branch, 1.0, 3, 2);
    make(branch, 3.0, 3, 3);
    let mut sent = [0; 4];
    for frame in 0..40_000 {
        tree.set_backlogged(urgent, frame % 3 == 0 || (tree.is_backlogged(urgent) && frame % 3 != 2));
        send(&mut tree, 1, 1000, &mut sent);
    }
    let all = sent.iter().sum::<u64>();
    assert!(sent[0] > 0 && sent[2] > 0 && sent[3] > 0, "{sent:?}");
    assert!(sent[1] * 100 > all * 48, "the other one has half of {all}: {sent:?}");
}

#[test]
fn an_overdraft_is_paid_back() {
    let mut tree = Tree::new(1000, 10);
    let ids = leaves(&mut tree, &[1.0, 1.0]);
    // Sixteen frames at once, not by its turn.
    tree.charge(ids[0], 16_000);
    let mut sent = [0; 2];
    send(&mut tree, 100, 1000, &mut sent);
    assert!((sent[0] + 16_000).abs_diff(sent[1]) <= 4000, "{sent:?}");
}

#[test]
fn more_than_anybody_has() {
    let mut tree = Tree::new(1000, 10);
    let ids = leaves(&mut tree, &[1.0, 1.0, 0.01]);
    for id in &ids {
        tree.charge(*id, u32::MAX);
    }
    assert!(tree.next().is_some());
    tree.set_backlogged(ids[0], false);
    tree.set_backlogged(ids[1], false);
    tree.charge(ids[2], u32::MAX);
    assert_eq!(tree.next(), Some(ids[2]), "who is alone goes on");
    tree.charge(ids[0], u32::MAX);
    tree.set_backlogged(ids[0], true);
    let mut sent = [0; 3];
    send(&mut tree, 10_000, 1000, &mut sent);
    assert!(sent[0] > 0);
}

#[test]
fn depth() {
    let mut tree = Tree::new(1000, 2000);
    let mut deepest = tree.root();
    let mut refused = 0;
    for _ in 0..1000 {
        match tree.insert_branch(deepest, Priority::default()) {
            Ok(id) => deepest = id,
            Err(error) => {
                assert_eq!(error, Error::TooDeep);
                refused += 1;
            }
        }
    }
    assert_eq!(tree.len(), MAX_DEPTH as usize);
    assert_eq!(refused, 1000 - MAX_DEPTH);
    assert_eq!(tree.insert_leaf(deepest, Priority::default(), 1), Err(Error::TooDeep));
    let above = tree.parent(deepest).unwrap();
    let leaf = tree.insert_leaf(above, Priority::default(), 1).unwrap();
    tree.set_backlogged(leaf, true);
    assert_eq!(tree.next(), Some(leaf));

    // What hangs below counts when something moves.
    let root = tree.root();
    let other = tree.insert_branch(root, Priority::default()).unwrap();
    let below = tree.insert_branch(other, Priority::default()).unwrap();
    assert_eq!(tree.move_to(other, above), Err(Error::TooDeep));
    assert_eq!(tree.move_to(below, above), Ok(()));
    assert_eq!(tree.move_to(other, above), Ok(()));
}

#[test]
fn loops_and_strangers() {
    let mut tree = Tree::new(1000, 100);
    let root = tree.root();
    let a = tree.insert_branch(root, Priority::default()).unwrap();
    let b = tree.insert_branch(a, Priority::default()).unwrap();
    let leaf = tree.insert_leaf(b, Priority::default(), 1).unwrap();
    assert_eq!(tree.move_to(a, a), Err(Error::Cycle));
    assert_eq!(tree.move_to(a, b), Err(Error::Cycle));
    assert_eq!(tree.move_to(a, leaf), Err(Error::Leaf));
    assert_eq!(tree.move_to(root, a), Err(Error::Root));
    assert_eq!(tree.remove(root), Err(Error::Root));
    assert_eq!(tree.insert_leaf(leaf, Priority::default(), 2), Err(Error::Leaf));
    tree.set_backlogged(a, true);
    assert_eq!(tree.next(), None, "a branch has nothing of its own");

    assert_eq!(tree.remove(leaf), Ok(Some(1)));
    let heir = tree.insert_leaf(b, Priority::default(), 3).unwrap();
    // The slot is the old one, the id is not.
    assert_ne!(heir, leaf);
    tree.set_backlogged(leaf, true);
    tree.charge(leaf, 1000);
    assert_eq!(tree.next(), None);
    assert_eq!(tree.remove(leaf), Err(Error::Unknown));
    assert_eq!(tree.set_priority(leaf, Priority::default()), Err(Error::Unknown));
    assert_eq!(tree.move_to(leaf, root), Err(Error::Unknown));
    assert_eq!(tree.move_to(heir, leaf), Err(Error::Unknown));
    assert_eq!(tree.insert_branch(leaf, Priority::default()), Err(Error::Unknown));
    assert_eq!((tree.key(leaf), tree.priority(leaf), tree.parent(leaf)), (None, None, None));

    // An id of a larger tree is nobody's here.
    let mut larger = Tree::new(1000, 1000);
    let strangers = leaves(&mut larger, &[1.0; 100]);
    assert_eq!(tree.remove(strangers[99]), Err(Error::Unknown));
}

#[test]
fn full() {
    let mut tree = Tree::new(1000, 2);
    let root = tree.root();
    let first = tree.insert_branch(root, Priority::default()).unwrap();
    tree.insert_leaf(first, Priority::default(), 1).unwrap();
    assert_eq!(tree.insert_leaf(root, Priority::default(), 2), Err(Error::Full));
    tree.remove(first).unwrap();
    assert!(tree.insert_leaf(root, Priority::default(), 2).is_ok());
}

#[test]
fn children_of_a_removed_branch_hang_under_its_parent() {
    let mut tree = Tree::new(1000, 100);
    let root = tree.root();
    let other = leaves(&mut tree, &[1.0])[0];
    let branch = tree.insert_branch(root, Priority::weighted(1.0)).unwrap();
    let mut children = Vec::new();
    for key in [1, 2] {
        let child = tree.insert_leaf(branch, Priority::weighted(3.0), key).unwrap();
        tree.set_backlogged(child, true);
        children.push(child);
    }
    let mut sent = [0; 3];
    send(&mut tree, 4000, 1000, &mut sent);
    assert!(sent[0].abs_diff(2_000_000) < 10_000, "{sent:?}");
    // In the midst of a round.
    assert_eq!(tree.remove(branch), Ok(None));
    assert_eq!(children.iter().map(|&id| tree.parent(id)).collect::<Vec<_>>(), [Some(root); 2]);
    let mut sent = [0; 3];
    send(&mut tree, 7000, 1000, &mut sent);
    assert!(sent[0].abs_diff(1_000_000) < 10_000, "{sent:?}");
    tree.set_backlogged(other, false);
    assert_eq!(tree.backlogged(), 2);
}

#[test]
fn removed_or_blocked_in_its_turn() {
    for removed in [true, false] {
        let mut tree = Tree::new(1000, 100);
        let mut left = leaves(&mut tree, &[1.0, 5.0, 5.0, 5.0, 0.5]);
        let mut sent = [0; 5];
        while let Some(leaf) = tree.next() {
            assert!(left.contains(&leaf));
            tree.charge(leaf, 700);
            if removed {
                tree.remove(leaf).unwrap();
            } else {
                tree.set_backlogged(leaf, false);
            }
            left.retain(|&id| id != leaf);
            send(&mut tree, 7, 1000, &mut sent);
        }
        assert!(left.is_empty());
        assert_eq!(tree.backlogged(), 0);
    }
}

#[test]
fn changes_count_from_the_next_decision_on() {
    let mut tree = Tree::new(1000, 100);
    let ids = leaves(&mut tree, &[1.0, 1.0]);
    let next = tree.next().unwrap();
    let other = if next == ids[0] { ids[1] } else { ids[0] };
    tree.set_priority(other, Priority::weighted(1.0).urgency(1)).unwrap();
    assert_eq!(tree.next(), Some(other));
    tree.set_priority(next, Priority { urgency: 1, ..Priority::default() }).unwrap();
    tree.charge(other, 100_000);
    assert_eq!(tree.next(), Some(next), "what is of no use in parts goes first");
    let mut sent = [0; 2];
    tree.set_priority(next, Priority::weighted(3.0).urgency(1)).unwrap();
    send(&mut tree, 8000, 1000, &mut sent);
    let n = *tree.key(next).unwrap() as usize;
    assert!(sent[n].abs_diff(6_000_000) < 200_000, "{sent:?}");
}

#[test]
fn a_hundred_thousand() {
    const LEAVES: u32 = 100_000;
    let mut tree = Tree::new(1000, LEAVES);
    let ids = leaves(&mut tree, &vec![1.0; LEAVES as usize]);
    let mut sent = vec![0; LEAVES as usize];
    send(&mut tree, 3 * LEAVES, 1000, &mut sent);
    assert!(sent.iter().all(|&bytes| (1000..=5000).contains(&bytes)));
    // All but two fall silent, in the midst of a round; those two share at once, by turns of a few frames.
    for &id in &ids[2..] {
        tree.set_backlogged(id, false);
    }
    send(&mut tree, LEAVES, 1000, &mut sent);
    let mut sent = vec![0; LEAVES as usize];
    send(&mut tree, 100, 1000, &mut sent);
    assert!(sent[0].abs_diff(sent[1]) < 5000, "{} {}", sent[0], sent[1]);
    for id in ids {
        assert!(tree.remove(id).is_ok());
    }
    assert!(tree.is_empty() && tree.next().is_none());
}

#[test]
fn what_nobody_in_a_branch_can_use_goes_to_its_siblings() {
    let mut tree = Tree::new(1000, 100);
    let root = tree.root();
    let branch = tree.insert_branch(root, Priority::weighted(100.0)).unwrap();
    let other = tree.insert_leaf(root, Priority::weighted(1.0), 2).unwrap();
    tree.set_backlogged(other, true);
    for key in [0, 1] {
        let id = tree.insert_leaf(branch, Priority::weighted(1.0), key).unwrap();
        tree.set_backlogged(id, true);
    }
    let (mut rounds, mut sent) = (0, [0; 3]);
    while rounds < 100 {
        let id = tree.next().unwrap();
        let n = *tree.key(id).unwrap() as usize;
        tree.charge(id, 100);
        sent[n] += 100;
        if n < 2 {
            // One message after the other: the branch never runs idle, but each waits for the next round.
            tree.set_backlogged(id, false);
            tree.set_backlogged(id, true);
            rounds += n;
        }
    }
    // The two have 50/101 each: Q is 102 frames of 1000, of which they need 200 bytes.
    assert!(sent[2] > 100 * 100_000, "{sent:?}");
}

#[test]
fn more_urgent_deep_in_the_tree_is_at_once() {
    let mut tree = Tree::new(1000, 100);
    let root = tree.root();
    tree.insert_leaf(root, Priority::weighted(90.0), 0).map(|id| tree.set_backlogged(id, true)).unwrap();
    let branch = tree.insert_branch(root, Priority::weighted(10.0)).unwrap();
    let slow = tree.insert_leaf(branch, Priority::weighted(1.0), 1).unwrap();
    let urgent = tree.insert_leaf(branch, Priority::weighted(1.0).urgency(0), 2).unwrap();
    tree.set_backlogged(slow, true);
    while tree.next() != Some(slow) {
        let leaf = tree.next().unwrap();
        tree.charge(leaf, 1000);
    }
    tree.charge(slow, 100);
    assert_eq!(tree.next(), Some(slow));
    tree.set_backlogged(urgent, true);
    assert_eq!(tree.next(), Some(urgent), "not after the others' nine tenths");
}

#[test]
fn who_comes_in_the_midst_of_a_visit_waits_for_its_end() {
    let mut tree = Tree::new(1000, 100);
    let ids = leaves(&mut tree, &[1.0, 1.0]);
    let mut sent = [0; 3];
    send(&mut tree, 1000, 1, &mut sent);
    assert_eq!(sent, [1000, 0, 0]);
    let root = tree.root();
    let third = tree.insert_leaf(root, Priority::weighted(1.0), 2).unwrap();
    tree.set_backlogged(third, true);
    send(&mut tree, 2000, 1, &mut sent);
    assert_eq!(sent, [1500, 1500, 0], "Q is three frames");
    // The next round has four for three.
    send(&mut tree, 4000, 1, &mut sent);
    assert!(ids.contains(&tree.next().unwrap()));
    assert!((1333..=1334).contains(&sent[2]), "{sent:?}");
}

#[test]
fn what_is_charged_after_the_end_is_not_given_to_others() {
    // Both orders of the two last reports leave the same to the sibling.
    let rest = |charge_first: bool| {
        let mut tree = Tree::new(1000, 100);
        let root = tree.root();
        let branch = tree.insert_branch(root, Priority::weighted(1.0)).unwrap();
        let first = tree.insert_leaf(branch, Priority::weighted(1.0), 0).unwrap();
        let second = tree.insert_leaf(branch, Priority::weighted(1.0), 1).unwrap();
        let other = tree.insert_leaf(root, Priority::weighted(1.0), 2).unwrap();
        for id in [first, second, other] {
            tree.set_backlogged(id, true);
        }
        while tree.next() != Some(first) {
            let leaf = tree.next().unwrap();
            tree.charge(leaf, 10);
        }
        if charge_first {
            tree.charge(first, 900);
        }
        tree.set_backlogged(first, false);
        if !charge_first {
            tree.charge(first, 900);
        }
        let mut sent = 0;
        while tree.next() == Some(second) {
            tree.charge(second, 10);
            sent += 10;
        }
        sent
    };
    assert_eq!(rest(true), rest(false));
}
