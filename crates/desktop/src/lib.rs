//! VNC across a lossy path: RFB to fenced streams and back.
//!
//! Two gateways stand between an unmodified VNC server and unmodified viewers. [`serve::ServeGateway`] is a
//! viewer of the VNC server and sends what changes as small messages that each fit one packet and wait for no
//! more than they depend on; [`view::ViewGateway`] is a VNC server to the viewers at the other end. Between
//! them is QUIC with fenced streams: `spec/desktop.md`. [`sender::ScreenSender`] and
//! [`receiver::ScreenReceiver`], of the crate `quickset-screen`, are the two halves without sockets,
//! [`trust`] is who may look, [`record`] what was seen.
//!
//! ```no_run
//! use quickset_desktop::message::{ScreenOrder, Permissions};
//! use quickset_desktop::serve::{DesktopConfig, ServeGateway, ServeConfig};
//! use quickset_desktop::trust::{GatewayFolder, ClientGate};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = GatewayFolder::standard()?;
//! let identity = folder.server_identity()?;
//! let (gate, token) = ClientGate::for_server(identity.fingerprint(), folder.authorized()?, None)?;
//! let serve = ServeGateway::start(ServeConfig {
//!     desktops: vec![DesktopConfig::at("127.0.0.1:5900")],
//!     listen: "[::]:4433".parse()?,
//!     sockets: 0,
//!     identity,
//!     gate,
//!     order: ScreenOrder::Fenced,
//!     quality: Default::default(),
//!     permissions: Permissions::ALL,
//!     max_viewers: 16,
//!     memory: None,
//!     pages: None,
//!     sound: None,
//!     link: Default::default(),
//! })?;
//! println!("listening on {} {}", serve.local_addr(), serve.fingerprint());
//! if let Some(token) = token {
//!     println!("for the first client: --token {}", token.reveal());
//! }
//! Err(serve.run().await.into())
//! # }
//! ```

#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(clippy::cast_possible_truncation, reason = "numbers in tests are small, or cut on purpose")
)]

mod backoff;
mod channel;
mod clip;
mod error;
mod held;
mod link;
mod local;
mod pace;
mod place;
pub mod record;
pub mod serve;
pub mod sound;
mod tcp;
pub mod trust;
pub mod view;
mod wishes;

pub use error::LinkError;
pub use link::LinkConfig;
pub use quickset_rfb::{PlainLogin, VncPassword};
pub use quickset_screen::{ItemKind, message, receiver, recording, sender};
