//! What is played, and what is found.

use std::time::{Duration, Instant};

use quickset_rfb::Rect;

use super::desktop::{Desktop, colour};
use super::film::{EVERY, FILM, FIRST as FIRST_PICTURES, Reel, Screening};
use super::glass::Glance;
use super::lane::{LOOK, Lane, Spent};
use super::pages::{Book, LEADING, PAGE};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Pages,
    Films,
    Lines,
}

/// A column of a table: its name for programs, its heading, and how many digits are behind the point.
pub(crate) type Column = (&'static str, &'static str, usize);

impl Part {
    pub(crate) fn read(name: &str) -> Self {
        let all = [Self::Pages, Self::Films, Self::Lines];
        let found = all.into_iter().find(|part| part.name() == name);
        found.unwrap_or_else(|| panic!("there is no part {name:?}, but pages, films and lines"))
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pages => "pages",
            Self::Films => "films",
            Self::Lines => "lines",
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Self::Pages => "pages of text, ms until the viewer shows all of one",
            Self::Films => {
                "a film of 512 by 288 at 20 pictures a second, ms until one is there, and from one to the next"
            }
            Self::Lines => {
                "a terminal that scrolls by 25 lines a second, ms until one is there, and from one to the next"
            }
        }
    }

    /// What is counted.
    pub(crate) fn one(self) -> &'static str {
        match self {
            Self::Pages => "page",
            Self::Films => "picture",
            Self::Lines => "line",
        }
    }

    pub(crate) fn columns(self) -> Vec<Column> {
        let own: &[Column] = match self {
            Self::Pages => &[
                ("pages", "pages", 0),
                ("p50_ms", "p50", 1),
                ("p95_ms", "p95", 1),
                ("p99_ms", "p99", 1),
                ("max_ms", "max", 1),
            ],
            Self::Films => &[
                ("pictures", "pictures", 0),
                ("seen", "seen", 0),
                ("lag_p50_ms", "lag p50", 1),
                ("lag_p95_ms", "p95", 1),
                ("gap_p95_ms", "gap p95", 1),
                ("gap_max_ms", "longest", 1),
                ("key_p95_ms", "key p95", 1),
                ("psnr_db", "PSNR", 1),
            ],
            Self::Lines => &[
                ("lines", "lines", 0),
                ("updates_per_s", "updates/s", 1),
                ("lag_p50_ms", "lag p50", 1),
                ("lag_p95_ms", "p95", 1),
                ("gap_p95_ms", "gap p95", 1),
                ("gap_max_ms", "longest", 1),
            ],
        };
        [own, COSTS].concat()
    }
}

/// What each part costs: bytes of the link for each page, picture or line, and seconds of processors for all.
const COSTS: &[Column] = &[
    ("bytes_each", "bytes each", 0),
    ("server_cpu_s", "server s", 2),
    ("serve_cpu_s", "serve s", 2),
    ("view_cpu_s", "view s", 2),
    ("viewer_cpu_s", "viewer s", 2),
    ("ends_cpu_s", "all s", 2),
    ("late_p99_ms", "link late", 2),
];

/// Pages by each way in turn, the first few not counted: by them a connection learns of its path.
pub(crate) fn pages(lanes: &mut [Lane], book: &Book, flips: usize) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::with_capacity(flips); lanes.len()];
    let mut before = Vec::new();
    for number in 0..FIRST + flips {
        if number == FIRST {
            before = lanes.iter().map(Lane::spent).collect();
        }
        for (lane, times) in lanes.iter().zip(&mut times) {
            let next = Instant::now() + BETWEEN / lanes.len() as u32;
            let begun = lane.desktop.turn(book, number as u64);
            let wanted = colour(number as u64);
            lane.until("a page", |lane| whole(&lane.glass.glance(), wanted));
            if number >= FIRST {
                times.push(begun.elapsed().unwrap_or_default());
            }
            std::thread::sleep(next.saturating_duration_since(Instant::now()));
        }
    }
    let rows = lanes.iter().zip(times).zip(before).map(|((lane, times), before)| {
        let times = Sorted::new(times);
        let own = [0.5, 0.95, 0.99, 1.0].map(|share| times.ms(share));
        [&[flips as f64], &own[..], &costs(lane, before, flips)].concat()
    });
    rows.collect()
}

