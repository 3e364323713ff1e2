//! Files of packets.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use quickset_base::{Duration, Ecn, Time};
use quickset_sim::{
    CapturedDatagram, Either, PacketTraffic, Pcap, Point, TrafficPace, TrafficSink, TrafficSource, World,
    address,
};

use crate::common::{Planned, Toy};
use crate::{ms, pair, spec, us};

const HEADER: [u8; 24] = [
    0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, // Magic of nanoseconds, version 2.4.
    0, 0, 4, 0, 101, 0, 0, 0, // At most 262,144 bytes; LINKTYPE_RAW.
];

fn file(packets: &[(Time, CapturedDatagram<'_>)]) -> Vec<u8> {
    let mut pcap = Pcap::new(Vec::new()).expect("a vector takes everything");
    for (time, seen) in packets {
        pcap.write(*time, *seen).expect("a vector takes everything");
    }
    assert_eq!((pcap.packets(), pcap.skipped()), (packets.len() as u64, 0));
    pcap.finish().expect("a vector takes everything")
}

#[test]
fn ipv4_byte_by_byte() {
    let seen = CapturedDatagram { from: address(1), to: address(2), ecn: Ecn::Ect0, payload: b"hello" };
    let written = file(&[(Time::from_nanos(3_000_000_007), seen)]);
    let expected = [
        3, 0, 0, 0, 7, 0, 0, 0, 33, 0, 0, 0, 33, 0, 0, 0, // Seconds, nanoseconds, kept, whole.
        // Version and length, ECT(0), 33 bytes; don't fragment; TTL 64, UDP, the sum of the header.
        0x45, 0x02, 0x00, 0x21, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x26, 0xc8, //
        10, 0, 0, 1, 10, 0, 0, 2, // From, to.
        // Ports 4433, 13 bytes, and the sum: 1414 + 000d of the pseudo-header, 22af, 6865, 6c6c, 6f00.
        0x11, 0x51, 0x11, 0x51, 0x00, 0x0d, 0x85, 0x5d, b'h', b'e', b'l', b'l', b'o',
    ];
    assert_eq!(written, [&HEADER[..], &expected[..]].concat());
}

#[test]
fn ipv6_byte_by_byte() {
    let [from, to] = ["[2001:db8::1]:1", "[2001:db8::2]:2"].map(|text| text.parse().unwrap());
    let written = file(&[(Time::ZERO, CapturedDatagram { from, to, ecn: Ecn::Ce, payload: b"ab" })]);
    let expected = [
        0, 0, 0, 0, 0, 0, 0, 0, 50, 0, 0, 0, 50, 0, 0, 0, //
        0x60, 0x30, 0, 0, 0, 10, 17, 64, // Version, CE; ten bytes follow the header; UDP, hop limit.
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, //
        0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, //
        // The sum: 2dba + 2dbb + 000a + 0011 of the pseudo-header, 0001, 0002, 000a, 6162.
        0, 1, 0, 2, 0, 10, 0x43, 0x00, b'a', b'b',
    ];
    assert_eq!(written, [&HEADER[..], &expected[..]].concat());
}

#[test]
fn a_sum_of_zero_is_written_as_all_ones() {
    // Without the payload the words add up to 36ca; c935 makes ffff of them.
    let seen =
        CapturedDatagram { from: address(1), to: address(2), ecn: Ecn::NotEct, payload: &[0xc9, 0x35] };
    let written = file(&[(Time::ZERO, seen)]);
    assert_eq!(written[24 + 16 + 26..], [0xff, 0xff, 0xc9, 0x35]);
}

#[test]
fn what_fits_into_no_packet_is_skipped() {
    let v6 = "[::1]:9".parse().unwrap();
    let payload = vec![0; 65_528];
    let mut pcap = Pcap::with_snap(Vec::new(), 40).unwrap();
    for (from, most) in [(address(1), 65_507), (v6, 65_527)] {
        for size in [most, most + 1] {
            let seen = CapturedDatagram { from, to: from, ecn: Ecn::NotEct, payload: &payload[..size] };
            pcap.write(Time::MAX, seen).unwrap();
        }
    }
    assert_eq!((pcap.packets(), pcap.skipped()), (2, 2));
    let written = pcap.finish().unwrap();
    // Only the first 40 bytes of each are kept, and the length of all is told.
    assert_eq!(written.len(), 24 + 2 * (16 + 40));
    assert_eq!(written[16..20], 40u32.to_le_bytes());
    assert_eq!(written[24 + 8..24 + 16], [40, 0, 0, 0, 0xff, 0xff, 0, 0]);
}

/// A packet as it is read back.
#[derive(Debug, PartialEq)]
struct Read {
    time: Time,
    from: SocketAddr,
    to: SocketAddr,
    ecn: u8,
    payload: Vec<u8>,
}

/// Reads a file, and adds up all checksums on the way.
fn read(file: &[u8]) -> Vec<Read> {
    let (header, mut rest) = file.split_at(24);
    assert_eq!(header, HEADER);
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let word =
            |n: usize| u32::from_le_bytes(rest[4 * n..4 * n + 4].try_into().expect("their number is right"));
        let (seconds, nanos, kept, whole) = (word(0), word(1), word(2) as usize, word(3) as usize);
        assert_eq!(kept, whole);
        let packet = &rest[16..16 + kept];
        rest = &rest[16 + kept..];
        let (addresses, length, ecn, udp) = match packet[0] {
            0x45 => {
                assert_eq!(ones_complement(&[&packet[..20]]), 0xffff, "the header's sum");
                assert_eq!(usize::from(u16::from_be_bytes([packet[2], packet[3]])), kept);
                assert_eq!((packet[8], packet[9]), (64, 17));
                (&packet[12..20], 4, packet[1], &packet[20..])
            }
            0x60 => {
                assert_eq!(usize::from(u16::from_be_bytes([packet[4], packet[5]])), kept - 40);
                assert_eq!((packet[6], packet[7], packet[0] & 15, packet[1] & 15), (17, 64, 0, 0));
                (&packet[8..40], 16, packet[1] >> 4, &packet[40..])
            }
            other => panic!("version {other:x}"),
        };
        assert_eq!(usize::from(u16::from_be_bytes([udp[4], udp[5]])), udp.len());
        let pseudo = [&[0, 0, 0, 17][..], &(udp.len() as u32).to_be_bytes()].concat();
        assert_eq!(ones_complement(&[addresses, &pseudo, udp]), 0xffff, "the sum of UDP");
        let ip = |bytes: &[u8]| match length {
            4 => std::net::IpAddr::from(<[u8; 4]>::try_from(bytes).expect("their number is right")),
            _ => std::net::IpAddr::from(<[u8; 16]>::try_from(bytes).expect("their number is right")),
        };
        let port = |n: usize| u16::from_be_bytes([udp[n], udp[n + 1]]);
        packets.push(Read {
            time: Time::from_nanos(u64::from(seconds) * 1_000_000_000 + u64::from(nanos)),
            from: SocketAddr::new(ip(&addresses[..length]), port(0)),
            to: SocketAddr::new(ip(&addresses[length..]), port(2)),
            ecn,
            payload: udp[8..].to_vec(),
        });
    }
    packets
}

/// Byte by byte, with the carry added at once; parts but the last are even.
fn ones_complement(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u16;
    for (i, byte) in parts.concat().iter().enumerate() {
        let word = if i % 2 == 0 { u16::from(*byte) << 8 } else { u16::from(*byte) };
        let (added, carry) = sum.overflowing_add(word);
        sum = added + u16::from(carry);
    }
    sum
}

fn any_address() -> impl Strategy<Value = SocketAddr> {
    let v4 = any::<([u8; 4], u16)>().prop_map(SocketAddr::from);
    let v6 = any::<([u8; 16], u16)>().prop_map(SocketAddr::from);
    prop_oneof![v4, v6]
}

proptest! {
    #[test]
    fn all_packets_read_back(
        from in any_address(), to in any_address(), bits in 0u8..4, at in 0u64..u64::from(u32::MAX) * 1_000_000_000,
        payload in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let ecn = Ecn::from_bits(bits);
        let time = Time::from_nanos(at);
        let mapped = |address: SocketAddr| match address {
            SocketAddr::V4(v4) if from.is_ipv6() || to.is_ipv6() => {
                SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port())
            }
            other => other,
        };
        let seen = CapturedDatagram { from, to, ecn, payload: &payload };
        let expected = Read { time, from: mapped(from), to: mapped(to), ecn: bits, payload: payload.clone() };
        prop_assert_eq!(read(&file(&[(time, seen)])), [expected]);
    }
}

