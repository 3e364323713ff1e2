use super::{LONG, pn_len};
use crate::packet_number;

/// A header whose protection has been removed in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unprotected {
    /// The first byte in clear.
    pub first: u8,
    /// The packet number's bytes, for [`packet_number::expand`].
    pub truncated: u32,
    /// How many they are, 1 to 4.
    pub pn_len: usize,
}

/// Puts the mask on the first byte and the 1 to 4 bytes of the packet number, or takes it off again
/// (RFC 9001 §5.4.1).
///
/// # Panics
/// When `pn` has more than four bytes.
#[inline]
pub fn apply_mask(first: &mut u8, pn: &mut [u8], mask: [u8; 5]) {
    let [first_mask, pn_mask @ ..] = mask;
    *first ^= covered(*first, first_mask);
    assert!(pn.len() <= pn_mask.len());
    for (byte, mask) in pn.iter_mut().zip(pn_mask) {
        *byte ^= mask;
    }
}

/// Protects the header of a sealed packet, in clear so far, whose number starts at `pn_offset`.
///
/// # Panics
/// When the packet ends before the packet number does.
#[inline]
pub fn protect(packet: &mut [u8], pn_offset: usize, mask: [u8; 5]) {
    let (head, pn) = packet.split_at_mut(pn_offset);
    let len = pn_len(head[0]);
    apply_mask(&mut head[0], &mut pn[..len], mask);
}

/// Removes the protection from the header of a received packet, in place. `packet` goes from its first
/// byte to its end; `None` (nothing is changed) when it ends within the four bytes from `pn_offset`, which a
/// packet with a [`sample`](super::Parsed::sample) does not.
#[inline]
pub fn unprotect(packet: &mut [u8], pn_offset: usize, mask: [u8; 5]) -> Option<Unprotected> {
    let (head, tail) = packet.split_at_mut_checked(pn_offset)?;
    let first = head.first_mut()?;
    let pn = tail.first_chunk_mut::<4>()?;
    // The number's length is itself protected, so the first byte comes first.
    let clear = *first ^ covered(*first, mask[0]);
    let len = pn_len(clear);
    apply_mask(first, &mut pn[..len], mask);
    let truncated = u32::from_be_bytes(*pn) >> (8 * (4 - len));
    Some(Unprotected { first: clear, truncated, pn_len: len })
}

impl Unprotected {
    /// The full packet number; `largest` is the largest received in the space so far.
    #[inline]
    pub const fn expand(&self, largest: Option<u64>) -> u64 {
        packet_number::expand(self.truncated, self.pn_len, largest)
    }
}

/// The bits of the mask that apply to the first byte: the low four of a long header, the low five of a short.
#[inline]
const fn covered(first: u8, mask: u8) -> u8 {
    mask & if first & LONG == 0 { 0x1f } else { 0x0f }
}
