//! Four flows over one bottleneck: a constant one, a random one, bursts, and a receiver too slow for its
//! flow. It says what each got, and writes all packets to a file for Wireshark when one is named:
//!
//!     cargo run --release -p quickset-sim --example cross [FILE.pcap]

use std::fs::File;
use std::io::BufWriter;

use quickset_base::{Duration, Ecn, Time};
use quickset_sim::{
    Cpu, Either, LinkSpec, PacketTraffic, Point, Topology, TrafficPace, TrafficSink, TrafficSource,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let access: LinkSpec = "rate=1gbit delay=500us overhead=28".parse()?;
    let bottleneck: LinkSpec = "rate=50mbit delay=20ms queue=codel-ecn:5ms,100ms,1MB overhead=28".parse()?;
    let mut topology = Topology::dumbbell(4, access, bottleneck);
    topology.pairs[1].right.up = "delay=10ms jitter=2ms reorder=yes overhead=28".parse()?;
    let (on, off) = (Duration::from_millis(50), Duration::from_millis(150));
    let paces = [
        TrafficPace::constant(10_000_000),
        TrafficPace::poisson(10_000_000),
        TrafficPace::OnOff { bps: 80_000_000, on, off, drawn: true },
        TrafficPace::constant(8_000_000),
    ];
    let (mut world, layout) = topology.build(1, |place| {
        if !place.left {
            return Either::Right(TrafficSink::new(Duration::from_secs(1)));
        }
        let stop = Some(Time::from_millis(10_000));
        // Some can be marked.
        let ecn = if place.pair < 2 { Ecn::Ect0 } else { Ecn::NotEct };
        let traffic = PacketTraffic { stop, ecn, ..PacketTraffic::new(place.peer, 1200, paces[place.pair]) };
        Either::Left(TrafficSource::new(traffic, place.pair as u64))
    });
    // 2 ms a packet: 500 a second, of the 833 that are sent.
    world.cpu(layout.nodes[3].1, Cpu { receive_datagram_ns: 2_000_000, buffer: 50_000, ..Cpu::default() });
    if let Some(path) = std::env::args().nth(1) {
        world.capture(Point::Leaving(layout.bottlenecks[0].0), BufWriter::new(File::create(path)?))?;
    }
    world.run(Time::MAX)?;
    world.finish_captures()?;
    for (left, right) in layout.nodes {
        let sent = world.node(left).left().map_or(0, TrafficSource::sent);
        let flows = world.node(right).right().into_iter().flat_map(TrafficSink::flows);
        for (from, flow) in flows {
            let (least, mean, most) = (flow.least_delay, flow.mean_delay(), flow.most_delay);
            println!(
                "{from}: {sent} sent, {} received, {} late, {} marked, delay {least:?} {mean:?} {most:?}, \
                 {} dropped by the receiver",
                flow.packets,
                flow.late,
                flow.marked,
                world.cpu_counts(right).dropped
            );
        }
    }
    println!("{:?}", world.counts(layout.bottlenecks[0].0));
    Ok(())
}
