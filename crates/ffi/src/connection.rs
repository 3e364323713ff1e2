//! Connections: their handshake and end, who is at the other side, and the streams that are opened.

use std::any::Any;
use std::ffi::{c_char, c_void};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Poll;

use quickset::{Closed, ConnectError, Connecting, Connection, Peer};
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::border::{Buffer, OutPlace, bytes, check_code, put_sized};
use crate::close::QsClose;
use crate::events::{
    EventQueue, EventSource, Interest, QS_EVENT_CLOSED, QS_EVENT_CONNECTED, QS_EVENT_INCOMING_BI,
    QS_EVENT_INCOMING_UNI, QS_EVENT_ROOM_BI, QS_EVENT_ROOM_UNI,
};
use crate::messages::{MessageHalves, MessagesObject, QsMessages};
use crate::patience::Patience;
use crate::pending::DatagramWaits;
use crate::status::{CallFailure, QS_NOT_READY, QS_UNSUPPORTED, QsStatus, call};
use crate::stream::{ByteHalves, QsStream, StreamObject};
use crate::table::{HandledObject, ReservedHandle, get};
use crate::wait::{BoxedFuture, KeptFuture, attempt, found};

/// A handle of a connection.
pub type QsConnection = u64;

/// A stream that both sides send on.
pub const QS_BI: u32 = 0;
/// A stream that only the side sends on that opened it.
pub const QS_UNI: u32 = 1;

/// Both sides know fenced streams. Without them messages arrive in order.
pub const QS_FEATURE_FENCES: u32 = 1;
/// Both sides know forward erasure correction. Without it nothing is repaired: what is lost is sent again.
pub const QS_FEATURE_FEC: u32 = 2;

/// A connection of any age.
pub(crate) struct ConnectionObject {
    /// The endpoint's handle, with which this one goes.
    endpoint: u64,
    stage: Mutex<ConnectionStage>,
    pub(crate) source: EventSource,
    pub(crate) user: Arc<AtomicU64>,
    connects: Arc<Interest>,
    closes: Arc<Interest>,
    /// The task that waits for what comes by itself.
    watcher: Mutex<Option<AbortHandle>>,
    /// By [`StreamVerb`] and direction.
    streams: [[StreamWait; 2]; 2],
    pub(crate) datagrams: DatagramWaits,
}

/// The endpoint that a connection is made from.
pub(crate) struct ConnectionHome {
    /// Its handle.
    pub(crate) endpoint: u64,
    pub(crate) runtime: Handle,
    pub(crate) queue: Arc<EventQueue>,
}

enum ConnectionStage {
    /// The handshake is under way.
    Begun,
    Up(Connection),
    /// There is no connection, and there was none.
    Failed(ConnectError),
    /// The handle was freed.
    Freed,
}

/// Where streams of one direction come from, and who waits for one.
struct StreamWait {
    interest: Arc<Interest>,
    bytes: KeptFuture<Result<ByteHalves, Closed>>,
    messages: KeptFuture<Result<MessageHalves, Closed>>,
}

#[derive(Clone, Copy)]
enum StreamVerb {
    Accept,
    Open,
}

impl StreamWait {
    fn new(source: &EventSource, kind: u32) -> Self {
        let interest = source.interest(kind);
        Self { interest, bytes: KeptFuture::default(), messages: KeptFuture::default() }
    }
}

impl ConnectionObject {
    /// A connection whose handshake is under way. Returns its handle.
    pub(crate) fn begun(home: &ConnectionHome, connecting: Connecting) -> Result<u64, CallFailure> {
        Self::make(home, ConnectionStage::Begun, |weak| async move {
            let connection = match connecting.await {
                Ok(connection) => connection,
                Err(error) => {
                    if let Some(object) = weak.upgrade() {
                        object.fail(error);
                    }
                    return;
                }
            };
            if let Some(object) = weak.upgrade() {
                object.come_up(connection.clone());
            }
            watch(connection, weak).await;
        })
    }

