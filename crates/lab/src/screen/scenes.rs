//! What the test desktop shows. Drawn anew for each update, back to front.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "places and shades of a picture of a thousand pixels a side; what could be negative is clamped"
)]

use std::collections::VecDeque;

use quickset_base::Rng;

use super::font::{ADVANCE, LEADING, glyph};
use super::palette::{
    AMBER, BLACK, BLUE, EDGE, FILM, FILM_SHADES, GREEN, INK, LEAF, MUTED, PANEL, PAPER, RED, SHADE, SKY,
    SKY_SHADES, TERMINAL, TITLE, TITLE_TEXT, WHITE,
};
use super::{HEIGHT, WIDTH};

/// All there is on the desktop.
#[derive(Debug)]
pub(crate) struct Scenes {
    frame: u32,
    rng: Rng,
    wallpaper: Vec<u8>,
    /// Lines of the editor with their colours; the first one is partly out of sight.
    code: VecDeque<TextLine>,
    log: VecDeque<TextLine>,
}

type TextLine = Vec<(String, u8)>;

/// A rectangle on the screen, in pixels.
#[derive(Clone, Copy, Debug)]
struct ScreenArea {
    x: usize,
    y: usize,
    w: usize,
    h: usize,
}

impl Scenes {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let code = (0..EDITOR.h / LEADING + 2).map(|_| code_line(&mut rng)).collect();
        let log = (0..SHELL.h / LEADING - 1).map(|_| log_line(&mut rng, 0)).collect();
        Self { frame: 0, rng, wallpaper: wallpaper(), code, log }
    }

    /// The next frame: the editor scrolls by two pixels, the log by a line now and then, and so on.
    pub(crate) fn advance(&mut self) {
        self.frame += 1;
        if self.frame % (LEADING as u32 / SCROLL) == 0 {
            self.code.pop_front();
            self.code.push_back(code_line(&mut self.rng));
        }
        if self.frame % 4 == 0 {
            self.log.pop_front();
            self.log.push_back(log_line(&mut self.rng, self.frame));
        }
    }

    /// Draws everything.
    pub(crate) fn draw(&self, screen: &mut [u8]) {
        screen.copy_from_slice(&self.wallpaper);
        window(screen, EDITOR, "fence.rs", PAPER);
        self.editor(screen);
        window(screen, SHELL, "link counters", TERMINAL);
        for (row, line) in self.log.iter().enumerate() {
            text(screen, SHELL, 8, 8 + (row * LEADING) as i32, line);
        }
        window(screen, CINEMA, "evening.webm", BLACK);
        film(screen, CINEMA, self.frame);
        let note = self.note_area();
        window(screen, note, "note", WHITE);
        for (row, words) in
            ["a window on the move:", "old pixels are worth", "nothing here"].iter().enumerate()
        {
            text(screen, note, 14, 16 + row as i32 * 16, &[((*words).to_owned(), INK)]);
        }
        self.panel(screen);
    }

    fn editor(&self, screen: &mut [u8]) {
        let offset = (self.frame % (LEADING as u32 / SCROLL) * SCROLL) as i32;
        fill(screen, ScreenArea { w: 40, ..EDITOR }, SHADE);
        for (row, line) in self.code.iter().enumerate() {
            let number = self.frame as usize / (LEADING / SCROLL as usize) + row + 1;
            // The first line leaves at the upper edge.
            let y = 4 + (row * LEADING) as i32 - offset;
            let numbered = [(format!("{number:>5}  "), MUTED)].into_iter().chain(line.iter().cloned());
            text(screen, EDITOR, 2, y, &numbered.collect::<Vec<_>>());
        }
    }

    fn note_area(&self) -> ScreenArea {
        let (across, down) = (wave(self.frame * 5), wave(self.frame * 7 + 64));
        let x = (470 + across * 5) as usize;
        let y = (460 + down * 2) as usize;
        ScreenArea { x, y, w: 190, h: 72 }
    }

    fn panel(&self, screen: &mut [u8]) {
        let bar = ScreenArea { x: 0, y: 0, w: WIDTH, h: 26 };
        fill(screen, bar, PANEL);
        fill(screen, ScreenArea { y: 26, h: 1, ..bar }, EDGE);
        text(
            screen,
            bar,
            14,
            9,
            &[
                ("Quickset".to_owned(), GREEN),
                ("   Files   Terminal   Editor   Video".to_owned(), TITLE_TEXT),
            ],
        );
        let clock = format!("update {:05}", self.frame);
        text(screen, bar, WIDTH - 90, 9, &[(clock, AMBER)]);
    }
}

