use std::collections::BTreeSet;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Wake, Waker};

use quickset_base::Time;
use quickset_quic::{
    self as quic, Closed, ConnectionKey, Dir, Event, SendState, Side, Signal, StreamEvent, StreamId,
};

use crate::ensemble::EnsembleShare;
use crate::layer::{AnyLayer, LayerClock, LayerTurn};
use crate::line;
use crate::moves::{Move, MoveLog};
use crate::queue::OutcomeQueue;
use crate::slots::{StreamSlot, StreamSlots};
use crate::timers::Timer;
use crate::waiting::WaitingTasks;
use crate::wakers::Crowd;

/// The line of connections.
pub(crate) type ConnectionLine = line::Line<Arc<Shared>>;

/// What all handles of a connection hold: it is closed when the last of them goes.
pub(crate) struct HandlesOwner {
    pub(crate) shared: Arc<Shared>,
}

impl Drop for HandlesOwner {
    fn drop(&mut self) {
        let shared = &self.shared;
        shared.lock().close(shared.now(), None, b"");
        shared.nudge();
    }
}

/// A connection as the driver and the application's handles share it.
///
/// A handle locks it, acts by the verbs of the connection, and asks the driver to look at it. No lock is
/// held over a system call, and none is taken while this one is held.
pub(crate) struct Shared {
    pub(crate) key: ConnectionKey,
    pub(crate) line: Arc<ConnectionLine>,
    /// It stands in a ready queue.
    queued: AtomicBool,
    /// Whether somebody reads datagrams fast enough, as a [`reader`] is.
    reader: AtomicU8,
    state: Mutex<LockedState>,
}

/// What the lock guards.
pub(crate) struct LockedState {
    /// In a place of its own: it is large, and this is moved until the lock has it.
    pub(crate) conn: Box<quic::Connection>,
    pub(crate) timer: Timer,
    pub(crate) share: EnsembleShare,
    /// Turns of the driver that acknowledgements may still wait for what the application answers.
    pub(crate) patience: u8,
    /// Streams that the application has handles of.
    pub(crate) streams: StreamSlots,
    /// Streams of which somebody waits until less of them is unsent.
    draining: BTreeSet<StreamId>,
    /// Tasks that wait for streams of the peer, and for leave to open one.
    pub(crate) opened: [Crowd; 2],
    pub(crate) available: [Crowd; 2],
    pub(crate) datagrams: WaitingTasks,
    /// Who owns the streams and datagrams, if not the handles.
    pub(crate) layer: Option<Box<dyn AnyLayer>>,
    /// Tasks that wait for the handshake or for the end.
    pub(crate) phase: Crowd,
    pub(crate) connected: bool,
    /// When the connection went to another path or failed to; and who waits for the next time.
    pub(crate) moves: MoveLog,
    pub(crate) movers: Crowd,
    /// A server's: it was handed to whoever accepts.
    handed: bool,
    /// For a client: whom it talks to.
    pub(crate) server_name: Option<String>,
}

/// What a turn of the driver has to pass on once no lock is held.
#[derive(Debug, Default)]
pub(crate) struct TurnNews {
    pub(crate) wakes: Vec<Waker>,
    pub(crate) signals: Vec<Signal>,
    pub(crate) connected: bool,
    /// A client has seen who the server is.
    pub(crate) met: bool,
    pub(crate) tokens: Vec<Vec<u8>>,
}

impl Shared {
    pub(crate) fn new(
        key: ConnectionKey,
        line: Arc<ConnectionLine>,
        conn: Box<quic::Connection>,
        server_name: Option<String>,
    ) -> Self {
        let state = LockedState {
            conn,
            timer: Timer::default(),
            share: EnsembleShare::default(),
            patience: 0,
            streams: StreamSlots::default(),
            draining: BTreeSet::new(),
            opened: Default::default(),
            available: Default::default(),
            datagrams: WaitingTasks::default(),
            layer: None,
            phase: Crowd::default(),
            connected: false,
            moves: MoveLog::default(),
            movers: Crowd::default(),
            handed: false,
            server_name,
        };
        Self {
            key,
            line,
            queued: AtomicBool::new(false),
            reader: AtomicU8::new(reader::SLEEPS),
            state: Mutex::new(state),
        }
    }

    /// Has the driver look at it when others need its memory.
    pub(crate) fn heed_recalls(self: &Arc<Self>) {
        let bell = Arc::new(Bell(Arc::downgrade(self)));
        self.lock().conn.on_recall(bell.into());
    }

