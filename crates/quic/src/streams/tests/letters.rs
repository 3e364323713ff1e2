//! Streams of messages, between two rooms.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use quickset_base::Rng;
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::{Dir, Side, StreamId, TransportErrorCode as Code};

use super::*;
use crate::packet::Channel;
use crate::protect::policy::OpenDeadlines as _;
use crate::streams::{Chunk, Outcome, ReadError, SendError, SendState, StreamEvent};

/// The segment and number of a message stand in its first bytes; the rest follows from the number.
fn letter(segment: u32, number: u32, len: usize) -> Bytes {
    let mut bytes = [segment.to_be_bytes(), number.to_be_bytes()].concat();
    bytes.extend((0..len).map(|at| at as u8 ^ number as u8));
    bytes.into()
}

fn open_letter(bytes: &Bytes) -> (u32, u32) {
    let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
    let (segment, number) = (word(0), word(4));
    assert_eq!(*bytes, letter(segment, number, bytes.len() - 8));
    (segment, number)
}

fn small(fenced: bool) -> TransportConfig {
    TransportConfig {
        fenced_streams: fenced.then_some(2000),
        stream_window: 4000,
        max_stream_window: 16_000,
        max_connection_window: 24_000,
        send_buffer: 10_000,
        ..TransportConfig::fixed_mtu(1200)
    }
}

struct Post {
    rng: Rng,
    rooms: [Streams; 2],
    loss: f64,
    now: Time,
    flight: [Vec<Packet>; 2],
}

impl Post {
    fn new(seed: u64, fenced: [bool; 2]) -> Self {
        let mut rng = Rng::new(seed);
        let mut rooms = [Side::Client, Side::Server]
            .map(|side| Streams::new(side, &(&small(fenced[side as usize])).into()));
        for side in 0..2 {
            rooms[side].set_peer(&announce(&small(fenced[1 - side])));
        }
        Self { loss: rng.unit() * 0.3, rng, rooms, now: Time::ZERO, flight: Default::default() }
    }

    /// Packets of one side leave, arrive in any order, or are lost.
    fn network(&mut self, from: usize) {
        for _ in 0..=self.rng.below(4) {
            let Some(sent) = packet(&mut self.rooms[from], 1200, self.now) else { break };
            self.flight[from].push(sent);
        }
        for _ in 0..self.rng.below(6).min(self.flight[from].len() as u64) {
            let at = self.rng.below(self.flight[from].len() as u64) as usize;
            let sent = self.flight[from].swap_remove(at);
            let lost = self.rng.chance(self.loss);
            if !lost {
                for _ in 0..=self.rng.below(2) {
                    receive(&mut self.rooms[1 - from], &sent.payload, self.now).unwrap();
                }
            }
            for token in sent.tokens {
                if lost {
                    self.rooms[from].lost(token, self.now);
                } else {
                    self.rooms[from].acked(token, self.now);
                }
            }
            self.rooms.iter().for_each(Streams::check);
        }
    }

