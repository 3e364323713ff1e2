//! Unreliable datagrams.

use std::collections::VecDeque;

use bytes::Bytes;
use quickset_net::{
    Closed, DatagramError, DatagramOptions, DatagramOutcome, Deadline, Protection, TryDatagramError, WhenFull,
};
use quickset_quic::{DatagramConfig, TransportConfig};

use crate::ends::{pair, pattern, soon};

#[tokio::test]
async fn datagrams_come_whole_and_their_sender_hears_of_it() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let max = ends.client.max_datagram_len().expect("the peer takes datagrams");
    let sent = ends.client.try_send_datagram(pattern(max).into(), &DatagramOptions::default()).unwrap();
    assert_eq!(soon(ends.server.read_datagram()).await.unwrap(), pattern(max));
    assert_eq!(soon(sent.outcome()).await, DatagramOutcome::Acknowledged);
    assert_eq!(soon(sent.outcome()).await, DatagramOutcome::Acknowledged, "and again");
    assert_eq!(ends.server.try_read_datagram(), None);
    let longer = soon(ends.client.send_datagram(vec![0; max + 1].into())).await;
    assert_eq!(longer, Err(DatagramError::TooLong { max }));

    let late =
        DatagramOptions { deadline: Some(Deadline::After(std::time::Duration::ZERO)), ..Default::default() };
    let late = ends.client.try_send_datagram(Bytes::from_static(b"late"), &late).unwrap();
    assert_eq!(soon(late.outcome()).await, DatagramOutcome::Expired);
}

#[tokio::test]
async fn whoever_waits_for_room_gets_it() {
    const N: usize = 3000;
    let few = DatagramConfig::default().with_send_count(4);
    let ends = pair(TransportConfig::fixed_mtu(1200).with_datagrams(few)).await;
    ends.client.set_datagram_reliability("xor:4".parse::<Protection>().unwrap());
    ends.client.set_datagram_urgency(0);
    let server = ends.server.clone();
    let reader = tokio::spawn(async move {
        let mut got = 0;
        while let Ok(data) = server.read_datagram().await {
            assert_eq!(data.len(), 100);
            got += 1;
        }
        got
    });
    for n in 0..N {
        soon(ends.client.send_datagram(vec![n.to_le_bytes()[0]; 100].into())).await.unwrap();
        if n % 10 == 9 {
            ends.client.flush_datagrams();
        }
    }
    let last = ends.client.try_send_datagram(
        vec![0; 100].into(),
        &DatagramOptions { when_full: WhenFull::DropOldest, ..DatagramOptions::default() },
    );
    assert!(soon(last.unwrap().outcome()).await.is_received());
    ends.client.close(0, b"");
    let got = soon(reader).await.unwrap();
    let stats = ends.client.stats().datagrams;
    // The loopback drops nothing, but a slow reader may.
    assert_eq!(stats.sent + stats.displaced, N as u64 + 1);
    assert!(got > N / 2, "{got} of {N}: {stats:?}");
}

/// All that are sent together come, each whole and in order, but those that were lost on the way or had to
/// make room; and these are counted.
#[tokio::test]
async fn many_are_sent_and_read_together() {
    const N: usize = 20_000;
    let few = DatagramConfig::default().with_send_count(300);
    let ends = pair(TransportConfig::fixed_mtu(1200).with_datagrams(few)).await;
    let server = ends.server.clone();
    let reader = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Ok(n) = server.read_datagrams(&mut all, 100).await {
            assert!((1..=100).contains(&n), "{n} at once");
        }
        all
    });
    let numbered = |n: usize| Bytes::from([&n.to_be_bytes()[..], &vec![7; n % 300]].concat());
    let mut data = (0..N).map(numbered).collect::<VecDeque<_>>();
    soon(ends.client.send_datagrams(&mut data)).await.unwrap();
    assert!(data.is_empty());
    while ends.client.unsent_datagrams().0 > 0 {
        ends.client.round_trip().await;
    }
    ends.client.round_trip().await;
    let (sent, got) = (ends.client.stats().datagrams, ends.server.stats().datagrams);
    ends.client.close(0, b"");
    let all = soon(reader).await.unwrap();
    assert_eq!((sent.sent, sent.unsent), (N as u64, 0));
    assert_eq!(all.len() as u64 + got.dropped, ends.server.stats().datagrams.received);
    let numbers: Vec<usize> =
        all.iter().map(|one| usize::from_be_bytes(one[..8].try_into().expect("eight bytes"))).collect();
    assert!(numbers.is_sorted() && numbers.len() > N / 2, "{} of {N}", numbers.len());
    assert!(all.iter().zip(&numbers).all(|(one, n)| *one == numbered(*n)));
}

