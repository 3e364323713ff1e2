//! The choice among kernels, made once while the program runs.

#![cfg_attr(vectors, expect(unsafe_code, reason = "calls of kernels that this machine was found to have"))]

use core::fmt;
#[cfg(vectors)]
use std::sync::OnceLock;

use super::cauchy::{self, Base, Columns, GroupRows, Heads};
use super::scalar;
#[cfg(vectors)]
use super::x86::{self, Processor as _};
use crate::rlc;

/// A way to multiply and add byte slices, which this machine supports. All compute the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kernel(KernelKind);

/// All but `Scalar` exist only as results of a detection, which is what makes calling them sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KernelKind {
    #[cfg(all(vectors, wide))]
    Gfni512,
    #[cfg(all(vectors, wide))]
    Gfni256,
    #[cfg(vectors)]
    Avx2,
    #[cfg(vectors)]
    Ssse3,
    Scalar,
}

impl KernelKind {
    /// The fastest first.
    const ALL: &[Self] = &[
        #[cfg(all(vectors, wide))]
        Self::Gfni512,
        #[cfg(all(vectors, wide))]
        Self::Gfni256,
        #[cfg(vectors)]
        Self::Avx2,
        #[cfg(vectors)]
        Self::Ssse3,
        Self::Scalar,
    ];

    fn detected(self) -> bool {
        match self {
            #[cfg(all(vectors, wide))]
            Self::Gfni512 => x86::Gfni512::detected(),
            #[cfg(all(vectors, wide))]
            Self::Gfni256 => x86::Gfni256::detected(),
            #[cfg(vectors)]
            Self::Avx2 => x86::Avx2::detected(),
            #[cfg(vectors)]
            Self::Ssse3 => x86::Ssse3::detected(),
            Self::Scalar => true,
        }
    }
}

impl Kernel {
    /// The one without vector instructions, which every machine has.
    pub const SCALAR: Self = Self(KernelKind::Scalar);

    /// The fastest of this machine. It is looked for once; later calls cost a load.
    pub fn best() -> Self {
        #[cfg(vectors)]
        {
            static BEST: OnceLock<Kernel> = OnceLock::new();
            *BEST.get_or_init(|| Self::available().next().unwrap_or(Self::SCALAR))
        }
        #[cfg(not(vectors))]
        Self::SCALAR
    }

    /// All of this machine, the fastest first, the scalar one last.
    pub fn available() -> impl Iterator<Item = Self> {
        KernelKind::ALL.iter().copied().filter(|kind| kind.detected()).map(Self)
    }

