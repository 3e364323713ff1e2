use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::time::Instant;

use bytes::Bytes;
use quickset_base::{Path, Time};
use quickset_quic::{self as quic, ClientConfig, TransportConfig, Version};

use crate::calls::Calls;
use crate::census::Census;
use crate::connection::Connection;
use crate::error::ConnectError;
use crate::shared::{News, Shared};
use crate::socket::{self, Bound, Socket};
use crate::wakers::Crowd;

/// What the handles of an endpoint and its driver share.
///
/// Locks are taken in this order, and none of them for longer than a few microseconds but the router's:
/// router, connection, and then one of the others.
pub(crate) struct Hub {
    /// Where the socket is that is in use, or will be at the driver's next turn. The socket itself is the driver's, and goes
    /// with it: whoever keeps a handle of a connection keeps no port.
    bound: Mutex<Bound>,
    started: Instant,
    router: Mutex<quic::Endpoint>,
    requests: Mutex<Requests>,
    lobby: Mutex<Lobby>,
    census: Mutex<Census>,
    calls: Arc<Calls>,
}

/// What handles want of the driver.
#[derive(Default)]
struct Requests {
    ready: Vec<Arc<Shared>>,
    close: Option<Farewell>,
    /// The endpoint goes on with another socket.
    rebound: Option<Socket>,
    /// Set while the driver sleeps or is on its way there.
    driver: Option<Waker>,
    /// The driver has ended: nothing is kept for it.
    ended: bool,
}

/// What connections are closed with.
#[derive(Clone)]
pub(crate) struct Farewell {
    /// `None` is, for each, what its protocol calls no error.
    pub(crate) code: Option<u64>,
    pub(crate) reason: Bytes,
}

/// What handles want of the driver for all connections.
pub(crate) struct Wishes {
    /// They are to be closed.
    pub(crate) close: Option<Farewell>,
    /// They go on over this socket.
    pub(crate) rebound: Option<Socket>,
}

/// Who comes and goes.
pub(crate) struct Lobby {
    /// Connections are taken and made.
    pub(crate) open: bool,
    /// The handles of the endpoint.
    pub(crate) endpoints: usize,
    /// Connections that have not drained.
    pub(crate) live: usize,
    pub(crate) accepted: VecDeque<Connection>,
    pub(crate) acceptors: Crowd,
    /// Tasks that wait for `live` to be 0.
    pub(crate) idlers: Crowd,
    tokens: Tokens,
}

impl Hub {
    pub(crate) fn new(bound: Bound, router: quic::Endpoint) -> Self {
        let lobby = Lobby {
            open: true,
            endpoints: 0,
            live: 0,
            accepted: VecDeque::new(),
            acceptors: Crowd::default(),
            idlers: Crowd::default(),
            tokens: Tokens::default(),
        };
        Self {
            bound: Mutex::new(bound),
            started: Instant::now(),
            router: Mutex::new(router),
            requests: Mutex::default(),
            lobby: Mutex::new(lobby),
            census: Mutex::default(),
            calls: Arc::default(),
        }
    }

