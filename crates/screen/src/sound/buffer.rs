use std::collections::BTreeMap;

use bytes::Bytes;
use quickset_base::{Duration, Time};

use super::delay::DelayEstimate;
use super::{FRAME_SAMPLES, MOST_FRAMES, SAMPLE_RATE, SoundFrame};

/// Holds frames until they are to be played.
///
/// 1. Each record goes to [`receive`](Self::receive) when it comes.
/// 2. At [`next_due`](Self::next_due), [`play`](Self::play) has the next piece; it may have several, and none
///    when sound has paused. A piece is to be decoded, resampled to the samples that it says, and handed to
///    whoever plays, which takes them one after the other.
/// 3. When `next_due` is `None` nothing is played until something comes.
///
/// `now` never goes back.
#[derive(Clone, Debug)]
pub struct PlayoutBuffer {
    frames: BTreeMap<u64, SoundFrame>,
    delay: DelayEstimate,
    /// The number behind that of the last frame that was played: smaller ones are late.
    next: u64,
    /// The time of recording of what is played next: what is older is late.
    position: u64,
    /// The next piece follows the one before it; otherwise it begins with whatever is there.
    flows: bool,
    /// When the next piece is to be played.
    due: Option<Time>,
    /// How long before it is heard a piece is handed out.
    lead: Duration,
    /// Pieces in a row for which there was no frame.
    concealed: u32,
    /// The largest number that has come since the beginning; `None` before the first.
    newest: Option<u64>,
    stats: SoundStats,
}

/// What is to be played next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SoundPiece {
    /// A frame.
    Packet {
        /// To be decoded.
        packet: Bytes,
        /// In how many samples of each channel it is to be played: 960, or up to one percent more or less.
        samples: u16,
    },
    /// There is none in time: the decoder is to conceal 960 samples.
    Conceal,
}

/// What is counted of sound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoundStats {
    /// Frames that have come and could be read.
    pub received: u64,
    /// Of these, those that came when their place had been played.
    pub late: u64,
    /// Of these, those that were there already.
    pub repeated: u64,
    /// Records that were passed over: DT-71.
    pub unreadable: u64,
    /// Frames that were played.
    pub played: u64,
    /// Pieces that were concealed.
    pub concealed: u64,
    /// Frames that were not played though they were there: too much had come at once.
    pub skipped: u64,
    /// Frames that the server has counted, from the first that came of each beginning to the newest: of these
    /// what was not received was lost, or is on its way.
    pub numbered: u64,
    /// Bytes of the records that were received.
    pub bytes: u64,
    /// Of the frames received that were not there already, how many came by so many times 10 ms later than
    /// the fastest of the last 16 s, rounded down; the last: all that were later.
    pub behind: [u64; BEHIND_BINS],
}

/// How many times [`SoundStats::behind`] tells apart.
pub const BEHIND_BINS: usize = 32;

impl PlayoutBuffer {
    /// Nothing has come.
    pub fn new() -> Self {
        Self::with_lead(Duration::ZERO)
    }

    /// The same for whoever plays each piece so long behind being handed it: that is a part of the delay, and
    /// not behind it.
    pub fn with_lead(lead: Duration) -> Self {
        Self {
            frames: BTreeMap::new(),
            delay: DelayEstimate::new(lead),
            next: 0,
            position: 0,
            flows: false,
            due: None,
            lead,
            concealed: 0,
            newest: None,
            stats: SoundStats::default(),
        }
    }

