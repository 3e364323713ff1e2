//! Headers against RFC 8999, RFC 9000 §17, the examples of RFC 9001 §A and RFC 9369.

#![expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")]

use proptest::collection::vec;
use proptest::prelude::*;
use quickset_wire::header::{
    self, Header, HeaderError, LongHeader, Parsed, ShortHeader, long_header, patch_length, protect, retry,
    short_header, unprotect, version_negotiation,
};
use quickset_wire::{ConnectionId, PacketType, Version, Writer};

fn cid(bytes: &[u8]) -> ConnectionId {
    ConnectionId::new(bytes).expect("at most 20 bytes")
}

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> =
        text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).expect("a digit") as u8).collect();
    digits.chunks(2).map(|d| d[0] << 4 | d[1]).collect()
}

fn mask(text: &str) -> [u8; 5] {
    hex(text).try_into().expect("five bytes")
}

#[test]
fn the_client_initial_of_rfc_9001_a_2() {
    let dcid = cid(&hex("8394c8f03e515708"));
    let initial = LongHeader {
        ty: PacketType::Initial,
        version: Version::V1,
        dcid,
        scid: ConnectionId::EMPTY,
        token: &[],
    };
    let mut packet = [0; 1200];
    let mut w = Writer::new(&mut packet);
    let length_at = long_header(&mut w, &initial, 2, 4);
    assert_eq!(w.len(), initial.size(4));
    w.zeros(1162);
    patch_length(&mut w, length_at, 16);
    let pn_offset = length_at + 2;
    assert_eq!(w.written()[..22], hex("c300000001088394c8f03e5157080000449e00000002"));

    // The first bytes of the sealed payload, as far as the sample goes.
    packet[22..38].copy_from_slice(&hex("d1b1c98dd7689fb8ec11d242b123dc9b"));
    protect(&mut packet, pn_offset, mask("437b9aec36"));
    assert_eq!(packet[..22], hex("c000000001088394c8f03e5157080000449e7b9aec34"));

    let parsed = Parsed::parse(&packet, 8).unwrap();
    let expected = Header::Initial { version: Version::V1, dcid, scid: ConnectionId::EMPTY, token: &[] };
    assert_eq!((&parsed.header, parsed.pn_offset, parsed.end), (&expected, 18, 1200));
    assert_eq!(parsed.sample(&packet).unwrap().to_vec(), hex("d1b1c98dd7689fb8ec11d242b123dc9b"));
    let open = unprotect(&mut packet, 18, mask("437b9aec36")).unwrap();
    assert_eq!((open.first, open.truncated, open.pn_len, open.expand(None)), (0xc3, 2, 4, 2));
    assert_eq!(header::reserved_bits(open.first), 0);
}

