//! Trees for which it is known what must come out, as tables.

use quickset_sched::{ClassId, Priority, Tree};

/// A line of a tree: its name, its parent's, its priority. Whose children follow is a branch.
type Line = (&'static str, &'static str, Priority);

struct Play {
    tree: Tree<&'static str>,
    names: Vec<(&'static str, ClassId)>,
}

impl Play {
    fn new(max_frame: u32, lines: &[Line]) -> Self {
        let mut tree = Tree::new(max_frame, 100);
        let mut names = vec![("", tree.root())];
        for &(name, parent, priority) in lines {
            let parent = names.iter().find(|(known, _)| *known == parent).expect("as in the table").1;
            let id = if lines.iter().any(|line| line.1 == name) {
                tree.insert_branch(parent, priority)
            } else {
                tree.insert_leaf(parent, priority, name)
            };
            names.push((name, id.expect("as in the table")));
        }
        Self { tree, names }
    }

    fn id(&self, name: &str) -> ClassId {
        self.names.iter().find(|(known, _)| *known == name).expect("as in the table").1
    }

    fn backlogged(&mut self, names: &[&str]) {
        for name in names {
            let id = self.id(name);
            self.tree.set_backlogged(id, true);
        }
    }

    fn idle(&mut self, name: &str) {
        let id = self.id(name);
        self.tree.set_backlogged(id, false);
    }

    /// Who is served while `bytes` are sent in frames of one size; each name once, in the order of the first
    /// frame.
    fn served(&mut self, bytes: u32, frame: u32) -> Vec<&'static str> {
        let mut seen = Vec::new();
        for _ in 0..bytes / frame {
            let Some(leaf) = self.tree.next() else { break };
            let name = *self.tree.key(leaf).expect("as in the table");
            if !seen.contains(&name) {
                seen.push(name);
            }
            self.tree.charge(leaf, frame);
        }
        seen
    }
}

fn weight(weight: f64) -> Priority {
    Priority::weighted(weight)
}

fn alone(urgency: u8) -> Priority {
    Priority { urgency, ..Priority::default() }
}

/// Demands of a round, and what each gets of 10,000 bytes.
type Shares = (&'static [(&'static str, u32)], [(&'static str, f64); 4]);

const SHARES: [Shares; 3] = [
    (&[], [("X1", 2142.86), ("X2", 2857.14), ("Y", 3000.0), ("Z1", 2000.0)]),
    (&[("Y", 1000)], [("X1", 2755.10), ("X2", 3673.47), ("Y", 1000.0), ("Z1", 2571.43)]),
    (&[("X1", 500), ("Y", 1000)], [("X1", 500.0), ("X2", 5928.57), ("Y", 1000.0), ("Z1", 2571.43)]),
];

#[test]
fn shares_of_a_round() {
    // Z1 has the least share, 0.2, and the sum of the others relative to it is 5: Q = 6 frames. So that it is
    // 10,000 bytes times three with whole numbers, a frame may have 5000; frames of one byte make the tree as
    // good as a fluid.
    const ROUND: u32 = 30_000;
    let lines = [
        ("X", "", weight(5.0)),
        ("X1", "X", weight(3.0)),
        ("X2", "X", weight(4.0)),
        ("Y", "", weight(3.0)),
        ("Z", "", weight(2.0)),
        ("Z1", "Z", weight(1.0)),
    ];
    for (row, (demands, expected)) in SHARES.into_iter().enumerate() {
        let mut play = Play::new(5000, &lines);
        play.backlogged(&["X1", "X2", "Y", "Z1"]);
        for round in 0..20 {
            let mut sent = [0; 4];
            for _ in 0..ROUND {
                let leaf = play.tree.next().unwrap();
                let name = *play.tree.key(leaf).unwrap();
                let n = expected.iter().position(|(known, _)| *known == name).unwrap();
                play.tree.charge(leaf, 1);
                sent[n] += 1;
                if demands.contains(&(name, sent[n] / 3)) {
                    play.idle(name);
                }
            }
            play.backlogged(&["X1", "Y"]);
            for (n, (name, expected)) in expected.into_iter().enumerate() {
                let sent = f64::from(sent[n]) / 3.0;
                assert!(
                    (sent - expected).abs() < 2.0,
                    "row {row}, round {round}: {name} {sent}, not {expected}"
                );
            }
        }
    }
}

#[test]
fn urgencies_and_weights_by_branch() {
    // A{u3,i,w.2: A1 u1, A2 u2}, B{u3,i,w.8: B1, B2 u2,i}, C{u1}
    let mut play = Play::new(
        1000,
        &[
            ("A", "", weight(0.2)),
            ("A1", "A", alone(1)),
            ("A2", "A", alone(2)),
            ("B", "", weight(0.8)),
            ("B1", "B", weight(1.0).urgency(2)),
            ("B2", "B", weight(1.0).urgency(2)),
            ("C", "", alone(1)),
        ],
    );
    play.backlogged(&["A1", "A2", "B1", "B2", "C"]);
    assert_eq!(play.served(50_000, 1000), ["C"]);
    play.idle("C");
    let mut served = play.served(50_000, 1000);
    served.sort_unstable();
    assert_eq!(served, ["A1", "B1", "B2"]);
    play.idle("A1");
    let mut served = play.served(50_000, 1000);
    served.sort_unstable();
    assert_eq!(served, ["A2", "B1", "B2"]);
}

#[test]
fn who_is_served() {
    let taking_turns = |urgency| Priority { urgency, incremental: true, ..Priority::default() };
    let cases: [(Vec<Line>, &[&str], &[&str]); 8] = [
        // Two incremental ones at u5 and u3.
        (vec![("A", "", taking_turns(5)), ("B", "", taking_turns(3))], &["A", "B"], &["B"]),
        // Two that are not, and the same urgency: one after the other, in the order of requests.
        (vec![("A", "", alone(3)), ("B", "", alone(3))], &["B", "A"], &["A"]),
        (vec![("A", "", taking_turns(3)), ("B", "", alone(3))], &["A", "B"], &["B"]),
        // A u4 {C u0}, B u0 {D u3}: urgencies are among siblings.
        (
            vec![("A", "", alone(4)), ("C", "A", alone(0)), ("B", "", alone(0)), ("D", "B", alone(3))],
            &["C", "D"],
            &["D"],
        ),
        (
            vec![("A", "", alone(4)), ("C", "A", alone(0)), ("B", "", alone(0)), ("D", "B", alone(3))],
            &["C"],
            &["C"],
        ),
        // An urgent branch without data does not count.
        (
            vec![("A", "", alone(0)), ("B", "A", alone(0)), ("C", "A", alone(1)), ("D", "", alone(7))],
            &["D"],
            &["D"],
        ),
        (vec![("A", "", alone(200)), ("B", "", alone(7))], &["A", "B"], &["A"]),
        (vec![("A", "", alone(3))], &[], &[]),
    ];
    for (n, (lines, backlogged, expected)) in cases.into_iter().enumerate() {
        let mut play = Play::new(1000, &lines);
        play.backlogged(backlogged);
        assert_eq!(play.served(20_000, 700), expected, "case {n}");
    }
}

#[test]
fn next_changes_nothing() {
    let mut play = Play::new(1000, &[("A", "", weight(1.0)), ("B", "", weight(2.0))]);
    play.backlogged(&["A", "B"]);
    for _ in 0..50 {
        let next = play.tree.next();
        assert_eq!(play.tree.next(), next);
        play.tree.charge(next.unwrap(), 900);
    }
}
