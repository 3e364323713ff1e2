//! From a URL to a connection with its server.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Context as _;
use quickset::h3::{self, Client};
use quickset::{ClientConfig, Closed, ConnectError, Connection, Endpoint, Obstacle};
use tokio::task::JoinSet;

use super::url::Url;

/// The server of a URL.
pub(crate) async fn connect(endpoint: &Endpoint, config: &ClientConfig, url: &Url) -> anyhow::Result<Client> {
    let found = tokio::net::lookup_host((&*url.host, url.port)).await;
    let addresses: Vec<SocketAddr> =
        found.with_context(|| format!("{} cannot be found; check its name", url.host))?.collect();
    let connection = first_of(endpoint, config, &addresses, url.name()).await;
    let connection = connection.with_context(|| format!("no connection to {}", url.authority))?;
    Ok(Client::new(&connection, h3::Config::default())?)
}

/// The first address that answers.
///
/// RFC 8305 §5: where one is silent the next is tried beside it, and whatever is there first is taken. Else a host whose address
/// of IPv6 leads nowhere would look as if it were down.
async fn first_of(
    endpoint: &Endpoint,
    config: &ClientConfig,
    addresses: &[SocketAddr],
    name: &str,
) -> anyhow::Result<Connection> {
    let mut addresses = addresses.iter();
    let mut attempts = JoinSet::new();
    let mut failed = None;
    loop {
        let next = addresses.next();
        if let Some(address) = next {
            attempts.spawn(endpoint.connect(*address, name, config));
        }
        let patience = if addresses.len() == 0 { Duration::MAX } else { HEAD_START };
        match tokio::time::timeout(patience, attempts.join_next()).await {
            Ok(Some(answer)) => match answer? {
                Ok(connection) => return Ok(connection),
                Err(error) if failed.as_ref().is_some_and(|before| telling(before) > telling(&error)) => {}
                Err(error) => failed = Some(error),
            },
            Ok(None) if next.is_none() => {
                return Err(failed.map_or_else(|| anyhow::anyhow!("it has no address"), explained));
            }
            // All that were begun have failed, or are silent.
            Ok(None) | Err(_) => {}
        }
    }
}

/// Who answered tells more than a host where nobody listens, that more than who is silent, and that more than an address to which
/// there is no way, as there is often none of IPv6.
fn telling(error: &ConnectError) -> u8 {
    match error {
        ConnectError::Failed(Closed::Unreachable(refusal)) if refusal.obstacle == Obstacle::Port => 2,
        ConnectError::Failed(Closed::Unreachable(_)) => 0,
        ConnectError::Failed(Closed::TimedOut) => 1,
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

/// How long an address is waited for before the next one is tried, too.
const HEAD_START: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::time::Instant;

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
        let long =
            TransportConfig { handshake_timeout: Duration::from_secs(60), ..TransportConfig::default() };
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
        let short =
            TransportConfig { handshake_timeout: Duration::from_secs(2), ..TransportConfig::default() };
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
        let short =
            TransportConfig { handshake_timeout: Duration::from_millis(300), ..TransportConfig::default() };
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
}
