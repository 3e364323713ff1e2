//! Bytes from Python and to Python.

use bytes::Bytes;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView};

use crate::operation::Answer;

/// Bytes that a call was given. Those of a long `bytes` are not copied.
pub(crate) struct GivenBytes(pub(crate) Bytes);

/// Bytes that lie in pieces, for Python in one.
pub(crate) struct Joined(pub(crate) Vec<Bytes>);

/// Many times bytes, for Python as a list.
pub(crate) struct Listed(pub(crate) Vec<Bytes>);

impl<'py> FromPyObject<'_, 'py> for GivenBytes {
    type Error = PyErr;

    fn extract(given: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = given.cast::<PyBytes>() {
            let data = bytes.as_bytes();
            return Ok(Self(if data.len() < COPIED {
                Bytes::copy_from_slice(data)
            } else {
                Bytes::from_owner(PyBackedBytes::from(bytes.to_owned()))
            }));
        }
        if let Ok(array) = given.cast::<PyByteArray>() {
            return Ok(Self(array.to_vec().into()));
        }
        if given.is_instance_of::<PyMemoryView>() {
            let bytes = given.call_method0("tobytes")?.cast_into::<PyBytes>()?;
            return Ok(Self(Bytes::from_owner(PyBackedBytes::from(bytes))));
        }
        let kind = given.get_type().name()?;
        Err(PyTypeError::new_err(format!("bytes, a bytearray or a memoryview is needed here, not {kind}")))
    }
}

impl Answer for Joined {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self(pieces) = self;
        if let [piece] = &pieces[..] {
            return Ok(PyBytes::new(py, piece).into_any().unbind());
        }
        let len = pieces.iter().map(Bytes::len).sum();
        let bytes = PyBytes::new_with(py, len, |mut out| {
            for piece in &pieces {
                let (here, rest) = out.split_at_mut(piece.len());
                here.copy_from_slice(piece);
                out = rest;
            }
            Ok(())
        });
        Ok(bytes?.into_any().unbind())
    }
}

impl Answer for Bytes {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(PyBytes::new(py, &self).into_any().unbind())
    }
}

impl Answer for Listed {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(PyList::new(py, self.0.iter().map(|data| PyBytes::new(py, data)))?.into_any().unbind())
    }
}

/// Shorter ones are copied: to keep an object of Python costs more.
const COPIED: usize = 8 << 10;
