use core::fmt;
use core::str::FromStr;
use std::collections::VecDeque;

use quickset_base::{Ecn, Time};

use crate::rate::UNLIMITED;
use crate::units::{self, UnitError};

/// What a link does with packets that it cannot send yet. The packet in transmission counts as queued.
///
/// A further discipline (active queue management, ECN marking) is a variant here and an arm in
/// `Queue::admit`, which sees the backlog and returns the mark that a packet leaves with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// Everything waits.
    #[default]
    Unlimited,
    /// Drop-tail: a packet that does not fit whole into this many bytes is dropped.
    Bytes(u64),
    /// Drop-tail: a packet that would be one more than this many is dropped.
    Packets(u64),
}

impl Queue {
    /// Decides about a packet of `size` bytes: the mark that it goes on with, or `None` to drop it.
    pub(crate) fn admit(self, backlog: &Backlog, size: u64, ecn: Ecn) -> Option<Ecn> {
        let fits = match self {
            Self::Unlimited => true,
            Self::Bytes(limit) => backlog.bytes.saturating_add(size) <= limit,
            Self::Packets(limit) => (backlog.leaving.len() as u64) < limit,
        };
        fits.then_some(ecn)
    }
}

impl FromStr for Queue {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let plain = text.trim();
        if plain == UNLIMITED {
            return Ok(Self::Unlimited);
        }
        if let Some(number) = plain.strip_suffix("packets") {
            return number.trim_end().parse().map(Self::Packets).map_err(|_| {
                UnitError::new(
                    text,
                    "a queue",
                    "the number of packets cannot be read",
                    "a whole number, like 100packets",
                )
            });
        }
        units::size(text).map(Self::Bytes)
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str(UNLIMITED),
            Self::Bytes(bytes) => f.write_str(&units::size_text(*bytes)),
            Self::Packets(packets) => write!(f, "{packets}packets"),
        }
    }
}

/// The packets that have been admitted and have not left, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Backlog {
    leaving: VecDeque<(Time, u64)>,
    bytes: u64,
}

impl Backlog {
    /// Forgets what has left by `now`.
    pub(crate) fn advance(&mut self, now: Time) {
        while let Some(&(leaves, size)) = self.leaving.front() {
            if leaves > now {
                break;
            }
            self.leaving.pop_front();
            self.bytes -= size;
        }
    }

    /// Takes a packet of `size` bytes whose last bit leaves at `leaves`, not before those already here.
    pub(crate) fn enter(&mut self, now: Time, leaves: Time, size: u64) {
        if leaves > now {
            self.leaving.push_back((leaves, size));
            self.bytes += size;
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in ["unlimited", "9MB", "256kB", "100packets"] {
            assert_eq!(text.parse::<Queue>().unwrap().to_string(), text);
        }
        assert!("many packets".parse::<Queue>().unwrap_err().to_string().contains("whole number"));
    }
}
