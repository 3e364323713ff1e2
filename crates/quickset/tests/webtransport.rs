//! WebTransport over the loopback: sessions between our own ends, and with Chromium.

#![cfg(all(feature = "h3", feature = "self-signed"))]
#![expect(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

#[path = "../examples/webtransport/echo.rs"]
mod echo;
#[path = "../examples/webtransport/page.rs"]
mod page;

use std::future::Future;
use std::process::Stdio;
use std::time::Duration;

use bytes::Bytes;
use quickset::h3::webtransport::{Session, SessionEnding, SessionError};
use quickset::h3::{
    self, Client, Config, ErrorCode, HttpError, Priority, Request, Response, Server, VerbRefusal,
};
use quickset::{Class, ClientConfig, Connection, Endpoint, Identity, ServerConfig, Trust};
use tokio::net::TcpListener;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;

async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future).await.expect("it does not take that long")
}

fn config() -> Config {
    Config { webtransport: 1, ..Config::default() }
}

fn request() -> Request {
    Request::extended("webtransport", "localhost", "/here")
}

async fn connections() -> (Connection, Connection) {
    let identity = Identity::self_signed(["localhost"]).unwrap();
    let trust = Trust::pinned(identity.fingerprint());
    let server =
        Endpoint::server(([127, 0, 0, 1], 0).into(), &ServerConfig::new(identity, &[h3::ALPN]).unwrap())
            .unwrap();
    let tls = ClientConfig::new(trust, &[h3::ALPN]).unwrap();
    let client = Endpoint::client().unwrap();
    let ours = soon(client.connect(server.local_addr(), "localhost", &tls)).await.unwrap();
    let theirs = soon(server.accept()).await.unwrap();
    (ours, theirs)
}

struct Ends {
    client: Client,
    server: Server,
    ours: Session,
    theirs: Session,
}

async fn session() -> Ends {
    let (ours, theirs) = connections().await;
    let client = Client::new(&ours, config()).unwrap();
    let mut server = Server::new(&theirs, config()).unwrap();
    let request = request();
    let accept = async {
        let call = server.accept().await.unwrap();
        assert!(call.is_session());
        call.into_session(&Response::new(200)).unwrap()
    };
    let (ours, theirs) = soon(async { tokio::join!(client.session(&request), accept) }).await;
    assert_eq!(theirs.request().path.as_deref(), Some(&b"/here"[..]));
    Ends { client, server, ours: ours.unwrap(), theirs }
}

/// draft-ietf-webtrans-http3 §3.3.
#[tokio::test]
async fn a_session_is_in_an_application_protocol_that_both_speak() {
    // What the client offers, what the server answers, and what becomes of it.
    type Case<'a> = (&'a [&'a str], Option<&'a str>, Result<Option<&'a str>, &'a str>);
    let cases: [Case<'_>; 4] = [
        (&["chat/2", "chat/1"], Some("chat/1"), Ok(Some("chat/1"))),
        (&["chat/2"], None, Ok(None)),
        (&[], Some("chat/1"), Ok(None)),
        (&["chat/2"], Some("chat/1"), Err("chat/1")),
    ];
    for (offered, chosen, expected) in cases {
        let (ours, theirs) = connections().await;
        let client = Client::new(&ours, config()).unwrap();
        let mut server = Server::new(&theirs, config()).unwrap();
        let request = request().offering(offered).unwrap();
        let accept = async {
            let call = server.accept().await.unwrap();
            assert_eq!(call.request.protocols(), offered);
            let response = Response::new(200);
            let response = chosen.map_or(Ok(response.clone()), |name| response.choosing(name)).unwrap();
            if expected.is_err() {
                assert_eq!(
                    call.into_session(&response).err(),
                    Some(SessionError::NotOffered("chat/1".into()))
                );
                return None;
            }
            Some(call.into_session(&response).unwrap())
        };
        let (near, far) = soon(async { tokio::join!(client.session(&request), accept) }).await;
        match (near, expected) {
            (Ok(near), Ok(expected)) => {
                assert_eq!(near.protocol(), expected);
                assert_eq!(far.unwrap().protocol(), expected);
            }
            // The server's call is gone, and its client hears of that.
            (Err(SessionError::Http(_)), Err(_)) => {}
            (near, _) => panic!("{offered:?} {chosen:?}: {near:?}"),
        }
    }
}

