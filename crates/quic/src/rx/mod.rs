//! The way in: datagram to packets, packets to frames, frames to the rooms that own them.
//!
//! *In:* a received batch. *Out:* calls of `on_frame` doors; ACK frames are collected and act after
//! the batch; packets that came before their keys are kept for a while.
//!
//! Invariants: nothing of a packet acts before the packet is authentic; a packet number acts once; at
//! most [`MAX_EARLY`] packets wait for keys, and [`MAX_ZERO_RTT`] of early data. Frames that forward erasure correction
//! recovers enter at `dispatch` too.

mod dispatch;

use bytes::{Buf, BytesMut};
use quickset_base::{Datagram, Ecn};
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::header::{Header, Parsed};
use quickset_wire::{PacketType, Side, Space};

use crate::conn::Connection;
use crate::error::{Closed, TransportError};
use crate::keys::OpenError;
use crate::qlog::Why;
use crate::room::Phase;

/// Packets kept until their keys are there: a flight of the peer's that overtook its handshake.
const MAX_EARLY: usize = 16;

/// Of early data: a client's first window (RFC 9002 §7.2).
const MAX_ZERO_RTT: usize = 10;

/// Packets that came before their keys.
#[derive(Debug, Default)]
pub(crate) struct Early {
    packets: Vec<Waiting>,
    /// Those that the endpoint had before the connection began.
    datagrams: Vec<Datagram>,
    /// Bytes of early data that were read.
    taken: u64,
}

impl Early {
    pub(crate) fn with(datagrams: Vec<Datagram>) -> Self {
        Self { datagrams, ..Self::default() }
    }

    fn has_room(&self, kind: PacketType) -> bool {
        let zero_rtt = self.packets.iter().filter(|w| w.kind == PacketType::ZeroRtt).count();
        if kind == PacketType::ZeroRtt {
            return zero_rtt < MAX_ZERO_RTT;
        }
        self.packets.len() - zero_rtt < MAX_EARLY
    }

    fn bytes(&self) -> usize {
        self.packets.iter().filter(|w| w.kind == PacketType::ZeroRtt).map(|w| w.packet.len()).sum()
    }
}

#[derive(Debug)]
struct Waiting {
    kind: PacketType,
    packet: BytesMut,
    number_at: usize,
    ecn: Ecn,
}

impl Connection {
    /// Takes a batch, and acts on what it said as a whole.
    pub(crate) fn receive(&mut self, datagrams: &mut Vec<Datagram>) {
        for datagram in datagrams.drain(..) {
            if !self.path.takes(&datagram.path) || self.ways.claims(&datagram.path) {
                if !self.receive_elsewhere(datagram) {
                    self.stats.dropped_packets += 1;
                }
                continue;
            }
            self.path.on_received(datagram.bytes.len());
            self.stats.received_datagrams += 1;
            self.stats.received_bytes += datagram.bytes.len() as u64;
            if let Err(error) = self.datagram(datagram) {
                self.fail(error);
            }
        }
        if !self.early.datagrams.is_empty() {
            self.receive_overtakers();
        }
        if !self.lifecycle.is_open() {
            return;
        }
        if let Err(error) = self.act_on_acks() {
            self.fail(error);
        }
        if !self.ways.is_quiet() {
            // What came may be what an address was waiting for to be sent more.
            self.ways.stir();
        }
    }

    /// One datagram.
    pub(crate) fn datagram(&mut self, datagram: Datagram) -> Result<(), TransportError> {
        let Datagram { mut bytes, ecn, .. } = datagram;
        let size = bytes.len();
        let tail = self.cids.reset_token().and_then(|_| bytes.last_chunk::<16>().copied());
        while !bytes.is_empty() && !self.lifecycle.is_drained() {
            let Ok(parsed) = Parsed::parse(&bytes, self.cids.first_local().len()) else {
                break;
            };
            let (number_at, end) = (parsed.pn_offset, parsed.end);
            let Some((kind, source)) = self.addressed(&parsed, &bytes, size) else {
                bytes.advance(end);
                continue;
            };
            // The usual datagram is one packet; then nothing is split.
            let packet = if end == bytes.len() { std::mem::take(&mut bytes) } else { bytes.split_to(end) };
            let opened = self.packet(Waiting { kind, packet, number_at, ecn }, source)?;
            if !opened && kind == PacketType::OneRtt && self.is_reset(tail) {
                self.lifecycle.vanish();
                self.over(Closed::Reset);
            }
        }
        Ok(())
    }

    /// Whether a packet concerns us, its type, and its source id if it has one. What carries no frames is
    /// dealt with at once.
    fn addressed(
        &mut self,
        parsed: &Parsed<'_>,
        bytes: &[u8],
        size: usize,
    ) -> Option<(PacketType, Option<quickset_wire::ConnectionId>)> {
        match parsed.header.clone() {
            Header::Short { .. } => Some((PacketType::OneRtt, None)),
            Header::Initial { version, scid, .. } => {
                // RFC 9000 §14.1: clients pad, or they are not answered.
                let padded = self.side == Side::Client || size >= 1200;
                (version == self.version && padded).then_some((PacketType::Initial, Some(scid)))
            }
            Header::Handshake { version, scid, .. } => {
                (version == self.version).then_some((PacketType::Handshake, Some(scid)))
            }
            Header::Retry { version, scid, token, tag, .. } => {
                if version == self.version && self.side == Side::Client {
                    self.on_retry(&bytes[..parsed.end], scid, token, tag);
                }
                None
            }
            Header::VersionNegotiation { versions, .. } => {
                if self.on_version_negotiation(versions) {
                    self.lifecycle.vanish();
                    self.over(Closed::NoCommonVersion);
                }
                None
            }
            Header::ZeroRtt { version, scid, .. } => {
                let taken = version == self.version && self.takes_early(parsed.end);
                taken.then_some((PacketType::ZeroRtt, Some(scid)))
            }
            Header::UnknownVersion { .. } => None,
        }
    }

