//! Forward erasure correction, as applications meet it.

use std::time::Duration;

use bytes::Bytes;
use quickset_net::{Outcome, Reliability};
use quickset_policies::read;
use quickset_quic::TransportConfig;

use crate::ends::{client, client_config, pair, pattern, server, server_config, soon};
use crate::lossy::Lossy;

#[tokio::test]
async fn what_is_repaired_is_told_as_recovered() {
    let endpoint = server(server_config(TransportConfig::fixed_mtu(1200)));
    // The handshake is through by then, and every loss is alone among the symbols of a repair.
    let lossy = Lossy::before(endpoint.local_addr(), |number| number > 20 && number % 25 == 0).await;
    let client_endpoint = client();
    let config = client_config(TransportConfig::fixed_mtu(1200));
    let (near, far) = soon(async {
        tokio::join!(client_endpoint.connect(lossy.address, "localhost", &config), endpoint.accept())
    })
    .await;
    let (near, far) = (near.unwrap(), far.unwrap());
    assert!(near.has_fec() && far.has_fec());
    let reader = tokio::spawn(async move {
        let mut incoming = far.accept_messages().await.unwrap();
        let mut count = 0;
        while let Some(message) = incoming.next().await {
            assert_eq!(message.unwrap().payload, pattern(900));
            count += 1;
        }
        (count, far.stats().fec)
    });
    let mut sender = soon(near.open_messages()).await.unwrap().with(read("fixed:5").unwrap());
    let mut outcomes = sender.outcomes();
    for _ in 0..1000 {
        soon(sender.send(Bytes::from(pattern(900)))).await.unwrap();
        // Slower than the path, so that a resend would come late.
        soon(sender.drained_to(0)).await.unwrap();
    }
    sender.finish().unwrap();
    let mut recovered = 0;
    while let Some((_, outcome)) = soon(outcomes.next()).await {
        assert!(outcome.is_delivered());
        recovered += u64::from(outcome == Outcome::Recovered);
    }
    let stats = near.stats().fec;
    assert!(recovered > 0 && recovered <= stats.recovered, "{recovered} messages, {stats:?}");
    // Where a thread was held up all has arrived by then, and there is nothing to repair.
    assert!(stats.sources_sent >= 900 && stats.repairs_sent >= stats.sources_sent / 6, "{stats:?}");
    near.close(0, b"");
    let (count, theirs) = soon(reader).await.unwrap();
    assert_eq!(count, 1000);
    assert!(theirs.recovered_here >= recovered, "{theirs:?}");
}

#[tokio::test]
async fn streams_of_bytes_are_protected_too() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut stream = soon(ends.client.open_uni()).await.unwrap().with(Reliability::none());
    let mut incoming = {
        soon(stream.write_all(b"first")).await.unwrap();
        soon(ends.server.accept_uni()).await.unwrap()
    };
    assert_eq!(ends.client.stats().fec.sources_sent, 0, "nothing of its own");
    stream.set_protection(&read("fixed:1").unwrap());
    soon(stream.write_all(&pattern(30_000))).await.unwrap();
    stream.flush();
    stream.finish().unwrap();
    assert_eq!(soon(incoming.read_to_end(40_000)).await.unwrap().len(), 30_005);
    soon(stream.finished()).await.unwrap();
    let stats = ends.client.stats().fec;
    assert!(stats.sources_sent >= 25 && stats.repairs_sent > 0, "{stats:?}");
}

#[tokio::test]
async fn without_the_offer_protection_changes_nothing() {
    let config = TransportConfig::fixed_mtu(1200).with_fec(None);
    let server = server(server_config(config));
    let ends = crate::ends::pair_on(server, client(), TransportConfig::fixed_mtu(1200)).await;
    assert!(!ends.client.has_fec() && !ends.server.has_fec());
    let reliability = Reliability::messages().within(Duration::ZERO);
    let mut sender = soon(ends.client.open_messages()).await.unwrap().with(reliability);
    let late = soon(sender.send(Bytes::from_static(b"late"))).await.unwrap();
    assert_eq!(soon(late.outcome()).await, Outcome::Dropped, "its time was over at once");
    let mut sender = sender.with(Reliability::messages());
    sender.next_message_at(None);
    let there = soon(sender.send(Bytes::from_static(b"there"))).await.unwrap();
    assert_eq!(soon(there.outcome()).await, Outcome::Delivered);
    assert_eq!(ends.client.stats().fec.sources_sent, 0);
}
