//! What happened, for an application that waits for many things at once: a queue with a descriptor.
//!
//! An interest is one thing that may happen to one object. A call that cannot go on arms it, and then its
//! waker, called by whoever drives the connection, queues it once. So the queue is no longer than there are
//! interests, whatever the peer does.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Wake, Waker};
use std::time::Instant;

use crate::doorbell::Doorbell;
use crate::patience::Patience;
use crate::status::{CallFailure, QS_TIMED_OUT, QS_WOULD_BLOCK, bad_handle};

/// The handshake of a connection that `qs_endpoint_connect` began is complete. It comes by itself.
pub const QS_EVENT_CONNECTED: u32 = 1;
/// A connection is over, or did not come about. It comes by itself, once.
pub const QS_EVENT_CLOSED: u32 = 2;
/// A client connected: call `qs_endpoint_accept`.
pub const QS_EVENT_INCOMING: u32 = 3;
/// No connection is left: `qs_endpoint_wait_idle` would return.
pub const QS_EVENT_IDLE: u32 = 4;
/// The peer opened a stream of both directions: accept it.
pub const QS_EVENT_INCOMING_BI: u32 = 5;
/// The peer opened a stream of its direction: accept it.
pub const QS_EVENT_INCOMING_UNI: u32 = 6;
/// The peer allows one more stream of both directions: open it.
pub const QS_EVENT_ROOM_BI: u32 = 7;
/// The peer allows one more stream of our direction: open it.
pub const QS_EVENT_ROOM_UNI: u32 = 8;
/// There is something to read on a stream of bytes, or its end.
pub const QS_EVENT_READABLE: u32 = 9;
/// There is room on a stream of bytes or of messages, or it takes nothing more.
pub const QS_EVENT_WRITABLE: u32 = 10;
/// All of a stream that was finished has arrived, or it never will: `qs_stream_finished` or
/// `qs_messages_finished` would return.
pub const QS_EVENT_FINISHED: u32 = 11;
/// There is a message, or the end of a stream of messages.
pub const QS_EVENT_MESSAGE: u32 = 12;
/// It is known what became of a message: call `qs_messages_outcome`.
pub const QS_EVENT_OUTCOME: u32 = 13;
/// There is a datagram.
pub const QS_EVENT_DATAGRAM: u32 = 14;
/// There is room for a datagram.
pub const QS_EVENT_DATAGRAM_ROOM: u32 = 15;

/// Something that happened.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QsEvent {
    /// What happened, one of `QS_EVENT_…`. Pass over those that you do not know.
    pub kind: u32,
    /// 0.
    pub reserved: u32,
    /// What it happened to: an endpoint, a connection, a stream or a stream of messages.
    pub handle: u64,
    /// The handle that this one was made from: of a stream its connection, of a connection its endpoint, of
    /// an endpoint 0. It may have been freed.
    pub parent: u64,
    /// The number that `qs_set_user` attached to the handle, 0 unless it did.
    pub user: u64,
}

/// What an object of C's is known by in events.
#[derive(Clone)]
pub(crate) struct EventSource {
    pub(crate) handle: u64,
    pub(crate) parent: u64,
    pub(crate) user: Arc<AtomicU64>,
    pub(crate) queue: Arc<EventQueue>,
}

/// The events of an endpoint that nobody has taken yet.
pub(crate) struct EventQueue {
    state: Mutex<EventsReady>,
    arrived: Condvar,
    bell: Doorbell,
}

#[derive(Default)]
struct EventsReady {
    ready: VecDeque<Arc<Interest>>,
    /// The descriptor is readable.
    signalled: bool,
    /// The endpoint was freed.
    ended: bool,
}

/// One thing that may happen to an object.
pub(crate) struct Interest {
    kind: u32,
    source: EventSource,
    state: Mutex<InterestState>,
    changed: Condvar,
}

#[derive(Default)]
struct InterestState {
    /// How often it has happened: who waits looks whether it has since.
    times: u64,
    /// An event is wanted for the next time.
    armed: bool,
    queued: bool,
    /// The object was freed.
    dead: bool,
}

impl EventSource {
    /// One thing that may happen to it.
    pub(crate) fn interest(&self, kind: u32) -> Arc<Interest> {
        Arc::new(Interest { kind, source: self.clone(), state: Mutex::default(), changed: Condvar::new() })
    }
}

