//! Heads, content and trailers, as they come.

use bytes::Bytes;
use quickset_quic::{Carrier, Side, StreamId};

use super::drafts::session_protocols;
use super::exchange::{Kind, Next, Phase, READ};
use super::{Abort, Body, Connection, Event, Fault, Refusal, price};
use crate::frame::{Frame, Item};
use crate::message::{Length, trailers};
use crate::qpack::Section;
use crate::trace::{Told, Traced, tell};
use crate::{Code, Error, Field, Malformed, Priority, Request, Response, Transport};

impl Connection {
    /// The next content of a request or response, at most `max` bytes (and at least 1). After
    /// [`Body::Blocked`] there will be an [`Event::Readable`], and before the response, that.
    ///
    /// # Errors
    /// [`Refusal::Aborted`] when the message ended before its end, once; then, and when it was read, there is
    /// no such stream.
    pub fn read(&mut self, t: &mut dyn Transport, id: StreamId, max: usize) -> Result<Body, Refusal> {
        if self.closed.is_some() {
            return Err(Refusal::Closed);
        }
        let content = self.content(t, id, max.max(1));
        self.note_parts(id);
        let (result, outcome) = match content {
            Ok(body) => (Ok(body), Ok(())),
            Err(Fault::Stream(code, why)) => {
                self.read_fault(t, id, code, why);
                (Err(Refusal::Aborted(why)), Ok(()))
            }
            Err(Fault::Connection(error)) => (Err(Refusal::Closed), Err(error)),
        };
        self.settle(t, outcome);
        result?.ok_or(Refusal::UnknownStream)
    }

    /// Wants no more of a request or response. A server that answered without all of the request says
    /// H3_NO_ERROR.
    pub fn stop(&mut self, t: &mut dyn Transport, id: StreamId, code: Code) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            if exchange.inflow.phase != Phase::Ended {
                // RFC 9204 §2.2.2.2: of what came whole and was read nothing is abandoned.
                let is_abandoned = !exchange.inflow.is_read(t, id);
                exchange.inflow.phase = Phase::Ended;
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
    fn read_fault(&mut self, t: &mut dyn Transport, id: StreamId, code: Code, why: Abort) {
        match (why, self.exchanges.get_mut(&id)) {
            (Abort::Reset(_), Some(exchange)) if self.side.is_server() => {
                exchange.inflow.phase = Phase::Ended;
                self.decoder.cancel(id.0);
                self.hush(id);
                self.tidy(id);
            }
            _ => self.abort(t, id, code),
        }
    }

    fn content(&mut self, t: &mut dyn Transport, id: StreamId, max: usize) -> Result<Option<Body>, Fault> {
        loop {
            let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(None) };
            let inflow = &mut exchange.inflow;
            if inflow.phase == Phase::Ended || exchange.closing.is_some() || self.sessions.is_open(id) {
                return Ok(None);
            }
            if let Some(fields) = inflow.trailers.take() {
                return Ok(Some(Body::Trailers(fields)));
            }
            if inflow.phase == Phase::Head || inflow.waiting {
                // A head is told as such.
                inflow.wanted = inflow.phase != Phase::Head;
                return Ok(Some(Body::Blocked));
            }
            match inflow.next_content(t, id, max)? {
                Next::Item(Item::Data(data)) => return Ok(Some(Body::Data(data))),
                Next::Item(item) => self.item(t, id, item)?,
                Next::Blocked => {
                    inflow.wanted = true;
                    return Ok(Some(Body::Blocked));
                }
                Next::End => {
                    inflow.length.end()?;
                    inflow.phase = Phase::Ended;
                    self.hush(id);
                    self.tidy(id);
                    return Ok(Some(Body::Finished));
                }
                Next::Reset(code) => return Err(reset(code)),
            }
        }
    }

