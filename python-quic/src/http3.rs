//! HTTP/3: requests and responses, whose content is a stream.

use std::sync::Arc;

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use quickset::Closed;
use quickset::h3::{
    Answer as HttpAnswer, Call, Client, Config, Content, ContentSender, ErrorCode, Field, HttpError, Reply,
    Request, Response, Server,
};

use crate::bell::BellLine;
use crate::bytes_of::{GivenBytes, Joined};
use crate::config;
use crate::connection::NativeConnection;
use crate::errors::{Raise as _, bad};
use crate::operation::{Answer, begin};
use crate::parental::Parental;
use crate::pieces::{PieceReader, PieceStream};
use crate::slot::Slot;
use crate::webtransport::{BegunSession, NativeSessionCall, session_request};

/// A client on a connection.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeHttpClient {
    client: Parental<Client>,
    line: Arc<BellLine>,
}

/// A server on a connection.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeHttpServer {
    server: Slot<Server>,
    line: Arc<BellLine>,
}

/// A request that waits for its answer.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeHttpAnswer {
    /// Empty when there was one.
    answer: Slot<Option<HttpAnswer>>,
    line: Arc<BellLine>,
}

/// A request that is to be answered.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeHttpReply {
    reply: Slot<Reply>,
    line: Arc<BellLine>,
}

/// The content of a message that comes.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeHttpContent {
    content: Slot<PieceReader<Content>>,
    line: Arc<BellLine>,
}

/// The content of a message that is sent.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeHttpSender {
    sender: Slot<ContentSender>,
    line: Arc<BellLine>,
}

/// Names and values as Python gives them.
pub(crate) type GivenFields = Vec<(GivenBytes, GivenBytes)>;

pub(crate) fn fields(given: GivenFields) -> Vec<Field> {
    given.into_iter().map(|(name, value)| Field::new(name.0, value.0)).collect()
}

pub(crate) fn head(status: u16, given: GivenFields) -> Response {
    Response { status, fields: fields(given) }
}

/// What is offered, with sessions of WebTransport or without.
fn configuration(sessions: bool) -> Config {
    Config { webtransport: sessions.into(), ..Config::default() }
}

fn told<'py>(py: Python<'py>, fields: &[Field]) -> PyResult<Bound<'py, PyList>> {
    let pair =
        |field: &Field| PyTuple::new(py, [PyBytes::new(py, &field.name), PyBytes::new(py, &field.value)]);
    let pairs: PyResult<Vec<_>> = fields.iter().map(pair).collect();
    PyList::new(py, pairs?)
}

#[pymethods]
impl NativeHttpClient {
    #[new]
    fn new(py: Python<'_>, connection: &NativeConnection, sessions: bool) -> PyResult<Self> {
        let client = Client::new(connection.connection(py)?, configuration(sessions)).map_err(bad)?;
        Ok(Self { client: Parental::new(client), line: connection.line() })
    }

    /// Makes a request; with `content` there is content to be sent.
    fn request(
        &self,
        py: Python<'_>,
        target: (GivenBytes, GivenBytes, GivenBytes),
        given: GivenFields,
        content: bool,
    ) -> PyResult<Py<PyAny>> {
        let (method, authority, path) = target;
        let mut request = Request::new(method.0, authority.0, path.0);
        request.fields = fields(given);
        let (client, line) = (self.client.cloned(py)?, self.line.clone());
        begin(py, &self.line, async move {
            let (sender, answer) = if content {
                let (sender, answer) = client.request(&request).await?;
                (Some(sender), answer)
            } else {
                (None, client.ask(&request).await?)
            };
            Ok::<_, HttpError>(MadeRequest { sender, answer, line })
        })
    }

    /// Begins a session of WebTransport.
    fn session(
        &self,
        py: Python<'_>,
        target: (GivenBytes, GivenBytes),
        given: GivenFields,
        protocols: Vec<String>,
    ) -> PyResult<Py<PyAny>> {
        let (authority, path) = target;
        let request = session_request(authority.0, path.0, given, &protocols)?;
        let (client, line) = (self.client.cloned(py)?, self.line.clone());
        begin(py, &self.line, async move {
            client.session(&request).await.map(|session| BegunSession { session, line })
        })
    }

