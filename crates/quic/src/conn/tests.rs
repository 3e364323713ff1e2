//! A connection against a peer that breaks the rules: each fault ends it with the code that RFC 9000 names.

mod acks;
mod ends;
mod extensions;
mod fec;
mod packets;
mod paths;
mod policies;
mod refusals;
mod sources;
mod trains;

use std::sync::Arc;

use bytes::Bytes;
use quickset_base::{AddressPair, Batch, Datagram, Duration, Input, Machine, Poll, Rng, Time};
use quickset_wire::frame::Frame;
use quickset_wire::{
    self as wire, ConnectionId, Dir, PacketType, ResetToken, StreamId, TransportErrorCode as Code,
};

mod early;
mod grease;
mod versions;

use super::{Connection, Event};
use crate::keys::null::{NullClient, NullSecrets, NullServer};
use crate::{
    Admission, ClientConfig, Closed, DatagramRoute, Endpoint, EndpointConfig, RetryPolicy, ServerConfig,
    TransportConfig,
};

/// A client's and a server's connection with nothing between them, through the handshake.
struct Joined {
    now: Time,
    client: Connection,
    server: Connection,
}

fn address(n: u8) -> AddressPair {
    AddressPair::to(std::net::SocketAddr::from(([10, 0, 0, n], 4433)))
}

fn joined() -> Joined {
    joined_with(TransportConfig::fixed_mtu(1200))
}

fn joined_with(transport: TransportConfig) -> Joined {
    joined_each(transport.clone(), transport)
}

fn joined_each(of_client: TransportConfig, of_server: TransportConfig) -> Joined {
    let mut pair = begun(of_client, of_server, 900);
    pair.settle();
    assert!(pair.client.is_established() && pair.server.is_established());
    pair
}

/// The server has the client's hello, and a certificate of so many bytes, and has answered nothing yet.
fn begun(of_client: TransportConfig, of_server: TransportConfig, certificate: usize) -> Joined {
    let endpoint = |n: u64, server| {
        let config =
            EndpointConfig { crypto: Arc::new(NullSecrets(n)), connection_id_len: 8, resets_per_second: 10 };
        Endpoint::new(config, server, Rng::new(n))
    };
    let mut near = endpoint(1, None);
    let mut far = endpoint(
        2,
        Some(ServerConfig {
            crypto: Arc::new(NullServer::new(&[b"test"]).with_certificate(certificate)),
            transport: Arc::new(of_server),
            max_connections: 10,
            retry: RetryPolicy::Never,
            retry_token_lifetime: Duration::from_secs(10),
            gate: None,
            token_lifetime: Duration::from_secs(10),
        }),
    );
    let crypto = Arc::new(NullClient::new(&[b"test"]));
    let config = ClientConfig { crypto, transport: Arc::new(of_client) };
    let now = Time::from_millis(1);
    let (_, start) = near.connect(now, &config, address(2), "server", Vec::new()).unwrap();
    let mut client = Connection::new(start).unwrap();
    let mut hello = drain(&mut client, now, address(1));
    let DatagramRoute::Incoming(incoming) = far.route(now, hello.remove(0)) else { panic!("no incoming") };
    assert_eq!(far.admission(&incoming), Admission::Accept);
    let Ok((_, start, first)) = far.accept(now, incoming) else { panic!("not accepted") };
    let mut server = Connection::new(start).unwrap();
    hello.insert(0, first);
    server.handle(now, Input::Received(&mut hello));
    Joined { now, client, server }
}

