//! What is in a datagram of the null session, in words: packets, and the frames in them.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use quickset_wire::frame::{Frame, Frames};
use quickset_wire::header::{Header, Parsed};
use quickset_wire::{PacketType, Version};

/// Reads the packets of one trace.
///
/// The payload of the null session lies in the clear behind the packet number, but the length of that is
/// masked: two bits of the first byte, by the sample and two bits of a key. Of the four that these can be,
/// those are the key's with which all that follows is frames in the most packets to a connection id.
pub(crate) struct Dissector(BTreeMap<Group, u8>);

/// Packets with one key: their connection id and type.
type Group = (Vec<u8>, PacketType);

impl Dissector {
    pub(crate) fn new<'a>(datagrams: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut votes: BTreeMap<Group, [(u32, Reverse<usize>); 4]> = BTreeMap::new();
        for (parsed, packet) in datagrams.flat_map(packets).flatten() {
            let Some(kind) = parsed.header.packet_type() else { continue };
            let votes = votes.entry((parsed.header.dcid().to_vec(), kind)).or_default();
            for ((read, unread), key) in votes.iter_mut().zip(0..) {
                if let Some((pn_len, _)) = frames(&parsed, packet, key) {
                    (*read, unread.0) = (*read + 1, unread.0 + pn_len);
                }
            }
        }
        // Of equals the one with the least in front of the frames: what is left of a frame may look like
        // PADDING.
        let best = |votes: [_; 4]| (0..4u8).max_by_key(|key| votes[usize::from(*key)]).unwrap_or(0);
        Self(votes.into_iter().map(|(group, votes)| (group, best(votes))).collect())
    }

    /// One line.
    pub(crate) fn line(&self, datagram: &[u8]) -> String {
        let words = packets(datagram).map(|found| match found {
            Some((parsed, packet)) => self.packet(&parsed, packet),
            None => "bytes that are no packet".to_owned(),
        });
        words.collect::<Vec<_>>().join("; ")
    }

    fn packet(&self, parsed: &Parsed<'_>, packet: &[u8]) -> String {
        let name = match &parsed.header {
            Header::VersionNegotiation { versions, .. } => {
                return format!("Version Negotiation {:?}", versions.clone().collect::<Vec<_>>());
            }
            Header::Retry { token, .. } => return format!("Retry with a token of {} bytes", token.len()),
            Header::UnknownVersion { version, .. } => return format!("a packet of {version:?}"),
            Header::Initial { version, token, .. } => {
                let token =
                    if token.is_empty() { String::new() } else { format!(" token {} B", token.len()) };
                format!("Initial{}{token}", of(*version))
            }
            Header::ZeroRtt { version, .. } => format!("0-RTT{}", of(*version)),
            Header::Handshake { version, .. } => format!("Handshake{}", of(*version)),
            Header::Short { .. } => "1-RTT".to_owned(),
        };
        let group = parsed.header.packet_type().map(|kind| (parsed.header.dcid().to_vec(), kind));
        let key = group.and_then(|group| self.0.get(&group)).copied().unwrap_or(0);
        match frames(parsed, packet, key) {
            Some((_, frames)) => format!("{name} {}", frames.iter().map(frame).collect::<Vec<_>>().join(" ")),
            None => format!("{name} {} bytes sealed", parsed.end - parsed.pn_offset),
        }
    }
}

/// The packets of a datagram, each from its first byte on; `None` for a rest that is none.
fn packets(datagram: &[u8]) -> impl Iterator<Item = Option<(Parsed<'_>, &[u8])>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let packet = rest;
        let Ok(parsed) = Parsed::parse(packet, CID_LEN) else {
            rest = &[];
            return Some(None);
        };
        rest = &packet[parsed.end.max(1)..];
        Some(Some((parsed, packet)))
    })
}

fn of(version: Version) -> &'static str {
    if version == Version::V2 { " v2" } else { "" }
}

