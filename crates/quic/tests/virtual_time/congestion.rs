//! Congestion controllers of whole connections, over simulated links.

use crate::common::{Pair, Setup, pattern};
use quickset_base::Duration;
use quickset_quic::congestion::{
    Congestion, CongestionControl, CustomController, Feedback, PacketState, TransmittedPacket,
};
use quickset_quic::{Algorithm, Dir, Stats, StreamId};

const CLASSIC: [Algorithm; 2] = [Algorithm::NewReno, Algorithm::Cubic];

/// A transfer to the server that has begun.
fn begun(seed: u64, link: &str, algorithm: &Algorithm, size: usize) -> (Pair, StreamId) {
    let setup = Setup::new(seed, link).transport(|t| {
        t.congestion = algorithm.clone();
        t.mtu = 1472;
        (t.stream_window, t.max_stream_window, t.max_connection_window) = (32 << 20, 32 << 20, 64 << 20);
    });
    let mut pair = setup.connected();
    let key = pair.key;
    let id = pair.client_mut().send(key, Dir::Uni, pattern(size));
    (pair, id)
}

fn stats(pair: &mut Pair) -> Stats {
    let key = pair.key;
    pair.client_mut().connection(key).stats()
}

/// Nothing but the controller decides what is sent: the same one under another name does the same to the
/// packet.
#[test]
fn a_controller_of_ones_own_is_used_like_the_others() {
    let mine = CustomController::new("mine", |mtu, now| Algorithm::NewReno.build(mtu, now));
    let played = [Algorithm::NewReno, Algorithm::Custom(mine)].map(|algorithm| {
        let (mut pair, id) = begun(7, "rate=50mbit delay=20ms queue=100kB loss=0.3%", &algorithm, 4_000_000);
        let server = pair.server_key();
        pair.until("received", |pair| pair.server().finished.contains(&(server, id)));
        (pair.world.now(), stats(&mut pair).sent_packets, stats(&mut pair).lost_packets)
    });
    assert_eq!(played[0], played[1]);
    assert!(played[0].2 > 0);
}

/// Data arrives whatever a controller allows.
#[test]
fn a_controller_that_allows_everything_or_nothing_does_no_harm() {
    #[derive(Debug)]
    struct Always(u64);

    impl Congestion for Always {
        fn on_sent(&mut self, _: &TransmittedPacket) -> PacketState {
            PacketState::default()
        }

        fn on_feedback(&mut self, _: &Feedback<'_>) {}

        fn set_mtu(&mut self, _: u64) {}

        fn control(&self) -> CongestionControl {
            // By a byte a second it would take for ever.
            let rate = (self.0 > 0).then_some(self.0);
            CongestionControl { window: self.0, rate, ..CongestionControl::default() }
        }
    }

    for always in [0, u64::MAX] {
        let mine = Algorithm::Custom(CustomController::new("always", move |_, _| Box::new(Always(always))));
        let (mut pair, id) = begun(3, "rate=100mbit delay=5ms queue=1MB", &mine, 200_000);
        let server = pair.server_key();
        pair.until("received", |pair| pair.server().finished.contains(&(server, id)));
    }
}

/// 100 Mbit/s and 100 ms with a queue of one volume, 849 packets: conservative slow start begins between 2.25
/// and 4.5 volumes, before any loss is known, and nothing is lost to chance.
#[test]
fn slow_start_ends_by_itself() {
    for algorithm in CLASSIC {
        let (mut pair, _) = begun(1, "rate=100mbit delay=50ms queue=1250kB", &algorithm, 20_000_000);
        while stats(&mut pair).congestion_state == "slow start" {
            pair.pass(Duration::from_millis(2));
        }
        let end = stats(&mut pair);
        assert_eq!((end.congestion_state, end.lost_packets), ("conservative slow start", 0), "{algorithm}");
        assert!((2_812_500..5_625_000).contains(&end.window), "{algorithm}: {end:?}");
    }
}

/// Some packets come 10 ms late, behind more than three others: what was taken for loss was none. The queue
/// never overflows, so that the window never shrinks for longer than it takes to know.
#[test]
fn reordering_beyond_the_threshold_is_undone() {
    for algorithm in CLASSIC {
        for seed in quickset_sim::seeds(0..2) {
            let link = "rate=20mbit delay=25ms queue=10MB reorder=0.5%,10ms";
            let (mut pair, id) = begun(seed, link, &algorithm, 4_000_000);
            let server = pair.server_key();
            let (mut cuts, mut most) = (0, 0);
            while !pair.server().finished.contains(&(server, id)) {
                pair.pass(Duration::from_millis(2));
                let now = stats(&mut pair);
                cuts += u32::from(now.window < most && now.congestion_state == "recovery");
                most = most.max(now.window);
            }
            let end = stats(&mut pair);
            assert!(cuts > 0, "{algorithm}, seed {seed}: nothing came late enough");
            assert!(end.spurious_losses > 0, "{algorithm}, seed {seed}: {end:?}");
            assert_eq!(end.lost_packets, end.spurious_losses, "{algorithm}, seed {seed}");
            assert!(end.window >= most, "{algorithm}, seed {seed}: {most}, {end:?}");
        }
    }
}
