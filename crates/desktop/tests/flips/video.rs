//! A film, and keys typed beside it: how late its pictures come, how evenly, and how good they are.
//!
//! A picture of the film is a window onto a texture with the spectrum of a photograph, which pans, with grain
//! that is new in each picture; it begins anew every three seconds. In each square of [`SQUARE`] pixels a
//! corner says by its grey which picture it is of, so that what a viewer sees is known square by square. A
//! picture counts as seen when no square shows an older one.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use quickset_base::Rng;
use quickset_rfb::Rect;
use quickset_sim::LossModel;

use super::far::Desktop;
use super::ms;
use super::person::Person;
use super::vnc::{Order as Draw, Vnc};

/// The film: pictures that come again and again, made before they are needed, so that the times are not those
/// of whoever makes them.
pub(crate) struct Reel {
    pictures: Vec<Vec<u32>>,
}

/// What came of a film.
pub(crate) struct Played {
    /// From when a picture was drawn until it was seen, or a later one in its place; sorted.
    lags: Vec<Duration>,
    /// Between two pictures that a person saw, sorted.
    gaps: Vec<Duration>,
    /// The same as lags for letters typed beside it.
    keys: Vec<Duration>,
    /// Of screen messages, for each picture that was drawn.
    bytes: Option<f64>,
    /// Squared errors of all colours seen, and how many.
    errors: (f64, f64),
}

impl Reel {
    pub(crate) fn new() -> Self {
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
        Self { pictures: (0..PICTURES).map(|number| picture(&texture, number)).collect() }
    }

    fn picture(&self, number: usize) -> &Vec<u32> {
        &self.pictures[number % PICTURES]
    }
}

/// A picture, row by row.
fn picture(texture: &[u32], number: usize) -> Vec<u32> {
    let mut grain = number as u32 | 1;
    let grey = (number % CODES) as u32 * 32 + 16;
    let width = usize::from(FILM.width());
    let pixel = |at: usize| {
        let (x, y) = (at % width, at / width);
        if x % SQUARE < CORNER && y % SQUARE < CORNER {
            return grey * 0x01_01_01;
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
struct Screening<'a> {
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

impl Desktop {
    /// Plays so many pictures, and types beside them.
    pub(crate) async fn play(&mut self, reel: &Reel, pictures: usize) -> Played {
        let played =
            Played { lags: Vec::new(), gaps: Vec::new(), keys: Vec::new(), bytes: None, errors: (0.0, 0.0) };
        let (drawn, at) = (Vec::new(), Instant::now());
        let mut screening = Screening { reel, drawn, seen: 0, at, letter: None, played };
        let begun = Instant::now();
        let mut told = 0;
        for number in 0..FIRST + pictures {
            if number == FIRST {
                screening.played.lags.clear();
                screening.played.gaps.clear();
                screening.played.keys.clear();
                screening.played.errors = (0.0, 0.0);
                told = self.told_bytes().len().saturating_sub(1);
            }
            let (vnc, person) = self.both();
            screening.draw(vnc, number);
            let next = tokio::time::Instant::from_std(begun + EVERY * (number as u32 + 1));
            let mut before = person.updates;
            let changed =
                |person: &mut Person| std::mem::replace(&mut before, person.updates) != person.updates;
            let mut changed = changed;
            while tokio::time::timeout_at(next, person.until("an update", &mut changed)).await.is_ok() {
                screening.look(person);
            }
        }
        let told = &self.told_bytes()[told..];
        if let [first, .., last] = told {
            let time = f64::from((told.len() - 1) as u32);
            screening.played.bytes = Some((last - first) as f64 / time * EVERY.as_secs_f64());
        }
        let (vnc, person) = self.both();
        person.sees(vnc).await;
        let mut played = screening.played;
        for times in [&mut played.lags, &mut played.gaps, &mut played.keys] {
            times.sort();
        }
        played
    }
}

impl Screening<'_> {
    fn draw(&mut self, vnc: &Vnc, number: usize) {
        let picture = self.reel.picture(number).clone();
        self.drawn.push(Instant::now());
        vnc.tell(Draw::Put(FILM, picture));
        // What comes right behind a picture has it hardest.
        if number % 3 == 0 && self.letter.is_none() {
            let letter = Rect::between(700, 100, 708, 116).moved_to(700 + (number % 24) as u16 * 8, 100);
            let (letter, colour) = (letter.unwrap(), number as u32);
            vnc.tell(Draw::Fill(letter, colour));
            self.letter = Some((letter, colour, Instant::now()));
        }
    }

    /// What a person sees now.
    fn look(&mut self, person: &Person) {
        let now = Instant::now();
        let pixel = |x: u16, y: u16| {
            person.screen.pixels()[usize::from(y) * usize::from(person.screen.width()) + usize::from(x)]
        };
        if let Some((letter, colour, typed)) = self.letter {
            if pixel(letter.left(), letter.top()) == colour {
                self.played.keys.push(now - typed);
                self.letter = None;
            }
        }
        let newest = self.drawn.len();
        // The last eight pictures are told apart.
        let of = |x: u16, y: u16| {
            let code = (pixel(x + 3, y + 3) >> 8 & 0xff) as usize / 32;
            newest.saturating_sub((newest + CODES - 1 - code) % CODES)
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
}

impl Played {
    pub(crate) fn line(&self, order: &str, loss: &LossModel) -> String {
        let mut line =
            format!("{order:<8} {:<7} {:>8} {:>5}", loss.to_string(), self.lags.len(), self.gaps.len());
        for (times, percents) in
            [(&self.lags, &[50, 95, 100][..]), (&self.gaps, &[50, 95, 100]), (&self.keys, &[50, 95, 100])]
        {
            for percent in percents {
                let at = (times.len() * percent).div_ceil(100).clamp(1, times.len().max(1));
                let time = times.get(at - 1).copied().unwrap_or_default();
                let _ = write!(line, " {:>6.1}", ms(time));
            }
        }
        let (sum, count) = self.errors;
        let psnr = 10.0 * (255.0_f64.powi(2) * count / sum.max(1.0)).log10();
        let bytes = self.bytes.map_or("-".into(), |bytes| format!("{bytes:.0}"));
        let _ = write!(line, " {bytes:>8} {psnr:>6.1}");
        line
    }
}

pub(crate) const HEAD: &str = "\
                                ms until a picture is there  ms from one to the next    ms until a key is there
order    loss    pictures  seen    p50    p95    max    p50    p95    max    p50    p95    max  bytes/p   PSNR";
/// Where it plays, and how fast: 20 pictures a second.
const FILM: Rect = Rect::between(64, 64, 576, 352);
const EVERY: Duration = Duration::from_millis(50);
/// Pictures by which a connection learns of its path, which are not counted.
const FIRST: usize = 60;
/// The side of the texture.
const SIDE: usize = 1024;
const SQUARE: usize = 32;
const CORNER: usize = 8;
/// Pictures that are told apart, and that there are: a multiple of these.
const CODES: usize = 8;
const PICTURES: usize = 8 * CODES;
/// How good a picture is is looked at in one of so many.
const LOOKS: usize = 4;
