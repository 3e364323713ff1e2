//! The sending half: what is queued, under way, lost, or covered by repair.

mod flight;
mod loss;
mod round;

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use quickset_base::{Duration, Time};
use quickset_fec::{Equation, Symbols};
use quickset_wire::varint::size;

use self::flight::{FencedFlights, Landed};
pub use self::loss::MessageLoss;
use self::round::RoundTrip;
use crate::format::{
    self, DatagramFault, FencedDatagram, MOST_COVERED, MOST_PAYLOAD, MOST_WAITING, NUMBERS, REPAIR,
    ReportFields, SYMBOL_HEADER, SYMBOLS, memory_of,
};

/// What a sender knows at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderOptions {
    /// The round trip, as far as one knows.
    pub rtt: Duration,
}

impl Default for SenderOptions {
    /// A round trip of 100 ms.
    fn default() -> Self {
        Self { rtt: Duration::from_millis(100) }
    }
}

/// Sends messages. The contract:
///
/// 1. Queue [`message`](Self::message)s, as long as they are within [`longest`](Self::longest) and
///    [`has_room`](Self::has_room) says so, and [`fence`](Self::fence)s between them. Where something ends
///    that somebody waits for, ask for [`repair`](Self::repair).
/// 2. Send what [`poll`](Self::poll) returns while the transport has room, and ask it again at
///    [`next_deadline`](Self::next_deadline).
/// 3. Give the peer's datagrams to [`report`](Self::report), and end the session at a fault.
/// 4. Take what became of messages from [`next_outcome`](Self::next_outcome).
#[derive(Debug)]
pub struct FencedSender {
    sequence: u64,
    /// The number of the next message, and of the first behind the last fence.
    next: u64,
    fence: u64,
    queue: VecDeque<FencedTurn>,
    queued_bytes: usize,
    /// Numbers to be sent again.
    again: BTreeSet<u64>,
    flights: FencedFlights,
    symbols: SentSymbols,
    /// The seed of the next repair.
    seed: u64,
    /// Messages queued since repair was asked for.
    fresh: u64,
    round: RoundTrip,
    /// Nothing is lost before it, unless a report says so.
    due: Option<Time>,
    loss: MessageLoss,
    /// What the last report said of it.
    recovered: u64,
    outcomes: VecDeque<(u64, bool)>,
    stats: FencedSenderStats,
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FencedSenderStats {
    /// Messages sent, each once.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages sent again.
    pub resent: u64,
    /// Repair datagrams.
    pub repairs: u64,
    /// Their bytes.
    pub repair_bytes: u64,
    /// Messages that the receiver computed from repair.
    pub recovered: u64,
    /// Messages given up.
    pub abandoned: u64,
    /// Reports that came.
    pub reports: u64,
}

#[derive(Clone, Copy, Debug)]
enum FencedTurn {
    Message(u64),
    Repair,
}

/// Symbols of messages, for repair.
struct SentSymbols {
    symbols: Symbols,
    symbol: Vec<u8>,
    /// Below it nothing is covered any more.
    low: u64,
}

impl FencedSender {
    /// A sender of sequence 0.
    pub fn new(options: SenderOptions) -> Self {
        Self {
            sequence: 0,
            next: 0,
            fence: 0,
            queue: VecDeque::new(),
            queued_bytes: 0,
            again: BTreeSet::new(),
            flights: FencedFlights::default(),
            symbols: SentSymbols::new(),
            seed: 0,
            fresh: 0,
            round: RoundTrip::new(options.rtt),
            due: None,
            loss: MessageLoss::default(),
            recovered: 0,
            outcomes: VecDeque::new(),
            stats: FencedSenderStats::default(),
        }
    }

    /// The longest message that fits datagrams of `datagram` bytes, with its repair.
    pub fn longest(&self, datagram: usize) -> usize {
        // A repair names the first message, how many, and a seed; its sum has the length of the longest
        // message, and how far behind a fence it is. It may be sent much later, while the message is open.
        let number = size(self.next + NUMBERS);
        let header = 1 + size(self.sequence) + number + 2 + size(self.seed + 4 * NUMBERS) + 2 + number;
        datagram.saturating_sub(header).min(MOST_PAYLOAD)
    }

    /// Whether another message may be queued: too many are not known to have arrived otherwise, or too much.
    pub fn has_room(&self) -> bool {
        // WB-7.
        self.next - self.flights.base() < NUMBERS
            && self.flights.memory() + memory_of(MOST_PAYLOAD) <= MOST_WAITING
    }

    /// Queues a message and returns its number. One that is not to be kept is given up when it is lost, and
    /// not sent again: its outcome is false then.
    ///
    /// # Panics
    /// When the message is longer than 16,384 bytes, or there is no room.
    pub fn message(&mut self, payload: Bytes, keep: bool) -> u64 {
        assert!(payload.len() <= MOST_PAYLOAD && self.has_room(), "as the contract says");
        let number = self.next;
        self.next += 1;
        self.fresh += 1;
        let behind = number - self.fence;
        self.symbols.push(behind, &payload);
        self.queued_bytes += payload.len();
        self.queue.push_back(FencedTurn::Message(number));
        self.flights.queue(behind, payload, keep);
        number
    }

