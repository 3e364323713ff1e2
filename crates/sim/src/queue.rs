use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::collections::VecDeque;

use quickset_base::Time;

use crate::codel::CoDel;
use crate::rate::UNLIMITED;
use crate::red::Red;
use crate::units::{self, UnitError};

/// What a link does with packets that it cannot send yet. The packet in transmission counts as queued.
///
/// There is one queue for all packets: the pair of queues with a low threshold for ECT(1) of L4S is not
/// modelled.
///
/// A further discipline is a variant here and an arm in `Link::admit`; one that decides at the head of
/// the queue has an arm in `Link::decide` too.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum LinkQueue {
    /// Everything waits.
    #[default]
    Unlimited,
    /// Drop-tail: a packet that does not fit whole into this many bytes is dropped. As text `9MB`.
    Bytes(u64),
    /// Drop-tail: a packet that would be one more than this many is dropped. As text `100packets`.
    Packets(u64),
    /// Drop-tail by bytes: as many as the link's present rate sends in this time (the mean rate of a
    /// recording of opportunities), but one packet finds room in any case. As text `50ms`.
    Time(Duration),
    /// Drop-tail by bytes that marks packets where a queue stands (as DCTCP's switches do).
    Mark(ThresholdMark),
    /// RED: drops or marks arriving packets at random, more of them the longer the queue.
    Red(Red),
    /// CoDel (RFC 8289): keeps the waiting time short by dropping, or marking, at the head.
    CoDel(CoDel),
}

/// Marking by a threshold. As text `mark:30kB,9MB` or `mark:1ms,9MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThresholdMark {
    /// Beyond it, packets that can be marked (ECT) are marked CE; others pass.
    pub above: Above,
    /// The most bytes that may wait; beyond, arriving packets are dropped.
    pub limit: u64,
}

/// A threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Above {
    /// More than so many bytes are queued when the packet arrives, its own not counted.
    Bytes(u64),
    /// The packet waits longer than so long before it begins to be sent.
    Wait(Duration),
}

impl LinkQueue {
    /// The most bytes and packets that may be queued at a rate of `bps` (`None` is no limit).
    pub(crate) fn limits(&self, bps: Option<u64>) -> (u64, u64) {
        match self {
            Self::Unlimited => (u64::MAX, u64::MAX),
            Self::Bytes(bytes) => (*bytes, u64::MAX),
            Self::Packets(packets) => (u64::MAX, *packets),
            Self::Time(time) => {
                let bytes = bps.map(|bps| time.as_nanos().saturating_mul(u128::from(bps)) / 8_000_000_000);
                (bytes.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(u64::MAX), u64::MAX)
            }
            Self::Mark(ThresholdMark { limit, .. })
            | Self::Red(Red { limit, .. })
            | Self::CoDel(CoDel { limit, .. }) => (*limit, u64::MAX),
        }
    }

    /// True when it decides about packets at its head.
    pub(crate) fn decides_at_head(&self) -> bool {
        matches!(self, Self::CoDel(_))
    }
}

impl FromStr for LinkQueue {
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
        if let Some((name, parts)) = plain.split_once(':') {
            return managed(text, name, parts);
        }
        if let Ok(time) = units::duration(plain) {
            if plain != "0" {
                return Ok(Self::Time(time));
            }
        }
        bytes(text).map(Self::Bytes)
    }
}

impl fmt::Display for LinkQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, size) = (units::duration_text, units::size_text);
        let dash = |ecn: bool| if ecn { "-ecn" } else { "" };
        match *self {
            Self::Unlimited => f.write_str(UNLIMITED),
            Self::Bytes(bytes) => f.write_str(&size(bytes)),
            Self::Packets(packets) => write!(f, "{packets}packets"),
            Self::Time(length) => f.write_str(&time(length)),
            Self::Mark(ThresholdMark { above: Above::Bytes(bytes), limit }) => {
                write!(f, "mark:{},{}", size(bytes), size(limit))
            }
            Self::Mark(ThresholdMark { above: Above::Wait(wait), limit }) => {
                write!(f, "mark:{},{}", time(wait), size(limit))
            }
            Self::Red(Red { min, max, share, limit, ecn }) => {
                let share = units::share_text(share);
                write!(f, "red{}:{},{},{share},{}", dash(ecn), size(min), size(max), size(limit))
            }
            Self::CoDel(CoDel { target, interval, limit, ecn }) => {
                write!(f, "codel{}:{},{},{}", dash(ecn), time(target), time(interval), size(limit))
            }
        }
    }
}

