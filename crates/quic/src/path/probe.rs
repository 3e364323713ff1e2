use std::collections::VecDeque;

use quickset_base::{Duration, Time};

/// Challenges both ways on one path: the peer's, which are answered, few of them (RFC 9000 §21.9), and our
/// own (RFC 9000 §8.2).
///
/// Of a flood of challenges a few are answered in each round trip and the rest forgotten: the peer repeats
/// what it wants to know. Our own challenges are repeated with doubled waits, each with data of its own.
#[derive(Debug, Default)]
pub(crate) struct PathProbe {
    answers: VecDeque<[u8; 8]>,
    /// The next answer leaves no earlier.
    answer_at: Time,
    check: Option<Box<PathCheck>>,
}

/// A validation of ours that is under way.
#[derive(Debug)]
struct PathCheck {
    challenges: Vec<SentChallenge>,
    next: Time,
    wait: Duration,
    until: Time,
}

#[derive(Clone, Copy, Debug)]
struct SentChallenge {
    data: [u8; 8],
    sent: Time,
    full: bool,
}

/// What a PATH_RESPONSE proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Proven {
    /// When the challenge left.
    pub(crate) sent: Time,
    /// Whether it filled 1200 bytes, so that the path takes QUIC at all.
    pub(crate) full: bool,
}

/// How long a validation waits: for an answer before it asks again at first, and in all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProbePatience {
    pub(crate) wait: Duration,
    pub(crate) all: Duration,
}

impl PathProbe {
    /// PATH_CHALLENGE: the oldest unanswered is forgotten under a flood.
    pub(crate) fn on_challenge(&mut self, data: [u8; 8]) {
        if self.answers.len() == MAX_ANSWERS {
            self.answers.pop_front();
        }
        self.answers.push_back(data);
    }

    /// The next answer that is due.
    pub(crate) fn answer(&self, now: Time) -> Option<[u8; 8]> {
        self.answers.front().copied().filter(|_| self.answer_at <= now)
    }

    /// It was written, once (RFC 9000 §13.3).
    pub(crate) fn answer_written(&mut self) {
        self.answers.pop_front();
    }

    /// A datagram with answers left: the next one has to wait. Each of them has 1200 bytes, outside of
    /// congestion control, whatever the challenge had.
    pub(crate) fn on_answered(&mut self, now: Time, srtt: Duration) {
        self.answer_at = now + (srtt / ANSWERS_PER_TRIP).max(MIN_GAP);
    }

    /// Begins to challenge, at once. What was under way is over.
    pub(crate) fn begin(&mut self, now: Time, patience: ProbePatience) {
        let ProbePatience { wait, all } = patience;
        self.check = Some(Box::new(PathCheck { challenges: Vec::new(), next: now, wait, until: now + all }));
    }

    /// Whether a challenge of ours waits for its answer, or to be sent.
    pub(crate) fn is_under_way(&self) -> bool {
        self.check.is_some()
    }

    /// Whether a challenge is to be sent now.
    pub(crate) fn wants_challenge(&self, now: Time) -> bool {
        self.check.as_ref().is_some_and(|check| check.next <= now)
    }

    /// A challenge left, in a datagram of 1200 bytes if `full`.
    pub(crate) fn on_challenged(&mut self, data: [u8; 8], now: Time, full: bool) {
        let Some(check) = &mut self.check else { return };
        check.challenges.push(SentChallenge { data, sent: now, full });
        check.next = if check.challenges.len() < MAX_CHALLENGES { now + check.wait } else { Time::MAX };
        check.wait *= 2;
    }

    /// PATH_RESPONSE: what it proves, if it answers one of ours. The validation is over then.
    pub(crate) fn on_response(&mut self, data: [u8; 8]) -> Option<Proven> {
        let challenges = &self.check.as_ref()?.challenges;
        let found = challenges.iter().find(|challenge| challenge.data == data)?;
        let proven = Proven { sent: found.sent, full: found.full };
        self.check = None;
        Some(proven)
    }

    /// Whether nothing came in time (RFC 9000 §8.2.4).
    pub(crate) fn has_failed(&self, now: Time) -> bool {
        self.check.as_ref().is_some_and(|check| check.until <= now)
    }

    /// Challenges no more.
    pub(crate) fn end(&mut self) {
        self.check = None;
    }

    /// When there is something to send, or to give up. `may_send`: the address may be sent a datagram.
    pub(crate) fn due(&self, may_send: bool) -> Option<Time> {
        let answer = (may_send && !self.answers.is_empty()).then_some(self.answer_at);
        let challenge = self.check.as_ref().filter(|_| may_send).map(|check| check.next);
        let until = self.check.as_ref().map(|check| check.until);
        [answer, challenge, until].into_iter().flatten().min()
    }

    pub(crate) fn check(&self) {
        debug_assert!(self.answers.len() <= MAX_ANSWERS);
        debug_assert!(self.check.as_ref().is_none_or(|check| check.challenges.len() <= MAX_CHALLENGES));
    }
}

/// Challenges kept for an answer; all of them fit one datagram.
const MAX_ANSWERS: usize = 4;
/// Datagrams with answers in a round trip, and the least time between two.
const ANSWERS_PER_TRIP: u32 = 8;
const MIN_GAP: Duration = Duration::from_millis(1);
/// Challenges of one validation.
const MAX_CHALLENGES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// RFC 9000 §8.2.4.
    #[test]
    fn challenges_are_repeated_with_doubled_waits_until_time_is_up() {
        let mut probe = PathProbe::default();
        let ms = Duration::from_millis;
        probe.begin(at(0), ProbePatience { wait: ms(100), all: ms(1000) });
        let mut sent = Vec::new();
        for now in 0..1000 {
            if probe.wants_challenge(at(now)) {
                probe.on_challenged([sent.len() as u8; 8], at(now), true);
                sent.push(now);
            }
            assert!(!probe.has_failed(at(now)));
        }
        assert_eq!(sent, [0, 100, 300, 700], "RFC 9000 §8.2.1: like probe timeouts");
        assert!(probe.has_failed(at(1000)));
    }

    /// RFC 9000 §8.2.3, §19.17, §19.18.
    #[test]
    fn any_challenge_may_be_answered_and_only_ours() {
        let mut probe = PathProbe::default();
        let ms = Duration::from_millis;
        probe.begin(at(0), ProbePatience { wait: ms(100), all: ms(1000) });
        probe.on_challenged([1; 8], at(0), false);
        probe.on_challenged([2; 8], at(100), true);
        assert_eq!(probe.on_response([3; 8]), None);
        assert_eq!(probe.on_response([1; 8]), Some(Proven { sent: at(0), full: false }));
        assert_eq!(probe.on_response([2; 8]), None, "it is over");
        assert_eq!(probe.due(true), None);
    }

    #[test]
    fn answers_are_few_and_far_between() {
        let mut probe = PathProbe::default();
        let mut written = 0;
        for now in 0..80 {
            for n in 0..100 {
                probe.on_challenge([n; 8]);
            }
            let mut any = false;
            while probe.answer(at(now)).is_some() {
                probe.answer_written();
                (any, written) = (true, written + 1);
            }
            if any {
                probe.on_answered(at(now), Duration::from_millis(80));
            }
            probe.check();
        }
        assert_eq!(written, 8 * 4, "eight datagrams in a round trip of 80 ms, with four answers each");
    }
}
