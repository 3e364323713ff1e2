//! Who comes and goes at an endpoint, whichever of its shards it is.

use std::collections::VecDeque;
use std::sync::Arc;

use quickset_quic::{TransportConfig, Version};

use crate::connection::Connection;
use crate::shared::Shared;
use crate::wakers::Crowd;

/// Who comes and goes.
pub(crate) struct Lobby {
    /// Connections are taken and made.
    pub(crate) open: bool,
    /// The handles of the endpoint.
    pub(crate) endpoints: usize,
    /// Connections that have not drained, of each shard.
    pub(crate) live: Box<[usize]>,
    /// Shards whose drivers have not ended.
    pub(crate) drivers: usize,
    pub(crate) accepted: VecDeque<Connection>,
    pub(crate) acceptors: Crowd,
    /// Tasks that wait for `live` to be 0.
    pub(crate) idlers: Crowd,
    pub(crate) tokens: Tokens,
}

impl Lobby {
    /// Of so many shards.
    pub(crate) fn new(shards: usize) -> Self {
        Self {
            open: true,
            endpoints: 0,
            live: vec![0; shards].into(),
            drivers: shards,
            accepted: VecDeque::new(),
            acceptors: Crowd::default(),
            idlers: Crowd::default(),
            tokens: Tokens::default(),
        }
    }

    /// Connections that have not drained.
    pub(crate) fn connections(&self) -> usize {
        self.live.iter().sum()
    }

    /// Nobody can ask for anything any more, and nothing is under way.
    pub(crate) fn is_over(&self) -> bool {
        self.endpoints == 0 && self.connections() == 0
    }

    /// Nobody has accepted this connection, and nothing is left of it to accept: else peers that come and go
    /// would fill the lobby, while only those that are there count against the limit.
    #[must_use = "it takes locks when it is dropped"]
    pub(crate) fn take_back(&mut self, shared: &Arc<Shared>) -> Option<Connection> {
        let at = self.accepted.iter().position(|waiting| Arc::ptr_eq(waiting.shared(), shared))?;
        self.accepted.remove(at)
    }
}

/// Address validation tokens, in the order in which they came, each with the server that gave it and the
/// version of its connection. The oldest make room.
#[derive(Default)]
pub(crate) struct Tokens(VecDeque<(String, Version, Vec<u8>)>);

impl Tokens {
    pub(crate) fn keep(&mut self, server: String, version: Version, token: Vec<u8>) {
        let is_of = |(of, ..): &(String, Version, Vec<u8>)| *of == server;
        if self.0.iter().filter(|kept| is_of(kept)).count() >= TOKENS_EACH {
            let oldest = self.0.iter().position(is_of);
            oldest.and_then(|at| self.0.remove(at));
        } else if self.0.len() >= MAX_TOKENS {
            self.0.pop_front();
        }
        self.0.push_back((server, version, token));
    }

    /// The token for a connection, best of the version that it would begin in anyway, and the newest.
    /// RFC 9369 §5: one of a connection of another version is no token.
    pub(crate) fn take(&mut self, server: &str, transport: &TransportConfig) -> Option<(Version, Vec<u8>)> {
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
pub(crate) const MAX_TOKENS: usize = 512;
const TOKENS_EACH: usize = 2;
