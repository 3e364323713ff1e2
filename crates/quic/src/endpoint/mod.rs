//! The endpoint: which connection is a datagram for, and what becomes of those that are for none.
//!
//! *In:* datagrams, the signals of connections, the verbs `connect`, `accept`, `refuse`, `retry`. *Out:* a
//! [`DatagramRoute`] for each datagram, the birth of connections ([`ConnectionStart`]), and the few packets
//! that no connection sends: Version Negotiation, Retry, refusals, stateless resets.
//!
//! It owns no connection, only what belongs to connection ids. Of a datagram it reads the first header;
//! the packets coalesced behind it are the connection's affair (RFC 9000 §12.2).
//!
//! Invariants: a client that was not accepted costs no memory; a connection has at most [`MAX_IDS`] ids
//! here; every answer is smaller than what it answers, so that nobody is flooded through us; maps are keyed
//! against chosen ids, and their order reaches no output.

mod admit;
mod announce;
mod answered;
mod bucket;
mod config;
mod early;
mod group;
mod guests;
mod ids;
mod layout;
mod reset;
mod trips;

use std::fmt;
use std::sync::Arc;

use quickset_base::{AddressPair, Datagram, Rng, Time};
use quickset_wire::header::{self, Header, HeaderError, Parsed};
use quickset_wire::{ConnectionId, Side, Version, Writer};

use admit::First;
pub use admit::{Admission, BeginError, Gate, Incoming};
pub(crate) use announce::announce;
pub use config::{ClientConfig, EndpointConfig, RetryPolicy, ServerConfig};
pub use group::EndpointGroup;
pub use ids::ConnectionKey;
pub use layout::ConnectionIds;

use crate::cids::{IssuedCid, MIN_FIRST_ID};
use crate::event::Signal;
use crate::packet::MIN_INITIAL;
use answered::Answered;
use bucket::Bucket;
use early::Overtakers;
use guests::Guests;
use ids::{IssuedId, Registry};
use layout::RandomIds;
use reset::{Detector, Limiter};
use trips::Trips;

/// Demultiplexes the datagrams of a socket onto connections, and decides about new ones.
///
/// 1. [`route`](Self::route) is called for each received datagram; what it returns is acted on.
/// 2. [`DatagramRoute::Incoming`] is answered by one of [`accept`](Self::accept), [`retry`](Self::retry),
///    [`refuse`](Self::refuse), or dropped; [`admission`](Self::admission) says what the configuration wants.
/// 3. Every signal of a connection is handed to [`signal`](Self::signal), and the connection ids that this
///    returns go back to the connection.
/// 4. After each [`accept`](Self::accept) and [`signal`](Self::signal), connections that
///    [`displaced`](Self::displaced) returns are told so
///    ([`Connection::make_room`](crate::Connection::make_room)).
pub struct Endpoint {
    config: EndpointConfig,
    ids: Arc<dyn ConnectionIds>,
    server: Option<ServerSide>,
    rng: Rng,
    registry: Registry,
    guests: Guests,
    detector: Detector,
    limiter: Limiter,
    /// First packets that did not open: of more, clients must prove their address before their packets are
    /// looked at.
    forgeries: Bucket,
    /// Of clients that have not proved their address.
    refusals: Bucket,
    overtakers: Overtakers,
    answered: Answered,
    trips: Trips,
    counters: Counters,
}

/// What only a server has.
struct ServerSide {
    config: ServerConfig,
    /// Those that both `wire` and the TLS side know, the best first.
    versions: Vec<Version>,
}

/// What becomes of a datagram.
#[derive(Debug)]
pub enum DatagramRoute {
    /// It is for this connection.
    Connection(ConnectionKey, Datagram),
    /// A client would like to connect.
    Incoming(Incoming),
    /// This is to be sent.
    Respond(EndpointResponse),
    /// The peer of this connection does not know it any more (RFC 9000 §10.3): a stateless reset.
    Reset(ConnectionKey),
    /// Nothing.
    Dropped(Dropped),
}

/// A datagram that the endpoint itself sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointResponse {
    /// Where to.
    pub path: AddressPair,
    /// The UDP payload.
    pub bytes: Vec<u8>,
}

