//! QUIC for data that is late when it is lost.
//!
//! Beside the streams of bytes that every QUIC stack has, Quickset carries **messages on fenced streams**:
//! between two fences they are delivered in whatever order they arrive, and none crosses a fence. So a
//! lost packet delays what it held and what depends on it, and nothing else.
//!
//! A server and a client, and messages there and back:
//!
//! ```
//! use bytes::Bytes;
//! use quickset::{ClientConfig, Endpoint, Identity, ServerConfig, Trust};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let identity = Identity::self_signed(["localhost"])?;
//! let trust = Trust::pinned(identity.fingerprint());
//! let server = Endpoint::server("127.0.0.1:0".parse()?, &ServerConfig::new(identity, &["echo/1"])?)?;
//! let address = server.local_addr();
//! tokio::spawn(async move {
//!     while let Some(connection) = server.accept().await {
//!         let (mut back, mut messages) = connection.accept_messages_bi().await?;
//!         while let Some(message) = messages.next().await {
//!             back.send(message?.payload).await?;
//!         }
//!         back.finish()?;
//!         connection.closed().await;
//!     }
//!     Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! });
//!
//! let client = Endpoint::client()?;
//! let connection = client.connect(address, "localhost", &ClientConfig::new(trust, &["echo/1"])?).await?;
//! let (mut screen, mut echo) = connection.open_messages_bi().await?;
//! screen.send(Bytes::from("one rectangle")).await?;
//! screen.send(Bytes::from("another, which may overtake it")).await?;
//! screen.fence();
//! screen.send(Bytes::from("the next update")).await?;
//! screen.finish()?;
//! let mut count = 0;
//! while let Some(message) = echo.next().await {
//!     println!("{} bytes came back", message?.payload.len());
//!     count += 1;
//! }
//! assert_eq!(count, 3);
//! connection.close(0, b"done");
//! client.wait_idle().await;
//! # Ok(())
//! # }
//! ```

mod config;
mod endpoint;
mod fingerprint;
mod identity;
mod trust;

pub use config::{ClientAuth, ClientConfig, ConfigError, ServerConfig};
pub use endpoint::{Endpoint, Peer};
pub use fingerprint::{Fingerprint, ParseFingerprintError};
pub use identity::{Identity, IdentityError};
pub use quickset_net::{
    Closed, ConnectError, Connection, Counters, Deadline, Message, MessageReceiver, MessageSender, Outcome,
    ReadError, ReadToEndError, ReceiveError, RecvStream, SendError, SendStream, Side, SocketConfig, Stats,
    StreamId, Ticket, TransportError, TrySendError, WriteError,
};
#[cfg(feature = "qlog")]
pub use quickset_net::{QlogDir, qlog};
pub use quickset_quic::{Algorithm, AlgorithmError, RetryPolicy, TransportConfig};
pub use quickset_tls::PeerCertificates;
pub use trust::{Trust, TrustError};
