//! A runtime of a thread for each task, with the poller and the timers of `async-io`, as smol has them.

use std::future::{Future, poll_fn};
use std::io;
use std::net::UdpSocket;
use std::pin::{Pin, pin};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use async_io::{Async, Timer};
use quickset_net::{
    DatagramSocket, Runtime, RuntimeTimer, SocketConfig, SocketReadiness, SocketWatch, SystemSocket,
};

#[derive(Clone, Debug, Default)]
pub(crate) struct PollerRuntime(Arc<TaskCount>);

/// Tasks that have not ended.
#[derive(Debug, Default)]
struct TaskCount {
    tasks: Mutex<usize>,
    ended: Condvar,
}

impl PollerRuntime {
    /// What a future has come to within `limit`.
    pub(crate) fn block_on_until<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        let (mut future, mut timer) = (pin!(future), Timer::after(limit));
        async_io::block_on(poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => Pin::new(&mut timer).poll(cx).map(|_| None),
        }))
    }

    /// Whether all tasks end within `limit`.
    pub(crate) fn is_idle_within(&self, limit: Duration) -> bool {
        let tasks = self.0.tasks.lock().expect(NO_PANIC);
        let (tasks, _) = self.0.ended.wait_timeout_while(tasks, limit, |tasks| *tasks > 0).expect(NO_PANIC);
        *tasks == 0
    }
}

impl Runtime for PollerRuntime {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        *self.0.tasks.lock().expect(NO_PANIC) += 1;
        let count = self.0.clone();
        std::thread::spawn(move || {
            async_io::block_on(task);
            *count.tasks.lock().expect(NO_PANIC) -= 1;
            count.ended.notify_all();
        });
    }

    fn timer(&self, at: Instant) -> Pin<Box<dyn RuntimeTimer>> {
        Box::pin(PollerTimer(Timer::at(at)))
    }

    fn wrap(&self, socket: UdpSocket, config: &SocketConfig) -> io::Result<Arc<dyn DatagramSocket>> {
        let watch = PollerWatch { socket: Async::new(socket)?, of: SocketReadiness::Incoming };
        Ok(Arc::new(SystemSocket::new(watch, config)?))
    }
}

struct PollerTimer(Timer);

impl Future for PollerTimer {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(&mut self.0).poll(cx).map(drop)
    }
}

impl RuntimeTimer for PollerTimer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.0.set_at(at);
    }
}

#[derive(Debug)]
struct PollerWatch {
    socket: Async<UdpSocket>,
    of: SocketReadiness,
}

impl SocketWatch for PollerWatch {
    fn socket(&self) -> &UdpSocket {
        self.socket.get_ref()
    }

    fn another(&self, of: SocketReadiness) -> io::Result<Self> {
        Ok(Self { socket: Async::new(self.socket().try_clone()?)?, of })
    }

    fn poll_io<T>(
        &self,
        cx: &mut Context<'_>,
        mut attempt: impl FnMut(&UdpSocket) -> io::Result<T>,
        _was_all: impl Fn(&T) -> bool,
    ) -> Poll<io::Result<T>> {
        loop {
            match attempt(self.socket()) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return Poll::Ready(result),
            }
            ready!(match self.of {
                SocketReadiness::Room => self.socket.poll_writable(cx),
                // This poller tells errors with what comes.
                SocketReadiness::Incoming | SocketReadiness::Errors => self.socket.poll_readable(cx),
            })?;
        }
    }
}

const NO_PANIC: &str = "nobody panics with it locked";
