//! Clients and servers.

use std::collections::VecDeque;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use pyo3::prelude::*;
use quickset::{
    ClientAuth, ClientConfig, Closed, ConnectError, Connecting, Connection, EarlyData, Endpoint, Race,
    ServerConfig, SocketConfig,
};
use tokio::runtime::Handle;
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

/// What a client keeps of the servers that it was connected to: configurations by all that Python said of
/// them, each of which has its tickets. A ticket is good for the configuration that it came by alone.
#[pyclass(frozen, module = "quickset._native")]
pub(crate) struct NativeTickets(Mutex<VecDeque<(String, ClientConfig)>>);

#[pymethods]
impl NativeTickets {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }
}

impl NativeTickets {
    /// Returns the configuration of this name, which is made if there is none.
    fn config(&self, name: String, make: impl FnOnce() -> PyResult<ClientConfig>) -> PyResult<ClientConfig> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = kept.iter().find(|(known, _)| *known == name) {
            return Ok(config.clone());
        }
        let config = make()?;
        if kept.len() >= MAX_CONFIGS {
            kept.pop_front();
        }
        kept.push_back((name, config.clone()));
        Ok(config)
    }
}

/// Configurations that are kept; the oldest make room.
const MAX_CONFIGS: usize = 64;

/// Connects to the first of these addresses that answers. With tickets a session is resumed where there is
/// one, and if `early` the connection is returned before the server has answered.
#[expect(clippy::too_many_arguments, reason = "each is an argument in Python, too")]
#[pyfunction]
#[pyo3(signature = (bell, addresses, name, trust, shown, transport, tickets, early))]
pub(crate) fn connect(
    py: Python<'_>,
    bell: &EventBell,
    addresses: Vec<(String, u16)>,
    name: String,
    trust: GivenTrust,
    shown: (Vec<String>, Option<Py<NativeIdentity>>),
    transport: GivenTransport,
    tickets: Option<(Py<NativeTickets>, String)>,
    early: bool,
) -> PyResult<Py<PyAny>> {
    let addresses = addresses.into_iter().map(socket_address).collect::<PyResult<Vec<_>>>()?;
    let (protocols, identity) = shown;
    let make = || {
        let (transport, protection) = transport.read()?;
        let config = ClientConfig::new(trust.trust()?, &alpn(&protocols)).map_err(bad)?;
        let mut config = config.with_transport(transport);
        if let Some(protection) = protection {
            config = config.with_protection(protection);
        }
        if let Some(identity) = identity {
            config = config.with_identity(identity.get().0.clone());
        }
        // What is early, and that there are tickets, goes with one protocol. Nothing is sent early unless this
        // connection is to be.
        if early || (tickets.is_some() && protocols.len() == 1) {
            config = config.with_early_data(EarlyData::default()).map_err(bad)?;
        }
        Ok(config)
    };
    let config = match &tickets {
        Some((tickets, name)) => tickets.get().config(name.clone(), make)?,
        None => make()?,
    };
    let line = bell.line();
    line.running_loop(py)?;
    let handle = driver::handle()?;
    let (endpoint, begun) = {
        let _inside = handle.enter();
        let endpoint = Arc::new(Endpoint::client().map_err(system)?);
        driver::remember(&endpoint);
        let begun = addresses.first().filter(|_| early);
        let begun = begun.map(|&address| (address, endpoint.connect(address, &name, &config).into_early()));
        (endpoint, begun)
    };
    let mut begun: Option<(SocketAddr, Connecting)> = match begun {
        Some((_, Ok(connection))) => {
            driver::keep(&handle, &endpoint);
            return begin(py, &bell.line(), async move {
                Ok::<_, NoConnection>(Begun { connection, line, endpoint: Some(endpoint) })
            });
        }
        Some((address, Err(connecting))) => Some((address, connecting)),
        None => None,
    };
    let client = endpoint.clone();
    let race = handle.spawn(async move {
        // One that could not begin early goes on as the others do.
        let race = Race::new(&addresses, |address| match begun.take_if(|(there, _)| *there == address) {
            Some((_, connecting)) => connecting,
            None => client.connect(address, &name, &config),
        });
        let raced = race.first(telling).await;
        if raced.is_ok() {
            driver::keep(&Handle::current(), &client);
        }
        raced
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
    limits: (Option<bool>, Option<usize>, bool),
    transport: GivenTransport,
) -> PyResult<NativeServer> {
    let (transport, protection) = transport.read()?;
    let config = ServerConfig::new(identity.0.clone(), &alpn(&protocols)).map_err(bad)?;
    let (asks_clients, max_connections, early) = limits;
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
    if early {
        config = config.with_early_data(EarlyData::default());
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
