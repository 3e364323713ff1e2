//! Streams of messages.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use quickset::{
    Closed, Deadline, MessageReceiver, MessageSender, MessageStats, MessageTicket, Outcome, Outcomes,
    ReceiveError, ReceivedMessage, SendError, TicketId,
};

use crate::bell::BellLine;
use crate::bytes_of::GivenBytes;
use crate::config;
use crate::errors::{Raise, bad};
use crate::operation::{Answer, Operation, begin, later};
use crate::parental::Parental;
use crate::slot::Slot;

/// Sends messages.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeMessageSender {
    sender: Slot<MessageSender>,
    line: Arc<BellLine>,
    #[pyo3(get)]
    id: u64,
}

/// Receives messages.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeMessageReceiver {
    receiver: Slot<MessageSource>,
    line: Arc<BellLine>,
    #[pyo3(get)]
    id: u64,
}

/// What becomes of all messages of a stream.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeOutcomes {
    outcomes: Slot<Outcomes>,
    line: Arc<BellLine>,
}

/// A message that was sent.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct Ticket {
    ticket: Parental<Arc<MessageTicket>>,
    line: Arc<BellLine>,
}

/// The name of a message on its stream. Those sent later are greater.
#[pyclass(frozen, eq, ord, hash, skip_from_py_object, module = "quickset._native")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TicketName(TicketId);

/// A message that was received.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct Message {
    /// The bytes that were sent.
    #[pyo3(get)]
    payload: Py<PyBytes>,
    /// The number of the segment between two fences; that of a later one is greater.
    #[pyo3(get)]
    segment: u64,
    blocked: Duration,
}

/// A stream of messages, and an error that comes behind those that were taken.
struct MessageSource {
    receiver: MessageReceiver,
    error: Option<ReceiveError>,
}

impl NativeMessageSender {
    pub(crate) fn new(sender: MessageSender, line: Arc<BellLine>) -> Self {
        let id = sender.id().0;
        Self { sender: Slot::new(sender), line, id }
    }
}

#[pymethods]
impl NativeMessageSender {
    /// Sends a message, which is of use for `deadline` seconds.
    fn send(&self, py: Python<'_>, message: GivenBytes, deadline: Option<f64>) -> PyResult<Py<PyAny>> {
        let deadline = deadline.map(config::seconds).transpose()?;
        let (mut sender, line) = (self.sender.lend(py)?, self.line.clone());
        begin(py, &self.line, async move {
            let sent = match deadline {
                Some(deadline) => sender.send_by(message.0, Deadline::After(deadline)).await,
                None => sender.send(message.0).await,
            };
            sent.map(|ticket| SentMessage { ticket, line })
        })
    }

    /// Sends messages, one after the other. A task that is cancelled has sent those that had room.
    fn send_messages(
        &self,
        py: Python<'_>,
        messages: Vec<GivenBytes>,
        deadline: Option<f64>,
    ) -> PyResult<Py<PyAny>> {
        let deadline = deadline.map(config::seconds).transpose()?;
        let mut sender = self.sender.lend(py)?;
        let deadline = deadline.map(|deadline| Deadline::At(std::time::Instant::now() + deadline));
        begin(py, &self.line, async move {
            for message in messages {
                match deadline {
                    Some(deadline) => sender.send_by(message.0, deadline).await?,
                    None => sender.send(message.0).await?,
                };
            }
            Ok::<_, SendError>(())
        })
    }

    fn fence(&self, py: Python<'_>) -> PyResult<()> {
        self.sender.with(py, MessageSender::fence)
    }

    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.sender.with(py, MessageSender::flush)
    }

    fn set_ordered(&self, py: Python<'_>, ordered: bool) -> PyResult<()> {
        self.sender.with(py, |sender| sender.set_ordered(ordered))
    }

    fn set_resend(&self, py: Python<'_>, resend: bool) -> PyResult<()> {
        self.sender.with(py, |sender| sender.set_resend(resend))
    }

    fn set_urgency(&self, py: Python<'_>, urgency: u8) -> PyResult<()> {
        let urgency = config::urgency(urgency)?;
        self.sender.with(py, |sender| sender.set_urgency(urgency))
    }

    fn set_protection(&self, py: Python<'_>, protection: &str) -> PyResult<()> {
        let protection = config::protection(protection)?;
        self.sender.with(py, |sender| sender.set_protection(&protection))
    }

    fn unsent(&self, py: Python<'_>) -> PyResult<u64> {
        self.sender.with(py, |sender| sender.unsent())
    }

    /// Waits until at most so many bytes are unsent.
    fn drained_to(&self, py: Python<'_>, n: u64) -> PyResult<Py<PyAny>> {
        let mut sender = self.sender.lend(py)?;
        begin(py, &self.line, async move { sender.drained_to(n).await })
    }

    fn outcomes(&self, py: Python<'_>) -> PyResult<NativeOutcomes> {
        let outcomes = self.sender.with(py, |sender| sender.outcomes())?;
        Ok(NativeOutcomes { outcomes: Slot::new(outcomes), line: self.line.clone() })
    }

    /// Messages queued, sent, on time, late, recovered, dropped, abandoned.
    fn stats(&self, py: Python<'_>) -> PyResult<[u64; 7]> {
        let MessageStats { queued, sent, on_time, late, recovered, dropped, abandoned, .. } =
            self.sender.with(py, |sender| sender.stats())?;
        Ok([queued, sent, on_time, late, recovered, dropped, abandoned])
    }

    fn finish(&self, py: Python<'_>) -> PyResult<()> {
        self.sender.with(py, MessageSender::finish)?.map_err(|error| error.raise(py))
    }

    /// Waits until the outcome of each message is known.
    fn finished(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let sender = self.sender.lend(py)?;
        begin(py, &self.line, async move { sender.finished().await })
    }

    fn reset(&self, py: Python<'_>, code: u64) -> PyResult<()> {
        let code = config::code(code)?;
        self.sender.with(py, |sender| sender.reset(code))
    }
}

