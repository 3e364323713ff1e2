use std::fmt;
use std::str::FromStr;

use quickset_wire::{Scheme, Schemes};

use super::adaptive::{Adaptive, Goal};
use super::block::BlockAtFence;
use super::custom::CustomPolicy;
use super::{ReliabilityPolicy, RepairCode};

/// Says how data is protected against loss: that of a stream, of the datagrams, or of all that have no
/// protection of their own (each of these is a *channel*).
///
/// It is written as a name with parameters behind colons, `rs:105/100:stride=4`, and reads back as the same
/// value. The text of [`Custom`](Self::Custom) is read by the crate that defines it.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Protection {
    /// `none`: resends only, and no policy at all.
    #[default]
    None,
    /// `adaptive`, or with its goal `adaptive:bulk`, `adaptive:screen`, `adaptive:messages`: as much repair
    /// as the measured losses ask for, none on a clean path. Without a goal the channel's deadlines and
    /// fences decide.
    Adaptive(Option<Goal>),
    /// `rs:105/100`, `rs:105/100:stride=4`: a Reed-Solomon block for each fence.
    ReedSolomon {
        /// How many symbols are sent for each `k0` source symbols, repair included: at least `k0`.
        n0: u32,
        /// How many source symbols that is for: at least 1.
        k0: u32,
        /// Into how many interleaved parts a block is cut, at least: 1 or more.
        stride: u16,
    },
    /// `ldpc:110/100`: an LDPC-Staircase block for each fence; for large blocks.
    Ldpc {
        /// How many symbols are sent for each `k0` source symbols, repair included: at least `k0`.
        n0: u32,
        /// How many source symbols that is for: at least 1.
        k0: u32,
    },
    /// `xor:10`: interleaved XOR of this depth for each fence. At least 1.
    Xor(u16),
    /// Another policy: of the crate `quickset-policies`, or of an application's own. Its text is what
    /// [`CustomPolicy::with_text`] was given.
    Custom(CustomPolicy),
}

impl Protection {
    /// Lists the forms that are read here, for error messages and help.
    pub const FORMS: &str = "none, adaptive[:bulk|screen|messages], rs:N/K[:stride=D], ldpc:N/K, xor:DEPTH";

    /// Makes the policy; `None` when nothing is to be protected.
    pub fn policy(&self) -> Option<Box<dyn ReliabilityPolicy>> {
        Some(match *self {
            Self::None => return None,
            Self::Adaptive(goal) => Box::new(Adaptive::new(goal)),
            Self::ReedSolomon { n0, k0, stride } => {
                Box::new(BlockAtFence::new(RepairCode::ReedSolomon { stride: stride.max(1) }, n0, k0))
            }
            Self::Ldpc { n0, k0 } => Box::new(BlockAtFence::new(RepairCode::Ldpc, n0, k0)),
            Self::Xor(depth) => Box::new(BlockAtFence::new(RepairCode::Xor { depth: depth.max(1) }, 1, 1)),
            Self::Custom(ref custom) => custom.policy(),
        })
    }

    /// Tells whether the packets of a message are to be of one size: equal symbols waste nothing of the
    /// repair symbols over them (FlEC §5.3).
    pub fn splits_evenly(&self) -> bool {
        match self {
            Self::Adaptive(Some(Goal::Messages)) => true,
            Self::Custom(custom) => custom.splits_evenly(),
            Self::None
            | Self::Adaptive(None | Some(Goal::Bulk | Goal::Screen))
            | Self::ReedSolomon { .. }
            | Self::Ldpc { .. }
            | Self::Xor(_) => false,
        }
    }

    /// What the peer must be able to decode.
    pub fn schemes(&self) -> Schemes {
        let none = Schemes::default();
        match self {
            Self::None => none,
            Self::Adaptive(None | Some(Goal::Screen)) => none.with(Scheme::ReedSolomon).with(Scheme::Rlc),
            Self::Adaptive(Some(Goal::Bulk | Goal::Messages)) => none.with(Scheme::Rlc),
            Self::ReedSolomon { .. } => none.with(Scheme::ReedSolomon),
            Self::Ldpc { .. } => none.with(Scheme::Ldpc),
            Self::Xor(_) => none.with(Scheme::Xor),
            Self::Custom(custom) => custom.schemes(),
        }
    }
}

