//! What a server says in WELCOME of how a client sees the desktop.

use core::fmt;
use core::str::FromStr;

use super::MessageFault;

/// How much reordering the screen is to bear; `spec/desktop.md` §7.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScreenOrder {
    /// None: each message waits for all before it.
    Ordered,
    /// Within an update messages overtake each other where it makes no difference.
    #[default]
    Fenced,
    /// The newest pixels win, whatever came before them; lost messages are not sent again.
    Latest,
}

/// What the server allows; it enforces that itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permissions {
    /// Keys and pointer.
    pub input: bool,
    /// The clipboard, both ways.
    pub clipboard: bool,
    /// Wishes about the size.
    pub wish: bool,
}

impl ScreenOrder {
    pub(super) fn decode(n: u8) -> Result<Self, MessageFault> {
        match n {
            0 => Ok(Self::Ordered),
            1 => Ok(Self::Fenced),
            2 => Ok(Self::Latest),
            n => Err(MessageFault::Value { what: "the order", value: n.into() }),
        }
    }
}

/// As on the command line.
impl fmt::Display for ScreenOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ordered => "ordered",
            Self::Fenced => "fenced",
            Self::Latest => "latest",
        })
    }
}

/// What was given is not an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the order is one of ordered, fenced and latest")]
pub struct ParseOrderError;

impl FromStr for ScreenOrder {
    type Err = ParseOrderError;

    fn from_str(text: &str) -> Result<Self, ParseOrderError> {
        [Self::Ordered, Self::Fenced, Self::Latest]
            .into_iter()
            .find(|order| order.to_string() == text)
            .ok_or(ParseOrderError)
    }
}

impl Permissions {
    /// Everything.
    pub const ALL: Self = Self { input: true, clipboard: true, wish: true };

    pub(super) fn bits(self) -> u8 {
        u8::from(self.input) | u8::from(self.clipboard) << 1 | u8::from(self.wish) << 2
    }

    /// DT-43: bits that are not known are ignored.
    pub(super) fn decode(bits: u8) -> Self {
        Self { input: bits & 1 != 0, clipboard: bits & 2 != 0, wish: bits & 4 != 0 }
    }
}
