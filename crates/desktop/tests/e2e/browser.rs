//! The desktop in Chromium, by the page of `desktop serve --web`, over a path that loses 1 %.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use quickset_lab::relay::Relay;
use serde_json::json;

use super::canvas::CANVAS_SUM;
use super::chromium::{Chromium, START, Tab};
use super::firewall::Firewall;
use super::person::Person;
use super::photo::picture;
use super::pin;
use super::programs::{Display, Program};
use super::texts::copier;
use super::{Folder, KEYS, LIMIT, LOSSY, quickset, typed};

#[tokio::test]
#[ignore = "needs X programs and Chromium: cargo xtask e2e"]
async fn a_browser_sees_and_controls_the_desktop() {
    let mut scene = PageScene::set("browser", async |server| {
        let path: quickset_sim::LinkSpec = LOSSY.parse().unwrap();
        let relay = Relay::start(server, path.clone(), path, 7).unwrap();
        (relay.address(), relay)
    })
    .await;
    scene.settle().await;
    scene.type_keys().await;
    scene.work().await;
    scene.resize().await;
    scene.settle().await;
    scene.carry_texts().await;
    scene.tell();
    let counts = scene.between.counts();
    println!("  path:  {counts:?}");
    // The path has lost something, which repair has replaced in part.
    assert!(counts.iter().all(|way| way.lost > 0), "{counts:?}");
    scene.end();
}

/// DT-58, WB-19.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs X programs and Chromium: cargo xtask e2e"]
async fn a_browser_goes_by_tcp_while_udp_does_not_get_through() {
    let mut scene = PageScene::set("browser-tcp", async |server| {
        let firewall = Firewall::start(server, false).await;
        (firewall.address, firewall)
    })
    .await;
    println!("without UDP: the desktop {:?} after the tab was opened", scene.opened);
    scene.settle().await;
    assert_eq!(scene.way().await, "TCP");
    scene.type_keys().await;
    scene.between.set_open(true);
    let begun = Instant::now();
    scene.goes_by("QUIC").await;
    println!("  back by QUIC {:?} after UDP was let through", begun.elapsed());
    scene.settle().await;
    scene.between.set_open(false);
    let begun = Instant::now();
    scene.goes_by("TCP").await;
    println!("  by TCP {:?} after UDP was stopped", begun.elapsed());
    scene.settle().await;
    scene.end();
}

/// What somebody sees who has opened the link; `B` is between the browser and the server.
struct PageScene<B> {
    desktop: Display,
    between: B,
    serve: Program,
    chromium: Chromium,
    tab: Tab,
    /// A viewer of the desktop itself.
    far: Person,
    xev: Program,
    _terminal: Program,
    folder: Folder,
    /// From the opened tab to the desktop's size.
    opened: Duration,
}

impl<B> PageScene<B> {
    /// `between` puts something before the server, and says where that is.
    async fn set(name: &str, between: impl AsyncFnOnce(SocketAddr) -> (SocketAddr, B)) -> Self {
        let folder = Folder::new(name);
        let desktop = Display::start(800, 600).await;
        let mut serve = Program::start(
            quickset()
                .args(["serve", "--vnc", &desktop.vnc.to_string(), "--listen", "127.0.0.1:0", "--stats"])
                .args(["--web", "--web-page", "127.0.0.1:0"])
                .env("XDG_DATA_HOME", folder.0.join("server")),
        );
        let listening = |line: &str| line.strip_prefix("listening on ").map(str::to_owned);
        let words = serve.prints("where it listens", listening).await;
        let (address, fingerprint) = words.split_once(' ').unwrap();
        let (place, between) = between(address.parse().unwrap()).await;
        let link = serve.prints("a link", |line| line.strip_prefix("open ").map(str::to_owned)).await;
        // The same link, through what is between.
        let through = format!("server={place}&");
        let url = link.replace(&format!("server={address}&"), &through);
        assert!(url.contains(&through), "the link names the server: {link}");
        let terminal =
            desktop.run("xterm", &["-geometry", "80x20+10+300", "-xrm", "XTerm*cursorBlink: false"]);
        let xev = desktop.run(
            "stdbuf",
            &["-oL", "xev", "-geometry", "200x200+550+10", "-event", "keyboard", "-event", "button"],
        );
        desktop.window("xterm").await;
        desktop.window("Event Tester").await;
        let far = Person::sit(desktop.vnc).await;
        let mut command = std::process::Command::new("sh");
        command.args(["-c", START, "sh", "--window-size=1000,760"]).env("QUICKSET_LINK_HOST", "127.0.0.1");
        command.arg(format!("--user-data-dir={}", folder.0.join("chromium").display()));
        // As if its user had accepted the certificate.
        command.arg(format!("--ignore-certificate-errors-spki-list={}", pin::base64(fingerprint)));
        let mut chromium = Chromium::start(command.stderr(std::process::Stdio::null()));
        let began = Instant::now();
        let tab = chromium.open(&url);
        let mut opened = None;
        while opened.is_none() {
            let notice = chromium.evaluate(&tab, "document.getElementById('notice')?.textContent ?? ''");
            assert!(began.elapsed() < LIMIT, "the page shows no desktop; it says {notice}");
            tokio::time::sleep(Duration::from_millis(10)).await;
            let width = chromium.evaluate(&tab, "document.getElementById('screen')?.dataset.width ?? ''");
            opened = (width == "800").then(|| began.elapsed());
        }
        // Whoever looks at the tab.
        chromium.ask(Some(&tab), "Emulation.setFocusEmulationEnabled", &json!({ "enabled": true }));
        let opened = opened.unwrap();
        Self { desktop, between, serve, chromium, tab, far, xev, _terminal: terminal, folder, opened }
    }

