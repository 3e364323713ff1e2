//! What reliability policies are told of a channel: sums that are kept up as things happen, never counted
//! afresh.

use std::collections::{BTreeSet, VecDeque};

use quickset_base::Time;

use super::event::SendState;
use super::fenced::Ticket;
use super::send::SendHalf;
use super::{Stream, Streams};
use crate::packet::{Channel, StreamKey};
use crate::protect::policy::{Boundary, Demand, OpenDeadlines};

/// The sums over all streams without a channel of their own, and what is ordered by time, over all streams.
#[derive(Debug, Default)]
pub(super) struct DemandTally {
    passed: PassedBoundaries,
    /// Bytes to send, for the first time or again.
    left: u64,
    /// Those of all streams that may send, with a channel of their own or without.
    pressing: u64,
    /// Streams by each bit of their [`DemandShare`].
    counts: [usize; BITS],
    /// When streams will have their next message. Those with a channel of their own are not among them.
    next: BTreeSet<(Time, StreamKey)>,
    /// Deadlines of messages that are not done with, by channel.
    due: BTreeSet<(Channel, Time, StreamKey, Ticket)>,
    /// Counts what sending may change of any channel's [`Demand`], but its remaining bytes.
    pulse: u64,
    pub(super) crowding: Crowding,
}

/// Why the last messages with deadlines were late, or would have been.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Crowding {
    first: u32,
    all: u32,
    crowded_out: u32,
    hit: u32,
}

impl Crowding {
    pub(super) fn count(&mut self, crowded_out: bool, hit: bool) {
        if self.first < FIRST {
            self.first += 1;
            return;
        }
        if self.all == MOST_COUNTED {
            for count in [&mut self.all, &mut self.crowded_out, &mut self.hit] {
                *count /= 2;
            }
        }
        self.all += 1;
        self.crowded_out += u32::from(crowded_out);
        self.hit += u32::from(hit);
    }

    /// The share that had no room in time, though nothing of them was lost.
    pub(crate) fn crowded_out(self) -> f64 {
        self.share(self.crowded_out)
    }

    /// What this share is at least, with a confidence of 95 %: three large messages that happen to come
    /// together are no lack of room.
    pub(crate) fn surely_crowded_out(self) -> f64 {
        let count = f64::from(self.crowded_out);
        (count - CONFIDENT * count.sqrt()).max(0.0) / f64::from(self.all.max(FEW_COUNTED))
    }

    /// The share of which something was lost.
    pub(crate) fn hit(self) -> f64 {
        self.share(self.hit)
    }

    /// Of few as if there had been others of another kind: two large messages of the first hundred are no
    /// lack of room.
    fn share(self, count: u32) -> f64 {
        f64::from(count) / f64::from(self.all.max(FEW_COUNTED))
    }
}

/// Messages that are not counted, the first of a connection: they wait for a congestion window that still
/// grows.
const FIRST: u32 = 32;
/// Messages that crowding is told from: some seconds of media.
const MOST_COUNTED: u32 = 512;
const FEW_COUNTED: u32 = 256;
/// Standard deviations, of which a number of rare events has the square root of itself.
const CONFIDENT: f64 = 1.645;

/// Boundaries behind what was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PassedBoundaries {
    count: u64,
    last: Option<(Boundary, Time)>,
}

/// What a stream adds to the sums of its channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DemandShare {
    left: u64,
    /// Bits of [`share`].
    bits: u8,
}

/// Where a stream's boundaries lie that are not passed yet.
#[derive(Debug, Default)]
pub(super) struct BoundaryMarks {
    /// Flushes, as offsets, or numbers of messages: what lies before was written when they were asked for.
    flushes: VecDeque<u64>,
    /// The last of them, passed or not: another one at the same place is the same.
    flushed: u64,
    /// Fences passed.
    fences: u64,
    /// The end was sent.
    ended: bool,
    /// When the next message comes, if the application said so.
    pub(super) next: Option<Time>,
}