/// Why nothing comes of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Dropped {
    /// Its first header cannot be read.
    #[error("not QUIC: {0}")]
    Malformed(#[from] HeaderError),
    /// Its fixed bit is 0, and nobody was told that it may be (RFC 9287 §3).
    #[error("the fixed bit is 0")]
    FixedBit,
    /// For no connection that we know, and of a kind that is not answered.
    #[error("for an unknown connection")]
    Unknown,
    /// A client's, but this endpoint takes no connections.
    #[error("this endpoint takes no connections")]
    NotAServer,
    /// A first packet in less than 1200 bytes (RFC 9000 §14.1), or with a connection id of less than 8
    /// (§7.2).
    #[error("a first packet that is too short")]
    TooShort,
    /// A first packet that does not open with the keys that anybody can derive.
    #[error("a forged first packet")]
    Forged,
    /// There are too many handshakes of its network, or refusals of late; it may come again.
    #[error("there is no room now")]
    Busy,
    /// The other half of a hello that was just answered, or passed over.
    #[error("the rest of a first flight that was answered")]
    Answered,
    /// Early data that came before the hello it goes with: a copy is kept for a moment.
    #[error("early data before its hello; kept for a moment")]
    Early,
    /// Enough stateless resets were sent, this is one of them coming back, or the connection may be another
    /// endpoint's.
    #[error("no stateless reset is due")]
    NoReset,
}

/// What an endpoint did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections that began here.
    pub connected: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Clients refused.
    pub refused: u64,
    /// Handshakes that made room for those of clients that had proved their address.
    pub displaced: u64,
    /// Retry packets made.
    pub retries: u64,
    /// Version Negotiation packets made.
    pub version_negotiations: u64,
    /// Stateless resets made.
    pub resets_sent: u64,
    /// Stateless resets received.
    pub resets_received: u64,
    /// Datagrams dropped.
    pub dropped: u64,
    /// Answers made for no connection (Retry, Version Negotiation, refusals, stateless resets) that the
    /// system did not send.
    pub unsent: u64,
}

impl Counters {
    /// The sum of these and others.
    #[must_use]
    pub fn plus(self, others: Self) -> Self {
        Self {
            connected: self.connected + others.connected,
            accepted: self.accepted + others.accepted,
            refused: self.refused + others.refused,
            displaced: self.displaced + others.displaced,
            retries: self.retries + others.retries,
            version_negotiations: self.version_negotiations + others.version_negotiations,
            resets_sent: self.resets_sent + others.resets_sent,
            resets_received: self.resets_received + others.resets_received,
            dropped: self.dropped + others.dropped,
            unsent: self.unsent + others.unsent,
        }
    }
}

impl Endpoint {
    /// An endpoint that can connect, and with `server` accept. `rng` draws connection ids and must be
    /// seeded with entropy outside of simulations.
    pub fn new(config: EndpointConfig, server: Option<ServerConfig>, rng: Rng) -> Self {
        let config = EndpointConfig {
            connection_id_len: config.connection_id_len.clamp(1, ConnectionId::MAX),
            ..config
        };
        let server = server.map(|config| {
            let known =
                |v: &Version| config.crypto.initial_keys(*v, &ConnectionId::EMPTY, Side::Server).is_some();
            let mut versions: Vec<_> = config.transport.versions.iter().copied().filter(known).collect();
            versions.truncate(MAX_VERSIONS);
            ServerSide { config, versions }
        });
        Self {
            ids: Arc::new(RandomIds(config.connection_id_len)),
            config,
            server,
            rng,
            registry: Registry::default(),
            guests: Guests::default(),
            detector: Detector::default(),
            limiter: Limiter::default(),
            forgeries: Bucket::new(FORGERIES_PER_SECOND),
            refusals: Bucket::new(REFUSALS_PER_SECOND),
            overtakers: Overtakers::default(),
            answered: Answered::default(),
            trips: Trips::default(),
            counters: Counters::default(),
        }
    }

    /// The same with connection ids that say something, before there are any; their length counts, and not
    /// [`connection_id_len`](EndpointConfig::connection_id_len).
    #[must_use]
    pub fn with_connection_ids(mut self, ids: Arc<dyn ConnectionIds>) -> Self {
        self.config.connection_id_len = ids.id_len().clamp(1, ConnectionId::MAX);
        self.ids = ids;
        self
    }

    /// The same as one of several endpoints that are one server, before there are any connections.
    #[must_use]
    pub fn with_group(mut self, group: Arc<EndpointGroup>) -> Self {
        self.guests = Guests::of(group);
        self
    }

    /// Whether an id, as it stands in a long header, is of a connection that is here.
    pub fn knows(&self, id: &[u8]) -> bool {
        ConnectionId::new(id).is_some_and(|id| self.registry.route_long(&id).is_some())
    }

    /// Where `datagram` belongs.
    #[inline]
    pub fn route(&mut self, now: Time, datagram: Datagram) -> DatagramRoute {
        if let Some(key) = self.registry.same_as_last(&datagram.bytes) {
            return DatagramRoute::Connection(key, datagram);
        }
        let route = self.look_up(now, datagram);
        if matches!(route, DatagramRoute::Dropped(_)) {
            self.counters.dropped += 1;
        }
        route
    }