    /// What it needs of the machine, as `gfni+avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(all(vectors, wide))]
            KernelKind::Gfni512 => "gfni+avx512",
            #[cfg(all(vectors, wide))]
            KernelKind::Gfni256 => "gfni+avx2",
            #[cfg(vectors)]
            KernelKind::Avx2 => "avx2",
            #[cfg(vectors)]
            KernelKind::Ssse3 => "ssse3",
            KernelKind::Scalar => "scalar",
        }
    }

    /// dst += c · src, `src` padded with zeros.
    ///
    /// # Panics
    ///
    /// If `src` is longer than `dst`.
    pub fn mul_add(self, dst: &mut [u8], c: u8, src: &[u8]) {
        self.combine(&mut [dst], &[c], &[src]);
    }

    /// dst += Σ coefficients\[i\] · srcs\[i\], each padded with zeros.
    ///
    /// # Panics
    ///
    /// If a source is longer than `dst`, or there is not one coefficient a source.
    pub fn gather(self, dst: &mut [u8], coefficients: &[u8], srcs: &[&[u8]]) {
        self.combine(&mut [dst], coefficients, srcs);
    }

    /// dsts\[i\] += coefficients\[i\] · src, `src` padded with zeros.
    ///
    /// # Panics
    ///
    /// If `src` is longer than a destination, or there is not one coefficient a destination.
    pub fn scatter(self, dsts: &mut [&mut [u8]], coefficients: &[u8], src: &[u8]) {
        self.combine(dsts, coefficients, &[src]);
    }

    /// dsts\[i\] += Σ coefficients\[i · srcs.len() + j\] · srcs\[j\]: a matrix by rows, one row a
    /// destination. Sources are padded with zeros; destinations may differ in length. Many destinations in
    /// one call are much faster than as many calls of [`gather`](Self::gather): the sources are read once for
    /// several of them.
    ///
    /// # Panics
    ///
    /// If a source is longer than a destination, or there is not one coefficient for each pair.
    pub fn combine(self, dsts: &mut [&mut [u8]], coefficients: &[u8], srcs: &[&[u8]]) {
        assert_eq!(coefficients.len(), dsts.len() * srcs.len(), "one coefficient for each pair");
        let longest = check_lengths(dsts, srcs);
        if coefficients.is_empty() {
            return;
        }
        match self.0 {
            #[cfg(all(vectors, wide))]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Gfni512 => unsafe { x86::combine::<x86::Gfni512>(dsts, coefficients, srcs, longest) },
            #[cfg(all(vectors, wide))]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Gfni256 => unsafe { x86::combine::<x86::Gfni256>(dsts, coefficients, srcs, longest) },
            #[cfg(vectors)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Avx2 => unsafe { x86::combine::<x86::Avx2>(dsts, coefficients, srcs, longest) },
            #[cfg(vectors)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Ssse3 => unsafe { x86::combine::<x86::Ssse3>(dsts, coefficients, srcs, longest) },
            KernelKind::Scalar => scalar::combine(dsts, coefficients, srcs),
        }
    }

    /// dst += Σ src: XOR, each source padded with zeros.
    ///
    /// # Panics
    ///
    /// If a source is longer than `dst`.
    pub fn sum(self, dst: &mut [u8], srcs: &[&[u8]]) {
        let longest = check_lengths(&[&mut *dst], srcs);
        match self.0 {
            #[cfg(all(vectors, wide))]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Gfni512 => unsafe { x86::sum::<x86::Gfni512>(dst, srcs, longest) },
            #[cfg(all(vectors, wide))]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Gfni256 => unsafe { x86::sum::<x86::Gfni256>(dst, srcs, longest) },
            #[cfg(vectors)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Avx2 => unsafe { x86::sum::<x86::Avx2>(dst, srcs, longest) },
            #[cfg(vectors)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Ssse3 => unsafe { x86::sum::<x86::Ssse3>(dst, srcs, longest) },
            KernelKind::Scalar => srcs.iter().for_each(|src| scalar::mul_add(dst, 1, src)),
        }
    }

    /// sums\[i\] += Σ cauchy(j, rows\[i\]) · sources\[j\]: Reed-Solomon repair symbols, of any numbers in any
    /// order. It is [`combine`](Self::combine) with these coefficients, but by a transform where that is
    /// faster: for enough sources, and three rows or more of the same four (0..4, 4..8, ...) and one of its
    /// neighbour, or five rows or more of the same eight. An empty slice stands for a source that is to be
    /// left out.
    ///
    /// # Panics
    ///
    /// If a source is longer than a sum, if there is not one row for each sum, or if one of the rows has no
    /// coefficient for the last source: its number and that of the sources add up to more than 255.
    pub fn cauchy(self, sums: &mut [&mut [u8]], rows: &[u8], sources: &[&[u8]]) {
        cauchy::add(self, sums, rows, Columns::new(0, sources, Base::Sums));
    }

    /// [`cauchy`](Self::cauchy), or part of it, or added to something else, as the columns say.
    pub(crate) fn columns(self, sums: &mut [&mut [u8]], rows: &[u8], columns: Columns<'_>) {
        cauchy::add(self, sums, rows, columns);
    }

    /// The same behind the first bytes of `sums`, as many as heads of the sources have, and to those bytes
    /// that of the heads.
    pub(crate) fn columns_split(
        self,
        sums: &mut [&mut [u8]],
        rows: &[u8],
        heads: Heads<'_>,
        columns: Columns<'_>,
    ) {
        cauchy::add_split(self, sums, rows, heads, columns);
    }

    /// The product of `matrix` with what [`columns`](Self::columns) would write, where both can be done in
    /// one pass; false if nothing was done.
    pub(crate) fn columns_then(
        self,
        sums: &mut [&mut [u8]],
        rows: &[u8],
        columns: Columns<'_>,
        matrix: &[u8],
    ) -> bool {
        cauchy::add_then(self, sums, rows, columns, matrix)
    }

    /// Whether [`transform`](Self::transform) is there; not where a byte costs as much as a vector.
    pub(super) fn has_transform(self) -> bool {
        self != Self::SCALAR
    }

    /// The part of [`cauchy`](Self::cauchy) that is done by a transform.
    pub(super) fn transform(self, columns: Columns<'_>, rows: &mut [GroupRows<'_>]) {
        match self.0 {
            #[cfg(all(vectors, wide))]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Gfni512 => unsafe { x86::cauchy::<x86::Gfni512>(columns, rows) },
            #[cfg(all(vectors, wide))]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Gfni256 => unsafe { x86::cauchy::<x86::Gfni256>(columns, rows) },
            #[cfg(vectors)]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Avx2 => unsafe { x86::cauchy::<x86::Avx2>(columns, rows) },
            #[cfg(vectors)]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Ssse3 => unsafe { x86::cauchy::<x86::Ssse3>(columns, rows) },
            KernelKind::Scalar => unreachable!("it has no transform"),
        }
    }

    /// The coefficients of symbols `first`, `first` + 1, ... in the random linear code's repair symbol with
    /// `seed`.
    pub(crate) fn hashes(self, seed: u64, first: u64, out: &mut [u8]) {
        match self.0 {
            #[cfg(all(vectors, wide))]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Gfni512 => unsafe { x86::hashes(seed, first, out) },
            _ => out.iter_mut().zip(first..).for_each(|(out, sid)| *out = rlc::coefficient(seed, sid)),
        }
    }

    /// dst *= c.
    pub fn scale(self, dst: &mut [u8], c: u8) {
        scalar::scale(dst, c);
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kernel({})", self.name())
    }
}

/// The vector kernels rely on it. Returns the length of the longest source.
fn check_lengths(dsts: &[&mut [u8]], srcs: &[&[u8]]) -> usize {
    let longest = srcs.iter().map(|s| s.len()).max().unwrap_or_default();
    assert!(dsts.iter().all(|d| d.len() >= longest), "no source is longer than a destination");
    longest
}
