//! `quickset link` as its users meet it. Interfaces and namespaces take root and /dev/net/tun; without them
//! these tests say so and check nothing.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const QUICKSET: &str = env!("CARGO_BIN_EXE_quickset");

/// True when tests about interfaces have to be left out, which it says.
fn skipped() -> bool {
    let root = text(&Command::new("id").arg("-u").output().unwrap().stdout).trim() == "0";
    let node = fs::OpenOptions::new().read(true).write(true).open("/dev/net/tun");
    let unshare =
        || Command::new("unshare").args(["-n", "true"]).status().is_ok_and(|status| status.success());
    let may = root && node.is_ok() && unshare();
    if !may {
        eprintln!("SKIPPED: it takes root, /dev/net/tun and namespaces");
    }
    !may
}

fn link(words: &[&str]) -> Output {
    Command::new(QUICKSET).arg("link").args(words).stdin(Stdio::null()).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// An empty folder that everybody may use, and that goes away again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("quickset-link-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Waits until it holds, ten seconds at most.
fn until(what: &str, holds: impl Fn() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(10), "it does not come true that {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How a program ends, which it does soon.
fn ended(child: &mut Child) -> ExitStatus {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if started.elapsed() > Duration::from_secs(10) {
            child.kill().unwrap();
            panic!("the program has not ended");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// True while a process of this number runs; one that is not waited for yet runs no more.
fn runs(id: &str) -> bool {
    let status = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    status.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Starts a link whose program prepares, tells its process id and address, and then sleeps.
fn sleeper(prepare: &str, command: &str) -> (Child, String, String) {
    let script = format!("{prepare}; echo $$ $QUICKSET_LINK_HOST; {command}");
    let mut child = Command::new(QUICKSET)
        .args(["link", "-q", "--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (id, host) = line.trim().split_once(' ').unwrap();
    (child, id.to_owned(), host.to_owned())
}

/// True while an interface of this namespace has the address.
fn is_here(address: &str) -> bool {
    fs::read_to_string("/proc/net/fib_trie")
        .unwrap()
        .lines()
        .any(|line| line.ends_with(&format!("-- {address}")))
}

fn signal(id: u32, name: &str) {
    let status = Command::new("sh").args(["-c", &format!("kill -s {name} {id}")]).status().unwrap();
    assert!(status.success());
}

#[test]
fn slips_are_usage_errors_that_say_what_to_write() {
    let slips: [(&[&str], &str); 6] = [
        (&[], "COMMAND"),
        (&["--rate", "100", "true"], "like 100mbit"),
        (&["--up-loss", "2", "true"], "0.5%"),
        (&["--down-link", "speed=1", "true"], "rate, delay"),
        (&["--mtu", "100", "true"], "576"),
        (&["--delays", "5ms", "true"], "--delay"),
    ];
    for (words, hint) in slips {
        let output = link(words);
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output.stderr).contains(hint), "{words:?}: {}", text(&output.stderr));
    }
}

#[test]
fn the_program_keeps_its_streams_and_its_status() {
    if skipped() {
        return;
    }
    let output = link(&["sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(output.status.code(), Some(7));
    assert_eq!(text(&output.stdout), "out\n");
    let told = text(&output.stderr);
    assert!(told.contains("err\n") && told.contains("the link has carried"), "{told}");
    let output = link(&["-q", "sh", "-c", "kill -TERM $$"]);
    assert_eq!(output.status.code(), Some(128 + 15));
    assert_eq!(text(&output.stderr), "");
    for (program, code) in [("quickset-no-such-program", 127), ("/proc/self/status", 126)] {
        let output = link(&["-q", program]);
        assert_eq!(output.status.code(), Some(code), "{program}");
        assert!(text(&output.stderr).contains(program), "{}", text(&output.stderr));
    }
    // What is written into it arrives.
    let mut child = Command::new(QUICKSET)
        .args(["link", "-q", "cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through").unwrap();
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(told, "through");
    assert_eq!(ended(&mut child).code(), Some(0));
}

#[test]
fn signals_reach_the_program_and_nothing_stays() {
    if skipped() {
        return;
    }
    // Not INT: a shell that runs the tests in the background has it ignored, and what is ignored cannot be
    // trapped.
    let (mut child, program, host) = sleeper("trap 'exit 9' TERM", "while :; do sleep 0.05; done");
    assert!(is_here(&host));
    signal(child.id(), "TERM");
    assert_eq!(ended(&mut child).code(), Some(9));
    assert!(!runs(&program) && !is_here(&host));
    let (mut child, program, host) = sleeper(":", "exec sleep 60");
    signal(child.id(), "TERM");
    assert_eq!(ended(&mut child).code(), Some(128 + 15));
    assert!(!runs(&program) && !is_here(&host));
    // Not even when it has no time to tidy up.
    let (mut child, program, host) = sleeper(":", "exec sleep 60");
    signal(child.id(), "KILL");
    ended(&mut child);
    until("the program ends", || !runs(&program));
    until("the interface goes", || !is_here(&host));
}

/// What the programs have started may outlive a link that is killed; it has no network then.
#[test]
fn of_a_link_that_is_killed_nothing_has_a_network() {
    if skipped() {
        return;
    }
    let folder = Folder::new("killed");
    let far = folder.file("far");
    let server = format!("echo $$ > {far}; {QUICKSET_SERVER}");
    let mut child = Command::new(QUICKSET)
        .env("QUICKSET", QUICKSET)
        .args(["link", "-q", "--far", &server, "--", "sh", "-c", "sleep 60 & echo $$ $!; wait"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let (program, started) = line.trim().split_once(' ').unwrap();
    let devices = || fs::read_to_string(format!("/proc/{started}/net/dev")).unwrap();
    assert!(devices().contains("quickset"), "{}", devices());
    signal(child.id(), "KILL");
    ended(&mut child);
    let far = fs::read_to_string(far).unwrap();
    until("both programs end", || !runs(program) && !runs(far.trim()));
    until("the way out goes", || !devices().contains("quickset"));
    assert!(runs(started), "it is of no concern to the link");
    signal(started.parse().unwrap(), "KILL");
}

/// A device goes with its last descriptor, and whoever has one reads what others send.
#[test]
fn programs_get_no_descriptors_of_the_link() {
    if skipped() {
        return;
    }
    let script = "ls /proc/self/fd";
    let plain = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).output().unwrap();
    assert_eq!(text(&link(&["-q", "--", "sh", "-c", script]).stdout), text(&plain.stdout));
}

#[test]
fn several_links_have_addresses_of_their_own() {
    if skipped() {
        return;
    }
    let mut sleepers: Vec<_> = (0..3).map(|_| sleeper(":", "exec sleep 60")).collect();
    let mut hosts: Vec<_> = sleepers.iter().map(|(_, _, host)| host.clone()).collect();
    assert!(hosts.iter().all(|host| is_here(host)), "{hosts:?}");
    hosts.sort();
    hosts.dedup();
    assert_eq!(hosts.len(), 3);
    for (child, ..) in &mut sleepers {
        signal(child.id(), "TERM");
        ended(child);
    }
    assert!(!hosts.iter().any(|host| is_here(host)), "{hosts:?}");
}

#[test]
fn servers_of_the_host_are_reached_and_the_report_counts() {
    if skipped() {
        return;
    }
    let folder = Folder::new("report");
    let report = folder.file("report.json");
    let mut server = Command::new(QUICKSET)
        .args(["perf", "server", "--listen", "0.0.0.0:0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let port = line.split_whitespace().find_map(|word| word.strip_prefix("0.0.0.0:")).unwrap();
    let client = format!("{QUICKSET} perf client $QUICKSET_LINK_HOST:{port} --insecure --bytes 2MB --json");
    let words = ["--down-rate", "20mbit", "--delay", "10ms", "--down-loss", "1%", "--down-queue", "500kB"];
    let rest = ["--seed", "3", "--report", &report, "--", "sh", "-c", &client];
    let output = link(&[&words[..], &rest].concat());
    server.kill().unwrap();
    ended(&mut server);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let speed: Value = serde_json::from_slice(&output.stdout).unwrap();
    let bps = speed["bits_per_second"].as_f64().unwrap();
    assert!(bps < 20e6, "{bps}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    assert_eq!(report["seed"], 3);
    assert_eq!(report["exit_code"], 0);
    assert_eq!(report["up"]["link"], "delay=10ms");
    assert_eq!(report["down"]["link"], "rate=20mbit delay=10ms queue=500kB loss=1%");
    let count = |way: &str, what: &str| report[way][what].as_u64().unwrap();
    assert!(count("down", "bytes") > 2_000_000, "{report:#}");
    assert!(count("down", "lost") > 0 && count("up", "lost") == 0, "{report:#}");
    for way in ["up", "down"] {
        let gone =
            ["lost", "dropped_full_queue", "dropped_by_aqm", "dropped_oversized"].map(|why| count(way, why));
        assert_eq!(count(way, "packets"), count(way, "delivered") + gone.iter().sum::<u64>(), "{report:#}");
    }
    assert!(count("down", "peak_queue_bytes") <= 500_000, "{report:#}");
    let late = |what: &str| report["lateness_ms"][what].as_f64().unwrap();
    assert!(late("p50") > 0.0 && late("p50") <= late("p99"), "{report:#}");
}

/// Shell commands for the far side and the near one.
const QUICKSET_SERVER: &str = "exec \"$QUICKSET\" perf server --listen 0.0.0.0:4433";
const QUICKSET_CLIENT: &str =
    "exec \"$QUICKSET\" perf client $QUICKSET_LINK_HOST:4433 --insecure --bytes 100kB --json";

#[test]
fn both_ends_run_inside() {
    if skipped() {
        return;
    }
    let ended = |server: &str, words: &[&str]| {
        Command::new(QUICKSET)
            .env("QUICKSET", QUICKSET)
            .args(["link", "--delay", "10ms", "--far", server, "--"])
            .args(words)
            .output()
            .unwrap()
    };
    let output = ended(QUICKSET_SERVER, &["sh", "-c", QUICKSET_CLIENT]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("\"bytes\""), "{}", text(&output.stdout));
    // The far command ends with the program, and what it has started too.
    let folder = Folder::new("far");
    let file = folder.file("id");
    let server = format!("sh -c 'echo $$ > {file}; {QUICKSET_SERVER}' & wait");
    let output = ended(&server, &["true"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let id = fs::read_to_string(&file).unwrap();
    until("the server ends", || !runs(id.trim()));
    let output = ended("exit 3", &["echo", "never"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("before it listened"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
}

/// The words of a command that runs as nobody, with a device of devices of this mode, whatever the system's
/// is.
fn as_nobody(folder: &Folder, mode: &str) -> Command {
    let node = folder.file("tun");
    let script = format!(
        "mknod -m {mode} {node} c 10 200 && mount --bind {node} /dev/net/tun && \
         exec setpriv --reuid 65534 --regid 65534 --clear-groups \"$@\""
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh", QUICKSET, "link"]).env("QUICKSET", QUICKSET);
    command
}

#[test]
fn without_root_both_ends_run_inside_and_anything_else_is_explained() {
    if skipped() {
        return;
    }
    let may = Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "unshare",
            "-Un",
            QUICKSET,
            "--version",
        ])
        .output();
    if !may.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: nobody may make no user namespaces here, or not run {QUICKSET}");
        return;
    }
    let folder = Folder::new("open");
    let words = ["--delay", "10ms", "--far", QUICKSET_SERVER, "--", "sh", "-c"];
    let output =
        as_nobody(&folder, "666").args(words).arg(format!("id -u; {QUICKSET_CLIENT}")).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let told = text(&output.stdout);
    assert!(told.starts_with("65534\n") && told.contains("\"bytes\""), "{told}");

    let folder = Folder::new("closed");
    let output = as_nobody(&folder, "600").args(words).arg("true").output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("chmod 0666 /dev/net/tun"), "{}", text(&output.stderr));

    let folder = Folder::new("alone");
    let output = as_nobody(&folder, "666").args(["--delay", "10ms", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("--far"), "{}", text(&output.stderr));
}
