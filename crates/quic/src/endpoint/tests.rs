mod admission;
mod group;

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::BytesMut;
use quickset_base::{Duration, Ecn};
use quickset_wire::frame::{Frame, Frames};
use quickset_wire::header::LongHeader;
use quickset_wire::{PacketType, ResetToken, TransportErrorCode as Code};

use super::*;
use crate::config::TransportConfig;
use crate::conn::ConnectionStart;
use crate::keys::null::{NullClient, NullSecrets, NullServer};
use crate::keys::{Crypto, EndpointCrypto, Keys};
use crate::life::HandshakeRole;

const NOW: Time = Time::from_millis(1_000);

fn config() -> EndpointConfig {
    EndpointConfig { crypto: Arc::new(NullSecrets(7)), connection_id_len: 8, resets_per_second: 10 }
}

fn server_config(retry: RetryPolicy) -> ServerConfig {
    ServerConfig {
        crypto: Arc::new(NullServer::new(&[b"x"])),
        transport: Arc::new(TransportConfig::fixed_mtu(1200)),
        max_connections: 100,
        retry,
        retry_token_lifetime: Duration::from_secs(10),
        gate: None,
        token_lifetime: Duration::from_secs(1_000),
    }
}

fn server(retry: RetryPolicy) -> Endpoint {
    Endpoint::new(config(), Some(server_config(retry)), Rng::new(1))
}

fn client() -> Endpoint {
    Endpoint::new(config(), None, Rng::new(2))
}

fn client_config() -> ClientConfig {
    ClientConfig {
        crypto: Arc::new(NullClient::new(&[b"x"])),
        transport: Arc::new(TransportConfig::fixed_mtu(1200)),
    }
}

fn at(address: &str) -> AddressPair {
    AddressPair::to(address.parse::<SocketAddr>().unwrap())
}

fn peer() -> AddressPair {
    at("192.0.2.1:4433")
}

fn datagram(path: AddressPair, bytes: &[u8]) -> Datagram {
    Datagram { path, ecn: Ecn::NotEct, bytes: BytesMut::from(bytes) }
}

fn id(byte: u8, len: usize) -> ConnectionId {
    ConnectionId::new(&vec![byte; len]).unwrap()
}

fn keys(dcid: &ConnectionId, side: Side) -> Keys {
    NullClient::new(&[]).initial_keys(Version::V1, dcid, side).unwrap()
}

/// A client's Initial packet of `size` bytes.
fn hello(dcid: ConnectionId, token: &[u8], size: usize) -> Vec<u8> {
    hello_with(dcid, token, size, true)
}

fn hello_with(dcid: ConnectionId, token: &[u8], size: usize, fixed: bool) -> Vec<u8> {
    let header = LongHeader { ty: PacketType::Initial, version: Version::V1, dcid, scid: id(0xcc, 5), token };
    let mut packet = vec![0; size];
    let mut w = Writer::new(&mut packet);
    let length_at = header::long_header(&mut w, &header, 0, 2);
    let payload_at = w.len();
    Frame::Ping.encode(&mut w);
    let padding = size - w.len() - 16;
    w.zeros(padding);
    header::patch_length(&mut w, length_at, 16);
    if !fixed {
        header::clear_fixed_bit(&mut packet[0]);
    }
    let keys = keys(&dcid, Side::Client);
    let (head, body) = packet.split_at_mut(payload_at);
    keys.local.packet.seal(0, head, body);
    let pn_at = payload_at - 2;
    let mut first = packet[0];
    let sample: [u8; 16] = packet[pn_at + 4..][..16].try_into().unwrap();
    keys.local.header.protect(&sample, &mut first, &mut packet[pn_at..payload_at]);
    packet[0] = first;
    packet
}

/// The code of a refusal sealed for the client that wrote `dcid`.
fn refusal(response: &EndpointResponse, dcid: &ConnectionId) -> Code {
    let mut packet = response.bytes.clone();
    let parsed = Parsed::parse(&response.bytes, 8).unwrap();
    assert!(matches!(parsed.header, Header::Initial { dcid, .. } if dcid == id(0xcc, 5)));
    assert_eq!(parsed.end, packet.len());
    let (pn_at, sample) = (parsed.pn_offset, parsed.sample(&response.bytes).unwrap());
    let keys = keys(dcid, Side::Client);
    let (head, rest) = packet.split_at_mut(pn_at);
    keys.remote.header.unprotect(&sample, &mut head[0], &mut rest[..4]);
    let payload_at = pn_at + header::pn_len(head[0]);
    let (head, body) = packet.split_at_mut(payload_at);
    let len = keys.remote.packet.open(0, head, body).expect("sealed by the server");
    match Frames::new(&body[..len]).next() {
        Some(Ok(Frame::ConnectionClose { code, .. })) => code,
        other => panic!("{other:?}"),
    }
}

