//! Connections to one server: by QUIC, and by TCP where UDP does not get through (DT-58).

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use quickset::pki_types::ServerName;
use quickset::{
    ClientConfig, Closed, ConnectError, Connection, Endpoint, Fingerprint, Identity, Obstacle, Peer, Race,
    Side, Trust,
};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;

use super::meet::{MeetError, ServerTrust};
use crate::error::LinkError;
use crate::link::{LinkConfig, PeerLink};
use crate::message::{ALPN, code};
use crate::place;
use crate::tcp::{self, TCP_ALPN, TcpEnd, TcpFacts, TcpLink};
use crate::trust::{FileError, Known};

/// Makes connections to one server.
#[derive(Debug)]
pub(crate) struct Dialer {
    endpoint: Endpoint,
    /// HOST:PORT, as given.
    server: String,
    trust: ServerTrust,
    identity: Identity,
    link: LinkConfig,
    /// Where it answered the last time.
    last: Mutex<Option<SocketAddr>>,
}

impl Dialer {
    /// # Errors
    /// When there is no UDP socket.
    pub(super) fn new(
        server: String,
        trust: ServerTrust,
        identity: Identity,
        link: LinkConfig,
    ) -> std::io::Result<Self> {
        let endpoint = Endpoint::client()?;
        Ok(Self { endpoint, server, trust, identity, link, last: Mutex::default() })
    }

    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(super) fn server(&self) -> &str {
        &self.server
    }

    pub(super) fn trust(&self) -> &ServerTrust {
        &self.trust
    }

    /// A connection by whichever way is the first to have completed its handshake: QUIC has a start.
    ///
    /// # Errors
    /// When neither has: why not QUIC. At once when the server is somebody else.
    pub(super) async fn connect(&self) -> Result<PeerLink, MeetError> {
        let addresses = self.look_up().await?;
        let (failed, quic_failed) = tokio::sync::oneshot::channel();
        let mut failed = Some(failed);
        let quic = self.connect_any(&addresses);
        let tcp = async {
            let _ = timeout(TCP_AFTER, quic_failed).await;
            self.connect_by_tcp(&addresses).await
        };
        let (mut quic_error, mut tcp_is_over) = (None, false);
        // Why QUIC has failed is not kept from its user for long: the system may go on for minutes with a
        // host to which there is no way.
        let behind = sleep(Duration::MAX);
        tokio::pin!(quic, tcp, behind);
        loop {
            tokio::select! {
                biased;
                ended = &mut quic, if quic_error.is_none() => match ended {
                    Ok(connection) => return Ok(PeerLink::Gateway(connection)),
                    Err(error) if error.is_final() || tcp_is_over => return Err(error),
                    Err(error) => {
                        quic_error = Some(error);
                        failed.take().map(|failed| failed.send(()));
                        behind.set(sleep(TCP_BEHIND));
                    }
                },
                () = &mut behind => {
                    if let Some(error) = quic_error.take() {
                        return Err(error);
                    }
                }
                ended = &mut tcp, if !tcp_is_over => match (ended, quic_error.take()) {
                    (Ok(link), _) => return Ok(PeerLink::Tcp(link)),
                    (Err(error), quic_error) => {
                        tracing::debug!(server = %self.server, %error, "no connection by TCP");
                        tcp_is_over = true;
                        if let Some(error) = quic_error {
                            return Err(error);
                        }
                    }
                },
            }
        }
    }

