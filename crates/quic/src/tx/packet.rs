use quickset_base::number::within_u16;
use quickset_wire::Space;

use super::{Built, PacketTerms, Pad, Transmission};
use crate::cc;
use crate::life::CloseFrame;
use crate::packet::{FrameToken, MAX_TOP_UP, OutgoingPacket, Phase};
use crate::recovery::SentPacket;

impl Transmission<'_> {
    /// Builds and records one packet at the start of `buffer`, as long at least as `pad` says. Those with a
    /// long header are sealed as well.
    pub(super) fn packet_out(&mut self, space: Space, buffer: &mut [u8], terms: PacketTerms) -> Built {
        let PacketTerms { permit, pad } = terms;
        let buffer = self.conn.link.within_length(space, buffer);
        let most = buffer.len();
        let mut packet = self.conn.link.begin(&self.conn.common, space, buffer);
        let mut w = packet.writer();
        self.fill(space, &mut w, permit);
        let (written, eliciting, is_message) = (w.len(), w.is_eliciting(), w.ends_in_message());
        let pad_to = pad.of(packet.size_with(written), most);
        if written == 0 && pad_to == 0 {
            self.conn.link.tokens = packet.abandon();
            return Built::NOTHING;
        }
        self.plan.even = self.conn.link.note_filled(written, packet.room(), is_message) && self.plan.leads;
        let padded = self.padded(&packet, written, pad_to);
        // RFC 9002 §2, §B.4; RFC 9000 §13.2.7: packets with PADDING are in flight too.
        let in_flight = eliciting || padded > written;
        let mut made = packet.finish(written, padded);
        let (len, is_sealed) = (made.bytes.len(), made.is_long);
        let state = if in_flight {
            let limited = self.is_app_limited();
            self.conn.link.path.departs(self.conn.common.now, len, limited)
        } else {
            cc::PacketState::default()
        };
        self.conn.link.trace_sent(&mut self.conn.common, &made);
        if is_sealed {
            self.conn.link.keys.seal(made.bytes, &made.at);
        } else {
            // Where it lies is known when the datagram is complete.
            self.conn.link.unsealed.push((0..len, made.at));
        }
        if eliciting {
            self.conn.life.lifecycle.on_eliciting_sent(self.conn.common.now);
            self.conn.link.probes[space.index()] = self.conn.link.probes[space.index()].saturating_sub(1);
            if space != Space::Data && permit.probe && self.conn.link.probes[space.index()] > 0 {
                self.conn.link.probe_again(space, &made.tokens);
            }
        }
        let (number, now, marked) =
            (made.at.number, self.conn.common.now, self.conn.link.path.ecn.is_marking());
        let packet =
            SentPacket { number, now, bytes: within_u16(len as u64), eliciting, in_flight, marked, state };
        self.conn.link.record(&mut self.conn.common, space, packet, &mut made.tokens);
        self.conn.link.tokens = made.tokens;
        Built { len, is_sealed }
    }

    /// Whether nothing waits behind what leaves now.
    #[inline]
    pub(super) fn is_app_limited(&self) -> bool {
        self.conn.traffic.is_empty() && !self.conn.protect.send.owes()
    }

    /// How long the payload becomes: what was written, and PADDING where it must be.
    pub(super) fn padded(&self, packet: &OutgoingPacket<'_>, written: usize, pad_to: usize) -> usize {
        let room = packet.room();
        let mut padded = written.max(packet.least()).max(packet.payload_of(pad_to)).min(room);
        // A segment a little shorter than those before it would end the batch, and one that is shorter than
        // those behind it could be makes them as short. Equal messages, and the last symbols of a transfer,
        // are all that short, from the first of their batch on.
        let is_followed = packet.space() == Space::Data && !self.conn.traffic.is_empty();
        let is_short = self.plan.closing || self.plan.even;
        if is_followed && !is_short && room - padded <= MAX_TOP_UP {
            padded = room;
        }
        padded
    }

    /// A packet that says farewell and nothing else.
    pub(super) fn farewell_packet(
        &mut self,
        space: Space,
        buffer: &mut [u8],
        farewell: &CloseFrame,
        pad: Pad,
    ) -> usize {
        let buffer = self.conn.link.within_length(space, buffer);
        let most = buffer.len();
        let mut packet = self.conn.link.begin(&self.conn.common, space, buffer);
        let mut w = packet.writer();
        // What arrived was not in vain: the peer may wait for nothing else.
        if let Some(acks) = self.conn.link.acks.get_mut(space) {
            acks.write(&mut w, self.conn.common.now);
        }
        let finishes = space == Space::Handshake
            && self.conn.common.side.is_client()
            && self.conn.common.phase > Phase::Handshake;
        let stream = self.conn.link.keys.stream(space).filter(|_| finishes);
        if let Some(stream) = stream.filter(|stream| stream.fits(w.room())) {
            stream.write(&mut w, space);
        } else {
            let words = farewell.frame(space == Space::Data, w.room());
            w.put(&words, FrameToken::Nothing);
        }
        let written = w.len();
        let pad_to = pad.of(packet.size_with(written), most);
        let padded = self.padded(&packet, written, pad_to);
        let mut made = packet.finish(written, padded);
        let len = self.conn.link.sealed(&mut self.conn.common, &mut made);
        let packet = SentPacket {
            number: made.at.number,
            now: self.conn.common.now,
            bytes: within_u16(len as u64),
            eliciting: false,
            in_flight: false,
            marked: false,
            state: cc::PacketState::default(),
        };
        self.conn.link.record(&mut self.conn.common, space, packet, &mut made.tokens);
        self.conn.link.tokens = made.tokens;
        len
    }
}