impl EventQueue {
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { state: Mutex::default(), arrived: Condvar::new(), bell: Doorbell::new()? })
    }

    /// The descriptor that is readable while there are events; `None` where the system has no such thing.
    pub(crate) fn descriptor(&self) -> Option<i32> {
        self.bell.descriptor()
    }

    /// Waits until there are events, and takes up to `most` of them.
    pub(crate) fn take(&self, most: usize, patience: Patience) -> Result<Vec<QsEvent>, CallFailure> {
        let mut state = self.lock();
        loop {
            if state.ended {
                return Err(bad_handle("an endpoint"));
            }
            let mut taken = Vec::new();
            while taken.len() < most {
                let Some(interest) = state.ready.pop_front() else { break };
                taken.extend(interest.event());
            }
            if state.ready.is_empty() && state.signalled {
                self.bell.clear();
                state.signalled = false;
            }
            if !taken.is_empty() || most == 0 {
                return Ok(taken);
            }
            state = match patience {
                Patience::None => return Err(CallFailure::new(QS_WOULD_BLOCK, "")),
                Patience::Ever => self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner),
                Patience::Until(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(CallFailure::new(QS_TIMED_OUT, ""));
                    }
                    self.arrived.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Nothing comes any more, and whoever waits is told.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        state.ready.clear();
        drop(state);
        self.arrived.notify_all();
    }

    fn push(&self, interest: Arc<Interest>) {
        let mut state = self.lock();
        if state.ended {
            return;
        }
        state.ready.push_back(interest);
        if !state.signalled {
            self.bell.raise();
            state.signalled = true;
        }
        drop(state);
        self.arrived.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, EventsReady> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Interest {
    /// It happened: whoever waits is woken, and an event is queued if one is wanted.
    pub(crate) fn happened(self: &Arc<Self>) {
        self.happen(false);
    }

    /// It happened, and there is an event in any case.
    pub(crate) fn announce(self: &Arc<Self>) {
        self.happen(true);
    }

    fn happen(self: &Arc<Self>, in_any_case: bool) {
        let mut state = self.lock();
        state.times += 1;
        let tells = (state.armed || in_any_case) && !state.queued && !state.dead;
        if tells {
            (state.armed, state.queued) = (false, true);
        }
        drop(state);
        self.changed.notify_all();
        if tells {
            self.source.queue.push(self.clone());
        }
    }

    /// The object is freed: nothing is told of it any more, and whoever waits goes.
    pub(crate) fn bury(&self) {
        self.lock().dead = true;
        self.changed.notify_all();
    }

    /// Whether an event is wanted for the next time that it happens.
    pub(crate) fn arm(&self, armed: bool) {
        self.lock().armed = armed;
    }

    /// How often it has happened so far.
    pub(crate) fn times(&self) -> u64 {
        self.lock().times
    }

    /// Waits until it has happened more than so many times.
    ///
    /// # Errors
    /// `QS_TIMED_OUT`, or `QS_BAD_HANDLE` when the object was freed.
    pub(crate) fn wait(&self, times: u64, end: Option<Instant>) -> Result<(), CallFailure> {
        let mut state = self.lock();
        loop {
            if state.dead {
                return Err(bad_handle("what the call waits for"));
            }
            if state.times > times {
                return Ok(());
            }
            state = match end {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(end) => {
                    let left = end.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(CallFailure::new(QS_TIMED_OUT, ""));
                    }
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    pub(crate) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(self.clone())
    }

    /// As C reads it, once it is taken from the queue; `None` when the object is gone.
    fn event(&self) -> Option<QsEvent> {
        let mut state = self.lock();
        state.queued = false;
        let EventSource { handle, parent, user, .. } = &self.source;
        let user = user.load(Ordering::Relaxed);
        (!state.dead).then_some(QsEvent {
            kind: self.kind,
            reserved: 0,
            handle: *handle,
            parent: *parent,
            user,
        })
    }

    fn lock(&self) -> MutexGuard<'_, InterestState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Wake for Interest {
    fn wake(self: Arc<Self>) {
        self.happened();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.happened();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> EventSource {
        let queue = Arc::new(EventQueue::new().unwrap());
        EventSource { handle: 7, parent: 3, user: Arc::default(), queue }
    }

    fn kinds(source: &EventSource) -> Vec<u32> {
        source
            .queue
            .take(10, Patience::None)
            .map_or(Vec::new(), |taken| taken.iter().map(|e| e.kind).collect())
    }

    #[test]
    fn an_event_comes_once_for_each_time_that_it_was_asked_for() {
        let source = source();
        let interest = source.interest(QS_EVENT_READABLE);
        interest.happened();
        assert!(kinds(&source).is_empty(), "nobody asked");
        interest.arm(true);
        (0..3).for_each(|_| interest.happened());
        assert_eq!(kinds(&source), [QS_EVENT_READABLE]);
        assert!(kinds(&source).is_empty());
        interest.announce();
        interest.announce();
        assert_eq!(kinds(&source), [QS_EVENT_READABLE], "it waits in the queue once");
    }

    #[test]
    fn nothing_is_told_of_what_is_freed() {
        let source = source();
        let [first, second] = [QS_EVENT_READABLE, QS_EVENT_WRITABLE].map(|kind| source.interest(kind));
        first.announce();
        second.announce();
        first.bury();
        assert_eq!(kinds(&source), [QS_EVENT_WRITABLE]);
        assert!(first.wait(100, None).is_err(), "it would wait for ever");
        first.announce();
        assert!(kinds(&source).is_empty());
    }

    #[test]
    fn an_event_has_the_number_of_the_application() {
        let source = source();
        source.user.store(99, Ordering::Relaxed);
        source.interest(QS_EVENT_MESSAGE).announce();
        let expected = QsEvent { kind: QS_EVENT_MESSAGE, reserved: 0, handle: 7, parent: 3, user: 99 };
        assert_eq!(source.queue.take(1, Patience::None).unwrap(), [expected]);
    }

    #[cfg(unix)]
    #[test]
    fn the_descriptor_is_readable_while_there_are_events() {
        let source = source();
        assert!(!source.queue.bell.is_raised());
        for kind in [QS_EVENT_READABLE, QS_EVENT_WRITABLE] {
            source.interest(kind).announce();
        }
        assert!(source.queue.bell.is_raised());
        assert_eq!(source.queue.take(1, Patience::None).unwrap().len(), 1);
        assert!(source.queue.bell.is_raised(), "there is one more");
        assert_eq!(source.queue.take(1, Patience::None).unwrap().len(), 1);
        assert!(!source.queue.bell.is_raised());
    }

    #[test]
    fn an_endpoint_that_ends_wakes_who_waits_for_events() {
        let source = source();
        let queue = source.queue.clone();
        let waiting = std::thread::spawn(move || queue.take(1, Patience::Ever).map_err(|e| e.status));
        source.queue.end();
        assert_eq!(waiting.join().unwrap(), Err(crate::status::QS_BAD_HANDLE));
    }
}
