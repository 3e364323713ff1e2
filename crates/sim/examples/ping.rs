//! Moves 42 MB through a link of 100 Mbit/s with an answer for every second packet, and says what
//! happened. In virtual time it takes 3.4 seconds; run it with `time` to see what it really takes:
//!
//!     cargo run --release -p quickset-sim --example ping [LINK]
//!
//! LINK is a description like `rate=100mbit delay=50ms queue=9MB loss=0.5%` (the default).

use std::net::SocketAddr;

use quickset_base::{AddressPair, Batch, Input, Machine, Poll, Reason, Time};
use quickset_sim::{LinkSpec, World, address};

/// Keeps packets in flight up to a window; the other side answers every second packet.
struct Peer {
    to: SocketAddr,
    window: u64,
    to_send: u64,
    sent: u64,
    answered: u64,
    received: u64,
    answers: u64,
}

impl Peer {
    fn new(to: SocketAddr, to_send: u64) -> Self {
        Self { to, window: 2000, to_send, sent: 0, answered: 0, received: 0, answers: 0 }
    }
}

impl Machine for Peer {
    fn handle(&mut self, _now: Time, input: Input<'_>) {
        if let Input::Received(datagrams) = input {
            for datagram in datagrams.drain(..) {
                if let Ok(total) = <[u8; 8]>::try_from(&datagram.bytes[..]) {
                    self.answered = self.answered.max(u64::from_le_bytes(total));
                } else {
                    self.received += 1;
                }
            }
        }
    }

    fn poll(&mut self, _now: Time, out: &mut Batch) -> Poll {
        out.path = AddressPair::to(self.to);
        if self.received / 2 > self.answers {
            self.answers += 1;
            // The number that it has seen sent: what is lost is not sent again, so count it as gone.
            out.space(8).copy_from_slice(&self.received.to_le_bytes());
            out.commit(8);
            return Poll::Send;
        }
        while self.sent < self.to_send && self.sent < self.answered + self.window && out.has_room(1400) {
            out.space(1400).fill(7);
            out.commit(1400);
            self.sent += 1;
        }
        if out.is_empty() { Poll::Sleep(None, Reason::Idle) } else { Poll::Send }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let text =
        std::env::args().nth(1).unwrap_or_else(|| "rate=100mbit delay=50ms queue=9MB loss=0.5%".into());
    let link: LinkSpec = text.parse()?;
    let mut world = World::new(1);
    world.add("sender", address(1), Peer::new(address(2), 30_000));
    let receiver = world.add("receiver", address(2), Peer::new(address(1), 0));
    let (up, down) = world.join(address(1), address(2), link.clone(), link);
    let ended = world.run(Time::MAX)?;
    println!("{ended:?} at {}, {} packets received", world.now(), world.node(receiver).received);
    println!("up {:?}\ndown {:?}", world.counts(up), world.counts(down));
    Ok(())
}
