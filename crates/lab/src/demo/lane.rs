use std::collections::BTreeMap;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use quickset::qlog::Sinks;
use quickset::{
    ClientConfig, Connection, Endpoint, Identity, MessageReceiver, MessageSender, MessageTicket, Protection,
    QlogDir, ServerConfig, SocketConfig, Stats, TransportConfig, Trust,
};
use quickset_sim::LinkSpec;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

use super::recent::{LiveFigures, RecentTally};
use super::tally::ReceiverTally;
use super::whole::WholeUpdates;
use super::{DemoConfig, DemoError, DemoMode, DemoRow, Glimpse};
use crate::relay::{Lateness, Relay};
use crate::screen::{COLUMNS, DesktopUpdate, Picture, ROWS, SeenCells, TileHeader};

/// A mode under way: a server that shows the desktop, a link, and a client that draws it.
pub(crate) struct DemoLane {
    mode: DemoMode,
    relay: Relay,
    shots: Option<mpsc::Sender<Arc<Shot>>>,
    seen: ReceiverView,
    sending: JoinHandle<Result<SenderTally, DemoError>>,
    receiving: JoinHandle<Result<(), DemoError>>,
    // The endpoints live as long as the lane.
    _endpoints: [Endpoint; 2],
}

/// An update at the moment when it is due.
#[derive(Debug)]
pub(crate) struct Shot {
    pub(crate) due: Instant,
    pub(crate) update: DesktopUpdate,
}

/// What a sender did.
struct SenderTally {
    /// Messages of the measured updates.
    messages: u64,
    stats: Stats,
}

/// When a lane ends.
#[derive(Clone, Debug)]
pub(crate) enum LaneEnd {
    /// Behind the updates that are measured.
    Behind(Range<u32>),
    /// When it is dropped. Until then so many updates may be on their way to the screen, those that wait for
    /// the sender included.
    Never(usize),
}

/// What the receiver of a lane has, for all who look at it.
#[derive(Clone)]
pub(crate) struct ReceiverView(Arc<Mutex<ReceiverSeen>>);

/// What the receiver has.
struct ReceiverSeen {
    picture: Picture,
    updates: WholeUpdates,
    tally: LaneTally,
}

/// What is kept of the messages that came.
enum LaneTally {
    /// All that is measured.
    Measured(ReceiverTally),
    /// The last seconds.
    Recent(RecentTally),
}

impl DemoLane {
    /// Connects through a link of its own.
    pub(crate) async fn start(plan: &DemoConfig, mode: DemoMode, end: LaneEnd) -> Result<Self, DemoError> {
        let folder = |dir: &PathBuf| {
            QlogDir::new(dir.join(mode.name())).map_err(|error| DemoError::Traces { dir: dir.clone(), error })
        };
        let traces = plan.qlog.as_ref().map(folder).transpose()?;
        let transport = TransportConfig::fixed_mtu(plan.mtu)
            .with_congestion(plan.congestion.clone())
            .with_qlog(traces.map(|dir| Arc::new(dir) as Arc<dyn Sinks>));
        let identity = Identity::self_signed(["localhost"])?;
        let trust = Trust::pinned(identity.fingerprint());
        let config =
            ServerConfig::new(identity, &[PROTOCOL])?.with_transport(transport.clone()).with_key_log();
        let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config)?;
        let relay = Relay::start(server.local_addr(), plan.link(), plan.link(), plan.seed)?;
        let client = Endpoint::bind(([127, 0, 0, 1], 0).into(), &SocketConfig::default(), None)?;
        let config = ClientConfig::new(trust, &[PROTOCOL])?.with_transport(transport).with_key_log();
        let connect = client.connect(relay.address(), "localhost", &config);
        // The first failure ends both: without a connection there is nothing to accept.
        let (near, far) = tokio::try_join!(async { connect.await.map_err(DemoError::from) }, async {
            server.accept().await.ok_or(DemoError::from(quickset::Closed::TimedOut))
        },)?;

