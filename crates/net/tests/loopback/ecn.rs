//! Marks, through real sockets.

use bytes::Bytes;
use quickset_quic::{EcnState, TransportConfig};

use crate::ends::{pair, pattern, soon};

/// Both sides mark, count what they receive, and hear that their marks arrived; or one side does not want to.
#[tokio::test]
async fn marks_go_through_sockets() {
    for wanted in [true, false] {
        let ends = pair(TransportConfig::fixed_mtu(1200).with_ecn(wanted)).await;
        let server = ends.server.clone();
        let there = tokio::spawn(async move {
            let (mut send, mut recv) = server.accept_bi().await.unwrap();
            let all = recv.read_to_end(1 << 20).await.unwrap();
            send.write_chunk(Bytes::from(all)).await.unwrap();
            send.finish().unwrap();
            send.finished().await.unwrap();
        });
        let (mut send, mut recv) = soon(ends.client.open_bi()).await.unwrap();
        send.write_all(&pattern(300_000)).await.unwrap();
        send.finish().unwrap();
        assert!(soon(recv.read_to_end(1 << 20)).await.unwrap() == pattern(300_000));
        soon(there).await.unwrap();
        for end in [&ends.client, &ends.server] {
            let ecn = end.stats().ecn;
            assert_eq!(ecn.state, if wanted { EcnState::Capable } else { EcnState::Off });
            assert_eq!(ecn.sent > 200, wanted, "{ecn:?}");
        }
    }
}
