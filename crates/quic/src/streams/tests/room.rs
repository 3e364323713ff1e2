//! What all sending halves hold together is bounded, and who waits for room gets it.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use quickset_base::{Rng, Seed, Time};
use quickset_wire::{Dir, StreamId};

use super::{drain_events, packet, pair, receive};
use crate::config::TransportConfig;
use crate::streams::store::LEAST;
use crate::streams::{Chunk, SendError, StreamEvent, Streams, WriteError};

const NOW: Time = Time::ZERO;

fn config() -> TransportConfig {
    TransportConfig {
        send_buffer: 1 << 20,
        connection_send_buffer: 2 << 20,
        ..TransportConfig::fixed_mtu(1200)
    }
}

/// Writes as much as the stream takes.
fn fill(room: &mut Streams, id: StreamId) -> u64 {
    let mut taken = 0;
    loop {
        match room.sending(id).write(&mut Bytes::from_static(&[7; 10_000])) {
            Ok(n) => taken += n as u64,
            Err(WriteError::Blocked) => return taken,
            Err(error) => panic!("{error}"),
        }
    }
}

fn writable(room: &mut Streams) -> Vec<StreamId> {
    let told = |event| if let StreamEvent::Writable(id) = event { Some(id) } else { None };
    drain_events(room).into_iter().filter_map(told).collect()
}

/// Sends all that may leave, and has it acknowledged.
fn deliver(rooms: &mut [Streams; 2]) {
    while let Some(sent) = packet(&mut rooms[0], 1200, NOW) {
        receive(&mut rooms[1], &sent.payload, NOW).unwrap();
        sent.tokens.iter().for_each(|token| rooms[0].acked(*token, NOW));
        rooms[0].check();
    }
}

#[test]
fn a_hundred_streams_of_which_nothing_is_taken_hold_little_more_than_two() {
    let mut rooms = pair(&config());
    let all: Vec<StreamId> = (0..64).map(|_| rooms[0].open(Dir::Bi).unwrap()).collect();
    let taken: Vec<u64> = all.iter().map(|id| fill(&mut rooms[0], *id)).collect();
    assert_eq!(taken[..2], [1 << 20; 2]);
    assert_eq!(taken[2..], [LEAST; 62], "and these may go on, too");
    rooms[0].check();
    // Messages are of the same store.
    let id = rooms[0].open_messages(Dir::Uni).unwrap();
    let taken = (0..100)
        .take_while(|_| rooms[0].messages(id).send(Bytes::from_static(&[7; 1000]), None).is_ok())
        .count();
    assert_eq!(taken as u64, LEAST.div_ceil(1002));
    assert_eq!(rooms[0].messages(id).send(Bytes::new(), None), Err(SendError::Blocked));
    rooms[0].check();
}

#[test]
fn who_waits_is_told_when_others_hold_less() {
    for is_reset in [false, true] {
        let mut rooms = pair(&config());
        let [first, second, third] = [0; 3].map(|_| rooms[0].open(Dir::Bi).unwrap());
        // All of it may leave.
        fill(&mut rooms[0], first);
        fill(&mut rooms[0], second);
        assert_eq!(fill(&mut rooms[0], third), LEAST);
        assert_eq!(writable(&mut rooms[0]), []);
        if is_reset {
            rooms[0].sending(first).reset(7).unwrap();
            assert_eq!(writable(&mut rooms[0]), [third], "what was given up is not held");
        } else {
            deliver(&mut rooms);
            let told: BTreeSet<StreamId> = writable(&mut rooms[0]).into_iter().collect();
            assert_eq!(told, BTreeSet::from([first, second, third]));
        }
        assert!(fill(&mut rooms[0], third) > 100_000);
        rooms[0].check();
    }
}

/// Two streams whose peer gives no credit hold all there is, and a third one goes on all the same.
#[test]
fn streams_that_stand_still_keep_no_other_from_going_on() {
    let narrow = TransportConfig {
        stream_window: 30_000,
        max_stream_window: 30_000,
        fenced_streams: None,
        ..config()
    };
    let mut rooms = pair(&narrow);
    rooms[1].limits_mut().set_window(1 << 30);
    let credit = packet(&mut rooms[1], 1200, NOW).unwrap();
    receive(&mut rooms[0], &credit.payload, NOW).unwrap();
    let [first, second, third] = [0; 3].map(|_| rooms[0].open(Dir::Bi).unwrap());
    fill(&mut rooms[0], first);
    fill(&mut rooms[0], second);
    let mut sent = fill(&mut rooms[0], third);
    for _ in 0..50 {
        deliver(&mut rooms);
        while let Ok(Chunk::Data(_)) = rooms[1].receiving(third).read(100_000) {}
        while let Some(credit) = packet(&mut rooms[1], 1200, NOW) {
            receive(&mut rooms[0], &credit.payload, NOW).unwrap();
        }
        // The others were let go on by what their first bytes made room for, and stand still since.
        for id in writable(&mut rooms[0]) {
            let n = fill(&mut rooms[0], id);
            sent += if id == third { n } else { 0 };
        }
    }
    assert!(sent > 50 * LEAST / 2, "{sent}");
}

