use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use quickset_abr::{Interruption, Ladder, LadderError, PlayerState, Rule, RuleName, SegmentDownload};
use thiserror::Error;

use crate::index::IndexError;
use crate::manifest::{MediaKind, MediaTrack, Presentation};
use crate::segments::{MediaSegment, Representation, Resource};
use crate::url::UrlError;

/// Plays one track of a presentation, the first with pictures or else the first with sound, from its
/// beginning to its end.
///
/// Times are since some moment that the caller chooses, and never go back.
///
/// 1. [`poll`](Self::poll) is called at the beginning, when the time of the last [`Action::Sleep`] has come,
///    and after each of the other calls.
/// 2. On [`Action::Fetch`] the caller asks for the resource and tells of the first byte, if there is one, by
///    [`first_byte`](Self::first_byte), and then of the whole by [`arrived`](Self::arrived) or of its end by
///    [`failed`](Self::failed). One thing is fetched at a time.
/// 3. After [`Action::Done`] and [`Action::Failed`] nothing happens any more.
#[derive(Debug)]
pub struct Player {
    config: PlayerConfig,
    parts: VecDeque<PlayedTrack>,
    rule: Box<dyn Rule + Send>,
    screen: PlayedScreen,
    /// Where in the first of the parts the next segment begins.
    fetched: Duration,
    /// How much of all of them has been fetched.
    total: Duration,
    quality: usize,
    /// Whether that is the quality of the next segment: what comes before its segments was fetched for it.
    chosen: bool,
    last: Option<SegmentDownload>,
    request: Option<SegmentRequest>,
    not_before: Duration,
    /// How often in a row a fetch failed.
    failures: u32,
    error: Option<PlayError>,
    report: ViewReport,
    /// Bytes of indices that were read.
    indexed: usize,
}

/// How a [`Player`] plays; unless told as dash.js does.
#[derive(Clone, Copy, Debug)]
pub struct PlayerConfig {
    /// By which rule it chooses the quality.
    pub algorithm: RuleName,
    /// From which the rule draws what it leaves to chance.
    pub seed: u64,
    /// It begins with the highest quality of at most so many bit/s: 1 Mbit/s.
    pub first_bitrate: u64,
    /// How much is in the buffer before it plays, at the start and after stalls: one segment, whatever its
    /// length.
    pub start_with: Duration,
    /// With more than this in the buffer it fetches nothing: 18 s.
    pub buffer: Duration,
    /// The same while the quality is the highest: 30 s.
    pub buffer_at_top: Duration,
    /// With so much fetched, to the end of a segment, it fetches no more, and ends where that has been
    /// played: all there is.
    pub length: Duration,
    /// How often it tries again what failed, each time after twice as long, beginning with half a second: 3.
    pub retries: u32,
}

impl Default for PlayerConfig {
    fn default() -> Self {
        Self {
            algorithm: RuleName::Dynamic,
            seed: 0,
            first_bitrate: 1_000_000,
            start_with: Duration::ZERO,
            buffer: Duration::from_secs(18),
            buffer_at_top: Duration::from_secs(30),
            length: Duration::MAX,
            retries: 3,
        }
    }
}

/// What the caller of a [`Player`] does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Fetch this.
    Fetch {
        /// What to ask for.
        resource: Resource,
        /// Whether the player reads it; of anything else the caller may throw away what comes.
        read: bool,
    },
    /// Wait until then; without a time, until the fetch has ended.
    Sleep(Option<Duration>),
    /// All has been played.
    Done,
    /// It cannot go on.
    Failed(PlayError),
}

/// Why a [`Player`] cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlayError {
    /// Too many fetches in a row failed.
    #[error("{0} could not be fetched")]
    Fetch(String),
    /// The address of a segment is none.
    #[error("a segment has an address that is none: {0}")]
    Url(#[from] UrlError),
    /// The index of a file is none.
    #[error("{0}")]
    Index(#[from] IndexError),
}

/// What a viewer had of it so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ViewReport {
    /// Media that was played.
    pub played: Duration,
    /// Bits of it, by the bitrates that the manifest says.
    bits: f64,
    /// From the beginning to the first picture; none before that.
    pub startup: Option<Duration>,
    /// How often it stood still after that.
    pub stalls: u32,
    /// For how long, all in all (RT).
    pub stalled: Duration,
    /// Segments that were fetched.
    pub segments: u64,
    /// How many of them were of another bitrate than the one before.
    pub switches: u64,
    /// All that was fetched, in bytes.
    pub bytes: u64,
}

