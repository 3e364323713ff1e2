//! What was not agreed on is not sent, and then everything is as without the extension.

use quickset_base::Duration;
use quickset_policies::read;
use quickset_quic::{Algorithm, Dir, Fec, FecStats, Stats};
use quickset_sim::Trace;

use super::traffic::{self, Load};
use super::{stats, transfer};
use crate::common::{Setup, pattern};

const LOSSY: &str = "rate=20mbit delay=20ms queue=1MB loss=2%";

const LOAD: Load =
    Load { bytes: 60_000, updates: 4, messages: 6, size: 900, pause: Duration::from_millis(40) };

fn fec(protection: &str) -> Fec {
    let protection = read(protection).expect("a protection");
    Fec::default().with_protection(protection)
}

/// Sums of what went over the wire of the extension, either way.
fn frames(stats: &(Stats, Stats)) -> u64 {
    let of = |f: &FecStats| {
        f.sources_sent + f.repeats_sent + f.repairs_sent + f.sources_received + f.repairs_received
    };
    of(&stats.0.fec) + of(&stats.1.fec)
}

/// FEC-1, FEC-63. Who does not know the frames would close the connection on the first of them.
#[test]
fn nothing_is_sent_to_who_did_not_offer_it() {
    for protection in ["fixed:5", "rs:120/100", "xor2d:3x4", "adaptive"] {
        let with = Some(fec(protection));
        let nothing = Some(fec(protection).with_window(0));
        let none_at_all = Some(fec(protection).with_sessions(0));
        let short = Some(fec(protection).with_symbol(63));
        let cases = [
            (with.clone(), None),
            (None, with),
            (None, None),
            (nothing.clone(), nothing),
            (none_at_all.clone(), none_at_all),
            (short.clone(), short),
        ];
        for (case, (client, server)) in cases.into_iter().enumerate() {
            let what = format!("{protection}, case {case}");
            let mut setup = Setup::new(3, LOSSY);
            (setup.client.fec, setup.server.fec) = (client, server);
            let mut pair = setup.connected();
            traffic::run(&mut pair, &LOAD, None, &what);
            let stats = stats(&mut pair);
            assert_eq!(frames(&stats), 0, "{what}: {stats:?}");
            assert_eq!(stats.0.spurious_losses + stats.1.spurious_losses, 0, "{what}");
        }
    }
}

/// FEC-1: nor is it told of a window, which its peer may change at any time.
#[test]
fn a_window_is_told_only_to_who_offered_something() {
    for (server, told) in [(Some(fec("none")), true), (None, false)] {
        let mut setup = Setup::new(5, LOSSY);
        (setup.client.fec, setup.server.fec) = (Some(fec("none")), server);
        let mut pair = setup.pair();
        let key = pair.key;
        pair.client_mut().connection(key).set_fec_window(100);
        pair.until("connected", |p| !p.client().connected.is_empty() && !p.server().connected.is_empty());
        pair.client_mut().connection(key).set_fec_window(50);
        pair.pass(Duration::from_secs(2));
        assert!(
            pair.client().closed.is_empty() && pair.server().closed.is_empty(),
            "{:?}",
            pair.client().closed
        );
        assert_eq!(pair.client_mut().connection(key).has_fec(), told);
    }
}

/// The two directions are each other's business: who decodes nothing may send repair all the same.
#[test]
fn a_window_of_zero_is_for_those_who_only_send() {
    let mut setup = Setup::new(4, LOSSY);
    setup.client.fec = Some(fec("fixed:5").with_window(0));
    setup.server.fec = Some(fec("fixed:5"));
    let mut pair = setup.connected();
    traffic::run(&mut pair, &LOAD, None, "one way");
    let (client, server) = stats(&mut pair);
    assert!(client.fec.sources_sent > 50 && client.fec.repairs_sent > 10, "{:?}", client.fec);
    assert_eq!(server.fec.recovered_here, client.fec.recovered);
    assert_eq!((server.fec.sources_sent, server.fec.repairs_sent), (0, 0), "{:?}", server.fec);
}

