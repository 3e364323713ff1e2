//! Keys: the handshake, packet protection, key updates (RFC 9001).
//!
//! *In:* protected packets, CRYPTO frames. *Out:* plain packets, CRYPTO frames, sealed packets.
//!
//! Invariants: keys of a space are dropped when RFC 9001 §4.9 says so and never come back; two
//! generations of 1-RTT keys are kept, and the next one is made before it is needed, so that an update
//! costs the attacker's packet and the peer's the same (§6.3); no key seals more packets than its
//! confidentiality limit, or fails to open more than its integrity limit (§6.6).

mod crypto;
mod one_rtt;
mod session;

#[cfg(any(test, feature = "null"))]
pub mod null;

use quickset_base::{Duration, Reason, Time};
use quickset_wire::{
    ConnectionId, PacketType, Side, Space, TransportErrorCode as Code, Version, packet_number,
};

pub(crate) use crypto::CryptoStream;
use one_rtt::OneRtt;
pub use session::{
    ChooseVersion, ClientCrypto, Crypto, CryptoSession, EndpointCrypto, HeaderKey, KeyChange, Keys, NextKeys,
    PacketKey, PacketKeys, Sealing, ServerCrypto,
};

use crate::TransportError;
use crate::packet::{BySpace, Unsealed, Want};

/// The cryptographic side of a connection.
pub(crate) struct KeyRing {
    side: Side,
    session: Box<dyn CryptoSession>,
    initial: Option<Box<Keys>>,
    /// Those of Initial packets in another version: that in which a client began, or one in which its server
    /// may go on.
    other: Option<Box<(Version, Keys)>>,
    handshake: Option<Box<Keys>>,
    early: Option<Box<EarlyKeys>>,
    one_rtt: Option<OneRtt>,
    streams: BySpace<CryptoStream>,
    /// The level that the session writes at.
    writing: Space,
    complete: bool,
    failures: u64,
    /// Of the 1-RTT keys, when they are gone.
    updates: u64,
    inbox: Vec<u8>,
}

/// 0-RTT keys: a client seals with them, a server opens. One direction needs no others (RFC 9001 §5.6).
struct EarlyKeys {
    sealing: Sealing,
    /// A server's: when they go.
    until: Option<Time>,
}

/// What progress the handshake made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct HandshakeProgress {
    pub(crate) handshake_keys: bool,
    /// A server's: early data is taken.
    pub(crate) early_keys: bool,
    pub(crate) one_rtt_keys: bool,
    pub(crate) complete: bool,
}

/// A packet that was authentic.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opened {
    pub(crate) number: u64,
    /// Where the payload starts and ends in the packet.
    pub(crate) payload: (usize, usize),
}

/// Why a packet was not read.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// The keys are not there yet.
    TooEarly,
    /// The keys are gone, or the packet is not authentic: it is dropped without a trace (RFC 9000 §12.1,
    /// RFC 9001 §5.5).
    Dropped,
    /// The connection cannot go on.
    Fatal(TransportError),
}

impl KeyRing {
    pub(crate) fn new(side: Side, session: Box<dyn CryptoSession>, initial: Keys) -> Self {
        Self {
            side,
            session,
            initial: Some(Box::new(initial)),
            other: None,
            handshake: None,
            early: None,
            one_rtt: None,
            streams: BySpace::new(|_| CryptoStream::default()),
            writing: Space::Initial,
            complete: false,
            failures: 0,
            updates: 0,
            inbox: Vec::new(),
        }
    }

    pub(crate) fn session(&self) -> &dyn CryptoSession {
        &*self.session
    }

    /// Retry: the first flight again, under keys from the new connection id.
    pub(crate) fn restart(
        &mut self,
        crypto: &dyn ClientCrypto,
        version: Version,
        dcid: &ConnectionId,
    ) -> bool {
        self.initial = crypto.initial_keys(version, dcid, Side::Client).map(Box::new);
        self.other = None;
        if let Some(stream) = self.streams.get_mut(Space::Initial) {
            stream.restart();
        }
        self.initial.is_some()
    }

    /// Initial packets of another version are opened as well.
    pub(crate) fn also(&mut self, version: Version, keys: Keys) {
        self.other = Some(Box::new((version, keys)));
    }