impl ViewReport {
    /// The mean bitrate of what was played (AB), in bit/s; 0 before anything was.
    pub fn average_bitrate(&self) -> f64 {
        if self.played.is_zero() { 0.0 } else { self.bits / self.played.as_secs_f64() }
    }
}

/// The track of a period that is played.
#[derive(Debug)]
struct PlayedTrack {
    ladder: Ladder,
    representations: Vec<Arc<Representation>>,
    /// Of each representation, whether what comes before its segments is there.
    begun: Vec<bool>,
}

#[derive(Debug)]
struct SegmentRequest {
    what: RequestWhat,
    address: String,
    requested: Duration,
    first_byte: Option<Duration>,
}

#[derive(Clone, Debug)]
enum RequestWhat {
    Index,
    Init,
    Segment { duration: Duration, end: Duration },
}

impl Player {
    /// A player that has not begun. It is an error when a track has more bitrates than a rule takes.
    pub fn new(presentation: &Presentation, config: PlayerConfig) -> Result<Self, LadderError> {
        let tracks = presentation.periods.iter().filter_map(|period| {
            let of = |kind| period.tracks.iter().find(move |track| track.kind == kind);
            of(MediaKind::Video).or_else(|| of(MediaKind::Audio))
        });
        let parts = tracks.map(PlayedTrack::new).collect::<Result<VecDeque<_>, _>>()?;
        let first = parts.front().ok_or(LadderError::Empty)?;
        let quality = first.ladder.within(approx(config.first_bitrate) / 1000.0);
        Ok(Self {
            rule: config.algorithm.start(first.ladder.clone(), config.seed),
            screen: PlayedScreen::default(),
            fetched: Duration::ZERO,
            total: Duration::ZERO,
            quality,
            chosen: false,
            last: None,
            request: None,
            not_before: Duration::ZERO,
            failures: 0,
            error: None,
            report: ViewReport::default(),
            indexed: 0,
            config,
            parts,
        })
    }

    /// What to do at `now`.
    pub fn poll(&mut self, now: Duration) -> Action {
        self.pass(now);
        if let Some(error) = &self.error {
            return Action::Failed(error.clone());
        }
        if self.request.is_some() {
            return Action::Sleep(None);
        }
        match self.next(now) {
            Ok(action) => action,
            Err(error) => {
                self.error = Some(error.clone());
                Action::Failed(error)
            }
        }
    }

    /// The first byte of what is fetched has come.
    pub fn first_byte(&mut self, now: Duration) {
        if let Some(request) = &mut self.request {
            request.first_byte.get_or_insert(now);
        }
    }

    /// What is fetched is complete: so many bytes came over the network, and `content` is all of it where the
    /// player reads it. Nothing happens where nothing is fetched.
    pub fn arrived(&mut self, now: Duration, bytes: u64, content: &[u8]) {
        self.pass(now);
        let Some(request) = self.request.take() else { return };
        self.failures = 0;
        self.report.bytes = self.report.bytes.saturating_add(bytes);
        let Some(part) = self.parts.front_mut() else { return };
        let quality = self.quality;
        match request.what {
            RequestWhat::Index => {
                self.indexed = self.indexed.saturating_add(content.len());
                if self.indexed > MAX_INDICES {
                    self.error = Some(IndexError::TooLong.into());
                } else if let Err(error) =
                    Arc::make_mut(&mut part.representations[quality]).read_index(content)
                {
                    self.error = Some(error.into());
                }
            }
            RequestWhat::Init => part.begun[quality] = true,
            RequestWhat::Segment { duration, end } => {
                let download = SegmentDownload {
                    quality,
                    bytes,
                    media: duration,
                    buffer: self.screen.buffer,
                    requested: request.requested,
                    first_byte: request.first_byte.unwrap_or(request.requested),
                    finished: now,
                };
                self.rule.arrived(&download);
                self.last = Some(download);
                self.fetched = end;
                self.report.segments += 1;
                let bitrate = part.ladder.bitrate(quality);
                self.report.switches += u64::from(self.screen.append(duration, bitrate));
                self.start(now, self.config.start_with);
                self.total = self.total.saturating_add(duration);
                if self.total >= self.config.length {
                    self.parts.clear();
                }
            }
        }
    }

