use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use quickset_base::number::Unsigned as _;

use super::prim::{FieldCursor, Stop, WireString, put_int};
use super::statics;
use super::table::{DynamicTable, OVERHEAD, TableEntry};
use crate::{Error, ErrorCode, Field};

/// The receiving end of field sections.
#[derive(Debug)]
pub struct Decoder {
    table: DynamicTable,
    max_capacity: u64,
    max_blocked: u64,
    max_section: u64,
    /// Sections that are ahead of the table, by stream.
    blocked: BTreeMap<u64, WaitingSection>,
    /// An instruction that is cut short.
    partial: Vec<u8>,
    /// Entries that the encoder knows to have arrived.
    told: u64,
    out: Vec<u8>,
    /// What instructions took, in the fortieth part of a microsecond.
    work: u64,
}

#[derive(Debug)]
struct WaitingSection {
    required: u64,
    coded: Vec<u8>,
}

/// What becomes of an encoded field section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecodedSection {
    /// The field lines in order.
    Fields(Vec<Field>),
    /// It was read, and is larger than allowed, or has more than 512 lines: they were not kept.
    TooLarge,
    /// It waits for the table: [`Decoder::unblocked`] will have it, unless the stream is cancelled.
    Blocked,
}

impl Decoder {
    /// A decoder as the own SETTINGS have it: at most `max_capacity` bytes of table, at most `max_blocked`
    /// streams that wait for it, and at most `max_section` bytes in a field section (RFC 9114 §4.2.2: 32 more
    /// than name and value for each line).
    pub fn new(max_capacity: u64, max_blocked: u64, max_section: u64) -> Self {
        Self {
            table: DynamicTable::default(),
            max_capacity,
            max_blocked,
            max_section,
            blocked: BTreeMap::new(),
            partial: Vec::new(),
            told: 0,
            out: Vec::new(),
            work: 0,
        }
    }

    /// Decodes a section, of which all bytes must be there. A stream whose section waits has no other one
    /// before that.
    ///
    /// # Errors
    /// QPACK_DECOMPRESSION_FAILED.
    pub fn section(&mut self, stream: u64, coded: &[u8]) -> Result<DecodedSection, Error> {
        debug_assert!(!self.blocked.contains_key(&stream), "a second section on a stream that waits");
        let encoded = FieldCursor::new(coded).int(8).map_err(|_| failed("no Required Insert Count"))?;
        let required = self.required(encoded)?;
        if required <= self.table.inserted() {
            return self.decode(stream, required, coded);
        }
        // RFC 9204 §2.1.2, §2.2.1: more streams than were allowed to wait.
        if self.blocked.len() as u64 >= self.max_blocked {
            return Err(failed("more blocked streams than allowed"));
        }
        // A copy: it must not keep a whole received buffer alive.
        self.blocked.insert(stream, WaitingSection { required, coded: coded.into() });
        Ok(DecodedSection::Blocked)
    }

    /// The next section whose wait is over, and its stream. To be called until there is none after
    /// [`on_instructions`](Self::on_instructions).
    ///
    /// # Errors
    /// QPACK_DECOMPRESSION_FAILED.
    pub fn unblocked(&mut self) -> Option<Result<(u64, DecodedSection), Error>> {
        let inserted = self.table.inserted();
        let (&stream, _) = self.blocked.iter().find(|(_, waiting)| waiting.required <= inserted)?;
        let waiting = self.blocked.remove(&stream)?;
        Some(self.decode(stream, waiting.required, &waiting.coded).map(|section| (stream, section)))
    }

    /// The stream was reset, or nobody wants to read it: what waits is forgotten, and the encoder told.
    pub fn cancel(&mut self, stream: u64) {
        self.blocked.remove(&stream);
        // RFC 9204 §2.2.2.2: without a table nobody refers to it.
        if self.max_capacity > 0 {
            put_int(&mut self.out, 0x40, 6, stream);
        }
    }

    /// Bytes of the peer's encoder stream.
    ///
    /// # Errors
    /// QPACK_ENCODER_STREAM_ERROR.
    pub fn on_instructions(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let mut partial = core::mem::take(&mut self.partial);
        let joined = !partial.is_empty();
        if joined {
            partial.extend_from_slice(bytes);
        }
        let input = if joined { &partial[..] } else { bytes };
        let mut cursor = FieldCursor::new(input);
        let mut done = 0;
        while !cursor.is_empty() {
            match self.obey(&mut cursor) {
                Ok(()) => done = input.len() - cursor.remaining(),
                Err(Stop::More) => break,
                Err(Stop::Bad) => {
                    return Err(Error::new(
                        ErrorCode::QPACK_ENCODER_STREAM_ERROR,
                        "a bad encoder instruction",
                    ));
                }
            }
        }
        if joined {
            partial.drain(..done);
        } else {
            partial.extend_from_slice(&bytes[done..]);
        }
        self.partial = partial;
        Ok(())
    }

