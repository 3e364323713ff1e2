//! A film over both gateways.

use std::fmt::Write as _;
use std::time::Instant;

use quickset_sim::LossModel;

use super::far::Desktop;
use super::film::{EVERY, FILM, FIRST, Played, Reel, Screening};
use super::ms;
use super::person::Person;
use super::vnc::Order as Draw;

impl Desktop {
    /// Plays so many pictures, and types beside them.
    pub(crate) async fn play(&mut self, reel: &Reel, pictures: usize) -> Played {
        let mut screening = Screening::new(reel);
        let begun = Instant::now();
        let mut told = 0;
        for number in 0..FIRST + pictures {
            if number == FIRST {
                screening.begin();
                told = self.told_bytes().len().saturating_sub(1);
            }
            let (vnc, person) = self.both();
            let picture = reel.picture(number).clone();
            screening.draws();
            vnc.tell(Draw::Put(FILM, picture));
            if let Some((letter, colour)) = screening.types(number) {
                vnc.tell(Draw::Fill(letter, colour));
            }
            let next = tokio::time::Instant::from_std(begun + EVERY * (number as u32 + 1));
            let mut before = person.updates;
            let changed =
                |person: &mut Person| std::mem::replace(&mut before, person.updates) != person.updates;
            let mut changed = changed;
            while tokio::time::timeout_at(next, person.until("an update", &mut changed)).await.is_ok() {
                screening.look(|x, y| pixel(person, x, y));
            }
        }
        let told = self.told_bytes().split_off(told);
        let (vnc, person) = self.both();
        person.sees(vnc).await;
        let mut played = screening.over();
        if let [first, .., last] = told[..] {
            let time = f64::from((told.len() - 1) as u32);
            played.bytes = Some((last - first) as f64 / time * EVERY.as_secs_f64());
        }
        played
    }
}

fn pixel(person: &Person, x: u16, y: u16) -> u32 {
    person.screen.pixels()[usize::from(y) * usize::from(person.screen.width()) + usize::from(x)]
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
        let bytes = self.bytes.map_or("-".into(), |bytes| format!("{bytes:.0}"));
        let _ = write!(line, " {bytes:>8} {:>6.1}", self.psnr());
        line
    }
}

pub(crate) const HEAD: &str = "\
                                ms until a picture is there  ms from one to the next    ms until a key is there
order    loss    pictures  seen    p50    p95    max    p50    p95    max    p50    p95    max  bytes/p   PSNR";
