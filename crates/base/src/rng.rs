use alloc::boxed::Box;
use core::fmt;

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

use crate::number::Unsigned as _;

/// What an [`Rng`] starts from: entropy in production, a number in tests and simulations.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub [u8; 32]);

impl From<u64> for Seed {
    fn from(n: u64) -> Self {
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&n.to_le_bytes());
        Self(bytes)
    }
}

/// Secret: connection ids and path challenges follow from it.
impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// Seeded randomness (ChaCha with 12 rounds): equal seeds give equal draws on every machine, and from
/// a secret seed the draws cannot be guessed, as connection ids and path challenges need.
#[derive(Clone)]
pub struct Rng(ChaCha12Rng);

impl Rng {
    /// A generator that starts from `seed`.
    pub fn new(seed: impl Into<Seed>) -> Self {
        Self(ChaCha12Rng::from_seed(seed.into().0))
    }

    /// An independent generator, so that what one part draws does not shift what another draws.
    #[must_use]
    pub fn fork(&mut self) -> Self {
        let mut seed = [0; 32];
        self.fill(&mut seed);
        Self::new(Seed(seed))
    }

    /// 64 random bits.
    #[expect(clippy::should_implement_trait, reason = "an iterator could end")]
    pub fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `n`, without bias; 0 for `n` = 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 {
            return 0;
        }
        // Numbers above the last whole multiple of n would favour small results.
        let limit = u64::MAX - u64::MAX % n;
        loop {
            let x = self.next();
            if x < limit {
                return x % n;
            }
        }
    }

    /// A number in [0, 1), a multiple of 2^-53.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11).approx() * (f64::EPSILON / 2.0)
    }

    /// True with probability `p`; always draws once.
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Fills `out` with random bytes.
    pub fn fill(&mut self, out: &mut [u8]) {
        self.0.fill_bytes(out);
    }
}

/// A generator that is seldom drawn from, and that takes 48 bytes of memory between whiles instead of 320: it
/// [sleeps](Self::sleep) then, and goes on where it was.
#[derive(Clone, Debug)]
pub struct SleepyRng(Wakefulness);

#[derive(Clone)]
enum Wakefulness {
    Awake(Box<Rng>),
    Asleep {
        seed: [u8; 32],
        /// 32-bit words that were drawn.
        drawn: u64,
    },
}

impl SleepyRng {
    /// The generator, awake.
    pub fn awake(&mut self) -> &mut Rng {
        if let Wakefulness::Asleep { seed, drawn } = self.0 {
            let mut rng = ChaCha12Rng::from_seed(seed);
            rng.set_word_pos(drawn.into());
            self.0 = Wakefulness::Awake(Box::new(Rng(rng)));
        }
        match &mut self.0 {
            Wakefulness::Awake(rng) => rng,
            Wakefulness::Asleep { .. } => unreachable!("it was woken"),
        }
    }

    /// Gives back what is only needed to draw.
    pub fn sleep(&mut self) {
        if let Wakefulness::Awake(rng) = &self.0 {
            // Nobody draws 2^64 words.
            if let Ok(drawn) = u64::try_from(rng.0.get_word_pos()) {
                self.0 = Wakefulness::Asleep { seed: rng.0.get_seed(), drawn };
            }
        }
    }
}

impl From<Rng> for SleepyRng {
    fn from(rng: Rng) -> Self {
        Self(Wakefulness::Awake(Box::new(rng)))
    }
}

impl fmt::Debug for Wakefulness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if matches!(self, Self::Awake(_)) { "Awake(..)" } else { "Asleep(..)" })
    }
}

impl fmt::Debug for Rng {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rng(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_draws_and_forks_differ() {
        let (mut a, mut b) = (Rng::new(1), Rng::new(1));
        assert_eq!(a.next(), b.next());
        let mut fork = a.fork();
        assert_ne!(fork.next(), a.next());
        assert_ne!(Rng::new(1).next(), Rng::new(2).next());
    }

    #[test]
    fn draws_are_uniform() {
        let mut rng = Rng::new(3);
        let mut counts = [0u32; 7];
        for _ in 0..70_000 {
            counts[crate::number::index(rng.below(7))] += 1;
        }
        // Standard deviation is 93; five of them.
        assert!(counts.iter().all(|c| c.abs_diff(10_000) < 465), "{counts:?}");
        let heads = (0..100_000).filter(|_| rng.chance(0.3)).count();
        assert!(heads.abs_diff(30_000) < 725, "{heads}");
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn a_generator_that_sleeps_goes_on_where_it_was() {
        let (mut plain, mut sleepy) = (Rng::new(4), SleepyRng::from(Rng::new(4)));
        for n in 0..300 {
            // Draws of one word and of several, across the ends of blocks.
            let [mut a, mut b] = [[0; 23]; 2];
            let len = n % 23;
            plain.fill(&mut a[..len]);
            sleepy.awake().fill(&mut b[..len]);
            assert_eq!((plain.next(), a), (sleepy.awake().next(), b), "{n}");
            if n % 3 != 0 {
                sleepy.sleep();
                sleepy.sleep();
            }
        }
        assert!(size_of::<SleepyRng>() <= 48);
    }

    #[test]
    fn secrets_are_not_printed() {
        assert_eq!(format!("{:?}", SleepyRng::from(Rng::new(9))), "SleepyRng(Awake(..))");
        assert_eq!(format!("{:?} {:?}", Rng::new(9), Seed::from(9)), "Rng(..) Seed(..)");
    }
}
