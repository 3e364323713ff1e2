use quickset_wire::header::{LongHeader, ShortHeader, clear_fixed_bit, long_header, short_header};
use quickset_wire::{self as wire, ConnectionId, PacketType, Space, packet_number};

use super::{Built, MAX_TOP_UP, Pad, Permit};
use crate::cc;
use crate::conn::{Connection, Farewell};
use crate::keys::Unsealed;
use crate::packet::{Phase, Token, Want, Writer};
use crate::recovery::SentPacket;

/// Where the parts of a packet lie in its buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) at: Unsealed,
    /// Where the Length field of a long header stands.
    length_at: Option<usize>,
    /// Where the payload begins.
    pub(super) payload_at: usize,
    pub(super) tag_len: usize,
}

impl Connection {
    /// Builds and records one packet at the start of `buffer`, as long at least as `pad` says. Those with a long header are
    /// sealed as well.
    pub(super) fn packet_out(&mut self, space: Space, buffer: &mut [u8], permit: Permit, pad: Pad) -> Built {
        let buffer = self.within_length(space, buffer);
        let frame = self.header(space, buffer);
        let end = buffer.len() - frame.tag_len;
        let mut tokens = std::mem::take(&mut self.scratch.tokens);
        let mut w = Writer::new(wire::Writer::new(&mut buffer[frame.payload_at..end]), &mut tokens)
            .numbered(frame.at.number);
        self.fill(space, &mut w, permit);
        let (written, eliciting) = (w.len(), w.is_eliciting());
        let pad_to = pad.of(frame.payload_at + written + frame.tag_len, end + frame.tag_len);
        if written == 0 && pad_to == 0 {
            self.scratch.tokens = tokens;
            return Built::NOTHING;
        }
        let room = end - frame.payload_at;
        self.note_filled(written, room, w.ends_in_message());
        let padded = self.padded(&frame, written, room, pad_to);
        w.bytes().zeros(padded - written);
        // RFC 9002 §2, §B.4; RFC 9000 §13.2.7: packets with PADDING are in flight too.
        let in_flight = eliciting || padded > written;
        let len = frame.payload_at + padded + frame.tag_len;
        let state = self.departs(len, in_flight);
        let is_sealed = frame.length_at.is_some();
        if is_sealed {
            self.sealed(frame, buffer, padded);
        } else {
            self.log_sent(&frame.at, &buffer[frame.payload_at..][..padded], len);
            // Where it lies is known when the datagram is complete.
            self.scratch.unsealed.push((0..len, frame.at));
        }

        if eliciting {
            self.lifecycle.on_eliciting_sent(self.now);
            self.outbox.probes[space.index()] = self.outbox.probes[space.index()].saturating_sub(1);
            if space != Space::Data && permit.probe && self.outbox.probes[space.index()] > 0 {
                self.probe_again(space, &tokens);
            }
        }
        let (number, now, marked) = (frame.at.number, self.now, self.path.ecn.is_marking());
        let packet = SentPacket { number, now, bytes: len as u16, eliciting, in_flight, marked, state };
        self.record(space, packet, &mut tokens);
        self.scratch.tokens = tokens;
        Built { len, is_sealed }
    }

    /// The second of two probes of the handshake carries the same as the first when nothing else is left to carry: the
    /// handshake waits for just that, and a server may be strict about the first packet that it sees of a client, which has
    /// a CRYPTO frame (RFC 9000 §17.2.2).
    #[cold]
    fn probe_again(&mut self, space: Space, tokens: &[Token]) {
        let stream = self.keys.stream(space);
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
        self.path.pacer.on_sent(bytes);
        self.path.congestion.on_sent(&cc::Sent {
            now: self.now,
            bytes,
            in_flight: self.recovery.in_flight() + bytes,
            app_limited: self.streams.want() == Want::None
                && self.datagrams.is_empty()
                && !self.protect.send.owes(),
        })
    }

    /// Remembers a packet that is about to leave.
    #[inline]
    pub(super) fn record(&mut self, space: Space, packet: SentPacket, tokens: &mut Vec<Token>) {
        self.recovery.on_sent(space, packet, tokens);
        self.stats.sent_packets += 1;
    }

    /// How long the payload becomes: what was written, and PADDING where it must be.
    pub(super) fn padded(&self, frame: &Frame, written: usize, room: usize, pad_to: usize) -> usize {
        // RFC 9001 §5.4.2: number and payload make up for the sample's offset.
        let sample = 4usize.saturating_sub(frame.at.number_len);
        let asked = pad_to.saturating_sub(frame.payload_at + frame.tag_len);
        let mut padded = written.max(sample).max(asked).min(room);
        // A segment a little shorter than those before it would end the batch, and one that is shorter than those behind it
        // could be makes them as short. Equal messages, and the last symbols of a transfer, are all that short, from the
        // first of their batch on.
        let is_followed =
            frame.at.space == Space::Data && (self.streams.want() > Want::None || !self.datagrams.is_empty());
        let is_short = self.protect.closing || self.outbox.alike;
        if is_followed && !is_short && room - padded <= MAX_TOP_UP {
            padded = room;
        }
        padded
    }

    /// Notes how much of `room` the frames of a packet take, and whether others as long are to be expected: it is the first
    /// of a batch, and the last packet held a message, too, was about full, and would have fitted into it. What else there is,
    /// bytes of a stream, fills the packets that it gets.
    #[inline]
    fn note_filled(&mut self, written: usize, room: usize, is_message: bool) {
        let filled = if is_message { written } else { usize::MAX };
        let last = std::mem::replace(&mut self.outbox.filled, filled);
        let is_as_last = last <= written && room <= last + MAX_TOP_UP;
        self.outbox.alike = self.protect.leads && is_message && is_as_last;
    }

