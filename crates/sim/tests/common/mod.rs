//! Toy machines.

#![expect(unreachable_pub, reason = "a module of tests is as public as it gets")]

use std::net::SocketAddr;

use quickset_base::{AddressPair, Batch, Duration, Ecn, Input, Machine, Poll, Reason, Rng, Time};

/// A datagram as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Got {
    pub at: Time,
    pub path: AddressPair,
    pub ecn: Ecn,
    pub bytes: Vec<u8>,
}

impl Got {
    /// The number that [`Toy`] wrote into the packet.
    pub fn number(&self) -> u64 {
        u64::from_le_bytes(self.bytes[..8].try_into().expect("8 bytes"))
    }
}

/// Sends what its plan says, and keeps what it receives.
#[derive(Debug, Default)]
pub struct Toy {
    /// When, whither, what; rising times.
    pub plan: Vec<Planned>,
    next: usize,
    pub got: Vec<Got>,
    /// How many datagrams each receive call brought.
    pub batches: Vec<(Time, usize)>,
    /// When the timer came.
    pub timers: Vec<Time>,
}

#[derive(Clone, Debug)]
pub struct Planned {
    pub at: Time,
    pub path: AddressPair,
    pub ecn: Ecn,
    pub not_before: Option<Time>,
    /// Segments of this size…
    pub size: usize,
    /// …this many, each beginning with its number.
    pub count: usize,
    pub first: u64,
}

impl Planned {
    pub fn new(at: Time, to: SocketAddr, size: usize, count: usize, first: u64) -> Self {
        Self { at, path: AddressPair::to(to), ecn: Ecn::NotEct, not_before: None, size, count, first }
    }
}

impl Toy {
    pub fn sending(plan: Vec<Planned>) -> Self {
        Self { plan, ..Self::default() }
    }

    pub fn numbers(&self) -> Vec<u64> {
        self.got.iter().map(Got::number).collect()
    }
}

impl Machine for Toy {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        match input {
            Input::Received(datagrams) => {
                self.batches.push((now, datagrams.len()));
                let got = datagrams.drain(..).map(|d| Got {
                    at: now,
                    path: d.path,
                    ecn: d.ecn,
                    bytes: d.bytes.to_vec(),
                });
                self.got.extend(got);
            }
            Input::Timer => self.timers.push(now),
        }
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        let Some(planned) = self.plan.get(self.next) else { return Poll::Sleep(None, Reason::Idle) };
        if planned.at > now {
            return Poll::Sleep(Some(planned.at), Reason::Application);
        }
        self.next += 1;
        (out.path, out.ecn, out.not_before) = (planned.path, planned.ecn, planned.not_before);
        for i in 0..planned.count as u64 {
            let space = out.space(planned.size);
            space.fill(0);
            space[..8].copy_from_slice(&(planned.first + i).to_le_bytes());
            out.commit(planned.size);
        }
        Poll::Send
    }
}

/// Answers each packet by up to two of random size and content, after a random while.
#[derive(Debug)]
pub struct Chatter {
    to: SocketAddr,
    rng: Rng,
    owed: Vec<Time>,
    pub received: u64,
    pub sent: u64,
}

impl Chatter {
    pub fn new(to: SocketAddr, seed: u64, owed: usize) -> Self {
        Self { to, rng: Rng::new(seed), owed: vec![Time::ZERO; owed], received: 0, sent: 0 }
    }
}

impl Machine for Chatter {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        if let Input::Received(datagrams) = input {
            for datagram in datagrams.drain(..) {
                self.received += 1;
                // What arrives damaged changes what follows.
                let sum: u64 = datagram.bytes.iter().map(|b| u64::from(*b)).sum();
                let answers = if self.owed.len() > 20 { 0 } else { 1 + (sum + self.rng.next()) % 2 };
                for _ in 0..answers {
                    self.owed.push(now + Duration::from_nanos(self.rng.below(3_000_000)));
                }
            }
            self.owed.sort_unstable_by(|a, b| b.cmp(a));
        }
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        match self.owed.last() {
            None => Poll::Sleep(None, Reason::Idle),
            Some(at) if *at > now => Poll::Sleep(Some(*at), Reason::Application),
            Some(_) => {
                self.owed.pop();
                self.sent += 1;
                out.path = AddressPair::to(self.to);
                let size = 20 + self.rng.below(1400) as usize;
                self.rng.fill(out.space(size));
                out.commit(size);
                Poll::Send
            }
        }
    }
}

/// Sends as much as it may at once: `batches` of `count` segments, and counts what it gets.
#[derive(Debug)]
pub struct Flood {
    pub to: SocketAddr,
    pub batches: usize,
    pub count: usize,
    pub size: usize,
    pub received: u64,
    pub first: Option<Time>,
    pub last: Option<Time>,
}

impl Flood {
    pub fn new(to: SocketAddr, batches: usize, count: usize, size: usize) -> Self {
        Self { to, batches, count, size, received: 0, first: None, last: None }
    }

    pub fn sink(to: SocketAddr) -> Self {
        Self::new(to, 0, 0, 0)
    }
}

impl Machine for Flood {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        if let Input::Received(datagrams) = input {
            self.received += datagrams.len() as u64;
            self.first.get_or_insert(now);
            self.last = Some(now);
            datagrams.clear();
        }
    }

    fn poll(&mut self, _now: Time, out: &mut Batch) -> Poll {
        if self.batches == 0 {
            return Poll::Sleep(None, Reason::Idle);
        }
        self.batches -= 1;
        out.path = AddressPair::to(self.to);
        for _ in 0..self.count {
            out.space(self.size).fill(1);
            out.commit(self.size);
        }
        Poll::Send
    }
}