    /// Sends messages on some streams from the client, reads them at the server, and compares.
    fn run(&mut self) {
        let streams = 1 + self.rng.below(4);
        let ids: Vec<_> = (0..streams).map(|_| self.rooms[0].open_messages(Dir::Uni).unwrap()).collect();
        let mut left: BTreeMap<_, _> = ids.iter().map(|id| (*id, self.rng.below(60) as u32)).collect();
        let total: u32 = left.values().sum();
        let (mut segments, mut sent) = (BTreeMap::<StreamId, u32>::new(), 0u32);
        let mut read = BTreeMap::<StreamId, Vec<(u32, u32)>>::new();
        let (mut ended, mut outcomes, mut accepted) = (0, 0, Vec::new());
        for _ in 0..20_000 {
            self.now += Duration::from_millis(self.rng.below(30));
            for &id in &ids {
                let Some(rest) = left.get_mut(&id) else { continue };
                let segment = segments.entry(id).or_default();
                while *rest > 0 {
                    let len = if self.rng.chance(0.2) { 1900 } else { 200 };
                    let message = letter(*segment, sent, self.rng.below(len) as usize);
                    match self.rooms[0].messages(id).send(message, None) {
                        Ok(_) => (*rest, sent) = (*rest - 1, sent + 1),
                        Err(SendError::Blocked) => break,
                        Err(other) => panic!("{other}"),
                    }
                    if self.rng.chance(0.3) {
                        self.rooms[0].messages(id).fence(Time::ZERO).unwrap();
                        *segment += 1;
                    }
                }
                if *rest == 0 {
                    self.rooms[0].sending(id).finish().unwrap();
                    left.remove(&id);
                }
            }
            self.network(0);
            self.network(1);
            while let Some(id) = self.rooms[1].accept(Dir::Uni) {
                self.rooms[1].messages(id).begin().unwrap();
                accepted.push(id);
            }
            accepted.retain(|&id| {
                loop {
                    match self.rooms[1].messages(id).next() {
                        Ok(Some(message)) => read.entry(id).or_default().push(open_letter(&message.payload)),
                        Ok(None) => return true,
                        Err(ReadError::Finished) => break,
                        Err(other) => panic!("{other}"),
                    }
                }
                ended += 1;
                false
            });
            for &id in &ids {
                while let Some((_, outcome)) = self.rooms[0].messages(id).next_outcome() {
                    assert_eq!(outcome, Outcome::Delivered, "nothing has a deadline");
                    outcomes += 1;
                }
            }
            drain_all(&mut self.rooms);
            if self.rooms.iter().all(|room| room.len() == 0) {
                break;
            }
        }
        assert_eq!((ended, outcomes), (streams, total), "{:?}", self.rooms);
        let mut numbers: Vec<_> = read.values().flatten().map(|letter| letter.1).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, (0..total).collect::<Vec<_>>(), "each once");
        for letters in read.values() {
            assert!(letters.is_sorted_by_key(|letter| letter.0), "a fence was crossed: {letters:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn messages_arrive_once_and_cross_no_fence(seed: u64, client in any::<bool>(), server in any::<bool>()) {
        Post::new(seed, [client, server]).run();
    }
}

/// Frames of the extension that a room writes.
fn extension(sent: &Packet) -> bool {
    Frames::new(&sent.payload)
        .any(|frame| matches!(frame.unwrap(), Frame::Fenced { .. } | Frame::Abandon { .. }))
}

#[test]
fn without_the_offer_of_both_not_one_byte_of_the_extension_is_sent() {
    for fenced in [[false, false], [true, false], [false, true], [true, true]] {
        let mut post = Post::new(1, fenced);
        let id = post.rooms[0].open_messages(Dir::Bi).unwrap();
        post.rooms[0].messages(id).send(letter(0, 0, 10), None).unwrap();
        let sent = packet(&mut post.rooms[0], 1200, Time::ZERO).unwrap();
        // FS-1.
        assert_eq!(extension(&sent), fenced == [true, true], "{fenced:?}");
    }
}

fn fenced(id: StreamId, data: &[u8]) -> Frame<'_> {
    Frame::Fenced { id, offset: 0, distance: 0, start: true, each: false, fin: false, data }
}

#[test]
fn fenced_frames_out_of_place_close_the_connection() {
    let id = StreamId::new(Side::Server, Dir::Uni, 0);
    let ours = StreamId::new(Side::Client, Dir::Uni, 0);
    let stream = Frame::Stream { id, offset: 0, fin: false, data: &[2, 7, 7] };
    // FS-7, FS-62 12, FS-10, FS-42: whether it was offered, what came before, the frame at fault.
    let cases: [(bool, Option<Frame<'_>>, Frame<'_>, Code); 7] = [
        (false, None, fenced(id, &[0]), Code::FRAME_ENCODING_ERROR),
        (false, None, Frame::Abandon { id, offset: 0, len: 1 }, Code::FRAME_ENCODING_ERROR),
        (true, Some(stream), fenced(id, &[2, 7, 7]), Code::FENCE_ERROR),
        (true, Some(fenced(id, &[2, 7, 7])), stream, Code::FENCE_ERROR),
        (true, None, fenced(ours, &[0]), Code::STREAM_STATE_ERROR),
        (true, None, Frame::Abandon { id, offset: 0, len: 4001 }, Code::FLOW_CONTROL_ERROR),
        (true, None, fenced(StreamId::new(Side::Server, Dir::Uni, 100), &[0]), Code::STREAM_LIMIT_ERROR),
    ];
    for (offered, before, fault, code) in cases {
        let mut room = client(&small(offered));
        if let Some(before) = before {
            frame(&mut room, before).unwrap();
        }
        let error = frame(&mut room, fault).expect_err("the frame is at fault");
        assert_eq!((error.code, error.frame), (code, Some(fault.kind())), "{before:?}, then {fault:?}");
    }
}

