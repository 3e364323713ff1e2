//! Chromium, headless, against `http serve`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::figures::{figures, with_figures};
use super::pin::base64;
use super::relay::{Relay, Weather};
use super::served::{Served, text};

/// What Chromium has made of a page, if there is Chromium.
fn visit(served: &Served, url: &str, words: &[&str]) -> Option<String> {
    let profile = served.folder.join("profile");
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-component-update"])
        .args(["--disable-background-networking", "--timeout=40000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("--ignore-certificate-errors-spki-list={}", base64(&served.pin)))
        .arg(format!("--log-net-log={}", served.folder.join("net.json").display()))
        .args(words)
        .arg(url)
        .stdin(Stdio::null())
        .output();
    match output {
        Ok(output) => Some(text(&output.stdout)),
        Err(error) => {
            eprintln!("skipped: Chromium cannot be run ({error}); apt-get install chromium");
            None
        }
    }
}

/// How often a type of event is in the browser's log of its network.
fn events(log: &Path, name: &str) -> usize {
    let log: Value = serde_json::from_slice(&fs::read(log).unwrap()).unwrap();
    let number = &log["constants"]["logEventTypes"][name];
    assert!(number.is_number(), "there are no events of type {name}");
    // Each has a beginning and an end, or is one of both.
    log["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|event| event["type"] == *number && event["phase"] != 2)
        .count()
}

/// It begins by TCP, is told of HTTP/3, and goes on by that.
#[test]
fn a_browser_finds_http_3_by_itself() {
    if std::net::UdpSocket::bind("[::]:0").is_err() {
        eprintln!("skipped: this system has no IPv6");
        return;
    }
    let mut served = Served::bound("altsvc", "[::]:0", &["--access-log"]);
    let page = r#"<!doctype html><body><script>
const end = Date.now() + 20000;
let protocol = "";
for (let i = 0; protocol != "h3" && Date.now() < end; i++) {
  const ask = new XMLHttpRequest();
  ask.open("GET", "small.txt?" + i, false);
  ask.send();
  protocol = performance.getEntriesByName(new URL("small.txt?" + i, location).href)[0]?.nextHopProtocol;
}
const first = performance.getEntriesByType("navigation")[0].nextHopProtocol;
document.body.textContent = "first by " + first + ", then by " + protocol;
</script>"#;
    fs::write(served.folder.join("site/index.html"), page).unwrap();
    let port = served.address.rsplit(':').next().unwrap();
    // The host is excused from a public root for QUIC; no port is forced onto it.
    let url = format!("https://localhost:{port}/");
    let Some(dom) = visit(&served, &url, &["--origin-to-force-quic-on=localhost:1"]) else { return };
    let log = served.stop();
    assert!(dom.contains("first by h2, then by h3"), "{dom}\n{log}");
    assert!(log.contains("\"GET / HTTP/2\" 200"), "{log}");
    assert!(log.contains(" HTTP/3\" 200 5 bytes"), "{log}");
    assert!(events(&served.folder.join("net.json"), "HTTP3_HEADERS_SENT") > 0);
}

/// A hundred images over one connection, whose client moves to another port while they come.
#[test]
fn a_page_of_images_is_loaded_across_a_change_of_ports() {
    let (served, address) = with_figures("images", &[]);
    let image = |i: usize| {
        let padding = "0123456789abcdef".repeat(1500);
        format!(
            "<svg xmlns='http://www.w3.org/2000/svg' width='{}' height='9'><!--{padding}--></svg>",
            10 + i
        )
    };
    let mut page = String::from("<!doctype html><body>\n");
    for i in 0..IMAGES {
        fs::write(served.folder.join(format!("site/{i}.svg")), image(i)).unwrap();
        let _ = writeln!(page, "<img src={i}.svg>");
    }
    page.push_str(
        r#"<p id=p>not loaded<script>
onload = () => {
  const good = [...document.images].filter((image, i) => image.naturalWidth == 10 + i).length;
  const by = performance.getEntriesByType("resource").filter(entry => entry.nextHopProtocol == "h3").length;
  p.textContent = good + " images, " + by + " by h3";
};
</script>"#,
    );
    fs::write(served.folder.join("site/index.html"), page).unwrap();
    let weather = Weather { move_each: 500, ..Weather::default() };
    let relay = Relay::new(served.address.parse().unwrap(), weather);
    let force = format!("--origin-to-force-quic-on={}", relay.address);
    let Some(dom) = visit(&served, &format!("https://{}/", relay.address), &[&force]) else { return };
    assert!(dom.contains(&format!("{IMAGES} images, {IMAGES} by h3")), "{dom}");
    assert!(relay.moved() > 0);
    let all = figures(&address);
    assert!(all["quickset_path_moves_total"] > 0, "{all:?}");
    assert!(all["quickset_http_requests_total{version=\"HTTP/3\",status=\"2xx\"}"] > IMAGES as u64);
    // A browser may have its own reasons for a second connection, but does not begin anew with each port.
    let accepted = all["quickset_connections_accepted_total"];
    assert!(accepted <= relay.moved(), "{accepted} connections, {} moves", relay.moved());
    assert!(events(&served.folder.join("net.json"), "HTTP3_HEADERS_SENT") > IMAGES);
}

const IMAGES: usize = 100;
