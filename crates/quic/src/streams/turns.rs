//! Who sends next: leaves of a tree of classes, one for each stream, one for all datagrams, and one for
//! repair of what no stream stands for any more.
//!
//! What a stream owes again and what is new are of the same turn. A leaf that has only what needs credit of
//! the connection keeps its turn while there is none, and others, who need none, go before it.

use std::collections::{BTreeMap, BTreeSet};

use quickset_base::number::within_u32;
use quickset_sched::{ClassId, MAX_DEPTH, Priority, Tree};

use crate::packet::{Channel, StreamKey};

/// A class of streams: one step of the way from the connection to a stream, or to other classes.
///
/// Classes with the same parent divide what it gets, and so do the streams that hang under them: by urgency,
/// and among those of the same urgency by weight. A class that has nothing to send takes nothing from the
/// others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name. The same name under another parent is another class.
    pub name: String,
    /// What it is among its siblings. Whoever says it last is right.
    pub priority: Priority,
}

impl Class {
    /// A class of urgency 3 with a weight (0.01 to 100) among those of its urgency, which it takes turns
    /// with.
    pub fn new(name: impl Into<String>, weight: f64) -> Self {
        Self { name: name.into(), priority: Priority::weighted(weight) }
    }

    /// The same with another urgency, 0 (most) to 7.
    #[must_use]
    pub fn urgency(self, urgency: u8) -> Self {
        Self { priority: self.priority.urgency(urgency), ..self }
    }
}

/// Why a class is not where it was to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClassError {
    /// There is no such stream.
    #[error("no such stream")]
    UnknownStream,
    /// There is no such class: nothing hangs under it.
    #[error("no such class")]
    UnknownClass,
    /// More than 63 classes, one below the other.
    #[error("too many classes one below the other; at most {} are possible", MAX_DEPTH - 1)]
    TooDeep,
    /// There are as many classes as [`max_classes`](crate::TransportConfig::max_classes) allows.
    #[error("there are as many classes as the connection may have; `max_classes` allows more")]
    TooMany,
}

/// The leaves, and what they have to send.
#[derive(Debug)]
pub(super) struct Turns {
    tree: Tree<StreamKey>,
    max_frame: usize,
    /// Streams that owe something that needs no credit of the connection.
    owed: usize,
    /// Streams with new data that their own credit lets out.
    fresh: usize,
    /// Those of which it goes along with whatever leaves.
    piggyback: usize,
    /// Leaves with something that needs no credit of the connection, in the order in which they go when there
    /// is none.
    free: BTreeSet<(u8, StreamKey)>,
    datagrams: Option<Outsider>,
    /// For repair of the connection's own channel.
    spare: Option<Outsider>,
    /// Channels that wait for a packet of repair, or to repeat a symbol.
    repairs: Vec<Channel>,
    /// Datagrams let others fill the packet.
    passed: bool,
    named: NamedClasses,
}

/// A leaf that is no stream's.
#[derive(Clone, Copy, Debug)]
struct Outsider {
    key: StreamKey,
    class: ClassId,
    has: u8,
}

/// Classes by name.
#[derive(Debug)]
struct NamedClasses {
    by_name: BTreeMap<(ClassId, String), ClassId>,
    names: BTreeMap<ClassId, String>,
    most: usize,
}

/// What a leaf has to send.
pub(super) mod has {
    /// What is owed again, or a bare end: it needs no credit of the connection.
    pub(in crate::streams) const OWED: u8 = 1;
    /// New data.
    pub(in crate::streams) const FRESH: u8 = 2;
    /// Repair, or symbols to be repeated.
    pub(in crate::streams) const REPAIR: u8 = 4;
    /// Datagrams.
    pub(in crate::streams) const DATAGRAMS: u8 = 8;
    /// New data that no packet is made for while one will leave anyway.
    pub(in crate::streams) const PIGGYBACK: u8 = 16;
    /// Data of a stream.
    pub(in crate::streams) const DATA: u8 = OWED | FRESH | PIGGYBACK;
    /// What needs no credit of the connection.
    pub(super) const FREE: u8 = OWED | REPAIR | DATAGRAMS;
}

