//! Acknowledgements: a received batch is answered as one, and what the peer is asked for holds on both sides.

use quickset_base::{Ecn, Reason};

use super::*;
use crate::AckPolicy;

/// So many packets of the client's, each with a PING and nothing else, one a datagram.
fn pings(pair: &mut Joined, n: usize) -> Vec<Datagram> {
    let mut all = Vec::new();
    for _ in 0..n {
        pair.client.ping();
        all.extend(drain(&mut pair.client, pair.now, address(1)));
    }
    assert_eq!(all.len(), n);
    all
}

/// What the server answers to a batch, in packets.
fn answers(pair: &mut Joined, mut batch: Vec<Datagram>) -> usize {
    pair.server.handle(pair.now, Input::Received(&mut batch));
    drain(&mut pair.server, pair.now, address(2)).len()
}

/// A connection in which nothing is owed any more.
fn quiet(acks: AckPolicy) -> Joined {
    let mut pair = joined_with(TransportConfig { acks, fec: None, ..TransportConfig::fixed_mtu(1200) });
    pair.pass(Duration::from_millis(100));
    pair
}

const ONE_BY_ONE: AckPolicy = AckPolicy { merging: false, every: 2, adaptive: false };

/// draft-ietf-quic-ack-frequency §6.4, RFC 9000 §13.2.2.
#[test]
fn a_batch_is_answered_by_one_packet() {
    let mut pair = quiet(AckPolicy::default());
    let batch = pings(&mut pair, 60);
    assert_eq!(answers(&mut pair, batch), 1);
    let mut pair = quiet(AckPolicy::default());
    let batch = pings(&mut pair, 1);
    assert_eq!(answers(&mut pair, batch), 0, "one packet waits for another");
}

#[test]
fn without_merging_each_datagram_is_answered_by_itself() {
    let mut pair = quiet(ONE_BY_ONE);
    let batch = pings(&mut pair, 60);
    assert_eq!(answers(&mut pair, batch), 30);

    // A driver that does not poll: the rest of the last batch is not kept beside the next.
    let mut batch = pings(&mut pair, 20);
    pair.server.handle(pair.now, Input::Received(&mut batch));
    assert_eq!(pair.server.unread.len(), 19);
    let mut batch = pings(&mut pair, 10);
    pair.server.handle(pair.now, Input::Received(&mut batch));
    assert_eq!(pair.server.unread.len(), 9);
    // The first answer is to 21 packets, each of the others to the next two.
    assert_eq!(drain(&mut pair.server, pair.now, address(2)).len(), 1 + 9 / 2);
    assert_eq!(pair.server.stats().received_packets, pair.client.stats().sent_packets - uncounted(&pair));
}

/// Packets of the client's whose space the server had dropped.
fn uncounted(pair: &Joined) -> u64 {
    pair.client.stats().sent_packets - pair.server.stats().received_packets
}

/// What must be told at once is not kept for being one of a batch, nor for being asked for less.
#[test]
fn urgent_news_is_told_with_the_batch() {
    let asked = Frame::AckFrequency { sequence: 0, threshold: 1000, max_delay_us: 25_000, reordering: 3 };
    for merging in [true, false] {
        let fresh = || {
            let mut pair = quiet(AckPolicy { merging, adaptive: false, ..AckPolicy::default() });
            assert_eq!(pair.inject(&[asked]), None);
            pair
        };
        let mut pair = fresh();
        let batch = pings(&mut pair, 30);
        assert_eq!(answers(&mut pair, batch), 0, "as asked for");

        let mut pair = fresh();
        let mut batch = pings(&mut pair, 30);
        batch.remove(20);
        assert_eq!(answers(&mut pair, batch), 1, "one is missing, and three behind it are there");

        let mut pair = fresh();
        let mut batch = pings(&mut pair, 30);
        batch[7].ecn = Ecn::Ce;
        assert_eq!(answers(&mut pair, batch), 1, "met congestion");

        let mut pair = fresh();
        let batch = pings(&mut pair, 30);
        pair.server.handle(pair.now, Input::Received(&mut batch[..10].to_vec()));
        assert_eq!(pair.inject(&[Frame::ImmediateAck]), None);
        assert_eq!(answers(&mut pair, batch[10..].to_vec()), 1, "IMMEDIATE_ACK");
    }
}

/// A request goes out with data, changes what the peer does, and what our timers wait for.
#[test]
fn a_request_is_obeyed_and_waited_for() {
    let most = Duration::from_millis(80);
    let acks = AckPolicy { every: 10, adaptive: false, ..AckPolicy::default() };
    let mut pair = joined_with(TransportConfig {
        acks,
        max_ack_delay: most,
        fec: None,
        ..TransportConfig::fixed_mtu(1200)
    });
    // The first answer to data of the application's space; then the request leaves with the next data.
    pair.client.ping();
    pair.settle();
    pair.pass(most);
    assert_eq!(pair.client.stats().acks.requests, 0);
    let batch = pings(&mut pair, 1);
    assert_eq!(
        pair.client.stats().acks,
        crate::AckStats { every: 10, requests: 1, ..pair.client.stats().acks }
    );
    answers(&mut pair, batch);
    pair.pass(most);
    let batch = pings(&mut pair, 9);
    assert_eq!(answers(&mut pair, batch), 0);
    assert_eq!(
        pair.server.poll(pair.now, &mut Batch::new()),
        Poll::Sleep(Some(pair.now + most), Reason::AckDelay)
    );
    let batch = pings(&mut pair, 1);
    assert_eq!(answers(&mut pair, batch), 1);
}

