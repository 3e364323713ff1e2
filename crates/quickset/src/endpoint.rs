use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quickset_net::{Connecting, Connection, Counters, DatagramSocket, EndpointStats, Runtime, SocketConfig};
use quickset_quic::{EndpointConfig, Estimates};
use quickset_tls::{EndpointSecrets, PeerCertificates, provider};

use crate::transport::sharing;
use crate::{ClientConfig, Fingerprint, ServerConfig};

/// A UDP socket with any number of connections. Clones are handles of the same endpoint.
///
/// With the configuration of a server it takes connections; it can begin connections in either case. A task
/// of the tokio runtime in which it was made drives it until the last handle is gone and the last connection
/// has ended; [`over`](Self::over) is for other runtimes and other sockets. All futures may be dropped at any
/// point.
///
/// Its connections tell one another of losses on the way to a peer ([`Estimates`]), unless the configuration
/// names another place for that.
#[derive(Clone, Debug)]
pub struct Endpoint {
    net: quickset_net::Endpoint,
    /// What its connections know of losses, for those to come.
    estimates: Arc<Estimates>,
}

/// Who the peer of a connection proved to be.
#[derive(Clone, Debug)]
pub struct Peer {
    certificates: Option<PeerCertificates>,
}

impl Peer {
    /// Returns the peer of this connection. Before the handshake is complete the peer has proved nothing.
    pub fn of(connection: &Connection) -> Self {
        let certificates = connection.peer_identity().and_then(|chain| chain.downcast().ok());
        Self { certificates: certificates.map(|chain| *chain) }
    }

    /// Returns its chain of certificates, its own first; `None` if it showed none.
    pub fn certificates(&self) -> Option<&PeerCertificates> {
        self.certificates.as_ref()
    }

    /// Returns the fingerprint of its key; `None` if it showed no certificate.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        Fingerprint::of(self.certificates()?.first()?)
    }
}

impl Endpoint {
    /// Makes an endpoint that takes connections on `address`. With port 0 the system picks a free port: see
    /// [`local_addr`](Self::local_addr). `[::]` takes IPv4 as well, where the system allows it.
    ///
    /// # Errors
    /// When the socket cannot be bound, or the system has no entropy.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and I/O.
    pub fn server(address: SocketAddr, config: &ServerConfig) -> io::Result<Self> {
        Self::bind(address, &SocketConfig::default(), Some(config))
    }

    /// Makes an endpoint that only begins connections, on any port of all addresses.
    ///
    /// # Errors
    /// See [`server`](Self::server).
    ///
    /// # Panics
    /// See [`server`](Self::server).
    pub fn client() -> io::Result<Self> {
        Ok(Self { net: quickset_net::Endpoint::client(endpoint_config(None)?)?, estimates: Arc::default() })
    }

    /// Makes an endpoint on `address` whose socket is used as `socket` says. It takes connections only if
    /// `server` is given.
    ///
    /// # Errors
    /// See [`server`](Self::server).
    ///
    /// # Panics
    /// See [`server`](Self::server).
    pub fn bind(
        address: SocketAddr,
        socket: &SocketConfig,
        server: Option<&ServerConfig>,
    ) -> io::Result<Self> {
        let estimates = Arc::default();
        let endpoint = endpoint_config(server)?;
        let server = server.map(|config| server_config(config, &estimates));
        let net = quickset_net::Endpoint::bind(address, socket, endpoint, server)?;
        Ok(Self { net, estimates })
    }

    /// Makes an endpoint on a socket that is already bound.
    ///
    /// # Errors
    /// See [`server`](Self::server).
    ///
    /// # Panics
    /// See [`server`](Self::server).
    pub fn with_socket(
        bound: std::net::UdpSocket,
        socket: &SocketConfig,
        server: Option<&ServerConfig>,
    ) -> io::Result<Self> {
        let estimates = Arc::default();
        let endpoint = endpoint_config(server)?;
        let server = server.map(|config| server_config(config, &estimates));
        let net = quickset_net::Endpoint::with_socket(bound, socket, endpoint, server)?;
        Ok(Self { net, estimates })
    }

    /// Makes an endpoint on `address` that is driven by another runtime than the tokio runtime in which this
    /// is called. It takes connections only if `server` is given.
    ///
    /// # Errors
    /// When the socket cannot be bound, the runtime does not take it, or the system has no entropy.
    pub fn with_runtime(
        runtime: Arc<dyn Runtime>,
        address: SocketAddr,
        socket: &SocketConfig,
        server: Option<&ServerConfig>,
    ) -> io::Result<Self> {
        let estimates = Arc::default();
        let endpoint = endpoint_config(server)?;
        let server = server.map(|config| server_config(config, &estimates));
        let net = quickset_net::Endpoint::with_runtime(runtime, address, socket, endpoint, server)?;
        Ok(Self { net, estimates })
    }

