//! All that names tokio, but for its traits of readers and writers.

use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Context;
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::time::Sleep;

use crate::runtime::{Runtime, RuntimeTimer};
use crate::socket::{DatagramSocket, SocketConfig};
use crate::udp::SystemSocket;

pub(crate) use tokio::task::coop::poll_proceed as poll_budget;

/// A runtime of tokio that has timers and I/O.
#[derive(Clone, Debug)]
pub struct TokioRuntime(Handle);

impl TokioRuntime {
    /// The runtime that this is called in.
    ///
    /// # Panics
    /// Outside of one.
    pub fn current() -> Self {
        Self(Handle::current())
    }
}

impl From<Handle> for TokioRuntime {
    fn from(handle: Handle) -> Self {
        Self(handle)
    }
}

impl Runtime for TokioRuntime {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        self.0.spawn(task);
    }

    fn timer(&self, at: Instant) -> Pin<Box<dyn RuntimeTimer>> {
        let _within = self.0.enter();
        Box::pin(tokio::time::sleep_until(at.into()))
    }

    fn wrap(&self, socket: UdpSocket, config: &SocketConfig) -> io::Result<Arc<dyn DatagramSocket>> {
        let _within = self.0.enter();
        Ok(Arc::new(SystemSocket::new(TokioWatch::new(socket)?, config)?))
    }

    fn yield_now(&self, cx: &mut Context<'_>) {
        // Also to the runtime's own future, which is not among the tasks. It wakes the task by itself.
        let _ = pin!(tokio::task::yield_now()).poll(cx);
    }
}

impl RuntimeTimer for Sleep {
    fn reset(self: Pin<&mut Self>, at: Instant) {
        Sleep::reset(self, at.into());
    }
}

#[cfg(unix)]
pub(crate) use by_fd::TokioWatch;
#[cfg(not(unix))]
pub(crate) use by_socket::TokioWatch;

#[cfg(unix)]
mod by_fd {
    use std::future::Future;
    use std::io;
    use std::net::UdpSocket;
    use std::pin::Pin;
    use std::sync::{Arc, Mutex, PoisonError};
    use std::task::{Context, Poll, ready};

    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use crate::runtime::{SocketReadiness, SocketWatch};

    /// A socket that tokio's poller knows.
    #[derive(Debug)]
    pub(crate) enum TokioWatch {
        Incoming(AsyncFd<UdpSocket>),
        Room(AsyncFd<UdpSocket>),
        Errors(Arc<AsyncFd<UdpSocket>>, Mutex<Option<ErrorNews>>),
    }

    impl TokioWatch {
        /// Watches for what comes. Within a tokio runtime with I/O only.
        pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
            Ok(Self::Incoming(watch(socket, Interest::READABLE)?))
        }
    }

    impl SocketWatch for TokioWatch {
        #[inline]
        fn socket(&self) -> &UdpSocket {
            match self {
                Self::Incoming(fd) | Self::Room(fd) => fd.get_ref(),
                Self::Errors(fd, _) => fd.get_ref(),
            }
        }

        fn another(&self, of: SocketReadiness) -> io::Result<Self> {
            // The poller knows a name once.
            let name = self.socket().try_clone()?;
            Ok(match of {
                SocketReadiness::Incoming => Self::new(name)?,
                SocketReadiness::Room => Self::Room(watch(name, Interest::WRITABLE)?),
                SocketReadiness::Errors => {
                    Self::Errors(Arc::new(watch(name, Interest::ERROR)?), Mutex::default())
                }
            })
        }

        #[inline]
        fn poll_io<T>(
            &self,
            cx: &mut Context<'_>,
            mut attempt: impl FnMut(&UdpSocket) -> io::Result<T>,
            was_all: impl Fn(&T) -> bool,
        ) -> Poll<io::Result<T>> {
            loop {
                let mut guard = match self {
                    Self::Incoming(fd) => ready!(fd.poll_read_ready(cx))?,
                    Self::Room(fd) => ready!(fd.poll_write_ready(cx))?,
                    Self::Errors(fd, news) => return poll_errors(cx, fd, news, attempt),
                };
                let Ok(result) = guard.try_io(|fd| attempt(fd.get_ref())) else { continue };
                if result.as_ref().is_ok_and(&was_all) {
                    // What came since the guard was there is not forgotten by this.
                    guard.clear_ready();
                }
                return Poll::Ready(result);
            }
        }
    }

    /// Ready when the error queue may have something: tokio has no method that polls for it.
    pub(crate) struct ErrorNews(Pin<Box<dyn Future<Output = io::Result<()>> + Send>>);

    impl std::fmt::Debug for ErrorNews {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("ErrorNews")
        }
    }

    fn poll_errors<T>(
        cx: &mut Context<'_>,
        fd: &Arc<AsyncFd<UdpSocket>>,
        news: &Mutex<Option<ErrorNews>>,
        mut attempt: impl FnMut(&UdpSocket) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let mut news = news.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let waiting = news.get_or_insert_with(|| {
                let fd = fd.clone();
                ErrorNews(Box::pin(async move { fd.ready(Interest::ERROR).await.map(drop) }))
            });
            let told = ready!(waiting.0.as_mut().poll(cx));
            *news = None;
            told?;
            // It is forgotten when the queue is found empty.
            match fd.try_io(Interest::ERROR, &mut attempt) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
        }
    }

    #[expect(
        deprecated,
        reason = "what took its place is unsafe code, since others than sockets have names, too"
    )]
    fn watch(socket: UdpSocket, interest: Interest) -> io::Result<AsyncFd<UdpSocket>> {
        AsyncFd::with_interest(socket, interest)
    }
}

