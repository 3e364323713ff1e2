//! After the handshake: messages of a viewer; RFC 6143 §7.5.

use bytes::{BufMut, BytesMut};

use super::paint::{Manner, RfbPainter};
use super::{ServerConfig, ServerEvent, ServerStep};
use crate::clipboard::{CutText, CutTextBody, cut_text};
use crate::inlet::InletSource;
use crate::protocol::{
    CONTINUOUS_UPDATES, CUT_TEXT, FENCE, FENCE_REQUEST, KEY, POINTER, QEMU, REQUEST, SERVER_CUT_TEXT,
    SET_DESKTOP_SIZE, SET_ENCODINGS, SET_PIXEL_FORMAT, fence,
};
use crate::{
    ClipboardCaps, Encoding, Error, ExtendedClipboard, Fence, Limits, PixelFormat, Rect, Screen, pixel,
};

/// What a viewer has listed in SetEncodings. Raw is always understood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ViewerFeatures {
    /// Of the encodings of pixels that we write, the one that it lists first. `None`: it lists none.
    pub pixels: Option<PixelCoding>,
    /// The last [`Encoding::CompressLevel`].
    pub compress_level: Option<u8>,
    /// [`Encoding::CopyRect`].
    pub copy_rect: bool,
    /// [`Encoding::LastRect`].
    pub last_rect: bool,
    /// [`Encoding::Cursor`].
    pub cursor: bool,
    /// [`Encoding::DesktopSize`].
    pub desktop_size: bool,
    /// [`Encoding::ExtendedDesktopSize`].
    pub extended_desktop_size: bool,
    /// [`Encoding::DesktopName`].
    pub desktop_name: bool,
    /// [`Encoding::LedState`].
    pub led_state: bool,
    /// [`Encoding::QemuKeys`].
    pub qemu_keys: bool,
    /// [`Encoding::Fence`].
    pub fence: bool,
    /// [`Encoding::ContinuousUpdates`].
    pub continuous_updates: bool,
    /// [`Encoding::ExtendedClipboard`].
    pub extended_clipboard: bool,
}

/// An encoding of pixels that we write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PixelCoding {
    /// [`Encoding::Raw`].
    Raw,
    /// [`Encoding::Hextile`].
    Hextile,
    /// [`Encoding::Zrle`].
    Zrle,
    /// [`Encoding::Tight`].
    Tight,
}

impl From<PixelCoding> for Encoding {
    fn from(coding: PixelCoding) -> Self {
        match coding {
            PixelCoding::Raw => Self::Raw,
            PixelCoding::Hextile => Self::Hextile,
            PixelCoding::Zrle => Self::Zrle,
            PixelCoding::Tight => Self::Tight,
        }
    }
}

impl ViewerFeatures {
    fn add(&mut self, encoding: Encoding) {
        // RFC 6143 §7.5.2: the order is that of the viewer's preference.
        let mut prefers = |coding| self.pixels = self.pixels.or(Some(coding));
        let flag = match encoding {
            Encoding::Raw => return prefers(PixelCoding::Raw),
            Encoding::Hextile => return prefers(PixelCoding::Hextile),
            Encoding::Zrle => return prefers(PixelCoding::Zrle),
            Encoding::Tight => return prefers(PixelCoding::Tight),
            Encoding::CompressLevel(level) => return self.compress_level = Some(level),
            Encoding::CopyRect => &mut self.copy_rect,
            Encoding::LastRect => &mut self.last_rect,
            Encoding::Cursor => &mut self.cursor,
            Encoding::DesktopSize => &mut self.desktop_size,
            Encoding::ExtendedDesktopSize => &mut self.extended_desktop_size,
            Encoding::DesktopName => &mut self.desktop_name,
            Encoding::LedState => &mut self.led_state,
            Encoding::QemuKeys => &mut self.qemu_keys,
            Encoding::Fence => &mut self.fence,
            Encoding::ContinuousUpdates => &mut self.continuous_updates,
            Encoding::ExtendedClipboard => &mut self.extended_clipboard,
            Encoding::Other(_) => return,
        };
        *flag = true;
    }
}

#[derive(Debug)]
pub(super) struct ServerSession {
    limits: Limits,
    pub(super) width: u16,
    pub(super) height: u16,
    pub(super) encoder: pixel::PixelEncoder,
    /// Once pixels were sent in any encoding but Raw.
    pub(super) painter: Option<Box<RfbPainter>>,
    is_local: bool,
    /// Nothing is packed, whatever the viewer asks for.
    pub(super) is_plain: bool,
    features: ViewerFeatures,
    /// Which extensions the viewer knows that we have: each is announced once.
    announced: ViewerFeatures,
    /// The next update says that we take QEMU key events.
    pub(super) announce_qemu_keys: bool,
    /// The next update comes behind a colour map.
    pub(super) colours_due: bool,
    state: ServerState,
}

