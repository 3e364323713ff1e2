//! Flow control of WebTransport sessions (draft-ietf-webtrans-http3 §5). A peer's limits are kept; ours are
//! as wide as can be said, since there is one session on a connection, and QUIC limits that.

use quickset_quic::{Dir, StreamId};
use quickset_wire::Reader;

use super::{Connection, Event, ExchangeFault};
use crate::capsule;
use crate::{ErrorCode, MalformedMessage, Settings, Transport, varint};

/// What a session has used of what its peer allows, and what that is, where it said more than at the start.
#[derive(Debug, Default)]
pub(super) struct SessionCredit {
    bi: CreditCount,
    uni: CreditCount,
    data: CreditCount,
}

#[derive(Clone, Copy, Debug, Default)]
struct CreditCount {
    used: u64,
    /// By the last capsule; 0 where there was none.
    granted: u64,
    /// The limit of which the peer was told that it holds us up.
    told: Option<u64>,
    /// Somebody was refused since the peer said more the last time.
    refused: bool,
}

/// What may be used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CreditKind {
    Streams(Dir),
    Data,
}

impl SessionCredit {
    fn count(&mut self, what: CreditKind) -> &mut CreditCount {
        match what {
            CreditKind::Streams(Dir::Bi) => &mut self.bi,
            CreditKind::Streams(Dir::Uni) => &mut self.uni,
            CreditKind::Data => &mut self.data,
        }
    }
}

impl CreditKind {
    const fn initial(self, peer: &Settings) -> u64 {
        match self {
            Self::Streams(Dir::Bi) => peer.wt_initial_max_streams_bidi,
            Self::Streams(Dir::Uni) => peer.wt_initial_max_streams_uni,
            Self::Data => peer.wt_initial_max_data,
        }
    }

    const fn blocked(self) -> u64 {
        match self {
            Self::Streams(Dir::Bi) => capsule::WT_STREAMS_BLOCKED_BIDI,
            Self::Streams(Dir::Uni) => capsule::WT_STREAMS_BLOCKED_UNI,
            Self::Data => capsule::WT_DATA_BLOCKED,
        }
    }
}

impl Connection {
    /// Whether one more stream may be opened; the peer is told when it may not.
    pub(super) fn may_open(&mut self, t: &mut dyn Transport, session: StreamId, dir: Dir) -> bool {
        self.left(t, session, CreditKind::Streams(dir)) > 0
    }

    /// A stream was opened.
    pub(super) fn opened(&mut self, session: StreamId, dir: Dir) {
        self.use_up(session, CreditKind::Streams(dir), 1);
    }

    /// Bytes that may be sent on the streams of a session; the peer is told when there are none.
    pub(super) fn data_credit(&mut self, t: &mut dyn Transport, session: StreamId) -> u64 {
        self.left(t, session, CreditKind::Data)
    }

    /// Bytes are sent.
    pub(super) fn spent(&mut self, session: StreamId, bytes: usize) {
        self.use_up(session, CreditKind::Data, bytes as u64);
    }

    fn use_up(&mut self, session: StreamId, what: CreditKind, n: u64) {
        if let Some(credit) = self.sessions.credit(session) {
            credit.count(what).used += n;
        }
    }

    fn left(&mut self, t: &mut dyn Transport, session: StreamId, what: CreditKind) -> u64 {
        // §5.1: only where both sides want it. We do.
        if !self.peer.controls_sessions() {
            return u64::MAX;
        }
        let initial = what.initial(&self.peer);
        let Some(credit) = self.sessions.credit(session) else { return u64::MAX };
        let count = credit.count(what);
        let limit = count.granted.max(initial);
        let left = limit.saturating_sub(count.used);
        count.refused |= left == 0;
        // §5.6.3, §5.6.5: once for each limit.
        let is_news = left == 0 && count.told.replace(limit) != Some(limit);
        // A peer could raise its limit by one again and again and never read what is said of it: one that
        // does not read is told no more.
        let unread = self.exchanges.get(&session).map_or(0, |exchange| exchange.out.queued());
        if is_news && unread < MAX_UNREAD {
            let mut value = Vec::new();
            varint::put(&mut value, limit);
            self.send_capsule(t, session, what.blocked(), &value);
        }
        left
    }

    /// A capsule of flow control.
    pub(super) fn credit_capsule(
        &mut self,
        session: StreamId,
        kind: u64,
        value: &[u8],
    ) -> Result<(), ExchangeFault> {
        let wrong = |why| {
            Err(ExchangeFault::Stream(
                ErrorCode::WT_FLOW_CONTROL_ERROR,
                super::Abort::Malformed(MalformedMessage(why)),
            ))
        };
        let mut r = Reader::new(value);
        let Some(limit) = r.varint().ok().filter(|_| r.is_empty()) else {
            return Err(MalformedMessage("a capsule of flow control that is no number").into());
        };
        let streams = !matches!(kind, capsule::WT_MAX_DATA | capsule::WT_DATA_BLOCKED);
        if streams && limit > MAX_STREAMS {
            return wrong("more streams than there can be");
        }
        let what = match kind {
            capsule::WT_MAX_DATA => CreditKind::Data,
            capsule::WT_MAX_STREAMS_BIDI => CreditKind::Streams(Dir::Bi),
            capsule::WT_MAX_STREAMS_UNI => CreditKind::Streams(Dir::Uni),
            // We hold up nobody.
            _ => return Ok(()),
        };
        // §5.1: it may have been said before the settings came, by which it counts or does not.
        let initial = what.initial(&self.peer);
        let controls = self.peer.controls_sessions();
        let Some(credit) = self.sessions.credit(session) else { return Ok(()) };
        let count = credit.count(what);
        if controls && limit <= count.granted.max(initial) {
            return wrong("a limit that does not grow");
        }
        count.granted = count.granted.max(limit);
        // Else each capsule would be an event, for an application that takes none as well.
        let was_refused = core::mem::take(&mut count.refused);
        match what {
            CreditKind::Streams(dir) if was_refused => self.events.push_back(Event::Available(dir)),
            CreditKind::Streams(_) => {}
            CreditKind::Data => {
                for id in self.sessions.refused_in(session) {
                    self.events.push_back(Event::Writable(id));
                }
            }
        }
        Ok(())
    }
}

/// Bytes that wait on the stream of a session for the peer to make room: with more it is not told what holds
/// us up.
const MAX_UNREAD: usize = 1 << 10;
/// §5.6.2.
pub(super) const MAX_STREAMS: u64 = 1 << 60;
/// As much as can be said.
pub(super) const MAX_DATA: u64 = (1 << 62) - 1;
