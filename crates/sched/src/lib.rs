//! Who sends next: hierarchical max-min fair scheduling with strict urgencies, over opaque keys. The crate
//! knows no network and depends on nothing; it is `no_std` and needs an allocator.
//!
//! *Classes* hang in a tree. A *leaf* is somebody who sends: it says whether it has something to send, and is
//! told when it is its turn. A *branch* is a group of classes. Each class has a [`Priority`] among its
//! siblings: the most urgent that have something to send have all of what their parent gets, and divide it by
//! weight, frame by frame as if it were a fluid. What one of them does not use goes to its siblings, and only
//! what none of them can use to those of its parent.
//!
//! ```
//! use quickset_sched::{Priority, Tree};
//!
//! let mut tree = Tree::new(1200, 1000);
//! let root = tree.root();
//! let video = tree.insert_branch(root, Priority::weighted(3.0))?;
//! let left = tree.insert_leaf(video, Priority::weighted(1.0), "left")?;
//! let right = tree.insert_leaf(video, Priority::weighted(1.0), "right")?;
//! let files = tree.insert_leaf(root, Priority::weighted(1.0), "files")?;
//! let keys = tree.insert_leaf(root, Priority::weighted(1.0).urgency(0), "keys")?;
//! for leaf in [left, right, files] {
//!     tree.set_backlogged(leaf, true);
//! }
//!
//! let mut sent = std::collections::BTreeMap::new();
//! for _ in 0..8000 {
//!     let leaf = tree.next().expect("somebody has something to send");
//!     *sent.entry(*tree.key(leaf).expect("a leaf")).or_insert(0) += 1;
//!     tree.charge(leaf, 1200);
//! }
//! let part = |name| (sent[name] as f64 / 1000.0_f64).round();
//! assert_eq!((part("left"), part("right"), part("files")), (3.0, 3.0, 2.0));
//!
//! tree.set_backlogged(keys, true);
//! assert_eq!(tree.next(), Some(keys));
//! # Ok::<_, quickset_sched::Error>(())
//! ```
//!
//! | term | meaning |
//! |---|---|
//! | backlogged | has something that may be sent now; who is blocked by flow control is not |
//! | active | a backlogged leaf, or a branch above one |
//! | scheduled | who is served as long as nothing changes: from the root down the active children of the best urgency; of these the first that is not incremental, if there is one, else all |
//! | balance | what a leaf may still send in this round; below zero it is a debt, which it has as long as it is backlogged, and its class when it runs idle; the root owes nothing |
//! | round | Q bytes, divided from the root down: at each branch by weight among those that take part |
//! | Q | the largest frame · (1 + the sum of wi/wmin over scheduled leaves, none more than 1000), wi the product of shares from the root: the least gets a frame or so each round; up to 32 times as much where many are scheduled and rounds may be longer ([`Tree::set_longest_round`]) |
//! | visit | a branch's part of a round: what each unit of weight gets (fq) is fixed for it |
//! | residual | what a branch has back from children that ran idle (R); divided in another visit when the first is over, and handed up when nobody below can use it. What nobody at all can use lapses |
//!
//! Who runs idle and returns in the same round waits for the next, unless nobody of its urgency is left in
//! it, or it is a leaf that goes before all of them. Something more urgent goes first after the current
//! frame. The visits of those that it interrupts are not over, they go on afterwards: shares are the same
//! with interruptions and without, and nobody is passed over. Deep in the tree the more urgent one gets at
//! most one share of its parent in advance, which is paid back out of the next ones, so that the parent's
//! siblings lose nothing by it.
//!
//! While the schedule stays as it is, no leaf is more than Q and a frame behind its share, or before it.
//!
//! [`Deadlines`] orders the messages of one leaf: the closest deadline that can still be met goes first.
//!
//! # Speed
//!
//! One core of a shared virtual machine, `cargo bench -p quickset-sched`; millions of decisions a second,
//! each of them `next` and `charge` of a full frame.
//!
//! | leaves | depth 1 | 2 | 4 | 8 |
//! |---|---|---|---|---|
//! | 1000 | 59 | 57 | 43 | 12 |
//! | 100,000 | 15 | 10 | 20 | 9 |
//!
//! Weights are equal, so that each turn is a frame or two; with unequal ones turns are longer and decisions
//! cheaper. A leaf that is alone costs 6 ns a frame.
//!
//! A leaf with a key of 8 bytes takes 88 bytes, and 8 more for computing Q; a branch takes 88 and 128 more,
//! and 64 for each urgency beyond the first that its children have had.
//!
//! # Sources
//!
//! The rounds are those of HLS (Luangsomboon and Liebeherr, arXiv 2108.09864: *A Round-Robin Packet Scheduler
//! for Hierarchical Max-Min Fairness*, 2021), with priorities as in the paper of TU Munich at IFIP Networking
//! 2025, Table I. Urgency and `incremental` are those of RFC 9218 §4. Deadlines are Algorithm 3 of FlEC
//! (IEEE/ACM Transactions on Networking, 2022).

#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

extern crate alloc;

mod deadlines;
mod number;
mod priority;
mod tree;

pub use deadlines::{Deadlines, DueMessage, MessageId};
pub use priority::{Priority, Weight};
pub use tree::{ClassId, Error, MAX_DEPTH, Tree};
