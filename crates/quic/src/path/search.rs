use quickset_base::{Duration, Time};

use crate::cc::SettledPacket;

/// The search for the largest UDP payload of a path (RFC 8899, RFC 9000 §14.3). It sends datagrams that may
/// be lost, and goes back when a size turns out to be too large. Sizes are those of UDP payloads, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MtuDiscovery {
    /// A size that every path takes, at least 1200. The search goes back to it when large packets are lost
    /// only because they are large.
    pub lowest: u16,
    /// The largest size that is tried over IPv4, up to 65,507; over IPv6 it is 20 bytes less. The peer may
    /// take less.
    pub highest: u16,
    /// How long after a search we look again whether the path takes more (RFC 8899 §5.1.1).
    pub interval: Duration,
}

setters! { MtuDiscovery {
    with_lowest: lowest: u16,
    with_highest: highest: u16,
    with_interval: interval: Duration,
} }

impl Default for MtuDiscovery {
    /// From what QUIC asks of a path to what Ethernet carries.
    fn default() -> Self {
        Self { lowest: 1200, highest: 1472, interval: Duration::from_secs(600) }
    }
}

/// The search for the largest UDP payload that a path carries (RFC 8899, RFC 9000 §14.3), and the watch over
/// it.
///
/// A round tries the largest size first, which is the answer on most paths, then halves what is left. A size
/// is given up when [`MAX_PROBES`] datagrams of it were lost, of which loss detection is the only judge: when
/// nothing else is under way that could show it, a PING is. All of this happens outside of congestion
/// control, one datagram at a time.
///
/// Datagrams that grew too large for the path show in that whatever is as large is lost, round trip after
/// round trip, while something smaller gets through. A path that carries nothing at all is no matter of size.
#[derive(Debug)]
pub(crate) struct Search {
    config: MtuDiscovery,
    /// Nothing larger is tried: the configuration, the peer, and IPv6.
    highest: usize,
    /// The largest size that was not found to be too large in this round.
    ceiling: usize,
    /// The size to be tried.
    size: usize,
    /// Datagrams of that size that were lost.
    lost: u32,
    turn: SearchTurn,
    doubt: Doubt,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SearchTurn {
    /// A datagram is sent then.
    Try(Time),
    /// One is under way. Something else should be by then, and is not asked for twice.
    Wait(Time),
    /// A round is over. The next one begins then.
    Rest(Time),
}

/// What speaks against the size in use.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    /// Round trips in which large packets were lost and none arrived.
    rounds: u32,
    /// The smallest that was lost.
    least: u64,
    /// What was sent before that is part of the round.
    until: Time,
}

impl Search {
    /// For a path on which nothing was tried yet. Over IPv6, twenty bytes less are left of the same frame.
    pub(crate) fn new(config: MtuDiscovery, is_v6: bool) -> Self {
        let highest = usize::from(config.highest).saturating_sub(if is_v6 { 20 } else { 0 });
        Self {
            config,
            highest,
            ceiling: highest,
            size: highest,
            lost: 0,
            turn: SearchTurn::Try(Time::ZERO),
            doubt: Doubt::default(),
        }
    }

    /// The peer takes no more.
    pub(crate) fn limit(&mut self, most: usize) {
        self.highest = self.highest.min(most);
        self.ceiling = self.ceiling.min(most);
        self.size = self.size.min(most);
    }

    /// What every path is taken to carry.
    pub(crate) fn lowest(&self) -> usize {
        usize::from(self.config.lowest.max(MIN_MTU))
    }

    /// The largest size that may be found.
    pub(crate) fn highest(&self) -> usize {
        self.highest
    }

    /// When there is something to do, the path taking `mtu` bytes.
    pub(crate) fn due(&self, mtu: usize) -> Option<Time> {
        let at = match self.turn {
            SearchTurn::Try(at) | SearchTurn::Wait(at) => at,
            SearchTurn::Rest(at) if self.highest >= mtu + STEP => at,
            SearchTurn::Rest(_) => return None,
        };
        (at < Time::MAX).then_some(at)
    }

