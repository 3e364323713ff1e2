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

use super::Sender;
use crate::packet::{Key, Token, View, Writer};

const KEY: Key = Key { index: 3, generation: 1 };

fn view(now: Time, srtt: Duration) -> View {
    View { now, room: 1173, srtt, one_way: srtt / 2, rate: u64::MAX }
}

/// Lets the sender fill a packet with `room` for frames; returns frames, tokens and the credit used.
fn write_packet(sender: &mut Sender, room: usize, credit: u64, view: &View) -> (Bytes, Vec<Token>, u64) {
    let mut bytes = vec![0; room];
    let mut tokens = Vec::new();
    let mut w = Writer::new(wire::Writer::new(&mut bytes), &mut tokens);
    let used = sender.write(&mut w, credit, &View { room, ..*view });
    let len = w.len();
    bytes.truncate(len);
    (Bytes::from(bytes), tokens, used)
}
