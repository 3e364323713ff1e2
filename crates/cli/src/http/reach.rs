//! From a URL to a connection with its server.

use std::io;
use std::net::SocketAddr;

use anyhow::Context as _;
use quickset::h3::{self, Client};
use quickset::{ClientConfig, Closed, ConnectError, Connection, Endpoint, Obstacle, Race};
use tokio::net::TcpStream;

use super::url::H3Url;

/// The server of a URL, by HTTP/3.
pub(crate) async fn connect(
    endpoint: &Endpoint,
    config: &ClientConfig,
    url: &H3Url,
) -> anyhow::Result<Client> {
    let connection = first_of(endpoint, config, &addresses(url).await?, url.name()).await;
    let connection = connection.with_context(|| format!("no connection to {}", url.authority))?;
    Ok(Client::new(&connection, h3::Config::default())?)
}

/// The same by TCP, to speak to it whatever is agreed.
pub(crate) async fn dial(url: &H3Url) -> anyhow::Result<TcpStream> {
    let socket = first_dialled(&addresses(url).await?).await;
    socket.with_context(|| format!("no connection to {}", url.authority))
}

async fn addresses(url: &H3Url) -> anyhow::Result<Vec<SocketAddr>> {
    let found = tokio::net::lookup_host((&*url.host, url.port)).await;
    Ok(found.with_context(|| format!("{} cannot be found; check its name", url.host))?.collect())
}

/// The first address that answers.
async fn first_of(
    endpoint: &Endpoint,
    config: &ClientConfig,
    addresses: &[SocketAddr],
    name: &str,
) -> anyhow::Result<Connection> {
    let race = Race::new(addresses, |address| endpoint.connect(address, name, config));
    race.first(telling).await.map_err(|error| error.map_or_else(no_address, explained))
}

async fn first_dialled(addresses: &[SocketAddr]) -> anyhow::Result<TcpStream> {
    let race = Race::new(addresses, TcpStream::connect::<SocketAddr>);
    race.first(telling_of_tcp).await.map_err(|error| error.map_or_else(no_address, anyhow::Error::new))
}

fn no_address() -> anyhow::Error {
    anyhow::anyhow!("it has no address")
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

/// The same of TCP.
fn telling_of_tcp(error: &io::Error) -> u8 {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => 2,
        io::ErrorKind::TimedOut => 1,
        io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::AddrNotAvailable => 0,
        _ => 3,
    }
}

