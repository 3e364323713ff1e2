use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use quickset_net::{Connecting, Connection, Counters, EndpointStats, SocketConfig};
use quickset_quic::{EndpointConfig, Estimates};
use quickset_tls::{EndpointSecrets, PeerCertificates};

use crate::transport::sharing;
use crate::{ClientConfig, Fingerprint, ServerConfig};

/// A UDP socket with any number of connections. Clones are handles of the same one.
///
/// It takes connections when it has the configuration of a server, and begins them in either case. A task of
/// the tokio runtime in which it was made drives it, until the last handle is gone and the last connection
/// has ended. All futures may be dropped at any point.
///
/// Its connections tell one another of the losses on the way to a peer ([`Estimates`]), unless the configuration names
/// another place for that.
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
    /// The peer of this connection, which has proved nothing before its handshake is through.
    pub fn of(connection: &Connection) -> Self {
        let certificates = connection.peer_identity().and_then(|chain| chain.downcast().ok());
        Self { certificates: certificates.map(|chain| *chain) }
    }

    /// Its chain of certificates, its own first; `None` when it showed none.
    pub fn certificates(&self) -> Option<&PeerCertificates> {
        self.certificates.as_ref()
    }

    /// What its key is known by; `None` when it showed no certificate.
    pub fn fingerprint(&self) -> Option<Fingerprint> {
        Fingerprint::of(self.certificates()?.first()?)
    }
}

impl Endpoint {
    /// An endpoint that takes connections on `address`. Port 0 picks a free one: see
    /// [`local_addr`](Self::local_addr). `[::]` takes IPv4 as well, where the system lets it.
    ///
    /// # Errors
    /// When the socket cannot be bound, or the system has no entropy.
    ///
    /// # Panics
    /// Outside of a tokio runtime with timers and I/O.
    pub fn server(address: SocketAddr, config: &ServerConfig) -> io::Result<Self> {
        Self::bind(address, &SocketConfig::default(), Some(config))
    }

    /// An endpoint that only begins connections, on any port of all addresses.
    ///
    /// # Errors
    /// See [`server`](Self::server).
    ///
    /// # Panics
    /// See [`server`](Self::server).
    pub fn client() -> io::Result<Self> {
        Ok(Self { net: quickset_net::Endpoint::client(endpoint_config(None)?)?, estimates: Arc::default() })
    }

    /// An endpoint on `address`, with a say in how its socket is used; it takes connections with `server` only.
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
        server: Option<&ServerConfig>,
    ) -> io::Result<Self> {
        let estimates = Arc::default();
        let endpoint = endpoint_config(server)?;
        let server = server.map(|config| server_config(config, &estimates));
        let net = quickset_net::Endpoint::with_socket(bound, socket, endpoint, server)?;
        Ok(Self { net, estimates })
    }

    /// The address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.net.local_addr()
    }

    /// [`rebind`](Self::rebind) to a socket that is bound already, for those that have to be made in a way of their own
    /// (bound to a device, protected from a VPN).
    ///
    /// # Errors
    /// See [`rebind`](Self::rebind).
    pub fn rebind_socket(&self, bound: std::net::UdpSocket, socket: &SocketConfig) -> io::Result<()> {
        self.net.rebind_socket(bound, socket)
    }

    /// Goes on with a new socket on `address`, after a change of networks for example: the connections that began here
    /// tell their servers by themselves. Those that were taken from clients do not survive it, and an attempt to connect that is
    /// under way may time out where the server is not one of ours.
    ///
    /// # Errors
    /// When the socket cannot be bound, or is of IPv4 where the old one was of IPv6; that one is kept then. When the runtime of
    /// the endpoint has ended; this need not be called in it, nor in any other.
    pub fn rebind(&self, address: SocketAddr, socket: &SocketConfig) -> io::Result<()> {
        self.net.rebind(address, socket)
    }

    /// Connects to the server at `address`. `name` is what its certificate is checked against, a host name or
    /// an address; with a pinned key it is only told to the server. The future is ready with the connection, or with a
    /// [`ConnectError`](crate::ConnectError); dropping it gives the attempt up.
    pub fn connect(&self, address: SocketAddr, name: &str, config: &ClientConfig) -> Connecting {
        let quic = config.quic();
        let config = quickset_quic::ClientConfig {
            crypto: quic.crypto.clone(),
            transport: sharing(&quic.transport, &self.estimates),
        };
        self.net.connect(address, name, &config)
    }

    /// The next connection of a client, its handshake complete, but for those whose
    /// [early data](ServerConfig::with_early_data) is taken: these come at once; `None` when the endpoint is closed, and at once
    /// when it takes none. Dropping the future loses nothing.
    pub async fn accept(&self) -> Option<Connection> {
        self.net.accept().await
    }

    /// Closes the endpoint and all its connections, at once, with a code and words (at most 256 bytes) for the
    /// peers' applications. [`wait_idle`](Self::wait_idle) tells when the peers had time to hear of it.
    pub fn close(&self, code: u64, reason: &[u8]) {
        self.net.close(code, reason);
    }

    /// Waits until no connection is left: each was closed, by either side, and the peer had time to hear of it.
    pub async fn wait_idle(&self) {
        self.net.wait_idle().await;
    }

    /// Takes no more connections, waits up to `patience` for those that there are to end by themselves, and
    /// closes the rest with code 0, those of HTTP/3 with H3_NO_ERROR. True when all ended by themselves.
    pub async fn shutdown(&self, patience: Duration) -> bool {
        self.net.shutdown(patience).await
    }

    /// The same, and closes the rest with a code and words (at most 256 bytes) for the peers' applications.
    pub async fn shutdown_with(&self, patience: Duration, code: u64, reason: &[u8]) -> bool {
        self.net.shutdown_with(patience, code, reason).await
    }

    /// What the endpoint did so far.
    pub fn counters(&self) -> Counters {
        self.net.counters()
    }

    /// What the endpoint and its connections did so far. Asks each connection: for now and then.
    pub fn stats(&self) -> EndpointStats {
        self.net.stats()
    }

    /// Connections that have not ended, those still in their handshake included.
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
    aws_lc_rs::rand::fill(&mut master).map_err(|_| io::Error::other("the system has no entropy"))?;
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
