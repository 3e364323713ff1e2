//! Decoders of erasure codes: whatever comes is taken or refused, memory stays within the window, and what a
//! sender of fixed symbols sends is recovered as it was.
//!
//! The first byte of the input is the kind of decoder, and whether the sender is honest; then come
//! operations, each a byte and what it needs.
#![no_main]

use libfuzzer_sys::fuzz_target;
use quickset_fec::online::{self, DecoderLimits};
use quickset_fec::{Equation, MAX_SID, Symbols, ldpc};

const SIZE: usize = 48;
const WINDOW: usize = 64;

/// Both kinds by their common verbs.
#[expect(clippy::large_enum_variant, reason = "there is one")]
enum Decoder {
    Linear(online::Decoder),
    Staircase(ldpc::Decoder),
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, mut rest)) = input.split_first() else { return };
    let limits = DecoderLimits { window: WINDOW, symbol_size: SIZE, max_unknowns: usize::from(first >> 2) };
    let mut decoder = match first & 1 {
        0 => Decoder::Linear(online::Decoder::new(limits)),
        _ => Decoder::Staircase(ldpc::Decoder::new(limits)),
    };
    let honest = first & 2 == 0;
    let mut base = 0;
    while let Some((&[op, a, b, c], after)) = rest.split_first_chunk() {
        rest = after;
        let sid = base + u64::from(a);
        match op % 8 {
            0..3 => source(&mut decoder, sid, &bytes(sid, honest, b)),
            3..6 => repair(&mut decoder, sid, [op, b, c], honest),
            6 => {
                work(&mut decoder, usize::from(b) << (c % 12));
            }
            _ if b < 8 => set_window(&mut decoder, 1 + usize::from(c) % WINDOW),
            _ if b < 12 => base = MAX_SID - 600,
            _ if b < 24 => give_up_below(&mut decoder, sid),
            _ => base = (base + u64::from(c)).min(MAX_SID - 600),
        }
        recovered(&mut decoder, honest);
        // Slots of whole cache lines, chunks that may be half empty, and the sums of an elimination.
        assert!(memory(&decoder) <= (WINDOW * 9 / 8 + 80) * 64 + 8192);
    }
    if honest {
        while work(&mut decoder, 1 << 20) != 0 {
            recovered(&mut decoder, honest);
        }
    }
});

fn bytes(sid: u64, honest: bool, noise: u8) -> Vec<u8> {
    let seed = if honest { sid } else { u64::from(noise) };
    let len = 1 + (seed.wrapping_mul(0x9e37_79b9) >> 8) as usize % (SIZE + usize::from(!honest));
    (0..len as u64).map(|i| (seed.wrapping_mul(31) + i * 7) as u8).collect()
}

fn source(decoder: &mut Decoder, sid: u64, data: &[u8]) {
    let outcome = match decoder {
        Decoder::Linear(decoder) => decoder.source(sid, data),
        Decoder::Staircase(decoder) => decoder.source(sid, data),
    };
    if let Err(fault) = outcome {
        assert!(!matches!(fault, online::SenderFault::Uneven), "no fault of a source symbol");
    }
}

fn repair(decoder: &mut Decoder, first: u64, [op, b, c]: [u8; 3], honest: bool) {
    let (count, parameter, index) = (1 + u64::from(b & 63), 1 + u64::from(b >> 6), u64::from(c));
    let mut symbols = Symbols::new(1 << 10, SIZE);
    match decoder {
        Decoder::Linear(decoder) => {
            let equation = match op / 8 % 4 {
                0 => Equation::xor(first, count, parameter, index % 4),
                1 => Equation::xor2d(first, count, parameter, index % 70),
                2 => Equation::reed_solomon(first, count, parameter, index),
                _ => Equation::rlc(first, count, index),
            };
            let Ok(equation) = equation else { return };
            let mut data = bytes(first, honest, c);
            if honest {
                for term in 0..equation.terms() {
                    let sid = equation.sid(term);
                    symbols.insert(sid, &bytes(sid, true, 0)).expect("it fits");
                }
                symbols.combine(&equation, &mut data).expect("all are held");
            }
            assert!(decoder.repair(&equation, &data).is_ok() || !honest);
        }
        Decoder::Staircase(decoder) => {
            let Ok(block) = ldpc::Block::new(first, count, parameter + 2) else { return };
            let index = index % (parameter + 2);
            let mut data = bytes(first, honest, c);
            if honest {
                for sid in block.first()..=block.last() {
                    symbols.insert(sid, &bytes(sid, true, 0)).expect("it fits");
                }
                data = block.encode(&symbols).expect("all are held").swap_remove(index as usize);
            }
            // Blocks of this sender may overlap, which is a fault.
            let _ = decoder.repair(&block, index, &data);
        }
    }
}

fn work(decoder: &mut Decoder, budget: usize) -> usize {
    match decoder {
        Decoder::Linear(decoder) => decoder.work(budget),
        Decoder::Staircase(decoder) => decoder.work(budget),
    }
}

fn set_window(decoder: &mut Decoder, window: usize) {
    match decoder {
        Decoder::Linear(decoder) => decoder.set_window(window),
        Decoder::Staircase(decoder) => decoder.set_window(window),
    }
}

fn give_up_below(decoder: &mut Decoder, sid: u64) {
    match decoder {
        Decoder::Linear(decoder) => decoder.give_up_below(sid),
        Decoder::Staircase(_) => {}
    }
}

fn memory(decoder: &Decoder) -> usize {
    match decoder {
        Decoder::Linear(decoder) => decoder.memory(),
        Decoder::Staircase(decoder) => decoder.memory(),
    }
}

fn recovered(decoder: &mut Decoder, honest: bool) {
    let next = |decoder: &mut Decoder| match decoder {
        Decoder::Linear(decoder) => decoder.next_recovered().map(|(sid, data)| (sid, data.to_vec())),
        Decoder::Staircase(decoder) => decoder.next_recovered().map(|(sid, data)| (sid, data.to_vec())),
    };
    while let Some((sid, data)) = next(decoder) {
        if honest {
            let mut expected = bytes(sid, true, 0);
            while expected.last() == Some(&0) {
                expected.pop();
            }
            assert_eq!(data, expected, "symbol {sid}");
        }
    }
}