    /// Nothing that is queued later is delivered before what was queued so far.
    pub fn fence(&mut self) {
        self.fence = self.next;
    }

    /// Queues `count` repair datagrams, over all that has not arrived by the time they are sent, the newest
    /// 256 of it.
    pub fn repair(&mut self, count: u32) {
        self.fresh = 0;
        self.queue.extend((0..count).map(|_| FencedTurn::Repair));
    }

    /// How many repair datagrams are worth while now: as many as the messages that have not arrived are
    /// likely to need, less those under way; and as many as those need that none covers.
    pub fn repairs_due(&self) -> u32 {
        let open = self.loss.repairs(self.flights.outstanding().min(MOST_COVERED));
        let fresh = self.loss.repairs(self.fresh.min(MOST_COVERED));
        if self.fresh == 0 { 0 } else { open.saturating_sub(self.flights.repairs_under_way()).max(fresh) }
    }

    /// Messages that were queued since repair was asked for.
    pub fn fresh(&self) -> u64 {
        self.fresh
    }

    /// Gives a message up: nobody needs it any more. Its outcome is false, unless it is known already.
    pub fn abandon(&mut self, number: u64) {
        if self.flights.abandon(number) {
            self.give_up(number);
        }
    }

    /// Says that a message comes too late if it is sent from now on, again or for the first time. It is given
    /// up when it is lost, and is not sent again to find out what has arrived. Repair covers neither it nor
    /// those queued before it any more.
    pub fn expire(&mut self, number: u64) {
        self.symbols.leave_below(number + 1);
        if self.flights.expire(number) {
            self.abandon(number);
        }
    }

    /// Gives up everything, and begins another sequence. No outcomes are told of the one before.
    pub fn restart(&mut self) {
        // WB-3, WB-17.
        let (round, loss, stats) = (self.round.clone(), self.loss, self.stats);
        let sequence = self.sequence + 1;
        *self = Self { sequence, round, loss, stats, ..Self::new(SenderOptions::default()) };
    }

    /// Whether a datagram of [`poll`](Self::poll) is repair. In one packet with what it is to replace it
    /// would be lost as well.
    pub fn is_repair(datagram: &[u8]) -> bool {
        datagram.first() == Some(&REPAIR)
    }

    /// The next datagram to send, if there is one.
    pub fn poll(&mut self, now: Time) -> Option<Vec<u8>> {
        if self.due.is_some_and(|due| due <= now) {
            self.look(now);
        }
        // What others wait for goes first.
        while let Some(number) = self.again.pop_first() {
            // That one is gone may have been reported since.
            if self.flights.is_open(number) {
                self.stats.resent += u64::from(number < self.flights.sent());
                return Some(self.datagram(now, number));
            }
        }
        loop {
            match self.queue.pop_front()? {
                FencedTurn::Message(number) => {
                    let bytes = self.flights.bytes(number);
                    self.queued_bytes -= bytes;
                    self.stats.messages += 1;
                    self.stats.bytes += bytes as u64;
                    return Some(self.datagram(now, number));
                }
                FencedTurn::Repair => {
                    if let Some(repair) = self.repair_datagram(now) {
                        return Some(repair);
                    }
                }
            }
        }
    }

    /// Takes a datagram of the peer's receiver; others are passed over.
    ///
    /// # Errors
    /// What is wrong with it: the session is to be ended.
    pub fn report(&mut self, now: Time, datagram: &[u8]) -> Result<(), DatagramFault> {
        let FencedDatagram::Report(report) = FencedDatagram::read(datagram)? else { return Ok(()) };
        // WB-13.
        if report.sequence != self.sequence {
            return if report.sequence < self.sequence {
                Ok(())
            } else {
                Err(DatagramFault::Value { what: "the sequence of a report", value: report.sequence })
            };
        }
        self.stats.reports += 1;
        self.take(now, &report)?;
        self.look(now);
        Ok(())
    }

    /// What became of a message that was queued before all whose outcome was told later: its number, and
    /// whether it has arrived.
    pub fn next_outcome(&mut self) -> Option<(u64, bool)> {
        self.outcomes.pop_front()
    }

    /// When to [`poll`](Self::poll) even if nothing happens.
    pub fn next_deadline(&self) -> Option<Time> {
        self.due
    }

    /// Bytes of messages that wait to be sent for the first time.
    pub fn unsent(&self) -> usize {
        self.queued_bytes
    }

    /// Messages that are not known to have arrived, those not sent included.
    pub fn outstanding(&self) -> u64 {
        self.flights.outstanding()
    }

    /// How many of the messages are lost, on the way or in the browser, repaired or not.
    pub fn loss(&self) -> MessageLoss {
        self.loss
    }

    /// What was sent.
    pub fn stats(&self) -> &FencedSenderStats {
        &self.stats
    }

