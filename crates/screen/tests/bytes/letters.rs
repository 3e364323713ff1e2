//! Text as desktops show it, without any font from elsewhere: letters are a few strokes with soft edges.

use quickset_base::Rng;

/// Letters of one size.
pub(crate) struct TextFace {
    letters: Vec<FaceLetter>,
    /// From one line to the next.
    pub(crate) leading: u16,
}

/// A letter at each of the phases in which it may stand between two columns.
struct FaceLetter {
    /// From its left edge to that of the next, in quarters of a pixel.
    advance: u32,
    phases: Vec<LetterInk>,
}

/// How much of each pixel is ink, 0 to 255, row by row.
struct LetterInk {
    width: usize,
    cover: Vec<u8>,
}

/// A rectangle of pixels that is being drawn.
pub(crate) struct Canvas {
    pub(crate) width: usize,
    pub(crate) pixels: Vec<u32>,
}

impl TextFace {
    /// Letters of `size` pixels, all equally wide, as in a terminal.
    pub(crate) fn fixed(size: u16) -> Self {
        Self::new(size, 1, |_| 0.5)
    }

    /// Letters of `size` pixels of different widths, which begin at quarters of pixels, as in a browser.
    pub(crate) fn proportional(size: u16) -> Self {
        Self::new(size, PHASES, |rng| 0.28 + 0.4 * rng.unit() as f32)
    }

    fn new(size: u16, phases: u32, width: impl Fn(&mut Rng) -> f32) -> Self {
        let mut rng = Rng::new(u64::from(size) << 8 | u64::from(phases));
        let height = f32::from(size);
        let letter = |rng: &mut Rng| {
            let quarters = if phases == 1 { 4 } else { 1 };
            let advance = (width(rng) * height * 4.0).round() as u32 / quarters * quarters;
            let (across, down) = (advance as f32 / 4.0 - 1.0, height * 0.8);
            let mut node = || (rng.below(3) as f32 * across / 2.0, 1.0 + rng.below(4) as f32 * down / 3.0);
            let strokes: Vec<_> = (0..3).map(|_| (node(), node())).collect();
            let phases = (0..phases).map(|phase| ink(&strokes, advance, phase, size)).collect();
            FaceLetter { advance, phases }
        };
        Self { letters: (0..LETTERS).map(|_| letter(&mut rng)).collect(), leading: size + size / 3 }
    }

    /// Writes words of a language in which some are more frequent than others, from (`x`, `y`) to the column
    /// `end`.
    pub(crate) fn line(&self, rng: &mut Rng, canvas: &mut Canvas, (x, y): (u16, u16), end: u16, ink: u32) {
        let mut at = u32::from(x) * 4;
        loop {
            // The frequency of a word is about the inverse of its rank.
            let rank = (WORDS as f64).powf(rng.unit()) as u64;
            let mut letters = Rng::new(rank);
            let length = 2 + rank.ilog2() / 2 + letters.below(5) as u32;
            let word: Vec<usize> = (0..length).map(|_| letter(&mut letters)).collect();
            let width: u32 = word.iter().map(|&n| self.letters[n].advance).sum();
            if at + width + 4 * u32::from(self.leading) > u32::from(end) * 4 {
                return;
            }
            for n in word {
                at += self.put(n, canvas, (at, y), ink);
            }
            at += u32::from(self.leading / 4) * 4;
        }
    }

    /// One letter; the next begins so many quarters of a pixel behind it.
    pub(crate) fn put(&self, letter: usize, canvas: &mut Canvas, (quarters, y): (u32, u16), ink: u32) -> u32 {
        let letter = &self.letters[letter % self.letters.len()];
        let phase = &letter.phases[(quarters % 4) as usize % letter.phases.len()];
        let left = (quarters / 4) as usize;
        let rows = canvas.pixels.chunks_exact_mut(canvas.width).skip(y.into());
        for (row, cover) in rows.zip(phase.cover.chunks_exact(phase.width)) {
            for (pixel, &cover) in row.iter_mut().skip(left).zip(cover) {
                *pixel = blend(*pixel, ink, cover);
            }
        }
        letter.advance
    }
}

impl Canvas {
    pub(crate) fn new(width: u16, height: u16, paper: u32) -> Self {
        let width = usize::from(width);
        Self { width, pixels: vec![paper; width * usize::from(height)] }
    }

    pub(crate) fn fill(&mut self, (x, y): (u16, u16), (width, height): (u16, u16), colour: u32) {
        for row in self.pixels.chunks_exact_mut(self.width).skip(y.into()).take(height.into()) {
            row[x.into()..][..width.into()].fill(colour);
        }
    }
}

/// Few letters are most of a text.
fn letter(rng: &mut Rng) -> usize {
    ((LETTERS as f64).powf(rng.unit()) - 1.0) as usize
}

fn blend(paper: u32, ink: u32, cover: u8) -> u32 {
    let cover = u32::from(cover);
    let part = |shift: u32| {
        let [paper, ink] = [paper, ink].map(|colour| colour >> shift & 0xff);
        ((paper * (255 - cover) + ink * cover + 127) / 255) << shift
    };
    part(16) | part(8) | part(0)
}

type Stroke = ((f32, f32), (f32, f32));

fn ink(strokes: &[Stroke], advance: u32, phase: u32, size: u16) -> LetterInk {
    let width = (advance / 4) as usize + 2;
    let weight = 0.6 + f32::from(size) / 28.0;
    let cover = (0..width * usize::from(size)).map(|at| {
        let x = (at % width) as f32 - phase as f32 / 4.0;
        let y = (at / width) as f32;
        let near = strokes.iter().map(|&(a, b)| distance((x, y), a, b)).fold(f32::MAX, f32::min);
        ((weight - near).clamp(0.0, 1.0) * SHADES).round() / SHADES * 255.0
    });
    LetterInk { width, cover: cover.map(|cover| cover as u8).collect() }
}

/// From a point to the line between `a` and `b`.
fn distance((x, y): (f32, f32), a: (f32, f32), b: (f32, f32)) -> f32 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let along = ((x - a.0) * dx + (y - a.1) * dy) / (dx * dx + dy * dy).max(1.0);
    let along = along.clamp(0.0, 1.0);
    (x - a.0 - along * dx).hypot(y - a.1 - along * dy)
}

/// Capitals, digits and marks among them.
const LETTERS: u64 = 70;
const WORDS: u64 = 3000;
const PHASES: u32 = 4;
/// Of ink: as many as a renderer of fonts makes.
const SHADES: f32 = 64.0;
