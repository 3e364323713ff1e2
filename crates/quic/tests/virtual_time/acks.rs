//! How often to acknowledge: merging and adaptive frequency where a processor is the bottleneck, and where it
//! is not.

use quickset_base::Duration;
use quickset_quic::{AckPolicy, Algorithm, Dir, Stats};
use quickset_sim::{Cpu, CpuCounts};

use crate::common::{Pair, Setup, pattern};

fn setup(link: &str, acks: AckPolicy) -> Setup {
    Setup::new(5, link).transport(|t| {
        (t.acks, t.mtu, t.fec) = (acks, 1452, None);
        (t.stream_window, t.max_stream_window, t.max_connection_window) = (32 << 20, 32 << 20, 64 << 20);
    })
}

/// What an upload took, what the client counted, and what its processor did.
fn upload(pair: &mut Pair, bytes: usize) -> (Duration, Stats, CpuCounts) {
    let (key, server, before) = (pair.key, pair.server_key(), pair.world.now());
    let id = pair.client_mut().send(key, Dir::Uni, pattern(bytes));
    pair.until("there", |p| p.server().finished.contains(&(server, id)));
    assert!(pair.server().received[&(server, id)] == pattern(bytes));
    let took = pair.world.now().since(before);
    let stats = pair.client_mut().connection(key).stats();
    (took, stats, pair.world.cpu_counts(pair.client))
}

/// A sender for which each acknowledgement is as dear as three packets of its own.
const SLOW: Cpu = Cpu {
    receive_batch_ns: 2_000,
    receive_datagram_ns: 15_000,
    send_batch_ns: 5_000,
    send_datagram_ns: 5_000,
    byte_ps: 0,
    buffer: 4_000_000,
    batch: 64,
    turn: u32::MAX,
};

fn with(merging: bool, every: u64, adaptive: bool) -> AckPolicy {
    AckPolicy::default().with_merging(merging).with_every(every).with_adaptive(adaptive)
}

/// 2 Gbit/s and 10 ms to a receiver that answers every second packet at once; the sender's processor can do
/// less.
#[test]
fn a_busy_sender_asks_for_fewer_acknowledgements() {
    let run = |acks| {
        let mut pair = setup("rate=2gbit delay=5ms queue=4MB", acks)
            .transport(|t| t.congestion = Algorithm::Cubic)
            .connected();
        let client = pair.client;
        pair.world.cpu(client, SLOW);
        upload(&mut pair, 24_000_000)
    };
    let (plain, counted, _) = run(with(true, 2, false));
    assert_eq!(counted.acks.requests, 0);
    assert!(counted.acks.frames >= 2 * counted.acks.batches, "busy: {:?}", counted.acks);
    let (adaptive, fewer, _) = run(AckPolicy::default());
    assert!(fewer.acks.requests > 0 && fewer.acks.every > 2, "{:?}", fewer.acks);
    assert!(2 * fewer.acks.frames < counted.acks.frames, "{:?} {:?}", fewer.acks, counted.acks);
    assert!(4 * adaptive < 3 * plain, "{adaptive:?} {plain:?}");
    assert_eq!((counted.ptos, fewer.ptos, counted.spurious_losses, fewer.spurious_losses), (0, 0, 0, 0));
    // Nobody asks for more than what is four times in a window.
    assert!(fewer.acks.every * 4 * 1452 <= fewer.window, "{:?} {}", fewer.acks, fewer.window);
}

/// Where the processor has time to spare nothing is asked for, nothing changes: not the time and not the
/// packets.
#[test]
fn an_idle_sender_asks_for_nothing() {
    for link in ["rate=100mbit delay=15ms queue=400kB", "rate=20mbit delay=5ms queue=50kB loss=0.005"] {
        for congestion in [Algorithm::Bbr, Algorithm::Cubic] {
            let run = |acks| {
                upload(
                    &mut setup(link, acks).transport(|t| t.congestion = congestion.clone()).connected(),
                    1_500_000,
                )
            };
            let (adaptive, default) = (run(AckPolicy::default()), run(with(true, 2, false)));
            assert_eq!(adaptive.1.acks.requests, 0, "{link} {congestion}");
            assert_eq!((adaptive.0, adaptive.1.sent_packets), (default.0, default.1.sent_packets));
        }
    }
}

/// With a fixed frequency as many acknowledgements come as were asked for, of a download, and losses are
/// found as soon.
#[test]
fn a_fixed_frequency_holds() {
    for every in [1, 2, 10, 50] {
        let acks = with(true, every, false);
        let mut pair = setup("rate=50mbit delay=10ms queue=4MB", acks).connected();
        let (_, stats, _) = upload(&mut pair, 3_000_000);
        let per_ack = stats.sent_packets as f64 / stats.acks.frames as f64;
        assert!((0.8..1.2).contains(&(per_ack / every as f64)), "{every}: {per_ack} {:?}", stats.acks);
        assert_eq!(stats.lost_packets, 0, "{every}");
    }
    let took = |every| {
        let mut pair =
            setup("rate=50mbit delay=10ms queue=400kB loss=0.005", with(true, every, false)).connected();
        let (took, stats, _) = upload(&mut pair, 3_000_000);
        assert_eq!((stats.spurious_losses, stats.ptos), (0, 0), "{every}: {stats:?}");
        took
    };
    let (often, rarely) = (took(2), took(20));
    assert!(rarely < often + often / 10, "{often:?} {rarely:?}");
}

/// What is not merged arrives all the same, by more packets.
#[test]
fn one_by_one_it_arrives_all_the_same() {
    let run = |merging| {
        let mut pair = setup("rate=1gbit delay=5ms queue=4MB", with(merging, 2, false)).connected();
        let server = pair.server;
        // A receiver that takes long for a turn, and so many packets in one.
        pair.world.cpu(server, Cpu { receive_batch_ns: 200_000, ..Cpu::default() });
        upload(&mut pair, 3_000_000).1
    };
    let (merged, single) = (run(true), run(false));
    assert!(single.acks.frames > 4 * merged.acks.frames, "{:?} {:?}", single.acks, merged.acks);
    let answered = single.sent_packets - single.in_flight / 1452;
    let ratio = answered as f64 / single.acks.frames as f64;
    assert!((1.95..2.05).contains(&ratio), "{ratio} {single:?}");
}
