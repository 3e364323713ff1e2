//! What the sending halves of all streams hold together, which a peer that takes nothing does not make them
//! give back.
//!
//! Each may hold a send buffer of its own, and a peer may have a hundred of them filled at the price of a few
//! requests. So there is a limit for all; but [`LEAST`] bytes each may hold in any case, that those of which
//! nothing is taken do not keep the others from going on.

use super::send::SendHalf;
use super::{SendState, StreamSettings, Streams, told};
use crate::packet::StreamKey;

/// The sum, and who waits for it to become less.
#[derive(Debug)]
pub(super) struct StreamBytes {
    most: u64,
    /// What the budget has for them, no less than [`LEAST`].
    ration: u64,
    /// What the path takes of them soon, as of when somebody asked last.
    reach: u64,
    held: u64,
    /// Streams that were refused bytes for the sake of the others.
    crowded: Vec<StreamKey>,
}

impl StreamBytes {
    pub(super) fn new(settings: &StreamSettings) -> Self {
        // One stream alone has all of its buffer.
        let most = settings.connection_send_buffer.max(settings.send_buffer);
        Self { most, ration: u64::MAX, reach: u64::MAX, held: 0, crowded: Vec::new() }
    }

    /// Bytes that a stream which holds so many may take, as far as the others are concerned.
    #[inline]
    pub(super) fn room(&self, queued: u64) -> u64 {
        let room = self.most.saturating_sub(self.held).max(LEAST.saturating_sub(queued));
        room.min(self.ration.saturating_sub(self.held))
    }

    /// The same, of which a path that takes `reach` bytes of all streams takes all soon.
    pub(super) fn room_within(&mut self, reach: u64, queued: u64) -> u64 {
        self.reach = reach;
        let near = self.reach.saturating_sub(self.held).max(LEAST.saturating_sub(queued));
        self.room(queued).min(near)
    }

    /// The same, when it is worth to tell the application.
    #[inline]
    pub(super) fn has_room(&self, queued: u64) -> bool {
        self.room(queued) >= LEAST / 4
    }

    /// A stream that held so many bytes holds `now`.
    #[inline]
    pub(super) fn change(&mut self, held: &mut u64, now: u64) {
        self.held = self.held - *held + now;
        *held = now;
    }

    /// Somebody waits, and there is room for a while.
    #[inline]
    fn is_roomy(&self) -> bool {
        let most = self.most.min(self.ration).min(self.reach);
        !self.crowded.is_empty() && self.held <= most - most / 4
    }

    pub(super) fn held(&self) -> u64 {
        self.held
    }
}

impl super::Stream {
    /// It was refused bytes, or would be, for the sake of the others.
    pub(super) fn wait_for_room(&mut self, store: &mut StreamBytes) {
        if !std::mem::replace(&mut self.crowded, true) {
            store.crowded.push(self.key);
        }
    }
}

impl Streams {
    /// The budget has so many bytes for what is to be sent, as of now.
    pub(crate) fn ration(&mut self, bytes: u64) {
        self.store.ration = bytes;
    }

    /// A stream has more credit: who waits for that is told.
    pub(super) fn tell_credit(&mut self, key: StreamKey) {
        let Some(stream) = self.slab.get_mut(key) else { return };
        let Some(half) = &mut stream.send else { return };
        let is_open = half.messages.is_none() && half.state == SendState::Open;
        if half.refused && is_open && half.is_roomy(self.config.send_buffer) {
            if self.store.has_room(half.queued()) {
                half.refused = false;
                stream.tell(told::WRITABLE, &mut self.events);
            } else {
                stream.wait_for_room(&mut self.store);
            }
        }
    }

    /// Bytes that wait to be sent or acknowledged.
    #[inline]
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.store.held
    }

    /// Bytes held: those, what was not read yet, and the streams themselves. Of what is held of parts of
    /// messages beyond credit see [`held_in_messages`](Self::held_in_messages).
    #[inline]
    pub(crate) fn held(&self) -> u64 {
        let unread = self.limits.unread();
        self.store.held + unread + self.slab.len() as u64 * STREAM_COST
    }

    /// Whether some streams may carry messages.
    pub(crate) fn has_messages(&self) -> bool {
        self.records.offered
    }

    /// Bytes of messages that came and were not taken, whole or in part. Looks at all streams.
    pub(crate) fn held_in_messages(&self) -> u64 {
        let receivers = self.slab.iter().filter_map(|(_, stream)| stream.recv.as_ref()?.messages.as_ref());
        receivers.map(|receiver| receiver.held_bytes() as u64).sum()
    }

    /// Drops what waits, to be sent and to be read. Nothing is sent or read any more.
    pub(crate) fn let_go(&mut self) {
        for (_, stream) in self.slab.iter_mut() {
            if let Some(half) = &mut stream.send {
                half.let_go();
            }
            if let Some(half) = &mut stream.recv {
                half.abandon();
            }
            let queued = stream.send.as_ref().map_or(0, SendHalf::queued);
            self.store.change(&mut stream.held, queued);
        }
        self.limits.let_go();
    }

    /// Tells those that wait when others have made room.
    #[inline]
    pub(super) fn look_for_room(&mut self) {
        if self.store.is_roomy() {
            self.tell_room();
        }
    }

    #[cold]
    fn tell_room(&mut self) {
        for key in std::mem::take(&mut self.store.crowded) {
            let Some(stream) = self.slab.get_mut(key) else { continue };
            stream.crowded = false;
            let Some(half) = &mut stream.send else { continue };
            // Those whose own buffer is full are told when that is not.
            if half.refused && half.state == SendState::Open && half.is_roomy(self.config.send_buffer) {
                half.refused = false;
                stream.tell(told::WRITABLE, &mut self.events);
            }
        }
    }
}

/// What a stream costs that holds nothing.
pub(crate) const STREAM_COST: u64 = size_of::<super::Stream>() as u64 + 64;

/// Bytes that a stream may hold whatever the others do.
pub(super) const LEAST: u64 = 16 << 10;