/// FEC-11, FEC-12: one session for five channels.
#[test]
fn without_a_free_session_a_channel_goes_unprotected() {
    for protection in ["fixed:5", "rs:120/100", "messages", "adaptive"] {
        let value = read(protection).expect("a protection");
        for sessions in [1, 2] {
            let setup = Setup::new(5, LOSSY).transport(|t| t.fec = Some(fec("none").with_sessions(sessions)));
            let mut pair = setup.connected();
            let what = format!("{protection}, {sessions} sessions");
            traffic::run(&mut pair, &LOAD, Some(&value), &what);
            let (client, server) = stats(&mut pair);
            if protection != "adaptive" {
                assert!(client.fec.sources_sent > 0 && server.fec.sources_sent > 0, "{what}: {client:?}");
            }
            assert!(client.fec.sources_sent < client.sent_packets / 2 || sessions > 1, "{what}: {client:?}");
        }
    }
}

/// FEC-16. Small symbols cost no more packets than none: what is beside them goes unprotected.
#[test]
fn symbols_are_no_longer_than_the_peer_takes() {
    for (symbol, mtu) in
        [(64, 1200), (100, 1472), (300, 1200), (900, 1472), (65_535, 1472), (u64::MAX >> 2, 1200)]
    {
        let setup = Setup::new(6, LOSSY).transport(|t| {
            t.fec = Some(fec("fixed:5").with_symbol(symbol));
            t.mtu = mtu;
        });
        let (mut pair, _) = transfer(&setup, 300_000);
        let (client, server) = stats(&mut pair);
        let f = client.fec;
        assert!(f.sources_sent > 100 && f.repairs_sent > 20, "{symbol}: {f:?}");
        assert!(f.repair_bytes <= symbol.saturating_mul(f.repairs_sent), "{symbol}: {f:?}");
        assert!(server.fec.recovered_here > 0, "{symbol}: {:?}", server.fec);
        let whole = u64::from(mtu - 60);
        let data = 300_000 / if 2 * symbol.min(whole) > whole { whole.min(symbol) } else { whole };
        let most = data + f.repairs_sent + client.lost_packets + data / 4;
        assert!(client.sent_packets < most, "{symbol}: {} packets, {data} of data", client.sent_packets);
    }
}

/// With the extension agreed on and nothing protected each packet is the same, but for the parameter in the
/// handshake.
#[test]
fn agreement_alone_costs_nothing() {
    let run = |fec: Option<Fec>| {
        // The server's flight is as long in both cases: its parameter takes id, length, 2 + 1 + 2 bytes and 5
        // schemes, the one of unmarked symbols id, length and 1 byte.
        let certificate = if fec.is_some() { 900 - 21 } else { 900 };
        let setup = Setup { certificate, ..Setup::new(7, LOSSY) }.transport(|t| t.fec = fec.clone());
        let mut pair = setup.connected();
        pair.world.trace(Trace::full());
        let (key, at) = (pair.key, pair.server_key());
        pair.server_mut().echo = true;
        let id = pair.client_mut().send(key, Dir::Bi, pattern(300_000));
        let load = Load { bytes: 1000, ..LOAD };
        traffic::run(&mut pair, &load, None, "idle");
        pair.until("echoed", |p| p.client().finished.contains(&(key, id)));
        let trace = pair.world.take_trace().expect("a trace");
        let stats = (pair.client_mut().connection(key).stats(), pair.server_mut().connection(at).stats());
        let packets: Vec<_> = trace.records().iter().map(|r| (r.time, r.link, r.size)).collect();
        (packets, frames(&stats))
    };
    let (with, sent) = run(Some(fec("none")));
    assert_eq!(sent, 0);
    let (without, _) = run(None);
    assert!(with.len() > 500);
    assert_eq!(with, without);
    assert_eq!(run(Some(fec("sr"))).0, without, "nothing is coded by selective repeat");
}

