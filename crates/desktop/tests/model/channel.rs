//! The streams between two gateways: lost and reordered as far as the rules of delivery allow.

use std::collections::VecDeque;

use bytes::Bytes;
use quickset_base::{Duration, Rng, Time};
use quickset_desktop::message::{FromClient, FromServer, ScreenMark, ScreenOrder};
use quickset_desktop::receiver::{ReceiverConfig, ScreenReceiver};
use quickset_desktop::sender::{ScreenItem, ScreenSender, SenderConfig};

use crate::recorded::Recorded;
use crate::scene::Event;

/// One screen stream.
pub(crate) struct Channel {
    rng: Rng,
    loss: f64,
    /// On their way, in the sender's order.
    under_way: Vec<Flight>,
    segment: u64,
    /// The next message sent is never delivered, and its fate never told.
    pub(crate) withhold: bool,
    /// The first is replaced by the second, wherever it stands in a message.
    pub(crate) corrupt: Option<(Vec<u8>, Vec<u8>)>,
    /// Of all messages.
    pub(crate) digest: u64,
}

struct Flight {
    id: u64,
    payload: Bytes,
    keep: bool,
    segment: u64,
    withheld: bool,
}

impl Channel {
    pub(crate) fn new(rng: Rng, loss: f64) -> Self {
        Self { rng, loss, under_way: Vec::new(), segment: 0, withhold: false, corrupt: None, digest: 0 }
    }