#[test]
fn a_message_that_is_late_is_dropped_by_the_timer_and_reported() {
    let mut room = client(&small(true));
    let id = room.open_messages(Dir::Uni).unwrap();
    let deadline = Time::from_millis(200);
    let late = room.messages(id).send(letter(0, 0, 10), Some(deadline)).unwrap();
    // The one-way delay is half the smoothed RTT of 100 ms: late after 150 ms. Its first guess is 0.
    let (at, _) = room.deadline().expect("a message has a deadline");
    assert!(at <= deadline + Duration::from_nanos(1));
    room.on_time(&view(at));
    assert_eq!(room.deadline(), None);
    assert_eq!(drain_events(&mut room), [StreamEvent::Outcome(id)]);
    assert_eq!(room.messages(id).next_outcome(), Some((late, Outcome::Dropped)));
    assert_eq!(room.messages(id).next_outcome(), None);
    assert!(packet(&mut room, 1200, at).is_none(), "nothing of it is sent");
    room.check();
}

#[test]
fn a_stopped_stream_of_messages_reports_each_and_is_let_go() {
    let mut rooms = pair(&small(true));
    let id = rooms[0].open_messages(Dir::Uni).unwrap();
    for number in 0..3 {
        rooms[0].messages(id).send(letter(0, number, 1500), None).unwrap();
    }
    let first = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
    receive(&mut rooms[1], &first.payload, Time::ZERO).unwrap();
    let lost = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
    assert_eq!(rooms[1].accept(Dir::Uni), Some(id));
    rooms[1].receiving(id).stop(3).unwrap();
    let stop = packet(&mut rooms[1], 1200, Time::ZERO).unwrap();
    receive(&mut rooms[0], &stop.payload, Time::ZERO).unwrap();
    lost.tokens.iter().for_each(|token| rooms[0].lost(*token, Time::ZERO));
    // FS-61: what was lost is neither sent again nor abandoned.
    let answer = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
    let answer: Vec<_> = Frames::new(&answer.payload).map(Result::unwrap).collect();
    assert!(matches!(answer[..], [Frame::ResetStream { code: 3, .. }]), "{answer:?}");
    rooms[0].lost(FrameToken::ResetStream { key: rooms[0].slab.key(id).unwrap(), reliable: 0 }, Time::ZERO);
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[0].of(id).send_state(), Some(SendState::ResetAcked));
    assert_eq!(rooms[0].messages(id).send(letter(0, 9, 9), None), Err(SendError::Stopped(3)));
    assert_eq!(drain_events(&mut rooms[0]), [StreamEvent::Stopped { id, code: 3 }, StreamEvent::Outcome(id)]);
    let outcomes = std::iter::from_fn(|| rooms[0].messages(id).next_outcome()).map(|(_, outcome)| outcome);
    assert_eq!(outcomes.collect::<Vec<_>>(), [Outcome::Abandoned, Outcome::Abandoned, Outcome::Dropped]);
    drain_all(&mut rooms);
    assert_eq!(rooms.each_ref().map(Streams::len), [0, 0]);
}

#[test]
fn a_stream_of_messages_is_announced_before_there_is_one() {
    for fenced in [true, false] {
        let mut rooms = pair(&small(fenced));
        let id = rooms[0].open_messages(Dir::Uni).unwrap();
        assert!(packet(&mut rooms[0], 1200, Time::ZERO).is_none());
        rooms[0].messages(id).announce().unwrap();
        let lost = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
        lost.tokens.iter().for_each(|token| rooms[0].lost(*token, Time::ZERO));
        exchange(&mut rooms, Time::ZERO);
        assert_eq!(rooms[1].accept(Dir::Uni), Some(id), "fenced: {fenced}");
        // FS-21: the peer reads it as what it is.
        rooms[1].messages(id).begin().unwrap();
        rooms[0].messages(id).send(letter(0, 7, 20), None).unwrap();
        rooms[0].messages(id).announce().unwrap();
        exchange(&mut rooms, Time::ZERO);
        rooms[0].messages(id).announce().unwrap();
        assert!(packet(&mut rooms[0], 1200, Time::ZERO).is_none(), "it is known");
        let message = rooms[1].messages(id).next().unwrap().expect("a message");
        assert_eq!(open_letter(&message.payload), (0, 7));
        let bytes = rooms[0].open(Dir::Uni).unwrap();
        assert!(
            rooms[0].messages(bytes).announce().is_err()
                && rooms[0].messages(bytes).set_resend(false).is_err()
        );
    }
}

