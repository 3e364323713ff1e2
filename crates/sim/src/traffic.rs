use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use quickset_base::number::Unsigned as _;
use quickset_base::{AddressPair, Batch, Ecn, Input, Machine, Poll, Reason, Rng, Time};

use crate::exponential::exponential;

/// Packets that somebody else sends, as data: no protocol, no answer, no mercy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketTraffic {
    /// Where to.
    pub to: SocketAddr,
    /// The payload of each packet in bytes; at least [`PacketTraffic::LEAST`].
    pub size: usize,
    /// How packets follow one another.
    pub pace: TrafficPace,
    /// When it begins.
    pub start: Time,
    /// No packet leaves at this time or later.
    pub stop: Option<Time>,
    /// The mark of its packets.
    pub ecn: Ecn,
}

impl PacketTraffic {
    /// The smallest payload: a number, a time, and a check against damage.
    pub const LEAST: usize = 24;

    /// Packets from time zero on, for ever, without marks.
    pub const fn new(to: SocketAddr, size: usize, pace: TrafficPace) -> Self {
        Self { to, size, pace, start: Time::ZERO, stop: None, ecn: Ecn::NotEct }
    }
}

/// How packets follow one another. Rates are bits of payload per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficPace {
    /// At equal distances, the first at the start: exactly at the rate, however long it goes on.
    Constant {
        /// While it sends.
        bps: u64,
    },
    /// Independently of one another (a Poisson process): exponential distances, also before the first.
    Poisson {
        /// In the long run.
        bps: u64,
    },
    /// At equal distances for a while, then silence for a while, and so on; the first packet of each burst
    /// leaves at its beginning.
    OnOff {
        /// While it sends.
        bps: u64,
        /// How long it sends; the mean if drawn.
        on: Duration,
        /// How long it is silent; the mean if drawn.
        off: Duration,
        /// True when both are drawn from exponential distributions, each time anew.
        drawn: bool,
    },
}

impl TrafficPace {
    /// At equal distances.
    pub const fn constant(bps: u64) -> Self {
        Self::Constant { bps }
    }

    /// A Poisson process.
    pub const fn poisson(bps: u64) -> Self {
        Self::Poisson { bps }
    }

    fn bps(self) -> u64 {
        match self {
            Self::Constant { bps } | Self::Poisson { bps } | Self::OnOff { bps, .. } => bps,
        }
    }
}

/// A machine that sends [`PacketTraffic`], and forgets what it receives.
#[derive(Debug)]
pub struct TrafficSource {
    traffic: PacketTraffic,
    rng: Rng,
    sent: u64,
    // When the next packet leaves; none after the stop.
    next: Option<Time>,
    // The burst at hand: when it began, how many packets it has sent, when it ends.
    begun: Time,
    count: u64,
    ends: Time,
}

impl TrafficSource {
    /// A source; the seed is for paces that draw.
    pub fn new(traffic: PacketTraffic, seed: u64) -> Self {
        let traffic = PacketTraffic { size: traffic.size.max(PacketTraffic::LEAST), ..traffic };
        let mut source = Self {
            traffic,
            rng: Rng::new(seed),
            sent: 0,
            next: None,
            begun: traffic.start,
            count: 0,
            ends: Time::MAX,
        };
        let first = match traffic.pace {
            TrafficPace::Constant { .. } => traffic.start,
            TrafficPace::Poisson { bps } => traffic.start + source.gap(bps),
            TrafficPace::OnOff { on, drawn, .. } => {
                source.ends = traffic.start + source.stretch(on, drawn);
                traffic.start
            }
        };
        source.set_next(first);
        source
    }

    /// Packets sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// What it sends.
    pub fn traffic(&self) -> &PacketTraffic {
        &self.traffic
    }

    fn set_next(&mut self, at: Time) {
        let stop = self.traffic.stop.unwrap_or(Time::MAX);
        self.next = Some(at).filter(|at| *at < stop && self.traffic.pace.bps() > 0);
    }

