//! Transfers in virtual time over the null session: by default 42 MB at 100 Mbit/s and 100 ms RTT.
//!
//! `cargo run --release -p quickset-quic --example simulated [-- MEGABYTES LINK CC SEEDS WINDOW [timeline]]`
//! prints what it took from the end of the handshake to the last byte read, in virtual time: one line for
//! each seed, and the median. WINDOW is the receive window of a stream at the start, in MiB. With `timeline`
//! also what congestion control thought, every 50 ms.

#[path = "../tests/virtual_time/common.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod common;

use common::{Pair, Setup, pattern};
use quickset_base::Duration;
use quickset_base::number::Unsigned as _;
use quickset_quic::{Algorithm, Dir, Stats};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, default: &'static str| arguments.get(at).map_or(default, String::as_str);
    let megabytes: usize = argument(0, "42").parse().expect("a number of megabytes");
    let link = argument(1, "rate=100mbit delay=50ms queue=9MB");
    let congestion: Algorithm = argument(2, "bbr").parse().expect("a congestion controller");
    let seeds: u64 = argument(3, "1").parse().expect("a number of seeds");
    let window: u64 = argument(4, "8").parse().expect("a number of MiB");
    let timeline = argument(5, "") == "timeline";

    println!("{megabytes} MB over {link}, {congestion}");
    let data = pattern(megabytes * 1_000_000);
    let mut times = Vec::new();
    for seed in 1..=seeds {
        let setup = Setup::new(seed, link).transport(|t| {
            t.mtu = 1472;
            t.congestion = congestion.clone();
            t.stream_window = window << 20;
        });
        let (took, stats) = transfer(&mut setup.connected(), &data, timeline);
        times.push(took);
        println!(
            "seed {seed}: {took:.3} s, {:.1} Mbit/s; {} packets sent, {} lost, {} probe timeouts",
            data.len().approx() * 8e-6 / took,
            stats.sent_packets,
            stats.lost_packets,
            stats.ptos
        );
    }
    times.sort_by(f64::total_cmp);
    println!("median {:.3} s, worst {:.3} s", times[times.len() / 2], times[times.len() - 1]);
}

/// Seconds until the server has read all of it, and the client's count.
fn transfer(pair: &mut Pair, data: &[u8], timeline: bool) -> (f64, Stats) {
    let (key, server_key) = (pair.key, pair.server_key());
    let begun = pair.world.now();
    let id = pair.client_mut().send(key, Dir::Uni, data.to_vec());
    let done = |pair: &Pair| pair.server().finished.contains(&(server_key, id));
    while timeline && !done(pair) {
        let received = pair.server().received.get(&(server_key, id)).map_or(0, Vec::len);
        let s = pair.client_mut().connection(key).stats();
        println!(
            "{:5.2} s  {:10}  window {:8}  in flight {:8}  pacing {:8.0} kB/s  bandwidth {:8.0} kB/s  bound {:8}  \
             rtt {:4} ms  lost {:4}  read {received}",
            (pair.world.now() - begun).as_secs_f64(),
            s.congestion_state,
            s.window,
            s.in_flight,
            s.pacing_rate.approx() / 1e3,
            s.bandwidth.unwrap_or(0).approx() / 1e3,
            s.window_bound.map_or_else(|| "-".to_owned(), |bound| bound.to_string()),
            s.rtt.as_millis(),
            s.lost_packets,
        );
        pair.pass(Duration::from_millis(50));
    }
    // A timeline ends up to 50 ms late, and costs nothing else.
    pair.until("received", |p| p.server().finished.contains(&(server_key, id)));
    ((pair.world.now() - begun).as_secs_f64(), pair.client_mut().connection(key).stats())
}