/// A file that others can look into.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Shared {
    fn read(&self) -> Vec<Read> {
        read(&self.0.lock().expect("nobody panicked with it"))
    }

    /// (milliseconds, first byte of the payload)
    fn brief(&self) -> Vec<(u64, u8)> {
        self.read().iter().map(|packet| (packet.time.as_nanos() / 1_000_000, packet.payload[0])).collect()
    }
}

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("nobody panicked with it").write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn each_point_sees_what_passes_there() {
    let held = Planned { not_before: Some(ms(3)), ..Planned::new(ms(1), address(2), 100, 1, 9) };
    let burst = Planned { ecn: Ecn::Ect1, ..Planned::new(ms(1), address(2), 100, 3, 0) };
    let back = Toy::sending(vec![Planned::new(ms(2), address(1), 100, 1, 7)]);
    let mut world = World::new(1);
    let left = world.add("left", address(1), Toy::sending(vec![held, burst]));
    let right = world.add("right", address(2), back);
    let [first, second, down] = ["delay=5ms loss=list:1", "delay=2ms duplicate=100%", "delay=4ms"]
        .map(|link| world.add_link(spec(link)));
    world.route_through(address(1), address(2), &[first, second]);
    world.route(address(2), address(1), down);
    let points = [
        Point::Node(left),
        Point::Node(right),
        Point::Entering(first),
        Point::Leaving(first),
        Point::Entering(second),
        Point::Leaving(second),
        Point::Departures,
        Point::Arrivals,
    ];
    let files = points.map(|point| {
        let file = Shared::default();
        world.capture(point, file.clone()).unwrap();
        file
    });
    world.run(Time::MAX).unwrap();
    world.finish_captures().unwrap();
    let [at_left, at_right, entering, leaving, entering_second, leaving_second, departures, arrivals] =
        files.each_ref().map(Shared::brief);
    assert_eq!(at_left, [(1, 0), (1, 1), (1, 2), (3, 9), (6, 7)]);
    assert_eq!(at_right, [(2, 7), (8, 0), (8, 0), (8, 2), (8, 2), (10, 9), (10, 9)]);
    assert_eq!(entering, [(1, 0), (1, 1), (1, 2), (3, 9)]);
    assert_eq!(leaving, [(6, 0), (6, 2), (8, 9)]);
    assert_eq!(entering_second, leaving);
    assert_eq!(leaving_second, at_right[1..]);
    assert_eq!(departures, [(1, 0), (1, 1), (1, 2), (2, 7), (3, 9)]);
    assert_eq!(arrivals, [(6, 7), (8, 0), (8, 0), (8, 2), (8, 2), (10, 9), (10, 9)]);
    let first = &files[0].read()[0];
    assert_eq!((first.from, first.to, first.ecn), (address(1), address(2), Ecn::Ect1.bits()));
    assert_eq!(files[0].read()[4].from, address(2));
    // After the end nothing is written.
    world.node_mut(left).plan.push(Planned::new(ms(0), address(2), 100, 1, 0));
    world.run(Time::MAX).unwrap();
    assert_eq!(files[0].read().len(), 5);
}

