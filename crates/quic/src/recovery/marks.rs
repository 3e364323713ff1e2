use quickset_wire::frame::EcnCounts;

/// The ECN marks of one packet number space: how many packets left with one, and how many the peer has
/// counted (RFC 9000 §13.4.2.1, RFC 9002 §8.3).
#[derive(Debug, Default)]
pub(crate) struct EcnMarks {
    sent: u64,
    seen: EcnCounts,
}

/// What a batch of acknowledgements, or a loss timer, says of the marks on the path in use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marked {
    /// Marked packets newly acknowledged.
    pub(crate) acked: u64,
    /// Marked packets newly declared lost.
    pub(crate) lost: u64,
    /// Congestion-experienced marks newly reported.
    pub(crate) ce: u64,
    /// The peer's counts cannot be those of a path that leaves marks alone.
    pub(crate) wrong: bool,
}

impl EcnMarks {
    /// A packet left with ECT(0).
    #[inline]
    pub(crate) fn on_sent(&mut self) {
        self.sent += 1;
    }

    /// Packets that left with ECT(0).
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// An acknowledgement that names a larger number than any before came with these counts, and `news.acked`
    /// marked packets are newly acknowledged. (One that was overtaken has older counts, and nothing is learnt
    /// from it.)
    pub(crate) fn on_ack(&mut self, counts: Option<EcnCounts>, news: &mut Marked) {
        let Some(new) = counts else {
            news.wrong |= news.acked > 0;
            return;
        };
        let seen = std::mem::replace(&mut self.seen, new);
        let (Some(ect0), Some(ce)) = (new.ect0.checked_sub(seen.ect0), new.ce.checked_sub(seen.ce)) else {
            // Counts never fall.
            news.wrong = true;
            return;
        };
        let erased = ect0.saturating_add(ce) < news.acked;
        let invented = new.ect1 > 0 || new.ect0.saturating_add(new.ce) > self.sent;
        news.wrong |= erased || invented;
        // Marks on packets of a path that was left, or that passed for lost, are no news of this one.
        news.ce = ce.min(news.acked);
    }
}

impl super::Recovery {
    /// Packets that left with an ECN mark.
    pub(crate) fn marked(&self) -> u64 {
        self.spaces.iter().map(|numbers| numbers.marks.sent()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ect0: u64, ect1: u64, ce: u64) -> EcnCounts {
        EcnCounts { ect0, ect1, ce }
    }

    /// Ten marked packets; acknowledgements of so many of them with these counts. Returns the marks, and
    /// where the counts first were wrong.
    fn run(acks: &[(u64, Option<EcnCounts>)]) -> (u64, Option<usize>) {
        let mut marks = EcnMarks::default();
        (0..10).for_each(|_| marks.on_sent());
        let (mut ce, mut wrong) = (0, None);
        for (at, (acked, counts)) in acks.iter().enumerate() {
            let mut news = Marked { acked: *acked, ..Marked::default() };
            marks.on_ack(*counts, &mut news);
            ce += news.ce;
            wrong = wrong.or(news.wrong.then_some(at));
        }
        (ce, wrong)
    }

    #[test]
    fn marks_that_arrive_as_they_left_are_right() {
        assert_eq!(run(&[(2, Some(counts(2, 0, 0))), (3, Some(counts(4, 0, 1)))]), (1, None));
        // An acknowledgement of packets that were not marked needs no counts.
        assert_eq!(run(&[(0, None), (1, Some(counts(1, 0, 0))), (0, None)]), (0, None));
        // The one between was lost, or overtaken: more was counted than is newly acknowledged here.
        assert_eq!(run(&[(1, Some(counts(1, 0, 0))), (2, Some(counts(5, 0, 3)))]), (2, None));
    }

    /// RFC 9000 §13.4.2.1; RFC 9002 §8.3: forged counts stop the marking, and do nothing else.
    #[test]
    fn marks_that_were_tampered_with_are_wrong() {
        for (what, acks) in [
            ("no counts", vec![(1, None)]),
            ("erased", vec![(3, Some(counts(2, 0, 0)))]),
            (
                "all erased behind some that were not",
                vec![(3, Some(counts(3, 0, 0))), (1, Some(counts(3, 0, 0)))],
            ),
            ("remarked", vec![(1, Some(counts(0, 1, 0)))]),
            ("more than was sent", vec![(1, Some(counts(11, 0, 0)))]),
            ("more marks than was sent", vec![(1, Some(counts(9, 0, 2)))]),
            ("absurd", vec![(1, Some(counts(u64::MAX, 0, u64::MAX)))]),
        ] {
            assert_eq!(run(&acks).1, Some(acks.len() - 1), "{what}");
        }
        assert_eq!(run(&[(3, Some(counts(2, 0, 1))), (1, Some(counts(4, 0, 0)))]).1, Some(1), "CE falls");
        assert_eq!(run(&[(3, Some(counts(3, 0, 0))), (1, Some(counts(2, 0, 2)))]).1, Some(1), "ECT(0) falls");
    }
}
