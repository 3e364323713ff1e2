//! A transfer in virtual time: 42 MB at 100 Mbit/s and 100 ms RTT over the null session.
//!
//! `cargo run --release -p quickset-quic --example simulated [-- MEGABYTES LINK]` prints what it took, in virtual
//! and in real time when run under `time`.

#[path = "../tests/virtual_time/common.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod common;

use common::{Setup, pattern};
use quickset_quic::{Algorithm, Dir};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let megabytes: usize = arguments.next().map_or(42, |a| a.parse().expect("a number of megabytes"));
    let link = arguments.next().unwrap_or_else(|| "rate=100mbit delay=50ms queue=9MB".into());
    let mut pair = Setup::new(1, &link)
        .transport(|t| {
            t.mtu = 1472;
            t.congestion = Algorithm::Bbr;
        })
        .connected();
    let (key, size) = (pair.key, megabytes * 1_000_000);
    let id = pair.client_mut().send(key, Dir::Uni, pattern(size));
    let server_key = pair.server_key();
    let begun = pair.world.now();
    pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
    let took = (pair.world.now() - begun).as_secs_f64();
    let stats = pair.client_mut().connection(key).stats();
    println!("{megabytes} MB over {link}: {took:.3} s, {:.1} Mbit/s", size as f64 * 8e-6 / took);
    println!(
        "{} packets sent, {} lost, {} probe timeouts",
        stats.sent_packets, stats.lost_packets, stats.ptos
    );
}
