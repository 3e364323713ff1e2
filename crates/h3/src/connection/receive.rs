//! Heads, content and trailers, as they come.

use bytes::Bytes;
use quickset_quic::{Carrier, Side, StreamId};

use super::drafts::session_protocols;
use super::exchange::{MessagePhase, NextFrame, READ, RequestKind};
use super::{Abort, BodyRead, Connection, Event, ExchangeFault, VerbRefusal, price};
use crate::frame::{Frame, StreamItem};
use crate::message::{ContentLength, trailers};
use crate::qpack::DecodedSection;
use crate::trace::{Traced, TracedFrame, tell};
use crate::{Error, ErrorCode, Field, MalformedMessage, Priority, Request, Response, Transport};

impl Connection {
    /// The next content of a request or response, at most `max` bytes (and at least 1). After
    /// [`BodyRead::Blocked`] there will be an [`Event::Readable`], and before the response, that.
    ///
    /// # Errors
    /// [`VerbRefusal::Aborted`] when the message ended before its end, once; then, and when it was read,
    /// there is no such stream.
    pub fn read(&mut self, t: &mut dyn Transport, id: StreamId, max: usize) -> Result<BodyRead, VerbRefusal> {
        if self.closed.is_some() {
            return Err(VerbRefusal::Closed);
        }
        let content = self.content(t, id, max.max(1));
        self.note_parts(id);
        let (result, outcome) = match content {
            Ok(body) => (Ok(body), Ok(())),
            Err(ExchangeFault::Stream(code, why)) => {
                self.read_fault(t, id, code, why);
                (Err(VerbRefusal::Aborted(why)), Ok(()))
            }
            Err(ExchangeFault::Connection(error)) => (Err(VerbRefusal::Closed), Err(error)),
        };
        self.settle(t, outcome);
        result?.ok_or(VerbRefusal::UnknownStream)
    }

