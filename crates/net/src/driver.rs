mod admit;
mod alarm;
mod busy;
mod pause;
mod roster;
mod routing;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use quickset_base::{self as base, Datagram, Input, Machine, Time};
use quickset_quic::Signal;

use admit::ProofAsking;
use alarm::Alarm;
use busy::BusyPolling;
use pause::ReaderPause;
use roster::Roster;

use crate::connection::Connection;
use crate::echoes::Echoes;
use crate::ensemble::Polled;
use crate::heavy::Heavy;
use crate::hub::Hub;
use crate::line::ClosingWords;
use crate::outlet::DatagramOutlet;
use crate::pool::ReceivePool;
use crate::shards::ShardOf;
use crate::shared::{Shared, TurnNews};
use crate::socket::{DatagramSocket, ReceiveBuffers, ReceivedCount, WIDTH};

/// The task of an endpoint: owns its sockets' buffers and timers, and polls its connections.
///
/// A turn takes what handles asked for, receives, fires timers, and lets the connections that have reason
/// to send do so, each a few batches; then the application's tasks are woken, once, and get the thread.
pub(crate) struct Driver {
    hub: Arc<Hub>,
    socket: Arc<dyn DatagramSocket>,
    /// The socket before, until the one in use has received something.
    former: Option<Arc<dyn DatagramSocket>>,
    inlet: DatagramInlet,
    roster: Roster,
    outlet: DatagramOutlet,
    echoes: Echoes,
    alarm: Alarm,
    news: TurnNews,
    requests: Vec<Arc<Shared>>,
    /// The endpoint is closed.
    farewell: Option<ClosingWords>,
    /// There was nothing left to do at the end of the last turn.
    rested: bool,
    busy: BusyPolling,
    /// Of the connections that are polled the last one goes to a peer that may answer soon.
    is_near: bool,
}

/// The way in: buffers that the system fills.
struct DatagramInlet {
    buffers: ReceiveBuffers,
    pool: ReceivePool,
    /// When something came last.
    heard: Time,
    sorting: Sorting,
    /// Datagrams that are, or may be, other shards'.
    abroad: Vec<(ShardOf, Datagram)>,
    /// Failures of the socket in a row.
    failures: u32,
    /// When a socket that only fails is asked again.
    again: Option<Time>,
    /// Datagrams of this turn.
    came: usize,
    /// Bytes that came since all other tasks last had the thread.
    ahead: usize,
    /// Nothing is received.
    pause: Option<ReaderPause>,
}

/// What is known while datagrams are sorted by connection.
#[derive(Default)]
struct Sorting {
    /// Datagrams in a row for the same connection.
    row: Vec<Datagram>,
    heavy: Heavy,
    asking: ProofAsking,
}

/// How a connection's part of a turn ended.
enum Drive {
    /// Nothing is left to do.
    Rests,
    /// It would send more.
    More,
    /// The application hears first that its handshake is through.
    Met,
    /// The application hears first what came.
    Answers,
    /// The socket takes no more.
    Stalled,
}

