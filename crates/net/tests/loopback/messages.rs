//! Messages on fenced streams.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytes::Bytes;
use quickset_net::{Closed, Deadline, Outcome, ReceiveError, SendError, TrySendError};
use quickset_quic::TransportConfig;

use crate::ends::{pair, pattern, soon};

#[tokio::test]
async fn messages_cross_no_fence_and_all_arrive() {
    const UPDATES: usize = 200;
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    assert!(ends.client.has_fenced_streams() && ends.server.has_fenced_streams());
    let server = ends.server.clone();
    let reader = tokio::spawn(async move {
        let mut incoming = server.accept_messages().await.unwrap();
        let (mut updates, mut segment) = (vec![0; UPDATES], 0);
        let mut last = 0;
        while let Some(message) = incoming.next().await {
            let message = message.unwrap();
            assert!(message.completed <= message.released && message.released <= Instant::now());
            let update = usize::from(message.payload[0]);
            assert!(
                update == last && message.segment == segment || update > last && message.segment > segment
            );
            assert!(message.payload[1..] == pattern(message.payload.len() - 1));
            (last, segment) = (update, message.segment);
            updates[update] += 1;
        }
        updates
    });
    let mut screen = soon(ends.client.open_messages()).await.unwrap();
    for update in 0..UPDATES {
        for len in [10, 1_000, 30_000] {
            let mut message = vec![u8::try_from(update).unwrap()];
            message.extend(pattern(len));
            soon(screen.send(message.into())).await.unwrap();
        }
        screen.fence();
    }
    screen.finish().unwrap();
    soon(screen.finished()).await.unwrap();
    assert_eq!(soon(reader).await.unwrap(), vec![3; UPDATES]);
}

#[tokio::test]
async fn each_message_has_an_outcome() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let (mut there, _back) = soon(ends.client.open_messages_bi()).await.unwrap();
    let delivered = soon(there.send(Bytes::from_static(b"one"))).await.unwrap();
    let (_, mut incoming) = soon(ends.server.accept_messages_bi()).await.unwrap();
    assert_eq!(soon(incoming.next()).await.unwrap().unwrap().payload, &b"one"[..]);
    assert_eq!(soon(delivered.outcome()).await, Outcome::Delivered);
    assert_eq!(soon(delivered.outcome()).await, Outcome::Delivered, "and again");
    assert!(!delivered.supersede(), "it is too late for that");

    let late =
        soon(there.send_by(Bytes::from_static(b"late"), Deadline::after(Duration::ZERO))).await.unwrap();
    assert_eq!(soon(late.outcome()).await, Outcome::Dropped);
    let early = Deadline::at(Instant::now() + Duration::from_secs(20));
    let early = soon(there.send_by(Bytes::from_static(b"early"), early)).await.unwrap();
    assert_eq!(soon(early.outcome()).await, Outcome::Delivered);
    assert_eq!(soon(incoming.next()).await.unwrap().unwrap().payload, &b"early"[..]);
    there.finish().unwrap();
    assert_eq!(soon(incoming.next()).await, None);
    // Tickets may outlive the sender.
    drop(there);
    assert_eq!(soon(early.outcome()).await, Outcome::Delivered);
}

