//! Symbols that do not say that they are: the first packets of a connection.

use quickset_base::Time;
use quickset_quic::Dir;

use super::{protected, stats};
use crate::common::{Pair, Setup, pattern};

/// A short transfer: all of it fits into the first window, and into as many packets as without protection, of
/// which each has room for a few bytes more.
const BYTES: usize = 9_000;

/// Sends it, and returns the pair with the time when it was there.
fn short(setup: &Setup) -> (Pair, Time) {
    let mut pair = setup.connected();
    let (key, data) = (pair.key, pattern(BYTES));
    let id = pair.client_mut().send(key, Dir::Uni, data.clone());
    pair.until("there", |p| !p.server().finished.is_empty());
    let (at, arrived) = (pair.server_key(), pair.world.now());
    assert!(pair.server().received[&(at, id)] == data, "other bytes");
    pair.until("acknowledged", |p| !p.client().delivered.is_empty());
    (pair, arrived)
}

/// FEC-66: nobody waits for a byte more than without protection, where with marks each packet would have six.
#[test]
fn a_short_transfer_that_loses_nothing_takes_no_longer_than_without_protection() {
    const LINK: &str = "rate=1mbit delay=20ms queue=1MB";
    let (_, plain) = short(&protected(1, LINK, "none"));
    for protection in ["bulk", "adaptive:bulk", "ac-rlnc", "tum:3"] {
        let setup = protected(1, LINK, protection);
        let (mut pair, arrived) = short(&setup);
        let (client, _) = stats(&mut pair);
        assert_eq!(arrived, plain, "{protection}: {:?}", client.fec);
        // The peer keeps nothing for it: each symbol has its header.
        let marked = setup.transport(|t| {
            let fec = t.fec.take().expect("it is set");
            t.fec = Some(fec.with_unmarked(0));
        });
        let (mut pair, later) = short(&marked);
        let (client_marked, _) = stats(&mut pair);
        assert_eq!(client_marked.fec.sources_sent, client.fec.sources_sent, "{protection}");
        assert_eq!(later > plain, client.fec.sources_sent > 0, "{protection}");
    }
}

/// FEC-36, FEC-67, FEC-69: the repair says what it covers, and brings back whichever was lost; with one lost
/// UNMARKED, too, since the next repair says it again.
#[test]
fn whichever_packet_is_lost_comes_back() {
    const LINK: &str = "rate=20mbit delay=50ms queue=1MB";
    for protection in ["fixed:3", "tum:3", "bulk", "rs:150/100", "xor2d:3x3", "ldpc:200/100"] {
        let (mut pair, _) = short(&protected(2, LINK, protection));
        let (clean, _) = stats(&mut pair);
        assert!(clean.fec.sources_sent >= 6 && clean.fec.repairs_sent > 0, "{protection}: {:?}", clean.fec);
        let (mut recovered, mut resent) = (0, 0);
        for lost in 2..clean.sent_packets {
            let setup = Setup {
                down: Some(LINK.parse().expect("a link")),
                ..protected(2, &format!("{LINK} loss=list:{lost}"), protection)
            };
            let (mut pair, _) = short(&setup);
            let (client, server) = stats(&mut pair);
            assert_eq!(client.fec.recovered, server.fec.recovered_here, "{protection}, packet {lost}");
            recovered += server.fec.recovered_here;
            resent += client.fec.repeats_sent;
        }
        // Those that were sent last may have no repair behind them.
        assert!(
            recovered >= clean.fec.sources_sent - 3,
            "{protection}: {recovered} recovered, {resent} sent again"
        );
    }
}