impl Driver {
    pub(crate) fn new(hub: Arc<Hub>, socket: Arc<dyn DatagramSocket>) -> Self {
        let mut pool = ReceivePool::default();
        let limit = socket.max_segments();
        Self {
            inlet: DatagramInlet {
                buffers: ReceiveBuffers::new(&mut pool),
                pool,
                heard: Time::ZERO,
                sorting: Sorting::default(),
                abroad: Vec::new(),
                failures: 0,
                again: None,
                came: 0,
                ahead: 0,
                pause: None,
            },
            roster: Roster::default(),
            outlet: DatagramOutlet::new(limit, hub.calls().clone()),
            echoes: Echoes::default(),
            alarm: Alarm::new(&hub),
            news: TurnNews::default(),
            requests: Vec::new(),
            farewell: None,
            rested: false,
            busy: busy_polling(&hub, &*socket),
            is_near: false,
            socket,
            former: None,
            hub,
        }
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.take_requests(cx);
        let received = self.receive(cx);
        self.echoes.poll(cx, self.hub.now(), &mut self.roster.ready);
        self.fire();
        let had_work = received || self.inlet.came > 0 || !self.roster.ready.is_empty();
        if had_work {
            self.busy.ends(|| self.hub.now());
        }
        let more = self.send(cx);
        // A transfer that goes on takes them again at once.
        if !received && self.inlet.pool.is_large() && self.hub.now() > self.inlet.heard + QUIET {
            self.inlet.pool.rest();
        }
        self.news.wake();
        if self.is_over() {
            return Poll::Ready(());
        }
        let pause = self.inlet.pause.as_mut().map(|pause| pause.ends(self.hub.now()));
        let next = [self.roster.timers.next(), self.outlet.deadline(), self.inlet.again, pause];
        let next = next.into_iter().flatten().min();
        // Others get the thread before the next turn.
        let leads = self.inlet.ahead >= AHEAD || !self.roster.met.is_empty();
        let again = leads
            || received
            || more
            || !self.roster.answering.is_empty()
            || self.alarm.set(cx, &self.hub, next);
        if leads {
            self.hub.runtime().yield_now(cx);
        } else if again {
            cx.waker().wake_by_ref();
        }
        if leads || !again {
            self.inlet.ahead = 0;
        }
        // Bulk comes in larger batches, and is acknowledged in larger ones, for whoever sleeps meanwhile.
        if !again && self.is_near && !self.outlet.bulk && self.busy.goes_on(self.hub.now()) {
            self.hub.runtime().yield_now(cx);
        }
        self.rested = !again;
        Poll::Pending
    }

    fn take_requests(&mut self, cx: &Context<'_>) {
        let Roster { ready, met, answering, .. } = &mut self.roster;
        ready.extend(met.drain(..).chain(answering.drain(..)));
        self.inlet.came = 0;
        let wishes = self.hub.line().take_requests(cx, &mut self.requests);
        for shared in self.requests.drain(..) {
            let is_new = self.roster.welcome(&shared);
            if is_new {
                self.echoes.begun(&self.socket, &shared);
            }
            if let Some(ClosingWords { code, reason }) = self.farewell.as_ref().filter(|_| is_new) {
                // It was begun as the endpoint was closed.
                shared.lock().close(self.hub.now(), *code, reason);
            }
            self.roster.ready.push_back(shared);
        }
        if let Some(farewell) = wishes.close {
            let now = self.hub.now();
            self.roster.for_all(|state| state.close(now, farewell.code, &farewell.reason));
            self.farewell = Some(farewell);
        }
        if !wishes.handed.is_empty() {
            let socket = self.socket.clone();
            self.route_handed(wishes.handed, &*socket);
        }
        if let Some(socket) = wishes.rebound {
            self.busy = busy_polling(&self.hub, &*socket);
            self.former = Some(std::mem::replace(&mut self.socket, socket));
            self.outlet.give_up();
            self.echoes.listen(&self.socket);
            self.inlet.failures = 0;
            let now = self.hub.now();
            self.roster.for_all(|state| state.conn.rebound(now));
        }
    }

    /// True when more may have arrived.
    fn receive(&mut self, cx: &mut Context<'_>) -> bool {
        let received = self.receive_all(cx);
        self.shake_hands() || received
    }

    /// Handles what came for the handshakes whose turn it is. True when there was something.
    fn shake_hands(&mut self) -> bool {
        (0..HANDSHAKES).take_while(|_| self.shake_hand()).count() > 0
    }

    /// Handles what came for one handshake. False when nothing waits.
    fn shake_hand(&mut self) -> bool {
        let Sorting { heavy, row, .. } = &mut self.inlet.sorting;
        let Some(key) = heavy.next(row) else { return false };
        if let Some(shared) = self.roster.get(key).cloned() {
            shared.lock().conn.handle(self.hub.now(), Input::Received(row));
            if shared.enqueue() {
                self.roster.ready.push_back(shared);
            }
        }
        row.clear();
        true
    }

