//! RFC 9002, appendix A, as it stands there: every packet in a list, everything looked for anew. Whatever is
//! sent, acknowledged and waited for, [`Recovery`] does the same.

use super::*;

/// A packet as the appendix keeps it; what is settled stays, to ask afterwards.
#[derive(Clone, Debug)]
struct Sent {
    number: u64,
    at: Time,
    bytes: u64,
    eliciting: bool,
    in_flight: bool,
    path: u8,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Acked,
    /// When, how far behind the largest, and whether by time.
    Lost(Time, u64, bool),
    /// Acknowledged after it was declared lost, or forgotten since.
    Late,
    Void,
}

#[derive(Clone, Debug, Default)]
struct Numbers {
    sent: Vec<Sent>,
    skipped: BTreeSet<u64>,
    largest_acked: Option<u64>,
    last_eliciting: Time,
    loss_time: Option<Time>,
    discarded: bool,
}

impl Numbers {
    fn next(&self) -> u64 {
        self.sent.last().map_or(0, |p| p.number + 1)
    }

    fn open(&self) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(|p| p.fate == Fate::Open)
    }
}

/// Durations are nanoseconds.
#[derive(Clone, Debug)]
struct Model {
    spaces: [Numbers; 3],
    path: u8,
    // The last that is known.
    paths: u8,
    latest: u64,
    smoothed: u64,
    var: u64,
    min: u64,
    sampled: bool,
    forget_min: bool,
    first_sample: Option<Time>,
    max_ack_delay: u64,
    confirmed: bool,
    validated: bool,
    server: bool,
    handshake_keys: bool,
    pto_count: u32,
    // Before when a packet left that may have waited in an outage, and whether a sample was left out for it.
    outage: Time,
    doubts: bool,
    set_at: Time,
    // §6.1.1 and §6.1.2 leave room for larger ones where reordering is seen.
    packets: u64,
    eighths: u64,
}

/// What an event has to bring about.
#[derive(Debug, Default, PartialEq, Eq)]
struct Told {
    acked: Vec<u64>,
    lost: Vec<u64>,
    sample: Option<u64>,
}

const GRAIN: u64 = 1_000_000;

fn ns(d: Duration) -> u64 {
    d.as_nanos() as u64
}

impl Model {
    fn new(side: Side, initial: Duration) -> Self {
        Self {
            spaces: Default::default(),
            path: 0,
            paths: 0,
            latest: ns(initial),
            smoothed: ns(initial),
            var: ns(initial) / 2,
            min: ns(initial),
            sampled: false,
            forget_min: true,
            first_sample: None,
            max_ack_delay: 25 * GRAIN,
            confirmed: false,
            validated: side.is_server(),
            server: side.is_server(),
            handshake_keys: false,
            pto_count: 0,
            outage: Time::ZERO,
            doubts: false,
            set_at: Time::ZERO,
            packets: 3,
            eighths: 9,
        }
    }

    fn in_flight(&self) -> u64 {
        let all = self.spaces.iter().flat_map(Numbers::open);
        all.filter(|p| p.in_flight && p.path == self.path).map(|p| p.bytes).sum()
    }

    /// §A.5.
    fn send(&mut self, space: Space, packet: Sent) {
        let numbers = &mut self.spaces[space.index()];
        if packet.eliciting {
            numbers.last_eliciting = packet.at;
            self.set_at = packet.at;
        }
        numbers.skipped.extend(numbers.next()..packet.number);
        numbers.sent.push(packet);
    }

