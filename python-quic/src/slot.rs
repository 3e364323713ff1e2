//! Who uses half a stream.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;

use crate::errors;
use crate::parental::Parental;

/// Half a stream, which one task at a time uses.
pub(crate) struct Slot<T>(Arc<Parental<Mutex<SlotState<T>>>>);

enum SlotState<T> {
    Free(T),
    /// A task uses it.
    Lent,
    /// It was given up here.
    Gone,
}

/// A stream for the time of a call; it goes back when this is dropped.
pub(crate) struct Lease<T> {
    /// Empty only while it is dropped.
    lent: Option<T>,
    slot: Slot<T>,
}

impl<T> Slot<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Arc::new(Parental::new(Mutex::new(SlotState::Free(value)))))
    }

    /// Lends it to a call that waits.
    ///
    /// # Errors
    /// `BusyError` while another task uses it, `StreamEnded` when it was given up, `ForkedError`.
    pub(crate) fn lend(&self, py: Python<'_>) -> PyResult<Lease<T>> {
        let mut state = self.lock(py)?;
        match std::mem::replace(&mut *state, SlotState::Lent) {
            SlotState::Free(value) => {
                drop(state);
                Ok(Lease { lent: Some(value), slot: Self(self.0.clone()) })
            }
            SlotState::Lent => Err(errors::busy(py)),
            SlotState::Gone => {
                *state = SlotState::Gone;
                Err(errors::gone(py))
            }
        }
    }

    /// Uses it in a call that does not wait. See [`lend`](Self::lend) for the errors.
    pub(crate) fn with<R>(&self, py: Python<'_>, f: impl FnOnce(&mut T) -> R) -> PyResult<R> {
        match &mut *self.lock(py)? {
            SlotState::Free(value) => Ok(f(value)),
            SlotState::Lent => Err(errors::busy(py)),
            SlotState::Gone => Err(errors::gone(py)),
        }
    }

    /// Takes it for good; `None` if that was done before.
    ///
    /// # Errors
    /// `BusyError` while a task uses it, `ForkedError`.
    pub(crate) fn take(&self, py: Python<'_>) -> PyResult<Option<T>> {
        let mut state = self.lock(py)?;
        match std::mem::replace(&mut *state, SlotState::Gone) {
            SlotState::Free(value) => Ok(Some(value)),
            SlotState::Gone => Ok(None),
            SlotState::Lent => {
                *state = SlotState::Lent;
                Err(errors::busy(py))
            }
        }
    }

    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, SlotState<T>>> {
        Ok(self.0.get(py)?.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<T> Deref for Lease<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.lent.as_ref().expect("it goes back only at the end")
    }
}

impl<T> DerefMut for Lease<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.lent.as_mut().expect("it goes back only at the end")
    }
}

impl<T> Drop for Lease<T> {
    fn drop(&mut self) {
        match (self.slot.0.here(), self.lent.take()) {
            (Some(slot), Some(value)) => {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = SlotState::Free(value);
            }
            // In a forked child.
            (None, value) => std::mem::forget(value),
            (Some(_), None) => {}
        }
    }
}
