//! Requests that their client gives up, as those who answer them see it, over the loopback.

#![cfg(all(feature = "h3", feature = "self-signed"))]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod ends;

use std::time::Duration;

use bytes::Bytes;
use quickset::h3::{Abort, Call, ErrorCode, HttpError, MalformedMessage, Request, Response, Server};

use ends::{ends, everything, soon};

const CANCELLED: HttpError = HttpError::Stopped(ErrorCode::H3_REQUEST_CANCELLED.0);

fn get() -> Request {
    Request::new("GET", "localhost", "/")
}

/// They write nothing meanwhile, by which they would notice.
#[tokio::test]
async fn who_works_on_an_answer_hears_that_it_is_not_wanted() {
    let (client, theirs, _endpoint) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();

    let answer = soon(client.ask(&get())).await.unwrap();
    let call = soon(server.accept()).await.unwrap();
    let asked = tokio::spawn(async move { call.reply.stopped().await });
    drop(answer);
    assert_eq!(soon(asked).await.unwrap(), CANCELLED);

    // Behind the head, and as often as somebody asks.
    let answer = soon(client.ask(&get())).await.unwrap();
    let call = soon(server.accept()).await.unwrap();
    let out = call.reply.respond(&Response::new(200)).unwrap();
    let (_, content) = soon(answer.response()).await.unwrap();
    drop(content);
    assert_eq!(soon(out.stopped()).await, CANCELLED);
    assert_eq!(soon(out.stopped()).await, CANCELLED);
    // Nor will there be another priority.
    assert_eq!(soon(out.priority_changed()).await, Err(CANCELLED));
}

#[tokio::test]
async fn who_waits_for_a_priority_hears_that_the_answer_is_not_wanted() {
    let (client, theirs, _endpoint) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let answer = soon(client.ask(&get())).await.unwrap();
    let Call { reply, .. } = soon(server.accept()).await.unwrap();
    let asked = tokio::spawn(async move { reply.priority_changed().await });
    drop(answer);
    assert_eq!(soon(asked).await.unwrap(), Err(CANCELLED));
}

#[tokio::test]
async fn an_upload_that_is_given_up_and_a_connection_that_ends_are_heard_of() {
    let (client, theirs, _endpoint) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let (out, answer) = soon(client.request(&Request::new("PUT", "localhost", "/"))).await.unwrap();
    let call = soon(server.accept()).await.unwrap();
    out.cancel(ErrorCode::H3_REQUEST_CANCELLED);
    let why = soon(call.reply.stopped()).await;
    // RFC 9114 §4.1.1: both halves of the stream are given up, and either may be heard of first.
    let reset = HttpError::Aborted(Abort::Reset(ErrorCode::H3_REQUEST_CANCELLED.0));
    assert!(why == CANCELLED || why == reset, "{why:?}");
    drop((answer, call));

    let _answer = soon(client.ask(&get())).await.unwrap();
    let call = soon(server.accept()).await.unwrap();
    client.connection().close(ErrorCode::H3_NO_ERROR.0, b"");
    assert!(matches!(soon(call.reply.stopped()).await, HttpError::Closed(_)));
}

/// Nothing comes of an exchange that was given up here, and nobody but who gave it up tells of that.
#[tokio::test]
async fn who_waits_for_an_answer_hears_that_its_request_was_given_up() {
    let (client, theirs, _endpoint) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let put = Request::new("PUT", "localhost", "/");
    let cancelled = HttpError::GivenUp(ErrorCode::H3_REQUEST_CANCELLED);

    let (out, answer) = soon(client.request(&put)).await.unwrap();
    let asked = tokio::spawn(answer.response());
    let call = soon(server.accept()).await.unwrap();
    drop(out);
    assert_eq!(soon(asked).await.unwrap().unwrap_err(), cancelled);
    drop(call);

    // Behind the head; and the server's, who waits for content.
    let (out, answer) = soon(client.request(&put)).await.unwrap();
    let mut call = soon(server.accept()).await.unwrap();
    let reply = call.reply.respond(&Response::new(200)).unwrap();
    let (_, mut content) = soon(answer.response()).await.unwrap();
    let asked = tokio::spawn(async move { content.next().await });
    tokio::task::yield_now().await;
    out.cancel(ErrorCode::H3_REQUEST_CANCELLED);
    assert_eq!(soon(asked).await.unwrap(), Err(cancelled));
    let reset = HttpError::Aborted(Abort::Reset(ErrorCode::H3_REQUEST_CANCELLED.0));
    assert_eq!(soon(call.content.next()).await, Err(reset));
    drop((call.content, reply));

    let (_out, answer) = soon(client.request(&put)).await.unwrap();
    let mut call = soon(server.accept()).await.unwrap();
    let asked = tokio::spawn(async move { call.content.next().await });
    tokio::task::yield_now().await;
    call.reply.reject();
    assert_eq!(soon(asked).await.unwrap(), Err(HttpError::GivenUp(ErrorCode::H3_REQUEST_REJECTED)));
    assert_eq!(soon(answer.response()).await.unwrap_err(), HttpError::Aborted(Abort::Rejected));
}