#[test]
fn marks_and_damages_show_where_they_are() {
    let burst = Planned { ecn: Ecn::Ect0, ..Planned::new(ms(1), address(2), 50, 20, 0) };
    let (mut world, [left, right], _) =
        pair(1, "rate=8mbit corrupt=50%", Toy::sending(vec![burst]), Toy::default());
    let (before, after) = (Shared::default(), Shared::default());
    world.capture(Point::Node(left), before.clone()).unwrap();
    world.capture(Point::Node(right), after.clone()).unwrap();
    world.run(Time::MAX).unwrap();
    let got: Vec<_> = world.node(right).got.iter().map(|got| (got.at, got.bytes.clone())).collect();
    assert_eq!(after.read().into_iter().map(|packet| (packet.time, packet.payload)).collect::<Vec<_>>(), got);
    let flipped: u32 = before
        .read()
        .iter()
        .zip(after.read())
        .map(|(a, b)| a.payload.iter().zip(b.payload).map(|(a, b)| (a ^ b).count_ones()).sum::<u32>())
        .sum();
    assert!((1..20).contains(&flipped), "{flipped}");
}

#[test]
fn a_full_buffer_drops_what_the_capture_has_seen() {
    let traffic = PacketTraffic {
        stop: Some(ms(10)),
        ..PacketTraffic::new(address(2), 1000, TrafficPace::constant(80_000_000))
    };
    let (source, sink) = (TrafficSource::new(traffic, 1), TrafficSink::new(Duration::ZERO));
    let (mut world, [_, right], _) = pair(1, "delay=1ms", Either::Left(source), Either::Right(sink));
    let cpu = quickset_sim::Cpu { receive_datagram_ns: 1_000_000, buffer: 5_000, ..Default::default() };
    world.cpu(right, cpu);
    let file = Shared::default();
    world.capture(Point::Node(right), file.clone()).unwrap();
    world.run(Time::MAX).unwrap();
    assert_eq!(file.read().len(), 100);
    assert_eq!(world.cpu_counts(right).dropped + world.received(right), 100);
    assert!(world.cpu_counts(right).dropped > 50);
}

