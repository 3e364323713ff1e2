//! Datagrams to fields and back: `spec/web.md` §3.

use quickset_wire::varint::{MAX, size};
use quickset_wire::{Reader, Truncated, Writer};

/// What is wrong with a datagram of the peer. The session is to be ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DatagramFault {
    /// A datagram ends before its last field.
    #[error("a datagram ends too early")]
    Short,
    /// A field has a value that it must not have.
    #[error("{what} is {value}")]
    Value {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// Repair and messages do not agree.
    #[error("what repair makes of the messages is no message")]
    Repair,
}

/// A datagram, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FencedDatagram<'a> {
    Message { sequence: u64, place: FencedPlace, payload: &'a [u8] },
    Gone { sequence: u64, place: FencedPlace },
    Repair { sequence: u64, first: u64, count: u64, seed: u64, sum: &'a [u8] },
    Report(ReportFields<'a>),
    Unknown,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FencedPlace {
    pub(crate) number: u64,
    /// How many messages lie between it and the last fence before it.
    pub(crate) behind: u64,
}

/// A report, read as far as its ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReportFields<'a> {
    pub(crate) sequence: u64,
    pub(crate) below: u64,
    pub(crate) newest: u64,
    /// In microseconds.
    pub(crate) delay: u64,
    pub(crate) recovered: u64,
    count: u8,
    ranges: &'a [u8],
}

impl FencedPlace {
    /// The first message behind the fence.
    pub(crate) fn fence(self) -> u64 {
        self.number - self.behind
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, DatagramFault> {
        let (number, behind) = (reader.varint()?, reader.varint()?);
        Self { number, behind }.checked()
    }

    fn checked(self) -> Result<Self, DatagramFault> {
        if self.behind > self.number {
            return Err(DatagramFault::Value { what: "the distance of a fence", value: self.behind });
        }
        Ok(self)
    }
}

impl<'a> FencedDatagram<'a> {
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, DatagramFault> {
        let mut reader = Reader::new(bytes);
        let kind = reader.u8()?;
        // WB-1: whatever follows.
        if !(MESSAGE..=REPORT).contains(&kind) {
            return Ok(Self::Unknown);
        }
        let sequence = reader.varint()?;
        Ok(match kind {
            MESSAGE => {
                let place = FencedPlace::read(&mut reader)?;
                let payload = reader.rest();
                too_long(payload.len())?;
                Self::Message { sequence, place, payload }
            }
            GONE => Self::Gone { sequence, place: FencedPlace::read(&mut reader)? },
            REPAIR => {
                let (first, count, seed) = (reader.varint()?, reader.varint()?, reader.varint()?);
                if !(1..=MOST_COVERED).contains(&count) {
                    return Err(DatagramFault::Value { what: "the messages of a repair", value: count });
                }
                if first + (count - 1) > MAX {
                    return Err(DatagramFault::Value { what: "the first message of a repair", value: first });
                }
                let sum = reader.rest();
                too_long(sum.len().saturating_sub(SYMBOL_HEADER))?;
                Self::Repair { sequence, first, count, seed, sum }
            }
            _ => Self::Report(ReportFields {
                sequence,
                below: reader.varint()?,
                newest: reader.varint()?,
                delay: reader.varint()?,
                recovered: reader.varint()?,
                count: reader.u8()?,
                ranges: reader.rest(),
            }),
        })
    }
}

impl ReportFields<'_> {
    /// Calls `found` with the first number and the number after the last of each range, in order.
    pub(crate) fn for_each_range(
        &self,
        mut found: impl FnMut(std::ops::Range<u64>),
    ) -> Result<(), DatagramFault> {
        let (mut reader, mut at) = (Reader::new(self.ranges), self.below);
        for _ in 0..self.count {
            let (gap, length) = (reader.varint()?, reader.varint()?);
            // WB-13.
            if gap == 0 || length == 0 {
                return Err(DatagramFault::Value { what: "the length of a range", value: 0 });
            }
            let first = at.saturating_add(gap);
            at = first.saturating_add(length);
            found(first..at);
        }
        Ok(())
    }
}

impl From<Truncated> for DatagramFault {
    fn from(_: Truncated) -> Self {
        Self::Short
    }
}

/// WB-2.
fn too_long(payload: usize) -> Result<(), DatagramFault> {
    if payload > MOST_PAYLOAD {
        return Err(DatagramFault::Value { what: "the length of a message", value: payload as u64 });
    }
    Ok(())
}

/// A MESSAGE, or GONE without a payload.
pub(crate) fn message(sequence: u64, place: FencedPlace, payload: Option<&[u8]>) -> Vec<u8> {
    let body = payload.unwrap_or_default();
    let mut out = vec![0; 1 + size(sequence) + size(place.number) + size(place.behind) + body.len()];
    let mut writer = Writer::new(&mut out);
    writer.u8(if payload.is_some() { MESSAGE } else { GONE });
    writer.varint(sequence);
    writer.varint(place.number);
    writer.varint(place.behind);
    writer.bytes(body);
    out
}

/// A REPAIR.
pub(crate) fn repair(sequence: u64, first: u64, count: u64, seed: u64, sum: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 1 + size(sequence) + size(first) + size(count) + size(seed) + sum.len()];
    let mut writer = Writer::new(&mut out);
    writer.u8(REPAIR);
    for field in [sequence, first, count, seed] {
        writer.varint(field);
    }
    writer.bytes(sum);
    out
}

/// What a REPORT says before its ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReportHead {
    pub(crate) sequence: u64,
    pub(crate) below: u64,
    pub(crate) newest: u64,
    pub(crate) delay: u64,
    pub(crate) recovered: u64,
}

