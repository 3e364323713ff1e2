use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use quickset_quic::EarlyFate;

use crate::connection::Connection;
use crate::error::ConnectError;
use crate::wakers::TaskId;

/// A connection that begins: a future of the [`Connection`], once the server has proven who it is.
///
/// The first packet is on its way, polled or not. Dropping it gives the attempt up.
#[derive(Debug)]
#[must_use = "dropping it gives the attempt up"]
pub struct Connecting {
    /// Empty when it was ready.
    begun: Option<Result<Connection, ConnectError>>,
    /// Among those who wait for the handshake. Nobody needs to leave there: it goes with the connection.
    place: TaskId,
}

impl Connecting {
    pub(crate) fn new(begun: Result<Connection, ConnectError>) -> Self {
        Self { begun: Some(begun), place: TaskId::default() }
    }

    /// The connection at once, to be written to before the server has answered: early data, a round trip
    /// sooner. Its streams are limited as they were in the connection that is resumed.
    ///
    /// **An attacker can send it again**, as often as it likes to servers that do not take care, so it must
    /// do no harm when it is done twice. Who the server is was proven in the earlier connection;
    /// [`Connection::accepted_early`] tells whether it took the data. If not, everything is sent again behind
    /// the handshake, unless [`Refused`](quickset_quic::Refused) says otherwise.
    ///
    /// # Errors
    /// Itself, to be awaited, when there is no early data: the configuration does not want it, or there is no
    /// earlier connection to resume.
    pub fn into_early(mut self) -> Result<Connection, Self> {
        match self.begun.take() {
            // The server may have answered meanwhile: what is begun early stays so.
            Some(Ok(connection)) if connection.early_fate() != EarlyFate::None => Ok(connection),
            begun => Err(Self { begun, place: self.place }),
        }
    }
}

impl Future for Connecting {
    type Output = Result<Connection, ConnectError>;

    /// # Panics
    /// Behind the end.
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { begun, place } = &mut *self;
        let connected = match begun.as_ref().expect("it was ready, and is not polled again") {
            Ok(connection) => ready!(connection.poll_connected(place, cx)),
            Err(_) => Ok(()),
        };
        let begun = self.begun.take().expect("it was there a moment ago");
        Poll::Ready(begun.and_then(|connection| match connected {
            Ok(()) => Ok(connection),
            Err(closed) => Err(ConnectError::Failed(closed)),
        }))
    }
}
