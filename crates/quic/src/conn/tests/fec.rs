//! Forward erasure correction: what frames need, name and may cost.

use super::policies::{fixed, protection};
use super::*;

/// FEC-8, FEC-19: without an agreement the frames are unknown; with one, what is in a symbol has the errors
/// of its frames.
#[test]
fn frames_of_erasure_correction_need_an_agreement() {
    let symbol = Frame::SourceSymbol { session: 4, sid: 0, data: &[0x0a, 0, 5, 1, 2, 3, 4, 5] };
    // Stream 3 is the server's own.
    let astray = Frame::SourceSymbol { session: 4, sid: 0, data: &[0x0a, 3, 1, 1] };
    let repair =
        Frame::Repair { session: 4, first: 0, count: 1, parameter: 0, index: 0, data: &[0x0a, 0, 1, 1] };
    let ack = [0x7f, 0x62, 0x04, 0, 0, 0].to_vec();
    let window = Frame::FecWindow { epoch: 1, window: 9 };
    let unmarked = Frame::Unmarked { session: 4, packets: 1 };
    let with = || TransportConfig::fixed_mtu(1200);
    let without = || TransportConfig { fec: None, ..TransportConfig::fixed_mtu(1200) };
    // One offer is none.
    for [client, server] in [[without(), without()], [without(), with()], [with(), without()]] {
        let joined = || joined_each(client.clone(), server.clone());
        for frame in [&symbol, &astray, &repair, &window, &unmarked] {
            let slice = std::slice::from_ref(frame);
            assert_eq!(joined().inject(slice), Some(Code::FRAME_ENCODING_ERROR), "{frame:?}");
        }
        let outcome = joined().inject_raw(PacketType::OneRtt, ack.clone());
        assert_eq!(outcome, Some(Code::FRAME_ENCODING_ERROR));
    }
    assert_eq!(joined_with(with()).inject(&[symbol]), None);
    assert_eq!(joined_with(with()).inject(&[repair]), None);
    assert_eq!(joined_with(with()).inject(&[window]), None);
    assert_eq!(joined_with(with()).inject(std::slice::from_ref(&unmarked)), None);
    // FEC-61, 16: nothing of what may be unmarked is kept.
    let none = TransportConfig { fec: Some(crate::Fec { unmarked: 0, ..crate::Fec::default() }), ..with() };
    assert_eq!(joined_each(with(), none).inject(&[unmarked]), Some(Code::FEC_ERROR));
    assert_eq!(joined_with(with()).inject(&[astray]), Some(Code::STREAM_STATE_ERROR));
    // FEC-61, 13: nothing was sent that could have been recovered.
    assert_eq!(joined_with(with()).inject_raw(PacketType::OneRtt, ack), Some(Code::FEC_ERROR));
}

/// As FEC-60 for an encoder: a packet full of reports of whole windows costs no more than a few of them.
#[test]
fn reports_of_a_packet_are_heeded_up_to_a_limit() {
    let fec = crate::Fec { protection: fixed(50), window: 4096, ..crate::Fec::default() };
    let congestion = crate::Algorithm::Fixed(100_000_000_000);
    let mut pair =
        joined_with(TransportConfig { fec: Some(fec), congestion, ..TransportConfig::fixed_mtu(1200) });
    let id = pair.server.streams().open(Dir::Uni).unwrap();
    pair.server.send_stream(id).write(&mut Bytes::from(vec![7; 1_000_000])).unwrap();
    drain(&mut pair.server, pair.now, address(2));
    let live = pair.server.protect.send.live(4).unwrap();
    assert!(live.start == 0 && live.end > 700, "{live:?}");
    // All but the first, and then the first.
    let [rest, first] = [1..=live.end - 1, 0..=0].map(|range| {
        let mut bytes = vec![0; 64];
        let mut w = wire::Writer::new(&mut bytes);
        wire::frame::symbol_ack(&mut w, 4, [range]);
        let len = w.len();
        bytes.truncate(len);
        bytes
    });
    assert_eq!(pair.inject_raw(PacketType::OneRtt, [rest.repeat(100), first.clone()].concat()), None);
    pair.server.recover().unwrap();
    assert_eq!(pair.server.stats().fec.recovered, live.end - 1);
    assert_eq!(pair.inject_raw(PacketType::OneRtt, first), None);
    assert_eq!(pair.server.stats().fec.recovered, live.end);
}

