use core::fmt;
use core::str::FromStr;

use quickset_base::Time;

use crate::units::{self, UnitError};

/// How fast a link sends.
///
/// A further kind (say, a recorded series of sending opportunities) is a variant here and an arm in
/// `Server::serve`, which only has to answer when a packet that comes next has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rate {
    /// Packets leave in no time, and so never queue.
    #[default]
    Unlimited,
    /// Bits per second. At 0 nothing ever leaves.
    Constant(u64),
}

impl Rate {
    /// `n` million bits per second.
    pub const fn mbit(n: u64) -> Self {
        Self::Constant(n * 1_000_000)
    }
}

impl FromStr for Rate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text.trim() == UNLIMITED { Ok(Self::Unlimited) } else { units::rate(text).map(Self::Constant) }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlimited => f.write_str(UNLIMITED),
            Self::Constant(bps) => f.write_str(&units::rate_text(*bps)),
        }
    }
}

/// The transmitter: one packet after the other, first come, first served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Server {
    // The last packet has left at free + rest / rate nanoseconds. The rest is carried along, so that
    // rounding never adds up and a saturated link sends at exactly its rate.
    free: Time,
    rest: u64,
}

impl Server {
    /// Takes a packet of `size` bytes at `now`; returns when its last bit has left.
    pub(crate) fn serve(&mut self, rate: Rate, now: Time, size: u64) -> Time {
        let bps = match rate {
            Rate::Unlimited => return now,
            Rate::Constant(0) => return Time::MAX,
            Rate::Constant(bps) => bps,
        };
        if self.free < now || self.rest >= bps {
            (self.free, self.rest) = (self.free.max(now), 0);
        }
        let work = size.saturating_mul(8 * NANOS).saturating_add(self.rest);
        self.free += core::time::Duration::from_nanos(work / bps);
        self.rest = work % bps;
        self.idle()
    }

    /// When the transmitter takes the next packet, which arrives at `arrival`.
    pub(crate) fn ready(&self, rate: Rate, arrival: Time) -> Time {
        match rate {
            Rate::Unlimited => arrival,
            Rate::Constant(0) => Time::MAX,
            Rate::Constant(_) => arrival.max(self.idle()),
        }
    }

    /// When the last packet has left, in whole nanoseconds.
    fn idle(&self) -> Time {
        self.free + core::time::Duration::from_nanos(u64::from(self.rest > 0))
    }
}

pub(crate) const UNLIMITED: &str = "unlimited";
const NANOS: u64 = 1_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_never_adds_up() {
        // 1 byte at 3 bit/s takes 8/3 s; three of them take 8 s to the nanosecond.
        let mut server = Server::default();
        let at = |ns| Time::from_nanos(ns);
        assert_eq!(server.serve(Rate::Constant(3), Time::ZERO, 1), at(2_666_666_667));
        assert_eq!(server.serve(Rate::Constant(3), Time::ZERO, 1), at(5_333_333_334));
        assert_eq!(server.serve(Rate::Constant(3), Time::ZERO, 1), at(8_000_000_000));
        // After a pause it starts afresh.
        assert_eq!(server.serve(Rate::Constant(8), at(9_000_000_000), 1), at(10_000_000_000));
    }

    #[test]
    fn ends_of_the_scale() {
        let mut server = Server::default();
        assert_eq!(server.serve(Rate::Unlimited, Time::from_millis(5), 1500), Time::from_millis(5));
        assert_eq!(server.serve(Rate::Constant(0), Time::ZERO, 1), Time::MAX);
        assert_eq!(server.serve(Rate::Constant(1), Time::ZERO, u64::MAX), Time::from_nanos(u64::MAX));
    }

    #[test]
    fn text_round_trips() {
        for text in ["unlimited", "100mbit", "1.5gbit", "1bit"] {
            assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
        }
    }
}
