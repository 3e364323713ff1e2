//! Where the screen moves like a film: cells that are drawn again and again within a second, in many colours.
//!
//! *In:* what each update of the RFB server has drawn. *Out:* the area in motion, which is sent behind what
//! does not move, at the rate that the link carries, and is not made lossless before it rests.
//!
//! Source: `spec/desktop.md`, DT-81.

use std::collections::VecDeque;

use quickset_base::{Duration, Time};
use quickset_rfb::{Rect, Region};

use super::quality::ArrivedFrame;
use crate::order::CellValues;

/// Cells and how they move, and frames of them that are under way.
#[derive(Debug)]
pub(super) struct ScreenMotion {
    cells: CellValues<CellMotion>,
    /// Whole cells.
    area: Region,
    /// What the update that is going on has drawn.
    drawn: Region,
    /// From one update of the area to the next, and when the last was.
    interval: Duration,
    last: Option<Time>,
    /// When to look for cells that rest.
    due: Option<Time>,
    /// The frame that is being sent.
    open: Option<MovingFrame>,
    /// Sent, oldest first.
    frames: VecDeque<MovingFrame>,
    /// Messages that began with what does not move, as both waited.
    ahead: u8,
    /// No frame is begun until then, unless one arrives before.
    held: Option<Time>,
    /// The lossless refresh goes on then.
    refresh: Option<Time>,
}

#[derive(Clone, Copy, Debug, Default)]
struct CellMotion {
    /// When it was drawn last.
    last: Option<Time>,
    /// How often it was drawn with less than a third of a second in between.
    times: u8,
    moves: bool,
}

/// The part in motion of an update.
#[derive(Clone, Copy, Debug)]
struct MovingFrame {
    begun: Time,
    bytes: u64,
    /// The last two messages with something of it. It has arrived as far as is asked for when all before them
    /// have: what comes last is acknowledged alone, and so later (RFC 9000 §13.2.2).
    last: [u64; 2],
    /// Its bytes before these two, before the last, and in all messages that are full.
    before: [u64; 3],
}

impl ScreenMotion {
    pub(super) fn new() -> Self {
        Self {
            cells: CellValues::new(),
            area: Region::new(),
            drawn: Region::with_limit(256),
            interval: USUAL,
            last: None,
            due: None,
            open: None,
            frames: VecDeque::new(),
            ahead: 0,
            held: None,
            refresh: None,
        }
    }

    pub(super) fn resize(&mut self, width: u16, height: u16) {
        let bounds = Rect::sized(width, height);
        self.cells.resize(width, height);
        self.area.clip(bounds);
        self.drawn.clip(bounds);
    }

    /// The area in motion.
    pub(super) fn area(&self) -> &Region {
        &self.area
    }

    /// From one drawing of it to the next, as far as frames are to follow.
    pub(super) fn interval(&self) -> Duration {
        self.interval.clamp(LEAST_INTERVAL, MOST_INTERVAL)
    }

    /// The server has drawn.
    pub(super) fn drawn(&mut self, rect: Rect) {
        self.drawn.add(rect);
    }

    /// What the server has drawn is whole. `has_colours` says of a cell whether it went as JPEG.
    pub(super) fn update_end(&mut self, now: Time, has_colours: impl Fn(usize) -> bool) {
        let mut moved = false;
        for rect in self.drawn.take().rects() {
            for (place, cell) in self.cells.meeting(*rect) {
                let was = self.cells.get(place);
                if was.last == Some(now) {
                    continue;
                }
                let again = was.last.is_some_and(|last| now.since(last) <= AGAIN);
                let times = if again { was.times.saturating_add(1) } else { 1 };
                let moves = was.moves || times >= OFTEN && has_colours(place);
                self.cells.set(place, CellMotion { last: Some(now), times, moves });
                moved |= moves;
                if moves && !was.moves {
                    self.area.add(cell);
                }
            }
        }
        if moved {
            if let Some(gap) = self.last.map(|last| now.since(last)).filter(|gap| *gap <= AGAIN) {
                self.interval = (self.interval * 7 + gap) / 8;
            }
            self.last = Some(now);
            self.due.get_or_insert(now + REST);
        }
    }

    /// Cells that have rested move no more.
    pub(super) fn settle(&mut self, now: Time) {
        if self.due.is_none_or(|due| now < due) {
            return;
        }
        self.due = None;
        for rect in self.area.take().rects() {
            for (place, cell) in self.cells.meeting(*rect) {
                match self.moves_until(place).filter(|until| now < *until) {
                    Some(until) => {
                        self.area.add(cell);
                        self.due = Some(self.due.map_or(until, |due| due.min(until)));
                    }
                    None => self.cells.set(place, CellMotion { moves: false, ..self.cells.get(place) }),
                }
            }
        }
        if self.area.is_empty() {
            (self.interval, self.last) = (USUAL, None);
        }
    }

    /// When a cell will have rested, if it is in motion.
    pub(super) fn moves_until(&self, place: usize) -> Option<Time> {
        let motion = self.cells.get(place);
        motion.last.filter(|_| motion.moves).map(|last| last + REST)
    }