/// FEC-17: full symbols leave room for repair over them, though it goes behind so many more packets without
/// an acknowledgement that its own number takes a byte more. Of RLC no field of the header is shorter than
/// was foreseen.
#[test]
fn repair_has_room_behind_a_longer_packet_number() {
    let fec = crate::Fec { protection: fixed(50), window: 128, ..crate::Fec::default() };
    let mut pair = joined_with(TransportConfig {
        congestion: crate::Algorithm::Fixed(10_000_000_000_000),
        stream_window: 1 << 30,
        max_stream_window: 1 << 30,
        max_connection_window: 1 << 40,
        send_buffer: 1 << 30,
        connection_send_buffer: 1 << 30,
        fec: Some(fec),
        ..TransportConfig::fixed_mtu(1200)
    });
    let id = pair.server.streams().open(Dir::Uni).unwrap();
    let number_len = |pair: &Joined| {
        let recovery = &pair.server.link.path.recovery;
        let next = recovery.next_number(wire::Space::Data);
        wire::packet_number::encode_len(next, recovery.largest_acked(wire::Space::Data))
    };
    let mut lens = Vec::new();
    for _ in 0..70 {
        let before = pair.server.stats().fec.repairs_sent;
        let mut data = Bytes::from(vec![7; 500 * pair.server.link.path.mtu]);
        pair.server.send_stream(id).write(&mut data).unwrap();
        drain(&mut pair.server, pair.now, address(2));
        let repairs = pair.server.stats().fec.repairs_sent - before;
        assert!(repairs >= 10, "{repairs} for over 500 packets, behind numbers of {lens:?} bytes");
        lens.push(number_len(&pair));
    }
    assert!(lens.contains(&2) && lens.ends_with(&[3]), "{lens:?}");
}

/// FEC-19, FEC-37, FEC-61: the peer learns which frame it was, whatever it came in.
#[test]
fn faults_in_symbols_name_their_frame() {
    // Stream 3 is the server's own; a PING is not for symbols.
    let (astray, bare): (&[u8], &[u8]) = (&[0x0a, 3, 1, 1], &[1]);
    let beside: &[u8] = &[0x0a, 3, 1, 1, 0x0a, 2, 1, 1];
    for (data, code, frames) in [
        (astray, Code::STREAM_STATE_ERROR, [0x0a, 0x0a]),
        (beside, Code::STREAM_STATE_ERROR, [0x0a, 0x0a]),
        (bare, Code::FEC_ERROR, [0x3f60, 0x3f61]),
    ] {
        // The coefficient of SID 0 by seed 0 is 1.
        let repair = Frame::Repair { session: 4, first: 0, count: 1, parameter: 0, index: 0, data };
        for (frame, kind) in [Frame::SourceSymbol { session: 4, sid: 0, data }, repair].iter().zip(frames) {
            let mut pair = joined();
            let mut bytes = vec![0; 64];
            let mut w = wire::Writer::new(&mut bytes);
            frame.encode(&mut w);
            let len = w.len();
            let payload = Bytes::copy_from_slice(&bytes[..len]);
            let outcome =
                pair.server.frames(PacketType::OneRtt, &payload).and_then(|_| pair.server.recover());
            let error = outcome.unwrap_err();
            assert_eq!((error.code, error.frame), (code, Some(kind)), "{frame:?}");
        }
    }
}

