//! The way in: datagram to packets, packets to frames, frames to the rooms that own them.
//!
//! *In:* a received batch. *Out:* calls of `on_frame` doors; ACK frames are collected and act after
//! the batch; packets that came before their keys are kept for a while.
//!
//! Invariants: nothing of a packet acts before the packet is authentic; a packet number acts once; at most as
//! many packets wait for keys as [`Early`](crate::received::EarlyPackets) says. Frames that forward erasure
//! correction recovers enter at `dispatch` too.

mod dispatch;

use bytes::Buf;
use quickset_base::{Datagram, Time};
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::header::{Header, Parsed};
use quickset_wire::{ConnectionId, PacketType, Side, Space};

use crate::conn::{Connection, Negotiated, violation};
use crate::error::{Closed, TransportError};
use crate::event::Signal;
use crate::keys::version_of;
use crate::packet::Phase;
use crate::qlog::Why;
use crate::received::{Authentic, WaitingPacket};

/// Packets that are opened before their frames act: see [`SEALED_TOGETHER`](crate::tx::SEALED_TOGETHER).
pub(crate) const OPENED_TOGETHER: usize = 8;

/// Packets of ours that elicit nothing and that the peer told nothing of: ACK frames, for the most part.
/// Every so many of them ask to be acknowledged, so that an honest peer has no more of them than a round trip
/// holds; one that goes on sending and acknowledges nothing would have us keep them for ever.
const MAX_UNCONFIRMED: usize = 1 << 15;

impl Connection {
    /// Takes a batch, and acts on what it said as a whole; or on each datagram by itself.
    pub(crate) fn receive(&mut self, datagrams: &mut Vec<Datagram>) {
        if !self.common.config.acks.merging {
            // A driver that polls less than it receives does not make us keep more than a batch.
            while self.receive_next() {}
            self.unread.extend(datagrams.drain(..));
            self.receive_next();
            return;
        }
        let mut opened = std::mem::take(&mut self.scratch.opened);
        for datagram in datagrams.drain(..) {
            if self.is_usual(&datagram) {
                self.take_usual(datagram, &mut opened);
            } else {
                self.act_on_all(&mut opened);
                self.take(datagram);
            }
        }
        self.act_on_all(&mut opened);
        self.scratch.opened = opened;
        self.end_batch();
    }

    /// Acts on the next datagram of a batch that is not taken as a whole. False when there is none.
    pub(crate) fn receive_next(&mut self) -> bool {
        let Some(datagram) = self.unread.pop_front() else { return false };
        self.take(datagram);
        self.end_batch();
        true
    }

    fn take(&mut self, datagram: Datagram) {
        if !self.link.is_on_path(&datagram) {
            if !self.receive_elsewhere(datagram) {
                self.common.stats.dropped_packets += 1;
            }
            return;
        }
        self.link.count(&mut self.common, &datagram);
        if !self.life.lifecycle.listens() {
            self.life.lifecycle.on_unread();
            return;
        }
        if let Err(error) = self.datagram(datagram) {
            self.fail(error);
        }
    }

    fn end_batch(&mut self) {
        self.end_vigil();
        self.miss_answer();
        if !self.link.early.datagrams.is_empty() {
            self.receive_overtakers();
        }
        if !self.life.lifecycle.is_open() {
            return;
        }
        if let Err(error) = self.act_on_acks() {
            self.fail(error);
        }
        if self.unread.is_empty() {
            self.link.look_at_acks(&self.common, self.protect.send.waits());
        }
        if self.link.path.recovery.unconfirmed() > MAX_UNCONFIRMED {
            self.fail(violation("acknowledges nothing"));
            return;
        }
        if !self.link.candidates.is_quiet() {
            // What came may be what an address was waiting for to be sent more.
            self.link.candidates.stir();
        }
    }

