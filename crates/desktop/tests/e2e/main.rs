//! Real programs: an X server, terminals and windows; both gateways over a path that loses 1 % and takes 50
//! ms each way; a viewer of our own and TigerVNC's on another X server. `cargo xtask e2e` runs it.
//!
//! Each test lasts QUICKSET_E2E_SECONDS (10) and some; QUICKSET_BIN names another command to test.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[cfg(target_os = "linux")]
mod blocked;
mod browser;
mod canvas;
#[expect(dead_code, reason = "nothing is asked of a worker here")]
#[path = "../../../cli/tests/players/chromium.rs"]
mod chromium;
mod endure;
mod firefox;
#[path = "../gateway/firewall.rs"]
mod firewall;
#[cfg(target_os = "linux")]
mod lips;
mod look;
mod marionette;
mod page_scene;
#[path = "../gateway/person.rs"]
mod person;
mod photo;
#[path = "../../../cli/tests/http/pin.rs"]
mod pin;
#[expect(dead_code, reason = "how long a program worked is not asked here")]
mod programs;
#[cfg(target_os = "linux")]
#[expect(dead_code, reason = "nothing plays but the gateway")]
#[path = "../sound/pulse.rs"]
mod pulse;
#[cfg(target_os = "linux")]
mod sound;
mod texts;
#[cfg(target_os = "linux")]
#[path = "../gateway/tone.rs"]
mod tone;
mod vencrypt;
#[cfg(target_os = "linux")]
mod walled;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use person::Person;
use photo::picture;
use programs::{Display, Program, Window};
use quickset_desktop::ItemKind;
use quickset_lab::relay::Relay;
use quickset_rfb::Framebuffer;
use quickset_sim::LinkSpec;

/// How long a condition may take.
const LIMIT: Duration = Duration::from_secs(40);
/// The path between both sides.
const LOSSY: &str = "rate=100mbit delay=50ms queue=1MB loss=1%";
/// The keys for xev.
const KEYS: usize = 200;
/// What is copied and pasted: letters of one to four bytes.
const UNICODE: &str = "Gr\u{fc}\u{df}e \u{263a} \u{65e5}\u{672c} \u{20ac}\u{1f332}";

/// How long there is work on the desktop.
fn seconds() -> Duration {
    let seconds = std::env::var("QUICKSET_E2E_SECONDS").ok().and_then(|number| number.parse().ok());
    Duration::from_secs(seconds.unwrap_or(10))
}

#[tokio::test]
#[ignore = "needs X programs: cargo xtask e2e"]
async fn ordered() {
    Scene::set("ordered").await.play().await;
}

#[tokio::test]
#[ignore = "needs X programs: cargo xtask e2e"]
async fn fenced() {
    Scene::set("fenced").await.play().await;
}

#[tokio::test]
#[ignore = "needs X programs: cargo xtask e2e"]
async fn latest() {
    Scene::set("latest").await.play().await;
}

/// A desktop far away and one here.
struct Scene {
    inner: Display,
    outer: Display,
    relay: Relay,
    serve: Program,
    /// The window of TigerVNC's viewer on the outer display.
    place: Window,
    /// The viewer and the terminal.
    programs: [Program; 2],
    /// Viewers of our own: of the far desktop itself, of the gateway, of the desktop here.
    far: Person,
    near: Person,
    here: Person,
    xev: Program,
    view: Program,
    photo: PathBuf,
    order: &'static str,
    folder: Folder,
}

/// Gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quickset-e2e-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Scene {
    async fn set(order: &'static str) -> Self {
        let folder = Folder::new(order);
        let (inner, outer) = (Display::start(800, 600).await, Display::start(1024, 768).await);
        let mut serve = Program::start(
            quickset()
                .args(["serve", "--vnc", &inner.vnc.to_string(), "--listen", "127.0.0.1:0"])
                .args(["--order", order, "--stats"])
                .env("XDG_DATA_HOME", folder.0.join("server")),
        );
        let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
        let words = serve.prints("where it listens", listening).await;
        let (address, fingerprint) = words.split_once(' ').unwrap();
        let token = serve.prints("a token", |line| line.strip_prefix("token ").map(str::to_owned)).await;
        let link: LinkSpec = LOSSY.parse().unwrap();
        let relay = Relay::start(address.parse().unwrap(), link.clone(), link, 7).unwrap();
        let mut view = Program::start(
            quickset()
                .args(["view", &relay.address().to_string(), "--listen", "127.0.0.1:0"])
                .args(["--pin", fingerprint, "--token", &token, "--stats"])
                .env("XDG_DATA_HOME", folder.0.join("client")),
        );
        let gateway = view.prints("where it listens", listening).await.parse().unwrap();
        let near = Person::sit(gateway).await;
        let target = format!("127.0.0.1::{}", gateway.port());
        // Each order shows another encoding: packed Tight, what the viewer chooses, and ZRLE.
        let encoding: &[&str] = match order {
            "ordered" => {
                &["-AutoSelect=0", "-PreferredEncoding=Tight", "-CustomCompressLevel", "-CompressLevel=6"]
            }
            "latest" => {
                &["-AutoSelect=0", "-PreferredEncoding=ZRLE", "-CustomCompressLevel", "-CompressLevel=1"]
            }
            _ => &[],
        };
        let arguments = [encoding, &["-SecurityTypes", "None", &target]].concat();
        let viewer = outer.run("xtigervncviewer", &arguments);
        let place = outer.window("TigerVNC Viewer").await;
        assert_eq!((place.width, place.height), (800, 600), "the viewer's window shows all of the desktop");
        let photo = folder.0.join("photo.xwd");
        std::fs::write(&photo, picture(240, 200)).unwrap();
        let xterm = inner.run("xterm", &["-geometry", "80x20+10+300", "-xrm", "XTerm*cursorBlink: false"]);
        let xev = inner.run(
            "stdbuf",
            &["-oL", "xev", "-geometry", "200x200+550+10", "-event", "keyboard", "-event", "button"],
        );
        inner.window("xterm").await;
        inner.window("Event Tester").await;
        let (far, here) = (Person::sit(inner.vnc).await, Person::sit(outer.vnc).await);
        let programs = [viewer, xterm];
        Self { inner, outer, relay, serve, place, programs, far, near, here, xev, view, photo, order, folder }
    }

    async fn play(mut self) {
        self.settle().await;
        self.type_and_click().await;
        let end = Instant::now() + seconds();
        let latest = end + LIMIT;
        let mut rounds = 0;
        loop {
            self.scroll(rounds).await;
            self.drag().await;
            let counts = self.counts().await;
            rounds += 1;
            // Long enough for the losses and codecs that have to be there.
            if Instant::now() >= end && missing(&counts).is_empty() {
                break;
            }
            assert!(Instant::now() < latest, "after {rounds} rounds: {}; {counts:?}", missing(&counts));
        }
        let rested = Instant::now();
        self.settle().await;
        let rested = rested.elapsed();
        self.prove_the_comparison();
        assert!(!self.programs.iter_mut().any(Program::ended), "viewer and terminal are there to the end");
        let counts = self.counts().await;
        let view =
            self.view.prints("statistics", |l| l.starts_with("connected=true").then(|| l.to_owned())).await;
        println!(
            "{}: {rounds} rounds, equal {rested:?} after the last; relay {:?}",
            self.order,
            self.relay.counts()
        );
        println!("  serve: {counts:?}\n  view:  {view}");
    }

    /// Keys and clicks through the gateway, all of which have to arrive in order.
    async fn type_and_click(&mut self) {
        // Without a window manager keys go where the pointer is.
        let keys: Vec<u32> = (0..KEYS).map(|n| 0x61 + u32::try_from(n * 7 % 26).unwrap()).collect();
        for (n, &key) in keys.iter().enumerate() {
            if n % 10 == 0 {
                let x = 560 + u16::try_from(n / 2).unwrap();
                self.near.rfb.pointer(0, x - 1, 100).unwrap();
                self.near.rfb.pointer(1, x, 100).unwrap();
                self.near.rfb.pointer(0, x, 100).unwrap();
            }
            self.near.press(key);
            self.near.look(Duration::from_millis(5)).await;
        }
        let clicked = |lines: &[String]| -> Vec<String> {
            let down = lines.windows(3).filter(|w| w[0].starts_with("ButtonPress"));
            down.filter_map(|w| Some(w[1].split("root:(").nth(1)?.split(')').next()?.to_owned())).collect()
        };
        let end = Instant::now() + LIMIT;
        while typed(&self.xev.lines()).len() < KEYS || clicked(&self.xev.lines()).len() < KEYS / 10 {
            let got = typed(&self.xev.lines()).len();
            assert!(Instant::now() < end, "{got} of {KEYS} keys came");
            self.near.look(Duration::from_millis(50)).await;
        }
        assert_eq!(
            typed(&self.xev.lines()),
            keys,
            "no key is lost, none comes twice, none overtakes another"
        );
        let clicks: Vec<String> = (0..KEYS).step_by(10).map(|n| format!("{},100", 560 + n / 2)).collect();
        assert_eq!(clicked(&self.xev.lines()), clicks);
    }

    /// Text that scrolls in the terminal, typed into TigerVNC's viewer.
    async fn scroll(&mut self, round: usize) {
        let (x, y) = (self.place.x + 100, self.place.y + 400);
        self.outer.ask("xdotool", &["mousemove", &x.to_string(), &y.to_string()]);
        let words = format!("seq {} {}\n", 1000 * round, 1000 * round + 300);
        self.outer.ask("xdotool", &["type", "--delay", "15", &words]);
        // What was typed into TigerVNC's viewer was run by the far shell.
        let mark = self.folder.0.join(format!("done{round}"));
        self.outer.ask("xdotool", &["type", "--delay", "15", &format!("touch {}\n", mark.display())]);
        let end = Instant::now() + LIMIT;
        while !mark.exists() {
            assert!(Instant::now() < end, "what is typed into the viewer does not reach the terminal");
            self.look(Duration::from_millis(50)).await;
        }
    }

    /// A window with a photograph comes, is dragged about, and goes.
    async fn drag(&mut self) {
        let file = self.photo.to_str().unwrap();
        let mut window = self.inner.run("xwud", &["-in", file, "-geometry", "240x200+20+20", "-noclick"]);
        let id = self.inner.window("xwud").await.id;
        for step in 0..30 {
            let (x, y) = ((20 + step * 9).to_string(), (20 + step * 5).to_string());
            self.inner.ask("xdotool", &["windowmove", &id, &x, &y]);
            self.look(Duration::from_millis(10)).await;
        }
        // Long enough at rest to be sent without loss.
        self.look(Duration::from_millis(700)).await;
        assert!(!window.ended());
    }

    async fn look(&mut self, time: Duration) {
        tokio::join!(self.far.look(time), self.near.look(time), self.here.look(time));
    }

    /// Waits until all see the same.
    async fn settle(&mut self) {
        let end = Instant::now() + LIMIT;
        loop {
            self.agree_on_the_pointer().await;
            for _ in 0..30 {
                self.look(Duration::from_millis(100)).await;
                if self.difference().is_none() {
                    return;
                }
            }
            assert!(Instant::now() < end, "they never see the same: {:?}", self.difference());
        }
    }

    /// Xvnc draws the pointer into the screen of a viewer that does not know where it is. So all of them put
    /// it into the same place, the gateway through TigerVNC's viewer, which has to see it move, and without a
    /// window manager takes no notice of anything before it was given the focus and a click.
    async fn agree_on_the_pointer(&mut self) {
        let (x, y) = (self.place.x + 790, self.place.y + 590);
        for near in [5, 0] {
            self.outer.ask("xdotool", &["mousemove", &(x - near).to_string(), &(y - near).to_string()]);
            self.look(Duration::from_millis(300)).await;
        }
        self.outer.ask("xdotool", &["windowfocus", &self.place.id]);
        self.outer.ask("xdotool", &["click", "1"]);
        self.look(Duration::from_millis(300)).await;
        self.here.rfb.pointer(0, x, y).unwrap();
        self.far.rfb.pointer(0, 790, 590).unwrap();
    }

    fn difference(&self) -> Option<String> {
        let far = &self.far.screen;
        let near = difference(far, &self.near.screen, 0, 0).map(|d| format!("the gateway's: {d}"));
        let here = || difference(far, &self.here.screen, self.place.x, self.place.y);
        near.or_else(|| here().map(|d| format!("TigerVNC's viewer's: {d}")))
    }

    /// What was found equal differs when one pixel does, in its lowest bit, wherever it is.
    fn prove_the_comparison(&mut self) {
        for (x, y) in [(0, 0), (799, 599), (400, 300)] {
            for viewer in [false, true] {
                let (screen, x, y) = if viewer {
                    (&mut self.here.screen, x + self.place.x, y + self.place.y)
                } else {
                    (&mut self.near.screen, x, y)
                };
                let pixel = quickset_rfb::Rect::new(x, y, 1, 1).unwrap();
                let right = screen.pixel(x, y).unwrap();
                screen.fill(pixel, right ^ 1).unwrap();
                let found = self.difference();
                let screen = if viewer { &mut self.here.screen } else { &mut self.near.screen };
                screen.fill(pixel, right).unwrap();
                assert!(found.is_some_and(|d| d.starts_with(if viewer {
                    "TigerVNC"
                } else {
                    "the gateway"
                })));
            }
        }
        assert_eq!(self.difference(), None);
    }

    /// The last line of the server's statistics.
    async fn counts(&mut self) -> BTreeMap<String, u64> {
        // A line that is printed from now on.
        let before = self.serve.lines().len();
        let end = Instant::now() + LIMIT;
        while self.serve.lines().len() == before {
            assert!(Instant::now() < end, "the server's gateway prints no statistics");
            self.look(Duration::from_millis(50)).await;
        }
        let line = self.serve.prints("statistics", |l| l.starts_with("client=").then(|| l.to_owned())).await;
        line.split(' ')
            .filter_map(|word| word.split_once('='))
            .filter_map(|(name, value)| Some((name.to_owned(), value.parse().ok()?)))
            .collect()
    }
}

