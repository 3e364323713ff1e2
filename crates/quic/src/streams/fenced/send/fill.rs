//! What goes into a packet: which records, cut where, under which header.

use std::ops::Range;

use quickset_base::number::{index, within_u32};
use quickset_wire::frame::{
    FencedHeader, Frame, fenced_header, fenced_header_size, stream_header, stream_header_size,
};

use super::next::{NextMessage, Rest};
use super::{Fin, RecordMode, RecordSender};
use crate::packet::{FrameToken, PacketWriter, RoomView};
use crate::streams::fenced::queue::MessageState;
use crate::streams::fenced::record::prefix_size;

/// The data of one frame: where they lie, and what the header says of them.
#[derive(Debug)]
struct FramePlan {
    /// The record that they begin in.
    first: usize,
    range: Range<u64>,
    start: bool,
    each: bool,
    fence: u64,
}

impl RecordSender {
    pub(super) fn write_abandons(&mut self, w: &mut PacketWriter<'_>, limit: u64) {
        // FS-44, FS-46: what waits are ranges of whole records.
        while let Some(range) = self.flight.next_abandon(limit) {
            let frame = Frame::Abandon { id: self.id, offset: range.start, len: range.end - range.start };
            if !w.put(&frame, FrameToken::Abandon { key: self.key, offset: range.start }) {
                return;
            }
            self.highest = self.highest.max(range.end);
            self.flight.abandon_sent(range);
        }
    }

    pub(super) fn write_lost(&mut self, w: &mut PacketWriter<'_>) {
        while let Some(range) = self.flight.lost.first() {
            let Some(plan) = self.plan_resend(range, w.room()) else { return };
            self.flight.lost.remove(plan.range.clone());
            self.write_frame(&plan, w);
        }
    }

    pub(super) fn write_new(&mut self, w: &mut PacketWriter<'_>, limit: u64, view: &RoomView) {
        while let Some(next) = self.choose(view, limit) {
            // What does not fit the rest of a packet waits for the next one (FS-18); the rest of another may
            // fill this one.
            let (plan, rest) = match next {
                NextMessage::Rest(at) => (self.plan_rest(at, limit, w.room()), Some(at)),
                NextMessage::New => match self.plan_new(view, limit, w.room()) {
                    None if !self.is_whole() => (self.plan_rest(0, limit, w.room()), Some(0)),
                    plan => (plan, None),
                },
            };
            let Some(plan) = plan else { return };
            if let Some(at) = rest {
                self.go_on(at, plan.range.end);
            }
            self.unsent -= plan.range.end - plan.range.start;
            self.highest = self.highest.max(plan.range.end);
            self.write_frame(&plan, w);
        }
    }

    /// A frame without data, to open the stream or to end it.
    pub(super) fn write_empty(&mut self, w: &mut PacketWriter<'_>, limit: u64) {
        let fin = matches!(self.ending.fin, Fin::Wanted | Fin::Lost) && self.can_end(limit);
        let open = self.ending.open && self.position == 0;
        if !fin && !open {
            return;
        }
        let plan = FramePlan {
            first: self.ring.begun,
            range: self.position..self.position,
            start: false,
            each: false,
            fence: self.fences.at,
        };
        if self.header_size(self.position, self.position - self.fences.at, 0) <= w.room() {
            self.write_frame(&plan, w);
        }
    }

    fn write_frame(&mut self, plan: &FramePlan, w: &mut PacketWriter<'_>) {
        let Range { start: offset, end } = plan.range;
        let len = index(end - offset);
        // FS-58: at the end of the last record only, and `can_end` says that it is the last.
        let fin = matches!(self.ending.fin, Fin::Wanted | Fin::Lost)
            && end == self.position
            && self.can_end(end.max(self.highest));
        match self.mode {
            RecordMode::Frames => {
                let distance = offset - plan.fence;
                let header =
                    FencedHeader { id: self.id, offset, distance, start: plan.start, each: plan.each, fin };
                fenced_header(w.bytes(), &header, len);
            }
            RecordMode::Plain => stream_header(w.bytes(), self.id, offset, fin, Some(len)),
        }
        self.even.ended |= self.even.on && self.ends_record(plan);
        let mut index = plan.first;
        while index < self.ring.begun && self.ring.get(index).offset < end {
            let record = self.ring.get(index);
            if record.end() > offset && record.size > 0 {
                record.write(plan.range.clone(), w.bytes());
            }
            index += 1;
        }
        w.record(FrameToken::Fenced { key: self.key, offset, len: within_u32(len as u64), fin }, true);
        self.ending.open = false;
        if fin {
            self.ending.fin = Fin::Sent;
            self.highest = self.highest.max(end);
        }
    }

