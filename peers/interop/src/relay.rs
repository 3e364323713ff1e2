//! A path between clients and a server: what arrives at one side leaves by the other as a link of the
//! simulator decides, in real time. To the server each address of a client is one of the relay's own, as
//! behind a NAT.

mod seen;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Result, bail};
use quickset_base::{Ecn, Time};
use quickset_sim::{Link, LinkSpec};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

pub(crate) use self::seen::{RelaySeen, V2};
use crate::port::{Arrival, Port};

/// How a path is; the same both ways, unless said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Road {
    pub(crate) link: LinkSpec,
    /// The first so many packets of each direction meet this link instead.
    pub(crate) start: Option<(u64, LinkSpec)>,
    /// Towards the server it is another.
    pub(crate) up: Option<LinkSpec>,
}

/// A running relay. It ends when dropped.
pub(crate) struct InteropRelay {
    addresses: Vec<SocketAddr>,
    shared: Arc<RelayShared>,
    orders: mpsc::Sender<RelayNews>,
    task: JoinHandle<()>,
}

struct RelayShared {
    state: Mutex<RelayState>,
}

struct RelayState {
    servers: Vec<SocketAddr>,
    cut: bool,
    spares: bool,
    /// When the first datagram to each server and the last one from it came.
    spans: Vec<Option<(Instant, Instant)>>,
    /// One for each address that a client had, in the order in which they came.
    seen: Vec<RelaySeen>,
}

impl InteropRelay {
    /// A relay in front of `server`.
    pub(crate) fn start(server: SocketAddr, road: &Road, seed: u64) -> Result<Self> {
        Self::between(&[server], road, seed)
    }

    /// A relay in front of several servers, to which the same road leads.
    pub(crate) fn between(servers: &[SocketAddr], road: &Road, seed: u64) -> Result<Self> {
        let bind = |server: &SocketAddr| Ok(Arc::new(Port::bind(SocketAddr::new(server.ip(), 0))?));
        let fronts = servers.iter().map(bind).collect::<Result<Vec<_>>>()?;
        let addresses = fronts.iter().map(|front| front.address()).collect();
        let spans = vec![None; servers.len()];
        let state =
            RelayState { servers: servers.to_vec(), cut: false, spares: false, spans, seen: Vec::new() };
        let shared = Arc::new(RelayShared { state: Mutex::new(state) });
        let (orders, news) = mpsc::channel(1024);
        let reader = |(n, front): (usize, &Arc<Port>)| {
            tokio::spawn(read(front.clone(), FromSide::Clients(n), orders.clone()))
        };
        let runner = Runner {
            readers: fronts.iter().enumerate().map(reader).collect(),
            fronts,
            lanes: [0, 1].map(|direction| RelayLane::new(road, seed, direction)),
            flows: Vec::new(),
            by_client: BTreeMap::new(),
            waiting: BinaryHeap::new(),
            shared: shared.clone(),
            epoch: Instant::now(),
            count: 0,
            news,
            own: orders.clone(),
        };
        Ok(Self { addresses, shared, orders, task: tokio::spawn(runner.run()) })
    }

    /// Where clients find the first server.
    pub(crate) fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Where they find each.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// From the first datagram to a server until the last one from it.
    pub(crate) fn span(&self, server: usize) -> Duration {
        self.shared.lock().spans[server].map_or(Duration::ZERO, |(first, last)| last - first)
    }

    /// From now on nothing passes.
    pub(crate) fn cut(&self) {
        self.shared.lock().cut = true;
    }

    /// From now on everything passes again.
    pub(crate) fn mend(&self) {
        self.shared.lock().cut = false;
    }

    /// From now on every datagram arrives, and as it was sent: what says goodbye is sent once, and who misses
    /// it would wait for its idle timeout.
    pub(crate) fn spare(&self) {
        self.shared.lock().spares = true;
    }

    /// From now on datagrams of the client go to another server.
    pub(crate) fn redirect(&self, server: SocketAddr) {
        self.shared.lock().servers[0] = server;
    }

    /// From now on the server sees clients at other ports, of `ip`; what it sends to the old ones is lost.
    pub(crate) async fn rebind(&self, ip: IpAddr) {
        // It fails only when the relay has ended.
        let _ = self.orders.send(RelayNews::Rebind(ip)).await;
    }