impl Streams {
    /// What the application wants of a channel. O(1).
    ///
    /// What was lost with symbols whose tokens are kept elsewhere is not among the remaining bytes: it is not
    /// to be sent. `blocked` without `limited`: some streams may go on. A stream whose data is over, or that
    /// never was, wants nothing.
    pub(crate) fn demand(&self, channel: Channel) -> Demand {
        let (share, passed, next, messages) = match channel {
            Channel::Connection => {
                let tally = &self.tally;
                (tally.share(), tally.passed, tally.next.first().map(|next| next.0), false)
            }
            // Not ours to say.
            Channel::Datagrams => return Demand::default(),
            Channel::Stream(key) => {
                let stream = self.slab.get(key);
                let next = stream.and_then(|s| s.send.as_ref()?.marks.next);
                let share = stream.map(|s| s.share).unwrap_or_default();
                let messages =
                    stream.and_then(|s| s.send.as_ref()).is_some_and(|half| half.messages.is_some());
                (share, stream.and_then(|s| s.own.as_deref().copied()).unwrap_or_default(), next, messages)
            }
        };
        let is = |bit| share.bits & bit != 0;
        let spent = self.limits.is_spent();
        Demand {
            blocked: is(share::STARVED) || is(share::STARVING) || (is(share::FRESH) && spent),
            limited: !is(share::OWED) && (!is(share::FRESH) || spent),
            unsent: share.left,
            open: is(share::OPEN),
            boundaries: passed.count,
            boundary: passed.last,
            messages,
            next_message: next,
        }
    }

    /// Another number than before when what any channel demands has changed while packets were filled: the
    /// remaining bytes alone do not count.
    #[inline]
    pub(crate) fn pulse(&self) -> u64 {
        self.tally.pulse
    }

    /// Bytes that streams have to send, for the first time or again, of those streams whose own credit lets
    /// something out.
    #[inline]
    pub(crate) fn pressing(&self) -> u64 {
        self.tally.pressing
    }

    /// Why messages were late.
    pub(crate) fn crowding(&self) -> Crowding {
        self.tally.crowding
    }

    /// Deadlines of the messages of a channel that are neither delivered nor given up nor outdated. O(log n).
    pub(crate) fn deadlines(&self, channel: Channel) -> ChannelDeadlines<'_> {
        ChannelDeadlines { due: &self.tally.due, channel }
    }

    /// A message with a deadline begins, or ends.
    pub(super) fn promise(&mut self, key: StreamKey, deadline: Option<Time>, ticket: Ticket, is_open: bool) {
        let (Some(deadline), Some(stream)) = (deadline, self.slab.get(key)) else { return };
        let entry = (stream.channel(), deadline, key, ticket);
        if is_open {
            self.tally.due.insert(entry);
        } else {
            self.tally.due.remove(&entry);
        }
    }

    /// Counts the boundaries of a stream that what was sent has passed.
    pub(super) fn cross(&mut self, key: StreamKey, now: Time) {
        let Some(stream) = self.slab.get_mut(key) else { return };
        let Some(half) = &mut stream.send else { return };
        if let Some((n, kind)) = half.crossed() {
            let passed = stream.own.as_deref_mut().unwrap_or(&mut self.tally.passed);
            passed.count += n;
            passed.last = Some((kind, now));
            self.tally.beat();
        }
    }

    /// The sums are those that one gets by counting.
    pub(super) fn check_tally(&self) {
        let mut tally = DemandTally::default();
        for (key, stream) in self.slab.iter() {
            let Some(half) = &stream.send else { continue };
            tally.press(DemandShare::default(), stream.share);
            if stream.own.is_none() {
                tally.change(DemandShare::default(), stream.share);
                tally.next.extend(half.marks.next.map(|at| (at, key)));
            }
            assert_eq!(stream.share.left, half.left(), "{stream:?}");
            let promised = half.messages.iter().flat_map(|sender| sender.promised());
            tally.due.extend(promised.map(|(at, ticket)| (stream.channel(), at, key, ticket)));
        }
        assert_eq!((tally.left, tally.counts), (self.tally.left, self.tally.counts));
        assert_eq!(tally.pressing, self.tally.pressing);
        assert_eq!((&tally.next, &tally.due), (&self.tally.next, &self.tally.due));
    }
}

impl DemandTally {
    /// A stream's share becomes another.
    #[inline]
    pub(super) fn change(&mut self, before: DemandShare, after: DemandShare) {
        self.left = self.left - before.left + after.left;
        let mut changed = before.bits ^ after.bits;
        while changed != 0 {
            let bit = changed & changed.wrapping_neg();
            changed ^= bit;
            let count = &mut self.counts[bit.trailing_zeros() as usize];
            if after.bits & bit == 0 { *count -= 1 } else { *count += 1 }
        }
    }

