use std::fmt;
use std::io;
use std::iter::repeat_n;
#[cfg(feature = "tokio")]
use std::net::Ipv6Addr;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quickset_base::{Rng, Seed};
use quickset_quic::{self as quic, ClientConfig, Counters, EndpointConfig, EndpointGroup, ServerConfig};

use crate::census::EndpointStats;
use crate::connecting::Connecting;
use crate::connection::Connection;
use crate::driver::Driver;
use crate::hub::Hub;
use crate::line::ClosingWords;
use crate::port::{SharedPort, SystemCalls};
use crate::runtime::{Runtime, is_ready_by};
use crate::shards::{PickedIds, ShardGroup, ShardIds};
use crate::socket::{Bound, DatagramSocket, SocketConfig};
#[cfg(feature = "tokio")]
use crate::tokio_runtime::TokioRuntime;
use crate::wakers::WakerSeat;

/// A socket with any number of connections. Clones are handles of the same one.
///
/// It takes connections when it has the configuration of a server, and begins them in either case. A task of
/// a [`Runtime`] drives it, until the last handle is gone and the last connection has ended: with the feature
/// `tokio` that in which it was made, or the one that [`with_runtime`](Self::with_runtime) and
/// [`over`](Self::over) are given. All futures may be dropped at any point.
///
/// With [`SocketConfig::sockets`] it has several sockets on its port, each with a task of its own, which
/// several cores drive.
pub struct Endpoint {
    hubs: Arc<[Arc<Hub>]>,
    /// Whose turn it is to begin a connection.
    turn: Arc<AtomicUsize>,
}

#[cfg(feature = "tokio")]
impl Endpoint {
    /// An endpoint that takes connections, on `address`. Port 0 picks a free one: see
    /// [`local_addr`](Self::local_addr).
    ///
    /// # Errors
    /// When the socket cannot be bound, or the system has no entropy.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and I/O.
    pub fn server(address: SocketAddr, endpoint: EndpointConfig, server: ServerConfig) -> io::Result<Self> {
        Self::bind(address, &SocketConfig::default(), endpoint, Some(server))
    }

    /// An endpoint that only begins connections, on any port of all addresses, of IPv6 and IPv4 where the
    /// system has both.
    ///
    /// # Errors
    /// See [`server`](Self::server).
    ///
    /// # Panics
    /// See [`server`](Self::server).
    pub fn client(endpoint: EndpointConfig) -> io::Result<Self> {
        let config = SocketConfig::default();
        Self::bind((Ipv6Addr::UNSPECIFIED, 0).into(), &config, endpoint.clone(), None).or_else(|error| {
            tracing::debug!(%error, "no IPv6 here");
            Self::bind(([0, 0, 0, 0], 0).into(), &config, endpoint, None)
        })
    }

    /// An endpoint on `address`, with a say in how its socket is used; it takes connections with `server`
    /// only.
    ///
    /// # Errors
    /// See [`server`](Self::server).
    ///
    /// # Panics
    /// See [`server`](Self::server).
    pub fn bind(
        address: SocketAddr,
        socket: &SocketConfig,
        endpoint: EndpointConfig,
        server: Option<ServerConfig>,
    ) -> io::Result<Self> {
        Self::with_runtime(Arc::new(TokioRuntime::current()), address, socket, endpoint, server)
    }

    /// An endpoint on a socket that is bound already.
    ///
    /// # Errors
    /// See [`server`](Self::server).
    ///
    /// # Panics
    /// See [`server`](Self::server).
    pub fn with_socket(
        bound: std::net::UdpSocket,
        socket: &SocketConfig,
        endpoint: EndpointConfig,
        server: Option<ServerConfig>,
    ) -> io::Result<Self> {
        let runtime = TokioRuntime::current();
        let wrapped = runtime.wrap(bound, socket)?;
        let port = SharedPort::alone(wrapped, socket.connection_ids.clone());
        Self::over_all(Arc::new(runtime), port, endpoint, server)
    }
}

