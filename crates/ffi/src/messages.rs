//! Streams of messages: fences, deadlines, and what became of each.

use std::any::Any;
use std::collections::VecDeque;
use std::ffi::{c_char, c_void};
use std::future::Future as _;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use quickset::bytes::Bytes;
use quickset::{
    Deadline, MessageReceiver, MessageSender, MessageStats, MessageTicket, Outcome, Outcomes,
    ReceivedMessage, SendError, TicketId,
};

use crate::border::{Buffer, OutPlace, bytes, check_code, put_sized, text};
use crate::config::read_protection;
use crate::events::{
    EventSource, Interest, QS_EVENT_FINISHED, QS_EVENT_MESSAGE, QS_EVENT_OUTCOME, QS_EVENT_WRITABLE,
};
use crate::patience::Patience;
use crate::status::{CallFailure, QS_UNSUPPORTED, QsStatus, call};
use crate::stream::{SharedHalf, check_urgency, no_such_half};
use crate::table::{HandledObject, get};
use crate::wait::attempt;

/// A handle of a stream of messages.
pub type QsMessages = u64;

/// The peer has all of the message.
pub const QS_OUTCOME_DELIVERED: u32 = 1;
/// The peer has all of the message, a part of it by repair.
pub const QS_OUTCOME_RECOVERED: u32 = 2;
/// The message was dropped before anything of it was sent.
pub const QS_OUTCOME_DROPPED: u32 = 3;
/// The message was given up after a part of it was sent: it is not known to have arrived.
pub const QS_OUTCOME_ABANDONED: u32 = 4;
/// The connection ended before that was known: the message may have arrived.
pub const QS_OUTCOME_UNKNOWN: u32 = 5;
/// None of these; a newer library knows more.
pub const QS_OUTCOME_OTHER: u32 = 99;

/// The history of a message that was received.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QsMessage {
    /// Set it to `sizeof(qs_message)` before the call; afterwards it is how many bytes were stored.
    pub size: u64,
    /// The number of what lies between two fences. Messages of the same segment may have overtaken each
    /// other; one of a greater segment was sent later.
    pub segment: u64,
    /// For how many microseconds fences held back the complete message.
    pub blocked_us: u64,
}

/// What became of the messages of a stream so far.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QsMessageStats {
    /// Set it to `sizeof(qs_message_stats)` before the call; afterwards it is how many bytes were stored.
    pub size: u64,
    /// Messages handed over to be sent.
    pub queued: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Messages of which something was sent.
    pub sent: u64,
    /// Messages that arrived by their deadlines, or had none.
    pub on_time: u64,
    /// Messages that arrived later.
    pub late: u64,
    /// Messages that arrived with the help of repair.
    pub recovered: u64,
    /// Bytes of messages that arrived.
    pub arrived_bytes: u64,
    /// Messages that were dropped before anything of them was sent.
    pub dropped: u64,
    /// Messages that were given up after a part of them was sent.
    pub abandoned: u64,
    /// Bytes of messages that wait to be sent, for the first time or again.
    pub unsent_bytes: u64,
}

/// The halves of a stream of messages that this side has.
pub(crate) struct MessagesObject {
    id: u64,
    pub(crate) user: Arc<AtomicU64>,
    sending: Mutex<Option<MessagesOut>>,
    receiving: Mutex<Option<MessagesIn>>,
    writes: Arc<Interest>,
    arrives: Arc<Interest>,
    finishes: Arc<Interest>,
    settles: Arc<Interest>,
}

/// The halves of a stream of messages that this side has.
pub(crate) struct MessageHalves {
    pub(crate) sending: Option<MessageSender>,
    pub(crate) receiving: Option<MessageReceiver>,
}

struct MessagesOut {
    sender: SharedHalf<MessageSender, SendError>,
    /// How long messages without a deadline of their own are of use.
    within: Option<Duration>,
    /// The number of the next message.
    next: u64,
    watched: Option<WatchedMessages>,
}

/// Messages of which the application wants to know what becomes.
struct WatchedMessages {
    outcomes: Outcomes,
    /// Those whose outcome was not told, in the order in which they were sent, which is that of their numbers
    /// and of their tickets.
    open: VecDeque<WatchedMessage>,
}

struct WatchedMessage {
    number: u64,
    ticket: TicketId,
}

