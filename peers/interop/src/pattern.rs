//! Endless streams of bytes that never repeat, and their check.

use anyhow::{Result, bail};
use bytes::{Buf as _, Bytes};
use quickset_base::Rng;

/// A stream of pseudorandom bytes: the same for the same seed, however it is cut.
pub(crate) struct StreamPattern {
    rng: Rng,
    block: Bytes,
    taken: u64,
}

impl StreamPattern {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::new(seed), block: Bytes::new(), taken: 0 }
    }

    /// The next bytes, at most `max` of them and at least one.
    pub(crate) fn next(&mut self, max: usize) -> Bytes {
        if self.block.is_empty() {
            let mut block = vec![0; BLOCK];
            self.rng.fill(&mut block);
            self.block = block.into();
        }
        let next = self.block.split_to(max.clamp(1, self.block.len()));
        self.taken += next.len() as u64;
        next
    }

    /// The first `len` bytes of the stream.
    pub(crate) fn take(mut self, len: usize) -> Vec<u8> {
        let mut all = Vec::with_capacity(len);
        while all.len() < len {
            all.extend_from_slice(&self.next(len - all.len()));
        }
        all
    }

    /// Fails unless `received` are the next bytes.
    pub(crate) fn check(&mut self, mut received: &[u8]) -> Result<()> {
        while received.has_remaining() {
            let at = self.taken;
            let expected = self.next(received.len());
            if expected != received[..expected.len()] {
                bail!("the bytes from {at} on are not those that were sent");
            }
            received.advance(expected.len());
        }
        Ok(())
    }

    /// How far the stream was taken or checked.
    pub(crate) fn position(&self) -> u64 {
        self.taken
    }
}

const BLOCK: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_does_not_matter_how_a_stream_is_cut() {
        let whole = StreamPattern::new(3).take(200_000);
        let mut check = StreamPattern::new(3);
        whole.chunks(777).for_each(|chunk| check.check(chunk).unwrap());
        assert_eq!(check.position(), 200_000);
        assert_ne!(whole[..BLOCK], whole[BLOCK..2 * BLOCK]);
    }

    #[test]
    fn a_wrong_byte_is_found() {
        let mut wrong = StreamPattern::new(3).take(100_000);
        wrong[70_000] ^= 1;
        assert!(StreamPattern::new(3).check(&wrong).is_err());
        assert!(StreamPattern::new(4).check(&wrong[..100]).is_err());
    }
}
