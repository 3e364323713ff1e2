//! The stacks, each behind the same few verbs, and what all are set up with.

#[cfg(feature = "quiche")]
pub(crate) mod quiche;
pub(crate) mod quickset;
pub(crate) mod quickset_h3;
pub(crate) mod quinn;
pub(crate) mod quinn_h3;
#[cfg(feature = "s2n-quic")]
pub(crate) mod s2n;
pub(crate) mod tcp;

use std::net::SocketAddr;

use anyhow::Result;
use bytes::Bytes;

use crate::pattern::PatternSum;

/// The UDP payload of every data packet, all stacks: an Ethernet frame of 1500 bytes.
pub(crate) const MTU: u16 = 1472;

/// Receive windows and send buffers, all stacks but those "as they come": far more than loopback's bandwidth
/// times its delay.
pub(crate) const WINDOW: u32 = 16 << 20;

/// The system's socket buffers, all stacks but those "as they come".
pub(crate) const SOCKET_BUFFER: usize = 4 << 20;

/// Chunks taken from a stream at a time, where a stack gives several.
pub(crate) const CHUNKS: usize = 32;

/// One that waits for connections.
pub(crate) trait StackServer {
    type Connection: PeerConnection + 'static;
    fn address(&self) -> SocketAddr;
    async fn accept(&mut self) -> Option<Self::Connection>;
}

/// One that makes connections.
pub(crate) trait StackClient: 'static {
    type Connection: PeerConnection + 'static;
    /// A connection whose handshake is through, as far as this side knows.
    async fn connect(&self) -> Result<Self::Connection>;
}

pub(crate) trait PeerConnection {
    type Answer: StackAnswer + 'static;
    type Download: StackDownload;
    /// Asks for so many bytes, on a stream of their own where there are streams.
    async fn request(&mut self, bytes: u64) -> Result<Self::Download>;
    /// The next request of the client; none once the connection is over.
    async fn requested(&mut self) -> Option<(u64, Self::Answer)>;
    fn close(self);
}

/// The way of the bytes that were asked for.
pub(crate) trait StackAnswer {
    async fn send(&mut self, piece: Bytes) -> Result<()>;
    async fn end(self) -> Result<()>;
}

/// Their other end.
pub(crate) trait StackDownload {
    /// Adds what has come, at least a byte; false at the end.
    async fn receive(&mut self, sum: &mut PatternSum) -> Result<bool>;
}

/// Where so many bytes are, for stacks that speak HTTP.
fn path_of(bytes: u64) -> String {
    format!("/{bytes}")
}

/// How many a path stands for.
fn bytes_of(path: &str) -> Option<u64> {
    path.strip_prefix('/')?.parse().ok()
}