#[tokio::test]
async fn a_full_buffer_makes_senders_wait() {
    let config = TransportConfig::fixed_mtu(1200).with_send_buffer(20_000);
    let ends = pair(config).await;
    let mut sender = soon(ends.client.open_messages()).await.unwrap();
    sender.set_ordered(true);
    let message = Bytes::from(pattern(1000));
    let mut sent = 0;
    let full = loop {
        match sender.try_send(message.clone(), None) {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full, TrySendError::Full(message.clone()));
    assert!((20..=22).contains(&sent), "{sent} messages in 20,000 bytes");
    let server = ends.server.clone();
    let reader = tokio::spawn(async move {
        let mut incoming = server.accept_messages().await.unwrap();
        let mut count = 0;
        while let Some(message) = incoming.next().await {
            assert_eq!(message.unwrap().payload.len(), 1000);
            count += 1;
        }
        count
    });
    for _ in sent..5_000 {
        soon(sender.send(message.clone())).await.unwrap();
    }
    drop(sender);
    assert_eq!(soon(reader).await.unwrap(), 5_000);
}

#[tokio::test]
async fn messages_go_as_plain_streams_to_peers_without_fences() {
    let server = crate::ends::server(crate::ends::server_config(
        TransportConfig::fixed_mtu(1200).with_fenced_streams(None),
    ));
    let ends = crate::ends::pair_on(server, crate::ends::client(), TransportConfig::fixed_mtu(1200)).await;
    assert!(!ends.client.has_fenced_streams() && !ends.server.has_fenced_streams());
    let (mut there, mut back) = soon(ends.client.open_messages_bi()).await.unwrap();
    for n in 0..100_u8 {
        soon(there.send(Bytes::from(vec![n; 3000]))).await.unwrap();
    }
    there.finish().unwrap();
    let (mut reply, mut incoming) = soon(ends.server.accept_messages_bi()).await.unwrap();
    for n in 0..100_u8 {
        let message = soon(incoming.next()).await.unwrap().unwrap();
        assert_eq!(message.payload, vec![n; 3000], "in order");
    }
    assert_eq!(soon(incoming.next()).await, None);
    soon(reply.send(Bytes::from_static(b"thanks"))).await.unwrap();
    assert_eq!(soon(back.next()).await.unwrap().unwrap().payload, &b"thanks"[..]);
}

#[tokio::test]
async fn too_long_is_said_at_once() {
    let ends = pair(TransportConfig::fixed_mtu(1200).with_fenced_streams(Some(2000))).await;
    let mut sender = soon(ends.client.open_messages()).await.unwrap();
    assert_eq!(sender.max_len(), 2000);
    let long = soon(sender.send(Bytes::from(vec![0; 2001]))).await;
    assert_eq!(long.err(), Some(SendError::TooLong { max: 2000 }));
    soon(sender.send(Bytes::from(vec![0; 2000]))).await.unwrap();
}

#[tokio::test]
async fn both_ends_of_messages_can_give_up() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut sender = soon(ends.client.open_messages()).await.unwrap();
    soon(sender.send(Bytes::from_static(b"first"))).await.unwrap();
    let mut incoming = soon(ends.server.accept_messages()).await.unwrap();
    assert_eq!(soon(incoming.next()).await.unwrap().unwrap().payload, &b"first"[..]);
    sender.reset(5);
    assert_eq!(soon(incoming.next()).await, Some(Err(ReceiveError::Reset(5))));
    assert_eq!(soon(incoming.next()).await, None);
    assert_eq!(soon(sender.send(Bytes::new())).await.err(), Some(SendError::Ended));

    let mut other = soon(ends.client.open_messages()).await.unwrap();
    let ticket = soon(other.send(Bytes::from_static(b"second"))).await.unwrap();
    soon(ends.server.accept_messages()).await.unwrap().stop(9);
    assert_eq!(soon(other.finished()).await, Err(SendError::Stopped(9)));
    assert_eq!(soon(other.send(Bytes::new())).await.err(), Some(SendError::Stopped(9)));
    // Whatever it was: nobody waits for it in vain.
    soon(ticket.outcome()).await;

    let mut third = soon(ends.client.open_messages()).await.unwrap();
    ends.client.close(3, b"");
    assert_eq!(soon(third.send(Bytes::new())).await.err(), Some(SendError::Closed(Closed::Locally)));
}

