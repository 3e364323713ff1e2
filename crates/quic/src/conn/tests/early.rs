//! Early data against peers that break its rules, and the life of its keys.

use super::*;
use crate::Chunk;
use crate::early::{EarlyData, EarlyFate, EarlyLimits};
use quickset_wire::Space;

/// A client that resumes an earlier connection, its hello and early data on their way, and the server that
/// they are for.
struct Resumed {
    now: Time,
    client: Connection,
    far: Endpoint,
    flight: Vec<Datagram>,
}

fn resumed() -> Resumed {
    resumed_with(TransportConfig::fixed_mtu(1200), 3000)
}

/// `len` bytes are written early.
fn resumed_with(transport: TransportConfig, len: usize) -> Resumed {
    let transport = Arc::new(TransportConfig { early_data: Some(EarlyData::default()), ..transport });
    let endpoint = |n: u64, server| {
        let config =
            EndpointConfig { crypto: Arc::new(NullSecrets(n)), connection_id_len: 8, resets_per_second: 10 };
        Endpoint::new(config, server, Rng::new(n))
    };
    let server = ServerConfig {
        crypto: Arc::new(NullServer::new(&[b"test"]).with_early_data()),
        transport: transport.clone(),
        max_connections: 10,
        retry: RetryPolicy::Never,
        retry_token_lifetime: Duration::from_secs(10),
        gate: None,
        token_lifetime: Duration::from_secs(10),
    };
    let (mut near, mut far) = (endpoint(1, None), endpoint(2, Some(server)));
    let config = ClientConfig { crypto: Arc::new(NullClient::new(&[b"test"]).with_tickets()), transport };
    let mut now = Time::from_millis(1);
    for round in 0..2 {
        let (_, start) = near.connect(now, &config, address(2), "server", Vec::new()).unwrap();
        let mut client = Connection::new(start).unwrap();
        if round == 1 {
            let id = client.streams().open(Dir::Uni).unwrap();
            client.send_stream(id).write(&mut Bytes::from(vec![7; len])).unwrap();
            let flight = drain(&mut client, now, address(1));
            return Resumed { now, client, far, flight };
        }
        let mut hello = drain(&mut client, now, address(1));
        let server = accept(&mut far, now, &mut hello);
        let mut pair = Joined { now, client, server };
        pair.settle();
        now = pair.now;
    }
    unreachable!("the second round returns");
}

fn accept(far: &mut Endpoint, now: Time, hello: &mut Vec<Datagram>) -> Connection {
    let DatagramRoute::Incoming(incoming) = far.route(now, hello.remove(0)) else { panic!("no incoming") };
    let Ok((_, start, first)) = far.accept(now, incoming) else { panic!("not accepted") };
    let mut server = Connection::new(start).unwrap();
    hello.insert(0, first);
    server.handle(now, Input::Received(hello));
    server
}

/// RFC 9000 §14.1: whatever early data has to go behind it, and finds no room there.
#[test]
fn a_datagram_with_an_initial_packet_is_full_beside_early_data() {
    for len in (0..=768).step_by(16) {
        let mut resumed = resumed();
        let Resumed { client, now, .. } = &mut resumed;
        // As if it had begun with a token of so many bytes.
        client.link.token = vec![7; len];
        for _ in 0..3 {
            let Poll::Sleep(Some(at), _) = client.poll(*now, &mut Batch::new()) else {
                panic!("nothing is due")
            };
            *now = at;
            client.handle(at, Input::Timer);
            for datagram in drain(client, at, address(1)) {
                let is_initial = datagram.bytes[0] & 0xf0 == 0xc0;
                assert!(
                    !is_initial || datagram.bytes.len() >= 1200,
                    "{} bytes, token {len}",
                    datagram.bytes.len()
                );
            }
        }
    }
}

/// The Length of a long header is a varint of two bytes; loopback carries datagrams of 64 KiB.
#[test]
fn early_data_is_in_packets_that_have_a_length() {
    let transport = TransportConfig { mtu: 60_000, ..TransportConfig::fixed_mtu(1200) };
    let resumed = resumed_with(transport, 200_000);
    let longest = resumed.flight.iter().map(|datagram| datagram.bytes.len()).max().unwrap();
    assert!((12_000..60_000).contains(&longest), "{longest}");
    let mut pair = resumed.join();
    let id = pair.server.streams().accept(Dir::Uni).expect("it was begun early");
    let mut len = 0;
    while let Ok(Chunk::Data(bytes)) = pair.server.recv_stream(id).read(usize::MAX) {
        len += bytes.len();
    }
    assert_eq!((len, pair.client.early_data()), (200_000, EarlyFate::Accepted));
}

impl Resumed {
    /// The rest of the handshake.
    fn join(mut self) -> Joined {
        let server = accept(&mut self.far, self.now, &mut self.flight);
        let mut pair = Joined { now: self.now, client: self.client, server };
        pair.settle();
        pair
    }
}

