use crate::{Rect, SecurityType, VencryptType};

/// What the other side did wrong, or refused. The connection is of no further use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The first twelve bytes are no RFB version, or one before 3.3.
    #[error("the other side does not speak RFB 3.3 or later; it began with \"{}\"", .0.escape_ascii())]
    NotRfb([u8; 12]),
    /// The server does not want us, and says why.
    #[error("the server refused the connection: {0}")]
    Refused(String),
    /// The viewer was refused by [`Security::Refuse`](crate::Security::Refuse), and told why.
    #[error("the viewer was refused: {0}")]
    TurnedAway(String),
    /// Wrong password, or the like; with the server's reason, if it gives one.
    #[error("authentication failed: {0}")]
    Authentication(String),
    /// The server offers nothing that we can do with or without a password.
    #[error("no usable way to authenticate: the server offers {}; {}", list(.offered), if *.password {
        "there is a password for VNC authentication"
    } else {
        "there is no password"
    })]
    NoSecurity {
        /// What the server offers.
        offered: Vec<SecurityType>,
        /// We have a password.
        password: bool,
    },
    /// TLS is a must, and the server does not offer it.
    #[error("the server does not offer VeNCrypt, which is TLS, but {}", list(.offered))]
    NoVencrypt {
        /// What the server offers.
        offered: Vec<SecurityType>,
    },
    /// The server speaks a version of VeNCrypt before 0.2.
    #[error("the server speaks version {0}.{1} of VeNCrypt, and we 0.2")]
    VencryptVersion(u8, u8),
    /// The server does not take version 0.2 of VeNCrypt, which it has named, or does not begin TLS, which it
    /// has offered.
    #[error("the server does not go on with VeNCrypt, which it has offered: its TLS may not be set up")]
    VencryptRefused,
    /// VeNCrypt has no sub-type with a certificate that we can do with or without a password.
    #[error("no usable way to authenticate by VeNCrypt: the server offers {}", list(.offered))]
    NoVencryptType {
        /// What the server offers there.
        offered: Vec<VencryptType>,
        /// What we can do and may without VeNCrypt, and so without encryption, was on offer, too.
        unencrypted: bool,
    },
    /// Something came between VeNCrypt and TLS, where a server waits. Somebody in between may want it to pass
    /// for what was encrypted.
    #[error("the server goes on in clear, where TLS is to begin: somebody may be in between")]
    BeforeTls,
    /// The viewer chose a security type that was not offered.
    #[error("the viewer chose security type {0}, which was not offered")]
    SecurityChoice(u8),
    /// A SecurityResult other than the known ones.
    #[error("security result {0} is not known")]
    SecurityResult(u32),
    /// A message of an unknown type: its length is unknown too.
    #[error("message type {0} is not known")]
    MessageType(u8),
    /// A QEMU message of an unknown kind.
    #[error("QEMU message {0} is not known")]
    QemuMessage(u8),
    /// A rectangle in an encoding that was not asked for: its length is unknown.
    #[error("the rectangle {rect} is in encoding {encoding}, which was not asked for")]
    Encoding {
        /// Where.
        rect: RawRect,
        /// Its number.
        encoding: i32,
    },
    /// A rectangle that is not wholly inside the framebuffer.
    #[error("the rectangle {rect} does not lie in the framebuffer of {width}x{height}")]
    OutsideFramebuffer {
        /// Which.
        rect: RawRect,
        /// The framebuffer's columns.
        width: u16,
        /// The framebuffer's rows.
        height: u16,
    },
    /// A framebuffer beyond [`Limits`](crate::Limits).
    #[error("a framebuffer of {width}x{height} is larger than allowed")]
    FramebufferSize {
        /// Columns.
        width: u16,
        /// Rows.
        height: u16,
    },
    /// Pixels as indices of more than 8 bits.
    #[error("colour-mapped pixels are supported with 8 bits only; please use true colour")]
    ColourMap,
    /// Neither 8, 16 nor 32.
    #[error("{0} bits per pixel are not supported: 8, 16 or 32")]
    BitsPerPixel(u8),
    /// A channel that is empty, has holes, overlaps another or does not fit the pixel.
    #[error("a colour with maximum {max} at bit {shift} is not possible")]
    Channel {
        /// The greatest intensity.
        max: u16,
        /// Its place.
        shift: u8,
    },
}

/// A rectangle as it came off the wire: unlike a [`Rect`] it may reach beyond 65535.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRect {
    /// Left edge.
    pub x: u16,
    /// Top edge.
    pub y: u16,
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

impl RawRect {
    /// The rectangle, when it lies inside a framebuffer of this size.
    pub(crate) fn within(self, width: u16, height: u16) -> Result<Rect, Error> {
        Rect::new(self.x, self.y, self.width, self.height)
            .filter(|r| r.right() <= width && r.bottom() <= height)
            .ok_or(Error::OutsideFramebuffer { rect: self, width, height })
    }
}

impl core::fmt::Display for RawRect {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}x{}+{}+{}", self.width, self.height, self.x, self.y)
    }
}

/// The caller asked for something that the other side has not said it can do, or that cannot be said in RFB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RfbRefusal {
    /// The handshake is not over.
    #[error("the connection is not ready yet")]
    NotReady,
    /// The other side has not announced the extension.
    #[error("the other side does not support this")]
    NotSupported,
    /// The rectangle is not inside the framebuffer.
    #[error("the rectangle {0} does not lie in the framebuffer")]
    Outside(Rect),
    /// More than the message can hold.
    #[error("the message would be too long")]
    TooLong,
}

fn list(offered: &[impl ToString]) -> String {
    let names: Vec<String> = offered.iter().map(ToString::to_string).collect();
    if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
}
