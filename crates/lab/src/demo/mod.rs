//! The delivery modes side by side: one moving desktop, sent at the same time through one lossy link for each
//! mode, over real QUIC connections with TLS on real sockets.
//!
//! *In:* a [`DemoConfig`]. *Out:* [`Findings`], a [`DemoRow`] for each mode and pace. All modes of a pace run
//! at once and get the same messages at the same moments; their links are equal and lose the same packets by
//! ordinal.
//!
//! What is measured, for each message of the updates behind the warm-up (fence papers, 2022 and 2025):
//! *blocking* is the time from a message being complete at the receiver to fences letting it go;
//! *inter-delivery* the time from one message being let go to the next; *delivery* the time from the update
//! being due at the sender to the message being let go. For each of these updates, *whole update* is the time
//! from its first message being written by the sender to nothing older than the update being left on the
//! receiver's picture where the update changed it.
//!
//! A [`LiveDemo`] goes on until it is ended, to be watched: its pictures, and the same measures of the last
//! seconds.

mod lane;
mod live;
mod recent;
mod tally;
mod whole;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use quickset::{
    Algorithm, ConfigError, ConnectError, Goal, IdentityError, Protection, ReceiveError, SendError,
};
use quickset_base::Duration;
use quickset_sim::{LinkQueue, LinkSpec, LossModel, Rate};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::screen::{Desktop, DesktopUpdate};
use crate::stats::{Percentiles, Sorted};
use lane::{DemoLane, LaneEnd, Shot};
pub use live::{LiveDemo, LiveWatch};
use quickset_base::number::{Float as _, Unsigned as _};
pub use recent::{LiveFigures, LiveStall};
pub use tally::Glimpse;

/// How messages wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(into = "&'static str")]
pub enum DemoMode {
    /// All in the order of sending: a fence after each message, as an ordinary stream would have it.
    Total,
    /// In any order within an update, and no update before the one before it is complete: a fence after each.
    Partial,
    /// The same, and what is lost of an update is repaired from what was sent along with it.
    Repaired,
    /// No fences. The receiver keeps the newest of each cell; what newer messages cover is not sent again.
    Latest,
}

impl DemoMode {
    /// All modes, from the most order to the least.
    pub const ALL: [Self; 4] = [Self::Total, Self::Partial, Self::Repaired, Self::Latest];

    /// The name, in one word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Partial => "partial",
            Self::Repaired => "partial+fec",
            Self::Latest => "latest",
        }
    }
}

impl From<DemoMode> for &'static str {
    fn from(mode: DemoMode) -> Self {
        mode.name()
    }
}

/// What to run.
#[derive(Clone, Debug)]
pub struct DemoConfig {
    /// How long is measured at each pace, the warm-up not included.
    pub duration: Duration,
    /// Updates a second; each pace is a run of its own.
    pub paces: Vec<u32>,
    /// The link's rate, each way.
    pub rate: Rate,
    /// The round-trip time without queues: twice the link's delay.
    pub rtt: Duration,
    /// What the link loses, each way.
    pub loss: LossModel,
    /// The link's queue, each way.
    pub queue: LinkQueue,
    /// The seed of the link and of the desktop.
    pub seed: u64,
    /// Who controls congestion.
    pub congestion: Algorithm,
    /// The largest UDP payload, in bytes.
    pub mtu: u16,
    /// How losses are repaired in the mode [`Repaired`](DemoMode::Repaired), which runs only if they are.
    pub protection: Protection,
    /// Where traces of the connections go, a folder for each mode in it; `None`: nowhere.
    pub qlog: Option<PathBuf>,
}

impl Default for DemoConfig {
    /// The baseline of the 2025 paper, at the full rate of loss each way.
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(16),
            paces: vec![10, 30],
            rate: Rate::mbit(100),
            rtt: Duration::from_millis(100),
            loss: LossModel::Independent(0.005),
            queue: LinkQueue::Bytes(9_000_000),
            seed: 1,
            congestion: Algorithm::Bbr,
            // What is left of 1500 bytes behind the headers of IPv4 and UDP.
            mtu: 1472,
            protection: Protection::Adaptive(Some(Goal::Screen)),
            qlog: None,
        }
    }
}

impl DemoConfig {
    /// The modes that run.
    pub fn modes(&self) -> impl Iterator<Item = DemoMode> + use<> {
        let repairs = self.protection != Protection::None;
        DemoMode::ALL.into_iter().filter(move |mode| repairs || *mode != DemoMode::Repaired)
    }

    /// How long updates are sent at each pace before they are measured, ten round trips and a second at
    /// least: slow start and the first full picture are the same for all modes.
    pub fn warm_up(&self) -> Duration {
        (self.rtt * 10).max(Duration::from_secs(1))
    }

    /// About how long all of it takes.
    pub fn length(&self) -> Duration {
        (self.duration + self.warm_up() + self.rtt * 6) * self.paces.len().saturated::<u32>()
    }

