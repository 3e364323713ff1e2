//! Streams of bytes.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use quickset_base::number::index;
use quickset_net::{ReadError, ReadExactError, ReadToEndError, SendError, WriteError};
use quickset_quic::{Dir, TransportConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::ends::{pair, pattern, soon};

#[tokio::test]
async fn what_is_sent_on_a_stream_comes_back() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
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

/// In one step, or in several where there is not room for all; and once only.
#[tokio::test]
async fn a_stream_ends_with_its_last_bytes() {
    let ends = pair(TransportConfig::fixed_mtu(1200).with_send_buffer(10_000)).await;
    for length in [0, 1, 1000, 9_999, 10_000, 10_001, 300_000] {
        let mut send = soon(ends.client.open_uni()).await.unwrap();
        let mut recv = None;
        let (ended, all) = tokio::join!(
            async {
                send.write_all(b"first").await.unwrap();
                soon(send.finish_with(&pattern(length))).await
            },
            async {
                let recv = recv.insert(soon(ends.server.accept_uni()).await.unwrap());
                soon(recv.read_to_end(1 << 20)).await.unwrap()
            }
        );
        assert_eq!(ended, Ok(()));
        assert_eq!(all, [b"first", &pattern(length)[..]].concat());
        assert_eq!(send.written(), 5 + length as u64);
        soon(send.finished()).await.unwrap();
        for data in [&b""[..], b"more"] {
            assert_eq!(soon(send.finish_with(data)).await, Err(WriteError::Ended));
        }
    }
}

#[tokio::test]
async fn ten_megabytes_each_way_at_a_time() {
    let ends = pair(TransportConfig::fixed_mtu(1472)).await;
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

#[tokio::test]
async fn a_stream_in_one_direction_that_is_dropped_is_finished() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    soon(send.write_chunk(Bytes::from_static(b"all of it"))).await.unwrap();
    drop(send);
    let mut recv = soon(ends.server.accept_uni()).await.unwrap();
    let mut buffer = [0; 4];
    assert_eq!(soon(recv.read(&mut buffer)).await, Ok(Some(4)));
    assert_eq!(&buffer, b"all ");
    assert_eq!(soon(recv.read_to_end(100)).await.unwrap(), b"of it");
    assert_eq!(soon(recv.read(&mut buffer)).await, Ok(None), "and again");
    assert_eq!(soon(recv.read_chunk(10)).await, Ok(None));
}

#[tokio::test]
async fn codes_of_reset_and_stop_arrive() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let (mut send, recv) = soon(ends.client.open_bi()).await.unwrap();
    soon(send.write_all(b"some")).await.unwrap();
    let (mut back, mut there) = soon(ends.server.accept_bi()).await.unwrap();
    assert_eq!(soon(there.read_chunk(100)).await.unwrap().unwrap(), &b"some"[..]);
    send.reset(17);
    assert_eq!(soon(there.read_chunk(100)).await, Err(ReadError::Reset(17)));
    assert_eq!(soon(there.read_chunk(100)).await, Err(ReadError::Reset(17)), "and again");
    assert_eq!(soon(send.write(b"more")).await, Err(WriteError::Ended));

    recv.stop(23);
    assert_eq!(soon(back.stopped()).await, Ok(Some(23)));
    assert_eq!(soon(back.write(b"more")).await, Err(WriteError::Stopped(23)));
    assert_eq!(soon(back.finished()).await, Err(WriteError::Stopped(23)));
    assert_eq!(back.finish(), Err(WriteError::Stopped(23)));
}

/// Whoever waits for a stream that is given up is told, and not left to wait for the connection's end.
#[tokio::test]
async fn after_a_reset_nobody_waits_for_the_end() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    soon(send.write_all(b"some")).await.unwrap();
    send.reset(17);
    assert_eq!(soon(send.finished()).await, Err(WriteError::Ended));
    assert_eq!(soon(send.stopped()).await, Err(WriteError::Ended));
    assert_eq!(
        soon(tokio::io::AsyncWriteExt::shutdown(&mut send)).await.unwrap_err().kind(),
        std::io::ErrorKind::BrokenPipe
    );
    // What was promised is there when it is over.
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    soon(send.write_all(&pattern(300_000))).await.unwrap();
    send.reset_at(7, 200_000).unwrap();
    assert_eq!(soon(send.finished()).await, Err(WriteError::Ended));
    let stats = ends.server.stats();
    assert!(stats.received_bytes >= 200_000, "{}", stats.received_bytes);
    let mut messages = soon(ends.client.open_messages()).await.unwrap();
    soon(messages.send(Bytes::from_static(b"a"))).await.unwrap();
    messages.reset(3);
    assert_eq!(soon(messages.finished()).await, Err(SendError::Ended));
}

