use core::fmt;
use core::str::FromStr;
use std::collections::VecDeque;

use quickset_base::Time;

use crate::codel::{CoDel, Line};
use crate::rate::UNLIMITED;
use crate::units::{self, UnitError};

/// What a link does with packets that it cannot send yet. The packet in transmission counts as queued.
///
/// A further discipline is a variant here and an arm in `Queue::admit`; one that decides at the head of
/// the queue has an arm in `Link::decide` too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Queue {
    /// Everything waits.
    #[default]
    Unlimited,
    /// Drop-tail: a packet that does not fit whole into this many bytes is dropped.
    Bytes(u64),
    /// Drop-tail: a packet that would be one more than this many is dropped.
    Packets(u64),
    /// CoDel (RFC 8289): keeps the waiting time short by dropping, or marking, at the head.
    CoDel(CoDel),
}

impl Queue {
    /// Decides whether a packet of `size` bytes comes in behind what is being sent and what waits.
    pub(crate) fn admit(self, backlog: &Backlog, line: &Line, size: u64) -> Admission {
        let bytes = backlog.bytes.saturating_add(line.bytes()).saturating_add(size);
        let (fits, then) = match self {
            Self::Unlimited => (true, Admission::Sent),
            Self::Bytes(limit) => (bytes <= limit, Admission::Sent),
            Self::Packets(limit) => (((backlog.leaving.len() + line.len()) as u64) < limit, Admission::Sent),
            Self::CoDel(CoDel { limit, .. }) => (bytes <= limit, Admission::Waits),
        };
        if fits { then } else { Admission::Full }
    }
}

/// What a queue does with a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It has no room.
    Full,
    /// It will be sent, so that its time of leaving can be told.
    Sent,
    /// It is decided about at the head of the queue.
    Waits,
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
        if let Some(parts) = plain.strip_prefix("codel-ecn:") {
            return codel(text, parts, true);
        }
        if let Some(parts) = plain.strip_prefix("codel:") {
            return codel(text, parts, false);
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
            Self::CoDel(CoDel { target, interval, limit, ecn }) => {
                let name = if *ecn { "codel-ecn" } else { "codel" };
                let [target, interval] = [*target, *interval].map(units::duration_text);
                write!(f, "{name}:{target},{interval},{}", units::size_text(*limit))
            }
        }
    }
}

fn codel(text: &str, parts: &str, ecn: bool) -> Result<Queue, UnitError> {
    let parts: Vec<&str> = parts.split(',').collect();
    let [target, interval, limit] = parts[..] else {
        let accepted = "codel:TARGET,INTERVAL,LIMIT, like codel:5ms,100ms,9MB";
        return Err(UnitError::new(text, "a queue", "CoDel takes three values", accepted));
    };
    Ok(Queue::CoDel(CoDel {
        target: units::duration(target)?,
        interval: units::duration(interval)?,
        limit: units::size(limit)?,
        ecn,
    }))
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
        for text in
            ["unlimited", "9MB", "256kB", "100packets", "codel:5ms,100ms,9MB", "codel-ecn:1ms,20ms,64kB"]
        {
            assert_eq!(text.parse::<Queue>().unwrap().to_string(), text);
        }
        assert!("many packets".parse::<Queue>().unwrap_err().to_string().contains("whole number"));
    }
}