    /// One direction of the link.
    pub fn link(&self) -> LinkSpec {
        LinkSpec {
            rate: self.rate.clone(),
            delay: self.rtt / 2,
            queue: self.queue,
            loss: self.loss.clone(),
            // UDP over IPv4.
            overhead: 28,
            ..LinkSpec::default()
        }
    }
}

/// The conditions of a run, for reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoConditions {
    /// The rate each way, as text with its unit.
    pub rate: String,
    /// The round-trip time in milliseconds.
    pub rtt_ms: f64,
    /// The loss model, each way.
    pub loss: String,
    /// The queue each way.
    pub queue: String,
    /// The seed of the losses and of the desktop.
    pub seed: u64,
    /// The congestion controller.
    pub congestion: String,
    /// The largest UDP payload in bytes.
    pub mtu: u16,
    /// How losses are repaired in the mode that repairs them.
    pub fec: String,
    /// Seconds measured at each pace.
    pub seconds: f64,
    /// Seconds before them that were not.
    pub warm_up_s: f64,
    /// How late packets left the emulated links, beyond what the model says: the 99th percentile.
    pub lateness_p99_ms: f64,
    /// Datagrams that the system dropped before a relay could read them: losses that no model decided. Null
    /// where the system does not tell.
    pub overruns: Option<u64>,
}

/// What came of a mode at a pace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemoRow {
    /// The mode.
    pub mode: DemoMode,
    /// The pace.
    pub updates_per_s: u32,
    /// Messages measured.
    pub messages: u64,
    /// Messages of the measured updates that were outdated before they arrived, and were not sent again.
    pub abandoned: u64,
    /// The share of measured messages that fences held for more than a millisecond.
    pub blocked_share: f64,
    /// From complete to let go, in milliseconds.
    pub blocking_ms: Percentiles,
    /// From one message let go to the next, in milliseconds.
    pub inter_delivery_ms: Percentiles,
    /// Inter-delivery times within one update that were longer than the round-trip time.
    pub over_rtt: u64,
    /// From due at the sender to let go, in milliseconds.
    pub delivery_ms: Percentiles,
    /// Measured updates that were whole on the receiver's picture in the end, which is all of them.
    pub updates: u64,
    /// Those of them of which newer pixels came first in some place.
    pub overtaken: u64,
    /// From the first message of an update being written by the sender to nothing older than the update being
    /// left on the receiver's picture where the update changed it, in milliseconds. Pixels that newer ones
    /// cover count as shown from the newer ones on, whether they come later or never.
    pub whole_update_ms: Percentiles,
    /// UDP payload that the sender sent in all, the warm-up and acknowledgements included.
    pub sent_bytes: u64,
    /// Bytes of repair symbols among them.
    pub repair_bytes: u64,
    /// Packets that the receiver recovered.
    pub recovered: u64,
    /// Packets that the link lost towards the receiver.
    pub lost: u64,
    /// Packets that its queue had no room for.
    pub overflowed: u64,
    /// Whether the receiver's picture was that of the sender in the end, pixel by pixel.
    pub picture_equal: bool,
    /// The blocking times in rising order, in milliseconds.
    #[serde(skip)]
    pub blocking: Sorted,
    /// The inter-delivery times in rising order, in milliseconds.
    #[serde(skip)]
    pub inter_delivery: Sorted,
}

/// What came of a plan. As JSON it is what `quickset demo --json` prints.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Findings {
    /// The conditions.
    pub link: DemoConditions,
    /// A row for each pace and mode, in the order of the plan.
    pub modes: Vec<DemoRow>,
    /// The desktop as it looked in the end, as a PNG file.
    #[serde(skip)]
    pub picture: Vec<u8>,
}

/// How far a run has come.
#[derive(Clone, Debug)]
pub struct DemoProgress {
    /// The pace under way.
    pub pace: u32,
    /// Time since the run began.
    pub elapsed: Duration,
    /// What is measured so far at this pace, for each mode.
    pub modes: Vec<Glimpse>,
}

