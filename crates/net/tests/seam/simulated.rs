//! A runtime of one thread in virtual time: when nobody has anything to do, it is the time of the next timer.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::net::UdpSocket;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use quickset_net::{DatagramSocket, Runtime, RuntimeTimer, SocketConfig};

#[derive(Clone, Debug)]
pub(crate) struct SimulatedRuntime(Arc<World>);

struct World {
    began: Instant,
    passed: Mutex<Duration>,
    ready: Mutex<VecDeque<Arc<SimulatedTask>>>,
    /// Who is woken, and when.
    sleepers: Mutex<Vec<(Instant, Waker)>>,
}

struct SimulatedTask {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    queued: AtomicBool,
    world: Arc<World>,
}

impl Default for SimulatedRuntime {
    fn default() -> Self {
        Self(Arc::new(World {
            began: Instant::now(),
            passed: Mutex::default(),
            ready: Mutex::default(),
            sleepers: Mutex::default(),
        }))
    }
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("passed", &self.passed).finish_non_exhaustive()
    }
}

impl SimulatedRuntime {
    pub(crate) fn time(&self) -> Instant {
        self.0.began + *self.0.passed.lock().expect(NO_PANIC)
    }

    /// Has a task woken at `at`.
    pub(crate) fn wake_at(&self, at: Instant, waker: Waker) {
        self.0.sleepers.lock().expect(NO_PANIC).push((at, waker));
    }

    /// Runs tasks until this one has ended.
    ///
    /// # Panics
    /// When nothing is left that could come, or a day has passed.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        let own = Arc::new(OwnFlag(AtomicBool::new(true)));
        let waker = Waker::from(own.clone());
        let mut future = pin!(future);
        loop {
            if own.0.swap(false, Ordering::SeqCst) {
                if let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                    return done;
                }
            }
            let next = self.0.ready.lock().expect(NO_PANIC).pop_front();
            match next {
                Some(task) => task.run(),
                None if own.0.load(Ordering::SeqCst) => {}
                None => self.pass(),
            }
        }
    }

    /// It is the time of the next timer.
    fn pass(&self) {
        let mut sleepers = self.0.sleepers.lock().expect(NO_PANIC);
        let next = sleepers.iter().map(|(at, _)| *at).min().expect("something can still come");
        let mut passed = self.0.passed.lock().expect(NO_PANIC);
        *passed = (next - self.0.began).max(*passed);
        assert!(*passed < Duration::from_secs(24 * 3600), "it takes too long");
        let now = self.0.began + *passed;
        drop(passed);
        let (due, later) = std::mem::take(&mut *sleepers).into_iter().partition(|(at, _)| *at <= now);
        *sleepers = later;
        drop(sleepers);
        let due: Vec<(Instant, Waker)> = due;
        for (_, waker) in due {
            waker.wake();
        }
    }
}

impl SimulatedTask {
    fn run(self: Arc<Self>) {
        self.queued.store(false, Ordering::SeqCst);
        let mut future = self.future.lock().expect(NO_PANIC);
        let waker = Waker::from(self.clone());
        let ended = future
            .as_mut()
            .is_some_and(|future| future.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
        if ended {
            *future = None;
        }
    }
}

impl Wake for SimulatedTask {
    fn wake(self: Arc<Self>) {
        if !self.queued.swap(true, Ordering::SeqCst) {
            self.world.ready.lock().expect(NO_PANIC).push_back(self.clone());
        }
    }
}

struct OwnFlag(AtomicBool);

impl Wake for OwnFlag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Runtime for SimulatedRuntime {
    fn spawn(&self, task: Pin<Box<dyn Future<Output = ()> + Send>>) {
        let future = Mutex::new(Some(task));
        let world = self.0.clone();
        Arc::new(SimulatedTask { future, queued: AtomicBool::new(false), world }).wake();
    }

    fn timer(&self, at: Instant) -> Pin<Box<dyn RuntimeTimer>> {
        Box::pin(SimulatedTimer { runtime: self.clone(), at })
    }

    fn wrap(&self, _socket: UdpSocket, _config: &SocketConfig) -> io::Result<Arc<dyn DatagramSocket>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn now(&self) -> Option<Instant> {
        Some(self.time())
    }
}

struct SimulatedTimer {
    runtime: SimulatedRuntime,
    at: Instant,
}

impl Future for SimulatedTimer {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.at <= self.runtime.time() {
            return Poll::Ready(());
        }
        // One that was set to another time wakes in vain, which costs a turn.
        self.runtime.wake_at(self.at, cx.waker().clone());
        Poll::Pending
    }
}

impl RuntimeTimer for SimulatedTimer {
    fn reset(mut self: Pin<&mut Self>, at: Instant) {
        self.at = at;
    }
}

const NO_PANIC: &str = "nobody panics with it locked";
