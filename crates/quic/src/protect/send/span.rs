use quickset_base::Time;

/// The symbols that a repair sums: `terms` of them, each `stride`-th from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cover {
    pub(super) first: u64,
    pub(super) terms: u64,
    pub(super) stride: u64,
}

impl Cover {
    /// A run without gaps.
    pub(super) fn run(first: u64, terms: u64) -> Self {
        Self { first, terms, stride: 1 }
    }

    /// Whether symbol `sid` is one of them.
    #[inline]
    pub(super) fn holds(&self, sid: u64) -> bool {
        sid >= self.first
            && (sid - self.first) % self.stride == 0
            && (sid - self.first) / self.stride < self.terms
    }

    /// The first SID behind all of them.
    pub(super) fn end(&self) -> u64 {
        self.first + self.terms.saturating_sub(1) * self.stride + u64::from(self.terms > 0)
    }
}

/// Symbols of a closed block that are repaired together.
#[derive(Debug)]
pub(super) struct RepairSpan {
    pub(super) cover: Cover,
    pub(super) shape: SpanShape,
    /// Repair symbols that are still to be sent.
    pub(super) planned: u32,
    /// The index of the next one.
    pub(super) next: u32,
    /// So many of its symbols, from the first on, are known to be settled.
    pub(super) settled: u64,
    /// One of its symbols was lost for good and had to be sent again.
    pub(super) failed: bool,
}

/// How the repair symbols of a span are made.
#[derive(Debug)]
pub(super) enum SpanShape {
    /// Interleaved XOR over the whole block.
    Xor { depth: u16 },
    /// Rows were sent as they ended; columns and what is left of the last row remain.
    Xor2d { columns: u16, rows_sent: u32 },
    /// Reed-Solomon with the cover's own stride, and the repair symbols that were made together: one pass
    /// over the block gives them all.
    ReedSolomon(Vec<Vec<u8>>),
    /// Made when the block was closed.
    Ldpc(Vec<Vec<u8>>),
}

/// A repair symbol on its way, or what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct SpanRepair {
    pub(super) cover: Cover,
    pub(super) sent: Time,
    pub(super) fate: RepairFate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RepairFate {
    InFlight,
    Acked,
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cover_holds_each_stride_th_symbol() {
        let cover = Cover { first: 10, terms: 3, stride: 4 };
        let held: Vec<u64> = (0..40).filter(|sid| cover.holds(*sid)).collect();
        assert_eq!(held, [10, 14, 18]);
        assert_eq!(cover.end(), 19);
        assert_eq!(Cover::run(5, 0).end(), 5);
    }
}
