//! What a relay reads off the packets that go by: the plain parts of their headers (RFC 9000 §17,
//! RFC 9369 §3.2). An independent reader, since it judges ours.

use std::collections::BTreeSet;
use std::time::Duration;

use quickset_base::{Ecn, Time};

mod hello;

use self::hello::Initials;

/// What the relay saw go by.
#[derive(Clone, Debug, Default)]
pub(crate) struct RelaySeen {
    pub(crate) retries: u64,
    /// Initial packets of the client with the token of a Retry packet.
    pub(crate) proofs: u64,
    /// Connections that the client began, by its ids; with ids of no length those of an address are one.
    pub(crate) connections: u64,
    /// For each datagram that brought a part of the client's last first hello, whether it was lost.
    pub(crate) hello: Vec<bool>,
    /// From the client's first datagram to its first packet that only a finished handshake allows.
    pub(crate) handshake: Option<Duration>,
    /// The cipher suite of the last ServerHello (RFC 8446 §B.4), and the group that keys are exchanged in
    /// (§4.2.7).
    pub(crate) suite: Option<u16>,
    pub(crate) group: Option<u16>,
    /// A HelloRetryRequest came (RFC 8446 §4.1.4).
    pub(crate) asked_again: bool,
    pub(crate) version_negotiations: u64,
    /// Datagrams lost and damaged by the links.
    pub(crate) lost: u64,
    pub(crate) corrupted: u64,
    /// Bytes passed on to the server before a Handshake packet of the client was among them: until then the
    /// server may not send more than three times as many (RFC 9000 §8.1).
    pub(crate) unproven: u64,
    /// What the server sent meanwhile.
    pub(crate) answered: u64,
    /// By how many bytes that was too much, at most.
    pub(crate) beyond: u64,
    /// Bytes of the server's Handshake packets, for each connection: with them a certificate comes, or does
    /// not.
    pub(crate) handshake_bytes: Vec<u64>,
    /// Bytes of the client's 0-RTT packets, and of its 1-RTT packets.
    pub(crate) early_bytes: u64,
    pub(crate) late_bytes: u64,
    /// The version of the server's last packet with a long header that was no Version Negotiation.
    pub(crate) version: u32,
    /// Datagrams by direction: all, and those with an ECN mark; and the place of the last that had one.
    pub(crate) datagrams: [u64; 2],
    pub(crate) marked: [u64; 2],
    pub(crate) last_marked: [u64; 2],
    /// How often the client's address changed, and how many datagrams the server sent to the last one.
    pub(crate) rebinds: u64,
    pub(crate) since_rebind: u64,
    /// Datagrams that found the road cut.
    pub(crate) cut: u64,
    /// The client began with a packet of a connection that there was already: it moved.
    pub(crate) moved: bool,
    proven: bool,
    tokens: BTreeSet<Vec<u8>>,
    /// The ids that clients chose for themselves, in the order in which they began.
    ids: Vec<Vec<u8>>,
    initials: Initials,
    begun: Option<Time>,
}

