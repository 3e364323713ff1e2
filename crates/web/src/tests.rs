//! Both halves over a path that loses, delays and reorders, in virtual time.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use proptest::prelude::*;
use quickset_base::{Duration, Rng, Time};
use quickset_fec::rlc;

use crate::format::{self, FencedDatagram, FencedPlace};
use crate::{DatagramFault, FencedReceiver, FencedSender, SenderOptions};

const MS: Duration = Duration::from_millis(1);

/// A path both ways, and what its ends did.
struct TestPath {
    sender: FencedSender,
    receiver: FencedReceiver,
    now: Time,
    one_way: Duration,
    /// Each datagram is late by up to that, and so may overtake others.
    jitter: Duration,
    /// Of a thousand.
    loss: u64,
    rng: Rng,
    /// By when they arrive, and in which order they were sent: to the receiver or not, and the bytes.
    flying: BTreeMap<(Time, u64), (bool, Vec<u8>)>,
    sent: u64,
    /// The numbers of datagrams to the receiver that are lost for certain.
    doomed: BTreeSet<u64>,
    to_receiver: u64,
    delivered: Vec<(Time, Bytes)>,
    outcomes: BTreeMap<u64, bool>,
}

impl TestPath {
    fn new(one_way: Duration, loss: u64, seed: u64) -> Self {
        Self {
            sender: FencedSender::new(SenderOptions { rtt: one_way * 2 }),
            receiver: FencedReceiver::new(),
            now: Time::ZERO + Duration::from_secs(1),
            one_way,
            jitter: Duration::ZERO,
            loss,
            rng: Rng::new(seed),
            flying: BTreeMap::new(),
            sent: 0,
            doomed: BTreeSet::new(),
            to_receiver: 0,
            delivered: Vec::new(),
            outcomes: BTreeMap::new(),
        }
    }

    fn put(&mut self, to_receiver: bool, datagram: Vec<u8>) {
        let mut lost = self.rng.below(1000) < self.loss;
        if to_receiver {
            lost |= self.doomed.contains(&self.to_receiver);
            self.to_receiver += 1;
        }
        if !lost {
            let late = Duration::from_nanos(self.rng.below(self.jitter.as_nanos() as u64 + 1));
            self.sent += 1;
            self.flying.insert((self.now + self.one_way + late, self.sent), (to_receiver, datagram));
        }
    }

    /// Lets both ends do what is due.
    fn turn(&mut self) {
        while let Some(datagram) = self.sender.poll(self.now) {
            self.put(true, datagram);
        }
        while let Some(report) = self.receiver.report(self.now) {
            self.put(false, report);
        }
        while let Some(message) = self.receiver.next() {
            self.delivered.push((self.now, message));
        }
        while let Some((number, arrived)) = self.sender.next_outcome() {
            assert_eq!(self.outcomes.insert(number, arrived), None, "an outcome was told twice");
        }
    }

    /// Goes on until `end`, or nothing is to be done any more.
    fn run(&mut self, end: Time) {
        self.turn();
        loop {
            let arrival = self.flying.keys().next().map(|&(at, _)| at);
            let due = [arrival, self.sender.next_deadline(), self.receiver.next_deadline()];
            let Some(next) = due.into_iter().flatten().min().filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            while let Some((&key, _)) = self.flying.first_key_value().filter(|((at, _), _)| *at <= self.now) {
                let (to_receiver, datagram) = self.flying.remove(&key).unwrap();
                if to_receiver {
                    self.receiver.receive(self.now, &datagram).unwrap();
                } else {
                    self.sender.report(self.now, &datagram).unwrap();
                }
            }
            self.turn();
        }
        self.now = self.now.max(end);
    }

    fn rest(&mut self) {
        self.run(self.now + Duration::from_secs(600));
        assert_eq!((self.sender.outstanding(), self.sender.next_deadline()), (0, None), "something is open");
    }

    fn texts(&self) -> Vec<&[u8]> {
        self.delivered.iter().map(|(_, message)| &message[..]).collect()
    }
}

