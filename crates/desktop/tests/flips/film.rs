//! A film, and keys typed beside it: how late its pictures come, how evenly, and how good they are.
//!
//! A picture of the film is a window onto a texture with the spectrum of a photograph, which pans, with grain
//! that is new in each picture; it begins anew every three seconds. In each square of [`SQUARE`] pixels one
//! corner or two say by their grey which picture it is of, so that what a viewer sees is known square by
//! square. A picture counts as seen when no square shows an older one.

use std::time::{Duration, Instant};

use quickset_base::Rng;
use quickset_rfb::Rect;

/// The film: pictures that come again and again, made before they are needed, so that the times are not those
/// of whoever makes them.
pub(crate) struct Reel {
    pictures: Vec<Vec<u32>>,
    /// Corners in each square.
    digits: usize,
}

/// What came of a film.
pub(crate) struct Played {
    /// From when a picture was drawn until it was seen, or a later one in its place; sorted.
    pub(crate) lags: Vec<Duration>,
    /// Between two pictures that a person saw, sorted.
    pub(crate) gaps: Vec<Duration>,
    /// The same as lags for letters typed beside it.
    pub(crate) keys: Vec<Duration>,
    /// Of screen messages, for each picture that was drawn.
    pub(crate) bytes: Option<f64>,
    /// Squared errors of all colours seen, and how many.
    pub(crate) errors: (f64, f64),
}

impl Reel {
    /// With so many corners in a square, one or two: by one the last eight pictures are told apart, by two
    /// all.
    pub(crate) fn new(digits: usize) -> Self {
        let mut rng = Rng::new(5);
        let mut values = vec![[0_i32; 3]; SIDE * SIDE];
        // Octaves of noise, each weaker than the one before and twice as fine. The finest is
        // grey, as the grain is: the colours of a film have half its resolution.
        for octave in 0..8 {
            let side = 4_usize << octave;
            let mut node = |most: i32| rng.below(2 * most as u64 + 1) as i32 - most;
            let mut nodes = Vec::new();
            for _ in 0..side * side {
                let grey = node([50, 40, 32, 25, 20, 16, 12, 9][octave]);
                nodes.push([(); 3].map(|()| grey + node([22, 16, 12, 9, 6, 4, 3, 0][octave])));
            }
            let step = SIDE / side;
            for (at, value) in values.iter_mut().enumerate() {
                let (x, y) = (at % SIDE, at / SIDE);
                let node = |dx, dy| &nodes[(y / step + dy) % side * side + (x / step + dx) % side];
                let [fx, fy, s] = [x % step, y % step, step].map(|n| i32::from(n as u16));
                for (c, value) in value.iter_mut().enumerate() {
                    let top = node(0, 0)[c] * (s - fx) + node(1, 0)[c] * fx;
                    let bottom = node(0, 1)[c] * (s - fx) + node(1, 1)[c] * fx;
                    *value += (top * (s - fy) + bottom * fy) / (s * s);
                }
            }
        }
        let colour =
            |value: [i32; 3]| value.iter().fold(0, |all, v| all << 8 | (v + 128).clamp(0, 247) as u32);
        let texture: Vec<u32> = values.into_iter().map(colour).collect();
        Self { pictures: (0..PICTURES).map(|number| picture(&texture, number, digits)).collect(), digits }
    }

    pub(crate) fn picture(&self, number: usize) -> &Vec<u32> {
        &self.pictures[number % PICTURES]
    }

    /// The number of a picture, as far as a square says it that begins at this place.
    fn code(&self, (x, y): (u16, u16), pixel: &impl Fn(u16, u16) -> u32) -> usize {
        let digit = |n: usize| (pixel(x + (n * CORNER) as u16 + 3, y + 3) >> 8 & 0xff) as usize / 32;
        (0..self.digits).rev().fold(0, |code, n| code * CODES + digit(n))
    }
}

/// A picture, row by row.
fn picture(texture: &[u32], number: usize, digits: usize) -> Vec<u32> {
    let mut grain = number as u32 | 1;
    let grey = |digit| (number / CODES.pow(digit) % CODES) as u32 * 32 + 16;
    let width = usize::from(FILM.width());
    let pixel = |at: usize| {
        let (x, y) = (at % width, at / width);
        if x % SQUARE < digits * CORNER && y % SQUARE < CORNER {
            return grey((x % SQUARE / CORNER) as u32) * 0x01_01_01;
        }
        grain ^= grain << 13;
        grain ^= grain >> 17;
        grain ^= grain << 5;
        let base = texture[(y + 2 * number) % SIDE * SIDE + (x + 3 * number) % SIDE];
        // The colours leave room for it.
        base + (grain & 7) * 0x01_01_01
    };
    (0..FILM.area()).map(pixel).collect()
}