impl RelaySeen {
    /// Sums.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        self.retries += other.retries;
        self.proofs += other.proofs;
        self.connections += other.connections;
        if !other.hello.is_empty() {
            self.hello.clone_from(&other.hello);
        }
        self.handshake = self.handshake.or(other.handshake);
        self.suite = other.suite.or(self.suite);
        self.group = other.group.or(self.group);
        self.asked_again |= other.asked_again;
        self.version_negotiations += other.version_negotiations;
        self.lost += other.lost;
        self.corrupted += other.corrupted;
        self.unproven += other.unproven;
        self.answered += other.answered;
        self.beyond = self.beyond.max(other.beyond);
        self.handshake_bytes.extend(&other.handshake_bytes);
        self.early_bytes += other.early_bytes;
        self.late_bytes += other.late_bytes;
        self.version = if other.version == 0 { self.version } else { other.version };
        for direction in 0..2 {
            self.datagrams[direction] += other.datagrams[direction];
            self.marked[direction] += other.marked[direction];
            self.last_marked[direction] = self.last_marked[direction].max(other.last_marked[direction]);
        }
        self.rebinds += other.rebinds;
        self.since_rebind += other.since_rebind;
        self.cut += other.cut;
        self.moved |= other.moved;
        self
    }

    /// A datagram came, to be passed on or lost.
    pub(super) fn mark(&mut self, direction: usize, ecn: Ecn) {
        self.datagrams[direction] += 1;
        if ecn != Ecn::NotEct {
            self.marked[direction] += 1;
            self.last_marked[direction] = self.datagrams[direction];
        }
    }

    /// The client has another address from now on.
    pub(super) fn rebind(&mut self) {
        self.rebinds += 1;
        self.since_rebind = 0;
    }

    /// A datagram came from the client, which is lost or goes on.
    pub(super) fn begin(&mut self, now: Time, datagram: &[u8], is_lost: bool) {
        let begun = *self.begun.get_or_insert(now);
        if self.handshake.is_none() && Packets(datagram).any(|(kind, _)| kind == PacketKind::OneRtt) {
            self.handshake = Some(now.since(begun));
        }
        if let Some(head) = LongHead::of(datagram).filter(|head| head.kind == PacketKind::Initial) {
            self.proofs += u64::from(self.tokens.contains(head.token));
            if self.ids.iter().all(|id| id != head.source) {
                self.connections += 1;
                self.ids.push(head.source.to_vec());
                self.handshake_bytes.push(0);
            }
            self.initials.asked(datagram, &head, is_lost);
            self.hello = self.initials.parts().map(<[bool]>::to_vec).unwrap_or_default();
        }
    }

    /// A datagram goes to the server.
    pub(super) fn ask(&mut self, datagram: &[u8]) {
        // The limit is one of handshakes; paths of a connection that there is have their own (RFC 9000 §8.2).
        if self.unproven == 0 && datagram.first().is_some_and(|first| first & 0x80 == 0) {
            self.moved = true;
            self.proven = true;
        }
        let kinds: Vec<(PacketKind, usize)> = Packets(datagram).collect();
        for (kind, len) in &kinds {
            match kind {
                PacketKind::ZeroRtt => self.early_bytes += *len as u64,
                PacketKind::OneRtt => self.late_bytes += *len as u64,
                _ => {}
            }
        }
        if !self.proven {
            self.unproven += datagram.len() as u64;
            self.proven = kinds.iter().any(|(kind, _)| *kind == PacketKind::Handshake);
        }
    }

    /// A datagram came from the server.
    pub(super) fn answer(&mut self, datagram: &[u8]) {
        self.since_rebind += u64::from(self.rebinds > 0);
        if let [0x80..=0xff, a, b, c, d, ..] = *datagram {
            match u32::from_be_bytes([a, b, c, d]) {
                0 => self.version_negotiations += 1,
                version => self.version = version,
            }
        }
        for (kind, len) in Packets(datagram) {
            match kind {
                PacketKind::Retry => {
                    self.retries += 1;
                    let token = LongHead::of(datagram).map(|head| head.token.to_vec());
                    self.tokens.extend(token.filter(|token| !token.is_empty()));
                }
                PacketKind::Handshake => {
                    // RFC 9000 §12.2: all packets of a datagram go to the same id.
                    let to = LongHead::of(datagram).map(|head| head.destination);
                    let of =
                        self.ids.iter().zip(&mut self.handshake_bytes).find(|(id, _)| Some(&id[..]) == to);
                    if let Some((_, bytes)) = of {
                        *bytes += len as u64;
                    }
                }
                _ => {}
            }
        }
        self.initials.answered(datagram);
        for choice in self.initials.choices() {
            self.suite = choice.suite.or(self.suite);
            self.group = choice.group.or(self.group);
            self.asked_again |= choice.again;
        }
        if !self.proven {
            self.answered += datagram.len() as u64;
            self.beyond = self.beyond.max(self.answered.saturating_sub(3 * self.unproven));
        }
    }

    /// Whether packets of a direction were marked to the end, not only while their sender tried whether marks
    /// arrive.
    pub(crate) fn marks_last(&self, direction: usize) -> bool {
        self.marked[direction] > 0 && self.last_marked[direction] + 20 > self.datagrams[direction]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PacketKind {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    OneRtt,
    /// Of no version that we know, cut off, or no packet at all.
    Unknown,
}

/// The packets that share a datagram, and how many bytes each has.
struct Packets<'a>(&'a [u8]);

