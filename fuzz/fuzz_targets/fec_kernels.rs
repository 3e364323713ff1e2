//! The kernels of this machine, each of which the input may choose: whatever they multiply and add, wherever
//! it lies, they write what the scalar one does, and nothing beside.
//!
//! They are built here once more, the widest among them: those of the crate that other targets use are
//! without, since under a sanitizer these take minutes to compile.
//!
//! The first byte is the kernel, the second the call; then come how many sources and sums there are, how long
//! they are, and how they differ. Their bytes are made of a number.
#![no_main]

extern crate alloc;

#[path = "../../crates/fec/src/gf256/mod.rs"]
#[expect(dead_code, unused_imports, reason = "codes call more of it")]
mod gf256;
#[path = "../../crates/fec/src/number.rs"]
#[expect(dead_code, reason = "codes call more of it")]
mod number;
#[path = "../../crates/fec/src/rlc.rs"]
mod rlc;

use gf256::Kernel;
use libfuzzer_sys::fuzz_target;
use quickset_fuzz::Bytes;

fuzz_target!(|input: &[u8]| {
    let mut input = Bytes(input);
    let kernels: Vec<Kernel> = Kernel::available().collect();
    let kernel = kernels[usize::from(input.next()) % kernels.len()];
    let call = input.next() % CALLS;
    if call == HASHES {
        return hashes(kernel, &mut input);
    }
    let count = match input.next() {
        // As many as there can be, now and then: they take long.
        n @ 250.. => n,
        n => n % 40,
    };
    let len = (usize::from(input.next()) << 8 | usize::from(input.next())) % MAX_LEN;
    let sources: Vec<Place> = (0..count).map(|n| Place::new(&mut input, len, u64::from(n) + 1)).collect();
    let sources: Vec<&[u8]> = sources.iter().map(Place::bytes).collect();
    let longest = sources.iter().map(|source| source.len()).max().unwrap_or(0);
    let rows = if call == SUM { 1 } else { input.next() % 20 };
    // A row has a coefficient for each source: their numbers are below 255 together. No row is asked for
    // twice.
    let mut rows: Vec<u8> =
        (0..rows).map(|_| (u16::from(input.next()) % (256 - u16::from(count))) as u8).collect();
    let mut seen = [false; 256];
    rows.retain(|row| !std::mem::replace(&mut seen[usize::from(*row)], true));
    let coefficients: Vec<u8> = match call {
        COMBINE => rows.iter().flat_map(|_| 0..count).map(|_| input.next()).collect(),
        SUM => vec![1; sources.len()],
        SCALE => Vec::new(),
        _ => rows
            .iter()
            .flat_map(|&row| (0..count).map(move |j| gf256::cauchy(j, row).expect("there is one")))
            .collect(),
    };
    let mut sums: Vec<Place> = rows.iter().map(|_| Place::sum(&mut input, longest)).collect();
    if call == SCALE {
        for (place, factor) in sums.iter_mut().zip(rows) {
            let expected: Vec<u8> = place.bytes().iter().map(|&byte| gf256::mul(byte, factor)).collect();
            kernel.scale(place.bytes_mut(), factor);
            assert_eq!(place.bytes(), expected, "{kernel:?}");
            place.check(kernel);
        }
        return;
    }
    let mut expected: Vec<Vec<u8>> = sums.iter().map(|sum| sum.bytes().to_vec()).collect();
    let mut twins: Vec<&mut [u8]> = expected.iter_mut().map(Vec::as_mut_slice).collect();
    Kernel::SCALAR.combine(&mut twins, &coefficients, &sources);
    let mut places: Vec<&mut [u8]> = sums.iter_mut().map(Place::bytes_mut).collect();
    match call {
        COMBINE => kernel.combine(&mut places, &coefficients, &sources),
        SUM => kernel.sum(places[0], &sources),
        _ => kernel.cauchy(&mut places, &rows, &sources),
    }
    for (sum, expected) in sums.iter().zip(&expected) {
        assert_eq!(sum.bytes(), expected, "{kernel:?}, {rows:?} of {count}");
        sum.check(kernel);
    }
});

/// The coefficients of a random linear code.
fn hashes(kernel: Kernel, input: &mut Bytes<'_>) {
    let mut number = || (0..8).fold(0, |number, _| number << 8 | u64::from(input.next()));
    // FEC-33: both are of 62 bits.
    let (seed, first, len) = (number() >> 2, number() >> 2, number() % 600);
    let mut place = Place::at(seed as u8, len as usize, 0);
    kernel.hashes(seed, first, place.bytes_mut());
    let expected: Vec<u8> = (first..).take(len as usize).map(|sid| rlc::coefficient(seed, sid)).collect();
    assert_eq!(place.bytes(), expected, "{kernel:?}");
    place.check(kernel);
}

/// Bytes somewhere in memory, with others before and behind them.
struct Place {
    all: Vec<u8>,
    begin: usize,
    len: usize,
}

impl Place {
    /// A source, as long as others or shorter.
    fn new(input: &mut Bytes<'_>, len: usize, seed: u64) -> Self {
        let shorter = match input.next() {
            0..128 => 0,
            255 => len,
            n => usize::from(n) - 127,
        };
        Self::at(input.next(), len.saturating_sub(shorter), seed)
    }

    /// A sum of sources up to `longest`, or more than that.
    fn sum(input: &mut Bytes<'_>, longest: usize) -> Self {
        let at = input.next();
        Self::at(at, longest + usize::from(at >> 6), u64::from(at) << 8)
    }

    fn at(begin: u8, len: usize, seed: u64) -> Self {
        let begin = usize::from(begin & 63);
        let mut all = vec![BESIDE; begin + len + AROUND];
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for byte in &mut all[begin..begin + len] {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = (state >> 24) as u8;
        }
        Self { all, begin, len }
    }

    fn bytes(&self) -> &[u8] {
        &self.all[self.begin..][..self.len]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.all[self.begin..][..self.len]
    }

    /// What is beside it is as it was.
    fn check(&self, kernel: Kernel) {
        let (before, behind) = (&self.all[..self.begin], &self.all[self.begin + self.len..]);
        assert!(before.iter().chain(behind).all(|&byte| byte == BESIDE), "{kernel:?} keeps to its slices");
    }
}

/// What may be called.
const COMBINE: u8 = 0;
const SUM: u8 = 1;
const SCALE: u8 = 2;
const HASHES: u8 = 3;
/// And Reed-Solomon, by a transform where that is faster.
const CALLS: u8 = 5;

/// Bytes of a source: more than a packet, and than a span of the widest vectors.
const MAX_LEN: usize = 3500;
/// Bytes behind: the widest vector.
const AROUND: usize = 64;
const BESIDE: u8 = 0xa5;
