//! What a task awaits.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use pyo3::exceptions::PyStopIteration;
use pyo3::prelude::*;
use pyo3::{PyTraverseError, PyVisit};

use crate::bell::{BellLine, Sleeper};
use crate::errors::Raise;
use crate::parental::Parental;

/// A call that waits. A task awaits it once. What it waits for happens in the step in which the task goes on,
/// or not at all: whoever is cancelled has lost nothing.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct Operation {
    state: Mutex<OperationState>,
    sleeper: Arc<Sleeper>,
}

struct OperationState {
    /// Empty at the end.
    work: Option<Parental<BoxedWork>>,
    /// Whether it is to be polled only after other tasks had a turn.
    pauses: bool,
    /// Whether it was polled, and need not be again unless it is woken.
    polled: bool,
}

type BoxedWork = Pin<Box<dyn Work>>;

/// A future whose result Python can have.
pub(crate) trait Work: Send {
    fn poll_work(self: Pin<&mut Self>, py: Python<'_>, cx: &mut Context<'_>) -> Poll<PyResult<Py<PyAny>>>;
}

/// A value that Python can have.
pub(crate) trait Answer {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>>;
}

impl Answer for () {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(py.None())
    }
}

impl Answer for bool {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.into_pyobject(py)?.to_owned().into_any().unbind())
    }
}

impl<F, T, E> Work for F
where
    F: Future<Output = Result<T, E>> + Send,
    T: Answer,
    E: Raise,
{
    fn poll_work(self: Pin<&mut Self>, py: Python<'_>, cx: &mut Context<'_>) -> Poll<PyResult<Py<PyAny>>> {
        self.poll(cx).map(|result| result.map_err(|error| error.raise(py))?.answer(py))
    }
}

/// Begins what waits: returns the result if it is there, or an [`Operation`] that is to be awaited.
///
/// # Errors
/// Those of the work, `WrongLoopError` outside of the loop, `ForkedError` in a forked child.
pub(crate) fn begin(py: Python<'_>, line: &Arc<BellLine>, work: impl Work + 'static) -> PyResult<Py<PyAny>> {
    line.running_loop(py)?;
    let sleeper = Sleeper::new(line.clone());
    let mut work: BoxedWork = Box::pin(work);
    let pauses = line.wants_pause();
    if !pauses {
        let waker = Waker::from(sleeper.clone());
        if let Poll::Ready(result) = work.as_mut().poll_work(py, &mut Context::from_waker(&waker)) {
            return result;
        }
    }
    let state = OperationState { work: Some(Parental::new(work)), pauses, polled: !pauses };
    Ok(Py::new(py, Operation { state: Mutex::new(state), sleeper })?.into_any())
}

/// Makes an [`Operation`] of work that is begun when it is awaited.
///
/// # Errors
/// `WrongLoopError` outside of the loop, `ForkedError` in a forked child.
pub(crate) fn later(py: Python<'_>, line: &Arc<BellLine>, work: impl Work + 'static) -> PyResult<Operation> {
    line.running_loop(py)?;
    let work: BoxedWork = Box::pin(work);
    let state = OperationState { work: Some(Parental::new(work)), pauses: false, polled: false };
    Ok(Operation { state: Mutex::new(state), sleeper: Sleeper::new(line.clone()) })
}

#[pymethods]
impl Operation {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.pauses) {
            return Ok(py.None());
        }
        if std::mem::take(&mut state.polled) && !self.sleeper.was_woken() {
            return Ok(self.sleeper.sleep(py)?.unbind());
        }
        let Some(work) = &mut state.work else { return Err(PyStopIteration::new_err(())) };
        let waker = Waker::from(self.sleeper.clone());
        match work.get_mut(py)?.as_mut().poll_work(py, &mut Context::from_waker(&waker)) {
            Poll::Pending => Ok(self.sleeper.sleep(py)?.unbind()),
            Poll::Ready(result) => {
                state.work = None;
                Err(result.map_or_else(|error| error, |value| PyStopIteration::new_err((value,))))
            }
        }
    }

    /// The task was cancelled. What was waited for is given up here and not later: tracebacks may keep this.
    #[pyo3(signature = (kind, value=None, traceback=None))]
    fn throw(
        &self,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        drop(traceback);
        self.close();
        Err(PyErr::from_value(value.unwrap_or(kind)))
    }

    fn close(&self) {
        // It is locked while it is polled, and then nobody gives it up.
        if let Ok(mut state) = self.state.try_lock() {
            let work = state.work.take();
            drop(state);
            drop(work);
        }
        self.sleeper.forget();
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        self.sleeper.visit(&visit)
    }

    fn __clear__(&self) {
        self.close();
    }
}

impl Drop for Operation {
    fn drop(&mut self) {
        // A waker may outlive this, and be dropped under the lock of a connection. Then it must not be the last
        // to have something of Python, whose end may run anything.
        self.sleeper.forget();
    }
}
