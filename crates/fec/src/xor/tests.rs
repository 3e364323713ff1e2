use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

/// Whether source `j` is in repair symbol `index`, from the words of the specification.
fn is_in(layout: XorLayout, j: usize, index: usize) -> bool {
    match layout {
        XorLayout::Interleaved { depth } => j % depth == index,
        XorLayout::Grid { columns } if index < columns => j % columns == index,
        XorLayout::Grid { columns } => j / columns == index - columns,
    }
}

fn naive_repair(layout: XorLayout, sources: &[Vec<u8>], index: usize) -> Vec<u8> {
    let terms = || sources.iter().enumerate().filter(|(j, _)| is_in(layout, *j, index)).map(|s| s.1);
    let mut repair = vec![0; terms().map(Vec::len).max().unwrap_or_default()];
    for source in terms() {
        repair.iter_mut().zip(source).for_each(|(r, s)| *r ^= s);
    }
    repair
}

/// What peeling recovers: again and again, a repair symbol that came and has one missing source.
fn peeled(
    layout: XorLayout,
    count: usize,
    lost: &BTreeSet<usize>,
    repairs: &BTreeSet<usize>,
) -> BTreeSet<usize> {
    let mut missing = lost.clone();
    loop {
        let next = repairs.iter().find_map(|&index| {
            let mut unknown = (0..count).filter(|&j| is_in(layout, j, index) && missing.contains(&j));
            let first = unknown.next();
            first.filter(|_| unknown.next().is_none())
        });
        match next {
            Some(j) => missing.remove(&j),
            None => return missing,
        };
    }
}

fn padded(symbol: &[u8], len: usize) -> Vec<u8> {
    let mut symbol = symbol.to_vec();
    symbol.resize(symbol.len().max(len), 0);
    symbol
}

