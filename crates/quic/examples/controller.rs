//! A congestion controller of one's own, which gives way to others, beside CUBIC in virtual time.
//!
//! `cargo run --release -p quickset-quic --example controller` sends 20 MB over 20 Mbit/s and 40 ms with a
//! queue of half a second, by each of the two, and prints how long that took and the longest round trip: what
//! somebody else on this link would have waited for.

#[path = "../tests/virtual_time/common.rs"]
#[expect(dead_code, reason = "the tests use the rest")]
mod common;

use common::{Setup, pattern};
use quickset_base::number::{Float as _, Unsigned as _};
use quickset_base::{Duration, Time};
use quickset_quic::congestion::{
    Congestion, CongestionControl, CustomController, Feedback, PacketState, PathView, TransmittedPacket,
};
use quickset_quic::{Algorithm, Dir};

/// Holds the queue at 25 ms, in the manner of LEDBAT (RFC 6817 §2.4): the window grows while the queue is
/// shorter and shrinks while it is longer, by at most a packet each round trip, and is halved once for each
/// round trip in which something was lost.
#[derive(Debug)]
struct GivesWay {
    window: f64,
    mtu: f64,
    /// What left until then has had its share of the last cut.
    cut: Time,
}

const TARGET: Duration = Duration::from_millis(25);

impl GivesWay {
    fn new(mtu: u64) -> Self {
        Self { window: 10.0 * mtu.approx(), mtu: mtu.approx(), cut: Time::ZERO }
    }
}

impl Congestion for GivesWay {
    fn on_sent(&mut self, _: &TransmittedPacket) -> PacketState {
        PacketState::default()
    }

    fn on_feedback(&mut self, feedback: &Feedback<'_>) {
        if feedback.lost.iter().any(|packet| packet.sent >= self.cut) {
            self.window /= 2.0;
            self.cut = feedback.now;
            return;
        }
        let queue = feedback.srtt.saturating_sub(feedback.min_rtt);
        let off = 1.0 - queue.as_secs_f64() / TARGET.as_secs_f64();
        // A window that was not used says nothing of how much the path takes.
        let is_used = feedback.prior_in_flight.approx() >= self.window / 2.0;
        if is_used || off < 0.0 {
            let acked: u64 = feedback.acked.iter().map(|packet| packet.bytes).sum();
            self.window += off.max(-1.0) * self.mtu * acked.approx() / self.window;
        }
    }

    fn set_mtu(&mut self, mtu: u64) {
        self.mtu = mtu.approx();
    }

    fn control(&self) -> CongestionControl {
        let view = PathView { state: "gives way", ..PathView::default() };
        CongestionControl {
            window: self.window.max(2.0 * self.mtu).whole(),
            view,
            ..CongestionControl::default()
        }
    }
}

fn main() {
    let mine = Algorithm::Custom(CustomController::new("gives-way", |mtu, _| Box::new(GivesWay::new(mtu))));
    let [(slow, short), (fast, long)] = [mine, Algorithm::Cubic].map(|algorithm| {
        let (took, longest) = transfer(&algorithm);
        println!(
            "{algorithm}: {:.2} s, round trips of {} ms at most",
            took.as_secs_f64(),
            longest.as_millis()
        );
        (took, longest)
    });
    assert!(short < Duration::from_millis(40 + 2 * 25) && long > Duration::from_millis(200));
    // It has no slow start.
    assert!(slow.as_secs_f64() < 1.25 * fast.as_secs_f64());
}

/// How long 20 MB took, and the longest round trip, looked at every 10 ms.
fn transfer(algorithm: &Algorithm) -> (Duration, Duration) {
    let setup =
        Setup::new(1, "rate=20mbit delay=20ms queue=1250kB").transport(|t| t.congestion = algorithm.clone());
    let mut pair = setup.connected();
    let (key, server_key, begun) = (pair.key, pair.server_key(), pair.world.now());
    let id = pair.client_mut().send(key, Dir::Uni, pattern(20_000_000));
    let mut longest = Duration::ZERO;
    while !pair.server().finished.contains(&(server_key, id)) {
        pair.pass(Duration::from_millis(10));
        longest = longest.max(pair.client_mut().connection(key).stats().rtt);
    }
    (pair.world.now() - begun, longest)
}
