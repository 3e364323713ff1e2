use quickset_rfb::{Cursor, Framebuffer};

use super::{RecorderNews, ScreenRecorder};
use crate::message::ScreenOrder;
use crate::receiver::Changes;

/// What one session gives to a recording.
#[derive(Debug)]
pub(crate) struct RecorderTap {
    recorder: ScreenRecorder,
    /// In the order latest what a message draws depends on what was drawn before: pixels are given.
    by_pixels: bool,
    /// What was drawn and not shown yet.
    messages: Vec<u8>,
    lengths: Vec<usize>,
}

impl RecorderTap {
    /// A session begins with this order.
    pub(crate) fn new(recorder: &ScreenRecorder, order: ScreenOrder) -> Self {
        recorder.push(RecorderNews::Lost);
        let by_pixels = order == ScreenOrder::Latest;
        Self { recorder: recorder.clone(), by_pixels, messages: Vec::new(), lengths: Vec::new() }
    }

    /// A screen message was drawn.
    pub(crate) fn message(&mut self, message: &[u8]) {
        if !self.by_pixels {
            self.messages.extend_from_slice(message);
            self.lengths.push(message.len());
        }
    }

    /// What was drawn is shown: the screen is so, with these changes.
    pub(crate) fn show(&mut self, screen: &Framebuffer, changes: &Changes) {
        if screen.bounds().is_empty() {
            return;
        }
        let (messages, lengths) = (std::mem::take(&mut self.messages), std::mem::take(&mut self.lengths));
        if self.recorder.wants_picture() || self.by_pixels && changes.resized {
            self.recorder.push(RecorderNews::Picture(screen.clone()));
        } else if !lengths.is_empty() {
            self.recorder.push(RecorderNews::Messages(messages, lengths));
        } else if self.by_pixels && !changes.damage.is_empty() {
            let area = changes.damage.area();
            let parts = area.rects().iter().filter_map(|&rect| {
                let mut pixels = Vec::new();
                screen.read(rect, &mut pixels).ok()?;
                Some((rect, pixels))
            });
            self.recorder.push(RecorderNews::Pixels(parts.collect()));
        }
    }

    pub(crate) fn name(&self, name: &str) {
        self.recorder.push(RecorderNews::Name(name.to_owned()));
    }

    pub(crate) fn cursor(&self, cursor: &Cursor) {
        self.recorder.push(RecorderNews::Cursor(cursor.clone()));
    }
}

impl ScreenRecorder {
    /// Where the pointer is.
    pub(crate) fn pointer(&self, x: u16, y: u16) {
        self.push(RecorderNews::Pointer(x, y));
    }
}
