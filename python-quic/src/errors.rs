//! Our errors as exceptions of `quickset._errors`, with our sentences.

use pyo3::BoundObject as _;
use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyTuple};
use quickset::h3::{Abort, HttpError};
use quickset::{
    Closed, ConnectError, DatagramError, ReadError, ReceiveError, SendError, TransportError, WriteError,
};

use crate::http3::HttpFailure;

/// An error that has an exception.
pub(crate) trait Raise {
    fn raise(self, py: Python<'_>) -> PyErr;
}

impl Raise for PyErr {
    fn raise(self, _: Python<'_>) -> PyErr {
        self
    }
}

/// What was given is wrong.
pub(crate) fn bad(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The system says no.
pub(crate) fn system(error: impl std::fmt::Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}

pub(crate) fn forked(py: Python<'_>) -> PyErr {
    of(py, "ForkedError", ("this belongs to the parent process; connect or serve anew in a forked child",))
}

pub(crate) fn wrong_loop(py: Python<'_>) -> PyErr {
    of(
        py,
        "WrongLoopError",
        ("this belongs to another event loop; use it in the thread and loop in which it was made",),
    )
}

pub(crate) fn busy(py: Python<'_>) -> PyErr {
    of(py, "BusyError", ("another task waits with this half of the stream; cancel that one first",))
}

pub(crate) fn gone(py: Python<'_>) -> PyErr {
    of(py, "StreamEnded", ("this half of the stream was given up here; open another stream",))
}

/// Raised where a stream ends inside what was asked for.
pub(crate) fn incomplete(py: Python<'_>, partial: &Bound<'_, PyAny>, expected: usize) -> PyErr {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let made = CLASS.import(py, "asyncio", "IncompleteReadError").and_then(|c| c.call1((partial, expected)));
    made.map_or_else(|error| error, PyErr::from_value)
}

pub(crate) fn too_long(py: Python<'_>, sentence: &impl ToString, max: u64) -> PyErr {
    of(py, "TooLong", (sentence.to_string(), max))
}

/// An exception of the package, made with these arguments.
pub(crate) fn of<'py>(py: Python<'py>, name: &str, args: impl IntoPyObject<'py, Target = PyTuple>) -> PyErr {
    let made = || {
        let args = args.into_pyobject(py).map_err(Into::into)?.into_bound();
        ERRORS
            .get_or_try_init(py, || py.import("quickset._errors").map(Bound::unbind))?
            .bind(py)
            .getattr(name)?
            .call1(args)
    };
    made().map_or_else(|error| error, PyErr::from_value)
}

static ERRORS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

/// The arguments of `ConnectionClosed`: a sentence, a word for the kind, code and reason.
fn closed_args<'py>(
    py: Python<'py>,
    closed: &Closed,
) -> (String, &'static str, Option<u64>, Bound<'py, PyBytes>) {
    let transport = |error: &TransportError| (Some(error.code.0), error.reason.as_bytes().to_vec());
    let (kind, (code, reason)) = match closed {
        Closed::Locally => ("local", (None, Vec::new())),
        Closed::ByApplication { code, reason } => ("application", (Some(*code), reason.clone())),
        Closed::ByPeer(error) => ("peer", transport(error)),
        Closed::Failed(error) => ("failed", transport(error)),
        Closed::Reset => ("reset", (None, Vec::new())),
        Closed::TimedOut => ("timeout", (None, Vec::new())),
        Closed::Unreachable(_) => ("unreachable", (None, Vec::new())),
        Closed::NoCommonVersion => ("version", (None, Vec::new())),
        Closed::Abandoned => ("abandoned", (None, Vec::new())),
        _ => ("other", (None, Vec::new())),
    };
    (closed.to_string(), kind, code, PyBytes::new(py, &reason))
}

impl Raise for Closed {
    fn raise(self, py: Python<'_>) -> PyErr {
        of(py, "ConnectionClosed", closed_args(py, &self))
    }
}

impl Raise for ConnectError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Failed(closed) => of(py, "ConnectError", closed_args(py, &closed)),
            error => of(py, "ConnectError", (error.to_string(), "refused")),
        }
    }
}

impl Raise for WriteError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Closed(closed) => closed.raise(py),
            Self::Stopped(code) => of(py, "StreamStopped", (self.to_string(), code)),
            error => of(py, "StreamEnded", (error.to_string(),)),
        }
    }
}

impl Raise for ReadError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Closed(closed) => closed.raise(py),
            Self::Reset(code) => of(py, "StreamReset", (self.to_string(), code)),
            error => of(py, "MalformedMessages", (error.to_string(),)),
        }
    }
}

impl Raise for SendError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Closed(closed) => closed.raise(py),
            Self::Stopped(code) => of(py, "StreamStopped", (self.to_string(), code)),
            Self::TooLong { max } => too_long(py, &self, max),
            error => of(py, "StreamEnded", (error.to_string(),)),
        }
    }
}

impl Raise for ReceiveError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Closed(closed) => closed.raise(py),
            Self::Reset(code) => of(py, "StreamReset", (self.to_string(), code)),
            error => of(py, "MalformedMessages", (error.to_string(),)),
        }
    }
}

impl Raise for HttpError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Closed(closed) => closed.raise(py),
            Self::Stopped(code) | Self::Aborted(Abort::Reset(code)) => {
                of(py, "HttpCancelled", (self.to_string(), code))
            }
            error => of(py, "HttpError", (error.to_string(), error.is_unprocessed())),
        }
    }
}

impl Raise for HttpFailure {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Http(error) => error.raise(py),
            Self::Taken => of(py, "HttpError", ("the response was taken before",)),
            Self::Answered => {
                of(py, "HttpError", ("this has its end already: answered, finished or given up",))
            }
        }
    }
}

impl Raise for DatagramError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Closed(closed) => closed.raise(py),
            Self::TooLong { max } => too_long(py, &self, max as u64),
            error => of(py, "DatagramsUnsupported", (error.to_string(),)),
        }
    }
}
