//! What a packet costs in the simulator, with few nodes and with many: packets that cross one link, and
//! three. The throughput is hops a second; it must hardly depend on the number of nodes.

#![expect(missing_docs, reason = "criterion writes the main function")]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use quickset_base::{Duration, Time};
use quickset_sim::{
    Cpu, Either, LinkSpec, NodePlace, PacketTraffic, Topology, TrafficPace, TrafficSink, TrafficSource,
    World, address,
};

type Node = Either<TrafficSource, TrafficSink>;

/// Packets of all flows together.
const PACKETS: u64 = 20_000;
const SIZE: usize = 1200;

fn spec(text: &str) -> LinkSpec {
    text.parse().expect("a link")
}

/// A source whose share of the packets takes a second of virtual time.
fn source(to: std::net::SocketAddr, pairs: u64, seed: u64) -> Node {
    let pace = TrafficPace::poisson(PACKETS / pairs * SIZE as u64 * 8);
    let stop = Some(Time::from_millis(1000));
    Either::Left(TrafficSource::new(PacketTraffic { stop, ..PacketTraffic::new(to, SIZE, pace) }, seed))
}

/// Pairs with a link of their own.
fn single(pairs: u16) -> World<Node> {
    let mut world = World::new(1);
    for pair in 0..pairs {
        let (a, b) = (address(2 * pair + 1), address(2 * pair + 2));
        world.add("source", a, source(b, u64::from(pairs), u64::from(pair)));
        world.add("sink", b, Either::Right(TrafficSink::new(Duration::ZERO)));
        let link = spec("rate=1gbit delay=20ms queue=1MB");
        world.join(a, b, link.clone(), link);
    }
    world
}

/// Pairs that share a bottleneck.
fn dumbbell(pairs: usize) -> World<Node> {
    let topology = Topology::dumbbell(pairs, spec("rate=1gbit delay=1ms"), spec("rate=1gbit delay=20ms"));
    let machine = |NodePlace { pair, left, peer, .. }: NodePlace| {
        if left {
            source(peer, pairs as u64, pair as u64)
        } else {
            Either::Right(TrafficSink::new(Duration::ZERO))
        }
    };
    topology.build(1, machine).0
}

/// The same with work to do.
fn working(pairs: usize) -> World<Node> {
    let mut world = dumbbell(pairs);
    let nodes: Vec<_> = world.nodes().map(|(node, _)| node).collect();
    let cpu = Cpu { receive_datagram_ns: 500, send_batch_ns: 500, byte_ps: 100, ..Cpu::default() };
    for node in nodes {
        world.cpu(node, cpu);
    }
    world
}

fn hops(c: &mut Criterion) {
    let mut group = c.benchmark_group("hops");
    group.sample_size(20);
    let mut bench = |name: &str, hops: u64, world: &dyn Fn() -> World<Node>| {
        group.throughput(Throughput::Elements(PACKETS * hops));
        group.bench_function(name, |bencher| {
            let run = |mut world: World<Node>| {
                world.run(Time::MAX).expect("sources rest");
                world
            };
            bencher.iter_batched(world, run, BatchSize::LargeInput);
        });
    };
    bench("1 link, 2 nodes", 1, &|| single(1));
    bench("1 link, 200 nodes", 1, &|| single(100));
    bench("3 links, 2 nodes", 3, &|| dumbbell(1));
    bench("3 links, 200 nodes", 3, &|| dumbbell(100));
    bench("3 links, 200 nodes, working", 3, &|| working(100));
}

criterion_group!(benches, hops);
criterion_main!(benches);
