//! Connection ids (RFC 9000 §5.1): those we issued, and those the peer issued to us.
//!
//! *In:* ids from the endpoint ([`Cids::add_local`]), NEW_CONNECTION_ID and RETIRE_CONNECTION_ID.
//! *Out:* the id to address packets to, the two frames, and what the endpoint must route or forget.
//!
//! Invariants: at most [`LIMIT`] ids of either side are alive at a time, whatever the peer sends; an
//! id that the peer retired is retired once; ids that we retire are retired even when the frame is lost.

use std::collections::VecDeque;

use quickset_base::Rng;
use quickset_base::number::index;
use quickset_wire::frame::Frame;
use quickset_wire::{ConnectionId, ResetToken, TransportErrorCode as Code};

use crate::TransportError;
use crate::ack::RangeSet;
use crate::packet::{FrameToken, PacketWriter, Want};

/// A connection id of ours with its sequence number and reset token.
#[derive(Clone, Copy, Debug)]
pub struct IssuedCid {
    pub(crate) sequence: u64,
    pub(crate) id: ConnectionId,
    pub(crate) token: ResetToken,
}

/// Ids of each side that are alive at a time: what we announce as active_connection_id_limit, and
/// what we issue at most of what the peer would take.
pub(crate) const LIMIT: u64 = 4;

/// Retirements of ours that may be unacknowledged before a peer that forces more is cut off
/// (RFC 9000 §5.1.2: more than a few times the limit is an attack on our memory).
const MAX_RETIRING: usize = 3 * index(LIMIT);

/// Both sides' connection ids.
#[derive(Debug)]
pub(crate) struct Cids {
    /// The one of the handshake; the peer may have retired it.
    first: ConnectionId,
    local: Vec<Local>,
    /// The largest number of ours that there was.
    newest: u64,
    /// Ids that the peer is ready to hold.
    peer_limit: u64,
    requested: u64,
    remote: Remote,
    retiring: VecDeque<Retiring>,
}

#[derive(Debug)]
struct Local {
    cid: IssuedCid,
    state: FrameDelivery,
}

#[derive(Debug)]
struct Retiring {
    sequence: u64,
    state: FrameDelivery,
}

/// Where a frame that must arrive stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FrameDelivery {
    ToSend,
    Lost,
    InFlight,
    Done,
}

#[derive(Debug)]
struct Remote {
    /// Sequence number of the id in use.
    active: u64,
    id: ConnectionId,
    token: Option<ResetToken>,
    spare: Vec<SpareId>,
    /// In use on paths beside the one that `id` is for.
    lent: Vec<SpareId>,
    /// Ids below this were retired by the peer's wish.
    retired_below: u64,
    /// Sequence numbers that were told, those that were retired since among them.
    told: RangeSet,
}

#[derive(Clone, Copy, Debug)]
struct SpareId {
    sequence: u64,
    id: ConnectionId,
    /// That of a client's first id is never told.
    token: Option<ResetToken>,
}

impl Cids {
    /// Gives back the memory of what is gone.
    pub(crate) fn rest(&mut self) {
        self.local.shrink_to_fit();
        self.retiring.shrink_to_fit();
        self.remote.spare.shrink_to_fit();
        self.remote.lent.shrink_to_fit();
        self.remote.told.rest();
    }

    /// Begins with the ids of the handshake, sequence number 0 on both sides.
    pub(crate) fn new(local: ConnectionId, remote: ConnectionId) -> Self {
        let mut told = RangeSet::default();
        told.insert(0);
        let first = Local {
            cid: IssuedCid { sequence: 0, id: local, token: ResetToken([0; 16]) },
            state: FrameDelivery::Done,
        };
        Self {
            first: local,
            local: vec![first],
            newest: 0,
            peer_limit: 1,
            requested: 0,
            remote: Remote {
                active: 0,
                id: remote,
                token: None,
                spare: Vec::new(),
                lent: Vec::new(),
                retired_below: 0,
                told,
            },
            retiring: VecDeque::new(),
        }
    }

