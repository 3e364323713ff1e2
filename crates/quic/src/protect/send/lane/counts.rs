use std::ops::Add;

/// What a lane did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LaneCounts {
    pub(crate) sources: u64,
    pub(crate) source_bytes: u64,
    pub(crate) repeats: u64,
    pub(crate) repairs: u64,
    pub(crate) repairs_acked: u64,
    pub(crate) repair_bytes: u64,
    /// Symbols of which a SYMBOL_ACK told.
    pub(crate) recovered: u64,
    /// Lost symbols that were sent again.
    pub(crate) unrecovered: u64,
    pub(crate) blocks: u64,
    pub(crate) failed_blocks: u64,
}

impl Add for LaneCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            sources: self.sources + other.sources,
            source_bytes: self.source_bytes + other.source_bytes,
            repeats: self.repeats + other.repeats,
            repairs: self.repairs + other.repairs,
            repairs_acked: self.repairs_acked + other.repairs_acked,
            repair_bytes: self.repair_bytes + other.repair_bytes,
            recovered: self.recovered + other.recovered,
            unrecovered: self.unrecovered + other.unrecovered,
            blocks: self.blocks + other.blocks,
            failed_blocks: self.failed_blocks + other.failed_blocks,
        }
    }
}
