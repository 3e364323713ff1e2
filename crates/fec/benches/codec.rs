//! Codes over blocks as a QUIC connection has them: `cargo bench -p quickset-fec --bench codec`.
//!
//! Throughput is in bytes of source symbols, one core. A block fits the second-level cache.

#![expect(missing_docs, reason = "criterion's macros make public functions")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quickset_fec::gf256::Kernel;

fn symbols(count: usize, len: impl Fn(usize) -> usize) -> Vec<Vec<u8>> {
    (0..count).map(|j| (0..len(j)).map(|i| (i * 31 + j * 17 + (i >> 4) * j) as u8).collect()).collect()
}

fn slices(symbols: &[Vec<u8>]) -> Vec<&[u8]> {
    symbols.iter().map(Vec::as_slice).collect()
}

fn kernels(c: &mut Criterion) {
    let data = symbols(100, |_| 1500);
    let srcs = slices(&data);
    let coefficients: Vec<u8> = (0..1000).map(|i| (i * 7 + 3) as u8).collect();
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

criterion_group!(benches, kernels);
criterion_main!(benches);
