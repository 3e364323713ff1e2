use quickset_base::Ecn;

use crate::recovery::Marked;
use crate::stats::EcnState;

/// Validates ECN on one path, and says what is marked (RFC 9000 §13.4.2, §A.4).
///
/// A path that drops what is marked costs one flight: after a probe timeout nothing is marked until an
/// acknowledgement of a marked packet comes. One that begins to do so later, or changes under us, shows by
/// two timeouts in a row; the test is then made once more when something arrives.
#[derive(Debug)]
pub(crate) struct Marking {
    state: EcnState,
    // Datagrams of the test, and packets among what was lost.
    sent: u64,
    lost: u64,
    // Once something arrives, the test begins anew.
    doubts: bool,
    retested: bool,
}

impl Marking {
    /// Of a path of which nothing is known.
    pub(crate) fn new(wanted: bool) -> Self {
        let state = if wanted { EcnState::Testing } else { EcnState::Off };
        Self { state, sent: 0, lost: 0, doubts: false, retested: false }
    }

    pub(crate) fn state(&self) -> EcnState {
        self.state
    }

    /// Whether what leaves now is marked.
    #[inline]
    pub(crate) fn is_marking(&self) -> bool {
        matches!(self.state, EcnState::Capable | EcnState::Testing)
    }

    /// The mark of what leaves now.
    #[inline]
    pub(crate) fn mark(&self) -> Ecn {
        if self.is_marking() { Ecn::Ect0 } else { Ecn::NotEct }
    }

    /// A batch of so many datagrams left.
    #[inline]
    pub(crate) fn on_sent(&mut self, datagrams: usize) {
        if self.state == EcnState::Testing {
            self.sent += datagrams as u64;
            if self.sent >= TESTED {
                self.state = EcnState::Unknown;
            }
        }
    }

    /// So many datagrams did not leave after all.
    pub(crate) fn on_refused(&mut self, datagrams: u64) {
        let was_enough = self.sent >= TESTED;
        self.sent = self.sent.saturating_sub(datagrams);
        if self.state == EcnState::Unknown && was_enough && self.sent < TESTED {
            self.state = EcnState::Testing;
        }
    }

    /// What became of marked packets; `alive`: something that left on this path was acknowledged. Returns the
    /// congestion-experienced marks that count.
    #[inline]
    pub(crate) fn on_settled(&mut self, marked: &Marked, alive: bool) -> u64 {
        if self.state == EcnState::Capable && !marked.wrong {
            return marked.ce;
        }
        self.validate(marked, alive)
    }

    fn validate(&mut self, marked: &Marked, alive: bool) -> u64 {
        if matches!(self.state, EcnState::Off | EcnState::Failed) {
            return 0;
        }
        self.lost += marked.lost;
        if marked.wrong {
            self.state = EcnState::Failed;
            return 0;
        }
        if marked.acked > 0 {
            self.state = EcnState::Capable;
            self.doubts = false;
            return marked.ce;
        }
        // Of the second test some of what is lost may have left before.
        if self.state == EcnState::Unknown && self.sent > 0 && self.lost >= self.sent && !self.retested {
            self.state = EcnState::Failed;
        } else if self.doubts && alive {
            self.doubts = false;
            self.retested = true;
            self.sent = 0;
            self.state = EcnState::Testing;
        }
        0
    }

    /// So many probe timeouts in a row.
    pub(crate) fn on_silence(&mut self, timeouts: u32) {
        match self.state {
            EcnState::Testing if self.sent > 0 => self.state = EcnState::Unknown,
            // One is the end of many a flight.
            EcnState::Capable if timeouts >= 2 => {
                self.state = EcnState::Unknown;
                self.doubts = !self.retested;
                self.sent = 0;
            }
            _ => {}
        }
    }
}

/// RFC 9000 §A.4 has ten packets.
const TESTED: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn acked(acked: u64, ce: u64) -> Marked {
        Marked { acked, ce, ..Marked::default() }
    }

    fn lost(lost: u64) -> Marked {
        Marked { lost, ..Marked::default() }
    }

    /// RFC 9000 §13.4.2.
    #[test]
    fn a_test_is_of_ten_datagrams() {
        let mut marking = Marking::new(true);
        marking.on_sent(9);
        assert_eq!(marking.mark(), Ecn::Ect0);
        marking.on_sent(1);
        assert_eq!((marking.mark(), marking.state()), (Ecn::NotEct, EcnState::Unknown));
        assert_eq!(marking.on_settled(&acked(1, 1), true), 1, "the first mark counts");
        assert_eq!((marking.mark(), marking.state()), (Ecn::Ect0, EcnState::Capable));
    }

    #[test]
    fn the_first_flight_that_is_lost_is_the_last_with_marks() {
        let mut marking = Marking::new(true);
        marking.on_silence(1);
        assert!(marking.is_marking(), "nothing was sent");
        marking.on_sent(3);
        marking.on_silence(1);
        assert!(!marking.is_marking());
        // What was not marked arrives, and shows that the rest is lost.
        assert_eq!(marking.on_settled(&lost(3), true), 0);
        assert_eq!(marking.state(), EcnState::Failed);
        // The timeout came too early: the round trip is long.
        let mut marking = Marking::new(true);
        marking.on_sent(3);
        marking.on_silence(1);
        marking.on_settled(&acked(2, 0), true);
        assert_eq!(marking.state(), EcnState::Capable);
    }

    #[test]
    fn a_path_that_falls_silent_is_tested_once_more() {
        let mut marking = Marking::new(true);
        marking.on_sent(3);
        marking.on_settled(&acked(3, 0), true);
        marking.on_silence(1);
        assert!(marking.is_marking());
        marking.on_silence(2);
        assert!(!marking.is_marking());
        marking.on_settled(&lost(20), true);
        assert_eq!(marking.state(), EcnState::Testing, "what is not marked arrives");
        marking.on_sent(10);
        marking.on_silence(1);
        marking.on_settled(&lost(10), true);
        assert!(!marking.is_marking());
        marking.on_silence(2);
        marking.on_settled(&Marked::default(), true);
        assert!(!marking.is_marking(), "once");
    }

    /// RFC 9000 §13.4.2.
    #[test]
    fn wrong_counts_end_it() {
        for settled in 0..2 {
            let mut marking = Marking::new(true);
            marking.on_sent(3);
            marking.on_settled(&acked(settled, 0), true);
            assert_eq!(marking.on_settled(&Marked { wrong: true, ..acked(3, 3) }, true), 0);
            assert_eq!((marking.mark(), marking.state()), (Ecn::NotEct, EcnState::Failed));
            assert_eq!(marking.on_settled(&acked(3, 3), true), 0);
            assert_eq!(marking.state(), EcnState::Failed);
        }
    }
}
