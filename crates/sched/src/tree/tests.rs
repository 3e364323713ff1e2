use proptest::prelude::*;

use super::arena::{Branch, LEVELS, UrgencyLevel};
use super::*;
use crate::Weight;

impl<K> Tree<K> {
    /// What holds whenever no verb is under way.
    fn check(&self) {
        let mut live = 0;
        let mut backlogged = 0;
        let mut below = vec![ROOT];
        while let Some(at) = below.pop() {
            live += 1;
            let node = self.arena.node(at);
            if node.is_leaf() {
                backlogged += u32::from(node.active);
                assert!(node.active || node.balance == 0.0, "an idle leaf has nothing and owes nothing");
                continue;
            }
            let branch = self.arena.branch(at);
            let mut child = branch.first_child;
            let mut weights = 0;
            let mut active = 0;
            while child != NIL {
                let node = self.arena.node(child);
                assert_eq!(node.parent, at);
                weights += u64::from(node.weight);
                active += usize::from(node.active);
                below.push(child);
                child = node.younger;
            }
            assert_eq!(branch.total, weights);
            assert!(branch.residual >= 0.0 && branch.owed >= 0.0);
            let mut linked = 0;
            for level in 0..LEVELS {
                assert_eq!(
                    branch.occupied >> level & 1 == 0,
                    branch.find_level(level).is_none_or(UrgencyLevel::is_empty)
                );
                linked += self.check_level(at, level);
            }
            assert_eq!(linked, active, "who is active is among its siblings, once");
            assert!(at == ROOT || node.active == (active > 0));
            assert_eq!(branch.scheduled as usize, self.scheduled_below(at));
        }
        assert_eq!(live, self.arena.live());
        assert_eq!(backlogged, self.backlogged);
        for leaf in [self.current].into_iter().filter(|&leaf| leaf != NIL) {
            assert!(self.arena.node(leaf).active);
        }
    }

    fn check_level(&self, at: u32, urgency: usize) -> usize {
        let Some(level) = self.arena.branch(at).find_level(urgency) else { return 0 };
        let (mut sum, mut late, mut linked) = (0, 0, 0);
        let mut current = level.current == NIL;
        let mut see = |child: u32| {
            let node = self.arena.node(child);
            assert!(node.active && node.parent == at && node.level() == urgency);
            current |= level.current == child;
            linked += 1;
            if node.incremental {
                sum += u64::from(node.weight);
                late += if node.left == self.round { u64::from(node.weight) } else { 0 };
            }
        };
        let mut child = level.head;
        while child != NIL {
            see(child);
            let next = self.arena.node(child).next;
            assert_eq!(self.arena.node(next).prev, child);
            child = if next == level.head { NIL } else { next };
        }
        let mut heap = vec![level.first];
        while let Some(child) = heap.pop() {
            if child == NIL {
                continue;
            }
            see(child);
            assert!(self.arena.node(child).number >= self.arena.node(level.first).number);
            heap.extend([self.arena.node(child).sub, self.arena.node(child).next]);
        }
        assert_eq!(level.sum, sum);
        assert_eq!(if level.late_round == self.round { level.late } else { 0 }, late);
        assert!(current && (level.is_open() || (level.current == NIL && level.left == 0.0)));
        assert!(level.left >= 0.0);
        linked
    }

    fn scheduled_below(&self, at: u32) -> usize {
        if self.arena.node(at).is_leaf() {
            return 1;
        }
        let branch: &Branch = self.arena.branch(at);
        let Some(level) = branch.best_level() else { return 0 };
        if level.first != NIL {
            return self.scheduled_below(level.first);
        }
        let (mut child, mut count) = (level.head, 0);
        loop {
            count += self.scheduled_below(child);
            child = self.arena.node(child).next;
            if child == level.head {
                return count;
            }
        }
    }
}

#[test]
fn a_leaf_is_small() {
    println!("leaf {}, branch {}", size_of::<arena::ClassNode<u64>>(), size_of::<Branch>());
    assert!(size_of::<arena::ClassNode<u64>>() <= 96);
    assert_eq!((size_of::<Branch>(), size_of::<UrgencyLevel>()), (128, 64));
    assert_eq!(size_of::<Option<ClassId>>(), 8);
}

