use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use quickset_base::{AddressPair, Datagram, Rng, Time};
use quickset_wire::frame::Frame;
use quickset_wire::header::{self, LongHeader, Parsed};
use quickset_wire::params::{PreferredAddress, VersionInformation};
use quickset_wire::{
    ConnectionId, PacketType, Side, TransportErrorCode as Code, TransportParams, Version, Writer,
    packet_number,
};

use super::group::{GroupPlace, PlaceKind};
use super::guests::GuestRoom;
use super::{ClientConfig, RetryPolicy, ServerConfig};
use super::{ConnectionKey, DatagramRoute, Dropped, Endpoint, EndpointResponse, MIN_INITIAL, announce};
use crate::budget::Account;
use crate::cids::{self, IssuedCid, MIN_FIRST_ID};
use crate::config::TransportConfig;
use crate::conn::{CONNECTION_COST, ConnectionStart, wished};
use crate::keys::{CryptoSession, Keys};
use crate::life::HandshakeRole;
use crate::places::NetworkOwner;
use crate::validation::{MAX_TOKEN, Presented, TokenProof, ValidationToken};

/// A client that would like to connect: its first packet, not yet decrypted.
pub struct Incoming(Box<First>);

/// What a first packet says in clear.
pub(super) struct First {
    datagram: Option<Datagram>,
    came: Time,
    version: Version,
    dcid: ConnectionId,
    scid: ConnectionId,
    proof: TokenProof,
}

/// What the configuration wants done with an [`Incoming`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// [`Endpoint::accept`].
    Accept,
    /// [`Endpoint::retry`].
    Retry,
    /// [`Endpoint::refuse`].
    Refuse,
    /// [`Endpoint::ignore`].
    Ignore,
}

/// Decides about clients one by one, before anything is kept for them: lists of addresses, limits for each,
/// proof of the address from those that are new.
///
/// Clones are the same one.
#[derive(Clone)]
pub struct Gate(Arc<GateDecision>);

type GateDecision = dyn Fn(&Incoming, Admission) -> Admission + Send + Sync;

/// Why no connection could be begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// Nothing can be sent to port 0 or to the unspecified address.
    #[error("{0} is not an address that can be connected to")]
    Address(std::net::SocketAddr),
    /// The TLS side refuses the server name or has no use for the configuration.
    #[error("cannot begin the handshake: {0}")]
    Crypto(String),
    /// Every connection id of the configured length is taken.
    #[error("no connection id is free; configure longer ones")]
    Full,
    /// The [budget](crate::TransportConfig::budget) has nothing left for it.
    #[error("the memory that connections share is used up; try again when some have ended")]
    Memory,
}

impl Incoming {
    /// Where it came from.
    pub fn path(&self) -> AddressPair {
        self.0.datagram.as_ref().expect("taken only by the verbs that consume it").path
    }

    /// The version that the client speaks.
    pub fn version(&self) -> Version {
        self.0.version
    }

    /// True when the client has proven its address, by Retry or by a token of an earlier connection.
    pub fn is_validated(&self) -> bool {
        matches!(self.0.proof, TokenProof::Retry { .. } | TokenProof::Before { .. })
    }

    /// True when it may be answered with Retry (RFC 9000 §8.1.2: no second one).
    pub fn may_retry(&self) -> bool {
        !matches!(self.0.proof, TokenProof::Retry { .. } | TokenProof::Bad)
    }

    fn bytes(&self) -> &[u8] {
        self.0.datagram.as_ref().map_or(&[], |datagram| &datagram.bytes)
    }
}

impl Gate {
    /// `decide` is told of a client and of what would be done with it without the gate: [`Admission::Accept`]
    /// or, where the server's [`RetryPolicy`] says so, [`Admission::Retry`]. What it returns is done instead.
    /// A client whose Retry has worked comes again, [validated](Incoming::is_validated), and is accepted
    /// where it should be asked a second time.
    ///
    /// It is not asked about clients for which there is no room, or whose token is bad, and it may be asked
    /// about datagrams that turn out not to be a client's. Unless it is validated the address may be forged.
    /// It is asked in the middle of the endpoint's work, with its locks held: it answers at once, and from
    /// what it has; a handle of the endpoint would wait for itself.
    pub fn new(decide: impl Fn(&Incoming, Admission) -> Admission + Send + Sync + 'static) -> Self {
        Self(Arc::new(decide))
    }

