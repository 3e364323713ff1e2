use quickset_quic::{Dir, Side, StreamId};

use crate::{Error, ErrorCode};

/// Who said goodbye, and from which request on (RFC 9114 §5.2).
#[derive(Debug, Default)]
pub(super) struct Shutdown {
    sent: Option<u64>,
    received: Option<u64>,
    /// Behind the last request that was seen: its stream's number among those of its kind.
    next: u64,
}

impl Shutdown {
    /// A request came. False when it is one of those that are not served.
    pub(super) fn admit(&mut self, id: StreamId) -> bool {
        self.next = self.next.max(id.index() + 1);
        !self.is_refused(id)
    }

    /// Whether a request is not served because of what we said.
    pub(super) fn is_refused(&self, id: StreamId) -> bool {
        self.sent.is_some_and(|limit| id.0 >= limit)
    }

    /// Whether a request of this stream was seen.
    pub(super) fn has_seen(&self, id: StreamId) -> bool {
        id.index() < self.next
    }

    /// What to tell the peer: `soon`, that no new requests are wanted while those under way are served; else
    /// that those seen so far are. `None` when that was told.
    pub(super) fn goodbye(&mut self, side: Side, soon: bool) -> Option<u64> {
        let id = match (side, soon) {
            (Side::Server, true) => (1 << 62) - 4,
            (Side::Server, false) => StreamId::new(Side::Client, Dir::Bi, self.next).0,
            // Push ids: none was ever allowed.
            (Side::Client, _) => 0,
        };
        // RFC 9114 §5.2: never more than before.
        if self.sent.is_some_and(|before| before <= id) {
            return None;
        }
        self.sent = Some(id);
        Some(id)
    }

    /// GOAWAY came. True for the first.
    pub(super) fn receive(&mut self, side: Side, id: u64) -> Result<bool, Error> {
        // RFC 9114 §7.2.6: from servers, the id of a client's bidirectional stream.
        if side.is_client() && id % 4 != 0 {
            return Err(Error::new(ErrorCode::H3_ID_ERROR, "GOAWAY with a stream that holds no request"));
        }
        // RFC 9114 §5.2.
        if self.received.is_some_and(|before| id > before) {
            return Err(Error::new(ErrorCode::H3_ID_ERROR, "GOAWAY with a larger id than before"));
        }
        Ok(self.received.replace(id).is_none())
    }

    /// Whether either side said goodbye.
    pub(super) fn is_going(&self) -> bool {
        self.sent.is_some() || self.received.is_some()
    }

    /// Whether a request will not be served by the peer.
    pub(super) fn is_rejected(&self, id: StreamId) -> bool {
        self.received.is_some_and(|limit| id.0 >= limit)
    }
}
