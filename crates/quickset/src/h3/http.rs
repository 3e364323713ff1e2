//! What the handles of an HTTP/3 connection share: the machine, and who waits for what.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use quickset_h3::{
    Abort, Config, Connection as Machine, ErrorCode, Event, OnQuic, Priority, Request, Response, VerbRefusal,
};
use quickset_net::{Connection, Layer, LayerClock, LayerTaken, LayerTurn, Layered};
use quickset_quic::{Protection, SendState, StreamEvent, StreamId};

use super::HttpError;
use super::webtransport::SessionRoom;

/// HTTP/3 on a connection, as its lock guards it.
pub(super) struct Http {
    machine: Machine,
    /// Bytes of datagrams of an exchange that are kept for its reader at most.
    datagram_bytes: usize,
    /// Each in a place of its own: what is large is moved about in a tree.
    pub(super) slots: BTreeMap<StreamId, Box<ExchangeSlot>>,
    /// Sessions of WebTransport, by the stream of their request.
    pub(super) rooms: BTreeMap<StreamId, SessionRoom>,
    /// Requests that nobody took yet: as many as QUIC lets the client have open.
    incoming: VecDeque<(StreamId, Request, Priority)>,
    /// Exchanges whose last byte the peer has not acknowledged.
    pub(super) undelivered: BTreeSet<StreamId>,
    /// Who waits for requests; for leave to make one; for settings, or for the last exchange to end.
    acceptors: Vec<Waker>,
    pub(super) available: Vec<Waker>,
    watchers: Vec<Waker>,
    /// The peer takes no new requests.
    pub(super) going: bool,
    /// The peer's breach of the protocol.
    fault: Option<quickset_h3::Error>,
}

/// What the handles of an exchange wait for and have to be told.
#[derive(Debug, Default)]
pub(super) struct ExchangeSlot {
    pub(super) response: Option<Response>,
    /// The machine takes no more than some dozen of them.
    pub(super) interim: VecDeque<Response>,
    pub(super) aborted: Option<Abort>,
    /// Another handle gave the exchange up, with this code.
    given_up: Option<ErrorCode>,
    pub(super) stopped: Option<u64>,
    /// What the client thinks now, until the server has asked.
    pub(super) priority: Option<Priority>,
    pub(super) datagrams: VecDeque<Bytes>,
    /// Why the peer's half ended early, as the reader of its content was told.
    pub(super) broken: Option<Abort>,
    pub(super) reader: Option<Waker>,
    pub(super) writer: Option<Waker>,
    /// Who waits for datagrams.
    pub(super) listeners: Vec<Waker>,
    pub(super) prioritised: Option<Waker>,
    /// Who waits until the peer wants no more of what is sent.
    pub(super) watchers: Vec<Waker>,
}

/// What all handles of an HTTP/3 connection hold: with the last of them the connection ends.
pub(super) struct HttpLink {
    pub(super) layered: Layered<Http>,
}

/// What all handles of an exchange hold.
pub(super) struct ExchangeHandle {
    pub(super) link: Arc<HttpLink>,
    pub(super) id: StreamId,
}

impl Http {
    pub(super) fn begin(connection: &Connection, config: Config) -> Result<Arc<HttpLink>, LayerTaken> {
        let side = connection.side();
        let datagram_bytes = config.max_datagram_bytes;
        let layered = connection.layered(|turn| Self {
            datagram_bytes,
            machine: Machine::new(side, config, &mut on_quic(turn)),
            slots: BTreeMap::new(),
            rooms: BTreeMap::new(),
            incoming: VecDeque::new(),
            undelivered: BTreeSet::new(),
            acceptors: Vec::new(),
            available: Vec::new(),
            watchers: Vec::new(),
            going: false,
            fault: None,
        })?;
        Ok(Arc::new(HttpLink { layered }))
    }

