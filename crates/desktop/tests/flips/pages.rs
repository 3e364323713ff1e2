use quickset_base::Rng;
use quickset_rfb::Rect;

/// The screen that a page fills.
pub(crate) const PAGE: Rect = Rect::sized(1024, 768);

/// Pages of text in shades of grey, as a browser shows them. No two are alike.
pub(crate) struct Book {
    letters: Vec<Letter>,
}

/// How dark each of its pixels is, row by row.
type Letter = [u32; (WIDTH * HEIGHT) as usize];

impl Book {
    pub(crate) fn new() -> Self {
        let mut rng = Rng::new(1);
        Self { letters: (0..LETTERS).map(|_| letter(&mut rng)).collect() }
    }

    /// The pixels of a page, row by row.
    pub(crate) fn page(&self, number: u64) -> Vec<u32> {
        let mut rng = Rng::new(number);
        let mut pixels = vec![PAPER; PAGE.area()];
        for y in (HEIGHT..PAGE.height() - 2 * HEIGHT).step_by(LEADING.into()) {
            self.write(&mut rng, &mut pixels, y);
        }
        pixels
    }

    /// The pixels of a line as high as one of a page.
    pub(crate) fn line(&self, number: u64) -> Vec<u32> {
        let mut pixels = vec![PAPER; usize::from(PAGE.width()) * usize::from(LEADING)];
        self.write(&mut Rng::new(number), &mut pixels, 1);
        pixels
    }

    fn write(&self, rng: &mut Rng, pixels: &mut [u32], y: u16) {
        // The right edge is ragged.
        let columns = PAGE.width() / WIDTH - 4 - rng.below(10) as u16;
        let mut blank = 0;
        for column in 4..columns {
            if column == blank {
                continue;
            }
            if blank < column {
                blank = column + 2 + rng.below(9) as u16;
            }
            let letter = &self.letters[rng.below(LETTERS) as usize];
            put(letter, pixels, (column * WIDTH, y));
        }
    }
}

/// A few strokes between the nodes of a grid, with soft edges.
fn letter(rng: &mut Rng) -> Letter {
    let mut node = || (0.5 + rng.below(3) as f32 * 2.5, 2.0 + rng.below(4) as f32 * 3.0);
    let strokes: Vec<_> = (0..4).map(|_| (node(), node())).collect();
    std::array::from_fn(|at| {
        let (x, y) = (f32::from(at as u16 % WIDTH), f32::from(at as u16 / WIDTH));
        let near = strokes.iter().map(|&(a, b)| distance((x, y), a, b)).fold(f32::MAX, f32::min);
        ((1.4 - near).clamp(0.0, 1.0) * SHADES as f32) as u32 * (0xff / SHADES)
    })
}

/// From a point to the line between `a` and `b`.
fn distance((x, y): (f32, f32), a: (f32, f32), b: (f32, f32)) -> f32 {
    let (dx, dy) = (b.0 - a.0, b.1 - a.1);
    let along = ((x - a.0) * dx + (y - a.1) * dy) / (dx * dx + dy * dy).max(1.0);
    let along = along.clamp(0.0, 1.0);
    (x - a.0 - along * dx).hypot(y - a.1 - along * dy)
}

fn put(letter: &Letter, pixels: &mut [u32], (x, y): (u16, u16)) {
    let rows = pixels.chunks_exact_mut(PAGE.width().into()).skip(y.into());
    for (row, ink) in rows.zip(letter.chunks_exact(WIDTH.into())) {
        let row = &mut row[x.into()..];
        row.iter_mut().zip(ink).for_each(|(pixel, ink)| *pixel -= ink * 0x01_01_01);
    }
}

const LETTERS: u64 = 60;
const WIDTH: u16 = 7;
const HEIGHT: u16 = 14;
/// From one line to the next.
pub(crate) const LEADING: u16 = 16;
const PAPER: u32 = 0x00ff_ffff;
/// Of grey.
const SHADES: u32 = 5;
