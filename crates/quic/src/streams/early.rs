//! Streams of early data: limits from an earlier connection, and a beginning that did not count.

use quickset_wire::{StreamId, TransportParams};

use super::flow::SendCredit;
use super::numbers::Ours;
use super::{Streams, told};

impl Streams {
    /// A client's: takes the limits that it remembers of the server. FS-4: of fenced streams nothing is
    /// remembered, so messages go in STREAM frames until the server's own parameters are there.
    pub(crate) fn set_early(&mut self, params: &TransportParams) {
        self.records.be_careful();
        self.set_limits(params);
    }

    /// Nothing that was sent has arrived or will, and no limit of the peer's holds any more. What was written
    /// waits to be sent for the first time, once [`set_peer`](Self::set_peer) tells the limits that do hold.
    pub(crate) fn rewind(&mut self) {
        self.credit = SendCredit::default();
        self.sent = 0;
        self.ours.iter_mut().for_each(|ours| ours.credit = SendCredit::default());
        let mut keys = Vec::new();
        for (key, stream) in self.slab.iter_mut() {
            if let Some(half) = &mut stream.send {
                half.rewind();
                keys.push(key);
            }
        }
        for key in keys {
            self.review(key);
        }
    }

    /// More streams were opened than the peer allows: it allowed more in an earlier connection.
    pub(crate) fn has_too_many(&self) -> bool {
        self.ours.iter().any(|ours| ours.opened() > ours.credit.limit())
    }

    /// Gives up every stream of ours, with this code, both for us and for the peer.
    pub(crate) fn reset_all(&mut self, code: u64) {
        self.ours.iter_mut().for_each(Ours::refuse);
        let ids = self.slab.iter().map(|(_, stream)| stream.id).filter(|id| id.initiator() == self.side);
        for id in ids.collect::<Vec<StreamId>>() {
            // Fails for halves that are over.
            let _ = self.reset(id, code);
            let _ = self.stop(id, code);
            let Some((_, stream)) = self.slab.by_id_mut(id) else { continue };
            // Whoever waits to write, or to read, waits in vain.
            let mut news = if stream.recv.is_some() { told::READABLE } else { 0 };
            if let Some(half) = stream.send.as_mut().filter(|half| half.stopped.is_none()) {
                half.stopped = Some(code);
                stream.events &= !told::WRITABLE;
                news |= told::STOPPED;
            }
            stream.tell(news, &mut self.events);
        }
    }

    /// The stream was among those that [`reset_all`](Self::reset_all) gave up.
    pub(crate) fn was_reset(&self, id: StreamId) -> bool {
        id.initiator() == self.side && self.ours[id.dir() as usize].was_refused(id.index())
    }

    /// Something of a stream of the peer's came as early data.
    pub(crate) fn note_early(&mut self, id: StreamId) {
        self.theirs[id.dir() as usize].note_early(id.index());
        if let Some(half) = self.slab.by_id_mut(id).and_then(|(_, stream)| stream.recv.as_mut()) {
            half.early = true;
        }
    }

    /// See [`note_early`](Self::note_early). Of a stream that is over and forgotten only a bound is known; if
    /// in doubt, it did come early.
    pub(crate) fn came_early(&self, id: StreamId) -> bool {
        let possible = id.initiator() != self.side && self.theirs[id.dir() as usize].may_be_early(id.index());
        let half = self.slab.key(id).and_then(|key| self.slab.get(key)?.recv.as_ref());
        possible && half.is_none_or(|half| half.early)
    }
}
