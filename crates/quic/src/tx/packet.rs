use quickset_base::{Batch, Path as Address};
use quickset_wire::header::{LongHeader, ShortHeader, clear_fixed_bit};
use quickset_wire::{ConnectionId, PacketType, Space, packet_number};

use super::{Built, MAX_TOP_UP, Pad, Plan, Terms};
use crate::cc;
use crate::conn::Connection;
use crate::life::Farewell;
use crate::packet::{Header, Made, Numbered, Outgoing, Phase, Token, Want, Writer};
use crate::qlog::Sending;
use crate::recovery::SentPacket;

/// Where a packet goes: an address, and the id that the peer has there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destination {
    pub(super) address: Address,
    pub(super) id: ConnectionId,
}

impl Connection {
    /// Builds and records one packet at the start of `buffer`, as long at least as `pad` says. Those with a
    /// long header are sealed as well.
    pub(super) fn packet_out(
        &mut self,
        space: Space,
        buffer: &mut [u8],
        terms: Terms,
        plan: &mut Plan,
    ) -> Built {
        let Terms { permit, pad } = terms;
        let buffer = self.within_length(space, buffer);
        let most = buffer.len();
        let mut packet = self.begin(space, buffer);
        let mut w = packet.writer();
        self.fill(space, &mut w, permit, plan);
        let (written, eliciting, is_message) = (w.len(), w.is_eliciting(), w.ends_in_message());
        let pad_to = pad.of(packet.size_with(written), most);
        if written == 0 && pad_to == 0 {
            self.link.tokens = packet.abandon();
            return Built::NOTHING;
        }
        plan.even = self.note_filled(written, packet.room(), is_message) && plan.leads;
        let padded = self.padded(&packet, written, pad_to, plan);
        // RFC 9002 §2, §B.4; RFC 9000 §13.2.7: packets with PADDING are in flight too.
        let in_flight = eliciting || padded > written;
        let mut made = packet.finish(written, padded);
        let (len, is_sealed) = (made.bytes.len(), made.is_long);
        let state = self.departs(len, in_flight);
        self.trace_sent(&made);
        if is_sealed {
            self.link.keys.seal(made.bytes, &made.at);
        } else {
            // Where it lies is known when the datagram is complete.
            self.link.unsealed.push((0..len, made.at));
        }
        if eliciting {
            self.life.lifecycle.on_eliciting_sent(self.common.now);
            self.link.probes[space.index()] = self.link.probes[space.index()].saturating_sub(1);
            if space != Space::Data && permit.probe && self.link.probes[space.index()] > 0 {
                self.probe_again(space, &made.tokens);
            }
        }
        let (number, now, marked) = (made.at.number, self.common.now, self.link.path.ecn.is_marking());
        let packet = SentPacket { number, now, bytes: len as u16, eliciting, in_flight, marked, state };
        self.record(space, packet, &mut made.tokens);
        self.link.tokens = made.tokens;
        Built { len, is_sealed }
    }

    /// The second of two probes of the handshake carries the same as the first when nothing else is left to
    /// carry: the handshake waits for just that, and a server may be strict about the first packet that it
    /// sees of a client, which has a CRYPTO frame (RFC 9000 §17.2.2).
    #[cold]
    fn probe_again(&mut self, space: Space, tokens: &[Token]) {
        let stream = self.link.keys.stream(space);
        if stream.want() > Want::None {
            return;
        }
        for token in tokens {
            if let Token::Crypto { offset, len, .. } = *token {
                stream.lost(offset, len);
            }
        }
    }

    /// A packet of `len` bytes is about to leave: for congestion control, if it counts there.
    #[inline]
    pub(super) fn departs(&mut self, len: usize, in_flight: bool) -> cc::PacketState {
        if !in_flight {
            return cc::PacketState::default();
        }
        let bytes = len as u64;
        self.link.path.pacer.on_sent(bytes);
        self.link.path.congestion.on_sent(&cc::Sent {
            now: self.common.now,
            bytes,
            in_flight: self.link.recovery.in_flight() + bytes,
            app_limited: self.traffic.streams.want() == Want::None
                && self.traffic.datagrams.is_empty()
                && !self.protect.send.owes(),
        })
    }

