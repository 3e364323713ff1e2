//! What the sending halves of all streams hold together, which a peer that takes nothing does not make them give back.
//!
//! Each may hold a send buffer of its own, and a peer may have a hundred of them filled at the price of a few requests. So
//! there is a limit for all; but [`LEAST`] bytes each may hold in any case, that those of which nothing is taken do not
//! keep the others from going on.

use super::{SendState, Streams, told};
use crate::config::TransportConfig;
use crate::token::Key;

/// The sum, and who waits for it to become less.
#[derive(Debug)]
pub(super) struct Store {
    most: u64,
    held: u64,
    /// Streams that were refused bytes for the sake of the others.
    crowded: Vec<Key>,
}

impl Store {
    pub(super) fn new(config: &TransportConfig) -> Self {
        // One stream alone has all of its buffer.
        let most = config.connection_send_buffer.max(config.send_buffer);
        Self { most, held: 0, crowded: Vec::new() }
    }

    /// Bytes that a stream which holds so many may take, as far as the others are concerned.
    #[inline]
    pub(super) fn room(&self, queued: u64) -> u64 {
        self.most.saturating_sub(self.held).max(LEAST.saturating_sub(queued))
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
        !self.crowded.is_empty() && self.held <= self.most - self.most / 4
    }

    pub(super) fn held(&self) -> u64 {
        self.held
    }
}

impl super::Stream {
    /// It was refused bytes, or would be, for the sake of the others.
    pub(super) fn wait_for_room(&mut self, store: &mut Store) {
        if !std::mem::replace(&mut self.crowded, true) {
            store.crowded.push(self.key);
        }
    }
}

impl Streams {
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
            let own = self.config.send_buffer.saturating_sub(half.queued());
            if half.refused && half.state == SendState::Open && own >= self.config.send_buffer / 4 {
                half.refused = false;
                stream.tell(told::WRITABLE, &mut self.events);
            }
        }
    }
}

/// Bytes that a stream may hold whatever the others do.
pub(super) const LEAST: u64 = 16 << 10;
