//! A client or server of HTTP/3 (RFC 9114) on the streams of a QUIC connection.
//!
//! In: [`StreamEvent`]s of the transport, and the application's verbs. Out: [`Event`]s, and verbs of the
//! [`Transport`] that each call is given. Nothing here waits or reads a clock. The protocol between the
//! parts:
//!
//! 1. A [`Connection`] is made when streams can be opened, and is given every stream event (and datagram)
//!    from then on.
//! 2. After each call, [`poll_event`](Connection::poll_event) is called until there is none.
//! 3. A head is an event; content is read when the application wants it, and until then stays where flow
//!    control counts it.
//! 4. A verb that is refused as `Blocked` is tried again after the event that its documentation names.
//!
//! Invariants: of each stream at most one field section, one small frame and one chunk are held that were not
//! asked for; no frame is written in parts by two verbs; a stream is forgotten when both directions are over.

mod codes;
mod config;
mod credit;
mod critical;
mod datagram;
mod drafts;
mod event;
mod exchange;
mod inlet;
mod outlet;
mod price;
mod receive;
mod repair;
mod schedule;
mod send;
mod session;
mod shutdown;
mod waiting;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;
use quickset_quic::{Carrier, Dir, Protection, Side, StreamEvent, StreamId};

pub use self::codes::{http_code, session_code};
pub use self::config::Config;
use self::critical::Critical;
use self::datagram::Queued;
pub use self::event::{Abort, BodyRead, Event, VerbRefusal};
use self::exchange::{Exchange, MessagePhase, SendWishes};
use self::inlet::Inlets;
use self::session::EstablishedSessions;
use self::shutdown::Shutdown;
use self::waiting::Waiting;
use crate::frame::{Frame, Settings};
use crate::idle::Idle;
use crate::qpack::{Decoder, Encoder};
use crate::trace::{StreamKind, TraceSide as Owner, Traced, TracedFrame, tell};
use crate::{Error, ErrorCode, Priority, Transport};

/// HTTP/3 on one QUIC connection.
// sizes: what all exchanges have in common, and the two tables of QPACK.
#[derive(Debug)]
pub struct Connection {
    side: Side,
    config: Config,
    /// What we told the peer.
    ours: Settings,
    /// What the peer told us, or what is assumed until then.
    peer: Settings,
    has_settings: bool,
    critical: Critical,
    inlets: Inlets,
    encoder: Encoder,
    decoder: Decoder,
    /// Each in a place of its own: what is large is moved about in a tree.
    exchanges: BTreeMap<StreamId, Box<Exchange>>,
    waiting: Waiting,
    sessions: EstablishedSessions,
    shutdown: Shutdown,
    /// Priorities of requests that have not come, by stream.
    early_priorities: BTreeMap<StreamId, Bytes>,
    /// Datagrams of requests that have not come.
    early_datagrams: VecDeque<(StreamId, Bytes)>,
    events: VecDeque<Event>,
    /// Those of them that are datagrams, of which there are not many at a time.
    queued: Queued,
    /// Priorities that changed since they were told; one for each request, however often the client changes
    /// its mind.
    priorities: BTreeMap<StreamId, Priority>,
    /// What a server says of responses that are over and have not arrived; one for each stream there may be.
    lingering: BTreeMap<StreamId, SendWishes>,
    /// Requests that were none, against those that were.
    malformed: Idle,
    /// Responses more urgent than this are repaired so.
    repair: Option<(u8, Protection)>,
    closed: Option<Error>,
}

/// What ends a message, or the connection.
#[derive(Clone, Copy, Debug)]
enum ExchangeFault {
    Stream(ErrorCode, Abort),
    Connection(Error),
}

impl From<Error> for ExchangeFault {
    fn from(error: Error) -> Self {
        Self::Connection(error)
    }
}

impl From<crate::MalformedMessage> for ExchangeFault {
    fn from(malformed: crate::MalformedMessage) -> Self {
        Self::Stream(ErrorCode::H3_MESSAGE_ERROR, Abort::Malformed(malformed))
    }
}