/// Leaves.
impl Turns {
    pub(super) fn new(max_classes: usize) -> Self {
        Self {
            tree: Tree::new(within_u32(FIRST_FRAME as u64), u32::MAX),
            max_frame: FIRST_FRAME,
            owed: 0,
            fresh: 0,
            piggyback: 0,
            free: BTreeSet::new(),
            datagrams: None,
            spare: None,
            repairs: Vec::new(),
            passed: false,
            named: NamedClasses { by_name: BTreeMap::new(), names: BTreeMap::new(), most: max_classes },
        }
    }

    /// A leaf with nothing to send, of urgency 3, that takes turns.
    pub(super) fn add(&mut self, key: StreamKey) -> ClassId {
        let root = self.tree.root();
        self.tree.insert_leaf(root, Priority::weighted(1.0), key).expect("there is room below the root")
    }

    /// A stream is over, which had `has` to send.
    pub(super) fn remove(&mut self, key: StreamKey, class: ClassId, has: u8) {
        self.repairs.retain(|channel| *channel != Channel::Stream(key));
        self.change(key, class, has, 0);
        let parent = self.tree.parent(class);
        let _ = self.tree.remove(class);
        self.prune(parent);
    }

    /// What a leaf has to send becomes something else.
    #[inline]
    pub(super) fn change(&mut self, key: StreamKey, class: ClassId, before: u8, after: u8) {
        if before == after {
            return;
        }
        let count = |sum: usize, bit| sum - usize::from(before & bit != 0) + usize::from(after & bit != 0);
        self.owed = count(self.owed, has::OWED);
        self.fresh = count(self.fresh, has::FRESH);
        self.piggyback = count(self.piggyback, has::PIGGYBACK);
        if (before | after) & has::FREE != 0 {
            self.change_free(key, class, before, after);
        }
        if (before == 0) != (after == 0) {
            self.tree.set_backlogged(class, after != 0);
        }
    }

    fn change_free(&mut self, key: StreamKey, class: ClassId, before: u8, after: u8) {
        let priority = self.tree.priority(class).unwrap_or_default();
        let [before, after] = [before, after].map(|has| place_of(priority, has));
        if before == after {
            return;
        }
        if let Some(place) = before {
            self.free.remove(&(place, key));
        }
        if let Some(place) = after {
            self.free.insert((place, key));
        }
    }

    /// Changes what a leaf is among its siblings; it has `has` to send.
    pub(super) fn set_priority(&mut self, key: StreamKey, class: ClassId, has: u8, priority: Priority) {
        let Some(old) = self.tree.priority(class) else { return };
        if let Some(place) = place_of(old, has) {
            self.free.remove(&(place, key));
        }
        if let Some(place) = place_of(priority, has) {
            self.free.insert((place, key));
        }
        self.tree.set_priority(class, priority).expect("a leaf is below the root");
    }

    /// What a class is among its siblings.
    pub(super) fn priority(&self, class: ClassId) -> Option<Priority> {
        self.tree.priority(class)
    }

    /// Packets hold frames of at most so many bytes from now on.
    pub(super) fn set_max_frame(&mut self, bytes: usize) {
        if bytes != self.max_frame {
            self.max_frame = bytes;
            self.tree.set_max_frame(within_u32(bytes as u64));
        }
    }

    /// Rounds may take so many bytes.
    pub(super) fn set_longest_round(&mut self, bytes: u64) {
        self.tree.set_longest_round(bytes);
    }

    /// So many streams wait that it matters how long rounds are.
    #[inline]
    pub(super) fn has_many(&self) -> bool {
        self.tree.backlogged() > MANY
    }

    /// Whose turn it is with so much credit of the connection.
    #[inline]
    pub(super) fn next(&mut self, credit: u64) -> Option<StreamKey> {
        if credit == 0 {
            return self.next_free();
        }
        let leaf = if self.passed { self.next_besides() } else { self.tree.next() }?;
        self.tree.key(leaf).copied()
    }

