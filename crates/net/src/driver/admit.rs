use std::sync::Arc;

use quickset_base::Time;
use quickset_quic::{self as quic, Admission, DatagramRoute, Incoming, Side, Signal};

use super::Roster;
use crate::hub::Hub;
use crate::shared::Shared;

/// How many clients are asked to prove their address, while more comes than can be looked at.
///
/// To ask costs several times as much as to pass over, a call of the system for each. Where a flood is more
/// than the processor can answer, the socket's buffer is full of it, and what is lost then are also packets
/// of those that are in. So not all of it is answered then: whoever is new may have to say hello again, and
/// whoever has a token, or is in, is heard.
#[derive(Debug, Default)]
pub(super) struct ProofAsking {
    /// Turns in a row that left something behind in the socket.
    behind: u32,
    /// Who was asked in this turn.
    asked: u32,
}

impl ProofAsking {
    /// A turn has received: all that there was, or not.
    pub(super) fn received(&mut self, all: bool) {
        self.behind = if all { 0 } else { self.behind.saturating_add(1) };
        self.asked = 0;
    }

    /// Whether one more may be asked.
    fn may(&mut self) -> bool {
        self.asked += 1;
        self.behind < BEHIND || self.asked <= ASKED_BEHIND
    }
}

/// Decides about a client. `None` when all is done, else where its datagram goes.
pub(super) fn admit(
    hub: &Arc<Hub>,
    router: &mut quic::Endpoint,
    roster: &mut Roster,
    asking: &mut ProofAsking,
    now: Time,
    incoming: Incoming,
) -> Option<DatagramRoute> {
    let admission = if hub.lobby().open { router.admission(&incoming) } else { Admission::Refuse };
    let (key, start, datagram) = match admission {
        Admission::Accept => match router.accept(now, incoming) {
            Ok(born) => born,
            Err(route) => return Some(route),
        },
        Admission::Retry if asking.may() => return router.retry(now, incoming).map(DatagramRoute::Respond),
        Admission::Refuse => return router.refuse(incoming).map(DatagramRoute::Respond),
        Admission::Retry | Admission::Ignore => {
            router.ignore(incoming);
            return None;
        }
    };
    match quic::Connection::new(start).map(Box::new) {
        Ok(conn) => {
            debug_assert_eq!(conn.side(), Side::Server);
            hub.lobby().live[hub.shard] += 1;
            let shared = Arc::new(Shared::new(key, hub.line().clone(), conn, None));
            hub.census().enter(&shared);
            shared.heed_recalls();
            roster.welcome(&shared);
            Some(DatagramRoute::Connection(key, datagram))
        }
        Err(error) => {
            tracing::warn!(%error, "a connection could not begin");
            router.signal(key, Signal::Drained);
            None
        }
    }
}

/// Turns, of some 64 datagrams each: more than an interruption of the thread leaves.
const BEHIND: u32 = 16;

/// A quarter of what a turn takes.
const ASKED_BEHIND: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn not_all_are_asked_only_while_the_socket_is_never_empty() {
        let mut asking = ProofAsking::default();
        let mut asked = |all| {
            let asked = (0..64).filter(|_| asking.may()).count();
            asking.received(all);
            asked
        };
        let turns: Vec<usize> = (0..20).map(|_| asked(false)).collect();
        assert_eq!(turns, [[64; 16].as_slice(), &[16; 4]].concat());
        assert_eq!([asked(true), asked(true), asked(false)], [16, 64, 64]);
    }
}
