use quickset_base::number::Unsigned as _;
use thiserror::Error;

/// The bitrates a stream is there in, in bit/s, from the lowest up. A *quality* is the place of one of them,
/// counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder(Vec<u64>);

/// Why some numbers are no [`Ladder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum LadderError {
    /// There is none.
    #[error("a ladder needs a bitrate")]
    Empty,
    /// More than [`Ladder::MAX`].
    #[error("a ladder has at most {max} bitrates, and not {0}", max = Ladder::MAX)]
    TooLong(usize),
    /// No stream has a bitrate of 0; the place of this one.
    #[error("bitrate {0} of the ladder is zero")]
    Zero(usize),
    /// The bitrate at this place is not above the one before it.
    #[error(
        "bitrate {0} of the ladder is not above the one before: sort them, and keep one of those that are equal"
    )]
    NotAscending(usize),
}

impl Ladder {
    /// As many bitrates a ladder has at most: LoL+ takes time in proportion to the cube of it.
    pub const MAX: usize = 256;

    /// A ladder of these bitrates in bit/s, which ascend.
    pub fn new(bitrates: impl Into<Vec<u64>>) -> Result<Self, LadderError> {
        let bitrates = bitrates.into();
        match bitrates.len() {
            0 => return Err(LadderError::Empty),
            1..=Self::MAX => {}
            many => return Err(LadderError::TooLong(many)),
        }
        if let Some(place) = bitrates.iter().position(|&b| b == 0) {
            return Err(LadderError::Zero(place));
        }
        if let Some(place) = bitrates.windows(2).position(|pair| pair[0] >= pair[1]) {
            return Err(LadderError::NotAscending(place + 1));
        }
        Ok(Self(bitrates))
    }

    /// The bitrates in bit/s.
    pub fn bitrates(&self) -> &[u64] {
        &self.0
    }

    /// The highest quality.
    pub fn top(&self) -> usize {
        self.0.len() - 1
    }

    /// The bitrate of a quality in bit/s; of the highest one for those beyond.
    pub fn bitrate(&self, quality: usize) -> u64 {
        self.0[quality.min(self.top())]
    }

    /// The highest quality of at most so many kbit/s; the lowest if there is none, as for what is not a
    /// number.
    pub fn within(&self, kbps: f64) -> usize {
        self.0.partition_point(|&b| in_kbps(b) <= kbps).saturating_sub(1)
    }

    /// The bitrate of a quality in kbit/s, in which estimates of throughput are.
    pub(crate) fn kbps(&self, quality: usize) -> f64 {
        in_kbps(self.bitrate(quality))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

fn in_kbps(bitrate: u64) -> f64 {
    bitrate.approx() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_ladder_is_said() {
        assert_eq!(Ladder::new([]), Err(LadderError::Empty));
        assert_eq!(Ladder::new([1, 0, 2]), Err(LadderError::Zero(1)));
        assert_eq!(Ladder::new([1, 3, 2]), Err(LadderError::NotAscending(2)));
        assert_eq!(Ladder::new([5, 5]), Err(LadderError::NotAscending(1)));
        assert_eq!(Ladder::new((1..=300).collect::<Vec<_>>()), Err(LadderError::TooLong(300)));
    }

    #[test]
    fn the_highest_within_a_throughput() {
        let ladder = Ladder::new([1_000_000, 5_000_000, 10_000_000]).expect("it ascends");
        let chosen = [f64::NAN, -1.0, 0.0, 999.9, 1000.0, 4999.9, 5000.0, 9e9, f64::INFINITY]
            .map(|kbps| ladder.within(kbps));
        assert_eq!(chosen, [0, 0, 0, 0, 0, 0, 1, 2, 2]);
    }
}
