//! What a newcomer does once Quickset is installed: `desktop serve --web` has printed a link, the link is
//! opened in Chromium, and the desktop is there, pixel by pixel. `cargo xtask dist check deb` runs it beside
//! a minimal Debian, in whose network it is.
//!
//! QUICKSET_NEWCOMER_SERVE is the file that `desktop serve` prints to, QUICKSET_NEWCOMER_VNC the address of
//! its VNC server, QUICKSET_NEWCOMER_BEGUN when installing began (seconds since 1970), and
//! QUICKSET_NEWCOMER_PICTURE the file for what the tab shows, as PNG.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "../e2e/canvas.rs"]
mod canvas;
#[expect(dead_code, reason = "nothing is asked of a worker here")]
#[path = "../../../cli/tests/players/chromium.rs"]
mod chromium;
#[path = "../e2e/look.rs"]
mod look;
#[expect(dead_code, reason = "as much of it as a viewer needs that only looks")]
#[path = "../gateway/person.rs"]
mod person;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use canvas::CANVAS_SUM;
use chromium::{Chromium, START, Tab};
use person::Person;

/// From when installing begins until the desktop is seen.
const LIMIT: Duration = Duration::from_secs(60);
/// Fewer colours than a desktop has with a pattern in two of them and black on white before it.
const COLOURS: usize = 4;

#[tokio::test]
#[ignore = "needs a system with the package: cargo xtask dist check deb"]
async fn a_desktop_is_seen_a_minute_after_installing() {
    let told = |name: &str| std::env::var(format!("QUICKSET_NEWCOMER_{name}")).unwrap();
    let begun = SystemTime::UNIX_EPOCH + Duration::from_secs_f64(told("BEGUN").parse().unwrap());
    let link = link(Path::new(&told("SERVE"))).await;
    let opened = begun.elapsed().unwrap();
    assert!(link.starts_with("http://localhost:"), "a link for this machine: {link}");
    // Somebody who sits before the desktop itself.
    let mut near = Person::sit(told("VNC").parse().unwrap()).await;
    let profile = Folder::new();
    let mut browser = std::process::Command::new("sh");
    browser.args(["-c", START, "sh", "--window-size=1000,760"]).env("QUICKSET_LINK_HOST", "127.0.0.1");
    browser.arg(format!("--user-data-dir={}", profile.0.display()));
    let mut chromium = Chromium::start(browser.stderr(std::process::Stdio::null()));
    let tab = chromium.open(&link);
    wait_for(&mut chromium, &tab, &mut near).await;
    let seen = begun.elapsed().unwrap();
    std::fs::write(told("PICTURE"), chromium.picture(&tab)).unwrap();
    let way = way(&mut chromium, &tab, &mut near).await;
    let (width, height) = (near.screen.width(), near.screen.height());
    println!(
        "newcomer: the link after {:.1} s, the desktop ({width}x{height}, by {way}) after {:.1} s",
        opened.as_secs_f64(),
        seen.as_secs_f64()
    );
    // Nobody has told the browser to trust the server: with TCP it would not.
    assert_eq!(way, "QUIC");
    assert!(seen < LIMIT, "it took {seen:?}");
    chromium.shut(&tab);
    chromium.close();
}

/// Waits for the link in what the server prints.
async fn link(file: &Path) -> String {
    let end = Instant::now() + LIMIT;
    loop {
        let printed = std::fs::read_to_string(file).unwrap_or_default();
        // Of the last line more may be to come.
        let whole = printed.rsplit_once('\n').map_or("", |(whole, _)| whole);
        if let Some(link) = whole.lines().find_map(|line| line.strip_prefix("open ")) {
            return link.to_owned();
        }
        assert!(Instant::now() < end, "no link is printed: {printed}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits until the page shows what the server does, and that is a desktop.
async fn wait_for(chromium: &mut Chromium, tab: &Tab, near: &mut Person) {
    let end = Instant::now() + LIMIT;
    loop {
        near.look(Duration::from_millis(20)).await;
        let colours = near.screen.pixels().iter().collect::<BTreeSet<_>>().len();
        let width = chromium.evaluate(tab, "document.getElementById('screen')?.dataset.width ?? ''");
        let is_there = width != "" && chromium.evaluate(tab, CANVAS_SUM) == near.screen.crc32();
        if is_there && colours >= COLOURS {
            return;
        }
        if Instant::now() > end {
            let says = chromium.evaluate(tab, "document.getElementById('notice')?.textContent ?? ''");
            let size = &near.screen;
            panic!(
                "the page shows nothing, or something else; it is {width:?} wide and says {says}; the server has {size:?} in {colours} colours"
            );
        }
    }
}

/// By which way the page says that it looks.
async fn way(chromium: &mut Chromium, tab: &Tab, near: &mut Person) -> String {
    let figure = "document.querySelector('#figures dd')?.textContent.split(':')[0] ?? ''";
    let end = Instant::now() + LIMIT;
    loop {
        let way = chromium.evaluate(tab, figure);
        if let Some(way) = way.as_str().filter(|way| !way.is_empty()) {
            return way.to_owned();
        }
        assert!(Instant::now() < end, "the page tells no figures");
        near.look(Duration::from_millis(100)).await;
    }
}

/// What the browser keeps; gone after the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("newcomer-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // The browser may still write when the test has failed.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
