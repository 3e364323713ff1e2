use super::{Error, MAX_SYMBOLS};
use crate::gf256::{Kernel, cauchy};

/// Repair symbols that accumulate while the block is open: each source is added as it is sent and not kept.
///
/// The number of repair symbols is fixed beforehand, that of sources is not.
#[derive(Clone, Debug)]
pub struct Encoder {
    repairs: Vec<Vec<u8>>,
    sources: usize,
}

impl Encoder {
    /// An empty block that will have `repairs` repair symbols, at most 255.
    pub fn new(repairs: usize) -> Result<Self, Error> {
        if repairs >= MAX_SYMBOLS {
            return Err(Error::Index);
        }
        Ok(Self { repairs: vec![Vec::new(); repairs], sources: 0 })
    }

    /// Adds the next source symbol. [`Error::Index`] if the block is full, 256 symbols with the repairs.
    pub fn add(&mut self, source: &[u8]) -> Result<(), Error> {
        if self.sources + self.repairs.len() >= MAX_SYMBOLS {
            return Err(Error::Index);
        }
        let term = self.sources as u8;
        let column: Vec<u8> = (0..self.repairs.len() as u8)
            .map(|row| cauchy(term, row).expect("the block is small enough"))
            .collect();
        let mut sums: Vec<&mut [u8]> = Vec::with_capacity(self.repairs.len());
        for repair in &mut self.repairs {
            if repair.len() < source.len() {
                repair.resize(source.len(), 0);
            }
            sums.push(repair);
        }
        Kernel::best().scatter(&mut sums, &column, source);
        self.sources += 1;
        Ok(())
    }

    /// Source symbols added.
    pub fn sources(&self) -> usize {
        self.sources
    }

    /// The repair symbols of what was added, each as long as the longest source.
    pub fn repairs(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.repairs.iter().map(Vec::as_slice)
    }

    /// Begins the next block and keeps the buffers.
    pub fn clear(&mut self) {
        self.repairs.iter_mut().for_each(Vec::clear);
        self.sources = 0;
    }
}