#[test]
fn who_has_nothing_to_send_is_not_looked_at() {
    let mut tree = Tree::new(1200, 20_000);
    let root = tree.root();
    let mut sending = Vec::new();
    for n in 0..10_000_u64 {
        let branch = tree.insert_branch(root, Priority::weighted(1.0)).unwrap();
        let leaf = tree.insert_leaf(branch, Priority::weighted(1.0), n).unwrap();
        tree.set_backlogged(leaf, true);
        sending.push(leaf);
    }
    for &leaf in &sending[3..] {
        tree.set_backlogged(leaf, false);
    }
    for _ in 0..30_000 {
        let leaf = tree.next().unwrap();
        tree.charge(leaf, 1200);
    }
    // A frame needs a look at a branch and at a leaf, and some looks find debts or the end of a visit.
    assert!(tree.visits < 4 * 30_000, "{}", tree.visits);
}

#[test]
fn many_leaves_have_longer_turns_where_rounds_may_be_long_and_the_same_shares() {
    // (leaves, frames that a round may have, frames of a turn)
    let cases =
        [(100, 1 << 20, 1.0), (256, 1 << 20, 2.0), (1024, 0, 1.0), (1024, 4096, 4.0), (5000, 1 << 20, 32.0)];
    for (leaves, longest, frames) in cases {
        let mut tree = Tree::new(1000, 6000);
        tree.set_longest_round(1000 * longest);
        let root = tree.root();
        for n in 0..leaves {
            let leaf = tree.insert_leaf(root, Priority::weighted(1.0), n).unwrap();
            tree.set_backlogged(leaf, true);
        }
        let (mut sent, mut turns, mut last) = (vec![0_u32; leaves], 0, None);
        let total = leaves * 160;
        for _ in 0..total {
            let leaf = tree.next().unwrap();
            turns += u32::from(last != Some(leaf));
            last = Some(leaf);
            sent[*tree.key(leaf).unwrap()] += 1;
            tree.charge(leaf, 1000);
        }
        let each = f64::from(sent.iter().sum::<u32>()) / f64::from(turns);
        assert!(
            (each - frames).abs() < f64::max(0.1, frames / 100.0),
            "{leaves}, {longest}: {each} frames a turn"
        );
        let [least, most] = [sent.iter().min().unwrap(), sent.iter().max().unwrap()];
        assert!(f64::from(most - least) <= frames + 1.0, "{leaves}, {longest}: {least} to {most} frames");
    }
}

/// A verb: which, of which class, of which other one, and a number.
type Verb = (u8, prop::sample::Index, prop::sample::Index, u32);

proptest! {
    #[test]
    fn invariants(verbs in prop::collection::vec(any::<Verb>(), 1..300)) {
        let mut tree = Tree::new(1200, 60);
        let mut ids = vec![tree.root()];
        for (verb, class, other, number) in verbs {
            let (class, other) = (*class.get(&ids), *other.get(&ids));
            let priority = Priority {
                urgency: (number % 3) as u8,
                critical: number % 7 == 0,
                incremental: number % 5 > 1,
                weight: Weight::new(f64::from(number % 1000) / 10.0),
            };
            match verb % 16 {
                0 | 1 => ids.extend(tree.insert_branch(class, priority)),
                2 | 3 => ids.extend(tree.insert_leaf(class, priority, number)),
                4 => drop(tree.move_to(class, other)),
                5 => drop(tree.set_priority(class, priority)),
                6 if number % 3 == 0 => drop(tree.remove(class)),
                7 => tree.charge(class, number),
                8 | 9 => tree.set_backlogged(class, false),
                10 => {
                    // Served until it is empty, as a sender would.
                    if let Some(leaf) = tree.next() {
                        tree.charge(leaf, number % 1500);
                        tree.set_backlogged(leaf, false);
                    }
                }
                11 | 12 => tree.set_backlogged(class, true),
                _ => {
                    for _ in 0..number % 10 {
                        let leaf = tree.next();
                        prop_assert_eq!(leaf.is_some(), tree.backlogged() > 0);
                        if let Some(leaf) = leaf {
                            tree.charge(leaf, number % 1500);
                        }
                    }
                }
            }
            tree.check();
            // Besides somebody else is who would come next if that one were idle.
            if let Some(leaf) = tree.next() {
                let other = tree.next_besides(leaf);
                prop_assert_eq!(other.is_some(), tree.backlogged() > 1);
                prop_assert!(other != Some(leaf) && other.is_none_or(|other| tree.is_backlogged(other)));
            }
        }
    }
}