/// RFC 9000 §7.4.1: a server that takes early data must not go below the limits that it was written under.
#[test]
fn lower_limits_for_early_data_that_was_accepted_are_a_violation() {
    let limits = |change: fn(&mut quickset_wire::TransportParams)| {
        let mut resumed = resumed();
        assert_eq!(resumed.client.early_data(), EarlyFate::Undecided);
        // As if the server had allowed more when it gave the ticket.
        let transport = TransportConfig::fixed_mtu(1200);
        let mut params = crate::endpoint::announce(&transport);
        change(&mut params);
        resumed.client.life.handshake.remembered = Some(Box::new(EarlyLimits::of(&params)));
        let pair = resumed.join();
        let code = match pair.client.closed() {
            Some(Closed::Failed(error)) => Some(error.code),
            _ => None,
        };
        (code, pair.client.early_data())
    };
    assert_eq!(limits(|_| {}), (None, EarlyFate::Accepted));
    let violation = (Some(Code::PROTOCOL_VIOLATION), EarlyFate::Undecided);
    assert_eq!(limits(|p| p.active_connection_id_limit += 1), violation);
    assert_eq!(limits(|p| p.initial_max_data += 1), violation);
    assert_eq!(limits(|p| p.initial_max_stream_data_bidi_local += 1), violation);
    assert_eq!(limits(|p| p.initial_max_stream_data_bidi_remote += 1), violation);
    assert_eq!(limits(|p| p.initial_max_stream_data_uni += 1), violation);
    assert_eq!(limits(|p| p.initial_max_streams_bidi += 1), violation);
    assert_eq!(limits(|p| p.initial_max_streams_uni += 1), violation);
    assert_eq!(limits(|p| p.max_datagram_frame_size += 1), violation);
    // Those that may change.
    let may = |p: &mut quickset_wire::TransportParams| {
        p.max_idle_timeout += Duration::from_secs(1);
        p.fenced_streams = Some(1 << 20);
        p.fec_decoder = None;
    };
    assert_eq!(limits(may), (None, EarlyFate::Accepted));
}

/// RFC 9000 §7.4.1; FS-4, FEC-2: what is remembered, and what never is.
#[test]
fn what_a_client_remembers() {
    let told = crate::endpoint::announce(&TransportConfig::fixed_mtu(1200));
    assert!(told.fenced_streams.is_some() && told.fec_decoder.is_some() && told.min_ack_delay.is_some());
    let told = quickset_wire::TransportParams {
        ack_delay_exponent: 9,
        max_ack_delay: Duration::from_millis(77),
        initial_source_connection_id: ConnectionId::new(&[1; 8]),
        original_destination_connection_id: ConnectionId::new(&[2; 8]),
        retry_source_connection_id: ConnectionId::new(&[3; 8]),
        stateless_reset_token: Some(ResetToken([4; 16])),
        ..told
    };
    let kept = crate::early::remembered(&told);
    let expected = quickset_wire::TransportParams {
        max_idle_timeout: told.max_idle_timeout,
        max_udp_payload_size: told.max_udp_payload_size,
        initial_max_data: told.initial_max_data,
        initial_max_stream_data_bidi_local: told.initial_max_stream_data_bidi_local,
        initial_max_stream_data_bidi_remote: told.initial_max_stream_data_bidi_remote,
        initial_max_stream_data_uni: told.initial_max_stream_data_uni,
        initial_max_streams_bidi: told.initial_max_streams_bidi,
        initial_max_streams_uni: told.initial_max_streams_uni,
        disable_active_migration: told.disable_active_migration,
        active_connection_id_limit: told.active_connection_id_limit,
        // RFC 9221 §3, draft-ietf-quic-reliable-stream-reset §3: these are remembered.
        max_datagram_frame_size: told.max_datagram_frame_size,
        reset_stream_at: true,
        ..quickset_wire::TransportParams::default()
    };
    assert_eq!(kept, expected);
    let less = |change: fn(&mut quickset_wire::TransportParams)| {
        let mut params = told;
        change(&mut params);
        EarlyLimits::of(&params).cover(&EarlyLimits::of(&told))
    };
    assert!(less(|_| {}));
    assert!(!less(|params| params.max_datagram_frame_size -= 1));
    assert!(!less(|params| params.reset_stream_at = false));
}

/// RFC 9001 §4.9.3: a client lets go of the keys with its first 1-RTT keys, a server three probe timeouts
/// after the end of the handshake.
#[test]
fn the_keys_of_early_data_go_in_time() {
    let mut pair = resumed().join();
    assert!(pair.client.is_established() && pair.server.is_established());
    assert!(!pair.client.link.keys.has_early());
    assert!(pair.server.link.keys.has_early(), "for packets that were overtaken");
    pair.pass(3 * pair.server.link.pto() + Duration::from_millis(1));
    assert!(!pair.server.link.keys.has_early());
    assert!(pair.client.closed().is_none() && pair.server.closed().is_none());
}

/// RFC 9000 §12.3, §17.2.3: early data is acknowledged in 1-RTT packets, in the same space.
/// RFC 9000 §13.2.6; RFC 9001 §5.7.
#[test]
fn early_data_is_acknowledged_behind_the_handshake() {
    let resumed = resumed();
    let sent = resumed.client.link.path.recovery.next_number(Space::Data);
    assert!(sent >= 3, "3000 bytes in packets of 1200");
    assert_eq!(resumed.client.link.path.recovery.largest_acked(Space::Data), None);
    let pair = resumed.join();
    assert!(
        pair.client.link.path.recovery.largest_acked(Space::Data).is_some_and(|largest| largest + 1 >= sent)
    );
    assert_eq!(pair.client.link.path.recovery.in_flight(), 0);
    assert_eq!(pair.client.stats().lost_packets, 0);
}

/// A server that is not asked for early data, or is a client, drops what pretends to be some.
/// RFC 9001 §5.6.
#[test]
fn early_packets_go_nowhere_without_keys() {
    let mut resumed = resumed();
    let server = accept(&mut resumed.far, resumed.now, &mut resumed.flight);
    drop(server);
    // To a client: as a server never sends.
    let mut early = resumed.flight;
    let before = resumed.client.stats();
    resumed.client.handle(resumed.now, Input::Received(&mut early));
    let after = resumed.client.stats();
    assert_eq!(before.received_packets, after.received_packets);
    assert!(resumed.client.closed().is_none());
}