    /// The size to be tried now.
    pub(crate) fn wants(&self, now: Time) -> Option<usize> {
        matches!(self.turn, SearchTurn::Try(at) if at <= now).then_some(self.size)
    }

    /// A datagram of that size left. Until `nudge` other packets should show whether it was lost.
    pub(crate) fn on_sent(&mut self, nudge: Time) {
        self.turn = SearchTurn::Wait(nudge);
    }

    /// The time has come, perhaps. True when the peer should be made to acknowledge something.
    pub(crate) fn on_time(&mut self, now: Time, mtu: usize) -> bool {
        match self.turn {
            SearchTurn::Wait(at) if at <= now => {
                self.turn = SearchTurn::Wait(Time::MAX);
                true
            }
            SearchTurn::Rest(at) if at <= now => {
                self.begin(now, mtu);
                false
            }
            // What there is to be found must be worth it.
            SearchTurn::Try(at) if at <= now && self.ceiling < mtu + STEP => {
                self.plan(now, mtu);
                false
            }
            _ => false,
        }
    }

    /// A datagram of `size` bytes arrived. Returns what the path takes then.
    pub(crate) fn on_arrived(&mut self, size: usize, now: Time, mtu: usize) -> usize {
        let mtu = mtu.max(size.min(self.highest));
        self.ceiling = self.ceiling.max(mtu);
        self.plan(now, mtu);
        mtu
    }

    /// A datagram of `size` bytes was lost. After `pause` the next one may leave: congestion should not have
    /// them all.
    pub(crate) fn on_lost(&mut self, size: usize, now: Time, mtu: usize, pause: Duration) {
        if size != self.size || !matches!(self.turn, SearchTurn::Wait(_)) {
            return;
        }
        self.lost += 1;
        if self.lost < MAX_PROBES {
            self.turn = SearchTurn::Try(now + pause);
        } else {
            self.ceiling = size - 1;
            self.plan(now, mtu);
        }
    }

    /// The system does not let datagrams of `size` bytes leave. That is sure, and costs nothing to find out.
    pub(crate) fn on_refused(&mut self, size: usize, now: Time, mtu: usize) {
        self.ceiling = self.ceiling.min(size - 1).max(mtu);
        let waits = matches!(self.turn, SearchTurn::Wait(_)) && self.size <= self.ceiling;
        if !waits {
            self.plan(now, mtu);
        }
        self.doubt = Doubt::default();
    }

    /// The path is left, or taken again: of what was under way on it nothing is heard.
    pub(crate) fn rest(&mut self) {
        self.untried();
        self.doubt = Doubt::default();
    }

    /// What tried a size says nothing of it.
    pub(crate) fn untried(&mut self) {
        if let SearchTurn::Wait(_) = self.turn {
            self.turn = SearchTurn::Try(Time::ZERO);
        }
    }

    /// Packets were lost or acknowledged. True when everything says that the path takes no more packets of
    /// `mtu` bytes.
    pub(crate) fn doubts(
        &mut self,
        now: Time,
        mtu: usize,
        acked: &[SettledPacket],
        lost: &[SettledPacket],
    ) -> bool {
        let lowest = self.lowest() as u64;
        let doubt = &mut self.doubt;
        let large = lost.iter().filter(|packet| packet.bytes > lowest);
        let least = large.clone().map(|packet| packet.bytes).min();
        let least = [least, (doubt.rounds > 0).then_some(doubt.least)].into_iter().flatten().min();
        let Some(least) = least.filter(|_| mtu as u64 > lowest) else { return false };
        // Only what was sent behind the losses says that the path has not changed with them.
        let first = large.clone().map(|packet| packet.number).min().unwrap_or(0);
        if acked.iter().any(|packet| packet.bytes >= least && packet.number > first) {
            *doubt = Doubt::default();
            return false;
        }
        let is_new = large.clone().any(|packet| doubt.rounds == 0 || packet.sent > doubt.until);
        if is_new {
            *doubt = Doubt { rounds: doubt.rounds + 1, least, until: now };
        }
        doubt.rounds >= MAX_DOUBTS
    }

