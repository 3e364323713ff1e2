use bytes::{BufMut, BytesMut};

use super::session::ServerSession;
use crate::protocol::{SERVER_COLOURS, SERVER_UPDATE, put_rect, put_string};
use crate::{
    Cursor, Encoding, Framebuffer, Leds, Part, PixelCoding, PixelFormat, Rect, Resize, ResizeStatus,
    RfbRefusal,
};

/// An update being written, one rectangle after the other; complete when it is dropped.
///
/// Rectangles take effect in their order. Only what the viewer has listed is accepted. An update that changes
/// the size should hold no pixels: many viewers throw them away.
#[derive(Debug)]
pub struct UpdateWriter<'a> {
    session: &'a mut ServerSession,
    out: &'a mut BytesMut,
    /// Rectangles since the last header; none has been written while this is 0.
    count: u16,
    form: UpdateForm,
}

#[derive(Debug)]
enum UpdateForm {
    /// The number is filled in at the end; where the header is.
    Counted(usize),
    /// A LastRect ends it.
    Streamed,
}

impl<'a> UpdateWriter<'a> {
    pub(super) fn counted(session: &'a mut ServerSession, out: &'a mut BytesMut) -> Self {
        Self { session, out, count: 0, form: UpdateForm::Counted(0) }
    }

    pub(super) fn streamed(session: &'a mut ServerSession, out: &'a mut BytesMut) -> Self {
        Self { session, out, count: 0, form: UpdateForm::Streamed }
    }

    /// The pixels of `rect`, in the viewer's format and in the encodings that it takes.
    pub fn pixels(&mut self, rect: Rect, screen: &Framebuffer) -> Result<(), RfbRefusal> {
        self.painted(rect, screen.into())
    }

    /// The same of what was copied out of a framebuffer, all of it.
    pub fn part(&mut self, part: Part<'_>) -> Result<(), RfbRefusal> {
        self.painted(part.rect(), part)
    }

    /// The pixels of `rect`, in the viewer's format, one after the other.
    pub fn raw(&mut self, rect: Rect, screen: &Framebuffer) -> Result<(), RfbRefusal> {
        self.plain(rect, screen.into())
    }

    /// The viewer copies what it has at (`x`, `y`) to `rect`.
    pub fn copy(&mut self, rect: Rect, x: u16, y: u16) -> Result<(), RfbRefusal> {
        listed(self.session.features().copy_rect)?;
        let bounds = self.session.bounds();
        let from = rect.moved_to(x, y).filter(|&from| bounds.contains(from));
        if from.is_none() || !bounds.contains(rect) {
            return Err(RfbRefusal::Outside(rect));
        }
        if rect.is_empty() {
            return Ok(());
        }
        self.header(rect, Encoding::CopyRect);
        self.out.put_u16(x);
        self.out.put_u16(y);
        Ok(())
    }

    /// Another shape of the pointer; its pixels and mask must be [consistent](Cursor::is_consistent).
    pub fn cursor(&mut self, cursor: &Cursor) -> Result<(), RfbRefusal> {
        listed(self.session.features().cursor)?;
        let rect = Rect::new(cursor.hot_x, cursor.hot_y, cursor.width, cursor.height);
        let Some(rect) = rect.filter(|_| cursor.is_consistent()) else { return Err(RfbRefusal::TooLong) };
        self.header(rect, Encoding::Cursor);
        self.session.encoder.encode(&cursor.pixels, self.out);
        self.out.put_slice(&cursor.mask);
        Ok(())
    }

    /// Another size, or the answer to a SetDesktopSize. A viewer that knows only DesktopSize is told only
    /// when the size really changes: some loop otherwise.
    pub fn resize(&mut self, resize: &Resize) -> Result<(), RfbRefusal> {
        let features = self.session.features();
        listed(features.extended_desktop_size || features.desktop_size)?;
        let (width, height) = (resize.width, resize.height);
        let done = resize.status == ResizeStatus::Done;
        if features.extended_desktop_size {
            let count = u8::try_from(resize.screens.len()).map_err(|_| RfbRefusal::TooLong)?;
            // The reason and the status take the place of the position.
            self.begin();
            for n in [resize.reason.code(), resize.status.code(), width, height] {
                self.out.put_u16(n);
            }
            self.out.put_i32(Encoding::ExtendedDesktopSize.into());
            self.out.put_slice(&[count, 0, 0, 0]);
            for screen in &resize.screens {
                screen.encode(self.out);
            }
        } else if done && (width, height) != (self.session.width, self.session.height) {
            self.header(Rect::sized(width, height), Encoding::DesktopSize);
        }
        if done {
            (self.session.width, self.session.height) = (width, height);
        }
        Ok(())
    }

