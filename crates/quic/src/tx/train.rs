use quickset_base::Batch;
use quickset_wire::frame::{source_symbol_header, stream_header};
use quickset_wire::{self as wire, Space};

use super::{SEALED_TOGETHER, Transmission};
use crate::conn::Connection;
use crate::packet::{FrameToken, MAX_OVERHEAD, MAX_TOP_UP, Packed, Phase, StreamFrame, StreamKey, Want};
use crate::protect::send::WindowSlot;
use crate::protect::{Alike, DuePacket};
use crate::traffic::Traffic;

/// The symbols of a train. Their lane is told of those that are alike together.
#[derive(Debug)]
struct TrainSymbols {
    lane: usize,
    session: u32,
    /// The next SID.
    sid: u64,
    /// Bytes of a symbol at most.
    limit: usize,
    /// What another is to be like.
    last: Option<Alike>,
    /// The first that the lane has not been told of, and its packet.
    first: Option<(StreamFrame, u64)>,
    /// How many these are, and their bytes.
    n: u64,
    bytes: u64,
}

impl TrainSymbols {
    /// Whether a symbol in packet `number` is like the last one, and so to be told with others.
    #[inline]
    fn takes(&mut self, frame: &StreamFrame, bytes: usize, number: u64) -> bool {
        let Some(Alike { frame: last, bytes: len, .. }) = &mut self.last else { return false };
        let is_next = frame.offset == last.offset + u64::from(last.len) && frame.piece == last.piece;
        if !is_next || (frame.key, frame.len, bytes) != (last.key, last.len, *len) {
            return false;
        }
        last.offset = frame.offset;
        self.first.get_or_insert((*frame, number));
        self.n += 1;
        self.bytes += bytes as u64;
        true
    }
}

