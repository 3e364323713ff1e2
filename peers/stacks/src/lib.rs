//! Stacks of QUIC, ours and others, each behind the same few verbs: `peers` measures with them, `interop` plays
//! cases with them. All of it runs on one thread, where tokio takes tasks that stay there.

#![expect(async_fn_in_trait, reason = "nobody sends these futures to another thread")]

#[cfg(feature = "quiche")]
pub mod quiche;
pub mod quickset;
pub mod quickset_h3;
pub mod quinn;
pub mod quinn_h3;
#[cfg(feature = "s2n-quic")]
pub mod s2n;
mod setup;
pub mod tcp;
pub mod tls;

use std::collections::VecDeque;
use std::net::SocketAddr;

use anyhow::Result;
use bytes::Bytes;
use serde::{Deserialize, Serialize};

pub use setup::{FIXED_MTU, FIXED_WINDOW, StackCipher, StackGroup, StackSetup, StackTickets, StackTuning};
pub use tls::{NAME, StackIdentity};

/// One of them, by the protocol that is spoken on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    Quickset,
    QuicksetH3,
    Quinn,
    QuinnH3,
    Quiche,
    QuicheH3,
    S2nQuic,
    TcpTls,
}

impl Stack {
    /// Whether this program was built with it.
    pub fn is_built(self) -> bool {
        match self {
            Self::Quiche | Self::QuicheH3 => cfg!(feature = "quiche"),
            Self::S2nQuic => cfg!(feature = "s2n-quic"),
            Self::Quickset | Self::QuicksetH3 | Self::Quinn | Self::QuinnH3 | Self::TcpTls => true,
        }
    }

    /// Whether questions are paths, and answers have heads.
    pub fn is_http(self) -> bool {
        matches!(self, Self::QuicksetH3 | Self::QuinnH3 | Self::QuicheH3)
    }

    /// Makes a server of it.
    pub async fn serve(
        self,
        listen: SocketAddr,
        identity: &StackIdentity,
        setup: &StackSetup,
        part: impl ServerPart,
    ) -> Result<()> {
        match self {
            Self::Quickset => part.serve(quickset::serve(listen, identity, setup)?).await,
            Self::QuicksetH3 => part.serve(quickset_h3::serve(listen, identity, setup)?).await,
            Self::Quinn => part.serve(quinn::serve(listen, identity, setup)?).await,
            Self::QuinnH3 => part.serve(quinn_h3::serve(listen, identity, setup)?).await,
            Self::TcpTls => part.serve(tcp::serve(listen, identity, setup)?).await,
            #[cfg(feature = "quiche")]
            Self::Quiche => part.serve(quiche::serve(listen, identity, setup)?).await,
            #[cfg(feature = "quiche")]
            Self::QuicheH3 => part.serve(quiche::h3::serve(listen, identity, setup)?).await,
            #[cfg(feature = "s2n-quic")]
            Self::S2nQuic => part.serve(s2n::serve(listen, identity, setup)?).await,
            #[cfg(not(all(feature = "quiche", feature = "s2n-quic")))]
            other => anyhow::bail!("this program was built without {other:?}"),
        }
    }

    /// Makes a client of it, for the server of this identity.
    pub async fn call(
        self,
        server: SocketAddr,
        trusted: &StackIdentity,
        setup: &StackSetup,
        part: impl ClientPart,
    ) -> Result<()> {
        match self {
            Self::Quickset => part.call(quickset::client(server, trusted, setup)?).await,
            Self::QuicksetH3 => part.call(quickset_h3::client(server, trusted, setup)?).await,
            Self::Quinn => part.call(quinn::client(server, trusted, setup)?).await,
            Self::QuinnH3 => part.call(quinn_h3::client(server, trusted, setup)?).await,
            Self::TcpTls => part.call(tcp::client(server, trusted, setup)?).await,
            #[cfg(feature = "quiche")]
            Self::Quiche => part.call(quiche::client(server, trusted, setup)?).await,
            #[cfg(feature = "quiche")]
            Self::QuicheH3 => part.call(quiche::h3::client(server, trusted, setup)?).await,
            #[cfg(feature = "s2n-quic")]
            Self::S2nQuic => part.call(s2n::client(server, trusted, setup)?).await,
            #[cfg(not(all(feature = "quiche", feature = "s2n-quic")))]
            other => anyhow::bail!("this program was built without {other:?}"),
        }
    }
}