/// Content that breaks off takes the other half of the exchange with it.
#[tokio::test]
async fn who_sends_hears_that_the_exchange_was_given_up_by_who_reads() {
    let (client, theirs, _endpoint) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let malformed =
        HttpError::Aborted(Abort::Malformed(MalformedMessage("more content than content-length says")));

    // The server reads nothing, so that who sends has to wait.
    let (mut out, answer) = soon(client.request(&Request::new("PUT", "localhost", "/"))).await.unwrap();
    let call = soon(server.accept()).await.unwrap();
    let mut data = Bytes::from(vec![0; 64 << 20]);
    while tokio::time::timeout(Duration::from_millis(200), out.send_some(&mut data)).await.is_ok() {}
    let sending = tokio::spawn(async move { out.send(data).await });
    tokio::task::yield_now().await;
    let mut reply = call.reply.respond(&Response::new(200).with("content-length", "3")).unwrap();
    soon(reply.send("four".into())).await.unwrap();
    let (_, mut content) = soon(answer.response()).await.unwrap();
    assert_eq!(soon(content.next()).await, Err(malformed.clone()));
    assert_eq!(soon(sending).await.unwrap(), Err(malformed.clone()));
    drop((call.content, reply));

    let request = Request::new("PUT", "localhost", "/").with("content-length", "3");
    let (mut out, _answer) = soon(client.request(&request)).await.unwrap();
    let mut call = soon(server.accept()).await.unwrap();
    let asked = tokio::spawn(async move { call.reply.stopped().await });
    tokio::task::yield_now().await;
    soon(out.send("four".into())).await.unwrap();
    assert_eq!(soon(call.content.next()).await, Err(malformed.clone()));
    assert_eq!(soon(asked).await.unwrap(), malformed);
}

/// A server may want no more of a request and answer it all the same (RFC 9114 §4.1).
#[tokio::test]
async fn content_that_is_not_wanted_ends_no_exchange() {
    let (client, theirs, _endpoint) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let (out, answer) = soon(client.request(&Request::new("PUT", "localhost", "/"))).await.unwrap();
    let Call { content, reply, .. } = soon(server.accept()).await.unwrap();
    drop(content);
    assert_eq!(soon(out.stopped()).await, HttpError::Stopped(ErrorCode::H3_NO_ERROR.0));
    // RFC 9114 §4.1: the answer counts though its request is incomplete.
    drop(out);
    reply.end(&Response::new(413)).unwrap();
    assert_eq!(soon(answer.response()).await.unwrap().0.status, 413);
}

/// Otherwise those that nobody wants keep the client from making others.
#[tokio::test]
async fn answers_that_hear_of_it_make_room_for_requests() {
    let (client, theirs, _endpoint) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    tokio::spawn(async move {
        while let Some(Call { reply, .. }) = server.accept().await {
            tokio::spawn(async move { reply.stopped().await });
        }
    });
    // As many as the server has at a time, and half as many again.
    for _ in 0..150 {
        drop(soon(client.ask(&get())).await.unwrap());
    }
}

/// Of a server that takes no more requests: nothing was done, and the words say what to do.
#[tokio::test]
async fn what_a_server_did_nothing_with_may_be_asked_again() {
    let (client, theirs, _endpoint) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let rejected = soon(client.ask(&get())).await.unwrap();
    soon(server.accept()).await.unwrap().reply.reject();
    let why = soon(rejected.response()).await.unwrap_err();
    assert!(why.is_unprocessed() && why.to_string().contains("another connection"), "{why}");

    let failed = soon(client.ask(&get())).await.unwrap();
    drop(soon(server.accept()).await.unwrap());
    let why = soon(failed.response()).await.unwrap_err();
    assert!(!why.is_unprocessed(), "who knows");
    assert_eq!(why.to_string(), "given up by the peer with code H3_INTERNAL_ERROR");

    server.go_away();
    soon(async {
        while !client.is_going_away() {
            theirs.ping();
            tokio::task::yield_now().await;
        }
    })
    .await;
    let why = soon(client.ask(&get())).await.unwrap_err();
    assert!(why.is_unprocessed(), "{why}");

    theirs.close(ErrorCode::H3_NO_ERROR.0, b"");
    soon(client.connection().closed()).await;
    let why = soon(client.ask(&get())).await.unwrap_err();
    assert!(!why.is_unprocessed() && why.to_string().ends_with("(H3_NO_ERROR)"), "{why}");
}