/// What to do where it is the certificate that is not believed.
fn explained(error: ConnectError) -> anyhow::Error {
    match &error {
        // As rustls begins what it says of all of them.
        ConnectError::Failed(Closed::Failed(why)) if why.reason.starts_with("invalid peer certificate") => {
            anyhow::anyhow!(
                "{error}; if it is the right server, pin its key with --pin, or name who vouches for it with --ca"
            )
        }
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    use quickset::{Identity, ServerConfig, TransportConfig, Trust};

    use super::*;

    #[tokio::test]
    async fn an_address_that_is_silent_is_not_waited_for() {
        let identity = Identity::self_signed(["localhost"]).unwrap();
        let trust = Trust::pinned(identity.fingerprint());
        let server = ServerConfig::new(identity, &[h3::ALPN]).unwrap();
        let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &server).unwrap();
        // It takes what is sent there, and says nothing.
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let long = TransportConfig::default().with_handshake_timeout(Duration::from_secs(60));
        let config = ClientConfig::new(trust, &[h3::ALPN]).unwrap().with_transport(long);
        let client = Endpoint::client().unwrap();
        let (silent, there) = (silent.local_addr().unwrap(), server.local_addr());
        for addresses in [vec![silent, there], vec![silent, silent, there], vec![there, silent], vec![there]]
        {
            let began = Instant::now();
            let connection = first_of(&client, &config, &addresses, "localhost").await.unwrap();
            assert_eq!(connection.remote_address(), there);
            assert!(began.elapsed() < Duration::from_secs(30), "{addresses:?}: {:?}", began.elapsed());
        }
    }

    #[tokio::test]
    async fn a_certificate_that_is_not_believed_is_told_with_the_next_step() {
        let [identity, other] = [(); 2].map(|()| Identity::self_signed(["localhost"]).unwrap());
        let server = ServerConfig::new(identity, &[h3::ALPN]).unwrap();
        let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &server).unwrap();
        let trust = Trust::roots(other.certificate_pem()).unwrap();
        let config = ClientConfig::new(trust, &[h3::ALPN]).unwrap();
        let client = Endpoint::client().unwrap();
        // Who is silent beside it does not hide that.
        let open = UdpSocket::bind("127.0.0.1:0").unwrap();
        let silent = open.local_addr().unwrap();
        let short = TransportConfig::default().with_handshake_timeout(Duration::from_secs(2));
        let config = config.with_transport(short);
        for addresses in [vec![server.local_addr()], vec![silent, server.local_addr()]] {
            let error = first_of(&client, &config, &addresses, "localhost").await.unwrap_err();
            let said = error.to_string();
            assert!(
                said.contains("certificate") && said.contains("--pin") && said.contains("--ca"),
                "{said}"
            );
        }
    }

    #[tokio::test]
    async fn when_all_fail_the_last_says_why() {
        let short = TransportConfig::default().with_handshake_timeout(Duration::from_millis(300));
        let config = ClientConfig::new(Trust::insecure(), &[h3::ALPN]).unwrap().with_transport(short);
        let client = Endpoint::client().unwrap();
        let open = UdpSocket::bind("127.0.0.1:0").unwrap();
        let silent = open.local_addr().unwrap();
        let error = first_of(&client, &config, &[silent, silent], "localhost").await.unwrap_err();
        assert!(error.to_string().contains("does not answer"), "{error:#}");
        #[cfg(target_os = "linux")]
        {
            // Nobody listens there, and the host says so.
            let closed = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            for addresses in [[closed, silent], [silent, closed]] {
                let error = first_of(&client, &config, &addresses, "localhost").await.unwrap_err();
                assert!(error.to_string().contains("Connection refused"), "{error:#}");
            }
        }
        let error = first_of(&client, &config, &[], "localhost").await.unwrap_err();
        assert!(error.to_string().contains("no address"), "{error:#}");
    }
    /// A listener takes what waits for it, and nothing is heard of what does not fit: as if it were no
    /// address of anybody.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_address_of_tcp_that_is_silent_is_not_waited_for() {
        let listening = || std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let full = listening();
        // RFC 9293 leaves it to the system; Linux takes one more than it is told.
        socket2::SockRef::from(&full).listen(0).unwrap();
        let silent = full.local_addr().unwrap();
        let _waits = std::net::TcpStream::connect(silent).unwrap();
        let open = listening();
        let there = open.local_addr().unwrap();
        // Nobody listens there, and the host says so.
        let closed = listening().local_addr().unwrap();
        for addresses in [
            vec![silent, there],
            vec![silent, silent, silent, there],
            vec![closed, silent, there],
            vec![there, silent],
        ] {
            let dialled = tokio::time::timeout(Duration::from_secs(30), first_dialled(&addresses)).await;
            assert_eq!(dialled.expect("it does not wait").unwrap().peer_addr().unwrap(), there);
        }
        let error = first_dialled(&[closed]).await.unwrap_err();
        assert!(error.to_string().contains("Connection refused"), "{error:#}");
        let error = first_dialled(&[]).await.unwrap_err();
        assert!(error.to_string().contains("no address"), "{error:#}");
    }

    /// Who listens nowhere tells more than an address to which there is no way.
    #[test]
    fn what_answers_tells_more_than_what_does_not() {
        let told = [
            io::ErrorKind::HostUnreachable,
            io::ErrorKind::TimedOut,
            io::ErrorKind::ConnectionRefused,
            io::ErrorKind::PermissionDenied,
        ];
        assert!(told.map(|kind| telling_of_tcp(&kind.into())).is_sorted_by(|a, b| a < b));
    }
}