/// FEC-6, FEC-28: a peer that found a frame of ours in a packet of the handshake would close the connection
/// (FEC-7), and with losses the packets of all levels are under way together.
#[test]
fn what_is_protected_before_the_handshake_is_through_goes_in_1_rtt_packets() {
    let (mut early, mut repaired) = (0, [0; 2]);
    for seed in quickset_sim::seeds(0..20) {
        let link = "rate=100mbit delay=20ms jitter=10ms loss=10%";
        let setup = Setup { certificate: 3000, ..Setup::new(seed, link) }.transport(|t| {
            t.handshake_timeout = Duration::from_secs(60);
            t.fec = Some(fec("fixed:1"));
        });
        let mut pair = setup.pair();
        let mut sent = [None; 2];
        for _ in 0..20_000 {
            pair.pass(Duration::from_millis(1));
            let keys = [Some(pair.key), pair.server_mut().node.keys().next()];
            for side in 0..2 {
                let Some(key) = keys[side].filter(|_| sent[side].is_none()) else { continue };
                let peer = traffic::peer(&mut pair, side);
                let is_early = !peer.connection(key).is_established();
                let Some(id) = peer.connection(key).streams().open(Dir::Uni) else { continue };
                peer.send_on(key, id, pattern(1500).into());
                early += usize::from(is_early);
                sent[side] = Some((key, id));
            }
            let delivered = [pair.client(), pair.server()]
                .into_iter()
                .zip(&sent)
                .all(|(peer, sent)| sent.is_some_and(|sent| peer.delivered.contains(&sent)));
            if delivered {
                break;
            }
        }
        assert!(pair.client().closed.is_empty() && pair.server().closed.is_empty(), "seed {seed}");
        let both = [pair.client().delivered.len(), pair.server().delivered.len()];
        assert_eq!(both, [1, 1], "seed {seed}");
        let (client, server) = stats(&mut pair);
        // Nothing is left to repair where the first that comes of the client acknowledges all.
        for (seeds, side) in repaired.iter_mut().zip([client, server]) {
            *seeds += usize::from(side.fec.repairs_sent > 0);
        }
    }
    assert!(repaired.iter().all(|seeds| *seeds > 15), "{repaired:?} of 20 seeds had repair");
    assert!(early > 10, "{early} streams before the handshake was through: too few to mean anything");
}

/// What a client sends with its Finished is lost with it, and before it has that the server can open no
/// repair.
#[test]
fn a_request_is_not_repaired_before_the_handshake_is_confirmed() {
    for confirmed in [false, true] {
        let setup = Setup::new(3, "rate=20mbit delay=20ms").transport(|t| t.fec = Some(fec("bulk")));
        let mut pair = setup.pair();
        let key = pair.key;
        while !pair.client_mut().connection(key).is_established() {
            pair.pass(Duration::from_millis(1));
        }
        if confirmed {
            pair.pass(Duration::from_millis(100));
        }
        pair.client_mut().send(key, Dir::Uni, pattern(500));
        // An eighth of a round trip, and not yet a whole one.
        pair.pass(Duration::from_millis(20));
        let fec = pair.client_mut().connection(key).stats().fec;
        let sent = (fec.sources_sent, fec.repairs_sent);
        assert_eq!(sent, (1, u64::from(confirmed)), "confirmed: {confirmed}");
    }
}

/// FEC-4: what is offered is decoded, each scheme of it.
#[test]
fn every_scheme_of_the_offer_recovers() {
    let load = Load { bytes: 100, updates: 6, messages: 40, size: 1300, pause: Duration::from_millis(60) };
    for protection in ["xor:10", "xor2d:5x8", "rs:120/100", "ldpc:130/100", "fixed:5"] {
        let setup = Setup::new(8, LOSSY).transport(|t| {
            t.fec = Some(fec(protection));
            t.mtu = 1472;
            t.congestion = Algorithm::Fixed(18_000_000);
        });
        let mut pair = setup.connected();
        traffic::run(&mut pair, &load, None, protection);
        let (client, server) = stats(&mut pair);
        let of = [client.fec.recovered, server.fec.recovered];
        assert!(
            of[0] > 0 && of[1] > 0,
            "{protection}: {of:?} of {} and {}",
            client.lost_packets,
            server.lost_packets
        );
        let here = [server.fec.recovered_here, client.fec.recovered_here];
        assert!(of[0] <= here[0] && of[1] <= here[1], "{protection}: {of:?} were reported of {here:?}");
    }
}
