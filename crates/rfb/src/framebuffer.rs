use core::fmt;

use crc32fast::Hasher;

use crate::{Cursor, Part, Rect, crc};

/// A shadow of a screen: `width` by `height` pixels 0x00RRGGBB, row by row.
///
/// The unused byte is kept zero, so that equal screens compare equal and have equal checksums.
#[derive(Clone, PartialEq, Eq)]
pub struct Framebuffer {
    width: u16,
    height: u16,
    pixels: Vec<u32>,
    max_bytes: usize,
}

/// The caller named pixels that the framebuffer does not have, or gave too few for the rectangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the rectangle {0} does not fit the framebuffer, or its pixels do not fill it")]
pub struct Outside(pub Rect);

/// The framebuffer would be larger than its owner allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a framebuffer of {width}x{height} is more than the {max_bytes} bytes or 16384 pixels a side allowed"
)]
pub struct TooLarge {
    /// Columns asked for.
    pub width: u16,
    /// Rows asked for.
    pub height: u16,
    /// What is allowed.
    pub max_bytes: usize,
}

impl Framebuffer {
    /// The longest side: four 4K screens in a row.
    pub const MAX_SIDE: u16 = 16384;

    /// A black screen that never takes more than `max_bytes` (4 a pixel), also when it is resized.
    pub fn new(width: u16, height: u16, max_bytes: usize) -> Result<Self, TooLarge> {
        fits(width, height, max_bytes)?;
        Ok(Self { width, height, pixels: vec![0; width as usize * height as usize], max_bytes })
    }

    /// Columns.
    pub fn width(&self) -> u16 {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> u16 {
        self.height
    }

    /// The whole of it.
    pub fn bounds(&self) -> Rect {
        Rect::sized(self.width, self.height)
    }

    /// All pixels, row by row.
    pub fn pixels(&self) -> &[u32] {
        &self.pixels
    }

    /// The pixel at (`x`, `y`), if there is one.
    pub fn pixel(&self, x: u16, y: u16) -> Option<u32> {
        (x < self.width && y < self.height).then(|| self.pixels[self.at(x, y)])
    }

    /// The rows of `rect`, from top to bottom.
    pub fn rows(&self, rect: Rect) -> Result<impl ExactSizeIterator<Item = &[u32]>, Outside> {
        Part::from(self).rows(rect)
    }

    /// Appends the pixels of `rect` to `out`, row by row.
    pub fn read(&self, rect: Rect, out: &mut Vec<u32>) -> Result<(), Outside> {
        out.reserve(if self.bounds().contains(rect) { rect.area() } else { 0 });
        self.rows(rect)?.for_each(|row| out.extend_from_slice(row));
        Ok(())
    }

    /// Paints `rect` in one colour.
    pub fn fill(&mut self, rect: Rect, colour: u32) -> Result<(), Outside> {
        self.check(rect)?;
        self.each_row(rect, |row| row.fill(colour & RGB));
        Ok(())
    }

    /// Sets the pixels of `rect`; there must be exactly as many.
    pub fn put(&mut self, rect: Rect, pixels: &[u32]) -> Result<(), Outside> {
        self.take(rect, Part::new(rect, pixels)?)
    }

    /// Sets the pixels of `rect` to what they are in `from`.
    pub fn take<'p>(&mut self, rect: Rect, from: impl Into<Part<'p>>) -> Result<(), Outside> {
        self.check(rect)?;
        let mut from = from.into().rows(rect)?;
        self.each_row(rect, |row| {
            for (to, pixel) in row.iter_mut().zip(from.next().unwrap_or_default()) {
                *to = pixel & RGB;
            }
        });
        Ok(())
    }

    /// Copies the rectangle of the size of `to` at (`x`, `y`) to `to`, as if it were lifted off first: what
    /// overlaps is copied as it was (RFC 6143 §7.7.2).
    pub fn copy(&mut self, to: Rect, x: u16, y: u16) -> Result<(), Outside> {
        self.check(to)?;
        self.check(to.moved_to(x, y).ok_or(Outside(to))?)?;
        let width = to.width() as usize;
        // Downwards the last row goes first, so that no row is read after it was written; within a row,
        // `copy_within` does the same.
        let mut rows = 0..to.height();
        while let Some(i) = if to.top() > y { rows.next_back() } else { rows.next() } {
            let from = self.at(x, y + i);
            let to = self.at(to.left(), to.top() + i);
            self.pixels.copy_within(from..from + width, to);
        }
        Ok(())
    }

