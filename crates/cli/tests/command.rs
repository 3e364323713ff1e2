//! The command as its users meet it: arguments, exit codes, files and JSON.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn quickset(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_quickset")).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// An empty folder that goes away again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quickset-{name}-{}", std::process::id()));
        // Of one that was killed, in another container.
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn slips_in_arguments_are_usage_errors_that_say_what_to_write() {
    let slips: [(&[&str], &str); 23] = [
        (&["demo", "--rate", "100"], "mbit"),
        (&["demo", "--rtt", "100"], "like 50ms"),
        (&["demo", "--loss", "2"], "0.5%"),
        (&["demo", "--pace", "0"], "1..=100"),
        (&["demo", "--queue", "0"], "1500B"),
        (&["demo", "--queue", "0packets"], "1500B"),
        (&["demo", "--queue", "codel:5ms,100ms,1kB"], "1500B"),
        (&["demo", "--cc", "vegas"], "bbr, cubic, newreno"),
        (&["demo", "--fec", "auto"], "adaptive[:bulk|screen|messages]"),
        (&["perf", "server", "--fec", "rs:90/100"], "its N is below its K"),
        (&["desktop", "view", "localhost", "--fec", "fixed:0"], "not whole, zero"),
        (&["desktop", "view", "localhost:99999"], "1 to 65535"),
        (&["desktop", "view", "localhost:"], "1 to 65535"),
        (&["desktop", "view", "[::1"], "[2001:db8::7]:4433"),
        (&["desktop", "serve", "--vnc", "127.0.0.1:99999"], "1 to 65535"),
        (&["desktop", "view", "localhost", "--force"], "--record"),
        (&["desktop", "play", "a.qsr", "--from", "1:60"], "like 90 or 1:30"),
        (&["desktop", "play", "a.qsr", "--speed", "0"], "from 0.0625 to 64"),
        (&["desktop", "play"], "FILE"),
        (&["perf", "client", "localhost", "--insecure"], "HOST:PORT"),
        (&["perf", "client", "localhost:1"], "--pin"),
        (&["perf", "client", "localhost:1", "--pin", "sha256:12"], "sha256"),
        (&["cert", "new"], "NAME"),
    ];
    for (words, hint) in slips {
        let output = quickset(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(hint), "{words:?}: {}", text(&output.stderr));
        assert!(output.stdout.is_empty(), "{words:?}");
    }
    assert_eq!(quickset(&[]).status.code(), Some(2));
    assert_eq!(quickset(&["--help"]).status.code(), Some(0));
    assert_eq!(quickset(&["--version"]).status.code(), Some(0));
}

#[test]
fn a_short_demo_prints_its_findings_as_json_and_writes_the_report() {
    let folder = Folder::new("demo");
    let report = folder.0.join("report.html");
    let output = quickset(&[
        "demo",
        "--seconds",
        "1",
        "--pace",
        "10",
        "--json",
        "--seed",
        "5",
        "-o",
        report.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(findings["link"]["rtt_ms"], 100.0);
    assert_eq!(findings["link"]["seed"], 5);
    let modes = findings["modes"].as_array().unwrap();
    let names: Vec<_> = modes.iter().map(|mode| mode["mode"].as_str().unwrap()).collect();
    assert_eq!(names, ["total", "partial", "partial+fec", "latest"]);
    for mode in modes {
        assert_eq!(mode["updates_per_s"], 10);
        assert_eq!(mode["repair_bytes"].as_u64().unwrap() > 0, mode["mode"] == "partial+fec");
        assert_eq!(mode["picture_equal"], true);
        let share = mode["blocked_share"].as_f64().unwrap();
        assert!((0.0..=1.0).contains(&share), "{share}");
        assert_eq!(mode["updates"], 10);
        assert!(mode["whole_update_ms"]["p50"].as_f64().unwrap() >= 50.0, "faster than the link: {mode}");
        for measure in ["blocking_ms", "inter_delivery_ms", "whole_update_ms"] {
            let mut last = 0.0;
            for percentile in ["p50", "p70", "p80", "p90", "p95", "p98", "p99", "p999", "p9995", "max"] {
                let value = mode[measure][percentile].as_f64().unwrap();
                assert!(value >= last, "{measure} {percentile}");
                last = value;
            }
            assert!(mode[measure]["mean"].as_f64().unwrap() <= last);
        }
    }
    let page = std::fs::read_to_string(report).unwrap();
    assert!(page.contains("--seed 5") && page.contains("<svg"));
}

#[test]
fn a_certificate_is_made_once_and_its_key_is_private() {
    let folder = Folder::new("cert");
    let words = ["cert", "new", "desk.example.net", "192.0.2.7", "-o", folder.path()];
    let output = quickset(&words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let fingerprint = text(&output.stdout);
    assert!(fingerprint.starts_with("sha256:") && fingerprint.lines().count() == 1, "{fingerprint}");
    let key = folder.0.join("key.pem");
    assert!(std::fs::read_to_string(&key).unwrap().contains("PRIVATE KEY"));
    #[cfg(unix)]
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&key).unwrap()) & 0o777, 0o600);

    let before = std::fs::read(&key).unwrap();
    let other = folder.0.join("other");
    std::fs::create_dir(&other).unwrap();
    let output = quickset(&["cert", "new", "localhost", "--json", "-o", other.to_str().unwrap()]);
    let made: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(made["fingerprint"].as_str().unwrap().starts_with("sha256:"));
    assert!(Path::new(made["key"].as_str().unwrap()).exists());

    // JSON is text, and what folders are called need not be.
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let strange = folder.0.join(std::ffi::OsStr::from_bytes(b"\xff"));
        std::fs::create_dir(&strange).unwrap();
        let words = ["cert", "new", "localhost", "--json", "-o"];
        let output = Command::new(env!("CARGO_BIN_EXE_quickset")).args(words).arg(&strange).output().unwrap();
        let made: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(made["key"].as_str().unwrap().ends_with("\u{fffd}/key.pem"), "{made}");
        assert!(strange.join("key.pem").exists());
    }

    let again = quickset(&words);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("exists"));
    assert_eq!(std::fs::read(&key).unwrap(), before);
}

