use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use bytes::Bytes;
use quickset_base::number::Unsigned as _;
use quickset_base::{Duration, Time};
use quickset_fec::Equation;
use quickset_fec::online::{Decoder, DecoderLimits};

use crate::format::{
    self, DatagramFault, FencedDatagram, FencedPlace, MOST_PAYLOAD, MOST_WAITING, NUMBERS, ReportHead,
    SYMBOL_HEADER, SYMBOLS, memory_of,
};

/// Receives messages. The contract:
///
/// 1. Give each datagram to [`receive`](Self::receive), and end the session at a fault.
/// 2. Then take what [`next`](Self::next) delivers until it is `None`.
/// 3. Send what [`report`](Self::report) returns; ask it after each batch of datagrams and at
///    [`next_deadline`](Self::next_deadline).
///
/// Messages that wait for others, or to be taken, hold 16 MiB at most; what is beyond is as if it were lost,
/// and its sender sends it again.
pub struct FencedReceiver {
    sequence: u64,
    arrived: ArrivedNumbers,
    /// Messages that came and wait for what is before their fence.
    held: BTreeMap<u64, HeldMessage>,
    held_bytes: usize,
    /// Messages that are delivered, and were not taken yet.
    ready: VecDeque<Bytes>,
    ready_bytes: usize,
    decoder: Decoder,
    symbol: Vec<u8>,
    newest: Option<NewestArrival>,
    /// When a report is due.
    due: Option<Time>,
    /// All numbers below it that had not arrived were in a report.
    reported_to: u64,
    /// Messages recovered in this sequence.
    recovered: u64,
    stats: FencedReceiverStats,
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FencedReceiverStats {
    /// Messages that came by themselves, each once.
    pub messages: u64,
    /// Messages that repair replaced.
    pub recovered: u64,
    /// Messages that the sender gave up.
    pub gone: u64,
    /// Messages that came again.
    pub duplicates: u64,
    /// Repair datagrams.
    pub repairs: u64,
    /// Datagrams of a sequence that is over, or for which there was no room.
    pub ignored: u64,
}

struct HeldMessage {
    fence: u64,
    payload: Bytes,
}

struct NewestArrival {
    number: u64,
    at: Time,
}

/// Numbers that have arrived: all below `below`, and ranges above it that do not touch.
#[derive(Default)]
struct ArrivedNumbers {
    below: u64,
    /// Ends by starts.
    above: BTreeMap<u64, u64>,
}

impl FencedReceiver {
    /// A receiver that waits for the first sequence.
    pub fn new() -> Self {
        Self {
            sequence: 0,
            arrived: ArrivedNumbers::default(),
            held: BTreeMap::new(),
            held_bytes: 0,
            ready: VecDeque::new(),
            ready_bytes: 0,
            decoder: decoder(),
            symbol: Vec::new(),
            newest: None,
            due: None,
            reported_to: 0,
            recovered: 0,
            stats: FencedReceiverStats::default(),
        }
    }

    /// Takes a datagram of the peer's sender; others are passed over.
    ///
    /// # Errors
    /// What is wrong with it: the session is to be ended.
    pub fn receive(&mut self, now: Time, datagram: &[u8]) -> Result<(), DatagramFault> {
        match FencedDatagram::read(datagram)? {
            FencedDatagram::Message { sequence, place, payload } => {
                if self.takes(now, sequence, place.number) {
                    self.message(now, place, payload)?;
                }
            }
            FencedDatagram::Gone { sequence, place } => {
                if self.takes(now, sequence, place.number) {
                    self.gone(place.number);
                }
            }
            FencedDatagram::Repair { sequence, first, count, seed, sum } => {
                if self.takes(now, sequence, first + (count - 1)) {
                    self.repair(first, count, seed, sum)?;
                }
            }
            FencedDatagram::Report(_) | FencedDatagram::Unknown => return Ok(()),
        }
        self.recover(now)?;
        self.release();
        self.notice(now);
        Ok(())
    }

    /// The next message that is delivered.
    #[expect(clippy::should_implement_trait, reason = "there may be more after there was none")]
    pub fn next(&mut self) -> Option<Bytes> {
        let message = self.ready.pop_front()?;
        self.ready_bytes -= memory_of(message.len());
        Some(message)
    }

    /// A report for the sender, when one is due.
    pub fn report(&mut self, now: Time) -> Option<Vec<u8>> {
        self.due.take_if(|due| *due <= now)?;
        self.reported_to = self.arrived.end();
        let (newest, delay) = match &self.newest {
            Some(newest) => (newest.number, now.since(newest.at).as_micros().saturated()),
            None => (0, 0),
        };
        let head = ReportHead {
            sequence: self.sequence,
            below: self.arrived.below,
            newest,
            delay,
            recovered: self.recovered,
        };
        Some(format::report(head, self.arrived.ranges()))
    }

    /// When to ask [`report`](Self::report) even if nothing comes.
    pub fn next_deadline(&self) -> Option<Time> {
        self.due
    }

    /// What was received.
    pub fn stats(&self) -> &FencedReceiverStats {
        &self.stats
    }

    /// Messages that came and wait for others.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether a datagram is of this sequence, or begins the next one, and near enough. It makes a report
    /// due.
    fn takes(&mut self, now: Time, sequence: u64, number: u64) -> bool {
        // WB-3.
        if sequence > self.sequence {
            self.begin(sequence);
        }
        // WB-7.
        if sequence < self.sequence || number >= self.arrived.below.saturating_add(NUMBERS) {
            self.stats.ignored += 1;
            return false;
        }
        // WB-11.
        self.due.get_or_insert(now + REPORT_DELAY);
        true
    }