    /// What a connection asks for. For [`Signal::NeedCids`] the ids that it gets.
    pub fn signal(&mut self, key: ConnectionKey, signal: Signal) -> Option<Vec<IssuedCid>> {
        match signal {
            Signal::NeedCids(n) => {
                let issued = (0..n).map_while(|_| self.issue(key)).collect();
                return Some(issued);
            }
            Signal::Proven => self.guests.prove(key, self.max_connections()),
            Signal::Established => self.guests.establish(key),
            Signal::Trip { peer, trip, at } => self.trips.note(peer, trip, at),
            Signal::Over => self.guests.end(key, self.max_connections()),
            Signal::RetiredCid(sequence) => self.registry.retire(key, sequence),
            Signal::ResetToken(path, token) => {
                if self.registry.is_alive(key) {
                    self.detector.watch(key, path.remote, token);
                }
            }
            Signal::Drained => {
                self.guests.remove(key);
                self.registry.remove(key);
                self.detector.forget(key);
            }
        }
        None
    }

    /// A connection that has made room for another since this was asked last, or for which there is no room
    /// any more to say farewell again.
    pub fn displaced(&mut self) -> Option<ConnectionKey> {
        if let Some(key) = self.guests.owing(self.max_connections()) {
            self.displace(key);
        }
        self.guests.displaced()
    }

    /// The system did not send an answer that [`route`](Self::route), [`retry`](Self::retry) or
    /// [`refuse`](Self::refuse) made. It is gone: whoever it was for asks again.
    pub fn response_refused(&mut self) {
        self.counters.unsent += 1;
    }

    /// What was done so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Connections that have not drained.
    pub fn connections(&self) -> usize {
        self.registry.len()
    }

    /// True when the endpoint takes connections.
    pub fn is_server(&self) -> bool {
        self.server.is_some()
    }

    /// A handshake makes room for that of another client.
    fn displace(&mut self, key: ConnectionKey) {
        self.guests.displace(key);
        self.counters.displaced += 1;
    }

    fn max_connections(&self) -> usize {
        self.server.as_ref().map_or(0, |server| server.config.max_connections)
    }

    /// RFC 9000 §5.2, §5.2.1: what is for no connection and begins none is dropped, or answered as by a
    /// stranger.
    fn look_up(&mut self, now: Time, datagram: Datagram) -> DatagramRoute {
        let parsed = match Parsed::parse(&datagram.bytes, self.config.connection_id_len) {
            Ok(parsed) => parsed,
            Err(error) => return DatagramRoute::Dropped(error.into()),
        };
        if !parsed.is_fixed && !self.takes_unfixed(&parsed.header) {
            return DatagramRoute::Dropped(Dropped::FixedBit);
        }
        match parsed.header {
            Header::Short { dcid } => match self.registry.route_short(&dcid) {
                Some(key) => DatagramRoute::Connection(key, datagram),
                None => self.stray(now, &datagram, &dcid),
            },
            Header::Initial { version, dcid, scid, token } => match self.registry.route_long(&dcid) {
                Some(key) => DatagramRoute::Connection(key, datagram),
                None if !self.speaks(version) => self.negotiate(&datagram, &dcid, &scid),
                None => match self.judge(now, &datagram, First::new(version, dcid, scid), token) {
                    Ok(first) => DatagramRoute::Incoming(first.with(datagram)),
                    Err(dropped) => DatagramRoute::Dropped(dropped),
                },
            },
            Header::ZeroRtt { version, dcid, .. } => match self.registry.route_long(&dcid) {
                Some(key) => DatagramRoute::Connection(key, datagram),
                None if self.takes_early(version, &dcid) => {
                    self.overtakers.keep(now, dcid, &datagram);
                    DatagramRoute::Dropped(Dropped::Early)
                }
                None => DatagramRoute::Dropped(Dropped::Unknown),
            },
            Header::Handshake { dcid, .. } | Header::Retry { dcid, .. } => {
                match self.registry.route_long(&dcid) {
                    Some(key) => DatagramRoute::Connection(key, datagram),
                    None => DatagramRoute::Dropped(Dropped::Unknown),
                }
            }
            Header::VersionNegotiation { dcid, .. } => {
                match ConnectionId::new(dcid).and_then(|dcid| self.registry.route_long(&dcid)) {
                    Some(key) => DatagramRoute::Connection(key, datagram),
                    None => DatagramRoute::Dropped(Dropped::Unknown),
                }
            }
            Header::UnknownVersion { dcid, scid, .. } => self.negotiate(&datagram, dcid, scid),
        }
    }

