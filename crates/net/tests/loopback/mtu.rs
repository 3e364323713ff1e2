//! The size of datagrams, through real sockets: those of the loopback take 65,536 bytes.

use quickset_quic::{MtuDiscovery, TransportConfig};

use crate::ends::{pair, pattern, soon};

#[tokio::test]
async fn large_datagrams_are_found_and_used() {
    let mtu_discovery = Some(MtuDiscovery::default().with_highest(9000));
    let ends = pair(TransportConfig::fixed_mtu(1200).with_mtu_discovery(mtu_discovery)).await;
    let server = ends.server.clone();
    let there = tokio::spawn(async move {
        loop {
            let mut recv = server.accept_uni().await.unwrap();
            let all = recv.read_to_end(1 << 20).await.unwrap();
            if all.len() == 1 {
                return;
            }
            assert!(all == pattern(all.len()));
        }
    });
    // Whoever searches needs a moment, during which it may well be used.
    let mut sent = 0;
    while ends.client.stats().mtu.current < 9000 {
        assert!(sent < 1000, "{:?}", ends.client.stats().mtu);
        let mut send = soon(ends.client.open_uni()).await.unwrap();
        send.write_all(&pattern(20_000)).await.unwrap();
        send.finish().unwrap();
        soon(send.finished()).await.unwrap();
        sent += 1;
    }
    let before = ends.client.stats().sent_packets;
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    send.write_all(&pattern(900_000)).await.unwrap();
    send.finish().unwrap();
    soon(send.finished()).await.unwrap();
    let packets = ends.client.stats().sent_packets - before;
    // Some of them twice where the reader is slow; of the usual size there are more than 600.
    assert!((100..400).contains(&packets), "{packets}");
    let mut last = soon(ends.client.open_uni()).await.unwrap();
    last.write_all(&[1]).await.unwrap();
    last.finish().unwrap();
    soon(there).await.unwrap();
}