#[test]
fn without_resends_a_lost_message_is_abandoned_and_the_sender_told() {
    let mut rooms = pair(&small(true));
    let id = rooms[0].open_messages(Dir::Uni).unwrap();
    rooms[0].messages(id).set_resend(false).unwrap();
    let old = rooms[0].messages(id).send(letter(0, 0, 100), None).unwrap();
    let lost = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
    lost.tokens.iter().for_each(|token| rooms[0].lost(*token, Time::ZERO));
    assert_eq!(drain_events(&mut rooms[0]), [StreamEvent::Outcome(id)]);
    assert_eq!(rooms[0].messages(id).next_outcome(), Some((old, Outcome::Abandoned)));
    rooms[0].messages(id).fence(Time::ZERO).unwrap();
    let new = rooms[0].messages(id).send(letter(1, 1, 100), None).unwrap();
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(rooms[1].accept(Dir::Uni), Some(id));
    let got = rooms[1].messages(id).next().unwrap().expect("nothing waits for what was abandoned");
    assert_eq!((open_letter(&got.payload), got.segment), ((1, 1), 110));
    assert_eq!(rooms[0].messages(id).next_outcome(), Some((new, Outcome::Delivered)));
    // And back to resends.
    rooms[0].messages(id).set_resend(true).unwrap();
    rooms[0].messages(id).send(letter(2, 2, 100), None).unwrap();
    let lost = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
    lost.tokens.iter().for_each(|token| rooms[0].lost(*token, Time::ZERO));
    exchange(&mut rooms, Time::ZERO);
    assert_eq!(open_letter(&rooms[1].messages(id).next().unwrap().unwrap().payload), (2, 2));
}

/// FS-39.
#[test]
fn the_peer_may_open_no_more_fenced_streams_than_can_be_held() {
    let config = TransportConfig { max_fenced_streams: 4, ..small(true) };
    let uni = |n| StreamId::new(Side::Server, Dir::Uni, n);
    let mut room = client(&config);
    for n in 0..4 {
        frame(&mut room, fenced(uni(n), &[9, 1])).unwrap();
    }
    let fifth = frame(&mut room, fenced(uni(4), &[9, 1])).unwrap_err();
    assert_eq!(fifth.code, Code::STREAM_LIMIT_ERROR);
    // Streams of bytes are no cost: as they turn out to be such, others may be opened in their place.
    let mut room = client(&config);
    let bytes = |n| Frame::Stream { id: uni(n), offset: 0, fin: false, data: &[1] };
    let mut limit = 4;
    for n in 0..100 {
        frame(&mut room, bytes(n)).unwrap();
        frame(&mut room, bytes(n)).unwrap();
        if let Some(sent) = packet(&mut room, 1200, Time::ZERO) {
            for frame in Frames::new(&sent.payload) {
                if let Frame::MaxStreams { dir: Dir::Uni, max } = frame.unwrap() {
                    limit = max;
                }
            }
        }
        let all = n + 5;
        assert!(limit <= all.min(100) && limit > (n + 1).min(99), "{limit} after {n}");
    }
    // Read as messages, they are a cost after all, and nothing is added until some are closed.
    let mut room = client(&config);
    frame(&mut room, bytes(0)).unwrap();
    room.accept(Dir::Uni).unwrap();
    room.messages(uni(0)).begin().unwrap();
    room.check();
    // A peer that cannot fence is not limited by it.
    let mut room = Streams::new(Side::Client, &(&config).into());
    room.set_peer(&announce(&small(false)));
    let sent = packet(&mut room, 1200, Time::ZERO).unwrap();
    assert!(sent.tokens.contains(&FrameToken::MaxStreams { dir: Dir::Uni, max: 100 }), "{:?}", sent.tokens);
}

/// FS-39: who would open one more waits, as for any limit of streams, and hears when there is room.
#[test]
fn one_more_fenced_stream_waits_for_another_to_end() {
    let mut rooms = pair(&TransportConfig { max_fenced_streams: 4, ..small(true) });
    for _ in 0..20 {
        let ids: Vec<_> = std::iter::from_fn(|| rooms[0].open_messages(Dir::Uni)).collect();
        assert_eq!(ids.len(), 4);
        for id in ids {
            rooms[0].messages(id).send(letter(0, 0, 9), None).unwrap();
            rooms[0].sending(id).finish().unwrap();
        }
        exchange(&mut rooms, Time::ZERO);
        while let Some(id) = rooms[1].accept(Dir::Uni) {
            assert!(rooms[1].messages(id).next().unwrap().is_some());
            assert_eq!(rooms[1].messages(id).next(), Err(ReadError::Finished));
        }
        drain_events(&mut rooms[1]);
        exchange(&mut rooms, Time::ZERO);
        for event in drain_events(&mut rooms[0]) {
            if let StreamEvent::Outcome(id) = event {
                while rooms[0].messages(id).next_outcome().is_some() {}
            }
        }
        exchange(&mut rooms, Time::ZERO);
    }
}

