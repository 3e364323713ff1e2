//! What packets do, at the places where they do it.

use ::qlog::events::quic::{
    LossTimerEventType, LossTimerUpdated, PacketBuffered, PacketBufferedTrigger, PacketDropped,
    PacketDroppedTrigger, PacketHeader, PacketLost, PacketLostTrigger, PacketNumberSpace, PacketSentTrigger,
    PacketType as Kind, TimerType,
};
use ::qlog::events::{EventData, RawInfo};
use quickset_base::Time;
use quickset_wire::{ConnectionId, PacketType, Space};
use serde::Serialize;

use super::frame::{self, Logged};
use super::log::Log;
use crate::conn::Connection;
use crate::packet::Unsealed;
use crate::recovery::Settled;

/// Why a packet is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It came from an address that is not the peer's.
    Address,
    /// It does not open, or its keys are gone.
    Unreadable,
    /// It came twice.
    Duplicate,
    /// Its source is not the peer's id.
    Source,
    /// There is no memory for what it brings.
    Unpaid,
    /// It asks for more work than the peer's packets have earned.
    Unearned,
}

/// The data of packet_sent and packet_received. The crate `qlog` has no place in it for frames that it does
/// not know.
#[derive(Serialize)]
struct Packet<'a> {
    header: PacketHeader,
    raw: RawInfo,
    frames: &'a [Logged],
    /// Frames beyond those listed.
    #[serde(skip_serializing_if = "is_none")]
    frames_omitted: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<PacketSentTrigger>,
}

impl Connection {
    /// A packet is about to be sealed; `len` is its size then.
    #[inline]
    pub(crate) fn log_sent(&mut self, at: &Unsealed, payload: &[u8], len: usize) {
        if self.common.qlog.is_on() {
            self.packet_sent(at, payload, len);
        }
    }

    /// A packet was opened, and its frames are about to act.
    #[inline]
    pub(crate) fn log_received(&mut self, kind: PacketType, number: u64, size: usize, payload: &[u8]) {
        if self.common.qlog.is_on() {
            self.packet_received(kind, number, size, payload);
        }
    }

    /// A packet waits for its keys.
    pub(crate) fn log_buffered(&mut self, kind: PacketType, size: usize) {
        let now = self.common.now;
        if let Some(log) = self.common.qlog.log() {
            let buffered = PacketBuffered {
                header: Some(plain(name(kind), None)),
                raw: Some(raw(size, None)),
                datagram_id: None,
                trigger: Some(PacketBufferedTrigger::KeysUnavailable),
            };
            log.event(now, &EventData::PacketBuffered(buffered));
        }
    }

    /// A packet, or a datagram of unknown content, is dropped.
    pub(crate) fn log_dropped(&mut self, kind: Option<PacketType>, size: usize, why: Why) {
        let now = self.common.now;
        if let Some(log) = self.common.qlog.log() {
            let (trigger, details) = match why {
                Why::Address => (PacketDroppedTrigger::Rejected, "not from the peer's address"),
                Why::Unreadable => (PacketDroppedTrigger::DecryptionFailure, ""),
                Why::Duplicate => (PacketDroppedTrigger::General, "duplicate"),
                Why::Source => (PacketDroppedTrigger::Invalid, "not the peer's connection id"),
                Why::Unpaid => (PacketDroppedTrigger::Rejected, "no memory in the budget"),
                Why::Unearned => (PacketDroppedTrigger::Rejected, "more work than packets have earned"),
            };
            let dropped = PacketDropped {
                header: kind.map(|kind| plain(name(kind), None)),
                raw: Some(raw(size, None)),
                datagram_id: None,
                details: (!details.is_empty()).then(|| details.to_owned()),
                trigger: Some(trigger),
            };
            log.event(now, &EventData::PacketDropped(dropped));
        }
    }

    /// A Retry was accepted.
    pub(crate) fn log_retry(&mut self, scid: &ConnectionId, token: usize, size: usize) {
        let (now, version) = (self.common.now, self.common.version);
        if let Some(log) = self.common.qlog.log() {
            let header = PacketHeader {
                token: Some(frame::token(token)),
                ..PacketHeader::new(Kind::Retry, None, None, None, None, Some(version.0), Some(scid), None)
            };
            let packet =
                Packet { header, raw: raw(size, None), frames: &[], frames_omitted: 0, trigger: None };
            log.named(now, RECEIVED, &packet);
        }
    }

    /// Packets of `space` were declared lost.
    pub(crate) fn log_lost(&mut self, space: Space, settled: &Settled) {
        if settled.lost_packets.is_empty() {
            return;
        }
        let (now, recovery) = (self.common.now, &self.link.recovery);
        let Some(log) = self.common.qlog.log() else { return };
        for packet in &settled.lost_packets {
            let trigger = recovery.lost_by_time(space, packet.number).map(|by_time| {
                if by_time {
                    PacketLostTrigger::TimeThreshold
                } else {
                    PacketLostTrigger::ReorderingThreshold
                }
            });
            let header = Some(plain(name(of(space)), Some(packet.number)));
            log.event(now, &EventData::PacketLost(PacketLost { header, frames: None, trigger }));
        }
    }

