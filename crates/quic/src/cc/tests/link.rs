//! A bottleneck in virtual time: flows that always have data share a link with a rate, a tail-drop queue, a
//! round trip and random loss. Packets keep their order, so a packet is lost when three behind it arrived.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use quickset_base::{Duration, Rng, Time};

use crate::cc::{Algorithm, Congestion, Feedback, Pacer, SettledPacket, TransmittedPacket};

pub(crate) const MTU: u64 = 1250;

/// What the path is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) bits_per_second: u64,
    pub(crate) rtt: Duration,
    /// Bytes that wait at most.
    pub(crate) queue: u64,
    pub(crate) loss: f64,
}

impl Link {
    pub(crate) fn bdp(&self) -> u64 {
        (self.bits_per_second as f64 / 8.0 * self.rtt.as_secs_f64()) as u64
    }
}

pub(crate) struct World {
    link: Link,
    rng: Rng,
    pub(crate) now: Time,
    free_at: Time,
    flows: Vec<Flow>,
    events: BinaryHeap<Reverse<(Time, u64, Event)>>,
    serial: u64,
    backlog: (f64, u64, u64),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ack(usize, u64),
    Wake(usize),
    Watch(usize),
}

struct Flow {
    cc: Box<dyn Congestion>,
    pacer: Pacer,
    // In order of numbers; the flag says acknowledged.
    sent: VecDeque<SettledPacket>,
    next: u64,
    in_flight: u64,
    srtt: Option<Duration>,
    min_rtt: Duration,
    delivered: u64,
    lost: u64,
    last_ack: Time,
    wakes_at: Option<Time>,
    /// Bytes that the application still has.
    left: u64,
}

/// What happened in a stretch of time.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// The share of the link that each flow got.
    pub(crate) shares: Vec<f64>,
    /// Waiting bytes: on average, and at most.
    pub(crate) mean_queue: f64,
    pub(crate) max_queue: u64,
    /// Lost packets of all that were sent.
    pub(crate) loss: f64,
}

impl Report {
    pub(crate) fn utilisation(&self) -> f64 {
        self.shares.iter().sum()
    }
}

impl World {
    pub(crate) fn new(link: Link, seed: u64) -> Self {
        Self {
            link,
            rng: Rng::new(seed),
            now: Time::from_millis(1),
            free_at: Time::ZERO,
            flows: Vec::new(),
            events: BinaryHeap::new(),
            serial: 0,
            backlog: (0.0, 0, 0),
        }
    }

    pub(crate) fn add(&mut self, algorithm: &Algorithm) -> usize {
        self.add_controller(algorithm.build(MTU, self.now))
    }

    pub(crate) fn add_controller(&mut self, cc: Box<dyn Congestion>) -> usize {
        let flow = self.flows.len();
        self.flows.push(Flow {
            cc,
            pacer: Pacer::new(MTU, self.now),
            sent: VecDeque::new(),
            next: 0,
            in_flight: 0,
            srtt: None,
            min_rtt: Duration::MAX,
            delivered: 0,
            lost: 0,
            last_ack: self.now,
            wakes_at: None,
            left: u64::MAX,
        });
        self.at(self.now, Event::Wake(flow));
        self.at(self.now + WATCH, Event::Watch(flow));
        flow
    }

    /// From now on the path is another.
    pub(crate) fn change(&mut self, link: Link) {
        self.link = link;
    }

    /// Bytes that a flow has left to send.
    pub(crate) fn give(&mut self, flow: usize, bytes: u64) {
        self.flows[flow].left = bytes;
        self.at(self.now, Event::Wake(flow));
    }

    pub(crate) fn window(&self, flow: usize) -> u64 {
        self.flows[flow].cc.control().window
    }