struct MessagesIn {
    receiver: MessageReceiver,
    /// One for which a buffer was too small.
    kept: Option<ReceivedMessage>,
}

impl MessagesObject {
    pub(crate) fn new(of: &EventSource, handle: u64, halves: MessageHalves) -> Arc<Self> {
        let user = Arc::new(AtomicU64::new(0));
        let source = EventSource { handle, parent: of.handle, user: user.clone(), queue: of.queue.clone() };
        let finishes = source.interest(QS_EVENT_FINISHED);
        let MessageHalves { sending, receiving } = halves;
        let id = sending.as_ref().map(MessageSender::id).or(receiving.as_ref().map(MessageReceiver::id));
        let out = |sender| MessagesOut {
            sender: SharedHalf::new(sender, &finishes),
            within: None,
            next: 0,
            watched: None,
        };
        Arc::new(Self {
            id: id.map_or(0, |id| id.0),
            user,
            sending: Mutex::new(sending.map(out)),
            receiving: Mutex::new(receiving.map(|receiver| MessagesIn { receiver, kept: None })),
            writes: source.interest(QS_EVENT_WRITABLE),
            arrives: source.interest(QS_EVENT_MESSAGE),
            finishes,
            settles: source.interest(QS_EVENT_OUTCOME),
        })
    }

    fn sending(&self) -> MutexGuard<'_, Option<MessagesOut>> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receiving(&self) -> MutexGuard<'_, Option<MessagesIn>> {
        self.receiving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the sending half.
    fn send<T>(&self, what: impl FnOnce(&mut MessageSender) -> T) -> Result<T, CallFailure> {
        let mut sending = self.sending();
        Ok(what(sending.as_mut().ok_or_else(no_such_half)?.sender.used()?))
    }

    /// The handle is freed.
    pub(crate) fn release(&self) {
        for interest in [&self.writes, &self.arrives, &self.finishes, &self.settles] {
            interest.bury();
        }
        let halves = (self.sending().take(), self.receiving().take());
        drop(halves);
    }
}

impl MessagesOut {
    /// Hands a message over, and returns its number.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        message: &Bytes,
        deadline: Option<Deadline>,
    ) -> Poll<Result<u64, CallFailure>> {
        let sender = self.sender.used()?;
        let sent: Result<MessageTicket, SendError> = ready!(match deadline {
            Some(deadline) => pin!(sender.send_by(message.clone(), deadline)).poll(cx),
            None => pin!(sender.send(message.clone())).poll(cx),
        });
        let ticket = sent?.id();
        let number = self.next;
        self.next += 1;
        if let Some(watched) = &mut self.watched {
            watched.open.push_back(WatchedMessage { number, ticket });
        }
        Poll::Ready(Ok(number))
    }
}

impl WatchedMessages {
    /// The next message of which it is known what became of it, or that this will never be known; `None`
    /// behind the last one.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<(u64, Option<Outcome>)>> {
        loop {
            let next = ready!(pin!(self.outcomes.next()).poll(cx));
            let Some((ticket, outcome)) = next else {
                return Poll::Ready(self.open.pop_front().map(|message| (message.number, None)));
            };
            let found = self.open.binary_search_by_key(&ticket, |message| message.ticket);
            // One that was sent before it was watched has no number, and is passed over.
            if let Some(message) = found.ok().and_then(|at| self.open.remove(at)) {
                return Poll::Ready(Some((message.number, Some(outcome))));
            }
        }
    }

    fn ticket(&self, number: u64) -> Option<TicketId> {
        let at = self.open.binary_search_by_key(&number, |message| message.number).ok()?;
        Some(self.open[at].ticket)
    }
}

impl HandledObject for MessagesObject {
    fn name() -> &'static str {
        "a stream of messages"
    }

    fn end(&self) {
        self.release();
    }

    fn user(&self) -> Option<&AtomicU64> {
        Some(&self.user)
    }

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

