use quickset_quic::policy::{
    Boundaries, Carried, CodingView, LaneConfig, Pattern, ReliabilityPolicy, RepairCode,
};

/// Two-dimensional XOR at fences (2022: 20x20, 20x40, 40x40): the sum of each row as it ends, those of the
/// columns when the fence comes or the block is full.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    rows: u16,
    columns: u16,
    // Rows of the open block that were answered.
    rows_sent: u64,
    boundaries: Boundaries,
}

impl Grid {
    /// Both are at least 1.
    pub(super) fn new(rows: u16, columns: u16) -> Self {
        Self { rows: rows.max(1), columns: columns.max(1), rows_sent: 0, boundaries: Boundaries::default() }
    }
}

impl ReliabilityPolicy for Grid {
    fn protect(&mut self, view: &CodingView<'_>, carried: Carried) -> Option<LaneConfig> {
        let lane = &view.lanes[0];
        self.boundaries.observe(view.demand.boundaries, lane.open);
        if carried.resend && lane.open == 0 {
            return None;
        }
        let code = RepairCode::Xor2d { rows: self.rows, columns: self.columns };
        Some(LaneConfig { index: 0, code, share: LaneConfig::WHOLE })
    }

    fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
        let lane = &view.lanes[0];
        let (k, columns) = (lane.open, u64::from(self.columns));
        let full = (u64::from(self.rows) * columns).min(lane.window);
        let ends = self.boundaries.passed(view.demand.boundaries, lane.open) || k >= full;
        if k == 0 {
            self.rows_sent = 0;
            return Pattern::No;
        }
        // The open block has fewer rows than were answered: it is another.
        if k / columns < self.rows_sent {
            self.rows_sent = 0;
        }
        let n = if ends {
            // The rest of the rows with the one that the fence cut, then the columns; one symbol needs one
            // copy.
            let rest = k.div_ceil(columns) - self.rows_sent + columns.min(k);
            self.rows_sent = 0;
            if k == 1 { 1 } else { rest }
        } else {
            let ended = k / columns - self.rows_sent;
            self.rows_sent += ended;
            ended
        };
        if n == 0 {
            Pattern::No
        } else {
            Pattern::Repair { lane: 0, n: u32::try_from(n).unwrap_or(u32::MAX) }
        }
    }

    fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
        -view.loss.rate
    }

    fn quiet_for(&self, view: &CodingView<'_>) -> u64 {
        let (open, columns) = (view.lanes[0].open, u64::from(self.columns));
        // A block begins with a question, since only then it is known to be another.
        if open == 0 { 0 } else { (columns - open % columns).min(view.lanes[0].window.saturating_sub(open)) }
    }
}
