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
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::tally::ReceiverTally;
use super::{DemoConfig, DemoError, DemoMode, DemoRow, Glimpse};
use crate::relay::{Lateness, Relay};
use crate::screen::{CELL, COLUMNS, DesktopUpdate, Picture, ROWS, TileHeader};

/// A mode under way: a server that shows the desktop, a link, and a client that draws it.
pub(crate) struct DemoLane {
    mode: DemoMode,
    relay: Relay,
    shots: Option<mpsc::UnboundedSender<Arc<Shot>>>,
    seen: Arc<Mutex<ReceiverSeen>>,
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

/// What the receiver has.
struct ReceiverSeen {
    tally: ReceiverTally,
    picture: Picture,
    /// When each update was due.
    due: Vec<Instant>,
}

impl DemoLane {
    /// Connects through a link of its own.
    pub(crate) async fn start(
        plan: &DemoConfig,
        mode: DemoMode,
        measured: Range<u32>,
    ) -> Result<Self, DemoError> {
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
        let (shots, queue) = mpsc::unbounded_channel();
        let tally = ReceiverTally::new(measured.clone(), plan.rtt);
        let seen = Arc::new(Mutex::new(ReceiverSeen { tally, picture: Picture::new(), due: Vec::new() }));
        let sending = tokio::spawn(send(far, mode, protection, queue, measured));
        let receiving = tokio::spawn(receive(near, mode, seen.clone()));
        let shots = Some(shots);
        Ok(Self { mode, relay, shots, seen, sending, receiving, _endpoints: [server, client] })
    }

    /// Hands an update to the sender.
    pub(crate) fn show(&self, shot: &Arc<Shot>) {
        lock(&self.seen).due.push(shot.due);
        if let Some(shots) = &self.shots {
            // A sender that has failed tells why at the end.
            let _ = shots.send(shot.clone());
        }
    }

    /// Waits until everything has arrived, and compares the picture with the `desktop`'s.
    pub(crate) async fn finish(&mut self, desktop: &[u8]) -> Result<DemoRow, DemoError> {
        self.shots = None;
        // Together, so that the failure of one side is told and not what it does to the other.
        let (sent, ()) = tokio::try_join!(join(&mut self.sending), join(&mut self.receiving))?;
        let seen = lock(&self.seen);
        let [_, down] = self.relay.counts();
        let row = seen.tally.row(self.mode);
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
        let tally = lock(&self.seen).tally.clone();
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
        lock(&self.seen).picture.png()
    }
}

/// A lane that is given up leaves no tasks behind.
impl Drop for DemoLane {
    fn drop(&mut self) {
        self.sending.abort();
        self.receiving.abort();
    }
}

/// Sends updates as they come.
async fn send(
    connection: Connection,
    mode: DemoMode,
    protection: Protection,
    mut shots: mpsc::UnboundedReceiver<Arc<Shot>>,
    measured: Range<u32>,
) -> Result<SenderTally, DemoError> {
    let mut sender = connection.open_messages().await?.with(protection);
    sender.set_ordered(mode == DemoMode::Total);
    let mut outdated = OutdatedCells::new();
    let mut messages = 0;
    while let Some(shot) = shots.recv().await {
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

async fn receive(
    connection: Connection,
    mode: DemoMode,
    seen: Arc<Mutex<ReceiverSeen>>,
) -> Result<(), DemoError> {
    let mut receiver: MessageReceiver = connection.accept_messages().await?;
    while let Some(message) = receiver.next().await {
        let message = message?;
        let mut seen = lock(&seen);
        let header = match mode {
            // Only order makes this right: it would show if a fence let something through.
            DemoMode::Total | DemoMode::Partial | DemoMode::Repaired => {
                seen.picture.draw(&message.payload)?
            }
            DemoMode::Latest => seen.picture.draw_newest(&message.payload)?,
        };
        if let Some(due) = seen.due.get(header.update as usize).copied() {
            seen.tally.add(&header, &message, due);
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
        let [x, y, w, h] = [header.x, header.y, header.w, header.h].map(|n| usize::from(n) / CELL);
        for cell in (y..y + h).flat_map(|row| (x..x + w).map(move |column| row * COLUMNS + column)) {
            if let Some(old) = self.shown[cell].replace(self.next) {
                self.uncover(old);
            }
        }
        self.alive.insert(self.next, (ticket, w * h));
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

fn lock(seen: &Mutex<ReceiverSeen>) -> MutexGuard<'_, ReceiverSeen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

const PROTOCOL: &str = "quickset-demo/1";