    /// Remembers a packet that is about to leave.
    #[inline]
    pub(super) fn record(&mut self, space: Space, packet: SentPacket, tokens: &mut Vec<Token>) {
        self.link.recovery.on_sent(space, packet, tokens);
        self.common.stats.sent_packets += 1;
    }

    /// How long the payload becomes: what was written, and PADDING where it must be.
    pub(super) fn padded(&self, packet: &Outgoing<'_>, written: usize, pad_to: usize, plan: &Plan) -> usize {
        let room = packet.room();
        let mut padded = written.max(packet.least()).max(packet.payload_of(pad_to)).min(room);
        // A segment a little shorter than those before it would end the batch, and one that is shorter than
        // those behind it could be makes them as short. Equal messages, and the last symbols of a transfer,
        // are all that short, from the first of their batch on.
        let is_followed = packet.space() == Space::Data
            && (self.traffic.streams.want() > Want::None || !self.traffic.datagrams.is_empty());
        let is_short = plan.closing || plan.even;
        if is_followed && !is_short && room - padded <= MAX_TOP_UP {
            padded = room;
        }
        padded
    }

    /// Notes how much of `room` the frames of a packet take. Returns whether others as long are to be
    /// expected behind the first of a batch: the last packet held a message, too, was about full, and would
    /// have fitted into it. What else there is, bytes of a stream, fills the packets that it gets.
    #[inline]
    fn note_filled(&mut self, written: usize, room: usize, is_message: bool) -> bool {
        let filled = if is_message { written } else { usize::MAX };
        let last = std::mem::replace(&mut self.link.filled, filled);
        let is_as_last = last <= written && room <= last + MAX_TOP_UP;
        is_message && is_as_last
    }