impl Endpoint {
    /// An endpoint on `address` that another runtime drives than the one in which this is called; it takes
    /// connections with `server` only.
    ///
    /// # Errors
    /// When the socket cannot be bound, the runtime does not take it, or the system has no entropy.
    pub fn with_runtime(
        runtime: Arc<dyn Runtime>,
        address: SocketAddr,
        socket: &SocketConfig,
        endpoint: EndpointConfig,
        server: Option<ServerConfig>,
    ) -> io::Result<Self> {
        let port = SharedPort::bind(&*runtime, address, socket, &SystemCalls)?;
        Self::over_all(runtime, port, endpoint, server)
    }

    /// An endpoint over any socket, driven by any runtime; it takes connections with `server` only.
    ///
    /// # Errors
    /// When the system has no entropy.
    pub fn over(
        runtime: Arc<dyn Runtime>,
        socket: Arc<dyn DatagramSocket>,
        endpoint: EndpointConfig,
        server: Option<ServerConfig>,
    ) -> io::Result<Self> {
        Self::over_all(runtime, SharedPort::alone(socket, None), endpoint, server)
    }

    pub(crate) fn over_all(
        runtime: Arc<dyn Runtime>,
        port: SharedPort,
        endpoint: EndpointConfig,
        server: Option<ServerConfig>,
    ) -> io::Result<Self> {
        let SharedPort { sockets, is_steered, ids } = port;
        let count = sockets.len();
        let group = Arc::new(ShardGroup::new(count, is_steered));
        group.lobby().endpoints = 1;
        // Their limits are of all of them together.
        let together = Arc::new(EndpointGroup::default());
        let parts = repeat_n(endpoint, count).zip(repeat_n(server, count)).zip(repeat_n(runtime, count));
        let mut hubs = Vec::with_capacity(count);
        for (shard, (socket, ((endpoint, server), runtime))) in sockets.iter().zip(parts).enumerate() {
            let mut seed = [0; 32];
            getrandom::fill(&mut seed).map_err(io::Error::other)?;
            let rng = Rng::new(Seed(seed));
            let mut router = quic::Endpoint::new(endpoint, server, rng).with_group(together.clone());
            match &ids {
                Some(ids) if count > 1 => {
                    let picked = PickedIds { ids: ids.clone(), shard, count };
                    picked.check()?;
                    router = router.with_connection_ids(Arc::new(picked));
                }
                Some(ids) => router = router.with_connection_ids(ids.clone()),
                None if count > 1 => {
                    router = router.with_connection_ids(Arc::new(ShardIds { shard, count }));
                }
                None => {}
            }
            hubs.push(Arc::new(Hub::new(Bound::of(&**socket), router, runtime, group.clone(), shard)));
        }
        group.assemble(hubs.iter().map(|hub| hub.door()));
        for (hub, socket) in hubs.iter().zip(sockets) {
            hub.runtime().spawn(Box::pin(Driver::new(hub.clone(), socket)));
        }
        Ok(Self { hubs: hubs.into(), turn: Arc::default() })
    }

