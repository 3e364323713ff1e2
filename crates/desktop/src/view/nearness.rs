use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// Whether a viewer takes bytes as fast as one does that is on this machine.
///
/// What connects from this machine may be the end of a tunnel; and viewers ask for compression that nobody
/// has told them to ask for: TigerVNC's always asks for level 2. So it is seen from how soon they answer the
/// fences behind large updates.
#[derive(Debug, Default)]
pub(super) struct ViewerNearness {
    /// Those that are not answered.
    under_way: VecDeque<WrittenUpdate>,
    /// Large updates in a row that took long.
    slow: u8,
}

#[derive(Debug)]
struct WrittenUpdate {
    at: Instant,
    bytes: usize,
    /// With those that were under way before it.
    with_others: usize,
}

impl ViewerNearness {
    /// It takes them fast, by all that is known.
    pub(super) fn is_near(&self) -> bool {
        self.slow < SLOW
    }

    /// An update of so many bytes goes out, with a fence behind it.
    pub(super) fn written(&mut self, now: Instant, bytes: usize) {
        let others: usize = self.under_way.iter().map(|update| update.bytes).sum();
        self.under_way.push_back(WrittenUpdate { at: now, bytes, with_others: others + bytes });
    }

    /// The fence of the first of these was answered.
    pub(super) fn answered(&mut self, now: Instant) {
        let Some(update) = self.under_way.pop_front().filter(|update| update.with_others >= LARGE) else {
            return;
        };
        let is_slow = now - update.at > Duration::from_nanos(update.with_others as u64 * NANOSECONDS);
        // Who was far away may be no nearer when less is sent: that is not tried again.
        self.slow = match self.slow {
            SLOW => SLOW,
            slow if is_slow => slow + 1,
            _ => 0,
        };
    }
}

/// Of less bytes, the time that it takes to draw them says more than their way.
const LARGE: usize = 256 << 10;
/// What a byte may take: 20 ns are 50 MB/s, four times what a network of 100 Mbit/s carries.
const NANOSECONDS: u64 = 20;
/// One update may be late because the machine does other things.
const SLOW: u8 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    const MB: usize = 1_000_000;

    /// Updates of so many bytes, each answered after some milliseconds, at the end of which it is near.
    fn is_near(updates: &[(usize, u64)]) -> bool {
        let (mut nearness, mut now) = (ViewerNearness::default(), Instant::now());
        for &(bytes, ms) in updates {
            nearness.written(now, bytes);
            now += Duration::from_millis(ms);
            nearness.answered(now);
        }
        nearness.is_near()
    }

    #[test]
    fn who_takes_a_picture_at_the_rate_of_a_network_is_far() {
        assert!(is_near(&[]));
        assert!(is_near(&[(4 * MB, 10); 5]));
        // 4 MB at 100 Mbit/s.
        assert!(!is_near(&[(4 * MB, 320); 2]));
        assert!(!is_near(&[(4 * MB, 320), (4 * MB, 320), (4 * MB, 10), (4 * MB, 10)]));
        assert!(is_near(&[(4 * MB, 320), (4 * MB, 10), (4 * MB, 320)]), "it was busy now and then");
        assert!(is_near(&[(1000, 100); 9]), "that is as long as it takes to draw");
    }

    #[test]
    fn two_under_way_take_as_long_as_both() {
        let (mut nearness, start) = (ViewerNearness::default(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        for _ in 0..3 {
            nearness.written(at(0), MB);
            nearness.written(at(0), MB);
            nearness.answered(at(15));
            nearness.answered(at(35));
        }
        assert!(nearness.is_near());
        // Fences that nobody has sent.
        nearness.answered(at(900));
        assert!(nearness.is_near());
    }
}
