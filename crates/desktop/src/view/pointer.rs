use quickset_rfb::{Cursor, Framebuffer, Rect};

use super::desk::ViewerScreenState;

/// Where the pointer is painted on the screen of a viewer that cannot be told its shape (RFC 6143 §7.8.1:
/// without the pseudo-encoding it is up to the server to draw it).
#[derive(Debug, Default)]
pub(super) struct Painted {
    at: Option<(u16, u16)>,
    area: Rect,
}

impl Painted {
    /// Puts the pointer where it is now, or nowhere when it is not `wanted`: what is to be drawn again for
    /// that, which is where it was and where it is.
    pub(super) fn follow(&mut self, desk: &ViewerScreenState, wanted: bool, other_shape: bool) -> [Rect; 2] {
        let at = desk.pointer.filter(|_| wanted && desk.cursor.is_some());
        if at == self.at && !(other_shape && wanted) {
            return [Rect::EMPTY; 2];
        }
        let area = at.zip(desk.cursor.as_ref()).map_or(Rect::EMPTY, |(at, cursor)| area(cursor, at));
        self.at = at;
        [std::mem::replace(&mut self.area, area), area]
    }

    /// The screen as this viewer sees it.
    pub(super) fn paint<'a>(&self, desk: &'a mut ViewerScreenState) -> PointerScreen<'a> {
        let ViewerScreenState { screen, cursor, .. } = desk;
        let area = self.area.intersection(screen.bounds());
        let mut below = Vec::new();
        if let (Some((x, y)), Some(cursor)) = (self.at, cursor) {
            if screen.read(area, &mut below).is_ok() {
                screen.draw(cursor, x, y);
            }
        }
        PointerScreen { screen, area, below }
    }
}

/// A screen with the pointer on it, or without. When this is dropped the screen is as it was, for everybody
/// else.
#[derive(Debug)]
pub(super) struct PointerScreen<'a> {
    pub(super) screen: &'a mut Framebuffer,
    area: Rect,
    below: Vec<u32>,
}

impl Drop for PointerScreen<'_> {
    fn drop(&mut self) {
        if !self.below.is_empty() {
            let put = self.screen.put(self.area, &self.below);
            debug_assert_eq!(put, Ok(()), "it was read from there");
        }
    }
}

/// What `cursor` covers when it points to `at`, off the screen as well.
fn area(cursor: &Cursor, at: (u16, u16)) -> Rect {
    let span = |at: u16, hot: u16, side: u16| {
        let end = (u32::from(at) + u32::from(side)).saturating_sub(hot.into());
        (at.saturating_sub(hot), u16::try_from(end).unwrap_or(u16::MAX))
    };
    let (left, right) = span(at.0, cursor.hot_x, cursor.width);
    let (top, bottom) = span(at.1, cursor.hot_y, cursor.height);
    Rect::between(left, top, right, bottom)
}
