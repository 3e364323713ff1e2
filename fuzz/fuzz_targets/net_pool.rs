//! The receive buffers of `net`, and the datagrams of messages that the system put together: each is what was
//! received, whatever is received while it is held, written to and dropped in any order; and memory that
//! nobody holds comes back.
//!
//! Operations are a byte, with a length and a stride or whom they are for behind it.
#![no_main]

#[path = "../../crates/net/src/pool.rs"]
mod pool;

use bytes::{Bytes as Shared, BytesMut};
use libfuzzer_sys::fuzz_target;
use pool::{ReceivePool, SIZE, datagrams};
use quickset_fuzz::{Bytes, held};

fuzz_target!(|input: &[u8]| {
    let before = held();
    let mut bytes = Bytes(input);
    let mut pool = ReceivePool::default();
    let mut buffers: [BytesMut; 4] = std::array::from_fn(|_| pool.take());
    let mut holder = Holder::default();
    for _ in 0..OPERATIONS {
        if bytes.is_empty() {
            break;
        }
        let op = bytes.next();
        let number = usize::from(bytes.next()) << 8 | usize::from(bytes.next());
        match op % 8 {
            0..4 => {
                let stride = usize::from(bytes.next()) << 8 | usize::from(bytes.next());
                holder.receive(&mut pool, &mut buffers[usize::from(op >> 3) % 4], number, stride);
            }
            4 => drop(holder.take(number)),
            5 => holder.write(number),
            6 => holder.share(number),
            _ => (0..op >> 3).for_each(|_| pool.rest()),
        }
    }
    holder.held.iter().for_each(Held::check);
    drop(holder);
    // Each gives back one handle at most.
    (0..300).for_each(|_| pool.rest());
    drop(buffers);
    assert!(held() - before <= KEPT, "{} bytes", held() - before);
    drop(pool);
    assert_eq!(held(), before);
});

/// Datagrams that were received, and what is to be in them.
#[derive(Default)]
struct Holder {
    held: Vec<Held>,
    /// Goes into the next message.
    tag: u8,
}

/// A datagram, all of whose bytes are the tag.
struct Held {
    bytes: Datagram,
    tag: u8,
}

enum Datagram {
    Own(BytesMut),
    Shared(Shared),
}

impl Held {
    /// Nobody else has written to it.
    fn check(&self) {
        let bytes: &[u8] = match &self.bytes {
            Datagram::Own(bytes) => bytes,
            Datagram::Shared(bytes) => bytes,
        };
        assert!(bytes.iter().all(|byte| *byte == self.tag));
    }
}

impl Holder {
    /// The system fills a buffer, as far as it does, and says so.
    fn receive(&mut self, pool: &mut ReceivePool, buffer: &mut BytesMut, len: usize, stride: usize) {
        assert_eq!(buffer.len(), SIZE, "as much as any message takes");
        self.tag = self.tag.wrapping_add(1);
        buffer[..len].fill(self.tag);
        let message = pool.cut(buffer, len);
        assert_eq!(message.len(), len);
        let mut left = len;
        for datagram in datagrams(message, stride) {
            assert_eq!(datagram.len(), left.min(stride.max(1)), "all but the last are as long as the first");
            left -= datagram.len();
            // Of many it may be that most are dropped at once.
            if self.held.len() < MOST {
                self.held.push(Held { bytes: Datagram::Own(datagram), tag: self.tag });
            }
        }
        assert_eq!(left, 0, "all of it");
    }

    /// One that is as it was received.
    fn take(&mut self, n: usize) -> Option<Held> {
        let held = self.held.swap_remove(n.checked_rem(self.held.len())?);
        held.check();
        Some(held)
    }

    /// As packets are decrypted in place, and taken apart.
    fn write(&mut self, n: usize) {
        let Some(Held { bytes: Datagram::Own(mut bytes), tag }) = self.take(n) else { return };
        let tag = !tag;
        bytes.fill(tag);
        match n % 4 {
            0 => {
                let behind = bytes.split_off(bytes.len() / 2);
                self.held.push(Held { bytes: Datagram::Own(behind), tag });
            }
            1 => bytes.truncate(bytes.len() / 2),
            2 => bytes.extend_from_slice(&[tag; 100]),
            _ => {}
        }
        self.held.push(Held { bytes: Datagram::Own(bytes), tag });
    }

    /// As what an application reads outlives the packet.
    fn share(&mut self, n: usize) {
        let Some(Held { bytes, tag }) = self.take(n) else { return };
        let bytes = match bytes {
            Datagram::Own(bytes) => bytes.freeze(),
            Datagram::Shared(bytes) => bytes,
        };
        self.held.push(Held { bytes: Datagram::Shared(bytes.slice(bytes.len() / 3..)), tag });
        if n % 2 == 0 {
            self.held.push(Held { bytes: Datagram::Shared(bytes), tag });
        }
    }
}

/// Of one input.
const OPERATIONS: usize = 60;

/// Datagrams that are held at a time.
const MOST: usize = 100;

/// Bytes that a pool at rest may keep: 16 buffers, the one for small messages, and lists of them.
const KEPT: isize = 18 * (1 << 16) + (1 << 14);
