use std::io::{self, Read, Seek};

use quickset_base::{Duration, Time};
use quickset_screen::recording::RecordingPlayer;

use super::clock::{PlayClock, clock_text, share};
use crate::view::desk::ViewerScreen;

/// A recording on its way to a desk.
#[derive(Debug)]
pub(super) struct Playback<R> {
    player: RecordingPlayer<R>,
    clock: PlayClock,
    /// Somebody has stopped it.
    paused: bool,
    watched: bool,
}

/// What a viewer wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlayOrder {
    /// Stop, or go on.
    Pause,
    Back(Duration),
    Ahead(Duration),
    /// To so many hundredths of the recording.
    Share(u8),
    Slower,
    Faster,
}

impl PlayOrder {
    /// What a key is for; X11's names of keys.
    pub(super) fn of(keysym: u32) -> Option<Self> {
        Some(match keysym {
            // space, p, P, XF86AudioPlay, XF86AudioPause
            0x20 | 0x70 | 0x50 | 0x1008_ff14 | 0x1008_ff31 => Self::Pause,
            // Left, KP_Left; Right, KP_Right
            0xff51 | 0xff96 => Self::Back(SHORT),
            0xff53 | 0xff98 => Self::Ahead(SHORT),
            // Prior, KP_Prior; Next, KP_Next
            0xff55 | 0xff9a => Self::Back(LONG),
            0xff56 | 0xff9b => Self::Ahead(LONG),
            // Home, KP_Home; End, KP_End
            0xff50 | 0xff95 => Self::Share(0),
            0xff57 | 0xff9c => Self::Share(100),
            // Down, KP_Down, minus, KP_Subtract; Up, KP_Up, plus, KP_Add
            0xff54 | 0xff99 | 0x2d | 0xffad => Self::Slower,
            0xff52 | 0xff97 | 0x2b | 0xffab => Self::Faster,
            // 1 to 9
            digit @ 0x31..=0x39 => Self::Share(u8::try_from(digit - 0x30).ok()? * 10),
            _ => return None,
        })
    }
}

impl<R: Read + Seek> Playback<R> {
    pub(super) fn new(player: RecordingPlayer<R>, clock: PlayClock) -> Self {
        Self { player, clock, paused: false, watched: false }
    }

    /// Somebody watches, or nobody: then it stands.
    pub(super) fn watched(&mut self, now: Time, watched: bool) {
        if std::mem::replace(&mut self.watched, watched) != watched {
            self.settle(now);
        }
    }

    pub(super) fn obey(&mut self, now: Time, order: PlayOrder) -> io::Result<()> {
        let at = self.clock.at(now);
        match order {
            PlayOrder::Pause => {
                // Who wants to go on at the end wants to see it again.
                if self.player.next_time()?.is_none() && self.paused {
                    self.go(now, Time::ZERO)?;
                }
                self.paused = !self.paused;
            }
            PlayOrder::Back(by) => self.go(now, at - by)?,
            PlayOrder::Ahead(by) => self.go(now, at + by)?,
            PlayOrder::Share(percent) => {
                let to = share(self.player.facts().length, percent);
                self.go(now, to)?;
            }
            PlayOrder::Slower => self.clock.hurry(now, 0.5),
            PlayOrder::Faster => self.clock.hurry(now, 2.0),
        }
        self.settle(now);
        Ok(())
    }

    /// Draws what is to be seen now. Returns when there is more to draw.
    pub(super) fn turn(&mut self, now: Time, desk: &ViewerScreen) -> io::Result<Time> {
        self.player.advance(self.clock.at(now))?;
        let next = self.player.next_time()?;
        if next.is_none() && self.clock.runs() {
            self.paused = true;
            self.settle(now);
            self.clock.set(now, self.player.position());
        }
        self.show(desk)?;
        let second = Time::from_millis((self.at().as_secs() + 1) * 1000);
        let soon = next.map_or(second, |next| next.min(second));
        Ok(self.clock.when(soon).unwrap_or(Time::MAX))
    }

    /// The clock runs, or not.
    fn settle(&mut self, now: Time) {
        if self.watched && !self.paused {
            self.clock.run(now);
        } else {
            self.clock.stand(now);
        }
    }

    fn go(&mut self, now: Time, to: Time) -> io::Result<()> {
        self.player.seek(to)?;
        self.clock.set(now, self.player.position());
        Ok(())
    }

    fn show(&mut self, desk: &ViewerScreen) -> io::Result<()> {
        let changes = self.player.changes();
        let screen = self.player.screen();
        if changes.resized {
            desk.resize(screen.width(), screen.height()).map_err(io::Error::other)?;
        }
        if !changes.damage.is_empty() {
            desk.draw(screen, &changes.damage);
        }
        desk.show_pointer(self.player.cursor(), self.player.pointer());
        let title = self.title()?;
        desk.set_name(&title);
        Ok(())
    }

    /// The desktop's name, and how far it has come.
    fn title(&mut self) -> io::Result<String> {
        let is_over = self.player.next_time()?.is_none();
        let facts = self.player.facts();
        let (at, length) = (clock_text(self.at()), clock_text(facts.length));
        let speed = self.clock.speed();
        let hurry =
            if (speed - 1.0).abs() < 1e-9 { String::new() } else { format!(", {speed} times as fast") };
        let state = match (is_over, facts.is_whole) {
            (true, true) => ", its end",
            (true, false) => ", broken off here",
            (false, _) if self.paused => ", paused",
            (false, _) => "",
        };
        Ok(format!("{} (recording, {at} of {length}{hurry}{state})", self.player.name()))
    }

    fn at(&self) -> Duration {
        self.player.position().since(Time::ZERO)
    }
}

/// How far keys go.
const SHORT: Duration = Duration::from_secs(5);
const LONG: Duration = Duration::from_secs(60);
