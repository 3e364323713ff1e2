use std::collections::BTreeSet;

use proptest::prelude::*;
use quickset_base::Rng;
use quickset_fec::{Equation, Symbols, ldpc};
use quickset_wire::{TransportErrorCode as Code, varint};

use super::*;

mod fresh;
mod spent;
mod told;
mod unmarked;

const SIZE: usize = 200;

impl ProtectReceiving {
    /// A SOURCE_SYMBOL in a packet with nothing else.
    fn on_copy(&mut self, session: u64, sid: u64, data: &[u8]) -> Result<Dispatch, TransportError> {
        let payload = Bytes::copy_from_slice(data);
        self.on_source(session, sid, &payload, &payload)
    }
}

fn receiving(window: u64, sessions: u64) -> ProtectReceiving {
    ProtectReceiving::new(DecoderOffer { window, sessions, symbol: SIZE, schemes: Schemes::ALL, unmarked: 0 })
}

/// Symbol `sid` of the peer: PADDING frames with something in them would be another frame, so any bytes will
/// do.
fn symbol(sid: u64) -> Vec<u8> {
    let len = 1 + (sid % SIZE as u64 * 37 % SIZE as u64) as usize;
    (0..len).map(|i| (sid.wrapping_mul(0x9e37_79b9).wrapping_add(i as u64 * 101) >> 3) as u8 | 1).collect()
}

/// What the peer's encoder would send.
fn repair(header: RepairHeader) -> Vec<u8> {
    let RepairHeader { session, first, count, parameter, index } = header;
    let mut symbols = Symbols::new(1 << 16, SIZE);
    let scheme = Scheme::of(session).unwrap();
    (first..=scheme.last_sid(first, count, parameter).unwrap())
        .try_for_each(|sid| symbols.insert(sid, &symbol(sid)))
        .unwrap();
    let equation = match scheme {
        Scheme::Xor => Equation::xor(first, count, parameter, index),
        Scheme::Grid => Equation::xor2d(first, count, parameter, index),
        Scheme::ReedSolomon => Equation::reed_solomon(first, count, parameter, index),
        Scheme::Rlc => Equation::rlc(first, count, index),
        Scheme::Ldpc => {
            let block = ldpc::Block::new(first, count, parameter).unwrap();
            return block.encode(&symbols).unwrap().swap_remove(index as usize);
        }
    };
    let mut out = Vec::new();
    symbols.combine(&equation.unwrap(), &mut out).unwrap();
    out
}

fn give(receiving: &mut ProtectReceiving, header: RepairHeader, data: &[u8]) -> Result<(), TransportError> {
    let RepairHeader { session, first, count, parameter, index } = header;
    let outcome = receiving.on_repair(&Frame::Repair { session, first, count, parameter, index, data });
    receiving.end_packet();
    outcome
}

fn header(session: u64, first: u64, count: u64, parameter: u64, index: u64) -> RepairHeader {
    RepairHeader { session, first, count, parameter, index }
}

fn source(receiving: &mut ProtectReceiving, session: u64, sid: u64) -> Result<Dispatch, TransportError> {
    let outcome = receiving.on_copy(session, sid, &symbol(sid));
    receiving.end_packet();
    outcome
}

/// All that is recovered, each checked and each once.
fn drain(receiving: &mut ProtectReceiving) -> BTreeSet<(u64, u64)> {
    while receiving.has_work() {
        receiving.work();
    }
    let mut all = BTreeSet::new();
    while let Some((session, sid, data)) = receiving.next_recovered() {
        let expected = symbol(sid);
        assert_eq!(data[..expected.len()], expected);
        assert!(data[expected.len()..].iter().all(|&byte| byte == 0), "PADDING");
        assert!(all.insert((session, sid)), "{sid} twice");
    }
    all
}

#[track_caller]
fn refused<T: std::fmt::Debug>(outcome: Result<T, TransportError>) {
    assert_eq!(outcome.map_err(|e| e.code).unwrap_err(), Code::FEC_ERROR);
}

