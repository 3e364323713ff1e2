//! Streams of bytes.

use std::any::Any;
use std::ffi::{c_char, c_void};
use std::future::Future as _;
use std::pin::pin;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};

use quickset::{RecvStream, SendStream, WriteError};

use crate::border::{Buffer, OutPlace, bytes, check_code, text};
use crate::config::read_protection;
use crate::events::{EventSource, Interest, QS_EVENT_FINISHED, QS_EVENT_READABLE, QS_EVENT_WRITABLE};
use crate::patience::Patience;
use crate::status::{CallFailure, QS_ENDED, QsStatus, call};
use crate::table::{HandledObject, get};
use crate::wait::{BoxedFuture, attempt};

/// A handle of a stream of bytes.
pub type QsStream = u64;

/// The halves of a stream that this side has.
pub(crate) struct StreamObject {
    id: u64,
    pub(crate) user: Arc<AtomicU64>,
    sending: Mutex<Option<SharedHalf<SendStream, WriteError>>>,
    receiving: Mutex<Option<RecvStream>>,
    writes: Arc<Interest>,
    reads: Arc<Interest>,
    finishes: Arc<Interest>,
}

/// The halves of a stream of bytes that this side has.
pub(crate) struct ByteHalves {
    pub(crate) sending: Option<SendStream>,
    pub(crate) receiving: Option<RecvStream>,
}

/// A sending half, which is either used or waited for.
pub(crate) struct SharedHalf<S, E> {
    half: Arc<S>,
    /// Waits for its end, and has the half for itself meanwhile.
    finished: Option<BoxedFuture<Result<(), E>>>,
    /// Who is told when the waiting was given up.
    finishes: Arc<Interest>,
}

impl<S, E> SharedHalf<S, E> {
    pub(crate) fn new(half: S, finishes: &Arc<Interest>) -> Self {
        Self { half: Arc::new(half), finished: None, finishes: finishes.clone() }
    }

    /// The half, to be looked at.
    pub(crate) fn half(&self) -> &S {
        &self.half
    }

    /// The half, to be used. Whoever waits for its end looks again.
    pub(crate) fn used(&mut self) -> Result<&mut S, CallFailure> {
        if self.finished.take().is_some() {
            self.finishes.happened();
        }
        let busy = || CallFailure::new(crate::status::QS_INTERNAL, "the half of a stream is held twice");
        Arc::get_mut(&mut self.half).ok_or_else(busy)
    }

    /// Polls what waits for the end, which `make` makes if nothing does yet.
    pub(crate) fn poll_finished(
        &mut self,
        cx: &mut Context<'_>,
        make: impl FnOnce(Arc<S>) -> BoxedFuture<Result<(), E>>,
    ) -> Poll<Result<(), E>> {
        let half = &self.half;
        let polled = self.finished.get_or_insert_with(|| make(half.clone())).as_mut().poll(cx);
        if polled.is_ready() {
            self.finished = None;
        }
        polled
    }
}

impl StreamObject {
    pub(crate) fn new(of: &EventSource, handle: u64, halves: ByteHalves) -> Arc<Self> {
        let user = Arc::new(AtomicU64::new(0));
        let source = EventSource { handle, parent: of.handle, user: user.clone(), queue: of.queue.clone() };
        let finishes = source.interest(QS_EVENT_FINISHED);
        let ids =
            halves.sending.as_ref().map(SendStream::id).or(halves.receiving.as_ref().map(RecvStream::id));
        Arc::new(Self {
            id: ids.map_or(0, |id| id.0),
            user,
            sending: Mutex::new(halves.sending.map(|half| SharedHalf::new(half, &finishes))),
            receiving: Mutex::new(halves.receiving),
            writes: source.interest(QS_EVENT_WRITABLE),
            reads: source.interest(QS_EVENT_READABLE),
            finishes,
        })
    }

    fn sending(&self) -> MutexGuard<'_, Option<SharedHalf<SendStream, WriteError>>> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receiving(&self) -> MutexGuard<'_, Option<RecvStream>> {
        self.receiving.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does something with the sending half.
    fn send<T>(&self, what: impl FnOnce(&mut SendStream) -> T) -> Result<T, CallFailure> {
        let mut sending = self.sending();
        Ok(what(sending.as_mut().ok_or_else(no_such_half)?.used()?))
    }

    fn poll_write(&self, cx: &mut Context<'_>, data: &[u8]) -> Poll<Result<usize, CallFailure>> {
        let mut sending = self.sending();
        let half = sending.as_mut().ok_or_else(no_such_half)?.used()?;
        pin!(half.write(data)).poll(cx).map_err(CallFailure::from)
    }

    /// The handle is freed.
    pub(crate) fn release(&self) {
        for interest in [&self.writes, &self.reads, &self.finishes] {
            interest.bury();
        }
        let halves = (self.sending().take(), self.receiving().take());
        drop(halves);
    }
}

pub(crate) fn no_such_half() -> CallFailure {
    CallFailure::new(QS_ENDED, "this side has no such direction of the stream, or gave it up")
}

impl HandledObject for StreamObject {
    fn name() -> &'static str {
        "a stream of bytes"
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

/// Writes `data` and stores in `written` how many bytes were taken. Without time to wait these are as many as
/// there is room for, and if that is none, `QS_WOULD_BLOCK`: `QS_EVENT_WRITABLE` tells when to try again.
/// With time it is all of them, unless the call fails or the time is over: `written` is right then, too.
///
/// # Safety
/// `data` leads to `length` bytes and `written` to memory for a number, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_stream_write(
    stream: QsStream,
    data: *const c_void,
    length: usize,
    written: *mut usize,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(written, "the place for the length")?;
        // SAFETY: the caller vouches for it.
        unsafe { place.put(0) };
        // SAFETY: as above.
        let data = unsafe { bytes(data, length) }?;
        let object = get::<StreamObject>(stream)?;
        let patience = Patience::of_ms(timeout_ms);
        let mut done = 0;
        while done < data.len() {
            let wrote = attempt(&object.writes, patience, |cx| object.poll_write(cx, &data[done..]));
            match wrote {
                Ok(n) => done += n,
                // What was taken was taken: the next call says the rest.
                Err(_) if done > 0 && matches!(patience, Patience::None) => break,
                Err(failure) => return Err(failure),
            }
            // SAFETY: as above.
            unsafe { place.put(done) };
        }
        Ok(())
    })
}