    /// A verb of the machine. What it leads to is told.
    pub(super) fn verb<T>(
        &mut self,
        turn: &mut LayerTurn<'_>,
        verb: impl FnOnce(&mut Machine, &mut OnTurn<'_>) -> T,
    ) -> T {
        let result = verb(&mut self.machine, &mut on_quic(turn));
        self.tell(turn);
        result
    }

    /// Why nothing more happens on this connection, if so. Without a goodbye nobody knows what became of a
    /// request (RFC 9114 §5.4): that is not called rejected.
    pub(super) fn over(&self, turn: &LayerTurn<'_>) -> Option<HttpError> {
        let fault = self.fault.map(HttpError::Protocol);
        fault.or_else(|| turn.connection.closed().cloned().map(HttpError::Closed))
    }

    /// The words for what the machine refused.
    pub(super) fn refused(
        &self,
        turn: &LayerTurn<'_>,
        id: Option<StreamId>,
        refusal: VerbRefusal,
    ) -> HttpError {
        let slot = id.and_then(|id| self.slots.get(&id));
        let stopped = slot.and_then(|slot| slot.stopped);
        match (refusal, slot.and_then(|slot| slot.ended()), stopped) {
            (VerbRefusal::Aborted(why), ..) => HttpError::Aborted(why),
            (VerbRefusal::Closed, ..) => self.over(turn).unwrap_or(HttpError::Refused(refusal)),
            (_, Some(ended), _) => ended,
            (VerbRefusal::OutOfOrder | VerbRefusal::UnknownStream, None, Some(code)) => {
                HttpError::Stopped(code)
            }
            _ => self.over(turn).unwrap_or(HttpError::Refused(refusal)),
        }
    }

    pub(super) fn slot(&mut self, id: StreamId) -> &mut ExchangeSlot {
        self.slots.entry(id).or_default()
    }

    pub(super) fn settings(&self) -> Option<quickset_h3::Settings> {
        self.machine.peer_settings().copied()
    }

    /// A request was made.
    pub(super) fn made(&mut self, id: StreamId) {
        self.undelivered.insert(id);
        self.slots.entry(id).or_default();
    }

    /// The next request that was not given up meanwhile.
    pub(super) fn next_incoming(
        &mut self,
        turn: &mut LayerTurn<'_>,
    ) -> Option<(StreamId, Request, Priority)> {
        let incoming = self.incoming.pop_front();
        if let Some((id, ..)) = &incoming {
            self.verb(turn, |machine, t| machine.took(t, *id));
        }
        incoming
    }

    /// A request that was given up does not wait for anybody: else a client that makes and gives up one after
    /// the other would have us keep all of them.
    fn forget_incoming(&mut self, id: StreamId) {
        let waiting = self.incoming.len();
        self.incoming.retain(|(other, ..)| *other != id);
        if self.incoming.len() < waiting {
            self.slots.remove(&id);
        }
    }

    /// Nobody takes requests any more. RFC 9114 §4.1.1: nothing was done with these, so that they may be made
    /// again.
    pub(super) fn reject_incoming(&mut self, turn: &mut LayerTurn<'_>) {
        self.verb(turn, |machine, t| machine.go_away(t, false));
        for (id, ..) in std::mem::take(&mut self.incoming) {
            self.undelivered.remove(&id);
            self.slots.remove(&id);
            self.verb(turn, |machine, t| machine.cancel(t, id, ErrorCode::H3_REQUEST_REJECTED));
        }
    }

    /// Gives an exchange up, in both directions.
    fn cancel(&mut self, turn: &mut LayerTurn<'_>, id: StreamId, code: ErrorCode) {
        self.undelivered.remove(&id);
        self.verb(turn, |machine, t| machine.cancel(t, id, code));
        // The machine does not tell of what it was told.
        self.on_slot(id, turn, |slot, woken| {
            slot.given_up.get_or_insert(code);
            slot.wake(woken);
        });
    }

    pub(super) fn await_incoming(&mut self, waker: &Waker) {
        wait(&mut self.acceptors, waker);
    }

    pub(super) fn await_available(&mut self, waker: &Waker) {
        wait(&mut self.available, waker);
    }

    pub(super) fn watch(&mut self, waker: &Waker) {
        wait(&mut self.watchers, waker);
    }

    /// No exchange is under way, and all that was sent has arrived.
    fn is_idle(&mut self, turn: &LayerTurn<'_>) -> bool {
        let is_sent = |id: &StreamId| {
            matches!(turn.connection.stream(*id).send_state(), Some(SendState::Open | SendState::Finishing))
        };
        self.machine.is_idle() && {
            self.undelivered.retain(is_sent);
            self.undelivered.is_empty()
        }
    }

    /// Passes on what the machine has to tell.
    fn tell(&mut self, turn: &mut LayerTurn<'_>) {
        while let Some(event) = self.machine.poll_event() {
            self.on_event(turn, event);
        }
        turn.connection.hold_above(self.machine.held());
        if !self.watchers.is_empty() && self.is_idle(turn) {
            turn.woken.append(&mut self.watchers);
        }
    }

    fn on_event(&mut self, turn: &mut LayerTurn<'_>, event: Event) {
        match event {
            Event::Settings(_) => turn.woken.append(&mut self.watchers),
            Event::Request { id, request, priority } => {
                self.made(id);
                self.incoming.push_back((id, request, priority));
                turn.woken.append(&mut self.acceptors);
            }
            Event::Available(_) => turn.woken.append(&mut self.available),
            Event::GoAway => {
                self.going = true;
                turn.woken.append(&mut self.available);
                turn.woken.append(&mut self.watchers);
            }
            Event::Closed(error) => {
                self.fault = Some(error);
                self.wake_all(turn);
            }
            Event::Interim { id, response } => self.on_slot(id, turn, |slot, woken| {
                slot.interim.push_back(response);
                woken.extend(slot.reader.take());
            }),
            Event::Response { id, response } => self.on_slot(id, turn, |slot, woken| {
                slot.response = Some(response);
                woken.extend(slot.reader.take());
            }),
            Event::Readable(id) => self.on_slot(id, turn, |slot, woken| woken.extend(slot.reader.take())),
            Event::Writable(id) => self.on_slot(id, turn, |slot, woken| woken.extend(slot.writer.take())),
            Event::Stopped { id, code } => {
                self.undelivered.remove(&id);
                self.on_slot(id, turn, |slot, woken| {
                    slot.stopped = Some(code);
                    woken.extend(slot.writer.take());
                    woken.extend(slot.prioritised.take());
                    woken.append(&mut slot.watchers);
                });
            }
            Event::Aborted { id, why } => {
                self.undelivered.remove(&id);
                self.on_slot(id, turn, |slot, woken| {
                    slot.aborted = Some(why);
                    slot.wake(woken);
                });
                self.forget_incoming(id);
            }
            Event::Priority { id, priority } => {
                self.on_slot(id, turn, |slot, woken| {
                    slot.priority = Some(priority);
                    woken.extend(slot.prioritised.take());
                });
            }
            Event::Datagram { id, payload } => self.on_datagram(turn, id, payload),
            Event::Silent(id) => self.on_slot(id, turn, |slot, woken| woken.append(&mut slot.listeners)),
            Event::SessionStream { session, id, dir } => self.on_session_stream(turn, session, id, dir),
            Event::SessionDraining(session) => self.on_session_draining(turn, session),
            Event::SessionClosed { session, code, reason } => {
                self.on_session_closed(turn, session, code, &reason);
            }
        }
    }

    fn on_datagram(&mut self, turn: &mut LayerTurn<'_>, id: StreamId, payload: Bytes) {
        let max_bytes = self.datagram_bytes;
        self.on_slot(id, turn, |slot, woken| {
            keep(&mut slot.datagrams, payload, max_bytes);
            woken.append(&mut slot.listeners);
        });
        if let Some(room) = self.rooms.get_mut(&id) {
            turn.woken.append(&mut room.listening);
        }
    }

    /// What came is told before what ends the exchange that it belongs to.
    pub(super) fn take_datagrams(&mut self, turn: &mut LayerTurn<'_>) {
        let mut any = false;
        while let Some(data) = turn.connection.datagrams().recv() {
            self.machine.handle_datagram(&mut on_quic(turn), data);
            any = true;
        }
        if any {
            self.tell(turn);
        }
    }

    pub(super) fn on_slot(
        &mut self,
        id: StreamId,
        turn: &mut LayerTurn<'_>,
        act: impl FnOnce(&mut ExchangeSlot, &mut Vec<Waker>),
    ) {
        if let Some(slot) = self.slots.get_mut(&id) {
            act(slot, turn.woken);
        }
    }

    fn wake_all(&mut self, turn: &mut LayerTurn<'_>) {
        for list in [&mut self.acceptors, &mut self.available, &mut self.watchers] {
            turn.woken.append(list);
        }
        self.slots.values_mut().for_each(|slot| slot.wake(turn.woken));
        self.rooms.values_mut().for_each(|room| room.wake(turn.woken));
    }
}

impl Layer for Http {
    fn on_stream(&mut self, turn: &mut LayerTurn<'_>, event: StreamEvent) {
        if let StreamEvent::Finished(id) | StreamEvent::Stopped { id, .. } | StreamEvent::ResetArrived(id) =
            event
        {
            self.undelivered.remove(&id);
        }
        // Those of requests that are not known yet are better told behind these.
        if matches!(event, StreamEvent::Readable(id) if self.slots.contains_key(&id)) {
            self.take_datagrams(turn);
        }
        self.machine.handle_among(&mut on_quic(turn), event);
        self.tell(turn);
    }

