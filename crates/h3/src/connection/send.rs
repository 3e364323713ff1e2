//! Heads, content and trailers, as they go.

use bytes::Bytes;
use quickset_quic::{Dir, StreamId};

use super::drafts::SESSION_PROTOCOLS;
use super::exchange::{Exchange, MessagePhase, RequestKind};
use super::{Connection, VerbRefusal};
use crate::frame::{Frame, data_header, headers};
use crate::message::trailers;
use crate::trace::{StreamKind, TraceSide as Owner, Traced, TracedFrame, tell};
use crate::{ErrorCode, Field, Priority, Request, Response, Transport};

impl Connection {
    /// Makes a request; with `end` it has no content. The answer is an [`Event::Response`], or
    /// [`Event::Aborted`](super::Event::Aborted).
    ///
    /// # Errors
    /// [`VerbRefusal::Blocked`] until [`Event::Available`](super::Event::Available) when the peer takes no
    /// more requests for now; others for a request that cannot be made.
    ///
    /// [`Event::Response`]: super::Event::Response
    pub fn request(
        &mut self,
        t: &mut dyn Transport,
        request: &Request,
        end: bool,
    ) -> Result<StreamId, VerbRefusal> {
        self.alive()?;
        if self.side.is_server() {
            return Err(VerbRefusal::OutOfOrder);
        }
        // RFC 9114 §5.2.
        if self.shutdown.is_going() {
            return Err(VerbRefusal::GoingAway);
        }
        request.check()?;
        // RFC 9220 §3: not before the server has said so.
        if request.protocol.is_some() && !self.peer.enable_connect_protocol {
            return Err(VerbRefusal::Unsupported);
        }
        let kind = RequestKind::of(request, &SESSION_PROTOCOLS);
        let section = if kind == RequestKind::Session {
            self.may_begin_session()?;
            self.session_request(request).section()
        } else {
            request.section()
        };
        self.fits(&section)?;
        let id = t.open(Dir::Bi).ok_or(VerbRefusal::Blocked)?;
        let mut exchange =
            Exchange::new(self.side, self.config.max_field_section, self.ours.takes_sessions());
        exchange.kind = kind;
        tell(t, || Traced::Stream(Owner::Local, id, StreamKind::Request));
        let priority = Priority::of(&request.fields);
        self.exchanges.insert(id, Box::new(exchange));
        self.obey(t, id, &priority);
        self.send_head(t, id, &section)?;
        self.sends(id, MessagePhase::Content);
        if end {
            self.end(t, id);
        }
        self.settle(t, Ok(()));
        Ok(id)
    }

    /// Answers a request, with `end` without content. Any number of interim responses (1xx) may come before
    /// the final one.
    ///
    /// What its `priority` field says outranks what the client says and will say of it (RFC 9218 §8), each
    /// parameter by itself; what neither says is as [`Config::usual`](super::Config::usual) has it.
    ///
    /// # Errors
    /// When it cannot be answered so.
    pub fn respond(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        response: &Response,
        end: bool,
    ) -> Result<(), VerbRefusal> {
        self.alive()?;
        let exchange = self.exchanges.get(&id).ok_or(VerbRefusal::UnknownStream)?;
        if self.side.is_client() || !exchange.told || exchange.sends != MessagePhase::Head {
            return Err(VerbRefusal::OutOfOrder);
        }
        if response.is_interim() && end {
            return Err(VerbRefusal::OutOfOrder);
        }
        response.check()?;
        let kind = exchange.kind;
        let section = response.section();
        self.fits(&section)?;
        self.send_head(t, id, &section)?;
        if !response.is_interim() {
            self.rank(t, id, response);
            let tunnel = matches!(kind, RequestKind::Connect | RequestKind::Session) && response.is_success();
            let bare = !tunnel && (kind == RequestKind::Head || matches!(response.status, 204 | 304));
            self.sends(id, if bare { MessagePhase::Trailed } else { MessagePhase::Content });
            if let Some(exchange) = self.exchanges.get_mut(&id) {
                exchange.inflow.tunnel = tunnel;
            }
            if kind == RequestKind::Session {
                self.answered(t, id, tunnel && !end);
            }
        }
        if end {
            self.end(t, id);
        }
        // What came on a session's stream before it was one.
        let result = self.pump(t, id);
        self.settle(t, result);
        Ok(())
    }

