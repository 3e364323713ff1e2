use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::online::{DecoderLimits, RepairOutcome, SenderFault, SourceOutcome};
use crate::symbols::trimmed;

const SIZE: usize = 70;

fn truth(sid: u64) -> Vec<u8> {
    let mut z = sid.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xfedc_ba98;
    let len = 1 + (z >> 40) as usize % SIZE;
    let mut next = || {
        z = (z ^ (z >> 27)).wrapping_mul(0x3c79_ac49_2ba7_b653).wrapping_add(0x9e37_79b9);
        (z >> 56) as u8
    };
    (0..len).map(|_| next()).collect()
}

fn sent(block: &Block) -> (Symbols, Vec<Vec<u8>>) {
    let mut symbols = Symbols::new(5000, SIZE);
    (block.first()..=block.last()).try_for_each(|sid| symbols.insert(sid, &truth(sid))).unwrap();
    let repairs = block.encode(&symbols).unwrap();
    (symbols, repairs)
}

fn decoder(window: usize, max_unknowns: usize) -> Decoder {
    Decoder::new(DecoderLimits { window, symbol_size: SIZE, max_unknowns })
}

fn drain(decoder: &mut Decoder, budget: usize) -> Vec<u64> {
    while decoder.has_work() {
        decoder.work(budget);
    }
    taken(decoder)
}

fn taken(decoder: &mut Decoder) -> Vec<u64> {
    let mut sids = Vec::new();
    while let Some((sid, data)) = decoder.next_recovered() {
        assert_eq!(data, trimmed(&truth(sid)), "symbol {sid}");
        sids.push(sid);
    }
    sids
}

