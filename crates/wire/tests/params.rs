//! Transport parameters against RFC 9000 §18, FS-2, FS-3, FEC-3 and FEC-5.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, SocketAddrV6};
use std::time::Duration;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use quickset_wire::fec::{FecDecoder, Scheme, Schemes};
use quickset_wire::params::{ParamsError, PreferredAddress, TransportParams, VersionInformation};
use quickset_wire::{ConnectionId, Reader, ResetToken, Side, Version, Writer, varint};

fn cid(least: usize) -> impl Strategy<Value = ConnectionId> {
    vec(any::<u8>(), least..=20).prop_map(|v| ConnectionId::new(&v).expect("at most 20 bytes"))
}

fn token() -> impl Strategy<Value = ResetToken> {
    any::<[u8; 16]>().prop_map(ResetToken)
}

fn preferred() -> impl Strategy<Value = PreferredAddress> {
    let v4 = (any::<[u8; 4]>(), 1u16..).prop_map(|(ip, port)| SocketAddrV4::new(Ipv4Addr::from(ip), port));
    let v6 =
        (any::<[u8; 16]>(), 1u16..).prop_map(|(ip, port)| SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, 0));
    (of(v4), of(v6), cid(1), token()).prop_map(|(ipv4, ipv6, id, token)| PreferredAddress {
        ipv4,
        ipv6,
        id,
        token,
    })
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..64, 0u64..1 << 30, 0..=varint::MAX]
}

fn decoder() -> impl Strategy<Value = FecDecoder> {
    (number(), number(), number(), any::<[bool; 5]>()).prop_map(
        |(window, max_sessions, max_symbol_size, known)| FecDecoder {
            window,
            max_sessions,
            max_symbol_size,
            schemes: Scheme::ALL.into_iter().zip(known).filter_map(|(s, known)| known.then_some(s)).collect(),
        },
    )
}

fn versions() -> impl Strategy<Value = VersionInformation> {
    let known = prop_oneof![Just(Version::V1), Just(Version::V2)];
    (1u32.., vec(known, 0..=4)).prop_map(|(chosen, of)| VersionInformation::new(Version(chosen), of))
}

fn params() -> impl Strategy<Value = TransportParams> {
    let limits = (number(), number(), number(), number(), 0..=1u64 << 60, 0..=1u64 << 60);
    let ids = (of(cid(0)), of(cid(0)), of(cid(0)), number());
    let ack = (0u8..=20, 0u64..1 << 14, of(0.0f64..=1.0), of(decoder()), 0..=62u64);
    let rest = (
        1200..=varint::MAX,
        2..=varint::MAX,
        of(1200..=varint::MAX),
        number(),
        prop::bool::ANY,
        of(token()),
        of(preferred()),
        (prop::bool::ANY, prop::bool::ANY),
        of(versions()),
    );
    (limits, ids, ack, rest).prop_map(|(limits, ids, ack, rest)| TransportParams {
        initial_max_data: limits.0,
        initial_max_stream_data_bidi_local: limits.1,
        initial_max_stream_data_bidi_remote: limits.2,
        initial_max_stream_data_uni: limits.3,
        initial_max_streams_bidi: limits.4,
        initial_max_streams_uni: limits.5,
        original_destination_connection_id: ids.0,
        initial_source_connection_id: ids.1,
        retry_source_connection_id: ids.2,
        max_datagram_frame_size: ids.3,
        ack_delay_exponent: ack.0,
        max_ack_delay: Duration::from_millis(ack.1),
        min_ack_delay: ack.2.map(|part| Duration::from_micros((ack.1 as f64 * 1e3 * part) as u64)),
        fec_decoder: ack.3,
        fec_unmarked: ack.4,
        max_udp_payload_size: rest.0,
        active_connection_id_limit: rest.1,
        fenced_streams: rest.2,
        max_idle_timeout: Duration::from_millis(rest.3),
        disable_active_migration: rest.4,
        stateless_reset_token: rest.5,
        preferred_address: rest.6,
        reset_stream_at: rest.7.0,
        grease_quic_bit: rest.7.1,
        version_information: rest.8,
    })
}