/// FS-65: a peer that knows nothing of records may have windows that hold none.
#[test]
fn records_in_stream_frames_go_as_far_as_credit_does() {
    let tiny = TransportConfig {
        fenced_streams: None,
        stream_window: 400,
        max_stream_window: 400,
        max_connection_window: 500,
        ..TransportConfig::fixed_mtu(1200)
    };
    for deadline in [None, Some(Time::from_millis(1_000_000))] {
        let mut rooms = [
            Streams::new(Side::Client, &(&TransportConfig::fixed_mtu(1200)).into()),
            Streams::new(Side::Server, &(&tiny).into()),
        ];
        rooms[0].set_peer(&announce(&tiny));
        rooms[1].set_peer(&announce(&TransportConfig::fixed_mtu(1200)));
        let id = rooms[0].open_messages(Dir::Uni).unwrap();
        for n in [0, 40, 900, 399, 1100, 5000] {
            rooms[0].messages(id).send(vec![0; n].into(), deadline).unwrap();
        }
        rooms[0].sending(id).finish().unwrap();
        let mut n = 0;
        for _ in 0..100 {
            exchange(&mut rooms, Time::ZERO);
            // The peer reads bytes.
            let _ = rooms[1].accept(Dir::Uni);
            while let Ok(Chunk::Data(bytes)) = rooms[1].receiving(id).read(100) {
                n += bytes.len();
            }
        }
        assert_eq!(n, 1 + 41 + 902 + 401 + 1102 + 5002);
        drain_all(&mut rooms);
    }
}

/// What is a stream of messages is said after it was given up.
#[test]
fn what_was_reset_before_it_was_accepted_is_a_stream_of_messages_all_the_same() {
    let mut rooms = pair(&small(false));
    let id = rooms[0].open_messages(Dir::Uni).unwrap();
    rooms[0].messages(id).send(letter(0, 0, 100), None).unwrap();
    exchange(&mut rooms, Time::ZERO);
    rooms[0].sending(id).reset(7).unwrap();
    exchange(&mut rooms, Time::ZERO);
    let [_, room] = &mut rooms;
    assert_eq!(room.accept(Dir::Uni), Some(id));
    room.messages(id).begin().unwrap();
    assert_eq!(room.messages(id).next().unwrap_err(), ReadError::Reset(7));
    drain_events(room);
    assert_eq!((room.len(), room.limits().consumed()), (0, room.limits().received()));
}

#[test]
fn the_end_of_time_is_no_deadline() {
    let mut room = client(&TransportConfig::fixed_mtu(1200));
    let id = room.open_messages(Dir::Uni).unwrap();
    room.messages(id).send(letter(0, 0, 10), Some(Time::MAX)).unwrap();
    room.check();
    assert_eq!((room.deadline(), room.deadlines(Channel::Connection).last()), (None, None));
}

/// FS-60: what was dropped unsent lies where the messages that arrive end.
#[test]
fn what_was_dropped_may_lie_where_a_stream_is_cut() {
    let mut rooms = pair(&small(true));
    let id = rooms[0].open_messages(Dir::Uni).unwrap();
    let kept = rooms[0].messages(id).send(letter(0, 0, 10), None).unwrap();
    let sent = packet(&mut rooms[0], 1200, Time::ZERO).unwrap();
    let late = rooms[0].messages(id).send(letter(0, 1, 10), None).unwrap();
    rooms[0].messages(id).supersede(late, Time::ZERO);
    rooms[0].sending(id).reset_behind(7, kept).unwrap();
    rooms[0].check();
    sent.tokens.iter().for_each(|token| rooms[0].lost(*token, Time::ZERO));
    exchange(&mut rooms, Time::ZERO);
    rooms[1].accept(Dir::Uni).unwrap();
    rooms[1].messages(id).begin().unwrap();
    assert!(rooms[1].messages(id).next().unwrap().is_some());
    assert_eq!(rooms[1].messages(id).next().unwrap_err(), ReadError::Reset(7));
}