    fn advance(&mut self, sent_at: Time) {
        self.count += 1;
        let after = match self.traffic.pace {
            TrafficPace::Constant { bps } => self.begun + self.spacing(bps),
            TrafficPace::Poisson { bps } => sent_at + self.gap(bps),
            TrafficPace::OnOff { bps, on, off, drawn } => {
                let mut at = self.begun + self.spacing(bps);
                while at >= self.ends && self.ends < Time::MAX {
                    self.begun = self.ends + self.stretch(off, drawn);
                    self.ends = self.begun + self.stretch(on, drawn);
                    (at, self.count) = (self.begun, 0);
                    if on.is_zero() {
                        // Nothing is ever sent after the first packet.
                        at = Time::MAX;
                        break;
                    }
                }
                at
            }
        };
        self.set_next(after);
    }

    /// From the beginning of a burst to its next packet, exact to the nanosecond.
    fn spacing(&self, bps: u64) -> Duration {
        let bits = u128::from(self.count) * self.traffic.size as u128 * 8;
        nanos(bits.saturating_mul(1_000_000_000) / u128::from(bps.max(1)))
    }

    fn gap(&mut self, bps: u64) -> Duration {
        let bits = self.traffic.size as u128 * 8;
        self.draw(nanos(bits * 1_000_000_000 / u128::from(bps.max(1))))
    }

    fn stretch(&mut self, mean: Duration, drawn: bool) -> Duration {
        if drawn { self.draw(mean) } else { mean }
    }

    fn draw(&mut self, mean: Duration) -> Duration {
        let mean = u64::try_from(mean.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(exponential(mean, || self.rng.next()))
    }
}

impl Machine for TrafficSource {
    fn handle(&mut self, _now: Time, input: Input<'_>) {
        if let Input::Received(datagrams) = input {
            datagrams.clear();
        }
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        let Some(at) = self.next else { return Poll::Sleep(None, Reason::Idle) };
        if at > now {
            return Poll::Sleep(Some(at), Reason::Application);
        }
        (out.path, out.ecn) = (AddressPair::to(self.traffic.to), self.traffic.ecn);
        let space = out.space(self.traffic.size);
        space.fill(0);
        let words = [self.sent, now.as_nanos(), check(self.sent, now.as_nanos())];
        for (place, word) in space.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        out.commit(self.traffic.size);
        self.sent += 1;
        // From when it was due: a source that was held up catches up.
        self.advance(at);
        Poll::Send
    }
}

/// A machine that counts the [`PacketTraffic`] that it gets, by the address it comes from.
#[derive(Debug)]
pub struct TrafficSink {
    interval: Duration,
    flows: BTreeMap<SocketAddr, SinkFlow>,
    foreign: u64,
}

impl TrafficSink {
    /// A sink that adds up bytes per `interval` of the time since zero; zero for no such series.
    pub fn new(interval: Duration) -> Self {
        Self { interval, flows: BTreeMap::new(), foreign: 0 }
    }

    /// What came from this address.
    pub fn flow(&self, from: SocketAddr) -> Option<&SinkFlow> {
        self.flows.get(&from)
    }

    /// All flows by their addresses.
    pub fn flows(&self) -> impl Iterator<Item = (SocketAddr, &SinkFlow)> {
        self.flows.iter().map(|(from, flow)| (*from, flow))
    }

    /// Packets of all flows, copies included.
    pub fn packets(&self) -> u64 {
        self.flows.values().map(|flow| flow.packets).sum()
    }

    /// Datagrams that are no [`PacketTraffic`], or whose number or time arrived damaged.
    pub fn foreign(&self) -> u64 {
        self.foreign
    }
}

impl Machine for TrafficSink {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        let Input::Received(datagrams) = input else { return };
        for datagram in datagrams.drain(..) {
            let mut words = datagram.bytes.chunks_exact(8);
            let mut word = || words.next().and_then(|word| word.try_into().ok()).map(u64::from_le_bytes);
            match (word(), word(), word()) {
                (Some(number), Some(sent), Some(sum)) if sum == check(number, sent) => {
                    let flow = self.flows.entry(datagram.path.remote).or_default();
                    let arrival =
                        TrafficArrival { at: now, sent: Time::from_nanos(sent), number, ecn: datagram.ecn };
                    flow.count(arrival, datagram.bytes.len() as u64, self.interval);
                }
                _ => self.foreign += 1,
            }
        }
    }

    fn poll(&mut self, _now: Time, _out: &mut Batch) -> Poll {
        Poll::Sleep(None, Reason::Idle)
    }
}