    /// What is fetched will not come.
    pub fn failed(&mut self, now: Duration) {
        self.pass(now);
        let Some(request) = self.request.take() else { return };
        self.failures += 1;
        if self.failures > self.config.retries {
            self.error = Some(PlayError::Fetch(request.address));
        } else {
            self.not_before = now.saturating_add(RETRY * 2_u32.saturating_pow(self.failures - 1));
        }
    }

    /// What a viewer had until the last call.
    pub fn report(&self) -> ViewReport {
        self.report
    }

    /// What is in the buffer, and the place of the bitrate that was chosen last.
    pub fn buffer(&self) -> (Duration, usize) {
        (self.screen.buffer, self.quality)
    }

    fn next(&mut self, now: Duration) -> Result<Action, PlayError> {
        loop {
            let Some(part) = self.parts.front() else {
                // No more comes: what is there is played, however little.
                self.start(now, Duration::ZERO);
                let left = self.screen.buffer;
                return Ok(if left.is_zero() {
                    Action::Done
                } else {
                    Action::Sleep(Some(now.saturating_add(left)))
                });
            };
            let top = self.quality >= part.ladder.top();
            let enough = if top { self.config.buffer_at_top } else { self.config.buffer };
            let too_much = self.screen.buffer.saturating_sub(enough);
            let until =
                self.not_before.max(if self.screen.playing { now.saturating_add(too_much) } else { now });
            if until > now {
                return Ok(Action::Sleep(Some(until)));
            }
            if part.is_over(self.quality, self.fetched) {
                self.next_part();
                continue;
            }
            let Some(quality) = self.choose(now) else {
                return Ok(Action::Sleep(Some(self.not_before)));
            };
            self.quality = quality;
            if let Some(fetch) = self.fetch(now)? {
                return Ok(fetch);
            }
            // This quality ends before the others.
            self.next_part();
        }
    }

    /// The quality of the next segment; none if the rule is to be asked again later. After a failure it is
    /// asked anew.
    fn choose(&mut self, now: Duration) -> Option<usize> {
        let part = self.parts.front()?;
        let state = PlayerState {
            now,
            buffer: self.screen.buffer,
            buffer_target: self.config.buffer,
            current: self.quality,
            segment: self.last.map_or(PlayerState::default().segment, |last| last.media),
            latency: None,
            rate: 1.0,
        };
        if self.failures == 0 && self.chosen {
            return Some(self.quality);
        }
        let choice = self.rule.choose(&state);
        // While it stands still the buffer does not become less, and to wait for that would be forever.
        if choice.wait.is_zero() || !self.screen.playing {
            self.chosen = true;
            return Some(choice.quality.min(part.ladder.top()));
        }
        self.not_before = now.saturating_add(choice.wait);
        None
    }

    /// Asks for what is next of the quality that was chosen; none at the end of the part.
    fn fetch(&mut self, now: Duration) -> Result<Option<Action>, PlayError> {
        let Some(part) = self.parts.front() else { return Ok(None) };
        let representation = &part.representations[self.quality];
        let (what, resource) = if let Some(index) = representation.index() {
            (RequestWhat::Index, index)
        } else if let Some(init) = representation.init().filter(|_| !part.begun[self.quality]) {
            (RequestWhat::Init, init.clone())
        } else {
            let segment =
                representation.at(self.fetched).map(|n| representation.segment(n)).transpose()?.flatten();
            let Some(MediaSegment { resource, start, duration }) = segment else { return Ok(None) };
            // Of a segment that began before, only the rest is new.
            let end = start.saturating_add(duration);
            let duration = end.saturating_sub(start.max(self.fetched));
            (RequestWhat::Segment { duration, end }, resource)
        };
        self.chosen = !matches!(what, RequestWhat::Segment { .. });
        let read = matches!(what, RequestWhat::Index);
        let address = resource.url.to_string();
        self.request = Some(SegmentRequest { what, address, requested: now, first_byte: None });
        Ok(Some(Action::Fetch { resource, read }))
    }

    /// Goes on with the next period. A rule begins anew where bitrates are others, with what arrived last.
    fn next_part(&mut self) {
        let Some(before) = self.parts.pop_front() else { return };
        (self.fetched, self.chosen) = (Duration::ZERO, false);
        let Some(part) = self.parts.front() else { return };
        if part.ladder != before.ladder {
            let kbps = approx(before.ladder.bitrate(self.quality)) / 1000.0;
            self.quality = part.ladder.within(kbps);
            self.rule = self.config.algorithm.start(part.ladder.clone(), self.config.seed);
            if let Some(last) = &self.last {
                self.rule.arrived(last);
            }
        }
    }

