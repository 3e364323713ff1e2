use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Poll, Waker, ready};

use bytes::Bytes;
use quickset_base::Time;
use quickset_quic::{
    self as quic, Class, ClassError, Closed, DatagramEvent, DatagramOutcome, DatagramTicket, Priority,
    WhenFull,
};

use crate::budget::poll_budget;
use crate::connection::Connection;
use crate::error::{DatagramError, TryDatagramError};
use crate::messages::Deadline;
use crate::reliability::Reliability;
use crate::shared::{HandlesOwner, LockedState};
use crate::waiting::WaitingTasks;
use crate::wakers::WakerSeat;

/// How a datagram is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramOptions {
    /// The time after which the datagram is no longer sent; `None` if it may wait for ever.
    pub deadline: Option<Deadline>,
    /// What happens when the send queue has no room for the datagram.
    pub when_full: WhenFull,
}

/// A handle of a datagram that was sent. It tells what becomes of the datagram. Dropping it changes nothing.
pub struct SentDatagram {
    owner: Arc<HandlesOwner>,
    name: DatagramTicket,
}

/// Unreliable datagrams (RFC 9221): whole, in one packet each, sent once or not at all.
impl Connection {
    /// Returns the length of the longest datagram that can be sent now, in bytes, or `None` if the peer takes
    /// no datagrams. It changes with the path.
    pub fn max_datagram_len(&self) -> Option<usize> {
        self.shared().lock().conn.max_datagram_len()
    }

    /// Sends a datagram without copying it. The call waits until the send queue has room. If the future is
    /// dropped before it is ready, the datagram was not sent.
    ///
    /// # Errors
    /// When the peer takes none, or none that is so long, or the connection is over.
    pub async fn send_datagram(&self, data: Bytes) -> Result<(), DatagramError> {
        let mut seat = WakerSeat::new(|| self.shared().lock(), |state| &mut state.datagrams.writers);
        let (shared, how) = (self.shared(), quic::DatagramOptions::default());
        let mut unsent = Some(data);
        let sent = poll_fn(|cx| {
            let coop = ready!(poll_budget(cx));
            let now = shared.now();
            let sent = ready!(seat.poll(cx, |state| {
                match state.push_datagram(now, unsent.take()?, &how) {
                    Ok(_) => Some(Ok(())),
                    Err(TryDatagramError::Full(data)) => {
                        unsent = Some(data);
                        None
                    }
                    Err(TryDatagramError::Failed(error)) => Some(Err(error)),
                }
            }));
            coop.made_progress();
            Poll::Ready(sent)
        })
        .await;
        shared.nudge();
        sent
    }

    /// Sends all of `data`, from the front, as [`send_datagram`](Self::send_datagram) does each: for whoever
    /// has several, since many together cost a fraction of that. What is sent is taken out. If the future is
    /// dropped, or fails, those that were not sent are still there.
    ///
    /// # Errors
    /// Like those of [`send_datagram`](Self::send_datagram). They are about the one at the front.
    pub async fn send_datagrams(&self, data: &mut VecDeque<Bytes>) -> Result<(), DatagramError> {
        let mut seat = WakerSeat::new(|| self.shared().lock(), |state| &mut state.datagrams.writers);
        let (shared, how) = (self.shared(), quic::DatagramOptions::default());
        poll_fn(|cx| {
            let coop = ready!(poll_budget(cx));
            let (now, before) = (shared.now(), data.len());
            let sent = seat.poll(cx, |state| {
                if let Some(closed) = state.closed() {
                    return Some(Err(DatagramError::Closed(closed)));
                }
                match state.conn.datagrams().send_all(now, data, &how) {
                    Ok(()) => Some(Ok(())),
                    Err(why) => DatagramError::of(why).map(Err),
                }
            });
            if data.len() < before {
                shared.nudge();
            }
            let sent = ready!(sent);
            coop.made_progress();
            Poll::Ready(sent)
        })
        .await
    }

