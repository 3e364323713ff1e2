//! Protocols above a connection that are machines themselves, like HTTP/3.
//!
//! A layer is told what happens to streams within the driver's turn, and its handles act on it and on the
//! connection under the one lock that there is. So no task and no channel is between a request and its
//! packets.

use std::any::Any;
use std::task::Waker;

use quickset_base::Time;
use quickset_quic::{self as quic, StreamEvent};

use crate::line::Clock;

/// A protocol that owns the streams and datagrams of a connection.
///
/// It waits for nothing and takes no lock: it is called with the connection locked.
pub trait Layer: Send + 'static {
    /// Something happened to a stream, or streams.
    fn on_stream(&mut self, turn: &mut LayerTurn<'_>, event: StreamEvent);

    /// All that the connection had to tell for now was told: what was put off until then.
    fn on_told(&mut self, turn: &mut LayerTurn<'_>) {
        let _ = turn;
    }

    /// Datagrams came: [`next_datagram`](quic::Datagrams::recv).
    fn on_datagrams(&mut self, turn: &mut LayerTurn<'_>);

    /// The connection is over; what came before can still be read.
    fn on_closed(&mut self, turn: &mut LayerTurn<'_>);

    /// The code by which a connection ends that nobody closed with another: its handles are gone, or its
    /// endpoint shuts down.
    fn no_error(&self) -> u64 {
        0
    }
}

/// What a layer acts on.
#[derive(Debug)]
pub struct LayerTurn<'a> {
    /// The connection. It is polled after this.
    pub connection: &'a mut quic::Connection,
    /// The time.
    pub clock: LayerClock<'a>,
    /// Tasks to wake once no lock is held.
    pub woken: &'a mut Vec<Waker>,
}

/// What a layer reads the time from: it is looked at only when somebody asks.
#[derive(Clone, Copy, Debug)]
pub struct LayerClock<'a>(ClockSource<'a>);

#[derive(Clone, Copy, Debug)]
enum ClockSource<'a> {
    Read(Time),
    Unread(&'a Clock),
}

impl<'a> LayerClock<'a> {
    /// One that was read.
    pub(crate) const fn at(now: Time) -> Self {
        Self(ClockSource::Read(now))
    }

    pub(crate) const fn of(clock: &'a Clock) -> Self {
        Self(ClockSource::Unread(clock))
    }

    /// The time now.
    pub fn now(self) -> Time {
        match self.0 {
            ClockSource::Read(now) => now,
            ClockSource::Unread(clock) => clock.now(),
        }
    }
}

impl From<LayerClock<'_>> for Time {
    fn from(clock: LayerClock<'_>) -> Self {
        clock.now()
    }
}

/// A layer whose type the lock does not know.
pub(crate) trait AnyLayer: Send {
    fn layer(&mut self) -> &mut dyn Layer;
    fn any(&mut self) -> &mut dyn Any;
}

impl<L: Layer> AnyLayer for L {
    fn layer(&mut self) -> &mut dyn Layer {
        self
    }

    fn any(&mut self) -> &mut dyn Any {
        self
    }
}
