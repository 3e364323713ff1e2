//! Unreliable datagrams between two connections, in virtual time (RFC 9221).

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use quickset_base::Duration;
use quickset_policies::read;
use quickset_quic::{
    Algorithm, DatagramConfig, DatagramError, DatagramOptions, DatagramOutcome, DatagramStats,
    DatagramTicket, Dir, Event, Protection, Stats, WhenFull,
};

use crate::common::{Pair, Setup, pattern};

const LOSSY: &str = "rate=20mbit delay=20ms queue=1MB loss=3%";

const REPORTED: DatagramOptions =
    DatagramOptions { deadline: None, when_full: WhenFull::Refuse, report: true };

fn numbered(n: u64, len: usize) -> Bytes {
    let mut data = vec![n as u8; len.max(8)];
    data[..8].copy_from_slice(&n.to_be_bytes());
    data.into()
}

/// A client that sends numbered datagrams, and what became of them on both sides.
struct Run {
    pair: Pair,
    tickets: BTreeMap<DatagramTicket, u64>,
    received: Vec<u64>,
    outcomes: BTreeMap<u64, DatagramOutcome>,
}

impl Run {
    fn new(pair: Pair) -> Self {
        Self { pair, tickets: BTreeMap::new(), received: Vec::new(), outcomes: BTreeMap::new() }
    }

    fn send(&mut self, n: u64, len: usize, how: &DatagramOptions) {
        let (key, now) = (self.pair.key, self.pair.world.now());
        let connection = self.pair.client_mut().connection(key);
        let ticket = connection.datagrams().send(now, numbered(n, len), how).expect("it is taken");
        assert_eq!(self.tickets.insert(ticket, n), None, "a ticket names one datagram");
    }

    fn pass(&mut self, time: Duration) {
        self.pair.pass(time);
        let (key, at) = (self.pair.key, self.pair.server_key());
        while let Some(data) = self.pair.server_mut().connection(at).datagrams().recv() {
            let n = u64::from_be_bytes(data[..8].try_into().expect("eight bytes"));
            assert_eq!(data, numbered(n, data.len()), "whole and unchanged");
            self.received.push(n);
        }
        while let Some((ticket, outcome)) = self.pair.client_mut().connection(key).datagrams().next_outcome()
        {
            let n = self.tickets[&ticket];
            assert_eq!(self.outcomes.insert(n, outcome), None, "each outcome is told once");
        }
    }

    /// `n` datagrams, one each `pause`, and all the time they need.
    fn stream(&mut self, n: u64, len: usize, pause: Duration) {
        for n in 0..n {
            self.send(n, len, &REPORTED);
            if n % 8 == 7 {
                self.pass(8 * pause);
            }
        }
        self.pass(Duration::from_secs(5));
    }

    fn with(&self, outcome: DatagramOutcome) -> BTreeSet<u64> {
        self.outcomes.iter().filter(|(_, is)| **is == outcome).map(|(n, _)| *n).collect()
    }

    fn stats(&mut self) -> (Stats, Stats) {
        let (key, at) = (self.pair.key, self.pair.server_key());
        let client = self.pair.client_mut().connection(key).stats();
        (client, self.pair.server_mut().connection(at).stats())
    }
}

