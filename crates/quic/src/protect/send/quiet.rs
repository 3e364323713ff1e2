use quickset_base::Time;

use super::ProtectSending;
use crate::packet::Channel;
use crate::protect::policy::Carried;

/// What policies were told last: the time, and the count of what has changed in the streams' demands since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) now: Time,
    pub(crate) pulse: u64,
}

/// For how many packets more of one batch nothing is due, as all policies said: asking each of them for each
/// packet would cost more than sealing it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct QuietBudget {
    since: Option<Moment>,
    left: u64,
    /// What the round of questions under way has found so far.
    found: u64,
}

/// What the data of a channel was told to join.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuietAnswer {
    pub(super) now: Time,
    pub(super) channel: Channel,
    pub(super) carried: Carried,
    /// Bytes of a packet that a symbol may have.
    pub(super) packet: usize,
    /// The lane, and the bytes of a symbol at most; `None`: it goes unprotected.
    pub(crate) joined: Option<(usize, usize)>,
}

impl QuietBudget {
    #[inline]
    pub(super) fn left(&self, moment: Moment) -> u64 {
        if self.since == Some(moment) { self.left } else { 0 }
    }

    /// A round of questions begins.
    pub(super) fn ask(&mut self) {
        *self = Self { since: None, left: 0, found: u64::MAX };
    }

    /// A channel has nothing to say for so many packets. It may be one that a round left out, since it waited
    /// for its turn.
    pub(super) fn limit(&mut self, quiet: u64) {
        self.found = self.found.min(quiet);
        self.left = self.left.min(quiet);
    }

    /// All were asked, and nothing is due.
    pub(super) fn begin(&mut self, moment: Moment) {
        *self = Self { since: Some(moment), left: self.found, found: 0 };
    }

    /// Packets with data were written.
    #[inline]
    pub(super) fn pass(&mut self, n: u64) {
        self.left = self.left.saturating_sub(n);
    }
}

impl ProtectSending {
    /// What [`join`](Self::join) would say, if that is known without asking the channel's policy.
    #[inline]
    pub(crate) fn known(
        &self,
        channel: Channel,
        carried: Carried,
        moment: Moment,
        packet: usize,
    ) -> Option<QuietAnswer> {
        let answer = self.answer.as_ref()?;
        let same = answer.channel == channel && answer.carried == carried && answer.now == moment.now;
        let stands = answer.joined.is_none() || (answer.packet == packet && self.quiet(moment) > 0);
        (same && stands).then_some(*answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOMENT: Moment = Moment { now: Time::ZERO, pulse: 7 };

    #[test]
    fn nothing_is_asked_for_as_long_as_all_said() {
        let mut quiet = QuietBudget::default();
        assert_eq!(quiet.left(MOMENT), 0, "nobody was asked");
        quiet.ask();
        quiet.limit(9);
        quiet.limit(5);
        assert_eq!(quiet.left(MOMENT), 0, "the round is under way");
        quiet.begin(MOMENT);
        assert_eq!(quiet.left(MOMENT), 5);
        quiet.pass(2);
        assert_eq!(quiet.left(MOMENT), 3);
        // Another demand, another time: whoever was asked may say something else.
        assert_eq!(quiet.left(Moment { pulse: 8, ..MOMENT }), 0);
        assert_eq!(quiet.left(Moment { now: Time::from_millis(1), ..MOMENT }), 0);
        quiet.pass(4);
        assert_eq!(quiet.left(MOMENT), 0);
    }

    /// A channel that waited for its turn is left out by a round, and asked when its turn comes: from then on
    /// its word counts as well.
    #[test]
    fn who_is_asked_behind_a_round_shortens_what_it_found() {
        let mut quiet = QuietBudget::default();
        quiet.ask();
        quiet.limit(9);
        quiet.begin(MOMENT);
        quiet.limit(4);
        assert_eq!(quiet.left(MOMENT), 4);
        quiet.limit(6);
        assert_eq!(quiet.left(MOMENT), 4, "the least of all");
        quiet.limit(0);
        assert_eq!(quiet.left(MOMENT), 0);
    }
}