fn encoded(params: &TransportParams, by: Side, grease: u64) -> Vec<u8> {
    let mut buffer = [0; TransportParams::MAX_SIZE];
    let mut w = Writer::new(&mut buffer);
    params.encode(by, grease, &mut w);
    assert_eq!(w.len(), params.size(by, grease));
    w.written().to_vec()
}

fn from_server(bytes: &[u8]) -> Result<TransportParams, ParamsError> {
    TransportParams::decode(Side::Server, bytes)
}

/// What a client may say of it.
fn without_server_only(params: &TransportParams) -> TransportParams {
    TransportParams {
        original_destination_connection_id: None,
        stateless_reset_token: None,
        preferred_address: None,
        retry_source_connection_id: None,
        ..*params
    }
}

/// Ids and values, in order.
fn list(bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut r = Reader::new(bytes);
    let mut list = Vec::new();
    while !r.is_empty() {
        list.push((r.varint().expect("an id"), r.varint_bytes().expect("a value")));
    }
    list
}

proptest! {
    #[test]
    fn parameters_round_trip(params in params(), grease in any::<u64>()) {
        let server = encoded(&params, Side::Server, grease);
        prop_assert_eq!(TransportParams::decode(Side::Server, &server), Ok(params));
        let client = encoded(&params, Side::Client, grease);
        prop_assert_eq!(TransportParams::decode(Side::Client, &client), Ok(without_server_only(&params)));

        // RFC 9000 §18.1: exactly one id of the form 31·N + 27.
        let reserved = list(&client).iter().filter(|(id, _)| *id >= 27 && (id - 27) % 31 == 0).count();
        prop_assert_eq!(reserved, 1);
    }

    #[test]
    fn any_bytes_are_digested(
        params in params(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        random in vec(prop_oneof![0u8..0x12, any::<u8>()], 0..100),
    ) {
        let mut bytes = encoded(&params, Side::Server, 1);
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        for bytes in [bytes, random] {
            if let Ok(read) = from_server(&bytes) {
                prop_assert_eq!(from_server(&encoded(&read, Side::Server, 0)), Ok(read));
            }
        }
    }
}

#[test]
fn absent_parameters_have_the_values_of_section_18_2() {
    let plain = from_server(&[]).unwrap();
    assert_eq!(plain.max_udp_payload_size, 65_527);
    assert_eq!(plain.ack_delay_exponent, 3);
    assert_eq!(plain.max_ack_delay, Duration::from_millis(25));
    assert_eq!(plain.active_connection_id_limit, 2);
    assert_eq!(plain.max_idle_timeout, Duration::ZERO);
    assert_eq!((plain.initial_max_data, plain.initial_max_streams_bidi), (0, 0));
    assert_eq!((plain.fenced_streams, plain.disable_active_migration), (None, false));
    assert_eq!((plain.fec_decoder, plain.min_ack_delay, plain.reset_stream_at), (None, None, false));
    assert!(!plain.grease_quic_bit);
    // RFC 9221 §3.
    assert_eq!(plain.max_datagram_frame_size, 0);
    // Nothing but the reserved parameter: id 27, no value.
    assert_eq!(encoded(&plain, Side::Client, 0), [27, 0]);
}

/// RFC 9368 §3, §4.
#[test]
fn versions_by_hand() {
    let read = |value: &[u8]| {
        let bytes = [&[0x11, value.len() as u8], value].concat();
        from_server(&bytes).map(|params| params.version_information)
    };
    let (v1, v2, other) = ([0, 0, 0, 1], [0x6b, 0x33, 0x43, 0xcf], [0x0a, 0x1a, 0x2a, 0x3a]);
    let wrong = Err(ParamsError::Length(0x11));
    let both = read(&[v1, v2, v1].concat()).unwrap().unwrap();
    assert_eq!((both.chosen, both.available()), (Version::V1, &[Version::V2, Version::V1][..]));
    // What is not known, greased or not, is left out; of a chosen one it is not.
    let one = read(&[other, other, v2, other].concat()).unwrap().unwrap();
    assert_eq!((one.chosen, one.available()), (Version(0x0a1a_2a3a), &[Version::V2][..]));
    assert_eq!(read(&v2).unwrap(), Some(VersionInformation::new(Version::V2, [])));
    assert_eq!(read(&[]), wrong);
    assert_eq!(read(&[0, 0, 0]), wrong);
    assert_eq!(read(&[&v1[..], &[1]].concat()), wrong);
    assert_eq!(read(&[[0; 4], v1].concat()), wrong, "§4: no version is zero");
    assert_eq!(read(&[v1, [0; 4]].concat()), wrong, "§4");
    let many = read(&[v1; 15].concat()).unwrap().unwrap();
    assert_eq!(many.available().len(), VersionInformation::MAX);
    // One that does not exist goes along.
    let params = TransportParams { version_information: Some(both), ..TransportParams::default() };
    let bytes = encoded(&params, Side::Client, 0);
    assert_eq!(bytes[..18], [&[0x11, 16], &v1[..], &v2, &v1, &[0x0a; 4]].concat());
}

/// RFC 9000 §7.4.2: what is unknown is passed over.
#[test]
fn parameters_by_hand() {
    let bytes = [
        0x01, 2, 0x67, 0x10, // max_idle_timeout 10000 ms
        0x04, 4, 0x80, 0x10, 0, 0, // initial_max_data 2^20
        0x0c, 0, // disable_active_migration
        0x1d, 0, // reset_stream_at
        0x6a, 0xb2, 0, // grease_quic_bit, RFC 9287 §3
        0x0f, 3, 1, 2, 3, // initial_source_connection_id
        0x40, 0x42, 1, 9, // unknown
        0x20, 4, 0x80, 0, 0xff, 0xff, // max_datagram_frame_size 65535, RFC 9221 §3
        0x80, 0x71, 0x53, 0xf1, 4, 0x80, 1, 0,
        0, // fenced_streams 65536, as in spec/fenced-streams.md §17
    ];
    let read = from_server(&bytes).unwrap();
    let expected = TransportParams {
        max_idle_timeout: Duration::from_secs(10),
        initial_max_data: 1 << 20,
        disable_active_migration: true,
        reset_stream_at: true,
        grease_quic_bit: true,
        initial_source_connection_id: ConnectionId::new(&[1, 2, 3]),
        fenced_streams: Some(65_536),
        max_datagram_frame_size: 65_535,
        ..TransportParams::default()
    };
    assert_eq!(read, expected);
    // draft-ietf-quic-reliable-stream-reset §3: with a value it is an error.
    assert_eq!(from_server(&[0x1d, 1, 1]), Err(ParamsError::Length(0x1d)));
    // RFC 9287 §3: likewise.
    assert_eq!(from_server(&[0x6a, 0xb2, 1, 0]), Err(ParamsError::Length(0x2ab2)));
    let twice = [[0x6a, 0xb2, 0]; 2].concat();
    assert_eq!(from_server(&twice), Err(ParamsError::Duplicate(0x2ab2)));

    let fenced = TransportParams { fenced_streams: Some(65_536), ..TransportParams::default() };
    assert!(encoded(&fenced, Side::Client, 0).starts_with(&[0x80, 0x71, 0x53, 0xf1, 4, 0x80, 1, 0, 0]));
}

#[test]
fn min_ack_delay_is_at_most_max_ack_delay() {
    // draft-ietf-quic-ack-frequency §3: 0xff04de1b in microseconds, the other in milliseconds, in either
    // order.
    let least = |us: u64| {
        [&[0xc0, 0, 0, 0, 0xff, 0x04, 0xde, 0x1b, 4][..], &(us as u32 | 1 << 31).to_be_bytes()].concat()
    };
    let most = [0x0b, 1, 10];
    for (bytes, expected) in [
        (least(1000), Ok(1000)),
        (least(25_000), Ok(25_000)),
        (least(25_001), Err(ParamsError::Range(0xff04_de1b))),
        ([&least(10_000)[..], &most].concat(), Ok(10_000)),
        ([&most[..], &least(10_001)].concat(), Err(ParamsError::Range(0xff04_de1b))),
        ([&least(10_001)[..], &most].concat(), Err(ParamsError::Range(0xff04_de1b))),
    ] {
        let read = from_server(&bytes).map(|p| p.min_ack_delay);
        assert_eq!(read, expected.map(|us| Some(Duration::from_micros(us))), "{bytes:02x?}");
    }
    let params =
        TransportParams { min_ack_delay: Some(Duration::from_millis(1)), ..TransportParams::default() };
    let bytes = [0xc0, 0, 0, 0, 0xff, 0x04, 0xde, 0x1b, 2, 0x43, 0xe8, 27, 0];
    assert_eq!(encoded(&params, Side::Client, 0), bytes);
}

#[test]
fn an_fec_decoder_by_hand() {
    // FEC-3, FEC-5: window 1024, 4 sessions, symbols of 1200 bytes, schemes 2, 77 (unknown), 4, 2 again.
    let value = [0x44, 0, 4, 0x44, 0xb0, 2, 0x40, 77, 4, 2];
    let bytes = |value: &[u8]| [&[0x87, 0x15, 0x3f, 0xec, value.len() as u8][..], value].concat();
    let schemes = Schemes::NONE.with(Scheme::ReedSolomon).with(Scheme::Rlc);
    let decoder = FecDecoder { window: 1024, max_sessions: 4, max_symbol_size: 1200, schemes };
    assert_eq!(from_server(&bytes(&value)).unwrap().fec_decoder, Some(decoder));
    let params = TransportParams { fec_decoder: Some(decoder), ..TransportParams::default() };
    let ours = bytes(&[0x44, 0, 4, 0x44, 0xb0, 2, 4]);
    assert_eq!(encoded(&params, Side::Client, 0), [&ours[..], &[27, 0]].concat());
    assert_eq!(from_server(&bytes(&[0, 0, 0])).unwrap().fec_decoder, Some(FecDecoder::default()));
    for wrong in [&[][..], &[1], &[1, 1], &[1, 1, 0x44], &[1, 1, 1, 0x40], &[1, 1, 1, 2, 0xc0, 0]] {
        assert_eq!(from_server(&bytes(wrong)), Err(ParamsError::Length(0x0715_3fec)), "{wrong:02x?}");
    }

    // FEC-64: one number from 1 to 62.
    let keeps = |value: &[u8]| [&[0x87, 0x15, 0x3f, 0xee, value.len() as u8][..], value].concat();
    for most in [1, 62] {
        let params = TransportParams { fec_unmarked: most.into(), ..TransportParams::default() };
        assert_eq!(from_server(&keeps(&[most])).unwrap().fec_unmarked, u64::from(most));
        assert_eq!(encoded(&params, Side::Client, 0), [&keeps(&[most])[..], &[27, 0]].concat());
    }
    for (wrong, error) in [
        (&[][..], ParamsError::Length(0x0715_3fee)),
        (&[1, 1], ParamsError::Length(0x0715_3fee)),
        (&[0], ParamsError::Range(0x0715_3fee)),
        (&[63], ParamsError::Range(0x0715_3fee)),
    ] {
        assert_eq!(from_server(&keeps(wrong)), Err(error), "{wrong:02x?}");
    }

    // FEC-11: n below Max Sessions, a scheme of the list, a window at all.
    assert!(decoder.takes(Scheme::Rlc.session(3)) && decoder.takes(2));
    assert!(!decoder.takes(Scheme::Rlc.session(4)) && !decoder.takes(Scheme::Xor.session(0)));
    assert!(!decoder.takes(7) && !FecDecoder { window: 0, ..decoder }.takes(2));
}

#[test]
fn a_preferred_address_by_hand() {
    let mut value = vec![192, 0, 2, 1, 0x11, 0x51];
    value.extend([0; 18]);
    value.extend([2, 0xaa, 0xbb]);
    value.extend([7; 16]);
    let bytes = [&[0x0d, value.len() as u8][..], &value].concat();
    let address = from_server(&bytes).unwrap().preferred_address.unwrap();
    assert_eq!(address.ipv4, Some(SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 4433)));
    assert_eq!(address.ipv6, None);
    assert_eq!((&*address.id, address.token), (&[0xaa, 0xbb][..], ResetToken([7; 16])));

    value[24] = 0;
    let bytes = [&[0x0d, value.len() as u8][..], &value].concat();
    assert_eq!(from_server(&bytes), Err(ParamsError::Range(0x0d)), "an empty connection id");
    value[24] = 1;
    let bytes = [&[0x0d, value.len() as u8][..], &value].concat();
    assert_eq!(from_server(&bytes), Err(ParamsError::Length(0x0d)), "a byte too many");
    value[24] = 3;
    let bytes = [&[0x0d, value.len() as u8][..], &value].concat();
    assert_eq!(from_server(&bytes), Err(ParamsError::Length(0x0d)), "a byte too few");
}