/// Sends a message, whole. Messages between two fences are delivered in whatever order they arrive. With a
/// `deadline_ms` that is not negative the message is of use for so many milliseconds from this call on, and
/// is dropped or given up when it cannot arrive in time, so with 0 it is dropped at once; with a negative one
/// it is of use as long as `qs_messages_set_reliability` says, or for ever. Its number, from 0 on, is stored
/// in `number` unless that is null. `QS_EVENT_WRITABLE` tells when there is room and the call should be tried
/// again.
///
/// # Safety
/// `data` leads to `length` bytes and `number` to memory for a number, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_messages_send(
    messages: QsMessages,
    data: *const c_void,
    length: usize,
    deadline_ms: i64,
    number: *mut u64,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let place = OutPlace::optional(number);
        // SAFETY: the caller vouches for it.
        let data = unsafe { bytes(data, length) }?;
        let object = get::<MessagesObject>(messages)?;
        let (max, within) = {
            let sending = object.sending();
            let out = sending.as_ref().ok_or_else(no_such_half)?;
            (out.sender.half().max_len(), out.within)
        };
        // Before it is copied, which might be more than there is memory for.
        if data.len() as u64 > max {
            return Err(SendError::TooLong { max }.into());
        }
        let within = u64::try_from(deadline_ms).map_or(within, |ms| Some(Duration::from_millis(ms)));
        // Waiting for room is part of it. A deadline after the end of time is none.
        let deadline =
            within.filter(|within| *within < LONGEST).map(|within| Deadline::at(Instant::now() + within));
        let message = Bytes::copy_from_slice(data);
        let sent = attempt(&object.writes, Patience::of_ms(timeout_ms), |cx| {
            let mut sending = object.sending();
            sending.as_mut().ok_or_else(no_such_half)?.poll_send(cx, &message, deadline)
        })?;
        // SAFETY: as above.
        unsafe { place.put(sent) };
        Ok(())
    })
}

/// A year: beyond it a message is of use for ever.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Sets a fence: messages sent after it are delivered after all messages sent before it. Those that were
/// dropped or given up are not waited for.
#[unsafe(no_mangle)]
pub extern "C" fn qs_messages_fence(messages: QsMessages) -> QsStatus {
    call(|| get::<MessagesObject>(messages)?.send(MessageSender::fence))
}

/// Sets whether a fence follows every message (1) or not (0, as at the start). If so, messages are delivered
/// in the order in which they were sent.
#[unsafe(no_mangle)]
pub extern "C" fn qs_messages_set_ordered(messages: QsMessages, ordered: i32) -> QsStatus {
    call(|| get::<MessagesObject>(messages)?.send(|half| half.set_ordered(ordered != 0)))
}

/// Sets whether lost messages are kept and sent again (1, as at the start), or given up as soon as a part of
/// them is lost (0).
#[unsafe(no_mangle)]
pub extern "C" fn qs_messages_set_resend(messages: QsMessages, resend: i32) -> QsStatus {
    call(|| get::<MessagesObject>(messages)?.send(|half| half.set_resend(resend != 0)))
}

/// Sets how urgent the messages are: 0 (most) to 7 (least), 3 at the start.
#[unsafe(no_mangle)]
pub extern "C" fn qs_messages_set_urgency(messages: QsMessages, urgency: u8) -> QsStatus {
    call(|| {
        let urgency = check_urgency(urgency)?;
        get::<MessagesObject>(messages)?.send(|half| half.set_urgency(urgency))
    })
}

/// Sets how messages are protected against loss from now on, by a text as for `qs_config_set_protection`,
/// like `adaptive:screen` for updates of a screen or `adaptive:messages` for input; and for how many
/// milliseconds a message without a deadline of its own is of use, for ever if that is negative. Without
/// `QS_FEATURE_FEC` nothing is repaired.
///
/// # Safety
/// `protection` is a text, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_messages_set_reliability(
    messages: QsMessages,
    protection: *const c_char,
    within_ms: i64,
) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let protection = read_protection(unsafe { text(protection, "the protection") }?)?;
        let object = get::<MessagesObject>(messages)?;
        let mut sending = object.sending();
        let out = sending.as_mut().ok_or_else(no_such_half)?;
        out.sender.used()?.set_protection(&protection);
        out.within = u64::try_from(within_ms).ok().map(Duration::from_millis);
        Ok(())
    })
}

/// Says that the application now waits for an answer to the messages sent so far, so that repair may go out
/// behind them. Each fence says so already.
#[unsafe(no_mangle)]
pub extern "C" fn qs_messages_flush(messages: QsMessages) -> QsStatus {
    call(|| get::<MessagesObject>(messages)?.send(MessageSender::flush))
}