    /// Whether it did and is one packet with a short header, to be opened in the same way whatever those
    /// before it say.
    #[inline]
    pub(crate) fn is_usual(&self, datagram: &Datagram) -> bool {
        self.common.phase == Phase::Confirmed
            && self.life.lifecycle.is_open()
            && datagram.bytes.first().is_some_and(|first| self.link.form.is_short(*first))
            && self.link.is_on_path(datagram)
    }

    /// Opens such a packet, and acts on those in `opened` once they are enough.
    fn take_usual(&mut self, datagram: Datagram, opened: &mut Vec<Authentic>) {
        self.link.count(&mut self.common, &datagram);
        let Datagram { bytes: packet, ecn, .. } = datagram;
        let tail = self.link.cids.reset_token().and_then(|_| packet.last_chunk::<16>().copied());
        let number_at = 1 + self.link.cids.first_local().len();
        let waiting = WaitingPacket { kind: PacketType::OneRtt, packet, number_at, ecn };
        let latest = opened.iter().map(|packet| packet.opened.number).max();
        match self.link.unseal(&mut self.common, waiting, latest.max(self.link.acks.data.largest())) {
            Ok(packet) => {
                opened.push(packet);
                if opened.len() >= OPENED_TOGETHER {
                    self.act_on_all(opened);
                }
            }
            Err((waiting, error)) => {
                self.act_on_all(opened);
                match self.link.unopened(&mut self.common, waiting, error) {
                    Ok(true) => {}
                    Ok(false) => self.may_be_reset(tail),
                    Err(error) => self.fail(error),
                }
            }
        }
    }

    fn act_on_all(&mut self, opened: &mut Vec<Authentic>) {
        for packet in opened.drain(..) {
            if !self.life.lifecycle.listens() {
                continue;
            }
            if let Err(error) = self.act_on(packet, self.common.now) {
                self.fail(error);
            }
        }
    }

