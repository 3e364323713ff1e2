use quickset_wire::{PacketType, Space};

use super::Connection;
use crate::packet::{Phase, Want};

/// A handshake of which the peer lacks something goes on sooner than by a probe timeout (RFC 9002 §6.2.3).
impl Connection {
    /// A server hears a hello again that it has read: the client has not got all of the answer, or has thrown
    /// some of it away. There are clients that acknowledge a packet before they can act on it, as of a
    /// version that they are about to go on in. So the answer is said again as a whole, whatever of it was
    /// acknowledged.
    //
    // RFC 9002 §6.2.3 would have it be what is not acknowledged. A few times in a connection, of which
    // nothing can follow but the same from the client; and as any data it keeps to the window and to the
    // amplification limit (RFC 9000 §8.1).
    pub(crate) fn heard_again(&mut self, space: Space) {
        let waits =
            self.common.side.is_server() && space == Space::Initial && self.common.phase == Phase::Handshake;
        if waits && self.link.keys.want(Space::Initial) == Want::None {
            self.hasten(MOST_ANSWERS);
        }
    }

    /// A client has packets that it cannot read before the server's first one, which is lost or late: it says
    /// hello again, and the server its answer.
    pub(crate) fn miss_answer(&mut self) {
        let misses = self.common.side.is_client()
            && !self.link.keys.has(Space::Handshake)
            && self.link.keys.has(Space::Initial);
        if misses && self.link.early.holds(&[PacketType::Handshake, PacketType::OneRtt]) {
            self.hasten(MOST_HELLOS);
        }
    }

    fn hasten(&mut self, most: u8) {
        if self.life.handshake.hastened >= most {
            return;
        }
        self.life.handshake.hastened += 1;
        for space in [Space::Initial, Space::Handshake] {
            if self.link.keys.seals(space) {
                if let Some(stream) = self.link.keys.stream(space) {
                    stream.again();
                }
            }
        }
    }
}

/// Once is enough for a packet that was lost (RFC 9002 §6.2.3); twice, since the hello may have been late the
/// first time.
const MOST_ANSWERS: u8 = 2;
const MOST_HELLOS: u8 = 1;
