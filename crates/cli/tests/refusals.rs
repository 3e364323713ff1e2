//! Interfaces, addresses and routes that change or are not there, as those who transfer something meet them.
//! Namespaces take root and iproute2; without them these tests say so and check nothing.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

const QUICKSET: &str = env!("CARGO_BIN_EXE_quickset");

/// Two machines with an interface each, joined by 10 Mbit/s each way. The server is .1, the client .2.
struct Net {
    server: String,
    client: String,
}

impl Net {
    /// `None` where there are no namespaces, which it says.
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let [server, client] = ["s", "c"].map(|side| format!("qs{}{side}{n}", std::process::id()));
        let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        let made = Command::new("ip").args(["netns", "add", &server]).stderr(Stdio::null()).status();
        if !root || !made.is_ok_and(|status| status.success()) {
            eprintln!("SKIPPED: it takes root, namespaces and iproute2");
            return None;
        }
        run(&["netns", "add", &client]);
        run(&["link", "add", "v", "netns", &server, "type", "veth", "peer", "name", "v", "netns", &client]);
        let net = Self { server, client };
        for (side, n) in [(&net.server, 1), (&net.client, 2)] {
            run(&["-n", side, "addr", "add", &format!("10.99.0.{n}/24"), "dev", "v"]);
            run(&["-n", side, "addr", "add", &format!("fd99::{n}/64"), "dev", "v", "nodad"]);
            for link in ["lo", "v"] {
                run(&["-n", side, "link", "set", link, "up"]);
            }
            let shaped = Command::new("ip")
                .args(["netns", "exec", side, "tc", "qdisc", "add", "dev", "v", "root"])
                .args(["tbf", "rate", "10mbit", "burst", "30k", "latency", "50ms"])
                .status();
            assert!(shaped.unwrap().success(), "a link of 10 Mbit/s");
        }
        Some(net)
    }

    /// A command in the namespace of a side.
    fn command(side: &str, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", side, QUICKSET]).args(words).stdin(Stdio::null());
        command
    }

    fn quickset(&self, words: &[&str]) -> Output {
        Self::command(&self.client, words).output().unwrap()
    }

    /// A server of `perf`, until it is dropped.
    fn perf_server(&self, listen: &str) -> Server {
        let mut command = Self::command(&self.server, &["perf", "server", "--listen", listen]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("listening on"), "{line}");
        Server(child)
    }

    /// Transfers 4 MB, which takes 3.4 s of itself, and compares each of them. Returns how long it took, or
    /// what was said.
    fn transfer(&self, from: &str, upload: bool) -> JoinHandle<Result<f64, String>> {
        let mut words = vec!["perf", "client", from, "--insecure", "--bytes", "4MB", "--json"];
        words.extend(upload.then_some("--upload"));
        let mut command = Self::command(&self.client, &words);
        thread::spawn(move || {
            let began = Instant::now();
            let output = command.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            if output.status.success() { Ok(began.elapsed().as_secs_f64()) } else { Err(said) }
        })
    }

    /// Waits until a tenth of it is through.
    fn is_under_way(&self) {
        let limit = Instant::now() + Duration::from_secs(20);
        let counted = || {
            let show = ["-n", &self.client, "-s", "-j", "link", "show", "v"];
            let output = Command::new("ip").args(show).output().unwrap();
            let link: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let bytes = |way: &str| link[0]["stats64"][way]["bytes"].as_u64().unwrap();
            bytes("rx") + bytes("tx")
        };
        while counted() < 400_000 {
            assert!(Instant::now() < limit, "nothing moves");
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for side in [&self.server, &self.client] {
            let _ = Command::new("ip").args(["netns", "del", side]).status();
        }
    }
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `ip` does in the namespace of a side.
fn on(side: &str, words: &[&str]) {
    run(&[&["-n", side], words].concat());
}

fn run(words: &[&str]) {
    let output = Command::new("ip").args(words).output().unwrap();
    assert!(output.status.success(), "ip {words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

const BOTH: [bool; 2] = [false, true];
const ADDRESSES: [&str; 2] = ["10.99.0.1:4433", "[fd99::1]:4433"];

/// What happens in the middle of a transfer, in both directions and both families: it comes to its end, in so
/// many seconds more than it takes anyway.
fn survives(happens: fn(&Net, &str), sides: &[fn(&Net) -> &str], most: f64) {
    // One after the other: what is measured is not how many transfers a processor bears.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let transfers: Vec<_> = sides
        .iter()
        .flat_map(|side| BOTH.map(|upload| ADDRESSES.map(|address| (*side, upload, address))))
        .flatten()
        .map(|(side, upload, address)| {
            thread::spawn(move || {
                let Some(net) = Net::new() else { return };
                let _server = net.perf_server("[::]:4433");
                let transfer = net.transfer(address, upload);
                net.is_under_way();
                happens(&net, side(&net));
                let what = format!("of {}, upload {upload}, {address}", side(&net));
                match transfer.join().unwrap() {
                    Ok(took) => assert!(took < 3.4 + most, "{what}: {took:.1} s"),
                    Err(said) => panic!("{what}: {said}"),
                }
            })
        })
        .collect();
    // All of them, so that nothing is left of any.
    let ends: Vec<_> = transfers.into_iter().map(JoinHandle::join).collect();
    for end in ends {
        end.unwrap();
    }
}

fn server(net: &Net) -> &str {
    &net.server
}

fn client(net: &Net) -> &str {
    &net.client
}

/// RFC 9000 §14.3: a VPN comes up at either end.
#[test]
fn an_interface_that_takes_less_is_followed() {
    survives(|_, side| on(side, &["link", "set", "v", "mtu", "1300"]), &[server, client], 3.0);
}

#[test]
fn a_route_that_is_gone_for_three_seconds_costs_little_more() {
    let happens = |_: &Net, side: &str| {
        for (family, prefix) in [("-4", "10.99.0.0/24"), ("-6", "fd99::/64")] {
            on(side, &[family, "route", "del", prefix, "dev", "v"]);
            on(side, &[family, "route", "add", "unreachable", prefix, "metric", "5000"]);
        }
        thread::sleep(Duration::from_secs(3));
        for (family, prefix) in [("-4", "10.99.0.0/24"), ("-6", "fd99::/64")] {
            on(side, &[family, "route", "add", prefix, "dev", "v", "metric", "256"]);
        }
    };
    survives(happens, &[server, client], 3.0 + 5.0);
}

#[test]
fn an_interface_that_is_down_for_two_seconds_is_waited_for() {
    let happens = |net: &Net, side: &str| {
        on(side, &["link", "set", "v", "down"]);
        thread::sleep(Duration::from_secs(2));
        on(side, &["link", "set", "v", "up"]);
        // IPv6 takes the addresses away, and IPv4 the routes, which come back by themselves.
        let n = if side == net.server { 1 } else { 2 };
        on(side, &["addr", "replace", &format!("fd99::{n}/64"), "dev", "v", "nodad"]);
    };
    survives(happens, &[server, client], 2.0 + 5.0);
}

/// RFC 9000 §9: who loses its address goes on from another one.
#[test]
fn a_client_goes_on_from_its_new_address() {
    let happens = |_: &Net, side: &str| {
        for (old, new) in [("10.99.0.2/24", "10.99.0.7/24"), ("fd99::2/64", "fd99::7/64")] {
            on(side, &["addr", "del", old, "dev", "v"]);
            thread::sleep(Duration::from_millis(300));
            let nodad: &[&str] = if new.contains(':') { &["nodad"] } else { &[] };
            on(side, &[&["addr", "add", new, "dev", "v"], nodad].concat());
        }
    };
    survives(happens, &[client], 4.0);
}

#[test]
fn a_server_whose_address_comes_back_is_still_there() {
    let happens = |_: &Net, side: &str| {
        for (address, nodad) in [("10.99.0.1/24", &[][..]), ("fd99::1/64", &["nodad"][..])] {
            on(side, &["addr", "del", address, "dev", "v"]);
            thread::sleep(Duration::from_secs(1));
            on(side, &[&["addr", "add", address, "dev", "v"], nodad].concat());
        }
    };
    survives(happens, &[server], 2.0 + 4.0);
}

/// Of a handshake of which nothing can leave, or that nobody takes, the system knows at once.
#[test]
fn who_cannot_be_reached_is_told_at_once_and_why() {
    let Some(net) = Net::new() else { return };
    on(&net.client, &["route", "add", "prohibit", "10.8.0.0/24"]);
    on(&net.client, &["route", "add", "unreachable", "10.9.0.0/24"]);
    on(&net.client, &["-6", "route", "add", "prohibit", "fd08::/64"]);
    on(&net.server, &["route", "add", "unreachable", "10.7.0.0/24"]);
    on(&net.client, &["route", "add", "10.7.0.0/24", "via", "10.99.0.1"]);
    run(&["netns", "exec", &net.server, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"]);
    let narrow = Net::new().unwrap();
    on(&narrow.client, &["link", "set", "v", "mtu", "1220"]);
    for (net, address, said, step) in [
        (&net, "10.8.0.1:4433", "the system refuses to send: Permission denied", "firewall"),
        (&net, "[fd08::1]:4433", "the system refuses to send: Permission denied", "firewall"),
        (&net, "10.9.0.1:4433", "the system refuses to send: No route to host", "check the address"),
        (&net, "10.11.0.1:4433", "the system refuses to send: Network is unreachable", "connected to"),
        // What is there, and takes nothing.
        (&net, "10.99.0.1:4433", "refuses: Connection refused", "whether the server runs"),
        (&net, "[fd99::1]:4433", "refuses: Connection refused", "whether the server runs"),
        (&net, "10.7.0.1:4433", "No route to host", "check the address"),
        // RFC 9000 §14: 1200 bytes and the headers of IPv4 are more.
        (&narrow, "10.99.0.1:4433", "the system refuses to send: Message too long", "1200 bytes"),
    ] {
        let began = Instant::now();
        let output = net.quickset(&["http", "get", &format!("https://{address}/"), "--insecure"]);
        let words = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && words.contains(said) && words.contains(step),
            "{address}: {words}"
        );
        assert!(began.elapsed() < Duration::from_secs(3), "{address}: {:?}", began.elapsed());
        let began = Instant::now();
        let words = view(net, address, said);
        assert!(words.contains(step), "{address}: {words}");
        assert!(began.elapsed() < Duration::from_secs(3), "{address}: {:?}", began.elapsed());
    }
}

/// What `desktop view` says, until it has said this or for ten seconds; it goes on trying.
fn view(net: &Net, address: &str, said: &str) -> String {
    let words = ["desktop", "view", address, "--insecure", "--listen", "127.0.0.1:0"];
    let mut command = Net::command(&net.client, &words);
    let folder = std::env::temp_dir().join(format!("quickset-refusals-{}", std::process::id()));
    command.env("HOME", &folder).env("XDG_CONFIG_HOME", &folder).env("XDG_DATA_HOME", &folder);
    let mut child = Server(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stderr.take().unwrap()).lines();
    let (tell, hear) = mpsc::channel();
    let reader = thread::spawn(move || lines.map_while(Result::ok).all(|line| tell.send(line).is_ok()));
    let mut all = String::new();
    while let Ok(line) = hear.recv_timeout(Duration::from_secs(10)) {
        all += &line;
        if all.contains(said) {
            break;
        }
    }
    drop((child, hear));
    reader.join().unwrap();
    let _ = std::fs::remove_dir_all(folder);
    all
}