    /// The other version, if there is one.
    pub(crate) fn other(&self) -> Option<Version> {
        self.other.as_ref().map(|other| other.0)
    }

    /// The other version becomes that of the packets that are sealed, and `version`, which they were of, is
    /// the other. False when there is none, or the session does not go along.
    pub(crate) fn turn(&mut self, version: Version) -> bool {
        let (Some(other), Some(initial)) = (self.other.as_deref_mut(), self.initial.as_deref_mut()) else {
            return false;
        };
        let (other, keys) = other;
        if self.side.is_client() && !self.session.follow(*other) {
            return false;
        }
        *other = version;
        std::mem::swap(keys, initial);
        true
    }

    /// True when packets of `space` can be sealed.
    pub(crate) fn has(&self, space: Space) -> bool {
        match space {
            Space::Initial => self.initial.is_some(),
            Space::Handshake => self.handshake.is_some(),
            Space::Data => self.one_rtt.is_some(),
        }
    }

    /// True when packets of `space` can be sealed, if need be as 0-RTT.
    pub(crate) fn seals(&self, space: Space) -> bool {
        self.has(space) || (space == Space::Data && self.sends_early())
    }

    /// A client's: packets of the application's space are 0-RTT packets.
    #[inline]
    pub(crate) fn sends_early(&self) -> bool {
        self.one_rtt.is_none() && self.early.is_some()
    }

    /// True when there are 0-RTT keys.
    pub(crate) fn has_early(&self) -> bool {
        self.early.is_some()
    }

    /// A client's: makes use of the session's 0-RTT keys, if it has any.
    pub(crate) fn begin_early(&mut self) -> bool {
        self.early = self.session.early_keys().map(|sealing| Box::new(EarlyKeys { sealing, until: None }));
        self.early.is_some()
    }

    /// A server's: takes no early data, whatever the client offers.
    pub(crate) fn refuse_early(&mut self) {
        self.session.refuse_early();
    }

    /// 0-RTT keys are not needed any more.
    pub(crate) fn end_early(&mut self) {
        self.early = None;
    }

    /// A server's: 0-RTT packets that were overtaken are still read until then (RFC 9001 §4.9.3).
    pub(crate) fn end_early_at(&mut self, at: Time) {
        if let Some(early) = &mut self.early {
            early.until = Some(at);
        }
    }

    /// RFC 9001 §4.9: the keys of `space` are not needed any more.
    pub(crate) fn discard(&mut self, space: Space) {
        match space {
            Space::Initial => (self.initial, self.other) = (None, None),
            Space::Handshake => self.handshake = None,
            Space::Data => {}
        }
        if let Some(stream) = self.streams.get_mut(space) {
            stream.end();
        }
    }

    /// The handshake is confirmed, and nothing is under way. What the peer began to say it will end.
    pub(crate) fn rest(&mut self) {
        self.inbox = Vec::new();
        self.streams.iter_mut().for_each(CryptoStream::rest);
        if !self.streams.data.has_gap() {
            self.session.rest();
        }
    }

    /// The connection is over: the handshake has no secrets any more, and unless it `speaks`, to say
    /// farewell, there are no keys.
    pub(crate) fn end(&mut self, speaks: bool) {
        self.session.end();
        self.early = None;
        self.inbox = Vec::new();
        if !speaks {
            self.updates = self.updates();
            self.one_rtt = None;
            for space in Space::ALL {
                self.discard(space);
            }
        }
    }

    /// No packets of the handshake are sent or read any more: its CRYPTO streams go.
    pub(crate) fn end_handshake(&mut self) {
        self.streams.end_handshake();
    }

    /// The CRYPTO stream of `space`; `None` when it has gone.
    pub(crate) fn stream(&mut self, space: Space) -> Option<&mut CryptoStream> {
        self.streams.get_mut(space)
    }

    /// What the CRYPTO stream of `space` wants to send.
    #[inline]
    pub(crate) fn want(&self, space: Space) -> Want {
        self.streams.get(space).map_or(Want::None, CryptoStream::want)
    }

