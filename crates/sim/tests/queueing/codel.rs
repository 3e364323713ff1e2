//! CoDel against the pseudocode of RFC 8289 §5, run event by event.

use std::collections::VecDeque;

use proptest::prelude::*;
use quickset_base::{Ecn, Time};
use quickset_sim::{DropReason, Fate};

use crate::{Packet, carry, link};

#[derive(Clone, Copy)]
struct Waiting {
    n: usize,
    tstamp: f64,
    size: u64,
    ecn: Ecn,
}

/// A queue, its transmitter and the variables of the RFC. Times are whole nanoseconds in f64, which are
/// exact below 2^53.
struct Reference {
    target: f64,
    interval: f64,
    limit: u64,
    ecn: bool,
    // Bits per second that divide 8 * 10^9: a byte takes whole nanoseconds.
    byte_ns: f64,
    queue: VecDeque<Waiting>,
    bytes: u64,
    maxpacket: u64,
    first_above_time: f64,
    drop_next: f64,
    count: u32,
    lastcount: u32,
    dropping: bool,
    busy_until: f64,
    on_the_wire: u64,
    // By ordinal: when it has left, and marked how; or why not.
    fates: Vec<Option<Result<(f64, Ecn), DropReason>>>,
}

impl Reference {
    fn control_law(&self, t: f64, count: u32) -> f64 {
        t + (self.interval / f64::from(count).sqrt()).floor()
    }

    fn dodequeue(&mut self, now: f64) -> (Option<Waiting>, bool) {
        let Some(p) = self.queue.pop_front() else {
            self.first_above_time = 0.0;
            return (None, false);
        };
        self.bytes -= p.size;
        let mut ok_to_drop = false;
        if now - p.tstamp < self.target || self.bytes <= self.maxpacket {
            self.first_above_time = 0.0;
        } else if self.first_above_time == 0.0 {
            self.first_above_time = now + self.interval;
        } else if now >= self.first_above_time {
            ok_to_drop = true;
        }
        (Some(p), ok_to_drop)
    }

    /// Drops, or marks where that is possible; true when marked.
    fn drop_or_mark(&mut self, p: &mut Waiting) -> bool {
        if self.ecn && p.ecn != Ecn::NotEct {
            p.ecn = Ecn::Ce;
            return true;
        }
        self.fates[p.n] = Some(Err(DropReason::Aqm));
        false
    }

    fn dequeue(&mut self, now: f64) -> Option<Waiting> {
        let (mut p, mut ok) = self.dodequeue(now);
        if self.dropping {
            if !ok {
                self.dropping = false;
            }
            while now >= self.drop_next && self.dropping {
                self.count += 1;
                if self.drop_or_mark(p.as_mut().expect("what may be dropped")) {
                    self.drop_next = self.control_law(self.drop_next, self.count);
                    return p;
                }
                (p, ok) = self.dodequeue(now);
                if ok {
                    self.drop_next = self.control_law(self.drop_next, self.count);
                } else {
                    self.dropping = false;
                }
            }
        } else if ok {
            if !self.drop_or_mark(p.as_mut().expect("what may be dropped")) {
                (p, _) = self.dodequeue(now);
            }
            self.dropping = true;
            let delta = self.count - self.lastcount;
            self.count = 1;
            if delta > 1 && now - self.drop_next < 16.0 * self.interval {
                self.count = delta;
            }
            self.drop_next = self.control_law(now, self.count);
            self.lastcount = self.count;
        }
        p
    }

    /// The transmitter asks for packets until the time `now`, inclusively.
    fn transmit(&mut self, now: f64) {
        while self.busy_until <= now {
            self.on_the_wire = 0;
            // An idle transmitter takes what came just now.
            let at = if self.queue.front().is_some_and(|p| p.tstamp > self.busy_until) {
                now
            } else {
                self.busy_until
            };
            let Some(p) = self.dequeue(at) else { return };
            self.busy_until = at + p.size as f64 * self.byte_ns;
            self.on_the_wire = p.size;
            self.fates[p.n] = Some(Ok((self.busy_until, p.ecn)));
        }
    }

