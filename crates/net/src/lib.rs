//! The driver of Quickset: sockets, timers, and handles of connections and streams to await.
//!
//! An [`Endpoint`] is a socket with a task that drives it. Protocol logic is not here: it is in
//! `quickset-quic`, whose connections this crate feeds with datagrams and time. Applications use the
//! `quickset` crate, which adds TLS to what is re-exported from here.
//!
//! What is fast about it, and has to stay so: received buffers go to the connections as they are and come
//! back to a pool by themselves; datagrams for the same connection are handed over together; handles act on
//! the connection directly, under its lock, and no channel is between them and the driver; what a connection
//! sends is written into one buffer and leaves by one system call for up to 64 datagrams; the clock is
//! read, and tasks are woken, once a turn.
//!
#![cfg_attr(feature = "tokio", doc = "```")]
#![cfg_attr(not(feature = "tokio"), doc = "```ignore")]
//! # use std::sync::Arc;
//! # use quickset_quic::null::{NullClient, NullSecrets, NullServer};
//! use quickset_net::Endpoint;
//! use quickset_quic::{ClientConfig, EndpointConfig, ServerConfig};
//!
//! # fn config() -> (EndpointConfig, ServerConfig, ClientConfig) {
//! #     let crypto = Arc::new(NullSecrets(1));
//! #     let endpoint = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 1 };
//! #     let server = ServerConfig {
//! #         crypto: Arc::new(NullServer::new(&[b"hello"])),
//! #         transport: Arc::default(),
//! #         max_connections: 10,
//! #         retry: quickset_quic::RetryPolicy::Never,
//! #         retry_token_lifetime: std::time::Duration::from_secs(1),
//! #         gate: None,
//! #         token_lifetime: std::time::Duration::from_secs(1),
//! #     };
//! #     let crypto = Arc::new(NullClient::new(&[b"hello"]));
//! #     (endpoint, server, ClientConfig { crypto, transport: Arc::default() })
//! # }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // The configurations hold the TLS side, which the `quickset` crate knows how to make.
//! let (endpoint, server, client) = config();
//! let server = Endpoint::server("127.0.0.1:0".parse()?, endpoint.clone(), server)?;
//! let address = server.local_addr();
//! let greeting = tokio::spawn(async move {
//!     let connection = server.accept().await.ok_or("closed")?;
//!     let greeting = connection.accept_uni().await?.read_to_end(1000).await?;
//!     connection.close(0, b"goodbye");
//!     server.wait_idle().await;
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(greeting)
//! });
//!
//! let connection = Endpoint::client(endpoint)?.connect(address, "localhost", &client).await?;
//! let mut stream = connection.open_uni().await?;
//! stream.write_all(b"hello").await?;
//! stream.finish()?;
//! println!("{}", connection.closed().await);
//! assert_eq!(greeting.await?.unwrap(), b"hello");
//! # Ok(())
//! # }
//! ```
//!
//! That was with tokio, a default feature. Any other [`Runtime`] drives an endpoint as well, and any other
//! [`DatagramSocket`] carries it: [`Endpoint::over`] takes both. Without the feature nothing of tokio is built;
//! what goes then are the constructors that look for a runtime by themselves, `TokioRuntime`, and streams as
//! tokio's readers and writers.
//!
//! Below this crate nothing reads a clock or draws entropy; here it happens in one place each (`line::Clock`
//! and `Endpoint::over`).

mod budget;
mod calls;
mod census;
mod connecting;
mod connection;
mod datagrams;
mod driver;
mod echoes;
mod endpoint;
mod ensemble;
mod error;
#[cfg(target_os = "linux")]
mod errors;
mod heavy;
mod hub;
mod layer;
mod layered;
mod line;
mod lobby;
mod messages;
mod moves;
mod outcomes;
mod outlet;
mod pool;
mod port;
mod queue;
mod received;
mod recv;
mod refusal;
mod reliability;
mod runtime;
mod send;
mod shards;
mod shared;
mod slots;
mod socket;
mod steer;
mod tickets;
mod timers;
#[cfg(feature = "tokio")]
mod tokio_io;
#[cfg(feature = "tokio")]
mod tokio_runtime;
#[cfg(feature = "qlog")]
mod trace;
mod udp;
mod unordered;
mod waiting;
mod wakers;

pub use calls::CallSizes;
pub use census::{ConnectionTotals, EndpointStats};
pub use connecting::Connecting;
pub use connection::{Connection, Moves};
pub use datagrams::{DatagramOptions, SentDatagram};
pub use endpoint::Endpoint;
pub use error::{
    ConnectError, DatagramError, ExportError, ReadError, ReadExactError, ReadToEndError, ReceiveError,
    SendError, TryDatagramError, TrySendError, WriteError,
};
pub use layer::{Layer, LayerClock, LayerTurn};
pub use layered::{LayerTaken, Layered};
pub use messages::{Deadline, MessageSender, MessageTicket};
pub use moves::Move;
pub use outcomes::Outcomes;
pub use quickset_base::{AddressPair, Batch, Ecn, Time};
#[cfg(feature = "qlog")]
pub use quickset_quic::qlog;
pub use quickset_quic::{
    Class, ClassError, Closed, Counters, DatagramOutcome, DatagramStats, FecStats, Goal, MessageStats,
    MoveError, Obstacle, Outcome, Priority, Protection, ProtectionError, ResetAtError, Side, Stats, StreamId,
    Ticket as TicketId, TransportError, Version, Weight, WhenFull,
};
pub use received::{MessageReceiver, ReceivedMessage};
pub use recv::RecvStream;
pub use reliability::Reliability;
pub use runtime::{Runtime, RuntimeTimer, SocketReadiness, SocketWatch};
pub use send::SendStream;
pub use socket::{
    DatagramSocket, ReceiveBuffers, ReceivedCount, ReceivedMeta, SocketConfig, UndeliveredDatagram,
    UnsentBatch,
};
#[cfg(feature = "tokio")]
pub use tokio_runtime::TokioRuntime;
#[cfg(feature = "qlog")]
pub use trace::QlogDir;
pub use udp::SystemSocket;
pub use unordered::UnorderedStream;
