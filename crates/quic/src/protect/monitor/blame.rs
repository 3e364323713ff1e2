use quickset_base::{Duration, Time};

use crate::cc::SettledPacket;

/// Whether losses are our own doing: of a queue that somebody filled. Against those repair is futile, since
/// in a full queue it displaces data.
///
/// A long queue alone does not prove it: a path that loses at random does so while its queue is long, too,
/// and a large buffer is long for whole seconds when a controller starts. Either it is long (the smoothed
/// round trip above one and a half of the least, or the last one near the longest) and far more is lost than
/// any path loses by itself; or it is at its longest, however short that is, and what is lost is lost then
/// and not otherwise. Packets lost in a row count as one: a path that loses in bursts hits upon the longest
/// queue by chance, once.
#[derive(Debug, Default)]
pub(crate) struct Blame {
    // The longest round trip of this period and of the one before.
    longest: [Duration; 2],
    period_ends: Time,
    // Runs of losses with the queue at its longest, and otherwise.
    top: BlameCounts,
    below: BlameCounts,
    // The last hundred packets or so: those lost, and runs of them.
    recent: BlameCounts,
    recent_runs: u64,
    // The packet behind the last that was lost.
    run: u64,
    // Losses until then come with marks.
    marked_until: Time,
}

#[derive(Clone, Copy, Debug, Default)]
struct BlameCounts {
    events: u64,
    lost: u64,
}

/// Whose doing losses are. Unless told, the path's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlameVerdict {
    /// Of those that come now.
    pub(crate) fault: LossCause,
    /// Whether those with the queue at its longest are ours, the earlier ones too: it shows when there were a
    /// few.
    pub(crate) top_is_ours: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum LossCause {
    /// The path's.
    #[default]
    Path,
    /// The queue was at its longest.
    Top,
    /// Ours.
    Ours,
}

/// Round-trip times as they are known: the latest sample without the peer's delay, smoothed, and the least.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RoundTrips {
    pub(crate) latest: Duration,
    pub(crate) smoothed: Duration,
    pub(crate) least: Duration,
}

impl Blame {
    /// Packets were acknowledged, and declared lost, in the order of their numbers.
    pub(crate) fn observe(
        &mut self,
        now: Time,
        acked: &[SettledPacket],
        lost: &[SettledPacket],
        rtt: &RoundTrips,
    ) -> BlameVerdict {
        if now >= self.period_ends {
            self.longest = [Duration::ZERO, self.longest[0]];
            self.period_ends = now + PERIOD;
        }
        // A single packet that came late stood in no queue.
        self.longest[0] = self.longest[0].max(rtt.latest.min(rtt.smoothed));
        let longest = self.longest[0].max(self.longest[1]);
        let at_top = 16 * rtt.latest >= 15 * longest;
        let (events, runs) = ((acked.len() + lost.len()) as u64, self.runs(lost));
        let counts = if at_top { &mut self.top } else { &mut self.below };
        counts.add(events, runs);
        // A sawtooth may lose a packet in a minute.
        if self.top.lost + self.below.lost > MOST_RUNS || self.top.events + self.below.events > MEMORY {
            self.top.halve();
            self.below.halve();
        }
        self.recent.add(events, lost.len() as u64);
        self.recent_runs += runs;
        while self.recent.events > RECENT {
            self.recent.halve();
            self.recent_runs /= 2;
        }
        let is_long = rtt.smoothed > rtt.least + rtt.least / 2;
        // What varies by less is no queue.
        let is_queue = longest > rtt.least + rtt.least / 8;
        let is_full = is_queue && at_top;
        let fault = if now < self.marked_until || ((is_long || is_full) && self.is_heavy()) {
            LossCause::Ours
        } else if is_full {
            LossCause::Top
        } else {
            LossCause::Path
        };
        BlameVerdict { fault, top_is_ours: is_queue && self.is_concentrated() }
    }

