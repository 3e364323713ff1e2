//! Streams of bytes.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quickset::{ReadError, RecvStream, SendStream};

use crate::bell::BellLine;
use crate::bytes_of::{GivenBytes, Joined};
use crate::config;
use crate::errors::{Raise, bad, incomplete, too_long};
use crate::operation::{Answer, begin};
use crate::slot::Slot;

/// The sending half of a stream.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeWriter {
    stream: Slot<SendStream>,
    line: Arc<BellLine>,
    #[pyo3(get)]
    id: u64,
}

/// The receiving half of a stream.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeReader {
    stream: Slot<ByteSource>,
    line: Arc<BellLine>,
    #[pyo3(get)]
    id: u64,
}

/// A stream, and what was taken from it and is not Python's yet.
struct ByteSource {
    stream: RecvStream,
    taken: VecDeque<Bytes>,
    /// Bytes in `taken`.
    len: usize,
    /// Where chunks are put; they are taken out at once.
    chunks: Vec<Bytes>,
    ended: bool,
}

impl NativeWriter {
    pub(crate) fn new(stream: SendStream, line: Arc<BellLine>) -> Self {
        let id = stream.id().0;
        Self { stream: Slot::new(stream), line, id }
    }
}

#[pymethods]
impl NativeWriter {
    /// Writes all of `data`, and ends the stream behind it if `finish`.
    fn write(&self, py: Python<'_>, data: GivenBytes, finish: bool) -> PyResult<Py<PyAny>> {
        let mut stream = self.stream.lend(py)?;
        begin(py, &self.line, async move {
            if finish { stream.finish_with_chunk(data.0).await } else { stream.write_chunk(data.0).await }
        })
    }

    fn written(&self, py: Python<'_>) -> PyResult<u64> {
        self.stream.with(py, |stream| stream.written())
    }

    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.stream.with(py, SendStream::finish)?.map_err(|error| error.raise(py))
    }

    /// Waits until all has arrived.
    fn finished(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let stream = self.stream.lend(py)?;
        begin(py, &self.line, async move { stream.finished().await })
    }

    fn reset(&self, py: Python<'_>, code: u64) -> PyResult<()> {
        let code = config::code(code)?;
        self.stream.with(py, |stream| stream.reset(code))
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.stream.with(py, SendStream::flush)
    }

    fn set_urgency(&self, py: Python<'_>, urgency: u8) -> PyResult<()> {
        let urgency = config::urgency(urgency)?;
        self.stream.with(py, |stream| stream.set_urgency(urgency))
    }

    fn set_protection(&self, py: Python<'_>, protection: &str) -> PyResult<()> {
        let protection = config::protection(protection)?;
        self.stream.with(py, |stream| stream.set_protection(&protection))
    }
}

impl NativeReader {
    pub(crate) fn new(stream: RecvStream, line: Arc<BellLine>) -> Self {
        let id = stream.id().0;
        let source = ByteSource { stream, taken: VecDeque::new(), len: 0, chunks: Vec::new(), ended: false };
        Self { stream: Slot::new(source), line, id }
    }
}

#[pymethods]
impl NativeReader {
    /// Reads what is there, 1 byte to `most`; no bytes at the end.
    fn read(&self, py: Python<'_>, most: usize) -> PyResult<Py<PyAny>> {
        if most == 0 {
            return Err(bad("read at least 1 byte"));
        }
        let mut source = self.stream.lend(py)?;
        begin(py, &self.line, async move {
            if source.len == 0 {
                source.fill().await?;
            }
            Ok::<_, ReadError>(Joined(source.split(most)))
        })
    }

    /// Reads exactly `n` bytes.
    fn read_exactly(&self, py: Python<'_>, n: usize) -> PyResult<Py<PyAny>> {
        let mut source = self.stream.lend(py)?;
        begin(py, &self.line, async move {
            while source.len < n && !source.ended {
                source.fill().await?;
            }
            Ok::<_, ReadError>(ExactBytes(Joined(source.split(n)), n))
        })
    }

    /// Reads all up to the end, at most `limit` bytes.
    fn read_all(&self, py: Python<'_>, limit: usize) -> PyResult<Py<PyAny>> {
        let mut source = self.stream.lend(py)?;
        begin(py, &self.line, async move {
            while !source.ended && source.len <= limit {
                source.fill().await?;
            }
            let all = if source.len <= limit { Some(Joined(source.split(limit))) } else { None };
            Ok::<_, ReadError>(WholeStream(all, limit))
        })
    }

    /// Whether a part of it came before the handshake was complete.
    fn is_early(&self, py: Python<'_>) -> PyResult<bool> {
        self.stream.with(py, |source| source.stream.is_early())
    }

    fn stop(&self, py: Python<'_>, code: u64) -> PyResult<()> {
        let code = config::code(code)?;
        if let Some(source) = self.stream.take(py)? {
            source.stream.stop(code);
        }
        Ok(())
    }
}

/// Bytes of which there must be so many.
struct ExactBytes(Joined, usize);

/// All of a stream, or `None` if that is more than the limit.
struct WholeStream(Option<Joined>, usize);

impl Answer for ExactBytes {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self(bytes, n) = self;
        let bytes = bytes.answer(py)?.into_bound(py).cast_into::<PyBytes>()?;
        if bytes.as_bytes().len() < n { Err(incomplete(py, bytes.as_any(), n)) } else { Ok(bytes.into()) }
    }
}

impl Answer for WholeStream {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self(all, limit) = self;
        let Some(all) = all else {
            let sentence = format!("the stream is longer than {limit} bytes; read it piece by piece");
            return Err(too_long(py, &sentence, limit as u64));
        };
        all.answer(py)
    }
}

impl ByteSource {
    /// Waits for more bytes and takes what is there, up to some hundred packets. Dropping the future loses
    /// nothing.
    async fn fill(&mut self) -> Result<(), ReadError> {
        if self.ended {
            return Ok(());
        }
        self.chunks.resize(CHUNKS, Bytes::new());
        let n = self.stream.read_chunks(&mut self.chunks).await?;
        self.ended = n == 0;
        for chunk in &mut self.chunks[..n] {
            self.len += chunk.len();
            self.taken.push_back(std::mem::take(chunk));
        }
        Ok(())
    }

    /// Takes up to `most` bytes from the front.
    fn split(&mut self, most: usize) -> Vec<Bytes> {
        let mut room = most.min(self.len);
        self.len -= room;
        let mut pieces = Vec::with_capacity(self.taken.len().min(CHUNKS));
        while room > 0 {
            let Some(mut chunk) = self.taken.pop_front() else { break };
            if chunk.len() > room {
                let piece = chunk.split_to(room);
                self.taken.push_front(chunk);
                chunk = piece;
            }
            room -= chunk.len();
            pieces.push(chunk);
        }
        pieces
    }
}

/// Chunks taken at a time: those of some hundred kilobytes.
const CHUNKS: usize = 256;
