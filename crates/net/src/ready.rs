//! When the system is asked for datagrams and given some: a socket as the runtime's poller knows it.
//!
//! Only what comes is watched for. Whoever watches for room, too, is woken by each datagram that has left, to
//! find that it may do what it did not ask for; so room is watched for while there is none.

#[cfg(unix)]
pub(crate) use by_fd::Polled;
#[cfg(target_os = "linux")]
pub(crate) use by_fd::watch;
#[cfg(not(unix))]
pub(crate) use by_socket::Polled;

#[cfg(unix)]
mod by_fd {
    use std::io;
    use std::net::UdpSocket;
    use std::os::fd::{AsFd, OwnedFd};
    use std::sync::{Mutex, PoisonError};
    use std::task::{Context, Poll, ready};

    use quinn_udp::UdpSockRef;
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// A socket that does not block.
    #[derive(Debug)]
    pub(crate) struct Polled {
        incoming: AsyncFd<UdpSocket>,
        /// While there is no room: another name of the socket, since the poller knows a name once.
        room: Mutex<Option<AsyncFd<OwnedFd>>>,
    }

    impl Polled {
        /// Within a tokio runtime with I/O only.
        pub(crate) fn new(socket: UdpSocket) -> io::Result<Self> {
            let incoming = watch(socket, Interest::READABLE)?;
            Ok(Self { incoming, room: Mutex::new(None) })
        }

        pub(crate) fn socket(&self) -> UdpSockRef<'_> {
            self.incoming.get_ref().into()
        }

        /// What `receive` returns, once it has something; `was_all` says that it left nothing behind.
        pub(crate) fn poll_receive<R>(
            &self,
            cx: &mut Context<'_>,
            mut receive: impl FnMut(UdpSockRef<'_>) -> io::Result<R>,
            was_all: impl Fn(&R) -> bool,
        ) -> Poll<io::Result<R>> {
            loop {
                let mut guard = ready!(self.incoming.poll_read_ready(cx))?;
                let Ok(result) = guard.try_io(|socket| receive(socket.get_ref().into())) else { continue };
                if result.as_ref().is_ok_and(&was_all) {
                    // What came since the guard was there is not forgotten by this.
                    guard.clear_ready();
                }
                return Poll::Ready(result);
            }
        }

        /// What `send` returns, once there is room.
        pub(crate) fn poll_send<R>(
            &self,
            cx: &mut Context<'_>,
            mut send: impl FnMut(UdpSockRef<'_>) -> io::Result<R>,
        ) -> Poll<io::Result<R>> {
            match send(self.socket()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
            let watched = match &mut *room {
                Some(watched) => watched,
                none => none.insert(watch(self.other_name()?, Interest::WRITABLE)?),
            };
            loop {
                let mut guard = ready!(watched.poll_write_ready(cx))?;
                if let Ok(result) = guard.try_io(|_| send(self.socket())) {
                    return Poll::Ready(result);
                }
            }
        }

        /// Another name of the socket.
        pub(crate) fn other_name(&self) -> io::Result<OwnedFd> {
            self.incoming.as_fd().try_clone_to_owned()
        }

        /// All was sent: room is watched for no more.
        pub(crate) fn sent_all(&self) {
            *self.room.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    #[expect(
        deprecated,
        reason = "what took its place is unsafe code, since others than sockets have names, too"
    )]
    pub(crate) fn watch<S: std::os::fd::AsRawFd>(socket: S, interest: Interest) -> io::Result<AsyncFd<S>> {
        AsyncFd::with_interest(socket, interest)
    }

    #[cfg(test)]
    mod tests {
        use std::cell::Cell;
        use std::future::poll_fn;
        use std::time::Duration;

        use super::*;

        fn pair() -> (Polled, UdpSocket) {
            let [ours, theirs] = [(), ()].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
            ours.set_nonblocking(true).unwrap();
            theirs.connect(ours.local_addr().unwrap()).unwrap();
            (Polled::new(ours).unwrap(), theirs)
        }

        async fn receive(polled: &Polled, asked: &Cell<u32>, was_all: bool) -> u8 {
            let mut byte = [0];
            let mut receive = |_: UdpSockRef<'_>| {
                asked.set(asked.get() + 1);
                polled.incoming.get_ref().recv(&mut byte)
            };
            let wait = poll_fn(|cx| polled.poll_receive(cx, &mut receive, |_| was_all));
            tokio::time::timeout(Duration::from_secs(10), wait).await.expect("in time").unwrap();
            byte[0]
        }

        async fn is_pending(polled: &Polled, asked: &Cell<u32>, was_all: bool) -> bool {
            let mut receive = |_: UdpSockRef<'_>| {
                asked.set(asked.get() + 1);
                polled.incoming.get_ref().recv(&mut [0])
            };
            poll_fn(|cx| Poll::Ready(polled.poll_receive(cx, &mut receive, |_| was_all).is_pending())).await
        }

        #[tokio::test]
        async fn who_knows_that_it_was_all_does_not_ask_again_and_hears_of_more() {
            let (polled, peer) = pair();
            for (was_all, calls) in [(true, 1), (false, 2)] {
                let asked = Cell::new(0);
                peer.send(&[1]).unwrap();
                assert_eq!(receive(&polled, &asked, was_all).await, 1);
                assert!(is_pending(&polled, &asked, was_all).await);
                assert_eq!(asked.get(), calls);
                peer.send(&[2]).unwrap();
                assert_eq!(receive(&polled, &asked, was_all).await, 2);
            }
        }

        #[tokio::test]
        async fn room_is_watched_for_while_there_is_none() {
            let (polled, _peer) = pair();
            // The system says no twice, but says that there is room.
            let refusals = Cell::new(2);
            let send = |_: UdpSockRef<'_>| match refusals.get() {
                0 => Ok(()),
                n => {
                    refusals.set(n - 1);
                    Err(io::ErrorKind::WouldBlock.into())
                }
            };
            let is_watched = || polled.room.lock().unwrap().is_some();
            assert!(!is_watched());
            let first = poll_fn(|cx| Poll::Ready(polled.poll_send(cx, send).is_pending())).await;
            assert!(first && is_watched());
            polled.sent_all();
            assert!(!is_watched());
            refusals.set(1);
            let wait = poll_fn(|cx| polled.poll_send(cx, send));
            tokio::time::timeout(Duration::from_secs(10), wait).await.expect("in time").unwrap();
            assert!(is_watched() && refusals.get() == 0);
        }
    }
}

