//! The choice among kernels, made once while the program runs.

#![cfg_attr(vectors, expect(unsafe_code, reason = "calls of kernels that this machine was found to have"))]

use core::fmt;
#[cfg(any(x86, neon))]
use std::sync::OnceLock;

use super::cauchy::{self, Base, Columns, GroupRows, Heads};
use super::scalar;
#[cfg(vectors)]
use super::simd::{self, Processor as _};
use crate::rlc;

/// A way to multiply and add byte slices, which this machine supports. All compute the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kernel(KernelKind);

/// All but `Scalar` exist only as results of a detection, which is what makes calling them sound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KernelKind {
    #[cfg(wide)]
    Gfni512,
    #[cfg(wide)]
    Gfni256,
    #[cfg(x86)]
    Avx2,
    #[cfg(x86)]
    Ssse3,
    #[cfg(neon)]
    Neon,
    #[cfg(simd128)]
    Simd128,
    Scalar,
}

impl KernelKind {
    /// The fastest first.
    const ALL: &[Self] = &[
        #[cfg(wide)]
        Self::Gfni512,
        #[cfg(wide)]
        Self::Gfni256,
        #[cfg(x86)]
        Self::Avx2,
        #[cfg(x86)]
        Self::Ssse3,
        #[cfg(neon)]
        Self::Neon,
        #[cfg(simd128)]
        Self::Simd128,
        Self::Scalar,
    ];

    fn detected(self) -> bool {
        match self {
            #[cfg(wide)]
            Self::Gfni512 => simd::Gfni512::detected(),
            #[cfg(wide)]
            Self::Gfni256 => simd::Gfni256::detected(),
            #[cfg(x86)]
            Self::Avx2 => simd::Avx2::detected(),
            #[cfg(x86)]
            Self::Ssse3 => simd::Ssse3::detected(),
            #[cfg(neon)]
            Self::Neon => simd::Neon::detected(),
            #[cfg(simd128)]
            Self::Simd128 => simd::Simd128::detected(),
            Self::Scalar => true,
        }
    }
}

impl Kernel {
    /// The one without vector instructions, which every machine has.
    pub const SCALAR: Self = Self(KernelKind::Scalar);

    /// The fastest of this machine. It is looked for once; later calls cost a load.
    pub fn best() -> Self {
        #[cfg(any(x86, neon))]
        {
            static BEST: OnceLock<Kernel> = OnceLock::new();
            *BEST.get_or_init(|| Self::available().next().unwrap_or(Self::SCALAR))
        }
        // Elsewhere the compiler was told what the machine has.
        #[cfg(not(any(x86, neon)))]
        Self(KernelKind::ALL[0])
    }

    /// All of this machine, the fastest first, the scalar one last.
    pub fn available() -> impl Iterator<Item = Self> {
        KernelKind::ALL.iter().copied().filter(|kind| kind.detected()).map(Self)
    }

    /// What it needs of the machine, as `gfni+avx512`.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(wide)]
            KernelKind::Gfni512 => "gfni+avx512",
            #[cfg(wide)]
            KernelKind::Gfni256 => "gfni+avx2",
            #[cfg(x86)]
            KernelKind::Avx2 => "avx2",
            #[cfg(x86)]
            KernelKind::Ssse3 => "ssse3",
            #[cfg(neon)]
            KernelKind::Neon => "neon",
            #[cfg(simd128)]
            KernelKind::Simd128 => "simd128",
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
            #[cfg(wide)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Gfni512 => unsafe {
                simd::combine::<simd::Gfni512>(dsts, coefficients, srcs, longest);
            },
            #[cfg(wide)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Gfni256 => unsafe {
                simd::combine::<simd::Gfni256>(dsts, coefficients, srcs, longest);
            },
            #[cfg(x86)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Avx2 => unsafe { simd::combine::<simd::Avx2>(dsts, coefficients, srcs, longest) },
            #[cfg(x86)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Ssse3 => unsafe { simd::combine::<simd::Ssse3>(dsts, coefficients, srcs, longest) },
            #[cfg(neon)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Neon => unsafe { simd::combine::<simd::Neon>(dsts, coefficients, srcs, longest) },
            #[cfg(simd128)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Simd128 => unsafe {
                simd::combine::<simd::Simd128>(dsts, coefficients, srcs, longest);
            },
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
            #[cfg(wide)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Gfni512 => unsafe { simd::sum::<simd::Gfni512>(dst, srcs, longest) },
            #[cfg(wide)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Gfni256 => unsafe { simd::sum::<simd::Gfni256>(dst, srcs, longest) },
            #[cfg(x86)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Avx2 => unsafe { simd::sum::<simd::Avx2>(dst, srcs, longest) },
            #[cfg(x86)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Ssse3 => unsafe { simd::sum::<simd::Ssse3>(dst, srcs, longest) },
            #[cfg(neon)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Neon => unsafe { simd::sum::<simd::Neon>(dst, srcs, longest) },
            #[cfg(simd128)]
            // SAFETY: the kind exists, so it was detected; that is the longest.
            KernelKind::Simd128 => unsafe { simd::sum::<simd::Simd128>(dst, srcs, longest) },
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
            #[cfg(wide)]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Gfni512 => unsafe { simd::cauchy::<simd::Gfni512>(columns, rows) },
            #[cfg(wide)]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Gfni256 => unsafe { simd::cauchy::<simd::Gfni256>(columns, rows) },
            #[cfg(x86)]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Avx2 => unsafe { simd::cauchy::<simd::Avx2>(columns, rows) },
            #[cfg(x86)]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Ssse3 => unsafe { simd::cauchy::<simd::Ssse3>(columns, rows) },
            #[cfg(neon)]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Neon => unsafe { simd::cauchy::<simd::Neon>(columns, rows) },
            #[cfg(simd128)]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Simd128 => unsafe { simd::cauchy::<simd::Simd128>(columns, rows) },
            KernelKind::Scalar => unreachable!("it has no transform"),
        }
    }

    /// The coefficients of symbols `first`, `first` + 1, ... in the random linear code's repair symbol with
    /// `seed`.
    pub(crate) fn hashes(self, seed: u64, first: u64, out: &mut [u8]) {
        match self.0 {
            #[cfg(wide)]
            // SAFETY: the kind exists, so it was detected.
            KernelKind::Gfni512 => unsafe { simd::hashes(seed, first, out) },
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