#[test]
fn the_server_initial_of_rfc_9001_a_3() {
    let mut packet = hex("cf000000010008f067a5502a4262b500 4075c0d95a482cd0991cd25b0aac406a
        5816b6394100f37a1c69797554780bb3 8cc5a99f5ede4cf73c3ec2493a1839b3
        dbcba3f6ea46c5b7684df3548e7ddeb9 c3bf9c73cc3f3bded74b562bfb19fb84
        022f8ef4cdd93795d77d06edbb7aaf2f 58891850abbdca3d20398c276456cbc4
        2158407dd074ee");
    let parsed = Parsed::parse(&packet, 0).unwrap();
    let scid = cid(&hex("f067a5502a4262b5"));
    let expected = Header::Initial { version: Version::V1, dcid: ConnectionId::EMPTY, scid, token: &[] };
    assert_eq!((&parsed.header, parsed.end), (&expected, packet.len()));
    assert_eq!(parsed.header.packet_type(), Some(PacketType::Initial));
    assert_eq!(parsed.sample(&packet).unwrap().to_vec(), hex("2cd0991cd25b0aac406a5816b6394100"));
    let pn_offset = parsed.pn_offset;
    let open = unprotect(&mut packet, pn_offset, mask("2ec0d8356a")).unwrap();
    assert_eq!((open.first, open.truncated, open.pn_len), (0xc1, 1, 2));
    assert_eq!(packet[..20], hex("c1000000010008f067a5502a4262b50040750001"));
}

#[test]
fn the_retry_of_rfc_9001_a_4() {
    let packet = hex("ff000000010008f067a5502a4262b574 6f6b656e04a265ba2eff4d829058fb3f 0f2496ba");
    let scid = cid(&hex("f067a5502a4262b5"));
    let tag: [u8; 16] = hex("04a265ba2eff4d829058fb3f0f2496ba").try_into().unwrap();
    let parsed = Parsed::parse(&packet, 8).unwrap();
    let expected =
        Header::Retry { version: Version::V1, dcid: ConnectionId::EMPTY, scid, token: b"token", tag };
    assert_eq!(parsed.header, expected);
    assert_eq!((parsed.pn_offset, parsed.end, parsed.header.packet_type()), (36, 36, None));

    let mut buffer = [0; 64];
    let mut w = Writer::new(&mut buffer);
    retry(&mut w, Version::V1, &ConnectionId::EMPTY, &scid, b"token");
    assert_eq!(w.written(), &packet[..20]);
    assert_eq!(Parsed::parse(&packet[..30], 8), Err(HeaderError::Truncated), "no whole tag");
}

#[test]
fn the_short_header_of_rfc_9001_a_5() {
    let mut packet = hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb");
    let parsed = Parsed::parse(&packet, 0).unwrap();
    assert_eq!(parsed.header, Header::Short { dcid: ConnectionId::EMPTY });
    assert_eq!((parsed.pn_offset, parsed.end), (1, 21));
    assert_eq!(parsed.sample(&packet).unwrap().to_vec(), hex("5e5cd55c41f69080575d7999c25a5bfb"));
    assert_eq!(parsed.sample(&packet[..20]), None);
    let open = unprotect(&mut packet, 1, mask("aefefe7d03")).unwrap();
    assert_eq!((open.first, open.truncated, open.pn_len), (0x42, 49_140, 3));
    assert_eq!(open.expand(Some(654_360_563)), 654_360_564);

    let mut buffer = [0; 21];
    let mut w = Writer::new(&mut buffer);
    let short = ShortHeader { dcid: ConnectionId::EMPTY, spin: false, key_phase: false };
    short_header(&mut w, &short, 654_360_564, 3);
    assert_eq!(w.written(), hex("4200bff4"));
    assert_eq!(w.len(), short.size(3));
    protect(&mut buffer, 1, mask("aefefe7d03"));
    assert_eq!(buffer[..4], hex("4cfe4189"));
}

/// RFC 9000 §17.2, §17.2.4, §17.2.5.
#[test]
fn first_bytes_follow_the_versions() {
    // RFC 9000 table 5 and RFC 9369 §3.2.
    let cases = [
        (PacketType::Initial, 0xc0, 0xd0),
        (PacketType::ZeroRtt, 0xd0, 0xe0),
        (PacketType::Handshake, 0xe0, 0xf0),
    ];
    for (ty, v1, v2) in cases {
        for (version, first) in [(Version::V1, v1), (Version::V2, v2)] {
            let mut buffer = [0; 32];
            let mut w = Writer::new(&mut buffer);
            let none = ConnectionId::EMPTY;
            long_header(&mut w, &LongHeader { ty, version, dcid: none, scid: none, token: &[] }, 0, 1);
            assert_eq!(w.written()[0], first, "{ty:?} {version}");
            let parsed = Parsed::parse(w.written(), 0).unwrap();
            assert_eq!((parsed.header.packet_type(), parsed.header.version()), (Some(ty), Some(version)));
        }
    }
    let mut buffer = [0; 32];
    let mut w = Writer::new(&mut buffer);
    retry(&mut w, Version::V2, &ConnectionId::EMPTY, &ConnectionId::EMPTY, &[]);
    assert_eq!(w.written()[0] & 0xf0, 0xc0);

    let short = |spin, key_phase| {
        let mut buffer = [0; 8];
        let mut w = Writer::new(&mut buffer);
        short_header(&mut w, &ShortHeader { dcid: ConnectionId::EMPTY, spin, key_phase }, 0, 4);
        w.written()[0]
    };
    // RFC 9000 figure 19.
    assert_eq!((short(false, false), short(true, false), short(false, true)), (0x43, 0x63, 0x47));
    assert!(header::spin(0x63) && !header::spin(0x43) && header::key_phase(0x47) && !header::key_phase(0x43));
    assert_eq!(header::pn_len(0x43), 4);
    assert_eq!((header::reserved_bits(0x5b), header::reserved_bits(0xcf)), (0x18, 0x0c));
    assert_eq!((header::reserved_bits(0x67), header::reserved_bits(0xf3)), (0, 0));
}

/// RFC 9000 §12.2.
#[test]
fn coalesced_packets_are_told_apart() {
    let mut buffer = [0; 200];
    let mut w = Writer::new(&mut buffer);
    let (dcid, scid) = (cid(&[1; 8]), cid(&[2; 5]));
    let mut ends = Vec::new();
    for (ty, token, payload) in [(PacketType::Initial, &b"tok"[..], 30), (PacketType::Handshake, &[], 40)] {
        let at = long_header(&mut w, &LongHeader { ty, version: Version::V1, dcid, scid, token }, 7, 2);
        w.zeros(payload);
        patch_length(&mut w, at, 0);
        ends.push((ty, w.len()));
    }
    short_header(&mut w, &ShortHeader { dcid, spin: false, key_phase: true }, 7, 1);
    w.zeros(20);
    ends.push((PacketType::OneRtt, w.len()));

    let mut start = 0;
    for (ty, end) in ends {
        let parsed = Parsed::parse(&w.written()[start..], 8).unwrap();
        assert_eq!(parsed.header.packet_type(), Some(ty));
        assert_eq!(parsed.header.dcid(), &[1; 8]);
        assert_eq!(start + parsed.end, end);
        start = end;
    }
}

/// RFC 9000 §17.2.1.
#[test]
fn versions_that_are_not_ours() {
    // RFC 8999 §5.1: ids of up to 255 bytes, whatever the other bits of the first byte.
    let packet = [&[0x80, 0x1a, 0x2a, 0x3a, 0x4a, 255][..], &[7; 255], &[21], &[8; 21], b"whatever"].concat();
    let parsed = Parsed::parse(&packet, 8).unwrap();
    let version = Version(0x1a2a_3a4a);
    assert_eq!(parsed.header, Header::UnknownVersion { version, dcid: &[7; 255], scid: &[8; 21] });
    assert_eq!(parsed.end, packet.len());

    let mut buffer = [0; 400];
    let mut w = Writer::new(&mut buffer);
    version_negotiation(&mut w, &[8; 21], &[7; 255], &[Version::V2, Version::V1], 0x0123_4567);
    let parsed = Parsed::parse(w.written(), 8).unwrap();
    let Header::VersionNegotiation { dcid, scid, versions } = parsed.header else { panic!("another packet") };
    assert_eq!((dcid, scid), (&[8; 21][..], &[7; 255][..]));
    assert_eq!(versions.len(), 3);
    let versions: Vec<_> = versions.collect();
    assert!(versions[0].is_reserved());
    assert_eq!(versions[1..], [Version::V2, Version::V1]);
    // RFC 8999 §6: no list, or one that ends inside a version.
    let len = w.len();
    assert_eq!(Parsed::parse(&w.written()[..len - 1], 8), Err(HeaderError::Truncated));
    assert_eq!(Parsed::parse(&w.written()[..len - 12], 8), Err(HeaderError::Truncated));
}

/// RFC 9000 §17.2, §17.2.2; RFC 9001 §5.4.2: too short to be protected.
#[test]
fn packets_to_drop() {
    let long = |first: u8, rest: &[u8]| [&[first, 0, 0, 0, 1][..], rest].concat();
    let cases = [
        (vec![], HeaderError::Truncated, "nothing"),
        (vec![0x40; 8], HeaderError::Truncated, "a short connection id"),
        (long(0xc0, &[[21].as_slice(), &[0; 30]].concat()), HeaderError::ConnectionIdLength, "21 bytes"),
        (long(0xc0, &[0, 0, 0, 5, 1, 2, 3, 4]), HeaderError::Truncated, "Length beyond the datagram"),
        (long(0xc0, &[0, 0, 9, 1, 1]), HeaderError::Truncated, "a token beyond the datagram"),
        (long(0xe0, &[&[0, 0][..], &[0xff; 8]].concat()), HeaderError::Truncated, "a Length of 2^62 - 1"),
    ];
    for (bytes, error, name) in cases {
        assert_eq!(Parsed::parse(&bytes, 8), Err(error), "{name}");
    }
    assert_eq!(unprotect(&mut [0x40, 1, 2, 3], 1, [0; 5]), None);
    assert_eq!(unprotect(&mut [0x40, 1, 2, 3], 9, [0; 5]), None);
}

/// RFC 9287 §3: the bit changes nothing else of a packet, and of other versions it says nothing.
#[test]
fn the_fixed_bit_is_told() {
    let long = |first: u8, version: u32, rest: &[u8]| {
        let mut packet = [&[first][..], &version.to_be_bytes(), &[0, 0], rest].concat();
        let fixed = Parsed::parse(&packet, 8).unwrap().is_fixed;
        header::clear_fixed_bit(&mut packet[0]);
        assert_eq!(packet[0], first & !0x40);
        (fixed, Parsed::parse(&packet, 8).unwrap().is_fixed)
    };
    for version in [1, 0x6b33_43cf] {
        assert_eq!(long(0xe3, version, &[4, 1, 2, 3, 4]), (true, false), "version {version:x}");
    }
    // Retry of version 1: anything, and 16 bytes.
    assert_eq!(long(0xff, 1, &[9; 20]), (true, false));
    assert_eq!(long(0xff, 0, &[0, 0, 0, 1]), (true, true), "Version Negotiation, RFC 9000 §17.2.1");
    assert_eq!(long(0xff, 0x1a2a_3a4a, &[]), (true, true), "RFC 8999 §5.1");
    let short = [[0x40; 40], [0x00; 40]].map(|packet| {
        let parsed = Parsed::parse(&packet, 8).unwrap();
        (parsed.is_fixed, parsed.pn_offset, parsed.end)
    });
    assert_eq!(short, [(true, 9, 40), (false, 9, 40)]);
}

fn any_cid() -> impl Strategy<Value = ConnectionId> {
    vec(any::<u8>(), 0..=20).prop_map(|v| cid(&v))
}

fn long_type() -> impl Strategy<Value = PacketType> {
    prop::sample::select(vec![PacketType::Initial, PacketType::ZeroRtt, PacketType::Handshake])
}

proptest! {
    #[test]
    fn long_headers_round_trip(
        ty in long_type(),
        v2 in prop::bool::ANY,
        (dcid, scid) in (any_cid(), any_cid()),
        token in vec(any::<u8>(), 0..100),
        (pn, pn_len) in (0u64..1 << 62, 1usize..=4),
        mask in any::<[u8; 5]>(),
        payload in 4usize..200,
    ) {
        let version = if v2 { Version::V2 } else { Version::V1 };
        let header = LongHeader { ty, version, dcid, scid, token: &token };
        let mut buffer = [0; 500];
        let mut w = Writer::new(&mut buffer);
        let at = long_header(&mut w, &header, pn, pn_len);
        prop_assert_eq!(w.len(), header.size(pn_len));
        w.zeros(payload);
        patch_length(&mut w, at, 16);
        let end = w.len() + 16;
        let clear = w.written().to_vec();
        protect(&mut buffer[..end], at + 2, mask);

        let parsed = Parsed::parse(&buffer, 8).expect("our own header");
        let expected = match ty {
            PacketType::Initial => Header::Initial { version, dcid, scid, token: &token },
            PacketType::ZeroRtt => Header::ZeroRtt { version, dcid, scid },
            _ => Header::Handshake { version, dcid, scid },
        };
        prop_assert_eq!(parsed, Parsed { header: expected, pn_offset: at + 2, end, is_fixed: true });
        let open = unprotect(&mut buffer[..end], at + 2, mask).expect("long enough");
        prop_assert_eq!(open.pn_len, pn_len);
        prop_assert_eq!(u64::from(open.truncated), pn & ((1 << (8 * pn_len)) - 1));
        prop_assert_eq!(&buffer[..clear.len()], &clear[..]);
    }

    /// RFC 9000 §17.3.1.
    #[test]
    fn short_headers_round_trip(
        dcid in any_cid(),
        (spin, key_phase) in any::<(bool, bool)>(),
        (pn, pn_len) in (0u64..1 << 62, 1usize..=4),
        mask in any::<[u8; 5]>(),
    ) {
        let header = ShortHeader { dcid, spin, key_phase };
        let mut buffer = [0; 50];
        let mut w = Writer::new(&mut buffer);
        short_header(&mut w, &header, pn, pn_len);
        let len = w.len();
        prop_assert_eq!(len, header.size(pn_len));
        protect(&mut buffer, len - pn_len, mask);
        let parsed = Parsed::parse(&buffer, dcid.len()).expect("our own header");
        let (header, pn_offset) = (Header::Short { dcid }, 1 + dcid.len());
        prop_assert_eq!(&parsed, &Parsed { header, pn_offset, end: 50, is_fixed: true });
        let pn_offset = parsed.pn_offset;
        let open = unprotect(&mut buffer, pn_offset, mask).expect("long enough");
        prop_assert_eq!((open.pn_len, header::spin(open.first), header::key_phase(open.first)), (pn_len, spin, key_phase));
        prop_assert_eq!(u64::from(open.truncated), pn & ((1 << (8 * pn_len)) - 1));
    }

    #[test]
    fn any_datagram_is_digested(
        first in any::<u8>(),
        version in prop::sample::select(vec![0u32, 1, 0x6b33_43cf, 0x1a2a_3a4a]),
        rest in vec(prop_oneof![2 => 0u8..24, 1 => any::<u8>()], 0..120),
        local_cid_len in 0usize..=20,
        mask in any::<[u8; 5]>(),
    ) {
        let mut datagram = [&[first][..], &version.to_be_bytes(), &rest].concat();
        if let Ok(parsed) = Parsed::parse(&datagram, local_cid_len) {
            prop_assert!(0 < parsed.pn_offset && parsed.pn_offset <= parsed.end && parsed.end <= datagram.len());
            let (pn_offset, end) = (parsed.pn_offset, parsed.end);
            if parsed.sample(&datagram).is_some() {
                prop_assert!(unprotect(&mut datagram[..end], pn_offset, mask).is_some());
            }
        }
    }
}
