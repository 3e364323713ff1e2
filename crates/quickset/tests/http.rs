//! HTTP/3 over the loopback: what applications see of it.

#![cfg(all(feature = "h3", feature = "self-signed"))]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quickset::h3::{
    self, Abort, Call, Client, Config, ErrorCode, Field, HttpError, Priority, Request, Response, Server,
    VerbRefusal,
};
use quickset::policies::PublishedPolicy;
use quickset::{
    ClientConfig, Connection, Endpoint, Identity, Reliability, ServerConfig, TransportConfig, Trust,
};
use tokio::io::AsyncReadExt;

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it does not take that long")
}

/// A client, and the server's side of the same connection.
async fn pair(transport: &TransportConfig) -> (Client, Connection) {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let config = ServerConfig::new(identity, &[h3::ALPN]).unwrap().with_transport(transport.clone());
    let server = Endpoint::server(([127, 0, 0, 1], 0).into(), &config).unwrap();
    let config = ClientConfig::new(trust, &[h3::ALPN]).unwrap().with_transport(transport.clone());
    let client = Endpoint::client().unwrap();
    let ours = soon(client.connect(server.local_addr(), "localhost", &config)).await.unwrap();
    let theirs = soon(server.accept()).await.unwrap();
    (Client::new(&ours, everything()).unwrap(), theirs)
}

fn everything() -> Config {
    Config { extended_connect: true, datagrams: true, ..Config::default() }
}

/// Answers each request by a task of its own.
fn serve<F: Future<Output = ()> + Send + 'static>(
    connection: Connection,
    answer: impl Fn(Call) -> F + Send + 'static,
) {
    tokio::spawn(async move {
        let mut server = Server::new(&connection, everything()).unwrap();
        while let Some(call) = server.accept().await {
            tokio::spawn(answer(call));
        }
    });
}

fn get(path: &'static str) -> Request {
    Request::new("GET", "localhost", path)
}

/// Bytes of which each place is known.
fn pattern(from: usize, len: usize) -> Bytes {
    (0..=250).cycle().skip(from % 251).take(len).collect()
}

#[tokio::test]
async fn an_answer_in_one_call_is_read_whole_whatever_its_length() {
    let (client, theirs) = pair(&TransportConfig::default()).await;
    serve(theirs, |call| async move {
        let path = call.request.path.as_ref().unwrap();
        let len: usize = std::str::from_utf8(&path[1..]).unwrap().parse().unwrap();
        let response = Response::new(200).with("content-length", len.to_string());
        call.reply.answer(&response, pattern(0, len)).await.unwrap();
    });
    for (path, len) in
        [("/0", 0), ("/1000", 1000), ("/65536", 65536), ("/65537", 65537), ("/3000000", 3_000_000)]
    {
        let (response, mut content) = soon(client.fetch(&get(path))).await.unwrap();
        assert_eq!(response.status, 200);
        assert!(soon(content.read_to_end(1 << 24)).await.unwrap() == pattern(0, len), "{len} bytes");
    }
}

/// Some of it is found together.
#[tokio::test]
async fn what_came_before_content_broke_off_is_read_first() {
    let (client, theirs) = pair(&TransportConfig::default()).await;
    serve(theirs, |call| async move {
        let mut out = call.reply.respond(&Response::new(200).with("content-length", "300")).unwrap();
        for n in 0..100 {
            out.send(pattern(3 * n, 3)).await.unwrap();
        }
        // One byte too many. That it is refused is no news.
        let _ = out.send("x".into()).await;
        out.stopped().await;
    });
    for by_buffers in [false, true] {
        let (_, mut content) = soon(client.fetch(&get("/"))).await.unwrap();
        let mut all = Vec::new();
        if by_buffers {
            let error = soon(AsyncReadExt::read_to_end(&mut content, &mut all)).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
            assert!(content.read(&mut [0; 9]).await.is_err(), "each time");
        } else {
            let error = loop {
                match soon(content.next()).await {
                    Ok(data) => all.extend_from_slice(&data.expect("it does not look complete")),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, HttpError::Aborted(Abort::Malformed(_))), "{error}");
        }
        assert!(all == pattern(0, 300), "{} bytes", all.len());
    }
}

