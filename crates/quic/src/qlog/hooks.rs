//! What packets do, at the places where they do it.

use ::qlog::events::quic::{
    LossTimerEventType, LossTimerUpdated, PacketBuffered, PacketBufferedTrigger, PacketDropped,
    PacketDroppedTrigger, PacketHeader, PacketLost, PacketLostTrigger, PacketNumberSpace, PacketSentTrigger,
    PacketType as Kind, TimerType,
};
use ::qlog::events::{EventData, RawInfo};
use quickset_base::Time;
use quickset_wire::{ConnectionId, PacketType, Space, Version};
use serde::Serialize;

use super::frame::{self, Logged};
use super::log::{Qlog, QlogWriter};
use super::{Received, SendingFacts, Why};
use crate::recovery::{Recovery, SettledPackets};

/// The data of packet_sent and packet_received. The crate `qlog` has no place in it for frames that it does
/// not know.
#[derive(Serialize)]
struct TracedPacket<'a> {
    header: PacketHeader,
    raw: RawInfo,
    frames: &'a [Logged],
    /// Frames beyond those listed.
    #[serde(skip_serializing_if = "is_none")]
    frames_omitted: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    trigger: Option<PacketSentTrigger>,
}

impl TracedPacket<'_> {
    /// One whose frames are not known yet.
    fn new(header: PacketHeader, raw: RawInfo) -> Self {
        Self { header, raw, frames: &[], frames_omitted: 0, trigger: None }
    }
}

impl Qlog {
    /// A packet is about to be sealed; `len` is its size then.
    pub(crate) fn sent(&mut self, now: Time, packet: &SendingFacts<'_>, payload: &[u8], len: usize) {
        let Some(log) = self.log() else { return };
        let SendingFacts { at, version, remote, local, early, token, updates, probe } = *packet;
        let kind = if early && at.space == Space::Data { PacketType::ZeroRtt } else { of(at.space) };
        log.remote_id(now, remote);
        log.key_update(now, updates, true);
        let mut header =
            PacketHeader::with_type(name(kind), Some(at.number), Some(version.0), Some(local), Some(remote));
        header.token = (kind == PacketType::Initial && token > 0).then(|| frame::token(token));
        let trigger = probe.then_some(PacketSentTrigger::PtoProbe);
        let packet = TracedPacket { trigger, ..TracedPacket::new(header, raw(len, Some(payload.len()))) };
        // Ours is the same in all spaces.
        log.packet(now, SENT, packet, payload, ACK_DELAY_EXPONENT);
    }

    /// A packet was opened, and its frames are about to act; `size` is that of the packet.
    pub(crate) fn received(&mut self, now: Time, packet: &Received, payload: &[u8], size: usize) {
        let Some(log) = self.log() else { return };
        let Received { kind, number, version, source, updates, peer } = *packet;
        let long = kind != PacketType::OneRtt;
        let exponent = peer.filter(|_| !long).unwrap_or(ACK_DELAY_EXPONENT);
        log.key_update(now, updates, false);
        let (scid, version) = (source.filter(|_| long), long.then_some(version.0));
        let scid = scid.as_ref().map(AsRef::as_ref);
        let header = PacketHeader::new(name(kind), Some(number), None, None, None, version, scid, None);
        let packet = TracedPacket::new(header, raw(size, Some(payload.len())));
        log.packet(now, RECEIVED, packet, payload, exponent);
    }

    /// A packet waits for its keys.
    pub(crate) fn buffered(&mut self, now: Time, kind: PacketType, size: usize) {
        if let Some(log) = self.log() {
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
    pub(crate) fn dropped(&mut self, now: Time, kind: Option<PacketType>, size: usize, why: Why) {
        if let Some(log) = self.log() {
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

    /// A Retry was accepted, with a token of so many bytes, in a packet of so many.
    pub(crate) fn retry(
        &mut self,
        now: Time,
        version: Version,
        scid: &ConnectionId,
        token: usize,
        size: usize,
    ) {
        if let Some(log) = self.log() {
            let header = PacketHeader {
                token: Some(frame::token(token)),
                ..PacketHeader::new(Kind::Retry, None, None, None, None, Some(version.0), Some(scid), None)
            };
            let packet = TracedPacket::new(header, raw(size, None));
            log.named(now, RECEIVED, &packet);
        }
    }

    /// Packets of `space` were declared lost.
    pub(crate) fn lost(&mut self, now: Time, space: Space, settled: &SettledPackets, recovery: &Recovery) {
        if settled.lost_packets.is_empty() {
            return;
        }
        let Some(log) = self.log() else { return };
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
    pub(crate) fn probe(&mut self, now: Time, space: Space) {
        if let Some(log) = self.log() {
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
}

impl QlogWriter {
    fn packet(
        &mut self,
        now: Time,
        name: &'static str,
        packet: TracedPacket<'_>,
        payload: &[u8],
        ack_delay_exponent: u8,
    ) {
        let mut frames = std::mem::take(&mut self.frames);
        let frames_omitted = frame::collect(payload, ack_delay_exponent, &mut frames);
        self.named(now, name, &TracedPacket { frames: &frames, frames_omitted, ..packet });
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