#[test]
fn datagrams_arrive_once_or_not_at_all_and_their_sender_knows() {
    for seed in quickset_sim::seeds(0..4) {
        let mut run =
            Run::new(Setup::new(seed, LOSSY).transport(|t| t.congestion = Algorithm::Bbr).connected());
        run.stream(2000, 1000, Duration::from_millis(10));
        let arrived: BTreeSet<u64> = run.received.iter().copied().collect();
        assert_eq!(arrived.len(), run.received.len(), "seed {seed}: none comes twice");
        assert_eq!(run.outcomes.len(), 2000, "seed {seed}: each has an outcome");
        // Without reordering, what is declared lost was lost.
        assert_eq!(run.with(DatagramOutcome::Acknowledged), arrived, "seed {seed}");
        let lost = run.with(DatagramOutcome::Lost).len();
        assert_eq!(lost + arrived.len(), 2000, "seed {seed}");
        // 3 % of 2000, more or less four standard deviations.
        assert!((30..=92).contains(&lost), "seed {seed}: {lost} lost");
        assert!(run.received.is_sorted(), "seed {seed}: sent in order");
        let (client, server) = run.stats();
        let (sent, got) = (client.datagrams, server.datagrams);
        assert_eq!((sent.sent, sent.acknowledged, sent.lost), (2000, arrived.len() as u64, lost as u64));
        assert_eq!(
            (got.received, got.received_bytes, got.dropped),
            (sent.acknowledged, sent.acknowledged * 1000, 0)
        );
    }
}

/// RFC 9221 §5: a packet may have several DATAGRAM frames. 1200 bytes with a header of at most 28 and a tag
/// of 16 hold eleven of 100 bytes, each with a type and a length of two bytes; those sent in one call and
/// those sent one by one alike.
#[test]
fn small_datagrams_share_packets() {
    for together in [false, true] {
        let mut run = Run::new(
            Setup::new(1, "rate=100mbit delay=20ms queue=1MB").transport(|t| t.mtu = 1200).connected(),
        );
        run.pass(Duration::from_secs(1));
        let before = run.stats().0.sent_packets;
        if together {
            let (key, now) = (run.pair.key, run.pair.world.now());
            let mut data = (0..110).map(|n| numbered(n, 100)).collect();
            let connection = run.pair.client_mut().connection(key);
            let how = DatagramOptions::default();
            assert_eq!(connection.datagrams().send_all(now, &mut data, &how), Ok(()));
            assert!(data.is_empty());
        } else {
            (0..110).for_each(|n| run.send(n, 100, &REPORTED));
        }
        run.pass(Duration::from_secs(1));
        assert_eq!(run.received, (0..110).collect::<Vec<_>>());
        let (client, server) = run.stats();
        assert_eq!((client.datagrams.sent, server.datagrams.received), (110, 110));
        let packets = client.sent_packets - before;
        assert!((10..=12).contains(&packets), "{packets} packets");
    }
}

#[test]
fn a_probe_does_not_take_a_datagram_for_lost() {
    // The way back is silent for a second, and nothing is lost on the way there.
    let mut setup = Setup::new(1, "rate=20mbit delay=20ms queue=1MB");
    setup.down = Some("rate=20mbit delay=20ms queue=1MB blackout=200ms+1s".parse().expect("a link"));
    let mut run = Run::new(setup.connected());
    run.pass(Duration::from_millis(180));
    run.send(0, 500, &REPORTED);
    run.pass(Duration::from_secs(3));
    let (client, _) = run.stats();
    assert!(client.ptos > 0, "there were probes");
    assert_eq!(run.received, [0], "and the datagram was not in them again");
    assert_eq!(run.outcomes[&0], DatagramOutcome::Acknowledged);
}

#[test]
fn a_protected_datagram_is_recovered_and_never_repeated() {
    for (seed, protection) in (0..).zip(["xor:4", "rs:12/10", "fixed:5", "tum:3", "messages", "adaptive"]) {
        let value = read(protection).expect("a protection");
        let setup = Setup::new(seed, LOSSY).transport(|t| {
            t.mtu = 1472;
            t.congestion = Algorithm::Bbr;
        });
        let mut run = Run::new(setup.connected());
        let key = run.pair.key;
        run.pair.client_mut().connection(key).datagrams().set_protection(&value);
        for n in 0..2000 {
            run.send(n, 1000, &REPORTED);
            if n % 10 == 9 {
                run.pair.client_mut().connection(key).datagrams().flush();
                run.pass(Duration::from_millis(100));
            }
        }
        run.pass(Duration::from_secs(5));
        let what = format!("{protection}, seed {seed}");
        let (client, server) = run.stats();
        let arrived: BTreeSet<u64> = run.received.iter().copied().collect();
        assert_eq!(arrived.len(), run.received.len(), "{what}: FEC-20, none comes twice");
        assert_eq!(run.outcomes.len(), 2000, "{what}: each has an outcome");
        assert_eq!(client.fec.repeats_sent, 0, "{what}: nobody wants one again");
        assert!(client.fec.sources_sent > 500 && client.fec.repairs_sent > 0, "{what}: {:?}", client.fec);
        assert!(server.fec.recovered_here > 5, "{what}: {:?}", server.fec);
        let known = |outcome| run.with(outcome).is_subset(&arrived);
        assert!(known(DatagramOutcome::Acknowledged) && known(DatagramOutcome::Recovered), "{what}");
        // Of 60 lost, most are there all the same.
        // Of 60 lost, most are there all the same.
        let DatagramStats { recovered, lost, .. } = client.datagrams;
        assert!(recovered > 2 * lost, "{what}: {recovered} recovered, {lost} lost");
    }
}

