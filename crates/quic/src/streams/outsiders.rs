//! Places among the streams for who is none: datagrams, and repair. And what the application says of places.

use quickset_sched::{ClassId, Priority};
use quickset_wire::StreamId;

use super::turns::has;
use super::{Class, ClassError, StreamTurn, Streams, UnknownStream};
use crate::packet::{Channel, StreamKey};

/// Datagrams.
impl Streams {
    /// They have something to send, or not. They join at the back, or keep their place.
    #[inline]
    pub(crate) fn set_datagrams(&mut self, waits: bool) {
        if waits && !self.turns.has_datagrams_leaf() {
            self.add_datagrams();
        }
        self.turns.set_datagrams(waits);
    }

    /// Nobody goes before them.
    #[inline]
    pub(crate) fn is_datagrams_turn(&mut self) -> bool {
        self.turns.is_datagrams(self.credit.limit() - self.sent)
    }

    /// They sent so many bytes; their turn may be over.
    #[inline]
    pub(crate) fn datagrams_sent(&mut self, bytes: usize) {
        self.turns.datagrams_sent(bytes, self.credit.limit() - self.sent);
    }

    /// What they have does not fit into this packet: others may fill it, until they are
    /// [recalled](Self::recall_datagrams).
    pub(crate) fn pass_datagrams(&mut self) {
        self.turns.pass_datagrams(true);
    }

    /// They go on with their turn.
    pub(crate) fn recall_datagrams(&mut self) {
        self.turns.pass_datagrams(false);
    }

    /// What they are among the streams beside them.
    pub(crate) fn datagram_priority(&self) -> Priority {
        self.turns.datagram_priority().unwrap_or(Priority::weighted(1.0))
    }

    /// Changes it.
    pub(crate) fn set_datagram_priority(&mut self, priority: Priority) {
        self.add_datagrams();
        self.turns.set_datagram_priority(priority);
    }

    /// The classes that they hang under.
    pub(crate) fn set_datagram_class(&mut self, path: &[Class]) -> Result<(), ClassError> {
        self.add_datagrams();
        self.turns.set_datagram_path(path)
    }

    fn add_datagrams(&mut self) {
        if !self.turns.has_datagrams_leaf() {
            let key = self.slab.reserve();
            self.turns.add_datagrams(key);
        }
    }
}

/// Repair.
impl Streams {
    /// Whether a channel has a packet of repair to send, or a symbol to repeat: it goes in the channel's
    /// turn.
    pub(crate) fn set_repair(&mut self, channel: Channel, due: bool) {
        if !self.turns.set_due(channel, due) {
            return;
        }
        match channel {
            Channel::Stream(key) => {
                let Some(stream) = self.slab.get_mut(key) else {
                    self.turns.set_due(channel, false);
                    return;
                };
                let after = if due { stream.has | has::REPAIR } else { stream.has & !has::REPAIR };
                stream.change(after, &mut self.turns);
            }
            Channel::Datagrams => {
                self.add_datagrams();
                self.turns.set_datagram_repair(due);
            }
            Channel::Connection => {
                if due && !self.turns.has_spare() {
                    let key = self.slab.reserve();
                    self.turns.add_spare(key);
                }
                let like = self.slab.get(self.recent).and_then(|stream| stream.class);
                self.turns.set_spare(due, like);
            }
        }
    }

    /// Some channel has.
    #[inline]
    pub(crate) fn awaits_repair(&self) -> bool {
        self.turns.awaits_repair()
    }

    /// This one has.
    pub(crate) fn is_repair_due(&self, channel: Channel) -> bool {
        self.turns.is_due(channel)
    }

    /// Whether somebody else has something to send, whose turn it is, that a channel's repair would not go
    /// before.
    pub(crate) fn others_wait(&self, channel: Channel, turn: Option<StreamTurn>) -> bool {
        let Some(turn) = turn.filter(|turn| turn.channel != channel) else { return false };
        let mine = match channel {
            Channel::Stream(key) => self.leaf(key),
            Channel::Connection => self.leaf(self.recent),
            Channel::Datagrams => self.turns.datagrams_leaf(),
        };
        !mine.zip(self.leaf(turn.key)).is_some_and(|(mine, theirs)| self.turns.is_more_urgent(mine, theirs))
    }

    fn leaf(&self, key: StreamKey) -> Option<ClassId> {
        let stream = self.slab.get(key).and_then(|stream| stream.class);
        stream.or_else(|| self.turns.outsider(key).map(|(_, class)| class))
    }

    /// Nothing is to be repaired now.
    #[cold]
    pub(crate) fn forget_repair(&mut self) {
        while let Some(channel) = self.turns.last_repair() {
            self.set_repair(channel, false);
        }
    }

    /// A packet of repair was sent in somebody's turn, of so many bytes.
    pub(crate) fn repair_sent(&mut self, key: StreamKey, bytes: usize) {
        if let Some(class) = self.leaf(key) {
            self.turns.sent(class, bytes, self.credit.limit() - self.sent);
        }
    }
}

/// What the application says.
impl Streams {
    /// Packets hold frames of at most so many bytes from now on.
    #[inline]
    pub(crate) fn set_max_frame(&mut self, bytes: usize) {
        self.turns.set_max_frame(bytes);
    }

    /// What a stream is among its siblings; of a stream that sends nothing, the default.
    pub(crate) fn priority(&self, id: StreamId) -> Option<Priority> {
        let stream = self.slab.get(self.slab.key(id)?)?;
        let priority = stream.class.and_then(|class| self.turns.priority(class));
        Some(priority.unwrap_or(Priority::weighted(1.0)))
    }

    /// Changes it.
    pub(crate) fn set_priority(&mut self, id: StreamId, priority: Priority) -> Result<(), UnknownStream> {
        self.change_priority(id, |_| priority)
    }

    pub(crate) fn change_priority(
        &mut self,
        id: StreamId,
        change: impl FnOnce(Priority) -> Priority,
    ) -> Result<(), UnknownStream> {
        let (key, stream) = self.slab.by_id_mut(id).ok_or(UnknownStream)?;
        if let Some(class) = stream.class {
            let before = self.turns.priority(class).unwrap_or_default();
            self.turns.set_priority(key, class, stream.has, change(before));
        }
        Ok(())
    }

    /// The classes that a stream hangs under, from the first below the connection; of a stream that sends
    /// nothing, none.
    pub(crate) fn class(&self, id: StreamId) -> Option<Vec<Class>> {
        let stream = self.slab.get(self.slab.key(id)?)?;
        Some(stream.class.map(|class| self.turns.path(class)).unwrap_or_default())
    }

    /// Hangs a stream under the last of these.
    pub(crate) fn set_class(&mut self, id: StreamId, path: &[Class]) -> Result<(), ClassError> {
        let key = self.slab.key(id).ok_or(ClassError::UnknownStream)?;
        let stream = self.slab.get(key).ok_or(ClassError::UnknownStream)?;
        stream.class.map_or(Ok(()), |class| self.turns.set_path(class, path))
    }

    /// Changes what a class is among its siblings.
    pub(crate) fn set_class_priority(&mut self, path: &[&str], priority: Priority) -> Result<(), ClassError> {
        self.turns.set_class_priority(path, priority)
    }
}
