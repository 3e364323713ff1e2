//! The two ends of a flow, as machines.
//!
//! A client opens a stream and writes a request of [`REQUEST`] bytes on it for each thing it wants. The
//! server answers bytes on the same stream, messages on a stream of its own. The first eight bytes of a
//! message say which it is: its group, and its place over all groups. Resources are asked for and answered by
//! HTTP/3, by a browser and a site, and so are videos, by viewers and the one origin of them all.

mod asking;
mod browser;
mod client;
mod origin;
mod outdated;
mod server;
mod site;
mod viewer;

use std::sync::Arc;

use quickset::{ConfigError, Identity, IdentityError, Trust};
use quickset_base::{Batch, Input, Machine, Poll, Reason, Rng, Time};
use quickset_quic::null::{NullClient, NullSecrets, NullServer};
use quickset_quic::{
    ClientConfig, ClientCrypto, Endpoint, EndpointConfig, EndpointCrypto, Node, RetryPolicy, ServerConfig,
    ServerCrypto, TransportConfig,
};

use quickset_tls::EndpointSecrets;

use super::{FlowSeen, PlayFlow, Work};
pub(crate) use browser::Browser;
pub(crate) use client::ClientActor;
pub(crate) use origin::Origin;
pub(crate) use server::ServerActor;
pub(crate) use site::SiteActor;
pub(crate) use viewer::ViewerActor;

/// One end of a flow.
pub(crate) enum Actor {
    Client(Box<ClientActor>),
    Server(Box<ServerActor>),
    Browser(Box<Browser>),
    Site(Box<SiteActor>),
    Viewer(Box<ViewerActor>),
    Origin(Box<Origin>),
}

/// What both ends do besides QUIC.
trait Application {
    fn node(&mut self) -> &mut Node;
    /// Takes the next event of the node; false when there was none.
    fn on_event(&mut self, now: Time) -> bool;
    /// Packets go out.
    fn on_sent(&mut self) {}
    /// Does what is due by now.
    fn on_time(&mut self, now: Time);
    /// When it wants to do something by itself.
    fn deadline(&self) -> Option<Time>;
}

/// The cryptography of a flow: none in virtual time, TLS in reality.
#[derive(Clone)]
pub(crate) struct FlowCredentials {
    pub(crate) client: Arc<dyn ClientCrypto>,
    pub(crate) server: Arc<dyn ServerCrypto>,
    pub(crate) secrets: [Arc<dyn EndpointCrypto>; 2],
}

impl FlowCredentials {
    /// The null session, with a certificate chain of usual length.
    pub(crate) fn null(seed: u64) -> Self {
        Self {
            client: Arc::new(NullClient::new(&[PROTOCOL])),
            server: Arc::new(NullServer::new(&[PROTOCOL]).with_certificate(CERTIFICATE)),
            secrets: [Arc::new(NullSecrets(seed)), Arc::new(NullSecrets(!seed))],
        }
    }

    /// TLS with a key made for this run, which the clients pin.
    pub(crate) fn tls(seed: u64) -> Result<Self, CredentialsError> {
        let protocol = std::str::from_utf8(PROTOCOL).expect("the name is ASCII");
        let identity = Identity::self_signed(["localhost"])?;
        let trust = Trust::pinned(identity.fingerprint());
        let client = quickset::ClientConfig::new(trust, &[protocol])?;
        let server = quickset::ServerConfig::new(identity, &[protocol])?;
        // Of an experiment on this machine nobody wants to forge resets.
        let secrets = [seed, !seed].map(|seed| {
            let mut master = [0; 32];
            Rng::new(seed).fill(&mut master);
            Arc::new(EndpointSecrets::new(&master)) as Arc<dyn EndpointCrypto>
        });
        Ok(Self { client: client.quic().crypto.clone(), server: server.quic().crypto, secrets })
    }

    fn endpoint(&self, side: usize) -> EndpointConfig {
        EndpointConfig { crypto: self.secrets[side].clone(), connection_id_len: 8, resets_per_second: 10 }
    }

    fn client_node(&self, transport: &TransportConfig, seed: u64) -> (Node, ClientConfig) {
        let config = ClientConfig { crypto: self.client.clone(), transport: Arc::new(transport.clone()) };
        (Node::new(Endpoint::new(self.endpoint(0), None, Rng::new(seed))), config)
    }