    fn on_told(&mut self, turn: &mut LayerTurn<'_>) {
        self.verb(turn, |machine, t| machine.handled(t));
    }

    fn on_datagrams(&mut self, turn: &mut LayerTurn<'_>) {
        self.take_datagrams(turn);
    }

    fn on_closed(&mut self, turn: &mut LayerTurn<'_>) {
        self.tell(turn);
        self.wake_all(turn);
    }

    fn no_error(&self) -> u64 {
        // RFC 9114 §8.1.
        ErrorCode::H3_NO_ERROR.0
    }
}

impl ExchangeSlot {
    /// Why nothing more comes of the exchange, if it did not come to its end.
    pub(super) fn ended(&self) -> Option<HttpError> {
        let given_up = || self.given_up.map(HttpError::GivenUp);
        self.aborted.map(HttpError::Aborted).or_else(given_up)
    }

    pub(super) fn wake(&mut self, woken: &mut Vec<Waker>) {
        woken.extend(self.reader.take());
        woken.extend(self.writer.take());
        woken.append(&mut self.listeners);
        woken.extend(self.prioritised.take());
        woken.append(&mut self.watchers);
    }
}

impl HttpLink {
    pub(super) fn close(&self) {
        // RFC 9114 §5.2.
        self.layered.connection().close(ErrorCode::H3_NO_ERROR.0, b"");
    }

