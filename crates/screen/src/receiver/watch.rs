//! Compares what has come with what the server says it has sent.

use std::collections::VecDeque;

use quickset_base::{Duration, Time};

use crate::message::ScreenMark;

/// How far a screen has come; an epoch counts more than any number of items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) epoch: u64,
    pub(super) items: u64,
}

/// Marks that are not met.
#[derive(Debug)]
pub(super) struct MarkWatch {
    patience: Duration,
    /// Those that are not reached, and since when, each further on than the one before: that the oldest was
    /// reached says nothing of the others.
    unmet: VecDeque<(Position, Time)>,
    /// How far the screen had come at the last look, and since when that is so: what still moves has not
    /// stopped, however far behind it is.
    moved: (Position, Time),
    /// The newest checksum.
    sum: Option<WatchSum>,
    /// No refresh is asked for before.
    not_before: Time,
    /// How long to wait after the next.
    pause: Duration,
}

#[derive(Debug)]
struct WatchSum {
    position: Position,
    crc: u32,
    since: Time,
    /// The screen has not changed since it was found wrong.
    wrong: bool,
}

impl MarkWatch {
    pub(super) fn new(patience: Duration) -> Self {
        Self {
            patience,
            unmet: VecDeque::new(),
            moved: (Position { epoch: 0, items: 0 }, Time::ZERO),
            sum: None,
            not_before: Time::ZERO,
            pause: patience * 2,
        }
    }

    /// The screen has changed.
    pub(super) fn seen(&mut self, here: Position) {
        while self.unmet.front().is_some_and(|&(position, _)| position <= here) {
            self.unmet.pop_front();
        }
        if let Some(sum) = &mut self.sum {
            sum.wrong = false;
        }
    }

    pub(super) fn mark(&mut self, now: Time, mark: ScreenMark, here: Position) {
        let position = Position { epoch: mark.epoch, items: mark.items };
        if self.unmet.back().map_or(here, |&(last, _)| last) < position {
            if self.unmet.len() == MOST_UNMET {
                self.unmet.pop_back();
            }
            self.unmet.push_back((position, now));
        }
        if let Some(crc) = mark.sum {
            self.sum = Some(WatchSum { position, crc, since: now, wrong: false });
        }
    }

    /// Whether a refresh is wanted, and if so, whether with a new stream. `crc` is that of the screen.
    pub(super) fn wish(&mut self, now: Time, here: Position, crc: impl FnOnce() -> u32) -> Option<bool> {
        if self.moved.0 != here {
            self.moved = (here, now);
        }
        // DT-37.
        let stalled = self.stalled_at().is_some_and(|at| at <= now);
        if stalled && self.not_before <= now {
            // The new stream brings all of it, or none.
            self.unmet.drain(..self.unmet.len() - 1);
            self.unmet.iter_mut().for_each(|(_, since)| *since = now);
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

    pub(super) fn deadline(&self, here: Position) -> Option<Time> {
        // What has not come cannot be compared, however late it is.
        let sum = self.sum.as_ref().filter(|sum| sum.position <= here).map(|sum| sum.since + self.patience);
        self.stalled_at().into_iter().chain(sum).map(|due| due.max(self.not_before)).min()
    }

    /// When the screen counts as stopped, if nothing comes until then.
    fn stalled_at(&self) -> Option<Time> {
        let &(_, since) = self.unmet.front()?;
        Some(since.max(self.moved.1) + self.patience)
    }

    /// DT-39.
    fn wait(&mut self, now: Time) {
        self.not_before = now + self.pause;
        self.pause = (self.pause * 2).min(LONGEST);
    }
}

/// Marks that are remembered while they are not reached; a server sends about one in a second.
const MOST_UNMET: usize = 64;
/// DT-39.
const LONGEST: Duration = Duration::from_secs(60);
