use std::io;
use std::sync::Arc;

use quickset_quic::{
    ClientCrypto, ConnectionId, CryptoSession, EarlyFate, EndpointCrypto, HeaderKey, KeyChange, Keys,
    PacketKey, ServerCrypto, Side, TransportError, Version,
};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::crypto::cipher::{AeadKey, Iv};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ServerSessionMemoryCache;
use rustls::version::TLS13;

use super::*;
use crate::keys::{RustlsHeader, RustlsPacket};
use crate::provider::{cipher_suite, default_provider};

/// RFC 9001 §A.
const DCID: &str = "8394c8f03e515708";

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |p: &[u8]| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn array<const N: usize>(text: &str) -> [u8; N] {
    hex(text).try_into().unwrap()
}

fn id(text: &str) -> ConnectionId {
    ConnectionId::new(&hex(text)).unwrap()
}

fn initial(side: Side) -> Keys {
    keys::initial(Version::V1, &id(DCID), side).unwrap()
}

/// Seals `payload` behind `header`, whose last `pn_len` bytes are the number.
fn seal(
    packet_key: &dyn PacketKey,
    header_key: &dyn HeaderKey,
    pn: u64,
    header: &str,
    payload: &[u8],
) -> Vec<u8> {
    let header = hex(header);
    let mut packet = [&header, payload, &[0; 16]].concat();
    let (head, body) = packet.split_at_mut(header.len());
    packet_key.seal(pn, head, body);
    let pn_len = usize::from(head[0] & 3) + 1;
    let pn_at = header.len() - pn_len;
    let sample: [u8; 16] = packet[pn_at + 4..][..16].try_into().unwrap();
    let (first, rest) = packet.split_first_mut().unwrap();
    header_key.protect(&sample, first, &mut rest[pn_at - 1..][..pn_len]);
    packet
}

/// Undoes it; `None` when it does not open.
fn open(
    packet_key: &dyn PacketKey,
    header_key: &dyn HeaderKey,
    pn: u64,
    pn_at: usize,
    packet: &[u8],
) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut packet = packet.to_vec();
    let sample: [u8; 16] = packet[pn_at + 4..][..16].try_into().unwrap();
    let (first, rest) = packet.split_first_mut().unwrap();
    header_key.unprotect(&sample, first, &mut rest[pn_at - 1..][..4]);
    let payload_at = pn_at + usize::from(*first & 3) + 1;
    let (head, body) = packet.split_at_mut(payload_at);
    let len = packet_key.open(pn, head, body)?;
    Some((head.to_vec(), body[..len].to_vec()))
}

/// RFC 9001 §A.2: a CRYPTO frame.
const CLIENT_HELLO: &str = "060040f1010000ed0303ebf8fa56f129 39b9584a3896472ec40bb863cfd3e868
         04fe3a47f06a2b69484c000004130113 02010000c000000010000e00000b6578
         616d706c652e636f6dff01000100000a 00080006001d00170018001000070005
         04616c706e0005000501000000000033 00260024001d00209370b2c9caa47fba
         baf4559fedba753de171fa71f50f1ce1 5d43e994ec74d748002b000302030400
         0d0010000e0403050306030203080408 050806002d00020101001c0002400100
         3900320408ffffffffffffffff050480 00ffff07048000ffff08011001048000
         75300901100f088394c8f03e51570806 048000ffff";

/// RFC 9001 §A.3: ACK and CRYPTO.
const SERVER_HELLO: &str = "02000000000600405a020000560303ee fce7f7b37ba1d1632e96677825ddf739
         88cfc79825df566dc5430b9a045a1200 130100002e00330024001d00209d3c94
         0d89690b84d08a60993c144eca684d10 81287c834d5311bcf32bb9da1a002b00
         020304";