impl NativeMessageReceiver {
    pub(crate) fn new(receiver: MessageReceiver, line: Arc<BellLine>) -> Self {
        let id = receiver.id().0;
        Self { receiver: Slot::new(MessageSource { receiver, error: None }), line, id }
    }
}

#[pymethods]
impl NativeMessageReceiver {
    /// The next message, or `None` at the end.
    fn read(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut source = self.receiver.lend(py)?;
        begin(py, &self.line, async move { source.next().await })
    }

    /// Those that are there, one to `most`; none at the end.
    fn read_messages(&self, py: Python<'_>, most: usize) -> PyResult<Py<PyAny>> {
        if most == 0 {
            return Err(bad("read at least 1 message"));
        }
        let mut source = self.receiver.lend(py)?;
        begin(py, &self.line, async move {
            let mut all = Vec::new();
            all.extend(source.next().await?);
            while !all.is_empty() && all.len() < most {
                match source.receiver.try_next() {
                    Some(Some(Ok(message))) => all.push(message),
                    Some(Some(Err(error))) => {
                        source.error = Some(error);
                        break;
                    }
                    Some(None) | None => break,
                }
            }
            Ok::<_, ReceiveError>(all)
        })
    }

    fn stop(&self, py: Python<'_>, code: u64) -> PyResult<()> {
        let code = config::code(code)?;
        if let Some(source) = self.receiver.take(py)? {
            source.receiver.stop(code);
        }
        Ok(())
    }
}

impl MessageSource {
    async fn next(&mut self) -> Result<Option<ReceivedMessage>, ReceiveError> {
        match self.error.take() {
            Some(error) => Err(error),
            None => self.receiver.next().await.transpose(),
        }
    }
}

#[pymethods]
impl NativeOutcomes {
    /// The name of a message and what became of it; `None` at the end.
    fn read(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut outcomes = self.outcomes.lend(py)?;
        begin(py, &self.line, async move { Ok::<_, Closed>(ToldOutcome(outcomes.next().await)) })
    }
}

#[pymethods]
impl Ticket {
    #[getter]
    fn name(&self, py: Python<'_>) -> PyResult<TicketName> {
        Ok(TicketName(self.ticket.get(py)?.id()))
    }

    /// Waits until it is known what became of the message.
    fn outcome(&self, py: Python<'_>) -> PyResult<Operation> {
        let ticket = self.ticket.cloned(py)?;
        later(py, &self.line, async move { Ok::<_, Closed>(ticket.outcome().await) })
    }

    fn supersede(&self, py: Python<'_>) -> PyResult<bool> {
        Ok(self.ticket.get(py)?.supersede())
    }
}

#[pymethods]
impl Message {
    /// Seconds for which fences held back the complete message.
    #[getter]
    fn blocked(&self) -> f64 {
        self.blocked.as_secs_f64()
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let len = self.payload.as_bytes(py).len();
        format!("<quickset.Message of {len} bytes in segment {}>", self.segment)
    }
}

/// A message that was sent, for Python as a ticket.
struct SentMessage {
    ticket: MessageTicket,
    line: Arc<BellLine>,
}

/// What became of a message, if there is one more.
struct ToldOutcome(Option<(TicketId, Outcome)>);

fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Delivered => "delivered",
        Outcome::Recovered => "recovered",
        Outcome::Dropped => "dropped",
        _ => "abandoned",
    }
}

fn message(py: Python<'_>, message: ReceivedMessage) -> PyResult<Py<Message>> {
    let blocked = message.blocked();
    let payload = PyBytes::new(py, &message.payload).unbind();
    Py::new(py, Message { payload, segment: message.segment, blocked })
}

impl Answer for SentMessage {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let ticket = Ticket { ticket: Parental::new(Arc::new(self.ticket)), line: self.line };
        Ok(Py::new(py, ticket)?.into_any())
    }
}

impl Answer for ToldOutcome {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let told = self.0.map(|(id, outcome)| (TicketName(id), word(outcome)));
        Ok(told.into_pyobject(py)?.unbind())
    }
}

impl Answer for Outcome {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        Ok(word(self).into_pyobject(py)?.into_any().unbind())
    }
}

impl Answer for Option<ReceivedMessage> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        match self {
            Some(one) => Ok(message(py, one)?.into_any()),
            None => Ok(py.None()),
        }
    }
}

impl Answer for Vec<ReceivedMessage> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let all: PyResult<Vec<_>> = self.into_iter().map(|one| message(py, one)).collect();
        Ok(PyList::new(py, all?)?.into_any().unbind())
    }
}
