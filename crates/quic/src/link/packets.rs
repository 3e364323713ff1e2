//! Packets: begun with the next number and the right header, traced, sealed, remembered.

use quickset_base::number::within_u16;
use quickset_base::{AddressPair as Address, Batch};
use quickset_wire::header::{LongHeader, ShortHeader, clear_fixed_bit};
use quickset_wire::{ConnectionId, PacketType, Space, packet_number};

use super::PacketLink;
use crate::common::Common;
use crate::error::TransportError;
use crate::packet::{
    FrameToken, LONGER_HEADER, MAX_TOP_UP, MadePacket, Numbered, OutgoingHeader, OutgoingPacket,
    PacketWriter, Phase, Want,
};
use crate::qlog::SendingFacts;
use crate::recovery::SentPacket;

/// Where a packet goes: an address, and the id that the peer has there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Destination {
    pub(crate) address: Address,
    pub(crate) id: ConnectionId,
}

impl PacketLink {
    /// Begins the next packet of `space`.
    pub(crate) fn begin<'b>(
        &mut self,
        cx: &Common,
        space: Space,
        buffer: &'b mut [u8],
    ) -> OutgoingPacket<'b> {
        let dcid = *self.cids.remote();
        self.begin_to(cx, dcid, space, buffer)
    }

    /// The same for another id of the peer's.
    fn begin_to<'b>(
        &mut self,
        cx: &Common,
        dcid: ConnectionId,
        space: Space,
        buffer: &'b mut [u8],
    ) -> OutgoingPacket<'b> {
        let mut packet = self.begin_plain(cx, dcid, space, buffer);
        self.grease_bit(packet.first_byte());
        packet
    }

    /// The same without a draw for the fixed bit, for which [`grease_bit`](Self::grease_bit) is called once
    /// the packet is sure to leave.
    pub(crate) fn begin_plain<'b>(
        &mut self,
        cx: &Common,
        dcid: ConnectionId,
        space: Space,
        buffer: &'b mut [u8],
    ) -> OutgoingPacket<'b> {
        let next = self.path.recovery.next_number(space);
        let number = if space == Space::Data { self.path.numbering.choose(next) } else { next };
        let len = packet_number::encode_len(number, self.path.recovery.largest_acked(space));
        let header = match space {
            Space::Data if !self.keys.sends_early() => {
                OutgoingHeader::Short(ShortHeader { dcid, spin: false, key_phase: self.keys.phase() })
            }
            _ => OutgoingHeader::Long(LongHeader {
                ty: match space {
                    Space::Initial => PacketType::Initial,
                    Space::Handshake => PacketType::Handshake,
                    Space::Data => PacketType::ZeroRtt,
                },
                // RFC 9369 §4.1: early data stays in the version that it began in.
                version: if space == Space::Data { self.began } else { cx.version },
                dcid,
                scid: *self.cids.first_local(),
                token: if space == Space::Initial { &self.token } else { &[] },
            }),
        };
        let tokens = std::mem::take(&mut self.tokens);
        let tag_len = self.keys.tag_len(space);
        OutgoingPacket::begin(buffer, &header, Numbered { space, number, len }, tag_len, tokens)
    }

    /// As much of `buffer` as a packet can be long: the Length of a long header is a varint of two bytes.
    #[inline]
    pub(crate) fn within_length<'a>(&self, space: Space, buffer: &'a mut [u8]) -> &'a mut [u8] {
        let is_short = space == Space::Data && !self.keys.sends_early();
        let most = if is_short { buffer.len() } else { buffer.len().min(MAX_LONG) };
        &mut buffer[..most]
    }

    /// What a packet of full size with a short header has for frames behind a number of so many bytes.
    fn room_behind(&self, number_len: usize) -> usize {
        let header = 1 + self.cids.remote().len() + number_len;
        self.path.mtu.saturating_sub(header + self.keys.tag_len(Space::Data))
    }

    /// The same of packet `number`, as long as nothing more is acknowledged.
    pub(crate) fn room_of(&self, number: u64) -> usize {
        self.room_behind(packet_number::encode_len(number, self.path.recovery.largest_acked(Space::Data)))
    }

    /// What a packet that holds nothing else has for frames, whatever its number.
    pub(crate) fn packet_room(&self) -> usize {
        let early = if self.keys.sends_early() { LONGER_HEADER } else { 0 };
        self.room_behind(4 + early)
    }

    /// Makes the fixed bit of a packet what the peer may find there.
    #[inline]
    fn grease_bit(&mut self, first: &mut u8) {
        if self.grease.clears(|| self.path.numbering.bits()) {
            clear_fixed_bit(first);
        }
    }

    /// The second of two probes of the handshake carries the same as the first when nothing else is left to
    /// carry: the handshake waits for just that, and a server may be strict about the first packet that it
    /// sees of a client, which has a CRYPTO frame (RFC 9000 §17.2.2).
    #[cold]
    pub(crate) fn probe_again(&mut self, space: Space, tokens: &[FrameToken]) {
        let Some(stream) = self.keys.stream(space) else { return };
        if stream.want() > Want::None {
            return;
        }
        for token in tokens {
            if let FrameToken::Crypto { offset, len, .. } = *token {
                stream.lost(offset, len);
            }
        }
    }

    /// Notes how much of `room` the frames of a packet take. Returns whether others as long are to be
    /// expected behind the first of a batch: the last packet held a message, too, was about full, and would
    /// have fitted into it. What else there is, bytes of a stream, fills the packets that it gets.
    #[inline]
    pub(crate) fn note_filled(&mut self, written: usize, room: usize, is_message: bool) -> bool {
        let filled = if is_message { written } else { usize::MAX };
        let last = std::mem::replace(&mut self.filled, filled);
        let is_as_last = last <= written && room <= last + MAX_TOP_UP;
        is_message && is_as_last
    }

    /// Makes a datagram for `to` of one packet of `size` bytes, which loss detection knows and congestion
    /// control does not: what `fill` writes, and PADDING.
    pub(super) fn packet_beside(
        &mut self,
        cx: &mut Common,
        out: &mut Batch,
        to: Destination,
        size: usize,
        fill: impl FnOnce(&mut Self, &mut Common, &mut PacketWriter<'_>),
    ) {
        let mut packet = self.begin_to(cx, to.id, Space::Data, out.space(size));
        let mut w = packet.writer();
        fill(self, cx, &mut w);
        let (written, room) = (w.len(), packet.room());
        let mut made = packet.finish(written, room);
        let len = self.sealed(cx, &mut made);
        self.path.recovery.on_sent_elsewhere(
            made.at.number,
            cx.now,
            within_u16(len as u64),
            &mut made.tokens,
        );
        self.tokens = made.tokens;
        out.path = to.address;
        out.commit(len);
        cx.stats.sent_packets += 1;
        cx.stats.sent_datagrams += 1;
        cx.stats.sent_bytes += len as u64;
    }

    /// Remembers a packet that is about to leave.
    #[inline]
    pub(crate) fn record(
        &mut self,
        cx: &mut Common,
        space: Space,
        packet: SentPacket,
        tokens: &mut Vec<FrameToken>,
    ) {
        self.path.recovery.on_sent(space, packet, tokens);
        cx.stats.sent_packets += 1;
    }

    /// Tells the trace of a packet that is about to be sealed.
    #[inline]
    pub(crate) fn trace_sent(&mut self, cx: &mut Common, made: &MadePacket<'_>) {
        if cx.qlog.is_on() {
            let packet = SendingFacts {
                at: &made.at,
                version: cx.version,
                remote: self.cids.remote(),
                local: self.cids.first_local(),
                early: self.keys.sends_early(),
                token: self.token.len(),
                updates: self.keys.updates(),
                probe: self.probes[made.at.space.index()] > 0,
            };
            cx.qlog.sent(cx.now, &packet, made.payload(), made.bytes.len());
        }
    }

    /// Seals it. Returns the size of the packet.
    pub(crate) fn sealed(&mut self, cx: &mut Common, made: &mut MadePacket<'_>) -> usize {
        let len = made.bytes.len();
        self.trace_sent(cx, made);
        self.keys.seal(made.bytes, &made.at);
        len
    }

    /// Seals what was built.
    pub(crate) fn seal(&mut self, out: &mut Batch) {
        for (range, at) in self.unsealed.drain(..) {
            self.keys.seal(&mut out.bytes_mut()[range], &at);
        }
    }

    /// The packet, which begins at this place of its batch, joins those before it. Returns its size.
    #[inline]
    pub(crate) fn leaves(
        &mut self,
        cx: &mut Common,
        made: MadePacket<'_>,
        begin: usize,
        app_limited: bool,
    ) -> usize {
        let size = made.bytes.len();
        self.trace_sent(cx, &made);
        self.grease_bit(&mut made.bytes[0]);
        let MadePacket { mut tokens, at, .. } = made;
        self.unsealed.push((begin..begin + size, at));
        self.path.on_sent(size);
        let state = self.path.departs(cx.now, size, app_limited);
        let (number, now, marked) = (at.number, cx.now, self.path.ecn.is_marking());
        let packet = SentPacket {
            number,
            now,
            bytes: within_u16(size as u64),
            eliciting: true,
            in_flight: true,
            marked,
            state,
        };
        self.record(cx, Space::Data, packet, &mut tokens);
        self.tokens = tokens;
        size
    }

    /// Sees to it that there are keys that one more packet may be sealed with.
    #[inline]
    pub(crate) fn refresh_keys(&mut self, cx: &mut Common, out: &mut Batch) -> Result<(), TransportError> {
        if !self.keys.nears_limit() {
            return Ok(());
        }
        // What was built has the phase of the old ones, and counts.
        self.seal(out);
        self.keys.before_seal(cx.phase == Phase::Confirmed, cx.now)
    }

    /// The next `size` bytes of the batch are a datagram.
    pub(crate) fn push(&mut self, cx: &mut Common, out: &mut Batch, size: usize) {
        out.commit(size);
        self.path.on_sent(size);
        cx.stats.sent_datagrams += 1;
        cx.stats.sent_bytes += size as u64;
    }
}

/// The longest packet with a long header.
const MAX_LONG: usize = (1 << 14) - 1;