    /// §A.7.
    fn ack(&mut self, space: Space, acked: &BTreeSet<u64>, delay: u64, now: Time) -> Told {
        let mut told = Told::default();
        let Some(largest) = acked.last().copied() else { return told };
        let horizon = 3 * (self.smoothed + (4 * self.var).max(GRAIN));
        let numbers = &mut self.spaces[space.index()];
        if numbers.discarded {
            return told;
        }
        self.validated |= space == Space::Handshake;
        numbers.largest_acked = numbers.largest_acked.max(Some(largest));
        // §6.1.1, §6.1.2: what was declared lost not long ago, and is here now, shows that the path reorders.
        let (mut packets, mut eighths) = (self.packets, self.eighths);
        for p in &mut numbers.sent {
            if let Fate::Lost(when, behind, by_time) = p.fate {
                if ns(now.since(when)) > horizon {
                    p.fate = Fate::Void;
                } else if acked.contains(&p.number) {
                    p.fate = Fate::Late;
                    if by_time {
                        eighths = eighths.max(self.eighths + 1);
                    } else {
                        packets = packets.max(behind + 1);
                    }
                }
            }
        }
        (self.packets, self.eighths) = (packets.min(128), eighths.min(16));
        let (mut any_eliciting, mut newest) = (false, None);
        for p in numbers.sent.iter_mut().filter(|p| p.fate == Fate::Open && acked.contains(&p.number)) {
            p.fate = Fate::Acked;
            any_eliciting |= p.eliciting;
            newest = Some((p.number, p.at, p.path));
            if p.in_flight && p.path == self.path {
                told.acked.push(p.number);
            }
        }
        let Some((newest, at, path)) = newest else { return told };
        if self.pto_count >= 3 {
            self.outage = if self.doubts { Time::ZERO } else { now };
        }
        if newest == largest && any_eliciting && path == self.path {
            // A departure: no sample of what three probe timeouts went by for and that is slower than one,
            // but after another.
            let once = self.smoothed + (4 * self.var).max(GRAIN);
            let once = if space == Space::Data { once + self.max_ack_delay } else { once };
            let trip = ns(now.since(at));
            let is_hidden = self.first_sample.is_some() && at < self.outage && trip > once;
            if self.first_sample.is_some() {
                self.doubts = is_hidden;
            }
            if !is_hidden {
                told.sample = Some(trip);
                self.sample(space, trip, delay, now);
            }
        }
        told.lost = self.detect(space, now);
        if self.validated {
            self.pto_count = 0;
        }
        self.set_at = now;
        told
    }

    /// §A.7, UpdateRtt, and §5.3.
    fn sample(&mut self, space: Space, latest: u64, delay: u64, now: Time) {
        self.latest = latest;
        self.first_sample.get_or_insert(now);
        self.min = if self.forget_min { latest } else { self.min.min(latest) };
        self.forget_min = false;
        if !std::mem::replace(&mut self.sampled, true) {
            (self.smoothed, self.var) = (latest, latest / 2);
            return;
        }
        let delay = match space {
            Space::Initial => 0,
            _ if self.confirmed => delay.min(self.max_ack_delay),
            _ => delay,
        };
        let adjusted = if latest >= self.min + delay { latest - delay } else { latest };
        self.var = (3 * self.var + self.smoothed.abs_diff(adjusted)) / 4;
        self.smoothed = (7 * self.smoothed + adjusted) / 8;
    }

    /// §A.10.
    fn detect(&mut self, space: Space, now: Time) -> Vec<u64> {
        let numbers = &mut self.spaces[space.index()];
        numbers.loss_time = None;
        let Some(largest) = numbers.largest_acked else { return Vec::new() };
        let delay = (self.latest.max(self.smoothed) * self.eighths / 8).max(GRAIN);
        let delay = Duration::from_nanos(delay);
        let mut lost = Vec::new();
        for p in numbers.sent.iter_mut().filter(|p| p.fate == Fate::Open && p.number < largest) {
            let too_far = largest >= p.number + self.packets;
            if too_far || p.at + delay <= now {
                p.fate = Fate::Lost(now, largest - p.number, !too_far);
                if p.in_flight && p.path == self.path {
                    lost.push(p.number);
                }
            } else {
                numbers.loss_time = Some(numbers.loss_time.map_or(p.at + delay, |t| t.min(p.at + delay)));
            }
        }
        lost
    }

    fn loss_time(&self) -> Option<(Time, Space)> {
        let times = Space::ALL.into_iter().filter_map(|s| Some((self.spaces[s.index()].loss_time?, s)));
        times.min_by_key(|(time, _)| *time)
    }

    /// §A.8.
    fn pto(&self) -> Option<(Time, Space)> {
        let factor = 1u64 << self.pto_count.min(16);
        let mut duration = (self.smoothed + (4 * self.var).max(GRAIN)) * factor;
        let waits = |s: Space| self.spaces[s.index()].open().any(|p| p.eliciting);
        let mut earliest = None;
        for space in Space::ALL.into_iter().filter(|s| waits(*s)) {
            if space == Space::Data {
                if !self.confirmed {
                    break;
                }
                duration += self.max_ack_delay * factor;
            }
            let at = self.spaces[space.index()].last_eliciting + Duration::from_nanos(duration);
            if earliest.is_none_or(|(t, _)| at < t) {
                earliest = Some((at, space));
            }
        }
        // A departure: PeerCompletedAddressValidation() is true with the first acknowledgement of a Handshake
        // packet, but of an address that a NAT may have changed since.
        if earliest.is_some() || self.server || self.confirmed {
            return earliest;
        }
        // §6.2.2.1, of a client that has sent something.
        let space = if self.handshake_keys { Space::Handshake } else { Space::Initial };
        let begun = !self.spaces[Space::Initial.index()].sent.is_empty();
        begun.then(|| (self.set_at + Duration::from_nanos(duration), space))
    }

