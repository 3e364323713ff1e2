use std::cmp::Ordering as Compare;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quickset_base::number::{Float as _, Unsigned as _};
use quickset_base::{Duration, Ecn, Time};
use quickset_sim::{Fate, Link, LinkCounts, LinkSpec, SendResult};

/// Holds packets until their time has come, and hands them on.
///
/// Readers [take](Self::take) packets in; one thread [runs](Self::run). It sleeps on a condition variable,
/// whose time-out the system keeps to some 50 µs, where the time-outs of sockets are good to milliseconds.
#[derive(Debug)]
pub(crate) struct Courier {
    started: Instant,
    stopped: AtomicBool,
    state: Mutex<CourierState>,
    earlier: Condvar,
}

#[derive(Debug)]
struct CourierState {
    links: [Link; 2],
    /// Packets that wait in each link for their fate, oldest first.
    open: [VecDeque<(Vec<u8>, Exit)>; 2],
    waiting: BinaryHeap<CourierParcel>,
    /// Parcels so far: those that are due at the same time leave in the order of their coming.
    taken: u64,
    /// Those of them that have left, taken by the system or not.
    left: u64,
    forwarded: [u64; 2],
    lateness: Lateness,
    ports: Vec<SocketAddr>,
}

/// How a packet leaves.
#[derive(Debug, Clone)]
pub(crate) enum Exit {
    /// As a datagram to this address, or, without one, where the socket is connected to.
    Socket(Arc<UdpSocket>, Option<SocketAddr>),
    /// As a packet that arrives at the system.
    #[cfg(target_os = "linux")]
    Device(Arc<dyn PacketSink>),
}

/// A device of a network, by which packets arrive at the system.
#[cfg(target_os = "linux")]
pub(crate) trait PacketSink: std::fmt::Debug + Send + Sync {
    /// Hands a packet to the system.
    fn write(&self, packet: &[u8]) -> std::io::Result<usize>;
    /// Writes the congestion mark with which a packet leaves.
    fn mark(&self, packet: &mut [u8], ecn: Ecn);
}

#[derive(Debug)]
struct CourierParcel {
    due: Time,
    order: u64,
    direction: usize,
    bytes: Vec<u8>,
    exit: Exit,
}

impl Courier {
    pub(crate) fn new(links: [Link; 2]) -> Self {
        let state = CourierState {
            links,
            open: [const { VecDeque::new() }; 2],
            waiting: BinaryHeap::new(),
            taken: 0,
            left: 0,
            forwarded: [0; 2],
            lateness: Lateness::default(),
            ports: Vec::new(),
        };
        let started = Instant::now();
        Self { started, stopped: AtomicBool::new(false), state: Mutex::new(state), earlier: Condvar::new() }
    }

    /// Sends a packet, marked `ecn`, into the link of `direction`.
    pub(crate) fn take(&self, direction: usize, bytes: &[u8], ecn: Ecn, exit: &Exit) {
        let mut state = self.lock();
        // Read under the lock: a link's time never goes back.
        let now = self.now();
        let next = state.next();
        state.tell(now);
        match state.links[direction].send(now, bytes.len(), ecn) {
            SendResult::Known(fate) => state.settle(direction, fate, bytes, exit),
            SendResult::Waits(_) => state.open[direction].push_back((bytes.to_vec(), exit.clone())),
        }
        let is_first = state.next() != next;
        drop(state);
        if is_first {
            self.earlier.notify_one();
        }
    }

    /// Changes the links from now on; what waits in them leaves as they are then.
    pub(crate) fn change(&self, specs: [&LinkSpec; 2]) {
        let mut state = self.lock();
        // What was decided by now was so by the link as it was.
        let now = self.now();
        state.tell(now);
        for (link, spec) in state.links.iter_mut().zip(specs) {
            link.change(spec.clone());
        }
        drop(state);
        self.earlier.notify_one();
    }

    /// Hands packets on until the relay is stopped.
    pub(crate) fn run(&self) {
        let mut due = Vec::new();
        let mut late = Lateness::default();
        let mut state = self.lock();
        while !self.is_stopped() {
            let now = self.now();
            state.tell(now);
            while state.waiting.peek().is_some_and(|parcel| parcel.due <= now) {
                due.extend(state.waiting.pop());
            }
            if due.is_empty() {
                state = match state.next().map(|due| due.since(now)) {
                    Some(wait) => {
                        self.earlier.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                    }
                    None => self.earlier.wait(state).unwrap_or_else(PoisonError::into_inner),
                };
                continue;
            }
            drop(state);
            let (mut forwarded, leaving) = ([0; 2], due.len() as u64);
            for parcel in due.drain(..) {
                // What the system does not take is lost, as on any network.
                if parcel.exit.send(&parcel.bytes).is_ok() {
                    forwarded[parcel.direction] += 1;
                    late.add(self.now().since(parcel.due));
                }
            }
            state = self.lock();
            state.lateness.join(&mut late);
            state.left += leaving;
            (0..2).for_each(|direction| state.forwarded[direction] += forwarded[direction]);
        }
    }