    /// A connection that was accepted. Returns its handle.
    pub(crate) fn accepted(home: &ConnectionHome, connection: Connection) -> Result<u64, CallFailure> {
        let stage = ConnectionStage::Up(connection.clone());
        Self::make(home, stage, |weak| watch(connection, weak))
    }

    fn make<F: Future<Output = ()> + Send + 'static>(
        home: &ConnectionHome,
        stage: ConnectionStage,
        watcher: impl FnOnce(Weak<Self>) -> F,
    ) -> Result<u64, CallFailure> {
        let reserved = ReservedHandle::new(home.endpoint)?;
        let user = Arc::new(AtomicU64::new(0));
        let queue = home.queue.clone();
        let source =
            EventSource { handle: reserved.handle(), parent: home.endpoint, user: user.clone(), queue };
        let wait = |kind| StreamWait::new(&source, kind);
        let this = Arc::new(Self {
            endpoint: home.endpoint,
            stage: Mutex::new(stage),
            connects: source.interest(QS_EVENT_CONNECTED),
            closes: source.interest(QS_EVENT_CLOSED),
            watcher: Mutex::new(None),
            streams: [
                [wait(QS_EVENT_INCOMING_BI), wait(QS_EVENT_INCOMING_UNI)],
                [wait(QS_EVENT_ROOM_BI), wait(QS_EVENT_ROOM_UNI)],
            ],
            datagrams: DatagramWaits::new(&source),
            source,
            user,
        });
        let handle = reserved.place(this.clone())?;
        // Events name a handle that is there.
        let watcher = home.runtime.spawn(watcher(Arc::downgrade(&this))).abort_handle();
        *this.watcher.lock().unwrap_or_else(PoisonError::into_inner) = Some(watcher);
        if matches!(*this.stage(), ConnectionStage::Freed) {
            // In the moment between the two.
            this.release();
        }
        Ok(handle)
    }

    fn stage(&self) -> MutexGuard<'_, ConnectionStage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn come_up(&self, connection: Connection) {
        let mut stage = self.stage();
        // Closed or freed meanwhile, it stays so.
        if matches!(*stage, ConnectionStage::Begun) {
            *stage = ConnectionStage::Up(connection);
            drop(stage);
            self.connects.announce();
        }
    }

    fn fail(&self, error: ConnectError) {
        let mut stage = self.stage();
        if matches!(*stage, ConnectionStage::Begun) {
            *stage = ConnectionStage::Failed(error);
            drop(stage);
            self.connects.happened();
            self.closes.announce();
        }
    }

    /// Whoever waits for the handshake, or else the connection itself.
    pub(crate) fn connection(&self) -> Result<Connection, CallFailure> {
        match &*self.stage() {
            ConnectionStage::Up(connection) => Ok(connection.clone()),
            ConnectionStage::Begun => Err(CallFailure::new(
                QS_NOT_READY,
                "the handshake is not complete: wait for QS_EVENT_CONNECTED, or call qs_connection_ready",
            )),
            ConnectionStage::Failed(error) => Err(error.clone().into()),
            ConnectionStage::Freed => Err(CallFailure::from(Closed::Locally)),
        }
    }

    fn interests(&self) -> impl Iterator<Item = &Arc<Interest>> {
        let streams = self.streams.iter().flatten().map(|wait| &wait.interest);
        [&self.connects, &self.closes].into_iter().chain(streams).chain(self.datagrams.interests())
    }

    /// The handle is freed.
    pub(crate) fn release(&self) {
        self.interests().for_each(|interest| interest.bury());
        let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(watcher) = watcher {
            watcher.abort();
        }
        let stage = std::mem::replace(&mut *self.stage(), ConnectionStage::Freed);
        drop(stage);
        for wait in self.streams.iter().flatten() {
            wait.bytes.clear();
            wait.messages.clear();
        }
        self.datagrams.clear();
    }

    fn close(&self, code: u64, reason: &[u8]) {
        let mut stage = self.stage();
        match &*stage {
            ConnectionStage::Up(connection) => connection.close(code, reason),
            ConnectionStage::Begun => {
                *stage = ConnectionStage::Failed(ConnectError::Failed(Closed::Locally));
                drop(stage);
                let watcher = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take();
                // With it goes the attempt.
                if let Some(watcher) = watcher {
                    watcher.abort();
                }
                self.connects.happened();
                self.closes.announce();
            }
            ConnectionStage::Failed(_) | ConnectionStage::Freed => {}
        }
    }

    fn close_reason(&self) -> Option<QsClose> {
        match &*self.stage() {
            ConnectionStage::Up(connection) => connection.close_reason().as_ref().map(QsClose::of),
            ConnectionStage::Failed(ConnectError::Failed(closed)) => Some(QsClose::of(closed)),
            ConnectionStage::Failed(error) => Some(QsClose::refused(error)),
            ConnectionStage::Begun | ConnectionStage::Freed => None,
        }
    }
}