        let protection = if mode == DemoMode::Repaired { plan.protection.clone() } else { Protection::None };
        let (tally, measured, room) = match end {
            // It waits for the sender however slow the link is; the plan says how much that is at most.
            LaneEnd::Behind(measured) => {
                let tally = LaneTally::Measured(ReceiverTally::new(measured.clone(), plan.rtt));
                (tally, measured, Semaphore::MAX_PERMITS)
            }
            LaneEnd::Never(room) => (LaneTally::Recent(RecentTally::new(plan.rtt)), 0..0, room),
        };
        let (shots, queue) = mpsc::channel(room);
        let seen = ReceiverSeen { picture: Picture::new(), updates: WholeUpdates::new(), tally };
        let seen = ReceiverView(Arc::new(Mutex::new(seen)));
        let how = LaneSending { mode, protection, measured, seen: seen.clone() };
        let sending = tokio::spawn(send(far, how, queue));
        let receiving = tokio::spawn(receive(near, mode, seen.clone()));
        let shots = Some(shots);
        Ok(Self { mode, relay, shots, seen, sending, receiving, _endpoints: [server, client] })
    }

    /// Hands an update to the sender.
    pub(crate) fn show(&self, shot: &Arc<Shot>) {
        if let LaneTally::Measured(tally) = &mut self.seen.lock().tally {
            tally.expect(shot.due);
        }
        if let Some(shots) = &self.shots {
            // A sender that has failed tells why at the end.
            let _ = shots.try_send(shot.clone());
        }
    }

    /// Whether another update may be on its way to the screen.
    pub(crate) fn has_room(&self) -> bool {
        let Some(shots) = &self.shots else { return false };
        shots.capacity() > self.seen.lock().updates.open()
    }

    /// Why it has ended, if it has.
    pub(crate) async fn failure(&mut self) -> Option<DemoError> {
        if self.receiving.is_finished() {
            return join(&mut self.receiving).await.err();
        }
        if self.sending.is_finished() { join(&mut self.sending).await.err() } else { None }
    }

    /// Changes the link, both ways, for what is sent from now on.
    pub(crate) fn change(&self, link: &LinkSpec) {
        self.relay.change(link, link);
    }

    pub(crate) fn mode(&self) -> DemoMode {
        self.mode
    }

    /// For those who look at what it has.
    pub(crate) fn view(&self) -> ReceiverView {
        self.seen.clone()
    }

    /// Waits until everything has arrived, and compares the picture with the `desktop`'s.
    pub(crate) async fn finish(&mut self, desktop: &[u8]) -> Result<DemoRow, DemoError> {
        self.shots = None;
        // Together, so that the failure of one side is told and not what it does to the other.
        let (sent, ()) = tokio::try_join!(join(&mut self.sending), join(&mut self.receiving))?;
        let seen = self.seen.lock();
        let [_, down] = self.relay.counts();
        let row = seen.tally.measured().row(self.mode);
        Ok(DemoRow {
            abandoned: sent.messages - row.messages,
            sent_bytes: sent.stats.sent_bytes,
            repair_bytes: sent.stats.fec.repair_bytes,
            recovered: sent.stats.fec.recovered,
            lost: down.lost,
            overflowed: down.overflowed,
            picture_equal: seen.picture.pixels() == desktop,
            ..row
        })
    }

    pub(crate) fn glimpse(&self) -> Glimpse {
        // Sorting takes a while, and the receiver is not to wait for it.
        let tally = self.seen.lock().tally.measured().clone();
        tally.glimpse(self.mode)
    }

    pub(crate) fn lateness(&self) -> Lateness {
        self.relay.lateness()
    }

    pub(crate) fn overruns(&self) -> Option<u64> {
        self.relay.overruns()
    }

    /// What the receiver has drawn, as a PNG file.
    pub(crate) fn picture(&self) -> Vec<u8> {
        self.seen.lock().picture.png()
    }
}

impl ReceiverView {
    fn lock(&self) -> MutexGuard<'_, ReceiverSeen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What has changed on the picture, as [`Picture::changes`] has it.
    pub(crate) fn changes(&self, seen: &mut SeenCells, out: &mut Vec<u8>) -> usize {
        self.lock().picture.changes(seen, out)
    }

    /// How a lane that never ends does.
    pub(crate) fn figures(&self, mode: DemoMode, now: Instant) -> LiveFigures {
        let mut seen = self.lock();
        let oldest = seen.updates.oldest();
        match &mut seen.tally {
            LaneTally::Recent(tally) => tally.figures(mode, oldest, now),
            LaneTally::Measured(_) => LiveFigures::nothing(mode),
        }
    }
}

