//! QPACK. A decoder against any encoder: it gives the same however instructions are cut, and holds no more
//! than it allows. A decoder against our encoder, with streams that arrive in any order and are given up: it
//! gives what was encoded, and neither blames the other.
//!
//! The first byte of the input chooses which; the next are limits; then come operations, each a byte and what
//! it needs.
#![no_main]

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use libfuzzer_sys::fuzz_target;
use quickset_h3::qpack::{DecodedSection, Decoder, Encoder};
use quickset_h3::{Error, Field};

fuzz_target!(|input: &[u8]| {
    let Some((&[first, table, blocked, section], rest)) = input.split_first_chunk() else { return };
    let limits = Limits {
        table: u64::from(table) * 16,
        blocked: u64::from(blocked % 8),
        section: 1 + u64::from(section) * 32,
    };
    if first & 1 == 0 { hostile(&limits, Input(rest)) } else { honest(&limits, Input(rest)) }
});

struct Limits {
    table: u64,
    blocked: u64,
    section: u64,
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = usize::from(self.byte()?).min(self.0.len());
        let (bytes, rest) = self.0.split_at(n);
        self.0 = rest;
        Some(bytes)
    }
}

/// Two decoders that are told the same, one of them byte by byte.
fn hostile(limits: &Limits, mut input: Input<'_>) {
    let new = || Decoder::new(limits.table, limits.blocked, limits.section);
    let (mut whole, mut pieces) = (new(), new());
    let mut waiting = BTreeSet::new();
    let mut acknowledged = Acknowledged::default();
    while let Some(op) = input.byte() {
        let stream = u64::from(op >> 2) * 4;
        match op & 3 {
            0 | 1 => {
                let Some(bytes) = input.bytes() else { return };
                if op & 1 == 0 {
                    let before = whole.inserted();
                    let outcome = whole.on_instructions(bytes);
                    assert_eq!(one_by_one(&mut pieces, bytes), outcome);
                    assert!(whole.inserted() - before <= bytes.len() as u64 + 1, "each takes a byte");
                    if outcome.is_err() || !resume(limits, &mut whole, &mut pieces, &mut waiting) {
                        return;
                    }
                } else if !waiting.contains(&stream) {
                    let outcome = whole.section(stream, bytes);
                    assert_eq!(outcome, pieces.section(stream, bytes));
                    match outcome {
                        Ok(DecodedSection::Blocked) => assert!(waiting.insert(stream)),
                        Ok(section) => check(limits, &section),
                        Err(_) => return,
                    }
                    assert!(waiting.len() as u64 <= limits.blocked, "more wait than may");
                }
            }
            2 => {
                waiting.remove(&stream);
                whole.cancel(stream);
                pieces.cancel(stream);
            }
            _ => {
                let said = whole.take_instructions();
                assert_eq!(said, pieces.take_instructions());
                acknowledged.read(&said);
                assert!(acknowledged.increments <= whole.inserted(), "never more than came");
            }
        }
        assert_eq!(whole.inserted(), pieces.inserted());
    }
}

fn one_by_one(decoder: &mut Decoder, bytes: &[u8]) -> Result<(), Error> {
    bytes.iter().try_for_each(|byte| decoder.on_instructions(&[*byte]))
}

/// Sections whose wait is over; false when one is an error.
fn resume(limits: &Limits, whole: &mut Decoder, pieces: &mut Decoder, waiting: &mut BTreeSet<u64>) -> bool {
    loop {
        let next = whole.unblocked();
        assert_eq!(next, pieces.unblocked());
        match next {
            None => return true,
            Some(Err(_)) => return false,
            Some(Ok((stream, section))) => {
                assert!(waiting.remove(&stream), "it did not wait");
                assert_ne!(section, DecodedSection::Blocked);
                check(limits, &section);
            }
        }
    }
}