    fn deadline(&self) -> Option<Time> {
        self.loss_time().or_else(|| self.pto()).map(|(time, _)| time)
    }

    /// §A.9.
    fn on_time(&mut self, now: Time) -> (TimerOutcome, Told) {
        let mut told = Told::default();
        if let Some((time, space)) = self.loss_time() {
            if time > now {
                return (TimerOutcome::Nothing, told);
            }
            told.lost = self.detect(space, now);
            return (TimerOutcome::Lost(space), told);
        }
        match self.pto() {
            Some((time, space)) if time <= now => {
                self.pto_count += 1;
                self.set_at = now;
                (TimerOutcome::Probe(space), told)
            }
            _ => (TimerOutcome::Nothing, told),
        }
    }

    /// §A.11, §B.9.
    fn discard(&mut self, space: Space, now: Time) {
        let numbers = &mut self.spaces[space.index()];
        numbers.sent.iter_mut().for_each(|p| p.fate = Fate::Void);
        (numbers.discarded, numbers.loss_time) = (true, None);
        (self.pto_count, self.set_at) = (0, now);
    }

    fn change_path(&mut self, to: u8, fresh: Option<Duration>, now: Time) {
        self.path = to;
        self.paths = self.paths.max(to);
        if let Some(initial) = fresh {
            let blank = Self::new(Side::Server, initial);
            (self.latest, self.smoothed, self.var, self.min) =
                (blank.latest, blank.smoothed, blank.var, blank.min);
            (self.sampled, self.forget_min, self.first_sample) = (false, true, None);
            (self.outage, self.doubts) = (Time::ZERO, false);
            (self.packets, self.eighths) = (3, 9);
        }
        (self.pto_count, self.set_at) = (0, now);
    }

    /// §7.6.1.
    fn period(&self) -> Duration {
        Duration::from_nanos(3 * (self.smoothed + (4 * self.var).max(GRAIN) + self.max_ack_delay))
    }

    /// §7.6.2: the longest time between two packets of `lost` that both elicit and left behind the first
    /// sample, with nothing acknowledged of what left between them, in any space.
    fn longest(&self, space: Space, lost: impl Fn(&Sent) -> bool) -> Option<Duration> {
        let first = self.first_sample?;
        let is_acked = |p: &&Sent| matches!(p.fate, Fate::Acked | Fate::Late);
        let mut longest = None;
        let of = &self.spaces[space.index()].sent;
        let ends: Vec<&Sent> =
            of.iter().filter(|p| lost(p) && p.eliciting && p.path == self.path && p.at > first).collect();
        for (at, a) in ends.iter().enumerate() {
            for b in &ends[at + 1..] {
                let here = of.iter().filter(is_acked).any(|p| a.number < p.number && p.number < b.number);
                let others = Space::ALL.into_iter().filter(|s| *s != space);
                let mut elsewhere = others.flat_map(|s| self.spaces[s.index()].sent.iter().filter(is_acked));
                if !here && !elsewhere.any(|p| a.at < p.at && p.at < b.at) {
                    longest = longest.max(Some(b.at.since(a.at)));
                }
            }
        }
        longest
    }
}

#[derive(Clone, Debug)]
enum Act {
    Send {
        space: usize,
        bytes: u16,
        eliciting: bool,
        padded: bool,
        skip: bool,
        times: usize,
    },
    /// Ranges counted from the newest packet, their delays, and something that no honest peer would do.
    Ack {
        space: usize,
        frames: Vec<(usize, usize, u64, u64)>,
        lie: u8,
    },
    Wait(u64),
    Timer(u64),
    Keys(u8),
    Move(bool, Option<u8>),
}

