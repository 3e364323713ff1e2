//! The network path: who is at the other end, what it may be sent, and its congestion state.
//!
//! *In:* received bytes, PATH_CHALLENGE and PATH_RESPONSE, congestion feedback.
//! *Out:* the amplification budget, PATH_RESPONSE, window and pacing.
//!
//! Invariants: to an address that is not validated at most three times the bytes it sent are sent
//! (RFC 9000 §8.1); pending responses are bounded. Room is kept for several paths (migration), MTU
//! discovery and ECN validation; there is one path, of a configured MTU, not ECN-capable.

use std::collections::VecDeque;

use quickset_base::{Path as Address, Time};
use quickset_wire::frame::Frame;

use crate::cc::{self, Congestion, Pacer};
use crate::room::Want;
use crate::token::Token;
use crate::tx::Writer;

/// Challenges answered at most between two packets of ours; the peer repeats what we forget.
const MAX_RESPONSES: usize = 4;

/// One path.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) address: Address,
    /// The largest UDP payload that we send.
    pub(crate) mtu: usize,
    pub(crate) congestion: Box<dyn Congestion>,
    pub(crate) pacer: Pacer,
    validated: bool,
    received: u64,
    sent: u64,
    responses: VecDeque<[u8; 8]>,
}

impl Path {
    pub(crate) fn new(address: Address, mtu: usize, algorithm: cc::Algorithm, now: Time) -> Self {
        Self {
            address,
            mtu,
            congestion: algorithm.build(mtu as u64, now),
            pacer: Pacer::new(mtu as u64, now),
            validated: false,
            received: 0,
            sent: 0,
            responses: VecDeque::new(),
        }
    }

    /// The peer takes no larger UDP payloads than this.
    pub(crate) fn limit_mtu(&mut self, limit: usize) {
        if limit < self.mtu {
            self.mtu = limit;
            self.pacer.set_mtu(limit as u64);
        }
    }

    /// The peer's address is known to be its own.
    pub(crate) fn validate(&mut self) {
        self.validated = true;
    }

    /// A datagram came from the peer's address, whether or not it could be read.
    pub(crate) fn on_received(&mut self, bytes: usize) {
        self.received += bytes as u64;
    }

    /// A datagram was sent there.
    pub(crate) fn on_sent(&mut self, bytes: usize) {
        self.sent += bytes as u64;
    }

    /// Whether the peer has proved that it receives at its address.
    pub(crate) fn is_validated(&self) -> bool {
        self.validated
    }

    /// Bytes that may be sent before the address is validated (RFC 9000 §8.1).
    pub(crate) fn amplification_budget(&self) -> usize {
        if self.validated {
            return usize::MAX;
        }
        usize::try_from((3 * self.received).saturating_sub(self.sent)).unwrap_or(usize::MAX)
    }

    /// PATH_CHALLENGE: each is answered, the oldest unanswered is forgotten under a flood.
    pub(crate) fn on_challenge(&mut self, data: [u8; 8]) {
        if self.responses.len() == MAX_RESPONSES {
            self.responses.pop_front();
        }
        self.responses.push_back(data);
    }

    pub(crate) fn want(&self) -> Want {
        if self.responses.is_empty() { Want::None } else { Want::Data }
    }

    /// Writes PATH_RESPONSE frames; they are sent once (RFC 9000 §13.3).
    pub(crate) fn write(&mut self, w: &mut Writer<'_>) {
        while let Some(data) = self.responses.front() {
            if !w.put(&Frame::PathResponse(*data), Token::Nothing) {
                return;
            }
            self.responses.pop_front();
        }
    }

    pub(crate) fn check(&self) {
        debug_assert!(self.responses.len() <= MAX_RESPONSES);
        debug_assert!(
            self.validated || self.sent <= 3 * self.received,
            "amplification limit broken: {self:?}"
        );
    }
}