#[tokio::test]
async fn content_goes_both_ways_with_trailers_and_interim_responses() {
    let (client, theirs) = pair(&TransportConfig::default()).await;
    serve(theirs, |call| async move {
        let Call { request, mut content, reply, .. } = call;
        reply.interim(&Response::new(103).with("link", "</a.css>")).unwrap();
        let mut out = reply.respond(&Response::new(200).with("x-method", request.method)).unwrap();
        while let Some(data) = content.next().await.unwrap() {
            out.send(data).await.unwrap();
        }
        assert_eq!(content.trailers(), [Field::new("x-sum", "12")]);
        out.trailers(&[Field::new("x-echo", "yes")]).unwrap();
    });
    let talks = (0..8).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let (mut out, mut answer) =
                client.request(&Request::new("POST", "localhost", "/")).await.unwrap();
            assert_eq!(answer.interim().await.unwrap().unwrap().status, 103);
            let all = pattern(0, 300_000);
            let sent = all.clone();
            let sending = tokio::spawn(async move {
                out.send(sent).await.unwrap();
                out.trailers(&[Field::new("x-sum", "12")]).unwrap();
            });
            assert!(answer.interim().await.unwrap().is_none());
            let (response, mut content) = answer.response().await.unwrap();
            assert_eq!((response.status, response.field("x-method").unwrap()), (200, &"POST".into()));
            assert!(content.read_to_end(300_000).await.unwrap() == all);
            assert_eq!(content.trailers(), [Field::new("x-echo", "yes")]);
            assert_eq!(content.next().await, Ok(None));
            sending.await.unwrap();
        })
    });
    for talk in talks.collect::<Vec<_>>() {
        soon(talk).await.unwrap();
    }
}

/// Windows that do not grow, so that what can be on the way is known.
fn narrow() -> TransportConfig {
    TransportConfig::default().with_stream_window(WINDOW).with_max_stream_window(WINDOW)
}

const WINDOW: u64 = 64 << 10;

/// What a sender got rid of while nobody reads: the peer's window, our send buffer, one part in the machine
/// that did not fit, and one more that was half taken.
fn limit(transport: &TransportConfig) -> usize {
    usize::try_from(WINDOW + transport.send_buffer).unwrap() + 2 * (64 << 10)
}

#[tokio::test]
async fn who_does_not_read_a_response_is_not_sent_more() {
    let transport = narrow();
    let limit = limit(&transport);
    let all = 2 * limit + 500_000;
    let (client, theirs) = pair(&transport).await;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    serve(theirs, move |call| {
        let sent = count.clone();
        async move {
            let small = call.request.path.as_deref() == Some(b"/small");
            let mut out = call.reply.respond(&Response::new(200)).unwrap();
            if !small {
                while sent.load(Ordering::SeqCst) < all {
                    let from = sent.load(Ordering::SeqCst);
                    let mut part = pattern(from, (all - from).min(10_000));
                    let n = out.send_some(&mut part).await.unwrap();
                    sent.fetch_add(n, Ordering::SeqCst);
                }
            }
            out.finish().unwrap();
        }
    });
    let (_, mut large) = soon(client.fetch(&get("/large"))).await.unwrap();
    // Many round trips, in which the rest could have come.
    for _ in 0..50 {
        let (_, mut content) = soon(client.fetch(&get("/small"))).await.unwrap();
        assert_eq!(soon(content.read_to_end(0)).await.unwrap(), b"");
    }
    let before = sent.load(Ordering::SeqCst);
    assert!(before as u64 >= WINDOW && before <= limit, "{before} of at most {limit}");
    let content = soon(large.read_to_end(all)).await.unwrap();
    assert!(content == pattern(0, all));
}

