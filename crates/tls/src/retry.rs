use quickset_quic::{ConnectionId, Version};

use crate::provider::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// The Retry Integrity Tag: everybody can compute it, but only who saw the client's first packet
/// (RFC 9001 §5.8).
pub(crate) fn tag(version: Version, original_dcid: &ConnectionId, packet: &[u8]) -> Option<[u8; 16]> {
    let (key, nonce) = match version {
        Version::V1 => (V1_KEY, V1_NONCE),
        Version::V2 => (V2_KEY, V2_NONCE),
        _ => return None,
    };
    let key = LessSafeKey::new(UnboundKey::new(&AES_128_GCM, &key).ok()?);
    // RFC 9001 §5.8: the Retry Pseudo-Packet.
    let mut pseudo = Vec::with_capacity(1 + original_dcid.len() + packet.len());
    pseudo.push(original_dcid.len_byte());
    pseudo.extend_from_slice(original_dcid);
    pseudo.extend_from_slice(packet);
    let nonce = Nonce::assume_unique_for_key(nonce);
    let tag = key.seal_in_place_separate_tag(nonce, Aad::from(pseudo), &mut []).ok()?;
    tag.as_ref().try_into().ok()
}

// RFC 9001 §5.8.
const V1_KEY: [u8; 16] =
    [0xbe, 0x0c, 0x69, 0x0b, 0x9f, 0x66, 0x57, 0x5a, 0x1d, 0x76, 0x6b, 0x54, 0xe3, 0x68, 0xc8, 0x4e];
const V1_NONCE: [u8; 12] = [0x46, 0x15, 0x99, 0xd3, 0x5d, 0x63, 0x2b, 0xf2, 0x23, 0x98, 0x25, 0xbb];

// RFC 9369 §3.3.3.
const V2_KEY: [u8; 16] =
    [0x8f, 0xb4, 0xb0, 0x1b, 0x56, 0xac, 0x48, 0xe2, 0x60, 0xfb, 0xcb, 0xce, 0xad, 0x7c, 0xcc, 0x92];
const V2_NONCE: [u8; 12] = [0xd8, 0x69, 0x69, 0xbc, 0x2d, 0x7c, 0x6d, 0x99, 0x90, 0xef, 0xb0, 0x4a];
