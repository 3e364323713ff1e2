//! Streams over real sockets.

use crate::ends::{pair, pattern, soon};
use bytes::Bytes;
use quickset_quic::TransportConfig;

#[tokio::test]
async fn what_is_sent_on_a_stream_comes_back() {
    let ends = pair(TransportConfig::default()).await;
    let server = ends.server.clone();
    let echo = tokio::spawn(async move {
        let (mut send, mut recv) = server.accept_bi().await.unwrap();
        let all = recv.read_to_end(1 << 20).await.unwrap();
        send.write_chunk(Bytes::from(all)).await.unwrap();
        send.finish().unwrap();
        send.finished().await.unwrap();
    });
    let (mut send, mut recv) = soon(ends.client.open_bi()).await.unwrap();
    send.write_all(b"out and back").await.unwrap();
    send.finish().unwrap();
    assert_eq!(soon(recv.read_to_end(100)).await.unwrap(), b"out and back");
    soon(echo).await.unwrap();
    assert_eq!(ends.server.alpn().as_deref(), Some(&b"test"[..]));
}

#[tokio::test]
async fn ten_megabytes_each_way_at_a_time() {
    let ends = pair(TransportConfig { mtu: 1472, ..TransportConfig::default() }).await;
    let data = Bytes::from(pattern(10 << 20));
    let (server, all) = (ends.server.clone(), data.clone());
    let there = tokio::spawn(async move {
        let (mut send, mut recv) = server.accept_bi().await.unwrap();
        let (sent, received) = tokio::join!(
            async {
                send.write_chunk(all).await.unwrap();
                send.finish().unwrap();
                send.finished().await
            },
            recv.read_to_end(11 << 20)
        );
        sent.unwrap();
        received.unwrap()
    });
    let (mut send, mut recv) = soon(ends.client.open_bi()).await.unwrap();
    let (sent, received) = soon(async {
        tokio::join!(
            async {
                send.write_all(&data).await.unwrap();
                send.finish().unwrap();
                send.finished().await
            },
            recv.read_to_end(11 << 20)
        )
    })
    .await;
    sent.unwrap();
    assert!(received.unwrap() == data, "bytes from the server");
    assert!(soon(there).await.unwrap() == data, "bytes from the client");
}