/// FEC-61 by its numbers; 1, 2, 4, 5, 13 and 14 are found by others as well.
#[test]
fn what_an_encoder_must_not_do_is_an_error() {
    let new = || receiving(64, 4);
    // 1, 2.
    refused(give(&mut new(), header(0, 0, 0, 1, 0), &[1]));
    refused(give(&mut new(), header(4, varint::MAX, 2, 0, 0), &[1]));
    refused(give(&mut new(), header(2, 0, 3, varint::MAX, 0), &[1]));
    // 3: FEC-29, FEC-30, FEC-31, FEC-32, FEC-33.
    for (session, count, parameter, index) in [
        (0, 8, 0, 0),
        (0, 8, 3, 3),
        (0, 2, 3, 2),
        (1, 8, 0, 0),
        (1, 8, 3, 6),
        (1, 2, 3, 2),
        (2, 8, 0, 0),
        (2, 8, 1, 248),
        (2, 8, 1, varint::MAX),
        (3, 1, 3, 0),
        (3, 8, 2, 0),
        (3, 8, 4, 4),
        (3, 8, 65, 0),
        (4, 8, 1, 0),
    ] {
        refused(give(&mut new(), header(session, 0, count, parameter, index), &[1]));
    }
    // 6.
    for session in [5, 6, 7, 8 * 4, varint::MAX] {
        refused(source(&mut new(), session, 0));
        refused(give(&mut new(), header(session, 0, 1, 0, 0), &[1]));
    }
    let mut one = new();
    source(&mut one, 8 + 2, 0).unwrap();
    refused(source(&mut one, 8 + 4, 0));
    refused(source(&mut receiving(0, 4), 0, 0));
    let few = DecoderOffer {
        window: 64,
        sessions: 4,
        symbol: SIZE,
        schemes: Schemes::NONE.with(Scheme::Rlc),
        unmarked: 0,
    };
    refused(source(&mut ProtectReceiving::new(few), 2, 0));
    // 7.
    refused(new().on_copy(0, 0, &[1; SIZE + 1]));
    refused(give(&mut new(), header(4, 0, 1, 0, 0), &[1; SIZE + 1]));
    // 8.
    refused(give(&mut new(), header(4, 0, 65, 0, 0), &[1]));
    refused(give(&mut new(), header(2, 0, 3, 32, 0), &[1]));
    assert!(give(&mut new(), header(4, 0, 64, 0, 0), &[1]).is_ok());
    // 9, but not in the next packet.
    let mut one = new();
    one.on_copy(2, 0, &symbol(0)).unwrap();
    one.on_copy(8 + 2, 0, &symbol(0)).unwrap();
    refused(one.on_copy(2, 1, &symbol(1)));
}

/// FEC-61, numbers 10 to 12: what contradicts what came before.
#[test]
fn what_an_encoder_contradicts_is_an_error() {
    // 10.
    let mut one = receiving(64, 1);
    one.on_copy(4, 0, &[1, 2, 0]).unwrap();
    one.end_packet();
    assert_eq!(one.on_copy(4, 0, &[1, 2]), Ok(Dispatch::No), "a repeat");
    one.end_packet();
    refused(one.on_copy(4, 0, &[1, 3]));
    // 11, in both orders, and for LDPC too.
    for (session, parameter) in [(4, 0), (3, 3)] {
        let mut one = receiving(64, 1);
        one.on_copy(session, 0, &[1; 9]).unwrap();
        one.end_packet();
        refused(give(&mut one, header(session, 0, 4, parameter, 0), &[1; 8]));
        let mut one = receiving(64, 1);
        give(&mut one, header(session, 0, 4, parameter, 0), &[1; 8]).unwrap();
        refused(one.on_copy(session, 0, &[1; 9]));
    }
    // 12: blocks that overlap (FEC-25), repairs of a block that differ (FEC-32), seeds used twice (FEC-33).
    for (session, first, then) in [
        (0, (0, 8, 2), (4, 8, 2)),
        (0, (0, 8, 2), (0, 8, 3)),
        (1, (0, 8, 2), (7, 2, 2)),
        (2, (0, 4, 2), (4, 4, 1)),
        (2, (0, 4, 2), (0, 5, 2)),
        (3, (0, 8, 3), (4, 8, 3)),
        (3, (0, 8, 3), (0, 8, 4)),
        (4, (0, 8, 0), (1, 8, 0)),
    ] {
        let mut one = receiving(64, 1);
        give(&mut one, header(session, first.0, first.1, first.2, 0), &[1; 20]).unwrap();
        refused(give(&mut one, header(session, then.0, then.1, then.2, 0), &[1; 20]));
    }
    let mut one = receiving(64, 1);
    give(&mut one, header(3, 0, 8, 3, 0), &[1; 20]).unwrap();
    refused(give(&mut one, header(3, 0, 8, 3, 1), &[1; 21]));
    // No contradictions: parts of one interleaved block, and blocks that grow, in whatever order.
    let mut one = receiving(64, 2);
    for (session, first, count, parameter) in
        [(2, 0, 4, 2), (2, 1, 4, 2), (2, 8, 9, 1), (9, 0, 8, 4), (9, 0, 4, 4), (9, 0, 16, 4), (9, 16, 4, 4)]
    {
        give(&mut one, header(session, first, count, parameter, 0), &[1; SIZE]).unwrap();
    }
}

