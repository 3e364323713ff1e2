//! Decisions to bytes and back: a binary arithmetic coder whose chances adapt.
//!
//! Whatever bytes come, a reader makes decisions of them, so nothing here can fail; that a code has another
//! length than its decisions take is told at the end.

/// How likely a decision is yes, learnt from those that were made.
///
/// The upper half says how likely, in 65536ths, and the lower one how many were made, up to [`MOST_SEEN`]:
/// one number, since most of what a picture costs is to read, change and write these.
#[derive(Clone, Copy)]
pub(super) struct Chance(u32);

impl Chance {
    /// Nothing is known.
    pub(super) const EVEN: Self = Self(1 << 31);

    /// The part of `range` that is for yes: neither nothing nor all, since `learn` comes no nearer than 17 to
    /// either end.
    #[inline]
    fn part(self, range: u32) -> u32 {
        (range >> 15) * (self.0 >> 17)
    }

    /// The first decisions count most.
    #[inline]
    fn learn(&mut self, yes: bool) {
        let seen = self.0 & 31;
        let rate = RATES[seen as usize];
        // The way left is below 2^16, and so is the rate: their product has as many bits as there are, and
        // what is below a 65536th is left out.
        let part = |way: u32| ((way >> 16) * rate) & 0xffff_0000;
        let next = u32::from(seen < MOST_SEEN);
        self.0 = if yes { self.0 + part(!self.0) } else { self.0 - part(self.0) } + next;
    }
}

/// A writer and a reader go through the same decisions.
pub(super) trait DecisionCoder {
    /// A writer writes `yes`, and a reader returns what was written in its place.
    fn decide(&mut self, chance: &mut Chance, yes: bool) -> bool;

    /// A number below `N`, the highest of its bits first, each by those before it.
    fn tree<const N: usize>(&mut self, chances: &mut [Chance; N], number: usize) -> usize;

    /// So many rows are done. False when no more are to come: a reader has read what no writer has written,
    /// or a writer has no room.
    fn goes_on(&mut self, rows: usize) -> bool;
}

/// How long a code may be.
#[derive(Clone, Copy, Debug)]
#[cfg(feature = "encode")]
pub(in crate::codec) struct CodeRoom {
    /// Bytes that it should have at most, and bytes that it must not have more of.
    pub(in crate::codec) wanted: usize,
    pub(in crate::codec) most: usize,
    /// Rows before the first at which it may end early, and from there to the next.
    pub(in crate::codec) first: usize,
    pub(in crate::codec) step: usize,
    /// All rows.
    pub(in crate::codec) rows: usize,
}

/// Writes decisions.
#[cfg(feature = "encode")]
pub(super) struct DecisionWriter {
    state: WriterState,
    out: Vec<u8>,
    room: CodeRoom,
    /// Where it can end: after so many rows, in this state, with so many bytes written.
    end: Option<(usize, WriterState, usize)>,
}

#[cfg(feature = "encode")]
#[derive(Clone, Copy)]
struct WriterState {
    /// Of the interval that says all decisions so far, less what was written. Bit 32 is a carry.
    low: u64,
    range: u32,
    /// The last byte, which a carry may change, and how many of ff follow it; none at first.
    last: Option<u8>,
    full: usize,
}

#[cfg(feature = "encode")]
impl WriterState {
    /// Bytes, if it ended here, with so many written.
    fn length(self, written: usize) -> usize {
        written + usize::from(self.last.is_some()) + self.full + 1
    }
}

#[cfg(feature = "encode")]
impl DecisionWriter {
    /// Writes in place of what is in `out`.
    pub(super) fn new(mut out: Vec<u8>, room: CodeRoom) -> Self {
        out.clear();
        let state = WriterState { low: 0, range: u32::MAX, last: None, full: 0 };
        Self { state, out, room, end: None }
    }

    /// The bytes, and of how many rows they are: none when there is no room for the first of them.
    pub(super) fn finish(mut self) -> (Vec<u8>, usize) {
        let Some((rows, state, written)) = self.end else { return (self.out, 0) };
        self.state = state;
        self.out.truncate(written);
        // The interval is at least 2^24 long: a number whose lower 24 bits are zero lies in it.
        self.state.low = (state.low + 0xff_ffff) & !0xff_ffff;
        self.shift();
        self.flush(0);
        (self.out, rows)
    }

    /// As many bytes as are known.
    fn shift_out(&mut self) {
        while self.state.range < LEAST_RANGE {
            self.state.range <<= 8;
            self.shift();
        }
    }

    /// The highest byte of `low` is written, as soon as no carry can change it.
    fn shift(&mut self) {
        let low = self.state.low;
        let (carry, byte) = ((low >> 32 & 1) as u8, (low >> 24 & 0xff) as u8);
        if byte == 0xff && carry == 0 {
            self.state.full += 1;
        } else {
            self.flush(carry);
            self.state.last = Some(byte);
        }
        self.state.low = low << 8 & 0xffff_ffff;
    }

