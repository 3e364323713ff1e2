//! Cut text both ways: Latin-1 as in RFC 6143, and the extended clipboard with UTF-8.
//!
//! Both directions have one form: three bytes of padding, a length, the text. A negative length announces an
//! extended message of that many bytes: flags (formats in bits 0..16, the action in 24..29), then what the
//! action needs. Text inside goes with CRLF and a final zero, outside with LF and without.

use bytes::{BufMut, BytesMut};
use miniz_oxide::deflate::compress_to_vec_zlib;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags as flag};
use quickset_base::number::Unsigned as _;

use crate::inlet::{InletSource, NumberReader};

/// A message of the extended clipboard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExtendedClipboard {
    /// What the sender can do.
    Caps(ClipboardCaps),
    /// Please provide these formats.
    Request(Formats),
    /// Please say what you have.
    Peek,
    /// These formats can be requested; none means that the clipboard is empty.
    Notify(Formats),
    /// The text itself. `None` when the message held only other formats.
    Provide(Option<String>),
}

/// A set of clipboard formats, bits 0 to 15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Formats(pub u16);

impl Formats {
    /// None.
    pub const NONE: Self = Self(0);
    /// UTF-8 text.
    pub const TEXT: Self = Self(1);

    /// UTF-8 text is among them.
    pub const fn text(self) -> bool {
        self.0 & 1 != 0
    }
}

/// What the sender of [`ExtendedClipboard::Caps`] can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClipboardCaps {
    /// Formats it takes.
    pub formats: Formats,
    /// Takes Request.
    pub request: bool,
    /// Takes Peek.
    pub peek: bool,
    /// Takes Notify.
    pub notify: bool,
    /// Takes Provide.
    pub provide: bool,
    /// The longest text, in bytes of UTF-8, that it wants without having requested it.
    pub unsolicited_text: u32,
}

impl ClipboardCaps {
    /// Ours: text, every action, and nothing unsolicited. A text is then sent when somebody wants to paste
    /// it.
    pub const OURS: Self = Self {
        formats: Formats::TEXT,
        request: true,
        peek: true,
        notify: true,
        provide: true,
        unsolicited_text: 0,
    };
}

impl ExtendedClipboard {
    /// Reads what follows the length. `None` for an action that is not known (yet). Its length is known, so
    /// that what follows can be read whatever is wrong with it: a text is no reason to hang up.
    pub(crate) fn decode(message: &[u8], max_text: usize) -> Option<CutTextBody> {
        let broken = CutTextBody::Broken { bytes: message.len() as u64 };
        let Some((flags, rest)) = message.split_first_chunk() else { return Some(broken) };
        let flags = u32::from_be_bytes(*flags);
        let formats = Formats((flags & 0xffff) as u16);
        let clipboard = match flags & ACTIONS {
            caps if caps & CAPS != 0 => {
                // Sizes come in the order of the bits, and text is the lowest; of those that are missing
                // nothing is wanted unasked.
                let first = rest.first_chunk().map_or(0, |b| u32::from_be_bytes(*b));
                Self::Caps(ClipboardCaps {
                    formats,
                    request: flags & REQUEST != 0,
                    peek: flags & PEEK != 0,
                    notify: flags & NOTIFY != 0,
                    provide: flags & PROVIDE != 0,
                    unsolicited_text: if formats.text() { first } else { 0 },
                })
            }
            REQUEST => Self::Request(formats),
            PEEK => Self::Peek,
            NOTIFY => Self::Notify(formats),
            PROVIDE if formats.text() => {
                return Some(provided(rest, max_text).unwrap_or(broken));
            }
            PROVIDE => Self::Provide(None),
            _ => return None,
        };
        Some(CutTextBody::Extended(clipboard))
    }

    /// The whole message of type `kind`.
    pub(crate) fn encode(&self, kind: u8, out: &mut BytesMut) {
        let mut body = BytesMut::new();
        match self {
            Self::Caps(caps) => {
                let actions = [(caps.request, REQUEST), (caps.peek, PEEK), (caps.notify, NOTIFY)];
                let actions = actions.iter().filter(|a| a.0).fold(CAPS, |all, a| all | a.1);
                let provide = if caps.provide { PROVIDE } else { 0 };
                body.put_u32(actions | provide | u32::from(caps.formats.0));
                for bit in 0..16 {
                    if caps.formats.0 >> bit & 1 != 0 {
                        body.put_u32(if bit == 0 { caps.unsolicited_text } else { 0 });
                    }
                }
            }
            Self::Request(formats) => body.put_u32(REQUEST | u32::from(formats.0)),
            Self::Peek => body.put_u32(PEEK),
            Self::Notify(formats) => body.put_u32(NOTIFY | u32::from(formats.0)),
            Self::Provide(text) => {
                body.put_u32(PROVIDE | u32::from(text.is_some()));
                let mut plain = Vec::new();
                if let Some(text) = text {
                    let text = text.replace("\r\n", "\n").replace('\n', "\r\n");
                    plain.extend_from_slice(&(text.len() + 1).saturated::<u32>().to_be_bytes());
                    plain.extend_from_slice(text.as_bytes());
                    plain.push(0);
                }
                // Level 1: the clipboard is small and people wait for it.
                body.put_slice(&compress_to_vec_zlib(&plain, 1));
            }
        }
        out.put_u32(u32::from(kind) << 24);
        out.put_i32(-i32::try_from(body.len()).unwrap_or(i32::MAX));
        out.put_slice(&body);
    }
}

