//! Shares against a solver that knows only the definition.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

mod naive;

use naive::Naive;
use proptest::prelude::*;
use quickset_sched::{ClassId, Priority, Tree, Weight};

const MAX_FRAME: u32 = 1000;

/// A class to be: whose child (a number among the branches so far), its priority, whether it is a leaf.
type Plan = (prop::sample::Index, Priority, bool);

/// Any weights, or such that rounds are short.
fn priority(urgencies: u8, extremes: bool) -> impl Strategy<Value = Priority> {
    let weight = if extremes {
        prop_oneof![Just(1.0), 0.1..10.0, Just(0.01), Just(100.0)].boxed()
    } else {
        (0.5..3.0).boxed()
    };
    (0..urgencies, prop::bool::weighted(0.8), weight).prop_map(|(urgency, incremental, weight)| Priority {
        urgency,
        critical: false,
        incremental,
        weight: Weight::new(weight),
    })
}

fn plans(urgencies: u8, extremes: bool) -> impl Strategy<Value = Vec<Plan>> {
    prop::collection::vec((any::<prop::sample::Index>(), priority(urgencies, extremes), any::<bool>()), 1..24)
}

struct Pair {
    naive: Naive,
    tree: Tree<usize>,
    ids: Vec<ClassId>,
}

impl Pair {
    fn new(plans: &[Plan]) -> Self {
        let mut naive = Naive::new();
        let mut tree = Tree::new(MAX_FRAME, 1000);
        let mut ids = vec![tree.root()];
        let mut branches = vec![0];
        for (parent, priority, leaf) in plans {
            let parent = *parent.get(&branches);
            let class = naive.add(parent, *priority, *leaf);
            let id = if *leaf {
                tree.insert_leaf(ids[parent], *priority, class)
            } else {
                branches.push(class);
                tree.insert_branch(ids[parent], *priority)
            };
            ids.push(id.expect("room"));
        }
        Self { naive, tree, ids }
    }

    fn set_backlogged(&mut self, leaf: usize, backlogged: bool) {
        self.naive.classes[leaf].backlogged = backlogged;
        self.tree.set_backlogged(self.ids[leaf], backlogged);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// All that are backlogged stay so: at no time has anybody got less or more than its share by more than a
    /// round.
    #[test]
    fn shares_of_the_backlogged(plans in plans(2, true), idle in any::<u64>(), frames in prop::collection::vec(1..=MAX_FRAME, 1..9)) {
        let mut pair = Pair::new(&plans);
        for leaf in pair.naive.leaves() {
            pair.set_backlogged(leaf, idle >> leaf & 1 == 0);
        }
        let schedule = pair.naive.schedule();
        prop_assume!(!schedule.is_empty());
        let quantum = pair.naive.quantum(f64::from(MAX_FRAME));
        let demands: Vec<f64> =
            pair.naive.classes.iter().map(|c| if c.backlogged { f64::INFINITY } else { 0.0 }).collect();
        let shares = pair.naive.fluid(1.0, &demands);
        let mut sent = vec![0.0; shares.len()];
        let mut all = 0.0;
        let mut frames = frames.iter().cycle();
        for _ in 0..3000 {
            let id = pair.tree.next().unwrap();
            let leaf = *pair.tree.key(id).unwrap();
            prop_assert!(schedule.contains(&leaf), "{leaf} is not of {schedule:?}");
            let bytes = *frames.next().unwrap();
            pair.tree.charge(id, bytes);
            sent[leaf] += f64::from(bytes);
            all += f64::from(bytes);
            let off = sent[leaf] - shares[leaf] * all;
            prop_assert!(off <= quantum + f64::from(MAX_FRAME), "{leaf} is {off} ahead, Q {quantum}");
        }
        for leaf in schedule {
            let off = sent[leaf] - shares[leaf] * all;
            prop_assert!(off.abs() <= quantum + f64::from(MAX_FRAME), "{leaf} is {off} off, Q {quantum}");
        }
    }

    /// Leaves that want a certain amount in each period get what max-min fairness gives them.
    #[test]
    fn shares_of_demands(plans in plans(3, false), wants in prop::collection::vec(prop::option::weighted(0.7, 0.0_f64..0.5), 24)) {
        const PERIODS: u32 = 6;
        let mut pair = Pair::new(&plans);
        let leaves = pair.naive.leaves();
        prop_assume!(!leaves.is_empty());
        for &leaf in &leaves {
            pair.naive.classes[leaf].backlogged = true;
        }
        let frame = MAX_FRAME;
        // A period has many rounds.
        let period = (60.0 * pair.naive.quantum_of(&leaves, f64::from(MAX_FRAME))) as u32 / frame * frame;
        prop_assume!(period / frame < 20_000);
        let demands: Vec<f64> = (0..pair.naive.classes.len())
            .map(|c| match wants.get(c).copied().flatten() {
                Some(part) => (f64::from(period) * part / f64::from(frame)).round() * f64::from(frame),
                None => f64::INFINITY,
            })
            .collect();
        let expected = pair.naive.fluid(f64::from(period), &demands);
        let mut queued = vec![0.0; demands.len()];
        let mut sent = vec![0.0; demands.len()];
        for _ in 0..PERIODS {
            for &leaf in &leaves {
                queued[leaf] += demands[leaf];
                pair.set_backlogged(leaf, queued[leaf] > 0.0);
            }
            for _ in 0..period / frame {
                let Some(id) = pair.tree.next() else { break };
                let leaf = *pair.tree.key(id).unwrap();
                pair.tree.charge(id, frame);
                sent[leaf] += f64::from(frame);
                queued[leaf] -= f64::from(frame);
                pair.set_backlogged(leaf, queued[leaf] > 0.0);
            }
        }
        let scale = f64::from(PERIODS) * f64::from(period);
        for leaf in leaves {
            let expected = f64::from(PERIODS) * expected[leaf];
            let off = (sent[leaf] - expected) / scale;
            prop_assert!(off.abs() < 0.03, "{leaf} got {}, not {expected}, of {scale}", sent[leaf]);
        }
    }
}
