use quickset_base::{AddressPair, Rng, Seed};
use quickset_quic::null::{NullClient, NullSecrets};
use quickset_quic::{ClientConfig, Endpoint, EndpointConfig};

use super::*;

/// So many keys of connections, as an endpoint gives them out.
fn keys(n: usize) -> Vec<ConnectionKey> {
    let crypto = std::sync::Arc::new(NullSecrets(1));
    let config = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 0 };
    let mut endpoint = Endpoint::new(config, None, Rng::new(Seed([7; 32])));
    let crypto = std::sync::Arc::new(NullClient::new(&[b"test"]));
    let config = ClientConfig { crypto, transport: std::sync::Arc::default() };
    let mut begin = || endpoint.connect(Time::ZERO, &config, AddressPair::to(at(1)), "localhost", Vec::new());
    (0..n).map(|_| begin().unwrap().0).collect()
}

fn at(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

/// Connections that always have more to send, in a batch at a time, as the driver asks them.
struct Senders {
    ensembles: Ensembles,
    keys: Vec<ConnectionKey>,
    shares: Vec<EnsembleShare>,
    /// Of each, what is in flight and what was lost.
    flights: Vec<Flight>,
    ready: VecDeque<usize>,
    /// Batches that left, and whose they were.
    left: Vec<usize>,
    now: Time,
}

impl Senders {
    fn new(n: usize, trip: Duration) -> Self {
        let keys = keys(n);
        let flight = Flight { remote: at(1), bytes: 0, more: true, lost: 0, trip, srtt: trip };
        let mut senders = Self {
            ensembles: Ensembles::default(),
            keys,
            shares: vec![EnsembleShare::default(); n],
            flights: vec![flight; n],
            ready: VecDeque::new(),
            left: Vec::new(),
            now: Time::ZERO,
        };
        (0..n).for_each(|who| senders.settle(who, Polled::Rests));
        senders
    }

    fn settle(&mut self, who: usize, polled: Polled) {
        let Self { ensembles, keys, shares, flights, now, .. } = self;
        let next = ensembles.settle(*now, keys[who], &mut shares[who], &flights[who], polled);
        self.call(next);
    }

    fn call(&mut self, next: Option<ConnectionKey>) {
        let next = next.map(|key| self.keys.iter().position(|known| *known == key).unwrap());
        self.ready.extend(next);
    }

    /// Whoever is ready sends a batch, if it may; until nobody is.
    fn go_on(&mut self) {
        while let Some(who) = self.ready.pop_front() {
            let waits = self.ensembles.must_wait(self.keys[who], &self.shares[who]);
            if !waits {
                self.flights[who].bytes += BATCH;
                self.left.push(who);
            }
            self.settle(who, if waits { Polled::Awaits } else { Polled::Sent });
            if !waits {
                self.ready.push_back(who);
            }
        }
    }

    fn in_flight(&self) -> u64 {
        self.flights.iter().map(|flight| flight.bytes).sum()
    }

    /// What `who` has in flight has arrived.
    fn arrives(&mut self, who: usize) {
        self.flights[who].bytes = 0;
        self.ready.push_back(who);
    }

    fn leaves(&mut self, who: usize) {
        self.flights[who].bytes = 0;
        let next = self.ensembles.leave(self.keys[who], &mut self.shares[who]);
        self.call(next);
    }
}

/// A thousand that each would send for ever: what is in flight is bounded, and all have the same number of
/// turns, one behind the other.
#[test]
fn a_thousand_take_turns() {
    const N: usize = 1000;
    let mut senders = Senders::new(N, Duration::from_micros(100));
    senders.ready.extend(0..N);
    senders.go_on();
    // RATE for 100 us is 125 kB.
    let most = MOST_QUEUE + 125_000 + BATCH;
    for _ in 0..8 * N {
        assert!(senders.in_flight() <= most, "{}", senders.in_flight());
        let first = (0..N).find(|who| senders.flights[*who].bytes > 0).expect("somebody sends");
        senders.arrives(first);
        senders.go_on();
    }
    senders.left.dedup();
    let turns = |who: usize| senders.left.iter().filter(|left| **left == who).count();
    let all: Vec<usize> = (0..N).map(turns).collect();
    let (least, most) = (all.iter().min().unwrap(), all.iter().max().unwrap());
    assert!(*least >= 4 && most - least <= 2, "{least} to {most} turns each");
}

/// Of a thousand that always have more, and one that has a batch now and then: that one does not wait for all
/// of them.
#[test]
fn a_short_answer_does_not_wait_for_a_thousand_long_ones() {
    const N: usize = 1000;
    let mut senders = Senders::new(N + 1, Duration::from_micros(100));
    senders.flights[N].more = false;
    senders.settle(N, Polled::Rests);
    senders.ready.extend(0..N);
    senders.go_on();
    senders.ready.push_back(N);
    senders.go_on();
    senders.left.clear();
    for turns in 0.. {
        let first = (0..N).find(|who| senders.flights[*who].bytes > 0).expect("somebody sends");
        senders.arrives(first);
        senders.go_on();
        if senders.left.contains(&N) {
            break;
        }
        assert!(turns < 3, "it waits for {:?}", senders.left);
    }
}

/// Whoever waits is called when what was in flight is gone, in whichever way.
#[test]
fn nobody_waits_for_those_who_are_gone() {
    for gone_first in [true, false] {
        let mut senders = Senders::new(100, Duration::from_micros(100));
        senders.ready.extend(0..100);
        senders.go_on();
        let sent: Vec<usize> = (0..100).filter(|who| senders.flights[*who].bytes > 0).collect();
        let waiting: Vec<usize> = (0..100).filter(|who| senders.flights[*who].bytes == 0).collect();
        assert!(sent.len() > 10 && waiting.len() > 10);
        // The first who waits goes; it may have been called.
        let first = waiting[0];
        if gone_first {
            senders.leaves(first);
        }
        for who in sent {
            senders.leaves(who);
        }
        if !gone_first {
            senders.leaves(first);
        }
        senders.left.clear();
        senders.go_on();
        for _ in 0..100 {
            let flying = (0..100).filter(|who| senders.flights[*who].bytes > 0).collect::<Vec<_>>();
            for who in flying {
                senders.arrives(who);
            }
            senders.go_on();
        }
        assert!(waiting[1..].iter().all(|who| senders.left.contains(who)), "{:?}", senders.left);
    }
}

#[test]
fn the_last_one_left_waits_for_nobody() {
    let mut senders = Senders::new(2, Duration::from_micros(100));
    senders.ready.push_back(0);
    // It is alone from the second turn on: the other has all that there is room for.
    senders.flights[1].bytes = 2 * MOST_QUEUE;
    senders.settle(1, Polled::Rests);
    senders.go_on();
    assert!(senders.left.is_empty());
    senders.leaves(1);
    assert_eq!(senders.ready, [0]);
    assert!(!senders.ensembles.must_wait(senders.keys[0], &senders.shares[0]));
}

/// A path of 10 Gbit/s with a round trip of 20 ms and a loss in each of them has 25 MB in flight, as it would
/// with one connection that found it out.
#[test]
fn long_paths_are_filled_whatever_is_lost() {
    let trip = Duration::from_millis(20);
    let mut senders = Senders::new(1000, trip);
    for round in 0..200 {
        senders.now += trip;
        senders.flights[round % 2].lost += 1;
        senders.settle(round % 2, Polled::Rests);
    }
    senders.ready.extend(0..1000);
    senders.go_on();
    assert!(senders.in_flight() >= 25_000_000, "{}", senders.in_flight());
}

/// A buffer of 400 kB, as Linux has by default: what is lost makes the ensemble small enough, and nothing
/// else is lost for long.
#[test]
fn small_buffers_are_found_out() {
    let trip = Duration::from_micros(50);
    let mut senders = Senders::new(10, trip);
    let mut lost_late = 0;
    for round in 0..1000 {
        senders.now += trip;
        senders.ready.extend(0..10);
        senders.go_on();
        let above = senders.in_flight().saturating_sub(400_000);
        let lost = above.div_ceil(1200);
        lost_late += if round >= 100 { lost } else { 0 };
        senders.flights[0].lost += lost;
        (0..10).for_each(|who| senders.flights[who].bytes = 0);
        (0..10).for_each(|who| senders.settle(who, Polled::Rests));
    }
    assert!(lost_late < 900 * 400_000 / 1200 / 100, "{lost_late} of some 300,000 packets");
}

/// The queue comes back, and short round trips of long ago count no more.
#[test]
fn what_was_is_forgotten() {
    let mut room = EnsembleRoom::new(Time::ZERO);
    let ms = Duration::from_millis;
    room.on_trip(Time::ZERO, ms(1));
    assert_eq!(room.bytes, MOST_QUEUE + 1_250_000);
    for n in 1..20 {
        room.on_loss(Time::ZERO + ms(10 * n), ms(5));
    }
    assert_eq!(room.bytes, LEAST_QUEUE + 1_250_000);
    for n in 1..=11_000 {
        room.on_trip(Time::ZERO + ms(200 + n), ms(8));
    }
    assert_eq!(room.bytes, MOST_QUEUE + 10_000_000);
}

#[test]
fn who_moves_belongs_to_another() {
    let mut senders = Senders::new(3, Duration::from_micros(100));
    senders.flights[0].bytes = 2 * MOST_QUEUE;
    senders.settle(0, Polled::Rests);
    let waits =
        |senders: &Senders, who: usize| senders.ensembles.must_wait(senders.keys[who], &senders.shares[who]);
    assert!(waits(&senders, 1) && waits(&senders, 2));
    senders.flights[2].remote = at(2);
    senders.settle(2, Polled::Rests);
    assert!(waits(&senders, 1) && !waits(&senders, 2));
    senders.flights[0].remote = at(2);
    senders.settle(0, Polled::Rests);
    assert!(!waits(&senders, 1) && waits(&senders, 2));
    (0..3).for_each(|who| senders.leaves(who));
    assert!(senders.ensembles.by_address.is_empty());
    assert_eq!(senders.ensembles.free.len(), senders.ensembles.all.len());
}

const BATCH: u64 = 64_000;
