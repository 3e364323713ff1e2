use core::time::Duration;
use std::net::SocketAddr;

use quickset_base::{Datagram, Input, Machine, Reason, Time};

use crate::cpu::Core;

/// A machine of a world and what is kept for it.
#[derive(Debug)]
pub(crate) struct WorldNode<M> {
    pub(crate) name: String,
    pub(crate) machine: M,
    /// By its own names; what the others call them is the network's business.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) coalesce: Duration,
    /// What has arrived waits for its flush.
    pub(crate) holding: bool,
    pub(crate) ready: bool,
    /// What the machine asked for, and the earliest entry of the agenda that stands for it.
    pub(crate) wake: Option<Time>,
    pub(crate) reason: Reason,
    pub(crate) scheduled: Option<Time>,
    /// It was given something and has not slept since.
    pub(crate) polling: bool,
    /// It works or is asleep until then, and an entry of the agenda says so.
    pub(crate) busy_until: Time,
    pub(crate) asleep_until: Time,
    pub(crate) received: u64,
    pub(crate) missed: u64,
    /// Polls at one instant, against machines that never sleep.
    pub(crate) polls: u32,
    pub(crate) polled_at: Time,
    pub(crate) core: Option<Box<Core>>,
    // What is handed over next.
    inbox: Vec<Datagram>,
}

/// What becomes of a datagram that reaches its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DatagramFate {
    /// The node takes it at once.
    Now,
    /// It is the first of those that are held back for a while.
    Hold,
    /// Something else will bring it to the node.
    Later,
}

impl<M> WorldNode<M> {
    pub(crate) fn new(name: &str, address: SocketAddr, machine: M) -> Self {
        Self {
            name: name.to_owned(),
            machine,
            addresses: vec![address],
            coalesce: Duration::ZERO,
            holding: false,
            ready: false,
            wake: None,
            reason: Reason::Idle,
            scheduled: None,
            polling: false,
            busy_until: Time::ZERO,
            asleep_until: Time::ZERO,
            received: 0,
            missed: 0,
            polls: 0,
            polled_at: Time::ZERO,
            core: None,
            inbox: Vec::new(),
        }
    }

    /// Takes a datagram at `now`, if it can.
    pub(crate) fn accept(&mut self, now: Time, datagram: Datagram) -> DatagramFate {
        if now < self.asleep_until {
            self.missed += 1;
            return DatagramFate::Later;
        }
        let first = self.is_empty();
        match &mut self.core {
            None => self.inbox.push(datagram),
            Some(core) => {
                if !core.accept(datagram) {
                    return DatagramFate::Later;
                }
            }
        }
        self.received += 1;
        if now < self.busy_until {
            DatagramFate::Later
        } else if self.coalesce.is_zero() {
            DatagramFate::Now
        } else if first {
            self.holding = true;
            DatagramFate::Hold
        } else {
            DatagramFate::Later
        }
    }

    /// True when it is to be given what has arrived before it is polled: it has slept, or had its turn.
    pub(crate) fn takes(&self) -> bool {
        !self.polling || self.core.as_ref().is_some_and(|core| core.is_due())
    }

    /// True when there is something that the machine is to be given.
    pub(crate) fn has_input(&self, now: Time) -> bool {
        (!self.is_empty() && !self.holding) || self.wake.is_some_and(|wake| wake <= now)
    }

    /// Lets the node work for a while; false when that is no time.
    pub(crate) fn work(&mut self, now: Time, work: Duration) -> bool {
        self.busy_until = self.busy_until.max(now + work);
        !work.is_zero()
    }

    /// True when nothing that has arrived waits to be taken.
    fn is_empty(&self) -> bool {
        self.inbox.is_empty() && self.core.as_ref().is_none_or(|core| core.is_empty())
    }
}

impl<M: Machine> WorldNode<M> {
    /// Gives the machine what it received, or else its timer if that is due. Returns how long it has to
    /// work for it; `None` when there is nothing.
    pub(crate) fn feed(&mut self, now: Time) -> Option<Duration> {
        let mut work = Duration::ZERO;
        if !self.is_empty() && !self.holding {
            if let Some(core) = self.core.as_mut().filter(|core| !core.is_empty()) {
                work = core.take(&mut self.inbox);
            }
            self.machine.handle(now, Input::Received(&mut self.inbox));
            self.inbox.clear();
            return Some(work);
        }
        self.wake.filter(|wake| *wake <= now)?;
        // Forgotten, so that an event before the next sleep does not bring it again.
        self.wake = None;
        self.machine.handle(now, Input::Timer);
        Some(work)
    }
}
