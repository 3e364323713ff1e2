use quickset_base::{Rng, SleepyRng};

/// Leaves out a packet number now and then: who acknowledges it has not received what it acknowledges
/// (RFC 9000 §21.4). The first gap comes early, later ones become rare, since each costs the peer a range.
#[derive(Debug)]
pub(crate) struct Numbering {
    rng: SleepyRng,
    skip: u64,
    stride: u64,
}

impl Numbering {
    pub(crate) fn new(mut rng: Rng) -> Self {
        let stride = 128;
        Self { skip: stride / 2 + rng.below(stride), rng: rng.into(), stride }
    }

    /// Randomness for another purpose.
    pub(crate) fn fork(&mut self) -> Rng {
        self.rng.awake().fork()
    }

    /// 64 random bits for another purpose.
    pub(crate) fn bits(&mut self) -> u64 {
        self.rng.awake().next()
    }

    /// Nothing is sent for a while.
    pub(crate) fn rest(&mut self) {
        self.rng.sleep();
    }

    /// Whether [`choose`](Self::choose) would leave out this number.
    #[inline]
    pub(crate) fn leaves_out(&self, next: u64) -> bool {
        next >= self.skip
    }

    /// The number that the packet gets whose turn is `next`.
    #[inline]
    pub(crate) fn choose(&mut self, next: u64) -> u64 {
        if next < self.skip {
            return next;
        }
        self.stride = (2 * self.stride).min(MAX_STRIDE);
        self.skip = next + self.stride / 2 + self.rng.awake().below(self.stride);
        next + 1
    }
}

/// Packets between two gaps at most, on average.
const MAX_STRIDE: u64 = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000 §21.4.
    #[test]
    fn gaps_cannot_be_foretold_and_become_rare() {
        let gaps = |seed| {
            let mut numbering = Numbering::new(Rng::new(seed));
            let (mut next, mut gaps) = (0, Vec::new());
            while next < 1_000_000 {
                let number = numbering.choose(next);
                if number != next {
                    gaps.push(next);
                }
                next = number + 1;
            }
            gaps
        };
        let (a, b) = (gaps(1), gaps(2));
        assert_ne!(a[0], b[0]);
        assert!(a[0] < 192, "an attacker who acknowledges everything is found soon");
        // Ten doublings up to 2^16, then a gap in 65,536 on average: about 10 + 13.
        assert!((15..40).contains(&a.len()), "{a:?}");
    }
}
