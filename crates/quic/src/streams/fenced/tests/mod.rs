mod deadlines;
mod even;
mod hostile;
mod memory;
mod model;
mod rules;
mod sending;

use bytes::Bytes;
use quickset_base::{Duration, Time};
use quickset_wire as wire;

use super::RecordSender;
use crate::packet::{FrameToken, PacketWriter, RoomView, StreamKey};

const KEY: StreamKey = StreamKey { index: 3, generation: 1 };

fn view(now: Time, srtt: Duration) -> RoomView {
    RoomView { now, room: 1173, srtt, one_way: srtt / 2, rate: u64::MAX }
}

/// Lets the sender fill a packet with `room` for frames; returns frames, tokens and the credit used.
fn write_packet(
    sender: &mut RecordSender,
    room: usize,
    credit: u64,
    view: &RoomView,
) -> (Bytes, Vec<FrameToken>, u64) {
    let mut bytes = vec![0; room];
    let mut tokens = Vec::new();
    let mut w = PacketWriter::new(wire::Writer::new(&mut bytes), &mut tokens);
    let used = sender.write(&mut w, credit, &RoomView { room, ..*view });
    let len = w.len();
    bytes.truncate(len);
    (Bytes::from(bytes), tokens, used)
}
