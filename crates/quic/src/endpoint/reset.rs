use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{Hash, Hasher};
use std::net::SocketAddr;

use quickset_base::Rng;
use quickset_base::number::index;
use quickset_wire::ResetToken;

use super::ConnectionKey;

/// The reset tokens that peers gave us.
///
/// The map is keyed by a secret of the process, so that the time of a look-up tells nothing of the tokens
/// that are there (RFC 9000 §10.3.1).
#[derive(Debug, Default)]
pub(super) struct Detector {
    tokens: HashMap<Watched, ConnectionKey>,
    /// One for each connection: the token of the id in use, since those of other ids must not count
    /// (RFC 9000 §10.3.1).
    of: HashMap<ConnectionKey, Watched>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watched {
    remote: SocketAddr,
    token: ResetToken,
}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.token.0.hash(state);
    }
}

impl Detector {
    /// From now on `token`, from `remote`, resets `key`.
    pub(super) fn watch(&mut self, key: ConnectionKey, remote: SocketAddr, token: ResetToken) {
        let watched = Watched { remote, token };
        // The first connection keeps a token that two peers claim: nobody resets another's connection by
        // announcing its token.
        if let Entry::Vacant(free) = self.tokens.entry(watched) {
            free.insert(key);
            if let Some(old) = self.of.insert(key, watched) {
                self.tokens.remove(&old);
            }
        }
    }

    /// The connection that `datagram` resets.
    pub(super) fn find(&self, remote: SocketAddr, datagram: &[u8]) -> Option<ConnectionKey> {
        let (_, tail) = datagram.split_last_chunk::<16>()?;
        // RFC 9000 §10.3: shorter ones are no resets.
        if datagram.len() < MIN_RESET {
            return None;
        }
        self.tokens.get(&Watched { remote, token: ResetToken(*tail) }).copied()
    }

    pub(super) fn forget(&mut self, key: ConnectionKey) {
        if let Some(old) = self.of.remove(&key) {
            self.tokens.remove(&old);
        }
    }
}

/// Stateless resets that were sent of late.
#[derive(Debug, Default)]
pub(super) struct Limiter {
    recent: [Option<ResetToken>; RECENT],
    next: usize,
}

impl Limiter {
    /// A reset with `token` was sent.
    pub(super) fn remember(&mut self, token: ResetToken) {
        self.recent[self.next] = Some(token);
        self.next = (self.next + 1) % RECENT;
    }

    /// True for a reset of ours that somebody sends back.
    pub(super) fn is_ours(&self, datagram: &[u8]) -> bool {
        let tail = datagram.last_chunk::<16>().map(|tail| ResetToken(*tail));
        tail.is_some() && self.recent.contains(&tail)
    }
}

/// The size of a reset in answer to `trigger` bytes; `None` when that is too small for any.
pub(super) fn size(trigger: usize, rng: &mut Rng) -> Option<usize> {
    // RFC 9000 §10.3.3: always smaller than what it answers, so that two endpoints that reset each other's
    // resets come to an end.
    let max = trigger.saturating_sub(1);
    if max <= PLAUSIBLE {
        return (max >= MIN_RESET).then_some(max);
    }
    // Any size that a packet of a quiet connection may have.
    let max = max.min(MAX_RESET);
    Some(PLAUSIBLE + index(rng.below((max - PLAUSIBLE + 1) as u64)))
}

/// RFC 9000 §10.3: what looks like a packet with a short header, and ends in `token`.
pub(super) fn write(len: usize, token: &ResetToken, rng: &mut Rng) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let random = len - token.0.len();
    rng.fill(&mut bytes[..random]);
    bytes[0] = bytes[0] & 0x3f | 0x40;
    bytes[random..].copy_from_slice(&token.0);
    bytes
}

/// RFC 9000 §10.3: five bytes and the token.
const MIN_RESET: usize = 21;
/// RFC 9000 §10.3.3: a byte less than 43, from which packets with any connection id may be as short.
const PLAUSIBLE: usize = 42;
const MAX_RESET: usize = 100;

/// Resets of ours that are known when they come back.
const RECENT: usize = 8;
