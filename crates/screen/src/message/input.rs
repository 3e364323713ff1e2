use super::fields::{FieldReader, PutFields};
use super::parts::StreamMessage;
use super::{MAX_TEXT, MessageFault};

/// What a person does, in order: messages of the input stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PersonInput {
    /// A key.
    Key {
        /// Or up.
        down: bool,
        /// X11's.
        keysym: u32,
        /// The XT code of QEMU's extension, where the viewer knows it.
        keycode: Option<u32>,
    },
    /// The pointer.
    Pointer {
        /// Bit n is set while button n + 1 is down.
        buttons: u8,
        /// Column; may lie outside.
        x: u16,
        /// Row; may lie outside.
        y: u16,
    },
    /// A key that was pressed on a session before this one, and is down yet. It goes down unless it is, and
    /// is not counted.
    Held {
        /// X11's.
        keysym: u32,
        /// As in [`Key`](Self::Key).
        keycode: Option<u32>,
    },
    /// The client's clipboard: here, so that a paste comes after what it pastes.
    Clipboard(ClipboardMessage),
}

impl PersonInput {
    /// DT-10: this one need not be sent when `next` follows it at once, provided that it has not changed the
    /// buttons itself: mere motion of the pointer.
    pub fn yields_to(&self, next: &Self) -> bool {
        match (self, next) {
            (Self::Pointer { buttons: a, .. }, Self::Pointer { buttons: b, .. }) => a == b,
            _ => false,
        }
    }
}

/// Names a key that goes down and up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldKey {
    /// X11's.
    pub keysym: u32,
    /// The XT code of QEMU's extension, where the viewer knows it.
    pub keycode: Option<u32>,
}

impl HeldKey {
    /// Both are the same key. It is known by its code: its keysym depends on what else is held, and keys
    /// without one share the keysym 0. Where either side has no code, the keysym is all there is.
    pub fn is(self, other: Self) -> bool {
        match (self.keycode, other.keycode) {
            (Some(a), Some(b)) => a == b,
            _ => self.keysym == other.keysym,
        }
    }
}

/// The clipboard, in either direction. Texts have LF at the end of lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClipboardMessage {
    /// A text was copied and can be asked for.
    Offer,
    /// Somebody pastes.
    Ask,
    /// The text, asked for or not; at most [`MAX_TEXT`] bytes, what is longer is cut.
    Paste(String),
}

impl ClipboardMessage {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Offer => out.put_u8(OFFER),
            Self::Ask => out.put_u8(ASK),
            Self::Paste(text) => {
                out.put_u8(PASTE);
                out.put_text(text, MAX_TEXT);
            }
        }
    }

    pub(super) fn is_one(kind: u8) -> bool {
        matches!(kind, OFFER | ASK | PASTE)
    }

    pub(super) fn read(kind: u8, f: &mut FieldReader<'_>) -> Result<Option<Self>, MessageFault> {
        Ok(Some(match kind {
            OFFER => Self::Offer,
            ASK => Self::Ask,
            PASTE => Self::Paste(f.text(MAX_TEXT)?),
            _ => return Ok(None),
        }))
    }
}

/// The server's, on its stream.
impl StreamMessage for ClipboardMessage {
    fn is_aside(kind: u8) -> bool {
        Self::is_one(kind)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        self.put(out);
    }

    fn decode(message: &[u8]) -> Result<Option<Self>, MessageFault> {
        let mut f = FieldReader::new(message, "a message of the clipboard");
        let kind = f.u8()?;
        Self::read(kind, &mut f)
    }
}

impl StreamMessage for PersonInput {
    fn is_aside(kind: u8) -> bool {
        ClipboardMessage::is_one(kind)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Key { down, keysym, keycode } => put_key(out, KEY, *down, *keysym, *keycode),
            Self::Held { keysym, keycode } => put_key(out, HELD, true, *keysym, *keycode),
            Self::Pointer { buttons, x, y } => {
                out.put_u8(POINTER);
                out.put_u8(*buttons);
                out.put_u16(*x);
                out.put_u16(*y);
            }
            Self::Clipboard(clipboard) => clipboard.put(out),
        }
    }

    fn decode(message: &[u8]) -> Result<Option<Self>, MessageFault> {
        let mut f = FieldReader::new(message, "an input message");
        Ok(Some(match f.u8()? {
            kind @ (KEY | HELD) => {
                let flags = f.u8()?;
                let keysym = f.u32()?;
                let keycode = if flags & 2 == 0 { None } else { Some(f.u32()?) };
                if kind == KEY {
                    Self::Key { down: flags & 1 != 0, keysym, keycode }
                } else {
                    Self::Held { keysym, keycode }
                }
            }
            POINTER => Self::Pointer { buttons: f.u8()?, x: f.u16()?, y: f.u16()? },
            kind => return Ok(ClipboardMessage::read(kind, &mut f)?.map(Self::Clipboard)),
        }))
    }
}

fn put_key(out: &mut Vec<u8>, kind: u8, down: bool, keysym: u32, keycode: Option<u32>) {
    out.put_u8(kind);
    out.put_u8(u8::from(down) | u8::from(keycode.is_some()) << 1);
    out.put_u32(keysym);
    if let Some(code) = keycode {
        out.put_u32(code);
    }
}

const OFFER: u8 = 0x0d;
const ASK: u8 = 0x0e;
const PASTE: u8 = 0x0f;
const KEY: u8 = 0x20;
const POINTER: u8 = 0x21;
const HELD: u8 = 0x22;
