use std::sync::Arc;

use quickset_wire::{ConnectionId, Side, TransportErrorCode, Version};

use super::seal::initial_keys;
use super::session::{CLIENT_HELLO, SERVER_HELLO};
use super::{NullClient, NullSecrets, NullServer};
use crate::TransportError;
use crate::keys::{ClientCrypto, CryptoSession, EndpointCrypto, KeyChange, PacketKey, ServerCrypto};

/// Carries handshake bytes until nobody has more to say, and returns the keys of both sides as they came.
fn shake(
    client: &mut dyn CryptoSession,
    server: &mut dyn CryptoSession,
) -> Result<[Vec<KeyChange>; 2], TransportError> {
    let mut keys = [Vec::new(), Vec::new()];
    for turn in 0..8 {
        let (from, to): (&mut dyn CryptoSession, &mut dyn CryptoSession) =
            if turn % 2 == 0 { (client, server) } else { (server, client) };
        // One level at a time: the receiver must have taken its keys before it reads on.
        let mut bytes = Vec::new();
        keys[turn % 2].extend(from.write(&mut bytes));
        // Chunks as CRYPTO frames would cut them.
        for chunk in bytes.chunks(77) {
            to.read(chunk)?;
        }
    }
    Ok(keys)
}

fn pair(client: &[&[u8]], server: &[&[u8]]) -> (Box<dyn CryptoSession>, Box<dyn CryptoSession>) {
    let client = Arc::new(NullClient::new(client)).start(Version::V1, "here", vec![1; 60]).unwrap();
    (client, Arc::new(NullServer::new(server)).start(Version::V1, vec![2; 90]))
}

fn opens(from: &dyn PacketKey, to: &dyn PacketKey) -> bool {
    let mut packet = *b"eleven bytes tag of sixteen";
    from.seal(7, b"head", &mut packet);
    to.open(7, b"head", &mut packet) == Some(11)
}

#[test]
fn both_sides_agree_on_everything() {
    let (mut client, mut server) = pair(&[b"a", b"b"], &[b"b"]);
    let [c, s] = shake(&mut *client, &mut *server).unwrap();
    assert!(!client.is_handshaking() && !server.is_handshaking());
    assert_eq!((client.alpn(), server.alpn()), (Some(&b"b"[..]), Some(&b"b"[..])));
    assert_eq!((client.peer_params(), server.peer_params()), (Some(&[2; 90][..]), Some(&[1; 60][..])));
    let (mut x, mut y) = ([0; 20], [0; 20]);
    assert!(client.export(b"label", b"", &mut x) && server.export(b"label", b"", &mut y));
    assert_eq!(x, y);
    assert_eq!((c.len(), s.len()), (2, 2));
    for (c, s) in c.iter().zip(&s) {
        match (c, s) {
            (KeyChange::Handshake(c), KeyChange::Handshake(s))
            | (KeyChange::OneRtt { keys: c, .. }, KeyChange::OneRtt { keys: s, .. }) => {
                assert!(opens(&*c.local.packet, &*s.remote.packet));
                assert!(opens(&*s.local.packet, &*c.remote.packet));
                assert!(!opens(&*s.local.packet, &*s.remote.packet), "directions differ");
            }
            _ => panic!("levels in another order"),
        }
    }
}

#[test]
fn generations_agree_and_differ() {
    let (mut client, mut server) = pair(&[], &[]);
    let [mut c, mut s] = shake(&mut *client, &mut *server).unwrap();
    let (Some(KeyChange::OneRtt { keys, next: mut c }), Some(KeyChange::OneRtt { next: mut s, .. })) =
        (c.pop(), s.pop())
    else {
        panic!("1-RTT keys come last")
    };
    let mut old = keys.local.packet;
    for _ in 0..3 {
        let (c, s) = (c.next(), s.next());
        assert!(opens(&*c.local, &*s.remote) && opens(&*s.local, &*c.remote));
        assert!(!opens(&*old, &*s.remote));
        old = c.local;
    }
}

#[test]
fn every_altered_byte_is_seen() {
    let keys = initial_keys(Version::V1, &ConnectionId::EMPTY, Side::Client).unwrap();
    let key = &*keys.local.packet;
    let mut packet: Vec<u8> = (0..100).collect();
    key.seal(3, b"header", &mut packet);
    assert_eq!(key.open(3, b"header", &mut packet), Some(84));
    assert_eq!(key.open(4, b"header", &mut packet), None);
    assert_eq!(key.open(3, b"heade", &mut packet), None);
    for i in 0..packet.len() {
        packet[i] ^= 0x80;
        assert_eq!(key.open(3, b"header", &mut packet), None, "byte {i}");
        packet[i] ^= 0x80;
    }
    assert_eq!(key.open(3, b"header", &mut packet[..15]), None);
}

#[test]
fn header_protection_is_undone() {
    let keys = initial_keys(Version::V1, &ConnectionId::EMPTY, Side::Client).unwrap();
    let sample: Vec<u8> = (50..66).collect();
    for first in [0xc0u8, 0xc3, 0x40, 0x41, 0x42] {
        let len = usize::from(first & 3) + 1;
        let (mut byte, mut pn) = (first, [1, 2, 3, 4]);
        keys.local.header.protect(&sample, &mut byte, &mut pn[..len]);
        assert_eq!(byte & 0xc0, first & 0xc0, "the form stays readable");
        keys.local.header.unprotect(&sample, &mut byte, &mut pn);
        assert_eq!((byte, pn), (first, [1, 2, 3, 4]));
    }
}

#[test]
fn strangers_are_refused_with_the_codes_of_tls() {
    let (mut client, mut server) = pair(&[b"a"], &[b"b"]);
    let refused = shake(&mut *client, &mut *server).err().unwrap();
    assert_eq!(refused.code, TransportErrorCode(0x178), "RFC 9001 §8.1");
    let (_, mut server) = pair(&[], &[]);
    assert_eq!(server.read(&[20, 0, 0]).err().unwrap().code, TransportErrorCode(0x10a));
    let (_, mut server) = pair(&[], &[]);
    assert_eq!(server.read(&[1, 0, 1, 9]).err().unwrap().code, TransportErrorCode(0x132));
}

#[test]
fn an_altered_handshake_fails() {
    let (mut client, mut server) = pair(&[], &[]);
    let mut hello = Vec::new();
    assert!(client.write(&mut hello).is_none());
    assert_eq!(hello.len(), CLIENT_HELLO);
    *hello.last_mut().unwrap() ^= 1;
    server.read(&hello).unwrap();
    let mut answer = Vec::new();
    while server.write(&mut answer).is_some() {}
    let (hello, flight) = answer.split_at(SERVER_HELLO);
    client.read(hello).unwrap();
    assert!(client.write(&mut Vec::new()).is_some());
    assert_eq!(client.read(flight).err().unwrap().code, TransportErrorCode(0x133));
}

#[test]
fn tokens_open_only_unaltered() {
    let secrets = NullSecrets(5);
    let token = secrets.seal_token([3; 12], b"where and when");
    assert_eq!(secrets.open_token(&token).as_deref(), Some(&b"where and when"[..]));
    assert_eq!(NullSecrets(6).open_token(&token), None);
    for i in 0..token.len() {
        let mut token = token.clone();
        token[i] ^= 1;
        assert_eq!(secrets.open_token(&token), None, "byte {i}");
    }
    assert_eq!(secrets.open_token(&token[..27]), None);
}