    /// Whether a message begins with what does not move, as it waits, too: at once, and then one in two.
    pub(super) fn stands_back(&mut self) -> bool {
        if self.ahead < AHEAD {
            self.ahead += 1;
            return true;
        }
        self.ahead = AHEAD - 1;
        false
    }

    /// Not both wait.
    pub(super) fn is_alone(&mut self) {
        self.ahead = 0;
    }

    /// An update begins with an area in motion.
    pub(super) fn frame_begins(&mut self, now: Time) {
        self.open = Some(MovingFrame { begun: now, bytes: 0, last: [0; 2], before: [0; 3] });
    }

    /// A piece of it was encoded.
    pub(super) fn frame_grows(&mut self, bytes: usize) {
        if let Some(open) = &mut self.open {
            open.bytes += bytes as u64;
        }
    }

    /// A message is full, which may have something of it; `waiting` bytes are encoded for the next.
    pub(super) fn frame_message(&mut self, id: u64, waiting: usize) {
        if let Some(open) = &mut self.open {
            open.last = [if open.last[1] == 0 { id } else { open.last[1] }, id];
            let [_, second, first] = open.before;
            open.before = [second, first, open.bytes.saturating_sub(waiting as u64)];
        }
    }

    /// A frame is being sent.
    pub(super) fn in_frame(&self) -> bool {
        self.open.is_some()
    }

    /// All of it was encoded, in messages that are full.
    pub(super) fn frame_ends(&mut self) {
        if let Some(open) = self.open.take() {
            if self.frames.len() == MOST_FRAMES {
                self.frames.pop_front();
            }
            self.frames.push_back(open);
        }
    }

    /// The oldest frame of which the fate of every message is known, when the fate of those from `first` on
    /// is not.
    pub(super) fn next_arrived(&mut self, first: Option<u64>) -> Option<ArrivedFrame> {
        let arrived = |frame: &MovingFrame| first.is_none_or(|first| frame.last[0] <= first);
        let frame = *self.frames.front().filter(|frame| arrived(frame))?;
        self.frames.pop_front();
        let [seen, ..] = frame.before;
        Some(ArrivedFrame { begun: frame.begun, interval: self.interval(), bytes: frame.bytes, seen })
    }

    /// Begins no frame while the oldest under way is late: a new one would wait behind it, on the link or for
    /// whoever draws it.
    pub(super) fn hold(&mut self, now: Time, rtt: Duration) {
        let late = rtt + self.interval() * 2 + SLACK;
        let is_late = |frame: &&MovingFrame| frame.begun + late <= now && now < frame.begun + GIVEN_UP;
        self.held = self.frames.front().filter(is_late).map(|frame| frame.begun + GIVEN_UP);
    }

    /// What is not to be begun now.
    pub(super) fn held(&self) -> Option<&Region> {
        self.held.map(|_| &self.area)
    }

    /// The lossless refresh elsewhere waits, so that no frame waits for it.
    pub(super) fn waits_to_refresh(&mut self, now: Time) -> bool {
        self.refresh = self.refresh.filter(|at| now < *at && !self.area.is_empty());
        self.refresh.is_some()
    }

    /// So many bytes of it were encoded. Beside a film it has a tenth of the link.
    pub(super) fn refreshed(&mut self, now: Time, bytes: usize, rate: Option<u64>) {
        if let Some(rate) = rate.filter(|_| bytes > 0 && !self.area.is_empty()) {
            self.refresh = Some(now + Duration::from_micros(bytes as u64 * 10_000_000 / rate.max(1000)));
        }
    }

    /// When to look again: with something to send (`quiet` is false), or with pixels to refresh (`rested`).
    pub(super) fn deadline(&self, quiet: bool, rested: bool) -> Option<Time> {
        if quiet { self.refresh.filter(|_| rested) } else { self.held }
    }

    /// The fates of what is under way will not be told.
    pub(super) fn forget(&mut self) {
        (self.open, self.held, self.ahead) = (None, None, 0);
        self.frames.clear();
    }
}

/// What is drawn again so soon is drawn once more.
const AGAIN: Duration = Duration::from_millis(300);
/// So many times in a row are a film.
const OFTEN: u8 = 4;
/// What is not drawn for so long is none any more.
const REST: Duration = Duration::from_millis(400);
/// Between two frames, before anything is known.
const USUAL: Duration = Duration::from_millis(50);
/// Quality does not fall for the sake of more frames a second than 30, nor do frames take longer to arrive
/// than this.
const LEAST_INTERVAL: Duration = Duration::from_millis(33);
const MOST_INTERVAL: Duration = Duration::from_millis(120);
/// Messages that go before what moves when something else appears: a line of text is one or two.
const AHEAD: u8 = 3;
/// Frames whose fate is remembered.
const MOST_FRAMES: usize = 64;
/// What an acknowledgement may take longer.
const SLACK: Duration = Duration::from_millis(50);
/// A frame whose fate is not known by then holds up no other.
const GIVEN_UP: Duration = Duration::from_secs(1);