    /// The id that packets to the peer carry.
    pub(crate) fn remote(&self) -> &ConnectionId {
        &self.remote.id
    }

    /// The id that the handshake agreed on for us.
    pub(crate) fn first_local(&self) -> &ConnectionId {
        &self.first
    }

    /// The peer chose its id (RFC 9000 §7.2), or a Retry replaced it (§17.2.5.2).
    pub(crate) fn set_remote(&mut self, id: ConnectionId) {
        self.remote.id = id;
    }

    /// The token that came with the id in use.
    pub(crate) fn reset_token(&self) -> Option<ResetToken> {
        self.remote.token
    }

    /// The token of sequence number 0 came in the server's transport parameters.
    pub(crate) fn set_reset_token(&mut self, token: ResetToken) {
        self.remote.token = Some(token);
    }

    /// The peer takes this many ids (active_connection_id_limit). Returns how many new ones to ask of
    /// the endpoint.
    pub(crate) fn set_peer_limit(&mut self, limit: u64) -> u64 {
        self.peer_limit = limit.min(LIMIT);
        self.shortage()
    }

    /// Ids still to be asked of the endpoint, counted as asked for by this call.
    fn shortage(&mut self) -> u64 {
        let missing = self.peer_limit.saturating_sub(self.local.len() as u64 + self.requested);
        self.requested += missing;
        missing
    }

    /// Fresh ids from the endpoint.
    pub(crate) fn add_local(&mut self, cids: impl IntoIterator<Item = IssuedCid>) {
        for cid in cids {
            self.requested = self.requested.saturating_sub(1);
            self.newest = self.newest.max(cid.sequence);
            self.local.push(Local { cid, state: FrameDelivery::ToSend });
        }
    }

    /// The peer learnt of this id in our transport parameters (preferred_address).
    pub(crate) fn add_told(&mut self, cid: IssuedCid) {
        self.newest = self.newest.max(cid.sequence);
        self.local.push(Local { cid, state: FrameDelivery::Done });
    }

    /// The number of the id of ours that a packet with a short header is addressed to.
    pub(crate) fn local_sequence(&self, datagram: &[u8]) -> Option<u64> {
        let id = datagram.get(1..1 + self.first.len())?;
        self.local.iter().find(|local| *local.cid.id == *id).map(|local| local.cid.sequence)
    }

    /// True when the peer has only the empty id: it goes on every path.
    pub(crate) fn is_remote_empty(&self) -> bool {
        self.remote.id.is_empty()
    }

    /// An id of the peer's for another path (RFC 9000 §9.5), by its number; `None` when there is none to
    /// spare.
    pub(crate) fn lend(&mut self) -> Option<u64> {
        let spare = self.take_spare()?;
        self.remote.lent.push(spare);
        Some(spare.sequence)
    }

    /// An id that was lent, unless the peer retired it.
    pub(crate) fn lent(&self, sequence: u64) -> Option<ConnectionId> {
        self.remote.lent.iter().find(|lent| lent.sequence == sequence).map(|lent| lent.id)
    }

    /// The path of a lent id is in use from here on. Returns the number of the id that was, which is lent
    /// now; `None` when the peer retired that, or the lent one.
    pub(crate) fn exchange(&mut self, sequence: u64) -> Option<u64> {
        let at = self.remote.lent.iter().position(|lent| lent.sequence == sequence)?;
        let lent = self.remote.lent.swap_remove(at);
        let (old, id, token) = (self.remote.active, self.remote.id, self.remote.token);
        self.remote.active = lent.sequence;
        self.remote.id = lent.id;
        self.remote.token = lent.token;
        self.remote.lent.push(SpareId { sequence: old, id, token });
        Some(old)
    }

    /// The path of a lent id is given up: the id is retired (RFC 9000 §9.5).
    pub(crate) fn give_back(&mut self, sequence: u64) -> Result<(), TransportError> {
        let Some(at) = self.remote.lent.iter().position(|lent| lent.sequence == sequence) else {
            return Ok(());
        };
        self.remote.lent.swap_remove(at);
        self.retire(sequence)
    }

