//! The C interface of Quickset. `include/quickset.h` is made of what is here, and says what its callers have
//! to know; README.md tells how to build, link and use it.
//!
//! *In:* calls from C, on any thread. *Out:* statuses, and events behind a descriptor. Each endpoint has a
//! thread of its own that drives its socket. Calls act on connections directly, under their locks: a call
//! polls a future of `quickset` once, with the waker of an `Interest`, and returns
//! [`QS_WOULD_BLOCK`], or waits on its own thread until that waker is called.
//!
//! Invariants: no pointer of C's is kept beyond a call; no panic leaves one; no handle is ever given twice;
//! the library calls nothing of the application's, so that it cannot be entered from within itself; no lock
//! of the table or of the queue is held while others are taken, and none at all while a call waits.

#![expect(unsafe_code, reason = "the border to C: exported names, and memory that C vouches for")]

mod border;
mod close;
mod config;
mod connection;
mod datagrams;
mod doorbell;
mod endpoint;
mod events;
mod messages;
mod patience;
mod pending;

mod stats;
mod status;
mod stream;
mod table;
mod wait;

pub use close::*;
pub use config::*;
pub use connection::*;
pub use datagrams::*;
pub use endpoint::*;
pub use events::*;
pub use messages::*;
pub use stats::*;
pub use status::*;
pub use stream::*;
pub use table::*;