    /// The sum of the canvas, as [`quickset_rfb::Framebuffer::crc32`] defines it.
    fn canvas(&mut self) -> u32 {
        let sum = self.chromium.evaluate(&self.tab, CANVAS_SUM).as_u64().unwrap();
        u32::try_from(sum).unwrap()
    }

    /// Waits until the page shows what the desktop does. The pointer is in the same place for both: the
    /// server draws it for viewers who do not know where it is.
    async fn settle(&mut self) {
        let end = Instant::now() + LIMIT;
        let (x, y) = (self.far.screen.width() - 10, self.far.screen.height() - 10);
        loop {
            for near in [5, 0] {
                self.point(x - near, y - near);
                self.far.look(Duration::from_millis(300)).await;
            }
            self.far.rfb.pointer(0, x, y).unwrap();
            for _ in 0..10 {
                self.far.look(Duration::from_millis(200)).await;
                if self.canvas() == self.far.screen.crc32() {
                    return;
                }
            }
            if Instant::now() > end {
                let picture = self.chromium.picture(&self.tab);
                let file = std::env::temp_dir().join("quickset-e2e-browser.png");
                std::fs::write(&file, picture).unwrap();
                panic!("the page never shows what the desktop does: see {}", file.display());
            }
        }
    }

    /// Moves the page's pointer to a place of the desktop.
    fn point(&mut self, x: u16, y: u16) {
        let place = format!(
            "(() => {{ const c = document.getElementById('screen'), b = c.getBoundingClientRect();
                return [b.left + ({x} + .5) / c.dataset.width * b.width,
                        b.top + ({y} + .5) / c.dataset.height * b.height]; }})()"
        );
        let place = self.chromium.evaluate(&self.tab, &place);
        let event = json!({ "type": "mouseMoved", "x": place[0], "y": place[1] });
        self.chromium.ask(Some(&self.tab), "Input.dispatchMouseEvent", &event);
    }

    /// Keys, all of which have to arrive in order.
    async fn type_keys(&mut self) {
        self.chromium.evaluate(&self.tab, "document.getElementById('screen').focus()");
        // Without a window manager keys go where the pointer is.
        self.point(600, 100);
        let keys: Vec<char> =
            (0..KEYS).map(|n| char::from(b'a' + u8::try_from(n * 7 % 26).unwrap())).collect();
        for key in &keys {
            let code = format!("Key{}", key.to_ascii_uppercase());
            for (what, text) in [("keyDown", key.to_string()), ("keyUp", String::new())] {
                let event = json!({ "type": what, "key": key.to_string(), "code": code, "text": text });
                self.chromium.ask(Some(&self.tab), "Input.dispatchKeyEvent", &event);
            }
            self.far.look(Duration::from_millis(2)).await;
        }
        let end = Instant::now() + LIMIT;
        while typed(&self.xev.lines()).len() < KEYS {
            let came = typed(&self.xev.lines()).len();
            assert!(Instant::now() < end, "{came} of {KEYS} keys came");
            self.far.look(Duration::from_millis(50)).await;
        }
        let came: Vec<char> = typed(&self.xev.lines()).into_iter().filter_map(char::from_u32).collect();
        assert_eq!(came, keys, "no key is lost, none comes twice, none overtakes another");
    }

    /// A terminal that scrolls, and a photograph that is dragged about, while the page's thread stands still
    /// now and then.
    async fn work(&mut self) {
        let seconds = std::env::var("QUICKSET_E2E_SECONDS").ok().and_then(|n| n.parse().ok()).unwrap_or(10);
        let photo = self.folder.0.join("photo.xwd");
        std::fs::write(&photo, picture(240, 200)).unwrap();
        let end = Instant::now() + Duration::from_secs(seconds);
        let scroll = "i=0; while :; do i=$((i+1)); echo line $i of what a shell prints, and some more of it; \
                      [ $((i % 40)) -eq 0 ] && sleep .2; done";
        let scrolls = self.desktop.run("xterm", &["-geometry", "60x12+400+350", "-e", "sh", "-c", scroll]);
        while Instant::now() < end {
            let file = photo.to_str().unwrap();
            let _window = self.desktop.run("xwud", &["-in", file, "-geometry", "240x200+20+20", "-noclick"]);
            let id = self.desktop.window("xwud").await.id;
            for step in 0..20 {
                let (x, y) = ((20 + step * 9).to_string(), (20 + step * 5).to_string());
                self.desktop.ask("xdotool", &["windowmove", &id, &x, &y]);
                self.far.look(Duration::from_millis(10)).await;
            }
            let stall = "for (const end = performance.now() + 100; performance.now() < end; );";
            self.chromium.evaluate(&self.tab, stall);
            self.far.look(Duration::from_millis(500)).await;
        }
        drop(scrolls);
    }

    /// The desktop takes the size of the window, when that is asked for.
    async fn resize(&mut self) {
        self.chromium.evaluate(&self.tab, "document.getElementById('fit').checked = true");
        let metrics = json!({ "width": 700, "height": 500, "deviceScaleFactor": 1, "mobile": false });
        self.chromium.ask(Some(&self.tab), "Emulation.setDeviceMetricsOverride", &metrics);
        let end = Instant::now() + LIMIT;
        let width = "document.getElementById('screen').dataset.width";
        while self.chromium.evaluate(&self.tab, width) != "700" || self.far.screen.width() != 700 {
            assert!(Instant::now() < end, "the desktop is {:?}", self.far.screen);
            self.far.look(Duration::from_millis(50)).await;
        }
    }

    /// Texts that are copied on one side are pasted on the other.
    async fn carry_texts(&mut self) {
        let origin = self.chromium.evaluate(&self.tab, "location.origin");
        let permissions = json!({
            "origin": origin,
            "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"],
        });
        self.chromium.ask(None, "Browser.grantPermissions", &permissions);
        let text = "Gr\u{fc}\u{df}e \u{263a} \u{65e5}\u{672c} \u{20ac}\u{1f332}";
        // From there to here.
        let copied = copier(&self.desktop, text);
        let end = Instant::now() + LIMIT;
        while self.chromium.evaluate(&self.tab, "navigator.clipboard.readText()") != text {
            assert!(Instant::now() < end, "what was copied there does not come");
            self.far.look(Duration::from_millis(100)).await;
        }
        drop(copied);
        // From here to there, where a terminal pastes.
        let back: String = text.chars().rev().collect();
        let copies = format!("navigator.clipboard.writeText({})", json!(back));
        self.chromium.evaluate(&self.tab, &copies);
        let file = self.folder.0.join("pasted");
        let words = ["-geometry", "20x3+20+20", "-T", "paster", "-xrm", "XTerm*selectToClipboard: true"];
        let run = ["-e", "sh", "-c", "stty -icanon; cat > \"$1\"", "sh", file.to_str().unwrap()];
        let _paster = self.desktop.run("xterm", &[&words[..], &run].concat());
        let paster = self.desktop.window("paster").await.id;
        let end = Instant::now() + LIMIT;
        loop {
            // It is offered as the page gets the focus, and leaves it only when somebody pastes.
            let focus = "document.activeElement.blur(); document.getElementById('screen').focus()";
            self.chromium.evaluate(&self.tab, focus);
            self.far.look(Duration::from_millis(500)).await;
            self.desktop.ask("xdotool", &["windowfocus", &paster]);
            self.desktop.ask("xdotool", &["key", "shift+Insert"]);
            self.far.look(Duration::from_millis(700)).await;
            let pasted = std::fs::read_to_string(&file).unwrap_or_default();
            if pasted.contains(&back) {
                return;
            }
            assert!(Instant::now() < end, "{back:?} is not what was pasted: {pasted:?}");
        }
    }

    /// What it took.
    fn tell(&mut self) {
        let opened = self.opened;
        self.chromium.evaluate(&self.tab, "document.getElementById('more').click()");
        let figures = self.chromium.evaluate(&self.tab, "document.getElementById('figures').innerText");
        println!("browser: the desktop {opened:?} after the tab was opened");
        println!("  page:  {}", figures.as_str().unwrap_or_default().replace('\n', " "));
        let lines = self.serve.lines();
        let line = lines.iter().rev().find(|line| line.starts_with("client=")).cloned().unwrap_or_default();
        println!("  serve: {line}");
    }

    /// By which way the page says that it looks.
    async fn way(&mut self) -> String {
        let way = "document.querySelector('#figures dd')?.textContent.split(':')[0] ?? ''";
        let end = Instant::now() + LIMIT;
        loop {
            let way = self.chromium.evaluate(&self.tab, way);
            if let Some(way) = way.as_str().filter(|way| !way.is_empty()) {
                return way.to_owned();
            }
            assert!(Instant::now() < end, "the page tells no figures");
            self.far.look(Duration::from_millis(100)).await;
        }
    }

    async fn goes_by(&mut self, way: &str) {
        let end = Instant::now() + LIMIT;
        while self.way().await != way {
            assert!(Instant::now() < end, "it does not go by {way}");
            self.far.look(Duration::from_millis(100)).await;
        }
    }

    fn end(mut self) {
        self.chromium.shut(&self.tab);
        self.chromium.close();
    }
}