    /// Instructions for the peer's encoder, to be sent on the decoder stream. What arrived in the table is
    /// told here, so calling it once after a batch of input says it in few bytes.
    pub fn take_instructions(&mut self) -> Vec<u8> {
        let news = self.table.inserted() - self.told;
        if news > 0 {
            put_int(&mut self.out, 0, 6, news);
            self.told = self.table.inserted();
        }
        core::mem::take(&mut self.out)
    }

    /// What instructions took since this was asked last, in steps of a tenth of a microsecond, about; what is
    /// less than one is kept.
    pub fn take_steps(&mut self) -> u64 {
        let steps = self.work / PER_STEP;
        self.work %= PER_STEP;
        steps
    }

    /// Entries that were ever inserted.
    pub fn inserted(&self) -> u64 {
        self.table.inserted()
    }

    /// RFC 9204 §4.3: one instruction of the encoder.
    fn obey(&mut self, cursor: &mut FieldCursor<'_>) -> Result<(), Stop> {
        // A string that is longer is too large for the table (RFC 9204 §3.2.2), whatever it belongs to.
        let max = self.table.capacity().saturating_sub(OVERHEAD).saturated();
        let first = cursor.peek()?;
        self.work += 1;
        // RFC 9204 §4.3.2 to §4.3.4; an index beyond the static table is as bad as any (RFC 9204 §3.1).
        let entry = if first & 0x80 != 0 {
            let index = cursor.int(6)?;
            let value = cursor.string(7, max)?;
            let value = own(value)?;
            let name = if first & 0x40 != 0 {
                Bytes::from_static(statics::get(index).ok_or(Stop::Bad)?.0.as_bytes())
            } else {
                self.table.newest(index).ok_or(Stop::Bad)?.name.clone()
            };
            TableEntry { name, value }
        } else if first & 0x40 != 0 {
            // RFC 9204 §4.3.3.
            let (name, value) = (cursor.string(5, max)?, cursor.string(7, max)?);
            // Each of its own: entries that take the name must not keep the value, which would outlive its
            // entry.
            TableEntry { name: own(name)?, value: own(value)? }
        } else if first & 0x20 != 0 {
            let capacity = cursor.int(5)?;
            // RFC 9204 §4.3.1: never above the setting.
            if capacity > self.max_capacity {
                return Err(Stop::Bad);
            }
            self.table.set_capacity(capacity);
            return Ok(());
        } else {
            let index = cursor.int(5)?;
            let entry = self.table.newest(index).ok_or(Stop::Bad)?.clone();
            return self.insert(entry);
        };
        // It is made, and another one goes.
        self.work += PER_STEP - 1;
        self.insert(entry)
    }

    fn insert(&mut self, entry: impl Into<Arc<TableEntry>>) -> Result<(), Stop> {
        // RFC 9204 §3.2.2: an entry that does not fit an empty table is an error.
        if self.table.insert(entry) { Ok(()) } else { Err(Stop::Bad) }
    }

    /// RFC 9204 §4.5.1.1: the Required Insert Count from its encoded form.
    fn required(&self, encoded: u64) -> Result<u64, Error> {
        if encoded == 0 {
            return Ok(0);
        }
        let max_entries = self.max_capacity / OVERHEAD;
        let range = 2 * max_entries;
        let wrong = failed("a Required Insert Count that cannot be");
        if encoded > range {
            return Err(wrong);
        }
        let max = self.table.inserted() + max_entries;
        let mut required = max / range * range + encoded - 1;
        if required > max {
            required = required.checked_sub(range).ok_or(wrong)?;
        }
        if required == 0 { Err(wrong) } else { Ok(required) }
    }

    fn decode(&mut self, stream: u64, required: u64, coded: &[u8]) -> Result<DecodedSection, Error> {
        let mut cursor = FieldCursor::new(coded);
        let mut lines = Lines::new(&self.table, required, self.max_section);
        lines.read(&mut cursor).map_err(|_| failed("a field section that cannot be read"))?;
        let section = lines.finish();
        if required > 0 {
            // RFC 9204 §2.2.2.1, §4.4.1; it tells the encoder of all entries up to that, too (§2.1.4).
            put_int(&mut self.out, 0x80, 7, stream);
            self.told = self.told.max(required);
        }
        Ok(section)
    }
}

/// The field lines of one section.
struct Lines<'a> {
    table: &'a DynamicTable,
    required: u64,
    base: u64,
    max: u64,
    /// As RFC 9114 §4.2.2 counts it.
    size: u64,
    read: Vec<Field>,
    /// The text of literals, one behind the other.
    text: Vec<u8>,
    /// Which names and values they are, with their bytes: the number of the line twice, and one more for its
    /// value.
    literals: Vec<(usize, usize)>,
}

impl<'a> Lines<'a> {
    fn new(table: &'a DynamicTable, required: u64, max: u64) -> Self {
        Self {
            table,
            required,
            base: 0,
            max,
            size: 0,
            read: Vec::new(),
            text: Vec::new(),
            literals: Vec::new(),
        }
    }

