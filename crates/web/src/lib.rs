//! Messages with fences between them, and repair of those that are lost, in the datagrams of WebTransport.
//!
//! A page in a browser has streams, which hold back everything behind a loss, and datagrams, of which nobody
//! knows what came before what. This is what lies between: each message is a datagram that says how far back
//! the last fence lies, and is delivered as soon as all before that fence is. What is lost is computed from
//! repair datagrams, or sent again. [`FencedSender`] and [`FencedReceiver`] are the two halves; neither opens
//! a socket or reads a clock. The format is `spec/web.md`.
//!
//! ```
//! use quickset_base::{Duration, Time};
//! use quickset_web::{FencedReceiver, FencedSender, SenderOptions};
//!
//! let (mut sender, mut receiver) = (FencedSender::new(SenderOptions::default()), FencedReceiver::new());
//! sender.message("a window".into(), true);
//! sender.message("another".into(), true);
//! sender.fence();
//! sender.message("what was drawn over both".into(), true);
//! sender.repair(1);
//!
//! // Three messages and a repair; the first message is lost.
//! let now = Time::ZERO;
//! let datagrams: Vec<_> = std::iter::from_fn(|| sender.poll(now)).collect();
//! receiver.receive(now, &datagrams[1])?;
//! assert_eq!(receiver.next().as_deref(), Some(&b"another"[..]));
//! receiver.receive(now, &datagrams[2])?;
//! assert_eq!(receiver.next(), None, "something is missing before the fence");
//! receiver.receive(now, &datagrams[3])?;
//! assert_eq!(receiver.next().as_deref(), Some(&b"a window"[..]), "computed");
//! assert_eq!(receiver.next().as_deref(), Some(&b"what was drawn over both"[..]));
//!
//! let report = receiver.report(now + Duration::from_millis(10)).expect("one is due");
//! sender.report(now + Duration::from_millis(20), &report)?;
//! assert_eq!(sender.next_outcome(), Some((0, true)));
//! # Ok::<(), quickset_web::DatagramFault>(())
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")
)]

mod format;
mod receiver;
mod sender;
#[cfg(test)]
mod tests;
#[cfg(feature = "wasm")]
#[cfg_attr(docsrs, doc(cfg(feature = "wasm")))]
pub mod wasm;

pub use format::DatagramFault;
pub use receiver::{FencedReceiver, FencedReceiverStats};
pub use sender::{FencedSender, FencedSenderStats, MessageLoss, SenderOptions};