    fn admit(&self, client: &Incoming, usual: Admission) -> Admission {
        match (self.0)(client, usual) {
            Admission::Retry if !client.may_retry() => Admission::Accept,
            decided => decided,
        }
    }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gate(..)")
    }
}

impl First {
    pub(super) const fn new(version: Version, dcid: ConnectionId, scid: ConnectionId) -> Self {
        Self { datagram: None, came: Time::ZERO, version, dcid, scid, proof: TokenProof::None }
    }

    pub(super) fn with(mut self, datagram: Datagram) -> Incoming {
        self.datagram = Some(datagram);
        Incoming(Box::new(self))
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming")
            .field("path", &self.path())
            .field("version", &self.0.version)
            .field("dcid", &self.0.dcid)
            .field("validated", &self.is_validated())
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Begins a connection to `server_name` on `path`. `token` is what that server gave in an earlier
    /// connection of [the version that this one begins in](crate::TransportConfig::begins_in), or empty.
    ///
    /// # Errors
    /// See [`BeginError`]; nothing is kept then.
    pub fn connect(
        &mut self,
        now: Time,
        config: &ClientConfig,
        path: AddressPair,
        server_name: &str,
        token: Vec<u8>,
    ) -> Result<(ConnectionKey, ConnectionStart), BeginError> {
        if path.remote.port() == 0 || path.remote.ip().is_unspecified() {
            return Err(BeginError::Address(path.remote));
        }
        let account = pay(&config.transport, Some(path.remote.ip())).map_err(|_| BeginError::Memory)?;
        let key = self.registry.add(None);
        let local_cid = self.issue(key).map(|issued| issued.id);
        let begun = local_cid.ok_or(BeginError::Full).and_then(|id| self.begin(config, id, server_name));
        match begun {
            Ok(Begun { version, session, initial, params, local_cid, remote_cid }) => {
                self.counters.connected += 1;
                // What no Initial packet has room for is shown to nobody.
                let token = if token.len() > MAX_TOKEN { Vec::new() } else { token };
                let name = server_name.to_owned();
                let role = HandshakeRole::Client { crypto: config.crypto.clone(), token, name };
                let (rng, config) = (self.rng.fork(), config.transport.clone());
                let trip = self.trips.to(path.remote.ip(), now);
                let start = ConnectionStart {
                    now,
                    rng,
                    path,
                    version,
                    config,
                    session,
                    initial,
                    params,
                    local_cid,
                    remote_cid,
                    account,
                    trip,
                    early: Vec::new(),
                    role,
                };
                Ok((key, start))
            }
            Err(error) => {
                self.registry.remove(key);
                Err(error)
            }
        }
    }

    /// What the configuration wants done with `incoming`, as things stand, and its gate.
    pub fn admission(&self, incoming: &Incoming) -> Admission {
        let Some(server) = &self.server else { return Admission::Refuse };
        let load = ServerLoad {
            room: self.room(incoming),
            unproven: self.guests.group().unproven(),
            forged: !self.forgeries.has(incoming.0.came),
        };
        match (decide(incoming.0.proof, load, &server.config), &server.config.gate) {
            (usual @ (Admission::Accept | Admission::Retry), Some(gate)) => gate.admit(incoming, usual),
            (usual, _) => usual,
        }
    }

    /// Whether there is room for it.
    fn room(&self, incoming: &Incoming) -> GuestRoom {
        let Some(server) = &self.server else { return GuestRoom::None };
        let network = NetworkOwner::of(incoming.path().remote.ip());
        self.guests.room(incoming.0.came, network, incoming.is_validated(), server.config.max_connections)
    }

    /// Takes the client. The datagram is the first one for the new connection.
    ///
    /// # Errors
    /// What there is to do instead: a refusal to send when its token is bad or there are too many
    /// connections; the datagram again when its connection exists by now; or nothing, for a packet that is
    /// not authentic.
    pub fn accept(
        &mut self,
        now: Time,
        mut incoming: Incoming,
    ) -> Result<(ConnectionKey, ConnectionStart, Datagram), DatagramRoute> {
        if let Some(key) = self.registry.route_long(&incoming.0.dcid) {
            // A hello in two datagrams, or one sent twice, that came in one batch.
            return Err(incoming
                .0
                .datagram
                .map_or(DatagramRoute::Dropped(Dropped::Unknown), |d| DatagramRoute::Connection(key, d)));
        }
        if let TokenProof::Before { nonce } = incoming.0.proof {
            // Another connection may have spent the token since the packet was judged.
            if self.guests.group().is_spent(&nonce) {
                incoming.0.proof = TokenProof::None;
            }
        }
        let room = match (self.room(&incoming), incoming.0.proof) {
            (GuestRoom::None, _) | (_, TokenProof::Bad) => {
                return Err(self
                    .refuse(incoming)
                    .map_or(DatagramRoute::Dropped(Dropped::Busy), DatagramRoute::Respond));
            }
            (GuestRoom::Later, _) => return Err(DatagramRoute::Dropped(Dropped::Busy)),
            (room, _) => room,
        };
        // Before anything is kept, the packet has to be one that opens: noise of 1200 bytes costs a
        // decryption and no memory.
        let Some(keys) = self.keys(&incoming).filter(|keys| is_authentic(keys, incoming.bytes())) else {
            self.forgeries.take(now);
            return Err(DatagramRoute::Dropped(Dropped::Forged));
        };
        if let GuestRoom::Of(other) = room {
            self.displace(other);
        }
        // Others of the group may have been quicker.
        let kind = if incoming.is_validated() {
            PlaceKind::Proven(NetworkOwner::of(incoming.path().remote.ip()))
        } else {
            PlaceKind::Unproven
        };
        let most = (room != GuestRoom::Owed).then(|| self.max_connections());
        match self.guests.group().take(kind, most) {
            Some(place) => self.born(now, incoming, keys, place),
            None => Err(self.turn_away(incoming, Dropped::Busy)),
        }
    }

    /// Turns the client away: CONNECTION_REFUSED, or INVALID_TOKEN when that is why. `None` when there is
    /// no key to say it with, or when many were turned away that may not be where they say.
    pub fn refuse(&mut self, incoming: Incoming) -> Option<EndpointResponse> {
        self.decided(&incoming);
        // RFC 9000 §21.1.1.1: what is sent to addresses that may be forged, and the work for it, has a limit.
        if !incoming.is_validated() && !self.refusals.take(incoming.0.came) {
            self.counters.dropped += 1;
            return None;
        }
        let keys = self.keys(&incoming)?;
        let (code, reason): (_, &[u8]) = match incoming.0.proof {
            TokenProof::Bad => (Code::INVALID_TOKEN, b"the token of the Retry is not good"),
            _ => (Code::CONNECTION_REFUSED, b"no connections are taken now"),
        };
        let First { datagram, version, dcid, scid, .. } = *incoming.0;
        self.counters.refused += 1;
        // RFC 9000 §7.2: the source id is ours to choose; the client's choice saves it a surprise.
        let header = LongHeader { ty: PacketType::Initial, version, dcid: scid, scid: dcid, token: &[] };
        let close = Frame::ConnectionClose { code, frame_type: 0, reason };
        Some(EndpointResponse { path: datagram?.path, bytes: initial(&keys, &header, &close) })
    }

    /// Leaves the client without an answer; it tries again until it gives up.
    pub fn ignore(&mut self, incoming: Incoming) {
        self.decided(&incoming);
        drop(incoming);
        self.counters.dropped += 1;
    }

    /// Asks the client to prove its address (RFC 9000 §8.1.2, §17.2.5.1). `None` when it cannot be asked: it
    /// has been before ([`Incoming::may_retry`]).
    pub fn retry(&mut self, now: Time, incoming: Incoming) -> Option<EndpointResponse> {
        self.decided(&incoming);
        let server = self.server.as_ref().filter(|_| incoming.may_retry())?;
        let First { datagram, version, dcid, scid, .. } = *incoming.0;
        let path = datagram?.path;
        // RFC 9000 §7.2: the client's next packet is a first one for us, whose id has 8 bytes at least.
        // Whoever passes datagrams on has to bring it here, where the token is known.
        let retry_scid = long_enough(self.ids.draw(&mut self.rng), &mut self.rng);
        let token =
            ValidationToken::Retry { client: path.remote, issued: now, original_dcid: dcid, retry_scid };
        let token = token.seal(&*self.config.crypto, &mut self.rng);
        let mut buffer = [0; MIN_INITIAL];
        let mut w = Writer::new(&mut buffer);
        header::retry(&mut w, version, &scid, &retry_scid, &token);
        let tag = server.config.crypto.retry_tag(version, &dcid, w.written())?;
        w.bytes(&tag);
        self.counters.retries += 1;
        Some(EndpointResponse { path, bytes: w.written().to_vec() })
    }

    /// What was decided about a client is for the rest of its hello, too.
    fn decided(&mut self, incoming: &Incoming) {
        self.answered.note(incoming.0.dcid, incoming.path().remote, incoming.0.came);
    }

    /// Judges the first packet of a client that is not known.
    pub(super) fn judge(
        &self,
        now: Time,
        datagram: &Datagram,
        first: First,
        token: &[u8],
    ) -> Result<First, Dropped> {
        let Some(server) = &self.server else { return Err(Dropped::NotAServer) };
        if datagram.bytes.len() < MIN_INITIAL || first.dcid.len() < MIN_FIRST_ID {
            return Err(Dropped::TooShort);
        }
        if self.answered.has(&first.dcid, datagram.path.remote, now) {
            return Err(Dropped::Answered);
        }
        let presented = Presented {
            now,
            client: datagram.path.remote,
            dcid: first.dcid,
            version: first.version,
            retry_lifetime: server.config.retry_token_lifetime,
            lifetime: server.config.token_lifetime,
        };
        let proof =
            presented.judge(token, &*self.config.crypto, &|nonce| self.guests.group().is_spent(nonce));
        Ok(First { came: now, proof, ..first })
    }

    fn begin(&mut self, config: &ClientConfig, local: ConnectionId, name: &str) -> Result<Begun, BeginError> {
        // RFC 9000 §7.2: unpredictable, of 8 bytes at least.
        let remote_cid = cids::first_id(&mut self.rng);
        let keys = |version: Version| {
            Some((version, config.crypto.initial_keys(version, &remote_cid, Side::Client)?))
        };
        let spoken = &config.transport.versions;
        let begun = config.transport.beginnings().find_map(keys);
        let (version, initial) =
            begun.ok_or_else(|| BeginError::Crypto("no keys for any QUIC version configured".into()))?;
        // RFC 9368 §2.3: a server may go on in any that is named here.
        let named =
            spoken.iter().copied().filter(|v| *v == version || (config.crypto.follows() && v.is_known()));
        let params = TransportParams {
            initial_source_connection_id: Some(local),
            version_information: Some(VersionInformation::new(version, named)),
            ..announce(&config.transport)
        };
        let encoded = self.encode(&params, Side::Client);
        let session = config.crypto.clone().start(version, name, encoded).map_err(BeginError::Crypto)?;
        Ok(Begun { version, session, initial, params, local_cid: local, remote_cid })
    }

    fn born(
        &mut self,
        now: Time,
        incoming: Incoming,
        initial: Keys,
        place: GroupPlace,
    ) -> Result<(ConnectionKey, ConnectionStart, Datagram), DatagramRoute> {
        let path = incoming.path();
        // Who may be anywhere takes nothing from those who are there.
        let proven = incoming.is_validated().then(|| path.remote.ip());
        let account = self.server.as_ref().map(|server| pay(&server.config.transport, proven));
        let Ok(account) = account.transpose().map(Option::flatten) else {
            return Err(self.turn_away(incoming, Dropped::NotAServer));
        };
        let key = self.registry.add(Some(incoming.0.dcid));
        let (Some(local), Some(server)) = (self.issue(key), &self.server) else {
            self.registry.remove(key);
            return Err(self.turn_away(incoming, Dropped::Busy));
        };
        let (crypto, transport) = (server.config.crypto.clone(), server.config.transport.clone());
        let gives_tokens = !server.config.token_lifetime.is_zero();
        let versions = server.versions.clone();
        let First { datagram, version, dcid, scid, proof, .. } = *incoming.0;
        // RFC 9002 §6.2.2. A Retry and its answer took as long as a challenge and its answer do.
        let trip = match proof {
            TokenProof::Retry { trip, .. } => Some(trip),
            TokenProof::Before { .. } | TokenProof::None | TokenProof::Bad => {
                self.trips.to(path.remote.ip(), now)
            }
        };
        let (original_dcid, retry_scid, validated) = match proof {
            TokenProof::Retry { original_dcid, retry_scid, .. } => (original_dcid, Some(retry_scid), true),
            TokenProof::Before { nonce } => (dcid, None, self.guests.group().spend(nonce)),
            TokenProof::None | TokenProof::Bad => (dcid, None, false),
        };
        let migration = transport.migration;
        let wanted = migration.preferred_v4.is_some() || migration.preferred_v6.is_some();
        let second = if wanted { self.issue(key) } else { None };
        let params = TransportParams {
            preferred_address: second.map(|cid| preferred(&migration, cid)),
            original_destination_connection_id: Some(original_dcid),
            initial_source_connection_id: Some(local.id),
            retry_source_connection_id: retry_scid,
            stateless_reset_token: Some(local.token),
            version_information: Some(VersionInformation::new(version, versions.iter().copied())),
            ..announce(&transport)
        };
        let encoded = self.encode(&params, Side::Server);
        let session = if versions.len() > 1 {
            let grease = self.rng.next();
            let choose = move |client: &[u8]| {
                let version = wished(&versions, version, client)?;
                let told = VersionInformation::new(version, versions);
                let params = TransportParams { version_information: Some(told), ..params };
                Some((version, encoded_as(&params, Side::Server, grease)))
            };
            crypto.clone().start_choosing(version, encoded, Box::new(choose))
        } else {
            crypto.clone().start(version, encoded)
        };
        self.guests.enter(now, key, NetworkOwner::of(path.remote.ip()), place, validated);
        self.counters.accepted += 1;
        let start = ConnectionStart {
            now,
            rng: self.rng.fork(),
            path,
            version,
            config: transport,
            session,
            initial,
            params,
            local_cid: local.id,
            remote_cid: scid,
            account,
            trip,
            early: self.overtakers.take(now, &dcid, path.remote),
            role: HandshakeRole::Server {
                crypto,
                first: dcid,
                validated,
                seal: gives_tokens.then(|| self.config.crypto.clone()),
                second,
            },
        };
        Ok((key, start, datagram.expect("an incoming packet has its datagram until it is consumed")))
    }

    /// Refuses a client, or says nothing to one that may not be answered.
    fn turn_away(&mut self, incoming: Incoming, why: Dropped) -> DatagramRoute {
        self.refuse(incoming).map_or(DatagramRoute::Dropped(why), DatagramRoute::Respond)
    }

    fn encode(&mut self, params: &TransportParams, by: Side) -> Vec<u8> {
        encoded_as(params, by, self.rng.next())
    }

    /// The server's keys for the client's first packet.
    fn keys(&self, incoming: &Incoming) -> Option<Keys> {
        let crypto = &self.server.as_ref()?.config.crypto;
        crypto.initial_keys(incoming.0.version, &incoming.0.dcid, Side::Server)
    }
}

/// Takes what a connection costs from the budget, if there is one.
fn pay(transport: &TransportConfig, address: Option<IpAddr>) -> Result<Option<Account>, Unpaid> {
    let mut account = transport.budget.as_ref().map(|budget| budget.account(address));
    let paid = account.as_mut().is_none_or(|account| account.take(CONNECTION_COST));
    if paid { Ok(account) } else { Err(Unpaid) }
}

/// The budget has nothing left.
struct Unpaid;

fn encoded_as(params: &TransportParams, by: Side, grease: u64) -> Vec<u8> {
    let mut buffer = [0; TransportParams::MAX_SIZE];
    let mut w = Writer::new(&mut buffer);
    params.encode(by, grease, &mut w);
    w.written().to_vec()
}

/// What a client's handshake begins with.
struct Begun {
    version: Version,
    session: Box<dyn CryptoSession>,
    initial: Keys,
    params: TransportParams,
    local_cid: ConnectionId,
    remote_cid: ConnectionId,
}

/// An id that a client may use as its first, with random bytes behind it if it is short.
fn long_enough(id: ConnectionId, rng: &mut Rng) -> ConnectionId {
    let more = cids::random(MIN_FIRST_ID.saturating_sub(id.len()), rng);
    ConnectionId::new(&[&*id, &*more].concat()).expect("at most 20 bytes")
}

/// Where clients are to go on once they are here, with the id that is for that (RFC 9000 §9.6).
fn preferred(migration: &crate::Migration, cid: IssuedCid) -> PreferredAddress {
    PreferredAddress {
        ipv4: migration.preferred_v4,
        ipv6: migration.preferred_v6,
        id: cid.id,
        token: cid.token,
    }
}

/// How busy a server is.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerLoad {
    /// For this client.
    pub(super) room: GuestRoom,
    /// Handshakes of clients that have not proved their address.
    pub(super) unproven: usize,
    /// Many first packets of late did not open.
    pub(super) forged: bool,
}