    /// What went by, of all clients.
    pub(crate) fn seen(&self) -> RelaySeen {
        self.flows().iter().fold(RelaySeen::default(), RelaySeen::and)
    }

    /// What went by, for each address that clients had.
    pub(crate) fn flows(&self) -> Vec<RelaySeen> {
        self.shared.lock().seen.clone()
    }
}

impl Drop for InteropRelay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl RelayShared {
    fn lock(&self) -> MutexGuard<'_, RelayState> {
        self.state.lock().expect("nobody panics with it")
    }
}

/// Towards the server, and towards the client.
pub(crate) const UP: usize = 0;
pub(crate) const DOWN: usize = 1;

/// One direction.
struct RelayLane {
    link: Link,
    left: u64,
    after: LinkSpec,
}

impl RelayLane {
    fn new(road: &Road, seed: u64, direction: usize) -> Self {
        let after = road.up.as_ref().filter(|_| direction == UP).unwrap_or(&road.link).clone();
        let (left, first) = road.start.clone().unwrap_or((0, after.clone()));
        Self { link: Link::new(first, seed, direction as u64), left, after }
    }

    fn link(&mut self) -> &mut Link {
        if self.left == 0 {
            self.link.change(self.after.clone());
        }
        self.left = self.left.wrapping_sub(1);
        &mut self.link
    }
}

/// What the relay's tasks tell the one that decides.
enum RelayNews {
    Arrived(FromSide, Vec<Arrival>),
    Rebind(IpAddr),
}

#[derive(Clone, Copy)]
enum FromSide {
    /// Of the server with this number.
    Clients(usize),
    /// For the client of the flow with this number.
    Server(usize),
}

/// An address of a client.
struct RelayFlow {
    client: SocketAddr,
    server: usize,
    back: Arc<Port>,
    reader: JoinHandle<()>,
}

type RelayParcel = Reverse<(Time, u64, usize, usize, u8, Vec<u8>)>;

struct Runner {
    fronts: Vec<Arc<Port>>,
    readers: Vec<JoinHandle<()>>,
    lanes: [RelayLane; 2],
    flows: Vec<RelayFlow>,
    by_client: BTreeMap<(usize, SocketAddr), usize>,
    waiting: BinaryHeap<RelayParcel>,
    shared: Arc<RelayShared>,
    epoch: Instant,
    count: u64,
    news: mpsc::Receiver<RelayNews>,
    own: mpsc::Sender<RelayNews>,
}

