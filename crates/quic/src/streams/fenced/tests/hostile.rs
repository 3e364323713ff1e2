//! Whatever a peer sends, the receiver answers with messages or an error, in bounded memory (FS-64).

use bytes::Bytes;
use quickset_base::{Rng, Time};
use quickset_wire::TransportErrorCode as Code;

use crate::TransportError;
use crate::streams::fenced::{Fenced, RecordReceiver};

const MAX_RECORD: u64 = 1200;
const WINDOW: u64 = 4000;

/// A frame as a peer might make it up.
#[derive(Clone, Debug)]
enum Frame {
    Fenced(Fenced, Vec<u8>),
    Abandon(u64, u64),
    Stream(u64, bool, Vec<u8>),
    Reset(u64),
}

/// Data that look like records at first, and are cut, or are noise.
fn draw_data(rng: &mut Rng) -> Vec<u8> {
    let mut data = Vec::new();
    for _ in 0..rng.below(6) {
        let len = [0, 1, 3, 30, 200][rng.below(5) as usize];
        if len >= 64 || rng.chance(0.2) {
            data.extend_from_slice(&(0x4000 | len as u16).to_be_bytes());
        } else {
            data.push(len as u8);
        }
        data.extend((0..len).map(|_| rng.next() as u8));
    }
    if rng.chance(0.4) {
        data.truncate(rng.below(data.len() as u64 + 1) as usize);
    }
    if rng.chance(0.05) {
        data.extend((0..rng.below(20)).map(|_| rng.next() as u8));
    }
    data
}

/// Frames without any sense, at offsets where something is.
fn draw_noise(rng: &mut Rng, near: &[u64]) -> Frame {
    let offset = match rng.below(10) {
        0 => rng.below(1 << 62),
        1..=3 => rng.below(WINDOW),
        _ => near[rng.below(near.len() as u64) as usize].saturating_add(rng.below(3)).saturating_sub(1),
    };
    let data = draw_data(rng);
    let fence = if rng.chance(0.5) { 0 } else { near[rng.below(near.len() as u64) as usize] };
    let distance = if rng.chance(0.02) { offset + 1 } else { offset.saturating_sub(fence) };
    match rng.below(20) {
        0 => Frame::Abandon(offset, rng.below(300)),
        1 if rng.chance(0.1) => Frame::Reset(offset),
        2 if rng.chance(0.1) => Frame::Stream(offset, rng.chance(0.1), data),
        _ => {
            let start = rng.chance(0.7);
            let each = start && rng.chance(0.3);
            Frame::Fenced(Fenced { offset, distance, start, each, fin: rng.chance(0.01) }, data)
        }
    }
}

/// A stream as an honest sender would send it, of which frames are taken in any order.
struct Honest {
    bytes: Vec<u8>,
    /// Where records begin, and the end.
    bounds: Vec<u64>,
    fences: Vec<u64>,
}

impl Honest {
    fn draw(rng: &mut Rng) -> Self {
        let (mut bytes, mut bounds, mut fences) = (Vec::new(), vec![0], vec![0]);
        while bytes.len() < 2500 {
            let len = [0, 1, 5, 40, 63, 64, 300, 1200][rng.below(8) as usize];
            match len {
                0..64 => bytes.push(len as u8),
                _ => bytes.extend_from_slice(&(0x4000 | len as u16).to_be_bytes()),
            }
            bytes.resize(bytes.len() + len, 0x55);
            let end = bytes.len() as u64;
            if rng.chance(0.4) {
                fences.push(end);
            }
            bounds.push(end);
        }
        Self { bytes, bounds, fences }
    }

    /// A frame that keeps all rules.
    fn frame(&self, rng: &mut Rng) -> Frame {
        let first = rng.below(self.bounds.len() as u64 - 1) as usize;
        let last = (first + 1 + rng.below(8) as usize).min(self.bounds.len() - 1);
        let mut offset = self.bounds[first];
        if rng.chance(0.1) {
            return Frame::Abandon(offset, self.bounds[last] - offset);
        }
        let inner = &self.bounds[first + 1..last];
        let fenced = |at: &u64| self.fences.contains(at);
        let each = inner.first().is_some_and(fenced);
        // Up to where all boundaries are fences, or none is.
        let mut end = inner.iter().find(|&at| fenced(at) != each).map_or(self.bounds[last], |&at| at);
        let begin = *self.bounds.iter().rfind(|&&at| at < end).unwrap();
        let body = begin + if self.bytes[begin as usize] < 64 { 1 } else { 2 };
        let mut start = true;
        if rng.chance(0.4) && body < end {
            end = body + rng.below(end - body + 1);
            if rng.chance(0.5) && body < end {
                (start, offset) = (false, body + rng.below(end - body));
            }
        }
        let fence = *self.fences.iter().rfind(|&&at| at <= offset).unwrap();
        let (distance, each) = (offset - fence, start && each);
        let data = self.bytes[offset as usize..end as usize].to_vec();
        Frame::Fenced(Fenced { offset, distance, start, each, fin: false }, data)
    }
}

/// Changes one thing.
fn spoil(rng: &mut Rng, frame: &mut Frame) {
    let (up, which) = (rng.chance(0.5), rng.chance(0.5));
    let nudge = |n: &mut u64| *n = if up { *n + 1 } else { n.saturating_sub(1) };
    match frame {
        Frame::Abandon(offset, len) => nudge(if which { offset } else { len }),
        Frame::Fenced(header, data) => match rng.below(6) {
            0 => nudge(&mut header.offset),
            1 => nudge(&mut header.distance),
            2 => header.start = !header.start,
            3 => header.each = !header.each,
            4 => drop(data.pop()),
            _ => data.push(rng.next() as u8),
        },
        Frame::Stream(..) | Frame::Reset(_) => {}
    }
}

