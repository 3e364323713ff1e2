//! The sending end of field sections.

mod ledger;
mod recent;
mod store;

use bytes::Bytes;

use self::ledger::Ledger;
use self::recent::Recent;
use self::store::{EncoderTable, Hit};
use super::prim::{FieldCursor, Stop, put_int, put_string};
use super::statics::{self, StaticMatch};
use super::table::{OVERHEAD, entry_size};
use crate::{Error, ErrorCode, Field};

/// The sending end of field sections.
#[derive(Debug)]
pub struct Encoder {
    store: EncoderTable,
    ledger: Ledger,
    recent: Recent,
    /// The most of the table that we use, whatever the peer allows.
    limit: u64,
    /// What the peer allows: the base of how Required Insert Counts are written.
    max_capacity: u64,
    max_blocked: usize,
    /// Bytes of instructions that need not wait when they are taken now.
    credit: u64,
    /// An instruction of the decoder that is cut short.
    partial: Vec<u8>,
    out: Vec<u8>,
}

impl Encoder {
    /// An encoder that uses at most `limit` bytes of table, and none until [`apply`](Self::apply).
    pub fn new(limit: u64) -> Self {
        Self {
            store: EncoderTable::default(),
            ledger: Ledger::default(),
            recent: Recent::default(),
            limit,
            max_capacity: 0,
            max_blocked: 0,
            credit: u64::MAX,
            partial: Vec::new(),
            out: Vec::new(),
        }
    }

    /// What the peer's SETTINGS allow: bytes of table, and streams that may wait for it. Once only.
    pub fn apply(&mut self, max_capacity: u64, max_blocked: u64) {
        self.max_capacity = max_capacity;
        self.max_blocked = max_blocked.min(MAX_AT_RISK) as usize;
        self.set_capacity(self.limit);
    }

    /// Uses `capacity` bytes of table, or what the peer allows if that is less. Nothing happens, and false
    /// comes back, when entries in use would be dropped by it: try again when more is acknowledged.
    pub fn set_capacity(&mut self, capacity: u64) -> bool {
        let capacity = capacity.min(self.max_capacity);
        // RFC 9204 §3.2.3: without a table not one instruction is sent.
        if capacity == self.store.capacity() {
            return true;
        }
        // RFC 9204 §4.3.1: no entry goes that may not.
        if !self.store.set_capacity(capacity, self.ledger.known()) {
            return false;
        }
        put_int(&mut self.out, 0x20, 5, capacity);
        true
    }

    /// Bytes of instructions that the encoder stream can send now; endless unless said otherwise. What would
    /// not fit is not put into the table.
    pub fn set_credit(&mut self, bytes: u64) {
        self.credit = bytes;
    }

    /// Encodes a field section for a stream.
    pub fn encode(&mut self, stream: u64, fields: &[Field]) -> Vec<u8> {
        let mut draft = SectionDraft {
            base: self.store.inserted(),
            // RFC 9204 §2.1.2: at most so many streams may come to wait, unless this one does already.
            limit: if self.ledger.may_risk(stream, self.max_blocked) {
                u64::MAX
            } else {
                self.ledger.known()
            },
            required: 0,
            references: Vec::new(),
            // As if all were literals, so that it need not grow.
            lines: Vec::with_capacity(fields.iter().map(|f| f.name.len() + f.value.len() + LINE).sum()),
        };
        let tracked = self.ledger.has_room() && self.store.capacity() > 0;
        for field in fields {
            match (is_secret(field), tracked) {
                (false, true) => self.line(&mut draft, field),
                (secret, _) => {
                    draft.without_table(field, secret, statics::find(&field.name, &field.value));
                }
            }
        }
        self.store.ease();
        let section = draft.section(self.max_capacity / OVERHEAD);
        if draft.required > 0 {
            self.ledger.sent(stream, draft.required, draft.references);
        }
        section
    }

    /// Bytes of the peer's decoder stream.
    ///
    /// # Errors
    /// QPACK_DECODER_STREAM_ERROR.
    pub fn on_instructions(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut input = core::mem::take(&mut self.partial);
        input.extend_from_slice(bytes);
        let mut cursor = FieldCursor::new(&input);
        let mut done = 0;
        while !cursor.is_empty() {
            match self.obey(&mut cursor) {
                Ok(()) => done = input.len() - cursor.remaining(),
                Err(Stop::More) => break,
                Err(Stop::Bad) => {
                    return Err(Error::new(
                        ErrorCode::QPACK_DECODER_STREAM_ERROR,
                        "a bad decoder instruction",
                    ));
                }
            }
        }
        input.drain(..done);
        self.partial = input;
        Ok(())
    }