/// Those that cannot be sent stay with whoever would send them.
#[tokio::test]
async fn what_is_not_sent_is_still_there() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let max = ends.client.max_datagram_len().expect("the peer takes datagrams");
    let mut data = VecDeque::from([vec![1; 10].into(), vec![2; max + 1].into(), Bytes::from_static(b"last")]);
    assert_eq!(soon(ends.client.send_datagrams(&mut data)).await, Err(DatagramError::TooLong { max }));
    assert_eq!((data.len(), data[0].len()), (2, max + 1));
    assert_eq!(soon(ends.server.read_datagram()).await.unwrap(), vec![1; 10]);
    ends.client.close(0, b"");
    let over = soon(ends.client.send_datagrams(&mut data)).await;
    assert_eq!((over, data.len()), (Err(DatagramError::Closed(Closed::Locally)), 2));
    let nothing = soon(ends.server.read_datagrams(&mut Vec::new(), 10)).await;
    assert!(matches!(nothing, Err(Closed::ByApplication { code: 0, .. })), "{nothing:?}");
}

#[tokio::test]
async fn the_end_and_a_peer_without_datagrams_are_told() {
    let none = DatagramConfig::default().with_max_frame_size(0);
    let ends = pair(TransportConfig::fixed_mtu(1200).with_datagrams(none)).await;
    assert_eq!(ends.client.max_datagram_len(), None);
    let refused = soon(ends.client.send_datagram(Bytes::from_static(b"x"))).await;
    assert_eq!(refused, Err(DatagramError::Unsupported));
    let server = ends.server.clone();
    let reader = tokio::spawn(async move { server.read_datagram().await });
    ends.client.close(7, b"done");
    let closed = soon(reader).await.unwrap().unwrap_err();
    assert!(matches!(closed, Closed::ByApplication { code: 7, .. }), "{closed:?}");
    let over = ends.client.try_send_datagram(Bytes::new(), &DatagramOptions::default()).unwrap_err();
    assert_eq!(over, TryDatagramError::Failed(DatagramError::Closed(Closed::Locally)));
}

/// Who makes what is sent waits for the queue to be short, however many wait, each for its own length.
#[tokio::test]
async fn who_waits_for_a_shorter_queue_is_told() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let client = &ends.client;
    // Nobody else runs meanwhile.
    for _ in 0..10 {
        client.try_send_datagram(vec![0; 1000].into(), &DatagramOptions::default()).unwrap();
    }
    assert_eq!(client.unsent_datagrams(), (10, 10_000));
    soon(client.datagrams_drained_to(10_000)).await.unwrap();
    assert_eq!(client.unsent_datagrams(), (10, 10_000), "there was nothing to wait for");
    let (half, all) =
        tokio::join!(soon(client.datagrams_drained_to(5000)), soon(client.datagrams_drained_to(0)));
    assert!(half.is_ok() && all.is_ok());
    assert_eq!(client.unsent_datagrams(), (0, 0));
    // With the connection, waiting ends.
    client.try_send_datagram(vec![0; 1000].into(), &DatagramOptions::default()).unwrap();
    client.close(0, b"");
    assert_eq!(soon(client.datagrams_drained_to(0)).await, Err(Closed::Locally));
}
