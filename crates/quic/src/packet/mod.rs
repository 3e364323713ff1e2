//! What all who fill packets share: the writer of a payload, the tokens that say what it held, and the words by which each
//! says what it wants.
//!
//! It is a leaf: it names no other module of this crate.

mod token;
mod want;
mod writer;

pub(crate) use token::{Channel, Key, Token};
pub(crate) use want::{Phase, View, Want};
pub(crate) use writer::{Packed, StreamFrame, Writer};
