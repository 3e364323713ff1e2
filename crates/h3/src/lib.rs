//! Sans-IO HTTP/3 (RFC 9114): a client and a server on the stream verbs of a QUIC connection.
//!
//! Nothing here waits, reads a clock, draws entropy or opens a socket. A [`Connection`] is given the stream
//! events of a [`Transport`] and the application's verbs, writes to the transport's streams, and tells
//! [`Event`]s. [`OnQuic`] is the transport that is a connection of `quickset-quic`.
//!
//! ```
//! use quickset_base::Time;
//! use quickset_h3::{BodyRead, Config, Connection, Event, OnQuic, Request};
//! use quickset_quic::{self as quic, Side};
//!
//! /// What a client does whenever its QUIC connection has an event; `h3` is there since it is connected.
//! fn on_event(quic: &mut quic::Connection, h3: &mut Option<Connection>, event: quic::Event, now: Time) {
//!     let mut t = OnQuic { connection: quic, now };
//!     match (event, &mut *h3) {
//!         (quic::Event::Connected, None) => {
//!             let mut client = Connection::new(Side::Client, Config::default(), &mut t);
//!             let request = Request::new("GET", "example.com", "/").with("user-agent", "quickset");
//!             client.request(&mut t, &request, true).expect("the server allows a request");
//!             *h3 = Some(client);
//!         }
//!         (quic::Event::Stream(event), Some(h3)) => h3.handle(&mut t, event),
//!         (quic::Event::Datagram(_), Some(h3)) => {
//!             while let Some(data) = t.connection.datagrams().recv() {
//!                 h3.handle_datagram(&mut t, data);
//!             }
//!         }
//!         _ => {}
//!     }
//!     let Some(h3) = h3 else { return };
//!     while let Some(event) = h3.poll_event() {
//!         let id = match event {
//!             Event::Response { id, response } => {
//!                 println!("{} {:?}", response.status, response.fields);
//!                 id
//!             }
//!             Event::Readable(id) => id,
//!             _ => continue,
//!         };
//!         while let Ok(BodyRead::Data(data)) = h3.read(&mut t, id, 64 << 10) {
//!             println!("{} bytes", data.len());
//!         }
//!     }
//! }
//! ```
//!
//! # The room
//!
//! | module | what | source |
//! |---|---|---|
//! | [`qpack`] | field lines to bytes and back; its two tables, its two streams | RFC 9204, RFC 7541 §5 and appendix B |
//! | [`frame`] | frames and settings; readers that take bytes in any cut | RFC 9114 §7, RFC 9218 §7.2 |
//! | [`Request`], [`Response`] | what makes a message, and what makes it malformed | RFC 9114 §4.1 to §4.5, RFC 9220, RFC 9110 §5 |
//! | [`Priority`] | urgency, incremental, which losses are to be repaired, and what else is said | RFC 9218 §4, §5; structured fields, RFC 9651; TUM 2025 |
//! | [`capsule`] | messages on a stream that was a CONNECT | RFC 9297 §3 |
//! | [`Connection`] | streams and their roles, requests, shutdown, datagrams, WebTransport | RFC 9114 §4 to §6, RFC 9297 §2, draft-ietf-webtrans-http3 |
//! | [`Transport`] | what is asked of QUIC | RFC 9000 §2 |
//! | [`ErrorCode`], [`Error`] | what is said of errors | RFC 9114 §8.1, RFC 9204 §6, RFC 9297 §5.2 |
//!
//! Errors have the layers of the house: the peer's fault is an [`Error`] that closes the connection, or an
//! [`Abort`] of one message; the caller's is a [`VerbRefusal`].
//!
//! # What a peer can make us hold
//!
//! The dynamic table of QPACK ([`Config::table`]) and one instruction for it; of each stream one field
//! section ([`Config::max_field_section`]), interim responses as large together, and one chunk of 64 KiB that
//! was read and not asked for; 4 KiB of SETTINGS; [`Config::max_early_priorities`] of a kilobyte, 16
//! datagrams and 16 streams of WebTransport that came before their request; 64 KiB of answers that it does
//! not read. The number of streams is limited by QUIC, and of unidirectional ones without WebTransport by
//! [`Config::max_inlets`]. Content is not held: it waits where flow control counts it.
//!
//! What it can make us do its packets pay for, as far as that is more than their bytes are
//! ([`Transport::charge`]): changes of priority, entries of the table, datagrams of nothing, streams for
//! nobody. What is answered is not charged.
//!
//! # What is not here
//!
//! Server push: a client never allows it, a server never does it. Limits of ours on single sessions of
//! WebTransport, so one at a time is offered; those that a peer sets are kept.

#![forbid(unsafe_code)]

pub mod capsule;
mod connection;
mod error;
mod field;
pub mod frame;
#[cfg(feature = "http")]
pub mod http_types;
mod idle;
mod message;
mod priority;
mod protocols;
pub mod qpack;
pub mod trace;
mod transport;
mod varint;

pub use connection::{Abort, BodyRead, Config, Connection, Event, VerbRefusal, http_code, session_code};
pub use error::{Error, ErrorCode};
pub use field::Field;
pub use frame::Settings;
pub use message::{MalformedMessage, Request, Response};
pub use priority::{Priority, Tolerance, UnspeakableClass};
pub use protocols::UnspeakableProtocol;
/// Where a [`Priority`] can be, and what it weighs there.
pub use quickset_quic::{Class, Weight};
/// Structured fields, of which [`Priority::parameters`] are made.
pub use sfv;
pub use transport::{OnQuic, Transport};

/// What HTTP/3 is called in the TLS handshake (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";
