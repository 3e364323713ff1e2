//! Two rooms and a toy channel between them: what one writes, the other parses.

mod anything;
mod credit;
mod demand;
mod errors;
mod letters;
mod order;
mod pair;
mod resets;
mod room;
mod turns;
mod unordered;

use bytes::Bytes;
use quickset_base::{Duration, Time};
use quickset_wire as wire;
use quickset_wire::Side;
use quickset_wire::frame::{Frame, Frames};

use super::Streams;
use crate::TransportError;
use crate::config::TransportConfig;
use crate::endpoint::announce;
use crate::packet::{Channel, FrameToken, PacketWriter, RoomView};

fn view(now: Time) -> RoomView {
    RoomView {
        now,
        room: 1152,
        srtt: Duration::from_millis(100),
        one_way: Duration::from_millis(50),
        rate: u64::MAX,
    }
}

/// A packet: its payload, and what the sender keeps of it.
#[derive(Clone, Debug)]
struct Packet {
    payload: Bytes,
    tokens: Vec<FrameToken>,
}

/// One packet of up to `size` bytes, or `None` when the room writes nothing.
fn packet(room: &mut Streams, size: usize, now: Time) -> Option<Packet> {
    packet_of(room, size, now, None)
}

/// The same with data of one channel only, if it is its turn.
fn packet_of(room: &mut Streams, size: usize, now: Time, channel: Option<Channel>) -> Option<Packet> {
    let (mut buffer, mut tokens) = (vec![0; size], Vec::new());
    let mut w = PacketWriter::new(wire::Writer::new(&mut buffer), &mut tokens);
    room.write_control(&mut w, &view(now));
    room.write_data(&mut w, &RoomView { room: size.max(1152), ..view(now) }, channel);
    let len = w.len();
    buffer.truncate(len);
    (len > 0).then(|| Packet { payload: buffer.into(), tokens })
}

fn receive(room: &mut Streams, payload: &Bytes, now: Time) -> Result<(), TransportError> {
    let ours = |frame: &Frame<'_>| !matches!(frame, Frame::Padding(_));
    Frames::new(payload)
        .map(Result::unwrap)
        .filter(ours)
        .try_for_each(|frame| room.on_frame(&frame, payload, &view(now)))
}

/// Hands one frame to the room, as if it came in a packet of its own.
fn frame(room: &mut Streams, frame: Frame<'_>) -> Result<(), TransportError> {
    let mut buffer = vec![0; frame.size()];
    frame.encode(&mut wire::Writer::new(&mut buffer));
    receive(room, &buffer.into(), Time::ZERO)?;
    room.check();
    Ok(())
}

fn client(config: &TransportConfig) -> Streams {
    let params = announce(config);
    let mut room = Streams::new(Side::Client, &config.into());
    room.set_peer(&params);
    room
}

fn pair(config: &TransportConfig) -> [Streams; 2] {
    let params = announce(config);
    [Side::Client, Side::Server].map(|side| {
        let mut room = Streams::new(side, &config.into());
        room.set_peer(&params);
        room
    })
}

/// Moves packets both ways, without loss, until neither room has any.
fn exchange(rooms: &mut [Streams; 2], now: Time) {
    loop {
        let mut quiet = true;
        for from in 0..2 {
            while let Some(sent) = packet(&mut rooms[from], 1200, now) {
                quiet = false;
                receive(&mut rooms[1 - from], &sent.payload, now).unwrap();
                sent.tokens.iter().for_each(|token| rooms[from].acked(*token, now));
                rooms.iter().for_each(Streams::check);
            }
        }
        if quiet {
            return;
        }
    }
}

fn drain_all(rooms: &mut [Streams; 2]) {
    for room in rooms {
        drain_events(room);
    }
}

fn drain_events(room: &mut Streams) -> Vec<super::StreamEvent> {
    std::iter::from_fn(|| room.next_event()).collect()
}
