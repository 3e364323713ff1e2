use quickset_wire::Space;

use super::Recovery;
use super::sent::RingPlace;
use crate::packet::FrameToken;

/// Packets that never left.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TakenBack {
    pub(crate) packets: u64,
    /// Whether any of them elicited an acknowledgement, by space.
    pub(crate) eliciting: [bool; 3],
}

impl Recovery {
    /// The last packets, from these numbers on by space, did not leave, but for those in the datagrams whose
    /// bits are set in `left`: they were never in flight. Their tokens go back to their rooms as lost ones,
    /// and nobody else hears of it.
    pub(crate) fn take_back(&mut self, first: &[u64; 3], left: u64, lost: &mut Vec<FrameToken>) -> TakenBack {
        let mut back = TakenBack::default();
        // Which of several in a datagram belong together is not known. What is sent twice does no harm.
        let is_mixed = [Space::Initial, Space::Handshake].into_iter().any(|space| {
            self.spaces
                .get(space)
                .is_some_and(|numbers| !numbers.discarded && numbers.sent.next() > first[space.index()])
        });
        let left = if is_mixed { 0 } else { left };
        let is_gone = |datagram: u64| datagram >= 64 || left >> datagram & 1 == 0;
        for space in Space::ALL {
            let Some(numbers) = self.spaces.get_mut(space) else { continue };
            let space = space.index();
            let mut at = first[space].max(numbers.sent.base());
            let mut datagram = at - first[space];
            while at < numbers.sent.next() {
                let (is_open, n) = match numbers.sent.place(at) {
                    RingPlace::Skipped => {
                        at += 1;
                        continue;
                    }
                    RingPlace::SettledUntil(next) => (false, next - at),
                    RingPlace::Outstanding(_) => (true, 1),
                };
                if is_open && is_gone(datagram) {
                    let gone = numbers.sent.settle(at, lost);
                    self.in_flight -= u64::from(gone.in_flight) * gone.packet.bytes;
                    back.eliciting[space] |= gone.eliciting;
                    back.packets += 1;
                }
                (at, datagram) = (at + n, datagram + n);
            }
            numbers.sent.trim();
        }
        back
    }
}

#[cfg(test)]
mod tests {
    use quickset_base::{Duration, Time};
    use quickset_wire::Side;

    use super::super::SentPacket;
    use super::*;
    use crate::cc;

    /// A recovery that has sent packets of 1000 bytes with these numbers in a space.
    fn sent(packets: &[(Space, u64)]) -> Recovery {
        let mut recovery = Recovery::new(Side::Client, Duration::from_millis(100));
        for (space, number) in packets {
            let packet = SentPacket {
                number: *number,
                now: Time::from_millis(1),
                bytes: 1000,
                eliciting: true,
                in_flight: true,
                marked: false,
                state: cc::PacketState::default(),
            };
            let mut tokens = vec![FrameToken::Crypto { space: *space, offset: *number, len: 1 }];
            recovery.on_sent(*space, packet, &mut tokens);
        }
        recovery
    }

    fn offsets(tokens: &[FrameToken]) -> Vec<u64> {
        let of = |token: &FrameToken| match token {
            FrameToken::Crypto { offset, .. } => *offset,
            other => panic!("{other:?}"),
        };
        tokens.iter().map(of).collect()
    }

    #[test]
    fn what_left_stays_and_the_rest_was_never_in_flight() {
        // Number 12 was left out on purpose (RFC 9000 §21.4).
        let mut recovery = sent(&[9, 10, 11, 13, 14].map(|n| (Space::Data, n)));
        let mut lost = Vec::new();
        let back = recovery.take_back(&[0, 0, 10], 0b0010, &mut lost);
        assert_eq!(offsets(&lost), [10, 13, 14], "9 is of the batch before, 11 left");
        assert_eq!((back.packets, back.eliciting), (3, [false, false, true]));
        assert_eq!((recovery.in_flight(), recovery.first_outstanding(Space::Data)), (2000, 9));
        recovery.check();
        lost.clear();
        assert_eq!(recovery.take_back(&[0, 0, 10], 0, &mut lost).packets, 1, "nothing is taken back twice");
        assert_eq!((offsets(&lost), recovery.in_flight()), (vec![11], 1000));
        recovery.check();
    }

    #[test]
    fn of_a_handshake_all_is_sent_again() {
        let mut recovery =
            sent(&[(Space::Initial, 0), (Space::Handshake, 0), (Space::Handshake, 1), (Space::Data, 0)]);
        let mut lost = Vec::new();
        let back = recovery.take_back(&[0, 0, 0], 0b01, &mut lost);
        assert_eq!((back.packets, back.eliciting, recovery.in_flight()), (4, [true; 3], 0));
        recovery.check();
    }
}
