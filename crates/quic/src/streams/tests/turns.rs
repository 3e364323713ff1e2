use bytes::Bytes;
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::{Dir, StreamId};

use super::*;

/// The streams of the data frames in the next `n` packets, with their bytes.
fn turns(room: &mut Streams, n: usize) -> Vec<(u64, usize)> {
    let mut turns = Vec::new();
    for _ in 0..n {
        let sent = packet(room, 1200, Time::ZERO).expect("there is data");
        turns.extend(Frames::new(&sent.payload).filter_map(|frame| match frame.unwrap() {
            Frame::Stream { id, data, .. } => Some((id.index(), data.len())),
            _ => None,
        }));
    }
    turns
}

fn streams(room: &mut Streams, urgencies: &[u8], bytes: usize) -> Vec<StreamId> {
    urgencies
        .iter()
        .map(|urgency| {
            let id = room.open(Dir::Uni).unwrap();
            room.set_urgency(id, *urgency).unwrap();
            room.write(id, &mut Bytes::from(vec![0; bytes])).unwrap();
            id
        })
        .collect()
}

#[test]
fn equal_streams_get_equal_shares() {
    let mut room = client(&TransportConfig::default());
    streams(&mut room, &[3; 5], 100_000);
    let mut shares = [0; 5];
    for (index, bytes) in turns(&mut room, 100) {
        shares[index as usize] += bytes;
    }
    // Nobody is ahead of another by more than one turn of 4096 bytes and the packet that overdraws it.
    let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
    assert!(most - least <= 4096 + 1200, "{shares:?}");
    assert!(shares.iter().sum::<usize>() > 100 * 1150, "packets are full: {shares:?}");
}

#[test]
fn urgent_streams_go_first_and_lost_data_before_new() {
    let mut room = client(&TransportConfig::default());
    let ids = streams(&mut room, &[3, 5, 0], 2000);
    let first = packet(&mut room, 1200, Time::ZERO).unwrap();
    let mut order: Vec<_> = turns(&mut room, 5).iter().map(|turn| turn.0).collect();
    order.dedup();
    assert_eq!(order, [2, 0, 1], "by urgency");
    assert!(packet(&mut room, 1200, Time::ZERO).is_none());
    // Stream 2 lost data; meanwhile stream 0 has new data and is as urgent, stream 1 is more urgent.
    first.tokens.iter().for_each(|token| room.lost(*token, Time::ZERO));
    for (n, urgency) in [(0, 2), (1, 1), (2, 2)] {
        room.set_urgency(ids[n], urgency).unwrap();
        room.write(ids[n], &mut Bytes::from(vec![0; 1100])).unwrap();
    }
    let mut order: Vec<_> = turns(&mut room, 4).iter().map(|turn| turn.0).collect();
    order.dedup();
    assert_eq!(order[..3], [1, 2, 0], "urgency, then the loss, then round robin");
}

#[test]
fn packets_are_filled_to_the_last_byte() {
    let mut room = client(&TransportConfig::default());
    streams(&mut room, &[3], 500_000);
    for size in 1150..1300 {
        let sent = packet(&mut room, size, Time::ZERO).unwrap();
        assert_eq!(sent.payload.len(), size);
    }
}