impl Transmission<'_> {
    /// Adds datagrams that hold nothing but new data of one stream, or one of repair, as
    /// [`datagram_out`](Self::datagram_out) would one by one. What that asks every room for each packet is
    /// asked once for all of them here: while a batch is built, nothing changes it but what the packets
    /// themselves hold.
    pub(super) fn train_out(&mut self, out: &mut Batch) -> bool {
        if !self.has_only_data() {
            return false;
        }
        // At the end of what there is, the first packet says how long those of its batch become.
        let (size, least) = match out.segment() {
            0 => (self.conn.link.path.mtu, Batch::MAX_SEGMENTS * self.conn.link.path.mtu),
            segment => (segment, segment),
        };
        if self.conn.traffic.streams.want() == Want::None || !out.has_room(size) {
            return false;
        }
        // Before the pacer is asked: repair that is due is more to wait for, and what it was asked before
        // counts.
        let (protect, mut of) = self.conn.around();
        protect.plan_slot(&mut of);
        if !self.may_send(size) || !self.conn.traffic.streams.goes_on(least) {
            return false;
        }
        match self.conn.protect.due {
            Some(_) if out.is_empty() => false,
            Some(due) => self.repair_follows(out, &due),
            None => self.data_follows(out, size),
        }
    }

    /// As many packets of data as may go before any room has to be asked again, sealed in groups on the way.
    fn data_follows(&mut self, out: &mut Batch, size: usize) -> bool {
        let is_short = self.plan.repaired && size + MAX_TOP_UP < self.conn.link.path.mtu;
        if is_short || size < LEAST {
            return false;
        }
        // Where nothing cuts batches into datagrams, each has one of its own.
        let mut most = if self.conn.common.config.gso { u64::MAX } else { 1 };
        let (stream, mut symbols) = if self.conn.protect.send.is_active() {
            let (protect, mut of) = self.conn.around();
            let Some((stream, joined)) = protect.board(&mut of, &self.plan) else { return false };
            // Nothing is due for the next packet, which was found out above, and for those behind it if that
            // was said.
            most = most.min(protect.send.quiet(of.moment()).max(1));
            if let Some((lane, _)) = joined {
                if self
                    .conn
                    .protect
                    .send
                    .may_be_unmarked(lane, self.conn.link.path.recovery.next_number(Space::Data))
                {
                    return false;
                }
                most = most.min(self.conn.protect.send.may_follow(lane));
            }
            let symbols = joined.map(|(lane, limit)| {
                let last = self.plan.alike.filter(|alike| alike.lane == lane);
                let (session, sid) = self.conn.protect.send.head(lane);
                TrainSymbols { lane, session, sid, limit, last, first: None, n: 0, bytes: 0 }
            });
            (stream, symbols)
        } else {
            let Some(stream) = self.conn.traffic.streams.turn() else { return false };
            (stream, None)
        };
        let mut n = 0;
        while n < most
            && out.has_room(size)
            && self.may_send(size)
            && self.follow_out(out, size, stream, symbols.as_mut())
        {
            n += 1;
            if self.conn.link.unsealed.len() >= SEALED_TOGETHER {
                self.conn.link.seal(out);
                if self.conn.link.keys.nears_limit() {
                    break;
                }
            }
        }
        match &mut symbols {
            Some(symbols) => {
                self.tell(symbols);
                self.plan.alike = symbols.last;
            }
            None => self.conn.protect.send.passed(n),
        }
        if n == 0 {
            return false;
        }
        (self.plan.repaired, self.plan.closing) = (false, false);
        self.conn.traffic.streams.end_stretch(stream);
        self.plan.leads = false;
        self.followed(n, n * size as u64);
        true
    }

    /// The packet of repair that is due. False when it takes another way, since that may not leave now or is
    /// for more.
    fn repair_follows(&mut self, out: &mut Batch, due: &DuePacket) -> bool {
        let (size, next) = (out.segment(), self.conn.link.path.recovery.next_number(Space::Data));
        let WindowSlot::Repair(lane) = due.slot else { return false };
        if self.conn.link.path.numbering.leaves_out(next) {
            return false;
        }
        let dcid = *self.conn.link.cids.remote();
        let begin = out.bytes().len();
        let mut packet = self.conn.link.begin_plain(&self.conn.common, dcid, Space::Data, out.space(size));
        let mut w = packet.writer();
        let (protect, of) = self.conn.around();
        let is_made = protect.write_repair(&of, &mut w, lane);
        let written = w.len();
        if !is_made || written == 0 {
            self.conn.link.tokens = packet.abandon();
            return false;
        }
        (self.plan.closing, self.plan.even) = (false, false);
        let padded = self.padded(&packet, written, 0);
        self.conn.protect.due = None;
        self.plan.repaired = true;
        self.conn.traffic.streams.repair().sent(due.turn, written);
        let made = packet.finish(written, padded);
        let limited = self.is_app_limited();
        let size = self.conn.link.leaves(&mut self.conn.common, made, begin, limited);
        out.commit(size);
        self.plan.leads = false;
        self.followed(1, size as u64);
        true
    }

    /// What many packets more, of so many bytes, change for all rooms alike.
    fn followed(&mut self, n: u64, bytes: u64) {
        #[cfg(test)]
        {
            self.conn.scratch.followed += n;
        }
        self.conn.link.filled = usize::MAX;
        self.conn.protect.drain(&mut self.conn.traffic, self.conn.common.now);
        self.conn.life.lifecycle.on_eliciting_sent(self.conn.common.now);
        self.conn.common.stats.sent_datagrams += n;
        self.conn.common.stats.sent_bytes += bytes;
    }

    /// Packets hold nothing but data.
    fn has_only_data(&mut self) -> bool {
        #[cfg(test)]
        if self.conn.scratch.apart {
            return false;
        }
        self.conn.common.phase == Phase::Confirmed
            && self.conn.link.path.is_validated()
            && self.conn.link.probes[Space::Data.index()] == 0
            && !self.conn.link.acks.data.has_news()
            && self.conn.link.keys.want(Space::Data) == Want::None
            && !self.conn.has_control()
            && !self.conn.link.keys.nears_limit()
    }

    /// One of them. False when the next packet is another.
    #[inline]
    fn follow_out(
        &mut self,
        out: &mut Batch,
        size: usize,
        stream: StreamKey,
        symbols: Option<&mut TrainSymbols>,
    ) -> bool {
        // What is drawn for a packet that is not sent would be lost.
        if self.conn.link.path.numbering.leaves_out(self.conn.link.path.recovery.next_number(Space::Data)) {
            return false;
        }
        let dcid = *self.conn.link.cids.remote();
        let begin = out.bytes().len();
        let mut packet = self.conn.link.begin_plain(&self.conn.common, dcid, Space::Data, out.space(size));
        let number = packet.number();
        let (payload, tokens) = packet.parts();
        let mut w = wire::Writer::new(payload);
        let (mut length_at, mut limit) = (0, w.room());
        if let Some(symbols) = &symbols {
            length_at = source_symbol_header(&mut w, symbols.session.into(), symbols.sid, 0);
            limit = symbols.limit.min(w.room());
        }
        let head = w.len();
        let of = if w.room() - limit > MAX_TOP_UP {
            None
        } else {
            self.conn.traffic.streams.stretch(stream, limit)
        };
        let Some((of, data)) = of else {
            self.conn.link.tokens = packet.abandon();
            return false;
        };
        stream_header(&mut w, of.id, of.offset, false, Some(data.len()));
        w.bytes(data);
        let end = w.len();
        if let Some(symbols) = &symbols {
            w.patch_varint2(length_at, (end - head) as u64);
            tokens.push(FrameToken::Symbol { session: symbols.session, sid: symbols.sid, n: 1 });
        }
        tokens.push(FrameToken::Stream { key: of.key, offset: of.offset, len: of.len, fin: false });
        if let Some(symbols) = symbols {
            let symbol = &payload[head..end];
            let now = self.conn.common.now;
            if !symbols.takes(&of, symbol.len(), number) {
                symbols.last = None;
                self.tell(symbols);
                let packed = Packed { bytes: symbol, packet: number, unmarked: false, frame: Some(&of) };
                let Connection { traffic: Traffic { streams, .. }, protect, .. } = &mut *self.conn;
                let may_follow = protect.send.pushed(symbols.lane, packed, now, |frame| streams.piece(frame));
                let alike = Alike { lane: symbols.lane, frame: of, bytes: symbol.len() };
                symbols.last = may_follow.then_some(alike);
            }
            symbols.sid += 1;
        }
        let room = packet.room();
        let made = packet.finish(end, room);
        let limited = self.is_app_limited();
        let size = self.conn.link.leaves(&mut self.conn.common, made, begin, limited);
        out.commit(size);
        true
    }

    /// Tells the lane of symbols what it has not been told.
    #[inline]
    fn tell(&mut self, symbols: &mut TrainSymbols) {
        if let Some((frame, number)) = symbols.first.take() {
            let (n, bytes) = (std::mem::take(&mut symbols.n), std::mem::take(&mut symbols.bytes));
            self.conn.protect.send.followed(symbols.lane, &frame, n, bytes, number, self.conn.common.now);
        }
    }
}

/// Packets of fewer bytes are not built in a train: there is to be room for all headers.
const LEAST: usize = 2 * MAX_OVERHEAD;