fn of_number(n: u64) -> Bytes {
    // Of all lengths, with zeros at the end.
    let mut bytes = n.to_be_bytes().to_vec();
    bytes.resize(8 + (n * 37 % 900) as usize, if n % 3 == 0 { 0 } else { n as u8 });
    bytes.into()
}

fn number_of(message: &[u8]) -> u64 {
    u64::from_be_bytes(message[..8].try_into().unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the path does: each kept message is delivered once, and nothing crosses a fence.
    #[test]
    fn fences_hold_and_nothing_is_lost(
        seed in any::<u64>(),
        loss in 0u64..300,
        jitter in 0u64..60,
        updates in prop::collection::vec((1u64..40, 0u32..4, 0u64..80), 1..40),
        drops in any::<bool>(),
    ) {
        let mut path = TestPath::new(20 * MS, loss, seed);
        path.jitter = Duration::from_millis(jitter);
        let mut fences = BTreeMap::new();
        let (mut next, mut kept) = (0, BTreeSet::new());
        // What the messages are called. Probes (WB-22) have numbers of their own between them.
        let mut names = Vec::new();
        for (messages, repairs, pause) in updates {
            let fence = next;
            for _ in 0..messages {
                let keep = !drops || next % 4 != 1;
                names.push(path.sender.message(of_number(next), keep));
                fences.insert(next, fence);
                if keep {
                    kept.insert(next);
                }
                next += 1;
            }
            path.sender.repair(repairs);
            path.sender.fence();
            path.run(path.now + Duration::from_millis(pause));
            if drops && next % 5 == 0 {
                path.sender.abandon(names[next as usize - 1]);
                kept.remove(&(next - 1));
            }
        }
        path.rest();
        // WB-4, WB-5.
        let mut seen = BTreeSet::new();
        for (_, message) in &path.delivered {
            let number = number_of(message);
            prop_assert_eq!(message, &of_number(number));
            prop_assert!(seen.insert(number), "{} came twice", number);
            let open = kept.range(..fences[&number]).find(|before| !seen.contains(before));
            prop_assert_eq!(open, None, "{} crossed a fence", number);
        }
        prop_assert!(kept.is_subset(&seen));
        prop_assert!(names.is_sorted_by(|a, b| a < b));
        for number in 0..next {
            let outcome = path.outcomes.get(&names[number as usize]);
            prop_assert!(outcome == Some(&true) || outcome.is_some() && !kept.contains(&number));
        }
    }

    /// Nothing that comes breaks either end.
    #[test]
    fn any_bytes_are_read_or_refused(datagrams in prop::collection::vec(
        (1u8..6, prop::collection::vec(any::<u8>(), 0..60)), 0..30)
    ) {
        let (mut sender, mut receiver) = (FencedSender::new(SenderOptions::default()), FencedReceiver::new());
        (0..20).for_each(|n| assert_eq!(sender.message(of_number(n), true), n));
        let now = Time::ZERO;
        while sender.poll(now).is_some() {}
        for (kind, rest) in datagrams {
            let datagram = [&[kind], &rest[..]].concat();
            let _ = receiver.receive(now, &datagram);
            let _ = sender.report(now, &datagram);
        }
        prop_assert!(sender.outstanding() <= 20);
    }
}

/// Sends `n` messages, of which these datagrams are lost, and `repairs` behind them.
fn update(n: u64, lost: &[u64], repairs: u32) -> TestPath {
    let mut path = TestPath::new(50 * MS, 0, 1);
    path.doomed = lost.iter().copied().collect();
    (0..n).for_each(|number| assert_eq!(path.sender.message(of_number(number), true), number));
    path.sender.repair(repairs);
    path.sender.fence();
    path
}

#[test]
fn repair_spares_the_round_trip() {
    // WB-9: 40 messages of which three are lost, the first and the last among them.
    let mut path = update(40, &[0, 7, 39], 3);
    path.rest();
    assert_eq!(path.delivered.len(), 40);
    let last = path.delivered.iter().map(|&(at, _)| at).max().unwrap();
    assert_eq!(last, Time::ZERO + Duration::from_millis(1050), "with the repair itself");
    assert_eq!((path.sender.stats().resent, path.sender.stats().recovered), (0, 3));
    assert_eq!(path.receiver.stats().recovered, 3);
}

#[test]
fn what_repair_cannot_replace_is_sent_again_after_a_round_trip() {
    // WB-14: two are lost, and one repair of two. When both repairs should have been heard of, both are sent
    // again: a round trip and an eighth, and one way there. The first to come makes the repair enough for
    // the other.
    let mut path = update(40, &[5, 6, 40], 2);
    path.rest();
    assert_eq!((path.sender.stats().resent, path.sender.stats().recovered), (2, 1));
    let last = path.delivered.iter().map(|&(at, _)| at).max().unwrap();
    let late = last.since(Time::ZERO + Duration::from_secs(1));
    assert!((150 * MS..=175 * MS).contains(&late), "{late:?}");
}

#[test]
fn a_lost_end_is_asked_for_by_a_probe_timeout() {
    // WB-14: all of them are lost, so that no report comes; 100 ms, four times half of that, 10 ms.
    let mut path = update(3, &[0, 1, 2], 0);
    path.rest();
    assert_eq!(path.delivered.len(), 3);
    let first = path.delivered[0].0.since(Time::ZERO + Duration::from_secs(1));
    assert_eq!(first, 310 * MS + 50 * MS);
    // The timeout doubles while nothing is heard.
    // Each time it is the message, and a number of its own.
    let mut silent = update(1, &(0..9).collect::<Vec<_>>(), 0);
    silent.rest();
    let last = silent.delivered[0].0.since(Time::ZERO + Duration::from_secs(1));
    assert_eq!(last, 310 * MS * (1 + 2 + 4 + 8 + 16) + 50 * MS);
}

#[test]
fn of_a_long_end_that_is_lost_all_is_sent_again_behind_one_probe_timeout() {
    // WB-22: of 100 messages the last 60, as when a page had no room for them. The timeout of 310 ms, a round
    // trip of the probe, and one way of all others.
    let mut path = update(100, &(40..100).collect::<Vec<_>>(), 0);
    path.rest();
    assert_eq!(path.delivered.len(), 100);
    let last = path.delivered.iter().map(|&(at, _)| at).max().unwrap();
    let late = last.since(Time::ZERO + Duration::from_secs(1));
    assert!((460 * MS..=475 * MS).contains(&late), "{late:?}");
    assert_eq!(path.sender.stats().resent, 60, "each of them once, and nothing else");
    assert_eq!((path.sender.stats().messages, path.sender.outstanding()), (100, 0));
    // The probe delivers nothing, is no outcome, and holds up nobody who comes later.
    assert_eq!((path.receiver.stats().gone, path.outcomes.len()), (1, 100));
    path.sender.fence();
    path.sender.message(of_number(101), true);
    path.sender.repair(1);
    path.doomed = [path.to_receiver].into();
    path.rest();
    assert_eq!((path.delivered.len(), path.receiver.stats().recovered), (101, 1));
}

#[test]
fn messages_that_are_not_kept_are_given_up_and_hold_nobody_up() {
    let mut path = TestPath::new(50 * MS, 0, 1);
    path.doomed = [1].into();
    for number in 0..6 {
        path.sender.message(of_number(number), number != 1);
    }
    path.sender.fence();
    path.sender.message(of_number(6), true);
    path.rest();
    // WB-6: the one behind the fence came after GONE.
    assert_eq!(path.texts().iter().map(|text| number_of(text)).collect::<Vec<_>>(), [0, 2, 3, 4, 5, 6]);
    assert_eq!((path.outcomes[&1], path.receiver.stats().gone), (false, 1));
}

#[test]
fn what_has_expired_is_neither_sent_again_nor_covered_and_its_loss_counts() {
    // WB-24.
    let mut path = TestPath::new(50 * MS, 0, 1);
    path.doomed = [1].into();
    for number in 0..4 {
        path.sender.message(of_number(number), true);
    }
    path.turn();
    path.sender.expire(1);
    path.sender.message(of_number(4), true);
    path.sender.repair(1);
    let before = path.sender.loss().rate();
    path.rest();
    assert_eq!(path.texts().iter().map(|text| number_of(text)).collect::<Vec<_>>(), [0, 2, 3, 4]);
    assert_eq!((path.receiver.stats().recovered, path.receiver.stats().gone), (0, 1));
    assert_eq!((path.outcomes[&0], path.outcomes[&1], path.outcomes[&4]), (true, false, true));
    assert!(path.sender.loss().rate() > before);
    // One that has arrived and expires before that is known was not lost; nor does a probe repeat it.
    let mut path = TestPath::new(50 * MS, 0, 1);
    path.sender.message(of_number(0), true);
    path.turn();
    path.sender.expire(0);
    path.rest();
    assert_eq!((path.outcomes[&0], path.sender.stats().resent), (true, 0));
}

#[test]
fn a_new_sequence_takes_the_place_of_the_old_one() {
    // WB-3.
    let mut path = update(5, &[2], 0);
    path.sender.fence();
    path.sender.message(of_number(5), true);
    path.turn();
    path.sender.restart();
    path.sender.message(Bytes::from_static(b"anew"), true);
    path.rest();
    assert_eq!(path.delivered.last().unwrap().1, Bytes::from_static(b"anew"));
    assert!(path.texts().iter().all(|text| text.len() < 8 || number_of(text) != 5), "it waited for 2");
    assert_eq!(path.outcomes, [(0, true)].into(), "of the old one nothing is told");
    // What was under way of the old one is passed over.
    let mut receiver = FencedReceiver::new();
    let place = |number, behind| FencedPlace { number, behind };
    receiver.receive(path.now, &format::message(3, place(0, 0), Some(b"three"))).unwrap();
    receiver.receive(path.now, &format::message(2, place(0, 0), Some(b"two"))).unwrap();
    assert_eq!(receiver.next().as_deref(), Some(&b"three"[..]));
    assert_eq!((receiver.next(), receiver.stats().ignored), (None, 1));
}

#[test]
fn a_receiver_reads_what_the_specification_shows() {
    // Of `spec/web.md` §10.
    let read = FencedDatagram::read(&[0x01, 0x00, 0x05, 0x02, 0x68, 0x69]).unwrap();
    let place = FencedPlace { number: 5, behind: 2 };
    assert_eq!(read, FencedDatagram::Message { sequence: 0, place, payload: b"hi" });
    assert_eq!(format::message(0, place, Some(b"hi")), [0x01, 0x00, 0x05, 0x02, 0x68, 0x69]);
    assert_eq!(format::message(0, place, None), [0x02, 0x00, 0x05, 0x02]);
    let mut symbol = Vec::new();
    format::symbol(2, b"hi", &mut symbol);
    assert_eq!(symbol, [0x00, 0x02, 0x02, 0x68, 0x69]);
    // 0, 1, 3 and 4 have arrived.
    let (mut receiver, at) = (FencedReceiver::new(), Time::ZERO);
    for number in [0, 1, 3, 4] {
        let datagram = format::message(0, FencedPlace { number, behind: 0 }, Some(b"x"));
        receiver.receive(at, &datagram).unwrap();
    }
    let report = receiver.report(at + Duration::from_micros(500)).unwrap();
    assert_eq!(report, [0x04, 0x00, 0x02, 0x04, 0x41, 0xf4, 0x00, 0x01, 0x01, 0x02]);
}

#[test]
fn what_cannot_be_read_ends_the_session() {
    let fault = |datagram: &[u8]| FencedReceiver::new().receive(Time::ZERO, datagram).err();
    // WB-1.
    assert_eq!((fault(&[9, 1, 2]), fault(&[0])), (None, None));
    // WB-2: a field is missing; behind more than number; a count of 0 and 257; too long; too far.
    assert_eq!(fault(&[]), Some(DatagramFault::Short));
    assert_eq!(fault(&[1, 0, 5]), Some(DatagramFault::Short));
    assert!(matches!(fault(&[1, 0, 5, 6]), Some(DatagramFault::Value { value: 6, .. })));
    assert!(matches!(fault(&[3, 0, 0, 0, 0, 1]), Some(DatagramFault::Value { value: 0, .. })));
    assert!(matches!(fault(&[3, 0, 0, 0x41, 0x01, 0, 1]), Some(DatagramFault::Value { value: 257, .. })));
    let long = [&[1, 0, 0, 0][..], &vec![0; 16_385]].concat();
    assert!(matches!(fault(&long), Some(DatagramFault::Value { value: 16_385, .. })));
    let far = [&[3, 0][..], &[0xff; 8], &[2, 0, 1]].concat();
    assert!(matches!(fault(&far), Some(DatagramFault::Value { .. })));
    // WB-9: the sum over one message that was never sent says that it is longer than it is, or lies.
    let symbol = |symbol: &[u8]| {
        let mut sum = vec![0; symbol.len()];
        let c = rlc::coefficient(0, 0);
        quickset_fec::gf256::Kernel::best().mul_add(&mut sum, c, symbol);
        fault(&format::repair(0, 0, 1, 0, &sum))
    };
    assert_eq!(symbol(&[0, 2, 0, b'h', b'i']), None);
    assert_eq!(symbol(&[0, 1, 0, b'h', b'i']), Some(DatagramFault::Repair));
    assert_eq!(symbol(&[0, 2, 1, b'h', b'i']), Some(DatagramFault::Repair));
}

#[test]
fn reports_that_cannot_be_true_end_the_session() {
    // WB-13: five messages were sent.
    let fault = |datagram: &[u8]| {
        let mut sender = update(5, &[], 0).sender;
        while sender.poll(Time::ZERO).is_some() {}
        sender.report(Time::ZERO, datagram).err()
    };
    assert_eq!(fault(&[4, 0, 2, 4, 0, 0, 1, 1, 1]), None);
    assert!(matches!(fault(&[4, 0, 6, 0, 0, 0, 0]), Some(DatagramFault::Value { value: 6, .. })));
    assert!(matches!(fault(&[4, 0, 2, 5, 0, 0, 0]), Some(DatagramFault::Value { value: 5, .. })));
    assert!(matches!(fault(&[4, 0, 2, 4, 0, 0, 1, 1, 3]), Some(DatagramFault::Value { value: 6, .. })));
    assert!(matches!(fault(&[4, 0, 2, 4, 0, 0, 1, 0, 1]), Some(DatagramFault::Value { value: 0, .. })));
    assert!(matches!(fault(&[4, 0, 2, 4, 0, 0, 1, 1, 0]), Some(DatagramFault::Value { value: 0, .. })));
    assert!(matches!(fault(&[4, 1, 0, 0, 0, 0, 0]), Some(DatagramFault::Value { value: 1, .. })));
    assert_eq!(fault(&[4, 0, 2, 4, 0, 0, 1, 1]), Some(DatagramFault::Short));
    assert_eq!(fault(&[4, 0, 2]), Some(DatagramFault::Short));
}

#[test]
fn reports_come_at_a_gap_and_otherwise_after_a_while() {
    let (mut receiver, at) = (FencedReceiver::new(), Time::ZERO);
    let message = |number| format::message(0, FencedPlace { number, behind: 0 }, Some(b"x"));
    receiver.receive(at, &message(0)).unwrap();
    // WB-11.
    assert_eq!((receiver.report(at), receiver.next_deadline()), (None, Some(at + 10 * MS)));
    receiver.receive(at, &message(2)).unwrap();
    assert!(receiver.report(at).is_some(), "1 is missing, which is news");
    receiver.receive(at, &message(3)).unwrap();
    assert_eq!((receiver.report(at), receiver.next_deadline()), (None, Some(at + 10 * MS)));
    // WB-12: of a hundred holes the lowest 64 ranges.
    for number in 2..100 {
        receiver.receive(at, &message(number * 2)).unwrap();
    }
    let report = receiver.report(at).unwrap();
    let FencedDatagram::Report(report) = FencedDatagram::read(&report).unwrap() else { panic!() };
    let mut ranges = Vec::new();
    report.for_each_range(|range| ranges.push(range)).unwrap();
    assert_eq!((ranges.len(), ranges[0].clone(), ranges[63].start), (64, 2..5, 130));
}

#[test]
fn what_is_too_far_ahead_or_too_much_is_as_if_lost() {
    // WB-7.
    let (mut receiver, at) = (FencedReceiver::new(), Time::ZERO);
    let message = |number, behind| format::message(0, FencedPlace { number, behind }, Some(&[7; 16_384]));
    receiver.receive(at, &message(4096, 0)).unwrap();
    assert_eq!((receiver.held(), receiver.stats().ignored), (0, 1));
    // They wait for number 0, and are not 64 MiB.
    for number in 1..4096 {
        receiver.receive(at, &message(number, number - 1)).unwrap();
    }
    // Each takes 128 bytes more than its own.
    assert_eq!(receiver.held(), (8 << 20) / (16_384 + 128));
    receiver.receive(at, &message(0, 0)).unwrap();
    assert_eq!((std::iter::from_fn(|| receiver.next()).count(), receiver.held()), (509, 0));
    // A sender does not send so far.
    let mut sender = FencedSender::new(SenderOptions::default());
    (0..4096).for_each(|n| assert_eq!(sender.message(of_number(n), true), n));
    assert!(!sender.has_room());
    // Nor so much.
    let mut sender = FencedSender::new(SenderOptions::default());
    let fill = |sender: &mut FencedSender| {
        let messages = std::iter::from_fn(|| {
            sender.has_room().then(|| sender.message(Bytes::from_static(&[7; 16_384]), true))
        });
        messages.count()
    };
    assert_eq!(fill(&mut sender), (8 << 20) / (16_384 + 128));
    while sender.poll(at).is_some() {}
    assert_eq!(fill(&mut sender), 0);
    // Three have arrived, and two are given up, one of them twice.
    sender.report(at, &[4, 0, 3, 2, 0, 0, 0]).unwrap();
    for number in [10, 11, 10] {
        sender.abandon(number);
    }
    assert_eq!(fill(&mut sender), 5);
}

#[test]
fn what_nobody_takes_is_as_if_lost_until_somebody_does() {
    // Free to be delivered, since no fence is above number 0; and again while others wait for a hole.
    for length in [0, 1000, 16_384] {
        let (mut receiver, at) = (FencedReceiver::new(), Time::ZERO);
        let payload = vec![7; length];
        let message = |sequence, number, fence| {
            let place = FencedPlace { number, behind: number - fence };
            format::message(sequence, place, Some(&payload))
        };
        let most = u64::try_from((8 << 20) / (length + 128)).unwrap();
        for number in 0..most {
            receiver.receive(at, &message(0, number, 0)).unwrap();
        }
        assert_eq!((receiver.stats().messages, receiver.stats().ignored), (most, 0), "{length}");
        // Neither one of these, nor one that waits, nor one of another sequence finds room.
        receiver.receive(at, &message(0, most, 0)).unwrap();
        receiver.receive(at, &message(0, most + 2, most + 2)).unwrap();
        receiver.receive(at, &message(1, 0, 0)).unwrap();
        assert_eq!((receiver.stats().messages, receiver.stats().ignored, receiver.held()), (most, 3, 0));
        // The sender hears that it did not arrive, and sends it again.
        let report = receiver.report(at + 10 * MS).unwrap();
        let FencedDatagram::Report(report) = FencedDatagram::read(&report).unwrap() else { panic!() };
        assert_eq!((report.sequence, report.below), (1, 0));
        assert_eq!(receiver.next().map(|message| message.len()), Some(length));
        receiver.receive(at, &message(1, 0, 0)).unwrap();
        let taken = std::iter::from_fn(|| receiver.next()).count();
        assert_eq!(u64::try_from(taken).unwrap(), most);
    }
}

#[test]
fn repairs_cover_what_was_sent_and_is_not_gone() {
    // WB-8: 300 messages, the newest 256; then 290 is given up.
    let mut sender = FencedSender::new(SenderOptions::default());
    (0..300).for_each(|n| assert_eq!(sender.message(of_number(n), true), n));
    sender.repair(2);
    sender.message(of_number(300), true);
    let now = Time::ZERO;
    let covers = |datagram: &[u8]| match FencedDatagram::read(datagram).unwrap() {
        FencedDatagram::Repair { first, count, seed, sum, .. } => {
            // By itself: the sum of the symbols, each times its coefficient.
            let mut expected = vec![0; sum.len()];
            for number in first..first + count {
                let payload = of_number(number);
                let mut symbol = Vec::new();
                format::symbol(number, &payload, &mut symbol);
                let c = rlc::coefficient(seed, number);
                for (place, byte) in expected.iter_mut().zip(symbol) {
                    *place ^= quickset_fec::gf256::mul(byte, c);
                }
            }
            assert_eq!(sum, expected);
            Some((first, count, seed))
        }
        _ => None,
    };
    let sent: Vec<_> = std::iter::from_fn(|| sender.poll(now)).collect();
    let repairs: Vec<_> = sent.iter().filter_map(|datagram| covers(datagram)).collect();
    assert_eq!(repairs, [(44, 256, 0), (44, 256, 1)]);
    sender.abandon(290);
    sender.repair(1);
    let sent: Vec<_> = std::iter::from_fn(|| sender.poll(now)).collect();
    assert_eq!(sent[0], format::message(0, FencedPlace { number: 290, behind: 290 }, None), "GONE");
    assert_eq!(covers(&sent[1]), Some((291, 10, 2)));
}

#[test]
fn repair_reaches_back_as_far_as_symbols_are_kept() {
    // WB-10: number 76 of 1100 is missing, the oldest of the newest 1024.
    let missing = 1100 - 1024;
    let (mut receiver, now) = (FencedReceiver::new(), Time::ZERO);
    let symbol = |number: u64| {
        let mut symbol = Vec::new();
        format::symbol(0, &of_number(number), &mut symbol);
        symbol
    };
    for number in (0..1100).filter(|&number| number != missing) {
        let datagram = format::message(0, FencedPlace { number, behind: 0 }, Some(&of_number(number)));
        receiver.receive(now, &datagram).unwrap();
    }
    let mut sum = vec![0; 1000];
    for number in missing..missing + 256 {
        for (place, byte) in sum.iter_mut().zip(symbol(number)) {
            *place ^= quickset_fec::gf256::mul(byte, rlc::coefficient(9, number));
        }
    }
    receiver.receive(now, &format::repair(0, missing, 256, 9, &sum)).unwrap();
    assert_eq!(receiver.stats().recovered, 1);
    // One that is older is passed over, and harms nobody.
    receiver.receive(now, &format::repair(0, missing - 1, 256, 10, &[7; 1000])).unwrap();
    assert_eq!((receiver.stats().recovered, receiver.stats().repairs), (1, 2));
}

#[test]
fn the_longest_message_and_its_repair_fit_the_datagram() {
    let mut sender = FencedSender::new(SenderOptions::default());
    for n in 0..70 {
        let longest = sender.longest(1173);
        sender.message(vec![n; longest].into(), true);
        sender.repair(1);
        while let Some(datagram) = sender.poll(Time::ZERO) {
            assert!(datagram.len() <= 1173, "{} bytes of message {n}", datagram.len());
        }
    }
    assert!(sender.longest(1173) >= 1155, "little is left unused");
}
