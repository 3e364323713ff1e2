//! What belongs to one process, and is of no use to its children.

use std::mem;

use pyo3::prelude::*;

use crate::driver;
use crate::errors;

/// A value of the process in which it was made. In a forked child the thread that drives it is missing, and
/// its locks may be held for ever by threads that are missing, too. So there it cannot be had, and is
/// forgotten instead of dropped.
#[derive(Debug)]
pub(crate) struct Parental<T> {
    /// Empty only while it is dropped.
    value: Option<T>,
    generation: u32,
}

impl<T> Parental<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { value: Some(value), generation: driver::generation() }
    }

    /// Returns the value.
    ///
    /// # Errors
    /// `ForkedError` in a child of the process that made it.
    pub(crate) fn get(&self, py: Python<'_>) -> PyResult<&T> {
        match &self.value {
            Some(value) if self.generation == driver::generation() => Ok(value),
            _ => Err(errors::forked(py)),
        }
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, py: Python<'_>) -> PyResult<&mut T> {
        match &mut self.value {
            Some(value) if self.generation == driver::generation() => Ok(value),
            _ => Err(errors::forked(py)),
        }
    }

    /// Returns the value, for those who cannot raise and do nothing instead.
    pub(crate) fn here(&self) -> Option<&T> {
        self.value.as_ref().filter(|_| self.generation == driver::generation())
    }
}

impl<T: Clone> Parental<T> {
    /// Returns a clone of the value; see [`get`](Self::get).
    pub(crate) fn cloned(&self, py: Python<'_>) -> PyResult<T> {
        self.get(py).cloned()
    }
}

impl<T> Drop for Parental<T> {
    fn drop(&mut self) {
        if self.generation != driver::generation() {
            mem::forget(self.value.take());
        }
    }
}