/// The examples of `spec/fec.md`, section 20: each REPAIR gives what is missing of the symbols that it covers
/// (FEC-36).
#[test]
fn vectors_of_the_specification() {
    let hex = |text: &str| -> Vec<u8> {
        text.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
    };
    let symbols = [
        "0a 00 05 68 65 6c 6c 6f",
        "0e 00 05 06 2c 20 77 69 64 65",
        "0f 00 0b 06 20 77 6f 72 6c 64",
        "0a 04 01 78",
    ]
    .map(hex);
    for (covers, frame) in [
        (&[0_u64, 1, 2, 3][..], "7f 61 00 00 04 01 00 0a 01 04 0a 10 69 3b 74 74 08 01"),
        (&[0, 2], "7f 61 00 00 04 02 00 0a 05 00 0e 6e 45 1b 03 1d 6c 64"),
        (&[1, 3], "7f 61 00 00 04 02 01 0a 04 04 04 7e 2c 20 77 69 64 65"),
        (&[0, 1], "7f 61 01 00 02 02 02 0a 04 00 00 6e 49 4c 1b 06 64 65"),
        (&[2], "7f 61 01 00 03 02 03 0a 0f 00 0b 06 20 77 6f 72 6c 64"),
        (&[0, 2], "7f 61 01 00 04 02 00 0a 05 00 0e 6e 45 1b 03 1d 6c 64"),
        (&[0, 1, 2, 3], "7f 61 02 00 04 01 00 0a df e1 7d 6c 96 5f 9d 3e bf 6a"),
        (&[0, 2], "7f 61 02 00 02 02 01 0a 59 00 3a 6e c0 7a aa d6 0f b4"),
        (&[0, 1, 2, 3], "7f 61 04 00 04 00 07 0a fd 8c 97 c1 a4 c7 8f c9 40 19"),
    ] {
        let bytes = hex(frame);
        let Some(Ok(repair @ Frame::Repair { session, .. })) =
            quickset_wire::frame::Frames::new(&bytes).next()
        else {
            panic!("{frame}");
        };
        for &lost in covers {
            let mut one = receiving(64, 1);
            for sid in (0..4).filter(|sid| *sid != lost) {
                one.on_copy(session, sid, &symbols[sid as usize]).unwrap();
                one.end_packet();
            }
            one.on_repair(&repair).unwrap();
            one.work();
            let (_, sid, data) = one.next_recovered().unwrap();
            let expected = &symbols[lost as usize];
            assert_eq!((sid, &data[..expected.len()]), (lost, &expected[..]), "{frame}");
            assert!(data[expected.len()..].iter().all(|&byte| byte == 0));
        }
    }
    // LDPC: symbols of one byte each, in a block from SID 0 on.
    let mut bits = Symbols::new(6, 1);
    (0..6).try_for_each(|j| bits.insert(j, &[1 << j])).unwrap();
    let repairs = ldpc::Block::new(0, 6, 4).unwrap().encode(&bits).unwrap();
    assert_eq!(repairs.concat(), [0x2f, 0x15, 0x08, 0x3f]);
}