    /// The state, alone. A panic of another task in a verb leaves nothing half done that we could mend.
    #[inline]
    pub(crate) fn lock(&self) -> MutexGuard<'_, LockedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Claims the place in a ready queue; false when it stands in one already.
    #[inline]
    pub(crate) fn enqueue(&self) -> bool {
        !self.queued.swap(true, Ordering::AcqRel)
    }

    /// It was taken out of the queue and is about to be polled.
    #[inline]
    pub(crate) fn dequeued(&self) {
        self.queued.store(false, Ordering::Release);
    }

    /// Ends a verb of a stream: the driver is asked to look at the connection if that wants something, or is
    /// about to anyway.
    #[inline]
    pub(crate) fn unlock(self: &Arc<Self>, state: MutexGuard<'_, LockedState>) {
        // A driver that has yet to come finds what the verb did: it takes the flag down before it locks.
        let wants_poll = !self.queued.load(Ordering::Relaxed) && state.conn.wants_poll();
        drop(state);
        if wants_poll {
            self.nudge();
        }
    }

    /// Datagrams came: true when so many wait that they are to be read before more come. Not of who did not
    /// read when it was waited for.
    #[inline]
    pub(crate) fn await_reader(&self, state: &mut LockedState) -> bool {
        let waits =
            state.conn.datagrams().is_crowded() && self.reader.load(Ordering::Relaxed) != reader::SLEEPS;
        if waits {
            self.reader.store(reader::AWAITED, Ordering::Relaxed);
        }
        waits
    }

    /// Whether these still have to be read, and there is `time` for that.
    pub(crate) fn awaits_reader(&self, time: bool) -> bool {
        let mut state = self.lock();
        let waits =
            self.reader.load(Ordering::Relaxed) == reader::AWAITED && state.conn.datagrams().is_crowded();
        if waits && !time {
            self.reader.store(reader::SLEEPS, Ordering::Relaxed);
        }
        waits && time
    }

    /// Somebody read datagrams: true when the driver waits for that, and there is room for more. It is asked
    /// to go on then.
    #[inline]
    pub(crate) fn has_read(&self, state: &mut LockedState) -> bool {
        self.reader.load(Ordering::Relaxed) != reader::READS
            && !state.conn.datagrams().is_crowded()
            && self.reader.swap(reader::READS, Ordering::Relaxed) == reader::AWAITED
    }

    /// Asks the driver to look at the connection: a verb may have made it want something.
    #[inline]
    pub(crate) fn nudge(self: &Arc<Self>) {
        if self.enqueue() {
            if let Err(shared) = self.line.ring(self.clone()) {
                // The driver did not know of one that has just begun.
                let mut news = TurnNews::default();
                shared.lock().abandon(self.now(), &mut news);
                news.wake();
            }
        }
    }

    /// The time, for verbs that ask for it.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.line.clock.now()
    }
}

/// Rung by whoever needs memory, in the middle of a verb of another connection's. It keeps nothing alive.
struct Bell(Weak<Shared>);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        if let Some(shared) = self.0.upgrade().filter(|shared| shared.enqueue()) {
            // Without a driver it has ended already.
            drop(shared.line.ring(shared.clone()));
        }
    }
}

impl LockedState {
    /// Closes the connection, without a code with what its protocol calls no error.
    pub(crate) fn close(&mut self, now: Time, code: Option<u64>, reason: &[u8]) {
        let usual = self.layer.as_mut().map_or(0, |layer| layer.layer().no_error());
        self.conn.close(now, code.unwrap_or(usual), reason);
    }

    /// Nobody drives it any more: its handles hear of it, the peer does not.
    pub(crate) fn abandon(&mut self, now: Time, news: &mut TurnNews) {
        self.conn.abandon(now);
        self.collect(now, news);
    }

    /// Why the connection ended, if it has.
    pub(crate) fn closed(&self) -> Option<Closed> {
        self.conn.closed().cloned()
    }

    /// The handshake is through, or never will be.
    pub(crate) fn connected(&self) -> Option<Result<(), Closed>> {
        if self.connected { Some(Ok(())) } else { self.closed().map(Err) }
    }

    /// So many more handles of a stream.
    pub(crate) fn hold(&mut self, id: StreamId, handles: usize) {
        self.streams.entry(id).or_default().handles += handles;
    }

