use alloc::vec::Vec;

use super::XorLayout;
use crate::gf256::Kernel;

/// Repair symbols that accumulate while the block grows: each source is added as it is sent and not kept.
#[derive(Clone, Debug)]
pub struct Encoder {
    layout: XorLayout,
    sums: Vec<Vec<u8>>,
    count: usize,
}

impl Encoder {
    /// An empty block.
    pub fn new(layout: XorLayout) -> Self {
        Self { layout, sums: Vec::new(), count: 0 }
    }

    /// Adds the next source symbol.
    pub fn add(&mut self, source: &[u8]) {
        for index in self.layout.repairs_of(self.count) {
            if self.sums.len() <= index {
                self.sums.resize_with(index + 1, Vec::new);
            }
            let sum = &mut self.sums[index];
            if sum.len() < source.len() {
                sum.resize(source.len(), 0);
            }
            Kernel::best().sum(sum, &[source]);
        }
        self.count += 1;
    }

    /// Source symbols added.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Repair symbol `index` of what was added, as long as its longest source. Empty if it has none.
    pub fn repair(&self, index: usize) -> &[u8] {
        self.sums.get(index).map_or(&[], Vec::as_slice)
    }

    /// All repair symbols, by number; see [`XorLayout::repairs`].
    pub fn repairs(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.layout.repairs(self.count)).map(|index| self.repair(index))
    }

    /// Begins the next block.
    pub fn clear(&mut self) {
        self.sums.clear();
        self.count = 0;
    }
}

/// Writes repair symbol `index` of a block that is there as a whole into `repair`, in one pass.
pub fn encode(layout: XorLayout, sources: &[&[u8]], index: usize, repair: &mut Vec<u8>) {
    let terms: Vec<&[u8]> = layout.terms(sources.len(), index).map(|j| sources[j]).collect();
    repair.clear();
    repair.resize(terms.iter().map(|s| s.len()).max().unwrap_or_default(), 0);
    Kernel::best().sum(repair, &terms);
}
