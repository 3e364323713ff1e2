//! WebTransport: sessions on a connection of HTTP/3, with their streams and datagrams.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use quickset::Reliability;
use quickset::h3::webtransport::{RecvStream, SendStream, Session, SessionEnding, SessionError};
use quickset::h3::{Call, Request, Response};

use crate::bell::BellLine;
use crate::bytes_of::{GivenBytes, Joined};
use crate::config;
use crate::errors::{self, Raise, bad};
use crate::http3::{GivenFields, HttpFailure, fields, head};
use crate::operation::{Answer, begin};
use crate::parental::Parental;
use crate::pieces::{PieceReader, PieceStream};
use crate::slot::Slot;

/// A session, on either side.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeSession {
    session: Parental<Session>,
    line: Arc<BellLine>,
}

/// A request for a session that is to be answered.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeSessionCall {
    call: Slot<Call>,
    line: Arc<BellLine>,
}

/// The sending half of a session's stream.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeSessionWriter {
    stream: Slot<SendStream>,
    line: Arc<BellLine>,
}

/// The receiving half of a session's stream.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeSessionReader {
    stream: Slot<PieceReader<RecvStream>>,
    line: Arc<BellLine>,
}

/// Makes the request for a session.
pub(crate) fn session_request(
    authority: Bytes,
    path: Bytes,
    given: GivenFields,
    protocols: &[String],
) -> PyResult<Request> {
    let mut request = Request::extended("webtransport", authority, path);
    request.fields = fields(given);
    let protocols: Vec<&str> = protocols.iter().map(String::as_str).collect();
    request.offering(&protocols).map_err(bad)
}

/// A session that began.
pub(crate) struct BegunSession {
    pub(crate) session: Session,
    pub(crate) line: Arc<BellLine>,
}

impl Answer for BegunSession {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let native = NativeSession { session: Parental::new(self.session), line: self.line };
        Ok(Py::new(py, native)?.into_any())
    }
}

impl NativeSessionCall {
    pub(crate) fn new(call: Call, line: Arc<BellLine>) -> Self {
        Self { call: Slot::new(call), line }
    }

    fn take(&self, py: Python<'_>) -> PyResult<Call> {
        self.call.take(py)?.ok_or_else(|| HttpFailure::Answered.raise(py))
    }
}

#[pymethods]
impl NativeSessionCall {
    /// The application protocols that the client speaks, the best first.
    fn protocols(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.call.with(py, |call| call.request.protocols())
    }

    /// Accepts the session.
    fn accept(
        &self,
        py: Python<'_>,
        given: GivenFields,
        protocol: Option<String>,
    ) -> PyResult<NativeSession> {
        let mut response = Response { status: 200, fields: fields(given) };
        if let Some(protocol) = protocol {
            let offered = self.call.with(py, |call| call.request.protocols().contains(&protocol))?;
            if !offered {
                return Err(SessionError::NotOffered(protocol).raise(py));
            }
            response = response.choosing(&protocol).map_err(bad)?;
        }
        let session = self.take(py)?.into_session(&response).map_err(|error| error.raise(py))?;
        Ok(NativeSession { session: Parental::new(session), line: self.line.clone() })
    }

    /// Answers with a status that is no session's.
    fn decline(&self, py: Python<'_>, status: u16, given: GivenFields) -> PyResult<()> {
        if (200..300).contains(&status) {
            return Err(bad("a status of 2xx accepts the session; decline it with 403 or 404, say"));
        }
        self.take(py)?.reply.end(&head(status, given)).map_err(|error| error.raise(py))
    }

    /// Answers with a status, unless it was answered, or there is nobody any more who would hear it.
    fn unanswered(&self, py: Python<'_>, status: u16) -> PyResult<()> {
        if let Some(call) = self.call.take(py)? {
            // An error says that the client is gone.
            let _ = call.reply.end(&Response::new(status));
        }
        Ok(())
    }
}

/// Streams that were opened, by whatever side.
struct SessionStreams<S>(S, Arc<BellLine>);

impl Answer for SessionStreams<(SendStream, RecvStream)> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self((send, recv), line) = self;
        let halves = (NativeSessionWriter::new(send, line.clone()), NativeSessionReader::new(recv, line));
        Ok(halves.into_pyobject(py)?.into_any().unbind())
    }
}

impl Answer for SessionStreams<SendStream> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, NativeSessionWriter::new(self.0, self.1))?.into_any())
    }
}

impl Answer for SessionStreams<RecvStream> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, NativeSessionReader::new(self.0, self.1))?.into_any())
    }
}

/// How a session ended, as the exception that says so.
struct ToldEnding(SessionEnding);

impl Answer for ToldEnding {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(SessionError::Over(self.0).raise(py).into_value(py).into_any())
    }
}

