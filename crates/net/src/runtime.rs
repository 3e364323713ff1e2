//! The seam beside the driver: what it asks of who runs it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::io;
use std::net::UdpSocket;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use crate::socket::{DatagramSocket, SocketConfig};

/// Who runs the task of an endpoint: an executor, its timers and its poller. With the feature `tokio`, which
/// is a default, [`TokioRuntime`](crate::TokioRuntime) is one.
///
/// An endpoint keeps its runtime, and calls it on whatever thread its handles are on.
pub trait Runtime: fmt::Debug + Send + Sync + 'static {
    /// Runs a task to its end. When the runtime ends before that, it drops the task: connections and their
    /// handles hear of it then.
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>);

    /// Makes a timer that is set to `at`.
    fn timer(&self, at: Instant) -> Pin<Box<dyn RuntimeTimer>>;

    /// Makes a socket of the system one of this runtime; most often a
    /// [`SystemSocket`](crate::SystemSocket) over the runtime's [`SocketWatch`]. A runtime whose endpoints
    /// are all given sockets of other kinds may refuse.
    ///
    /// # Errors
    /// When the system, or the runtime's poller, does not take it.
    fn wrap(&self, socket: UdpSocket, config: &SocketConfig) -> io::Result<Arc<dyn DatagramSocket>>;

    /// What time it is by a clock of its own, such as a simulation has. `None` is the system's monotonic
    /// clock; whoever says so is not asked again.
    fn now(&self) -> Option<Instant> {
        None
    }

    /// Has the task of `cx` polled again once all other tasks that are ready have had their turns, and the
    /// poller has told what has come.
    fn yield_now(&self, cx: &mut Context<'_>) {
        cx.waker().wake_by_ref();
    }
}

/// A timer: a future that is ready when its time has come, and may be set again, after that as well. It is
/// polled after it was set, and not before.
pub trait RuntimeTimer: Future<Output = ()> + Send {
    /// Sets it to another time.
    fn reset(self: Pin<&mut Self>, at: Instant);
}

/// A socket of the system as the poller of a runtime knows it, watched for one thing. It is what a runtime
/// has to have for a [`SystemSocket`](crate::SystemSocket), which knows all the rest: offload, marks,
/// addresses, refusals.
///
/// Only what comes is watched for from the beginning. Whoever watches for room, too, is woken by each
/// datagram that has left, to find that it may do what it did not ask for; so room is watched for while there
/// is none, and errors while somebody listens.
pub trait SocketWatch: fmt::Debug + Send + Sync + Sized + 'static {
    /// Returns the socket, which does not block.
    fn socket(&self) -> &UdpSocket;

    /// Watches the same socket for something else. Pollers that know a file once need another name of it
    /// ([`UdpSocket::try_clone`]).
    ///
    /// # Errors
    /// When the poller does not take it.
    fn another(&self, of: SocketReadiness) -> io::Result<Self>;

    /// Returns what `attempt` does, once that is anything but [`io::ErrorKind::WouldBlock`]. Until then it is
    /// pending, and wakes the task when another attempt is worth it. A poller that remembers that a socket is
    /// ready may forget it after a result that `was_all`: what comes after the attempt has to be told anew.
    ///
    /// # Errors
    /// Those of `attempt`, and when the runtime has ended.
    fn poll_io<T>(
        &self,
        cx: &mut Context<'_>,
        attempt: impl FnMut(&UdpSocket) -> io::Result<T>,
        was_all: impl Fn(&T) -> bool,
    ) -> Poll<io::Result<T>>;
}

/// What a socket is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketReadiness {
    /// Something has come.
    Incoming,
    /// There is room for what is to leave.
    Room,
    /// The error queue has something (Linux: `EPOLLERR`). A poller that tells it along with what comes may
    /// watch for that.
    Errors,
}

/// Waits until `at`.
pub(crate) async fn sleep_until(runtime: &dyn Runtime, at: Instant) {
    runtime.timer(at).await;
}

/// Waits for a future until `at`. False when it is not ready by then.
pub(crate) async fn is_ready_by(
    runtime: &dyn Runtime,
    at: Instant,
    future: impl Future<Output = ()>,
) -> bool {
    let mut timer = runtime.timer(at);
    let mut future = pin!(future);
    poll_fn(|cx| match (future.as_mut().poll(cx), timer.as_mut().poll(cx)) {
        (Poll::Ready(()), _) => Poll::Ready(true),
        (Poll::Pending, Poll::Ready(())) => Poll::Ready(false),
        (Poll::Pending, Poll::Pending) => Poll::Pending,
    })
    .await
}
