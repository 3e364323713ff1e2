use core::time::Duration;

use quickset_base::Time;

use crate::events::{LinkEvent, LinkGap};
use crate::rate::Rate;
use crate::ratetrace::{Opportunities, RateShape};

/// What a link is like at which time: the description with its events, made ready to be asked.
#[derive(Clone, Debug)]
pub(crate) struct LinkCourse {
    // Each from its time on, the first from zero.
    settings: Vec<(Time, LinkSettings)>,
    dark: Gaps,
    void: Gaps,
    constant: Option<u64>,
}

/// What events may change.
#[derive(Clone, Debug)]
pub(crate) struct LinkSettings {
    pub(crate) rate: Rate,
    pub(crate) delay: Duration,
    pub(crate) mtu: u64,
}

/// How packets leave for a while.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkPace<'a> {
    Nothing,
    AtOnce,
    /// Bits per second, above zero.
    Bits(u64),
    Opportunities(&'a Opportunities),
}

impl LinkCourse {
    /// Of a link that begins with these settings, and to which this happens.
    pub(crate) fn new(begin: LinkSettings, events: &[LinkEvent]) -> Self {
        let mut now = begin;
        let (mut changes, mut dark, mut void) = (Vec::new(), Vec::new(), Vec::new());
        for event in events {
            match event {
                LinkEvent::Blackout(gap) => dark.push(*gap),
                LinkEvent::Outage(gap) => void.push(*gap),
                LinkEvent::Handover(gap, change) => {
                    void.push(*gap);
                    changes.push((Time::ZERO + gap.at + gap.length, change));
                }
                LinkEvent::At(at, change) => changes.push((Time::ZERO + *at, change)),
            }
        }
        // A stable sort: at one time the last one given has the last word.
        changes.sort_by_key(|(at, _)| *at);
        let mut settings = vec![(Time::ZERO, now.clone())];
        for (at, change) in changes {
            now.rate = change.rate.clone().unwrap_or(now.rate);
            now.delay = change.delay.unwrap_or(now.delay);
            now.mtu = change.mtu.map_or(now.mtu, u64::from);
            settings.push((at, now.clone()));
        }
        let constant = match settings[0].1.rate {
            Rate::Constant(bps) if settings.len() == 1 && dark.is_empty() => Some(bps),
            _ => None,
        };
        Self { settings, dark: Gaps::new(&dark), void: Gaps::new(&void), constant }
    }

    /// The rate, if it is always the same and above zero: the case that has to be fast.
    pub(crate) fn constant(&self) -> Option<u64> {
        self.constant.filter(|bps| *bps > 0)
    }

    /// True when what leaves at `time` is lost.
    #[inline]
    pub(crate) fn loses(&self, time: Time) -> bool {
        !self.void.is_empty() && self.void.covering(time).is_some()
    }

    pub(crate) fn at(&self, time: Time) -> &LinkSettings {
        &self.settings[self.index(time)].1
    }

    /// The rate at `time` in bits per second, the mean one of opportunities; `None` for no limit.
    pub(crate) fn bps(&self, time: Time) -> Option<u64> {
        match &self.at(time).rate {
            Rate::Unlimited => None,
            Rate::Constant(bps) => Some(*bps),
            Rate::Trace(trace) => Some(match trace.shape() {
                RateShape::Opportunities(_) => trace.mean_bps(),
                RateShape::Steps(steps) => steps.at(time, &mut 0).0,
            }),
        }
    }

    /// The pace at `time`, and until when it is that for certain (after `time`, unless time has ended).
    pub(crate) fn pace(&self, time: Time, hint: &mut usize) -> (LinkPace<'_>, Time) {
        if let Some(end) = self.dark.covering(time) {
            return (LinkPace::Nothing, end);
        }
        let index = self.index(time);
        let end = self.settings.get(index + 1).map_or(Time::MAX, |next| next.0).min(self.dark.next(time));
        let bits = |bps| if bps == 0 { LinkPace::Nothing } else { LinkPace::Bits(bps) };
        match &self.settings[index].1.rate {
            Rate::Unlimited => (LinkPace::AtOnce, end),
            Rate::Constant(bps) => (bits(*bps), end),
            Rate::Trace(trace) => match trace.shape() {
                RateShape::Opportunities(opportunities) => (LinkPace::Opportunities(opportunities), end),
                RateShape::Steps(steps) => {
                    let (bps, step) = steps.at(time, hint);
                    (bits(bps), end.min(step))
                }
            },
        }
    }

