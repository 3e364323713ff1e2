//! `quickset demo --web` as browsers meet it: the page, the screens of all modes, and clients that do not
//! behave.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

/// However busy the machine is.
const LIMIT: Duration = Duration::from_secs(90);
/// The test desktop's sides in pixels.
const WIDTH: usize = 1280;
const HEIGHT: usize = 720;
const MODES: [&str; 4] = ["total", "partial", "partial+fec", "latest"];

/// A demonstration, and its end when this goes.
struct Demo {
    child: Child,
    port: u16,
}

impl Demo {
    /// A pace that a test's build on a busy machine keeps up with, unless `words` say otherwise.
    fn start(words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args(["demo", "--web", "--pace", "10"])
            .args(words)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.strip_prefix("open http://localhost:").and_then(|rest| rest.strip_suffix("/\n"));
        let port = port.unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
        Self { child, port }
    }

    /// Sends a request as it is; what comes back until the end.
    async fn ask(&self, request: &str) -> String {
        let ask = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        tokio::time::timeout(LIMIT, ask).await.unwrap()
    }

    async fn get(&self, path: &str, host: &str) -> String {
        self.ask(&format!("GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n")).await
    }

    /// Opens a WebSocket for a page that comes from `origin`, or says why not.
    async fn socket(&self, host: &str, origin: Option<&str>) -> Result<WebSocketStream<TcpStream>, u16> {
        let mut request = format!("ws://127.0.0.1:{}/live", self.port).into_client_request().unwrap();
        request.headers_mut().insert("host", host.parse().unwrap());
        if let Some(origin) = origin {
            request.headers_mut().insert("origin", origin.parse().unwrap());
        }
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        match tokio::time::timeout(LIMIT, tokio_tungstenite::client_async(request, stream)).await.unwrap() {
            Ok((socket, _)) => Ok(socket),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    async fn tab(&self) -> DemoTab {
        let host = format!("localhost:{}", self.port);
        let socket = self.socket(&host, Some(&format!("http://{host}"))).await.unwrap();
        let mut tab = DemoTab { socket, greeting: Value::Null, pictures: Vec::new(), frames: [0; 4] };
        let Arrival::Text(greeting) = tab.next().await else { panic!("a frame before the greeting") };
        assert_eq!((&greeting["width"], &greeting["height"]), (&WIDTH.into(), &HEIGHT.into()));
        tab.pictures = vec![vec![0; WIDTH * HEIGHT]; 4];
        tab.greeting = greeting;
        tab
    }

    fn interrupt(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    }

    /// The exit code, once it has ended by itself.
    fn code(&mut self) -> Option<i32> {
        let limit = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < limit, "it goes on");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A page that has the pictures as they came, and acknowledges frames only where a test does.
struct DemoTab {
    socket: WebSocketStream<TcpStream>,
    greeting: Value,
    pictures: Vec<Vec<u8>>,
    /// Frames with something of each mode.
    frames: [u64; 4],
}

enum Arrival {
    Text(Value),
    Frame,
    End(Option<(CloseCode, String)>),
}

impl DemoTab {
    async fn next(&mut self) -> Arrival {
        match tokio::time::timeout(LIMIT, self.socket.next()).await.expect("nothing comes") {
            Some(Ok(Message::Text(text))) => Arrival::Text(serde_json::from_str(&text).unwrap()),
            Some(Ok(Message::Binary(frame))) => {
                self.draw(&frame);
                Arrival::Frame
            }
            Some(Ok(Message::Close(why))) => {
                Arrival::End(why.map(|why| (why.code, why.reason.as_str().to_owned())))
            }
            None | Some(Err(_)) => Arrival::End(None),
            Some(Ok(other)) => panic!("{other:?}"),
        }
    }

    /// Takes over what a frame says, by its description.
    fn draw(&mut self, frame: &[u8]) {
        let (cell, width) = (16, WIDTH);
        let mut rest = frame;
        while !rest.is_empty() {
            let (mode, cells) = (usize::from(rest[0]), usize::from(u16::from_be_bytes([rest[1], rest[2]])));
            assert!(cells > 0, "nothing of a mode is not told");
            rest = &rest[3..];
            for _ in 0..cells {
                let at = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
                let (x, y) = (at % (width / cell) * cell, at / (width / cell) * cell);
                for (line, pixels) in rest[2..2 + cell * cell].chunks(cell).enumerate() {
                    self.pictures[mode][(y + line) * width + x..][..cell].copy_from_slice(pixels);
                }
                rest = &rest[2 + cell * cell..];
            }
            self.frames[mode] += 1;
        }
    }

    async fn say(&mut self, words: &str) {
        // Who has been shown out may find nobody any more.
        let _ = self.socket.send(Message::text(words)).await;
    }

    /// Goes on as a page does until what came is enough.
    async fn until(&mut self, mut enough: impl FnMut(&Self, Option<&Value>) -> bool) {
        let limit = Instant::now() + LIMIT;
        loop {
            let told = match self.next().await {
                Arrival::Frame => {
                    self.say("drawn").await;
                    None
                }
                Arrival::Text(told) => Some(told),
                Arrival::End(why) => panic!("it ends: {why:?}"),
            };
            if enough(self, told.as_ref()) {
                return;
            }
            assert!(Instant::now() < limit, "frames {:?}, last {told:?}", self.frames);
        }
    }

    /// Why it is shown out.
    async fn end(&mut self) -> Option<(CloseCode, String)> {
        let limit = Instant::now() + LIMIT;
        loop {
            if let Arrival::End(why) = self.next().await {
                return why;
            }
            assert!(Instant::now() < limit, "it goes on");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_sees_every_mode_as_it_is_and_what_it_is_told_of_them() {
    let demo = Demo::start(&["--loss", "5%", "--rtt", "80ms"]);
    // It runs already when the first page comes, and when the second does.
    let mut tab = demo.tab().await;
    let (mut differ, mut figures) = (false, Value::Null);
    tab.until(|tab, told| {
        differ |= tab.pictures[0] != tab.pictures[3];
        figures = told.cloned().unwrap_or(figures.take());
        let has_figures = figures["modes"].as_array().is_some_and(|modes| {
            modes
                .iter()
                .all(|mode| mode["updates"].as_u64() > Some(10) && mode["messages"].as_u64() > Some(900))
        });
        differ && has_figures && tab.frames.iter().all(|frames| *frames > 20)
    })
    .await;

    let names =
        |modes: &Value| modes.as_array().unwrap().iter().map(|mode| mode["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(&tab.greeting["modes"]), MODES);
    assert_eq!(tab.greeting["link"]["rate"], "100mbit");
    assert_eq!(tab.greeting["link"]["rtt_ms"], 80.0);
    assert_eq!(tab.greeting["palette"].as_array().unwrap().len(), 256);
    assert_eq!(figures["loss"], "5%");
    for (mode, name) in figures["modes"].as_array().unwrap().iter().zip(MODES) {
        assert_eq!(mode["mode"], name);
        let [p50, p99, blocked] = ["whole_update_p50_ms", "whole_update_p99_ms", "blocked_share"]
            .map(|measure| mode[measure].as_f64().unwrap());
        assert!(p99 >= p50 && p50 >= 40.0, "faster than the link: {mode}");
        assert!((0.0..=1.0).contains(&blocked), "{mode}");
        assert!(name != "latest" || blocked.abs() < f64::EPSILON, "nothing waits without fences: {mode}");
    }
    // Of a hundred packets five are lost, and in total order most messages wait for one of them.
    assert!(figures["modes"][0]["blocked_share"].as_f64() > Some(0.3), "{figures}");
    assert!(!figures["modes"][0]["last_stall"].is_null(), "{figures}");

    // Who comes later has the whole picture at once: that of the desktop as somebody else has it.
    let mut late = demo.tab().await;
    while !matches!(late.next().await, Arrival::Frame) {}
    let black = |picture: &[u8]| picture.iter().all(|pixel| *pixel == 0);
    assert!(late.pictures.iter().all(|picture| !black(picture)));
    assert_eq!(late.frames, [1; 4]);
    let same = late.pictures[0].iter().zip(&tab.pictures[0]).filter(|(a, b)| a == b).count();
    assert!(same > late.pictures[0].len() / 2, "most of it does not move: {same}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_lost_is_changed_by_a_page_for_all() {
    let demo = Demo::start(&["--loss", "0%", "--fec", "none"]);
    let (mut one, mut other) = (demo.tab().await, demo.tab().await);
    assert_eq!(one.greeting["modes"].as_array().unwrap().len(), 3, "nothing is repaired");
    let choices = one.greeting["losses"].as_array().unwrap();
    assert!(choices.contains(&"none".into()) && choices.contains(&"10%".into()), "{choices:?}");
    other.until(|_, told| told.is_some_and(|told| told["loss"] == "none")).await;
    one.say("loss 10%").await;
    other
        .until(|_, told| {
            let blocked = |told: &Value| told["modes"][0]["blocked_share"].as_f64().unwrap();
            told.is_some_and(|told| told["loss"] == "10%" && blocked(told) > 0.2)
        })
        .await;
    // Nobody gets it to lose everything, or to open a file.
    for wish in ["loss 100%", "loss recorded:/etc/passwd", "loss "] {
        let mut tab = demo.tab().await;
        tab.say(wish).await;
        assert_eq!(tab.end().await.map(|why| why.0), Some(CloseCode::Policy), "{wish}");
    }
    other.until(|_, told| told.is_some_and(|told| told["loss"] == "10%")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_reads_or_draws_nothing_loses_frames_and_holds_nobody_up() {
    let demo = Demo::start(&[]);
    let mut good = demo.tab().await;
    // It never reads, so that what is sent to it waits in the socket and then at the demonstration.
    let deaf = demo.tab().await;
    // It reads, and never says that it has drawn.
    let mut slow = demo.tab().await;
    good.until(|tab, _| tab.frames.iter().all(|frames| *frames > 30)).await;
    let mut frames = 0;
    while let Ok(arrival) = tokio::time::timeout(Duration::from_secs(1), slow.next()).await {
        frames += match arrival {
            Arrival::Frame => 1,
            Arrival::Text(_) => 0,
            Arrival::End(why) => panic!("{why:?}"),
        };
    }
    assert_eq!(frames, 2, "what has not been drawn is not sent more of");
    // Once it draws again it goes on, as everybody does.
    slow.say("drawn").await;
    slow.say("drawn").await;
    let before = slow.frames;
    slow.until(|tab, _| tab.frames.iter().zip(before).all(|(now, before)| *now > before + 5)).await;
    let before = good.frames;
    good.until(|tab, _| tab.frames.iter().zip(before).all(|(now, before)| *now > before + 5)).await;
    drop(deaf);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tabs_come_and_go_and_nonsense_goes() {
    let demo = Demo::start(&[]);
    let mut good = demo.tab().await;
    for round in 0..3 {
        let mut closed = demo.tab().await;
        closed.until(|tab, _| tab.frames[0] > 0).await;
        match round {
            // As a tab does that is closed, and as one does whose browser is killed.
            0 => closed.socket.close(None).await.unwrap(),
            _ => drop(closed),
        }
    }
    for nonsense in [
        Message::text("drawn?"),
        Message::text(""),
        Message::binary(vec![7; 9]),
        // Longer than anything that a page has to say.
        Message::text("x".repeat(100_000)),
    ] {
        let mut tab = demo.tab().await;
        let _ = tab.socket.send(nonsense).await;
        let why = tab.end().await;
        assert!(why.is_none_or(|why| why.0 == CloseCode::Policy || why.0 == CloseCode::Size));
    }
    // More drawn than there was, and bytes that are no WebSocket.
    let mut tab = demo.tab().await;
    for _ in 0..20 {
        tab.say("drawn").await;
    }
    tab.end().await;
    let mut tab = demo.tab().await;
    tab.socket.get_mut().write_all(&[0xff; 64]).await.unwrap();
    tab.end().await;
    let mut stream = TcpStream::connect(("127.0.0.1", demo.port)).await.unwrap();
    stream.write_all(b"\x16\x03\x01 not HTTP\r\n\r\n").await.unwrap();
    // All of these are gone, and so are their places: there are as many as ever.
    let frames = good.frames;
    good.until(|tab, _| tab.frames.iter().zip(frames).all(|(now, before)| *now > before)).await;
    let mut tabs = Vec::new();
    let limit = Instant::now() + LIMIT;
    let host = format!("localhost:{}", demo.port);
    let origin = format!("http://{host}");
    while tabs.len() < 15 {
        tabs.extend(demo.socket(&host, Some(&origin)).await);
        assert!(Instant::now() < limit, "{} places are free", tabs.len());
    }
    assert_eq!(demo.socket(&host, Some(&origin)).await.err(), Some(503), "one of sixteen is the first tab");
    good.until(|_, told| told.is_some()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_is_for_its_own_names_and_asks_nobody_else() {
    let demo = Demo::start(&[]);
    let own = format!("localhost:{}", demo.port);
    let mut all = String::new();
    for (path, kind) in [("/", "text/html"), ("/live.js", "text/javascript"), ("/live.css", "text/css")] {
        let answer = demo.get(path, &own).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.starts_with("HTTP/1.1 200 ") && head.contains(&format!("content-type: {kind}")),
            "{head}"
        );
        for field in ["content-security-policy: default-src 'none';", "x-content-type-options: nosniff"] {
            assert!(head.contains(field), "{head}");
        }
        assert!(!head.contains("unsafe") && !head.contains("https:"), "{head}");
        assert!(!body.is_empty());
        all += body;
    }
    for alien in ["http://", "https://", "//cdn", "@import", "url(", "eval(", "innerHTML"] {
        assert!(!all.contains(alien), "{alien}");
    }
    let status = |answer: String| answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap();
    for (path, host, expected) in [
        ("/", "127.0.0.1:1", 200),
        ("/", "[::1]:9", 200),
        ("/", "evil.example", 421),
        ("/", "localhost.evil.example", 421),
        ("/live", "evil.example", 421),
        ("/live", &*own, 426),
        ("/../Cargo.toml", &*own, 404),
        ("/page.js", &*own, 404),
    ] {
        assert_eq!(status(demo.get(path, host).await), expected, "{path} of {host}");
    }
    let post = format!("POST / HTTP/1.1\r\nhost: {own}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(status(demo.ask(&post).await), 405);
    // By a name that was led to our address, and by a page of somebody else.
    let origin = format!("http://{own}");
    let evil = format!("http://evil.example:{}", demo.port);
    for (host, origin, expected) in [
        (&*own, Some(&*origin), None),
        (&*own, None, Some(403)),
        (&*own, Some("null"), Some(403)),
        (&*own, Some(&*evil), Some(403)),
        (&*own, Some("http://localhost:1"), Some(403)),
        ("evil.example", Some("http://evil.example"), Some(421)),
        ("evil.example", Some(&*origin), Some(421)),
    ] {
        assert_eq!(demo.socket(host, origin).await.err(), expected, "{host} {origin:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_ends_when_it_shall_and_says_so_to_the_pages() {
    let ended = Some((CloseCode::Away, "ended".to_owned()));
    let mut demo = Demo::start(&[]);
    let mut tab = demo.tab().await;
    tab.until(|tab, _| tab.frames[0] > 0).await;
    demo.interrupt();
    assert_eq!(tab.end().await, ended);
    assert_eq!(demo.code(), Some(0));

    let mut demo = Demo::start(&["--seconds", "3"]);
    let mut tab = demo.tab().await;
    assert_eq!(tab.end().await, ended);
    assert_eq!(demo.code(), Some(0));
}

#[test]
fn a_page_that_cannot_be_served_and_what_does_not_go_together_are_said() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = taken.local_addr().unwrap().to_string();
    for (words, code, hint) in [
        (&["--web", "--web-page", &place][..], 1, "--web-page"),
        (&["--web", "--pace", "10,30"], 1, "one pace"),
        (&["--web-page", "127.0.0.1:0"], 2, "--web"),
        (&["--web", "--json"], 2, "--json"),
        (&["--web", "-o", "report.html"], 2, "--output"),
        (&["--web", "--web-page", "localhost"], 2, "127.0.0.1:4433"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_quickset")).arg("demo").args(words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(code), true), "{words:?}: {said}");
        assert!(said.contains(hint), "{words:?}: {said}");
    }
}