    /// What is not payload, behind the head.
    pub(super) fn item(&mut self, t: &mut dyn Transport, id: StreamId, item: Item) -> Result<(), Fault> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        let inflow = &mut exchange.inflow;
        match item {
            // RFC 9114 §4.1: nothing follows the trailers.
            Item::DataHeader(_) | Item::Frame(_) | Item::Oversized if inflow.phase == Phase::Trailed => {
                Err(unexpected("a frame behind the trailers").into())
            }
            Item::DataHeader(n) => {
                tell(t, || Traced::Parsed(id, Told::Data(n)));
                Ok(inflow.length.add(n)?)
            }
            // RFC 9114 §4.4: only DATA in a tunnel.
            Item::Frame(_) | Item::Oversized if inflow.tunnel => {
                Err(unexpected("a frame other than DATA in a tunnel").into())
            }
            Item::Frame(Frame::Headers(coded)) => {
                let section = self.decoder.section(id.0, &coded)?;
                self.trailers(t, id, section)
            }
            Item::Oversized => Err(too_large()),
            Item::Frame(_) | Item::Session(_) => Err(unexpected("a frame where it may not be").into()),
            Item::Unknown(kind) => {
                tell(t, || Traced::Parsed(id, Told::Unknown(kind)));
                Ok(())
            }
            Item::Data(_) => Ok(()),
        }
    }

    fn trailers(&mut self, t: &mut dyn Transport, id: StreamId, section: Section) -> Result<(), Fault> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        let inflow = &mut exchange.inflow;
        inflow.waiting = section == Section::Blocked;
        match section {
            Section::Blocked => {}
            Section::TooLarge => return Err(too_large()),
            Section::Fields(fields) => {
                tell(t, || Traced::Parsed(id, Told::Headers(&fields)));
                trailers(&fields)?;
                inflow.trailers = Some(fields);
                inflow.phase = Phase::Trailed;
            }
        }
        Ok(())
    }

    /// The table has what a section waited for.
    pub(super) fn unblocked(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        section: Section,
    ) -> Result<(), Error> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        if exchange.inflow.phase == Phase::Head {
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
            if exchange.inflow.phase == Phase::Content && self.sessions.is_open(id) {
                return self.pump_session(t, id);
            }
            if exchange.inflow.phase == Phase::Content && exchange.closing.is_some() {
                return self.pump_closing(t, id);
            }
            if exchange.inflow.phase != Phase::Head || exchange.inflow.waiting {
                return Ok(());
            }
            let result = match exchange.inflow.next(t, id, READ)? {
                Next::Item(Item::Session(session)) => return self.session_signal(t, id, session),
                // draft-ietf-webtrans-http3 §4.3: servers open no others.
                Next::Item(_) if id.initiator() == Side::Server => {
                    return Err(Error::new(
                        Code::H3_STREAM_CREATION_ERROR,
                        "a bidirectional stream of the server",
                    ));
                }
                Next::Item(item) => self.head_item(t, id, item),
                Next::Blocked => return Ok(()),
                Next::End => {
                    // RFC 9114 §4.1: without a whole request there is nothing to answer.
                    let code = if self.side.is_server() {
                        Code::H3_REQUEST_INCOMPLETE
                    } else {
                        Code::H3_MESSAGE_ERROR
                    };
                    Err(Fault::Stream(code, Abort::Malformed(Malformed("a stream that ends without a head"))))
                }
                Next::Reset(code) => Err(reset(code)),
            };
            self.head_fault(t, id, result)?;
        }
    }

    /// A message that ended while nobody read it.
    pub(super) fn head_fault(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        result: Result<(), Fault>,
    ) -> Result<(), Error> {
        let (code, why) = match result {
            Ok(()) => return Ok(()),
            Err(Fault::Connection(error)) => return Err(error),
            Err(Fault::Stream(code, why)) => (code, why),
        };
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        let told = exchange.told;
        if why == Abort::TooLarge && !told && exchange.sends == Phase::Head {
            // RFC 9114 §10.5.1, RFC 6585 §5: a client can be told.
            exchange.inflow.phase = Phase::Ended;
            t.stop(id, Code::H3_NO_ERROR.0);
            self.decoder.cancel(id.0);
            let _ = self.send_head(t, id, &Response::new(431).section());
            self.end(t, id);
            return Ok(());
        }
        if matches!(why, Abort::Malformed(_)) && !self.malformed.count_rare() {
            // RFC 9114 §10.5: each costs what a request does, and is none.
            return Err(Error::new(Code::H3_EXCESSIVE_LOAD, "too many malformed messages"));
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

    fn head_item(&mut self, t: &mut dyn Transport, id: StreamId, item: Item) -> Result<(), Fault> {
        match item {
            Item::Frame(Frame::Headers(coded)) => self.head(t, id, &coded),
            Item::Oversized => Err(too_large()),
            Item::Unknown(kind) => {
                tell(t, || Traced::Parsed(id, Told::Unknown(kind)));
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
        section: Section,
    ) -> Result<(), Fault> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        exchange.inflow.waiting = section == Section::Blocked;
        if let Section::Fields(fields) = &section {
            tell(t, || Traced::Parsed(id, Told::Headers(fields)));
        }
        match section {
            Section::Blocked => Ok(()),
            Section::TooLarge => Err(too_large()),
            Section::Fields(fields) if self.side.is_server() => self.request_head(t, id, fields),
            Section::Fields(fields) => self.response_head(t, id, fields),
        }
    }

    fn request_head(&mut self, t: &mut dyn Transport, id: StreamId, fields: Vec<Field>) -> Result<(), Fault> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        // RFC 9114 §5.2.
        if self.shutdown.is_refused(id) {
            return Err(Fault::Stream(Code::H3_REQUEST_REJECTED, Abort::Rejected));
        }
        let size = fields.iter().map(Field::size).sum();
        let request = Request::from_section(fields)?;
        // RFC 9220 §3: only when we said that we understand it.
        if request.protocol.is_some() && !self.ours.enable_connect_protocol {
            return Err(Malformed("an extended CONNECT that was not offered").into());
        }
        exchange.kind =
            Kind::of(&request, session_protocols(&self.ours, self.has_settings.then_some(&self.peer)));
        if exchange.kind == Kind::Session {
            self.admit_session(id)?;
        } else {
            // Streams that came before it, and wait for a session.
            self.drop_session(t, id);
        }
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        exchange.inflow.phase = Phase::Content;
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
    ) -> Result<(), Fault> {
        let Some(exchange) = self.exchanges.get_mut(&id) else { return Ok(()) };
        let size: u64 = fields.iter().map(Field::size).sum();
        let response = Response::from_section(fields)?;
        if response.is_interim() {
            exchange.interim += 1;
            exchange.interim_size += size;
            // RFC 9114 §10.5.1: all that the application may not have taken is no more than one section may
            // be.
            if exchange.interim > MAX_INTERIM || exchange.interim_size > self.config.max_field_section {
                return Err(Fault::Stream(Code::H3_EXCESSIVE_LOAD, Abort::TooLarge));
            }
            self.events.push_back(Event::Interim { id, response });
            return Ok(());
        }
        exchange.inflow.phase = Phase::Content;
        let tunnel = matches!(exchange.kind, Kind::Connect | Kind::Session) && response.is_success();
        exchange.inflow.tunnel = tunnel;
        exchange.inflow.length = match (exchange.kind, response.status) {
            // RFC 9110 §6.4.1, §9.3.6: what follows is no content, whichever 2xx it is.
            _ if tunnel => Length::default(),
            // RFC 9110 §6.4.1: no content, whatever is said of it.
            (Kind::Head, _) | (_, 204 | 304) => Length::none(),
            _ => Length::of(&response.fields),
        };
        let kind = exchange.kind;
        self.events.push_back(Event::Response { id, response });
        if kind == Kind::Session {
            self.answered(t, id, tunnel);
        }
        Ok(())
    }
}

fn content_length(kind: Kind, fields: &[Field]) -> Length {
    match kind {
        // What follows is not content (RFC 9110 §9.3.6).
        Kind::Connect | Kind::Session => Length::default(),
        Kind::Plain | Kind::Head => Length::of(fields),
    }
}

fn reset(code: u64) -> Fault {
    Fault::Stream(Code::H3_REQUEST_CANCELLED, Abort::by_code(code))
}

fn too_large() -> Fault {
    Fault::Stream(Code::H3_REQUEST_CANCELLED, Abort::TooLarge)
}

pub(super) const fn unexpected(reason: &'static str) -> Error {
    Error::new(Code::H3_FRAME_UNEXPECTED, reason)
}

/// Interim responses to a request at most: six bytes each may be, and an event is many times that.
const MAX_INTERIM: u32 = 64;

/// Nothing.
pub(super) const EMPTY: Bytes = Bytes::new();