    fn server_node(&self, transport: &TransportConfig, clients: usize, seed: u64) -> Node {
        let config = ServerConfig {
            crypto: self.server.clone(),
            transport: Arc::new(transport.clone()),
            max_connections: clients.max(10),
            retry: RetryPolicy::Never,
            retry_token_lifetime: quickset_base::Duration::from_secs(10),
            gate: None,
            token_lifetime: quickset_base::Duration::from_secs(3600),
        };
        Node::new(Endpoint::new(self.endpoint(1), Some(config), Rng::new(seed)))
    }
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// No certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// No configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

impl Actor {
    fn application(&mut self) -> &mut dyn Application {
        match self {
            Self::Client(client) => &mut **client,
            Self::Server(server) => &mut **server,
            Self::Browser(browser) => &mut **browser,
            Self::Site(site) => &mut **site,
            Self::Viewer(viewer) => &mut **viewer,
            Self::Origin(origin) => &mut **origin,
        }
    }

    /// True when this end has nothing left to do.
    pub(crate) fn is_done(&self) -> bool {
        match self {
            Self::Client(client) => client.is_done(),
            Self::Server(server) => server.is_done(),
            Self::Browser(browser) => browser.is_done(),
            Self::Site(site) => site.is_done(),
            Self::Viewer(viewer) => viewer.is_done(),
            // Somebody may always come.
            Self::Origin(_) => false,
        }
    }

    /// Adds what this end knows to the record of a flow, the `n`-th of those that it has if it has several.
    pub(crate) fn tell(&mut self, n: usize, seen: &mut FlowSeen) {
        match self {
            Self::Client(client) => client.tell(seen),
            Self::Server(server) => server.tell(seen),
            Self::Browser(browser) => browser.tell(seen),
            Self::Site(site) => site.tell(seen),
            Self::Viewer(viewer) => viewer.tell(seen),
            Self::Origin(origin) => origin.tell(n, seen),
        }
    }
}

impl Machine for Actor {
    fn handle(&mut self, now: Time, input: Input<'_>) {
        self.application().node().handle(now, input);
    }

    fn poll(&mut self, now: Time, out: &mut Batch) -> Poll {
        let application = self.application();
        loop {
            if application.deadline().is_some_and(|at| at <= now) {
                application.on_time(now);
            }
            let poll = application.node().poll(now, out);
            let Poll::Sleep(wake, reason) = poll else {
                if poll == Poll::Event {
                    while application.on_event(now) {}
                    continue;
                }
                application.on_sent();
                return poll;
            };
            let own = application.deadline();
            if own.is_some_and(|at| at <= now) {
                continue;
            }
            return match (wake, own) {
                (wake, Some(own)) if wake.is_none_or(|wake| own < wake) => {
                    Poll::Sleep(Some(own), Reason::Application)
                }
                (wake, _) => Poll::Sleep(wake, reason),
            };
        }
    }
}

/// The end of a flow that asks; `index` tells flows of a run apart.
pub(crate) fn near(
    flow: &PlayFlow,
    credentials: &FlowCredentials,
    seed: u64,
    index: u64,
    server: std::net::SocketAddr,
) -> Actor {
    let seed = own_seed(seed, index);
    match &flow.work {
        Work::Visit(visit) => Actor::Browser(Box::new(Browser::new(flow, visit, credentials, seed, server))),
        Work::Watch(watch) => {
            Actor::Viewer(Box::new(ViewerActor::new(flow, watch, credentials, seed, server)))
        }
        Work::Bytes(_) | Work::Messages(_) => {
            Actor::Client(Box::new(ClientActor::new(flow, credentials, seed, server)))
        }
    }
}

/// The end of a flow that answers.
pub(crate) fn far(flow: &PlayFlow, credentials: &FlowCredentials, seed: u64, index: u64) -> Actor {
    let seed = own_seed(seed, index) + 1;
    match &flow.work {
        Work::Visit(visit) => Actor::Site(Box::new(SiteActor::new(flow, visit, credentials, seed))),
        Work::Watch(_) => Actor::Origin(Box::new(Origin::new(std::slice::from_ref(flow), credentials, seed))),
        Work::Bytes(_) | Work::Messages(_) => {
            Actor::Server(Box::new(ServerActor::new(flow, credentials, seed)))
        }
    }
}

/// The one end that answers all flows.
pub(crate) fn origin(flows: &[PlayFlow], credentials: &FlowCredentials, seed: u64) -> Actor {
    Actor::Origin(Box::new(Origin::new(flows, credentials, own_seed(seed, 0) + 1)))
}

/// Ends of their own seeds: connection ids and the order of frames must not repeat between flows.
fn own_seed(seed: u64, index: u64) -> u64 {
    seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index * 2)
}

/// The application protocol.
pub(crate) const PROTOCOL: &[u8] = b"quickset-lab/1";
/// Bytes of a request.
const REQUEST: usize = 32;
/// Bytes that say which message it is.
const HEADER: usize = 8;
/// Bytes of a small chain of certificates.
const CERTIFICATE: usize = 900;