    /// Sends a datagram now or not at all, as `how` says, and returns a handle that tells what becomes of it.
    ///
    /// # Errors
    /// When the send queue is full and the oldest are to be kept; else like
    /// [`send_datagram`](Self::send_datagram).
    pub fn try_send_datagram(
        &self,
        data: Bytes,
        how: &DatagramOptions,
    ) -> Result<SentDatagram, TryDatagramError> {
        let deadline = how.deadline.map(|deadline| deadline.time(&self.shared().line.clock));
        let how = quic::DatagramOptions { deadline, when_full: how.when_full, report: true };
        let shared = self.shared();
        let name = shared.lock().push_datagram(shared.now(), data, &how)?;
        shared.nudge();
        Ok(SentDatagram { owner: self.owner().clone(), name })
    }

    /// Returns how many datagrams wait to be sent, and how many bytes they have: how far the application is
    /// ahead of the network.
    pub fn unsent_datagrams(&self) -> (usize, usize) {
        self.shared().lock().conn.datagrams().unsent()
    }

    /// Waits until datagrams of at most `bytes` bytes together are [unsent](Self::unsent_datagrams). Make the
    /// next ones then of what is newest: what is made earlier grows old in the queue. Dropping the future
    /// loses nothing.
    ///
    /// # Errors
    /// When the connection is over.
    pub async fn datagrams_drained_to(&self, bytes: usize) -> Result<(), Closed> {
        let seat = WakerSeat::new(|| self.shared().lock(), |state| &mut state.datagrams.drainers);
        seat.wait(|state| {
            if let Some(closed) = state.closed() {
                return Some(Err(closed));
            }
            if state.conn.datagrams().unsent().1 <= bytes {
                return Some(Ok(()));
            }
            state.datagrams.low = state.datagrams.low.max(bytes);
            None
        })
        .await
    }

    /// Waits for the peer's next datagram, in the order of arrival. Datagrams that nobody reads in time are
    /// dropped for later ones. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the connection is over and all that came was taken.
    pub async fn read_datagram(&self) -> Result<Bytes, Closed> {
        self.read(|state| state.conn.datagrams().recv()).await
    }

    /// Waits until datagrams of the peer are there, and moves up to `most` of them, but at least one, to the
    /// back of `into`, as [`read_datagram`](Self::read_datagram) would one by one. Returns how many. Many
    /// together cost a fraction of that. Dropping the future loses nothing.
    ///
    /// # Errors
    /// When the connection is over and all that came was taken.
    pub async fn read_datagrams(&self, into: &mut Vec<Bytes>, most: usize) -> Result<usize, Closed> {
        self.read(|state| match state.conn.datagrams().recv_all(most.max(1), into) {
            0 => None,
            n => Some(n),
        })
        .await
    }

    /// Waits until `take` finds what it takes.
    async fn read<T>(&self, mut take: impl FnMut(&mut LockedState) -> Option<T>) -> Result<T, Closed> {
        let shared = self.shared();
        let mut seat = WakerSeat::new(|| shared.lock(), |state| &mut state.datagrams.readers);
        poll_fn(|cx| {
            let coop = ready!(poll_budget(cx));
            let mut goes_on = false;
            let read = seat.poll(cx, |state| {
                let taken = take(state);
                goes_on = shared.has_read(state);
                taken.map(Ok).or_else(|| state.closed().map(Err))
            });
            if goes_on {
                shared.nudge();
            }
            let read = ready!(read);
            coop.made_progress();
            Poll::Ready(read)
        })
        .await
    }

    /// Returns the peer's next datagram if it is there already.
    pub fn try_read_datagram(&self) -> Option<Bytes> {
        let shared = self.shared();
        let mut state = shared.lock();
        let data = state.conn.datagrams().recv();
        let goes_on = shared.has_read(&mut state);
        drop(state);
        if goes_on {
            shared.nudge();
        }
        data
    }

    /// Sets the priority of datagrams among streams. All datagrams together take turns like one stream of
    /// this priority; unless told otherwise, one of urgency 3 and weight 1.
    pub fn set_datagram_priority(&self, priority: Priority) {
        self.shared().lock().conn.datagrams().set_priority(priority);
        self.shared().nudge();
    }

    /// Puts all datagrams into the last of these classes; see
    /// [`SendStream::set_class`](crate::SendStream::set_class).
    ///
    /// # Errors
    /// When there are too many classes, or too many one below the other. Nothing has changed then.
    pub fn set_datagram_class(&self, path: &[Class]) -> Result<(), ClassError> {
        let result = self.shared().lock().conn.datagrams().set_class(path);
        self.shared().nudge();
        result
    }

