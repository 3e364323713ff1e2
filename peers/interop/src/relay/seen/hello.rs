//! The hellos of client and server, from their Initial packets: the keys of these are no secret
//! (RFC 9001 §5.2).

use std::collections::BTreeMap;
use std::fmt;

use quickset_stacks::tls;
use rustls::Side;
use rustls::quic::{Keys, Version};

use super::{LongHead, PacketKind, V2, varint};

/// What is known of the Initial packets of one client.
#[derive(Clone, Debug, Default)]
pub(super) struct Initials {
    /// The version of a client's last first packet, the id that it chose for the server, and its own.
    chosen: Option<(u32, Vec<u8>, Vec<u8>)>,
    /// What both have said under these keys.
    client: CryptoBytes,
    server: CryptoBytes,
    /// For each datagram that brought a new part of the client's first hello, whether it was lost.
    parts: Vec<bool>,
}

/// What a server chose (RFC 8446 §4.1.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ServerChoice {
    pub(super) suite: Option<u16>,
    /// How keys are exchanged (RFC 8446 §4.2.8).
    pub(super) group: Option<u16>,
    /// It is a HelloRetryRequest (RFC 8446 §4.1.4): the client is to say hello again, with a share of this
    /// group.
    pub(super) again: bool,
}

impl Initials {
    /// A client's Initial packet, which is lost on the road or not: that of another connection, or the first
    /// behind a Retry, brings other keys.
    pub(super) fn asked(&mut self, datagram: &[u8], head: &LongHead<'_>, is_lost: bool) {
        let known = self.chosen.as_ref().filter(|(_, _, own)| own == head.source);
        // A server's answer changes the id that the client sends to, but not the keys: the client's own
        // packet does not open with the id in it then.
        let own_id = opened(datagram, head, (head.version, head.destination), Side::Server);
        if known.is_none() || own_id.is_some() && known.is_some_and(|(_, id, _)| id != head.destination) {
            let chosen = Some((head.version, head.destination.to_vec(), head.source.to_vec()));
            *self = Self { chosen, ..Self::default() };
        }
        let Some((version, id, _)) = &self.chosen else { return };
        let frames = own_id.or_else(|| opened(datagram, head, (*version, id), Side::Server));
        let was_whole = self.client.hello().is_some();
        let is_new = frames.is_some_and(|frames| self.client.take(&frames));
        if is_new && !was_whole {
            self.parts.push(is_lost);
        }
    }

    /// A datagram of the server.
    pub(super) fn answered(&mut self, datagram: &[u8]) {
        let Some(head) = LongHead::of(datagram).filter(|head| head.kind == PacketKind::Initial) else {
            return;
        };
        let Some((_, id, _)) = &self.chosen else { return };
        if let Some(frames) = opened(datagram, &head, (head.version, id), Side::Client) {
            self.server.take(&frames);
        }
    }

    /// For each datagram that brought a new part of the client's first hello, whether it was lost; none
    /// unless all of the hello was seen.
    pub(super) fn parts(&self) -> Option<&[bool]> {
        self.client.hello().map(|_| &self.parts[..])
    }

    /// What the server's hellos say, in their order.
    pub(super) fn choices(&self) -> Vec<ServerChoice> {
        self.server
            .messages()
            .filter_map(|(kind, body)| (kind == SERVER_HELLO).then(|| choice(&body)))
            .collect()
    }
}

/// What CRYPTO frames brought.
#[derive(Clone, Default)]
struct CryptoBytes(BTreeMap<u64, Vec<u8>>);

impl fmt::Debug for CryptoBytes {
    /// Offsets and lengths.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(offset, bytes)| (offset, bytes.len()))).finish()
    }
}

impl CryptoBytes {
    /// Whether the frames of a packet bring something new.
    fn take(&mut self, frames: &[u8]) -> bool {
        let before = self.0.len();
        for (offset, bytes) in crypto(frames) {
            let held = self.0.entry(offset).or_default();
            if bytes.len() > held.len() {
                *held = bytes.to_vec();
            }
        }
        self.0.len() > before
    }

    /// All from the beginning up to the first gap.
    fn prefix(&self) -> Vec<u8> {
        let mut prefix = Vec::new();
        for (offset, bytes) in &self.0 {
            let Some(known) = prefix.len().checked_sub(*offset as usize) else { break };
            prefix.extend_from_slice(bytes.get(known..).unwrap_or_default());
        }
        prefix
    }

