use quickset_base::Batch;
use quickset_wire::frame::{
    source_symbol_header, source_symbol_header_size, stream_header, stream_header_size,
};
use quickset_wire::{self as wire, Space};

use super::{MAX_TOP_UP, Packed, SEALED_TOGETHER};
use crate::cc::Control;
use crate::conn::Connection;
use crate::protect::Run;
use crate::recovery::SentPacket;
use crate::room::{Phase, Want};
use crate::token::{Key, Token};
use crate::tx::StreamFrame;

/// The symbols of a train. Their lane is told of those that are alike together.
#[derive(Debug)]
struct Symbols {
    run: Run,
    /// What another is to be like, and its bytes.
    last: Option<(StreamFrame, usize)>,
    /// The first that the lane has not been told of, and its packet.
    first: Option<(StreamFrame, u64)>,
    /// How many these are, and their bytes.
    n: u64,
    bytes: u64,
}

impl Symbols {
    /// Whether a symbol in packet `number` is like the last one, and so to be told with others.
    #[inline]
    fn takes(&mut self, frame: &StreamFrame, bytes: usize, number: u64) -> bool {
        let Some((last, len)) = &mut self.last else { return false };
        let is_next = frame.offset == last.offset + u64::from(last.len) && frame.piece == last.piece;
        if !is_next || (frame.len, bytes) != (last.len, *len) {
            return false;
        }
        last.offset = frame.offset;
        self.first.get_or_insert((*frame, number));
        self.n += 1;
        self.bytes += bytes as u64;
        true
    }
}

impl Connection {
    /// Adds datagrams that are like the one before, each a packet with new data of the same stream and nothing else, as
    /// [`datagram_out`](Self::datagram_out) would one by one. What that asks every room for each packet is asked once for
    /// all of them here: while a batch is built, nothing changes it but what the packets themselves hold.
    pub(super) fn train_out(&mut self, out: &mut Batch, control: &Control) -> bool {
        if out.is_empty() || !self.has_only_data() {
            return false;
        }
        let (stream, mut symbols, calm) = if self.protect.send.is_active() {
            let Some(run) = self.protect.run else { return false };
            if self.protect.send.may_be_unmarked(run.lane, self.recovery.next_number(Space::Data)) {
                return false;
            }
            let most = self.protect.send.calm(self.moment()).min(self.protect.send.may_follow(run.lane));
            (run.stream, Some(Symbols { run, last: None, first: None, n: 0, bytes: 0 }), most)
        } else {
            let Some(stream) = self.streams.turn() else { return false };
            (stream, None, u64::MAX)
        };
        let most = calm.min((SEALED_TOGETHER - self.scratch.unsealed.len()) as u64);
        let (size, mut n) = (out.segment(), 0);
        while n < most
            && out.has_room(size)
            && self.may_send(size, control)
            && self.follow_out(out, stream, symbols.as_mut())
        {
            n += 1;
        }
        if let Some(symbols) = &mut symbols {
            self.tell(symbols);
        }
        if n == 0 {
            return false;
        }
        #[cfg(test)]
        {
            self.scratch.followed += n;
        }
        self.protect.leads = false;
        self.streams.end_stretch(stream);
        self.drain_orphans();
        self.lifecycle.on_eliciting_sent(self.now);
        self.stats.sent_datagrams += n;
        self.stats.sent_bytes += n * size as u64;
        true
    }

    /// Packets hold nothing but data.
    fn has_only_data(&mut self) -> bool {
        #[cfg(test)]
        if self.scratch.apart {
            return false;
        }
        self.phase == Phase::Confirmed
            && self.path.is_validated()
            && self.outbox.probes[Space::Data.index()] == 0
            && !self.acks[Space::Data.index()].has_news()
            && self.keys.stream(Space::Data).want() == Want::None
            && self.confirmation.want() == Want::None
            && self.cids.want() == Want::None
            && self.protect.receive.as_ref().is_none_or(|receive| receive.want() == Want::None)
            && self.protect.due.is_none()
            && !self.streams.awaits_repair()
            && !self.streams.has_control()
            && !self.asks.has_any()
            && !self.lifecycle.wants_ping()
            && !self.keys.nears_limit()
    }

    /// One of them. False when the next packet is another.
    #[inline]
    fn follow_out(&mut self, out: &mut Batch, stream: Key, symbols: Option<&mut Symbols>) -> bool {
        // What is drawn for a packet that is not sent would be lost.
        if self.numbering.leaves_out(self.recovery.next_number(Space::Data)) {
            return false;
        }
        let (begin, size) = (out.bytes().len(), out.segment());
        let buffer = out.space(size);
        let dcid = *self.cids.remote();
        let frame = self.bare_header_to(dcid, Space::Data, buffer);
        let payload = &mut buffer[frame.payload_at..size - frame.tag_len];
        let (number, now, marked) = (frame.at.number, self.now, self.path.ecn.is_marking());
        let mut tokens = std::mem::take(&mut self.scratch.tokens);
        let symbol = symbols.as_ref().map(|symbols| {
            let (session, next) = self.protect.send.head(symbols.run.lane);
            (session, next + symbols.n)
        });
        let head = symbol.map_or(0, |(session, sid)| source_symbol_header_size(session.into(), sid));
        let room = payload.len().saturating_sub(head);
        let limit = symbols.as_ref().map_or(room, |symbols| symbols.run.limit.min(room));
        let of = if room - limit > MAX_TOP_UP { None } else { self.streams.stretch(stream, limit) };
        let Some((of, data)) = of else {
            self.scratch.tokens = tokens;
            return false;
        };
        let len = stream_header_size(of.id, of.offset, Some(data.len())) + data.len();
        let mut w = wire::Writer::new(payload);
        if let Some((session, sid)) = symbol {
            source_symbol_header(&mut w, session.into(), sid, len);
            tokens.push(Token::Symbol { session, sid, n: 1 });
        }
        stream_header(&mut w, of.id, of.offset, false, Some(data.len()));
        w.bytes(data);
        w.zeros(w.room());
        tokens.push(Token::Stream { key: of.key, offset: of.offset, len: of.len, fin: false });
        if let Some(symbols) = symbols {
            let symbol = &payload[head..head + len];
            if !symbols.takes(&of, symbol.len(), number) {
                symbols.last = None;
                self.tell(symbols);
                let packed = Packed { bytes: symbol, packet: number, unmarked: false, frame: Some(&of) };
                let Self { streams, protect, .. } = self;
                let may_follow =
                    protect.send.pushed(symbols.run.lane, packed, now, |frame| streams.piece(frame));
                symbols.last = may_follow.then_some((of, symbol.len()));
            }
        }
        self.log_sent(&frame.at, payload, size);
        self.grease_bit(buffer);
        out.commit(size);
        self.scratch.unsealed.push((begin..begin + size, frame.at));
        self.path.on_sent(size);
        let state = self.departs(size, true);
        let packet =
            SentPacket { number, now, bytes: size as u16, eliciting: true, in_flight: true, marked, state };
        self.record(Space::Data, packet, &mut tokens);
        self.scratch.tokens = tokens;
        true
    }

    /// Tells the lane of symbols what it has not been told.
    #[inline]
    fn tell(&mut self, symbols: &mut Symbols) {
        if let Some((frame, number)) = symbols.first.take() {
            let all = (std::mem::take(&mut symbols.n), std::mem::take(&mut symbols.bytes));
            self.protect.send.followed(symbols.run.lane, &frame, all, (number, self.now));
        }
    }
}
