//! A system, or a runtime, that refuses some of what several sockets need.

use std::fmt::{self, Write as _};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use nix::errno::Errno;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::over_loopback::{
    SHARDS, client_config, clients_come_and_move, config, is_echoed, loopback, over_port, serve,
    server_config, several, soon,
};
use crate::endpoint::Endpoint;
use crate::port::{PortCalls, SharedPort, SystemCalls};
use crate::runtime::{Runtime, RuntimeTimer};
use crate::socket::{DatagramSocket, SocketConfig};
use crate::tokio_runtime::TokioRuntime;

/// The system, but for what it refuses.
#[derive(Default)]
struct Refusing {
    /// Another socket beside so many that share the port.
    shares: Option<(usize, Errno)>,
    /// A program for the sockets of a port.
    steers: Option<Errno>,
    /// A socket by itself, once there were others.
    alone: Option<Errno>,
    shared: AtomicUsize,
}

impl Refusing {
    fn shares(most: usize, error: Errno) -> Self {
        Self { shares: Some((most, error)), ..Self::default() }
    }
}

impl PortCalls for Refusing {
    fn bind(&self, config: &SocketConfig, address: SocketAddr, shares: bool) -> io::Result<UdpSocket> {
        let before = if shares { self.shared.fetch_add(1, Ordering::SeqCst) } else { 0 };
        let refused = match (self.shares, self.alone) {
            (Some((most, error)), _) if shares && before >= most => Some(error),
            (_, Some(error)) if !shares && self.shared.load(Ordering::SeqCst) > 0 => Some(error),
            _ => None,
        };
        refused.map_or_else(|| SystemCalls.bind(config, address, shares), |error| Err(error.into()))
    }

    fn steer(&self, socket: &UdpSocket, count: u32) -> io::Result<()> {
        self.steers.map_or_else(|| SystemCalls.steer(socket, count), |error| Err(error.into()))
    }
}

/// A runtime that does not take every socket.
#[derive(Debug)]
struct Choosy {
    tokio: TokioRuntime,
    refuses: fn(usize) -> bool,
    given: AtomicUsize,
}

impl Choosy {
    fn refusing(refuses: fn(usize) -> bool) -> Arc<Self> {
        Arc::new(Self { tokio: TokioRuntime::current(), refuses, given: AtomicUsize::new(0) })
    }
}

impl Runtime for Choosy {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.tokio.spawn(task);
    }

    fn timer(&self, at: Instant) -> Pin<Box<dyn RuntimeTimer>> {
        self.tokio.timer(at)
    }

    fn wrap(&self, socket: UdpSocket, config: &SocketConfig) -> io::Result<Arc<dyn DatagramSocket>> {
        if (self.refuses)(self.given.fetch_add(1, Ordering::SeqCst)) {
            return Err(Errno::ENOMEM.into());
        }
        self.tokio.wrap(socket, config)
    }
}

/// Keeps the warnings of a thread.
#[derive(Clone, Default)]
struct Warnings(Arc<Mutex<Vec<String>>>);

impl Warnings {
    /// Those that are given meanwhile.
    fn during<T>(act: impl FnOnce() -> T) -> (T, Vec<String>) {
        let warnings = Self::default();
        let result = tracing::subscriber::with_default(warnings.clone(), act);
        let told = std::mem::take(&mut *warnings.0.lock().unwrap());
        (result, told)
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = Words::default();
        event.record(&mut words);
        self.0.lock().unwrap().push(words.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// What an event says.
#[derive(Default)]
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, "{}={value:?} ", field.name());
    }
}

fn starts(runtime: Arc<dyn Runtime>, calls: &Refusing) -> (Endpoint, String) {
    let (server, told) =
        Warnings::during(|| over_port(runtime, calls, &several(), server_config(1000)).unwrap());
    assert_eq!(told.len(), 1, "{told:?}");
    (server, told.concat())
}

fn tokio() -> Arc<dyn Runtime> {
    Arc::new(TokioRuntime::current())
}

/// socket(7): kernels without SO_REUSEPORT, and sandboxes. One socket serves, and lets nobody in beside it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_system_that_shares_no_port_has_one_socket_serve() {
    for error in [Errno::ENOPROTOOPT, Errno::EINVAL, Errno::EPERM] {
        let (server, told) = starts(tokio(), &Refusing::shares(0, error));
        assert_eq!(server.sockets(), 1);
        assert!(told.contains(&io::Error::from(error).to_string()) && told.contains("fewer cores"), "{told}");
        let joins = SystemCalls.bind(&SocketConfig::default(), server.local_addr(), true);
        assert_eq!(joins.unwrap_err().kind(), ErrorKind::AddrInUse);
        crowd(&server).await;
    }
}