    fn is_going_away(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.client.get(py)?.is_going_away())
    }

    /// Waits for the requests under way and ends the connection.
    fn shutdown(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let client = self.client.cloned(py)?;
        begin(py, &self.line, async move {
            client.shutdown().await;
            Ok::<_, Closed>(())
        })
    }
}

#[pymethods]
impl NativeHttpServer {
    #[new]
    fn new(py: Python<'_>, connection: &NativeConnection, sessions: bool) -> PyResult<Self> {
        let server = Server::new(connection.connection(py)?, configuration(sessions)).map_err(bad)?;
        Ok(Self { server: Slot::new(server), line: connection.line() })
    }

    /// The next request: its head (method, scheme, authority, path, fields), its content and the reply to it,
    /// and the call for a session if it is one, which then has neither content nor reply. `None` at the end.
    fn accept(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (mut server, line) = (self.server.lend(py)?, self.line.clone());
        begin(py, &self.line, async move {
            Ok::<_, Closed>(server.accept().await.map(|call| TakenCall { call, line }))
        })
    }

    fn go_away(&self, py: Python<'_>) -> PyResult<()> {
        self.server.with(py, |server| server.go_away())
    }
}

#[pymethods]
impl NativeHttpAnswer {
    /// Status, fields and content.
    fn response(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (mut answer, line) = (self.answer.lend(py)?, self.line.clone());
        begin(py, &self.line, async move {
            let Some(waits) = &mut *answer else {
                return Err(HttpFailure::Taken);
            };
            // Interim responses tell nothing of this one.
            while waits.interim().await?.is_some() {}
            let Some(answer) = answer.take() else { return Err(HttpFailure::Taken) };
            // It is there: nothing is waited for from here on.
            let (response, content) = answer.response().await?;
            Ok(CameResponse { response, content, line })
        })
    }
}

#[pymethods]
impl NativeHttpReply {
    /// Sends the head of the response.
    fn respond(&self, py: Python<'_>, status: u16, given: GivenFields) -> PyResult<NativeHttpSender> {
        let reply = self.take(py)?;
        let sender = reply.respond(&head(status, given)).map_err(|error| error.raise(py))?;
        Ok(NativeHttpSender { sender: Slot::new(sender), line: self.line.clone() })
    }

    /// Sends a whole response.
    fn answer(
        &self,
        py: Python<'_>,
        status: u16,
        given: GivenFields,
        content: GivenBytes,
    ) -> PyResult<Py<PyAny>> {
        let reply = self.take(py)?;
        begin(py, &self.line, async move { reply.answer(&head(status, given), content.0).await })
    }

    /// Sends an interim response.
    fn interim(&self, py: Python<'_>, status: u16, given: GivenFields) -> PyResult<()> {
        self.reply.with(py, |reply| reply.interim(&head(status, given)))?.map_err(|error| error.raise(py))
    }

    /// Fails the request, unless it was answered.
    fn fail(&self, py: Python<'_>) -> PyResult<()> {
        self.reply.take(py).map(drop)
    }

    /// Says that nothing was done with the request.
    fn reject(&self, py: Python<'_>) -> PyResult<()> {
        self.take(py)?.reject();
        Ok(())
    }
}

impl NativeHttpReply {
    fn take(&self, py: Python<'_>) -> PyResult<Reply> {
        self.reply.take(py)?.ok_or_else(|| HttpFailure::Answered.raise(py))
    }
}

#[pymethods]
impl NativeHttpContent {
    /// Reads what is there, 1 byte to `most`; no bytes at the end.
    fn read(&self, py: Python<'_>, most: usize) -> PyResult<Py<PyAny>> {
        if most == 0 {
            return Err(bad("read at least 1 byte"));
        }
        let mut source = self.content.lend(py)?;
        begin(py, &self.line, async move { source.read(most).await.map(Joined) })
    }