    fn receive_all(&mut self, cx: &mut Context<'_>) -> bool {
        if self.inlet.pause.as_ref().is_some_and(|pause| pause.holds(self.hub.now())) {
            return false;
        }
        (self.inlet.pause, self.inlet.again) = (None, None);
        let former = self.former.clone().is_some_and(|former| self.receive_from(cx, &former, true));
        let socket = self.socket.clone();
        // Where nothing waits to be sent, and what was sent is no bulk whose acknowledgements come one behind
        // the other, the thread is about to sleep.
        let hurry = !self.roster.ready.is_empty() || self.outlet.stalled || self.outlet.bulk;
        self.receive_from(cx, &socket, hurry) || former
    }

    fn receive_from(&mut self, cx: &mut Context<'_>, socket: &Arc<dyn DatagramSocket>, hurry: bool) -> bool {
        for _ in 0..RECEIVES {
            match socket.poll_recv(cx, &mut self.inlet.buffers, hurry) {
                Poll::Pending => {
                    self.inlet.sorting.asking.received(true);
                    return false;
                }
                Poll::Ready(Ok(ReceivedCount { buffers: n, was_all })) => {
                    self.inlet.failures = 0;
                    if self.former.is_some() && Arc::ptr_eq(socket, &self.socket) {
                        self.former = None;
                    }
                    let came = self.inlet.buffers.datagrams(n);
                    self.inlet.came += came;
                    self.hub.calls().received.count(came);
                    self.inlet.ahead += self.inlet.buffers.bytes(n);
                    self.route(n, &**socket);
                    if let Some(shared) = self.roster.crowded.take() {
                        self.inlet.pause = Some(ReaderPause::of(shared));
                        self.inlet.sorting.asking.received(false);
                        return false;
                    }
                    if n < WIDTH && !was_all {
                        // That was all, as of then; to ask again at once would most often be in vain.
                        self.inlet.sorting.asking.received(true);
                        return true;
                    }
                    if self.inlet.ahead >= AHEAD {
                        break;
                    }
                }
                Poll::Ready(Err(error)) => {
                    tracing::debug!(%error, "receiving failed");
                    self.inlet.failures += 1;
                    // The poller tells no more of a socket until it was found empty, so that one that only
                    // fails is asked in vain for a while, and now and then from there on.
                    let at_once = self.inlet.failures < MAX_FAILURES;
                    self.inlet.again = (!at_once).then(|| self.hub.now() + RETRY);
                    return at_once;
                }
            }
        }
        self.inlet.sorting.asking.received(false);
        true
    }

    fn fire(&mut self) {
        let Roster { slots, ready, timers, .. } = &mut self.roster;
        if timers.next().is_none() {
            return;
        }
        let now = self.hub.now();
        while let Some(popped) = timers.pop(now) {
            let Some(Some(shared)) = slots.get(popped.1) else { continue };
            let mut state = shared.lock();
            if timers.is_due(now, popped, &mut state.timer) {
                state.conn.handle(now, Input::Timer);
                if shared.enqueue() {
                    ready.push_back(shared.clone());
                }
            }
        }
    }

    /// True when there is more to send than a turn allows.
    fn send(&mut self, cx: &mut Context<'_>) -> bool {
        if self.outlet.stalled && !self.outlet.resume(cx, &*self.socket, self.hub.now()) {
            return false;
        }
        let limit = self.socket.max_segments();
        self.outlet.take(limit);
        let mut budget = TURN_BATCHES;
        while budget > 0 {
            let Some(shared) = self.roster.ready.pop_front() else {
                if std::mem::take(&mut self.outlet.has_stalled) {
                    self.socket.sent_all();
                }
                return false;
            };
            match self.drive(cx, &shared, &mut budget) {
                Drive::Rests => {}
                Drive::Met => {
                    if shared.enqueue() {
                        self.roster.met.push(shared);
                    }
                }
                Drive::Answers => {
                    if shared.enqueue() {
                        self.roster.answering.push(shared);
                    }
                }
                Drive::More => {
                    if shared.enqueue() {
                        self.roster.ready.push_back(shared);
                    }
                }
                Drive::Stalled => {
                    if shared.enqueue() {
                        self.roster.ready.push_front(shared);
                    }
                    return false;
                }
            }
        }
        !self.roster.ready.is_empty()
    }