impl LaneTally {
    /// That of a lane that has an end.
    fn measured(&self) -> &ReceiverTally {
        match self {
            Self::Measured(tally) => tally,
            Self::Recent(_) => unreachable!("a lane that never ends is never finished"),
        }
    }
}

/// A lane that is given up leaves no tasks behind.
impl Drop for DemoLane {
    fn drop(&mut self) {
        self.sending.abort();
        self.receiving.abort();
    }
}

/// How updates are sent.
struct LaneSending {
    mode: DemoMode,
    protection: Protection,
    measured: Range<u32>,
    seen: ReceiverView,
}

/// Sends updates as they come.
async fn send(
    connection: Connection,
    how: LaneSending,
    mut shots: mpsc::Receiver<Arc<Shot>>,
) -> Result<SenderTally, DemoError> {
    let LaneSending { mode, protection, measured, seen } = how;
    let mut sender = connection.open_messages().await?.with(protection);
    sender.set_ordered(mode == DemoMode::Total);
    let mut outdated = OutdatedCells::new();
    let mut messages = 0;
    while let Some(shot) = shots.recv().await {
        seen.lock().updates.write(&shot.update, Instant::now());
        for (header, message) in &shot.update.messages {
            let ticket = sender.send(message.clone()).await?;
            if mode == DemoMode::Latest {
                outdated.by(header, ticket);
            }
        }
        if matches!(mode, DemoMode::Partial | DemoMode::Repaired) {
            sender.fence();
        }
        if measured.contains(&shot.update.number) {
            messages += shot.update.messages.len() as u64;
        }
    }
    finish(&mut sender).await?;
    // The client closes once it has read everything.
    connection.closed().await;
    Ok(SenderTally { messages, stats: connection.stats() })
}

async fn finish(sender: &mut MessageSender) -> Result<(), DemoError> {
    sender.finish()?;
    match sender.finished().await {
        // The client had read everything, and closed before this side heard of it.
        Ok(()) | Err(quickset::SendError::Closed(quickset::Closed::ByApplication { .. })) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn receive(connection: Connection, mode: DemoMode, seen: ReceiverView) -> Result<(), DemoError> {
    let mut receiver: MessageReceiver = connection.accept_messages().await?;
    while let Some(message) = receiver.next().await {
        let message = message?;
        let mut seen = seen.lock();
        let ReceiverSeen { picture, updates, tally } = &mut *seen;
        let header = match mode {
            // Only order makes this right: it would show if a fence let something through.
            DemoMode::Total | DemoMode::Partial | DemoMode::Repaired => picture.draw(&message.payload)?,
            DemoMode::Latest => picture.draw_newest(&message.payload)?,
        };
        let (now, oldest) = (Instant::now(), updates.oldest());
        let drawn = updates.draw(&header, now);
        match tally {
            LaneTally::Measured(tally) => tally.add(&header, &message, &drawn),
            LaneTally::Recent(tally) => tally.add(&message, &drawn, oldest, now),
        }
    }
    connection.close(0, b"seen");
    Ok(())
}

/// Knows which message shows each cell, and gives those up that show none any more.
struct OutdatedCells {
    /// The message that shows a cell, by its number.
    shown: Vec<Option<u64>>,
    /// Messages that show something: their tickets and how many cells.
    alive: BTreeMap<u64, (MessageTicket, usize)>,
    next: u64,
}

impl OutdatedCells {
    fn new() -> Self {
        Self { shown: vec![None; COLUMNS * ROWS], alive: BTreeMap::new(), next: 0 }
    }

    /// A new message covers the cells of `header`.
    fn by(&mut self, header: &TileHeader, ticket: MessageTicket) {
        let mut cells = 0;
        for cell in header.cells() {
            cells += 1;
            if let Some(old) = self.shown[cell].replace(self.next) {
                self.uncover(old);
            }
        }
        self.alive.insert(self.next, (ticket, cells));
        self.next += 1;
    }

    fn uncover(&mut self, old: u64) {
        if let Some((ticket, cells)) = self.alive.get_mut(&old) {
            *cells -= 1;
            if *cells == 0 {
                ticket.supersede();
                self.alive.remove(&old);
            }
        }
    }
}

async fn join<T>(task: &mut JoinHandle<Result<T, DemoError>>) -> Result<T, DemoError> {
    task.await?
}

const PROTOCOL: &str = "quickset-demo/1";