    /// The fields behind the content, once that was read to its end.
    fn trailers<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let trailers = self.content.with(py, |source| source.stream.trailers().to_vec())?;
        told(py, &trailers)
    }

    fn stop(&self, py: Python<'_>, code: u64) -> PyResult<()> {
        let code = ErrorCode(config::code(code)?);
        if let Some(source) = self.content.take(py)? {
            source.stream.stop(code);
        }
        Ok(())
    }
}

impl NativeHttpContent {
    fn new(content: Content, line: Arc<BellLine>) -> Self {
        Self { content: Slot::new(PieceReader::new(content)), line }
    }
}

impl PieceStream for Content {
    type Error = HttpError;

    fn next_piece(&mut self) -> impl Future<Output = Result<Option<Bytes>, HttpError>> + Send {
        self.next()
    }
}

#[pymethods]
impl NativeHttpSender {
    /// Sends some more of the content. If it is cancelled, a part may have been sent.
    fn send(&self, py: Python<'_>, data: GivenBytes) -> PyResult<Py<PyAny>> {
        let mut sender = self.sender.lend(py)?;
        begin(py, &self.line, async move { sender.send(data.0).await })
    }

    /// Ends the content, with these fields behind it.
    fn finish(&self, py: Python<'_>, trailers: GivenFields) -> PyResult<()> {
        let sender = self.sender.take(py)?.ok_or_else(|| HttpFailure::Answered.raise(py))?;
        let ended = if trailers.is_empty() { sender.finish() } else { sender.trailers(&fields(trailers)) };
        ended.map_err(|error| error.raise(py))
    }

    /// Gives the content up.
    fn cancel(&self, py: Python<'_>, code: u64) -> PyResult<()> {
        let code = ErrorCode(config::code(code)?);
        if let Some(sender) = self.sender.take(py)? {
            sender.cancel(code);
        }
        Ok(())
    }
}

/// A request that was made.
struct MadeRequest {
    sender: Option<ContentSender>,
    answer: HttpAnswer,
    line: Arc<BellLine>,
}

/// A request that came.
struct TakenCall {
    call: Call,
    line: Arc<BellLine>,
}

/// A response that came.
struct CameResponse {
    response: Response,
    content: Content,
    line: Arc<BellLine>,
}

/// Why there is no response here.
pub(crate) enum HttpFailure {
    Http(HttpError),
    /// It was asked for before.
    Taken,
    /// It was given before.
    Answered,
}

impl From<HttpError> for HttpFailure {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

impl Answer for MadeRequest {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self { sender, answer, line } = self;
        let sender = sender.map(|sender| NativeHttpSender { sender: Slot::new(sender), line: line.clone() });
        let answer = NativeHttpAnswer { answer: Slot::new(Some(answer)), line };
        Ok((sender, answer).into_pyobject(py)?.into_any().unbind())
    }
}

impl Answer for Option<TakenCall> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Some(TakenCall { call, line }) = self else { return Ok(py.None()) };
        let is_session = call.is_session();
        let request = &call.request;
        let text = |bytes: &Option<Bytes>| PyBytes::new(py, bytes.as_deref().unwrap_or_default());
        let head = (
            PyBytes::new(py, &request.method),
            text(&request.scheme),
            text(&request.authority),
            text(&request.path),
            told(py, &request.fields)?,
        );
        if is_session {
            let call = NativeSessionCall::new(call, line);
            return Ok((head, py.None(), py.None(), call).into_pyobject(py)?.into_any().unbind());
        }
        let Call { content, reply, .. } = call;
        let content = NativeHttpContent::new(content, line.clone());
        let reply = NativeHttpReply { reply: Slot::new(reply), line };
        Ok((head, content, reply, py.None()).into_pyobject(py)?.into_any().unbind())
    }
}

impl Answer for CameResponse {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let Self { response, content, line } = self;
        let fields = told(py, &response.fields)?;
        let content = NativeHttpContent::new(content, line);
        Ok((response.status, fields, content).into_pyobject(py)?.into_any().unbind())
    }
}
