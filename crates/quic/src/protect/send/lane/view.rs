use quickset_base::number::index;

use super::{Lane, Review, SentSymbol, SymbolState};
use crate::protect::policy::{LaneView, RepairCode};

impl Lane {
    /// What a policy may know.
    pub(in crate::protect::send) fn view(&self, review: &Review) -> LaneView {
        let open = self.next() - if self.code() == RepairCode::Rlc { self.base } else { self.owed.open() };
        let at = self.covered.max(self.base);
        let before = self.taken.unwrap_or_default();
        LaneView {
            window: self.window,
            open,
            unprotected: self.unprotected,
            md: review.md,
            ad: review.ad,
            repairs_in_flight: self.repairs.in_flight(),
            repairs_sent: self.counts.repairs - before.repairs,
            repairs_acked: self.counts.repairs_acked - before.repairs_acked,
            sources: self.counts.sources - before.sources,
            source_bytes: self.counts.source_bytes - before.source_bytes,
            first_unprotected: if self.unprotected == 0 {
                None
            } else {
                self.sent.get(index(at - self.base)).map(|sent| sent.at)
            },
            last_source: self.last_source,
            outstanding: self.outstanding,
        }
    }

    /// Debug invariants.
    pub(in crate::protect::send) fn check(&self) {
        for (sid, held) in &self.lost {
            let sent = &self.sent[index(sid - self.base)];
            let state = if held.recovered { SymbolState::Recovered } else { SymbolState::Lost };
            debug_assert_eq!(sent.state, state, "what is held is lost");
            debug_assert!(!held.recovered || (held.tokens.is_empty() && !held.released));
        }
        let open = |sent: &&SentSymbol| matches!(sent.state, SymbolState::InFlight | SymbolState::Lost);
        debug_assert_eq!(self.sent.iter().filter(open).count() as u64, self.outstanding);
        self.owed.check();
        debug_assert!(self.sent.len() as u64 <= self.window, "more than the peer keeps");
    }
}
