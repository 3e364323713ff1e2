//! Blocks at once: nothing is copied, buffers are the caller's.

use super::{Error, MAX_SYMBOLS};
use crate::gf256::{Base, Columns, Kernel, inverse};
use crate::symbols::lines;

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
        repair[longest..].fill(0);
    }
    Kernel::best().columns(repairs, &rows, Columns { group: 0, sources, base: Base::Zero });
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
    if sources.len() > MAX_SYMBOLS {
        return Err(Error::Index);
    }
    // Without a branch for each, which a processor would often guess wrong.
    let (mut lost, mut count) = ([0; MAX_SYMBOLS], 0);
    for (j, source) in sources.iter().enumerate() {
        lost[count] = j as u8;
        count += usize::from(source.is_none());
    }
    let lost = &lost[..count];
    if recovered.len() != lost.len() {
        return Err(Error::Buffer);
    }
    let used = repairs.get(..lost.len()).ok_or(Error::TooFew)?;
    let rows: Vec<u8> = used.iter().map(|r| r.0).collect();
    let present: Vec<&[u8]> = sources.iter().map(|s| s.unwrap_or_default()).collect();
    let longest = longest(present.iter().copied());
    check(sources.len(), longest, used)?;
    let size = used.iter().map(|r| r.1.len()).max().unwrap_or_default();
    if recovered.iter().any(|r| r.len() < size) {
        return Err(Error::Buffer);
    }

    // What the lost sources add up to in each repair symbol: the present ones taken out.
    let stride = lines(size.max(1));
    let mut sums = vec![0; stride * lost.len()];
    let mut syndromes: Vec<&mut [u8]> = sums.chunks_exact_mut(stride).map(|sum| &mut sum[..size]).collect();
    let symbols: Vec<&[u8]> = used.iter().map(|r| r.1).collect();
    for (syndrome, symbol) in syndromes.iter_mut().zip(&symbols) {
        // No present source reaches as far.
        syndrome[longest..symbol.len()].copy_from_slice(&symbol[longest..]);
    }
    let columns = Columns { group: 0, sources: &present, base: Base::Others(&symbols) };
    Kernel::best().columns(&mut syndromes, &rows, columns);

    let syndromes: Vec<&[u8]> = syndromes.into_iter().map(|s| &*s).collect();
    for source in recovered.iter_mut() {
        source.fill(0);
    }
    Kernel::best().combine(recovered, &inverse(&rows, lost), &syndromes);
    Ok(())
}

/// Whether these repair symbols can be of a block of `count` sources the longest of which has so many bytes.
fn check(count: usize, longest: usize, used: &[(u8, &[u8])]) -> Result<(), Error> {
    let mut seen = [false; 256];
    for &(index, repair) in used {
        if count + usize::from(index) >= MAX_SYMBOLS {
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

pub(super) fn longest<'a>(symbols: impl Iterator<Item = &'a [u8]>) -> usize {
    symbols.map(<[u8]>::len).max().unwrap_or_default()
}