    /// NEW_CONNECTION_ID. True when the id in use changed, and with it the reset token.
    pub(crate) fn on_new(
        &mut self,
        sequence: u64,
        retire_prior_to: u64,
        id: ConnectionId,
        token: ResetToken,
    ) -> Result<bool, TransportError> {
        if self.remote.id.is_empty() {
            return Err(violation("a new connection id from a peer that uses none"));
        }
        let mut others = self.remote.spare.iter().chain(&self.remote.lent);
        let known = others.find(|s| s.sequence == sequence).map(|s| (s.id, s.token));
        let active = (self.remote.active == sequence).then_some((self.remote.id, self.remote.token));
        if known.is_some_and(|(a, t)| a != id || t.is_some_and(|t| t != token))
            || active.is_some_and(|(a, t)| a != id || t.is_some_and(|t| t != token))
        {
            return Err(violation("another connection id for a known sequence number"));
        }
        let mut others = self.remote.spare.iter().chain(&self.remote.lent);
        if others.any(|s| s.id == id && s.sequence != sequence) {
            return Err(violation("another sequence number for a known connection id"));
        }
        // What was retired since comes again when the packet that brought it was thought to be lost.
        let is_news = self.remote.told.insert(sequence);
        // RFC 9000 §5.1.1: they increase by one. Those on their way are as few as we take.
        if self.remote.told.len() > MAX_RETIRING {
            return Err(violation("too many gaps between the numbers of connection ids"));
        }
        if retire_prior_to > self.remote.retired_below {
            self.remote.retired_below = retire_prior_to;
            let others = self.remote.spare.iter().chain(&self.remote.lent);
            let retired: Vec<u64> = others.map(|s| s.sequence).filter(|s| *s < retire_prior_to).collect();
            self.remote.spare.retain(|s| s.sequence >= retire_prior_to);
            self.remote.lent.retain(|s| s.sequence >= retire_prior_to);
            for sequence in retired {
                self.retire(sequence)?;
            }
        }
        if sequence < self.remote.retired_below {
            // RFC 9000 §19.15: an id that is retired on arrival.
            if is_news {
                self.retire(sequence)?;
            }
        } else if is_news {
            self.remote.spare.push(SpareId { sequence, id, token: Some(token) });
        }
        let changed = self.remote.active < self.remote.retired_below && self.switch()?;
        // RFC 9000 §5.1.1: ids beyond the limit after retirement.
        if (self.remote.spare.len() + self.remote.lent.len()) as u64 + 1 > LIMIT {
            return Err(TransportError::new(
                Code::CONNECTION_ID_LIMIT_ERROR,
                "more connection ids than we hold",
            ));
        }
        Ok(changed)
    }

    /// Moves to the oldest spare id and retires the one in use; false when there is none.
    pub(crate) fn switch(&mut self) -> Result<bool, TransportError> {
        let Some(spare) = self.take_spare() else { return Ok(false) };
        let old = self.remote.active;
        self.remote.active = spare.sequence;
        self.remote.id = spare.id;
        self.remote.token = spare.token;
        self.retire(old)?;
        Ok(true)
    }

    /// The oldest of the spare ids.
    fn take_spare(&mut self) -> Option<SpareId> {
        let oldest = (0..self.remote.spare.len()).min_by_key(|i| self.remote.spare[*i].sequence)?;
        Some(self.remote.spare.swap_remove(oldest))
    }

    fn retire(&mut self, sequence: u64) -> Result<(), TransportError> {
        if self.retiring.iter().any(|r| r.sequence == sequence) {
            return Ok(());
        }
        if self.retiring.len() >= MAX_RETIRING {
            return Err(TransportError::new(
                Code::CONNECTION_ID_LIMIT_ERROR,
                "connection ids retired faster than we can say so",
            ));
        }
        self.retiring.push_back(Retiring { sequence, state: FrameDelivery::ToSend });
        Ok(())
    }

