//! A desktop across a bad network, by three ways that take turns: the page of `desktop serve --web` in
//! Chromium, both gateways with a viewer, and noVNC in Chromium with websockify, over TCP. How long it takes
//! from when a window is told to draw a page until all of it is on the screen, and from a key to what it
//! does. In a browser what is drawn counts a frame later, when it is on the screen. `cargo xtask browser`
//! runs it.
//!
//! QUICKSET_BROWSER_FLIPS and …_KEYS say how many, …_LINK and …_LOSS over which link, …_BINARY with which
//! command, and QUICKSET_NOVNC where noVNC is; …_JSON names a file for the rows.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[expect(dead_code, reason = "screens are compared by what they show here, and not as pictures")]
#[path = "../../../cli/tests/players/chromium.rs"]
mod chromium;
#[expect(dead_code, reason = "nothing scrolls here")]
mod desktop;
#[path = "../e2e/look.rs"]
mod look;
mod native;
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers are small, or cut on purpose"
)]
#[expect(clippy::cast_precision_loss, reason = "numbers are small, or cut on purpose")]
#[expect(dead_code, reason = "whole pages are all of it that is turned")]
#[path = "../flips/pages.rs"]
mod pages;
#[expect(dead_code, reason = "as much of it as a viewer needs that only looks")]
#[path = "../gateway/person.rs"]
mod person;
#[expect(dead_code, reason = "a program that is started and ends is all of it that is needed")]
#[path = "../e2e/programs.rs"]
mod programs;

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use serde_json::{Value, json};

use chromium::{Chromium, START, Tab};
use desktop::{Desktop, colour};
use native::Native;
use pages::Book;
use programs::Program;
use quickset_base::number::Unsigned as _;

/// How long a page, or another condition, may take.
const LIMIT: Duration = Duration::from_secs(40);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes in real time: cargo xtask browser"]
async fn a_page_in_a_browser_beside_other_ways() {
    let mut scene = Scene::set().await;
    let number = |name: &str, usual| std::env::var(name).map_or(usual, |number| number.parse().unwrap());
    let flips = scene.flips(number("QUICKSET_BROWSER_FLIPS", 500)).await;
    let keys = scene.keys(number("QUICKSET_BROWSER_KEYS", 500)).await;
    println!("{HEAD}");
    let mut rows = Vec::new();
    for (what, times) in [("page", flips), ("key", keys)] {
        for (way, times) in WAYS.iter().zip(times) {
            let row = Row::of(way, what, times);
            println!("{}", row.line());
            rows.push(row.json());
        }
    }
    println!("datagrams that came to the page: {}", scene.figures());
    if let Some(file) = std::env::var_os("QUICKSET_BROWSER_JSON") {
        fs::write(file, format!("{}\n", Value::from(rows))).unwrap();
    }
    scene.end();
}

/// The viewer on the near side, when this program is started there.
#[tokio::test]
#[ignore = "the near side of the other test"]
async fn near() {
    let socket = std::env::var_os("QUICKSET_BROWSER_NEAR").expect("the other test starts it");
    native::answer(UnixStream::connect(socket).unwrap(), VIEW.parse().unwrap()).await;
}

const WAYS: [&str; 3] = ["page", "gateways", "noVNC"];

/// All three ways, each with a desktop of its own, and one link.
struct Scene {
    desktops: [Desktop; 3],
    book: Book,
    /// Of the page, and of noVNC.
    tabs: [Tab; 2],
    /// Where each of them draws.
    meters: [Tab; 2],
    native: Native,
    chromium: Chromium,
    _far: Vec<Program>,
    folder: Folder,
    /// Turned and pressed so far.
    turned: u64,
    pressed: u64,
}

/// When something began and was seen, in microseconds since 1970.
pub(crate) struct Times {
    begun: u64,
    seen: u64,
}