    /// As much of `buffer` as a packet can be long: the Length of a long header is a varint of two bytes.
    #[inline]
    fn within_length<'a>(&self, space: Space, buffer: &'a mut [u8]) -> &'a mut [u8] {
        let is_short = space == Space::Data && !self.keys.sends_early();
        let most = if is_short { buffer.len() } else { buffer.len().min(MAX_LONG) };
        &mut buffer[..most]
    }

    /// What a packet of full size with a short header has for frames behind a number of so many bytes.
    pub(crate) fn room_behind(&self, number_len: usize) -> usize {
        let header = 1 + self.cids.remote().len() + number_len;
        self.path.mtu.saturating_sub(header + self.keys.tag_len(Space::Data))
    }

    /// The same of packet `number`, as long as nothing more is acknowledged.
    pub(crate) fn room_of(&self, number: u64) -> usize {
        self.room_behind(packet_number::encode_len(number, self.recovery.largest_acked(Space::Data)))
    }

    /// Writes the header of the next packet of `space`.
    pub(super) fn header(&mut self, space: Space, buffer: &mut [u8]) -> Frame {
        let dcid = *self.cids.remote();
        self.header_to(dcid, space, buffer)
    }

    /// The same for another id of the peer's.
    pub(super) fn header_to(&mut self, dcid: ConnectionId, space: Space, buffer: &mut [u8]) -> Frame {
        let frame = self.bare_header_to(dcid, space, buffer);
        self.grease_bit(buffer);
        frame
    }

    /// The same without a draw for the fixed bit, for which [`grease_bit`](Self::grease_bit) is called once the packet is sure
    /// to leave.
    pub(super) fn bare_header_to(&mut self, dcid: ConnectionId, space: Space, buffer: &mut [u8]) -> Frame {
        let next = self.recovery.next_number(space);
        let number = if space == Space::Data { self.numbering.choose(next) } else { next };
        let number_len = packet_number::encode_len(number, self.recovery.largest_acked(space));
        let tag_len = self.keys.tag_len(space);
        let mut w = wire::Writer::new(buffer);
        let length_at = match space {
            Space::Data if !self.keys.sends_early() => {
                let header = ShortHeader { dcid, spin: false, key_phase: self.keys.phase() };
                short_header(&mut w, &header, number, number_len);
                None
            }
            _ => {
                let header = LongHeader {
                    ty: match space {
                        Space::Initial => PacketType::Initial,
                        Space::Handshake => PacketType::Handshake,
                        Space::Data => PacketType::ZeroRtt,
                    },
                    // RFC 9369 §4.1: early data stays in the version that it began in.
                    version: if space == Space::Data { self.handshake.began } else { self.version },
                    dcid,
                    scid: *self.cids.first_local(),
                    token: if space == Space::Initial { &self.handshake.token } else { &[] },
                };
                Some(long_header(&mut w, &header, number, number_len))
            }
        };
        let payload_at = w.len();
        let at = Unsealed { space, number, number_at: payload_at - number_len, number_len };
        Frame { at, length_at, payload_at, tag_len }
    }

    /// Makes the fixed bit of a packet what the peer may find there.
    #[inline]
    pub(super) fn grease_bit(&mut self, packet: &mut [u8]) {
        if self.grease.clears(|| self.numbering.bits()) {
            clear_fixed_bit(&mut packet[0]);
        }
    }

    /// Sets the length and seals. Returns the size of the packet.
    pub(super) fn sealed(&mut self, frame: Frame, buffer: &mut [u8], payload: usize) -> usize {
        let len = frame.payload_at + payload + frame.tag_len;
        if let Some(at) = frame.length_at {
            let length = frame.at.number_len + payload + frame.tag_len;
            wire::Writer::new(&mut buffer[at..at + 2]).varint2(length as u64);
        }
        self.log_sent(&frame.at, &buffer[frame.payload_at..][..payload], len);
        self.keys.seal(&mut buffer[..len], &frame.at);
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
        let frame = self.header(space, buffer);
        let end = buffer.len() - frame.tag_len;
        let mut tokens = std::mem::take(&mut self.scratch.tokens);
        let mut w = Writer::new(wire::Writer::new(&mut buffer[frame.payload_at..end]), &mut tokens);
        // What arrived was not in vain: the peer may wait for nothing else.
        self.acks[space.index()].write(&mut w, self.now);
        let finishes = space == Space::Handshake && self.side.is_client() && self.phase > Phase::Handshake;
        if finishes && self.keys.stream(space).fits(w.room()) {
            self.keys.stream(space).write(&mut w, space);
        } else {
            let words = farewell.frame(space == Space::Data, w.room());
            w.put(&words, Token::Nothing);
        }
        let written = w.len();
        let room = end - frame.payload_at;
        let pad_to = pad.of(frame.payload_at + written + frame.tag_len, end + frame.tag_len);
        let padded = self.padded(&frame, written, room, pad_to);
        w.bytes().zeros(padded - written);
        let len = self.sealed(frame, buffer, padded);
        let (number, now, state) = (frame.at.number, self.now, cc::PacketState::default());
        let packet = SentPacket {
            number,
            now,
            bytes: len as u16,
            eliciting: false,
            in_flight: false,
            marked: false,
            state,
        };
        self.record(space, packet, &mut tokens);
        self.scratch.tokens = tokens;
        len
    }
}

/// The longest packet with a long header.
const MAX_LONG: usize = (1 << 14) - 1;
