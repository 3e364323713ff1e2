//! An application that uses a connection in all ways at once, both ways, and notes what came of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use bytes::Bytes;
use quickset_base::{Duration, Time};
use quickset_quic::{ConnectionKey, Dir, Message, Outcome, Protection, StreamId, Ticket};

use crate::common::{Pair, Peer, pattern};

/// How much is sent each way.
#[derive(Clone, Copy)]
pub(crate) struct Load {
    /// Bytes on a stream of bytes.
    pub(crate) bytes: usize,
    /// Updates, messages of each, and bytes of a message.
    pub(crate) updates: u32,
    pub(crate) messages: u32,
    pub(crate) size: usize,
    /// Between updates.
    pub(crate) pause: Duration,
}

/// The kinds of message streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Total,
    Fenced,
    Deadline,
}

/// One side's streams.
struct Half {
    bytes: StreamId,
    messages: Vec<(Order, StreamId)>,
    tickets: BTreeMap<(StreamId, Ticket), (u32, u32)>,
}

/// What one side got.
#[derive(Default)]
pub(crate) struct Got {
    pub(crate) messages: BTreeMap<StreamId, Vec<(u32, u32)>>,
}

/// Runs `load` both ways, each stream with `protection` of its own unless that is `None`, and checks what
/// arrives.
pub(crate) fn run(pair: &mut Pair, load: &Load, protection: Option<&Protection>, what: &str) {
    let keys = [pair.key, pair.server_key()];
    let data = pattern(load.bytes);
    let mut halves: Vec<Half> = Vec::new();
    for (side, key) in keys.into_iter().enumerate() {
        halves.push(open(peer(pair, side), key, &data, protection));
    }
    let mut got = [Got::default(), Got::default()];
    for update in 0..load.updates {
        for side in 0..2 {
            let now = pair.world.now();
            send(peer(pair, side), (keys[side], now), &mut halves[side], load, update);
        }
        pair.pass(load.pause);
        collect(pair, &keys, &halves, &mut got);
    }
    for side in 0..2 {
        for (_, id) in halves[side].messages.clone() {
            peer(pair, side).connection(keys[side]).send_stream(id).finish().expect("finished once");
        }
    }
    for turn in 0.. {
        pair.pass(Duration::from_millis(20));
        collect(pair, &keys, &halves, &mut got);
        let is_done = |side: usize| {
            let other = 1 - side;
            let peers = [pair.client(), pair.server()];
            let all = halves[side].messages.iter().all(|(order, id)| {
                let n = got[other].messages.get(id).map_or(0, Vec::len);
                *order == Order::Deadline || n == (load.updates * load.messages) as usize
            });
            // Streams of messages are known to have arrived as well, the last with an outcome for each.
            all && peers[other].finished.contains(&(keys[other], halves[side].bytes))
                && peers[side].delivered.len() > halves[side].messages.len()
        };
        if is_done(0) && is_done(1) {
            break;
        }
        assert!(
            turn < 3000,
            "{what}: not all arrived within a minute, closed {:?} {:?}, {}, {:?} {:?}",
            pair.client().closed,
            pair.server().closed,
            missing(&halves, &got, load),
            pair.client().delivered,
            pair.server().delivered
        );
    }
    collect(pair, &keys, &halves, &mut got);
    for side in 0..2 {
        let other = 1 - side;
        let received = &peer(pair, other).received[&(keys[other], halves[side].bytes)];
        assert!(*received == data, "{what}: other bytes");
        check((peer(pair, side), keys[side]), &halves[side], &got[other], load, what);
    }
}

fn missing(halves: &[Half], got: &[Got; 2], load: &Load) -> String {
    let (all, mut text) = (load.updates * load.messages, String::new());
    for (side, half) in halves.iter().enumerate() {
        for (order, id) in &half.messages {
            let n = got[1 - side].messages.get(id).map_or(0, Vec::len);
            write!(text, "side {side} {order:?} {n} of {all}; ").expect("a string takes all");
        }
    }
    text
}

pub(crate) fn peer(pair: &mut Pair, side: usize) -> &mut Peer {
    if side == 0 { pair.client_mut() } else { pair.server_mut() }
}

