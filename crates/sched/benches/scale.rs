//! Decisions a second: `cargo bench -p quickset-sched --bench scale`.
//!
//! A decision is `next` and `charge` of a full frame. All leaves are backlogged unless said and have equal
//! weights, so that each has a frame or two in its turn, and turns go back and forth in memory: it is the
//! most that decisions can cost.

#![expect(missing_docs, reason = "criterion's macros make public functions")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers in benchmarks are small, or cut on purpose"
)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quickset_sched::{ClassId, Deadlines, Priority, Tree};

const FRAME: u32 = 1200;
const DECISIONS: u64 = 1000;
/// A prime: a number of leaves apart in memory follow each other.
const STRIDE: u64 = 7919;

/// Leaves `depth` steps below the root, in branches of about equal size at each step.
fn tree(leaves: u32, depth: u32) -> (Tree<u64>, Vec<ClassId>) {
    let mut tree = Tree::new(FRAME, u32::MAX);
    let fan = f64::from(leaves).powf(1.0 / f64::from(depth)).ceil() as usize;
    let mut parents = vec![tree.root()];
    for _ in 1..depth {
        let mut children = Vec::new();
        for parent in parents {
            for _ in 0..fan {
                children.push(tree.insert_branch(parent, Priority::weighted(1.0)).expect("room"));
            }
        }
        parents = children;
    }
    let mut ids = Vec::new();
    for n in 0..leaves {
        let parent = parents[n as usize * parents.len() / leaves as usize];
        let leaf = tree.insert_leaf(parent, Priority::weighted(1.0), u64::from(n));
        ids.push(leaf.expect("room"));
    }
    for n in 0..u64::from(leaves) {
        tree.set_backlogged(ids[(n * STRIDE % u64::from(leaves)) as usize], true);
    }
    (tree, ids)
}

fn decide(tree: &mut Tree<u64>) {
    if let Some(leaf) = tree.next() {
        tree.charge(black_box(leaf), FRAME);
    }
}

fn backlogged(c: &mut Criterion) {
    let mut group = c.benchmark_group("decision");
    group.throughput(Throughput::Elements(DECISIONS));
    for (leaves, depth) in [
        (1, 1),
        (1, 8),
        (2, 1),
        (10, 1),
        (1000, 1),
        (1000, 2),
        (1000, 4),
        (1000, 8),
        (100_000, 1),
        (100_000, 2),
    ]
    .into_iter()
    .chain([(100_000, 4), (100_000, 8)])
    {
        let (mut tree, _) = tree(leaves, depth);
        group.bench_function(BenchmarkId::new(format!("depth {depth}"), leaves), |b| {
            b.iter(|| (0..DECISIONS).for_each(|_| decide(&mut tree)));
        });
    }
    group.finish();
}

/// Each leaf that was served is idle after its frame, and another that was idle returns.
fn coming_and_going(c: &mut Criterion) {
    let mut group = c.benchmark_group("one frame each");
    group.throughput(Throughput::Elements(DECISIONS));
    for (leaves, depth) in [(1, 1), (1000, 1), (1000, 8), (100_000, 1), (100_000, 8)] {
        let (mut tree, ids) = tree(leaves, depth);
        let mut idle = ids[0];
        tree.set_backlogged(idle, false);
        group.bench_function(BenchmarkId::new(format!("depth {depth}"), leaves), |b| {
            b.iter(|| {
                for _ in 0..DECISIONS {
                    tree.set_backlogged(idle, true);
                    if let Some(leaf) = tree.next() {
                        tree.charge(leaf, FRAME);
                        tree.set_backlogged(leaf, false);
                        idle = leaf;
                    }
                }
            });
        });
    }
    group.finish();
}

/// Somebody more urgent has a frame after every other one, with all the others in the midst of a round.
fn interrupted(c: &mut Criterion) {
    let mut group = c.benchmark_group("interrupted");
    group.throughput(Throughput::Elements(DECISIONS));
    for (leaves, depth) in [(1000, 1), (1000, 8), (100_000, 1), (100_000, 8)] {
        let (mut tree, _) = tree(leaves, depth);
        let root = tree.root();
        let urgent = tree.insert_leaf(root, Priority::weighted(1.0).urgency(0), u64::MAX).expect("room");
        group.bench_function(BenchmarkId::new(format!("depth {depth}"), leaves), |b| {
            b.iter(|| {
                for _ in 0..DECISIONS / 2 {
                    decide(&mut tree);
                    tree.set_backlogged(urgent, true);
                    decide(&mut tree);
                    tree.set_backlogged(urgent, false);
                }
            });
        });
    }
    group.finish();
}

fn deadlines(c: &mut Criterion) {
    let mut group = c.benchmark_group("deadlines");
    for held in [10_u64, 1000, 100_000] {
        let mut messages = Deadlines::new();
        for n in 0..held {
            messages.insert(n, Some(n * 7919 % held), 1000);
        }
        let mut now = held;
        group.bench_function(BenchmarkId::new("next, remove, insert", held), |b| {
            b.iter(|| {
                if let Some(id) = messages.next(0, 0, |_| true) {
                    messages.remove(black_box(id));
                    messages.insert(now, Some(now * 7919 % (2 * held)), 1000);
                    now += 1;
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, backlogged, coming_and_going, interrupted, deadlines);
criterion_main!(benches);