fn layout() -> impl Strategy<Value = XorLayout> {
    prop_oneof![
        (1..12_usize).prop_map(|depth| XorLayout::Interleaved { depth }),
        (1..9_usize).prop_map(|columns| XorLayout::Grid { columns }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn repairs_follow_the_definition(layout in layout(), sources in vec(vec(any::<u8>(), 0..50), 0..40)) {
        let mut encoder = Encoder::new(layout);
        for source in &sources {
            encoder.add(source);
        }
        let slices: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
        let found: Vec<&[u8]> = encoder.repairs().collect();
        prop_assert_eq!(found.len(), layout.repairs(sources.len()));
        for (index, found) in found.into_iter().enumerate() {
            let expected = naive_repair(layout, &sources, index);
            prop_assert_eq!(found, &expected[..]);
            let mut at_once = vec![9; 3];
            encode(layout, &slices, index, &mut at_once);
            prop_assert_eq!(at_once, expected);
        }
    }

    /// Symbols in random order, with repeats: exactly what peeling recovers is recovered.
    #[test]
    fn what_peeling_recovers_is_recovered(
        layout in layout(),
        sources in vec(vec(any::<u8>(), 0..30), 1..50),
        order in vec(any::<Index>(), 0..150),
    ) {
        let (count, repairs) = (sources.len(), layout.repairs(sources.len()));
        let mut decoder = Decoder::new(layout, count);
        let (mut here, mut sums) = (BTreeSet::new(), BTreeSet::new());
        let mut recovered = BTreeSet::new();
        for n in order.iter().map(|i| i.index(count + repairs)) {
            if n < count {
                here.insert(n);
                decoder.source(n, &sources[n]).expect("a source of the block");
            } else {
                sums.insert(n - count);
                let repair = naive_repair(layout, &sources, n - count);
                decoder.repair(n - count, &repair).expect("a repair of the block");
            }
            let lost = (0..count).filter(|j| !here.contains(j)).collect();
            let missing = peeled(layout, count, &lost, &sums);
            prop_assert_eq!(decoder.missing(), missing.len());
            for (j, source) in sources.iter().enumerate() {
                let found = decoder.get(j);
                prop_assert_eq!(found.is_none(), missing.contains(&j), "source {}", j);
                if let Some(found) = found {
                    prop_assert_eq!(found, padded(source, found.len()));
                }
            }
            while let Some((j, symbol)) = decoder.next_recovered() {
                prop_assert!(recovered.insert(j), "source {} recovered once", j);
                prop_assert_eq!(symbol, padded(&sources[j], symbol.len()));
            }
        }
    }
}

fn after_losses(layout: XorLayout, count: usize, lost: &[usize]) -> Vec<usize> {
    let sources: Vec<Vec<u8>> = (0..count).map(|j| vec![j as u8, 1, 2]).collect();
    let mut decoder = Decoder::new(layout, count);
    for (j, source) in sources.iter().enumerate().filter(|(j, _)| !lost.contains(j)) {
        decoder.source(j, source).expect("a source of the block");
    }
    for index in 0..layout.repairs(count) {
        decoder.repair(index, &naive_repair(layout, &sources, index)).expect("a repair of the block");
    }
    (0..count).filter(|&j| decoder.get(j).is_none()).collect()
}

#[test]
fn a_burst_as_long_as_the_depth_is_repaired() {
    let layout = XorLayout::Interleaved { depth: 7 };
    assert!(after_losses(layout, 50, &[20, 21, 22, 23, 24, 25, 26]).is_empty());
    assert_eq!(after_losses(layout, 50, &[20, 21, 22, 23, 24, 25, 26, 27]), [20, 27]);
}

/// A grid of 5 columns, its last row of 2.
#[test]
fn rectangles_stay_and_what_hangs_on_them_does_not() {
    let layout = XorLayout::Grid { columns: 5 };
    assert_eq!(after_losses(layout, 22, &[6, 8, 16, 18]), [6, 8, 16, 18]);
    assert_eq!(after_losses(layout, 22, &[6, 8, 16, 18, 0, 21]), [6, 8, 16, 18]);
    assert!(after_losses(layout, 22, &[6, 8, 16]).is_empty());
    assert!(after_losses(layout, 22, &[5, 6, 7, 8, 9]).is_empty(), "a row, by its columns");
    assert!(after_losses(layout, 22, &[1, 6, 11, 16, 21]).is_empty(), "a column, by its rows");
    assert!(after_losses(layout, 22, &[20, 21, 1, 3, 13]).is_empty(), "a chain through the ragged row");
}

#[test]
fn symbols_of_no_block_are_errors() {
    let layout = XorLayout::Grid { columns: 3 };
    let mut decoder = Decoder::new(layout, 4);
    assert_eq!(decoder.source(4, &[1]), Err(Error::Index));
    assert_eq!(decoder.repair(5, &[1]), Err(Error::Index));
    assert_eq!(decoder.repair(usize::MAX, &[1]), Err(Error::Index));
    assert_eq!(decoder.source(0, &[1, 2]), Ok(true));
    assert_eq!(decoder.repair(0, &[1]), Err(Error::Short));
    assert_eq!(decoder.repair(1, &[1]), Ok(true));
    assert_eq!(decoder.repair(4, &[1]), Ok(true), "a row of one, which is source 3");
    assert_eq!(decoder.get(3), Some(&[1][..]));
    assert_eq!(decoder.source(3, &[1, 2, 3]), Ok(false), "too late to object");
    assert_eq!(Decoder::new(XorLayout::Interleaved { depth: 0 }, 2).repair(1, &[]), Err(Error::Index));
    assert_eq!(XorLayout::Grid { columns: 0 }.terms(3, usize::MAX).count(), 0);
    assert_eq!(XorLayout::Grid { columns: usize::MAX }.repairs(3), usize::MAX);
    assert_eq!(XorLayout::Grid { columns: usize::MAX }.terms(3, usize::MAX).count(), 3);
}