    /// The path does not take `mtu` bytes any more, or not now: that is the first to be tried, after a while.
    pub(crate) fn fall(&mut self, mtu: usize, at: Time) {
        self.ceiling = mtu.min(self.highest);
        (self.size, self.lost) = (self.ceiling, 0);
        self.turn = SearchTurn::Try(at);
        self.doubt = Doubt::default();
    }

    fn begin(&mut self, now: Time, mtu: usize) {
        self.ceiling = self.highest;
        (self.size, self.lost) = (self.highest, 0);
        self.turn = SearchTurn::Try(now);
        if self.highest < mtu + STEP {
            self.turn = SearchTurn::Rest(Time::MAX);
        }
    }

    /// What to try next, above `mtu`.
    fn plan(&mut self, now: Time, mtu: usize) {
        self.lost = 0;
        if self.ceiling < mtu + STEP {
            // RFC 8899 §5.1.1: the path may be another one some day.
            self.turn = SearchTurn::Rest(now + self.config.interval);
            return;
        }
        self.size = (mtu + self.ceiling).div_ceil(2);
        self.turn = SearchTurn::Try(now);
    }

    pub(crate) fn check(&self, mtu: usize) {
        debug_assert!(self.lost < MAX_PROBES && self.doubt.rounds < MAX_DOUBTS);
        debug_assert!(self.ceiling <= self.highest.max(mtu) && self.size <= self.highest, "{self:?}");
    }
}

/// RFC 9000 §14: what every path that QUIC is used on takes.
//
// RFC 9000 §14.2: every path takes this much, or is none.
const MIN_MTU: u16 = 1200;

/// RFC 8899 §5.1.2, MAX_PROBES: losses of one size that stand for it being too large.
const MAX_PROBES: u32 = 3;

/// Round trips in a row in which only small packets got through.
const MAX_DOUBTS: u32 = 3;

