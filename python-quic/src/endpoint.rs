//! Clients and servers.

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use pyo3::prelude::*;
use quickset::{
    ClientAuth, ClientConfig, Closed, ConnectError, Connection, Endpoint, Race, ServerConfig, SocketConfig,
};
use tokio::task::JoinHandle;

use crate::bell::{BellLine, EventBell};
use crate::bytes_of::GivenBytes;
use crate::config::{GivenTransport, GivenTrust, NativeIdentity, SharedEndpoint, alpn, code};
use crate::connection::Begun;
use crate::driver;
use crate::errors::{Raise, bad, system};
use crate::operation::{Answer, begin};
use crate::parental::Parental;

/// An endpoint that takes connections.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeServer {
    endpoint: Parental<SharedEndpoint>,
    line: Arc<BellLine>,
    config: ServerConfig,
}

/// Connects to the first of these addresses that answers.
#[pyfunction]
#[pyo3(signature = (bell, addresses, name, trust, shown, transport))]
pub(crate) fn connect(
    py: Python<'_>,
    bell: &EventBell,
    addresses: Vec<(String, u16)>,
    name: String,
    trust: GivenTrust,
    shown: (Vec<String>, Option<Py<NativeIdentity>>),
    transport: GivenTransport,
) -> PyResult<Py<PyAny>> {
    let addresses = addresses.into_iter().map(socket_address).collect::<PyResult<Vec<_>>>()?;
    let (protocols, identity) = shown;
    let (transport, protection) = transport.read()?;
    let mut config =
        ClientConfig::new(trust.trust()?, &alpn(&protocols)).map_err(bad)?.with_transport(transport);
    if let Some(protection) = protection {
        config = config.with_protection(protection);
    }
    if let Some(identity) = identity {
        config = config.with_identity(identity.get().0.clone());
    }
    let line = bell.line();
    line.running_loop(py)?;
    let handle = driver::handle()?;
    let endpoint = {
        let _inside = handle.enter();
        Arc::new(Endpoint::client().map_err(system)?)
    };
    driver::remember(&endpoint);
    let client = endpoint.clone();
    let race = handle.spawn(async move {
        let race = Race::new(&addresses, |address| client.connect(address, &name, &config));
        race.first(telling).await
    });
    begin(py, &bell.line(), async move {
        let connection = Racing(race).await?;
        Ok::<_, NoConnection>(Begun { connection, line, endpoint: Some(endpoint) })
    })
}

/// Makes an endpoint that takes connections on an address.
#[pyfunction]
#[pyo3(signature = (bell, address, identity, protocols, limits, transport))]
pub(crate) fn serve(
    py: Python<'_>,
    bell: &EventBell,
    address: (String, u16),
    identity: &NativeIdentity,
    protocols: Vec<String>,
    limits: (Option<bool>, Option<usize>),
    transport: GivenTransport,
) -> PyResult<NativeServer> {
    let (transport, protection) = transport.read()?;
    let config = ServerConfig::new(identity.0.clone(), &alpn(&protocols)).map_err(bad)?;
    let (asks_clients, max_connections) = limits;
    let clients = match asks_clients {
        None => ClientAuth::None,
        Some(false) => ClientAuth::Optional,
        Some(true) => ClientAuth::Mandatory,
    };
    let mut config = config.with_transport(transport).with_client_auth(clients).map_err(bad)?;
    if let Some(protection) = protection {
        config = config.with_protection(protection);
    }
    if let Some(most) = max_connections {
        config = config.with_max_connections(most);
    }
    let line = bell.line();
    line.running_loop(py)?;
    let handle = driver::handle()?;
    let _inside = handle.enter();
    let endpoint = Endpoint::bind(socket_address(address)?, &SocketConfig::default(), Some(&config))?;
    let endpoint = Arc::new(endpoint);
    driver::remember(&endpoint);
    Ok(NativeServer { endpoint: Parental::new(endpoint), line, config })
}

#[pymethods]
impl NativeServer {
    /// The next connection, or `None` when the endpoint is closed.
    fn accept(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let (endpoint, line) = (self.endpoint.cloned(py)?, self.line.clone());
        begin(py, &self.line, async move {
            let accepted = endpoint.accept().await;
            Ok::<_, Closed>(accepted.map(|connection| Begun { connection, line, endpoint: None }))
        })
    }

    fn address(&self, py: Python<'_>) -> PyResult<(String, u16)> {
        let address = self.endpoint.get(py)?.local_addr();
        Ok((address.ip().to_string(), address.port()))
    }

    fn connections(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.endpoint.get(py)?.connections())
    }

    fn close(&self, py: Python<'_>, code: u64, reason: GivenBytes) -> PyResult<()> {
        self.endpoint.get(py)?.close(self::code(code)?, &reason.0);
        Ok(())
    }

    /// Changes who the server proves to be, from the next handshake on.
    fn set_identity(&self, identity: &NativeIdentity) {
        self.config.set_identity(identity.0.clone());
    }

    /// Waits until no connection is left and the peers have heard of it.
    fn wait_idle(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let endpoint = self.endpoint.cloned(py)?;
        begin(py, &self.line, async move {
            endpoint.wait_idle().await;
            Ok::<_, Closed>(())
        })
    }
}

impl Answer for Option<Begun> {
    fn answer(self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.map_or_else(|| Ok(py.None()), |begun| begun.answer(py))
    }
}

/// A race on the driver's thread; it ends when this is dropped.
struct Racing(JoinHandle<Result<Connection, Option<ConnectError>>>);

/// Why there is no connection.
enum NoConnection {
    Error(ConnectError),
    NoAddress,
    DriverGone,
}

impl Future for Racing {
    type Output = Result<Connection, NoConnection>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(match ready!(Pin::new(&mut self.0).poll(cx)) {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(Some(error))) => Err(NoConnection::Error(error)),
            Ok(Err(None)) => Err(NoConnection::NoAddress),
            Err(_) => Err(NoConnection::DriverGone),
        })
    }
}

impl Drop for Racing {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Raise for NoConnection {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Error(error) => error.raise(py),
            Self::NoAddress => system("the host has no address"),
            Self::DriverGone => system("the thread that drives connections has ended"),
        }
    }
}

/// Who answers tells more than who is silent, and who is silent more than what cannot be reached from here.
fn telling(error: &ConnectError) -> u8 {
    match error {
        ConnectError::Failed(Closed::TimedOut) => 1,
        ConnectError::Failed(Closed::Unreachable(_)) => 2,
        ConnectError::Failed(_) => 3,
        _ => 0,
    }
}

fn socket_address((host, port): (String, u16)) -> PyResult<SocketAddr> {
    // IPv6 addresses of a link have a zone, as getaddrinfo writes it.
    let bracketed = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    bracketed.parse().map_err(|_| bad(format!("{host} is no IP address")))
}