/// FEC-57, FEC-59: one REPAIR may name a thousand symbols, of which nothing came.
#[test]
fn what_is_named_takes_no_memory() {
    for scheme in [Scheme::Xor, Scheme::Grid, Scheme::Ldpc, Scheme::Rlc] {
        let mut one = receiving(1024, 1);
        let parameter = u64::from(scheme != Scheme::Rlc) * 3;
        give(&mut one, header(scheme.session(0), 0, 1024, parameter, 0), &[1; SIZE]).unwrap();
        let held: usize = one.sessions.iter().map(|(_, session)| session.memory()).sum();
        assert!(held <= 256, "{scheme:?}: {held}");
        assert!(!one.has_work());
    }
}

/// FEC-20: be it received or recovered first.
#[test]
fn each_symbol_is_dispatched_once() {
    let mut one = receiving(64, 1);
    for sid in [0, 1, 3] {
        assert_eq!(source(&mut one, 4, sid), Ok(Dispatch::All));
        assert_eq!(source(&mut one, 4, sid), Ok(Dispatch::No));
    }
    let over = header(4, 0, 4, 0, 9);
    give(&mut one, over, &repair(over)).unwrap();
    assert_eq!(drain(&mut one), [(4, 2)].into());
    assert_eq!(source(&mut one, 4, 2), Ok(Dispatch::No));
    // Determined, but received before it is computed.
    for sid in [4, 5] {
        source(&mut one, 4, sid).unwrap();
    }
    let over = header(4, 4, 3, 0, 10);
    give(&mut one, over, &repair(over)).unwrap();
    assert!(one.has_work());
    assert_eq!(source(&mut one, 4, 6), Ok(Dispatch::All));
    assert_eq!(drain(&mut one), BTreeSet::new());
    // FEC-21.
    assert_eq!(source(&mut one, 4, 100), Ok(Dispatch::All));
    assert_eq!(source(&mut one, 4, 36), Ok(Dispatch::WithoutDatagrams));
    assert_eq!(source(&mut one, 4, 37), Ok(Dispatch::All));
    assert_eq!(one.counts(), ReceiveCounts { sources: 9, repairs: 2, recovered: 1 });
}

/// FEC-58, FEC-48: what is outside the present window is ignored, unless it is outside every window ever
/// offered.
#[test]
fn repairs_below_the_window_are_ignored() {
    let mut one = receiving(64, 1);
    source(&mut one, 4, 100).unwrap();
    give(&mut one, header(4, 36, 10, 0, 0), &[1]).unwrap();
    assert!(!one.has_work());
    one.set_window(16);
    give(&mut one, header(4, 60, 60, 0, 1), &[1]).unwrap();
    one.set_window(128);
    give(&mut one, header(4, 60, 128, 0, 2), &[1; SIZE]).unwrap();
    refused(give(&mut one, header(4, 60, 129, 0, 3), &[1; SIZE]));
}

