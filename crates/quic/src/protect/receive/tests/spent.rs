//! The bytes of complete blocks are forgotten.

use super::*;

/// Sources of a block, then its repair symbols.
fn block(scheme: u64, first: u64) -> (std::ops::Range<u64>, Vec<RepairHeader>) {
    let (count, parameter, indices) = match scheme {
        0 => (60, 6, 0..6),
        // Ten columns, six rows.
        1 => (60, 10, 0..16),
        2 => (60, 1, 0..4),
        _ => (60, 8, 0..8),
    };
    (first..first + count, indices.map(|index| header(scheme, first, count, parameter, index)).collect())
}

fn memory(receiving: &ProtectReceiving) -> usize {
    receiving.sessions.iter().map(|(_, session)| session.memory()).sum()
}

#[test]
fn on_a_path_without_losses_two_blocks_are_held() {
    for scheme in 0..4 {
        let mut receiving = receiving(1024, 8);
        let mut after_two = 0;
        for at in 0..40 {
            let (sources, repairs) = block(scheme, at * 60);
            for sid in sources {
                assert_eq!(source(&mut receiving, scheme, sid), Ok(Dispatch::All));
            }
            for repaired in repairs {
                give(&mut receiving, repaired, &repair(repaired)).unwrap();
            }
            if at == 1 {
                after_two = memory(&receiving);
            }
        }
        // What is noted of each SID of the window, beside some slots for symbols.
        let most = after_two + 1024 * 24 + 8 * 256;
        assert!(memory(&receiving) <= most, "{} of {most}, scheme {scheme}", memory(&receiving));
        // Old ones are known, though nothing of them is held.
        let held = 40 * 60 - 1024..40 * 60;
        assert!(held.into_iter().all(|sid| source(&mut receiving, scheme, sid) == Ok(Dispatch::No)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Sources and repair symbols of blocks one after the other, lost, late or twice: in the end what an
    /// independent account says is dispatched, once each.
    #[test]
    fn nothing_is_dispatched_twice_or_wrong(
        scheme in 0..4_u64,
        fates in prop::collection::vec((0_u64..12, 0_u64..90), 900),
    ) {
        let mut sent: Vec<(u64, Option<u64>, Option<RepairHeader>)> = Vec::new();
        let mut fates = fates.into_iter();
        let mut clock = 0;
        for at in 0..9 {
            let (sources, repairs) = block(scheme, at * 60);
            let all = sources.map(|sid| (Some(sid), None)).chain(repairs.into_iter().map(|r| (None, Some(r))));
            for (sid, repaired) in all {
                let (fate, late) = fates.next().unwrap_or((5, 0));
                clock += 1;
                if fate != 0 {
                    sent.push((clock + if fate == 1 { late } else { 0 }, sid, repaired));
                }
                if fate == 2 {
                    sent.push((clock + late, sid, repaired));
                }
            }
        }
        sent.sort_by_key(|(when, ..)| *when);
        let mut receiving = receiving(1024, 8);
        let (mut dispatched, mut came, mut recovered) = (BTreeSet::new(), BTreeSet::new(), 0);
        let mut repairs = BTreeSet::new();
        for (_, sid, repaired) in sent {
            if let Some(sid) = sid {
                came.insert(sid);
                let is_new = source(&mut receiving, scheme, sid).unwrap() == Dispatch::All;
                prop_assert_eq!(is_new, dispatched.insert(sid), "{}", sid);
            }
            if let Some(repaired) = repaired {
                repairs.insert((repaired.first, repaired.index));
                give(&mut receiving, repaired, &repair(repaired)).unwrap();
            }
            for (_, sid) in drain(&mut receiving) {
                prop_assert!(dispatched.insert(sid), "{} was there", sid);
                recovered += 1;
            }
        }
        prop_assert!(came.is_subset(&dispatched));
        prop_assert_eq!(receiving.counts().recovered, recovered);
        // With all its repair symbols any block stands one loss.
        for at in 0..9 {
            let (mut sources, all) = block(scheme, at * 60);
            if all.iter().all(|one| repairs.contains(&(one.first, one.index)))
                && sources.clone().filter(|sid| !came.contains(sid)).count() == 1
            {
                prop_assert!(sources.all(|sid| dispatched.contains(&sid)), "block {}", at);
            }
        }
    }
}