    /// The same, of a stream of any channel.
    #[inline]
    pub(super) fn press(&mut self, before: DemandShare, after: DemandShare) {
        self.pressing = self.pressing - before.pressing() + after.pressing();
    }

    /// Somebody's demand has changed.
    #[inline]
    pub(super) fn beat(&mut self) {
        self.pulse = self.pulse.wrapping_add(1);
    }

    /// A stream said when its next message comes, or that does not hold any more.
    pub(super) fn announce(&mut self, next: (Time, StreamKey), is_open: bool) {
        if is_open {
            self.next.insert(next);
        } else {
            self.next.remove(&next);
        }
    }

    /// A message with a deadline that is still waited for is of another channel now.
    pub(super) fn move_promise(
        &mut self,
        from: Channel,
        to: Channel,
        deadline: Time,
        key: StreamKey,
        ticket: Ticket,
    ) {
        if self.due.remove(&(from, deadline, key, ticket)) {
            self.due.insert((to, deadline, key, ticket));
        }
    }

    /// A message is done with.
    pub(super) fn fulfil(&mut self, channel: Channel, deadline: Time, key: StreamKey, ticket: Ticket) {
        self.due.remove(&(channel, deadline, key, ticket));
        self.beat();
    }

    /// All shares as one.
    fn share(&self) -> DemandShare {
        let bits =
            self.counts.iter().enumerate().filter(|(_, n)| **n > 0).fold(0, |bits, (bit, _)| bits | 1 << bit);
        DemandShare { left: self.left, bits }
    }
}

impl DemandShare {
    /// Whether more differs than the bytes that are left.
    #[inline]
    pub(super) fn differs(self, other: Self) -> bool {
        self.bits != other.bits
    }

    /// Bytes to send, if any of them may leave.
    #[inline]
    fn pressing(self) -> u64 {
        if self.bits & (share::OWED | share::FRESH) == 0 { 0 } else { self.left }
    }

    /// What a sending half adds, of which the queues say the rest.
    #[inline]
    pub(super) fn of(half: &SendHalf, bits: u8) -> Self {
        let left = half.left();
        let open = if left > 0 && half.state == SendState::Open { share::OPEN } else { 0 };
        Self { left, bits: bits | open }
    }
}

impl Stream {
    /// Whose its data is.
    #[inline]
    pub(super) fn channel(&self) -> Channel {
        if self.own.is_some() { Channel::Stream(self.key) } else { Channel::Connection }
    }
}

impl SendHalf {
    /// Bytes to send, for the first time or again.
    #[inline]
    pub(super) fn left(&self) -> u64 {
        match &self.messages {
            Some(sender) => sender.left(),
            None => self.buffer.unsent() + self.buffer.lost_bytes(),
        }
    }

    /// There may be a boundary that was not passed yet.
    #[inline]
    pub(super) fn may_cross(&self) -> bool {
        self.messages.is_some() || self.state != SendState::Open || !self.marks.flushes.is_empty()
    }

    /// All that was written so far is waited for. True when that is more than before.
    pub(super) fn flush(&mut self) -> bool {
        let written = self.written();
        let is_more = self.marks.flushed < written;
        if is_more {
            self.marks.flushed = written;
            self.marks.flushes.push_back(written);
        }
        is_more
    }

    /// How far the application has come, and how far all was sent: in bytes, or in messages.
    fn written(&self) -> u64 {
        self.messages.as_ref().map_or(self.buffer.end(), |sender| sender.pushed())
    }

    fn sent_whole(&self) -> u64 {
        self.messages.as_ref().map_or(self.buffer.next(), |sender| sender.begun_whole())
    }

    /// What was sent does not count: boundaries that it had passed are to be passed again. Of several flushes
    /// the last is enough.
    pub(super) fn uncross(&mut self) {
        let marks = &mut self.marks;
        marks.fences = self.messages.as_ref().map_or(0, |sender| sender.fences_passed());
        marks.ended = false;
        if marks.flushes.is_empty() && marks.flushed > 0 {
            marks.flushes.push_back(marks.flushed);
        }
    }

