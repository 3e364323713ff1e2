//! A datagram: its packets end, and each header that is read comes back from its own encoding.
//! The first byte of the input is the length of our connection ids, the next five are the mask.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quickset_wire::header::{
    Header, LongHeader, Parsed, ShortHeader, long_header, patch_length, protect, retry, short_header,
    unprotect,
};
use quickset_wire::{PacketType, Writer};

fuzz_target!(|input: &[u8]| {
    let Some((control, datagram)) = input.split_first_chunk::<6>() else { return };
    let [cid_len, mask @ ..] = *control;
    let cid_len = cid_len as usize % 21;
    let mut rest = datagram;
    while let Ok(parsed) = Parsed::parse(rest, cid_len) {
        assert!(0 < parsed.pn_offset && parsed.pn_offset <= parsed.end && parsed.end <= rest.len());
        let (packet, next) = rest.split_at(parsed.end);
        match parsed.sample(rest) {
            Some(_) => opened(&parsed, packet, mask),
            None => closed(&parsed, packet),
        }
        rest = next;
    }
});

/// A packet that can be unprotected: written anew and protected with the same mask, it reads the same.
fn opened(parsed: &Parsed<'_>, packet: &[u8], mask: [u8; 5]) {
    let mut clear = packet.to_vec();
    let open = unprotect(&mut clear, parsed.pn_offset, mask).expect("a packet with a sample");
    let mut twice = clear.clone();
    protect(&mut twice, parsed.pn_offset, mask);
    assert_eq!(twice, packet);

    let payload = &clear[parsed.pn_offset + open.pn_len..];
    // A long header of ours has a Length of two bytes.
    if payload.len() > 16_000 {
        return;
    }
    let pn = open.truncated as u64;
    let mut buffer = vec![0; packet.len() + 64];
    let mut w = Writer::new(&mut buffer);
    let pn_offset = match long(&parsed.header) {
        Some(header) => {
            let at = long_header(&mut w, &header, pn, open.pn_len);
            w.bytes(payload);
            patch_length(&mut w, at, 0);
            at + 2
        }
        None => {
            let Header::Short { dcid } = parsed.header else { panic!("a packet number without a header") };
            short_header(&mut w, &ShortHeader { dcid, spin: false, key_phase: false }, pn, open.pn_len);
            w.bytes(payload);
            1 + dcid.len()
        }
    };
    protect(w.written_mut(), pn_offset, mask);
    let cid_len = parsed.header.dcid().len();
    let again = Parsed::parse(w.written(), cid_len).expect("our own packet");
    assert_eq!(again.header, parsed.header);
    assert_eq!((again.pn_offset, again.end), (pn_offset, w.len()));
    let reopened = unprotect(w.written_mut(), pn_offset, mask).expect("our own packet");
    assert_eq!((reopened.truncated, reopened.pn_len), (open.truncated, open.pn_len));
}

/// A packet without protection, or one too short for it.
fn closed(parsed: &Parsed<'_>, packet: &[u8]) {
    match &parsed.header {
        Header::Retry { version, dcid, scid, token, tag } => {
            let mut buffer = vec![0; packet.len()];
            let mut w = Writer::new(&mut buffer);
            retry(&mut w, *version, dcid, scid, token);
            w.bytes(tag);
            assert_eq!(w.written()[1..], packet[1..]);
            // What is written has the fixed bit.
            let same = if parsed.is_fixed { 0xf0 } else { 0xb0 };
            assert_eq!(w.written()[0] & same, packet[0] & same);
        }
        Header::VersionNegotiation { versions, .. } => {
            assert_eq!(versions.clone().count(), versions.len());
            assert!(versions.len() > 0);
        }
        Header::Initial { .. } | Header::ZeroRtt { .. } | Header::Handshake { .. } => {}
        Header::Short { .. } | Header::UnknownVersion { .. } => assert_eq!(parsed.end, packet.len()),
    }
}

fn long<'a>(header: &Header<'a>) -> Option<LongHeader<'a>> {
    let (ty, version, dcid, scid, token) = match *header {
        Header::Initial { version, dcid, scid, token } => (PacketType::Initial, version, dcid, scid, token),
        Header::ZeroRtt { version, dcid, scid } => (PacketType::ZeroRtt, version, dcid, scid, &[][..]),
        Header::Handshake { version, dcid, scid } => (PacketType::Handshake, version, dcid, scid, &[][..]),
        _ => return None,
    };
    Some(LongHeader { ty, version, dcid, scid, token })
}
