//! Endpoints: a socket, the thread that drives it, and its events.

use std::any::Any;
use std::ffi::{c_char, c_void};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use quickset::{Connection, Endpoint, ServerConfig, SocketConfig};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::Notify;

use crate::border::{Buffer, OutPlace, address, bytes, check_code, text};
use crate::config::{ConfigObject, QsConfig};
use crate::connection::{ConnectionHome, ConnectionObject, QsConnection};
use crate::events::{EventQueue, EventSource, Interest, QS_EVENT_IDLE, QS_EVENT_INCOMING, QsEvent};
use crate::patience::Patience;
use crate::status::{CallFailure, QS_SYSTEM, QS_UNSUPPORTED, QsStatus, call};
use crate::table::{HandledObject, ReservedHandle, get};
use crate::wait::{KeptFuture, attempt};

/// A handle of an endpoint.
pub type QsEndpoint = u64;

/// An endpoint and the thread that drives it.
pub(crate) struct EndpointObject {
    endpoint: Endpoint,
    runtime: Handle,
    queue: Arc<EventQueue>,
    user: Arc<AtomicU64>,
    stop: Arc<Notify>,
    thread: Mutex<Option<JoinHandle<()>>>,
    next: KeptFuture<Option<Connection>>,
    incoming: Arc<Interest>,
    idle: KeptFuture<()>,
    idles: Arc<Interest>,
}

impl EndpointObject {
    fn start(handle: u64, on: SocketAddr, server: Option<&ServerConfig>) -> Result<Arc<Self>, CallFailure> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(refused)?;
        let within = runtime.enter();
        let endpoint =
            Endpoint::bind(on, &SocketConfig::default(), server).map_err(|error| unbound(on, &error))?;
        drop(within);
        let queue = Arc::new(EventQueue::new().map_err(refused)?);
        let user = Arc::new(AtomicU64::new(0));
        let source = EventSource { handle, parent: 0, user: user.clone(), queue: queue.clone() };
        let stop = Arc::new(Notify::new());
        let handle = runtime.handle().clone();
        let thread = {
            let (endpoint, stop) = (endpoint.clone(), stop.clone());
            let run = move || drive(&runtime, &endpoint, &stop);
            std::thread::Builder::new().name("quickset".into()).spawn(run).map_err(refused)?
        };
        Ok(Arc::new(Self {
            endpoint,
            runtime: handle,
            queue,
            user,
            stop,
            thread: Mutex::new(Some(thread)),
            next: KeptFuture::default(),
            incoming: source.interest(QS_EVENT_INCOMING),
            idle: KeptFuture::default(),
            idles: source.interest(QS_EVENT_IDLE),
        }))
    }

    /// What its connections have of it.
    fn home(&self, endpoint: QsEndpoint) -> ConnectionHome {
        ConnectionHome { endpoint, runtime: self.runtime.clone(), queue: self.queue.clone() }
    }

    /// Ends the endpoint, its connections and its thread.
    pub(crate) fn release(&self) {
        self.queue.end();
        self.incoming.bury();
        self.idles.bury();
        self.next.clear();
        self.idle.clear();
        self.endpoint.close(0, b"");
        self.stop.notify_one();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // One that panicked has told so already.
            let _ = thread.join();
        }
    }
}

impl Drop for EndpointObject {
    fn drop(&mut self) {
        self.release();
    }
}

/// What the thread does: it drives the endpoint until it is told to stop, and then for as long as peers need
/// to hear of it, within limits.
fn drive(runtime: &Runtime, endpoint: &Endpoint, stop: &Notify) {
    runtime.block_on(async {
        stop.notified().await;
        // Whoever frees the endpoint waits for this.
        let _ = tokio::time::timeout(GOODBYE, endpoint.wait_idle()).await;
    });
}

/// How long an endpoint that is freed lives on at most, so that peers hear of it: a closed connection is gone
/// after three probe timeouts, in which it says three times that it is over. That is a second where a round
/// trip takes a quarter of one.
const GOODBYE: Duration = Duration::from_secs(1);

fn refused(error: io::Error) -> CallFailure {
    CallFailure::of(QS_SYSTEM, error)
}

fn unbound(on: SocketAddr, error: &io::Error) -> CallFailure {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => {
            ": another program has that port; with port 0 the system picks a free one"
        }
        io::ErrorKind::AddrNotAvailable => {
            ": this machine has no such address; 0.0.0.0 and [::] are all that it has"
        }
        io::ErrorKind::PermissionDenied => ": ports below 1024 may need more rights",
        _ => "",
    };
    CallFailure::new(QS_SYSTEM, format!("cannot use {on}, {error}{advice}"))
}