/// RFC 9001 §5.2, §5.3, §5.4, §5.4.1.
#[test]
fn the_client_initial_of_rfc_9001() {
    // §A.2: a CRYPTO frame and padding up to 1162 bytes.
    let mut payload = hex(CLIENT_HELLO);
    payload.resize(1162, 0);
    let header = "c300000001088394c8f03e5157080000449e00000002";
    let client = initial(Side::Client);
    let packet = seal(&*client.local.packet, &*client.local.header, 2, header, &payload);
    assert_eq!(packet.len(), 1200);
    assert_eq!(packet[..22], hex("c000000001088394c8f03e5157080000449e7b9aec34"));
    assert_eq!(packet[22..38], hex("d1b1c98dd7689fb8ec11d242b123dc9b"), "the sample");
    assert_eq!(packet[1184..], hex("e221af44860018ab0856972e194cd934"), "the tag");

    let server = initial(Side::Server);
    let (packet_key, header_key) = (&*server.remote.packet, &*server.remote.header);
    let opened = open(packet_key, header_key, 2, 18, &packet).unwrap();
    assert_eq!(opened, (hex(header), payload));
    for at in [1, 30, 600, 1199] {
        let mut altered = packet.clone();
        altered[at] ^= 0x20;
        assert_eq!(open(packet_key, header_key, 2, 18, &altered), None, "byte {at}");
    }
    assert_eq!(open(packet_key, header_key, 3, 18, &packet), None, "another number");
    assert_eq!(packet_key.open(2, &[], &mut [0; 15]), None, "shorter than a tag");
    // RFC 9001 §6.6.
    assert_eq!((packet_key.confidentiality_limit(), packet_key.integrity_limit()), (1 << 23, 1 << 52));
}