    /// Polls a connection until it sleeps, or has had its share of the turn.
    fn drive(&mut self, cx: &mut Context<'_>, shared: &Arc<Shared>, budget: &mut usize) -> Drive {
        // First, so that a verb from here on queues the connection anew.
        shared.dequeued();
        let now = self.hub.now();
        for _ in 0..CONNECTION_BATCHES.min(*budget) {
            let mut state = shared.lock();
            let waits = self.roster.ensembles.must_wait(shared.key, &state.share);
            state.conn.await_turn(waits);
            loop {
                if state.patience > 0 && state.conn.owes_only_acks() {
                    state.patience -= 1;
                    return Drive::Answers;
                }
                match state.conn.poll(now, &mut self.outlet.batch) {
                    base::Poll::Send => {
                        state.patience = 0;
                        state.drained(&mut self.news.wakes);
                        self.roster.settle(now, shared.key, &mut state, Polled::Sent);
                        break;
                    }
                    base::Poll::Event => {
                        let woken = self.news.wakes.len();
                        state.collect(now, &mut self.news);
                        let hurries = self.rested && state.conn.is_near();
                        let may_wait = self.inlet.came <= FEW && !hurries;
                        let answers = may_wait && self.news.wakes.len() > woken;
                        state.patience = if answers { PATIENCE } else { state.patience };
                        let met = std::mem::take(&mut self.news.met);
                        if self.news.is_for_endpoint() {
                            drop(state);
                            self.pass_on(shared);
                            state = shared.lock();
                        }
                        if met {
                            return Drive::Met;
                        }
                    }
                    base::Poll::Sleep(due, _) => {
                        state.drained(&mut self.news.wakes);
                        self.is_near = state.conn.is_near();
                        let awaits = state.conn.awaits_turn();
                        let polled = if awaits { Polled::Awaits } else { Polled::Rests };
                        self.roster.settle(now, shared.key, &mut state, polled);
                        self.roster.timers.set(shared.key.index(), &mut state.timer, due);
                        return Drive::Rests;
                    }
                }
            }
            drop(state);
            *budget -= 1;
            if !self.outlet.flush(cx, &*self.socket, now, shared) {
                return Drive::Stalled;
            }
        }
        Drive::More
    }

    /// Passes a connection's news on to the endpoint, with the connection not locked.
    fn pass_on(&mut self, shared: &Arc<Shared>) {
        let mut drained = false;
        if !self.news.signals.is_empty() {
            let mut issued = Vec::new();
            let mut router = self.hub.router();
            for signal in self.news.signals.drain(..) {
                drained |= signal == Signal::Drained;
                issued.extend(router.signal(shared.key, signal).into_iter().flatten());
            }
            self.roster.make_room(&mut router);
            drop(router);
            if !issued.is_empty() {
                shared.lock().conn.add_local_cids(issued);
            }
        }
        if std::mem::take(&mut self.news.connected) {
            let connection = Connection::new(shared.clone());
            let mut lobby = self.hub.lobby();
            // With nobody left to accept it, dropping it closes it: not under the lock.
            if lobby.open {
                lobby.accepted.push_back(connection);
                lobby.acceptors.drain_to(&mut self.news.wakes);
            } else {
                drop(lobby);
            }
        }
        for token in std::mem::take(&mut self.news.tokens) {
            let (name, version) = {
                let shared = shared.lock();
                (shared.server_name.clone(), shared.conn.version())
            };
            if let Some(name) = name {
                self.hub.keep_token(name, version, token);
            }
        }
        if drained && self.roster.remove(shared.key) {
            let stats = {
                let mut state = shared.lock();
                self.roster.timers.forget(shared.key.index(), &mut state.timer);
                let next = self.roster.ensembles.leave(shared.key, &mut state.share);
                self.roster.call(next);
                state.conn.stats()
            };
            self.hub.census().leave(shared, &stats);
            let never_accepted = self.hub.lobby().take_back(shared);
            drop(never_accepted);
            self.hub.one_less();
        }
    }

