//! Datagrams of exchanges, over the loopback: how they come and go, and how they end.

#![cfg(all(feature = "h3", feature = "self-signed"))]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod ends;

use bytes::Bytes;
use quickset::h3::{
    Abort, Call, Client, Content, ContentSender, ErrorCode, ExchangeDatagrams, HttpError, Request, Response,
    Server,
};

use ends::{ends, everything, soon};

/// One end of a tunnel.
struct End {
    out: ContentSender,
    content: Content,
    datagrams: ExchangeDatagrams,
}

/// Two of them, and what keeps their connection.
struct Tunnel {
    far: End,
    near: End,
    client: Client,
    _server: Server,
}

/// Near is the server, or the client.
async fn tunnel(by_client: bool) -> Tunnel {
    let (client, theirs, _) = ends().await;
    let mut server = Server::new(&theirs, everything()).unwrap();
    soon(client.settings()).await.unwrap();
    let connect = Request::extended("echo", "localhost", "/");
    let (out, answer) = soon(client.request(&connect)).await.unwrap();
    let Call { content, reply, .. } = soon(server.accept()).await.unwrap();
    let theirs = End::new(reply.respond(&Response::new(200)).unwrap(), content);
    let (_, content) = soon(answer.response()).await.unwrap();
    let ours = End::new(out, content);
    let (near, far) = if by_client { (ours, theirs) } else { (theirs, ours) };
    Tunnel { far, near, client, _server: server }
}

impl End {
    fn new(out: ContentSender, content: Content) -> Self {
        let datagrams = content.datagrams();
        Self { out, content, datagrams }
    }
}

/// What becomes of two that wait for datagrams, behind what `act` does meanwhile.
async fn waiting(datagrams: &ExchangeDatagrams, act: impl FnOnce()) -> Result<Option<Bytes>, HttpError> {
    let other = datagrams.clone();
    let other = tokio::spawn(async move { other.next().await });
    // It waits by then.
    tokio::task::yield_now().await;
    let (first, ()) = soon(async { tokio::join!(datagrams.next(), async { act() }) }).await;
    assert_eq!(soon(other).await.unwrap(), first);
    assert_eq!(soon(datagrams.next()).await, first, "it stays so");
    first
}

#[tokio::test]
async fn who_waits_for_datagrams_hears_of_the_end_of_a_stream_that_nobody_reads() {
    for by_client in [false, true] {
        for unread in [false, true] {
            let Tunnel { mut far, mut near, .. } = tunnel(by_client).await;
            if unread {
                soon(far.out.send("unread".into())).await.unwrap();
                // On the loopback nothing overtakes: it is there with this.
                far.datagrams.send(b"mark").unwrap();
                assert_eq!(soon(near.datagrams.next()).await, Ok(Some("mark".into())));
            }
            let out = far.out;
            assert_eq!(waiting(&near.datagrams, || out.finish().unwrap()).await, Ok(None));
            let over = far.datagrams.send(b"late").unwrap_err();
            assert!(matches!(over, HttpError::Refused(_)), "{over:?}");
            if unread {
                assert_eq!(soon(near.content.next()).await, Ok(Some("unread".into())));
            }
            assert_eq!(soon(near.content.next()).await, Ok(None));
            // The other direction is open yet.
            near.datagrams.send(b"back").unwrap();
            assert_eq!(soon(far.datagrams.next()).await, Ok(Some("back".into())));
        }
    }
}

#[tokio::test]
async fn datagrams_end_with_a_tunnel_that_the_peer_gives_up() {
    for by_client in [false, true] {
        let Tunnel { far, mut near, .. } = tunnel(by_client).await;
        let reset = HttpError::Aborted(Abort::Reset(ErrorCode::H3_CONNECT_ERROR.0));
        let out = far.out;
        let told = waiting(&near.datagrams, || out.cancel(ErrorCode::H3_CONNECT_ERROR)).await;
        assert_eq!(told, Err(reset.clone()));
        assert_eq!(soon(near.content.next()).await, Err(reset));
    }
}

