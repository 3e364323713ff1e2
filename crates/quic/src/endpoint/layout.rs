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
