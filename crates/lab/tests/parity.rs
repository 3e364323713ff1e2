//! The same stream of packets through the simulator and, in real time, through the relay.

#![expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")]

use std::collections::BTreeSet;
use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use quickset_base::Time;
use quickset_lab::relay::{Lateness, Relay};
use quickset_sim::{
    Either, LinkCounts, LinkSpec, PacketTraffic, Point, TrafficPace, TrafficSink, TrafficSource, World,
    address,
};

/// A packet every two milliseconds.
const GAP: Duration = Duration::from_millis(2);
const SIZE: usize = 500;

/// What arrived: numbers with their times on the way.
type Arrivals = Vec<(u64, Duration)>;

/// Through the simulator.
fn simulated(link: &LinkSpec, seed: u64, packets: u64) -> (Arrivals, LinkCounts) {
    let bps = SIZE as u64 * 8 * 1_000_000_000 / GAP.as_nanos() as u64;
    let stop = Some(Time::ZERO + GAP * packets as u32);
    let traffic = PacketTraffic { stop, ..PacketTraffic::new(address(2), SIZE, TrafficPace::constant(bps)) };
    let mut world = World::new(seed);
    world.add("source", address(1), Either::Left(TrafficSource::new(traffic, 0)));
    world.add("sink", address(2), Either::Right(TrafficSink::new(Duration::ZERO)));
    let (up, _) = world.join(address(1), address(2), link.clone(), LinkSpec::default());
    let file = Recording::default();
    world.capture(Point::Arrivals, file.clone()).expect("a vector takes everything");
    world.run(Time::MAX).expect("a source rests");
    (file.arrivals(), world.counts(up))
}

/// Through the relay.
fn real(link: &LinkSpec, seed: u64, packets: u64) -> (Arrivals, LinkCounts, Lateness) {
    let bind = || UdpSocket::bind("127.0.0.1:0").expect("the loopback interface has ports");
    let (server, client) = (bind(), bind());
    let to = server.local_addr().expect("it is bound");
    let relay = Relay::start(to, link.clone(), LinkSpec::default(), seed).expect("a relay starts");
    let started = Instant::now();
    let receiver = thread::spawn(move || receive(&server, started));
    send(&client, relay.address(), started, packets);
    let arrivals = receiver.join().expect("it only reads");
    (arrivals, relay.counts()[0], relay.lateness())
}

fn send(client: &UdpSocket, to: SocketAddr, started: Instant, packets: u64) {
    for number in 0..packets {
        thread::sleep((GAP * number as u32).saturating_sub(started.elapsed()));
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8..16].copy_from_slice(&(started.elapsed().as_nanos() as u64).to_le_bytes());
        client.send_to(&bytes, to).expect("a datagram is sent");
    }
}

/// Until nothing has come for a second.
fn receive(server: &UdpSocket, started: Instant) -> Arrivals {
    server.set_read_timeout(Some(Duration::from_secs(1))).expect("a second is a time-out");
    let mut bytes = [0; 2 * SIZE];
    let mut arrivals = Vec::new();
    while let Ok(length) = server.recv(&mut bytes) {
        let at = started.elapsed();
        assert_eq!(length, SIZE);
        let [number, sent] = numbers(&bytes);
        arrivals.push((number, at.saturating_sub(Duration::from_nanos(sent))));
    }
    arrivals
}

/// The number and the time of sending.
fn numbers(payload: &[u8]) -> [u64; 2] {
    [0, 8].map(|at| u64::from_le_bytes(payload[at..at + 8].try_into().expect("8 bytes")))
}