impl Scene {
    async fn set() -> Self {
        let folder = Folder::new();
        let binary = std::env::var_os("QUICKSET_BROWSER_BINARY").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/quickset"),
            PathBuf::from,
        );
        let desktops = [Desktop::start().await, Desktop::start().await, Desktop::start().await];
        let mut far = Vec::new();
        let serve = |desktop: &Desktop, name: &str| {
            let mut command = Command::new(&binary);
            command.args(["desktop", "serve", "--vnc", &desktop.display.vnc.to_string(), "--stats"]);
            command.args(["--listen", "0.0.0.0:0"]).env("XDG_DATA_HOME", folder.0.join(name));
            command
        };
        let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
        let port = |words: &str| words.split(' ').next().unwrap().rsplit(':').next().unwrap().to_owned();
        // The page.
        let mut web = Program::start(serve(&desktops[0], "web").args(["--web", "--web-page", "127.0.0.1:0"]));
        let web_port = port(&web.prints("where it listens", listening).await);
        let link = web.prints("a link", |line| line.strip_prefix("open ").map(str::to_owned)).await;
        // The gateways.
        let mut gateway = Program::start(&mut serve(&desktops[1], "gateway"));
        let words = gateway.prints("where it listens", listening).await;
        let (gateway_port, pin) = (port(&words), words.split(' ').nth(1).unwrap().to_owned());
        let token = gateway.prints("a token", |line| line.strip_prefix("token ").map(str::to_owned)).await;
        // noVNC.
        let site = folder.0.join("site");
        fs::create_dir_all(&site).unwrap();
        fs::write(site.join("page.html"), include_str!("../viewers/page.html")).unwrap();
        let novnc = std::env::var_os("QUICKSET_NOVNC").unwrap_or_else(|| "/usr/share/novnc".into());
        std::os::unix::fs::symlink(novnc, site.join("novnc")).unwrap();
        let free = std::net::TcpListener::bind("0.0.0.0:0").unwrap().local_addr().unwrap();
        let mut websockify = Command::new("websockify");
        websockify.arg("--web").arg(&site).args([free.to_string(), desktops[2].display.vnc.to_string()]);
        far.extend([web, gateway, Program::start(&mut websockify)]);
        // What is near is behind the link.
        let socket = folder.0.join("near");
        let listener = UnixListener::bind(&socket).unwrap();
        let mut command = Command::new(&binary);
        let word = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.into());
        let path = word("QUICKSET_BROWSER_LINK", LINK);
        command.args(["link", "--quiet"]).args(path.split(' '));
        command.args(["--loss", &word("QUICKSET_BROWSER_LOSS", "1%"), "--", "sh", "-c"]);
        command.arg(format!("{NEAR} {START}")).arg("sh").arg("--window-size=1100,900");
        command.arg(format!("--user-data-dir={}", folder.0.join("chromium").display()));
        command.env("QUICKSET", &binary).env("XDG_DATA_HOME", folder.0.join("client"));
        command.env("FOLDER", &folder.0).env("GATEWAY", &gateway_port).env("PIN", &pin).env("TOKEN", &token);
        command.env("TEST", std::env::current_exe().unwrap()).env("QUICKSET_BROWSER_NEAR", &socket);
        command.stderr(fs::File::create(folder.0.join("near.log")).unwrap());
        let mut chromium = Chromium::start(&mut command);
        chromium.ask(None, "Browser.getVersion", &json!({}));
        let native = Native::new(listener.accept().unwrap().0);
        let host = fs::read_to_string(folder.0.join("host")).unwrap();
        let fragment = link.split_once("/#server=").unwrap().1.split_once('&').unwrap().1;
        let page =
            chromium.open(&format!("http://localhost:{PAGE_PORT}/#server={host}:{web_port}&{fragment}"));
        let novnc = chromium.open(&format!("http://{host}:{}/page.html", free.port()));
        let turned = 0;
        let meters = [page.clone(), novnc.clone()];
        let mut scene = Self {
            desktops,
            book: Book::new(),
            tabs: [page, novnc],
            meters,
            native,
            chromium,
            _far: far,
            folder,
            turned,
            pressed: 0,
        };
        scene.wait(0, "document.querySelector('#screen')?.dataset.width === '1024'").await;
        scene
            .wait(1, "document.title === 'connected' && document.querySelector('canvas').width === 1024")
            .await;
        // The page draws in its worker.
        scene.meters[0] = scene.chromium.worker(&scene.tabs[0]);
        for tab in scene.tabs.iter().chain(&scene.meters[..1]) {
            scene.chromium.evaluate(tab, include_str!("meter.js"));
        }
        scene
    }

    async fn wait(&mut self, tab: usize, condition: &str) {
        let end = Instant::now() + LIMIT;
        while self.chromium.evaluate(&self.tabs[tab], condition) != true {
            assert!(Instant::now() < end, "{}: {condition}; see {}", WAYS[tab], self.folder.0.display());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Pages by each way in turn, the first few not counted: by them a connection learns of its path.
    async fn flips(&mut self, count: usize) -> [Vec<u64>; 3] {
        let mut times: [Vec<u64>; 3] = Default::default();
        for turn in 0..FIRST + count {
            self.turned += 1;
            for (way, times) in times.iter_mut().enumerate() {
                let (number, wanted) = (self.turned, colour(self.turned));
                let (begun, seen) = if way == 1 {
                    self.native.order(&format!("page {number}"));
                    let begun = self.desktops[way].turn(&self.book, number);
                    (begun, self.native.answer().seen)
                } else {
                    let meter = &self.meters[way / 2];
                    // It is looked for before it is there.
                    self.chromium.evaluate(meter, &format!("globalThis.seen = meter.page({wanted}); 0"));
                    let begun = self.desktops[way].turn(&self.book, number);
                    (begun, browser_time(&self.chromium.evaluate(meter, "seen")))
                };
                if turn >= FIRST {
                    times.push(seen.saturating_sub(micros(begun)));
                }
                tokio::time::sleep(REST).await;
            }
        }
        times
    }

    /// Keys by each way in turn.
    async fn keys(&mut self, count: usize) -> [Vec<u64>; 3] {
        let mut times: [Vec<u64>; 3] = Default::default();
        for _ in 0..count {
            self.pressed += 1;
            for (way, times) in times.iter_mut().enumerate() {
                let Times { begun, seen } = if way == 1 {
                    self.native.order(&format!("key {}", self.pressed));
                    self.native.answer()
                } else {
                    let (tab, meter) = (&self.tabs[way / 2], &self.meters[way / 2]);
                    let order = format!("globalThis.seen = meter.key({}); 0", colour(self.pressed));
                    self.chromium.evaluate(meter, &order);
                    let begun = browser_time(&self.chromium.evaluate(tab, "meter.press()"));
                    Times { begun, seen: browser_time(&self.chromium.evaluate(meter, "seen")) }
                };
                times.push(seen - begun);
                tokio::time::sleep(REST / 4).await;
            }
        }
        times
    }

    /// What the page says of itself.
    fn figures(&mut self) -> String {
        self.chromium.evaluate(&self.tabs[0], "document.getElementById('more').click()");
        let text = self.chromium.evaluate(&self.tabs[0], "document.getElementById('figures').innerText");
        text.as_str().unwrap_or_default().replace('\n', " ")
    }

    fn end(self) {
        self.chromium.close();
    }
}

/// A time of a page, in milliseconds and parts of them.
fn browser_time(value: &Value) -> u64 {
    quickset_base::number::Float::whole(value.as_f64().expect("a time") * 1000.0)
}

fn micros(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros()).unwrap()
}