    /// Plays if there is so much to play.
    fn start(&mut self, now: Duration, with: Duration) {
        if self.screen.start(with) {
            match self.report.startup {
                None => self.report.startup = Some(now.saturating_sub(self.screen.began)),
                Some(_) => self.report.stalls += 1,
            }
        }
    }

    fn pass(&mut self, now: Duration) {
        let since = self.screen.pass(now);
        self.report.played += since.played;
        self.report.bits += since.bits;
        if self.report.startup.is_some() && !self.is_over() {
            self.report.stalled += since.stood;
        }
        if since.ran_dry && !self.is_over() {
            self.rule.interrupted(Interruption::Stall);
        }
    }

    fn is_over(&self) -> bool {
        self.parts.is_empty() && self.screen.buffer.is_zero()
    }
}

impl PlayedTrack {
    fn new(track: &MediaTrack) -> Result<Self, LadderError> {
        let representations = track.representations.clone();
        let ladder = Ladder::new(representations.iter().map(|r| r.bandwidth()).collect::<Vec<_>>())?;
        let begun = vec![false; representations.len()];
        Ok(Self { ladder, representations, begun })
    }

    /// Whether this quality has no segment any more. Without its index nobody knows.
    fn is_over(&self, quality: usize, fetched: Duration) -> bool {
        let representation = &self.representations[quality];
        representation.index().is_none() && representation.at(fetched).is_none()
    }
}

/// What is played, and from what.
#[derive(Debug, Default)]
struct PlayedScreen {
    /// The first time that it heard of, and the last one.
    began: Duration,
    now: Option<Duration>,
    buffer: Duration,
    /// What the buffer is made of, in order: how long each piece plays and at which bitrate.
    pieces: VecDeque<(Duration, u64)>,
    last_bitrate: Option<u64>,
    playing: bool,
}

/// What happened on a [`PlayedScreen`] in some time.
#[derive(Default)]
struct ScreenPassed {
    played: Duration,
    bits: f64,
    stood: Duration,
    /// The buffer became empty while it was played.
    ran_dry: bool,
}

impl PlayedScreen {
    fn pass(&mut self, now: Duration) -> ScreenPassed {
        let before = *self.now.get_or_insert_with(|| {
            self.began = now;
            now
        });
        let time = now.saturating_sub(before);
        self.now = Some(before.max(now));
        let mut passed = ScreenPassed::default();
        if self.playing {
            passed.played = time.min(self.buffer);
            self.buffer -= passed.played;
            passed.bits = self.take(passed.played);
        }
        passed.stood = time.saturating_sub(passed.played);
        if self.playing && self.buffer.is_zero() {
            self.playing = false;
            passed.ran_dry = true;
        }
        passed
    }

    /// Takes so much out of the pieces, and returns how many bits that was.
    fn take(&mut self, mut time: Duration) -> f64 {
        let mut bits = 0.0;
        while let Some((left, bitrate)) = self.pieces.front_mut().filter(|_| !time.is_zero()) {
            let part = time.min(*left);
            bits += part.as_secs_f64() * approx(*bitrate);
            *left -= part;
            time -= part;
            if left.is_zero() {
                self.pieces.pop_front();
            }
        }
        bits
    }

    /// Whether the bitrate is another than before.
    fn append(&mut self, duration: Duration, bitrate: u64) -> bool {
        self.buffer = self.buffer.saturating_add(duration);
        self.pieces.push_back((duration, bitrate));
        self.last_bitrate.replace(bitrate).is_some_and(|last| last != bitrate)
    }

    /// Whether it begins to play.
    fn start(&mut self, with: Duration) -> bool {
        let starts = !self.playing && !self.buffer.is_zero() && self.buffer >= with;
        self.playing |= starts;
        starts
    }
}

/// The nearest float: the number itself up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "bits per second, of which 2^53 are nobody's")]
fn approx(bitrate: u64) -> f64 {
    bitrate as f64
}

/// Bytes of indices that a player reads: those of ten hours in segments of a second, in ten bitrates.
const MAX_INDICES: usize = 4 << 20;

/// Before something is tried for the second time.
const RETRY: Duration = Duration::from_millis(500);

#[cfg(test)]
#[path = "player_tests.rs"]
mod tests;