/// A stream of messages is not a stream without bytes; it can still be taken for what it is.
#[tokio::test]
async fn messages_are_no_empty_stream() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    assert!(ends.client.has_fenced_streams());
    let mut send = soon(ends.client.open_messages()).await.unwrap();
    soon(send.send(Bytes::from_static(b"hello"))).await.unwrap();
    let mut recv = soon(ends.server.accept_uni()).await.unwrap();
    assert_eq!(soon(recv.read_to_end(100)).await, Err(ReadToEndError::Read(ReadError::Messages)));
    let mut recv = recv.into_messages().expect("nothing was read");
    assert_eq!(soon(recv.next()).await.unwrap().unwrap().payload, &b"hello"[..]);
    // And what nobody takes is stopped.
    let mut send = soon(ends.client.open_messages()).await.unwrap();
    soon(send.send(Bytes::from_static(b"hello"))).await.unwrap();
    let mut recv = soon(ends.server.accept_uni()).await.unwrap();
    assert_eq!(soon(recv.read_chunk(100)).await, Err(ReadError::Messages));
    drop(recv);
    assert_eq!(soon(send.finished()).await, Err(SendError::Stopped(0)));
    // Bytes stay bytes.
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    soon(send.write_all(b"bytes")).await.unwrap();
    let mut recv = soon(ends.server.accept_uni()).await.unwrap();
    soon(recv.read_chunk(2)).await.unwrap();
    let mut recv = recv.into_messages().expect_err("something was read");
    assert_eq!(soon(recv.read_chunk(100)).await.unwrap().as_deref(), Some(&b"tes"[..]));
}

#[tokio::test]
async fn dropping_the_receiving_half_stops_the_sender() {
    let ends =
        pair(TransportConfig::fixed_mtu(1200).with_send_buffer(10_000).with_stream_window(2_000)).await;
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    let server = ends.server.clone();
    let writer = tokio::spawn(async move { send.write_all(&vec![1; 1 << 20]).await });
    drop(soon(server.accept_uni()).await.unwrap());
    assert_eq!(soon(writer).await.unwrap(), Err(WriteError::Stopped(0)), "a writer that waits is woken");
}

#[tokio::test]
async fn what_is_longer_than_the_limit_is_not_read_to_its_end() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    soon(send.write_all(&[0; 1001])).await.unwrap();
    send.finish().unwrap();
    let mut recv = soon(ends.server.accept_uni()).await.unwrap();
    assert_eq!(soon(recv.read_to_end(1000)).await, Err(ReadToEndError::TooLong(1000)));
}

#[tokio::test]
async fn a_buffer_is_filled_or_an_error_says_why_not() {
    let ends = pair(TransportConfig::fixed_mtu(1200).with_stream_window(2_000)).await;
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    let server = ends.server.clone();
    let reader = tokio::spawn(async move {
        let mut recv = server.accept_uni().await.unwrap();
        let mut large = vec![0; 9_000];
        recv.read_exact(&mut large).await.unwrap();
        assert!(large.iter().zip(0..).all(|(byte, n): (&u8, u32)| *byte == (n % 251) as u8));
        assert_eq!(recv.read_exact(&mut []).await, Ok(()));
        assert_eq!(recv.read_exact(&mut large).await, Err(ReadExactError::TooShort(1_000)));
        let mut reset = server.accept_uni().await.unwrap();
        reset.read_exact(&mut [0; 8]).await
    });
    let pattern: Vec<u8> = (0..10_000_u32).map(|n| (n % 251) as u8).collect();
    soon(send.write_all(&pattern)).await.unwrap();
    send.finish().unwrap();
    let mut other = soon(ends.client.open_uni()).await.unwrap();
    soon(other.write_all(&[1; 3])).await.unwrap();
    other.reset(404);
    let error = soon(reader).await.unwrap().unwrap_err();
    assert_eq!(error, ReadExactError::Read(ReadError::Reset(404)));
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::ConnectionReset);
    let short = std::io::Error::from(ReadExactError::TooShort(1));
    assert_eq!(short.kind(), std::io::ErrorKind::UnexpectedEof);
}