    /// One handle less.
    pub(crate) fn release(&mut self, id: StreamId) {
        if let Entry::Occupied(mut slot) = self.streams.entry(id) {
            slot.get_mut().handles -= 1;
            if slot.get().handles == 0 {
                slot.remove();
            }
        }
    }

    /// That of a stream that there is a handle of.
    pub(crate) fn slot(&mut self, id: StreamId) -> &mut StreamSlot {
        self.streams.get_mut(&id).expect("the stream is held")
    }

    /// The reader of a stream waits.
    pub(crate) fn await_data(&mut self, id: StreamId, cx: &Context<'_>) {
        if let Some(slot) = self.streams.get_mut(&id) {
            slot.reader = Some(cx.waker().clone());
        }
    }

    /// The writer of a stream waits.
    pub(crate) fn await_room(&mut self, id: StreamId, cx: &Context<'_>) {
        if let Some(slot) = self.streams.get_mut(&id) {
            slot.writer = Some(cx.waker().clone());
        }
    }

    /// The task waits until at most `bytes` of a stream are unsent. At most one does for each stream.
    pub(crate) fn await_drain(&mut self, id: StreamId, bytes: u64, cx: &Context<'_>) {
        if let Some(slot) = self.streams.get_mut(&id) {
            slot.drain = Some((bytes, cx.waker().clone()));
            self.draining.insert(id);
        }
    }

    /// Nothing tells of what leaves, so whenever something may have, those who wait for it are looked at.
    /// They are few, and mostly none.
    pub(crate) fn drained(&mut self, woken: &mut Vec<Waker>) {
        self.drained_of_datagrams(woken);
        let Self { conn, streams, draining, .. } = self;
        draining.retain(|id| {
            let Some(slot) = streams.get_mut(id) else { return false };
            let low = |(bytes, _): &mut (u64, Waker)| {
                conn.stream(*id).unsent().is_none_or(|unsent| unsent <= *bytes)
            };
            woken.extend(slot.drain.take_if(low).map(|(_, waker)| waker));
            slot.drain.is_some()
        });
    }

    /// Nothing will be sent on the stream any more, or again.
    pub(crate) fn is_through(&self, id: StreamId) -> bool {
        let state = self.conn.stream(id).send_state();
        !matches!(state, Some(SendState::Open | SendState::Finishing)) || self.conn.closed().is_some()
    }

    /// Collects outcomes, as long as there is room for them.
    pub(crate) fn settle(&mut self, id: StreamId, woken: &mut Vec<Waker>) {
        let Self { conn, streams, .. } = self;
        let mut sent = streams.get_mut(&id).map(StreamSlot::sent_or_new);
        if let (Some(sent), Some(stats)) = (&mut sent, conn.stream(id).message_stats()) {
            sent.stats = stats;
        }
        loop {
            // What is not taken stays where it is bounded: then no more messages are.
            let queue = sent.as_ref().and_then(|sent| sent.outcomes.as_ref());
            if queue.is_some_and(OutcomeQueue::is_full) {
                return;
            }
            let Some((ticket, outcome)) = conn.messages(id).next_outcome() else { return };
            if let Some(sent) = &mut sent {
                sent.tickets.settle(ticket, outcome, woken);
                if let Some(queue) = &mut sent.outcomes {
                    queue.push(ticket, outcome, woken);
                }
            }
        }
    }

    /// Collects all that the connection has to tell.
    pub(crate) fn collect(&mut self, now: Time, news: &mut TurnNews) {
        let mut told = false;
        while let Some(event) = self.conn.poll_event() {
            told = true;
            let event = if self.layer.is_some() { self.on_layer(now, event, news) } else { Some(event) };
            let Some(event) = event else { continue };
            match event {
                Event::Connected => {
                    self.connected = true;
                    news.met |= self.conn.side() == Side::Client;
                    self.hand_over(news);
                    self.phase.dismiss_to(&mut news.wakes);
                    // Streams may be opened from here on.
                    self.available.iter_mut().for_each(|wakers| wakers.drain_to(&mut news.wakes));
                }
                Event::Stream(event) => self.on_stream(event, &mut news.wakes),
                Event::Moved(path) => self.on_move(Move::Done(path), &mut news.wakes),
                Event::NotMoved(path) => self.on_move(Move::Failed(path), &mut news.wakes),
                Event::Datagram(event) => self.on_datagram(event, &mut news.wakes),
                Event::EarlyData { accepted } => {
                    // Early data is of use before the handshake is through, or not at all.
                    if accepted {
                        self.hand_over(news);
                    }
                    self.phase.drain_to(&mut news.wakes);
                }
                Event::NewToken(token) => news.tokens.push(token),
                Event::Closed(_) => self.wake_all(&mut news.wakes),
                _ => {}
            }
        }
        if let Self { conn, layer: Some(layer), .. } = self {
            if told {
                let clock = LayerClock::at(now);
                let mut turn = LayerTurn { connection: conn, clock, woken: &mut news.wakes };
                layer.layer().on_told(&mut turn);
            }
        }
        while let Some(signal) = self.conn.poll_signal() {
            news.signals.push(signal);
        }
    }