#[derive(Clone, Copy, Debug)]
enum ServerState {
    /// Between messages.
    Idle,
    /// In a SetEncodings that has so many left: up to 65535, and none is kept.
    Encodings(u16, ViewerFeatures),
    /// In a text that is too long.
    Skip { left: usize, bytes: u64 },
}

impl ServerSession {
    pub(super) fn new(config: &ServerConfig) -> Self {
        Self {
            limits: config.limits,
            width: config.width,
            height: config.height,
            encoder: pixel::PixelEncoder::new(PixelFormat::XRGB),
            painter: None,
            is_local: config.is_local,
            is_plain: false,
            features: ViewerFeatures::default(),
            announced: ViewerFeatures::default(),
            announce_qemu_keys: false,
            colours_due: false,
            state: ServerState::Idle,
        }
    }

    pub(super) fn features(&self) -> ViewerFeatures {
        self.features
    }

    pub(super) fn format(&self) -> PixelFormat {
        *self.encoder.format()
    }

    /// How pixels leave.
    pub(super) fn manner(&self) -> Manner<'_> {
        let coding = self.features.pixels.unwrap_or(PixelCoding::Raw);
        let asked = || self.features.compress_level.unwrap_or(u8::from(!self.is_local));
        let level = if self.is_plain { 0 } else { asked() };
        Manner { coding, level, encoder: &self.encoder }
    }

    pub(super) fn bounds(&self) -> Rect {
        Rect::sized(self.width, self.height)
    }

    pub(super) fn step(
        &mut self,
        source: &mut InletSource<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<ServerStep, Error> {
        match self.state {
            ServerState::Idle => self.message(source, out),
            ServerState::Encodings(0, features) => {
                self.state = ServerState::Idle;
                self.features = features;
                self.announce(out);
                Ok(ServerStep::Event(ServerEvent::Features(features)))
            }
            ServerState::Encodings(left, mut features) => {
                let Some(mut fields) = source.fields(4) else { return Ok(ServerStep::Starved) };
                features.add(fields.i32().into());
                source.advance(4);
                self.state = ServerState::Encodings(left - 1, features);
                Ok(ServerStep::Again)
            }
            ServerState::Skip { left, bytes } => {
                let left = left - source.skip(left);
                if left > 0 {
                    self.state = ServerState::Skip { left, bytes };
                    return Ok(ServerStep::Starved);
                }
                self.state = ServerState::Idle;
                Ok(ServerStep::Event(ServerEvent::TextDropped { bytes }))
            }
        }
    }

    /// Says which of the viewer's extensions we have too, each in the way of its specification.
    fn announce(&mut self, out: &mut BytesMut) {
        let (now, before) = (self.features, self.announced);
        if now.fence && !before.fence {
            Fence::default().encode(true, out);
        }
        if now.continuous_updates && !before.continuous_updates {
            out.put_u8(CONTINUOUS_UPDATES);
        }
        if now.extended_clipboard && !before.extended_clipboard {
            ExtendedClipboard::Caps(ClipboardCaps::OURS).encode(SERVER_CUT_TEXT, out);
        }
        // This one is a rectangle, and goes with the first of an update.
        self.announce_qemu_keys |= now.qemu_keys && !before.qemu_keys;
        self.announced.fence |= now.fence;
        self.announced.continuous_updates |= now.continuous_updates;
        self.announced.extended_clipboard |= now.extended_clipboard;
        self.announced.qemu_keys |= now.qemu_keys;
    }

    fn message(&mut self, source: &mut InletSource<'_, '_>, out: &mut BytesMut) -> Result<ServerStep, Error> {
        let Some(kind) = source.fields(1).map(|mut f| f.u8()) else { return Ok(ServerStep::Starved) };
        let length = match kind {
            SET_PIXEL_FORMAT => 20,
            SET_ENCODINGS => 4,
            REQUEST | CONTINUOUS_UPDATES => 10,
            KEY => 8,
            POINTER => 6,
            CUT_TEXT => return Ok(self.cut_text(source)),
            FENCE => return Ok(viewer_fence(source, out)),
            SET_DESKTOP_SIZE => {
                return Ok(set_desktop_size(source).map_or(ServerStep::Starved, ServerStep::Event));
            }
            QEMU => return qemu(source),
            other => return Err(Error::MessageType(other)),
        };
        let Some(mut fields) = source.fields(length) else { return Ok(ServerStep::Starved) };
        fields.skip(1);
        let event = match kind {
            SET_PIXEL_FORMAT => {
                let mut format = PixelFormat::decode(&fields.skip(3).array());
                // RFC 6143 §7.5.1: a viewer may want a colour map. It gets one, in which an index is a
                // colour.
                self.colours_due = !format.true_colour && format.bits_per_pixel == 8;
                if self.colours_due {
                    format = PixelFormat::RGB332;
                }
                format.check()?;
                self.encoder = pixel::PixelEncoder::new(format);
                ServerEvent::Format(format)
            }
            SET_ENCODINGS => {
                self.state = ServerState::Encodings(fields.skip(1).u16(), ViewerFeatures::default());
                source.advance(length);
                return Ok(ServerStep::Again);
            }
            KEY => {
                let down = fields.u8() != 0;
                ServerEvent::Key { down, keysym: fields.skip(2).u32(), keycode: None }
            }
            POINTER => ServerEvent::Pointer { buttons: fields.u8(), x: fields.u16(), y: fields.u16() },
            _ => {
                let (flag, r) = (fields.u8() != 0, fields.rect());
                let rect = self.bounds().clip(r.x, r.y, r.width, r.height);
                if kind == REQUEST {
                    ServerEvent::Request { incremental: flag, rect }
                } else {
                    if !flag {
                        out.put_u8(CONTINUOUS_UPDATES);
                    }
                    ServerEvent::ContinuousUpdates(flag.then_some(rect))
                }
            }
        };
        source.advance(length);
        Ok(ServerStep::Event(event))
    }

    fn cut_text(&mut self, source: &mut InletSource<'_, '_>) -> ServerStep {
        let offered = self.announced.extended_clipboard;
        match cut_text(source, self.limits.text_bytes, offered) {
            CutText::Partial => ServerStep::Starved,
            CutText::TooLong(left) => {
                self.state = ServerState::Skip { left, bytes: left as u64 };
                ServerStep::Again
            }
            CutText::Whole(None) => ServerStep::Again,
            CutText::Whole(Some(text)) => ServerStep::Event(match text {
                CutTextBody::Latin1(text) => ServerEvent::Text(text),
                CutTextBody::Dropped { bytes } => ServerEvent::TextDropped { bytes },
                CutTextBody::Broken { bytes } => ServerEvent::TextBroken { bytes },
                CutTextBody::Extended(clipboard) => ServerEvent::Clipboard(clipboard),
            }),
        }
    }
}

