//! Places among the streams for who is none: datagrams, and repair.

use quickset_sched::{ClassId, Priority};

use super::turns::has;
use super::{Class, ClassError, StreamTurn, Streams};
use crate::packet::{Channel, StreamKey};

/// The place of datagrams.
#[derive(Debug)]
pub(crate) struct DatagramTurns<'a> {
    streams: &'a mut Streams,
}

/// The places of repair, one for each channel that has some to send.
#[derive(Debug)]
pub(crate) struct RepairTurns<'a> {
    streams: &'a mut Streams,
}

impl Streams {
    /// The place of datagrams among the streams.
    #[inline]
    pub(crate) fn datagrams(&mut self) -> DatagramTurns<'_> {
        DatagramTurns { streams: self }
    }

    /// The places of repair among the streams.
    #[inline]
    pub(crate) fn repair(&mut self) -> RepairTurns<'_> {
        RepairTurns { streams: self }
    }

    /// What datagrams are among the streams beside them.
    pub(crate) fn datagram_priority(&self) -> Priority {
        self.turns.datagram_priority().unwrap_or(Priority::weighted(1.0))
    }
    /// Some channel has repair to send.
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
}

impl DatagramTurns<'_> {
    /// They have something to send, or not. They join at the back, or keep their place.
    #[inline]
    pub(crate) fn set_waiting(&mut self, waits: bool) {
        if waits && !self.streams.turns.has_datagrams_leaf() {
            self.join();
        }
        self.streams.turns.set_datagrams(waits);
    }

    /// Nobody goes before them.
    #[inline]
    pub(crate) fn is_next(&mut self) -> bool {
        self.streams.turns.is_datagrams(self.streams.limits.free())
    }

    /// They sent so many bytes; their turn may be over.
    #[inline]
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.streams.turns.datagrams_sent(bytes, self.streams.limits.free());
    }

    /// What they have does not fit into this packet: others may fill it, until they are
    /// [recalled](Self::recall).
    pub(crate) fn pass(&mut self) {
        self.streams.turns.pass_datagrams(true);
    }

    /// They go on with their turn.
    pub(crate) fn recall(&mut self) {
        self.streams.turns.pass_datagrams(false);
    }

    /// Changes what they are among the streams beside them.
    pub(crate) fn set_priority(&mut self, priority: Priority) {
        self.join();
        self.streams.turns.set_datagram_priority(priority);
    }

    /// The classes that they hang under.
    pub(crate) fn set_class(&mut self, path: &[Class]) -> Result<(), ClassError> {
        self.join();
        self.streams.turns.set_datagram_path(path)
    }

    fn join(&mut self) {
        if !self.streams.turns.has_datagrams_leaf() {
            let key = self.streams.slab.reserve();
            self.streams.turns.add_datagrams(key);
        }
    }
}

impl RepairTurns<'_> {
    /// Whether a channel has a packet of repair to send, or a symbol to repeat: it goes in the channel's
    /// turn.
    pub(crate) fn set_due(&mut self, channel: Channel, due: bool) {
        if !self.streams.turns.set_due(channel, due) {
            return;
        }
        match channel {
            Channel::Stream(key) => {
                let Some(stream) = self.streams.slab.get_mut(key) else {
                    self.streams.turns.set_due(channel, false);
                    return;
                };
                let after = if due { stream.has | has::REPAIR } else { stream.has & !has::REPAIR };
                stream.change(after, &mut self.streams.turns);
            }
            Channel::Datagrams => {
                self.streams.datagrams().join();
                self.streams.turns.set_datagram_repair(due);
            }
            Channel::Connection => {
                if due && !self.streams.turns.has_spare() {
                    let key = self.streams.slab.reserve();
                    self.streams.turns.add_spare(key);
                }
                let like = self.streams.slab.get(self.streams.recent).and_then(|stream| stream.class);
                self.streams.turns.set_spare(due, like);
            }
        }
    }

    /// Nothing is to be repaired now.
    #[cold]
    pub(crate) fn forget(&mut self) {
        while let Some(channel) = self.streams.turns.last_repair() {
            self.set_due(channel, false);
        }
    }

    /// A packet of repair was sent in somebody's turn, of so many bytes.
    pub(crate) fn sent(&mut self, key: StreamKey, bytes: usize) {
        if let Some(class) = self.streams.leaf(key) {
            self.streams.turns.sent(class, bytes, self.streams.limits.free());
        }
    }
}