    /// What was delivered already stays delivered.
    fn begin(&mut self, sequence: u64) {
        let ready = std::mem::take(&mut self.ready);
        *self = Self { sequence, ready, ready_bytes: self.ready_bytes, stats: self.stats, ..Self::new() };
    }

    fn message(&mut self, now: Time, place: FencedPlace, payload: &[u8]) -> Result<(), DatagramFault> {
        // WB-5, WB-6.
        if self.arrived.contains(place.number) {
            self.stats.duplicates += 1;
            return Ok(());
        }
        if !self.arrive(place, || Bytes::copy_from_slice(payload), payload.len()) {
            self.stats.ignored += 1;
            return Ok(());
        }
        self.stats.messages += 1;
        self.newest = Some(NewestArrival { number: place.number, at: now });
        format::symbol(place.behind, payload, &mut self.symbol);
        self.decoder.source(place.number, &self.symbol).map_err(|_| DatagramFault::Repair)?;
        Ok(())
    }

    fn gone(&mut self, number: u64) {
        if self.arrived.add(number) {
            self.stats.gone += 1;
        }
    }

    fn repair(&mut self, first: u64, count: u64, seed: u64, sum: &[u8]) -> Result<(), DatagramFault> {
        self.stats.repairs += 1;
        let equation = Equation::rlc(first, count, seed).map_err(|_| DatagramFault::Repair)?;
        // WB-10: one that is too old, or names too many, is passed over.
        self.decoder.repair(&equation, sum).map_err(|_| DatagramFault::Repair)?;
        Ok(())
    }

    /// Takes what repair has computed.
    fn recover(&mut self, now: Time) -> Result<(), DatagramFault> {
        while self.decoder.has_work() {
            self.decoder.work(usize::MAX);
        }
        while let Some((number, symbol)) = self.decoder.next_recovered() {
            if self.arrived.contains(number) {
                continue;
            }
            // WB-9.
            let (place, payload) = format::read_symbol(number, symbol)?;
            let length = payload.len();
            if !self.arrive(place, || payload.into(), length) {
                self.stats.ignored += 1;
                continue;
            }
            self.stats.recovered += 1;
            self.recovered += 1;
            // The sender need not send it again.
            self.due = Some(now);
        }
        Ok(())
    }

    /// Delivers a message that is new, or holds it. False when there is no memory for it.
    fn arrive(&mut self, place: FencedPlace, payload: impl FnOnce() -> Bytes, length: usize) -> bool {
        // WB-4: nothing below the fence is missing, or waits itself. One that waits has a later fence.
        let is_free = place.fence() <= self.arrived.below;
        // What others wait for finds room beside them; it has to, or none of them would ever be taken.
        let before = if is_free { self.ready_bytes } else { self.ready_bytes + self.held_bytes };
        if before + memory_of(length) > MOST_WAITING {
            return false;
        }
        self.arrived.add(place.number);
        if is_free && self.held.is_empty() {
            self.deliver(payload());
        } else {
            self.held_bytes += memory_of(length);
            self.held.insert(place.number, HeldMessage { fence: place.fence(), payload: payload() });
        }
        true
    }

    fn deliver(&mut self, message: Bytes) {
        self.ready_bytes += memory_of(message.len());
        self.ready.push_back(message);
    }

    /// Delivers what waits no longer. WB-4.
    fn release(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        while let Some(first) = held.first_entry() {
            // All before it are settled, or it would not be the first that waits: what has not arrived
            // alone holds it up.
            if first.get().fence > self.arrived.below {
                break;
            }
            let HeldMessage { payload, .. } = first.remove();
            self.held_bytes -= memory_of(payload.len());
            self.deliver(payload);
        }
        self.held = held;
    }

    /// WB-11: a gap that was not reported yet is, at once.
    fn notice(&mut self, now: Time) {
        if self.arrived.missing_between(self.reported_to, self.arrived.end()) {
            self.due = Some(now);
        }
    }
}

impl Default for FencedReceiver {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for FencedReceiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FencedReceiver")
            .field("sequence", &self.sequence)
            .field("below", &self.arrived.below)
            .field("held", &self.held.len())
            .finish_non_exhaustive()
    }
}

impl ArrivedNumbers {
    /// Adds a number. False when it was there.
    fn add(&mut self, number: u64) -> bool {
        if self.contains(number) {
            return false;
        }
        let (mut start, mut end) = (number, number + 1);
        if let Some((&before, &until)) = self.above.range(..number).next_back() {
            if until == number {
                start = before;
            }
        }
        if let Some(until) = self.above.remove(&end) {
            end = until;
        }
        if start == self.below {
            self.below = end;
        } else {
            self.above.insert(start, end);
        }
        true
    }

    fn contains(&self, number: u64) -> bool {
        number < self.below || self.above.range(..=number).next_back().is_some_and(|(_, &end)| number < end)
    }

    /// The number behind the highest.
    fn end(&self) -> u64 {
        self.above.last_key_value().map_or(self.below, |(_, &end)| end)
    }

    fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.above.iter().map(|(&start, &end)| start..end)
    }

    /// Whether one of these numbers has not arrived; `to` is at most [`end`](Self::end).
    fn missing_between(&self, from: u64, to: u64) -> bool {
        let from = from.max(self.below);
        let covered = self.above.range(..=from).next_back().is_some_and(|(_, &end)| to <= end);
        from < to && !covered
    }
}

fn decoder() -> Decoder {
    let symbol_size = SYMBOL_HEADER + MOST_PAYLOAD;
    Decoder::new(DecoderLimits { window: SYMBOLS, symbol_size, max_unknowns: 64 })
}

/// WB-11.
const REPORT_DELAY: Duration = Duration::from_millis(10);
