//! Streams that are read in any order.

use bytes::Bytes;
use quickset_base::Rng;
use quickset_wire::frame::Frame;
use quickset_wire::{Dir, StreamId};

use super::*;
use crate::streams::{Chunk, Piece, ReadError, RecvState, UnknownStream};

/// Each byte comes once and as it was written, then the end or the code of a reset, and all credit comes
/// back.
#[test]
fn each_byte_is_read_once_whatever_the_channel_does() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let config =
            TransportConfig { stream_window: 6000, fenced_streams: None, ..TransportConfig::fixed_mtu(1200) };
        let mut rooms = pair(&config);
        let id = rooms[0].open(Dir::Uni).unwrap();
        let content: Vec<u8> = (0..20_000).map(|at| (at * 7 + at / 251) as u8).collect();
        let mut data = Bytes::from(content.clone());
        // A third of the streams each are finished, reset, and reset behind a part.
        let reset = [None, Some(0), Some(9000)][seed as usize % 3];
        let (mut flight, mut read, mut over) = (Vec::new(), vec![false; content.len()], false);
        let mut turned = false;
        for step in 0.. {
            assert!(step < 20_000, "seed {seed}: it never ends");
            let _ = rooms[0].sending(id).write(&mut data);
            match reset {
                None if data.is_empty() => drop(rooms[0].sending(id).finish()),
                Some(reliable) if step > 200 => drop(rooms[0].sending(id).reset_at(7, reliable)),
                _ => {}
            }
            if rng.below(2) == 0 {
                flight.extend(packet(&mut rooms[0], 300, Time::ZERO));
            }
            if let Some(sent) = packet(&mut rooms[1], 300, Time::ZERO) {
                receive(&mut rooms[0], &sent.payload, Time::ZERO).unwrap();
                sent.tokens.iter().for_each(|token| rooms[1].acked(*token, Time::ZERO));
            }
            if !flight.is_empty() && rng.below(2) == 0 {
                let sent: Packet = flight.swap_remove(rng.below(flight.len() as u64) as usize);
                let arrives = rng.below(4) != 0;
                if arrives {
                    receive(&mut rooms[1], &sent.payload, Time::ZERO).unwrap();
                }
                for token in &sent.tokens {
                    if arrives {
                        rooms[0].acked(*token, Time::ZERO);
                    } else {
                        rooms[0].lost(*token, Time::ZERO);
                    }
                }
            }
            if !turned && rooms[1].accept(Dir::Uni).is_some() {
                rooms[1].receiving(id).as_unordered().unwrap();
                turned = true;
            }
            while turned && !over {
                match rooms[1].receiving(id).read_unordered(1 + rng.below(2000) as usize) {
                    Ok(Piece::Data { offset, bytes }) => {
                        let range = offset as usize..offset as usize + bytes.len();
                        assert_eq!(bytes, content[range.clone()], "seed {seed}");
                        assert!(!read[range.clone()].contains(&true), "seed {seed}: twice");
                        read[range].fill(true);
                    }
                    Ok(Piece::Blocked) => break,
                    Ok(Piece::Finished) => {
                        assert!(reset.is_none() && !read.contains(&false), "seed {seed}: all of it");
                        over = true;
                    }
                    Err(error) => {
                        assert_eq!(error, ReadError::Reset(7));
                        over = true;
                    }
                }
                rooms[1].check();
            }
            rooms.iter().for_each(Streams::check);
            drain_all(&mut rooms);
            if over && rooms[0].len() == 0 {
                break;
            }
        }
        let promised = reset.map_or(content.len(), |reliable| reliable as usize);
        let written = rooms[0].limits().sent() as usize;
        assert!(!read[..promised.min(written)].contains(&false), "seed {seed}");
        assert_eq!(rooms[1].len(), 0, "seed {seed}");
        assert_eq!(
            rooms[1].limits().consumed(),
            rooms[1].limits().received(),
            "seed {seed}: all credit came back"
        );
    }
}