/// A server that runs as long as this does, with the address and the fingerprint that it printed.
struct Server {
    child: Child,
    address: String,
    pin: String,
}

impl Server {
    fn start(words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args(["perf", "server", "--listen", "127.0.0.1:0"])
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["listening", "on", address, pin] = words[..] else { panic!("{line}") };
        let (address, pin) = (address.to_owned(), pin.to_owned());
        Self { child, address, pin }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn new_certificate(folder: &Folder) -> (String, String, String) {
    let pin = text(&quickset(&["cert", "new", "localhost", "-o", folder.path()]).stdout);
    let file = |name: &str| Path::new(folder.path()).join(name).to_str().unwrap().to_owned();
    (file("cert.pem"), file("key.pem"), pin.trim().to_owned())
}

#[test]
fn perf_measures_both_ways_between_processes() {
    let folder = Folder::new("perf");
    let (cert, key, pin) = new_certificate(&folder);
    let server = Server::start(&["--cert", &cert, "--key", &key]);
    assert_eq!(server.pin, pin);
    let ways: [&[&str]; 4] = [
        &[],
        &["--upload"],
        &["--no-gso", "--mtu", "1200", "--cc", "bbr"],
        &["--upload", "--fec", "fixed:20"],
    ];
    for way in ways {
        let words = ["perf", "client", &server.address, "--pin", &server.pin, "--bytes", "10MB", "--json"];
        let output = quickset(&[&words, way].concat());
        assert_eq!(output.status.code(), Some(0), "{way:?}: {}", text(&output.stderr));
        let speed: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(speed["bytes"], 10_000_000, "{way:?}");
        assert!(speed["bits_per_second"].as_f64().unwrap() > 0.0);
        assert!(speed["packets"].as_u64().unwrap() >= 10_000_000 / 1452, "{way:?}");
        assert!(speed["lost"].is_u64());
        let [symbols, repairs] = ["symbols", "repairs"].map(|n| speed["fec"][n].as_u64().unwrap());
        let protected = way.contains(&"--fec");
        assert_eq!(symbols > 10_000_000 / 1452, protected, "{way:?}: {symbols}");
        assert_eq!(repairs > symbols / 25, protected, "{way:?}: {repairs} of {symbols}");
        for cost in ["cpu_s_per_gb_client", "cpu_s_per_gb_server"] {
            assert_eq!(speed[cost].is_f64(), cfg!(target_os = "linux"), "{cost}");
        }
    }
}

#[test]
fn a_server_with_another_key_is_refused_and_an_unchecked_one_warned_of() {
    let server = Server::start(&[]);
    let wrong = format!("sha256:{}", "0".repeat(64));
    let output = quickset(&["perf", "client", &server.address, "--pin", &wrong, "--bytes", "1kB"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    let said = text(&output.stderr);
    assert!(said.contains(&format!("is {}, expected was {wrong}", server.pin)), "{said}");
    assert!(said.contains("pin that (") && !said.contains("running there"), "{said}");
    let output = quickset(&["perf", "client", &server.address, "--insecure", "--bytes", "1kB"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("warning"));
    assert!(text(&output.stdout).contains("Gbit/s"));
}

#[test]
fn where_nobody_answers_a_pin_is_only_asked_about_when_there_is_one() {
    let silent = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let pin = format!("sha256:{}", "0".repeat(64));
    for (trust, asked) in [(&["--pin", &pin][..], true), (&["--insecure"], false)] {
        let words = [&["perf", "client", &address, "--timeout", "1s", "--bytes", "1kB"], trust].concat();
        let said = text(&quickset(&words).stderr);
        assert!(said.contains("is `quickset perf server` running there"), "{said}");
        assert_eq!(said.contains("pin"), asked, "{said}");
    }
}

/// Lines of a program that runs in the background, and its end when this goes.
struct Running(Child, std::io::Lines<BufReader<std::process::ChildStdout>>);

impl Running {
    fn start(home: &Path, words: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args(words)
            .env("XDG_DATA_HOME", home)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self(child, lines)
    }

    /// What stands behind these words in the next line.
    fn says(&mut self, begin: &str) -> String {
        let line = self.1.next().unwrap().unwrap();
        line.strip_prefix(begin).unwrap_or_else(|| panic!("{line}")).to_owned()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_key_of_ones_own_is_registered_by_token() {
    let folder = Folder::new("own-key");
    let (cert, key, pin) = new_certificate(&folder);
    let both = folder.0.join("both.pem");
    std::fs::copy(&key, &both).unwrap();
    let pem = [cert, key].map(|file| std::fs::read_to_string(file).unwrap()).concat();
    std::fs::write(&both, pem).unwrap();
    // The VNC server need not be there.
    let serve = ["desktop", "serve", "--vnc", "127.0.0.1:9", "--listen", "127.0.0.1:0"];
    let mut serve = Running::start(&folder.0.join("server"), &serve);
    let place = serve.says("listening on ");
    let (address, server) = place.split_once(' ').unwrap();
    let token = serve.says("token ");
    let view = ["desktop", "view", address, "--listen", "127.0.0.1:0", "--pin", server];
    let file = folder.0.join("token");
    std::fs::write(&file, format!("{token}\n")).unwrap();
    let own = ["--key", both.to_str().unwrap(), "--token-file", file.to_str().unwrap()];
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = |mode| std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        mode(0o644);
        let refused = Command::new(env!("CARGO_BIN_EXE_quickset"))
            .args([&view[..], &own].concat())
            .env("XDG_DATA_HOME", folder.0.join("client"))
            .output()
            .unwrap();
        assert!(!refused.status.success(), "others can read the token");
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(said.contains("600") && !said.contains(&token), "{said}");
        mode(0o600);
    }
    let mut view = Running::start(&folder.0.join("client"), &[&view[..], &own].concat());
    view.says("listening on ");
    let list = folder.0.join("server/quickset/authorized_clients");
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !std::fs::read_to_string(&list).is_ok_and(|text| text.contains(&pin)) {
        assert!(std::time::Instant::now() < limit, "the key is not registered");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

/// Who is not known yet is asked for the token, on a terminal, and comes in by it; words that are no token
/// are not taken for one.
#[test]
#[cfg(target_os = "linux")]
fn a_token_is_asked_for_on_a_terminal() {
    let folder = Folder::new("asked");
    let serve = ["desktop", "serve", "--vnc", "127.0.0.1:9", "--listen", "127.0.0.1:0"];
    let mut serve = Running::start(&folder.0.join("server"), &serve);
    let place = serve.says("listening on ");
    let (address, pin) = place.split_once(' ').unwrap();
    let token = serve.says("token ");
    // script(1) gives it a terminal, and runs a shell there, which an interrupt would reach as well.
    let command = format!(
        "exec {} desktop view {address} --listen 127.0.0.1:0 --pin {pin}",
        env!("CARGO_BIN_EXE_quickset")
    );
    let mut view = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .env("XDG_DATA_HOME", folder.0.join("client"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut keys, mut shown) = (view.stdin.take().unwrap(), view.stdout.take().unwrap());
    let mut all = String::new();
    let mut until = |words: &str| {
        let mut part = [0; 4096];
        while !all.contains(words) {
            let read = shown.read(&mut part).unwrap();
            assert_ne!(read, 0, "it ends without {words:?}: {all}");
            all += &String::from_utf8_lossy(&part[..read]);
        }
        all.clear();
    };
    until("token that the server has printed: ");
    keys.write_all(b"what token?\n").unwrap();
    until("five groups");
    keys.write_all(format!("{token}\n").as_bytes()).unwrap();
    until("connected to ");
    // What was typed for it reaches it: Ctrl-C.
    keys.write_all(b"\x03").unwrap();
    let mut rest = String::new();
    shown.read_to_string(&mut rest).unwrap();
    let status = view.wait().unwrap();
    assert!(status.success(), "{status}: {rest}");
}

/// The records of a trace: each whole, between a record separator and a line feed.
fn records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let texts = text.strip_prefix('\u{1e}').unwrap().split('\u{1e}');
    texts.map(|text| serde_json::from_str(text.strip_suffix('\n').unwrap()).unwrap()).collect()
}

#[test]
fn both_ends_of_a_connection_leave_traces_even_when_they_are_killed() {
    let folder = Folder::new("qlog");
    let (here, there) = (folder.0.join("here"), folder.0.join("deep/there"));
    let server = Server::start(&["--qlog", there.to_str().unwrap()]);
    let words =
        ["perf", "client", &server.address, "--pin", &server.pin, "--bytes", "1MB", "--connections", "2"];
    let output = quickset(&[&words, &["--qlog", here.to_str().unwrap()][..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // The client has said goodbye, and the server hears of it when it gets round to that.
    let closed =
        |path: &Path| std::fs::read_to_string(path).unwrap().contains("connectivity:connection_closed");
    let begun = std::time::Instant::now();
    while std::fs::read_dir(&there).unwrap().filter(|file| closed(&file.as_ref().unwrap().path())).count() < 2
    {
        assert!(begun.elapsed() < std::time::Duration::from_secs(20), "the server hears of no end");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    drop(server);
    let names = |folder: &Path, side: &str| {
        let names = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
        let mut ids: Vec<_> =
            names.map(|name| name.strip_suffix(&format!("_{side}.sqlog")).unwrap().to_owned()).collect();
        ids.sort();
        ids
    };
    let ids = names(&here, "client");
    assert_eq!(
        (ids.len(), &ids),
        (2, &names(&there, "server")),
        "a file for each connection, matched by name"
    );
    let mut taken = 0;
    for id in ids {
        for path in [here.join(format!("{id}_client.sqlog")), there.join(format!("{id}_server.sqlog"))] {
            let records = records(&path);
            assert_eq!(records[0]["qlog_version"], "0.3");
            let reference = records[0]["trace"]["common_fields"]["reference_time"].as_f64().unwrap();
            assert!(reference > 1.7e12, "milliseconds since 1970: {reference}");
            let count = |name: &str| records.iter().filter(|record| record["name"] == name).count();
            assert_eq!(count("connectivity:connection_started"), 1);
            assert_eq!(count("connectivity:connection_closed"), 1, "{}", path.display());
            taken += count("transport:packet_received");
        }
    }
    assert!(taken > 1_000_000 / 1452, "{taken} packets");
}

#[test]
fn a_folder_for_traces_that_cannot_be_made_is_a_failure_that_says_so() {
    let output = quickset(&["perf", "server", "--listen", "127.0.0.1:0", "--qlog", "/dev/null/traces"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--qlog"), "{}", text(&output.stderr));
    let output =
        quickset(&["demo", "--seconds", "1", "--pace", "10", "--json", "--qlog", "/dev/null/traces"]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("/dev/null/traces;") && said.contains("--qlog"), "{said}");
}

#[test]
fn a_recording_of_real_time_says_that_it_has_no_packets() {
    let folder = Folder::new("recorded");
    let (out, kept) = (folder.0.join("out"), folder.0.join("kept"));
    let words = "lab run screen-streaming --set updates=1 --set messages=5 --set mode=partial --set profile=ours \
                 --set fec=none --set loss=0 --seeds 1";
    let run = |how: &[&str]| {
        let words: Vec<&str> = words.split_whitespace().collect();
        let places = ["-o", out.to_str().unwrap(), "--record", kept.to_str().unwrap()];
        let output = quickset(&[&words[..], &places, how].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let run = std::fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
        let mut endings: Vec<String> = std::fs::read_dir(run)
            .unwrap()
            .map(|file| file.unwrap().path().extension().unwrap().to_str().unwrap().to_owned())
            .collect();
        endings.sort();
        std::fs::remove_dir_all(&kept).unwrap();
        (text(&output.stderr), endings)
    };
    let (said, endings) = run(&["--real"]);
    assert_eq!(endings, ["json", "sqlog", "sqlog"]);
    assert!(said.starts_with("quickset: ") && said.contains("no packets"), "{said}");
    let (said, endings) = run(&[]);
    assert_eq!(endings, ["json", "pcap", "pcap", "sqlog", "sqlog"]);
    assert!(!said.contains("no packets"), "{said}");
}
