use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use anyhow::Result;
use rustls::crypto::SupportedKxGroup;
use rustls::crypto::aws_lc_rs::kx_group;

/// How an endpoint is set up.
#[derive(Clone, Debug)]
pub struct StackSetup {
    /// The name of the application's protocol.
    pub protocol: &'static [u8],
    pub cipher: StackCipher,
    /// How keys are exchanged, what is wanted most first.
    pub groups: &'static [StackGroup],
    pub tickets: StackTickets,
    /// Counts the tickets that clients used.
    pub used_tickets: Arc<AtomicU64>,
    pub tuning: StackTuning,
    pub idle: Duration,
    /// Streams of each kind that a peer may have open at a time; `None`: a stack's own, for most 100.
    pub streams: Option<u32>,
    /// A server makes every client prove its address first.
    pub retry: bool,
    /// It begins in version 1 and likes version 2 more; ours only.
    pub likes_2: bool,
    /// A client of ours has all addresses of the machine, and may move to another.
    pub roams: bool,
    /// Where traces of connections go; ours only, with the feature `qlog`.
    pub traces: Option<PathBuf>,
}

impl StackSetup {
    /// All ciphers and groups, and what a stack does by itself.
    pub fn new(protocol: &'static [u8]) -> Self {
        Self {
            protocol,
            cipher: StackCipher::Any,
            // As quickset has them for applications: a hello of two datagrams, and a share of X25519 for those
            // who know no other.
            groups: &[StackGroup::X25519MlKem768, StackGroup::X25519, StackGroup::P256, StackGroup::P384],
            tickets: StackTickets::Unused,
            used_tickets: Arc::default(),
            tuning: StackTuning::Own,
            idle: Duration::from_secs(30),
            streams: None,
            retry: false,
            likes_2: false,
            roams: false,
            traces: None,
        }
    }

    pub(crate) fn is_fixed(&self) -> bool {
        self.tuning == StackTuning::Fixed
    }

    /// A socket for stacks that take one.
    pub(crate) fn socket(&self, address: SocketAddr) -> Result<UdpSocket> {
        let socket = UdpSocket::bind(address)?;
        if self.is_fixed() {
            let plain = socket2::SockRef::from(&socket);
            plain.set_recv_buffer_size(SOCKET_BUFFER)?;
            plain.set_send_buffer_size(SOCKET_BUFFER)?;
        }
        Ok(socket)
    }
}

/// Which cipher suites there are, where the stack lets us choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackCipher {
    Any,
    /// The one that all stacks choose where the processor has AES.
    Aes128,
    ChaCha20,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackGroup {
    X25519MlKem768,
    X25519,
    P256,
    P384,
}

impl StackGroup {
    /// As all TLS libraries have it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::X25519MlKem768 => "X25519MLKEM768",
            Self::X25519 => "X25519",
            Self::P256 => "P-256",
            Self::P384 => "P-384",
        }
    }

    pub(crate) fn of_rustls(self) -> &'static dyn SupportedKxGroup {
        match self {
            Self::X25519MlKem768 => kx_group::X25519MLKEM768,
            Self::X25519 => kx_group::X25519,
            Self::P256 => kx_group::SECP256R1,
            Self::P384 => kx_group::SECP384R1,
        }
    }
}

/// What a client keeps of a connection for the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackTickets {
    /// Nothing: every handshake is a full one. Servers give no tickets, nor tokens (RFC 9000 §8.1.3).
    None,
    /// Nothing, though servers give what they give by themselves.
    Unused,
    Kept,
    /// And connections may begin with data (0-RTT), where the stack has that.
    Early,
}

/// Sizes of datagrams, windows and buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackTuning {
    /// What the stack comes with; of ours, and of quiche, which wants to be told, what fits bad links.
    Own,
    /// [`FIXED_MTU`] and [`FIXED_WINDOW`], large buffers of the system, and no pacing by quiche's user.
    Fixed,
}

/// The UDP payload of every data packet, all stacks that are tuned: an Ethernet frame of 1500 bytes.
pub const FIXED_MTU: u16 = 1472;

/// Receive windows and send buffers of these: far more than loopback's bandwidth times its delay.
pub const FIXED_WINDOW: u32 = 16 << 20;

/// Bytes of datagrams that wait to be sent, or to be read, where a stack counts bytes.
pub(crate) const DATAGRAM_BYTES: usize = 4 << 20;

/// Where it counts datagrams: as many of 100 bytes as these are.
pub(crate) const DATAGRAMS: usize = DATAGRAM_BYTES / 100;

/// The system's socket buffers of these.
pub(crate) const SOCKET_BUFFER: usize = 4 << 20;
