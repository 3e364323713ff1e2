//! What a packet costs in this crate, each way: headers, STREAM, FENCED and ACK frames.

#![expect(missing_docs, reason = "criterion_group! makes a public function without any")]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use quickset_wire::frame::{self, FencedHeader, Frame, Frames};
use quickset_wire::header::{Parsed, ShortHeader, protect, short_header, unprotect};
use quickset_wire::{ConnectionId, StreamId, Writer};

const ID: StreamId = StreamId(4);
const FENCED: FencedHeader =
    FencedHeader { id: ID, offset: 1 << 20, distance: 5000, start: true, each: false, fin: false };
const MASK: [u8; 5] = [0x2e, 0xc0, 0xd8, 0x35, 0x6a];

fn decode(c: &mut Criterion) {
    let cid = ConnectionId::new(&[7; 8]).expect("8 bytes");
    let mut packet = [0; 1472];
    let mut w = Writer::new(&mut packet);
    short_header(&mut w, &ShortHeader { dcid: cid, spin: false, key_phase: false }, 1000, 2);
    c.bench_function("short header: parse, unprotect, protect", |b| {
        b.iter(|| {
            let parsed = Parsed::parse(black_box(&packet), 8).expect("a good header");
            let pn_offset = parsed.pn_offset;
            let sample = parsed.sample(&packet).expect("a long packet");
            let open = unprotect(&mut packet, pn_offset, MASK).expect("a long packet");
            protect(&mut packet, pn_offset, MASK);
            (sample, open.expand(Some(999)))
        });
    });

    let mut buffer = [0x5a; 1472];
    let mut w = Writer::new(&mut buffer);
    frame::stream_header(&mut w, ID, 1 << 20, false, Some(1400));
    let len = w.len() + 1400;
    read(c, "STREAM: read", &buffer[..len]);
    let mut w = Writer::new(&mut buffer);
    frame::fenced_header(&mut w, &FENCED, 1400);
    let len = w.len() + 1400;
    read(c, "FENCED: read", &buffer[..len]);

    for ranges in [1u64, 32] {
        let mut w = Writer::new(&mut buffer);
        frame::ack(&mut w, newest_first(ranges), 80, None);
        c.bench_function(&format!("ACK of {ranges}: read, go through"), |b| {
            b.iter(|| {
                let Some(Ok(Frame::Ack(ack))) = Frames::new(black_box(w.written())).next() else {
                    panic!("not an ACK")
                };
                ack.ranges().map(|r| r.end() - r.start() + 1).sum::<u64>()
            });
        });
    }
}

fn encode(c: &mut Criterion) {
    let mut buffer = [0; 1472];
    c.bench_function("STREAM: write the header", |b| {
        b.iter(|| {
            let mut w = Writer::new(&mut buffer);
            frame::stream_header(&mut w, black_box(ID), black_box(1 << 20), false, Some(1400));
            w.len()
        });
    });
    c.bench_function("FENCED: write the header", |b| {
        b.iter(|| {
            let mut w = Writer::new(&mut buffer);
            frame::fenced_header(&mut w, black_box(&FENCED), 1400);
            w.len()
        });
    });
    for ranges in [1u64, 32] {
        c.bench_function(&format!("ACK of {ranges}: write"), |b| {
            b.iter(|| {
                let mut w = Writer::new(&mut buffer);
                frame::ack(&mut w, newest_first(black_box(ranges)), 80, None)
            });
        });
    }
}

fn read(c: &mut Criterion, name: &str, payload: &[u8]) {
    c.bench_function(name, |b| {
        b.iter(|| {
            let mut bytes = 0;
            for item in Frames::new(black_box(payload)) {
                match item.expect("a good frame") {
                    Frame::Stream { offset, data, .. } | Frame::Fenced { offset, data, .. } => {
                        bytes += offset + data.len() as u64;
                    }
                    _ => {}
                }
            }
            bytes
        });
    });
}

/// Ranges of 8 packets with gaps of 2.
fn newest_first(n: u64) -> impl Iterator<Item = std::ops::RangeInclusive<u64>> {
    (0..n).rev().map(|i| 1000 + 10 * i..=1007 + 10 * i)
}

criterion_group!(wire, decode, encode);
criterion_main!(wire);