    /// A queue that can say so says that it is full: what is lost within a round trip is lost there.
    pub(crate) fn on_marked(&mut self, now: Time, srtt: Duration) {
        self.marked_until = now + srtt;
    }

    /// Losses in a row that begin here.
    fn runs(&mut self, lost: &[SettledPacket]) -> u64 {
        let mut runs = 0;
        for packet in lost {
            runs += u64::from(packet.number != self.run);
            self.run = packet.number + 1;
        }
        runs
    }

    /// More than one packet in ten, here and there: a queue that overflows, in slow start one in two.
    fn is_heavy(&self) -> bool {
        self.recent.events >= RECENT / 4
            && 10 * self.recent.lost > self.recent.events
            && self.recent_runs >= 4
    }

    /// More than four times as likely with the queue at its longest as otherwise; with one loss more assumed
    /// there, so that few packets prove nothing.
    fn is_concentrated(&self) -> bool {
        let Self { top, below, .. } = self;
        top.lost >= 4 && top.lost * (below.events + 1) > 4 * (below.lost + 1) * top.events
    }
}

impl BlameCounts {
    fn add(&mut self, events: u64, lost: u64) {
        self.events += events;
        self.lost += lost;
    }

    fn halve(&mut self) {
        self.events /= 2;
        self.lost = self.lost.div_ceil(2).min(self.events);
    }
}

/// A queue's longest is looked for over one to two of these.
const PERIOD: Duration = Duration::from_secs(5);
/// Runs of losses that count, about.
const MOST_RUNS: u64 = 32;
/// And packets, about.
const MEMORY: u64 = 1 << 20;
/// Packets of which many are lost at once when a queue overflows.
const RECENT: u64 = 256;

#[cfg(test)]
mod tests {
    use quickset_base::Rng;

    use super::*;
    use crate::cc::PacketState;

    fn is_ours(verdict: BlameVerdict) -> bool {
        verdict.fault == LossCause::Ours || (verdict.fault == LossCause::Top && verdict.top_is_ours)
    }

    /// Feeds packets, one by one and a millisecond apart; tells how many of the losses were put down to us.
    fn blamed(n: u64, mut path: impl FnMut(u64) -> (u64, bool)) -> (u64, u64) {
        let mut blame = Blame::default();
        let (mut ours, mut lost) = (0, 0);
        for i in 0..n {
            let (rtt, is_lost) = path(i);
            let trips = RoundTrips {
                latest: Duration::from_millis(rtt),
                smoothed: Duration::from_millis(rtt),
                least: Duration::from_millis(100),
            };
            let packet =
                [SettledPacket { number: i, sent: Time::ZERO, bytes: 1200, state: PacketState::default() }];
            let (acked, missing): (&[SettledPacket], &[SettledPacket]) =
                if is_lost { (&[], &packet) } else { (&packet, &[]) };
            let verdict = blame.observe(Time::ZERO + Duration::from_millis(i), acked, missing, &trips);
            lost += u64::from(is_lost);
            ours += u64::from(is_lost && is_ours(verdict));
        }
        (ours, lost)
    }

    /// A mark says of the losses of the next round trip what they are.
    #[test]
    fn losses_beside_marks_are_ours() {
        let trips = RoundTrips {
            latest: Duration::from_millis(100),
            smoothed: Duration::from_millis(100),
            least: Duration::from_millis(100),
        };
        let packet =
            [SettledPacket { number: 7, sent: Time::ZERO, bytes: 1200, state: PacketState::default() }];
        let mut blame = Blame::default();
        let fault = |blame: &mut Blame, at| blame.observe(Time::from_millis(at), &[], &packet, &trips).fault;
        assert_eq!(fault(&mut blame, 999), LossCause::Path);
        blame.on_marked(Time::from_millis(1000), trips.smoothed);
        assert_eq!(fault(&mut blame, 1099), LossCause::Ours);
        assert_eq!(fault(&mut blame, 1100), LossCause::Path);
    }

