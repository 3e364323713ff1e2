//! Blocks at once: nothing is copied, buffers are the caller's.

use super::{Error, MAX_SYMBOLS};
use crate::gf256::{Kernel, inv, mul};

/// Writes repair symbols 0, 1, ... of `sources`, each padded with zeros to its buffer.
///
/// Buffers are at least as long as the longest source; what is behind it becomes zero.
pub fn encode(sources: &[&[u8]], repairs: &mut [&mut [u8]]) -> Result<(), Error> {
    if sources.len() + repairs.len() > MAX_SYMBOLS {
        return Err(Error::Index);
    }
    let longest = longest(sources.iter().copied());
    if repairs.iter().any(|r| r.len() < longest) {
        return Err(Error::Buffer);
    }
    let rows: Vec<u8> = (0..=255).take(repairs.len()).collect();
    for repair in repairs.iter_mut() {
        repair.fill(0);
    }
    Kernel::best().cauchy(repairs, &rows, sources);
    Ok(())
}

/// Computes the lost sources of a block: `sources` has `None` in their places, and `recovered` a buffer for
/// each, in the same order. Of `repairs`, pairs of number and symbol, the first ones are used, as many as
/// sources are lost.
///
/// Buffers are at least as long as the repair symbols used; what is behind them becomes zero. A source that
/// was shorter than the repair symbols comes back padded with zeros: its length is not coded.
pub fn decode(
    sources: &[Option<&[u8]>],
    repairs: &[(u8, &[u8])],
    recovered: &mut [&mut [u8]],
) -> Result<(), Error> {
    let lost: Vec<u8> =
        sources.iter().take(MAX_SYMBOLS).enumerate().filter(|s| s.1.is_none()).map(|s| s.0 as u8).collect();
    if sources.len() > MAX_SYMBOLS {
        return Err(Error::Index);
    }
    if recovered.len() != lost.len() {
        return Err(Error::Buffer);
    }
    let used = repairs.get(..lost.len()).ok_or(Error::TooFew)?;
    let rows: Vec<u8> = used.iter().map(|r| r.0).collect();
    check(sources, used)?;
    let size = longest(used.iter().map(|r| r.1));
    if recovered.iter().any(|r| r.len() < size) {
        return Err(Error::Buffer);
    }

    // What the lost sources add up to in each repair symbol: the present ones taken out.
    let mut sums = vec![0; size * lost.len()];
    let mut syndromes: Vec<&mut [u8]> = sums.chunks_exact_mut(size.max(1)).collect();
    syndromes.resize_with(lost.len(), Default::default);
    for (syndrome, (_, repair)) in syndromes.iter_mut().zip(used) {
        syndrome[..repair.len()].copy_from_slice(repair);
    }
    let present: Vec<&[u8]> = sources.iter().map(|s| s.unwrap_or_default()).collect();
    Kernel::best().cauchy(&mut syndromes, &rows, &present);

    let syndromes: Vec<&[u8]> = syndromes.into_iter().map(|s| &*s).collect();
    for source in recovered.iter_mut() {
        source.fill(0);
    }
    Kernel::best().combine(recovered, &inverse(&rows, &lost), &syndromes);
    Ok(())
}

fn check(sources: &[Option<&[u8]>], used: &[(u8, &[u8])]) -> Result<(), Error> {
    let longest = longest(sources.iter().flatten().copied());
    let mut seen = [false; 256];
    for &(index, repair) in used {
        if sources.len() + usize::from(index) >= MAX_SYMBOLS {
            return Err(Error::Index);
        }
        if std::mem::replace(&mut seen[usize::from(index)], true) {
            return Err(Error::Twice);
        }
        if repair.len() < longest {
            return Err(Error::Short);
        }
    }
    Ok(())
}

/// The inverse of the matrix of 1 / (x_j + y_i), x_j the lost sources and y_i = 255 - rows\[i\]: row j,
/// column i.
///
/// It has a closed form (Schechter 1959): with A(z) = Π (z + x_j) and B(z) = Π (z + y_i), the element is
/// B(x_j) · A(y_i) / ((x_j + y_i) · A'(x_j) · B'(y_i)).
pub(super) fn inverse(rows: &[u8], lost: &[u8]) -> Vec<u8> {
    let product = |at: u8, roots: &mut dyn Iterator<Item = u8>| roots.fold(1, |p, root| mul(p, at ^ root));
    let inverse = |a| inv(a).expect("rows and lost sources are different points");
    let points = || rows.iter().map(|&row| 255 - row);
    let by_row: Vec<u8> = points()
        .map(|y| {
            let derivative = product(y, &mut points().filter(|&other| other != y));
            mul(product(y, &mut lost.iter().copied()), inverse(derivative))
        })
        .collect();
    let mut matrix = Vec::with_capacity(rows.len() * lost.len());
    for &x in lost {
        let derivative = product(x, &mut lost.iter().copied().filter(|&other| other != x));
        let by_column = mul(product(x, &mut points()), inverse(derivative));
        matrix.extend(points().zip(&by_row).map(|(y, &row)| mul(mul(by_column, row), inverse(x ^ y))));
    }
    matrix
}

pub(super) fn longest<'a>(symbols: impl Iterator<Item = &'a [u8]>) -> usize {
    symbols.map(<[u8]>::len).max().unwrap_or_default()
}
