use std::collections::VecDeque;

use quickset_base::{AddressPair, Batch, Datagram, Input, Machine, Poll, Reason, Time};

use crate::conn::Connection;
use crate::endpoint::ClientConfig;
use crate::endpoint::{Admission, BeginError, ConnectionKey, DatagramRoute, Endpoint, EndpointResponse};
use crate::event::{Event, Signal};
use crate::refusal::SystemRefusal;

/// An endpoint with its connections: the whole of QUIC as one [`Machine`], for the simulator and the fuzzers.
///
/// The driver of a socket does the same with locks around each connection; see the `net` crate.
#[derive(Debug)]
pub struct Node {
    endpoint: Endpoint,
    connections: Vec<ConnectionSlot>,
    responses: VecDeque<EndpointResponse>,
    events: VecDeque<(ConnectionKey, Event)>,
    inbox: Vec<Datagram>,
    /// Where the next round of polls begins, so that all connections get their turn.
    turn: usize,
    /// Whose batch was returned last; `None`: nobody's.
    sender: Option<ConnectionKey>,
}

#[derive(Debug)]
struct ConnectionSlot {
    key: ConnectionKey,
    connection: Box<Connection>,
    wake: Wake,
}

/// Whether a connection must be polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    Now,
    At(Option<Time>, Reason),
}