/// Reads up to `capacity` bytes and stores how many in `length`, at least one unless there is no room for
/// any. Returns `QS_END` at the end of the stream. `QS_EVENT_READABLE` tells when to try again.
///
/// # Safety
/// `buffer` leads to `capacity` bytes and `length` to memory for a number, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_stream_read(
    stream: QsStream,
    buffer: *mut c_void,
    capacity: usize,
    length: *mut usize,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let buffer = Buffer::new(buffer.cast(), capacity, length)?;
        // SAFETY: the caller vouches for it.
        unsafe { buffer.fill(&[]) }?;
        let object = get::<StreamObject>(stream)?;
        if capacity == 0 {
            return Ok(());
        }
        let chunk = attempt(&object.reads, Patience::of_ms(timeout_ms), |cx| {
            let mut receiving = object.receiving();
            let half = receiving.as_mut().ok_or_else(no_such_half)?;
            let read = ready!(pin!(half.read_chunk(buffer.capacity())).poll(cx));
            Poll::Ready(read.map_err(CallFailure::from).and_then(|chunk| chunk.ok_or_else(CallFailure::end)))
        })?;
        // SAFETY: as above.
        unsafe { buffer.fill(&chunk) }
    })
}

/// Ends this side's direction of the stream behind what was written. It does not wait.
#[unsafe(no_mangle)]
pub extern "C" fn qs_stream_finish(stream: QsStream) -> QsStatus {
    call(|| get::<StreamObject>(stream)?.send(SendStream::finish)?.map_err(CallFailure::from))
}

/// Waits until all bytes and the end of the stream have arrived at the peer. Finish it first.
/// `QS_EVENT_FINISHED` tells when to try again.
#[unsafe(no_mangle)]
pub extern "C" fn qs_stream_finished(stream: QsStream, timeout_ms: i32) -> QsStatus {
    call(|| {
        let object = get::<StreamObject>(stream)?;
        attempt(&object.finishes, Patience::of_ms(timeout_ms), |cx| {
            let mut sending = object.sending();
            let half = sending.as_mut().ok_or_else(no_such_half)?;
            let wait = |half: Arc<SendStream>| Box::pin(async move { half.finished().await }) as _;
            half.poll_finished(cx, wait).map_err(CallFailure::from)
        })
    })
}

/// Gives this side's direction of the stream up: bytes that have not arrived are not sent any more, and the
/// peer is told `code`, less than 2^62.
#[unsafe(no_mangle)]
pub extern "C" fn qs_stream_reset(stream: QsStream, code: u64) -> QsStatus {
    call(|| {
        let code = check_code(code)?;
        get::<StreamObject>(stream)?.send(|half| half.reset(code))
    })
}

/// Asks the peer to send no more, with a `code` less than 2^62. Bytes that were not read are lost.
#[unsafe(no_mangle)]
pub extern "C" fn qs_stream_stop(stream: QsStream, code: u64) -> QsStatus {
    call(|| {
        let code = check_code(code)?;
        let object = get::<StreamObject>(stream)?;
        let half = object.receiving().take();
        half.ok_or_else(no_such_half)?.stop(code);
        // Who waits for bytes finds that there is nothing to read from any more.
        object.reads.happened();
        Ok(())
    })
}

/// Stores the stream's id (RFC 9000, section 2.1), which both sides know it by.
///
/// # Safety
/// `id` leads to memory for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_stream_id(stream: QsStream, id: *mut u64) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(id, "the place for the id")?;
        let id = get::<StreamObject>(stream)?.id;
        // SAFETY: the caller vouches for it.
        unsafe { place.put(id) };
        Ok(())
    })
}

/// Sets how urgent what is written is: 0 (most) to 7 (least), 3 at the start.
#[unsafe(no_mangle)]
pub extern "C" fn qs_stream_set_urgency(stream: QsStream, urgency: u8) -> QsStatus {
    call(|| {
        let urgency = check_urgency(urgency)?;
        get::<StreamObject>(stream)?.send(|half| half.set_urgency(urgency))
    })
}

/// Sets how what is written is protected against loss from now on, by a text as for
/// `qs_config_set_protection`. Without `QS_FEATURE_FEC` it has no effect.
///
/// # Safety
/// `protection` is a text, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_stream_set_protection(stream: QsStream, protection: *const c_char) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let protection = read_protection(unsafe { text(protection, "the protection") }?)?;
        get::<StreamObject>(stream)?.send(|half| half.set_protection(&protection))
    })
}

/// Says that the application now waits for an answer to what was written, so that repair may go out behind
/// it.
#[unsafe(no_mangle)]
pub extern "C" fn qs_stream_flush(stream: QsStream) -> QsStatus {
    call(|| get::<StreamObject>(stream)?.send(SendStream::flush))
}

pub(crate) fn check_urgency(urgency: u8) -> Result<u8, CallFailure> {
    if urgency <= 7 { Ok(urgency) } else { Err(CallFailure::invalid("an urgency is 0 to 7")) }
}