/// draft-ietf-quic-ack-frequency §7: the probe timeout goes by the greater of the delay that held and the one
/// asked for, until the request is acknowledged.
#[test]
fn probe_timeouts_follow_what_was_asked_for() {
    let mut pair = quiet(AckPolicy::default());
    let with = |pair: &Joined, ms| pair.client.link.path.recovery.rtt().pto() + Duration::from_millis(ms);
    assert_eq!(pair.client.link.pto(), with(&pair, 25));
    // The peer is asked for a shorter delay: a quarter of a few milliseconds, but its min_ack_delay at least.
    let course = crate::ack::AskFacts { window: 4000, ..pair.client.link.course(&pair.client.common, false) };
    for _ in 0..4 {
        (0..20).for_each(|_| pair.client.link.asks.heard());
        pair.client.link.asks.end_batch(pair.now, course.srtt);
    }
    pair.client.link.asks.look(&course);
    assert!(course.srtt / 4 <= Duration::from_millis(1), "{:?}", course.srtt);
    let batch = pings(&mut pair, 1);
    assert_eq!(pair.client.stats().acks.requests, 1);
    assert_eq!(pair.client.link.pto(), with(&pair, 25), "on its way");
    answers(&mut pair, batch);
    pair.pass(Duration::from_millis(2));
    assert_eq!(pair.client.link.pto(), with(&pair, 1), "it has arrived");
    assert_eq!(pair.client.link.path.recovery.deadline(true), None, "nothing is in flight");
}

/// RFC 9002 §6.2.4: a probe timeout MUST send a packet, and may send two where that brings the data sooner.
/// Of two that carry nothing a path that takes no two at a time drops one each time, which is a reason for
/// the next timeout.
#[test]
fn where_nothing_is_to_be_carried_one_probe_will_do() {
    for (data, expected) in [(false, 1), (true, 2)] {
        let mut pair = quiet(AckPolicy::default());
        if data {
            let id = pair.client.streams().open(Dir::Uni).expect("a stream");
            pair.client.send_stream(id).write(&mut Bytes::from_static(&[7; 100])).expect("room");
        } else {
            pair.client.ping();
        }
        assert_eq!(drain(&mut pair.client, pair.now, address(1)).len(), 1, "and is lost");
        for timeouts in 1..5 {
            let (at, reason) = pair.client.link.path.recovery.deadline(true).expect("something is in flight");
            assert_eq!(reason, Reason::Pto);
            pair.now = at;
            pair.client.handle(at, Input::Timer);
            assert_eq!(drain(&mut pair.client, at, address(1)).len(), expected, "data: {data}");
            assert_eq!(pair.client.stats().ptos, timeouts);
        }
    }
}

/// A peer that acknowledges nothing keeps the room of other connections no longer than a probe timeout; once
/// it does, what is under way counts again.
#[test]
fn what_nobody_answers_for_is_no_flight() {
    let mut pair = quiet(AckPolicy::default());
    let id = pair.client.streams().open(Dir::Uni).expect("a stream");
    pair.client.send_stream(id).write(&mut Bytes::from_static(&[7; 5000])).expect("room");
    drain(&mut pair.client, pair.now, address(1));
    assert!(pair.client.flight().bytes >= 5000, "{:?}", pair.client.flight());
    pair.now = pair.client.link.path.recovery.deadline(true).expect("something is in flight").0;
    pair.client.handle(pair.now, Input::Timer);
    assert_eq!(pair.client.flight().bytes, 0);
    pair.settle();
    pair.client.send_stream(id).write(&mut Bytes::from_static(&[7; 1000])).expect("room");
    drain(&mut pair.client, pair.now, address(1));
    assert!(pair.client.flight().bytes >= 1000, "{:?}", pair.client.flight());
}

