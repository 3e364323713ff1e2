//! After the handshake: messages of a server; RFC 6143 §7.6 to §7.8.

use bytes::BytesMut;
use quickset_base::number::Unsigned;

use super::{ClientConfig, ClientEvent, ClientStep, RfbExtension, ServerInit};
use crate::clipboard::{CutText, CutTextBody, cut_text};
use crate::error::RawRect;
use crate::inlet::InletSource;
use crate::protocol::{
    CONTINUOUS_UPDATES, CUT_TEXT, FENCE, FENCE_REQUEST, MAX_STRING, SERVER_BELL, SERVER_COLOURS,
    SERVER_CUT_TEXT, SERVER_UPDATE, fence,
};
use crate::{
    ClipboardCaps, Cursor, Encoding, Error, ExtendedClipboard, Leds, Limits, PixelFormat, Rect, Resize,
    ResizeReason, ResizeStatus, Screen, pixel,
};

#[derive(Debug)]
pub(super) struct RfbClientSession {
    limits: Limits,
    format: PixelFormat,
    width: u16,
    height: u16,
    state: ClientState,
    supported: Vec<RfbExtension>,
    /// Of the last [`ClientStep::Pixels`].
    pixels: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
enum ClientState {
    /// Between messages.
    Idle,
    /// In an update that has so many rectangles left.
    Update(u32),
    /// In a Raw rectangle of which this is still to come.
    Raw(Rect, u32),
    /// In something that is passed over.
    Skip { left: u64, then: AfterSkip },
}

/// What comes behind something that is passed over.
#[derive(Clone, Copy, Debug)]
enum AfterSkip {
    /// Between messages, and it is told that it was a text of so many bytes.
    Dropped { bytes: u64 },
    /// In an update that has so many rectangles left.
    Update(u32),
    /// Between messages.
    Idle,
}

impl RfbClientSession {
    /// Behind ServerInit, of whose name so many bytes are still to come.
    pub(super) fn new(config: &ClientConfig, init: &ServerInit, left: u64) -> Self {
        Self {
            limits: config.limits,
            format: if config.format.check().is_ok() { config.format } else { PixelFormat::XRGB },
            width: init.width,
            height: init.height,
            state: ClientState::Skip { left, then: AfterSkip::Idle },
            supported: Vec::new(),
            pixels: Vec::new(),
        }
    }

    pub(super) fn step(
        &mut self,
        source: &mut InletSource<'_, '_>,
        out: &mut BytesMut,
    ) -> Result<ClientStep, Error> {
        match self.state {
            ClientState::Idle => self.message(source, out),
            ClientState::Update(0) => {
                self.state = ClientState::Idle;
                Ok(ClientStep::Event(ClientEvent::UpdateEnd))
            }
            ClientState::Update(left) => self.rectangle(source, left),
            ClientState::Raw(rect, left) => Ok(self.raw(source, rect, left)),
            ClientState::Skip { left, then } => Ok(self.skip(source, left, then)),
        }
    }

    pub(super) fn pixels(&self) -> &[u32] {
        &self.pixels
    }

    pub(super) fn size(&self) -> (u16, u16) {
        (self.width, self.height)
    }

    pub(super) fn format(&self) -> PixelFormat {
        self.format
    }

    pub(super) fn supports(&self, extension: RfbExtension) -> bool {
        self.supported.contains(&extension)
    }

    /// True the first time.
    fn learn(&mut self, extension: RfbExtension) -> bool {
        let new = !self.supports(extension);
        if new {
            self.supported.push(extension);
        }
        new
    }