/// `quickset desktop`, as cargo has put it where this test is, unless it is named.
fn quickset() -> Command {
    let built = || std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("quickset").into();
    let mut command = Command::new(std::env::var_os("QUICKSET_BIN").unwrap_or_else(built));
    command.arg("desktop");
    command
}

/// The keys that xev has seen go down.
fn typed(lines: &[String]) -> Vec<u32> {
    let down = lines.windows(3).filter(|w| w[0].starts_with("KeyPress"));
    let symbol = |line: &str| line.split("keysym 0x").nth(1)?.split(',').next().map(str::to_owned);
    down.filter_map(|w| u32::from_str_radix(&symbol(&w[2])?, 16).ok()).collect()
}

/// What has not happened yet, and should.
fn missing(counts: &BTreeMap<String, u64>) -> String {
    let count = |name: &str| counts.get(name).copied().unwrap_or(0);
    let mut missing: Vec<&str> = ItemKind::ALL
        .iter()
        // They go to clients that take no adaptive codes, and of some pixels to others.
        .filter(|kind| !matches!(kind, ItemKind::Palette | ItemKind::PaletteZstd))
        .map(|kind| kind.name())
        .filter(|name| count(name) == 0)
        .collect();
    // Packets are as large as the path takes, so that there are not many.
    if count("lost").saturating_sub(count("spurious")) < 8 {
        missing.push("8 losses");
    }
    missing.join(", ")
}

/// Where two screens differ first; the second one holds the first at (`x`, `y`).
fn difference(a: &Framebuffer, b: &Framebuffer, x: u16, y: u16) -> Option<String> {
    let all = a.bounds();
    let mut differ = Vec::new();
    for row in 0..all.height() {
        for column in 0..all.width() {
            if a.pixel(column, row) != b.pixel(column + x, row + y) {
                differ.push((column, row));
            }
        }
    }
    let &(column, row) = differ.first()?;
    let (left, right) = (a.pixel(column, row), b.pixel(column + x, row + y));
    Some(format!("{} pixels, first ({column}, {row}): {left:x?} and {right:x?}", differ.len()))
}
