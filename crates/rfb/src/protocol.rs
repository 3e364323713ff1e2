//! The small values of the protocol that both sides speak of.

use core::fmt;

use bytes::{BufMut, BytesMut};
use quickset_base::number::Unsigned as _;

use crate::inlet::{InletSource, NumberReader};
use crate::{Error, Rect};

/// Protocol versions; RFC 6143 §7.1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RfbVersion {
    /// 3.3: the server decides on security.
    V33,
    /// 3.7: the client chooses.
    V37,
    /// 3.8: failures have reasons.
    V38,
}

impl RfbVersion {
    /// Reads `RFB xxx.yyy\n`. Numbers nobody has published mean the highest published one below them: Apple's
    /// 3.889 and RealVNC's 4 and 5 are 3.8, 3.5 is 3.3 (RFC 6143 §7.1.1).
    pub fn decode(line: &[u8; 12]) -> Result<Self, Error> {
        let number = |digits: &[u8]| {
            digits.iter().try_fold(0u32, |n, b| b.is_ascii_digit().then(|| n * 10 + u32::from(b - b'0')))
        };
        let parts = (&line[..4], number(&line[4..7]), line[7], number(&line[8..11]), line[11]);
        let (b"RFB ", Some(major), b'.', Some(minor), b'\n') = parts else {
            return Err(Error::NotRfb(*line));
        };
        match (major, minor) {
            (0..3, _) | (3, 0..3) => Err(Error::NotRfb(*line)),
            (3, 3..7) => Ok(Self::V33),
            (3, 7) => Ok(Self::V37),
            _ => Ok(Self::V38),
        }
    }

    /// The line as it is sent.
    pub const fn line(self) -> &'static [u8; 12] {
        match self {
            Self::V33 => b"RFB 003.003\n",
            Self::V37 => b"RFB 003.007\n",
            Self::V38 => b"RFB 003.008\n",
        }
    }
}

/// How a client proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecurityType {
    /// Not at all.
    None,
    /// DES challenge with a password of eight bytes.
    VncAuth,
    /// TLS, and one of several ways inside.
    Vencrypt,
    /// Any other, by number.
    Other(u8),
}

impl From<u8> for SecurityType {
    fn from(n: u8) -> Self {
        match n {
            1 => Self::None,
            2 => Self::VncAuth,
            19 => Self::Vencrypt,
            n => Self::Other(n),
        }
    }
}

impl From<SecurityType> for u8 {
    fn from(security: SecurityType) -> Self {
        match security {
            SecurityType::None => 1,
            SecurityType::VncAuth => 2,
            SecurityType::Vencrypt => 19,
            SecurityType::Other(n) => n,
        }
    }
}

impl fmt::Display for SecurityType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::VncAuth => "VncAuth",
            Self::Vencrypt => "VeNCrypt",
            Self::Other(5 | 6 | 129 | 13) => "RSA-AES",
            Self::Other(16) => "Tight",
            Self::Other(18) => "TLS",
            Self::Other(30 | 33 | 35 | 36) => "Apple's",
            Self::Other(n) => return write!(f, "type {n}"),
        })
    }
}

/// Encodings and pseudo-encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// Pixels row by row.
    Raw,
    /// A rectangle of the framebuffer itself.
    CopyRect,
    /// Tiles of 16 by 16 pixels with rectangles in them.
    Hextile,
    /// One colour, a palette or pixels; packed.
    Tight,
    /// Tiles of 64 by 64 pixels; packed.
    Zrle,
    /// No pixels: how hard the server is to try to pack them, 0 to 9.
    CompressLevel(u8),
    /// An update ends here, whatever it has announced.
    LastRect,
    /// The shape of the pointer, with a mask.
    Cursor,
    /// A new size of the framebuffer.
    DesktopSize,
    /// The same with screens; also the answer to SetDesktopSize.
    ExtendedDesktopSize,
    /// A new name.
    DesktopName,
    /// Which lamps of the keyboard are lit.
    LedState,
    /// The server takes QEMU key events.
    QemuKeys,
    /// Fence messages, which are pings that keep their place.
    Fence,
    /// Updates without requests.
    ContinuousUpdates,
    /// Clipboard with UTF-8.
    ExtendedClipboard,
    /// Any other, by number.
    Other(i32),
}