/// Why a demonstration came to no end.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// No socket or thread.
    #[error("the system gives no socket or thread: {0}")]
    System(#[from] std::io::Error),
    /// No folder for traces.
    #[error("no folder can be made at {dir}; choose another with --qlog: {error}", dir = .dir.display())]
    Traces {
        /// The folder of the plan.
        dir: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// No certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// No configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// No connection through the link.
    #[error(
        "no connection comes about through the emulated link: {0}; try less loss, a shorter round-trip time or a longer queue"
    )]
    Connect(#[from] ConnectError),
    /// A connection broke.
    #[error("a connection ended early: {0}; try less loss")]
    Closed(#[from] quickset::Closed),
    /// A message was not taken.
    #[error("a message could not be sent: {0}")]
    Send(#[from] SendError),
    /// A message cannot be had.
    #[error("messages could not be received: {0}")]
    Receive(#[from] ReceiveError),
    /// A message is not a tile.
    #[error("a message came out damaged: {0}")]
    Tile(#[from] crate::screen::TileError),
    /// A task panicked.
    #[error("a task of the demonstration failed: {0}")]
    Task(#[from] tokio::task::JoinError),
    /// It took too long.
    #[error(
        "not everything arrived within {0:?} of the last update; try a faster link, less loss or a lower pace"
    )]
    Unfinished(Duration),
}

/// Runs a plan, pace by pace, and tells `observer` several times a second how far it is.
///
/// # Errors
/// See [`DemoError`].
pub async fn run(plan: &DemoConfig, mut observer: impl FnMut(&DemoProgress)) -> Result<Findings, DemoError> {
    let started = Instant::now();
    let mut findings = Findings { link: conditions(plan), modes: Vec::new(), picture: Vec::new() };
    for pace in &plan.paces {
        let mut tell = |lanes: &[DemoLane]| {
            let modes = lanes.iter().map(DemoLane::glimpse).collect();
            observer(&DemoProgress { pace: *pace, elapsed: started.elapsed(), modes });
        };
        run_pace(plan, *pace, &mut findings, &mut tell).await?;
    }
    Ok(findings)
}

async fn run_pace(
    plan: &DemoConfig,
    pace: u32,
    findings: &mut Findings,
    tell: &mut impl FnMut(&[DemoLane]),
) -> Result<(), DemoError> {
    let warm_up = updates(pace, plan.warm_up());
    let measured = warm_up..warm_up + updates(pace, plan.duration);
    let mut lanes = Vec::new();
    for mode in plan.modes() {
        lanes.push(DemoLane::start(plan, mode, LaneEnd::Behind(measured.clone())).await?);
    }
    let (mut updates, desktop) = animate(plan.seed, Some(measured.end));
    let mut ticks = tokio::time::interval(Duration::from_secs(1) / pace);
    let mut told = Instant::now();
    while let Some(update) = updates.recv().await {
        ticks.tick().await;
        let shot = Arc::new(Shot { due: Instant::now(), update });
        for lane in &lanes {
            lane.show(&shot);
        }
        if told.elapsed() > TELL_EVERY {
            told = Instant::now();
            tell(&lanes);
        }
    }
    let desktop = desktop.await?;
    let patience = PATIENCE + plan.rtt * 20;
    let deadline = tokio::time::Instant::now() + patience;
    for lane in &mut lanes {
        let end = lane.finish(desktop.pixels());
        let row =
            tokio::time::timeout_at(deadline, end).await.map_err(|_| DemoError::Unfinished(patience))??;
        findings.modes.push(DemoRow { updates_per_s: pace, ..row });
        let lateness = lane.lateness().percentile(0.99).as_secs_f64() * 1e3;
        findings.link.lateness_p99_ms = findings.link.lateness_p99_ms.max(lateness);
        findings.link.overruns = findings.link.overruns.zip(lane.overruns()).map(|(a, b)| a + b);
        findings.picture = lane.picture();
    }
    tell(&lanes);
    Ok(())
}

/// A thread that draws `count` updates, a few of them ahead of time, and what is still missing then; without
/// `count` it draws until nobody takes them. It ends with the desktop.
fn animate(
    seed: u64,
    count: Option<u32>,
) -> (mpsc::Receiver<DesktopUpdate>, tokio::task::JoinHandle<Desktop>) {
    let (sender, receiver) = mpsc::channel(4);
    let desktop = tokio::task::spawn_blocking(move || {
        let mut desktop = Desktop::new(seed);
        let mut drawn = 0;
        while count.is_none_or(|count| drawn < count) {
            if sender.blocking_send(desktop.update()).is_err() {
                // Nobody waits for it any more.
                return desktop;
            }
            drawn += 1;
        }
        loop {
            let rest = desktop.settle();
            if rest.messages.is_empty() {
                return desktop;
            }
            let _ = sender.blocking_send(rest);
        }
    });
    (receiver, desktop)
}

/// Updates in a time, at least one.
fn updates(pace: u32, time: Duration) -> u32 {
    (time.as_secs_f64() * f64::from(pace)).round().max(1.0).whole::<u32>()
}

fn conditions(plan: &DemoConfig) -> DemoConditions {
    DemoConditions {
        rate: plan.rate.to_string(),
        rtt_ms: plan.rtt.as_secs_f64() * 1e3,
        loss: plan.loss.to_string(),
        queue: plan.queue.to_string(),
        seed: plan.seed,
        congestion: plan.congestion.to_string(),
        mtu: plan.mtu,
        fec: plan.protection.to_string(),
        seconds: plan.duration.as_secs_f64(),
        warm_up_s: plan.warm_up().as_secs_f64(),
        lateness_p99_ms: 0.0,
        overruns: Some(0),
    }
}

impl std::fmt::Display for DemoMode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

const TELL_EVERY: Duration = Duration::from_millis(400);
/// How long the last messages may take beyond twenty round-trip times.
const PATIENCE: Duration = Duration::from_secs(20);
