//! The module `quickset._native`: endpoints, connections and streams for asyncio. The package's Python files
//! make the public classes of these and have their documentation.
//!
//! How the two worlds meet:
//!
//! * One thread of the process, without Python, drives all endpoints ([`driver`]).
//! * A call of Python polls its future at once, on the thread of the event loop. Most find what they want and
//!   return it. The rest become an [`Operation`](operation::Operation), which the task awaits.
//! * When such a future can go on, its waker puts it into the queue of its event loop and rings the loop's
//!   bell ([`bell`]), if it does not ring yet. The loop then continues all that are in the queue, with one
//!   wake-up for many. No waker ever takes the interpreter's lock, so that the driver never waits for Python.
//! * A future hands its result out in the very step in which its task takes it. So a task that is cancelled
//!   loses the waiting and no data.

mod bell;
mod bytes_of;
mod config;
mod connection;
mod driver;
mod endpoint;
mod errors;
mod http3;
mod messages;
mod operation;
mod parental;
mod pieces;
mod slot;
mod stats;
mod streams;
mod webtransport;

use pyo3::prelude::*;

#[pymodule]
mod _native {
    #[pymodule_export]
    use crate::bell::EventBell;
    #[pymodule_export]
    use crate::config::{NativeIdentity, check_protection};
    #[pymodule_export]
    use crate::connection::NativeConnection;
    #[pymodule_export]
    use crate::driver::{farewell, forked};
    #[pymodule_export]
    use crate::endpoint::{NativeServer, NativeTickets, connect, serve};
    #[pymodule_export]
    use crate::http3::{
        NativeHttpAnswer, NativeHttpClient, NativeHttpContent, NativeHttpReply, NativeHttpSender,
        NativeHttpServer,
    };
    #[pymodule_export]
    use crate::messages::{
        Message, NativeMessageReceiver, NativeMessageSender, NativeOutcomes, Ticket, TicketName,
    };
    #[pymodule_export]
    use crate::operation::Operation;
    #[pymodule_export]
    use crate::stats::ConnectionStats;
    #[pymodule_export]
    use crate::streams::{NativeReader, NativeWriter};
    #[pymodule_export]
    use crate::webtransport::{NativeSession, NativeSessionCall, NativeSessionReader, NativeSessionWriter};

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