/// The rows that a transcription of RFC 5170's algorithm to another language gives.
#[test]
fn the_matrix_is_that_of_the_rfc() {
    let rows = |k, m, seed| -> Vec<Vec<u32>> {
        let matrix = Matrix::new(k, m, seed);
        (0..m)
            .map(|row| {
                let mut row = matrix.rows(row, row).to_vec();
                row.sort_unstable();
                row
            })
            .collect()
    };
    assert_eq!(rows(10, 6, 1), VECTOR_10_6);
    assert_eq!(rows(4, 7, (1 << 31) - 2), VECTOR_4_7);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for (i, row) in (0_u32..).zip(rows(1000, 200, 123_457)) {
        for column in row {
            for byte in i.to_le_bytes().into_iter().chain(column.to_le_bytes()) {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
    }
    assert_eq!(hash, HASH_1000_200);
}

/// Repair symbol i is the sum of row i and repair symbol i - 1, byte by byte.
#[test]
fn repair_symbols_are_a_staircase() {
    let block = Block::new(17, 30, 12).unwrap();
    let (_, repairs) = sent(&block);
    let matrix = Matrix::new(30, 12, 18);
    let longest = (17..47).map(|sid| truth(sid).len()).max().unwrap();
    let mut before = vec![0; longest];
    for (row, repair) in (0..).zip(&repairs) {
        for &source in matrix.rows(row, row) {
            before.iter_mut().zip(truth(17 + u64::from(source))).for_each(|(b, t)| *b ^= t);
        }
        assert_eq!(repair, &before, "row {row}");
    }
}

/// The source symbols that the checks and what came determine: dense elimination over all of source and
/// repair symbols.
fn determined(block: &Block, sources: &BTreeSet<u32>, repairs: &BTreeSet<u32>) -> BTreeSet<u32> {
    let (k, matrix) = (block.sources, block.matrix());
    let mut rows: Vec<BTreeSet<u32>> = Vec::new();
    for i in 0..block.repairs {
        let mut row: BTreeSet<u32> =
            matrix.rows(i, i).iter().copied().filter(|j| !sources.contains(j)).collect();
        let stairs = [Some(i), i.checked_sub(1)].into_iter().flatten();
        row.extend(stairs.filter(|i| !repairs.contains(i)).map(|i| k + i));
        // Repair symbols have the largest numbers: they are eliminated first.
        for other in &rows {
            if row.contains(other.last().unwrap()) {
                row = &row ^ other;
            }
        }
        let Some(&pivot) = row.last() else { continue };
        for other in &mut rows {
            if other.contains(&pivot) {
                *other = &*other ^ &row;
            }
        }
        rows.push(row);
        // So that a pivot is the largest of its row and in no other.
        rows.sort_by_key(|row| std::cmp::Reverse(*row.last().unwrap()));
    }
    rows.iter().filter(|row| row.len() == 1).flatten().copied().filter(|j| *j < k).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// In whatever order symbols come, exactly those are recovered that are determined, and work can be cut
    /// anywhere.
    #[test]
    fn recovers_what_is_determined(
        k in 2..60_u64,
        m in 3..40_u64,
        first in 0..1000_u64,
        order in prop::collection::vec((any::<u64>(), any::<bool>(), 0..400_usize), 1..120),
    ) {
        let block = Block::new(first, k, m).unwrap();
        let (symbols, repairs) = sent(&block);
        let (mut whole, mut cut) = (decoder(200, 64), decoder(200, 64));
        let (mut sources, mut came) = (BTreeSet::new(), BTreeSet::new());
        for (which, repair, budget) in order {
            for decoder in [&mut whole, &mut cut] {
                if repair {
                    let index = which % m;
                    let outcome = decoder.repair(&block, index, &repairs[index as usize]).unwrap();
                    prop_assert!(outcome == RepairOutcome::Taken || outcome == RepairOutcome::Redundant);
                } else {
                    let sid = first + which % k;
                    decoder.source(sid, symbols.get(sid).unwrap()).unwrap();
                }
            }
            if repair {
                came.insert((which % m) as u32);
            } else {
                sources.insert((which % k) as u32);
            }
            drain(&mut whole, usize::MAX);
            cut.work(budget);
            let expected = &determined(&block, &sources, &came) | &sources;
            // A repair symbol of a block without losses is not looked at.
            for j in 0..k {
                prop_assert_eq!(whole.is_held(first + j), expected.contains(&(j as u32)), "symbol {}", j);
            }
        }
        drain(&mut cut, 1);
        for j in 0..k {
            prop_assert_eq!(whole.is_held(first + j), cut.is_held(first + j), "symbol {}", j);
        }
    }

    /// Nothing that an opponent sends is a panic or takes more memory.
    #[test]
    fn any_sequence_is_harmless(
        ops in prop::collection::vec((any::<bool>(), 0..200_u64, 0..40_u64, 0..40_u64, 0..SIZE + 2), 1..300),
        far in any::<u64>(),
    ) {
        let mut decoder = decoder(64, 64);
        for (i, (repair, first, count, repairs, len)) in ops.into_iter().enumerate() {
            let first = if i % 97 == 96 { far } else { first };
            if !repair {
                let _ = decoder.source(first, &vec![i as u8; len]);
            } else if let Ok(block) = Block::new(first, count, repairs) {
                let _ = decoder.repair(&block, i as u64 % 41, &vec![i as u8; len]);
            }
            if i % 3 == 0 {
                decoder.work(1000);
            }
            while decoder.next_recovered().is_some() {}
            // The window and an eighth, a chunk, and the sums of one elimination.
            prop_assert!(decoder.memory() <= (72 + 8 + 64) * 128 + 4000, "{}", decoder.memory());
        }
    }
}

/// RFC 6816 §1: hybrid decoding comes close to an ideal code, which needs k symbols; peeling alone needs
/// more.
#[test]
fn a_few_percent_over_k_are_enough() {
    let (k, m, rounds) = (200_u64, 40_u64, 20);
    let (mut hybrid, mut peeling) = (0, 0);
    for round in 0..rounds {
        let block = Block::new(round * 1000, k, m).unwrap();
        let (symbols, repairs) = sent(&block);
        let mut order: Vec<u64> = (0..k + m).collect();
        order.sort_by_key(|i| {
            (i ^ (round << 20)).wrapping_add(77).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
        });
        for (limit, total) in [(64, &mut hybrid), (0, &mut peeling)] {
            let mut decoder = decoder(600, limit);
            let mut needed = k + m;
            for (n, &i) in (1..).zip(&order) {
                match i.checked_sub(k) {
                    None => drop(
                        decoder.source(block.first() + i, symbols.get(block.first() + i).unwrap()).unwrap(),
                    ),
                    Some(i) => drop(decoder.repair(&block, i, &repairs[i as usize]).unwrap()),
                }
                drain(&mut decoder, usize::MAX);
                if n >= k && (block.first()..=block.last()).all(|sid| decoder.is_held(sid)) {
                    needed = n;
                    break;
                }
            }
            *total += needed - k;
        }
    }
    let percent = |total: u64| total as f64 / (rounds * k) as f64 * 100.0;
    let (hybrid, peeling) = (percent(hybrid), percent(peeling));
    println!("overhead: hybrid {hybrid:.1} %, peeling {peeling:.1} %");
    assert!((0.5..4.0).contains(&hybrid), "{hybrid} %");
    assert!((hybrid * 1.2..8.0).contains(&peeling), "{peeling} %");
}

#[test]
fn faults_are_told() {
    assert_eq!(Block::new(0, 1, 3), Err(BadEquation::Empty));
    assert_eq!(Block::new(0, 2, 2), Err(BadEquation::Empty));
    assert_eq!(Block::new(MAX_SID, 2, 3), Err(BadEquation::Range));
    assert_eq!(Block::new(0, u64::MAX, 3), Err(BadEquation::Range));
    let mut decoder = decoder(100, 64);
    let block = Block::new(10, 10, 5).unwrap();
    decoder.source(11, &[1; 20]).unwrap();
    assert_eq!(decoder.repair(&block, 0, &[1; 19]), Err(SenderFault::Short));
    assert_eq!(decoder.repair(&block, 5, &[1; 20]), Err(SenderFault::Range));
    assert_eq!(decoder.repair(&block, 0, &[1; SIZE + 1]), Err(SenderFault::TooLong));
    assert_eq!(decoder.repair(&block, 0, &[1; 20]), Ok(RepairOutcome::Taken));
    assert_eq!(decoder.repair(&block, 0, &[1; 20]), Ok(RepairOutcome::Redundant));
    assert_eq!(decoder.repair(&block, 1, &[1; 21]), Err(SenderFault::Uneven));
    assert_eq!(decoder.source(12, &[1; 21]), Err(SenderFault::Short));
    assert_eq!(decoder.source(20, &[1; 21]), Ok(SourceOutcome::New));
    for (first, count, repairs) in [(10, 10, 6), (10, 11, 5), (9, 2, 3), (19, 2, 3), (0, 90, 5), (15, 2, 3)] {
        let other = Block::new(first, count, repairs).unwrap();
        assert_eq!(decoder.repair(&other, 0, &[1; 20]), Err(SenderFault::Overlap), "{other:?}");
    }
    assert_eq!(decoder.repair(&Block::new(20, 2, 3).unwrap(), 0, &[1; 30]), Ok(RepairOutcome::Taken));
    assert_eq!(decoder.repair(&Block::new(0, 101, 5).unwrap(), 0, &[1; 20]), Ok(RepairOutcome::Old));
    assert_eq!(decoder.source(111, &[1]), Ok(SourceOutcome::New));
    assert_eq!(decoder.repair(&block, 2, &[1; 20]), Ok(RepairOutcome::Old));
}

#[test]
fn a_window_of_two_blocks_holds_a_block_that_is_mostly_lost() {
    let (k, m) = (400_u64, 400_u64);
    let block = Block::new(0, k, m).unwrap();
    let (symbols, repairs) = sent(&block);
    let mut decoder = decoder(800, 64);
    for sid in (0..k).filter(|sid| sid % 4 == 0) {
        decoder.source(sid, symbols.get(sid).unwrap()).unwrap();
    }
    let mut recovered = 0;
    for (index, repair) in (0..).zip(&repairs) {
        assert_ne!(decoder.repair(&block, index, repair), Ok(RepairOutcome::TooMany));
        recovered += drain(&mut decoder, 10_000).len();
        assert!(decoder.memory() <= (800 * 9 / 8 + 8 + 64) * 128, "{}", decoder.memory());
    }
    assert_eq!(recovered, 300);
    // Nothing of the block is stored any more.
    assert!(decoder.memory() <= (k as usize + 8) * 128 + 20_000);
}

#[test]
fn a_complete_block_is_forgotten_but_not_that_it_came() {
    let mut decoder = decoder(1024, 64);
    let blocks = [0, 300].map(|first| Block::new(first, 300, 60).unwrap());
    let repairs = blocks.map(|block| sent(&block).1);
    for sid in (0..600).filter(|sid| *sid != 350) {
        assert_eq!(decoder.source(sid, &truth(sid)), Ok(SourceOutcome::New));
    }
    let all = decoder.memory();
    assert_eq!(decoder.repair(&blocks[0], 0, &repairs[0][0]), Ok(RepairOutcome::Redundant));
    assert_eq!(decoder.symbols.held(), 299);
    let longer = vec![1; truth(7).len() + 1];
    assert_eq!(decoder.source(7, &truth(7)), Ok(SourceOutcome::Duplicate));
    // What it was is not known any more.
    assert_eq!(decoder.source(7, &longer), Ok(SourceOutcome::Duplicate));
    assert_eq!(decoder.repair(&blocks[0], 1, &repairs[0][1]), Ok(RepairOutcome::Redundant));
    assert_eq!(
        decoder.repair(&blocks[0], 2, &vec![1; repairs[0][0].len() - 1]),
        Err(SenderFault::Uneven),
        "how long its repair symbols are is known"
    );
    // The other is not complete, and becomes so; what was recovered is told before it is forgotten.
    let mut index = 0;
    while !decoder.is_held(350) {
        let told = decoder.repair(&blocks[1], index, &repairs[1][index as usize]);
        assert!(matches!(told, Ok(RepairOutcome::Taken)), "{told:?}");
        while decoder.has_work() {
            decoder.work(1 << 20);
        }
        index += 1;
    }
    assert_eq!(decoder.repair(&blocks[1], index, &repairs[1][index as usize]), Ok(RepairOutcome::Redundant));
    assert_eq!(decoder.symbols.held(), 300);
    assert_eq!(taken(&mut decoder), [350]);
    index += 1;
    assert_eq!(decoder.repair(&blocks[1], index, &repairs[1][index as usize]), Ok(RepairOutcome::Redundant));
    assert_eq!((decoder.symbols.held(), decoder.source(350, &truth(350))), (0, Ok(SourceOutcome::Recovered)));
    for other in [Block::new(299, 20, 5).unwrap(), Block::new(0, 300, 61).unwrap()] {
        assert_eq!(decoder.repair(&other, 0, &repairs[0][0]), Err(SenderFault::Overlap));
    }
    // The places are used again.
    for sid in 600..1100 {
        assert_eq!(decoder.source(sid, &truth(sid)), Ok(SourceOutcome::New));
    }
    assert!(decoder.memory() < all + 16_384, "{} after {all}", decoder.memory());
}

/// The bytes of its symbols are gone, so that nothing may be made of them: found by fuzzing.
#[test]
fn a_block_overlaps_one_that_was_forgotten_and_has_left_the_window() {
    let mut decoder = decoder(30, 64);
    let (gone, other) = (Block::new(0, 6, 3).unwrap(), Block::new(2, 11, 4).unwrap());
    for sid in (0..29).filter(|sid| ![6, 9].contains(sid)) {
        assert_eq!(decoder.source(sid, &truth(sid)), Ok(SourceOutcome::New));
    }
    assert_eq!(decoder.source(6, &truth(6)), Ok(SourceOutcome::New));
    assert_eq!(decoder.repair(&gone, 0, &sent(&gone).1[0]), Ok(RepairOutcome::Redundant));
    assert_eq!(decoder.source(31, &truth(31)), Ok(SourceOutcome::New));
    assert_eq!(decoder.low(), 2);
    assert_eq!(decoder.repair(&other, 0, &sent(&other).1[0]), Err(SenderFault::Overlap));
    assert_eq!(taken(&mut decoder), [], "9 cannot be found");
}

const HASH_1000_200: u64 = 0x41c0_50ea_d2da_6719;
const VECTOR_10_6: [&[u32]; 6] = [
    &[0, 2, 4, 6, 7],
    &[2, 3, 4, 6, 9],
    &[3, 4, 5, 7, 8],
    &[1, 5, 7, 8, 9],
    &[0, 1, 2, 3, 5],
    &[0, 1, 6, 8, 9],
];
const VECTOR_4_7: [&[u32]; 7] = [&[0, 1], &[1, 2], &[1, 3], &[0, 2], &[0, 3], &[1, 3], &[1, 2]];