    /// Whose turn it is when all credit of the connection is used: by urgency, and for the rest in no
    /// particular order.
    #[cold]
    fn next_free(&self) -> Option<StreamKey> {
        let passed = self.datagrams.filter(|_| self.passed).map(|datagrams| datagrams.key);
        self.free.iter().map(|(_, key)| *key).find(|key| Some(*key) != passed)
    }

    #[cold]
    fn next_besides(&self) -> Option<ClassId> {
        self.tree.next_besides(self.datagrams?.class)
    }

    /// Whether it is this leaf's turn while there is credit, and nobody owes anything.
    #[inline]
    pub(super) fn goes_on(&mut self, class: ClassId) -> bool {
        self.owed == 0 && !self.passed && self.tree.next() == Some(class)
    }

    /// A leaf sent so many bytes, frames with their headers, when there was so much credit of the connection.
    /// Without any, those whose shares are kept could have sent nothing: it takes nothing from them, and is
    /// not to be paid for when there is.
    #[inline]
    pub(super) fn sent(&mut self, class: ClassId, bytes: usize, credit: u64) {
        if credit > 0 {
            self.tree.charge(class, within_u32(bytes as u64));
        }
    }

    /// Whether one leaf is served before another whenever both have something.
    pub(super) fn is_more_urgent(&self, class: ClassId, than: ClassId) -> bool {
        self.tree.is_more_urgent(class, than)
    }

    /// The leaf of who is no stream.
    pub(super) fn outsider(&self, key: StreamKey) -> Option<(Channel, ClassId)> {
        let is = |outsider: &Option<Outsider>| outsider.filter(|outsider| outsider.key == key);
        let datagrams = is(&self.datagrams).map(|outsider| (Channel::Datagrams, outsider.class));
        datagrams.or_else(|| is(&self.spare).map(|outsider| (Channel::Connection, outsider.class)))
    }

    #[inline]
    pub(super) fn is_owed(&self) -> bool {
        self.owed > 0
    }

    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        self.fresh > 0
    }

    /// Something goes along with whatever leaves.
    #[inline]
    pub(super) fn has_piggyback(&self) -> bool {
        self.piggyback > 0
    }
}

/// Datagrams.
impl Turns {
    pub(super) fn has_datagrams_leaf(&self) -> bool {
        self.datagrams.is_some()
    }

    pub(super) fn datagrams_leaf(&self) -> Option<ClassId> {
        Some(self.datagrams?.class)
    }

    /// Makes their leaf.
    pub(super) fn add_datagrams(&mut self, key: StreamKey) {
        self.datagrams = Some(Outsider { key, class: self.add(key), has: 0 });
    }

    /// They have something to send, or not.
    #[inline]
    pub(super) fn set_datagrams(&mut self, waits: bool) {
        let Some(leaf) = self.datagrams else { return };
        let after = if waits { leaf.has | has::DATAGRAMS } else { leaf.has & !has::DATAGRAMS };
        self.change(leaf.key, leaf.class, leaf.has, after);
        self.datagrams = Some(Outsider { has: after, ..leaf });
    }

    /// Nobody goes before them.
    #[inline]
    pub(super) fn is_datagrams(&mut self, credit: u64) -> bool {
        let Some(leaf) = self.datagrams.filter(|leaf| leaf.has & has::DATAGRAMS != 0) else { return false };
        self.next(credit) == Some(leaf.key)
    }

    #[inline]
    pub(super) fn datagrams_sent(&mut self, bytes: usize, credit: u64) {
        if let Some(leaf) = self.datagrams {
            self.sent(leaf.class, bytes, credit);
        }
    }

    /// What they have does not fit into this packet: others may fill it.
    pub(super) fn pass_datagrams(&mut self, passed: bool) {
        self.passed = passed;
    }

    pub(super) fn datagram_priority(&self) -> Option<Priority> {
        self.tree.priority(self.datagrams?.class)
    }

    pub(super) fn set_datagram_priority(&mut self, priority: Priority) {
        if let Some(leaf) = self.datagrams {
            self.set_priority(leaf.key, leaf.class, leaf.has, priority);
        }
    }

    pub(super) fn set_datagram_path(&mut self, path: &[Class]) -> Result<(), ClassError> {
        self.datagrams.map_or(Ok(()), |leaf| self.set_path(leaf.class, path))
    }
}

