use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use quickset_base::Duration;
use quickset_wire::{Scheme, Schemes};

use super::adaptive::{Adaptive, Goal};
use super::block::BlockAtFence;
use super::buffer::BufferLimited;
use super::bulk::Bulk;
use super::causal::Causal;
use super::fixed::FixedRate;
use super::grid::Grid;
use super::messages::MessagePolicy;
use super::repeat::SelectiveRepeat;
use super::tum::{TumBulk, TumIncremental};
use super::{ReliabilityPolicy, RepairCode};

/// How a channel is protected against loss.
///
/// As text a name, and its parameters behind colons: `rs:105/100:stride=4`. What is written reads back as the
/// same value, but for [`CustomPolicy`](Self::Custom).
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Protection {
    /// `none`: resends only, and no policy at all.
    #[default]
    None,
    /// `adaptive`, or with its goal `adaptive:bulk`, `adaptive:screen`, `adaptive:messages`: as much repair
    /// as the measured losses ask for, none on a clean path. Without a goal the channel's deadlines and
    /// fences decide.
    Adaptive(Option<Goal>),
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
    /// `rs:105/100`, `rs:105/100:stride=4`: a Reed-Solomon block for each fence.
    ReedSolomon {
        /// Symbols with repair for each `k0`: at least that.
        n0: u32,
        /// Source symbols: at least 1.
        k0: u32,
        /// Parts into which a block is interleaved at least: 1 or more.
        stride: u16,
    },
    /// `ldpc:110/100`: an LDPC-Staircase block for each fence; for large blocks.
    Ldpc {
        /// Symbols with repair for each `k0`: at least that.
        n0: u32,
        /// Source symbols: at least 1.
        k0: u32,
    },
    /// `xor:10`: interleaved XOR of this depth for each fence. At least 1.
    Xor(u16),
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
    /// A policy of the application's own. As text `custom`, which does not read back.
    Custom(CustomPolicy),
}

impl Protection {
    /// What there is, as text: for messages and help.
    pub const FORMS: &str = "none, adaptive[:bulk|screen|messages], sr, fixed:N, ac-rlnc[:C], bulk, buffer[:C], \
         messages[:TIME], rs:N/K[:stride=D], ldpc:N/K, xor:DEPTH, xor2d:ROWSxCOLUMNS or tum:B[:TIME]";

    /// The policy, at its start; `None` when nothing is to be protected.
    pub fn policy(&self) -> Option<Box<dyn ReliabilityPolicy>> {
        Some(match *self {
            Self::None => return None,
            Self::Adaptive(goal) => Box::new(Adaptive::new(goal)),
            Self::SelectiveRepeat => Box::new(SelectiveRepeat),
            Self::Fixed(interval) => Box::new(FixedRate::new(interval)),
            Self::AcRlnc(eagerness) => Box::new(Causal::new(eagerness)),
            Self::Bulk => Box::new(Bulk::default()),
            Self::Buffer(eagerness) => Box::new(BufferLimited::new(eagerness)),
            Self::Messages(margin) => Box::new(MessagePolicy::new(margin)),
            Self::ReedSolomon { n0, k0, stride } => {
                Box::new(BlockAtFence::new(RepairCode::ReedSolomon { stride: stride.max(1) }, n0, k0))
            }
            Self::Ldpc { n0, k0 } => Box::new(BlockAtFence::new(RepairCode::Ldpc, n0, k0)),
            Self::Xor(depth) => Box::new(BlockAtFence::new(RepairCode::Xor { depth: depth.max(1) }, 1, 1)),
            Self::Xor2d { rows, columns } => Box::new(Grid::new(rows, columns)),
            Self::TumBulk(burst) => Box::new(TumBulk::new(burst)),
            Self::TumIncremental(burst, delay) => Box::new(TumIncremental::new(burst, delay)),
            Self::Custom(ref custom) => custom.policy(),
        })
    }

    /// Whether the packets of a message are to be of one size: equal symbols waste nothing of the repair
    /// symbols over them (FlEC §5.3).
    pub fn splits_evenly(&self) -> bool {
        matches!(self, Self::Messages(_) | Self::Adaptive(Some(Goal::Messages)))
    }

    /// What the peer must be able to decode.
    pub fn schemes(&self) -> Schemes {
        let none = Schemes::default();
        match self {
            Self::None | Self::SelectiveRepeat => none,
            Self::Adaptive(None | Some(Goal::Screen)) => none.with(Scheme::ReedSolomon).with(Scheme::Rlc),
            Self::Adaptive(Some(Goal::Bulk | Goal::Messages))
            | Self::Fixed(_)
            | Self::AcRlnc(_)
            | Self::Bulk
            | Self::Buffer(_)
            | Self::Messages(_)
            | Self::TumBulk(_)
            | Self::TumIncremental(..) => none.with(Scheme::Rlc),
            Self::ReedSolomon { .. } => none.with(Scheme::ReedSolomon),
            Self::Ldpc { .. } => none.with(Scheme::Ldpc),
            Self::Xor(_) => none.with(Scheme::Xor),
            Self::Xor2d { .. } => none.with(Scheme::Grid),
            Self::Custom(custom) => custom.schemes,
        }
    }
}

