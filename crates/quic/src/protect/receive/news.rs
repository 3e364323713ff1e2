use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use quickset_base::number::within_u32;
use quickset_wire::frame::symbol_ack;

use crate::packet::{FrameToken, PacketWriter};

/// What was recovered of a session and the encoder may not know (FEC-38).
#[derive(Debug, Default)]
pub(super) struct RecoveryNews {
    /// SIDs, and before which report they were recovered.
    sids: BTreeMap<u64, u64>,
    /// The number of the next report.
    epoch: u64,
}

impl RecoveryNews {
    pub(super) fn is_empty(&self) -> bool {
        self.sids.is_empty()
    }

    /// A symbol was recovered.
    pub(super) fn recovered(&mut self, sid: u64) {
        self.sids.insert(sid, self.epoch);
    }

    /// What lies below is of no interest any more.
    pub(super) fn forget_below(&mut self, sid: u64) {
        while self.sids.first_key_value().is_some_and(|(first, _)| *first < sid) {
            self.sids.pop_first();
        }
    }

    /// The report of this number, which told of SIDs from `first` on, reached the encoder.
    pub(super) fn acked(&mut self, epoch: u64, first: u64) {
        self.sids.retain(|sid, since| *since > epoch || *sid < first);
    }

    /// Writes a SYMBOL_ACK. False when there is no room.
    pub(super) fn write(&mut self, w: &mut PacketWriter<'_>, session: u64) -> bool {
        let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
        for &sid in self.sids.keys().rev() {
            match ranges.last_mut() {
                Some(range) if *range.start() == sid + 1 => *range = sid..=*range.end(),
                _ => ranges.push(sid..=sid),
            }
        }
        if w.room() < MIN_ROOM {
            return false;
        }
        let told = symbol_ack(w.bytes(), session, ranges.iter().cloned());
        let Some(last) = told.checked_sub(1) else { return false };
        // FEC-39: those that were left out have their turn when the newer ones are known to have been told.
        let first = *ranges[last].start();
        w.record(FrameToken::SymbolAck { session: within_u32(session), epoch: self.epoch, first }, false);
        self.epoch += 1;
        true
    }
}

/// A header and one range.
const MIN_ROOM: usize = 32;

#[cfg(test)]
mod tests {
    use quickset_wire as wire;
    use quickset_wire::frame::{Frame, Frames};

    use super::*;

    fn write(news: &mut RecoveryNews, room: usize) -> (Vec<RangeInclusive<u64>>, Vec<FrameToken>) {
        let (mut bytes, mut tokens) = (vec![0; room], Vec::new());
        let mut w = PacketWriter::new(wire::Writer::new(&mut bytes), &mut tokens);
        news.write(&mut w, 12);
        let len = w.len();
        let ranges = match Frames::new(&bytes[..len]).next() {
            Some(Ok(Frame::SymbolAck(ack))) => ack.ranges().collect(),
            None => Vec::new(),
            other => panic!("{other:?}"),
        };
        (ranges, tokens)
    }

    #[test]
    fn what_was_recovered_is_told_until_it_is_known_to_have_arrived() {
        let mut news = RecoveryNews::default();
        for sid in [5, 6, 9] {
            news.recovered(sid);
        }
        let (ranges, tokens) = write(&mut news, 1000);
        assert_eq!(ranges, [9..=9, 5..=6]);
        assert_eq!(tokens, [FrameToken::SymbolAck { session: 12, epoch: 0, first: 5 }]);
        news.recovered(7);
        assert_eq!(write(&mut news, 1000).0, [9..=9, 5..=7]);
        // The first report arrives: 7 was not in it.
        news.acked(0, 5);
        assert_eq!(write(&mut news, 1000).0, [7..=7]);
        news.acked(2, 7);
        assert!(news.is_empty());
    }

    /// FEC-38: each is told, though they are more than a report may have.
    #[test]
    fn what_a_report_leaves_out_is_told_when_the_others_are() {
        let mut news = RecoveryNews::default();
        (0..80).for_each(|i| news.recovered(2 * i));
        let mut told = Vec::new();
        for (epoch, expected) in [(0, 96..=158), (1, 32..=94), (2, 0..=30)] {
            let (ranges, tokens) = write(&mut news, 1000);
            assert!(ranges.len() <= 32, "FEC-39");
            assert_eq!(
                (*ranges[0].end(), *ranges[ranges.len() - 1].start()),
                (*expected.end(), *expected.start())
            );
            assert_eq!(tokens, [FrameToken::SymbolAck { session: 12, epoch, first: *expected.start() }]);
            told.extend(ranges);
            assert_eq!(write(&mut news, 16).0, [], "no room");
            news.acked(epoch, *expected.start());
        }
        assert!(news.is_empty() && told.len() == 80);
        (0..40).for_each(|i| news.recovered(2 * i));
        news.forget_below(70);
        assert_eq!(write(&mut news, 1000).0.len(), 5);
    }
}