/// A server that chooses what was not offered loses the session (WT_ALPN_ERROR); here one that answers as if
/// it were any request.
#[tokio::test]
async fn a_choice_that_was_not_offered_ends_the_session() {
    let (ours, theirs) = connections().await;
    let client = Client::new(&ours, config()).unwrap();
    let mut server = Server::new(&theirs, config()).unwrap();
    let offering = request().offering(&["chat/2"]).unwrap();
    let answer = async {
        let call = server.accept().await.unwrap();
        let response = Response::new(200).choosing("chat/1").unwrap();
        (call.reply.respond(&response).unwrap(), call.content)
    };
    let (near, kept) = soon(async { tokio::join!(client.session(&offering), answer) }).await;
    assert_eq!(near.map(drop), Err(SessionError::NotOffered("chat/1".into())));
    // Another may begin: nothing of the first is left.
    drop(kept);
    let accept = async { server.accept().await.unwrap().into_session(&Response::new(200)) };
    let (near, far) = soon(async { tokio::join!(client.session(&offering), accept) }).await;
    assert_eq!((near.unwrap().protocol(), far.unwrap().protocol()), (None, None));
}

/// Bytes of which each place is known.
fn pattern(len: usize) -> Bytes {
    (0..=250).cycle().take(len).collect()
}

#[tokio::test]
async fn streams_go_both_ways_by_both_sides() {
    let ends = session().await;
    let sides = [(&ends.ours, &ends.theirs), (&ends.theirs, &ends.ours)];
    for (a, b) in sides {
        let (mut send, mut recv) = soon(a.open_bi()).await.unwrap();
        // More than a stream's window: the writer waits for the reader.
        let there = async {
            send.send(pattern(3_000_000)).await.unwrap();
            send.finish().unwrap();
        };
        let back = async {
            let (mut send, mut recv) = b.accept_bi().await.unwrap();
            let all = recv.read_to_end(3_000_000).await.unwrap();
            send.send(all.into()).await.unwrap();
            send.finish().unwrap();
        };
        let (.., all) = soon(async { tokio::join!(there, back, recv.read_to_end(3_000_000)) }).await;
        assert!(all.unwrap() == pattern(3_000_000));

        let mut send = soon(a.open_uni()).await.unwrap();
        soon(send.send("one way".into())).await.unwrap();
        send.finish().unwrap();
        let mut recv = soon(b.accept_uni()).await.unwrap();
        assert_eq!(soon(recv.read_to_end(99)).await.unwrap(), b"one way");
    }
}

#[tokio::test]
async fn streams_of_other_priorities_arrive_and_those_of_sessions_that_are_over_have_none() {
    let ends = session().await;
    let priority = Priority::new(0, false).with_classes(&[Class::new("sound", 2.0)]).unwrap();
    let mut bulk = soon(ends.theirs.open_uni()).await.unwrap();
    let (mut urgent, _recv) = soon(ends.theirs.open_bi()).await.unwrap();
    bulk.set_priority(&Priority::new(7, true)).unwrap();
    urgent.set_priority(&priority).unwrap();
    // The one that goes behind all others waits for its reader, who comes last.
    let make = async {
        bulk.send(pattern(3_000_000)).await.unwrap();
        bulk.finish().unwrap();
    };
    let make_urgent = async {
        urgent.send("now".into()).await.unwrap();
        urgent.set_priority(&Priority::default()).unwrap();
        urgent.send("adays".into()).await.unwrap();
        urgent
    };
    let take = async {
        let (_send, mut recv) = ends.ours.accept_bi().await.unwrap();
        let mut first = Vec::new();
        while first.len() < 8 {
            first.extend_from_slice(&recv.next().await.unwrap().unwrap());
        }
        assert_eq!(first, b"nowadays");
        ends.ours.accept_uni().await.unwrap().read_to_end(3_000_000).await.unwrap()
    };
    let ((), urgent, all) = soon(async { tokio::join!(make, make_urgent, take) }).await;
    assert!(all == pattern(3_000_000));
    ends.theirs.close(7, "over");
    let over = SessionError::Over(SessionEnding { code: 7, reason: "over".into() });
    assert_eq!(urgent.set_priority(&priority), Err(over));
}