/// A frame with a title around `area`.
fn window(screen: &mut [u8], area: ScreenArea, title: &str, background: u8) {
    let ScreenArea { x, y, w, h } = area;
    fill(screen, ScreenArea { x: x - 2, y: y - BAR - 2, w: w + 4, h: h + BAR + 4 }, EDGE);
    let bar = ScreenArea { x: x - 1, y: y - BAR - 1, w: w + 2, h: BAR };
    fill(screen, bar, TITLE);
    for (i, colour) in [RED, AMBER, GREEN].into_iter().enumerate() {
        disc(screen, bar.x + 12 + 15 * i, bar.y + BAR / 2, colour);
    }
    text(screen, bar, w / 2 - title.len() * ADVANCE / 2, 7, &[(title.to_owned(), TITLE_TEXT)]);
    fill(screen, area, background);
}

fn fill(screen: &mut [u8], area: ScreenArea, colour: u8) {
    for y in area.y..(area.y + area.h).min(HEIGHT) {
        screen[y * WIDTH + area.x..y * WIDTH + (area.x + area.w).min(WIDTH)].fill(colour);
    }
}

fn disc(screen: &mut [u8], x: usize, y: usize, colour: u8) {
    for (row, half) in [1, 3, 3, 4, 4, 4, 3, 3, 1].into_iter().enumerate() {
        screen[(y + row - 4) * WIDTH + x - half..][..=2 * half].fill(colour);
    }
}

/// Words in colours, from (x, y) of `area` on, cut at its edges.
fn text(screen: &mut [u8], area: ScreenArea, mut x: usize, y: i32, words: &[(String, u8)]) {
    for (c, colour) in words.iter().flat_map(|(word, colour)| word.chars().map(move |c| (c, *colour))) {
        if x + ADVANCE > area.w {
            return;
        }
        for (row, bits) in glyph(c).into_iter().enumerate() {
            let Some(line) = usize::try_from(y + row as i32).ok().filter(|line| *line < area.h) else {
                continue;
            };
            let at = (area.y + line) * WIDTH + area.x + x;
            for column in (0..5).filter(|column| bits >> (4 - column) & 1 == 1) {
                screen[at + column] = colour;
            }
        }
        x += ADVANCE;
    }
}

/// Hills at sunset over water, with the grain of a film: a picture that no code makes small.
fn film(screen: &mut [u8], area: ScreenArea, frame: u32) {
    let mut grain = 0x9e37_79b9 ^ frame.wrapping_mul(0x85eb_ca6b);
    let shore = area.h * 2 / 3;
    let ridges: Vec<[i32; 3]> = (0..area.w as u32).map(|x| ridge(x, frame)).collect();
    for y in 0..area.h {
        let row = &mut screen[(area.y + y) * WIDTH + area.x..][..area.w];
        // The water mirrors what is above the shore, in waves.
        let (mirrored, dim) = if y < shore { (y, 0) } else { (shore - (y - shore) * 3 / 2, 16) };
        let ripple = if y < shore { 0 } else { wave((y * 23) as u32 + frame * 9) * (y - shore) as i32 / 600 };
        for (x, pixel) in row.iter_mut().enumerate() {
            let seen = (x as i32 + ripple).clamp(0, area.w as i32 - 1) as usize;
            let shade = scenery(seen, mirrored, shore, &ridges[seen], area.w) - dim;
            grain = grain.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let noise = (grain >> 29) as i32 - 3;
            *pixel = FILM + (shade + noise).clamp(0, FILM_SHADES as i32 - 1) as u8;
        }
    }
}

/// How high three chains of hills stand above the shore at `x`, the nearest first; the near ones pass faster.
fn ridge(x: u32, frame: u32) -> [i32; 3] {
    let hills = |speed: u32, width: u32, height: i32| {
        let at = x + frame * speed;
        (64 + wave(at * 256 / width) + wave(at * 613 / width) / 2) * height / 128
    };
    [hills(3, 190, 24), hills(2, 300, 58), hills(1, 420, 92)]
}