/// Waits for what a method of the session does, and makes streams of it.
macro_rules! session_streams {
    ($this:ident, $py:ident, $method:ident) => {{
        let (session, line) = ($this.session.cloned($py)?, $this.line.clone());
        begin($py, &$this.line, async move {
            session.$method().await.map(|streams| SessionStreams(streams, line))
        })
    }};
}

#[pymethods]
impl NativeSession {
    fn open_bi(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        session_streams!(self, py, open_bi)
    }

    fn open_uni(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        session_streams!(self, py, open_uni)
    }

    fn accept_bi(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        session_streams!(self, py, accept_bi)
    }

    fn accept_uni(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        session_streams!(self, py, accept_uni)
    }

    /// Sends a datagram, or drops it where there is no room.
    fn send_datagram(&self, py: Python<'_>, data: GivenBytes) -> PyResult<()> {
        self.session.get(py)?.send_datagram(&data.0).map_err(|error| error.raise(py))
    }

    fn read_datagram(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let session = self.session.cloned(py)?;
        begin(py, &self.line, async move { session.next_datagram().await })
    }

    fn max_datagram(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        Ok(self.session.get(py)?.max_datagram())
    }

    fn protocol(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.session.get(py)?.protocol().map(str::to_owned))
    }

    fn close(&self, py: Python<'_>, code: u32, reason: &str) -> PyResult<()> {
        self.session.get(py)?.close(code, reason);
        Ok(())
    }

    /// Waits for the end, and returns the exception that says how it ended.
    fn closed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let session = self.session.cloned(py)?;
        begin(py, &self.line, async move { session.closed().await.map(ToldEnding) })
    }

    /// Asks the peer to end the session soon.
    fn drain(&self, py: Python<'_>) -> PyResult<()> {
        self.session.get(py)?.drain().map_err(|error| error.raise(py))
    }

    /// Waits until the peer asks for the end.
    fn draining(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let session = self.session.cloned(py)?;
        begin(py, &self.line, async move { session.draining().await })
    }
}

impl NativeSessionWriter {
    fn new(stream: SendStream, line: Arc<BellLine>) -> Self {
        Self { stream: Slot::new(stream), line }
    }
}

#[pymethods]
impl NativeSessionWriter {
    /// Writes all of the data. If it is cancelled, a part may have been written.
    fn write(&self, py: Python<'_>, data: GivenBytes) -> PyResult<Py<PyAny>> {
        let mut stream = self.stream.lend(py)?;
        begin(py, &self.line, async move { stream.send(data.0).await })
    }

    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        let stream = self.stream.take(py)?.ok_or_else(|| errors::gone(py))?;
        stream.finish().map_err(|error| error.raise(py))
    }

    fn reset(&self, py: Python<'_>, code: u32) -> PyResult<()> {
        if let Some(stream) = self.stream.take(py)? {
            stream.reset(code);
        }
        Ok(())
    }

    fn set_protection(&self, py: Python<'_>, protection: &str) -> PyResult<()> {
        let protection = Reliability::none().with(config::protection(protection)?);
        self.stream.with(py, |stream| stream.set_reliability(&protection))
    }
}

impl NativeSessionReader {
    fn new(stream: RecvStream, line: Arc<BellLine>) -> Self {
        Self { stream: Slot::new(PieceReader::new(stream)), line }
    }
}

#[pymethods]
impl NativeSessionReader {
    /// Reads what is there, 1 byte to `most`; no bytes at the end.
    fn read(&self, py: Python<'_>, most: usize) -> PyResult<Py<PyAny>> {
        if most == 0 {
            return Err(bad("read at least 1 byte"));
        }
        let mut source = self.stream.lend(py)?;
        begin(py, &self.line, async move { source.read(most).await.map(Joined) })
    }

    fn stop(&self, py: Python<'_>, code: u32) -> PyResult<()> {
        if let Some(source) = self.stream.take(py)? {
            source.stream.stop(code);
        }
        Ok(())
    }
}

impl PieceStream for RecvStream {
    type Error = SessionError;

    fn next_piece(&mut self) -> impl Future<Output = Result<Option<Bytes>, SessionError>> + Send {
        self.next()
    }
}

impl Raise for SessionError {
    fn raise(self, py: Python<'_>) -> PyErr {
        let sentence = self.to_string();
        match self {
            Self::Over(ending) => errors::of(py, "SessionClosed", (sentence, ending.code, ending.reason)),
            Self::Gone => errors::of(py, "SessionClosed", (sentence,)),
            Self::Reset(code) => errors::of(py, "StreamReset", (sentence, code)),
            Self::Stopped(code) => errors::of(py, "StreamStopped", (sentence, code)),
            Self::Declined(status) => errors::of(py, "SessionDeclined", (sentence, status)),
            Self::TooLarge(max) => errors::too_long(py, &sentence, max as u64),
            Self::Http(error) => error.raise(py),
            _ => errors::of(py, "HttpError", (sentence,)),
        }
    }
}