#[test]
fn the_server_initial_of_rfc_9001() {
    // §A.3.
    let payload = hex(SERVER_HELLO);
    let protected = hex("cf000000010008f067a5502a4262b500 4075c0d95a482cd0991cd25b0aac406a
         5816b6394100f37a1c69797554780bb3 8cc5a99f5ede4cf73c3ec2493a1839b3
         dbcba3f6ea46c5b7684df3548e7ddeb9 c3bf9c73cc3f3bded74b562bfb19fb84
         022f8ef4cdd93795d77d06edbb7aaf2f 58891850abbdca3d20398c276456cbc4
         2158407dd074ee");
    let (header, server) = ("c1000000010008f067a5502a4262b50040750001", initial(Side::Server));
    assert_eq!(seal(&*server.local.packet, &*server.local.header, 1, header, &payload), protected);
    let client = initial(Side::Client);
    let opened = open(&*client.remote.packet, &*client.remote.header, 1, 18, &protected);
    assert_eq!(opened, Some((hex(header), payload)));
}

#[test]
fn the_initials_of_rfc_9369() {
    let keys = |side| keys::initial(Version::V2, &id(DCID), side).unwrap();
    let (client, server) = (keys(Side::Client), keys(Side::Server));
    // §A.2: what RFC 9001 §A.2 has, under keys of version 2. Of the packet its ends: every byte in between
    // makes the tag.
    let mut payload = hex(CLIENT_HELLO);
    payload.resize(1162, 0);
    let header = "d36b3343cf088394c8f03e5157080000449e00000002";
    let packet = seal(&*client.local.packet, &*client.local.header, 2, header, &payload);
    assert_eq!(packet.len(), 1200);
    assert_eq!(packet[..22], hex("d76b3343cf088394c8f03e5157080000449ea0c95e82"));
    assert_eq!(packet[22..38], hex("ffe67b6abcdb4298b485dd04de806071"), "the sample");
    assert_eq!(packet[1184..], hex("a18b2faa745b6fe189cf772a9f84cbfc"), "the tag");
    let opened = open(&*server.remote.packet, &*server.remote.header, 2, 18, &packet).unwrap();
    assert_eq!(opened, (hex(header), payload));
    // Version 1 does not open it.
    let other = initial(Side::Server);
    assert_eq!(open(&*other.remote.packet, &*other.remote.header, 2, 18, &packet), None);
    // §A.3.
    let header = "d16b3343cf0008f067a5502a4262b50040750001";
    let packet = seal(&*server.local.packet, &*server.local.header, 1, header, &hex(SERVER_HELLO));
    assert_eq!(packet[..20], hex("dc6b3343cf0008f067a5502a4262b5004075d92f"));
    assert_eq!(packet[20..36], hex("aaf16f05d8a4398c47089698baeea26b"));
    let opened = open(&*client.remote.packet, &*client.remote.header, 1, 18, &packet).unwrap();
    assert_eq!(opened, (hex(header), hex(SERVER_HELLO)));
}

/// RFC 9001 §5.4, §5.4.1.
#[test]
fn the_short_header_of_rfc_9001() {
    // §A.5: ChaCha20-Poly1305 with the key, nonce and header key that follow from its secret.
    let suite = cipher_suite::TLS13_CHACHA20_POLY1305_SHA256.tls13().unwrap().quic_suite().unwrap();
    let key = AeadKey::from(array::<32>("c6d98ff3441c3fe1b2182094f69caa2ed4b716b65488960a7a984979fb23e1c8"));
    let iv = Iv::from(array::<12>("e0459b3474bdd0e44a41c144"));
    let hp = AeadKey::from(array::<32>("25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4"));
    let packet_key = RustlsPacket(suite.quic.packet_key(key, iv));
    let header_key = RustlsHeader(suite.quic.header_protection_key(hp));
    let packet = seal(&packet_key, &header_key, 654_360_564, "4200bff4", &[1]);
    assert_eq!(packet, hex("4cfe4189655e5cd55c41f69080575d7999c25a5bfb"));
    assert!(
        open(&packet_key, &header_key, 654_360_564, 1, &packet).is_some_and(|(_, payload)| payload == [1])
    );
}

/// RFC 9001 §5.8.
#[test]
fn retry_tags_of_both_versions() {
    // RFC 9001 §A.4 and RFC 9369 §A.4.
    for (version, packet, tag) in [
        (Version::V1, "ff000000010008f067a5502a4262b5746f6b656e", "04a265ba2eff4d829058fb3f0f2496ba"),
        (Version::V2, "cf6b3343cf0008f067a5502a4262b5746f6b656e", "c8646ce8bfe33952d955543665dcc7b6"),
    ] {
        assert_eq!(retry::tag(version, &id(DCID), &hex(packet)), Some(array(tag)), "{version}");
    }
    assert_eq!(retry::tag(Version(5), &id(DCID), &[]), None);
    assert!(keys::initial(Version(5), &id(DCID), Side::Client).is_none());
}

/// A certificate for "localhost" and its key.
fn identity() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivatePkcs8KeyDer::from(made.key_pair.serialize_der());
    (made.cert.der().clone(), key.into())
}

fn server_tls(alpn: &[&str]) -> (rustls::ServerConfig, CertificateDer<'static>) {
    server_of(default_provider(), alpn)
}

fn server_of(provider: CryptoProvider, alpn: &[&str]) -> (rustls::ServerConfig, CertificateDer<'static>) {
    let (certificate, key) = identity();
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(provider))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    tls.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    (tls, certificate)
}

fn client_tls(alpn: &[&str], trusted: Option<&CertificateDer<'static>>) -> rustls::ClientConfig {
    let mut roots = RootCertStore::empty();
    trusted.map_or(Ok(()), |certificate| roots.add(certificate.clone())).unwrap();
    let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    tls.alpn_protocols = alpn.iter().map(|p| p.as_bytes().to_vec()).collect();
    tls
}

type Pair = (Box<dyn CryptoSession>, Box<dyn CryptoSession>);

fn pair(client: rustls::ClientConfig, server: rustls::ServerConfig, version: Version) -> Pair {
    let client = Arc::new(Client::new(Arc::new(client)).unwrap());
    let server = Arc::new(Server::new(Arc::new(server)).unwrap());
    let client = client.start(version, "localhost", vec![1, 2, 3]).unwrap();
    (client, server.start(version, vec![4, 5]))
}