/// Streams that come and go over a path that loses packets, told by events alone when to go on: each has all
/// of its bytes delivered in the end.
#[test]
fn nobody_waits_for_ever() {
    for seed in 0..40 {
        let mut rng = Rng::new(Seed([seed; 32]));
        let config = TransportConfig {
            send_buffer: [5_000, 40_000, 100_000][rng.below(3) as usize],
            connection_send_buffer: [1, 50_000, 120_000][rng.below(3) as usize],
            ..TransportConfig::fixed_mtu(1200)
        };
        let mut rooms = pair(&config);
        let mut left: BTreeMap<StreamId, u64> =
            (0..8).map(|_| (rooms[0].open(Dir::Uni).unwrap(), 1 + rng.below(300_000))).collect();
        let mut ready: BTreeSet<StreamId> = left.keys().copied().collect();
        let mut under_way = Vec::new();
        let limit = config.connection_send_buffer.max(config.send_buffer) + 8 * LEAST;
        for step in 0.. {
            assert!(step < 100_000, "seed {seed}: {left:?} is never taken");
            for id in std::mem::take(&mut ready) {
                let Some(rest) = left.get_mut(&id) else { continue };
                let n = (*rest).min(1 + rng.below(30_000));
                match rooms[0].sending(id).write(&mut Bytes::from(vec![7; n as usize])) {
                    Ok(n) => {
                        *rest -= n as u64;
                        ready.insert(id);
                    }
                    Err(error) => assert_eq!(error, WriteError::Blocked),
                }
                if *rest == 0 {
                    rooms[0].sending(id).finish().unwrap();
                    left.remove(&id);
                }
            }
            let held: u64 = rooms[0].store.held();
            assert!(held <= limit, "seed {seed}: {held} bytes are held");
            under_way.extend(packet(&mut rooms[0], 1200, NOW));
            if under_way.is_empty() && left.is_empty() {
                break;
            }
            while under_way.len() > 40 || (!under_way.is_empty() && rng.chance(0.3)) {
                let sent = under_way.swap_remove(rng.below(under_way.len() as u64) as usize);
                if rng.chance(0.1) {
                    sent.tokens.iter().for_each(|token| rooms[0].lost(*token, NOW));
                } else {
                    receive(&mut rooms[1], &sent.payload, NOW).unwrap();
                    sent.tokens.iter().for_each(|token| rooms[0].acked(*token, NOW));
                }
            }
            while let Some(id) = rooms[1].accept(Dir::Uni) {
                assert_eq!(id.dir(), Dir::Uni);
            }
            for id in drain_events(&mut rooms[1]) {
                if let StreamEvent::Readable(id) = id {
                    while let Ok(Chunk::Data(_)) = rooms[1].receiving(id).read(100_000) {}
                }
            }
            if let Some(credit) = packet(&mut rooms[1], 1200, NOW) {
                receive(&mut rooms[0], &credit.payload, NOW).unwrap();
            }
            ready.extend(writable(&mut rooms[0]));
            rooms.iter().for_each(Streams::check);
        }
    }
}

/// As much may be written as leaves soon: by the peer's credit, and by what the path takes.
#[test]
fn send_room_is_credit_and_reach() {
    let narrow = TransportConfig {
        stream_window: 50_000,
        max_stream_window: 50_000,
        fenced_streams: None,
        ..config()
    };
    let mut rooms = pair(&narrow);
    let ids = [(); 2].map(|()| rooms[0].open(Dir::Uni).unwrap());
    assert_eq!(rooms[0].sending(ids[0]).room(u64::MAX), Ok(50_000), "the credit of the stream");
    assert_eq!(rooms[0].sending(ids[0]).room(30_000), Ok(30_000), "what the path takes");
    assert_eq!(rooms[0].sending(ids[0]).write(&mut Bytes::from(vec![7; 30_000])), Ok(30_000));
    assert_eq!(rooms[0].sending(ids[0]).room(30_000), Ok(0));
    assert_eq!(rooms[0].sending(ids[1]).room(30_000), Ok(LEAST), "a little, whatever the others hold");
    assert_eq!(writable(&mut rooms[0]), []);
    deliver(&mut rooms);
    assert_eq!(writable(&mut rooms[0]), ids[..1], "the path has taken it");
    assert_eq!(rooms[0].sending(ids[0]).room(30_000), Ok(20_000), "what is left of the credit");
    rooms[0].sending(ids[0]).write(&mut Bytes::from(vec![7; 20_000])).unwrap();
    deliver(&mut rooms);
    assert_eq!(rooms[0].sending(ids[0]).room(30_000), Ok(0));
    assert_eq!(writable(&mut rooms[0]), []);
    // The peer reads, and gives credit.
    rooms[1].accept(Dir::Uni).unwrap();
    while let Ok(Chunk::Data(_)) = rooms[1].receiving(ids[0]).read(100_000) {}
    let credit = packet(&mut rooms[1], 1200, NOW).expect("credit");
    receive(&mut rooms[0], &credit.payload, NOW).unwrap();
    assert_eq!(writable(&mut rooms[0]), ids[..1]);
    assert_eq!(rooms[0].sending(ids[0]).room(30_000), Ok(30_000));
    rooms[0].sending(ids[0]).finish().unwrap();
    assert_eq!(rooms[0].sending(ids[0]).room(30_000), Err(WriteError::Ended));
}

/// What a budget leaves bounds all of them, and who waits is told when it has become less.
#[test]
fn a_ration_bounds_what_is_held() {
    let mut rooms = pair(&config());
    let id = rooms[0].open(Dir::Uni).unwrap();
    rooms[0].ration(40_000);
    assert_eq!(fill(&mut rooms[0], id), 40_000);
    assert_eq!(writable(&mut rooms[0]), []);
    deliver(&mut rooms);
    assert_eq!(writable(&mut rooms[0]), [id]);
    rooms[0].ration(u64::MAX);
    assert_eq!(fill(&mut rooms[0], id), 1 << 20);
}
