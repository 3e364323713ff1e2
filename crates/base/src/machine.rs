use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::{Batch, Datagram, Time};

/// Something that is driven from outside: it never waits, reads no clock and opens no socket.
///
/// The protocol between a machine and its driver:
///
/// 1. `now` never goes back from one call to the next.
/// 2. Received datagrams are handed over with [`handle`](Self::handle), a whole batch at a time.
/// 3. After each `handle`, and after each call of the machine's own verbs, [`poll`](Self::poll) is
///    called until it returns [`Poll::Sleep`]. On [`Poll::Send`] the batch is sent and cleared; on
///    [`Poll::Event`] the machine has something to tell by its own verbs.
/// 4. When the time of the last `Sleep` is reached, `handle` is called with [`Input::Timer`]. A timer
///    may be late, and a spurious one does no harm.
/// 5. `poll` with nothing new is O(1).
pub trait Machine {
    /// Takes a batch of received datagrams, or the news that a timer is due.
    fn handle(&mut self, now: Time, input: Input<'_>);

    /// Asks for the next thing to do. `out` is empty when called, and written to only for [`Poll::Send`].
    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll;
}

impl<M: Machine + ?Sized> Machine for Box<M> {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        (**self).handle(now, input);
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        (**self).poll(now, out)
    }
}

/// What a [`Machine`] is given.
#[derive(Debug)]
pub enum Input<'a> {
    /// What one receive call returned. The machine drains the vector; the driver uses it again.
    Received(&'a mut Vec<Datagram>),
    /// The time that the last [`Poll::Sleep`] asked for has come.
    Timer,
}

/// What a [`Machine`] wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// The batch holds datagrams to send.
    Send,
    /// There is an event to collect.
    Event,
    /// Nothing to do before the given time, or until input if there is none; the reason is for logs.
    Sleep(Option<Time>, Reason),
}

/// Why a [`Machine`] sleeps, or what its next timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Nothing is under way.
    Idle,
    /// An acknowledgement is owed (RFC 9000 §13.2.1).
    AckDelay,
    /// Packets may be declared lost by time (RFC 9002 §6.1.2).
    LossTime,
    /// A probe timeout (RFC 9002 §6.2).
    Pto,
    /// The pacer holds packets back (RFC 9002 §7.7).
    Pacing,
    /// The idle timeout (RFC 9000 §10.1).
    IdleTimeout,
    /// A keep-alive is due.
    KeepAlive,
    /// The closing or draining period ends (RFC 9000 §10.2).
    Close,
    /// Old keys are dropped, or a key update may be retried (RFC 9001 §6).
    Keys,
    /// A deadline of a message.
    Deadline,
    /// Repair symbols may be due, or lost symbols are waited for no longer.
    Repair,
    /// A path is validated (RFC 9000 §8.2).
    PathValidation,
    /// The handshake takes too long.
    Handshake,
    /// The application's own timer.
    Application,
}
