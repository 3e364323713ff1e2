use std::collections::VecDeque;
use std::sync::Arc;

use quickset_base::{Datagram, Input, Machine, Time};
use quickset_quic::{self as quic, ConnectionKey};

use crate::ensemble::{Ensembles, Polled};
use crate::heavy::Heavy;
use crate::shared::{LockedState, Shared};
use crate::timers::Timers;

/// The connections.
#[derive(Default)]
pub(super) struct Roster {
    pub(super) slots: Vec<Option<Arc<Shared>>>,
    pub(super) ready: VecDeque<Arc<Shared>>,
    /// Clients whose handshakes are through: what their applications say first leaves together with what ends
    /// those.
    pub(super) met: Vec<Arc<Shared>>,
    /// Those of which something came that the application answers, it may be: acknowledgements go along with
    /// that.
    pub(super) answering: Vec<Arc<Shared>>,
    pub(super) timers: Timers,
    pub(super) ensembles: Ensembles,
    /// Whose datagrams want to be read before more come.
    pub(super) crowded: Option<Arc<Shared>>,
}

impl Roster {
    /// A connection that handles began is known from its first request on. True for that one.
    pub(super) fn welcome(&mut self, shared: &Arc<Shared>) -> bool {
        let index = shared.key.index();
        if self.slots.len() <= index {
            self.slots.resize(index + 1, None);
        }
        let slot = &mut self.slots[index];
        let is_new = slot.is_none() && !shared.lock().conn.is_drained();
        if is_new {
            *slot = Some(shared.clone());
        }
        is_new
    }

    pub(super) fn get(&self, key: ConnectionKey) -> Option<&Arc<Shared>> {
        self.slots.get(key.index())?.as_ref().filter(|shared| shared.key == key)
    }

    /// A connection had its turn among those to the same address.
    #[inline]
    pub(super) fn settle(&mut self, now: Time, key: ConnectionKey, state: &mut LockedState, polled: Polled) {
        if state.connected {
            let flight = state.conn.flight();
            let next = self.ensembles.settle(now, key, &mut state.share, &flight, polled);
            self.call(next);
        }
    }

    /// Has a connection looked at whose turn it is.
    #[inline]
    pub(super) fn call(&mut self, next: Option<ConnectionKey>) {
        if let Some(shared) = next.and_then(|key| self.get(key)).filter(|shared| shared.enqueue()).cloned() {
            self.ready.push_back(shared);
        }
    }

    /// Does something to every connection, and has them looked at.
    pub(super) fn for_all(&mut self, act: impl Fn(&mut LockedState)) {
        for shared in self.slots.iter().flatten() {
            act(&mut shared.lock());
            if shared.enqueue() {
                self.ready.push_back(shared.clone());
            }
        }
    }

    pub(super) fn remove(&mut self, key: ConnectionKey) -> bool {
        self.get(key).is_some() && self.slots[key.index()].take().is_some()
    }

    /// Gives a connection the datagrams that came for it in a row; puts them aside while it shakes hands.
    #[inline]
    pub(super) fn deliver(
        &mut self,
        now: Time,
        key: Option<ConnectionKey>,
        row: &mut Vec<Datagram>,
        heavy: &mut Heavy,
    ) {
        if let Some((key, shared)) = key.and_then(|key| Some((key, self.get(key)?))) {
            let mut state = shared.lock();
            if state.connected {
                state.conn.handle(now, Input::Received(row));
                let crowded = shared.await_reader(&mut state).then(|| shared.clone());
                drop(state);
                if shared.enqueue() {
                    let shared = shared.clone();
                    self.ready.push_back(shared);
                }
                if crowded.is_some() {
                    self.crowded = crowded;
                }
            } else {
                row.drain(..).for_each(|datagram| heavy.push(key, datagram));
            }
        }
        row.clear();
    }

    pub(super) fn reset(&mut self, key: ConnectionKey) {
        self.end(key, quic::Connection::on_stateless_reset);
    }

    /// Tells connections that their places are another's.
    pub(super) fn make_room(&mut self, router: &mut quic::Endpoint) {
        while let Some(key) = router.displaced() {
            self.end(key, quic::Connection::make_room);
        }
    }

    pub(super) fn end(&mut self, key: ConnectionKey, how: impl FnOnce(&mut quic::Connection)) {
        if let Some(shared) = self.get(key).cloned() {
            how(&mut shared.lock().conn);
            if shared.enqueue() {
                self.ready.push_back(shared);
            }
        }
    }
}
