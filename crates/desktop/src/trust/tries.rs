use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How often secrets may be tried: per address, and over all.
///
/// A try is counted as wrong when it [begins](Self::begin), so that many at the same time gain nothing; one
/// that was right is [taken back](Self::right). Clients with an authorised key try nothing, and are never
/// held up. Nor is an address where one was right by what others try elsewhere, or whoever guesses without
/// end would keep all out whose connection breaks off.
#[derive(Debug, Default)]
pub struct Tries {
    by_address: BTreeMap<IpAddr, Wrong>,
    /// Wrong tries of all, less one for each [`Tries::OVERALL_EVERY`] that has passed.
    overall: u32,
    since: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Wrong {
    count: u32,
    next: Instant,
    last: Instant,
    /// One was right there, and not many were wrong since.
    trusted: bool,
}

impl Tries {
    /// Wrong tries of an address without waiting.
    pub const FREE: u32 = 3;
    /// The first wait of an address; it doubles with each wrong try.
    pub const FIRST_WAIT: Duration = Duration::from_secs(1);
    /// The longest wait.
    pub const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);
    /// Wrong tries of all addresses at once.
    pub const OVERALL: u32 = 30;
    /// After that one more each so long.
    pub const OVERALL_EVERY: Duration = Duration::from_secs(10);
    /// Addresses that are remembered; of more, the one that was quiet the longest is forgotten.
    pub const ADDRESSES: usize = 4096;

    /// A try from `address` begins.
    ///
    /// # Errors
    /// How long to wait first.
    pub fn begin(&mut self, now: Instant, address: IpAddr) -> Result<(), Duration> {
        self.drain(now);
        let address = whose(address);
        let wrong = self.by_address.get(&address).copied();
        if let Some(wait) = wrong.and_then(|w| w.next.checked_duration_since(now)).filter(|w| !w.is_zero()) {
            return Err(wait);
        }
        let count = wrong.map_or(0, |w| w.count).saturating_add(1);
        let trusted = count <= Self::FREE && wrong.is_some_and(|w| w.trusted);
        if !trusted {
            if self.overall >= Self::OVERALL {
                return Err(Self::OVERALL_EVERY);
            }
            self.overall += 1;
        }
        let next = now + wait_after(count);
        self.by_address.insert(address, Wrong { count, next, last: now, trusted });
        if self.by_address.len() > Self::ADDRESSES {
            let quietest = self.by_address.iter().min_by_key(|(_, w)| w.last).map(|(a, _)| *a);
            quietest.and_then(|a| self.by_address.remove(&a));
        }
        Ok(())
    }

    /// The try was right after all.
    pub fn right(&mut self, address: IpAddr) {
        let Some(wrong) = self.by_address.get_mut(&whose(address)) else { return };
        if !wrong.trusted {
            self.overall = self.overall.saturating_sub(1);
        }
        *wrong = Wrong { count: 0, next: wrong.last, last: wrong.last, trusted: true };
    }

    fn drain(&mut self, now: Instant) {
        let since = *self.since.get_or_insert(now);
        let passed = now.saturating_duration_since(since).as_secs() / Self::OVERALL_EVERY.as_secs();
        if self.overall == 0 {
            self.since = Some(now);
        } else if passed > 0 {
            self.overall = self.overall.saturating_sub(u32::try_from(passed).unwrap_or(u32::MAX));
            self.since = Some(since + Self::OVERALL_EVERY * u32::try_from(passed).unwrap_or(1));
        }
        // Who was quiet for a day starts anew.
        self.by_address.retain(|_, w| now.saturating_duration_since(w.last) < DAY);
    }
}

/// Whoever has one IPv6 address has all of its /64.
fn whose(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) >> 64 << 64).into()),
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn wait_after(wrong: u32) -> Duration {
    let Some(doublings) = wrong.checked_sub(Tries::FREE) else { return Duration::ZERO };
    Tries::FIRST_WAIT.saturating_mul(1 << doublings.min(20)).min(Tries::LONGEST_WAIT)
}

const DAY: Duration = Duration::from_secs(24 * 3600);
