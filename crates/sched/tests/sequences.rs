//! Long random sequences of everything that can be done to a tree, beside the naive one.

mod naive;

use naive::Naive;
use proptest::prelude::*;
use proptest::sample::Index;
use quickset_sched::{ClassId, Error, MAX_DEPTH, Priority, Tree, Weight};

const MAX_CLASSES: u32 = 40;

#[derive(Clone, Debug)]
enum Op {
    Insert { parent: Index, priority: Priority, leaf: bool },
    Move { class: Index, parent: Index },
    Change { class: Index, priority: Priority },
    Remove(Index),
    Backlog { class: Index, backlogged: bool },
    Charge { class: Index, bytes: u32 },
    Send { frames: u8, bytes: u32, then_idle: bool },
}

fn priority() -> impl Strategy<Value = Priority> {
    let weight = prop_oneof![Just(f64::NAN), Just(0.0), Just(-3.0), Just(f64::INFINITY), 0.01..100.0];
    (any::<u8>().prop_map(|u| u % 10), any::<bool>(), weight).prop_map(|(urgency, incremental, weight)| {
        Priority { urgency: urgency / 3, critical: urgency == 9, incremental, weight: Weight::new(weight) }
    })
}

fn op() -> impl Strategy<Value = Op> {
    let index = any::<Index>;
    prop_oneof![
        4 => (index(), priority(), prop::bool::weighted(0.6))
            .prop_map(|(parent, priority, leaf)| Op::Insert { parent, priority, leaf }),
        1 => (index(), index()).prop_map(|(class, parent)| Op::Move { class, parent }),
        1 => (index(), priority()).prop_map(|(class, priority)| Op::Change { class, priority }),
        1 => index().prop_map(Op::Remove),
        6 => (index(), prop::bool::weighted(0.7)).prop_map(|(class, backlogged)| Op::Backlog { class, backlogged }),
        1 => (index(), any::<u32>()).prop_map(|(class, bytes)| Op::Charge { class, bytes }),
        8 => (1..20_u8, 1..3000_u32, any::<bool>())
            .prop_map(|(frames, bytes, then_idle)| Op::Send { frames, bytes, then_idle }),
    ]
}

struct Both {
    naive: Naive,
    tree: Tree<usize>,
    ids: Vec<ClassId>,
}

impl Both {
    fn new() -> Self {
        let tree = Tree::new(1200, MAX_CLASSES);
        Self { naive: Naive::new(), ids: vec![tree.root()], tree }
    }

    /// What can be said of a class beforehand.
    fn refusal(&self, class: usize) -> Option<Error> {
        match class {
            0 => Some(Error::Root),
            _ if self.naive.classes[class].gone => Some(Error::Unknown),
            _ => None,
        }
    }

    fn parent_refusal(&self, parent: usize) -> Option<Error> {
        match &self.naive.classes[parent] {
            class if class.gone => Some(Error::Unknown),
            class if class.leaf => Some(Error::Leaf),
            _ => None,
        }
    }

    fn live(&self) -> usize {
        self.naive.classes.iter().filter(|class| !class.gone).count() - 1
    }

    fn act(&mut self, op: &Op) {
        let pick = |index: &Index| index.index(self.ids.len());
        match op {
            Op::Insert { parent, priority, leaf } => self.insert(pick(parent), *priority, *leaf),
            Op::Move { class, parent } => self.move_to(pick(class), pick(parent)),
            Op::Change { class, priority } => {
                let class = pick(class);
                let expected = self.refusal(class);
                assert_eq!(self.tree.set_priority(self.ids[class], *priority).err(), expected);
                if expected.is_none() {
                    self.naive.classes[class].priority = *priority;
                }
            }
            Op::Remove(class) => self.remove(pick(class)),
            Op::Backlog { class, backlogged } => {
                let class = pick(class);
                self.tree.set_backlogged(self.ids[class], *backlogged);
                let known = &mut self.naive.classes[class];
                known.backlogged = known.leaf && !known.gone && *backlogged;
            }
            Op::Charge { class, bytes } => self.tree.charge(self.ids[pick(class)], *bytes),
            Op::Send { frames, bytes, then_idle } => self.send(*frames, *bytes, *then_idle),
        }
    }

    fn insert(&mut self, parent: usize, priority: Priority, leaf: bool) {
        let expected = self
            .parent_refusal(parent)
            .or((self.live() == MAX_CLASSES as usize).then_some(Error::Full))
            .or((self.naive.depth(parent) >= MAX_DEPTH as usize).then_some(Error::TooDeep));
        let made = if leaf {
            self.tree.insert_leaf(self.ids[parent], priority, self.ids.len())
        } else {
            self.tree.insert_branch(self.ids[parent], priority)
        };
        assert_eq!(made.err(), expected);
        if let Ok(id) = made {
            assert!(!self.ids.contains(&id), "an old id means a new class");
            self.ids.push(id);
            self.naive.add(parent, priority, leaf);
        }
    }