fn scenery(x: usize, y: usize, shore: usize, ridges: &[i32; 3], width: usize) -> i32 {
    let above = (shore - y) as i32;
    for (hill, shade) in ridges.iter().zip([6, 24, 42]) {
        if above < *hill {
            return shade + (hill - above) / 6;
        }
    }
    let (dx, dy) = (x as i32 - width as i32 * 2 / 3, above - 84);
    let far = dx * dx + dy * dy;
    if far < 26 * 26 {
        return 124;
    }
    // The sky is brightest at the shore and around the sun.
    let glow = (9000 / (far / 12 + 60)).min(40);
    (104 - above * 96 / shore as i32 + glow).min(122)
}

/// Two even ramps that cross, in shades wide enough to make long runs.
fn wallpaper() -> Vec<u8> {
    let mut pixels = Vec::with_capacity(WIDTH * HEIGHT);
    for y in 0..HEIGHT {
        for x in 0..WIDTH {
            let swell = wave((x * 256 / WIDTH + y * 128 / HEIGHT) as u32) + 64;
            let shade = (swell as usize / 4 + y * 32 / HEIGHT).min(SKY_SHADES - 1);
            pixels.push(SKY + shade as u8);
        }
    }
    pixels
}

/// A wave of 256 steps between -64 and 64, of two parabolas.
fn wave(step: u32) -> i32 {
    let step = (step % 256) as i32;
    let half = step % 128;
    let arc = half * (128 - half) / 64;
    if step < 128 { arc } else { -arc }
}

fn code_line(rng: &mut Rng) -> TextLine {
    const KEYWORDS: [&str; 8] = ["let", "match", "for", "if", "return", "fn", "while", "impl"];
    const NAMES: [&str; 12] = [
        "fence", "offset", "record", "segment", "window", "packet", "held", "lost", "credit", "queue",
        "update", "tile",
    ];
    const ENDS: [&str; 6] = [" {", "();", ".len();", " = 0;", " += 1;", "?;"];
    let pick = |rng: &mut Rng, from: &[&str]| from[rng.below(from.len() as u64) as usize].to_owned();
    if rng.chance(0.12) {
        return Vec::new();
    }
    let indent = " ".repeat(rng.below(4) as usize * 4);
    if rng.chance(0.15) {
        let words: Vec<String> = (0..4 + rng.below(5)).map(|_| pick(rng, &NAMES)).collect();
        return vec![(indent, INK), (format!("// {}", words.join(" ")), LEAF)];
    }
    let mut line = vec![(indent, INK), (pick(rng, &KEYWORDS), BLUE), (" ".to_owned(), INK)];
    for _ in 0..=rng.below(5) {
        line.push((pick(rng, &NAMES) + if rng.chance(0.5) { "." } else { " " }, INK));
    }
    line.push((pick(rng, &ENDS), RED));
    line
}

fn log_line(rng: &mut Rng, frame: u32) -> TextLine {
    let lost = rng.below(12) == 0;
    let packet = u64::from(frame) * 25 + rng.below(25);
    vec![
        (format!("{packet:>7} "), MUTED),
        (if lost { "lost  ".to_owned() } else { "acked ".to_owned() }, if lost { RED } else { GREEN }),
        (
            format!("{:>5} bytes  rtt {:>3}.{} ms", 900 + rng.below(560), 100 + rng.below(9), rng.below(10)),
            TITLE_TEXT,
        ),
        (format!("  window {:>4} kB", 300 + rng.below(900)), BLUE),
    ]
}

/// Pixels that the editor scrolls by with each update.
const SCROLL: u32 = 2;
/// The height of a title bar.
const BAR: usize = 20;
const EDITOR: ScreenArea = ScreenArea { x: 56, y: 74, w: 500, h: 456 };
const CINEMA: ScreenArea = ScreenArea { x: 810, y: 78, w: 400, h: 225 };
const SHELL: ScreenArea = ScreenArea { x: 700, y: 384, w: 440, h: 268 };