#[test]
fn the_longest_datagrams_fit_packets_and_symbols() {
    for protection in [Protection::None, "rs:12/10".parse().expect("a protection")] {
        let mut run = Run::new(Setup::new(7, "rate=20mbit delay=5ms queue=1MB").connected());
        let key = run.pair.key;
        let connection = run.pair.client_mut().connection(key);
        connection.datagrams().set_protection(&protection);
        let max = connection.max_datagram_len().expect("the peer takes datagrams");
        for n in 0..50 {
            run.send(n, max, &REPORTED);
        }
        run.pass(Duration::from_secs(1));
        assert_eq!(run.with(DatagramOutcome::Acknowledged).len(), 50);
        let (client, _) = run.stats();
        if protection == Protection::None {
            // A short header of 1 + 8 + 4 and a tag of 16 bytes; a frame of 1 + 2 and the data.
            assert_eq!(max, 1200 - 29 - 3);
            let longer = run.pair.client_mut().connection(key).datagrams().send(
                quickset_base::Time::ZERO,
                numbered(0, max + 1),
                &REPORTED,
            );
            assert_eq!(longer.map_err(|e| e.why), Err(DatagramError::TooLong { max }));
        } else {
            assert_eq!(client.fec.sources_sent, 50, "each of them is protected");
            run.send(99, 1200 - 29 - 3, &REPORTED);
            run.pass(Duration::from_secs(1));
            assert_eq!(run.outcomes[&99], DatagramOutcome::Acknowledged, "longer ones go without");
        }
    }
}

#[test]
fn datagrams_and_streams_share_what_there_is() {
    for (seed, protected) in [(3, false), (4, true)] {
        let setup = Setup::new(seed, "rate=10mbit delay=10ms queue=60kB").transport(|t| {
            if protected {
                let protection = read("fixed:20").expect("a protection");
                t.fec = Some(quickset_quic::Fec::default().with_protection(protection));
            }
        });
        let mut run = Run::new(setup.connected());
        let key = run.pair.key;
        run.pair.client_mut().send(key, Dir::Uni, pattern(6_000_000));
        let (mut n, mut refused) = (0, 0);
        for _ in 0..400 {
            loop {
                let (now, data) = (run.pair.world.now(), numbered(n, 700));
                let connection = run.pair.client_mut().connection(key);
                match connection.datagrams().send(now, data, &DatagramOptions::default()) {
                    Ok(_) => n += 1,
                    Err(unsent) => {
                        assert_eq!(unsent.why, DatagramError::Full);
                        refused += 1;
                        break;
                    }
                }
            }
            run.pass(Duration::from_millis(5));
        }
        let (_, server) = run.stats();
        let told = |e: &Event| matches!(e, Event::Datagram(quickset_quic::DatagramEvent::Writable));
        let stream: usize = run.pair.server().received.values().map(Vec::len).sum();
        let datagrams = server.datagrams.received_bytes;
        let share = datagrams as f64 / (datagrams as f64 + stream as f64);
        // Each has the turns of the other; what is lost costs the stream a little more.
        assert!((0.4..0.6).contains(&share), "seed {seed}: {share}");
        // Packets are full although a second datagram of 700 bytes never fits: 10 Mbit/s for two seconds.
        let rate = (datagrams as f64 + stream as f64) * 8.0 / 2.0;
        assert!(rate > if protected { 6.5e6 } else { 8.0e6 }, "seed {seed}: {rate}");
        // Whoever was refused hears when there is room.
        assert!(refused > 10 && !run.pair.client().events.iter().any(told));
        run.pass(Duration::from_secs(1));
        assert_eq!(run.pair.client().events.iter().filter(|e| told(e)).count(), 1);
    }
}