    fn move_to(&mut self, class: usize, parent: usize) {
        let mut expected = self.refusal(class).or(self.parent_refusal(parent));
        if expected.is_none() && self.naive.is_below(parent, class) {
            expected = Some(Error::Cycle);
        }
        let depth = |naive: &Naive| naive.depth(parent) + 1 + naive.height(class);
        if expected.is_none() && depth(&self.naive) > MAX_DEPTH as usize {
            expected = Some(Error::TooDeep);
        }
        assert_eq!(self.tree.move_to(self.ids[class], self.ids[parent]).err(), expected);
        if expected.is_none() {
            self.naive.classes[class].parent = parent;
        }
    }

    fn remove(&mut self, class: usize) {
        let removed = self.tree.remove(self.ids[class]);
        if let Some(error) = self.refusal(class) {
            assert_eq!(removed, Err(error));
            return;
        }
        assert_eq!(removed, Ok(self.naive.classes[class].leaf.then_some(class)));
        for child in self.naive.children(class) {
            self.naive.classes[child].parent = self.naive.classes[class].parent;
        }
        (self.naive.classes[class].gone, self.naive.classes[class].backlogged) = (true, false);
    }

    fn send(&mut self, frames: u8, bytes: u32, then_idle: bool) {
        let mut last = None;
        for _ in 0..frames {
            let next = self.tree.next();
            assert_eq!(self.tree.next(), next);
            assert_eq!(
                next.is_some(),
                self.naive.active(0),
                "somebody is served when somebody is backlogged"
            );
            let Some(id) = next else { return };
            for &other in &self.ids {
                // Were it more urgent, it would be its turn, had it anything to send.
                let more = self.tree.is_more_urgent(other, id);
                assert!(!more || !self.tree.is_backlogged(other));
            }
            let leaf = *self.tree.key(id).expect("a leaf");
            assert_eq!(self.ids[leaf], id);
            assert!(self.naive.classes[leaf].backlogged, "who is served is backlogged");
            assert!(!self.naive.breaks_strictness(leaf), "{leaf}: somebody is more urgent");
            self.compare_besides(leaf);
            self.tree.charge(id, bytes);
            last = Some(leaf);
        }
        if let (true, Some(leaf)) = (then_idle, last) {
            self.tree.set_backlogged(self.ids[leaf], false);
            self.naive.classes[leaf].backlogged = false;
        }
    }

    /// Without this leaf, another one of the schedule there would be then.
    fn compare_besides(&mut self, leaf: usize) {
        self.naive.classes[leaf].backlogged = false;
        let schedule = self.naive.schedule();
        let other = self.tree.next_besides(self.ids[leaf]).map(|id| *self.tree.key(id).expect("a leaf"));
        assert!(
            other.map_or(schedule.is_empty(), |other| schedule.contains(&other)),
            "{other:?} {schedule:?}"
        );
        self.naive.classes[leaf].backlogged = true;
    }

    fn compare(&self) {
        assert_eq!(self.tree.len(), self.live());
        assert_eq!(self.tree.is_empty(), self.live() == 0);
        assert_eq!(self.tree.backlogged(), self.naive.classes.iter().filter(|c| c.backlogged).count());
        for (class, known) in self.naive.classes.iter().enumerate() {
            let id = self.ids[class];
            let live = (!known.gone).then_some(known);
            assert_eq!(
                self.tree.priority(id).map(|p| (p.urgency, p.critical, p.incremental, p.weight)),
                live.map(|known| {
                    let p = known.priority;
                    (p.urgency, p.critical, p.incremental, p.weight)
                })
            );
            assert_eq!(self.tree.key(id), live.filter(|known| known.leaf).map(|_| &class));
            assert_eq!(self.tree.is_backlogged(id), live.is_some() && self.naive.active(class));
            let parent = live.filter(|_| class != 0).map(|known| self.ids[known.parent]);
            assert_eq!(self.tree.parent(id), parent);
            let children = !known.gone && !self.naive.children(class).is_empty();
            assert_eq!(self.tree.has_children(id), children);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_tree_is_what_was_done_to_it(ops in prop::collection::vec(op(), 1..250)) {
        let mut both = Both::new();
        for op in &ops {
            both.act(op);
            both.compare();
        }
        // Whoever is in the schedule now gets its turn in a while, whatever there was before.
        for leaf in both.naive.schedule() {
            prop_assume!(both.naive.guarantee(leaf) > 1e-3);
        }
        let schedule = both.naive.schedule();
        let mut waiting = schedule.clone();
        for _ in 0..200_000 {
            let Some(id) = both.tree.next() else { break };
            let leaf = *both.tree.key(id).unwrap();
            waiting.retain(|&l| l != leaf);
            both.tree.charge(id, 1200);
            if waiting.is_empty() {
                break;
            }
        }
        prop_assert!(waiting.is_empty(), "{waiting:?} of {schedule:?} never had a turn");
    }
}