    /// Says goodbye and waits for the exchanges under way, and for what was sent to arrive. Ends the
    /// connection then.
    pub(super) async fn shutdown(&self) {
        let layered = &self.layered;
        if layered.connection().side().is_server() {
            layered.with(|http, turn| http.verb(turn, |machine, t| machine.go_away(t, true)));
            // RFC 9114 §5.2: requests that were on their way when the client heard of it are still served.
            layered.connection().round_trip().await;
        }
        layered.with(|http, turn| http.verb(turn, |machine, t| machine.go_away(t, false)));
        poll_fn(|cx| {
            layered.poll(cx, |http, turn, waker| {
                if http.is_idle(turn) || http.over(turn).is_some() {
                    return Poll::Ready(());
                }
                http.watch(waker);
                Poll::Pending
            })
        })
        .await;
        self.close();
    }
}

impl ExchangeHandle {
    /// A verb of the machine, on this exchange.
    pub(super) fn verb<T>(
        &self,
        verb: impl FnOnce(&mut Machine, &mut OnTurn<'_>, StreamId) -> Result<T, VerbRefusal>,
    ) -> Result<T, HttpError> {
        self.link.layered.with(|http, turn| {
            if let Some(over) = http.over(turn) {
                return Err(over);
            }
            let result = http.verb(turn, |machine, t| verb(machine, t, self.id));
            result.map_err(|refusal| http.refused(turn, Some(self.id), refusal))
        })
    }

    /// How losses of what we send are repaired from now on.
    pub(super) fn protect(&self, protection: &Protection) {
        // An unknown stream is one that is over.
        let _ =
            self.link.layered.with(|_, turn| turn.connection.send_stream(self.id).set_protection(protection));
    }

    /// Gives the exchange up, in both directions. Its other handles hear of it.
    pub(super) fn cancel(&self, code: ErrorCode) {
        self.link.layered.with(|http, turn| http.cancel(turn, self.id, code));
    }

    /// What is sent stays incomplete: the exchange is given up, unless the peer knows of that. RFC 9114 §4.1:
    /// who wants no more of a request may answer it all the same, and the answer counts.
    pub(super) fn leave_incomplete(&self, code: ErrorCode) {
        self.link.layered.with(|http, turn| {
            if http.slots.get(&self.id).is_none_or(|slot| slot.stopped.is_none()) {
                http.cancel(turn, self.id, code);
            }
        });
    }

    /// Waits for something of the exchange's slot, which `take` finds or leaves a waker for.
    pub(super) async fn wait<T>(
        &self,
        mut take: impl FnMut(&mut ExchangeSlot, &Waker) -> Poll<T>,
    ) -> Result<T, HttpError> {
        poll_fn(|cx| {
            self.link.layered.poll(cx, |http, turn, waker| {
                let over = http.over(turn);
                let slot = http.slot(self.id);
                match (take(slot, waker), slot.ended(), over) {
                    (Poll::Ready(found), ..) => Poll::Ready(Ok(found)),
                    (Poll::Pending, Some(ended), _) => Poll::Ready(Err(ended)),
                    (Poll::Pending, None, Some(over)) => Poll::Ready(Err(over)),
                    (Poll::Pending, None, None) => Poll::Pending,
                }
            })
        })
        .await
    }
}

impl Drop for ExchangeHandle {
    fn drop(&mut self) {
        self.link.layered.with(|http, _| http.slots.remove(&self.id));
    }
}

impl Drop for HttpLink {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for HttpLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("connection", self.layered.connection()).finish()
    }
}

impl fmt::Debug for ExchangeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The transport that a turn of the layer acts on.
pub(super) type OnTurn<'a> = OnQuic<'a, LayerClock<'a>>;

pub(super) fn on_quic<'a>(turn: &'a mut LayerTurn<'_>) -> OnTurn<'a> {
    OnQuic { connection: turn.connection, now: turn.clock }
}

/// What was found, or else the task waits for it.
pub(super) fn or_wait<T>(found: Option<T>, place: &mut Option<Waker>, waker: &Waker) -> Poll<T> {
    if found.is_none() {
        *place = Some(waker.clone());
    }
    found.map_or(Poll::Pending, Poll::Ready)
}

/// The task waits. One that polls again and again is kept once.
pub(super) fn wait(list: &mut Vec<Waker>, waker: &Waker) {
    if !list.iter().any(|kept| kept.will_wake(waker)) {
        list.push(waker.clone());
    }
}

/// Datagrams that nobody takes make room for later ones. One that is larger than `max_bytes` is kept alone.
fn keep(waiting: &mut VecDeque<Bytes>, payload: Bytes, max_bytes: usize) {
    let mut bytes = payload.len() + waiting.iter().map(Bytes::len).sum::<usize>();
    while waiting.len() >= MAX_DATAGRAMS || bytes > max_bytes {
        let Some(oldest) = waiting.pop_front() else { break };
        bytes -= oldest.len();
    }
    waiting.push_back(payload);
}

/// Datagrams of an exchange kept for its reader at most.
const MAX_DATAGRAMS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_that_nobody_takes_are_bounded_in_number_and_in_bytes() {
        let of = |n: u8, len: usize| Bytes::from(vec![n; len]);
        let kept = |sizes: &[usize], max_bytes| {
            let mut waiting = VecDeque::new();
            for (n, len) in (0..).zip(sizes) {
                keep(&mut waiting, of(n, *len), max_bytes);
            }
            waiting.iter().map(|payload| payload[0]).collect::<Vec<u8>>()
        };
        assert_eq!(kept(&[1; 70], 1000), (6..70).collect::<Vec<u8>>());
        assert_eq!(kept(&[400, 400, 200], 1000), [0, 1, 2]);
        assert_eq!(kept(&[400, 400, 200, 1], 1000), [1, 2, 3], "the oldest make room");
        assert_eq!(kept(&[400, 1001], 1000), [1], "what is too large waits alone");
        assert_eq!(kept(&[1001, 10], 1000), [1]);
    }
}