impl Runner {
    async fn run(mut self) {
        loop {
            let due = self.waiting.peek().map(|Reverse((at, ..))| self.epoch + at.since(Time::ZERO));
            let timer = async {
                match due {
                    Some(due) => sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                news = self.news.recv() => {
                    let Some(news) = news else { return };
                    if self.take(news).is_err() {
                        return;
                    }
                }
                () = timer => {}
            }
            self.pass_on().await;
        }
    }

    fn take(&mut self, news: RelayNews) -> Result<()> {
        match news {
            RelayNews::Arrived(from, arrivals) => {
                for arrival in arrivals {
                    let (direction, flow) = match from {
                        FromSide::Server(flow) => (DOWN, flow),
                        FromSide::Clients(server) => (UP, self.flow(server, arrival.from)?),
                    };
                    self.weigh(direction, flow, &arrival);
                }
            }
            RelayNews::Rebind(ip) => {
                for index in 0..self.flows.len() {
                    let RelayFlow { client, server, ref back, .. } = self.flows[index];
                    let back = like(back.address().port(), ip)?;
                    self.flows[index] = self.open((server, client), back, index);
                    self.shared.lock().seen[index].rebind();
                }
            }
        }
        Ok(())
    }

    /// The flow of a client's address, which may be new.
    fn flow(&mut self, server: usize, client: SocketAddr) -> Result<usize> {
        if let Some(flow) = self.by_client.get(&(server, client)) {
            return Ok(*flow);
        }
        let index = self.flows.len();
        let ip = self.fronts[server].address().ip();
        // A client that moves is a flow of its own.
        let back = match self.flows.iter().find(|flow| flow.server == server) {
            Some(before) => like(before.back.address().port(), ip)?,
            None => Port::bind(SocketAddr::new(ip, 0))?,
        };
        let flow = self.open((server, client), back, index);
        self.flows.push(flow);
        self.by_client.insert((server, client), index);
        self.shared.lock().seen.push(RelaySeen::default());
        Ok(index)
    }

    fn open(&self, (server, client): (usize, SocketAddr), back: Port, index: usize) -> RelayFlow {
        let back = Arc::new(back);
        let reader = tokio::spawn(read(back.clone(), FromSide::Server(index), self.own.clone()));
        RelayFlow { client, server, back, reader }
    }

    /// Asks the link what becomes of a datagram.
    fn weigh(&mut self, direction: usize, flow: usize, arrival: &Arrival) {
        let now = Time::ZERO + self.epoch.elapsed();
        let link = self.lanes[direction].link();
        // Only queues that decide at their head make a packet wait for its fate, and no case has one.
        let Some(mut fate) = link.send(now, arrival.bytes.len(), arrival.ecn).known() else { return };
        let mut state = self.shared.lock();
        // As if it had been sent again at once, until it arrives. A full queue would not take it however
        // often.
        for _ in 0..100 {
            if !state.spares || fate.deliveries().any(|delivery| delivery.damage.is_none()) {
                break;
            }
            let Some(again) = link.send(now, arrival.bytes.len(), arrival.ecn).known() else { return };
            fate = again;
        }
        let (server, instant) = (self.flows[flow].server, Instant::now());
        let span = state.spans[server].get_or_insert((instant, instant));
        if direction == DOWN {
            span.1 = instant;
        }
        let seen = &mut state.seen[flow];
        if direction == DOWN {
            seen.answer(&arrival.bytes);
        } else {
            seen.begin(now, &arrival.bytes, fate.deliveries().next().is_none());
        }
        seen.mark(direction, arrival.ecn);
        let mut any = false;
        for delivery in fate.deliveries() {
            any = true;
            let mut bytes = arrival.bytes.clone();
            if let Some(damage) = delivery.damage {
                damage.apply(&mut bytes);
                seen.corrupted += 1;
            }
            let ecn = arrival.ecn.bits();
            self.waiting.push(Reverse((delivery.at, self.count, direction, flow, ecn, bytes)));
            self.count += 1;
        }
        seen.lost += u64::from(!any);
    }

    /// Sends what is due.
    async fn pass_on(&mut self) {
        let now = Time::ZERO + self.epoch.elapsed();
        while self.waiting.peek().is_some_and(|Reverse((at, ..))| *at <= now) {
            let Some(Reverse((_, _, direction, flow, ecn, bytes))) = self.waiting.pop() else { return };
            let server = {
                let mut state = self.shared.lock();
                if state.cut {
                    state.seen[flow].cut += 1;
                    continue;
                }
                if direction == UP {
                    state.seen[flow].ask(&bytes);
                }
                state.servers[self.flows[flow].server]
            };
            let (flow, ecn) = (&self.flows[flow], Ecn::from_bits(ecn));
            if direction == UP {
                flow.back.send(server, ecn, &bytes).await;
            } else {
                self.fronts[flow.server].send(flow.client, ecn, &bytes).await;
            }
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.readers.iter().for_each(JoinHandle::abort);
    }
}

impl Drop for RelayFlow {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A port of the same kind as another, user or dynamic (RFC 6335 §6): a system gives both, and s2n-quic 1.72
/// drops what comes from a client that seems to have gone from one to the other.
fn like(old: u16, ip: IpAddr) -> Result<Port> {
    let is_dynamic = |port| port >= 49152;
    for _ in 0..100 {
        let port = Port::bind(SocketAddr::new(ip, 0))?;
        if is_dynamic(port.address().port()) == is_dynamic(old) {
            return Ok(port);
        }
    }
    bail!("no port like {old}");
}

/// Tells what arrives at a port.
async fn read(port: Arc<Port>, from: FromSide, news: mpsc::Sender<RelayNews>) {
    loop {
        let mut arrivals = Vec::new();
        if let Err(error) = port.receive(&mut arrivals).await {
            eprintln!("the relay: {error:#}");
            tokio::task::yield_now().await;
        }
        if news.send(RelayNews::Arrived(from, arrivals)).await.is_err() {
            return;
        }
    }
}
