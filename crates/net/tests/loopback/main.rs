//! Real sockets on the loopback, tokio, and the null session: what the driver and the handles promise.

mod ends;
mod streams;