    fn index(&self, time: Time) -> usize {
        if self.settings.len() == 1 { 0 } else { self.settings.partition_point(|(at, _)| *at <= time) - 1 }
    }
}

/// A set of gaps.
#[derive(Clone, Debug)]
struct Gaps {
    // Beginnings and ends; rising, with time between them.
    once: Vec<(Time, Time)>,
    every: Vec<LinkGap>,
}

impl Gaps {
    fn new(gaps: &[LinkGap]) -> Self {
        let (every, once): (Vec<LinkGap>, Vec<LinkGap>) =
            gaps.iter().filter(|gap| !gap.length.is_zero()).partition(|gap| gap.every.is_some());
        let mut once: Vec<_> =
            once.iter().map(|gap| (Time::ZERO + gap.at, Time::ZERO + gap.at + gap.length)).collect();
        once.sort_unstable();
        let mut merged: Vec<(Time, Time)> = Vec::with_capacity(once.len());
        for (begin, end) in once {
            match merged.last_mut() {
                Some(last) if begin <= last.1 => last.1 = last.1.max(end),
                _ => merged.push((begin, end)),
            }
        }
        Self { once: merged, every }
    }

    fn is_empty(&self) -> bool {
        self.once.is_empty() && self.every.is_empty()
    }

    /// The end of a gap that `time` lies in.
    fn covering(&self, time: Time) -> Option<Time> {
        let once = self.once.partition_point(|(begin, _)| *begin <= time);
        let once = once.checked_sub(1).map(|i| self.once[i].1).filter(|end| time < *end);
        let every = self.every.iter().filter_map(|gap| {
            let begin = gap.last_begin(time)?;
            let ends = gap.every.is_some_and(|every| every > gap.length);
            let end = if ends { begin + gap.length } else { Time::MAX };
            Some(end).filter(|end| time < *end)
        });
        every.chain(once).max()
    }

    /// The next beginning after `time`.
    fn next(&self, time: Time) -> Time {
        let once = self.once.partition_point(|(begin, _)| *begin <= time);
        let once = self.once.get(once).map(|(begin, _)| *begin);
        let every = self.every.iter().map(|gap| match gap.last_begin(time) {
            Some(begin) => begin + gap.every.unwrap_or(Duration::MAX),
            None => Time::ZERO + gap.at,
        });
        every.chain(once).min().unwrap_or(Time::MAX)
    }
}

impl LinkGap {
    /// When the latest of a periodic gap has begun by `time`.
    fn last_begin(&self, time: Time) -> Option<Time> {
        let first = Time::ZERO + self.at;
        let nanos = |d: Duration| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX).max(1);
        let since = time.as_nanos().checked_sub(first.as_nanos())?;
        let period = self.every.map_or(u64::MAX, nanos);
        Some(Time::from_nanos(first.as_nanos() + since / period * period))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_where_they_are_said_to_be() {
        let gap = |at, length, every: Option<u64>| LinkGap {
            at: Duration::from_nanos(at),
            length: Duration::from_nanos(length),
            every: every.map(Duration::from_nanos),
        };
        let all =
            [gap(5, 3, None), gap(7, 4, None), gap(20, 1, None), gap(12, 2, Some(10)), gap(11, 1, None)];
        let gaps = Gaps::new(&all);
        let dark: Vec<u64> = (0..36).filter(|ns| gaps.covering(Time::from_nanos(*ns)).is_some()).collect();
        assert_eq!(dark, [5, 6, 7, 8, 9, 10, 11, 12, 13, 20, 22, 23, 32, 33]);
        for ns in 0..36 {
            let time = Time::from_nanos(ns);
            // Between here and the next beginning no gap begins, and the end is no earlier than said.
            if gaps.covering(time).is_none() {
                let next = gaps.next(time).as_nanos();
                assert_eq!(Some(&next), dark.iter().find(|dark| **dark > ns).or(Some(&42)), "after {ns}");
            }
        }
    }
}