/// Each mark of a page has this colour.
fn whole(seen: &Glance<'_>, wanted: u32) -> bool {
    let shown = |pixel: u32| {
        [16, 8, 0].iter().fold(0, |bits, part| bits << 1 | u32::from(pixel >> part & 0xff > 127))
    };
    let mut marks =
        (30..PAGE.height()).step_by(32).flat_map(|y| (30..PAGE.width()).step_by(32).map(move |x| (x, y)));
    marks.all(|(x, y)| shown(seen.pixel(x, y)) == wanted)
}

/// A film, and letters typed beside it.
pub(crate) fn film(lane: &mut Lane, reel: &Reel, pictures: usize) -> Vec<f64> {
    let mut screening = Screening::new(reel);
    ready(lane);
    let mut next = Instant::now();
    let mut before = lane.spent();
    for number in 0..FIRST_PICTURES + pictures {
        if number == FIRST_PICTURES {
            screening.begin();
            before = lane.spent();
        }
        let picture = reel.picture(number);
        screening.draws();
        lane.desktop.put(FILM, picture);
        if let Some((letter, colour)) = screening.types(number) {
            lane.desktop.put(letter, &vec![colour; letter.area()]);
        }
        // Where the machine is late, the film is: no picture goes without a look.
        next = Instant::now().max(next + EVERY);
        loop {
            let seen = lane.glass.glance();
            screening.look(|x, y| seen.pixel(x, y));
            if Instant::now() >= next {
                break;
            }
            std::thread::sleep(LOOK);
        }
    }
    let costs = costs(lane, before, pictures);
    let played = screening.over();
    let psnr = played.psnr();
    let [lags, gaps, keys] = [played.lags, played.gaps, played.keys].map(Sorted::new);
    let own = [lags.ms(0.5), lags.ms(0.95), gaps.ms(0.95), gaps.ms(1.0), keys.ms(0.95), psnr];
    [&[pictures as f64, gaps.0.len() as f64], &own[..], &costs].concat()
}

/// A terminal that prints lines, the first few not counted.
pub(crate) fn lines(lane: &mut Lane, book: &Book, lines: usize) -> Vec<f64> {
    ready(lane);
    scroll(lane, book, 0..50);
    let before = lane.spent();
    let Scroll { lags, gaps, time } = scroll(lane, book, 50..50 + lines as u32);
    let costs = costs(lane, before, lines);
    let rate = gaps.0.len() as f64 / time.as_secs_f64();
    let own = [rate, lags.ms(0.5), lags.ms(0.95), gaps.ms(0.95), gaps.ms(1.0)];
    [&[lines as f64], &own[..], &costs].concat()
}

/// What came of lines that were printed one after the other.
struct Scroll {
    /// From when a line was printed until it was seen, or a later one in its place.
    lags: Sorted,
    /// Between two pictures that were seen.
    gaps: Sorted,
    time: Duration,
}

fn scroll(lane: &Lane, book: &Book, lines: std::ops::Range<u32>) -> Scroll {
    let begun = Instant::now();
    let (mut printed, mut lags, mut seen) = (Vec::new(), Vec::new(), vec![begun]);
    let count = lines.len();
    let look = |printed: &[Instant], lags: &mut Vec<Duration>, seen: &mut Vec<Instant>| {
        let now = Instant::now();
        // How many of those lines that it may be are behind the newest one.
        let newest = lines.start + printed.len() as u32;
        let behind = (newest + CODES - bottom(&lane.glass.glance())) % CODES;
        let there = (printed.len() as u32).saturating_sub(behind) as usize;
        if there > lags.len() {
            lags.extend(printed[lags.len()..there].iter().map(|&printed| now - printed));
            seen.push(now);
        }
    };
    for line in lines.clone() {
        printed.push(Instant::now());
        print(&lane.desktop, book, line + 1);
        let next = begun + LINES * printed.len() as u32;
        while Instant::now() < next {
            look(&printed, &mut lags, &mut seen);
            std::thread::sleep(LOOK);
        }
    }
    lane.until("the last line", |_| {
        look(&printed, &mut lags, &mut seen);
        lags.len() == count
    });
    let gaps = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
    Scroll { lags: Sorted::new(lags), gaps: Sorted::new(gaps), time: begun.elapsed() }
}