    /// Makes an endpoint over a socket of any kind that is driven by any runtime: see
    /// [`driver`](crate::driver) for what they have to do. It takes connections only if `server` is given.
    ///
    /// Here one in a hundred datagrams that a server sends is lost, on purpose:
    ///
    /// ```
    /// use std::net::SocketAddr;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::task::{Context, Poll};
    ///
    /// use quickset::driver::{
    ///     Batch, DatagramSocket, ReceiveBuffers, ReceivedCount, Runtime, TokioRuntime, UnsentBatch,
    /// };
    /// use quickset::{AddressPair, ClientConfig, Endpoint, Identity, ServerConfig, SocketConfig, Trust};
    ///
    /// #[derive(Debug)]
    /// struct Leaky(Arc<dyn DatagramSocket>, AtomicU64);
    ///
    /// impl DatagramSocket for Leaky {
    ///     fn local_addr(&self) -> SocketAddr {
    ///         self.0.local_addr()
    ///     }
    ///
    ///     fn poll_recv(
    ///         &self,
    ///         cx: &mut Context<'_>,
    ///         buffers: &mut ReceiveBuffers,
    ///         hurry: bool,
    ///     ) -> Poll<std::io::Result<ReceivedCount>> {
    ///         self.0.poll_recv(cx, buffers, hurry)
    ///     }
    ///
    ///     // Batches are of one datagram each, since `max_segments` does not say otherwise.
    ///     fn poll_send(&self, cx: &mut Context<'_>, batch: &Batch) -> Poll<Result<(), UnsentBatch>> {
    ///         if self.1.fetch_add(1, Ordering::Relaxed) % 100 == 99 {
    ///             return Poll::Ready(Ok(()));
    ///         }
    ///         self.0.poll_send(cx, batch)
    ///     }
    ///
    ///     fn send_response(&self, path: &AddressPair, bytes: &[u8]) -> std::io::Result<()> {
    ///         self.0.send_response(path, bytes)
    ///     }
    ///
    ///     fn sent_all(&self) {
    ///         self.0.sent_all();
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let runtime = Arc::new(TokioRuntime::current());
    /// let config = SocketConfig::default();
    /// let socket = runtime.wrap(config.bind("127.0.0.1:0".parse()?)?, &config)?;
    /// let leaky = Arc::new(Leaky(socket, AtomicU64::new(0)));
    /// let identity = Identity::self_signed(["localhost"])?;
    /// let trust = Trust::pinned(identity.fingerprint());
    /// let server = Endpoint::over(runtime, leaky.clone(), Some(&ServerConfig::new(identity, &["echo/1"])?))?;
    ///
    /// let config = ClientConfig::new(trust, &["echo/1"])?;
    /// let client = Endpoint::client()?;
    /// let (ours, theirs) =
    ///     tokio::join!(client.connect(server.local_addr(), "localhost", &config), server.accept());
    /// let mut stream = theirs.ok_or("closed")?.open_uni().await?;
    /// stream.write_all(&[7; 200_000]).await?;
    /// stream.finish()?;
    /// assert_eq!(ours?.accept_uni().await?.read_to_end(200_000).await?, [7; 200_000]);
    /// assert!(leaky.1.load(Ordering::Relaxed) > 100);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the system has no entropy.
    pub fn over(
        runtime: Arc<dyn Runtime>,
        socket: Arc<dyn DatagramSocket>,
        server: Option<&ServerConfig>,
    ) -> io::Result<Self> {
        let estimates = Arc::default();
        let endpoint = endpoint_config(server)?;
        let server = server.map(|config| server_config(config, &estimates));
        let net = quickset_net::Endpoint::over(runtime, socket, endpoint, server)?;
        Ok(Self { net, estimates })
    }