/// Nobody will ever take its streams, of which each would be kept.
#[tokio::test]
async fn streams_of_a_session_that_was_answered_like_any_request_are_refused() {
    let (ours, theirs) = connections().await;
    let client = Client::new(&ours, config()).unwrap();
    let mut server = Server::new(&theirs, config()).unwrap();
    let accept = async {
        let call = server.accept().await.unwrap();
        (call.reply.respond(&Response::new(200)).unwrap(), call.content)
    };
    let request = request();
    let (session, out) = soon(async { tokio::join!(client.session(&request), accept) }).await;
    let session = session.unwrap();
    let mut send = soon(session.open_uni()).await.unwrap();
    let refused = soon(async {
        loop {
            if let Err(error) = send.send("x".into()).await {
                break error;
            }
            tokio::task::yield_now().await;
        }
    });
    let code = ErrorCode::WT_BUFFERED_STREAM_REJECTED.0;
    assert_eq!(refused.await, SessionError::Http(HttpError::Stopped(code)));
    drop((session, out));
}

#[tokio::test]
async fn more_streams_than_may_be_open_at_a_time_are_opened_one_after_the_other() {
    let ends = session().await;
    let make = async {
        for i in 0..300_u32 {
            let mut send = ends.ours.open_uni().await.unwrap();
            send.send(i.to_be_bytes().to_vec().into()).await.unwrap();
            send.finish().unwrap();
        }
    };
    let take = async {
        let mut sum = 0;
        for _ in 0..300 {
            let number = ends.theirs.accept_uni().await.unwrap().read_to_end(4).await.unwrap();
            sum += u32::from_be_bytes(number.try_into().unwrap());
        }
        sum
    };
    let ((), sum) = soon(async { tokio::join!(make, take) }).await;
    assert_eq!(sum, 300 * 299 / 2);
}

#[tokio::test]
async fn datagrams_go_both_ways_and_say_how_large_they_may_be() {
    let ends = session().await;
    for (a, b) in [(&ends.ours, &ends.theirs), (&ends.theirs, &ends.ours)] {
        let max = a.max_datagram().unwrap();
        a.send_datagram(&pattern(max)).unwrap();
        assert_eq!(soon(b.next_datagram()).await.unwrap(), pattern(max));
        let error = a.send_datagram(&pattern(max + 1)).unwrap_err();
        assert_eq!(error, SessionError::TooLarge(max));
        assert_eq!(error.to_string(), format!("a datagram of this session has at most {max} bytes"));
    }
}

#[tokio::test]
async fn codes_of_streams_reach_the_other_side() {
    let ends = session().await;
    let (mut send, recv) = soon(ends.ours.open_bi()).await.unwrap();
    soon(send.send("a beginning".into())).await.unwrap();
    let (mut back, mut there) = soon(ends.theirs.accept_bi()).await.unwrap();
    assert_eq!(soon(there.next()).await.unwrap().unwrap(), "a beginning");
    send.reset(30);
    assert_eq!(soon(there.next()).await, Err(SessionError::Reset(30)));
    assert_eq!(soon(there.next()).await, Err(SessionError::Reset(30)), "it never looks complete");
    recv.stop(u32::MAX);
    let stopped = async {
        loop {
            if let Err(error) = back.send(pattern(1000)).await {
                return error;
            }
            tokio::task::yield_now().await;
        }
    };
    assert_eq!(soon(stopped).await, SessionError::Stopped(u32::MAX));
}

/// A peer that gives up both halves at once says so before the stream's header is read.
#[tokio::test]
async fn who_writes_to_a_stream_that_was_given_up_at_once_is_told_so() {
    let ends = session().await;
    for (a, b) in [(&ends.ours, &ends.theirs), (&ends.theirs, &ends.ours)] {
        let (mut send, recv) = soon(a.open_bi()).await.unwrap();
        soon(send.send("a beginning".into())).await.unwrap();
        // Nothing has left yet: all of it goes in one flight.
        recv.stop(31);
        send.reset(30);
        let (mut back, mut there) = soon(b.accept_bi()).await.unwrap();
        assert_eq!(soon(back.send("an answer".into())).await, Err(SessionError::Stopped(31)));
        let broken = async {
            loop {
                if let Err(error) = there.next().await {
                    return error;
                }
            }
        };
        assert_eq!(soon(broken).await, SessionError::Reset(30));
        assert_eq!(soon(back.send("again".into())).await, Err(SessionError::Stopped(31)));
        assert_eq!(back.finish(), Err(SessionError::Stopped(31)));
    }
}