    fn push(&mut self, outgoing: ScreenItem) {
        match outgoing {
            ScreenItem::Fence => self.segment += 1,
            ScreenItem::Flush => {}
            ScreenItem::Message { id, payload, keep } => {
                self.digest = payload
                    .iter()
                    .fold(self.digest ^ id, |sum, &b| (sum ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
                let withheld = std::mem::take(&mut self.withhold);
                self.under_way.push(Flight { id, payload, keep, segment: self.segment, withheld });
            }
        }
    }

    /// Any message of the oldest segment may be next.
    fn next(&mut self) -> Option<Flight> {
        let first = self.under_way.first()?.segment;
        let candidates: Vec<usize> = (0..self.under_way.len())
            .filter(|&i| self.under_way[i].segment == first && !self.under_way[i].withheld)
            .collect();
        // Mostly as sent, at times anything.
        let most = if self.rng.chance(0.5) { candidates.len().min(2) } else { candidates.len() };
        let at = candidates.get(self.rng.below(most as u64) as usize)?;
        Some(self.under_way.remove(*at))
    }
}

/// Two gateways and a channel.
pub(crate) struct Pair {
    pub(crate) sender: ScreenSender,
    pub(crate) receiver: ScreenReceiver,
    pub(crate) channel: Channel,
    pub(crate) restarts: usize,
    order: ScreenOrder,
    budget: usize,
    budget_before: usize,
    now: Time,
    marks: Vec<ScreenMark>,
    /// What the client has said and the server has not heard.
    answers: VecDeque<FromClient>,
    /// How likely an answer stays on its way.
    pub(crate) late: f64,
    pub(crate) recorded: Option<Recorded>,
}

impl Pair {
    pub(crate) fn new(config: SenderConfig, channel: Channel) -> Self {
        let order = config.order;
        Self {
            sender: ScreenSender::new(config),
            receiver: ScreenReceiver::new(ReceiverConfig { order, ..ReceiverConfig::default() }),
            channel,
            restarts: 0,
            order,
            budget: config.budget,
            budget_before: 0,
            now: Time::from_millis(1),
            marks: Vec::new(),
            answers: VecDeque::new(),
            late: 0.0,
            recorded: None,
        }
    }

    pub(crate) fn draw(&mut self, event: &Event) {
        event.with(|event| self.sender.rfb(self.now, event)).unwrap();
    }

    pub(crate) fn draw_all(&mut self, events: &[Event]) {
        for event in events {
            self.draw(event);
        }
    }

    /// The path takes packets of another size.
    pub(crate) fn set_budget(&mut self, budget: usize) {
        self.budget_before = self.budget_before.max(self.budget);
        self.budget = budget;
        self.sender.set_budget(budget);
    }

    /// The server sends up to `n` messages.
    pub(crate) fn send(&mut self, n: usize) {
        let mut sent = 0;
        while sent < n {
            // Less room than a message may take: nothing is encoded for it.
            let room = if self.channel.rng.chance(0.1) { 900 } else { usize::MAX };
            let Some(outgoing) = self.sender.poll(self.now, room) else { break };
            if let ScreenItem::Message { payload, keep, .. } = &outgoing {
                // A message that was ready is as long as it was to be then.
                let most = std::mem::replace(&mut self.budget_before, self.budget).max(self.budget);
                assert!(payload.len() <= most.min(room), "a message of {}", payload.len());
                assert!(*keep || self.order == ScreenOrder::Latest);
                sent += 1;
            }
            self.channel.push(outgoing);
        }
        while let Some(id) = self.sender.superseded() {
            assert_eq!(self.order, ScreenOrder::Latest);
            // Most are given up, if they are still here.
            let at = self.channel.under_way.iter().position(|flight| flight.id == id);
            if let Some(at) = at.filter(|_| self.channel.rng.chance(0.8)) {
                self.channel.under_way.remove(at);
                self.sender.outcome(id, false);
            }
        }
        while let Some(FromServer::Mark(mark)) = self.sender.control(self.now) {
            self.marks.push(mark);
        }
    }

    /// Up to `n` messages arrive or are lost.
    pub(crate) fn carry(&mut self, n: usize) {
        for _ in 0..n {
            let Some(flight) = self.channel.next() else { break };
            let lost = self.channel.rng.chance(self.channel.loss);
            if lost && flight.keep {
                // It is sent again, and others come first.
                self.channel.under_way.push(flight);
                self.channel.under_way.sort_by_key(|flight| flight.segment);
                continue;
            }
            // What is given up may have arrived all the same: "not known to have arrived".
            let deceived = lost && self.channel.rng.chance(0.2);
            if !lost || deceived {
                self.receive(&flight.payload);
                // In the order latest what comes again does nothing, but for a size.
                if !flight.keep && self.channel.rng.chance(0.05) {
                    self.receive(&flight.payload);
                }
            }
            self.sender.outcome(flight.id, !lost);
            self.answer();
        }
        if self.channel.rng.chance(0.7) {
            for mark in std::mem::take(&mut self.marks) {
                self.receiver.mark(self.now, mark);
            }
        }
        self.answer();
    }

    pub(crate) fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    /// Runs until both ends say that nothing is left to do.
    pub(crate) fn settle(&mut self) {
        let mut quiet = 0;
        for _ in 0..20_000 {
            self.send(20);
            self.carry(20);
            self.pass(Duration::from_millis(20));
            let idle = self.channel.under_way.is_empty() && self.marks.is_empty() && self.answers.is_empty();
            let done = idle && self.sender.is_at_rest() && self.receiver.next_deadline().is_none();
            quiet = if done { quiet + 1 } else { 0 };
            // A checksum may have been wrong at last.
            if quiet > 10 {
                return;
            }
        }
        panic!("no rest: {:?}, {:?}", self.sender.stats(), self.receiver.stats());
    }

    /// Runs for some time, whatever comes of it.
    pub(crate) fn settle_wrongly(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.send(20);
            self.carry(20);
            self.pass(Duration::from_millis(20));
        }
    }

    /// A new connection: the server's gateway starts afresh, the client's keeps its screen.
    pub(crate) fn reconnect(&mut self, config: SenderConfig, whole: &[Event]) {
        self.sender = ScreenSender::new(config);
        self.channel.under_way.clear();
        self.marks.clear();
        self.answers.clear();
        self.receiver.reconnected(config.order);
        if let Some(recorded) = &mut self.recorded {
            recorded.lose();
        }
        self.draw_all(whole);
    }

    fn receive(&mut self, payload: &[u8]) {
        let mut payload = payload.to_vec();
        if let Some((from, to)) = &self.channel.corrupt {
            if let Some(at) = payload.windows(from.len()).position(|window| window == from) {
                payload[at..at + to.len()].copy_from_slice(to);
            }
        }
        let stale = self.receiver.stats().stale;
        self.receiver.receive(&payload).unwrap();
        if let Some(recorded) = self.recorded.as_mut().filter(|_| self.receiver.stats().stale == stale) {
            recorded.message(self.now, &payload);
        }
    }

    /// What has come is shown.
    pub(crate) fn show(&mut self) {
        if let Some(recorded) = &mut self.recorded {
            recorded.show(self.now, &mut self.receiver);
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// The client says this, whether there is a reason or not.
    pub(crate) fn say(&mut self, message: FromClient) {
        self.answers.push_back(message);
    }

    /// A message that must arrive is given up all the same.
    pub(crate) fn break_off(&mut self) {
        if self.channel.under_way.is_empty() {
            return;
        }
        let at = self.channel.rng.below(self.channel.under_way.len() as u64) as usize;
        let flight = self.channel.under_way.remove(at);
        self.sender.outcome(flight.id, false);
    }

    fn answer(&mut self) {
        while let Some(message) = self.receiver.control(self.now) {
            self.answers.push_back(message);
        }
        while !self.channel.rng.chance(self.late) {
            match self.answers.pop_front() {
                None => return,
                Some(FromClient::Unable { item }) => self.sender.unable(item),
                Some(FromClient::Refresh(refresh)) => {
                    if refresh.restart {
                        self.restarts += 1;
                        self.channel.under_way.clear();
                    }
                    self.sender.refresh(&refresh);
                }
                Some(other) => panic!("{other:?}"),
            }
        }
    }
}