/// Futures are dropped after every single poll that is not ready, on both sides, and with both kinds of
/// verbs.
#[tokio::test]
async fn dropping_futures_midway_loses_nothing() {
    const LEN: usize = 300_000;
    let config = TransportConfig::fixed_mtu(1200).with_send_buffer(5_000).with_stream_window(4_000);
    let ends = pair(config).await;
    let data = pattern(LEN);
    let (server, expected) = (ends.server.clone(), data.clone());
    let reader = tokio::spawn(async move {
        let mut recv = loop {
            if let Some(recv) = once(server.accept_uni()).await {
                break recv.unwrap();
            }
        };
        let mut all = Vec::new();
        let mut buffer = [0; 700];
        for turn in 0.. {
            let read = if turn % 2 == 0 {
                let read = once(recv.read(&mut buffer)).await;
                read.map(|read| read.unwrap().map(|n| Bytes::copy_from_slice(&buffer[..n])))
            } else {
                once(recv.read_chunk(900)).await.map(Result::unwrap)
            };
            match read {
                Some(Some(chunk)) => all.extend_from_slice(&chunk),
                Some(None) => break,
                None => {}
            }
        }
        assert!(all == expected, "{} bytes of {LEN}", all.len());
    });
    let mut send = loop {
        if let Some(send) = once(ends.client.open_uni()).await {
            break send.unwrap();
        }
    };
    let mut rest = Bytes::from(data.clone());
    let mut sent = 0;
    while sent < LEN {
        if sent % 2 == 0 {
            once(send.write_some(&mut rest)).await.transpose().unwrap();
            sent = LEN - rest.len();
        } else {
            let before = send.written();
            once(send.write_all(&data[sent..])).await.transpose().unwrap();
            sent += index(send.written() - before);
            rest = Bytes::copy_from_slice(&data[sent..]);
        }
    }
    assert_eq!(send.written(), LEN as u64);
    send.finish().unwrap();
    soon(async { while once(send.finished()).await.is_none() {} }).await;
    soon(reader).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_short_streams() {
    const COUNT: u32 = 5_000;
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let server = ends.server.clone();
    let echo = tokio::spawn(async move {
        for _ in 0..COUNT {
            let (mut send, mut recv) = server.accept_bi().await.unwrap();
            tokio::spawn(async move {
                let all = recv.read_to_end(100).await.unwrap();
                send.write_all(&all).await.unwrap();
            });
        }
    });
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..COUNT {
        let client = ends.client.clone();
        tasks.spawn(async move {
            let (mut send, mut recv) = client.open_bi().await.unwrap();
            send.write_all(&n.to_be_bytes()).await.unwrap();
            send.finish().unwrap();
            assert_eq!(recv.read_to_end(100).await.unwrap(), n.to_be_bytes());
        });
    }
    soon(async { while tasks.join_next().await.transpose().unwrap().is_some() {} }).await;
    soon(echo).await.unwrap();
}

#[tokio::test]
async fn tokio_reads_and_writes_streams() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let data = pattern(200_000);
    let (server, expected) = (ends.server.clone(), data.clone());
    let reader = tokio::spawn(async move {
        let mut recv = server.accept_uni().await.unwrap();
        let mut all = Vec::new();
        AsyncReadExt::read_to_end(&mut recv, &mut all).await.unwrap();
        assert!(all == expected);
    });
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    soon(AsyncWriteExt::write_all(&mut send, &data)).await.unwrap();
    soon(send.shutdown()).await.unwrap();
    soon(send.shutdown()).await.unwrap();
    soon(reader).await.unwrap();
}

#[tokio::test]
async fn a_stream_beyond_the_limit_waits_for_another_to_end() {
    let ends = pair(TransportConfig::fixed_mtu(1200).with_max_uni_streams(1)).await;
    let mut first = soon(ends.client.open_uni()).await.unwrap();
    assert!(once(ends.client.open_uni()).await.is_none(), "only one at a time");
    let client = ends.client.clone();
    let second = tokio::spawn(async move { client.open_uni().await.map(|stream| stream.id()) });
    first.finish().unwrap();
    let mut recv = soon(ends.server.accept_uni()).await.unwrap();
    assert_eq!(soon(recv.read_to_end(0)).await.unwrap(), b"");
    assert_ne!(soon(second).await.unwrap().unwrap(), first.id());
}