/// A policy of the application's own.
///
/// ```
/// use quickset_quic::policy::*;
///
/// /// Two repair symbols over the window behind each boundary, on paths that lose anything at all.
/// #[derive(Debug, Default)]
/// struct Twice {
///     answered: u64,
/// }
///
/// impl ReliabilityPolicy for Twice {
///     fn protect(&mut self, view: &CodingView<'_>, _: Carried) -> Option<LaneConfig> {
///         (view.loss.rate > 0.0).then_some(LaneConfig { index: 0, code: RepairCode::Rlc, share: LaneConfig::WHOLE })
///     }
///
///     fn fec_pattern(&mut self, view: &CodingView<'_>) -> Pattern {
///         let new = view.demand.boundaries != self.answered && view.lanes[0].unprotected > 0;
///         self.answered = view.demand.boundaries;
///         if new { Pattern::Repair { lane: 0, n: 2 } } else { Pattern::No }
///     }
///
///     fn delay_sensitivity(&self, view: &CodingView<'_>) -> f64 {
///         -view.loss.rate
///     }
/// }
///
/// let schemes = Schemes::default().with(Scheme::Rlc);
/// let protection = Protection::Custom(CustomPolicy::new(schemes, || Box::new(Twice::default())));
/// assert!(protection.policy().is_some());
/// ```
#[derive(Clone)]
pub struct CustomPolicy {
    schemes: Schemes,
    make: Arc<MakePolicy>,
}

type MakePolicy = dyn Fn() -> Box<dyn ReliabilityPolicy> + Send + Sync;

impl CustomPolicy {
    /// `make` builds the policy of one channel; its lanes use no other codes than those of `schemes`.
    pub fn new(
        schemes: Schemes,
        make: impl Fn() -> Box<dyn ReliabilityPolicy> + Send + Sync + 'static,
    ) -> Self {
        Self { schemes, make: Arc::new(make) }
    }

    fn policy(&self) -> Box<dyn ReliabilityPolicy> {
        (self.make)()
    }
}

/// Clones of one are equal.
impl PartialEq for CustomPolicy {
    fn eq(&self, other: &Self) -> bool {
        self.schemes == other.schemes && Arc::ptr_eq(&self.make, &other.make)
    }
}

impl fmt::Debug for CustomPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Custom({:p})", Arc::as_ptr(&self.make).cast::<()>())
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => f.write_str("none"),
            Self::Adaptive(None) => f.write_str("adaptive"),
            Self::Adaptive(Some(goal)) => write!(f, "adaptive:{}", name_of(goal)),
            Self::SelectiveRepeat => f.write_str("sr"),
            Self::Fixed(interval) => write!(f, "fixed:{interval}"),
            Self::AcRlnc(eagerness) => with_eagerness(f, "ac-rlnc", eagerness),
            Self::Bulk => f.write_str("bulk"),
            Self::Buffer(eagerness) => with_eagerness(f, "buffer", eagerness),
            Self::Messages(None) => f.write_str("messages"),
            Self::Messages(Some(margin)) => write!(f, "messages:{}", span_text(margin)),
            Self::ReedSolomon { n0, k0, stride: 1 } => write!(f, "rs:{n0}/{k0}"),
            Self::ReedSolomon { n0, k0, stride } => write!(f, "rs:{n0}/{k0}:stride={stride}"),
            Self::Ldpc { n0, k0 } => write!(f, "ldpc:{n0}/{k0}"),
            Self::Xor(depth) => write!(f, "xor:{depth}"),
            Self::Xor2d { rows, columns } => write!(f, "xor2d:{rows}x{columns}"),
            Self::TumBulk(burst) => write!(f, "tum:{burst}"),
            Self::TumIncremental(burst, delay) => write!(f, "tum:{burst}:{}", span_text(delay)),
            Self::Custom(_) => f.write_str("custom"),
        }
    }
}

fn name_of(goal: Goal) -> &'static str {
    GOALS.iter().find(|(_, known)| *known == goal).map_or("", |(name, _)| name)
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

impl FromStr for Protection {
    type Err = ProtectionError;