/// A REPORT; of `arrived`, ranges above `below` in order, the first 64.
pub(crate) fn report(head: ReportHead, arrived: impl Iterator<Item = std::ops::Range<u64>>) -> Vec<u8> {
    let ReportHead { sequence, below, newest, delay, recovered } = head;
    let mut out = vec![0; 1 + 5 * 8 + 1 + 2 * 8 * MOST_RANGES];
    let mut writer = Writer::new(&mut out);
    writer.u8(REPORT);
    for field in [sequence, below, newest, delay.min(MAX), recovered] {
        writer.varint(field);
    }
    let (count_at, mut count, mut at) = (writer.len(), 0, below);
    writer.u8(0);
    // WB-12.
    for range in arrived.take(MOST_RANGES) {
        writer.varint(range.start - at);
        writer.varint(range.end - range.start);
        at = range.end;
        count += 1;
    }
    writer.patch_u8(count_at, count);
    let length = writer.len();
    out.truncate(length);
    out
}

/// What repair is computed over, into `out`.
pub(crate) fn symbol(behind: u64, payload: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.resize(2 + size(behind), 0);
    let mut writer = Writer::new(out);
    // No payload is as long as 2^16.
    writer.u16(quickset_base::number::within_u16(payload.len() as u64));
    writer.varint(behind);
    out.extend_from_slice(payload);
}

/// The place and the payload of a symbol that was computed, without the zeros at its end. WB-9.
pub(crate) fn read_symbol(number: u64, symbol: &[u8]) -> Result<(FencedPlace, Vec<u8>), DatagramFault> {
    let mut header = [0; SYMBOL_HEADER];
    let begin = symbol.len().min(SYMBOL_HEADER);
    header[..begin].copy_from_slice(&symbol[..begin]);
    let mut reader = Reader::new(&header);
    let (length, behind) = (usize::from(reader.u16()?), reader.varint()?);
    let place = FencedPlace { number, behind }.checked().map_err(|_| DatagramFault::Repair)?;
    let payload = symbol.get(reader.position()..).unwrap_or_default();
    if payload.len() > length || length > MOST_PAYLOAD {
        return Err(DatagramFault::Repair);
    }
    let mut payload = payload.to_vec();
    payload.resize(length, 0);
    Ok((place, payload))
}

const MESSAGE: u8 = 1;
const GONE: u8 = 2;
pub(crate) const REPAIR: u8 = 3;
const REPORT: u8 = 4;
/// The longest message, in bytes.
pub(crate) const MOST_PAYLOAD: usize = 16_384;
/// What a symbol has before its payload, at most.
pub(crate) const SYMBOL_HEADER: usize = 2 + 8;
/// Messages that a REPAIR covers.
pub(crate) const MOST_COVERED: u64 = 256;
/// What a message of so many bytes counts for while it waits: an empty one is not for nothing (WB-7).
pub(crate) fn memory_of(length: usize) -> usize {
    length + 128
}

/// What messages that are not known to have arrived may count for together (WB-7).
pub(crate) const MOST_WAITING: usize = 8 << 20;
/// Numbers from the lowest that has not arrived on (WB-7).
pub(crate) const NUMBERS: u64 = 4096;
/// Symbols that a receiver keeps (WB-10).
pub(crate) const SYMBOLS: usize = 1024;
/// Of a REPORT.
const MOST_RANGES: usize = 64;