/// Has `qs_messages_outcome` tell what becomes of the messages that are sent from now on. Whoever asks for
/// that has to take what it tells: with 65,536 outcomes that nobody has taken, the stream takes no more
/// messages.
#[unsafe(no_mangle)]
pub extern "C" fn qs_messages_watch(messages: QsMessages) -> QsStatus {
    call(|| {
        let object = get::<MessagesObject>(messages)?;
        let mut sending = object.sending();
        let out = sending.as_mut().ok_or_else(no_such_half)?;
        if out.watched.is_none() {
            let outcomes = out.sender.half().outcomes();
            out.watched = Some(WatchedMessages { outcomes, open: VecDeque::new() });
        }
        Ok(())
    })
}

/// Takes the next message of which it is known what became of it: its number, and one of `QS_OUTCOME_…`.
/// Returns `QS_END` when the stream or the connection has ended and every message was told. Call
/// `qs_messages_watch` first. `QS_EVENT_OUTCOME` tells when to try again.
///
/// # Safety
/// `number` and `outcome` lead to memory for numbers, or are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_messages_outcome(
    messages: QsMessages,
    number: *mut u64,
    outcome: *mut u32,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let number = OutPlace::needed(number, "the place for the number")?;
        let outcome = OutPlace::needed(outcome, "the place for the outcome")?;
        let object = get::<MessagesObject>(messages)?;
        let told = attempt(&object.settles, Patience::of_ms(timeout_ms), |cx| {
            let mut sending = object.sending();
            let out = sending.as_mut().ok_or_else(no_such_half)?;
            let watched = out.watched.as_mut().ok_or_else(unwatched)?;
            watched.poll_next(cx).map(|next| next.ok_or_else(CallFailure::end))
        })?;
        let known = match told.1 {
            Some(Outcome::Delivered) => QS_OUTCOME_DELIVERED,
            Some(Outcome::Recovered) => QS_OUTCOME_RECOVERED,
            Some(Outcome::Dropped) => QS_OUTCOME_DROPPED,
            Some(Outcome::Abandoned) => QS_OUTCOME_ABANDONED,
            None => QS_OUTCOME_UNKNOWN,
            Some(_) => QS_OUTCOME_OTHER,
        };
        // SAFETY: the caller vouches for it.
        unsafe { number.put(told.0) };
        // SAFETY: as above.
        unsafe { outcome.put(known) };
        Ok(())
    })
}

/// Says that the message with this number is outdated: what was not sent of it is not sent, what is lost is
/// not sent again. Call `qs_messages_watch` before sending it. Returns `QS_END` when that changes nothing any
/// more.
#[unsafe(no_mangle)]
pub extern "C" fn qs_messages_supersede(messages: QsMessages, number: u64) -> QsStatus {
    call(|| {
        let object = get::<MessagesObject>(messages)?;
        let mut sending = object.sending();
        let out = sending.as_mut().ok_or_else(no_such_half)?;
        let ticket = out.watched.as_ref().ok_or_else(unwatched)?.ticket(number);
        let ticket = ticket.ok_or_else(CallFailure::end)?;
        if out.sender.used()?.supersede(ticket) { Ok(()) } else { Err(CallFailure::end()) }
    })
}

fn unwatched() -> CallFailure {
    CallFailure::new(QS_UNSUPPORTED, "call qs_messages_watch before the first message")
}

/// Ends this side's direction of the stream behind the messages sent. It does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn qs_messages_finish(messages: QsMessages) -> QsStatus {
    call(|| get::<MessagesObject>(messages)?.send(MessageSender::finish)?.map_err(CallFailure::from))
}

/// Waits until the outcome of every message is known and the peer knows of the end. Finish the stream first.
/// `QS_EVENT_FINISHED` tells when to try again.
#[unsafe(no_mangle)]
pub extern "C" fn qs_messages_finished(messages: QsMessages, timeout_ms: i32) -> QsStatus {
    call(|| {
        let object = get::<MessagesObject>(messages)?;
        attempt(&object.finishes, Patience::of_ms(timeout_ms), |cx| {
            let mut sending = object.sending();
            let out = sending.as_mut().ok_or_else(no_such_half)?;
            let wait = |half: Arc<MessageSender>| Box::pin(async move { half.finished().await }) as _;
            out.sender.poll_finished(cx, wait).map_err(CallFailure::from)
        })
    })
}