    /// RFC 9000 §10.3.1: a datagram that cannot be read may be a stateless reset.
    fn is_reset(&self, tail: Option<[u8; 16]>) -> bool {
        match (self.cids.reset_token(), tail) {
            (Some(token), Some(tail)) => token.ct_eq(&quickset_wire::ResetToken(tail)),
            _ => false,
        }
    }

    /// Opens a packet and acts on its frames. False when it could not be read.
    fn packet(
        &mut self,
        waiting: Waiting,
        source: Option<quickset_wire::ConnectionId>,
    ) -> Result<bool, TransportError> {
        let Waiting { kind, mut packet, number_at, ecn } = waiting;
        let (space, size) = (kind.space(), packet.len());
        // RFC 9001 §5.7: a server acts on 1-RTT packets only when the handshake is complete.
        let too_early = kind == PacketType::OneRtt && self.phase == Phase::Handshake && self.side.is_server();
        let largest = self.acks[space.index()].largest();
        let opened = if too_early {
            Err(OpenError::TooEarly)
        } else {
            self.keys.open((kind, number_at), &mut packet, largest, self.now)
        };
        let opened = match opened {
            Ok(opened) => opened,
            Err(OpenError::TooEarly) => {
                if self.early.has_room(kind) {
                    self.log_buffered(kind, size);
                    self.early.packets.push(Waiting { kind, packet, number_at, ecn });
                }
                return Ok(true);
            }
            Err(OpenError::Dropped) => {
                self.stats.dropped_packets += 1;
                self.log_dropped(Some(kind), size, Why::Unreadable);
                return Ok(false);
            }
            Err(OpenError::Fatal(error)) => return Err(error),
        };
        if source.is_some_and(|scid| !self.accept_source(scid)) {
            self.log_dropped(Some(kind), size, Why::Source);
            return Ok(true);
        }
        if self.acks[space.index()].is_duplicate(opened.number) {
            self.stats.duplicate_packets += 1;
            self.log_dropped(Some(kind), size, Why::Duplicate);
            return Ok(true);
        }
        self.lifecycle.on_heard(self.now);
        self.stats.received_packets += 1;
        if self.ways.arrival.is_some() {
            self.greet();
        }
        if space == Space::Handshake && self.side.is_server() {
            // RFC 9000 §8.1: only who received our Initial can send this. RFC 9001 §4.9.1.
            self.path.validate();
            self.discard(Space::Initial);
        }
        packet.truncate(opened.payload.1);
        packet.advance(opened.payload.0);
        let payload = packet.freeze();
        self.log_received(kind, opened.number, size, &payload);
        let eliciting = self.frames(kind, &payload)?;
        if kind == PacketType::ZeroRtt {
            self.note_early(&payload);
        }
        self.acks[space.index()].on_packet(opened.number, self.now, eliciting, ecn);
        if self.ways.arrival.is_some() && largest.is_none_or(|largest| opened.number > largest) {
            self.arrived(kind, &payload);
        }
        if space == Space::Data {
            self.recover()?;
        }
        if !self.early.packets.is_empty() && matches!(kind, PacketType::Initial | PacketType::Handshake) {
            self.retry_early()?;
        }
        Ok(true)
    }

    /// Early data that overtook the hello it goes with.
    fn receive_overtakers(&mut self) {
        for datagram in std::mem::take(&mut self.early.datagrams) {
            self.path.on_received(datagram.bytes.len());
            self.stats.received_datagrams += 1;
            self.stats.received_bytes += datagram.bytes.len() as u64;
            if let Err(error) = self.datagram(datagram) {
                self.fail(error);
            }
        }
    }

    /// Whether a 0-RTT packet of `size` bytes is looked at. A client gets none (RFC 9000 §17.2.3).
    fn takes_early(&self, size: usize) -> bool {
        let Some(early) = self.config.early_data.as_ref().filter(|_| self.side.is_server()) else {
            return false;
        };
        let held = self.early.taken + (self.early.bytes() + size) as u64;
        held <= early.max_bytes && (self.keys.has_early() || !self.keys.has(Space::Handshake))
    }

    /// Counts what came in a 0-RTT packet, and marks the streams that it was for.
    fn note_early(&mut self, payload: &[u8]) {
        self.early.taken += payload.len() as u64;
        for frame in Frames::new(payload).flatten() {
            if let Frame::Stream { id, .. }
            | Frame::ResetStream { id, .. }
            | Frame::ResetStreamAt { id, .. } = frame
            {
                self.streams.note_early(id);
            }
        }
    }

    /// New keys may open what came before them.
    fn retry_early(&mut self) -> Result<(), TransportError> {
        if self.keys.has(Space::Handshake) && !self.keys.has_early() {
            self.early.packets.retain(|w| w.kind != PacketType::ZeroRtt);
        }
        let readable = |this: &Self, kind: PacketType| {
            (if kind == PacketType::ZeroRtt { this.keys.has_early() } else { this.keys.has(kind.space()) })
                && !(kind == PacketType::OneRtt && this.phase == Phase::Handshake && this.side.is_server())
        };
        while let Some(at) = self.early.packets.iter().position(|w| readable(self, w.kind)) {
            let waiting = self.early.packets.remove(at);
            self.packet(waiting, None)?;
        }
        Ok(())
    }
}
