//! Where traces go, as an application says it.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quickset_base::Time;
use quickset_base::number::Unsigned as _;
use quickset_wire::{ConnectionId, Side};

/// Where the traces of connections go: part of the [`TransportConfig`](crate::TransportConfig).
pub trait Sinks: fmt::Debug + Send + Sync {
    /// A connection begins. `None`: it leaves no trace.
    fn open(&self, subject: &Subject) -> Option<Output>;
}

/// The connection that a trace is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Which of its ends.
    pub side: Side,
    /// The destination of the client's first packet: the same at both ends, and what traces are named by.
    pub original_dcid: ConnectionId,
    /// When the connection begins, on its own clock.
    pub now: Time,
}

/// Where a trace is written to.
#[expect(missing_debug_implementations, reason = "a writer has nothing to show")]
pub struct Output {
    /// Takes one record a call, a few hundred bytes, so that a file wants a buffer. It is flushed every
    /// second or so, before long sleeps and at the end. After an error it is not called again.
    pub writer: Box<dyn Write + Send>,
    /// The time of day when the connection began, in milliseconds since 1970; times in the trace count from
    /// it.
    pub reference_time_ms: f64,
}

/// Keeps traces in memory, for tests and simulations. Clones share what they keep.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    traces: Arc<Mutex<Vec<(Subject, SharedSink)>>>,
}

/// A trace in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenTrace {
    /// Of which connection.
    pub subject: Subject,
    /// The records so far, as a file would hold them.
    pub text: String,
}

impl Memory {
    /// Keeps nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The traces so far, in the order in which the connections began.
    pub fn traces(&self) -> Vec<WrittenTrace> {
        let text = |shared: &SharedSink| String::from_utf8_lossy(&lock(&shared.0)).into_owned();
        lock(&self.traces)
            .iter()
            .map(|(subject, shared)| WrittenTrace { subject: *subject, text: text(shared) })
            .collect()
    }
}

impl Sinks for Memory {
    /// Times of day are those of the simulation, from its beginning.
    fn open(&self, subject: &Subject) -> Option<Output> {
        let shared = SharedSink::default();
        lock(&self.traces).push((*subject, shared.clone()));
        let reference_time_ms = subject.now.as_nanos().approx() / 1e6;
        Some(Output { writer: Box::new(shared), reference_time_ms })
    }
}

#[derive(Clone, Debug, Default)]
struct SharedSink(Arc<Mutex<Vec<u8>>>);

impl Write for SharedSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        lock(&self.0).extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
