//! Probes of the handshake and after it: packets that leave whatever the window says (RFC 9002 §6.2.4).

use quickset_wire::Space;

use super::PacketLink;
use crate::cc::CongestionControl;
use crate::common::Common;
use crate::packet::{FrameToken, MIN_INITIAL, Phase, Want};

impl PacketLink {
    /// RFC 9002 §6.2.4: what is in flight at later levels goes along. A client's request that was lost with
    /// its Finished would else wait until the handshake is confirmed.
    pub(crate) fn probe_beside(&mut self, cx: &mut Common, space: Space, lost: &mut Vec<FrameToken>) {
        for other in Space::ALL.into_iter().skip(space.index() + 1) {
            if self.keys.seals(other) && self.path.recovery.probe_tokens(other, lost) {
                let probes = &mut self.probes[other.index()];
                *probes = (*probes).max(1);
            }
        }
        // A server that is through has no keys to read the handshake with, and may not know where we are.
        if cx.side.is_client() && cx.phase == Phase::Established {
            let probes = &mut self.probes[Space::Data.index()];
            *probes = (*probes).max(1);
        }
    }

    /// Lost handshake bytes that the window keeps back go as a probe does. A server may have filled the
    /// window with data that the client cannot read before it has these bytes, and so cannot acknowledge;
    /// nothing of the handshake being in flight, no probe timeout would run either (RFC 9002 §6.2.2.1), and
    /// both sides would be silent for ever.
    pub(crate) fn free_handshake(&mut self, cx: &mut Common, control: &CongestionControl) {
        if cx.phase == Phase::Confirmed
            || self.path.recovery.in_flight() + MIN_INITIAL as u64 <= control.window
        {
            return;
        }
        for space in [Space::Initial, Space::Handshake] {
            if self.keys.has(space) && self.keys.want(space) == Want::Lost {
                let probes = &mut self.probes[space.index()];
                *probes = (*probes).max(1);
            }
        }
    }

    /// RFC 9000 §14.1: whether a datagram with an Initial packet is brought up to size. A server's that says
    /// no more than that half of a hello came is not: what it may send is for its flight.
    pub(crate) fn pads_initial(&mut self, cx: &Common, data: bool) -> bool {
        cx.side.is_client()
            || self.probes[Space::Initial.index()] > 0
            || (data && self.keys.want(Space::Initial) > Want::None)
    }
}
