/// Remembers that field lines were seen lately, as fingerprints in a ring.
#[derive(Debug)]
pub(super) struct Recent {
    seen: [u32; Self::SIZE],
    next: usize,
}

impl Recent {
    /// Enough for the changing lines of some tens of messages.
    const SIZE: usize = 256;

    /// Whether a line was seen lately; from now on it was. Two lines with one fingerprint cost an entry, no
    /// more.
    pub(super) fn saw(&mut self, name: &[u8], value: &[u8]) -> bool {
        let print = fingerprint(name, value);
        if self.seen.contains(&print) {
            return true;
        }
        self.seen[self.next] = print;
        self.next = (self.next + 1) % Self::SIZE;
        false
    }
}

impl Default for Recent {
    fn default() -> Self {
        Self { seen: [0; Self::SIZE], next: 0 }
    }
}

/// FNV-1a, the same in every run, never 0.
fn fingerprint(name: &[u8], value: &[u8]) -> u32 {
    let hash = name
        .iter()
        .chain(b":")
        .chain(value)
        .fold(0x811c_9dc5_u32, |h, &b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    hash | 1
}
