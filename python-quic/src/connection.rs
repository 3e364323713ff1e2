//! Connections.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use quickset::{
    Closed, Connection, Dir, MessageReceiver, MessageSender, Peer, RecvStream, Reliability, SendStream, Side,
};

use crate::bell::BellLine;
use crate::bytes_of::{GivenBytes, Listed};
use crate::config::{self, SharedEndpoint};
use crate::errors::{Raise as _, bad};
use crate::messages::{NativeMessageReceiver, NativeMessageSender};
use crate::operation::{Answer, begin};
use crate::parental::Parental;
use crate::stats::ConnectionStats;
use crate::streams::{NativeReader, NativeWriter};

/// A connection.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeConnection {
    connection: Parental<Connection>,
    line: Arc<BellLine>,
    /// A client's, which lives as long as its connection.
    #[expect(dead_code, reason = "it is closed at the end of the interpreter while somebody has it")]
    endpoint: Option<Parental<SharedEndpoint>>,
}

impl NativeConnection {
    /// The connection, for a protocol above it.
    pub(crate) fn connection(&self, py: Python<'_>) -> PyResult<&Connection> {
        self.connection.get(py)
    }

    pub(crate) fn line(&self) -> Arc<BellLine> {
        self.line.clone()
    }
}

/// A connection that began.
pub(crate) struct Begun {
    pub(crate) connection: Connection,
    pub(crate) line: Arc<BellLine>,
    pub(crate) endpoint: Option<SharedEndpoint>,
}

impl Answer for Begun {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let native = NativeConnection {
            connection: Parental::new(self.connection),
            line: self.line,
            endpoint: self.endpoint.map(Parental::new),
        };
        Ok(Py::new(py, native)?.into_any())
    }
}

/// Streams that were opened, by whatever side.
struct OpenedStream<T>(T, Arc<BellLine>);

impl Answer for OpenedStream<(SendStream, RecvStream)> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self((send, recv), line) = self;
        let both = (NativeWriter::new(send, line.clone()), NativeReader::new(recv, line));
        Ok(both.into_pyobject(py)?.into_any().unbind())
    }
}

impl Answer for OpenedStream<SendStream> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, NativeWriter::new(self.0, self.1))?.into_any())
    }
}

impl Answer for OpenedStream<RecvStream> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, NativeReader::new(self.0, self.1))?.into_any())
    }
}

impl Answer for OpenedStream<(MessageSender, MessageReceiver)> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self((send, recv), line) = self;
        let both = (NativeMessageSender::new(send, line.clone()), NativeMessageReceiver::new(recv, line));
        Ok(both.into_pyobject(py)?.into_any().unbind())
    }
}

impl Answer for OpenedStream<MessageSender> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, NativeMessageSender::new(self.0, self.1))?.into_any())
    }
}

impl Answer for OpenedStream<MessageReceiver> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, NativeMessageReceiver::new(self.0, self.1))?.into_any())
    }
}

/// Why a connection ended, as the exception that is not raised.
struct ToldClosed(Closed);

impl Answer for ToldClosed {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(self.0.raise(py).into_value(py).into_any())
    }
}

/// Waits for what a method of the connection does, and makes streams of it.
macro_rules! streams {
    ($this:ident, $py:ident, $method:ident) => {{
        let (connection, line) = ($this.connection.cloned($py)?, $this.line.clone());
        begin($py, &$this.line, async move {
            connection.$method().await.map(|streams| OpenedStream(streams, line))
        })
    }};
}

#[pymethods]
impl NativeConnection {
    fn open_bi(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        streams!(self, py, open_bi)
    }

    fn open_uni(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        streams!(self, py, open_uni)
    }

    fn accept_bi(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        streams!(self, py, accept_bi)
    }

    fn accept_uni(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        streams!(self, py, accept_uni)
    }

    fn open_messages(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        streams!(self, py, open_messages)
    }

    fn open_messages_bi(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        streams!(self, py, open_messages_bi)
    }

    fn accept_messages(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        streams!(self, py, accept_messages)
    }

    fn accept_messages_bi(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        streams!(self, py, accept_messages_bi)
    }

    fn send_datagram(&self, py: Python<'_>, data: GivenBytes) -> PyResult<Py<PyAny>> {
        let connection = self.connection.cloned(py)?;
        begin(py, &self.line, async move { connection.send_datagram(data.0).await })
    }

