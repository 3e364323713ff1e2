//! Who waits, and does no more: futures that are dropped leave next to nothing.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake};

use bytes::Bytes;
use quickset_net::DatagramOptions;
use quickset_quic::TransportConfig;

use crate::ends::{pair, soon};

/// A task that does nothing.
struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
}

/// How many of a hundred tasks are held when each has polled `wait` and dropped it.
fn held(mut wait: impl FnMut(&mut Context<'_>)) -> usize {
    let tasks: Vec<_> = (0..100).map(|_| Arc::new(Task)).collect();
    for task in &tasks {
        wait(&mut Context::from_waker(&task.clone().into()));
    }
    tasks.iter().filter(|task| Arc::strong_count(task) > 1).count()
}

fn poll(future: impl Future, cx: &mut Context<'_>) {
    assert!(pin!(future).poll(cx).is_pending());
}

/// An application that waits for several things at a time, each in a small task, does so again and again
/// while a stream is open or a message is on its way.
#[tokio::test]
async fn who_waits_no_more_is_forgotten() {
    let transport = TransportConfig::fixed_mtu(1200).with_max_bidi_streams(1);
    let ends = pair(transport).await;
    let (client, endpoint) = (&ends.client, &ends.client_endpoint);
    let (send, mut recv) = soon(client.open_bi()).await.unwrap();
    let mut messages = soon(client.open_messages()).await.unwrap();
    let mut moves = client.moves();
    // From here on nobody else runs: nothing leaves, and nothing comes.
    let ticket = messages.try_send(Bytes::from_static(b"x"), None).unwrap();
    let datagram = client.try_send_datagram(Bytes::from_static(b"x"), &DatagramOptions::default()).unwrap();
    let mut outcomes = messages.outcomes();
    let all = [
        ("accept", held(|cx| poll(ends.server_endpoint.accept(), cx))),
        ("wait_idle", held(|cx| poll(endpoint.wait_idle(), cx))),
        ("closed", held(|cx| poll(client.closed(), cx))),
        ("moves", held(|cx| poll(moves.next(), cx))),
        ("open_bi", held(|cx| poll(client.open_bi(), cx))),
        ("accept_uni", held(|cx| poll(client.accept_uni(), cx))),
        ("read_datagram", held(|cx| poll(client.read_datagram(), cx))),
        ("datagrams_drained_to", held(|cx| poll(client.datagrams_drained_to(0), cx))),
        ("outcome of a datagram", held(|cx| poll(datagram.outcome(), cx))),
        ("outcome of a message", held(|cx| poll(ticket.outcome(), cx))),
        ("outcomes", held(|cx| poll(outcomes.next(), cx))),
        ("drained_to", held(|cx| poll(messages.drained_to(0), cx))),
        ("finished", held(|cx| poll(messages.finished(), cx))),
        ("stopped", held(|cx| poll(send.stopped(), cx))),
        ("read_chunk", held(|cx| poll(recv.read_chunk(1), cx))),
    ];
    // Of a handle that one task waits for at a time, the last may be remembered.
    let kept: Vec<_> = all.iter().filter(|(_, held)| *held > 1).collect();
    assert!(kept.is_empty(), "{kept:?}");
}
