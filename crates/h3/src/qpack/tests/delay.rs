//! Both ends of QPACK against each other, under delay, and against any bytes.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use quickset_base::number::index;

use super::*;

/// What happens between the two ends.
#[derive(Clone, Debug)]
enum Step {
    Encode(u64, Vec<(u8, u8)>),
    /// Some bytes of the encoder stream arrive.
    Instructions(usize),
    /// Some bytes of the decoder stream arrive.
    Answers(usize),
    /// The next section of a stream arrives.
    Section(u64),
    /// The reader gives a stream up.
    Cancel(u64),
    Capacity(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let stream = 0..6_u64;
    let step = prop_oneof![
        4 => (stream.clone(), prop::collection::vec((0..8_u8, 0..12_u8), 0..8)).prop_map(|(s, f)| Step::Encode(s, f)),
        3 => (0..60_usize).prop_map(Step::Instructions),
        3 => (0..12_usize).prop_map(Step::Answers),
        4 => stream.clone().prop_map(Step::Section),
        1 => stream.prop_map(Step::Cancel),
        1 => (0..400_u64).prop_map(Step::Capacity),
    ];
    prop::collection::vec(step, 0..250)
}

const NAMES: [&str; 8] = [
    "server",
    ":path",
    "x-one",
    "x-two",
    "content-type",
    "etag",
    "x-a-name-that-is-rather-long",
    "authorization",
];

/// Both ends, and what is on the way.
struct Pair {
    encoder: Encoder,
    decoder: Decoder,
    instructions: VecDeque<u8>,
    answers: VecDeque<u8>,
    /// By stream: generations of it, as a stream that was given up is replaced by a new one.
    generation: [u64; 6],
    sections: BTreeMap<u64, VecDeque<(Bytes, Vec<Field>)>>,
    blocked: BTreeMap<u64, Vec<Field>>,
    decoded: u32,
}

impl Pair {
    fn new(capacity: u64, limit: u64, max_blocked: u64) -> Self {
        let mut encoder = Encoder::new(limit);
        encoder.apply(capacity, max_blocked);
        Self {
            encoder,
            decoder: Decoder::new(capacity, max_blocked, 1 << 16),
            instructions: VecDeque::new(),
            answers: VecDeque::new(),
            generation: [0; 6],
            sections: BTreeMap::new(),
            blocked: BTreeMap::new(),
            decoded: 0,
        }
    }

    fn id(&self, stream: u64) -> u64 {
        (self.generation[index(stream)] * 6 + stream) * 4
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Encode(stream, lines) => {
                let lines: Vec<Field> = lines
                    .iter()
                    .map(|&(name, value)| {
                        let name = NAMES[name as usize];
                        let secret = name == "authorization";
                        Field { sensitive: secret, ..Field::new(name, "v".repeat(value as usize * 3)) }
                    })
                    .collect();
                let id = self.id(*stream);
                let section = self.encoder.encode(id, &lines);
                self.sections.entry(id).or_default().push_back((section.into(), lines));
                self.instructions.extend(self.encoder.take_instructions());
            }
            Step::Instructions(n) => {
                let n = (*n).min(self.instructions.len());
                let bytes: Vec<u8> = self.instructions.drain(..n).collect();
                self.decoder.on_instructions(&bytes).unwrap();
                while let Some(unblocked) = self.decoder.unblocked() {
                    let (id, section) = unblocked.unwrap();
                    let expected = self.blocked.remove(&id).expect("it was blocked");
                    assert_eq!(section, DecodedSection::Fields(expected));
                    self.decoded += 1;
                }
            }
            Step::Answers(n) => {
                self.answers.extend(self.decoder.take_instructions());
                let n = (*n).min(self.answers.len());
                let bytes: Vec<u8> = self.answers.drain(..n).collect();
                self.encoder.on_instructions(&bytes).unwrap();
            }
            Step::Section(stream) => self.section(self.id(*stream)),
            Step::Cancel(stream) => {
                let id = self.id(*stream);
                self.decoder.cancel(id);
                self.blocked.remove(&id);
                self.sections.remove(&id);
                self.generation[index(*stream)] += 1;
            }
            Step::Capacity(capacity) => {
                self.encoder.set_capacity(*capacity);
                self.instructions.extend(self.encoder.take_instructions());
            }
        }
    }

    fn section(&mut self, id: u64) {
        if self.blocked.contains_key(&id) {
            return;
        }
        let Some((coded, lines)) = self.sections.get_mut(&id).and_then(VecDeque::pop_front) else { return };
        match self.decoder.section(id, &coded).unwrap() {
            DecodedSection::Fields(read) => {
                assert_eq!(read, lines);
                self.decoded += 1;
            }
            DecodedSection::Blocked => drop(self.blocked.insert(id, lines)),
            DecodedSection::TooLarge => panic!("no limit was set"),
        }
    }

    /// Everything arrives.
    fn settle(&mut self) {
        for _ in 0..1000 {
            self.step(&Step::Instructions(usize::MAX));
            let ids: Vec<u64> = self.sections.keys().copied().collect();
            for id in ids {
                self.section(id);
            }
            self.sections.retain(|_, queue| !queue.is_empty());
        }
        self.step(&Step::Answers(usize::MAX));
        self.step(&Step::Answers(usize::MAX));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// In whatever order things arrive, sections mean what was said, no rule is broken, and in the end
    /// nothing is held.
    #[test]
    fn both_ends_agree(steps in steps(), capacity in prop_oneof![Just(0), 32..500_u64, Just(4096)], limit in 0..500_u64, max_blocked in 0..4_u64) {
        let mut pair = Pair::new(capacity, limit, max_blocked);
        for step in &steps {
            pair.step(step);
        }
        pair.settle();
        prop_assert!(pair.blocked.is_empty() && pair.sections.is_empty());
        prop_assert!(pair.encoder.set_capacity(0), "references are left");
    }

    /// Whatever bytes come, there is an answer, and no panic.
    #[test]
    fn any_bytes_are_read(instructions: Vec<u8>, section: Vec<u8>, answers: Vec<u8>) {
        let mut pair = Pair::new(300, 300, 2);
        let _ = pair.decoder.on_instructions(&hex("3fbd01 c00f 7777772e6578616d706c652e636f6d c10c 2f73616d706c652f70617468"));
        let _ = pair.decoder.on_instructions(&instructions);
        let _ = pair.decoder.section(0, &section);
        pair.step(&Step::Encode(1, vec![(0, 1), (2, 2)]));
        let _ = pair.encoder.on_instructions(&answers);
        pair.encoder.encode(8, &[Field::new("server", "vvv")]);
    }

    /// Instructions mean the same however they are cut.
    #[test]
    fn any_cut_of_any_bytes_reads_the_same(bytes: Vec<u8>, cuts in prop::collection::vec(0..64_usize, 0..8)) {
        let mut whole = appendix_b();
        let mut parts = appendix_b();
        let expected = whole.on_instructions(&bytes);
        let mut rest = &bytes[..];
        let mut result = Ok(());
        for cut in cuts {
            let (head, tail) = rest.split_at(cut.min(rest.len()));
            result = result.and_then(|()| parts.on_instructions(head));
            rest = tail;
        }
        prop_assert_eq!(result.and_then(|()| parts.on_instructions(rest)), expected);
        prop_assert_eq!(parts.inserted(), whole.inserted());
    }
}