fn give(receiver: &mut RecordReceiver, now: Time, frame: &Frame) -> Result<u64, TransportError> {
    match frame {
        Frame::Fenced(header, data) => {
            let payload = Bytes::from(data.clone());
            receiver.on_fenced(now, header, &payload, &payload)
        }
        Frame::Abandon(offset, len) => receiver.on_abandon(now, *offset, *len),
        Frame::Stream(offset, fin, data) => {
            let payload = Bytes::from(data.clone());
            receiver.on_stream(now, *offset, *fin, &payload, &payload)
        }
        Frame::Reset(size) => receiver.on_reset(*size),
    }
}

/// One peer: noise, the bytes of noise in STREAM frames, or an honest stream of which `spoilt` frames are
/// not.
#[derive(Clone, Copy, Debug)]
enum Peer {
    Noise,
    Plain,
    Spoilt(f64),
}

fn run(seed: u64, peer: Peer) -> (usize, Option<Code>) {
    let mut rng = Rng::new(seed);
    let honest = Honest::draw(&mut rng);
    let mut receiver = RecordReceiver::new(MAX_RECORD, WINDOW);
    let mut near = vec![0];
    let (mut frames, mut grown, mut consumed) = (0, 0, 0);
    for step in 0..300 {
        let frame = match peer {
            Peer::Noise => draw_noise(&mut rng, &near),
            Peer::Plain => match draw_noise(&mut rng, &near) {
                Frame::Fenced(header, data) => Frame::Stream(header.offset, header.fin, data),
                other => other,
            },
            Peer::Spoilt(share) => {
                let mut frame = honest.frame(&mut rng);
                if rng.chance(share) {
                    spoil(&mut rng, &mut frame);
                }
                frame
            }
        };
        match give(&mut receiver, Time::from_millis(step), &frame) {
            Ok(more) => grown += more,
            Err(error) => return (frames, Some(error.code)),
        }
        frames += 1;
        receiver.check();
        if let Frame::Fenced(Fenced { offset, .. }, data) | Frame::Stream(offset, _, data) = &frame {
            near.push(offset + data.len() as u64);
        }
        if rng.chance(0.3) {
            while let Some(message) = receiver.next() {
                assert!(message.payload.len() as u64 <= MAX_RECORD && message.completed <= message.released);
            }
        }
        consumed += receiver.take_consumed();
        assert!(consumed <= grown, "credit for what never came");
        // Section 16: bytes by credit, entries by frames and ranges.
        assert!(receiver.held_bytes() as u64 <= 2 * WINDOW + MAX_RECORD + 8);
        assert!(receiver.entries() <= 6 * frames + 6);
    }
    (frames, None)
}

#[test]
fn no_sequence_of_frames_makes_it_panic_or_hoard() {
    let peers = [
        Peer::Noise,
        Peer::Plain,
        Peer::Spoilt(0.0),
        Peer::Spoilt(0.01),
        Peer::Spoilt(0.05),
        Peer::Spoilt(0.3),
    ];
    let known = [Code::FENCE_ERROR, Code::FINAL_SIZE_ERROR, Code::FLOW_CONTROL_ERROR];
    let mut deep = 0;
    for seed in 0..3000 {
        let peer = peers[seed as usize % peers.len()];
        let (frames, error) = run(seed, peer);
        assert!(error.is_none_or(|code| known.contains(&code)), "seed {seed}: {error:?}");
        // Frames of an honest stream never fail, in whatever order, cut however.
        let honest = matches!(peer, Peer::Spoilt(share) if share == 0.0);
        assert!(!honest || error.is_none(), "seed {seed}: {error:?}");
        deep += usize::from(frames > 20);
    }
    assert!(deep > 1000, "{deep} runs went beyond 20 frames: too few to mean anything");
}

/// The cheapest way to make entries: records of one byte, every other one, behind a hole.
#[test]
fn ranges_are_limited() {
    let payload = Bytes::from_static(&[0]);
    let mut receiver = RecordReceiver::new(65_536, 1 << 20);
    let before = receiver.max_stream_data();
    // FS-41: twice 512, and two for the whole 2048 bytes that 1026 of them span.
    for n in 1..=1026 {
        let header = Fenced { offset: 2 * n, distance: 2 * n, start: true, each: false, fin: false };
        receiver.on_fenced(Time::ZERO, &header, &payload, &payload).unwrap();
        while receiver.next().is_some() {}
        // FS-40: reading moves the window only up to 512 ranges, which span less than 2048 bytes.
        assert_eq!(receiver.max_stream_data(), before + n.min(512));
    }
    let header = Fenced { offset: 2054, distance: 2054, start: true, each: false, fin: false };
    let error = receiver.on_fenced(Time::ZERO, &header, &payload, &payload).unwrap_err();
    assert_eq!(error.code, Code::FENCE_ERROR, "FS-41");
}

/// A prefix that announces the longest record, then nothing, costs what arrived.
#[test]
fn an_announced_length_reserves_nothing() {
    let payload = Bytes::from_static(&[0x80, 0x0f, 0xff, 0xff, 1]);
    let mut receiver = RecordReceiver::new(1 << 20, 8 << 20);
    let header = Fenced { offset: 0, distance: 0, start: true, each: false, fin: false };
    receiver.on_fenced(Time::ZERO, &header, &payload, &payload).unwrap();
    let header = Fenced { offset: 1 << 19, distance: 1 << 19, start: false, each: false, fin: false };
    receiver.on_fenced(Time::ZERO, &header, &payload, &payload).unwrap();
    assert_eq!(receiver.held_bytes(), 1 + 5);
    assert_eq!(receiver.take_consumed(), 10, "FS-38: moved into the record");
}