    /// A record of the sound stream has come.
    pub fn receive(&mut self, now: Time, record: &Bytes) {
        let Some(frame) = SoundFrame::read(record) else {
            self.stats.unreadable += 1;
            return;
        };
        self.stats.received += 1;
        self.stats.bytes += record.len() as u64;
        if frame.number < self.next && self.is_strange(now, &frame) {
            // It is late, and of no use to tell how long the way is.
            self.stats.late += 1;
            return;
        }
        // DT-72. What is played already says nothing of a new beginning.
        if frame.number >= self.next && self.is_new_beginning(now, &frame) {
            self.stats.skipped += self.frames.len() as u64;
            self.frames.clear();
            (self.delay, self.due) = (DelayEstimate::new(self.lead), None);
            (self.position, self.flows, self.newest) = (0, false, None);
        }
        self.delay.came(now, frame.time);
        self.count(now, &frame);
        if frame.number < self.next || frame.time < self.position {
            self.stats.late += 1;
        } else if self.frames.contains_key(&frame.number) {
            self.stats.repeated += 1;
        } else {
            if self.due.is_none() {
                self.due = Some(self.due_of(now, frame.time));
            }
            self.frames.insert(frame.number, frame);
        }
    }

    /// When the next piece is to be played; `None`: when something has come.
    pub fn next_due(&self) -> Option<Time> {
        self.due
    }

    /// The next piece, if it is due.
    pub fn play(&mut self, now: Time) -> Option<SoundPiece> {
        self.due.filter(|&due| due <= now)?;
        if !self.flows {
            // There is a frame, or nothing would be due.
            self.position = self.frames.first_key_value()?.1.time;
            self.flows = true;
        }
        let late_by = self.late_by(now, self.position);
        if late_by > nanos(TOO_LATE) {
            self.skip(now);
        }
        let Some((&number, frame)) = self.frames.first_key_value() else { return self.conceal(now) };
        if frame.time > self.position {
            if number > self.next {
                return self.conceal(now);
            }
            // Sound has paused, and goes on when it is time.
            if self.late_by(now, frame.time) < -nanos(SLACK) {
                (self.due, self.flows) = (Some(self.due_of(now, frame.time)), false);
                return None;
            }
        }
        let (_, frame) = self.frames.pop_first()?;
        if frame.time < self.position {
            // It overlaps the one before it, which no server means.
            self.stats.skipped += 1;
            return self.play(now);
        }
        Some(self.packet(now, frame))
    }

    /// How long behind the fastest frames others are heard, by now.
    pub fn delay(&self) -> Duration {
        self.delay.target()
    }

    /// Frames that wait to be played.
    pub fn waiting(&self) -> usize {
        self.frames.len()
    }

    /// What was counted.
    pub fn stats(&self) -> &SoundStats {
        &self.stats
    }

    /// Counts a frame that has come, by its number and by when it did.
    fn count(&mut self, now: Time, frame: &SoundFrame) {
        let follows = self.newest.map_or(frame.number, |newest| newest + 1);
        if frame.number >= follows {
            self.stats.numbered += frame.number - follows + 1;
            self.newest = Some(frame.number);
        }
        if !self.frames.contains_key(&frame.number) {
            let behind = self.delay.behind(now, frame.time) / nanos(BEHIND_BIN);
            let bin = usize::try_from(behind).unwrap_or(0).min(BEHIND_BINS - 1);
            self.stats.behind[bin] += 1;
        }
    }

    /// DT-72.
    fn is_new_beginning(&self, now: Time, frame: &SoundFrame) -> bool {
        let first = self.frames.first_key_value().map_or(frame.number, |(&first, _)| first);
        let last = self.frames.last_key_value().map_or(frame.number, |(&last, _)| last);
        let first = if self.flows { self.next } else { first.min(frame.number) };
        let is_far = frame.number.max(last) - first >= MOST_FRAMES as u64;
        is_far || self.is_strange(now, frame)
    }

    /// By its time it comes much sooner or later than others.
    fn is_strange(&self, now: Time, frame: &SoundFrame) -> bool {
        self.delay.behind(now, frame.time).unsigned_abs() > nanos(STRANGE).unsigned_abs()
    }

    /// At which delay pieces are handed out.
    fn handed_out(&self) -> Duration {
        self.delay.target().saturating_sub(self.lead)
    }