fn connected(version: Version) -> (Pair, [Vec<KeyChange>; 2], CertificateDer<'static>) {
    let (server, certificate) = server_tls(&["b", "a"]);
    let mut pair = pair(client_tls(&["a", "b"], Some(&certificate)), server, version);
    let keys = shake(&mut pair).unwrap();
    (pair, keys, certificate)
}

/// Carries handshake bytes, a level at a time, until nobody has more to say.
fn shake((client, server): &mut Pair) -> Result<[Vec<KeyChange>; 2], TransportError> {
    let mut keys = [Vec::new(), Vec::new()];
    for turn in 0..10 {
        let (from, to) =
            if turn % 2 == 0 { (&mut *client, &mut *server) } else { (&mut *server, &mut *client) };
        let mut bytes = Vec::new();
        keys[turn % 2].extend(from.write(&mut bytes));
        for chunk in bytes.chunks(100) {
            to.read(chunk)?;
        }
    }
    Ok(keys)
}

/// Takes the 1-RTT keys, the last of both sides.
fn one_rtt(change: Option<KeyChange>) -> (Keys, Box<dyn quickset_quic::NextKeys>) {
    match change {
        Some(KeyChange::OneRtt { keys, next }) => (keys, next),
        _ => panic!("1-RTT keys come last"),
    }
}

fn opens(from: &dyn PacketKey, to: &dyn PacketKey) -> bool {
    let mut payload = [7; 40];
    from.seal(9, b"header", &mut payload);
    to.open(9, b"header", &mut payload) == Some(24) && payload[..24] == [7; 24]
}

/// RFC 9000 §7; RFC 9001 §4.1.1.
#[test]
fn both_sides_agree() {
    for version in [Version::V1, Version::V2] {
        let ((client, server), [c, s], certificate) = connected(version);
        assert!(!client.is_handshaking() && !server.is_handshaking());
        assert_eq!((client.alpn(), server.alpn()), (Some(&b"b"[..]), Some(&b"b"[..])), "the server's choice");
        assert_eq!((client.peer_params(), server.peer_params()), (Some(&[4, 5][..]), Some(&[1, 2, 3][..])));
        let chain = client.peer_identity().unwrap().downcast::<PeerCertificates>().unwrap();
        assert_eq!(*chain, [certificate]);
        assert!(server.peer_identity().is_none(), "no client certificate was asked for");

        let exported = |session: &dyn CryptoSession, context: &[u8]| {
            let mut out = [0; 40];
            session.export(b"label", context, &mut out).then_some(out)
        };
        let ours = exported(&*client, b"context");
        assert!(ours.is_some() && ours == exported(&*server, b"context"));
        assert_ne!(ours, exported(&*client, b"other"));

        assert_eq!((c.len(), s.len()), (2, 2));
        for (c, s) in c.into_iter().zip(s) {
            let ((KeyChange::Handshake(c), KeyChange::Handshake(s))
            | (KeyChange::OneRtt { keys: c, .. }, KeyChange::OneRtt { keys: s, .. })) = (c, s)
            else {
                panic!("levels in another order")
            };
            assert!(opens(&*c.local.packet, &*s.remote.packet) && opens(&*s.local.packet, &*c.remote.packet));
            assert!(!opens(&*c.local.packet, &*c.remote.packet));
        }
    }
}

