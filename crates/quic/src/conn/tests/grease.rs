//! The fixed bit (RFC 9000 §17.2, §17.3.1, RFC 9287): who clears it, when, and who takes what.

use super::versions::Meeting;
use super::*;
use crate::rx::OPENED_TOGETHER;

const FIXED: u8 = 0x40;

/// Each end with a transport of its own: whether it takes part.
fn pair(client: bool, server: bool) -> Joined {
    joined_each(takes(client), takes(server))
}

fn takes(grease_quic_bit: bool) -> TransportConfig {
    TransportConfig { grease_quic_bit, ..TransportConfig::fixed_mtu(1200) }
}

/// Datagrams of one packet each from the client, as the server gets them; the first `unfixed` without the
/// bit.
///
/// The tag covers the first byte, so that it is cleared before the packet is sealed: by the client itself.
fn packets(pair: &mut Joined, count: usize, unfixed: impl Fn(usize) -> bool) -> Vec<Datagram> {
    let mut packets = Vec::new();
    for at in 0..count {
        pair.client.link.grease = crate::packet::Grease::fixed(unfixed(at));
        pair.client.ping();
        let mut sent = drain(&mut pair.client, pair.now, address(1));
        assert_eq!(sent.len(), 1);
        assert_eq!(sent[0].bytes[0] & FIXED == 0, unfixed(at), "packet {at}");
        packets.append(&mut sent);
    }
    packets
}

/// What a server that offered to take them, or did not, takes of `count` packets that come in one batch, and
/// are opened together or one by one.
fn taken(offers: bool, together: bool, count: usize, unfixed: impl Fn(usize) -> bool) -> u64 {
    let acks = crate::AckPolicy { merging: together, ..crate::AckPolicy::default() };
    let mut pair = joined_each(takes(offers), TransportConfig { acks, ..takes(offers) });
    let mut packets = packets(&mut pair, count, &unfixed);
    for (at, packet) in packets.iter().enumerate() {
        assert_eq!(pair.server.is_usual(packet), offers || !unfixed(at), "packet {at}");
    }
    let before = pair.server.stats().received_packets;
    pair.server.handle(pair.now, Input::Received(&mut packets));
    // What is opened one by one waits for this; the answers go nowhere.
    drain(&mut pair.server, pair.now, address(2));
    assert_eq!(pair.server.stats().closed, None);
    pair.server.stats().received_packets - before
}

#[test]
fn packets_without_the_bit_are_taken_by_who_offered_it_and_by_nobody_else() {
    let all = 2 * OPENED_TOGETHER + 3;
    for together in [true, false] {
        let name = if together { "opened together" } else { "one by one" };
        assert_eq!(taken(false, together, all, |_| false), all as u64, "{name}, with the bit");
        assert_eq!(taken(true, together, all, |_| true), all as u64, "{name}, offered");
        assert_eq!(taken(false, together, all, |_| true), 0, "{name}, not offered");
        // One among others that are opened with it.
        for odd in [0, 1, OPENED_TOGETHER - 1, OPENED_TOGETHER, all - 1] {
            assert_eq!(
                taken(true, together, all, |at| at == odd),
                all as u64,
                "{name}, offered, number {odd}"
            );
            let others = all as u64 - 1;
            assert_eq!(
                taken(false, together, all, |at| at == odd),
                others,
                "{name}, not offered, number {odd}"
            );
        }
    }
}

/// Of the packets with a short header that `by` sends, those without the bit, and all of them.
fn shares(pair: &mut Joined, of_client: bool) -> (usize, usize) {
    let (mut unfixed, mut all) = (0, 0);
    for _ in 0..200 {
        let (end, from) =
            if of_client { (&mut pair.client, address(1)) } else { (&mut pair.server, address(2)) };
        end.ping();
        for datagram in drain(end, pair.now, from) {
            assert_eq!(datagram.bytes[0] & 0x80, 0);
            all += 1;
            unfixed += usize::from(datagram.bytes[0] & FIXED == 0);
            let mut batch = vec![datagram];
            let other = if of_client { &mut pair.server } else { &mut pair.client };
            other.handle(pair.now, Input::Received(&mut batch));
        }
    }
    (unfixed, all)
}

#[test]
fn the_bit_is_a_coin_when_both_take_part() {
    for (client, server) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut pair = pair(client, server);
        for of_client in [true, false] {
            let (unfixed, all) = shares(&mut pair, of_client);
            assert_eq!(all, 200);
            let name = format!("{client} {server}, of the client: {of_client}");
            if client && server {
                // Five standard deviations.
                assert!((65..=135).contains(&unfixed), "{name}: {unfixed}");
            } else {
                assert_eq!(unfixed, 0, "{name}");
            }
        }
        pair.settle();
        assert_eq!((&pair.client.stats().closed, &pair.server.stats().closed), (&None, &None));
    }
}

/// RFC 9287 §3.1: a client's first packets have the bit, whatever it is told later; a server has read the
/// client's parameters when it answers.
#[test]
fn nobody_clears_it_before_it_knows_that_the_peer_takes_it() {
    let mut answers = 0;
    for seed in 0..32 {
        let mut meeting =
            Meeting::seeded(seed, TransportConfig::fixed_mtu(1200), TransportConfig::fixed_mtu(1200));
        let hello = drain(&mut meeting.client, meeting.now, address(1));
        for packet in hello.iter().flat_map(firsts) {
            assert_ne!(packet & FIXED, 0, "the client's hello, seed {seed}");
        }
        let answer = meeting.answer(hello);
        answers += answer.iter().flat_map(firsts).filter(|first| first & FIXED == 0).count();
        meeting.give_all(answer);
        meeting.run();
        assert!(meeting.client.is_established() && meeting.server.as_ref().unwrap().is_established());
    }
    assert!(answers > 10, "{answers} of the server's packets with long headers");
}

/// The first bytes of the packets of a datagram.
fn firsts(datagram: &Datagram) -> Vec<u8> {
    let (mut rest, mut firsts) = (&datagram.bytes[..], Vec::new());
    while let Ok(parsed) = wire::header::Parsed::parse(rest, 8) {
        firsts.push(rest[0]);
        rest = &rest[parsed.end..];
    }
    firsts
}
