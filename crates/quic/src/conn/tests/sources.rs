//! A frame that is in the list of those who want to send, and nowhere else, leaves.

use quickset_wire::Space;

use super::*;
use crate::packet::FrameToken;
use crate::tx::{ControlSource, SendUrgency};

/// Owes as many PINGs as the test says.
static PACKET: ControlSource = ControlSource {
    need: |this| if this.scratch.owed > 0 { SendUrgency::Packet } else { SendUrgency::Nothing },
    write: |this, w, _| {
        if this.scratch.owed > 0 && w.put(&Frame::Ping, FrameToken::Nothing) {
            this.scratch.owed -= 1;
        }
    },
};

/// The same, but no packet is made for them.
static ALONG: ControlSource = ControlSource {
    need: |this| if this.scratch.owed > 0 { SendUrgency::Along } else { SendUrgency::Nothing },
    ..PACKET
};

fn joined_with_source(source: &'static ControlSource) -> Joined {
    let mut pair = joined();
    pair.client.scratch.another = Some(source);
    pair
}

#[test]
fn an_idle_connection_makes_a_packet_for_it() {
    for (source, packets) in [(&PACKET, 1), (&ALONG, 0)] {
        let mut pair = joined_with_source(source);
        pair.client.scratch.owed = 1;
        let next = |pair: &Joined| pair.client.link.path.recovery.next_number(Space::Data);
        let before = next(&pair);
        drain(&mut pair.client, pair.now, address(1));
        assert_eq!((next(&pair) - before, u64::from(pair.client.scratch.owed)), (packets, 1 - packets));
    }
}

#[test]
fn beside_a_transfer_it_has_the_next_packet() {
    for source in [&PACKET, &ALONG] {
        let mut pair = joined_with_source(source);
        let id = pair.client.streams().open(Dir::Uni).unwrap();
        let mut out = Batch::new();
        let write = |pair: &mut Joined| {
            pair.client.send_stream(id).write(&mut Bytes::from(vec![7; 1 << 20])).unwrap()
        };
        // The window grows until batches are full.
        write(&mut pair);
        pair.settle();
        write(&mut pair);
        let followed = pair.client.scratch.followed;
        assert_eq!(pair.client.poll(pair.now, &mut out), Poll::Send);
        assert!(pair.client.scratch.followed > followed, "a train is under way");
        pair.client.scratch.owed = 1;
        out.clear();
        assert_eq!(pair.client.poll(pair.now, &mut out), Poll::Send);
        assert_eq!(pair.client.scratch.owed, 0, "it waits behind the train");
    }
}
