use std::collections::VecDeque;

use bytes::Bytes;
use quickset_quic::{StreamId, WriteError};

use crate::Transport;

/// The sending half of a stream, with what the transport had no room for.
#[derive(Debug, Default)]
pub(super) struct StreamOutlet {
    /// The first that is queued; empty without. A short message is one piece, for which no list is made.
    front: Bytes,
    behind: VecDeque<Bytes>,
    bytes: usize,
    /// Somebody waits for what is queued.
    marked: bool,
    /// The end follows what is queued.
    finish: bool,
    /// Nothing can be sent any more: finished, reset, or stopped.
    over: bool,
    /// More is queued at once: nothing is handed on before.
    corked: bool,
    /// Somebody waits for room.
    pub(super) refused: bool,
}

impl StreamOutlet {
    /// Queues bytes.
    pub(super) fn push(&mut self, bytes: impl Into<Bytes>) {
        let bytes = bytes.into();
        if !bytes.is_empty() && !self.over {
            self.bytes += bytes.len();
            if self.front.is_empty() {
                self.front = bytes;
            } else {
                self.behind.push_back(bytes);
            }
        }
    }

    /// Bytes queued.
    pub(super) fn queued(&self) -> usize {
        self.bytes
    }

    /// Tells the transport, once it has what is queued, that somebody waits for it.
    pub(super) fn mark(&mut self) {
        self.marked = true;
    }

    /// Ends the half behind what is queued.
    pub(super) fn finish(&mut self) {
        self.finish = true;
    }

    /// Whether the half is over, or will be without our doing.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether the end was asked for.
    pub(super) fn is_finishing(&self) -> bool {
        self.finish || self.over
    }

    /// Nothing can be sent any more.
    pub(super) fn end(&mut self) {
        self.over = true;
        self.front = Bytes::new();
        self.behind.clear();
        self.bytes = 0;
    }

    /// Keeps what is queued from here on, as other verbs add to it.
    pub(super) fn cork(&mut self) {
        self.corked = true;
    }

    /// Hands on what was kept, in one piece where it is small: each write costs more than to copy that.
    pub(super) fn uncork(&mut self, t: &mut dyn Transport, id: StreamId) {
        self.corked = false;
        if !self.behind.is_empty() && self.bytes <= SMALL {
            let mut joined = Vec::with_capacity(self.bytes);
            joined.extend_from_slice(&self.front);
            self.behind.drain(..).for_each(|piece| joined.extend_from_slice(&piece));
            self.front = joined.into();
        }
        self.flush(t, id);
    }

    /// Hands on what there is room for. False when something is left.
    pub(super) fn flush(&mut self, t: &mut dyn Transport, id: StreamId) -> bool {
        if self.corked {
            return true;
        }
        while !self.front.is_empty() {
            match t.write(id, &mut self.front) {
                Ok(n) => {
                    self.bytes -= n;
                    if self.front.is_empty() {
                        self.front = self.behind.pop_front().unwrap_or_default();
                    }
                }
                Err(WriteError::Blocked) => return false,
                // Stopped: the event tells.
                Err(_) => self.end(),
            }
        }
        if core::mem::take(&mut self.marked) && !self.over {
            t.flush(id);
        }
        if self.finish && !self.over {
            let _ = t.finish(id);
            self.over = true;
        }
        true
    }
}

/// Bytes that are joined at most: about what a packet has room for, so that a short answer is one piece.
const SMALL: usize = 1400;