    /// RETIRE_CONNECTION_ID. Returns how many fresh ids to ask of the endpoint, when the sequence number
    /// was alive. Whether its packet used that very id (RFC 9000 §19.16 lets us mind) is not looked at: the
    /// packet has been routed, and nothing comes to harm.
    pub(crate) fn on_retire(&mut self, sequence: u64) -> Result<Option<u64>, TransportError> {
        // Of those that are retired, too: the frame may come again (RFC 9000 §13.3).
        if sequence > self.newest {
            return Err(violation("retires a connection id that was never issued"));
        }
        let Some(at) = self.local.iter().position(|l| l.cid.sequence == sequence) else { return Ok(None) };
        self.local.remove(at);
        Ok(Some(self.shortage()))
    }

    /// What there is to send.
    pub(crate) fn want(&self) -> Want {
        let states = self.local.iter().map(|l| l.state).chain(self.retiring.iter().map(|r| r.state));
        states.map(FrameDelivery::want).max().unwrap_or_default()
    }

    /// Writes NEW_CONNECTION_ID and RETIRE_CONNECTION_ID frames.
    pub(crate) fn write(&mut self, w: &mut PacketWriter<'_>) {
        for retiring in self.retiring.iter_mut().filter(|r| r.state.want() > Want::None) {
            let sequence = retiring.sequence;
            if !w.put(&Frame::RetireConnectionId { sequence }, FrameToken::RetireConnectionId { sequence }) {
                return;
            }
            retiring.state = FrameDelivery::InFlight;
        }
        for local in self.local.iter_mut().filter(|l| l.state.want() > Want::None) {
            let IssuedCid { sequence, id, token } = local.cid;
            let frame = Frame::NewConnectionId { sequence, retire_prior_to: 0, id, token };
            if !w.put(&frame, FrameToken::NewConnectionId { sequence }) {
                return;
            }
            local.state = FrameDelivery::InFlight;
        }
    }

    /// The peer has our id.
    pub(crate) fn new_acked(&mut self, sequence: u64) {
        self.set_local(sequence, FrameDelivery::Done);
    }

    /// Our id did not arrive; it is sent again unless it was retired since.
    pub(crate) fn new_lost(&mut self, sequence: u64) {
        self.set_local(sequence, FrameDelivery::Lost);
    }

    fn set_local(&mut self, sequence: u64, state: FrameDelivery) {
        if let Some(local) = self.local.iter_mut().find(|l| l.cid.sequence == sequence) {
            local.state = state;
        }
    }

    /// The peer knows that we retired its id.
    pub(crate) fn retire_acked(&mut self, sequence: u64) {
        self.retiring.retain(|r| r.sequence != sequence);
    }

    /// The retirement did not arrive.
    pub(crate) fn retire_lost(&mut self, sequence: u64) {
        if let Some(retiring) = self.retiring.iter_mut().find(|r| r.sequence == sequence) {
            retiring.state = FrameDelivery::Lost;
        }
    }

    /// Invariants, for tests.
    pub(crate) fn check(&self) {
        debug_assert!(self.local.len() as u64 <= LIMIT.max(1), "{self:?}");
        debug_assert!(((self.remote.spare.len() + self.remote.lent.len()) as u64) < LIMIT, "{self:?}");
        debug_assert!(self.retiring.len() <= MAX_RETIRING, "{self:?}");
    }
}

impl FrameDelivery {
    fn want(self) -> Want {
        match self {
            Self::ToSend => Want::Data,
            Self::Lost => Want::Lost,
            Self::InFlight | Self::Done => Want::None,
        }
    }
}

fn violation(reason: &'static str) -> TransportError {
    TransportError::new(Code::PROTOCOL_VIOLATION, reason)
}

/// An id of `len` random bytes, at most 20.
pub(crate) fn random(len: usize, rng: &mut Rng) -> ConnectionId {
    let mut bytes = [0; ConnectionId::MAX];
    let bytes = &mut bytes[..len.min(ConnectionId::MAX)];
    rng.fill(bytes);
    ConnectionId::new(bytes).expect("at most 20 bytes")
}

