//! A place among the streams for who is none: datagrams take their turns like a stream of their urgency.

use super::outbound::Turn;
use super::queue::Place;
use super::{Level, Streams};
use crate::token::{Channel, Key};

impl Streams {
    /// The guest has something to send. It joins at the back, or keeps its place if it is there with this level.
    #[inline]
    pub(crate) fn admit_guest(&mut self, level: Level) {
        let slab = &mut self.slab;
        let key = *self.fresh.guest.get_or_insert_with(|| slab.reserve());
        self.fresh.ready(key, Place::in_turn(level));
    }

    /// It has nothing to send.
    #[inline]
    pub(crate) fn dismiss_guest(&mut self) {
        if let Some(key) = self.fresh.guest {
            self.fresh.blocked(key);
        }
    }

    /// Nobody goes before it.
    #[inline]
    pub(crate) fn is_guests_turn(&self) -> bool {
        self.fresh.guest.is_some() && self.pick(self.credit.limit() - self.sent) == self.fresh.guest
    }

    /// It sent so many bytes; its turn may be over.
    #[inline]
    pub(crate) fn guest_sent(&mut self, bytes: usize) {
        if let Some(key) = self.fresh.guest {
            self.fresh.sent(key, bytes);
        }
    }

    /// What it has does not fit into this packet: others may fill it, until [`recall_guest`](Self::recall_guest).
    pub(crate) fn pass_guest(&mut self) {
        self.dismiss_guest();
    }

    /// It goes on with its turn, as the first of its level.
    pub(crate) fn recall_guest(&mut self, level: Level) {
        if let Some(key) = self.fresh.guest {
            self.fresh.resume(key, level);
        }
    }

    /// The turn of who is no stream.
    #[cold]
    pub(super) fn guests_turn(&self, key: Key) -> Option<Turn> {
        (self.fresh.guest == Some(key)).then_some(())?;
        Some(Turn { channel: Channel::Datagrams, key, level: self.fresh.level()?, resend: false })
    }

    /// Whose turn it is when all credit of the connection is used: what needs none.
    #[cold]
    pub(super) fn pick_spent(&self) -> Option<Key> {
        let guest = self.fresh.guest.and_then(|key| Some((key, self.fresh.level_of(key)?)));
        match (self.owed.level(), guest) {
            (Some(owed), Some((key, level))) if level < owed => Some(key),
            (Some(_), _) => self.owed.next(),
            (None, guest) => guest.map(|(key, _)| key),
        }
    }
}