fn open(peer: &mut Peer, key: ConnectionKey, data: &[u8], protection: Option<&Protection>) -> Half {
    let connection = peer.connection(key);
    let bytes = connection.streams().open(Dir::Uni).expect("a stream");
    let messages: Vec<_> = [Order::Total, Order::Fenced, Order::Deadline]
        .map(|order| (order, connection.streams().open_messages(Dir::Uni).expect("a stream")))
        .into();
    for (order, id) in &messages {
        connection.messages(*id).set_ordered(*order == Order::Total).expect("a stream of messages");
    }
    if let Some(protection) = protection {
        for id in messages.iter().map(|(_, id)| *id).chain([bytes]) {
            connection.send_stream(id).set_protection(protection).expect("it is open");
        }
    }
    peer.send_on(key, bytes, data.to_vec().into());
    Half { bytes, messages, tickets: BTreeMap::new() }
}

fn send(peer: &mut Peer, (key, now): (ConnectionKey, Time), half: &mut Half, load: &Load, update: u32) {
    for &(order, id) in &half.messages {
        let deadline = (order == Order::Deadline).then_some(now + Duration::from_millis(150));
        let connection = peer.connection(key);
        for n in 0..load.messages {
            let ticket =
                connection.messages(id).send(now, numbered(update, n, load.size), deadline).expect("room");
            half.tickets.insert((id, ticket), (update, n));
        }
        if order == Order::Fenced {
            connection.messages(id).fence().expect("a stream of messages");
        }
        if order == Order::Deadline {
            connection.messages(id).next_send_at(Some(now + load.pause)).expect("a stream of messages");
        }
    }
}

fn collect(pair: &mut Pair, keys: &[ConnectionKey; 2], halves: &[Half], got: &mut [Got; 2]) {
    let now = pair.world.now();
    for side in 0..2 {
        for (_, id) in &halves[1 - side].messages {
            let connection = peer(pair, side).connection(keys[side]);
            while let Ok(Some(message)) = connection.messages(*id).recv(now) {
                got[side].messages.entry(*id).or_default().push(number(&message));
            }
        }
    }
}

/// Each message once, in an order that its stream allows, and an outcome that is true.
fn check((sender, key): (&mut Peer, ConnectionKey), half: &Half, got: &Got, load: &Load, what: &str) {
    let nothing = Vec::new();
    for (order, id) in &half.messages {
        let messages = got.messages.get(id).unwrap_or(&nothing);
        let set: BTreeSet<_> = messages.iter().copied().collect();
        assert_eq!(set.len(), messages.len(), "{what}: {order:?}: a message twice");
        match order {
            Order::Total => {
                let sent = (0..load.updates).flat_map(|u| (0..load.messages).map(move |n| (u, n)));
                assert!(messages.iter().copied().eq(sent), "{what}: another order than that of sending");
            }
            Order::Fenced => {
                assert!(messages.is_sorted_by_key(|m| m.0), "{what}: a message crossed a fence");
            }
            Order::Deadline => {}
        }
        let connection = sender.connection(key);
        let outcomes: Vec<(Ticket, Outcome)> =
            std::iter::from_fn(|| connection.messages(*id).next_outcome()).collect();
        assert_eq!(outcomes.len(), (load.updates * load.messages) as usize, "{what}: {order:?}: outcomes");
        for (ticket, outcome) in outcomes {
            let message = half.tickets[&(*id, ticket)];
            assert!(!outcome.is_delivered() || set.contains(&message), "{what}: {message:?} is {outcome:?}");
            assert!(
                *order == Order::Deadline || outcome.is_delivered(),
                "{what}: {order:?}: {message:?} is {outcome:?}"
            );
        }
    }
}

pub(crate) fn numbered(update: u32, n: u32, len: usize) -> Bytes {
    let mut bytes = vec![n as u8; len.max(8)];
    bytes[..4].copy_from_slice(&update.to_be_bytes());
    bytes[4..8].copy_from_slice(&n.to_be_bytes());
    bytes.into()
}

pub(crate) fn number(message: &Message) -> (u32, u32) {
    let field = |at| u32::from_be_bytes(message.payload[at..at + 4].try_into().expect("four bytes"));
    (field(0), field(4))
}
