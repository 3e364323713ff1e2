use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use quickset_base::Rng;
use quickset_wire::frame::Frames;
use quickset_wire::{Dir, StreamId};

use super::*;
use crate::streams::{Chunk, ReadError, StreamEvent, WriteError};

/// What one side sends on a stream, and how it ends.
#[derive(Clone, Debug)]
struct Plan {
    bytes: usize,
    written: usize,
    piece: usize,
    urgency: u8,
    /// Reset once this much was written.
    reset_at: Option<usize>,
    over: bool,
}

/// What one side has read of a stream.
#[derive(Clone, Debug, Default)]
struct Reading {
    bytes: usize,
    /// Stop reading after so much.
    stop_at: Option<usize>,
    ended: Option<Ending>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Finished,
    Reset,
    Stopped,
}

/// An application on each room, and a channel that loses, reorders and duplicates.
struct World {
    rng: Rng,
    loss: f64,
    now: Time,
    rooms: [Streams; 2],
    plans: [BTreeMap<u64, Plan>; 2],
    readings: [BTreeMap<u64, Reading>; 2],
    to_open: [u64; 2],
    flight: [Vec<Packet>; 2],
    /// Highest offset seen of each stream at its receiver, to hold against what was announced.
    finished: [u64; 2],
}

/// The byte at an offset of a stream.
fn byte(id: StreamId, offset: usize) -> u8 {
    (offset.wrapping_mul(31) ^ (offset >> 8) ^ id.0 as usize) as u8
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let stream_window = 200 + rng.below(5000);
        let config = TransportConfig {
            max_bidi_streams: 1 + rng.below(4),
            max_uni_streams: 1 + rng.below(4),
            stream_window,
            max_stream_window: stream_window * (1 + rng.below(4)),
            max_connection_window: stream_window * (1 + rng.below(8)),
            send_buffer: 100 + rng.below(20_000),
            fenced_streams: None,
            ..TransportConfig::fixed_mtu(1200)
        };
        let to_open = [rng.below(12), rng.below(12)];
        Self {
            loss: rng.unit() * 0.4,
            rng,
            now: Time::ZERO,
            rooms: pair(&config),
            plans: Default::default(),
            readings: Default::default(),
            to_open,
            flight: Default::default(),
            finished: [0; 2],
        }
    }

    fn plan(&mut self, side: usize, id: StreamId) {
        let bytes = if self.rng.chance(0.1) { 0 } else { self.rng.below(20_000) as usize };
        let plan = Plan {
            bytes,
            written: 0,
            piece: 1 + self.rng.below(3000) as usize,
            urgency: self.rng.below(9) as u8,
            reset_at: self.rng.chance(0.15).then(|| self.rng.below(bytes as u64 + 1) as usize),
            over: false,
        };
        self.rooms[side].sending(id).set_urgency(plan.urgency).unwrap();
        self.rooms[side].sending(id).set_incremental(plan.urgency % 2 == 0).unwrap();
        self.plans[side].insert(id.0, plan);
    }

    fn reading(&mut self, side: usize, id: StreamId) {
        let stop_at = self.rng.chance(0.15).then(|| self.rng.below(10_000) as usize);
        self.readings[side].insert(id.0, Reading { stop_at, ..Reading::default() });
    }

    /// The application of one side does all it can.
    fn act(&mut self, side: usize) {
        while self.to_open[side] > 0 {
            let dir = Dir::ALL[self.rng.below(2) as usize];
            let Some(id) = self.rooms[side].open(dir) else { break };
            self.to_open[side] -= 1;
            self.plan(side, id);
            if dir == Dir::Bi {
                self.reading(side, id);
            }
        }
        for dir in Dir::ALL {
            while let Some(id) = self.rooms[side].accept(dir) {
                self.reading(side, id);
                if dir == Dir::Bi {
                    self.plan(side, id);
                }
            }
        }
        self.write(side);
        self.read(side);
        while let Some(event) = self.rooms[side].next_event() {
            self.finished[side] += u64::from(matches!(event, StreamEvent::Finished(_)));
        }
    }

    fn write(&mut self, side: usize) {
        let room = &mut self.rooms[side];
        for (&id, plan) in &mut self.plans[side] {
            let id = StreamId(id);
            while !plan.over {
                if plan.reset_at.is_some_and(|at| plan.written >= at) {
                    room.sending(id).reset(77).unwrap();
                    plan.over = true;
                    break;
                }
                if plan.written == plan.bytes {
                    // The peer may have stopped it in the meantime.
                    let _ = room.sending(id).finish();
                    plan.over = true;
                    break;
                }
                let end = plan.bytes.min(plan.written + plan.piece);
                let mut bytes: Bytes = (plan.written..end).map(|at| byte(id, at)).collect();
                match room.sending(id).write(&mut bytes) {
                    Ok(n) => plan.written += n,
                    Err(WriteError::Blocked) => break,
                    Err(WriteError::Stopped(88) | WriteError::UnknownStream) => plan.over = true,
                    Err(other) => panic!("{id:?}: {other}"),
                }
            }
        }
    }

    fn read(&mut self, side: usize) {
        let room = &mut self.rooms[side];
        for (&id, reading) in &mut self.readings[side] {
            let id = StreamId(id);
            while reading.ended.is_none() {
                if reading.stop_at.is_some_and(|at| reading.bytes >= at) {
                    room.receiving(id).stop(88).unwrap();
                    reading.ended = Some(Ending::Stopped);
                    break;
                }
                let max = 1 + self.rng.below(4000) as usize;
                match room.receiving(id).read(max) {
                    Ok(Chunk::Data(bytes)) => {
                        assert!(!bytes.is_empty() && bytes.len() <= max);
                        for &b in &bytes {
                            assert_eq!(b, byte(id, reading.bytes), "{id:?} at {}", reading.bytes);
                            reading.bytes += 1;
                        }
                    }
                    Ok(Chunk::Blocked) => break,
                    Ok(Chunk::Finished) => reading.ended = Some(Ending::Finished),
                    Err(ReadError::Reset(77 | 88)) => reading.ended = Some(Ending::Reset),
                    Err(other) => panic!("{id:?}: {other}"),
                }
            }
        }
    }

    /// One side sends some packets; some of those in flight arrive or are lost. True when anything moved.
    fn network(&mut self, from: usize) -> bool {
        let mut moved = false;
        for _ in 0..=self.rng.below(6) {
            let size = 60 + self.rng.below(1400) as usize;
            let Some(sent) = packet(&mut self.rooms[from], size, self.now) else { break };
            moved = true;
            assert!(Frames::new(&sent.payload).all(|frame| frame.is_ok()));
            self.flight[from].push(sent);
        }
        let arrive = self.rng.below(8).min(self.flight[from].len() as u64);
        for _ in 0..arrive {
            moved = true;
            let at = self.rng.below(self.flight[from].len() as u64) as usize;
            let sent = self.flight[from].swap_remove(at);
            if self.rng.chance(self.loss) {
                // A spurious loss: it arrives all the same.
                if self.rng.chance(0.2) {
                    receive(&mut self.rooms[1 - from], &sent.payload, self.now).unwrap();
                }
                sent.tokens.iter().for_each(|token| self.rooms[from].lost(*token, self.now));
            } else {
                for _ in 0..=self.rng.below(2) {
                    receive(&mut self.rooms[1 - from], &sent.payload, self.now).unwrap();
                }
                sent.tokens.iter().for_each(|token| self.rooms[from].acked(*token, self.now));
            }
            self.rooms.iter().for_each(Streams::check);
        }
        moved || !self.flight[from].is_empty()
    }

    fn run(&mut self) {
        let mut quiet = 0;
        for _ in 0..20_000 {
            self.now += Duration::from_millis(self.rng.below(40));
            let mut moved = false;
            for side in 0..2 {
                self.act(side);
                self.rooms[side].check();
                moved |= self.network(side);
            }
            quiet = if moved { 0 } else { quiet + 1 };
            if quiet == 3 {
                return self.verify();
            }
        }
        panic!("it never ends");
    }

    fn verify(&self) {
        assert_eq!(self.to_open, [0, 0], "streams that could never be opened");
        let mut finished = 0;
        for side in 0..2 {
            assert_eq!(self.rooms[side].len(), 0, "slots leak: {:?}", self.rooms[side]);
            for (id, plan) in &self.plans[side] {
                let reading = &self.readings[1 - side][id];
                assert!(plan.over);
                match reading.ended {
                    Some(Ending::Finished) => {
                        assert_eq!(reading.bytes, plan.bytes, "{id}");
                        finished += 1;
                    }
                    Some(Ending::Reset) => assert!(plan.reset_at.is_some(), "{id}"),
                    Some(Ending::Stopped) => assert!(reading.stop_at.is_some()),
                    None => panic!("{id} has not ended: {reading:?} of {plan:?}"),
                }
            }
        }
        // Everything read to its end was reported as finished, but where the peer's reset came too late.
        assert!(self.finished.iter().sum::<u64>() + self.late_resets() >= finished);
    }

    /// Streams whose data all arrived although they were reset.
    fn late_resets(&self) -> u64 {
        self.plans.iter().flat_map(BTreeMap::values).filter(|plan| plan.reset_at.is_some()).count() as u64
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_whatever_the_channel_does(seed: u64) {
        World::new(seed).run();
    }
}

/// The worst orders for the assembler: one byte at a time, backwards, every other first.
#[test]
fn tiny_frames_in_any_order_are_put_together() {
    let orders: [Vec<u64>; 3] = [
        (0..900).collect(),
        (0..900).rev().collect(),
        (0..900).step_by(2).chain((1..900).step_by(2)).collect(),
    ];
    for order in orders {
        let mut room = client(&TransportConfig::fixed_mtu(1200));
        let id = StreamId::new(Side::Server, Dir::Uni, 0);
        for offset in order {
            let data = [byte(id, offset as usize)];
            frame(&mut room, Frame::Stream { id, offset, fin: offset == 899, data: &data }).unwrap();
        }
        room.accept(Dir::Uni).unwrap();
        let mut got = Vec::new();
        while let Ok(Chunk::Data(bytes)) = room.receiving(id).read(usize::MAX) {
            got.extend_from_slice(&bytes);
        }
        assert_eq!(got, (0..900).map(|at| byte(id, at)).collect::<Vec<_>>());
    }
}