/// Repair.
impl Turns {
    /// Channels wait for packets of repair.
    #[inline]
    pub(super) fn awaits_repair(&self) -> bool {
        !self.repairs.is_empty()
    }

    pub(super) fn is_due(&self, channel: Channel) -> bool {
        self.repairs.contains(&channel)
    }

    /// The last channel that waits for a packet of repair.
    pub(super) fn last_repair(&self) -> Option<Channel> {
        self.repairs.last().copied()
    }

    /// A channel waits for one, or not. False when nothing changes.
    pub(super) fn set_due(&mut self, channel: Channel, due: bool) -> bool {
        let was = self.is_due(channel);
        if due && !was {
            self.repairs.push(channel);
        } else if !due {
            self.repairs.retain(|other| *other != channel);
        }
        was != due
    }

    pub(super) fn set_datagram_repair(&mut self, due: bool) {
        if let Some(leaf) = self.datagrams {
            let after = if due { leaf.has | has::REPAIR } else { leaf.has & !has::REPAIR };
            self.change(leaf.key, leaf.class, leaf.has, after);
            self.datagrams = Some(Outsider { has: after, ..leaf });
        }
    }

    pub(super) fn has_spare(&self) -> bool {
        self.spare.is_some()
    }

    pub(super) fn add_spare(&mut self, key: StreamKey) {
        self.spare = Some(Outsider { key, class: self.add(key), has: 0 });
    }

    /// What is due goes in the turn of any stream of the connection's channel, or in one of its own: as a
    /// sibling of `like`, which sent last, if that is still there.
    pub(super) fn set_spare(&mut self, due: bool, like: Option<ClassId>) {
        let Some(leaf) = self.spare else { return };
        let after = if due { has::REPAIR } else { 0 };
        self.change(leaf.key, leaf.class, leaf.has, after);
        self.spare = Some(Outsider { has: after, ..leaf });
        if !due {
            // Else a class would last as long as the connection, and count among those that there may be.
            return self.rehang(leaf.class, self.tree.root());
        }
        let like = like.and_then(|like| Some((self.tree.parent(like)?, self.tree.priority(like)?)));
        if let Some((parent, priority)) = like {
            self.set_priority(leaf.key, leaf.class, after, priority);
            self.rehang(leaf.class, parent);
        }
    }
}

/// Classes.
impl Turns {
    /// Hangs a leaf under the last class of a path, the first of which is below the root. Those that are
    /// missing are made, and a class goes with the last that hangs under it.
    pub(super) fn set_path(&mut self, leaf: ClassId, path: &[Class]) -> Result<(), ClassError> {
        if path.len() >= MAX_DEPTH as usize {
            return Err(ClassError::TooDeep);
        }
        let (mut at, mut known) = (self.tree.root(), 0);
        for class in path {
            let Some(next) = self.named.get(at, &class.name) else { break };
            (at, known) = (next, known + 1);
        }
        if self.named.names.len() + path.len() - known > self.named.most {
            return Err(ClassError::TooMany);
        }
        let mut at = self.tree.root();
        for Class { name, priority } in path {
            at = if let Some(class) = self.named.get(at, name) {
                self.tree.set_priority(class, *priority).expect("a class is below the root");
                class
            } else {
                let class = self.tree.insert_branch(at, *priority).expect("it is not too deep");
                self.named.insert(at, name, class);
                class
            };
        }
        self.rehang(leaf, at);
        Ok(())
    }

    /// Changes what a class is among its siblings.
    pub(super) fn set_class_priority(&mut self, path: &[&str], priority: Priority) -> Result<(), ClassError> {
        let below = |at, name: &&str| self.named.get(at, name);
        let class = path.iter().try_fold(self.tree.root(), below).ok_or(ClassError::UnknownClass)?;
        self.tree.set_priority(class, priority).map_err(|_| ClassError::UnknownClass)
    }