#[cfg(not(unix))]
mod by_socket {
    use std::io;
    use std::net::UdpSocket;
    use std::sync::Arc;
    use std::task::{Context, Poll, ready};

    use tokio::io::Interest;

    use crate::runtime::{SocketReadiness, SocketWatch};

    /// A socket that tokio's poller knows. Here room is watched for always.
    #[derive(Debug)]
    pub(crate) struct TokioWatch {
        known: Arc<tokio::net::UdpSocket>,
        /// Another name of it, which the standard library has verbs for.
        socket: UdpSocket,
        of: SocketReadiness,
    }

    impl TokioWatch {
        /// Watches for what comes. Within a tokio runtime with I/O only.
        pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
            socket.set_nonblocking(true)?;
            let known = Arc::new(tokio::net::UdpSocket::from_std(socket.try_clone()?)?);
            Ok(Self { known, socket, of: SocketReadiness::Incoming })
        }
    }

    impl SocketWatch for TokioWatch {
        fn socket(&self) -> &UdpSocket {
            &self.socket
        }

        fn another(&self, of: SocketReadiness) -> io::Result<Self> {
            Ok(Self { known: self.known.clone(), socket: self.socket.try_clone()?, of })
        }

        fn poll_io<T>(
            &self,
            cx: &mut Context<'_>,
            mut attempt: impl FnMut(&UdpSocket) -> io::Result<T>,
            _was_all: impl Fn(&T) -> bool,
        ) -> Poll<io::Result<T>> {
            loop {
                let interest = match self.of {
                    SocketReadiness::Incoming | SocketReadiness::Errors => {
                        ready!(self.known.poll_recv_ready(cx))?;
                        Interest::READABLE
                    }
                    SocketReadiness::Room => {
                        ready!(self.known.poll_send_ready(cx))?;
                        Interest::WRITABLE
                    }
                };
                match self.known.try_io(interest, || attempt(&self.socket)) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => return Poll::Ready(result),
                }
            }
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::time::Duration;

    use std::task::Poll;

    use super::*;
    use crate::runtime::SocketWatch as _;

    fn pair() -> (TokioWatch, UdpSocket) {
        let [ours, theirs] = [(), ()].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        ours.set_nonblocking(true).unwrap();
        theirs.connect(ours.local_addr().unwrap()).unwrap();
        (TokioWatch::new(ours).unwrap(), theirs)
    }

    async fn receive(watch: &TokioWatch, asked: &Cell<u32>, was_all: bool) -> u8 {
        let mut byte = [0];
        let mut receive = |socket: &UdpSocket| {
            asked.set(asked.get() + 1);
            socket.recv(&mut byte)
        };
        let wait = poll_fn(|cx| watch.poll_io(cx, &mut receive, |_| was_all));
        tokio::time::timeout(Duration::from_secs(10), wait).await.expect("in time").unwrap();
        byte[0]
    }

    async fn is_pending(watch: &TokioWatch, asked: &Cell<u32>, was_all: bool) -> bool {
        let mut receive = |socket: &UdpSocket| {
            asked.set(asked.get() + 1);
            socket.recv(&mut [0])
        };
        poll_fn(|cx| Poll::Ready(watch.poll_io(cx, &mut receive, |_| was_all).is_pending())).await
    }

    #[tokio::test]
    async fn who_knows_that_it_was_all_does_not_ask_again_and_hears_of_more() {
        let (watch, peer) = pair();
        for (was_all, calls) in [(true, 1), (false, 2)] {
            let asked = Cell::new(0);
            peer.send(&[1]).unwrap();
            assert_eq!(receive(&watch, &asked, was_all).await, 1);
            assert!(is_pending(&watch, &asked, was_all).await);
            assert_eq!(asked.get(), calls);
            peer.send(&[2]).unwrap();
            assert_eq!(receive(&watch, &asked, was_all).await, 2);
        }
    }
}
