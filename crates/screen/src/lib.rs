//! A screen in messages that each fit one packet: what is drawn becomes messages, and messages a screen.
//!
//! [`sender::ScreenSender`] keeps a copy of the screen, and encodes what has changed when the transport has
//! room; [`receiver::ScreenReceiver`] decodes it. Between them each message can be decoded without any other,
//! and says by fences what it must not overtake, so that a transport that delivers out of order delays a
//! rectangle and not the screen. [`message`] is what both sides say besides: `spec/desktop.md`. Nothing here
//! opens a socket, reads a clock or draws a random number.
//!
//! Without the default feature `encode` there is the receiving half alone. It is written in Rust throughout,
//! and so goes to WebAssembly.

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "numbers in tests are small, or cut on purpose"
    )
)]

mod codec;
pub mod message;
mod order;
pub mod receiver;
pub mod recording;
#[cfg(feature = "encode")]
pub mod sender;
pub mod sound;
pub mod visit;

pub use codec::ItemKind;