    /// Boundaries that all sent so far lies before, since this was last asked: how many, and what the last
    /// is.
    fn crossed(&mut self) -> Option<(u64, Boundary)> {
        if !self.is_sending() {
            return None;
        }
        let sent = self.sent_whole();
        let mut crossed = None;
        if let Some(sender) = &self.messages {
            let fences = sender.fences_passed();
            let n = fences - std::mem::replace(&mut self.marks.fences, fences);
            // In total order a fence lies behind each message, and the receiver waits for each of them alike.
            crossed = (n > 0 && !sender.is_ordered()).then_some((n, Boundary::Fence));
        }
        let mut one_more = |kind| crossed = Some((crossed.map_or(1, |(n, _)| n + 1), kind));
        while self.marks.flushes.front().is_some_and(|at| *at <= sent) {
            self.marks.flushes.pop_front();
            one_more(Boundary::Flush);
        }
        let fin = match &self.messages {
            Some(sender) => sender.fin_was_sent(),
            None => self.state == SendState::Finishing && !self.fin_due,
        };
        if fin && !self.marks.ended {
            self.marks.ended = true;
            one_more(Boundary::Fin);
        }
        crossed
    }
}

impl BoundaryMarks {
    /// Where the first flush lies that is not passed yet.
    #[inline]
    pub(super) fn first_flush(&self) -> Option<u64> {
        self.flushes.front().copied()
    }

    /// The stream was given up: no boundary is left to pass.
    pub(super) fn forget(&mut self) {
        self.flushes = VecDeque::new();
    }
}

/// Deadlines of one channel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChannelDeadlines<'a> {
    due: &'a BTreeSet<(Channel, Time, StreamKey, Ticket)>,
    channel: Channel,
}

impl ChannelDeadlines<'_> {
    /// Whose they are.
    pub(crate) fn channel(&self) -> Channel {
        self.channel
    }
}

impl OpenDeadlines for ChannelDeadlines<'_> {
    fn next_after(&self, t: Time) -> Option<Time> {
        let from = (self.channel, t, StreamKey { index: 0, generation: 0 }, Ticket::FIRST);
        let next = self.due.range(from..).next()?;
        (next.0 == self.channel).then_some(next.1)
    }

    fn last(&self) -> Option<Time> {
        let to = (self.channel, Time::MAX, StreamKey { index: u32::MAX, generation: u32::MAX }, Ticket::LAST);
        let last = self.due.range(..=to).next_back()?;
        (last.0 == self.channel).then_some(last.1)
    }
}

/// What a stream adds to its channel.
pub(super) mod share {
    use crate::streams::turns::has;

    /// It has something to send that needs no credit.
    pub(in crate::streams) const OWED: u8 = has::OWED;
    /// It has new data that its own credit lets out.
    pub(in crate::streams) const FRESH: u8 = has::FRESH;
    /// Its own credit holds all its new data back.
    pub(in crate::streams) const STARVED: u8 = 4;
    /// Its next message is longer than what is left of the connection's credit.
    pub(in crate::streams) const STARVING: u8 = 8;
    /// It has something to send, and may get more.
    pub(in crate::streams) const OPEN: u8 = 16;
}

/// Bits of [`share`].
const BITS: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crowding_is_of_the_last_messages() {
        let shares = |crowding: Crowding| (crowding.crowded_out(), crowding.hit());
        let mut crowding = Crowding::default();
        (0..FIRST).for_each(|_| crowding.count(true, true));
        assert_eq!(shares(crowding), (0.0, 0.0), "the first wait for a window that grows");
        crowding.count(true, false);
        crowding.count(false, true);
        crowding.count(false, true);
        assert_eq!(shares(crowding), (1.0 / 256.0, 2.0 / 256.0), "a few say little");
        assert!(crowding.surely_crowded_out() <= 0.0);
        (0..397).for_each(|_| crowding.count(true, true));
        assert_eq!(shares(crowding), (0.995, 0.9975));
        // Of a number with a mean of 366 one in twenty is 398 or more.
        assert!((365.0..367.0).contains(&(400.0 * crowding.surely_crowded_out())));
        // A thousand that had room: what was before counts for a quarter of a quarter at most.
        (0..1000).for_each(|_| crowding.count(false, false));
        let (crowded_out, hit) = shares(crowding);
        assert!((0.01..0.07).contains(&crowded_out) && (0.01..0.07).contains(&hit), "{crowded_out} {hit}");
        (0..2000).for_each(|_| crowding.count(false, false));
        assert_eq!(shares(crowding), (0.0, 0.0));
    }
}
