//! Unreliable datagrams.

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