    /// Tells the layer, and returns what others are to hear, too.
    fn on_layer(&mut self, now: Time, event: Event, news: &mut TurnNews) -> Option<Event> {
        let Self { conn, layer: Some(layer), .. } = self else { return Some(event) };
        let (layer, clock) = (layer.layer(), LayerClock::at(now));
        let mut turn = LayerTurn { connection: conn, clock, woken: &mut news.wakes };
        match event {
            Event::Stream(event) => layer.on_stream(&mut turn, event),
            Event::Datagram(_) => layer.on_datagrams(&mut turn),
            // Streams may be opened from here on.
            Event::Connected => {
                for dir in Dir::ALL {
                    layer.on_stream(&mut turn, StreamEvent::Available(dir));
                }
                return Some(event);
            }
            Event::Closed(_) => {
                layer.on_closed(&mut turn);
                return Some(event);
            }
            _ => return Some(event),
        }
        None
    }

    fn on_move(&mut self, one: Move, woken: &mut Vec<Waker>) {
        self.moves.push(one);
        self.movers.drain_to(woken);
    }

    /// A server's connection goes to whoever accepts, once.
    fn hand_over(&mut self, news: &mut TurnNews) {
        news.connected |= self.conn.side() == Side::Server && !std::mem::replace(&mut self.handed, true);
    }

    fn on_stream(&mut self, event: StreamEvent, woken: &mut Vec<Waker>) {
        match event {
            StreamEvent::Opened(dir) => self.opened[dir as usize].drain_to(woken),
            StreamEvent::Available(dir) => self.available[dir as usize].drain_to(woken),
            StreamEvent::Readable(id) | StreamEvent::Message(id) => {
                woken.extend(self.streams.get_mut(&id).and_then(|slot| slot.reader.take()));
            }
            StreamEvent::Writable(id) => {
                woken.extend(self.streams.get_mut(&id).and_then(|slot| slot.writer.take()));
            }
            StreamEvent::Stopped { id, code } => {
                if let Some(slot) = self.streams.get_mut(&id) {
                    slot.stopped = Some(code);
                    slot.sending_over(woken);
                }
            }
            StreamEvent::Finished(id) => {
                if let Some(slot) = self.streams.get_mut(&id) {
                    slot.finished = true;
                    slot.sending_over(woken);
                }
            }
            StreamEvent::ResetArrived(id) => {
                if let Some(slot) = self.streams.get_mut(&id) {
                    slot.given_up = true;
                    slot.sending_over(woken);
                }
            }
            StreamEvent::Outcome(id) => self.settle(id, woken),
        }
    }

    /// The connection is over: whoever waits, waits in vain.
    fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.phase.drain_to(woken);
        self.movers.drain_to(woken);
        self.datagrams.wake_all(woken);
        for dir in Dir::ALL {
            self.opened[dir as usize].drain_to(woken);
            self.available[dir as usize].drain_to(woken);
        }
        self.streams.values_mut().for_each(|slot| slot.all_over(woken));
    }
}

impl TurnNews {
    /// Wakes the tasks that have something to do: once a turn, and with no lock held.
    pub(crate) fn wake(&mut self) {
        self.wakes.drain(..).for_each(Waker::wake);
    }
}

/// Who reads the datagrams of a connection.
mod reader {
    /// Somebody has been there since the driver last waited for one.
    pub(super) const READS: u8 = 0;
    /// The driver receives no more until somebody has.
    pub(super) const AWAITED: u8 = 1;
    /// Nobody has, in time or ever: a peer whose datagrams nobody reads has the driver wait for nothing.
    pub(super) const SLEEPS: u8 = 2;
}
