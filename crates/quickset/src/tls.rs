use std::sync::Arc;

use quickset_tls::provider::Ticketer;
use rustls::server::{NoServerSessionStorage, ServerSessionMemoryCache};

use crate::foreign;
use crate::groups::{Groups, KeyGroup};
use crate::identity::Present;
use crate::trust::KeyHolder;
use crate::{ClientAuth, ConfigError, Identity, Trust};

/// Where an endpoint's TLS comes from: made of whom it believes and the groups of its key exchange, or a
/// configuration of rustls.
#[derive(Clone, Debug)]
pub(crate) enum EndpointTls<Belief, Rustls> {
    Own(Belief, Groups),
    Foreign(Arc<Rustls>),
}

/// A server's.
pub(crate) type ServerTls = EndpointTls<ClientAuth, rustls::ServerConfig>;

/// A client's.
pub(crate) type ClientTls = EndpointTls<Trust, rustls::ClientConfig>;

impl<Belief, Rustls> EndpointTls<Belief, Rustls> {
    pub(crate) fn set_groups(&mut self, groups: &[KeyGroup]) -> Result<(), ConfigError> {
        match self {
            Self::Own(_, ours) => *ours = Groups::new(groups)?,
            Self::Foreign(_) => return Err(ConfigError::OwnProvider),
        }
        Ok(())
    }
}

impl ServerTls {
    /// Without early data, whose register of tickets is one of each endpoint.
    pub(crate) fn server(&self, identity: Arc<Present>) -> rustls::ServerConfig {
        let mut tls = match self {
            Self::Foreign(tls) => foreign::server(tls),
            Self::Own(clients, groups) => own_server(*clients, groups, identity.clone()),
        };
        tls.cert_resolver = identity;
        tls
    }
}

impl ClientTls {
    /// Without early data.
    pub(crate) fn client(&self, identity: Option<&Identity>) -> rustls::ClientConfig {
        let mut tls = match self {
            Self::Own(trust, groups) => trust.client(groups).with_no_client_auth(),
            Self::Foreign(tls) => foreign::client(tls),
        };
        if let Some(identity) = identity {
            tls.client_auth_cert_resolver = identity.resolver();
        }
        tls
    }
}

fn own_server(clients: ClientAuth, groups: &Groups, identity: Arc<Present>) -> rustls::ServerConfig {
    let builder = rustls::ServerConfig::builder_with_provider(groups.provider())
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("the provider has TLS 1.3");
    let builder = match clients {
        ClientAuth::None => builder.with_no_client_auth(),
        ClientAuth::Optional => builder.with_client_cert_verifier(KeyHolder::of_clients(false)),
        ClientAuth::Mandatory => builder.with_client_cert_verifier(KeyHolder::of_clients(true)),
    };
    let mut tls = builder.with_cert_resolver(identity);
    // Tickets that carry their session, so that a busy server forgets no client. Their keys are those of one
    // endpoint: what one that asks for no certificate gave is nothing to one that insists. Without entropy
    // sessions are kept here.
    match Ticketer::new() {
        Ok(ticketer) => {
            tls.ticketer = ticketer;
            tls.session_storage = Arc::new(NoServerSessionStorage {});
        }
        Err(_) => tls.session_storage = ServerSessionMemoryCache::new(SESSIONS),
    }
    tls
}

/// Sessions that a server remembers for early data; with a client's certificate, each is some hundred bytes
/// to a few thousand.
pub(crate) const SESSIONS: usize = 4096;
