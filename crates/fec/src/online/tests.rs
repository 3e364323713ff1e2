use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::BadEquation;
use crate::gf256::{inv, mul};

mod spent;

/// What linear algebra says of all that came: dense elimination of every equation over every symbol.
#[derive(Default)]
struct Model {
    known: BTreeSet<u64>,
    equations: Vec<BTreeMap<u64, u8>>,
    low: u64,
}

impl Model {
    /// The missing symbols of the window that are determined, and those of which something is known.
    fn solve(&self) -> (BTreeSet<u64>, BTreeSet<u64>) {
        let rest = |equation: &BTreeMap<u64, u8>| -> BTreeMap<u64, u8> {
            equation.iter().filter(|(sid, _)| !self.known.contains(sid)).map(|(&sid, &c)| (sid, c)).collect()
        };
        let mut rows: Vec<BTreeMap<u64, u8>> = Vec::new();
        // Smaller numbers are eliminated first: so those below the window, then the others.
        for equation in &self.equations {
            let mut row = rest(equation);
            for other in &rows {
                subtract(&mut row, other);
            }
            let Some((&pivot, &c)) = row.iter().next() else { continue };
            let inverse = inv(c).unwrap();
            for c in row.values_mut() {
                *c = mul(*c, inverse);
            }
            for other in &mut rows {
                subtract(other, &row);
            }
            rows.push(row);
            rows.sort_by_key(|row| *row.keys().next().unwrap());
            assert!(rows.iter().any(|row| *row.keys().next().unwrap() == pivot));
        }
        rows.retain(|row| row.keys().all(|sid| *sid >= self.low));
        let (solved, open): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row.len() == 1);
        (
            solved.iter().flat_map(|row| row.keys().copied()).collect(),
            open.iter().flat_map(|row| row.keys().copied()).collect(),
        )
    }
}

/// Makes `row` zero where `other` begins.
fn subtract(row: &mut BTreeMap<u64, u8>, other: &BTreeMap<u64, u8>) {
    let (pivot, &lead) = other.iter().next().unwrap();
    let Some(&c) = row.get(pivot) else { return };
    let factor = mul(c, inv(lead).unwrap());
    for (&sid, &c) in other {
        let sum = row.get(&sid).copied().unwrap_or(0) ^ mul(factor, c);
        if sum == 0 {
            row.remove(&sid);
        } else {
            row.insert(sid, sum);
        }
    }
}

/// Symbol `sid` of the sender: 1 to 90 bytes, now and then with zeros at the end.
fn truth(sid: u64) -> Vec<u8> {
    let mut z = sid.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678_9abc_def0;
    let len = 1 + (z >> 40) as usize % 90;
    let zeros = if (z >> 33) % 8 == 0 { (z >> 20) as usize % 5 } else { 0 };
    let mut data: Vec<u8> = (0..len)
        .map(|_| {
            z = (z ^ (z >> 27)).wrapping_mul(0x3c79_ac49_2ba7_b653).wrapping_add(0x9e37_79b9);
            (z >> 56) as u8
        })
        .collect();
    let from = len.saturating_sub(zeros);
    data[from..].fill(0);
    data
}

fn payload(equation: &Equation) -> Vec<u8> {
    let mut out = Vec::new();
    for term in 0..equation.terms() {
        let data = truth(equation.sid(term));
        out.resize(out.len().max(data.len()), 0);
        out.iter_mut().zip(&data).for_each(|(o, &d)| *o ^= mul(equation.coefficient(term), d));
    }
    out
}

const SIZE: usize = 96;

fn decoder(window: usize) -> Decoder {
    Decoder::new(DecoderLimits { window, symbol_size: SIZE, max_unknowns: 64 })
}

