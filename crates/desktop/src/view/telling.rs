use std::sync::Arc;

use quickset_rfb::{
    Cursor, Damage, ExtendedClipboard as Extended, Formats, Leds, Part, Rect, Resize, ResizeReason,
    ResizeStatus, RfbRefusal, Server, ViewerFeatures,
};

use super::desk::{ClipboardNews, ViewerNews, ViewerScreenState};
use super::pointer::PaintedScreen;
use crate::clip::ClipboardWay;

/// What a viewer is told at one time, as it was when the desk was looked at.
///
/// The desk is everybody's, and to pack a screen takes some fifty times as long as to copy it: so it is
/// copied while the desk is looked at, and [`write`](Self::write) encodes it when others have their turn.
#[derive(Debug, Default)]
pub(super) struct Telling {
    bell: bool,
    /// The server pastes what this viewer has copied.
    asked: bool,
    text: Option<ClipboardText>,
    resizes: Vec<Resize>,
    cursor: Option<Cursor>,
    name: Option<String>,
    leds: Option<Leds>,
    damage: Damage,
    /// Those of each of its dirty rectangles, one after the other.
    pixels: Vec<u32>,
    /// It answers a request for an update.
    pub(super) updates: bool,
}

/// News of the server's clipboard, as this viewer gets them.
#[derive(Debug)]
enum ClipboardText {
    Notify,
    Provide(Arc<str>),
    Plain(Arc<str>),
}

impl Telling {
    /// Nothing yet; `pixels` is memory for them.
    pub(super) fn new(pixels: Vec<u32>) -> Self {
        Self { pixels, ..Self::default() }
    }

    /// Takes what needs no update: a beep, and news of the clipboard. True when the text has to be asked for.
    pub(super) fn take_aside(
        &mut self,
        desk: &ViewerScreenState,
        news: &mut ViewerNews,
        way: ClipboardWay,
    ) -> bool {
        self.bell = std::mem::take(&mut news.bell);
        self.asked = std::mem::take(&mut news.asked);
        self.text = match (news.clipboard.take(), &desk.text) {
            (Some(ClipboardNews::Offered), _) if way.wants_text() => return true,
            (Some(ClipboardNews::Offered | ClipboardNews::Here { wanted: false }), _)
                if way == ClipboardWay::Asked =>
            {
                Some(ClipboardText::Notify)
            }
            (Some(ClipboardNews::Here { .. }), Some(text))
                if way == ClipboardWay::Asked || way.gives(text) =>
            {
                Some(ClipboardText::Provide(text.clone()))
            }
            (Some(ClipboardNews::Here { .. }), Some(text)) => Some(ClipboardText::Plain(text.clone())),
            _ => None,
        };
        false
    }

    /// Takes everything but pixels that goes in updates. True when there was something.
    pub(super) fn take_shape(
        &mut self,
        desk: &ViewerScreenState,
        news: &mut ViewerNews,
        features: ViewerFeatures,
    ) -> bool {
        if features.extended_desktop_size || features.desktop_size {
            while let Some(status) = news.answers.next(desk) {
                // With a refusal the size does not count.
                news.size &= status != ResizeStatus::Done;
                self.resizes.push(desk.resize_for(ResizeReason::ThisClient, status));
            }
            if std::mem::take(&mut news.size) {
                self.resizes.push(desk.resize_for(ResizeReason::Server, ResizeStatus::Done));
            }
        }
        if features.cursor && news.cursor {
            self.cursor.clone_from(&desk.cursor);
            news.cursor &= self.cursor.is_none();
        }
        self.name = (features.desktop_name && std::mem::take(&mut news.name)).then(|| desk.name.clone());
        if features.led_state && news.leds {
            self.leds = desk.leds;
            news.leds &= self.leds.is_none();
        }
        let shapes = self.cursor.is_some() || self.name.is_some() || self.leds.is_some();
        shapes || !self.resizes.is_empty()
    }

    /// Takes what has changed in `area`, with its pixels. True when there was something.
    pub(super) fn take_pixels(
        &mut self,
        shown: &PaintedScreen<'_>,
        news: &mut ViewerNews,
        area: Rect,
    ) -> bool {
        self.damage = news.damage.take(area.intersection(shown.screen.bounds()));
        let dirty = self.damage.dirty();
        self.pixels.reserve_exact(dirty.area());
        for &rect in dirty.rects() {
            let read = shown.screen.read(rect, &mut self.pixels);
            debug_assert_eq!(read, Ok(()), "it was clipped");
        }
        !self.damage.is_empty()
    }

    /// Writes all of it, each size in an update of its own, and gives the memory of the pixels back.
    pub(super) fn write(self, rfb: &mut Server) -> Vec<u32> {
        let Self { bell, asked, text, resizes, cursor, name, leds, damage, mut pixels, .. } = self;
        if bell {
            refused(rfb.bell());
        }
        if asked {
            refused(rfb.clipboard(&Extended::Request(Formats::TEXT)));
        }
        match text {
            Some(ClipboardText::Notify) => refused(rfb.clipboard(&Extended::Notify(Formats::TEXT))),
            Some(ClipboardText::Provide(text)) => {
                refused(rfb.clipboard(&Extended::Provide(Some(text.to_string()))));
            }
            Some(ClipboardText::Plain(text)) => refused(rfb.text(&text)),
            None => {}
        }
        for resize in &resizes {
            refused(rfb.update().and_then(|mut update| update.resize(resize)));
        }
        if let Ok(mut update) = rfb.update() {
            refused(cursor.map_or(Ok(()), |cursor| update.cursor(&cursor)));
            refused(name.map_or(Ok(()), |name| update.name(&name)));
            refused(leds.map_or(Ok(()), |leds| update.leds(leds)));
        }
        if let Ok(mut update) = rfb.update() {
            for copy in damage.copies() {
                refused(update.copy(copy.to, copy.x, copy.y));
            }
            let mut rest = &pixels[..];
            for &rect in damage.dirty().rects() {
                let (here, others) = rest.split_at(rect.area());
                rest = others;
                let part = Part::new(rect, here).expect("as many were read");
                match update.part(part) {
                    // A viewer that cannot be told of another size sees the part that fits.
                    Err(RfbRefusal::Outside(_)) => {}
                    other => refused(other),
                }
            }
        }
        pixels.clear();
        pixels
    }
}

/// What viewers cannot be told is left out.
pub(super) fn refused(result: Result<(), RfbRefusal>) {
    if let Err(refusal) = result {
        tracing::debug!(%refusal, "a viewer is not told");
    }
}
