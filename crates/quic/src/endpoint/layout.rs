//! What connection ids say to those who pass datagrams on: which core, or which machine, a connection is on.

use std::fmt;

use quickset_base::Rng;
use quickset_wire::ConnectionId;

use crate::cids;

/// Makes the connection ids of an endpoint.
///
/// By themselves they are random. Whoever passes datagrams on, to one of several cores, processes or
/// machines, can tell where to by the ids alone, since a client's address may change: then they say so.
pub trait ConnectionIds: fmt::Debug + Send + Sync {
    /// Returns the length of every id, from 1 to 20 bytes: it stands in no short header.
    fn id_len(&self) -> usize;

    /// Returns an id. What it does not have to say is random, so that nobody can guess an id or link two of a
    /// connection (RFC 9000 §5.1, §9.5); one that is in use already is drawn again.
    fn draw(&self, rng: &mut Rng) -> ConnectionId;

    /// Whether this endpoint may have made an id, and no other one with the same key of stateless resets
    /// may. It is asked about ids that no connection here has. What may be of a connection somewhere else is
    /// not reset (RFC 9000 §21.11). Unless told it is true: then endpoints must have keys of their own.
    fn is_ours(&self, id: &ConnectionId) -> bool {
        let _ = id;
        true
    }
}

/// Ids that say nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct RandomIds(pub(super) usize);

impl ConnectionIds for RandomIds {
    fn id_len(&self) -> usize {
        self.0
    }

    fn draw(&self, rng: &mut Rng) -> ConnectionId {
        cids::random(self.0, rng)
    }
}
