//! What a peer can make us hold that sends as little as it can in each frame (section 16 of the
//! specification).

use bytes::Bytes;
use quickset_base::{Duration, Rng, Time};
use quickset_wire::TransportErrorCode as Code;

use crate::streams::fenced::{Fenced, RecordReceiver};

const WINDOW: u64 = 24 << 10;
const MAX_RECORD: u64 = 6144;

/// Section 16: all of a stream's memory, bookkeeping included, in windows of it.
const MOST: usize = 16;

struct Peer {
    receiver: RecordReceiver,
    now: Time,
    worst: usize,
    frames: usize,
}

impl Peer {
    fn new() -> Self {
        Self { receiver: RecordReceiver::new(MAX_RECORD, WINDOW), now: Time::ZERO, worst: 0, frames: 0 }
    }

    /// A frame with START, a millisecond after the last one.
    fn start(&mut self, offset: u64, fence: u64, data: &[u8]) {
        self.fenced(&Fenced { offset, distance: offset - fence, start: true, each: false, fin: false }, data);
    }

    fn piece(&mut self, offset: u64, data: &[u8]) {
        self.fenced(&Fenced { offset, distance: offset, start: false, each: false, fin: false }, data);
    }

    fn fenced(&mut self, header: &Fenced, data: &[u8]) {
        self.tick();
        let payload = Bytes::copy_from_slice(data);
        self.receiver.on_fenced(self.now, header, &payload, &payload).unwrap();
        self.measure();
    }

    fn stream(&mut self, offset: u64, data: &[u8]) -> Result<u64, Code> {
        self.tick();
        let payload = Bytes::copy_from_slice(data);
        let result = self.receiver.on_stream(self.now, offset, false, &payload, &payload);
        self.measure();
        result.map_err(|error| error.code)
    }

    fn tick(&mut self) {
        self.now += Duration::from_millis(1);
        self.frames += 1;
    }

    fn measure(&mut self) {
        if self.frames % 997 == 0 {
            self.worst = self.worst.max(self.receiver.memory());
        }
    }

    /// Reads everything, and returns the fences and times of completion.
    fn finish(&mut self, name: &str) -> Vec<(u64, Time)> {
        self.worst = self.worst.max(self.receiver.memory());
        assert!(self.frames > 20_000, "{name}: {} frames are no test", self.frames);
        assert!(
            self.worst <= MOST * WINDOW as usize,
            "{name}: {} bytes, {} windows, for {} frames",
            self.worst,
            self.worst as u64 / WINDOW,
            self.frames
        );
        let read: Vec<_> =
            std::iter::from_fn(|| self.receiver.next()).map(|m| (m.segment, m.completed)).collect();
        assert!(self.receiver.memory() < 10_000, "{name}: {} bytes left", self.receiver.memory());
        read
    }
}

/// Orders in which every offset behind the first comes once.
fn orders() -> Vec<(&'static str, Vec<u64>)> {
    let ascending: Vec<u64> = (1..WINDOW).collect();
    let descending: Vec<u64> = (1..WINDOW).rev().collect();
    // Half of each thousand, then the other half: as many ranges as may be, again and again.
    let halves = ascending.chunks(1000).flat_map(|chunk| {
        let odd = chunk.iter().filter(|at| *at % 2 == 1);
        odd.chain(chunk.iter().filter(|at| *at % 2 == 0)).copied().collect::<Vec<_>>()
    });
    let mut shuffled = ascending.clone();
    let mut rng = Rng::new(1);
    for chunk in shuffled.chunks_mut(1000) {
        for at in (1..chunk.len()).rev() {
            chunk.swap(at, rng.below(at as u64 + 1) as usize);
        }
    }
    vec![
        ("ascending", ascending.clone()),
        ("descending", descending),
        ("halves", halves.collect()),
        ("shuffled", shuffled),
    ]
}

