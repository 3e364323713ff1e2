//! Nodes whose work takes time.

use quickset_base::{Batch, Duration, Input, Machine, Poll, Reason, Time};
use quickset_sim::{
    Cpu, CpuCounts, Either, Happening, PacketTraffic, RunEnded, Timeline, Trace, TrafficPace, TrafficSink,
    TrafficSource,
};
use quickset_sim::{address, each_seed};

use crate::common::{Chatter, Flood, Planned, Toy};
use crate::{ms, pair, us};

fn at_once(count: usize) -> Toy {
    Toy::sending(vec![Planned::new(ms(0), address(2), 1000, count, 0)])
}

#[test]
fn a_receiver_slower_than_its_link_gets_what_it_can_work_on() {
    // 25 µs a packet: 40,000 a second. The link brings 100,000.
    let traffic = PacketTraffic {
        stop: Some(ms(2000)),
        ..PacketTraffic::new(address(2), 1250, TrafficPace::constant(1_000_000_000))
    };
    let (source, sink) = (TrafficSource::new(traffic, 1), TrafficSink::new(Duration::from_millis(100)));
    let (mut world, [_, right], [up, _]) =
        pair(1, "rate=1gbit delay=1ms", Either::Left(source), Either::Right(sink));
    world.cpu(right, Cpu { receive_datagram_ns: 25_000, buffer: 200_000, ..Cpu::default() });
    assert_eq!(world.run(Time::MAX), Ok(RunEnded::Idle));
    let (counts, flow) =
        (world.cpu_counts(right), world.node(right).right().unwrap().flow(address(1)).unwrap());
    assert_eq!(world.counts(up).passed, 200_000);
    assert_eq!(counts.dropped + flow.packets, 200_000);
    assert_eq!(world.received(right), flow.packets);
    assert_eq!(counts.dropped_bytes, counts.dropped * 1250);
    assert_eq!(counts.peak_buffer, 200_000);
    // It works all the time, and at the end on what is in the buffer: goodput is 1 / 25 µs.
    assert_eq!(counts.busy, Duration::from_micros(25 * flow.packets));
    let expected = 40_000 * 2 + 160;
    assert!(flow.packets.abs_diff(expected) <= 64, "{} in place of {expected}", flow.packets);
    // So it does in each tenth of a second (it takes batches of 64).
    let tenths = &flow.series[1..20];
    assert!(tenths.iter().all(|bytes| bytes.abs_diff(4000 * 1250) <= 64 * 1250), "{tenths:?}");
    // What gets through has waited behind up to 160 packets, 4 ms, and hardly less than a batch of 64 fewer.
    let waiting = flow.mean_delay().saturating_sub(Duration::from_micros(1010));
    assert!(waiting > Duration::from_micros(96 * 25) && waiting < Duration::from_millis(4), "{waiting:?}");
    // What is missing is what was dropped, but those after the last one that got through.
    assert!(flow.lost() <= counts.dropped && flow.lost() > 100_000, "{counts:?}, {}", flow.lost());
}

#[test]
fn costs_are_those_of_batches_datagrams_and_bytes() {
    let cpu = Cpu {
        receive_batch_ns: 100_000,
        receive_datagram_ns: 10_000,
        byte_ps: 1_500,
        batch: 3,
        ..Cpu::default()
    };
    let (mut world, [_, right], _) = pair(1, "delay=1ms", at_once(7), Toy::default());
    world.cpu(right, cpu);
    world.run(Time::MAX).unwrap();
    // Three packets: 100 + 3 * 10 + 3000 * 0.0015 = 134.5 µs; the last one: 111.5 µs.
    let after = |n: u64| ms(1) + Duration::from_nanos(n * 134_500);
    assert_eq!(world.node(right).batches, [(after(0), 3), (after(1), 3), (after(2), 1)]);
    let busy = Duration::from_nanos(2 * 134_500 + 111_500);
    let counts = CpuCounts { busy, batches: 3, peak_buffer: 7000, ..CpuCounts::default() };
    assert_eq!(world.cpu_counts(right), counts);
    assert_eq!(world.now(), ms(1) + busy);
}

