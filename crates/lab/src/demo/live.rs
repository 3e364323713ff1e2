use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use quickset_base::Duration;
use quickset_base::number::Unsigned as _;
use quickset_sim::{LinkSpec, LossModel};
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::lane::{DemoLane, LaneEnd, ReceiverView, Shot};
use super::{DemoConfig, DemoError, DemoMode, LiveFigures, animate, updates};
use crate::screen::SeenCells;

/// A demonstration that goes on until it is ended, to be watched.
///
/// How to use it:
///
/// 1. [`start`](Self::start) connects all modes, each through a link of its own.
/// 2. [`watch`](Self::watch) gives a handle to look at the receivers at any time, for as many as want to.
/// 3. [`run`](Self::run) moves the desktop until it is dropped, or a connection breaks.
///
/// Its memory is bounded. Where the link, or this machine, is slower than the desktop, the desktop waits for
/// the slowest mode: no more updates are on their way to a screen than belong to a second and four round
/// trips (four at least). So all modes go on to get the same updates at the same moments.
pub struct LiveDemo {
    lanes: Vec<DemoLane>,
    pace: u32,
    seed: u64,
    link: LinkSpec,
    watch: LiveWatch,
    wishes: watch::Receiver<LossModel>,
}

/// Looks at a [`LiveDemo`]. Whoever looks holds a receiver up for the time of copying its picture at most.
#[derive(Clone)]
pub struct LiveWatch(Arc<LiveLanes>);

struct LiveLanes {
    views: Vec<(DemoMode, ReceiverView)>,
    loss: watch::Sender<LossModel>,
    waits: AtomicBool,
}

impl std::fmt::Debug for LiveDemo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LiveDemo").field("pace", &self.pace).field("link", &self.link).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for LiveWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.modes()).finish()
    }
}

impl LiveDemo {
    /// Connects the modes of a plan; its duration and its paces do not count, and `pace` is the number of
    /// updates a second.
    ///
    /// # Errors
    /// See [`DemoError`].
    pub async fn start(plan: &DemoConfig, pace: u32) -> Result<Self, DemoError> {
        let mut lanes = Vec::new();
        // A loss that is lost again takes some round trips, and is to be seen; more than that is a backlog.
        let room = updates(pace, Duration::from_secs(1) + plan.rtt * 4).max(4).saturated::<usize>();
        for mode in plan.modes() {
            lanes.push(DemoLane::start(plan, mode, LaneEnd::Never(room)).await?);
        }
        let (loss, wishes) = watch::channel(plan.loss.clone());
        let views = lanes.iter().map(|lane| (lane.mode(), lane.view())).collect();
        let watch = LiveWatch(Arc::new(LiveLanes { views, loss, waits: AtomicBool::new(false) }));
        Ok(Self { lanes, pace: pace.max(1), seed: plan.seed, link: plan.link(), watch, wishes })
    }

    /// A handle to look at it.
    pub fn watch(&self) -> LiveWatch {
        self.watch.clone()
    }

    /// Moves the desktop, and sends what changes, until the future is dropped.
    ///
    /// # Errors
    /// When a connection breaks, or a message comes out damaged.
    pub async fn run(mut self) -> Result<Infallible, DemoError> {
        let (mut drawn, desktop) = animate(self.seed, None);
        let mut ticks = tokio::time::interval(Duration::from_secs(1) / self.pace);
        // After a pause of the machine the desktop goes on, and does not hurry.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            for lane in &mut self.lanes {
                if let Some(error) = lane.failure().await {
                    return Err(error);
                }
            }
            // It cannot fail: this has a sender.
            if self.wishes.has_changed().unwrap_or(false) {
                self.link.loss = self.wishes.borrow_and_update().clone();
                self.lanes.iter().for_each(|lane| lane.change(&self.link));
            }
            let waits = !self.lanes.iter().all(DemoLane::has_room);
            self.watch.0.waits.store(waits, Ordering::Relaxed);
            if waits {
                continue;
            }
            let Some(update) = drawn.recv().await else { break };
            let shot = Arc::new(Shot { due: Instant::now(), update });
            self.lanes.iter().for_each(|lane| lane.show(&shot));
        }
        // The thread draws until nobody takes updates, so it has failed.
        match desktop.await {
            Err(error) => Err(error.into()),
            Ok(_) => unreachable!("it draws while updates are taken"),
        }
    }
}

impl LiveWatch {
    /// The modes that run, in the order of the numbers by which the other methods know them.
    pub fn modes(&self) -> impl Iterator<Item = DemoMode> {
        self.0.views.iter().map(|(mode, _)| *mode)
    }

    /// Appends what has changed on the picture of a mode's receiver since it was `seen`, as
    /// [`Picture::changes`](crate::screen::Picture::changes) has it; returns how many cells these are. There
    /// is nothing on that of a mode that does not run.
    pub fn changes(&self, mode: usize, seen: &mut SeenCells, out: &mut Vec<u8>) -> usize {
        self.0.views.get(mode).map_or(0, |(_, view)| view.changes(seen, out))
    }

    /// How the modes do.
    pub fn figures(&self) -> Vec<LiveFigures> {
        let now = Instant::now();
        self.0.views.iter().map(|(mode, view)| view.figures(*mode, now)).collect()
    }

    /// What the links lose, each way.
    pub fn loss(&self) -> LossModel {
        self.0.loss.borrow().clone()
    }

    /// The links of all modes are to lose this from the next update on, each way.
    pub fn set_loss(&self, loss: LossModel) {
        self.0.loss.send_replace(loss);
    }

    /// True while the desktop waits for the slowest mode: its link, or this machine, carries less than there
    /// is to show.
    pub fn is_waiting(&self) -> bool {
        self.0.waits.load(Ordering::Relaxed)
    }
}