/// Polls once, drops the future, and lets the others work.
async fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    let polled = {
        let mut future = pin!(future);
        poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx))).await
    };
    if polled.is_pending() {
        tokio::task::yield_now().await;
    }
    match polled {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_reset_behind_a_part_lets_that_arrive() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    let data = pattern(300_000);
    soon(send.write_all(&data)).await.unwrap();
    send.reset_at(7, 200_000).unwrap();
    let mut recv = soon(ends.server.accept_uni()).await.unwrap();
    let mut got = Vec::new();
    let end = loop {
        match soon(recv.read_chunk(usize::MAX)).await {
            Ok(Some(chunk)) => got.extend_from_slice(&chunk),
            other => break other,
        }
    };
    assert_eq!(end, Err(ReadError::Reset(7)));
    assert!(got.len() >= 200_000 && data.starts_with(&got), "{}", got.len());
}

#[tokio::test]
async fn a_reset_behind_a_message_lets_that_arrive() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut send = soon(ends.client.open_messages()).await.unwrap();
    let mut tickets = Vec::new();
    for n in 0..20u8 {
        tickets.push(soon(send.send(Bytes::from(vec![n; 5000]))).await.unwrap());
    }
    send.reset_behind(7, tickets[9].id()).unwrap();
    let mut recv = soon(ends.server.accept_messages()).await.unwrap();
    let mut got = Vec::new();
    while let Some(Ok(message)) = soon(recv.next()).await {
        got.push(message.payload[0]);
    }
    got.sort_unstable();
    assert_eq!(got[..10], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    for ticket in &tickets[..10] {
        assert!(soon(ticket.outcome()).await.is_delivered());
    }
}

#[tokio::test]
async fn bytes_are_read_as_they_come() {
    let ends = pair(TransportConfig::fixed_mtu(1200)).await;
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    let data = Bytes::from(pattern(500_000));
    let all = data.clone();
    let sent = tokio::spawn(async move {
        send.write_chunk(all).await.unwrap();
        send.finish().unwrap();
        send.finished().await
    });
    let recv = soon(ends.server.accept_uni()).await.unwrap();
    let mut recv = recv.unordered().expect("nothing was read");
    let mut got = vec![None; data.len()];
    while let Some((offset, bytes)) = soon(recv.read(10_000)).await.unwrap() {
        for (at, byte) in (index(offset)..).zip(bytes) {
            assert_eq!(got[at].replace(byte), None, "once");
        }
    }
    assert!(got.iter().zip(&data).all(|(got, byte)| *got == Some(*byte)));
    soon(sent).await.unwrap().unwrap();
    // What was read in order goes on so.
    let mut send = soon(ends.client.open_uni()).await.unwrap();
    soon(send.write_all(b"in order")).await.unwrap();
    let mut recv = soon(ends.server.accept_uni()).await.unwrap();
    soon(recv.read_chunk(2)).await.unwrap();
    let mut recv = recv.unordered().expect_err("something was read");
    assert_eq!(soon(recv.read_chunk(100)).await.unwrap().as_deref(), Some(&b" order"[..]));
    send.reset(7);
    assert_eq!(soon(recv.read_chunk(100)).await, Err(ReadError::Reset(7)));
}

/// Who waits for leave gets it when the other side changes its mind.
#[tokio::test]
async fn limits_can_be_raised_later() {
    let config = TransportConfig::fixed_mtu(1200)
        .with_max_bidi_streams(1)
        .with_fenced_streams(None)
        .with_stream_window(2000)
        .with_max_connection_window(2000);
    let ends = pair(config).await;
    let (mut first, _answer) = soon(ends.client.open_bi()).await.unwrap();
    // Nobody reads the first, which uses up both limits.
    soon(first.write_all(&[0; 2000])).await.unwrap();
    let _unread = soon(ends.server.accept_bi()).await.unwrap();
    let client = ends.client.clone();
    let second = tokio::spawn(async move {
        let (mut send, _answer) = client.open_bi().await.unwrap();
        send.write_all(b"at last").await.unwrap();
        send.finish().unwrap();
        send.finished().await.unwrap();
    });
    ends.server.set_max_streams(Dir::Bi, 2);
    ends.server.set_connection_window(4000);
    let (_answer, mut late) = soon(ends.server.accept_bi()).await.unwrap();
    assert_eq!(soon(late.read_to_end(100)).await.unwrap(), b"at last");
    soon(second).await.unwrap();
}