fn viewer_fence(source: &mut InletSource<'_, '_>, out: &mut BytesMut) -> ServerStep {
    let Some((flags, fence)) = fence(source) else { return ServerStep::Starved };
    if flags & FENCE_REQUEST == 0 {
        return ServerStep::Event(ServerEvent::Fence(fence));
    }
    // What came before has been reported and nothing after it was read: every flag is honoured by answering
    // here.
    fence.encode(false, out);
    ServerStep::Again
}

fn set_desktop_size(source: &mut InletSource<'_, '_>) -> Option<ServerEvent> {
    let mut fields = source.fields(8)?;
    let (width, height) = (fields.skip(2).u16(), fields.u16());
    let count = fields.u8() as usize;
    let length = 8 + count * Screen::SIZE;
    let mut fields = source.fields(length)?;
    fields.skip(8);
    let screens = (0..count).map(|_| Screen::decode(&mut fields)).collect();
    source.advance(length);
    Some(ServerEvent::SetDesktopSize { width, height, screens })
}

fn qemu(source: &mut InletSource<'_, '_>) -> Result<ServerStep, Error> {
    let Some(mut fields) = source.fields(2) else { return Ok(ServerStep::Starved) };
    let kind = fields.skip(1).u8();
    if kind == QEMU_AUDIO {
        return Ok(qemu_audio(source).map_or(ServerStep::Starved, |()| ServerStep::Again));
    }
    if kind != 0 {
        return Err(Error::QemuMessage(kind));
    }
    let Some(mut fields) = source.fields(12) else { return Ok(ServerStep::Starved) };
    let down = fields.skip(2).u16() != 0;
    let (keysym, keycode) = (fields.u32(), Some(fields.u32()));
    source.advance(12);
    Ok(ServerStep::Event(ServerEvent::Key { down, keysym, keycode }))
}

/// A viewer asks for sound, which nobody has offered: it gets none. Its format comes with the third
/// operation.
fn qemu_audio(source: &mut InletSource<'_, '_>) -> Option<()> {
    let operation = source.fields(4)?.skip(2).u16();
    let length = if operation == 2 { 10 } else { 4 };
    source.peek(length)?;
    source.advance(length);
    Some(())
}

const QEMU_AUDIO: u8 = 1;
