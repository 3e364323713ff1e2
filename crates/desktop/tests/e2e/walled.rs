//! Three networks in a row, of which the middle one is a router with a firewall: nftables of the kernel, as a
//! company or a hotel has it. They have no names, and go with the test and what it started.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns, unshare};

/// The calling thread is on the far side as long as it lives, and so is what it starts.
pub(crate) struct Walled {
    before: File,
    far: File,
    router: File,
    near: File,
}

/// Where the far side is reached.
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 97, 1, 1);
/// Where the near side is.
pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 97, 2, 1);

/// What becomes of UDP on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Verdict {
    /// It disappears.
    Drop,
    /// Whoever sends it is told that it did not arrive.
    Reject,
}

impl Walled {
    /// `None` where there are no namespaces or no nftables, which it says.
    pub(crate) fn new() -> Option<Self> {
        let Ok(before) = here() else {
            eprintln!("SKIPPED: there is no /proc with namespaces");
            return None;
        };
        if unshare(CloneFlags::CLONE_NEWNET).is_err() {
            eprintln!("SKIPPED: it takes root and network namespaces");
            return None;
        }
        let fresh = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            here().unwrap()
        };
        let net = Self { before, far: fresh(), router: fresh(), near: fresh() };
        let made = net.on(&net.router, || run("nft", &["add", "table", "inet", "wall"]));
        if made.is_err() {
            eprintln!("SKIPPED: it takes nftables, and a kernel that has them: {made:?}");
            return None;
        }
        for (side, device, host, gate) in
            [(&net.far, "far", FAR, "10.97.1.2"), (&net.near, "near", NEAR, "10.97.2.2")]
        {
            // What is called the same in each process is what it has opened itself.
            let router = format!("/proc/{}/fd/{}", std::process::id(), net.router.as_raw_fd());
            net.on(side, || {
                let pair = ["link", "add", "v", "type", "veth", "peer", "name", device, "netns", &router];
                run("ip", &pair).unwrap();
                run("ip", &["addr", "add", &format!("{host}/24"), "dev", "v"]).unwrap();
                for link in ["lo", "v"] {
                    run("ip", &["link", "set", link, "up"]).unwrap();
                }
            });
            net.on(&net.router, || {
                run("ip", &["addr", "add", &format!("{gate}/24"), "dev", device]).unwrap();
                run("ip", &["link", "set", device, "up"]).unwrap();
            });
            net.on(side, || run("ip", &["route", "add", "default", "via", gate]).unwrap());
        }
        net.on(&net.router, || {
            fs::write("/proc/sys/net/ipv4/ip_forward", "1").unwrap();
            let chain = "{ type filter hook forward priority 0; policy accept; }";
            run("nft", &["add", "chain", "inet", "wall", "forward", chain]).unwrap();
        });
        setns(&net.far, CloneFlags::CLONE_NEWNET).unwrap();
        Some(net)
    }

    /// Lets no UDP through any more, in either direction.
    pub(crate) fn block(&self, verdict: Verdict) {
        let word = format!("{verdict:?}").to_lowercase();
        let rule = ["add", "rule", "inet", "wall", "forward", "meta", "l4proto", "udp", "counter", &word];
        self.on(&self.router, || run("nft", &rule)).unwrap();
    }

    /// Lets it through again. How many packets were stopped.
    pub(crate) fn open(&self) -> u64 {
        let rules =
            self.on(&self.router, || run("nft", &["list", "chain", "inet", "wall", "forward"])).unwrap();
        let counted = rules.split("packets ").nth(1).and_then(|rest| rest.split(' ').next());
        self.on(&self.router, || run("nft", &["flush", "chain", "inet", "wall", "forward"])).unwrap();
        counted.and_then(|count| count.parse().ok()).expect("a rule was there, and has counted")
    }

    /// Does something as somebody on the near side: sockets and programs that come of it stay there.
    pub(crate) fn near<T>(&self, deed: impl FnOnce() -> T) -> T {
        self.on(&self.near, deed)
    }

    /// In another of the networks, and back to the far one.
    fn on<T>(&self, side: &File, deed: impl FnOnce() -> T) -> T {
        setns(side, CloneFlags::CLONE_NEWNET).unwrap();
        let done = deed();
        setns(&self.far, CloneFlags::CLONE_NEWNET).unwrap();
        done
    }
}

impl Drop for Walled {
    fn drop(&mut self) {
        // The thread may have another test to do.
        let _ = setns(&self.before, CloneFlags::CLONE_NEWNET);
    }
}

/// The network of the calling thread.
fn here() -> std::io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

/// What a program prints, or what it complains of.
fn run(program: &str, words: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(format!("{program} {words:?}: {}", String::from_utf8_lossy(&output.stderr)))
    }
}
