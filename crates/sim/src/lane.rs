use quickset_base::Rng;
use quickset_base::number::Unsigned as _;

/// `K` random numbers for each packet ordinal, from a stream of its own.
///
/// What packet n gets depends on the stream and n alone: ordinals nobody asked for are drawn and
/// dropped, so switching a model on in the middle of a run gives what it would have given from the start.
#[derive(Clone, Debug)]
pub(crate) struct RandomLane<const K: usize> {
    rng: Rng,
    next: u64,
}

impl<const K: usize> RandomLane<K> {
    pub(crate) fn new(rng: Rng) -> Self {
        Self { rng, next: 0 }
    }

    /// The ordinal that [`step`](Self::step) gives next.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// The numbers of the next ordinal.
    pub(crate) fn step(&mut self) -> [u64; K] {
        self.next += 1;
        core::array::from_fn(|_| self.rng.next())
    }

    /// The numbers of ordinal `n`, which must rise from call to call.
    pub(crate) fn at(&mut self, n: u64) -> [u64; K] {
        debug_assert!(n >= self.next, "ordinal {n} comes after {}", self.next);
        while self.next < n {
            self.step();
        }
        self.step()
    }
}

/// True with probability `p`, given 64 random bits: raising `p` adds hits and takes none away.
pub(crate) fn hit(bits: u64, p: f64) -> bool {
    (bits >> 11).approx() * (f64::EPSILON / 2.0) < p
}

/// `bits` spread evenly over 0..`n`; 0 for `n` = 0. The bias, n / 2^64, shows in no simulation.
pub(crate) fn below(bits: u64, n: u64) -> u64 {
    ((u128::from(bits) * u128::from(n)) >> 64) as u64
}

/// Random numbers without end that follow from `bits` (SplitMix64 of Steele, Lea and Flood, 2014), for a
/// draw that takes no fixed number of them.
pub(crate) fn stream(bits: u64) -> impl FnMut() -> u64 {
    let mut state = bits;
    move || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}