    /// Whether a packet with this header may have a fixed bit of 0: those of connections are theirs to judge;
    /// clients may remember what a server offered, and show it by a token (RFC 9287 §3.1).
    fn takes_unfixed(&self, header: &Header<'_>) -> bool {
        let offered = self.server.as_ref().is_some_and(|server| server.config.transport.grease_quic_bit);
        offered || ConnectionId::new(header.dcid()).is_some_and(|id| self.registry.route_long(&id).is_some())
    }

    /// Whether early data of a client that is not known may be worth keeping.
    fn takes_early(&self, version: Version, dcid: &ConnectionId) -> bool {
        let server = self.server.as_ref().filter(|server| server.versions.contains(&version));
        server.is_some_and(|server| server.config.transport.early_data.is_some())
            && dcid.len() >= MIN_FIRST_ID
    }

    fn speaks(&self, version: Version) -> bool {
        // A client's endpoint is not a server of any version; it has better reasons to drop the packet.
        self.server.as_ref().is_none_or(|server| server.versions.contains(&version))
    }

    /// RFC 9000 §6.1: a version that we do not speak is answered with those that we do.
    fn negotiate(&mut self, datagram: &Datagram, dcid: &[u8], scid: &[u8]) -> DatagramRoute {
        let Some(server) = &self.server else { return DatagramRoute::Dropped(Dropped::NotAServer) };
        // RFC 9000 §6.1, §14.1: smaller datagrams start no connection in any version that we speak. This also
        // bounds the answer, of at most 530 bytes, by what it answers.
        if datagram.bytes.len() < MIN_INITIAL {
            return DatagramRoute::Dropped(Dropped::TooShort);
        }
        let mut buffer = [0; MAX_NEGOTIATION];
        let mut w = Writer::new(&mut buffer);
        let grease = (self.rng.next() >> 32) as u32;
        header::version_negotiation(&mut w, scid, dcid, &server.versions, grease);
        self.counters.version_negotiations += 1;
        DatagramRoute::Respond(EndpointResponse { path: datagram.path, bytes: w.written().to_vec() })
    }

    /// A packet with a short header for no connection of ours: a stateless reset of the peer's, or a peer
    /// that has not heard that we forgot the connection.
    fn stray(&mut self, now: Time, datagram: &Datagram, dcid: &ConnectionId) -> DatagramRoute {
        if let Some(key) = self.detector.find(datagram.path.remote, &datagram.bytes) {
            self.counters.resets_received += 1;
            return DatagramRoute::Reset(key);
        }
        let Some(len) = reset::size(datagram.bytes.len(), &mut self.rng) else {
            return DatagramRoute::Dropped(Dropped::TooShort);
        };
        // RFC 9000 §21.11: a datagram that went astray on its way to another endpoint, which may have the
        // same key, is no reason to end its connection. Those whom nobody answers find it out by themselves.
        if self.limiter.is_ours(&datagram.bytes)
            || !self.ids.is_ours(dcid)
            || !self.guests.group().may_reset(now, self.config.resets_per_second)
        {
            return DatagramRoute::Dropped(Dropped::NoReset);
        }
        // RFC 9000 §21.11: not of an id that is alive, or its connection had the packet.
        let token = self.config.crypto.reset_token(dcid);
        self.limiter.remember(token);
        self.counters.resets_sent += 1;
        DatagramRoute::Respond(EndpointResponse {
            path: datagram.path,
            bytes: reset::write(len, &token, &mut self.rng),
        })
    }

    /// A fresh id for `key`.
    fn issue(&mut self, key: ConnectionKey) -> Option<IssuedCid> {
        let IssuedId { sequence, id } = self.registry.issue(key, &*self.ids, &mut self.rng)?;
        Some(IssuedCid { sequence, id, token: self.config.crypto.reset_token(&id) })
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("server", &self.is_server())
            .field("connections", &self.connections())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// Header, two ids of 255 bytes, a reserved version and two real ones.
const MAX_NEGOTIATION: usize = 5 + 2 * 256 + (1 + MAX_VERSIONS) * 4;

/// Versions that a server tells of: as many as there are.
const MAX_VERSIONS: usize = 2;

/// First packets in a second that may not open: each costs as much as twenty Retry packets.
const FORGERIES_PER_SECOND: u32 = 100;

/// Refusals in a second of clients that may not be where they say.
const REFUSALS_PER_SECOND: u32 = 100;

#[cfg(test)]
mod tests;