    #[test]
    fn random_loss_while_a_queue_grows_and_drains_is_the_paths() {
        let mut rng = Rng::new(1);
        // From 100 to 300 ms and back, as a controller starts, then without a queue.
        let (ours, lost) = blamed(20_000, |i| {
            let rtt = match i {
                0..2000 => 100 + i / 10,
                2000..4000 => 300 - (i - 2000) / 10,
                _ => 100,
            };
            (rtt, rng.below(200) == 0)
        });
        assert!(lost > 60 && ours == 0, "{ours} of {lost}");
    }

    #[test]
    fn bursts_that_hit_upon_a_long_queue_are_the_paths() {
        for seed in 0..20 {
            let (mut rng, mut bad) = (Rng::new(seed), false);
            // A controller that starts, as above; one packet in 200 is lost, in bursts of eight.
            let (ours, lost) = blamed(4_000, |i| {
                let rtt = if i < 2000 { 100 + i / 10 } else { 300 - (i - 2000) / 10 };
                bad = if bad { !rng.chance(0.125) } else { rng.chance(0.000_628) };
                (rtt, bad)
            });
            assert!(ours == 0, "seed {seed}: {ours} of {lost}");
        }
    }

    #[test]
    fn a_short_queue_that_overflows_is_ours() {
        // A quarter of the least round trip, and a sawtooth that loses at its top.
        let (ours, lost) = blamed(20_000, |i| (100 + (i % 1000) / 40, i % 1000 == 999));
        assert!(lost == 20 && ours > 12, "{ours} of {lost}");
        // Of losses at random it is not told, whatever the queue does.
        for seed in 0..20 {
            let mut rng = Rng::new(seed);
            let (ours, lost) = blamed(20_000, |i| (100 + (i % 1000) / 40, rng.below(200) == 0));
            assert!(20 * ours <= lost, "seed {seed}: {ours} of {lost}");
        }
    }

    /// It loses a packet in 5500, and every four seconds a packet is late for another reason.
    #[test]
    fn a_sawtooth_that_hardly_loses_is_ours() {
        let mut blame = Blame::default();
        let (mut ours, mut lost) = (0, 0);
        for i in 0..55_000u64 {
            let rtt = Duration::from_micros(if i % 4000 == 3 { 175_000 } else { 100_000 + (i % 5500) * 4 });
            let smoothed = rtt.min(Duration::from_millis(122));
            let trips = RoundTrips { latest: rtt, smoothed, least: Duration::from_millis(100) };
            let packet =
                [SettledPacket { number: i, sent: Time::ZERO, bytes: 1200, state: PacketState::default() }];
            let is_lost = i % 5500 == 5499;
            let (acked, missing): (&[SettledPacket], &[SettledPacket]) =
                if is_lost { (&[], &packet) } else { (&packet, &[]) };
            let verdict = blame.observe(Time::from_millis(i), acked, missing, &trips);
            lost += u64::from(is_lost);
            ours += u64::from(is_lost && is_ours(verdict));
        }
        assert!(lost == 10 && ours >= 6, "{ours} of {lost}");
    }

    #[test]
    fn an_overflow_is_ours_at_once() {
        // Slow start into a queue of 100 ms: every second packet is lost from then on.
        let (ours, lost) = blamed(1200, |i| (100 + (i / 10).min(100), i >= 1000 && i % 2 == 0));
        assert!(lost == 100 && ours > 60, "{ours} of {lost}");
    }

    #[test]
    fn a_sawtooth_that_loses_at_its_top_is_ours() {
        // The queue grows from 60 to 100 ms and loses one packet each time it is full.
        let (ours, lost) = blamed(100_000, |i| (160 + (i % 1000) / 25, i % 1000 == 999));
        assert!(lost == 100 && ours > 90, "{ours} of {lost}");
    }
}