    fn from_str(text: &str) -> Result<Self, ProtectionError> {
        let mut parts = text.split(':');
        let name = parts.next().unwrap_or("");
        let arguments: Vec<&str> = parts.collect();
        let read = match (name, arguments.as_slice()) {
            ("none", []) => Self::None,
            ("adaptive", []) => Self::Adaptive(None),
            ("adaptive", [goal]) => Self::Adaptive(Some(read_goal(goal)?)),
            ("sr", []) => Self::SelectiveRepeat,
            ("fixed", [interval]) => Self::Fixed(number(interval)?),
            ("ac-rlnc", rest @ ([] | [_])) => Self::AcRlnc(eagerness(rest)?),
            ("bulk", []) => Self::Bulk,
            ("buffer", rest @ ([] | [_])) => Self::Buffer(eagerness(rest)?),
            ("messages", []) => Self::Messages(None),
            ("messages", [margin]) => Self::Messages(Some(span(margin)?)),
            ("rs", [ratio, rest @ ..]) => {
                let (n0, k0) = read_ratio(ratio)?;
                Self::ReedSolomon { n0, k0, stride: stride(rest)? }
            }
            ("ldpc", [ratio]) => {
                let (n0, k0) = read_ratio(ratio)?;
                Self::Ldpc { n0, k0 }
            }
            ("xor", [depth]) => Self::Xor(number(depth)?),
            ("xor2d", [grid]) => {
                let (rows, columns) = grid.split_once('x').ok_or(NO_GRID)?;
                Self::Xor2d { rows: number(rows)?, columns: number(columns)? }
            }
            ("tum", [burst]) => Self::TumBulk(number(burst)?),
            ("tum", [burst, delay]) => Self::TumIncremental(number(burst)?, span(delay)?),
            _ if is_known(name) => {
                return Err(ProtectionError("it has too few or too many parameters"));
            }
            _ => return Err(ProtectionError("it is none of them")),
        };
        Ok(read)
    }
}

/// Why a text names no protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}; write {forms}, like rs:105/100 or tum:3:80ms", forms = Protection::FORMS)]
pub struct ProtectionError(&'static str);

/// A whole number above zero, without sign.
fn number<N: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, ProtectionError> {
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    let read = text.parse::<N>().ok().filter(|n| plain && *n >= N::from(1));
    read.ok_or(ProtectionError("a number of it is not whole, zero or too large"))
}

fn eagerness(arguments: &[&str]) -> Result<f64, ProtectionError> {
    let [text] = arguments else { return Ok(1.0) };
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let read = text.parse::<f64>().ok().filter(|c| plain && c.is_finite());
    read.ok_or(ProtectionError("its c is no decimal number of at least 0"))
}

fn read_goal(text: &str) -> Result<Goal, ProtectionError> {
    let known = GOALS.iter().find(|(name, _)| *name == text);
    known.map(|(_, goal)| *goal).ok_or(ProtectionError("its goal is none of them"))
}

/// n0 / k0.
fn read_ratio(text: &str) -> Result<(u32, u32), ProtectionError> {
    let (n0, k0) = text.split_once('/').ok_or(ProtectionError("its redundancy is no N/K"))?;
    let (n0, k0) = (number(n0)?, number(k0)?);
    if n0 < k0 {
        return Err(ProtectionError("its N is below its K"));
    }
    Ok((n0, k0))
}

fn stride(arguments: &[&str]) -> Result<u16, ProtectionError> {
    match arguments {
        [] => Ok(1),
        [text] => number(text.strip_prefix("stride=").ok_or(ProtectionError("its stride is no stride=D"))?),
        _ => Err(ProtectionError("it has too few or too many parameters")),
    }
}

/// A whole number with a unit.
fn span(text: &str) -> Result<Duration, ProtectionError> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (_, size) = UNITS.into_iter().find(|(name, _)| *name == unit).ok_or(NO_SPAN)?;
    let ns = number.parse::<u64>().ok().and_then(|n| n.checked_mul(u64::try_from(size).ok()?));
    ns.map(Duration::from_nanos).ok_or(NO_SPAN)
}

const GOALS: [(&str, Goal); 3] =
    [("bulk", Goal::Bulk), ("screen", Goal::Screen), ("messages", Goal::Messages)];

/// Whether a name is in the list of forms.
fn is_known(name: &str) -> bool {
    let forms = Protection::FORMS.split([' ', ',']);
    forms.filter(|form| *form != "or").any(|form| form.split(['[', ':']).next() == Some(name))
        && !name.is_empty()
}

/// Units of time in nanoseconds, falling.
const UNITS: [(&str, u128); 4] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];

const NO_SPAN: ProtectionError = ProtectionError("its time is no whole number with s, ms, us or ns");
const NO_GRID: ProtectionError = ProtectionError("its grid is no ROWSxCOLUMNS");