    /// Wants no more of a request or response. A server that answered without all of the request says
    /// H3_NO_ERROR.
    pub fn stop(&mut self, t: &mut dyn Transport, id: StreamId, code: ErrorCode) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            if exchange.inflow.phase != MessagePhase::Ended {
                // RFC 9204 §2.2.2.2: of what came whole and was read nothing is abandoned.
                let is_abandoned = !exchange.inflow.is_read(t, id);
                exchange.inflow.phase = MessagePhase::Ended;
                if is_abandoned {
                    t.stop(id, code.0);
                    self.decoder.cancel(id.0);
                }
            }
            self.hush(id);
            self.tidy(id);
        }
        self.settle(t, Ok(()));
    }

    /// A message that ended early while it was read. What a server still sends is its own affair when the
    /// client gave up only its request.
    fn read_fault(&mut self, t: &mut dyn Transport, id: StreamId, code: ErrorCode, why: Abort) {
        match (why, self.exchanges.get_mut(&id)) {
            (Abort::Reset(_), Some(exchange)) if self.side.is_server() => {
                exchange.inflow.phase = MessagePhase::Ended;
                self.decoder.cancel(id.0);
                self.hush(id);
                self.tidy(id);
            }
            _ => self.abort(t, id, code),
        }
    }

    fn content(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        max: usize,
    ) -> Result<Option<BodyRead>, ExchangeFault> {
        loop {
            let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(None) };
            let inflow = &mut exchange.inflow;
            if inflow.phase == MessagePhase::Ended || exchange.closing.is_some() || self.sessions.is_open(id)
            {
                return Ok(None);
            }
            if let Some(fields) = inflow.trailers.take() {
                return Ok(Some(BodyRead::Trailers(fields)));
            }
            if inflow.phase == MessagePhase::Head || inflow.waiting {
                // A head is told as such.
                inflow.wanted = inflow.phase != MessagePhase::Head;
                return Ok(Some(BodyRead::Blocked));
            }
            match inflow.next_content(t, id, max)? {
                NextFrame::Item(StreamItem::Data(data)) => return Ok(Some(BodyRead::Data(data))),
                NextFrame::Item(item) => self.item(t, id, item)?,
                NextFrame::Blocked => {
                    inflow.wanted = true;
                    return Ok(Some(BodyRead::Blocked));
                }
                NextFrame::End => {
                    inflow.length.end()?;
                    inflow.phase = MessagePhase::Ended;
                    self.hush(id);
                    self.tidy(id);
                    return Ok(Some(BodyRead::Finished));
                }
                NextFrame::Reset(code) => return Err(reset(code)),
            }
        }
    }

    /// What is not payload, behind the head.
    pub(super) fn item(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        item: StreamItem,
    ) -> Result<(), ExchangeFault> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        let inflow = &mut exchange.inflow;
        match item {
            // RFC 9114 §4.1: nothing follows the trailers.
            StreamItem::DataHeader(_) | StreamItem::Frame(_) | StreamItem::Oversized
                if inflow.phase == MessagePhase::Trailed =>
            {
                Err(unexpected("a frame behind the trailers").into())
            }
            StreamItem::DataHeader(n) => {
                tell(t, || Traced::Parsed(id, TracedFrame::Data(n)));
                Ok(inflow.length.add(n)?)
            }
            // RFC 9114 §4.4: only DATA in a tunnel.
            StreamItem::Frame(_) | StreamItem::Oversized if inflow.tunnel => {
                Err(unexpected("a frame other than DATA in a tunnel").into())
            }
            StreamItem::Frame(Frame::Headers(coded)) => {
                let section = self.decoder.section(id.0, &coded)?;
                self.trailers(t, id, section)
            }
            StreamItem::Oversized => Err(too_large()),
            StreamItem::Frame(_) | StreamItem::Session(_) => {
                Err(unexpected("a frame where it may not be").into())
            }
            StreamItem::Unknown(kind) => {
                tell(t, || Traced::Parsed(id, TracedFrame::Unknown(kind)));
                Ok(())
            }
            StreamItem::Data(_) => Ok(()),
        }
    }

    fn trailers(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        section: DecodedSection,
    ) -> Result<(), ExchangeFault> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        let inflow = &mut exchange.inflow;
        inflow.waiting = section == DecodedSection::Blocked;
        match section {
            DecodedSection::Blocked => {}
            DecodedSection::TooLarge => return Err(too_large()),
            DecodedSection::Fields(fields) => {
                tell(t, || Traced::Parsed(id, TracedFrame::Headers(&fields)));
                trailers(&fields)?;
                inflow.trailers = Some(fields);
                inflow.phase = MessagePhase::Trailed;
            }
        }
        Ok(())
    }

    /// The table has what a section waited for.
    pub(super) fn unblocked(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        section: DecodedSection,
    ) -> Result<(), Error> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        if exchange.inflow.phase == MessagePhase::Head {
            let result = self.head_section(t, id, section);
            self.head_fault(t, id, result)?;
            return self.pump(t, id);
        }
        let wanted = core::mem::take(&mut exchange.inflow.wanted);
        match self.trailers(t, id, section) {
            Ok(()) if wanted => self.events.push_back(Event::Readable(id)),
            Ok(()) => {}
            result => self.head_fault(t, id, result)?,
        }
        Ok(())
    }

    /// Reads a stream as far as it can be without the application: to the end of the head, and the capsules
    /// of a session.
    pub(super) fn pump(&mut self, t: &mut dyn Transport, id: StreamId) -> Result<(), Error> {
        let result = self.pump_on(t, id);
        self.note_parts(id);
        result
    }

    fn pump_on(&mut self, t: &mut dyn Transport, id: StreamId) -> Result<(), Error> {
        loop {
            let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
            if exchange.inflow.phase == MessagePhase::Content && self.sessions.is_open(id) {
                return self.pump_session(t, id);
            }
            if exchange.inflow.phase == MessagePhase::Content && exchange.closing.is_some() {
                return self.pump_closing(t, id);
            }
            if exchange.inflow.phase != MessagePhase::Head || exchange.inflow.waiting {
                return Ok(());
            }
            let result = match exchange.inflow.next(t, id, READ)? {
                NextFrame::Item(StreamItem::Session(session)) => return self.session_signal(t, id, session),
                // draft-ietf-webtrans-http3 §4.3: servers open no others.
                NextFrame::Item(_) if id.initiator() == Side::Server => {
                    return Err(Error::new(
                        ErrorCode::H3_STREAM_CREATION_ERROR,
                        "a bidirectional stream of the server",
                    ));
                }
                NextFrame::Item(item) => self.head_item(t, id, item),
                NextFrame::Blocked => return Ok(()),
                NextFrame::End => {
                    // RFC 9114 §4.1: without a whole request there is nothing to answer.
                    let code = if self.side.is_server() {
                        ErrorCode::H3_REQUEST_INCOMPLETE
                    } else {
                        ErrorCode::H3_MESSAGE_ERROR
                    };
                    Err(ExchangeFault::Stream(
                        code,
                        Abort::Malformed(MalformedMessage("a stream that ends without a head")),
                    ))
                }
                NextFrame::Reset(code) => Err(reset(code)),
            };
            self.head_fault(t, id, result)?;
        }
    }

    /// A message that ended while nobody read it.
    pub(super) fn head_fault(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        result: Result<(), ExchangeFault>,
    ) -> Result<(), Error> {
        let (code, why) = match result {
            Ok(()) => return Ok(()),
            Err(ExchangeFault::Connection(error)) => return Err(error),
            Err(ExchangeFault::Stream(code, why)) => (code, why),
        };
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        let told = exchange.told;
        if why == Abort::TooLarge && !told && exchange.sends == MessagePhase::Head {
            // RFC 9114 §10.5.1, RFC 6585 §5: a client can be told.
            exchange.inflow.phase = MessagePhase::Ended;
            t.stop(id, ErrorCode::H3_NO_ERROR.0);
            self.decoder.cancel(id.0);
            let _ = self.send_head(t, id, &Response::new(431).section());
            self.end(t, id);
            return Ok(());
        }
        if matches!(why, Abort::Malformed(_)) && !self.malformed.count_rare() {
            // RFC 9114 §10.5: each costs what a request does, and is none.
            return Err(Error::new(ErrorCode::H3_EXCESSIVE_LOAD, "too many malformed messages"));
        }
        if matches!(why, Abort::Malformed(_) | Abort::Rejected) {
            t.charge(Carrier::Stream(id), price::UNANSWERED);
        }
        self.abort(t, id, code);
        if told {
            self.events.push_back(Event::Aborted { id, why });
        }
        Ok(())
    }

    fn head_item(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        item: StreamItem,
    ) -> Result<(), ExchangeFault> {
        match item {
            StreamItem::Frame(Frame::Headers(coded)) => self.head(t, id, &coded),
            StreamItem::Oversized => Err(too_large()),
            StreamItem::Unknown(kind) => {
                tell(t, || Traced::Parsed(id, TracedFrame::Unknown(kind)));
                Ok(())
            }
            // RFC 9114 §4.1: HEADERS come first.
            _ => Err(unexpected("a frame before the head").into()),
        }
    }

    pub(super) fn head_section(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        section: DecodedSection,
    ) -> Result<(), ExchangeFault> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        exchange.inflow.waiting = section == DecodedSection::Blocked;
        if let DecodedSection::Fields(fields) = &section {
            tell(t, || Traced::Parsed(id, TracedFrame::Headers(fields)));
        }
        match section {
            DecodedSection::Blocked => Ok(()),
            DecodedSection::TooLarge => Err(too_large()),
            DecodedSection::Fields(fields) if self.side.is_server() => self.request_head(t, id, fields),
            DecodedSection::Fields(fields) => self.response_head(t, id, fields),
        }
    }

    fn request_head(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        fields: Vec<Field>,
    ) -> Result<(), ExchangeFault> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        // RFC 9114 §5.2.
        if self.shutdown.is_refused(id) {
            return Err(ExchangeFault::Stream(ErrorCode::H3_REQUEST_REJECTED, Abort::Rejected));
        }
        let size = fields.iter().map(Field::size).sum();
        let request = Request::from_section(fields)?;
        // RFC 9220 §3: only when we said that we understand it.
        if request.protocol.is_some() && !self.ours.enable_connect_protocol {
            return Err(MalformedMessage("an extended CONNECT that was not offered").into());
        }
        exchange.kind =
            RequestKind::of(&request, session_protocols(&self.ours, self.has_settings.then_some(&self.peer)));
        if exchange.kind == RequestKind::Session {
            self.admit_session(id)?;
        } else {
            // Streams that came before it, and wait for a session.
            self.drop_session(t, id);
        }
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        exchange.inflow.phase = MessagePhase::Content;
        exchange.inflow.length = content_length(exchange.kind, &request.fields);
        exchange.told = true;
        self.malformed.pay_rare();
        let unwanted = exchange.unwanted;
        // RFC 9218 §7: what came on the control stream is newer than what the request says, even if it came
        // first.
        let early = self.early_priorities.remove(&id).and_then(|value| Priority::parse(&value));
        let first = Priority::of(&request.fields);
        if let Some(early) = &early {
            let (old, new) = (first.value(), early.value());
            tell(t, || Traced::Priority(id, Some(&old), &new));
        }
        let priority = early.unwrap_or(first);
        self.obey(t, id, &priority);
        if unwanted.is_some() || t.send_credit(id).is_none() {
            // Its client gave it up as it made it.
            self.charge_classes(t, id);
        }
        self.note_head(id, size);
        self.events.push_back(Event::Request { id, request, priority });
        self.events.extend(unwanted.map(|code| Event::Stopped { id, code }));
        self.early_datagrams(id);
        Ok(())
    }

    fn response_head(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        fields: Vec<Field>,
    ) -> Result<(), ExchangeFault> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        let size: u64 = fields.iter().map(Field::size).sum();
        let response = Response::from_section(fields)?;
        if response.is_interim() {
            exchange.interim += 1;
            exchange.interim_size += size;
            // RFC 9114 §10.5.1: all that the application may not have taken is no more than one section may
            // be.
            if exchange.interim > MAX_INTERIM || exchange.interim_size > self.config.max_field_section {
                return Err(ExchangeFault::Stream(ErrorCode::H3_EXCESSIVE_LOAD, Abort::TooLarge));
            }
            self.events.push_back(Event::Interim { id, response });
            return Ok(());
        }
        exchange.inflow.phase = MessagePhase::Content;
        let tunnel =
            matches!(exchange.kind, RequestKind::Connect | RequestKind::Session) && response.is_success();
        exchange.inflow.tunnel = tunnel;
        exchange.inflow.length = match (exchange.kind, response.status) {
            // RFC 9110 §6.4.1, §9.3.6: what follows is no content, whichever 2xx it is.
            _ if tunnel => ContentLength::default(),
            // RFC 9110 §6.4.1: no content, whatever is said of it.
            (RequestKind::Head, _) | (_, 204 | 304) => ContentLength::none(),
            _ => ContentLength::of(&response.fields),
        };
        let kind = exchange.kind;
        self.events.push_back(Event::Response { id, response });
        if kind == RequestKind::Session {
            self.answered(t, id, tunnel);
        }
        Ok(())
    }
}

fn content_length(kind: RequestKind, fields: &[Field]) -> ContentLength {
    match kind {
        // What follows is not content (RFC 9110 §9.3.6).
        RequestKind::Connect | RequestKind::Session => ContentLength::default(),
        RequestKind::Plain | RequestKind::Head => ContentLength::of(fields),
    }
}

fn reset(code: u64) -> ExchangeFault {
    ExchangeFault::Stream(ErrorCode::H3_REQUEST_CANCELLED, Abort::by_code(code))
}

fn too_large() -> ExchangeFault {
    ExchangeFault::Stream(ErrorCode::H3_REQUEST_CANCELLED, Abort::TooLarge)
}

pub(super) const fn unexpected(reason: &'static str) -> Error {
    Error::new(ErrorCode::H3_FRAME_UNEXPECTED, reason)
}

/// Interim responses to a request at most: six bytes each may be, and an event is many times that.
const MAX_INTERIM: u32 = 64;

/// Nothing.
pub(super) const EMPTY: Bytes = Bytes::new();
