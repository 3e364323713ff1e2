//! The streams of sessions: opened by either side, read, written, given up.

use bytes::Bytes;
use quickset_quic::{Carrier, Chunk, Dir, ReadError, Side, StreamId};

use super::super::codes::http_code;
use super::super::drafts::{header_len, put_header};
use super::super::exchange::{Exchange, RequestKind};
use super::super::outlet::StreamOutlet;
use super::super::receive::EMPTY;
use super::super::{Abort, Connection, Event, VerbRefusal, price};
use super::SessionStream;
use crate::{Error, ErrorCode, Transport};

/// Verbs of the streams of sessions, and what comes of them.
impl Connection {
    /// Opens a stream of a session.
    ///
    /// # Errors
    /// [`VerbRefusal::Blocked`] until [`Event::Available`] when the peer allows no more such streams for now.
    pub fn open_session_stream(
        &mut self,
        t: &mut dyn Transport,
        session: StreamId,
        dir: Dir,
    ) -> Result<StreamId, VerbRefusal> {
        self.alive()?;
        if !self.sessions.is_open(session) {
            return Err(VerbRefusal::UnknownStream);
        }
        if !self.may_open(t, session, dir) {
            return Err(VerbRefusal::Blocked);
        }
        let Some(id) = t.open(dir) else {
            self.sessions.refused |= dir == Dir::Uni;
            return Err(VerbRefusal::Blocked);
        };
        let mut header = Vec::new();
        put_header(&mut header, dir, session);
        let mut out = StreamOutlet::default();
        out.push(header);
        out.flush(t, id);
        let read = dir == Dir::Uni;
        let (told, wanted) = (true, false);
        let stream =
            SessionStream { session, told, input: EMPTY, read, wanted, out, unwanted: None, said: None };
        self.sessions.streams.insert(id, stream);
        self.opened(session, dir);
        self.place(t, id);
        Ok(id)
    }

    /// The next bytes of a session's stream, at most `max`. After [`Chunk::Blocked`] there will be an
    /// [`Event::Readable`].
    ///
    /// # Errors
    /// [`VerbRefusal::Aborted`] when the peer gave it up; see [`session_code`](crate::session_code).
    pub fn session_read(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        max: usize,
    ) -> Result<Chunk, VerbRefusal> {
        self.alive()?;
        let stream = self
            .sessions
            .streams
            .get_mut(&id)
            .filter(|s| s.told && !s.read)
            .ok_or(VerbRefusal::UnknownStream)?;
        if !stream.input.is_empty() {
            let n = stream.input.len().min(max.max(1));
            return Ok(Chunk::Data(stream.input.split_to(n)));
        }
        let result = t.read(id, max.max(1));
        match &result {
            Ok(Chunk::Data(_)) => {}
            Ok(Chunk::Blocked) => stream.wanted = true,
            Ok(Chunk::Finished) | Err(_) => {
                stream.read = true;
                self.sessions.tidy(id);
            }
        }
        result.map_err(|error| match error {
            ReadError::Reset(code) => VerbRefusal::Aborted(Abort::Reset(code)),
            _ => VerbRefusal::UnknownStream,
        })
    }

    /// Sends bytes from the front of `data` on a session's stream, and returns how many.
    ///
    /// # Errors
    /// [`VerbRefusal::Blocked`] until [`Event::Writable`] when there is no room.
    pub fn session_write(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        data: &mut Bytes,
    ) -> Result<usize, VerbRefusal> {
        self.alive()?;
        let stream = self.sessions.streams.get_mut(&id).ok_or(VerbRefusal::UnknownStream)?;
        if !stream.told || stream.out.is_finishing() {
            return Err(VerbRefusal::UnknownStream);
        }
        if !stream.out.flush(t, id) {
            stream.out.refused = true;
            return Err(VerbRefusal::Blocked);
        }
        let session = stream.session;
        let credit = usize::try_from(self.data_credit(t, session)).unwrap_or(usize::MAX);
        let Some(stream) = self.sessions.streams.get_mut(&id) else { return Err(VerbRefusal::UnknownStream) };
        let n = data.len().min(credit);
        if n == 0 && !data.is_empty() {
            stream.out.refused = true;
            return Err(VerbRefusal::Blocked);
        }
        stream.out.push(data.split_to(n));
        stream.out.flush(t, id);
        self.spent(session, n);
        Ok(n)
    }