fn incoming(endpoint: &mut Endpoint, now: Time, path: AddressPair, bytes: &[u8]) -> Incoming {
    match endpoint.route(now, datagram(path, bytes)) {
        DatagramRoute::Incoming(incoming) => incoming,
        other => panic!("{other:?}"),
    }
}

fn accepted(endpoint: &mut Endpoint, dcid: ConnectionId) -> (ConnectionKey, ConnectionStart) {
    let incoming = incoming(endpoint, NOW, peer(), &hello(dcid, &[], 1200));
    let (key, start, first) = endpoint.accept(NOW, incoming).unwrap();
    assert_eq!(first.bytes.len(), 1200);
    (key, start)
}

fn short(dcid: &[u8], size: usize) -> Vec<u8> {
    let mut packet = vec![0x41; size];
    packet[1..=dcid.len()].copy_from_slice(dcid);
    packet
}

fn routed(endpoint: &mut Endpoint, bytes: &[u8]) -> Option<ConnectionKey> {
    match endpoint.route(NOW, datagram(peer(), bytes)) {
        DatagramRoute::Connection(key, same) => {
            assert_eq!(same.bytes, bytes, "handed on as it came");
            Some(key)
        }
        _ => None,
    }
}

/// RFC 9000 §6.3, §15, §17.2.1.
#[test]
fn unknown_versions_are_told_of_ours() {
    let (dcid, scid) = ([1; 3], [2; 200]);
    let mut bytes = vec![0xc0, 0xba, 0xdc, 0x0f, 0xee, 3];
    bytes.extend_from_slice(&dcid);
    bytes.push(200);
    bytes.extend_from_slice(&scid);
    bytes.resize(1200, 0);
    let mut endpoint = server(RetryPolicy::Never);
    let DatagramRoute::Respond(response) = endpoint.route(NOW, datagram(peer(), &bytes)) else { panic!() };
    assert_eq!(response.path, peer());
    let Header::VersionNegotiation { dcid: to, scid: from, versions } =
        Parsed::parse(&response.bytes, 8).unwrap().header
    else {
        panic!()
    };
    assert_eq!((to, from), (&scid[..], &dcid[..]), "RFC 8999 §6: the ids change places");
    let versions: Vec<_> = versions.collect();
    assert!(versions.contains(&Version::V1) && versions.iter().any(|v| v.is_reserved()), "{versions:?}");
    // RFC 9000 §6.1: nothing in answer to less than a first packet.
    let DatagramRoute::Dropped(Dropped::TooShort) = endpoint.route(NOW, datagram(peer(), &bytes[..1199]))
    else {
        panic!()
    };
    // Nor to Version Negotiation, nor by a client.
    let mut answer = response.bytes;
    let whole = answer.len() + 4 * 250;
    answer.resize(whole, 0);
    let DatagramRoute::Dropped(Dropped::Unknown) = endpoint.route(NOW, datagram(peer(), &answer)) else {
        panic!()
    };
    let DatagramRoute::Dropped(Dropped::NotAServer) = client().route(NOW, datagram(peer(), &bytes)) else {
        panic!()
    };
    assert_eq!(endpoint.counters().version_negotiations, 1);
}

/// RFC 9000 §5.2.2, §14.1.
#[test]
fn short_first_packets_are_dropped() {
    let mut endpoint = server(RetryPolicy::Never);
    for bytes in [hello(id(1, 8), &[], 1199), hello(id(1, 7), &[], 1300)] {
        let DatagramRoute::Dropped(Dropped::TooShort) = endpoint.route(NOW, datagram(peer(), &bytes)) else {
            panic!()
        };
    }
    let route = client().route(NOW, datagram(peer(), &hello(id(1, 8), &[], 1200)));
    assert!(matches!(route, DatagramRoute::Dropped(Dropped::NotAServer)));
}

