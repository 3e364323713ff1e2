//! Frames of extensions that were not agreed on are unknown (RFC 9000 §12.4), whatever they say.

use super::*;

/// Frames as bytes: well-formed, cut short, with every fault that can be seen on them alone, and with a type
/// that is longer than it need be.
fn frames(kinds: &[u64], bodies: &[&[u8]]) -> Vec<Vec<u8>> {
    let types = kinds.iter().flat_map(|&kind| {
        let long = vec![0x80, 0, (kind >> 8) as u8, kind as u8];
        let short = match kind {
            0..=0x3f => vec![kind as u8],
            _ => vec![0x40 | (kind >> 8) as u8, kind as u8],
        };
        [short, long]
    });
    types.flat_map(|of| bodies.iter().map(move |body| [&of[..], body].concat())).collect()
}

/// FS-7, FEC-8, FEC-61: what is wrong with a frame is told to those who agreed on it; for all others it is a
/// frame of no type.
#[test]
fn frames_of_extensions_are_unknown_without_an_agreement() {
    let fences = frames(
        &[0x3f50, 0x3f52, 0x3f54, 0x3f57, 0x3f58],
        &[&[], &[0], &[0, 0, 0, 1, 7], &[0, 0, 9, 1, 7], &[0, 0, 0, 0], &[0, 0, 0, 9, 7], &[0xff; 40]],
    );
    let repair = frames(
        &[0x3f60, 0x3f61, 0x3f62, 0x3f63, 0x3f64],
        &[
            &[],
            &[4],
            &[4, 0, 0],
            &[4, 0, 0, 0, 0, 1, 7],
            &[4, 0, 1, 0, 0, 0],
            &[4, 0, 1, 0, 0, 1, 7],
            &[4, 9, 40, 9, 0, 0],
            &[0xff; 48],
        ],
    );
    let requests = frames(&[0x1f, 0xaf], &[&[], &[1], &[1, 2, 3, 4], &[0xff; 40]]);
    let usual = || TransportConfig::fixed_mtu(1200);
    let without = [
        (fences, TransportConfig { fenced_streams: None, ..usual() }, Code::FENCE_ERROR),
        (repair, TransportConfig { fec: None, ..usual() }, Code::FEC_ERROR),
    ];
    for (frames, config, code) in without {
        let mut told = 0;
        for bytes in frames {
            for kind in [PacketType::OneRtt, PacketType::Handshake, PacketType::Initial] {
                for [client, server] in [[usual(), config.clone()], [config.clone(), usual()]] {
                    let mut pair = joined_each(client, server);
                    let outcome = pair.inject_raw(kind, bytes.clone());
                    assert_eq!(outcome, Some(Code::FRAME_ENCODING_ERROR), "{kind:?} {bytes:02x?}");
                }
            }
            // Who agreed is told the fault, if there is one.
            told += u64::from(joined().inject_raw(PacketType::OneRtt, bytes) == Some(code));
        }
        assert!(told >= 4, "{code}: {told} times");
    }
    for bytes in requests {
        let config = TransportConfig { min_ack_delay: usual().max_ack_delay, ..usual() };
        let outcome = joined_with(config).inject_raw(PacketType::OneRtt, bytes.clone());
        assert_eq!(outcome, Some(Code::FRAME_ENCODING_ERROR), "{bytes:02x?}");
    }
}

/// RFC 9221 §3: the one extension that says otherwise.
#[test]
fn datagrams_that_were_not_offered_are_a_violation() {
    let config = TransportConfig {
        datagrams: crate::DatagramConfig { max_frame_size: 0, ..Default::default() },
        ..TransportConfig::fixed_mtu(1200)
    };
    for bytes in [vec![0x30], vec![0x30, 1, 2], vec![0x31, 2, 1, 2]] {
        let outcome = joined_with(config.clone()).inject_raw(PacketType::OneRtt, bytes.clone());
        assert_eq!(outcome, Some(Code::PROTOCOL_VIOLATION), "{bytes:02x?}");
    }
}