/// Clients of a server with one socket.
async fn crowd(server: &Endpoint) {
    serve(server);
    let client = Endpoint::bind(loopback(), &SocketConfig::default(), config(2), None).unwrap();
    for n in 0..4 {
        let begun = client.connect(server.local_addr(), "localhost", &client_config());
        soon(is_echoed(&soon(begun).await.unwrap(), &[n; 5000])).await;
    }
}

/// socket(7), bpf(2), seccomp(2): a program is refused by a policy, an old kernel, or for want of memory.
/// All cores work all the same, and hand over what came to the wrong one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_system_that_takes_no_program_has_shards_hand_over() {
    for error in [Errno::EPERM, Errno::EINVAL, Errno::ENOPROTOOPT, Errno::ENOMEM] {
        let calls = Refusing { steers: Some(error), ..Refusing::default() };
        let (server, told) = starts(tokio(), &calls);
        assert_eq!(server.sockets(), SHARDS);
        assert!(told.contains(&io::Error::from(error).to_string()) && told.contains("hand over"), "{told}");
        clients_come_and_move(&server).await;
        let stats = server.stats();
        assert!(stats.handed_over > 0);
        assert_eq!(stats.handed_over_lost, 0);
    }
}

/// With fewer sockets than were wanted there are as many shards, and the system knows of no others: else it
/// would give datagrams to sockets by numbers that mean something else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_sockets_serve_as_there_are() {
    for error in [Errno::EMFILE, Errno::ENFILE, Errno::ENOBUFS, Errno::ENOMEM] {
        for most in [2, 3] {
            let (server, told) = starts(tokio(), &Refusing::shares(most, error));
            assert_eq!(server.sockets(), most);
            assert!(told.contains(&format!("fewer cores serve it: {most}")), "{told}");
            clients_come_and_move(&server).await;
            assert_eq!(server.stats().handed_over, 0, "{most} of {SHARDS}");
        }
    }
}

/// A runtime whose poller has no room for all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn as_many_sockets_serve_as_the_runtime_takes() {
    // Those behind the first come before it.
    let once: [fn(usize) -> bool; 2] = [|n| n == 1, |n| n == 2];
    for (refuses, count) in once.into_iter().zip(2..) {
        let (server, told) = starts(Choosy::refusing(refuses), &Refusing::default());
        assert_eq!(server.sockets(), count, "{told}");
        clients_come_and_move(&server).await;
        assert_eq!(server.stats().handed_over, 0);
    }
    let (server, told) = starts(Choosy::refusing(|n| n == 0), &Refusing::default());
    assert_eq!(server.sockets(), 1, "{told}");
    let joins = SystemCalls.bind(&SocketConfig::default(), server.local_addr(), true);
    assert_eq!(joins.unwrap_err().kind(), ErrorKind::AddrInUse, "one by itself lets nobody in");
    crowd(&server).await;
    let none =
        over_port(Choosy::refusing(|_| true), &SystemCalls, &several(), server_config(1000)).err().unwrap();
    assert_eq!(none.raw_os_error(), Some(Errno::ENOMEM as i32));
}

/// What is wrong with the port is an error: it is somebody else's, or was taken in the moment between.
#[tokio::test]
async fn a_port_in_use_is_an_error() {
    let taken = UdpSocket::bind(loopback()).unwrap();
    let config = several();
    let bind = |at, calls: &dyn PortCalls| {
        let refused = SharedPort::bind(&TokioRuntime::current(), at, &config, calls);
        refused.err().map(|error| error.kind())
    };
    assert_eq!(bind(taken.local_addr().unwrap(), &SystemCalls), Some(ErrorKind::AddrInUse));
    let calls = Refusing {
        shares: Some((0, Errno::EADDRINUSE)),
        alone: Some(Errno::EADDRINUSE),
        ..Refusing::default()
    };
    assert_eq!(bind(loopback(), &calls), Some(ErrorKind::AddrInUse));
    // And an address that is not there, which the first socket finds out.
    let nowhere = ([192, 0, 2, 1], 0).into();
    assert_eq!(bind(nowhere, &SystemCalls), Some(ErrorKind::AddrNotAvailable));
}