    /// As much of `buffer` as a packet can be long: the Length of a long header is a varint of two bytes.
    #[inline]
    fn within_length<'a>(&self, space: Space, buffer: &'a mut [u8]) -> &'a mut [u8] {
        let is_short = space == Space::Data && !self.link.keys.sends_early();
        let most = if is_short { buffer.len() } else { buffer.len().min(MAX_LONG) };
        &mut buffer[..most]
    }

    /// What a packet of full size with a short header has for frames behind a number of so many bytes.
    pub(crate) fn room_behind(&self, number_len: usize) -> usize {
        let header = 1 + self.link.cids.remote().len() + number_len;
        self.link.path.mtu.saturating_sub(header + self.link.keys.tag_len(Space::Data))
    }

    /// The same of packet `number`, as long as nothing more is acknowledged.
    pub(crate) fn room_of(&self, number: u64) -> usize {
        self.room_behind(packet_number::encode_len(number, self.link.recovery.largest_acked(Space::Data)))
    }

    /// Begins the next packet of `space`.
    fn begin<'b>(&mut self, space: Space, buffer: &'b mut [u8]) -> Outgoing<'b> {
        let dcid = *self.link.cids.remote();
        self.begin_to(dcid, space, buffer)
    }

    /// The same for another id of the peer's.
    fn begin_to<'b>(&mut self, dcid: ConnectionId, space: Space, buffer: &'b mut [u8]) -> Outgoing<'b> {
        let mut packet = self.begin_plain(dcid, space, buffer);
        self.grease_bit(packet.first_byte());
        packet
    }

    /// The same without a draw for the fixed bit, for which [`grease_bit`](Self::grease_bit) is called once
    /// the packet is sure to leave.
    pub(super) fn begin_plain<'b>(
        &mut self,
        dcid: ConnectionId,
        space: Space,
        buffer: &'b mut [u8],
    ) -> Outgoing<'b> {
        let next = self.link.recovery.next_number(space);
        let number = if space == Space::Data { self.link.numbering.choose(next) } else { next };
        let len = packet_number::encode_len(number, self.link.recovery.largest_acked(space));
        let header = match space {
            Space::Data if !self.link.keys.sends_early() => {
                Header::Short(ShortHeader { dcid, spin: false, key_phase: self.link.keys.phase() })
            }
            _ => Header::Long(LongHeader {
                ty: match space {
                    Space::Initial => PacketType::Initial,
                    Space::Handshake => PacketType::Handshake,
                    Space::Data => PacketType::ZeroRtt,
                },
                // RFC 9369 §4.1: early data stays in the version that it began in.
                version: if space == Space::Data { self.link.began } else { self.common.version },
                dcid,
                scid: *self.link.cids.first_local(),
                token: if space == Space::Initial { &self.link.token } else { &[] },
            }),
        };
        let tokens = std::mem::take(&mut self.link.tokens);
        let tag_len = self.link.keys.tag_len(space);
        Outgoing::begin(buffer, &header, Numbered { space, number, len }, tag_len, tokens)
    }

    /// Makes a datagram for `to` of one packet of `size` bytes, which loss detection knows and congestion
    /// control does not: what `fill` writes, and PADDING.
    pub(super) fn packet_beside(
        &mut self,
        out: &mut Batch,
        to: Destination,
        size: usize,
        fill: impl FnOnce(&mut Self, &mut Writer<'_>),
    ) {
        let mut packet = self.begin_to(to.id, Space::Data, out.space(size));
        let mut w = packet.writer();
        fill(self, &mut w);
        let (written, room) = (w.len(), packet.room());
        let mut made = packet.finish(written, room);
        let len = self.sealed(&mut made);
        self.link.recovery.on_sent_elsewhere(made.at.number, self.common.now, len as u16, &mut made.tokens);
        self.link.tokens = made.tokens;
        out.path = to.address;
        out.commit(len);
        self.common.stats.sent_packets += 1;
        self.common.stats.sent_datagrams += 1;
        self.common.stats.sent_bytes += len as u64;
    }

    /// Makes the fixed bit of a packet what the peer may find there.
    #[inline]
    pub(super) fn grease_bit(&mut self, first: &mut u8) {
        if self.link.grease.clears(|| self.link.numbering.bits()) {
            clear_fixed_bit(first);
        }
    }

    /// Tells the trace of a packet that is about to be sealed.
    #[inline]
    pub(super) fn trace_sent(&mut self, made: &Made<'_>) {
        if self.common.qlog.is_on() {
            let packet = Sending {
                at: &made.at,
                version: self.common.version,
                remote: self.link.cids.remote(),
                local: self.link.cids.first_local(),
                early: self.link.keys.sends_early(),
                token: self.link.token.len(),
                updates: self.link.keys.updates(),
                probe: self.link.probes[made.at.space.index()] > 0,
                ack_delay_exponent: self.common.ours.ack_delay_exponent,
            };
            self.common.qlog.sent(self.common.now, &packet, made.payload(), made.bytes.len());
        }
    }

    /// Seals it. Returns the size of the packet.
    fn sealed(&mut self, made: &mut Made<'_>) -> usize {
        let len = made.bytes.len();
        self.trace_sent(made);
        self.link.keys.seal(made.bytes, &made.at);
        len
    }

    /// A packet that says farewell and nothing else.
    pub(super) fn farewell_packet(
        &mut self,
        space: Space,
        buffer: &mut [u8],
        farewell: &Farewell,
        pad: Pad,
    ) -> usize {
        let buffer = self.within_length(space, buffer);
        let most = buffer.len();
        let mut packet = self.begin(space, buffer);
        let mut w = packet.writer();
        // What arrived was not in vain: the peer may wait for nothing else.
        self.link.acks[space.index()].write(&mut w, self.common.now);
        let finishes =
            space == Space::Handshake && self.common.side.is_client() && self.common.phase > Phase::Handshake;
        if finishes && self.link.keys.stream(space).fits(w.room()) {
            self.link.keys.stream(space).write(&mut w, space);
        } else {
            let words = farewell.frame(space == Space::Data, w.room());
            w.put(&words, Token::Nothing);
        }
        let written = w.len();
        let pad_to = pad.of(packet.size_with(written), most);
        let padded = self.padded(&packet, written, pad_to, &Plan::default());
        let mut made = packet.finish(written, padded);
        let len = self.sealed(&mut made);
        let packet = SentPacket {
            number: made.at.number,
            now: self.common.now,
            bytes: len as u16,
            eliciting: false,
            in_flight: false,
            marked: false,
            state: cc::PacketState::default(),
        };
        self.record(space, packet, &mut made.tokens);
        self.link.tokens = made.tokens;
        len
    }
}

/// The longest packet with a long header.
const MAX_LONG: usize = (1 << 14) - 1;