/// RFC 9000 §5.2.
#[test]
fn noise_costs_no_memory() {
    let mut endpoint = server(RetryPolicy::Never);
    let mut bytes = hello(id(1, 8), &[], 1200);
    bytes[700] ^= 1;
    let noise = incoming(&mut endpoint, NOW, peer(), &bytes);
    let Err(DatagramRoute::Dropped(Dropped::Forged)) = endpoint.accept(NOW, noise) else { panic!() };
    assert_eq!(endpoint.connections(), 0);
}

#[test]
fn two_first_packets_in_one_batch_are_one_connection() {
    let mut endpoint = server(RetryPolicy::Never);
    let both = [1200, 1250].map(|size| incoming(&mut endpoint, NOW, peer(), &hello(id(1, 8), &[], size)));
    let [first, second] = both;
    let (key, ..) = endpoint.accept(NOW, first).unwrap();
    let Err(DatagramRoute::Connection(same, datagram)) = endpoint.accept(NOW, second) else { panic!() };
    assert_eq!((same, datagram.bytes.len()), (key, 1250));
}

/// RFC 9000 §5.2.1: a client's endpoint answers none but who might know it from before.
#[test]
fn a_client_drops_what_matches_no_connection() {
    let mut endpoint = client();
    let long = |first: u8| [&[first, 0, 0, 0, 1, 8][..], &[5; 8], &[0], &[0x40, 20], &[7; 20]].concat();
    let unknown_version = [&[0xc0, 0xa, 0x1a, 0x2a, 0x3a, 8][..], &[5; 8], &[0], &[0; 1200]].concat();
    let negotiation = [&[0x80, 0, 0, 0, 0, 8][..], &[5; 8], &[0], &[0, 0, 0, 1]].concat();
    for bytes in [hello(id(5, 8), &[], 1200), long(0xd0), long(0xe0), unknown_version, negotiation] {
        let route = endpoint.route(NOW, datagram(peer(), &bytes));
        assert!(matches!(route, DatagramRoute::Dropped(_)), "{route:?}");
    }
    assert_eq!((endpoint.connections(), endpoint.counters().dropped), (0, 5));
}

/// RFC 9000 §5.1: ids say nothing and come once.
#[test]
fn ids_have_nothing_in_common() {
    let mut registry = ids::Registry::default();
    let mut rng = Rng::new(1);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..200 {
        let key = registry.add(None);
        for sequence in 0..5 {
            let issued = registry.issue(key, &layout::RandomIds(8), &mut rng).unwrap();
            assert_eq!((issued.sequence, issued.id.len()), (sequence, 8));
            // Of 1000 random ids no two share half of their bytes, but for one chance in ten thousand.
            assert!(seen.insert(issued.id[..4].to_vec()) && seen.insert(issued.id[4..].to_vec()));
        }
    }
}

/// RFC 9000 §5.2, §21.11: what is for a connection that lives is not answered by a reset.
#[test]
fn packets_follow_their_ids() {
    let mut endpoint = server(RetryPolicy::Never);
    let (a, start) = accepted(&mut endpoint, id(1, 8));
    let (b, other) = accepted(&mut endpoint, id(2, 8));
    assert_eq!(routed(&mut endpoint, &hello(id(1, 8), &[], 1200)), Some(a), "a repeated first packet");
    for _ in 0..2 {
        assert_eq!(routed(&mut endpoint, &short(&start.local_cid, 50)), Some(a));
        assert_eq!(routed(&mut endpoint, &short(&other.local_cid, 50)), Some(b));
        assert_eq!(routed(&mut endpoint, &short(&other.local_cid, 50)), Some(b), "the same again");
    }
    assert_eq!(routed(&mut endpoint, &short(&[1; 8], 50)), None, "a client's own choice is for long headers");

    let issued = endpoint.signal(a, Signal::NeedCids(3)).unwrap();
    assert_eq!(issued.iter().map(|i| i.sequence).collect::<Vec<_>>(), [1, 2, 3]);
    for cid in &issued {
        assert_eq!(routed(&mut endpoint, &short(&cid.id, 50)), Some(a));
        assert_eq!(cid.token, NullSecrets(7).reset_token(&cid.id));
    }
    assert_eq!(endpoint.signal(a, Signal::NeedCids(u64::MAX)).unwrap().len(), 4, "eight in all");
    assert_eq!(endpoint.signal(a, Signal::NeedCids(1)).unwrap().len(), 0);
    // The id that was routed last is forgotten like any other.
    assert_eq!(routed(&mut endpoint, &short(&issued[0].id, 50)), Some(a));
    endpoint.signal(a, Signal::RetiredCid(1));
    assert_eq!(routed(&mut endpoint, &short(&issued[0].id, 50)), None);
    assert_eq!(endpoint.signal(a, Signal::NeedCids(1)).unwrap()[0].sequence, 8);

    endpoint.signal(a, Signal::Drained);
    assert_eq!(routed(&mut endpoint, &short(&start.local_cid, 50)), None);
    assert_eq!(routed(&mut endpoint, &short(&issued[1].id, 50)), None);
    let (c, _) = accepted(&mut endpoint, id(1, 8));
    assert!(c.index() == a.index() && c != a, "a slot used again has another name");
    endpoint.signal(a, Signal::Drained);
    assert_eq!(endpoint.signal(a, Signal::NeedCids(1)).unwrap().len(), 0, "the old name means nothing");
    assert_eq!(endpoint.connections(), 2);
}

