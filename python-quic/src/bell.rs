//! How an event loop learns that futures can go on.

use std::io::{Read as _, Write as _};
#[cfg(unix)]
use std::os::fd::AsRawFd as _;
#[cfg(unix)]
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Wake;
use std::{mem, thread};

use pyo3::exceptions::PyNotImplementedError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyWeakrefReference;

use crate::errors;
use crate::parental::Parental;

/// The bell of an event loop. There is one for each loop that connections belong to.
#[pyclass(frozen, weakref, module = "quickset._native")]
pub(crate) struct EventBell {
    line: Arc<BellLine>,
    /// Where a ring is heard; empty where a thread listens.
    #[cfg(unix)]
    heard: Option<UnixStream>,
}

/// What rings a bell, and for whom.
pub(crate) struct BellLine {
    /// The loop, which this does not keep alive.
    event_loop: Py<PyWeakrefReference>,
    /// Those that can go on.
    queue: Mutex<Vec<Arc<Sleeper>>>,
    /// Whether it rings, or will in a moment.
    ringing: AtomicBool,
    rope: Parental<Rope>,
    /// How many calls found what they wanted without a pause.
    streak: AtomicU32,
}

enum Rope {
    /// The loop watches the other end.
    #[cfg(unix)]
    Socket(UnixStream),
    /// A thread listens, and calls `call_soon_threadsafe`.
    Thread(SyncSender<()>),
}

/// A task that waits for a future of ours.
pub(crate) struct Sleeper {
    line: Arc<BellLine>,
    queued: AtomicBool,
    /// Whether it was woken since the last poll.
    woken: AtomicBool,
    /// What its task awaits. It is locked by the loop's thread only.
    future: Mutex<Option<Py<PyAny>>>,
}

#[pymethods]
impl EventBell {
    /// Makes a bell for a loop, which it has to be hung up in.
    #[new]
    fn new(event_loop: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let py = event_loop.py();
        #[cfg(unix)]
        match Self::by_socket(event_loop) {
            Ok(bell) => return Ok(bell),
            Err(error) if error.is_instance_of::<PyNotImplementedError>(py) => {}
            Err(error) => return Err(error),
        }
        let (rope, heard) = sync_channel(1);
        let bell = Py::new(
            py,
            Self {
                line: BellLine::new(event_loop, Rope::Thread(rope))?,
                #[cfg(unix)]
                heard: None,
            },
        )?;
        let weak = PyWeakrefReference::new(bell.bind(py))?.unbind();
        thread::Builder::new().name("quickset bell".to_owned()).spawn(move || listen(&heard, &weak))?;
        Ok(bell)
    }

    /// Continues all that can go on. The loop calls it when the bell rings.
    fn answer(&self, py: Python<'_>) -> PyResult<()> {
        #[cfg(unix)]
        if let Some(heard) = &self.heard {
            let mut rings = [0; 16];
            // Empty after a fork, or when the loop calls twice.
            let _ = (&mut &*heard).read(&mut rings);
        }
        self.line.streak.store(0, Ordering::Relaxed);
        // Before the queue is taken: who comes later rings again.
        self.line.ringing.store(false, Ordering::SeqCst);
        let sleepers = mem::take(&mut *self.line.queue.lock().unwrap_or_else(PoisonError::into_inner));
        // One that fails, since its loop is closed, keeps no other from going on.
        sleepers.into_iter().map(|sleeper| sleeper.go_on(py)).fold(Ok(()), Result::and)
    }

    /// Rings from the thread that listens.
    fn call_soon(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        if let Some(event_loop) = slf.get().line.event_loop.bind(py).upgrade() {
            let answer = slf.getattr(intern!(py, "answer"))?;
            event_loop.call_method1(intern!(py, "call_soon_threadsafe"), (answer,))?;
        }
        Ok(())
    }
}

impl EventBell {
    #[cfg(unix)]
    fn by_socket(event_loop: &Bound<'_, PyAny>) -> PyResult<Py<Self>> {
        let py = event_loop.py();
        let (rope, heard) = UnixStream::pair()?;
        rope.set_nonblocking(true)?;
        heard.set_nonblocking(true)?;
        let fd = heard.as_raw_fd();
        let bell = Self { line: BellLine::new(event_loop, Rope::Socket(rope))?, heard: Some(heard) };
        let bell = Bound::new(py, bell)?;
        event_loop.call_method1(intern!(py, "add_reader"), (fd, bell.getattr(intern!(py, "answer"))?))?;
        Ok(bell.unbind())
    }

