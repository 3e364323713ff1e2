//! VNC across a lossy path: RFB to fenced streams and back.

#![forbid(unsafe_code)]

pub mod message;
pub mod trust;
