use core::fmt;

use quickset_base::{Ecn, Time};

use crate::link::{DropReason, Fate, LinkDelivery};
use crate::network::LinkId;

/// What was sent when, and what became of it: one record for each packet, in the order in which their fates
/// became known, which is that of sending but where a queue decides at its head.
///
/// The [`digest`](Self::digest) sums it up in 64 bits, equal on every machine: two runs under one seed
/// must agree.
#[derive(Clone, Debug)]
pub struct Trace {
    records: Vec<TraceRecord>,
    payloads: Vec<Vec<u8>>,
    keep: TraceKeep,
    count: u64,
    digest: TraceChecksum,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TraceKeep {
    Nothing,
    Records,
    Payloads,
}

impl Trace {
    /// A trace that keeps its records, for reading.
    pub const fn full() -> Self {
        Self::keeping(TraceKeep::Records)
    }

    /// The same with what the packets carried.
    pub const fn with_payloads() -> Self {
        Self::keeping(TraceKeep::Payloads)
    }

    /// A trace of constant size that only counts and sums up.
    pub const fn digest_only() -> Self {
        Self::keeping(TraceKeep::Nothing)
    }

    const fn keeping(keep: TraceKeep) -> Self {
        Self { records: Vec::new(), payloads: Vec::new(), keep, count: 0, digest: TraceChecksum::new() }
    }

    /// The records, if they were to be kept.
    pub fn records(&self) -> &[TraceRecord] {
        &self.records
    }

    /// What the packet of the record at `index` carried when it was sent, if that was to be kept.
    pub fn payload(&self, index: usize) -> Option<&[u8]> {
        self.payloads.get(index).map(Vec::as_slice)
    }

    /// How many packets were sent.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// All records in 64 bits.
    pub fn digest(&self) -> u64 {
        self.digest.0
    }

    pub(crate) fn push(&mut self, record: TraceRecord, payload: &[u8]) {
        self.count += 1;
        record.digest(&mut self.digest);
        if self.keep != TraceKeep::Nothing {
            self.records.push(record);
        }
        if self.keep == TraceKeep::Payloads {
            self.payloads.push(payload.to_vec());
        }
    }
}

/// One line a record, and the digest.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for record in &self.records {
            writeln!(f, "{record}")?;
        }
        writeln!(f, "{} packets, digest {:016x}", self.count, self.digest.0)
    }
}

/// One packet on one link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRecord {
    /// When it was sent.
    pub time: Time,
    /// On which link.
    pub link: LinkId,
    /// The how-manieth packet of that link, from 0.
    pub ordinal: u64,
    /// Its payload in bytes.
    pub size: u32,
    /// The mark that it was sent with.
    pub ecn: Ecn,
    /// Its payload, as sent, in 64 bits.
    pub hash: u64,
    /// What became of it.
    pub fate: Fate,
}

impl TraceRecord {
    fn digest(&self, sum: &mut TraceChecksum) {
        sum.word(self.time.as_nanos());
        sum.word(self.link.index() as u64);
        sum.word(self.ordinal);
        sum.word(u64::from(self.size) << 2 | u64::from(self.ecn.bits()));
        sum.word(self.hash);
        let mut delivery = |kind: u64, d: LinkDelivery| {
            sum.word(kind << 3 | u64::from(d.ecn.bits()) << 1 | u64::from(d.damage.is_some()));
            sum.word(d.at.as_nanos());
            sum.word(d.damage.map_or(0, |damage| damage.0));
        };
        match self.fate {
            Fate::Delivered(original) => delivery(1, original),
            Fate::Duplicated(original, copy) => {
                delivery(2, original);
                delivery(3, copy);
            }
            Fate::Dropped(why) => sum.word(why as u64 + 100),
        }
    }
}

/// `0.050000000s link0#17 1200B NotEct 8c5e…: 0.100096000s`, with `+ …` for a copy, `*` behind what is
/// damaged, and the reason in place of a time for what is dropped.
impl fmt::Display for TraceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, link, ordinal, size, ecn, hash, fate } = self;
        write!(f, "{time} {link}#{ordinal} {size}B {ecn:?} {hash:016x}: ")?;
        let arrival = |f: &mut fmt::Formatter<'_>, delivery: LinkDelivery| {
            write!(f, "{}{}", delivery.at, if delivery.damage.is_some() { "*" } else { "" })
        };
        match *fate {
            Fate::Delivered(original) => arrival(f, original),
            Fate::Duplicated(original, copy) => {
                arrival(f, original)?;
                f.write_str(" + ")?;
                arrival(f, copy)
            }
            Fate::Dropped(DropReason::Oversized) => f.write_str("oversized"),
            Fate::Dropped(DropReason::Overflow) => f.write_str("overflow"),
            Fate::Dropped(DropReason::Loss) => f.write_str("lost"),
            Fate::Dropped(DropReason::Aqm) => f.write_str("dropped"),
        }
    }
}

/// 64 bits for `bytes`.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    let mut sum = TraceChecksum::new();
    sum.word(bytes.len() as u64);
    let (words, rest) = bytes.split_at(bytes.len() - bytes.len() % 8);
    for word in words.chunks_exact(8) {
        sum.word(u64::from_le_bytes(word.try_into().expect("chunks have 8 bytes")));
    }
    for byte in rest {
        sum.word(u64::from(*byte));
    }
    sum.0
}

/// A checksum by words of 64 bits, like FNV-1a but folded before and after each product: a word's top
/// bits have to spread as far as its low ones (plain FNV-1a leaves the top bit where it is, and two of
/// them cancel out). It is no defence against those who want it to collide.
#[derive(Clone, Copy, Debug)]
struct TraceChecksum(u64);

impl TraceChecksum {
    const fn new() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }

    fn word(&mut self, word: u64) {
        let mixed = self.0 ^ word;
        // 2^64 divided by the golden ratio: odd, with its bits well spread.
        let product = (mixed ^ (mixed >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 29);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_of_a_packet_counts() {
        let packet = [0x5au8; 45];
        let mut seen = std::collections::BTreeSet::from([hash(&packet)]);
        for bit in 0..packet.len() * 8 {
            let mut changed = packet;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(seen.insert(hash(&changed)), "bit {bit}");
        }
        // Pairs of top bits must not cancel out.
        let mut changed = packet;
        changed[7] ^= 0x80;
        changed[15] ^= 0x80;
        assert!(seen.insert(hash(&changed)));
        assert_ne!(hash(&[0; 8]), hash(&[0; 16]));
    }
}