    fn message(&mut self, source: &mut InletSource<'_, '_>, out: &mut BytesMut) -> Result<ClientStep, Error> {
        let Some(kind) = source.fields(1).map(|mut f| f.u8()) else { return Ok(ClientStep::Starved) };
        match kind {
            SERVER_UPDATE => {
                let Some(mut fields) = source.fields(4) else { return Ok(ClientStep::Starved) };
                self.state = ClientState::Update(fields.skip(2).u16().into());
                source.advance(4);
                Ok(ClientStep::Again)
            }
            SERVER_COLOURS => Ok(colours(source).map_or(ClientStep::Starved, ClientStep::Event)),
            SERVER_BELL => {
                source.advance(1);
                Ok(ClientStep::Event(ClientEvent::Bell))
            }
            SERVER_CUT_TEXT => Ok(self.cut_text(source, out)),
            CONTINUOUS_UPDATES => {
                source.advance(1);
                // The first one, before anything was enabled, says that the extension is there.
                let event = if self.learn(RfbExtension::ContinuousUpdates) {
                    ClientEvent::Supports(RfbExtension::ContinuousUpdates)
                } else {
                    ClientEvent::ContinuousUpdatesEnded
                };
                Ok(ClientStep::Event(event))
            }
            FENCE => Ok(self.fence(source, out)),
            other => Err(Error::MessageType(other)),
        }
    }

    fn skip(&mut self, source: &mut InletSource<'_, '_>, left: u64, then: AfterSkip) -> ClientStep {
        let left = left - source.skip(usize::try_from(left).unwrap_or(usize::MAX)) as u64;
        if left > 0 {
            self.state = ClientState::Skip { left, then };
            return ClientStep::Starved;
        }
        self.state = match then {
            AfterSkip::Update(rectangles) => ClientState::Update(rectangles),
            AfterSkip::Idle | AfterSkip::Dropped { .. } => ClientState::Idle,
        };
        match then {
            AfterSkip::Dropped { bytes } => ClientStep::Event(ClientEvent::TextDropped { bytes }),
            AfterSkip::Update(_) | AfterSkip::Idle => ClientStep::Again,
        }
    }

    fn cut_text(&mut self, source: &mut InletSource<'_, '_>, out: &mut BytesMut) -> ClientStep {
        let text = match cut_text(source, self.limits.text_bytes, true) {
            CutText::Partial => return ClientStep::Starved,
            CutText::TooLong(left) => {
                let bytes = left as u64;
                self.state = ClientState::Skip { left: bytes, then: AfterSkip::Dropped { bytes } };
                return ClientStep::Again;
            }
            CutText::Whole(None) => return ClientStep::Again,
            CutText::Whole(Some(text)) => text,
        };
        ClientStep::Event(match text {
            CutTextBody::Latin1(text) => ClientEvent::Text(text),
            CutTextBody::Dropped { bytes } => ClientEvent::TextDropped { bytes },
            CutTextBody::Broken { bytes } => ClientEvent::TextBroken { bytes },
            CutTextBody::Extended(clipboard) => {
                if matches!(clipboard, ExtendedClipboard::Caps(_)) && self.learn(RfbExtension::Clipboard) {
                    ExtendedClipboard::Caps(ClipboardCaps::OURS).encode(CUT_TEXT, out);
                }
                ClientEvent::Clipboard(clipboard)
            }
        })
    }

    fn fence(&mut self, source: &mut InletSource<'_, '_>, out: &mut BytesMut) -> ClientStep {
        let Some((flags, fence)) = fence(source) else { return ClientStep::Starved };
        let new = self.learn(RfbExtension::Fence);
        if flags & FENCE_REQUEST == 0 {
            return ClientStep::Event(ClientEvent::Fence(fence));
        }
        // What came before has been reported and nothing after it was read: every flag is honoured by
        // answering here.
        fence.encode(false, out);
        if new { ClientStep::Event(ClientEvent::Supports(RfbExtension::Fence)) } else { ClientStep::Again }
    }

