//! WebTransport over HTTP/3 (draft-ietf-webtrans-http3): sessions, their streams, and how they end.

mod streams;

use std::collections::BTreeMap;

use bytes::Bytes;
use quickset_quic::{Carrier, Side, StreamId};
use quickset_wire::Reader;

use super::credit::SessionCredit;
use super::drafts::header_len;
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