#[test]
fn a_symbol_below_the_window_acts_without_its_datagrams() {
    // FEC-13, FEC-20, FEC-21: RLC, session 0, the default window of 1024.
    let mut pair = joined();
    let symbol = |index: u64, data: &'static [u8]| {
        let stream = Frame::Stream { id: StreamId(2 + 4 * index), offset: 0, fin: true, data: b"s" };
        let mut bytes = vec![0; 64];
        let mut w = wire::Writer::new(&mut bytes);
        stream.encode(&mut w);
        Frame::Datagram { len: true, data }.encode(&mut w);
        let len = w.len();
        bytes.truncate(len);
        bytes
    };
    let [a, b, c] = [symbol(0, b"a"), symbol(1, b"b"), symbol(2, b"c")];
    let of = |sid, data| Frame::SourceSymbol { session: 4, sid, data };
    for (sid, data) in [(2000, &a), (2000, &a), (1990, &b), (3, &c)] {
        assert_eq!(pair.inject(&[of(sid, data)]), None, "symbol {sid}");
        // The packet ends.
        pair.server.recover().unwrap();
    }
    let accepted = std::iter::from_fn(|| pair.server.streams().accept(Dir::Uni)).count();
    assert_eq!(accepted, 3, "all streams are there");
    let datagrams: Vec<_> = std::iter::from_fn(|| pair.server.datagrams().recv()).collect();
    assert_eq!(datagrams, [&b"a"[..], b"b"]);
}

/// Repair that was due waits for its channel's turn. When that channel is no more, nobody else waits for it.
#[test]
fn repair_that_is_called_off_has_no_turn() {
    let mut waited = 0;
    for (interval, second) in (1..20).flat_map(|n| [(n, "none"), (n, "fixed:1000")]) {
        let first = fixed(interval);
        let fec = Some(crate::Fec { protection: protection(second), ..crate::Fec::default() });
        let mut pair = joined_with(TransportConfig { fec, ..TransportConfig::fixed_mtu(1200) });
        let [id, other] = [(); 2].map(|()| pair.client.streams().open(Dir::Uni).unwrap());
        pair.client.send_stream(id).set_protection(&first).unwrap();
        let write = |pair: &mut Joined, id, len| {
            let mut bytes = Bytes::from(vec![7; len]);
            while pair.client.send_stream(id).write(&mut bytes).is_ok() && !bytes.is_empty() {}
        };
        write(&mut pair, id, 100_000);
        // As far as the window goes; a repair symbol would be next.
        let mut up = drain(&mut pair.client, pair.now, address(1));
        waited += u32::from(pair.client.traffic.streams.awaits_repair());
        pair.client.send_stream(id).set_protection(&crate::Protection::None).unwrap();
        pair.server.handle(pair.now, Input::Received(&mut up));
        pair.settle();
        write(&mut pair, other, 3000);
        pair.settle();
        let mut got = 0;
        while let Ok(crate::Chunk::Data(bytes)) = pair.server.recv_stream(other).read(usize::MAX) {
            got += bytes.len();
        }
        assert_eq!(got, 3000, "{first}, then {second}");
    }
    assert!(waited > 1, "the window was full where repair was due");
}

/// A policy that says nothing but how much of a packet its symbols fill.
#[derive(Debug)]
struct Share(u8);

impl crate::policy::ReliabilityPolicy for Share {
    fn protect(
        &mut self,
        _: &crate::policy::CodingView<'_>,
        _: crate::policy::Carried,
    ) -> Option<crate::policy::LaneConfig> {
        Some(crate::policy::LaneConfig { index: 0, code: crate::policy::RepairCode::Rlc, share: self.0 })
    }

    fn fec_pattern(&mut self, _: &crate::policy::CodingView<'_>) -> crate::policy::Pattern {
        crate::policy::Pattern::No
    }

    fn delay_sensitivity(&self, _: &crate::policy::CodingView<'_>) -> f64 {
        0.0
    }
}

