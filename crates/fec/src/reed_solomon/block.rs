//! Blocks at once: nothing is copied, buffers are the caller's.

use alloc::vec;
use alloc::vec::Vec;

use super::{Error, MAX_SYMBOLS, NUMBERS};
use crate::gf256::{Base, Columns, Heads, Kernel, MAX_HEAD, inverse};
use crate::number::element;
use crate::symbols::lines;

/// Writes repair symbols 0, 1, ... of `sources`, each padded with zeros to its buffer.
///
/// Buffers are at least as long as the longest source; what is behind it becomes zero.
pub fn encode(sources: &[&[u8]], repairs: &mut [&mut [u8]]) -> Result<(), Error> {
    if sources.len() + repairs.len() > MAX_SYMBOLS {
        return Err(Error::Index);
    }
    let columns = Columns::new(0, sources, Base::Zero);
    if repairs.iter().any(|r| r.len() < columns.longest()) {
        return Err(Error::Buffer);
    }
    for repair in repairs.iter_mut() {
        repair[columns.longest()..].fill(0);
    }
    Kernel::best().columns(repairs, &NUMBERS[..repairs.len()], columns);
    Ok(())
}

/// [`encode`] for sources the first bytes of which lie apart, such as headers before data that is elsewhere:
/// source i is the first `len` bytes of `heads[i]` and `others[i]`. It takes less time than to encode both by
/// themselves.
///
/// # Errors
///
/// [`Error::Buffer`], too, when there is not one head for each of the others, or `len` is more than a head
/// has.
pub fn encode_split(
    heads: &[[u8; MAX_HEAD]],
    len: usize,
    others: &[&[u8]],
    repairs: &mut [&mut [u8]],
) -> Result<(), Error> {
    if others.len() + repairs.len() > MAX_SYMBOLS {
        return Err(Error::Index);
    }
    let columns = Columns::new(0, others, Base::Zero);
    let size = len + columns.longest();
    if heads.len() != others.len() || len > MAX_HEAD || repairs.iter().any(|r| r.len() < size) {
        return Err(Error::Buffer);
    }
    for repair in repairs.iter_mut() {
        repair[size..].fill(0);
    }
    let rows = &NUMBERS[..repairs.len()];
    Kernel::best().columns_split(repairs, rows, Heads::new(heads, len), columns);
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
    let mut present: Vec<&[u8]> = Vec::with_capacity(sources.len());
    present.extend(sources.iter().enumerate().map(|(j, source)| {
        lost[count % MAX_SYMBOLS] = element(j);
        count += usize::from(source.is_none());
        source.unwrap_or_default()
    }));
    let lost = &lost[..count];
    if recovered.len() != lost.len() {
        return Err(Error::Buffer);
    }
    let used = repairs.get(..lost.len()).ok_or(Error::TooFew)?;
    let (mut rows, mut symbols) = ([0; MAX_SYMBOLS], Vec::with_capacity(used.len()));
    symbols.extend(rows.iter_mut().zip(used).map(|(row, used)| {
        *row = used.0;
        used.1
    }));
    let rows = &rows[..used.len()];
    let columns = Columns::new(0, &present, Base::Others(&symbols));
    check(sources.len(), columns.longest(), used)?;
    let size = longest(symbols.iter().copied());
    if recovered.iter().any(|r| r.len() < size) {
        return Err(Error::Buffer);
    }
    let (kernel, longest, inverse) = (Kernel::best(), columns.longest(), inverse(rows, lost));
    if !kernel.columns_then(recovered, rows, columns, &inverse) {
        recover(recovered, rows, &symbols, columns, &inverse);
        return Ok(());
    }
    // No present source reaches as far.
    for source in recovered.iter_mut() {
        source[longest..].fill(0);
    }
    if size > longest {
        let mut rest: Vec<&mut [u8]> = recovered.iter_mut().map(|source| &mut source[longest..]).collect();
        let symbols: Vec<&[u8]> = symbols.iter().map(|symbol| &symbol[longest..]).collect();
        kernel.combine(&mut rest, &inverse, &symbols);
    }
    Ok(())
}

/// In two passes: what the lost sources add up to in each repair symbol, the present ones taken out, and the
/// product of the inverse matrix with it.
fn recover(
    recovered: &mut [&mut [u8]],
    rows: &[u8],
    symbols: &[&[u8]],
    columns: Columns<'_>,
    inverse: &[u8],
) {
    let (size, from) = (longest(symbols.iter().copied()), columns.longest());
    let stride = lines(size.max(1));
    let mut sums = vec![0; stride * rows.len()];
    let mut syndromes: Vec<&mut [u8]> = sums.chunks_exact_mut(stride).map(|sum| &mut sum[..size]).collect();
    for (syndrome, symbol) in syndromes.iter_mut().zip(symbols) {
        // No present source reaches as far.
        syndrome[from..symbol.len()].copy_from_slice(&symbol[from..]);
    }
    Kernel::best().columns(&mut syndromes, rows, columns);
    let syndromes: Vec<&[u8]> = syndromes.into_iter().map(|s| &*s).collect();
    for source in recovered.iter_mut() {
        source.fill(0);
    }
    Kernel::best().combine(recovered, inverse, &syndromes);
}

/// Whether these repair symbols can be of a block of `count` sources the longest of which has so many bytes.
fn check(count: usize, longest: usize, used: &[(u8, &[u8])]) -> Result<(), Error> {
    let mut seen = [false; 256];
    for &(index, repair) in used {
        if count + usize::from(index) >= MAX_SYMBOLS {
            return Err(Error::Index);
        }
        if core::mem::replace(&mut seen[usize::from(index)], true) {
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