    /// A connection by QUIC, as soon as there is one, for who has a session by TCP.
    pub(super) async fn back_by_quic(&self) -> PeerLink {
        let mut pause = FIRST_TRY;
        loop {
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_TRY);
            if let Ok(addresses) = self.look_up().await {
                match timeout(QUIC_WITHIN, self.connect_any(&addresses)).await {
                    Ok(Ok(connection)) => return PeerLink::Gateway(connection),
                    Ok(Err(error)) => tracing::debug!(server = %self.server, %error, "no connection by QUIC"),
                    Err(_) => tracing::debug!(server = %self.server, "QUIC does not get through"),
                }
            }
        }
    }

    /// A connection by TCP, once nothing comes by this one any more, though something should.
    pub(super) async fn instead_of(&self, connection: &Connection) -> PeerLink {
        let mut heard = Heard::new(connection);
        loop {
            sleep(LOOK).await;
            if !heard.is_silent(connection) {
                continue;
            }
            let attempt = async {
                let addresses = self.look_up().await.ok()?;
                timeout(TCP_WITHIN, self.connect_by_tcp(&addresses)).await.ok()?.ok()
            };
            match attempt.await {
                // DT-58: it may have come back meanwhile.
                Some(link) if heard.is_silent(connection) => return PeerLink::Tcp(link),
                Some(link) => link.close(code::DONE, b""),
                None => sleep(FIRST_TRY).await,
            }
        }
    }

    async fn look_up(&self) -> Result<Vec<SocketAddr>, MeetError> {
        let last = *self.last.lock().unwrap_or_else(PoisonError::into_inner);
        place::look_up(&self.server, last).await.map_err(|e| self.no_name(e))
    }

    /// By which name the server is known, without the zone of an address, which is where we are.
    fn name(&self) -> Result<String, MeetError> {
        let (host, _) = place::split(&self.server).map_err(|e| self.no_name(e))?;
        Ok(host.split('%').next().unwrap_or(host).to_owned())
    }

    fn config(&self, known: Option<&Known>) -> ClientConfig {
        client_config(self.believed(known), &self.link).with_identity(self.identity.clone())
    }

    /// The first that answers by TCP. Another key than the one believed in fails the handshake.
    async fn connect_by_tcp(&self, addresses: &[SocketAddr]) -> Result<TcpLink, LinkError> {
        let lost = |error: &dyn std::fmt::Display| LinkError::Tcp(error.to_string());
        let known = self.known().map_err(|error| lost(&error))?;
        let tls = TlsConnector::from(self.config(known.as_ref()).tls(&[TCP_ALPN]));
        let name = self.name().map_err(|error| lost(&error))?;
        let name = ServerName::try_from(name).map_err(|error| lost(&error))?;
        let race = Race::new(addresses, |address| {
            let (tls, name) = (tls.clone(), name.clone());
            async move {
                let attempt = async {
                    let socket = TcpStream::connect(address).await?;
                    tcp::prepare(&socket)?;
                    tls.connect(name, socket).await
                };
                timeout(TCP_WITHIN, attempt)
                    .await
                    .unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()))
            }
        });
        let stream = race.first(|_| 0).await.map_err(|error| match error {
            Some(error) => lost(&error),
            None => lost(&"it has no address"),
        })?;
        let session = stream.get_ref().1;
        if session.alpn_protocol() != Some(TCP_ALPN.as_bytes()) {
            return Err(lost(&"what answers there is no gateway"));
        }
        let remote = stream.get_ref().0.peer_addr().map_err(|error| lost(&error))?;
        let facts = TcpFacts::of(remote, session).ok_or(LinkError::Ended)?;
        Ok(TcpLink::start(stream, facts, TcpEnd::Client))
    }

    /// A connection to the first of the server's addresses that answers by QUIC.
    async fn connect_any(&self, addresses: &[SocketAddr]) -> Result<Connection, MeetError> {
        let (name, known) = (self.name()?, self.known()?);
        let config = self.config(known.as_ref());
        let endpoint = self.endpoint.clone();
        let mut race = Race::new(addresses, |address| endpoint.connect(address, &name, &config));
        let mut failed = None;
        while let Some((address, ended)) = race.next().await {
            match ended {
                Ok(connection) => {
                    *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
                    return Ok(connection);
                }
                Err(error) => {
                    // Another address is no way around another key.
                    self.judge(address, &name, known.as_ref(), &error).await?;
                    if failed.as_ref().is_none_or(|before| telling(before) <= telling(&error)) {
                        failed = Some(error);
                    }
                }
            }
        }
        Err(match failed {
            Some(error) => MeetError::Connect { server: self.server.clone(), error },
            None => self.no_name(std::io::ErrorKind::NotFound.into()),
        })
    }

    fn no_name(&self, error: std::io::Error) -> MeetError {
        MeetError::Name { server: self.server.clone(), error }
    }

    /// What is known of the server.
    fn known(&self) -> Result<Option<Known>, FileError> {
        match &self.trust {
            ServerTrust::Known(servers) => servers.look_up(&self.server),
            _ => Ok(None),
        }
    }

    fn believed(&self, known: Option<&Known>) -> Trust {
        match (&self.trust, known) {
            (ServerTrust::Pinned(pin), _) => Trust::pinned(*pin),
            (_, Some(known)) => Trust::pinned(known.fingerprint),
            // On first use nothing of value is sent before the key is known.
            (ServerTrust::Known(_) | ServerTrust::Anybody, None) => Trust::insecure(),
        }
    }

    /// Whether a handshake failed because the key is not the one expected: it does not tell which it is, so
    /// that takes another connection, on which we show nothing.
    async fn judge(
        &self,
        address: SocketAddr,
        name: &str,
        known: Option<&Known>,
        error: &ConnectError,
    ) -> Result<(), MeetError> {
        if !matches!(error, ConnectError::Failed(Closed::Failed(_))) {
            return Ok(());
        }
        let now = self.key_at(address, name).await;
        match (&self.trust, known, now) {
            (ServerTrust::Known(servers), Some(known), Some(now)) if known.fingerprint != now => {
                Err(MeetError::Changed(Box::new(servers.changed(&self.server, known, now))))
            }
            (ServerTrust::Pinned(pinned), _, Some(now)) if *pinned != now => {
                Err(MeetError::NotPinned { pinned: *pinned, now })
            }
            _ => Ok(()),
        }
    }

    /// The key of whoever answers, who is told nothing.
    async fn key_at(&self, address: SocketAddr, name: &str) -> Option<Fingerprint> {
        let config = client_config(Trust::insecure(), &self.link);
        let connection = self.endpoint.connect(address, name, &config).await.ok()?;
        let key = Peer::of(&connection).fingerprint();
        connection.close(code::DONE, b"");
        key
    }
}