/// Everything goes up by a line, and the new one is drawn at the bottom, with its number in the margin.
fn print(desktop: &Desktop, book: &Book, line: u32) {
    desktop.scroll(LEADING);
    let mut pixels = book.line(line.into());
    for (at, pixel) in pixels.iter_mut().enumerate() {
        let digit = (at % usize::from(PAGE.width())) / DIGIT;
        if digit < DIGITS {
            *pixel = (line >> (3 * digit) & 7) * 0x20_20_20 + 0x10_10_10;
        }
    }
    desktop.put(BOTTOM, &pixels);
}

/// The number of the line at the bottom, as far as it is told.
fn bottom(seen: &Glance<'_>) -> u32 {
    let digit = |n: usize| seen.pixel((n * DIGIT + DIGIT / 2) as u16, BOTTOM.top() + 8) >> 13 & 7;
    (0..DIGITS).rev().fold(0, |code, n| code << 3 | digit(n))
}

/// Waits until the viewer shows what is drawn: black at first, then a page's mark of another colour.
fn ready(lane: &Lane) {
    for shade in [0x00_ff_ff, 0] {
        lane.desktop.put(PAGE, &vec![shade; PAGE.area()]);
        let corners = [(0, 0), (PAGE.width() - 1, PAGE.height() - 1)];
        lane.until("a screen of one colour", |lane| {
            let seen = lane.glass.glance();
            corners.iter().all(|&(x, y)| seen.pixel(x, y) == shade)
        });
    }
}

fn costs(lane: &Lane, before: Spent, count: usize) -> Vec<f64> {
    let Spent { bytes, server, serve, view, viewer } = lane.spent().since(before);
    let times = [server, serve, view, viewer, server + serve + view + viewer].map(|time| time.as_secs_f64());
    let late = lane.tunnel.lateness().percentile(0.99);
    [&[bytes as f64 / count as f64], &times[..], &[1000.0 * late.as_secs_f64()]].concat()
}

/// Times in order.
struct Sorted(Vec<Duration>);

impl Sorted {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    /// What such a share of them took at most, in ms; nothing is not a number.
    fn ms(&self, share: f64) -> f64 {
        let at = (self.0.len() as f64 * share).ceil() as usize;
        self.0.get(at.max(1) - 1).map_or(f64::NAN, |time| 1000.0 * time.as_secs_f64())
    }
}

/// From one page of a desktop to the next.
const BETWEEN: Duration = Duration::from_millis(700);
/// Pages that are not counted.
const FIRST: usize = 5;
/// From one line of a terminal to the next: 25 a second.
const LINES: Duration = Duration::from_millis(40);
const BOTTOM: Rect = match Rect::new(0, PAGE.height() - LEADING, PAGE.width(), LEADING) {
    Some(rect) => rect,
    None => panic!("it is in the page"),
};
/// The number of a line: so many octal digits as shades of grey, each so many pixels wide, and how many lines
/// they tell apart.
const DIGITS: usize = 3;
const DIGIT: usize = 8;
const CODES: u32 = 1 << (3 * DIGITS);

#[test]
fn a_share_of_times_is_what_so_many_took_at_most() {
    let times = Sorted::new([40, 10, 30, 20].map(Duration::from_millis).to_vec());
    for (share, ms) in [(0.0, 10.0), (0.25, 10.0), (0.5, 20.0), (0.51, 30.0), (0.99, 40.0), (1.0, 40.0)] {
        assert!((times.ms(share) - ms).abs() < 1e-9, "{share}");
    }
    assert!(Sorted::new(Vec::new()).ms(0.5).is_nan());
}