/// FEC-15: a packet has one symbol, and what is left of one that its policy wants short is no room for bytes
/// without protection.
#[test]
fn symbols_are_as_short_as_their_policy_says_and_hold_all() {
    let schemes = crate::policy::Schemes::default().with(crate::policy::Scheme::Rlc);
    let mut counts = Vec::new();
    for share in [0, 3, 4, 5, 8, 255] {
        let custom = crate::policy::CustomPolicy::new(schemes, move || Box::new(Share(share)));
        let mut pair = joined_with(TransportConfig {
            fec: Some(crate::Fec::default()),
            ..TransportConfig::fixed_mtu(1200)
        });
        let id = pair.client.streams().open(Dir::Uni).unwrap();
        pair.client.send_stream(id).set_protection(&crate::Protection::Custom(custom)).unwrap();
        pair.client.send_stream(id).write(&mut Bytes::from(vec![7; 9000])).unwrap();
        drain(&mut pair.client, pair.now, address(1));
        let of = pair.client.protect.send.counts();
        assert!(
            of.source_bytes > 9000,
            "{share}: {} bytes are in symbols, with their frames",
            of.source_bytes
        );
        counts.push(of.sources);
    }
    // A packet of 1200 bytes has room for some 1170: 9000 and a few bytes for each frame are 21, 16, 13 and 8
    // symbols.
    assert_eq!(counts, [21, 21, 16, 13, 8, 8]);
}

/// FEC-57: however many symbols the application would keep, a number alone takes no more than a few bytes for
/// each of 2^20.
#[test]
fn a_window_without_bounds_has_some() {
    for (offered, later) in [(u64::MAX, None), (64, Some(u64::MAX))] {
        let fec = Some(crate::Fec { window: offered, ..crate::Fec::default() });
        let mut pair = joined_with(TransportConfig { fec, ..TransportConfig::fixed_mtu(1200) });
        if let Some(window) = later {
            pair.server.set_fec_window(window);
            pair.settle();
        }
        let data = &[0x0a, 2, 1, 1];
        for sid in [0, 1 << 40, quickset_wire::varint::MAX] {
            assert_eq!(pair.inject(&[Frame::SourceSymbol { session: 4, sid, data }]), None);
            pair.server.recover().unwrap();
        }
    }
}

/// FEC-53: what is not wanted any more when something else is repeated is told to its owner at once, who has
/// to give it up.
#[test]
fn what_is_outdated_is_given_up_beside_the_first_repeat() {
    let fec = Some(crate::Fec { protection: fixed(100), ..crate::Fec::default() });
    let mut pair = joined_with(TransportConfig { fec, ..TransportConfig::fixed_mtu(1200) });
    let id = pair.client.streams().open_messages(Dir::Uni).unwrap();
    let late = Some(pair.now + Duration::from_millis(15));
    let deadlines = [late, None, None, None, None, None];
    for (n, deadline) in deadlines.into_iter().enumerate() {
        let message = Bytes::from(vec![n as u8; 1100]);
        pair.client.messages(id).send(pair.now, message, deadline).unwrap();
        if n == 1 {
            pair.client.messages(id).fence().unwrap();
        }
    }
    let mut up = drain(&mut pair.client, pair.now, address(1));
    assert!(up.len() >= 6, "{}", up.len());
    up.drain(..2);
    pair.now += Duration::from_millis(10);
    pair.server.handle(pair.now, Input::Received(&mut up));
    let mut down = drain(&mut pair.server, pair.now, address(2));
    pair.now += Duration::from_millis(10);
    pair.client.handle(pair.now, Input::Received(&mut down));
    // Both are lost, and the first is of no use.
    let mut up = drain(&mut pair.client, pair.now, address(1));
    assert_eq!(pair.client.stats().fec.repeats_sent, 1);
    pair.now += Duration::from_millis(10);
    pair.server.handle(pair.now, Input::Received(&mut up));
    let got = std::iter::from_fn(|| pair.server.messages(id).recv(pair.now).unwrap()).count();
    assert_eq!(got, 5, "all that is wanted is there, and nothing waits behind the fence");
}
