//! The tree by its definition: slow, and nothing shared with the crate but `Priority`.

#![expect(dead_code, reason = "each test takes of it what it needs")]

use quickset_sched::Priority;

#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) parent: usize,
    pub(crate) priority: Priority,
    pub(crate) leaf: bool,
    pub(crate) backlogged: bool,
    pub(crate) gone: bool,
}

/// Classes in the order of requests; the first is the root.
#[derive(Clone, Debug)]
pub(crate) struct Naive {
    pub(crate) classes: Vec<Class>,
}

impl Naive {
    pub(crate) fn new() -> Self {
        let root = Class {
            parent: usize::MAX,
            priority: Priority::default(),
            leaf: false,
            backlogged: false,
            gone: false,
        };
        Self { classes: vec![root] }
    }

    pub(crate) fn add(&mut self, parent: usize, priority: Priority, leaf: bool) -> usize {
        self.classes.push(Class { parent, priority, leaf, backlogged: false, gone: false });
        self.classes.len() - 1
    }

    pub(crate) fn children(&self, of: usize) -> Vec<usize> {
        (1..self.classes.len()).filter(|&c| !self.classes[c].gone && self.classes[c].parent == of).collect()
    }

    pub(crate) fn leaves(&self) -> Vec<usize> {
        (1..self.classes.len()).filter(|&c| !self.classes[c].gone && self.classes[c].leaf).collect()
    }

    pub(crate) fn active(&self, class: usize) -> bool {
        self.classes[class].backlogged || self.children(class).iter().any(|&c| self.active(c))
    }

    pub(crate) fn depth(&self, class: usize) -> usize {
        if class == 0 { 0 } else { 1 + self.depth(self.classes[class].parent) }
    }

    pub(crate) fn height(&self, class: usize) -> usize {
        self.children(class).iter().map(|&c| 1 + self.height(c)).max().unwrap_or(0)
    }

    pub(crate) fn is_below(&self, mut class: usize, above: usize) -> bool {
        while class != above && class != 0 {
            class = self.classes[class].parent;
        }
        class == above
    }

    fn urgency(&self, class: usize) -> u8 {
        let priority = self.classes[class].priority;
        if priority.critical { 0 } else { priority.urgency.min(7) + 1 }
    }

    /// Of some siblings: the best urgency, in the order of requests, non-incremental ones first, up to the
    /// first such.
    fn chosen(&self, siblings: &[usize]) -> Vec<usize> {
        let best = siblings.iter().map(|&c| self.urgency(c)).min();
        let (takes_turns, alone): (Vec<usize>, Vec<usize>) = siblings
            .iter()
            .filter(|&&c| Some(self.urgency(c)) == best)
            .partition(|&&c| self.classes[c].priority.incremental);
        if alone.is_empty() { takes_turns } else { vec![alone[0]] }
    }

    /// The leaves that are scheduled.
    pub(crate) fn schedule(&self) -> Vec<usize> {
        let (mut below, mut leaves) = (vec![0], Vec::new());
        while let Some(at) = below.pop() {
            if self.classes[at].leaf {
                leaves.push(at);
                continue;
            }
            let active: Vec<usize> = self.children(at).into_iter().filter(|&c| self.active(c)).collect();
            below.extend(self.chosen(&active));
        }
        leaves.sort_unstable();
        leaves
    }

    /// Whether serving a leaf takes something from a sibling of a better urgency that is backlogged, at any
    /// step.
    pub(crate) fn breaks_strictness(&self, mut class: usize) -> bool {
        while class != 0 {
            let parent = self.classes[class].parent;
            let better = |c: &usize| self.urgency(*c) < self.urgency(class) && self.active(*c);
            if self.children(parent).iter().any(better) {
                return true;
            }
            class = parent;
        }
        false
    }

    /// The product of shares from the root, idle siblings counted.
    pub(crate) fn guarantee(&self, class: usize) -> f64 {
        if class == 0 {
            return 1.0;
        }
        let parent = self.classes[class].parent;
        let sum: f64 = self.children(parent).iter().map(|&c| self.weight(c)).sum();
        self.guarantee(parent) * self.weight(class) / sum
    }

    /// Q.
    pub(crate) fn quantum(&self, max_frame: f64) -> f64 {
        self.quantum_of(&self.schedule(), max_frame)
    }

    /// Q, were these the scheduled leaves.
    pub(crate) fn quantum_of(&self, leaves: &[usize], max_frame: f64) -> f64 {
        let shares: Vec<f64> = leaves.iter().map(|&leaf| self.guarantee(leaf)).collect();
        let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
        max_frame * (1.0 + shares.iter().map(|share| (share / least).min(1000.0)).sum::<f64>())
    }

    /// What everybody gets of `capacity` when each leaf wants `demands[leaf]`: better urgencies first, those
    /// that go one after the other before those that share, and these filled like vessels, as wide as their
    /// weights.
    pub(crate) fn fluid(&self, capacity: f64, demands: &[f64]) -> Vec<f64> {
        let mut got = vec![0.0; self.classes.len()];
        self.pour(0, capacity, demands, &mut got);
        got
    }

    fn wants(&self, class: usize, demands: &[f64]) -> f64 {
        if self.classes[class].leaf {
            demands[class]
        } else {
            self.children(class).iter().map(|&c| self.wants(c, demands)).sum()
        }
    }

    fn pour(&self, class: usize, mut amount: f64, demands: &[f64], got: &mut [f64]) {
        got[class] = amount;
        let mut left: Vec<usize> =
            self.children(class).into_iter().filter(|&c| self.wants(c, demands) > 0.0).collect();
        while !left.is_empty() && amount > 0.0 {
            let group = self.chosen(&left);
            left.retain(|c| !group.contains(c));
            let level = self.water_level(&group, amount, demands);
            for child in group {
                let share = self.wants(child, demands).min(level * self.weight(child));
                amount -= share;
                self.pour(child, share, demands, got);
            }
        }
    }

    /// The height to which `amount` fills vessels, found by halving.
    fn water_level(&self, group: &[usize], amount: f64, demands: &[f64]) -> f64 {
        let poured = |level: f64| -> f64 {
            group.iter().map(|&c| self.wants(c, demands).min(level * self.weight(c))).sum()
        };
        let (mut low, mut high) = (0.0, 101.0 * amount);
        for _ in 0..200 {
            let middle = f64::midpoint(low, high);
            if poured(middle) <= amount {
                low = middle;
            } else {
                high = middle;
            }
        }
        low
    }

    fn weight(&self, class: usize) -> f64 {
        self.classes[class].priority.weight.get()
    }
}
