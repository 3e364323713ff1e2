//! Where the control frames of 1-RTT packets come from: one list, which filling a packet, "is there anything
//! to send" and the fast path of trains all walk. A source that is in it cannot be forgotten by one of them.
//!
//! Acknowledgements, the handshake's bytes and the data of the application are none of these: they have rules
//! of their own.

use quickset_wire::frame::Frame;

use super::Transmission;
use crate::conn::Connection;
use crate::packet::{FrameToken, PacketWriter, RoomView, Want};

/// Somebody who may have control frames for a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ControlSource {
    /// What it has now.
    pub(crate) need: fn(&Connection) -> SendUrgency,
    /// Writes as much of it as fits; called whether there is any or not.
    pub(crate) write: fn(&mut Connection, &mut PacketWriter<'_>, &RoomView),
}

/// How urgently frames want to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendUrgency {
    /// There are none.
    Nothing,
    /// They go into the next packet that carries anything but acknowledgements.
    Along,
    /// A packet is made for them.
    Packet,
}

impl From<Want> for SendUrgency {
    fn from(want: Want) -> Self {
        if want > Want::None { Self::Packet } else { Self::Nothing }
    }
}

/// In the order in which they write, before data.
const BEFORE_DATA: &[ControlSource] = &[
    // The end of the handshake: the peer holds keys and timers until it knows.
    ControlSource {
        need: |this| this.life.confirmation.want().into(),
        write: |this, w, _| this.life.confirmation.write(w),
    },
    // Connection ids: few, and somebody waits for a spare one.
    ControlSource { need: |this| this.link.cids.want().into(), write: |this, w, _| this.link.cids.write(w) },
    // What we keep for decoding: whoever sends repair beyond it wastes it.
    ControlSource {
        need: |this| {
            this.protect.receive.as_ref().map_or(SendUrgency::Nothing, |receive| receive.want().into())
        },
        write: |this, w, _| {
            if let Some(receive) = &mut this.protect.receive {
                receive.write(w);
            }
        },
    },
    // How often to acknowledge what follows.
    ControlSource {
        need: |this| if this.link.asks.is_due() { SendUrgency::Along } else { SendUrgency::Nothing },
        write: |this, w, _| {
            if this.link.asks.is_due() {
                let protected = this.protect.send.waits();
                this.link.write_ask(&this.common, w, protected);
            }
        },
    },
    // Stream control before stream data: a byte of credit moves a window of data. FS-5, FEC-6: here only, and
    // in 0-RTT packets no room knows the peer's offers.
    ControlSource {
        need: |this| {
            if this.traffic.streams.has_control() { SendUrgency::Packet } else { SendUrgency::Nothing }
        },
        write: |this, w, view| this.traffic.streams.write_control(w, view),
    },
];

/// The same behind data, which leaves them no room while there is enough of it.
const BEHIND_DATA: &[ControlSource] = &[
    // Behind what elicits: the end of a message asks to be acknowledged at once.
    ControlSource {
        need: |this| if this.link.asks.wants_immediate() { SendUrgency::Along } else { SendUrgency::Nothing },
        write: |this, w, _| this.link.asks.write_immediate(w),
    },
    // A keep-alive must be answered, and what else is in its packet may see to that.
    ControlSource {
        need: |this| {
            if this.life.lifecycle.wants_ping() { SendUrgency::Packet } else { SendUrgency::Nothing }
        },
        write: |this, w, _| {
            if this.life.lifecycle.wants_ping() && !w.is_eliciting() {
                w.put(&Frame::Ping, FrameToken::Nothing);
            }
        },
    },
];

impl Connection {
    #[cfg_attr(not(test), expect(clippy::unused_self, reason = "tests add one"))]
    fn sources(&self) -> impl Iterator<Item = &'static ControlSource> + use<> {
        let all = BEFORE_DATA.iter().chain(BEHIND_DATA);
        #[cfg(test)]
        let all = all.chain(self.scratch.another);
        all
    }

    /// Whether a packet is to be made for control frames.
    pub(super) fn wants_control(&self) -> bool {
        self.sources().any(|source| (source.need)(self) == SendUrgency::Packet)
    }

    /// Whether the next packet would hold control frames.
    pub(super) fn has_control(&self) -> bool {
        self.sources().any(|source| (source.need)(self) != SendUrgency::Nothing)
    }
}

impl Transmission<'_> {
    pub(super) fn write_before_data(&mut self, w: &mut PacketWriter<'_>, view: &RoomView) {
        for source in BEFORE_DATA {
            (source.write)(self.conn, w, view);
        }
        #[cfg(test)]
        if let Some(source) = self.conn.scratch.another {
            (source.write)(self.conn, w, view);
        }
    }

    pub(super) fn write_behind_data(&mut self, w: &mut PacketWriter<'_>, view: &RoomView) {
        for source in BEHIND_DATA {
            (source.write)(self.conn, w, view);
        }
    }
}
