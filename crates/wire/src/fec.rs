//! What both sides of forward erasure correction name alike: schemes, sessions, and what an endpoint can
//! decode (`spec/fec.md`).

use crate::cursor::EncodeSink;
use crate::{Reader, Truncated, Writer, varint};

/// A way to compute repair symbols. The numbers are those on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Scheme {
    /// The sum of interleaved symbols.
    Xor = 0,
    /// Sums of the rows and columns of a grid.
    Grid = 1,
    /// Systematic Reed-Solomon with a Cauchy matrix, up to 255 symbols.
    ReedSolomon = 2,
    /// LDPC-Staircase as in RFC 6816.
    Ldpc = 3,
    /// Random linear combinations over a sliding window.
    Rlc = 4,
}

impl Scheme {
    /// All schemes, by number.
    pub const ALL: [Self; 5] = [Self::Xor, Self::Grid, Self::ReedSolomon, Self::Ldpc, Self::Rlc];

    /// The scheme with this number; `None` when it is not known.
    pub const fn new(id: u64) -> Option<Self> {
        if id < Self::ALL.len() as u64 { Some(Self::ALL[(id & 0xff) as usize]) } else { None }
    }

    /// The scheme of a session; `None` when it is not known.
    #[inline]
    pub const fn of(session: u64) -> Option<Self> {
        Self::new(session & 7)
    }

    /// The number of the session with this scheme and this `n`, counted over all schemes; `n` is below 2^59.
    #[inline]
    pub const fn session(self, n: u64) -> u64 {
        n << 3 | self as u64
    }

    /// The last SID that a REPAIR of this scheme covers; `None` when that is above 2^62 - 1, or `count` is 0.
    #[inline]
    pub const fn last_sid(self, first: u64, count: u64, parameter: u64) -> Option<u64> {
        let stride = if matches!(self, Self::ReedSolomon) { parameter } else { 1 };
        let Some(above) = count.checked_sub(1) else { return None };
        let Some(above) = above.checked_mul(stride) else { return None };
        match first.checked_add(above) {
            Some(last) if last <= varint::MAX => Some(last),
            _ => None,
        }
    }
}

/// A set of schemes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schemes(u8);

impl Schemes {
    /// No scheme.
    pub const NONE: Self = Self(0);
    /// Every scheme of [`Scheme::ALL`].
    pub const ALL: Self = Self((1 << Scheme::ALL.len()) - 1);

    /// This set and `scheme`.
    #[must_use]
    pub const fn with(self, scheme: Scheme) -> Self {
        Self(self.0 | 1 << scheme as u8)
    }

    /// True when `scheme` is in the set.
    #[inline]
    pub const fn has(self, scheme: Scheme) -> bool {
        self.0 >> scheme as u8 & 1 != 0
    }

    /// True when there is none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The schemes, by number.
    pub fn iter(self) -> impl Iterator<Item = Scheme> {
        Scheme::ALL.into_iter().filter(move |scheme| self.has(*scheme))
    }
}

impl FromIterator<Scheme> for Schemes {
    fn from_iter<I: IntoIterator<Item = Scheme>>(schemes: I) -> Self {
        schemes.into_iter().fold(Self::NONE, Self::with)
    }
}

/// The transport parameter fec_decoder: what its sender can decode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FecDecoder {
    /// Symbols that it keeps for each session; 0: it decodes nothing and only understands SYMBOL_ACK.
    pub window: u64,
    /// Sessions over all schemes.
    pub max_sessions: u64,
    /// The longest symbol, in bytes.
    pub max_symbol_size: u64,
    /// The schemes that it knows, as far as we know them.
    pub schemes: Schemes,
}

impl FecDecoder {
    /// No value is longer, in bytes: three numbers and a byte for each scheme.
    pub const MAX_SIZE: usize = 3 * 8 + Scheme::ALL.len();

    /// True when symbols and repairs of this session may be sent to who offers this (FEC-11).
    pub const fn takes(&self, session: u64) -> bool {
        match Scheme::of(session) {
            Some(scheme) => self.window > 0 && session >> 3 < self.max_sessions && self.schemes.has(scheme),
            None => false,
        }
    }

    /// Reads the value of the parameter.
    pub(crate) fn decode(value: &[u8]) -> Result<Self, Truncated> {
        let mut r = Reader::new(value);
        let (window, max_sessions, max_symbol_size) = (r.varint()?, r.varint()?, r.varint()?);
        let mut schemes = Schemes::NONE;
        while !r.is_empty() {
            // FEC-5: an id that is not known says nothing to us.
            if let Some(scheme) = Scheme::new(r.varint()?) {
                schemes = schemes.with(scheme);
            }
        }
        Ok(Self { window, max_sessions, max_symbol_size, schemes })
    }

    /// Writes the value of the parameter, at most [`MAX_SIZE`](Self::MAX_SIZE) bytes.
    ///
    /// # Panics
    /// When there is no room, or a number is above 2^62 - 1.
    pub fn encode(&self, w: &mut Writer<'_>) {
        self.emit(w);
    }

    pub(crate) fn emit(&self, out: &mut impl EncodeSink) {
        for n in [self.window, self.max_sessions, self.max_symbol_size] {
            out.varint(n);
        }
        for scheme in self.schemes.iter() {
            out.varint(scheme as u64);
        }
    }
}