impl fmt::Display for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => f.write_str("none"),
            Self::Adaptive(None) => f.write_str("adaptive"),
            Self::Adaptive(Some(goal)) => write!(f, "adaptive:{}", name_of(goal)),
            Self::ReedSolomon { n0, k0, stride: 1 } => write!(f, "rs:{n0}/{k0}"),
            Self::ReedSolomon { n0, k0, stride } => write!(f, "rs:{n0}/{k0}:stride={stride}"),
            Self::Ldpc { n0, k0 } => write!(f, "ldpc:{n0}/{k0}"),
            Self::Xor(depth) => write!(f, "xor:{depth}"),
            Self::Custom(ref custom) => f.write_str(custom.text().unwrap_or("custom")),
        }
    }
}

fn name_of(goal: Goal) -> &'static str {
    GOALS.iter().find(|(_, known)| *known == goal).map_or("", |(name, _)| name)
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
            ("rs", [ratio, rest @ ..]) => {
                let (n0, k0) = read_ratio(ratio)?;
                Self::ReedSolomon { n0, k0, stride: stride(rest)? }
            }
            ("ldpc", [ratio]) => {
                let (n0, k0) = read_ratio(ratio)?;
                Self::Ldpc { n0, k0 }
            }
            ("xor", [depth]) => Self::Xor(number(depth)?),
            _ if is_known(name) => return Err(wrong("it has too few or too many parameters")),
            _ => return Err(wrong("it is none of them")),
        };
        Ok(read)
    }
}

/// Why a text names no protection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}; write {forms}, like rs:105/100")]
pub struct ProtectionError {
    why: &'static str,
    forms: &'static str,
}

impl ProtectionError {
    /// Makes an error: `why` says what is wrong with the text, and `forms` lists what can be read instead.
    pub fn new(why: &'static str, forms: &'static str) -> Self {
        Self { why, forms }
    }

    /// The same of a reader that knows other forms, too.
    #[must_use]
    pub fn with_forms(self, forms: &'static str) -> Self {
        Self { forms, ..self }
    }
}

fn wrong(why: &'static str) -> ProtectionError {
    ProtectionError::new(why, Protection::FORMS)
}

/// A whole number above zero, without sign.
fn number<N: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<N, ProtectionError> {
    let plain = text.bytes().all(|b| b.is_ascii_digit());
    let read = text.parse::<N>().ok().filter(|n| plain && *n >= N::from(1));
    read.ok_or(wrong("a number of it is not whole, zero or too large"))
}

fn read_goal(text: &str) -> Result<Goal, ProtectionError> {
    let known = GOALS.iter().find(|(name, _)| *name == text);
    known.map(|(_, goal)| *goal).ok_or(wrong("its goal is none of them"))
}

/// n0 / k0.
fn read_ratio(text: &str) -> Result<(u32, u32), ProtectionError> {
    let (n0, k0) = text.split_once('/').ok_or(wrong("its redundancy is no N/K"))?;
    let (n0, k0) = (number(n0)?, number(k0)?);
    if n0 < k0 {
        return Err(wrong("its N is below its K"));
    }
    Ok((n0, k0))
}

fn stride(arguments: &[&str]) -> Result<u16, ProtectionError> {
    match arguments {
        [] => Ok(1),
        [text] => number(text.strip_prefix("stride=").ok_or(wrong("its stride is no stride=D"))?),
        _ => Err(wrong("it has too few or too many parameters")),
    }
}

const GOALS: [(&str, Goal); 3] =
    [("bulk", Goal::Bulk), ("screen", Goal::Screen), ("messages", Goal::Messages)];

/// Whether a name is in the list of forms.
fn is_known(name: &str) -> bool {
    Protection::FORMS.split(", ").any(|form| form.split(['[', ':']).next() == Some(name))
}