    /// Instructions for the peer's decoder, to be sent on the encoder stream, before the sections that came
    /// out with them if possible. While many are not taken, no more are made.
    pub fn take_instructions(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.out)
    }

    /// Entries that were ever inserted.
    pub fn inserted(&self) -> u64 {
        self.store.inserted()
    }

    /// RFC 9204 §4.4: one instruction of the decoder.
    fn obey(&mut self, cursor: &mut FieldCursor<'_>) -> Result<(), Stop> {
        let first = cursor.peek()?;
        if first & 0x80 != 0 {
            // RFC 9204 §4.4.1: for a stream that has nothing to acknowledge it is an error.
            let references = self.ledger.acknowledged(cursor.int(7)?).ok_or(Stop::Bad)?;
            self.store.release(&references);
        } else if first & 0x40 != 0 {
            // RFC 9204 §4.4.2: of a stream that nobody reads no references are left; of none there are none.
            for references in self.ledger.cancelled(cursor.int(6)?) {
                self.store.release(&references);
            }
        } else {
            // RFC 9204 §4.4.3: neither zero nor beyond what was sent.
            let increment = cursor.int(6)?;
            let known = self.ledger.known() + increment;
            if increment == 0 || known > self.store.inserted() {
                return Err(Stop::Bad);
            }
            self.ledger.learn(known);
        }
        Ok(())
    }

    fn line(&mut self, draft: &mut SectionDraft, field: &Field) {
        let found = statics::find(&field.name, &field.value);
        if let StaticMatch::Line(index) = found {
            return draft.indexed_static(index);
        }
        let hit = self.store.find(&field.name, &field.value, draft.limit);
        if let Some(index) = hit.line {
            if !self.store.is_draining(index) {
                return self.refer(draft, index);
            }
            if draft.may_wait() && self.has_room_for(field) {
                // RFC 9204 §2.1.1.1: a young copy lets the old entry go.
                put_int(&mut self.out, 0x00, 5, self.store.inserted() - 1 - index);
                let index = self.store.duplicate(index);
                return self.refer(draft, index);
            }
            return self.literal(draft, field, found, &hit);
        }
        let mut hit = hit;
        if !hit.present && self.is_worth(field, found, &hit) && self.has_room_for(field) {
            let index = self.insert(field, found, hit.any_name);
            if draft.may_wait() {
                return self.refer(draft, index);
            }
            // The name may have been that of an entry that is gone.
            hit = self.store.find(&field.name, &field.value, draft.limit);
        }
        self.literal(draft, field, found, &hit);
    }

    /// A line that shows its value, with the best name there is.
    fn literal(&mut self, draft: &mut SectionDraft, field: &Field, found: StaticMatch, hit: &Hit) {
        match (found, hit.name) {
            (StaticMatch::Nothing, Some(index)) => {
                self.store.hold(index);
                draft.literal_dynamic(index, &field.value);
            }
            _ => draft.without_table(field, false, found),
        }
    }

    fn refer(&mut self, draft: &mut SectionDraft, index: u64) {
        self.store.hold(index);
        draft.indexed(index);
    }

    /// Adds an entry, and says so on the encoder stream; the new absolute index.
    fn insert(&mut self, field: &Field, found: StaticMatch, name: Option<u64>) -> u64 {
        let out = &mut self.out;
        match (found, name) {
            (StaticMatch::Name(index) | StaticMatch::Line(index), _) => put_int(out, 0xc0, 6, index),
            (StaticMatch::Nothing, Some(index)) => put_int(out, 0x80, 6, self.store.inserted() - 1 - index),
            (StaticMatch::Nothing, None) => put_string(out, 0x40, 5, &field.name),
        }
        put_string(out, 0, 7, &field.value);
        // Copies: an entry must not keep the whole message alive that it came from.
        self.store.insert(Bytes::copy_from_slice(&field.name), Bytes::copy_from_slice(&field.value))
    }

    fn has_room_for(&mut self, field: &Field) -> bool {
        // RFC 9204 §2.1.3: instructions that wait for flow control make sections wait, and those the credit.
        // None is longer than its entry counts.
        let size = entry_size(&field.name, &field.value);
        self.out.len() < MAX_UNSENT
            && self.out.len() as u64 + size <= self.credit
            && self.store.has_room(size, self.ledger.known())
    }

    /// Whether a line is likely to come again: at once where it costs no other entry and is not of a kind
    /// that changes with each message; else when it comes the second time, or when its name does and is in no
    /// table.
    fn is_worth(&mut self, field: &Field, found: StaticMatch, hit: &Hit) -> bool {
        let size = entry_size(&field.name, &field.value);
        if size > self.store.capacity() / 4 * 3 {
            return false;
        }
        let nameless =
            found == StaticMatch::Nothing && hit.any_name.is_none() && self.recent.saw(b"", &field.name);
        let again = self.recent.saw(&field.name, &field.value);
        let is_small = size <= self.store.free() || size <= self.store.capacity() / 8;
        again || (nameless && is_small) || (size <= self.store.free() && !VOLATILE.contains(&&field.name[..]))
    }
}