impl Connection {
    /// Begins: opens our streams and says what we take.
    pub fn new(side: Side, config: Config, t: &mut dyn Transport) -> Self {
        let mut ours = config.settings(side.is_server());
        if !t.takes_datagrams() {
            // RFC 9297 §2.1.1: not without those of QUIC; and no WebTransport without datagrams.
            ours = Settings { h3_datagram: false, ..ours.without_sessions() };
            ours.enable_connect_protocol = side.is_server() && config.extended_connect;
        }
        let peer = config.remembered.filter(|_| side.is_client()).unwrap_or_default();
        let mut encoder = Encoder::new(config.table);
        encoder.apply(peer.qpack_max_table_capacity, peer.qpack_blocked_streams);
        let mut this = Self {
            side,
            ours,
            peer,
            has_settings: false,
            critical: Critical::new(&ours),
            inlets: Inlets::default(),
            encoder,
            decoder: Decoder::new(config.table, config.max_blocked, config.max_field_section),
            exchanges: BTreeMap::new(),
            waiting: Waiting::default(),
            sessions: EstablishedSessions::default(),
            shutdown: Shutdown::default(),
            early_priorities: BTreeMap::new(),
            early_datagrams: VecDeque::new(),
            events: VecDeque::new(),
            queued: Queued::default(),
            priorities: BTreeMap::new(),
            lingering: BTreeMap::new(),
            malformed: Idle::default(),
            repair: None,
            closed: None,
            config,
        };
        tell(t, || Traced::Settings(Owner::Local, &this.ours));
        this.settle(t, Ok(()));
        this
    }

    /// Something happened to a stream, or streams.
    pub fn handle(&mut self, t: &mut dyn Transport, event: StreamEvent) {
        self.handle_among(t, event);
        self.handled(t);
    }

    /// The same for one of several events that are told together: what is owed to the peer for all of them
    /// leaves at once, with [`handled`](Self::handled), which has to be called behind the last.
    pub fn handle_among(&mut self, t: &mut dyn Transport, event: StreamEvent) {
        if self.closed.is_some() {
            return;
        }
        let result = match event {
            StreamEvent::Opened(Dir::Bi) => self.accept(t),
            StreamEvent::Opened(Dir::Uni) => self.accept_inlets(t),
            StreamEvent::Available(Dir::Bi) => {
                self.events.push_back(Event::Available(Dir::Bi));
                Ok(())
            }
            StreamEvent::Available(Dir::Uni) => {
                // The connection's own come first: the rest waits for them.
                self.critical.flush(t);
                if self.sessions.takes_heart() {
                    self.events.push_back(Event::Available(Dir::Uni));
                }
                Ok(())
            }
            StreamEvent::Readable(id) => self.readable(t, id),
            StreamEvent::Writable(id) => {
                self.writable(t, id);
                Ok(())
            }
            StreamEvent::Stopped { id, code } => self.stopped(t, id, code),
            StreamEvent::Finished(id) | StreamEvent::ResetArrived(id) => {
                self.sent_whole(id);
                Ok(())
            }
            // Messages there are none.
            StreamEvent::Message(_) | StreamEvent::Outcome(_) => Ok(()),
        };
        if result.is_err() {
            self.settle(t, result);
        }
    }

    /// Events were [told](Self::handle_among), and there are no more for now.
    pub fn handled(&mut self, t: &mut dyn Transport) {
        if self.closed.is_none() {
            self.settle(t, Ok(()));
        }
    }

