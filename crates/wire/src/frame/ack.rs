use core::fmt;
use core::iter::FusedIterator;
use core::ops::RangeInclusive;

use super::decode::{FrameError, Parse};
use super::kind;
use crate::cursor::{EncodeSink, one};
use crate::{Reader, Writer, varint};

/// The packets with each mark that the peer has received in a space (RFC 9000 §19.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnCounts {
    /// Marked ECT(0).
    pub ect0: u64,
    /// Marked ECT(1).
    pub ect1: u64,
    /// Marked congestion experienced.
    pub ce: u64,
}

impl EcnCounts {
    fn size(&self) -> usize {
        varint::size(self.ect0) + varint::size(self.ect1) + varint::size(self.ce)
    }

    fn emit(&self, out: &mut impl EncodeSink) {
        out.varint(self.ect0);
        out.varint(self.ect1);
        out.varint(self.ce);
    }
}

/// An ACK frame (RFC 9000 §19.3), its ranges checked: none goes below 0.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The largest packet number acknowledged.
    pub largest: u64,
    /// As on the wire: microseconds, divided by 2 to the sender's ack_delay_exponent.
    pub delay: u64,
    /// The marks counted, if the peer tells.
    pub ecn: Option<EcnCounts>,
    below: Below<'a>,
}

impl<'a> Ack<'a> {
    /// The acknowledged ranges, newest first. They do not touch: at least one number lies between two.
    #[inline]
    pub fn ranges(&self) -> AckRanges<'a> {
        self.below.ranges(self.largest)
    }

    #[inline]
    pub(super) fn parse(r: &mut Reader<'a>, with_ecn: bool) -> Parse<Self> {
        let largest = r.varint()?;
        let delay = r.varint()?;
        let below = Below::parse(r, largest)?;
        let ecn = if with_ecn {
            Some(EcnCounts { ect0: r.varint()?, ect1: r.varint()?, ce: r.varint()? })
        } else {
            None
        };
        Ok(Self { largest, delay, ecn, below })
    }

    pub(super) fn emit(&self, out: &mut impl EncodeSink) {
        out.varint(self.largest);
        out.varint(self.delay);
        self.below.emit(out);
        if let Some(ecn) = &self.ecn {
            ecn.emit(out);
        }
    }
}

impl fmt::Debug for Ack<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ack")
            .field("ranges", &Listed(self.ranges()))
            .field("delay", &self.delay)
            .field("ecn", &self.ecn)
            .finish()
    }
}

/// Ranges as a list, for logs.
pub(super) struct Listed<'a>(pub(super) AckRanges<'a>);

impl fmt::Debug for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.clone()).finish()
    }
}

/// What stands behind the largest number in ACK and SYMBOL_ACK, its ranges checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Below<'a> {
    // Numbers right below the largest in the first range.
    first: u64,
    // Ranges after the first, `count` pairs of gap and length.
    count: u64,
    pairs: &'a [u8],
}

impl<'a> Below<'a> {
    #[inline]
    pub(super) fn parse(r: &mut Reader<'a>, largest: u64) -> Parse<Self> {
        let count = r.varint()?;
        let first = r.varint()?;
        // RFC 9000 §19.3.1: a range that would go below 0 is an encoding error. Each pair has at least two
        // bytes, so a count that lies ends the loop with the packet.
        let mut smallest = largest.checked_sub(first).ok_or(BELOW_ZERO)?;
        let pairs = r.peek();
        for _ in 0..count {
            let gap = r.varint()? + 2;
            let length = r.varint()?;
            smallest = smallest.checked_sub(gap + length).ok_or(BELOW_ZERO)?;
        }
        let pairs = &pairs[..pairs.len() - r.remaining()];
        Ok(Self { first, count, pairs })
    }

    #[inline]
    pub(super) fn ranges(&self, largest: u64) -> AckRanges<'a> {
        AckRanges {
            next: Some(largest - self.first..=largest),
            left: usize::try_from(self.count).unwrap_or(usize::MAX),
            pairs: Reader::new(self.pairs),
        }
    }

    /// Ranges after the first.
    pub(super) const fn further(&self) -> u64 {
        self.count
    }

    pub(super) fn emit(&self, out: &mut impl EncodeSink) {
        out.varint(self.count);
        out.varint(self.first);
        out.bytes(self.pairs);
    }
}

