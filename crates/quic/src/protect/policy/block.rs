use super::boundary::Boundaries;
use super::{Carried, CodingView, LaneConfig, Pattern, ReliabilityPolicy, RepairCode};

/// A block for each fence: what was sent since the last boundary, and n - k repair symbols right behind it
/// (2025: Reed-Solomon 103/100, 105/100, 110/100; also LDPC, and XOR whose depth is the redundancy). In
/// bytes, where there are no fences, blocks have the size that the ratio names until the first flush.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockAtFence {
    code: RepairCode,
    // n0 and k0: redundancy as a ratio.
    ratio: (u32, u32),
    boundaries: Boundaries,
}

impl BlockAtFence {
    /// A block of k symbols gets `ceil(k·(n0 - k0)/k0)` repair symbols. `n0` is at least `k0`, and that at
    /// least 1.
    pub(super) fn new(code: RepairCode, n0: u32, k0: u32) -> Self {
        Self { code, ratio: (n0, k0.max(1)), boundaries: Boundaries::default() }
    }

    /// Symbols of a block where no fence ends it.
    fn size(&self) -> u64 {
        match self.code {
            RepairCode::Xor { depth } => USUAL.max(u64::from(depth)),
            _ => u64::from(self.ratio.1),
        }
    }

    fn repairs(&self, k: u64) -> u64 {
        let (n0, k0) = self.ratio;
        let share = k.saturating_mul(u64::from(n0.saturating_sub(k0))).div_ceil(u64::from(k0));
        match self.code {
            RepairCode::Xor { depth } => u64::from(depth).min(k),
            _ if share == 0 => 0,
            RepairCode::ReedSolomon { stride } => {
                let parts = parts(k, stride);
                // Repair i of a part of at most 128 has k + i <= 255.
                share.max(parts).min(parts * (255 - MAX_PART))
            }
            // The shortest staircase has three steps, and there is none over a single symbol (RFC 6816).
            RepairCode::Ldpc if k < 2 => 0,
            RepairCode::Ldpc => share.max(3),
            RepairCode::Xor2d { .. } | RepairCode::Rlc => share,
        }
    }
}

impl ReliabilityPolicy for BlockAtFence {
    fn protect(&mut self, view: &CodingView<'_>, carried: Carried) -> Option<LaneConfig> {
        let lane = &view.lanes[0];
        self.boundaries.observe(view.demand.boundaries, lane.open);
        // A resend belongs to a boundary that was passed: alone it would open a block that none closes.
        if carried.resend && lane.open == 0 {
            return None;
        }
        Some(LaneConfig { index: 0, code: self.code, share: LaneConfig::WHOLE })
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        let passed = self.boundaries.passed(view.demand.boundaries, lane.open);
        let endless = !view.demand.messages && view.demand.boundaries == 0 && lane.open >= self.size();
        if !passed && !endless && lane.open < lane.window {
            return Pattern::No;
        }
        match u32::try_from(self.repairs(lane.open)).unwrap_or(u32::MAX) {
            _ if lane.open == 0 => Pattern::No,
            0 => Pattern::Close(0),
            n => Pattern::Repair { lane: 0, n },
        }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }

    fn quiet_for(&self, view: &CodingView<'_>) -> u64 {
        let lane = &view.lanes[0];
        let endless = !view.demand.messages && view.demand.boundaries == 0;
        let full = if endless { self.size().min(lane.window) } else { lane.window };
        full.saturating_sub(lane.open)
    }
}

/// The papers' block.
const USUAL: u64 = 100;

/// Into how many parts a Reed-Solomon block of `k` symbols is interleaved.
pub(in crate::protect) fn parts(k: u64, stride: u16) -> u64 {
    u64::from(stride).max(k.div_ceil(MAX_PART)).clamp(1, k.max(1))
}

/// Symbols of a part at most: half of the field remains for repair.
pub(super) const MAX_PART: u64 = 128;