    /// Ends a session's stream behind what was sent.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn session_finish(&mut self, t: &mut dyn Transport, id: StreamId) -> Result<(), VerbRefusal> {
        let stream = self.sessions.streams.get_mut(&id).ok_or(VerbRefusal::UnknownStream)?;
        stream.out.finish();
        stream.out.flush(t, id);
        self.sessions.tidy(id);
        Ok(())
    }

    /// Gives up sending on a session's stream, with the application's code. Its header may be lost with it
    /// where the peer takes no resets behind an offset: then it never learns of the stream.
    pub fn session_reset(&mut self, t: &mut dyn Transport, id: StreamId, code: u32) {
        if let Some(stream) = self.sessions.streams.get_mut(&id) {
            t.reset_behind(id, http_code(code), header_len(id, stream.session, self.side));
            stream.out.end();
            self.sessions.tidy(id);
        }
    }

    /// Wants no more of a session's stream, with the application's code.
    pub fn session_stop(&mut self, t: &mut dyn Transport, id: StreamId, code: u32) {
        if let Some(stream) = self.sessions.streams.get_mut(&id) {
            t.stop(id, http_code(code));
            stream.read = true;
            self.sessions.tidy(id);
        }
    }

    /// Has nothing to do with a session's stream of the peer's (WT_BUFFERED_STREAM_REJECTED), in either
    /// direction.
    pub fn refuse_session_stream(&mut self, t: &mut dyn Transport, id: StreamId) {
        let Some(stream) = self.sessions.streams.remove(&id) else { return };
        t.charge(Carrier::Stream(id), price::REFUSED);
        if !stream.out.is_over() {
            t.reset(id, ErrorCode::WT_BUFFERED_STREAM_REJECTED.0);
        }
        if !stream.read {
            t.stop(id, ErrorCode::WT_BUFFERED_STREAM_REJECTED.0);
        }
    }

    /// A bidirectional stream turned out to be a session's.
    pub(in super::super) fn session_signal(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        session: u64,
    ) -> Result<(), Error> {
        if id.initiator() == self.side {
            return Err(Error::new(
                ErrorCode::H3_FRAME_ERROR,
                "a stream of WebTransport in answer to a request",
            ));
        }
        let Some(exchange) = self.forget(id) else { return Ok(()) };
        self.session_stream(t, id, session, exchange.inflow.input, exchange.unwanted)
    }

    /// A stream of the peer belongs to a session; `input` came behind its header, and with `unwanted` the
    /// peer wants nothing back: a peer that drops both halves of a stream at once says so before the header
    /// is read.
    pub(in super::super) fn session_stream(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        session: u64,
        input: Bytes,
        unwanted: Option<u64>,
    ) -> Result<(), Error> {
        let session = StreamId(session);
        // draft-ietf-webtrans-http3 §4: the stream of a request.
        if session.initiator() != Side::Client || session.dir() != Dir::Bi {
            return Err(Error::new(ErrorCode::H3_ID_ERROR, "a session that is no request"));
        }
        let told = self.sessions.is_open(session);
        if !told {
            // Once it was answered it is open, or was declined, or is over, though its exchange may go on for
            // a while.
            let asks =
                |e: &Exchange| e.awaits_response(self.side) && (e.kind == RequestKind::Session || !e.told);
            let asked = self.exchanges.get(&session).is_some_and(|exchange| asks(exchange));
            let may_come = asked || (self.side.is_server() && !self.shutdown.has_seen(session));
            let held = self.sessions.streams.values().filter(|s| !s.told).count();
            // §4.6: bounded; §6: of sessions that are over, none.
            let code = match (may_come, held < MAX_HELD) {
                (true, true) => None,
                (true, false) => Some(ErrorCode::WT_BUFFERED_STREAM_REJECTED),
                (false, _) => Some(ErrorCode::WT_SESSION_GONE),
            };
            if let Some(code) = code {
                t.charge(Carrier::Stream(id), price::REFUSED);
                t.reset(id, code.0);
                t.stop(id, code.0);
                return Ok(());
            }
        }
        let mut out = StreamOutlet::default();
        if id.dir() == Dir::Uni || unwanted.is_some() {
            out.end();
        }
        let stream =
            SessionStream { session, told, input, read: false, wanted: false, out, unwanted, said: None };
        self.sessions.streams.insert(id, stream);
        if told {
            self.place(t, id);
            self.events.push_back(Event::SessionStream { session, id, dir: id.dir() });
            self.events.extend(unwanted.map(|code| Event::Stopped { id, code }));
        }
        Ok(())
    }

    pub(in super::super) fn session_readable(&mut self, id: StreamId) {
        if let Some(stream) = self.sessions.streams.get_mut(&id) {
            if core::mem::take(&mut stream.wanted) {
                self.events.push_back(Event::Readable(id));
            }
        }
    }

    pub(in super::super) fn session_writable(&mut self, t: &mut dyn Transport, id: StreamId) {
        if let Some(stream) = self.sessions.streams.get_mut(&id) {
            if stream.out.flush(t, id) && core::mem::take(&mut stream.out.refused) {
                self.events.push_back(Event::Writable(id));
            }
            self.sessions.tidy(id);
        }
    }

    pub(in super::super) fn session_stopped(&mut self, id: StreamId, code: u64) {
        if let Some(stream) = self.sessions.streams.get_mut(&id) {
            stream.out.end();
            if stream.told {
                self.events.push_back(Event::Stopped { id, code });
            } else {
                stream.unwanted = Some(code);
            }
            self.sessions.tidy(id);
        }
    }
}

/// Streams that wait for their session at most (draft-ietf-webtrans-http3 §4.6).
const MAX_HELD: usize = 16;