/// RFC 9000 §7.2: the id that a client's first packet is sent to, which nobody can guess.
pub(crate) fn first_id(rng: &mut Rng) -> ConnectionId {
    random(MIN_FIRST_ID, rng)
}

/// RFC 9000 §7.2: the bytes of the id in a client's first packet at least.
pub(crate) const MIN_FIRST_ID: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn cid(n: u8) -> ConnectionId {
        ConnectionId::new(&[n; 8]).unwrap()
    }

    fn token(n: u8) -> ResetToken {
        ResetToken([n; 16])
    }

    fn cids() -> Cids {
        Cids::new(cid(100), cid(0))
    }

    /// RFC 9000 §5.1.2.
    #[test]
    fn retire_prior_to_moves_to_the_next_id_and_retires_the_old_ones() {
        let mut c = cids();
        assert!(!c.on_new(1, 0, cid(1), token(1)).unwrap());
        assert!(!c.on_new(2, 0, cid(2), token(2)).unwrap());
        assert!(c.on_new(3, 2, cid(3), token(3)).unwrap(), "RFC 9000 §19.15");
        assert_eq!(c.remote(), &cid(2));
        assert_eq!(c.reset_token(), Some(token(2)));
        let mut retired: Vec<u64> = c.retiring.iter().map(|r| r.sequence).collect();
        retired.sort_unstable();
        assert_eq!(retired, [0, 1]);
        c.retire_acked(0);
        assert_eq!(c.want(), Want::Data);
        c.check();
    }

    /// RFC 9000 §19.15: the same frame may come several times, and late.
    #[test]
    fn an_id_that_was_retired_does_not_come_back() {
        let mut c = cids();
        for n in 1..LIMIT as u8 {
            c.on_new(n.into(), 0, cid(n), token(n)).unwrap();
        }
        assert!(c.switch().unwrap() && c.switch().unwrap());
        let lent = c.lend().unwrap();
        c.give_back(lent).unwrap();
        c.retire_acked(0);
        c.retire_acked(1);
        for n in 1..LIMIT as u8 {
            assert!(!c.on_new(n.into(), 0, cid(n), token(n)).unwrap());
            c.check();
        }
        assert_eq!(c.remote(), &cid(2));
        assert_eq!(c.lend(), None, "none is left to spare");
        assert_eq!(c.retiring.iter().map(|r| r.sequence).collect::<Vec<_>>(), [3]);
        c.on_new(4, 0, cid(4), token(4)).unwrap();
        assert_eq!(c.lend(), Some(4));
    }

    /// RFC 9000 §5.1.1: numbers increase by one, so few are missing at a time.
    #[test]
    fn numbers_with_gaps_without_end_are_a_violation() {
        let mut c = cids();
        let error = (1..100u64).find_map(|n| {
            let told = c.on_new(2 * n, 2 * n, cid(n as u8), token(n as u8));
            (0..2 * n).for_each(|old| c.retire_acked(old));
            told.err()
        });
        assert_eq!(error.map(|e| e.code), Some(Code::PROTOCOL_VIOLATION));
    }

    #[test]
    fn an_id_below_the_retired_ones_is_retired_at_once() {
        let mut c = cids();
        assert!(c.on_new(5, 5, cid(5), token(5)).unwrap());
        assert!(!c.on_new(3, 0, cid(3), token(3)).unwrap());
        assert_eq!(c.retiring.iter().map(|r| r.sequence).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(c.remote(), &cid(5));
    }

    /// RFC 9000 §5.1.1, §19.15, §19.16.
    #[test]
    fn faults_of_the_peer_have_the_codes_of_rfc_9000() {
        let mut c = cids();
        c.on_new(1, 0, cid(1), token(1)).unwrap();
        assert!(!c.on_new(1, 0, cid(1), token(1)).unwrap(), "a repeat is no fault");
        assert_eq!(c.on_new(1, 0, cid(9), token(1)).unwrap_err().code, Code::PROTOCOL_VIOLATION);
        assert_eq!(c.on_new(2, 0, cid(1), token(2)).unwrap_err().code, Code::PROTOCOL_VIOLATION);
        let mut c = cids();
        for n in 1..LIMIT as u8 {
            c.on_new(n.into(), 0, cid(n), token(n)).unwrap();
        }
        let over = c.on_new(LIMIT, 0, cid(LIMIT as u8), token(9)).unwrap_err();
        assert_eq!(over.code, Code::CONNECTION_ID_LIMIT_ERROR);
        let mut none = Cids::new(cid(1), ConnectionId::EMPTY);
        assert_eq!(none.on_new(1, 0, cid(1), token(1)).unwrap_err().code, Code::PROTOCOL_VIOLATION);
        assert_eq!(c.on_retire(1).unwrap_err().code, Code::PROTOCOL_VIOLATION);
    }

    /// RFC 9000 §5.1.2: what waits to be retired is bounded.
    #[test]
    fn a_peer_that_retires_without_end_is_cut_off() {
        let mut c = cids();
        let mut n = 1u64;
        let error = loop {
            match c.on_new(n, n, cid(n as u8), token(n as u8)) {
                Ok(_) => n += 1,
                Err(e) => break e,
            }
            assert!(n < 100);
        };
        assert_eq!(error.code, Code::CONNECTION_ID_LIMIT_ERROR);
    }

    /// RFC 9000 §5.1.1.
    #[test]
    fn retired_ids_of_ours_are_replaced() {
        let mut c = cids();
        assert_eq!(c.set_peer_limit(2), 1);
        assert_eq!(c.set_peer_limit(2), 0, "asked for already");
        c.add_local([IssuedCid { sequence: 1, id: cid(101), token: token(1) }]);
        assert_eq!(c.want(), Want::Data);
        assert_eq!(c.on_retire(0).unwrap(), Some(1));
        assert_eq!(c.on_retire(0).unwrap(), None, "a repeat is no fault");
        assert_eq!(c.on_retire(1).unwrap(), Some(1));
        assert_eq!(c.on_retire(1).unwrap(), None, "nor that of the newest");
        assert_eq!(c.on_retire(2).unwrap_err().code, Code::PROTOCOL_VIOLATION);
    }

    #[test]
    fn ids_of_other_paths_count_and_are_retired_like_any() {
        let mut c = cids();
        for n in 1..LIMIT as u8 {
            c.on_new(n.into(), 0, cid(n), token(n)).unwrap();
        }
        let (one, two) = (c.lend().unwrap(), c.lend().unwrap());
        assert_eq!((one, two), (1, 2));
        c.check();
        assert!(!c.on_new(2, 0, cid(2), token(2)).unwrap(), "a repeat is no fault");
        assert_eq!(c.on_new(2, 0, cid(8), token(2)).unwrap_err().code, Code::PROTOCOL_VIOLATION);
        let over = c.on_new(LIMIT, 0, cid(LIMIT as u8), token(9)).unwrap_err();
        assert_eq!(over.code, Code::CONNECTION_ID_LIMIT_ERROR, "what is lent is held");

        let mut c = cids();
        c.on_new(1, 0, cid(1), token(1)).unwrap();
        c.on_new(2, 0, cid(2), token(2)).unwrap();
        let lent = c.lend().unwrap();
        assert_eq!(c.exchange(lent), Some(0), "the path moves, and its id with it");
        assert_eq!((c.remote(), c.reset_token()), (&cid(1), Some(token(1))));
        assert_eq!(c.exchange(0), Some(1), "and back");
        assert_eq!(
            (c.remote(), c.reset_token()),
            (&cid(0), None),
            "a first id without a token stays without"
        );
        c.give_back(1).unwrap();
        assert_eq!(c.retiring.iter().map(|r| r.sequence).collect::<Vec<_>>(), [1]);
        let lent = c.lend().unwrap();
        assert!(c.on_new(3, 3, cid(3), token(3)).unwrap(), "the peer retires them all");
        assert_eq!((c.lent(lent), c.exchange(lent)), (None, None));
        assert_eq!(c.remote(), &cid(3));
        c.check();
    }
}
