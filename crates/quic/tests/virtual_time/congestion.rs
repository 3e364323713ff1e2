//! Congestion controllers of whole connections, over simulated links.

use crate::common::{Pair, Setup, pattern};
use quickset_base::Duration;
use quickset_quic::congestion::{
    Congestion, CongestionControl, CustomController, Feedback, PacketState, TransmittedPacket,
};
use quickset_quic::{Algorithm, Dir, Priority, Stats, StreamId};

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

/// What the application allows holds over every second, and is used, whatever the controller thinks: of a
/// path with room for ten times as much, that loses as little as no controller is limited by.
#[test]
fn no_second_has_more_than_the_application_allows() {
    const MOST: u64 = 4_000_000;
    for algorithm in CLASSIC.into_iter().chain([Algorithm::Bbr]) {
        for seed in quickset_sim::seeds(0..2) {
            let setup = Setup::new(seed, "rate=40mbit delay=20ms queue=200kB loss=0.1%").transport(|t| {
                (t.congestion, t.max_rate_bps) = (algorithm.clone(), Some(MOST));
            });
            let mut pair = setup.connected();
            let key = pair.key;
            pair.client_mut().send(key, Dir::Uni, pattern(5_000_000));
            let (mut sent, step) = (Vec::new(), Duration::from_millis(5));
            for _ in 0..1600 {
                pair.pass(step);
                sent.push(stats(&mut pair).sent_bytes);
            }
            let most = sent.windows(201).map(|second| second[200] - second[0]).max().unwrap();
            assert!(most <= MOST / 8, "{algorithm}, seed {seed}: {most} bytes in a second");
            // Of eight seconds the last seven.
            let mean = (sent[1599] - sent[199]) as f64 / 7.0;
            assert!(mean > 0.9 * MOST as f64 / 8.0, "{algorithm}, seed {seed}: {mean} bytes a second");
            assert!(stats(&mut pair).pacing_rate <= MOST / 8);
            // And without it again.
            let now = pair.world.now();
            pair.client_mut().connection(key).set_max_rate_bps(now, None);
            let before = stats(&mut pair).sent_bytes;
            pair.pass(Duration::from_secs(1));
            let after = stats(&mut pair).sent_bytes - before;
            assert!(after > MOST / 8, "{algorithm}, seed {seed}: {after}");
        }
    }
}

/// What is urgent goes before what waits for leave, and waits for two packets at most, of 13 ms each.
#[test]
fn what_is_urgent_does_not_wait_for_the_rest() {
    for algorithm in CLASSIC.into_iter().chain([Algorithm::Bbr]) {
        let setup = Setup::new(5, "rate=40mbit delay=20ms queue=200kB").transport(|t| {
            (t.congestion, t.max_rate_bps) = (algorithm.clone(), Some(800_000));
        });
        let mut pair = setup.connected();
        let (key, server) = (pair.key, pair.server_key());
        pair.client_mut().send(key, Dir::Uni, pattern(2_000_000));
        let mut latest = Duration::ZERO;
        for _ in 0..50 {
            pair.pass(Duration::from_millis(103));
            let id = pair.client_mut().connection(key).streams().open(Dir::Uni).unwrap();
            let urgent = Priority::weighted(1.0).urgency(0);
            pair.client_mut().connection(key).send_stream(id).set_priority(urgent).unwrap();
            let begin = pair.world.now();
            pair.client_mut().send_on(key, id, vec![7; 100].into());
            pair.until("received", |pair| pair.server().finished.contains(&(server, id)));
            latest = latest.max(pair.world.now().since(begin));
        }
        assert!(latest < Duration::from_millis(20 + 2 * 13 + 3), "{algorithm}: {latest:?}");
    }
}