#[cfg(not(unix))]
mod by_socket {
    use std::io;
    use std::task::{Context, Poll, ready};

    use quinn_udp::UdpSockRef;
    use tokio::io::Interest;

    /// A socket that does not block.
    #[derive(Debug)]
    pub(crate) struct Polled(tokio::net::UdpSocket);

    impl Polled {
        /// Within a tokio runtime with I/O only.
        pub(crate) fn new(socket: std::net::UdpSocket) -> io::Result<Self> {
            tokio::net::UdpSocket::from_std(socket).map(Self)
        }

        pub(crate) fn socket(&self) -> UdpSockRef<'_> {
            (&self.0).into()
        }

        /// What `receive` returns, once it has something.
        pub(crate) fn poll_receive<R>(
            &self,
            cx: &mut Context<'_>,
            mut receive: impl FnMut(UdpSockRef<'_>) -> io::Result<R>,
            _was_all: impl Fn(&R) -> bool,
        ) -> Poll<io::Result<R>> {
            loop {
                ready!(self.0.poll_recv_ready(cx))?;
                match self.0.try_io(Interest::READABLE, || receive(self.socket())) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    result => return Poll::Ready(result),
                }
            }
        }

        /// What `send` returns, once there is room.
        pub(crate) fn poll_send<R>(
            &self,
            cx: &mut Context<'_>,
            mut send: impl FnMut(UdpSockRef<'_>) -> io::Result<R>,
        ) -> Poll<io::Result<R>> {
            loop {
                match self.0.try_io(Interest::WRITABLE, || send(self.socket())) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        ready!(self.0.poll_send_ready(cx))?;
                    }
                    result => return Poll::Ready(result),
                }
            }
        }

        /// Here room is watched for always.
        pub(crate) fn sent_all(&self) {}
    }
}