    fn read(&mut self, cursor: &mut FieldCursor<'_>) -> Result<(), Stop> {
        cursor.int(8)?;
        let negative = cursor.peek()? & 0x80 != 0;
        let delta = cursor.int(7)?;
        // RFC 9204 §4.5.1.2: the Base is not negative.
        self.base = if negative {
            self.required.checked_sub(delta).and_then(|b| b.checked_sub(1)).ok_or(Stop::Bad)?
        } else {
            self.required + delta
        };
        while !cursor.is_empty() {
            let text = self.text.len();
            let field = self.line(cursor)?;
            // What is literal is among the text until all of it is there.
            let literal = (self.text.len() - text) as u64;
            self.size = self.size.saturating_add(field.size() + literal);
            if self.read.len() >= MAX_LINES {
                self.size = u64::MAX;
            }
            if self.size > self.max {
                // The rest is read for its errors only.
                self.text.clear();
                self.literals.clear();
                self.read.clear();
            } else {
                self.read.push(field);
            }
        }
        Ok(())
    }

    /// RFC 9204 §4.5.2 to §4.5.6: the representations, by their first bits.
    #[inline]
    fn line(&mut self, cursor: &mut FieldCursor<'_>) -> Result<Field, Stop> {
        let first = cursor.peek()?;
        Ok(match first.leading_zeros() {
            0 => {
                let index = cursor.int(6)?;
                if first & 0x40 != 0 {
                    let (name, value) = statics::get(index).ok_or(Stop::Bad)?;
                    Field { name: fixed(name), value: fixed(value), sensitive: false }
                } else {
                    whole(self.before_base(index)?)
                }
            }
            1 => {
                let index = cursor.int(4)?;
                let name = if first & 0x10 != 0 {
                    fixed(statics::get(index).ok_or(Stop::Bad)?.0)
                } else {
                    self.before_base(index)?.name.clone()
                };
                self.literal(cursor, 7, VALUE)?;
                Field { name, value: Bytes::new(), sensitive: first & 0x20 != 0 }
            }
            2 => {
                self.literal(cursor, 3, NAME)?;
                self.literal(cursor, 7, VALUE)?;
                Field { name: Bytes::new(), value: Bytes::new(), sensitive: first & 0x10 != 0 }
            }
            3 => whole(self.behind_base(cursor.int(4)?)?),
            _ => {
                let name = self.behind_base(cursor.int(3)?)?.name.clone();
                self.literal(cursor, 7, VALUE)?;
                Field { name, value: Bytes::new(), sensitive: first & 0x08 != 0 }
            }
        })
    }

    /// A string. It is bounded by the bytes of the section: no symbol has fewer than five bits.
    fn literal(&mut self, cursor: &mut FieldCursor<'_>, prefix: u32, of: usize) -> Result<(), Stop> {
        let len = cursor.string(prefix, usize::MAX)?.append(&mut self.text)?;
        self.literals.push((2 * self.read.len() + of, len));
        Ok(())
    }

    fn before_base(&self, relative: u64) -> Result<&TableEntry, Stop> {
        self.entry(self.base.checked_sub(relative).and_then(|i| i.checked_sub(1)).ok_or(Stop::Bad)?)
    }

    fn behind_base(&self, index: u64) -> Result<&TableEntry, Stop> {
        self.entry(self.base + index)
    }

    /// RFC 9204 §2.2.3: neither dropped nor beyond what was declared.
    fn entry(&self, index: u64) -> Result<&TableEntry, Stop> {
        if index < self.required {
            self.table.get(index).map(|entry| &**entry).ok_or(Stop::Bad)
        } else {
            Err(Stop::Bad)
        }
    }

    fn finish(self) -> DecodedSection {
        if self.size > self.max {
            return DecodedSection::TooLarge;
        }
        let (mut fields, mut text) = (self.read, Bytes::from(self.text));
        for (at, len) in self.literals {
            let field = &mut fields[at / 2];
            let part = if at % 2 == NAME { &mut field.name } else { &mut field.value };
            *part = text.split_to(len);
        }
        DecodedSection::Fields(fields)
    }
}

/// A text with no room beside it.
fn own(text: WireString<'_>) -> Result<Bytes, Stop> {
    let mut bytes = Vec::new();
    text.append(&mut bytes)?;
    Ok(bytes.into_boxed_slice().into())
}

fn fixed(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn whole(entry: &TableEntry) -> Field {
    Field { name: entry.name.clone(), value: entry.value.clone(), sensitive: false }
}

/// Lines of a section at most. A byte may stand for one, and each costs more than its bytes do to whoever
/// looks at it; browsers with as many cookies as they keep for a site, each in a line of its own, have 200.
const MAX_LINES: usize = 512;

/// Instructions that take a step together. One that brings an entry takes as much as all of them.
const PER_STEP: u64 = 4;

/// What of a line is literal.
const NAME: usize = 0;
const VALUE: usize = 1;

const fn failed(reason: &'static str) -> Error {
    Error::new(ErrorCode::QPACK_DECOMPRESSION_FAILED, reason)
}
