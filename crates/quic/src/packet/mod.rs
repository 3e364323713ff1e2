//! What all who fill packets share: how one is made, the writer of its payload, the tokens that say what that held, and the words
//! by which each says what it wants.
//!
//! It is a leaf: it names no other module of this crate.

mod outgoing;
mod token;
mod want;
mod writer;

pub(crate) use outgoing::{Header, Made, Numbered, Outgoing, Unsealed};
pub(crate) use token::{Channel, Key, Token};
pub(crate) use want::{Phase, View, Want};
pub(crate) use writer::{Packed, StreamFrame, Writer};