/// A section under way.
struct SectionDraft {
    base: u64,
    /// Entries from this on cannot be referred to.
    limit: u64,
    required: u64,
    references: Vec<u64>,
    lines: Vec<u8>,
}

impl SectionDraft {
    /// Entries that may not have arrived can be referred to.
    fn may_wait(&self) -> bool {
        self.limit == u64::MAX
    }

    /// RFC 9204 §4.5.2.
    fn indexed_static(&mut self, index: u64) {
        put_int(&mut self.lines, 0xc0, 6, index);
    }

    /// RFC 9204 §4.5.2, §4.5.3.
    fn indexed(&mut self, index: u64) {
        self.note(index);
        match index.checked_sub(self.base) {
            Some(behind) => put_int(&mut self.lines, 0x10, 4, behind),
            None => put_int(&mut self.lines, 0x80, 6, self.base - index - 1),
        }
    }

    /// RFC 9204 §4.5.4, §4.5.5.
    fn literal_dynamic(&mut self, index: u64, value: &[u8]) {
        self.note(index);
        match index.checked_sub(self.base) {
            Some(behind) => put_int(&mut self.lines, 0x00, 3, behind),
            None => put_int(&mut self.lines, 0x40, 4, self.base - index - 1),
        }
        put_string(&mut self.lines, 0, 7, value);
    }

    /// RFC 9204 §4.5.4, §4.5.6, with the bit that forbids others to index it (§7.1.3) for a secret; `found`
    /// is what the static table has.
    fn without_table(&mut self, field: &Field, secret: bool, found: StaticMatch) {
        match found {
            StaticMatch::Line(index) if !secret => return self.indexed_static(index),
            StaticMatch::Line(index) | StaticMatch::Name(index) => {
                put_int(&mut self.lines, if secret { 0x70 } else { 0x50 }, 4, index);
            }
            StaticMatch::Nothing => {
                put_string(&mut self.lines, if secret { 0x30 } else { 0x20 }, 3, &field.name);
            }
        }
        put_string(&mut self.lines, 0, 7, &field.value);
    }

    fn note(&mut self, index: u64) {
        self.required = self.required.max(index + 1);
        self.references.push(index);
    }

    /// RFC 9204 §4.5.1: the prefix, and the lines.
    fn section(&mut self, max_entries: u64) -> Vec<u8> {
        let mut section = Vec::with_capacity(self.lines.len() + PREFIX);
        if self.required == 0 {
            section.extend_from_slice(&[0, 0]);
        } else {
            put_int(&mut section, 0, 8, self.required % (2 * max_entries) + 1);
            match self.base.checked_sub(self.required) {
                Some(delta) => put_int(&mut section, 0x00, 7, delta),
                None => put_int(&mut section, 0x80, 7, self.required - self.base - 1),
            }
        }
        section.extend_from_slice(&self.lines);
        section
    }
}

/// RFC 9204 §7.1.3: values that must not be found by trying.
fn is_secret(field: &Field) -> bool {
    match &field.name[..] {
        b"authorization" | b"proxy-authorization" => true,
        // Few possible values can all be tried; long ones are taken to be random.
        b"cookie" | b"set-cookie" => field.sensitive || field.value.len() < SHORT_COOKIE,
        _ => field.sensitive,
    }
}

/// Names of fields whose values rarely come again.
const VOLATILE: [&[u8]; 14] = [
    b":path",
    b"age",
    b"content-length",
    b"content-range",
    b"date",
    b"etag",
    b"if-modified-since",
    b"if-none-match",
    b"if-range",
    b"last-modified",
    b"location",
    b"range",
    b"set-cookie",
    b"x-request-id",
];

/// Bytes below which a cookie can be guessed.
const SHORT_COOKIE: usize = 20;

/// Bytes of a literal line beside its strings: their two lengths, of two bytes each unless they are very
/// long.
const LINE: usize = 4;

/// Bytes in front of the lines of a section: two integers, which are mostly short.
const PREFIX: usize = 8;

/// Streams that we let wait at most, whatever the peer allows.
const MAX_AT_RISK: u64 = 1024;

/// Bytes of instructions not taken above which no more are made.
const MAX_UNSENT: usize = 16 << 10;