/// The length of the packet number, and what is in the packet, if the two bits of its key are these.
fn frames<'a>(parsed: &Parsed<'_>, packet: &'a [u8], key: u8) -> Option<(usize, Vec<Frame<'a>>)> {
    let sample = parsed.sample(packet)?;
    let pn_len = usize::from((packet[0] ^ sample[0] ^ key) & 3) + 1;
    let payload = packet.get(parsed.pn_offset + pn_len..parsed.end.checked_sub(TAG)?)?;
    let all: Vec<Frame<'a>> = Frames::new(payload).collect::<Result<_, _>>().ok()?;
    let is_likely = |frame: &Frame<'_>| frame.stream().is_none_or(|id| id.index() < 1 << 20);
    (!all.is_empty() && all.iter().all(is_likely)).then_some((pn_len, all))
}

fn frame(frame: &Frame<'_>) -> String {
    match *frame {
        Frame::Padding(len) => format!("PADDING*{len}"),
        Frame::Ping => "PING".to_owned(),
        Frame::Ack(ref ack) => {
            let ranges: Vec<_> = ack.ranges().map(|r| format!("{}-{}", r.start(), r.end())).collect();
            let ecn = ack.ecn.map(|ecn| format!(" {ecn:?}")).unwrap_or_default();
            format!("ACK({} delay {}{ecn})", ranges.join(","), ack.delay)
        }
        Frame::Crypto { offset, data } => format!("CRYPTO({offset}+{})", data.len()),
        Frame::Stream { id, offset, fin, data } => {
            format!("STREAM({} {offset}+{}{})", id.0, data.len(), if fin { " fin" } else { "" })
        }
        Frame::Fenced { id, offset, distance, fin, data, .. } => {
            let fin = if fin { " fin" } else { "" };
            format!("FENCED({} {offset}+{} fence -{distance}{fin})", id.0, data.len())
        }
        Frame::Datagram { data, .. } => format!("DATAGRAM({})", data.len()),
        Frame::SourceSymbol { session, sid, data } => {
            let inside: Result<Vec<_>, _> = Frames::new(data).collect();
            let inside = inside.map_or_else(
                |_| format!("{} B", data.len()),
                |all| all.iter().map(self::frame).collect::<Vec<_>>().join(" "),
            );
            format!("SOURCE_SYMBOL({session} #{sid}: {inside})")
        }
        Frame::Repair { session, first, count, index, data, .. } => {
            format!("REPAIR({session} #{first}+{count} index {index}, {} B)", data.len())
        }
        Frame::NewToken { token } => format!("NEW_TOKEN({})", token.len()),
        Frame::ConnectionClose { code, frame_type, reason } => {
            format!("CONNECTION_CLOSE({code:?} frame {frame_type:#x} {:?})", String::from_utf8_lossy(reason))
        }
        Frame::ApplicationClose { code, reason } => {
            format!("APPLICATION_CLOSE({code} {:?})", String::from_utf8_lossy(reason))
        }
        // Few and short: as the library prints them.
        ref other => format!("{other:?}"),
    }
}

/// Of the connection ids that endpoints here issue.
const CID_LEN: usize = 8;
/// What stands behind a packet in the place of the AEAD's tag.
const TAG: usize = 16;

#[test]
fn packets_are_told_by_their_frames() {
    let cid = [7; CID_LEN];
    // RFC 9000 §17.3.1, RFC 9001 §5.4.2: a short header and a packet number of two bytes, masked by two bits
    // of a key, 2, and of the sample, which begins with the third byte of the frames. PING is RFC 9000 §19.2,
    // and STREAM with a length and an end §19.8.
    let packet = |frames: &[u8]| {
        let first = 0x40 | (1 ^ 2 ^ frames[2] & 3);
        [&[first][..], &cid, &[0xaa, 0xbb], frames, &[0; TAG]].concat()
    };
    let all = [packet(&[0x01, 0x0b, 0x04, 0x02, b'h', b'i']), packet(&[0x0b, 0x08, 0x01, b'x'])];
    let dissector = Dissector::new(all.iter().map(Vec::as_slice));
    assert_eq!(dissector.line(&all[1]), "1-RTT STREAM(8 0+1 fin)");
    assert_eq!(dissector.line(&[0xc0, 0, 0]), "bytes that are no packet");
}