    /// The first of the shards, which stands for what all have in common.
    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.hubs[0]
    }

    /// All shards.
    #[cfg(test)]
    #[cfg(feature = "tokio")]
    pub(crate) fn hubs(&self) -> &[Arc<Hub>] {
        &self.hubs
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.hub().bound().address
    }

    /// How many sockets it has on its port, each driven by a task of its own: as many as
    /// [`SocketConfig::sockets`] asks for, or fewer where the system refused some.
    pub fn sockets(&self) -> usize {
        self.hubs.len()
    }

    /// Goes on with a new socket on `address`, after a change of networks for example: the connections that
    /// began here tell their servers by themselves, and what is still sent to the old socket is taken until
    /// the new one has received something ([`quickset_quic::Connection::rebound`]). Those that were taken
    /// from clients do not survive it, since a server is known by its address; and an attempt to connect that
    /// is under way may time out, since not every server takes a handshake from more than one address
    /// (RFC 9000 §9).
    ///
    /// # Errors
    /// When the socket cannot be bound, or has not the family of the old one; that one is kept then. When the
    /// runtime of the endpoint has ended; this need not be called in it, nor in any other.
    pub fn rebind(&self, address: SocketAddr, socket: &SocketConfig) -> io::Result<()> {
        self.rebind_socket(socket.bind(address)?, socket)
    }

    /// The same with a socket that is bound already.
    ///
    /// # Errors
    /// See [`rebind`](Self::rebind).
    pub fn rebind_socket(&self, bound: std::net::UdpSocket, socket: &SocketConfig) -> io::Result<()> {
        self.rebind_over(self.hub().runtime().wrap(bound, socket)?)
    }

    /// The same with a socket of any kind.
    ///
    /// # Errors
    /// When it has not the family of the old one; that one is kept then.
    pub fn rebind_over(&self, socket: Arc<dyn DatagramSocket>) -> io::Result<()> {
        // Connections to IPv6 addresses would end without a word.
        if socket.local_addr().is_ipv4() && self.local_addr().is_ipv6() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a socket of IPv4 in place of one of IPv6",
            ));
        }
        if self.hubs.len() > 1 {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "an endpoint of several sockets stays where it is",
            ));
        }
        self.hub().rebind(socket);
        Ok(())
    }

    /// Connects to `remote`, which proves to be `server_name`. The future is ready with the connection, or
    /// with a [`ConnectError`](crate::ConnectError); dropping it gives the attempt up.
    ///
    /// A token of that server (RFC 9000 §8.1.3) is good in the version of the connection that gave it and in
    /// no other (RFC 9369 §5): where there is none of the version that this one would begin in, it begins in
    /// that of a token there is, if that is among the configured ones.
    pub fn connect(&self, remote: SocketAddr, server_name: &str, config: &ClientConfig) -> Connecting {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        Connecting::new(self.hubs[turn % self.hubs.len()].connect(remote, server_name, config))
    }

    /// The next connection of a client, its handshake complete, but for those whose early data is taken:
    /// these come at once, and [`Connection::connected`] tells when theirs is; `None` when the endpoint is
    /// closed, and at once when it takes none. How many there may be, and when clients must prove their
    /// address first, is in the [`ServerConfig`]. One that has ended, and whose peer had time to hear of it,
    /// is not there to be accepted any more. Dropping the future loses nothing.
    pub async fn accept(&self) -> Option<Connection> {
        let is_server = self.hub().router().is_server();
        let seat = WakerSeat::new(|| self.hub().lobby(), |lobby| &mut lobby.acceptors);
        seat.wait(|lobby| match lobby.accepted.pop_front() {
            Some(connection) => Some(Some(connection)),
            None => (!lobby.open || !is_server).then_some(None),
        })
        .await
    }

    /// Closes the endpoint and all its connections, at once, with a code and words (at most 256 bytes) for
    /// the peers' applications. Nothing is taken or begun any more. [`wait_idle`](Self::wait_idle) tells when
    /// the peers had time to hear of it.
    pub fn close(&self, code: u64, reason: &[u8]) {
        // More is not sent.
        let reason = Bytes::copy_from_slice(&reason[..reason.len().min(256)]);
        self.close_all(&ClosingWords { code: Some(code), reason });
    }

    fn close_all(&self, farewell: &ClosingWords) {
        let (mut woken, accepted) = (Vec::new(), {
            let mut lobby = self.hub().lobby();
            lobby.open = false;
            std::mem::take(&mut lobby.accepted)
        });
        self.hub().group().wake_drivers(Some(farewell));
        for connection in accepted {
            // Otherwise dropping it would close it, with code 0. No protocol is above it yet.
            connection.close(farewell.code.unwrap_or(0), &farewell.reason);
        }
        self.hub().lobby().acceptors.drain_to(&mut woken);
        woken.into_iter().for_each(std::task::Waker::wake);
    }

    /// Waits until no connection is left: each was closed, by either side, and the peer had time to hear of
    /// it. A closed connection is left for three probe timeouts (RFC 9000 §10.2), and says three times in
    /// that time that it is over. A program that ends without may leave its peers to their idle timeouts.
    pub async fn wait_idle(&self) {
        let seat = WakerSeat::new(|| self.hub().lobby(), |lobby| &mut lobby.idlers);
        seat.wait(|lobby| (lobby.connections() == 0).then_some(())).await;
    }

    /// Takes no more connections, waits up to `patience` for those that there are to end by themselves, and
    /// closes the rest with code 0, or with what a protocol above it calls no error (HTTP/3: H3_NO_ERROR).
    /// True when all ended by themselves. Dropping the future leaves the endpoint open for what it has and
    /// closed for what is new.
    pub async fn shutdown(&self, patience: Duration) -> bool {
        self.leave(patience, &ClosingWords { code: None, reason: Bytes::new() }).await
    }

    /// The same, and closes the rest with a code and words (at most 256 bytes) for the peers' applications.
    pub async fn shutdown_with(&self, patience: Duration, code: u64, reason: &[u8]) -> bool {
        self.leave(patience, &ClosingWords { code: Some(code), reason: Bytes::copy_from_slice(reason) }).await
    }

    async fn leave(&self, patience: Duration, farewell: &ClosingWords) -> bool {
        let mut woken = Vec::new();
        {
            let mut lobby = self.hub().lobby();
            lobby.open = false;
            lobby.acceptors.drain_to(&mut woken);
        }
        woken.into_iter().for_each(std::task::Waker::wake);
        let until = self.hub().instant(self.hub().now() + patience);
        let gracefully = is_ready_by(&**self.hub().runtime(), until, self.wait_idle()).await;
        if !gracefully {
            self.close_all(farewell);
            self.wait_idle().await;
        }
        gracefully
    }

    /// What the endpoint did so far.
    pub fn counters(&self) -> Counters {
        self.hubs.iter().map(|hub| hub.router().counters()).fold(Counters::default(), Counters::plus)
    }

    /// What the endpoint and its connections did so far. Asks each connection: for now and then.
    pub fn stats(&self) -> EndpointStats {
        let mut stats = EndpointStats { counters: self.counters(), ..EndpointStats::default() };
        for hub in &*self.hubs {
            let (ended, live) = hub.census().look();
            stats.ended.add_all(&ended);
            stats.live.extend(live.iter().map(|shared| shared.lock().conn.stats()));
            stats.sent.add(&hub.calls().sent.sizes());
            stats.received.add(&hub.calls().received.sizes());
        }
        [stats.handed_over, stats.handed_over_lost] = self.hub().group().handed();
        stats
    }

    /// Connections that have not ended, those still in their handshake included.
    pub fn connections(&self) -> usize {
        self.hub().lobby().connections()
    }
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        self.hub().lobby().endpoints += 1;
        Self { hubs: self.hubs.clone(), turn: self.turn.clone() }
    }
}

/// With the last handle nobody is left to accept: connections that wait for it are closed, and the others
/// go on until their own handles are gone.
impl Drop for Endpoint {
    fn drop(&mut self) {
        let mut lobby = self.hub().lobby();
        lobby.endpoints -= 1;
        if lobby.endpoints > 0 {
            return;
        }
        lobby.open = false;
        let accepted = std::mem::take(&mut lobby.accepted);
        drop(lobby);
        drop(accepted);
        self.hub().group().wake_drivers(None);
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Endpoint")
            .field("address", &self.local_addr())
            .field("connections", &self.connections())
            .finish_non_exhaustive()
    }
}