impl Node {
    /// A node without connections.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            connections: Vec::new(),
            responses: VecDeque::new(),
            events: VecDeque::new(),
            inbox: Vec::new(),
            turn: 0,
            sender: None,
        }
    }

    /// Begins a connection to the server at `path`.
    ///
    /// # Errors
    /// See [`BeginError`].
    pub fn connect(
        &mut self,
        now: Time,
        config: &ClientConfig,
        path: AddressPair,
        server_name: &str,
    ) -> Result<ConnectionKey, BeginError> {
        let (key, start) = self.endpoint.connect(now, config, path, server_name, Vec::new())?;
        match Connection::new(start) {
            Ok(connection) => {
                self.connections.push(ConnectionSlot {
                    key,
                    connection: Box::new(connection),
                    wake: Wake::Now,
                });
                Ok(key)
            }
            Err(error) => {
                self.endpoint.signal(key, Signal::Drained);
                Err(BeginError::Crypto(error.to_string()))
            }
        }
    }

    /// The next event of any connection.
    pub fn poll_event(&mut self) -> Option<(ConnectionKey, Event)> {
        self.events.pop_front()
    }

    /// A connection, until it has drained. It is polled after this.
    pub fn connection(&mut self, key: ConnectionKey) -> Option<&mut Connection> {
        let slot = self.connections.iter_mut().find(|s| s.key == key)?;
        slot.wake = Wake::Now;
        Some(&mut slot.connection)
    }

    /// The connections that have not drained.
    pub fn keys(&self) -> impl Iterator<Item = ConnectionKey> {
        self.connections.iter().map(|s| s.key)
    }

    /// The system did not take the batch that was returned last, but for datagrams whose bits are set in
    /// `left` ([`Connection::not_sent`]).
    pub fn not_sent(&mut self, now: Time, batch: &Batch, left: u64, refusal: SystemRefusal) {
        match self.sender.and_then(|key| self.connection(key)) {
            Some(connection) => connection.not_sent(now, batch, left, refusal),
            None => self.endpoint.response_refused(),
        }
    }

    /// The endpoint, for its counters.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn receive(&mut self, now: Time, datagrams: &mut Vec<Datagram>) {
        let mut current = None;
        for datagram in datagrams.drain(..) {
            let mut route = self.endpoint.route(now, datagram);
            if let DatagramRoute::Incoming(incoming) = route {
                route = match self.endpoint.admission(&incoming) {
                    Admission::Accept => match self.endpoint.accept(now, incoming) {
                        Ok((key, start, datagram)) => {
                            self.born(key, start);
                            DatagramRoute::Connection(key, datagram)
                        }
                        Err(route) => route,
                    },
                    Admission::Retry => {
                        self.responses.extend(self.endpoint.retry(now, incoming));
                        continue;
                    }
                    Admission::Refuse => {
                        self.responses.extend(self.endpoint.refuse(incoming));
                        continue;
                    }
                    Admission::Ignore => {
                        self.endpoint.ignore(incoming);
                        continue;
                    }
                };
            }
            match route {
                DatagramRoute::Connection(key, datagram) => {
                    if current != Some(key) {
                        self.deliver(now, current);
                        current = Some(key);
                    }
                    self.inbox.push(datagram);
                }
                DatagramRoute::Respond(response) => self.responses.push_back(response),
                DatagramRoute::Reset(key) => {
                    self.deliver(now, current.take());
                    if let Some(connection) = self.connection(key) {
                        connection.on_stateless_reset();
                    }
                }
                DatagramRoute::Incoming(_) | DatagramRoute::Dropped(_) => {}
            }
        }
        self.deliver(now, current);
        self.make_room();
    }

    /// Tells connections that their places are another's.
    fn make_room(&mut self) {
        while let Some(key) = self.endpoint.displaced() {
            if let Some(connection) = self.connection(key) {
                connection.make_room();
            }
        }
    }

    fn born(&mut self, key: ConnectionKey, start: crate::ConnectionStart) {
        match Connection::new(start) {
            Ok(connection) => {
                self.connections.push(ConnectionSlot {
                    key,
                    connection: Box::new(connection),
                    wake: Wake::Now,
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not begin");
                self.endpoint.signal(key, Signal::Drained);
            }
        }
    }

    /// Hands the datagrams collected so far to their connection.
    fn deliver(&mut self, now: Time, key: Option<ConnectionKey>) {
        let Some(key) = key else { return };
        let mut inbox = std::mem::take(&mut self.inbox);
        if let Some(connection) = self.connection(key) {
            connection.handle(now, Input::Received(&mut inbox));
        }
        inbox.clear();
        self.inbox = inbox;
    }

    /// Passes what a connection tells on to whom it concerns.
    fn collect(&mut self, at: usize) {
        let slot = &mut self.connections[at];
        while let Some(event) = slot.connection.poll_event() {
            self.events.push_back((slot.key, event));
        }
        while let Some(signal) = slot.connection.poll_signal() {
            if let Some(issued) = self.endpoint.signal(slot.key, signal) {
                slot.connection.add_local_cids(issued);
            }
        }
        self.make_room();
    }

    /// Polls the connections that are due, once around. Send or event, if any wants to.
    fn poll_connections(&mut self, now: Time, out: &mut Batch) -> Option<Poll> {
        for _ in 0..self.connections.len() {
            let at = self.turn % self.connections.len();
            let slot = &mut self.connections[at];
            if let Wake::At(due, _) = slot.wake {
                if due.is_none_or(|t| t > now) {
                    self.turn = at + 1;
                    continue;
                }
                slot.connection.handle(now, Input::Timer);
            }
            match slot.connection.poll(now, out) {
                Poll::Send => {
                    slot.wake = Wake::Now;
                    self.sender = Some(slot.key);
                    self.turn = at + 1;
                    return Some(Poll::Send);
                }
                Poll::Event => {
                    slot.wake = Wake::Now;
                    self.collect(at);
                    if self.connections[at].connection.is_drained() {
                        self.connections.remove(at);
                    }
                    return Some(Poll::Event);
                }
                Poll::Sleep(due, reason) => {
                    slot.wake = Wake::At(due, reason);
                    self.turn = at + 1;
                }
            }
        }
        None
    }
}

impl Machine for Node {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        // A timer needs nothing here: `poll` finds the connections that are due.
        if let Input::Received(datagrams) = input {
            self.receive(now, datagrams);
        }
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        if let Some(response) = self.responses.pop_front() {
            out.path = response.path;
            out.space(response.bytes.len()).copy_from_slice(&response.bytes);
            out.commit(response.bytes.len());
            self.sender = None;
            return Poll::Send;
        }
        if !self.events.is_empty() {
            return Poll::Event;
        }
        loop {
            match self.poll_connections(now, out) {
                Some(Poll::Event) if self.events.is_empty() => {}
                Some(poll) => return poll,
                None => break,
            }
        }
        let due = self.connections.iter().filter_map(|s| match s.wake {
            Wake::At(due, reason) => due.map(|t| (t, reason)),
            Wake::Now => None,
        });
        match due.min_by_key(|(t, _)| *t) {
            Some((t, reason)) => Poll::Sleep(Some(t), reason),
            None => Poll::Sleep(None, Reason::Idle),
        }
    }
}
