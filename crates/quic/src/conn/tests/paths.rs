//! Paths: challenges, floods of them, and attackers who make it look as if the peer had moved (RFC 9000 §8.2,
//! §9.3, §21).

use super::*;
use crate::packet::{Phase, Want};

/// What the server sends next, by where it goes: address and size.
fn sent(connection: &mut Connection, now: Time) -> Vec<(AddressPair, Vec<u8>)> {
    let mut out = Batch::new();
    let mut sent = Vec::new();
    loop {
        match connection.poll(now, &mut out) {
            Poll::Send => {
                sent.extend(out.segments().map(|s| (out.path, s.to_vec())));
                out.clear();
            }
            Poll::Event => {
                while connection.poll_event().is_some() {}
                while connection.poll_signal().is_some() {}
            }
            Poll::Sleep(..) => return sent,
        }
    }
}

fn datagram(from: AddressPair, bytes: &[u8]) -> Datagram {
    Datagram { path: from, ecn: quickset_base::Ecn::NotEct, bytes: bytes.into() }
}

impl Joined {
    /// Something of the client's, in one datagram.
    fn utter(&mut self) -> Datagram {
        self.client.ping();
        let mut all = drain(&mut self.client, self.now, address(1));
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    /// The server gets a datagram from there.
    fn give(&mut self, from: AddressPair, datagram: &Datagram) {
        self.server.handle(self.now, Input::Received(&mut vec![Datagram { path: from, ..datagram.clone() }]));
    }
}

fn elsewhere() -> AddressPair {
    AddressPair::to(std::net::SocketAddr::from(([10, 9, 9, 9], 999)))
}

fn other_port() -> AddressPair {
    AddressPair::to(std::net::SocketAddr::from(([10, 0, 0, 1], 5555)))
}

/// Settles, with the server's datagrams to the client's place `home` only; others are lost. Returns the bytes
/// of those.
fn exchange(pair: &mut Joined, home: AddressPair, time: Duration) -> usize {
    exchange_within(pair, home, time, usize::MAX)
}

/// The same where only datagrams of so many bytes reach the client.
fn exchange_within(pair: &mut Joined, home: AddressPair, time: Duration, most: usize) -> usize {
    let mut astray = 0;
    let until = pair.now + time;
    while pair.now < until {
        pair.now += Duration::from_millis(1);
        let (now, mut up) = (pair.now, drain(&mut pair.client, pair.now, home));
        pair.server.handle(now, Input::Received(&mut up));
        pair.client.handle(now, Input::Timer);
        pair.server.handle(now, Input::Timer);
        let mut down = Vec::new();
        for (to, bytes) in sent(&mut pair.server, now) {
            if to == home && bytes.len() <= most {
                down.push(datagram(address(2), &bytes));
            } else {
                astray += bytes.len();
            }
        }
        pair.client.handle(now, Input::Received(&mut down));
        pair.server.check();
    }
    astray
}

/// RFC 9000 §9.3, §9.3.2: without an answer from there the server goes back to where the client was.
#[test]
fn a_move_that_is_not_confirmed_is_taken_back() {
    let mut pair = joined();
    exchange(&mut pair, address(1), Duration::from_millis(100));
    let packet = pair.utter();
    pair.give(elsewhere(), &packet);
    let astray = exchange_silent(&mut pair, Duration::from_secs(20));
    assert!(astray <= 3 * packet.bytes.len(), "{astray} bytes for {}", packet.bytes.len());
    assert!(astray > 0, "it was challenged");
    assert_eq!(pair.server.path(), address(1));
    assert_eq!((pair.server.stats().moves, pair.server.stats().failed_moves), (0, 1));
    exchange(&mut pair, address(1), Duration::from_millis(100));
    assert!(pair.server.closed().is_none() && pair.client.closed().is_none());
}

/// RFC 9000 §9.3.2 is about a new address: one that the peer came back to, and proved before, is not left
/// because a check that was begun while the peer was elsewhere runs out.
#[test]
fn who_comes_back_is_not_left_for_an_old_check() {
    for away in (1..40).map(|n| Duration::from_millis(100 * n)) {
        let mut pair = joined();
        exchange(&mut pair, address(1), Duration::from_millis(100));
        pair.client.ping();
        exchange(&mut pair, other_port(), away);
        assert_eq!(pair.server.path(), other_port());
        pair.client.ping();
        exchange(&mut pair, address(1), Duration::from_millis(10));
        for _ in 0..500 {
            assert_eq!(pair.server.path(), address(1), "away for {away:?}");
            exchange(&mut pair, address(1), Duration::from_millis(10));
        }
        assert_eq!(pair.server.stats().moves, 2);
    }
}

/// FEC-28, FEC-52: repair waits until a path is proved, which is no reason for what is lost to wait, too.
#[test]
fn what_is_lost_while_a_path_is_not_proved_is_sent_again() {
    for protection in ["fixed:3", "rs:120/100", "xor2d:2x2"] {
        let protection = policies::protection(protection);
        let fec = Some(crate::Fec { protection: protection.clone(), ..crate::Fec::default() });
        let mut pair = joined_with(TransportConfig { fec, ..TransportConfig::fixed_mtu(1200) });
        exchange(&mut pair, address(1), Duration::from_millis(100));
        let id = pair.server.streams().open(Dir::Uni).unwrap();
        pair.server.send_stream(id).write(&mut Bytes::from(vec![7; 9000])).unwrap();
        pair.server.send_stream(id).finish().unwrap();
        let mut down = drain(&mut pair.server, pair.now, address(2));
        down.drain(..4);
        pair.now += Duration::from_millis(20);
        pair.client.handle(pair.now, Input::Received(&mut down));
        // It acknowledges from elsewhere, and says enough for as much to be answered.
        let other = pair.client.streams().open(Dir::Uni).unwrap();
        pair.client.send_stream(other).write(&mut Bytes::from(vec![8; 9000])).unwrap();
        let mut up = drain(&mut pair.client, pair.now, elsewhere());
        pair.now += Duration::from_millis(20);
        pair.server.handle(pair.now, Input::Received(&mut up));
        let mut down = drain(&mut pair.server, pair.now, address(2));
        assert!(!pair.server.link.path.is_validated() && pair.server.path() == elsewhere());
        pair.client.handle(pair.now, Input::Received(&mut down));
        let mut got = 0;
        while let Ok(crate::Chunk::Data(bytes)) = pair.client.recv_stream(id).read(usize::MAX) {
            got += bytes.len();
        }
        assert_eq!(got, 9000, "{protection}");
    }
}

/// FEC-18: on a path that takes smaller datagrams blocks begin anew, since repair of longer symbols would fit
/// none of them.
#[test]
fn blocks_begin_anew_where_datagrams_are_smaller() {
    let fec = Some(crate::Fec { protection: "rs:120/100".parse().unwrap(), ..crate::Fec::default() });
    let mtu_discovery = Some(crate::MtuDiscovery::default());
    let mut pair = joined_with(TransportConfig { mtu_discovery, fec, ..TransportConfig::fixed_mtu(1200) });
    exchange(&mut pair, address(1), Duration::from_secs(5));
    assert!(pair.server.link.path.mtu > 1400);
    let id = pair.server.streams().open(Dir::Uni).unwrap();
    let write = |pair: &mut Joined, len| {
        assert_eq!(pair.server.send_stream(id).write(&mut Bytes::from(vec![7; len])), Ok(len));
    };
    write(&mut pair, 40_000);
    exchange(&mut pair, address(1), Duration::from_millis(100));
    pair.client.ping();
    let time = Duration::from_millis(100);
    exchange_within(&mut pair, elsewhere(), time, 1200);
    let before = pair.server.stats().fec;
    assert!(before.sources_sent > 20 && before.repairs_sent == 0, "{before:?}");
    assert!(pair.server.link.path.is_validated() && pair.server.link.path.mtu == 1200);
    // A block of a hundred, and not another one.
    write(&mut pair, 130_000);
    exchange_within(&mut pair, elsewhere(), time, 1200);
    let after = pair.server.stats().fec;
    assert_eq!(after.repairs_sent, 20, "{after:?}");
}

/// The server's timers alone; nothing reaches anybody. Returns the bytes sent elsewhere.
fn exchange_silent(pair: &mut Joined, time: Duration) -> usize {
    let until = pair.now + time;
    let mut astray = 0;
    while pair.now < until {
        pair.now += Duration::from_millis(10);
        pair.server.handle(pair.now, Input::Timer);
        for (to, bytes) in sent(&mut pair.server, pair.now) {
            if to != address(1) {
                astray += bytes.len();
            }
        }
        pair.server.check();
    }
    astray
}

/// RFC 9000 §9.3.1, §21.1.1.1: an attacker on the path has each packet arrive first as a copy from a victim's
/// address. The victim gets no more than three times what it seems to have sent, and the connection lives.
#[test]
fn copies_from_a_spoofed_address_neither_flood_it_nor_break_the_connection() {
    let mut pair = joined();
    exchange(&mut pair, address(1), Duration::from_millis(100));
    let id = pair.client.streams().open(Dir::Uni).unwrap();
    pair.client.send_stream(id).write(&mut Bytes::from(vec![7; 200_000])).unwrap();
    pair.client.send_stream(id).finish().unwrap();
    let (mut astray, mut copied) = (0, 0);
    for _ in 0..2000 {
        pair.now += Duration::from_millis(5);
        let now = pair.now;
        pair.client.handle(now, Input::Timer);
        for real in drain(&mut pair.client, now, address(1)) {
            copied += real.bytes.len();
            pair.give(elsewhere(), &real);
            pair.give(address(1), &real);
        }
        pair.server.handle(now, Input::Timer);
        let mut down = Vec::new();
        for (to, bytes) in sent(&mut pair.server, now) {
            if to == address(1) {
                down.push(datagram(address(2), &bytes));
            } else {
                astray += bytes.len();
                assert!(astray <= 3 * copied, "{astray} for {copied}");
            }
        }
        pair.client.handle(now, Input::Received(&mut down));
        pair.server.check();
    }
    assert!(pair.server.closed().is_none() && pair.client.closed().is_none());
    let id = pair.server.streams().accept(Dir::Uni).unwrap();
    let mut read = 0;
    while let Ok(crate::Chunk::Data(data)) = pair.server.recv_stream(id).read(usize::MAX) {
        read += data.len();
    }
    assert_eq!(read, 200_000, "all of it arrived, and the client learnt of it");
}

/// RFC 9000 §9.3.3: an attacker beside the path forwards a packet faster than the path does; the client,
/// asked on the old path, answers with a packet that brings the server back.
#[test]
fn a_forwarded_packet_does_not_take_the_connection_over() {
    let mut pair = joined();
    exchange(&mut pair, address(1), Duration::from_millis(100));
    let packet = pair.utter();
    pair.give(elsewhere(), &packet);
    assert_eq!(pair.server.path(), elsewhere());
    let asked = sent(&mut pair.server, pair.now);
    assert!(asked.iter().any(|(to, b)| *to == address(1) && b.len() == 1200), "the old path is challenged");
    let home: Vec<_> = asked.iter().filter(|(to, _)| *to == address(1)).collect();
    pair.now += Duration::from_millis(1);
    pair.client
        .handle(pair.now, Input::Received(&mut home.iter().map(|(_, b)| datagram(address(2), b)).collect()));
    let mut answers = drain(&mut pair.client, pair.now, address(1));
    pair.server.handle(pair.now, Input::Received(&mut answers));
    assert_eq!(pair.server.path(), address(1));
    // It is not believed again before the attacker has answered itself.
    let packet = pair.utter();
    pair.give(elsewhere(), &packet);
    assert_eq!(pair.server.path(), address(1));
}

/// A handshake under way, whose server knows that the client is at `address(1)` if `proven`; and what the
/// client says next.
fn within_the_handshake(proven: bool) -> (Joined, Vec<Datagram>) {
    let transport = TransportConfig::fixed_mtu(1200);
    let mut pair = begun(transport.clone(), transport, if proven { 6000 } else { 900 });
    for _ in 0..=usize::from(proven) {
        let mut down = drain(&mut pair.server, pair.now, address(2));
        pair.now += Duration::from_millis(10);
        pair.client.handle(pair.now, Input::Received(&mut down));
        if pair.client.is_established() {
            break;
        }
        let mut up = drain(&mut pair.client, pair.now, address(1));
        pair.now += Duration::from_millis(10);
        pair.server.handle(pair.now, Input::Received(&mut up));
    }
    assert!(!pair.server.is_established());
    assert_eq!(pair.server.link.path.is_validated(), proven);
    let next = drain(&mut pair.client, pair.now, address(1));
    assert!(!next.is_empty());
    (pair, next)
}

/// RFC 9000 §8.1, §9.3.1: whoever has copies of the client's handshake arrive first, from the address of a
/// victim, sends that thrice as much and no more, whatever the handshake comes to; and the client's next word
/// takes the server back.
#[test]
fn copies_of_a_handshake_from_a_spoofed_address_neither_flood_it_nor_break_it() {
    for proven in [false, true] {
        let (mut pair, next) = within_the_handshake(proven);
        let (mut astray, mut copied) = (0, 0);
        let mut up = next;
        for turn in 0..2000 {
            // The attack ends after five seconds, in which the handshake came to its end.
            for real in up.drain(..) {
                if turn < 1000 {
                    copied += real.bytes.len();
                    pair.give(elsewhere(), &real);
                }
                pair.give(address(1), &real);
            }
            pair.now += Duration::from_millis(5);
            let now = pair.now;
            pair.server.handle(now, Input::Timer);
            let mut down = Vec::new();
            for (to, bytes) in sent(&mut pair.server, now) {
                if to == address(1) {
                    down.push(datagram(address(2), &bytes));
                } else {
                    astray += bytes.len();
                    assert!(astray <= 3 * copied, "{astray} for {copied}");
                }
            }
            pair.server.check();
            pair.client.handle(now, Input::Timer);
            pair.client.handle(now, Input::Received(&mut down));
            up = drain(&mut pair.client, now, address(1));
        }
        let closed = (pair.server.closed(), pair.client.closed());
        assert!(closed.0.is_none() && closed.1.is_none(), "{proven}: {closed:?}");
        assert!(pair.server.is_established() && pair.client.is_established());
        exchange(&mut pair, address(1), Duration::from_secs(5));
        assert_eq!(pair.server.path(), address(1), "{proven}");
        assert!(pair.server.link.path.is_validated() && pair.client.common.phase == Phase::Confirmed);
    }
}

/// RFC 9000 §8.1, §8.1.3: a client that says from another address that it is through has not shown that it is
/// there. It gets no token of that address, which it could use at home for a flood of the other one.
#[test]
fn the_end_of_the_handshake_from_elsewhere_proves_nothing_of_the_address() {
    for proven in [false, true] {
        let (mut pair, next) = within_the_handshake(proven);
        let mut said = 0;
        let mut up = next;
        while !pair.server.is_established() {
            for real in up.drain(..) {
                said += real.bytes.len();
                pair.give(elsewhere(), &real);
            }
            if pair.server.is_established() {
                break;
            }
            let mut down = drain(&mut pair.server, pair.now, address(2));
            pair.client.handle(pair.now, Input::Received(&mut down));
            up = drain(&mut pair.client, pair.now, address(1));
            assert!(!up.is_empty());
        }
        assert_eq!(pair.server.path(), elsewhere());
        assert!(!pair.server.link.path.is_validated());
        assert!(pair.server.life.confirmation.want() > Want::None, "HANDSHAKE_DONE");
        let all: usize = sent(&mut pair.server, pair.now).iter().map(|(_, bytes)| bytes.len()).sum();
        assert!(all > 0 && all <= 3 * said + 1200, "{all} for {said}");
        // At home again: no token comes.
        let mut tokens = 0;
        for _ in 0..3000 {
            pair.now += Duration::from_millis(1);
            let now = pair.now;
            pair.client.handle(now, Input::Timer);
            pair.client.ping();
            let mut out = Batch::new();
            let mut up = Vec::new();
            loop {
                match pair.client.poll(now, &mut out) {
                    Poll::Send => {
                        up.extend(out.segments().map(|s| datagram(address(1), s)));
                        out.clear();
                    }
                    Poll::Event => {
                        let events = std::iter::from_fn(|| pair.client.poll_event());
                        tokens += events.filter(|event| matches!(event, Event::NewToken(_))).count();
                        while pair.client.poll_signal().is_some() {}
                    }
                    Poll::Sleep(..) => break,
                }
            }
            pair.server.handle(now, Input::Received(&mut up));
            pair.server.handle(now, Input::Timer);
            let home = sent(&mut pair.server, now).into_iter().filter(|(to, _)| *to == address(1));
            let mut down = home.map(|(_, bytes)| datagram(address(2), &bytes)).collect();
            pair.client.handle(now, Input::Received(&mut down));
        }
        assert_eq!(pair.server.path(), address(1));
        assert_eq!(pair.client.common.phase, Phase::Confirmed);
        assert_eq!(tokens, 0);
    }
}

/// RFC 9000 §9.3: what is not newer than all else tells of no move, and nor does a copy of what came.
#[test]
fn old_packets_and_copies_move_nobody() {
    let mut pair = joined();
    exchange(&mut pair, address(1), Duration::from_millis(100));
    let (first, second) = (pair.utter(), pair.utter());
    pair.give(address(1), &second);
    pair.give(elsewhere(), &first);
    pair.give(elsewhere(), &second);
    assert_eq!(pair.server.path(), address(1));
    let mut altered = pair.utter();
    *altered.bytes.last_mut().unwrap() ^= 1;
    pair.give(elsewhere(), &altered);
    assert_eq!(pair.server.path(), address(1));
}

/// RFC 9000 §9.4: another port is a NAT's doing, and what is known of the road stays; another address is
/// another road.
#[test]
fn another_port_keeps_what_is_known_of_the_road() {
    for (to, keeps) in [(other_port(), true), (elsewhere(), false)] {
        let mut pair = joined();
        exchange(&mut pair, address(1), Duration::from_millis(300));
        let known = pair.server.stats().rtt;
        assert!(known < Duration::from_millis(100));
        let packet = pair.utter();
        pair.give(to, &packet);
        assert_eq!(pair.server.path(), to);
        let rtt = pair.server.stats().rtt;
        assert_eq!(rtt == known, keeps, "{rtt:?}");
        assert_eq!(rtt == Duration::from_millis(333), !keeps);
        exchange(&mut pair, to, Duration::from_millis(300));
        assert_eq!((pair.server.path(), pair.server.stats().moves), (to, 1));
        assert!(pair.server.stats().rtt < Duration::from_millis(100), "RFC 9002 §6.2.2");
    }
}

#[test]
fn a_move_that_is_confirmed_is_told_once() {
    let mut pair = joined();
    exchange(&mut pair, address(1), Duration::from_millis(300));
    let packet = pair.utter();
    pair.give(other_port(), &packet);
    let mut told = Vec::new();
    for _ in 0..300 {
        pair.now += Duration::from_millis(1);
        let now = pair.now;
        let mut up = drain(&mut pair.client, now, other_port());
        pair.server.handle(now, Input::Received(&mut up));
        pair.server.handle(now, Input::Timer);
        let mut out = Batch::new();
        let mut down = Vec::new();
        loop {
            match pair.server.poll(now, &mut out) {
                Poll::Send => {
                    down.extend(out.segments().map(|s| datagram(address(2), s)));
                    out.clear();
                }
                Poll::Event => {
                    told.extend(std::iter::from_fn(|| pair.server.poll_event()));
                    while pair.server.poll_signal().is_some() {}
                }
                Poll::Sleep(..) => break,
            }
        }
        pair.client.handle(now, Input::Received(&mut down));
    }
    told.retain(|event| matches!(event, Event::Moved(_) | Event::NotMoved(_)));
    assert_eq!(told, [Event::Moved(other_port())]);
}

/// RFC 9000 §21.9: answers are bounded in memory and rate, whoever asks; on each path apart.
#[test]
fn floods_of_challenges_cost_little() {
    let mut pair = joined();
    exchange(&mut pair, address(1), Duration::from_millis(100));
    let flood: Vec<_> = (0..100u8).map(|n| Frame::PathChallenge([n; 8])).collect();
    let (mut answers, trip) = (0, pair.server.stats().rtt);
    let begun = pair.now;
    for _ in 0..1000 {
        pair.now += Duration::from_micros(100);
        assert_eq!(pair.inject(&flood), None);
        answers += sent(&mut pair.server, pair.now).iter().filter(|(_, bytes)| bytes.len() == 1200).count();
        pair.server.check();
    }
    let most = pair.now.since(begun).as_micros() / (trip / 8).as_micros().max(1000) + 1;
    assert!((1..=most as usize).contains(&answers), "{answers} datagrams for 100,000 challenges");
}

/// Whatever many places packets come from, few are remembered.
#[test]
fn a_peer_that_is_everywhere_is_remembered_nowhere() {
    let mut pair = joined();
    exchange(&mut pair, address(1), Duration::from_millis(100));
    let (mut given, mut astray) = (0, 0);
    for n in 0..2000u16 {
        let from = AddressPair::to(std::net::SocketAddr::from(([10, 7, (n >> 8) as u8, n as u8], 1 + n % 7)));
        pair.now += Duration::from_millis(u64::from(n % 3));
        pair.client.ping();
        for packet in drain(&mut pair.client, pair.now, address(1)) {
            pair.give(from, &packet);
            given += packet.bytes.len();
        }
        let mut home = Vec::new();
        for (to, bytes) in sent(&mut pair.server, pair.now) {
            if to != address(1) {
                astray += bytes.len();
            }
            // What comes for the others, the attacker passes on, so that the client has something to say.
            home.push(datagram(address(2), &bytes));
        }
        assert!(astray <= 3 * given, "{astray} bytes for {given}");
        pair.client.handle(pair.now, Input::Received(&mut home));
        pair.server.check();
        assert!(pair.server.closed().is_none(), "{n}: {:?}", pair.server.closed());
    }
}

/// The peer may retire all of our ids in one packet; those behind it in the datagram are still parsed.
#[test]
fn retiring_every_id_at_once_is_survived() {
    let mut pair = joined();
    // Without an endpoint that issues more, there is one.
    assert_eq!(pair.inject(&[Frame::RetireConnectionId { sequence: 0 }]), None);
    let packet = pair.utter();
    pair.give(address(1), &packet);
    assert!(pair.server.closed().is_none());
    assert_eq!(pair.server.id().len(), 8);
}

#[test]
fn a_server_does_not_move_and_a_client_asks_first() {
    use crate::MoveError;
    let mut pair = joined();
    assert_eq!(pair.server.migrate(pair.now, None), Err(MoveError::Server));
    // These ends have no endpoint that would issue ids.
    assert_eq!(pair.client.migrate(pair.now, None), Err(MoveError::NoId));
    let config = TransportConfig {
        migration: crate::Migration { allowed: false, ..Default::default() },
        ..Default::default()
    };
    let mut pair = joined_with(config);
    assert_eq!(pair.client.migrate(pair.now, None), Err(MoveError::Forbidden));
}

/// RFC 9000 §18.2: who announces disable_active_migration may follow a NAT all the same, and we do.
#[test]
fn a_nat_may_move_even_those_who_must_not_move() {
    let config = TransportConfig {
        migration: crate::Migration { allowed: false, ..Default::default() },
        ..Default::default()
    };
    let mut pair = joined_with(config);
    exchange(&mut pair, address(1), Duration::from_millis(100));
    let packet = pair.utter();
    pair.give(other_port(), &packet);
    exchange(&mut pair, other_port(), Duration::from_millis(100));
    assert_eq!((pair.server.path(), pair.server.stats().moves), (other_port(), 1));
}

/// RFC 9000 §9: nobody moves before the handshake is confirmed, and a server does not move at all.
#[test]
fn clients_take_nothing_from_other_addresses() {
    let mut pair = joined();
    exchange(&mut pair, address(1), Duration::from_millis(100));
    pair.server.ping();
    let before = pair.client.stats();
    let mut down = drain(&mut pair.server, pair.now, address(3));
    assert!(!down.is_empty());
    pair.client.handle(pair.now, Input::Received(&mut down));
    let after = pair.client.stats();
    assert_eq!(after.received_packets, before.received_packets);
    assert!(after.dropped_packets > before.dropped_packets);
}

/// RFC 9000 §8.2.1: where three times what came is less than 1200 bytes, the address is proved by a short
/// challenge first and the size of the path by a full one.
#[test]
fn a_short_packet_earns_a_short_challenge_and_then_a_full_one() {
    let mut pair = joined();
    exchange(&mut pair, address(1), Duration::from_millis(100));
    let packet = pair.utter();
    assert!(packet.bytes.len() < 100);
    pair.give(other_port(), &packet);
    let first = sent(&mut pair.server, pair.now);
    let there: usize = first.iter().filter(|(to, _)| *to == other_port()).map(|(_, b)| b.len()).sum();
    assert!((1..=3 * packet.bytes.len()).contains(&there), "{there}");
    // The answer has 1200 bytes, and so has the next challenge.
    pair.now += Duration::from_millis(1);
    let mut down = first.iter().map(|(_, b)| datagram(address(2), b)).collect();
    pair.client.handle(pair.now, Input::Received(&mut down));
    let mut answers = drain(&mut pair.client, pair.now, other_port());
    assert!(answers.iter().any(|answer| answer.bytes.len() == 1200), "RFC 9000 §8.2.2");
    pair.server.handle(pair.now, Input::Received(&mut answers));
    assert!(
        !pair.server.link.path.is_validated() && pair.server.link.path.amplification_budget() == usize::MAX
    );
    let second = sent(&mut pair.server, pair.now);
    assert!(second.iter().any(|(to, b)| *to == other_port() && b.len() == 1200));
    let mut down = second.iter().map(|(_, b)| datagram(address(2), b)).collect();
    pair.client.handle(pair.now, Input::Received(&mut down));
    exchange(&mut pair, other_port(), Duration::from_millis(50));
    assert!(pair.server.link.path.is_validated());
}

/// RFC 9000 §9.5: a peer that uses the empty id has no other to give, and needs none.
#[test]
fn a_peer_without_ids_is_followed_as_well() {
    let mut pair = joined();
    exchange(&mut pair, address(1), Duration::from_millis(100));
    let packet = pair.utter();
    pair.server.link.cids.set_remote(ConnectionId::EMPTY);
    // Were ids used, a number of ours that it did not use before would ask for one of its own.
    pair.server.link.candidates.peer_uses = Some(7);
    pair.give(elsewhere(), &packet);
    assert_eq!(pair.server.path(), elsewhere());
    let asked = sent(&mut pair.server, pair.now);
    assert!(asked.iter().any(|(to, _)| *to == elsewhere()), "it is challenged there");
}

/// RFC 9000 §9.5: a peer with another id of ours but none of its own to spare is not spoken to elsewhere.
#[test]
fn without_a_spare_id_nobody_is_followed() {
    let mut pair = joined();
    exchange(&mut pair, address(1), Duration::from_millis(100));
    let packet = pair.utter();
    pair.server.link.candidates.peer_uses = Some(7);
    pair.give(elsewhere(), &packet);
    assert_eq!(pair.server.path(), address(1));
    assert!(sent(&mut pair.server, pair.now).iter().all(|(to, _)| *to == address(1)));
}

/// RFC 9000 §9.6, §21.5.6.
#[test]
fn nobody_is_sent_to_its_own_host() {
    for (preferred, follows) in [
        ("10.0.0.9:4433", true),
        ("127.0.0.1:4433", false),
        ("127.9.9.9:80", false),
        ("0.0.0.0:53", false),
        ("224.0.0.1:4433", false),
    ] {
        let preferred_v4 = Some(preferred.parse().unwrap());
        let migration = crate::Migration { preferred_v4, ..crate::Migration::default() };
        let of_server = TransportConfig { migration, ..TransportConfig::fixed_mtu(1200) };
        let mut pair = begun(TransportConfig::fixed_mtu(1200), of_server, 900);
        let mut goals = Vec::new();
        for _ in 0..200 {
            pair.now += Duration::from_millis(1);
            let now = pair.now;
            let mut up = Vec::new();
            for (to, bytes) in sent(&mut pair.client, now) {
                goals.extend((to != address(2)).then_some(to.remote));
                up.push(datagram(address(1), &bytes));
            }
            pair.server.handle(now, Input::Received(&mut up));
            let mut down = drain(&mut pair.server, now, address(2));
            pair.client.handle(now, Input::Received(&mut down));
        }
        assert_eq!(pair.client.common.phase, Phase::Confirmed);
        assert_eq!(goals.contains(&preferred.parse().unwrap()), follows, "{preferred}");
        assert_eq!(goals.is_empty(), !follows, "{preferred}: {goals:?}");
    }
}
