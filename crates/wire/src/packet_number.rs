//! Packet numbers are sent as their low 1 to 4 bytes (RFC 9000 §17.1).

use crate::varint;

/// The bytes that `pn` needs while `largest_acked` is the largest number the peer acknowledged: 1 to 4
/// (RFC 9000 §A.2).
///
/// The encoding must cover more than twice the distance to `largest_acked`, so that the peer finds `pn`
/// again whichever packets in between it has seen. Distances beyond 2^31 do not occur: a sender stops
/// long before.
#[inline]
pub const fn encode_len(pn: u64, largest_acked: Option<u64>) -> usize {
    let unacked = match largest_acked {
        Some(acked) => pn.saturating_sub(acked),
        None => pn.saturating_add(1),
    };
    match unacked {
        0..=0x80 => 1,
        0x81..=0x8000 => 2,
        0x8001..=0x80_0000 => 3,
        _ => 4,
    }
}

/// The low `len` bytes (1 to 4) of `pn`.
#[inline]
pub const fn truncate(pn: u64, len: usize) -> u32 {
    (pn & mask(len) & 0xffff_ffff) as u32
}

/// The number closest to the one expected next whose low `len` bytes (1 to 4) are `truncated`
/// (RFC 9000 §A.3). `largest` is the largest number received in the space, `None` before the first.
#[inline]
pub const fn expand(truncated: u32, len: usize, largest: Option<u64>) -> u64 {
    let expected = match largest {
        Some(largest) => largest + 1,
        None => 0,
    };
    let window = mask(len) + 1;
    let half = window / 2;
    let candidate = expected & !mask(len) | truncated as u64;
    // RFC 9000 §A.3: no wrap below 0, and none beyond 2^62 - 1. The RFC's own form leaves the latter possible
    // when the largest is 2^62 - 1, and such a number fits no ACK.
    if candidate + half <= expected && candidate < (1 << 62) - window {
        candidate + window
    } else if (candidate > expected + half || candidate > varint::MAX) && candidate >= window {
        candidate - window
    } else {
        candidate
    }
}

#[inline]
const fn mask(len: usize) -> u64 {
    (1 << (8 * len)) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 9000 §17.1, §A.2, §A.3.
    #[test]
    fn the_examples_of_rfc_9000() {
        // §A.2: 0xabe8b3 acknowledged; 0xac5c02 takes 16 bits, 0xace8fe takes 24.
        assert_eq!(encode_len(0xac_5c02, Some(0xab_e8b3)), 2);
        assert_eq!(truncate(0xac_5c02, 2), 0x5c02);
        assert_eq!(encode_len(0xac_e8fe, Some(0xab_e8b3)), 3);
        // §A.3: largest received 0xa82f30ea; 0x9b32 in 16 bits is 0xa82f9b32.
        assert_eq!(expand(0x9b32, 2, Some(0xa82f_30ea)), 0xa82f_9b32);
        // RFC 9001 §A.5: 654360564 in 3 bytes is 49140.
        assert_eq!(truncate(654_360_564, 3), 49_140);
    }

    #[test]
    fn the_first_packets() {
        assert_eq!(encode_len(0, None), 1);
        assert_eq!(expand(0, 1, None), 0);
        assert_eq!(expand(2, 4, None), 2);
        assert_eq!(expand(0xff, 1, Some(0)), 0xff, "nothing lies below 0");
    }

    #[test]
    fn the_last_packets() {
        let last = (1u64 << 62) - 1;
        assert_eq!(expand(0xff, 1, Some(last)), last);
        assert_eq!(expand(0, 1, Some(last)), last - 0xff, "nothing lies beyond 2^62 - 1");
    }

    proptest! {
        // Whatever the receiver saw between the last acknowledged packet and this one, it finds it.
        /// RFC 9000 §17.1.
        #[test]
        fn what_is_truncated_is_found_again(
            acked in prop::option::of(0u64..1 << 61),
            ahead in 1u64..1 << 31,
            seen in 0.0f64..1.0,
        ) {
            let pn = acked.map_or(ahead - 1, |a| a + ahead);
            let len = encode_len(pn, acked);
            let above = (pn - acked.unwrap_or(0)) as f64;
            let largest = (pn > 0).then(|| acked.unwrap_or(0) + (above * seen) as u64);
            prop_assert_eq!(expand(truncate(pn, len), len, largest), pn);
        }
    }
}
