/// Source symbols of a lane since the policy began.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    told: u64,
    total: u64,
}

impl Progress {
    /// The lane counts `sources`. Called with each question, between two of which at most one symbol is sent: a larger
    /// step means that another channel had the lane before.
    pub(super) fn update(&mut self, sources: u64) -> u64 {
        self.total += u64::from(sources > self.told);
        self.told = sources;
        self.total
    }
}

/// Which boundaries of a channel its open block has passed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Boundaries {
    // How many lay behind what was sent when the block was empty, or when one was answered.
    seen: u64,
}

impl Boundaries {
    /// `boundaries` lie behind what was sent, and the block holds `k` symbols. Those that lie there already when a
    /// block begins are none of it.
    pub(super) fn observe(&mut self, boundaries: u64, k: u64) {
        if k == 0 {
            self.seen = boundaries;
        }
    }

    /// Whether a boundary came behind the `k` symbols of the block. Says so once.
    pub(super) fn passed(&mut self, boundaries: u64, k: u64) -> bool {
        let new = k > 0 && boundaries != self.seen;
        self.seen = boundaries;
        new
    }
}