#[tokio::test]
async fn who_does_not_read_a_request_is_not_sent_more() {
    let transport = narrow();
    let (client, theirs) = pair(&transport).await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let (mut out, answer) = soon(client.request(&Request::new("PUT", "localhost", "/"))).await.unwrap();
    let all = 2 * limit(&transport) + 500_000;
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let sending = tokio::spawn(async move {
        while count.load(Ordering::SeqCst) < all {
            let from = count.load(Ordering::SeqCst);
            let n = out.send_some(&mut pattern(from, (all - from).min(10_000))).await.unwrap();
            count.fetch_add(n, Ordering::SeqCst);
        }
        out.finish().unwrap();
    });
    let mut call = soon(server.accept()).await.unwrap();
    for _ in 0..50 {
        let small = client.ask(&get("/small")).await.unwrap();
        soon(server.accept()).await.unwrap().reply.end(&Response::new(204)).unwrap();
        assert_eq!(soon(small.response()).await.unwrap().0.status, 204);
    }
    let before = sent.load(Ordering::SeqCst);
    assert!(before as u64 >= WINDOW && before <= limit(&transport), "{before}");
    assert!(soon(call.content.read_to_end(all)).await.unwrap() == pattern(0, all));
    call.reply.end(&Response::new(201)).unwrap();
    assert_eq!(soon(answer.response()).await.unwrap().0.status, 201);
    soon(sending).await.unwrap();
}

#[tokio::test]
async fn more_requests_than_the_server_takes_at_a_time_wait() {
    let transport = TransportConfig::default().with_max_bidi_streams(2);
    let (client, theirs) = pair(&transport).await;
    serve(theirs, |call| async move {
        call.reply.respond(&Response::new(200)).unwrap().finish().unwrap();
    });
    let all = (0..40).map(|_| {
        let client = client.clone();
        tokio::spawn(async move {
            let (response, mut content) = client.fetch(&get("/")).await.unwrap();
            content.read_to_end(0).await.unwrap();
            response.status
        })
    });
    for one in all.collect::<Vec<_>>() {
        assert_eq!(soon(one).await.unwrap(), 200);
    }
}

#[tokio::test]
async fn what_is_incomplete_does_not_look_complete() {
    let (client, theirs) = pair(&TransportConfig::default()).await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let answer = client.ask(&get("/")).await.unwrap();
    let call = soon(server.accept()).await.unwrap();
    let mut out = call.reply.respond(&Response::new(200)).unwrap();
    out.send("half of ".into()).await.unwrap();
    let (_, mut content) = soon(answer.response()).await.unwrap();
    assert_eq!(soon(content.next()).await, Ok(Some("half of ".into())));
    drop(out);
    let internal = HttpError::Aborted(Abort::Reset(ErrorCode::H3_INTERNAL_ERROR.0));
    assert_eq!(soon(content.next()).await, Err(internal.clone()));
    assert_eq!(
        content.next().await,
        Err(internal.clone()),
        "whoever asks again does not take it for the end"
    );

    // A call that nobody answers, and one that the server did nothing with.
    let (unanswered, rejected) =
        (client.ask(&get("/1")).await.unwrap(), client.ask(&get("/2")).await.unwrap());
    drop(soon(server.accept()).await.unwrap());
    soon(server.accept()).await.unwrap().reply.reject();
    assert_eq!(soon(unanswered.response()).await.unwrap_err(), internal);
    assert_eq!(soon(rejected.response()).await.unwrap_err(), HttpError::Aborted(Abort::Rejected));

    // A request that its client gives up half-way.
    let (mut out, answer) = client.request(&Request::new("POST", "localhost", "/3")).await.unwrap();
    out.send("half of ".into()).await.unwrap();
    let mut call = soon(server.accept()).await.unwrap();
    assert_eq!(soon(call.content.next()).await, Ok(Some("half of ".into())));
    drop((out, answer));
    let cancelled = HttpError::Aborted(Abort::Reset(ErrorCode::H3_REQUEST_CANCELLED.0));
    assert_eq!(soon(call.content.next()).await, Err(cancelled));
}

#[tokio::test]
async fn an_answer_that_nobody_wants_is_not_sent_on() {
    let (client, theirs) = pair(&narrow()).await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let answer = client.ask(&get("/")).await.unwrap();
    let call = soon(server.accept()).await.unwrap();
    let mut out = call.reply.respond(&Response::new(200)).unwrap();
    drop(soon(answer.response()).await.unwrap());
    let error = soon(async {
        loop {
            if let Err(error) = out.send(pattern(0, 10_000)).await {
                return error;
            }
        }
    });
    assert_eq!(error.await, HttpError::Stopped(ErrorCode::H3_REQUEST_CANCELLED.0));
    assert!(theirs.close_reason().is_none());
}

