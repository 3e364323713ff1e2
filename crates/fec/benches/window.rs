//! Sliding windows and LDPC as a QUIC connection has them: `cargo bench -p quickset-fec --bench window`.
//!
//! A window is 1000 symbols of 1500 bytes; 50 are lost early and recovered from 50 repair symbols over all of
//! them.

#![expect(missing_docs, reason = "criterion's macros make public functions")]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use quickset_fec::online::{Decoder, DecoderLimits};
use quickset_fec::{Equation, Symbols, ldpc};

const LIMITS: DecoderLimits = DecoderLimits { window: 1024, symbol_size: 1500, max_unknowns: 64 };
const COUNT: u64 = 1000;

fn sent() -> Symbols {
    let mut symbols = Symbols::new(LIMITS.window, LIMITS.symbol_size);
    for sid in 0..COUNT {
        let data: Vec<u8> =
            (0..1500_u64).map(|i| (i * 31 + sid * 17 + (i >> 4) * sid).to_le_bytes()[0]).collect();
        symbols.push(&data).expect("it fits");
    }
    symbols
}

/// A decoder to which all came but 50 of the first 100.
fn received(sent: &Symbols) -> Decoder {
    let mut decoder = Decoder::new(LIMITS);
    for sid in (0..COUNT).filter(|sid| *sid >= 100 || sid % 2 == 0) {
        decoder.source(sid, sent.get(sid).expect("it is held")).expect("it is right");
    }
    decoder
}

fn window(c: &mut Criterion) {
    let sent = sent();
    let mut repairs = Vec::new();
    for seed in 0..50 {
        let equation = Equation::rlc(0, COUNT, seed).expect("it is right");
        let mut data = Vec::new();
        sent.combine(&equation, &mut data).expect("all are held");
        repairs.push((equation, data));
    }
    let mut group = c.benchmark_group("rlc");
    let mut out = Vec::new();
    let mut next = repairs.iter().map(|(equation, _)| equation).cycle();
    group.bench_function("one repair symbol", |b| {
        b.iter(|| next.next().map(|equation| sent.combine(equation, &mut out)));
    });
    for (name, each) in [("50 losses, worked on at the end", false), ("50 losses, worked on each time", true)]
    {
        group.bench_function(name, |b| {
            b.iter_batched(
                || received(&sent),
                |mut decoder| {
                    for (equation, data) in &repairs {
                        decoder.repair(equation, data).expect("it is right");
                        if each {
                            decoder.work(usize::MAX);
                        }
                    }
                    while decoder.has_work() {
                        decoder.work(usize::MAX);
                    }
                    assert!((0..100).all(|sid| decoder.is_held(sid)));
                    decoder
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.bench_function("source symbol", |b| {
        let mut decoder = received(&sent);
        let mut sid = COUNT;
        b.iter(|| {
            sid += 1;
            decoder.source(sid, &repairs[0].1)
        });
    });
    group.finish();
}

fn staircase(c: &mut Criterion) {
    let sent = sent();
    let block = ldpc::Block::new(0, COUNT, 100).expect("it is a block");
    let repairs = block.encode(&sent).expect("all are held");
    let mut group = c.benchmark_group("ldpc");
    group.bench_function("100 repair symbols", |b| b.iter(|| block.encode(&sent)));
    group.bench_function("50 losses", |b| {
        b.iter_batched(
            || {
                let mut decoder = ldpc::Decoder::new(DecoderLimits { window: 2048, ..LIMITS });
                for sid in (0..COUNT).filter(|sid| sid % 20 != 3) {
                    decoder.source(sid, sent.get(sid).expect("it is held")).expect("it is right");
                }
                decoder
            },
            |mut decoder| {
                for (index, data) in (0..).zip(&repairs) {
                    decoder.repair(&block, index, data).expect("it is right");
                }
                while decoder.has_work() {
                    decoder.work(usize::MAX);
                }
                assert!((0..COUNT).all(|sid| decoder.is_held(sid)));
                decoder
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, window, staircase);
criterion_main!(benches);