#[test]
fn a_forgotten_connection_is_reset() {
    let mut endpoint = server(RetryPolicy::Never);
    let cid = id(5, 8);
    for size in [22, 30, 43, 44, 100, 1200] {
        let DatagramRoute::Respond(reset) = endpoint.route(NOW, datagram(peer(), &short(&cid, size))) else {
            panic!("{size}")
        };
        assert!(reset.bytes.len() < size && reset.bytes.len() >= 21, "RFC 9000 §10.3.3");
        if size <= 43 {
            assert_eq!(reset.bytes.len(), size - 1);
        }
        assert_eq!(reset.bytes[0] & 0xc0, 0x40, "looks like a short header");
        assert_eq!(reset.bytes[reset.bytes.len() - 16..], NullSecrets(7).reset_token(&cid).0);
        let DatagramRoute::Dropped(Dropped::NoReset) = endpoint.route(NOW, datagram(peer(), &reset.bytes))
        else {
            // 21 bytes coming back are too short for an answer.
            assert!(reset.bytes.len() < 22);
            continue;
        };
    }
    let DatagramRoute::Dropped(Dropped::TooShort) = endpoint.route(NOW, datagram(peer(), &short(&cid, 21)))
    else {
        panic!()
    };
}

/// RFC 9287 §3, §3.1: clients that remember what a server offered may begin so; those who never heard of it
/// may not.
#[test]
fn a_fixed_bit_of_0_is_for_connections_and_for_who_offered_it() {
    let unfixed_short = |dcid: &[u8]| {
        let mut packet = short(dcid, 60);
        header::clear_fixed_bit(&mut packet[0]);
        packet
    };
    for offers in [true, false] {
        let mut config = server_config(RetryPolicy::Never);
        config.transport =
            Arc::new(TransportConfig { grease_quic_bit: offers, ..TransportConfig::fixed_mtu(1200) });
        let mut endpoint = Endpoint::new(self::config(), Some(config), Rng::new(1));
        let (key, start) = accepted(&mut endpoint, id(3, 8));
        let local = start.local_cid;
        // The connection knows what it said. The second is found by the first.
        for _ in 0..2 {
            assert_eq!(routed(&mut endpoint, &unfixed_short(&local)), Some(key));
        }
        let again = hello_with(id(3, 8), &[], 1200, false);
        assert_eq!(routed(&mut endpoint, &again), Some(key));

        let stranger = hello_with(id(4, 8), &[], 1200, false);
        let strangers = [unfixed_short(&id(5, 8)), stranger];
        let [stray, first] = strangers.map(|bytes| endpoint.route(NOW, datagram(peer(), &bytes)));
        match (offers, stray, first) {
            (true, DatagramRoute::Respond(_), DatagramRoute::Incoming(incoming)) => {
                endpoint.accept(NOW, incoming).expect("the packet is authentic");
            }
            (false, DatagramRoute::Dropped(Dropped::FixedBit), DatagramRoute::Dropped(Dropped::FixedBit)) => {
            }
            (_, stray, first) => panic!("offers: {offers}, {stray:?}, {first:?}"),
        }
    }
    // A client's endpoint has offered nothing to those who are no connection of its.
    let mut near = client();
    let DatagramRoute::Dropped(Dropped::FixedBit) =
        near.route(NOW, datagram(peer(), &unfixed_short(&id(5, 8))))
    else {
        panic!("taken for a packet")
    };
}