impl HandledObject for EndpointObject {
    fn name() -> &'static str {
        "an endpoint"
    }

    fn end(&self) {
        self.release();
    }

    fn user(&self) -> Option<&AtomicU64> {
        Some(&self.user)
    }

    fn owns(&self) -> bool {
        true
    }

    fn any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

fn start(on: SocketAddr, server: Option<&ServerConfig>) -> Result<u64, CallFailure> {
    let reserved = ReservedHandle::new(0)?;
    let object = EndpointObject::start(reserved.handle(), on, server)?;
    reserved.place(object)
}

/// Makes an endpoint that takes connections on `address`, a text like `0.0.0.0:4433` or `[::]:4433`, and
/// stores its handle in `endpoint`. With port 0 the system picks one: see `qs_endpoint_address`. `config`
/// needs a certificate and a protocol. The endpoint can begin connections, too.
///
/// # Safety
/// `address` is a text and `endpoint` leads to memory for a handle, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_endpoint_server(
    config: QsConfig,
    address: *const c_char,
    endpoint: *mut QsEndpoint,
) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(endpoint, "the place for the handle")?;
        // SAFETY: the caller vouches for it.
        let on = self::address(unsafe { text(address, "the address") }?)?;
        let server = get::<ConfigObject>(config)?.server()?;
        let handle = start(on, Some(&server))?;
        // SAFETY: as above.
        unsafe { place.put(handle) };
        Ok(())
    })
}

/// Makes an endpoint that only begins connections, and stores its handle in `endpoint`. With a null pointer
/// for `address` it uses any port of all addresses, of IPv6 and IPv4 where the system has both.
///
/// # Safety
/// `address` is a text and `endpoint` leads to memory for a handle, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_endpoint_client(address: *const c_char, endpoint: *mut QsEndpoint) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(endpoint, "the place for the handle")?;
        let handle = if address.is_null() {
            let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
            start(all, None).or_else(|_| start(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), None))?
        } else {
            // SAFETY: the caller vouches for it.
            start(self::address(unsafe { text(address, "the address") }?)?, None)?
        };
        // SAFETY: as above.
        unsafe { place.put(handle) };
        Ok(())
    })
}

/// Stores the address and port of the socket as a text, 64 bytes with its zero byte at most.
///
/// # Safety
/// `buffer` leads to `capacity` bytes and `length` to memory for a number, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_endpoint_address(
    endpoint: QsEndpoint,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> QsStatus {
    call(|| {
        let buffer = Buffer::new(buffer.cast(), capacity, length)?;
        let address = get::<EndpointObject>(endpoint)?.endpoint.local_addr();
        // SAFETY: the caller vouches for it.
        unsafe { buffer.fill_text(&address.to_string()) }
    })
}

/// Stores the port of the socket.
///
/// # Safety
/// `port` leads to memory for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_endpoint_port(endpoint: QsEndpoint, port: *mut u16) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(port, "the place for the port")?;
        let port = get::<EndpointObject>(endpoint)?.endpoint.local_addr().port();
        // SAFETY: the caller vouches for it.
        unsafe { place.put(port) };
        Ok(())
    })
}

/// Begins a connection to the server at `address`, a text like `192.0.2.1:4433`, and stores its handle in
/// `connection`. (The library asks no name servers: `getaddrinfo` does.) `name` is the host name or address
/// that the server's certificate is checked against. The call does not wait: `QS_EVENT_CONNECTED` or
/// `QS_EVENT_CLOSED` tells how the handshake ended, and so does `qs_connection_ready`.
///
/// # Safety
/// `address` and `name` are texts and `connection` leads to memory for a handle, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_endpoint_connect(
    endpoint: QsEndpoint,
    config: QsConfig,
    address: *const c_char,
    name: *const c_char,
    connection: *mut QsConnection,
) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(connection, "the place for the handle")?;
        // SAFETY: the caller vouches for it.
        let address = self::address(unsafe { text(address, "the address") }?)?;
        // SAFETY: as above.
        let name = unsafe { text(name, "the server's name") }?;
        let object = get::<EndpointObject>(endpoint)?;
        let config = get::<ConfigObject>(config)?.client()?;
        let connecting = {
            let _within = object.runtime.enter();
            object.endpoint.connect(address, name, &config)
        };
        let handle = ConnectionObject::begun(&object.home(endpoint), connecting)?;
        // SAFETY: as above.
        unsafe { place.put(handle) };
        Ok(())
    })
}

