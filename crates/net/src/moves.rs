use std::collections::VecDeque;

use quickset_base::AddressPair;

/// A move to another path, or the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Move {
    /// This is the connection's path now.
    Done(AddressPair),
    /// This path, which we tried, does not carry packets both ways: the connection stays where it is.
    Failed(AddressPair),
}

/// The last moves of a connection.
#[derive(Debug, Default)]
pub(crate) struct MoveLog {
    /// Of all that there were.
    count: u64,
    last: VecDeque<Move>,
}

impl MoveLog {
    /// How many there were.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    pub(crate) fn push(&mut self, one: Move) {
        self.count += 1;
        self.last.push_back(one);
        if self.last.len() > MOVES {
            self.last.pop_front();
        }
    }

    /// The one behind the first `seen`, or behind those that are forgotten.
    pub(crate) fn after(&self, seen: &mut u64) -> Option<Move> {
        let forgotten = self.count - self.last.len() as u64;
        let at = seen.saturating_sub(forgotten);
        let next = *self.last.get(usize::try_from(at).ok()?)?;
        *seen = forgotten + at + 1;
        Some(next)
    }
}

/// Moves that are remembered.
const MOVES: usize = 8;

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn each_move_is_told_once_and_the_oldest_are_forgotten() {
        let to = |port: u16| Move::Done(AddressPair::to(SocketAddr::from(([10, 0, 0, 1], port))));
        let mut log = MoveLog::default();
        let (mut early, mut late) = (0, 0);
        assert_eq!(log.after(&mut early), None);
        for port in 1..=3 {
            log.push(to(port));
        }
        assert_eq!([1, 2, 3].map(|_| log.after(&mut early)), [Some(to(1)), Some(to(2)), Some(to(3))]);
        assert_eq!(log.after(&mut early), None);
        for port in 4..=11 {
            log.push(to(port));
        }
        // Eleven in all, eight of them known.
        let told: Vec<_> = std::iter::from_fn(|| log.after(&mut late)).collect();
        assert_eq!(told, (4..=11).map(to).collect::<Vec<_>>());
        assert_eq!(log.after(&mut early), Some(to(4)));
    }
}
