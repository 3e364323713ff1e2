//! WebTransport over HTTP/3 (draft-ietf-webtrans-http3): sessions, their streams, and how they end.

use std::collections::BTreeMap;

use bytes::Bytes;
use quickset_quic::{Carrier, Chunk, Dir, ReadError, Side, StreamId};
use quickset_wire::Reader;

use super::codes::http_code;
use super::credit::SessionCredit;
use super::drafts::{header_len, put_header};
use super::exchange::{Exchange, MessagePhase, NextFrame, READ, RequestKind};
use super::outlet::StreamOutlet;
use super::receive::EMPTY;
use super::schedule::is_sent_on;
use super::{Abort, Connection, Event, ExchangeFault, VerbRefusal, price};
use crate::capsule::{self, Capsule, CapsuleReader};
use crate::frame::StreamItem;
use crate::priority::SaidPriority;
use crate::{Error, ErrorCode, MalformedMessage, Transport};

/// Sessions that are established, and their streams.
#[derive(Debug, Default)]
pub(super) struct EstablishedSessions {
    open: BTreeMap<StreamId, SessionState>,
    streams: BTreeMap<StreamId, SessionStream>,
    /// Somebody waits for a unidirectional stream.
    refused: bool,
}

#[derive(Debug)]
struct SessionState {
    capsules: CapsuleReader,
    /// It was asked to end, and the application told.
    draining: bool,
    /// What it may open and send.
    credit: SessionCredit,
}

#[derive(Debug)]
struct SessionStream {
    session: StreamId,
    /// The application knows of it: the session is established.
    told: bool,
    /// What came behind the header and was not read.
    input: Bytes,
    /// Reading is over, or there is nothing to read.
    read: bool,
    wanted: bool,
    out: StreamOutlet,
    /// The peer wanted no more of it, with this code, before the application knew of it.
    unwanted: Option<u64>,
    /// What it is among the streams of its session, if the application said so.
    said: Option<SaidPriority>,
}

impl EstablishedSessions {
    pub(super) fn is_open(&self, session: StreamId) -> bool {
        self.open.contains_key(&session)
    }

    /// Whether the stream of a session may end here.
    fn may_end(&self, session: StreamId) -> bool {
        self.open.get(&session).is_none_or(|open| open.capsules.is_between_capsules())
    }

    pub(super) fn has_stream(&self, id: StreamId) -> bool {
        self.streams.contains_key(&id)
    }

    /// There are unidirectional streams again: whether somebody waits for one.
    pub(super) fn takes_heart(&mut self) -> bool {
        core::mem::take(&mut self.refused)
    }

    /// What the application said of a stream that it knows, which can be said anew.
    pub(super) fn said(&mut self, id: StreamId) -> Option<(StreamId, &mut Option<SaidPriority>)> {
        let stream = self.streams.get_mut(&id).filter(|stream| stream.told)?;
        Some((stream.session, &mut stream.said))
    }

    /// A stream of a session that is sent on, if there is one.
    pub(super) fn latest(&self, session: StreamId, side: Side) -> Option<StreamId> {
        let is = |id: &StreamId, s: &SessionStream| s.session == session && s.told && is_sent_on(*id, side);
        self.streams.iter().rev().find(|(id, s)| is(id, s)).map(|(id, _)| *id)
    }

    pub(super) fn credit(&mut self, session: StreamId) -> Option<&mut SessionCredit> {
        self.open.get_mut(&session).map(|open| &mut open.credit)
    }

    /// Streams of a session on which somebody waits for room; they wait no more.
    pub(super) fn refused_in(&mut self, session: StreamId) -> Vec<StreamId> {
        let waits = |s: &mut SessionStream| s.session == session && core::mem::take(&mut s.out.refused);
        self.streams.iter_mut().filter_map(|(id, s)| waits(s).then_some(*id)).collect()
    }

    fn of(&self, session: StreamId) -> Vec<StreamId> {
        self.streams.iter().filter(|(_, s)| s.session == session).map(|(id, _)| *id).collect()
    }

    fn tidy(&mut self, id: StreamId) {
        if self.streams.get(&id).is_some_and(|s| s.read && s.out.is_over()) {
            self.streams.remove(&id);
        }
    }
}