    /// Whole records not begun, and the first part of one that no packet can hold. The next of the ring is
    /// the first.
    fn plan_new(&mut self, view: &RoomView, limit: u64, room: usize) -> Option<FramePlan> {
        let next = self.ring.next()?;
        let offset = self.position;
        let fence = if self.fences.begun == Some(next.segment) { self.fences.at } else { offset };
        // FS-13, FS-14: from the first byte of a record on, whole records, but for the last.
        let mut plan =
            FramePlan { first: self.ring.begun, range: offset..offset, start: true, each: false, fence };
        let mut count = 0;
        while let Some(record) = self.ring.next() {
            let at = self.position;
            let fenced = self.fences.begun != Some(record.segment);
            // FS-23, FS-24: all boundaries strictly inside a frame are fences, or none is.
            if count > 1 && fenced != plan.each && self.mode == RecordMode::Frames {
                break;
            }
            let size = record.size;
            let len = at + size - offset;
            let fits = len + self.header_size(offset, offset - fence, len) as u64 <= room as u64;
            let end = if fits && at + size <= limit {
                at + size
            } else if self.goes_whole(size, record.segment, at, limit) || (self.even.on && count > 0) {
                break;
            } else {
                let least = at + self.least(size);
                let range = offset..limit.min(at + size);
                let cut = self.share(range, at + size, fence, room);
                let Some(end) = cut.filter(|&end| end >= least) else { break };
                end
            };
            // FS-17: with a second record only, so never without START.
            if count == 1 {
                plan.each = fenced && self.mode == RecordMode::Frames;
            }
            self.begin(end);
            plan.range.end = end;
            count += 1;
            // FS-26: a segment is sent, or dropped, before the next is taken up.
            self.arrange();
            if end < at + size || self.choose(view, limit) != Some(NextMessage::New) {
                break;
            }
        }
        (count > 0).then_some(plan)
    }

    /// The next part of an open record, and of no other (FS-15).
    fn plan_rest(&self, at: usize, limit: u64, room: usize) -> Option<FramePlan> {
        let Rest { ticket, next, .. } = *self.line.open.get(at)?;
        let first = self.ring.index(ticket)?;
        let record = self.ring.get(first);
        let end = self.share(next..record.end().min(limit), record.end(), record.fence, room)?;
        Some(FramePlan { first, range: next..end, start: false, each: false, fence: record.fence })
    }

    /// The first part of what was lost, with the offsets, bytes and fences that it had (FS-20).
    fn plan_resend(&self, lost: Range<u64>, room: usize) -> Option<FramePlan> {
        let first = self.ring.at(lost.start);
        let record = self.ring.get(first);
        let fence = record.fence;
        let start = record.offset == lost.start;
        let mut plan = FramePlan { first, range: lost.start..lost.start, start, each: false, fence };
        if !start {
            plan.range.end = self.cut(lost.start..record.end().min(lost.end), fence, room)?;
            return Some(plan);
        }
        let whole = self.cut(lost, fence, room)?;
        let mut count = 0;
        let mut before = fence;
        for index in first..self.ring.begun {
            let record = self.ring.get(index);
            if record.size == 0 {
                continue;
            }
            let fenced = record.fence != before;
            if count > 1 && fenced != plan.each && self.mode == RecordMode::Frames {
                break;
            }
            let end = record.end().min(whole);
            // FS-16: not inside a prefix; and a packet's last few bytes are not worth a frame.
            if end < record.end().min(record.offset + u64::from(record.prefix) + 1) {
                break;
            }
            if count == 1 {
                plan.each = fenced && self.mode == RecordMode::Frames;
            }
            plan.range.end = end;
            before = record.fence;
            count += 1;
            if end == whole {
                break;
            }
        }
        (count > 0).then_some(plan)
    }

    /// Where a frame of `range` ends that is the next part of a record until `end`: an equal share of what is
    /// left, if the stream is split evenly. `None` when it is not worth it, or that waits for a packet with
    /// more room.
    fn share(&self, range: Range<u64>, end: u64, fence: u64, room: usize) -> Option<u64> {
        if !self.even.on {
            return self.cut(range, fence, room);
        }
        let size = self.even_size(range.start..end, fence)?;
        if size > room as u64 {
            return None;
        }
        self.cut(range, fence, index(size))
    }

    /// The size of the next frame, header included, so that as few as can be hold the rest of a record, and
    /// none is more than a byte longer than another: of two sizes the smaller one as long as the rest fits
    /// the larger one.
    fn even_size(&self, rest: Range<u64>, fence: u64) -> Option<u64> {
        let count = self.frames(rest.clone(), fence, self.packet)?;
        let fits = |rest, size, most| self.frames(rest, fence, size).is_some_and(|n| n <= most);
        // Upwards from what the shortest headers would need: what a size holds is not what a smaller one
        // holds and more, since a longer frame may be the one that begins where headers grow.
        let shortest = self.header_size(rest.start, rest.start - fence, 0) as u64;
        let mut size = ((rest.end - rest.start).div_ceil(count) + shortest).min(self.packet);
        while size < self.packet && !fits(rest.clone(), size, count) {
            size += 1;
        }
        let header = self.header_size(rest.start, rest.start - fence, size - 1) as u64;
        let next = rest.start + (size - 1).saturating_sub(header);
        let less = rest.start < next && next < rest.end && fits(next..rest.end, size, count - 1);
        Some(size - u64::from(less))
    }