/// Takes the next connection of a client whose handshake is complete, and stores its handle in `connection`.
/// `QS_EVENT_INCOMING` tells when to try again. Returns `QS_END` when the endpoint is closed, or takes no
/// connections.
///
/// # Safety
/// `connection` leads to memory for a handle, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_endpoint_accept(
    endpoint: QsEndpoint,
    connection: *mut QsConnection,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(connection, "the place for the handle")?;
        let object = get::<EndpointObject>(endpoint)?;
        let accepted = attempt(&object.incoming, Patience::of_ms(timeout_ms), |cx| {
            let next = || {
                let endpoint = object.endpoint.clone();
                Box::pin(async move { endpoint.accept().await }) as _
            };
            object.next.poll(cx, next).map(|next| next.ok_or_else(CallFailure::end))
        })?;
        let handle = ConnectionObject::accepted(&object.home(endpoint), accepted)?;
        // SAFETY: the caller vouches for it.
        unsafe { place.put(handle) };
        Ok(())
    })
}

/// Closes the endpoint and all its connections at once. The peers' applications get `code`, less than 2^62,
/// and of `reason` 256 bytes at most.
///
/// # Safety
/// `reason` leads to `length` bytes, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_endpoint_close(
    endpoint: QsEndpoint,
    code: u64,
    reason: *const c_void,
    length: usize,
) -> QsStatus {
    call(|| {
        // SAFETY: the caller vouches for it.
        let reason = unsafe { bytes(reason, length) }?;
        get::<EndpointObject>(endpoint)?.endpoint.close(check_code(code)?, reason);
        Ok(())
    })
}

/// Waits until no connection is left: each was closed by either side, and the peer has had time to hear of
/// it. A closed connection is left for three probe timeouts, a few round trips and some 100 ms, and says
/// three times in that time that it is over. `QS_EVENT_IDLE` tells when to try again.
#[unsafe(no_mangle)]
pub extern "C" fn qs_endpoint_wait_idle(endpoint: QsEndpoint, timeout_ms: i32) -> QsStatus {
    call(|| {
        let object = get::<EndpointObject>(endpoint)?;
        attempt(&object.idles, Patience::of_ms(timeout_ms), |cx| {
            let idle = || {
                let endpoint = object.endpoint.clone();
                Box::pin(async move { endpoint.wait_idle().await }) as _
            };
            object.idle.poll(cx, idle).map(Ok)
        })
    })
}

/// Stores a descriptor that is readable while there are events, for `poll`, `epoll` or `select`. Only wait
/// for it: do not read from it, and do not close it. It is that of the endpoint and goes with it. Returns
/// `QS_UNSUPPORTED` where the system has no such descriptors: there, give `qs_endpoint_poll_events` a
/// timeout.
///
/// # Safety
/// `descriptor` leads to memory for a number, or is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_endpoint_descriptor(endpoint: QsEndpoint, descriptor: *mut i32) -> QsStatus {
    call(|| {
        let place = OutPlace::needed(descriptor, "the place for the descriptor")?;
        let found = get::<EndpointObject>(endpoint)?.queue.descriptor();
        let found = found.ok_or_else(|| CallFailure::new(QS_UNSUPPORTED, "this system has none"))?;
        // SAFETY: the caller vouches for it.
        unsafe { place.put(found) };
        Ok(())
    })
}

/// Takes up to `capacity` events, and stores how many in `count`, 0 unless the call returns `QS_OK`. Without
/// time to wait it returns `QS_WOULD_BLOCK` when there are none.
///
/// # Safety
/// `events` leads to memory for `capacity` events and `count` to memory for a number, or they are null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qs_endpoint_poll_events(
    endpoint: QsEndpoint,
    events: *mut QsEvent,
    capacity: usize,
    count: *mut usize,
    timeout_ms: i32,
) -> QsStatus {
    call(|| {
        let count = OutPlace::needed(count, "the place for the count")?;
        // SAFETY: the caller vouches for it.
        unsafe { count.put(0) };
        let length = capacity.checked_mul(size_of::<QsEvent>()).filter(|len| isize::try_from(*len).is_ok());
        if length.is_none() || (events.is_null() && capacity > 0) {
            return Err(CallFailure::invalid("there is no memory for so many events"));
        }
        let queue = get::<EndpointObject>(endpoint)?.queue.clone();
        let taken = queue.take(capacity, Patience::of_ms(timeout_ms))?;
        for (i, event) in taken.iter().enumerate() {
            // SAFETY: there is memory for `capacity` events, which are no more.
            unsafe { events.add(i).write_unaligned(*event) };
        }
        // SAFETY: the caller vouches for it.
        unsafe { count.put(taken.len()) };
        Ok(())
    })
}

/// Returns the version of the library, like `0.1.0`, in static memory.
#[unsafe(no_mangle)]
pub extern "C" fn qs_version() -> *const c_char {
    VERSION.as_ptr().cast()
}

const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
