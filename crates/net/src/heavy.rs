use std::collections::{HashMap, VecDeque};

use bytes::BytesMut;
use quickset_base::Datagram;
use quickset_quic::ConnectionKey;

/// Datagrams of handshakes, in which each costs a hundred times as much as any other: two connections' are
/// handled in a turn of the driver. So their answers leave, and the peers work on them, before those of
/// others are looked at. Each connection waits once, with a few datagrams, so that none keeps others waiting
/// by sending more.
#[derive(Default)]
pub(crate) struct Heavy {
    order: VecDeque<ConnectionKey>,
    rows: HashMap<ConnectionKey, Vec<Datagram>>,
    datagrams: usize,
    bytes: usize,
}

impl Heavy {
    /// Puts a datagram aside, as a copy, so that a small one does not hold the buffer that it came in.
    /// Without room it is lost: its sender sends it again, and those whose handshakes are through do not
    /// notice.
    pub(crate) fn push(&mut self, key: ConnectionKey, mut datagram: Datagram) {
        let bytes = self.bytes + datagram.bytes.len();
        if bytes > MAX_BYTES || self.datagrams >= MAX_DATAGRAMS {
            return;
        }
        let row = self.rows.entry(key).or_default();
        if row.is_empty() {
            self.order.push_back(key);
        } else if row.len() >= MAX_EACH || weight(row) + datagram.bytes.len() > MAX_BYTES_EACH {
            return;
        }
        (self.bytes, self.datagrams) = (bytes, self.datagrams + 1);
        datagram.bytes = BytesMut::from(&datagram.bytes[..]);
        row.push(datagram);
    }

    /// Moves those of the next connection to `row`.
    pub(crate) fn next(&mut self, row: &mut Vec<Datagram>) -> Option<ConnectionKey> {
        let key = self.order.pop_front()?;
        let mut waiting = self.rows.remove(&key)?;
        self.datagrams -= waiting.len();
        self.bytes -= weight(&waiting);
        row.append(&mut waiting);
        Some(key)
    }

    #[cfg(test)]
    #[cfg(feature = "tokio")]
    pub(crate) fn len(&self) -> usize {
        self.datagrams
    }
}

fn weight(row: &[Datagram]) -> usize {
    row.iter().map(|datagram| datagram.bytes.len()).sum()
}

/// As many as a burst has that a socket's buffer takes: all the clients of a server that comes back do so at
/// once, and those whose hellos are lost wait for a second and more.
const MAX_BYTES: usize = 4 << 20;
const MAX_DATAGRAMS: usize = 4096;

/// Of one connection: a hello and early data, or certificates, and all that once more.
const MAX_BYTES_EACH: usize = 64 << 10;
const MAX_EACH: usize = 32;