/// RFC 9000 §7.4, §18.2.
#[test]
fn values_outside_their_range_are_refused() {
    use ParamsError::{Duplicate, Length, Range, Truncated};
    let long_id = [&[0x0f, 21][..], &[0; 21]].concat();
    let cases: [(&[u8], ParamsError, &str); 17] = [
        (&[0x03, 2, 0x44, 0xaf], Range(0x03), "1199 bytes of UDP payload"),
        (&[0x0a, 1, 21], Range(0x0a), "ack_delay_exponent 21"),
        (&[0x0b, 4, 0x80, 0, 0x40, 0], Range(0x0b), "max_ack_delay 2^14"),
        (&[0x0e, 1, 1], Range(0x0e), "active_connection_id_limit 1"),
        (&[0x08, 8, 0xd0, 0, 0, 0, 0, 0, 0, 1], Range(0x08), "2^60 + 1 streams"),
        (&[0x09, 8, 0xd0, 0, 0, 0, 0, 0, 0, 1], Range(0x09), "2^60 + 1 streams"),
        (&[0x80, 0x71, 0x53, 0xf1, 2, 0x44, 0xaf], Range(0x0071_53f1), "FS-2: 1199"),
        (&[0x80, 0x71, 0x53, 0xf1, 3, 0x44, 0xb0, 0], Length(0x0071_53f1), "FS-3: more than a varint"),
        (&[0x80, 0x71, 0x53, 0xf1, 0], Length(0x0071_53f1), "FS-3: nothing"),
        (&[0x04, 1, 0x40], Length(0x04), "half a varint"),
        (&[0x04, 2, 1, 1], Length(0x04), "two varints"),
        (&[0x0c, 1, 0], Length(0x0c), "a flag with a value"),
        (&[0x02, 2, 0, 0], Length(0x02), "a short token"),
        (&long_id, Length(0x0f), "21 bytes of connection id"),
        (&[0x04, 1, 1, 0x01, 1, 1, 0x04, 1, 1], Duplicate(0x04), "twice"),
        (&[0x04, 2, 1], Truncated, "a value cut short"),
        (&[0x04], Truncated, "a length cut short"),
    ];
    for (bytes, error, name) in cases {
        assert_eq!(from_server(bytes), Err(error), "{name}");
        assert_eq!(error.code().0, 0x08);
    }
    // The borders.
    for bytes in [&[0x03, 2, 0x44, 0xb0][..], &[0x0a, 1, 20], &[0x0b, 2, 0x7f, 0xff], &[0x0e, 1, 2]] {
        assert!(from_server(bytes).is_ok(), "{bytes:02x?}");
    }
    assert_eq!(from_server(&[0x80, 0x71, 0x53, 0xf1, 2, 0x44, 0xb0]).unwrap().fenced_streams, Some(1200));
}

/// RFC 9000 §7.4.
#[test]
fn clients_may_not_speak_for_servers() {
    for id in [0x00, 0x02, 0x0d, 0x10] {
        let refused = TransportParams::decode(Side::Client, &[id, 0]);
        assert_eq!(refused, Err(ParamsError::ServerOnly(u64::from(id))));
    }
    assert!(TransportParams::decode(Side::Client, &[0x0f, 0]).is_ok());
}
