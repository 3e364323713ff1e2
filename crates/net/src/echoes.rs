//! What the network says to the first datagrams of clients (ICMP): nothing listens on the port, no route
//! leads on.
//!
//! The system tells a socket without a peer of its own only when it is asked to, which here is while
//! handshakes of ours are under way: later an answer that anybody can forge is not worth a connection, and a
//! server has nobody to miss. Only Linux can be asked; elsewhere such a handshake is silent until it times
//! out.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Context;

use quickset_base::Time;

use crate::refusal::refusal;
use crate::shared::Shared;
use crate::socket::{Socket, canonical};
#[cfg(target_os = "linux")]
use by_queue::ErrorQueue;
#[cfg(not(target_os = "linux"))]
use nowhere::Queue;

/// Clients whose servers have not answered, and the system's queue of what came back.
#[derive(Default)]
pub(crate) struct Echoes {
    dialing: VecDeque<Arc<Shared>>,
    queue: Option<ErrorQueue>,
}

impl Echoes {
    /// A connection has begun.
    pub(crate) fn begun(&mut self, socket: &Arc<Socket>, shared: &Arc<Shared>) {
        if !is_dialing(shared) {
            return;
        }
        self.dialing.push_back(shared.clone());
        if self.queue.is_none() {
            self.listen(socket);
        }
    }

    /// Connections go on with this socket.
    pub(crate) fn listen(&mut self, socket: &Arc<Socket>) {
        self.queue = None;
        if !self.dialing.is_empty() {
            let queue = ErrorQueue::of(socket);
            self.queue = queue.inspect_err(|error| tracing::debug!(%error, "no errors are told")).ok();
        }
    }

    /// Tells connections what came back. Those that heard something are `ready` to be polled.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, now: Time, ready: &mut VecDeque<Arc<Shared>>) {
        let Some(queue) = &mut self.queue else { return };
        while self.dialing.front().is_some_and(|shared| !is_dialing(shared)) {
            self.dialing.pop_front();
        }
        if self.dialing.is_empty() {
            self.queue = None;
            return;
        }
        queue.poll(cx, |remote, error, quoted| {
            let remote = canonical(remote);
            for shared in &self.dialing {
                let heard = shared.lock().conn.undelivered(now, remote, quoted, refusal(error, false));
                if heard && shared.enqueue() {
                    ready.push_back(shared.clone());
                }
            }
        });
    }
}

/// Whether its server has not answered.
fn is_dialing(shared: &Shared) -> bool {
    let state = shared.lock();
    state.conn.side().is_client() && !state.connected && state.conn.closed().is_none()
}

#[cfg(target_os = "linux")]
mod by_queue {
    use std::future::{Future, pending};
    use std::io::{self, IoSliceMut};
    use std::net::SocketAddr;
    use std::os::fd::{AsRawFd, OwnedFd};
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::Context;

    use nix::libc::{SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6};
    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    use crate::ready::watch;
    use crate::socket::Socket;

    /// The error queue of a socket (IP_RECVERR of ip(7)).
    pub(super) struct ErrorQueue {
        socket: Arc<Socket>,
        fd: Arc<AsyncFd<OwnedFd>>,
        /// Ready when there may be something in it.
        news: Pin<Box<dyn Future<Output = ()> + Send>>,
    }

    impl ErrorQueue {
        /// The socket is asked for errors as long as there is one. Within a tokio runtime only.
        pub(super) fn of(socket: &Arc<Socket>) -> io::Result<Self> {
            // The poller knows a name once.
            let fd = Arc::new(watch(socket.other_name()?, Interest::ERROR)?);
            socket.tell_errors(true)?;
            Ok(Self { socket: socket.clone(), news: Box::pin(news(fd.clone())), fd })
        }

        /// Hands over whom a datagram was for that came back, the error, and what is quoted of it.
        pub(super) fn poll(
            &mut self,
            cx: &mut Context<'_>,
            mut tell: impl FnMut(SocketAddr, &io::Error, &[u8]),
        ) {
            while self.news.as_mut().poll(cx).is_ready() {
                self.news = Box::pin(news(self.fd.clone()));
                for n in 0.. {
                    if n == AT_ONCE {
                        // Anybody can send them, and others have their turn first.
                        cx.waker().wake_by_ref();
                        return;
                    }
                    if !self.next(&mut tell) {
                        break;
                    }
                }
            }
        }

        /// False when there is nothing more.
        fn next(&self, tell: &mut impl FnMut(SocketAddr, &io::Error, &[u8])) -> bool {
            let (mut quoted, mut control) = ([0; QUOTED], [0; CONTROL]);
            let mut buffers = [IoSliceMut::new(&mut quoted)];
            let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
            let read =
                recvmsg::<SockaddrStorage>(self.fd.as_raw_fd(), &mut buffers, Some(&mut control), flags);
            let Ok(read) = read else { return false };
            let (len, remote) = (read.bytes, read.address.as_ref().and_then(inet));
            let code = read.cmsgs().ok().and_then(|mut all| {
                all.find_map(|message| match message {
                    ControlMessageOwned::Ipv4RecvErr(error, _)
                    | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                        let from_network = [SO_EE_ORIGIN_ICMP, SO_EE_ORIGIN_ICMP6].contains(&error.ee_origin);
                        from_network.then_some(error.ee_errno)
                    }
                    _ => None,
                })
            });
            if let (Some(remote), Some(code)) = (remote, code.and_then(|code| i32::try_from(code).ok())) {
                tell(remote, &io::Error::from_raw_os_error(code), &quoted[..len.min(QUOTED)]);
            }
            true
        }
    }

    impl Drop for ErrorQueue {
        fn drop(&mut self) {
            if let Err(error) = self.socket.tell_errors(false) {
                tracing::debug!(%error, "errors are still told");
            }
        }
    }

    async fn news(fd: Arc<AsyncFd<OwnedFd>>) {
        match fd.ready(Interest::ERROR).await {
            // What comes from here on is told anew.
            Ok(mut guard) => guard.clear_ready(),
            Err(_) => pending().await,
        }
    }

    fn inet(address: &SockaddrStorage) -> Option<SocketAddr> {
        let v4 = address.as_sockaddr_in().map(|v4| SocketAddr::V4((*v4).into()));
        v4.or_else(|| address.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into())))
    }

    /// As much of a datagram as says whose it is.
    const QUOTED: usize = 64;
    /// Room for what may come with it: the error and who said so, the address and the mark.
    const CONTROL: usize = 256;
    /// Errors in a turn.
    const AT_ONCE: u32 = 32;
}

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use std::io;
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::task::Context;

    use crate::socket::Socket;

    /// There is none here.
    pub(super) struct ErrorQueue;

    impl ErrorQueue {
        pub(super) fn of(_socket: &Arc<Socket>) -> io::Result<Self> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub(super) fn poll(
            &mut self,
            _cx: &mut Context<'_>,
            _tell: impl FnMut(SocketAddr, &io::Error, &[u8]),
        ) {
        }
    }
}
