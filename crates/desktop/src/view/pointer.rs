use quickset_rfb::{Cursor, Framebuffer, Rect, Region};

use super::desk::ViewerScreenState;

/// Where the pointer is painted on the screen of a viewer that cannot be told its shape (RFC 6143 §7.8.1:
/// without the pseudo-encoding it is up to the server to draw it).
#[derive(Debug, Default)]
pub(super) struct Painted {
    at: Option<(u16, u16)>,
    area: Rect,
    /// What was painted on the screen when it was last told of it.
    told: Region,
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

    /// The screen as this viewer sees it: the box above the picture, and the pointer above the box.
    pub(super) fn paint<'a>(&mut self, desk: &'a mut ViewerScreenState) -> PaintedScreen<'a> {
        let ViewerScreenState { screen, cursor, overlay, .. } = desk;
        let mut below = Vec::new();
        if let Some(words) = overlay.shown() {
            let area = words.area(screen.bounds());
            if let Some(mut pixels) = keep(screen, area, &mut below) {
                words.paint(area, &mut pixels);
                let put = screen.put(area, &pixels);
                debug_assert_eq!(put, Ok(()), "it was read from there");
            }
        }
        if let (Some((x, y)), Some(cursor)) = (self.at, cursor) {
            let area = self.area.intersection(screen.bounds());
            if keep(screen, area, &mut below).is_some() {
                screen.draw(cursor, x, y);
            }
        }
        let mut only_here = std::mem::take(&mut self.told);
        for (area, _) in &below {
            self.told.add(*area);
        }
        only_here.union(&self.told);
        PaintedScreen { screen, only_here, below }
    }
}

/// Reads what is to be painted over, and remembers it.
fn keep(screen: &Framebuffer, area: Rect, below: &mut Vec<(Rect, Vec<u32>)>) -> Option<Vec<u32>> {
    let mut pixels = Vec::new();
    screen.read(area, &mut pixels).ok()?;
    below.push((area, pixels.clone()));
    Some(pixels)
}

/// A screen with what is painted on it for a viewer. When this is dropped the screen is as it was, for
/// everybody else.
#[derive(Debug)]
pub(super) struct PaintedScreen<'a> {
    pub(super) screen: &'a mut Framebuffer,
    /// Where this viewer's screen is not everybody's, now or before it is told.
    pub(super) only_here: Region,
    /// What was there, in the order in which it was painted over.
    below: Vec<(Rect, Vec<u32>)>,
}

impl Drop for PaintedScreen<'_> {
    fn drop(&mut self) {
        while let Some((area, pixels)) = self.below.pop() {
            let put = self.screen.put(area, &pixels);
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