/// Waits for the end, and tells of it.
async fn watch(connection: Connection, object: Weak<ConnectionObject>) {
    connection.closed().await;
    if let Some(object) = object.upgrade() {
        object.closes.announce();
    }
}

impl HandledObject for ConnectionObject {
    fn name() -> &'static str {
        "a connection"
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

/// Waits until the handshake is complete. Returns `QS_CLOSED` if there is no connection; `qs_error_message`
/// tells why. Without time to wait it returns `QS_WOULD_BLOCK` while the handshake is under way.
#[unsafe(no_mangle)]
pub extern "C" fn qs_connection_ready(connection: QsConnection, timeout_ms: i32) -> QsStatus {
    call(|| {
        let object = get::<ConnectionObject>(connection)?;
        attempt(&object.connects, Patience::of_ms(timeout_ms), |_| match object.connection() {
            Err(early) if early.status == QS_NOT_READY => Poll::Pending,
            Err(failed) => Poll::Ready(Err(failed)),
            Ok(connection) => {
                Poll::Ready(connection.close_reason().map_or(Ok(()), |why| Err(CallFailure::from(why))))
            }
        })
    })
}

/// Waits for the end of the connection and stores why it ended in `close`, unless that is null. Set its field
/// `size` before. Without time to wait it returns `QS_WOULD_BLOCK` while the connection lives.
///
/// # Safety
/// `close` leads to as many bytes as its field `size` says, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_closed(
    connection: QsConnection,
    close: *mut QsClose,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let object = get::<ConnectionObject>(connection)?;
        let why = attempt(&object.closes, Patience::of_ms(timeout_ms), |_| found(object.close_reason()))?;
        if close.is_null() {
            return Ok(());
        }
        // SAFETY: the caller vouches for it, and a `QsClose` is as it has to be.
        unsafe { put_sized(close, &why) }
    })
}

/// Ends the connection at once. The peer's application gets `code`, less than 2^62, and of `reason` 256 bytes
/// at most. What has not arrived is lost: where that matters, wait for `qs_stream_finished` or
/// `qs_messages_finished` first.
///
/// # Safety
/// `reason` leads to `length` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_close(
    connection: QsConnection,
    code: u64,
    reason: *const c_void,
    length: usize,
) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let reason = unsafe { bytes(reason, length) }?;
        get::<ConnectionObject>(connection)?.close(check_code(code)?, reason);
        Ok(())
    })
}

/// Stores the peer's address and port as a text, 64 bytes with its zero byte at most.
///
/// # Safety
/// `buffer` leads to `capacity` bytes and `length` to memory for a number, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_peer_address(
    connection: QsConnection,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> QsStatus {
    call(|| {
        let buffer = Buffer::new(buffer.cast(), capacity, length)?;
        let peer = get::<ConnectionObject>(connection)?.connection()?.remote_address();
        // SAFETY: the caller vouches for it.
        unsafe { buffer.fill_text(&peer.to_string()) }
    })
}

