use font8x8::legacy::BASIC_LEGACY;
use quickset_base::number::Unsigned as _;
use quickset_rfb::Rect;

/// Words in a corner of the picture, for viewers of their own that know no such thing.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    stage: OverlayStage,
    words: Option<OverlayWords>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum OverlayStage {
    /// Nobody wants it.
    #[default]
    Off,
    Hidden,
    Shown,
}

/// Lines of text as they are painted: white on the picture, which is darkened below.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OverlayWords {
    width: u16,
    height: u16,
    /// Of each pixel, whether it is white.
    ink: Vec<bool>,
}

impl Overlay {
    /// It is shown when there are words.
    pub(crate) fn begin(&mut self) {
        self.stage = OverlayStage::Shown;
    }

    pub(crate) fn is_begun(&self) -> bool {
        self.stage != OverlayStage::Off
    }

    /// Shows it, or hides it, if it is wanted at all.
    pub(crate) fn toggle(&mut self) {
        self.stage = match self.stage {
            OverlayStage::Off => OverlayStage::Off,
            OverlayStage::Hidden => OverlayStage::Shown,
            OverlayStage::Shown => OverlayStage::Hidden,
        };
    }

    pub(crate) fn set(&mut self, words: OverlayWords) {
        self.words = Some(words);
    }

    /// The words that are to be seen.
    pub(crate) fn shown(&self) -> Option<&OverlayWords> {
        self.words.as_ref().filter(|_| self.stage == OverlayStage::Shown)
    }
}

impl OverlayWords {
    /// Lines of ASCII for a screen of this size: on a large one a pixel of a letter is four.
    pub(crate) fn new(lines: &[String], screen: Rect) -> Self {
        let scale = if screen.width() >= LARGE.0 && screen.height() >= LARGE.1 { 2 } else { 1 };
        let columns = lines.iter().map(|line| line.chars().count()).max().unwrap_or_default();
        let (across, down) = (columns * LETTER + 2 * MARGIN, lines.len() * LEADING + 2 * MARGIN);
        let (width, height) = (across * scale, down * scale);
        let glyph = |letter: char| BASIC_LEGACY.get(letter as usize).copied().unwrap_or_default();
        let glyphs: Vec<Vec<_>> = lines.iter().map(|line| line.chars().map(glyph).collect()).collect();
        let dots = (0..height).flat_map(|y| (0..width).map(move |x| (x / scale, y / scale)));
        let ink = dots.map(|(x, y)| is_ink(&glyphs, x, y).unwrap_or_default()).collect();
        Self { width: width.saturated(), height: height.saturated(), ink }
    }

    /// Where it is: the upper right corner. What does not fit there is cut off.
    pub(crate) fn area(&self, screen: Rect) -> Rect {
        let left = screen.right().saturating_sub(self.width);
        Rect::between(left, 0, screen.right(), self.height.min(screen.bottom()))
    }

    /// Paints it over the pixels of its area.
    pub(crate) fn paint(&self, area: Rect, pixels: &mut [u32]) {
        let (wide, row) = (usize::from(self.width), usize::from(area.width()));
        for (y, line) in pixels.chunks_exact_mut(row.max(1)).enumerate() {
            let ink = self.ink.get(y * wide..(y + 1) * wide).unwrap_or_default();
            for (pixel, &ink) in line.iter_mut().zip(ink) {
                // A quarter of each colour: white letters can be read on anything.
                *pixel = if ink { 0x00ff_ffff } else { *pixel >> 2 & 0x003f_3f3f };
            }
        }
    }
}

/// Whether a pixel is one of a letter, whose rows have their left in the lowest bit; `None` outside of all.
fn is_ink(glyphs: &[Vec<[u8; 8]>], x: usize, y: usize) -> Option<bool> {
    let (x, y) = (x.checked_sub(MARGIN)?, y.checked_sub(MARGIN)?);
    let row = glyphs.get(y / LEADING)?.get(x / LETTER)?.get(y % LEADING)?;
    Some(row >> (x % LETTER) & 1 == 1)
}

/// Pixels from one letter to the next, from one line to the next, and around all.
const LETTER: usize = 8;
const LEADING: usize = 11;
const MARGIN: usize = 4;
/// Columns and rows of a screen on which letters of 8 pixels are too small.
const LARGE: (u16, u16) = (1000, 600);

#[cfg(test)]
mod tests {
    use super::*;

    /// The words as text, a character for each pixel.
    fn drawn(words: &OverlayWords) -> Vec<String> {
        let row = |row: &[bool]| row.iter().map(|&ink| if ink { '#' } else { '.' }).collect();
        words.ink.chunks(words.width.into()).map(row).collect()
    }

    #[test]
    fn letters_can_be_read() {
        let words = OverlayWords::new(&["T".into(), "é1".into()], Rect::sized(100, 100));
        assert_eq!((words.width, words.height), (24, 30));
        let rows = drawn(&words);
        // The bar of the T is wider than its stem, and above it; what is no ASCII is left out.
        let count = |row: usize| rows[row].matches('#').count();
        assert!(count(MARGIN) > count(MARGIN + 4) && count(MARGIN + 4) > 0, "{rows:#?}");
        assert!(rows[MARGIN + LEADING..].iter().all(|row| !row[..MARGIN + LETTER].contains('#')));
        assert!(rows[MARGIN + LEADING..].iter().any(|row| row[MARGIN + LETTER..].contains('#')));
        // Twice as large on a large screen.
        let large = OverlayWords::new(&["T".into(), "é1".into()], Rect::sized(1920, 1080));
        let wide = |row: &String| row.chars().flat_map(|c| [c, c]).collect::<String>();
        let doubled: Vec<String> = rows.iter().flat_map(|row| [wide(row), wide(row)]).collect();
        assert_eq!(drawn(&large), doubled);
    }

    #[test]
    fn it_is_cut_where_it_does_not_fit() {
        let words = OverlayWords::new(&["round trip".into()], Rect::sized(20, 10));
        for (width, height) in [(20, 10), (0, 0), (1, 100), (500, 5), (500, 500)] {
            let screen = Rect::sized(width, height);
            let area = words.area(screen);
            assert!(screen.contains(area) || area.is_empty(), "{area}");
            let mut pixels = vec![0x00ff_8000; area.area()];
            words.paint(area, &mut pixels);
            assert!(pixels.iter().all(|&pixel| pixel == 0x00ff_ffff || pixel == 0x003f_2000));
        }
    }
}