#[test]
fn records_of_one_byte_behind_a_hole_without_fences_are_read_at_once_or_kept_small() {
    for (name, order) in orders() {
        let mut peer = Peer::new();
        for at in order {
            peer.start(at, 0, &[0]);
        }
        let read = peer.finish(name);
        assert!(read.is_sorted_by_key(|r| r.1), "{name}: FS-32, by completion");
        assert_eq!(read.len() as u64, WINDOW - 1, "{name}");
    }
}

#[test]
fn records_of_one_byte_that_a_fence_holds() {
    // How many records stand in a segment: all in one, one, or two.
    for per_segment in [WINDOW, 1, 2] {
        for (name, order) in orders() {
            let name = format!("{name}, {per_segment} a segment");
            let mut peer = Peer::new();
            for at in order {
                peer.start(at, (at - 1) / per_segment * per_segment + 1, &[0]);
            }
            assert!(!peer.receiver.is_readable(), "{name}");
            peer.start(0, 0, &[0]);
            let read = peer.finish(&name);
            assert_eq!(read.len() as u64, WINDOW, "{name}");
            // FS-31, FS-32: by segment, then by completion.
            assert!(read.is_sorted(), "{name}");
        }
    }
}

#[test]
fn records_of_one_byte_that_nobody_reads_some_held_for_a_moment() {
    let mut peer = Peer::new();
    for at in (0..WINDOW - 2).step_by(3) {
        // One is free; one waits for the one before it, behind a fence.
        peer.start(at, at, &[0]);
        peer.start(at + 2, at + 2, &[0]);
        peer.start(at + 1, at, &[0]);
    }
    let read = peer.finish("held for a moment");
    assert!(read.is_sorted_by_key(|r| r.0));
    assert_eq!(read.len() as u64, WINDOW / 3 * 3);
}

#[test]
fn records_put_together_from_two_frames() {
    for (name, order) in orders() {
        let mut peer = Peer::new();
        for at in order.into_iter().filter(|at| at % 2 == 1 && at + 2 < WINDOW) {
            peer.start(at, 1, &[1]);
            peer.fenced(
                &Fenced { offset: at + 1, distance: at, start: false, each: false, fin: false },
                &[7],
            );
        }
        peer.start(0, 0, &[0]);
        let read = peer.finish(name);
        assert_eq!(read.len() as u64, WINDOW / 2, "{name}");
    }
}

#[test]
fn pieces_of_one_byte_of_long_records() {
    // In a record whose start is known, and in one whose start is not; four of them fill the window.
    for known in [true, false] {
        for (name, order) in orders() {
            let name = format!("{name}, start known: {known}");
            let mut peer = Peer::new();
            let size = MAX_RECORD;
            for record in 0..4 {
                let start = record * size;
                let prefix = (0x8000_0000 | (size as u32 - 4)).to_be_bytes();
                if known {
                    peer.start(start, 0, &prefix);
                }
                for at in order.iter().filter(|at| (5..size).contains(at)) {
                    peer.piece(start + at, &[1]);
                }
            }
            assert!(!peer.receiver.is_readable(), "{name}");
            for record in 0..4 {
                let start = record * size;
                let prefix = (0x8000_0000 | (size as u32 - 4)).to_be_bytes();
                peer.start(start, 0, &[&prefix[..], &[1]].concat());
            }
            assert_eq!(peer.finish(&name).len(), 4, "{name}");
        }
    }
}

#[test]
fn bytes_one_by_one_in_stream_frames() {
    for (name, order) in orders() {
        let mut peer = Peer::new();
        for at in order {
            peer.stream(at, &[0]).unwrap();
        }
        peer.stream(0, &[0]).unwrap();
        assert_eq!(peer.finish(name).len() as u64, WINDOW, "{name}");
    }
    // More gaps than a stream of bytes may have.
    let mut peer = Peer::new();
    let first = (1..).find_map(|n| peer.stream(2 * n, &[0]).err().map(|code| (n, code)));
    assert_eq!(first, Some((1027, Code::PROTOCOL_VIOLATION)));
}
