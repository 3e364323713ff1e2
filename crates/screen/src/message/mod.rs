//! What the two gateways say to each other, apart from the screen: control and input messages.
//!
//! *In:* records of the control and the input stream ([`RecordInbox`]). *Out:* messages, and records for them
//! ([`StreamMessage::records`]). Invariants: what is held of a message in parts is bounded; kinds that are
//! not known are passed over; no length off the wire is allocated before as many bytes are there. Source:
//! `spec/desktop.md` §4.

mod claim;
mod control;
mod copy;
mod fields;
mod input;
mod parts;
mod stream;
mod terms;
#[cfg(test)]
mod tests;
mod visit;

pub use claim::{ClientOffer, DeviceTag, HelloChoice, SecretKind, ShownToken};
pub use control::{FromClient, FromServer, Hello, Refresh, ScreenLayout, ScreenMark, Welcome};
pub use copy::InputCopy;
pub(crate) use fields::FieldReader;
#[cfg(any(test, feature = "encode"))]
pub(crate) use fields::PutFields;
pub use input::{ClipboardMessage, HeldKey, PersonInput};
pub use parts::{RecordInbox, StreamMessage};
pub use stream::{RecordSplitter, stream_bytes};
pub use terms::{ParseOrderError, Permissions, ScreenOrder};
pub use visit::{VisitCount, VisitId};

/// What is wrong with bytes of the peer. The connection is closed with [`code::PROTOCOL`], apart from the two
/// cases that have codes of their own: [`MessageFault::code`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MessageFault {
    /// A message ends before its last field.
    #[error("{0} ends too early")]
    Short(&'static str),
    /// A field has a value that it must not have.
    #[error("{what} is {value}")]
    Value {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A text is not UTF-8.
    #[error("a text is not UTF-8")]
    Text,
    /// A record or a message in parts is too long.
    #[error("{0} bytes are too long")]
    Long(usize),
    /// Parts of a message in the wrong place.
    #[error("{0}")]
    Parts(&'static str),
    /// A version that is not spoken here.
    #[error("version {0} is not spoken here, only version 1")]
    Version(u64),
    /// A way to prove a secret that is not spoken here.
    #[error(
        "passwords and tokens are proved in a way ({0}) that is not known here; between gateways it is SPAKE2 (1)"
    )]
    Exchange(u8),
    /// A screen larger than is wanted here.
    #[error("a screen of {width}x{height} is larger than is allowed here")]
    TooLarge {
        /// Columns.
        width: u64,
        /// Rows.
        height: u64,
    },
    /// Something about a screen message.
    #[error("item {item}: {what}")]
    Item {
        /// The number of the item.
        item: u64,
        /// What is wrong with it.
        what: &'static str,
    },
}

impl MessageFault {
    /// The code to close the connection with.
    pub fn code(&self) -> u64 {
        match self {
            // DT-43.
            Self::Version(_) | Self::Exchange(_) => code::VERSION,
            // DT-20.
            Self::TooLarge { .. } => code::TOO_LARGE,
            // DT-6.
            _ => code::PROTOCOL,
        }
    }
}

/// Codes with which a connection is closed or a stream reset; `spec/desktop.md` §11.
pub mod code {
    /// The session is over.
    pub const DONE: u64 = 0;
    /// A message cannot be read.
    pub const PROTOCOL: u64 = 1;
    /// A version is not spoken here.
    pub const VERSION: u64 = 2;
    /// The client may not come in.
    pub const DENIED: u64 = 3;
    /// The screen is too large.
    pub const TOO_LARGE: u64 = 4;
    /// The VNC server has closed, or cannot be reached.
    pub const GONE: u64 = 5;
    /// No more viewers.
    pub const BUSY: u64 = 6;
    /// A fault of the sender.
    pub const INTERNAL: u64 = 7;
    /// A new screen stream takes the place of this one.
    pub const RESTART: u64 = 8;
    /// DT-50: the client may not come in now.
    pub const LATER: u64 = 9;
}

/// The application protocol, as TLS negotiates it.
pub const ALPN: &str = "quickset-desktop/1";
/// Of the features in HELLO: the client takes the clipboard on a stream of its own (DT-46).
pub const CLIPBOARD: u64 = 1;
/// Of the features in HELLO: the client takes pixels in adaptive codes (DT-77).
pub const ADAPTIVE: u64 = 32;
/// Of the features in HELLO: the client takes pixels of a part of a cell in the order latest (DT-85).
pub const PATCHES: u64 = 128;
/// Of the features in HELLO: the client takes JPEG with colours at full resolution (DT-82).
pub const FULL_COLOUR: u64 = 64;
/// Of the exchanges in HELLO: a token that is shown as it is, on sessions of pages (WB-15).
pub const SHOWN: u8 = 2;
/// The version in HELLO and WELCOME.
pub const VERSION: u64 = 1;
/// DT-12: the longest text, in bytes.
pub const MAX_TEXT: usize = 1 << 20;
/// DT-12: the longest name, in bytes.
pub const MAX_NAME: usize = 4096;