#[tokio::test]
async fn priorities_are_seen_and_changed() {
    let (client, theirs) = pair(&TransportConfig::default()).await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let answer = client.ask(&get("/").with("priority", "u=5, i")).await.unwrap();
    let call = soon(server.accept()).await.unwrap();
    assert_eq!((call.priority.urgency, call.priority.incremental), (5, true));
    answer.prioritise(&Priority::new(1, false)).unwrap();
    let changed = soon(call.reply.priority_changed()).await.unwrap();
    assert_eq!((changed.urgency, changed.incremental), (1, false));
    let out = call.reply.respond(&Response::new(200)).unwrap();
    out.set_priority(&Priority::new(7, false)).unwrap();
    out.finish().unwrap();
    assert_eq!(soon(answer.response()).await.unwrap().0.status, 200);
}

/// What is urgent is sent as source symbols, by what the client says last.
#[tokio::test]
async fn urgent_answers_are_repaired() {
    let transport = narrow().with_send_buffer(64 << 10);
    let (client, theirs) = pair(&transport).await;
    let watched = theirs.clone();
    let mut server = Server::new(&theirs, everything()).unwrap();
    server.repair_urgent(3, &quickset::policies::read("fixed:10").unwrap().into());
    tokio::spawn(async move {
        while let Some(call) = server.accept().await {
            let own = call.request.path == Some("/own".into());
            tokio::spawn(async move {
                let mut out = call.reply.respond(&Response::new(200)).unwrap();
                if own {
                    out.set_reliability(&Reliability::bulk().with(PublishedPolicy::Fixed(5).into()));
                }
                out.send(pattern(0, 500_000)).await.unwrap();
                out.finish().unwrap();
            });
        }
    });
    let sources = || watched.stats().fec.sources_sent;
    let fetch = async |request: Request| {
        let (_, mut content) = soon(client.fetch(&request)).await.unwrap();
        assert!(soon(content.read_to_end(500_000)).await.unwrap() == pattern(0, 500_000));
    };
    for usual in [get("/"), get("/").with("priority", "u=3,i"), get("/").with("priority", "u=7")] {
        fetch(usual).await;
    }
    assert_eq!(sources(), 0);
    fetch(get("/").with("priority", "u=2")).await;
    let of_one = sources();
    // 500,000 bytes in packets of 1,472 bytes at most.
    assert!(of_one >= 339, "{of_one}");
    let repairs = watched.stats().fec.repairs_sent;
    // One for ten symbols, but none where all have arrived by then.
    assert!(repairs >= of_one / 20, "{repairs} of {of_one}");
    fetch(get("/own")).await;
    let of_two = sources();
    assert!(of_two >= of_one + 339, "{of_two}");

    // It asks for repair of what is not urgent; and for none of what is.
    fetch(get("/").with("priority", "u=6, exp_b=3")).await;
    let of_three = sources();
    assert!(of_three >= of_two + 339, "{of_three}");
    fetch(get("/").with("priority", "u=0, exp_b=0")).await;
    assert_eq!(sources(), of_three);
    let of_two = of_three;

    // The client changes its mind while the answer waits for it to read.
    let (_, mut content) = soon(client.fetch(&get("/"))).await.unwrap();
    let first = soon(content.next()).await.unwrap().unwrap();
    assert_eq!(sources(), of_two);
    content.prioritise(&Priority::new(0, false)).unwrap();
    let rest = soon(content.read_to_end(500_000)).await.unwrap();
    assert_eq!(first.len() + rest.len(), 500_000);
    assert!(sources() > of_two + 200, "{}", sources());
}