/// All of the policy.
pub(super) fn decide(proof: TokenProof, load: ServerLoad, config: &ServerConfig) -> Admission {
    let most_unproven = (config.max_connections / UNPROVEN).max(1);
    let wary = match config.retry {
        RetryPolicy::Never => false,
        RetryPolicy::WhenBusy(limit) => {
            load.room == GuestRoom::None || load.forged || load.unproven >= limit.min(most_unproven)
        }
        RetryPolicy::Always => true,
    };
    match (proof, load.room) {
        (TokenProof::Bad, _) => Admission::Refuse,
        // RFC 9000 §8.1.3: also a token of an earlier connection spares the round trip of a Retry.
        (TokenProof::None, _) if wary => Admission::Retry,
        (_, GuestRoom::Free | GuestRoom::Of(_) | GuestRoom::Owed) => Admission::Accept,
        (_, GuestRoom::Later) => Admission::Ignore,
        (_, GuestRoom::None) => Admission::Refuse,
    }
}

/// What part of all connections may be handshakes of clients that have not proved their address, before all
/// must.
const UNPROVEN: usize = 4;

/// Whether the first packet of `datagram` opens; on a copy, since the connection opens it again.
fn is_authentic(keys: &Keys, datagram: &[u8]) -> bool {
    // Connection ids in long headers tell their length.
    let Ok(Parsed { pn_offset, end, .. }) = Parsed::parse(datagram, 0) else { return false };
    let (packet_key, header_key) = (&keys.remote.packet, &keys.remote.header);
    let mut packet = datagram[..end].to_vec();
    let Some((head, sample)) = packet.split_at_mut_checked(pn_offset + 4) else { return false };
    let Some(sample) = sample.get(..header_key.sample_len()) else { return false };
    let (first, rest) = head.split_first_mut().expect("a parsed header has a first byte");
    let pn = &mut rest[pn_offset - 1..];
    header_key.unprotect(sample, first, pn);
    let pn_len = header::pn_len(*first);
    let truncated = pn[..pn_len].iter().fold(0, |n, byte| n << 8 | u32::from(*byte));
    let number = packet_number::expand(truncated, pn_len, None);
    let (header, payload) = packet.split_at_mut(pn_offset + pn_len);
    packet_key.open(number, header, payload).is_some()
}

