use std::collections::VecDeque;

use bytes::BytesMut;

/// Buffers for packets under way, cut from slabs that are used again when every packet cut from them
/// is gone, whoever held it last.
#[derive(Debug, Default)]
pub(crate) struct PacketPool {
    slab: BytesMut,
    // Used up, oldest first; most likely the first to be free again.
    spent: VecDeque<BytesMut>,
}

impl PacketPool {
    /// An owned copy of `bytes`.
    pub(crate) fn copy(&mut self, bytes: &[u8]) -> BytesMut {
        if self.slab.capacity() < bytes.len() {
            self.renew(bytes.len());
        }
        self.slab.extend_from_slice(bytes);
        self.slab.split()
    }

    fn renew(&mut self, least: usize) {
        let size = SLAB.max(least);
        let spent = core::mem::take(&mut self.slab);
        // A new pool starts with nothing worth keeping; larger slabs than usual are not kept either.
        if spent.capacity() > 0 || !self.spent.is_empty() {
            self.spent.push_back(spent);
        }
        for _ in 0..TRIES.min(self.spent.len()) {
            let Some(mut slab) = self.spent.pop_front() else { break };
            if slab.try_reclaim(size) {
                self.slab = slab;
                return;
            }
            if self.spent.len() < SPENT {
                self.spent.push_back(slab);
            }
        }
        self.slab = BytesMut::with_capacity(size);
    }
}

/// Forty-four full packets, and far below the size from which allocators ask the system each time.
const SLAB: usize = 64 * 1024;
/// Slabs kept for another use: 64 MiB, the window of 5 Gbit/s at 100 ms.
const SPENT: usize = 1024;
/// Slabs looked at before a new one is made: a packet that somebody holds on to blocks only its own slab.
const TRIES: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slabs_are_used_again_and_packets_stay_apart() {
        let mut pool = PacketPool::default();
        let mut held: VecDeque<(u8, BytesMut)> = VecDeque::new();
        for n in 0..10_000u32 {
            let value = n as u8;
            held.push_back((value, pool.copy(&[value; 1400])));
            if held.len() > 100 {
                let (value, bytes) = held.pop_front().unwrap();
                assert!(bytes.iter().all(|b| *b == value));
                assert_eq!(bytes.len(), 1400);
            }
        }
        // A hundred packets of 1400 bytes lie in at most four slabs.
        assert!(pool.spent.len() <= 5, "{}", pool.spent.len());
    }

    #[test]
    fn a_packet_held_for_ever_costs_one_slab() {
        let mut pool = PacketPool::default();
        let pinned = pool.copy(b"held");
        for _ in 0..10_000 {
            drop(pool.copy(&[1; 1400]));
        }
        assert!(pool.spent.len() <= 3, "{}", pool.spent.len());
        assert_eq!(&pinned[..], b"held");
    }

    #[test]
    fn larger_than_a_slab() {
        let mut pool = PacketPool::default();
        assert_eq!(pool.copy(&vec![7; 100_000]).len(), 100_000);
        assert_eq!(pool.copy(&[8; 10]).len(), 10);
        assert!(pool.copy(&[]).is_empty());
    }
}