fn act() -> impl Strategy<Value = Act> {
    let frame = (0usize..12, 1usize..8, any::<u64>(), 0u64..60_000);
    let space = || prop_oneof![1 => Just(0usize), 1 => Just(1usize), 8 => Just(2usize)];
    prop_oneof![
        10 => (space(), 40u16..1400, prop::bool::weighted(0.9), any::<bool>(), prop::bool::weighted(0.03), 1usize..5)
            .prop_map(|(space, bytes, eliciting, padded, skip, times)| {
                Act::Send { space, bytes, eliciting, padded, skip, times }
            }),
        8 => (space(), prop::collection::vec(frame, 1..3), prop_oneof![60 => Just(0u8), 1 => 1u8..3])
            .prop_map(|(space, frames, lie)| Act::Ack { space, frames, lie }),
        6 => (0u64..60_000).prop_map(Act::Wait),
        1 => (100_000u64..20_000_000).prop_map(Act::Wait),
        3 => (0u64..20_000).prop_map(Act::Timer),
        1 => (0u8..5).prop_map(Act::Keys),
        1 => (prop::bool::weighted(0.3), prop::option::of(0..3u8)).prop_map(|(fresh, back)| Act::Move(fresh, back)),
    ]
}

struct Both {
    r: Recovery,
    model: Model,
    now: Time,
}

impl Both {
    fn same(&self) {
        self.r.check();
        let (rtt, m) = (self.r.rtt(), &self.model);
        let got = (ns(rtt.latest()), ns(rtt.smoothed()), ns(rtt.var()), ns(rtt.min()));
        assert_eq!(got, (m.latest, m.smoothed, m.var, m.min), "latest, smoothed, var, min");
        assert_eq!(self.r.in_flight(), m.in_flight(), "bytes in flight");
        assert_eq!(self.r.pto_count(), m.pto_count, "probe timeouts");
        assert_eq!((self.r.packet_threshold, self.r.time_threshold), (m.packets, m.eighths as u32));
        let deadline = self.r.deadline(true);
        assert_eq!(deadline.map(|(time, _)| time), m.deadline(), "{deadline:?}");
    }

    fn told(&mut self, space: Space, out: &SettledPackets, expected: &Told) {
        let got = Told {
            acked: numbers(&out.acked_packets),
            lost: numbers(&out.lost_packets),
            sample: out.rtt.map(ns),
        };
        assert_eq!(&got, expected);
        // What this event says by itself is persistent congestion; what is not, however looked at, is none.
        let m = &mut self.model;
        let now = self.now;
        let newly = |p: &Sent| {
            matches!(p.fate, Fate::Lost(when, ..) if when == now) && expected.lost.contains(&p.number)
        };
        let ever = |p: &Sent| matches!(p.fate, Fate::Lost(..) | Fate::Void);
        // Of several spaces at a time less may be seen than there is.
        let alone = Space::ALL.iter().all(|s| *s == space || m.spaces[s.index()].sent.is_empty());
        if alone && m.longest(space, newly).is_some_and(|longest| longest >= m.period()) {
            assert!(out.persistent, "persistent congestion was missed");
        }
        if out.persistent {
            let longest = m.longest(space, ever);
            assert!(longest.is_some_and(|longest| longest >= m.period()), "it is none: {longest:?}");
            m.forget_min = true;
            (m.packets, m.eighths) = (3, 9);
        }
    }

    fn ack(&mut self, space: Space, frames: &[(usize, usize, u64, u64)], lie: u8) -> bool {
        let numbers = &self.model.spaces[space.index()];
        let sent: Vec<u64> = numbers.sent.iter().map(|p| p.number).collect();
        let (mut merged, mut all, mut delay) = (Merged::default(), BTreeSet::new(), 0);
        for (at, &(from, len, holes, us)) in frames.iter().enumerate() {
            let end = sent.len().saturating_sub(from);
            let list = sent[end.saturating_sub(len)..end].iter().copied().enumerate();
            let mut named: BTreeSet<u64> =
                list.filter(|(i, _)| holes >> (i % 64) & 1 == 0).map(|(_, n)| n).collect();
            match lie {
                1 if at == 0 => named.extend([numbers.next()]),
                2 if at == 0 => named.extend(numbers.skipped.last()),
                _ => {}
            }
            let Some(largest) = named.last().copied() else { continue };
            if all.last().is_none_or(|n| largest > *n) {
                delay = us * 1000;
            }
            let mut ranges: Vec<(u64, u64)> = Vec::new();
            for n in named.iter().rev() {
                match ranges.last_mut() {
                    Some((start, _)) if *start == n + 1 => *start = *n,
                    _ => ranges.push((*n, *n)),
                }
            }
            let mut bytes = [0; 4096];
            let mut w = Writer::new(&mut bytes);
            quickset_wire::frame::ack(
                &mut w,
                ranges.iter().map(|&(a, b)| a..=b).collect::<Vec<_>>(),
                0,
                None,
            );
            if let Some(Ok(Frame::Ack(ack))) = Frames::new(w.written()).next() {
                merged.add(&ack, Duration::from_micros(us));
            }
            all.extend(named);
        }
        let numbers = &self.model.spaces[space.index()];
        let unsent = all.last().is_some_and(|n| *n >= numbers.next()) && !numbers.discarded;
        let skipped = all.iter().any(|n| numbers.skipped.contains(n));
        let mut out = SettledPackets::default();
        let result = self.r.on_ack(space, &merged, self.now, &mut out);
        if unsent || (skipped && result.is_err()) {
            assert!(result.is_err(), "RFC 9000 §13.1");
            self.r.check();
            return false;
        }
        assert!(result.is_ok(), "{result:?} to {all:?}");
        let expected = self.model.ack(space, &all, delay, self.now);
        self.told(space, &out, &expected);
        true
    }

