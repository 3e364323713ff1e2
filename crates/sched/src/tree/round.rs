//! Rounds: who sends next, and how much.
//!
//! A round hands Q bytes down from the root. Each branch divides what it got among its active children of the
//! best urgency by weight (a *visit*), and they have their turns one after the other; what comes back from
//! those that ran idle is divided again in another visit, the surplus pass, and what nobody below can use
//! goes up, where the same happens. The round is over when the root has nothing left to give. Nothing is
//! visited but what gets something, and each visit is paid for by what it gives.

use super::Tree;
use super::arena::{ClassId, NIL, ROOT};
use crate::number::{approx, whole};

/// What comes of looking at a branch.
enum BranchStep {
    Serve(u32),
    Down(u32),
    /// It has nothing to give in this visit of its parent.
    Up,
}

impl<K> Tree<K> {
    /// The next leaf, when the one that was served has used up what it had, or something else has come
    /// between.
    pub(super) fn turn(&mut self) -> Option<ClassId> {
        if self.backlogged == 0 {
            return None;
        }
        let interrupted = core::mem::take(&mut self.interrupted);
        let mut at = if interrupted || self.at == NIL { ROOT } else { self.at };
        let mut over = false;
        self.decisions += 1;
        loop {
            match self.step(at, interrupted, over) {
                BranchStep::Serve(leaf) => {
                    (self.at, self.current) = (at, leaf);
                    return Some(self.arena.id(leaf));
                }
                BranchStep::Down(child) => (at, over) = (child, false),
                BranchStep::Up => (at, over) = (self.arena.node(at).parent, true),
            }
        }
    }

    /// A leaf that is alone: rounds follow each other, all of each for it.
    pub(super) fn again(&mut self, leaf: u32) {
        let quantum = 2.0 * self.max_frame;
        let balance = &mut self.arena.node_mut(leaf).balance;
        *balance += quantum;
        if *balance <= 0.0 {
            // Whole rounds, rounded down: it is no number below zero.
            let rounds = whole(-*balance / quantum);
            *balance += quantum * (approx(rounds) + 1.0);
        }
    }

    /// Whose turn it is at a branch; `over` when that of the child who has it has ended.
    fn step(&mut self, at: u32, interrupted: bool, mut over: bool) -> BranchStep {
        loop {
            let (branch, nodes) = self.arena.branch_and_nodes(at);
            let best = branch.best();
            let level = branch.level_mut(best);
            if level.is_open() {
                if level.current != NIL {
                    let child = level.current;
                    let node = &nodes[child as usize];
                    if node.is_leaf() && node.balance > 0.0 {
                        return BranchStep::Serve(child);
                    }
                    if !node.is_leaf() && !over {
                        return BranchStep::Down(child);
                    }
                    // The next one is the next in the ring.
                    level.current = NIL;
                    if level.head == child {
                        level.head = node.next;
                    }
                }
                if let Some(step) = self.pick(at, best) {
                    return step;
                }
            }
            if !self.open(at, best, interrupted) {
                return BranchStep::Up;
            }
            over = false;
        }
    }

    /// The next child in a visit; `None` when the visit is over.
    fn pick(&mut self, at: u32, best: usize) -> Option<BranchStep> {
        let (branch, nodes) = self.arena.branch_and_nodes(at);
        let level = branch.level_mut(best);
        let alone = level.first != NIL;
        let (child, share) = loop {
            let child = if alone { level.first } else { level.head };
            let node = &mut nodes[child as usize];
            #[cfg(test)]
            (self.visits += 1);
            // Nothing is left to give once the first of a line had it all. There is when somebody came who
            // goes before those that take turns, or somebody went before the turn came: it is divided again.
            if node.stamp == level.visit || level.left <= 0.0 {
                branch.residual += level.close();
                return None;
            }
            node.stamp = level.visit;
            // Weights may be others than when the visit began.
            let share = if alone {
                level.left
            } else if node.left == self.round {
                0.0
            } else {
                (f64::from(node.weight) * level.per_weight).min(level.left)
            };
            level.left -= share;
            if alone {
                level.per_weight = 0.0;
            }
            if share > 0.0 {
                if !node.is_leaf() {
                    break (child, share);
                }
                node.balance += share;
                if node.balance > 0.0 {
                    level.current = child;
                    return Some(BranchStep::Serve(child));
                }
            }
            if !alone {
                level.head = node.next;
            }
        };
        level.current = child;
        let branch = self.arena.branch_mut(child);
        branch.pay(share);
        Some(BranchStep::Down(child))
    }