    /// The classes above a leaf, the first of them below the root.
    pub(super) fn path(&self, leaf: ClassId) -> Vec<Class> {
        let above = std::iter::successors(self.tree.parent(leaf), |class| self.tree.parent(*class));
        let mut path: Vec<_> = above
            .filter_map(|class| {
                let name = self.named.names.get(&class)?.clone();
                Some(Class { name, priority: self.tree.priority(class)? })
            })
            .collect();
        path.reverse();
        path
    }

    fn rehang(&mut self, leaf: ClassId, parent: ClassId) {
        let before = self.tree.parent(leaf);
        if before != Some(parent) {
            self.tree.move_to(leaf, parent).expect("a leaf fits below any class");
            self.prune(before);
        }
    }

    /// Classes go that nothing hangs under any more.
    fn prune(&mut self, class: Option<ClassId>) {
        let mut at = class;
        while let Some(class) =
            at.filter(|class| *class != self.tree.root() && !self.tree.has_children(*class))
        {
            at = self.tree.parent(class);
            if let Some(parent) = at {
                self.named.remove(parent, class);
            }
            let _ = self.tree.remove(class);
        }
    }
}

/// Verification.
impl Turns {
    /// Whether what is known of a leaf is so.
    pub(super) fn check(&self, key: StreamKey, class: ClassId, has: u8) {
        assert_eq!(self.tree.key(class), Some(&key));
        assert_eq!(self.tree.is_backlogged(class), has != 0);
        let place = place_of(self.tree.priority(class).expect("a leaf"), has);
        assert!(place.is_none_or(|place| self.free.contains(&(place, key))));
    }

    /// The sums are those of all streams' leaves, and what is due is known to its leaf.
    pub(super) fn check_sums(&self, all: impl Iterator<Item = (Channel, u8)>) {
        let (mut owed, mut fresh, mut piggyback, mut free, mut repairs) = (0, 0, 0, 0, 0);
        for (channel, has) in all {
            owed += usize::from(has & has::OWED != 0);
            fresh += usize::from(has & has::FRESH != 0);
            piggyback += usize::from(has & has::PIGGYBACK != 0);
            free += usize::from(has & has::FREE != 0);
            repairs += usize::from(has & has::REPAIR != 0);
            assert!(has & has::REPAIR == 0 || self.is_due(channel));
        }
        for (channel, leaf) in [(Channel::Datagrams, self.datagrams), (Channel::Connection, self.spare)] {
            let Some(leaf) = leaf else { continue };
            self.check(leaf.key, leaf.class, leaf.has);
            free += usize::from(leaf.has != 0);
            repairs += usize::from(leaf.has & has::REPAIR != 0);
            assert!(leaf.has & has::REPAIR == 0 || self.is_due(channel));
        }
        assert_eq!((owed, fresh, piggyback, free), (self.owed, self.fresh, self.piggyback, self.free.len()));
        assert_eq!(repairs, self.repairs.len());
        assert_eq!(self.named.by_name.len(), self.named.names.len());
        assert!(self.named.names.keys().all(|class| self.tree.has_children(*class)));
    }
}

impl NamedClasses {
    fn get(&self, parent: ClassId, name: &str) -> Option<ClassId> {
        self.by_name.get(&(parent, name.to_owned())).copied()
    }

    fn insert(&mut self, parent: ClassId, name: &str, class: ClassId) {
        self.by_name.insert((parent, name.to_owned()), class);
        self.names.insert(class, name.to_owned());
    }

    fn remove(&mut self, parent: ClassId, class: ClassId) {
        if let Some(name) = self.names.remove(&class) {
            self.by_name.remove(&(parent, name));
        }
    }
}

/// Where a leaf stands among those that need no credit; `None` when it has nothing of that kind. What is owed
/// goes before what may never end.
fn place_of(priority: Priority, has: u8) -> Option<u8> {
    let kind = match has & has::FREE {
        0 => return None,
        free if free & has::OWED != 0 => 0,
        free if free & has::REPAIR != 0 => 1,
        _ => 2,
    };
    let level = if priority.critical { 0 } else { 1 + priority.urgency.min(7) };
    Some(level << 2 | kind)
}

/// More streams than this keep their turns for longer where the path is fast.
const MANY: usize = 128;
/// The largest frame, in bytes, as long as nothing else is known.
const FIRST_FRAME: usize = 1200;