    /// A probe timeout.
    pub(crate) fn log_probe(&mut self, space: Space) {
        let now = self.common.now;
        if let Some(log) = self.common.qlog.log() {
            let expired = LossTimerUpdated {
                timer_type: Some(TimerType::Pto),
                packet_number_space: Some(match space {
                    Space::Initial => PacketNumberSpace::Initial,
                    Space::Handshake => PacketNumberSpace::Handshake,
                    Space::Data => PacketNumberSpace::ApplicationData,
                }),
                event_type: LossTimerEventType::Expired,
                delta: None,
            };
            log.event(now, &EventData::LossTimerUpdated(expired));
        }
    }

    fn packet_sent(&mut self, at: &Unsealed, payload: &[u8], len: usize) {
        let early = at.space == Space::Data && self.link.keys.sends_early();
        let kind = if early { PacketType::ZeroRtt } else { of(at.space) };
        let (now, version, remote) = (self.common.now, self.common.version, *self.link.cids.remote());
        let updates = self.link.keys.updates();
        let probe = self.life.lifecycle.is_open() && self.link.probes[at.space.index()] > 0;
        let token = if kind == PacketType::Initial { self.life.handshake.token.len() } else { 0 };
        let scid = *self.link.cids.first_local();
        let exponent = match at.space {
            Space::Data => self.life.handshake.ours.ack_delay_exponent,
            Space::Initial | Space::Handshake => ACK_DELAY_EXPONENT,
        };
        let Some(log) = self.common.qlog.log() else { return };
        log.remote_id(now, &remote);
        log.key_update(now, updates, true);
        let mut header =
            PacketHeader::with_type(name(kind), Some(at.number), Some(version.0), Some(&scid), Some(&remote));
        header.token = (token > 0).then(|| frame::token(token));
        let trigger = probe.then_some(PacketSentTrigger::PtoProbe);
        log.packet(now, SENT, (header, raw(len, Some(payload.len())), trigger), (payload, exponent));
    }

    fn packet_received(&mut self, kind: PacketType, number: u64, size: usize, payload: &[u8]) {
        let (now, updates) = (self.common.now, self.link.keys.updates());
        let long = kind != PacketType::OneRtt;
        let scid = self.life.handshake.peer_cid.filter(|_| long);
        let version = long.then_some(self.common.version.0);
        let exponent = match &self.common.peer {
            Some(params) if !long => params.ack_delay_exponent,
            _ => ACK_DELAY_EXPONENT,
        };
        let Some(log) = self.common.qlog.log() else { return };
        log.key_update(now, updates, false);
        let scid = scid.as_ref().map(AsRef::as_ref);
        let header = PacketHeader::new(name(kind), Some(number), None, None, None, version, scid, None);
        log.packet(now, RECEIVED, (header, raw(size, Some(payload.len())), None), (payload, exponent));
    }
}

impl Log {
    fn packet(
        &mut self,
        now: Time,
        name: &'static str,
        (header, raw, trigger): (PacketHeader, RawInfo, Option<PacketSentTrigger>),
        (payload, ack_delay_exponent): (&[u8], u8),
    ) {
        let mut frames = std::mem::take(&mut self.frames);
        let frames_omitted = frame::collect(payload, ack_delay_exponent, &mut frames);
        self.named(now, name, &Packet { header, raw, frames: &frames, frames_omitted, trigger });
        frames.clear();
        self.frames = frames;
    }
}

/// The packets of a space that we send.
pub(super) const fn of(space: Space) -> PacketType {
    match space {
        Space::Initial => PacketType::Initial,
        Space::Handshake => PacketType::Handshake,
        Space::Data => PacketType::OneRtt,
    }
}

const fn name(kind: PacketType) -> Kind {
    match kind {
        PacketType::Initial => Kind::Initial,
        PacketType::ZeroRtt => Kind::ZeroRtt,
        PacketType::Handshake => Kind::Handshake,
        PacketType::OneRtt => Kind::OneRtt,
    }
}

fn plain(packet_type: Kind, packet_number: Option<u64>) -> PacketHeader {
    PacketHeader { packet_type, packet_number, ..PacketHeader::default() }
}

fn raw(length: usize, payload: Option<usize>) -> RawInfo {
    RawInfo { length: Some(length as u64), payload_length: payload.map(|n| n as u64), data: None }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands out references")]
fn is_none(n: &u64) -> bool {
    *n == 0
}

/// RFC 9000 §18.2: what holds before the parameters are known.
const ACK_DELAY_EXPONENT: u8 = 3;

const SENT: &str = "transport:packet_sent";
const RECEIVED: &str = "transport:packet_received";