/// A gain that is not worth three datagrams that may be lost, in bytes.
const STEP: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cc::PacketState;

    fn at(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn search(highest: u16) -> Search {
        Search::new(MtuDiscovery { highest, ..MtuDiscovery::default() }, false)
    }

    /// A round on a path that takes `real` bytes: what is found, and the sizes tried.
    fn round(search: &mut Search, mut mtu: usize, real: usize) -> (usize, Vec<usize>) {
        let (mut tried, now) = (Vec::new(), at(1000));
        while let Some(size) = search.wants(now) {
            tried.push(size);
            search.on_sent(at(2000));
            if size <= real {
                mtu = search.on_arrived(size, now, mtu);
            } else {
                search.on_lost(size, now, mtu, Duration::ZERO);
            }
            search.check(mtu);
        }
        (mtu, tried)
    }

    #[test]
    fn every_path_is_found_out_in_a_few_datagrams() {
        assert_eq!(round(&mut search(1472), 1200, 1472), (1472, vec![1472]), "one, where all is well");
        for real in 1200..=1472 {
            let (mtu, tried) = round(&mut search(1472), 1200, real);
            assert!(mtu <= real && real < mtu + 16, "{real}: {mtu}");
            assert!(tried.len() <= 3 * 6, "{real}: {tried:?}");
            for size in &tried {
                let times = tried.iter().filter(|other| *other == size).count();
                assert_eq!(times, if *size > real { 3 } else { 1 }, "{real}: {tried:?}");
            }
        }
        let (mtu, tried) = round(&mut search(8972), 1200, 4000);
        assert!((3985..=4000).contains(&mtu) && tried.len() <= 30, "{tried:?}");
    }

    #[test]
    fn a_peers_limit_and_ipv6_bound_it() {
        let mut limited = search(1472);
        limited.limit(1350);
        assert_eq!(round(&mut limited, 1200, 65_000), (1350, vec![1350]));
        let mut v6 = Search::new(MtuDiscovery { highest: 1472, ..MtuDiscovery::default() }, true);
        assert_eq!(round(&mut v6, 1200, 1500).1, [1452]);
        let mut nothing = search(1210);
        assert!(!nothing.on_time(at(0), 1200));
        assert_eq!((nothing.wants(at(0)), nothing.due(1200)), (None, None), "ten bytes are not worth it");
    }

    #[test]
    fn after_a_while_it_is_tried_again() {
        let mut search = search(1472);
        let (mtu, _) = round(&mut search, 1200, 1300);
        let again = at(1000) + Duration::from_secs(600);
        assert_eq!(search.due(mtu), Some(again), "RFC 8899 §5.1.1, PMTU_RAISE_TIMER");
        assert!(!search.on_time(again, mtu));
        assert_eq!(search.wants(again), Some(1472));
    }

    #[test]
    fn a_datagram_of_which_nothing_is_heard_is_asked_after_once() {
        let mut search = search(1472);
        search.on_sent(at(50));
        assert!(!search.on_time(at(49), 1200));
        assert!(search.on_time(at(50), 1200));
        assert!(!search.on_time(at(5000), 1200));
        assert_eq!((search.wants(at(5000)), search.due(1200)), (None, None), "its fate will be known");
        search.on_lost(1472, at(6000), 1200, Duration::from_millis(10));
        assert_eq!(search.due(1200), Some(at(6010)));
    }

    fn packets(of: &[(u64, u64, u64)]) -> Vec<SettledPacket> {
        let one = |&(number, bytes, sent): &(u64, u64, u64)| SettledPacket {
            number,
            sent: at(sent),
            bytes,
            state: PacketState::default(),
        };
        of.iter().map(one).collect()
    }

    #[test]
    fn only_small_packets_getting_through_for_three_round_trips_is_a_black_hole() {
        let mut search = search(1472);
        let mut settled =
            |now, acked: &[_], lost: &[_]| search.doubts(at(now), 1472, &packets(acked), &packets(lost));
        // What was lost together counts once.
        assert!(!settled(100, &[(9, 60, 50)], &[(1, 1472, 40), (2, 1472, 40)]));
        assert!(!settled(101, &[], &[(3, 1472, 41)]));
        assert!(!settled(102, &[], &[(4, 1472, 42)]));
        assert!(!settled(200, &[(12, 1200, 150)], &[(10, 1472, 140)]), "1200 bytes prove nothing");
        assert!(settled(300, &[], &[(14, 1472, 240)]), "three");
    }

    #[test]
    fn losses_among_arrivals_are_none() {
        let mut search = search(1472);
        for round in 0..20 {
            let (now, n) = (round * 100, round * 10);
            let lost = packets(&[(n, 1472, now), (n + 1, 1472, now)]);
            // An older arrival says nothing, a later one of the same size all.
            let acked = packets(&[(n + 2, 60, now), (n + 3, 1472, now)]);
            assert!(!search.doubts(at(now + 50), 1472, &acked, &lost));
        }
        let lost = packets(&[(1000, 1472, 5000)]);
        let earlier = packets(&[(999, 1472, 5000)]);
        assert!(!search.doubts(at(5050), 1472, &earlier, &lost));
        assert_eq!(search.doubt.rounds, 1);
        assert!(!search.doubts(at(5060), 1472, &packets(&[(1001, 1400, 5010)]), &[]));
        assert_eq!(search.doubt.rounds, 1, "smaller than what was lost");
        assert!(!search.doubts(at(5060), 1472, &packets(&[(1002, 1472, 5010)]), &[]));
        assert_eq!(search.doubt.rounds, 0);
        // Of paths that are used at their least nothing is asked.
        assert!(!search.doubts(at(6000), 1200, &[], &lost));
    }
}
