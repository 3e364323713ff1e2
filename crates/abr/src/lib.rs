//! Which bitrate a player asks for next: rules for video in segments (DASH, HLS), without I/O and without a
//! clock.
//!
//! A stream is there in several bitrates, a [`Ladder`], cut into segments of some seconds. A player fetches
//! them one after the other into a buffer. A [`Rule`] is told what arrived, and says before each request in
//! which quality:
//!
//! ```
//! use std::time::Duration;
//! use quickset_abr::{RuleName, SegmentDownload, Ladder, PlayerState};
//!
//! let ladder = Ladder::new([1_000_000, 5_000_000, 10_000_000])?;
//! let mut rule = "bola".parse::<RuleName>()?.start(ladder, 1);
//! let segment = Duration::from_secs(4);
//!
//! // Nothing is known yet: it stays at the quality that the player begins with.
//! let mut state = PlayerState { segment, ..PlayerState::default() };
//! assert_eq!(rule.choose(&state).quality, 0);
//!
//! // Half a megabyte in 200 ms: 20 Mbit/s.
//! let ms = Duration::from_millis;
//! rule.arrived(&SegmentDownload {
//!     quality: 0, bytes: 500_000, media: segment, buffer: Duration::ZERO,
//!     requested: ms(0), first_byte: ms(30), finished: ms(230),
//! });
//! (state.now, state.buffer) = (ms(231), segment);
//! assert_eq!(rule.choose(&state).quality, 2);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! | rule | name | by |
//! |---|---|---|
//! | [`Throughput`] | `throughput` | what the network gives, by two exponential averages |
//! | [`Bola`] | `bola` | what is in the buffer: Spiteri, Urgaonkar, Sitaraman: *BOLA: Near-Optimal Bitrate Adaptation for Online Videos*, INFOCOM 2016 |
//! | [`Dynamic`] | `dynamic` | the one of these two that the buffer is for: Spiteri, Sitaraman, Sparacio: *From Theory to Practice: Improving Bitrate Adaptation in the DASH Reference Player*, MMSys 2018 |
//! | [`L2a`] | `l2a` | online learning: Karagkioules, Mekuria, Griffioen, Wagenaar: *Online Learning for Low-Latency Adaptive Streaming*, MMSys 2020 |
//! | [`LolPlus`] | `lol+` | a self-organising map: Lim, Akcay, Bentaleb, Begen, Zimmermann: *When They Go High, We Go Low*, MMSys 2020; Bentaleb et al.: *Catching the Moment with LoL+*, IEEE TMM 2022 |
//!
//! What the papers leave open is as in dash.js 5, and `cargo xtask abr` holds each rule to it. Where dash.js
//! contradicts a paper, [`Reading`] chooses; docs/abr.md says where that is, and how often the choices are
//! the same.
//!
//! Whatever the numbers are, a rule chooses a quality that is on the ladder.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(clippy::cast_precision_loss, reason = "numbers in tests are small, or cut on purpose")
)]

mod bola;
mod dynamic;
mod l2a;
mod ladder;
mod lolp;
mod throughput;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use quickset_base::Seed;
use thiserror::Error;

pub use bola::Bola;
pub use dynamic::Dynamic;
pub use l2a::L2a;
pub use ladder::{Ladder, LadderError};
pub use lolp::LolPlus;
pub use throughput::{Throughput, ThroughputEstimate};

/// Chooses the quality of each segment of one session.
///
/// 1. Before each request the player calls [`choose`](Self::choose), and fetches in the quality that it
///    returns, after the time that it returns. If that is not zero it asks again then.
/// 2. When a segment is complete it calls [`arrived`](Self::arrived), before the segment is in the buffer.
/// 3. When play-out stops for want of media, or somebody seeks, it calls [`interrupted`](Self::interrupted).
pub trait Rule: fmt::Debug {
    /// A segment has arrived.
    fn arrived(&mut self, download: &SegmentDownload);

    /// Play-out does not go on as it did.
    fn interrupted(&mut self, by: Interruption);

    /// The quality for the next segment.
    fn choose(&mut self, state: &PlayerState) -> SegmentChoice;
}