#[tokio::test]
async fn all_outcomes_come_in_one_stream() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut sender = soon(ends.client.open_messages()).await.unwrap();
    let before = soon(sender.send(Bytes::from_static(b"before"))).await.unwrap();
    assert_eq!(soon(before.outcome()).await, Outcome::Delivered);
    let mut outcomes = sender.outcomes();
    assert_eq!(outcomes.try_next(), None, "what was settled before is not told");
    let (mut expected, mut tickets) = (BTreeMap::new(), Vec::new());
    // More than are kept at a time: what is not taken has to wait, and is not lost.
    for n in 0..3000 {
        let late = n % 3 == 0;
        let deadline = late.then_some(Deadline::After(Duration::ZERO));
        let ticket = sender.try_send(Bytes::from_static(b"one of many"), deadline).unwrap();
        expected.insert(ticket.id(), if late { Outcome::Dropped } else { Outcome::Delivered });
        tickets.push(ticket);
    }
    let last = tickets.pop().unwrap();
    drop(tickets);
    for _ in 0..1500 {
        let (ticket, outcome) = soon(outcomes.next()).await.unwrap();
        assert_eq!(expected.remove(&ticket), Some(outcome));
    }
    sender.finish().unwrap();
    while let Some((ticket, outcome)) = soon(outcomes.next()).await {
        assert_eq!(expected.remove(&ticket), Some(outcome));
    }
    assert!(expected.is_empty(), "each is told once: {expected:?}");
    assert_eq!(soon(last.outcome()).await, Outcome::Delivered, "beside its ticket");
    assert_eq!(soon(outcomes.next()).await, None, "and so it stays");
}

#[tokio::test]
async fn outcomes_end_with_their_stream_or_connection() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut sender = soon(ends.client.open_messages()).await.unwrap();
    let mut outcomes = sender.outcomes();
    let waits = tokio::spawn(async move { outcomes.next().await });
    tokio::task::yield_now().await;
    sender.reset(1);
    assert_eq!(soon(waits).await.unwrap(), None, "reset with nothing under way");

    let sender = soon(ends.client.open_messages()).await.unwrap();
    let (mut one, mut other) = (sender.outcomes(), sender.outcomes());
    let waits = tokio::spawn(async move { one.next().await });
    tokio::task::yield_now().await;
    ends.client.close(0, b"");
    assert_eq!(soon(waits).await.unwrap(), None);
    assert_eq!(soon(other.next()).await, None);
}

#[tokio::test]
async fn what_nobody_takes_stops_no_tickets_once_nobody_wants_it() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut sender = soon(ends.client.open_messages()).await.unwrap();
    let outcomes = sender.outcomes();
    let mut tickets = Vec::new();
    for _ in 0..3000 {
        tickets.push(soon(sender.send(Bytes::from_static(b"message"))).await.unwrap());
    }
    soon(sender.drained_to(0)).await.unwrap();
    let last = tickets.pop().unwrap();
    // The last of them stands behind those for which there was no room.
    drop(outcomes);
    assert_eq!(soon(last.outcome()).await, Outcome::Delivered);
}

#[tokio::test]
async fn senders_wait_until_little_is_left() {
    let config = TransportConfig::fixed_mtu(1200).with_congestion("fixed:20mbit".parse().unwrap());
    let ends = pair(config).await;
    let server = ends.server.clone();
    tokio::spawn(async move {
        let mut incoming = server.accept_messages().await.unwrap();
        while incoming.next().await.is_some() {}
    });
    let mut sender = soon(ends.client.open_messages()).await.unwrap();
    assert_eq!(sender.unsent(), 0);
    soon(sender.drained_to(0)).await.unwrap();
    let messages: Vec<_> =
        (0..100).map(|_| sender.try_send(Bytes::from(pattern(1000)), None).unwrap()).collect();
    // With their lengths of two bytes.
    assert_eq!(sender.unsent(), 100_200);
    for level in [50_000, 20_000, 0] {
        soon(sender.drained_to(level)).await.unwrap();
        assert!(sender.unsent() <= level);
    }
    for message in messages {
        assert_eq!(soon(message.outcome()).await, Outcome::Delivered);
    }
    let superseded = sender.try_send(Bytes::from(pattern(1000)), None).unwrap().id();
    assert!(sender.supersede(superseded) && sender.unsent() == 0);
    ends.client.close(0, b"");
    assert!(soon(sender.drained_to(0)).await.is_err());
}
