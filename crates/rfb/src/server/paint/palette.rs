use quickset_base::number::Unsigned as _;

/// The colours of some pixels, in the order in which they were met: at most 256.
pub(super) struct SmallPalette {
    colours: [u32; Self::MOST],
    len: usize,
    /// Open addressing: the number of a colour plus one, 0 for none.
    slots: [u16; SLOTS],
}

impl SmallPalette {
    /// An index is a byte.
    pub(super) const MOST: usize = 256;

    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.slots = [0; SLOTS];
    }

    pub(super) fn colours(&self) -> &[u32] {
        &self.colours[..self.len]
    }

    /// Adds the colours of `row`. False when there are more than `most`; then it holds as many as these.
    pub(super) fn add(&mut self, row: &[u32], most: usize) -> bool {
        let Some(&first) = row.first() else { return true };
        // Neighbours are mostly alike.
        let mut last = !first;
        row.iter().all(|&colour| colour == std::mem::replace(&mut last, colour) || self.insert(colour, most))
    }

    /// Holds what `other` does, and nothing else.
    pub(super) fn copy(&mut self, other: &Self) {
        self.clear();
        self.add(other.colours(), Self::MOST);
    }

    /// Adds the colours of `other`; false, and none is added, when they would be too many.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        let new = other.colours().iter().filter(|&&colour| self.slots[self.slot(colour)] == 0).count();
        self.len + new <= Self::MOST && self.add(other.colours(), Self::MOST)
    }

    /// The number of a colour that is held.
    pub(super) fn index(&self, colour: u32) -> u8 {
        let slot = self.slots[self.slot(colour)];
        debug_assert_ne!(slot, 0, "{colour:06x} was added");
        (slot.max(1) - 1).saturated()
    }

    /// Gives `each` the number of the colour of every pixel of `row`, in its order.
    pub(super) fn indices(&self, row: &[u32], mut each: impl FnMut(u8)) {
        let Some(&first) = row.first() else { return };
        let (mut last, mut index) = (first, self.index(first));
        for &colour in row {
            if colour != last {
                (last, index) = (colour, self.index(colour));
            }
            each(index);
        }
    }

    fn insert(&mut self, colour: u32, most: usize) -> bool {
        let slot = self.slot(colour);
        if self.slots[slot] == 0 {
            if self.len == most {
                return false;
            }
            self.colours[self.len] = colour;
            self.len += 1;
            self.slots[slot] = self.len.saturated();
        }
        true
    }

    /// Where `colour` is, or would be.
    fn slot(&self, colour: u32) -> usize {
        let mut slot = (colour.wrapping_mul(0x9e37_79b1) >> 22) as usize;
        loop {
            match self.slots[slot] {
                0 => return slot,
                n if self.colours[usize::from(n) - 1] == colour => return slot,
                _ => slot = (slot + 1) % SLOTS,
            }
        }
    }
}

impl Default for SmallPalette {
    fn default() -> Self {
        Self { colours: [0; Self::MOST], len: 0, slots: [0; SLOTS] }
    }
}

/// Four for each colour: what is looked for is mostly where it is looked for first.
const SLOTS: usize = 1024;
