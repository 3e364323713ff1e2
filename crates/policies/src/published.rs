use std::fmt;
use std::str::FromStr;

use quickset_base::Duration;
use quickset_quic::policy::{CustomPolicy, ReliabilityPolicy, Scheme, Schemes};
use quickset_quic::{Protection, ProtectionError};

use crate::buffer::BufferLimited;
use crate::bulk::Bulk;
use crate::causal::Causal;
use crate::fixed::FixedRate;
use crate::grid::Grid;
use crate::messages::MessagePolicy;
use crate::repeat::SelectiveRepeat;
use crate::tum::{TumBulk, TumIncremental};

/// A policy of a paper, with its parameters.
///
/// As text a name, and its parameters behind colons: `tum:3:80ms`. What is written reads back as the same
/// value, and a [`Protection`] made of it has the same text.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum PublishedPolicy {
    /// `sr`: selective repeat, as a policy that never answers.
    SelectiveRepeat,
    /// `fixed:10`: a repair symbol after each 10 source symbols. At least 1.
    Fixed(u32),
    /// `ac-rlnc`, `ac-rlnc:2`: AC-RLNC with its c, by default 1, finite and not negative.
    AcRlnc(f64),
    /// `bulk`: the last flight of a transfer (FlEC).
    Bulk,
    /// `buffer`, `buffer:2`: transfers held back by a small receive window (FlEC, algorithm 2) and the c of
    /// its delay sensitivity, by default 1, finite and not negative.
    Buffer(f64),
    /// `messages`, `messages:25ms`: deadlines (FlEC, algorithm 4), and its ε; by default max(5 ms, 4·rttvar),
    /// and symbols of three quarters of a packet where repair is over few.
    Messages(Option<Duration>),
    /// `xor2d:20x40`: rows and columns of XOR, until the grid is full or a fence comes. Both at least 1.
    Xor2d {
        /// Rows.
        rows: u16,
        /// Columns.
        columns: u16,
    },
    /// `tum:3`: so many repair symbols at each flush and end (burst loss tolerance).
    TumBulk(u32),
    /// `tum:3:80ms`: so many repair symbols (burst loss tolerance) so long after the first unprotected one
    /// (repair delay tolerance).
    TumIncremental(u32, Duration),
}

impl PublishedPolicy {
    /// What there is, as text: for messages and help.
    pub const FORMS: &str = "sr, fixed:N, ac-rlnc[:C], bulk, buffer[:C], messages[:TIME], \
         xor2d:ROWSxCOLUMNS, tum:B[:TIME]";

    /// The one that a protection was made of, by its text.
    pub fn of(protection: &Protection) -> Option<Self> {
        let Protection::Custom(custom) = protection else { return None };
        custom.text()?.parse().ok()
    }

    /// The policy of a channel, at its start.
    pub fn policy(self) -> Box<dyn ReliabilityPolicy> {
        match self {
            Self::SelectiveRepeat => Box::new(SelectiveRepeat),
            Self::Fixed(interval) => Box::new(FixedRate::new(interval)),
            Self::AcRlnc(eagerness) => Box::new(Causal::new(eagerness)),
            Self::Bulk => Box::new(Bulk::default()),
            Self::Buffer(eagerness) => Box::new(BufferLimited::new(eagerness)),
            Self::Messages(margin) => Box::new(MessagePolicy::new(margin)),
            Self::Xor2d { rows, columns } => Box::new(Grid::new(rows, columns)),
            Self::TumBulk(burst) => Box::new(TumBulk::new(burst)),
            Self::TumIncremental(burst, delay) => Box::new(TumIncremental::new(burst, delay)),
        }
    }

    fn schemes(self) -> Schemes {
        let none = Schemes::default();
        match self {
            Self::SelectiveRepeat => none,
            Self::Xor2d { .. } => none.with(Scheme::Grid),
            Self::Fixed(_)
            | Self::AcRlnc(_)
            | Self::Bulk
            | Self::Buffer(_)
            | Self::Messages(_)
            | Self::TumBulk(_)
            | Self::TumIncremental(..) => none.with(Scheme::Rlc),
        }
    }

    /// Whether a text begins with the name of one, whatever follows.
    pub(crate) fn is_named_by(text: &str) -> bool {
        let name = text.split(':').next();
        Self::FORMS.split(", ").any(|form| form.split(['[', ':']).next() == name)
    }
}

