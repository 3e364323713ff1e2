use std::collections::VecDeque;

use bytes::Bytes;
use quickset_base::Time;

use super::{DatagramOutcome, DatagramTicket};

/// Datagrams that wait to be sent, first come first served, bounded in bytes and number; and what became of
/// those that do not wait any more.
#[derive(Debug)]
pub(super) struct DatagramOutbox {
    waiting: VecDeque<QueuedDatagram>,
    bytes: usize,
    most_bytes: usize,
    most: usize,
    /// The ticket of the next one.
    next: u64,
    /// No deadline in the queue is earlier.
    soonest: Option<Time>,
    /// Flushes, as the tickets behind them.
    flushes: VecDeque<u64>,
    outcomes: VecDeque<(DatagramTicket, DatagramOutcome)>,
}

/// One of them.
#[derive(Debug)]
pub(super) struct QueuedDatagram {
    pub(super) ticket: DatagramTicket,
    pub(super) data: Bytes,
    pub(super) deadline: Option<Time>,
    pub(super) reported: bool,
}

impl DatagramOutbox {
    pub(super) fn new(most_bytes: usize, most: usize) -> Self {
        Self {
            waiting: VecDeque::new(),
            bytes: 0,
            most_bytes,
            most: most.max(1),
            next: 0,
            soonest: None,
            flushes: VecDeque::new(),
            outcomes: VecDeque::new(),
        }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a datagram of `len` bytes may wait here. An empty queue takes any.
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.waiting.is_empty() || (self.waiting.len() < self.most && self.bytes + len <= self.most_bytes)
    }

    /// A quarter is free: it is worth telling.
    pub(super) fn is_roomy(&self) -> bool {
        self.waiting.len() <= self.most / 4 * 3 && self.bytes <= self.most_bytes / 4 * 3
    }

    pub(super) fn push(&mut self, data: Bytes, deadline: Option<Time>, reported: bool) -> DatagramTicket {
        let ticket = DatagramTicket(self.next);
        self.next += 1;
        self.bytes += data.len();
        self.soonest = [self.soonest, deadline].into_iter().flatten().min();
        self.waiting.push_back(QueuedDatagram { ticket, data, deadline, reported });
        ticket
    }

    pub(super) fn front_len(&self) -> Option<usize> {
        self.waiting.front().map(|front| front.data.len())
    }

    pub(super) fn pop(&mut self) -> Option<QueuedDatagram> {
        let front = self.waiting.pop_front()?;
        self.bytes -= front.data.len();
        if self.waiting.is_empty() {
            self.soonest = None;
        }
        Some(front)
    }

    /// When something may become too old.
    #[inline]
    pub(super) fn soonest(&self) -> Option<Time> {
        self.soonest
    }

    /// Takes out what is too old.
    pub(super) fn expire(&mut self, now: Time) -> Vec<QueuedDatagram> {
        let is_old = |one: &QueuedDatagram| one.deadline.is_some_and(|at| at <= now);
        let (mut gone, mut kept) = (Vec::new(), VecDeque::with_capacity(self.waiting.len()));
        for one in self.waiting.drain(..) {
            if is_old(&one) { gone.push(one) } else { kept.push_back(one) }
        }
        self.waiting = kept;
        self.bytes -= gone.iter().map(|one| one.data.len()).sum::<usize>();
        self.soonest = self.waiting.iter().filter_map(|one| one.deadline).min();
        gone
    }

    /// All that was queued so far belongs together.
    pub(super) fn flush(&mut self) {
        if !self.waiting.is_empty() && self.flushes.back() != Some(&self.next) {
            self.flushes.push_back(self.next);
        }
    }

    /// How many flushes all that waits now lies behind.
    #[inline]
    pub(super) fn cross(&mut self) -> u64 {
        if self.flushes.is_empty() { 0 } else { self.cross_flushes() }
    }

    fn cross_flushes(&mut self) -> u64 {
        let first = self.waiting.front().map_or(self.next, |front| front.ticket.0);
        let crossed = self.flushes.iter().take_while(|at| **at <= first).count();
        self.flushes.drain(..crossed);
        crossed as u64
    }

    /// What became of a datagram.
    pub(super) fn settle(&mut self, ticket: DatagramTicket, outcome: DatagramOutcome) {
        self.outcomes.push_back((ticket, outcome));
    }

    pub(super) fn outcomes(&self) -> usize {
        self.outcomes.len()
    }

    pub(super) fn next_outcome(&mut self) -> Option<(DatagramTicket, DatagramOutcome)> {
        self.outcomes.pop_front()
    }

    /// Verifies what must hold between calls.
    pub(super) fn check(&self) {
        assert_eq!(self.bytes, self.waiting.iter().map(|one| one.data.len()).sum::<usize>());
        assert!(self.waiting.len() <= self.most, "more datagrams than may wait");
        assert!(self.bytes <= self.most_bytes || self.waiting.len() == 1, "more bytes than may wait");
        let soonest = self.waiting.iter().filter_map(|one| one.deadline).min();
        assert!(soonest.is_none() || self.soonest <= soonest, "a deadline that nobody wakes for");
        assert!(self.flushes.len() <= self.most, "flushes of nothing");
    }
}