    /// Sends all. A task that is cancelled has sent those that had room.
    fn send_datagrams(&self, py: Python<'_>, data: Vec<GivenBytes>) -> PyResult<Py<PyAny>> {
        let connection = self.connection.cloned(py)?;
        let mut data: VecDeque<Bytes> = data.into_iter().map(|data| data.0).collect();
        begin(py, &self.line, async move { connection.send_datagrams(&mut data).await })
    }

    fn read_datagram(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let connection = self.connection.cloned(py)?;
        begin(py, &self.line, async move { connection.read_datagram().await })
    }

    /// Those that are there, one to `most`.
    fn read_datagrams(&self, py: Python<'_>, most: usize) -> PyResult<Py<PyAny>> {
        if most == 0 {
            return Err(bad("read at least 1 datagram"));
        }
        let connection = self.connection.cloned(py)?;
        begin(py, &self.line, async move {
            let mut all = Vec::new();
            connection.read_datagrams(&mut all, most).await.map(|_| Listed(all))
        })
    }

    fn max_datagram(&self, py: Python<'_>) -> PyResult<Option<usize>> {
        Ok(self.connection.get(py)?.max_datagram_len())
    }

    fn set_datagram_protection(&self, py: Python<'_>, protection: &str) -> PyResult<()> {
        let protection = Reliability::none().with(config::protection(protection)?);
        self.connection.get(py)?.set_datagram_reliability(protection);
        Ok(())
    }

    fn close(&self, py: Python<'_>, code: u64, reason: GivenBytes) -> PyResult<()> {
        self.connection.get(py)?.close(config::code(code)?, &reason.0);
        Ok(())
    }

    /// Waits for the end, and returns the exception that says why.
    fn closed(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let connection = self.connection.cloned(py)?;
        begin(py, &self.line, async move { Ok::<_, Closed>(ToldClosed(connection.closed().await)) })
    }

    fn close_reason(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let closed = self.connection.get(py)?.close_reason();
        closed.map(|closed| ToldClosed(closed).answer(py)).transpose()
    }

    /// Waits until the handshake is complete.
    fn connected(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let connection = self.connection.cloned(py)?;
        begin(py, &self.line, async move { connection.connected().await })
    }

    fn is_early(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.connection.get(py)?.is_early())
    }

    /// Waits until it is known whether the server took early data.
    fn accepted_early(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let connection = self.connection.cloned(py)?;
        begin(py, &self.line, async move { Ok::<_, Closed>(connection.accepted_early().await) })
    }

    fn ping(&self, py: Python<'_>) -> PyResult<()> {
        self.connection.get(py)?.ping();
        Ok(())
    }

    fn stats(&self, py: Python<'_>) -> PyResult<ConnectionStats> {
        Ok((&self.connection.get(py)?.stats()).into())
    }

    fn remote_address(&self, py: Python<'_>) -> PyResult<(String, u16)> {
        let address = self.connection.get(py)?.remote_address();
        Ok((address.ip().to_canonical().to_string(), address.port()))
    }

    fn alpn(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let alpn = self.connection.get(py)?.alpn();
        Ok(alpn.map(|alpn| String::from_utf8_lossy(&alpn).into_owned()))
    }

    fn server_name(&self, py: Python<'_>) -> PyResult<Option<String>> {
        Ok(self.connection.get(py)?.server_name())
    }

    fn peer_fingerprint(&self, py: Python<'_>) -> PyResult<Option<String>> {
        let fingerprint = Peer::of(self.connection.get(py)?).fingerprint();
        Ok(fingerprint.map(|fingerprint| fingerprint.to_string()))
    }

    fn is_client(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.connection.get(py)?.side() == Side::Client)
    }

    fn has_fenced_streams(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.connection.get(py)?.has_fenced_streams())
    }

    fn has_fec(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.connection.get(py)?.has_fec())
    }

    /// Sets how many streams the peer may have open at a time.
    fn set_max_streams(&self, py: Python<'_>, both: bool, most: u64) -> PyResult<()> {
        let dir = if both { Dir::Bi } else { Dir::Uni };
        self.connection.get(py)?.set_max_streams(dir, most);
        Ok(())
    }

    /// Key material that only the two ends share.
    fn export_keying_material<'py>(
        &self,
        py: Python<'py>,
        label: GivenBytes,
        context: GivenBytes,
        length: u16,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let mut key = vec![0; length.into()];
        self.connection.get(py)?.export_keying_material(&label.0, &context.0, &mut key).map_err(bad)?;
        Ok(PyBytes::new(py, &key))
    }
}
