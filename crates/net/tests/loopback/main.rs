//! Real sockets on the loopback, tokio, and the null session: what the driver and the handles promise.

mod datagrams;
mod ecn;
mod endpoints;
mod ends;
mod fec;
mod lossy;
mod messages;
mod moving;
mod mtu;
mod streams;
mod waiting;
