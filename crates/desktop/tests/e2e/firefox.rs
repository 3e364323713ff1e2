//! The desktop in Firefox, by the same page. It takes a server by its hash since its version 125.

use quickset_lab::relay::Relay;
use serde_json::Value;

use super::firewall::Firewall;
use super::marionette::Marionette;
use super::page_scene::{ANYWHERE, Opening, PageScene, Seat};
use super::{LOSSY, UNICODE, seconds};

/// The certificate is accepted by nobody: its hash in the link is enough for QUIC.
#[tokio::test]
#[ignore = "needs X programs and Firefox: cargo xtask e2e"]
async fn firefox_sees_and_controls_the_desktop() {
    let between = async |server| {
        // Enough is lost for repair to have something to do in so short a time.
        let path: quickset_sim::LinkSpec = LOSSY.replace("loss=1%", "loss=3%").parse().unwrap();
        let relay = Relay::start(server, path.clone(), path, 7).unwrap();
        (relay.address(), relay)
    };
    let open = |opening: &Opening<'_>| FirefoxSeat::open(opening, false);
    let mut scene = PageScene::set("firefox", ANYWHERE, between, open).await;
    // Nobody has clicked yet.
    scene.type_keys(50).await;
    for (x, y) in [(20, 30), (780, 40), (400, 590)] {
        scene.lead_the_pointer(x, y).await;
    }
    scene.settle().await;
    assert_eq!(scene.way().await, "QUIC");
    scene.work(seconds()).await;
    scene.settle().await;
    scene.resize(760, 620).await;
    scene.settle().await;
    // In a worker of Firefox, too, repair replaces what was lost.
    let recovered: u64 = scene.figure("recovered by repair").await.parse().unwrap();
    scene.tell("firefox");
    let counts = scene.between.counts();
    println!("  path:  {counts:?}");
    assert!(counts.iter().all(|way| way.lost > 0), "{counts:?}");
    assert!(recovered > 0, "of {counts:?}");
    scene.end();
}

/// Firefox lets a page write to its clipboard for five seconds after a key or a click.
#[tokio::test]
#[ignore = "needs X programs and Firefox: cargo xtask e2e"]
async fn what_firefox_does_not_take_at_once_it_takes_with_the_next_click() {
    let open = |opening: &Opening<'_>| FirefoxSeat::open(opening, false);
    let mut scene = PageScene::set("firefox-text", ANYWHERE, async |server| (server, ()), open).await;
    // What the browser has taken is seen.
    scene.seat.evaluate(
        "(() => { const clipboard = navigator.clipboard, write = clipboard.writeText.bind(clipboard);
            window.took = '';
            clipboard.writeText = (text) => write(text).then(() => { window.took = text; }); })()",
    );
    let copied = super::texts::copier(&scene.desktop, UNICODE);
    scene.until("document.getElementById('notice').textContent.includes('Click into the page')").await;
    assert_eq!(scene.seat.evaluate("window.took"), "");
    let (x, y) = scene.seat.at;
    scene.seat.click(x, y);
    let took = format!("window.took === {}", serde_json::json!(UNICODE));
    scene.until(&took).await;
    drop(copied);
    scene.end();
}

/// DT-58, WB-19: once its user has accepted the certificate.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs X programs and Firefox: cargo xtask e2e"]
async fn firefox_goes_by_tcp_while_udp_does_not_get_through() {
    let between = async |server| {
        let firewall = Firewall::start(server, false).await;
        (firewall.address, firewall)
    };
    let open = |opening: &Opening<'_>| FirefoxSeat::open(opening, true);
    let mut scene = PageScene::set("firefox-tcp", ANYWHERE, between, open).await;
    println!("Firefox without UDP: the desktop {:?} after it was started", scene.opened);
    scene.goes_by("TCP").await;
    scene.until("document.getElementById('notice').textContent.startsWith('By TCP: UDP does not')").await;
    scene.type_keys(50).await;
    scene.settle().await;
    scene.between.set_open(true);
    let begun = std::time::Instant::now();
    scene.goes_by("QUIC").await;
    println!("  back by QUIC {:?} after UDP was let through", begun.elapsed());
    scene.settle().await;
    scene.between.set_open(false);
    let begun = std::time::Instant::now();
    scene.goes_by("TCP").await;
    println!("  by TCP {:?} after UDP was stopped", begun.elapsed());
    scene.settle().await;
    scene.end();
}

pub(crate) struct FirefoxSeat {
    browser: Marionette,
    /// Where the pointer is.
    at: (f64, f64),
}

impl FirefoxSeat {
    pub(crate) fn open(opening: &Opening<'_>, credulous: bool) -> Self {
        let mut browser = Marionette::start(opening.profile, credulous);
        browser.open(opening.url);
        Self { browser, at: (0.0, 0.0) }
    }
}

impl Seat for FirefoxSeat {
    fn evaluate(&mut self, expression: &str) -> Value {
        self.browser.evaluate(expression)
    }

    fn point(&mut self, x: f64, y: f64) {
        self.at = (x, y);
        self.browser.point(x, y, 0);
    }

    fn click(&mut self, x: f64, y: f64) {
        self.at = (x, y);
        self.browser.point(x, y, 1);
    }

    fn press(&mut self, key: char) {
        self.browser.press(key);
    }

    fn resize(&mut self, width: u16, height: u16) {
        self.browser.resize(width, height);
    }

    fn picture(&mut self) -> Vec<u8> {
        self.browser.picture()
    }

    fn close(self) {
        self.browser.close();
    }
}
