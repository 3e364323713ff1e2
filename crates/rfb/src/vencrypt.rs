use core::fmt;

use bytes::{BufMut as _, BytesMut};
use quickset_base::number::Unsigned as _;

use crate::SecurityType;

/// Whether a client encrypts by VeNCrypt, which is TLS inside RFB. Only what has certificates (X509) is ever
/// chosen; to check them is for whoever does the TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VencryptWish {
    /// Never: whoever drives the client has no TLS.
    #[default]
    Never,
    /// Only when the server offers nothing else that we can do: on a connection inside of one machine.
    Last,
    /// Whenever the server offers it.
    First,
    /// A server that does not offer it is refused.
    Only,
}

/// A sub-type of VeNCrypt, by number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct VencryptType(pub u32);

impl VencryptType {
    /// TLS with a certificate, and no more.
    pub const X509_NONE: Self = Self(260);
    /// TLS with a certificate, and VncAuth inside.
    pub const X509_VNC: Self = Self(261);
    /// TLS with a certificate, and inside a user's name and password.
    pub const X509_PLAIN: Self = Self(262);

    /// TLS without certificates, by an anonymous key exchange: it keeps out who listens, and nobody who is in
    /// between.
    pub fn is_anonymous(self) -> bool {
        matches!(self.0, 257..=259 | 263 | 266)
    }
}

impl fmt::Display for VencryptType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = self.0.checked_sub(FIRST).and_then(|i| NAMES.get(usize::try_from(i).ok()?));
        match (named, u8::try_from(self.0)) {
            (Some(name), _) => f.write_str(name),
            // The other security types may be sub-types, too.
            (None, Ok(n)) => SecurityType::from(n).fmt(f),
            (None, Err(_)) => write!(f, "sub-type {}", self.0),
        }
    }
}

impl fmt::Debug for VencryptType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Sub-types from [`FIRST`] on; rfbproto, VeNCrypt.
const NAMES: [&str; 12] = [
    "Plain",
    "TLSNone",
    "TLSVnc",
    "TLSPlain",
    "X509None",
    "X509Vnc",
    "X509Plain",
    "TLSSASL",
    "X509SASL",
    "Ident",
    "TLSIdent",
    "X509Ident",
];
const FIRST: u32 = 256;

/// A user's name and password, for what VeNCrypt calls Plain. They are sent as they are, and so only inside
/// TLS.
#[derive(Clone, PartialEq, Eq)]
pub struct PlainLogin {
    user: String,
    password: String,
}

impl PlainLogin {
    /// Of this user, with this password.
    pub fn new(user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: password.into() }
    }

    /// Both lengths, and both.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        for text in [&self.user, &self.password] {
            out.put_u32(text.len().saturated());
        }
        out.put_slice(self.user.as_bytes());
        out.put_slice(self.password.as_bytes());
    }
}

/// Secret.
impl fmt::Debug for PlainLogin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PlainLogin(..)")
    }
}