    /// Answers a request with a head and content from the front of `data`, up to a megabyte, and ends the
    /// response if that is all of it. It is [`respond`](Self::respond), [`send`](Self::send) and
    /// [`finish`](Self::finish), for one write to the stream where these take three if it is short.
    ///
    /// # Errors
    /// Those of the three. A response whose head was sent goes on, or is [cancelled](Self::cancel).
    pub fn answer(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        response: &Response,
        data: &mut Bytes,
    ) -> Result<(), VerbRefusal> {
        self.exchanges.get_mut(&id).ok_or(VerbRefusal::UnknownStream)?.out.cork();
        let result = self.answer_corked(t, id, response, data);
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.out.uncork(t, id);
            self.note_parts(id);
            self.tidy(id);
        }
        result
    }

    fn answer_corked(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        response: &Response,
        data: &mut Bytes,
    ) -> Result<(), VerbRefusal> {
        self.respond(t, id, response, false)?;
        if !data.is_empty() {
            self.send(t, id, data)?;
        }
        if data.is_empty() { self.finish(t, id) } else { Ok(()) }
    }

    /// Sends content from the front of `data`, and returns how many bytes of it: all, up to a megabyte.
    ///
    /// # Errors
    /// [`VerbRefusal::Blocked`] until [`Event::Writable`](super::Event::Writable) when there is no room.
    pub fn send(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        data: &mut Bytes,
    ) -> Result<usize, VerbRefusal> {
        self.alive()?;
        let exchange = self.exchanges.get_mut(&id).ok_or(VerbRefusal::UnknownStream)?;
        if exchange.sends != MessagePhase::Content || self.sessions.is_open(id) {
            return Err(VerbRefusal::OutOfOrder);
        }
        // Whole frames only: the length is said before the payload.
        if !exchange.out.flush(t, id) {
            exchange.out.refused = true;
            return Err(VerbRefusal::Blocked);
        }
        let n = data.len().min(MAX_DATA);
        if n > 0 {
            tell(t, || Traced::Created(id, TracedFrame::Data(n as u64)));
            exchange.out.push(data_header(n as u64));
            exchange.out.push(data.split_to(n));
            exchange.out.flush(t, id);
            self.note_parts(id);
        }
        Ok(n)
    }

    /// Bytes of content that may be sent now and leave soon: as many as the peer has credit for, and the path
    /// takes. With 0 there is an [`Event::Writable`](super::Event::Writable) when there are some.
    ///
    /// # Errors
    /// When the message has ended, or has no content yet.
    pub fn send_room(&mut self, t: &mut dyn Transport, id: StreamId) -> Result<u64, VerbRefusal> {
        self.alive()?;
        let exchange = self.exchanges.get_mut(&id).ok_or(VerbRefusal::UnknownStream)?;
        if exchange.sends != MessagePhase::Content {
            return Err(VerbRefusal::OutOfOrder);
        }
        // A stream that is over tells so by an event.
        let room = if exchange.out.flush(t, id) { t.send_room(id).unwrap_or(0) } else { 0 };
        exchange.out.refused |= room == 0;
        // The header of the frame needs some of it.
        Ok(room.saturating_sub(HEADER).max(room.min(1)))
    }

    /// What was sent so far is what somebody waits for, though more may follow: repair for it may go at once.
    /// Nothing leaves earlier for it.
    ///
    /// # Errors
    /// When the message has ended.
    pub fn flush(&mut self, t: &mut dyn Transport, id: StreamId) -> Result<(), VerbRefusal> {
        self.alive()?;
        let exchange = self.exchanges.get_mut(&id).ok_or(VerbRefusal::UnknownStream)?;
        if exchange.sends == MessagePhase::Ended {
            return Err(VerbRefusal::OutOfOrder);
        }
        exchange.out.mark();
        exchange.out.flush(t, id);
        Ok(())
    }

    /// Sends trailers, and the end behind them.
    ///
    /// # Errors
    /// When none can be sent.
    pub fn send_trailers(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        fields: &[Field],
    ) -> Result<(), VerbRefusal> {
        self.alive()?;
        let exchange = self.exchanges.get(&id).ok_or(VerbRefusal::UnknownStream)?;
        // RFC 9114 §4.4: nothing but DATA behind a CONNECT, which the server may have accepted already.
        let connects =
            self.side.is_client() && matches!(exchange.kind, RequestKind::Connect | RequestKind::Session);
        if exchange.sends != MessagePhase::Content || exchange.inflow.tunnel || connects {
            return Err(VerbRefusal::OutOfOrder);
        }
        trailers(fields)?;
        self.fits(fields)?;
        self.send_head(t, id, fields)?;
        self.end(t, id);
        self.settle(t, Ok(()));
        Ok(())
    }

    /// Ends a request or response behind what was sent.
    ///
    /// # Errors
    /// Before its head, or when it has ended.
    pub fn finish(&mut self, t: &mut dyn Transport, id: StreamId) -> Result<(), VerbRefusal> {
        self.alive()?;
        let exchange = self.exchanges.get(&id).ok_or(VerbRefusal::UnknownStream)?;
        if !matches!(exchange.sends, MessagePhase::Content | MessagePhase::Trailed) {
            return Err(VerbRefusal::OutOfOrder);
        }
        if self.sessions.is_open(id) {
            self.end_session(t, id, 0, Bytes::new());
            self.end(t, id);
            self.await_end(t, id);
        } else {
            self.end(t, id);
        }
        Ok(())
    }

    /// Gives up a request, in both directions: H3_REQUEST_CANCELLED, or H3_REQUEST_REJECTED by a server that
    /// did nothing with it (RFC 9114 §4.1.1).
    pub fn cancel(&mut self, t: &mut dyn Transport, id: StreamId, code: ErrorCode) {
        self.abort(t, id, code);
        self.settle(t, Ok(()));
    }

    /// Tells the server that a response has another priority than its request said (RFC 9218 §7).
    ///
    /// # Errors
    /// From servers, for streams that are over, and when its value is longer than a kilobyte.
    pub fn prioritise(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        priority: &Priority,
    ) -> Result<(), VerbRefusal> {
        self.alive()?;
        self.exchanges.get(&id).filter(|_| self.side.is_client()).ok_or(VerbRefusal::UnknownStream)?;
        let value = priority.value();
        if value.len() > MAX_PRIORITY {
            return Err(VerbRefusal::TooLarge);
        }
        self.obey(t, id, priority);
        tell(t, || Traced::Priority(id, None, &value));
        self.say(t, &Frame::PriorityUpdate(id.0, value.clone()));
        self.settle(t, Ok(()));
        Ok(())
    }

    pub(super) fn alive(&self) -> Result<(), VerbRefusal> {
        if self.closed.is_some() { Err(VerbRefusal::Closed) } else { Ok(()) }
    }

    /// RFC 9114 §4.2.2: not more than the peer takes.
    fn fits(&self, section: &[Field]) -> Result<(), VerbRefusal> {
        let size: u64 = section.iter().map(Field::size).sum();
        if self.peer.max_field_section_size.is_some_and(|max| size > max) {
            Err(VerbRefusal::TooLarge)
        } else {
            Ok(())
        }
    }

    /// Sends a HEADERS frame.
    pub(super) fn send_head(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        section: &[Field],
    ) -> Result<(), VerbRefusal> {
        let exchange = self.exchanges.get_mut(&id).ok_or(VerbRefusal::UnknownStream)?;
        self.encoder.set_credit(self.critical.encoder_credit(t).unwrap_or(u64::MAX));
        let coded = self.encoder.encode(id.0, section);
        // The instructions first, so that the section need not wait for them.
        if self.critical.wants_encoder() {
            self.critical.encoder(self.encoder.take_instructions());
        }
        self.critical.flush(t);
        tell(t, || Traced::Created(id, TracedFrame::Headers(section)));
        exchange.out.push(headers(&coded));
        exchange.out.flush(t, id);
        Ok(())
    }

    fn sends(&mut self, id: StreamId, phase: MessagePhase) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.sends = phase;
        }
    }

    /// Ends the sending half behind what is queued.
    pub(super) fn end(&mut self, t: &mut dyn Transport, id: StreamId) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.sends = MessagePhase::Ended;
            exchange.out.finish();
            exchange.out.flush(t, id);
        }
        self.tidy(id);
    }
}

/// Bytes of a priority in a frame of its own at most: of ours, and of what we take (RFC 9218 §7.1).
const MAX_PRIORITY: usize = 1000;

/// Bytes of the header of a DATA frame at most (RFC 9114 §7.1).
const HEADER: u64 = 9;

/// Bytes of a DATA frame at most.
const MAX_DATA: usize = 1 << 20;
