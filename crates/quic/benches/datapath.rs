//! The cost of a packet: a batch of 44 full packets sealed, opened, acknowledged and settled, over the null
//! session; the same with 20 batches in flight, and with forward erasure correction offered, and used.

#![expect(missing_docs, reason = "criterion writes the main function")]

mod pair;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quickset_quic::{Fec, TransportConfig};

use pair::Pair;

fn packets(c: &mut Criterion) {
    measure(c, "44 packets there, one acknowledgement back", TransportConfig::fixed_mtu(1200), 0);
    #[cfg(feature = "qlog")]
    measure(c, "the same, with traces of both ends", traced(), 0);
    let with = |protection: &str| {
        let protection = protection.parse().expect("a protection");
        TransportConfig::fixed_mtu(1200).with_fec(Fec::default().with_protection(protection))
    };
    let offered = TransportConfig::fixed_mtu(1200).with_fec(Fec::default());
    measure(c, "20 such batches in flight", TransportConfig::fixed_mtu(1200), FLIGHT);
    measure(c, "20 in flight, repair offered", offered, FLIGHT);
    for protection in ["rs:100/100", "rs:105/100", "adaptive:bulk"] {
        measure(c, &format!("20 in flight, {protection}"), with(protection), FLIGHT);
    }
}

fn measure(c: &mut Criterion, name: &str, config: TransportConfig, depth: usize) {
    let mut group = c.benchmark_group("datapath");
    let mut pair = Pair::new(config);
    pair.depth = depth;
    group.throughput(Throughput::Elements(44));
    group.bench_function(name, |b| {
        b.iter(|| {
            pair.write();
            let sent = pair.turn();
            assert!(sent > 0, "nothing to send");
        });
    });
    group.finish();
}

/// Batches in flight: about as many packets as a fast path has.
const FLIGHT: usize = 20;

/// Traces that go nowhere: what is left is the cost of writing them.
#[cfg(feature = "qlog")]
fn traced() -> TransportConfig {
    use quickset_quic::qlog::{Output, Sinks, Subject};

    #[derive(Debug)]
    struct Nowhere;

    impl Sinks for Nowhere {
        fn open(&self, _: &Subject) -> Option<Output> {
            Some(Output { writer: Box::new(std::io::sink()), reference_time_ms: 0.0 })
        }
    }

    TransportConfig::fixed_mtu(1200).with_qlog(Some(std::sync::Arc::new(Nowhere)))
}

criterion_group!(benches, packets);
criterion_main!(benches);