pub(crate) fn now() -> u64 {
    micros(SystemTime::now())
}

/// What was seen by one way.
struct Row {
    way: &'static str,
    what: &'static str,
    /// In microseconds, sorted.
    times: Vec<u64>,
}

impl Row {
    fn of(way: &'static str, what: &'static str, mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        Self { way, what, times }
    }

    /// In milliseconds, the time that so many percent took at most.
    fn percentile(&self, percent: usize) -> f64 {
        let at = (self.times.len() * percent).div_ceil(100).clamp(1, self.times.len());
        self.times[at - 1].approx() / 1000.0
    }

    fn line(&self) -> String {
        let shares = [50, 95, 99, 100].map(|percent| format!("{:>7.1}", self.percentile(percent))).join(" ");
        format!("{:<9} {:<5} {:>6} {shares}", self.way, self.what, self.times.len())
    }

    fn json(&self) -> Value {
        let [p50, p95, p99, max] = [50, 95, 99, 100].map(|percent| self.percentile(percent));
        json!({
            "way": self.way, "what": self.what, "count": self.times.len(),
            "p50_ms": p50, "p95_ms": p95, "p99_ms": p99, "max_ms": max,
        })
    }
}

/// Gone after the test, and with it the programs that were started near.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("quickset-browser-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let pids = fs::read_to_string(self.0.join("pids")).unwrap_or_default();
        let _ = Command::new("kill").args(pids.split_whitespace()).status();
        if !std::thread::panicking() {
            let _ = fs::remove_dir_all(&self.0);
        }
    }
}

const HEAD: &str = "\
                          ms until it is on the screen
way       what   count     p50     p95     p99     max";
/// Packets are as large as most paths take.
const LINK: &str = "--rate 100mbit --delay 50ms --queue 1MB";
/// Between one and the next.
const REST: Duration = Duration::from_millis(200);
/// Pages that are not counted.
const FIRST: usize = 5;
/// Where the gateway takes its viewer, and where the page is, on the near side.
const VIEW: &str = "127.0.0.1:5999";
const PAGE_PORT: u16 = 4480;
/// What runs near besides Chromium: the server of the page, the gateway, and its viewer.
const NEAR: &str = "printf %s \"$QUICKSET_LINK_HOST\" > \"$FOLDER/host\"; exec 5>&1; exec 1>&2; \
    \"$QUICKSET\" desktop page --listen 127.0.0.1:4480 </dev/null & echo $! > \"$FOLDER/pids\"; \
    \"$QUICKSET\" desktop view \"$QUICKSET_LINK_HOST:$GATEWAY\" --listen 127.0.0.1:5999 --pin \"$PIN\" \
    --token \"$TOKEN\" </dev/null & echo $! >> \"$FOLDER/pids\"; \
    \"$TEST\" near --exact --ignored --nocapture </dev/null & echo $! >> \"$FOLDER/pids\"; exec 1>&5 5>&-;";
