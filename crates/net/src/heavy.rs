use std::collections::VecDeque;

use bytes::BytesMut;
use quickset_base::Datagram;
use quickset_quic::ConnectionKey;

/// Datagrams of handshakes, in which each costs a hundred times as much as any other: one connection's are handled in a turn
/// of the driver. So its answer leaves, and the peer works on it, before those of the next are looked at.
#[derive(Default)]
pub(crate) struct Heavy {
    queue: VecDeque<(ConnectionKey, Datagram)>,
    bytes: usize,
}

impl Heavy {
    /// Puts a datagram aside, as a copy, so that a small one does not hold the buffer that it came in. Without room it is
    /// lost: its sender sends it again, and those whose handshakes are through do not notice.
    pub(crate) fn push(&mut self, key: ConnectionKey, mut datagram: Datagram) {
        let bytes = self.bytes + datagram.bytes.len();
        if bytes <= MAX_BYTES && self.queue.len() < MAX_DATAGRAMS {
            self.bytes = bytes;
            datagram.bytes = BytesMut::from(&datagram.bytes[..]);
            self.queue.push_back((key, datagram));
        }
    }

    /// Moves those of the next connection to `row`.
    pub(crate) fn next(&mut self, row: &mut Vec<Datagram>) -> Option<ConnectionKey> {
        let (key, _) = *self.queue.front()?;
        while self.queue.front().is_some_and(|(next, _)| *next == key) {
            let Some((_, datagram)) = self.queue.pop_front() else { break };
            self.bytes -= datagram.bytes.len();
            row.push(datagram);
        }
        Some(key)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }
}

/// As many as a burst has that a socket's buffer takes: all the clients of a server that comes back do so at once, and those
/// whose hellos are lost wait for a second and more.
const MAX_BYTES: usize = 4 << 20;
const MAX_DATAGRAMS: usize = 4096;