const ENCODINGS: [(Encoding, i32); 15] = [
    (Encoding::Raw, 0),
    (Encoding::CopyRect, 1),
    (Encoding::Hextile, 5),
    (Encoding::Tight, 7),
    (Encoding::Zrle, 16),
    (Encoding::DesktopSize, -223),
    (Encoding::LastRect, -224),
    (Encoding::Cursor, -239),
    (Encoding::QemuKeys, -258),
    (Encoding::LedState, -261),
    (Encoding::DesktopName, -307),
    (Encoding::ExtendedDesktopSize, -308),
    (Encoding::Fence, -312),
    (Encoding::ContinuousUpdates, -313),
    // 0xc0a1e5ce.
    (Encoding::ExtendedClipboard, -1_063_131_698),
];

/// Level 0, and the others behind it.
const COMPRESS_LEVEL: i32 = -256;

impl Encoding {
    /// Whether a [`Client`](crate::Client) can read it, or profits by saying that it knows it.
    pub(crate) fn is_for_client(self) -> bool {
        !matches!(self, Self::Hextile | Self::Tight | Self::Zrle | Self::CompressLevel(_) | Self::Other(_))
    }
}

impl From<i32> for Encoding {
    fn from(n: i32) -> Self {
        let level = n.checked_sub(COMPRESS_LEVEL).and_then(|level| u8::try_from(level).ok());
        if let Some(level) = level.filter(|level| *level < 10) {
            return Self::CompressLevel(level);
        }
        ENCODINGS.iter().find(|&&(_, m)| m == n).map_or(Self::Other(n), |&(e, _)| e)
    }
}

impl From<Encoding> for i32 {
    fn from(encoding: Encoding) -> Self {
        match encoding {
            Encoding::Other(n) => n,
            Encoding::CompressLevel(level) => COMPRESS_LEVEL + i32::from(level.min(9)),
            known => ENCODINGS.iter().find(|&&(e, _)| e == known).map_or(0, |&(_, n)| n),
        }
    }
}

/// The shape of the pointer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// Which column points.
    pub hot_x: u16,
    /// Which row points.
    pub hot_y: u16,
    /// Colours 0x00RRGGBB, row by row.
    pub pixels: Vec<u32>,
    /// A bit per pixel, most significant first, each row padded to whole bytes; 1 is opaque.
    pub mask: Vec<u8>,
}

impl Cursor {
    /// The longest side that is accepted; real ones have 16 to 256.
    pub const MAX_SIDE: u16 = 512;

    /// The colour at (`x`, `y`), where the cursor is opaque.
    pub fn pixel(&self, x: u16, y: u16) -> Option<u32> {
        let (x, y, width) = (x as usize, y as usize, self.width as usize);
        let byte = if x < width { self.mask.get(y * width.div_ceil(8) + x / 8)? } else { return None };
        if byte << (x % 8) & 0x80 == 0 { None } else { self.pixels.get(y * width + x).copied() }
    }

    /// Whether pixels and mask are as many as the size says.
    pub fn is_consistent(&self) -> bool {
        let (w, h) = (self.width as usize, self.height as usize);
        self.pixels.len() == w * h && self.mask.len() == w.div_ceil(8) * h
    }
}

/// One of the screens that make up a framebuffer; ExtendedDesktopSize and SetDesktopSize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Stays the same when the screen moves.
    pub id: u32,
    /// Its place. In a request it need not lie inside the framebuffer, but its edges lie within 65535.
    pub rect: Rect,
    /// Unknown bits are kept.
    pub flags: u32,
}

impl Screen {
    pub(crate) const SIZE: usize = 16;

    /// A screen that reaches beyond 65535 is cut there.
    pub(crate) fn decode(f: &mut NumberReader<'_>) -> Self {
        let (id, r) = (f.u32(), f.rect());
        let rect = Rect::sized(u16::MAX, u16::MAX).clip(r.x, r.y, r.width, r.height);
        Self { id, rect, flags: f.u32() }
    }