/// Sources and repairs of one block of each scheme that has losses which it can recover.
fn scenes() -> Vec<(Vec<u64>, Vec<RepairHeader>)> {
    let all = |lost: &[u64], n: u64| (0..n).filter(|sid| !lost.contains(sid)).collect();
    vec![
        (all(&[4, 5, 6], 20), (0..3).map(|i| header(0, 0, 20, 3, i)).collect()),
        (all(&[0, 7, 8, 19], 24), (0..10).map(|i| header(1, 0, 24, 6, i)).collect()),
        (
            all(&[0, 1, 10, 29], 30),
            (0..2).flat_map(|q| (0..2).map(move |i| header(2, q, 15, 2, i))).collect(),
        ),
        (all(&[3, 9, 10], 40), (0..16).map(|i| header(3, 0, 40, 16, i)).collect()),
        (all(&[0, 1, 2, 20, 21], 25), (0..5).map(|i| header(4, i, 25 - i, 0, 77 + i)).collect()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the order of arrival, and wherever the work is cut, everything arrives.
    #[test]
    fn order_does_not_matter(keys in prop::collection::vec(any::<u32>(), 60), scene in 0..5_usize, work in any::<u64>()) {
        let (sources, repairs) = scenes().swap_remove(scene);
        let session = repairs[0].session;
        let count = sources.last().copied().unwrap_or(0).max(repairs.iter().map(|r| r.first + 1).max().unwrap());
        let mut steps: Vec<(u32, Option<u64>, Option<RepairHeader>)> = Vec::new();
        steps.extend(sources.iter().map(|&sid| (0, Some(sid), None)));
        steps.extend(repairs.iter().map(|&repair| (0, None, Some(repair))));
        steps.iter_mut().zip(&keys).for_each(|(step, &key)| step.0 = key);
        steps.sort_by_key(|step| step.0);

        let mut one = receiving(64, 1);
        let mut arrived: BTreeSet<u64> = BTreeSet::new();
        for (n, (_, sid, header)) in (0..).zip(steps) {
            if let Some(sid) = sid {
                if source(&mut one, session, sid).unwrap() == Dispatch::All {
                    prop_assert!(arrived.insert(sid));
                }
            }
            if let Some(header) = header {
                give(&mut one, header, &repair(header)).unwrap();
            }
            if work >> (n % 64) & 1 == 1 {
                one.work();
                while let Some((_, sid, _)) = one.next_recovered() {
                    prop_assert!(arrived.insert(sid));
                }
            }
        }
        for (_, sid) in drain(&mut one) {
            prop_assert!(arrived.insert(sid));
        }
        prop_assert!((0..count).all(|sid| arrived.contains(&sid)), "{:?}", arrived);
    }

    /// FEC-62, FEC-56: whatever comes is taken or refused, and memory stays within what was offered.
    #[test]
    fn nothing_that_comes_does_harm(
        ops in prop::collection::vec((0..10_u8, any::<u64>(), any::<u64>(), 0..70_u64, 0..SIZE), 1..250),
        big in any::<bool>(),
    ) {
        let mut one = receiving(64, 3);
        let mut base = if big { varint::MAX - 200 } else { 0 };
        for (op, a, b, count, len) in ops {
            let (session, first) = (a % 26, base + b % 90);
            match op {
                0..4 => drop(one.on_copy(session, first, &vec![a as u8; len])),
                4..8 => {
                    let parameter = if session & 7 == 4 { 0 } else { a >> 8 & 31 };
                    let data = vec![b as u8; len.max(1)];
                    drop(give(&mut one, header(session, first, count, parameter, a >> 32 & 63), &data));
                }
                8 => base = base.saturating_add(b % 40).min(varint::MAX - 100),
                _ => one.set_window(b % 65),
            }
            one.end_packet();
            one.work();
            while one.next_recovered().is_some() {}
            let held: usize = one.sessions.iter().map(|(_, session)| session.memory()).sum();
            // In slots of whole cache lines, a chunk of which may be half empty.
            prop_assert!(held <= 3 * (64 + 8 + 8) * 256 + 8192, "{}", held);
            prop_assert!(one.sessions.len() <= 3);
        }
    }
}

/// An encoder that sends nothing but repair, of things that it never sends.
#[test]
fn repair_alone_is_bounded() {
    for scheme in Scheme::ALL {
        let mut one = receiving(1024, 1);
        for i in 0..3000_u64 {
            let (first, count, parameter, index) = match scheme {
                Scheme::Xor => (i * 40, 40, 40, i % 40),
                Scheme::Grid => (i * 40, 40, 8, i % 8),
                Scheme::ReedSolomon => (i / 8 * 100, 100, 1, i % 8),
                Scheme::Ldpc => (i / 100 * 300, 300, 200, i % 200),
                Scheme::Rlc => (i, 60, 0, i),
            };
            give(&mut one, header(scheme.session(0), first, count, parameter, index), &[1; SIZE]).unwrap();
            one.work();
            let held: usize = one.sessions.iter().map(|(_, session)| session.memory()).sum();
            assert!(held <= 1024 * 256 * 9 / 8, "{scheme:?}: {held}");
        }
    }
}

/// FEC-59: bursts that were too long, of which nothing is sent again since it would come too late, do not
/// keep what follows from being repaired.
#[test]
fn losses_of_long_ago_leave_room_for_new_ones() {
    for (session, parameter) in [(4, 0), (2, 1), (1, 20), (0, 1)] {
        let mut one = receiving(1024, 1);
        for burst in 0..12 {
            // Eight of twenty are lost, and one repair symbol comes.
            let first = 20 * burst;
            for sid in first + 8..first + 20 {
                source(&mut one, session, sid).unwrap();
            }
            let index = if session == 1 {
                20
            } else if session == 4 {
                burst
            } else {
                0
            };
            let over = header(session, first, 20, parameter, index);
            give(&mut one, over, &repair(over)).unwrap();
        }
        assert!(drain(&mut one).is_empty());
        for sid in 241..260 {
            source(&mut one, session, sid).unwrap();
        }
        let index = if session == 1 {
            20
        } else if session == 4 {
            99
        } else {
            0
        };
        let over = header(session, 240, 20, parameter, index);
        give(&mut one, over, &repair(over)).unwrap();
        assert_eq!(drain(&mut one), [(session, 240)].into(), "session {session}");
        // What was given up may come late.
        assert_eq!(source(&mut one, session, 5), Ok(Dispatch::All));
    }
}

/// A First SID at the end of the numbers.
#[test]
fn the_last_numbers_are_numbers_like_others() {
    for scheme in Scheme::ALL {
        let mut one = receiving(64, 1);
        let session = scheme.session(0);
        for sid in 0..64 {
            source(&mut one, session, sid).unwrap();
        }
        let parameter = match scheme {
            Scheme::Rlc => 0,
            Scheme::Ldpc => 3,
            _ => 1,
        };
        let last = header(session, varint::MAX - 3, 4, parameter, 0);
        give(&mut one, last, &repair(last)).unwrap();
        for sid in varint::MAX - 3..varint::MAX {
            assert_eq!(source(&mut one, session, sid), Ok(Dispatch::All));
        }
        let recovered = drain(&mut one);
        assert!(recovered.is_empty() || recovered == [(session, varint::MAX)].into());
        assert!(scheme == Scheme::Ldpc || !recovered.is_empty());
        assert_eq!(source(&mut one, session, 63), Ok(Dispatch::WithoutDatagrams));
    }
}

/// FEC-60: what a packet makes us compute, in the worst case that we know: a full window of which 64 symbols
/// are missing, as many repair symbols over all of it, and leaps of the window before their payload was
/// touched.
#[test]
fn the_work_of_a_packet_is_bounded() {
    let (window, size) = (1024, 1472);
    let mut one = ProtectReceiving::new(DecoderOffer {
        window,
        sessions: 1,
        symbol: size,
        schemes: Schemes::ALL,
        unmarked: 0,
    });
    let cost =
        |one: &ProtectReceiving| one.sessions.first().map(|(_, session)| session.cost()).unwrap_or_default();
    let (mut seed, mut most, mut rows, mut used) = (0, 0, 0, 0);
    let mut packet = |one: &mut ProtectReceiving, sid: Option<u64>, repair: Option<(u64, u64)>| {
        let before = cost(one);
        if let Some(sid) = sid {
            // What was recovered is of no sense, so this may be an error.
            drop(one.on_copy(4, sid, &vec![sid as u8 | 1; size]));
        }
        if let Some((first, count)) = repair {
            seed += 1;
            let (parameter, index) = (0, seed);
            let data = vec![seed as u8 | 1; size];
            one.on_repair(&Frame::Repair { session: 4, first, count, parameter, index, data: &data })
                .unwrap();
        }
        one.end_packet();
        one.work();
        while one.next_recovered().is_some() {}
        let after = cost(one);
        most = most.max(after.bytes - before.bytes);
        rows = rows.max(after.row_operations - before.row_operations);
        used += after.bytes - before.bytes;
    };
    for round in 0..6_u64 {
        let base = round * 1500;
        for sid in (base..base + 900).filter(|sid| sid % 16 != 5 || *sid >= base + 16 * 64) {
            packet(&mut one, Some(sid), None);
        }
        let missing = (base..base + 900).filter(|sid| sid % 16 == 5).count() as u64;
        for _ in 0..missing - round % 2 {
            packet(&mut one, None, Some((base, 900)));
        }
        for _ in 0..round * 30 {
            packet(&mut one, None, None);
        }
        // A leap by as much as the window holds, and then steps.
        packet(&mut one, Some(base + 1024 + 300 * (round % 3)), None);
        for sid in base + 1700..base + 1790 {
            packet(&mut one, Some(sid), None);
        }
    }
    assert!(used > 50 << 20, "{used} bytes: not the worst case");
    // The budget for what is wanted and as much for what leaves the window, and the last step of each.
    assert!(most <= 2 * BUDGET as u64 + 2 * 64 * 1472, "{most} bytes for a packet");
    assert!(rows <= 64 * 64 * 2, "{rows} row operations for a packet");
}

/// What all sessions have cost, as packets pay for it.
fn price(one: &ProtectReceiving) -> Price {
    one.sessions.iter().fold(Price::default(), |sum, (_, session)| {
        let (cost, each) = (session.cost(), if session.scheme == Scheme::Ldpc { 1 } else { 16 });
        Price { steps: sum.steps + each * cost.row_operations, bytes: sum.bytes + cost.bytes }
    })
}

/// FEC-60: packets full of repair symbols of one byte, each of a block of its own, or all of one in which
/// just so much is missing that it is eliminated each time, or over a window in which 63 of 64 missing
/// symbols are determined but for the last.
#[test]
fn the_headers_of_a_packet_cost_little() {
    const PACKETS: u64 = 400;
    let blocks = |n: u64| header(3, 1024 * n, 1024, 1024, 0);
    let block = |n: u64| header(3, 0, 64, 1024, 1023 - n % 1024);
    // Every symbol is missing, and each says something new until all places are taken; then all has to be
    // given up.
    let windows = |n: u64| header(4, n / 64 * 70, 64, 0, n);
    // Short runs: of the 64 that are named any number may be determined.
    let runs = |n: u64| header(4, 1000 + n % 61, 3, 0, n);
    let scanned = |n: u64| header(4, 0, 1024, 0, n);
    let cases: [&dyn Fn(u64) -> RepairHeader; 5] = [&blocks, &block, &windows, &runs, &scanned];
    for (case, of) in cases.into_iter().enumerate() {
        let mut one = receiving(1024, 1);
        for sid in (0..1024).filter(|sid| sid % 16 != 5 && case == 4) {
            one.on_copy(4, sid, &[1]).unwrap();
            one.end_packet();
        }
        let (before, mut most, mut dropped) = (price(&one), 0, 0);
        for packet in 0..PACKETS {
            let at = price(&one);
            for n in 0..100 {
                let RepairHeader { session, first, count, parameter, index } = of(100 * packet + n);
                let frame = Frame::Repair { session, first, count, parameter, index, data: &[1] };
                one.on_repair(&frame).unwrap();
            }
            dropped += u64::from(one.steps.is_spent());
            end_packet(&mut one);
            most = most.max(price(&one).steps - at.steps);
        }
        let (all, after) = (price(&one).steps - before.steps, price(&one).bytes - before.bytes);
        // What was saved, what was earned, and what the last of a packet took beyond that: all places are
        // given up for it.
        let last = 16 * 64 * 64 * 2;
        assert!(all <= saved(1024) + PACKETS * STEPS + last, "case {case}: {} steps a packet", all / PACKETS);
        assert!(most <= saved(1024) + STEPS + last, "case {case}: {most} steps for a packet");
        assert!(after <= (1024 + PACKETS) * BYTES, "case {case}: {after} bytes");
        assert!(dropped > PACKETS / 2, "case {case}: {dropped} times, {all} steps: not the worst case");
    }
}

/// Returns how many symbols were recovered.
fn end_packet(one: &mut ProtectReceiving) -> u64 {
    one.end_packet();
    one.work();
    std::iter::from_fn(|| one.next_recovered()).count() as u64
}

/// FEC-60: an honest sender pays for what it asks for, whatever it loses that can be repaired, and however
/// many packets come at a time: no repair symbol is dropped, and all is computed at once.
#[test]
fn honest_repair_is_always_paid_for() {
    let size = 1472;
    let lane = |scheme: Scheme, window, block, repairs| (scheme.session(0), window, block, repairs);
    // Sessions of a window, of blocks with as many repair symbols, and how many in a thousand are lost.
    for ((session, window, block, repairs), lost) in [
        (lane(Scheme::Rlc, 1024, 512, 72), 80),
        (lane(Scheme::Rlc, 1024, 64, 40), 300),
        (lane(Scheme::Rlc, 2048, 1000, 72), 45),
        (lane(Scheme::Rlc, 128, 8, 6), 300),
        (lane(Scheme::ReedSolomon, 1024, 200, 40), 120),
        (lane(Scheme::ReedSolomon, 1024, 10, 10), 400),
        (lane(Scheme::Ldpc, 1024, 500, 160), 110),
        (lane(Scheme::Ldpc, 1024, 100, 100), 300),
    ] {
        let what = format!("session {session} of {window}, {block} and {repairs}");
        let mut one = ProtectReceiving::new(DecoderOffer {
            window,
            sessions: 1,
            symbol: size,
            schemes: Schemes::ALL,
            unmarked: 0,
        });
        let (mut sent, mut rng) = (Symbols::new(2 * window as usize, size), Rng::new(session));
        let (mut missing, mut recovered, mut least) = (0, 0, usize::MAX);
        for round in 0..2 * window / block {
            let first = round * block;
            for sid in first..first + block {
                let data = vec![(sid % 251) as u8 | 1; size];
                sent.insert(sid, &data).unwrap();
                if rng.below(1000) >= lost {
                    one.on_copy(session, sid, &data).unwrap();
                    recovered += end_packet(&mut one);
                } else {
                    missing += 1;
                }
            }
            let scheme = Scheme::of(session).unwrap();
            let ldpc = ldpc::Block::new(first, block, repairs).unwrap();
            let encoded = if scheme == Scheme::Ldpc { ldpc.encode(&sent).unwrap() } else { Vec::new() };
            for n in 0..repairs {
                let (parameter, index) = match scheme {
                    Scheme::Rlc => (0, round * repairs + n),
                    Scheme::Ldpc => (repairs, n),
                    _ => (1, n),
                };
                let head = header(session, first, block, parameter, index);
                let mut data = Vec::new();
                match scheme {
                    Scheme::Rlc => {
                        sent.combine(&Equation::rlc(first, block, index).unwrap(), &mut data).unwrap();
                    }
                    Scheme::Ldpc => data.clone_from(&encoded[n as usize]),
                    _ => {
                        let equation = Equation::reed_solomon(first, block, 1, n).unwrap();
                        sent.combine(&equation, &mut data).unwrap();
                    }
                }
                let RepairHeader { session, first, count, parameter, index } = head;
                one.on_repair(&Frame::Repair { session, first, count, parameter, index, data: &data })
                    .unwrap();
                assert!(!one.steps.is_spent(), "{what}: a repair symbol is dropped");
                recovered += end_packet(&mut one);
                least = least.min(one.bytes.left());
            }
        }
        // The last losses.
        recovered += (0..200).map(|_| end_packet(&mut one)).sum::<u64>();
        assert!(least >= BUDGET, "{what}: work is put off");
        assert!(missing > 50 && recovered * 5 > missing * 4, "{what}: {recovered} of {missing}");
    }
}

/// FEC-60: a symbol that is recovered from one of a byte takes longer than its bytes do, so of a packet full
/// of such there is one that its steps pay for, beside those that were saved.
#[test]
fn packets_full_of_short_repairs_recover_a_symbol_each() {
    let mut receiving = receiving(1024, 8);
    let (mut recovered, packets) = (0, 400);
    for n in 0..packets * 120_u64 {
        let (session, first) = (8 * (n % 8), n / 8);
        let frame = Frame::Repair { session, first, count: 1, parameter: 1, index: 0, data: &[0] };
        receiving.on_repair(&frame).unwrap();
        if n % 120 == 119 {
            receiving.end_packet();
            while receiving.has_work() {
                receiving.work();
            }
            recovered += std::iter::from_fn(|| receiving.next_recovered()).count() as u64;
        }
    }
    let most = packets + LEAST_SAVED / STEPS + 1;
    assert!((packets * 9 / 10..=most).contains(&recovered), "{recovered} of {packets} packets");
}