fn drain(decoder: &mut Decoder, budget: usize) -> Vec<u64> {
    while decoder.has_work() {
        assert_ne!(decoder.work(budget), 0);
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

#[derive(Clone, Debug)]
enum Op {
    /// A source symbol this far behind the front, which moves on before by so much.
    Source {
        ahead: u64,
        behind: u64,
    },
    /// A repair symbol over symbols up to so far behind the front.
    Repair {
        behind: u64,
        count: u64,
        code: Code,
    },
    Work(usize),
    Window(usize),
    /// What is missing so far behind the front is given up, where a test says so.
    GiveUp(u64),
}

#[derive(Clone, Copy, Debug)]
enum Code {
    Xor(u64, u64),
    Xor2d(u64, u64),
    ReedSolomon(u64, u64),
    Rlc(u64),
}

impl Code {
    fn equation(self, first: u64, count: u64) -> Result<Equation, BadEquation> {
        match self {
            Self::Xor(depth, index) => Equation::xor(first, count, depth, index),
            Self::Xor2d(columns, index) => Equation::xor2d(first, count, columns, index),
            Self::ReedSolomon(stride, index) => Equation::reed_solomon(first, count, stride, index),
            Self::Rlc(seed) => Equation::rlc(first, count, seed),
        }
    }
}

fn code() -> impl Strategy<Value = Code> {
    prop_oneof![
        (1..6_u64, 0..6_u64).prop_map(|(depth, index)| Code::Xor(depth, index)),
        (1..6_u64, 0..12_u64).prop_map(|(columns, index)| Code::Xor2d(columns, index)),
        (1..4_u64, 0..8_u64).prop_map(|(stride, index)| Code::ReedSolomon(stride, index)),
        any::<u64>().prop_map(Code::Rlc),
        any::<u64>().prop_map(Code::Rlc),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..3_u64, 0..12_u64).prop_map(|(ahead, behind)| Op::Source { ahead, behind }),
        1 => (0..20_u64, 0..60_u64).prop_map(|(ahead, behind)| Op::Source { ahead, behind }),
        5 => (0..8_u64, 1..24_u64, code()).prop_map(|(behind, count, code)| Op::Repair { behind, count, code }),
        1 => (1..4000_usize).prop_map(Op::Work),
        1 => (20..60_usize).prop_map(Op::Window),
        1 => (0..40_u64).prop_map(Op::GiveUp),
    ]
}

fn cases(n: u32) -> ProptestConfig {
    ProptestConfig { cases: n, failure_persistence: None, ..ProptestConfig::default() }
}

/// Gives one repair symbol to the decoder and, if it counts, to the model.
fn give(decoder: &mut Decoder, model: &mut Model, equation: &Equation, limit: usize) {
    let missing: Vec<u64> =
        (0..equation.terms()).map(|t| equation.sid(t)).filter(|&sid| !decoder.is_held(sid)).collect();
    let outcome = decoder.repair(equation, &payload(equation)).unwrap();
    model.low = decoder.low();
    let open = model.solve().1;
    let unknowns = open.len() + missing.iter().filter(|&sid| !open.contains(sid)).count();
    match outcome {
        RepairOutcome::Old => {
            assert!(equation.first() < decoder.low() || equation.last() - equation.first() >= decoder.window);
        }
        RepairOutcome::TooMany => {
            assert!(
                unknowns > limit || decoder.stored.vacant(decoder.window).is_none(),
                "{unknowns} of {limit}"
            );
        }
        RepairOutcome::Taken | RepairOutcome::Redundant => {
            assert!(unknowns <= limit);
            let before = model.rank();
            model
                .equations
                .push((0..equation.terms()).map(|t| (equation.sid(t), equation.coefficient(t))).collect());
            assert_eq!(model.rank() > before, outcome == RepairOutcome::Taken);
        }
    }
}

impl Model {
    fn rank(&self) -> usize {
        let mut rows: Vec<BTreeMap<u64, u8>> = Vec::new();
        for equation in &self.equations {
            let mut row: BTreeMap<u64, u8> =
                equation.iter().filter(|(sid, _)| !self.known.contains(sid)).map(|(&s, &c)| (s, c)).collect();
            for other in &rows {
                subtract(&mut row, other);
            }
            if !row.is_empty() {
                rows.push(row);
            }
        }
        rows.len()
    }
}

#[test]
fn what_is_given_up_is_not_what_is_determined() {
    let mut decoder = decoder(1024);
    let give =
        |decoder: &mut Decoder, equation: Equation| decoder.repair(&equation, &payload(&equation)).unwrap();
    for sid in (1..10).chain(12..20) {
        decoder.source(sid, &truth(sid)).unwrap();
    }
    // Of 0 all is said, of 10, 11 and 21 too little.
    give(&mut decoder, Equation::rlc(0, 10, 1).unwrap());
    give(&mut decoder, Equation::rlc(10, 12, 2).unwrap());
    give(&mut decoder, Equation::rlc(10, 12, 3).unwrap());
    decoder.source(20, &truth(20)).unwrap();
    decoder.give_up_below(15);
    assert_eq!(drain(&mut decoder, 100), [0]);
    // Two equations said of three symbols nothing that holds without two of them.
    decoder.source(10, &truth(10)).unwrap();
    decoder.source(11, &truth(11)).unwrap();
    assert_eq!(drain(&mut decoder, 100), []);
    give(&mut decoder, Equation::rlc(10, 12, 4).unwrap());
    assert_eq!(drain(&mut decoder, 100), [21]);
}

proptest! {
    #![proptest_config(cases(96))]

    /// After each operation exactly those missing symbols are recovered that all the equations determine, and
    /// every repair symbol is judged as its rank says.
    #[test]
    fn recovers_what_rank_theory_says(ops in prop::collection::vec(op(), 1..120), limit in 3..64_usize) {
        let mut decoder = Decoder::new(DecoderLimits { window: 48, symbol_size: SIZE, max_unknowns: limit });
        decoder.stored.least = 128;
        let mut model = Model::default();
        let mut front = 0;
        for op in ops {
            match op {
                Op::Source { ahead, behind } => {
                    front += ahead;
                    let sid = u64::saturating_sub(front, behind);
                    if decoder.source(sid, &truth(sid)).unwrap() == SourceOutcome::New {
                        model.known.insert(sid);
                    }
                }
                Op::Repair { behind, count, code } => {
                    let first = front.saturating_sub(behind + count);
                    let Ok(equation) = code.equation(first, count) else { continue };
                    give(&mut decoder, &mut model, &equation, limit);
                }
                Op::Work(_) | Op::GiveUp(_) => continue,
                Op::Window(window) => decoder.set_window(window),
            }
            model.low = decoder.low();
            let expected = model.solve().0;
            let recovered: BTreeSet<u64> = drain(&mut decoder, usize::MAX).into_iter().collect();
            prop_assert_eq!(&recovered, &expected);
            model.known.extend(recovered);
            for sid in decoder.low()..front + 2 {
                prop_assert_eq!(decoder.is_held(sid), model.known.contains(&sid), "symbol {}", sid);
            }
        }
    }

    /// The encoder of all codes against sums of bytes one by one.
    #[test]
    fn repair_symbols_are_the_sums_of_their_equations(first in 0..500_u64, count in 1..200_u64, code in code()) {
        let mut symbols = Symbols::new(1000, SIZE);
        (0..800).try_for_each(|sid| symbols.insert(sid, &truth(sid))).unwrap();
        let Ok(equation) = code.equation(first, count) else { return Ok(()) };
        let mut out = vec![1; 1000];
        prop_assume!(equation.last() < 800);
        symbols.combine(&equation, &mut out).unwrap();
        prop_assert_eq!(out, payload(&equation));
    }

    /// What is recovered is right, though the window moves over work that is half done, and what is missing
    /// is given up.
    #[test]
    fn a_window_that_moves_over_work_does_no_harm(ops in prop::collection::vec(op(), 1..250), least in 1..128_u64) {
        let mut decoder = decoder(48);
        decoder.stored.least = least;
        let mut front = 0;
        for op in ops {
            match op {
                Op::Source { ahead, behind } => {
                    front += ahead;
                    let sid = u64::saturating_sub(front, behind);
                    decoder.source(sid, &truth(sid)).unwrap();
                }
                Op::Repair { behind, count, code } => {
                    let first = front.saturating_sub(behind + count);
                    let Ok(equation) = code.equation(first, count) else { continue };
                    decoder.repair(&equation, &payload(&equation)).unwrap();
                }
                Op::Work(budget) => drop(decoder.work(budget / 4)),
                Op::Window(window) => decoder.set_window(window),
                Op::GiveUp(behind) => decoder.give_up_below(front.saturating_sub(behind)),
            }
            taken(&mut decoder);
        }
        drain(&mut decoder, 100);
    }

    /// However the work is cut, the same comes out.
    #[test]
    fn work_can_be_cut_anywhere(ops in prop::collection::vec(op(), 1..100), budget in 1..3000_usize) {
        let (mut whole, mut cut) = (decoder(1024), decoder(1024));
        let (mut all, mut some) = (BTreeSet::new(), BTreeSet::new());
        let mut front = 30;
        for op in ops {
            for decoder in [&mut whole, &mut cut] {
                match &op {
                    Op::Source { behind, .. } => {
                        let sid = u64::saturating_sub(front, *behind);
                        decoder.source(sid, &truth(sid)).unwrap();
                    }
                    Op::Repair { behind, count, code } => {
                        let first = u64::saturating_sub(front, behind + count);
                        let Ok(equation) = code.equation(first, *count) else { continue };
                        decoder.repair(&equation, &payload(&equation)).unwrap();
                    }
                    Op::Work(_) | Op::Window(_) | Op::GiveUp(_) => {}
                }
            }
            front = (front + 1).min(60);
            all.extend(drain(&mut whole, usize::MAX));
            if let Op::Work(budget) = op {
                // The last sum may be over all that is stored.
                prop_assert!(cut.work(budget) < budget + 64 * STORED_LEN);
            }
            some.extend(taken(&mut cut));
        }
        some.extend(drain(&mut cut, budget));
        // What was put off may have come in the meantime.
        prop_assert!(some.is_subset(&all));
        for sid in 0..100 {
            prop_assert_eq!(whole.is_held(sid), cut.is_held(sid));
        }
    }
}

/// `SIZE` in whole cache lines.
const STORED_LEN: usize = 128;

#[test]
fn what_comes_twice_or_late_or_from_outside_does_no_harm() {
    let mut decoder = decoder(50);
    for sid in (0..40).filter(|sid| sid % 10 != 3) {
        assert_eq!(decoder.source(sid, &truth(sid)), Ok(SourceOutcome::New));
        assert_eq!(decoder.source(sid, &truth(sid)), Ok(SourceOutcome::Duplicate));
    }
    let equations: Vec<_> = (0..4).map(|seed| Equation::rlc(0, 40, seed).unwrap()).collect();
    for equation in &equations[..3] {
        assert_eq!(decoder.repair(equation, &payload(equation)), Ok(RepairOutcome::Taken));
        assert_eq!(decoder.repair(equation, &payload(equation)), Ok(RepairOutcome::Redundant));
        assert!(!decoder.has_work());
    }
    assert_eq!(decoder.repair(&equations[3], &payload(&equations[3])), Ok(RepairOutcome::Taken));
    assert_eq!(drain(&mut decoder, usize::MAX).len(), 4);
    assert_eq!(decoder.repair(&equations[0], &payload(&equations[0])), Ok(RepairOutcome::Redundant));
    assert_eq!(decoder.source(3, &truth(3)), Ok(SourceOutcome::Recovered));
    assert_eq!(decoder.source(59, &truth(59)), Ok(SourceOutcome::New));
    assert_eq!((decoder.low(), decoder.largest()), (10, Some(59)));
    assert_eq!(decoder.source(9, &truth(9)), Ok(SourceOutcome::Below));
    assert_eq!(decoder.repair(&equations[0], &payload(&equations[0])), Ok(RepairOutcome::Old));
    let wide = Equation::rlc(59, 51, 0).unwrap();
    assert_eq!(decoder.repair(&wide, &[1; SIZE]), Ok(RepairOutcome::Old));
    assert_eq!(decoder.largest(), Some(59));
}

#[test]
fn faults_are_told() {
    let mut decoder = decoder(50);
    decoder.source(0, &[1, 2, 0]).unwrap();
    assert_eq!(decoder.source(0, &[1, 2]), Ok(SourceOutcome::Duplicate));
    assert_eq!(decoder.source(0, &[1, 3]), Err(SenderFault::Mismatch));
    assert_eq!(decoder.source(0, &[1, 2, 0, 1]), Err(SenderFault::Mismatch));
    assert_eq!(decoder.source(1, &[0; SIZE + 1]), Err(SenderFault::TooLong));
    assert_eq!(decoder.source(MAX_SID + 1, &[0]), Err(SenderFault::Range));
    let equation = Equation::xor(0, 3, 1, 0).unwrap();
    assert_eq!(decoder.repair(&equation, &[0; SIZE + 1]), Err(SenderFault::TooLong));
    assert_eq!(decoder.repair(&equation, &[1]), Err(SenderFault::Short));
    assert_eq!(
        decoder.repair(&Equation::xor(0, 1, 1, 0).unwrap(), &[1, 2]),
        Ok(RepairOutcome::Redundant),
        "but for zeros"
    );
    assert_eq!(decoder.repair(&equation, &[1, 2, 3]), Ok(RepairOutcome::Taken));
    // The repair symbol was there first.
    assert_eq!(decoder.source(1, &[1, 2, 3, 4]), Err(SenderFault::Short));
    assert_eq!(decoder.source(1, &[1, 2, 3]), Ok(SourceOutcome::New));
}

#[test]
fn a_far_number_costs_the_sender_the_window_and_nobody_memory() {
    let mut decoder = decoder(1000);
    (0..1000).for_each(|sid| assert_eq!(decoder.source(sid, &truth(sid)), Ok(SourceOutcome::New)));
    let before = decoder.memory();
    assert_eq!(decoder.source(MAX_SID, &[1]), Ok(SourceOutcome::New));
    assert_eq!((decoder.low(), decoder.is_held(999)), (MAX_SID - 999, false));
    assert_eq!(decoder.repair(&Equation::rlc(MAX_SID, 1, 0).unwrap(), &[1]), Ok(RepairOutcome::Redundant));
    // The list of free slots.
    assert!(decoder.memory() <= before + 8 * 1024, "{}", decoder.memory());
}

#[test]
fn symbols_leave_the_window_before_what_needs_them() {
    // 64 symbols of which two are lost; the second repair symbol comes when most of the first's have left.
    let mut decoder = decoder(80);
    let (first, second) = (Equation::rlc(0, 64, 1).unwrap(), Equation::rlc(60, 4, 2).unwrap());
    for sid in (0..64).filter(|sid| *sid != 61 && *sid != 62) {
        decoder.source(sid, &truth(sid)).unwrap();
    }
    assert_eq!(decoder.repair(&first, &payload(&first)), Ok(RepairOutcome::Taken));
    for sid in 64..139 {
        decoder.source(sid, &truth(sid)).unwrap();
    }
    assert_eq!(decoder.low(), 59);
    assert_eq!(decoder.repair(&second, &payload(&second)), Ok(RepairOutcome::Taken));
    assert_eq!(drain(&mut decoder, 1), [61, 62]);
}

#[test]
fn what_is_not_taken_in_time_leaves_with_the_window() {
    let mut decoder = decoder(30);
    (0..20).filter(|sid| sid % 10 != 4).for_each(|sid| {
        decoder.source(sid, &truth(sid)).unwrap();
    });
    for seed in 0..2 {
        let equation = Equation::rlc(0, 20, seed).unwrap();
        decoder.repair(&equation, &payload(&equation)).unwrap();
    }
    while decoder.has_work() {
        decoder.work(1);
    }
    decoder.source(39, &truth(39)).unwrap();
    assert_eq!(decoder.low(), 10);
    assert_eq!(taken(&mut decoder), [14]);
}

/// An opponent who knows the decoder: 64 missing symbols in a full window, and all that comes after keeps as
/// many.
#[test]
fn the_worst_case_stays_within_the_stated_cost() {
    let window = 1024;
    let mut decoder = decoder(window);
    let (mut came, mut terms) = (0, 0);
    for round in 0..12_u64 {
        let base = round * 400;
        for sid in base..base + 800 {
            if sid % 13 == 0 && sid >= base + 8 {
                continue;
            }
            // What was recovered is of no sense, so this may be a fault.
            came += u64::from(decoder.source(sid, &[sid as u8 | 1; SIZE]) == Ok(SourceOutcome::New));
        }
        for seed in 0..80 {
            let first = base + 60 + seed % 7;
            let equation = Equation::rlc(first, 732 - seed % 11, seed + round).unwrap();
            came += 1;
            if decoder.repair(&equation, &[seed as u8; SIZE]) == Ok(RepairOutcome::Taken) {
                terms += equation.terms() + 4 * 64;
            }
            if seed % 16 == 3 {
                decoder.work(20_000);
                // Not what the repair symbols say: this decoder cannot know.
                if decoder.source(base / 13 * 13 + 13 * (8 + seed), &[7; SIZE]) == Ok(SourceOutcome::New) {
                    came += 1;
                }
            }
        }
        if round % 2 == 0 {
            while decoder.has_work() {
                decoder.work(100_000);
            }
        }
    }
    let cost = decoder.cost();
    assert!(cost.row_operations > 10_000 && cost.row_operations <= came * 4 * 64, "{cost:?} for {came}");
    assert!(cost.bytes > 1_000_000 && cost.bytes <= terms * 256, "{cost:?} for {terms}");
    assert!(decoder.memory() <= (window + 128) * STORED_LEN * 9 / 8, "{}", decoder.memory());
}

/// The share of singular matrices is 1 - Π (1 - 256⁻ⁱ) = 0.39 % where coefficients are uniform, and 0.39 % as
/// well for those that are never 0 (the last entry decides: 1 of 255).
#[test]
fn random_squares_are_rarely_deficient() {
    let (rounds, mut deficient) = (8_000_u64, 0);
    for round in 0..rounds {
        let mut decoder = Decoder::new(DecoderLimits { window: 16, symbol_size: 1, max_unknowns: 8 });
        let first = round * 16;
        let outcomes = (0..6).map(|i| {
            let equation = Equation::rlc(first, 6, round * 6 + i).unwrap();
            decoder.repair(&equation, &[1]).unwrap()
        });
        deficient += u64::from(outcomes.filter(|o| *o == RepairOutcome::Redundant).count() > 0);
    }
    // 31 expected, standard deviation 6.
    assert!((11..58).contains(&deficient), "{deficient} of {rounds}");
}

#[test]
fn two_dimensional_parity_is_peeled() {
    let mut decoder = decoder(200);
    let lost = [0, 1, 11, 47, 48, 99];
    for sid in (0..100).filter(|sid| !lost.contains(sid)) {
        decoder.source(sid, &truth(sid)).unwrap();
    }
    let mut recovered = Vec::new();
    for index in 0..20 {
        let equation = Equation::xor2d(0, 100, 10, index).unwrap();
        decoder.repair(&equation, &payload(&equation)).unwrap();
        recovered.extend(drain(&mut decoder, 1));
    }
    recovered.sort_unstable();
    assert_eq!(recovered, lost);
}
