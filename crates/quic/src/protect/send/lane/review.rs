use quickset_base::number::{Unsigned as _, index};
use quickset_base::{Duration, Time};

use super::{Lane, LostSymbol};
use crate::protect::policy::RepairCode;
use crate::protect::send::span::{Cover, RepairFate, SpanRepair};

/// What [`Lane::review`] needs to know.
#[derive(Clone, Copy, Debug)]
pub(in crate::protect::send) struct ReviewPatience {
    pub(in crate::protect::send) now: Time,
    /// How long after a repair was sent its effect is known at the latest: 9/8 RTT + max_ack_delay.
    pub(in crate::protect::send) wait: Duration,
    /// How long repair that is still to come is waited for: half a round trip.
    pub(in crate::protect::send) ahead: Duration,
    /// Loss rate, and the policy's ds.
    pub(in crate::protect::send) rate: f64,
    pub(in crate::protect::send) sensitivity: f64,
}

/// What follows from a review.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::protect::send) struct Review {
    /// When what is held is released at the latest.
    pub(in crate::protect::send) until: Option<Time>,
    /// Missing and added degrees of freedom of all spans.
    pub(in crate::protect::send) md: u64,
    pub(in crate::protect::send) ad: u64,
    /// A span wants one repair more (algorithm 1).
    pub(in crate::protect::send) more: bool,
}

impl Lane {
    /// Looks at each span with losses: releases what no repair will help, and says what is to be expected.
    pub(in crate::protect::send) fn review(&mut self, patience: &ReviewPatience) -> Review {
        let mut review = Review::default();
        if self.lost.values().all(|held| held.recovered || held.released) {
            return review;
        }
        let covers = self.owed.covers(self.base, self.next());
        for held in self.lost.values_mut() {
            held.since.get_or_insert(patience.now);
        }
        // FEC-52, rule 1: a block that ended without repair, or that the window cut, has no span that anybody
        // repairs.
        let alone = |sid: &&u64| !covers.iter().any(|cover| cover.holds(**sid));
        let waiting = self.lost.iter().filter(|(_, held)| !held.recovered && !held.released);
        let mut released: Vec<u64> = waiting.map(|(sid, _)| sid).filter(alone).copied().collect();
        for cover in &covers {
            self.review_span(cover, patience, &mut review, &mut released);
        }
        for sid in released {
            self.release(sid);
        }
        review
    }

    fn review_span(
        &self,
        cover: &Cover,
        patience: &ReviewPatience,
        review: &mut Review,
        released: &mut Vec<u64>,
    ) {
        let of_span = |(sid, held): &(&u64, &LostSymbol)| !held.released && cover.holds(**sid);
        let lost: Vec<(u64, bool)> =
            self.lost.iter().filter(of_span).map(|(sid, held)| (*sid, held.recovered)).collect();
        let missing: Vec<u64> =
            lost.iter().filter(|(_, recovered)| !recovered).map(|(sid, _)| *sid).collect();
        if missing.is_empty() {
            return;
        }
        if self.ends_soon(cover, patience) {
            // Asked again by then, whatever becomes of the sender.
            let at = patience.now + patience.ahead;
            review.until = review.until.map_or(Some(at), |until| Some(until.min(at)));
            review.md += missing.len() as u64;
            return;
        }
        let with = |fate| self.repairs.with(fate);
        let arrived =
            with(RepairFate::Acked).filter(|r| lost.iter().any(|(sid, _)| r.cover.holds(*sid))).count();
        let flying: Vec<&SpanRepair> =
            with(RepairFate::InFlight).filter(|r| missing.iter().any(|sid| r.cover.holds(*sid))).collect();
        let (md, ad) = (lost.len() - (lost.len() - missing.len()).max(arrived).min(lost.len()), flying.len());
        review.md += md as u64;
        review.ad += ad as u64;

        let late = flying.iter().map(|repair| repair.sent + patience.wait).max();
        let before = released.len();
        let covered = |fate, sid: u64| with(fate).any(|repair| repair.cover.holds(sid));
        // Where rows and columns cross, what one repair brings back may make another of use: none is alone.
        let crossed = matches!(self.code(), RepairCode::Xor2d { .. });
        // FEC-52, rule 3: all repair over it arrived, and nothing was reported.
        let in_vain = |sid: &u64| {
            let open = covered(RepairFate::InFlight, *sid) || covered(RepairFate::Lost, *sid);
            !open && covered(RepairFate::Acked, *sid)
        };
        match late {
            Some(at) if at > patience.now && (crossed || !missing.iter().any(in_vain)) => {
                let uncovered =
                    |sid: &&u64| !crossed && !flying.iter().any(|repair| repair.cover.holds(**sid));
                released.extend(missing.iter().filter(uncovered));
                // The oldest of those that the repairs in flight cannot all bring back.
                let short = md.saturating_sub(ad);
                let gone = released.len() - before;
                let rest: Vec<u64> =
                    missing.iter().filter(|sid| !released[before..].contains(sid)).copied().collect();
                released.extend(rest.into_iter().take(short.saturating_sub(gone)));
                let at = self.overdue(&missing, patience, released).map_or(at, |due| due.min(at));
                review.until = review.until.map_or(Some(at), |until| Some(until.min(at)));
            }
            _ => released.extend(&missing),
        }
        if released.len() == before {
            let ratio = md.approx() / ad.max(1).approx();
            review.more |= 1.0 - patience.rate - ratio < patience.sensitivity - 2e-6;
        }
    }

    /// The block that `cover` is is open, and at the pace of its symbols its columns follow soon: what its
    /// rows do not bring back, they may.
    fn ends_soon(&self, cover: &Cover, patience: &ReviewPatience) -> bool {
        let RepairCode::Xor2d { rows, columns } = self.code() else { return false };
        let full = (u64::from(rows) * u64::from(columns)).min(self.window);
        let Some(first) = self.sent.get(index(self.owed.open() - self.base)) else { return false };
        if !self.is_taken() || cover.first != self.owed.open() || cover.terms == 0 {
            return false;
        }
        let elapsed = patience.now.since(first.at).as_nanos();
        elapsed * u128::from(full.saturating_sub(cover.terms))
            <= patience.ahead.as_nanos() * u128::from(cover.terms)
    }

    /// FEC-52, rule 5: repair that follows repair covers a symbol for ever, and a resend would have been
    /// there long ago. Releases what has waited that long, and says when the next will have.
    fn overdue(&self, missing: &[u64], patience: &ReviewPatience, released: &mut Vec<u64>) -> Option<Time> {
        let mut next: Option<Time> = None;
        for sid in missing {
            let Some(since) = self.lost.get(sid).and_then(|held| held.since) else { continue };
            let due = since + patience.wait;
            if due > patience.now {
                next = Some(next.map_or(due, |other| other.min(due)));
            } else if !released.contains(sid) {
                released.push(*sid);
            }
        }
        next
    }
}