/// RFC 9368 §2.3, RFC 9369 §4.1, §5: begun in one version and gone on with in the other, tickets included.
#[test]
fn a_handshake_goes_on_in_another_version() {
    for (from, to) in [(Version::V1, Version::V2), (Version::V2, Version::V1)] {
        let (tls, certificate) = server_tls(&["a"]);
        let server = Arc::new(Server::new(Arc::new(tls)).unwrap());
        let memory = Arc::new(TicketMemory::default());
        let client = Client::new(Arc::new(client_tls(&["a"], Some(&certificate)))).unwrap();
        assert!(!client.follows(), "nobody knows where its tickets go");
        let client = Arc::new(client.with_tickets(memory.clone(), b"me"));
        assert!(client.follows());

        let mut near = client.clone().start(from, "localhost", vec![1, 2, 3]).unwrap();
        let choose = move |params: &[u8]| {
            assert_eq!(params, [1, 2, 3]);
            Some((to, vec![6]))
        };
        let mut far = server.clone().start_choosing(from, vec![4, 5], Box::new(choose));
        let mut hello = Vec::new();
        assert!(near.write(&mut hello).is_none());
        for piece in hello.chunks(100) {
            assert_eq!(far.chosen_version(), None, "not before all is there");
            assert!(far.is_handshaking() && far.write(&mut Vec::new()).is_none());
            far.read(piece).unwrap();
        }
        assert_eq!(far.chosen_version(), Some(to));
        assert!(near.follow(to));
        let mut pair = (near, far);
        let [mut c, mut s] = shake(&mut pair).unwrap();
        assert!(!pair.0.is_handshaking() && !pair.1.is_handshaking());
        assert_eq!((pair.0.peer_params(), pair.1.peer_params()), (Some(&[6][..]), Some(&[1, 2, 3][..])));
        assert_eq!((c.len(), s.len()), (2, 2));
        let ((ours, mut c_next), (theirs, mut s_next)) = (one_rtt(c.pop()), one_rtt(s.pop()));
        let (Some(KeyChange::Handshake(c)), Some(KeyChange::Handshake(s))) = (c.pop(), s.pop()) else {
            panic!("levels in another order")
        };
        for (near, far) in [(&c, &s), (&ours, &theirs)] {
            for (by, at) in [(&near.local, &far.remote), (&far.local, &near.remote)] {
                let packet = seal(&*by.packet, &*by.header, 654_360_564, "4200bff4", &[1]);
                let opened = open(&*at.packet, &*at.header, 654_360_564, 1, &packet);
                assert_eq!(opened, Some((hex("4200bff4"), vec![1])), "{from} to {to}");
            }
            assert_eq!(near.local.packet.integrity_limit(), far.local.packet.integrity_limit());
            assert_eq!(near.local.packet.confidentiality_limit(), far.local.packet.confidentiality_limit());
        }
        for generation in 1..4 {
            let (c, s) = (c_next.next(), s_next.next());
            assert!(opens(&*c.local, &*s.remote) && opens(&*s.local, &*c.remote), "generation {generation}");
        }

        let key = |version| TicketKey {
            server: "localhost".into(),
            version,
            alpn: vec![b"a".to_vec()],
            verifier: b"me".to_vec(),
        };
        assert!(memory.take(&key(from)).is_none(), "a ticket of a version that the connection was not of");
        // The next one begins where this one went, and stays there: it has a ticket.
        let near = client.start(to, "localhost", vec![1, 2, 3]).unwrap();
        let far = server.start_choosing(to, vec![4, 5], Box::new(|_| panic!("a hello with a ticket")));
        assert!(memory.take(&key(to)).is_some(), "two were given, one is used");
        let mut pair = (near, far);
        shake(&mut pair).unwrap();
        assert_eq!((pair.1.chosen_version(), pair.1.is_handshaking()), (None, false));
    }
}

