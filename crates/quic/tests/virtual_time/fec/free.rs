//! What repair costs where nothing is lost: the time of its bytes.

use quickset_base::Duration;
use quickset_quic::{Algorithm, Dir};

use super::protected;
use crate::common::{Setup, pattern};

/// A transfer that was alone on its connection: how long it took, and the bytes that were sent until it was
/// there.
struct Took {
    seconds: f64,
    bytes: u64,
}

/// Transfers to the server one after the other, each begun a millisecond after the one before was
/// acknowledged.
fn transfers(setup: &Setup, sizes: &[usize]) -> Vec<Took> {
    let mut pair = setup.connected();
    let (key, at) = (pair.key, pair.server_key());
    let transfer = |size: &usize| {
        pair.pass(Duration::from_millis(1));
        let (begun, before) = (pair.world.now(), pair.client_mut().connection(key).stats().sent_bytes);
        let id = pair.client_mut().send(key, Dir::Uni, pattern(*size));
        pair.until("received", |p| p.server().finished.contains(&(at, id)));
        let seconds = (pair.world.now() - begun).as_secs_f64();
        let bytes = pair.client_mut().connection(key).stats().sent_bytes - before;
        pair.until("acknowledged", |p| p.client().delivered.contains(&(key, id)));
        Took { seconds, bytes }
    };
    sizes.iter().map(transfer).collect()
}

/// Whether transfers with one repair symbol at their end take at most 1 % longer than transfers without that
/// are as much longer as headers and repair are.
fn costs_its_bytes(algorithm: &Algorithm, link: &str, sizes: &[usize]) {
    let setup =
        |protection: &str| protected(1, link, protection).transport(|t| t.congestion = algorithm.clone());
    let repaired = transfers(&setup("tum:1"), sizes);
    let plain = transfers(&setup("none"), sizes);
    let extra =
        plain.iter().zip(&repaired).map(|(plain, repaired)| repaired.bytes.saturating_sub(plain.bytes));
    let longer: Vec<usize> = sizes.iter().zip(extra).map(|(size, extra)| size + extra as usize).collect();
    let longer = transfers(&setup("none"), &longer);
    for (n, (took, size)) in repaired.iter().zip(sizes).enumerate() {
        let without = plain[n].seconds.max(longer[n].seconds);
        assert!(
            took.seconds <= without * 1.01,
            "{algorithm}, {link}: {size} bytes, the {n}th, in {:.3} ms, without repair in {:.3}",
            took.seconds * 1e3,
            without * 1e3
        );
    }
}

#[test]
fn a_repair_symbol_at_the_end_costs_its_bytes() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Bbr] {
        for (rate, delay) in [
            ("10mbit", "2500us"),
            ("10mbit", "50ms"),
            ("50mbit", "10ms"),
            ("50mbit", "50ms"),
            ("50mbit", "150ms"),
        ] {
            let link = format!("rate={rate} delay={delay} queue=10MB");
            costs_its_bytes(&algorithm, &link, &[16_000; 5]);
            costs_its_bytes(&algorithm, &link, &[40_000; 5]);
            costs_its_bytes(&algorithm, &link, &[1_000, 5_000, 24_000, 32_000, 64_000, 200_000, 1_000_000]);
        }
    }
}

#[test]
fn nor_does_it_cost_more_of_a_long_transfer() {
    for algorithm in [Algorithm::NewReno, Algorithm::Cubic, Algorithm::Bbr] {
        costs_its_bytes(&algorithm, "rate=100mbit delay=25ms queue=10MB", &[10_000_000]);
    }
}