/// What a program does with a server, whichever stack it is of.
pub trait ServerPart {
    async fn serve(self, server: impl StackServer) -> Result<()>;
}

/// The same with a client.
pub trait ClientPart {
    async fn call(self, client: impl StackClient) -> Result<()>;
}

/// One that waits for connections.
pub trait StackServer {
    type Connection: PeerConnection + 'static;
    fn address(&self) -> SocketAddr;
    async fn accept(&mut self) -> Option<Self::Connection>;

    /// Ends in good order what may be ended so.
    async fn leave(self)
    where
        Self: Sized,
    {
    }
}

/// One that makes connections.
pub trait StackClient: 'static {
    type Connection: PeerConnection + 'static;

    /// A connection whose handshake is through, as far as this side knows; with `early` one that takes early
    /// data at once.
    async fn connect(&self, early: bool) -> Result<Self::Connection>;

    /// Moves a connection to another address or port, as soon as that may be.
    async fn migrate(&self, connection: &Self::Connection) -> Result<()> {
        let _ = connection;
        anyhow::bail!("it does not move")
    }

    /// Waits until the farewells have left, and no longer than that takes.
    async fn leave(self)
    where
        Self: Sized,
    {
    }
}

pub trait PeerConnection {
    type Answer: StackAnswer + 'static;
    type Download: StackDownload + 'static;
    /// [`NoUpload`] where a client does nothing but ask.
    type Upload: StackUpload + 'static;

    /// Whether messages are the stack's own, and not streams.
    const HAS_MESSAGES: bool = false;

    /// Asks, on a stream of its own where there are streams.
    async fn request(&mut self, question: &[u8]) -> Result<Self::Download>;

    /// The next request of the client, or why the connection is over.
    async fn requested(&mut self) -> Result<Self::Answer>;

    /// A stream on which only this side sends.
    async fn open_upload(&mut self) -> Result<Self::Upload> {
        anyhow::bail!("it opens no streams of one direction")
    }

    /// The next of the peer's.
    async fn accept_upload(&mut self) -> Result<Self::Download> {
        anyhow::bail!("it takes no streams of one direction")
    }

    /// Sends a message: on a [stream](Self::open_upload) of its own, where the stack has no messages.
    async fn send_message(&mut self, message: Bytes) -> Result<()> {
        let mut stream = self.open_upload().await?;
        stream.send(message).await?;
        stream.end().await
    }

    /// Hands on the next message, of a stack [that has them](Self::HAS_MESSAGES).
    async fn receive_message(&mut self, take: &mut impl FnMut(&[u8])) -> Result<()> {
        let _ = take;
        anyhow::bail!("it has no messages")
    }

    /// Sends unreliable datagrams (RFC 9221) as soon as there is room for them, one at the least, and takes
    /// those out.
    async fn send_datagrams(&mut self, data: &mut VecDeque<Bytes>) -> Result<()> {
        let _ = data;
        anyhow::bail!("it has no datagrams")
    }

    /// Hands on the datagrams that have come, one at the least.
    async fn receive_datagrams(&mut self, take: &mut impl FnMut(&[u8])) -> Result<()> {
        let _ = take;
        anyhow::bail!("it has no datagrams")
    }

    /// What the stack has counted of this connection, whenever it is asked.
    fn counter(&self) -> Option<StackCounter> {
        None
    }