/// All that a connection sends now, as it arrives from `from`; events and signals are dropped.
fn drain(connection: &mut Connection, now: Time, from: AddressPair) -> Vec<Datagram> {
    let mut out = Batch::new();
    let mut sent = Vec::new();
    loop {
        match connection.poll(now, &mut out) {
            Poll::Send => {
                let datagram = |s: &[u8]| Datagram { path: from, ecn: out.ecn, bytes: s.into() };
                sent.extend(out.segments().map(datagram));
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

impl Joined {
    /// Exchanges packets until both are quiet, a millisecond a turn.
    fn settle(&mut self) {
        loop {
            let mut up = drain(&mut self.client, self.now, address(1));
            let mut down = drain(&mut self.server, self.now, address(2));
            if up.is_empty() && down.is_empty() {
                return;
            }
            self.now += Duration::from_millis(1);
            self.server.handle(self.now, Input::Received(&mut up));
            self.client.handle(self.now, Input::Received(&mut down));
        }
    }

    /// Time passes, timers fire, packets are exchanged.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.client.handle(self.now, Input::Timer);
        self.server.handle(self.now, Input::Timer);
        self.settle();
    }

    /// The server gets these frames in an authentic packet. Returns the code that it closes with.
    fn inject(&mut self, frames: &[Frame<'_>]) -> Option<Code> {
        let mut bytes = vec![0; 4096];
        let mut w = wire::Writer::new(&mut bytes);
        for frame in frames {
            frame.encode(&mut w);
        }
        let len = w.len();
        bytes.truncate(len);
        self.inject_raw(PacketType::OneRtt, bytes)
    }

    fn inject_raw(&mut self, kind: PacketType, payload: Vec<u8>) -> Option<Code> {
        let result = self.server.frames(kind, &Bytes::from(payload)).and_then(|_| self.server.act_on_acks());
        let error = result.err()?;
        let code = error.code;
        self.server.fail(error);
        Some(code)
    }
}

const CLIENT_BIDI: StreamId = StreamId(0);
const CLIENT_UNI: StreamId = StreamId(2);
const SERVER_UNI: StreamId = StreamId(3);

/// RFC 9000 §11, §11.1, §20.1: each fault ends the connection, and the peer learns its code.
/// RFC 9000 §19.7, §19.16, §19.20 and others are the faults.
#[test]
fn faults_in_frames_have_the_codes_of_rfc_9000() {
    let id = ConnectionId::new(&[9; 8]).unwrap();
    let stream = |id, offset, data| Frame::Stream { id, offset, fin: false, data };
    let limit = TransportConfig::fixed_mtu(1200).stream_window;
    let cases: Vec<(&str, Vec<Frame<'_>>, Code)> = vec![
        ("§4.1: beyond stream credit", vec![stream(CLIENT_BIDI, limit, b"x")], Code::FLOW_CONTROL_ERROR),
        ("§4.6: beyond the stream limit", vec![stream(StreamId(400), 0, b"x")], Code::STREAM_LIMIT_ERROR),
        ("§19.8: on a stream we never opened", vec![stream(StreamId(1), 0, b"x")], Code::STREAM_STATE_ERROR),
        ("§19.8: on our sending stream", vec![stream(SERVER_UNI, 0, b"x")], Code::STREAM_STATE_ERROR),
        (
            "§4.5: data beyond the final size",
            vec![
                Frame::Stream { id: CLIENT_UNI, offset: 0, fin: true, data: b"xy" },
                stream(CLIENT_UNI, 2, b"z"),
            ],
            Code::FINAL_SIZE_ERROR,
        ),
        (
            "§4.5: two final sizes",
            vec![
                Frame::Stream { id: CLIENT_UNI, offset: 0, fin: true, data: b"xy" },
                Frame::ResetStream { id: CLIENT_UNI, code: 0, final_size: 3 },
            ],
            Code::FINAL_SIZE_ERROR,
        ),
        (
            "§19.10: credit for a receiving stream",
            vec![Frame::MaxStreamData { id: CLIENT_UNI, max: 9 }],
            Code::STREAM_STATE_ERROR,
        ),
        (
            "§19.5: STOP_SENDING for a receiving stream",
            vec![Frame::StopSending { id: CLIENT_UNI, code: 0 }],
            Code::STREAM_STATE_ERROR,
        ),
        ("§19.7: NEW_TOKEN from a client", vec![Frame::NewToken { token: b"t" }], Code::PROTOCOL_VIOLATION),
        ("§19.20: HANDSHAKE_DONE from a client", vec![Frame::HandshakeDone], Code::PROTOCOL_VIOLATION),
        (
            "§19.16: retires an id never issued",
            vec![Frame::RetireConnectionId { sequence: 99 }],
            Code::PROTOCOL_VIOLATION,
        ),
        (
            "§5.1.1: more ids than the limit",
            (1..=8)
                .map(|n| Frame::NewConnectionId {
                    sequence: n,
                    retire_prior_to: 0,
                    id: ConnectionId::new(&[n as u8; 8]).unwrap(),
                    token: ResetToken([n as u8; 16]),
                })
                .collect(),
            Code::CONNECTION_ID_LIMIT_ERROR,
        ),
        (
            "§19.15: one sequence number, two ids",
            vec![
                Frame::NewConnectionId { sequence: 1, retire_prior_to: 0, id, token: ResetToken([1; 16]) },
                Frame::NewConnectionId { sequence: 1, retire_prior_to: 0, id, token: ResetToken([2; 16]) },
            ],
            Code::PROTOCOL_VIOLATION,
        ),
    ];
    for (what, frames, code) in cases {
        let mut pair = joined();
        assert_eq!(pair.inject(&frames), Some(code), "{what}");
        // The peer learns it, and both come to an end.
        pair.settle();
        let told = |c: &Option<Closed>| matches!(c, Some(Closed::ByPeer(e)) if e.code == code);
        assert!(told(&pair.client.closed().cloned()), "{what}: {:?}", pair.client.closed());
    }
}

/// RFC 9000 §12.5, §17.2.2, §17.2.3, §17.2.4; RFC 9001 §8.3: CRYPTO is not in 0-RTT.
#[test]
fn frames_at_the_wrong_level_are_violations() {
    // RFC 9000 §12.4, table 3.
    for (kind, frame) in [
        (PacketType::Handshake, Frame::HandshakeDone),
        (PacketType::Initial, Frame::Stream { id: CLIENT_BIDI, offset: 0, fin: false, data: b"x" }),
        (PacketType::Handshake, Frame::MaxData(1 << 20)),
        (PacketType::Initial, Frame::ApplicationClose { code: 1, reason: b"" }),
        (PacketType::ZeroRtt, Frame::Crypto { offset: 0, data: b"x" }),
        (PacketType::ZeroRtt, Frame::PathResponse([1; 8])),
        (PacketType::ZeroRtt, Frame::RetireConnectionId { sequence: 0 }),
        (PacketType::ZeroRtt, Frame::HandshakeDone),
    ] {
        let mut pair = joined();
        let mut bytes = vec![0; 100];
        let mut w = wire::Writer::new(&mut bytes);
        frame.encode(&mut w);
        let len = w.len();
        bytes.truncate(len);
        assert_eq!(pair.inject_raw(kind, bytes), Some(Code::PROTOCOL_VIOLATION), "{frame:?}");
    }
}

#[test]
fn packets_that_cannot_be_parsed_close_the_connection() {
    let mut pair = joined();
    assert_eq!(pair.inject_raw(PacketType::OneRtt, vec![]), Some(Code::PROTOCOL_VIOLATION), "RFC 9000 §12.4");
    let mut pair = joined();
    assert_eq!(
        pair.inject_raw(PacketType::OneRtt, vec![0x21]),
        Some(Code::FRAME_ENCODING_ERROR),
        "unknown type"
    );
    let mut pair = joined();
    assert_eq!(
        pair.inject_raw(PacketType::OneRtt, vec![0x06, 0x00]),
        Some(Code::FRAME_ENCODING_ERROR),
        "cut short"
    );
}

#[test]
fn acknowledging_what_was_never_sent_is_a_violation() {
    let mut pair = joined();
    let mut bytes = vec![0; 100];
    let mut w = wire::Writer::new(&mut bytes);
    wire::frame::ack(&mut w, [5000..=5000], 0, None);
    let len = w.len();
    bytes.truncate(len);
    assert_eq!(pair.inject_raw(PacketType::OneRtt, bytes), Some(Code::PROTOCOL_VIOLATION), "RFC 9000 §13.1");
}

/// RFC 9000 §13.2.4 asks us to ask; a peer that never answers would have us keep ACK frames for ever.
#[test]
fn a_peer_that_acknowledges_nothing_is_cut_off() {
    for (n, is_cut_off) in [(30_000, false), (40_000, true)] {
        let mut pair = joined();
        let now = pair.now;
        for _ in 0..n {
            let number = pair.server.link.path.recovery.next_number(wire::Space::Data);
            pair.server.link.path.recovery.on_sent_elsewhere(
                number,
                now,
                40,
                &mut vec![crate::packet::FrameToken::Nothing],
            );
        }
        pair.client.ping();
        let mut ping = drain(&mut pair.client, now, address(1));
        pair.server.handle(now, Input::Received(&mut ping));
        let code =
            |closed: &Closed| matches!(closed, Closed::Failed(e) if e.code == Code::PROTOCOL_VIOLATION);
        assert_eq!(pair.server.closed().is_some_and(code), is_cut_off, "{n}: {:?}", pair.server.closed());
    }
}

/// RFC 9000 §21.4: also one that is acknowledged by itself, when all before it was acknowledged.
#[test]
fn a_number_left_out_is_not_forgotten() {
    let mut pair = joined();
    let skipped = loop {
        let before = pair.server.link.path.recovery.next_number(wire::Space::Data);
        pair.server.ping();
        pair.settle();
        // A packet takes a number; two are gone when one was left out.
        let packets = pair.server.link.path.recovery.next_number(wire::Space::Data) - before;
        assert!(before < 400, "nothing was left out");
        if packets > 1 && pair.server.link.path.recovery.first_outstanding(wire::Space::Data) > before {
            break before;
        }
        pair.pass(Duration::from_millis(30));
    };
    let mut bytes = vec![0; 100];
    let mut w = wire::Writer::new(&mut bytes);
    wire::frame::ack(&mut w, [skipped..=skipped], 0, None);
    let len = w.len();
    bytes.truncate(len);
    assert_eq!(pair.inject_raw(PacketType::OneRtt, bytes), Some(Code::PROTOCOL_VIOLATION));
}

#[test]
fn handshake_bytes_without_end_are_refused() {
    let mut pair = joined();
    let frame = Frame::Crypto { offset: 1 << 20, data: b"x" };
    assert_eq!(pair.inject(&[frame]), Some(Code::CRYPTO_BUFFER_EXCEEDED), "RFC 9000 §7.5");
}

#[test]
fn challenges_are_answered_and_a_flood_of_them_is_not_kept() {
    let mut pair = joined();
    let flood: Vec<_> = (0..200u8).map(|n| Frame::PathChallenge([n; 8])).collect();
    assert_eq!(pair.inject(&flood), None);
    pair.server.check();
    let answers = drain(&mut pair.server, pair.now, address(2));
    assert_eq!(answers.len(), 1, "a handful of answers, in one datagram");
}

/// RFC 9000 §12.1, §12.3; RFC 9001 §5.5.
#[test]
fn altered_replayed_and_cut_datagrams_change_nothing() {
    let mut pair = joined();
    let id = pair.client.streams().open(Dir::Bi).unwrap();
    pair.client.send_stream(id).write(&mut Bytes::from(vec![7; 3000])).unwrap();
    let good = drain(&mut pair.client, pair.now, address(1));
    let before = pair.server.stats();
    for datagram in &good {
        for at in (0..datagram.bytes.len()).step_by(37) {
            let mut bad = datagram.clone();
            bad.bytes[at] ^= 0x10;
            pair.server.handle(pair.now, Input::Received(&mut vec![bad]));
            let mut cut = datagram.clone();
            cut.bytes.truncate(at);
            pair.server.handle(pair.now, Input::Received(&mut vec![cut]));
        }
    }
    let after = pair.server.stats();
    assert_eq!(after.received_packets, before.received_packets, "nothing forged acts");
    assert!(pair.server.closed().is_none());
    // The real ones still do, and only once.
    for _ in 0..2 {
        pair.server.handle(pair.now, Input::Received(&mut good.clone()));
    }
    let last = pair.server.stats();
    assert_eq!(last.received_packets, before.received_packets + good.len() as u64);
    assert_eq!(last.duplicate_packets, good.len() as u64);
    let id = pair.server.streams().accept(Dir::Bi).unwrap();
    let crate::Chunk::Data(data) = pair.server.recv_stream(id).read(usize::MAX).unwrap() else {
        panic!("no data")
    };
    assert!(data.iter().all(|b| *b == 7));
}

/// RFC 9001 §6.1, §6.2, §6.4.
#[test]
fn keys_are_updated_by_either_side_and_old_packets_still_open() {
    let mut pair = joined();
    for round in 1..=5u64 {
        pair.pass(Duration::from_millis(30));
        let id = pair.client.streams().open(Dir::Uni).unwrap();
        pair.client.send_stream(id).write(&mut Bytes::from_static(b"before")).unwrap();
        let late = drain(&mut pair.client, pair.now, address(1));
        let updater = if round % 2 == 0 { &mut pair.client } else { &mut pair.server };
        assert!(updater.update_keys(pair.now), "round {round}");
        assert!(!updater.update_keys(pair.now), "RFC 9001 §6.1: not before an acknowledgement");
        pair.client.ping();
        pair.server.ping();
        pair.settle();
        assert_eq!((pair.client.stats().key_updates, pair.server.stats().key_updates), (round, round));
        let dropped = pair.server.stats().dropped_packets;
        pair.server.handle(pair.now, Input::Received(&mut late.clone()));
        assert_eq!(
            pair.server.stats().dropped_packets,
            dropped,
            "round {round}: packets of the old keys are read"
        );
        // RFC 9001 §6.5: after three PTOs the old keys are gone. In small steps, or delayed acknowledgements
        // would make the RTT seconds.
        for _ in 0..100 {
            pair.pass(Duration::from_millis(30));
        }
    }
    assert!(pair.client.closed().is_none() && pair.server.closed().is_none());
}

/// FS-62, and section 12 of the specification: CONNECTION_CLOSE names the frame at fault, wherever the fault
/// is found: on the frame alone, on the stream, or for want of an agreement.
#[test]
fn fence_errors_tell_the_peer_which_frame_was_at_fault() {
    let fenced = |offset, data| Frame::Fenced {
        id: CLIENT_UNI,
        offset,
        distance: offset,
        start: true,
        each: false,
        fin: false,
        data,
    };
    let abandon = |offset, len| Frame::Abandon { id: CLIENT_UNI, offset, len };
    let encoded = |frames: &[Frame<'_>]| {
        let mut bytes = vec![0; 100];
        let mut w = wire::Writer::new(&mut bytes);
        for frame in frames {
            frame.encode(&mut w);
        }
        w.written().to_vec()
    };
    let offer = TransportConfig::fixed_mtu(1200);
    let none = TransportConfig { fenced_streams: None, ..TransportConfig::fixed_mtu(1200) };
    let cases: [(&TransportConfig, Vec<u8>, Code, u64); 5] = [
        // EACH without START, as in section 17.
        (&offer, vec![0x7f, 0x54, 2, 5, 5, 1, 0], Code::FENCE_ERROR, 0x3f54),
        (&offer, encoded(&[fenced(0, &[9, 1]), fenced(5, &[0])]), Code::FENCE_ERROR, 0x3f52),
        (&offer, encoded(&[fenced(0, &[9, 1]), abandon(0, 5)]), Code::FENCE_ERROR, 0x3f58),
        (&offer, encoded(&[abandon(0, 1 << 40)]), Code::FLOW_CONTROL_ERROR, 0x3f58),
        (&none, encoded(&[fenced(0, &[0])]), Code::FRAME_ENCODING_ERROR, 0x3f52),
    ];
    for (config, bytes, code, kind) in cases {
        let mut pair = joined_with(config.clone());
        assert_eq!(pair.inject_raw(PacketType::OneRtt, bytes.clone()), Some(code), "{bytes:x?}");
        pair.settle();
        let Some(Closed::ByPeer(error)) = pair.client.closed() else { panic!("the client was not told") };
        assert_eq!((error.code, error.frame), (code, Some(kind)), "{bytes:x?}");
    }
}

/// RFC 9000 §19.21: no frame of an extension from those who have no leave.
#[test]
fn datagrams_without_an_offer_end_the_connection() {
    // RFC 9221 §3.
    let mut pair = joined();
    assert_eq!(pair.inject(&[Frame::Datagram { len: true, data: b"x" }]), None);
    let mut none = TransportConfig::fixed_mtu(1200);
    none.datagrams.max_frame_size = 0;
    let mut pair = joined_with(none);
    assert_eq!(pair.client.max_datagram_len(), None);
    assert_eq!(pair.inject(&[Frame::Datagram { len: false, data: b"" }]), Some(Code::PROTOCOL_VIOLATION));
}