    pub(crate) fn state(&self, flow: usize) -> &'static str {
        self.flows[flow].cc.control().view.state
    }

    /// Bytes that were declared lost.
    pub(crate) fn lost(&self, flow: usize) -> u64 {
        self.flows[flow].lost
    }

    pub(crate) fn rate(&self, flow: usize) -> Option<u64> {
        self.flows[flow].cc.control().rate
    }

    pub(crate) fn describe(&self, flow: usize) -> String {
        format!("{:?}", self.flows[flow].cc)
    }

    pub(crate) fn run(&mut self, time: Duration) -> Report {
        let end = self.now + time;
        let before: Vec<(u64, u64)> = self.flows.iter().map(|f| (f.delivered, f.lost)).collect();
        self.backlog = (0.0, 0, 0);
        while let Some(&Reverse((at, _, event))) = self.events.peek() {
            if at > end {
                break;
            }
            self.events.pop();
            self.now = at;
            match event {
                Event::Ack(flow, number) => self.on_ack(flow, number),
                Event::Wake(flow) => {
                    self.flows[flow].wakes_at = None;
                    self.send(flow);
                }
                Event::Watch(flow) => self.watch(flow),
            }
        }
        self.now = end;
        let capacity = self.link.bits_per_second as f64 / 8.0 * time.as_secs_f64();
        let shares =
            self.flows.iter().zip(&before).map(|(f, b)| (f.delivered - b.0) as f64 / capacity).collect();
        let lost: u64 = self.flows.iter().zip(&before).map(|(f, b)| f.lost - b.1).sum();
        let delivered: u64 = self.flows.iter().zip(&before).map(|(f, b)| f.delivered - b.0).sum();
        let (sum, count, max_queue) = self.backlog;
        Report {
            shares,
            mean_queue: sum / (count.max(1) as f64),
            max_queue,
            loss: lost as f64 / ((lost + delivered).max(1) as f64),
        }
    }

    fn at(&mut self, at: Time, event: Event) {
        self.serial += 1;
        self.events.push(Reverse((at, self.serial, event)));
    }

    fn send(&mut self, flow: usize) {
        loop {
            let f = &mut self.flows[flow];
            let control = f.cc.control();
            if f.in_flight + MTU > control.window || f.left < MTU {
                return;
            }
            let srtt = f.srtt.unwrap_or(Duration::from_millis(333));
            if let Err(at) = f.pacer.allow(self.now, MTU, u64::MAX, &control, srtt) {
                // Timers tick once a millisecond, and late.
                let tick = Time::from_millis(at.as_nanos().div_ceil(1_000_000));
                if f.wakes_at.is_none_or(|wakes| tick < wakes) {
                    f.wakes_at = Some(tick);
                    self.at(tick, Event::Wake(flow));
                }
                return;
            }
            f.pacer.on_sent(MTU);
            f.in_flight += MTU;
            f.left -= MTU;
            let app_limited = f.left < MTU;
            let state = f.cc.on_sent(&TransmittedPacket {
                now: self.now,
                bytes: MTU,
                in_flight: f.in_flight,
                app_limited,
            });
            let number = f.next;
            f.next += 1;
            f.sent.push_back(SettledPacket { number, sent: self.now, bytes: MTU, state });
            self.enqueue(flow, number);
        }
    }

    fn enqueue(&mut self, flow: usize, number: u64) {
        let rate = self.link.bits_per_second as f64 / 8.0;
        let waiting = (self.free_at.since(self.now).as_secs_f64() * rate) as u64;
        self.backlog = (self.backlog.0 + waiting as f64, self.backlog.1 + 1, self.backlog.2.max(waiting));
        if waiting + MTU > self.link.queue {
            return;
        }
        let transmission = Duration::from_nanos((MTU as f64 / rate * 1e9) as u64);
        self.free_at = self.free_at.max(self.now) + transmission;
        if !self.rng.chance(self.link.loss) {
            self.at(self.free_at + self.link.rtt, Event::Ack(flow, number));
        }
    }

    fn on_ack(&mut self, flow: usize, number: u64) {
        let now = self.now;
        let f = &mut self.flows[flow];
        let prior_in_flight = f.in_flight;
        let Ok(at) = f.sent.binary_search_by_key(&number, |p| p.number) else { return };
        let packet = f.sent.remove(at).unwrap();
        let mut lost = Vec::new();
        while f.sent.front().is_some_and(|p| p.number + 3 <= number) {
            lost.extend(f.sent.pop_front());
        }
        f.in_flight -= MTU * (1 + lost.len() as u64);
        f.delivered += MTU;
        f.lost += MTU * lost.len() as u64;
        f.left = f.left.saturating_add(if f.left < u64::MAX / 2 { MTU * lost.len() as u64 } else { 0 });
        f.last_ack = now;
        let rtt = now.since(packet.sent);
        let srtt = f.srtt.map_or(rtt, |srtt| (7 * srtt + rtt) / 8);
        f.srtt = Some(srtt);
        f.min_rtt = f.min_rtt.min(rtt);
        f.cc.on_feedback(&Feedback {
            now,
            acked: &[packet],
            lost: &lost,
            prior_in_flight,
            in_flight: f.in_flight,
            rtt: Some(rtt),
            srtt,
            min_rtt: f.min_rtt,
            marked: None,
            persistent: false,
            spurious: &[],
        });
        self.send(flow);
    }

    /// After a second without news everything is lost.
    fn watch(&mut self, flow: usize) {
        let f = &mut self.flows[flow];
        if f.in_flight > 0 && self.now.since(f.last_ack) >= WATCH {
            let prior_in_flight = f.in_flight;
            let lost: Vec<SettledPacket> = f.sent.drain(..).collect();
            f.lost += f.in_flight;
            f.in_flight = 0;
            f.cc.on_feedback(&Feedback {
                now: self.now,
                acked: &[],
                lost: &lost,
                prior_in_flight,
                in_flight: 0,
                rtt: None,
                srtt: f.srtt.unwrap_or(WATCH),
                min_rtt: f.min_rtt,
                marked: None,
                persistent: true,
                spurious: &[],
            });
            self.send(flow);
        }
        self.at(self.now + WATCH, Event::Watch(flow));
    }
}

const WATCH: Duration = Duration::from_secs(1);