/// The reader of the content finds the end first.
#[tokio::test]
async fn datagrams_end_with_what_the_reader_of_the_content_was_told() {
    for by_client in [false, true] {
        let Tunnel { far, mut near, .. } = tunnel(by_client).await;
        let reset = HttpError::Aborted(Abort::Reset(ErrorCode::H3_CONNECT_ERROR.0));
        far.out.cancel(ErrorCode::H3_CONNECT_ERROR);
        assert_eq!(soon(near.content.next()).await, Err(reset.clone()));
        assert_eq!(soon(near.datagrams.next()).await, Err(reset));
    }
}

#[tokio::test]
async fn datagrams_end_when_we_want_no_more() {
    for by_client in [false, true] {
        let Tunnel { far: _far, near: End { out: _out, content, datagrams }, .. } = tunnel(by_client).await;
        assert_eq!(waiting(&datagrams, || content.stop(ErrorCode::H3_NO_ERROR)).await, Ok(None));

        let Tunnel { far: _far, near: End { out, content: _content, datagrams }, .. } =
            tunnel(by_client).await;
        assert_eq!(waiting(&datagrams, || out.cancel(ErrorCode::H3_REQUEST_CANCELLED)).await, Ok(None));

        let Tunnel { far: _far, near, client, .. } = tunnel(by_client).await;
        let told = waiting(&near.datagrams, || client.connection().close(0x100, b"")).await;
        assert!(matches!(told, Err(HttpError::Closed(_))), "{told:?}");
    }
}

/// With the end in one packet: it is found by who waits for datagrams, or by who reads the content.
#[tokio::test]
async fn datagrams_that_came_before_the_end_are_given_out() {
    for by_client in [false, true] {
        for by_content in [false, true] {
            let Tunnel { far, mut near, .. } = tunnel(by_client).await;
            let send = async {
                for n in 0..5 {
                    far.datagrams.send(&[n]).unwrap();
                }
                far.out.finish().unwrap();
            };
            let first = async {
                if by_content {
                    assert_eq!(near.content.next().await, Ok(None));
                }
                near.datagrams.next().await
            };
            let (first, ()) = soon(async { tokio::join!(first, send) }).await;
            assert_eq!(first, Ok(Some(Bytes::from(vec![0]))));
            for n in 1..5 {
                assert_eq!(soon(near.datagrams.next()).await, Ok(Some(Bytes::from(vec![n]))));
            }
            assert_eq!(soon(near.datagrams.next()).await, Ok(None));
        }
    }
}

/// One task for both, as a proxy has it.
#[tokio::test]
async fn datagrams_and_content_are_awaited_side_by_side() {
    let Tunnel { far, near: End { mut out, mut content, datagrams }, _server, .. } = tunnel(false).await;
    let max = datagrams.max_len().unwrap();
    let echo = tokio::spawn(async move {
        loop {
            tokio::select! {
                datagram = datagrams.next() => match datagram.unwrap() {
                    Some(payload) => datagrams.send(&payload).unwrap(),
                    None => break,
                },
                data = content.next() => match data.unwrap() {
                    Some(data) => out.send(data).await.unwrap(),
                    None => break,
                },
            }
        }
        out.finish().unwrap();
    });
    let End { mut out, mut content, datagrams } = far;
    let large = Bytes::from(vec![7; max]);
    for _ in 0..20 {
        datagrams.send(&large).unwrap();
        out.send("capsule".into()).await.unwrap();
        assert_eq!(soon(datagrams.next()).await, Ok(Some(large.clone())));
        assert_eq!(soon(content.next()).await, Ok(Some("capsule".into())));
    }
    assert!(datagrams.send(&[large, "x".into()].concat()).is_err());
    out.finish().unwrap();
    soon(echo).await.unwrap();
    assert_eq!(soon(content.next()).await, Ok(None));
}