/// Gives this side's direction of the stream up: messages that have not arrived are not sent any more, and
/// the peer is told `code`, less than 2^62.
#[unsafe(no_mangle)]
pub extern "C" fn qs_messages_reset(messages: QsMessages, code: u64) -> QsStatus {
    call(|| {
        let code = check_code(code)?;
        get::<MessagesObject>(messages)?.send(|half| half.reset(code))
    })
}

/// Receives the next message that its fences let pass, and stores its length in `length`. Returns
/// `QS_TOO_SMALL` if the buffer has no room for it: the length is stored then, too, and the message comes
/// again with the next call. Returns `QS_END` after the last message. Its history is stored in `message`,
/// unless that is null; set the field `size` before. `QS_EVENT_MESSAGE` tells when to try again.
///
/// # Safety
/// `buffer` leads to `capacity` bytes, `length` to memory for a number, and `message` to as many bytes as its
/// field `size` says, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_messages_receive(
    messages: QsMessages,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
    message: *mut QsMessage,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let buffer = Buffer::new(buffer.cast(), capacity, length)?;
        let object = get::<MessagesObject>(messages)?;
        let received = attempt(&object.arrives, Patience::of_ms(timeout_ms), |cx| {
            let mut receiving = object.receiving();
            let half = receiving.as_mut().ok_or_else(no_such_half)?;
            if let Some(kept) = half.kept.take() {
                return Poll::Ready(Ok(kept));
            }
            let next = ready!(pin!(half.receiver.next()).poll(cx));
            Poll::Ready(next.map_or_else(|| Err(CallFailure::end()), |next| next.map_err(CallFailure::from)))
        })?;
        let history =
            QsMessage { size: 0, segment: received.segment, blocked_us: micros(received.blocked()) };
        // SAFETY: the caller vouches for it.
        let mut filled = unsafe { buffer.fill(&received.payload) };
        if filled.is_ok() && !message.is_null() {
            // SAFETY: as above, and a `QsMessage` is as it has to be.
            filled = unsafe { put_sized(message, &history) };
        }
        if filled.is_err() {
            if let Some(half) = &mut *object.receiving() {
                half.kept = Some(received);
            }
        }
        filled
    })
}

/// Asks the peer to send no more, with a `code` less than 2^62. Messages that were not received are lost.
#[unsafe(no_mangle)]
pub extern "C" fn qs_messages_stop(messages: QsMessages, code: u64) -> QsStatus {
    call(|| {
        let code = check_code(code)?;
        let object = get::<MessagesObject>(messages)?;
        let half = object.receiving().take();
        half.ok_or_else(no_such_half)?.receiver.stop(code);
        object.arrives.happened();
        Ok(())
    })
}

/// Stores the stream's id (RFC 9000, section 2.1), which both sides know it by.
///
/// # Safety
/// `id` leads to memory for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_messages_id(messages: QsMessages, id: *mut u64) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(id, "the place for the id")?;
        let id = get::<MessagesObject>(messages)?.id;
        // SAFETY: the caller vouches for it.
        unsafe { place.put(id) };
        Ok(())
    })
}

/// Stores what became of the messages that this side sent. Set the field `size` before.
///
/// # Safety
/// `stats` leads to as many bytes as its field `size` says, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_messages_stats(messages: QsMessages, stats: *mut QsMessageStats) -> QsStatus {
    call(|| {
        let object = get::<MessagesObject>(messages)?;
        let (counted, unsent_bytes) = {
            let sending = object.sending();
            let half = sending.as_ref().ok_or_else(no_such_half)?.sender.half();
            (half.stats(), half.unsent())
        };
        let MessageStats { queued, queued_bytes, sent, on_time, late, recovered, .. } = counted;
        let MessageStats { arrived_bytes, dropped, abandoned, .. } = counted;
        let whole = QsMessageStats {
            size: 0,
            queued,
            queued_bytes,
            sent,
            on_time,
            late,
            recovered,
            arrived_bytes,
            dropped,
            abandoned,
            unsent_bytes,
        };
        // SAFETY: the caller vouches for it, and a `QsMessageStats` is as it has to be.
        unsafe { put_sized(stats, &whole) }
    })
}

/// In whole microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