/// RFC 9000 §7.4.1: one server gave the ticket, and another one, which keeps its sessions in the same store,
/// announces less.
#[test]
fn early_data_is_under_the_limits_of_who_gave_the_ticket() {
    let (mut tls, certificate) = server_tls(&["a"]);
    tls.max_early_data_size = u32::MAX;
    tls.session_storage = ServerSessionMemoryCache::new(100);
    let tls = Arc::new(tls);
    let mut client = client_tls(&["a"], Some(&certificate));
    client.enable_early_data = true;
    let client =
        Client::new(Arc::new(client)).unwrap().with_tickets(Arc::new(TicketMemory::default()), b"me");
    let client = Arc::new(client);
    // RFC 9000 §18.2: initial_max_data alone.
    for (limit, fate) in [
        (50, EarlyFate::Rejected),
        (50, EarlyFate::Accepted),
        (10, EarlyFate::Rejected),
        (10, EarlyFate::Accepted),
        (30, EarlyFate::Accepted),
        (29, EarlyFate::Rejected),
    ] {
        // A ticket is used in the order of the newest, so that each is of the connection before.
        let server = Arc::new(Server::new(tls.clone()).unwrap());
        let near = client.clone().start(Version::V1, "localhost", vec![4, 1, 63]).unwrap();
        let mut pair = (near, server.start(Version::V1, vec![4, 1, limit]));
        shake(&mut pair).unwrap();
        assert!(!pair.0.is_handshaking() && !pair.1.is_handshaking());
        assert_eq!(pair.0.early_fate(), fate, "{limit} bytes are announced");
    }
}

/// What is no hello goes to TLS as it is, which says what is wrong with it.
#[test]
fn noise_before_a_choice_is_an_error_of_tls() {
    let (tls, _) = server_tls(&["a"]);
    let server = Arc::new(Server::new(Arc::new(tls)).unwrap());
    for noise in [&[2, 0, 0, 1, 0][..], &[1, 0xff, 0xff, 0xff], &[1, 0, 0, 2, 9, 9]] {
        let mut far =
            server.clone().start_choosing(Version::V1, Vec::new(), Box::new(|_| panic!("no parameters")));
        far.refuse_early();
        let read = far.read(noise);
        assert!(read.is_err() || far.write(&mut Vec::new()).is_none(), "{noise:?}");
        assert!(far.is_handshaking());
    }
}

/// RFC 9001 §6.
#[test]
fn generations_agree() {
    let (_, [mut c, mut s], _) = connected(Version::V1);
    let ((keys, mut c), (_, mut s)) = (one_rtt(c.pop()), one_rtt(s.pop()));
    let mut old = keys.local.packet;
    for generation in 1..5 {
        let (c, s) = (c.next(), s.next());
        assert!(opens(&*c.local, &*s.remote) && opens(&*s.local, &*c.remote), "generation {generation}");
        assert!(!opens(&*old, &*s.remote), "generation {generation}");
        old = c.local;
    }
}

/// A session that rests tells what it told, exports what it exported (RFC 8446 §7.5, held against TLS
/// itself), and has no TLS any more: a client's only once it was given a ticket.
#[test]
fn who_rests_exports_as_before_and_hears_tickets_only() {
    let suites = default_provider().cipher_suites.into_iter().filter(|suite| suite.tls13().is_some());
    for suite in suites {
        let provider = CryptoProvider { cipher_suites: vec![suite], ..default_provider() };
        let (server, certificate) = server_of(provider, &["b"]);
        let mut pair = pair(client_tls(&["b"], Some(&certificate)), server, Version::V1);
        shake(&mut pair).unwrap();
        let (mut client, mut server) = pair;
        for session in [&mut client, &mut server] {
            let exported = |session: &dyn CryptoSession, out: &mut [u8]| {
                [(&b"label"[..], &b"context"[..]), (b"label", b""), (b"", b"context")]
                    .map(|(label, context)| session.export(label, context, out).then(|| out.to_vec()))
            };
            let (identity, alpn) = (session.peer_identity().is_some(), session.alpn().map(<[u8]>::to_vec));
            for len in [0, 1, 32, 48, 100, 255 * 32, 255 * 48 + 1] {
                let mut fresh = vec![0; len];
                let before = exported(&**session, &mut fresh);
                session.rest();
                session.rest();
                assert_eq!(exported(&**session, &mut fresh), before, "{suite:?} {len}");
            }
            assert_eq!(
                (session.peer_identity().is_some(), session.alpn().map(<[u8]>::to_vec)),
                (identity, alpn)
            );
            assert!(!session.is_handshaking() && session.write(&mut Vec::new()).is_none());
        }
        // unexpected_message, RFC 9001 §6: a KeyUpdate; and a client has nothing to say at all.
        let update = [24, 0, 0, 1, 0];
        for session in [&mut client, &mut server] {
            assert_eq!(session.read(&update).unwrap_err().code.0, 0x100 + 10, "{suite:?}");
        }
        assert!(server.read(&[4]).is_err());
    }
}