/// What a cut-text message of either direction held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CutTextBody {
    Latin1(String),
    Extended(ExtendedClipboard),
    /// Longer than the limit: passed over.
    Dropped {
        bytes: u64,
    },
    /// It cannot be unpacked.
    Broken {
        bytes: u64,
    },
}

/// One look at a cut-text message.
pub(crate) enum CutText {
    /// The rest has not come yet.
    Partial,
    /// Whole, and left behind. `None`: nothing that we know.
    Whole(Option<CutTextBody>),
    /// Too long, or not asked for. Only the header is left behind; so many bytes are to be skipped.
    TooLong(usize),
}

/// Reads a cut-text message, whose type is known. `extended` tells whether the extended clipboard was
/// offered.
pub(crate) fn cut_text(source: &mut InletSource<'_, '_>, max_text: usize, extended: bool) -> CutText {
    let Some(mut head) = source.fields(8) else { return CutText::Partial };
    let length = head.skip(4).i32();
    let length_bytes = length.unsigned_abs() as usize;
    // A deflated text is at most a little longer than the text itself.
    let most = if length < 0 { max_text + max_text / 1000 + 64 } else { max_text };
    // Who sends the extended form unasked means that by it, and nobody reads it.
    if length_bytes > most || length < 0 && !extended {
        source.advance(8);
        return CutText::TooLong(length_bytes);
    }
    let Some(message) = source.peek(8 + length_bytes) else { return CutText::Partial };
    let body = &message[8..];
    let text = if length < 0 {
        ExtendedClipboard::decode(body, max_text)
    } else {
        // Latin-1 is the first 256 code points. Some senders use CR LF nevertheless.
        let text: String = body.iter().map(|&b| char::from(b)).collect();
        Some(CutTextBody::Latin1(text.replace("\r\n", "\n")))
    };
    source.advance(8 + length_bytes);
    CutText::Whole(text)
}

/// A cut-text message of type `kind` in Latin-1; what that lacks becomes a question mark.
pub(crate) fn put_latin1(kind: u8, text: &str, out: &mut BytesMut) {
    out.put_u32(u32::from(kind) << 24);
    let text = text.replace("\r\n", "\n");
    let bytes: Vec<u8> = text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect();
    out.put_u32(bytes.len().saturated());
    out.put_slice(&bytes);
}

/// The text of a Provide whose formats include it: it is the first in the stream.
fn provided(stream: &[u8], max_text: usize) -> Option<CutTextBody> {
    // Room for the size, the text with every LF a CR LF, and the final zero.
    let most = max_text * 2 + 5;
    let plain = inflate(stream, most)?;
    let (size, rest) = plain.split_first_chunk::<4>()?;
    let size = NumberReader(size).u32() as usize;
    if size > most - 4 {
        return Some(CutTextBody::Dropped { bytes: size as u64 });
    }
    let text = rest.get(..size)?;
    let text = text.strip_suffix(&[0]).unwrap_or(text);
    let text = String::from_utf8_lossy(text).replace("\r\n", "\n");
    if text.len() > max_text {
        return Some(CutTextBody::Dropped { bytes: text.len() as u64 });
    }
    Some(CutTextBody::Extended(ExtendedClipboard::Provide(Some(text))))
}

/// The size that the stream begins with, and as many bytes of what follows, unless that would be more than
/// `most`. `None` when they are not in it.
///
/// Of how it ends nothing is asked: TigerVNC and noVNC leave it open (a flush, no final block), and other
/// formats may follow and be as long as they like.
fn inflate(mut stream: &[u8], most: usize) -> Option<Vec<u8>> {
    let flags = flag::TINFL_FLAG_PARSE_ZLIB_HEADER
        | flag::TINFL_FLAG_HAS_MORE_INPUT
        | flag::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
    let mut state = Box::<DecompressorOxide>::default();
    // It grows with what comes out, never to a size that was announced.
    let mut out = vec![0; stream.len().saturating_mul(2).clamp(4, most)];
    let mut len = 0;
    loop {
        let (status, read, written) = decompress(&mut state, stream, &mut out, len, flags);
        (stream, len) = (stream.get(read..)?, len + written);
        let wanted = out[..len].first_chunk().map(|size| u32::from_be_bytes(*size) as usize + 4);
        match status {
            TINFLStatus::Adler32Mismatch => return None,
            _ if wanted.is_some_and(|wanted| wanted <= len || wanted > most) => {
                out.truncate(len);
                return Some(out);
            }
            TINFLStatus::HasMoreOutput if out.len() < most => out.resize((out.len() * 2).min(most), 0),
            _ => return None,
        }
    }
}

const CAPS: u32 = 1 << 24;
const REQUEST: u32 = 1 << 25;
const PEEK: u32 = 1 << 26;
const NOTIFY: u32 = 1 << 27;
const PROVIDE: u32 = 1 << 28;
const ACTIONS: u32 = 0xff00_0000;
