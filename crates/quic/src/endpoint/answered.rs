use std::net::SocketAddr;

use quickset_base::{Duration, Time};
use quickset_wire::ConnectionId;

/// Clients that were just asked to prove their address, refused or passed over. A hello that fills two
/// datagrams is one client's: it is decided about once, by whichever half comes first, and has one answer.
///
/// Anybody can say hello, from any address: there are few places, and the oldest make room. Who is not
/// remembered is decided about again, which does no harm.
#[derive(Debug, Default)]
pub(super) struct Answered {
    clients: [Option<AnsweredClient>; PLACES],
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct AnsweredClient {
    dcid: ConnectionId,
    address: SocketAddr,
    at: Time,
}

impl Answered {
    /// The hello for `dcid` that came from `address` is through.
    pub(super) fn note(&mut self, dcid: ConnectionId, address: SocketAddr, at: Time) {
        self.clients[self.next] = Some(AnsweredClient { dcid, address, at });
        self.next = (self.next + 1) % PLACES;
    }

    /// Whether what came now is another part of such a hello.
    pub(super) fn has(&self, dcid: &ConnectionId, address: SocketAddr, now: Time) -> bool {
        let is_it = |client: &AnsweredClient| {
            client.dcid == *dcid && client.address == address && now.since(client.at) < TOGETHER
        };
        self.clients.iter().flatten().any(is_it)
    }
}

/// As many clients as may say hello while the halves of one overtake each other.
const PLACES: usize = 8;

/// Datagrams that leave together are no further apart; what is sent again because no answer came is.
const TOGETHER: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_known_by_id_and_address_for_a_moment() {
        let (start, id) = (Time::from_millis(1000), |n: u8| ConnectionId::new(&[n; 8]).unwrap());
        let at = |n: u8| SocketAddr::from(([192, 0, 2, n], 4433));
        let mut answered = Answered::default();
        answered.note(id(1), at(1), start);
        assert!(answered.has(&id(1), at(1), start));
        assert!(answered.has(&id(1), at(1), start + Duration::from_millis(19)));
        assert!(!answered.has(&id(1), at(1), start + Duration::from_millis(20)), "it is sent again");
        assert!(!answered.has(&id(1), at(2), start), "another client may draw the same id");
        assert!(!answered.has(&id(2), at(1), start));
        for n in 2..=8 {
            answered.note(id(n), at(n), start);
        }
        assert!((1..=8).all(|n| answered.has(&id(n), at(n), start)));
        answered.note(id(9), at(9), start);
        assert!(!answered.has(&id(1), at(1), start), "the oldest makes room");
        assert!(answered.has(&id(2), at(2), start) && answered.has(&id(9), at(9), start));
    }
}