/// What a connection proved and agreed on is told when it is over; its secrets are gone.
#[test]
fn what_is_over_has_a_name_and_no_secrets() {
    let ((mut client, mut server), _, certificate) = connected(Version::V1);
    for session in [&mut client, &mut server] {
        assert!(session.export(b"label", b"", &mut [0; 32]));
        session.end();
        session.end();
        assert!(!session.export(b"label", b"", &mut [0; 32]));
        assert_eq!(session.alpn(), Some(&b"b"[..]));
        assert!(session.write(&mut Vec::new()).is_none() && session.read(b"noise").is_ok());
    }
    let chain = client.peer_identity().unwrap().downcast::<PeerCertificates>().unwrap();
    assert_eq!(*chain, [certificate]);
    assert_eq!(server.server_name(), Some("localhost"));
}

#[test]
fn nothing_is_exported_too_early() {
    let (server, certificate) = server_tls(&["a"]);
    let (client, server) = pair(client_tls(&["a"], Some(&certificate)), server, Version::V1);
    let mut out = [0; 8];
    assert!(!client.export(b"label", b"", &mut out) && !server.export(b"label", b"", &mut out));
    assert!(client.peer_params().is_none() && client.peer_identity().is_none() && client.alpn().is_none());
    assert!(client.is_handshaking() && server.is_handshaking());
}

/// RFC 9001 §4.8, §8.1.
#[test]
fn failures_have_the_codes_of_tls() {
    let (server, certificate) = server_tls(&["a"]);
    let mut strangers = pair(client_tls(&["b"], Some(&certificate)), server, Version::V1);
    assert_eq!(shake(&mut strangers).err().unwrap().code.0, 0x178, "RFC 9001 §8.1: no_application_protocol");

    let (server, _) = server_tls(&["a"]);
    let (_, other) = server_tls(&["a"]);
    let mut distrusted = pair(client_tls(&["a"], Some(&other)), server, Version::V1);
    let alert = shake(&mut distrusted).err().unwrap().code.alert();
    // RFC 8446 §6.2: bad_certificate, unknown_ca, or decrypt_error for a name that two issuers share.
    assert!(matches!(alert, Some(42 | 48 | 51)), "{alert:?}");

    let (server, _) = server_tls(&["a"]);
    let mut server = Arc::new(Server::new(Arc::new(server)).unwrap()).start(Version::V1, Vec::new());
    // RFC 8446 §4: a Finished out of turn.
    assert_eq!(server.read(&[20, 0, 0, 1, 0]).err().unwrap().code.0, 0x10a);
}

/// RFC 9001 §8.2.
#[test]
fn transport_parameters_are_required() {
    let (server, certificate) = server_tls(&["a"]);
    let mut server = Arc::new(Server::new(Arc::new(server)).unwrap()).start(Version::V1, Vec::new());
    // A client of TLS over TCP: the hello without its record header.
    let tls = Arc::new(client_tls(&["a"], Some(&certificate)));
    let mut client = rustls::ClientConnection::new(tls, "localhost".try_into().unwrap()).unwrap();
    let mut records = Vec::new();
    client.write_tls(&mut records as &mut dyn io::Write).unwrap();
    let refused = server.read(&records[5..]).err().unwrap();
    assert_eq!(refused.code.0, 0x16d, "RFC 9001 §8.2: missing_extension");
}