    fn has_gap(&self, space: Space) -> bool {
        self.streams.get(space).is_some_and(CryptoStream::has_gap)
    }

    /// A CRYPTO frame; the handshake goes as far as it can.
    pub(crate) fn on_crypto(
        &mut self,
        space: Space,
        offset: u64,
        data: &[u8],
    ) -> Result<HandshakeProgress, TransportError> {
        let is_former = space < self.reading();
        // Nothing can be read that is for one that has gone, since its keys went before.
        let Some(stream) = self.streams.get_mut(space) else { return Ok(HandshakeProgress::default()) };
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.clear();
        let result = stream.on_data(offset, data, &mut inbox).and_then(|()| {
            // RFC 9001 §4.1.3: the session would take it for bytes of the level that it reads now, and
            // anybody can make Initial packets.
            if is_former && (!inbox.is_empty() || self.has_gap(space)) {
                return Err(TransportError::new(
                    Code::PROTOCOL_VIOLATION,
                    "CRYPTO beyond the end of a former level",
                ));
            }
            if inbox.is_empty() {
                return Ok(HandshakeProgress::default());
            }
            self.session.read(&inbox)?;
            self.drive()
        });
        self.inbox = inbox;
        result
    }

    /// The level that the session reads.
    fn reading(&self) -> Space {
        if self.complete {
            Space::Data
        } else if self.handshake.is_some() || self.one_rtt.is_some() {
            Space::Handshake
        } else {
            Space::Initial
        }
    }

    /// Collects what the session wants to send.
    pub(crate) fn drive(&mut self) -> Result<HandshakeProgress, TransportError> {
        let mut progress = HandshakeProgress::default();
        let mut out = Vec::new();
        loop {
            out.clear();
            let change = self.session.write(&mut out);
            if let Some(stream) = self.streams.get_mut(self.writing) {
                stream.push(&out);
            }
            match change {
                Some(KeyChange::Handshake(keys)) => {
                    // RFC 9001 §4.1.3: nothing of the level below may be left over.
                    if self.has_gap(Space::Initial) {
                        return Err(TransportError::new(
                            Code::PROTOCOL_VIOLATION,
                            "Initial CRYPTO beyond its level",
                        ));
                    }
                    self.handshake = Some(Box::new(keys));
                    if self.side.is_server() {
                        progress.early_keys = self.begin_early();
                    }
                    self.writing = Space::Handshake;
                    progress.handshake_keys = true;
                }
                Some(KeyChange::OneRtt { keys, next }) => {
                    self.one_rtt = Some(OneRtt::new(keys, next));
                    if self.side.is_client() {
                        // RFC 9001 §4.9.3: a client has no more use for them.
                        self.early = None;
                    }
                    self.writing = Space::Data;
                    progress.one_rtt_keys = true;
                }
                None => break,
            }
        }
        progress.complete = !self.complete && self.one_rtt.is_some() && !self.session.is_handshaking();
        // RFC 9001 §4.1.3: nor of the handshake, whose last message was read.
        if progress.complete && self.has_gap(Space::Handshake) {
            return Err(TransportError::new(Code::PROTOCOL_VIOLATION, "Handshake CRYPTO beyond its level"));
        }
        self.complete |= progress.complete;
        Ok(progress)
    }