/// Stores the fingerprint of the peer's key as a text of 71 bytes and a zero byte. Returns `QS_UNSUPPORTED`
/// if the peer showed no certificate.
///
/// # Safety
/// `buffer` leads to `capacity` bytes and `length` to memory for a number, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_peer_fingerprint(
    connection: QsConnection,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> QsStatus {
    call(|| {
        let buffer = Buffer::new(buffer.cast(), capacity, length)?;
        let peer = Peer::of(&get::<ConnectionObject>(connection)?.connection()?);
        let none = || CallFailure::new(QS_UNSUPPORTED, "the peer showed no certificate");
        let fingerprint = peer.fingerprint().ok_or_else(none)?;
        // SAFETY: the caller vouches for it.
        unsafe { buffer.fill_text(&fingerprint.to_string()) }
    })
}

/// Stores the application protocol that both sides agreed on (ALPN): up to 255 bytes, without a zero byte.
///
/// # Safety
/// `buffer` leads to `capacity` bytes and `length` to memory for a number, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_protocol(
    connection: QsConnection,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> QsStatus {
    call(|| {
        let buffer = Buffer::new(buffer.cast(), capacity, length)?;
        let protocol = get::<ConnectionObject>(connection)?.connection()?.alpn().unwrap_or_default();
        // SAFETY: the caller vouches for it.
        unsafe { buffer.fill(&protocol) }
    })
}

/// Stores what both sides agreed on, a sum of `QS_FEATURE_…`.
///
/// # Safety
/// `features` leads to memory for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_features(connection: QsConnection, features: *mut u32) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(features, "the place for the features")?;
        let connection = get::<ConnectionObject>(connection)?.connection()?;
        let fences = if connection.has_fenced_streams() { QS_FEATURE_FENCES } else { 0 };
        let fec = if connection.has_fec() { QS_FEATURE_FEC } else { 0 };
        // SAFETY: the caller vouches for it.
        unsafe { place.put(fences | fec) };
        Ok(())
    })
}

/// Opens a stream of bytes, `QS_BI` or `QS_UNI`, and stores its handle in `stream`. `QS_EVENT_ROOM_BI` or
/// `QS_EVENT_ROOM_UNI` tells when to try again: when the peer allows one more. The peer learns of the stream
/// with its first bytes, or with its end.
///
/// # Safety
/// `stream` leads to memory for a handle, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_open_stream(
    connection: QsConnection,
    direction: u32,
    stream: *mut QsStream,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(stream, "the place for the handle")?;
        let handle = byte_stream(connection, StreamVerb::Open, direction, Patience::of_ms(timeout_ms))?;
        // SAFETY: the caller vouches for it.
        unsafe { place.put(handle) };
        Ok(())
    })
}

/// Takes the next stream of this direction that the peer opened, as one of bytes, and stores its handle in
/// `stream`. `QS_EVENT_INCOMING_BI` or `QS_EVENT_INCOMING_UNI` tells when to try again. QUIC does not mark
/// streams of messages: the protocol of the application has to say which are.
///
/// # Safety
/// `stream` leads to memory for a handle, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_accept_stream(
    connection: QsConnection,
    direction: u32,
    stream: *mut QsStream,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(stream, "the place for the handle")?;
        let handle = byte_stream(connection, StreamVerb::Accept, direction, Patience::of_ms(timeout_ms))?;
        // SAFETY: the caller vouches for it.
        unsafe { place.put(handle) };
        Ok(())
    })
}

/// Opens a stream of messages. Otherwise this is `qs_connection_open_stream`.
///
/// # Safety
/// `messages` leads to memory for a handle, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_open_messages(
    connection: QsConnection,
    direction: u32,
    messages: *mut QsMessages,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(messages, "the place for the handle")?;
        let handle = message_stream(connection, StreamVerb::Open, direction, Patience::of_ms(timeout_ms))?;
        // SAFETY: the caller vouches for it.
        unsafe { place.put(handle) };
        Ok(())
    })
}

