//! A port of several sockets: what the system is asked for, and what is made of its refusals.
//!
//! A port that is in use is an error. Whatever else is refused only costs cores: the sockets that there are
//! have to do, down to one. Where the system does not give each socket what is for it, shards hand datagrams
//! over. Each time a warning says so, unless nobody asked for several sockets and the system never has them.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;

use quickset_quic::ConnectionIds;

use crate::runtime::Runtime;
use crate::socket::{DatagramSocket, SocketConfig};
use crate::steer::{MAX_SHARDS, steer};

/// The sockets of a port, and which of them has what.
pub(crate) struct SharedPort {
    pub(crate) sockets: Vec<Arc<dyn DatagramSocket>>,
    /// The system gives each what is for it.
    pub(crate) is_steered: bool,
    /// An application's.
    pub(crate) ids: Option<Arc<dyn ConnectionIds>>,
}

/// What the system is asked for.
pub(crate) trait PortCalls {
    /// Binds a socket; if it `shares` the port, beside others that do.
    fn bind(&self, config: &SocketConfig, address: SocketAddr, shares: bool) -> io::Result<UdpSocket>;

    /// Has each of the first `count` sockets on the port of this one get what is for it: see [`steer`].
    fn steer(&self, socket: &UdpSocket, count: u32) -> io::Result<()>;
}

/// The system itself.
pub(crate) struct SystemCalls;

impl PortCalls for SystemCalls {
    fn bind(&self, config: &SocketConfig, address: SocketAddr, shares: bool) -> io::Result<UdpSocket> {
        config.bind_beside(address, shares)
    }

    fn steer(&self, socket: &UdpSocket, count: u32) -> io::Result<()> {
        steer(socket, count)
    }
}

impl SharedPort {
    /// A port of one socket.
    pub(crate) fn alone(socket: Arc<dyn DatagramSocket>, ids: Option<Arc<dyn ConnectionIds>>) -> Self {
        Self { sockets: vec![socket], is_steered: true, ids }
    }

    /// Binds as many sockets to a port as are wanted and can be had.
    ///
    /// # Errors
    /// When not even one can be bound, most often since the port is in use, or the runtime takes none.
    pub(crate) fn bind(
        runtime: &dyn Runtime,
        address: SocketAddr,
        config: &SocketConfig,
        system: &dyn PortCalls,
    ) -> io::Result<Self> {
        let ids = config.connection_ids.clone();
        // Another server may have the port and share it, too: that is an error, and no invitation.
        let first = system.bind(config, address, false)?;
        let wanted = wanted(config);
        if wanted == 1 {
            return Ok(Self::alone(runtime.wrap(first, config)?, ids));
        }
        let mut address = address;
        address.set_port(first.local_addr()?.port());
        drop(first);
        let mut refused = None;
        let mut bound = some_of((0..wanted).map(|_| system.bind(config, address, true)), &mut refused);
        // The system knows them by the order in which they were bound, and those that go are the last. It is
        // told by the first one, once it is known how many there are.
        let others = bound.drain(1.min(bound.len())..).map(|other| runtime.wrap(other, config));
        let others = some_of(others, &mut refused);
        let count = bound.len() + others.len();
        if let Some(error) = refused {
            say_fewer(&error, count.max(1), config.sockets);
        }
        let Some(first) = bound.pop().filter(|_| count > 1) else {
            // One by itself lets nobody in beside it.
            drop((bound, others));
            return Ok(Self::alone(runtime.wrap(system.bind(config, address, false)?, config)?, ids));
        };
        let steered = system.steer(&first, u32::try_from(count).unwrap_or(u32::MAX));
        if let Err(error) = &steered {
            say_unsteered(error);
        }
        let mut sockets = vec![runtime.wrap(first, config)?];
        sockets.extend(others);
        Ok(Self { sockets, is_steered: steered.is_ok(), ids })
    }
}

/// How many sockets a configuration asks for.
fn wanted(config: &SocketConfig) -> usize {
    let wanted = match config.sockets {
        0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        sockets => sockets,
    };
    wanted.min(MAX_SHARDS)
}

/// Those that can be had, up to the first that is `refused`.
fn some_of<T>(asked: impl Iterator<Item = io::Result<T>>, refused: &mut Option<io::Error>) -> Vec<T> {
    asked.map_while(|result| result.map_err(|error| *refused = Some(error)).ok()).collect()
}

fn say_fewer(error: &io::Error, count: usize, asked: usize) {
    if asked == 0 && error.kind() == ErrorKind::Unsupported {
        tracing::debug!(%error, "this system shares no port; one socket has to do");
    } else {
        tracing::warn!(%error, "the system refused more sockets on the port; fewer cores serve it: {count}");
    }
}

fn say_unsteered(error: &io::Error) {
    if error.kind() == ErrorKind::Unsupported {
        tracing::debug!(%error, "this system goes by addresses; shards hand datagrams over");
    } else {
        tracing::warn!(%error, "the system does not go by connection ids (SO_ATTACH_REUSEPORT_CBPF); sockets hand over what is for others, which costs time");
    }
}