    /// Removes the protection of `packet`, in place. `number_at` is where the packet number begins,
    /// `largest` the largest number received in the space.
    pub(crate) fn open(
        &mut self,
        kind: PacketType,
        number_at: usize,
        packet: &mut [u8],
        largest: Option<u64>,
        now: Time,
    ) -> Result<Opened, OpenError> {
        let space = kind.space();
        let header_key = match kind {
            PacketType::Initial => self.initial_for(packet).map(|k| &*k.remote.header),
            PacketType::ZeroRtt => self.early.as_ref().map(|k| &*k.sealing.header),
            PacketType::Handshake => self.handshake.as_ref().map(|k| &*k.remote.header),
            PacketType::OneRtt => self.one_rtt.as_ref().map(OneRtt::header),
        };
        let Some(header_key) = header_key else {
            return Err(if self.will_open(kind) { OpenError::TooEarly } else { OpenError::Dropped });
        };
        // RFC 9001 §5.4.2: the sample lies four bytes behind the start of the number, whatever its length.
        let sample_at = number_at + 4;
        if packet.len() < sample_at + header_key.sample_len() {
            return Err(OpenError::Dropped);
        }
        let (head, tail) = packet.split_at_mut(sample_at);
        let (first, rest) = head.split_at_mut(1);
        let sample = &tail[..header_key.sample_len()];
        header_key.unprotect(sample, &mut first[0], &mut rest[number_at - 1..]);
        let first = packet[0];
        let number_len = usize::from(first & 0b11) + 1;
        let payload_at = number_at + number_len;
        let truncated = packet[number_at..payload_at].iter().fold(0, |n, b| n << 8 | u32::from(*b));
        let number = packet_number::expand(truncated, number_len, largest);

        let (header, payload) = packet.split_at_mut(payload_at);
        let opened = match kind {
            PacketType::Initial => {
                self.initial_for(header).and_then(|k| k.remote.packet.open(number, header, payload))
            }
            PacketType::ZeroRtt => {
                self.early.as_ref().and_then(|k| k.sealing.packet.open(number, header, payload))
            }
            PacketType::Handshake => {
                self.handshake.as_ref().and_then(|k| k.remote.packet.open(number, header, payload))
            }
            PacketType::OneRtt => match &mut self.one_rtt {
                Some(keys) => {
                    let (before, is_unanswered) = (keys.updates(), keys.is_unanswered());
                    let opened = keys.open(number, header, payload, now);
                    if is_unanswered && keys.updates() > before {
                        return Err(OpenError::Fatal(updated_twice()));
                    }
                    opened
                }
                None => None,
            },
        };
        let Some(len) = opened else {
            return Err(self.failed(space));
        };
        // RFC 9000 §17.2, §17.3.1: reserved bits are checked once the packet is authentic.
        let reserved = if kind == PacketType::OneRtt { 0b0001_1000 } else { 0b0000_1100 };
        if first & reserved != 0 {
            return Err(OpenError::Fatal(TransportError::new(
                Code::PROTOCOL_VIOLATION,
                "reserved bits in the header",
            )));
        }
        Ok(Opened { number, payload: (payload_at, payload_at + len) })
    }

    /// The keys of an Initial packet that begins so: there may be those of two versions.
    fn initial_for(&self, packet: &[u8]) -> Option<&Keys> {
        match self.other.as_deref() {
            Some((version, keys)) if version_of(packet) == Some(*version) => Some(keys),
            _ => self.initial.as_deref(),
        }
    }

    /// The keys for packets of this type are yet to come.
    fn will_open(&self, kind: PacketType) -> bool {
        match kind {
            // They come with the answer to the hello, or never.
            PacketType::ZeroRtt => self.side.is_server() && self.handshake.is_none() && !self.complete,
            PacketType::OneRtt => self.one_rtt.is_none(),
            PacketType::Initial | PacketType::Handshake => kind.space() > self.writing,
        }
    }

    /// RFC 9001 §6.6: forgeries are counted over all keys of the connection.
    fn failed(&mut self, space: Space) -> OpenError {
        self.failures += 1;
        let limit = match space {
            Space::Data => self.one_rtt.as_ref().map(OneRtt::integrity_limit),
            Space::Handshake => self.handshake.as_ref().map(|k| k.remote.packet.integrity_limit()),
            Space::Initial => self.initial.as_ref().map(|k| k.remote.packet.integrity_limit()),
        };
        if limit.is_some_and(|limit| self.failures > limit) {
            return OpenError::Fatal(TransportError::new(
                Code::AEAD_LIMIT_REACHED,
                "too many forged packets",
            ));
        }
        OpenError::Dropped
    }

    /// Bytes that sealing adds to a packet of `space`.
    pub(crate) fn tag_len(&self, space: Space) -> usize {
        match space {
            Space::Initial => self.initial.as_ref().map(|k| k.local.packet.tag_len()),
            Space::Handshake => self.handshake.as_ref().map(|k| k.local.packet.tag_len()),
            Space::Data => match (&self.one_rtt, &self.early) {
                (Some(keys), _) => Some(keys.tag_len()),
                (None, early) => early.as_ref().map(|k| k.sealing.packet.tag_len()),
            },
        }
        .unwrap_or(16)
    }