    /// Sets how urgent datagrams are: 0 (most) to 7 (least), 3 unless told otherwise. Among streams of the
    /// same urgency they take turns like one stream.
    pub fn set_datagram_urgency(&self, urgency: u8) {
        self.shared().lock().conn.datagrams().set_urgency(urgency);
        self.shared().nudge();
    }

    /// Sets how datagrams are repaired from now on. Protection of the connection's streams does not cover
    /// datagrams, and no datagram is ever sent again. The time of [`Reliability::within`] counts for messages
    /// only.
    pub fn set_datagram_reliability(&self, reliability: impl Into<Reliability>) {
        let reliability = reliability.into();
        self.shared().lock().conn.datagrams().set_protection(reliability.protection());
        self.shared().nudge();
    }

    /// Says that the datagrams sent so far belong together, like those of a picture or of a tick of a game,
    /// so that repair may be sent right behind them.
    pub fn flush_datagrams(&self) {
        self.shared().lock().conn.datagrams().flush();
        self.shared().nudge();
    }
}

impl SentDatagram {
    /// Waits until it is known what became of the datagram. The outcome is also [`DatagramOutcome::Lost`] if
    /// the connection ends first.
    pub async fn outcome(&self) -> DatagramOutcome {
        let seat =
            WakerSeat::new(|| self.owner.shared.lock(), |state| state.datagrams.tickets.waiting(self.name));
        let lost = |state: &LockedState| state.conn.closed().map(|_| DatagramOutcome::Lost);
        seat.wait(|state| state.datagrams.tickets.outcome(self.name).or_else(|| lost(state))).await
    }
}

impl Drop for SentDatagram {
    fn drop(&mut self) {
        self.owner.shared.lock().datagrams.tickets.release(self.name);
    }
}

impl fmt::Debug for SentDatagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SentDatagram").field("name", &self.name).finish_non_exhaustive()
    }
}

impl LockedState {
    /// Takes a datagram into the send queue, or says why not.
    fn push_datagram(
        &mut self,
        now: Time,
        data: Bytes,
        how: &quic::DatagramOptions,
    ) -> Result<DatagramTicket, TryDatagramError> {
        if let Some(closed) = self.closed() {
            return Err(DatagramError::Closed(closed).into());
        }
        match self.conn.datagrams().send(now, data, how) {
            Ok(ticket) => {
                if how.report {
                    self.datagrams.tickets.hold(ticket);
                }
                Ok(ticket)
            }
            Err(unsent) => Err(match DatagramError::of(unsent.why) {
                Some(error) => error.into(),
                None => TryDatagramError::Full(unsent.data),
            }),
        }
    }

    /// Those are woken for whom few enough bytes of datagrams may be unsent; who waits for fewer waits again.
    pub(crate) fn drained_of_datagrams(&mut self, woken: &mut Vec<Waker>) {
        let Self { conn, datagrams, .. } = self;
        if !datagrams.drainers.is_empty() && conn.datagrams().unsent().1 <= datagrams.low {
            datagrams.low = 0;
            datagrams.drainers.drain_to(woken);
        }
    }

    /// News of datagrams.
    pub(crate) fn on_datagram(&mut self, event: DatagramEvent, woken: &mut Vec<Waker>) {
        match event {
            DatagramEvent::Received => self.datagrams.readers.drain_to(woken),
            DatagramEvent::Writable => self.datagrams.writers.drain_to(woken),
            DatagramEvent::Outcome => {
                while let Some((name, outcome)) = self.conn.datagrams().next_outcome() {
                    self.datagrams.tickets.settle(name, outcome, woken);
                }
            }
        }
    }
}

impl DatagramError {
    /// What it is to the application; `None` while the queue is full.
    fn of(why: quic::DatagramError) -> Option<Self> {
        match why {
            quic::DatagramError::Unsupported => Some(Self::Unsupported),
            quic::DatagramError::TooLong { max } => Some(Self::TooLong { max }),
            quic::DatagramError::Full => None,
        }
    }
}

impl WaitingTasks {
    /// The connection is over.
    pub(crate) fn wake_all(&mut self, woken: &mut Vec<Waker>) {
        self.readers.drain_to(woken);
        self.writers.drain_to(woken);
        self.drainers.drain_to(woken);
        self.tickets.wake(woken);
    }
}