/// RFC 9114 §5.2: what is under way is served to its end, and then the connection ends without error.
#[tokio::test]
async fn a_server_that_shuts_down_loses_nothing() {
    let (client, theirs) = pair(&narrow()).await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let answer = client.ask(&get("/large")).await.unwrap();
    // An exchange is under way as long as somebody may still read its request.
    let Call { reply, .. } = soon(server.accept()).await.unwrap();
    let mut out = reply.respond(&Response::new(200)).unwrap();
    let leaving = tokio::spawn(async move {
        server.shutdown(|call| call.reply.reject()).await;
    });
    let (_, mut content) = soon(answer.response()).await.unwrap();
    soon(async {
        while !client.is_going_away() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let late = client.ask(&get("/late")).await.unwrap_err();
    assert_eq!(late, HttpError::Refused(VerbRefusal::GoingAway));
    let sending = tokio::spawn(async move {
        out.send(pattern(0, 1_000_000)).await.unwrap();
        out.finish().unwrap();
    });
    assert!(soon(content.read_to_end(1_000_000)).await.unwrap() == pattern(0, 1_000_000));
    soon(sending).await.unwrap();
    soon(leaving).await.unwrap();
    let closed = soon(client.connection().closed()).await.to_string();
    assert!(closed.contains("0x100") || closed.contains("256"), "{closed}");
    let over = client.ask(&get("/")).await.unwrap_err();
    assert!(matches!(over, HttpError::Closed(_)), "{over:?}");
}

/// RFC 9114 §5.4: closed, and not rejected.
#[tokio::test]
async fn a_connection_that_ends_is_noticed_by_whoever_waits() {
    let (client, theirs) = pair(&TransportConfig::default()).await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let answer = client.ask(&get("/")).await.unwrap();
    let mut call = soon(server.accept()).await.unwrap();
    client.connection().close(0x102, b"");
    assert!(soon(server.accept()).await.is_none());
    assert!(matches!(soon(call.reply.priority_changed()).await, Err(HttpError::Closed(_))));
    assert!(matches!(soon(answer.response()).await, Err(HttpError::Closed(_))));
    // The request was complete; that can still be read.
    assert_eq!(soon(call.content.next()).await, Ok(None));
    assert!(Server::new(&theirs, everything()).is_err(), "one owner of the streams");
}

#[tokio::test]
async fn a_tunnel_carries_bytes_and_datagrams() {
    let (client, theirs) = pair(&TransportConfig::default()).await;
    serve(theirs, |call| async move {
        assert_eq!(call.request.protocol.as_deref(), Some(&b"echo"[..]));
        let mut content = call.content;
        let mut out = call.reply.respond(&Response::new(200)).unwrap();
        out.send_datagram(&content.next_datagram().await.unwrap().unwrap()).unwrap();
        while let Some(data) = content.next().await.unwrap() {
            out.send(data).await.unwrap();
        }
        out.finish().unwrap();
    });
    let settings = soon(client.settings()).await.unwrap();
    assert!(settings.enable_connect_protocol && settings.h3_datagram);
    let connect = Request::extended("echo", "localhost", "/");
    let (mut out, answer) = soon(client.request(&connect)).await.unwrap();
    out.send_datagram(b"ping").unwrap();
    let (response, mut content) = soon(answer.response()).await.unwrap();
    assert_eq!(response.status, 200);
    assert_eq!(soon(content.next_datagram()).await, Ok(Some("ping".into())));
    for word in ["one", "two"] {
        out.send(word.into()).await.unwrap();
        assert_eq!(soon(content.next()).await.unwrap().unwrap(), word);
    }
    out.finish().unwrap();
    assert_eq!(soon(content.next()).await, Ok(None));
}

/// A server that is dropped has done nothing with the requests that nobody took, and says so.
#[tokio::test]
async fn requests_that_nobody_took_are_rejected() {
    let (client, theirs) = pair(&TransportConfig::default()).await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let taken = client.ask(&get("/taken")).await.unwrap();
    let call = soon(server.accept()).await.unwrap();
    let waiting = client.ask(&get("/waiting")).await.unwrap();
    // Seen by then or not, it is rejected.
    let last = client.ask(&get("/last")).await.unwrap();
    let second = soon(server.accept()).await.unwrap();
    drop(server);
    assert_eq!(soon(last.response()).await.unwrap_err(), HttpError::Aborted(Abort::Rejected));
    let _waits = (second, waiting);
    call.reply.end(&Response::new(200)).unwrap();
    assert_eq!(soon(taken.response()).await.unwrap().0.status, 200);
    assert_eq!(client.ask(&get("/")).await.unwrap_err(), HttpError::Refused(VerbRefusal::GoingAway));
}