    /// How many frames of at most `size` bytes hold the rest of a record. `None` when that is not enough for
    /// a header.
    fn frames(&self, Range { start: mut at, end }: Range<u64>, fence: u64, size: u64) -> Option<u64> {
        let mut count = 0;
        while at < end {
            let header = self.header_size(at, at - fence, size) as u64;
            let each = size.checked_sub(header).filter(|each| *each > 0)?;
            // Up to where the numbers in the header take more bytes.
            let same = longer_from(at).min(fence.saturating_add(longer_from(at - fence))).min(end);
            let n = (same - at).div_ceil(each);
            count += n;
            at += n * each;
        }
        Some(count)
    }

    /// A record ends in the frame.
    fn ends_record(&self, plan: &FramePlan) -> bool {
        plan.first < self.ring.begun && {
            let record = self.ring.get(plan.first);
            record.end() > plan.range.start && record.end() <= plan.range.end
        }
    }

    /// Where a frame of `range` must end that has `room`, header included; `None` when it is not worth it.
    fn cut(&self, range: Range<u64>, fence: u64, room: usize) -> Option<u64> {
        let want = range.end.saturating_sub(range.start);
        let header = self.header_size(range.start, range.start - fence, room as u64);
        let most = room.saturating_sub(header) as u64;
        let len = want.min(most);
        (len > 0 && len >= want.min((self.packet / 4).min(MIN_CUT))).then_some(range.start + len)
    }

    /// Gives the next record its offset, and places the fence before it if it begins a segment (FS-22). It is
    /// sent up to `end`.
    fn begin(&mut self, end: u64) {
        let offset = self.position;
        let index = self.ring.begun;
        self.ring.begun += 1;
        self.told.stats.sent += 1;
        let record = self.ring.get_mut(index);
        if self.fences.begun != Some(record.segment) {
            self.fences.begun = Some(record.segment);
            self.fences.at = offset;
        }
        record.offset = offset;
        record.fence = self.fences.at;
        record.state = MessageState::Begun;
        self.position = record.end();
        let is_open = end < record.end();
        if is_open {
            self.line.open.push(Rest { ticket: record.ticket, offset, next: end });
        }
        if let Some(order) = &mut self.line.order {
            order.begun(record.size);
            if !is_open {
                order.remove(record);
            }
        }
    }

    /// An open record is sent up to `end`.
    fn go_on(&mut self, at: usize, end: u64) {
        let rest = &mut self.line.open[at];
        rest.next = end;
        let Some(index) = self.ring.index(rest.ticket) else { return };
        let record = self.ring.get_mut(index);
        if record.end() == end {
            self.line.open.remove(at);
            if let Some(order) = &mut self.line.order {
                order.remove(record);
            }
            self.arrange();
        }
    }

    /// Bytes of the header of a frame with `len` bytes.
    fn header_size(&self, offset: u64, distance: u64, len: u64) -> usize {
        match self.mode {
            RecordMode::Frames => {
                let (start, each, fin) = (false, false, false);
                let header = FencedHeader { id: self.id, offset, distance, start, each, fin };
                fenced_header_size(&header, index(len))
            }
            RecordMode::Plain => stream_header_size(self.id, offset, Some(index(len))),
        }
    }

    /// FS-18: a record that fits a packet of its own is not split when it is first sent.
    pub(super) fn fits_packet(&self, size: u64, segment: u64, at: u64) -> bool {
        let distance = if self.fences.begun == Some(segment) { at - self.fences.at } else { 0 };
        size + self.header_size(at, distance, size) as u64 <= self.packet
    }

    /// Likewise, where credit goes up to `limit`. FS-65: who takes STREAM frames need not have a window that
    /// holds a record (FS-35), so that what has no credit to its end goes as far as it has.
    fn goes_whole(&self, size: u64, segment: u64, at: u64, limit: u64) -> bool {
        self.fits_packet(size, segment, at) && (self.mode == RecordMode::Frames || at + size <= limit)
    }

    /// The least that is sent at first of a record of this size that is split.
    pub(super) fn least(&self, size: u64) -> u64 {
        let prefix = u64::from(prefix_size(size));
        match self.mode {
            RecordMode::Frames => prefix + (self.packet / 4).min(MIN_CUT),
            RecordMode::Plain => size.min(prefix + 1),
        }
    }
}

/// The least number whose varint is longer than that of `n`.
fn longer_from(n: u64) -> u64 {
    [1 << 6, 1 << 14, 1 << 30].into_iter().find(|least| n < *least).unwrap_or(u64::MAX)
}

/// A packet's last bytes are not begun on for less data of a record than this.
const MIN_CUT: u64 = 64;