#[test]
fn a_name_that_a_nat_gave_is_what_the_wire_shows() {
    let plan = [0, 10].map(|at| Planned::new(ms(at), address(2), 10, 1, at)).to_vec();
    let (mut world, [left, _], _) = pair(1, "delay=1ms", Toy::sending(plan), Toy::default());
    let file = Shared::default();
    world.capture(Point::Node(left), file.clone()).unwrap();
    world.run(ms(5)).unwrap();
    world.rebind(address(1), address(9));
    world.run(Time::MAX).unwrap();
    assert_eq!(file.read().iter().map(|packet| packet.from).collect::<Vec<_>>(), [address(1), address(9)]);
}

/// A disk that is full after a while.
struct Full {
    room: usize,
    calls: Arc<Mutex<u32>>,
}

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        *self.calls.lock().expect("nobody panicked with it") += 1;
        self.room = self.room.checked_sub(bytes.len()).ok_or_else(|| io::Error::other("the disk is full"))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn errors_of_a_file_end_its_capture_and_not_the_run() {
    let plan = (0..20).map(|i| Planned::new(us(i), address(2), 10, 1, i)).collect();
    let (mut world, [_, right], [up, _]) = pair(1, "perfect", Toy::sending(plan), Toy::default());
    let calls = Arc::new(Mutex::new(0));
    // Room for the header and three packets of 16 + 38 bytes.
    let full = Full { room: 24 + 3 * 54, calls: calls.clone() };
    world.capture(Point::Entering(up), full).unwrap();
    let good = Shared::default();
    world.capture(Point::Entering(up), good.clone()).unwrap();
    world.run(Time::MAX).unwrap();
    assert_eq!(world.finish_captures().unwrap_err().to_string(), "the disk is full");
    assert_eq!(*calls.lock().unwrap(), 5, "nothing is tried after an error");
    assert_eq!((world.node(right).got.len(), good.read().len()), (20, 20));
    let none = Full { room: 10, calls };
    assert!(world.capture(Point::Departures, none).is_err());
    assert!(world.finish_captures().is_ok(), "it was never begun");
}
