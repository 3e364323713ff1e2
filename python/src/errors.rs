//! Our errors as Python's, with our sentences.

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use quickset_lab::experiment::ValueError;
use quickset_lab::plan::PlanError;
use quickset_lab::results::{JoinError, JournalError};
use quickset_lab::run::RunError;

/// Turns an error of ours into an exception.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self) -> PyResult<T>;
}

impl<T, E: Raise> OrRaise<T> for Result<T, E> {
    fn or_raise(self) -> PyResult<T> {
        self.map_err(Raise::raise)
    }
}

/// An error that has an exception.
pub(crate) trait Raise {
    fn raise(self) -> PyErr;
}

/// What was given is wrong.
pub(crate) fn bad(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The system says no.
fn system(error: impl std::fmt::Display) -> PyErr {
    PyOSError::new_err(error.to_string())
}

impl Raise for ValueError {
    fn raise(self) -> PyErr {
        bad(self)
    }
}

impl Raise for PlanError {
    fn raise(self) -> PyErr {
        if matches!(self, Self::Io { .. }) { system(self) } else { bad(self) }
    }
}

impl Raise for JournalError {
    fn raise(self) -> PyErr {
        if matches!(self, Self::Io { .. } | Self::Busy(_)) { system(self) } else { bad(self) }
    }
}

impl Raise for JoinError {
    fn raise(self) -> PyErr {
        match self {
            Self::Journal(error) => error.raise(),
            error => bad(error),
        }
    }
}

impl Raise for RunError {
    fn raise(self) -> PyErr {
        match self {
            Self::Value(error) => error.raise(),
            Self::Journal(error) => error.raise(),
            Self::Real(..) | Self::Recording(_) => system(self),
            Self::Play(..) | Self::Timing(_) | Self::Stopped => PyRuntimeError::new_err(self.to_string()),
        }
    }
}
