//! What of an IP packet concerns a link: its congestion mark, and whether a program has sent it.

use std::net::{Ipv4Addr, Ipv6Addr};

use quickset_base::Ecn;

/// The congestion mark of a packet; none where there is no IP header.
pub(crate) fn ecn(packet: &[u8]) -> Ecn {
    match *packet {
        [first, tos, ..] if first >> 4 == 4 => Ecn::from_bits(tos),
        // RFC 8200 §3: the traffic class lies across the first two bytes.
        [first, second, ..] if first >> 4 == 6 => Ecn::from_bits(second >> 4),
        _ => Ecn::NotEct,
    }
}

/// Writes the congestion mark, and makes the header's checksum right again where there is one.
pub(crate) fn mark(packet: &mut [u8], mark: Ecn) {
    if ecn(packet) == mark {
        return;
    }
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= V4_HEADER => {
            let before = word(packet, 0);
            packet[1] = packet[1] & !0b11 | mark.bits();
            let sum = update(word(packet, V4_CHECKSUM), before, word(packet, 0));
            packet[V4_CHECKSUM..V4_CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if packet.len() >= V6_HEADER => {
            packet[1] = packet[1] & !(0b11 << 4) | mark.bits() << 4;
        }
        _ => {}
    }
}

/// Whether a host on the other side of a router could have sent or would get this packet. Systems talk to
/// their neighbours on an interface (who is there, who wants which group); that is not traffic of programs,
/// and would shift the ordinals by which losses are drawn.
pub(crate) fn is_routed(packet: &[u8]) -> bool {
    match packet.first().map(|first| first >> 4) {
        Some(4) if packet.len() >= V4_HEADER => {
            let to = Ipv4Addr::from(part::<4>(packet, 16));
            !(to.is_multicast() || to.is_broadcast())
        }
        Some(6) if packet.len() >= V6_HEADER => {
            let (from, to) = (Ipv6Addr::from(part::<16>(packet, 8)), Ipv6Addr::from(part::<16>(packet, 24)));
            let is_local = |address: Ipv6Addr| address.segments()[0] & 0xffc0 == 0xfe80;
            !(to.is_multicast() || is_local(from) || is_local(to) || from.is_unspecified())
        }
        _ => false,
    }
}

/// A checksum over words of which one has changed. RFC 1624 §3: HC' = ~(~HC + ~m + m').
fn update(sum: u16, before: u16, after: u16) -> u16 {
    let wide = u32::from(!sum) + u32::from(!before) + u32::from(after);
    let folded = (wide & 0xffff) + (wide >> 16);
    !((folded & 0xffff) as u16 + (folded >> 16) as u16)
}

fn word(packet: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(part(packet, at))
}

fn part<const N: usize>(packet: &[u8], at: usize) -> [u8; N] {
    packet[at..at + N].try_into().expect("the length has been checked")
}

const V4_HEADER: usize = 20;
const V4_CHECKSUM: usize = 10;
const V6_HEADER: usize = 40;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 §4.1: the sum of a header with its checksum in place is all ones.
    fn is_right(header: &[u8]) -> bool {
        let mut sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum == 0xffff
    }

    fn with_checksum(mut header: [u8; 20]) -> [u8; 20] {
        header[0] = 0x45;
        header[10..12].fill(0);
        let mut sum: u32 = header.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        header
    }

    const MARKS: [Ecn; 4] = [Ecn::NotEct, Ecn::Ect0, Ecn::Ect1, Ecn::Ce];

    proptest! {
        #[test]
        fn a_v4_mark_changes_two_bits_and_keeps_the_checksum_right(header: [u8; 20], to in 0..4usize) {
            let before = with_checksum(header);
            prop_assert!(is_right(&before));
            let mut after = before;
            mark(&mut after, MARKS[to]);
            prop_assert_eq!(ecn(&after), MARKS[to]);
            prop_assert!(is_right(&after), "{:02x?} {:02x?}", before, after);
            prop_assert_eq!(before[1] >> 2, after[1] >> 2, "the differentiated services stay");
            let rest = |header: [u8; 20]| (header[0], header[2..10].to_vec(), header[12..].to_vec());
            prop_assert_eq!(rest(before), rest(after));
        }

        #[test]
        fn a_v6_mark_changes_two_bits(mut packet: [u8; 48], to in 0..4usize) {
            packet[0] = 0x60 | packet[0] & 0xf;
            let before = packet;
            mark(&mut packet, MARKS[to]);
            prop_assert_eq!(ecn(&packet), MARKS[to]);
            packet[1] = packet[1] & !0x30 | before[1] & 0x30;
            prop_assert_eq!(packet, before);
        }

        #[test]
        fn odd_packets_do_no_harm(mut packet in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = is_routed(&packet);
            let (len, mark_was) = (packet.len(), ecn(&packet));
            mark(&mut packet, mark_was);
            mark(&mut packet, Ecn::Ce);
            prop_assert_eq!(packet.len(), len);
        }
    }

    #[test]
    fn the_mark_stands_where_the_rfcs_put_it() {
        // RFC 3168 §5: ECT(0) is 10, in the two low bits of the second byte.
        assert_eq!(ecn(&[0x45, 0xb8 | 0b10]), Ecn::Ect0);
        // Traffic class 0x03: its low half is the high half of the second byte.
        assert_eq!(ecn(&[0x60, 0x30]), Ecn::Ce);
        assert_eq!(ecn(&[0x60, 0x03]), Ecn::NotEct);
        assert_eq!(ecn(&[]), Ecn::NotEct);
    }

    #[test]
    fn neighbours_talk_is_told_from_traffic() {
        let v4 = |to: [u8; 4]| {
            let mut packet = [0; 20];
            packet[0] = 0x45;
            packet[16..20].copy_from_slice(&to);
            is_routed(&packet)
        };
        assert!(v4([10, 77, 0, 1]));
        assert!(!v4([224, 0, 0, 251]));
        assert!(!v4([255; 4]));
        let v6 = |from: &str, to: &str| {
            let mut packet = [0; 40];
            packet[0] = 0x60;
            packet[8..24].copy_from_slice(&from.parse::<Ipv6Addr>().unwrap().octets());
            packet[24..40].copy_from_slice(&to.parse::<Ipv6Addr>().unwrap().octets());
            is_routed(&packet)
        };
        assert!(v6("fd77::2", "fd77::1"));
        // A router solicitation, a report of group memberships, a look for duplicates.
        assert!(!v6("fe80::1", "ff02::2"));
        assert!(!v6("::", "ff02::16"));
        assert!(!v6("::", "ff02::1:ff00:1"));
        assert!(!v6("fe80::1", "fe80::2"));
        assert!(!is_routed(&[0x45; 19]) && !is_routed(&[0x12; 60]) && !is_routed(&[]));
    }
}