/// A segment that was fetched. Times are by the player's clock, which starts anywhere and never goes back.
#[derive(Clone, Copy, Debug)]
pub struct SegmentDownload {
    /// Its place on the ladder.
    pub quality: usize,
    /// What came over the network; 0 from a cache.
    pub bytes: u64,
    /// How long it plays.
    pub media: Duration,
    /// What was in the buffer when it arrived, without it.
    pub buffer: Duration,
    /// When it was asked for.
    pub requested: Duration,
    /// When its first byte came.
    pub first_byte: Duration,
    /// When its last byte came.
    pub finished: Duration,
}

impl SegmentDownload {
    /// From the first byte to the last one.
    fn transfer(&self) -> Duration {
        self.finished.saturating_sub(self.first_byte)
    }
}

/// What a player knows when it asks for a segment.
#[derive(Clone, Copy, Debug)]
pub struct PlayerState {
    /// The player's clock.
    pub now: Duration,
    /// Media from the position that is played on.
    pub buffer: Duration,
    /// How much the player means to have in the buffer; 18 s unless told. Players of live streams have less.
    pub buffer_target: Duration,
    /// The quality in force: that of the last segment, or the one that the player begins with.
    pub current: usize,
    /// How long a segment plays.
    pub segment: Duration,
    /// How far behind the live edge the position is; none on demand.
    pub latency: Option<Duration>,
    /// Speed of play-out, 1 unless somebody catches up. What is not above 0 counts as 1.
    pub rate: f64,
}

impl Default for PlayerState {
    fn default() -> Self {
        Self {
            now: Duration::ZERO,
            buffer: Duration::ZERO,
            buffer_target: Duration::from_secs(18),
            current: 0,
            segment: Duration::from_secs(4),
            latency: None,
            rate: 1.0,
        }
    }
}

impl PlayerState {
    /// Too little to play.
    fn is_empty(&self) -> bool {
        self.buffer <= EMPTY
    }

    fn rate(&self) -> f64 {
        if self.rate.is_finite() && self.rate > 0.0 { self.rate } else { 1.0 }
    }
}

/// A player with so little in its buffer stalls.
const EMPTY: Duration = Duration::from_millis(300);

/// Why play-out does not go on as it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interruption {
    /// The buffer ran empty.
    Stall,
    /// Somebody went to another position.
    Seek,
}

/// What to fetch next, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentChoice {
    /// A place on the ladder.
    pub quality: usize,
    /// After this time; the rule is asked again then. Zero but for a buffer that is fuller than the quality
    /// is worth ([`Bola`]).
    pub wait: Duration,
}

impl SegmentChoice {
    /// At once.
    pub(crate) fn now(quality: usize) -> Self {
        Self { quality, wait: Duration::ZERO }
    }

    /// After so many seconds.
    pub(crate) fn after(quality: usize, seconds: f64) -> Self {
        Self { quality, wait: Duration::try_from_secs_f64(seconds).unwrap_or_default() }
    }
}

/// Whom a rule follows where dash.js contradicts the paper of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reading {
    /// What players do.
    #[default]
    Dashjs,
    /// What its authors wrote.
    Paper,
}

/// The rules by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleName {
    /// [`Throughput`], `throughput`.
    Throughput,
    /// [`Bola`], `bola`.
    Bola,
    /// [`Dynamic`], `dynamic`.
    Dynamic,
    /// [`L2a`], `l2a`.
    L2a,
    /// [`LolPlus`], `lol+`.
    LolPlus,
}

impl RuleName {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Throughput, Self::Bola, Self::Dynamic, Self::L2a, Self::LolPlus];

    /// A rule for one session over `ladder`, as dash.js reads its paper; what is drawn by chance comes from
    /// `seed`.
    pub fn start(self, ladder: Ladder, seed: impl Into<Seed>) -> Box<dyn Rule + Send> {
        match self {
            Self::Throughput => Box::new(Throughput::new(ladder)),
            Self::Bola => Box::new(Bola::new(ladder, Reading::default())),
            Self::Dynamic => Box::new(Dynamic::new(ladder, Reading::default())),
            Self::L2a => Box::new(L2a::new(ladder, Reading::default())),
            Self::LolPlus => Box::new(LolPlus::new(ladder, Reading::default(), seed)),
        }
    }

    /// What people call it by.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::Bola => "bola",
            Self::Dynamic => "dynamic",
            Self::L2a => "l2a",
            Self::LolPlus => "lol+",
        }
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for RuleName {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|a| a.name().eq_ignore_ascii_case(name));
        found.ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

/// No rule has this name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no rule {0:?}; there are throughput, bola, dynamic, l2a and lol+")]
pub struct UnknownAlgorithm(String);

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