/// What a [`TrafficSink`] got from one address.
#[derive(Clone, Debug)]
pub struct SinkFlow {
    /// Packets, copies included.
    pub packets: u64,
    /// Their payload in bytes.
    pub bytes: u64,
    /// Packets that came a second time, or later than 4096 others sent after them.
    pub copies: u64,
    /// Packets that came after one sent later, copies not included.
    pub late: u64,
    /// Packets that arrived marked as having met congestion.
    pub marked: u64,
    /// The least time on the way.
    pub least_delay: Duration,
    /// The most.
    pub most_delay: Duration,
    /// The sum over all packets, for the mean.
    pub total_delay: Duration,
    /// When the first one came.
    pub first: Time,
    /// When the last one came.
    pub last: Time,
    /// Bytes per interval from time zero on, at most 2^20 of them; what comes later is not added.
    pub series: Vec<u64>,
    // One more than the highest number, and a bit for each of the last WINDOW numbers.
    end: u64,
    seen: Vec<u64>,
}

impl SinkFlow {
    /// Packets missing among those sent before the last one that came (of those still under way or lost
    /// after that it cannot know).
    pub fn lost(&self) -> u64 {
        self.end - (self.packets - self.copies)
    }

    /// The mean time on the way.
    pub fn mean_delay(&self) -> Duration {
        let nanos = self.total_delay.as_nanos().checked_div(u128::from(self.packets)).unwrap_or(0);
        Duration::from_nanos(nanos.saturated::<u64>())
    }

    fn count(&mut self, arrival: TrafficArrival, bytes: u64, interval: Duration) {
        let TrafficArrival { at, sent, number, ecn } = arrival;
        if self.packets == 0 {
            self.first = at;
        }
        self.last = at;
        self.packets += 1;
        self.bytes += bytes;
        self.marked += u64::from(ecn == Ecn::Ce);
        let delay = at.since(sent);
        self.least_delay = self.least_delay.min(delay);
        self.most_delay = self.most_delay.max(delay);
        self.total_delay = self.total_delay.saturating_add(delay);
        if !interval.is_zero() {
            let place = u128::from(at.as_nanos()) / interval.as_nanos();
            if place < LONGEST {
                let place = place as usize;
                if self.series.len() <= place {
                    self.series.resize(place + 1, 0);
                }
                self.series[place] += bytes;
            }
        }
        self.tick_off(number);
    }

    fn tick_off(&mut self, number: u64) {
        let bit = |number: u64| ((number % WINDOW / 64) as usize, 1u64 << (number % 64));
        if number >= self.end {
            // The places of the numbers in between are used again.
            for skipped in self.end.max(number.saturating_sub(WINDOW - 1))..=number {
                let (word, mask) = bit(skipped);
                self.seen[word] &= !mask;
            }
            // No source gets as far as the last number.
            self.end = number.saturating_add(1);
        } else {
            let (word, mask) = bit(number);
            if self.end - number > WINDOW || self.seen[word] & mask != 0 {
                self.copies += 1;
                return;
            }
            self.late += 1;
        }
        let (word, mask) = bit(number);
        self.seen[word] |= mask;
    }
}

impl Default for SinkFlow {
    fn default() -> Self {
        Self {
            packets: 0,
            bytes: 0,
            copies: 0,
            late: 0,
            marked: 0,
            least_delay: Duration::MAX,
            most_delay: Duration::ZERO,
            total_delay: Duration::ZERO,
            first: Time::ZERO,
            last: Time::ZERO,
            series: Vec::new(),
            end: 0,
            seen: vec![0; (WINDOW / 64) as usize],
        }
    }
}

#[derive(Clone, Copy)]
struct TrafficArrival {
    at: Time,
    sent: Time,
    number: u64,
    ecn: Ecn,
}

/// Differs when a bit of either does.
fn check(number: u64, sent: u64) -> u64 {
    number.rotate_left(32) ^ sent ^ 0x6372_6f73_7320_7472
}

fn nanos(n: u128) -> Duration {
    Duration::from_nanos(u64::try_from(n).unwrap_or(u64::MAX))
}

/// How far back copies are told from packets that were overtaken.
const WINDOW: u64 = 4096;
/// The longest series: 8 MiB.
const LONGEST: u128 = 1 << 20;