#[test]
fn fractions_of_nanoseconds_add_up() {
    // 333 ps a byte: 1000 packets of 10 bytes take 3.33 ns each.
    let plan = (0..1000).map(|i| Planned::new(us(i), address(2), 10, 1, i)).collect();
    let (mut world, [_, right], _) = pair(1, "perfect", Toy::sending(plan), Toy::default());
    world.cpu(right, Cpu { byte_ps: 333, ..Cpu::default() });
    world.run(Time::MAX).unwrap();
    assert_eq!(world.cpu_counts(right).busy, Duration::from_nanos(3330));
}

#[test]
fn output_leaves_after_the_work() {
    // 50 µs a call and 10 a segment, and 0.1 µs a byte: 4 segments of 1000 bytes take 490 µs.
    let plan = vec![
        Planned::new(ms(1), address(2), 1000, 4, 0),
        Planned::new(ms(1), address(2), 1000, 4, 4),
        Planned { not_before: Some(ms(5)), ..Planned::new(ms(1), address(2), 1000, 1, 8) },
    ];
    let (mut world, [left, right], _) = pair(1, "delay=1ms", Toy::sending(plan), Toy::default());
    let cpu = Cpu { send_batch_ns: 50_000, send_datagram_ns: 10_000, byte_ps: 100_000, ..Cpu::default() };
    world.cpu(left, cpu);
    world.run(Time::MAX).unwrap();
    assert_eq!(world.node(right).batches, [(us(2490), 4), (us(2980), 4), (ms(6), 1)]);
    assert_eq!(world.cpu_counts(left).busy, Duration::from_micros(490 + 490 + 160));
}

#[test]
fn a_sender_slower_than_its_link_sends_what_it_can() {
    let flood = Flood::new(address(2), 1000, 10, 1000);
    let (mut world, [left, right], _) = pair(1, "rate=10gbit", flood, Flood::sink(address(1)));
    world.cpu(left, Cpu { send_datagram_ns: 10_000, ..Cpu::default() });
    world.run(Time::MAX).unwrap();
    let sink = world.node(right);
    // Bursts of ten every 100 µs.
    assert_eq!(sink.received, 10_000);
    assert_eq!(sink.last.unwrap().since(sink.first.unwrap()), Duration::from_nanos(999 * 100_000 + 9 * 800));
}

/// Who has much to send takes what has arrived after so many batches, and else at the end.
#[test]
fn input_waits_for_the_end_of_a_turn() {
    let taken = |turn: u32| {
        let far = Toy::sending(vec![Planned::new(ms(0), address(1), 100, 1, 0)]);
        let near = Toy::sending((0..10).map(|n| Planned::new(ms(0), address(2), 1000, 1, n)).collect());
        let (mut world, [left, _], _) = pair(1, "delay=1ms", near, far);
        world.cpu(left, Cpu { send_batch_ns: 500_000, turn, ..Cpu::default() });
        world.run(Time::MAX).unwrap();
        let batches = &world.node(left).batches;
        assert_eq!(batches.len(), 1, "{batches:?}");
        batches[0].0
    };
    // It arrives after 1 ms, with the second batch; the ten take 5.
    assert_eq!([1, 3, 4, 100, u32::MAX].map(taken), [ms(1), us(1500), ms(2), ms(5), ms(5)]);
}

/// Answers each batch at once, and wants a timer every millisecond.
#[derive(Debug, Default)]
struct Echo {
    owed: usize,
    handled: Vec<(Time, usize)>,
    polled: Vec<Time>,
    timers: Vec<Time>,
}

impl Machine for Echo {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        match input {
            Input::Received(datagrams) => {
                self.owed += datagrams.len();
                self.handled.push((now, datagrams.len()));
                datagrams.clear();
            }
            Input::Timer => self.timers.push(now),
        }
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        self.polled.push(now);
        if self.owed == 0 {
            let next = self.timers.len() as u64 + 1;
            return Poll::Sleep((next < 6).then_some(ms(next)), Reason::Application);
        }
        self.owed -= 1;
        out.path = quickset_base::AddressPair::to(address(1));
        out.space(100).fill(0);
        out.commit(100);
        Poll::Send
    }
}

