/// It counts the source symbols of a lane since the policy began.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneProgress {
    told: u64,
    total: u64,
}

impl LaneProgress {
    /// The lane counts `sources`, from 0 on since the channel has it: where that is fewer than before, it is
    /// another.
    pub fn update(&mut self, sources: u64) -> u64 {
        self.total += sources.checked_sub(self.told).unwrap_or(sources);
        self.told = sources;
        self.total
    }

    /// What the last update said.
    pub fn total(&self) -> u64 {
        self.total
    }
}

/// It knows which boundaries of a channel the open block of a policy has passed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Boundaries {
    // How many lay behind what was sent when the block was empty, or when one was answered.
    seen: u64,
}

impl Boundaries {
    /// `boundaries` lie behind what was sent, and the block holds `k` symbols. Those that lie there already
    /// when a block begins are none of it.
    pub fn observe(&mut self, boundaries: u64, k: u64) {
        if k == 0 {
            self.seen = boundaries;
        }
    }

    /// How many lay behind what was sent when that was looked at last.
    pub fn seen(self) -> u64 {
        self.seen
    }

    /// Whether a boundary came behind the `k` symbols of the block. Says so once.
    pub fn passed(&mut self, boundaries: u64, k: u64) -> bool {
        let new = k > 0 && boundaries != self.seen;
        self.seen = boundaries;
        new
    }
}