    /// Returns the address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.net.local_addr()
    }

    /// Returns how many sockets the endpoint has on its port, each driven by a task of its own. It has as
    /// many as [`SocketConfig::sockets`] asks for, or fewer where the system refused some.
    pub fn sockets(&self) -> usize {
        self.net.sockets()
    }

    /// Does what [`rebind`](Self::rebind) does, on a socket that is already bound. This is for sockets that
    /// must be made in a special way: bound to a device, or protected from a VPN.
    ///
    /// # Errors
    /// See [`rebind`](Self::rebind).
    pub fn rebind_socket(&self, bound: std::net::UdpSocket, socket: &SocketConfig) -> io::Result<()> {
        self.net.rebind_socket(bound, socket)
    }

    /// Does what [`rebind`](Self::rebind) does, on a socket of any kind.
    ///
    /// # Errors
    /// When it is of IPv4 where the old one was of IPv6; that one is kept then.
    pub fn rebind_over(&self, socket: Arc<dyn DatagramSocket>) -> io::Result<()> {
        self.net.rebind_over(socket)
    }

    /// Moves the endpoint to a new socket on `address`, for example after a change of networks. Connections
    /// that began here tell their servers by themselves.
    ///
    /// Connections that were taken from clients do not survive it. An attempt to connect that is under way
    /// may time out if the server is not one of Quickset.
    ///
    /// # Errors
    /// When the socket cannot be bound, or is of IPv4 where the old one was of IPv6; that one is kept then.
    /// When the runtime of the endpoint has ended; this need not be called in it, nor in any other.
    pub fn rebind(&self, address: SocketAddr, socket: &SocketConfig) -> io::Result<()> {
        self.net.rebind(address, socket)
    }

    /// Connects to the server at `address`. `name` is the host name or address that the server's certificate
    /// is checked against; with a pinned key it is only sent to the server. Dropping the future gives up the
    /// attempt. It fails with a [`ConnectError`](crate::ConnectError).
    pub fn connect(&self, address: SocketAddr, name: &str, config: &ClientConfig) -> Connecting {
        let quic = config.quic();
        let config = quickset_quic::ClientConfig {
            crypto: quic.crypto.clone(),
            transport: sharing(&quic.transport, &self.estimates),
        };
        self.net.connect(address, name, &config)
    }

    /// Waits for the next connection of a client whose handshake is complete. If the endpoint takes [early
    /// data](ServerConfig::with_early_data), a connection with early data is returned before that. It returns
    /// `None` when the endpoint is closed, or if it takes no connections. Dropping the future loses nothing.
    pub async fn accept(&self) -> Option<Connection> {
        self.net.accept().await
    }

    /// Closes the endpoint and all its connections at once. The peers' applications get `code` and `reason`,
    /// of which 256 bytes are sent at most. [`wait_idle`](Self::wait_idle) returns when the peers have had
    /// time to hear of it.
    pub fn close(&self, code: u64, reason: &[u8]) {
        self.net.close(code, reason);
    }

    /// Waits until no connection is left: each was closed by either side, and the peer has had time to hear
    /// of it. A closed connection is left for three probe timeouts (RFC 9000 §10.2), a few round trips and
    /// some 100 ms, and says three times in that time that it is over.
    ///
    /// A client calls it before its runtime ends: without, a peer for which the one packet is lost waits for
    /// its idle timeout. It waits for open connections, too: close them, or see [`shutdown`](Self::shutdown).
    pub async fn wait_idle(&self) {
        self.net.wait_idle().await;
    }

    /// Takes no more connections, waits up to `patience` until the present ones end by themselves, and closes
    /// the rest with code 0, or with H3_NO_ERROR for HTTP/3. It returns whether all ended by themselves.
    pub async fn shutdown(&self, patience: Duration) -> bool {
        self.net.shutdown(patience).await
    }

    /// Does what [`shutdown`](Self::shutdown) does, and closes the rest with `code` and `reason`, of which
    /// 256 bytes are sent at most.
    pub async fn shutdown_with(&self, patience: Duration, code: u64, reason: &[u8]) -> bool {
        self.net.shutdown_with(patience, code, reason).await
    }

    /// Returns what the endpoint has counted so far.
    pub fn counters(&self) -> Counters {
        self.net.counters()
    }

    /// Returns what the endpoint and its connections have counted so far. It asks each connection, so call it
    /// now and then and not often.
    pub fn stats(&self) -> EndpointStats {
        self.net.stats()
    }

    /// Returns how many connections have not ended, with those in their handshake.
    pub fn connections(&self) -> usize {
        self.net.connections()
    }
}

fn server_config(config: &ServerConfig, estimates: &Arc<Estimates>) -> quickset_quic::ServerConfig {
    let quic = config.quic();
    quickset_quic::ServerConfig { transport: sharing(&quic.transport, estimates), ..quic }
}

fn endpoint_config(server: Option<&ServerConfig>) -> io::Result<EndpointConfig> {
    let mut master = [0; 32];
    let filled = provider::default_provider().secure_random.fill(&mut master);
    filled.map_err(|_| io::Error::other("the system has no entropy"))?;
    let secrets = EndpointSecrets::new(&master);
    let secrets = match server.and_then(ServerConfig::reset_key) {
        Some(key) => secrets.with_reset_key(key),
        None => secrets,
    };
    let secrets = match server.and_then(ServerConfig::token_key) {
        // A clock of before 1970 is as good as none.
        Some(key) => secrets.with_token_key(key, SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default()),
        None => secrets,
    };
    Ok(EndpointConfig { crypto: Arc::new(secrets), connection_id_len: 8, resets_per_second: 100 })
}
