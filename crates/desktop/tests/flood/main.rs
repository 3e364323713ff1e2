//! Servers under a flood of first packets, as `quickset` runs them: does whoever is new get in? `cargo xtask
//! flood` runs it.
//!
//! The flood comes over the loopback from many addresses of it, from a process on a core of its own; a part
//! of it are hellos that open, and a part is noise in their form. Nothing of it leaves the machine, and it
//! ends after a minute at the latest.

#![expect(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "numbers in tests are small, or cut on purpose"
)]

mod flooder;
#[expect(dead_code, reason = "as much of it as a viewer needs that only looks")]
#[path = "../gateway/person.rs"]
mod person;
#[expect(dead_code, reason = "a program that is started and ends is all of it that is needed")]
#[path = "../e2e/programs.rs"]
mod programs;
#[expect(dead_code, reason = "as much of it as one picture needs")]
#[path = "../gateway/vnc.rs"]
mod vnc;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use quickset::h3::{Client, Config, Request};
use quickset::{ClientConfig, Endpoint, Trust};
use quickset_desktop::LinkConfig;
use quickset_desktop::trust::GatewayFolder;
use quickset_desktop::view::{Credential, ServerTrust, ViewConfig, ViewGateway};

use flooder::Flood;
use person::Person;
use programs::Program;
use vnc::Vnc;

/// How long a condition may take.
const LIMIT: Duration = Duration::from_secs(20);

/// What is to be tried, from the environment.
struct Plan {
    /// The command that serves.
    binary: PathBuf,
    /// First packets a second.
    rate: u64,
    tries: usize,
    /// How long a newcomer may take in 19 of 20 tries, beside the round trips, of which there is hardly
    /// anything here.
    within: Duration,
}

/// What newcomers saw.
struct Seen {
    waits: Vec<Option<Duration>>,
    /// First packets sent, and those of them that the system threw away.
    sent: u64,
    drops: u64,
}

#[test]
#[ignore = "a minute of load on two cores: cargo xtask flood"]
fn newcomers_get_in_during_a_flood() {
    if flooder::is_asked() {
        return flooder::run();
    }
    let plan = Plan::read();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    println!(
        "{} first packets a second, {} newcomers a row; a row is within {:?} in 19 of 20 or fails",
        plan.rate, plan.tries, plan.within
    );
    println!(
        "{:<28} {:>9} {:>9} {:>9} {:>10} {:>12}",
        "server", "in time", "median", "most", "flood", "dropped"
    );
    let late: Vec<String> = runtime.block_on(async {
        let mut late = Vec::new();
        for limit in [50, 500, 10_000] {
            late.extend(plan.http(limit).await);
        }
        for limit in [50, 500, 10_000] {
            late.extend(Box::pin(plan.desktop(limit)).await);
        }
        late
    });
    assert!(late.is_empty(), "too few in time: {}", late.join(", "));
}

