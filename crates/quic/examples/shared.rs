//! Flows that share a bottleneck in virtual time, whole connections over the null session.
//!
//! `cargo run --release -p quickset-quic --example shared [-- LINK CC,CC,… WARM SECONDS SEEDS]` starts one
//! bulk transfer for each controller, the next one half a second after the last, lets them run for WARM
//! seconds and prints what share of the link's rate each got in the SECONDS after: one line for each seed,
//! and the mean.

#[path = "../tests/virtual_time/common.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod common;

use bytes::Bytes;
use common::{Pair, Setup};
use quickset_base::number::Unsigned as _;
use quickset_base::{AddressPair, Duration};
use quickset_quic::{Algorithm, ConnectionKey, Dir};
use quickset_sim::{Rate, address};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize, default: &'static str| arguments.get(at).map_or(default, String::as_str);
    let link = argument(0, "rate=100mbit delay=50ms queue=1250kB");
    let words = argument(1, "bbr,bbr").split(',');
    let algorithms: Vec<Algorithm> =
        words.map(|word| word.parse().expect("a congestion controller")).collect();
    let seconds =
        |at, default| Duration::from_secs(argument(at, default).parse().expect("a number of seconds"));
    let (warm, measured) = (seconds(2, "2"), seconds(3, "4"));
    let seeds: u64 = argument(4, "1").parse().expect("a number of seeds");

    println!("{} over {link}: {warm:?}, then {measured:?}", argument(1, "bbr,bbr"));
    let mut sums = vec![0.0; algorithms.len()];
    for seed in 1..=seeds {
        let mut run = Run::new(seed, link, &algorithms);
        run.pass(warm);
        let (before, lost) = (run.counted.clone(), run.lost());
        run.rtt = (0.0, 0.0);
        run.pass(measured);
        let shares: Vec<f64> = run
            .counted
            .iter()
            .zip(&before)
            .map(|(now, then)| (now - then).approx() / run.capacity(measured))
            .collect();
        let (sent, gone) = (run.lost().0 - lost.0, run.lost().1 - lost.1);
        let rtt = run.rtt;
        println!(
            "seed {seed}: {} of the link, sum {:.3}, Jain {:.3}, {:.2} % lost, rtt {:.0} ms",
            text(&shares),
            shares.iter().sum::<f64>(),
            jain(&shares),
            gone.approx() * 100.0 / sent.approx(),
            rtt.0 / rtt.1 * 1e3
        );
        sums.iter_mut().zip(&shares).for_each(|(sum, share)| *sum += share / seeds.approx());
    }
    println!("mean: {}, Jain of the means {:.3}", text(&sums), jain(&sums));
}

struct Run {
    pair: Pair,
    clients: Vec<ConnectionKey>,
    // Bytes that each flow delivered.
    counted: Vec<u64>,
    // Sum and number of samples of the smoothed round trip.
    rtt: (f64, f64),
    bits_per_second: u64,
}

impl Run {
    fn new(seed: u64, link: &str, algorithms: &[Algorithm]) -> Self {
        let setup = |algorithm: &Algorithm| {
            Setup::new(seed, link).transport(|t| {
                t.mtu = 1472;
                t.congestion = algorithm.clone();
                // Receivers that never stand in the way: this is about the bottleneck.
                (t.stream_window, t.max_stream_window, t.max_connection_window) =
                    (64 << 20, 64 << 20, 128 << 20);
            })
        };
        let pair = setup(&algorithms[0]).pair();
        let Rate::Constant(bits_per_second) = pair_rate(link) else { panic!("a link of a fixed rate") };
        let key = pair.key;
        let mut run = Self {
            pair,
            clients: vec![key],
            counted: vec![0; algorithms.len()],
            rtt: (0.0, 0.0),
            bits_per_second,
        };
        run.start(0);
        for (at, algorithm) in algorithms.iter().enumerate().skip(1) {
            run.pass(Duration::from_millis(500));
            let now = run.pair.world.now();
            let config = setup(algorithm).client_config();
            let key = run.pair.client_mut().node.connect(now, &config, AddressPair::to(address(2)), "server");
            run.clients.push(key.expect("a connection begins"));
            run.start(at);
        }
        run
    }

    fn start(&mut self, at: usize) {
        self.pair.until("connected", |p| p.server().connected.len() > at && p.client().connected.len() > at);
        // A GiB: 85 s of 100 Mbit/s. Untouched pages of zeros cost nothing.
        let data = Bytes::from(vec![0; 1 << 30]);
        let key = self.clients[at];
        self.pair.client_mut().send(key, Dir::Uni, data);
    }

    fn pass(&mut self, time: Duration) {
        for _ in 0..time.as_millis() / 50 {
            self.pair.pass(Duration::from_millis(50));
            let closed = (&self.pair.client().closed, &self.pair.server().closed);
            assert!(closed.0.is_empty(), "{closed:?} at {}", self.pair.world.now());
            let connected = self.pair.server().connected.clone();
            for ((key, _), data) in &mut self.pair.server_mut().received {
                let at = connected.iter().position(|k| k == key).expect("one of ours");
                self.counted[at] += data.len() as u64;
                data.clear();
            }
            for key in self.clients.clone() {
                self.rtt.0 += self.pair.client_mut().connection(key).stats().rtt.as_secs_f64();
                self.rtt.1 += 1.0;
            }
        }
    }

    /// Packets sent and lost so far, of all flows.
    fn lost(&mut self) -> (u64, u64) {
        let stats =
            self.clients.clone().into_iter().map(|key| self.pair.client_mut().connection(key).stats());
        stats.fold((0, 0), |sum, s| (sum.0 + s.sent_packets, sum.1 + s.lost_packets))
    }

    /// Bytes that the link carries in `time`.
    fn capacity(&self, time: Duration) -> f64 {
        self.bits_per_second.approx() / 8.0 * time.as_secs_f64()
    }
}

fn pair_rate(link: &str) -> Rate {
    Setup::new(0, link).link.rate
}

/// Jain's index of fairness: 1 when all are equal, 1/n when one has all.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    sum * sum / (shares.len().approx() * shares.iter().map(|s| s * s).sum::<f64>())
}

fn text(shares: &[f64]) -> String {
    shares.iter().map(|share| format!("{share:.3}")).collect::<Vec<_>>().join(" ")
}