#[test]
fn a_stream_is_read_in_one_way() {
    let mut room = pair(&TransportConfig::fixed_mtu(1200)).into_iter().nth(1).unwrap();
    let data = |id, offset| Frame::Stream { id, offset, fin: false, data: b"abcd" };
    let [a, b] = [StreamId(2), StreamId(6)];
    for id in [a, b] {
        frame(&mut room, data(id, 0)).unwrap();
        frame(&mut room, data(id, 8)).unwrap();
        assert_eq!(room.accept(Dir::Uni), Some(id));
    }
    assert_eq!(room.receiving(a).read_unordered(10), Err(ReadError::Ordered));
    assert_eq!(room.receiving(a).read(10), Ok(Chunk::Data(Bytes::from_static(b"abcd"))));
    assert_eq!(room.receiving(a).as_unordered(), Err(UnknownStream), "something was read");
    room.receiving(b).as_unordered().unwrap();
    assert_eq!(room.receiving(b).read(10), Err(ReadError::Unordered));
    assert_eq!(room.messages(b).begin(), Err(UnknownStream));
    let piece = |offset, bytes| Ok(Piece::Data { offset, bytes: Bytes::from_static(bytes) });
    assert_eq!(room.receiving(b).read_unordered(3), piece(0, b"abc"));
    assert_eq!(room.receiving(b).read_unordered(3), piece(3, b"d"));
    assert_eq!(room.receiving(b).read_unordered(3), piece(8, b"abc"), "behind a hole");
    drain_events(&mut room);
    assert_eq!(room.receiving(b).read_unordered(3), piece(11, b"d"));
    assert_eq!(room.receiving(b).read_unordered(3), Ok(Piece::Blocked));
    frame(&mut room, data(b, 8)).unwrap();
    assert_eq!(room.next_event(), None, "it was read");
    frame(&mut room, data(b, 16)).unwrap();
    assert_eq!(room.next_event(), Some(crate::streams::StreamEvent::Readable(b)));
}

/// Who reads none of what is there is told of what comes behind it, the end among it.
#[test]
fn the_end_behind_unread_bytes_is_told_to_who_reads_none() {
    let mut room = pair(&TransportConfig::fixed_mtu(1200)).into_iter().nth(1).unwrap();
    let id = StreamId(2);
    let data = |offset, fin, data| Frame::Stream { id, offset, fin, data };
    frame(&mut room, data(0, false, b"abcd")).unwrap();
    assert_eq!(room.accept(Dir::Uni), Some(id));
    drain_events(&mut room);
    frame(&mut room, data(4, false, b"efgh")).unwrap();
    assert_eq!(room.next_event(), None, "nobody waits");
    assert_eq!(room.receiving(id).read(0), Ok(Chunk::Blocked));
    assert_eq!(room.of(id).recv_state(), Some(RecvState::Open));
    frame(&mut room, data(8, true, b"")).unwrap();
    assert_eq!(room.next_event(), Some(crate::streams::StreamEvent::Readable(id)));
    assert_eq!(room.of(id).recv_state(), Some(RecvState::Complete));
}

/// Holes that are denser than packets are cost memory even when what lies between them is read at once.
#[test]
fn more_gaps_than_honest_loss_makes_close_the_connection() {
    let mut room = pair(&TransportConfig::fixed_mtu(1200)).into_iter().nth(1).unwrap();
    let id = StreamId(2);
    let data = |offset| Frame::Stream { id, offset, fin: false, data: b"x" };
    frame(&mut room, data(2)).unwrap();
    assert_eq!(room.accept(Dir::Uni), Some(id));
    room.receiving(id).as_unordered().unwrap();
    let refused = (2..10_000).find_map(|n| {
        while let Ok(Piece::Data { .. }) = room.receiving(id).read_unordered(10) {}
        frame(&mut room, data(2 * n)).err()
    });
    assert_eq!(refused.map(|error| error.code), Some(quickset_wire::TransportErrorCode::PROTOCOL_VIOLATION));
}
