//! Packets that are built like the one before them, without a question to each room, are those that would be
//! built with them.

use proptest::prelude::{ProptestConfig, prop_assert, prop_assert_eq, proptest};
use quickset_sched::Priority;
use quickset_wire::StreamId;

use super::*;

/// An application that writes whatever, over a path that loses some.
struct World {
    rng: Rng,
    pair: Joined,
    streams: Vec<StreamId>,
    sent: Vec<Vec<u8>>,
}

impl World {
    fn new(seed: u64, protection: &str, apart: bool) -> Self {
        let fec = Some(crate::Fec { protection: policies::protection(protection), ..crate::Fec::default() });
        let config = TransportConfig { fec, ..TransportConfig::fixed_mtu(1200) };
        let mut pair = joined_with(config);
        pair.client.scratch.apart = apart;
        Self { rng: Rng::new(seed), pair, streams: Vec::new(), sent: Vec::new() }
    }

    fn act(&mut self) {
        let Self { rng, pair, streams, .. } = self;
        if streams.len() < 4 && rng.chance(0.2) {
            streams.extend(pair.client.streams().open(Dir::Uni));
        }
        if streams.is_empty() {
            return;
        }
        let at = rng.below(streams.len() as u64) as usize;
        let id = streams[at];
        match rng.below(20) {
            0 => drop(pair.client.send_stream(id).flush()),
            1 => {
                let urgency = rng.below(8) as u8;
                let _ = pair.client.send_stream(id).set_priority(Priority { urgency, ..Priority::default() });
            }
            2 => drop(pair.client.send_stream(streams.swap_remove(at)).finish()),
            3 => drop(pair.client.datagrams().send(
                pair.now,
                Bytes::from(vec![3; 300]),
                &crate::DatagramOptions::default(),
            )),
            4 => pair.client.ping(),
            _ => {
                // Of more than a batch, the first packet is of a train, too.
                let most = [2000, 2000, 2000, 60_000, 60_000, 60_000, 60_000, 60_000, 60_000, 300_000];
                let most = most[rng.below(most.len() as u64) as usize];
                let fill = rng.below(256) as u8;
                let _ =
                    pair.client.send_stream(id).write(&mut Bytes::from(vec![fill; rng.below(most) as usize]));
            }
        }
    }

    fn network(&mut self) {
        let Self { rng, pair, sent, .. } = self;
        let mut up = drain(&mut pair.client, pair.now, address(1));
        sent.extend(up.iter().map(|datagram| datagram.bytes.to_vec()));
        pair.now += Duration::from_micros(rng.below(20_000));
        up.retain(|_| !rng.chance(0.03));
        pair.server.handle(pair.now, Input::Received(&mut up));
        let streams =
            std::iter::from_fn(|| pair.server.streams().accept(Dir::Uni)).chain(self.streams.iter().copied());
        for id in streams.collect::<Vec<_>>() {
            while let Ok(crate::Chunk::Data(_)) = pair.server.recv_stream(id).read(usize::MAX) {}
        }
        let mut down = drain(&mut pair.server, pair.now, address(2));
        down.retain(|_| !rng.chance(0.1));
        pair.now += Duration::from_micros(rng.below(20_000));
        pair.client.handle(pair.now, Input::Received(&mut down));
        pair.client.handle(pair.now, Input::Timer);
        pair.server.handle(pair.now, Input::Timer);
    }

    /// What the client sent, and how much of that was built like the packet before.
    fn run(mut self) -> (Vec<Vec<u8>>, u64) {
        for _ in 0..120 {
            for _ in 0..self.rng.below(3) {
                self.act();
            }
            self.network();
        }
        (self.sent, self.pair.client.scratch.followed)
    }
}

/// Where the packets that go in trains and those that go one by one are no more the same, with how many there
/// are; and how many were in trains.
fn compared(seed: u64, protection: &str) -> (Option<usize>, [usize; 2], u64) {
    let (sent, followed) = World::new(seed, protection, false).run();
    let (alone, none) = World::new(seed, protection, true).run();
    assert_eq!(none, 0);
    let first = sent.iter().zip(&alone).position(|(a, b)| a != b);
    (first, [sent.len(), alone.len()], followed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn packets_of_a_train_are_those_that_would_go_alone(seed: u64) {
        let mut trains = 0;
        for protection in ["none", "adaptive", "rs:105/100", "rs:22/20", "ldpc:50/40", "xor:3", "xor2d:4x5", "fixed:10", "adaptive:bulk"] {
            let (first, [sent, alone], followed) = compared(seed, protection);
            prop_assert_eq!((first, sent), (None, alone), "{}", protection);
            trains += followed;
        }
        // An application that has little to say has few of them: how many depends on the seed.
        prop_assert!(trains >= 90, "{trains}");
    }
}

/// Found by the test above.
#[test]
fn repair_goes_on_behind_what_went_alone() {
    let (first, [sent, alone], followed) = compared(1_636_836_226_034_763_405, "rs:22/20");
    assert_eq!((first, sent), (None, alone));
    assert!(followed > 0);
}

/// However few symbols the peer keeps: what a train tells its lane together is all known, and all settled
/// when it arrived.
#[test]
fn a_lane_has_settled_all_that_arrived() {
    for window in [1, 2, 3, 9, 1024] {
        let protection = "rs:105/100".parse().unwrap();
        let fec = Some(crate::Fec { window, protection, ..crate::Fec::default() });
        let mut pair = joined_with(TransportConfig { fec, ..TransportConfig::fixed_mtu(1200) });
        let id = pair.client.streams().open(Dir::Uni).unwrap();
        pair.client.send_stream(id).write(&mut Bytes::from(vec![7; 200_000])).unwrap();
        pair.client.send_stream(id).finish().unwrap();
        let mut read = 0;
        for _ in 0..200 {
            let mut up = drain(&mut pair.client, pair.now, address(1));
            pair.now += Duration::from_millis(5);
            pair.server.handle(pair.now, Input::Received(&mut up));
            pair.server.handle(pair.now, Input::Timer);
            while pair.server.streams().accept(Dir::Uni).is_some() {}
            while let Ok(crate::Chunk::Data(data)) = pair.server.recv_stream(id).read(usize::MAX) {
                read += data.len();
            }
            let mut down = drain(&mut pair.server, pair.now, address(2));
            pair.now += Duration::from_millis(30);
            pair.client.handle(pair.now, Input::Received(&mut down));
            pair.client.handle(pair.now, Input::Timer);
        }
        assert_eq!(read, 200_000, "window {window}");
        assert!(window < 9 || pair.client.scratch.followed > 50, "window {window}");
        assert!(!pair.client.protect.send.waits(), "window {window}");
    }
}

/// Where offload is not worth filling, a batch is one datagram, protected or not, however much waits.
#[test]
fn without_offload_a_batch_is_one_datagram() {
    for (gso, protection) in [(true, "none"), (false, "none"), (false, "fixed:10")] {
        let fec = crate::Fec { protection: policies::protection(protection), ..crate::Fec::default() };
        let mut pair =
            joined_with(TransportConfig { gso, fec: Some(fec), ..TransportConfig::fixed_mtu(1200) });
        pair.settle();
        let id = pair.client.streams().open(Dir::Uni).unwrap();
        let _ = pair.client.send_stream(id).write(&mut Bytes::from(vec![1; 300_000]));
        let (mut out, mut most) = (Batch::new(), 0);
        while pair.client.poll(pair.now, &mut out) == Poll::Send {
            most = most.max(out.count());
            out.clear();
        }
        assert!(if gso { most > 1 } else { most == 1 }, "{protection}: {most} datagrams in a batch");
    }
}
