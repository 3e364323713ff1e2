//! What a class has of its parent, whatever happens below it: of two classes that always have something to
//! send each has its half.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

use quickset_sched::{ClassId, Priority, Tree, Weight};

/// What happens to the children of one of two classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    /// They run idle in their turn.
    Empties,
    /// They run idle at any time.
    Blinks,
    /// One of them is not incremental, and comes and goes.
    OfNoUseInParts,
    /// One of them is more urgent, and comes and goes.
    Urgent,
    /// They get other weights.
    Weights,
    /// They get other priorities.
    Priorities,
    /// They hang under another class of the same class.
    Moves,
    /// They are removed, and others are made.
    Removes,
}

const LIVES: [Life; 8] = [
    Life::Empties,
    Life::Blinks,
    Life::OfNoUseInParts,
    Life::Urgent,
    Life::Weights,
    Life::Priorities,
    Life::Moves,
    Life::Removes,
];

/// xorshift64*.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % n
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// A tree of a leaf without end beside a class with a few children, of which the first has no end.
struct Play {
    tree: Tree<usize>,
    classes: Vec<ClassId>,
    children: Vec<ClassId>,
    dice: Dice,
    life: Life,
}

impl Play {
    fn new(life: Life, deep: bool, seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut tree = Tree::new(1200, 100);
        let root = tree.root();
        let class = tree.insert_branch(root, Priority::weighted(1.0)).expect("the class is there");
        let other = tree.insert_leaf(root, Priority::weighted(1.0), usize::MAX).expect("the class is there");
        tree.set_backlogged(other, true);
        let mut classes = vec![class];
        if deep {
            classes.push(tree.insert_branch(class, Priority::weighted(1.0)).expect("the class is there"));
            classes.push(tree.insert_branch(class, Priority::weighted(2.0)).expect("the class is there"));
        }
        let children = (0..2 + dice.below(5) as usize)
            .map(|n| {
                let priority = match life {
                    Life::OfNoUseInParts if n == 1 => Priority::default(),
                    Life::Urgent if n == 1 => Priority::weighted(1.0).urgency(1),
                    _ => Priority::weighted(dice.of(&[0.1, 1.0, 3.0])),
                };
                tree.insert_leaf(classes[n % classes.len().min(2)], priority, n).expect("the class is there")
            })
            .collect::<Vec<_>>();
        tree.set_backlogged(children[0], true);
        Self { tree, classes, children, dice, life }
    }

    /// The part of the class in so many frames.
    fn share(&mut self, frames: usize) -> f64 {
        let mut sent = 0;
        for _ in 0..frames {
            let leaf = self.tree.next().expect("two always have something to send");
            self.tree.charge(leaf, 1200);
            let n = *self.tree.key(leaf).expect("a leaf");
            if n < usize::MAX {
                sent += 1;
                if n > 0 && self.dice.below(2) == 0 {
                    self.tree.set_backlogged(leaf, false);
                }
            }
            if self.dice.below(3) == 0 {
                let n = 1 + self.dice.below(self.children.len() as u64 - 1) as usize;
                self.happens(n);
            }
        }
        f64::from(sent) / frames as f64
    }

    fn happens(&mut self, n: usize) {
        let Self { tree, classes, children, dice, life } = self;
        let id = children[n];
        let priority = tree.priority(id).expect("a child");
        match life {
            Life::Empties => {}
            Life::Blinks | Life::OfNoUseInParts | Life::Urgent => {
                if n == 1 || *life == Life::Blinks {
                    tree.set_backlogged(id, !tree.is_backlogged(id));
                }
            }
            Life::Weights => {
                let weight = Weight::new(dice.of(&[0.5, 1.0, 2.0]));
                tree.set_priority(id, Priority { weight, ..priority }).expect("the class is there");
            }
            Life::Priorities => {
                let (urgency, incremental) = (dice.of(&[2, 3, 4]), dice.of(&[true, false]));
                tree.set_priority(id, Priority { urgency, incremental, ..priority })
                    .expect("the class is there");
            }
            Life::Moves => tree.move_to(id, dice.of(classes)).expect("the class is there"),
            Life::Removes => {
                tree.remove(id).expect("the class is there");
                children[n] = tree.insert_leaf(dice.of(classes), priority, n).expect("the class is there");
            }
        }
        if dice.below(2) == 0 {
            tree.set_backlogged(children[n], true);
        }
    }
}

/// The least and the greatest part of any seed.
fn shares(life: Life) -> (f64, f64) {
    let plays = (0..30).map(|seed| Play::new(life, seed % 2 == 0, seed).share(20_000));
    plays.fold((1.0, 0.0), |(least, most), share| (share.min(least), share.max(most)))
}

#[test]
fn no_class_loses_by_what_happens_below_it() {
    for life in LIVES {
        let (least, _) = shares(life);
        // Who returned in the same round waits for the next, and who is less urgent with it: what they cannot
        // use goes up.
        let at_least = if life == Life::Priorities { 0.46 } else { 0.49 };
        assert!(least > at_least, "{life:?}: {least}");
    }
}

#[test]
fn no_class_gains_by_what_happens_below_it() {
    for life in LIVES {
        let (_, most) = shares(life);
        assert!(most < 0.51, "{life:?}: {most}");
    }
}