    /// What happened, in order; changes of priorities last.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front();
        if let Some(Event::Datagram { payload, .. }) = &event {
            self.queued.taken(payload.len());
        }
        event.or_else(|| self.priorities.pop_first().map(|(id, priority)| Event::Priority { id, priority }))
    }

    /// The peer's settings, once they are known: what a client may remember for early data of a later
    /// connection.
    pub fn peer_settings(&self) -> Option<&Settings> {
        self.has_settings.then_some(&self.peer)
    }

    /// True when no request is under way: after a goodbye, the time to close the connection with H3_NO_ERROR.
    pub fn is_idle(&self) -> bool {
        self.exchanges.is_empty()
    }

    /// Why the connection was closed, if the peer broke the protocol.
    pub fn closed(&self) -> Option<&Error> {
        self.closed.as_ref()
    }

    /// Says that the connection is to end (GOAWAY, RFC 9114 §5.2), and makes no more requests. A server says
    /// with `soon` that no new requests are wanted, and without that none is served but those that were seen:
    /// first the one, a round trip later the other, loses nothing.
    pub fn go_away(&mut self, t: &mut dyn Transport, soon: bool) {
        if let Some(id) = self.shutdown.goodbye(self.side, soon) {
            self.say(t, &Frame::GoAway(id));
        }
        self.settle(t, Ok(()));
    }

    /// New bidirectional streams.
    fn accept(&mut self, t: &mut dyn Transport) -> Result<(), Error> {
        while let Some(id) = t.accept(Dir::Bi) {
            if self.side.is_client() && !self.ours.takes_sessions() {
                // RFC 9114 §6.1: servers open none.
                return Err(Error::new(
                    ErrorCode::H3_STREAM_CREATION_ERROR,
                    "a bidirectional stream of the server",
                ));
            }
            let webtransport = self.ours.takes_sessions();
            // A stream of WebTransport is no new request: then the head tells.
            if self.side.is_server() && !self.shutdown.admit(id) && !webtransport {
                self.refuse(t, id, ErrorCode::H3_REQUEST_REJECTED);
                continue;
            }
            tell(t, || Traced::Stream(Owner::Remote, id, StreamKind::Request));
            let mut exchange = Exchange::new(self.side, self.config.max_field_section, webtransport);
            exchange.told = false;
            self.exchanges.insert(id, Box::new(exchange));
            self.pump(t, id)?;
        }
        Ok(())
    }

    /// Says something on the control stream.
    fn say(&mut self, t: &mut dyn Transport, frame: &Frame) {
        if let Some(id) = self.critical.control() {
            tell(t, || Traced::Created(id, TracedFrame::Other(frame)));
        }
        self.critical.send(frame);
    }

    /// A stream of which nothing was read, and nothing will be.
    fn refuse(&mut self, t: &mut dyn Transport, id: StreamId, code: ErrorCode) {
        t.charge(Carrier::Stream(id), price::REFUSED);
        t.reset(id, code.0);
        t.stop(id, code.0);
        self.decoder.cancel(id.0);
    }

    fn readable(&mut self, t: &mut dyn Transport, id: StreamId) -> Result<(), Error> {
        if self.sessions.has_stream(id) {
            self.session_readable(id);
            return Ok(());
        }
        let Some(exchange) = self.exchanges.get_mut(&id) else { return self.inlet_readable(t, id) };
        if exchange.inflow.waiting {
            exchange.inflow.watch(t, id);
        }
        if exchange.inflow.wanted {
            exchange.inflow.wanted = false;
            self.events.push_back(Event::Readable(id));
        }
        self.pump(t, id)?;
        self.hear(t, id);
        Ok(())
    }

    fn writable(&mut self, t: &mut dyn Transport, id: StreamId) {
        if self.sessions.has_stream(id) {
            self.session_writable(t, id);
        } else if let Some(exchange) = self.exchanges.get_mut(&id) {
            if exchange.out.flush(t, id) && core::mem::take(&mut exchange.out.refused) {
                self.events.push_back(Event::Writable(id));
            }
            self.note_parts(id);
            self.tidy(id);
        }
    }

    fn stopped(&mut self, t: &mut dyn Transport, id: StreamId, code: u64) -> Result<(), Error> {
        // RFC 9114 §6.2.1, RFC 9204 §4.2: nobody may ask that.
        if self.critical.has(id) {
            return Err(Error::new(ErrorCode::H3_CLOSED_CRITICAL_STREAM, "a critical stream was stopped"));
        }
        self.sent_whole(id);
        self.charge_classes(t, id);
        if self.sessions.has_stream(id) {
            self.session_stopped(id, code);
        } else if let Some(exchange) = self.exchanges.get_mut(&id) {
            exchange.out.end();
            exchange.sends = MessagePhase::Ended;
            if exchange.told {
                self.events.push_back(Event::Stopped { id, code });
            } else {
                exchange.unwanted = Some(code);
            }
            if self.sessions.is_open(id) {
                self.abort(t, id, ErrorCode::WT_SESSION_GONE);
            }
            self.tidy(id);
        }
        Ok(())
    }

    /// After each call: what is owed to the peer leaves, and an error ends all.
    fn settle(&mut self, t: &mut dyn Transport, result: Result<(), Error>) {
        let result = result.and_then(|()| {
            if self.critical.wants_encoder() {
                self.critical.encoder(self.encoder.take_instructions());
            }
            self.critical.decoder(self.decoder.take_instructions())
        });
        match result {
            Ok(()) => self.critical.flush(t),
            Err(error) => {
                // RFC 9114 §5.3: at once, and the code says why.
                tracing::debug!(%error, "HTTP/3 connection closed");
                t.close(error.code.0, error.reason.as_bytes());
                self.exchanges.clear();
                self.waiting = Waiting::default();
                self.inlets = Inlets::default();
                self.sessions = EstablishedSessions::default();
                self.early_priorities.clear();
                self.early_datagrams.clear();
                self.priorities.clear();
                self.lingering.clear();
                self.closed = Some(error);
                self.events.push_back(Event::Closed(error));
            }
        }
    }

    /// Forgets a stream of which both directions are over.
    fn tidy(&mut self, id: StreamId) {
        if self.exchanges.get(&id).is_some_and(|exchange| exchange.is_over()) {
            self.forget_priorities(id);
            if let Some(exchange) = self.forget(id) {
                self.linger(id, exchange);
            }
        }
    }

    /// Gives a stream up, in both directions.
    fn abort(&mut self, t: &mut dyn Transport, id: StreamId, code: ErrorCode) {
        self.hush(id);
        let Some(exchange) = self.forget(id) else { return };
        self.forget_priorities(id);
        if !exchange.out.is_over() {
            t.reset(id, code.0);
        }
        if exchange.inflow.phase != MessagePhase::Ended {
            t.stop(id, code.0);
            self.decoder.cancel(id.0);
        }
        self.end_session(t, id, 0, Bytes::new());
    }
}
