//! Content of HTTP/3 and streams of WebTransport as readers and writers of tokio, over the loopback.

#![cfg(all(feature = "h3", feature = "self-signed"))]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod ends;

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::task::Poll;

use quickset::h3::webtransport::{Session, SessionError};
use quickset::h3::{
    Abort, Call, Client, Content, ContentSender, ErrorCode, Field, HttpError, Request, Response, Server,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use ends::{ends, everything, soon};

/// Bytes of which each place is known.
fn pattern(len: usize) -> Vec<u8> {
    (0..=250).cycle().take(len).collect()
}

/// Several windows.
const LARGE: usize = 20_000_000;

/// What a future gives at its first look; it is dropped then.
async fn at_once<F: Future>(future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// An exchange: what the client sends and reads, and what the server does.
struct Both {
    out: ContentSender,
    content: Content,
    their_out: ContentSender,
    their_content: Content,
    client: Client,
    _server: Server,
}

async fn exchange() -> Both {
    let (client, theirs, _) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let (out, answer) = soon(client.request(&Request::new("POST", "localhost", "/"))).await.unwrap();
    let Call { content: their_content, reply, .. } = soon(server.accept()).await.unwrap();
    let their_out = reply.respond(&Response::new(200)).unwrap();
    let (_, content) = soon(answer.response()).await.unwrap();
    Both { out, content, their_out, their_content, client, _server: server }
}

async fn sessions() -> (Session, Session, Client, Server) {
    let (client, theirs, _) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    let request = Request::extended("webtransport", "localhost", "/");
    let accept = async { server.accept().await.unwrap().into_session(&Response::new(200)).unwrap() };
    let (ours, theirs) = soon(async { tokio::join!(client.session(&request), accept) }).await;
    (ours.unwrap(), theirs, client, server)
}

fn http(error: &io::Error) -> &HttpError {
    error.get_ref().unwrap().downcast_ref().unwrap()
}

fn session(error: &io::Error) -> &SessionError {
    error.get_ref().unwrap().downcast_ref().unwrap()
}

#[tokio::test]
async fn content_is_copied_both_ways_and_trailers_follow() {
    let Both { mut out, mut content, mut their_out, mut their_content, .. } = exchange().await;
    let all = pattern(LARGE);
    let there = async {
        assert_eq!(tokio::io::copy(&mut &all[..], &mut out).await.unwrap(), LARGE as u64);
        out.trailers(&[Field::new("x-sum", "12")]).unwrap();
    };
    let echo = async {
        assert_eq!(tokio::io::copy(&mut their_content, &mut their_out).await.unwrap(), LARGE as u64);
        assert_eq!(their_content.trailers(), [Field::new("x-sum", "12")]);
        their_out.trailers(&[Field::new("x-echo", "yes")]).unwrap();
    };
    let mut back = Vec::new();
    let (.., n) = soon(async { tokio::join!(there, echo, tokio::io::copy(&mut content, &mut back)) }).await;
    assert_eq!(n.unwrap(), LARGE as u64);
    assert!(back == all);
    assert_eq!(content.trailers(), [Field::new("x-echo", "yes")]);
    assert_eq!(content.read(&mut [0; 9]).await.unwrap(), 0, "the end stays");
}

#[tokio::test]
async fn to_shut_down_ends_the_content() {
    let Both { mut out, mut their_content, content: _content, their_out: _their_out, .. } = exchange().await;
    out.write_all(b"all of it").await.unwrap();
    AsyncWriteExt::flush(&mut out).await.unwrap();
    out.shutdown().await.unwrap();
    out.shutdown().await.unwrap();
    AsyncWriteExt::flush(&mut out).await.unwrap();
    assert_eq!(out.write(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    drop(out);
    let mut text = String::new();
    soon(their_content.read_to_string(&mut text)).await.unwrap();
    assert_eq!(text, "all of it");
}

#[tokio::test]
async fn content_that_breaks_off_is_an_error_that_says_why() {
    let Both { out, content, mut their_out, mut their_content, .. } = exchange().await;
    their_out.write_all(b"half of ").await.unwrap();
    out.cancel(ErrorCode::H3_REQUEST_CANCELLED);
    let mut half = Vec::new();
    let error = soon(AsyncReadExt::read_to_end(&mut their_content, &mut half)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(*http(&error), HttpError::Aborted(Abort::Reset(ErrorCode::H3_REQUEST_CANCELLED.0)));
    let again = their_content.read(&mut [0; 9]).await.unwrap_err();
    assert_eq!(again.kind(), ErrorKind::ConnectionReset, "it does not look complete");

    drop(content);
    let error = loop {
        match soon(their_out.write(&[0; 1000])).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(*http(&error), HttpError::Stopped(ErrorCode::H3_REQUEST_CANCELLED.0));

    let mut both = exchange().await;
    both.client.connection().close(0x102, b"");
    let error = soon(both.their_content.read(&mut [0; 9])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionAborted);
    assert!(matches!(http(&error), HttpError::Closed(_)), "{error:?}");
}

/// Futures that are dropped have done nothing, or all that they say.
#[tokio::test]
async fn dropping_futures_loses_nothing() {
    let Both { mut out, mut their_content, content: _content, their_out: _their_out, .. } = exchange().await;
    let all = pattern(5_000_000);
    let write = async {
        let mut left = &all[..];
        while !left.is_empty() {
            match at_once(out.write(&left[..left.len().min(10_007)])).await {
                Some(n) => left = &left[n.unwrap()..],
                None => tokio::task::yield_now().await,
            }
        }
        out.shutdown().await.unwrap();
    };
    let read = async {
        let (mut got, mut buffer) = (Vec::new(), vec![0; 7001]);
        loop {
            match at_once(their_content.read(&mut buffer)).await {
                Some(n) => match n.unwrap() {
                    0 => return got,
                    n => got.extend_from_slice(&buffer[..n]),
                },
                None => tokio::task::yield_now().await,
            }
        }
    };
    let ((), got) = soon(async { tokio::join!(write, read) }).await;
    assert!(got == all);
}

#[tokio::test]
async fn streams_of_sessions_are_copied_both_ways() {
    let (ours, theirs, ..) = sessions().await;
    let (mut send, mut recv) = soon(ours.open_bi()).await.unwrap();
    let all = pattern(LARGE);
    let there = async {
        assert_eq!(tokio::io::copy(&mut &all[..], &mut send).await.unwrap(), LARGE as u64);
        send.shutdown().await.unwrap();
        assert_eq!(send.write(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    };
    let echo = async {
        let (mut send, mut recv) = theirs.accept_bi().await.unwrap();
        assert_eq!(tokio::io::copy(&mut recv, &mut send).await.unwrap(), LARGE as u64);
        send.shutdown().await.unwrap();
    };
    let mut back = Vec::new();
    let (.., n) = soon(async { tokio::join!(there, echo, tokio::io::copy(&mut recv, &mut back)) }).await;
    assert_eq!(n.unwrap(), LARGE as u64);
    assert!(back == all);
}

#[tokio::test]
async fn streams_of_sessions_that_break_off_are_errors_that_say_why() {
    let (ours, theirs, ..) = sessions().await;
    let (mut send, recv) = soon(ours.open_bi()).await.unwrap();
    send.write_all(b"a beginning").await.unwrap();
    let (mut back, mut there) = soon(theirs.accept_bi()).await.unwrap();
    let mut beginning = [0; 11];
    soon(there.read_exact(&mut beginning)).await.unwrap();
    send.reset(30);
    for _ in 0..2 {
        let error = soon(there.read(&mut beginning)).await.unwrap_err();
        assert_eq!((error.kind(), session(&error)), (ErrorKind::ConnectionReset, &SessionError::Reset(30)));
    }
    recv.stop(31);
    let error = loop {
        match soon(back.write(&[0; 1000])).await {
            Ok(_) => tokio::task::yield_now().await,
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), session(&error)), (ErrorKind::ConnectionReset, &SessionError::Stopped(31)));
}