    /// Changes the size. What is in both stays where it is; what is new is black.
    pub fn resize(&mut self, width: u16, height: u16) -> Result<(), TooLarge> {
        fits(width, height, self.max_bytes)?;
        if width == self.width {
            self.pixels.resize(width as usize * height as usize, 0);
        } else {
            let mut pixels = vec![0; width as usize * height as usize];
            let kept = self.width.min(width) as usize;
            if kept > 0 {
                let old = self.pixels.chunks_exact(self.width as usize);
                for (to, from) in pixels.chunks_exact_mut(width as usize).zip(old) {
                    to[..kept].copy_from_slice(&from[..kept]);
                }
            }
            self.pixels = pixels;
        }
        self.width = width;
        self.height = height;
        Ok(())
    }

    /// Draws a cursor whose hotspot is at (`x`, `y`); what lies outside is cut off.
    pub fn draw(&mut self, cursor: &Cursor, x: u16, y: u16) {
        for row in 0..cursor.height {
            for column in 0..cursor.width {
                let at = |v: u16, d: u16, hot: u16| {
                    let place = (u32::from(v) + u32::from(d)).checked_sub(hot.into())?;
                    u16::try_from(place).ok()
                };
                let place = at(x, column, cursor.hot_x).zip(at(y, row, cursor.hot_y));
                let place = place.filter(|&(x, y)| x < self.width && y < self.height);
                if let (Some((x, y)), Some(colour)) = (place, cursor.pixel(column, row)) {
                    let at = self.at(x, y);
                    self.pixels[at] = colour & RGB;
                }
            }
        }
    }

    /// CRC-32 (IEEE 802.3) of the size and all pixels as little-endian bytes. The same screen has the same
    /// sum on every machine, so that both ends of a connection can compare.
    pub fn crc32(&self) -> u32 {
        let size = u32::from(self.width) | u32::from(self.height) << 16;
        let mut sum = Hasher::new();
        crc::update(&mut sum, &[size]);
        crc::update(&mut sum, &self.pixels);
        sum.finalize()
    }

    /// CRC-32 of the pixels of `rect` alone.
    pub fn crc32_of(&self, rect: Rect) -> Result<u32, Outside> {
        let mut sum = Hasher::new();
        self.rows(rect)?.for_each(|row| crc::update(&mut sum, row));
        Ok(sum.finalize())
    }

    fn check(&self, rect: Rect) -> Result<(), Outside> {
        // An empty rectangle must lie inside too: rows are sliced at its left edge.
        let inside = rect.right() <= self.width && rect.bottom() <= self.height;
        if inside { Ok(()) } else { Err(Outside(rect)) }
    }

    fn at(&self, x: u16, y: u16) -> usize {
        y as usize * self.width as usize + x as usize
    }

    fn each_row(&mut self, rect: Rect, mut each: impl FnMut(&mut [u32])) {
        for y in rect.top()..rect.bottom() {
            let at = self.at(rect.left(), y);
            each(&mut self.pixels[at..][..rect.width() as usize]);
        }
    }
}

impl fmt::Debug for Framebuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Framebuffer({}x{}, crc32 {:08x})", self.width, self.height, self.crc32())
    }
}

fn fits(width: u16, height: u16, max_bytes: usize) -> Result<(), TooLarge> {
    let side = Framebuffer::MAX_SIDE;
    let bytes = u64::from(width) * u64::from(height) * 4;
    if width > side || height > side || bytes > max_bytes as u64 {
        return Err(TooLarge { width, height, max_bytes });
    }
    Ok(())
}

