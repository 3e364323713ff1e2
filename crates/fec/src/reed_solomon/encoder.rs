use alloc::vec;
use alloc::vec::Vec;
#[cfg(not(feature = "std"))]
use core::cell::OnceCell as Once;
#[cfg(feature = "std")]
use std::sync::OnceLock as Once;

use super::{Error, MAX_SYMBOLS, NUMBERS};
use crate::gf256::{Base, Columns, Kernel, POINTS};

/// Repair symbols that accumulate while the block is open: sources are added as they are sent and not kept,
/// but for a copy of the last few, which are added together.
///
/// The number of repair symbols is fixed beforehand, that of sources is not.
#[derive(Clone, Debug)]
pub struct Encoder {
    /// Of all sources but those that wait.
    sums: Vec<Vec<u8>>,
    waiting: Vec<Vec<u8>>,
    sources: usize,
    /// The sums of all sources, where some wait and somebody has asked.
    repairs: Once<Vec<Vec<u8>>>,
}

impl Encoder {
    /// An empty block that will have `repairs` repair symbols, at most 255.
    pub fn new(repairs: usize) -> Result<Self, Error> {
        if repairs >= MAX_SYMBOLS {
            return Err(Error::Index);
        }
        let waiting = vec![Vec::new(); TOGETHER];
        Ok(Self { sums: vec![Vec::new(); repairs], waiting, sources: 0, repairs: Once::new() })
    }

    /// Adds the next source symbol. [`Error::Index`] if the block is full, 256 symbols with the repairs.
    pub fn add(&mut self, source: &[u8]) -> Result<(), Error> {
        if self.sources + self.sums.len() >= MAX_SYMBOLS {
            return Err(Error::Index);
        }
        self.repairs.take();
        let place = &mut self.waiting[self.sources % TOGETHER];
        place.clear();
        place.extend_from_slice(source);
        self.sources += 1;
        if self.sources % TOGETHER == 0 {
            add(&mut self.sums, &self.waiting, self.sources - TOGETHER);
        }
        Ok(())
    }

    /// Source symbols added.
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// The repair symbols of what was added, each as long as the longest source. Meant for the end of the
    /// block: it is the first call after an [`add`](Self::add) that adds what waits, and to a copy.
    pub fn repairs(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let waiting = &self.waiting[..self.sources % TOGETHER];
        let repairs = if waiting.is_empty() {
            &self.sums
        } else {
            self.repairs.get_or_init(|| {
                let mut sums = self.sums.clone();
                add(&mut sums, waiting, self.sources - waiting.len());
                sums
            })
        };
        repairs.iter().map(Vec::as_slice)
    }

    /// Begins the next block and keeps the buffers.
    pub fn clear(&mut self) {
        self.sums.iter_mut().for_each(Vec::clear);
        self.repairs.take();
        self.sources = 0;
    }
}

/// Adds sources from number `first` on, a multiple of `TOGETHER`.
fn add(sums: &mut [Vec<u8>], sources: &[Vec<u8>], first: usize) {
    let mut slices = [&[][..]; TOGETHER];
    let mut longest = 0;
    for (slice, source) in slices.iter_mut().zip(sources) {
        longest = longest.max(source.len());
        *slice = source;
    }
    let mut buffers: Vec<&mut [u8]> = Vec::with_capacity(sums.len());
    for sum in sums {
        if sum.len() < longest {
            sum.resize(longest, 0);
        }
        buffers.push(sum);
    }
    let rows = &NUMBERS[..buffers.len()];
    Kernel::best().columns(
        &mut buffers,
        rows,
        Columns::new(first / POINTS, &slices[..sources.len()], Base::Sums),
    );
}

/// Sources that are added together: the repair symbols are read and written once for all of them, which takes
/// a microsecond for five of 1500 bytes. With half as many a block of 100 takes a tenth longer.
const TOGETHER: usize = 4 * POINTS;
