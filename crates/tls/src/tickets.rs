//! Where a client keeps the sessions that it may resume.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use quickset_quic::Version;
use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// What a ticket is good for: only a connection with all of this in common resumes the one that it is of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TicketKey {
    /// The name of the server.
    pub server: String,
    /// The QUIC version (RFC 9369 §5).
    pub version: Version,
    /// The application protocols offered.
    pub alpn: Vec<Vec<u8>>,
    /// By what the server was believed, and what the client proved to be: chosen by whoever made the
    /// configuration.
    pub verifier: Vec<u8>,
}

/// A session to be resumed, with the server's transport parameters of then. Who has it can pretend to be the
/// client, and read its early data: it is a secret, and is not printed.
pub struct SessionTicket(Tls13ClientSessionValue);

/// Keeps tickets. Each is used once (RFC 8446 §C.4): two connections with the same one can be linked, and of
/// their early data a server takes that of one.
///
/// It is called in the middle of an endpoint's work, with its locks held: a store answers at once, writes to
/// a disk elsewhere, and uses no handle of the endpoint or its connections, which would wait for itself.
pub trait TicketStore: fmt::Debug + Send + Sync {
    /// Keeps a ticket. How many a server gives is for the server to say, so a store has a bound of its own.
    fn put(&self, key: &TicketKey, ticket: SessionTicket);

    /// Hands out a ticket and forgets it, best the newest.
    fn take(&self, key: &TicketKey) -> Option<SessionTicket>;
}

/// Keeps tickets in memory: of 256 keys, 4 of each. The oldest make room.
#[derive(Default)]
pub struct TicketMemory(Mutex<KeptTickets>);

#[derive(Default)]
struct KeptTickets {
    tickets: BTreeMap<TicketKey, VecDeque<SessionTicket>>,
    /// The keys, in the order in which they came.
    order: VecDeque<TicketKey>,
}

impl TicketStore for TicketMemory {
    fn put(&self, key: &TicketKey, ticket: SessionTicket) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !kept.tickets.contains_key(key) {
            if kept.order.len() >= MAX_KEYS {
                if let Some(oldest) = kept.order.pop_front() {
                    kept.tickets.remove(&oldest);
                }
            }
            kept.order.push_back(key.clone());
        }
        let tickets = kept.tickets.entry(key.clone()).or_default();
        tickets.push_back(ticket);
        if tickets.len() > MAX_EACH {
            tickets.pop_front();
        }
    }

    fn take(&self, key: &TicketKey) -> Option<SessionTicket> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).tickets.get_mut(key)?.pop_back()
    }
}

impl fmt::Debug for TicketMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TicketMemory(..)")
    }
}

impl fmt::Debug for SessionTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionTicket(..)")
    }
}

/// A store as rustls wants it, for one configuration.
pub(crate) struct TicketShelf {
    store: Arc<dyn TicketStore>,
    version: Version,
    alpn: Vec<Vec<u8>>,
    verifier: Vec<u8>,
    /// The key exchange that a server chose last, to be offered first.
    groups: Mutex<BTreeMap<String, NamedGroup>>,
}

impl TicketShelf {
    pub(crate) fn new(
        store: Arc<dyn TicketStore>,
        version: Version,
        alpn: Vec<Vec<u8>>,
        verifier: Vec<u8>,
    ) -> Self {
        Self { store, version, alpn, verifier, groups: Mutex::default() }
    }

    fn key(&self, server: &ServerName<'_>) -> TicketKey {
        let server = server.to_str().into_owned();
        TicketKey { server, version: self.version, alpn: self.alpn.clone(), verifier: self.verifier.clone() }
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<String, NamedGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ClientSessionStore for TicketShelf {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        let mut groups = self.groups();
        let server = server.to_str().into_owned();
        if groups.len() < MAX_KEYS || groups.contains_key(&server) {
            groups.insert(server, group);
        }
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.groups().get(&*server.to_str()).copied()
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.store.put(&self.key(&server), SessionTicket(value));
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.store.take(&self.key(server)).map(|ticket| ticket.0)
    }
}

/// Those of a connection: the one that it begins with a ticket of, and the one that it leaves tickets in.
#[derive(Debug)]
pub(crate) struct Shelves {
    each: [Arc<TicketShelf>; 2],
    is_second: AtomicBool,
}

impl Shelves {
    pub(crate) fn new(each: [Arc<TicketShelf>; 2], version: Version) -> Self {
        Self { each, is_second: AtomicBool::new(version == Version::V2) }
    }

    /// From now on it is of this version (RFC 9369 §5).
    pub(crate) fn turn(&self, version: Version) {
        self.is_second.store(version == Version::V2, Ordering::Relaxed);
    }

    fn shelf(&self) -> &TicketShelf {
        &self.each[usize::from(self.is_second.load(Ordering::Relaxed))]
    }
}

impl ClientSessionStore for Shelves {
    fn set_kx_hint(&self, server: ServerName<'static>, group: NamedGroup) {
        self.shelf().set_kx_hint(server, group);
    }

    fn kx_hint(&self, server: &ServerName<'_>) -> Option<NamedGroup> {
        self.shelf().kx_hint(server)
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, server: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.shelf().insert_tls13_ticket(server, value);
    }

    fn take_tls13_ticket(&self, server: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.shelf().take_tls13_ticket(server)
    }
}

impl fmt::Debug for TicketShelf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shelf").field("store", &self.store).finish_non_exhaustive()
    }
}

const MAX_KEYS: usize = 256;
const MAX_EACH: usize = 4;