    /// RFC 8446 §4: types and bodies; the last may be cut off.
    fn messages(&self) -> impl Iterator<Item = (u8, Vec<u8>)> + use<> {
        let mut rest = self.prefix();
        std::iter::from_fn(move || {
            let [kind, a, b, c, ..] = rest[..] else { return None };
            let end = 4 + u32::from_be_bytes([0, a, b, c]) as usize;
            let after = rest.split_off(end.min(rest.len()));
            Some((kind, std::mem::replace(&mut rest, after).split_off(4)))
        })
    }

    /// The first message, when it is whole.
    fn hello(&self) -> Option<Vec<u8>> {
        let prefix = self.prefix();
        let [_, a, b, c, ..] = prefix[..] else { return None };
        prefix.get(4..4 + u32::from_be_bytes([0, a, b, c]) as usize).map(<[u8]>::to_vec)
    }
}

/// The frames of the Initial packet in front of a datagram, as this side reads them.
fn opened(datagram: &[u8], head: &LongHead<'_>, (version, id): (u32, &[u8]), side: Side) -> Option<Vec<u8>> {
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

/// Offsets and contents of the CRYPTO frames (RFC 9000 §19.6) among those that Initial packets may hold.
fn crypto(mut frames: &[u8]) -> Vec<(u64, &[u8])> {
    let mut all = Vec::new();
    while let Some((rest, found)) = next(frames) {
        frames = rest;
        all.extend(found);
    }
    all
}

/// What is behind the first frame, and what that brings if it is one of CRYPTO.
#[expect(clippy::type_complexity, reason = "said once")]
fn next(frames: &[u8]) -> Option<(&[u8], Option<(u64, &[u8])>)> {
    let (kind, rest) = frames.split_first()?;
    match kind {
        // PADDING and PING.
        0 | 1 => Some((rest, None)),
        // ACK, and with counts of marks.
        2 | 3 => {
            let (_, rest) = varint(rest)?;
            let (_, rest) = varint(rest)?;
            let (ranges, mut rest) = varint(rest)?;
            for _ in 0..1 + 2 * ranges + if *kind == 3 { 3 } else { 0 } {
                rest = varint(rest)?.1;
            }
            Some((rest, None))
        }
        6 => {
            let (offset, rest) = varint(rest)?;
            let (len, rest) = varint(rest)?;
            let (bytes, rest) = rest.split_at_checked(len)?;
            Some((rest, Some((offset as u64, bytes))))
        }
        _ => None,
    }
}

/// What a ServerHello says, as far as it is there.
fn choice(hello: &[u8]) -> ServerChoice {
    let again = hello.get(2..34).is_some_and(|random| random == AGAIN);
    let session = hello.get(34).map_or(0, |len| usize::from(*len));
    let suite = two(hello, 35 + session);
    // A byte of compression and the length of all extensions; then type, length and content of each.
    let (mut at, mut group) = (35 + session + 2 + 1 + 2, None);
    while let (Some(kind), Some(len)) = (two(hello, at), two(hello, at + 2)) {
        if kind == KEY_SHARE {
            group = two(hello, at + 4);
        }
        at += 4 + usize::from(len);
    }
    ServerChoice { suite, group, again }
}

fn two(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// RFC 8446 §4.
const SERVER_HELLO: u8 = 2;
/// RFC 8446 §4.2.
const KEY_SHARE: u16 = 51;
/// RFC 8446 §4.1.3: the random of a HelloRetryRequest.
const AGAIN: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];

#[cfg(test)]
mod tests {
    use quickset_base::Time;
    use quickset_stacks::tls;
    use rustls::Side;
    use rustls::quic::{Keys, Version};

    use super::super::RelaySeen;

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
        let mut seen = RelaySeen::default();
        seen.answer(&answer);
        assert_eq!(seen.suite, None, "nobody had asked");
        seen.begin(Time::ZERO, &asked, false);
        seen.answer(&answer);
        assert_eq!(seen.suite, Some(0x1301));
        let mut damaged = RelaySeen::default();
        damaged.begin(Time::ZERO, &asked, false);
        damaged.answer(&[&answer[..60], &[0], &answer[61..]].concat());
        assert_eq!(damaged.suite, None);
    }

    /// The id that the client chose for the server, and the one behind a Retry.
    const FIRST: [u8; 8] = [1; 8];
    const SECOND: [u8; 8] = [2; 8];

    /// An Initial packet of one CRYPTO frame, under the keys of an id, to another and without a source id
    /// (RFC 9000 §17.2.2).
    fn initial(side: Side, (keys, to): ([u8; 8], &[u8]), number: u8, offset: u16, crypto: &[u8]) -> Vec<u8> {
        let suite = tls::initial_suite().expect("a suite");
        let keys = Keys::initial(Version::V1, suite.suite, suite.quic, &keys, side).local;
        let two = |value: usize| (0x4000 | value as u16).to_be_bytes();
        let mut frames = [&[6][..], &two(offset.into()), &two(crypto.len()), crypto].concat();
        frames.resize(frames.len().max(8), 0);
        let mut packet = [&[0xc0, 0, 0, 0, 1, to.len() as u8][..], to, &[0, 0]].concat();
        packet.extend(two(1 + frames.len() + keys.packet.tag_len()));
        packet.push(number);
        let start = packet.len();
        let tag = keys.packet.encrypt_in_place(number.into(), &packet, &mut frames).expect("it is sealed");
        packet.extend([&frames, tag.as_ref()].concat());
        let sample = packet[start + 3..start + 3 + keys.header.sample_len()].to_vec();
        let (first, rest) = packet.split_first_mut().expect("a byte");
        let numbers = &mut rest[start - 2..start - 1];
        keys.header.encrypt_in_place(&sample, first, numbers).expect("it is masked");
        packet
    }

    /// A message of TLS (RFC 8446 §4).
    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind, 0, (body.len() >> 8) as u8, body.len() as u8][..], body].concat()
    }

    /// RFC 8446 §4.1.3: with AES-128, in a group with this share, behind an extension that says which version
    /// it is.
    fn server_hello(random: &[u8; 32], group: u16, share: &[u8]) -> Vec<u8> {
        let extensions =
            [&[0, 43, 0, 2, 3, 4, 0, 51, 0, share.len() as u8 + 2][..], &group.to_be_bytes(), share].concat();
        let head = [&[3, 3][..], random, &[0, 0x13, 1, 0], &(extensions.len() as u16).to_be_bytes()].concat();
        message(2, &[head, extensions].concat())
    }

    #[test]
    fn a_hello_is_as_many_datagrams_as_it_takes_and_one_behind_a_retry_is_another() {
        let hello = message(1, &[7; 1500]);
        let (front, back) = hello.split_at(1100);
        let mut seen = RelaySeen::default();
        let mut say = |id, number, offset, crypto, is_lost| {
            seen.begin(Time::ZERO, &initial(Side::Client, (id, &id), number, offset, crypto), is_lost);
            seen.hello.iter().map(|lost| if *lost { "-" } else { "+" }).collect::<String>()
        };
        assert_eq!(say(FIRST, 0, 0, front, true), "", "it is not whole");
        assert_eq!(say(FIRST, 1, 1100, back, false), "-+");
        assert_eq!(say(FIRST, 2, 0, front, false), "-+", "it is known");
        assert_eq!(say(SECOND, 3, 1100, back, false), "", "another");
        assert_eq!(say(SECOND, 4, 0, front, false), "++");
    }

    #[test]
    fn the_group_is_that_of_the_last_hello_of_the_server() {
        let mut seen = RelaySeen::default();
        seen.begin(Time::ZERO, &initial(Side::Client, (FIRST, &FIRST), 0, 0, &message(1, &[7; 200])), false);
        let again = server_hello(&super::AGAIN, 0x18, &[]);
        let hello = server_hello(&[9; 32], 0x11ec, &[5; 200]);
        let mut answer = |number, offset: usize, crypto: &[u8]| {
            seen.answer(&initial(Side::Server, (FIRST, &[]), number, offset as u16, crypto));
            (seen.asked_again, seen.group, seen.suite)
        };
        assert_eq!(answer(0, 0, &again), (true, Some(0x18), Some(0x1301)));
        // The end of it is in another packet, and not needed.
        assert_eq!(answer(1, again.len(), &hello[..70]), (true, Some(0x11ec), Some(0x1301)));
    }
}