#[tokio::test]
async fn a_session_ends_with_words_for_everybody_who_waits() {
    for by_client in [true, false] {
        let ends = session().await;
        let (a, b) = if by_client { (&ends.ours, &ends.theirs) } else { (&ends.theirs, &ends.ours) };
        let (mut send, _recv) = soon(a.open_bi()).await.unwrap();
        soon(send.send("hello".into())).await.unwrap();
        let (_back, mut there) = soon(b.accept_bi()).await.unwrap();
        assert_eq!(soon(there.next()).await.unwrap().unwrap(), "hello");
        let ending = SessionEnding { code: 7, reason: "that was all".into() };
        let waiting = async {
            let (end, bi, uni, datagram, more, drain) = tokio::join!(
                b.closed(),
                b.accept_bi(),
                b.accept_uni(),
                b.next_datagram(),
                there.next(),
                b.draining()
            );
            assert_eq!(end, Ok(ending.clone()));
            let over = SessionError::Over(ending.clone());
            assert_eq!(bi.unwrap_err(), over);
            assert_eq!(uni.unwrap_err(), over);
            assert_eq!(datagram.unwrap_err(), over);
            assert!(matches!(more.unwrap_err(), SessionError::Over(_) | SessionError::Gone));
            assert_eq!(drain.unwrap_err(), over);
            assert_eq!(b.open_bi().await.unwrap_err(), over);
            assert_eq!(b.send_datagram(b"x").unwrap_err(), over);
            assert_eq!(over.to_string(), "the session is over (code 7: that was all)");
        };
        let close = async {
            tokio::task::yield_now().await;
            a.close(7, "that was all");
        };
        soon(async { tokio::join!(waiting, close) }).await;
        assert_eq!(soon(a.closed()).await, Ok(ending.clone()));
        assert_eq!(soon(send.send("x".into())).await, Err(SessionError::Over(ending)));
        // Nothing keeps the connection from a goodbye; another session may follow.
        soon(ends.client.shutdown()).await;
    }
}

/// Whoever asks first asks behind the end.
#[tokio::test]
async fn a_session_that_ended_before_anybody_asked_is_over() {
    for by_client in [true, false] {
        let ends = session().await;
        let (a, b) = if by_client { (&ends.ours, &ends.theirs) } else { (&ends.theirs, &ends.ours) };
        a.close(7, "early");
        // Many round trips, in which it arrives.
        for _ in 0..20 {
            a.connection().round_trip().await;
        }
        let over = SessionError::Over(SessionEnding { code: 7, reason: "early".into() });
        assert_eq!(soon(b.next_datagram()).await, Err(over.clone()));
        assert_eq!(soon(b.accept_uni()).await.unwrap_err(), over);
        assert_eq!(soon(b.closed()).await, Ok(SessionEnding { code: 7, reason: "early".into() }));
    }
}

#[tokio::test]
async fn one_session_at_a_time_and_another_behind_it() {
    let mut ends = session().await;
    let second = soon(ends.client.session(&request())).await;
    assert_eq!(second.unwrap_err(), HttpError::Refused(VerbRefusal::TooManySessions).into());
    // Its handles are its end.
    drop(ends.ours);
    assert_eq!(soon(ends.theirs.closed()).await, Ok(SessionEnding::default()));
    let again = request();
    let accept = async {
        let call = ends.server.accept().await.unwrap();
        call.reply.end(&Response::new(403)).unwrap();
    };
    let client = &ends.client;
    let begin = async {
        // Until the end has come back there is one yet.
        loop {
            match client.session(&again).await {
                Err(SessionError::Http(HttpError::Refused(VerbRefusal::TooManySessions))) => {
                    client.connection().round_trip().await;
                }
                other => return other,
            }
        }
    };
    let (declined, ()) = soon(async { tokio::join!(begin, accept) }).await;
    let declined = declined.unwrap_err();
    assert_eq!(declined, SessionError::Declined(403));
    assert_eq!(declined.to_string(), "the server answered with status 403 and not with a session");
}

#[tokio::test]
async fn drain_asks_and_ends_nothing() {
    let ends = session().await;
    ends.theirs.drain().unwrap();
    soon(ends.ours.draining()).await.unwrap();
    ends.ours.send_datagram(b"still").unwrap();
    assert_eq!(soon(ends.theirs.next_datagram()).await.unwrap(), "still");
}