#[test]
fn what_is_too_old_is_not_sent() {
    let mut run = Run::new(Setup::new(5, "rate=1mbit delay=20ms queue=100kB").connected());
    let deadline = Some(run.pair.world.now() + Duration::from_millis(100));
    for n in 0..200 {
        run.send(n, 1000, &DatagramOptions { deadline, ..REPORTED });
    }
    run.pass(Duration::from_millis(100));
    let expired = run.with(DatagramOutcome::Expired);
    assert!(expired.len() > 50 && expired.contains(&199), "{} expired at their time", expired.len());
    run.pass(Duration::from_secs(5));
    assert_eq!(run.outcomes.len(), 200);
    assert!(run.received.iter().all(|n| !expired.contains(n)));
    assert_eq!(run.stats().0.datagrams.expired, expired.len() as u64);
}

#[test]
fn the_newest_replace_the_oldest_on_both_sides() {
    let few = DatagramConfig::default().with_send_count(10).with_receive_count(3);
    let setup = Setup::new(6, "rate=10mbit delay=20ms queue=100kB").transport(|t| t.datagrams = few);
    let mut run = Run::new(setup.connected());
    for n in 0..30 {
        run.send(n, 100, &DatagramOptions { when_full: WhenFull::DropOldest, ..REPORTED });
    }
    run.pass(Duration::from_secs(1));
    assert_eq!(run.with(DatagramOutcome::Displaced), (0..20).collect());
    assert_eq!(run.received, [27, 28, 29]);
    let (client, server) = run.stats();
    assert_eq!(
        (client.datagrams.displaced, client.datagrams.acknowledged, server.datagrams.dropped),
        (20, 10, 7)
    );
}

#[test]
fn who_offers_none_is_sent_none_and_may_send() {
    let mut setup = Setup::new(8, "rate=10mbit delay=20ms queue=100kB");
    setup.client.datagrams.max_frame_size = 0;
    let mut run = Run::new(setup.connected());
    let (at, now) = (run.pair.server_key(), run.pair.world.now());
    let server = run.pair.server_mut().connection(at);
    assert_eq!(server.max_datagram_len(), None);
    let unsent = server.datagrams().send(now, numbered(1, 10), &REPORTED).expect_err("it is not taken");
    assert_eq!((unsent.why, unsent.data), (DatagramError::Unsupported, numbered(1, 10)));
    run.send(3, 10, &REPORTED);
    run.pass(Duration::from_secs(1));
    assert_eq!((run.received.as_slice(), run.outcomes[&3]), (&[3][..], DatagramOutcome::Acknowledged));
}

#[test]
fn no_credit_of_any_kind_holds_datagrams_back() {
    let mut setup = Setup::new(9, "rate=10mbit delay=20ms queue=100kB");
    setup.server.max_connection_window = 70_000;
    setup.server.stream_window = 70_000;
    let mut pair = setup.connected();
    pair.server_mut().lazy = true;
    let key = pair.key;
    pair.client_mut().send(key, Dir::Uni, pattern(500_000));
    let mut run = Run::new(pair);
    run.pass(Duration::from_secs(1));
    run.stream(100, 900, Duration::from_millis(1));
    assert_eq!(run.with(DatagramOutcome::Acknowledged).len(), 100);
}