    fn take(&mut self, now: Time, report: &ReportFields<'_>) -> Result<(), DatagramFault> {
        let sent = self.flights.sent();
        let beyond = |number| Err(DatagramFault::Value { what: "a number in a report", value: number });
        if report.below > sent {
            return beyond(report.below);
        }
        let mut landed = Landed::default();
        self.flights.land(0..report.below, &mut landed);
        let mut last = report.below;
        report.for_each_range(|range| {
            last = last.max(range.end);
            if range.end <= sent {
                self.flights.land(range, &mut landed);
            }
        })?;
        if last > sent || report.newest >= sent.max(1) {
            return beyond(last.max(report.newest));
        }
        for &number in &landed.numbers {
            self.again.remove(&number);
            self.outcomes.push_back((number, true));
        }
        if landed.any {
            self.round.heard();
        }
        if let Some(sent_at) = self.flights.only_sent(report.newest) {
            let delay = Duration::from_micros(report.delay);
            self.round.sample(now.since(sent_at).saturating_sub(delay));
        }
        let recovered = report.recovered.saturating_sub(self.recovered);
        self.recovered = self.recovered.max(report.recovered);
        self.stats.recovered += recovered;
        // Those that were taken for lost before are counted.
        let unnoticed = recovered.saturating_sub(landed.covered).min(landed.first_time);
        self.loss.arrived(landed.first_time - unnoticed);
        self.loss.lost(unnoticed);
        self.flights.settle(&landed);
        self.symbols.drop_below(self.flights.base());
        Ok(())
    }

    /// What is lost is to be sent again, or is covered.
    fn look(&mut self, now: Time) {
        // WB-14.
        let lost = self.flights.lost(now, &mut self.round);
        self.loss.lost(lost.news);
        for lost in &lost.flights {
            if lost.keep {
                self.again.insert(lost.number);
            } else if self.flights.abandon(lost.number) {
                self.give_up(lost.number);
            }
        }
        if lost.timed_out {
            self.probe();
        }
        self.due = self.flights.deadline(&self.round);
    }

    /// WB-22: of what is sent again nobody knows which copy a report is about. A number of its own says, once
    /// it has arrived, that all that was sent before it and is missing is lost, and not only the first of it.
    fn probe(&mut self) {
        // What waits to be sent for the first time says the same.
        if self.queue.is_empty() && self.next - self.flights.base() < NUMBERS {
            let behind = self.next - self.fence;
            self.symbols.push(behind, &[]);
            self.symbols.leave_below(self.next + 1);
            self.flights.queue_gone(behind);
            self.again.insert(self.next);
            self.next += 1;
        }
    }

    fn give_up(&mut self, number: u64) {
        self.stats.abandoned += 1;
        self.outcomes.push_back((number, false));
        self.symbols.leave_below(number + 1);
        // One that was not sent yet goes as what it is now when its turn comes.
        if number < self.flights.sent() {
            self.again.insert(number);
        }
    }

    fn datagram(&mut self, now: Time, number: u64) -> Vec<u8> {
        let (place, payload) = self.flights.send(now, number);
        self.sent(now);
        format::message(self.sequence, place, payload.as_deref())
    }

    /// A datagram leaves. What was due before is no later by that: it is looked at again then.
    fn sent(&mut self, now: Time) {
        self.due.get_or_insert_with(|| self.round.timeout(now));
    }

    /// A repair over what has not arrived, if there is anything.
    fn repair_datagram(&mut self, now: Time) -> Option<Vec<u8>> {
        let sent = self.flights.sent();
        // WB-8.
        let low = self.flights.base().max(sent.saturating_sub(MOST_COVERED));
        let low = self.symbols.drop_below(low);
        let count = sent.checked_sub(low).filter(|&count| count > 0)?;
        let (sum, seed) = (self.symbols.sum(low, count, self.seed)?, self.seed);
        self.seed += 1;
        self.flights.covered(now, low..sent);
        self.sent(now);
        self.stats.repairs += 1;
        let datagram = format::repair(self.sequence, low, count, seed, &sum);
        self.stats.repair_bytes += datagram.len() as u64;
        Some(datagram)
    }
}

impl SentSymbols {
    fn new() -> Self {
        Self { symbols: Symbols::new(SYMBOLS, SYMBOL_HEADER + MOST_PAYLOAD), symbol: Vec::new(), low: 0 }
    }

    /// The message behind all before it.
    fn push(&mut self, behind: u64, payload: &[u8]) {
        format::symbol(behind, payload, &mut self.symbol);
        self.symbols.push(&self.symbol).expect("it is short enough, and numbers never end");
    }

    /// Covers nothing below `number` from now on; returns from where on it does.
    fn drop_below(&mut self, number: u64) -> u64 {
        self.leave_below(number);
        self.symbols.drop_below(self.low);
        self.low.max(self.symbols.first())
    }

    fn leave_below(&mut self, number: u64) {
        self.low = self.low.max(number);
    }

    fn sum(&self, first: u64, count: u64, seed: u64) -> Option<Vec<u8>> {
        let equation = Equation::rlc(first, count, seed).ok()?;
        let mut sum = Vec::new();
        self.symbols.combine(&equation, &mut sum).ok()?;
        Some(sum)
    }
}

impl std::fmt::Debug for SentSymbols {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SentSymbols").field("low", &self.low).finish_non_exhaustive()
    }
}