    fn rectangle(&mut self, source: &mut InletSource<'_, '_>, left: u32) -> Result<ClientStep, Error> {
        let Some(mut fields) = source.fields(12) else { return Ok(ClientStep::Starved) };
        let rect = fields.rect();
        let number = fields.i32();
        let (length, event) = match Encoding::from(number) {
            Encoding::Raw => {
                let rect = rect.within(self.width, self.height)?;
                source.advance(12);
                self.state = if rect.is_empty() {
                    ClientState::Update(left - 1)
                } else {
                    ClientState::Raw(rect, left - 1)
                };
                return Ok(ClientStep::Again);
            }
            Encoding::LastRect => {
                source.advance(12);
                self.state = ClientState::Update(0);
                return Ok(ClientStep::Again);
            }
            Encoding::CopyRect => {
                let to = rect.within(self.width, self.height)?;
                let Some(mut fields) = source.fields(16) else { return Ok(ClientStep::Starved) };
                let (x, y) = (fields.skip(12).u16(), fields.u16());
                RawRect { x, y, ..rect }.within(self.width, self.height)?;
                (16, (!to.is_empty()).then_some(ClientEvent::Copy { rect: to, x, y }))
            }
            Encoding::Cursor => {
                let (colours, mask) = self.cursor_size(rect);
                if rect.width > Cursor::MAX_SIDE || rect.height > Cursor::MAX_SIDE {
                    // RFC 6143 §7.8.1 has no limit. The last one stays, which points as well.
                    source.advance(12);
                    self.pass_over(colours + mask, left - 1);
                    return Ok(ClientStep::Again);
                }
                let [colours, mask]: [usize; 2] = [colours, mask].map(Unsigned::saturated);
                let Some(whole) = source.peek(12 + colours + mask) else { return Ok(ClientStep::Starved) };
                let (shown, mask_bits) = whole[12..].split_at(colours);
                let cursor = self.cursor(rect, shown, mask_bits);
                (12 + colours + mask, Some(ClientEvent::Cursor(cursor)))
            }
            Encoding::DesktopSize => {
                self.resize(rect.width, rect.height)?;
                (12, Some(ClientEvent::Resize(told_by_server(rect))))
            }
            Encoding::ExtendedDesktopSize => {
                let Some((length, resize)) = screens(source, rect) else { return Ok(ClientStep::Starved) };
                if resize.status == ResizeStatus::Done {
                    self.resize(resize.width, resize.height)?;
                }
                self.learn(RfbExtension::SetDesktopSize);
                (length, Some(ClientEvent::Resize(resize)))
            }
            Encoding::DesktopName => {
                let Some(name) = DesktopName::read(source, 12) else { return Ok(ClientStep::Starved) };
                source.advance(12 + name.length);
                self.pass_over(name.left, left - 1);
                return Ok(ClientStep::Event(ClientEvent::Name(name.text)));
            }
            Encoding::LedState => {
                let Some(mut fields) = source.fields(13) else { return Ok(ClientStep::Starved) };
                (13, Some(ClientEvent::Leds(Leds::decode(fields.skip(12).u8()))))
            }
            Encoding::QemuKeys => {
                let new = self.learn(RfbExtension::QemuKeys);
                (12, new.then_some(ClientEvent::Supports(RfbExtension::QemuKeys)))
            }
            // Those were not asked for, or are announcements of a client and never rectangles.
            Encoding::Hextile
            | Encoding::Tight
            | Encoding::Zrle
            | Encoding::CompressLevel(_)
            | Encoding::Fence
            | Encoding::ContinuousUpdates
            | Encoding::ExtendedClipboard
            | Encoding::Other(_) => {
                return Err(Error::Encoding { rect, encoding: number });
            }
        };
        source.advance(length);
        self.state = ClientState::Update(left - 1);
        Ok(event.map_or(ClientStep::Again, ClientStep::Event))
    }

    /// Bytes of an update that are not read, before the rectangles that are left of it.
    fn pass_over(&mut self, bytes: u64, rectangles: u32) {
        self.state = ClientState::Skip { left: bytes, then: AfterSkip::Update(rectangles) };
    }

    /// The rows that have come, at most [`PIXELS`] at a time.
    fn raw(&mut self, source: &mut InletSource<'_, '_>, rect: Rect, left: u32) -> ClientStep {
        let row = rect.width() as usize * self.format.bytes_per_pixel();
        let most = (PIXELS / rect.width() as usize).min(rect.height() as usize);
        let Some(bytes) = source.rows(row, most) else { return ClientStep::Starved };
        let bytes_len = bytes.len();
        self.pixels.clear();
        pixel::decode(&self.format, bytes, &mut self.pixels);
        source.advance(bytes_len);
        let middle = rect.top() + (bytes_len / row).saturated::<u16>();
        let rest = Rect::between(rect.left(), middle, rect.right(), rect.bottom());
        self.state = if rest.is_empty() { ClientState::Update(left) } else { ClientState::Raw(rest, left) };
        ClientStep::Pixels(Rect::between(rect.left(), rect.top(), rect.right(), middle))
    }