/// Takes the next stream of this direction that the peer opened, as one of messages. Otherwise this is
/// `qs_connection_accept_stream`.
///
/// # Safety
/// `messages` leads to memory for a handle, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_connection_accept_messages(
    connection: QsConnection,
    direction: u32,
    messages: *mut QsMessages,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(messages, "the place for the handle")?;
        let handle = message_stream(connection, StreamVerb::Accept, direction, Patience::of_ms(timeout_ms))?;
        // SAFETY: the caller vouches for it.
        unsafe { place.put(handle) };
        Ok(())
    })
}

fn byte_stream(
    handle: u64,
    verb: StreamVerb,
    direction: u32,
    patience: Patience,
) -> Result<u64, CallFailure> {
    let dir = check_direction(direction)?;
    let object = get::<ConnectionObject>(handle)?;
    let connection = object.connection()?;
    let wait = &object.streams[verb as usize][dir];
    let halves = attempt(&wait.interest, patience, |cx| {
        let make = || next_bytes(connection.clone(), verb, dir == 0);
        wait.bytes.poll(cx, make).map(|next| next.map_err(CallFailure::from))
    })?;
    let reserved = ReservedHandle::new(object.endpoint)?;
    let stream = StreamObject::new(&object.source, reserved.handle(), halves);
    reserved.place(stream)
}

fn message_stream(
    handle: u64,
    verb: StreamVerb,
    direction: u32,
    patience: Patience,
) -> Result<u64, CallFailure> {
    let dir = check_direction(direction)?;
    let object = get::<ConnectionObject>(handle)?;
    let connection = object.connection()?;
    let wait = &object.streams[verb as usize][dir];
    let halves = attempt(&wait.interest, patience, |cx| {
        let make = || next_messages(connection.clone(), verb, dir == 0);
        wait.messages.poll(cx, make).map(|next| next.map_err(CallFailure::from))
    })?;
    let reserved = ReservedHandle::new(object.endpoint)?;
    let messages = MessagesObject::new(&object.source, reserved.handle(), halves);
    reserved.place(messages)
}

fn check_direction(direction: u32) -> Result<usize, CallFailure> {
    match direction {
        QS_BI => Ok(0),
        QS_UNI => Ok(1),
        _ => Err(CallFailure::invalid("a direction is QS_BI or QS_UNI")),
    }
}

fn next_bytes(c: Connection, verb: StreamVerb, both: bool) -> BoxedFuture<Result<ByteHalves, Closed>> {
    let two = |(sending, receiving)| ByteHalves { sending: Some(sending), receiving: Some(receiving) };
    let sends = |sending| ByteHalves { sending: Some(sending), receiving: None };
    let receives = |receiving| ByteHalves { sending: None, receiving: Some(receiving) };
    match (verb, both) {
        (StreamVerb::Open, true) => Box::pin(async move { c.open_bi().await.map(two) }),
        (StreamVerb::Open, false) => Box::pin(async move { c.open_uni().await.map(sends) }),
        (StreamVerb::Accept, true) => Box::pin(async move { c.accept_bi().await.map(two) }),
        (StreamVerb::Accept, false) => Box::pin(async move { c.accept_uni().await.map(receives) }),
    }
}

fn next_messages(c: Connection, verb: StreamVerb, both: bool) -> BoxedFuture<Result<MessageHalves, Closed>> {
    let two = |(sending, receiving)| MessageHalves { sending: Some(sending), receiving: Some(receiving) };
    let sends = |sending| MessageHalves { sending: Some(sending), receiving: None };
    let receives = |receiving| MessageHalves { sending: None, receiving: Some(receiving) };
    match (verb, both) {
        (StreamVerb::Open, true) => Box::pin(async move { c.open_messages_bi().await.map(two) }),
        (StreamVerb::Open, false) => Box::pin(async move { c.open_messages().await.map(sends) }),
        (StreamVerb::Accept, true) => Box::pin(async move { c.accept_messages_bi().await.map(two) }),
        (StreamVerb::Accept, false) => Box::pin(async move { c.accept_messages().await.map(receives) }),
    }
}