    pub(crate) fn encode(&self, out: &mut BytesMut) {
        out.put_u32(self.id);
        put_rect(out, self.rect);
        out.put_u32(self.flags);
    }
}

/// Who changed the size of the desktop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeReason {
    /// The server itself, or it only says what the size is.
    Server,
    /// This client asked.
    ThisClient,
    /// Another client asked.
    OtherClient,
}

impl ResizeReason {
    /// Unknown ones count as the server's, as the specification asks.
    pub(crate) fn decode(x: u16) -> Self {
        match x {
            1 => Self::ThisClient,
            2 => Self::OtherClient,
            _ => Self::Server,
        }
    }

    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Server => 0,
            Self::ThisClient => 1,
            Self::OtherClient => 2,
        }
    }
}

/// How a SetDesktopSize went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeStatus {
    /// Done.
    Done,
    /// Not allowed.
    Prohibited,
    /// Not enough memory.
    OutOfResources,
    /// Screens that make no sense.
    InvalidLayout,
    /// Any other failure.
    Other(u16),
}

impl ResizeStatus {
    pub(crate) fn decode(y: u16) -> Self {
        match y {
            0 => Self::Done,
            1 => Self::Prohibited,
            2 => Self::OutOfResources,
            3 => Self::InvalidLayout,
            n => Self::Other(n),
        }
    }

    pub(crate) fn code(self) -> u16 {
        match self {
            Self::Done => 0,
            Self::Prohibited => 1,
            Self::OutOfResources => 2,
            Self::InvalidLayout => 3,
            Self::Other(n) => n,
        }
    }
}

/// What an ExtendedDesktopSize says; a plain DesktopSize is one without screens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
    /// Who asked.
    pub reason: ResizeReason,
    /// How it went. When it failed, nothing has changed and the other fields mean nothing.
    pub status: ResizeStatus,
    /// At most 255.
    pub screens: Vec<Screen>,
}

/// The lamps of the keyboard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leds {
    /// Scroll Lock.
    pub scroll: bool,
    /// Num Lock.
    pub num: bool,
    /// Caps Lock.
    pub caps: bool,
}

impl Leds {
    pub(crate) fn decode(bits: u8) -> Self {
        Self { scroll: bits & 1 != 0, num: bits & 2 != 0, caps: bits & 4 != 0 }
    }

    pub(crate) fn bits(self) -> u8 {
        u8::from(self.scroll) | u8::from(self.num) << 1 | u8::from(self.caps) << 2
    }
}

/// RFB's Fence, an ordered ping (it has nothing to do with the fences of fenced streams).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fence {
    /// Messages before the fence are done with before it is answered.
    pub block_before: bool,
    /// Messages after the fence wait until it is answered.
    pub block_after: bool,
    /// The message after the fence and the answer take effect together.
    pub sync_next: bool,
    /// Comes back as it was. We send 64 bytes at most, as the specification wants, and answer more if there
    /// are more.
    pub payload: Vec<u8>,
}

impl Fence {
    /// The longest payload.
    pub const MAX_PAYLOAD: usize = 64;

    pub(crate) fn decode(flags: u32, payload: &[u8]) -> Self {
        Self {
            block_before: flags & 1 != 0,
            block_after: flags & 2 != 0,
            sync_next: flags & 4 != 0,
            payload: payload.to_vec(),
        }
    }

    pub(crate) fn flags(&self) -> u32 {
        u32::from(self.block_before) | u32::from(self.block_after) << 1 | u32::from(self.sync_next) << 2
    }

    /// Both directions have the same form.
    pub(crate) fn encode(&self, request: bool, out: &mut BytesMut) {
        out.put_u32(u32::from(FENCE) << 24);
        out.put_u32(self.flags() | if request { FENCE_REQUEST } else { 0 });
        out.put_u8(self.payload.len().saturated());
        out.put_slice(&self.payload);
    }
}

/// A whole Fence of either direction, left behind.
pub(crate) fn fence(source: &mut InletSource<'_, '_>) -> Option<(u32, Fence)> {
    let mut fields = source.fields(9)?;
    let flags = fields.skip(4).u32();
    let length = fields.u8();
    let whole = source.peek(9 + length as usize)?;
    let fence = Fence::decode(flags, &whole[9..]);
    source.advance(9 + length as usize);
    Some((flags, fence))
}