/// When something came the last time by a connection.
struct Heard {
    datagrams: u64,
    at: Instant,
}

impl Heard {
    fn new(connection: &Connection) -> Self {
        Self { datagrams: connection.stats().received_datagrams, at: Instant::now() }
    }

    /// Whether something should have come long ago.
    fn is_silent(&mut self, connection: &Connection) -> bool {
        let stats = connection.stats();
        if stats.received_datagrams != self.datagrams {
            (self.datagrams, self.at) = (stats.received_datagrams, Instant::now());
        }
        stats.in_flight > 0 && self.at.elapsed() > SILENT + stats.rtt * 2
    }
}

fn client_config(trust: Trust, link: &LinkConfig) -> ClientConfig {
    let config = ClientConfig::new(trust, &[ALPN]).expect("the protocol has a name");
    let config = config.with_transport(link.transport(Side::Client));
    if link.key_log { config.with_key_log() } else { config }
}

/// Who answered tells more than a host where nobody listens, that more than who is silent, and that more than
/// an address to which there is no way, as there is often none of IPv6.
fn telling(error: &ConnectError) -> u8 {
    match error {
        ConnectError::Failed(Closed::Unreachable(refusal)) if refusal.obstacle == Obstacle::Port => 2,
        ConnectError::Failed(Closed::Unreachable(_)) => 0,
        ConnectError::Failed(Closed::TimedOut) => 1,
        _ => 3,
    }
}

/// How long QUIC has before TCP is tried beside it (RFC 8305 §8).
const TCP_AFTER: Duration = Duration::from_millis(250);
/// How long TCP still has once QUIC has failed.
const TCP_BEHIND: Duration = Duration::from_secs(2);
/// How long a handshake may take by either.
const TCP_WITHIN: Duration = Duration::from_secs(10);
const QUIC_WITHIN: Duration = Duration::from_secs(5);
/// From one try to the next.
const FIRST_TRY: Duration = Duration::from_secs(1);
const LONGEST_TRY: Duration = Duration::from_secs(15);
/// How long nothing may come before TCP is tried, besides two round trips.
const SILENT: Duration = Duration::from_millis(1500);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use quickset::ServerConfig;

    use super::*;

    #[tokio::test]
    async fn every_address_is_tried() {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let trust = ServerTrust::Pinned(identity.fingerprint());
        let here = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(here, &ServerConfig::new(identity, &[ALPN]).unwrap()).unwrap();
        let mine = Identity::self_signed(["client"]).unwrap();
        let mut dialer = Dialer::new("localhost:1".into(), trust, mine, LinkConfig::default()).unwrap();
        // Nobody can be reached at port 0.
        let dead: SocketAddr = "127.0.0.2:0".parse().unwrap();
        let connection = dialer.connect_any(&[dead, server.local_addr(), dead]).await.unwrap();
        assert_eq!(
            (connection.remote_address(), *dialer.last.lock().unwrap()),
            (server.local_addr(), Some(server.local_addr()))
        );
        let error = dialer.connect_any(&[dead, dead]).await.unwrap_err();
        assert!(matches!(error, MeetError::Connect { .. }), "{error}");
        // Another key is no reason to go on.
        dialer.trust = ServerTrust::Pinned(Fingerprint([7; 32]));
        let error = dialer.connect_any(&[server.local_addr(), dead]).await.unwrap_err();
        assert!(matches!(error, MeetError::NotPinned { .. }), "{error}");
    }

    #[tokio::test]
    async fn an_address_that_is_silent_is_not_waited_for() {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let trust = ServerTrust::Pinned(identity.fingerprint());
        let here = "127.0.0.1:0".parse().unwrap();
        let server = Endpoint::server(here, &ServerConfig::new(identity, &[ALPN]).unwrap()).unwrap();
        let mine = Identity::self_signed(["client"]).unwrap();
        let mut dialer = Dialer::new("localhost:1".into(), trust, mine, LinkConfig::default()).unwrap();
        // It takes what is sent there, and says nothing.
        let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (silent, there) = (silent.local_addr().unwrap(), server.local_addr());
        // One handshake after the other would take forty seconds.
        let addresses = [silent, silent, silent, silent, there];
        let met = timeout(Duration::from_secs(20), dialer.connect_any(&addresses)).await;
        assert_eq!(met.expect("it does not wait").unwrap().remote_address(), there);
        // Another key is told, whoever is silent beside it.
        dialer.trust = ServerTrust::Pinned(Fingerprint([7; 32]));
        let met = timeout(Duration::from_secs(20), dialer.connect_any(&[silent, there])).await;
        let error = met.expect("it does not wait").unwrap_err();
        assert!(matches!(error, MeetError::NotPinned { .. }), "{error}");
    }
}