#[test]
fn a_turn_is_taken_without_interruption() {
    let plan =
        vec![Planned::new(ms(0), address(2), 100, 2, 0), Planned::new(us(1500), address(2), 100, 1, 2)];
    let (mut world, [left, right], _) =
        pair(1, "perfect", Either::Left(Toy::sending(plan)), Either::Right(Echo::default()));
    world.cpu(right, Cpu { receive_datagram_ns: 400_000, send_batch_ns: 1_000_000, ..Cpu::default() });
    world.run(Time::MAX).unwrap();
    let echo = world.node(right).right().unwrap();
    // Two packets at 0: worked on until 0.8 ms, answered until 2.8 ms; then the third, which came at 1.5 ms,
    // until 3.2 and 4.2 ms; and only then the timers, which want to come at 1, 2, 3 and 4 ms.
    assert_eq!(echo.handled, [(ms(0), 2), (us(2800), 1)]);
    assert_eq!(echo.polled[..5], [ms(0), us(800), us(1800), us(2800), us(3200)]);
    assert_eq!(echo.timers, [us(4200), us(4200), us(4200), us(4200), ms(5)]);
    let answers: Vec<_> = world.node(left).left().unwrap().got.iter().map(|got| got.at).collect();
    assert_eq!(answers, [us(1800), us(2800), us(4200)]);
}

#[test]
fn what_costs_nothing_changes_nothing() {
    let run = |seed, cpu: Option<Cpu>| {
        let rough = "rate=20mbit delay=7ms queue=30kB loss=2% jitter=2ms reorder=yes corrupt=1% duplicate=1%";
        let (left, right) = (Chatter::new(address(2), seed, 3), Chatter::new(address(1), seed + 1, 3));
        let (mut world, [left, right], _) = pair(seed, rough, left, right);
        for (node, cpu) in [left, right].into_iter().zip([cpu, cpu]) {
            if let Some(cpu) = cpu {
                world.cpu(node, cpu);
            }
        }
        world.trace(Trace::digest_only());
        world.run(ms(300)).unwrap();
        world.take_trace().unwrap().digest()
    };
    each_seed(0..5, |seed| {
        assert_eq!(run(seed, None), run(seed, Some(Cpu::default())));
        let slow = Cpu { receive_batch_ns: 1000, ..Cpu::default() };
        assert_ne!(run(seed, None), run(seed, Some(slow)));
        assert_eq!(run(seed, Some(slow)), run(seed, Some(slow)));
    });
}

#[test]
fn a_packet_larger_than_the_buffer_never_gets_in() {
    let (mut world, [left, right], _) = pair(1, "perfect", at_once(3), Toy::default());
    world.cpu(right, Cpu { buffer: 999, batch: 0, ..Cpu::default() });
    world.run(Time::MAX).unwrap();
    assert!(world.node(right).got.is_empty());
    assert_eq!((world.cpu_counts(right).dropped, world.cpu_counts(right).dropped_bytes), (3, 3000));
    // A batch of none would be none at all: it counts as one.
    world.cpu(right, Cpu { buffer: 1000, batch: 0, ..Cpu::default() });
    world.node_mut(left).plan.push(Planned::new(ms(0), address(2), 1000, 1, 5));
    world.run(Time::MAX).unwrap();
    assert_eq!(world.node(right).numbers(), [5]);
}

#[test]
fn sleep_on_top_of_work() {
    let plan = (0..4).map(|i| Planned::new(ms(i), address(2), 1000, 1, i)).collect();
    let (mut world, [_, right], _) = pair(1, "perfect", Toy::sending(plan), Toy::default());
    world.cpu(right, Cpu { receive_datagram_ns: 1_500_000, ..Cpu::default() });
    let suspend = Happening::Suspend { node: right, pause: Duration::from_micros(1_700) };
    world.play(Timeline::new().at(us(1_200), suspend));
    world.run(Time::MAX).unwrap();
    // The first at 0 until 1.5 ms. The second came at 1 ms and waits: until 2.9, when the node wakes. The
    // third is missed at 2 ms.
    assert_eq!(world.node(right).batches, [(ms(0), 1), (us(2_900), 1), (us(4_400), 1)]);
    assert_eq!(world.node(right).numbers(), [0, 1, 3]);
    assert_eq!(world.missed(right), 1);
}
