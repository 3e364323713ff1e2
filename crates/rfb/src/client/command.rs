//! What a viewer says; RFC 6143 §7.5.

use bytes::BufMut;
use quickset_base::number::Unsigned as _;

use super::{Client, RfbExtension};
use crate::clipboard::put_latin1;
use crate::protocol::{
    CONTINUOUS_UPDATES, CUT_TEXT, KEY, MAX_TEXT, POINTER, QEMU, REQUEST, SET_DESKTOP_SIZE, SET_ENCODINGS,
    SET_PIXEL_FORMAT, put_rect,
};
use crate::{Encoding, ExtendedClipboard, Fence, Rect, RfbRefusal, Screen};

impl Client {
    /// Asks for the pixels of `rect`: all of them, or with `incremental` those that have changed.
    ///
    /// One request has one update for answer, and that may hold no pixels: TigerVNC answers the first with
    /// the screens, the cursor and the lamps alone. So ask again at each [`ClientEvent::UpdateEnd`],
    /// incrementally, or use [`continuous_updates`](Self::continuous_updates).
    ///
    /// [`ClientEvent::UpdateEnd`]: super::ClientEvent::UpdateEnd
    pub fn request(&mut self, incremental: bool, rect: Rect) -> Result<(), RfbRefusal> {
        self.session()?;
        self.out.put_slice(&[REQUEST, incremental.into()]);
        put_rect(&mut self.out, rect);
        Ok(())
    }

    /// A key goes down or up; `keysym` is X11's.
    pub fn key(&mut self, down: bool, keysym: u32) -> Result<(), RfbRefusal> {
        self.session()?;
        self.out.put_slice(&[KEY, down.into(), 0, 0]);
        self.out.put_u32(keysym);
        Ok(())
    }

    /// The same with the place of the key: `keycode` is the XT scan code, 0xe0 as its high bit.
    pub fn key_code(&mut self, down: bool, keysym: u32, keycode: u32) -> Result<(), RfbRefusal> {
        self.able(RfbExtension::QemuKeys)?;
        self.out.put_slice(&[QEMU, 0, 0, down.into()]);
        self.out.put_u32(keysym);
        self.out.put_u32(keycode);
        Ok(())
    }

    /// The pointer is at (`x`, `y`); bit n of `buttons` is set while button n + 1 is down.
    pub fn pointer(&mut self, buttons: u8, x: u16, y: u16) -> Result<(), RfbRefusal> {
        self.session()?;
        self.out.put_slice(&[POINTER, buttons]);
        self.out.put_u16(x);
        self.out.put_u16(y);
        Ok(())
    }

    /// Somebody copied this text. What Latin-1 lacks becomes a question mark: prefer the extended
    /// [`clipboard`](Self::clipboard).
    pub fn text(&mut self, text: &str) -> Result<(), RfbRefusal> {
        self.session()?;
        if text.len() > MAX_TEXT {
            return Err(RfbRefusal::TooLong);
        }
        put_latin1(CUT_TEXT, text, &mut self.out);
        Ok(())
    }

    /// A message of the extended clipboard.
    pub fn clipboard(&mut self, message: &ExtendedClipboard) -> Result<(), RfbRefusal> {
        self.able(RfbExtension::Clipboard)?;
        if matches!(message, ExtendedClipboard::Provide(Some(text)) if text.len() > MAX_TEXT) {
            return Err(RfbRefusal::TooLong);
        }
        message.encode(CUT_TEXT, &mut self.out);
        Ok(())
    }

    /// Changes inside `rect` come without requests, or with `None` only on request again.
    pub fn continuous_updates(&mut self, rect: Option<Rect>) -> Result<(), RfbRefusal> {
        self.able(RfbExtension::ContinuousUpdates)?;
        self.out.put_slice(&[CONTINUOUS_UPDATES, rect.is_some().into()]);
        put_rect(&mut self.out, rect.unwrap_or(Rect::EMPTY));
        Ok(())
    }

    /// Sends a fence to be answered.
    pub fn fence(&mut self, fence: &Fence) -> Result<(), RfbRefusal> {
        self.able(RfbExtension::Fence)?;
        if fence.payload.len() > Fence::MAX_PAYLOAD {
            return Err(RfbRefusal::TooLong);
        }
        fence.encode(true, &mut self.out);
        Ok(())
    }

    /// Asks for another size of the desktop; the answer is a [`Resize`](crate::Resize).
    pub fn set_desktop_size(
        &mut self,
        width: u16,
        height: u16,
        screens: &[Screen],
    ) -> Result<(), RfbRefusal> {
        self.able(RfbExtension::SetDesktopSize)?;
        let count = u8::try_from(screens.len()).map_err(|_| RfbRefusal::TooLong)?;
        self.out.put_slice(&[SET_DESKTOP_SIZE, 0]);
        self.out.put_u16(width);
        self.out.put_u16(height);
        self.out.put_slice(&[count, 0]);
        for screen in screens {
            screen.encode(&mut self.out);
        }
        Ok(())
    }

    /// Replaces the encodings of the configuration; those that we cannot read are left out.
    pub fn set_encodings(&mut self, encodings: &[Encoding]) -> Result<(), RfbRefusal> {
        self.session()?;
        self.put_encodings(encodings);
        Ok(())
    }

    pub(super) fn put_encodings(&mut self, encodings: &[Encoding]) {
        let known = encodings.iter().filter(|e| e.is_for_client()).take(u16::MAX.into());
        let numbers: Vec<i32> = known.map(|&e| e.into()).collect();
        self.out.put_slice(&[SET_ENCODINGS, 0]);
        self.out.put_u16(numbers.len().saturated());
        for n in numbers {
            self.out.put_i32(n);
        }
    }

    pub(super) fn set_format(&mut self) {
        let Ok(format) = self.session().map(super::RfbClientSession::format) else { return };
        self.out.put_u32(u32::from(SET_PIXEL_FORMAT) << 24);
        self.out.put_slice(&format.encode());
    }

    fn able(&self, extension: RfbExtension) -> Result<(), RfbRefusal> {
        if self.session()?.supports(extension) { Ok(()) } else { Err(RfbRefusal::NotSupported) }
    }
}