/// RFC 9001 §4.2.
#[test]
fn unfit_configurations_are_found_at_once() {
    let client = client_tls(&[], None);
    assert_eq!(Client::new(Arc::new(client)).err(), Some(TlsConfigError::NoApplicationProtocol));
    let (server, _) = server_tls(&[]);
    assert_eq!(Server::new(Arc::new(server)).err(), Some(TlsConfigError::NoApplicationProtocol));
    let (mut server, _) = server_tls(&["a"]);
    server.max_early_data_size = u32::MAX;
    assert_eq!(Server::new(Arc::new(server.clone())).err(), None);
    server.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
    assert_eq!(Server::new(Arc::new(server.clone())).err(), Some(TlsConfigError::EarlyTickets));
    server.max_early_data_size = 1;
    assert!(Server::new(Arc::new(server)).is_err(), "RFC 9001 §4.6.1");
    let mut client = client_tls(&["a", "b"], None);
    client.enable_early_data = true;
    assert_eq!(Client::new(Arc::new(client)).err(), Some(TlsConfigError::EarlyProtocols));

    let client = Arc::new(Client::new(Arc::new(client_tls(&["a"], None))).unwrap());
    assert!(client.clone().start(Version::V1, "not a name", Vec::new()).is_err());
    assert!(client.clone().start(Version(5), "localhost", Vec::new()).is_err());
    assert!(client.start(Version::V1, "192.0.2.1", Vec::new()).is_ok());
}

#[test]
fn noise_is_an_error_and_no_panic() {
    let (tls, certificate) = server_tls(&["a"]);
    let server = Arc::new(Server::new(Arc::new(tls)).unwrap());
    let client = Arc::new(Client::new(Arc::new(client_tls(&["a"], Some(&certificate)))).unwrap());
    let mut hello = Vec::new();
    client.start(Version::V1, "localhost", vec![1]).unwrap().write(&mut hello);
    for at in 0..hello.len() {
        let mut altered = hello.clone();
        altered[at] ^= 0x81;
        let mut session = server.clone().start(Version::V1, Vec::new());
        // Some changes are to random bytes and do no harm to a hello.
        if let Err(error) = session.read(&altered) {
            assert!(error.code.is_crypto(), "byte {at}: {error}");
        }
        session.write(&mut Vec::new());
    }
}

/// RFC 9000 §10.3.2.
#[test]
fn endpoint_secrets_bind_tokens() {
    let (one, other) = (EndpointSecrets::new(&[1; 32]), EndpointSecrets::new(&[2; 32]));
    let again = EndpointSecrets::new(&[1; 32]);
    assert_eq!(one.reset_token(&id("01")), again.reset_token(&id("01")), "also after a restart");
    assert_ne!(one.reset_token(&id("01")), one.reset_token(&id("02")));
    assert_ne!(one.reset_token(&id("01")), other.reset_token(&id("01")));

    let token = one.seal_token([3; 12], b"where and when");
    assert_eq!(token.len(), 12 + 14 + 16);
    assert!(!token.windows(5).any(|w| w == b"where"), "it is no business of anybody");
    assert_eq!(again.open_token(&token).as_deref(), Some(&b"where and when"[..]));
    assert_eq!(other.open_token(&token), None);
    assert_ne!(one.seal_token([4; 12], b"where and when")[12..], token[12..]);
    for at in 0..token.len() {
        let mut altered = token.clone();
        altered[at] ^= 1;
        assert_eq!(one.open_token(&altered), None, "byte {at}");
    }
    for len in 0..token.len() {
        assert_eq!(one.open_token(&token[..len]), None, "{len} bytes");
    }
    assert_eq!(format!("{one:?}"), "EndpointSecrets(..)");

    let keyed = EndpointSecrets::new(&[2; 32]).with_reset_key(&[1; 32]);
    let reborn = EndpointSecrets::new(&[3; 32]).with_reset_key(&[1; 32]);
    assert_eq!(keyed.reset_token(&id("01")), reborn.reset_token(&id("01")));
    assert_ne!(keyed.reset_token(&id("01")), other.reset_token(&id("01")));
    assert_eq!(other.open_token(&keyed.seal_token([3; 12], b"a")).as_deref(), Some(&b"a"[..]));
    assert_eq!(one.open_token(&keyed.seal_token([3; 12], b"a")), None);
}
