//! Firefox, headless, against `http serve`. It trusts no certificate but by a root that its profile has.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use super::served::{Served, signal};

/// A browser that goes when it is no longer needed.
struct Firefox(Child);

impl Firefox {
    fn visit(profile: &Path, url: &str) -> Self {
        let child = Command::new("firefox-esr")
            .args(["--headless", "--no-remote", "--profile"])
            .arg(profile)
            .arg(url)
            .stdin(Stdio::null())
            .spawn();
        Self(child.expect("cargo xtask interop installs Firefox"))
    }
}

impl Drop for Firefox {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program of the words of a line, in a folder.
fn run(folder: &Path, line: &str) {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap()).args(words).current_dir(folder).output();
    let output = output.expect("cargo xtask interop installs it");
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Leaves a certificate for `localhost` and its key in a folder, and a profile that trusts whoever signed it.
fn trusted(folder: &Path) {
    let make = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2";
    run(folder, &format!("{make} -subj /CN=root -keyout root.key -out root.pem"));
    run(
        folder,
        &format!(
            "{make} -subj /CN=localhost -extensions usr_cert -addext subjectAltName=DNS:localhost -CA root.pem -CAkey \
             root.key -keyout key.pem -out cert.pem"
        ),
    );
    fs::create_dir_all(folder.join("profile")).unwrap();
    run(folder, "certutil -N -d sql:profile --empty-password");
    run(folder, "certutil -A -d sql:profile -n root -t C,, -i root.pem");
    // A root that was not shipped with it otherwise keeps it from HTTP/3.
    let settings = [
        "network.http.http3.disable_when_third_party_roots_found",
        "browser.shell.checkDefaultBrowser",
        "datareporting.policy.dataSubmissionEnabled",
    ];
    let settings = settings.map(|name| format!("user_pref({name:?}, false);\n")).concat();
    fs::write(folder.join("profile/user.js"), settings).unwrap();
}

/// It begins by TCP, is told of HTTP/3, and goes on by that.
#[test]
#[ignore = "cargo xtask interop --case firefox"]
fn firefox_finds_http_3_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    trusted(folder.path());
    let identity = ["cert.pem", "key.pem"].map(|name| folder.path().join(name).display().to_string());
    let words = ["--access-log", "--cert", &identity[0], "--key", &identity[1]];
    let mut served = Served::bound("firefox", "[::]:0", &words);
    fs::write(served.folder.join("site/index.html"), PAGE).unwrap();
    let (tell, lines) = mpsc::channel();
    let log = BufReader::new(served.server.stderr.take().unwrap());
    std::thread::spawn(move || log.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));

    let port = served.address.rsplit(':').next().unwrap();
    let firefox = Firefox::visit(&folder.path().join("profile"), &format!("https://localhost:{port}/"));
    let mut log = Vec::new();
    while !log.last().is_some_and(|line: &String| line.contains("/shown?")) {
        let line = lines.recv_timeout(Duration::from_secs(60));
        log.push(line.unwrap_or_else(|_| panic!("the page was not shown: {log:#?}")));
    }
    drop(firefox);
    assert!(log.iter().any(|line| line.contains("\"GET / HTTP/2\" 200")), "{log:#?}");
    let shown = "\"GET /shown?first=h2&then=h3&good=true&large=h3 HTTP/3\"";
    assert!(log.iter().any(|line| line.contains(shown)), "{log:#?}");
    signal(&served.server, "-TERM");
    assert!(served.server.wait().unwrap().success());
}

/// Asks until an answer comes by HTTP/3, then for the large file, and tells the server what it saw.
const PAGE: &str = r#"<!doctype html><body><script>
(async () => {
  const by = path => performance.getEntriesByName(new URL(path, location).href)[0]?.nextHopProtocol;
  const end = Date.now() + 20000;
  let then = "";
  for (let i = 0; then != "h3" && Date.now() < end; i++) {
    await (await fetch("small.txt?" + i)).text();
    then = by("small.txt?" + i);
    await new Promise(done => setTimeout(done, 50));
  }
  const large = new Uint8Array(await (await fetch("large.bin")).arrayBuffer());
  const good = large.length == 3000000 && large.every((byte, i) => byte == i % 249);
  const first = performance.getEntriesByType("navigation")[0].nextHopProtocol;
  fetch(`shown?first=${first}&then=${then}&good=${good}&large=${by("large.bin")}`);
})();
</script>"#;
