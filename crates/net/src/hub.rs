use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use quickset_base::{AddressPair, Time};
use quickset_quic::{self as quic, ClientConfig, Version};

use crate::calls::Calls;
use crate::census::Census;
use crate::connection::Connection;
use crate::error::ConnectError;
use crate::lobby::Lobby;
use crate::runtime::Runtime;
use crate::shards::{ShardDoor, ShardGroup};
use crate::shared::{ConnectionLine, Shared};
use crate::socket::{self, Bound, DatagramSocket};

/// What the handles of an endpoint and its driver share.
///
/// Locks are taken in this order, and none of them for longer than a few microseconds but the router's:
/// router, connection, and then one of the others.
pub(crate) struct Hub {
    /// Where the socket is that is in use, or will be at the driver's next turn. The socket itself is the
    /// driver's, and goes with it: whoever keeps a handle of a connection keeps no port.
    bound: Mutex<Bound>,
    router: Arc<Mutex<quic::Endpoint>>,
    line: Arc<ConnectionLine>,
    /// Which of the shards it is.
    pub(crate) shard: usize,
    group: Arc<ShardGroup>,
    census: Mutex<Census>,
    calls: Arc<Calls>,
}

impl Hub {
    /// The hub of a shard.
    pub(crate) fn new(
        bound: Bound,
        router: quic::Endpoint,
        runtime: Arc<dyn Runtime>,
        group: Arc<ShardGroup>,
        shard: usize,
    ) -> Self {
        Self {
            bound: Mutex::new(bound),
            router: Arc::new(Mutex::new(router)),
            line: Arc::new(ConnectionLine::new(runtime)),
            shard,
            group,
            census: Mutex::default(),
            calls: Arc::default(),
        }
    }

    /// Where the socket is.
    pub(crate) fn bound(&self) -> Bound {
        *self.bound.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The driver goes on with another socket.
    pub(crate) fn rebind(&self, socket: Arc<dyn DatagramSocket>) {
        let bound = Bound::of(&*socket);
        self.line.rebind(socket, || {
            *self.bound.lock().unwrap_or_else(PoisonError::into_inner) = bound;
        });
    }

    /// What connections and handles have of the endpoint.
    pub(crate) fn line(&self) -> &Arc<ConnectionLine> {
        &self.line
    }

    /// The time since the endpoint began.
    #[inline]
    pub(crate) fn now(&self) -> Time {
        self.line.clock.now()
    }

    /// When `time` is, for the runtime's timers.
    pub(crate) fn instant(&self, time: Time) -> Instant {
        self.line.clock.instant(time)
    }

    /// Its runtime has a clock of its own.
    pub(crate) fn keeps_time(&self) -> bool {
        self.line.clock.keeps_time
    }

    pub(crate) fn runtime(&self) -> &Arc<dyn Runtime> {
        &self.line.clock.runtime
    }

    /// What calls of the system carried.
    pub(crate) fn calls(&self) -> &Arc<Calls> {
        &self.calls
    }

    pub(crate) fn router(&self) -> MutexGuard<'_, quic::Endpoint> {
        self.router.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn lobby(&self) -> MutexGuard<'_, Lobby> {
        self.group.lobby()
    }

    /// What the other shards have of this one.
    pub(crate) fn door(&self) -> ShardDoor {
        ShardDoor { line: Arc::downgrade(&self.line), router: Arc::downgrade(&self.router) }
    }

    /// The shards of the endpoint.
    pub(crate) fn group(&self) -> &ShardGroup {
        &self.group
    }

    pub(crate) fn census(&self) -> MutexGuard<'_, Census> {
        self.census.lock().unwrap_or_else(PoisonError::into_inner)
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
            lobby.live[self.shard] += 1;
            // RFC 9000 §8.1.3: a token is used once, so that nobody can link connections by it.
            lobby.tokens.take(server_name, &config.transport)
        };
        let begun = match token {
            // What the server went on in the last time, it can be begun in, and its token is good in nothing
            // else.
            Some((version, token)) if config.transport.begins_in() != Some(version) => {
                let transport = (*config.transport).clone().with_first_version(Some(version));
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
        let (key, start) =
            self.router().connect(self.now(), config, AddressPair::to(remote), server_name, token)?;
        let conn = quic::Connection::new(start).map(Box::new).map_err(|error| {
            self.router().signal(key, quic::Signal::Drained);
            ConnectError::Failed(quic::Closed::Failed(error))
        })?;
        let shared = Arc::new(Shared::new(key, self.line.clone(), conn, Some(server_name.to_owned())));
        self.census().enter(&shared);
        shared.heed_recalls();
        shared.nudge();
        Ok(Connection::new(shared))
    }

    /// A connection has drained.
    pub(crate) fn one_less(&self) {
        let mut woken = Vec::new();
        let is_over = {
            let mut lobby = self.lobby();
            // A driver that ends takes all with it, also what is just beginning.
            let live = &mut lobby.live[self.shard];
            *live = live.saturating_sub(1);
            if lobby.connections() == 0 {
                lobby.idlers.drain_to(&mut woken);
            }
            lobby.is_over()
        };
        woken.into_iter().for_each(Waker::wake);
        if is_over {
            self.group.wake_drivers(None);
        }
    }

    /// Keeps a token for the next connection to a server.
    pub(crate) fn keep_token(&self, server_name: String, version: Version, token: Vec<u8>) {
        self.lobby().tokens.keep(server_name, version, token);
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::pin::Pin;

    use quickset_base::{Rng, Seed};
    use quickset_quic::null::NullSecrets;
    use quickset_quic::{EndpointConfig, TransportConfig};

    use super::*;
    use crate::lobby::MAX_TOKENS;
    use crate::runtime::RuntimeTimer;
    use crate::socket::SocketConfig;

    /// Runs nothing.
    #[derive(Debug)]
    struct Nobody;

    impl Runtime for Nobody {
        fn spawn(&self, _task: Pin<Box<dyn Future<Output = ()> + Send>>) {}

        fn timer(&self, _at: Instant) -> Pin<Box<dyn RuntimeTimer>> {
            unreachable!("nothing sleeps")
        }

        fn wrap(
            &self,
            _socket: std::net::UdpSocket,
            _config: &SocketConfig,
        ) -> io::Result<Arc<dyn DatagramSocket>> {
            Err(io::ErrorKind::Unsupported.into())
        }
    }

    fn hub() -> Hub {
        let crypto = Arc::new(NullSecrets(1));
        let config = EndpointConfig { crypto, connection_id_len: 8, resets_per_second: 0 };
        let bound = Bound { address: ([127, 0, 0, 1], 1).into(), v4: true };
        let router = quic::Endpoint::new(config, None, Rng::new(Seed([0; 32])));
        Hub::new(bound, router, Arc::new(Nobody), Arc::new(ShardGroup::new(1, false)), 0)
    }

    fn take(hub: &Hub, server: usize) -> Option<Vec<u8>> {
        hub.lobby()
            .tokens
            .take(&server.to_string(), &TransportConfig::fixed_mtu(1200))
            .map(|(_, token)| token)
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