    /// False when the connection is over.
    fn act(&mut self, act: &Act) -> bool {
        match *act {
            Act::Send { space, bytes, eliciting, padded, skip, times } => {
                let space = Space::ALL[space];
                if self.model.spaces[space.index()].discarded {
                    return true;
                }
                for _ in 0..times {
                    let number = self.r.next_number(space) + u64::from(skip && space == Space::Data);
                    let (now, in_flight) = (self.now, eliciting || padded);
                    let state = PacketState::default();
                    let packet =
                        SentPacket { number, now, bytes, eliciting, in_flight, marked: false, state };
                    self.r.on_sent(space, packet, &mut Vec::new());
                    let (bytes, path) = (bytes.into(), self.model.path);
                    let sent = Sent { number, at: now, bytes, eliciting, in_flight, path, fate: Fate::Open };
                    self.model.send(space, sent);
                }
            }
            Act::Ack { space, ref frames, lie } => return self.ack(Space::ALL[space], frames, lie),
            Act::Wait(us) => self.now += Duration::from_micros(us),
            Act::Timer(late) => {
                // Timers that double and round trips that go by them would be centuries in the end.
                let soon = self.now + Duration::from_secs(3600);
                if let Some((at, _)) = self.r.deadline(true).filter(|(at, _)| *at < soon) {
                    self.now = self.now.max(at + Duration::from_micros(late));
                    let mut out = SettledPackets::default();
                    let outcome = self.r.on_time(self.now, true, &mut out);
                    let (expected, told) = self.model.on_time(self.now);
                    assert_eq!(outcome, expected);
                    let (TimerOutcome::Lost(space) | TimerOutcome::Probe(space)) = outcome else {
                        panic!("a timer for nothing");
                    };
                    self.told(space, &out, &told);
                }
            }
            Act::Keys(0) => (self.r.has_handshake_keys, self.model.handshake_keys) = (true, true),
            Act::Keys(1) => {
                self.r.confirmed();
                (self.model.confirmed, self.model.validated) = (true, true);
            }
            Act::Keys(2) => {
                self.r.set_peer(80 * MS);
                self.model.max_ack_delay = 80 * GRAIN;
            }
            Act::Keys(n) => {
                let space = if n == 3 { Space::Initial } else { Space::Handshake };
                if self.model.confirmed && !self.model.spaces[space.index()].discarded {
                    self.r.discard(space, self.now);
                    self.model.discard(space, self.now);
                }
            }
            Act::Move(fresh, back) => {
                if self.model.confirmed && self.model.paths < 200 {
                    let fresh = fresh.then_some(100 * MS);
                    // To one that is new, or back to one where something is still in flight.
                    let to = back.map_or(self.model.paths + 1, |back| self.model.paths.saturating_sub(back));
                    self.r.change_path(to, fresh.map(Rtt::new), self.now);
                    self.model.change_path(to, fresh, self.now);
                }
            }
        }
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn appendix_a_does_the_same(server in any::<bool>(), acts in prop::collection::vec(act(), 1..250)) {
        let (side, initial) = (if server { Side::Server } else { Side::Client }, 333 * MS);
        let (r, model) = (Recovery::new(side, initial), Model::new(side, initial));
        let mut both = Both { r, model, now: ms(1) };
        for act in &acts {
            if !both.act(act) {
                return Ok(());
            }
            both.same();
        }
    }
}