/// A size. A bare number is refused: it is bytes for some, and packets for others.
fn bytes(text: &str) -> Result<u64, UnitError> {
    units::size_with_unit(text, "a queue", "what it counts, like 9MB or 100packets")
}

/// Reads the queues with a name and values.
fn managed(text: &str, name: &str, parts: &str) -> Result<LinkQueue, UnitError> {
    let fails = |why: &str| {
        let accepted = "codel:TARGET,INTERVAL,LIMIT, mark:THRESHOLD,LIMIT or red:MIN,MAX,SHARE,LIMIT (codel-ecn: \
                        and red-ecn: mark), like codel:5ms,100ms,9MB";
        UnitError::new(text, "a queue", why, accepted)
    };
    let parts: Vec<&str> = parts.split(',').collect();
    let ecn = name.ends_with("-ecn");
    match (name, &parts[..]) {
        ("codel" | "codel-ecn", &[target, interval, limit]) => {
            let [target, interval] = [units::duration(target)?, units::duration(interval)?];
            Ok(LinkQueue::CoDel(CoDel { target, interval, limit: bytes(limit)?, ecn }))
        }
        ("mark", &[threshold, limit]) => {
            let above = match (bytes(threshold), units::duration(threshold)) {
                (Ok(bytes), _) => Above::Bytes(bytes),
                (_, Ok(wait)) => Above::Wait(wait),
                (Err(error), _) if threshold.trim().ends_with(|c: char| c.is_ascii_digit()) => {
                    return Err(error);
                }
                _ => return Err(fails("its threshold is neither a size nor a duration")),
            };
            Ok(LinkQueue::Mark(ThresholdMark { above, limit: bytes(limit)? }))
        }
        ("red" | "red-ecn", &[min, max, share, limit]) => {
            let [min, max, limit] = [bytes(min)?, bytes(max)?, bytes(limit)?];
            if min >= max {
                return Err(fails("MIN is not below MAX"));
            }
            Ok(LinkQueue::Red(Red { min, max, share: units::share(share)?, limit, ecn }))
        }
        ("codel" | "codel-ecn" | "mark" | "red" | "red-ecn", _) => {
            Err(fails("the number of values is wrong"))
        }
        _ => Err(fails("its kind is not known")),
    }
}

/// The packets that have been admitted and have not left, oldest first.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueBacklog {
    leaving: VecDeque<(Time, u64)>,
    bytes: u64,
}

impl QueueBacklog {
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

    pub(crate) fn packets(&self) -> u64 {
        self.leaving.len() as u64
    }

    /// After another course was set: forgets what would never have left.
    pub(crate) fn change(&mut self) {
        while self.leaving.back().is_some_and(|(leaves, _)| *leaves == Time::MAX) {
            self.bytes -= self.leaving.pop_back().map_or(0, |(_, size)| size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        for text in [
            "unlimited",
            "9MB",
            "0B",
            "256kB",
            "100packets",
            "50ms",
            "mark:30kB,9MB",
            "mark:1ms,9MB",
            "red:30kB,90kB,10%,9MB",
            "red-ecn:30kB,90kB,10%,9MB",
            "codel:5ms,100ms,9MB",
            "codel-ecn:1ms,20ms,64kB",
        ] {
            assert_eq!(text.parse::<LinkQueue>().unwrap().to_string(), text);
        }
        assert_eq!("0".parse(), Ok(LinkQueue::Bytes(0)));
    }

    #[test]
    fn slips_are_explained() {
        let says = |text: &str| text.parse::<LinkQueue>().unwrap_err().to_string();
        assert!(says("many packets").contains("whole number"));
        assert!(says("9 things").contains("`things` is not known"));
        assert!(says("codel:5ms,9MB").contains("the number of values is wrong"));
        assert!(says("codel:5,100ms,9MB").contains("unit is missing"));
        assert!(says("mark:x,9MB").contains("neither a size nor a duration"));
        assert!(says("red:90kB,30kB,1%,9MB").contains("not below"));
        assert!(says("pie:1ms").contains("kind is not known"));
    }
}