    /// The time since the endpoint began.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        Time::ZERO + self.started.elapsed()
    }

    /// When `time` is, for the runtime's timers.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.started + time.since(Time::ZERO)
    }

    /// A time of the program's clock, as connections know it.
    pub(crate) fn time(&self, instant: Instant) -> Time {
        Time::ZERO + instant.saturating_duration_since(self.started)
    }

    /// Where the socket is.
    pub(crate) fn bound(&self) -> Bound {
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver goes on with another socket.
    pub(crate) fn rebind(&self, socket: Socket) {
        let bound = socket.bound();
        let driver = {
            let mut requests = self.requests();
            if requests.ended {
                return;
            }
            requests.rebound = Some(socket);
            *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = bound;
            requests.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// What calls of the system carried.
    pub(crate) fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    pub(crate) fn router(&self) -> MutexGuard<'_, quic::Endpoint> {
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lobby(&self) -> MutexGuard<'_, Lobby> {
        self.lobby.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn census(&self) -> MutexGuard<'_, Census> {
        self.census.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the driver to poll a connection. Once per connection and turn: see [`Shared::nudge`]. The connection is not
    /// locked.
    pub(crate) fn ready(&self, shared: Arc<Shared>) {
        if let Err(shared) = self.ring(shared) {
            // The driver did not know of one that has just begun.
            let mut news = News::default();
            shared.lock().abandon(self.now(), &mut news);
            news.wake();
        }
    }

    /// The same, which takes no lock of a connection's.
    ///
    /// # Errors
    /// When the driver has ended: the connection.
    pub(crate) fn ring(&self, shared: Arc<Shared>) -> Result<(), Arc<Shared>> {
        let driver = {
            let mut requests = self.requests();
            if requests.ended {
                return Err(shared);
            }
            requests.ready.push(shared);
            requests.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
        Ok(())
    }

    /// Asks the driver to close all connections, or with `None` to look whether it is still needed.
    pub(crate) fn wake_driver(&self, close: Option<Farewell>) {
        let driver = {
            let mut requests = self.requests();
            requests.close = close.or(requests.close.take());
            requests.driver.take()
        };
        if let Some(driver) = driver {
            driver.wake();
        }
    }

    /// The driver's side: takes what was asked for, and leaves its waker for what comes later.
    pub(crate) fn take_requests(&self, cx: &Context<'_>, ready: &mut Vec<Arc<Shared>>) -> Wishes {
        let mut requests = self.requests();
        if requests.driver.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            requests.driver = Some(cx.waker().clone());
        }
        ready.append(&mut requests.ready);
        Wishes { close: requests.close.take(), rebound: requests.rebound.take() }
    }

    /// The driver's last word: handles that are still there talk to nobody.
    pub(crate) fn driver_ended(&self) -> Vec<Arc<Shared>> {
        let mut requests = self.requests();
        requests.ended = true;
        requests.rebound = None;
        std::mem::take(&mut requests.ready)
    }

    /// Begins a connection.
    pub(crate) fn connect(
        self: &Arc<Self>,
        remote: SocketAddr,
        server_name: &str,
        config: &ClientConfig,
    ) -> Result<Connection, ConnectError> {
        let remote = socket::canonical(remote);
        if !self.bound().reaches(remote) {
            return Err(ConnectError::Family(remote));
        }
        let token = {
            let mut lobby = self.lobby();
            if !lobby.open {
                return Err(ConnectError::Stopped);
            }
            lobby.live += 1;
            // RFC 9000 §8.1.3: a token is used once, so that nobody can link connections by it.
            lobby.tokens.take(server_name, &config.transport)
        };
        let begun = match token {
            // What the server went on in the last time, it can be begun in, and its token is good in nothing else.
            Some((version, token)) if config.transport.begins_in() != Some(version) => {
                let transport =
                    TransportConfig { first_version: Some(version), ..(*config.transport).clone() };
                let config = ClientConfig { transport: Arc::new(transport), ..config.clone() };
                self.begin(remote, server_name, &config, token)
            }
            Some((_, token)) => self.begin(remote, server_name, config, token),
            None => self.begin(remote, server_name, config, Vec::new()),
        };
        if begun.is_err() {
            self.one_less();
        }
        begun
    }

    fn begin(
        self: &Arc<Self>,
        remote: SocketAddr,
        server_name: &str,
        config: &ClientConfig,
        token: Vec<u8>,
    ) -> Result<Connection, ConnectError> {
        let (key, start) = self.router().connect(self.now(), config, Path::to(remote), server_name, token)?;
        let conn = quic::Connection::new(start).map_err(|error| {
            self.router().signal(key, quic::Signal::Drained);
            ConnectError::Failed(quic::Closed::Failed(error))
        })?;
        let shared = Arc::new(Shared::new(key, self.clone(), conn, Some(server_name.to_owned())));
        self.census().enter(&shared);
        shared.heed_recalls();
        shared.nudge();
        Ok(Connection::new(shared))
    }

    /// A connection has drained.
    pub(crate) fn one_less(&self) {
        let mut woken = Vec::new();
        {
            let mut lobby = self.lobby();
            // A driver that ends takes all with it, also what is just beginning.
            lobby.live = lobby.live.saturating_sub(1);
            if lobby.live == 0 {
                lobby.idlers.drain_to(&mut woken);
            }
        }
        woken.into_iter().for_each(Waker::wake);
    }

    /// Keeps a token for the next connection to a server.
    pub(crate) fn keep_token(&self, server_name: String, version: Version, token: Vec<u8>) {
        self.lobby().tokens.keep(server_name, version, token);
    }
}

impl Lobby {
    /// Nobody has accepted this connection, and nothing is left of it to accept: else peers that come and go would fill the
    /// lobby, while only those that are there count against the limit.
    #[must_use = "it takes locks when it is dropped"]
    pub(crate) fn take_back(&mut self, shared: &Arc<Shared>) -> Option<Connection> {
        let at = self.accepted.iter().position(|waiting| Arc::ptr_eq(waiting.shared(), shared))?;
        self.accepted.remove(at)
    }
}

/// Address validation tokens, in the order in which they came, each with the server that gave it and the version of its
/// connection. The oldest make room.
#[derive(Default)]
struct Tokens(VecDeque<(String, Version, Vec<u8>)>);

impl Tokens {
    fn keep(&mut self, server: String, version: Version, token: Vec<u8>) {
        let is_of = |(of, ..): &(String, Version, Vec<u8>)| *of == server;
        if self.0.iter().filter(|kept| is_of(kept)).count() >= TOKENS_EACH {
            let oldest = self.0.iter().position(is_of);
            oldest.and_then(|at| self.0.remove(at));
        } else if self.0.len() >= MAX_TOKENS {
            self.0.pop_front();
        }
        self.0.push_back((server, version, token));
    }

    /// The token for a connection, best of the version that it would begin in anyway, and the newest. RFC 9369 §5: one of a
    /// connection of another version is no token.
    fn take(&mut self, server: &str, transport: &TransportConfig) -> Option<(Version, Vec<u8>)> {
        let newest = |fits: &dyn Fn(Version) -> bool| {
            self.0.iter().rposition(|(of, version, _)| of == server && fits(*version))
        };
        let begins_in = transport.begins_in();
        let at = newest(&|version| Some(version) == begins_in)
            .or_else(|| newest(&|version| transport.versions.contains(&version)))?;
        self.0.remove(at).map(|(_, version, token)| (version, token))
    }
}

/// Tokens that are kept in all, and of a server.
const MAX_TOKENS: usize = 512;
const TOKENS_EACH: usize = 2;

#[cfg(test)]
mod tests {
    use quickset_base::{Rng, Seed};
    use quickset_quic::EndpointConfig;
    use quickset_quic::null::NullSecrets;

    use super::*;

    fn hub() -> Hub {
        let crypto = Arc::new(NullSecrets(1));
        let config = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 0 };
        let bound = Bound { address: ([127, 0, 0, 1], 1).into(), v4: true };
        Hub::new(bound, quic::Endpoint::new(config, None, Rng::new(Seed([0; 32]))))
    }

    fn take(hub: &Hub, server: usize) -> Option<Vec<u8>> {
        hub.lobby().tokens.take(&server.to_string(), &TransportConfig::default()).map(|(_, token)| token)
    }

    #[test]
    fn tokens_of_the_servers_that_gave_some_last_are_kept() {
        let hub = hub();
        let keep = |server: usize, token: u8| hub.keep_token(server.to_string(), Version::V1, vec![token]);
        // All of these have had theirs used.
        for server in 0..MAX_TOKENS {
            keep(server, 0);
            assert_eq!(take(&hub, server), Some(vec![0]));
        }
        keep(MAX_TOKENS, 1);
        assert_eq!((take(&hub, MAX_TOKENS), take(&hub, MAX_TOKENS)), (Some(vec![1]), None));
        // And these have not; the first one is heard of again.
        (0..MAX_TOKENS).for_each(|server| keep(server, 2));
        keep(0, 3);
        keep(MAX_TOKENS, 4);
        assert_eq!(
            [0, 0, 1, 2, MAX_TOKENS].map(|server| take(&hub, server)),
            [Some(vec![3]), None, None, Some(vec![2]), Some(vec![4]),]
        );
    }

    #[test]
    fn a_server_has_its_newest_tokens_kept() {
        let hub = hub();
        (0..5).for_each(|token| hub.keep_token("7".to_owned(), Version::V1, vec![token]));
        assert_eq!([(); 3].map(|()| take(&hub, 7)), [Some(vec![4]), Some(vec![3]), None]);
    }
}
