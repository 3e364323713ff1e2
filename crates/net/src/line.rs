//! What connections and handles have of their endpoint: its time, and the driver's ear.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use quickset_base::{Datagram, Time};

use crate::runtime::Runtime;
use crate::socket::DatagramSocket;

/// A line to the driver, on which `T`, connections, ask to be polled.
pub(crate) struct Line<T> {
    pub(crate) clock: Clock,
    requests: Mutex<DriverRequests<T>>,
}

/// The time of an endpoint.
#[derive(Debug)]
pub(crate) struct Clock {
    pub(crate) runtime: Arc<dyn Runtime>,
    /// It has a clock of its own.
    pub(crate) keeps_time: bool,
    started: Instant,
}

impl Clock {
    fn start(runtime: Arc<dyn Runtime>) -> Self {
        let now = runtime.now();
        Self { runtime, keeps_time: now.is_some(), started: now.unwrap_or_else(Instant::now) }
    }

    /// The time since the endpoint began.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.time(self.instant_now())
    }

    #[inline]
    pub(crate) fn instant_now(&self) -> Instant {
        // The clock is read with each turn and verb: whoever has the system's pays for no other.
        if self.keeps_time { self.runtime.now().unwrap_or(self.started) } else { Instant::now() }
    }

    /// When `time` is, for the runtime's timers.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.started + time.since(Time::ZERO)
    }

    /// A time of the runtime's clock, as connections know it.
    pub(crate) fn time(&self, instant: Instant) -> Time {
        Time::ZERO + instant.saturating_duration_since(self.started)
    }
}

/// What handles want of the driver.
struct DriverRequests<T> {
    ready: Vec<T>,
    /// Datagrams that came to other shards, and what they hold.
    handed: Vec<Datagram>,
    handed_bytes: usize,
    close: Option<ClosingWords>,
    /// The endpoint goes on with another socket.
    rebound: Option<Arc<dyn DatagramSocket>>,
    /// Set while the driver sleeps or is on its way there.
    driver: Option<Waker>,
    /// The driver has ended: nothing is kept for it.
    ended: bool,
}

/// What connections are closed with.
#[derive(Clone)]
pub(crate) struct ClosingWords {
    /// `None` is, for each, what its protocol calls no error.
    pub(crate) code: Option<u64>,
    pub(crate) reason: Bytes,
}

/// What handles want of the driver for all connections.
pub(crate) struct DriverWishes {
    /// They are to be closed.
    pub(crate) close: Option<ClosingWords>,
    /// They go on over this socket.
    pub(crate) rebound: Option<Arc<dyn DatagramSocket>>,
    /// These came to other shards.
    pub(crate) handed: Vec<Datagram>,
}

impl<T> Line<T> {
    /// From now on.
    pub(crate) fn new(runtime: Arc<dyn Runtime>) -> Self {
        let requests = DriverRequests {
            ready: Vec::new(),
            handed: Vec::new(),
            handed_bytes: 0,
            close: None,
            rebound: None,
            driver: None,
            ended: false,
        };
        Self { clock: Clock::start(runtime), requests: Mutex::new(requests) }
    }

    fn requests(&self) -> MutexGuard<'_, DriverRequests<T>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the driver to poll a connection: once for each, until the driver has taken it. It takes no lock
    /// of a connection's.
    ///
    /// # Errors
    /// When the driver has ended: the connection.
    pub(crate) fn ring(&self, ready: T) -> Result<(), T> {
        let driver = {
            let mut requests = self.requests();
            if requests.ended {
                return Err(ready);
            }
            requests.ready.push(ready);
            requests.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(())
    }

    /// Gives the driver datagrams that came to others, as many as there is room for. Returns how many; `None`
    /// when it has ended.
    pub(crate) fn hand_over(&self, datagrams: &mut Vec<Datagram>) -> Option<usize> {
        let mut requests = self.requests();
        if requests.ended {
            return None;
        }
        let mut taken = 0;
        for datagram in datagrams.drain(..) {
            let size = datagram.bytes.len() + size_of::<Datagram>();
            if requests.handed_bytes + size > MOST_HANDED {
                break;
            }
            requests.handed_bytes += size;
            taken += 1;
            // As it lies it would keep all of the buffer that it came in.
            requests.handed.push(Datagram { bytes: BytesMut::from(&datagram.bytes[..]), ..datagram });
        }
        let driver = requests.driver.take();
        drop(requests);
        if let Some(driver) = driver {
            driver.wake();
        }
        Some(taken)
    }

    /// The driver goes on with another socket, and `first` is done before it knows; neither if it has ended.
    pub(crate) fn rebind(&self, socket: Arc<dyn DatagramSocket>, first: impl FnOnce()) {
        let driver = {
            let mut requests = self.requests();
            if requests.ended {
                return;
            }
            requests.rebound = Some(socket);
            first();
            requests.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// Asks the driver to close all connections, or with `None` to look whether it is still needed.
    pub(crate) fn wake_driver(&self, close: Option<ClosingWords>) {
        let driver = {
            let mut requests = self.requests();
            requests.close = close.or(requests.close.take());
            requests.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// The driver's side: takes what was asked for, and leaves its waker for what comes later.
    pub(crate) fn take_requests(&self, cx: &Context<'_>, ready: &mut Vec<T>) -> DriverWishes {
        let mut requests = self.requests();
        if requests.driver.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            requests.driver = Some(cx.waker().clone());
        }
        ready.append(&mut requests.ready);
        requests.handed_bytes = 0;
        DriverWishes {
            close: requests.close.take(),
            rebound: requests.rebound.take(),
            handed: std::mem::take(&mut requests.handed),
        }
    }

    /// The driver's last word: handles that are still there talk to nobody.
    pub(crate) fn driver_ended(&self) -> Vec<T> {
        let mut requests = self.requests();
        requests.ended = true;
        requests.rebound = None;
        requests.handed = Vec::new();
        std::mem::take(&mut requests.ready)
    }
}

/// Bytes of datagrams that wait for a shard: as many as the buffer of its socket holds, unless told.
pub(crate) const MOST_HANDED: usize = 4 << 20;
