//! Compares what has come with what the server says it has sent.

use quickset_base::{Duration, Time};

use crate::message::Mark;

/// How far a screen has come; an epoch counts more than any number of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) epoch: u64,
    pub(super) items: u64,
}

/// Marks that are not met.
#[derive(Debug)]
pub(super) struct Watch {
    patience: Duration,
    /// The oldest that is not reached, and since when.
    stalled: Option<(Position, Time)>,
    /// The newest checksum.
    sum: Option<Sum>,
    /// No refresh is asked for before.
    not_before: Time,
    /// How long to wait after the next.
    pause: Duration,
}

#[derive(Debug)]
struct Sum {
    position: Position,
    crc: u32,
    since: Time,
    /// The screen has not changed since it was found wrong.
    wrong: bool,
}

impl Watch {
    pub(super) fn new(patience: Duration) -> Self {
        Self { patience, stalled: None, sum: None, not_before: Time::ZERO, pause: patience * 2 }
    }

    /// The screen has changed.
    pub(super) fn seen(&mut self, here: Position) {
        if self.stalled.is_some_and(|(position, _)| position <= here) {
            self.stalled = None;
        }
        if let Some(sum) = &mut self.sum {
            sum.wrong = false;
        }
    }

    pub(super) fn mark(&mut self, now: Time, mark: Mark, here: Position) {
        let position = Position { epoch: mark.epoch, items: mark.items };
        if here < position {
            self.stalled.get_or_insert((position, now));
        }
        if let Some(crc) = mark.sum {
            self.sum = Some(Sum { position, crc, since: now, wrong: false });
        }
    }

    /// Whether a refresh is wanted, and if so, whether with a new stream. `crc` is that of the screen.
    pub(super) fn wish(&mut self, now: Time, here: Position, crc: impl FnOnce() -> u32) -> Option<bool> {
        // DT-37.
        if self.stalled.is_some_and(|(_, since)| since + self.patience <= now) && self.not_before <= now {
            self.stalled = self.stalled.map(|(position, _)| (position, now));
            self.wait(now);
            return Some(true);
        }
        let sum = self.sum.as_mut().filter(|sum| sum.position <= here)?;
        // What has come since makes the sum one of the past.
        if sum.position < here {
            self.sum = None;
            return None;
        }
        if !sum.wrong {
            sum.wrong = crc() != sum.crc;
            if !sum.wrong {
                // DT-39.
                self.pause = self.patience * 2;
                self.sum = None;
                return None;
            }
        }
        // DT-38.
        if sum.since + self.patience <= now && self.not_before <= now {
            self.sum = None;
            self.wait(now);
            return Some(false);
        }
        None
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        let stalled = self.stalled.map(|(_, since)| since);
        let sum = self.sum.as_ref().map(|sum| sum.since);
        stalled.into_iter().chain(sum).map(|since| (since + self.patience).max(self.not_before)).min()
    }

    /// DT-39.
    fn wait(&mut self, now: Time) {
        self.not_before = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST);
    }
}

/// DT-39.
const LONGEST: Duration = Duration::from_secs(60);
