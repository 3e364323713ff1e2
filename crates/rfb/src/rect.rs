use core::fmt;

/// A rectangle of pixels whose edges all lie within 0..=65535, as RFB coordinates do.
///
/// Half open: it holds the columns `left..right` and the rows `top..bottom`. Nothing else can be built, so no
/// arithmetic on a `Rect` can overflow.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rect {
    // In this order, so that the derived order is that of reading: rows first.
    top: u16,
    left: u16,
    right: u16,
    bottom: u16,
}

impl Rect {
    /// No pixel.
    pub const EMPTY: Self = Self { top: 0, left: 0, right: 0, bottom: 0 };

    /// The rectangle at (`x`, `y`), `width` by `height`; `None` when an edge lies beyond 65535.
    pub const fn new(x: u16, y: u16, width: u16, height: u16) -> Option<Self> {
        match (x.checked_add(width), y.checked_add(height)) {
            (Some(right), Some(bottom)) => Some(Self { top: y, left: x, right, bottom }),
            _ => None,
        }
    }

    /// The rectangle between four edges; without area when they are in the wrong order.
    pub const fn between(left: u16, top: u16, right: u16, bottom: u16) -> Self {
        let right = if right < left { left } else { right };
        let bottom = if bottom < top { top } else { bottom };
        Self { top, left, right, bottom }
    }

    /// The rectangle of this size at the origin.
    pub const fn sized(width: u16, height: u16) -> Self {
        Self { top: 0, left: 0, right: width, bottom: height }
    }

    /// First column.
    pub const fn left(self) -> u16 {
        self.left
    }

    /// First row.
    pub const fn top(self) -> u16 {
        self.top
    }

    /// The column after the last.
    pub const fn right(self) -> u16 {
        self.right
    }

    /// The row after the last.
    pub const fn bottom(self) -> u16 {
        self.bottom
    }

    /// Columns.
    pub const fn width(self) -> u16 {
        self.right - self.left
    }

    /// Rows.
    pub const fn height(self) -> u16 {
        self.bottom - self.top
    }

    /// Pixels; at most 65535², which fits every `usize` we run on.
    pub const fn area(self) -> usize {
        self.width() as usize * self.height() as usize
    }

    /// Holds no pixel.
    pub const fn is_empty(self) -> bool {
        self.left == self.right || self.top == self.bottom
    }

    /// Holds every pixel of `other`; an empty `other` is held by all.
    pub const fn contains(self, other: Self) -> bool {
        other.is_empty()
            || self.left <= other.left
                && self.top <= other.top
                && other.right <= self.right
                && other.bottom <= self.bottom
    }

    /// Shares a pixel with `other`.
    pub const fn meets(self, other: Self) -> bool {
        !self.intersection(other).is_empty()
    }

    /// The pixels in both.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self::between(
            max(self.left, other.left),
            max(self.top, other.top),
            min(self.right, other.right),
            min(self.bottom, other.bottom),
        )
    }

    /// The smallest rectangle that holds both; an empty one does not count.
    #[must_use]
    pub const fn bounding(self, other: Self) -> Self {
        if self.is_empty() {
            return other;
        }
        if other.is_empty() {
            return self;
        }
        Self::between(
            min(self.left, other.left),
            min(self.top, other.top),
            max(self.right, other.right),
            max(self.bottom, other.bottom),
        )
    }

    /// The same size at (`x`, `y`); `None` when an edge lies beyond 65535.
    #[must_use]
    pub const fn moved_to(self, x: u16, y: u16) -> Option<Self> {
        Self::new(x, y, self.width(), self.height())
    }

    /// What of the rectangle at (`x`, `y`), `width` by `height`, lies inside `self`, whatever the numbers.
    #[must_use]
    pub const fn clip(self, x: u16, y: u16, width: u16, height: u16) -> Self {
        self.intersection(Self::between(x, y, x.saturating_add(width), y.saturating_add(height)))
    }
}

/// As X11 writes a geometry: `640x480+10+20`.
impl fmt::Display for Rect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}+{}+{}", self.width(), self.height(), self.left, self.top)
    }
}

impl fmt::Debug for Rect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

const fn min(a: u16, b: u16) -> u16 {
    if a < b { a } else { b }
}

const fn max(a: u16, b: u16) -> u16 {
    if a < b { b } else { a }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_never_pass_the_last_coordinate() {
        assert_eq!(Rect::new(65535, 0, 1, 1), None);
        assert_eq!(Rect::new(0, 1, 1, 65535), None);
        let whole = Rect::new(0, 0, 65535, 65535).unwrap();
        assert_eq!((whole.right(), whole.area()), (65535, 4_294_836_225));
        assert_eq!(whole.moved_to(0, 1), None);
    }

    #[test]
    fn intersections_and_bounds() {
        let a = Rect::new(10, 10, 10, 10).unwrap();
        let b = Rect::new(15, 5, 10, 10).unwrap();
        assert_eq!(a.intersection(b), Rect::between(15, 10, 20, 15));
        assert_eq!(a.bounding(b), Rect::between(10, 5, 25, 20));
        assert!(a.meets(b) && !a.contains(b) && a.contains(Rect::between(12, 12, 20, 20)));
        // Neighbours share an edge and no pixel.
        let right = Rect::new(20, 10, 1, 10).unwrap();
        assert!(!a.meets(right) && a.intersection(right).is_empty());
        assert!(a.contains(Rect::EMPTY) && !Rect::EMPTY.contains(a));
        assert_eq!(a.bounding(Rect::between(900, 900, 900, 999)), a);
    }

    #[test]
    fn clipping_takes_any_numbers() {
        let screen = Rect::sized(800, 600);
        assert_eq!(screen.clip(0, 0, 65535, 65535), screen);
        assert_eq!(screen.clip(790, 590, 65535, 65535), Rect::between(790, 590, 800, 600));
        assert!(screen.clip(800, 0, 5, 5).is_empty());
        assert!(screen.clip(65535, 65535, 65535, 65535).is_empty());
        assert_eq!(format!("{}", screen.clip(1, 2, 3, 4)), "3x4+1+2");
    }
}
