//! The desktop in Chromium, by the page of `desktop serve --web`, over a path that loses 1 %.

use std::process::{Command, Stdio};
use std::time::Instant;

use quickset_lab::relay::Relay;
use serde_json::{Value, json};

use super::chromium::{Chromium, START, Tab};
use super::firewall::Firewall;
use super::page_scene::{ANYWHERE, Opening, PageScene, Seat};
use super::{KEYS, LOSSY, UNICODE, pin, seconds};

#[tokio::test]
#[ignore = "needs X programs and Chromium: cargo xtask e2e"]
async fn a_browser_sees_and_controls_the_desktop() {
    let between = async |server| {
        let path: quickset_sim::LinkSpec = LOSSY.parse().unwrap();
        let relay = Relay::start(server, path.clone(), path, 7).unwrap();
        (relay.address(), relay)
    };
    let mut scene = PageScene::set("browser", ANYWHERE, between, ChromiumSeat::open).await;
    scene.type_keys(KEYS).await;
    scene.settle().await;
    scene.work(seconds()).await;
    scene.resize(700, 500).await;
    scene.settle().await;
    scene.seat.may_use_the_clipboard();
    scene.carry_here(UNICODE, "navigator.clipboard.readText()").await;
    scene.carry_there(&UNICODE.chars().rev().collect::<String>()).await;
    scene.tell("browser");
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
    let between = async |server| {
        let firewall = Firewall::start(server, false).await;
        (firewall.address, firewall)
    };
    let mut scene = PageScene::set("browser-tcp", ANYWHERE, between, ChromiumSeat::open).await;
    println!("without UDP: the desktop {:?} after the tab was opened", scene.opened);
    scene.settle().await;
    assert_eq!(scene.way().await, "TCP");
    scene.type_keys(KEYS).await;
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

/// Chromium with a tab.
pub(crate) struct ChromiumSeat {
    chromium: Chromium,
    tab: Tab,
    /// Where the pointer is, and whether its left button is down.
    pointer: (f64, f64),
    is_down: bool,
}

impl ChromiumSeat {
    pub(crate) fn open(opening: &Opening<'_>) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", START, "sh", "--window-size=1000,760"]).env("QUICKSET_LINK_HOST", "127.0.0.1");
        shell.arg(format!("--user-data-dir={}", opening.profile.display()));
        // As if its user had accepted the certificate.
        let accepted = pin::base64(opening.fingerprint);
        shell.arg(format!("--ignore-certificate-errors-spki-list={accepted}"));
        let mut chromium = Chromium::start(shell.stderr(Stdio::null()));
        let tab = chromium.open(opening.url);
        // Whoever looks at the tab.
        chromium.ask(Some(&tab), "Emulation.setFocusEmulationEnabled", &json!({ "enabled": true }));
        Self { chromium, tab, pointer: (0.0, 0.0), is_down: false }
    }

    /// Presses the left button where the pointer is, or lets it go.
    pub(crate) fn hold(&mut self, is_down: bool) {
        self.is_down = is_down;
        let (what, (x, y)) = (if is_down { "mousePressed" } else { "mouseReleased" }, self.pointer);
        let event = json!({ "type": what, "x": x, "y": y, "button": "left", "clickCount": 1 });
        self.chromium.ask(Some(&self.tab), "Input.dispatchMouseEvent", &event);
    }

    pub(crate) fn may_use_the_clipboard(&mut self) {
        let origin = self.evaluate("location.origin");
        let permissions = json!({
            "origin": origin,
            "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"],
        });
        self.chromium.ask(None, "Browser.grantPermissions", &permissions);
    }
}

impl Seat for ChromiumSeat {
    fn evaluate(&mut self, expression: &str) -> Value {
        self.chromium.evaluate(&self.tab, expression)
    }

    fn point(&mut self, x: f64, y: f64) {
        self.pointer = (x, y);
        let (button, buttons) = if self.is_down { ("left", 1) } else { ("none", 0) };
        let event = json!({ "type": "mouseMoved", "x": x, "y": y, "button": button, "buttons": buttons });
        self.chromium.ask(Some(&self.tab), "Input.dispatchMouseEvent", &event);
    }

    fn click(&mut self, x: f64, y: f64) {
        for what in ["mousePressed", "mouseReleased"] {
            let event = json!({ "type": what, "x": x, "y": y, "button": "left", "clickCount": 1 });
            self.chromium.ask(Some(&self.tab), "Input.dispatchMouseEvent", &event);
        }
    }

    fn press(&mut self, key: char) {
        let code = format!("Key{}", key.to_ascii_uppercase());
        for (what, text) in [("keyDown", key.to_string()), ("keyUp", String::new())] {
            let event = json!({ "type": what, "key": key.to_string(), "code": code, "text": text });
            self.chromium.ask(Some(&self.tab), "Input.dispatchKeyEvent", &event);
        }
    }

    fn resize(&mut self, width: u16, height: u16) {
        let metrics = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false });
        self.chromium.ask(Some(&self.tab), "Emulation.setDeviceMetricsOverride", &metrics);
    }

    fn picture(&mut self) -> Vec<u8> {
        self.chromium.picture(&self.tab)
    }

    fn close(mut self) {
        self.chromium.shut(&self.tab);
        self.chromium.close();
    }
}
