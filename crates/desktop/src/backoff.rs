use std::time::Duration;

/// Waits that double, up to a limit, each a little shorter by chance, so that those who lost the same peer at
/// the same time do not come back all at once.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// How long to wait this time.
    pub(crate) fn next(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        let mut byte = [0];
        // Without entropy all come back at once; there are worse things.
        let _ = aws_lc_rs::rand::fill(&mut byte);
        wait.saturating_sub(wait * u32::from(byte[0]) / 1024)
    }

    /// It worked for so long. What ends sooner than the longest wait was no success: a peer that lets us in
    /// and hangs up at once, as one does that has no place left, is not to be asked four times a second for
    /// ever.
    pub(crate) fn worked(&mut self, lasted: Duration) {
        if lasted >= self.longest {
            self.next = self.first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_begin_anew() {
        let (first, longest) = (Duration::from_millis(100), Duration::from_millis(500));
        let mut backoff = Backoff::new(first, longest);
        for whole in [100, 200, 400, 500, 500] {
            let (wait, whole) = (backoff.next(), Duration::from_millis(whole));
            assert!(wait <= whole && wait >= whole * 3 / 4, "{wait:?} of {whole:?}");
        }
        backoff.worked(Duration::from_millis(499));
        assert!(backoff.next() > longest / 2, "it was no success");
        backoff.worked(longest);
        assert!(backoff.next() <= first);
    }
}
