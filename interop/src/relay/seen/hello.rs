//! The cipher suite that a server chose, from its first Initial packet: the keys of these are no secret
//! (RFC 9001 §5.2).

use rustls::Side;
use rustls::quic::{Keys, Version};

use super::{Head, Kind, V2};
use crate::tls;

/// What is known of the Initial packets of one client.
#[derive(Clone, Debug, Default)]
pub(super) struct Initials {
    /// The version of a client's last first packet, the id that it chose for the server, and its own.
    chosen: Option<(u32, Vec<u8>, Vec<u8>)>,
}

impl Initials {
    /// A client's Initial packet: that of another connection, or the first behind a Retry, brings other keys.
    pub(super) fn asked(&mut self, datagram: &[u8], head: &Head<'_>) {
        let another = self.chosen.as_ref().is_none_or(|(_, _, own)| own != head.source);
        // A server's answer changes the id that the client sends to, but not the keys: the client's own packet does not
        // open with the id in it then.
        if another || opened(datagram, head, (head.version, head.destination), Side::Server).is_some() {
            self.chosen = Some((head.version, head.destination.to_vec(), head.source.to_vec()));
        }
    }

    /// The suite of a ServerHello that begins in this datagram of the server.
    pub(super) fn answered(&self, datagram: &[u8]) -> Option<u16> {
        let head = Head::of(datagram).filter(|head| head.kind == Kind::Initial)?;
        let (_, id, _) = self.chosen.as_ref()?;
        suite(&opened(datagram, &head, (head.version, id), Side::Client)?)
    }
}

/// The frames of the Initial packet in front of a datagram, as this side reads them.
fn opened(datagram: &[u8], head: &Head<'_>, (version, id): (u32, &[u8]), side: Side) -> Option<Vec<u8>> {
    let version = if version == V2 { Version::V2 } else { Version::V1 };
    let suite = tls::initial_suite().ok()?;
    let keys = Keys::initial(version, suite.suite, suite.quic, id, side).remote;
    let start = datagram.len() - head.rest.len();
    let mut packet = datagram.get(..start + head.len)?.to_vec();
    // RFC 9001 §5.4.2: the sample is where the payload would begin behind a number of four bytes.
    let sample = packet.get(start + 4..start + 4 + keys.header.sample_len())?.to_vec();
    let (first, rest) = packet.split_first_mut()?;
    keys.header.decrypt_in_place(&sample, first, rest.get_mut(start - 1..start + 3)?).ok()?;
    let len = usize::from(*first & 3) + 1;
    let number = packet[start..start + len].iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
    let (header, payload) = packet.split_at_mut(start + len);
    keys.packet.decrypt_in_place(number, header, payload).ok().map(<[u8]>::to_vec)
}

/// RFC 9000 §19, of the frames that Initial packets may hold; RFC 8446 §4.1.3.
fn suite(mut frames: &[u8]) -> Option<u16> {
    loop {
        let (kind, rest) = frames.split_first()?;
        frames = match kind {
            // PADDING and PING.
            0 | 1 => rest,
            // ACK, and with counts of marks.
            2 | 3 => {
                let (_, rest) = super::varint(rest)?;
                let (_, rest) = super::varint(rest)?;
                let (ranges, mut rest) = super::varint(rest)?;
                for _ in 0..1 + 2 * ranges + if *kind == 3 { 3 } else { 0 } {
                    rest = super::varint(rest)?.1;
                }
                rest
            }
            6 => {
                let (offset, rest) = super::varint(rest)?;
                let (len, rest) = super::varint(rest)?;
                let (hello, rest) = rest.split_at_checked(len)?;
                if offset == 0 && hello.first() == Some(&2) {
                    // Type, length, version and random; then the session's id.
                    let at = 4 + 2 + 32;
                    let at = at + 1 + usize::from(*hello.get(at)?);
                    return Some(u16::from_be_bytes(*hello.get(at..)?.first_chunk()?));
                }
                rest
            }
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::Seen;

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
        let text =
            |two: &[u8]| u8::from_str_radix(std::str::from_utf8(two).expect("digits"), 16).expect("digits");
        digits.chunks(2).map(text).collect()
    }

    #[test]
    fn the_server_of_the_appendix_chose_aes_128() {
        // RFC 9001 §A.3: to a client without an id, whose packet had the id of §A.1 for the server.
        let answer = bytes(
            "cf000000010008f067a5502a4262b5004075c0d95a482cd0991cd25b0aac406a5816b6394100f37a1c69797554780bb38cc5a99f
             5ede4cf73c3ec2493a1839b3dbcba3f6ea46c5b7684df3548e7ddeb9c3bf9c73cc3f3bded74b562bfb19fb84022f8ef4cdd93795
             d77d06edbb7aaf2f58891850abbdca3d20398c276456cbc42158407dd074ee",
        );
        let mut asked = bytes("c300000001088394c8f03e5157080000449e");
        asked.extend([0; 1182]);
        let mut seen = Seen::default();
        seen.answer(&answer);
        assert_eq!(seen.suite, None, "nobody had asked");
        seen.begin(&asked);
        seen.answer(&answer);
        assert_eq!(seen.suite, Some(0x1301));
        let mut damaged = Seen::default();
        damaged.begin(&asked);
        damaged.answer(&[&answer[..60], &[0], &answer[61..]].concat());
        assert_eq!(damaged.suite, None);
    }
}
