//! The bytes of complete blocks are forgotten.

use super::*;

#[test]
fn a_complete_block_is_forgotten_but_not_that_it_came() {
    let mut decoder = decoder(1024);
    let block = |first, index| Equation::reed_solomon(first, 200, 1, index).unwrap();
    for sid in (0..400).filter(|sid| *sid != 250) {
        assert_eq!(decoder.source(sid, &truth(sid)), Ok(SourceOutcome::New));
    }
    let all = decoder.memory();
    for first in [0, 200] {
        let (repair, i) = (block(first, 0), usize::from(first == 200));
        assert_eq!(
            decoder.repair(&repair, &payload(&repair)),
            Ok([RepairOutcome::Redundant, RepairOutcome::Taken][i])
        );
        decoder.spend(&repair);
    }
    assert_eq!((decoder.symbols.held(), decoder.is_held(7), decoder.is_held(299)), (199, true, true));
    assert_eq!(decoder.source(7, &truth(7)), Ok(SourceOutcome::Duplicate));
    // The other block is not complete, and becomes so.
    assert_eq!(drain(&mut decoder, 1 << 20), [250]);
    let again = block(200, 1);
    assert_eq!(decoder.repair(&again, &payload(&again)), Ok(RepairOutcome::Redundant));
    decoder.spend(&again);
    assert_eq!((decoder.symbols.held(), decoder.source(250, &truth(250))), (0, Ok(SourceOutcome::Recovered)));
    // Who mixes a block with another gets nothing of it.
    let mixed = Equation::reed_solomon(390, 20, 1, 0).unwrap();
    assert_eq!(decoder.repair(&mixed, &payload(&mixed)), Ok(RepairOutcome::TooMany));
    // The places are used again.
    for sid in 400..800 {
        assert_eq!(decoder.source(sid, &truth(sid)), Ok(SourceOutcome::New));
    }
    assert!(decoder.memory() < all + 16_384, "{} after {all}", decoder.memory());
}

/// Blocks given at once, beside the same ones symbol by symbol.
#[test]
fn a_block_that_is_passed_came_and_is_forgotten() {
    let (mut passing, mut plain) = (decoder(64), decoder(64));
    let block = |first| Equation::reed_solomon(first, 30, 1, 0).unwrap();
    for first in [0, 30, 60, 90] {
        assert_eq!(passing.following(), Some(first));
        let symbols: Vec<Vec<u8>> = (first..first + 30).map(truth).collect();
        assert_eq!(passing.pass(first, &symbols), Ok(()));
        for (sid, symbol) in (first..).zip(&symbols) {
            assert_eq!(plain.source(sid, symbol), Ok(SourceOutcome::New));
        }
        assert!(plain.spend(&block(first)));
        assert_eq!((passing.low(), passing.largest()), (plain.low(), plain.largest()));
    }
    assert_eq!((passing.symbols.held(), passing.low()), (0, 120 - 64));
    for decoder in [&mut passing, &mut plain] {
        for (sid, outcome) in [
            (20, SourceOutcome::Below),
            (55, SourceOutcome::Below),
            (56, SourceOutcome::Duplicate),
            (119, SourceOutcome::Duplicate),
        ] {
            assert_eq!(decoder.source(sid, &truth(sid)), Ok(outcome), "{sid}");
        }
        let repair = block(90);
        assert_eq!(decoder.repair(&repair, &[1]), Err(SenderFault::Short));
        assert_eq!(decoder.repair(&repair, &payload(&repair)), Ok(RepairOutcome::Redundant));
        // With one missing there is a repair symbol that what follows is to be subtracted from.
        assert_eq!(decoder.source(121, &truth(121)), Ok(SourceOutcome::New));
        let repair = Equation::reed_solomon(120, 2, 1, 0).unwrap();
        assert_eq!(decoder.repair(&repair, &payload(&repair)), Ok(RepairOutcome::Taken));
        assert_eq!(decoder.following(), None);
        assert_eq!(drain(decoder, 1 << 20), [120]);
        assert_eq!(decoder.following(), Some(122));
    }
    assert_eq!(passing.pass(122, [vec![1; SIZE + 1]]), Err(SenderFault::TooLong));
    assert_eq!(passing.pass(MAX_SID, [truth(1), truth(2)]), Err(SenderFault::Range));
    // Not behind all others: as they come.
    assert_eq!(passing.pass(122, [truth(122)]), Ok(()));
    assert_eq!(passing.source(122, &truth(122)), Ok(SourceOutcome::Below));
}

proptest! {
    #![proptest_config(cases(60))]

    /// Blocks one after the other, sources and repair symbols lost, late or twice.
    #[test]
    fn forgetting_changes_nothing_of_what_is_recovered(
        blocks in prop::collection::vec((1_u64..30, 0_u64..5), 1..20),
        fates in prop::collection::vec((0_u64..10, 0_u64..40), 800),
    ) {
        let (mut first, mut sent, mut fates) = (0, Vec::new(), fates.into_iter().cycle());
        for (at, (k, r)) in blocks.into_iter().enumerate() {
            let symbols = (first..first + k).map(|sid| (Some(sid), None));
            let repairs = (0..r).map(|i| (None, Equation::reed_solomon(first, k, 1, i).ok()));
            for (n, what) in symbols.chain(repairs).enumerate() {
                let (fate, late) = fates.next().unwrap();
                // One in ten is lost, one in ten late, one in ten comes twice.
                let when = (at as u64) * 40 + n as u64;
                sent.extend((fate != 0).then_some((when + if fate == 1 { late } else { 0 }, what)));
                sent.extend((fate == 2).then_some((when + late, what)));
            }
            first += k;
        }
        sent.sort_by_key(|(when, _)| *when);
        let (mut plain, mut thrifty) = (decoder(256), decoder(256));
        for (_, what) in sent {
            match what {
                (Some(sid), _) => {
                    prop_assert_eq!(plain.source(sid, &truth(sid)), thrifty.source(sid, &truth(sid)));
                }
                (None, Some(repair)) => {
                    let data = payload(&repair);
                    prop_assert_eq!(plain.repair(&repair, &data), thrifty.repair(&repair, &data));
                    thrifty.spend(&repair);
                }
                (None, None) => {}
            }
            prop_assert_eq!(drain(&mut plain, 1 << 20), drain(&mut thrifty, 1 << 20));
        }
        prop_assert!(thrifty.symbols.held() <= plain.symbols.held());
    }
}