impl From<PublishedPolicy> for Protection {
    fn from(published: PublishedPolicy) -> Self {
        // Equal symbols waste nothing of the repair symbols over them (FlEC §5.3).
        let even = matches!(published, PublishedPolicy::Messages(_));
        let custom = CustomPolicy::new(published.schemes(), move || published.policy());
        Self::Custom(custom.with_text(published.to_string()).with_even_messages(even))
    }
}

impl fmt::Display for PublishedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::SelectiveRepeat => f.write_str("sr"),
            Self::Fixed(interval) => write!(f, "fixed:{interval}"),
            Self::AcRlnc(eagerness) => with_eagerness(f, "ac-rlnc", eagerness),
            Self::Bulk => f.write_str("bulk"),
            Self::Buffer(eagerness) => with_eagerness(f, "buffer", eagerness),
            Self::Messages(None) => f.write_str("messages"),
            Self::Messages(Some(margin)) => write!(f, "messages:{}", span_text(margin)),
            Self::Xor2d { rows, columns } => write!(f, "xor2d:{rows}x{columns}"),
            Self::TumBulk(burst) => write!(f, "tum:{burst}"),
            Self::TumIncremental(burst, delay) => write!(f, "tum:{burst}:{}", span_text(delay)),
        }
    }
}

/// The c of a policy, unless it is 1.
fn with_eagerness(f: &mut fmt::Formatter<'_>, name: &str, eagerness: f64) -> fmt::Result {
    f.write_str(name)?;
    if eagerness.to_bits() == 1f64.to_bits() { Ok(()) } else { write!(f, ":{eagerness}") }
}

/// A duration in the largest unit in which it is whole.
fn span_text(span: Duration) -> String {
    let ns = span.as_nanos();
    let (unit, size) = UNITS.into_iter().find(|(_, size)| ns % size == 0).unwrap_or(UNITS[3]);
    format!("{}{unit}", ns / size)
}

impl FromStr for PublishedPolicy {
    type Err = ProtectionError;

    fn from_str(text: &str) -> Result<Self, ProtectionError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or("");
        let arguments: Vec<&str> = parts.collect();
        let read = match (name, arguments.as_slice()) {
            ("sr", []) => Self::SelectiveRepeat,
            ("fixed", [interval]) => Self::Fixed(number(interval)?),
            ("ac-rlnc", rest @ ([] | [_])) => Self::AcRlnc(eagerness(rest)?),
            ("bulk", []) => Self::Bulk,
            ("buffer", rest @ ([] | [_])) => Self::Buffer(eagerness(rest)?),
            ("messages", []) => Self::Messages(None),
            ("messages", [margin]) => Self::Messages(Some(span(margin)?)),
            ("xor2d", [grid]) => {
                let (rows, columns) = grid.split_once('x').ok_or(wrong("its grid is no ROWSxCOLUMNS"))?;
                Self::Xor2d { rows: number(rows)?, columns: number(columns)? }
            }
            ("tum", [burst]) => Self::TumBulk(number(burst)?),
            ("tum", [burst, delay]) => Self::TumIncremental(number(burst)?, span(delay)?),
            _ if Self::is_named_by(name) => return Err(wrong("it has too few or too many parameters")),
            _ => return Err(wrong("it is none of them")),
        };
        Ok(read)
    }
}

fn wrong(why: &'static str) -> ProtectionError {
    ProtectionError::new(why, PublishedPolicy::FORMS)
}

/// A whole number above zero, without sign.
fn number<N: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, ProtectionError> {
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    let read = text.parse::<N>().ok().filter(|n| plain && *n >= N::from(1));
    read.ok_or(wrong("a number of it is not whole, zero or too large"))
}

fn eagerness(arguments: &[&str]) -> Result<f64, ProtectionError> {
    let [text] = arguments else { return Ok(1.0) };
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let read = text.parse::<f64>().ok().filter(|c| plain && c.is_finite());
    read.ok_or(wrong("its c is no decimal number of at least 0"))
}

/// A whole number with a unit.
fn span(text: &str) -> Result<Duration, ProtectionError> {
    let no_span = wrong("its time is no whole number with s, ms, us or ns");
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, size) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or(no_span)?;
    let ns = number.parse::<u64>().ok().and_then(|n| n.checked_mul(u64::try_from(size).ok()?));
    ns.map(Duration::from_nanos).ok_or(no_span)
}

/// Units of time in nanoseconds, falling.
const UNITS: [(&str, u128); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