    /// Ends [`run`](Self::run) and the readers.
    pub(crate) fn stop(&self) {
        // Under the lock, or the runner could miss it between its look and its sleep.
        let state = self.lock();
        self.stopped.store(true, Ordering::Release);
        drop(state);
        self.earlier.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    /// Remembers one of the relay's own addresses.
    pub(crate) fn listen_on(&self, address: SocketAddr) {
        self.lock().ports.push(address);
    }

    pub(crate) fn ports(&self) -> Vec<SocketAddr> {
        self.lock().ports.clone()
    }

    pub(crate) fn counts(&self) -> [LinkCounts; 2] {
        let state = self.lock();
        [state.links[0].counts(), state.links[1].counts()]
    }

    pub(crate) fn waiting(&self) -> u64 {
        let state = self.lock();
        state.taken - state.left + state.open.iter().map(|open| open.len() as u64).sum::<u64>()
    }

    pub(crate) fn forwarded(&self) -> [u64; 2] {
        self.lock().forwarded
    }

    pub(crate) fn lateness(&self) -> Lateness {
        self.lock().lateness.clone()
    }

    fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    fn lock(&self) -> MutexGuard<'_, CourierState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CourierState {
    /// When the next packet leaves, or a link knows more about those that wait in it.
    fn next(&self) -> Option<Time> {
        let parcel = self.waiting.peek().map(|parcel| parcel.due);
        self.links.iter().filter_map(Link::due).chain(parcel).min()
    }

    /// Asks the links what has become of the packets that wait in them.
    fn tell(&mut self, now: Time) {
        for direction in 0..2 {
            while let Some((_, fate)) = self.links[direction].poll(now) {
                let (bytes, exit) = self.open[direction].pop_front().expect("what has a fate has waited");
                self.settle(direction, fate, &bytes, &exit);
            }
        }
    }

    /// Lets a packet leave as its fate says.
    fn settle(&mut self, direction: usize, fate: Fate, bytes: &[u8], exit: &Exit) {
        for delivery in fate.deliveries().filter(|delivery| delivery.at < Time::MAX) {
            let mut bytes = bytes.to_vec();
            exit.mark(&mut bytes, delivery.ecn);
            if let Some(damage) = delivery.damage {
                damage.apply(&mut bytes);
            }
            let order = self.taken;
            self.taken += 1;
            self.waiting.push(CourierParcel {
                due: delivery.at,
                order,
                direction,
                bytes,
                exit: exit.clone(),
            });
        }
    }
}

impl Exit {
    fn send(&self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Self::Socket(socket, Some(client)) => socket.send_to(bytes, client),
            Self::Socket(socket, None) => socket.send(bytes),
            #[cfg(target_os = "linux")]
            Self::Device(device) => device.write(bytes),
        }
    }

    /// Writes the congestion mark with which a packet leaves; datagrams have none.
    #[cfg_attr(not(target_os = "linux"), expect(unused_variables, reason = "only packets have marks"))]
    fn mark(&self, bytes: &mut [u8], ecn: Ecn) {
        match self {
            Self::Socket(..) => {}
            #[cfg(target_os = "linux")]
            Self::Device(device) => device.mark(bytes, ecn),
        }
    }
}

/// The heap gives the greatest first: that is the one due next.
impl Ord for CourierParcel {
    fn cmp(&self, other: &Self) -> Compare {
        (other.due, other.order).cmp(&(self.due, self.order))
    }
}

impl PartialOrd for CourierParcel {
    fn partial_cmp(&self, other: &Self) -> Option<Compare> {
        Some(self.cmp(other))
    }
}

impl PartialEq for CourierParcel {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Compare::Equal
    }
}

impl Eq for CourierParcel {}

/// How much later than the model says packets left: counts in steps of [`Lateness::STEP`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    counts: Vec<u64>,
    max: Duration,
}

impl Lateness {
    /// The resolution.
    pub const STEP: Duration = Duration::from_micros(10);
    /// Steps that are told apart; what is later counts as this late.
    const STEPS: usize = 10_000;

    /// How many packets left.
    pub fn packets(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The latest of all.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The lateness that the share `p` of packets does not exceed, rounded up to a step; above 100 ms, where
    /// steps are not told apart, that of the latest.
    pub fn percentile(&self, p: f64) -> Duration {
        let rank = (p * self.packets().approx()).ceil().max(1.0).whole::<u64>();
        let mut seen = 0;
        for (step, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                let is_last = step + 1 == Self::STEPS;
                return if is_last { self.max } else { Self::STEP * (step.saturated::<u32>() + 1) };
            }
        }
        Duration::ZERO
    }

    fn add(&mut self, late: Duration) {
        let step = ((late.as_nanos() / Self::STEP.as_nanos()) as usize).min(Self::STEPS - 1);
        if self.counts.len() <= step {
            self.counts.resize(step + 1, 0);
        }
        self.counts[step] += 1;
        self.max = self.max.max(late);
    }

    /// Takes over all of `other`.
    fn join(&mut self, other: &mut Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (mine, theirs) in self.counts.iter_mut().zip(&mut other.counts) {
            *mine += std::mem::take(theirs);
        }
        self.max = self.max.max(std::mem::take(&mut other.max));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a row says of how late packets were is not less than it was, however late.
    #[test]
    fn lateness_is_told_whatever_it_is() {
        let of = |all: &[u64]| {
            let mut late = Lateness::default();
            for micros in all {
                late.add(Duration::from_micros(*micros));
            }
            [0.5, 0.99].map(|p| late.percentile(p))
        };
        let micros = Duration::from_micros;
        assert_eq!(of(&[5, 12, 12, 29]), [micros(20), micros(30)]);
        assert_eq!(of(&[5, 99_985, 99_985]), [micros(99_990); 2]);
        assert_eq!(of(&[5, 5, 730_000]), [micros(10), micros(730_000)]);
        assert_eq!(of(&[730_000, 730_000, 900_000]), [micros(900_000); 2]);
        assert_eq!(of(&[]), [Duration::ZERO; 2]);
    }
}