    /// Another name of the desktop; what is longer than 4096 bytes is cut.
    pub fn name(&mut self, name: &str) -> Result<(), RfbRefusal> {
        listed(self.session.features().desktop_name)?;
        self.header(Rect::EMPTY, Encoding::DesktopName);
        put_string(self.out, name);
        Ok(())
    }

    /// Lamps of the keyboard.
    pub fn leds(&mut self, leds: Leds) -> Result<(), RfbRefusal> {
        listed(self.session.features().led_state)?;
        self.header(Rect::EMPTY, Encoding::LedState);
        self.out.put_u8(leds.bits());
        Ok(())
    }

    /// Completes the update, as dropping it does.
    pub fn finish(self) {}

    /// What is waiting for the viewer. Of a streamed update it can be taken out while the update goes on; of
    /// a counted one nothing must be taken, so there is `None`.
    pub fn output(&mut self) -> Option<&mut BytesMut> {
        match self.form {
            UpdateForm::Streamed => Some(self.out),
            UpdateForm::Counted(_) => None,
        }
    }

    fn painted(&mut self, rect: Rect, screen: Part<'_>) -> Result<(), RfbRefusal> {
        if self.session.manner().coding == PixelCoding::Raw {
            return self.plain(rect, screen);
        }
        if !self.session.bounds().contains(rect) {
            return Err(RfbRefusal::Outside(rect));
        }
        let outside = |_| RfbRefusal::Outside(rect);
        drop(screen.rows(rect).map_err(outside)?);
        let mut painter = self.session.painter.take().unwrap_or_default();
        let pieces = painter.cut(rect, screen, self.session.manner()).map_err(outside)?;
        for piece in pieces {
            self.header(piece.rect, self.session.manner().of(piece.content).into());
            painter.paint(piece, screen, self.session.manner(), self.out).map_err(outside)?;
        }
        self.session.painter = Some(painter);
        Ok(())
    }

    fn plain(&mut self, rect: Rect, screen: Part<'_>) -> Result<(), RfbRefusal> {
        if !self.session.bounds().contains(rect) {
            return Err(RfbRefusal::Outside(rect));
        }
        let rows = screen.rows(rect).map_err(|_| RfbRefusal::Outside(rect))?;
        if rect.is_empty() {
            return Ok(());
        }
        self.header(rect, Encoding::Raw);
        self.out.reserve(rect.area() * self.session.format().bytes_per_pixel());
        rows.for_each(|row| self.session.encoder.encode(row, self.out));
        Ok(())
    }

    fn header(&mut self, rect: Rect, encoding: Encoding) {
        self.begin();
        put_rect(self.out, rect);
        self.out.put_i32(encoding.into());
    }

    /// Counts a rectangle, the first of which needs the header of a message.
    fn begin(&mut self) {
        if self.count == MOST {
            self.end();
        }
        if self.count == 0 {
            if core::mem::take(&mut self.session.colours_due) {
                put_colours(&self.session.format(), self.out);
            }
            let number = match &mut self.form {
                UpdateForm::Counted(at) => {
                    *at = self.out.len();
                    0
                }
                UpdateForm::Streamed => u16::MAX,
            };
            self.out.put_slice(&[SERVER_UPDATE, 0]);
            self.out.put_u16(number);
            if core::mem::take(&mut self.session.announce_qemu_keys) {
                put_rect(self.out, Rect::EMPTY);
                self.out.put_i32(Encoding::QemuKeys.into());
                self.count += 1;
            }
        }
        self.count += 1;
    }

    fn end(&mut self) {
        let count = core::mem::take(&mut self.count);
        match self.form {
            _ if count == 0 => {}
            UpdateForm::Counted(at) => self.out[at + 2..at + 4].copy_from_slice(&count.to_be_bytes()),
            UpdateForm::Streamed => {
                put_rect(self.out, Rect::EMPTY);
                self.out.put_i32(Encoding::LastRect.into());
            }
        }
    }
}

impl Drop for UpdateWriter<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// SetColourMapEntries: the colour of each index is that of the pixel in `format`, which has 8 bits.
fn put_colours(format: &PixelFormat, out: &mut BytesMut) {
    out.put_slice(&[SERVER_COLOURS, 0]);
    out.put_u16(0);
    out.put_u16(256);
    (0..256).flat_map(|pixel| format.colour(pixel)).for_each(|part| out.put_u16(part));
}

fn listed(listed: bool) -> Result<(), RfbRefusal> {
    if listed { Ok(()) } else { Err(RfbRefusal::NotSupported) }
}

/// One less than 65535, which many viewers take for "until LastRect".
const MOST: u16 = u16::MAX - 1;