impl Iterator for Packets<'_> {
    type Item = (PacketKind, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let first = *self.0.first()?;
        let all = self.0.len();
        if first & 0x80 == 0 {
            // Some fill a datagram up with zeroes behind its packets.
            let kind =
                if self.0.iter().all(|byte| *byte == 0) { PacketKind::Unknown } else { PacketKind::OneRtt };
            self.0 = &[];
            return Some((kind, all));
        }
        let (kind, rest) = long_packet(self.0).unwrap_or((PacketKind::Unknown, &[]));
        self.0 = rest;
        Some((kind, all - rest.len()))
    }
}

/// The type of the long-header packet in front, and what lies behind it.
fn long_packet(datagram: &[u8]) -> Option<(PacketKind, &[u8])> {
    let head = LongHead::of(datagram)?;
    if head.kind == PacketKind::Retry {
        return Some((head.kind, &[]));
    }
    Some((head.kind, head.rest.get(head.len..)?))
}

/// What a long header says in the clear.
struct LongHead<'a> {
    kind: PacketKind,
    version: u32,
    destination: &'a [u8],
    source: &'a [u8],
    /// Of Initial and Retry packets.
    token: &'a [u8],
    /// From the packet number on; it is of this packet as far as `len`.
    rest: &'a [u8],
    len: usize,
}

impl<'a> LongHead<'a> {
    /// Of the packet in front; none if it has no long header, or one of a Version Negotiation.
    fn of(datagram: &'a [u8]) -> Option<Self> {
        let (first, rest) = datagram.split_first().filter(|(first, _)| **first & 0x80 != 0)?;
        let (version, mut rest) = rest.split_first_chunk()?;
        let (version, bits) = (u32::from_be_bytes(*version), usize::from(first >> 4 & 3));
        let kind = match version {
            0 => return None,
            // RFC 9369 §3.2: each type one further.
            V2 => [PacketKind::Retry, PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake][bits],
            _ => [PacketKind::Initial, PacketKind::ZeroRtt, PacketKind::Handshake, PacketKind::Retry][bits],
        };
        let mut ids: [&[u8]; 2] = [&[]; 2];
        for id in &mut ids {
            let (len, after) = rest.split_first()?;
            (*id, rest) = after.split_at_checked(usize::from(*len))?;
        }
        let [destination, source] = ids;
        if kind == PacketKind::Retry {
            // RFC 9000 §17.2.5: the tag behind the token has 16 bytes.
            let token = &rest[..rest.len().checked_sub(16)?];
            return Some(Self { kind, version, destination, source, token, rest: &[], len: 0 });
        }
        let mut token: &[u8] = &[];
        if kind == PacketKind::Initial {
            let (len, after) = varint(rest)?;
            (token, rest) = after.split_at_checked(len)?;
        }
        let (len, rest) = varint(rest)?;
        Some(Self { kind, version, destination, source, token, rest, len })
    }
}

/// RFC 9000 §16.
fn varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let len = 1 << (bytes.first()? >> 6);
    let (value, rest) = bytes.split_at_checked(len)?;
    let value = value.iter().fold(0_u64, |v, b| v << 8 | u64::from(*b)) & (u64::MAX >> (66 - 8 * len));
    Some((usize::try_from(value).ok()?, rest))
}

/// QUIC version 2, RFC 9369.
pub(crate) const V2: u32 = 0x6b33_43cf;

#[cfg(test)]
mod tests {
    use super::*;

    /// Flags, version, two ids of 8 bytes, then `tail`.
    fn long(version: u32, kind: u8, tail: &[u8]) -> Vec<u8> {
        [&[0xc0 | kind << 4][..], &version.to_be_bytes(), &[8], &[1; 8], &[8], &[2; 8], tail].concat()
    }

    fn kinds(datagram: &[u8]) -> Vec<PacketKind> {
        Packets(datagram).map(|(kind, _)| kind).collect()
    }

    #[test]
    fn zeroes_behind_a_packet_are_none() {
        let initial = long(1, 0, &[0, 0x40, 3, 7, 7, 7]);
        assert_eq!(kinds(&[&initial[..], &[0x40, 7, 7]].concat()), [PacketKind::Initial, PacketKind::OneRtt]);
        assert_eq!(kinds(&[&initial[..], &[0; 40]].concat()), [PacketKind::Initial, PacketKind::Unknown]);
    }