    /// The key phase bit of 1-RTT packets.
    pub(crate) fn phase(&self) -> bool {
        self.one_rtt.as_ref().is_some_and(OneRtt::phase)
    }

    /// Seals `packet` in place; its last bytes, [`tag_len`](Self::tag_len) of them, receive the tag.
    ///
    /// # Panics
    /// When there are no keys for the space: `tx` asks [`has`](Self::has) first.
    pub(crate) fn seal(&mut self, packet: &mut [u8], at: &Unsealed) {
        let sealing = match at.space {
            Space::Initial => self.initial.as_ref().map(|k| (&*k.local.packet, &*k.local.header)),
            Space::Handshake => self.handshake.as_ref().map(|k| (&*k.local.packet, &*k.local.header)),
            Space::Data => match &mut self.one_rtt {
                Some(keys) => Some(keys.sealing(at.number)),
                None => self.early.as_ref().map(|k| (&*k.sealing.packet, &*k.sealing.header)),
            },
        };
        let (packet_key, header_key) = sealing.expect("a packet is only built when its keys are there");
        let payload_at = at.number_at + at.number_len;
        let (header, payload) = packet.split_at_mut(payload_at);
        packet_key.seal(at.number, header, payload);
        let (head, tail) = packet.split_at_mut(at.number_at + 4);
        let (first, rest) = head.split_at_mut(1);
        let number = &mut rest[at.number_at - 1..][..at.number_len];
        header_key.protect(&tail[..header_key.sample_len()], &mut first[0], number);
    }

    /// A 1-RTT packet was acknowledged.
    pub(crate) fn on_acked(&mut self, largest: u64) {
        if let Some(keys) = &mut self.one_rtt {
            keys.on_acked(largest);
        }
    }

    /// Starts a key update, if RFC 9001 §6.1 allows one now.
    pub(crate) fn update(&mut self, now: Time) -> bool {
        self.one_rtt.as_mut().is_some_and(|k| k.update(now))
    }

    /// Key generations that were left behind.
    pub(crate) fn updates(&self) -> u64 {
        self.one_rtt.as_ref().map_or(self.updates, OneRtt::updates)
    }

    /// Whether [`before_seal`](Self::before_seal) would do anything.
    #[inline]
    pub(crate) fn nears_limit(&self) -> bool {
        self.one_rtt.as_ref().is_some_and(OneRtt::nears_limit)
    }

    /// Before a packet is sealed: updates the keys ahead of their confidentiality limit.
    pub(crate) fn before_seal(&mut self, confirmed: bool, now: Time) -> Result<(), TransportError> {
        let Some(keys) = &mut self.one_rtt else { return Ok(()) };
        keys.keep_within_limit(confirmed, now)
    }

    pub(crate) fn deadline(&self, pto: Duration) -> Option<(Time, Reason)> {
        let updated = self.one_rtt.as_ref().and_then(|k| k.deadline(pto));
        let early = self.early.as_ref().and_then(|k| k.until);
        updated.into_iter().chain(early).min().map(|t| (t, Reason::Keys))
    }

    pub(crate) fn on_time(&mut self, now: Time, pto: Duration) {
        if let Some(keys) = &mut self.one_rtt {
            keys.on_time(now, pto);
        }
        if self.early.as_ref().and_then(|k| k.until).is_some_and(|t| t <= now) {
            self.early = None;
        }
    }
}

/// The version in a long header (RFC 8999 §5.1).
pub(crate) fn version_of(packet: &[u8]) -> Option<Version> {
    let version: [u8; 4] = packet.get(1..5)?.try_into().ok()?;
    Some(Version(u32::from_be_bytes(version)))
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KeyRing")
            .field("writing", &self.writing)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}
/// RFC 9001 §6.2: keys are made for each update, so that who awaits no answer has more of them made than it
/// pays for.
#[cold]
fn updated_twice() -> TransportError {
    TransportError::new(Code::KEY_UPDATE_ERROR, "keys were updated twice without an acknowledgement")
}
