use bytes::Bytes;
use quickset_base::Rng;
use quickset_base::number::Unsigned as _;

/// The bytes that are transferred: pseudo-random, and again from the start after a prime number of them, so
/// that no packet or buffer that goes astray looks like another.
#[derive(Clone, Debug)]
pub(crate) struct BytePattern(Bytes);

/// Compares received bytes with the pattern.
#[derive(Debug)]
pub(crate) struct PatternCheck {
    pattern: BytePattern,
    received: u64,
}

impl BytePattern {
    pub(crate) fn new() -> Self {
        let mut bytes = vec![0; PERIOD];
        Rng::new(1).fill(&mut bytes);
        Self(bytes.into())
    }

    /// The next bytes at `offset`, at least one and at most `max`, without a copy.
    pub(crate) fn at(&self, offset: u64, max: u64) -> Bytes {
        let start = (offset % PERIOD as u64).saturated::<usize>();
        let len = ((PERIOD - start) as u64).min(max).saturated::<usize>();
        self.0.slice(start..start + len)
    }
}

impl PatternCheck {
    pub(crate) fn new(pattern: BytePattern) -> Self {
        Self { pattern, received: 0 }
    }

    /// Takes the next bytes; false when they are not those of the pattern.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            let expected = self.pattern.at(self.received, bytes.len() as u64);
            let (now, later) = bytes.split_at(expected.len());
            if now != expected {
                return false;
            }
            self.received += now.len() as u64;
            bytes = later;
        }
        true
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }
}

/// A prime, small enough for the caches of a processor.
const PERIOD: usize = 262_139;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_split_is_the_same_pattern_and_damage_is_seen() {
        let pattern = BytePattern::new();
        let (mut sent, mut offset) = (Vec::new(), 0);
        while offset < 600_000 {
            let chunk = pattern.at(offset, 100_000.min(600_000 - offset));
            offset += chunk.len() as u64;
            sent.extend_from_slice(&chunk);
        }
        assert_eq!(sent.len(), 600_000);
        let mut check = PatternCheck::new(pattern.clone());
        assert!(sent.chunks(77_777).all(|chunk| check.take(chunk)));
        assert_eq!(check.received(), 600_000);

        sent[PERIOD + 5] ^= 1;
        let mut check = PatternCheck::new(pattern.clone());
        assert!(!check.take(&sent));
        let mut check = PatternCheck::new(pattern);
        assert!(check.take(&sent[..1000]) && !check.take(&sent[2000..]), "a gap");
    }
}
