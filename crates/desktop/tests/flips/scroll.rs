//! A terminal that scrolls: how evenly its lines come, and how late.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use quickset_rfb::Rect;
use quickset_sim::LossModel;

use super::far::Desktop;
use super::ms;
use super::pages::{Book, LEADING, PAGE};
use super::person::Person;
use super::vnc::{Order as Draw, Vnc};

/// What came of lines that were printed one after the other.
pub(crate) struct Scrolled {
    /// Between two pictures that a person saw, sorted.
    gaps: Vec<Duration>,
    /// From when a line was printed until it was seen, or a later one in its place; sorted.
    lags: Vec<Duration>,
    time: Duration,
}

impl Desktop {
    /// Prints so many lines, `every` one after the other.
    pub(crate) async fn scroll(&mut self, book: &Book, lines: u32, every: Duration) -> Scrolled {
        // A terminal is cleared first.
        let (vnc, person) = self.both();
        vnc.tell(Draw::Fill(PAGE, 0));
        person.sees(vnc).await;
        let begun = Instant::now();
        let (mut printed, mut lags, mut seen) = (Vec::new(), Vec::new(), vec![begun]);
        for line in 1..=lines {
            printed.push(Instant::now());
            print(vnc, book, line);
            let next = tokio::time::Instant::from_std(begun + every * line);
            while tokio::time::timeout_at(next, newer(person, lags.len() as u32)).await.is_ok() {
                note(person, &printed, &mut lags, &mut seen);
            }
        }
        while lags.len() < lines as usize {
            newer(person, lags.len() as u32).await;
            note(person, &printed, &mut lags, &mut seen);
        }
        let time = begun.elapsed();
        person.sees(vnc).await;
        let mut gaps: Vec<Duration> = seen.windows(2).map(|pair| pair[1] - pair[0]).collect();
        gaps.sort();
        lags.sort();
        Scrolled { gaps, lags, time }
    }
}

/// Everything goes up by a line, and the new one is drawn at the bottom.
fn print(vnc: &Vnc, book: &Book, line: u32) {
    let height = PAGE.height() - LEADING;
    vnc.tell(Draw::Copy(Rect::sized(PAGE.width(), height), 0, LEADING));
    let mut pixels = book.line(line.into());
    // By its first pixel a line is told from others; a person does not see the difference.
    pixels[0] = line;
    vnc.tell(Draw::Put(BOTTOM, pixels));
}

/// Waits until a later line is at the bottom.
async fn newer(person: &mut Person, line: u32) {
    person.until("a new line", |person| bottom(person) > line).await;
}

/// The line that is at the bottom.
fn bottom(person: &Person) -> u32 {
    let mut pixel = Vec::new();
    let corner = Rect::new(BOTTOM.left(), BOTTOM.top(), 1, 1).unwrap();
    person.screen.read(corner, &mut pixel).unwrap();
    pixel[0]
}

fn note(person: &Person, printed: &[Instant], lags: &mut Vec<Duration>, seen: &mut Vec<Instant>) {
    let now = Instant::now();
    seen.push(now);
    let seen_now = &printed[lags.len()..bottom(person) as usize];
    lags.extend(seen_now.iter().map(|&printed| now - printed));
}

impl Scrolled {
    pub(crate) fn line(&self, order: &str, loss: &LossModel) -> String {
        let mut line = format!("{order:<8} {:<7} {:>5}", loss.to_string(), self.lags.len());
        let _ = write!(line, " {:>9.1}", self.gaps.len() as f64 / self.time.as_secs_f64());
        for times in [&self.lags, &self.gaps] {
            for percent in [50, 95, 100] {
                let at = (times.len() * percent).div_ceil(100).clamp(1, times.len());
                let _ = write!(line, " {:>6.1}", ms(times[at - 1]));
            }
        }
        line
    }
}

pub(crate) const HEAD: &str = "\
                                ms until a line is there  ms from one to the next
order    loss    lines updates/s    p50    p95    max    p50    p95    max";
const BOTTOM: Rect = match Rect::new(0, PAGE.height() - LEADING, PAGE.width(), LEADING) {
    Some(rect) => rect,
    None => panic!("it is in the page"),
};
