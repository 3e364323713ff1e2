//! How the drafts of WebTransport differ: in how it is said that it is spoken, and what a session is asked
//! for by (draft-ietf-webtrans-http3 §3.1, §7.1). What is said on streams is the same in all.

use bytes::Bytes;
use quickset_quic::{Dir, Side, StreamId};

use super::Connection;
use crate::frame::{kind, stream};
use crate::{Request, Settings, varint};

impl Connection {
    /// The request for a session in the words of the newest draft that the server speaks
    /// (draft-ietf-webtrans-http3 §7.1).
    pub(super) fn session_request(&self, request: &Request) -> Request {
        let protocol = if self.peer.wt_enabled { WEBTRANSPORT_H3 } else { WEBTRANSPORT };
        let request = Request { protocol: Some(Bytes::from_static(protocol)), ..request.clone() };
        // Draft 2 §3.3, of servers that speak nothing newer.
        let is_old = self.peer.wt_draft_02 && self.peer.wt_max_sessions == 0 && self.peer.wt_draft_13 == 0;
        let says_so = request.fields.iter().any(|field| &field.name[..] == DRAFT_02);
        if is_old && !self.peer.wt_enabled && !says_so { request.with(DRAFT_02, "1") } else { request }
    }
}

/// The protocols of a client's request that stand for a session with `ours`; `theirs` is what it speaks, once
/// it has said so.
//
// draft-ietf-webtrans-http3-15 §2.1.2: to who speaks nothing older, `webtransport` is another protocol, of
// capsules on one stream.
pub(super) fn session_protocols(ours: &Settings, theirs: Option<&Settings>) -> &'static [&'static [u8]] {
    let is_new = theirs.is_some_and(|theirs| theirs.wt_enabled && !theirs.takes_former_sessions());
    match (ours.takes_sessions(), is_new) {
        (false, _) => &[],
        (true, true) => &[WEBTRANSPORT_H3],
        (true, false) => &SESSION_PROTOCOLS,
    }
}

/// Bytes in front of a stream that arrive though it is reset: whoever opened it said there which session it
/// is of (draft-ietf-webtrans-http3 §4.4).
pub(super) fn header_len(id: StreamId, session: StreamId, side: Side) -> u64 {
    if id.initiator() != side {
        return 0;
    }
    let mut header = Vec::new();
    put_header(&mut header, id.dir(), session);
    header.len() as u64
}

/// draft-ietf-webtrans-http3 §4.2, §4.3.
pub(super) fn put_header(out: &mut Vec<u8>, dir: Dir, session: StreamId) {
    varint::put(out, if dir == Dir::Bi { kind::WT_STREAM } else { stream::WEBTRANSPORT });
    varint::put(out, session.0);
}

/// Up to draft 14.
const WEBTRANSPORT: &[u8] = b"webtransport";
/// From draft 15 on.
const WEBTRANSPORT_H3: &[u8] = b"webtransport-h3";
pub(super) const SESSION_PROTOCOLS: [&[u8]; 2] = [WEBTRANSPORT, WEBTRANSPORT_H3];

/// By this a client says that it speaks draft 2.
const DRAFT_02: &[u8] = b"sec-webtransport-http3-draft02";