/// Verbs of sessions. A client begins one with a [`request`](Connection::request) of the protocol
/// `webtransport`, which goes as the server's draft calls it, a server accepts it with a response of 2xx; it
/// is established with that response, and its id is that of the request's stream. Datagrams are sent and come
/// like those of any request.
impl Connection {
    /// Whether a request is for a session, and could begin one.
    pub fn is_session(&self, id: StreamId) -> bool {
        self.exchanges.get(&id).is_some_and(|exchange| exchange.kind == RequestKind::Session)
    }

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
    /// [`VerbRefusal::Aborted`] when the peer gave it up; see [`session_code`](super::session_code).
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

    /// Ends a session, with a code and a reason for the peer's application of at most 1024 bytes of text.
    ///
    /// # Errors
    /// When there is no such session.
    pub fn close_session(
        &mut self,
        t: &mut dyn Transport,
        session: StreamId,
        code: u32,
        reason: &str,
    ) -> Result<(), VerbRefusal> {
        self.alive()?;
        if !self.sessions.is_open(session) {
            return Err(VerbRefusal::UnknownStream);
        }
        let end = (0..=reason.len().min(MAX_REASON)).rev().find(|&n| reason.is_char_boundary(n)).unwrap_or(0);
        let value = [&code.to_be_bytes()[..], &reason.as_bytes()[..end]].concat();
        self.send_capsule(t, session, capsule::WT_CLOSE_SESSION, &value);
        self.drop_session(t, session);
        self.end(t, session);
        self.await_end(t, session);
        Ok(())
    }

    /// Asks that a session end soon.
    ///
    /// # Errors
    /// When there is no such session.
    pub fn drain_session(&mut self, t: &mut dyn Transport, session: StreamId) -> Result<(), VerbRefusal> {
        self.alive()?;
        if !self.sessions.is_open(session) {
            return Err(VerbRefusal::UnknownStream);
        }
        self.send_capsule(t, session, capsule::WT_DRAIN_SESSION, &[]);
        Ok(())
    }

    pub(super) fn send_capsule(&mut self, t: &mut dyn Transport, session: StreamId, kind: u64, value: &[u8]) {
        let Some(exchange) = self.exchanges.get_mut(&session) else { return };
        let mut bytes = Vec::new();
        capsule::encode(&mut bytes, kind, value);
        exchange.out.push(crate::frame::data_header(bytes.len() as u64));
        exchange.out.push(bytes);
        exchange.out.flush(t, session);
    }

    /// A client may begin a session.
    pub(super) fn may_begin_session(&self) -> Result<(), VerbRefusal> {
        // draft-ietf-webtrans-http3 §3.1: both sides have said so, datagrams among it.
        let (ours, peer) = (&self.ours, &self.peer);
        if !ours.takes_sessions() || !peer.takes_sessions() || !peer.h3_datagram {
            return Err(VerbRefusal::Unsupported);
        }
        // §5.1: one at a time without flow control between sessions.
        if self.exchanges.values().any(|e| e.kind == RequestKind::Session) {
            return Err(VerbRefusal::TooManySessions);
        }
        Ok(())
    }

    /// The peer said goodbye, which applications hear as a wish that their sessions end
    /// (draft-ietf-webtrans-http3 §4.7).
    pub(super) fn drain_sessions(&mut self) {
        for (id, session) in &mut self.sessions.open {
            if !core::mem::replace(&mut session.draining, true) {
                self.events.push_back(Event::SessionDraining(*id));
            }
        }
    }

    /// A server got the request for a session.
    pub(super) fn admit_session(&mut self, id: StreamId) -> Result<(), ExchangeFault> {
        if self.has_settings && !self.peer.h3_datagram {
            return Err(MalformedMessage("a session without datagrams").into());
        }
        // §5.2: beyond the limit the stream is rejected, and the connection lives.
        let is_other = |other: StreamId, e: &Exchange| {
            other != id && e.kind == RequestKind::Session && e.closing.is_none()
        };
        if self.exchanges.iter().any(|(other, e)| is_other(*other, e)) {
            return Err(ExchangeFault::Stream(ErrorCode::H3_REQUEST_REJECTED, Abort::Rejected));
        }
        Ok(())
    }