#[tokio::test]
async fn who_offers_none_has_no_sessions() {
    let (ours, theirs) = connections().await;
    let client = Client::new(&ours, config()).unwrap();
    let _server = Server::new(&theirs, Config::default()).unwrap();
    let error = soon(client.session(&request())).await.unwrap_err();
    assert_eq!(error, HttpError::Refused(VerbRefusal::Unsupported).into());
    let error = soon(client.session(&Request::new("GET", "localhost", "/"))).await.unwrap_err();
    assert_eq!(error, SessionError::NoSession);
}

/// The page of the example, in Chromium.
#[tokio::test]
async fn chromium_has_sessions_with_us() {
    check_page(|url, _| visit(url)).await;
}

/// And in Firefox.
#[tokio::test]
#[ignore = "cargo xtask interop --case firefox"]
async fn firefox_has_sessions_with_us() {
    check_page(async |url, mut shown| {
        let mut firefox = firefox(&url);
        let text = shown.recv().await;
        firefox.kill().await.unwrap();
        text
    })
    .await;
}

/// Has a browser, if there is one, visit the page of the example by its address, and holds what the page
/// shows then, which it also says itself, against what it should.
async fn check_page<V>(visit: impl FnOnce(String, mpsc::UnboundedReceiver<String>) -> V)
where
    V: Future<Output = Option<String>>,
{
    let identity = Identity::for_browsers(["localhost"]).unwrap();
    let hash = identity.certificate_hash();
    let local = (std::net::Ipv4Addr::LOCALHOST, 0).into();
    let server = Endpoint::server(local, &ServerConfig::new(identity, &[h3::ALPN]).unwrap()).unwrap();
    let listener = TcpListener::bind(local).await.unwrap();
    let url = format!("http://localhost:{}/", listener.local_addr().unwrap().port());
    let (show, shown) = mpsc::unbounded_channel();
    let page = page::of(server.local_addr().port(), &hash);
    tokio::spawn(page::serve(listener, page, move |text| drop(show.send(text))));
    let (tell, mut endings) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(connection) = server.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                echo::serve(&connection, |path, ending| {
                    let _ = tell.send((path.to_owned(), ending.clone()));
                })
                .await
            });
        }
    });

    let Some(dom) = visit(url, shown).await else { return };
    let lines = [
        "bidirectional: both ways",
        "large: 1000000 bytes, the same",
        "unidirectional: one way",
        "datagrams: /echo/one hello, /echo/two hello",
        "closed by the page: 7 that was all",
        "closed by the server: 42 as you say",
        "no session: declined",
        "all done",
    ];
    for line in lines {
        assert!(dom.lines().any(|l| l.ends_with(line)), "{line:?} is not in\n{dom}");
    }
    let mut ended = [soon(endings.recv()).await.unwrap(), soon(endings.recv()).await.unwrap()];
    ended.sort_by(|a, b| a.0.cmp(&b.0));
    let ending = |code, reason: &str| SessionEnding { code, reason: reason.into() };
    assert_eq!(ended[0], ("/echo/one".into(), ending(7, "that was all")));
    assert_eq!(ended[1], ("/echo/two".into(), ending(42, "as you say")));
}

/// Firefox, on its way to a page, with a profile of its own.
fn firefox(url: &str) -> Child {
    let profile =
        std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("firefox-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&profile);
    std::fs::create_dir_all(&profile).unwrap();
    // Nothing of its own that needs a network.
    let quiet = ["browser.shell.checkDefaultBrowser", "datareporting.policy.dataSubmissionEnabled"];
    let settings = quiet.map(|name| format!("user_pref({name:?}, false);\n")).concat();
    std::fs::write(profile.join("user.js"), settings).unwrap();
    Command::new("firefox-esr")
        .args(["--headless", "--no-remote", "--profile"])
        .arg(profile)
        .arg(url)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("cargo xtask interop installs Firefox")
}

/// What Chromium has made of a page once it is loaded, if there is Chromium.
async fn visit(url: String) -> Option<String> {
    let profile = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("webtransport-{}", std::process::id()));
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-component-update"])
        .args(["--disable-background-networking", "--timeout=40000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(url)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output =
        tokio::time::timeout(Duration::from_secs(60), output).await.expect("Chromium ends by itself");
    let _ = std::fs::remove_dir_all(profile);
    match output {
        Ok(output) => Some(String::from_utf8_lossy(&output.stdout).into_owned()),
        Err(error) => {
            eprintln!("skipped: Chromium cannot be run ({error}); apt-get install chromium");
            None
        }
    }
}