/// What was decoded is within the limit, and comes back from an encoder of ours without a table.
fn check(limits: &Limits, section: &DecodedSection) {
    let DecodedSection::Fields(fields) = section else { return };
    let size: u64 = fields.iter().map(Field::size).sum();
    assert!(size <= limits.section, "{size} of {}", limits.section);
    let coded = Encoder::new(0).encode(0, fields);
    match Decoder::new(0, 0, limits.section).section(0, &coded) {
        Ok(DecodedSection::Fields(again)) => same(&again, fields),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn same(got: &[Field], sent: &[Field]) {
    assert_eq!(got.len(), sent.len());
    for (got, sent) in got.iter().zip(sent) {
        assert_eq!((&got.name, &got.value), (&sent.name, &sent.value));
        assert!(got.sensitive || !sent.sensitive, "a secret stays one");
    }
}

/// The decoder's instructions, read a second way (RFC 9204 §4.4).
#[derive(Default)]
struct Acknowledged {
    increments: u64,
}

impl Acknowledged {
    fn read(&mut self, mut said: &[u8]) {
        while let Some((&first, rest)) = said.split_first() {
            said = rest;
            let mask = if first & 0x80 != 0 { 0x7f } else { 0x3f };
            let mut number = u64::from(first & mask);
            if number == mask.into() {
                for shift in (0..).step_by(7) {
                    let (&more, rest) = said.split_first().expect("whole instructions");
                    said = rest;
                    number += u64::from(more & 0x7f) << shift;
                    if more & 0x80 == 0 {
                        break;
                    }
                }
            }
            if first & 0xc0 == 0 {
                assert_ne!(number, 0, "RFC 9204 §4.4.3: an increment of nothing is an error");
                self.increments += number;
            }
        }
    }
}

/// Its bytes, and what they say.
type Encoded = (Vec<u8>, Vec<Field>);

/// Our encoder and our decoder, and what is on its way between them.
struct Pair {
    encoder: Encoder,
    decoder: Decoder,
    section: u64,
    down: VecDeque<u8>,
    up: VecDeque<u8>,
    /// Sections by stream, in order.
    sections: BTreeMap<u64, VecDeque<Encoded>>,
    /// Those that wait for the table.
    blocked: BTreeMap<u64, Vec<Field>>,
    max_blocked: u64,
}

fn honest(limits: &Limits, mut input: Input<'_>) {
    let mut pair = Pair {
        encoder: Encoder::new(limits.table),
        decoder: Decoder::new(limits.table, limits.blocked, limits.section),
        section: limits.section,
        down: VecDeque::new(),
        up: VecDeque::new(),
        sections: BTreeMap::new(),
        blocked: BTreeMap::new(),
        max_blocked: limits.blocked,
    };
    pair.encoder.apply(limits.table, limits.blocked);
    let mut streams: Vec<u64> = (0..8).map(|n| n * 4).collect();
    while let Some(op) = input.byte() {
        let slot = usize::from(op >> 3) % 8;
        let stream = streams[slot];
        match op & 7 {
            0 | 1 => {
                let fields = fields(&mut input);
                let coded = pair.encoder.encode(stream, &fields);
                pair.sections.entry(stream).or_default().push_back((coded, fields));
            }
            2 => pair.deliver(stream),
            3 => pair.instruct(usize::from(op >> 3) * 3),
            4 => pair.answer(usize::from(op >> 3)),
            5 => {
                pair.cancel(stream);
                streams[slot] = stream + 32;
            }
            6 => pair.encoder.set_credit(u64::from(op >> 3) * 20),
            _ => {
                let Some(n) = input.byte() else { break };
                pair.encoder.set_capacity(u64::from(n) * 16);
            }
        }
    }
    pair.instruct(usize::MAX);
    let left: Vec<u64> = pair.sections.keys().copied().collect();
    for stream in left {
        while !pair.sections[&stream].is_empty() {
            pair.deliver(stream);
        }
    }
    assert!(pair.blocked.is_empty(), "all instructions are there");
    pair.answer(usize::MAX);
}

impl Pair {
    fn deliver(&mut self, stream: u64) {
        if self.blocked.contains_key(&stream) {
            return;
        }
        let Some((coded, fields)) = self.sections.get_mut(&stream).and_then(VecDeque::pop_front) else {
            return;
        };
        let section = self.decoder.section(stream, &coded).expect("of our encoder");
        self.arrived(stream, section, fields);
        assert!(self.blocked.len() as u64 <= self.max_blocked);
    }

    fn arrived(&mut self, stream: u64, section: DecodedSection, fields: Vec<Field>) {
        match section {
            DecodedSection::Fields(got) => same(&got, &fields),
            DecodedSection::TooLarge => assert!(fields.iter().map(Field::size).sum::<u64>() > self.section),
            DecodedSection::Blocked => drop(self.blocked.insert(stream, fields)),
        }
    }

    /// Bytes of the encoder's instructions arrive.
    fn instruct(&mut self, n: usize) {
        self.down.extend(self.encoder.take_instructions());
        let bytes: Vec<u8> = self.down.drain(..n.min(self.down.len())).collect();
        self.decoder.on_instructions(&bytes).expect("of our encoder");
        while let Some(next) = self.decoder.unblocked() {
            let (stream, section) = next.expect("of our encoder");
            let fields = self.blocked.remove(&stream).expect("it waited");
            assert_ne!(section, DecodedSection::Blocked);
            self.arrived(stream, section, fields);
        }
        assert!(self.decoder.inserted() <= self.encoder.inserted());
    }

    /// Bytes of the decoder's instructions arrive.
    fn answer(&mut self, n: usize) {
        self.up.extend(self.decoder.take_instructions());
        let bytes: Vec<u8> = self.up.drain(..n.min(self.up.len())).collect();
        self.encoder.on_instructions(&bytes).expect("of our decoder");
    }

    /// The stream is given up, with what of it is on its way.
    fn cancel(&mut self, stream: u64) {
        self.sections.remove(&stream);
        self.blocked.remove(&stream);
        self.decoder.cancel(stream);
    }
}

/// Few names and values, so that they come again, or ones of their own.
fn fields(input: &mut Input<'_>) -> Vec<Field> {
    let mut fields = Vec::new();
    let n = input.byte().unwrap_or(0) % 6;
    for _ in 0..n {
        let Some(kind) = input.byte() else { break };
        let name = NAMES[usize::from(kind) % NAMES.len()];
        let value = match kind >> 6 {
            0 => vec![b'a' + kind % 3; usize::from(kind >> 3 & 7) * 9],
            _ => input.bytes().unwrap_or_default().to_vec(),
        };
        let name = if name.is_empty() { input.bytes().unwrap_or_default() } else { name };
        fields.push(Field { sensitive: kind == 0xff, ..Field::new(name.to_vec(), value) });
    }
    fields
}

const NAMES: [&[u8]; 7] = [b":path", b"cookie", b"authorization", b"x-one", b"x-two", b"user-agent", b""];
