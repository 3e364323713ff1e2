/// The fixed bit of the packets to come (RFC 9287 §3.1), for a peer that takes it as it comes: 64 of them
/// from one draw.
#[derive(Debug, Default)]
pub(crate) struct Grease {
    /// None: the bit is always 1, since the peer has not said that it may be anything else.
    left: Option<u8>,
    bits: u64,
}

impl Grease {
    /// The peer takes both.
    pub(crate) fn begin(&mut self) {
        self.left = Some(0);
    }

    /// The next bit is 0, or 1, and those behind it are 1.
    #[cfg(test)]
    pub(crate) fn fixed(clears: bool) -> Self {
        Self { left: Some(64), bits: u64::from(clears) }
    }

    /// Whether the next packet has a fixed bit of 0; `draw` gives 64 random bits.
    #[inline]
    pub(crate) fn clears(&mut self, draw: impl FnOnce() -> u64) -> bool {
        let Some(left) = &mut self.left else { return false };
        if *left == 0 {
            (*left, self.bits) = (64, draw());
        }
        *left -= 1;
        let clears = self.bits & 1 != 0;
        self.bits >>= 1;
        clears
    }
}

#[cfg(test)]
mod tests {
    use quickset_base::Rng;

    use super::*;

    #[test]
    fn off_until_it_is_allowed_and_then_a_coin() {
        let draw = |seed, begun| {
            let (mut grease, mut rng) = (Grease::default(), Rng::new(seed));
            if begun {
                grease.begin();
            }
            (0..10_000).map(|_| grease.clears(|| rng.next())).collect::<Vec<_>>()
        };
        assert!(!draw(1, false).contains(&true));
        let (a, b) = (draw(1, true), draw(2, true));
        // Five standard deviations of 10,000 throws.
        let heads = a.iter().filter(|bit| **bit).count();
        assert!((4750..=5250).contains(&heads), "{heads}");
        // Neither the bit before nor the one 64 before says anything.
        for apart in [1, 64] {
            let same = a.iter().zip(&a[apart..]).filter(|(x, y)| x == y).count();
            assert!((4700..=5250).contains(&same), "{apart}: {same}");
        }
        assert_ne!(a, b);
    }
}
