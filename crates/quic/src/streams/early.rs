//! Streams of early data: limits from an earlier connection, and a beginning that did not count.

use quickset_wire::{StreamId, TransportParams};

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
        self.limits.rewind();
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

    /// Gives up every stream of ours, with this code, both for us and for the peer.
    pub(crate) fn reset_all(&mut self, code: u64) {
        self.limits.give_up_ours();
        let ids = self.slab.iter().map(|(_, stream)| stream.id).filter(|id| id.initiator() == self.side);
        for id in ids.collect::<Vec<StreamId>>() {
            // Fails for halves that are over.
            let _ = self.sending(id).reset(code);
            let _ = self.receiving(id).stop(code);
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
}