    #[test]
    fn packets_that_share_a_datagram_are_told_apart() {
        let initial = long(1, 0, &[2, 9, 9, 0x40, 3, 7, 7, 7]);
        let handshake = long(1, 2, &[1, 7]);
        assert_eq!(kinds(&initial), [PacketKind::Initial]);
        let both = [initial.clone(), handshake.clone()].concat();
        assert_eq!(
            Packets(&both).collect::<Vec<_>>(),
            [(PacketKind::Initial, initial.len()), (PacketKind::Handshake, handshake.len())]
        );
        assert_eq!(kinds(&[&initial[..], &[0x40; 30]].concat()), [PacketKind::Initial, PacketKind::OneRtt]);
        assert_eq!(kinds(&handshake[..20]), [PacketKind::Unknown]);
        assert_eq!(kinds(&long(1, 3, &[5; 30])), [PacketKind::Retry]);
        assert_eq!(kinds(&long(1, 1, &[1, 7])), [PacketKind::ZeroRtt]);
        // RFC 9369 §3.2.
        assert_eq!(kinds(&long(V2, 1, &[0, 1, 7])), [PacketKind::Initial]);
        assert_eq!(kinds(&long(V2, 2, &[1, 7])), [PacketKind::ZeroRtt]);
        assert_eq!(kinds(&long(V2, 3, &[1, 7])), [PacketKind::Handshake]);
        assert_eq!(kinds(&long(V2, 0, &[5; 30])), [PacketKind::Retry]);
    }

    #[test]
    fn varints_as_in_the_appendix() {
        // RFC 9000 §A.1.
        assert_eq!(varint(&[0x25, 1]), Some((37, &[1][..])));
        assert_eq!(varint(&[0x7b, 0xbd]), Some((15293, &[][..])));
        assert_eq!(varint(&[0x9d, 0x7f, 0x3e, 0x7d]), Some((494_878_333, &[][..])));
        assert_eq!(varint(&[0x7b]), None);
    }

    #[test]
    fn connections_are_told_apart_by_the_ids_of_clients() {
        let mut seen = RelaySeen::default();
        let initial = long(1, 0, &[2, 9, 9, 0x40, 3, 7, 7, 7]);
        let mut other = initial.clone();
        other[15] = 5;
        for datagram in [&initial, &initial, &other, &long(1, 2, &[1, 7])] {
            seen.begin(Time::ZERO, datagram, false);
        }
        assert_eq!(seen.connections, 2);
        assert_eq!(seen.proofs, 0);
        // Of the server, to the first of them, and to ids that nobody has.
        for to in [5, 2, 9] {
            seen.answer(&[&[0xe0, 0, 0, 0, 1, 8][..], &[to; 8], &[0, 3, 7, 7, 7]].concat());
        }
        assert_eq!(seen.handshake_bytes, [19, 0]);
    }

    #[test]
    fn a_token_is_proof_when_it_came_in_a_retry() {
        let mut seen = RelaySeen::default();
        let with_token = long(1, 0, &[2, 9, 8, 0x40, 3, 7, 7, 7]);
        seen.begin(Time::ZERO, &with_token, false);
        seen.answer(&long(1, 3, &[&[9, 8][..], &[5; 16]].concat()));
        assert_eq!((seen.retries, seen.proofs), (1, 0));
        seen.begin(Time::ZERO, &long(1, 0, &[2, 9, 9, 0x40, 3, 7, 7, 7]), false);
        assert_eq!(seen.proofs, 0, "another token");
        seen.begin(Time::ZERO, &with_token, false);
        assert_eq!(seen.proofs, 1);
    }

    #[test]
    fn three_times_is_the_limit() {
        let mut seen = RelaySeen::default();
        seen.ask(&[0xc0; 1200]);
        (0..3).for_each(|_| seen.answer(&[0xc0; 1200]));
        assert_eq!(seen.beyond, 0);
        seen.answer(&[0xc0; 1]);
        assert_eq!(seen.beyond, 1);
        seen.ask(&[0xc0; 1200]);
        assert_eq!(seen.beyond, 1, "that it may now does not undo it");
        // A client that moves is no handshake.
        let mut seen = RelaySeen::default();
        seen.ask(&[0x40; 50]);
        seen.answer(&[0x40; 1200]);
        assert!(seen.moved && seen.beyond == 0);
    }
}
