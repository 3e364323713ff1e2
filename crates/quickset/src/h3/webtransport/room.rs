//! What of a session lies under the lock of its connection.

use std::collections::{BTreeSet, VecDeque};
use std::task::Waker;

use bytes::Bytes;
use quickset_h3::{Abort, ErrorCode, VerbRefusal, session_code};
use quickset_net::LayerTurn;
use quickset_quic::{Dir, StreamId};

use super::super::HttpError;
use super::super::http::Http;
use super::{SessionEnding, SessionError};

/// A session's streams, and who waits for what of it.
#[derive(Debug, Default)]
pub(in super::super) struct SessionRoom {
    /// The peer's streams that nobody accepted yet: bidirectional ones, and unidirectional ones.
    bi: VecDeque<StreamId>,
    uni: VecDeque<StreamId>,
    /// All streams that have a slot.
    pub(super) streams: BTreeSet<StreamId>,
    pub(super) ending: Option<SessionEnding>,
    pub(super) draining: bool,
    /// Who waits for streams, or for the end.
    pub(in super::super) waiting: Vec<Waker>,
    /// Who waits for datagrams.
    pub(in super::super) listening: Vec<Waker>,
}

impl SessionRoom {
    pub(super) fn next(&mut self, dir: Dir) -> Option<StreamId> {
        self.incoming(dir).pop_front()
    }

    fn waiting(&self, dir: Dir) -> usize {
        if dir == Dir::Bi { self.bi.len() } else { self.uni.len() }
    }

    fn incoming(&mut self, dir: Dir) -> &mut VecDeque<StreamId> {
        if dir == Dir::Bi { &mut self.bi } else { &mut self.uni }
    }

    pub(in super::super) fn wake(&mut self, woken: &mut Vec<Waker>) {
        woken.append(&mut self.waiting);
        woken.append(&mut self.listening);
    }
}

impl Http {
    pub(in super::super) fn on_session_stream(
        &mut self,
        turn: &mut LayerTurn<'_>,
        session: StreamId,
        id: StreamId,
        dir: Dir,
    ) {
        // Without a room it was answered like any request, and there is nobody to take its streams.
        let room = self.rooms.get_mut(&session);
        let Some(room) = room.filter(|room| room.waiting(dir) < MAX_WAITING) else {
            self.verb(turn, |machine, t| machine.refuse_session_stream(t, id));
            return;
        };
        room.incoming(dir).push_back(id);
        room.streams.insert(id);
        turn.woken.append(&mut room.waiting);
        self.slot(id);
    }

    pub(in super::super) fn on_session_draining(&mut self, turn: &mut LayerTurn<'_>, session: StreamId) {
        if let Some(room) = self.rooms.get_mut(&session) {
            room.draining = true;
            turn.woken.append(&mut room.waiting);
        }
    }

    pub(in super::super) fn on_session_closed(
        &mut self,
        turn: &mut LayerTurn<'_>,
        session: StreamId,
        code: u32,
        reason: &Bytes,
    ) {
        let reason = String::from_utf8_lossy(reason).into_owned();
        self.end_room(turn, session, SessionEnding { code, reason });
    }

    /// A session begins: from now on its end is kept for whoever asks.
    pub(super) fn enter_room(&mut self, session: StreamId) {
        self.rooms.entry(session).or_default();
    }

    /// A session is over: streams that nobody accepted are forgotten, and whoever waits is told.
    pub(super) fn end_room(&mut self, turn: &mut LayerTurn<'_>, session: StreamId, ending: SessionEnding) {
        let Some(room) = self.rooms.get_mut(&session) else { return };
        room.ending.get_or_insert(ending);
        room.wake(turn.woken);
        let unseen: Vec<StreamId> = room.bi.drain(..).chain(room.uni.drain(..)).collect();
        for id in unseen {
            room.streams.remove(&id);
            self.slots.remove(&id);
        }
        for id in &room.streams {
            if let Some(slot) = self.slots.get_mut(id) {
                slot.wake(turn.woken);
            }
        }
    }

    /// The last handle of a session is gone.
    pub(super) fn leave_room(&mut self, turn: &mut LayerTurn<'_>, session: StreamId) {
        let is_over = self.rooms.get(&session).is_some_and(|room| room.ending.is_some());
        if !is_over && self.verb(turn, |machine, t| machine.close_session(t, session, 0, "")).is_err() {
            // It was never one.
            self.undelivered.remove(&session);
            self.verb(turn, |machine, t| machine.cancel(t, session, ErrorCode::H3_REQUEST_CANCELLED));
        }
        self.end_room(turn, session, SessionEnding::default());
        self.rooms.remove(&session);
    }

    /// Why a session does nothing any more, if so.
    pub(super) fn session_over(&self, turn: &LayerTurn<'_>, session: StreamId) -> Option<SessionError> {
        let ending = self.rooms.get(&session).and_then(|room| room.ending.clone());
        let ended = self.slots.get(&session).and_then(|slot| slot.ended());
        ending
            .map(SessionError::Over)
            .or_else(|| ended.map(SessionError::Http))
            .or_else(|| self.over(turn).map(SessionError::Http))
    }

    /// The words for what the machine refused of a session, or of its stream `id`.
    pub(super) fn session_refused(
        &self,
        turn: &LayerTurn<'_>,
        session: StreamId,
        id: StreamId,
        refusal: VerbRefusal,
    ) -> SessionError {
        let stopped = self.slots.get(&id).and_then(|slot| slot.stopped);
        let (code, below, words): (_, _, fn(u32) -> SessionError) = match (refusal, stopped) {
            (VerbRefusal::Aborted(Abort::Reset(code)), _) => {
                (code, HttpError::Aborted(Abort::Reset(code)), SessionError::Reset)
            }
            (_, Some(code)) => (code, HttpError::Stopped(code), SessionError::Stopped),
            _ => {
                let over = self.session_over(turn, session);
                return over.unwrap_or(HttpError::Refused(refusal).into());
            }
        };
        if code == ErrorCode::WT_SESSION_GONE.0 {
            return self.session_over(turn, session).unwrap_or(SessionError::Gone);
        }
        session_code(code).map_or(SessionError::Http(below), words)
    }
}

/// Streams that nobody accepted, kept in each direction at most.
const MAX_WAITING: usize = 128;