    /// Changes keys, as soon as that may be.
    async fn update_keys(&self) -> Result<()> {
        anyhow::bail!("it changes no keys")
    }

    /// How often keys changed, of those that count.
    fn key_updates(&self) -> Option<u64> {
        None
    }

    /// Takes what came behind the handshake, where nobody reads otherwise.
    async fn settle(&mut self) {}

    fn close(self);
}

/// A request, and the way of what was asked for.
pub trait StackAnswer {
    /// What the client asks, of [`MAX_QUESTION`] bytes at most.
    async fn question(&mut self) -> Result<Vec<u8>>;

    /// Reads the request to its end, where a stream that is dropped before would be stopped.
    async fn drain(&mut self) -> Result<()> {
        Ok(())
    }

    /// Sends the head, where there are heads.
    async fn begin(&mut self, head: &AnswerHead) -> Result<()> {
        let _ = head;
        Ok(())
    }

    async fn send(&mut self, piece: Bytes) -> Result<()>;
    async fn end(self) -> Result<()>;

    /// All three, for a stack that has a door of its own for what is there whole.
    async fn whole(mut self, head: &AnswerHead, content: Bytes) -> Result<()>
    where
        Self: Sized,
    {
        self.begin(head).await?;
        self.send(content).await?;
        self.end().await
    }
}

/// The head of an answer.
#[derive(Clone, Copy, Debug)]
pub struct AnswerHead {
    pub status: u16,
    pub length: u64,
    /// What browsers want to be told of.
    pub kind: Option<&'static str>,
}

/// Its other end.
pub trait StackDownload {
    /// Hands on what has come, at least a byte; false at the end.
    async fn receive(&mut self, take: &mut impl FnMut(&[u8])) -> Result<bool>;
}

/// A stream on which only this side sends.
pub trait StackUpload {
    async fn send(&mut self, piece: Bytes) -> Result<()>;
    async fn end(self) -> Result<()>;
}

/// The streams of a stack whose clients only ask.
pub enum NoUpload {}

impl StackUpload for NoUpload {
    async fn send(&mut self, _piece: Bytes) -> Result<()> {
        match *self {}
    }

    async fn end(self) -> Result<()> {
        match self {}
    }
}

/// Asks a stack for its counts of one connection, as long as it knows them.
pub type StackCounter = Box<dyn Fn() -> Option<StackCounts>>;

/// What a stack has counted of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct StackCounts {
    pub sent_packets: u64,
    /// Of these: declared lost.
    pub lost_packets: u64,
    /// Datagrams of the application that were sent and lost; where the stack counts them, as the others.
    pub lost_datagrams: Option<u64>,
    /// Those that never left.
    pub unsent_datagrams: Option<u64>,
    /// Those that came and were dropped because nobody read them in time.
    pub unread_datagrams: Option<u64>,
}

impl StackCounts {
    /// These, and those of another connection of the same stack.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Self {
            sent_packets: self.sent_packets + other.sent_packets,
            lost_packets: self.lost_packets + other.lost_packets,
            lost_datagrams: sum(self.lost_datagrams, other.lost_datagrams),
            unsent_datagrams: sum(self.unsent_datagrams, other.unsent_datagrams),
            unread_datagrams: sum(self.unread_datagrams, other.unread_datagrams),
        }
    }
}

/// Bytes of the largest request.
pub const MAX_QUESTION: usize = 4096;

/// Where so many bytes are.
pub fn path_of(bytes: u64) -> String {
    format!("/{bytes}")
}

/// How many a path stands for.
pub fn bytes_of(path: &[u8]) -> Option<u64> {
    std::str::from_utf8(path.strip_prefix(b"/")?).ok()?.parse().ok()
}

/// RFC 9114 §8.1: H3_NO_ERROR.
const H3_NO_ERROR: u32 = 0x100;

/// Chunks taken from a stream at a time, where a stack gives several.
const CHUNKS: usize = 32;