const RGB: u32 = 0x00ff_ffff;

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    fn numbered(width: u16, height: u16) -> Framebuffer {
        let mut fb = Framebuffer::new(width, height, MIB).unwrap();
        let pixels: Vec<u32> = (1..=fb.bounds().area() as u32).collect();
        fb.put(fb.bounds(), &pixels).unwrap();
        fb
    }

    #[test]
    fn copies_overlap_in_every_direction() {
        let start = numbered(9, 7);
        let (w, h) = (5, 4);
        for (from_x, from_y) in (0..=4).flat_map(|x| (0..=3).map(move |y| (x, y))) {
            for (x, y) in (0..=4).flat_map(|x| (0..=3).map(move |y| (x, y))) {
                let to = Rect::new(x, y, w, h).unwrap();
                let mut fb = start.clone();
                fb.copy(to, from_x, from_y).unwrap();
                // The model lifts the source off first.
                for (px, py) in (0..9).flat_map(|x| (0..7).map(move |y| (x, y))) {
                    let inside = to.contains(Rect::new(px, py, 1, 1).unwrap());
                    let (sx, sy) = if inside { (px - x + from_x, py - y + from_y) } else { (px, py) };
                    assert_eq!(
                        fb.pixel(px, py),
                        start.pixel(sx, sy),
                        "{from_x},{from_y} to {to} at {px},{py}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_resize_keeps_what_is_in_both() {
        for (w, h) in [(9, 7), (4, 7), (12, 7), (9, 3), (9, 9), (3, 12), (12, 3), (0, 5), (5, 0)] {
            let old = numbered(9, 7);
            let mut fb = old.clone();
            fb.resize(w, h).unwrap();
            assert_eq!(fb.pixels().len(), w as usize * h as usize);
            for (x, y) in (0..w).flat_map(|x| (0..h).map(move |y| (x, y))) {
                assert_eq!(fb.pixel(x, y), Some(old.pixel(x, y).unwrap_or(0)));
            }
            // And back from nothing.
            fb.resize(2, 2).unwrap();
            assert_eq!(fb.pixels().len(), 4);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_and_changes_nothing() {
        let mut fb = numbered(9, 7);
        let before = fb.clone();
        let wide = Rect::new(5, 0, 5, 1).unwrap();
        let inside = Rect::new(0, 0, 5, 1).unwrap();
        assert_eq!(fb.fill(wide, 1), Err(Outside(wide)));
        assert_eq!(fb.put(wide, &[0; 5]), Err(Outside(wide)));
        assert_eq!(fb.put(inside, &[0; 4]), Err(Outside(inside)));
        assert_eq!(fb.copy(inside, 5, 0), Err(Outside(wide)));
        assert_eq!(fb.copy(wide, 0, 0), Err(Outside(wide)));
        assert!(fb.copy(inside, 65535, 0).is_err());
        assert!(fb.rows(wide).is_err() && fb.crc32_of(wide).is_err());
        assert!(fb.fill(Rect::between(20, 20, 20, 20), 1).is_err());
        assert!(fb.resize(16385, 1).is_err() && fb.resize(1024, 257).is_err());
        assert_eq!(fb, before);
        assert!(Framebuffer::new(512, 512, MIB).is_ok() && Framebuffer::new(513, 512, MIB).is_err());
        assert!(Framebuffer::new(65535, 65535, usize::MAX).is_err());
    }

    #[test]
    fn checksums_know_the_size() {
        let fb = numbered(3, 2);
        assert_ne!(fb.crc32(), numbered(2, 3).crc32());
        let bytes: Vec<u8> = (1..=6_u32).flat_map(u32::to_le_bytes).collect();
        assert_eq!(fb.crc32_of(fb.bounds()).unwrap(), crc32fast::hash(&bytes));
    }

    #[test]
    fn a_cursor_is_drawn_where_it_is_opaque() {
        let mut fb = Framebuffer::new(4, 3, MIB).unwrap();
        // Opaque at (0, 0) and (2, 1) of 3x2; the hotspot is (1, 1).
        let pixels = vec![0xff00_0001, 2, 3, 4, 5, 6];
        let cursor = Cursor { width: 3, height: 2, hot_x: 1, hot_y: 1, pixels, mask: vec![0x80, 0x20] };
        assert!(cursor.is_consistent());
        fb.draw(&cursor, 1, 1);
        assert_eq!(fb.pixels(), [1, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0]);
        // At the corners one of the two is cut off, far away both.
        let mut fb = Framebuffer::new(4, 3, MIB).unwrap();
        fb.draw(&cursor, 0, 0);
        assert_eq!(fb.pixels(), [0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        fb.fill(fb.bounds(), 0).unwrap();
        fb.draw(&cursor, 4, 3);
        fb.draw(&cursor, 65535, 65535);
        assert_eq!(fb.pixels(), [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        // A cursor whose parts do not match draws what there is.
        fb.draw(&Cursor { width: 9, height: 9, ..cursor }, 1, 1);
    }

    #[test]
    fn the_unused_byte_does_not_count() {
        let (mut a, mut b) = (numbered(2, 1), numbered(2, 1));
        a.put(a.bounds(), &[0xff00_0001, 2]).unwrap();
        b.put(b.bounds(), &[0x1200_0001, 2]).unwrap();
        assert_eq!(a, b);
        a.fill(a.bounds(), 0xaa00_0000).unwrap();
        assert_eq!(a.pixels(), [0, 0]);
    }
}
