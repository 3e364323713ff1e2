//! rustls' keys in the shape that `quic` wants.

use std::cell::OnceCell;

use quickset_quic::{
    ConnectionId, HeaderKey, KeyChange, Keys, NextKeys, PacketKey, PacketKeys, Sealing, Side, Version,
};
use rustls::quic;

use crate::provider::cipher_suite::TLS13_AES_128_GCM_SHA256;

/// Seals and opens with a key of rustls.
pub(crate) struct RustlsPacket(pub(crate) Box<dyn quic::PacketKey>);

impl PacketKey for RustlsPacket {
    #[inline]
    fn seal(&self, pn: u64, header: &[u8], payload: &mut [u8]) {
        let plain = payload.len().checked_sub(self.0.tag_len()).expect("the payload has room for the tag");
        let (plain, room) = payload.split_at_mut(plain);
        let tag =
            self.0.encrypt_in_place(pn, header, plain).expect("a packet is far shorter than any AEAD allows");
        room.copy_from_slice(tag.as_ref());
    }

    #[inline]
    fn open(&self, pn: u64, header: &[u8], payload: &mut [u8]) -> Option<usize> {
        self.0.decrypt_in_place(pn, header, payload).ok().map(<[u8]>::len)
    }

    fn tag_len(&self) -> usize {
        self.0.tag_len()
    }

    fn confidentiality_limit(&self) -> u64 {
        self.0.confidentiality_limit()
    }

    fn integrity_limit(&self) -> u64 {
        self.0.integrity_limit()
    }
}

/// Masks headers with a key of rustls.
pub(crate) struct RustlsHeader(pub(crate) Box<dyn quic::HeaderProtectionKey>);

impl HeaderKey for RustlsHeader {
    #[inline]
    fn protect(&self, sample: &[u8], first: &mut u8, pn: &mut [u8]) {
        self.0.encrypt_in_place(sample, first, pn).expect("the sample and the number have the sizes of QUIC");
    }

    #[inline]
    fn unprotect(&self, sample: &[u8], first: &mut u8, pn: &mut [u8]) {
        self.0.decrypt_in_place(sample, first, pn).expect("the sample and the number have the sizes of QUIC");
    }

    fn sample_len(&self) -> usize {
        self.0.sample_len()
    }
}

/// Later generations, from rustls' secrets.
struct NextSecrets(quic::Secrets);

impl NextKeys for NextSecrets {
    fn next(&mut self) -> PacketKeys {
        let before = self.0.clone();
        let quic::PacketKeySet { local, remote } = self.0.next_packet_keys();
        PacketKeys {
            local: Box::new(LaterPacket {
                made: OnceCell::new(),
                tag_len: local.tag_len(),
                limits: [local.confidentiality_limit(), local.integrity_limit()],
                before,
            }),
            remote: Box::new(RustlsPacket(remote)),
        }
    }
}

/// Seals with the key of a generation that has not begun yet: it is made when the first packet is sealed, and
/// most connections end before that. (Not so the key that opens: how long a forged packet takes must not tell
/// its key phase, RFC 9001 §9.5. When a generation is asked for is the protocol's matter.)
struct LaterPacket {
    made: OnceCell<RustlsPacket>,
    tag_len: usize,
    limits: [u64; 2],
    /// Those of the generation before.
    before: quic::Secrets,
}

impl LaterPacket {
    #[inline]
    fn key(&self) -> &RustlsPacket {
        self.made.get_or_init(|| RustlsPacket(self.before.clone().next_packet_keys().local))
    }
}

impl PacketKey for LaterPacket {
    #[inline]
    fn seal(&self, pn: u64, header: &[u8], payload: &mut [u8]) {
        self.key().seal(pn, header, payload);
    }

    #[inline]
    fn open(&self, pn: u64, header: &[u8], payload: &mut [u8]) -> Option<usize> {
        self.key().open(pn, header, payload)
    }

    fn tag_len(&self) -> usize {
        self.tag_len
    }

    fn confidentiality_limit(&self) -> u64 {
        self.limits[0]
    }

    fn integrity_limit(&self) -> u64 {
        self.limits[1]
    }
}

/// The version as rustls knows it.
pub(crate) const fn version(version: Version) -> Option<quic::Version> {
    match version {
        Version::V1 => Some(quic::Version::V1),
        Version::V2 => Some(quic::Version::V2),
        _ => None,
    }
}

/// RFC 9001 §5.2: Initial packets are always sealed with AES-128-GCM, whatever suites are configured.
pub(crate) fn initial(for_version: Version, dcid: &ConnectionId, side: Side) -> Option<Keys> {
    let suite = TLS13_AES_128_GCM_SHA256.tls13()?.quic_suite()?;
    let side = match side {
        Side::Client => rustls::Side::Client,
        Side::Server => rustls::Side::Server,
    };
    Some(keys(suite.keys(dcid, side, version(for_version)?)))
}

pub(crate) fn change(change: quic::KeyChange) -> KeyChange {
    match change {
        quic::KeyChange::Handshake { keys: new } => KeyChange::Handshake(keys(new)),
        quic::KeyChange::OneRtt { keys: new, next } => {
            KeyChange::OneRtt { keys: keys(new), next: Box::new(NextSecrets(next)) }
        }
    }
}

fn keys(keys: quic::Keys) -> Keys {
    Keys { local: sealing(keys.local), remote: sealing(keys.remote) }
}

pub(crate) fn sealing(keys: quic::DirectionalKeys) -> Sealing {
    Sealing { header: Box::new(RustlsHeader(keys.header)), packet: Box::new(RustlsPacket(keys.packet)) }
}
