//! VNC across a lossy path: RFB to fenced streams and back.

#![forbid(unsafe_code)]

mod codec;
pub mod message;
mod order;
pub mod receiver;
pub mod sender;
pub mod trust;
