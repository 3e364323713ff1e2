use core::time::Duration;

use quickset_base::Time;
use quickset_base::number::Unsigned as _;

use crate::course::{LinkCourse, LinkPace};
use crate::ratetrace::{OPPORTUNITY, Opportunities, TUN_HEADER};

/// The transmitter: one packet after the other, first come, first served.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transmitter {
    // The last packet has left at free + rest / rate nanoseconds. The rest is carried along, so that
    // rounding never adds up and a saturated link sends at exactly its rate.
    free: Time,
    rest: u64,
    // For packets that came before `free`: the opportunity that is next, and its bytes that are still there.
    index: u64,
    left: u64,
    hint: usize,
}

impl Transmitter {
    /// Takes a packet of `size` bytes that arrives at `arrival`; returns when its last bit has left.
    #[inline]
    pub(crate) fn serve(&mut self, course: &LinkCourse, arrival: Time, size: u64) -> Time {
        let Some(bps) = course.constant() else { return self.work(course, arrival, size) };
        if self.free < arrival || self.rest >= bps {
            (self.free, self.rest) = (self.free.max(arrival), 0);
        }
        let work = size.saturating_mul(BYTE).saturating_add(self.rest);
        self.free += Duration::from_nanos(work / bps);
        self.rest = work % bps;
        self.idle()
    }

    /// When the transmitter takes the next packet, which arrives at `arrival`.
    pub(crate) fn ready(&self, course: &LinkCourse, arrival: Time) -> Time {
        match course.constant() {
            Some(_) => arrival.max(self.idle()),
            None => self.clone().work(course, arrival, 0),
        }
    }

    /// After another course was set: what never would have left no longer stands in the way.
    pub(crate) fn change(&mut self) {
        self.left = 0;
        if self.free == Time::MAX {
            (self.free, self.rest) = (Time::ZERO, 0);
        }
    }

    /// When the last packet has left, in whole nanoseconds.
    pub(crate) fn idle(&self) -> Time {
        self.free + Duration::from_nanos(u64::from(self.rest > 0))
    }

    /// Serves at whatever pace there is, from stretch to stretch of time.
    fn work(&mut self, course: &LinkCourse, arrival: Time, size: u64) -> Time {
        let mut shares = self.left > 0 && self.free > arrival;
        if self.free < arrival {
            (self.free, self.rest) = (arrival, 0);
        }
        let mut work = u128::from(size) * u128::from(BYTE);
        let mut header = if size > 0 { TUN_HEADER } else { 1 };
        // What is interrupted more often than that shall never leave, for it would take forever to find out.
        let mut stretches = 0;
        while self.free < Time::MAX && stretches < STRETCHES {
            stretches += 1;
            let (pace, end) = course.pace(self.free, &mut self.hint);
            match pace {
                LinkPace::Nothing => {}
                LinkPace::AtOnce => {
                    self.rest = 0;
                    return self.free;
                }
                LinkPace::Bits(bps) => {
                    // After a change by a program the fraction of a nanosecond may be none of this rate.
                    self.rest = if self.rest < bps { self.rest } else { 0 };
                    let work_and_rest = work + u128::from(self.rest);
                    let stretch =
                        u128::from((end - self.free).as_nanos().saturated::<u64>()) * u128::from(bps);
                    if work_and_rest <= stretch {
                        self.free +=
                            Duration::from_nanos((work_and_rest / u128::from(bps)).saturated::<u64>());
                        self.rest = (work_and_rest % u128::from(bps)).saturated::<u64>();
                        return self.idle();
                    }
                    work = work_and_rest - stretch;
                }
                LinkPace::Opportunities(opportunities) => {
                    let need =
                        work.div_ceil(u128::from(BYTE)).saturated::<u64>() + std::mem::take(&mut header);
                    // Here or in the gap before it, the packet came before the opportunity.
                    let after = if shares { None } else { Some(before(self.free).max(arrival)) };
                    match self.use_up(opportunities, after, need, end) {
                        0 => return self.free,
                        need => work = u128::from(need) * u128::from(BYTE),
                    }
                }
            }
            (self.free, self.rest, self.left, shares) = (end, 0, 0, false);
        }
        self.free = Time::MAX;
        self.free
    }

    /// Uses opportunities, those after `after` or what is left of the last one and those behind it, as
    /// long as they come before `end`; returns the bytes that are still to be sent.
    fn use_up(&mut self, from: &Opportunities, after: Option<Time>, mut need: u64, end: Time) -> u64 {
        if let Some(after) = after {
            (self.index, self.left) = (from.first_after(after), OPPORTUNITY);
        }
        loop {
            let time = from.time(self.index);
            if time >= end {
                return need;
            }
            (self.free, self.rest) = (time, 0);
            if need < self.left {
                self.left -= need;
                return 0;
            }
            need -= self.left;
            (self.index, self.left) = (self.index + 1, OPPORTUNITY);
            if need == 0 {
                return 0;
            }
        }
    }
}

fn before(time: Time) -> Time {
    time - Duration::from_nanos(1)
}

/// The work that a byte is, in bits times nanoseconds.
const BYTE: u64 = 8_000_000_000;
/// Less than a second of computing.
const STRETCHES: u32 = 1 << 22;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Rate;
    use crate::spec::LinkSpec;

    fn at(ns: u64) -> Time {
        Time::from_nanos(ns)
    }

    fn course(rate: Rate) -> LinkCourse {
        LinkSpec { rate, ..LinkSpec::default() }.course()
    }

    #[test]
    fn rounding_never_adds_up() {
        // 1 byte at 3 bit/s takes 8/3 s; three of them take 8 s to the nanosecond.
        let mut server = Transmitter::default();
        let slow = course(Rate::Constant(3));
        assert_eq!(server.serve(&slow, Time::ZERO, 1), at(2_666_666_667));
        assert_eq!(server.serve(&slow, Time::ZERO, 1), at(5_333_333_334));
        assert_eq!(server.serve(&slow, Time::ZERO, 1), at(8_000_000_000));
        // After a pause it starts afresh.
        assert_eq!(server.serve(&course(Rate::Constant(8)), at(9_000_000_000), 1), at(10_000_000_000));
    }

    #[test]
    fn ends_of_the_scale() {
        let mut server = Transmitter::default();
        assert_eq!(server.serve(&course(Rate::Unlimited), at(5), 1500), at(5));
        assert_eq!(server.serve(&course(Rate::Constant(1)), Time::ZERO, u64::MAX), Time::MAX);
        server.change();
        assert_eq!(server.serve(&course(Rate::Constant(0)), Time::ZERO, 1), Time::MAX);
        assert_eq!(server.ready(&course(Rate::Constant(0)), Time::ZERO), Time::MAX);
        server.change();
        assert_eq!(server.serve(&course(Rate::Constant(8)), Time::ZERO, 1), at(1_000_000_000));
    }
}