    fn run(mut self, packets: &[Packet]) -> Vec<Result<(f64, Ecn), DropReason>> {
        for (n, &(ns, size, ecn)) in packets.iter().enumerate() {
            let (now, size) = (ns as f64, size as u64);
            self.transmit(now);
            if self.bytes + self.on_the_wire + size > self.limit {
                self.fates[n] = Some(Err(DropReason::Overflow));
                continue;
            }
            self.bytes += size;
            self.maxpacket = self.maxpacket.max(size);
            self.queue.push_back(Waiting { n, tstamp: now, size, ecn });
            self.transmit(now);
        }
        while !self.queue.is_empty() {
            self.transmit(self.busy_until);
        }
        self.fates.into_iter().map(Option::unwrap).collect()
    }
}

fn check(target_us: u64, interval_us: u64, limit: u64, ecn: bool, packets: &[Packet]) -> usize {
    let reference = Reference {
        target: target_us as f64 * 1e3,
        interval: interval_us as f64 * 1e3,
        limit,
        ecn,
        byte_ns: 1000.0,
        queue: VecDeque::new(),
        bytes: 0,
        maxpacket: 0,
        first_above_time: 0.0,
        drop_next: 0.0,
        count: 0,
        lastcount: 0,
        dropping: false,
        busy_until: 0.0,
        on_the_wire: 0,
        fates: vec![None; packets.len()],
    };
    let expected = reference.run(packets);
    let name = if ecn { "codel-ecn" } else { "codel" };
    let mut link = link(&format!("rate=8mbit queue={name}:{target_us}us,{interval_us}us,{limit}B"), 1);
    let got = carry(&mut link, packets);
    for (n, (got, expected)) in got.iter().zip(&expected).enumerate() {
        let got = match got {
            Fate::Delivered(delivery) => Ok((delivery.at.as_nanos() as f64, delivery.ecn)),
            Fate::Dropped(why) => Err(*why),
            Fate::Duplicated(..) => panic!("nothing duplicates"),
        };
        assert_eq!(got, *expected, "packet {n}, sent at {}", Time::from_nanos(packets[n].0));
    }
    let counts = link.counts();
    let marked = |n: &usize| matches!(expected[*n], Ok((_, Ecn::Ce)) if packets[*n].2 != Ecn::Ce);
    assert_eq!(counts.marked as usize, (0..packets.len()).filter(marked).count());
    assert_eq!(counts.aqm as usize, expected.iter().filter(|fate| **fate == Err(DropReason::Aqm)).count());
    (counts.aqm + counts.marked) as usize
}

#[test]
fn a_standing_queue_is_brought_down_as_the_rfc_does() {
    // A packet of 1 ms each 0.9 ms for five seconds, a pause, and again: drops come closer together, and
    // the second time they go on where they ended.
    let flood = |begin: u64| (0..5000).map(move |i| (begin + i * 900_000, 1000, Ecn::NotEct));
    let packets: Vec<Packet> = flood(0).chain(flood(4_600_000_000)).collect();
    let drops = check(5_000, 100_000, 9_000_000, false, &packets);
    // More than a tenth of them is too much for the rate.
    assert!((200..1500).contains(&drops), "{drops}");
    let marked: Vec<Packet> = packets.iter().map(|p| (p.0, p.1, Ecn::Ect0)).collect();
    assert!(check(5_000, 100_000, 9_000_000, true, &marked) > 200);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_traffic_fares_as_the_pseudocode_says(
        target_us in 0u64..8000, interval_us in 1u64..40_000, limit in 1000u64..200_000, ecn: bool,
        phases in prop::collection::vec((0u64..3_000_000, 1usize..300, 1usize..1500), 1..8),
        gaps in prop::collection::vec((0u64..100, 0u8..4), 50),
    ) {
        let mut now = 0;
        let mut packets = Vec::new();
        for (mean, n, largest) in phases {
            for i in 0..n {
                let (share, kind) = gaps[i % 50];
                now += mean * share / 50;
                let ecn = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce][usize::from(kind)];
                packets.push((now, 1 + (largest * (i * 7 % 11)) / 11, ecn));
            }
        }
        check(target_us, interval_us, limit, ecn, &packets);
    }
}
