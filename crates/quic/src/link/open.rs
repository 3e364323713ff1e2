//! What comes: opened, or kept until there are keys, or dropped.

use bytes::BytesMut;
use quickset_wire::{ConnectionId, PacketType, Space, Version};

use super::PacketLink;
use crate::common::Common;
use crate::error::TransportError;
use crate::keys::OpenError;
use crate::packet::Phase;
use crate::qlog::Why;
use crate::received::{Authentic, WaitingPacket};

impl PacketLink {
    /// Removes the protection; `largest` is the largest number of its space that was opened.
    #[inline]
    pub(crate) fn unseal(
        &mut self,
        cx: &mut Common,
        mut waiting: WaitingPacket,
        largest: Option<u64>,
    ) -> Result<Authentic, (WaitingPacket, OpenError)> {
        let WaitingPacket { kind, packet, number_at, ecn } = &mut waiting;
        // RFC 9001 §5.7: a server acts on 1-RTT packets only when the handshake is complete.
        if *kind == PacketType::OneRtt && cx.phase == Phase::Handshake && cx.side.is_server() {
            return Err((waiting, OpenError::TooEarly));
        }
        match self.keys.open(*kind, *number_at, packet, largest, cx.now) {
            Ok(opened) => Ok(Authentic { kind: *kind, packet: std::mem::take(packet), opened, ecn: *ecn }),
            Err(error) => Err((waiting, error)),
        }
    }

    /// A packet was not opened. False when it could not be read.
    pub(crate) fn unopened(
        &mut self,
        cx: &mut Common,
        mut waiting: WaitingPacket,
        error: OpenError,
    ) -> Result<bool, TransportError> {
        let (kind, size) = (waiting.kind, waiting.packet.len());
        match error {
            OpenError::TooEarly => {
                if self.early.has_room(kind, size) {
                    cx.qlog.buffered(cx.now, kind, size);
                    // A copy: it must not keep a whole receive buffer alive.
                    waiting.packet = BytesMut::from(&waiting.packet[..]);
                    self.early.packets.push((cx.now, waiting));
                }
                Ok(true)
            }
            OpenError::Dropped => {
                cx.stats.dropped_packets += 1;
                cx.trace_dropped(Some(kind), size, Why::Unreadable);
                Ok(false)
            }
            OpenError::Fatal(error) => Err(error),
        }
    }

    /// Whether a 0-RTT packet of `size` bytes is looked at. A client gets none (RFC 9000 §17.2.3).
    pub(crate) fn takes_early(&self, cx: &Common, size: usize) -> bool {
        let Some(early) = cx.config.early_data.as_ref().filter(|_| cx.side.is_server()) else {
            return false;
        };
        let held = self.early.taken + (self.early.waiting(true).1 + size) as u64;
        held <= early.max_bytes && (self.keys.has_early() || !self.keys.has(Space::Handshake))
    }

    /// A server that wants no early data, or none of this client, says so before it reads the hello.
    pub(crate) fn admit_early(&mut self, cx: &Common) {
        let client = self.path.address;
        let wanted = cx.config.early_data.as_ref().is_some_and(|early| early.admits(&client));
        if cx.side.is_server() && !wanted {
            self.keys.refuse_early();
        }
    }

    /// The source id of a long header: the first one is the peer's choice, all others must equal it
    /// (RFC 9000 §7.2). False when the packet is to be dropped.
    pub(crate) fn accept_source(&mut self, scid: ConnectionId) -> bool {
        if let Some(known) = self.peer_cid {
            return known == scid;
        }
        self.peer_cid = Some(scid);
        self.cids.set_remote(scid);
        true
    }

    pub(crate) fn turn(&mut self, cx: &mut Common, version: Version) {
        if self.keys.turn(cx.version) {
            tracing::debug!(from = %cx.version, to = %version, "the handshake goes on in another version");
            cx.version = version;
            cx.trace_version();
        }
    }
}