    fn is_over(&self) -> bool {
        self.hub.lobby().is_over()
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.get_mut().turn(cx)
    }
}

/// The runtime shuts down with connections alive: their handles hear of it, the peers do not.
impl Drop for Driver {
    fn drop(&mut self) {
        let now = self.hub.now();
        {
            let mut lobby = self.hub.lobby();
            lobby.drivers -= 1;
            // The others go on.
            lobby.open &= lobby.drivers > 0;
        }
        for shared in self.hub.line().driver_ended() {
            self.roster.welcome(&shared);
        }
        let mut never_accepted = Vec::new();
        for shared in self.roster.slots.drain(..).flatten() {
            // The places are free again for clients of others.
            self.hub.router().signal(shared.key, Signal::Drained);
            shared.lock().abandon(now, &mut self.news);
            never_accepted.extend(self.hub.lobby().take_back(&shared));
        }
        let mut lobby = self.hub.lobby();
        lobby.live[self.hub.shard] = 0;
        if lobby.connections() == 0 {
            lobby.idlers.drain_to(&mut self.news.wakes);
        }
        if lobby.drivers == 0 {
            lobby.acceptors.drain_to(&mut self.news.wakes);
            never_accepted.extend(lobby.accepted.drain(..));
        }
        drop(lobby);
        drop(never_accepted);
        self.news.wake();
    }
}

impl TurnNews {
    /// There is something that a connection cannot tell its handles itself.
    fn is_for_endpoint(&self) -> bool {
        self.connected || !self.signals.is_empty() || !self.tokens.is_empty()
    }
}

/// As the socket has it; a clock that a simulation moves on once nobody has anything to do would stand still.
fn busy_polling(hub: &Hub, socket: &dyn DatagramSocket) -> BusyPolling {
    BusyPolling::new(if hub.keeps_time() { Duration::ZERO } else { socket.busy_poll() })
}

/// Receive calls in a turn, so that acknowledgements leave and applications read in between.
const RECEIVES: usize = 8;

/// Handshakes in a turn. With two a server works a sixth less for each than with one, since it receives half
/// as often. With more the first client waits for its answer while it has nothing to do, and tickets come too
/// late for its next connection.
const HANDSHAKES: usize = 2;

/// Bytes that come before all other tasks get the thread. A runtime may let a task that wakes itself go on
/// for dozens of turns before it looks at others, as tokio's of one thread does before it polls what
/// `block_on` waits for, such as a `LocalSet` with all who read: what came meanwhile lies in memory.
const AHEAD: usize = 1 << 20;

/// Turns of the driver that acknowledgements wait for what is written by tasks that were woken: they run in
/// between. That which accepts a stream may have another that answers on it. Where the peer is near, and
/// nothing was to do before, what is due leaves at once: there is time for it, and the peer, awake then,
/// works on it meanwhile.
const PATIENCE: u8 = 2;

/// Datagrams of a turn with more of which the peer waits for acknowledgements, to send more.
const FEW: usize = 32;

/// Batches that a connection sends before others get their turn, and all of them before receiving again.
const CONNECTION_BATCHES: usize = 8;
const TURN_BATCHES: usize = 32;

/// After so long without anything received, buffers that were used are given up.
const QUIET: Duration = Duration::from_millis(100);

/// Failures in a row after which the socket is not asked again at once, and how long it is left alone then.
const MAX_FAILURES: u32 = 16;
const RETRY: Duration = Duration::from_millis(100);

#[cfg(test)]
#[cfg(feature = "tokio")]
mod tests;