    /// One datagram.
    pub(crate) fn datagram(&mut self, datagram: Datagram) -> Result<(), TransportError> {
        let Datagram { mut bytes, ecn, .. } = datagram;
        let size = bytes.len();
        let tail = self.link.cids.reset_token().and_then(|_| bytes.last_chunk::<16>().copied());
        let mut first: Option<ConnectionId> = None;
        while !bytes.is_empty() && self.life.lifecycle.listens() {
            let Ok(parsed) = Parsed::parse(&bytes, self.link.cids.first_local().len()) else {
                break;
            };
            if !parsed.is_fixed && !self.link.form.takes_unfixed() {
                break;
            }
            let (number_at, end) = (parsed.pn_offset, parsed.end);
            // RFC 9000 §12.2: the endpoint read the first header alone, and what is behind it for another id
            // is not ours.
            let is_stray = first.is_some_and(|first| *first != *parsed.header.dcid());
            if first.is_none() && end < bytes.len() {
                first = ConnectionId::new(parsed.header.dcid());
            }
            let addressed = if is_stray { None } else { self.addressed(&parsed, &bytes, size) };
            let Some((kind, source)) = addressed else {
                bytes.advance(end);
                continue;
            };
            // The usual datagram is one packet; then nothing is split.
            let packet = if end == bytes.len() { std::mem::take(&mut bytes) } else { bytes.split_to(end) };
            let opened =
                self.packet(WaitingPacket { kind, packet, number_at, ecn }, source, self.common.now)?;
            if !opened && kind == PacketType::OneRtt {
                self.may_be_reset(tail);
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
    ) -> Option<(PacketType, Option<ConnectionId>)> {
        match parsed.header.clone() {
            Header::Short { .. } => Some((PacketType::OneRtt, None)),
            Header::Initial { version, scid, token, .. } => {
                // RFC 9000 §14.1: clients pad, or they are not answered. §17.2.2: servers have no tokens to
                // show.
                let is_good = if self.common.side == Side::Client { token.is_empty() } else { size >= 1200 };
                (is_good && self.may_be_of(version)).then_some((PacketType::Initial, Some(scid)))
            }
            Header::Handshake { version, scid, .. } => {
                self.may_be_of(version).then_some((PacketType::Handshake, Some(scid)))
            }
            Header::Retry { version, scid, token, tag, .. } => {
                if version == self.common.version && self.common.side == Side::Client {
                    self.on_retry(&bytes[..parsed.end], scid, token, tag);
                }
                None
            }
            Header::VersionNegotiation { dcid, scid, versions } => {
                match self.on_version_negotiation(dcid, scid, &versions) {
                    Negotiated::Nothing => {}
                    Negotiated::Again(version) => {
                        if let Err(error) = self.begin_again(version) {
                            self.fail(error);
                        }
                    }
                    Negotiated::NoCommon => {
                        self.life.lifecycle.vanish();
                        self.over(Closed::NoCommonVersion);
                    }
                }
                None
            }
            Header::ZeroRtt { version, scid, .. } => {
                // RFC 9369 §4.1: early data stays in the version that the client began in.
                let taken = version == self.link.began && self.link.takes_early(&self.common, parsed.end);
                taken.then_some((PacketType::ZeroRtt, Some(scid)))
            }
            Header::UnknownVersion { .. } => None,
        }
    }

    /// RFC 9000 §10.3.1: a datagram that cannot be read may be a stateless reset.
    fn may_be_reset(&mut self, tail: Option<[u8; 16]>) {
        if let (Some(token), Some(tail)) = (self.link.cids.reset_token(), tail) {
            if token.ct_eq(&quickset_wire::ResetToken(tail)) {
                self.life.lifecycle.vanish();
                self.over(Closed::Reset);
            }
        }
    }

    /// Opens a packet, which came at `came`, and acts on its frames. False when it could not be read.
    fn packet(
        &mut self,
        waiting: WaitingPacket,
        source: Option<ConnectionId>,
        came: Time,
    ) -> Result<bool, TransportError> {
        let largest = self.link.largest_received(waiting.kind.space());
        let packet = match self.link.unseal(&mut self.common, waiting, largest) {
            Ok(packet) => packet,
            Err((waiting, error)) => return self.link.unopened(&mut self.common, waiting, error),
        };
        if source.is_some_and(|scid| !self.link.accept_source(scid)) {
            self.common.trace_dropped(Some(packet.kind), packet.packet.len(), Why::Source);
            return Ok(true);
        }
        if packet.kind == PacketType::Initial {
            if let Some(version) = version_of(&packet.packet) {
                self.heard_in(version);
            }
        }
        self.act_on(packet, came).map(|()| true)
    }

    /// Acts on the frames of a packet, which came at `came`.
    fn act_on(&mut self, packet: Authentic, came: Time) -> Result<(), TransportError> {
        let Authentic { kind, mut packet, opened, ecn } = packet;
        let (space, size) = (kind.space(), packet.len());
        let acks = self.link.acks.get(space);
        let largest = self.link.largest_received(space);
        // RFC 9001 §9.5: a copy is known only now that it was opened like any other.
        if acks.is_some_and(|acks| acks.is_duplicate(opened.number)) {
            self.common.stats.duplicate_packets += 1;
            self.common.trace_dropped(Some(kind), size, Why::Duplicate);
            return Ok(());
        }
        self.life.lifecycle.on_heard(self.common.now);
        self.common.stats.received_packets += 1;
        let is_newest = largest.is_none_or(|largest| opened.number > largest);
        if self.link.candidates.arrival.is_some() {
            if let Err(error) = self.link.greet(&self.common) {
                self.fail(error);
            }
            if is_newest && self.common.phase < Phase::Confirmed {
                // First, since what the packet says may bring answers.
                if self.life.lifecycle.is_open() {
                    let moved = self.link.arrived_early(&mut self.common, kind);
                    self.follow_move(moved);
                }
            }
        }
        if space == Space::Handshake && self.common.side.is_server() {
            // RFC 9000 §8.1, §17.2.2.1: only who received our Initial can send this. RFC 9001 §4.9.1.
            if self.link.candidates.arrival.is_none()
                && !self.link.candidates.strayed
                && !self.link.path.is_validated()
            {
                self.link.path.validate();
                self.common.signals.push_back(Signal::Proven);
            }
            self.discard(Space::Initial);
        }
        packet.truncate(opened.payload.1);
        packet.advance(opened.payload.0);
        let payload = packet.freeze();
        if !self.may_keep(&payload) {
            // As if it were lost: it comes again, and to the peer it is congestion.
            self.common.trace_dropped(Some(kind), size, Why::Unpaid);
            return Ok(());
        }
        if !self.may_ask(&payload) {
            self.common.trace_dropped(Some(kind), size, Why::Unearned);
            return Ok(());
        }
        self.trace_received(kind, opened.number, size, &payload);
        let eliciting = self.frames(kind, &payload)?;
        self.pay_for_work();
        if eliciting {
            self.life.lifecycle.on_elicited();
        }
        if kind == PacketType::OneRtt {
            let receive = self.protect.receive.as_mut();
            if let Some(receive) = receive.filter(|receive| receive.heeds(opened.number)) {
                receive.keep(opened.number, &payload);
            }
        }
        if kind == PacketType::ZeroRtt {
            self.note_early(&payload);
        }
        // RFC 9000 §13.2.5: the wait for keys is a delay of ours, and as such is told.
        if let Some(acks) = self.link.acks.get_mut(space) {
            acks.on_packet(opened.number, came, eliciting, ecn);
        }
        if self.link.candidates.arrival.is_some() && is_newest && self.life.lifecycle.is_open() {
            let moved = self.link.arrived(&mut self.common, kind, &payload);
            self.follow_move(moved);
        }
        if space == Space::Data {
            self.recover()?;
        }
        if !self.link.early.packets.is_empty() && matches!(kind, PacketType::Initial | PacketType::Handshake)
        {
            self.retry_early()?;
        }
        Ok(())
    }

    /// Early data that overtook the hello it goes with.
    fn receive_overtakers(&mut self) {
        for datagram in std::mem::take(&mut self.link.early.datagrams) {
            self.link.path.on_received(datagram.bytes.len());
            self.common.stats.received_datagrams += 1;
            self.common.stats.received_bytes += datagram.bytes.len() as u64;
            if let Err(error) = self.datagram(datagram) {
                self.fail(error);
            }
        }
    }

    /// Counts what came in a 0-RTT packet, and marks the streams that it was for.
    fn note_early(&mut self, payload: &[u8]) {
        self.link.early.taken += payload.len() as u64;
        for frame in Frames::new(payload).flatten() {
            if let Frame::Stream { id, .. }
            | Frame::ResetStream { id, .. }
            | Frame::ResetStreamAt { id, .. } = frame
            {
                self.traffic.streams.receiving(id).note_early();
            }
        }
    }

    /// New keys may open what came before them.
    fn retry_early(&mut self) -> Result<(), TransportError> {
        if self.link.keys.has(Space::Handshake) && !self.link.keys.has_early() {
            self.link.early.packets.retain(|(_, w)| w.kind != PacketType::ZeroRtt);
        }
        let readable = |this: &Self, kind: PacketType| {
            (if kind == PacketType::ZeroRtt {
                this.link.keys.has_early()
            } else {
                this.link.keys.has(kind.space())
            }) && !(kind == PacketType::OneRtt
                && this.common.phase == Phase::Handshake
                && this.common.side.is_server())
        };
        while let Some(at) = self.link.early.packets.iter().position(|(_, w)| readable(self, w.kind)) {
            let (came, waiting) = self.link.early.packets.remove(at);
            self.packet(waiting, None, came)?;
        }
        Ok(())
    }
}