    /// Bytes of the colours and of the mask.
    fn cursor_size(&self, rect: RawRect) -> (u64, u64) {
        let (width, height) = (u64::from(rect.width), u64::from(rect.height));
        (width * height * self.format.bytes_per_pixel() as u64, width.div_ceil(8) * height)
    }

    fn cursor(&self, rect: RawRect, colours: &[u8], mask: &[u8]) -> Cursor {
        let (width, height) = (rect.width, rect.height);
        let mut pixels = Vec::new();
        pixel::decode(&self.format, colours, &mut pixels);
        // Some servers name a point outside, of an empty cursor above all; nobody can point there.
        let inside = |hot: u16, side: u16| hot.min(side.max(1) - 1);
        let (hot_x, hot_y) = (inside(rect.x, width), inside(rect.y, height));
        Cursor { width, height, hot_x, hot_y, pixels, mask: mask.to_vec() }
    }

    fn resize(&mut self, width: u16, height: u16) -> Result<(), Error> {
        self.limits.check_size(width, height)?;
        (self.width, self.height) = (width, height);
        Ok(())
    }
}

fn colours(source: &mut InletSource<'_, '_>) -> Option<ClientEvent<'static>> {
    let mut fields = source.fields(6)?;
    let (first, n) = (fields.skip(2).u16(), fields.u16() as usize);
    let whole = source.peek(6 + 6 * n)?;
    let colour = |c: &[u8]| [0, 2, 4].map(|i| u16::from_be_bytes([c[i], c[i + 1]]));
    let colours = whole[6..].chunks_exact(6).map(colour).collect();
    source.advance(6 + 6 * n);
    Some(ClientEvent::Colours { first, colours })
}

fn screens(source: &mut InletSource<'_, '_>, rect: RawRect) -> Option<(usize, Resize)> {
    let count = source.fields(16)?.skip(12).u8() as usize;
    let length = 16 + count * Screen::SIZE;
    let mut fields = source.fields(length)?;
    fields.skip(16);
    let screens = (0..count).map(|_| Screen::decode(&mut fields)).collect();
    let reason = ResizeReason::decode(rect.x);
    // The status means something only as the answer to a request of ours.
    let asked = reason == ResizeReason::ThisClient;
    let status = if asked { ResizeStatus::decode(rect.y) } else { ResizeStatus::Done };
    Some((length, Resize { width: rect.width, height: rect.height, reason, status, screens }))
}

/// A new size of which DesktopSize says nothing but what it is.
fn told_by_server(rect: RawRect) -> Resize {
    let (reason, status) = (ResizeReason::Server, ResizeStatus::Done);
    Resize { width: rect.width, height: rect.height, reason, status, screens: Vec::new() }
}

/// The name of a desktop, as much of it as anybody reads: RFC 6143 has no limit.
pub(super) struct DesktopName {
    pub(super) text: String,
    /// Bytes of it that were read, with those that say how many there are.
    pub(super) length: usize,
    /// Bytes that follow.
    pub(super) left: u64,
}

impl DesktopName {
    /// Reads it behind `at` other bytes, when it has come.
    pub(super) fn read(source: &mut InletSource<'_, '_>, at: usize) -> Option<Self> {
        let all = source.fields(at + 4)?.skip(at).u32();
        let kept = (all as usize).min(MAX_STRING);
        let whole = source.peek(at + 4 + kept)?;
        let text = String::from_utf8_lossy(&whole[at + 4..]).into_owned();
        Some(Self { text, length: 4 + kept, left: u64::from(all) - kept as u64 })
    }
}

/// Pixels of one event: 256 KiB, which a processor's cache holds.
const PIXELS: usize = 1 << 16;
