use quickset_base::Time;

use super::lane::{Lane, Review};
use super::{Outlook, WindowSlot};
use crate::protect::policy::{self, LaneView, Pattern, ReliabilityPolicy};

/// A channel with a policy.
#[derive(Debug)]
pub(super) struct CodedChannel {
    pub(super) policy: Box<dyn ReliabilityPolicy>,
    pub(super) lanes: [Option<usize>; policy::MAX_LANES],
    /// When the policy or a release rule wants to be asked again.
    pub(super) wake: Option<Time>,
    /// Missing and added degrees of freedom as last found.
    reviews: [Review; policy::MAX_LANES],
}

/// What a channel wants now.
pub(super) struct ChannelDecision {
    pub(super) slot: Option<WindowSlot>,
    /// When to be asked again, whatever happens.
    pub(super) wake: Option<Time>,
    /// For so many packets it will want nothing.
    pub(super) quiet: u64,
}

impl CodedChannel {
    pub(super) fn new(policy: Box<dyn ReliabilityPolicy>) -> Self {
        Self { policy, lanes: Default::default(), wake: None, reviews: Default::default() }
    }

    pub(super) fn views(&self, lanes: &[Lane]) -> [LaneView; policy::MAX_LANES] {
        std::array::from_fn(|at| match self.lanes[at] {
            Some(lane) => lanes[lane].view(&self.reviews[at]),
            None => LaneView::default(),
        })
    }

    /// FlEC, algorithm 1: repair by the pattern; else what a span wants, oldest first; else new data.
    pub(super) fn decide(&mut self, lanes: &mut [Lane], outlook: &Outlook<'_>) -> ChannelDecision {
        let mut view = outlook.view(&self.views(lanes));
        let patience = outlook.patience(self.policy.delay_sensitivity(&view));
        let mut wake: Option<Time> = None;
        let mut sooner = |at: Time| wake = Some(wake.map_or(at, |other| other.min(at)));
        // To tell a policy the same again costs more than most of them.
        let mut is_stale = false;
        for (at, lane) in self.lanes.iter().enumerate() {
            if let Some(lane) = *lane {
                let review = lanes[lane].review(&patience);
                review.until.into_iter().for_each(&mut sooner);
                is_stale |= review != std::mem::replace(&mut self.reviews[at], review);
            }
        }
        // A policy may close one block and go on with the next at once, but not for ever.
        for _ in 0..2 * policy::MAX_LANES {
            if std::mem::take(&mut is_stale) {
                view = outlook.view(&self.views(lanes));
            }
            match self.policy.fec_pattern(&view) {
                Pattern::Repair { lane, n } if n > 0 => {
                    is_stale = true;
                    if let Some(at) = self.lanes.get(usize::from(lane)).copied().flatten() {
                        lanes[at].plan(n);
                        if lanes[at].owes_repair() {
                            return ChannelDecision::of(WindowSlot::Repair(at), wake);
                        }
                    }
                }
                Pattern::Close(lane) => {
                    is_stale = true;
                    if let Some(at) = self.lanes.get(usize::from(lane)).copied().flatten() {
                        lanes[at].close();
                    }
                }
                Pattern::WakeAt(at) if at > outlook.now => {
                    sooner(at);
                    break;
                }
                Pattern::No | Pattern::Repair { .. } | Pattern::WakeAt(_) => break,
            }
        }
        for (at, lane) in self.lanes.iter().enumerate() {
            let Some(lane) = *lane else { continue };
            if lanes[lane].owes_repeat() {
                return ChannelDecision::of(WindowSlot::Repeat(lane), wake);
            }
            if self.reviews[at].more {
                lanes[lane].add();
                if lanes[lane].owes_repair() {
                    return ChannelDecision::of(WindowSlot::Repair(lane), wake);
                }
            }
        }
        if is_stale {
            view = outlook.view(&self.views(lanes));
        }
        // Without a symbol under way there is nothing to repair before there is one.
        let least = u64::from(view.lanes.iter().all(|lane| lane.outstanding == 0));
        ChannelDecision { slot: None, wake, quiet: self.policy.quiet_for(&view).max(least) }
    }
}

impl ChannelDecision {
    fn of(slot: WindowSlot, wake: Option<Time>) -> Self {
        Self { slot: Some(slot), wake, quiet: 0 }
    }
}
