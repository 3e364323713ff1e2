//! What is held of requests and responses that nobody has taken yet.
//!
//! A few bytes of QPACK may stand for a field section of the largest size, and a hundred requests may come in
//! one datagram. So a server that is told to ([`Config::max_waiting`](super::Config::max_waiting)) decodes no
//! more heads than the application takes: the others wait as they came, and count as that.

use bytes::Bytes;
use quickset_quic::StreamId;

use super::{Connection, Exchange, ExchangeFault};
use crate::{Error, Transport};

/// Bytes that are held, and who waits.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Of parts of frames, of what was read along with them, and of what the transport had no room for.
    parts: u64,
    /// Of heads that the application was told of and did not take, as RFC 9114 §4.2.2 counts them.
    heads: u64,
    /// Requests whose heads are not decoded yet, in the order in which they came; some may be over.
    deferred: std::collections::VecDeque<StreamId>,
}

/// The part of an exchange in them.
#[derive(Debug, Default)]
pub(super) struct HeldBytes {
    parts: u64,
    head: u64,
    /// The head as it came.
    coded: Option<Bytes>,
}

impl Connection {
    /// The application takes a request that it was told of. With
    /// [`Config::max_waiting`](super::Config::max_waiting), others are looked at only then.
    pub fn took(&mut self, t: &mut dyn Transport, id: StreamId) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            self.waiting.heads -= core::mem::take(&mut exchange.held.head);
        }
        let result = self.look_at_deferred(t);
        self.settle(t, result);
    }

    /// Bytes that are held for the peer, about: those of parts of frames, of heads that nobody has taken, and
    /// what each exchange costs.
    pub fn held(&self) -> u64 {
        self.waiting.parts + self.waiting.heads + self.exchanges.len() as u64 * EXCHANGE_COST
    }

    fn look_at_deferred(&mut self, t: &mut dyn Transport) -> Result<(), Error> {
        while !self.is_crowded() {
            let Some(id) = self.waiting.deferred.pop_front() else { return Ok(()) };
            let Some(exchange) = self.exchanges.get_mut(&id) else { continue };
            let Some(coded) = exchange.held.coded.take() else { continue };
            exchange.inflow.waiting = false;
            let result = self.decode_head(t, id, &coded);
            self.head_fault(t, id, result)?;
            self.pump(t, id)?;
        }
        Ok(())
    }

    /// Keeps a head as it came, when others wait for the application already.
    pub(super) fn defer(&mut self, id: StreamId, coded: &Bytes) -> bool {
        if !self.is_crowded() {
            return false;
        }
        let Some(exchange) = self.exchanges.get_mut(&id) else { return false };
        // A copy: it must not keep a whole receive buffer alive.
        exchange.held.coded = Some(Bytes::copy_from_slice(coded));
        exchange.inflow.waiting = true;
        self.waiting.deferred.push_back(id);
        if self.waiting.deferred.len() > 2 * self.exchanges.len() + 16 {
            let exchanges = &self.exchanges;
            self.waiting
                .deferred
                .retain(|id| exchanges.get(id).is_some_and(|exchange| exchange.held.coded.is_some()));
        }
        true
    }

    /// A head of so many bytes is told to the application.
    pub(super) fn note_head(&mut self, id: StreamId, size: u64) {
        if let Some(exchange) = self.exchanges.get_mut(&id).filter(|_| self.config.max_waiting.is_some()) {
            exchange.held.head = size;
            self.waiting.heads += size;
        }
    }

    /// Counts again what is held of an exchange.
    pub(super) fn note_parts(&mut self, id: StreamId) {
        if let Some(exchange) = self.exchanges.get_mut(&id) {
            let coded = exchange.held.coded.as_ref().map_or(0, Bytes::len);
            let now = (exchange.inflow.held() + exchange.out.queued() + coded) as u64;
            self.waiting.parts = self.waiting.parts - exchange.held.parts + now;
            exchange.held.parts = now;
        }
    }

    /// Forgets an exchange.
    pub(super) fn forget(&mut self, id: StreamId) -> Option<Box<Exchange>> {
        let exchange = self.exchanges.remove(&id)?;
        self.waiting.parts -= exchange.held.parts;
        self.waiting.heads -= exchange.held.head;
        Some(exchange)
    }

    fn is_crowded(&self) -> bool {
        self.config.max_waiting.is_some_and(|most| self.waiting.heads >= most)
    }

    fn decode_head(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        coded: &Bytes,
    ) -> Result<(), ExchangeFault> {
        let section = self.decoder.section(id.0, coded)?;
        self.head_section(t, id, section)
    }

    /// A head came.
    pub(super) fn head(
        &mut self,
        t: &mut dyn Transport,
        id: StreamId,
        coded: &Bytes,
    ) -> Result<(), ExchangeFault> {
        if self.side.is_server() && self.defer(id, coded) {
            return Ok(());
        }
        self.decode_head(t, id, coded)
    }
}

/// What an exchange costs that holds nothing, here and in the handles of it.
const EXCHANGE_COST: u64 = 4 << 10;