#[test]
fn resets_are_limited() {
    let mut endpoint = server(RetryPolicy::Never);
    let mut burst = |now: Time| {
        let mut answered = || endpoint.route(now, datagram(peer(), &short(&[5; 8], 60)));
        (0..100).filter(|_| matches!(answered(), DatagramRoute::Respond(_))).count()
    };
    assert_eq!(burst(NOW), 10);
    assert_eq!(burst(NOW + Duration::from_millis(50)), 0);
    assert_eq!(burst(NOW + Duration::from_millis(200)), 2);
    assert_eq!(burst(NOW + Duration::from_secs(100)), 10, "no more than a second's worth is saved");
}

/// RFC 9000 §21.11: an endpoint whose key others have, too, ends no connection that may be theirs. Nor does
/// what is for them use up the resets that its own are due.
#[test]
fn what_may_be_of_another_endpoint_is_not_reset() {
    #[derive(Debug)]
    struct EvenIds;
    impl ConnectionIds for EvenIds {
        fn id_len(&self) -> usize {
            8
        }

        fn draw(&self, rng: &mut Rng) -> ConnectionId {
            let mut id = [0; 8];
            rng.fill(&mut id);
            id[0] &= 0xfe;
            ConnectionId::new(&id).unwrap()
        }

        fn is_ours(&self, id: &ConnectionId) -> bool {
            id[0] % 2 == 0
        }
    }
    let mut endpoint = server(RetryPolicy::Never).with_connection_ids(Arc::new(EvenIds));
    for _ in 0..100 {
        let DatagramRoute::Dropped(Dropped::NoReset) =
            endpoint.route(NOW, datagram(peer(), &short(&[5; 8], 60)))
        else {
            panic!("answered in the name of another")
        };
    }
    assert_eq!(endpoint.counters().resets_sent, 0);
    for _ in 0..10 {
        let DatagramRoute::Respond(reset) = endpoint.route(NOW, datagram(peer(), &short(&[4; 8], 60))) else {
            panic!("of its own, and as many as are allowed in a second")
        };
        assert_eq!(reset.bytes[reset.bytes.len() - 16..], NullSecrets(7).reset_token(&id(4, 8)).0);
    }
}

#[test]
fn resets_of_resets_come_to_an_end() {
    let unlimited = EndpointConfig { resets_per_second: 1_000_000, ..config() };
    let mut ends = [3, 4].map(|seed| {
        let crypto = Arc::new(NullSecrets(seed));
        Endpoint::new(EndpointConfig { crypto, ..unlimited.clone() }, None, Rng::new(seed))
    });
    let mut bytes = short(&[5; 8], 1400);
    for turn in 0..200 {
        match ends[turn % 2].route(NOW, datagram(peer(), &bytes)) {
            DatagramRoute::Respond(response) => bytes = response.bytes,
            DatagramRoute::Dropped(_) => return,
            other => panic!("{other:?}"),
        }
    }
    panic!("still going at {} bytes", bytes.len());
}

#[test]
fn a_reset_of_the_peer_is_recognised() {
    let mut endpoint = client();
    let (key, _) = endpoint.connect(NOW, &client_config(), peer(), "server", Vec::new()).unwrap();
    let tokens = [ResetToken([9; 16]), ResetToken([8; 16])];
    let reset = |token: &ResetToken| [&[0x55; 30][..], &token.0].concat();
    let comes = |endpoint: &mut Endpoint, path: AddressPair, token: &ResetToken| matches!(endpoint.route(NOW, datagram(path, &reset(token))), DatagramRoute::Reset(k) if k == key);
    assert!(!comes(&mut endpoint, peer(), &tokens[0]));
    endpoint.signal(key, Signal::ResetToken(peer(), tokens[0]));
    assert!(comes(&mut endpoint, peer(), &tokens[0]));
    assert!(!comes(&mut endpoint, at("192.0.2.9:4433"), &tokens[0]), "from another address");
    endpoint.signal(key, Signal::ResetToken(peer(), tokens[1]));
    assert!(!comes(&mut endpoint, peer(), &tokens[0]), "RFC 9000 §10.3.1: of a retired id");
    assert!(comes(&mut endpoint, peer(), &tokens[1]));
    endpoint.signal(key, Signal::Drained);
    assert!(!comes(&mut endpoint, peer(), &tokens[1]));
    endpoint.signal(key, Signal::ResetToken(peer(), tokens[1]));
    assert!(!comes(&mut endpoint, peer(), &tokens[1]), "of a connection that is gone");
}

