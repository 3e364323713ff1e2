use crate::{Framebuffer, Outside, Rect};

/// Pixels in their place on a screen, borrowed: of a whole [`Framebuffer`], or of a rectangle that was copied
/// out of one, so that to encode it nobody else has to wait.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    rect: Rect,
    pixels: &'a [u32],
}

impl<'a> Part<'a> {
    /// The pixels of `rect` row by row, as [`Framebuffer::read`] appends them; there must be exactly as many.
    pub fn new(rect: Rect, pixels: &'a [u32]) -> Result<Self, Outside> {
        if pixels.len() == rect.area() { Ok(Self { rect, pixels }) } else { Err(Outside(rect)) }
    }

    /// Where it is on the screen.
    pub fn rect(self) -> Rect {
        self.rect
    }

    /// The pixel at (`x`, `y`) of the screen, if it is in this part.
    pub fn pixel(self, x: u16, y: u16) -> Option<u32> {
        let inside = Rect::sized(1, 1).moved_to(x, y).is_some_and(|one| self.rect.contains(one));
        inside.then(|| self.pixels[self.at(x, y)])
    }

    /// The rows of `rect`, a rectangle of the screen that lies within this part, from top to bottom.
    pub fn rows(self, rect: Rect) -> Result<impl ExactSizeIterator<Item = &'a [u32]>, Outside> {
        // An empty rectangle must lie inside too: rows are sliced at its left edge.
        let inside = self.rect.left() <= rect.left() && rect.right() <= self.rect.right();
        if !inside || rect.top() < self.rect.top() || self.rect.bottom() < rect.bottom() {
            return Err(Outside(rect));
        }
        Ok((rect.top()..rect.bottom())
            .map(move |y| &self.pixels[self.at(rect.left(), y)..][..rect.width() as usize]))
    }

    fn at(self, x: u16, y: u16) -> usize {
        (y - self.rect.top()) as usize * self.rect.width() as usize + (x - self.rect.left()) as usize
    }
}

impl<'a> From<&'a Framebuffer> for Part<'a> {
    fn from(screen: &'a Framebuffer) -> Self {
        Self { rect: screen.bounds(), pixels: screen.pixels() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_the_pixels_of_its_rectangle_and_no_others() {
        let mut screen = Framebuffer::new(7, 5, 1 << 10).unwrap();
        let whole = screen.bounds();
        screen.put(whole, &(0..35).collect::<Vec<u32>>()).unwrap();
        let rect = Rect::new(2, 1, 4, 3).unwrap();
        let mut pixels = Vec::new();
        screen.read(rect, &mut pixels).unwrap();
        let part = Part::new(rect, &pixels).unwrap();
        for y in 0..6 {
            for x in 0..8 {
                let inside = (2..6).contains(&x) && (1..4).contains(&y);
                let wanted = inside.then(|| u32::from(y) * 7 + u32::from(x));
                assert_eq!(part.pixel(x, y), wanted, "({x}, {y})");
                // Of every size, the empty one among them.
                for (width, height) in (0..5).flat_map(|w| (0..4).map(move |h| (w, h))) {
                    let some = Rect::new(x, y, width, height).unwrap();
                    let within = x >= 2 && x + width <= 6 && y >= 1 && y + height <= 4;
                    let rows = part.rows(some).map(|rows| rows.map(<[u32]>::to_vec).collect::<Vec<_>>());
                    let wanted = || screen.rows(some).unwrap().map(<[u32]>::to_vec).collect();
                    assert_eq!(rows, if within { Ok(wanted()) } else { Err(Outside(some)) }, "{some}");
                }
            }
        }
        assert_eq!(Part::new(rect, &pixels[1..]).err(), Some(Outside(rect)));
        assert_eq!(Part::from(&screen).pixel(6, 4), Some(34));
    }
}