/// The ranges of an [`Ack`] or a [`SymbolAck`](super::SymbolAck), newest first.
#[derive(Clone, Debug)]
pub struct AckRanges<'a> {
    next: Option<RangeInclusive<u64>>,
    left: usize,
    pairs: Reader<'a>,
}

impl AckRanges<'_> {
    #[inline]
    fn below(&mut self, smallest: u64) -> Option<RangeInclusive<u64>> {
        self.left = self.left.checked_sub(1)?;
        // Checked when the frame was parsed: every pair is whole, and none goes below 0.
        let gap = self.pairs.varint().ok()?;
        let length = self.pairs.varint().ok()?;
        let end = smallest - gap - 2;
        Some(end - length..=end)
    }
}

impl Iterator for AckRanges<'_> {
    type Item = RangeInclusive<u64>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let range = self.next.take()?;
        self.next = self.below(*range.start());
        Some(range)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let n = self.left + usize::from(self.next.is_some());
        (n, Some(n))
    }
}

impl ExactSizeIterator for AckRanges<'_> {}
impl FusedIterator for AckRanges<'_> {}

/// Writes an ACK frame with as many of `ranges` as there is room for and returns how many; 0 when not even
/// the first fits or there is none, and then nothing is written.
///
/// The ranges come newest first and do not touch each other. `delay` is in the units of the wire. An
/// iterator that knows its upper bound can save a byte.
///
/// # Panics
/// When the ranges are out of order, touch, or are empty: they are our own.
pub fn ack(
    w: &mut Writer<'_>,
    ranges: impl IntoIterator<Item = RangeInclusive<u64>>,
    delay: u64,
    ecn: Option<EcnCounts>,
) -> usize {
    let mut ranges = ranges.into_iter();
    let most = ranges.size_hint().1.unwrap_or(usize::MAX);
    let Some(newest) = ranges.next() else { return 0 };
    let (smallest, largest) = newest.into_inner();
    let first = largest.checked_sub(smallest).expect("a range of packets is not empty");

    // The number of further ranges is known only at the end: one byte holds 63 of them, two hold 16383.
    let wide = most.min(w.room() / 2) > 64;
    let limit = if wide { (1 << 14) - 1 } else { 63 };
    let tail = ecn.map_or(0, |e| e.size());
    let head = 1 + varint::size(largest) + varint::size(delay) + 1 + usize::from(wide) + varint::size(first);
    if w.room() < head + tail {
        return 0;
    }
    w.u8(one(kind::ACK) | u8::from(ecn.is_some()));
    w.varint(largest);
    w.varint(delay);
    let count_at = w.len();
    if wide {
        w.varint2(0);
    } else {
        w.u8(0);
    }
    w.varint(first);

    let further = further_ranges(w, ranges.take(limit), smallest, tail);
    if wide {
        w.patch_varint2(count_at, further as u64);
    } else {
        w.patch_u8(count_at, one(further as u64));
    }
    if let Some(ecn) = ecn {
        ecn.emit(w);
    }
    further + 1
}

/// Writes pairs of gap and length for the ranges below `smallest`, as many as leave `tail` bytes of room, and
/// returns how many.
pub(super) fn further_ranges(
    w: &mut Writer<'_>,
    ranges: impl Iterator<Item = RangeInclusive<u64>>,
    mut smallest: u64,
    tail: usize,
) -> usize {
    let mut further = 0;
    for range in ranges {
        let (start, end) = range.into_inner();
        let gap = smallest.checked_sub(end + 2).expect("ranges come newest first and do not touch");
        let length = end.checked_sub(start).expect("a range is not empty");
        if w.room() < varint::size(gap) + varint::size(length) + tail {
            break;
        }
        w.varint(gap);
        w.varint(length);
        smallest = start;
        further += 1;
    }
    further
}

const BELOW_ZERO: FrameError = FrameError::encoding("an ACK range goes below 0");