    /// Begins a visit with what a branch has to give; `false` when that is nothing, or there is nobody to
    /// take it.
    fn open(&mut self, at: u32, best: usize, interrupted: bool) -> bool {
        let mut sum = self.arena.taking_part(at, best, self.round);
        if at == ROOT {
            if sum == 0 || self.arena.branch(at).residual < LEAST {
                self.begin_round();
                sum = self.arena.taking_part(at, best, self.round);
            }
        } else if sum == 0 {
            let residual = core::mem::take(&mut self.arena.branch_mut(at).residual);
            let parent = self.arena.node(at).parent;
            self.arena.branch_mut(parent).residual += residual;
            self.arena.make_late(at, self.round);
            return false;
        } else if self.arena.branch(at).residual < LEAST && !(interrupted && self.advance(at, best)) {
            return false;
        }
        self.visit += 1;
        let branch = self.arena.branch_mut(at);
        let residual = core::mem::take(&mut branch.residual);
        let level = branch.level_mut(best);
        level.per_weight = residual / approx(sum);
        level.left = residual;
        level.visit = self.visit;
        level.current = NIL;
        true
    }

    /// Something more urgent came while it was the branch's turn: it need not wait for the next. What the
    /// less urgent had not used yet stays theirs, so this is taken from the next share; and nobody has two
    /// such at a time.
    fn advance(&mut self, at: u32, best: usize) -> bool {
        let share = f64::from(self.arena.node(at).weight) * self.arena.level_of(at).per_weight;
        let branch = self.arena.branch_mut(at);
        if !branch.is_amid_worse(best) || branch.owed > 0.0 || share < LEAST {
            return false;
        }
        branch.owed = share;
        branch.residual += share;
        true
    }

    fn begin_round(&mut self) {
        self.round += 1;
        self.refresh_quantum();
        self.arena.branch_mut(ROOT).residual = self.quantum;
    }

    /// Q, which is only how long a round is: shares do not depend on it, latency and cost do. The leaves in
    /// it are counted as they come and go, so that a round always has a frame for each; what they count is
    /// weighed again not more often than is paid for by turns.
    fn refresh_quantum(&mut self) {
        let scheduled = self.arena.branch(ROOT).scheduled;
        if self.changed && u64::from(scheduled) <= self.decisions + FREE_VISITS {
            (self.changed, self.decisions) = (false, 0);
            self.weigh_schedule();
            let least = self.shares.iter().copied().fold(f64::INFINITY, f64::min);
            let sum: f64 = self.shares.iter().map(|share| (share / least).min(MOST_WEIGHT)).sum();
            self.worth = sum / f64::from(scheduled);
        }
        let shortest = self.max_frame * (1.0 + f64::from(scheduled) * self.worth);
        // A few leaves are in the cache, and each has its turn soon.
        let most = (f64::from(scheduled) / CACHED).min(MOST_FRAMES);
        self.quantum = shortest * most.min(self.longest_round / shortest).max(1.0);
    }

    /// Fills `shares` with the product of shares from the root, for each scheduled leaf.
    fn weigh_schedule(&mut self) {
        let Self { arena, shares, path, .. } = self;
        shares.clear();
        path.clear();
        path.push((ROOT, 1.0));
        while let Some((at, share)) = path.pop() {
            let branch = arena.branch(at);
            let level = branch.level(branch.best());
            let share = share / approx(branch.total);
            let first = if level.first == NIL { level.head } else { level.first };
            let mut child = first;
            loop {
                let node = arena.node(child);
                // A product of 64 shares is 10^-256 and more with two children each, and may be 0 with many.
                let share = (share * f64::from(node.weight)).max(f64::MIN_POSITIVE);
                if node.is_leaf() {
                    shares.push(share);
                } else {
                    path.push((child, share));
                }
                child = node.next;
                if level.first != NIL || child == first {
                    break;
                }
            }
        }
    }
}

/// Less than a byte is not worth a visit; a branch saves it up.
const LEAST: f64 = 1.0;
/// How many times the least weight a weight may count in Q.
const MOST_WEIGHT: f64 = 1000.0;
/// Leaves between which turns may change with every frame: their state is some kilobytes each, with that of
/// the application.
const CACHED: f64 = 128.0;
/// Frames of a turn at most, of leaves with the least weight; twice as many gain nothing more.
const MOST_FRAMES: f64 = 32.0;
/// Leaves for which Q is always exact.
const FREE_VISITS: u64 = 64;