pub(crate) fn put_rect(out: &mut BytesMut, r: Rect) {
    for n in [r.left(), r.top(), r.width(), r.height()] {
        out.put_u16(n);
    }
}

/// A length and the string, cut between characters when it is longer than [`MAX_STRING`].
pub(crate) fn put_string(out: &mut BytesMut, string: &str) {
    let mut end = string.len().min(MAX_STRING);
    while !string.is_char_boundary(end) {
        end -= 1;
    }
    out.put_u32(end.saturated());
    out.put_slice(&string.as_bytes()[..end]);
}

// Message types of a server.
pub(crate) const SERVER_UPDATE: u8 = 0;
pub(crate) const SERVER_COLOURS: u8 = 1;
pub(crate) const SERVER_BELL: u8 = 2;
pub(crate) const SERVER_CUT_TEXT: u8 = 3;

// Message types of a client.
pub(crate) const SET_PIXEL_FORMAT: u8 = 0;
pub(crate) const SET_ENCODINGS: u8 = 2;
pub(crate) const REQUEST: u8 = 3;
pub(crate) const KEY: u8 = 4;
pub(crate) const POINTER: u8 = 5;
pub(crate) const CUT_TEXT: u8 = 6;
pub(crate) const SET_DESKTOP_SIZE: u8 = 251;
pub(crate) const QEMU: u8 = 255;

// Message types of both sides.
/// EnableContinuousUpdates and EndOfContinuousUpdates.
pub(crate) const CONTINUOUS_UPDATES: u8 = 150;
pub(crate) const FENCE: u8 = 248;

/// Flag of a Fence that is to be answered.
pub(crate) const FENCE_REQUEST: u32 = 1 << 31;

/// The longest text we send: the length of the message is an `i32`, and every LF may become two bytes.
pub(crate) const MAX_TEXT: usize = 1 << 29;

/// The longest name or reason that is kept.
pub(crate) const MAX_STRING: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_versions_mean_the_published_one_below() {
        let of = |line: &[u8; 12]| RfbVersion::decode(line);
        assert_eq!(of(b"RFB 003.003\n"), Ok(RfbVersion::V33));
        // RFC 6143 §7.1.1 names 3.5.
        assert_eq!(of(b"RFB 003.005\n"), Ok(RfbVersion::V33));
        assert_eq!(of(b"RFB 003.007\n"), Ok(RfbVersion::V37));
        for odd in [b"RFB 003.008\n", b"RFB 003.889\n", b"RFB 004.000\n", b"RFB 005.000\n"] {
            assert_eq!(of(odd), Ok(RfbVersion::V38));
        }
        for bad in [
            b"RFB 003.002\n",
            b"RFB 002.008\n",
            b"RFB 003.0o8\n",
            b"RFB 003 008\n",
            b"HTTP/1.1 400",
            b"RFB 003.008\r",
        ] {
            assert_eq!(of(bad), Err(Error::NotRfb(*bad)));
        }
        for v in [RfbVersion::V33, RfbVersion::V37, RfbVersion::V38] {
            assert_eq!(of(v.line()), Ok(v));
        }
    }

    #[test]
    fn every_encoding_has_its_number() {
        for (encoding, n) in ENCODINGS {
            assert_eq!((Encoding::from(n), i32::from(encoding)), (encoding, n));
        }
        for level in 0..10 {
            let encoding = Encoding::CompressLevel(level);
            assert_eq!(
                (Encoding::from(-256 + i32::from(level)), i32::from(encoding)),
                (encoding, i32::from(level) - 256)
            );
        }
        for other in [2, -246, -257, i32::MIN, i32::MAX] {
            assert_eq!(Encoding::from(other), Encoding::Other(other));
        }
        assert_eq!(i32::from(Encoding::Other(-312_000)), -312_000);
        assert_eq!(i32::from(Encoding::ExtendedClipboard).to_be_bytes(), [0xc0, 0xa1, 0xe5, 0xce]);
    }
}
