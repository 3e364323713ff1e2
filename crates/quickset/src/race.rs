use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

/// Attempts to reach a host that has several addresses, beside each other (RFC 8305).
///
/// Where an address is silent the next one is tried, too, and whatever is there first is taken: else a host
/// of which one address leads nowhere would look as if it were down. With the race all attempts end that are
/// under way.
///
/// ```
/// use quickset::{ClientConfig, ConnectError, Connection, Endpoint, Race};
///
/// # async fn example(client: Endpoint, config: ClientConfig) -> Result<Connection, Box<dyn std::error::Error>> {
/// let addresses: Vec<_> = tokio::net::lookup_host("www.example.net:443").await?.collect();
/// let race = Race::new(&addresses, |address| client.connect(address, "www.example.net", &config));
/// // Who answered tells more than who is silent.
/// let telling = |error: &ConnectError| u8::from(!error.to_string().contains("does not answer"));
/// match race.first(telling).await {
///     Ok(connection) => Ok(connection),
///     Err(Some(error)) => Err(error.into()),
///     Err(None) => Err("it has no address".into()),
/// }
/// # }
/// ```
pub struct Race<A, T> {
    /// Those that were not tried, in turn.
    addresses: std::vec::IntoIter<SocketAddr>,
    attempt: A,
    attempts: JoinSet<(SocketAddr, T)>,
}

impl<A, F, T> Race<A, T>
where
    A: FnMut(SocketAddr) -> F,
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    /// A race to these, in the order of whoever knows which is best, but that the families take turns.
    pub fn new(addresses: &[SocketAddr], attempt: A) -> Self {
        Self { addresses: in_turns(addresses).into_iter(), attempt, attempts: JoinSet::new() }
    }

    /// How the next attempt ended, and where; `None` when all have. Each call begins one more, and others
    /// while nothing comes.
    pub async fn next(&mut self) -> Option<(SocketAddr, T)> {
        loop {
            let next = self.addresses.next();
            if let Some(address) = next {
                let attempt = (self.attempt)(address);
                self.attempts.spawn(async move { (address, attempt.await) });
            }
            let patience = if self.addresses.len() == 0 { Duration::MAX } else { ATTEMPT_DELAY };
            match timeout(patience, self.attempts.join_next()).await {
                Ok(Some(Ok(ended))) => return Some(ended),
                Ok(None) if next.is_none() => return None,
                // All that were begun have failed, or are silent.
                Ok(None | Some(Err(_))) | Err(_) => {}
            }
        }
    }
}

impl<A, F, T, E> Race<A, Result<T, E>>
where
    A: FnMut(SocketAddr) -> F,
    F: Future<Output = Result<T, E>> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    /// What the first attempt has that succeeds.
    ///
    /// # Errors
    /// When none does: of the errors that which tells most, by this measure, and of several such the last.
    /// None without addresses.
    pub async fn first(mut self, telling: impl Fn(&E) -> u8) -> Result<T, Option<E>> {
        let mut failed: Option<E> = None;
        while let Some((_, ended)) = self.next().await {
            match ended {
                Ok(there) => return Ok(there),
                Err(error) if failed.as_ref().is_some_and(|before| telling(before) > telling(&error)) => {}
                Err(error) => failed = Some(error),
            }
        }
        Err(failed)
    }
}

impl<A, T> fmt::Debug for Race<A, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Race").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

/// RFC 8305 §4: the families in turns, beginning with that of the first, so that one which leads nowhere
/// costs one delay.
fn in_turns(addresses: &[SocketAddr]) -> Vec<SocketAddr> {
    let Some(first) = addresses.first() else { return Vec::new() };
    let (ones, others): (Vec<_>, Vec<_>) = addresses.iter().partition(|a| a.is_ipv6() == first.is_ipv6());
    let turns = ones.len().max(others.len());
    (0..turns).flat_map(|n| [ones.get(n), others.get(n)]).flatten().copied().collect()
}

/// RFC 8305 §5, §8: how long an attempt is waited for before the next one begins.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use tokio::time::{Instant, sleep};

    use super::*;

    fn four(n: u8) -> SocketAddr {
        ([192, 0, 2, n], 443).into()
    }

    fn six(n: u16) -> SocketAddr {
        ([0x2001, 0xdb8, 0, 0, 0, 0, 0, n], 443).into()
    }

    /// RFC 8305 §4, with one address of the first family at a time.
    #[test]
    fn families_take_turns() {
        let all = [six(1), six(2), six(3), four(1), four(2)];
        assert_eq!(in_turns(&all), [six(1), four(1), six(2), four(2), six(3)]);
        assert_eq!(in_turns(&[four(1), six(1), six(2)]), [four(1), six(1), six(2)]);
        assert_eq!(in_turns(&[four(2), four(1)]), [four(2), four(1)]);
        assert_eq!(in_turns(&[]), []);
    }

    /// What an attempt does, by the last number of its address: after so many milliseconds it is there, or
    /// fails.
    async fn attempt(address: SocketAddr, times: [(u64, bool); 4]) -> Result<SocketAddr, u64> {
        let SocketAddr::V4(v4) = address else { return Err(0) };
        let (ms, is_there) = times[usize::from(v4.ip().octets()[3])];
        sleep(Duration::from_millis(ms)).await;
        if is_there { Ok(address) } else { Err(ms) }
    }

    /// RFC 8305 §5: the next begins 250 ms after the one before, or when that has failed, and the first that
    /// is there is taken.
    #[tokio::test(start_paused = true)]
    async fn attempts_begin_in_turn_and_the_first_is_taken() {
        const NEVER: u64 = 1 << 40;
        for (times, begun, there, after) in [
            ([(10, true), (0, true), (0, true), (0, true)], &[0][..], 0, 10),
            ([(249, true), (0, true), (0, true), (0, true)], &[0], 0, 249),
            ([(NEVER, true), (10, true), (0, true), (0, true)], &[0, 250], 1, 260),
            ([(NEVER, true), (NEVER, true), (NEVER, true), (10, true)], &[0, 250, 500, 750], 3, 760),
            ([(300, true), (NEVER, true), (0, true), (0, true)], &[0, 250], 0, 300),
            // What fails has the next begin at once.
            ([(10, false), (20, false), (30, true), (0, true)], &[0, 10, 30], 2, 60),
            ([(NEVER, true), (10, false), (10, true), (0, true)], &[0, 250, 260], 2, 270),
        ] {
            let (begins, began) = (RefCell::new(Vec::new()), Instant::now());
            let race = Race::new(&[0, 1, 2, 3].map(four), |address| {
                begins.borrow_mut().push(began.elapsed().as_millis());
                attempt(address, times)
            });
            assert_eq!(race.first(|_| 0).await, Ok(four(there)), "{times:?}");
            assert_eq!((began.elapsed().as_millis(), &begins.borrow()[..]), (after, begun), "{times:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn when_all_fail_the_one_that_tells_most_is_told() {
        let times = [(10, false), (700, false), (30, false), (20, false)];
        let race = |n: usize| Race::new(&[0, 1, 2, 3].map(four)[..n], move |a| attempt(a, times));
        assert_eq!(race(4).first(|_| 0).await, Err(Some(700)), "the last");
        assert_eq!(race(4).first(|ms| u8::from(*ms == 30)).await, Err(Some(30)));
        assert_eq!(race(0).first(|_| 0).await, Err(None));
    }
}