    /// When a frame is to be played that begins what is played.
    fn due_of(&self, now: Time, recorded: u64) -> Time {
        let wait = nanos(self.handed_out()).saturating_sub(self.delay.behind(now, recorded));
        now + Duration::from_nanos(wait.max(0).unsigned_abs())
    }

    /// By how many nanoseconds what was recorded at this time is later than it should be, if it is played
    /// now.
    fn late_by(&self, now: Time, recorded: u64) -> i64 {
        self.delay.behind(now, recorded).saturating_sub(nanos(self.handed_out()))
    }

    /// Leaves out frames that should have been played long ago, but for the newest of all.
    fn skip(&mut self, now: Time) {
        while let Some((&number, frame)) = self.frames.first_key_value() {
            let recorded = frame.time;
            if self.frames.len() > 1 && self.late_by(now, recorded) > nanos(SLACK) {
                self.frames.pop_first();
                self.stats.skipped += 1;
                continue;
            }
            if self.late_by(now, recorded) > -nanos(SLACK) {
                (self.next, self.position) = (number, recorded.max(self.position));
            }
            return;
        }
    }

    fn packet(&mut self, now: Time, frame: SoundFrame) -> SoundPiece {
        let samples = FRAME_SAMPLES.saturating_add_signed(-correction(self.late_by(now, frame.time)));
        self.next = frame.number + 1;
        self.position = frame.time + u64::from(FRAME_SAMPLES);
        self.concealed = 0;
        self.stats.played += 1;
        self.passes(samples);
        SoundPiece::Packet { packet: frame.packet, samples }
    }

    /// There is no frame for what is to be played now. Nothing is played any more when there has been none
    /// for long.
    fn conceal(&mut self, now: Time) -> Option<SoundPiece> {
        if self.concealed == MOST_CONCEALED {
            (self.concealed, self.flows) = (0, false);
            // What is there has waited for what is missing.
            let recorded = self.frames.first_key_value().map(|(_, frame)| frame.time);
            self.due = recorded.map(|recorded| self.due_of(now, recorded));
            return None;
        }
        self.concealed += 1;
        self.stats.concealed += 1;
        self.passes(FRAME_SAMPLES);
        // Where the delay is too short anyway it grows by this: the frame may still come.
        if self.late_by(now, self.position) > -nanos(SLACK) {
            self.position += u64::from(FRAME_SAMPLES);
        }
        Some(SoundPiece::Conceal)
    }

    /// So many samples are being played.
    fn passes(&mut self, samples: u16) {
        let time = Duration::from_nanos(u64::from(samples) * 1_000_000_000 / u64::from(SAMPLE_RATE));
        self.due = self.due.map(|due| due + time);
    }
}

impl Default for PlayoutBuffer {
    fn default() -> Self {
        Self::new()
    }
}

/// By how many samples a piece is to be shorter that is played so many nanoseconds later than it should.
fn correction(late_by: i64) -> i16 {
    let steps = late_by / nanos(STEP);
    i16::try_from(steps.clamp(-MOST_SAMPLES, MOST_SAMPLES)).unwrap_or_default()
}

fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// DT-72: a frame that comes by so much sooner or later than others is none of the same recording.
const STRANGE: Duration = Duration::from_secs(2);
/// How finely [`SoundStats::behind`] counts.
const BEHIND_BIN: Duration = Duration::from_millis(10);
/// What is later than it should be by more is made up for at once, by leaving out what is there.
const TOO_LATE: Duration = Duration::from_millis(150);
/// What is sooner or later by less is made up for by and by: half a frame.
const SLACK: Duration = Duration::from_millis(10);
/// A piece is shorter or longer by a sample, a thousandth, for each of these that it is late or early by.
const STEP: Duration = Duration::from_millis(4);
/// DT-73: one percent of a frame.
const MOST_SAMPLES: i64 = 9;
/// Pieces that are concealed in a row: behind 100 ms the decoder has come to silence.
const MOST_CONCEALED: u32 = 5;
