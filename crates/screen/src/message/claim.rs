//! What a client shows in HELLO: a secret that it knows, and which of several things it means.

use core::fmt;

use super::fields::{FieldReader, PutFields};
use super::{MessageFault, SHOWN};

/// Which of several things a client means, as far as it says; each is empty where it does not. What is longer
/// than 64 bytes is cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HelloChoice {
    /// The token that it proves to know: its first group.
    pub token: String,
    /// The desktop that it wants to see.
    pub desktop: String,
    /// What a browser calls itself, which nobody else knows. It is in no log.
    pub device: DeviceTag,
}

/// What a browser calls itself: some random text that it keeps. It is in no log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct DeviceTag(pub String);

impl fmt::Debug for DeviceTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceTag(..)")
    }
}

/// What kind of secret a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretKind {
    /// One that people chose.
    Password,
    /// One for the first use.
    Token,
}

/// What a client knows besides its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientOffer {
    /// A secret that is proved, on connections between gateways (DT-53).
    Share {
        /// Of what kind it is.
        of: SecretKind,
        /// The client's share of the exchange.
        share: [u8; 33],
    },
    /// A token that is shown as it is, on connections of pages (WB-15).
    Token(ShownToken),
}

/// A token that a page shows. It is in no log.
#[derive(Clone, PartialEq, Eq)]
pub struct ShownToken(String);

impl ShownToken {
    /// What a page was given.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// To be compared, and not logged.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ShownToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ShownToken(..)")
    }
}

impl HelloChoice {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        let Self { token, desktop, device } = self;
        for text in [token, desktop, &device.0] {
            out.put_text(text, MAX_WHICH);
        }
    }

    pub(super) fn read(f: &mut FieldReader<'_>) -> Result<Self, MessageFault> {
        Ok(Self {
            token: f.text(MAX_WHICH)?,
            desktop: f.text(MAX_WHICH)?,
            device: DeviceTag(f.text(MAX_WHICH)?),
        })
    }
}

impl ClientOffer {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Share { of, share } => {
                out.put_u8(SPAKE2);
                out.put_u8(secret_code(*of));
                out.put(share);
            }
            Self::Token(token) => {
                out.put_u8(SHOWN);
                out.put_u8(secret_code(SecretKind::Token));
                out.put_text(token.reveal(), MAX_TOKEN);
            }
        }
    }

    pub(super) fn read(f: &mut FieldReader<'_>) -> Result<Self, MessageFault> {
        let exchange = f.u8()?;
        // DT-54.
        if !matches!(exchange, SPAKE2 | SHOWN) {
            return Err(MessageFault::Exchange(exchange));
        }
        let of = match f.u8()? {
            1 => SecretKind::Password,
            2 => SecretKind::Token,
            other => return Err(MessageFault::Value { what: "the kind of a secret", value: other.into() }),
        };
        match (exchange, of) {
            (SPAKE2, of) => Ok(Self::Share { of, share: f.array()? }),
            (_, SecretKind::Token) => Ok(Self::Token(ShownToken::new(f.text(MAX_TOKEN)?))),
            (other, SecretKind::Password) => Err(MessageFault::Exchange(other)),
        }
    }
}

fn secret_code(of: SecretKind) -> u8 {
    match of {
        SecretKind::Password => 1,
        SecretKind::Token => 2,
    }
}

/// The longest text of a choice, in bytes.
const MAX_WHICH: usize = 64;
/// By what an offer is proved.
const SPAKE2: u8 = 1;
/// The longest token, in bytes.
const MAX_TOKEN: usize = 256;