    pub(crate) fn line(&self) -> Arc<BellLine> {
        self.line.clone()
    }
}

/// Passes rings on, until there is no bell or no interpreter.
fn listen(rope: &Receiver<()>, bell: &Py<PyWeakrefReference>) {
    while rope.recv().is_ok() {
        let goes_on = Python::try_attach(|py| {
            let Some(bell) = bell.bind(py).upgrade() else { return false };
            // A loop that is closed hears nothing, and nobody waits in it.
            bell.call_method0(intern!(py, "call_soon")).is_ok()
        });
        if goes_on != Some(true) {
            return;
        }
    }
}

impl BellLine {
    fn new(event_loop: &Bound<'_, PyAny>, rope: Rope) -> PyResult<Arc<Self>> {
        Ok(Arc::new(Self {
            event_loop: PyWeakrefReference::new(event_loop)?.unbind(),
            queue: Mutex::default(),
            ringing: AtomicBool::new(false),
            rope: Parental::new(rope),
            streak: AtomicU32::new(0),
        }))
    }

    /// Returns the loop, which has to be the one that runs in this thread.
    ///
    /// # Errors
    /// `WrongLoopError` elsewhere, `ForkedError` in a forked child.
    pub(crate) fn running_loop<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.rope.get(py)?;
        let running = running_loop(py)?;
        let ours = self.event_loop.bind(py).upgrade();
        if running.is_none() || ours.is_none_or(|ours| !ours.is(&running)) {
            return Err(errors::wrong_loop(py));
        }
        Ok(running)
    }

    /// Whether so many calls in a row returned at once that other tasks should have a turn.
    pub(crate) fn wants_pause(&self) -> bool {
        if self.streak.fetch_add(1, Ordering::Relaxed) < STREAK {
            return false;
        }
        self.streak.store(0, Ordering::Relaxed);
        true
    }

    fn ring(&self) {
        if self.ringing.swap(true, Ordering::SeqCst) {
            return;
        }
        // One that is full rings already, and one whose loop is gone need not.
        match self.rope.here() {
            #[cfg(unix)]
            Some(Rope::Socket(socket)) => drop((&mut &*socket).write(&[1])),
            Some(Rope::Thread(thread)) => drop(thread.try_send(())),
            None => {}
        }
    }
}

impl Sleeper {
    pub(crate) fn new(line: Arc<BellLine>) -> Arc<Self> {
        Arc::new(Self {
            line,
            queued: AtomicBool::new(false),
            woken: AtomicBool::new(false),
            future: Mutex::default(),
        })
    }

    /// Whether it was woken since the last call of this.
    pub(crate) fn was_woken(&self) -> bool {
        self.woken.swap(false, Ordering::SeqCst)
    }

    /// Makes what the task awaits, which is done when this is woken.
    pub(crate) fn sleep<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let event_loop = self.line.running_loop(py)?;
        let future = event_loop.call_method0(intern!(py, "create_future"))?;
        // What `await` of an asyncio future says to its task.
        future.setattr(intern!(py, "_asyncio_future_blocking"), true)?;
        *self.future.lock().unwrap_or_else(PoisonError::into_inner) = Some(future.clone().unbind());
        self.line.streak.store(0, Ordering::Relaxed);
        Ok(future)
    }

    /// The task no longer waits.
    pub(crate) fn forget(&self) {
        let future = self.future.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(future);
    }

    /// What the garbage collector has to know.
    pub(crate) fn visit(&self, visit: &pyo3::PyVisit<'_>) -> Result<(), pyo3::PyTraverseError> {
        match self.future.try_lock() {
            Ok(future) => future.as_ref().map_or(Ok(()), |future| visit.call(future)),
            Err(_) => Ok(()),
        }
    }

    fn go_on(&self, py: Python<'_>) -> PyResult<()> {
        self.queued.store(false, Ordering::SeqCst);
        let future = self.future.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(future) = future else { return Ok(()) };
        let future = future.bind(py);
        // Done before only if it was cancelled.
        if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
            future.call_method1(intern!(py, "set_result"), (py.None(),))?;
        }
        Ok(())
    }
}

impl Wake for Sleeper {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        if !self.queued.swap(true, Ordering::SeqCst) {
            let line = self.line.clone();
            line.queue.lock().unwrap_or_else(PoisonError::into_inner).push(self);
            line.ring();
        }
    }
}

fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static RUNNING: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    RUNNING.import(py, "asyncio", "_get_running_loop")?.call0()
}

/// Calls that find what they want before their task lets others have a turn. As many take less than a tenth
/// of a millisecond.
const STREAK: u32 = 64;
