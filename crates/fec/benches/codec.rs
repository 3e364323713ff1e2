//! Codes over blocks as a QUIC connection has them: `cargo bench -p quickset-fec --bench codec`.
//!
//! Throughput is in bytes of source symbols, one core. A block fits the second-level cache.

#![expect(missing_docs, reason = "criterion's macros make public functions")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quickset_fec::gf256::Kernel;
use quickset_fec::reed_solomon;

fn symbols(count: usize, len: impl Fn(usize) -> usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|j| (0..len(j)).map(|i| (i * 31 + j * 17 + (i >> 4) * j).to_le_bytes()[0]).collect())
        .collect()
}

fn slices(symbols: &[Vec<u8>]) -> Vec<&[u8]> {
    symbols.iter().map(Vec::as_slice).collect()
}

fn kernels(c: &mut Criterion) {
    let data = symbols(100, |_| 1500);
    let srcs = slices(&data);
    let coefficients: Vec<u8> = (0..1000u32).map(|i| (i * 7 + 3).to_le_bytes()[0]).collect();
    let mut group = c.benchmark_group("combine");
    for kernel in Kernel::available() {
        group.throughput(Throughput::Bytes(150_000));
        for rows in [1, 2, 3, 4, 5, 6, 10] {
            let mut sums = vec![vec![0_u8; 1500]; rows];
            group.bench_function(BenchmarkId::new(kernel.name(), rows), |b| {
                b.iter(|| {
                    let mut dsts: Vec<&mut [u8]> = sums.iter_mut().map(Vec::as_mut_slice).collect();
                    kernel.combine(&mut dsts, &coefficients[..rows * 100], &srcs);
                });
            });
        }
        let mut sum = vec![0; 1500];
        group.bench_function(BenchmarkId::new(kernel.name(), "sum"), |b| {
            b.iter(|| kernel.sum(&mut sum, &srcs));
        });
        group.throughput(Throughput::Bytes(1500));
        group.bench_function(BenchmarkId::new(kernel.name(), "mul_add"), |b| {
            b.iter(|| kernel.mul_add(&mut sum, 0x53, srcs[7]));
        });
    }
    group.finish();
}

/// 105/100: all symbols of 1500 bytes, and of 1400 to 1500.
fn block(c: &mut Criterion) {
    let mut group = c.benchmark_group("reed_solomon");
    for (name, data) in
        [("1500", symbols(100, |_| 1500)), ("1400-1500", symbols(100, |j| 1400 + j * 37 % 101))]
    {
        let srcs = slices(&data);
        group.throughput(Throughput::Bytes(srcs.iter().map(|s| s.len() as u64).sum()));
        let mut repairs = vec![vec![0; 1500]; 5];
        group.bench_function(BenchmarkId::new("encode", name), |b| {
            b.iter(|| {
                let mut repairs: Vec<&mut [u8]> = repairs.iter_mut().map(Vec::as_mut_slice).collect();
                reed_solomon::encode(&srcs, &mut repairs).expect("the block is fine");
            });
        });
        group.bench_function(BenchmarkId::new("encode as sent", name), |b| {
            let mut encoder = reed_solomon::Encoder::new(5).expect("few enough");
            b.iter(|| {
                encoder.clear();
                srcs.iter().try_for_each(|s| encoder.add(s)).expect("the block is fine");
                encoder.repairs().map(<[u8]>::len).sum::<usize>()
            });
        });
        let lost = [3, 17, 40, 41, 88];
        let received: Vec<Option<&[u8]>> =
            srcs.iter().enumerate().map(|(j, s)| (!lost.contains(&j)).then_some(*s)).collect();
        let repairs: Vec<(u8, &[u8])> = (0..).zip(slices(&repairs)).collect();
        let mut recovered = vec![vec![0; 1500]; 5];
        group.bench_function(BenchmarkId::new("decode 5", name), |b| {
            b.iter(|| {
                let mut recovered: Vec<&mut [u8]> = recovered.iter_mut().map(Vec::as_mut_slice).collect();
                reed_solomon::decode(&received, &repairs, &mut recovered).expect("the block is fine");
            });
        });
    }
    group.finish();
}

criterion_group!(benches, block, kernels);
criterion_main!(benches);