    fn flush(&mut self, carry: u8) {
        // There is no carry out of nothing: all that was decided lies below 1.
        if let Some(last) = self.state.last.take() {
            self.out.push(last.wrapping_add(carry));
        }
        let full = core::mem::take(&mut self.state.full);
        self.out.extend(core::iter::repeat_n(0xff_u8.wrapping_add(carry), full));
    }
}

#[cfg(feature = "encode")]
impl DecisionCoder for DecisionWriter {
    #[inline]
    fn decide(&mut self, chance: &mut Chance, yes: bool) -> bool {
        let part = chance.part(self.state.range);
        chance.learn(yes);
        if yes {
            self.state.range = part;
        } else {
            self.state.low += u64::from(part);
            self.state.range -= part;
        }
        if self.state.range < LEAST_RANGE {
            self.shift_out();
        }
        yes
    }

    fn tree<const N: usize>(&mut self, chances: &mut [Chance; N], number: usize) -> usize {
        let bits = N | number;
        for n in (0..N.ilog2()).rev() {
            self.decide(&mut chances[bits >> (n + 1) & (N - 1)], bits >> n & 1 == 1);
        }
        number
    }

    fn goes_on(&mut self, rows: usize) -> bool {
        let (length, room) = (self.state.length(self.out.len()), self.room);
        let has_end = self.end.is_some_and(|(_, state, written)| state.length(written) <= room.wanted);
        if length > room.most || length > room.wanted && has_end {
            return false;
        }
        if rows == room.rows || rows >= room.first && (rows - room.first) % room.step == 0 {
            self.end = Some((rows, self.state, self.out.len()));
        }
        true
    }
}

/// Reads decisions.
pub(super) struct DecisionReader<'a> {
    bytes: &'a [u8],
    /// Where the next byte is; behind the end there are zeros.
    at: usize,
    /// The code, less the lower end of the interval.
    code: u32,
    range: u32,
}

impl<'a> DecisionReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let mut reader = Self { bytes, at: 0, code: 0, range: u32::MAX };
        (0..4).for_each(|_| reader.shift());
        reader
    }

    /// A writer that has made these decisions has written all of the bytes and no more.
    pub(super) fn is_exact(&self) -> bool {
        self.at == self.bytes.len() + LEFT_OUT
    }

    #[inline]
    fn shift(&mut self) {
        self.code = self.code << 8 | self.next_byte();
    }

    #[inline]
    fn next_byte(&mut self) -> u32 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        byte.into()
    }

    /// As many bytes as are needed.
    fn shift_in(&mut self) {
        while self.range < LEAST_RANGE {
            self.range <<= 8;
            self.shift();
        }
    }
}

impl DecisionCoder for DecisionReader<'_> {
    #[inline]
    fn decide(&mut self, chance: &mut Chance, _: bool) -> bool {
        let part = chance.part(self.range);
        // Twice the same, so that what depends on the answer need not look at it again.
        if self.code < part {
            self.range = part;
            chance.learn(true);
            if part < LEAST_RANGE {
                self.shift_in();
            }
            true
        } else {
            self.code -= part;
            self.range -= part;
            chance.learn(false);
            if self.range < LEAST_RANGE {
                self.shift_in();
            }
            false
        }
    }

    fn tree<const N: usize>(&mut self, chances: &mut [Chance; N], _: usize) -> usize {
        // In registers for all bits.
        let (mut code, mut range, mut node) = (self.code, self.range, 1);
        while node < N {
            let chance = &mut chances[node];
            let part = chance.part(range);
            node *= 2;
            if code < part {
                range = part;
                chance.learn(true);
                node += 1;
            } else {
                code -= part;
                range -= part;
                chance.learn(false);
            }
            while range < LEAST_RANGE {
                range <<= 8;
                code = code << 8 | self.next_byte();
            }
        }
        (self.code, self.range) = (code, range);
        node - N
    }

    fn goes_on(&mut self, _: usize) -> bool {
        // Zeros behind a code that was cut short could be read for long.
        self.at <= self.bytes.len() + LEFT_OUT
    }
}

/// By how much the decision after so many moves the chance, in 65536ths of the way: 2 / (2 n + 3).
const RATES: [u32; 32] = {
    let (mut rates, mut n) = ([0; 32], 0);
    while n < 32 {
        let seen = if n < MOST_SEEN { n } else { MOST_SEEN };
        rates[n as usize] = 131_072 / (2 * seen + 3);
        n += 1;
    }
    rates
};
const MOST_SEEN: u32 = 16;
/// Below it a byte is known.
const LEAST_RANGE: u32 = 1 << 24;
/// Bytes of zero that a writer leaves out at the end.
const LEFT_OUT: usize = 3;