/// A pcap file in memory.
#[derive(Clone, Default)]
struct Recording(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl Recording {
    fn arrivals(&self) -> Arrivals {
        let file = self.0.lock().expect("nobody panicked with it");
        // A file header of 24 bytes; records of 16, and 28 of IP and UDP.
        let records = file[24..].chunks_exact(16 + 28 + SIZE);
        records
            .map(|record| {
                let word =
                    |at| u64::from(u32::from_le_bytes(record[at..at + 4].try_into().expect("4 bytes")));
                let [number, sent] = numbers(&record[16 + 28..]);
                (number, Duration::from_nanos(word(0) * 1_000_000_000 + word(4) - sent))
            })
            .collect()
    }
}

impl std::io::Write for Recording {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("nobody panicked with it").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Tries again where the machine was busy otherwise. One that never does it has a relay that is wrong.
fn in_time(mut run: impl FnMut() -> Result<(), String>) {
    let started = Instant::now();
    while let Err(why) = run() {
        assert!(started.elapsed() < PATIENCE, "{why}");
    }
}

/// The system drops what nobody gets round to reading, and who is not heard of for a second is not waited
/// for.
fn complete(packets: u64, got: &Arrivals, counts: LinkCounts) -> Result<(), String> {
    let all = (counts.sent, got.len() as u64) == (packets, counts.passed);
    if all { Ok(()) } else { Err(format!("the system dropped some: {} of {counts:?}", got.len())) }
}

const PATIENCE: Duration = Duration::from_secs(90);

fn arrived(arrivals: &Arrivals) -> BTreeSet<u64> {
    arrivals.iter().map(|(number, _)| *number).collect()
}

#[test]
fn the_same_packets_are_lost_and_the_others_take_as_long() {
    let link: LinkSpec = "delay=20ms loss=5%".parse().unwrap();
    let (model, model_counts) = simulated(&link, 9, 400);
    assert!(model_counts.lost > 5);
    assert!(model.iter().all(|(_, delay)| *delay == link.delay));
    in_time(|| {
        let (got, counts, lateness) = real(&link, 9, 400);
        // Never early.
        assert!(got.iter().all(|(_, delay)| *delay >= link.delay), "{got:?}");
        complete(400, &got, counts)?;
        assert_eq!(arrived(&got), arrived(&model), "by number, under one seed");
        assert_eq!((counts.lost, counts.passed), (model_counts.lost, model_counts.passed));
        // Late by what the relay says, and by what two sockets and two other threads take: half of the
        // packets within 5 ms.
        let mut late: Vec<_> = got.iter().map(|(_, delay)| delay.saturating_sub(link.delay)).collect();
        late.sort();
        let (median, known) = (late[late.len() / 2], lateness.percentile(0.5));
        if median > known + Duration::from_millis(5) {
            return Err(format!("late by {median:?} at the median, of which the relay knows {known:?}"));
        }
        Ok(())
    });
}

#[test]
fn a_queue_that_is_too_short_drops_as_much() {
    // 2 Mbit/s are offered to 1: of 500 packets half are too many, but for the ten that wait at the end.
    let link: LinkSpec = "rate=1mbit delay=5ms queue=10packets".parse().unwrap();
    let (model, model_counts) = simulated(&link, 1, 500);
    assert_eq!(model.len() as u64, model_counts.passed);
    assert!((250..=262).contains(&model_counts.passed), "{model_counts:?}");
    // No packet waits for less than its own 4 ms or is told of for more than ten of them.
    let least = link.latency(SIZE);
    assert_eq!(model.iter().map(|(_, delay)| *delay).min(), Some(least));
    assert_eq!(model_counts.peak_backlog, 5000);
    in_time(|| {
        let (got, counts, _) = real(&link, 1, 500);
        assert!(got.iter().all(|(_, delay)| *delay >= least));
        assert!(counts.peak_backlog <= model_counts.peak_backlog);
        assert_eq!(counts.sent, counts.passed + counts.overflowed);
        complete(500, &got, counts)?;
        // A sender that was held up catches up in a burst, which costs at most what the link has missed: 5 %.
        if counts.passed.abs_diff(model_counts.passed) > 25 {
            return Err(format!("{counts:?} against {model_counts:?}"));
        }
        Ok(())
    });
}