    /// The response to a session's request came, or was sent.
    pub(super) fn answered(&mut self, t: &mut dyn Transport, session: StreamId, established: bool) {
        if !established {
            return self.drop_session(t, session);
        }
        self.sessions.open.insert(
            session,
            SessionState {
                capsules: CapsuleReader::new(MAX_CAPSULE),
                draining: false,
                credit: SessionCredit::default(),
            },
        );
        for id in self.sessions.of(session) {
            if let Some(stream) = self.sessions.streams.get_mut(&id) {
                stream.told = true;
                self.events.push_back(Event::SessionStream { session, id, dir: id.dir() });
                self.events.extend(stream.unwanted.map(|code| Event::Stopped { id, code }));
            }
            self.place(t, id);
        }
    }

    /// A bidirectional stream turned out to be a session's.
    pub(super) fn session_signal(
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
    pub(super) fn session_stream(
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

    pub(super) fn session_readable(&mut self, id: StreamId) {
        if let Some(stream) = self.sessions.streams.get_mut(&id) {
            if core::mem::take(&mut stream.wanted) {
                self.events.push_back(Event::Readable(id));
            }
        }
    }

    pub(super) fn session_writable(&mut self, t: &mut dyn Transport, id: StreamId) {
        if let Some(stream) = self.sessions.streams.get_mut(&id) {
            if stream.out.flush(t, id) && core::mem::take(&mut stream.out.refused) {
                self.events.push_back(Event::Writable(id));
            }
            self.sessions.tidy(id);
        }
    }

    pub(super) fn session_stopped(&mut self, id: StreamId, code: u64) {
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

    /// Reads the capsules of a session.
    pub(super) fn pump_session(&mut self, t: &mut dyn Transport, id: StreamId) -> Result<(), Error> {
        loop {
            let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
            if !self.sessions.is_open(id) {
                return Ok(());
            }
            let result = match exchange.inflow.next(t, id, READ)? {
                NextFrame::Item(StreamItem::Data(data)) => self.capsules(t, id, data),
                NextFrame::Item(item) => self.item(t, id, item),
                NextFrame::Blocked => return Ok(()),
                // RFC 9297 §3.3: a stream does not end inside a capsule.
                NextFrame::End if !self.sessions.may_end(id) => {
                    Err(MalformedMessage("a session that ends inside a capsule").into())
                }
                NextFrame::End => {
                    exchange.inflow.phase = MessagePhase::Ended;
                    self.hush(id);
                    // §6: as if it were closed with code 0.
                    self.end_session(t, id, 0, EMPTY);
                    self.end(t, id);
                    return Ok(());
                }
                NextFrame::Reset(_) => {
                    self.abort(t, id, ErrorCode::WT_SESSION_GONE);
                    return Ok(());
                }
            };
            match result {
                Ok(()) => {}
                Err(ExchangeFault::Connection(error)) => return Err(error),
                Err(ExchangeFault::Stream(code, _)) => self.abort(t, id, code),
            }
        }
    }

    /// We closed a session. To stop the peer now would overtake what we said of it: Chromium takes that for
    /// the loss of the connection. So its end is waited for, which is all that may come.
    pub(super) fn await_end(&mut self, t: &mut dyn Transport, session: StreamId) {
        if let Some(exchange) = self.exchanges.get_mut(&session) {
            exchange.closing = Some(MAX_LATE);
        }
        self.hush(session);
        let result = self.pump(t, session);
        self.settle(t, result);
    }

    /// Passes over what the peer said before it heard that its session is closed.
    pub(super) fn pump_closing(&mut self, t: &mut dyn Transport, id: StreamId) -> Result<(), Error> {
        loop {
            let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
            let size = match exchange.inflow.next(t, id, READ)? {
                NextFrame::Item(StreamItem::Data(data)) => data.len(),
                NextFrame::Item(_) => LATE_FRAME,
                NextFrame::Blocked => return Ok(()),
                NextFrame::End | NextFrame::Reset(_) => {
                    exchange.inflow.phase = MessagePhase::Ended;
                    self.tidy(id);
                    return Ok(());
                }
            };
            exchange.closing = exchange.closing.and_then(|left| left.checked_sub(size));
            if exchange.closing.is_none() {
                exchange.inflow.phase = MessagePhase::Ended;
                t.stop(id, ErrorCode::WT_SESSION_GONE.0);
                self.tidy(id);
                return Ok(());
            }
        }
    }

    fn capsules(
        &mut self,
        t: &mut dyn Transport,
        session: StreamId,
        mut data: Bytes,
    ) -> Result<(), ExchangeFault> {
        while let Some(open) = self.sessions.open.get_mut(&session) {
            // What is wrong with a session does not end the connection.
            let next =
                open.capsules.next(&mut data).map_err(|e| ExchangeFault::Stream(e.code, Abort::TooLarge))?;
            let Some(Capsule { kind, value }) = next else { return Ok(()) };
            match kind {
                capsule::DATAGRAM => {
                    t.charge(Carrier::Stream(session), price::CAPSULE);
                    self.tell_datagram(session, value);
                }
                capsule::WT_DRAIN_SESSION => {
                    if !core::mem::replace(&mut open.draining, true) {
                        self.events.push_back(Event::SessionDraining(session));
                    }
                }
                // §5.4.
                capsule::WT_MAX_STREAM_DATA | capsule::WT_STREAM_DATA_BLOCKED => {
                    let why = MalformedMessage("a capsule of flow control that streams of HTTP/3 have not");
                    return Err(ExchangeFault::Stream(
                        ErrorCode::WT_FLOW_CONTROL_ERROR,
                        Abort::Malformed(why),
                    ));
                }
                capsule::WT_MAX_DATA..=capsule::WT_STREAMS_BLOCKED_UNI => {
                    self.credit_capsule(session, kind, &value)?;
                }
                _ => {
                    let mut r = Reader::new(&value);
                    let code = r.u32().ok().filter(|_| value.len() <= 4 + MAX_REASON);
                    let is_text = value.get(4..).is_some_and(|text| core::str::from_utf8(text).is_ok());
                    let code = code
                        .filter(|_| is_text)
                        .ok_or(MalformedMessage("a WT_CLOSE_SESSION that is none"))?;
                    // §6: nothing may follow.
                    if !data.is_empty() {
                        return Err(MalformedMessage("bytes behind WT_CLOSE_SESSION").into());
                    }
                    self.end_session(t, session, code, value.slice(4..));
                    self.end(t, session);
                    self.stop(t, session, ErrorCode::WT_SESSION_GONE);
                }
            }
        }
        Ok(())
    }

    /// A session is over, if it was one: its streams are given up, and the application told.
    pub(super) fn end_session(&mut self, t: &mut dyn Transport, session: StreamId, code: u32, reason: Bytes) {
        if self.sessions.is_open(session) {
            self.events.push_back(Event::SessionClosed { session, code, reason });
        }
        self.drop_session(t, session);
    }

    /// draft-ietf-webtrans-http3 §6: all streams of a session that is over are given up.
    pub(super) fn drop_session(&mut self, t: &mut dyn Transport, session: StreamId) {
        self.sessions.open.remove(&session);
        for id in self.sessions.of(session) {
            if let Some(stream) = self.sessions.streams.remove(&id) {
                if !stream.out.is_over() {
                    t.reset_behind(id, ErrorCode::WT_SESSION_GONE.0, header_len(id, session, self.side));
                }
                if !stream.read {
                    t.stop(id, ErrorCode::WT_SESSION_GONE.0);
                }
            }
        }
    }
}

/// Bytes of a reason at most (draft-ietf-webtrans-http3 §6).
const MAX_REASON: usize = 1024;

/// Bytes of a capsule at most: a datagram is not larger than a packet.
const MAX_CAPSULE: u64 = 64 << 10;

/// Bytes that are passed over on the stream of a session that we closed, before the peer is told to stop.
const MAX_LATE: usize = 64 << 10;

/// What a frame other than DATA counts for there.
const LATE_FRAME: usize = 16;

/// Streams that wait for their session at most (draft-ietf-webtrans-http3 §4.6).
const MAX_HELD: usize = 16;