/// RFC 9000 §13.4.2, RFC 9002 §7.1: marks are counted on all packets, and each is a sign of congestion,
/// though the one that has it be an acknowledgement and nothing else.
#[test]
fn a_mark_on_an_acknowledgement_is_a_sign_of_congestion() {
    for congestion in ["cubic", "newreno"] {
        let congestion = congestion.parse().unwrap();
        let mut pair =
            joined_with(TransportConfig { congestion, fec: None, ..TransportConfig::fixed_mtu(1200) });
        pair.pass(Duration::from_millis(100));
        let batch = pings(&mut pair, 2);
        assert_eq!(answers(&mut pair, batch), 1);
        assert_eq!(pair.server.stats().ecn.state, crate::EcnState::Capable);
        let last = pair.server.link.path.recovery.next_number(quickset_wire::Space::Data) - 1;
        let mut counts = pair.client.link.acks.data.ecn().unwrap();
        counts.ce += 1;
        let (mut bytes, before) = (vec![0; 100], pair.server.link.path.congestion.control());
        let mut w = wire::Writer::new(&mut bytes);
        wire::frame::ack(&mut w, [last..=last], 0, Some(counts));
        let len = w.len();
        bytes.truncate(len);
        pair.now += Duration::from_millis(1);
        pair.server.handle(pair.now, Input::Timer);
        assert_eq!(pair.server.link.path.recovery.in_flight(), 0);
        assert_eq!(pair.inject_raw(PacketType::OneRtt, bytes), None);
        assert_eq!(pair.server.stats().ecn.ce, 1);
        let after = pair.server.link.path.congestion.control();
        assert!(after.window < before.window, "{before:?} {after:?}");
    }
}

/// RFC 9000 §13.2.1: an acknowledgement that was delayed carries what nobody waits for.
#[test]
fn what_goes_along_waits_for_other_data_and_no_longer_than_acknowledgements() {
    let delay = TransportConfig::fixed_mtu(1200).max_ack_delay;
    let fresh = || {
        let mut pair = quiet(AckPolicy::default());
        let along = pair.server.streams().open(Dir::Uni).unwrap();
        pair.server.send_stream(along).set_piggyback().unwrap();
        (pair, along)
    };
    let write =
        |pair: &mut Joined, id| pair.server.send_stream(id).write(&mut Bytes::from_static(b"?")).unwrap();
    let sent = |pair: &mut Joined| drain(&mut pair.server, pair.now, address(2)).len();

    let (mut pair, along) = fresh();
    write(&mut pair, along);
    assert_eq!(sent(&mut pair), 0);
    pair.pass(delay);
    assert_eq!(
        pair.client.streams().accept(Dir::Uni),
        Some(along),
        "nothing came that it could go along with"
    );

    let (mut pair, along) = fresh();
    let batch = pings(&mut pair, 1);
    assert_eq!(answers(&mut pair, batch), 0);
    pair.now += delay / 2;
    write(&mut pair, along);
    assert_eq!(sent(&mut pair), 0, "the acknowledgement of one packet waits, and so does this");
    let before = pair.server.stats().sent_packets;
    pair.pass(delay / 2);
    assert_eq!(pair.server.stats().sent_packets, before + 1, "both in one packet");
    assert_eq!(pair.client.streams().accept(Dir::Uni), Some(along));

    let (mut pair, along) = fresh();
    write(&mut pair, along);
    let other = pair.server.streams().open(Dir::Uni).unwrap();
    write(&mut pair, other);
    assert_eq!(sent(&mut pair), 1, "what others wait for takes it along");
    assert!(!pair.server.traffic.streams.has_piggyback());

    // Two packets have an acknowledgement leave at once. If that elicited one, each of two peers would have
    // two packets to acknowledge from then on.
    let (mut pair, along) = fresh();
    let mut batch = pings(&mut pair, 2);
    write(&mut pair, along);
    pair.server.handle(pair.now, Input::Received(&mut batch));
    assert_eq!(sent(&mut pair), 1);
    assert!(pair.server.traffic.streams.has_piggyback());
    assert!(pair.server.send_stream(StreamId(77)).set_piggyback().is_err());
}

/// RFC 9002 §6.2.4: the client has a part of the server's flight, and its acknowledgement was lost. Its
/// second probe says so again, in the Initial packet and in that of the handshake.
#[test]
fn a_probe_of_the_handshake_repeats_what_was_acknowledged() {
    let config = || TransportConfig::fixed_mtu(1200);
    let mut pair = begun(config(), config(), 6000);
    let mut flight = drain(&mut pair.server, pair.now, address(2));
    assert_eq!(flight.len(), 3, "as much as an address gets that has shown nothing");
    flight.truncate(2);
    pair.now += Duration::from_millis(10);
    pair.client.handle(pair.now, Input::Received(&mut flight));
    let lost = drain(&mut pair.client, pair.now, address(1));
    assert!(!lost.is_empty(), "it acknowledges what came");
    let under_way = pair.server.stats().in_flight;
    pair.now += Duration::from_secs(1);
    pair.client.handle(pair.now, Input::Timer);
    assert!(!drain(&mut pair.client, pair.now, address(1)).is_empty(), "the first probe, which is lost");
    pair.now += Duration::from_secs(2);
    pair.client.handle(pair.now, Input::Timer);
    let mut probes = drain(&mut pair.client, pair.now, address(1));
    let before = pair.server.stats().sent_bytes;
    pair.server.handle(pair.now, Input::Received(&mut probes));
    drain(&mut pair.server, pair.now, address(2));
    let sent = pair.server.stats().sent_bytes - before;
    let left = pair.server.stats().in_flight;
    assert!(left + 2000 < under_way + sent, "two of three have arrived: {under_way} + {sent} became {left}");
}