impl Plan {
    fn read() -> Self {
        let number = |name: &str, usual: u64| {
            std::env::var(name)
                .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text}")))
        };
        let built = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/debug/quickset");
        Self {
            binary: std::env::var_os("QUICKSET_FLOOD_BINARY").map_or_else(built, PathBuf::from),
            rate: number("QUICKSET_FLOOD_RATE", 50_000).min(200_000),
            tries: number("QUICKSET_FLOOD_TRIES", 20).clamp(1, 100) as usize,
            within: Duration::from_millis(number("QUICKSET_FLOOD_MS", 150)),
        }
    }

    /// The command on the first core.
    fn command(&self, home: &Path) -> Command {
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(&self.binary).env("HOME", home).env_remove("XDG_DATA_HOME");
        command
    }

    async fn http(&self, limit: usize) -> Vec<String> {
        let home = Home::new();
        std::fs::create_dir(home.0.join("site")).unwrap();
        std::fs::write(home.0.join("site/a.txt"), "an answer").unwrap();
        let mut command = self.command(&home.0);
        command.args(["http", "serve", "site", "--listen", "127.0.0.1:0", "--no-tcp"]).current_dir(&home.0);
        let mut server = Program::start(command.args(["--max-connections", &limit.to_string()]));
        let at = server.prints("where it listens", listening).await;
        let answer = async |_| {
            let endpoint = Endpoint::client().unwrap();
            let config = ClientConfig::new(Trust::insecure(), &["h3"]).unwrap();
            let connection = endpoint.connect(at, "localhost", &config).await.ok()?;
            let client = Client::new(&connection, Config::default()).ok()?;
            let (_, mut content) = client.fetch(&Request::new("GET", "localhost", "/a.txt")).await.ok()?;
            (content.read_to_end(100).await.ok()? == b"an answer").then_some(())
        };
        self.row(&format!("http serve, {limit}"), at, answer).await
    }

    async fn desktop(&self, limit: usize) -> Vec<String> {
        let (home, vnc) = (Home::new(), Vnc::start(64, 48).await);
        vnc.fill(quickset_rfb::Rect::new(3, 5, 20, 20).unwrap(), 0x00ff_8000);
        let folder = GatewayFolder::at(home.0.join("client"));
        let key = folder.client_identity().unwrap().fingerprint();
        let authorised = home.0.join("authorised");
        quickset_desktop::trust::Authorized::at(&authorised)
            .add(key, &quickset_desktop::trust::DeviceRights::default(), "viewer")
            .unwrap();
        let mut command = self.command(&home.0);
        command.args(["desktop", "serve", "--listen", "127.0.0.1:0", "--vnc", &vnc.address.to_string()]);
        command.args(["--max-viewers", &limit.to_string()]).arg("--authorized").arg(&authorised);
        let mut server = Program::start(&mut command);
        let at = server.prints("where it listens", listening).await;
        let picture = async |_| {
            let view = ViewGateway::start(ViewConfig {
                server: at.to_string(),
                listen: "127.0.0.1:0".parse().unwrap(),
                trust: ServerTrust::Anybody,
                credential: Credential::None,
                desktop: None,
                identity: folder.client_identity().unwrap(),
                viewer_password: None,
                sound: None,
                link: LinkConfig::default(),
            });
            let view = view.await.ok()?;
            let seen = async |address| Person::sit(address).await.sees(&vnc).await;
            let address = view.local_addr();
            tokio::select! {
                () = seen(address) => Some(()),
                _ = view.run() => None,
            }
        };
        Box::pin(self.row(&format!("desktop serve, {limit}"), at, picture)).await
    }

    /// Newcomers without a flood, and with one; the names of the rows in which too many were late.
    async fn row(
        &self,
        server: &str,
        at: SocketAddr,
        newcomer: impl AsyncFn(usize) -> Option<()>,
    ) -> Vec<String> {
        let mut late = Vec::new();
        for rate in [0, self.rate] {
            let flood = Flood::start(at, rate);
            // It is there before anybody comes.
            tokio::time::sleep(Duration::from_millis(500)).await;
            let drops = drops(at);
            let mut waits = Vec::new();
            for n in 0..self.tries {
                let begun = Instant::now();
                let came = tokio::time::timeout(PATIENCE, newcomer(n)).await;
                waits.push(came.ok().flatten().map(|()| begun.elapsed()));
                tokio::time::sleep(PAUSE).await;
            }
            let drops = self::drops(at) - drops;
            let seen = Seen { waits, sent: flood.stop(), drops };
            let name = format!("{server}{}", if rate == 0 { ", quiet" } else { "" });
            if !seen.tell(&name, self.within) {
                late.push(name);
            }
        }
        late
    }
}

impl Seen {
    /// Prints the row. False when too many were late.
    fn tell(&self, name: &str, within: Duration) -> bool {
        let mut waits: Vec<Duration> = self.waits.iter().map(|wait| wait.unwrap_or(Duration::MAX)).collect();
        waits.sort();
        let in_time = waits.iter().filter(|wait| **wait <= within).count();
        let spoken = |wait: Duration| match wait {
            Duration::MAX => "never".to_owned(),
            wait => format!("{:.1} ms", wait.as_secs_f64() * 1000.0),
        };
        let of = waits.len();
        let (median, most) = (spoken(waits[of / 2]), spoken(waits[of - 1]));
        println!(
            "{name:<28} {:>9} {median:>9} {most:>9} {:>10} {:>12}",
            format!("{in_time}/{of}"),
            self.sent,
            self.drops
        );
        in_time * 20 >= of * 19
    }
}

/// Datagrams that the system has thrown away for want of room at this socket (`/proc/net/udp`).
fn drops(at: SocketAddr) -> u64 {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap_or_default();
    let port = format!(":{:04X}", at.port());
    let of = |line: &str| {
        let mut words = line.split_whitespace();
        let is_it = words.nth(1).is_some_and(|local| local.ends_with(&port));
        is_it.then(|| words.last()?.parse::<u64>().ok()).flatten()
    };
    table.lines().filter_map(of).sum()
}

fn listening(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("listening on ")?.split_whitespace().next()?.parse().ok()
}

/// A folder that is gone after the test.
struct Home(PathBuf);

impl Home {
    fn new() -> Self {
        static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let n = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("quickset-flood-{}-{n}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// How long a newcomer is waited for.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two of them.
const PAUSE: Duration = Duration::from_millis(50);