/// The film while it plays.
pub(crate) struct Screening<'a> {
    reel: &'a Reel,
    /// When each picture was drawn.
    drawn: Vec<Instant>,
    /// Pictures that were seen.
    seen: usize,
    at: Instant,
    /// A letter that was typed, and when.
    letter: Option<(Rect, u32, Instant)>,
    played: Played,
}

impl<'a> Screening<'a> {
    pub(crate) fn new(reel: &'a Reel) -> Self {
        let played =
            Played { lags: Vec::new(), gaps: Vec::new(), keys: Vec::new(), bytes: None, errors: (0.0, 0.0) };
        Self { reel, drawn: Vec::new(), seen: 0, at: Instant::now(), letter: None, played }
    }

    /// The first pictures are over, and do not count.
    pub(crate) fn begin(&mut self) {
        self.played.lags.clear();
        self.played.gaps.clear();
        self.played.keys.clear();
        self.played.errors = (0.0, 0.0);
    }

    /// A picture is drawn now.
    pub(crate) fn draws(&mut self) {
        self.drawn.push(Instant::now());
    }

    /// Where a letter is to be typed behind a picture, and in which colour, if one is: what comes right
    /// behind a picture has it hardest.
    pub(crate) fn types(&mut self, number: usize) -> Option<(Rect, u32)> {
        if number % 3 != 0 || self.letter.is_some() {
            return None;
        }
        let letter = Rect::between(700, 100, 708, 116).moved_to(700 + (number % 24) as u16 * 8, 100);
        let (letter, colour) = (letter.unwrap(), number as u32);
        self.letter = Some((letter, colour, Instant::now()));
        Some((letter, colour))
    }

    /// What a person sees now.
    pub(crate) fn look(&mut self, pixel: impl Fn(u16, u16) -> u32) {
        let now = Instant::now();
        if let Some((letter, colour, typed)) = self.letter {
            if pixel(letter.left(), letter.top()) & 0xff_ff_ff == colour {
                self.played.keys.push(now - typed);
                self.letter = None;
            }
        }
        let newest = self.drawn.len();
        // How many pictures are told apart.
        let codes = CODES.pow(self.reel.digits as u32);
        let of = |x: u16, y: u16| {
            let code = self.reel.code((x, y), &pixel);
            newest.saturating_sub((newest + codes - 1 - code) % codes)
        };
        let squares = || {
            let rows = (FILM.top()..FILM.bottom()).step_by(SQUARE);
            rows.flat_map(|y| (FILM.left()..FILM.right()).step_by(SQUARE).map(move |x| (x, y)))
        };
        let oldest = squares().map(|(x, y)| of(x, y)).min().unwrap();
        if oldest <= self.seen {
            return;
        }
        self.played.gaps.push(now - self.at);
        self.at = now;
        self.played.lags.extend(self.drawn[self.seen..oldest].iter().map(|&drawn| now - drawn));
        self.seen = oldest;
        if self.played.gaps.len() % LOOKS != 0 {
            return;
        }
        // All of it is read before it is compared: where others draw, it may change meanwhile.
        for y in FILM.top()..FILM.bottom() {
            pixel(FILM.left(), y);
        }
        for (left, top) in squares() {
            let picture = self.reel.picture(of(left, top) - 1);
            for (x, y) in (top..top + 32).flat_map(|y| (left..left + 32).map(move |x| (x, y))) {
                let at =
                    usize::from(y - FILM.top()) * usize::from(FILM.width()) + usize::from(x - FILM.left());
                let (seen, drawn) = (pixel(x, y), picture[at]);
                for shift in [0, 8, 16] {
                    let error = f64::from(seen >> shift & 0xff) - f64::from(drawn >> shift & 0xff);
                    self.played.errors.0 += error * error;
                }
            }
        }
        self.played.errors.1 += 3.0 * FILM.area() as f64;
    }

    /// What came of it.
    pub(crate) fn over(self) -> Played {
        let mut played = self.played;
        for times in [&mut played.lags, &mut played.gaps, &mut played.keys] {
            times.sort();
        }
        played
    }
}

impl Played {
    /// The peak signal-to-noise ratio of what was seen, in dB; of nothing it is not a number.
    pub(crate) fn psnr(&self) -> f64 {
        let (sum, count) = self.errors;
        if count == 0.0 {
            return f64::NAN;
        }
        10.0 * (255.0_f64.powi(2) * count / sum.max(1.0)).log10()
    }
}

/// Where it plays, and how fast: 20 pictures a second.
pub(crate) const FILM: Rect = Rect::between(64, 64, 576, 352);
pub(crate) const EVERY: Duration = Duration::from_millis(50);
/// Pictures by which a connection learns of its path, which are not counted.
pub(crate) const FIRST: usize = 60;
/// The side of the texture.
const SIDE: usize = 1024;
const SQUARE: usize = 32;
const CORNER: usize = 8;
/// Pictures that one corner tells apart, and that there are: what two tell apart.
const CODES: usize = 8;
const PICTURES: usize = 8 * CODES;
/// How good a picture is is looked at in one of so many.
const LOOKS: usize = 4;