/// An Initial packet, number 0, with one frame.
fn initial(keys: &Keys, header: &LongHeader<'_>, frame: &Frame<'_>) -> Vec<u8> {
    const PN_LEN: usize = 1;
    let (packet_key, header_key) = (&keys.local.packet, &keys.local.header);
    let tag = packet_key.tag_len();
    // RFC 9001 §5.4.2: the sample begins four bytes behind the start of the number.
    let payload = frame.size().max((4 - PN_LEN + header_key.sample_len()).saturating_sub(tag));
    let mut packet = vec![0; header.size(PN_LEN) + payload + tag];
    let mut w = Writer::new(&mut packet);
    let length_at = header::long_header(&mut w, header, 0, PN_LEN);
    let payload_at = w.len();
    frame.encode(&mut w);
    w.zeros(payload - frame.size());
    header::patch_length(&mut w, length_at, tag);
    let (head, body) = packet.split_at_mut(payload_at);
    packet_key.seal(0, head, body);
    let pn_offset = payload_at - PN_LEN;
    let (head, sample) = packet.split_at_mut(pn_offset + 4);
    let (first, rest) = head.split_first_mut().expect("a header has a first byte");
    let pn = &mut rest[pn_offset - 1..][..PN_LEN];
    header_key.protect(&sample[..header_key.sample_len()], first, pn);
    packet
}