#[test]
fn connections_begin_or_leave_nothing() {
    let mut endpoint = client();
    let config = client_config();
    let mut connect = |path: AddressPair, name: &str| {
        endpoint.connect(NOW, &config, path, name, vec![4]).map(|(_, start)| start)
    };
    assert!(matches!(connect(at("192.0.2.1:0"), "server"), Err(BeginError::Address(_))));
    assert!(matches!(connect(at("0.0.0.0:443"), "server"), Err(BeginError::Address(_))));
    assert!(matches!(connect(peer(), ""), Err(BeginError::Crypto(_))));
    let start = connect(peer(), "server").unwrap();
    assert!(start.remote_cid.len() >= 8 && start.local_cid.len() == 8);
    assert_eq!(start.params.initial_source_connection_id, Some(start.local_cid));
    assert!(matches!(start.role, HandshakeRole::Client { token, .. } if token == [4]));
    assert_eq!(endpoint.connections(), 1);

    let narrow = EndpointConfig { connection_id_len: 1, ..self::config() };
    let mut endpoint = Endpoint::new(narrow, None, Rng::new(5));
    let begun =
        (0..2_000).filter(|_| endpoint.connect(NOW, &config, peer(), "server", Vec::new()).is_ok()).count();
    assert_eq!((begun, endpoint.connections()), (256, 256));
}

#[test]
fn what_is_announced_is_consistent() {
    let config = TransportConfig {
        stream_window: 10,
        max_connection_window: 10,
        fenced_streams: Some(100_000),
        max_bidi_streams: u64::MAX,
        max_ack_delay: Duration::from_micros(1_500),
        ..TransportConfig::fixed_mtu(1200)
    };
    let params = announce(&config);
    // FS-35: a record of the largest size fits, with its header.
    assert_eq!(params.initial_max_stream_data_bidi_remote, 100_008);
    assert!(params.initial_max_data >= 100_008);
    assert_eq!(params.max_ack_delay, Duration::from_millis(2), "never less than we take");
    let mut buffer = [0; 400];
    let mut w = Writer::new(&mut buffer);
    params.encode(Side::Client, 5, &mut w);
    assert_eq!(quickset_wire::TransportParams::decode(Side::Client, w.written()), Ok(params));
    let plain = announce(&TransportConfig::fixed_mtu(1200));
    assert_eq!(plain.initial_max_data, plain.initial_max_stream_data_uni * 3 / 2);
}

/// RFC 9000 §21.3, RFC 9001 §9.3.
#[test]
fn whatever_arrives_is_answered_with_less() {
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let mut endpoint = server(RetryPolicy::WhenBusy(3));
        let (_, start) = accepted(&mut endpoint, id(1, 8));
        for round in 0..1_000 {
            let mut bytes = match rng.below(4) {
                0 => hello(id(rng.next() as u8, 8), &[1; 40], 1200),
                1 => short(&start.local_cid, 40),
                _ => {
                    let mut bytes = vec![0; rng.below(1500) as usize];
                    rng.fill(&mut bytes);
                    bytes
                }
            };
            for _ in 0..rng.below(4) {
                let (len, flip) = (bytes.len() as u64, rng.next() as u8);
                if let Some(byte) = bytes.get_mut(rng.below(len.min(80)) as usize) {
                    *byte ^= flip;
                }
            }
            let response = match endpoint.route(NOW, datagram(peer(), &bytes)) {
                DatagramRoute::Respond(response) => Some(response),
                DatagramRoute::Incoming(incoming) => match endpoint.admission(&incoming) {
                    Admission::Accept => match endpoint.accept(NOW, incoming) {
                        Err(DatagramRoute::Respond(response)) => Some(response),
                        _ => None,
                    },
                    Admission::Retry => endpoint.retry(NOW, incoming),
                    Admission::Refuse => endpoint.refuse(incoming),
                    Admission::Ignore => unreachable!("there is no gate"),
                },
                _ => None,
            };
            if let Some(response) = response {
                assert!(response.bytes.len() < bytes.len(), "seed {seed} round {round}");
            }
        }
        assert!(endpoint.connections() <= 101, "seed {seed}");
    }
}
